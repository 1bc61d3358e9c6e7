//! Configuration: one TOML file in which every key has a default, a unit and a meaning.
//!
//! A file is checked as a whole before any port is opened: all of its faults are reported at once, each with file,
//! line and, for an unknown key, the nearest one that exists.

mod hub;
mod params;
mod value;

pub use hub::{dictionary, distributor_config, p2ps_config};
pub use params::{DictionaryFiles, P2ps, Param, Route, Section, SourceDistributor};
pub use value::{Compression, ConnectionType, Parameter, Raw};

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Consumer side.
    pub p2ps: P2ps,
    /// Provider side.
    pub source_distributor: SourceDistributor,
    /// Interactive providers to dial.
    pub routes: Vec<Route>,
    /// Dictionary files.
    pub dictionary: DictionaryFiles,
}

/// What is wrong with a configuration file: all of its faults.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// One line each, `file:line: what`.
    pub faults: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// Every fault of the file, each with its line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError { faults: vec![format!("{name}: cannot be read: {e}")] })?;
        Self::parse(&name, &text)
    }

    /// Reads TOML text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// Every fault of the text, each with its line.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let mut faults = Faults { name, text, found: Vec::new() };
        let (document, errors) = DeTable::parse_recoverable(text);
        for e in errors {
            faults.add(e.span().map_or(0, |s| s.start), e.message());
        }
        let mut config = Config::default();
        if faults.found.is_empty() {
            for (key, value) in document.get_ref() {
                config.section(key.get_ref(), key.span().start, value.get_ref(), &mut faults);
            }
            config.check(&mut faults);
        }
        if faults.found.is_empty() { Ok(config) } else { Err(ConfigError { faults: faults.found }) }
    }

    fn section(&mut self, name: &str, at: usize, value: &DeValue<'_>, faults: &mut Faults<'_>) {
        match (name, value) {
            (P2ps::NAME, DeValue::Table(t)) => fill(&mut self.p2ps, t, faults),
            (SourceDistributor::NAME, DeValue::Table(t)) => fill(&mut self.source_distributor, t, faults),
            (DictionaryFiles::NAME, DeValue::Table(t)) => fill(&mut self.dictionary, t, faults),
            (Route::NAME, DeValue::Array(list)) => {
                for entry in list {
                    let mut route = Route::default();
                    match entry.get_ref() {
                        DeValue::Table(t) => fill(&mut route, t, faults),
                        _ => faults.add(entry.span().start, "a route is a table: write [[route]] and its keys below"),
                    }
                    if route.host_list.is_empty() {
                        faults.add(at, "a route needs host_list, such as host_list = [\"localhost:14010\"]");
                    }
                    self.routes.push(route);
                }
            }
            (Route::NAME, _) => faults.add(at, "routes are written [[route]], with two brackets"),
            (P2ps::NAME | SourceDistributor::NAME | DictionaryFiles::NAME, _) => {
                faults.add(at, &format!("{name} is a section: write [{name}] and its keys below"));
            }
            _ => faults.unknown(
                at,
                "section",
                name,
                [P2ps::NAME, SourceDistributor::NAME, Route::NAME, DictionaryFiles::NAME].into_iter(),
            ),
        }
    }

    /// Rules over more than one parameter.
    fn check(&self, faults: &mut Faults<'_>) {
        let p = &self.p2ps;
        if p.guaranteed_output_buffers > p.max_output_buffers {
            faults.add_key(P2ps::NAME, "guaranteed_output_buffers", "must not be over max_output_buffers");
        }
        if p.output_threshold_ok > p.output_threshold_breach || p.output_threshold_breach > 100 {
            faults.add_key(
                P2ps::NAME,
                "output_threshold_breach",
                "needs output_threshold_ok <= output_threshold_breach <= 100",
            );
        }
        if p.min_ping_timeout_s > p.ping_timeout_s || p.ping_timeout_s > 255 {
            faults.add_key(P2ps::NAME, "ping_timeout_s", "needs min_ping_timeout_s <= ping_timeout_s <= 255");
        }
        if !(100..=65_000).contains(&p.max_fragment_size) {
            faults.add_key(P2ps::NAME, "max_fragment_size", "must be from 100 to 65000");
        }
        if !(1..=9).contains(&p.zlib_compression_level) {
            faults.add_key(P2ps::NAME, "zlib_compression_level", "must be from 1 to 9");
        }
        if p.timed_writes && p.flush_interval_ms == 0 {
            faults.add_key(P2ps::NAME, "flush_interval_ms", "must be over 0 when timed_writes is true");
        }
        if p.server_cert_file.is_empty() != p.server_key_file.is_empty() {
            faults.add_key(P2ps::NAME, "server_cert_file", "and server_key_file go together");
        }
        if p.writer_thread_count > 64 {
            faults.add_key(P2ps::NAME, "writer_thread_count", "must be at most 64");
        }
    }

    /// Every parameter with default, RMDS name and meaning, as a TOML file that changes nothing.
    pub fn document(&self) -> String {
        let mut out =
            String::from("# Every parameter of Quoteway with its value. A key that is left out has its default.\n");
        describe(&mut out, "", &self.source_distributor);
        if self.routes.is_empty() {
            let mut example = String::new();
            describe(&mut example, "[", &Route { host_list: vec!["localhost:14010".into()], ..Route::default() });
            for line in example.lines() {
                let _ = writeln!(out, "{}{line}", if line.is_empty() { "" } else { "# " });
            }
        }
        for route in &self.routes {
            describe(&mut out, "[", route);
        }
        describe(&mut out, "", &self.p2ps);
        describe(&mut out, "", &self.dictionary);
        out
    }
}

fn describe<S: Section>(out: &mut String, bracket: &str, section: &S) {
    let close = bracket.replace('[', "]");
    let _ = write!(out, "\n#{}\n{bracket}[{}]{close}\n", S::ABOUT, S::NAME);
    for p in S::params() {
        let rmds = if p.rmds.is_empty() { String::new() } else { format!(" RMDS: {}.", p.rmds) };
        let _ = writeln!(out, "# {}{rmds} Default: {}.\n{} = {}", p.meaning, (p.default)(), p.key, (p.show)(section));
    }
}

fn fill<S: Section>(section: &mut S, table: &DeTable<'_>, faults: &mut Faults<'_>) {
    for (key, value) in table {
        let Some(p) = S::params().iter().find(|p| p.key == key.get_ref()) else {
            faults.unknown(
                key.span().start,
                &format!("key in [{}]", S::NAME),
                key.get_ref(),
                S::params().iter().map(|p| p.key),
            );
            continue;
        };
        if let Err(e) = (p.set)(section, &raw(value.get_ref())) {
            faults.add(value.span().start, &format!("{}.{}: {e}", S::NAME, p.key));
        }
    }
}

fn raw<'a>(value: &'a DeValue<'_>) -> Raw<'a> {
    match value {
        DeValue::Boolean(b) => Raw::Bool(*b),
        DeValue::String(s) => Raw::Text(s),
        DeValue::Integer(i) => {
            i64::from_str_radix(i.as_str(), i.radix()).map_or(Raw::Other("a number out of range"), Raw::Int)
        }
        DeValue::Array(list) => list
            .iter()
            .map(|v| v.get_ref().as_str())
            .collect::<Option<Vec<_>>>()
            .map_or(Raw::Other("a list of something else than texts"), Raw::List),
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

struct Faults<'a> {
    name: &'a str,
    text: &'a str,
    found: Vec<String>,
}

impl Faults<'_> {
    fn add(&mut self, offset: usize, what: &str) {
        let line = self.text.get(..offset).unwrap_or(self.text).matches('\n').count() + 1;
        self.found.push(format!("{}:{line}: {what}", self.name));
    }

    fn unknown<'k>(&mut self, offset: usize, what: &str, name: &str, known: impl Iterator<Item = &'k str>) {
        let nearest = known
            .map(|k| {
                (strsim::normalized_damerau_levenshtein(&k.replace('_', ""), &name.to_lowercase().replace('_', "")), k)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let hint = nearest.map_or(String::new(), |(_, k)| format!(": the nearest is {k}"));
        self.add(offset, &format!("there is no {what} called {name}{hint}"));
    }

    /// For a rule between parameters: points at the key's line where the file has it, else at the section's.
    fn add_key(&mut self, section: &str, key: &str, what: &str) {
        let start = self.text.find(&format!("[{section}]")).unwrap_or(0);
        let at = self.text[start..].find(key).map_or(start, |o| start + o);
        self.add(at, &format!("{section}.{key} {what}"));
    }
}

#[cfg(test)]
mod tests;
