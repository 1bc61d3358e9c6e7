//! Sessions of 10,000 items each at servers that are killed at random: each image is the provider's in the end, every gap is told, and no thread,
//! descriptor or memory is left behind.
//!
//! `QUOTEWAY_CLIENT_CHAOS_SECONDS` says how long (15 without it), `QUOTEWAY_SEED` repeats a schedule. `make chaos-clients` is this.

use client::Arrangement;
use client::queue::{Overflow, QueueConfig};
use client_io::Session;
use net::memory::Memory;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client_servers::{PATIENCE, Servers, Watched, await_links};

const ITEMS: usize = 10_000;
const SERVERS: usize = 3;
/// Actions between two times of rest.
const ROUND: usize = 12;
/// Rounds of the same sessions.
const ROUNDS: usize = 3;
/// The least bytes in use after a life of the later half may be so much above the least of the first half: buffers of the provider stay as large as what was under way
/// when a server was killed, which differs by megabytes where the machine has much to do. In ten minutes, with a hundred lives, that is less than 100 KB a life.
const GROWTH_MAX: usize = 4 << 20;

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

/// Bytes that are allocated in this process: what an allocator keeps of those that were given back depends on what lies between them.
fn in_use() -> usize {
    let stats = crate::ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
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
        self.servers.take_events();
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

    fn start_all(&mut self) {
        for server in 0..SERVERS {
            if !self.servers.is_up(server) {
                self.servers.start(server);
            }
        }
    }

    /// No server is there: the provider has no connection, whose buffers are as large as what it sent last.
    fn stop_all(&mut self) {
        (0..SERVERS).for_each(|server| self.servers.kill(server));
        self.servers.await_connections(0);
        self.servers.await_unwanted();
    }

    /// All servers are there, and all sessions have what the provider has.
    fn rest(&mut self, sessions: &mut Sessions, when: &str) {
        self.start_all();
        self.servers.change(3);
        sessions.catch_up(&self.servers, when);
    }

    /// Sessions begin, live through kills, and end.
    fn live(&mut self, until: Instant) -> usize {
        self.start_all();
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

    /// Waits until no more is there than was; what there is then.
    fn await_resources(before: Resources) -> Resources {
        let end = Instant::now() + PATIENCE;
        // Nobody tells that the system has taken back a descriptor or a thread.
        loop {
            let now = Resources::now();
            if now.threads <= before.threads && now.descriptors <= before.descriptors {
                return now;
            }
            assert!(Instant::now() < end, "left behind: {now:?} in place of {before:?}");
            std::thread::yield_now();
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Name of the variable that is set when the test is started anew in a process of its own.
const IS_ALONE: &str = "QUOTEWAY_CLIENT_CHAOS_IS_ALONE";

/// The test starts itself anew: a process of its own has no threads, descriptors and memory of other tests.
#[test]
fn sessions_live_through_kills_and_leave_nothing_behind() {
    if std::env::var_os(IS_ALONE).is_some() {
        return live_lives();
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = number("QUOTEWAY_SEED").unwrap_or(clock);
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this)
        .args(["--exact", "client_chaos::sessions_live_through_kills_and_leave_nothing_behind", "--nocapture"])
        .env(IS_ALONE, "1")
        .env("QUOTEWAY_SEED", seed.to_string())
        .output()
        .expect("it starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "QUOTEWAY_SEED={seed}\n{text}");
    println!("{text}");
}

fn live_lives() {
    let seed = number("QUOTEWAY_SEED").expect("the test that starts this process says it");
    let seconds = number("QUOTEWAY_CLIENT_CHAOS_SECONDS").unwrap_or(15);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut chaos = Chaos { random: seed, servers: Servers::new(SERVERS, ITEMS), script: Vec::new() };
    chaos.stop_all();
    // A thread of the beginning may be about to end: the least that was seen is the measure for the lives that follow.
    let mut least = Resources::now();
    let (mut lives, mut rounds, mut sizes) = (0, 0, Vec::new());
    while lives < 2 || Instant::now() < until {
        chaos.script.clear();
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| chaos.live(until)));
        let Ok(more) = lived else { panic!("seed {seed}, life {lives}: {}", chaos.script.join(", ")) };
        (lives, rounds) = (lives + 1, rounds + more);
        chaos.stop_all();
        least = Chaos::await_resources(least);
        sizes.push((in_use(), Memory::of_self().expect("of this process").resident));
    }
    println!("{lives} lives, {rounds} rounds; bytes in use and resident after each: {sizes:?}");
    let least = |sizes: &[(usize, u64)]| sizes.iter().map(|(in_use, _)| *in_use).min().expect("a life");
    let (early, late) = sizes.split_at(lives / 2);
    let (first, last) = (least(early), least(late));
    assert!(last < first + GROWTH_MAX, "{first} bytes in use have become {last}: {sizes:?}");
}
