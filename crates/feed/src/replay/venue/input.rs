//! A venue's file as a series of steps, whatever it is.

use std::fmt;
use std::io;
use std::path::Path;

use venue::iex::tp::Protocol;
use venue::sequence::{Change, Limits};

use super::board::Board;
use super::bytes::Bytes;
use super::datagrams::Datagrams;
use super::dbn::{self, Dbn};
use super::depth::Books;
use super::iex::{self, Iex};
use super::iex_messages;
use super::itch;
use super::nasdaq::{self, Nasdaq};
use super::values::Facts;
use crate::Model;
use crate::session::Nanos;

/// Nobody answers requests for what a capture does not have; copies that come late are taken for as long as a feed would ask for them.
pub(super) const LIMITS: Limits = Limits {
    patience: 5_000_000,
    first_retry: 100_000_000,
    longest_retry: 2_000_000_000,
    attempts: 2,
    most_requested: 1_000,
    window: 1 << 18,
    held_bytes: 64 << 20,
};

/// What becomes of a stream, as states of its items: nobody knows which of them a missing message is about.
pub(super) fn tell_change(board: &mut Board, change: &Change) {
    match change {
        Change::Session { .. } => board.begin_session(),
        Change::Gap { missing } if missing.is_empty() => board.doubt("the connection to the exchange is lost"),
        Change::Gap { missing } => {
            let (count, first) = (missing.end - missing.start, missing.start);
            board.doubt(&format!("{count} messages from number {first} on are missing"));
        }
        Change::Lost { missing } => {
            board.doubt(&format!("{} messages are lost: nobody has brought them", missing.end - missing.start));
        }
        Change::Repaired | Change::Resumed { .. } => board.trust(),
        Change::Ended => {}
    }
}

/// A file that is read and applied message by message.
pub(super) trait Input {
    /// When what comes next was, by the file: nanoseconds since 1970; `None` at the end.
    fn next_at(&self) -> Option<u64>;
    /// Applies what comes next.
    fn step(&mut self, board: &mut Board);
    /// Steps settle the board where the books are fit to be published; others are to be settled behind each step.
    fn settles_itself(&self) -> bool {
        false
    }
    /// What comes next is of an order or a trade: what the venue tells of instruments came before.
    fn is_at_traffic(&self) -> bool;
    /// The books.
    fn books(&self) -> &dyn Books;
    /// When the venue's clock shows so long after midnight, on the day that is being read: nanoseconds since 1970.
    fn at_clock(&self, since_midnight: Nanos) -> u64;
    /// Messages applied so far.
    fn messages(&self) -> u64;
    /// What of the file could not be read so far.
    fn unread(&self) -> Option<String>;
    /// What was wrong with what could be read, by kind.
    fn remarks(&self) -> Option<String>;
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VenueFile {
    /// A day of Nasdaq TotalView-ITCH 5.0: messages behind their lengths.
    NasdaqDay,
    /// A capture of Nasdaq TotalView-ITCH 5.0 over `MoldUDP64`.
    NasdaqMold,
    /// Databento's DBN.
    Dbn,
    /// A capture of IEX TOPS 1.6.
    IexTops,
    /// A capture of IEX DEEP 1.0.
    IexDeep,
}

impl fmt::Display for VenueFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NasdaqDay => "a day of Nasdaq TotalView-ITCH 5.0",
            Self::NasdaqMold => "a capture of Nasdaq TotalView-ITCH 5.0 (MoldUDP64)",
            Self::Dbn => "a file of Databento (DBN)",
            Self::IexTops => "a capture of IEX TOPS",
            Self::IexDeep => "a capture of IEX DEEP",
        })
    }
}

/// Datagrams of a capture that are looked at for a protocol that is known.
const LOOKED_AT: usize = 10_000;

impl VenueFile {
    /// What a file is, by its content; `None`: none of these.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        if !Bytes::open(path)?.next(&mut head) {
            return Ok(None);
        }
        if head.starts_with(b"DBN") {
            return Ok(Some(Self::Dbn));
        }
        if capture::is_capture(&head) {
            let mut datagrams = Datagrams::open(path)?;
            for _ in 0..LOOKED_AT {
                if datagrams.next().is_none() {
                    break;
                }
                match iex::protocol(datagrams.payload()) {
                    Some(Protocol::Tops) => return Ok(Some(Self::IexTops)),
                    Some(Protocol::Deep) => return Ok(Some(Self::IexDeep)),
                    None if nasdaq::is_mold(datagrams.payload()) => return Ok(Some(Self::NasdaqMold)),
                    None => {}
                }
            }
            return Ok(None);
        }
        Ok(nasdaq::is_day_file(&head).then_some(Self::NasdaqDay))
    }

    pub(super) fn facts(self) -> Facts {
        match self {
            Self::NasdaqDay | Self::NasdaqMold => itch::FACTS,
            Self::Dbn => dbn::FACTS,
            Self::IexTops | Self::IexDeep => iex_messages::FACTS,
        }
    }

    /// What is behind symbols if nothing else is wanted: a symbol of IEX is also one of other exchanges' feeds, and of both of its own.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::NasdaqDay | Self::NasdaqMold | Self::Dbn => "",
            Self::IexTops => ".IEX",
            Self::IexDeep => ".DEEP",
        }
    }

    /// Opens a file; models that it has, and symbols that it says it has.
    pub(super) fn open(self, path: &Path, date: u32) -> io::Result<Opened> {
        const ALL: &[Model] = &[Model::Price, Model::ByOrder, Model::ByPrice];
        Ok(match self {
            Self::NasdaqDay => {
                Opened { input: Box::new(Nasdaq::day_file(path, date)?), models: ALL, symbols: Vec::new() }
            }
            Self::NasdaqMold => Opened { input: Box::new(Nasdaq::capture(path)?), models: ALL, symbols: Vec::new() },
            Self::IexTops => Opened { input: Box::new(Iex::open(path)?), models: &[Model::Price], symbols: Vec::new() },
            Self::IexDeep => {
                let models = &[Model::Price, Model::ByPrice];
                Opened { input: Box::new(Iex::open(path)?), models, symbols: Vec::new() }
            }
            Self::Dbn => {
                let mut dbn = Dbn::open(path)?;
                Opened { models: dbn.models(), symbols: dbn.symbols(), input: Box::new(dbn) }
            }
        })
    }
}

/// An opened file.
pub(super) struct Opened {
    pub input: Box<dyn Input>,
    pub models: &'static [Model],
    pub symbols: Vec<String>,
}
