//! The delivery controller: one topic of one source at a receiver.

use super::catch_up::{CatchUp, CatchUpConfig, Entry};
use super::reassembly::{Added, Reassembly};
use super::{Message, Run, TopicSink};
use crate::transport::{EndReason, Order};
use crate::wire::header::{Header, LateJoinInfo};
use crate::wire::lbmc::{self, Content, Kind};
use crate::wire::{WireError, Writer, distance};

/// In which order messages are delivered: `ordered_delivery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ordering {
    /// 1: by topic sequence number, each once.
    #[default]
    Ordered,
    /// -1: as they arrive, put together.
    Arrival,
    /// 0: as they arrive, fragments one by one.
    ArrivalFragments,
}

/// How a receiver delivers.
#[derive(Clone, Debug)]
pub struct DeliveryConfig {
    /// `ordered_delivery`.
    pub ordering: Ordering,
    /// A longer gap is one event: `delivery_control_maximum_burst_loss`.
    pub burst_loss_max: u32,
    /// Whether ordered delivery leaves fragments as they are: one by one, in order.
    pub fragments: bool,
    /// The longest message that is put together.
    pub message_max: usize,
    /// Late join and off-transport recovery; for ordered delivery only.
    pub catch_up: CatchUpConfig,
}

impl Default for DeliveryConfig {
    fn default() -> Self {
        Self {
            ordering: Ordering::Ordered,
            burst_loss_max: 1024,
            fragments: false,
            message_max: 64 << 20,
            catch_up: CatchUpConfig::default(),
        }
    }
}

/// The transport hands on every datagram once in order, and those behind a gap earlier as well. So a message that is the next of its
/// topic is delivered as soon as it is seen, whatever is missing of other topics, and a number that is skipped in transport order
/// will never come by transport.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) receiver: u32,
    pub(super) topic: u32,
    expected: u32,
    started: bool,
    /// A message was delivered: only from then on losses are reported.
    delivered: bool,
    begun: bool,
    config: DeliveryConfig,
    reassembly: Reassembly,
    catch_up: Option<Box<CatchUp>>,
    /// The first live message, while a late join waits for the source's answer.
    live: Option<u32>,
    pub(super) lost: u64,
    pub(super) malformed: u64,
    /// Whether the session knows that this one is fetching.
    pub(super) listed: bool,
    /// (next number, length) of a sequence of messages that are behind the expected number, and which that was.
    behind: (u32, u32, u32),
    /// (first, next) of the numbers that live messages have skipped last, and which were reported lost.
    skipped: (u32, u32),
    /// The source leaves out messages that are for other receivers: numbers that are skipped are theirs.
    partial: bool,
}

/// So many messages in sequence that were skipped, with none accepted between them, say that nothing was: a forged message has led us
/// ahead. What a network repeats does not get here, the transport knows it; what was fetched beside the transport was not skipped.
const ASTRAY: u32 = 16;

impl Delivery {
    pub(super) fn new(receiver: u32, topic: u32, config: DeliveryConfig) -> Self {
        Self {
            receiver,
            topic,
            expected: 0,
            started: false,
            delivered: false,
            begun: false,
            reassembly: Reassembly::new(config.message_max),
            catch_up: None,
            live: None,
            lost: 0,
            malformed: 0,
            listed: false,
            behind: (0, 0, 0),
            skipped: (0, 0),
            partial: false,
            config,
        }
    }

    /// Numbers that are skipped are those of messages for others from now on: neither lost nor asked for.
    pub(super) fn set_partial(&mut self) {
        self.partial = true;
        (self.config.catch_up.late_join, self.config.catch_up.recovery) = (false, false);
    }

    pub(super) fn begin(&mut self, sink: &mut impl TopicSink) {
        if !core::mem::replace(&mut self.begun, true) {
            sink.begin(self.receiver);
        }
    }

    /// The session is over. What is still being fetched is lost; what waits behind it is delivered.
    pub(super) fn end(&mut self, reason: EndReason, sink: &mut impl TopicSink) {
        self.live = None;
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.give_up();
            self.drain(sink);
        }
        self.catch_up = None;
        self.started = false;
        self.delivered = false;
        self.reassembly.clear();
        if core::mem::replace(&mut self.begun, false) {
            sink.end(self.receiver, reason);
        }
    }

    #[inline]
    pub(super) fn message(&mut self, now: u64, message: &lbmc::Message<'_>, order: Order, sink: &mut impl TopicSink) {
        if self.config.ordering == Ordering::Ordered {
            // The steady state: next of its topic, nothing special going on.
            if message.sqn == self.expected && self.started && self.catch_up.is_none() {
                self.expected = message.sqn.wrapping_add(1);
                self.deliver(message, true, sink);
            } else if order != Order::Early {
                self.out_of_step(now, message, sink);
            }
            return;
        }
        if message.kind != Kind::Message {
            return;
        }
        if order != Order::Held {
            self.deliver(message, false, sink);
        }
        if order != Order::Early {
            self.account(message.sqn, sink);
            if self.reassembly.has_scattered() {
                let fragment = message.content().ok().and_then(|content| content.fragment);
                self.reassembly.passed(fragment.map_or(message.sqn, |f| f.first_sqn));
            }
        }
    }

    /// The short way: delivers messages from the beginning of `bytes` as long as each is the next one of this topic and has no
    /// extension headers. Returns how many bytes they take; what comes then goes to [`Delivery::message`].
    #[inline]
    pub(super) fn run<S: TopicSink>(&mut self, order: Order, bytes: &[u8], sink: &mut S) -> usize {
        // In the order of the transport there is nothing to be done for who wants messages as they arrive either.
        let is_in_turn = self.config.ordering == Ordering::Ordered
            || S::TAKES_RUNS && order == Order::InOrder && !self.reassembly.has_scattered();
        if !self.started || !is_in_turn || self.catch_up.is_some() {
            return 0;
        }
        let (topic, receiver, mut expected) = (self.topic, self.receiver, self.expected);
        if S::TAKES_RUNS {
            let run = Run::of(topic, expected, bytes);
            if run.count > 0 && sink.run(receiver, &run) {
                self.expected = run.end();
                self.delivered = true;
                return run.bytes.len();
            }
        }
        let mut at = 0;
        while let Some((message, length)) = bytes.get(at..).and_then(lbmc::Message::plain)
            && (message.topic, message.sqn) == (topic, expected)
        {
            at += length;
            expected = expected.wrapping_add(1);
            let (sqn, payload, kind, headers) = (message.sqn, message.tail, message.kind, message.headers());
            sink.message(receiver, Message { sqn, payload, properties: 0, kind, headers });
        }
        self.expected = expected;
        self.delivered |= at != 0;
        at
    }

    /// Counts the numbers in transport order: what is skipped is lost.
    fn account(&mut self, sqn: u32, sink: &mut impl TopicSink) {
        if !core::mem::replace(&mut self.started, true) {
            self.expected = sqn.wrapping_add(1);
        } else if distance(self.expected, sqn) >= 0 {
            self.skip(sqn, sink);
            self.expected = sqn.wrapping_add(1);
        } else if self.is_astray(sqn) {
            self.expected = sqn.wrapping_add(1);
        }
    }

    /// What lies before a live message has been lost on the way. Who skips again at once was led ahead in several steps.
    fn skip(&mut self, sqn: u32, sink: &mut impl TopicSink) {
        if sqn != self.expected {
            let (first, next) = self.skipped;
            let at_once = first != next && self.expected.wrapping_sub(next) < ASTRAY;
            self.skipped = (if at_once { first } else { self.expected }, sqn);
        }
        self.lose(sqn, sink);
    }

    /// Whether a message behind the expected number is one too many of them.
    fn is_astray(&mut self, sqn: u32) -> bool {
        let (first, end) = self.skipped;
        if sqn.wrapping_sub(first) >= end.wrapping_sub(first) {
            return false;
        }
        let (next, length, expected) = self.behind;
        let follows = length > 0 && sqn == next && expected == self.expected;
        let length = if follows { length + 1 } else { 1 };
        let astray = length >= ASTRAY;
        self.behind = (sqn.wrapping_add(1), if astray { 0 } else { length }, self.expected);
        astray
    }

    #[cold]
    fn out_of_step(&mut self, now: u64, message: &lbmc::Message<'_>, sink: &mut impl TopicSink) {
        let (sqn, limit) = (message.sqn, self.config.catch_up.entries_maximum.max(2));
        let fetched = message.kind != Kind::Message;
        if fetched && self.catch_up.is_none() {
            return;
        }
        if !self.started {
            self.start(now, message, sink);
            return;
        }
        if let Some(live) = self.live {
            // A late join is on its way: everything live waits.
            if distance(live, sqn) >= 0 && !fetched {
                if let (true, Some(catch_up)) = (self.config.catch_up.recovery, &mut self.catch_up) {
                    catch_up.want_new(now, live, sqn, limit / 2);
                }
                self.hold(message, limit);
            }
            if let Some(catch_up) = self.catch_up.as_mut().filter(|catch_up| catch_up.len() >= limit) {
                // No more can wait for the answer: what was retained is done without.
                catch_up.skip_info();
                self.live = None;
                self.drain(sink);
            }
            return;
        }
        if distance(self.expected, sqn) < 0 {
            if fetched || !self.is_astray(sqn) {
                return;
            }
            // All up to here was reported lost when we were led away.
            self.catch_up = None;
            self.expected = sqn;
        }
        if self.catch_up.is_some() || self.config.catch_up.recovery && sqn != self.expected {
            let expected = self.expected;
            let fresh = self.catch_up.is_none();
            let catch_up = self.catch_up.get_or_insert_with(|| Box::new(CatchUp::new(expected)));
            if !fetched && (fresh || self.config.catch_up.recovery) {
                catch_up.want_new(now, expected, sqn, limit / 2);
            }
            self.hold(message, limit);
            self.drain(sink);
            return;
        }
        self.skip(sqn, sink);
        self.expected = sqn.wrapping_add(1);
        self.deliver(message, true, sink);
    }

    /// The first message in order.
    fn start(&mut self, now: u64, message: &lbmc::Message<'_>, sink: &mut impl TopicSink) {
        let content = message.content();
        if self.config.catch_up.late_join {
            self.started = true;
            self.live = Some(message.sqn);
            self.expected = message.sqn;
            let mut catch_up = Box::new(CatchUp::new(message.sqn));
            catch_up.ask_info(now);
            self.catch_up = Some(catch_up);
            self.hold(message, usize::MAX);
            return;
        }
        // The rest of a message whose beginning we have not seen is of no use.
        if content.is_ok_and(|c| c.fragment.is_some_and(|f| f.offset != 0)) {
            return;
        }
        self.started = true;
        self.expected = message.sqn.wrapping_add(1);
        self.deliver(message, true, sink);
    }

    fn hold(&mut self, message: &lbmc::Message<'_>, limit: usize) {
        let mut encoded = vec![0; message.tail.len() + lbmc::DATA_HEADER];
        if let (Some(catch_up), Ok(())) = (&mut self.catch_up, message.encode(&mut Writer::new(&mut encoded))) {
            catch_up.keep(message.sqn, &encoded, limit);
        }
    }

    /// Delivers what has been fetched, as far as nothing is missing.
    fn drain(&mut self, sink: &mut impl TopicSink) {
        while let Some(catch_up) = &mut self.catch_up {
            match catch_up.settled(self.expected) {
                Some(Entry::Here(encoded)) => {
                    if let Ok((message, _)) = lbmc::Message::decode(&encoded) {
                        self.expected = self.expected.wrapping_add(1);
                        self.deliver(&message, true, sink);
                    }
                }
                Some(_) => self.lose(self.expected.wrapping_add(1), sink),
                // A number nobody wanted, for want of room: what lies before the next known one is lost.
                None if catch_up.first().is_some_and(|first| distance(self.expected, first) > 0) => {
                    let first = catch_up.first().unwrap_or(self.expected);
                    self.lose(first, sink);
                }
                None if catch_up.is_empty() => self.catch_up = None,
                None => return,
            }
        }
    }

    /// Everything from the expected number to before `end` is lost; `end` is expected next.
    fn lose(&mut self, end: u32, sink: &mut impl TopicSink) {
        let first = core::mem::replace(&mut self.expected, end);
        let count = end.wrapping_sub(first);
        if count == 0 {
            return;
        }
        self.reassembly_broken();
        if !self.delivered || self.partial {
            return;
        }
        self.lost += u64::from(count);
        if count > self.config.burst_loss_max {
            sink.burst_lost(self.receiver, first, count);
            return;
        }
        for i in 0..count {
            sink.lost(self.receiver, first.wrapping_add(i));
        }
    }

    fn reassembly_broken(&mut self) {
        if self.config.ordering == Ordering::Ordered {
            self.reassembly.clear();
        }
    }

    #[inline]
    fn deliver(&mut self, message: &lbmc::Message<'_>, in_order: bool, sink: &mut impl TopicSink) {
        match message.content() {
            Ok(Content { payload, fragment: None, properties }) => {
                let (sqn, kind, headers) = (message.sqn, message.kind, message.headers());
                self.delivered = true;
                sink.message(self.receiver, Message { sqn, payload, properties, kind, headers });
            }
            content => self.deliver_other(message, content, in_order, sink),
        }
    }

    fn deliver_other(
        &mut self,
        message: &lbmc::Message<'_>,
        content: Result<Content<'_>, WireError>,
        in_order: bool,
        sink: &mut impl TopicSink,
    ) {
        let Ok(Content { payload, fragment: Some(fragment), properties }) = content else {
            self.malformed += 1;
            self.undeliverable(message.sqn, sink);
            return;
        };
        let whole = if self.config.fragments || self.config.ordering == Ordering::ArrivalFragments {
            Added::Whole(payload)
        } else {
            self.reassembly.add(fragment, payload, in_order)
        };
        match whole {
            Added::Whole(payload) => {
                let (sqn, kind, headers) = (message.sqn, message.kind, message.headers());
                self.delivered = true;
                sink.message(self.receiver, Message { sqn, payload, properties, kind, headers });
            }
            Added::Part => {
                if let Some(first) = self.reassembly.evicted() {
                    self.undeliverable(first, sink);
                }
            }
            Added::Orphan => {}
            Added::Refused => {
                self.malformed += 1;
                self.undeliverable(message.sqn, sink);
            }
        }
    }

    /// The message has come, and the application cannot have it: to the application that is a loss like any other.
    #[cold]
    fn undeliverable(&mut self, sqn: u32, sink: &mut impl TopicSink) {
        if self.delivered {
            self.lost += 1;
            sink.lost(self.receiver, sqn);
        }
    }

    /// The source says that `last` was its last message; everything transmitted before was seen.
    pub(super) fn last_sent(&mut self, now: u64, last: u32, sink: &mut impl TopicSink) {
        let end = last.wrapping_add(1);
        if !self.started || self.live.is_some() || distance(self.expected, end) <= 0 {
            return;
        }
        if self.config.catch_up.recovery && self.config.ordering == Ordering::Ordered {
            let expected = self.expected;
            let limit = self.config.catch_up.entries_maximum.max(2) / 2;
            self.catch_up.get_or_insert_with(|| Box::new(CatchUp::new(expected))).want_new(now, expected, end, limit);
        } else if self.catch_up.is_none() {
            self.lose(end, sink);
        }
    }

    /// The source's answer to a late join.
    pub(super) fn late_join_info(&mut self, now: u64, info: &LateJoinInfo, sink: &mut impl TopicSink) {
        let (Some(live), Some(catch_up)) = (self.live, &mut self.catch_up) else { return };
        if !catch_up.awaits_info() {
            return;
        }
        self.expected = catch_up.info(now, info, live, &self.config.catch_up).unwrap_or(live);
        self.live = None;
        self.drain(sink);
    }

    /// Asserts what holds between calls, in a session that runs or not: for simulations.
    pub(super) fn check_invariants(&self, running: bool) {
        self.reassembly.check_invariants();
        assert!(
            running || !self.begun && !self.started,
            "topic {}: goes on in a session that does not run",
            self.topic
        );
        // As they arrive, messages are delivered ahead of the transport's order, which is what starts.
        let early = self.config.ordering != Ordering::Ordered;
        assert!(self.started || !self.delivered || early, "topic {}: delivered, and not started", self.topic);
        assert!(self.begun || !self.started, "topic {}: started, and its receiver was not told", self.topic);
        let Some(catch_up) = &self.catch_up else {
            assert!(self.live.is_none(), "topic {}: live messages wait, and nothing is fetched", self.topic);
            return;
        };
        assert_eq!(self.config.ordering, Ordering::Ordered, "topic {}: fetches what is not put in order", self.topic);
        assert!(self.started, "topic {}: fetches, and has not started", self.topic);
        assert_eq!(self.live.is_some(), catch_up.awaits_info(), "topic {}: what waits for the answer", self.topic);
        assert!(self.behind.1 < ASTRAY, "topic {}: so many in sequence were to be believed", self.topic);
        catch_up.check_invariants(self.expected, &self.config.catch_up);
    }

    #[inline]
    pub(super) fn is_fetching(&self) -> bool {
        self.catch_up.is_some()
    }

    pub(super) fn timeout(&self) -> Option<u64> {
        self.catch_up.as_ref()?.timeout(self.config.catch_up.outstanding_maximum)
    }

    pub(super) fn on_timer(&mut self, now: u64, sink: &mut impl TopicSink, ask: impl FnMut(Header<'_>)) {
        let Some(catch_up) = &mut self.catch_up else { return };
        if catch_up.on_timer(now, self.topic, &self.config.catch_up, ask) {
            // Nobody answered: begin with the first live message.
            self.live = None;
        }
        if self.live.is_none() {
            self.drain(sink);
        }
    }
}
