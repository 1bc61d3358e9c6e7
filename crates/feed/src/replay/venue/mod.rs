//! A venue's file as a market source: prices, books by order and by price, trades, status.
//!
//! Instruments are named by the venue's symbol and a suffix of the caller's. A file tells which instruments there are before it tells of orders: that
//! much is read when it is opened, so that any other name is refused. What the file tells is applied message by message and told at the pace of its
//! own times; what cannot be known because messages are missing is Suspect until it can be.

mod board;
mod bytes;
mod cme;
mod cme_items;
mod datagrams;
mod dbn;
mod depth;
mod iex;
mod iex_messages;
mod input;
mod itch;
pub mod live;
mod messages;
mod nasdaq;
mod queue;
mod symbology;
mod tables;
mod values;
mod venue_file;
mod web;
mod web_file;

pub use symbology::{Symbology, SymbologyError};
pub use venue_file::VenueFile;
pub use web::WebKind;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rwf::DataState;

use self::board::Board;
use self::input::Input;
use super::ReplaySpeed;
use crate::session::{DAY, Moment, Nanos};
use crate::{Event, InstrumentId, MarketSource, Model, new_york};

/// How a file is played.
#[derive(Clone, Debug, PartialEq)]
pub struct VenueConfig {
    /// How fast.
    pub pace: ReplaySpeed,
    /// What was before that is taken in silently: time since midnight on the venue's clock (New York; UTC for DBN).
    pub from: Option<Nanos>,
    /// The day of a file that does not say its own, as days since 1970: see [`date_in_name`].
    pub date: u32,
    /// Behind each symbol; `None`: [`VenueFile::suffix`].
    pub suffix: Option<String>,
    /// What was fetched while a connection to a venue on the web was recorded, if that is in another file.
    pub beside: Option<PathBuf>,
    /// The schema of CME's messages, for a capture of them.
    pub schema: Option<PathBuf>,
    /// Names of symbols, where they are others than the venue's.
    pub symbology: Option<Arc<Symbology>>,
    /// Begin again at the end.
    pub repeat: bool,
    /// Between the end and that, in nanoseconds of the caller's clock.
    pub pause: Nanos,
}

/// A file that is played.
pub struct VenueReplay {
    path: PathBuf,
    file: VenueFile,
    config: VenueConfig,
    input: Box<dyn Input>,
    board: Board,
    /// What tells of instruments comes first in the file, and is taken in silently.
    has_prelude: bool,
    /// Recorded and caller's time of the first message that is told.
    first: u64,
    started_at: Nanos,
    /// Recorded time never goes back: that of the newest message.
    now: u64,
    watched: usize,
    /// Why the file could not be opened again.
    trouble: Option<String>,
}

/// Messages that are looked through for instruments where none of them begins the file.
const LOOKED_THROUGH: u64 = 5_000_000;
/// Messages between two words of progress.
const PROGRESS_EVERY: u64 = 2_000_000;

impl VenueReplay {
    /// Opens a file and reads up to where it is to begin; `None`: it is none of a venue. `progress` hears how far that is.
    ///
    /// # Errors
    /// It cannot be read, or what it has is not read here.
    pub fn open(path: &Path, config: VenueConfig, progress: &mut dyn FnMut(&str)) -> io::Result<Option<Self>> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let Some(file) = VenueFile::of(path, config.schema.is_some()).map_err(named)? else { return Ok(None) };
        let opened = file.open(path, &config).map_err(named)?;
        let mut board =
            Board::new(file.facts(), opened.models, config.suffix.as_deref().unwrap_or_else(|| file.suffix()));
        board.set_symbology(config.symbology.clone());
        board.be_silent();
        for symbol in &opened.symbols {
            let item = board.item(symbol);
            if file == VenueFile::Cme {
                board.await_book(item);
            }
        }
        let mut replay = Self {
            path: path.to_owned(),
            file,
            config,
            input: opened.input,
            board,
            has_prelude: opened.symbols.is_empty(),
            first: 0,
            started_at: 0,
            now: 0,
            watched: 0,
            trouble: None,
        };
        if replay.has_prelude && !replay.look_for_names(progress) {
            replay.has_prelude = false;
            replay.reopen().map_err(named)?;
        }
        replay.begin(0, progress);
        if replay.board.names().next().is_none() {
            let text = "it tells of no instrument".to_owned();
            return Err(named(io::Error::new(io::ErrorKind::InvalidData, replay.input.unread().unwrap_or(text))));
        }
        Ok(Some(replay))
    }

    /// What the file is.
    pub fn file(&self) -> VenueFile {
        self.file
    }

    /// Names that it plays, as far as they are known.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.board.names()
    }

    /// The file's time of the newest message that was applied: nanoseconds since 1970.
    pub fn time(&self) -> u64 {
        self.now
    }

    /// Goes on to the first order or trade; false: there were some before any instrument was told of, and the file has to be opened again.
    fn look_for_names(&mut self, progress: &mut dyn FnMut(&str)) -> bool {
        let mut is_prelude = true;
        while self.input.next_at().is_some() && self.input.messages() < LOOKED_THROUGH {
            let is_at_traffic = self.input.is_at_traffic();
            if is_at_traffic && is_prelude && self.board.names().next().is_some() {
                return true;
            }
            is_prelude &= !is_at_traffic;
            self.pass(progress);
        }
        false
    }

    /// Applies the next message silently.
    fn pass(&mut self, progress: &mut dyn FnMut(&str)) {
        self.now = self.now.max(self.input.next_at().unwrap_or(0));
        self.input.step(&mut self.board);
        self.board.settle(self.input.books());
        let messages = self.input.messages();
        if messages > 0 && messages.is_multiple_of(PROGRESS_EVERY) {
            let at = Moment::from_epoch(self.now).time / crate::session::SECOND;
            let (hour, minute) = (at / 3_600, at / 60 % 60);
            progress(&format!("{}: {messages} messages read, at {hour:02}:{minute:02} UTC", self.path.display()));
        }
    }

    /// Passes over what is not to be told; then all is, beginning with images.
    fn begin(&mut self, at: Nanos, progress: &mut dyn FnMut(&str)) {
        self.board.be_silent();
        while self.has_prelude && self.input.next_at().is_some() && !self.input.is_at_traffic() {
            self.pass(progress);
        }
        if let Some(from) = self.config.from {
            while self.input.next_at().is_some_and(|next| next < self.input.at_clock(from)) {
                self.pass(progress);
            }
        }
        self.board.speak();
        self.board.settle(self.input.books());
        self.first = self.input.next_at().unwrap_or(self.now);
        (self.now, self.started_at) = (self.first, at);
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.input = self.file.open(&self.path, &self.config)?.input;
        self.board.begin_session();
        Ok(())
    }

    /// The end was reached: a new session, told as new images.
    fn restart(&mut self, now: Nanos) {
        match self.reopen() {
            Ok(()) => {
                self.now = 0;
                self.begin(now, &mut |_| {});
            }
            // The file is gone now: what was published stays as it is.
            Err(error) => {
                self.trouble = Some(error.to_string());
                self.config.repeat = false;
            }
        }
    }

    fn due_at(&self, at: u64) -> Nanos {
        match self.config.pace {
            ReplaySpeed::Unpaced => 0,
            ReplaySpeed::Scaled(scale) => self.started_at + (at.saturating_sub(self.first) as f64 / scale) as Nanos,
        }
    }
}

impl MarketSource for VenueReplay {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        self.board.find(name).map(InstrumentId)
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        self.board.models().contains(&model)
    }

    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        self.board.image(id.0, model, part, self.input.books(), out)
    }

    fn data_state(&self, id: InstrumentId, _: Model) -> DataState {
        self.board.data_state(id.0)
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        self.board.watch(id.0, model, on);
        self.watched = if on { self.watched + 1 } else { self.watched.saturating_sub(1) };
    }

    fn due(&self) -> Option<Nanos> {
        if self.watched == 0 && self.config.pace == ReplaySpeed::Unpaced {
            return None;
        }
        match self.input.next_at() {
            Some(at) => Some(self.due_at(at.max(self.now))),
            None => self.config.repeat.then(|| self.due_at(self.now) + self.config.pause),
        }
    }

    fn symbols(&self) -> Vec<String> {
        self.board.names().map(str::to_owned).collect()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let (mut told, mut silent) = (0, 0);
        // Silent messages count a little, so that a call ends in bounded time even when nobody watches.
        while told + silent / 16 < limit && self.due().is_some_and(|at| at <= now) {
            match self.input.next_at() {
                None => self.restart(now),
                Some(at) => {
                    self.now = self.now.max(at);
                    self.input.step(&mut self.board);
                    if !self.input.settles_itself() {
                        self.board.settle(self.input.books());
                    }
                }
            }
            let count = self.board.flush(sink);
            told += count;
            silent += usize::from(count == 0);
        }
    }

    fn remarks(&self) -> Option<String> {
        let is_over = self.input.next_at().is_none() && !self.config.repeat;
        let end = is_over.then(|| format!("played to the end, {} messages", self.input.messages()));
        let texts: Vec<String> = end.into_iter().chain(self.board.clashes()).chain(self.input.remarks()).collect();
        (!texts.is_empty()).then(|| format!("{}: {}", self.path.display(), texts.join("; ")))
    }

    fn unread(&self) -> Option<String> {
        let why = self.trouble.clone().or_else(|| self.input.unread());
        why.map(|why| format!("{}: {why}", self.path.display()))
    }
}

/// The date in a file's name, as days since 1970: `20191230`, or as Nasdaq writes it, `12302019` or `S123019`.
pub fn date_in_name(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let digits = |run: &str| match run.len() {
        8 => new_york::days_of(run).or_else(|| new_york::days_of(&format!("{}{}", &run[4..], &run[..4]))),
        6 => new_york::days_of(&format!("20{}{}", &run[4..], &run[..4])),
        _ => None,
    };
    name.split(|c: char| !c.is_ascii_digit()).find_map(digits)
}

/// A date of eight digits, with hyphens or without, as days since 1970.
pub fn date_of(text: &str) -> Option<u32> {
    new_york::days_of(&text.replace('-', ""))
}

/// Days since 1970 of a time.
pub fn day_of(nanos: Nanos) -> u32 {
    (nanos / DAY) as u32
}

#[cfg(test)]
mod tests;
