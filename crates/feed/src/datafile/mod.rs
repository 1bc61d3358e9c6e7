//! Data files: what a simulated source publishes, written by people, by the SDK's tools, or by a recorder.
//!
//! Three forms, told apart by their first character: raw Marketfeed (`records`: from FS to FS), XML (`xml`: the `MsgData.xml` of the SDK's performance tools, and the
//! traces that EMA and ETA write), and lines of JSON ([`super::lines`]). Either way a file is a row of messages about items;
//! recordings have times, templates have none.

mod encode;
mod records;
mod xml;

use super::lines;
use marketfeed::Losses;
use rwf::dictionary::Dictionary;
use rwf::json::Converter;
use rwf::msg::{Domain, Msg, MsgClass};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use records::convert as convert_record;

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataFile {
    /// The items, in the order in which they were mentioned first.
    pub items: Vec<DataItem>,
    /// Their messages, in the order of the file.
    pub events: Vec<DataEvent>,
    /// Messages that are about no item that can be told, or of a kind that a source does not send.
    pub skipped: usize,
    /// Contents of Marketfeed that RWF cannot carry.
    pub losses: Losses,
}

/// An item of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataItem {
    /// Its name; `None` stands for any.
    pub name: Option<String>,
    /// Its domain.
    pub domain: Domain,
}

/// A message about an item: a refresh (part), an update or a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataEvent {
    /// Nanoseconds since the beginning of the recording.
    pub at: Option<u64>,
    /// Index of the item.
    pub item: usize,
    /// The whole message. Its stream id means nothing.
    pub message: Vec<u8>,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataError {
    /// Line, from 1; 0 when it is the whole file.
    pub line: usize,
    /// The fault.
    pub what: String,
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 { f.write_str(&self.what) } else { write!(f, "line {}: {}", self.line, self.what) }
    }
}

impl std::error::Error for DataError {}

/// Why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system does not give it, or it is no text.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Its contents make no sense.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: DataError,
    },
}

impl DataFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense.
    pub fn open(path: &Path, dictionary: &Dictionary) -> Result<Self, OpenError> {
        let named = || path.to_owned();
        let read = |source| OpenError::Read { path: named(), source };
        let mut bytes = std::fs::read(path).map_err(read)?;
        if bytes.starts_with(&capture::gzip::MAGIC) {
            bytes = capture::gzip::whole(&bytes).map_err(read)?;
        }
        if records::are_there(&bytes) {
            return Self::of_records(&bytes, dictionary).map_err(|source| OpenError::Content { path: named(), source });
        }
        let invalid = |e| std::io::Error::new(std::io::ErrorKind::InvalidData, e);
        let text = String::from_utf8(bytes).map_err(|e| OpenError::Read { path: named(), source: invalid(e) })?;
        Self::parse(&text, dictionary).map_err(|source| OpenError::Content { path: named(), source })
    }

    /// Reads raw Marketfeed. Records that cannot be read, and those of which RWF knows nothing, are skipped.
    ///
    /// # Errors
    /// There is no record to publish.
    pub fn of_records(bytes: &[u8], dictionary: &Dictionary) -> Result<Self, DataError> {
        let mut builder = Builder::default();
        records::read(bytes, dictionary, &mut builder);
        builder.finish()
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first thing in it that makes no sense; or that it holds nothing to publish.
    pub fn parse(text: &str, dictionary: &Dictionary) -> Result<Self, DataError> {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let mut builder = Builder::default();
        if text.trim_start().starts_with('<') {
            for message in encode::messages(text)? {
                builder.add(None, message.name, String::new(), message.bytes);
            }
        } else {
            let entries =
                lines::read(text, Converter::new(dictionary)).map_err(|e| DataError { line: e.line, what: e.what })?;
            for entry in entries {
                let at = entry.at.map(|seconds| (seconds * 1e9) as u64);
                builder.add(at, entry.item, entry.from, entry.message);
            }
        }
        builder.finish()
    }

    /// Whether every event has a time: a recording.
    pub fn is_timed(&self) -> bool {
        self.events.iter().all(|event| event.at.is_some())
    }

    /// The events of an item.
    pub fn events_of(&self, item: usize) -> impl Iterator<Item = &DataEvent> {
        self.events.iter().filter(move |event| event.item == item)
    }
}

/// Tells items apart while messages come.
#[derive(Default)]
struct Builder {
    file: DataFile,
    known: HashMap<DataItem, usize>,
    /// Which item a stream of a session is about; said by the message that opened it.
    streams: HashMap<(String, i32), usize>,
}

impl Builder {
    fn finish(self) -> Result<DataFile, DataError> {
        if self.file.events.is_empty() {
            return Err(DataError { line: 0, what: "holds no refresh, update or status of an item".to_owned() });
        }
        Ok(self.file)
    }

    fn add(&mut self, at: Option<u64>, name: Option<String>, from: String, message: Vec<u8>) {
        let Ok(decoded) = Msg::decode(&message) else {
            self.file.skipped += 1;
            return;
        };
        let (domain, stream_id) = (decoded.domain(), decoded.stream_id());
        let key = match &decoded {
            Msg::Refresh(refresh) => refresh.key.as_ref(),
            Msg::Update(update) => update.key.as_ref(),
            Msg::Status(status) => status.key.as_ref(),
            _ => None,
        };
        let administrative = [Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY].contains(&domain);
        let sent_by_sources = matches!(decoded.class(), MsgClass::REFRESH | MsgClass::UPDATE | MsgClass::STATUS);
        if administrative || !sent_by_sources {
            self.file.skipped += 1;
            return;
        }
        let name = name.or_else(|| key.filter(|k| k.name.is_some()).map(|k| k.name_lossy().into_owned()));
        let stream = (from, stream_id);
        let item = match (name, self.streams.get(&stream)) {
            (None, Some(&item)) if self.file.items[item].domain == domain => item,
            (name, _) => self.item(DataItem { name, domain }),
        };
        self.streams.insert(stream, item);
        self.file.events.push(DataEvent { at, item, message });
    }

    fn item(&mut self, item: DataItem) -> usize {
        let count = self.file.items.len();
        let index = *self.known.entry(item.clone()).or_insert(count);
        if index == count {
            self.file.items.push(item);
        }
        index
    }
}

#[cfg(test)]
mod tests;
