//! Everything at once, at random: on a network of hosts providers, Source Distributors, daemons and P2PSs are killed, frozen and cut off
//! while the network loses up to 30 % of its datagrams, and clients come that are fast, stalled, gone at once, malformed or hostile. In
//! between, everything is let go on, and each image of each watcher has to be the provider's.
//!
//! `QUOTEWAY_CHAOS_SECONDS` says how long (two minutes without it), `QUOTEWAY_SEED` repeats a schedule, `QUOTEWAY_CHAOS_TRANSPORT` (`LbtRm`,
//! `AeronExternal`; [`Join`]) has all rounds over one transport: without it the seed draws one. `make chaos` is this.
//!
//! With the feature `aeron` there are more transports to draw from, so that a seed means another schedule than without.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use measure::process::Process;
use net::udp::{UdpOptions, UdpSocket};

use crate::hosts::Lan;
use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::security::{KEY, key_line};
use crate::hub::site::{Join, Site, Tuning, network};
use crate::hub::watcher::Watcher;

const ITEMS: usize = 20;
/// Hosts by what is on them.
const HOSTS: [&str; 3] = ["feed", "distributors", "consumers"];
/// Ways to join Source Distributors and P2PSs of different hosts.
const JOINS: &[Join] = &[
    Join::LbtRm,
    Join::Rrcpd,
    Join::LbtRu,
    Join::Tcp,
    Join::LbtRmDirect,
    #[cfg(feature = "aeron")]
    Join::AeronUnicast,
    #[cfg(feature = "aeron")]
    Join::AeronDestinations,
    #[cfg(feature = "aeron")]
    Join::AeronMulticast,
    #[cfg(feature = "aeron")]
    Join::AeronExternal,
];
/// Processes that are clients of no use, at a time.
const GUESTS: usize = 4;

struct Chaos {
    random: u64,
    lan: Lan,
    provider: Counting,
    site: Site,
    /// One for each P2PS.
    watchers: Vec<Watcher>,
    frozen: Vec<bool>,
    cut: [bool; 2],
    guests: Vec<Guest>,
    network: Vec<String>,
    script: Vec<String>,
    _files: tempfile::TempDir,
}

/// A client that does no good.
struct Guest {
    _process: Process,
    id: String,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A stopped process has to be let go before it can be ended in order.
        let _ = Command::new("kill").args(["-CONT", &self.id]).status();
    }
}

impl Chaos {
    fn new(seed: u64) -> Option<Self> {
        let lan = Lan::new(&HOSTS)?;
        let files = tempfile::tempdir().expect("a folder");
        let place = |name: &str| Place::from(lan.host(name));
        let mut chaos_random = seed | 1;
        let drawn = JOINS[draw(&mut chaos_random, JOINS.len() as u64) as usize];
        let join = wanted_join().unwrap_or(drawn);
        let network = network();
        let key = if draw(&mut chaos_random, 2) == 0 { key_line(files.path(), KEY) } else { String::new() };
        let script = vec![format!("{join:?}{}", if key.is_empty() { "" } else { " with a key" })];
        let tuning = Tuning { hub: key, network: Some(network.clone()), ..Tuning::default() };
        let provider = Counting::start(&place("feed"));
        let routes = [provider.addr];
        let site = Site::tuned(join, &tuning, (&place("distributors"), &place("consumers")), &[&routes, &routes], 2);
        let count = site.distributors.len() + site.p2pss.len() + site.relays.len();
        let watchers = (0..2).map(|n| watch(&place("consumers"), &site, n)).collect();
        Some(Self {
            random: chaos_random,
            lan,
            provider,
            site,
            watchers,
            frozen: vec![false; count],
            cut: [false; 2],
            guests: Vec::new(),
            network,
            script,
            _files: files,
        })
    }

    fn place(&self, name: &str) -> Place {
        Place::from(self.lan.host(name))
    }

    fn draw(&mut self, below: u64) -> u64 {
        draw(&mut self.random, below)
    }

    fn note(&mut self, what: String) {
        self.script.push(what);
    }

    fn act(&mut self) {
        let number = self.draw(self.frozen.len() as u64) as usize;
        match self.draw(12) {
            0 => self.restart(number),
            1 | 2 => self.freeze_or_thaw(number),
            3 => {
                self.note("provider restarts".into());
                let place = self.place("feed");
                self.provider.restart(&place);
            }
            4 | 5 => self.lose(),
            6 => self.cut_or_rejoin(),
            7 => self.come_and_go(),
            8 | 9 => self.invite(),
            10 => self.send_nonsense(),
            _ => self.forge(),
        }
        let pause = [20, 100, 400, 1_300][self.draw(4) as usize];
        std::thread::sleep(Duration::from_millis(pause));
    }

    fn restart(&mut self, number: usize) {
        self.note(format!("restart {number}"));
        // A process on a host that is cut off starts all the same; but what it waits for at its start must be there.
        self.rejoin();
        self.frozen[number] = false;
        self.site.part(number).restart();
        if number < self.watchers.len() {
            self.watchers[number] = watch(&self.place("consumers"), &self.site, number);
        }
    }

    fn freeze_or_thaw(&mut self, number: usize) {
        let frozen = self.frozen[number];
        self.note(format!("{} {number}", if frozen { "thaw" } else { "freeze" }));
        self.frozen[number] = !frozen;
        if frozen { self.site.part(number).thaw() } else { self.site.part(number).freeze() }
    }

    fn lose(&mut self) {
        let (host, percent) = (HOSTS[1 + self.draw(2) as usize], self.draw(31) as u32);
        self.note(format!("{host} loses {percent} %"));
        self.lan.host(host).lose(percent);
    }

    fn cut_or_rejoin(&mut self) {
        let at = self.draw(2) as usize;
        let host = HOSTS[1 + at];
        self.note(format!("{host} is {}", if self.cut[at] { "back" } else { "cut off" }));
        self.cut[at] = !self.cut[at];
        if self.cut[at] { self.lan.host(host).cut_off() } else { self.lan.host(host).rejoin() }
    }

    fn rejoin(&mut self) {
        for (at, host) in HOSTS[1..].iter().enumerate() {
            if std::mem::take(&mut self.cut[at]) {
                self.lan.host(host).rejoin();
            }
        }
    }

    /// A client that opens and leaves in the midst of it.
    fn come_and_go(&mut self) {
        let p2ps = self.draw(2) as usize;
        self.note(format!("a client comes to {p2ps} and goes"));
        let passing = watch(&self.place("consumers"), &self.site, p2ps);
        std::thread::sleep(Duration::from_millis(50));
        drop(passing);
    }

    /// A client program that stays, reads as fast as it can or not at all.
    fn invite(&mut self) {
        let (p2ps, stalled) = (self.draw(2) as usize, self.draw(2) == 0);
        self.note(format!("a {} client at {p2ps}", if stalled { "stalled" } else { "fast" }));
        if self.guests.len() >= GUESTS {
            let oldest = self.guests.remove(0);
            drop(oldest);
        }
        let addr = self.site.rssl(p2ps);
        let (host, port) = (addr.ip().to_string(), addr.port().to_string());
        let args = ["test-client", "-h", &host, "-p", &port, "-S", "COUNT", "-il", "ITEM0,ITEM1,ITEM2"];
        let process = self.lan.host("consumers").start("guest", env!("CARGO_BIN_EXE_quoteway"), &args);
        let id = process.id().to_string();
        if stalled {
            std::thread::sleep(Duration::from_millis(300));
            let _ = Command::new("kill").args(["-STOP", &id]).status();
        }
        self.guests.push(Guest { _process: process, id });
    }

    /// Bytes that are no protocol, to the ports of all.
    fn send_nonsense(&mut self) {
        let kind = self.draw(3);
        self.note(format!("nonsense {kind}"));
        let mut ports: Vec<SocketAddr> = (0..2).map(|n| self.site.rssl(n)).collect();
        ports.extend(self.site.distributors.iter().map(|d| d.addr("hub=")));
        let bytes: Vec<u8> = match kind {
            0 => (0..5_000).map(|_| self.draw(256) as u8).collect(),
            1 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            // The beginning of a handshake, and then nothing.
            _ => vec![0, 64, 0, 0],
        };
        let sender = self.place("consumers").spawn("nonsense", move || {
            for port in ports {
                if let Ok(mut stream) = TcpStream::connect_timeout(&port, Duration::from_millis(200)) {
                    let _ = stream.write_all(&bytes);
                }
            }
        });
        sender.join().expect("no panic");
    }

    /// Datagrams that look like those of the hub's groups.
    fn forge(&mut self) {
        self.note("forged datagrams".into());
        let value = |name: &str| -> String {
            let line = self.network.iter().find(|line| line.contains(name)).expect("an option");
            line.split(' ').next_back().expect("a value").to_owned()
        };
        let to = |address: &str, port: &str| format!("{}:{}", value(address), value(port)).parse().expect("an address");
        let targets = [
            to("resolver_multicast_address", "resolver_multicast_port"),
            to("source transport_lbtrm_multicast_address", "source transport_lbtrm_destination_port"),
        ];
        let kinds: [&[u8]; 3] = [&[0, 0, 0, 1], &[2, 0], &[0, 0]];
        let mut packets: Vec<Vec<u8>> = Vec::new();
        for i in 0..200u32 {
            let mut packet = kinds[i as usize % 3].to_vec();
            if i % 3 == 0 {
                let [.., c, d] = i.to_be_bytes();
                packet.extend_from_slice(b"quoteway.hub.quoteway\0\x10\x10\0\x3c\0\0\0\x01");
                packet.extend_from_slice(&[10, 77, 0, 99, 239, 99, c, d, 0, 0, c, d, 0x70, 0, 0x60, 0]);
            } else {
                packet.extend((0..22).map(|_| self.draw(256) as u8));
            }
            packets.push(packet);
        }
        let address = self.lan.host("consumers").address;
        let sender = self.place("consumers").spawn("forger", move || {
            let options = UdpOptions { multicast_interface: Some(address), ..UdpOptions::default() };
            let Ok(mut socket) = UdpSocket::bind(std::net::SocketAddrV4::new(address, 0), &options) else { return };
            for packet in &packets {
                for target in targets {
                    let _ = socket.send(Some(target), packet);
                }
            }
        });
        sender.join().expect("no panic");
    }

    /// All is let go on; then each image is the provider's.
    fn rest(&mut self) {
        self.note("rest".into());
        self.rejoin();
        for host in &HOSTS[1..] {
            self.lan.host(host).lose(0);
        }
        for number in 0..self.frozen.len() {
            if self.frozen[number] {
                self.freeze_or_thaw(number);
            }
        }
        for (number, watcher) in self.watchers.iter_mut().enumerate() {
            // A watcher whose connection was cut by the fault comes back as another, as clients do.
            if watcher.look(|v| v.ended.is_some()) {
                *watcher = watch(&Place::from(self.lan.host("consumers")), &self.site, number);
            }
        }
        for watcher in &self.watchers {
            watcher.wait_all_ok();
            watcher.wait_updates(3);
            watcher.settle(&self.provider);
            assert_eq!(watcher.look(|v| v.items.len()), ITEMS);
        }
    }
}

/// The transport of all rounds, where one is wanted.
fn wanted_join() -> Option<Join> {
    let name = std::env::var("QUOTEWAY_CHAOS_TRANSPORT").ok()?;
    let join = Join::named(&name).filter(|join| JOINS.contains(join));
    Some(join.unwrap_or_else(|| panic!("QUOTEWAY_CHAOS_TRANSPORT is {name}: one of {JOINS:?}")))
}

/// xorshift: any number below `below`.
fn draw(random: &mut u64, below: u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random % below
}

fn watch(place: &Place, site: &Site, number: usize) -> Watcher {
    let watcher = Watcher::connect(place, &format!("watcher {number}"), site.rssl(number));
    if site.distributors.len() > 1 {
        watcher.has_several_sources();
    }
    watcher.open(&names(ITEMS));
    watcher
}

/// A failed run says how it went.
impl Drop for Chaos {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what was done: {}", self.script.join(", "));
        }
    }
}

#[test]
fn everything_at_once() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("QUOTEWAY_SEED");
    let seconds = number("QUOTEWAY_CHAOS_SECONDS").unwrap_or(120);
    let begun = Instant::now();
    let mut round = 0;
    // Each round is a network and a schedule of its own, so that its seed repeats it.
    while begun.elapsed() < Duration::from_secs(seconds) {
        let seed = seed.unwrap_or_else(|| {
            (u64::from(std::process::id()) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(round * 0x5851_F42D)
        });
        println!("round {round}: QUOTEWAY_SEED={seed}");
        let Some(mut chaos) = Chaos::new(seed) else { return };
        chaos.rest();
        for _ in 0..4 {
            for _ in 0..3 + chaos.draw(6) {
                chaos.act();
            }
            chaos.rest();
        }
        println!("{}", chaos.script.join(", "));
        round += 1;
    }
}
