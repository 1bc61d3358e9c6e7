//! Configuration: one TOML file in which every key has a default, a unit and a meaning; `rmds.cnf` is read as well.
//!
//! A file is checked as a whole before any port is opened: all of its faults are reported at once, each with file,
//! line and, for an unknown key, the nearest one that exists. What is accepted but has no effect here is a [`Note`].
#![forbid(unsafe_code)]

mod aeron;
mod args;
mod backbone;
mod blocked;
mod by_service;
pub mod command;
mod conflation;
mod delay;
mod dictionary;
mod document;
mod effect;
mod files;
mod filters;
mod headlines;
mod hub;
mod item_priorities;
mod listing;
mod named_file;
mod params;
mod patterns;
mod placement;
mod ports;
mod record;
mod reload;
mod replay;
mod rights;
pub mod rmds;
mod rules;
mod section;
mod service;
mod service_qos;
mod sockets;
mod source_threads;
mod syslog;
mod toml_file;
mod users;
mod value;

pub use self::record::Record;
pub use aeron::{Aeron, AeronDriver, AeronFlowControl, AeronIdle, AeronMedium};
pub use args::{ConfigArgs, Selection};
pub use backbone::{Hub, Rrcpd};
pub use blocked::blocked_list;
pub use conflation::{Conflation, SourceConflation};
pub use delay::Delay;
pub use dictionary::dictionary;
pub use filters::Filters;
pub use hub::{
    across_processes_distributor, across_processes_p2ps, distributor_config, p2ps_config, p2ps_limits, route_config,
    tunnel_service,
};
pub use item_priorities::item_priorities;
pub use listing::{json, search};
pub use named_file::{read_named, read_named_text};
pub use params::{DictionaryFiles, Feed, Http, Log, P2ps, Permissions, Route, SourceDistributor};
pub use placement::{place, slice};
pub use reload::{Applies, Change, applies, changes, routes};
pub use replay::Replay;
pub use rights::{NOBODY as NOBODY_IN_RIGHTS, rights_file};
pub use rmds::import::import;
pub use rules::{INPUT_BYTES_MIN, INPUT_MESSAGES_MIN};
pub use section::{AnySection, Info, Param, Section};
pub use service::{Service, recovery_interval_ms};
pub use sockets::{listening_address, listening_fault, socket_options};
pub use source_threads::{of_source_thread, source_threads};
pub use syslog::{Selector, Syslog};
pub use users::{Hashed, Role, User};
pub use value::{
    AbsentRights, AuditSync, CacheLocation, Compression, ConnectionType, DomainList, Entries, HubTransport, JustInTime,
    LogFormat, MarketfeedClients, PageSizeList, Parameter, PermissionMode, ProviderChoice, Raw, RouteProtocol,
    ServerOrder, ServiceGroupList, ServiceIdList,
};

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use tracing_subscriber::EnvFilter;

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Consumer side.
    pub p2ps: P2ps,
    /// Provider side.
    pub source_distributor: SourceDistributor,
    /// Interactive providers to dial.
    pub routes: Vec<Route>,
    /// Exchanges' feeds that the process takes in itself, by name.
    pub feeds: BTreeMap<String, Feed>,
    /// Recordings that the process plays itself, by name.
    pub replays: BTreeMap<String, Replay>,
    /// Services that the process publishes later than their source, by name.
    pub delays: BTreeMap<String, Delay>,
    /// What single services have for themselves, by name.
    pub services: BTreeMap<String, Service>,
    /// Fewer updates.
    pub conflation: Conflation,
    /// Fewer updates on the hub.
    pub source_conflation: SourceConflation,
    /// Filters: data that is kept from all who watch.
    pub filters: Filters,
    /// Permissions: who may see what.
    pub permissions: Permissions,
    /// Dictionary files.
    pub dictionary: DictionaryFiles,
    /// Between the two sides, where they are processes of their own.
    pub hub: Hub,
    /// The daemon of a host.
    pub rrcpd: Rrcpd,
    /// The data stream over Aeron.
    pub aeron: Aeron,
    /// Web page, metrics, administration.
    pub http: Http,
    /// The recording of the server's services.
    pub record: Record,
    /// The log, and how it is written.
    pub log: Log,
}

impl Config {
    /// The sections that a file can have once, in the order in which they are shown. Routes, feeds, replays, delays and services come after the first.
    pub fn sections(&self) -> Vec<&dyn AnySection> {
        vec![
            &self.source_distributor,
            &self.p2ps,
            &self.conflation,
            &self.source_conflation,
            &self.filters,
            &self.permissions,
            &self.dictionary,
            &self.hub,
            &self.rrcpd,
            &self.aeron,
            &self.http,
            &self.record,
            &self.log,
        ]
    }

    /// The same, to be filled.
    pub fn sections_mut(&mut self) -> Vec<&mut dyn AnySection> {
        vec![
            &mut self.source_distributor,
            &mut self.p2ps,
            &mut self.conflation,
            &mut self.source_conflation,
            &mut self.filters,
            &mut self.permissions,
            &mut self.dictionary,
            &mut self.hub,
            &mut self.rrcpd,
            &mut self.aeron,
            &mut self.http,
            &mut self.record,
            &mut self.log,
        ]
    }

    /// The routes that are enabled, in order. Their numbers in here are those that the Source Distributor knows.
    pub fn dialled_routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().filter(|r| r.route_enabled)
    }

    /// Reads TOML text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// Every fault of the text, each with its line.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        toml_file::parse(name, text).map(|l| l.config)
    }
}

/// The configuration that a file amounts to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Notices for the operator about the file although it is accepted.
    pub notes: Vec<Note>,
}

impl Loaded {
    /// Writes the notes to the log and looks into the files that the configuration names; `path` is where it was read.
    ///
    /// # Errors
    /// Every fault of those files.
    pub fn checked(self, path: &Path) -> anyhow::Result<Config> {
        self.log();
        let faults = files::faults(&self.config);
        for told in files::exposed(&self.config, path).into_iter().chain(dictionary::conflicts(&self.config)) {
            tracing::warn!("{told}");
        }
        if faults.is_empty() { Ok(self.config) } else { Err(anyhow::anyhow!(faults.join("\n"))) }
    }

    /// Writes the notes to the log.
    pub fn log(&self) {
        for note in &self.notes {
            match note.weight {
                Weight::Warning => tracing::warn!("{note}"),
                Weight::Information => tracing::info!("{note}"),
            }
        }
    }
}

/// A remark on an accepted line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The file.
    pub file: String,
    /// Whether something was asked for that does not happen.
    pub weight: Weight,
    /// The notice.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}: {}", self.file, self.text),
        }
    }
}

/// Lines that are logged at a level (`log.level`), or at levels by module.
///
/// # Errors
/// The text is no level and no list of levels by module; it is said why.
pub fn log_filter(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(text).map_err(|e| format!("{text:?} is no level of the log: {e}"))
}

/// How much a [`Note`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Something that was asked for has no effect.
    Warning,
    /// The value asks for what always happens here.
    Information,
}

/// Reads a configuration file, TOML or `rmds.cnf`; of the latter the lines that `selection` says.
///
/// # Errors
/// Every fault of the file, each with its line.
pub fn load(path: &Path, selection: &Selection) -> Result<Loaded, ConfigError> {
    let (name, text, syntax) = open(path)?;
    match syntax {
        Syntax::Toml => toml_file::parse(&name, &text),
        Syntax::Rmds => rmds::read(&name, &text, &selection.place()).map(|r| r.loaded),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Toml,
    Rmds,
}

/// A file's name for messages, its text and what it is written in.
fn open(path: &Path) -> Result<(String, String, Syntax), ConfigError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| ConfigError::one(format!("{name}: cannot be read: {e}")))?;
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    // Only an rmds.cnf may come from the time before UTF-8; each byte is then a character.
    let text = String::from_utf8(bytes);
    let latin = || text.as_ref().map_or_else(|e| e.as_bytes().iter().map(|&b| char::from(b)).collect(), String::clone);
    match ending.as_deref() {
        Some("cnf") => Ok((name, latin(), Syntax::Rmds)),
        Some("toml") => utf8(&name, text).map(|text| (name, text, Syntax::Toml)),
        _ if rmds::looks_like(&latin()) => Ok((name, latin(), Syntax::Rmds)),
        _ => utf8(&name, text).map(|text| (name, text, Syntax::Toml)),
    }
}

fn utf8(name: &str, text: Result<String, std::string::FromUtf8Error>) -> Result<String, ConfigError> {
    text.map_err(|e| ConfigError::one(format!("{name}: is not UTF-8 text: {}", e.utf8_error())))
}

/// All faults of a configuration file.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// One line each, `file:line: what`.
    pub faults: Vec<String>,
}

impl ConfigError {
    fn one(fault: String) -> Self {
        Self { faults: vec![fault] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// Names that are less alike than this are different names.
const NEAR: f64 = 0.66;

/// The name that is nearest to `name`, for messages; without regard to case and underscores. `None` if all are far.
fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |s: &str| s.to_lowercase().replace(['_', '.', '-'], "");
    let name = plain(name);
    known
        .map(|k| (strsim::normalized_damerau_levenshtein(&plain(k), &name), k))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > NEAR)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests;
