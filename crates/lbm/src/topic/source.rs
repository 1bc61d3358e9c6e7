//! A source: one topic on a transport session.

use core::fmt;

use super::retention::{Retention, RetentionConfig};
use crate::transport::{Carrier, WouldBlock};
use crate::wire::header::{Fragment, Header, LateJoinInfo, LateJoinRequest, RetransmitRequest, TopicSqns};
use crate::wire::lbmc::{self, DATA_HEADER, FRAGMENT_HEADER, Kind, MESSAGE_MAX, NEXT_DATA};
use crate::wire::{Full, Writer};

/// Bytes of a message's header with all extension headers at most.
const HEAD_MAX: usize = 2_048;

/// A message was not taken. A driver has to deal with each case, so a new one is a breaking change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Not now: the session cannot take it. Nothing was sent.
    WouldBlock,
    /// Never: longer than 4 GiB or about half of the transmission window, or its headers do not fit a datagram.
    TooLong,
    /// Never: no such topic in the session.
    NoTopic,
}

impl From<WouldBlock> for SendError {
    fn from(_: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

impl From<Full> for SendError {
    fn from(_: Full) -> Self {
        Self::TooLong
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "the transport session cannot take a message now",
            Self::TooLong => "the message or its headers are too long",
            Self::NoTopic => "the session has no such topic",
        })
    }
}

impl core::error::Error for SendError {}

/// How a source behaves.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// After so much silence the last sequence number is sent, and again at this interval, ns; 0 = never:
    /// `transport_topic_sequence_number_info_interval`.
    pub tsni_interval_ns: u64,
    /// For so long, ns; 0 = for ever: `transport_topic_sequence_number_info_active_threshold`.
    pub tsni_active_threshold_ns: u64,
    /// What is kept for late joiners; `None` = `late_join 0`.
    pub late_join: Option<RetentionConfig>,
    /// Number of the first message. LBM begins at 0.
    pub first_sqn: u32,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            tsni_interval_ns: 5_000_000_000,
            tsni_active_threshold_ns: 60_000_000_000,
            late_join: None,
            first_sqn: 0,
        }
    }
}

/// What a source has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Messages and fragments, as numbered.
    pub numbered: u64,
    /// Messages retained for late joiners.
    pub retained: usize,
    /// Messages sent again by late join or off-transport recovery.
    pub retransmissions: u64,
}

/// One topic on a transport session.
#[derive(Debug)]
pub struct Source {
    topic: u32,
    first: u32,
    next: u32,
    config: SourceConfig,
    retention: Option<Retention>,
    last_sent_at: u64,
    /// Not after that of the last message.
    tsni_due: u64,
    /// A message needs nothing but its place: it is kept for nobody, and the timer runs.
    plain: bool,
    retransmissions: u64,
    /// Where headers are written before a message's place is known to be there.
    head: Vec<u8>,
}

/// Copies a payload, the first word by itself. Messages begin with what their sender has written a moment ago, a number or a time; a load of
/// more than that one store cannot be served by it and waits until the store, and all before it, are in the cache: those to a log in
/// shared memory, whose lines another processor has, included.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    match (to.split_first_chunk_mut::<8>(), from.split_first_chunk::<8>()) {
        (Some((to_word, to_rest)), Some((word, rest))) => {
            *to_word = *word;
            to_rest.copy_from_slice(rest);
        }
        _ => to.copy_from_slice(from),
    }
}

impl Source {
    /// `topic` is the index that the advertisement names, unique in the session.
    pub fn new(topic: u32, config: SourceConfig) -> Self {
        Self {
            topic,
            first: config.first_sqn,
            next: config.first_sqn,
            retention: config.late_join.clone().map(Retention::new),
            last_sent_at: 0,
            tsni_due: u64::MAX,
            plain: false,
            retransmissions: 0,
            head: Vec::new(),
            config,
        }
    }

    /// Topic index.
    pub fn topic(&self) -> u32 {
        self.topic
    }

    /// Number of the next message.
    pub fn next_sqn(&self) -> u32 {
        self.next
    }

    /// The next message has this number. For a source that has sent none yet, and goes on where another has ended.
    pub fn begin_at(&mut self, sqn: u32) {
        (self.first, self.next) = (sqn, sqn);
    }

    /// Counters.
    pub fn stats(&self) -> SourceStats {
        SourceStats {
            numbered: u64::from(self.next.wrapping_sub(self.first)),
            retained: self.retention.as_ref().map_or(0, Retention::len),
            retransmissions: self.retransmissions,
        }
    }

    /// Adds a message to what is open in the session, if that is all there is to do: in the steady state, each but the first and the
    /// last one of a datagram. `None`: nothing was done, and [`Source::send`] has to do it.
    #[inline]
    pub fn append<C: Carrier>(&mut self, now: u64, carrier: &mut C, payload: &[u8]) -> Option<u32> {
        if !self.plain {
            return None;
        }
        let total = payload.len() + DATA_HEADER;
        let (header, body) = carrier.append(total)?.split_first_chunk_mut::<DATA_HEADER>()?;
        let sqn = self.next;
        *header = lbmc::data_header(total as u16, self.topic, sqn);
        copy(body, payload);
        self.next = sqn.wrapping_add(1);
        self.last_sent_at = now;
        Some(sqn)
    }

    /// Sends a message; returns the number of its last fragment. `flush` sends all that waits in the session, too.
    ///
    /// # Errors
    /// See [`SendError`].
    #[inline]
    pub fn send<C: Carrier>(
        &mut self,
        now: u64,
        carrier: &mut C,
        payload: &[u8],
        flush: bool,
    ) -> Result<u32, SendError> {
        if payload.len() + DATA_HEADER > carrier.message_max() {
            return self.send_fragments(now, carrier, &[], payload, flush);
        }
        self.send_with(now, carrier, payload.len(), flush, |buffer| copy(buffer, payload))
    }

    /// Sends a message of exactly `length` bytes that `fill` writes straight into the transmission window. It has to fit one
    /// datagram.
    ///
    /// # Errors
    /// See [`SendError`].
    #[inline]
    pub fn send_with<C: Carrier>(
        &mut self,
        now: u64,
        carrier: &mut C,
        length: usize,
        flush: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u32, SendError> {
        let total = length + DATA_HEADER;
        if total > carrier.message_max() {
            return Err(SendError::TooLong);
        }
        carrier.admit(now, total)?;
        let sqn = self.next;
        let message = carrier.claim(now, total);
        if let Some((header, body)) = message.split_first_chunk_mut::<DATA_HEADER>() {
            *header = lbmc::data_header(total as u16, self.topic, sqn);
            fill(body);
        }
        if let Some(retention) = &mut self.retention {
            retention.keep(now, sqn, message);
        }
        carrier.commit(now, flush);
        self.sent(now, 1);
        Ok(sqn)
    }

    /// Sends a message with extension headers.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_headed<C: Carrier>(
        &mut self,
        now: u64,
        carrier: &mut C,
        headers: &[Header<'_>],
        payload: &[u8],
        flush: bool,
    ) -> Result<u32, SendError> {
        self.head.resize(HEAD_MAX, 0);
        let sqn = self.next;
        let mut w = Writer::new(&mut self.head);
        lbmc::encode(&mut w, Kind::Message, self.topic, sqn, headers, NEXT_DATA, &[])?;
        let (head_length, total) = (w.position(), w.position() + payload.len());
        if total > carrier.message_max().min(MESSAGE_MAX) {
            return self.send_fragments(now, carrier, headers, payload, flush);
        }
        w.patch_u16(2, total as u16);
        carrier.admit(now, total)?;
        let message = carrier.claim(now, total);
        let (head, body) = message.split_at_mut(head_length);
        head.copy_from_slice(&self.head[..head_length]);
        copy(body, payload);
        if let Some(retention) = &mut self.retention {
            retention.keep(now, sqn, message);
        }
        carrier.commit(now, flush);
        self.sent(now, 1);
        Ok(sqn)
    }

    /// Sends a message, or a fragment, that another source has numbered, under its number and with its extension headers: what a router
    /// does. Numbers ascend; those that are left out are lost, which receivers see.
    ///
    /// # Errors
    /// See [`SendError`]; it is too long if it does not fit a datagram of this session.
    #[inline]
    pub fn forward<C: Carrier>(
        &mut self,
        now: u64,
        carrier: &mut C,
        message: &lbmc::Message<'_>,
        flush: bool,
    ) -> Result<u32, SendError> {
        let total = message.tail.len() + DATA_HEADER;
        if total > carrier.message_max() {
            return Err(SendError::TooLong);
        }
        carrier.admit(now, total)?;
        self.skip_to(message.sqn);
        let copy = lbmc::Message { kind: Kind::Message, topic: self.topic, ..*message };
        let claimed = carrier.claim(now, total);
        copy.encode(&mut Writer::new(claimed))?;
        if let Some(retention) = &mut self.retention {
            retention.keep(now, message.sqn, claimed);
        }
        carrier.commit(now, flush);
        self.sent(now, 1);
        Ok(message.sqn)
    }

    /// Leaves out all numbers before this one. Before the first message it is where the topic begins.
    pub fn skip_to(&mut self, sqn: u32) {
        if self.first == self.next && self.last_sent_at == 0 {
            self.first = sqn;
        }
        self.next = sqn;
    }

    /// Each fragment has a datagram of its own; all but the last are full.
    fn send_fragments<C: Carrier>(
        &mut self,
        now: u64,
        carrier: &mut C,
        headers: &[Header<'_>],
        payload: &[u8],
        flush: bool,
    ) -> Result<u32, SendError> {
        let total = u32::try_from(payload.len()).map_err(|_| SendError::TooLong)?;
        let mut scratch = [0; HEAD_MAX];
        let mut w = Writer::new(&mut scratch);
        lbmc::encode(&mut w, Kind::Message, 0, 0, headers, NEXT_DATA, &[])?;
        let extra = w.position() - DATA_HEADER;
        let room = carrier.message_max().checked_sub(FRAGMENT_HEADER + extra).filter(|room| *room > 0);
        let room = room.ok_or(SendError::TooLong)?;
        let count = payload.len().div_ceil(room);
        let bytes = payload.len() + count * (FRAGMENT_HEADER + extra);
        if !carrier.can_ever_take(bytes) {
            return Err(SendError::TooLong);
        }
        carrier.admit(now, bytes)?;
        carrier.flush(now);
        let first_sqn = self.next;
        let mut chain: Vec<Header<'_>> = Vec::new();
        for (i, part) in payload.chunks(room).enumerate() {
            let sqn = first_sqn.wrapping_add(i as u32);
            let fragment = Fragment { flags: 0, first_sqn, offset: (i * room) as u32, total };
            let length = FRAGMENT_HEADER + extra + part.len();
            let message = carrier.claim(now, length);
            if headers.is_empty() {
                let (header, body) = message.split_at_mut(FRAGMENT_HEADER);
                header.copy_from_slice(&lbmc::fragment_header(length as u16, self.topic, sqn, fragment));
                body.copy_from_slice(part);
            } else {
                chain.clear();
                chain.push(Header::Fragment(fragment));
                chain.extend_from_slice(headers);
                lbmc::encode(&mut Writer::new(message), Kind::Message, self.topic, sqn, &chain, NEXT_DATA, part)?;
            }
            if let Some(retention) = &mut self.retention {
                retention.keep(now, sqn, message);
            }
            carrier.commit(now, flush || i + 1 < count);
        }
        carrier.flush(now);
        self.sent(now, count as u32);
        Ok(self.next.wrapping_sub(1))
    }

    #[inline]
    fn sent(&mut self, now: u64, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.last_sent_at = now;
        self.tsni_due =
            if self.config.tsni_interval_ns == 0 { u64::MAX } else { now.saturating_add(self.config.tsni_interval_ns) };
        self.plain = self.retention.is_none();
    }

    /// Asserts what holds between calls. It looks at everything: for tests and simulations.
    ///
    /// # Panics
    /// Something does not hold: a fault of this module.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        if let Some(retention) = &self.retention {
            retention.check_invariants(self.next);
        }
    }

    /// When [`Source::on_timer`] is to be called; now and then earlier than anything is due.
    pub fn timeout(&self) -> Option<u64> {
        (self.tsni_due != u64::MAX).then_some(self.tsni_due)
    }

    /// Says the last sequence number after a silence. Returns whether it did.
    pub fn on_timer(&mut self, now: u64, carrier: &mut impl Carrier) -> bool {
        if now < self.tsni_due {
            return false;
        }
        // Messages that were only appended have not moved it.
        self.tsni_due = self.last_sent_at.saturating_add(self.config.tsni_interval_ns);
        if now < self.tsni_due {
            return false;
        }
        let active = self.config.tsni_active_threshold_ns;
        self.tsni_due = now.saturating_add(self.config.tsni_interval_ns);
        if active != 0 && self.tsni_due.saturating_sub(self.last_sent_at) > active {
            self.tsni_due = u64::MAX;
            self.plain = false;
        }
        let mut packet = [0; 16];
        let mut w = Writer::new(&mut packet);
        self.topic_sqns(&mut w).is_ok()
            && carrier.admit(now, w.position()).is_ok_and(|()| {
                carrier.claim(now, w.position()).copy_from_slice(w.written());
                carrier.commit(now, true);
                true
            })
    }

    fn topic_sqns(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let [a, b, c, d] = self.topic.to_be_bytes();
        let [e, f, g, h] = self.next.wrapping_sub(1).to_be_bytes();
        lbmc::encode_control(w, &[Header::TopicSqns(TopicSqns::from_records(&[a, b, c, d, e, f, g, h]))])
    }

    /// Answers a late joiner: which messages it can have. `out` gets a control message for its TCP connection.
    pub fn late_join_request(&mut self, now: u64, request: &LateJoinRequest, out: &mut Vec<u8>) {
        let Some(retention) = &mut self.retention else { return };
        retention.expire(now);
        // Nothing retained: low is above high.
        let (low_sqn, high_sqn) = retention.range().unwrap_or((self.next, self.next.wrapping_sub(1)));
        let low_sqn =
            if request.flags & 1 != 0 && request.low_sqn.wrapping_sub(low_sqn) <= high_sqn.wrapping_sub(low_sqn) {
                request.low_sqn
            } else {
                low_sqn
            };
        let info = LateJoinInfo { flags: 0, low_sqn, high_sqn, request: request.request };
        let mut packet = [0; 32];
        let mut w = Writer::new(&mut packet);
        if lbmc::encode_control(&mut w, &[Header::LateJoinInfo(info)]).is_ok() {
            out.extend_from_slice(w.written());
        }
    }

    /// Sends a retained message again, or the topic's sequence number if that is asked for. False if it is not retained.
    pub fn retransmit_request(&mut self, request: &RetransmitRequest, out: &mut Vec<u8>) -> bool {
        if request.flags & RetransmitRequest::TOPIC_SQNS != 0 {
            let mut packet = [0; 16];
            let mut w = Writer::new(&mut packet);
            let written = self.topic_sqns(&mut w).is_ok();
            out.extend_from_slice(w.written());
            return written;
        }
        let Some(message) = self.retention.as_ref().and_then(|r| r.get(request.sqn)) else { return false };
        let start = out.len();
        out.extend_from_slice(message);
        // Version 0, type 0xA: a retransmission.
        out[start] = 0x0A;
        self.retransmissions += 1;
        true
    }
}
