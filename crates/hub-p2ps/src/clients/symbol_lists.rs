//! Symbol lists and chains with data: a client that asks for a list with `:DataStreams` in `:SymbolListBehaviors` is given the items that the list
//! names as well, without asking for each (RDM "enhanced symbol list"; login element `SupportEnhancedSymbolList`). The same payload in a request for a
//! market price asks for the members of a chain, whose first record it is: a choice made here, as nothing public says how a server is asked for these.
//!
//! Such a stream watches its list through a view that shows everything and has [`DataStreams`]. What reaches it is looked through for
//! names that are added or updated; each is opened as Market Price of the same service on a stream that the server numbers, from -1
//! downwards, as ETA's watchlist (`WlItemHandler.handleSymbolList`) does for its application. A name that is open already for the client by
//! a list is not opened again; one that a list deletes stays open until the client closes it. The first message of such a stream has the
//! item's key, whatever kind of message it is.
//!
//! A record of a chain names members, which are opened as those of a list are, and the next record ([`rwf::rdm::chain`]), which is opened as the one before
//! was asked for: whole, with the same data streams, so that the chain is followed to its end. A record that is open for the client already, a member of
//! another chain or one that a chain comes back to, is not followed again, and a client has [`crate::Config::chain_records`] of them.
//!
//! A list may name many and have many watchers: so many streams are opened in a turn as other work of outages may be done.

use super::Clients;
use super::streams::Open;
use super::wanted::Wanted;
use crate::P2ps;
use crate::filter::bodies::Passing;
use crate::ids::{ClientId, ItemId, ServiceId, StreamId};
use crate::items::Items;
use crate::items::view_spec::{DataStreams, ViewSpec};
use crate::items::watchers::Watcher;
use crate::stream::Message;
use hub_content::listed::{Listed, named_in};
use rwf::DataType;
use rwf::msg::{Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::chain::Role;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// `INSTRUMENT_NAME_TYPE_RIC` (ETA `InstrumentNameTypes`).
pub(crate) const RIC: u8 = 1;

type Name = (ServiceId, Box<[u8]>);

/// The streams that lists have opened for one client. Clients and providers choose the names, so they are found by comparison.
#[derive(Debug, Default)]
pub(crate) struct ListedStreams {
    by_name: BTreeMap<Name, StreamId>,
    names: BTreeMap<StreamId, Name>,
    /// Records of chains among them, behind the first one.
    records: BTreeSet<StreamId>,
    /// The lowest id that was given out.
    last: i32,
}

impl ListedStreams {
    fn insert(&mut self, name: Name, stream: StreamId) {
        let before = self.by_name.insert(name.clone(), stream);
        debug_assert!(before.is_none(), "{stream:?} opens what a list has opened already");
        self.names.insert(stream, name);
        self.last = stream.0;
    }

    /// A stream has ended.
    pub(crate) fn remove(&mut self, stream: StreamId) {
        if let Some(name) = self.names.remove(&stream) {
            self.by_name.remove(&name);
            self.records.remove(&stream);
        }
    }
}

/// What waits to be opened may take so many bytes: watchers and names.
const WAITING_MAX: usize = 64 << 20;

/// A view whose messages name items.
#[derive(Debug)]
pub(crate) struct List {
    service: ServiceId,
    streams: DataStreams,
    /// The names that the list shows.
    spec: ViewSpec,
}

/// Names that are to be opened for watchers of their list.
#[derive(Debug)]
struct Named {
    /// Of those before it there are so many.
    serial: u64,
    /// Sorted by client.
    watchers: Vec<Watcher>,
    /// For each client that has not left the list, where the first of its watchers is that has not: a name is opened once for a client,
    /// however often that watches the list.
    first: Vec<u32>,
    service: ServiceId,
    streams: DataStreams,
    names: Vec<Listed>,
    /// Bytes that it takes, about.
    bytes: usize,
    /// The name, and the place in `first`, whose turn is next.
    name: usize,
    client: usize,
}

/// Streams, and clients as a whole (`None`), that take no more from what waited before a number.
type Ended = BTreeMap<(ClientId, Option<StreamId>), u64>;

impl Named {
    fn new(watchers: Vec<Watcher>, service: ServiceId, streams: DataStreams, names: Vec<Listed>) -> Self {
        let mut watchers = watchers;
        watchers.sort_unstable_by_key(|watcher| (watcher.client, watcher.stream));
        let starts = |at: &usize| *at == 0 || watchers[at - 1].client != watchers[*at].client;
        let first: Vec<u32> = (0..watchers.len()).filter(starts).map(|at| at as u32).collect();
        let names_bytes: usize = names.iter().map(|listed| listed.name.len() + size_of::<Listed>()).sum();
        let bytes = size_of::<Self>() + size_of_val(&*watchers) + size_of_val(&*first) + names_bytes;
        Self { serial: 0, watchers, first, service, streams, names, bytes, name: 0, client: 0 }
    }

    /// The next open: for whom, and what. `None` if all names are opened, or nobody is left.
    fn next(&mut self, ended: &Ended) -> Option<(ClientId, Listed)> {
        loop {
            if self.client >= self.first.len() {
                (self.client, self.name) = (0, self.name + 1);
            }
            let listed = self.names.get(self.name)?;
            let first = self.first.get_mut(self.client)?;
            let client = self.watchers[*first as usize].client;
            // The next of its watchers that is there, if this one is not.
            while let Some(&watcher) = self.watchers.get(*first as usize).filter(|watcher| watcher.client == client)
                && has_ended(ended, watcher, self.serial)
            {
                *first += 1;
            }
            if self.watchers.get(*first as usize).is_some_and(|watcher| watcher.client == client) {
                self.client += 1;
                return Some((client, listed.clone()));
            }
            // The turn is nobody's any more. The last client takes the place, and has not had this name.
            self.first.swap_remove(self.client);
        }
    }
}

fn has_ended(ended: &Ended, watcher: Watcher, serial: u64) -> bool {
    let has_ended = |stream| ended.get(&(watcher.client, stream)).is_some_and(|before| serial < *before);
    has_ended(None) || has_ended(Some(watcher.stream))
}

/// What symbol lists name and is not opened yet, in order.
#[derive(Debug, Default)]
pub(crate) struct SymbolLists {
    waiting: VecDeque<Named>,
    bytes: usize,
    /// Number of the next that waits.
    next: u64,
    /// What has ended since. It is looked at only when it is somebody's turn, so that an end costs the same whatever waits.
    ended: Ended,
    /// There were so many of these when those were last dropped that mean nothing any more.
    kept: usize,
}

impl SymbolLists {
    pub(crate) fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Keeps what a list has named; false if there is no room for it.
    fn push(&mut self, mut named: Named) -> bool {
        if self.bytes + named.bytes > WAITING_MAX {
            return false;
        }
        named.serial = self.next;
        self.next += 1;
        self.bytes += named.bytes;
        self.waiting.push_back(named);
        true
    }

    /// A client, or one of its streams, takes no more from its lists.
    pub(crate) fn forget(&mut self, client: ClientId, stream: Option<StreamId>) {
        if self.waiting.is_empty() {
            return;
        }
        self.ended.insert((client, stream), self.next);
        if self.ended.len() > 2 * self.kept + 1_000 {
            let oldest = self.waiting.front().map_or(self.next, |named| named.serial);
            self.ended.retain(|_, before| *before > oldest);
            self.kept = self.ended.len();
        }
    }

    /// The next open: for whom, and what.
    fn next(&mut self) -> Option<(ClientId, ServiceId, DataStreams, Listed)> {
        let Self { waiting, bytes, ended, kept, .. } = self;
        while let Some(named) = waiting.front_mut() {
            if let Some((client, listed)) = named.next(ended) {
                return Some((client, named.service, named.streams, listed));
            }
            *bytes -= named.bytes;
            waiting.pop_front();
        }
        ended.clear();
        *kept = 0;
        None
    }
}

impl Clients {
    /// The item that a list has opened on a stream of a client, which cannot know that by itself: the stream's messages name it.
    pub(crate) fn listed_on(&self, client: ClientId, stream: StreamId) -> Option<(ServiceId, Vec<u8>)> {
        if stream.0 >= 0 {
            return None;
        }
        let (service, name) = self.get(client)?.listed.as_ref()?.names.get(&stream)?;
        Some((*service, name.to_vec()))
    }
}

impl Items {
    /// The list that a view is, if its messages name items for those who watch it; most views name none. To be asked before a message goes out, with which
    /// the view may end.
    pub(crate) fn list_of(&self, view: ItemId) -> Option<List> {
        let spec = self.spec_of(view)?;
        Some(List { streams: spec.data_streams()?, spec: spec.clone(), service: self.get(view).service() })
    }
}

impl P2ps {
    /// A message of a list or of a record of a chain, an image or an update, has reached watchers of this view of it: what it names, in fields that the
    /// view shows, is to be opened for them.
    pub(crate) fn note_named(&mut self, list: &List, watchers: &[Watcher], container: DataType, body: &[u8]) {
        let Some(names) = named_in(container, body, |fid| list.spec.field(fid)) else {
            self.counters.symbol_lists_bad += 1;
            return;
        };
        if !names.is_empty() && !watchers.is_empty() {
            let named = Named::new(watchers.to_vec(), list.service, list.streams, names);
            self.counters.symbol_lists_over += u64::from(!self.clients.symbol_lists.push(named));
        }
    }

    /// A stream of a client ends: if it watches a list, that opens nothing more for it.
    pub(crate) fn leave_list(&mut self, client: ClientId, stream: StreamId) {
        if let Some(Open::Item(item)) = self.clients.open_on(client, stream)
            && self.items.data_streams_of(item).is_some()
        {
            self.clients.symbol_lists.forget(client, Some(stream));
        }
    }

    /// As [`Self::note_named`] for an update of a view, if that view opens anything.
    pub(crate) fn note_named_by_update(&mut self, view: ItemId, watchers: &[Watcher], update: &[u8]) {
        if let Some(list) = self.items.list_of(view)
            && let Ok(msg @ Msg::Update(_)) = Msg::decode(update)
        {
            self.note_named(&list, watchers, msg.container(), msg.body());
        }
    }

    /// The same for watchers of several views.
    pub(crate) fn note_named_to(&mut self, watchers: &[(ItemId, Watcher)], message: &Message<'_>) {
        let mut by_view: BTreeMap<ItemId, Vec<Watcher>> = BTreeMap::new();
        for &(view, watcher) in watchers {
            by_view.entry(view).or_default().push(watcher);
        }
        for (view, watchers) in by_view {
            self.note_named_by_update(view, &watchers, message.body);
        }
    }

    /// Opens what lists have named, so much of it as a turn may do.
    pub(crate) fn open_named(&mut self) {
        for _ in 0..self.config.work_per_turn {
            // All that was named is opened.
            let Some((client, service, streams, listed)) = self.clients.symbol_lists.next() else { return };
            self.open_listed(client, service, streams, listed);
        }
    }

    fn open_listed(
        &mut self,
        client: ClientId,
        service: ServiceId,
        streams: DataStreams,
        Listed { name, role }: Listed,
    ) {
        // The client has gone, or logged out, since its list was read.
        let Some(known) = self.clients.get_mut(client).filter(|known| known.login.is_some() && !known.closing) else {
            return;
        };
        let listed = known.listed.get_or_insert_default();
        let name = (service, name);
        if listed.by_name.contains_key(&name) {
            return;
        }
        if role == Role::Next && listed.records.len() >= self.config.chain_records {
            self.counters.symbol_lists_over += 1;
            return;
        }
        // A login of a cookie has a number below zero too.
        let mut below = (i32::MIN..listed.last).rev().chain((i32::MIN..0).rev()).map(StreamId);
        let Some(stream) = below.find(|&stream| known.streams.get(stream).is_none()) else {
            hub_items::fault!("a client has two thousand million streams");
            return;
        };
        listed.insert(name.clone(), stream);
        let wanted = match role {
            Role::Member => Wanted::whole(),
            Role::Next => {
                listed.records.insert(stream);
                Wanted::followed(streams)
            }
        };
        let mut flags = RequestFlags::default();
        flags.set(RequestFlags::STREAMING, streams == DataStreams::Streams);
        let key = MsgKey { service_id: Some(service.0), name_type: Some(RIC), name: Some(&name.1), ..MsgKey::EMPTY };
        let msg = RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, stream.0) };
        self.counters.requests += 1;
        self.counters.streams_listed += 1;
        let watcher = Watcher { client, stream };
        if let Err(told) = self.open_stream(watcher, &msg, &wanted) {
            self.refuse_with_state(client, stream, msg.domain, &told);
        }
        // The stream may have been refused, or answered whole and for good.
        let is_open = matches!(self.clients.open_on(client, stream), Some(Open::Item(_)));
        if let Some(known) = self.clients.get_mut(client).filter(|_| !is_open) {
            known.end_listed(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(watchers: &[(u32, i32)], names: &[&str]) -> Named {
        let watcher = |&(client, stream): &(u32, i32)| Watcher { client: ClientId(client), stream: StreamId(stream) };
        let names = names.iter().map(|name| Listed { name: name.as_bytes().into(), role: Role::Member }).collect();
        Named::new(watchers.iter().map(watcher).collect(), ServiceId(1), DataStreams::Streams, names)
    }

    fn rest(lists: &mut SymbolLists) -> String {
        let next = || {
            lists.next().map(|(client, _, _, listed)| format!("{}{} ", client.0, String::from_utf8_lossy(&listed.name)))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_name_is_opened_once_for_each_client_that_is_left() {
        let mut lists = SymbolLists::default();
        assert!(lists.push(named(&[(2, 6), (1, 7), (2, 5), (3, 9)], &["A", "B"])));
        assert!(lists.next().is_some_and(|next| next.0 == ClientId(1)));
        lists.forget(ClientId(2), Some(StreamId(5)));
        lists.forget(ClientId(3), None);
        // Items that come later are for those who are there by then.
        assert!(lists.push(named(&[(3, 9), (2, 5)], &["C"])));
        assert_eq!(rest(&mut lists), "2A 1B 2B 2C 3C ");
        assert!(!lists.has_work() && lists.bytes == 0 && lists.ended.is_empty());
        assert!(lists.push(named(&[(2, 5)], &["D", "E"])));
        assert!(lists.next().is_some());
        lists.forget(ClientId(2), Some(StreamId(5)));
        assert_eq!(rest(&mut lists), "");
    }

    #[test]
    fn what_waits_and_what_has_ended_is_bounded() {
        let mut lists = SymbolLists::default();
        let megabyte = "x".repeat(1 << 20);
        let taken = (0..100).filter(|_| lists.push(named(&[(1, 1)], &[&megabyte]))).count();
        assert_eq!(taken, 63);
        for stream in 0..100_000 {
            lists.forget(ClientId(1), Some(StreamId(stream)));
            lists.next();
            lists.push(named(&[(1, 1)], &["A"]));
        }
        assert!(lists.ended.len() < 5_000, "{}", lists.ended.len());
    }
}
