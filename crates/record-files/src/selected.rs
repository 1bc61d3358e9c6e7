//! Which records of a recording are exported, and how far that is.

use permissions::rights::Pattern;
use record::{Entry, Item, Kind, Recording};
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(2);

/// Which records are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Records from this time on, nanoseconds since 1970.
    pub from: u64,
    /// Records up to this time.
    pub to: u64,
    /// Names of items; none for all.
    pub patterns: Vec<Pattern>,
    /// Numbers of domains; none for all.
    pub domains: Vec<u8>,
}

impl Wanted {
    /// Without a choice of items all records are wanted, those of the service and gaps among them.
    fn has(&self, entry: &Entry<'_>) -> bool {
        let is_wanted = |item: &Item| {
            (self.domains.is_empty() || self.domains.contains(&item.domain))
                && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(&*item.name)))
        };
        entry.item.map_or(entry.record.kind == Kind::Gap || self.is_all(), is_wanted)
    }

    fn is_all(&self) -> bool {
        self.patterns.is_empty() && self.domains.is_empty()
    }
}

/// Why an export has ended.
#[derive(Debug)]
pub enum Failure {
    /// The recording cannot be read.
    Read(record::Error),
    /// A file cannot be written.
    Write(io::Error),
    /// A table cannot be made, which is a fault of ours, or its library cannot write it.
    Table(record_columns::Error),
    /// Somebody has said stop.
    Stopped,
}

impl From<record_columns::Error> for Failure {
    fn from(error: record_columns::Error) -> Self {
        match error {
            record_columns::Error::Io(error) => Self::Write(error),
            error => Self::Table(error),
        }
    }
}

impl From<record::Error> for Failure {
    fn from(error: record::Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Goes over the wanted records until `take` breaks or `stop` says so, and tells how far it is; `done` says what is done with them.
pub(crate) fn each<S: record::Store>(
    recording: &Recording<S>,
    wanted: &Wanted,
    done: &str,
    stop: &dyn Fn() -> bool,
    take: &mut dyn FnMut(&Entry<'_>) -> io::Result<ControlFlow<()>>,
) -> Result<(), Failure> {
    let (first, last) = recording.info().span.unwrap_or_default();
    let (first, last) = (first.max(wanted.from), last.min(wanted.to));
    let (started, mut told, mut count) = (Instant::now(), Instant::now(), 0_u64);
    let mut cursor = recording.from_time(wanted.from);
    while let Some(entry) = cursor.next()?.filter(|entry| entry.record.time <= wanted.to) {
        if wanted.has(&entry) && take(&entry)?.is_break() {
            break;
        }
        count += 1;
        if count.is_multiple_of(4_096) && stop() {
            return Err(Failure::Stopped);
        }
        if count.is_multiple_of(4_096) && told.elapsed() >= PROGRESS {
            told = Instant::now();
            let share = entry.record.time.saturating_sub(first) as f64 / last.saturating_sub(first).max(1) as f64;
            let seconds = started.elapsed().as_secs_f64();
            let left = seconds / share.max(1e-3) - seconds;
            net::output::tell(format_args!(
                "{count} records {done}, {:.0}/s, {:.0} %, {left:.0} s left",
                count as f64 / seconds,
                share * 100.0
            ));
        }
    }
    Ok(())
}
