//! Servers of one provider as processes that are killed and come back where they were, and the items of a session as its application has them.

use client::images::{Condition, Images};
use client::publication::{Event, PublicationConfig};
use client::queue::{Message, QueueConfig};
use client::{Arrangement, Fields, Interest, Layout};
use client_io::{Publisher, Session, SessionConfig, Subscription};
use omm::consumer::ItemRequest;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, MsgClass, StatusMsg};
use rwf::wire::encode_growing;
use rwf::{DataState, DataType, MapAction, MapEncoder, MapHead, Primitive};
use std::time::{Duration, Instant};

use crate::chain::{From, Process, config_file, serve, start};

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
pub(crate) const FEED: &str = "FEED";

pub(crate) fn name(item: usize) -> String {
    format!("ITEM{item}")
}

/// Servers of one provider. All have the same id for the service, as warm standby by service wants it.
pub(crate) struct Servers {
    provider: Publisher,
    config: tempfile::NamedTempFile,
    running: Vec<Option<Process>>,
    ports: Vec<u16>,
    /// Each item's value: one more with each change, so that an update that is missing shows.
    pub(crate) values: Vec<f64>,
    /// Items that servers have open.
    wanted: usize,
}

impl Servers {
    pub(crate) fn new(count: usize, items: usize) -> Self {
        let domains = vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST];
        let publication = PublicationConfig { domains, ..PublicationConfig::new(FEED) };
        let provider = Publisher::listen(publication, ([127, 0, 0, 1], 0).into()).expect("a port");
        let config = config_file("[p2ps]\nservice_ids = [\"FEED=300\"]\n");
        let address = provider.address().expect("an address").to_string();
        let values: Vec<f64> = (0..items).map(|item| item as f64).collect();
        for (item, value) in values.iter().enumerate() {
            provider.publish(&name(item), &[("BID", Primitive::Double(*value))]).expect("a field");
        }
        let arguments = ["--route", &address, "--config", config.path().to_str().expect("UTF-8")];
        let (running, ports) = (0..count).map(|_| serve(&arguments)).map(|(server, port)| (Some(server), port)).unzip();
        Self { provider, config, running, ports, values, wanted: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.running[server].is_some()
    }

    pub(crate) fn kill(&mut self, server: usize) {
        self.running[server] = None;
    }

    pub(crate) fn start(&mut self, server: usize) {
        let (address, port) =
            (self.provider.address().expect("an address").to_string(), self.ports[server].to_string());
        let config = self.config.path().to_str().expect("UTF-8");
        let arguments = [
            ["serve", "--interface", "127.0.0.1", "--rssl-port", &port],
            ["--nip-port", "0", "--route", &address, "--config"],
        ]
        .concat();
        self.running[server] = Some(start(&[&arguments[..], &[config]].concat(), &From::Output, "ready "));
    }

    /// Every `step`th item changes.
    pub(crate) fn change(&mut self, step: usize) {
        for (item, value) in self.values.iter_mut().enumerate().step_by(step) {
            *value += 1.0;
            self.provider.publish(&name(item), &[("BID", Primitive::Double(*value))]).expect("a field");
        }
    }

    /// Publishes a symbol list that names all items.
    pub(crate) fn list(&self, list: &str) {
        let mut body = Vec::new();
        let end = encode_growing(&mut body, 0, 4_096, 1 << 20, |w| {
            let mut map = MapEncoder::begin(w, MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA))?;
            for item in 0..self.values.len() {
                map.entry(MapAction::ADD, &Primitive::Ascii(name(item).as_bytes()), |_| Ok(()))?;
            }
            map.finish()
        });
        body.truncate(end.expect("room"));
        self.provider.publish_image(Domain::SYMBOL_LIST, list, DataType::MAP, &body).expect("it goes on");
    }

    /// Takes what the provider has to tell: which items are wanted.
    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.provider.next_event(Duration::ZERO) {
            self.note(&event);
        }
        assert_eq!(self.provider.status().events_lost, 0, "events are taken in time");
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Wanted(_) => self.wanted += 1,
            Event::Unwanted(_) => self.wanted -= 1,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until no server has an item open any more.
    pub(crate) fn await_unwanted(&mut self) {
        while self.wanted > 0 {
            let event = self.provider.next_event(PATIENCE).expect("items are closed");
            self.note(&event);
        }
    }

    /// Waits until the provider has so many connections.
    pub(crate) fn await_connections(&self, count: usize) {
        let status = self.provider.wait(PATIENCE, |status| status.connections == count);
        assert_eq!(status.connections, count, "connections of the provider");
    }

    pub(crate) fn address(&self, server: usize) -> String {
        format!("127.0.0.1:{}", self.ports[server])
    }

    /// A session with all servers, by a text between their addresses.
    pub(crate) fn session(&self, arrangement: Arrangement, between: &str) -> Session {
        let all: Vec<String> = (0..self.count()).map(|server| self.address(server)).collect();
        let mut config = SessionConfig::new(&all.join(between), "user").expect("servers");
        config.client.arrangement = arrangement;
        for list in std::iter::once(&mut config.client.consumer.connections).chain(&mut config.client.beside) {
            (list.retry_min_ns, list.retry_max_ns) = (10_000_000, 50_000_000);
        }
        config.client.consumer.retry_ns = 10_000_000;
        Session::connect(config).expect("sockets")
    }
}

#[derive(Fields, Default)]
pub(crate) struct Quote {
    pub(crate) bid: Option<f64>,
}

/// The value of an item as it was told last.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    bid: Option<f64>,
    is_suspect: bool,
}

/// The items of a session, as its application has them. What is told is held against what may be: the next update behind an image or update is one
/// more, unless Suspect was told, behind which an image comes first.
pub(crate) struct Watched {
    pub(crate) items: Subscription,
    images: Images,
    layout: Layout<Quote>,
    known: Vec<Known>,
    /// Statuses since they were counted last: here each says Suspect.
    pub(crate) suspects: usize,
}

impl Watched {
    pub(crate) fn new(session: &Session, count: usize, queue: QueueConfig) -> Self {
        let names = (0..count).map(name).collect();
        let interest = Interest { request: ItemRequest::new(FEED, ""), names };
        Self {
            items: session.subscribe_to(interest, queue).expect("room"),
            images: Images::new(count, None),
            layout: Layout::of(&Dictionary::builtin()).expect("a known field"),
            known: vec![Known::default(); count],
            suspects: 0,
        }
    }

    fn bid(&self, body: &[u8]) -> Option<f64> {
        let mut quote = Quote::default();
        self.layout.apply(&mut quote, body).expect("fields");
        quote.bid
    }

    fn note(&mut self, message: &Message<'_>) {
        let item = message.item as usize;
        let known = self.known[item];
        let body = rwf::peek::body(message.msg).unwrap_or_default();
        self.known[item] = match message.class {
            MsgClass::UPDATE => {
                let bid = self.bid(body);
                assert!(!known.is_suspect && known.bid.is_some(), "{}: an update without an image", name(item));
                assert_eq!(bid, known.bid.map(|bid| bid + 1.0), "{}: a gap that nobody told", name(item));
                Known { bid, ..known }
            }
            MsgClass::REFRESH => {
                let Ok(Msg::Refresh(refresh)) = Msg::decode(message.msg) else { panic!("a refresh") };
                Known { bid: self.bid(body), is_suspect: refresh.state.data == DataState::SUSPECT }
            }
            MsgClass::STATUS => {
                self.suspects += 1;
                assert!(!message.is_final, "{}: closed", name(item));
                match Msg::decode(message.msg) {
                    Ok(Msg::Status(StatusMsg { state: Some(state), .. })) => {
                        Known { is_suspect: state.data == DataState::SUSPECT, ..known }
                    }
                    _ => known,
                }
            }
            _ => known,
        };
    }

    /// Applies what waits, or what comes in a time. Gives whether there was something.
    pub(crate) fn take(&mut self, timeout: Duration) -> bool {
        // The messages lie in the subscription, which is looked at while they are.
        let mut batch: Vec<(u32, MsgClass, bool, u64, Vec<u8>)> = Vec::new();
        for message in self.items.next_batch(Some(timeout)).expect("it goes on") {
            self.images.apply(&message);
            batch.push((message.item, message.class, message.is_final, message.received_ns, message.msg.to_vec()));
        }
        for (item, class, is_final, received_ns, msg) in &batch {
            let message = Message { item: *item, class: *class, is_final: *is_final, received_ns: *received_ns, msg };
            self.note(&message);
        }
        !batch.is_empty()
    }

    fn is_same(&self, values: &[f64]) -> bool {
        let room = &mut Vec::new();
        values.iter().enumerate().all(|(item, value)| {
            // The image that is held is looked at when what was told is right, which costs less.
            self.known[item].bid == Some(*value)
                && self.images.condition(item as u32) == Condition::Ok
                && self.images.payload(item as u32, room).is_some_and(|body| self.bid(body) == Some(*value))
        })
    }

    /// Applies what comes until all images are the provider's.
    pub(crate) fn catch_up(&mut self, values: &[f64], when: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.is_same(values) {
            assert!(Instant::now() < end, "{when}: images are not the provider's; {:?}", self.items);
            self.take(Duration::from_millis(200));
        }
    }
}

pub(crate) fn await_links(session: &Session, count: usize) {
    let ready =
        |status: &client_io::Status| status.links.iter().filter(|link| link.services == [FEED]).count() == count;
    let status = session.wait(PATIENCE, ready);
    assert!(ready(&status), "{status:?}");
}
