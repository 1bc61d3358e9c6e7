//! The clients of a P2PS: who they are, what they have open, what they ask for, why they were closed.
//!
//! * `streams`: what each client has open, and the state of its watchers;
//! * `login`, `authentication`: logins, what they allow, and tokens;
//! * `leaving`: the end of logins with many streams;
//! * `connections`: where else a client may connect;
//! * `requests`, `batch`, `wanted`: requests for items, reissues, closes; what their payload says;
//! * `backlog`, `kept_messages`: batches that take more than a turn, and what their clients say meanwhile;
//! * `directory`, `dictionary`: the streams of these domains;
//! * `posts`, `generics`: what clients send upstream;
//! * `symbol_lists`: items that the server opens for a client because a list names them;
//! * `round_trips`: how long a client takes to send back what it was sent;
//! * `users`: what each user has over all connections;
//! * `refusal`: why a client does not get what it asked for.

mod authentication;
mod awaited_logins;
mod backlog;
mod batch;
mod connections;
mod dictionary;
mod directory;
mod generics;
pub(crate) mod kept_messages;
mod leaving;
mod login;
mod posts;
pub(crate) mod refusal;
mod requests;
mod round_trips;
mod standby;
pub(crate) mod streams;
pub(crate) mod symbol_lists;
mod users;
mod wanted;

use super::items::Items;
use super::items::telling::told;
use authentication::Tokens;
pub use authentication::{Authenticator, Credentials, Identity, Rejected, TokenLife};
pub use batch::CLOSE_BATCH;
use rwf::{DataState, State, StateCode, StreamState};

use super::filter::rules::UpdateTypes;
use super::ids::{ClientId, ItemId, ServiceId, StreamId, UserId};
use super::items::watchers::Watcher;
use awaited_logins::AwaitedLogins;
use backlog::Backlogs;
use dictionary::{Dictionaries, DictionaryStream};
use hub_items::load_marks::LoadState;
use leaving::Leaving;
use posts::Posts;
use round_trips::{Measurement, RoundTrips};
use rustc_hash::FxHashSet;
use rwf::dictionary::Dictionary;
use rwf::msg::Priority;
use rwf::rdm::state::Recovery;
use standby::Standbys;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use streams::{Open, Streams, WatchState};
use symbol_lists::{ListedStreams, SymbolLists};
use users::Users;

/// Streams of one client with directories and dictionaries: each is told of every change.
pub(super) const ADMINISTRATIVE_MAX: usize = 1_000;

/// Knowledge of a client before it says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientInfo {
    /// Address that it connects from.
    pub address: IpAddr,
}

/// The login of a client.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) stream: StreamId,
    /// The user's number; the name is looked up once, at the login.
    pub(crate) user: UserId,
    pub(crate) name: String,
    /// What the name is, of `rwf::rdm::login::name_type`.
    pub(crate) name_type: Option<u8>,
    pub(crate) application_id: String,
    pub(crate) application_name: String,
    pub(crate) position: String,
    /// All streams are paused.
    pub(crate) paused: bool,
    /// Messages go to it with their permission data (`ProvidePermissionExpressions`).
    pub(crate) wants_locks: bool,
    /// When the token that it came by runs out; `u64::MAX` for never.
    pub(crate) expires: u64,
    /// Of a client whose round trips are measured.
    pub(crate) round_trip: Option<round_trips::Measurement>,
    /// Of a client that wants to know which servers there are.
    pub(crate) asked: Option<Box<connections::Asked>>,
}

/// An open directory stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryStream {
    pub(crate) stream: StreamId,
    /// Wanted filters, bits of `rwf::rdm::directory::filter`.
    pub(crate) filter: u32,
    /// The one service wanted.
    pub(crate) service: Option<ServiceId>,
    /// Directory streams that were opened before it, it included.
    pub(crate) serial: u64,
}

impl DirectoryStream {
    /// True if the stream is told of this filter of this service.
    pub(crate) fn covers(&self, service: ServiceId, filter: u32) -> bool {
        self.filter & filter != 0 && self.service.is_none_or(|only| only == service)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) info: ClientInfo,
    pub(crate) login: Option<Login>,
    /// When it has to be logged in.
    pub(crate) login_by: Option<u64>,
    pub(crate) policy: Recovery,
    pub(crate) streams: Streams,
    pub(crate) directories: Vec<DirectoryStream>,
    pub(crate) dictionaries: Vec<DictionaryStream>,
    /// Priorities of streams that are not the default.
    pub(crate) priorities: BTreeMap<StreamId, Priority>,
    /// Watchers, each of its item streams one.
    pub(crate) items: u32,
    /// How near that is to its limit.
    pub(crate) load: LoadState,
    /// Tokens of its posts that are not answered.
    pub(crate) posts: BTreeSet<u32>,
    /// The client is to be closed, or gone: nothing more is read from it.
    pub(crate) closing: bool,
    /// The client's login is over, and not all streams have ended that it had.
    pub(crate) is_leaving: bool,
    /// The client's connection is gone, and not all of its streams have ended.
    pub(crate) is_gone: bool,
    /// Service groups that the client's directories do not show, by their places in the configuration.
    pub(crate) hidden_groups: Box<[u16]>,
    /// Types of updates that its login leaves out of the streams that it opens.
    pub(crate) unwanted: UpdateTypes,
    /// The client's messages go to it as JSON.
    pub(crate) speaks_json: bool,
    /// Streams that symbol lists have opened for it.
    pub(crate) listed: Option<Box<ListedStreams>>,
}

impl Client {
    pub(crate) fn new(info: ClientInfo) -> Self {
        Self {
            info,
            login: None,
            login_by: None,
            policy: Recovery::default(),
            streams: Streams::default(),
            directories: Vec::new(),
            dictionaries: Vec::new(),
            priorities: BTreeMap::new(),
            items: 0,
            load: LoadState::Normal,
            posts: BTreeSet::new(),
            hidden_groups: Box::default(),
            unwanted: UpdateTypes::NONE,
            closing: false,
            is_leaving: false,
            is_gone: false,
            speaks_json: false,
            listed: None,
        }
    }

    /// A stream has ended; a list may name again what it was opened for.
    pub(crate) fn end_listed(&mut self, stream: StreamId) {
        if let Some(listed) = &mut self.listed {
            listed.remove(stream);
        }
    }

    /// The client's item streams, with what is open on them.
    pub(crate) fn item_streams(&self) -> Vec<(StreamId, ItemId)> {
        let item = |(stream, open)| if let Open::Item(item) = open { Some((stream, item)) } else { None };
        self.streams.iter().filter_map(item).collect()
    }

    /// True if it has a directory stream that was told of this filter of this service when so many had been opened.
    pub(crate) fn heard_of(&self, service: ServiceId, filter: u32, at: u64) -> bool {
        // Which group an item is in does not get through JSON.
        let is_lost = self.speaks_json && filter == rwf::rdm::directory::filter::GROUP;
        let heard = |directory: &DirectoryStream| directory.serial <= at && directory.covers(service, filter);
        !is_lost && self.directories.iter().any(heard)
    }
}

/// A login as an auditor sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The client.
    pub client: ClientId,
    /// Address that it connects from.
    pub address: IpAddr,
    /// User name.
    pub user: &'a str,
    /// Position, as the client says.
    pub position: &'a str,
    /// Application id, as the client says.
    pub application_id: &'a str,
    /// Application name, as the client says.
    pub application_name: &'a str,
    /// Items it watches.
    pub items: u32,
    /// How near that is to its limit.
    pub load: LoadState,
    /// The last round trip over its login stream, microseconds, if it lets them be measured.
    pub round_trip_us: Option<u64>,
    /// The role of this server for a client that has said so: its active or its standby one.
    pub standby: Option<&'static str>,
}

/// All clients, by number, and what they have asked for that is not answered, or not over. The files of this folder read and write the
/// tables; everyone else goes through methods.
#[derive(Debug)]
pub(crate) struct Clients {
    /// By number; `None` where nobody is.
    slots: Vec<Option<Box<Client>>>,
    /// Logins, items and load of each user over all connections.
    users: Users,
    /// Logins that want no permission data.
    lockless: u32,
    /// Directory streams that were ever opened.
    directories_opened: u64,
    /// The authenticator of logins, and when tokens run out.
    tokens: Tokens,
    /// Clients without a login, by when they have to have one.
    awaited_logins: AwaitedLogins,
    /// Clients whose round trips are measured, by when that is due.
    round_trips: RoundTrips,
    /// Clients to which this server is an active or a standby one, as they have said.
    standbys: Standbys,
    /// Posts that Source Distributors have yet to answer, up to `Config::max_posts_per_client` of each client.
    posts: Posts,
    /// Names in symbol lists that are not opened yet, in bounded memory.
    symbol_lists: SymbolLists,
    /// Batches that take more than a turn, and what their clients have sent meanwhile, in bounded memory.
    backlogs: Backlogs,
    /// Clients that are gone, or have logged out, and whose streams have not all ended.
    leaving: Leaving,
    /// The dictionary of all services, and who has an old one.
    dictionaries: Dictionaries,
}

impl Clients {
    /// No clients. They are offered `dictionary`, or what providers offer without one; a turn may look at so many streams of batches and logouts.
    pub(crate) fn new(dictionary: Option<&Dictionary>, work_per_turn: u32) -> Self {
        let mut clients = Self {
            slots: Vec::new(),
            users: Users::default(),
            lockless: 0,
            directories_opened: 0,
            tokens: Tokens::default(),
            awaited_logins: AwaitedLogins::default(),
            round_trips: RoundTrips::default(),
            standbys: Standbys::default(),
            posts: Posts::default(),
            symbol_lists: SymbolLists::default(),
            backlogs: Backlogs::default(),
            leaving: Leaving::default(),
            dictionaries: Dictionaries::new(dictionary),
        };
        clients.begin_turn(work_per_turn);
        clients
    }

    /// A turn may look at so many streams of batches, and at as many of logouts.
    pub(crate) fn begin_turn(&mut self, work_per_turn: u32) {
        self.backlogs.begin_turn(work_per_turn);
        self.leaving.begin_turn(work_per_turn);
    }

    /// True if something is left for the next turn, batches only if they `may_go_on`.
    pub(crate) fn has_work(&self, may_go_on: impl FnOnce() -> bool) -> bool {
        self.leaving.has_work() || self.symbol_lists.has_work() || self.backlogs.has_work() && may_go_on()
    }

    /// When the next token runs out.
    pub(crate) fn token_deadline(&self) -> Option<u64> {
        self.tokens.timeout()
    }

    /// When the next client has to be logged in.
    pub(crate) fn login_deadline(&self) -> Option<u64> {
        self.awaited_logins.timeout()
    }

    /// When the next round trip is measured.
    pub(crate) fn round_trip_deadline(&self) -> Option<u64> {
        self.round_trips.timeout()
    }

    /// When the next post has to be answered.
    pub(crate) fn post_deadline(&self) -> Option<u64> {
        self.posts.timeout()
    }

    /// When the next client gets a dictionary that has changed.
    pub(crate) fn dictionary_deadline(&self) -> Option<u64> {
        self.dictionaries.timeout()
    }

    /// True if messages of a client wait behind a batch of its.
    pub(crate) fn is_behind_batch(&self, client: ClientId) -> bool {
        self.backlogs.holds_for(client)
    }

    /// A client is gone, or is to be closed: no batch of its goes on.
    pub(crate) fn forget_batches(&mut self, client: ClientId) {
        self.backlogs.forget(client);
    }

    /// The dictionary of all services, as it is now.
    #[inline]
    pub(crate) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionaries.merged
    }

    /// The bodies of a flush are void.
    #[inline]
    pub(crate) fn end_turn(&mut self) {
        self.dictionaries.end_turn();
    }

    /// The login of a client, if there is one.
    pub(crate) fn mount_of<'a>(&'a self, id: ClientId, client: &'a Client) -> Option<Mount<'a>> {
        let login = client.login.as_ref()?;
        Some(Mount {
            client: id,
            address: client.info.address,
            user: &login.name,
            position: &login.position,
            application_id: &login.application_id,
            application_name: &login.application_name,
            items: client.items,
            load: client.load,
            round_trip_us: login.round_trip.and_then(Measurement::latency),
            standby: self.standbys.get(&id).map(standby::Standby::shown),
        })
    }

    /// The services that streams of directories and dictionaries name.
    pub(crate) fn services_named(&self) -> FxHashSet<ServiceId> {
        let mut named = FxHashSet::default();
        for (_, client) in self.iter() {
            named.extend(client.directories.iter().filter_map(|directory| directory.service));
            named.extend(client.dictionaries.iter().filter_map(DictionaryStream::service));
        }
        named
    }

    /// Panics if posts or batches are known of clients that are not there.
    pub(crate) fn check(&self) {
        self.posts.check(self.iter());
        self.backlogs.check(|client| self.get(client).is_some_and(|known| !known.closing));
        for (id, client) in self.iter() {
            assert_eq!(client.item_streams().len(), client.items as usize, "items of {id:?}");
        }
    }

    /// Directory streams that were ever opened: tells which of them have heard what was broadcast at a time.
    pub(crate) fn directories_opened(&self) -> u64 {
        self.directories_opened
    }

    /// The number of a directory stream that is opened, or changes.
    pub(crate) fn next_directory(&mut self) -> u64 {
        self.directories_opened += 1;
        self.directories_opened
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn get(&self, id: ClientId) -> Option<&Client> {
        self.slots.get(id.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.slots.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Numbers of all clients that there may be.
    pub(crate) fn ids(&self) -> impl ExactSizeIterator<Item = ClientId> + use<> {
        (0..self.slots.len()).map(|slot| ClientId(slot as u32))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        (0..).map(ClientId).zip(&self.slots).filter_map(|(id, client)| Some((id, client.as_deref()?)))
    }

    /// A client has connected.
    pub(crate) fn insert(&mut self, id: ClientId, client: Client) {
        let slot = id.0 as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        debug_assert!(self.slots[slot].is_none(), "{id:?} is connected already");
        self.slots[slot] = Some(Box::new(client));
    }

    /// A client is gone; false if there was none.
    pub(crate) fn remove(&mut self, id: ClientId) -> bool {
        let client = self.slots.get_mut(id.0 as usize).and_then(Option::take);
        debug_assert!(client.as_ref().is_none_or(|client| client.items == 0), "{id:?} leaves watchers behind");
        client.is_some()
    }

    /// Some login wants no permission data.
    pub(crate) const fn has_lockless(&self) -> bool {
        self.lockless > 0
    }

    /// A login has come, or goes.
    pub(crate) fn count_login(&mut self, login: &Login, comes: bool) {
        match (login.wants_locks, comes) {
            (true, _) => {}
            (false, true) => self.lockless += 1,
            (false, false) => {
                debug_assert!(self.lockless > 0, "a login goes that never came");
                self.lockless = self.lockless.saturating_sub(1);
            }
        }
    }

    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    pub(crate) fn users_mut(&mut self) -> &mut Users {
        &mut self.users
    }

    /// A client, and all users.
    pub(crate) fn with_users(&mut self, id: ClientId) -> Option<(&mut Client, &mut Users)> {
        let Self { slots, users, .. } = self;
        Some((slots.get_mut(id.0 as usize)?.as_deref_mut()?, users))
    }

    /// The streams of a client.
    pub(crate) fn streams_mut(&mut self, id: ClientId) -> Option<&mut Streams> {
        self.get_mut(id).map(|client| &mut client.streams)
    }

    /// The open on a stream of a client.
    pub(crate) fn open_on(&self, id: ClientId, stream: StreamId) -> Option<Open> {
        self.get(id)?.streams.get(stream)
    }

    /// Place and state of a watcher.
    #[inline]
    pub(crate) fn watch(&self, watcher: Watcher) -> Option<(u32, WatchState)> {
        self.get(watcher.client)?.streams.watch(watcher.stream)
    }

    /// True if a watcher's updates may be merged while its client is slow.
    pub(crate) fn may_conflate(&self, watcher: Watcher) -> bool {
        self.watch(watcher).is_some_and(|(_, watch)| watch.is_conflatable())
    }

    /// A transition of a watcher's state.
    pub(crate) fn change(&mut self, watcher: Watcher, change: impl FnOnce(WatchState) -> WatchState) {
        let streams = self.streams_mut(watcher.client);
        debug_assert!(streams.is_some(), "a watcher of a client that is gone: {watcher:?}");
        if let Some(streams) = streams {
            streams.change(watcher.stream, change);
        }
    }

    /// Tells a client's stream table the place of one of its watchers.
    pub(crate) fn set_place(&mut self, watcher: Watcher, place: u32) {
        if let Some(streams) = self.streams_mut(watcher.client) {
            streams.set_place(watcher.stream, place);
        }
    }

    /// A client watches an item on another stream.
    pub(crate) fn add_watcher(&mut self, watcher: Watcher, item: ItemId, state: WatchState) {
        let Self { slots, users, .. } = self;
        let client = slots.get_mut(watcher.client.0 as usize).and_then(Option::as_deref_mut);
        debug_assert!(client.is_some(), "a watcher of a client that is gone: {watcher:?}");
        if let Some(client) = client {
            client.streams.insert(watcher.stream, Open::Item(item), state);
            client.items += 1;
            if let Some(login) = &client.login {
                users.count_item(login.user, 1);
            }
        }
    }

    /// A client watches an item no more on a stream; tells the watcher's place and what it was.
    pub(crate) fn remove_watcher(&mut self, watcher: Watcher) -> Option<(u32, WatchState)> {
        let Self { slots, users, .. } = self;
        let client = slots.get_mut(watcher.client.0 as usize)?.as_deref_mut()?;
        let watch = client.streams.watch(watcher.stream)?;
        client.streams.remove(watcher.stream);
        debug_assert!(!client.priorities.contains_key(&watcher.stream), "the item of {watcher:?} counts its priority");
        client.end_listed(watcher.stream);
        debug_assert!(client.items > 0, "{watcher:?} is not counted");
        client.items = client.items.saturating_sub(1);
        if let Some(login) = &client.login {
            users.count_item(login.user, -1);
        }
        Some(watch)
    }

    /// True if a watcher is not one that is paused.
    #[inline]
    pub(crate) fn waits(&self, watcher: Watcher) -> bool {
        self.watch(watcher).is_some_and(|(_, watch)| watch.waits())
    }

    pub(crate) fn is_answered(&self, watcher: Watcher) -> bool {
        self.watch(watcher).is_some_and(|(_, watch)| watch.is_answered())
    }

    pub(crate) fn login_stream(&self, client: ClientId) -> Option<StreamId> {
        self.get(client)?.login.as_ref().map(|login: &Login| login.stream)
    }

    /// Service groups that the directories of a client do not show.
    pub(crate) fn hidden_groups(&self, client: ClientId) -> &[u16] {
        self.get(client).map_or(&[], |known| &known.hidden_groups)
    }

    /// True if a client gets permission data.
    pub(crate) fn wants_locks(&self, client: ClientId) -> bool {
        let login = self.get(client).and_then(|known| known.login.as_ref());
        login.is_none_or(|login| login.wants_locks)
    }

    /// True if a watcher of the item, not counting its views, waits for an image. Those that are paused do not.
    #[inline]
    pub(crate) fn someone_waits(&self, items: &Items, id: ItemId) -> bool {
        items.watchers(id).waiting().iter().any(|&watcher| self.waits(watcher))
    }

    /// True if there is an image of before a loss that a client would take.
    pub(crate) fn has_stale_image(&self, items: &Items, client: ClientId, root: ItemId) -> bool {
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "");
        items.get(root).is_recovering()
            && items.cache().is_stale(root.0)
            && self.get(client).is_some_and(|known| !told(known.policy, false, state).stream.is_final())
    }

    pub(crate) fn watches_openly(&self, items: &Items, item: ItemId, watcher: Watcher) -> bool {
        let watches = self.get(watcher.client).and_then(|client| client.streams.item(watcher.stream));
        let place = self.watch(watcher).map(|(place, _)| place);
        watches == Some(item) && place.is_some_and(|place| items.watchers(item).is_open(place))
    }
}
