//! The persistent source: registers at its stores, keeps each message until enough of them have it, and sends it again to those that lack
//! it.
//!
//! Whoever drives it sends the message by the topic's source, and tells it; dials the stores it names; hands in what they say. Stores are
//! named by their place in the configuration, which is also the number of their connection in [`Source::output`].

mod config;
mod flight;
mod question;
mod word;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lbm::wire::WireError;
use lbm::wire::distance;
use lbm::wire::header::LateJoinInfo;
use lbm::wire::lbmc::{Kind, Messages};

use self::config::Rule;
pub use self::config::{FlightBehavior, Intergroup, Intragroup, SourceConfig, StoreAddress};
use self::flight::Flight;
pub use self::question::Question;
use crate::Outbox;
use crate::epochs::{Cut, Epochs};
use crate::repository::Repository;
use crate::wire::{PROXY_ENABLED, QUORUM_CONSENSUS, Refusal, Registration, RegistrationResponse, Ume, control};

/// What a source is known by beside its topic.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The topic's name.
    pub topic: Box<[u8]>,
    /// Index of the transport session in the source's context.
    pub transport: u32,
    /// Topic index.
    pub topic_index: u32,
    /// Transport session and topic: see [`crate::wire::origin`].
    pub origin: [u8; 32],
    /// The context's request port.
    pub requests: SocketAddrV4,
}

/// What has happened at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// The store is to be connected.
    Dial {
        /// The store's place.
        store: usize,
        /// Where it is.
        to: SocketAddrV4,
    },
    /// The connection is to be closed: the store is silent.
    HangUp {
        /// The store's place.
        store: usize,
    },
    /// The source is registered there, under this id.
    Registered {
        /// The store's place.
        store: usize,
        /// The registration id: worth saving.
        reg_id: u32,
    },
    /// The store does not take the source.
    Refused {
        /// The store's place.
        store: usize,
        /// Why not.
        refusal: Refusal,
    },
    /// The store has gone, or is silent.
    Unresponsive {
        /// The store's place.
        store: usize,
    },
    /// Enough stores have answered: messages can be sent, the first with this number.
    Ready {
        /// The first number.
        first: u32,
    },
    /// Messages are stable, each as a whole: the numbers of them and of their fragments, first to last.
    Stable {
        /// The first.
        first: u32,
        /// The last.
        last: u32,
    },
    /// A receiver has consumed all up to a number, as a store tells.
    Confirmed {
        /// The store's place.
        store: usize,
        /// The receiver's registration id there.
        receiver: u32,
        /// The number.
        sqn: u32,
    },
    /// The message is given up: it was not stable within its lifetime.
    NotStable {
        /// Its number.
        sqn: u32,
    },
    /// After a refusal of [`Source::admit`]: there is room again.
    Writable,
    /// More messages are not stable than `ume_flight_size` and `ume_flight_size_bytes` say, and sends go on all the same
    /// (`ume_flight_size_behavior` notify): it is so from now on, or no more.
    FlightSize {
        /// There are more.
        is_over: bool,
    },
    /// Another program has taken up this source's registration: nothing more can be sent.
    Superseded,
}

/// A message cannot be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// Not enough stores have answered the registration.
    NotRegistered,
    /// As many messages as may be are not stable.
    FlightFull,
    /// Another program has taken up the registration.
    Superseded,
}

#[derive(Debug)]
struct StoreEntry {
    address: StoreAddress,
    connected: bool,
    dialling: bool,
    registered: bool,
    /// It was told which incarnation this is.
    told: bool,
    /// It has said that this survives its end.
    confirmed_epoch: bool,
    reg_id: u32,
    high: u32,
    is_empty: bool,
    epochs: Epochs,
    heard_at: u64,
    /// When it is dialled or asked again.
    next_at: u64,
    attempts: u32,
    /// By receiver: how far it has come.
    confirmed: BTreeMap<u32, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Registering,
    /// Enough have answered; others are waited for until then.
    Waiting(u64),
    /// The stores that have answered are told of the incarnation, and enough have to confirm it: of two that count alike one at most gets
    /// so far.
    Confirming,
    Ready,
    Superseded,
}

/// Counters of a persistent source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Messages and fragments that became stable.
    pub stable: u64,
    /// Given up.
    pub not_stable: u64,
    /// Sent again to stores that lacked them.
    pub retransmissions: u64,
    /// Messages refused since too many were not stable.
    pub refused: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Source {
    config: SourceConfig,
    identity: Identity,
    rule: Rule,
    stores: Vec<StoreEntry>,
    phase: Phase,
    epochs: Epochs,
    flight: Flight,
    next: u32,
    refused: bool,
    is_over: bool,
    info_left: u32,
    info_due: u64,
    keepalive_due: u64,
    stability_due: u64,
    due: u64,
    out: Outbox,
    events: Vec<SourceEvent>,
    stats: SourceStats,
}

impl Source {
    /// A source that is to register; `config` names at most 64 stores, of others nothing is known.
    pub fn new(now: u64, config: SourceConfig, identity: Identity) -> Self {
        let stores = config.stores.iter().take(64).map(|address| StoreEntry {
            address: *address,
            connected: false,
            dialling: false,
            registered: false,
            told: false,
            confirmed_epoch: false,
            reg_id: address.reg_id,
            high: 0,
            is_empty: true,
            epochs: Epochs::default(),
            heard_at: now,
            next_at: now,
            attempts: 0,
            confirmed: BTreeMap::new(),
        });
        Self {
            rule: Rule::new(&config),
            stores: stores.collect(),
            phase: Phase::Registering,
            epochs: Epochs::default(),
            flight: Flight::default(),
            next: 0,
            refused: false,
            is_over: false,
            info_left: 0,
            info_due: u64::MAX,
            keepalive_due: now.saturating_add(config.keepalive_interval_ns),
            stability_due: u64::MAX,
            due: now,
            out: Outbox::default(),
            events: Vec::new(),
            stats: SourceStats::default(),
            config,
            identity,
        }
    }

    /// Messages for stores.
    pub fn output(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// What has happened.
    pub fn events(&mut self) -> impl Iterator<Item = SourceEvent> {
        self.events.drain(..)
    }

    /// As [`Source::events`], into a list whose memory the source goes on with.
    pub fn swap_events(&mut self, into: &mut Vec<SourceEvent>) {
        into.clear();
        core::mem::swap(&mut self.events, into);
    }

    /// Whether something has happened.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Counters.
    pub fn stats(&self) -> SourceStats {
        self.stats
    }

    /// Messages and fragments that are not stable.
    pub fn in_flight(&self) -> usize {
        self.flight.unstable()
    }

    /// The number of the next message, once the source is ready.
    pub fn next_sqn(&self) -> Option<u32> {
        (self.phase == Phase::Ready).then_some(self.next)
    }

    /// Whether a message of so many fragments and bytes can be sent. [`SourceEvent::Writable`] tells when, after a refusal.
    ///
    /// # Errors
    /// See [`NotAdmitted`].
    #[inline]
    pub fn admit(&mut self, fragments: usize, bytes: usize) -> Result<(), NotAdmitted> {
        let refusal = match self.phase {
            Phase::Ready if self.has_room(fragments, bytes) => return Ok(()),
            Phase::Ready => NotAdmitted::FlightFull,
            Phase::Superseded => return Err(NotAdmitted::Superseded),
            Phase::Registering | Phase::Waiting(_) | Phase::Confirming => NotAdmitted::NotRegistered,
        };
        self.refused = true;
        self.stats.refused += 1;
        Err(refusal)
    }

    #[inline]
    fn has_room(&self, fragments: usize, bytes: usize) -> bool {
        let (held, limit) = (self.flight.bytes(), self.config.retention_size_limit);
        let is_free = self.config.flight_behavior == FlightBehavior::Notify || !self.is_flight_full(fragments, bytes);
        is_free && (limit == 0 || held == 0 || held + bytes <= limit)
    }

    /// Whether so much more would be too much in flight. A single message never is.
    #[inline]
    fn is_flight_full(&self, fragments: usize, bytes: usize) -> bool {
        let (count, held, limit) =
            (self.flight.unstable(), self.flight.unstable_bytes(), self.config.flight_size_bytes);
        count > 0 && (count + fragments > self.config.flight_size.max(1) || limit > 0 && held + bytes > limit)
    }

    /// Tells a source that goes on over its flight size when it has come to that, and when it is over.
    #[inline]
    fn note_flight(&mut self) {
        let is_over = self.config.flight_behavior == FlightBehavior::Notify && self.is_flight_full(0, 0);
        if core::mem::replace(&mut self.is_over, is_over) != is_over {
            self.events.push(SourceEvent::FlightSize { is_over });
        }
    }

    /// A message was sent by the topic's source: `last` is the number that it returned, `message_max` the longest LBMC message of its
    /// session, by which it was cut into fragments.
    #[inline]
    pub fn sent(&mut self, now: u64, last: u32, payload: &[u8], message_max: usize) {
        self.next = last.wrapping_add(1);
        if self.stability_due == u64::MAX {
            self.stability_due = now.saturating_add(self.config.stability_timeout_ns);
            self.due = self.due.min(self.stability_due);
        }
        self.flight.keep(now, self.identity.topic_index, last, payload, message_max);
        self.note_flight();
    }

    fn registered_mask(&self) -> u64 {
        let bits = self.stores.iter().enumerate().filter(|(_, s)| s.registered);
        bits.fold(0, |mask, (i, _)| mask | 1 << i)
    }

    /// The store is connected.
    pub fn connected(&mut self, now: u64, store: usize) {
        let Some(entry) = self.stores.get_mut(store) else { return };
        (entry.connected, entry.dialling, entry.heard_at) = (true, false, now);
        self.register(now, store);
    }

    /// The connection is over, or could not be made.
    pub fn closed(&mut self, now: u64, store: usize) {
        let Some(entry) = self.stores.get_mut(store) else { return };
        let was = entry.registered;
        (entry.connected, entry.dialling, entry.registered, entry.told) = (false, false, false, false);
        entry.confirmed_epoch = false;
        // Soon at first, then at the interval.
        let wait = 50_000_000u64.saturating_mul(1 << entry.attempts.min(8)).min(self.config.registration_interval_ns);
        entry.attempts += 1;
        entry.next_at = now.saturating_add(wait.max(1));
        self.due = self.due.min(entry.next_at);
        if was {
            self.events.push(SourceEvent::Unresponsive { store });
            self.announce(now);
        }
    }

    fn register(&mut self, now: u64, store: usize) {
        let config = &self.config;
        let Some(entry) = self.stores.get_mut(store) else { return };
        entry.next_at = now.saturating_add(config.registration_interval_ns.max(1));
        self.due = self.due.min(entry.next_at);
        let flags = if config.paced { Registration::PACED } else { 0 }
            | if config.proxy { Registration::PROXY } else { 0 }
            | if config.confirmations || config.unique_confirmations > 0 { 0 } else { Registration::NO_FORWARD };
        let registration = Registration {
            flags: 0x80 | flags,
            source: true,
            reg_id: entry.reg_id,
            transport: self.identity.transport,
            topic: self.identity.topic_index,
            source_reg_id: 0,
            port: self.identity.requests.port(),
            address: *self.identity.requests.ip(),
        };
        let epochs = self.epochs.written();
        let mut headers = vec![
            Ume::Registration(registration),
            Ume::Capability(0x8000 | QUORUM_CONSENSUS),
            Ume::Session(config.session),
            Ume::Lifetime { activity_ms: config.activity_timeout_ms, state_ms: config.state_lifetime_ms },
            Ume::TopicName(&self.identity.topic),
            Ume::Origin(self.identity.origin),
        ];
        if config.repository != Repository::default() {
            headers.push(Ume::Repository(config.repository));
        }
        if config.proxy {
            headers.push(Ume::ProxySource(PROXY_ENABLED));
        }
        // One that has sent nothing takes up what is there, whatever it counts.
        if self.phase == Phase::Ready {
            headers.push(Ume::Epochs { is_new: false, pairs: &epochs });
        }
        control(self.out.to(store as u64), &headers);
    }

    /// Messages of a store.
    ///
    /// # Errors
    /// They cannot be read: the connection is to be closed.
    pub fn receive(&mut self, now: u64, store: usize, messages: &[u8]) -> Result<(), WireError> {
        if let Some(entry) = self.stores.get_mut(store) {
            entry.heard_at = now;
        }
        for message in Messages::new(messages) {
            let message = message?;
            if message.kind != Kind::Control {
                continue;
            }
            let (mut response, mut ack, mut range, mut epochs, mut request) = (None, None, None, &[][..], None);
            let mut epoch = 0;
            for header in message.headers() {
                match Ume::of(&header?)? {
                    Some(Ume::Response(r)) => response = Some(r),
                    Some(Ume::Ack(a)) => ack = Some(a),
                    Some(Ume::AckId(id)) => epoch = id,
                    Some(Ume::Range { first, last }) => range = Some((first, last)),
                    Some(Ume::Epochs { pairs, .. }) => epochs = pairs,
                    Some(Ume::Retransmit(r)) => request = Some(r),
                    _ => {}
                }
            }
            if let Some(response) = response {
                self.response(now, store, &response, Epochs::read(epochs));
            }
            if let Some(request) = request {
                self.retransmit(store, request.sqn, request.request);
            }
            match ack {
                Some(ack) if ack.stable && self.stores.get(store).is_some_and(|s| s.told) => {
                    let (first, last) = range.unwrap_or((ack.sqn, ack.sqn));
                    if epoch == self.epochs.latest() {
                        self.confirm(now, store);
                    }
                    self.stable(store, first, last);
                }
                Some(ack) if !ack.stable => self.confirmed(store, ack.receiver, ack.sqn),
                _ => {}
            }
        }
        Ok(())
    }

    fn response(&mut self, now: u64, store: usize, response: &RegistrationResponse, epochs: Epochs) {
        let Some(entry) = self.stores.get_mut(store) else { return };
        if let Some(refusal) = response.refusal() {
            return self.events.push(SourceEvent::Refused { store, refusal });
        }
        (entry.registered, entry.attempts, entry.reg_id) = (true, 0, response.reg_id);
        (entry.high, entry.epochs) = (response.high, epochs);
        entry.is_empty = response.low == response.high.wrapping_add(1);
        self.events.push(SourceEvent::Registered { store, reg_id: response.reg_id });
        match self.phase {
            Phase::Ready if entry.epochs.count() > self.epochs.count() => {
                self.phase = Phase::Superseded;
                self.events.push(SourceEvent::Superseded);
            }
            // One that had no quorum has counted as this one: it gives way to the next count.
            Phase::Ready if entry.epochs.latest() != 0 && !self.epochs.follow(&entry.epochs) => {
                self.epochs.go_on(self.next, 0);
                (0..self.stores.len()).filter(|i| self.stores[*i].registered).collect::<Vec<_>>().iter().for_each(
                    |i| {
                        self.tell(*i, false);
                    },
                );
                self.flight.forget(store);
                self.announce(now);
            }
            Phase::Ready => {
                // The store may have begun anew: what it has it says again.
                self.flight.forget(store);
                self.tell(store, false);
                self.announce(now);
            }
            // Nothing was sent yet: the count begins anew behind what this store knows, which an earlier program may have made more of since it
            // was asked first.
            Phase::Confirming if entry.epochs.latest() != self.epochs.latest() && self.is_overtaken(store) => {
                self.phase = Phase::Registering;
                self.complete(now);
            }
            Phase::Confirming => self.tell(store, false),
            Phase::Registering | Phase::Waiting(_) => self.complete(now),
            Phase::Superseded => {}
        }
    }

    /// Whether what the store says is more than what this incarnation has begun with.
    fn is_overtaken(&self, store: usize) -> bool {
        let counts = self.stores[store].epochs.count() >= self.epochs.count();
        let (epochs, first) = self.consensus();
        counts || distance(self.next, first) > 0 || !self.epochs.is_past(epochs.latest()) && epochs.latest() != 0
    }

    /// Looks whether enough stores have answered.
    fn complete(&mut self, now: u64) {
        let mask = self.registered_mask();
        if !self.rule.holds(mask, mask) {
            self.phase = Phase::Registering;
            return;
        }
        let until = match self.phase {
            Phase::Waiting(until) => until,
            _ => now.saturating_add(self.config.registration_grace_ns),
        };
        if now < until && self.stores.iter().any(|s| (s.connected || s.dialling) && !s.registered) {
            self.phase = Phase::Waiting(until);
            self.due = self.due.min(until);
            return;
        }
        self.begin(now);
    }

    /// What the stores that have answered have: incarnations, and the number behind the newest message.
    ///
    /// The newest incarnation of which one of them has a message counts. What is stable is of it or was there when it began: each quorum has
    /// one of any other, and a store that takes messages of one takes none of those that count less. An incarnation that a store has but
    /// heard of may have ended before anyone has confirmed it, while an earlier one went on.
    fn consensus(&self) -> (Epochs, u32) {
        let registered = || self.stores.iter().filter(|s| s.registered && (!s.is_empty || s.epochs.latest() > 0));
        let of = registered().map(|s| s.epochs.with_messages(s.high.wrapping_add(1)));
        let newest = of.reduce(|a, b| if b.count() > a.count() { b } else { a }).unwrap_or_default();
        // Where nobody has a message, one that began the count still says that nothing came before.
        let begun = || registered().map(|s| s.epochs.beginning()).find(|epochs| epochs.latest() > 0);
        let epochs = if newest.latest() > 0 { newest } else { begun().unwrap_or_default() };
        let ends = registered().filter_map(|store| {
            let end = store.high.wrapping_add(1);
            match epochs.cut(&store.epochs) {
                Cut::Nothing => Some(end),
                Cut::From(from) => Some(if distance(from, end) > 0 { from } else { end }),
                Cut::All => None,
            }
        });
        let first = ends.reduce(|a, b| if distance(a, b) > 0 { b } else { a }).unwrap_or(0);
        (epochs, first)
    }

    /// The first number is the one behind the highest that any of them has.
    fn begin(&mut self, now: u64) {
        let (epochs, first) = self.consensus();
        let told = self.stores.iter().filter(|s| s.registered).map(|s| s.epochs.count()).max().unwrap_or(0);
        // Stores may have been told of a beginning before this one.
        let count = told.max(self.epochs.count());
        self.epochs = epochs;
        self.epochs.begin(first, count, self.mark());
        self.next = first;
        self.flight.begin(first);
        self.phase = Phase::Confirming;
        for store in 0..self.stores.len() {
            self.stores[store].confirmed_epoch = false;
            if self.stores[store].registered {
                self.tell(store, false);
            }
        }
        self.due = self.due.min(now.saturating_add(self.config.registration_interval_ns));
    }

    /// The store has confirmed the incarnation: messages can be sent once enough have.
    fn confirm(&mut self, now: u64, store: usize) {
        self.stores[store].confirmed_epoch = true;
        let confirmed = self.stores.iter().enumerate().filter(|(_, s)| s.confirmed_epoch);
        let mask = confirmed.fold(0, |mask, (i, _)| mask | 1 << i);
        if self.phase == Phase::Confirming && self.rule.holds(mask, self.registered_mask()) {
            self.phase = Phase::Ready;
            self.events.push(SourceEvent::Ready { first: self.next });
            self.announce(now);
            self.writable();
        }
    }

    /// What tells this incarnation from another that counts alike: it sends on another session.
    fn mark(&self) -> u32 {
        self.identity.origin.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(*byte)))
    }

    fn announce(&mut self, now: u64) {
        if self.phase == Phase::Ready {
            (self.info_left, self.info_due) = (self.config.info_maximum, now);
            self.due = self.due.min(now);
        }
    }

    fn stable(&mut self, store: usize, first: u32, last: u32) {
        if !self.stores.get(store).is_some_and(|s| s.told) {
            return;
        }
        let (rule, active, is_told) = (&self.rule, self.registered_mask(), self.config.stability);
        let events = &mut self.events;
        let stable = self.flight.ack(
            store,
            first,
            last,
            |mask| rule.holds(mask, active),
            |sqn| match events.last_mut() {
                _ if !is_told => {}
                Some(SourceEvent::Stable { last, .. }) if last.wrapping_add(1) == sqn => *last = sqn,
                _ => events.push(SourceEvent::Stable { first: sqn, last: sqn }),
            },
        );
        if stable > 0 {
            self.stats.stable += stable;
            self.release();
        }
    }

    fn confirmed(&mut self, store: usize, receiver: u32, sqn: u32) {
        let Some(entry) = self.stores.get_mut(store) else { return };
        let upto = entry.confirmed.entry(receiver).or_insert_with(|| sqn.wrapping_sub(1));
        if distance(*upto, sqn) > 0 {
            *upto = sqn;
            if self.config.confirmations {
                self.events.push(SourceEvent::Confirmed { store, receiver, sqn });
            }
            self.release();
        }
    }

    /// Lets go of what is stable and confirmed.
    fn release(&mut self) {
        let (needed, stores) = (self.config.unique_confirmations, &self.stores);
        self.flight.release(|sqn| {
            needed == 0
                || stores
                    .iter()
                    .any(|s| s.confirmed.values().filter(|upto| distance(sqn, **upto) >= 0).count() >= needed)
        });
        self.writable();
    }

    fn writable(&mut self) {
        self.note_flight();
        if self.refused && self.phase == Phase::Ready && self.has_room(1, 0) {
            self.refused = false;
            self.events.push(SourceEvent::Writable);
        }
    }

    /// A store asks for a message that the transport has not brought.
    fn retransmit(&mut self, store: usize, sqn: u32, request: u32) {
        let out = self.out.to(store as u64);
        let Some(message) = self.flight.get(sqn) else {
            let (low_sqn, high_sqn) = (self.flight.base(), self.next.wrapping_sub(1));
            return control(out, &[Ume::Retained(LateJoinInfo { flags: 0, low_sqn, high_sqn, request })]);
        };
        let start = out.len();
        out.extend_from_slice(message);
        // Version 0, type 0xA: a retransmission.
        out[start] = 0x0A;
        self.stats.retransmissions += 1;
    }

    /// When [`Source::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        (self.due != u64::MAX).then_some(self.due)
    }

    /// Dials and registers, says that it is alive, sends again what is not stable. `announce` gets what is to be sent on the topic's
    /// transport session.
    pub fn on_timer(&mut self, now: u64, mut announce: impl FnMut(&[u8])) {
        if now < self.due {
            return;
        }
        self.due = u64::MAX;
        for store in 0..self.stores.len() {
            self.look_at(now, store);
        }
        if matches!(self.phase, Phase::Waiting(_)) {
            self.complete(now);
        }
        if now >= self.keepalive_due {
            self.keepalive_due = now.saturating_add(self.config.keepalive_interval_ns.max(1));
            for store in 0..self.stores.len() {
                if self.stores[store].told {
                    self.tell(store, true);
                }
            }
        }
        if now >= self.info_due {
            let mut message = Vec::new();
            self.info(&mut message);
            if !message.is_empty() {
                announce(&message);
            }
            self.info_left = self.info_left.saturating_sub(1);
            self.info_due =
                if self.info_left == 0 { u64::MAX } else { now.saturating_add(self.config.info_interval_ns.max(1)) };
        }
        if now >= self.stability_due {
            self.press(now);
        }
        self.due = self.due.min(self.keepalive_due).min(self.info_due).min(self.stability_due);
    }

    fn look_at(&mut self, now: u64, store: usize) {
        let silence = self.config.store_activity_timeout_ns;
        let entry = &mut self.stores[store];
        if entry.connected && now >= entry.heard_at.saturating_add(silence) {
            self.events.push(SourceEvent::HangUp { store });
            self.closed(now, store);
        } else if entry.connected {
            let silent_at = entry.heard_at.saturating_add(silence);
            let confirming = self.phase == Phase::Confirming;
            let waits = |entry: &StoreEntry| !entry.registered || confirming && !entry.confirmed_epoch;
            if waits(entry) && now >= entry.next_at {
                self.register(now, store);
            }
            let entry = &self.stores[store];
            let next = if waits(entry) { entry.next_at } else { u64::MAX };
            self.due = self.due.min(silent_at).min(next);
        } else if !entry.dialling && now >= entry.next_at {
            entry.dialling = true;
            self.events.push(SourceEvent::Dial { store, to: entry.address.at });
        } else if !entry.dialling {
            self.due = self.due.min(entry.next_at);
        }
    }

    /// Sends again what is not stable after its time, to the stores that lack it, and gives up what is too old.
    fn press(&mut self, now: u64) {
        let told: Vec<usize> = (0..self.stores.len()).filter(|store| self.stores[*store].told).collect();
        let (timeout, lifetime) = (self.config.stability_timeout_ns, self.config.stability_lifetime_ns);
        let (out, events, stats) = (&mut self.out, &mut self.events, &mut self.stats);
        let next = self.flight.press(now, timeout, lifetime, |sqn, mask, message| {
            let Some(message) = message else {
                stats.not_stable += 1;
                return events.push(SourceEvent::NotStable { sqn });
            };
            for store in told.iter().filter(|store| mask & 1 << **store == 0) {
                let out = out.to(*store as u64);
                let start = out.len();
                out.extend_from_slice(message);
                // Version 0, type 2: sent again before anyone asked.
                out[start] = 0x02;
                stats.retransmissions += 1;
            }
        });
        self.stability_due = next.unwrap_or(u64::MAX);
        self.release();
    }
}
