//! The store: what sources and receivers have registered, messages of sources, and how far receivers have come.
//!
//! A source's messages come by its transport, like those of any source; all else goes by a connection from the client to the store. The
//! store answers a source's registration once it can hear the source's transport session, and takes messages once the source has said
//! which incarnation it is. What is missing it asks the source for.

mod clients;
mod kept;
mod log;
mod proxies;
mod serve;

use std::collections::{BTreeMap, HashMap, VecDeque};

use lbm::fault::{Faults, named};
use lbm::topic::Run;
use lbm::wire::WireError;
use lbm::wire::distance;
use lbm::wire::header::LateJoinInfo;
use lbm::wire::lbmc::{Kind, Messages};

use self::kept::{Kept, Put};
pub use self::log::{Entry, Log, NoLog, begin_group, each_entry, put_entry};
pub use self::proxies::Proxy;
use self::proxies::StoreLine;
use crate::Outbox;
use crate::epochs::Epochs;
use crate::repository::Repository;
use crate::wire::{Ack, Registration, Ume, control};

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Number of the store, which sources see: 15 bits.
    pub id: u16,
    /// Bytes of messages held for one source; the oldest go: `repository-size-limit`.
    pub source_bytes_max: usize,
    /// Sources at most.
    pub sources_max: usize,
    /// Receivers of one source at most.
    pub receivers_max: usize,
    /// A client that is silent for so long has gone, ns, unless it says another time itself: `ume_activity_timeout`.
    pub activity_timeout_ns: u64,
    /// What a client that has gone leaves behind is kept for so long after that, ns, unless it says another time itself:
    /// `ume_state_lifetime`.
    pub state_lifetime_ns: u64,
    /// A registration is answered after this time even if the source's session was not found, ns: its messages come by repair then.
    pub answer_timeout_ns: u64,
    /// A missing message is asked for after this time, ns: before, the transport may repair it.
    pub ask_delay_ns: u64,
    /// And again after this time, ns.
    pub ask_interval_ns: u64,
    /// Missing messages that are asked for at a time.
    pub ask_maximum: usize,
    /// Answers to requests of one turn of one client at most, bytes; what is more is asked for again:
    /// `retransmission-request-processing-rate` as a bound of memory.
    pub answer_bytes_max: usize,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            id: 0,
            source_bytes_max: 256 << 20,
            sources_max: 10_000,
            receivers_max: 10_000,
            activity_timeout_ns: 30_000_000_000,
            state_lifetime_ns: 86_400_000_000_000,
            answer_timeout_ns: 2_000_000_000,
            ask_delay_ns: 200_000_000,
            ask_interval_ns: 500_000_000,
            ask_maximum: 256,
            answer_bytes_max: 4 << 20,
        }
    }
}

/// How a client registered, and when it was heard.
#[derive(Clone, Debug)]
struct Client {
    reg_id: u32,
    session: u64,
    conn: Option<u64>,
    heard_at: u64,
    activity_ns: u64,
    lifetime_ns: u64,
}

impl Client {
    /// When the client's state is given up. While its connection stands and it is heard, never.
    fn ends_at(&self) -> u64 {
        self.heard_at.saturating_add(self.activity_ns).saturating_add(self.lifetime_ns)
    }

    fn is_alive(&self, now: u64) -> bool {
        self.conn.is_some() && now < self.heard_at.saturating_add(self.activity_ns)
    }
}

#[derive(Debug)]
struct ReceiverEntry {
    client: Client,
    /// The first number not consumed.
    next: u32,
    /// The receiver itself has said where it is. Before, `next` is where a new one may begin: a process that ends before it has begun must
    /// leave nothing behind that the next one takes for its place.
    known: bool,
    paced: bool,
    /// `next` has moved since it was written down.
    moved: bool,
}

#[derive(Debug)]
struct SourceEntry {
    client: Client,
    topic: Box<[u8]>,
    transport: u32,
    topic_index: u32,
    origin: [u8; 32],
    flags: u8,
    epochs: Epochs,
    /// Ticket of the log's entry that has the epochs.
    epochs_ticket: u64,
    /// A registration that is not answered yet: when it is at the latest.
    answer_due: Option<u64>,
    /// The present connection has said which incarnation it is.
    ready: bool,
    kept: Kept,
    /// Numbers written down and not acknowledged, as first and last.
    fresh: Vec<(u32, u32)>,
    /// Numbers that are being written down: ticket, first, last.
    pending: VecDeque<(u64, u32, u32)>,
    /// Numbers that are written down later, and when.
    delayed: VecDeque<(u64, u32)>,
    repository: Repository,
    /// Bytes of messages held at most.
    limit: usize,
    listed: bool,
    receivers: BTreeMap<u32, ReceiverEntry>,
    /// Numbers that are missing, and when they are asked for.
    missing: BTreeMap<u32, u64>,
    /// The number behind the newest that is known to be sent.
    sent_end: u32,
    /// The oldest number that the source still has.
    source_low: u32,
    /// All stores of the source, if they are to stand in for it.
    stores: Vec<StoreLine>,
    /// The store stands in for it.
    is_proxied: bool,
}

impl SourceEntry {
    /// Numbers that are safe once the log's entry of this ticket is.
    fn wait_for(&mut self, ticket: u64, first: u32, last: u32) {
        match self.pending.back_mut() {
            Some((last_ticket, _, end)) if end.wrapping_add(1) == first => (*last_ticket, *end) = (ticket, last),
            _ => self.pending.push_back((ticket, first, last)),
        }
    }

    fn is_paced(&self) -> bool {
        self.flags & Registration::PACED != 0
    }

    /// Whether a message that is not held may still come: the present incarnation has it, or is not known not to, and is not silent for
    /// longer than it may be. What nobody can bring is lost once a majority of stores says that it has none.
    fn may_bring(&self, now: u64, sqn: u32) -> bool {
        let is_older = |first: u32| distance(first, sqn) < 0;
        let is_gone = now >= self.client.heard_at.saturating_add(self.client.activity_ns);
        !(is_gone
            || is_older(self.kept.low())
            || self.epochs.first().is_some_and(is_older)
            || self.ready && is_older(self.source_low))
    }
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Messages taken.
    pub stored: u64,
    /// Messages that were held already.
    pub duplicates: u64,
    /// Messages sent again to receivers.
    pub retransmissions: u64,
    /// Requests for messages that are not held.
    pub not_held: u64,
    /// Messages asked of sources.
    pub asked: u64,
    /// Messages given up since there was no room.
    pub displaced: u64,
    /// Registrations refused.
    pub refused: u64,
    /// Messages on connections that could not be read.
    pub malformed: u64,
    /// Messages that were not taken, since receivers or the disk were behind or their source had not said which incarnation it is: sources send
    /// them again.
    pub untaken: u64,
    /// Requests that were not answered, since their client had asked for too much at once: it asks again.
    pub deferred: u64,
    /// Cases that the tables hold to be impossible and that were found all the same: a fault of the store.
    pub internal_faults: u64,
}

impl Faults for StoreStats {
    fn internal_faults(&mut self) -> &mut u64 {
        &mut self.internal_faults
    }
}

/// A topic that the store wants to hear, or no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The topic's name.
    pub topic: Box<[u8]>,
    /// Whether it is wanted.
    pub on: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Store<L> {
    config: StoreConfig,
    log: L,
    sources: Vec<Option<SourceEntry>>,
    /// Registration id: place of the source, and whether it is a receiver of it.
    by_reg_id: HashMap<u32, (usize, bool)>,
    /// Session id, topic, and for a receiver the source's registration id.
    by_session: HashMap<(u64, Box<[u8]>, u32), u32>,
    next_reg_id: u32,
    /// Transport sessions and topics that can be heard, and the stream's number.
    heard: HashMap<[u8; 32], u32>,
    /// By stream: the source that sends on it.
    streams: Vec<Option<usize>>,
    /// Sources with something to acknowledge.
    listed: Vec<usize>,
    /// Receivers whose position has moved, by source.
    consumed: Vec<usize>,
    out: Outbox,
    wanted: Vec<Wanted>,
    proxies: Vec<Proxy>,
    due: u64,
    logged: u64,
    stats: StoreStats,
}

impl<L: Log> Store<L> {
    /// A store of which nobody knows anything yet.
    pub fn new(config: StoreConfig, log: L) -> Self {
        Self {
            config,
            log,
            sources: Vec::new(),
            by_reg_id: HashMap::new(),
            by_session: HashMap::new(),
            next_reg_id: 1,
            heard: HashMap::new(),
            streams: Vec::new(),
            listed: Vec::new(),
            consumed: Vec::new(),
            out: Outbox::default(),
            wanted: Vec::new(),
            proxies: Vec::new(),
            due: u64::MAX,
            logged: 0,
            stats: StoreStats::default(),
        }
    }

    /// Where entries are written.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    /// Counters.
    pub fn stats(&self) -> StoreStats {
        self.stats
    }

    /// Bytes of all messages that are held.
    pub fn bytes(&self) -> usize {
        self.sources.iter().flatten().map(|source| source.kept.bytes()).sum()
    }

    /// Each source: registration id, topic, oldest and next number held, bytes, receivers as (registration id, next number).
    pub fn each_source(&self, mut each: impl FnMut(u32, &[u8], (u32, u32), usize, &[(u32, u32)])) {
        for entry in self.sources.iter().flatten() {
            let receivers: Vec<(u32, u32)> = entry.receivers.iter().map(|(reg_id, r)| (*reg_id, r.next)).collect();
            let kept = &entry.kept;
            each(entry.client.reg_id, &entry.topic, (kept.low(), kept.end()), kept.bytes(), &receivers);
        }
    }

    /// What is to be sent on connections.
    pub fn output(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// Topics that are to be heard from now on, or no more.
    pub fn wanted(&mut self) -> impl Iterator<Item = Wanted> {
        self.wanted.drain(..)
    }

    /// Applies an entry of the log of an earlier process. In order, before anything else.
    pub fn restore(&mut self, now: u64, entry: &Entry<'_>) {
        match *entry {
            Entry::Source { reg_id, session, topic, epochs } => {
                let at = match self.by_reg_id.get(&reg_id) {
                    Some((at, false)) => *at,
                    Some((_, true)) => return,
                    None => self.insert_source(now, reg_id, session, topic),
                };
                if let Some(source) = &mut self.sources[at] {
                    source.epochs = Epochs::read(epochs);
                }
            }
            Entry::Start { source, low } => {
                if let Some(source) = self.source_of(source) {
                    source.kept.start(low);
                }
            }
            Entry::Cut { source, from } => {
                if let Some(source) = self.source_of(source) {
                    cut_from(source, from);
                }
            }
            Entry::Message { source, sqn, message } => {
                if let Some(source) = self.source_of(source) {
                    source.kept.put(sqn, message, &[]);
                    if !source.receivers.values().any(|receiver| receiver.paced) {
                        make_room(source, source.limit);
                    }
                }
            }
            Entry::Messages { source, first, messages } => {
                if let Some(source) = self.source_of(source) {
                    for (sqn, message) in Run::read(first, messages).messages() {
                        source.kept.put(sqn, message, &[]);
                    }
                    if !source.receivers.values().any(|receiver| receiver.paced) {
                        make_room(source, source.limit);
                    }
                }
            }
            Entry::Receiver { reg_id, source, session, paced, next } => {
                if let Some((at, false)) = self.by_reg_id.get(&source).copied() {
                    self.insert_receiver(now, at, reg_id, session, paced, next);
                }
            }
            Entry::Consumed { reg_id, next } => {
                if let Some((at, true)) = self.by_reg_id.get(&reg_id).copied()
                    && let Some(receiver) = self.sources[at].as_mut().and_then(|s| s.receivers.get_mut(&reg_id))
                {
                    (receiver.next, receiver.known) = (next, true);
                }
            }
            Entry::Stores { source, list } => {
                if let Some(source) = self.source_of(source) {
                    source.stores = proxies::read(list);
                }
            }
            Entry::Removed { reg_id } => self.remove(reg_id),
            Entry::Anew => {
                let sources: Vec<u32> = self.sources.iter().flatten().map(|source| source.client.reg_id).collect();
                for reg_id in sources {
                    self.remove(reg_id);
                }
            }
        }
        self.due = self.due.min(now);
    }

    /// Writes all that is held to the log: for a new one in the place of an older one.
    pub fn write_all(&mut self) {
        self.log.write(&Entry::Anew);
        for source in self.sources.iter().flatten() {
            let (reg_id, log) = (source.client.reg_id, &mut self.log);
            let (session, epochs) = (source.client.session, source.epochs.written());
            log.write(&Entry::Source { reg_id, session, topic: &source.topic, epochs: &epochs });
            log.write(&Entry::Start { source: reg_id, low: source.kept.low() });
            if !source.stores.is_empty() {
                log.write(&Entry::Stores { source: reg_id, list: &proxies::written(&source.stores) });
            }
            // First of all who waits for messages: they are not given up for lack of room then.
            for (id, receiver) in &source.receivers {
                let (session, paced, next) = (receiver.client.session, receiver.paced, receiver.next);
                log.write(&Entry::Receiver { reg_id: *id, source: reg_id, session, paced, next });
                if receiver.known {
                    log.write(&Entry::Consumed { reg_id: *id, next });
                }
            }
            for (first, last) in source.kept.runs(source.kept.low(), source.kept.end()) {
                for sqn in (0..=last.wrapping_sub(first)).map(|i| first.wrapping_add(i)) {
                    if let Some(message) = source.kept.get(sqn) {
                        log.write(&Entry::Message { source: reg_id, sqn, message });
                    }
                }
            }
        }
    }

    fn source_of(&mut self, reg_id: u32) -> Option<&mut SourceEntry> {
        let (at, false) = *self.by_reg_id.get(&reg_id)? else { return None };
        self.sources[at].as_mut()
    }

    /// A transport session with a source of a wanted topic can be heard; `number` is the stream's from now on.
    pub fn stream(&mut self, now: u64, number: u32, origin: [u8; 32]) {
        self.heard.retain(|_, other| *other != number);
        self.heard.insert(origin, number);
        let sends = |s: &Option<SourceEntry>| s.as_ref().is_some_and(|s| s.origin == origin && s.client.conn.is_some());
        if let Some(at) = self.sources.iter().position(sends) {
            self.bind(number, at);
            if self.sources[at].as_ref().is_some_and(|s| s.answer_due.is_some()) {
                self.answer(now, at);
            }
        }
    }

    fn bind(&mut self, stream: u32, at: usize) {
        let stream = stream as usize;
        if self.streams.len() <= stream {
            self.streams.resize(stream + 1, None);
        }
        self.streams.iter_mut().filter(|other| **other == Some(at)).for_each(|other| *other = None);
        self.streams[stream] = Some(at);
    }

    /// The stream is over.
    pub fn stream_ended(&mut self, number: u32) {
        self.heard.retain(|_, other| *other != number);
        if let Some(stream) = self.streams.get_mut(number as usize) {
            *stream = None;
        }
    }

    /// A message came by a stream: encoded with its headers, in two parts, of which one may be empty.
    #[inline]
    pub fn data(&mut self, now: u64, stream: u32, sqn: u32, message: [&[u8]; 2]) {
        if let Some(Some(at)) = self.streams.get(stream as usize).copied() {
            self.take(now, at, sqn, message);
        }
    }

    /// Messages came by a stream, one behind the other. False: [`Store::data`] is to have each.
    #[inline]
    pub fn run(&mut self, stream: u32, run: &Run<'_>) -> bool {
        match self.streams.get(stream as usize).copied() {
            Some(Some(at)) => self.take_run(at, run),
            _ => true,
        }
    }

    /// The transport will not bring these numbers any more.
    pub fn data_lost(&mut self, now: u64, stream: u32, first: u32, count: u32) {
        if let Some(Some(at)) = self.streams.get(stream as usize).copied()
            && let Some(source) = &mut self.sources[at]
            && source.ready
        {
            note_sent(source, now, first.wrapping_add(count), 0);
            for due in source.missing.values_mut() {
                *due = (*due).min(now);
            }
            self.due = self.due.min(now);
        }
    }

    /// Takes messages of which each is the next, of a source that is not paced. False: they are not, or there is no room for all.
    fn take_run(&mut self, at: usize, run: &Run<'_>) -> bool {
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return true };
        let is_next = source.kept.end() == run.first && source.sent_end == run.first && source.missing.is_empty();
        if !source.ready || !is_next || source.is_paced() || !self.log.has_room() {
            return false;
        }
        source.kept.put_run(run);
        source.sent_end = run.end();
        self.stats.stored += u64::from(run.count);
        let (last, reg_id) = (run.end().wrapping_sub(1), source.client.reg_id);
        let ticket = self.log.write(&Entry::Messages { source: reg_id, first: run.first, messages: run.bytes });
        if ticket != 0 && !source.repository.ack_on_reception {
            source.wait_for(ticket, run.first, last);
        } else {
            self.fresh(at, run.first, last);
        }
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return true };
        self.stats.displaced += make_room(source, source.limit);
        true
    }

    fn take(&mut self, now: u64, at: usize, sqn: u32, [head, body]: [&[u8]; 2]) {
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        // Messages that receivers wait for are not dropped for newer ones: the source has to send these again.
        let is_full = source.is_paced() && source.kept.bytes() > source.limit || !self.log.has_room();
        if !source.ready || is_full && source.kept.get(sqn).is_none() {
            self.stats.untaken += 1;
            return;
        }
        match source.kept.put(sqn, head, body) {
            Put::New => self.stats.stored += 1,
            Put::Known => {
                // The source asks whether it is stable: the answer is on its way, or was lost with a connection.
                self.stats.duplicates += 1;
                let is_pending = source.pending.iter().any(|(_, first, last)| is_within(sqn, *first, *last));
                let is_delayed = || source.delayed.iter().any(|(_, delayed)| *delayed == sqn);
                if source.repository.ack_on_reception || !is_pending && !is_delayed() {
                    self.fresh(at, sqn, sqn);
                }
                return;
            }
            Put::Outside => return,
        }
        if distance(source.sent_end, sqn) != 0 || !source.missing.is_empty() {
            source.missing.remove(&sqn);
            if distance(source.sent_end, sqn) > 0 {
                note_sent(source, now, sqn, self.config.ask_delay_ns);
                self.due = self.due.min(now.saturating_add(self.config.ask_delay_ns));
            }
        }
        if distance(source.sent_end, sqn) >= 0 {
            source.sent_end = sqn.wrapping_add(1);
        }
        let delay = u64::from(source.repository.write_delay_ms) * 1_000_000;
        if delay > 0 && source.is_paced() && self.log.is_durable() {
            let due = now.saturating_add(delay);
            source.delayed.push_back((due, sqn));
            self.due = self.due.min(due);
            if source.repository.ack_on_reception {
                self.fresh(at, sqn, sqn);
            }
        } else {
            self.write_down(at, sqn);
        }
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        // What receivers wait for stays; so much more is taken as the last message that had room.
        if source.kept.bytes() > source.limit && !source.is_paced() {
            self.stats.displaced += make_room(source, source.limit);
        }
    }

    /// Writes a message to the log, if it is still held, and acknowledges it when that is safe.
    #[inline]
    fn write_down(&mut self, at: usize, sqn: u32) {
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        // A message that was consumed or displaced before it was written is done with, too.
        if let Some(message) = source.kept.get(sqn) {
            let ticket = self.log.write(&Entry::Message { source: source.client.reg_id, sqn, message });
            if ticket != 0 && !source.repository.ack_on_reception {
                return source.wait_for(ticket, sqn, sqn);
            }
        }
        self.fresh(at, sqn, sqn);
    }

    /// Writes what has waited for its time.
    fn write_delayed(&mut self, now: u64, at: usize) {
        while let Some(source) = &mut self.sources[at]
            && let Some((due, sqn)) = source.delayed.front().copied()
        {
            if due > now {
                self.due = self.due.min(due);
                return;
            }
            source.delayed.pop_front();
            self.write_down(at, sqn);
        }
    }

    /// All entries up to this ticket survive the store's end.
    pub fn logged(&mut self, ticket: u64) {
        if ticket <= self.logged {
            return;
        }
        self.logged = ticket;
        for at in 0..self.sources.len() {
            while let Some(source) = &mut self.sources[at]
                && let Some((of, first, last)) = source.pending.front().copied()
                && of <= self.logged
            {
                source.pending.pop_front();
                self.fresh(at, first, last);
            }
        }
    }

    fn fresh(&mut self, at: usize, first: u32, last: u32) {
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        match source.fresh.last_mut() {
            Some((_, end)) if end.wrapping_add(1) == first => *end = last,
            _ => source.fresh.push((first, last)),
        }
        if !core::mem::replace(&mut source.listed, true) {
            self.listed.push(at);
        }
    }

    /// Acknowledges what has become stable, and writes down how far receivers are. At the end of each turn.
    pub fn flush(&mut self) {
        for at in core::mem::take(&mut self.listed) {
            let Some(source) = self.sources.get_mut(at).and_then(Option::as_mut) else { continue };
            source.listed = false;
            // A source that is paced by its receivers is held back before there is no room: receivers' words list it again.
            if source.is_paced() && source.kept.bytes() > source.limit / 8 * 7 {
                continue;
            }
            let ranges = core::mem::take(&mut source.fresh);
            let Some(conn) = source.client.conn else { continue };
            // Its incarnation is confirmed once that survives, too.
            let epoch = if source.epochs_ticket <= self.logged { source.epochs.latest() } else { 0 };
            for (first, last) in ranges {
                let (transport, topic) = (source.transport, source.topic_index);
                let ack = Ack { flags: 0x80, stable: true, transport, topic, receiver: 0, sqn: last };
                let id = Ume::StoreId(self.config.id);
                let headers = [Ume::Ack(ack), id, Ume::Range { first, last }, Ume::AckId(epoch)];
                control(self.out.to(conn), &headers);
            }
        }
        for at in core::mem::take(&mut self.consumed) {
            let Some(source) = self.sources.get_mut(at).and_then(Option::as_mut) else { continue };
            for (reg_id, receiver) in source.receivers.iter_mut().filter(|(_, r)| r.moved) {
                receiver.moved = false;
                self.log.write(&Entry::Consumed { reg_id: *reg_id, next: receiver.next });
            }
        }
    }

    /// Messages came on a connection.
    ///
    /// # Errors
    /// They cannot be read: the connection is to be closed.
    pub fn receive(&mut self, now: u64, conn: u64, messages: &[u8]) -> Result<(), WireError> {
        let mut answers = 0;
        for message in Messages::new(messages) {
            let message = message.inspect_err(|_| self.stats.malformed += 1)?;
            if message.kind == Kind::Control {
                self.control(now, conn, &message, &mut answers)?;
                continue;
            }
            // A source sends again what the store has asked for, or has not acknowledged.
            let of = |s: &Option<SourceEntry>| {
                s.as_ref().is_some_and(|s| s.client.conn == Some(conn) && s.topic_index == message.topic)
            };
            if let Some(at) = self.sources.iter().position(of) {
                let mut encoded = vec![0; message.tail.len() + lbm::wire::lbmc::DATA_HEADER];
                let plain = lbm::wire::lbmc::Message { kind: Kind::Message, ..message };
                if plain.encode(&mut lbm::wire::Writer::new(&mut encoded)).is_ok() {
                    self.take(now, at, message.sqn, [&encoded, &[]]);
                }
            }
        }
        Ok(())
    }

    /// The connection is over.
    pub fn closed(&mut self, now: u64, conn: u64) {
        for source in self.sources.iter_mut().flatten() {
            if source.client.conn == Some(conn) {
                (source.client.conn, source.ready, source.answer_due) = (None, false, None);
                source.client.heard_at = now;
            }
            for receiver in source.receivers.values_mut().filter(|r| r.client.conn == Some(conn)) {
                receiver.client.conn = None;
                receiver.client.heard_at = now;
            }
        }
        self.due = self.due.min(now);
    }

    /// When [`Store::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        (self.due != u64::MAX).then_some(self.due)
    }

    /// Asks for what is missing, answers registrations that have waited, forgets clients that have gone.
    pub fn on_timer(&mut self, now: u64) {
        if now < self.due {
            return;
        }
        self.due = u64::MAX;
        let mut gone = Vec::new();
        for at in 0..self.sources.len() {
            let Some(source) = &mut self.sources[at] else { continue };
            for (reg_id, receiver) in &source.receivers {
                let end = receiver.client.ends_at();
                if end <= now {
                    gone.push(*reg_id);
                } else {
                    self.due = self.due.min(end);
                }
            }
            let end = source.client.ends_at();
            if end <= now {
                gone.push(source.client.reg_id);
                continue;
            }
            self.due = self.due.min(end);
            if source.answer_due.is_some_and(|due| due <= now) {
                self.answer(now, at);
            } else if let Some(due) = source.answer_due {
                self.due = self.due.min(due);
            }
            self.ask(now, at);
            self.write_delayed(now, at);
            self.stand_in(now, at);
        }
        for reg_id in gone {
            self.log.write(&Entry::Removed { reg_id });
            self.remove(reg_id);
        }
    }
}

/// Whether a number lies in a range.
fn is_within(sqn: u32, first: u32, last: u32) -> bool {
    sqn.wrapping_sub(first) <= last.wrapping_sub(first)
}

/// The source has sent all before `end`: what of it is not here is missing, and asked for after a while.
fn note_sent(source: &mut SourceEntry, now: u64, end: u32, delay: u64) {
    /// Missing numbers that are known at a time.
    const MISSING_MAX: usize = 100_000;
    if distance(source.sent_end, end) <= 0 {
        return;
    }
    let room = MISSING_MAX.saturating_sub(source.missing.len());
    let first = if distance(source.sent_end, source.source_low) > 0 { source.source_low } else { source.sent_end };
    for sqn in source.kept.holes(first, end, room) {
        source.missing.entry(sqn).or_insert(now.saturating_add(delay));
    }
    source.sent_end = end;
}

/// Forgets messages from a number on, and that receivers have consumed them.
fn cut_from(source: &mut SourceEntry, from: u32) {
    source.kept.cut(from);
    source.fresh.clear();
    source.pending.clear();
    source.delayed.clear();
    source.missing.clear();
    if distance(from, source.sent_end) > 0 {
        source.sent_end = from;
    }
    for receiver in source.receivers.values_mut().filter(|r| distance(from, r.next) > 0) {
        receiver.next = from;
    }
}

/// Drops the oldest messages until the others have room; returns how many.
fn make_room(source: &mut SourceEntry, limit: usize) -> u64 {
    let mut dropped = 0;
    while source.kept.bytes() > limit && !source.kept.is_empty() {
        source.kept.drop_first();
        dropped += 1;
    }
    dropped
}

/// The answer that a message is not held.
fn not_held(source: &SourceEntry, request: u32) -> Ume<'static> {
    let (low_sqn, high_sqn) = (source.kept.low(), source.kept.end().wrapping_sub(1));
    Ume::Retained(LateJoinInfo { flags: 0, low_sqn, high_sqn, request })
}
