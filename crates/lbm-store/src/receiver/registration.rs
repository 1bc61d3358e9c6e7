//! A receiver at its stores: registration, where to begin, acknowledgements.

use lbm::wire::lbmc;

use super::{Consensus, Receiver, ReceiverEvent, Recovery, Sink, StoreEntry};
use crate::epochs::{Cut, Epochs};
use crate::wire::{Ack, QUORUM_CONSENSUS, Registration, RegistrationResponse, Ume, control};

impl Receiver {
    pub(super) fn is_connected_to(&self, store: usize) -> bool {
        self.stores.get(store).is_some_and(|s| s.connected)
    }

    pub(super) fn connected(&mut self, now: u64, store: usize) {
        if let Some(entry) = self.stores.get_mut(store) {
            (entry.connected, entry.dialling, entry.heard_at) = (true, false, now);
            self.register(now, store);
        }
    }

    pub(super) fn closed(&mut self, now: u64, store: usize) {
        let Some(entry) = self.stores.get_mut(store) else { return };
        let was = entry.registered;
        (entry.connected, entry.dialling, entry.registered) = (false, false, false);
        let wait = 50_000_000u64.saturating_mul(1 << entry.attempts.min(8)).min(self.config.registration_interval_ns);
        entry.attempts += 1;
        entry.next_at = now.saturating_add(wait.max(1));
        self.due = self.due.min(entry.next_at);
        if was {
            self.events.push(ReceiverEvent::Unresponsive { store });
        }
        for wanted in self.wanted.values_mut().filter(|wanted| wanted.store == store) {
            wanted.again_at = now;
        }
    }

    pub(super) fn register(&mut self, now: u64, store: usize) {
        let config = &self.config;
        let Some(entry) = self.stores.get_mut(store) else { return };
        entry.next_at = now.saturating_add(config.registration_interval_ns.max(1));
        self.due = self.due.min(entry.next_at);
        let registration = Registration {
            flags: 0x80 | if config.paced { Registration::PACED } else { 0 },
            source: false,
            reg_id: entry.reg_id,
            transport: 0,
            topic: self.topic_index,
            source_reg_id: entry.source_reg_id,
            port: 0,
            address: core::net::Ipv4Addr::UNSPECIFIED,
        };
        let headers = [
            Ume::Registration(registration),
            Ume::Capability(0x8000 | QUORUM_CONSENSUS),
            Ume::Session(config.session),
            Ume::Lifetime { activity_ms: config.activity_timeout_ms, state_ms: config.state_lifetime_ms },
            Ume::TopicName(&self.topic),
        ];
        control(self.out.to(store as u64), &headers);
    }

    pub(super) fn response(
        &mut self,
        now: u64,
        store: usize,
        response: &RegistrationResponse,
        epochs: Epochs,
        is_new: bool,
        sink: &mut impl Sink,
    ) {
        let running = self.running;
        let Some(entry) = self.stores.get_mut(store) else { return };
        if let Some(refusal) = response.refusal() {
            return self.events.push(ReceiverEvent::Refused { store, refusal });
        }
        (entry.registered, entry.attempts, entry.reg_id) = (true, 0, response.reg_id);
        (entry.low, entry.high, entry.is_new, entry.epochs) = (response.low, response.high, is_new, epochs);
        self.events.push(ReceiverEvent::Registered { store, reg_id: response.reg_id });
        self.judge_stores(now);
        if running {
            self.stores[store].acked = 0;
            self.want_ack(now);
            // What the store has and was not heard of.
            let end = response.high.wrapping_add(1);
            if self.stores[store].epochs.latest() == self.epochs.latest() {
                self.sent(now, end);
            }
            return self.fetch(now);
        }
        let answered = self.stores.iter().filter(|s| s.registered).count();
        if answered == self.stores.len() || self.begin_at.is_some_and(|at| now >= at) {
            self.begin(now, sink);
        } else if self.begin_at.is_none() {
            self.begin_at = Some(now.saturating_add(self.config.registration_grace_ns));
            self.due = self.due.min(now.saturating_add(self.config.registration_grace_ns));
        }
    }

    /// Where to begin, of what stores have said.
    pub(super) fn begin(&mut self, now: u64, sink: &mut impl Sink) {
        let registered: Vec<&StoreEntry> = self.stores.iter().filter(|s| s.registered).collect();
        let Some(any) = registered.first() else { return };
        // Where nobody knows the receiver, it is new only if so many say so that one of any quorum is among them.
        if registered.iter().all(|s| s.is_new) && registered.len() <= self.stores.len() / 2 {
            return;
        }
        // Numbers near one of them have their order.
        let origin = any.low;
        let wide = |sqn: u32| i64::from(lbm::wire::distance(origin, sqn));
        let valid = |store: &StoreEntry, sqn: u32| match self.epochs.cut(&store.epochs) {
            Cut::From(from) if wide(from) < wide(sqn) => wide(from),
            _ => wide(sqn),
        };
        let mut lows: Vec<i64> = registered.iter().filter(|s| !s.is_new).map(|s| valid(s, s.low)).collect();
        lows.sort_unstable();
        let high = registered.iter().map(|s| valid(s, s.high.wrapping_add(1))).max().unwrap_or(0);
        let low = match (lows.as_slice(), self.config.consensus) {
            ([], _) if !self.config.late_join => high,
            ([], _) => registered.iter().map(|s| wide(s.low)).min().unwrap_or(0),
            ([.., highest], Consensus::Highest) => *highest,
            (lows, Consensus::Majority) => lows[(lows.len() - 1) / 2],
            ([lowest, ..], Consensus::Lowest) => *lowest,
        };
        let is_known = !lows.is_empty();
        let low = if self.config.maximum > 0 { low.max(high - i64::from(self.config.maximum)) } else { low };
        let (low, high) = (origin.wrapping_add(low as u32), origin.wrapping_add(high as u32));
        let wanted = sink.recovery(self.number, Recovery { low, high: high.wrapping_sub(1) });
        let held = std::mem::take(&mut self.order);
        self.order.start(wanted);
        (self.running, self.consumed) = (true, self.order.expected);
        self.scanned = self.order.expected;
        self.known_end = self.order.wide(high).max(self.order.expected);
        self.fetch_before = self.known_end;
        // An earlier process may have had it without a word to the stores.
        self.order.repeated_before = if is_known { self.known_end } else { self.order.expected };
        for (encoded, repeated) in held.into_held() {
            if let Ok((message, _)) = lbmc::Message::decode(&encoded) {
                let number = self.order.wide(message.sqn);
                if number >= self.order.expected {
                    self.order.hold(number, encoded, repeated, self.config.hold_bytes_max);
                    self.known_end = self.known_end.max(number + 1);
                }
            }
        }
        // What came by itself begins here; all before is fetched now.
        if let Some(first) = self.order.first_held() {
            self.fetch_before = self.fetch_before.max(first);
        }
        if self.known_end > self.order.expected {
            self.gap_since = Some(now);
            self.due = self.due.min(now.saturating_add(self.config.gap_delay_ns));
        }
        self.advance(now, sink);
    }

    pub(super) fn look_at(&mut self, now: u64, store: usize) {
        let silence = self.config.store_activity_timeout_ns;
        let entry = &mut self.stores[store];
        if entry.connected && now >= entry.heard_at.saturating_add(silence) {
            self.events.push(ReceiverEvent::HangUp { store });
            self.closed(now, store);
        } else if entry.connected {
            let silent_at = entry.heard_at.saturating_add(silence);
            let is_behind = |entry: &StoreEntry| !entry.registered || entry.valid_before != u64::MAX;
            if is_behind(entry) && now >= entry.next_at {
                self.register(now, store);
            }
            let entry = &self.stores[store];
            let next = if is_behind(entry) { entry.next_at } else { u64::MAX };
            self.due = self.due.min(silent_at).min(next);
        } else if !entry.dialling && now >= entry.next_at {
            entry.dialling = true;
            self.events.push(ReceiverEvent::Dial { store, to: entry.at });
        } else if !entry.dialling {
            self.due = self.due.min(entry.next_at);
        }
    }

    /// Tells stores what was consumed.
    pub(super) fn acknowledge_all(&mut self) {
        self.ack_due = u64::MAX;
        if !self.running {
            return;
        }
        let epoch = self.epochs.latest();
        for (i, store) in self.stores.iter_mut().enumerate().filter(|(_, s)| s.registered) {
            if store.acked >= self.consumed {
                continue;
            }
            store.acked = self.consumed;
            let sqn = (self.consumed as u32).wrapping_sub(1);
            let ack = Ack {
                flags: 0x80,
                stable: false,
                transport: 0,
                topic: store.source_reg_id,
                receiver: store.reg_id,
                sqn,
            };
            control(self.out.to(i as u64), &[Ume::Ack(ack), Ume::AckId(epoch)]);
        }
    }
}
