//! The recording that is made of something else.

use anyhow::{Context as _, anyhow};
use record::{Clocks, Folder, Gap, Item, Journal, JournalConfig, Kind};
use record_columns::Row;
use rwf::State;
use rwf::dictionary::{Dictionary, Verbosity};
use rwf::msg::Domain;
use rwf::rdm::dictionary::{ENUMS, FIELDS, RefreshParts, Request};
use rwf::rdm::directory::{Action, Info, Part, Refresh, Service, ServiceState, filter};
use rwf::wire::Writer;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(2);
/// Bytes of a part of a dictionary, as a provider sends them.
const PART_BYTES: usize = 60_000;
/// Stream of a directory that is made up here; those of dictionaries come behind.
const DIRECTORY: i32 = 1;

/// Writes a recording.
pub(super) struct Sink<'d> {
    journal: Journal<Folder>,
    dictionary: &'d Dictionary,
    items: HashMap<Item, u32>,
    /// Services that have a directory.
    services: HashSet<Arc<str>>,
    buffer: Vec<u8>,
    count: u64,
    calls: u64,
    latest: u64,
    started: Instant,
    told: Instant,
}

impl<'d> Sink<'d> {
    /// A new recording in a folder. The dictionary is recorded for services that bring none.
    ///
    /// # Errors
    /// A text for the user: the folder cannot be written, or has a recording already.
    pub(super) fn begin(folder: &Path, dictionary: &'d Dictionary) -> anyhow::Result<Self> {
        let has_segment = |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|ending| ending == "qwr");
        if folder.read_dir().is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(has_segment))) {
            return Err(anyhow!("{} has a recording already: name another folder", folder.display()));
        }
        let store = Folder::to_write(folder)?;
        let journal = Journal::open(store, JournalConfig::default(), &mut Vec::new())?;
        let now = Instant::now();
        Ok(Self {
            journal,
            dictionary,
            items: HashMap::new(),
            services: HashSet::new(),
            buffer: vec![0; PART_BYTES],
            count: 0,
            calls: 0,
            latest: 0,
            started: now,
            told: now,
        })
    }

    /// Records a row of a table.
    ///
    /// # Errors
    /// A text for the user: the disk does not take it.
    pub(super) fn row(&mut self, row: &Row, share: f64) -> anyhow::Result<()> {
        match (&row.item, Gap::decode(&row.body)) {
            (None, Some(gap)) => self.gap(gap, row.clocks),
            (Some(item), _) => self.message(row.kind, item, row.clocks, &row.body)?,
            (None, None) => return Err(anyhow!("a record of no item is no gap either")),
        }
        self.progress(row.time, share)
    }

    /// Records a message of an item. The first of a service has the directory and dictionaries before it, if it is none of them.
    pub(super) fn message(&mut self, kind: Kind, item: &Item, clocks: Clocks, body: &[u8]) -> anyhow::Result<()> {
        if !self.services.contains(&item.service) {
            self.services.insert(item.service.clone());
            if !matches!(kind, Kind::Directory | Kind::Dictionary) {
                self.complete_service(&item.service, false, false, clocks)?;
            }
        }
        self.put(kind, item, clocks, body);
        self.count += 1;
        Ok(())
    }

    /// Whether something of a service was recorded.
    pub(super) fn has_service(&self, name: &str) -> bool {
        self.services.contains(name)
    }

    /// Records what is made up of a service that did not bring it: the directory, and the dictionaries that the files were read by.
    ///
    /// # Errors
    /// A text for the user: they do not fit.
    pub(super) fn complete_service(
        &mut self,
        name: &str,
        has_directory: bool,
        has_dictionaries: bool,
        clocks: Clocks,
    ) -> anyhow::Result<()> {
        self.services.insert(name.into());
        if !has_directory {
            self.directory(name, clocks).context("the directory of the recording")?;
        }
        if !has_dictionaries {
            self.dictionaries(name, clocks).context("the dictionaries of the recording")?;
        }
        Ok(())
    }

    /// Records that something is missing here.
    pub(super) fn gap(&mut self, gap: Gap, clocks: Clocks) {
        self.journal.gap(gap, clocks);
        self.count += 1;
    }

    fn put(&mut self, kind: Kind, item: &Item, clocks: Clocks, body: &[u8]) {
        let number = if let Some(number) = self.items.get(item) {
            *number
        } else {
            let number = self.journal.item(item.clone());
            self.items.insert(item.clone(), number);
            number
        };
        self.journal.append(kind, Some(number), clocks, body);
    }

    /// A service that brings no directory is up.
    fn directory(&mut self, name: &str, clocks: Clocks) -> Result<(), rwf::EncodeError> {
        let id = self.services.len() as u16;
        let mut w = Writer::new(&mut self.buffer);
        let service = Service {
            info: Some(Part::Set(Info {
                name: name.to_owned(),
                capabilities: [
                    Domain::MARKET_PRICE,
                    Domain::MARKET_BY_ORDER,
                    Domain::MARKET_BY_PRICE,
                    Domain::SYMBOL_LIST,
                ]
                .into(),
                dictionaries_used: vec![FIELDS.to_owned(), ENUMS.to_owned()],
                ..Info::default()
            })),
            state: Some(Part::Set(ServiceState::new(true))),
            ..Service::new(id, Action::Add)
        };
        let refresh = Refresh {
            stream_id: DIRECTORY,
            solicited: false,
            complete: true,
            clear_cache: true,
            sequence: None,
            state: State::OPEN_OK.into(),
            service_id: None,
            filter: Some(filter::INFO | filter::STATE),
            services: vec![service],
        };
        refresh.encode(&mut w)?;
        let message = w.written().to_vec();
        let item = Item { service: name.into(), domain: Domain::SOURCE.0, name: "".into() };
        self.put(Kind::Directory, &item, clocks, &message);
        Ok(())
    }

    /// A service that brings no dictionaries has those that the rows were read by.
    fn dictionaries(&mut self, name: &str, clocks: Clocks) -> Result<(), rwf::EncodeError> {
        let id = self.services.len() as u16;
        for (stream_id, of) in (DIRECTORY + 1..).zip([FIELDS, ENUMS]) {
            let request = Request {
                stream_id,
                service_id: Some(id),
                name: of.to_owned(),
                verbosity: Verbosity::NORMAL,
                streaming: true,
            };
            let Some(mut parts) = RefreshParts::answer(self.dictionary, &request) else { continue };
            while !parts.is_done() {
                let mut w = Writer::new(&mut self.buffer);
                parts.write(true, &mut w)?;
                let message = w.written().to_vec();
                let item = Item { service: name.into(), domain: Domain::DICTIONARY.0, name: of.into() };
                self.put(Kind::Dictionary, &item, clocks, &message);
            }
        }
        Ok(())
    }

    /// Tells how far the import is; `share` is how much of the input is read.
    ///
    /// # Errors
    /// A text for the user: the disk does not take what was recorded.
    pub(super) fn progress(&mut self, time: u64, share: f64) -> anyhow::Result<()> {
        self.latest = self.latest.max(time);
        self.calls += 1;
        if !self.calls.is_multiple_of(1_024) {
            return Ok(());
        }
        if let Some(trouble) = self.journal.trouble() {
            return Err(anyhow!("{trouble}"));
        }
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            let seconds = self.started.elapsed().as_secs_f64();
            let (count, rate, percent) = (self.count, self.count as f64 / seconds, share * 100.0);
            if share > 0.0 {
                let left = seconds / share.max(1e-3) - seconds;
                net::output::tell(format_args!("{count} records read, {rate:.0}/s, {percent:.0} %, {left:.0} s left"));
            } else {
                net::output::tell(format_args!("{count} records read, {rate:.0}/s"));
            }
        }
        Ok(())
    }

    /// Ends the recording. Gives the number of records that were read.
    ///
    /// # Errors
    /// A text for the user: the end could not be written.
    pub(super) fn finish(self) -> anyhow::Result<u64> {
        let counters = self.journal.close()?;
        if counters.lost.messages > 0 {
            return Err(anyhow!("{} messages are longer than a record can be", counters.lost.messages));
        }
        Ok(self.count)
    }
}
