//! A recording of what a consumer sees: lines of JSON that `sink-driven-src -Q` plays and `dump --from-json` reads.

use super::args::Args;
use anyhow::anyhow;
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Settings};
use rwf::msg::MsgClass;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// A recording that goes on.
pub(super) struct Recorder {
    out: BufWriter<File>,
    started: u64,
    as_json: bool,
    mounts: u32,
    line: String,
    failed: Option<io::Error>,
}

impl Recorder {
    /// A new file; `now` is the time 0 of the recording.
    pub(super) fn create(path: &Path, args: &Args, now: u64) -> anyhow::Result<Self> {
        let file = net::output::create(path).map_err(|e| anyhow!("recording {}: {e}", path.display()))?;
        Ok(Self {
            out: BufWriter::new(file),
            started: now,
            as_json: args.record_json,
            mounts: args.mounts,
            line: String::new(),
            failed: None,
        })
    }

    /// Takes a message about an item.
    pub(super) fn take(&mut self, now: u64, mount: u32, name: &str, msg: &[u8], dictionary: &Dictionary) {
        let class = rwf::peek::class(msg);
        if ![MsgClass::REFRESH, MsgClass::UPDATE, MsgClass::STATUS].map(Some).contains(&class) {
            return;
        }
        let seconds = now.saturating_sub(self.started) as f64 / 1e9;
        self.line.clear();
        let name = serde_json::to_string(name).unwrap_or_default();
        let _ = write!(self.line, "{{\"at\":{seconds:.6},\"item\":{name}");
        if self.mounts > 1 {
            let _ = write!(self.line, ",\"from\":\"mount {mount}\"");
        }
        self.line.push_str(",\"message\":");
        let converter = Converter::new(dictionary).with_settings(Settings::EXACT);
        if !self.as_json || converter.message(msg, &mut self.line).is_err() {
            self.line.truncate(self.line.len() - "message\":".len());
            self.line.push_str("rwf\":\"");
            for byte in msg {
                let _ = write!(self.line, "{byte:02x}");
            }
            self.line.push('"');
        }
        self.line.push('}');
        if let Err(e) = writeln!(self.out, "{}", self.line) {
            self.failed.get_or_insert(e);
        }
    }

    /// Writes out what waits.
    ///
    /// # Errors
    /// The first that happened since the last call.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }
}
