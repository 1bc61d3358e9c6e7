//! P2PSs of a hub tell each other where clients reach them and how full they are; clients that ask at login hear of it, and of changes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use net::tcp::{ConnId, SocketOptions};
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg};
use rwf::rdm::login;
use rwf::wire::Writer;

use crate::hub::PATIENCE;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site, Tuning};

/// Of the directory and of other servers alike; four clients are a quarter.
const P2PS: &str = "enable_connect_config = true\nload_factor_interval_s = 1\nmax_mounts = 16\n";

/// A client that asks at login which servers there are.
struct Asking {
    io: RsslIo,
    conn: ConnId,
    told: Seen,
}

/// The last list that it was sent: places with their load factors in quarters of sixteenths, and how often.
#[derive(Default)]
struct Seen {
    opened: bool,
    servers: Vec<(String, u64)>,
    unasked: u32,
}

impl Asking {
    fn connect(addr: SocketAddr) -> Self {
        let (mut io, options) = (RsslIo::new(1).expect("descriptors"), SocketOptions::default());
        let conn = io.connect(net::clock::now(), addr, &options, Arc::new(ClientConfig::default()), None);
        let mut asking = Self { io, conn: conn.expect("a socket"), told: Seen::default() };
        asking.until("the connection", |told| told.opened);
        let request =
            login::Request { name: "test".to_owned(), download_connection_config: Some(true), ..Default::default() };
        let mut buffer = [0; 512];
        let mut writer = Writer::new(&mut buffer);
        request.encode(&mut writer).expect("room");
        asking.io.send(net::clock::now(), asking.conn, |packer| packer.push(writer.written(), None));
        asking.until("an answer", |told| !told.servers.is_empty());
        asking
    }

    /// Turns until it was told so.
    fn until(&mut self, what: &str, so: impl Fn(&Seen) -> bool) {
        let begun = Instant::now();
        while !so(&self.told) {
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {:?}", self.told.servers);
            let deadline = net::clock::now() + 100_000_000;
            self.io.turn(Some(deadline), &mut self.told).expect("sockets");
        }
    }

    /// Turns until it was told of these servers, in this order, with these sixteenths of load.
    fn until_told(&mut self, servers: &[(SocketAddr, u64)]) {
        let wanted: Vec<_> = servers.iter().map(|(at, step)| (at.to_string(), 65_535 * step / 16)).collect();
        self.until(&format!("{wanted:?}"), |told| told.servers == wanted);
    }
}

impl Handler for Seen {
    fn opened(&mut self, _: u64, _: ConnId, _: &Opened<'_>) {
        self.opened = true;
    }

    fn message(&mut self, _: u64, _: ConnId, msg: &[u8]) {
        match Msg::decode(msg).expect("a message") {
            Msg::Refresh(refresh) if refresh.domain == Domain::LOGIN => {
                let refresh = login::Refresh::decode(&refresh).expect("a login");
                self.unasked += u32::from(!refresh.solicited);
                let servers = refresh.connection_config.expect("servers").servers;
                let place = |s: login::Server| (format!("{}:{}", s.host, s.port), s.load_factor.unwrap_or(u64::MAX));
                self.servers = servers.into_iter().map(place).collect();
            }
            other => panic!("{other:?}"),
        }
    }

    fn closed(&mut self, _: u64, _: ConnId, ended: &Ended) {
        panic!("closed: {}", ended.why);
    }
}

fn p2pss_come_and_go(join: Join) {
    let place = Place::Here;
    let provider = Counting::start(&place);
    let tuning = Tuning { p2ps: P2PS, ..Tuning::default() };
    let mut site = Site::tuned(join, &tuning, (&place, &place), &[&[provider.addr]], 2);
    let (first, second) = (site.rssl(0), site.rssl(1));
    let mut asking = Asking::connect(first);
    asking.until_told(&[(second, 0), (first, 1)]);
    let mut others: Vec<_> = (0..4).map(|_| Asking::connect(second)).collect();
    asking.until_told(&[(first, 1), (second, 4)]);
    others[0].until_told(&[(first, 1), (second, 4)]);
    drop(others);
    asking.until_told(&[(second, 0), (first, 1)]);

    site.p2pss[1].kill();
    asking.until_told(&[(first, 1)]);
    site.p2pss[1].restart();
    asking.until_told(&[(second, 0), (first, 1)]);
    let ctl = |site: &Site, what: &str| {
        let web = site.p2pss[1].addr("http=http://").to_string();
        place.run(&["ctl", "--at", &web, what, "--why", "a test"]);
    };
    ctl(&site, "drain");
    asking.until_told(&[(first, 1)]);
    ctl(&site, "undrain");
    asking.until_told(&[(second, 0), (first, 1)]);

    // While there is no Source Distributor who else is there is not known: what was known stays, and is right when there is one again.
    let unasked = asking.told.unasked;
    site.distributors[0].restart();
    let mut late = Asking::connect(first);
    late.until_told(&[(second, 0), (first, 2)]);
    drop(late);
    asking.until("its own load", |told| told.unasked > unasked && told.servers[1].1 == 65_535 / 16);
    assert_eq!(asking.told.servers.len(), 2);
}

#[test]
fn p2pss_come_and_go_over_tcp() {
    p2pss_come_and_go(Join::Tcp);
}

#[test]
fn p2pss_come_and_go_over_multicast() {
    p2pss_come_and_go(Join::LbtRm);
}
