//! The Source Distributor: the side that faces providers.
//!
//! It logs in at interactive providers as a consumer, lets non-interactive ones log in, takes their directories, and opens
//! each item once however many watchers it has. What providers send becomes the hub stream; what P2PSs ask for becomes
//! requests to the provider that can serve them.
//!
//! | module | what it knows |
//! |---|---|
//! | `sessions`, `streams` | provider sessions, their streams and what they offer |
//! | `login`, `directory`, `dictionaries` | the administrative domains, in both directions |
//! | `services`, `items`, `wishes` | what there is, who wants it and how |
//! | `members`, `peers` | the P2PSs: joining, leaving, leases, heartbeats |
//! | `opens` | the requests of the P2PSs |
//! | `gaps`, `history` | what a P2PS hears again after a loss |
//! | `direct` | images for one P2PS alone |
//! | `pace` | when providers have to wait for P2PSs |
//! | `asking` | choosing a provider, open windows, pacing, retries |
//! | `answers` | what interactive providers send on item streams |
//! | `loss` | sessions and services that go away, and how their items come back |
//! | `published`, `cache` | non-interactive providers and the images held for them |
//! | `posts` | posts and their acks |
//!
//! There is no clock and no I/O: `now` is an argument (monotonic nanoseconds), messages to providers go to a
//! [`ProviderSink`], and the hub stream is [`SourceDistributor::block`].

mod answers;
mod asking;
mod cache;
mod config;
mod counters;
mod dictionaries;
mod direct;
mod directory;
mod gaps;
mod history;
mod items;
mod login;
mod loss;
mod members;
mod message;
mod opens;
mod owed;
mod pace;
mod peers;
mod posts;
mod published;
mod services;
mod sessions;
mod streams;
mod timers;
mod wishes;

pub use config::{Balance, Config, RouteConfig};
pub use counters::Counters;
pub use sessions::{Origin, PeerInfo, SessionId};

use crate::stream::{BlockWriter, Event};
use cache::Cache;
use dictionaries::Dictionaries;
use direct::Direct;
use history::History;
use items::{Item, Items};
use message::Scratch;
use owed::OwedImages;
use pace::Pace;
use peers::Peers;
use posts::Posts;
use rustc_hash::FxHashMap;
use rwf::msg::{Domain, MsgClass, StatusMsg};
use rwf::{DecodeError, State, peek};
use services::Services;
use sessions::{Phase, Session};
use std::fmt;
use timers::{Timer, Timers};
use wishes::Wishes;

/// Where messages to providers go. The calls come in the order in which they have to reach the provider.
pub trait ProviderSink {
    /// Sends one RWF message to a session.
    fn send(&mut self, session: SessionId, msg: &[u8]);
    /// Ends a session, after what was sent to it. `session_down` for it is allowed and changes nothing any more.
    fn close(&mut self, session: SessionId, reason: &str);
}

/// Why a session cannot go on: what its provider did.
#[derive(Debug)]
enum Fault {
    /// Bytes that are no message, or not the one they should be.
    Malformed(DecodeError),
    /// A message that the rules do not allow.
    Rule(&'static str),
    /// The provider ended it, with its own words.
    Refused(String),
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "provider sent a malformed message: {error}"),
            Self::Rule(what) => f.write_str(what),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

/// Sessions beyond this slot are refused.
const MAX_SESSIONS: u32 = 1 << 16;

/// The state machine. See the module's description.
#[derive(Debug)]
pub struct SourceDistributor {
    config: Config,
    counters: Counters,
    hub: BlockWriter,
    scratch: Scratch,
    sessions: Vec<Option<Session>>,
    next_serial: u32,
    services: Services,
    items: Items,
    wishes: Wishes,
    timers: Timers,
    posts: Posts,
    peers: Peers,
    incarnation: u32,
    /// What heartbeats say of us.
    announcement: Box<[u8]>,
    /// When the next heartbeat is due; 0 before the first.
    heartbeat_due: u64,
    history: History,
    direct: Direct,
    pace: Pace,
    /// P2PSs whose transports are to be ended.
    closing: Vec<(u16, &'static str)>,
    cache: Cache,
    dictionaries: Dictionaries,
    owed: OwedImages,
    /// By published item, the snapshots that wait for its image to be whole.
    snapshots: FxHashMap<u32, Vec<u32>>,
    next_group: u32,
    /// Groups whose members have moved, and to which.
    merged_groups: FxHashMap<u32, u32>,
    /// Item requests that may still be sent in this turn.
    budget: u32,
    /// Counts the items taken from queues, for taking turns.
    turn: u32,
    /// Something waits for the budget of the next turn.
    hungry: bool,
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
        Self {
            counters: Counters::default(),
            hub: BlockWriter::new(incarnation),
            scratch: Scratch::default(),
            sessions: Vec::new(),
            next_serial: 0,
            services: Services::new(config.hash_seed),
            items: Items::new(config.hash_seed),
            wishes: Wishes::default(),
            timers,
            posts: Posts::default(),
            peers: Peers::default(),
            incarnation,
            announcement: Box::default(),
            heartbeat_due: 0,
            history: History::new(config.history_bytes),
            direct: Direct::new(config.point_to_point),
            pace: Pace::new(config.window, config.patience),
            closing: Vec::new(),
            cache: Cache::default(),
            dictionaries: Dictionaries::default(),
            owed: OwedImages::default(),
            snapshots: FxHashMap::default(),
            next_group: 0,
            merged_groups: FxHashMap::default(),
            budget: config.opens_per_turn,
            turn: 0,
            hungry: false,
            key: Vec::new(),
            config,
        }
    }

    /// A session with a provider is established: we log in (route), or wait for its login.
    pub fn session_up(&mut self, now: u64, id: SessionId, origin: Origin, peer: PeerInfo, out: &mut impl ProviderSink) {
        if id.0 >= MAX_SESSIONS {
            out.close(id, "too many provider sessions");
            return;
        }
        self.lose_session(now, id.0, "replaced by a new session", out);
        let slot = id.0 as usize;
        if slot >= self.sessions.len() {
            self.sessions.resize_with(slot + 1, || None);
        }
        self.next_serial = self.next_serial.wrapping_add(1);
        self.sessions[slot] = Some(Session::new(origin, peer, self.next_serial, self.config.hash_seed));
        self.timers.set(now.saturating_add(self.config.login_timeout), Timer::Session(id.0, self.next_serial));
        if matches!(origin, Origin::Route(_)) {
            self.send_login(id.0, out);
        }
    }

    /// A message from a provider. A message that breaks the rules ends its session.
    #[inline]
    pub fn session_message(&mut self, now: u64, id: SessionId, msg: &[u8], out: &mut impl ProviderSink) {
        let Some(Some(session)) = self.sessions.get(id.0 as usize) else {
            self.counters.dropped_unknown_session += 1;
            return;
        };
        // The data path: an update for an item that is watched. Streams of non-interactive providers are never live here.
        if peek::class(msg) == Some(MsgClass::UPDATE)
            && let Ok(header) = peek::header(msg)
            && let Some(handle) = session.streams.get(header.stream_id).live()
        {
            self.hub.update(handle, peek::has_key(MsgClass::UPDATE, header.flags), msg);
            self.counters.updates += 1;
            return;
        }
        if let Err(fault) = self.provider_message(now, id.0, msg, out) {
            self.fail_session(now, id.0, &fault, out);
        }
    }

    /// A session has ended.
    pub fn session_down(&mut self, now: u64, id: SessionId, reason: &str, out: &mut impl ProviderSink) {
        self.lose_session(now, id.0, reason, out);
    }

    /// When [`Self::on_timer`] wants to be called, at the latest. Zero: as soon as this turn is over.
    pub fn timeout(&self) -> Option<u64> {
        if self.hungry {
            return Some(0);
        }
        self.timers.next().into_iter().chain(self.pace.deadline()).min()
    }

    /// Does what is due, begins a turn, and goes on with what the last turn's budget left. Call it when [`Self::timeout`] has
    /// come; more often does no harm, but that more is asked for in one turn.
    pub fn on_timer(&mut self, now: u64, out: &mut impl ProviderSink) {
        self.budget = self.config.opens_per_turn;
        self.hungry = false;
        while let Some(due) = self.timers.pop(now) {
            for timer in due {
                self.timer(now, timer, out);
            }
        }
        for service in self.services.ids() {
            self.pump(now, service, out);
        }
    }

    /// What was published since [`Self::clear_block`].
    pub fn block(&self) -> Option<&[u8]> {
        self.hub.block()
    }

    /// The turn is over, its block has been handed on.
    pub fn clear_block(&mut self) {
        if let Some(block) = self.hub.block() {
            self.history.keep(block, self.hub.next_position());
            self.pace.published(block.len(), self.hub.next_position());
        }
        self.hub.clear();
    }

    /// The number of this life: that of [`Self::new`].
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Position of the next message of the stream.
    pub fn next_position(&self) -> u64 {
        self.hub.next_position()
    }

    /// Whether the providers are not to be read for now: more than [`Config::window`] is on its way to a P2PS that moves. To be
    /// asked once a turn.
    pub fn must_wait(&mut self, now: u64) -> bool {
        let waits = self.pace.must_wait(now);
        (self.counters.waits, self.counters.left_behind) = (self.pace.waits, self.pace.left_behind);
        waits
    }

    /// The P2PSs that are there: the number of each, the bytes of the stream that it has yet to read (at most), and whether it was
    /// left behind. Nothing is known without a [`Config::window`].
    pub fn p2pss(&self) -> impl Iterator<Item = (u16, u64, bool)> {
        (0..peers::MAX_PEERS as u8).filter_map(|slot| {
            let (bytes, left_behind) = self.pace.behind(slot);
            Some((self.peers.id(slot)?, bytes, left_behind))
        })
    }

    /// What each heartbeat says from now on of who this is: name, services, an address for requests. Opaque here.
    pub fn announce(&mut self, announcement: &[u8]) {
        self.announcement = announcement.into();
    }

    /// The process ends in order. The block with this word in it is the last one.
    pub fn leave(&mut self, why: &str) {
        self.hub.event(&Event::Leaving { why });
    }

    /// Totals since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Items held, those included that only P2PSs still hold.
    pub fn items(&self) -> usize {
        self.items.len()
    }

    fn timer(&mut self, now: u64, timer: Timer, out: &mut dyn ProviderSink) {
        match timer {
            Timer::Request(handle, epoch) => self.request_timed_out(now, handle, epoch, out),
            Timer::Retry(handle, epoch) => self.retry(now, handle, epoch, out),
            Timer::Unwatched(handle) => self.unwatched_timer(now, handle, out),
            Timer::Post(id) => self.post_timed_out(id),
            Timer::Session(id, serial) => {
                let late = self.session(id).filter(|session| session.serial == serial).is_some_and(|session| {
                    let route = matches!(session.origin, Origin::Route(_));
                    session.phase == Phase::LoggingIn || (route && session.phase == Phase::LoggedIn)
                });
                if late {
                    let fault = Fault::Rule("provider has not answered login and directory in time");
                    self.fail_session(now, id, &fault, out);
                }
            }
            Timer::Directory(id, serial) => {
                if matches!(self.session(id), Some(s) if s.serial == serial) {
                    self.request_directory(id, out);
                }
            }
            Timer::Dictionaries(id, serial) => {
                if matches!(self.session(id), Some(s) if s.serial == serial) {
                    self.dictionaries_waited(id);
                }
            }
            Timer::Lease(slot, serial) => self.lease_timer(now, slot, serial, out),
            Timer::Heartbeat => self.heartbeat(now, out),
        }
    }

    fn session(&self, id: u32) -> Option<&Session> {
        self.sessions.get(id as usize)?.as_ref()
    }

    fn session_mut(&mut self, id: u32) -> Option<&mut Session> {
        self.sessions.get_mut(id as usize)?.as_mut()
    }

    /// The item's group, wherever it has been merged to.
    fn current_group(&self, mut group: u32) -> u32 {
        // Merges are never in a circle: a merged group's id is not given out again.
        while let Some(&to) = self.merged_groups.get(&group) {
            group = to;
        }
        group
    }

    /// Everything but an update on a live stream.
    fn provider_message(&mut self, now: u64, id: u32, msg: &[u8], out: &mut dyn ProviderSink) -> Result<(), Fault> {
        let header = peek::header(msg)?;
        let Some(session) = self.session(id) else { return Ok(()) };
        if session.origin == Origin::NonInteractive {
            return match header.domain {
                Domain::LOGIN => self.provider_login(id, msg, out),
                _ if session.phase == Phase::LoggingIn => {
                    Err(Fault::Rule("provider sent data before it logged in: log in first"))
                }
                Domain::SOURCE => self.directory_message(now, id, msg, out),
                _ => self.published_message(id, msg),
            };
        }
        match header.stream_id {
            login::STREAM => self.login_message(id, msg, out),
            directory::STREAM => self.directory_message(now, id, msg, out),
            dictionaries::FIRST_STREAM..=dictionaries::LAST_STREAM => self.dictionary_message(id, msg),
            _ => self.item_message(now, id, msg, out),
        }
    }

    /// Ends a session for what its provider did, and takes its items to others.
    fn fail_session(&mut self, now: u64, id: u32, fault: &Fault, out: &mut dyn ProviderSink) {
        self.counters.closed_sessions += 1;
        let reason = fault.to_string();
        out.close(SessionId(id), &reason);
        self.lose_session(now, id, &reason, out);
    }

    /// Publishes a status of our own for an item.
    fn publish_status(&mut self, handle: u32, target: u16, flags: u8, state: State<'_>) {
        let Some(item) = self.items.get(handle) else { return };
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(item.domain()), 0) };
        let Ok(rwf) = self.scratch.write(|w| status.encode(w)) else { return };
        self.hub.event(&Event::ItemStatus { target, handle, group: crate::stream::NO_GROUP, flags, rwf });
        self.counters.statuses += 1;
    }

    /// Sends a message to a session.
    fn send(
        &mut self,
        id: u32,
        out: &mut dyn ProviderSink,
        encode: impl FnMut(&mut rwf::wire::Writer<'_>) -> Result<(), rwf::EncodeError>,
    ) -> bool {
        let Ok(bytes) = self.scratch.write(encode) else { return false };
        out.send(SessionId(id), bytes);
        true
    }
}

/// True if the item is open at its provider for somebody who watches.
fn is_watched(item: &Item) -> bool {
    item.interest != 0 && !item.has(items::Bits::ENDED)
}
