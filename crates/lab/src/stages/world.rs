//! The world of the stages: a provider with its load, clients with their watchlists, and the two sides of the hub joined in
//! memory, all images delivered.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use hub::distributor::{self, Origin, PeerInfo, ProviderSink, RouteConfig, SourceDistributor};
use hub::p2ps::{self, ClientId, ClientInfo, P2ps, SourceId};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, MsgClass, MsgKey, RequestFlags, RequestMsg};
use rwf::peek;
use rwf::wire::Writer;

use feed::pace::{Rate, Shape};
use feed::provider::{Provider, ProviderConfig, Session, SessionId};
use tools::consumer::{Consumer, Identity, Received};
use tools::sink_driven_src::catalogue::Catalogue;
use tools::sink_driven_src::load::{Load, LoadConfig};
use tools::sink_driven_src::order::Order;

/// The Source Distributor's only session, and the P2PS's only source.
pub const SESSION: distributor::SessionId = distributor::SessionId(0);
/// See [`SESSION`].
pub const SOURCE: SourceId = SourceId(0);
/// Stream of a client's first item.
const FIRST_STREAM: i32 = 5;
/// Rounds in which nothing moves before a world counts as stuck.
const IDLE_ROUNDS: u32 = 50;

/// What is measured: the load, and who watches it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Items.
    pub items: u32,
    /// Bytes of an update.
    pub size: usize,
    /// Clients.
    pub mounts: u32,
    /// Share of the items that all clients watch; each of the others is watched by one.
    pub common: f64,
}

impl Work {
    /// Whether some items are everybody's and others not: then their updates are mixed.
    fn is_mixed(&self) -> bool {
        self.mounts > 1 && self.common > 0.0 && self.common < 1.0
    }

    fn is_common(&self, item: u32) -> bool {
        let until = |n: u32| (f64::from(n) * self.common).floor();
        until(item + 1) > until(item)
    }

    /// Whether a client watches an item.
    fn watches(&self, client: u32, item: u32) -> bool {
        self.is_common(item) || item / 2 % self.mounts == client
    }

    /// How many clients watch an item.
    fn watchers(&self, item: u32) -> u32 {
        if self.is_common(item) { self.mounts } else { 1 }
    }

    /// The items of a client.
    pub fn watchlist(&self, client: u32) -> Vec<u32> {
        (0..self.items).filter(|item| self.watches(client, *item)).collect()
    }

    /// Streams of all clients together.
    pub fn streams(&self) -> usize {
        (0..self.mounts).map(|client| self.watchlist(client).len()).sum()
    }
}

/// The provider: answers as `sink-driven-src` does, and has its load.
pub struct Source {
    session: Session,
    load: Load,
    work: Work,
    /// By stream id: how many clients watch it.
    watchers: Vec<u32>,
}

impl Source {
    /// With updates of that size.
    ///
    /// # Errors
    /// There are none.
    pub fn new(work: &Work) -> anyhow::Result<Self> {
        let catalogue = Catalogue::reference(work.size, false).map_err(anyhow::Error::msg)?;
        let config = ProviderConfig { domains: catalogue.domains(), ..ProviderConfig::default() };
        let traffic = LoadConfig {
            shape: Shape::Smooth,
            rate: Rate::Max,
            stamps_per_second: 0.0,
            stamp_item: None,
            stamp_all: false,
            stamp_every: 0,
            // As the scenarios' source has it.
            order: if work.is_mixed() { Order::Random } else { Order::Opened },
        };
        Ok(Self {
            session: Session::new(SessionId(0), &Provider::new(config, Arc::new(Dictionary::builtin()))),
            load: Load::new(traffic, Arc::new(catalogue), 0),
            work: *work,
            watchers: Vec::new(),
        })
    }

    /// Answers a message of the Source Distributor.
    pub fn receive(&mut self, msg: &[u8], reply: &mut dyn FnMut(&[u8])) {
        if let Ok(Msg::Request(request)) = Msg::decode(msg)
            && let Ok(stream) = usize::try_from(request.stream_id)
            && let Some(item) = request.key.name_lossy().strip_prefix("RDT").and_then(|n| n.parse::<u32>().ok())
        {
            self.watchers.resize(self.watchers.len().max(stream + 1), 0);
            self.watchers[stream] = self.work.watchers(item);
        }
        self.session.message(&mut self.load, msg, reply);
    }

    /// So many updates, round over all items. Gives how many there were, and how often they are delivered.
    pub fn updates(&mut self, count: usize, mut push: impl FnMut(&[u8], i32)) -> (usize, usize) {
        let (mut sent, mut deliveries) = (0, 0);
        while sent < count {
            // Due messages are bounded by bytes.
            let bytes = (count - sent) * self.work.size;
            let pushed = self.load.push_due(net::clock::now(), bytes, |msg, stream| {
                deliveries += self.watchers.get(stream as usize).copied().unwrap_or(0) as usize;
                push(msg, stream);
            });
            if pushed == 0 {
                break;
            }
            sent += pushed as usize;
        }
        (sent, deliveries)
    }
}

/// A client: logs in, and opens its watchlist when the service is there.
pub struct Client {
    consumer: Consumer,
    watchlist: Vec<u32>,
    /// Images that it has got.
    pub images: usize,
}

impl Client {
    /// A client that will watch these items.
    pub fn new(watchlist: Vec<u32>) -> Self {
        let identity = Identity {
            user: "lab".to_owned(),
            application: "lab".to_owned(),
            service: ProviderConfig::default().service,
        };
        Self { consumer: Consumer::new(identity), watchlist, images: 0 }
    }

    /// The client's first message.
    pub fn begin(&mut self, reply: &mut dyn FnMut(&[u8])) {
        self.consumer.begin(0, reply);
    }

    /// Takes a message.
    pub fn receive(&mut self, msg: &[u8], reply: &mut dyn FnMut(&[u8])) {
        match self.consumer.receive(0, msg, reply) {
            Received::Item if peek::class(msg) == Some(MsgClass::REFRESH) => self.images += 1,
            Received::ServiceUp(service) => {
                for (stream, item) in (FIRST_STREAM..).zip(&self.watchlist) {
                    let name = format!("RDT{item}");
                    let request = RequestMsg {
                        flags: RequestFlags::STREAMING,
                        key: MsgKey { name_type: Some(1), ..MsgKey::item(service, name.as_bytes()) },
                        ..RequestMsg::new(Domain::MARKET_PRICE, stream)
                    };
                    let mut buffer = [0; 256];
                    let mut writer = Writer::new(&mut buffer);
                    if request.encode(&mut writer).is_ok() {
                        reply(writer.written());
                    }
                }
            }
            _ => {}
        }
    }
}

/// What the distributor sends to the provider.
#[derive(Default)]
pub struct Outbox(Vec<Vec<u8>>);

impl ProviderSink for Outbox {
    fn send(&mut self, _session: distributor::SessionId, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }

    fn close(&mut self, _session: distributor::SessionId, reason: &distributor::CloseReason) {
        tracing::error!("the stages' provider was closed: {reason}");
    }
}

/// Both sides of the hub in memory, with one P2PS that has all clients and one that watches next to nothing.
pub struct Hub {
    /// The side that faces the provider.
    pub distributor: SourceDistributor,
    /// What it has to say to the provider.
    pub outbox: Outbox,
    /// The side with the clients.
    pub watched: P2ps,
    /// A side whose only client watches the last item alone: what an update costs that nobody here wants.
    pub unwatched: P2ps,
}

impl Hub {
    /// Opens everything that `shape` says.
    ///
    /// # Errors
    /// Not all images come.
    pub fn open(shape: &Work, source: &mut Source) -> anyhow::Result<Self> {
        let routes = vec![RouteConfig::default()];
        let config =
            distributor::Config { routes, open_window: u32::MAX, opens_per_turn: u32::MAX, ..Default::default() };
        let p2ps =
            |id| P2ps::new(p2ps::Config { open_window: 0, opens_per_turn: u32::MAX, ..p2ps::Config::default() }, id);
        let mut hub = Self {
            distributor: SourceDistributor::new(config, 1),
            outbox: Outbox::default(),
            watched: p2ps(0),
            unwatched: p2ps(1),
        };
        let now = net::clock::now();
        for (id, side) in [&mut hub.watched, &mut hub.unwatched].into_iter().enumerate() {
            side.source_up(now, SOURCE);
            hub.distributor.p2ps_up(now, id as u16);
        }
        let peer = PeerInfo { address: "lab".to_owned() };
        hub.distributor.session_up(now, SESSION, Origin::Route(0), peer, &mut hub.outbox);
        let clients = (0..shape.mounts).map(|client| Client::new(shape.watchlist(client))).collect();
        hub.fill(0, clients, source, shape.streams())?;
        hub.fill(1, vec![Client::new(vec![shape.items - 1])], source, 1)?;
        Ok(hub)
    }

    /// Lets all talk until the clients of a side have their images.
    fn fill(&mut self, side: u16, mut clients: Vec<Client>, source: &mut Source, images: usize) -> anyhow::Result<()> {
        let mut now = net::clock::now();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for (id, client) in (0..).map(ClientId).zip(&mut clients) {
            let p2ps = self.side(side);
            p2ps.client_up(now, id, ClientInfo { address });
            client.begin(&mut |msg| {
                p2ps.client_message(now, id, msg);
            });
        }
        let mut idle = 0;
        while clients.iter().map(|c| c.images).sum::<usize>() < images {
            now += 1_000_000;
            idle = if self.exchange(now, side, &mut clients, source) { 0 } else { idle + 1 };
            if idle > IDLE_ROUNDS {
                let got: usize = clients.iter().map(|c| c.images).sum();
                anyhow::bail!("the stages' clients have {got} of {images} images and no more come");
            }
        }
        while self.exchange(now, side, &mut clients, source) {}
        // Timers were given a millisecond a round, which is more than has passed: what is measured goes by the clock again.
        std::thread::sleep(std::time::Duration::from_nanos(now.saturating_sub(net::clock::now())));
        Ok(())
    }

    fn side(&mut self, side: u16) -> &mut P2ps {
        if side == 0 { &mut self.watched } else { &mut self.unwatched }
    }

    /// One round of everybody; whether anything was said.
    fn exchange(&mut self, now: u64, side: u16, clients: &mut [Client], source: &mut Source) -> bool {
        let mut busy = false;
        let mut answers: Vec<Vec<u8>> = Vec::new();
        for msg in std::mem::take(&mut self.outbox.0) {
            source.receive(&msg, &mut |answer| answers.push(answer.to_vec()));
        }
        for answer in &answers {
            busy = true;
            self.distributor.session_message(now, SESSION, answer, &mut self.outbox);
        }
        self.distributor.on_timer(now, &mut self.outbox);
        let block = self.distributor.block().map(<[u8]>::to_vec).unwrap_or_default();
        self.distributor.clear_block();
        for (id, p2ps) in [(0, &mut self.watched), (1, &mut self.unwatched)] {
            if !block.is_empty() {
                busy = true;
                p2ps.hub_block(now, SOURCE, &block).expect("the distributor's own block");
            }
            let mut said: Vec<(ClientId, Vec<u8>)> = Vec::new();
            p2ps.flush(&block, |client, deliveries| {
                for (body, stream) in deliveries {
                    let mut msg = body.to_vec();
                    peek::set_stream_id(&mut msg, stream);
                    said.push((client, msg));
                }
            });
            let mut back = Vec::new();
            for (id_of, msg) in said.iter().filter(|_| id == side) {
                if let Some(client) = clients.get_mut(id_of.0 as usize) {
                    client.receive(msg, &mut |reply| back.push((*id_of, reply.to_vec())));
                }
            }
            for (client, msg) in &back {
                busy = true;
                p2ps.client_message(now, *client, msg);
            }
            if p2ps.timeout().is_some_and(|at| at <= now) {
                p2ps.on_timer(now);
            }
            p2ps.requests(|_, requests| {
                busy = true;
                self.distributor.request_block(now, id, requests, &mut self.outbox).expect("the P2PS's own requests");
            });
        }
        busy || !self.outbox.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_items_are_everybodys_and_the_others_one_clients() {
        let shape = Work { items: 100, size: 74, mounts: 10, common: 0.5 };
        assert_eq!(shape.streams(), 50 * 10 + 50);
        assert_eq!(Work { common: 1.0, mounts: 1, ..shape }.streams(), 100);
    }

    #[test]
    fn a_world_fills_itself_and_its_updates_reach_the_watchers() {
        let shape = Work { items: 40, size: 74, mounts: 4, common: 0.5 };
        let mut source = Source::new(&shape).unwrap();
        let mut hub = Hub::open(&shape, &mut source).unwrap();
        let now = net::clock::now();
        let (count, expected) = source.updates(40, |msg, stream| {
            let mut msg = msg.to_vec();
            peek::set_stream_id(&mut msg, stream);
            hub.distributor.session_message(now, SESSION, &msg, &mut hub.outbox);
        });
        let block = hub.distributor.block().unwrap().to_vec();
        hub.watched.hub_block(now, SOURCE, &block).unwrap();
        let mut delivered = 0;
        hub.watched.flush(&block, |_, deliveries| delivered += deliveries.len());
        assert_eq!((count, delivered, expected), (40, shape.streams(), shape.streams()));
    }
}
