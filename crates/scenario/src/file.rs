//! A scenario's file: TOML around steps.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::script::split;

/// Steps of a scenario at most, repetitions written out.
pub const STEPS_MAX: usize = 10_000;

/// What is under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Judges {
    /// A consumer: it connects to the server of the scenario, `S`.
    #[default]
    Consumer,
    /// An interactive provider: the consumer of the scenario, `C`, connects to it.
    Provider,
    /// A non-interactive provider: it connects to the server of the scenario, `S`.
    Publisher,
}

impl Judges {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Consumer, Self::Provider, Self::Publisher];

    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Provider => "provider",
            Self::Publisher => "publisher",
        }
    }
}

/// A scenario as its file says it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioFile {
    /// Where it came from, for messages.
    pub file: String,
    /// Name: that of the file, without its end.
    pub name: String,
    /// Title: what the scenario shows, in one line.
    pub title: String,
    /// Why it matters and what a right client does.
    pub about: String,
    /// What is under test.
    pub judges: Judges,
    /// The rules that it gives occasion to: a run in which one of them had none judges nothing.
    pub rules: Vec<String>,
    /// Services that the server has, with the words of the step language for each of them.
    pub services: Vec<String>,
    /// Services of `S2`, the second server of a warm-standby pair; none where there is no such server.
    pub standby_services: Vec<String>,
    /// Ping timeout of the server, s.
    pub ping_timeout_s: u8,
    /// Updates a second over all open items.
    pub updates_a_second: u32,
    /// The client's process may end before the scenario: it need not live without a login.
    pub may_end: bool,
    /// Limits of rules, by name, in their unit.
    pub limits: BTreeMap<String, f64>,
    /// The steps, with variables replaced and repetitions written out.
    pub steps: Vec<Line>,
}

/// A step's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Line in the file, from 1.
    pub number: usize,
    /// The step as it stands there.
    pub text: String,
    /// Its words; text in quotation marks is one, with them.
    pub words: Vec<String>,
}

/// A file that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The fault, and what to write.
    pub why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.why)
    }
}

impl std::error::Error for FileError {}

/// The keys of a file.
const KEYS: [&str; 13] = [
    "title",
    "about",
    "judges",
    "rules",
    "services",
    "standby-services",
    "ping-timeout-s",
    "updates-a-second",
    "include",
    "variables",
    "limits",
    "client-may-end",
    "steps",
];

/// The word of `known` that is most like this one, as the end of a message.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let likeness = |known: &&str| (strsim::normalized_damerau_levenshtein(known, word) * 1e3) as u32;
    match known.into_iter().max_by_key(likeness).filter(|known| likeness(known) >= 400) {
        Some(known) => format!("; did you mean {known}?"),
        None => String::new(),
    }
}

/// Reads a scenario.
///
/// `file` is its name in messages, `text` what it has. `set` are variables that go before those of the file. `include` gives the text of a file
/// that is included, by the name that is written there.
///
/// # Errors
/// The first thing that makes no sense, with its line.
pub fn read(
    file: &str,
    text: &str,
    set: &BTreeMap<String, String>,
    include: &dyn Fn(&str) -> Result<String, String>,
) -> Result<ScenarioFile, FileError> {
    Reader { file, text, set, include }.read()
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    set: &'a BTreeMap<String, String>,
    include: &'a dyn Fn(&str) -> Result<String, String>,
}

impl Reader<'_> {
    fn error<T>(&self, at: usize, why: impl Into<String>) -> Result<T, FileError> {
        let line = 1 + self.text.get(..at).unwrap_or(self.text).matches('\n').count();
        Err(FileError { file: self.file.to_owned(), line, why: why.into() })
    }

    fn read(&self) -> Result<ScenarioFile, FileError> {
        let table = match DeTable::parse(self.text) {
            Ok(table) => table.into_inner(),
            Err(error) => return self.error(error.span().map_or(0, |span| span.start), error.message()),
        };
        for key in table.keys() {
            if !KEYS.contains(&key.get_ref().as_ref()) {
                let why = format!("there is no key {}{}", key.get_ref(), nearest(key.get_ref(), KEYS));
                return self.error(key.span().start, why);
            }
        }
        let stem = self.file.rsplit('/').next().unwrap_or(self.file);
        let mut scenario = ScenarioFile {
            file: self.file.to_owned(),
            name: stem.strip_suffix(".toml").unwrap_or(stem).to_owned(),
            title: self.string(&table, "title")?.unwrap_or_default(),
            about: self.string(&table, "about")?.unwrap_or_default().trim().to_owned(),
            judges: self.judges(&table)?,
            rules: self.strings(&table, "rules")?,
            services: self.strings(&table, "services")?,
            standby_services: self.strings(&table, "standby-services")?,
            ping_timeout_s: self.number(&table, "ping-timeout-s", 1..256)?.unwrap_or(30) as u8,
            updates_a_second: self.number(&table, "updates-a-second", 0..100_001)?.unwrap_or(20) as u32,
            may_end: self.flag(&table, "client-may-end")?,
            limits: self.limits(&table)?,
            steps: Vec::new(),
        };
        if scenario.title.is_empty() {
            return self.error(0, "title is missing: what the scenario shows, in one line");
        }
        if scenario.services.is_empty() {
            scenario.services.push("DIRECT_FEED".to_owned());
        }
        let at = |key: &str| table.get(key).map_or(0, |value| value.span().start);
        if let Some(name) = scenario.rules.iter().find(|name| crate::judge::rule(name).is_none()) {
            let near = nearest(name, crate::judge::RULES.iter().map(|rule| rule.name));
            return self.error(at("rules"), format!("there is no rule {name}{near}"));
        }
        if !scenario.standby_services.is_empty() && scenario.judges != Judges::Consumer {
            return self.error(at("standby-services"), "a warm-standby pair is for a consumer: judges = \"consumer\"");
        }
        if let Err(why) = crate::directory::check_offers(&scenario.standby_services) {
            return self.error(at("standby-services"), why);
        }
        if let Err(why) = crate::directory::check_offers(&scenario.services) {
            return self.error(at("services"), why);
        }
        let variables = self.variables(&table)?;
        for name in self.strings(&table, "include")? {
            let text = (self.include)(&name);
            let text = text.or_else(|why| self.error(0, format!("include {name}: {why}")))?;
            let part = Reader { file: &name, text: &text, ..*self }.lines(0, &text, &variables)?;
            scenario.steps.extend(part);
        }
        scenario.steps.extend(self.steps(&table, &variables)?);
        if scenario.steps.is_empty() {
            return self.error(0, "steps are missing: what happens, a line a step");
        }
        scenario.steps = self.unrolled(scenario.steps)?;
        Ok(scenario)
    }

    fn string(&self, table: &DeTable<'_>, key: &str) -> Result<Option<String>, FileError> {
        match table.get(key).map(|value| (value.get_ref(), value.span())) {
            None => Ok(None),
            Some((DeValue::String(text), _)) => Ok(Some(text.clone().into_owned())),
            Some((_, span)) => self.error(span.start, format!("{key} is a text: {key} = \"..\"")),
        }
    }

    fn judges(&self, table: &DeTable<'_>) -> Result<Judges, FileError> {
        let Some(word) = self.string(table, "judges")? else { return Ok(Judges::default()) };
        let at = table.get("judges").map_or(0, |value| value.span().start);
        let found = Judges::ALL.into_iter().find(|judges| judges.name() == word);
        let near = || nearest(&word, Judges::ALL.map(Judges::name));
        found.map_or_else(|| self.error(at, format!("judges is consumer, provider or publisher{}", near())), Ok)
    }

    fn flag(&self, table: &DeTable<'_>, key: &str) -> Result<bool, FileError> {
        match table.get(key).map(|value| (value.get_ref(), value.span())) {
            None => Ok(false),
            Some((DeValue::Boolean(flag), _)) => Ok(*flag),
            Some((_, span)) => self.error(span.start, format!("{key} is true or false")),
        }
    }

    fn strings(&self, table: &DeTable<'_>, key: &str) -> Result<Vec<String>, FileError> {
        let Some(value) = table.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(all) = value.get_ref() else {
            return self.error(value.span().start, format!("{key} is a list of texts: {key} = [\"..\"]"));
        };
        let text = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            _ => self.error(value.span().start, format!("{key} is a list of texts: {key} = [\"..\"]")),
        };
        all.iter().map(text).collect()
    }

    fn number(&self, table: &DeTable<'_>, key: &str, range: Range<i64>) -> Result<Option<i64>, FileError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return Ok(Some(number));
        }
        let why = format!("{key} is a whole number from {} to {}", range.start, range.end - 1);
        self.error(value.span().start, why)
    }

    fn limits(&self, table: &DeTable<'_>) -> Result<BTreeMap<String, f64>, FileError> {
        let Some(value) = table.get("limits") else { return Ok(BTreeMap::new()) };
        let DeValue::Table(limits) = value.get_ref() else {
            return self.error(value.span().start, "limits is a table: write [limits] and its keys below");
        };
        let known = crate::judge::LIMITS.map(|limit| limit.name);
        let mut read = BTreeMap::new();
        for (key, value) in limits {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                return self.error(key.span().start, format!("there is no limit {name}{}", nearest(name, known)));
            }
            let number = match value.get_ref() {
                DeValue::Integer(number) => number.as_str().parse().ok(),
                DeValue::Float(number) => number.as_str().parse().ok(),
                _ => None,
            };
            match number.filter(|number: &f64| *number >= 0.0) {
                Some(number) => read.insert(name.to_owned(), number),
                None => return self.error(value.span().start, format!("{name} is a number, 0 or more")),
            };
        }
        Ok(read)
    }

    fn variables(&self, table: &DeTable<'_>) -> Result<BTreeMap<String, String>, FileError> {
        let mut variables = BTreeMap::new();
        if let Some(value) = table.get("variables") {
            let DeValue::Table(all) = value.get_ref() else {
                return self.error(value.span().start, "variables is a table: write [variables] and its keys below");
            };
            for (key, value) in all {
                let text = match value.get_ref() {
                    DeValue::String(text) => text.clone().into_owned(),
                    DeValue::Integer(number) => number.as_str().to_owned(),
                    DeValue::Float(number) => number.as_str().to_owned(),
                    _ => return self.error(value.span().start, "a variable is a text or a number"),
                };
                variables.insert(key.get_ref().clone().into_owned(), text);
            }
        }
        variables.extend(self.set.iter().map(|(key, value)| (key.clone(), value.clone())));
        Ok(variables)
    }

    fn steps(&self, table: &DeTable<'_>, variables: &BTreeMap<String, String>) -> Result<Vec<Line>, FileError> {
        let Some(value) = table.get("steps") else { return Ok(Vec::new()) };
        match value.get_ref() {
            DeValue::String(text) => {
                // The lines of a text in three quotation marks begin behind the line break that follows these.
                let raw = &self.text[value.span()];
                let first = raw.find(['\n']).filter(|_| raw.starts_with("\"\"\"") || raw.starts_with("'''"));
                let at = value.span().start + first.map_or(0, |at| at + 1);
                self.lines(at, text, variables)
            }
            DeValue::Array(all) => {
                let mut lines = Vec::new();
                for value in all {
                    let DeValue::String(text) = value.get_ref() else {
                        return self.error(value.span().start, "a step is a text");
                    };
                    lines.extend(self.lines(value.span().start, text, variables)?);
                }
                Ok(lines)
            }
            _ => self.error(value.span().start, "steps is a text of lines, or a list of texts"),
        }
    }

    /// The steps of a text that begins there.
    fn lines(&self, at: usize, text: &str, variables: &BTreeMap<String, String>) -> Result<Vec<Line>, FileError> {
        let first = 1 + self.text.get(..at).unwrap_or(self.text).matches('\n').count();
        let mut lines = Vec::new();
        for (after, line) in text.lines().enumerate() {
            let number = first + after;
            let error = |why: String| FileError { file: self.file.to_owned(), line: number, why };
            let line = replaced(line.trim(), variables).map_err(error)?;
            let words = split(&line).ok_or_else(|| error("a text in quotation marks has no end".to_owned()))?;
            if !words.is_empty() {
                lines.push(Line { number, text: line, words });
            }
        }
        Ok(lines)
    }

    /// `repeat N` to `end`, written out.
    fn unrolled(&self, lines: Vec<Line>) -> Result<Vec<Line>, FileError> {
        let error = |line: &Line, why: &str| {
            Err(FileError { file: self.file.to_owned(), line: line.number, why: why.to_owned() })
        };
        let mut open: Vec<(usize, Line, Vec<Line>)> = Vec::new();
        let mut done = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["repeat", times] => match times.parse() {
                    Ok(times @ 1..=1_000) => open.push((times, line, Vec::new())),
                    _ => return error(&line, "repeat takes a number from 1 to 1000"),
                },
                ["end"] => {
                    let Some((times, _, body)) = open.pop() else {
                        return error(&line, "end without repeat before it");
                    };
                    let into = open.last_mut().map_or(&mut done, |(.., body)| body);
                    if into.len() + times * body.len() > STEPS_MAX {
                        return error(&line, "more than 10000 steps, repetitions written out");
                    }
                    for _ in 0..times {
                        into.extend(body.iter().cloned());
                    }
                }
                _ => open.last_mut().map_or(&mut done, |(.., body)| body).push(line),
            }
        }
        match open.last() {
            Some((_, line, _)) => error(line, "repeat without end behind it"),
            None => Ok(done),
        }
    }
}

/// A line with `$NAME` replaced by the variable's value.
fn replaced(line: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        let near = || nearest(name, variables.keys().map(String::as_str));
        text.push_str(variables.get(name).ok_or_else(|| format!("there is no variable {name}{}", near()))?);
        rest = &rest[end..];
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Result<ScenarioFile, FileError> {
        let set = [("item".to_owned(), "TRI.N".to_owned())].into();
        read("dir/x.toml", text, &set, &|name| {
            if name == "begin" { Ok("after 1 s".to_owned()) } else { Err("?".into()) }
        })
    }

    #[test]
    fn steps_come_with_their_lines_variables_and_repetitions() {
        let text = "title = \"T\"\ninclude = [\"begin\"]\nsteps = '''\n# about\nrepeat 2\n  S suspect $item\nend\n'''\n\
                    [variables]\nitem = \"IBM.N\"\n";
        let read = scenario(text).expect("a scenario");
        let steps: Vec<(usize, &str)> = read.steps.iter().map(|line| (line.number, line.text.as_str())).collect();
        assert_eq!(steps, [(1, "after 1 s"), (6, "S suspect TRI.N"), (6, "S suspect TRI.N")]);
        assert_eq!(read.name, "x");
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_line_and_the_nearest_word() {
        for (text, line, why) in [
            ("titel = \"T\"", 1, "there is no key titel; did you mean title?"),
            ("title = \"T\"\nrules = [\"reopen\"]", 2, "did you mean reopens?"),
            (
                "title = \"T\"\nsteps = '''\nafter 1 s\nS suspect $itm\n'''",
                4,
                "there is no variable itm; did you mean item?",
            ),
            ("title = \"T\"\nsteps = '''\nrepeat 3\nafter 1 s\n'''", 3, "repeat without end"),
            ("title = \"T\"\nsteps = [\n\"end\"]", 3, "end without repeat"),
            ("title = \"T\"\nsteps = \"after 1 s\"\n[limits]\nreconect-s = 3", 4, "did you mean reconnect-s?"),
            ("title = \"T\"\nsteps = \"after 1 s\"\nping-timeout-s = 0", 3, "from 1 to 255"),
            ("title = \"T\"", 1, "steps are missing"),
            ("title = ", 1, ""),
        ] {
            let error = scenario(text).expect_err(text);
            assert!(error.line == line && error.why.contains(why), "{text}: {error}");
        }
    }
}
