//! Captures of CME MDP 3.0: a channel's incremental lines, snapshots and definitions, told apart by what their packets are for.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use market::ReadBooks;
use venue::cme::{CmeChannel, PacketKind, Schema};
use venue::lines::LINES;

use super::board::Board;
use super::cme_items::CmeItems;
use super::datagrams::Datagrams;
use super::input::{Input, LIMITS};
use super::web::At;
use crate::session::{DAY, Nanos};

/// Events of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The incremental feed; A is 0.
    Line(u8),
    /// Snapshots and definitions.
    Recovery,
}

/// The contents of a capture, found by reading it once.
struct Contents {
    ways: HashMap<SocketAddr, Way>,
    /// Symbols by number of instrument.
    symbols: HashMap<i32, String>,
    has_orders: bool,
}

/// A capture that is read.
pub(super) struct CmeFile {
    datagrams: Datagrams,
    items: CmeItems,
    ways: HashMap<SocketAddr, Way>,
    has_orders: bool,
    /// The next packet's way, when it was captured.
    next: Option<(Way, u64)>,
    foreign: u64,
    short: u64,
    /// The end was reached, and what was missing then is lost.
    is_over: bool,
    now: u64,
}

/// Packets of a line whose bytes are remembered while contents are looked for.
const REMEMBERED: usize = 1 << 16;
/// Schemas are some hundred KB; a longer file is none.
const LONGEST_SCHEMA: u64 = 16 << 20;

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Reads the exchange's schema.
pub(super) fn schema(path: &Path) -> io::Result<Schema> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let length = std::fs::metadata(path).map_err(named)?.len();
    if length > LONGEST_SCHEMA {
        return Err(invalid(format!("{} is of {length} bytes: no schema (templates_FixBinary.xml)", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(named)?;
    Schema::read(&text).map_err(|why| invalid(format!("{}: {why}", path.display())))
}

/// Reads a capture for its groups and instruments.
fn contents(path: &Path, schema: Schema) -> io::Result<Contents> {
    let mut datagrams = Datagrams::open(path)?;
    let mut items = CmeItems::new(CmeChannel::new(schema, LIMITS), HashMap::new(), true);
    let (mut kinds, mut has_orders) = (HashMap::<SocketAddr, PacketKind>::new(), false);
    let mut lines: Vec<SocketAddr> = Vec::new();
    // By number: hash and line of the packet, so that two channels are not taken for two lines.
    let mut seen: HashMap<[u8; 4], (u64, SocketAddr)> = HashMap::new();
    while let Some(datagram) = datagrams.next() {
        let payload = datagrams.payload();
        let kind = items.channel().kind(payload);
        if kind == PacketKind::Other {
            continue;
        }
        has_orders |= kind == PacketKind::OrderSnapshot;
        let known = kinds.entry(datagram.destination).or_insert(kind);
        *known = (*known).min(kind);
        if kind == PacketKind::Definitions {
            items.learn(payload);
        }
        if kind == PacketKind::Incremental {
            if !lines.contains(&datagram.destination) {
                lines.push(datagram.destination);
            }
            let Some(number) = payload.first_chunk::<4>() else { continue };
            let mut hasher = DefaultHasher::new();
            payload[4..].hash(&mut hasher);
            let hash = hasher.finish();
            match seen.get(number) {
                Some((other, line)) if *other != hash && *line != datagram.destination => {
                    return Err(invalid(format!(
                        "{line} and {} are two channels, of which one can be played: cut the capture to the groups of one",
                        datagram.destination
                    )));
                }
                None if seen.len() < REMEMBERED => {
                    seen.insert(*number, (hash, datagram.destination));
                }
                _ => {}
            }
        }
    }
    if lines.is_empty() {
        let text =
            "no packet in it changes a book by this schema: it is of another feed, or the schema of another version";
        return Err(invalid(datagrams.trouble().unwrap_or_else(|| text.to_owned())));
    }
    let way = |(group, kind): (SocketAddr, PacketKind)| {
        let line = lines.iter().position(|line| *line == group).filter(|_| kind == PacketKind::Incremental);
        (group, line.map_or(Way::Recovery, |line| Way::Line(line.min(LINES - 1) as u8)))
    };
    Ok(Contents { ways: kinds.into_iter().map(way).collect(), symbols: items.into_symbols(), has_orders })
}

impl CmeFile {
    /// Opens a capture, which is read by the exchange's schema.
    pub(super) fn open(path: &Path, schema_file: &Path) -> io::Result<Self> {
        let Contents { ways, symbols, has_orders } = contents(path, schema(schema_file)?)?;
        let channel = CmeChannel::new(schema(schema_file)?, LIMITS);
        let mut new = Self {
            datagrams: Datagrams::open(path)?,
            items: CmeItems::new(channel, symbols, has_orders),
            ways,
            has_orders,
            next: None,
            foreign: 0,
            short: 0,
            is_over: false,
            now: 0,
        };
        new.fill();
        Ok(new)
    }

    /// Whether the capture has books by order from their beginning.
    pub(super) fn has_orders(&self) -> bool {
        self.has_orders
    }

    /// Symbols of the instruments that the capture defines.
    pub(super) fn symbols(&self) -> Vec<String> {
        self.items.symbols()
    }

    fn fill(&mut self) {
        self.next = None;
        while self.next.is_none() {
            let Some(datagram) = self.datagrams.next() else { return };
            let Some(way) = self.ways.get(&datagram.destination).copied() else {
                self.foreign += 1;
                continue;
            };
            self.short += u64::from(datagram.missing > 0 && !self.datagrams.is_cut());
            self.now = self.now.max(datagram.at);
            self.next = Some((way, datagram.at));
        }
    }
}

impl Input for CmeFile {
    fn next_at(&self) -> Option<u64> {
        (self.next.is_some() || !self.is_over).then_some(self.now)
    }

    fn step(&mut self, board: &mut Board) {
        let Some((way, at)) = self.next else {
            // Nothing follows: what is missing is lost; where the file is cut, nobody knows what followed.
            while let Some(at) = self.items.timer().filter(|_| !self.datagrams.is_cut()) {
                self.items.on_timer(At { now: at, wall: at }, board);
            }
            self.is_over = true;
            return;
        };
        while let Some(due) = self.items.timer().filter(|due| *due <= at) {
            self.items.on_timer(At { now: due, wall: due }, board);
        }
        let at = At { now: at, wall: at };
        match way {
            Way::Line(line) => self.items.incremental(line, self.datagrams.payload(), at, board),
            Way::Recovery => self.items.recovery(self.datagrams.payload(), at, board),
        }
        self.fill();
    }

    fn settles_itself(&self) -> bool {
        true
    }

    fn is_at_traffic(&self) -> bool {
        matches!(self.next, Some((Way::Line(_), _)) | None)
    }

    fn books(&self) -> &dyn ReadBooks {
        &self.items
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        self.now / DAY * DAY + since_midnight
    }

    fn messages(&self) -> u64 {
        self.items.packets()
    }

    fn unread(&self) -> Option<String> {
        let short = || (self.short > 0).then(|| format!("{} packets were captured in part (snap length)", self.short));
        self.datagrams.trouble().or_else(short)
    }

    fn remarks(&self) -> Option<String> {
        let counts = self.items.channel().counts();
        let mut texts = Vec::new();
        if counts.gaps > 0 {
            let (gaps, repairs, lost) = (counts.gaps, counts.repairs, counts.lost);
            texts.push(format!("gaps {gaps}, repaired {repairs}, packets that are not in the capture {lost}"));
        }
        let kinds = self.items.bad().into_iter().chain([("datagrams of other feeds".to_owned(), self.foreign)]);
        texts.extend(kinds.filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{kind}: {count}")));
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
