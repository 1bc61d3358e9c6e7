//! A recording of what a consumer sees: lines of JSON that `sink-driven-src -Q` plays and `dump --from-json` reads.

use super::args::Args;
use anyhow::anyhow;
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, LeftOut, Settings};
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
        // JSON has no place for fields that the dictionary lacks: a message with some is recorded as it came.
        let (left_out, start) = (LeftOut::default(), self.line.len());
        let converter = Converter::new(dictionary).with_settings(Settings::EXACT).counting(&left_out);
        if !self.as_json || converter.message(msg, &mut self.line).is_err() || left_out.fields() > 0 {
            self.line.truncate(start - "message\":".len());
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use rwf::msg::{Domain, UpdateMsg};
    use rwf::wire::Writer;
    use rwf::{DataType, FieldListEncoder};

    fn update(fids: &[i16]) -> Vec<u8> {
        let mut buffer = [0; 200];
        let mut w = Writer::new(&mut buffer);
        let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        update.encode_header(&mut w).unwrap();
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        for fid in fids {
            list.raw(*fid, &[0x0C, 0x30, 0x39]).unwrap();
        }
        list.finish().unwrap();
        w.written().to_vec()
    }

    #[test]
    fn fields_that_the_dictionary_lacks_are_recorded_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        let args = Args::parse_from(["test-client", "--record", "unused", "--record-json"]);
        let mut recorder = Recorder::create(&path, &args, 0).unwrap();
        let messages = [update(&[22]), update(&[22, -9999])];
        for message in &messages {
            recorder.take(0, 0, "IBM.N", message, &Dictionary::builtin());
        }
        recorder.flush().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["message"]["Fields"], serde_json::json!({"BID": 123.45}));
        let hex = messages[1].iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        assert_eq!((lines.len(), &lines[1]["rwf"], lines[1].get("message")), (2, &hex.into(), None));
    }
}
