//! Segments of a recording on their way into an object store, as a dataset of Parquet files in parts as Hive names them.
//!
//! A segment that is closed becomes tables, a file a domain, day and service, in a folder beside the recording; they are put, and behind them the
//! segment's *note*, an object that says what it has become. Names of objects are those of recording and segment, so that what is put twice is put in
//! its own place; a segment whose note is there is not put again.

use crate::config::{Config, Progress, Start};
use crate::error::Error;
use crate::objects::{Failed, Objects, name_below};
use crate::place::Place;
use crate::retry::Retry;
use record::{Folder, Recording, SegmentInfo};
use record_files::{Failure, FileForm, TableConfig, Tables, Wanted, Written};
use record_io::dictionary_at;
use rwf::dictionary::Dictionary;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often a recording is looked at that has no new segment.
const LOOK: Duration = Duration::from_millis(100);
/// What a segment has become.
struct Made {
    written: Written,
    note: Vec<u8>,
}

/// Sends segments until `stop` says so.
pub(crate) async fn send(
    config: &Config,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Progress, Error> {
    let mut sending = Sending::begin(config)?;
    while !stop() {
        sending.recording.look_again(sending.next)?;
        let due = sending.due();
        sending.count_removed(due.as_ref());
        sending.progress.behind = sending.recording.next_sequence().saturating_sub(sending.next);
        tell(&sending.progress);
        match due {
            Some(segment) => sending.deliver(&segment, stop, tell).await?,
            None if config.until_end && sending.is_over() => break,
            None => tokio::time::sleep(LOOK).await,
        }
    }
    sending.clear()?;
    tell(&sending.progress);
    Ok(sending.progress)
}

struct Sending<'c> {
    config: &'c Config,
    recording: Recording<Folder>,
    place: Place,
    /// All records before this were put.
    next: u64,
    /// Where tables are made.
    tables: PathBuf,
    progress: Progress,
    retry: Retry,
}

impl<'c> Sending<'c> {
    fn begin(config: &'c Config) -> Result<Self, Error> {
        let recording = Recording::open(Folder::to_read(&config.folder))?;
        let place = Place::new(&config.folder, &config.target.to_string());
        let next = match (place.read(recording.id())?, config.start) {
            (Some(next), _) => next,
            (None, Start::Beginning) => 0,
            (None, Start::Now) => recording.next_sequence(),
        };
        let tables = place.folder_of_tables();
        Ok(Self { config, recording, place, next, tables, progress: Progress::default(), retry: Retry::new() })
    }

    /// The first segment that is closed and was not put, unless one before it is still written.
    fn due(&self) -> Option<SegmentInfo> {
        let first = self.recording.segments().find(|segment| !segment.is_closed || segment.next > self.next);
        first.filter(|segment| segment.is_closed)
    }

    fn is_over(&self) -> bool {
        self.recording.segments().all(|segment| segment.is_closed)
    }

    /// What the recording begins with later than where this is was removed before it was put.
    fn count_removed(&mut self, due: Option<&SegmentInfo>) {
        if let Some(segment) = due.filter(|segment| self.next > 0 && segment.first > self.next) {
            self.progress.removed += segment.first - self.next;
            self.next = segment.first;
        }
    }

    /// Puts a segment, or says why not as long as it cannot.
    async fn deliver(
        &mut self,
        segment: &SegmentInfo,
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), Error> {
        let mut made = None;
        while !stop() {
            match self.try_once(segment, &mut made, stop).await? {
                Ok(()) => {
                    self.progress.trouble = None;
                    self.retry.worked();
                    self.next = segment.next;
                    return self.place.write(self.recording.id(), self.next);
                }
                Err(Failed::Stopped) => return Ok(()),
                Err(Failed::Trouble(what)) => {
                    let error = Error::Broker { target: self.config.target.to_string(), what };
                    self.progress.trouble = Some(error.to_string());
                    tell(&self.progress);
                    self.retry.rest(stop).await;
                }
            }
        }
        Ok(())
    }

    /// Puts a segment. Its tables are made once, however often it is tried.
    async fn try_once(
        &mut self,
        segment: &SegmentInfo,
        made: &mut Option<Made>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Result<(), Failed>, Error> {
        let name = format!("{:016x}-{:010}", self.recording.id(), segment.number);
        let note = format!("_segments/{name}.json");
        let objects = match Objects::open(&self.config.target, &self.config.access, stop) {
            Ok(objects) => objects,
            Err(failed) => return Ok(Err(failed)),
        };
        match objects.has(&note).await {
            Ok(false) => {}
            Ok(true) => {
                self.progress.known += segment.next - segment.first;
                return Ok(Ok(()));
            }
            Err(failed) => return Ok(Err(failed)),
        }
        let made = match made.take() {
            Some(ready) => made.insert(ready),
            None => match self.make(segment, &name, stop)? {
                Ok(Some(ready)) => made.insert(ready),
                Ok(None) => {
                    self.progress.removed += segment.next - segment.first;
                    return Ok(Ok(()));
                }
                Err(failed) => return Ok(Err(failed)),
            },
        };
        for path in &made.written.files {
            if let Err(failed) = objects.put_file(&name_below(&self.tables, path), path).await {
                return Ok(Err(failed));
            }
        }
        let put = objects.put(&note, made.note.clone()).await;
        if put.is_ok() {
            self.progress.sent += made.written.rows;
            self.progress.unfit += made.written.unfit;
            self.progress.objects += made.written.files.len() as u64;
            self.clear()?;
        }
        Ok(put)
    }

    /// Makes the tables of a segment; `None`: it was removed meanwhile.
    fn make(
        &self,
        segment: &SegmentInfo,
        name: &str,
        stop: &dyn Fn() -> bool,
    ) -> Result<Result<Option<Made>, Failed>, Error> {
        self.clear()?;
        let alone = match Recording::open(Folder::to_read(&self.config.folder.join(&segment.name))) {
            Ok(alone) => alone,
            Err(_) if !self.config.folder.join(&segment.name).exists() => return Ok(Ok(None)),
            Err(error) => return Err(error.into()),
        };
        let services: BTreeSet<Arc<str>> = alone.items().into_iter().map(|item| item.service.clone()).collect();
        let mut dictionary = None;
        for service in &services {
            dictionary = dictionary.or(dictionary_at(&alone, service, 0)?);
        }
        let dictionary = dictionary.unwrap_or_else(Dictionary::builtin);
        let wanted = Wanted { from: 0, to: u64::MAX, patterns: self.config.items.clone(), domains: Vec::new() };
        let config = TableConfig {
            scale: TableConfig::PLACES,
            fixed: true,
            by_date: true,
            by_service: true,
            ..TableConfig::default()
        };
        let to = Tables { folder: self.tables.clone(), form: FileForm::Parquet, config, part: name.to_owned() };
        match record_files::write_tables(&alone, &wanted, &dictionary, &to, stop) {
            Ok(written) => {
                let note = self.note(segment, &written)?;
                Ok(Ok(Some(Made { written, note })))
            }
            Err(Failure::Stopped) => Ok(Err(Failed::Stopped)),
            // A disk that is full may have room again.
            Err(Failure::Write(error)) => Ok(Err(Failed::Trouble(format!("{}: {error}", self.tables.display())))),
            Err(Failure::Read(error)) => Err(error.into()),
            Err(Failure::Table(error)) => Err(Error::Table { segment: segment.name.clone(), what: error.to_string() }),
        }
    }

    /// What a segment has become, for people and programs: its objects, and the records that are in them.
    fn note(&self, segment: &SegmentInfo, written: &Written) -> Result<Vec<u8>, Error> {
        let mut objects = Vec::with_capacity(written.files.len());
        for path in &written.files {
            let bytes = fs::metadata(path).map_err(|error| self.error("cannot be read", error))?.len();
            objects.push(json!({ "name": name_below(&self.tables, path), "bytes": bytes }));
        }
        let note = json!({
            "recording": format!("{:016x}", self.recording.id()),
            "segment": segment.number,
            "first_sequence": segment.first,
            "next_sequence": segment.next,
            "rows": written.rows,
            "unfit": written.unfit,
            "objects": objects,
        });
        Ok(note.to_string().into_bytes())
    }

    /// Removes the tables of an earlier segment.
    fn clear(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.tables) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.error("cannot be removed", error)),
            _ => Ok(()),
        }
    }

    fn error(&self, what: &'static str, source: io::Error) -> Error {
        Error::Place { path: self.tables.display().to_string(), what, source }
    }
}
