//! The Source Distributor: the side that faces providers.
//!
//! It logs in at interactive providers as a consumer, lets non-interactive ones log in, takes their directories, and opens
//! each item once however many watchers it has. What providers send becomes the hub stream; what P2PSs ask for becomes
//! requests to the provider that can serve them.
//!
//! Each room owns its tables, with private fields, and knows the types only of rooms above it in this list, and of what is no room: `ids`, `timers`,
//! `config`, `counters`, `notice`, `close_reason`. What concerns several rooms is a method of [`SourceDistributor`], in the file of its subject; such methods
//! call each other whatever the order of the rooms.
//!
//! | room | what it owns |
//! |---|---|
//! | `items` | the items and their states: which are legal, its `state` says |
//! | `hub_stream` | what is published: the block of the turn, what is kept of the stream, flow control |
//! | `p2ps_links` | the P2PSs: joining, leaving, leases, heartbeats, their requests, gap recovery |
//! | `providers` | provider sessions, services, login, directory, dictionaries, groups; recovery when they go away |
//! | `upstream` | requests to interactive providers, request merge, pending images, point to point, answers |
//! | `hot_standby` | the streams of items at providers that stand by, and how they take over |
//! | `content` | what is done with the content of messages: headlines, filters, the cached images of interactive items |
//! | `published` | what non-interactive providers publish, and the images held for them |
//! | `posts` | posts and their acks, and what clients may contribute by them |
//!
//! There is no clock and no I/O: the time is an argument of each call (monotonic nanoseconds), messages to providers go to a
//! [`ProviderSink`], and what else comes of calls is drained by the owner, as [`SourceDistributor`] lists.
//!
//! At the end of each turn debug builds check the states of some items; [`SourceDistributor::check_invariants`] checks all there is.
#![forbid(unsafe_code)]

mod close_reason;
mod config;
mod content;
mod counters;
mod hot_standby;
mod hub_stream;
mod ids;
mod invariants;
mod items;
mod notice;
mod of_service;
mod operation;
mod overview;
mod p2ps_links;
mod posts;
mod providers;
mod published;
mod timers;
mod upstream;

pub use close_reason::CloseReason;
pub use config::{Balance, Config, Interruption, RouteConfig, ServiceGroup};
pub use counters::Counters;
pub use ids::{Origin, SessionId};
pub use notice::Notice;
pub use of_service::ServiceConfig;
pub use overview::{OfferOverview, ServiceOverview, SessionOverview};
pub use posts::ContributionRules;
pub use providers::{PeerInfo, SwitchError};
pub use published::{PATIENCES_MAX, Record, RecordChange, Restore, RestoreError, Restored};
pub use upstream::item_priorities::{ItemPriorities, ItemPriority, LOCKED_MAX, LockError};

use crate::stream::{Event, update_flags};
use ::hub_stream as stream;
use content::Content;
use hot_standby::HotStandby;
use hub_content::{cache, conflation, filter};
use hub_items::deadlines::earliest;
use hub_items::{cascade, hash_seed, item, keyed_queue, roster, sequence, status_texts};
use hub_stream::{Composer, HubStream};
use ids::{GroupId, Handle, StreamId};
use items::Items;
use p2ps_links::Links;
use posts::Posts;
use providers::{Phase, Providers};
use published::Published;
use rwf::msg::{Domain, MsgClass, StatusMsg};
use rwf::{State, peek};
use timers::{Timer, Timers};
use upstream::Upstream;

/// Items from which on it pays to look at their memory ahead: the tables of fewer lie in the caches of the processor. Where it is tested a few will do.
const MANY: usize = if cfg!(debug_assertions) { 4 } else { 16 << 10 };
/// Streams that are asked for before the first of them is read.
const ASKED: usize = 16;

/// Where messages to providers go. The calls come in the order in which they have to reach the provider.
pub trait ProviderSink {
    /// Sends one RWF message to a session.
    fn send(&mut self, session: SessionId, msg: &[u8]);
    /// Ends a session, after what was sent to it. `session_down` for it is allowed and changes nothing any more.
    fn close(&mut self, session: SessionId, reason: &CloseReason);
}

/// The state machine of a Source Distributor: providers on one side, P2PSs on the other. See the module's description.
///
/// # A turn
/// Any number of inputs: [`Self::session_up`], [`Self::session_message`], [`Self::session_down`] of providers, [`Self::p2ps_up`],
/// [`Self::request_block`], [`Self::p2ps_down`] of P2PSs, [`Self::on_timer`] when [`Self::timeout`] has come, [`Self::restore`] and what operators
/// want. Each may be called at any time and in any order; no time is before that of the call before it. Then the owner drains, in this order:
///
/// 1. [`Self::block`], which goes to all P2PSs, and [`Self::clear_block`] behind it: the turn is over. Whatever was called since the last one is in
///    it, in order. To be taken before the owner waits for input, since those who watch wait for it; in between whenever it is worth it.
/// 2. [`Self::point_to_point_blocks`]: behind the block of the same turn, or at any other time. Positions in them say where they belong.
/// 3. [`Self::closing_p2ps`]: transports to be ended, behind what was sent to them. Those P2PSs are gone here already.
/// 4. [`Self::must_wait`], once a turn and behind the block: whether providers are not to be read until the next one.
/// 5. [`Self::take_record_changes`], as many as the file takes in a turn; [`Self::notices`] and [`Self::counters`] at any time.
/// 6. [`Self::timeout`] last, since each of the calls above may have moved it.
///
/// # Methods
/// Of four kinds, in blocks of their own: input, output, commands, and getters, which change nothing.
///
/// # Messages to providers
/// Messages to providers are the one output that is not drained: each goes to the [`ProviderSink`] that the call was given, while it runs. It is
/// encoded into a buffer of this struct's and copied once, into the frame of its connection; a queue in here would be one more copy and memory
/// without a bound of its own, in front of connections that have both already. So `out` is an argument of what may ask, close or answer a provider,
/// and the signatures tell these methods from those that change tables only. No message that is relayed goes that way.
#[derive(Debug)]
pub struct SourceDistributor {
    /// The operator's settings; some of them change while sessions are there.
    config: Config,
    /// The time of the call at hand, monotonic nanoseconds: each entry point that takes a time sets it, and all below it read it. An update
    /// that goes on as it comes needs none.
    now: u64,
    /// Sessions and services, and what of both goes on in turns.
    providers: Providers,
    /// Items that P2PSs share: one for each stream at a provider.
    items: Items,
    /// Requests for items on their way to providers, and who waits for the answers.
    upstream: Upstream,
    /// Items that are open at two providers.
    hot_standby: HotStandby,
    /// Images of what non-interactive providers publish, records of them, and publishers that stand by.
    published: Published,
    /// Knowledge of the content of items, and the cached images of interactive ones.
    content: Content,
    /// Posts that are not acknowledged, and how many clients have sent.
    posts: Posts,
    /// The P2PSs, and what is for one of them alone.
    links: Links,
    /// The stream that all P2PSs read.
    hub: HubStream,
    /// The buffer in which RWF messages are written.
    composer: Composer,
    /// Deadlines of what no message brings about.
    timers: Timers,
    /// Notices for operators since the owner asked last.
    notices: Vec<Notice>,
    /// Totals since the start.
    counters: Counters,
    /// Canonical bytes of the key at hand.
    key: Vec<u8>,
}

impl SourceDistributor {
    /// A distributor without sessions. `incarnation` must differ from that of any earlier life of it.
    pub fn new(config: Config, incarnation: u32) -> Self {
        let mut timers = Timers::default();
        if config.heartbeat_interval > 0 || config.p2ps_timeout > 0 {
            timers.set(0, Timer::Heartbeat);
        }
        if config.age_unpublished > 0 {
            timers.set(0, Timer::Retention);
        }
        if config.records.max_age > 0 {
            timers.set(0, Timer::Records);
        }
        Self {
            now: 0,
            providers: Providers::new(&config),
            items: Items::new(config.hash_seed),
            upstream: Upstream::new(&config),
            hot_standby: HotStandby::default(),
            published: Published::new(config.hash_seed),
            content: Content::new(&config),
            posts: Posts::new(&config),
            links: Links::default(),
            hub: HubStream::new(&config, incarnation),
            composer: Composer::default(),
            timers,
            notices: Vec::new(),
            counters: Counters::default(),
            key: Vec::new(),
            config,
        }
    }
}

/// Input: what comes from providers, and from the clock. Input from P2PSs is in `p2ps_links`.
impl SourceDistributor {
    /// A session with a provider is established: we log in (route), or wait for its login. What is left of a session that had its number is
    /// lost at once, however much that is: [`Self::free_sessions`] are without.
    pub fn session_up(&mut self, now: u64, id: SessionId, origin: Origin, peer: PeerInfo, out: &mut impl ProviderSink) {
        self.begin(now);
        if id.0 >= providers::MAX_SESSIONS {
            out.close(id, &CloseReason::SessionsTaken);
            return;
        }
        self.lose_session(id, "replaced by a new session", out);
        self.finish_outage_of(id, out);
        let serial = self.providers.up(id, origin, peer);
        self.providers[id].interruption = self.config.route(origin).and_then(|route| route.interruption);
        self.timers.set(now.saturating_add(self.config.login_timeout), Timer::Session(id, serial));
        if matches!(origin, Origin::Route(_)) {
            self.send_login(id, out);
        }
    }

    /// Messages of a provider that come soon, if they are whole. Where there are many items, their memory is asked for here.
    #[inline]
    pub fn look_ahead<'m>(&self, id: SessionId, messages: impl Iterator<Item = &'m [u8]>) {
        let Some(session) = self.providers.get(id).filter(|_| self.items.len() >= MANY) else { return };
        let mut streams = messages.filter_map(peek::stream_id).map(StreamId);
        let (mut group, mut count) = ([StreamId(0); ASKED], ASKED);
        while count == ASKED {
            count = 0;
            for (place, stream) in group.iter_mut().zip(&mut streams) {
                session.streams.ask(stream);
                *place = stream;
                count += 1;
            }
            // The line beside an image is known once the stream is read.
            for stream in &group[..count] {
                if let Some(handle) = session.streams.get(*stream).live_cached() {
                    self.content.ask_ahead(handle);
                }
            }
        }
    }

    /// A message from a provider. A message that breaks the rules ends its session.
    #[inline]
    pub fn session_message(&mut self, now: u64, id: SessionId, msg: &[u8], out: &mut impl ProviderSink) {
        let Some(session) = self.providers.get(id) else {
            self.counters.dropped_unknown_session += 1;
            return;
        };
        // The data path: an update for an item that is watched. Streams of non-interactive providers, and
        // of items that are cached, conflated, filtered, mirrored or watched for interruptions, are never live here.
        if let Ok(header) = peek::header(msg)
            && header.class == MsgClass::UPDATE
            && let Some(handle) = session.streams.get(StreamId(header.stream_id)).live()
        {
            self.hub.update(handle, update_flags(&header, msg), msg);
            self.counters.updates += 1;
            return;
        }
        if self.relay_cached(id, msg) {
            return;
        }
        self.begin(now);
        if let Err(reason) = self.provider_message(id, msg, out) {
            self.close_session(id, &reason, out);
        }
    }

    /// A session has ended.
    pub fn session_down(&mut self, now: u64, id: SessionId, reason: &str, out: &mut impl ProviderSink) {
        self.begin(now);
        self.lose_session(id, reason, out);
    }

    /// Does what is due, begins a turn, and goes on with what the last turn's budget left. Call it when [`Self::timeout`] has
    /// come; more often does no harm, but that more is asked for in one turn.
    pub fn on_timer(&mut self, now: u64, out: &mut impl ProviderSink) {
        self.begin(now);
        self.upstream.begin_turn(self.config.opens_per_turn);
        self.providers.begin_turn(self.config.work_per_turn);
        while let Some(due) = self.timers.pop(now) {
            for timer in due {
                self.timer(timer, out);
            }
        }
        self.hub.release_due(now);
        self.work_outages(out);
        self.work_merged_states(out);
        for service in self.providers.service_ids() {
            self.send_queued(service, out);
        }
        self.ask_in_doubt(out);
        self.work_mirrors(out);
        self.work_returns(out);
    }
}

/// Output: what the owner drains, in the order of the list at [`SourceDistributor`].
impl SourceDistributor {
    /// The messages that were published since [`Self::clear_block`].
    pub fn block(&self) -> Option<&[u8]> {
        self.hub.block()
    }

    /// The turn is over, its block has been handed on.
    pub fn clear_block(&mut self) {
        self.hub.end_block();
        let released = self.hub.take_released();
        self.counters.updates += released.published;
        self.counters.updates_conflated += released.spared;
        self.counters.encode_failures += released.unwritable;
        self.providers.end_turn();
        let items = &self.items;
        let waits = |item: &items::Item, epoch| item.epoch() == epoch && item.awaits_something();
        self.timers.sweep_requests(|handle, epoch| items.get(handle).is_some_and(|item| waits(item, epoch)));
        self.counters.cache_failures += self.content.settle();
        self.counters.items_cached = self.content.cached_items() as u64;
        if cfg!(debug_assertions) {
            self.items.check_some(64);
        }
    }

    /// Whether the providers are not to be read for now: more than [`Config::window`] is on its way to a P2PS that moves. To be
    /// asked once a turn.
    pub fn must_wait(&mut self, now: u64) -> bool {
        self.begin(now);
        let waits = self.hub.must_wait(now);
        (self.counters.waits, self.counters.left_behind) = self.hub.waits();
        waits
    }

    /// Notices for an operator since the last call.
    pub fn notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.notices.drain(..)
    }

    /// When [`Self::on_timer`] wants to be called, at the latest. Zero: as soon as this turn is over.
    pub fn timeout(&self) -> Option<u64> {
        if self.upstream.has_work() || self.providers.has_work() || self.hot_standby.has_work() {
            return Some(0);
        }
        earliest([self.timers.next(), self.hub.deadline(), self.hot_standby.next_return()])
    }
}

/// Commands of the owner. Those of operators are in `operation`, `overview` and `providers`.
impl SourceDistributor {
    /// Sets what each heartbeat says from now on of who this is: name, services, an address for requests. Opaque here.
    pub fn announce(&mut self, announcement: &[u8]) {
        self.links.announce(announcement);
    }

    /// The process ends in order. The block with this word in it is the last one.
    pub fn leave(&mut self, why: &str) {
        self.hub.event(&Event::Leaving { why });
    }
}

/// Getters, which change nothing.
impl SourceDistributor {
    /// Numbers that the next session may have, without end: no session has them, and nothing is left of one that had. If there are as many
    /// sessions as may be, [`Self::session_up`] refuses all of them.
    pub fn free_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.providers.free()
    }

    /// The number of this life: that of [`Self::new`].
    pub fn incarnation(&self) -> u32 {
        self.hub.incarnation()
    }

    /// Position of the next message of the stream.
    pub fn next_position(&self) -> u64 {
        self.hub.next_position()
    }

    /// The P2PSs that are there: the number of each, the bytes of the stream that it has yet to read (at most), and whether it was
    /// left behind. Nothing is known without a [`Config::window`].
    pub fn p2pss(&self) -> impl Iterator<Item = (u16, u64, bool)> {
        self.links.present().map(|(slot, id)| {
            let (bytes, left_behind) = self.hub.behind(slot);
            (id, bytes, left_behind)
        })
    }

    /// Totals since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Items held, those included that only P2PSs still hold.
    pub fn items(&self) -> usize {
        self.items.len()
    }
}

/// State that entry points of several rooms use.
impl SourceDistributor {
    /// An entry point is called at this time.
    #[inline]
    pub(crate) fn begin(&mut self, now: u64) {
        debug_assert!(now >= self.now, "time goes back from {} to {now}", self.now);
        self.now = now;
        self.hub.begin(now);
    }

    fn timer(&mut self, timer: Timer, out: &mut dyn ProviderSink) {
        if timer.session().is_some_and(|(id, serial)| !self.providers.is_session(id, serial)) {
            // Of a session that is gone.
            return;
        }
        match timer {
            Timer::Request(handle, epoch) => self.request_timed_out(handle, epoch, out),
            Timer::Retry(handle, epoch) => self.retry(handle, epoch, out),
            Timer::Stale(handle) => self.stale_timer(handle, out),
            Timer::Unwatched(handle) => self.unwatched_timer(handle, out),
            Timer::Post(id) => self.post_timed_out(id),
            Timer::Posts(id, _) => self.posts.waiting.flush_due(id, self.now, out),
            Timer::Session(id, _) => self.login_timer(id, out),
            Timer::Directory(id, _) => self.request_directory(id, out),
            Timer::Dictionaries(id, _) => self.dictionaries_waited(id),
            Timer::Link(id, _, service) => self.link_timer(id, service, out),
            Timer::Member(id, _, service) => self.member_timer(id, service, out),
            Timer::Recognised(id, _, service) => {
                if self.providers[id].offer_mut(service).is_some_and(|offer| offer.has_rested(self.now)) {
                    self.providers[service].look_at_set_aside();
                    self.send_queued(service, out);
                    self.want_mirrors(service);
                    self.update_groups_of((id, service), None, false, out);
                }
            }
            Timer::Data(id, _, service) => self.data_timer(id, service, out),
            Timer::Mirrors(service) => self.mirrors_timer(service),
            Timer::Swapped => self.tell_swapped(),
            Timer::FailBack(service) => self.failback_timer(service, out),
            Timer::Restart(service) => {
                if let Some(name) = self.providers.given_up(self.now, service) {
                    self.counters.services_given_up += 1;
                    self.notices.push(Notice::ServiceGivenUp { service: name });
                    self.begin_deletion(service);
                    self.work_outages(out);
                }
            }
            Timer::Lease(slot, serial) => self.lease_timer(slot, serial, out),
            Timer::Publication(handle, epoch) => self.publication_timer(handle, epoch),
            Timer::Retention => self.retention_timer(out),
            Timer::Records => self.records_timer(),
            Timer::Heartbeat => self.heartbeat(out),
            Timer::Servers => self.tell_servers(),
        }
    }

    /// The time for login and directory is over.
    fn login_timer(&mut self, id: SessionId, out: &mut dyn ProviderSink) {
        let session = &self.providers[id];
        let route = matches!(session.origin, Origin::Route(_));
        if session.phase == Phase::LoggingIn || (route && session.phase == Phase::LoggedIn) {
            self.close_session(id, &CloseReason::NoAnswer, out);
        }
    }

    /// Everything but an update on a live stream.
    fn provider_message(&mut self, id: SessionId, msg: &[u8], out: &mut dyn ProviderSink) -> Result<(), CloseReason> {
        let header = peek::header(msg)?;
        if header.domain != Domain::SOURCE {
            self.bring_forward(id, out);
        }
        let session = &self.providers[id];
        if session.origin == Origin::NonInteractive {
            return match header.domain {
                Domain::LOGIN => self.provider_login(id, msg, out),
                _ if session.phase == Phase::LoggingIn => Err(CloseReason::NotLoggedIn),
                Domain::SOURCE => self.directory_message(id, msg, out),
                _ => self.published_message(id, msg),
            };
        }
        match header.stream_id {
            providers::LOGIN_STREAM => self.login_message(id, msg, out),
            providers::DIRECTORY_STREAM => self.directory_message(id, msg, out),
            providers::FIRST_DICTIONARY_STREAM..=providers::LAST_DICTIONARY_STREAM => self.dictionary_message(id, msg),
            _ => self.item_message(id, msg, out),
        }
    }

    /// Closes a session for what its provider did, and takes its items to others.
    fn close_session(&mut self, id: SessionId, reason: &CloseReason, out: &mut dyn ProviderSink) {
        self.counters.closed_sessions += 1;
        out.close(id, reason);
        self.lose_session(id, &reason.to_string(), out);
    }

    /// Publishes a status of our own for an item.
    pub(crate) fn publish_status(&mut self, handle: Handle, target: u16, flags: u8, state: State<'_>) {
        let domain = Domain(self.items[handle].domain());
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, 0) };
        // A status that cannot be written is counted.
        if let Some(rwf) = self.composer.write(&mut self.counters, |w| status.encode(w)) {
            let (handle, group) = (handle.0, GroupId::NONE.0);
            self.hub.event(&Event::ItemStatus { target, handle, group, flags, rwf });
            self.counters.statuses += 1;
        }
    }

    /// Sends a message to a session, if that is not lost. One that cannot be written is counted.
    pub(crate) fn send(
        &mut self,
        id: SessionId,
        out: &mut dyn ProviderSink,
        encode: impl FnMut(&mut rwf::wire::Writer<'_>) -> Result<(), rwf::EncodeError>,
    ) {
        if self.providers.get(id).is_some()
            && let Some(bytes) = self.composer.write(&mut self.counters, encode)
        {
            self.posts.waiting.flush(id, out);
            out.send(id, bytes);
        }
    }
}
