//! A recording of what a consumer sees: a folder as `quoteway record` makes it, which `quoteway replay` plays, or lines of JSON that `sink-driven-src -Q`
//! plays and `dump --from-json` reads.

use super::args::Args;
use anyhow::anyhow;
use record::{Clock, Handover, Item, ItemId, Kind, RecorderConfig};
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, LeftOut, Settings};
use rwf::msg::MsgClass;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// A recording that goes on.
pub(super) enum Recorder {
    Folder(Box<Recording>),
    Lines(Lines),
}

impl Recorder {
    /// A new file or folder, or more of a folder that has a recording; `now` is the time 0 of lines.
    pub(super) fn create(path: &Path, args: &Args, now: u64) -> anyhow::Result<Self> {
        let is_lines = path.extension().is_some_and(|ending| ending == "jsonl" || ending == "json");
        if args.record_json && !is_lines {
            return Err(anyhow!("--record-json writes lines of JSON: give the file of --record the ending .jsonl"));
        }
        if is_lines {
            return Lines::create(path, args, now).map(Self::Lines);
        }
        Recording::create(path, args).map(|recording| Self::Folder(Box::new(recording)))
    }

    /// Takes a message about an item.
    pub(super) fn take(&mut self, now: u64, mount: u32, name: &str, msg: &[u8], dictionary: &Dictionary) {
        match self {
            Self::Folder(recording) => recording.take(mount, name, msg),
            Self::Lines(lines) => lines.take(now, mount, name, msg, dictionary),
        }
    }

    /// Writes out what waits.
    ///
    /// # Errors
    /// The first that happened since the last call.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Folder(recording) => recording.flush(),
            Self::Lines(lines) => lines.flush(),
        }
    }
}

/// A folder, written by a thread of its own.
pub(super) struct Recording {
    /// Given up before the recorder ends.
    handover: Option<Handover>,
    recorder: record::Recorder,
    clock: Clock,
    service: String,
    items: HashMap<(u32, u8, Box<str>), ItemId>,
    lost: u64,
}

impl Recording {
    fn create(path: &Path, args: &Args) -> anyhow::Result<Self> {
        let (recorder, damage) = record::Recorder::start(path, RecorderConfig::default())?;
        for found in damage {
            eprintln!("{}: {}", path.display(), net::plain::escaped(&found.to_string()));
        }
        Ok(Self {
            handover: Some(recorder.handover()),
            recorder,
            clock: Clock::start(),
            service: args.service.clone(),
            items: HashMap::new(),
            lost: 0,
        })
    }

    fn take(&mut self, mount: u32, name: &str, msg: &[u8]) {
        let (Some(handover), Some(class), Some(domain)) =
            (&mut self.handover, rwf::peek::class(msg), rwf::peek::domain(msg))
        else {
            return;
        };
        let kind = match class {
            MsgClass::REFRESH => Kind::Refresh,
            MsgClass::UPDATE => Kind::Update,
            MsgClass::STATUS => Kind::Status,
            _ => return,
        };
        let domain = domain.0;
        let service = &self.service;
        let item = *self.items.entry((mount, domain, name.into())).or_insert_with(|| {
            // What several mounts see of an item is several items.
            let service = if mount == 0 { service.clone() } else { format!("{service} mount {mount}") };
            handover.item(&Item { service: service.into(), domain, name: name.into() })
        });
        self.lost += u64::from(!handover.message(kind, Some(item), self.clock.now(), msg));
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(handover) = &mut self.handover {
            handover.flush();
        }
        let lost = std::mem::take(&mut self.lost);
        match self.recorder.status().trouble {
            Some(trouble) => Err(io::Error::other(trouble)),
            None if lost > 0 => {
                Err(io::Error::other(format!("{lost} messages found no room: the disk does not follow")))
            }
            None => Ok(()),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // The recorder ends when nobody hands over any more.
        self.handover = None;
    }
}

/// A file of lines.
pub(super) struct Lines {
    out: BufWriter<File>,
    started: u64,
    as_json: bool,
    mounts: u32,
    line: String,
    failed: Option<io::Error>,
}

impl Lines {
    /// A new file; `now` is the time 0 of the recording.
    fn create(path: &Path, args: &Args, now: u64) -> anyhow::Result<Self> {
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

    fn take(&mut self, now: u64, mount: u32, name: &str, msg: &[u8], dictionary: &Dictionary) {
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

    fn flush(&mut self) -> io::Result<()> {
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

    /// What a folder has is a recording as any other.
    #[test]
    fn a_folder_is_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("today");
        let args = Args::parse_from(["test-client", "--service", "FEED", "--record", "unused"]);
        let mut recorder = Recorder::create(&path, &args, 0).unwrap();
        let messages = [update(&[22]), update(&[25])];
        for (mount, message) in (0..).zip(&messages) {
            recorder.take(0, mount, "IBM.N", message, &Dictionary::builtin());
        }
        recorder.flush().unwrap();
        drop(recorder);
        let recording = record::Recording::open(record::Folder::to_read(&path)).unwrap();
        assert!(!recording.info().is_open);
        let mut cursor = recording.from_time(0);
        let mut found = Vec::new();
        while let Some(entry) = cursor.next().unwrap() {
            found.push((entry.item.unwrap().service.to_string(), entry.record.body.to_vec()));
        }
        let [first, second] = messages;
        assert_eq!(found, [("FEED".to_owned(), first), ("FEED mount 1".to_owned(), second)]);
        let json = Args::parse_from(["test-client", "--record", "today", "--record-json"]);
        assert!(Recorder::create(&path, &json, 0).is_err(), "lines are no folder");
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
