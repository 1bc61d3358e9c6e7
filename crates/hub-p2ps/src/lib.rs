//! The P2PS: the side that faces consumers.
//!
//! A [`P2ps`] takes in what clients send and what Source Distributors publish, and turns it into deliveries for each
//! client and requests to the Source Distributors. It has no I/O: whoever owns connections and transports calls it, and drains
//! what it has to say, in the order that the documentation of [`P2ps`] lists.
//!
//! # The rooms
//! * `ids`: the numbers by which everything is known, each kind a type of its own;
//! * `clients`: who is there, what they have open and ask for;
//! * `items`: what clients share, with the states of an item, its watchers and views;
//! * `sources`: the Source Distributors and their services; what is opened there, recovered, and lost on the way;
//! * `hot_standby`: items that are open at two Source Distributors, of which one is used;
//! * `delivery`: what Source Distributors publish, on its way to the watchers;
//! * `gate`: who may see what: where permissions are asked, what follows, and blocked items;
//! * `conflation`: fewer updates that lead to the same image;
//! * `egress`: what waits for clients that take too little, and what becomes of them;
//! * `operation`: what operators do: other limits, words to clients;
//! * `load`: how near clients are to their limits, how full this server is;
//! * `servers`: the P2PSs of the hub, as they tell each other and clients that ask;
//! * `timers`: what is done without a message;
//! * `invariants`: what holds at the end of every turn.
//!
//! `ids`, `encode` and `items` know no other room; `clients` and `sources` know `items`; `delivery` and `gate` know all of them.
//!
//! # The groups
//! The tables of a room are private fields of one struct: `Clients`, `Items`, `Sources`, `HotStandby`, `Output` (of `delivery`), `Gate`, `Load`
//! and `Servers`. A method that touches one group is the group's, in whichever file of its room it belongs to; a method of [`P2ps`] takes what
//! it needs of several, and borrows them apart where it has to. Rooms read each other's tables, and change them by methods that say what for.
#![forbid(unsafe_code)]

mod clients;
mod close_reason;
mod config;
mod counters;
mod delivery;
pub mod egress;
mod encode;
mod gate;
mod hot_standby;
mod ids;
mod invariants;
mod items;
mod load;
mod notice;
mod operation;
mod overview;
mod servers;
mod sources;
mod timers;

pub use clients::{Authenticator, CLOSE_BATCH, Credentials, Identity, Rejected, TokenLife};
pub use clients::{ClientInfo, Mount};
pub use close_reason::CloseReason;
pub use config::{Config, Connections, Notices, ServerOrder, ServiceConfig, ServiceIdError, ServiceIds};
pub use counters::Counters;
pub use delivery::deliveries::{Deliveries, DeliveryList};
pub use gate::blocked::{BLOCKED_MAX, BlockError, BlockedList};
pub use hub_items::item_history::ItemChange;
pub use hub_items::load_marks::{LoadState, Percents, QueueMarks};
pub use ids::{ClientId, SourceId};
pub use load::states::LoadOf;
pub use notice::Notice;
pub use overview::{ITEM_STATES, ItemOverview, ServiceOverview, SourceOverview};
pub use servers::Place;
pub use sources::Joined;
pub use sources::failover::SwitchError;

use crate::cache::images::Cache;
use crate::stream::{HubError, Request};
use clients::streams::Open;
use clients::{Client, Clients};
use delivery::output::Output;
use egress::FlowControl;
use gate::Gate;
use hot_standby::HotStandby;
pub use hub_content::conflation;

use ::hub_stream as stream;
use hub_content::{cache, filter};
use hub_items::item_history::History;
use hub_items::{cascade, hash_seed, item, keyed_queue, roster, sequence, status_texts};
use items::Items;
use load::Load;
use rwf::msg::{Msg, RequestFlags};
use rwf::{DataState, State, StreamState, peek};
use servers::Servers;
use sources::Sources;
use std::sync::Arc;

/// A point-to-point server as a state machine.
///
/// # Time
/// Monotonic nanoseconds, never less than before. A call that takes a time sets it; calls without one act at the time of the last call that had
/// one.
///
/// # A turn
/// 1. *Input*: any number of [`client_up`](Self::client_up), [`client_message`](Self::client_message), [`client_down`](Self::client_down),
///    [`source_up`](Self::source_up) or [`source_joined`](Self::source_joined), [`source_down`](Self::source_down),
///    [`point_to_point_block`](Self::point_to_point_block), and at most one [`hub_block`](Self::hub_block) with updates: they are delivered
///    from the block itself, so it has to live until the flush. [`on_timer`](Self::on_timer) when [`timeout`](Self::timeout) has come or
///    [`has_work`](Self::has_work), once a turn.
/// 2. *Output*, drained in this order. Each is empty until there is more input:
///
/// | what | when | it says |
/// |---|---|---|
/// | [`taken_up`](Self::taken_up) | after `on_timer` | messages of clients that had to wait are acted upon |
/// | [`departed`](Self::departed) | after `on_timer` | numbers of clients that are free again |
/// | [`flush`](Self::flush) | if [`has_output`](Self::has_output), with the block of the turn | what each client gets, each once, everything in order |
/// | [`flow_control`](Self::flow_control) | after `flush`, and after [`client_backlog`](Self::client_backlog), which tells what the connections did not take | clients that take too little |
/// | [`closing`](Self::closing) | after `flush` and `flow_control`: what was flushed goes out before | clients to be closed; each is followed by a `client_down` |
/// | [`notices`](Self::notices) | last of what is for the caller | what operators hear |
/// | [`closing_sources`](Self::closing_sources) | before `requests` | Source Distributors to be joined anew |
/// | [`requests`](Self::requests) | once a turn, after all input of it | what goes to each Source Distributor |
/// | [`next_audit`](Self::next_audit) | at any time, where permissions are on | what is to be logged; who asks waits as long as that has no room |
///
/// # Methods
/// Of four kinds, in blocks of their own: input, output, commands (of operators, and of the owner of the connections) and getters, which change
/// nothing.
#[derive(Debug)]
pub struct P2ps {
    /// Settings of the operator; some change while clients are there ([`P2ps::reconfigure`]).
    config: Config,
    /// The time of the call at hand.
    now: u64,
    /// The clients: who is there, what each has open, what they ask for that takes more than a turn.
    clients: Clients,
    /// Items, which clients share: one for each stream towards a Source Distributor, with its watchers, views and cached image.
    items: Items,
    /// The Source Distributors, their services, and what is asked of them.
    sources: Sources,
    /// Items that are open at two Source Distributors.
    hot_standby: HotStandby,
    /// Deliveries to clients, and news for the owner of their connections.
    output: Output,
    /// Permissions, and items that nobody gets.
    gate: Gate,
    /// How near this server and what is in it are to their limits.
    load: Load,
    /// The P2PSs of the hub.
    servers: Servers,
    /// States that the watchers of items were told last, for operators, in bounded memory.
    history: History,
    /// Counts since the start.
    counters: Counters,
    /// Item from which on the next turn checks its share, in debug builds.
    check_from: u32,
}

impl P2ps {
    /// A P2PS without clients and sources. `id` is its number at the Source Distributors; it is not 0xFFFF.
    pub fn new(config: Config, id: u16) -> Self {
        let clients = Clients::new(config.dictionary.as_deref(), config.work_per_turn);
        let read_with = config.cache.is_on().then(|| Arc::clone(clients.dictionary()));
        Self {
            now: 0,
            clients,
            items: Items::new(config.hash_seed, Cache::new(config.cache.max_items, read_with)),
            sources: Sources::new(&config, id),
            hot_standby: HotStandby::default(),
            output: Output::new(&config),
            gate: Gate::new(config.permissions, config.blocked.clone()),
            load: Load::new(&config),
            servers: Servers::new(&config.connections),
            history: History::default(),
            counters: Counters::default(),
            check_from: 0,
            config,
        }
    }
}

/// Input: what comes from clients, from Source Distributors, and from the clock.
impl P2ps {
    /// A client has connected. `id` is free: never used, or told to [`Self::client_down`] since and not [departing](Self::is_departing).
    pub fn client_up(&mut self, now: u64, id: ClientId, info: ClientInfo) {
        self.now = now;
        let is_first = self.counters.clients == 0;
        if self.clients.get(id).is_some() {
            self.client_down(now, id);
            self.finish_departure(id);
        }
        self.output.add_client(now, id, is_first);
        self.clients.insert(id, Client::new(info));
        self.counters.clients += 1;
        self.clients.await_login(self.now, self.config.login_timeout, id);
    }

    /// A client has sent a message. What it sends after it was told to be closed is ignored. False if the message has to wait, for the
    /// audit or behind a batch of its client, or is a close of so many streams that it goes on for a while: [`Self::taken_up`] tells when it
    /// is done.
    pub fn client_message(&mut self, now: u64, id: ClientId, msg: &[u8]) -> bool {
        self.now = now;
        if self.clients.get(id).is_none_or(|client| client.closing) {
            self.counters.messages_unwanted += 1;
            return true;
        }
        self.counters.messages_in += 1;
        // Messages that wait for the audit came later than those behind a batch.
        let is_behind = self.clients.is_behind_batch(id) && !self.gate.holds_for(id);
        if self.gate.is_on() && !is_behind && self.is_held_up(id, peek::class(msg), msg) {
            return false;
        }
        self.act_in_order(id, msg)
    }

    /// A client's connection is gone. With more streams than a turn ends it departs in turns.
    pub fn client_down(&mut self, now: u64, id: ClientId) {
        self.now = now;
        self.output.remove_client(id);
        self.gate.forget_held(id);
        self.clients.forget_batches(id);
        self.clients.forget_posts_of(id);
        self.begin_departure(id);
    }

    /// So many bytes wait in a client's session because its connection did not take them. To be told whenever that has changed; what
    /// follows from it is in [`Self::flow_control`] and [`Self::closing`].
    pub fn client_backlog(&mut self, id: ClientId, bytes: usize) {
        // A connection may be emptied that is closed already.
        if self.clients.get(id).is_some_and(|client| !client.closing) {
            self.output.report(id, bytes);
            self.act_on_egress();
        }
    }

    /// A Source Distributor can be reached. It is greeted, and asked for whatever waits.
    pub fn source_up(&mut self, now: u64, id: SourceId) {
        self.now = now;
        self.connect_source(id, None);
    }

    /// A Source Distributor on the other side of a network has let this P2PS join. Its stream counts from a position on; what
    /// is missing from there is a loss like any other. Blocks of another life of it are dropped until that is joined.
    pub fn source_joined(&mut self, now: u64, id: SourceId, joined: Joined) {
        self.now = now;
        self.connect_source(id, Some(joined));
    }

    /// A Source Distributor cannot be reached any more. What it served is suspect, and asked for elsewhere or when it
    /// is back.
    pub fn source_down(&mut self, now: u64, id: SourceId) {
        self.now = now;
        self.lose_source(id, rwf::StateCode::NONE, "is not reachable");
    }

    /// A block that a Source Distributor has published. At most one between two flushes, unless it holds no update:
    /// deliveries point into it.
    ///
    /// # Errors
    /// The block, or a message in it, cannot be read; what came before it counts. The session with the source is to be
    /// ended.
    pub fn hub_block(&mut self, now: u64, id: SourceId, block: &[u8]) -> Result<(), HubError> {
        self.now = now;
        debug_assert!(!self.output.borrows_block(), "a block that is delivered from must be flushed before the next");
        self.read_block::<false>(id, block)
    }

    /// A block that a Source Distributor has sent to this P2PS alone. Nothing is delivered from the block itself.
    ///
    /// # Errors
    /// As for [`Self::hub_block`].
    pub fn point_to_point_block(&mut self, now: u64, id: SourceId, block: &[u8]) -> Result<(), HubError> {
        self.now = now;
        self.read_point_to_point(id, block)
    }

    /// Does what is due, and begins a turn: so many opens may be sent again. Call it when [`Self::timeout`] has come, and at
    /// most once between two looks at the clients.
    pub fn on_timer(&mut self, now: u64) {
        self.now = now;
        self.sources.begin_turn(self.config.opens_per_turn, self.config.work_per_turn);
        self.clients.begin_turn(self.config.work_per_turn);
        self.act_on_timers();
    }
}

/// Output: what the caller drains, in the order that [`P2ps`] says.
impl P2ps {
    /// When [`Self::on_timer`] is to be called, if ever. 0: as soon as possible.
    pub fn timeout(&self) -> Option<u64> {
        if self.has_work() { Some(0) } else { self.next_deadline() }
    }

    /// True if something is left for the next turn to go on with. What is asked for after a flush may also have come to an end, and those
    /// who wait are to hear of it.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.has_deliveries()
            || self.work_left()
            || self.sources.has_work()
            || self.gate.has_work()
            || self.clients.has_work(|| self.gate.has_audit_room())
    }

    /// True if a turn has brought something that [`Self::flush`] hands out, or what is taken behind it: clients to be closed, flow control,
    /// notices.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.output.has_any()
    }

    /// True if some client has something to get.
    pub fn has_deliveries(&self) -> bool {
        self.output.has_deliveries()
    }

    /// Hands every client that has something to get its deliveries of this turn, and what was held for it before. `block` is what was
    /// given to [`Self::hub_block`] since the last flush, or empty.
    pub fn flush(&mut self, block: &[u8], f: impl FnMut(ClientId, Deliveries<'_>)) {
        self.counters.messages_out += self.output.flush(self.now, block, f);
        self.clients.end_turn();
        self.act_on_egress();
    }

    /// True if there is something in [`Self::flow_control`].
    #[inline]
    pub fn has_flow_control(&self) -> bool {
        self.output.has_controls()
    }

    /// Actions about clients that take too little, and reports of them.
    pub fn flow_control(&mut self) -> std::vec::Drain<'_, (ClientId, FlowControl)> {
        self.output.controls()
    }

    /// The clients to be closed, and why. They stay known until [`Self::client_down`].
    pub fn closing(&mut self) -> std::vec::Drain<'_, (ClientId, CloseReason)> {
        self.output.take_closing()
    }

    /// Notices for operators.
    pub fn notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.output.take_notices()
    }

    /// The Source Distributors whose transports are to be ended and joined anew, and why. What they served is lost already.
    pub fn closing_sources(&mut self) -> std::vec::Drain<'_, (SourceId, &'static str)> {
        self.sources.closing()
    }

    /// Hands each Source Distributor that is to get something its block of this turn.
    pub fn requests(&mut self, mut f: impl FnMut(SourceId, &[u8])) {
        self.narrow_views();
        self.renew_demands();
        self.open_waiting();
        self.ask_mirrors();
        self.note_whole();
        self.tell_taken_over();
        if self.servers.is_ever_server() {
            self.announce_server();
        }
        let now = self.now;
        for (number, source) in self.sources.iter_mut() {
            if let Some(block) = source.writer.block() {
                f(number, block);
                if source.joined.is_none() {
                    source.sent_at = now;
                }
                source.writer.clear();
            }
        }
        if cfg!(debug_assertions) {
            self.check_share();
        }
    }
}

/// Commands of whoever owns the connections; those of operators are in `operation`, `gate` and `sources`.
impl P2ps {
    /// A client gets its messages as JSON. Each dictionary comes in one message and not in parts, because some programs read the first part
    /// only; and what is told of an item group is told of each item, because JSON has no group in its images. In each flush it comes
    /// behind all others, so that nobody waits for the conversion who does not need it. To be called before anything is for it.
    pub fn mark_json(&mut self, id: ClientId) {
        let known = self.clients.get_mut(id);
        debug_assert!(known.is_some(), "a client that is not there: {id:?}");
        if let Some(known) = known {
            known.speaks_json = true;
            self.output.serve_last(id);
        }
    }

    /// The process ends in order: every Source Distributor is told so by [`Self::requests`], and need keep nothing open.
    pub fn leave(&mut self) {
        for (_, source) in self.sources.iter_up() {
            source.writer.request(&Request::Bye);
        }
    }
}

/// Getters; those of whole tables are in `overview`.
impl P2ps {
    /// True between [`Self::source_up`] and the loss of the source, also one that was found here (silence).
    pub fn source_is_up(&self, id: SourceId) -> bool {
        self.sources.is_up(id) || self.sources.is_rejoining(id)
    }

    /// A client has logged in, and not out again.
    pub fn is_logged_in(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|known| known.login.is_some())
    }

    /// An item is open on a stream of a client.
    pub fn has_item_on(&self, id: ClientId, stream: i32) -> bool {
        matches!(self.clients.open_on(id, ids::StreamId(stream)), Some(Open::Item(_)))
    }

    /// Everyone who is logged in.
    pub fn mounts(&self) -> impl Iterator<Item = Mount<'_>> + '_ {
        self.clients.iter().filter_map(|(id, client)| self.clients.mount_of(id, client))
    }

    /// The login of a client that is logged in.
    pub fn mount(&self, id: ClientId) -> Option<Mount<'_>> {
        self.clients.mount_of(id, self.clients.get(id)?)
    }

    /// Clients with more waiting for them than a socket takes.
    pub fn clients_behind(&self) -> usize {
        self.output.clients_behind()
    }

    /// Bytes that clients have taken while they were behind, ever: what tells those that cannot keep up from those that take nothing.
    pub fn taken_behind(&self) -> u64 {
        self.output.taken_behind()
    }

    /// Messages delivered to clients since the start.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.counters.messages_out
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        Counters {
            items: self.items.len() as u64,
            items_unwatched: self.items.unwatched().len() as u64,
            items_cached: self.items.cache().len() as u64,
            items_waiting: self.sources.items_waiting(&self.items),
            load_state: self.load_states().0 as u64,
            open_queue_state: self.load_states().1 as u64,
            clients_conflated: self.output.clients_conflated() as u64,
            updates_conflated: self.counters.updates_conflated + self.output.saved(),
            ..self.counters
        }
    }

    /// The dictionary of all services, as it is now.
    pub fn dictionary(&self) -> &Arc<rwf::dictionary::Dictionary> {
        self.clients.dictionary()
    }

    /// The name of a service that clients have been told of by this id; it stays that of the id when the service goes, and as long as
    /// [`P2ps::services_renamed`] is what it was.
    pub fn service_name(&self, id: u16) -> Option<&str> {
        self.sources.services().get(ids::ServiceId(id)).map(|service| service.name.as_str())
    }

    /// How many times the id of a service that was long gone was given to another name, since there was no other.
    pub fn services_renamed(&self) -> u64 {
        self.sources.services().renamed()
    }

    /// Services, ids and names, those included that are gone, from a place on: in the order in which they got their ids, which stays as long
    /// as [`P2ps::services_renamed`] is what it was.
    pub fn services_from(&self, place: usize) -> impl ExactSizeIterator<Item = (u16, &str)> {
        self.sources.services().from(place).iter().map(|service| (service.id.0, service.name.as_str()))
    }

    /// The service that requests without one are for, where none is configured: the first that is there.
    pub fn first_service(&self) -> Option<u16> {
        self.sources.services().iter().find(|service| service.alive).map(|service| service.id.0)
    }
}

impl P2ps {
    /// Does what a client's message asks for.
    fn client_acts(&mut self, id: ClientId, msg: &[u8]) {
        // A message that was held up may be of a client that is to be closed by now.
        let Some(client) = self.clients.get(id).filter(|client| !client.closing) else { return };
        let logged_in = client.login.is_some();
        match Msg::decode(msg) {
            Ok(Msg::Request(mut request)) => {
                let may_pause = self.config.support_pause_resume && request.flags.contains(RequestFlags::PAUSE);
                request.flags.set(RequestFlags::PAUSE, may_pause);
                self.request(id, logged_in, &request);
            }
            Ok(Msg::Close(close)) => self.close(id, &close),
            Ok(Msg::Post(post)) => self.post(id, &post),
            Ok(Msg::Generic(generic)) => self.generic_from_client(id, &generic),
            // A consumer may acknowledge; nothing here asks it to.
            Ok(Msg::Ack(_)) => {}
            Ok(other) => {
                let reason = CloseReason::WrongDirection { class: other.class(), domain: other.domain() };
                self.close_client(id, reason);
            }
            Err(error) => self.close_client(id, CloseReason::Garbage { error, length: msg.len() }),
        }
    }

    fn close_client(&mut self, id: ClientId, reason: CloseReason) {
        // The client is closed already: the first reason counts.
        let Some(client) = self.clients.get_mut(id).filter(|client| !client.closing) else { return };
        client.closing = true;
        self.clients.forget_batches(id);
        self.logout(id);
        self.counters.clients_closed += 1;
        self.output.close(id, reason);
    }

    /// Closes clients that are cut off, and tells streams whose conflation has ended.
    #[inline]
    fn act_on_egress(&mut self) {
        if self.output.has_ended() {
            self.end_egress();
        }
    }

    fn end_egress(&mut self) {
        for (id, reason) in self.output.take_cut_off() {
            self.counters.clients_cut_off += 1;
            self.close_client(id, reason);
            self.output.forget_turn_of(id);
        }
        for (client, stream, domain) in self.output.take_resumed() {
            if matches!(self.clients.open_on(client, stream), Some(Open::Item(_))) {
                let code = rwf::StateCode::REALTIME_RESUMED;
                let state = State::new(StreamState::OPEN, DataState::NO_CHANGE, code, egress::RESUMED);
                self.send_status(client, stream, domain, state);
            }
        }
    }
}
