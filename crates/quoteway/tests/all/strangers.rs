//! A stranger's worst minute beside a client that streams: everything at once that somebody without rights can say, at every port, without
//! ever reading a byte of the answers. The process is to keep its memory, the client its latency, and whoever has rights is to come in.
//!
//! Ten seconds of it run always, with the bound on memory; `QUOTEWAY_ATTACK` makes it a minute and looks at the latency, too, which says
//! something on a quiet machine alone. Attackers have processors of their own: the test's, which they would share with source, server and
//! client, are theirs when nobody else wants them (nice 19), so that the figure is the server's doing and not the scheduler's. The source
//! sends without delay (`TCP_NODELAY`), or the figure would be Nagle's: a kernel that is busy acknowledges 40 ms late, and what the source has
//! to send waits for that. Another kind of attack is another entry of [`attacks`].

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use net::affinity::Priority;
use net::memory::Memory;
use rssl::ws::frame::{self, OpCode};
use rssl::ws::upgrade::{Ask, Protocol};
use rssl::ws::{Limits, Role, Socket};
use rssl::{ClientConfig, Connection};

use super::chain::{self, Mount, Process};

/// What the process may have over what it has without the attack.
const MEMORY: u64 = 64 << 20;
/// Connections of each kind of attack.
const CONNECTIONS: usize = 4;
/// What each of them writes in a round, and the time from one round to the next: 1.6 MB a second each, so that it is the server that is
/// tested and not how a machine shares its processors.
const BURST: usize = 16 << 10;
const ROUND: Duration = Duration::from_millis(10);
const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);

/// Where a server is attacked.
struct Ports {
    consumers: SocketAddr,
    providers: SocketAddr,
    web: SocketAddr,
}

/// What the connections of one kind say: something first, then something again and again. They read nothing.
struct Attack {
    name: &'static str,
    port: SocketAddr,
    first: Vec<u8>,
    again: Vec<u8>,
}

fn attacks(ports: &Ports) -> Vec<Attack> {
    let Ports { consumers, providers, web } = *ports;
    let attack =
        |name, port, first: &[u8], again: &[u8]| Attack { name, port, first: first.into(), again: again.into() };
    let (json, rwf, rssl) = (upgrade(Protocol::Json), upgrade(Protocol::Rwf), handshake());
    let (json_ping, unreadable) = (text(r#"{"Type":"Ping"}"#), text("{"));
    let login = text(r#"{"ID":1,"Domain":"Login","Key":{"Name":"somebody"}}"#);
    let provider_login = text(r#"{"ID":1,"Domain":"Login","Key":{"Name":"somebody","Elements":{"Role":1}}}"#);
    let long = "x".repeat(30_000);
    let long_login = text(&format!(
        r#"{{"ID":1,"Domain":"Login","Key":{{"Name":"somebody","Elements":{{"Position":"{long}","ApplicationId":"{long}"}}}}}}"#
    ));
    let page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let facts = b"GET /api/v1/clients HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let logged_in = [&json[..], &login].concat();
    let mut all = Vec::new();
    for port in [consumers, providers] {
        all.extend([
            attack("pings before a login", port, &json, &ping()),
            attack("pings of RSSL in WebSocket", port, &rwf, &ping()),
            attack("JSON pings before a login", port, &json, &json_ping),
            attack("JSON that cannot be read", port, &json, &unreadable),
            attack("a message of RSSL without end", port, &[&rssl[..], &first_fragment()].concat(), &next_fragment()),
            attack(
                "a message of WebSocket without end",
                port,
                &[&json[..], &fragment(OpCode::Text)].concat(),
                &fragment(OpCode::Continuation),
            ),
            attack("many messages that are not finished", port, &rssl, &first_fragment()),
            attack(
                "an HTTP header without end",
                port,
                b"GET /WebSocket HTTP/1.1\r\n",
                b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
            ),
            attack("pings of RSSL", port, &rssl, &rssl::frame::PING),
            attack("junk", port, b"\x00\x05\xff\xff\xff", b"and what else is no beginning of anything\r\n\r\n"),
        ]);
    }
    all.extend([
        attack("pings after a login", consumers, &logged_in, &ping()),
        attack("JSON pings after a login", consumers, &logged_in, &json_ping),
        attack("logins with long texts", consumers, &json, &long_login),
        attack("pages that nobody reads", web, page, page),
        attack("facts that nobody reads", web, facts, facts),
        attack(
            "a request of HTTP without end",
            web,
            b"POST /api/v1/drain HTTP/1.1\r\n",
            b"X: yyyyyyyyyyyyyyyyyyyyyy\r\n",
        ),
        attack("a provider's login again and again", providers, &json, &provider_login),
        attack("pings of a provider", providers, &[&json[..], &provider_login].concat(), &ping()),
    ]);
    all
}

fn upgrade(protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::new();
    Ask { host: "here".to_owned(), protocols: vec![protocol], nonce: [3; 16] }.encode(&mut bytes);
    if protocol == Protocol::Rwf {
        Socket::new(Role::Client(1), false, Limits::default()).wrap_rssl(&handshake(), &mut bytes);
    }
    bytes
}

fn handshake() -> Vec<u8> {
    let mut bytes = Vec::new();
    Connection::client(ClientConfig { key_exchange: false, ..ClientConfig::default() }).start(0, &mut bytes);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, OpCode::Text, true, false, MASK, text.as_bytes());
    bytes
}

fn ping() -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, OpCode::Ping, true, false, MASK, &[7; frame::CONTROL_MAX]);
    bytes
}

fn fragment(op: OpCode) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, op, false, false, MASK, &[b' '; 8_000]);
    bytes
}

/// The beginning of a message of 16 MB.
fn first_fragment() -> Vec<u8> {
    let head = [&8_011_u16.to_be_bytes()[..], &[0x01 | 0x02, 0x08], &(16_u32 << 20).to_be_bytes(), &[0, 1, 9]].concat();
    [head, vec![9; 8_000]].concat()
}

fn next_fragment() -> Vec<u8> {
    [&8_006_u16.to_be_bytes()[..], &[0x01 | 0x02, 0x04, 0, 1], &vec![9; 8_000]].concat()
}

/// One of an attack's connections.
struct Line {
    stream: Option<TcpStream>,
    /// What is to be written next, from a byte on.
    rest: (Vec<u8>, usize),
}

impl Line {
    /// Writes what the socket takes; `true` if the server has ended it.
    fn push(&mut self, attack: &Attack) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let mut left = BURST;
        while left > 0 {
            let (bytes, from) = &mut self.rest;
            if *from == bytes.len() {
                *bytes = attack.again.repeat(BURST / attack.again.len() + 1);
                *from = 0;
            }
            match stream.write(&bytes[*from..(*from + left).min(bytes.len())]) {
                Ok(count @ 1..) => {
                    *from += count;
                    left -= count;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return false,
                Ok(0) | Err(_) => {
                    self.stream = None;
                    return true;
                }
            }
        }
        false
    }

    fn connect(&mut self, attack: &Attack) {
        let stream = TcpStream::connect_timeout(&attack.port, Duration::from_secs(1)).ok();
        self.stream = stream.filter(|stream| stream.set_nonblocking(true).is_ok());
        self.rest = (attack.first.clone(), 0);
    }
}

/// Has all attacks go on until then; gives how often the server has ended connections of each.
fn attack(attacks: &[Attack], until: Instant) -> Vec<(&'static str, usize)> {
    let line = || Line { stream: None, rest: (Vec::new(), 0) };
    let mut lines: Vec<Vec<Line>> = attacks.iter().map(|_| (0..CONNECTIONS).map(|_| line()).collect()).collect();
    let mut ended = vec![0; attacks.len()];
    Priority::Nice(19).apply().expect("everybody may have less");
    while Instant::now() < until {
        let round = Instant::now();
        for ((attack, lines), ended) in attacks.iter().zip(&mut lines).zip(&mut ended) {
            for line in lines {
                if line.stream.is_none() {
                    line.connect(attack);
                }
                *ended += usize::from(line.push(attack));
            }
        }
        std::thread::sleep(ROUND.saturating_sub(round.elapsed()));
    }
    attacks.iter().map(|attack| attack.name).zip(ended).collect()
}

/// Somebody with rights comes in, and gets an image, again and again until `stop`; gives how often.
fn come_in(port: u16, stop: &AtomicBool) -> usize {
    let mut count = 0;
    Priority::Nice(19).apply().expect("everybody may have less");
    while !stop.load(Ordering::Relaxed) {
        let mut mount = Mount::connect(port, None);
        mount.run_until(|seen| seen.service);
        mount.open_items(&["RDT1"]);
        mount.run_until(|seen| (seen.items > 0).then_some(()));
        count += 1;
    }
    count
}

fn p99_us(report: &serde_json::Value) -> u64 {
    assert_eq!(report["lost"], 0, "{report}");
    report["p99_us"].as_f64().unwrap_or_else(|| panic!("no latency in {report}")) as u64
}

fn memory(server: &Process) -> Memory {
    Memory::of(server.id()).expect("it is there")
}

#[test]
fn a_strangers_worst_costs_little_memory_delays_nobody_and_keeps_nobody_out() {
    let is_long = std::env::var_os("QUOTEWAY_ATTACK").is_some();
    let seconds = if is_long { 60 } else { 10 };
    let (_source, at) = chain::source(&["-U", "2k", "--smooth", "--stamp-all", "--tcp-no-delay"]);
    let (server, port) = chain::serve(&["--route", &at, "--http-port", "0"]);
    let ports = Ports {
        consumers: SocketAddr::from(([127, 0, 0, 1], port)),
        providers: SocketAddr::from(([127, 0, 0, 1], chain::port_of(&server, "nip="))),
        web: SocketAddr::from(([127, 0, 0, 1], chain::port_of(&server, "http=http://"))),
    };
    let watch = |seconds: u64| chain::client(port, &["-il", "RDT{0..199}", "--seconds", &seconds.to_string()]);
    let quiet = p99_us(&watch(seconds / 3));
    let idle = memory(&server);

    let until = Instant::now() + Duration::from_secs(seconds + 2);
    let attacking = std::thread::spawn(move || attack(&attacks(&ports), until));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let coming = std::thread::spawn(move || come_in(port, &stopped));
    let attacked = p99_us(&watch(seconds));
    let ended = attacking.join().expect("the attack ends");
    stop.store(true, Ordering::Relaxed);
    let came_in = coming.join().expect("who has rights comes in");

    let peak = memory(&server).peak;
    eprintln!(
        "{quiet} us quiet, {attacked} us attacked; {} MB over {} MB; {came_in} came in; {ended:?}",
        (peak - idle.resident) >> 20,
        idle.resident >> 20
    );
    assert!(
        peak < idle.resident + MEMORY,
        "{} MB over {} MB; {ended:?}",
        (peak - idle.resident) >> 20,
        idle.resident >> 20
    );
    // Latency within 2 ms is the machine's.
    assert!(!is_long || attacked <= (2 * quiet).max(2_000), "{attacked} us, {quiet} us without; {ended:?}");
    assert!(came_in > 0);
    let all: usize = ended.iter().map(|(_, count)| count).sum();
    assert!(all > 0, "nobody was ended");
}

/// Whoever is no session after all gives its place back.
#[test]
fn those_who_never_were_a_session_take_no_mounts() {
    let (_source, at) = chain::source(&[]);
    let config = chain::config_file("[p2ps]\nmax_mounts = 3\n");
    let (_server, port) = chain::serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    for _ in 0..10 {
        use std::io::Read as _;
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stranger.write_all(b"\x00\x05\xff\xff\xff").expect("sent");
        // Until the server has closed it.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    let mut mount = Mount::connect(port, None);
    mount.run_until(|seen| seen.service);
}

/// Sources listen, too: for whoever has not logged in there they keep as little as servers do. What comes behind the bound may be read, and is
/// thrown away.
#[test]
fn a_source_keeps_no_large_message_of_a_stranger() {
    let (source, at) = chain::source(&[]);
    let idle = memory(&source).resident;
    let strangers: Vec<_> = (0..8)
        .map(|_| {
            let mut stranger = TcpStream::connect(&at).expect("a connection");
            stranger.write_all(&[handshake(), first_fragment()].concat()).expect("sent");
            // 8 of the 16 MB that it announces.
            let _ = (0..1_000).try_for_each(|_| stranger.write_all(&next_fragment()));
            stranger
        })
        .collect();
    let peak = memory(&source).peak;
    assert!(peak < idle + (16 << 20), "{} MB over {} MB", (peak - idle) >> 20, idle >> 20);
    drop(strangers);
}
