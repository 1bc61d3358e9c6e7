//! Posts on their way to providers, and their acks on the way back.
//!
//! A post id is unique for its poster only. Towards the provider each post that wants an ack gets an id of ours, by which
//! the ack finds the P2PS and its token again. There is always an answer: the provider's, or a NAK of ours.

use super::items::{NO_SESSION, Upstream};
use super::message::Scratch;
use super::peers::Peers;
use super::sessions::Phase;
use super::timers::Timer;
use super::{Counters, Fault, ProviderSink, SessionId, SourceDistributor, login};
use crate::stream::{ALL, BlockWriter, Event, HubError, Kind};
use rustc_hash::FxHashMap;
use rwf::msg::{AckMsg, Domain, Msg, NakCode, PostFlags, PostMsg};
use rwf::{DataType, peek};

/// A post that has not been acknowledged.
#[derive(Debug, Clone, Copy)]
struct Pending {
    slot: u8,
    token: u32,
    session: u32,
    domain: Domain,
    seq_num: Option<u32>,
}

/// Posts by the id that the provider knows them by.
#[derive(Debug, Default)]
pub(super) struct Posts {
    pending: FxHashMap<u32, Pending>,
    last_id: u32,
}

impl Posts {
    fn add(&mut self, pending: Pending) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if self.last_id != 0 && !self.pending.contains_key(&self.last_id) {
                break;
            }
        }
        self.pending.insert(self.last_id, pending);
        self.last_id
    }

    pub(super) fn forget_p2ps(&mut self, slot: u8) {
        self.pending.retain(|_, pending| pending.slot != slot);
    }

    /// No ack can come from this session any more.
    pub(super) fn session_lost(
        &mut self,
        session: u32,
        text: &str,
        hub: &mut BlockWriter,
        peers: &Peers,
        scratch: &mut Scratch,
        counters: &mut Counters,
    ) {
        self.pending.retain(|_, pending| {
            if pending.session != session {
                return true;
            }
            counters.refused_posts += 1;
            nak(hub, peers, scratch, pending, NakCode::SOURCE_DOWN, text);
            false
        });
    }
}

fn nak(hub: &mut BlockWriter, peers: &Peers, scratch: &mut Scratch, post: &Pending, code: NakCode, text: &str) {
    let Some(target) = peers.id(post.slot).filter(|_| post.token != 0) else { return };
    let nak_code = (code != NakCode::NONE).then_some(code);
    let text = (!text.is_empty()).then_some(text.as_bytes());
    let ack = AckMsg { nak_code, text, seq_num: post.seq_num, ..AckMsg::new(post.domain, 0) };
    if let Ok(rwf) = scratch.write(|w| ack.encode(w)) {
        hub.event(&Event::Ack { target, token: post.token, rwf });
    }
}

impl SourceDistributor {
    #[expect(clippy::too_many_arguments, reason = "the members of one request")]
    pub(super) fn post(
        &mut self,
        now: u64,
        slot: u8,
        service: u16,
        handle: Option<u32>,
        token: u32,
        rwf: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        self.counters.posts += 1;
        let malformed = HubError::Malformed { kind: Kind::Post, what: "post in it" };
        let post = PostMsg::decode(rwf).map_err(|_| malformed)?;
        let mut pending = Pending { slot, token, session: NO_SESSION, domain: post.domain, seq_num: post.seq_num };
        let outcome = match self.services.get(service).filter(|service| service.advertised) {
            None => Err((NakCode::SOURCE_UNKNOWN, "Service is not known to the Source Distributor")),
            Some(known) if known.cached => self.post_to_cache(service, handle, &post).map(|()| None),
            Some(_) => self.post_target(service, handle, slot).map(Some),
        };
        match outcome {
            Err((code, text)) => self.refuse_post(&pending, code, text),
            Ok(None) => nak(&mut self.hub, &self.peers, &mut self.scratch, &pending, NakCode::NONE, ""),
            Ok(Some(_)) if token != 0 && self.posts.pending.len() >= self.config.max_pending_posts => {
                self.refuse_post(&pending, NakCode::NO_RESOURCES, "Too many posts wait for their acks");
            }
            Ok(Some((session, stream, provider_id))) => {
                pending.session = session;
                self.forward_post(now, &pending, &post, stream, provider_id, out);
            }
        }
        Ok(())
    }

    fn refuse_post(&mut self, pending: &Pending, code: NakCode, text: &str) {
        self.counters.refused_posts += 1;
        nak(&mut self.hub, &self.peers, &mut self.scratch, pending, code, text);
    }

    /// Where a post goes: session, stream, the provider's id of the service.
    fn post_target(
        &self,
        service: u16,
        handle: Option<u32>,
        slot: u8,
    ) -> Result<(u32, i32, u16), (NakCode, &'static str)> {
        if let Some(handle) = handle {
            let held = |item: &&super::items::Item| {
                item.service == service && item.interest & (1 as super::peers::Slots) << slot != 0
            };
            let item = self.items.get(handle).filter(held);
            let open = item.filter(|item| item.upstream == Upstream::Open);
            let place = open.and_then(|item| {
                let offer = self.session(item.session)?.offer(service)?;
                Some((item.session, item.stream, offer.provider_id))
            });
            return place.ok_or((NakCode::NOT_OPEN, "Item is not open at a provider now: post again when it is"));
        }
        let providers = self.services.get(service).map(|known| known.providers.as_slice()).unwrap_or_default();
        let best = providers
            .iter()
            .filter_map(|&id| {
                let session = self.session(id).filter(|session| session.phase == Phase::Ready)?;
                let offer = session.offer(service).filter(|offer| offer.up)?;
                Some((offer.load_factor, id, offer.provider_id))
            })
            .min();
        let (_, id, provider_id) =
            best.ok_or((NakCode::SOURCE_DOWN, "No provider of the service is up: post again when it is"))?;
        Ok((id, login::STREAM, provider_id))
    }

    fn forward_post(
        &mut self,
        now: u64,
        pending: &Pending,
        post: &PostMsg<'_>,
        stream: i32,
        provider_id: u16,
        out: &mut dyn ProviderSink,
    ) {
        let mut nested = Vec::new();
        let mut post = PostMsg { stream_id: stream, ..post.clone() };
        if let Some(key) = &mut post.key {
            key.service_id = Some(provider_id);
        }
        if post.container == DataType::MSG
            && matches!(peek::rewrite_service_id(post.body, provider_id, &mut nested), Ok(true))
        {
            post.body = &nested;
        }
        post.flags.set(PostFlags::ACK, pending.token != 0);
        if pending.token != 0 {
            let id = self.posts.add(*pending);
            post.post_id = Some(id);
            self.timers.set(now.saturating_add(self.config.post_timeout), Timer::Post(id));
        }
        if let Ok(bytes) = self.scratch.write(|w| post.encode(w)) {
            out.send(SessionId(pending.session), bytes);
        } else {
            if let Some(id) = post.post_id.filter(|_| pending.token != 0) {
                self.posts.pending.remove(&id);
            }
            self.refuse_post(pending, NakCode::INVALID_CONTENT, "Post is too long to be passed on");
        }
    }

    /// An ack of a provider, on whatever stream.
    pub(super) fn provider_ack(&mut self, id: u32, msg: &[u8]) -> Result<(), Fault> {
        let Msg::Ack(ack) = Msg::decode(msg)? else { return Err(Fault::Rule("not an ack")) };
        let pending = self.posts.pending.get(&ack.ack_id).copied().filter(|pending| pending.session == id);
        let Some(pending) = pending else {
            self.counters.dropped_acks += 1;
            return Ok(());
        };
        self.posts.pending.remove(&ack.ack_id);
        let target = self.peers.id(pending.slot).unwrap_or(ALL);
        self.hub.event(&Event::Ack { target, token: pending.token, rwf: msg });
        Ok(())
    }

    pub(super) fn post_timed_out(&mut self, id: u32) {
        let Some(pending) = self.posts.pending.remove(&id) else { return };
        self.counters.post_timeouts += 1;
        self.refuse_post(&pending, NakCode::NO_RESPONSE, "Provider has not acknowledged the post in time");
    }
}
