//! A market source as a whole: what `quoteway demo` starts as its provider, and `sink-driven-src -Q` publishes.

use super::publisher::{MarketFeed, Publisher};
use anyhow::anyhow;
use feed::chains::Chains;
use feed::datafile::DataFile;
use feed::generator::{Generator, GeneratorConfig};
use feed::provider::{Prank, Provider, ProviderConfig};
use feed::recording::Recording;
use feed::replay::market::{ReplayConfig, TickReplay};
use feed::replay::venue::{self, Symbology, VenueConfig, VenueFile, VenueReplay};
use feed::session::{Calendar, Nanos};
use feed::{Event, InstrumentId, MarketSource, Model};
use net::tcp::SocketOptions;
use rssl::ServerConfig;
use rssl_io::RsslIo;
use rwf::dictionary::Dictionary;
use rwf::{DataState, State, StateCode, StreamState};
use std::io::{self, BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// What a market source publishes.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Name of the service.
    pub service: String,
    /// Recorded data: a folder of tick files or captures, or a capture. Names that are not in it come from the generator.
    pub data: Option<PathBuf>,
    /// How recorded data is played.
    pub replay: ReplayConfig,
    /// What only files of venues need.
    pub venue: VenueSettings,
    /// Recorded data begins when the first item of it is opened, not with the source.
    pub start_on_open: bool,
    /// Seed of the generated market.
    pub seed: u64,
    /// Multiplies the event rates of generated instruments.
    pub rate: f64,
    /// Every market price update carries a time stamp (`TIM_TRK_1`, microseconds of the monotonic clock).
    pub stamps: bool,
}

/// How files of venues are played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VenueSettings {
    /// What was before that is taken in silently: time since midnight on the venue's clock.
    pub from: Option<Nanos>,
    /// The day of a file that does not say its own, as days since 1970; `None`: that of its name, else today.
    pub date: Option<u32>,
    /// Behind each symbol of the venue; `None`: what is usual for it.
    pub suffix: Option<String>,
    /// What was fetched while a connection was recorded, if that is in another file.
    pub beside: Option<PathBuf>,
    /// CME's schema, for a capture of its messages.
    pub schema: Option<PathBuf>,
    /// File of names of symbols.
    pub symbols: Option<PathBuf>,
}

impl Default for SourceSettings {
    /// `DIRECT_FEED`, generated, at its own rate.
    fn default() -> Self {
        Self {
            service: "DIRECT_FEED".to_owned(),
            data: None,
            replay: ReplayConfig::default(),
            venue: VenueSettings::default(),
            start_on_open: false,
            seed: 1,
            rate: 1.0,
            stamps: true,
        }
    }
}

/// Recorded instruments first, generated ones for every other name.
///
/// Each part numbers its instruments itself; the composite's ids interleave them.
pub struct Composite {
    parts: Vec<Box<dyn MarketSource>>,
    recorded: Vec<String>,
    /// So many of the parts, the first ones, are recordings.
    recordings: usize,
    /// When recordings begin.
    start: Start,
    /// Readable when a part has something to take in.
    wake: Option<OwnedFd>,
}

/// How often a live source says in the log how it stands, nanoseconds.
const STATUS_EVERY: Nanos = 60_000_000_000;

/// The number under which the sockets of a live source are watched.
const WAKE: u32 = 0;

/// When recordings begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// When the first of their items is opened.
    OnOpen,
    /// Their first item was opened: with the next turn.
    Due,
    /// They began at this time.
    At(Nanos),
}

impl Composite {
    /// Opens what the settings name. Names that are not recorded come from the generator, if `generated` says so.
    /// `progress` hears what is done.
    ///
    /// # Errors
    /// Recorded data that is asked for cannot be read, or there is none.
    pub fn open(settings: &SourceSettings, generated: bool, progress: &mut dyn FnMut(&str)) -> io::Result<Self> {
        let mut composite =
            Self { parts: Vec::new(), recorded: Vec::new(), recordings: 0, start: Start::At(0), wake: None };
        if let Some(path) = &settings.data {
            composite.add_recorded(path, settings, progress)?;
            composite.begin_recordings(settings);
        }
        if generated {
            composite.add_generator(settings);
        }
        Ok(composite)
    }

    /// A recording out of a data file; other names come from the generator, if `generated` says so.
    pub fn of_recording(file: DataFile, settings: &SourceSettings, generated: bool) -> Self {
        let recording = Recording::new(file, settings.replay);
        let recorded = recording.names().to_vec();
        let parts: Vec<Box<dyn MarketSource>> = vec![Box::new(recording)];
        let mut composite = Self { recorded, parts, recordings: 0, start: Start::At(0), wake: None };
        composite.begin_recordings(settings);
        if generated {
            composite.add_generator(settings);
        }
        composite
    }

    /// What comes from outside while it is served; `wake` is readable when there is something to take in.
    pub fn live(source: Box<dyn MarketSource>, wake: OwnedFd) -> Self {
        Self { parts: vec![source], recorded: Vec::new(), recordings: 0, start: Start::At(0), wake: Some(wake) }
    }

    /// Readable when there is something to take in, of what comes from outside.
    pub fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(|wake| wake.as_fd())
    }

    /// Has the sockets of a server wake up when there is something to take in.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn wake_with(&self, io: &mut RsslIo) -> io::Result<()> {
        self.wake.as_ref().map_or(Ok(()), |wake| io.tcp().watch(wake.as_fd(), WAKE))
    }

    /// All parts so far are recordings.
    fn begin_recordings(&mut self, settings: &SourceSettings) {
        self.recordings = self.parts.len();
        if settings.start_on_open {
            self.start = Start::OnOpen;
        }
    }

    /// When a part began, on the clock of this source; `None` while it waits for somebody.
    fn began(&self, part: usize) -> Option<Nanos> {
        match self.start {
            _ if part >= self.recordings => Some(0),
            Start::At(at) => Some(at),
            Start::OnOpen | Start::Due => None,
        }
    }

    fn add_generator(&mut self, settings: &SourceSettings) {
        // Before the generator, which takes any name.
        self.parts.push(Box::new(Chains::default()));
        let calendar = Calendar::new(net::clock::wall());
        let config = GeneratorConfig { seed: settings.seed, rate: settings.rate, calendar };
        self.parts.push(Box::new(Generator::new(config)));
    }

    /// Names of the recorded ticks.
    pub fn recorded(&self) -> &[String] {
        &self.recorded
    }

    /// A capture or a recording; or a folder of ticks, of captures, or of folders with such names.
    fn add_recorded(
        &mut self,
        path: &Path,
        settings: &SourceSettings,
        progress: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let config = settings.replay;
        if path.is_file() && self.add_venue(path, settings, progress)? {
            return Ok(());
        }
        if path.is_file() && is_capture(path) {
            return Err(no_venue(path));
        }
        if path.is_file() {
            let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
            let file = DataFile::open(path, &Dictionary::builtin()).map_err(|e| invalid(e.to_string()))?;
            if !file.is_timed() {
                return Err(invalid(format!("{}: its messages have no times; it is no recording", path.display())));
            }
            let recording = Recording::new(file, config);
            self.recorded.extend(recording.names().iter().cloned());
            self.parts.push(Box::new(recording));
            return Ok(());
        }
        for folder in [path.to_owned(), path.join("us-equity-ticks"), path.join("iex")] {
            if !folder.is_dir() {
                continue;
            }
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", folder.display()));
            if let Some(ticks) = TickReplay::open(&folder, config, progress).map_err(named)? {
                self.recorded.extend(ticks.names().map(str::to_owned));
                self.parts.push(Box::new(ticks));
            }
            let mut captures: Vec<PathBuf> =
                std::fs::read_dir(&folder).map_err(named)?.flatten().map(|e| e.path()).collect();
            captures.retain(|p| is_capture(p));
            captures.sort();
            for capture in captures {
                if !self.add_venue(&capture, settings, progress)? {
                    return Err(no_venue(&capture));
                }
            }
        }
        if self.parts.is_empty() {
            let text = format!("{}: no recorded ticks and no captures there", path.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(())
    }

    /// A file of a venue; false: it is none.
    fn add_venue(
        &mut self,
        path: &Path,
        settings: &SourceSettings,
        progress: &mut dyn FnMut(&str),
    ) -> io::Result<bool> {
        let (replay, VenueSettings { from, date, suffix, beside, schema, symbols }) =
            (settings.replay, settings.venue.clone());
        let symbology = symbols.as_deref().map(Symbology::open).transpose();
        let symbology = symbology.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?.map(Arc::new);
        let said = date.or_else(|| venue::date_in_name(path));
        let config = VenueConfig {
            pace: replay.pace,
            from,
            date: said.unwrap_or_else(|| venue::day_of(net::clock::wall())),
            suffix,
            beside,
            schema,
            symbology,
            repeat: replay.repeat,
            pause: replay.pause,
        };
        let Some(replay) = VenueReplay::open(path, config, progress)? else { return Ok(false) };
        if said.is_none() && replay.file() == VenueFile::NasdaqDay {
            progress(&format!("{} does not say of which day it is: today's date is shown (--date)", path.display()));
        }
        let names: Vec<&str> = replay.names().collect();
        progress(&format!("{} is {}: {}", path.display(), replay.file(), listed(&names)));
        if let Some(unread) = replay.unread() {
            progress(&unread);
        }
        self.recorded.extend(names.into_iter().map(str::to_owned));
        self.parts.push(Box::new(replay));
        Ok(true)
    }

    fn outer(&self, part: usize, id: InstrumentId) -> InstrumentId {
        InstrumentId(id.0 * self.parts.len() as u32 + part as u32)
    }

    fn inner(&self, id: InstrumentId) -> (usize, InstrumentId) {
        let parts = self.parts.len() as u32;
        ((id.0 % parts) as usize, InstrumentId(id.0 / parts))
    }
}

/// Names of a capture that are listed when it is opened.
const LISTED: usize = 40;

fn no_venue(path: &Path) -> io::Error {
    let text =
        format!("{}: a capture without any exchange's messages that are read here (IEX, Nasdaq ITCH)", path.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// How many names there are, and the first of them.
fn listed(names: &[&str]) -> String {
    let listed = names[..names.len().min(LISTED)].join(" ");
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more, which the symbol list 0#ALL has"),
    };
    format!("{} names: {listed}{more}", names.len())
}

/// Whether a file is a packet capture, by its first bytes; of one that is gzipped, by those of its content.
pub fn is_capture(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut head = Vec::new();
    let is_read = |head: &mut Vec<u8>, from: &mut dyn Read| from.take(4).read_to_end(head).is_ok();
    let mut file = BufReader::new(file);
    if file.fill_buf().is_ok_and(|bytes| bytes.starts_with(&capture::gzip::MAGIC)) {
        return is_read(&mut head, &mut capture::gzip::Gunzip::new(file)) && capture::is_capture(&head);
    }
    is_read(&mut head, &mut file) && capture::is_capture(&head)
}

impl MarketSource for Composite {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        let (part, id) = self.parts.iter_mut().enumerate().find_map(|(n, part)| Some((n, part.find(name)?)))?;
        Some(self.outer(part, id))
    }

    fn offers(&self, id: InstrumentId, model: Model) -> bool {
        let (part, id) = self.inner(id);
        self.parts[part].offers(id, model)
    }

    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        let (source, id) = self.inner(id);
        self.parts[source].image(id, model, part, out)
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        let (part, id) = self.inner(id);
        self.parts[part].watch(id, model, on);
        if on && part < self.recordings && self.start == Start::OnOpen {
            self.start = Start::Due;
        }
    }

    fn due(&self) -> Option<Nanos> {
        if self.start == Start::Due {
            return Some(0);
        }
        let due = |part: &dyn MarketSource, n| Some(part.due()?.saturating_add(self.began(n)?));
        self.parts.iter().enumerate().filter_map(|(n, part)| due(&**part, n)).min()
    }

    fn data_state(&self, id: InstrumentId, model: Model) -> DataState {
        let (part, id) = self.inner(id);
        self.parts[part].data_state(id, model)
    }

    fn is_live(&self) -> bool {
        self.parts.iter().any(|part| part.is_live())
    }

    fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| part.is_ready())
    }

    fn may_come(&self, name: &str) -> bool {
        self.parts.iter().any(|part| part.may_come(name))
    }

    fn remarks(&self) -> Option<String> {
        joined(self.parts.iter().filter_map(|part| part.remarks()))
    }

    fn unread(&self) -> Option<String> {
        joined(self.parts.iter().filter_map(|part| part.unread()))
    }

    fn symbols(&self) -> Vec<String> {
        let mut names: Vec<String> = self.parts.iter().flat_map(|part| part.symbols()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let count = self.parts.len() as u32;
        if self.start == Start::Due {
            self.start = Start::At(now);
        }
        let (of_recordings, recordings) = (self.began(0), self.recordings);
        for (n, part) in self.parts.iter_mut().enumerate() {
            let Some(began) = (if n < recordings { of_recordings } else { Some(0) }) else { continue };
            part.advance(now.saturating_sub(began), limit, &mut |event| {
                let instrument = InstrumentId(event.instrument.0 * count + n as u32);
                sink(Event { instrument, ..event });
            });
        }
    }
}

fn joined(texts: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = texts.collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// What is done to a source while it runs, so that one sees what its consumers make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The service goes down: nothing is published, requests are refused.
    ServiceDown,
    /// The service comes back.
    ServiceUp,
    /// All items stay open, and their data is suspect.
    Suspect,
    /// All data is good again.
    Good,
    /// All connections are cut off, without a word.
    Cut,
}

/// Listens on `addr` and publishes until `stop` is set: the body of a thread. `ready` gets the address that was bound; `faults` are
/// played as they come.
///
/// # Errors
/// A text for the user: the address cannot be used, or recorded data cannot be read.
pub fn serve(
    addr: SocketAddr,
    settings: &SourceSettings,
    stop: &Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
    faults: &Receiver<Fault>,
) -> anyhow::Result<()> {
    let source =
        Composite::open(settings, true, &mut |line| tracing::info!("{line}")).map_err(|e| anyhow!("source: {e}"))?;
    serve_source(addr, source, settings, stop, ready, faults)
}

/// Listens on `addr` and publishes a source that was opened, until `stop` is set: the body of a thread, see [`serve`].
///
/// # Errors
/// A text for the user: the address cannot be used.
pub fn serve_source(
    addr: SocketAddr,
    source: Composite,
    settings: &SourceSettings,
    stop: &Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
    faults: &Receiver<Fault>,
) -> anyhow::Result<()> {
    let is_live = source.is_live();
    let mut status_due = net::clock::now() + STATUS_EVERY;
    let config = ProviderConfig { service: settings.service.clone(), ..ProviderConfig::default() };
    let service_id = config.service_id;
    let provider = Provider::new(config, Arc::new(Dictionary::builtin()));
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("source: {e}"))?;
    source.wake_with(&mut io).map_err(|e| anyhow!("source: {e}"))?;
    let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
    let (_, bound) = io
        .listen(addr, &options, Arc::new(ServerConfig::default()))
        .map_err(|e| anyhow!("source cannot listen on {addr}: {e}"))?;
    let mut publisher =
        Publisher::new(provider, MarketFeed::new(source, service_id, net::clock::now()).stamped(settings.stamps));
    ready(bound);
    while !stop.load(Ordering::Acquire) {
        let now = net::clock::now();
        if now >= status_due {
            status_due = now + STATUS_EVERY;
            if let Some(text) = publisher.feed().source().remarks().filter(|_| is_live) {
                tracing::info!("{text}");
            }
        }
        let wake = publisher.due(now, &mut io).unwrap_or(Nanos::MAX).min(now + STOP_EVERY);
        publisher.turn(&mut io, wake).map_err(|e| anyhow!("source: {e}"))?;
        // Whoever plays faults may be gone: then there are no more.
        while let Ok(fault) = faults.try_recv() {
            play(fault, &mut publisher, &mut io);
        }
    }
    Ok(())
}

fn play(fault: Fault, publisher: &mut Publisher<MarketFeed<Composite>>, io: &mut RsslIo) {
    match fault {
        Fault::ServiceDown | Fault::ServiceUp => publisher.set_service(fault == Fault::ServiceUp),
        Fault::Suspect => {
            let text = "the source says so, on request";
            let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, text);
            publisher.prank(None, Prank::State(state));
        }
        Fault::Good => {
            publisher.prank(None, Prank::State(State::OPEN_OK));
        }
        Fault::Cut => {
            publisher.cut(io);
        }
    }
}

/// How often the stop flag is looked at when nothing happens.
const STOP_EVERY: Nanos = 100_000_000;
