//! A non-interactive provider: it dials in and publishes what it likes, on stream ids below zero.

use super::content::{
    Change, DOMAINS, Item, NAMES, PUBLISHED, SERVICES, Truth, body, bytes_of, container, seq_num, update_type,
};
use super::provider::changes;
use super::random::Random;
use rwf::msg::{CloseMsg, Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::rdm::directory::{self, Action, Info, Part, ServiceState};
use rwf::rdm::login;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::{BTreeMap, VecDeque};

/// An item that is published.
#[derive(Debug)]
struct Published {
    stream: i32,
    suspect: bool,
    /// Parts of an image still to come: set and cells.
    rest: Option<(u32, u16, VecDeque<Vec<super::content::Cell>>)>,
}

/// The provider.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) distributor: usize,
    pub(crate) session: u32,
    pub(crate) up: bool,
    pub(crate) ready: bool,
    pub(crate) life: u16,
    service_id: u16,
    items: BTreeMap<Item, Published>,
    next_stream: i32,
    pub(crate) incoming: VecDeque<Vec<u8>>,
    pub(crate) outbox: VecDeque<Vec<u8>>,
}

/// Names that are published; others are not found.
const PUBLISHABLE: usize = 4;

impl Publisher {
    pub(crate) fn new(distributor: usize, session: u32) -> Self {
        Self {
            distributor,
            session,
            up: false,
            ready: false,
            life: 0,
            service_id: 0,
            items: BTreeMap::new(),
            next_stream: -1,
            incoming: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Dials in, in another life, and logs in.
    pub(crate) fn start(&mut self, session: u32, truth: &mut Truth, random: &mut Random) {
        *self = Self::new(self.distributor, session);
        self.up = true;
        self.life = truth.begin_life();
        self.service_id = random.below(500) as u16;
        let request = login::Request { name: "publisher".into(), role: Some(1), ..login::Request::default() };
        self.send(|w| request.encode(w));
    }

    pub(crate) fn stop(&mut self) {
        self.up = false;
        self.ready = false;
        self.items.clear();
        self.incoming.clear();
        self.outbox.clear();
    }

    fn send(&mut self, encode: impl FnOnce(&mut rwf::wire::Writer<'_>) -> Result<(), rwf::EncodeError>) {
        self.outbox.push_back(bytes_of(encode));
    }

    /// The items that it publishes now, whole and good.
    pub(crate) fn has(&self, item: Item) -> bool {
        self.items.get(&item).is_some_and(|published| !published.suspect && published.rest.is_none())
    }

    pub(crate) fn receive(&mut self) -> bool {
        let Some(bytes) = self.incoming.pop_front() else { return false };
        match Msg::decode(&bytes).expect("a distributor sends messages") {
            Msg::Refresh(refresh) if refresh.domain == Domain::LOGIN => {
                let refresh = login::Refresh::decode(&refresh).expect("a login refresh");
                assert_eq!(refresh.name, "publisher");
                self.ready = true;
                // As little as EMA's own default directory says.
                let info = Info {
                    name: SERVICES[usize::from(PUBLISHED)].into(),
                    capabilities: vec![Domain::MARKET_PRICE],
                    ..Info::default()
                };
                let state = ServiceState { up: true, accepting_requests: Some(true), status: None };
                let entry = directory::Service {
                    info: Some(Part::Set(info)),
                    state: Some(Part::Set(state)),
                    ..directory::Service::new(self.service_id, Action::Add)
                };
                let request = directory::Request { stream_id: -1, streaming: true, service_id: None, filter: 63 };
                let mut refresh = directory::Refresh::answer(&request, vec![entry]);
                refresh.solicited = false;
                self.next_stream = -2;
                self.send(|w| refresh.encode(w));
            }
            // The publisher hears what consumers have to say on its streams.
            Msg::Generic(_) => {}
            other => panic!("publisher got {other:?}"),
        }
        true
    }

    pub(crate) fn act(&mut self, truth: &mut Truth, random: &mut Random) -> bool {
        if !self.ready {
            return false;
        }
        let item = Item {
            service: PUBLISHED,
            domain: DOMAINS[random.below(DOMAINS.len())].0,
            name: NAMES[random.below(PUBLISHABLE)],
        };
        if self.items.get(&item).is_some_and(|published| published.rest.is_some()) {
            if random.chance(30) {
                self.update(item, truth, random);
            } else {
                self.send_part(item, truth);
            }
            return true;
        }
        if !self.items.contains_key(&item) {
            let stream = self.new_stream();
            self.publish(item, stream, truth, random);
            return true;
        }
        match random.below(30) {
            0..=2 => {
                let stream = self.items[&item].stream;
                self.publish(item, stream, truth, random);
            }
            3 => {
                let stream = self.new_stream();
                self.publish(item, stream, truth, random);
            }
            4 => self.set_state(item, !self.items[&item].suspect),
            5 => self.end(item, random),
            _ => self.update(item, truth, random),
        }
        true
    }

    fn new_stream(&mut self) -> i32 {
        self.next_stream -= 1;
        self.next_stream
    }

    fn key<'a>(&self, item: Item) -> MsgKey<'a> {
        MsgKey { name_type: Some(1), ..MsgKey::item(self.service_id, item.name.as_bytes()) }
    }

    fn publish(&mut self, item: Item, stream: i32, truth: &mut Truth, random: &mut Random) {
        let set = truth.new_set(true);
        let rows = &truth.versions(self.life, item).last().expect("a version").rows;
        let cells: Vec<_> = rows.keys().copied().collect();
        let parts = if random.chance(60) { 1 } else { 2 };
        let each = cells.len().div_ceil(parts).max(1);
        let mut rest: VecDeque<Vec<_>> = VecDeque::new();
        for cell in cells {
            // The cells of a row stay together.
            match rest.back_mut() {
                Some(part)
                    if part.len() < each
                        || item.is_map() && part.last().is_some_and(|l: &(u32, i16)| l.0 == cell.0) =>
                {
                    part.push(cell);
                }
                _ => rest.push_back(vec![cell]),
            }
        }
        if rest.is_empty() {
            rest.push_back(Vec::new());
        }
        self.items.insert(item, Published { stream, suspect: false, rest: Some((set, 0, rest)) });
        self.send_part(item, truth);
    }

    fn send_part(&mut self, item: Item, truth: &mut Truth) {
        let key = self.key(item);
        let life = self.life;
        let published = self.items.get_mut(&item).expect("an item");
        let Some((set, part, rest)) = published.rest.as_mut() else { return };
        let versions = truth.versions(life, item);
        let version = (versions.len() - 1) as u16;
        let rows = &versions.last().expect("a version").rows;
        let cells = rest.pop_front().unwrap_or_default();
        let changes: Vec<Change> = cells.iter().filter_map(|cell| Some(Change::Set(*cell, *rows.get(cell)?))).collect();
        let (first, last) = (*part == 0, rest.is_empty());
        let body = body(item, &changes, true);
        let set = set.to_be_bytes();
        let mut flags = RefreshFlags::NONE;
        flags.set(RefreshFlags::REFRESH_COMPLETE, last);
        flags.set(RefreshFlags::CLEAR_CACHE, first);
        let refresh = RefreshMsg {
            container: container(item),
            flags,
            seq_num: Some(seq_num(life, version)),
            state: State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, "P: published"),
            part_num: (!(first && last)).then_some(*part),
            key: Some(key),
            ext_header: Some(&set),
            body: &body,
            ..RefreshMsg::new(Domain(item.domain), published.stream)
        };
        let bytes = bytes_of(|w| refresh.encode(w));
        *part += 1;
        if last {
            published.rest = None;
        }
        self.outbox.push_back(bytes);
    }

    fn update(&mut self, item: Item, truth: &mut Truth, random: &mut Random) {
        let rows = truth.versions(self.life, item).last().expect("a version").rows.clone();
        let changes = changes(item, &rows, random);
        let version = truth.change(self.life, item, changes.clone());
        let body = body(item, &changes, false);
        let update = UpdateMsg {
            container: container(item),
            seq_num: Some(seq_num(self.life, version)),
            key: random.chance(50).then(|| self.key(item)),
            update_type: update_type(version),
            body: &body,
            ..UpdateMsg::new(Domain(item.domain), self.items[&item].stream)
        };
        self.send(|w| update.encode(w));
    }

    fn set_state(&mut self, item: Item, suspect: bool) {
        let published = self.items.get_mut(&item).expect("an item");
        published.suspect = suspect;
        let stream = published.stream;
        let data = if suspect { DataState::SUSPECT } else { DataState::OK };
        let state = State::new(StreamState::OPEN, data, StateCode::NONE, "P: still item");
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(item.domain), stream) };
        self.send(|w| status.encode(w));
    }

    fn end(&mut self, item: Item, random: &mut Random) {
        let stream = self.items.remove(&item).expect("an item").stream;
        if random.chance(30) {
            let close = CloseMsg::new(Domain(item.domain), stream);
            self.send(|w| close.encode(w));
            return;
        }
        let end = if random.chance(50) { StreamState::CLOSED } else { StreamState::CLOSED_RECOVER };
        let state = State::new(end, DataState::SUSPECT, StateCode::NONE, "P: end");
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(item.domain), stream) };
        self.send(|w| status.encode(w));
    }

    /// Publishes everything that it has not published whole and good.
    pub(crate) fn heal(&mut self, truth: &mut Truth, random: &mut Random) {
        if !self.ready {
            return;
        }
        for domain in DOMAINS {
            for &name in &NAMES[..PUBLISHABLE] {
                let item = Item { service: PUBLISHED, domain: domain.0, name };
                while self.items.get(&item).is_some_and(|published| published.rest.is_some()) {
                    self.send_part(item, truth);
                }
                if !self.has(item) {
                    let stream = self.items.get(&item).map(|published| published.stream);
                    let stream = stream.unwrap_or_else(|| self.new_stream());
                    self.publish(item, stream, truth, random);
                    while !self.has(item) {
                        self.send_part(item, truth);
                    }
                }
            }
        }
    }

    /// The publisher's service in this life: id and name.
    pub(crate) fn service_names(&self) -> BTreeMap<u16, String> {
        BTreeMap::from([(self.service_id, SERVICES[usize::from(PUBLISHED)].to_owned())])
    }

    /// Items published, whole or not.
    pub(crate) fn count(&self) -> usize {
        self.items.len()
    }
}
