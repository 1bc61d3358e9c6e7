//! Which line counts for a parameter: the most specific one.
//!
//! A parameter stands at the end of levels: component, levels of its own (port, service, route), its name. Of the lines
//! that fit, the one with the host and instance goes before the one with the host before the one without. Among those
//! the levels decide, from the component on: a line that names the level goes before one that says `?`, and both go
//! before one that skips it; `.` before the word goes before `*`. Of two that are alike in everything the later
//! line counts.

use super::components::is_component;
use super::syntax::{Binding, Key, Word};

/// One level of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level<'a> {
    /// This name, or one of these.
    Named(&'a [&'a str]),
    /// This name, known when the file is read.
    Is(&'a str),
    /// Any name but a component's: it says whom or what the parameter is for.
    Free,
}

impl Level<'_> {
    fn fits(self, word: &str) -> bool {
        match self {
            Level::Named(names) => names.iter().any(|n| n.eq_ignore_ascii_case(word)),
            Level::Is(name) => name.eq_ignore_ascii_case(word),
            Level::Free => !is_component(word),
        }
    }
}

/// For whom the file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The host.
    pub host: String,
    /// The instance of the process on it.
    pub instance: String,
}

/// How specific a line is: host first, then a number a level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    host: u8,
    levels: Vec<u8>,
}

impl Weight {
    /// Of what [`Place::host_weight`] and [`level_weights`] say.
    pub fn new(host: u8, levels: Vec<u8>) -> Self {
        Self { host, levels }
    }
}

impl Place {
    /// How a key's host fits: `None` for another host, else the more the better.
    pub fn host_weight(&self, key: &Key) -> Option<u8> {
        let Some(host) = &key.host else { return Some(0) };
        if host.eq_ignore_ascii_case(&self.host) {
            return Some(1);
        }
        let (name, instance) = host.rsplit_once('.')?;
        (name.eq_ignore_ascii_case(&self.host) && instance.eq_ignore_ascii_case(&self.instance)).then_some(2)
    }
}

/// How specifically `words` name these levels; `None` if they do not.
pub fn level_weights(words: &[(Binding, Word)], levels: &[Level<'_>]) -> Option<Vec<u8>> {
    let Some(((binding, word), rest)) = words.split_first() else {
        return levels.is_empty().then(Vec::new);
    };
    let mut best: Option<Vec<u8>> = None;
    // A tight word has to be the next level; a loose one may skip levels, and skipping later ones is more specific.
    let skips = if *binding == Binding::Tight { 0 } else { levels.len().saturating_sub(words.len()) };
    for skip in 0..=skips {
        let Some((level, deeper)) = levels.get(skip..).and_then(<[_]>::split_first) else { break };
        let here = match (word, binding) {
            (Word::Any, Binding::Loose) => 1,
            (Word::Any, Binding::Tight) => 2,
            (Word::Name(name), _) if !level.fits(name) => continue,
            (Word::Name(_), Binding::Loose) => 3,
            (Word::Name(_), Binding::Tight) => 4,
        };
        if let Some(tail) = level_weights(rest, deeper) {
            let weights: Vec<u8> = std::iter::repeat_n(0, skip).chain([here]).chain(tail).collect();
            best = best.max(Some(weights));
        }
    }
    best
}
