//! Standard output of the tools: a reader that goes away (`| head`) ends the tool, it does not break it; a full disk does.

use std::io::{self, Write as _};

/// What it means for a tool that nothing more can be written ([`net::output::ended`]).
///
/// # Errors
/// Anything but a reader that has gone, as a text for the user.
pub fn ended(error: &io::Error) -> anyhow::Result<()> {
    Ok(net::output::ended(error)?)
}

/// Lines to standard output.
#[derive(Debug, Default)]
pub struct Output {
    failed: Option<io::Error>,
}

impl Output {
    /// Writes a line, at once.
    pub fn line(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
            self.failed.get_or_insert(error);
        }
    }

    /// Nobody reads any more, or nothing can be written.
    pub fn is_gone(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether all was written that somebody wanted to read.
    ///
    /// # Errors
    /// The first failure, unless it was that the reader had gone.
    pub fn finish(&self) -> anyhow::Result<()> {
        self.failed.as_ref().map_or(Ok(()), ended)
    }
}
