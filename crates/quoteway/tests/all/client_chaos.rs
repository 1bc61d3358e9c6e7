//! Sessions of 10,000 items each at servers that are killed at random: each image is the provider's in the end, every gap is told, and no thread,
//! descriptor or memory is left behind.
//!
//! `QUOTEWAY_CLIENT_CHAOS_SECONDS` says how long (15 without it), `QUOTEWAY_SEED` repeats a schedule. `make chaos-clients` is this.

use client::Arrangement;
use client::queue::{Overflow, QueueConfig};
use client_io::Session;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client_servers::{PATIENCE, Servers, Watched, await_links};

const ITEMS: usize = 10_000;
const SERVERS: usize = 3;
/// Actions between two times of rest.
const ROUND: usize = 12;
/// Rounds of the same sessions.
const ROUNDS: usize = 3;
/// Most that a process may have grown since the larger part of its sessions' lives, bytes: what an allocator keeps depends on what has met before. What
/// sessions of one life hold is more than a third of it.
const GROWTH_MAX: u64 = 48 << 20;

/// Threads and descriptors of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resources {
    threads: usize,
    descriptors: usize,
}

impl Resources {
    fn now() -> Self {
        let count = |folder: &str| std::fs::read_dir(folder).expect("of this process").count();
        Self { threads: count("/proc/self/task"), descriptors: count("/proc/self/fd") }
    }
}

/// Memory of this process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("of this process");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4_096
}

/// Sessions of every kind, with their items.
struct Sessions(Vec<(Session, Vec<Watched>)>);

impl Sessions {
    fn new(servers: &Servers) -> Self {
        let wait = QueueConfig::default();
        let latest = QueueConfig { limit_bytes: 1 << 20, overflow: Overflow::Latest };
        let kinds = [
            (Arrangement::Routing, ",", wait),
            (Arrangement::Routing, ",", latest),
            (Arrangement::Routing, "|", wait),
            (Arrangement::StandbyByLogin, "|", wait),
        ];
        let open = |(arrangement, between, queue)| {
            let session = servers.session(arrangement, between);
            let watched = Watched::new(&session, ITEMS, queue);
            (session, vec![watched])
        };
        Self(kinds.into_iter().map(open).collect())
    }

    fn take(&mut self) {
        for (_, all) in &mut self.0 {
            for watched in all {
                while watched.take(Duration::ZERO) {}
            }
        }
    }

    fn catch_up(&mut self, servers: &Servers, when: &str) {
        for (at, (_, all)) in self.0.iter_mut().enumerate() {
            for watched in all {
                watched.catch_up(&servers.values, &format!("session {at}, {when}"));
            }
        }
    }
}

struct Chaos {
    random: u64,
    servers: Servers,
    script: Vec<String>,
}

impl Chaos {
    fn draw(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % below
    }

    fn act(&mut self, sessions: &mut Sessions) {
        let server = self.draw(SERVERS);
        match self.draw(10) {
            0..=2 if self.servers.is_up(server) => {
                self.script.push(format!("kill {server}"));
                self.servers.kill(server);
            }
            0..=2 => {
                self.script.push(format!("start {server}"));
                self.servers.start(server);
            }
            3..=5 => {
                let step = 1 + self.draw(7);
                self.script.push(format!("change {step}"));
                self.servers.change(step);
            }
            6 => {
                // Equal requests share their streams; who joins gets images that are held, or what comes.
                let at = self.draw(sessions.0.len());
                self.script.push(format!("join {at}"));
                let (session, all) = &mut sessions.0[at];
                if all.len() == 1 {
                    all.push(Watched::new(session, ITEMS, QueueConfig::default()));
                } else {
                    all.pop();
                }
            }
            7 => {
                let pause = [5, 50, 300][self.draw(3)];
                self.script.push(format!("{pause} ms"));
                std::thread::sleep(Duration::from_millis(pause));
            }
            _ => sessions.take(),
        }
    }

    /// All servers are there, and all sessions have what the provider has.
    fn rest(&mut self, sessions: &mut Sessions, when: &str) {
        for server in 0..SERVERS {
            if !self.servers.is_up(server) {
                self.servers.start(server);
            }
        }
        self.servers.change(3);
        sessions.catch_up(&self.servers, when);
    }

    /// Sessions begin, live through kills, and end.
    fn live(&mut self, until: Instant) -> usize {
        let mut sessions = Sessions::new(&self.servers);
        let mut rounds = 0;
        while rounds < ROUNDS && (rounds == 0 || Instant::now() < until) {
            (0..ROUND).for_each(|_| self.act(&mut sessions));
            rounds += 1;
            self.rest(&mut sessions, &format!("round {rounds}"));
        }
        await_links(&sessions.0[3].0, SERVERS);
        rounds
    }

    fn await_resources(&self, expected: (Resources, usize)) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = (Resources::now(), self.servers.connections());
            if now == expected {
                return;
            }
            assert!(Instant::now() < end, "left behind: {now:?} in place of {expected:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// A process of its own has no threads, descriptors and memory of other tests.
#[test]
fn sessions_live_through_kills_and_leave_nothing_behind() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = number("QUOTEWAY_SEED").unwrap_or(clock);
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this)
        .args(["--exact", "client_chaos::alone", "--ignored", "--nocapture"])
        .env("QUOTEWAY_SEED", seed.to_string())
        // Memory that one thread gives back is there for the next one, so that growth means something.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("it starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "QUOTEWAY_SEED={seed}\n{text}");
    println!("{text}");
}

#[test]
#[ignore = "runs in a process of its own, started by sessions_live_through_kills_and_leave_nothing_behind"]
fn alone() {
    let seed = number("QUOTEWAY_SEED").expect("the test that starts this one says it");
    let seconds = number("QUOTEWAY_CLIENT_CHAOS_SECONDS").unwrap_or(15);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut chaos = Chaos { random: seed, servers: Servers::new(SERVERS, ITEMS), script: Vec::new() };
    let end = Instant::now() + PATIENCE;
    while chaos.servers.connections() < SERVERS {
        assert!(Instant::now() < end, "servers have not dialled the provider");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = (Resources::now(), chaos.servers.connections());
    let (mut lives, mut rounds, mut sizes) = (0, 0, Vec::new());
    while lives < 2 || Instant::now() < until {
        chaos.script.clear();
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| chaos.live(until)));
        let Ok(more) = lived else { panic!("seed {seed}, life {lives}: {}", chaos.script.join(", ")) };
        (lives, rounds) = (lives + 1, rounds + more);
        chaos.await_resources(before);
        sizes.push(resident());
    }
    println!("{lives} lives, {rounds} rounds; bytes after each: {sizes:?}");
    let (first, rest) = sizes.split_at(sizes.len().div_ceil(2));
    let (most, last) = (first.iter().max().copied().unwrap_or_default(), rest.last().copied().unwrap_or_default());
    assert!(last < most + GROWTH_MAX, "{most} bytes have become {last}: {sizes:?}");
}
