//! Standard output of the tools: a reader that goes away (`| head`) ends the tool, it does not break it.

use std::io::Write as _;

/// Lines to standard output.
#[derive(Debug, Default)]
pub struct Output {
    gone: bool,
}

impl Output {
    /// Writes a line, at once.
    pub fn line(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        self.gone |= writeln!(out, "{text}").and_then(|()| out.flush()).is_err();
    }

    /// Nobody reads any more.
    pub fn is_gone(&self) -> bool {
        self.gone
    }
}
