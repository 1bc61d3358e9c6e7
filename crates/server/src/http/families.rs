//! Families of metrics as `OpenMetrics` has them.

use std::fmt::Write as _;

/// The head of a family: its type, its unit if its name ends with one, its help.
pub(super) fn head(out: &mut String, family: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# TYPE {family} {kind}");
    if let Some(unit) = ["seconds", "bytes"].iter().find(|unit| family.ends_with(**unit)) {
        let _ = writeln!(out, "# UNIT {family} {unit}");
    }
    let _ = writeln!(out, "# HELP {family} {help}");
}

/// The value of a label.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
