//! Registration: who a client is, and what it is answered.

use lbm::fault::{Faults, named};
use lbm::wire::distance;

use super::proxies::StoreLine;
use super::{Client, Entry, Kept, Log, ReceiverEntry, SourceEntry, Store, Wanted, cut_from, proxies};
use crate::epochs::{Cut, Epochs};
use crate::repository::Repository;
use crate::wire::{Refusal, Registration, RegistrationResponse, Ume, control};

/// All that a registration says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registering<'a> {
    pub(super) registration: Registration,
    pub(super) topic: &'a [u8],
    pub(super) session: u64,
    /// Activity timeout and state lifetime, ms; 0: the store's.
    pub(super) lifetime: (u32, u32),
    pub(super) origin: Option<[u8; 32]>,
    /// Of a source that goes on after its connection was lost: its incarnations.
    pub(super) epochs: &'a [u8],
    /// Of a source.
    pub(super) repository: Repository,
}

impl<L: Log> Store<L> {
    pub(super) fn register(&mut self, now: u64, conn: u64, registering: &Registering<'_>) {
        if registering.registration.flags & Registration::DEREGISTER != 0 {
            return self.deregister(conn, registering);
        }
        let done = if registering.registration.source {
            self.register_source(now, conn, registering)
        } else {
            self.register_receiver(now, conn, registering)
        };
        if let Err(refusal) = done {
            self.stats.refused += 1;
            let Registration { source, reg_id, transport, topic, .. } = registering.registration;
            let code = refusal.code();
            let response = RegistrationResponse { code, source, reg_id, transport, topic, low: 0, high: 0 };
            control(self.out.to(conn), &[Ume::Response(response), Ume::StoreId(self.config.id)]);
        }
    }

    /// The client leaves and leaves nothing behind.
    fn deregister(&mut self, conn: u64, registering: &Registering<'_>) {
        let reg_id = registering.registration.reg_id;
        // A registration that is not known, or has ended, leaves nothing behind.
        let Some((at, is_receiver)) = self.by_reg_id.get(&reg_id).copied() else { return };
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        let client = if is_receiver { source.receivers.get(&reg_id).map(|r| &r.client) } else { Some(&source.client) };
        if client.is_some_and(|client| client.conn == Some(conn)) {
            let Registration { source, transport, topic, .. } = registering.registration;
            let response = RegistrationResponse { code: 0x01, source, reg_id, transport, topic, low: 0, high: 0 };
            control(self.out.to(conn), &[Ume::Response(response), Ume::StoreId(self.config.id)]);
            self.log.write(&Entry::Removed { reg_id });
            self.remove(reg_id);
        }
    }

    /// The session of a registration.
    fn session_of(&self, reg_id: u32) -> Option<u64> {
        let (at, is_receiver) = *self.by_reg_id.get(&reg_id)?;
        let source = self.sources[at].as_ref()?;
        let receiver = source.receivers.get(&reg_id).map(|receiver| receiver.client.session);
        if is_receiver { receiver } else { Some(source.client.session) }
    }

    /// The id that a client is known by, or a new one.
    fn reg_id_of(&mut self, registering: &Registering<'_>, source: u32) -> u32 {
        let (given, session) = (registering.registration.reg_id, registering.session);
        // A store that has lost a registration may have given its id to another program meanwhile: the session tells them apart.
        let key = (session, Box::from(registering.topic), source);
        if let Some(known) = self.by_session.get(&key).filter(|_| session != 0) {
            return *known;
        }
        if given != 0 && (session == 0 || self.session_of(given).is_none_or(|other| other == 0 || other == session)) {
            return given;
        }
        while self.next_reg_id == 0 || self.by_reg_id.contains_key(&self.next_reg_id) {
            self.next_reg_id = self.next_reg_id.wrapping_add(1);
        }
        self.next_reg_id
    }

    fn register_source(&mut self, now: u64, conn: u64, registering: &Registering<'_>) -> Result<(), Refusal> {
        let Registering { registration, topic, session, .. } = *registering;
        let reg_id = self.reg_id_of(registering, 0);
        let at = match self.by_reg_id.get(&reg_id).copied() {
            Some((_, true)) => return Err(Refusal::UsedByReceiver),
            Some((at, false)) => at,
            None if self.by_reg_id.len() >= self.config.sources_max.saturating_mul(2)
                && self.sources.iter().flatten().count() >= self.config.sources_max =>
            {
                return Err(Refusal::NoPattern);
            }
            None => {
                let at = self.insert_source(now, reg_id, session, topic);
                self.log.write(&Entry::Source { reg_id, session, topic, epochs: &[] });
                at
            }
        };
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return Err(Refusal::NoPattern) };
        if *source.topic != *topic {
            return Err(Refusal::OtherTopic);
        }
        let same = source.client.conn == Some(conn);
        // The same session takes over what an earlier connection had: its program was started again.
        if !same && source.client.is_alive(now) && (session == 0 || source.client.session != session) {
            return Err(Refusal::UsedBySource);
        }
        // One that another incarnation has followed must not come back.
        let epochs = Epochs::read(registering.epochs);
        if epochs.latest() != 0 && epochs.count() < source.epochs.count() {
            return Err(Refusal::UsedBySource);
        }
        if source.is_paced() != (registration.flags & Registration::PACED != 0) && !source.kept.is_empty() {
            return Err(Refusal::Incompatible);
        }
        renew(
            &mut source.client,
            now,
            conn,
            registering,
            self.config.activity_timeout_ns,
            self.config.state_lifetime_ns,
        );
        source.flags = registration.flags;
        if registration.flags & Registration::PROXY == 0 && !source.stores.is_empty() {
            source.stores.clear();
            self.log.write(&Entry::Stores { source: reg_id, list: &[] });
        }
        proxies::end(source, &mut self.proxies);
        source.repository = registering.repository;
        source.limit = registering.repository.limit(self.config.source_bytes_max, self.log.is_durable());
        (source.transport, source.topic_index) = (registration.transport, registration.topic);
        source.ready = false;
        source.origin = registering.origin.unwrap_or_default();
        source.answer_due = Some(now.saturating_add(self.config.answer_timeout_ns));
        let due = source.answer_due.unwrap_or(now).min(source.client.ends_at());
        self.due = self.due.min(due);
        if let Some(stream) = registering.origin.and_then(|origin| self.heard.get(&origin).copied()) {
            self.bind(stream, at);
            self.answer(now, at);
        }
        Ok(())
    }

    /// Answers a source's registration.
    pub(super) fn answer(&mut self, _now: u64, at: usize) {
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        source.answer_due = None;
        // A source whose connection is over registers again by the next one.
        let Some(conn) = source.client.conn else { return };
        let code = if source.is_paced() { RegistrationResponse::PACED } else { 0 };
        let (low, high) = (source.kept.low(), source.kept.end().wrapping_sub(1));
        let (reg_id, transport, topic) = (source.client.reg_id, source.transport, source.topic_index);
        let response = RegistrationResponse { code, source: true, reg_id, transport, topic, low, high };
        let epochs = source.epochs.written();
        control(
            self.out.to(conn),
            &[Ume::Response(response), Ume::StoreId(self.config.id), Ume::Epochs { is_new: false, pairs: &epochs }],
        );
    }

    /// A source says which incarnation it is and what it has: from now on its messages are taken.
    pub(super) fn source_info(
        &mut self,
        now: u64,
        conn: u64,
        topic_index: u32,
        info: (u32, u32),
        (epochs, stores): (&Epochs, Vec<StoreLine>),
    ) {
        let of = |s: &Option<SourceEntry>| {
            s.as_ref().is_some_and(|s| s.client.conn == Some(conn) && s.topic_index == topic_index)
        };
        // Words of a connection that has no such source mean nobody's registration.
        let Some(at) = self.sources.iter().position(of) else { return };
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        let (low, high) = info;
        let reg_id = source.client.reg_id;
        // Another incarnation has followed this one, which hears so by the answer to its registration.
        if !epochs.follow(&source.epochs) {
            self.stats.refused += 1;
            return;
        }
        self.source_stores(at, stores);
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        let is_other = source.epochs != *epochs;
        if is_other {
            match epochs.cut(&source.epochs) {
                // Receivers may have consumed messages that never came here.
                Cut::From(from) => {
                    cut_from(source, from);
                    self.log.write(&Entry::Cut { source: reg_id, from });
                }
                Cut::All => {
                    source.kept.start(low);
                    cut_from(source, low);
                    self.log.write(&Entry::Start { source: reg_id, low });
                    // Receivers begin there, too.
                    self.log.write(&Entry::Cut { source: reg_id, from: low });
                }
                Cut::Nothing => {}
            }
            source.epochs = epochs.clone();
            let written = epochs.written();
            let (session, topic) = (source.client.session, &source.topic);
            source.epochs_ticket = self.log.write(&Entry::Source { reg_id, session, topic, epochs: &written });
        }
        source.source_low = low;
        if source.kept.is_empty() && source.kept.end() != low {
            source.kept.start(low);
            source.sent_end = low;
            self.log.write(&Entry::Start { source: reg_id, low });
        }
        if is_other {
            self.tell_receivers(at);
        }
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        if distance(source.sent_end, source.kept.end()) > 0 {
            source.sent_end = source.kept.end();
        }
        let was_ready = core::mem::replace(&mut source.ready, true);
        source.missing.retain(|sqn, _| distance(low, *sqn) >= 0);
        super::note_sent(source, now, high.wrapping_add(1), if was_ready { self.config.ask_delay_ns } else { 0 });
        // What was missing when the source was here last is asked for again.
        if !was_ready {
            let end = source.sent_end;
            for sqn in source.kept.holes(low, end, self.config.ask_maximum) {
                source.missing.insert(sqn, now);
            }
            let mut held = source.kept.runs(low, source.kept.end());
            // That the incarnation is known here survives, too: said by the number before its messages.
            held.insert(0, (low.wrapping_sub(1), low.wrapping_sub(1)));
            if source.epochs_ticket > self.logged {
                let ticket = source.epochs_ticket;
                held.iter().rev().for_each(|(first, last)| source.pending.push_front((ticket, *first, *last)));
            } else {
                let pending: Vec<(u32, u32)> = source.pending.iter().map(|(_, first, last)| (*first, *last)).collect();
                for (first, last) in held {
                    // What is still being written down follows by itself.
                    let cut = pending.first().filter(|(p, _)| super::is_within(*p, first, last));
                    let last = cut.map_or(last, |(p, _)| p.wrapping_sub(1));
                    if distance(first, last) >= 0 {
                        self.fresh(at, first, last);
                    }
                }
            }
        }
        self.due = self.due.min(now);
    }

    fn register_receiver(&mut self, now: u64, conn: u64, registering: &Registering<'_>) -> Result<(), Refusal> {
        let Registration { source_reg_id, transport, topic, flags, .. } = registering.registration;
        let Some((at, false)) = self.by_reg_id.get(&source_reg_id).copied() else { return Err(Refusal::NoSuchSource) };
        let reg_id = self.reg_id_of(registering, source_reg_id);
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return Err(Refusal::NoSuchSource) };
        if *source.topic != *registering.topic {
            return Err(Refusal::OtherTopic);
        }
        let paced = flags & Registration::PACED != 0;
        match self.by_reg_id.get(&reg_id).copied() {
            Some((_, false)) => return Err(Refusal::UsedBySource),
            Some((other, true)) if other != at => return Err(Refusal::OtherTopic),
            Some(_) => {}
            None if source.receivers.len() >= self.config.receivers_max => return Err(Refusal::NoPattern),
            None => {
                // Of what was sent before, one that paces gets nothing: it is gone, or others wait for it.
                let next = if paced { source.kept.end() } else { source.kept.low() };
                let session = registering.session;
                self.insert_receiver(now, at, reg_id, session, paced, next);
                self.log.write(&Entry::Receiver { reg_id, source: source_reg_id, session, paced, next });
            }
        }
        let (activity, lifetime) = (self.config.activity_timeout_ns, self.config.state_lifetime_ns);
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return Err(Refusal::NoSuchSource) };
        let high = source.kept.end().wrapping_sub(1);
        let epochs = source.epochs.written();
        let Some(receiver) = source.receivers.get_mut(&reg_id) else { return Err(Refusal::NoSuchSource) };
        renew(&mut receiver.client, now, conn, registering, activity, lifetime);
        self.due = self.due.min(receiver.client.ends_at());
        let id = Ume::StoreId(self.config.id);
        control(self.out.to(conn), &[receiver.standing((transport, topic), high), id, receiver.epochs(&epochs)]);
        Ok(())
    }

    /// Another incarnation has taken up the source's registration: messages that receivers are sent from now on are of it.
    fn tell_receivers(&mut self, at: usize) {
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        let (high, epochs) = (source.kept.end().wrapping_sub(1), source.epochs.written());
        let (topic, id) = ((source.transport, source.topic_index), Ume::StoreId(self.config.id));
        for receiver in source.receivers.values() {
            if let Some(conn) = receiver.client.conn {
                control(self.out.to(conn), &[receiver.standing(topic, high), id, receiver.epochs(&epochs)]);
            }
        }
    }

    pub(super) fn insert_source(&mut self, now: u64, reg_id: u32, session: u64, topic: &[u8]) -> usize {
        let free = self.sources.iter().position(Option::is_none).unwrap_or(self.sources.len());
        if free == self.sources.len() {
            self.sources.push(None);
        }
        self.sources[free] = Some(SourceEntry {
            client: self.client(now, reg_id, session),
            topic: topic.into(),
            transport: 0,
            topic_index: 0,
            origin: [0; 32],
            flags: 0,
            epochs: Epochs::default(),
            epochs_ticket: 0,
            answer_due: None,
            ready: false,
            kept: Kept::default(),
            fresh: Vec::new(),
            pending: std::collections::VecDeque::new(),
            delayed: std::collections::VecDeque::new(),
            repository: Repository::default(),
            limit: self.config.source_bytes_max,
            listed: false,
            receivers: std::collections::BTreeMap::new(),
            missing: std::collections::BTreeMap::new(),
            sent_end: 0,
            source_low: 0,
            stores: Vec::new(),
            is_proxied: false,
        });
        self.by_reg_id.insert(reg_id, (free, false));
        if session != 0 {
            self.by_session.insert((session, topic.into(), 0), reg_id);
        }
        self.wanted.push(Wanted { topic: topic.into(), on: true });
        free
    }

    pub(super) fn insert_receiver(&mut self, now: u64, at: usize, reg_id: u32, session: u64, paced: bool, next: u32) {
        let client = self.client(now, reg_id, session);
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        source.receivers.insert(reg_id, ReceiverEntry { client, next, known: false, paced, moved: false });
        if session != 0 {
            self.by_session.insert((session, source.topic.clone(), source.client.reg_id), reg_id);
        }
        self.by_reg_id.insert(reg_id, (at, true));
    }

    fn client(&self, now: u64, reg_id: u32, session: u64) -> Client {
        let (activity_ns, lifetime_ns) = (self.config.activity_timeout_ns, self.config.state_lifetime_ns);
        Client { reg_id, session, conn: None, heard_at: now, activity_ns, lifetime_ns }
    }

    /// A registration is over, and all that hangs on it.
    pub(super) fn remove(&mut self, reg_id: u32) {
        // A registration ends once.
        let Some((at, is_receiver)) = self.by_reg_id.remove(&reg_id) else { return };
        self.by_session.retain(|_, other| *other != reg_id);
        if is_receiver {
            if let Some(source) = &mut self.sources[at] {
                source.receivers.remove(&reg_id);
            }
            return self.release(at);
        }
        let there = self.sources.get_mut(at).and_then(Option::take);
        let Some(mut source) = self.stats.found("a source that is to be removed is not there", there) else { return };
        proxies::end(&mut source, &mut self.proxies);
        for receiver in source.receivers.keys() {
            self.by_reg_id.remove(receiver);
            self.by_session.retain(|_, other| other != receiver);
        }
        self.streams.iter_mut().filter(|other| **other == Some(at)).for_each(|other| *other = None);
        let topic = source.topic;
        if !self.sources.iter().flatten().any(|other| other.topic == topic) {
            self.wanted.push(Wanted { topic, on: false });
        }
    }

    /// Drops what all receivers that pace a source have consumed.
    pub(super) fn release(&mut self, at: usize) {
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        // A source that no receiver paces lets go of messages for want of room alone.
        if !source.is_paced() {
            return;
        }
        let pacing = source.receivers.values().filter(|r| r.paced).map(|r| r.next);
        // Without a receiver that paces the source nothing is consumed yet.
        let Some(next) = pacing.reduce(|a, b| if distance(a, b) < 0 { b } else { a }) else { return };
        let written = source.pending.front().map_or(source.kept.end(), |(_, first, _)| *first);
        let least = usize::try_from(source.repository.size_threshold).unwrap_or(usize::MAX);
        let mut released = false;
        while !source.kept.is_empty()
            && distance(source.kept.low(), next) > 0
            && distance(source.kept.low(), written) > 0
            && (least == 0 || source.kept.bytes() > least)
        {
            source.kept.drop_first();
            released = true;
        }
        // A message that all have consumed before it was written down need not be: it is done with.
        let low = source.kept.low();
        while let Some(source) = &mut self.sources[at]
            && let Some((_, sqn)) = source.delayed.front().copied()
            && distance(sqn, low) > 0
        {
            source.delayed.pop_front();
            self.fresh(at, sqn, sqn);
        }
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        if released && !source.fresh.is_empty() && !core::mem::replace(&mut source.listed, true) {
            self.listed.push(at);
        }
    }
}

impl ReceiverEntry {
    /// The answer to its registration: where it is, of what there is.
    fn standing(&self, (transport, topic): (u32, u32), high: u32) -> Ume<'static> {
        let code = if self.paced { RegistrationResponse::PACED } else { 0 };
        let reg_id = self.client.reg_id;
        Ume::Response(RegistrationResponse { code, source: false, reg_id, transport, topic, low: self.next, high })
    }

    fn epochs<'a>(&self, pairs: &'a [u8]) -> Ume<'a> {
        Ume::Epochs { is_new: !self.known, pairs }
    }
}

/// A client has registered again.
fn renew(client: &mut Client, now: u64, conn: u64, registering: &Registering<'_>, activity: u64, lifetime: u64) {
    let (activity_ms, lifetime_ms) = registering.lifetime;
    let or = |ms: u32, default: u64| if ms == 0 { default } else { u64::from(ms) * 1_000_000 };
    *client = Client {
        reg_id: client.reg_id,
        session: registering.session,
        conn: Some(conn),
        heard_at: now,
        activity_ns: or(activity_ms, activity),
        lifetime_ns: or(lifetime_ms, lifetime),
    };
}
