//! The observer: who saw which message when, in memory that was touched before the test, written out after it.
//!
//! A sender calls [`Observer::sent`] immediately before it hands a message to its API, a receiver [`Observer::received`]
//! once it has read the message's header, like the STAC Observer Library of the reports. The clock is `CLOCK_MONOTONIC`, which
//! all processes of a machine share; between machines the figures mean nothing. What was recorded is analysed afterwards
//! by [`analysis`].
//!
//! File: one line of JSON ([`Head`]), then records of little-endian `u64`: id, time, and for a sender the intended time.

pub mod analysis;
pub mod steady;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Which end of the test records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Records of three words: id, time of the call, intended time.
    Sender,
    /// Records of two words: id, time of the call.
    Receiver,
}

impl End {
    fn words(self) -> usize {
        match self {
            Self::Sender => 3,
            Self::Receiver => 2,
        }
    }
}

/// What is to be recorded; the flags of the tools and of the load generators of other products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Records for which memory is taken.
    pub capacity: usize,
    /// One of so many messages is recorded, chosen by its id, so that both ends choose the same; at least 1.
    pub every: u32,
    /// Connections whose messages go into one log; with several, the order of the log says nothing.
    pub connections: u32,
}

/// The id of a message: its item in the upper half, its number within the item in the lower.
#[inline]
pub fn id_of(item: u32, number: u32) -> u64 {
    u64::from(item) << 32 | u64::from(number)
}

/// What stands for an item in ids: the number at the end of its name, or a hash of the name where there is none.
pub fn item_key(name: &str) -> u32 {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    if let Ok(number) = name[digits..].parse::<u32>()
        && number < HASHED
    {
        return number;
    }
    // FNV-1a; a collision would only make two items look like one whose numbers jump.
    let hash = name.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash | HASHED
}

/// Keys from here on are hashes.
const HASHED: u32 = 1 << 31;

/// Records messages at one end.
#[derive(Debug)]
pub struct Observer {
    end: End,
    every: u32,
    connections: u32,
    words: Vec<u64>,
    limit: usize,
    missed: u64,
    cost_ns: f64,
    /// What [`Observer::finish`] writes.
    file: Option<(File, PathBuf)>,
}

/// What a file of records says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Which end recorded.
    pub end: End,
    /// The clock of the times, nanoseconds.
    pub clock: String,
    /// One of so many messages was recorded.
    pub every: u32,
    /// Connections whose messages are in it.
    pub connections: u32,
    /// Records that follow.
    pub records: u64,
    /// Messages that should have been recorded when the memory was full.
    pub missed: u64,
    /// What a call that records cost here, measured before the test.
    pub cost_ns: f64,
}

/// The clock, as files and reports name it.
pub const CLOCK: &str = "CLOCK_MONOTONIC";

/// Names the file in an error of making or writing it.
fn naming(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("observations {}: {e}", path.display()))
}

impl Observer {
    /// Takes and touches the memory and measures what a call costs: some milliseconds for a million records.
    pub fn new(end: End, plan: &Plan) -> Self {
        let limit = plan.capacity.max(1) * end.words();
        // Touched with something that is not zero: untouched memory would fault in the middle of the test.
        let words = vec![u64::MAX; limit];
        let mut observer = Self {
            end,
            every: plan.every.max(1),
            connections: plan.connections,
            words,
            limit,
            missed: 0,
            cost_ns: 0.0,
            file: None,
        };
        observer.words.clear();
        observer.cost_ns = observer.measure();
        observer
    }

    /// As [`Self::new`], with the file that [`Self::finish`] writes: made now, so that a test is not run for nothing.
    ///
    /// # Errors
    /// The file cannot be made; the error names it.
    pub fn writing(path: &Path, end: End, plan: &Plan) -> io::Result<Self> {
        let file = net::output::create(path).map_err(|e| naming(path, &e))?;
        Ok(Self { file: Some((file, path.to_owned())), ..Self::new(end, plan) })
    }

    /// Nanoseconds of a call that records: the least of several rounds over the memory that the test will use.
    fn measure(&mut self) -> f64 {
        const CALLS: usize = 2_000;
        let calls = CALLS.min(self.limit / self.end.words());
        let every = std::mem::replace(&mut self.every, 1);
        let mut best = f64::MAX;
        for _ in 0..20 {
            self.words.clear();
            let begin = net::clock::now();
            for n in 0..calls as u64 {
                match self.end {
                    End::Sender => self.sent(std::hint::black_box(n), n),
                    End::Receiver => self.received(std::hint::black_box(n)),
                }
            }
            best = best.min((net::clock::now() - begin) as f64 / calls as f64);
        }
        self.words.clear();
        (self.every, self.missed) = (every, 0);
        best
    }

    /// What a call that records costs, in nanoseconds.
    pub fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    /// Records so far.
    pub fn len(&self) -> usize {
        self.words.len() / self.end.words()
    }

    /// Whether nothing is recorded yet.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// A message is about to be handed to the API; it was to go at `intended`.
    #[inline]
    pub fn sent(&mut self, id: u64, intended: u64) {
        if self.is_chosen(id) {
            if self.words.len() + 3 <= self.limit {
                self.words.extend_from_slice(&[id, net::clock::now(), intended]);
            } else {
                self.missed += 1;
            }
        }
    }

    /// The message that was just recorded as [`Observer::sent`] was refused by the API: it will be recorded when it is sent.
    pub fn refused(&mut self, id: u64) {
        let last = self.words.len().wrapping_sub(3);
        if self.words.get(last) == Some(&id) {
            self.words.truncate(last);
        }
    }

    /// A message's header has been read.
    #[inline]
    pub fn received(&mut self, id: u64) {
        if self.is_chosen(id) {
            if self.words.len() + 2 <= self.limit {
                self.words.extend_from_slice(&[id, net::clock::now()]);
            } else {
                self.missed += 1;
            }
        }
    }

    /// Item and number together, so that a round over all items is not taken or left as a whole.
    #[inline]
    fn is_chosen(&self, id: u64) -> bool {
        self.every == 1 || ((id >> 32) as u32).wrapping_add(id as u32).is_multiple_of(self.every)
    }

    /// Writes everything to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        self.write(&net::output::create(path)?)
    }

    /// Writes everything to the file of [`Self::writing`], if there is one.
    ///
    /// # Errors
    /// The file cannot be written; the error names it.
    pub fn finish(&self) -> io::Result<()> {
        let Some((file, path)) = &self.file else { return Ok(()) };
        self.write(file).map_err(|e| naming(path, &e))
    }

    fn write(&self, file: &File) -> io::Result<()> {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let head = Head {
            end: self.end,
            clock: CLOCK.to_owned(),
            every: self.every,
            connections: self.connections,
            records: self.len() as u64,
            missed: self.missed,
            cost_ns: (self.cost_ns * 10.0).round() / 10.0,
        };
        writeln!(file, "{}", serde_json::to_string(&head)?)?;
        for word in &self.words {
            file.write_all(&word.to_le_bytes())?;
        }
        file.flush()
    }
}

/// A message at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The message's id.
    pub id: u64,
    /// When it was handed over.
    pub at: u64,
    /// When it was to be.
    pub intended: u64,
}

/// A message at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message's id.
    pub id: u64,
    /// When it had arrived.
    pub at: u64,
}

/// Reads a sender's records.
///
/// # Errors
/// The file cannot be read, is a receiver's, or was cut off.
pub fn read_sent(path: &Path) -> io::Result<(Head, Vec<Sent>)> {
    let (head, words) = read(path, End::Sender)?;
    Ok((head, words.chunks_exact(3).map(|w| Sent { id: w[0], at: w[1], intended: w[2] }).collect()))
}

/// Reads a receiver's records.
///
/// # Errors
/// The file cannot be read, is a sender's, or was cut off.
pub fn read_received(path: &Path) -> io::Result<(Head, Vec<Received>)> {
    let (head, words) = read(path, End::Receiver)?;
    Ok((head, words.chunks_exact(2).map(|w| Received { id: w[0], at: w[1] }).collect()))
}

fn read(path: &Path, end: End) -> io::Result<(Head, Vec<u64>)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let mut file = BufReader::new(File::open(path)?);
    let mut line = String::new();
    file.read_line(&mut line)?;
    let head: Head = serde_json::from_str(&line).map_err(|e| wrong(&format!("no file of an observer: {e}")))?;
    if head.end != end {
        return Err(wrong("recorded at the other end"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || words.len() as u64 != head.records.saturating_mul(end.words() as u64) {
        return Err(wrong("cut off"));
    }
    Ok((head, words.iter().map(|w| u64::from_le_bytes(*w)).collect()))
}
