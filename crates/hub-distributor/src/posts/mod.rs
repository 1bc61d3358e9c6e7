//! Posts on their way to providers, and their acks on the way back.
//!
//! A post id is unique for its poster only. Towards the provider each post that wants an ack gets an id of ours, by which
//! the ack finds the P2PS and its token again. There is always an answer: the provider's, or a NAK of ours.

mod contributions;
mod waiting;

pub use contributions::ContributionRules;

use crate::hub_stream::{Composer, HubStream};
use crate::ids::{Handle, Slot, StreamId};
use crate::p2ps_links::Links;
use crate::providers::{LOGIN_STREAM, Phase};
use crate::stream::{Event, HubError, Kind};
use crate::timers::Timer;
use crate::{CloseReason, Config, Counters, ProviderSink, SessionId, SourceDistributor};
use contributions::{Contributions, TransactionLevels};
use rustc_hash::FxHashMap;
use rwf::msg::{AckMsg, Domain, Msg, NakCode, PostFlags, PostMsg};
use rwf::{DataType, peek};
use waiting::WaitingPosts;

/// The poster that waits for the answer to a post.
#[derive(Debug, Clone, Copy)]
struct Poster {
    slot: Slot,
    service: u16,
    /// The P2PS's name for the post; 0 if no ack is wanted.
    token: u32,
    domain: Domain,
    seq_num: Option<u32>,
    /// The post got a sequence number here: its poster knows of none.
    is_numbered_here: bool,
}

/// Where a post goes.
#[derive(Debug, Clone, Copy)]
struct Target {
    session: SessionId,
    stream: StreamId,
    /// The provider's id of the service.
    service_id: u16,
}

/// Posts that have not been acknowledged, by the id that the provider knows them by.
#[derive(Debug)]
pub(crate) struct Posts {
    contributions: Contributions,
    levels: TransactionLevels,
    pub(crate) waiting: WaitingPosts,
    pending: FxHashMap<u32, (Poster, SessionId)>,
    /// How many of them are for each service that has any.
    of_services: FxHashMap<u16, usize>,
    last_id: u32,
}

impl Posts {
    /// Nothing is posted yet.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            contributions: Contributions::default(),
            levels: TransactionLevels::new(config.hash_seed),
            waiting: WaitingPosts::default(),
            pending: FxHashMap::default(),
            of_services: FxHashMap::default(),
            last_id: 0,
        }
    }

    fn add(&mut self, poster: Poster, session: SessionId) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if self.last_id != 0 && !self.pending.contains_key(&self.last_id) {
                break;
            }
        }
        self.pending.insert(self.last_id, (poster, session));
        *self.of_services.entry(poster.service).or_default() += 1;
        self.last_id
    }

    /// A post waits no more.
    fn remove(&mut self, id: u32) -> Option<Poster> {
        let (poster, _) = self.pending.remove(&id)?;
        uncount(&mut self.of_services, &poster);
        Some(poster)
    }

    /// Posts that wait, of a service.
    fn of_service(&self, service: u16) -> usize {
        self.of_services.get(&service).copied().unwrap_or(0)
    }

    /// The P2PS in a slot is gone: nobody waits.
    pub(crate) fn forget_p2ps(&mut self, slot: Slot) {
        let of_services = &mut self.of_services;
        let gone = self.pending.extract_if(|_, (poster, _)| poster.slot == slot);
        gone.for_each(|(_, (poster, _))| uncount(of_services, &poster));
    }

    /// The posts that wait for an ack of a session. They wait no more.
    fn take_session(&mut self, session: SessionId) -> Vec<Poster> {
        let of_services = &mut self.of_services;
        let gone = self.pending.extract_if(|_, (_, at)| *at == session).map(|(_, (poster, _))| poster);
        gone.inspect(|poster| uncount(of_services, poster)).collect()
    }

    /// Asserts that an answer can come to each post, and find its poster.
    pub(crate) fn check(&self, links: &Links, is_up: impl Fn(SessionId) -> bool) {
        self.waiting.check(&is_up);
        assert_eq!(self.of_services.values().sum::<usize>(), self.pending.len(), "posts by service");
        for (id, (poster, session)) in &self.pending {
            assert!(links.id(poster.slot).is_some(), "post {id} is of a P2PS that is gone");
            assert!(is_up(*session), "post {id} waits for a session that is gone");
        }
    }
}

/// A post of a service waits no more.
fn uncount(of_services: &mut FxHashMap<u16, usize>, poster: &Poster) {
    let Some(count) = of_services.get_mut(&poster.service) else {
        return hub_items::fault!("a post of service {} was not counted", poster.service);
    };
    *count -= 1;
    if *count == 0 {
        of_services.remove(&poster.service);
    }
}

/// Answers a post, if an answer is wanted.
fn answer(
    hub: &mut HubStream,
    composer: &mut Composer,
    counters: &mut Counters,
    (target, poster): (u16, &Poster),
    nak: Option<(NakCode, &str)>,
) {
    if poster.token == 0 {
        return;
    }
    let ack = AckMsg {
        nak_code: nak.map(|(code, _)| code),
        text: nak.map(|(_, text)| text.as_bytes()),
        seq_num: poster.seq_num,
        ..AckMsg::new(poster.domain, 0)
    };
    if let Some(rwf) = composer.write(counters, |w| ack.encode(w)) {
        hub.event(&Event::Ack { target, token: poster.token, rwf });
    }
}

/// The answer to a post for a provider that takes none.
const NO_POSTS: (NakCode, &str) =
    (NakCode::DENIED_BY_SRC, "The provider takes no posts: its login says so (SupportOMMPost 0)");

impl SourceDistributor {
    pub(crate) fn post(
        &mut self,
        slot: Slot,
        service: u16,
        handle: Option<Handle>,
        token: u32,
        rwf: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        self.counters.posts += 1;
        let malformed = HubError::Malformed { kind: Kind::Post, what: "post in it" };
        let post = PostMsg::decode(rwf).map_err(|_| malformed)?;
        let (domain, seq_num) = (post.domain, post.seq_num);
        let mut poster = Poster { slot, service, token, domain, seq_num, is_numbered_here: false };
        let outcome = match self.providers.service(service).filter(|service| service.advertised) {
            None => Err((NakCode::SOURCE_UNKNOWN, "Service is not known to the Source Distributor")),
            Some(known) => {
                let cached = known.cached;
                self.check_contribution(service, &post).and_then(|()| {
                    if cached {
                        self.post_to_cache(service, handle, &post).map(|()| None)
                    } else {
                        self.post_target(service, handle, slot).map(Some)
                    }
                })
            }
        };
        // Of all services, or of this one where it has a bound of its own.
        let most = self.providers.said_of(&self.config, service).and_then(|said| said.max_pending_posts);
        let is_full = self.posts.pending.len() >= self.config.max_pending_posts
            || most.is_some_and(|most| self.posts.of_service(service) >= most);
        match outcome {
            Err(nak) => self.refuse_post(&poster, nak),
            Ok(None) => self.answer_post(&poster, None),
            Ok(Some(_)) if token != 0 && is_full => {
                self.refuse_post(&poster, (NakCode::NO_RESOURCES, "Too many posts wait for their acks"));
            }
            Ok(Some(target)) => {
                let of_stream = handle.and_then(|handle| self.items.get(handle)).and_then(|item| item.item_key().name);
                let known = self.providers.service(service).map_or("", |known| known.name.as_str());
                let level = self.posts.levels.of_post(&self.config.contributions, (service, known), of_stream, &post);
                poster.is_numbered_here = level.is_some();
                self.forward_post(poster, &PostMsg { seq_num: level.or(seq_num), ..post }, target, out);
            }
        }
        Ok(())
    }

    fn answer_post(&mut self, poster: &Poster, nak: Option<(NakCode, &str)>) {
        let target = self.links.number(poster.slot);
        answer(&mut self.hub, &mut self.composer, &mut self.counters, (target, poster), nak);
    }

    fn refuse_post(&mut self, poster: &Poster, nak: (NakCode, &str)) {
        self.counters.refused_posts += 1;
        self.answer_post(poster, Some(nak));
    }

    /// No ack can come from this session any more, and no post can go to it.
    pub(crate) fn refuse_posts_of(&mut self, session: SessionId, text: &str) {
        self.counters.posts_not_sent += self.posts.waiting.forget(session);
        for poster in self.posts.take_session(session) {
            self.refuse_post(&poster, (NakCode::SOURCE_DOWN, text));
        }
    }

    /// Where a post goes.
    fn post_target(&self, service: u16, handle: Option<Handle>, slot: Slot) -> Result<Target, (NakCode, &'static str)> {
        if let Some(handle) = handle {
            let item =
                self.items.get(handle).filter(|item| item.service() == service && item.interest().contains(slot));
            let place = item.filter(|item| item.is_open()).and_then(super::items::Item::place);
            let place = place.filter(|place| self.providers.is_reached(place.session, service));
            let target = place.and_then(|place| {
                let service_id = self.providers.offer(place.session, service)?.provider_id;
                Some(Target { session: place.session, stream: place.stream, service_id })
            });
            let target =
                target.ok_or((NakCode::NOT_OPEN, "Item is not open at a provider now: post again when it is"))?;
            return if self.providers[target.session].refuses_posts() { Err(NO_POSTS) } else { Ok(target) };
        }
        let providers = self.providers[service].providers().iter();
        let best = providers
            .filter_map(|&id| {
                let session = self.providers.get(id).filter(|session| session.phase == Phase::Ready)?;
                let offer = session.offer(service).filter(|offer| offer.up)?;
                let cost = self.config.route(session.origin).map_or(0, |route| route.server_cost);
                Some((session.refuses_posts(), cost, offer.load_factor, id.0, offer.provider_id))
            })
            .min();
        let (refuses, _, _, id, service_id) =
            best.ok_or((NakCode::SOURCE_DOWN, "No provider of the service is up: post again when it is"))?;
        if refuses {
            return Err(NO_POSTS);
        }
        Ok(Target { session: SessionId(id), stream: StreamId(LOGIN_STREAM), service_id })
    }

    fn forward_post(&mut self, poster: Poster, post: &PostMsg<'_>, target: Target, out: &mut dyn ProviderSink) {
        let mut nested = Vec::new();
        let mut post = PostMsg { stream_id: target.stream.0, ..post.clone() };
        if let Some(key) = &mut post.key {
            key.service_id = Some(target.service_id);
        }
        if post.container == DataType::MSG
            && matches!(peek::rewrite_service_id(post.body, target.service_id, &mut nested), Ok(true))
        {
            post.body = &nested;
        }
        let wants_ack = poster.token != 0;
        post.flags.set(PostFlags::ACK, wants_ack);
        let id = wants_ack.then(|| self.posts.add(poster, target.session));
        if let Some(id) = id {
            post.post_id = Some(id);
            let timeout = self.providers.rules(&self.config, poster.service).post_timeout;
            self.timers.set(self.now.saturating_add(timeout), Timer::Post(id));
        }
        let interval = self.providers.rules(&self.config, poster.service).post_flush;
        if let Some(bytes) = self.composer.write(&mut self.counters, |w| post.encode(w)) {
            let due = self.posts.waiting.send(target.session, bytes, (self.now, interval), out);
            if let (Some(due), Some(session)) = (due, self.providers.get(target.session)) {
                self.timers.set(due, Timer::Posts(target.session, session.serial));
            }
            return;
        }
        if let Some(id) = id {
            self.posts.remove(id);
        }
        self.refuse_post(&poster, (NakCode::INVALID_CONTENT, "Post is too long to be passed on"));
    }

    /// An ack of a provider, on whatever stream.
    pub(crate) fn provider_ack(&mut self, id: SessionId, msg: &[u8]) -> Result<(), CloseReason> {
        let Msg::Ack(ack) = Msg::decode(msg)? else { return Err(CloseReason::NoAck) };
        let pending = self.posts.pending.get(&ack.ack_id).filter(|(_, session)| *session == id);
        let Some(&(poster, _)) = pending else {
            self.counters.dropped_acks += 1;
            return Ok(());
        };
        self.posts.remove(ack.ack_id);
        let target = self.links.number(poster.slot);
        if poster.is_numbered_here && ack.seq_num.is_some() {
            // An ack that cannot be written is counted, and its poster hears of it in time.
            let own = AckMsg { seq_num: None, ..ack };
            if let Some(rwf) = self.composer.write(&mut self.counters, |w| own.encode(w)) {
                self.hub.event(&Event::Ack { target, token: poster.token, rwf });
            }
        } else {
            self.hub.event(&Event::Ack { target, token: poster.token, rwf: msg });
        }
        Ok(())
    }

    /// A post has waited for its ack for long enough. It may have come.
    pub(crate) fn post_timed_out(&mut self, id: u32) {
        if let Some(poster) = self.posts.remove(id) {
            self.counters.post_timeouts += 1;
            self.refuse_post(&poster, (NakCode::NO_RESPONSE, "Provider has not acknowledged the post in time"));
        }
    }
}
