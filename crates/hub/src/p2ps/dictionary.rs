//! The one dictionary of all services: what was configured (or is built in), and what providers add to it.

use super::notice::Notice;
use super::refusal::Refusal;
use super::streams::Open;
use super::turn::BodyId;
use super::{P2ps, compose};
use rustc_hash::{FxHashMap, FxHashSet};
use rwf::dictionary::{Conflict, Dictionary, Verbosity};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg};
use rwf::rdm::dictionary::{ENUMS, FIELDS, RefreshParts, Request};
use rwf::wire::Writer;
use rwf::{EncodeError, State, StreamState};
use std::collections::VecDeque;

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

/// What makes the messages of one requester the same as those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    half: Half,
    verbosity: u32,
    service: Option<u16>,
    streaming: bool,
    solicited: bool,
}

/// An open dictionary stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DictionaryStream {
    pub(crate) stream: i32,
    half: Half,
    verbosity: u32,
    service: Option<u16>,
    /// What it has is not what is served now; it is queued for a refresh.
    stale: bool,
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
    /// What goes out.
    merged: Dictionary,
    /// What providers offer, when nothing is configured: the built-in dictionary only fills its gaps.
    offered: Option<Dictionary>,
    /// Dictionaries that are on their way in, by source and service.
    incoming: FxHashMap<(u16, u16), Incoming>,
    /// Conflicts that were reported: field id and where it is defined otherwise.
    reported: FxHashSet<(i16, String)>,
    /// Whole refresh messages by half and verbosity, without service id.
    parts: FxHashMap<(Half, u32), Vec<Vec<u8>>>,
    /// Bodies that this turn has already.
    bodies: Vec<(Variant, Vec<BodyId>)>,
    /// Clients and streams that are to have a new dictionary.
    stale: VecDeque<(u32, i32)>,
    /// When the next of them gets it.
    renew_at: u64,
}

impl Dictionaries {
    pub(crate) fn new(configured: Option<&Dictionary>) -> Self {
        Self {
            merged: configured.map_or_else(Dictionary::builtin, Clone::clone),
            offered: configured.is_none().then(Dictionary::new),
            incoming: FxHashMap::default(),
            reported: FxHashSet::default(),
            parts: FxHashMap::default(),
            bodies: Vec::new(),
            stale: VecDeque::new(),
            renew_at: 0,
        }
    }

    /// Takes over what a provider's dictionary adds.
    fn add(&mut self, dictionary: &Dictionary) -> Vec<Conflict> {
        let Some(offered) = &mut self.offered else { return self.merged.merge(dictionary) };
        let conflicts = offered.merge(dictionary);
        self.merged = offered.clone();
        self.merged.merge(&Dictionary::builtin());
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
    fn renew(&mut self, max_size: usize) -> Vec<(Half, u32)> {
        let mut changed = Vec::new();
        for (&(half, verbosity), parts) in &mut self.parts {
            let now = encode(&self.merged, half, verbosity, max_size);
            if *parts != now {
                *parts = now;
                changed.push((half, verbosity));
            }
        }
        changed
    }

    fn parts(&mut self, half: Half, verbosity: u32, max_size: usize) -> &[Vec<u8>] {
        let merged = &self.merged;
        self.parts.entry((half, verbosity)).or_insert_with(|| encode(merged, half, verbosity, max_size))
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

fn encode(dictionary: &Dictionary, half: Half, filter: u32, max_size: usize) -> Vec<Vec<u8>> {
    let request = Request {
        stream_id: 0,
        streaming: true,
        service_id: None,
        name: half.name().to_owned(),
        verbosity: Verbosity(filter),
    };
    let mut messages = Vec::new();
    let Some(mut parts) = RefreshParts::answer(dictionary, &request) else { return messages };
    let mut buf = vec![0; max_size.max(256)];
    while !parts.is_done() {
        let mut w = Writer::new(&mut buf);
        match parts.write(true, &mut w) {
            Ok(()) => messages.push(w.into_written().to_vec()),
            // A table that does not fit cannot be split: this part is larger than the others.
            Err(EncodeError::BufferFull) => {
                let larger = buf.len() * 2;
                buf.resize(larger, 0);
                continue;
            }
            Err(_) => return messages,
        }
        buf.truncate(max_size.max(256));
    }
    messages
}

impl P2ps {
    /// A request of the dictionary domain.
    pub(super) fn dictionary_request(&mut self, client: u32, msg: &RequestMsg<'_>) {
        let stream = msg.stream_id;
        let Some(known) = self.client(client) else { return };
        let refusal = match known.streams.get(stream) {
            Some(Open::Dictionary) | None if stream > 0 => None,
            Some(_) => Some(Refusal::StreamInUse { stream }),
            None => Some(Refusal::BadStreamId { stream }),
        };
        let half = Half::of(msg.key.name.unwrap_or_default());
        let name = msg.key.name_lossy();
        let refusal = refusal.or_else(|| match msg.key.service_id {
            Some(id) if self.services.alive(id).is_none() => Some(Refusal::UnknownService { id: Some(id) }),
            _ if half.is_none() => Some(Refusal::UnknownDictionary { name: &name }),
            _ => None,
        });
        let (None, Some(half)) = (&refusal, half) else {
            let told = refusal.map(|refusal| refusal.told());
            return told.map_or((), |told| self.refuse_told(client, stream, Domain::DICTIONARY, &told));
        };
        let verbosity = verbosity(msg.key.filter.unwrap_or(0));
        let open = DictionaryStream { stream, half, verbosity, service: msg.key.service_id, stale: false };
        let streaming = msg.flags.contains(RequestFlags::STREAMING);
        let streaming = self.note_dictionary(client, open, streaming);
        if msg.flags.contains(RequestFlags::NO_REFRESH) {
            // What it has from elsewhere is taken for what it would get.
            self.dictionaries.parts(half, verbosity, self.config.max_fragment_size);
            return;
        }
        self.give_dictionary(client, &open, streaming, true);
    }

    /// Notes what is wanted on a dictionary stream; false if it is not open: a snapshot.
    fn note_dictionary(&mut self, client: u32, wanted: DictionaryStream, streaming: bool) -> bool {
        let Some(known) = self.client_mut(client) else { return false };
        let open = known.streams.get(wanted.stream).is_some();
        if streaming && !open {
            known.streams.insert(wanted.stream, Open::Dictionary, 0);
        }
        known.dictionaries.retain(|open| open.stream != wanted.stream);
        if open || streaming {
            known.dictionaries.push(wanted);
        }
        open || streaming
    }

    fn give_dictionary(&mut self, client: u32, to: &DictionaryStream, streaming: bool, solicited: bool) {
        let &DictionaryStream { half, verbosity, service, .. } = to;
        for body in self.dictionary_bodies(Variant { half, verbosity, service, streaming, solicited }) {
            self.turn.deliver(body, client, to.stream);
        }
    }

    /// Gives the new dictionary to the next of those who have an old one, if it is time.
    pub(super) fn renew_dictionaries(&mut self) {
        while self.dictionaries.timeout().is_some_and(|at| at <= self.now) {
            let Some((client, stream)) = self.dictionaries.stale.pop_front() else { return };
            let known = self.client_mut(client).map(|known| &mut known.dictionaries);
            let open = known.and_then(|open| open.iter_mut().find(|open| open.stream == stream && open.stale));
            if let Some(open) = open {
                open.stale = false;
                let open = *open;
                self.dictionaries.renew_at = self.now + PACE;
                self.give_dictionary(client, &open, true, false);
            }
        }
    }

    /// What is served has changed: whoever has it open is to have it anew.
    fn dictionary_changed(&mut self) {
        self.dictionaries.end_turn();
        let changed = self.dictionaries.renew(self.config.max_fragment_size);
        let Self { clients, dictionaries, now, .. } = self;
        for (slot, client) in (0..).zip(clients) {
            let Some(client) = client else { continue };
            for open in &mut client.dictionaries {
                if !open.stale && changed.contains(&(open.half, open.verbosity)) {
                    open.stale = true;
                    dictionaries.stale.push_back((slot, open.stream));
                }
            }
        }
        if !changed.is_empty() {
            dictionaries.renew_at = *now + SETTLE;
        }
    }

    fn dictionary_bodies(&mut self, variant: Variant) -> Vec<BodyId> {
        if let Some((_, bodies)) = self.dictionaries.bodies.iter().find(|(known, _)| *known == variant) {
            return bodies.clone();
        }
        let Self { dictionaries, turn, config, .. } = self;
        let mut bodies = Vec::new();
        for part in dictionaries.parts(variant.half, variant.verbosity, config.max_fragment_size) {
            let Ok(Msg::Refresh(refresh)) = Msg::decode(part) else { continue };
            let key = MsgKey { service_id: variant.service, ..refresh.key.unwrap_or_default() };
            let stream = if variant.streaming { StreamState::OPEN } else { StreamState::NON_STREAMING };
            let state = State { stream, ..refresh.state };
            let mut flags = refresh.flags;
            flags.set(RefreshFlags::SOLICITED, variant.solicited);
            let changed = RefreshMsg { flags, key: Some(key), state, ..refresh };
            let body = turn.arena_body(|arena| compose::append(arena, part.len() + 64, |w| changed.encode(w)));
            bodies.extend(body);
        }
        dictionaries.bodies.push((variant, bodies.clone()));
        bodies
    }

    /// A part of a dictionary that a provider offers. It counts when its last part has come.
    pub(super) fn dictionary_part(&mut self, source: u16, service: u16, rwf: &[u8]) {
        let name = self
            .sources
            .get(usize::from(source))
            .and_then(Option::as_deref)
            .and_then(|source| source.services.get(&service))
            .and_then(|&id| self.services.get(id))
            .map_or_else(|| format!("service {service} of source {source}"), |service| service.name.clone());
        let Ok(Msg::Refresh(refresh)) = Msg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        let key = refresh.key.unwrap_or_default();
        let Some(half) = Half::of(key.name.unwrap_or_default()) else { return };
        let incoming = self.dictionaries.incoming.entry((source, service)).or_default();
        if *incoming.done(half) {
            *incoming = Incoming::default();
        }
        let applied = match half {
            Half::Fields => incoming.dictionary.apply_fields(&name, refresh.body),
            Half::Enums => incoming.dictionary.apply_enums(&name, refresh.body),
        };
        if let Err(error) = applied {
            self.dictionaries.incoming.remove(&(source, service));
            self.counters.dictionary_errors += 1;
            self.notices.push(Notice::DictionaryUnreadable { service: name, text: error.to_string() });
        } else if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            *incoming.done(half) = true;
            self.merge_dictionary(source, service);
        }
    }

    /// Takes over what a provider's dictionary adds. Conflicts are reported once.
    fn merge_dictionary(&mut self, source: u16, service: u16) {
        let Self { dictionaries, counters, notices, .. } = self;
        let Some(incoming) = dictionaries.incoming.remove(&(source, service)) else { return };
        for conflict in dictionaries.add(&incoming.dictionary) {
            if dictionaries.reported.insert((conflict.fid, conflict.dropped.origin.clone())) {
                counters.dictionary_conflicts += 1;
                notices.push(Notice::DictionaryConflict { text: conflict.to_string() });
            }
        }
        if !(incoming.fields_done && incoming.enums_done) {
            dictionaries.incoming.insert((source, service), incoming);
        }
        self.dictionary_changed();
    }
}
