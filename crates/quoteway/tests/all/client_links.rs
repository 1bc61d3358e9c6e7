//! Applications that hold connections to several servers, each a process of its own, which are killed.

use client::images::{Condition, Images};
use client::publication::PublicationConfig;
use client::{Arrangement, Fields, Layout};
use client_io::{Publisher, Session, SessionConfig, Subscription};
use rwf::Primitive;
use rwf::dictionary::Dictionary;
use rwf::msg::MsgClass;
use std::time::{Duration, Instant};

use crate::chain::{From, Process, config_file, serve, start};

const PATIENCE: Duration = Duration::from_mins(1);
const FEED: &str = "FEED";
const ITEMS: usize = 200;

/// Two servers of one provider, which are killed and come back where they were. Both have the same id for the service, as warm standby by service
/// wants it.
struct Servers {
    provider: Publisher,
    config: tempfile::NamedTempFile,
    running: [Option<Process>; 2],
    ports: [u16; 2],
    values: Vec<f64>,
}

fn name(item: usize) -> String {
    format!("ITEM{item}")
}

impl Servers {
    fn new() -> Self {
        let provider = Publisher::listen(PublicationConfig::new(FEED), ([127, 0, 0, 1], 0).into()).expect("a port");
        let config = config_file("[p2ps]\nservice_ids = [\"FEED=300\"]\n");
        let address = provider.address().expect("an address").to_string();
        let values: Vec<f64> = (0..ITEMS).map(|item| item as f64).collect();
        for (item, value) in values.iter().enumerate() {
            provider.publish(&name(item), &[("BID", Primitive::Double(*value))]).expect("a field");
        }
        let arguments = ["--route", &address, "--config", config.path().to_str().expect("UTF-8")];
        let [(first, a), (second, b)] = [serve(&arguments), serve(&arguments)];
        Self { provider, config, running: [Some(first), Some(second)], ports: [a, b], values }
    }

    fn kill(&mut self, server: usize) {
        self.running[server] = None;
    }

    fn start(&mut self, server: usize) {
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
    fn change(&mut self, step: usize) {
        for (item, value) in self.values.iter_mut().enumerate().step_by(step) {
            *value += 1.0;
            self.provider.publish(&name(item), &[("BID", Primitive::Double(*value))]).expect("a field");
        }
    }

    fn session(&self, arrangement: Arrangement) -> Session {
        let list = self.ports.map(|port| format!("127.0.0.1:{port}")).join("|");
        let mut config = SessionConfig::new(&list, "user").expect("servers");
        config.client.arrangement = arrangement;
        for list in std::iter::once(&mut config.client.consumer.connections).chain(&mut config.client.beside) {
            (list.retry_min_ns, list.retry_max_ns) = (10_000_000, 50_000_000);
        }
        config.client.consumer.retry_ns = 10_000_000;
        Session::connect(config).expect("sockets")
    }
}

#[derive(Fields, Default)]
struct Quote {
    bid: Option<f64>,
}

/// The items of a session, as its application has them.
struct Watched {
    items: Subscription,
    images: Images,
    layout: Layout<Quote>,
    /// Statuses since they were counted last: here each says Suspect.
    suspects: usize,
}

impl Watched {
    fn bid(&self, item: usize) -> Option<f64> {
        let mut quote = Quote::default();
        self.layout.apply(&mut quote, self.images.payload(item as u32, &mut Vec::new())?).expect("fields");
        quote.bid
    }

    /// Applies what comes until all images are the provider's.
    fn catch_up(&mut self, values: &[f64], when: &str) {
        let end = Instant::now() + PATIENCE;
        let is_same = |watched: &Self| {
            (0..ITEMS).all(|item| {
                watched.images.condition(item as u32) == Condition::Ok && watched.bid(item) == Some(values[item])
            })
        };
        while !is_same(self) {
            assert!(Instant::now() < end, "{when}: images are not the provider's; {:?}", self.items);
            for message in self.items.next_batch(Some(Duration::from_millis(200))).expect("it goes on") {
                self.images.apply(&message);
                self.suspects += usize::from(message.class == MsgClass::STATUS);
            }
        }
    }
}

fn await_links(session: &Session, count: usize) {
    let ready =
        |status: &client_io::Status| status.links.iter().filter(|link| link.services == [FEED]).count() == count;
    let status = session.wait(PATIENCE, ready);
    assert!(ready(&status), "{status:?}");
}

fn live_through_kills(arrangement: Arrangement) {
    let mut servers = Servers::new();
    let session = servers.session(arrangement);
    await_links(&session, 2);
    let items = session.subscribe(FEED, (0..ITEMS).map(name)).expect("room");
    let layout = Layout::of(&Dictionary::builtin()).expect("a known field");
    let mut watched = Watched { items, images: Images::new(ITEMS, None), layout, suspects: 0 };
    watched.catch_up(&servers.values, "at first");
    let mut random = 7u32;
    for round in 0..5 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let killed = (random >> 16) as usize % 2;
        servers.change(2);
        servers.kill(killed);
        servers.change(3);
        watched.catch_up(&servers.values, &format!("round {round}, {killed} is killed"));
        servers.start(killed);
        servers.change(5);
        await_links(&session, 2);
        watched.catch_up(&servers.values, &format!("round {round}, {killed} is back"));
    }
    if arrangement == Arrangement::Routing {
        return;
    }
    // Where the standby has all items, nobody hears of a loss. When it has them nobody outside knows: so it gets more and more time, and one takeover counts.
    let is_quiet = (1..=12).any(|attempt| {
        let links = session.status().links;
        let serves = links.iter().position(|link| link.serves || !link.serves_in.is_empty()).expect("one serves");
        for _ in 0..attempt * attempt {
            servers.change(1);
            watched.catch_up(&servers.values, "the standby has time");
        }
        watched.suspects = 0;
        servers.kill(serves);
        servers.change(1);
        watched.catch_up(&servers.values, "a takeover");
        let suspects = watched.suspects;
        servers.start(serves);
        await_links(&session, 2);
        watched.catch_up(&servers.values, "both are there");
        suspects == 0
    });
    assert!(is_quiet, "Suspect was told at each takeover");
}

#[test]
fn items_are_routed_to_the_server_that_is_there() {
    live_through_kills(Arrangement::Routing);
}

#[test]
fn a_standby_by_login_takes_over() {
    live_through_kills(Arrangement::StandbyByLogin);
}

#[test]
fn a_standby_by_service_takes_over() {
    live_through_kills(Arrangement::StandbyByService);
}
