//! Stores as processes on this host, a source and receivers over sockets: a receiver that comes back, a store that is killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lbm_io::SendFlags;
use lbm_io::options::Options;
use lbm_store::receiver::{Delivered, ReceiverConfig};
use lbm_store::source::{SourceConfig, SourceEvent, StoreAddress};
use lbm_store_io::{Client, ClientEvents, PersistentReceiver, PersistentSource};

/// Longer than anything takes on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(2);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Lines of options by which a test has groups and ports of its own.
fn lines(transport: &str) -> Vec<String> {
    let n = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
    let group = format!("239.67.{}.{}", n >> 8 & 255, n & 255);
    let port = 20_000 + n % 20_000;
    let mut lines = vec![
        "context default_interface 127.0.0.1".to_owned(),
        format!("context resolver_multicast_address {group}"),
        format!("context resolver_multicast_port {port}"),
        format!("source transport {transport}"),
        format!("source transport_lbtrm_multicast_address {group}"),
        format!("source transport_lbtrm_destination_port {}", port + 1),
        "source implicit_batching_minimum_length 1".to_owned(),
    ];
    for name in ["transport_lbtrm_source_port", "transport_tcp_port", "request_tcp_port", "transport_lbtru_port"] {
        lines.extend(["low", "high"].map(|end| format!("context {name}_{end} 0")));
    }
    lines
}

fn options(lines: &[String]) -> Options {
    let mut options = Options::new();
    options.parse("test", &lines.join("\n")).expect("options");
    options
}

/// A store that is a process.
struct StoreProcess {
    child: Child,
    address: SocketAddrV4,
}

impl StoreProcess {
    fn start(lines: &[String], port: u16, disk: Option<&Path>) -> Self {
        let test = std::env::current_exe().expect("this program");
        let program: PathBuf = test.parent().and_then(Path::parent).expect("a folder").join("examples/lbmstore");
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string()]);
        for line in lines {
            command.args(["-o", line]);
        }
        if let Some(folder) = disk {
            command.arg("--disk").arg(folder);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the store starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("ready ").expect("it is ready").parse().expect("an address");
        Self { child, address }
    }

    /// As `kill -9`.
    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it is over");
    }
}

impl Drop for StoreProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What has come, over all lives of a receiver: by message, how often, and how often without its flag.
#[derive(Default)]
struct Had {
    count: BTreeMap<u64, (u32, u32)>,
    last: Option<u64>,
    stable: u64,
    ready: Option<u32>,
    lost: u32,
}

impl ClientEvents for Had {
    fn message(&mut self, _: PersistentReceiver, _: u32, message: &Delivered<'_>) {
        let id = u64::from_be_bytes(message.payload[..8].try_into().expect("a number"));
        assert!(message.payload[8..].iter().all(|byte| *byte == id as u8), "message {id} has its bytes");
        assert!(self.last.is_none_or(|last| last < id), "message {id} behind {:?}", self.last);
        self.last = Some(id);
        let entry = self.count.entry(id).or_default();
        entry.0 += 1;
        entry.1 += u32::from(!message.repeated);
    }

    fn lost(&mut self, _: PersistentReceiver, _: u32, _: u32, count: u32) {
        self.lost += count;
    }

    fn source(&mut self, _: PersistentSource, event: &SourceEvent) {
        match event {
            SourceEvent::Ready { first } => self.ready = Some(*first),
            SourceEvent::Stable { first, last } => self.stable += u64::from(last.wrapping_sub(*first)) + 1,
            SourceEvent::NotStable { sqn } => panic!("{sqn} was given up"),
            _ => {}
        }
    }
}

/// Takes turns of all until `done`.
fn until(what: &str, clients: &mut [(&mut Client, &mut Had)], done: impl Fn(&[(&mut Client, &mut Had)]) -> bool) {
    let began = Instant::now();
    while !done(clients) {
        assert!(began.elapsed() < PATIENCE, "{what}");
        for (client, had) in clients.iter_mut() {
            client.poll(Some(Duration::from_millis(2)), *had).expect("a turn");
        }
    }
}

fn publisher(lines: &[String], stores: &[SocketAddrV4], had: &mut Had) -> (Client, PersistentSource) {
    let mut client = Client::new(&options(lines)).expect("a context");
    let stores = stores.iter().map(|at| StoreAddress { group: 0, at: *at, reg_id: 0 }).collect();
    let config = SourceConfig { stores, session: 1, stability_timeout_ns: 500_000_000, ..SourceConfig::default() };
    let source = client.source("orders", config).expect("a source");
    had.ready = None;
    until("the source is registered", &mut [(&mut client, had)], |all| all[0].1.ready.is_some());
    (client, source)
}

fn subscriber(lines: &[String]) -> Client {
    let mut client = Client::new(&options(lines)).expect("a context");
    client.receiver("orders", ReceiverConfig { session: 2, ..ReceiverConfig::default() }).expect("a receiver");
    client
}

fn send(client: &mut Client, source: PersistentSource, had: &mut Had, ids: std::ops::Range<u64>) {
    for id in ids {
        let mut payload = vec![id as u8; if id % 50 == 0 { 20_000 } else { 100 }];
        payload[..8].copy_from_slice(&id.to_be_bytes());
        client.send_blocking(source, &payload, SendFlags::FLUSH, had).expect("sent");
    }
}

fn in_flight(client: &Client, source: PersistentSource) -> usize {
    client.source_state(source).expect("a source").in_flight()
}

/// Everything came, and what came twice was flagged.
fn check(had: &Had, count: u64) {
    assert_eq!(had.count.len() as u64, count, "{:?}", (0..count).find(|id| !had.count.contains_key(id)));
    let unflagged = had.count.iter().find(|(_, (_, unflagged))| *unflagged > 1);
    assert_eq!(unflagged, None, "came twice without its flag");
    assert_eq!(had.lost, 0);
}

#[test]
fn a_receiver_that_comes_back_gets_what_it_has_missed() {
    for transport in ["lbtrm", "tcp"] {
        let lines = lines(transport);
        let store = StoreProcess::start(&lines, 0, None);
        let (mut published, mut had) = (Had::default(), Had::default());
        let (mut source, id) = publisher(&lines, &[store.address], &mut published);
        let mut receiver = subscriber(&lines);
        send(&mut source, id, &mut published, 0..100);
        until("the first messages", &mut [(&mut source, &mut published), (&mut receiver, &mut had)], |all| {
            all[1].1.count.len() == 100
        });
        receiver.finish(&mut had).expect("a turn");
        drop(receiver);
        send(&mut source, id, &mut published, 100..300);
        had.last = None;
        let mut receiver = subscriber(&lines);
        send(&mut source, id, &mut published, 300..320);
        until("what was missed", &mut [(&mut source, &mut published), (&mut receiver, &mut had)], |all| {
            all[1].1.count.len() == 320
        });
        check(&had, 320);
        until("all is stable", &mut [(&mut source, &mut published)], |all| in_flight(all[0].0, id) == 0);
    }
}

#[test]
fn a_store_on_disk_that_is_killed_has_everything_that_was_stable() {
    let lines = lines("lbtrm");
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = StoreProcess::start(&lines, 0, Some(folder.path()));
    let port = store.address.port();
    let (mut published, mut had) = (Had::default(), Had::default());
    let (mut source, id) = publisher(&lines, &[store.address], &mut published);
    send(&mut source, id, &mut published, 0..500);
    until("all is stable", &mut [(&mut source, &mut published)], |all| in_flight(all[0].0, id) == 0);
    drop(source);
    store.kill();
    let mut store = StoreProcess::start(&lines, port, Some(folder.path()));
    // Another process of the source goes on behind what was stable, and the store is killed under it.
    let (mut source, id) = publisher(&lines, &[store.address], &mut published);
    assert!(published.ready.is_some_and(|first| first >= 500), "{:?}", published.ready);
    send(&mut source, id, &mut published, 500..700);
    store.kill();
    let _store = StoreProcess::start(&lines, port, Some(folder.path()));
    send(&mut source, id, &mut published, 700..800);
    until("all is stable", &mut [(&mut source, &mut published)], |all| in_flight(all[0].0, id) == 0);
    let mut receiver = subscriber(&lines);
    until("everything", &mut [(&mut source, &mut published), (&mut receiver, &mut had)], |all| {
        all[1].1.count.len() == 800
    });
    check(&had, 800);
}

#[test]
fn a_quorum_goes_on_while_one_of_three_stores_is_down() {
    let lines = lines("lbtrm");
    let mut stores: Vec<StoreProcess> = (0..3).map(|_| StoreProcess::start(&lines, 0, None)).collect();
    let addresses: Vec<SocketAddrV4> = stores.iter().map(|store| store.address).collect();
    let (mut published, mut had) = (Had::default(), Had::default());
    let (mut source, id) = publisher(&lines, &addresses, &mut published);
    let mut receiver = subscriber(&lines);
    send(&mut source, id, &mut published, 0..100);
    stores[1].kill();
    send(&mut source, id, &mut published, 100..2_000);
    until("all", &mut [(&mut source, &mut published), (&mut receiver, &mut had)], |all| {
        all[1].1.count.len() == 2_000 && in_flight(all[0].0, id) == 0
    });
    check(&had, 2_000);
}
