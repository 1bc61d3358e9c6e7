//! CME MDP 3.0: incremental feed of two lines, market recovery by snapshots, books by price, implied and by order; laid out as the exchange's own
//! schema says, which is read when a channel is made ([`Schema::read`]) and is no part of this crate.
//!
//! A lost packet makes books of the channel suspect, not all of them for long: reports are numbered for each instrument, so that the next one of
//! an instrument tells whether something is missing. Messages that change books by order alone have no such number: of those all wait for a snapshot.

mod books;
mod channels;
mod roles;
mod schema;

use market::{BookId, CmeLevels, CmeMdp, Level, OrderBooks, Side};

use self::books::{Books, PACKET_HEADER, book, place};
use crate::lines::{LineCounts, Lines};
use crate::market_events::Market;
use crate::sequence::{Arbiter, Change, Counts, Limits, Receiver};

pub use self::books::Part;
pub use self::channels::{Channel, ChannelsError, Connection, FeedType};
pub use self::schema::{Block, Entries, Field, Found, Group, Message, Schema, SchemaError, Template};

/// What the exchange tells besides books and trades, and what becomes of a book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Messages about this book are missing, or may be: it is as it was, until [`Notice::Good`]. Of both books by price it is told once, of the outright one.
    Suspect,
    /// The book is whole.
    Good,
    /// There is such an instrument.
    Definition(Definition),
    /// State of an instrument, or of a group of them if the notice is of no book.
    Status(Status),
    /// A statistic of an instrument.
    Statistic {
        /// `MDEntryType`.
        kind: u8,
        /// Billionths.
        price: Option<i64>,
        /// As told.
        size: Option<i64>,
    },
    /// Between which prices an instrument may be traded, billionths.
    Limits {
        /// Above it nothing is; `None`: there is no such limit.
        high: Option<i64>,
        /// Below it.
        low: Option<i64>,
    },
}

/// An instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `SecurityID`.
    pub security: i32,
    /// `Symbol`.
    pub symbol: String,
    /// `SecurityGroup`.
    pub group: String,
    /// `TotNumReports`: instruments that the feed of definitions has in all.
    pub total: Option<u64>,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `SecurityGroup`.
    pub group: String,
    /// `SecurityTradingStatus`.
    pub status: Option<u8>,
    /// `HaltReason`.
    pub reason: Option<u8>,
}

/// What cannot be what was meant, by kind; all are counted, none stops anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    /// Packets without a header.
    pub header: u64,
    /// Packets that end within a message.
    pub cut: u64,
    /// Templates that the schema does not have.
    pub unknown_template: u64,
    /// A value that a field cannot have.
    pub value: u64,
    /// An order that names no entry of its message.
    pub reference: u64,
    /// A level where none can be.
    pub rank: u64,
    /// An order that is there, or is not.
    pub order: u64,
    /// Reports that had come before.
    pub repeated: u64,
    /// Instruments that cannot be held.
    pub too_many: u64,
}

/// The purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketKind {
    /// It changes books, or tells of trades and states: of the incremental feed.
    Incremental,
    /// Snapshots by order.
    OrderSnapshot,
    /// Snapshots by price.
    Snapshot,
    /// Definitions of instruments.
    Definitions,
    /// None of the schema's messages that are read, or no packet.
    Other,
}

/// A channel.
#[derive(Debug)]
pub struct CmeChannel {
    arbiter: Arbiter,
    lines: Lines,
    books: Books,
    is_begun: bool,
    /// When the newest packet was sent.
    sent: u64,
}

/// Applies packets in order.
struct ToBooks<'a, M> {
    books: &'a mut Books,
    market: &'a mut M,
}

impl<M: Market<Notice>> Receiver for ToBooks<'_, M> {
    fn message(&mut self, number: u64, packet: &[u8]) {
        self.books.incremental(number, packet, self.market);
    }

    fn change(&mut self, change: &Change) {
        if let Change::Lost { missing } = change {
            self.books.lost(missing.end, self.market);
        }
        self.market.change(change);
    }
}

/// Packets of one time are no further apart, nanoseconds.
const APART: u64 = 1_000_000_000;

impl CmeChannel {
    /// A channel of which nothing has come.
    pub fn new(schema: Schema, limits: Limits) -> Self {
        Self {
            arbiter: Arbiter::new(1, limits),
            lines: Lines::new(),
            books: Books::new(schema),
            is_begun: false,
            sent: 0,
        }
    }

    /// Takes a packet of the incremental feed, of a line (A is 0, B is 1) or of the replay server, at time `now` (nanoseconds, never falling).
    pub fn incremental<M: Market<Notice>>(&mut self, line: u8, packet: &[u8], now: u64, market: &mut M) {
        let Some((sequence, sent)) = header(packet) else {
            self.books.bad.header += 1;
            return;
        };
        // Numbers begin again each week; a late copy of the first packet was sent when it was.
        let is_anew =
            self.is_begun && sequence == 1 && sequence < self.arbiter.next() && sent > self.sent.saturating_add(APART);
        if !self.is_begun || is_anew {
            self.is_begun = true;
            self.arbiter.begin(sequence);
            self.lines.forget_times();
            self.books.begin(sequence == 1, market);
            market.change(&Change::Session { name: String::new(), next: sequence });
        }
        self.sent = self.sent.max(sent);
        let Self { arbiter, lines, books, .. } = self;
        let receiver = &mut ToBooks { books, market };
        let is_new = arbiter.offer(sequence, packet, receiver);
        lines.note(line, sequence, 1, u64::from(is_new), now);
        arbiter.settle(now, receiver);
    }

    /// Takes a packet of the market recovery feed, by price or by order, or of the instruments' definitions; of any line.
    pub fn recovery<M: Market<Notice>>(&mut self, packet: &[u8], market: &mut M) {
        if header(packet).is_none() {
            self.books.bad.header += 1;
            return;
        }
        let next = if self.is_begun { self.arbiter.next() } else { 0 };
        self.books.recovery(next, packet, market);
    }

    /// When [`CmeChannel::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<u64> {
        self.arbiter.timer()
    }

    /// Tells and asks for what is missing, or gives it up.
    pub fn on_timer<M: Market<Notice>>(&mut self, now: u64, market: &mut M) {
        let Self { arbiter, books, .. } = self;
        arbiter.on_timer(now, &mut ToBooks { books, market });
    }

    /// Number of the next packet.
    pub fn next(&self) -> u64 {
        self.arbiter.next()
    }

    /// Packets that are wanted from the replay server.
    pub fn poll_request(&mut self) -> Option<std::ops::Range<u64>> {
        self.arbiter.poll_request()
    }

    /// A book of the channel waits for a snapshot, or for its next report: the recovery feeds are needed.
    pub fn is_recovering(&self) -> bool {
        self.books.is_recovering()
    }

    /// The book of an instrument.
    pub fn book(&self, security: i32, part: Part) -> Option<BookId> {
        self.books.instrument(security).map(|at| book(at, part))
    }

    /// The levels of a book by price in the exchange's order, the best first.
    pub fn levels(&self, security: i32, part: Part, side: Side) -> impl Iterator<Item = Level> {
        let book = self.book(security, part);
        book.into_iter().flat_map(move |book| self.books.levels().levels(book, side))
    }

    /// Instruments that are known, in the order of the numbers of their books.
    pub fn securities(&self) -> impl Iterator<Item = i32> {
        self.books.securities()
    }

    /// The books by price and the implied ones, in the exchange's order; [`CmeChannel::book`] has their numbers.
    pub fn prices(&self) -> &OrderBooks<CmeLevels> {
        self.books.levels()
    }

    /// Whether a book is whole, by its number.
    pub fn is_whole(&self, book: BookId) -> bool {
        let (at, part) = place(book);
        self.books.is_good(at, part)
    }

    /// The purpose of a packet, by its messages; of several by the first kind that is listed.
    pub fn kind(&self, packet: &[u8]) -> PacketKind {
        header(packet).map_or(PacketKind::Other, |_| self.books.kind(packet))
    }

    /// The books by order; [`CmeChannel::book`] has their numbers.
    pub fn orders(&self) -> &OrderBooks<CmeMdp> {
        self.books.orders()
    }

    /// Whether a book is whole.
    pub fn is_good(&self, security: i32, part: Part) -> bool {
        self.books.instrument(security).is_some_and(|at| self.books.is_good(at, part))
    }

    /// Counters of packets.
    pub fn counts(&self) -> &Counts {
        self.arbiter.counts()
    }

    /// Counters of a line.
    pub fn line(&self, line: u8) -> LineCounts {
        self.lines.counts(line)
    }

    /// What was wrong.
    pub fn bad(&self) -> &Bad {
        &self.books.bad
    }
}

/// Number of a packet, and when it was sent (nanoseconds since 1970).
fn header(packet: &[u8]) -> Option<(u64, u64)> {
    let bytes = packet.first_chunk::<PACKET_HEADER>()?;
    let (sequence, sent) = bytes.split_first_chunk::<4>()?;
    let sequence = u64::from(u32::from_le_bytes(*sequence));
    Some((sequence, u64::from_le_bytes(sent.try_into().ok()?))).filter(|(sequence, _)| *sequence > 0)
}
