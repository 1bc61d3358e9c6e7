//! Broken invariants: what the code holds to be impossible and finds all the same. Where code is tested it panics at once, in debug builds and in
//! the simulation. In a server the fault is counted by its place in the source, told once, and the caller brings what it has in hand to a legal
//! state: one item or client may be wrong then, and all others are served.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Texts are cut here, bytes: names of items are part of some.
const TEXT_MAX: usize = 500;

/// The places at which something was found. As many as the source has.
static PLACES: Mutex<Vec<Finding>> = Mutex::new(Vec::new());
/// Places that are in the list.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// The first finding at a place.
struct Finding {
    place: &'static Place,
    what: String,
}

/// A place in the source at which an invariant is looked at. Made by [`fault!`](crate::fault).
#[derive(Debug)]
pub struct Place {
    file: &'static str,
    line: u32,
    count: AtomicU64,
}

impl Place {
    /// Of `file!()` and `line!()`.
    #[must_use]
    pub const fn new(file: &'static str, line: u32) -> Self {
        Self { file, line, count: AtomicU64::new(0) }
    }

    /// Counts a fault; what it is stays known of the first one.
    ///
    /// # Panics
    /// With the text where assertions are on.
    #[cold]
    #[expect(clippy::assertions_on_constants, reason = "constant is what the build is for")]
    pub fn note(&'static self, what: fmt::Arguments<'_>) {
        assert!(!cfg!(debug_assertions), "a broken invariant: {what}");
        self.count(what);
    }

    fn count(&'static self, what: fmt::Arguments<'_>) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            let mut what = what.to_string();
            what.truncate(what.floor_char_boundary(TEXT_MAX));
            PLACES.lock().unwrap_or_else(PoisonError::into_inner).push(Finding { place: self, what });
            FOUND.fetch_add(1, Ordering::Release);
        }
    }
}

/// A place at which an invariant was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// File and line.
    pub place: String,
    /// How often, since the start.
    pub count: u64,
    /// The first finding.
    pub what: String,
}

/// How many places there are at which something was found: costs a load, so that it can be asked each turn.
pub fn places() -> u64 {
    FOUND.load(Ordering::Acquire)
}

/// The places at which something was found, those behind the first `after` of them; in the order in which that happened.
pub fn behind(after: u64) -> Vec<Fault> {
    let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let fault = |finding: &Finding| Fault {
        place: format!("{}:{}", finding.place.file, finding.place.line),
        count: finding.place.count.load(Ordering::Relaxed),
        what: finding.what.clone(),
    };
    places.iter().skip(usize::try_from(after).unwrap_or(usize::MAX)).map(fault).collect()
}

/// How often an invariant was broken in this process.
pub fn total() -> u64 {
    behind(0).iter().map(|fault| fault.count).sum()
}

/// Notes a broken invariant, in words with values as in `format!`. The caller goes on, and says in which state it leaves what it has in hand.
#[macro_export]
macro_rules! fault {
    ($($what:tt)+) => {{
        static PLACE: $crate::faults::Place = $crate::faults::Place::new(file!(), line!());
        PLACE.note(format_args!($($what)+));
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_and_told_of_once() {
        static PLACE: Place = Place::new("here.rs", 7);
        let (before, all) = (places(), total());
        for n in 0..3 {
            PLACE.count(format_args!("item {n} is {}", "\u{e9}".repeat(TEXT_MAX)));
        }
        assert_eq!((places(), total()), (before + 1, all + 3));
        let faults = behind(before);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert_eq!((&fault.place[..], fault.count), ("here.rs:7", 3));
        assert!(fault.what.starts_with("item 0 is \u{e9}") && fault.what.len() <= TEXT_MAX, "the first one, cut");
        assert!(behind(places()).is_empty());
    }

    #[test]
    #[should_panic(expected = "a broken invariant: item 3 is gone")]
    fn what_is_tested_panics() {
        fault!("item {} is gone", 3);
    }
}
