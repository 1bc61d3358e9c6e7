//! A topic of several sources, made one stream: the first copy of each number is delivered.

use lbm::topic::Message;

use crate::content::{ByContent, Verdict};
use crate::held::{Held, Waiting};
use crate::mark::{Mark, Number, Read};
use crate::recent::{Recent, digest};
use crate::spans::Spans;
use crate::trail::Trail;

/// Positions count from here, so that numbers before the first one have a place as well.
const ORIGIN: u64 = 1 << 62;
/// The widest gap that is believed: what is farther ahead counts as behind. The product's documentation has the same figure.
pub const GAP_MAX: u64 = 1 << 30;
/// Gaps that are remembered at a time where messages are delivered as they arrive.
const GAPS_MAX: usize = 65_536;

/// In which order messages are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// By number. Each source's own messages have to come in its order (`ordered_delivery 1`).
    #[default]
    InOrder,
    /// As first copies arrive.
    Arrival,
}

/// How a receiver delivers.
#[derive(Clone, Debug)]
pub struct Config {
    /// `ordered_delivery`.
    pub order: Order,
    /// Later copies are delivered, too, and say so: `hf_duplicate_delivery`.
    pub duplicate_delivery: bool,
    /// Optional messages are delivered: `hf_optional_messages`.
    pub optional_messages: bool,
    /// How long a number may be missing that a source may still bring, ns: the smaller NAK generation interval of LBT-RM and LBT-RU.
    pub gap_ns: u64,
    /// Bytes that wait behind gaps at most; the oldest gap is given up for what comes then.
    pub waiting_bytes_max: usize,
    /// Copies of one number are held against each other.
    pub compare: bool,
    /// Messages without a number are told apart by what is in them; else they pass through.
    pub by_content: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            order: Order::InOrder,
            duplicate_delivery: false,
            optional_messages: true,
            gap_ns: 10_000_000_000,
            waiting_bytes_max: 64 << 20,
            compare: true,
            by_content: false,
        }
    }
}

/// As what a message is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The first copy of its number.
    First(Mark),
    /// A later copy.
    Duplicate(Mark),
    /// A message without a number: every source's is delivered.
    PassThrough,
    /// A message without a number that is the first copy by what is in it. The number is this receiver's own.
    ByContent(u64),
}

/// A message for the application.
#[derive(Clone, Debug)]
pub struct Delivered<'a> {
    /// Whose copy it is.
    pub source: u32,
    /// As what it comes.
    pub way: Way,
    /// Where a reply is to go. Only messages without a number want replies.
    pub request: Option<lbm::wire::header::Request>,
    /// The message as its source sent it; `sqn` is the source's own number.
    pub message: Message<'a>,
}

/// Numbers that no source will bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first of them.
    pub first: Number,
    /// Their number.
    pub count: u64,
}

/// Two copies of one number that are not the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number.
    pub number: Number,
    /// Whose copy was delivered.
    pub delivered: u32,
    /// Whose copy differs.
    pub other: u32,
}

/// Takes what a receiver delivers.
pub trait FailoverSink {
    /// A message.
    fn message(&mut self, delivered: Delivered<'_>);

    /// Numbers are lost: no source has them. Told once, before the message behind them.
    fn lost(&mut self, _lost: Lost) {}

    /// Sources disagree about what a number is.
    fn differs(&mut self, _difference: Difference) {}

    /// A source has said that `next` is expected from now on. Told once for all sources that say so.
    fn reset(&mut self, _source: u32, _next: Number) {}
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// First copies delivered.
    pub delivered: u64,
    /// Later copies.
    pub duplicates: u64,
    /// Later copies that were held against the first one.
    pub compared: u64,
    /// Of them, those that differ.
    pub differing: u64,
    /// Numbers that no source has brought.
    pub lost: u64,
    /// Numbers that sources have left out on purpose.
    pub left_out: u64,
    /// Optional messages that were not delivered.
    pub optional: u64,
    /// Messages without a number.
    pub pass_through: u64,
    /// Messages from before a reset that others have said already.
    pub outdated: u64,
    /// Messages of a width other than that of the first one, or with a number of no known width. They pass through.
    pub malformed: u64,
    /// Messages more than [`GAP_MAX`] ahead.
    pub too_far: u64,
}

#[derive(Debug)]
struct Source {
    name: u32,
    /// The topic sequence number that follows its last message.
    next_sqn: Option<u32>,
    /// Position of its last number, if nothing of the source was missed since: what it leaves out behind that, it leaves out on purpose.
    unbroken: Option<u64>,
    /// The highest position that it has brought.
    reached: Option<u64>,
    /// Its latest messages, once one of [`Order::Arrival`] was missing.
    trail: Option<Box<Trail>>,
    /// The source has sent the last reset, or begun long enough after it.
    is_reset: bool,
}

#[derive(Debug)]
struct Reset {
    next: Number,
    at: u64,
}

/// A receiver of hot failover. Sources are told apart by numbers of the caller's.
#[derive(Debug)]
pub struct Failover {
    config: Config,
    sources: Vec<Source>,
    /// The number at [`ORIGIN`].
    start: Option<Number>,
    /// The position that comes next; in [`Order::Arrival`] the one behind the highest.
    expected: u64,
    waiting: Waiting,
    /// Left out on purpose by a source, at `expected` or behind it; of [`Order::InOrder`].
    left_out: Spans,
    /// Below `expected` and not delivered; of [`Order::Arrival`].
    missing: Spans,
    recent: Recent,
    reset: Option<Reset>,
    content: ByContent,
    stats: Stats,
}

impl Failover {
    /// A receiver that has heard nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            sources: Vec::new(),
            start: None,
            expected: ORIGIN,
            waiting: Waiting::default(),
            left_out: Spans::default(),
            missing: Spans::default(),
            recent: Recent::default(),
            reset: None,
            content: ByContent::default(),
            stats: Stats::default(),
        }
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// How many sources there are.
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// Bytes that wait behind a gap.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting.bytes()
    }

    /// Whether a message of this source waits: its name may not be given to another one yet.
    pub fn holds(&self, source: u32) -> bool {
        self.waiting.is_of(source)
    }

    /// A source was heard.
    pub fn begin(&mut self, now: u64, source: u32) {
        self.place(now, source);
    }

    /// A source has ended. What only it could have brought may be lost now.
    pub fn end(&mut self, now: u64, source: u32, sink: &mut impl FailoverSink) {
        self.sources.retain(|s| s.name != source);
        self.content.end(source);
        if self.config.order == Order::InOrder && !self.sources.is_empty() {
            self.settle(now, sink);
        }
    }

    fn place(&mut self, now: u64, source: u32) -> usize {
        if let Some(at) = self.sources.iter().position(|s| s.name == source) {
            return at;
        }
        let is_reset = self.reset.as_ref().is_none_or(|reset| now >= reset.at.saturating_add(self.config.gap_ns));
        self.sources.push(Source {
            name: source,
            next_sqn: None,
            unbroken: None,
            reached: None,
            trail: None,
            is_reset,
        });
        self.sources.len() - 1
    }

    /// A message of a source. `read` is what its headers say.
    #[inline]
    pub fn message(&mut self, now: u64, source: u32, read: &Read, message: &Message<'_>, sink: &mut impl FailoverSink) {
        let at = self.place(now, source);
        let from = &mut self.sources[at];
        let first_sqn = read.first_sqn.unwrap_or(message.sqn);
        if from.next_sqn != Some(first_sqn) {
            let last = from.unbroken.take();
            if let (Order::Arrival, Some(next), Some(last)) = (self.config.order, from.next_sqn, last) {
                let before = next.wrapping_sub(1);
                from.trail.get_or_insert_default().put(before, before, last);
            }
        }
        from.next_sqn = Some(message.sqn.wrapping_add(1));
        let Some(mark) = read.mark else {
            self.stats.malformed += u64::from(read.malformed);
            self.unnumbered(source, read, message, sink);
            return;
        };
        if mark.reset {
            self.on_reset(now, at, mark.number, sink);
            return;
        }
        if self.is_outdated(now, at) {
            self.stats.outdated += 1;
            return;
        }
        let start = *self.start.get_or_insert(mark.number);
        let expected = start.offset(self.expected.wrapping_sub(ORIGIN));
        let Some(distance) = expected.distance(mark.number) else {
            self.stats.malformed += 1;
            self.unnumbered(source, read, message, sink);
            return;
        };
        if distance > GAP_MAX as i64 {
            self.stats.too_far += 1;
            return;
        }
        let position = self.expected.wrapping_add_signed(distance);
        let from = &mut self.sources[at];
        let unbroken = from.unbroken;
        from.unbroken = Some(unbroken.map_or(position, |last| last.max(position)));
        from.reached = Some(from.reached.map_or(position, |reached| reached.max(position)));
        let behind = unbroken.map_or(position, |last| last.wrapping_add(1));
        match self.config.order {
            Order::InOrder => self.in_order(now, source, behind, position, mark, message, sink),
            Order::Arrival => {
                let neighbours = from.trail.as_mut().map_or((None, None), |trail| {
                    trail.put(first_sqn, message.sqn, position);
                    trail.neighbours(first_sqn, message.sqn)
                });
                self.as_it_arrives(now, source, behind, position, mark, message, sink);
                let (before, next) = neighbours;
                let before = before.map_or(0, |before| self.missing.remove(before.wrapping_add(1), position));
                let next = next.map_or(0, |next| self.missing.remove(position.wrapping_add(1), next));
                self.stats.left_out += before + next;
            }
        }
    }

    /// A message that is no copy of another one, as far as it says.
    fn unnumbered(&mut self, source: u32, read: &Read, message: &Message<'_>, sink: &mut impl FailoverSink) {
        let way = if self.config.by_content && read.request.is_none() {
            match self.content.take(source, digest(message.payload)) {
                Verdict::First(number) => {
                    self.stats.delivered += 1;
                    Way::ByContent(number)
                }
                Verdict::Copy => {
                    self.stats.duplicates += 1;
                    return;
                }
            }
        } else {
            self.stats.pass_through += 1;
            Way::PassThrough
        };
        sink.message(Delivered { source, way, request: read.request, message: message.clone() });
    }

    #[allow(clippy::too_many_arguments, reason = "a message, with what was found out about it")]
    #[inline]
    fn in_order(
        &mut self,
        now: u64,
        source: u32,
        behind: u64,
        position: u64,
        mark: Mark,
        message: &Message<'_>,
        sink: &mut impl FailoverSink,
    ) {
        if behind < position && position > self.expected {
            self.left_out.add(now, behind.max(self.expected), position);
            self.advance(sink);
        }
        if position == self.expected {
            self.deliver(source, position, mark, message, sink);
            self.expected += 1;
            if !self.waiting.is_empty() || !self.left_out.is_empty() {
                self.settle(now, sink);
            }
        } else if position < self.expected {
            self.copy(source, position, mark, message, sink);
        } else if self.waiting.get(position).is_some() {
            self.copy_of_waiting(source, position, mark, message, sink);
            self.settle(now, sink);
        } else {
            self.waiting.keep(now, position, source, mark, message);
            self.settle(now, sink);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a message, with what was found out about it")]
    fn as_it_arrives(
        &mut self,
        now: u64,
        source: u32,
        behind: u64,
        position: u64,
        mark: Mark,
        message: &Message<'_>,
        sink: &mut impl FailoverSink,
    ) {
        if position >= self.expected {
            self.missing.add(now, self.expected, position);
            self.expected = position + 1;
            self.stats.left_out += self.missing.remove(behind, position);
            self.deliver(source, position, mark, message, sink);
            while self.missing.len() > GAPS_MAX {
                self.lose_first_gap(sink);
            }
            return;
        }
        self.stats.left_out += self.missing.remove(behind, position);
        if self.missing.remove(position, position + 1) == 1 {
            self.deliver(source, position, mark, message, sink);
        } else {
            self.copy(source, position, mark, message, sink);
        }
    }

    #[inline]
    fn deliver(&mut self, source: u32, position: u64, mark: Mark, message: &Message<'_>, sink: &mut impl FailoverSink) {
        // Who is alone has no copies to be held against.
        if self.config.compare && self.sources.len() > 1 {
            self.recent.put(position, digest(message.payload), source);
        }
        if mark.optional && !self.config.optional_messages {
            self.stats.optional += 1;
            return;
        }
        self.stats.delivered += 1;
        sink.message(Delivered { source, way: Way::First(mark), request: None, message: message.clone() });
    }

    /// A message behind the expected one.
    #[inline]
    fn copy(&mut self, source: u32, position: u64, mark: Mark, message: &Message<'_>, sink: &mut impl FailoverSink) {
        self.stats.duplicates += 1;
        if self.config.compare
            && let Some((first, delivered)) = self.recent.get(position)
        {
            self.stats.compared += 1;
            if first != digest(message.payload) {
                self.differs(Difference { number: mark.number, delivered, other: source }, sink);
            }
        }
        if self.config.duplicate_delivery && (!mark.optional || self.config.optional_messages) {
            sink.message(Delivered { source, way: Way::Duplicate(mark), request: None, message: message.clone() });
        }
    }

    /// A copy of a message that waits. It is no duplicate for the application before the first one is delivered, so it is not delivered.
    fn copy_of_waiting(
        &mut self,
        source: u32,
        position: u64,
        mark: Mark,
        message: &Message<'_>,
        sink: &mut impl FailoverSink,
    ) {
        self.stats.duplicates += 1;
        let Some(held) = self.waiting.get(position).filter(|_| self.config.compare) else { return };
        self.stats.compared += 1;
        if held.payload() != message.payload {
            let difference = Difference { number: mark.number, delivered: held.source, other: source };
            self.differs(difference, sink);
        }
    }

    #[cold]
    fn differs(&mut self, difference: Difference, sink: &mut impl FailoverSink) {
        self.stats.differing += 1;
        sink.differs(difference);
    }

    /// Goes on over what waits, and over what was left out on purpose.
    fn advance(&mut self, sink: &mut impl FailoverSink) {
        loop {
            if let Some(held) = self.waiting.take(self.expected) {
                let Held { source, mark, .. } = held;
                self.deliver(source, self.expected, mark, &held.message(), sink);
                self.expected += 1;
                continue;
            }
            let Some((first, end, _)) = self.left_out.first().filter(|(first, ..)| *first <= self.expected) else {
                return;
            };
            // Another source may have sent what this one left out.
            let next = self.waiting.first().map_or(end, |(waits, _)| end.min(waits));
            self.left_out.remove(first, next.max(self.expected));
            self.stats.left_out += next.saturating_sub(self.expected);
            self.expected = self.expected.max(next);
        }
    }

    /// Gives numbers up that no source will bring, or none has brought in time, and delivers what waits for them.
    fn settle(&mut self, now: u64, sink: &mut impl FailoverSink) {
        loop {
            self.advance(sink);
            let Some((_, at)) = self.waiting.first() else { return };
            let expected = self.expected;
            let mut current = self.sources.iter().filter(|s| s.is_reset).peekable();
            let passed =
                current.peek().is_some() && current.all(|s| s.reached.is_some_and(|reached| reached > expected));
            let is_late = now >= at.saturating_add(self.config.gap_ns);
            if !passed && !is_late && self.waiting.bytes() <= self.config.waiting_bytes_max || !self.give_up_gap(sink) {
                return;
            }
        }
    }

    /// Gives up what lies before the first message that waits, or that was left out. False if nothing waits.
    fn give_up_gap(&mut self, sink: &mut impl FailoverSink) -> bool {
        self.advance(sink);
        let Some((waits, _)) = self.waiting.first() else { return false };
        let end = self.left_out.first().map_or(waits, |(first, ..)| waits.min(first));
        let first = std::mem::replace(&mut self.expected, end);
        self.lose(first, end, sink);
        true
    }

    fn lose(&mut self, first: u64, end: u64, sink: &mut impl FailoverSink) {
        let Some(start) = self.start else { return };
        let count = end - first;
        self.stats.lost += count;
        sink.lost(Lost { first: start.offset(first.wrapping_sub(ORIGIN)), count });
    }

    fn lose_first_gap(&mut self, sink: &mut impl FailoverSink) {
        if let Some((first, end, _)) = self.missing.first() {
            self.missing.remove(first, end);
            self.lose(first, end, sink);
        }
    }

    /// Whether a message comes from before a reset that another source has said already: for as long as a number may be missing, while
    /// there are others.
    fn is_outdated(&self, now: u64, at: usize) -> bool {
        let Some(reset) = &self.reset else { return false };
        !self.sources[at].is_reset && self.sources.len() > 1 && now < reset.at.saturating_add(self.config.gap_ns)
    }

    /// A source says which number comes next. The same from another source is a copy of that.
    #[cold]
    fn on_reset(&mut self, now: u64, at: usize, next: Number, sink: &mut impl FailoverSink) {
        let from = &mut self.sources[at];
        let is_copy = !from.is_reset && self.reset.as_ref().is_some_and(|reset| reset.next == next);
        if is_copy {
            (from.is_reset, from.unbroken, from.reached, from.trail) = (true, None, None, None);
            self.stats.duplicates += 1;
            return;
        }
        let name = from.name;
        while self.give_up_gap(sink) {}
        while !self.missing.is_empty() {
            self.lose_first_gap(sink);
        }
        self.left_out.clear();
        self.recent.clear();
        (self.start, self.expected) = (Some(next), ORIGIN);
        self.reset = Some(Reset { next, at: now });
        for source in &mut self.sources {
            source.is_reset = source.name == name;
            (source.unbroken, source.reached, source.trail) = (None, None, None);
        }
        sink.reset(name, next);
    }

    /// When [`Failover::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        let waits = self.waiting.first().map(|(_, at)| at);
        let missing = self.missing.first().map(|(_, _, at)| at);
        waits.into_iter().chain(missing).min().map(|at| at.saturating_add(self.config.gap_ns))
    }

    /// Gives up what is missing for too long.
    pub fn on_timer(&mut self, now: u64, sink: &mut impl FailoverSink) {
        self.settle(now, sink);
        while let Some((_, _, at)) = self.missing.first()
            && now >= at.saturating_add(self.config.gap_ns)
        {
            self.lose_first_gap(sink);
        }
    }

    /// Asserts what holds between calls: for tests and simulations.
    ///
    /// # Panics
    /// Something does not hold: a fault of this module.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.waiting.check_invariants(self.expected);
        if let Some((first, ..)) = self.left_out.first() {
            assert!(first > self.expected, "{first} was left out, and {} is next", self.expected);
        }
        assert!(self.waiting.is_empty() || self.timeout().is_some(), "messages wait, and nobody looks at them again");
        match self.config.order {
            Order::InOrder => assert!(self.missing.is_empty()),
            Order::Arrival => assert!(self.waiting.is_empty() && self.left_out.is_empty()),
        }
        assert!(self.start.is_some() || self.expected == ORIGIN, "positions without a first number");
    }
}
