//! Texts of scenarios as HTML.

use super::svg::escape;

/// Text of a scenario, with the words in back quotes as code.
pub(crate) fn prose(text: &str) -> String {
    let mut out = String::new();
    for (n, part) in escape(text).split('`').enumerate() {
        out += match n {
            0 => "",
            n if n % 2 == 1 => "<code>",
            _ => "</code>",
        };
        out += part;
    }
    // Every quote that was opened is closed.
    if text.matches('`').count() % 2 == 1 { out + "</code>" } else { out }
}
