//! A provider's side that answers as one would, and a consumer on the other end of a connection.

use omm::consumer::{Consumer, ConsumerConfig, Event, ItemId, ItemMessage};
use omm::provider::{self, Provider, ProviderConfig};
use omm::{ConnectionList, Server};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Load, Part, Service, ServiceState};
use rwf::wire::Writer;
use rwf::{DataState, DataType, FieldListEncoder, State, StateCode, StreamState};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(crate) const SECOND: u64 = 1_000_000_000;

pub(crate) fn service(id: u16, name: &str, open_window: Option<u64>) -> Service {
    let mut service = Service::new(id, Action::Add);
    let dictionaries = || vec!["RWFFld".to_owned(), "RWFEnum".to_owned()];
    service.info = Some(Part::Set(Info {
        name: name.to_owned(),
        capabilities: vec![Domain::MARKET_PRICE, Domain::DICTIONARY],
        dictionaries_provided: dictionaries(),
        dictionaries_used: dictionaries(),
        ..Info::default()
    }));
    service.state = Some(Part::Set(ServiceState::new(true)));
    service.load = open_window.map(|window| Part::Set(Load { open_window: Some(window), ..Load::default() }));
    service
}

pub(crate) fn state_change(id: u16, up: bool) -> Service {
    let mut service = Service::new(id, Action::Update);
    service.state = Some(Part::Set(ServiceState::new(up)));
    service
}

pub(crate) fn provider_config(services: Vec<Service>) -> ProviderConfig {
    let mut config =
        ProviderConfig { services, dictionary: Some(Arc::new(Dictionary::builtin())), ..ProviderConfig::default() };
    config.features.optimized_pause_resume = Some(true);
    config
}

pub(crate) fn consumer_config(servers: usize) -> ConsumerConfig {
    let servers = (0..servers).map(|n| Server::new(format!("server{n}"), 14_002)).collect();
    ConsumerConfig { dictionary: false, ..ConsumerConfig::new(ConnectionList::new(servers), "user") }
}

/// The payload that stands for a value of an item.
pub(crate) fn fields(value: u64) -> Vec<u8> {
    let mut buf = [0; 32];
    let mut w = Writer::new(&mut buf);
    let mut list = FieldListEncoder::begin(&mut w).unwrap();
    list.uint(22, value).unwrap();
    list.finish().unwrap();
    w.written().to_vec()
}

/// The value that a payload stands for.
pub(crate) fn value(body: &[u8]) -> u64 {
    let list = rwf::FieldList::decode(body, &rwf::SetScope::NONE).unwrap();
    let entry = list.entries().next().unwrap().unwrap();
    entry.value(DataType::UINT).unwrap().as_u64().unwrap()
}

/// An item, as the owner of a consumer knows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) value: Option<u64>,
    pub(crate) stale: bool,
    /// Its last state, if that was final.
    pub(crate) ended: Option<StreamState>,
    pub(crate) images: u32,
}

/// A consumer, the provider of its connection if it has one, and what its owner has been told.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) consumer: Consumer,
    pub(crate) config: Arc<ProviderConfig>,
    pub(crate) provider: Option<Provider>,
    /// Values by name; an item that is not there does not exist.
    pub(crate) values: BTreeMap<String, u64>,
    /// Requests that wait for their answer.
    pub(crate) owed: VecDeque<i32>,
    /// Answers at once.
    pub(crate) answers: bool,
    pub(crate) seen: BTreeMap<ItemId, Seen>,
    pub(crate) events: Vec<Event>,
    pub(crate) requests: u32,
    /// Largest number of requests that waited at a time.
    pub(crate) most_owed: usize,
}

impl World {
    pub(crate) fn new(consumer: ConsumerConfig, provider: ProviderConfig) -> Self {
        Self {
            now: SECOND,
            consumer: Consumer::new(consumer),
            config: Arc::new(provider),
            provider: None,
            values: BTreeMap::new(),
            owed: VecDeque::new(),
            answers: true,
            seen: BTreeMap::new(),
            events: Vec::new(),
            requests: 0,
            most_owed: 0,
        }
    }

    /// Connects if the consumer wants to; gives to which server.
    pub(crate) fn connect(&mut self) -> Option<String> {
        let host = self.consumer.poll_connect(self.now)?.host.clone();
        self.provider = Some(Provider::new(Arc::clone(&self.config)));
        self.consumer.handle_connected(self.now);
        Some(host)
    }

    pub(crate) fn disconnect(&mut self) {
        self.provider = None;
        self.owed.clear();
        self.consumer.handle_disconnected(self.now);
        self.take_events();
    }

    /// Lets both talk until both are silent.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut silent = true;
            while let Some(msg) = self.consumer.poll_transmit().map(<[u8]>::to_vec) {
                silent = false;
                self.at_provider(&msg);
            }
            let answers: Vec<Vec<u8>> = self
                .provider
                .iter_mut()
                .flat_map(|provider| std::iter::from_fn(|| provider.poll_transmit().map(<[u8]>::to_vec)))
                .collect();
            for msg in answers {
                silent = false;
                if let Some(given) = self.consumer.handle_message(self.now, &msg) {
                    self.take(given);
                }
                self.take_events();
                self.consumer.check_invariants();
            }
            if silent {
                return;
            }
        }
    }

    fn at_provider(&mut self, msg: &[u8]) {
        let Some(provider) = &mut self.provider else { return };
        provider.handle_message(msg);
        while let Some(event) = provider.poll_event() {
            match event {
                provider::Event::Login(request) => provider.accept_login(&request, ""),
                provider::Event::Open(asked) => {
                    self.requests += 1;
                    self.owed.push_back(asked.stream_id);
                }
                provider::Event::Reissue { asked, image: true } => self.owed.push_back(asked.stream_id),
                provider::Event::Close { stream_id } => self.owed.retain(|owed| *owed != stream_id),
                _ => {}
            }
        }
        self.most_owed = self.most_owed.max(self.owed.len());
        if self.answers {
            self.answer(usize::MAX);
        }
    }

    /// Answers the oldest requests.
    pub(crate) fn answer(&mut self, count: usize) {
        for _ in 0..count {
            let Some(stream_id) = self.owed.pop_front() else { return };
            let Some(provider) = &mut self.provider else { return };
            let Some(asked) = provider.stream(stream_id) else { continue };
            let (name, domain) = (String::from_utf8(asked.name.clone()).unwrap(), asked.domain);
            let Some(&value) = self.values.get(&name) else {
                let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, "no such item");
                provider.status(stream_id, state);
                continue;
            };
            let refresh = RefreshMsg {
                container: DataType::FIELD_LIST,
                flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE,
                state: State::OPEN_OK,
                group_id: &[0, 1],
                body: &fields(value),
                ..RefreshMsg::new(domain, stream_id)
            };
            assert!(provider.refresh(&refresh));
        }
    }

    /// Changes a value, and tells those who watch it.
    pub(crate) fn change(&mut self, name: &str, value: u64) {
        self.values.insert(name.to_owned(), value);
        let Some(provider) = &mut self.provider else { return };
        let watched =
            |provider: &Provider, id: i32| provider.stream(id).is_some_and(|asked| asked.name == name.as_bytes());
        let streams: Vec<i32> = self.seen.keys().map(|item| item.stream_id()).collect();
        for stream_id in streams.into_iter().filter(|&id| watched(provider, id)).collect::<Vec<_>>() {
            let body = fields(value);
            let update = UpdateMsg {
                container: DataType::FIELD_LIST,
                body: &body,
                ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id)
            };
            provider.update(&update);
        }
    }

    /// The state of a stream changes at the provider.
    pub(crate) fn status(&mut self, item: ItemId, state: State<'_>) -> bool {
        self.provider.as_mut().is_some_and(|provider| provider.status(item.stream_id(), state))
    }

    fn take(&mut self, given: ItemMessage<'_>) {
        let seen = self.seen.entry(given.item).or_default();
        assert_eq!(seen.ended, None, "a message after the end");
        match Msg::decode(given.msg).unwrap() {
            Msg::Refresh(refresh) => {
                seen.value = Some(value(refresh.body));
                seen.stale = refresh.state.data == DataState::SUSPECT;
                seen.images += 1;
                if refresh.state.stream != StreamState::OPEN {
                    seen.ended = Some(refresh.state.stream);
                }
            }
            Msg::Update(update) => {
                assert!(!seen.stale && seen.value.is_some(), "an update without an image");
                seen.value = Some(value(update.body));
            }
            Msg::Status(status) => seen.stale = status.state.is_some_and(|state| state.data == DataState::SUSPECT),
            other => panic!("{other:?}"),
        }
    }

    /// Takes what the consumer has to tell.
    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.consumer.poll_event() {
            if let Event::ItemState { item, state } = &event {
                let seen = self.seen.entry(*item).or_default();
                assert_eq!(seen.ended, None, "a state after the end");
                seen.stale = state.data == DataState::SUSPECT;
                if state.stream != StreamState::OPEN {
                    seen.ended = Some(state.stream);
                }
            }
            self.events.push(event);
        }
        self.consumer.check_invariants();
    }

    /// Time goes by.
    pub(crate) fn pass(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        self.consumer.handle_timeout(self.now);
        self.take_events();
        self.settle();
    }
}
