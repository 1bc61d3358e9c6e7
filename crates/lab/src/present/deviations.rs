//! What a test has in common with the report's and what not, as tables.

use std::fmt::Write as _;

use super::html::prose::prose;
use crate::results::{Deviation, Same};

/// The table at a glance: what differs, and what the report does not say.
fn glance(all: &[Deviation]) -> String {
    let of = |same: Same| {
        let aspects: Vec<&str> = all.iter().filter(|d| d.same == same).map(|d| d.aspect).collect();
        aspects.join(", ")
    };
    let not_said = of(Same::NotSaid);
    let not_said = if not_said.is_empty() { String::new() } else { format!("; not said there: {not_said}") };
    format!("Where this differs from the report: {}{not_said}", of(Same::No))
}

/// As HTML; nothing for what repeats no report.
pub fn html(all: &[Deviation]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<details class=\"deviations\"><summary>{}</summary><div class=\"scroll\"><table><tr><th></th><th class=\"text\">report</th><th class=\"text\">here</th><th>same</th></tr>\n",
        glance(all)
    );
    for Deviation { aspect, original, ours, same } in all {
        let _ = writeln!(
            out,
            "<tr><td>{aspect}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td></tr>",
            prose(original),
            prose(ours),
            same.word()
        );
    }
    out + "</table></div></details>\n"
}

/// As Markdown.
pub fn markdown(all: &[Deviation]) -> String {
    let mut out = String::new();
    if !all.is_empty() {
        let _ = writeln!(out, "\n{}.", glance(all));
        out.push_str("\n| | report | here | same |\n|---|---|---|---|\n");
    }
    for Deviation { aspect, original, ours, same } in all {
        let _ = writeln!(out, "| {aspect} | {original} | {ours} | {} |", same.word());
    }
    out
}
