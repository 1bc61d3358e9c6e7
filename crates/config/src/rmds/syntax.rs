//! Lines of an `rmds.cnf`: `[host[.instance]*]component*[level*]parameter : value`.
//!
//! * `:` and `=` separate key and value; the first of them counts.
//! * `*` stands for any number of levels between two words, none included; `.` for none. `?` is any one word.
//! * What stands before the first `*` is the host, alone or with the instance of the process behind a dot.
//! * A line that begins with `!` or `#` is a comment; `\` at a line's end continues the value on the next line.
//! * Words are compared without regard to case.

use std::fmt;

/// Words a key may have; parameters have up to seven levels.
const WORDS_MAX: usize = 16;

/// The sign that binds a word to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binding {
    /// `*`: levels may lie between.
    Loose,
    /// `.`: the very next level.
    Tight,
}

/// One word of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// A name.
    Name(String),
    /// `?`, or a placeholder of a manual such as `{node}` or `<serviceName>`: any one name.
    Any,
}

/// The left side of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Host, or host and instance joined by a dot; `None` for a key that begins with `*`.
    pub host: Option<String>,
    /// Component, levels and parameter.
    pub words: Vec<(Binding, Word)>,
}

/// A line with its key and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1; of a continued line, the first.
    pub number: usize,
    /// The key.
    pub key: Key,
    /// The value without blanks around it; empty stands for the default.
    pub value: String,
    /// Placeholders that were read as any name, as they stand in the file.
    pub placeholders: Vec<String>,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Word::Name(name) => name,
            Word::Any => "?",
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.host.as_deref().unwrap_or(""))?;
        for (binding, word) in &self.words {
            let sign = if *binding == Binding::Tight { '.' } else { '*' };
            write!(f, "{sign}{word}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : {}", self.key, self.value)
    }
}

/// A fault of one line, without the file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1.
    pub line: usize,
    /// The fault, and what to write instead.
    pub what: String,
}

/// Every line of a file, and everything that is no line.
pub fn parse(text: &str) -> (Vec<Line>, Vec<Fault>) {
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    let mut rest = text.lines().enumerate();
    while let Some((at, first)) = rest.next() {
        let first = first.trim();
        if first.is_empty() || first.starts_with(['!', '#']) {
            continue;
        }
        let number = at + 1;
        let (mut whole, mut is_cut) = (first.to_owned(), false);
        while whole.ends_with('\\') {
            whole.pop();
            if let Some((_, next)) = rest.next() {
                whole.truncate(whole.trim_end().len());
                whole.push(' ');
                whole.push_str(next.trim());
            } else {
                // However many of them there are: one fault, and none about what is left of the line.
                whole.truncate(whole.trim_end_matches('\\').len());
                let what = "the file ends where \\ continues the line: take the \\ away".into();
                faults.push(Fault { line: number, what });
                is_cut = true;
            }
        }
        if is_cut && whole.trim().is_empty() {
            continue;
        }
        match line(number, &whole) {
            Ok(line) => lines.push(line),
            Err(what) => faults.push(Fault { line: number, what }),
        }
    }
    (lines, faults)
}

fn line(number: usize, text: &str) -> Result<Line, String> {
    let Some(end) = separator(text) else {
        return Err(if text.contains('*') {
            format!("`{text}` has no value: write KEY : VALUE")
        } else {
            format!("`{text}` is no line of an rmds.cnf: write KEY : VALUE, or ! before a comment")
        });
    };
    let (key, value) = (text[..end].trim(), text[end + 1..].trim());
    if key.is_empty() {
        return Err("there is no key before the separator: write KEY : VALUE".into());
    }
    let mut placeholders = Vec::new();
    let key = parse_key(key, &mut placeholders)?;
    if let Some(left) = placeholder(value) {
        return Err(format!("{left} is a placeholder of a manual: write the value that is meant"));
    }
    if value.eq_ignore_ascii_case("[commented out]") {
        return Err(format!("{value} is no value: take the line away, or begin it with !"));
    }
    Ok(Line { number, key, value: value.to_owned(), placeholders })
}

/// Where the key ends: the first `:` or `=` outside of a placeholder.
fn separator(text: &str) -> Option<usize> {
    text.find([':', '='])
}

fn placeholder(text: &str) -> Option<&str> {
    let wrapped = |a, b| text.starts_with(a) && text.ends_with(b) && text.len() > 2;
    (wrapped('<', '>') || wrapped('{', '}')).then_some(text)
}

/// Reads a key.
fn parse_key(text: &str, placeholders: &mut Vec<String>) -> Result<Key, String> {
    let Some(star) = text.find('*') else {
        return Err(format!(
            "`{text}` has no *: a key is [HOST*]COMPONENT*PARAMETER, and *PARAMETER is for all components"
        ));
    };
    let host = text[..star].trim();
    let host = match placeholder(host) {
        Some(any) => {
            placeholders.push(any.to_owned());
            None
        }
        None if host.is_empty() || host == "?" => None,
        None => Some(checked(host, true)?.to_owned()),
    };
    let mut words = Vec::new();
    let mut rest = &text[star..];
    while let Some(sign) = rest.chars().next() {
        let binding = if sign == '.' { Binding::Tight } else { Binding::Loose };
        rest = &rest[1..];
        let end = rest.find(['*', '.']).unwrap_or(rest.len());
        let word = rest[..end].trim();
        rest = &rest[end..];
        words.push((binding, parse_word(word, text, placeholders)?));
    }
    match words.last() {
        Some((_, Word::Any)) => Err(format!("`{text}` names no parameter: its last word cannot stand for any")),
        _ if words.len() > WORDS_MAX => Err(format!("a key has at most {WORDS_MAX} words, this one {}", words.len())),
        _ => Ok(Key { host, words }),
    }
}

fn parse_word(word: &str, key: &str, placeholders: &mut Vec<String>) -> Result<Word, String> {
    if word.is_empty() {
        return Err(format!("`{key}` has a * or . without a word behind it"));
    }
    if word == "?" {
        return Ok(Word::Any);
    }
    if let Some(any) = placeholder(word) {
        placeholders.push(any.to_owned());
        return Ok(Word::Any);
    }
    checked(word, false).map(|w| Word::Name(w.to_owned()))
}

/// A word without characters that no name has.
fn checked(word: &str, host: bool) -> Result<&str, String> {
    let fine = |c: char| c.is_alphanumeric() || "_-+/@#&$%".contains(c) || (host && c == '.');
    match word.chars().find(|&c| !fine(c)) {
        None => Ok(word),
        Some(c) if c.is_whitespace() => Err(format!("`{word}` has a blank inside: is a * missing?")),
        Some('?') => Err(format!("`{word}`: ? stands for a whole word, never for a part of one")),
        Some(c) => Err(format!("`{word}` has the character {c:?}, which no name has")),
    }
}
