//! The one dictionary of all services: what was configured (or is built in), and what providers add to it.

use super::Clients;
use super::refusal::Refusal;
use super::streams::{Open, WatchState};
use crate::delivery::deliveries::BodyId;
use crate::ids::{ClientId, RemoteService, ServiceId, SourceId, StreamId};
use crate::{Notice, P2ps};
use rustc_hash::FxHashMap;
use rwf::dictionary::{Conflict, Dictionary, Verbosity};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg};
use rwf::rdm::dictionary::{ENUMS, FIELDS, RefreshParts, Request};
use rwf::wire::encode_growing;
use rwf::{State, StreamState};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Nanoseconds after a change before those who have the dictionary get the new one: providers that come bring theirs in
/// several messages, and several come at a time.
const SETTLE: u64 = 1_000_000_000;
/// Nanoseconds between two such refreshes: a large dictionary has megabytes, and whoever streams must not wait for it.
const PACE: u64 = 20_000_000;

/// Which half of the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Half {
    Fields,
    Enums,
}

impl Half {
    fn of(name: &[u8]) -> Option<Self> {
        if name == FIELDS.as_bytes() {
            Some(Self::Fields)
        } else if name == ENUMS.as_bytes() {
            Some(Self::Enums)
        } else {
            None
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Fields => FIELDS,
            Self::Enums => ENUMS,
        }
    }
}

/// Longest message of a dictionary that goes out as a whole: more than four times the largest there is.
const WHOLE_MAX: usize = 8 << 20;

/// Longest part: one table that does not fit a part of the usual length.
const PART_MAX: usize = 64 << 20;

/// What of a dictionary, and in how many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    half: Half,
    verbosity: u32,
    /// In one message, not in parts.
    whole: bool,
}

/// What makes the messages of one requester the same as those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    shape: Shape,
    service: Option<ServiceId>,
    streaming: bool,
    solicited: bool,
}

/// An open dictionary stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DictionaryStream {
    pub(crate) stream: StreamId,
    shape: Shape,
    service: Option<ServiceId>,
    /// What it has is not what is served now; it is queued for a refresh.
    stale: bool,
}

impl DictionaryStream {
    /// The service that was named in the request.
    pub(crate) fn service(&self) -> Option<ServiceId> {
        self.service
    }
}

/// A dictionary on its way in. Enumerations are of use only beside their fields, so both halves are kept together.
#[derive(Debug, Default)]
struct Incoming {
    dictionary: Dictionary,
    fields_done: bool,
    enums_done: bool,
}

impl Incoming {
    fn done(&mut self, half: Half) -> &mut bool {
        match half {
            Half::Fields => &mut self.fields_done,
            Half::Enums => &mut self.enums_done,
        }
    }
}

/// The dictionary, and the messages that it makes.
#[derive(Debug)]
pub(crate) struct Dictionaries {
    /// The dictionary that goes out.
    pub(crate) merged: Arc<Dictionary>,
    /// What providers offer, when nothing is configured: the built-in dictionary only fills its gaps.
    offered: Option<Dictionary>,
    /// Dictionaries that are on their way in, by source and service.
    incoming: FxHashMap<(SourceId, RemoteService), Incoming>,
    /// Conflicts that were reported: field id and where it is defined otherwise.
    reported: BTreeSet<(i16, String)>,
    /// Whole refresh messages, without service id.
    parts: FxHashMap<Shape, Vec<Vec<u8>>>,
    /// Bodies that this turn has already.
    bodies: Vec<(Variant, Vec<BodyId>)>,
    /// Clients and streams that are to have a new dictionary.
    stale: VecDeque<(ClientId, StreamId)>,
    /// When the next of them gets it.
    renew_at: u64,
}

impl Dictionaries {
    pub(crate) fn new(configured: Option<&Dictionary>) -> Self {
        Self {
            merged: Arc::new(configured.map_or_else(Dictionary::builtin, Clone::clone)),
            offered: configured.is_none().then(Dictionary::new),
            incoming: FxHashMap::default(),
            reported: BTreeSet::new(),
            parts: FxHashMap::default(),
            bodies: Vec::new(),
            stale: VecDeque::new(),
            renew_at: 0,
        }
    }

    /// Takes over what a provider's dictionary adds.
    fn add(&mut self, dictionary: &Dictionary) -> Vec<Conflict> {
        let Some(offered) = &mut self.offered else { return Arc::make_mut(&mut self.merged).merge(dictionary) };
        let conflicts = offered.merge(dictionary);
        let mut merged = offered.clone();
        merged.merge(&Dictionary::builtin());
        self.merged = Arc::new(merged);
        conflicts
    }

    /// The turn's bodies are void.
    pub(crate) fn end_turn(&mut self) {
        self.bodies.clear();
    }

    /// When a refresh is due that nobody asked for.
    pub(crate) fn timeout(&self) -> Option<u64> {
        (!self.stale.is_empty()).then_some(self.renew_at)
    }

    /// Makes the messages anew that were served; tells which of them have changed.
    fn renew(&mut self, max_size: usize) -> Vec<Shape> {
        let mut changed = Vec::new();
        for (&shape, parts) in &mut self.parts {
            let now = encode(&self.merged, shape, max_size);
            if *parts != now {
                *parts = now;
                changed.push(shape);
            }
        }
        changed
    }

    fn parts(&mut self, shape: Shape, max_size: usize) -> &[Vec<u8>] {
        let merged = &self.merged;
        self.parts.entry(shape).or_insert_with(|| encode(merged, shape, max_size))
    }
}

/// The verbosity that a filter stands for; others than the four that the guide has become the next one that has all
/// they ask for (RDM usage guide 5.4.1).
fn verbosity(filter: u32) -> u32 {
    match filter & 0xF {
        0 => 0,
        1..=3 => 3,
        4..=7 => 7,
        _ => 15,
    }
}

/// The messages of a dictionary; none if one of them cannot be written: whoever was given a part would wait for the last one.
fn encode(dictionary: &Dictionary, shape: Shape, max_size: usize) -> Vec<Vec<u8>> {
    let Shape { half, verbosity: filter, whole } = shape;
    let max_size = if whole { WHOLE_MAX } else { max_size };
    let request = Request {
        stream_id: 0,
        streaming: true,
        service_id: None,
        name: half.name().to_owned(),
        verbosity: Verbosity(filter),
    };
    let mut messages = Vec::new();
    let Some(mut parts) = RefreshParts::answer(dictionary, &request) else { return messages };
    let mut buf = Vec::new();
    while !parts.is_done() {
        // A table that does not fit cannot be split: such a part is larger than the others.
        match encode_growing(&mut buf, 0, max_size.max(256), PART_MAX, |w| parts.write(true, w)) {
            Ok(length) => messages.push(buf[..length].to_vec()),
            Err(_) => return Vec::new(),
        }
    }
    debug_assert!(!messages.is_empty(), "a dictionary has a message at least");
    messages
}

impl Clients {
    /// Notes what is wanted on a dictionary stream; false if it is not open: a snapshot.
    fn note_dictionary(&mut self, client: ClientId, wanted: DictionaryStream, streaming: bool) -> bool {
        let Some(known) = self.get_mut(client) else {
            hub_items::fault!("a request of a client that is gone: {client:?}");
            return false;
        };
        let open = known.streams.get(wanted.stream).is_some();
        if streaming && !open {
            known.streams.insert(wanted.stream, Open::Dictionary, WatchState::default());
        }
        known.dictionaries.retain(|open| open.stream != wanted.stream);
        if open || streaming {
            known.dictionaries.push(wanted);
        }
        open || streaming
    }

    /// What is served has changed: whoever has it open is to have it anew.
    fn dictionary_changed(&mut self, now: u64, max_size: usize) {
        self.dictionaries.end_turn();
        let changed = self.dictionaries.renew(max_size);
        let Self { slots, dictionaries, .. } = self;
        for (id, client) in (0..).map(ClientId).zip(slots) {
            let Some(client) = client else { continue };
            for open in &mut client.dictionaries {
                if !open.stale && changed.contains(&open.shape) {
                    open.stale = true;
                    dictionaries.stale.push_back((id, open.stream));
                }
            }
        }
        if !changed.is_empty() {
            dictionaries.renew_at = now + SETTLE;
        }
    }
}

impl P2ps {
    /// A request of the dictionary domain.
    pub(crate) fn dictionary_request(&mut self, client: ClientId, msg: &RequestMsg<'_>) {
        let stream = StreamId(msg.stream_id);
        let refusal = match self.clients.open_on(client, stream) {
            Some(Open::Dictionary) | None if stream.0 > 0 => None,
            Some(_) => Some(Refusal::StreamInUse { stream: stream.0 }),
            None => Some(Refusal::BadStreamId { stream: stream.0 }),
        };
        let too_many = !self.clients.may_have_another(client, stream);
        let refusal = refusal.or_else(|| too_many.then_some(Refusal::AdministrativeStreams));
        let half = Half::of(msg.key.name.unwrap_or_default());
        let name = msg.key.name_lossy();
        let refusal = refusal.or_else(|| match msg.key.service_id {
            // The dictionary is that of all services: who has asked for it by way of one that has just gone is answered as well. An EMA that
            // hears a Closed then does not ask again, and gives up its start after 45 s.
            Some(id) if self.sources.services().get(ServiceId(id)).is_none() => {
                Some(Refusal::UnknownService { id: Some(id), texts: self.config.status_texts })
            }
            _ if half.is_none() => Some(Refusal::UnknownDictionary { name: &name }),
            _ => None,
        });
        let (None, Some(half)) = (&refusal, half) else {
            let told = refusal.map(|refusal| refusal.to_state());
            return told.map_or((), |told| self.refuse_with_state(client, stream, Domain::DICTIONARY, &told));
        };
        let verbosity = verbosity(msg.key.filter.unwrap_or(0));
        let whole = self.clients.get(client).is_some_and(|known| known.speaks_json);
        let shape = Shape { half, verbosity, whole };
        if self.clients.dictionaries.parts(shape, self.config.max_fragment_size).is_empty() {
            self.counters.messages_unwritable += 1;
            let told = Refusal::DictionaryUnwritable { name: &name }.to_state();
            return self.refuse_with_state(client, stream, Domain::DICTIONARY, &told);
        }
        let open = DictionaryStream { stream, shape, service: msg.key.service_id.map(ServiceId), stale: false };
        let streaming = msg.flags.contains(RequestFlags::STREAMING);
        let streaming = self.clients.note_dictionary(client, open, streaming);
        if msg.flags.contains(RequestFlags::NO_REFRESH) {
            // A dictionary from elsewhere is taken for the one that it would get.
            return;
        }
        self.give_dictionary(client, &open, streaming, true);
    }

    fn give_dictionary(&mut self, client: ClientId, to: &DictionaryStream, streaming: bool, solicited: bool) {
        let &DictionaryStream { shape, service, .. } = to;
        let mut bytes = 0;
        for body in self.dictionary_bodies(Variant { shape, service, streaming, solicited }) {
            bytes += self.output.bytes_of(body);
            self.output.deliver(body, client, to.stream);
        }
        self.clients.backlogs.charge_answer(bytes);
    }

    /// Gives the new dictionary to the next of those who have an old one, if it is time.
    pub(crate) fn renew_dictionaries(&mut self) {
        while self.clients.dictionaries.timeout().is_some_and(|at| at <= self.now)
            && let Some((client, stream)) = self.clients.dictionaries.stale.pop_front()
        {
            let known = self.clients.get_mut(client).map(|known| &mut known.dictionaries);
            let open = known.and_then(|open| open.iter_mut().find(|open| open.stream == stream && open.stale));
            if let Some(open) = open {
                open.stale = false;
                let open = *open;
                self.clients.dictionaries.renew_at = self.now + PACE;
                self.give_dictionary(client, &open, true, false);
            }
        }
    }

    fn dictionary_bodies(&mut self, variant: Variant) -> Vec<BodyId> {
        if let Some((_, bodies)) = self.clients.dictionaries.bodies.iter().find(|(known, _)| *known == variant) {
            return bodies.clone();
        }
        let Self { clients: Clients { dictionaries, .. }, output, config, counters, .. } = self;
        let mut bodies = Vec::new();
        for part in dictionaries.parts(variant.shape, config.max_fragment_size) {
            let Ok(Msg::Refresh(refresh)) = Msg::decode(part) else { continue };
            let key =
                MsgKey { service_id: variant.service.map(|service| service.0), ..refresh.key.unwrap_or_default() };
            let stream = if variant.streaming { StreamState::OPEN } else { StreamState::NON_STREAMING };
            let state = State { stream, ..refresh.state };
            let mut flags = refresh.flags;
            flags.set(RefreshFlags::SOLICITED, variant.solicited);
            let changed = RefreshMsg { flags, key: Some(key), state, ..refresh };
            let body = output.write_body(part.len() + 64, |w| changed.encode(w));
            counters.messages_unwritable += u64::from(body.is_err());
            bodies.extend(body);
        }
        dictionaries.bodies.push((variant, bodies.clone()));
        bodies
    }

    /// A part of a dictionary that a provider offers. It counts when its last part has come.
    pub(crate) fn dictionary_part(&mut self, source: SourceId, service: RemoteService, rwf: &[u8]) {
        let known = self.sources.service_of(source, service).and_then(|id| self.sources.services().get(id));
        let name = known
            .map_or_else(|| format!("service {} of source {}", service.0, source.0), |service| service.name.clone());
        let Ok(Msg::Refresh(refresh)) = Msg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        let key = refresh.key.unwrap_or_default();
        let Some(half) = Half::of(key.name.unwrap_or_default()) else {
            self.counters.hub_messages_unclaimed += 1;
            return;
        };
        let incoming = self.clients.dictionaries.incoming.entry((source, service)).or_default();
        if *incoming.done(half) {
            *incoming = Incoming::default();
        }
        let applied = match half {
            Half::Fields => incoming.dictionary.apply_fields(&name, refresh.body),
            Half::Enums => incoming.dictionary.apply_enums(&name, refresh.body),
        };
        if let Err(error) = applied {
            self.clients.dictionaries.incoming.remove(&(source, service));
            self.counters.dictionary_errors += 1;
            self.output.notice(Notice::DictionaryUnreadable { service: name, text: error.to_string() });
        } else if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            *incoming.done(half) = true;
            self.merge_dictionary(source, service);
        }
    }

    /// Takes over what a provider's dictionary adds. Conflicts are reported once.
    fn merge_dictionary(&mut self, source: SourceId, service: RemoteService) {
        let Self { clients: Clients { dictionaries, .. }, counters, output, items, .. } = self;
        let Some(incoming) = dictionaries.incoming.remove(&(source, service)) else {
            hub_items::fault!("no dictionary comes from {source:?} {service:?}");
            return;
        };
        let conflicts = dictionaries.add(&incoming.dictionary);
        if self.config.cache.is_on() {
            items.cache_mut().set_dictionary(Arc::clone(&dictionaries.merged));
        }
        for conflict in conflicts {
            if dictionaries.reported.insert((conflict.fid, conflict.dropped.origin.clone())) {
                counters.dictionary_conflicts += 1;
                output.notice(Notice::DictionaryConflict { text: conflict.to_string() });
            }
        }
        if !(incoming.fields_done && incoming.enums_done) {
            dictionaries.incoming.insert((source, service), incoming);
        }
        self.clients.dictionary_changed(self.now, self.config.max_fragment_size);
    }
}
