//! What clients say after they have registered.

use lbm::fault::named;
use lbm::wire::WireError;
use lbm::wire::distance;
use lbm::wire::header::RetransmitRequest;
use lbm::wire::lbmc::Message;

use super::clients::Registering;
use super::proxies::StoreLine;
use super::{Log, Store, not_held};
use crate::epochs::Epochs;
use crate::options::STORES_MAX;
use crate::repository::Repository;
use crate::wire::{Ack, Registration, Ume, control};

/// The headers of one control message, as far as the store knows them.
#[derive(Default)]
struct Said<'a> {
    registration: Option<Registration>,
    topic: &'a [u8],
    session: u64,
    lifetime: (u32, u32),
    origin: Option<[u8; 32]>,
    ack: Option<Ack>,
    epoch: Option<u32>,
    info: Option<(u32, u32)>,
    topic_index: u32,
    epochs: &'a [u8],
    repository: Repository,
    keepalive: Option<u32>,
    request: Option<RetransmitRequest>,
    /// What a source retains no more: its oldest.
    retained_low: Option<u32>,
    stores: Vec<StoreLine>,
}

impl<'a> Said<'a> {
    fn of(message: &Message<'a>) -> Result<Self, WireError> {
        let mut said = Self::default();
        for header in message.headers() {
            match Ume::of(&header?)? {
                Some(Ume::Registration(registration)) => said.registration = Some(registration),
                Some(Ume::TopicName(name)) => said.topic = name.strip_suffix(b"\0").unwrap_or(name),
                Some(Ume::Session(id)) => said.session = id,
                Some(Ume::Lifetime { activity_ms, state_ms }) => said.lifetime = (activity_ms, state_ms),
                Some(Ume::Origin(id)) => said.origin = Some(id),
                Some(Ume::Ack(ack)) => said.ack = Some(ack),
                Some(Ume::AckId(id)) => said.epoch = Some(id),
                Some(Ume::Info { low, high, .. }) => said.info = Some((low, high)),
                Some(Ume::TopicIndex(index)) => said.topic_index = index,
                Some(Ume::Epochs { pairs, .. }) => said.epochs = pairs,
                Some(Ume::Repository(repository)) => said.repository = repository,
                Some(Ume::Keepalive { reg_id, .. }) => said.keepalive = Some(reg_id),
                Some(Ume::Retransmit(request)) => said.request = Some(request),
                Some(Ume::Retained(info)) => said.retained_low = Some(info.low_sqn),
                Some(Ume::Store { group, port, index, address, reg_id }) if said.stores.len() < STORES_MAX => {
                    let at = core::net::SocketAddrV4::new(address, port);
                    said.stores.push(StoreLine { group, index, at, reg_id });
                }
                _ => {}
            }
        }
        Ok(said)
    }
}

impl<L: Log> Store<L> {
    pub(super) fn control(
        &mut self,
        now: u64,
        conn: u64,
        message: &Message<'_>,
        answers: &mut usize,
    ) -> Result<(), WireError> {
        let said = Said::of(message).inspect_err(|_| self.stats.malformed += 1)?;
        if let Some(registration) = said.registration {
            let Said { topic, session, lifetime, origin, epochs, repository, .. } = said;
            let registering = Registering { registration, topic, session, lifetime, origin, epochs, repository };
            self.register(now, conn, &registering);
        }
        if let Some(info) = said.info {
            self.source_info(now, conn, said.topic_index, info, (&Epochs::read(said.epochs), said.stores));
        }
        if let Some(ack) = said.ack.filter(|ack| !ack.stable) {
            self.consumed(now, conn, &ack, said.epoch);
        }
        if let Some(request) = said.request {
            self.retransmit(now, conn, &request, answers);
        }
        if let Some(low) = said.retained_low {
            self.not_retained(conn, low);
        }
        if let Some(reg_id) = said.keepalive {
            self.alive(now, conn, reg_id);
        }
        Ok(())
    }

    fn alive(&mut self, now: u64, conn: u64, reg_id: u32) {
        // A registration that has ended is not kept alive by what was still on its way.
        let Some((at, is_receiver)) = self.by_reg_id.get(&reg_id).copied() else { return };
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        let client = if is_receiver {
            source.receivers.get_mut(&reg_id).map(|r| &mut r.client)
        } else {
            Some(&mut source.client)
        };
        if let Some(client) = client.filter(|client| client.conn == Some(conn)) {
            client.heard_at = now;
            let headers =
                [Ume::Keepalive { flags: 0, kind: 0, transport: source.transport, topic: source.topic_index, reg_id }];
            control(self.out.to(conn), &headers);
        }
    }

    /// A receiver has consumed all up to a number.
    fn consumed(&mut self, now: u64, conn: u64, ack: &Ack, epoch: Option<u32>) {
        // An acknowledgement of a receiver that is not registered here changes nothing: its registration will say where it is.
        let Some((at, true)) = self.by_reg_id.get(&ack.receiver).copied() else { return };
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        // Words of an earlier connection: the present one says where the receiver is.
        let Some(receiver) = source.receivers.get_mut(&ack.receiver).filter(|r| r.client.conn == Some(conn)) else {
            return;
        };
        receiver.client.heard_at = now;
        // The number may mean another message of an earlier incarnation.
        if epoch.is_some_and(|epoch| epoch != 0 && !source.epochs.is_shared(epoch, ack.sqn)) {
            return;
        }
        let next = ack.sqn.wrapping_add(1);
        let is_ahead = distance(receiver.next, next) > 0;
        // Its first word says where it has begun, which may be before the place that was thought of for a new one.
        if !is_ahead && receiver.known {
            return;
        }
        (receiver.next, receiver.known) = (next, true);
        if !core::mem::replace(&mut receiver.moved, true) && !self.consumed.contains(&at) {
            self.consumed.push(at);
        }
        if is_ahead
            && source.flags & Registration::NO_FORWARD == 0
            && let Some(to) = source.client.conn
        {
            let (transport, topic) = (source.transport, source.topic_index);
            let forwarded = Ack { flags: 0x80, stable: false, transport, topic, receiver: ack.receiver, sqn: ack.sqn };
            control(self.out.to(to), &[Ume::Ack(forwarded), Ume::StoreId(self.config.id)]);
        }
        self.release(at);
    }

    /// A receiver asks for a message, by the registration id of its source.
    fn retransmit(&mut self, now: u64, conn: u64, request: &RetransmitRequest, answers: &mut usize) {
        // A source that is not registered here has no messages here: the receiver asks another store.
        let Some((at, false)) = self.by_reg_id.get(&request.topic).copied() else { return };
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        let Some(message) = source.kept.get(request.sqn) else {
            self.stats.not_held += 1;
            // The source may bring it yet: who asks again hears then.
            if source.may_bring(now, request.sqn) {
                return;
            }
            return control(self.out.to(conn), &[not_held(source, request.request)]);
        };
        *answers += message.len();
        if *answers > self.config.answer_bytes_max {
            self.stats.deferred += 1;
            return;
        }
        let out = self.out.to(conn);
        let start = out.len();
        out.extend_from_slice(message);
        // Version 0, type 0xA: a retransmission.
        out[start] = 0x0A;
        self.stats.retransmissions += 1;
    }

    /// A source has no messages before `low` any more: they are not asked for again.
    fn not_retained(&mut self, conn: u64, low: u32) {
        for source in self.sources.iter_mut().flatten().filter(|s| s.client.conn == Some(conn)) {
            source.source_low = low;
            source.missing.retain(|sqn, _| distance(low, *sqn) >= 0);
        }
    }

    /// Asks a source for what is missing.
    pub(super) fn ask(&mut self, now: u64, at: usize) {
        let config = &self.config;
        // Counted by its name.
        let Some(source) = named(&mut self.sources, at, &mut self.stats) else { return };
        // Nothing is missing, or there is nobody yet who can be asked.
        let Some(conn) = source.client.conn.filter(|_| source.ready && !source.missing.is_empty()) else { return };
        let low = source.kept.low();
        source.missing.retain(|sqn, _| distance(low, *sqn) >= 0);
        let (transport, topic, reg_id) = (source.transport, source.topic_index, source.client.reg_id);
        let mut asked = 0;
        for (sqn, due) in source.missing.iter_mut().take(config.ask_maximum) {
            if *due <= now {
                *due = now.saturating_add(config.ask_interval_ns.max(1));
                let request = RetransmitRequest {
                    flags: 0,
                    request: reg_id,
                    transport,
                    topic,
                    sqn: *sqn,
                    port: 0,
                    address: core::net::Ipv4Addr::UNSPECIFIED,
                };
                control(self.out.to(conn), &[Ume::Retransmit(request)]);
                asked += 1;
            }
            self.due = self.due.min(*due);
        }
        self.stats.asked += asked;
    }
}
