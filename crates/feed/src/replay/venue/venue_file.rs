//! The kinds of venues' files: told by their content, and opened.

use std::fmt;
use std::io;
use std::path::Path;

use venue::iex::tp::Protocol;

use super::VenueConfig;
use super::bytes::Bytes;
use super::cme::CmeFile;
use super::cme_items;
use super::datagrams::Datagrams;
use super::dbn::{self, Dbn};
use super::iex::{self, Iex};
use super::iex_messages;
use super::input::Input;
use super::itch;
use super::nasdaq::{self, Nasdaq};
use super::tables::{self, Tables};
use super::values::Facts;
use super::web::{self, WebKind};
use super::web_file::{self, WebFile};
use crate::Model;

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
    /// A recorded connection to a venue on the web.
    Web(WebKind),
    /// Tables of ticks by a mapping file.
    Tables,
    /// A capture of a channel of CME MDP 3.0, which is read by the exchange's schema.
    Cme,
}

impl fmt::Display for VenueFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Web(kind) => return write!(f, "a recorded connection to {kind}"),
            Self::NasdaqDay => "a day of Nasdaq TotalView-ITCH 5.0",
            Self::NasdaqMold => "a capture of Nasdaq TotalView-ITCH 5.0 (MoldUDP64)",
            Self::Dbn => "a file of Databento (DBN)",
            Self::IexTops => "a capture of IEX TOPS",
            Self::IexDeep => "a capture of IEX DEEP",
            Self::Cme => "a capture of CME MDP 3.0",
            Self::Tables => "a mapping file of tables of ticks",
        })
    }
}

/// Datagrams of a capture that are looked at for a protocol that is known.
const LOOKED_AT: usize = 10_000;

impl VenueFile {
    /// What a file is, by its content; `None`: none of these. A capture for which there is a schema is one of CME: nothing in its packets says
    /// so.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path, has_schema: bool) -> io::Result<Option<Self>> {
        // Text of anything is a table's; what its columns are, a mapping file says.
        if path.extension().is_some_and(|extension| extension == "toml") {
            return Ok(Some(Self::Tables));
        }
        let mut head = Vec::new();
        if !Bytes::open(path)?.next(&mut head) {
            return Ok(None);
        }
        if head.starts_with(b"DBN") {
            return Ok(Some(Self::Dbn));
        }
        if let Some(kind) = web_file::kind_of(&head) {
            return Ok(Some(Self::Web(kind)));
        }
        if capture::is_capture(&head) {
            if has_schema {
                return Ok(Some(Self::Cme));
            }
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
            Self::Web(_) => web::FACTS,
            Self::Tables => tables::FACTS,
            Self::Cme => cme_items::FACTS,
        }
    }

    /// What is behind symbols if nothing else is wanted: a symbol of IEX is also one of other exchanges' feeds, and of both of its own.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::NasdaqDay | Self::NasdaqMold | Self::Dbn | Self::Web(_) | Self::Cme | Self::Tables => "",
            Self::IexTops => ".IEX",
            Self::IexDeep => ".DEEP",
        }
    }

    /// Opens a file; models that it has, and symbols that it says it has.
    pub(super) fn open(self, path: &Path, config: &VenueConfig) -> io::Result<Opened> {
        const ALL: &[Model] = &[Model::Price, Model::ByOrder, Model::ByPrice];
        Ok(match self {
            Self::NasdaqDay => {
                Opened { input: Box::new(Nasdaq::day_file(path, config.date)?), models: ALL, symbols: Vec::new() }
            }
            Self::NasdaqMold => Opened { input: Box::new(Nasdaq::capture(path)?), models: ALL, symbols: Vec::new() },
            Self::IexTops => Opened { input: Box::new(Iex::open(path)?), models: &[Model::Price], symbols: Vec::new() },
            Self::IexDeep => {
                let models = &[Model::Price, Model::ByPrice];
                Opened { input: Box::new(Iex::open(path)?), models, symbols: Vec::new() }
            }
            Self::Web(kind) => {
                let input = Box::new(WebFile::open(path, config.beside.as_deref(), kind)?);
                Opened { input, models: kind.models(), symbols: Vec::new() }
            }
            Self::Tables => {
                let tables = Tables::open(path)?;
                Opened { models: &[Model::Price], symbols: tables.symbols(), input: Box::new(tables) }
            }
            Self::Cme => {
                let missing = || io::Error::new(io::ErrorKind::InvalidInput, "CME's schema is wanted");
                let file = CmeFile::open(path, config.schema.as_deref().ok_or_else(missing)?)?;
                let models: &[Model] = if file.has_orders() { ALL } else { &[Model::Price, Model::ByPrice] };
                Opened { models, symbols: file.symbols(), input: Box::new(file) }
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
