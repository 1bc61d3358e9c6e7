//! A client of several links, a server behind each, and the application's side. The servers get the same changes, each in its own time, and do what a
//! server of warm standby does (RDM usage guide): one that stands by sends images and no updates, and one that begins to serve sends an image of
//! each item first.

use client::images::{Condition, Images};
use client::queue::Message;
use client::{Arrangement, Client, ClientConfig, Delivery, Event, Interest, LinkId, SubscriptionId};
use omm::consumer::{ConsumerConfig, ItemRequest};
use omm::provider::{self, Provider, ProviderConfig, Upstream};
use omm::{ConnectionList, Server};
use rwf::msg::{Domain, Msg, MsgClass, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::rdm::directory::{Action, ConsumerStatus, Info, Part, Service, ServiceState};
use rwf::rdm::login::{self, ConnectionStatus};
use rwf::wire::Writer;
use rwf::{DataState, DataType, FieldList, FieldListEncoder, SetScope, State, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const SERVICES: [&str; 2] = ["FEED", "OTHER"];

/// Service and name.
pub(crate) type Name = (u16, String);

/// The number of changes of an item, and what the last one says.
type Value = (u64, u64);

pub(crate) fn payload(fields: &[(i16, u64)]) -> Vec<u8> {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    let mut list = FieldListEncoder::begin(&mut w).unwrap();
    for (fid, value) in fields {
        list.uint(*fid, *value).unwrap();
    }
    list.finish().unwrap();
    w.written().to_vec()
}

fn field(body: &[u8], fid: i16) -> Option<u64> {
    let list = FieldList::decode(body, &SetScope::NONE).unwrap();
    let entry = list.entries().flatten().find(|entry| entry.fid == fid)?;
    entry.value(DataType::UINT).unwrap().as_u64()
}

/// Knowledge of warm standby that servers have, and what they do of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// All that is asked of them.
    Knows,
    /// Nothing: updates come whatever they are told.
    Ignorant,
    /// Servers say that they know it, and send no image when they begin to serve.
    Forgets,
}

/// A server.
pub(crate) struct Site {
    pub(crate) provider: Option<Provider>,
    pub(crate) is_alive: bool,
    pub(crate) values: BTreeMap<Name, Value>,
    /// Changes of the world that it has.
    at: usize,
    /// Stands by, in services.
    pub(crate) stands_by: BTreeSet<u16>,
    down: BTreeSet<u16>,
    /// What it was told of its part.
    pub(crate) told: Vec<(Option<u16>, u64)>,
    /// Streams with an image that is whole at the client.
    imaged: BTreeSet<i32>,
    /// Streams of which a second part is owed.
    owed: Vec<i32>,
    /// Items asked for.
    pub(crate) opened: Vec<String>,
    pub(crate) posts: usize,
    /// Closes what is asked for, for now.
    pub(crate) is_busy: bool,
}

/// A subscription of one service, as its application has it.
pub(crate) struct App {
    pub(crate) id: SubscriptionId,
    pub(crate) names: Vec<Name>,
    pub(crate) images: Images,
    /// The change that the image of each item has.
    changes: Vec<Option<u64>>,
    pub(crate) classes: Vec<(u32, MsgClass)>,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) client: Client,
    pub(crate) sites: Vec<Site>,
    manner: Manner,
    pub(crate) apps: Vec<App>,
    pub(crate) events: Vec<Event>,
    pub(crate) in_parts: bool,
    /// All changes, in order.
    changes: Vec<(Name, Value)>,
}

fn service(id: u16, up: bool) -> Service {
    let mut service = Service::new(id, Action::Add);
    let name = SERVICES[usize::from(id) - 1].to_owned();
    service.info = Some(Part::Set(Info {
        name,
        capabilities: vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST],
        ..Info::default()
    }));
    service.state = Some(Part::Set(ServiceState::new(up)));
    service
}

impl World {
    pub(crate) fn new(sites: usize, arrangement: Arrangement, manner: Manner) -> Self {
        Self::with_room(sites, arrangement, manner, usize::MAX)
    }

    /// A world in which each link has room for so many items.
    pub(crate) fn with_room(sites: usize, arrangement: Arrangement, manner: Manner, items_max: usize) -> Self {
        let list = |n: usize| ConnectionList::new(vec![Server::new(format!("s{n}"), 14_002)]);
        let consumer = ConsumerConfig { dictionary: false, items_max, ..ConsumerConfig::new(list(0), "u") };
        let beside = (1..sites).map(list).collect();
        let config = ClientConfig { beside, arrangement, ..ClientConfig::new(consumer) };
        let site = || Site {
            provider: None,
            is_alive: true,
            values: BTreeMap::new(),
            at: 0,
            stands_by: BTreeSet::new(),
            down: BTreeSet::new(),
            told: Vec::new(),
            imaged: BTreeSet::new(),
            owed: Vec::new(),
            opened: Vec::new(),
            posts: 0,
            is_busy: false,
        };
        Self {
            now: SECOND,
            client: Client::new(config),
            sites: (0..sites).map(|_| site()).collect(),
            manner,
            apps: Vec::new(),
            events: Vec::new(),
            in_parts: false,
            changes: Vec::new(),
        }
    }

    fn link(&self, site: usize) -> LinkId {
        self.client.links().nth(site).expect("a link for each site")
    }

    pub(crate) fn subscribe(&mut self, service: u16, names: &[&str], streaming: bool) -> usize {
        self.try_subscribe(service, names, streaming).expect("room")
    }

    /// `None`: the link that is asked has no room.
    pub(crate) fn try_subscribe(&mut self, service: u16, names: &[&str], streaming: bool) -> Option<usize> {
        self.try_subscribe_to(service, names, |request| request.streaming = streaming)
    }

    /// Likewise, of a request that is changed.
    pub(crate) fn try_subscribe_to(
        &mut self,
        service: u16,
        names: &[&str],
        change: impl FnOnce(&mut ItemRequest),
    ) -> Option<usize> {
        let mut request = ItemRequest::new(SERVICES[usize::from(service) - 1], "");
        change(&mut request);
        let texts: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let interest = Interest { request, names: texts.clone() };
        let mut early = Vec::new();
        let mut collect = |d: Delivery<'_>| early.push((d.subscription, d.item, d.class, d.is_final, d.msg.to_vec()));
        let Ok(id) = self.client.subscribe(self.now, &interest, &mut collect) else {
            assert!(early.is_empty(), "nothing is told of what was not opened");
            self.check();
            return None;
        };
        let names: Vec<Name> = texts.into_iter().map(|name| (service, name)).collect();
        let images = Images::new(names.len(), None);
        self.apps.push(App { id, changes: vec![None; names.len()], names, images, classes: Vec::new() });
        for (subscription, item, class, is_final, msg) in early {
            deliver(&mut self.apps, Delivery { subscription, item, class, is_final, msg: &msg });
        }
        Some(self.apps.len() - 1)
    }

    /// Further items of a subscription, which its symbol list names.
    pub(crate) fn extend_listed(&mut self, app: usize, names: &[&str]) {
        let App { id, names: known, images, changes, .. } = &mut self.apps[app];
        let service = known[0].0;
        images.grow(names.len());
        changes.resize(known.len() + names.len(), None);
        known.extend(names.iter().map(|name| (service, (*name).to_owned())));
        let id = *id;
        let request = ItemRequest::new(SERVICES[usize::from(service) - 1], "");
        let interest = Interest { request, names: names.iter().map(|name| (*name).to_owned()).collect() };
        let Self { client, apps, now, .. } = self;
        client.extend_listed(*now, id, &interest, &mut |d| deliver(apps, d)).unwrap().expect("it goes on");
        self.check();
    }

    /// A message of a server that its provider does not know of.
    pub(crate) fn say(&mut self, site: usize, msg: &[u8]) {
        let link = self.link(site);
        let Self { client, apps, now, .. } = self;
        client.handle_message(*now, link, msg, &mut |d| deliver(apps, d));
        self.check();
    }

    pub(crate) fn unsubscribe(&mut self, app: usize) {
        let app = self.apps.remove(app);
        self.client.unsubscribe(self.now, app.id);
    }

    /// Gives whether a connection was made, or refused.
    pub(crate) fn connect(&mut self, site: usize) -> bool {
        let link = self.link(site);
        if self.sites[site].provider.is_some() || self.client.poll_connect(self.now, link).is_none() {
            return false;
        }
        let knows = self.manner != Manner::Ignorant;
        let features = login::Features {
            batch: Some(login::batch::REQUESTS),
            standby: knows.then_some(true),
            standby_mode: knows.then_some(3),
            enhanced_symbol_list: Some(1),
            ..login::Features::default()
        };
        let Self { client, apps, now, sites, .. } = self;
        let site = &mut sites[site];
        if site.is_alive {
            let services = (1..=2).map(|id| service(id, !site.down.contains(&id))).collect();
            site.provider =
                Some(Provider::new(Arc::new(ProviderConfig { services, features, ..ProviderConfig::default() })));
            client.handle_connected(*now, link, &mut |d| deliver(apps, d));
        } else {
            client.handle_disconnected(*now, link, &mut |d| deliver(apps, d));
        }
        self.check();
        true
    }

    /// The connection is lost; `alive`: the server can be connected to again.
    pub(crate) fn kill(&mut self, site: usize, alive: bool) {
        let link = self.link(site);
        let Self { client, apps, now, sites, .. } = self;
        let site = &mut sites[site];
        site.is_alive = alive;
        if site.provider.take().is_none() {
            return;
        }
        site.stands_by.clear();
        site.imaged.clear();
        site.owed.clear();
        client.handle_disconnected(*now, link, &mut |d| deliver(apps, d));
        self.check();
        if self.sites.iter().all(|site| site.provider.is_none()) {
            for app in &self.apps {
                for item in 0..app.names.len() as u32 {
                    assert_ne!(app.images.condition(item), Condition::Ok, "an item without a connection");
                }
            }
        }
    }

    /// A service goes down, or comes up.
    pub(crate) fn set_service(&mut self, site: usize, id: u16, up: bool) {
        let site = &mut self.sites[site];
        if up {
            site.down.remove(&id)
        } else {
            site.down.insert(id)
        };
        let Some(provider) = &mut site.provider else { return };
        let mut change = Service::new(id, Action::Update);
        change.state = Some(Part::Set(ServiceState::new(up)));
        provider.change_service(&change);
    }

    /// A server closes all streams of an item for now.
    pub(crate) fn close_for_now(&mut self, site: usize, name: &Name) {
        for stream_id in self.sites[site].streams_of(name) {
            let Some(provider) = &mut self.sites[site].provider else { return };
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "busy");
            provider.status(stream_id, state);
            self.sites[site].forget(stream_id);
        }
    }

    fn check(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
        self.client.check_invariants();
    }

    /// All talk until they are silent, or `most` messages have passed.
    pub(crate) fn talk(&mut self, most: usize) {
        let mut left = most;
        loop {
            let mut said = false;
            for site in 0..self.sites.len() {
                said |= left > 0 && self.talk_once(site);
                left = left.saturating_sub(1);
            }
            if !said {
                return;
            }
        }
    }

    pub(crate) fn talk_once(&mut self, site: usize) -> bool {
        let link = self.link(site);
        if let Some(msg) = self.client.poll_transmit(link).map(<[u8]>::to_vec) {
            self.at_site(site, &msg);
            return true;
        }
        let provider = self.sites[site].provider.as_mut();
        let Some(msg) = provider.and_then(|provider| provider.poll_transmit().map(<[u8]>::to_vec)) else {
            return false;
        };
        let Self { client, apps, now, .. } = self;
        client.handle_message(*now, link, &msg, &mut |d| deliver(apps, d));
        self.check();
        true
    }

    fn at_site(&mut self, site: usize, msg: &[u8]) {
        let (manner, in_parts) = (self.manner, self.in_parts);
        let site = &mut self.sites[site];
        if let Ok(Msg::Generic(generic)) = Msg::decode(msg) {
            if let Ok(Some(status)) = ConnectionStatus::decode(&generic) {
                let mode = status.warm_standby.expect("a mode").mode;
                site.told.push((None, mode));
                (1..=2).for_each(|id| site.assume(id, mode == 1, manner));
                return;
            }
            if let Ok(Some(status)) = ConsumerStatus::decode(&generic) {
                for service in status.services {
                    let mode = service.warm_standby.expect("a mode");
                    site.told.push((Some(service.service_id), mode));
                    site.assume(service.service_id, mode == 1, manner);
                }
                return;
            }
        }
        let Some(provider) = &mut site.provider else { return };
        if let Some(Upstream::Post(post)) = provider.handle_message(msg) {
            provider.acknowledge(&post, None, "taken");
            site.posts += 1;
        }
        while let Some(event) = site.provider.as_mut().and_then(Provider::poll_event) {
            match event {
                provider::Event::Login(request) => {
                    site.provider.as_mut().expect("it is there").accept_login(&request, "");
                }
                provider::Event::Open(asked) => {
                    let name = (asked.service, String::from_utf8(asked.name.clone()).unwrap());
                    site.opened.push(name.1.clone());
                    site.image(asked.stream_id, &name, in_parts);
                }
                provider::Event::Reissue { asked, image: true } => {
                    let name = (asked.service, String::from_utf8(asked.name.clone()).unwrap());
                    site.image(asked.stream_id, &name, in_parts);
                }
                provider::Event::Close { stream_id } => site.forget(stream_id),
                _ => {}
            }
        }
    }

    /// A value changes at the source; each server has it in its own time.
    pub(crate) fn change(&mut self, name: &Name) {
        let last = self.changes.iter().rev().find(|(changed, _)| changed == name).map_or(0, |(_, value)| value.0);
        let number = last + 1;
        self.changes.push((name.clone(), (number, number * 10)));
    }

    /// A server hears of changes, `most` of them.
    pub(crate) fn feed(&mut self, site: usize, most: usize) {
        let site = &mut self.sites[site];
        let upto = self.changes.len().min(site.at.saturating_add(most));
        for (name, value) in &self.changes[site.at..upto] {
            site.values.insert(name.clone(), *value);
            for stream_id in site.streams_of(name) {
                if site.imaged.contains(&stream_id) && !site.stands_by.contains(&name.0) {
                    let body = payload(&[(1, value.0), (2, value.1)]);
                    let provider = site.provider.as_mut().expect("one with streams");
                    provider.update(&UpdateMsg {
                        container: DataType::FIELD_LIST,
                        body: &body,
                        ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id)
                    });
                }
            }
        }
        site.at = upto;
    }

    /// The second parts of images that are under way.
    pub(crate) fn complete(&mut self, site: usize) {
        let site = &mut self.sites[site];
        for stream_id in std::mem::take(&mut site.owed) {
            let Some(provider) = &mut site.provider else { return };
            let Some(asked) = provider.stream(stream_id) else { continue };
            let name = (asked.service, String::from_utf8(asked.name.clone()).unwrap());
            let (number, value) = site.values[&name];
            let refresh = RefreshMsg {
                container: DataType::FIELD_LIST,
                flags: RefreshFlags::REFRESH_COMPLETE,
                state: State::OPEN_OK,
                part_num: Some(1),
                body: &payload(&[(1, number), (2, value)]),
                ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id)
            };
            provider.refresh(&refresh);
            site.imaged.insert(stream_id);
        }
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        self.now += ns;
        let Self { client, apps, now, .. } = self;
        client.handle_timeout(*now, &mut |d| deliver(apps, d));
        self.check();
    }

    /// Everybody is well, and time goes by until all is said.
    pub(crate) fn settle(&mut self) {
        for _ in 0..40 {
            for site in 0..self.sites.len() {
                self.connect(site);
                self.feed(site, usize::MAX);
            }
            self.talk(usize::MAX);
            (0..self.sites.len()).for_each(|site| self.complete(site));
            self.talk(usize::MAX);
            self.pass(SECOND);
        }
    }

    pub(crate) fn value(&self, app: usize, item: u32) -> Option<u64> {
        self.apps[app].images.payload(item, &mut Vec::new()).and_then(|body| field(body, 2))
    }

    pub(crate) fn condition(&self, app: usize, item: u32) -> Condition {
        self.apps[app].images.condition(item)
    }

    /// Streams that a server has open.
    pub(crate) fn streams(&self, site: usize) -> usize {
        self.sites[site].provider.as_ref().map_or(0, Provider::streams)
    }
}

impl Site {
    fn streams_of(&self, name: &Name) -> Vec<i32> {
        let Some(provider) = &self.provider else { return Vec::new() };
        let is_it = |id: &i32| {
            let asked = provider.stream(*id);
            asked.is_some_and(|asked| asked.service == name.0 && asked.name == name.1.as_bytes())
        };
        (1..3_000).filter(is_it).collect()
    }

    fn forget(&mut self, stream_id: i32) {
        self.imaged.remove(&stream_id);
        self.owed.retain(|owed| *owed != stream_id);
    }

    /// Sends an image, or the first part of one.
    fn image(&mut self, stream_id: i32, name: &Name, in_parts: bool) {
        let Some(provider) = &mut self.provider else { return };
        self.imaged.remove(&stream_id);
        self.owed.retain(|owed| *owed != stream_id);
        if self.is_busy {
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "busy");
            provider.status(stream_id, state);
            return;
        }
        let Some(&(number, value)) = self.values.get(name) else {
            let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, "none");
            provider.status(stream_id, state);
            return;
        };
        let flags = if in_parts { RefreshFlags::NONE } else { RefreshFlags::REFRESH_COMPLETE };
        let fields = [(1, number), (2, value)];
        let refresh = RefreshMsg {
            container: DataType::FIELD_LIST,
            flags: flags | RefreshFlags::CLEAR_CACHE,
            state: State::OPEN_OK,
            part_num: in_parts.then_some(0),
            body: &payload(if in_parts { &fields[..1] } else { &fields }),
            ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id)
        };
        provider.refresh(&refresh);
        if in_parts {
            self.owed.push(stream_id);
        } else {
            self.imaged.insert(stream_id);
        }
    }

    /// The server is told its part in a service.
    fn assume(&mut self, service: u16, stands_by: bool, manner: Manner) {
        let stood_by = self.stands_by.contains(&service);
        if stands_by {
            self.stands_by.insert(service);
        } else if stood_by {
            self.stands_by.remove(&service);
            if manner != Manner::Knows {
                return;
            }
            let Some(provider) = &self.provider else { return };
            let open = self.imaged.iter().filter_map(|id| Some((*id, provider.stream(*id)?)));
            let open = open.filter(|(_, asked)| asked.service == service);
            let open: Vec<(i32, Name)> =
                open.map(|(id, asked)| (id, (service, String::from_utf8(asked.name.clone()).unwrap()))).collect();
            for (stream_id, name) in open {
                self.image(stream_id, &name, false);
            }
        }
    }
}

/// What is given fits: an update is the change behind that of the image, and nothing lies between.
fn deliver(apps: &mut [App], d: Delivery<'_>) {
    let app = apps.iter_mut().find(|app| app.id == d.subscription).expect("a subscription that is there");
    let Delivery { item, class, is_final, msg, .. } = d;
    app.classes.push((item, class));
    let before = app.images.condition(item);
    app.images.apply(&Message { item, received_ns: 0, class, is_final, msg });
    let number = rwf::peek::body(msg).filter(|body| !body.is_empty()).and_then(|body| field(body, 1));
    let change = &mut app.changes[item as usize];
    match (class, number) {
        (MsgClass::UPDATE, Some(number)) => {
            let is_next = change.is_some_and(|last| last + 1 == number);
            assert!(
                is_next || before == Condition::Suspect,
                "change {number} behind {change:?}, which is said to be good"
            );
            *change = Some(number);
        }
        (MsgClass::REFRESH, Some(number)) => *change = Some(number),
        _ => {}
    }
}
