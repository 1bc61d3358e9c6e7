//! Symbol lists with data: a client that asks for a list with `:DataStreams` in `:SymbolListBehaviors` is given the items that the list
//! names as well, without asking for each (RDM "enhanced symbol list"; login element `SupportEnhancedSymbolList`).
//!
//! Such a stream watches its list through a view that shows everything and has [`DataStreams`]. What reaches it is looked through for
//! names that are added or updated; each is opened as Market Price of the same service on a stream that the server numbers, from -1
//! downwards, as ETA's watchlist (`WlItemHandler.handleSymbolList`) does for its application. A name that is open already for the client by
//! a list is not opened again; one that a list deletes stays open until the client closes it. The first message of such a stream has the
//! item's key, whatever kind of message it is.
//!
//! A list may name many and have many watchers: so many streams are opened in a turn as other work of outages may be done.

use super::streams::Open;
use super::wanted::Wanted;
use crate::p2ps::P2ps;
use crate::p2ps::ids::{ClientId, ItemId, ServiceId, StreamId};
use crate::p2ps::items::watchers::Watcher;
use crate::stream::Message;
use rwf::DataType;
use rwf::container::{Map, MapAction, SetScope};
use rwf::msg::{Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, data_streams};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// `INSTRUMENT_NAME_TYPE_RIC` (ETA `InstrumentNameTypes`).
const RIC: u8 = 1;

/// How the items that a list names are opened (ETA `SymbolList.SymbolListDataStreamRequestFlags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DataStreams {
    /// Each with updates.
    Streams,
    /// Each with its image alone.
    Snapshots,
}

impl DataStreams {
    /// What a request with such a payload asks for. Only one for a shared symbol list can ask for anything; streams win over snapshots.
    pub(super) fn of(msg: &RequestMsg<'_>, payload: &Payload<'_>) -> Option<Self> {
        if msg.domain != Domain::SYMBOL_LIST || msg.flags.contains(RequestFlags::PRIVATE_STREAM) {
            return None;
        }
        let bits = payload.data_streams.unwrap_or(0);
        match bits {
            _ if bits & data_streams::STREAMS != 0 => Some(Self::Streams),
            _ if bits & data_streams::SNAPSHOTS != 0 => Some(Self::Snapshots),
            _ => None,
        }
    }
}

type Name = (ServiceId, Box<[u8]>);

/// The streams that lists have opened for one client. Clients and providers choose the names, so they are found by comparison.
#[derive(Debug, Default)]
pub(crate) struct ListedStreams {
    by_name: BTreeMap<Name, StreamId>,
    names: BTreeMap<StreamId, Name>,
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
        }
    }
}

/// Names that are to be opened for watchers of their list.
#[derive(Debug)]
struct Named {
    watchers: Vec<Watcher>,
    service: ServiceId,
    streams: DataStreams,
    names: Arc<[Box<[u8]>]>,
    /// Opens that were made, or left out.
    done: usize,
}

/// What symbol lists name and is not opened yet, in order.
#[derive(Debug, Default)]
pub(in crate::p2ps) struct SymbolLists {
    waiting: VecDeque<Named>,
}

impl SymbolLists {
    pub(in crate::p2ps) fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A client, or one of its streams, takes no more from its lists.
    pub(in crate::p2ps) fn forget(&mut self, client: ClientId, stream: Option<StreamId>) {
        let is_gone =
            |watcher: &Watcher| watcher.client == client && stream.is_none_or(|stream| watcher.stream == stream);
        for named in &mut self.waiting {
            // Its place stays, so that what is done is counted as before.
            named
                .watchers
                .iter_mut()
                .filter(|watcher| is_gone(watcher))
                .for_each(|watcher| watcher.client = ClientId(u32::MAX));
        }
    }

    /// The next open: for whom, and what.
    fn next(&mut self) -> Option<(ClientId, ServiceId, DataStreams, Box<[u8]>)> {
        loop {
            let named = self.waiting.front_mut()?;
            let at = named.done;
            named.done += 1;
            match named.names.get(at / named.watchers.len()) {
                Some(name) => {
                    let client = named.watchers[at % named.watchers.len()].client;
                    return Some((client, named.service, named.streams, name.clone()));
                }
                None => drop(self.waiting.pop_front()),
            }
        }
    }
}

impl P2ps {
    /// A message of a list, an image or an update, has reached watchers of it: what it names is to be opened for them.
    pub(in crate::p2ps) fn note_named(
        &mut self,
        (service, streams): (ServiceId, DataStreams),
        watchers: Vec<Watcher>,
        container: DataType,
        body: &[u8],
    ) {
        let Some(names) = named_in(container, body) else {
            self.counters.symbol_lists_bad += 1;
            return;
        };
        if !names.is_empty() && !watchers.is_empty() {
            self.symbol_lists.waiting.push_back(Named { watchers, service, streams, names: names.into(), done: 0 });
        }
    }

    /// As [`Self::note_named`] for an update of a view, if that view opens anything.
    pub(in crate::p2ps) fn note_named_by_update(&mut self, view: ItemId, watchers: &[Watcher], update: &[u8]) {
        let Some(streams) = self.items.data_streams_of(view) else { return };
        if let Ok(msg @ Msg::Update(_)) = Msg::decode(update) {
            let service = self.items.get(view).service();
            self.note_named((service, streams), watchers.to_vec(), msg.container(), msg.body());
        }
    }

    /// The same for watchers of several views.
    pub(in crate::p2ps) fn note_named_to(&mut self, watchers: &[(ItemId, Watcher)], message: &Message<'_>) {
        for &(item, watcher) in watchers {
            self.note_named_by_update(item, &[watcher], message.body);
        }
    }

    /// Opens what lists have named, so much of it as a turn may do.
    pub(in crate::p2ps) fn open_named(&mut self) {
        for _ in 0..self.config.work_per_turn {
            let Some((client, service, streams, name)) = self.symbol_lists.next() else { return };
            self.open_listed(client, service, streams, name);
        }
    }

    fn open_listed(&mut self, client: ClientId, service: ServiceId, streams: DataStreams, name: Box<[u8]>) {
        let Some(known) = self.clients.get_mut(client).filter(|known| known.login.is_some() && !known.closing) else {
            return;
        };
        let listed = known.listed.get_or_insert_default();
        let name = (service, name);
        if listed.by_name.contains_key(&name) {
            return;
        }
        // A login of a cookie has a number below zero too.
        let mut below = (i32::MIN..listed.last).rev().chain((i32::MIN..0).rev()).map(StreamId);
        let Some(stream) = below.find(|&stream| known.streams.get(stream).is_none()) else {
            debug_assert!(false, "a client has two thousand million streams");
            return;
        };
        listed.insert(name.clone(), stream);
        let mut flags = RequestFlags::default();
        flags.set(RequestFlags::STREAMING, streams == DataStreams::Streams);
        let key = MsgKey { service_id: Some(service.0), name_type: Some(RIC), name: Some(&name.1), ..MsgKey::EMPTY };
        let msg = RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, stream.0) };
        self.counters.requests += 1;
        self.counters.streams_listed += 1;
        let watcher = Watcher { client, stream };
        if let Err(told) = self.open_stream(watcher, &msg, &Wanted::whole()) {
            self.refuse_told(client, stream, msg.domain, &told);
        }
        // It may have been refused, or answered whole and for good.
        let is_open = matches!(self.clients.open_on(client, stream), Some(Open::Item(_)));
        if let Some(known) = self.clients.get_mut(client).filter(|_| !is_open) {
            known.end_listed(stream);
        }
    }

    /// The item that a list has opened on a stream of a client, which cannot know that by itself: the stream's messages name it.
    pub(in crate::p2ps) fn listed_on(&self, client: ClientId, stream: StreamId) -> Option<(ServiceId, Vec<u8>)> {
        if stream.0 >= 0 {
            return None;
        }
        let (service, name) = self.clients.get(client)?.listed.as_ref()?.names.get(&stream)?;
        Some((*service, name.to_vec()))
    }
}

/// The key of an item that a list has opened.
pub(in crate::p2ps) fn listed_key((service, name): &(ServiceId, Vec<u8>)) -> MsgKey<'_> {
    MsgKey { service_id: Some(service.0), name_type: Some(RIC), name: Some(name), ..MsgKey::EMPTY }
}

/// The names that a message of a symbol list adds or updates; `None` if it cannot be read. Nothing but a map names anything.
fn named_in(container: DataType, body: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let mut names = Vec::new();
    if container != DataType::MAP {
        return Some(names);
    }
    let map = Map::decode(body, &SetScope::NONE).ok()?;
    if !matches!(
        map.key_type,
        DataType::BUFFER | DataType::ASCII_STRING | DataType::UTF8_STRING | DataType::RMTES_STRING
    ) {
        return Some(names);
    }
    for entry in map.entries() {
        let entry = entry.ok()?;
        if entry.action != MapAction::DELETE && !entry.key.is_empty() {
            names.push(entry.key.into());
        }
    }
    Some(names)
}
