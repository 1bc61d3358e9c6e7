//! Roles of a process that a test starts and kills: this program again, which is told by its environment what to do.
//!
//! Messages have an identity of their own in the first 8 bytes: life of the source x 2^32 + count. Lines tell what has happened; a line is
//! whole in the pipe before anything else happens, so that a process that is killed has said all that it did.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lbm_io::options::Options;
use lbm_io::{Delivery, Events, SendFlags, Sources};
use lbm_store::receiver::Delivered;
use lbm_store::source::SourceEvent;
use lbm_store::store::StoreConfig;
use lbm_store_io::{Client, ClientEvents, PersistentReceiver, PersistentSource, ServerConfig, StoreServer};

/// Name of the role.
pub(crate) const ROLE: &str = "QUOTEWAY_STORES_ROLE";
/// Lines of options.
pub(crate) const OPTIONS: &str = "QUOTEWAY_STORES_OPTIONS";
/// Of a store: its port, and the folder of its log.
pub(crate) const PORT: &str = "QUOTEWAY_STORES_PORT";
pub(crate) const FOLDER: &str = "QUOTEWAY_STORES_FOLDER";
/// Of a store that is to have little: bytes of messages of a source, and of the log.
pub(crate) const LIMITS: &str = "QUOTEWAY_STORES_LIMITS";
/// Of a source: which life of it this is, and how many messages it sends, then waits until they are stable.
pub(crate) const LIFE: &str = "QUOTEWAY_STORES_LIFE";
pub(crate) const COUNT: &str = "QUOTEWAY_STORES_COUNT";

/// The topic of all tests.
pub(crate) const TOPIC: &str = "orders";

/// Options of a test, read from lines.
pub(crate) fn options(lines: &str) -> Options {
    let mut options = Options::new();
    options.parse("test", lines).expect("options");
    options
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str) -> u64 {
    variable(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Says a line, and is sure that it has arrived.
fn say(text: &str) {
    let line = format!("{text}\n");
    // Nobody listens to one that is about to be killed.
    let _ = std::io::stdout().lock().write_all(line.as_bytes()).and_then(|()| std::io::stdout().lock().flush());
}

/// Plays a role if this process was started for one.
#[test]
fn the_process_that_is_killed() {
    let Some(role) = variable(ROLE) else { return };
    let options = options(&variable(OPTIONS).expect("options"));
    match role.as_str() {
        "store" => store(&options),
        "source" => source(&options),
        "receiver" => receiver(&options),
        other => panic!("{other} is no role"),
    }
}

fn store(options: &Options) {
    let address = SocketAddrV4::new([127, 0, 0, 1].into(), number(PORT) as u16);
    let folder = variable(FOLDER).map(PathBuf::from);
    // Of a store that is to have little: bytes of a source's messages, and of its log.
    let limits = variable(LIMITS).map(|text| text.split_once(' ').map(|(a, b)| (a.parse().ok(), b.parse().ok())));
    let (source_bytes_max, log_bytes_min) = match limits.flatten() {
        Some((Some(messages), Some(log))) => (messages, log),
        _ => (64 << 20, 512 << 20),
    };
    let store = StoreConfig { source_bytes_max, ..StoreConfig::default() };
    let config = ServerConfig { address, allow: Vec::new(), folder, log_bytes_min, store };
    let mut server = StoreServer::new(&config, options).expect("a store");
    say(&format!("ready {}", server.address()));
    loop {
        server.poll(Some(Duration::from_millis(100))).expect("a turn");
    }
}

/// The events that a process has seen.
#[derive(Default)]
struct Seen {
    ready: bool,
    /// Identities by number, of messages that are not stable.
    sent: BTreeMap<u32, u64>,
    stable: u64,
}

impl Events for Seen {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

impl ClientEvents for Seen {
    fn delivered(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, message: &Delivered<'_>) {
        let (id, rest) = message.payload.split_first_chunk::<8>().expect("an identity");
        let id = u64::from_be_bytes(*id);
        assert!(rest.iter().all(|byte| *byte == id as u8), "message {id:x} has its bytes");
        say(&format!("had {id} {} {}", message.sqn, u8::from(message.repeated)));
    }

    fn gone(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, first: u32, count: u32) {
        say(&format!("gone {first} {count}"));
    }

    fn source(&mut self, _: &mut Sources, _: PersistentSource, event: &SourceEvent) {
        match *event {
            SourceEvent::Ready { first } => {
                self.ready = true;
                say(&format!("ready {first}"));
            }
            SourceEvent::Stable { first, last } => {
                for i in 0..=last.wrapping_sub(first) {
                    // Of several fragments the last one is the message's number.
                    if let Some(id) = self.sent.remove(&first.wrapping_add(i)) {
                        self.stable += 1;
                        say(&format!("stable {id}"));
                    }
                }
            }
            SourceEvent::NotStable { sqn } => panic!("{sqn} was given up"),
            SourceEvent::Superseded => say("superseded"),
            _ => {}
        }
    }
}

/// The bytes of a message: some are long enough for several fragments.
pub(crate) fn payload(id: u64) -> Vec<u8> {
    let mut payload = vec![id as u8; if id % 50 == 49 { 20_000 } else { 100 }];
    payload[..8].copy_from_slice(&id.to_be_bytes());
    payload
}

fn source(options: &Options) {
    let (life, count) = (number(LIFE), number(COUNT));
    let mut client = Client::new(options).expect("a context");
    let source = client.source(TOPIC, options).expect("a source");
    let mut seen = Seen::default();
    while !seen.ready {
        client.poll(Some(Duration::from_millis(100)), &mut seen).expect("a turn");
    }
    for n in 0..count {
        let id = life << 32 | n;
        let sqn = client.send_blocking(source, &payload(id), SendFlags::FLUSH, &mut seen).expect("sent");
        seen.sent.insert(sqn, id);
    }
    while seen.stable < count {
        client.poll(Some(Duration::from_millis(100)), &mut seen).expect("a turn");
    }
    say("done");
    // Receivers learn from it which stores there are; stores hear every three seconds that it is there.
    let done = Instant::now();
    let mut told = false;
    loop {
        client.poll(Some(Duration::from_millis(100)), &mut seen).expect("a turn");
        if !told && done.elapsed() > Duration::from_secs(4) {
            say("alive");
            told = true;
        }
    }
}

fn receiver(options: &Options) {
    let mut client = Client::new(options).expect("a context");
    client.receiver(TOPIC, options).expect("a receiver");
    let mut seen = Seen::default();
    say("ready");
    loop {
        client.poll(Some(Duration::from_millis(100)), &mut seen).expect("a turn");
    }
}
