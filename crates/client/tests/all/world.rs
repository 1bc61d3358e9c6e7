//! A client, the application's side of its subscriptions, and the provider of its connection.

use client::images::{Condition, Images};
use client::queue::{Batch, Message, Queue, QueueConfig};
use client::{Client, ClientConfig, Delivery, Event, Interest, LinkId, SubscriptionId};
use omm::consumer::{ConsumerConfig, ItemRequest};
use omm::provider::{self, Asked, Provider, ProviderConfig, Upstream};
use omm::{ConnectionList, Server};
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::wire::Writer;
use rwf::{DataState, DataType, FieldList, FieldListEncoder, SetScope, State, StateCode, StreamState};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const SERVICE: &str = "FEED";

/// What an item is worth: two fields, so that an update changes a part of the image.
pub(crate) type Value = (u64, u64);

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

fn value(body: &[u8]) -> Value {
    let list = FieldList::decode(body, &SetScope::NONE).unwrap();
    let of = |fid: i16| {
        let entry = list.entries().flatten().find(|entry| entry.fid == fid)?;
        entry.value(DataType::UINT).unwrap().as_u64()
    };
    (of(1).unwrap(), of(2).unwrap())
}

/// A subscription as its application has it: the queue of the session's side, and the images of what was taken from it.
pub(crate) struct App {
    pub(crate) id: SubscriptionId,
    pub(crate) names: Vec<String>,
    pub(crate) queue: Queue,
    pub(crate) images: Images,
    /// Messages taken.
    pub(crate) taken: Vec<(u32, rwf::msg::MsgClass)>,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) client: Client,
    pub(crate) provider: Option<Provider>,
    pub(crate) config: Arc<ProviderConfig>,
    pub(crate) values: BTreeMap<String, Value>,
    pub(crate) apps: Vec<App>,
    pub(crate) events: Vec<Event>,
    /// Requests that the provider was asked.
    pub(crate) opened: Vec<String>,
    /// Images come in two parts.
    pub(crate) in_parts: bool,
    /// The second parts that are owed.
    owed: Vec<i32>,
}

fn service() -> Service {
    let mut service = Service::new(1, Action::Add);
    service.info = Some(Part::Set(Info {
        name: SERVICE.to_owned(),
        capabilities: vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST],
        ..Info::default()
    }));
    service.state = Some(Part::Set(ServiceState::new(true)));
    service
}

impl World {
    pub(crate) fn new() -> Self {
        let servers = vec![Server::new("a", 14_002), Server::new("b", 14_002)];
        let consumer = ConsumerConfig { dictionary: false, ..ConsumerConfig::new(ConnectionList::new(servers), "u") };
        let mut config = ProviderConfig { services: vec![service()], ..ProviderConfig::default() };
        config.features.optimized_pause_resume = Some(true);
        config.features.enhanced_symbol_list = Some(1);
        let config = Arc::new(config);
        Self {
            now: SECOND,
            client: Client::new(ClientConfig::new(consumer)),
            provider: None,
            config,
            values: BTreeMap::new(),
            apps: Vec::new(),
            events: Vec::new(),
            opened: Vec::new(),
            in_parts: false,
            owed: Vec::new(),
        }
    }

    pub(crate) fn subscribe(&mut self, names: &[&str], queue: QueueConfig, streaming: bool) -> usize {
        self.subscribe_to(names, queue, ItemRequest { streaming, ..ItemRequest::new(SERVICE, "") })
    }

    pub(crate) fn subscribe_to(&mut self, names: &[&str], queue: QueueConfig, request: ItemRequest) -> usize {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut early = Vec::new();
        let interest = Interest { request, names: names.clone() };
        let mut collect = |d: Delivery<'_>| early.push((d.subscription, d.item, d.class, d.is_final, d.msg.to_vec()));
        let id = self.client.subscribe(self.now, &interest, &mut collect).unwrap();
        let images = Images::new(names.len(), None);
        let queue = Queue::new(queue, names.len());
        self.apps.push(App { id, names, queue, images, taken: Vec::new() });
        for (subscription, item, class, is_final, msg) in early {
            deliver(&mut self.apps, self.now, Delivery { subscription, item, class, is_final, msg: &msg });
        }
        self.apps.len() - 1
    }

    pub(crate) fn unsubscribe(&mut self, app: usize) {
        let app = self.apps.remove(app);
        self.client.unsubscribe(self.now, app.id);
    }

    pub(crate) fn connect(&mut self) -> bool {
        if self.provider.is_some() || self.client.poll_connect(self.now, LinkId::FIRST).is_none() {
            return false;
        }
        self.provider = Some(Provider::new(Arc::clone(&self.config)));
        let Self { client, apps, now, .. } = self;
        client.handle_connected(*now, LinkId::FIRST, &mut |d| deliver(apps, *now, d));
        true
    }

    pub(crate) fn kill(&mut self) {
        if self.provider.take().is_none() {
            return;
        }
        self.owed.clear();
        let Self { client, apps, now, .. } = self;
        client.handle_disconnected(*now, LinkId::FIRST, &mut |d| deliver(apps, *now, d));
        self.take_events();
    }

    /// Further items of a subscription, which its symbol list names.
    pub(crate) fn extend_listed(&mut self, app: usize, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let interest = Interest { request: ItemRequest::new(SERVICE, ""), names: names.clone() };
        let App { id, queue, images, names: known, .. } = &mut self.apps[app];
        queue.grow(names.len());
        images.grow(names.len());
        known.extend(names);
        let id = *id;
        let Self { client, apps, now, .. } = self;
        client.extend_listed(*now, id, &interest, &mut |d| deliver(apps, *now, d)).unwrap().expect("it goes on");
        client.check_invariants();
    }

    /// A message of the server on the first link.
    pub(crate) fn say(&mut self, msg: &[u8]) {
        let Self { client, apps, now, .. } = self;
        client.handle_message(*now, LinkId::FIRST, msg, &mut |d| deliver(apps, *now, d));
        client.check_invariants();
        self.take_events();
    }

    /// An application pauses an item of its subscription, or goes on with it.
    pub(crate) fn pause(&mut self, app: usize, item: u32, is_paused: bool) {
        let Self { client, apps, now, .. } = self;
        let id = apps[app].id;
        assert!(client.pause((id, item), is_paused, &mut |d| deliver(apps, *now, d)));
        client.check_invariants();
    }

    /// An application asks for another view or priority.
    pub(crate) fn reissue(&mut self, app: usize, item: u32, change: impl FnOnce(&mut ItemRequest)) {
        let Self { client, apps, now, .. } = self;
        let id = apps[app].id;
        assert_eq!(client.reissue(*now, (id, item), change, &mut |d| deliver(apps, *now, d)), Ok(true));
        client.check_invariants();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
    }

    /// Both talk until they are silent, or `most` messages have passed.
    pub(crate) fn talk(&mut self, most: usize) {
        for _ in 0..most {
            if let Some(msg) = self.client.poll_transmit(LinkId::FIRST).map(<[u8]>::to_vec) {
                self.at_provider(&msg);
            } else if let Some(msg) = self.provider.as_mut().and_then(|p| p.poll_transmit().map(<[u8]>::to_vec)) {
                let Self { client, apps, now, .. } = self;
                client.handle_message(*now, LinkId::FIRST, &msg, &mut |d| deliver(apps, *now, d));
                client.check_invariants();
                self.take_events();
            } else {
                return;
            }
        }
    }

    fn at_provider(&mut self, msg: &[u8]) {
        let Some(provider) = &mut self.provider else { return };
        if let Some(Upstream::Post(post)) = provider.handle_message(msg) {
            provider.acknowledge(&post, None, "taken");
        }
        while let Some(event) = provider.poll_event() {
            match event {
                provider::Event::Login(request) => provider.accept_login(&request, ""),
                provider::Event::Open(asked) | provider::Event::Reissue { asked, image: true } => {
                    let name = String::from_utf8(asked.name.clone()).unwrap();
                    self.opened.push(name.clone());
                    let Some(&(a, b)) = self.values.get(&name) else {
                        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, "none");
                        provider.status(asked.stream_id, state);
                        continue;
                    };
                    let (whole, first) = (payload(&[(1, a), (2, b)]), payload(&[(1, a)]));
                    let is_part = self.in_parts;
                    let flags = if is_part { RefreshFlags::NONE } else { RefreshFlags::REFRESH_COMPLETE };
                    let refresh = RefreshMsg {
                        container: DataType::FIELD_LIST,
                        flags: flags | RefreshFlags::CLEAR_CACHE,
                        state: State::OPEN_OK,
                        part_num: is_part.then_some(0),
                        body: if is_part { &first } else { &whole },
                        ..RefreshMsg::new(Domain::MARKET_PRICE, asked.stream_id)
                    };
                    provider.refresh(&refresh);
                    if is_part {
                        self.owed.push(asked.stream_id);
                    }
                }
                provider::Event::Close { stream_id } => self.owed.retain(|owed| *owed != stream_id),
                _ => {}
            }
        }
    }

    /// The second parts of images.
    pub(crate) fn complete(&mut self) {
        for stream_id in std::mem::take(&mut self.owed) {
            let Some(provider) = &mut self.provider else { return };
            let Some(asked) = provider.stream(stream_id) else { continue };
            // Updates are not sent before an image is whole: the last part has what has changed since the first, too.
            let (a, b) = self.values[&String::from_utf8(asked.name.clone()).unwrap()];
            let body = payload(&[(1, a), (2, b)]);
            let refresh = RefreshMsg {
                container: DataType::FIELD_LIST,
                flags: RefreshFlags::REFRESH_COMPLETE,
                state: State::OPEN_OK,
                part_num: Some(1),
                body: &body,
                ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id)
            };
            provider.refresh(&refresh);
        }
    }

    /// A value changes: the provider tells all streams of the item that have their image.
    pub(crate) fn change(&mut self, name: &str, first: bool, number: u64) {
        let value = self.values.entry(name.to_owned()).or_default();
        let field = if first {
            value.0 = number;
            (1, number)
        } else {
            value.1 = number;
            (2, number)
        };
        let Some(provider) = &mut self.provider else { return };
        let body = payload(&[field]);
        for stream_id in 1..2_000 {
            let is_of = |asked: &Asked| asked.name == name.as_bytes() && !asked.paused;
            if provider.stream(stream_id).is_some_and(is_of) {
                let container = DataType::FIELD_LIST;
                provider.update(&UpdateMsg {
                    container,
                    body: &body,
                    ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id)
                });
            }
        }
    }

    /// The application takes what waits.
    pub(crate) fn take(&mut self, app: usize) {
        let App { id, queue, images, taken, .. } = &mut self.apps[app];
        let mut batch = Batch::default();
        loop {
            queue.refill(self.now, &mut Vec::new(), |item, out| self.client.write_image(*id, item, out));
            queue.take(&mut batch);
            if batch.is_empty() {
                return;
            }
            for message in batch.iter() {
                taken.push((message.item, message.class));
                images.apply(&message);
            }
        }
    }

    pub(crate) fn value(&self, app: usize, item: u32) -> Option<Value> {
        self.apps[app].images.payload(item, &mut Vec::new()).map(value)
    }

    pub(crate) fn condition(&self, app: usize, item: u32) -> Condition {
        self.apps[app].images.condition(item)
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        self.now += ns;
        let Self { client, apps, now, .. } = self;
        client.handle_timeout(*now, &mut |d| deliver(apps, *now, d));
        self.take_events();
    }

    /// Time goes by until all is said and taken.
    pub(crate) fn settle(&mut self) {
        for _ in 0..30 {
            self.connect();
            self.talk(usize::MAX);
            self.complete();
            self.talk(usize::MAX);
            self.pass(SECOND);
        }
        for app in 0..self.apps.len() {
            self.take(app);
        }
    }
}

fn deliver(apps: &mut [App], now: u64, d: Delivery<'_>) {
    let app = apps.iter_mut().find(|app| app.id == d.subscription).expect("a subscription that is there");
    let Delivery { item, class, is_final, msg, .. } = d;
    app.queue.put(Message { item, received_ns: now, class, is_final, msg });
}
