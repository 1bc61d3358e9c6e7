//! nats-server on the same work: its load generator, in NATS' client protocol, and how a test is run.
//!
//! Publisher and subscriber are processes of this binary that speak the text protocol themselves (INFO, CONNECT, SUB, PUB,
//! MSG, PING; docs.nats.io, "Client Protocol"), so that they cost as little as our own load generators and are measured by
//! the same observer. A payload begins with the message's id and its intended time.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rssl::ws::frame::OpCode;

use net::tcp::{Event, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};

use super::chain::{PATIENCE, words};
use super::product;
use super::results::Metrics;
use super::run as one_run;
use super::scenario::{Clients, Scenario};
use super::ticks;
use super::websocket::link::{self, Link};
use feed::pace::{Pacer, Rate, Shape};
use measure::observer::{End, Observer, Plan, id_of};
use measure::process::{Fault, Process};
use tools::sink_driven_src::order::{Order, Places};

/// Bytes at the begin of a payload that the test uses.
pub const STAMP: usize = 16;
const SUBJECT: &str = "Q";
const SECOND: u64 = 1_000_000_000;

/// The task of a load generator.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Port of the server, on loopback
    #[arg(long)]
    port: u16,
    /// Messages a second into the server; 0 for as many as go
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Seconds; the subscriber ends that long after its first message
    #[arg(long)]
    seconds: f64,
    /// Bytes of a payload
    #[arg(long)]
    size: usize,
    /// Connections of the subscriber
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Socket buffers
    #[arg(long)]
    socket_buffer: usize,
    /// Where the records go
    #[arg(long)]
    observe: PathBuf,
    /// One of so many messages is recorded
    #[arg(long)]
    observe_every: u32,
    /// Memory for so many
    #[arg(long)]
    observe_capacity: usize,
    /// The subscriber comes by WebSocket
    #[arg(long)]
    websocket: bool,
    /// Subjects: each is subscribed to by itself, and messages go to one after the other; 1 for one that all go to
    #[arg(long, default_value_t = 1)]
    subjects: u32,
    /// Which of them is next, as sink-driven-src --order
    #[arg(long, default_value = "opened")]
    order: Order,
    /// How the publisher waits: `block`, `yield` or `spin`
    #[arg(long, default_value = "yield")]
    idle: String,
}

impl Load {
    fn observer(&self, end: End) -> Observer {
        Observer::new(
            end,
            &Plan { capacity: self.observe_capacity, every: self.observe_every, connections: self.connections as u32 },
        )
    }

    fn save(&self, observer: &Observer) -> io::Result<()> {
        observer.save(&self.observe)
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }
}

/// Sends what opens a session; `echo` off, since no one needs his own messages.
fn connect_line() -> &'static [u8] {
    b"CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":false,\"echo\":false,\"lang\":\"rust\",\"version\":\"0\"}\r\n"
}

/// The first bytes of a subscriber: all subjects, then a PING, which is answered when the server has them.
fn hello(subjects: u32) -> Vec<u8> {
    let mut bytes = connect_line().to_vec();
    for number in 0..subjects {
        let _ = write!(bytes, "SUB {SUBJECT}{number:0DIGITS$} {}\r\n", number + 1);
    }
    bytes.extend_from_slice(b"PING\r\n");
    bytes
}

/// Digits of a subject's number, so that messages of all subjects are as long.
const DIGITS: usize = 7;

/// Writes the number of a subject into its place.
fn write_number(mut number: u32, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Publishes until the time is over.
///
/// # Errors
/// The server goes away, or the records cannot be written.
pub fn publish(load: &Load) -> io::Result<()> {
    let mut stream = TcpStream::connect(load.address())?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    stream.write_all(connect_line())?;
    stream.write_all(b"PING\r\n")?;
    line.clear();
    while !line.starts_with("PONG") {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the server closed the connection"));
        }
    }
    // The server asks whether we live every two minutes, longer than any test of ours; what it says is read and dropped.
    std::thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
    let mut observer = load.observer(End::Sender);
    println!("ready");
    let mut go = String::new();
    io::stdin().lock().read_line(&mut go)?;

    let size = load.size.max(STAMP);
    let head = format!("PUB {SUBJECT}{:0DIGITS$} {size}\r\n", 0);
    let number_at = "PUB ".len() + SUBJECT.len();
    let subjects = load.order.sequence(load.subjects.max(1));
    let mut places = Places::new(load.order.clone());
    places.prepare(subjects.len());
    let mut message = head.clone().into_bytes();
    message.resize(head.len() + size, b'-');
    message.extend_from_slice(b"\r\n");
    let rate = if load.rate > 0.0 { Rate::PerSecond(load.rate) } else { Rate::Max };
    let begin = net::clock::now();
    let mut pacer = Pacer::new(Shape::Smooth, rate, begin);
    let end = begin + (load.seconds * SECOND as f64) as u64;
    let mut buffer = Vec::with_capacity(BATCH + message.len());
    let mut number = 0u32;
    loop {
        let now = net::clock::now();
        if now >= end {
            break;
        }
        let due = pacer.due(now).min((BATCH / message.len()) as u64);
        if due == 0 {
            wait(&load.idle, pacer.next(now).unwrap_or(end).saturating_sub(now));
            continue;
        }
        buffer.clear();
        for _ in 0..due {
            let (id, intended) = (id_of(0, number), pacer.take(now));
            number = number.wrapping_add(1);
            let subject = subjects[places.take(subjects.len())];
            write_number(subject, &mut message[number_at..number_at + DIGITS]);
            message[head.len()..][..8].copy_from_slice(&id.to_le_bytes());
            message[head.len() + 8..][..8].copy_from_slice(&intended.to_le_bytes());
            observer.sent(id, intended);
            buffer.extend_from_slice(&message);
        }
        stream.write_all(&buffer)?;
    }
    load.save(&observer)?;
    println!("{}", serde_json::json!({ "sent": number, "cpu_ns": net::clock::process_cpu() }));
    Ok(())
}

/// Bytes that the publisher writes at once, as our source does.
const BATCH: usize = 262_144;

fn wait(idle: &str, ns: u64) {
    match idle {
        "block" => std::thread::sleep(Duration::from_nanos(ns)),
        "spin" => std::hint::spin_loop(),
        _ => std::thread::yield_now(),
    }
}

/// Finds the messages of a connection in what it receives, wherever that is cut.
#[derive(Debug, Default)]
struct Parser {
    /// The begin of something that was not whole.
    rest: Vec<u8>,
    /// Bytes of a payload, its end of line included, that are still to come and of no interest.
    skip: usize,
}

/// The contents of the bytes.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// A message with this id.
    Message(u64),
    /// The server wants an answer.
    Ping,
    /// The server has taken everything that was said before it was asked.
    Pong,
    /// The server complains.
    Error(String),
}

impl Parser {
    fn take(&mut self, bytes: &[u8], say: &mut impl FnMut(Said)) {
        if self.rest.is_empty() {
            let used = self.parse(bytes, say);
            self.rest.extend_from_slice(&bytes[used..]);
            return;
        }
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let used = self.parse(&all, say);
        all.drain(..used);
        self.rest = all;
    }

    /// Takes what is whole; gives how much that was.
    fn parse(&mut self, bytes: &[u8], say: &mut impl FnMut(Said)) -> usize {
        let mut at = self.skip.min(bytes.len());
        self.skip -= at;
        while let Some(length) = bytes[at..].iter().position(|b| *b == b'\n') {
            let line = &bytes[at..at + length];
            let body = at + length + 1;
            if line.starts_with(b"MSG ") {
                let digits = line.trim_ascii_end().rsplit(|b| *b == b' ').next().unwrap_or_default();
                let size = digits
                    .iter()
                    .fold(0usize, |n, d| n.saturating_mul(10).saturating_add(usize::from(d.wrapping_sub(b'0'))));
                let Some(id) = bytes.get(body..).and_then(<[u8]>::first_chunk) else { return at };
                say(Said::Message(u64::from_le_bytes(*id)));
                let end = body.saturating_add(size).saturating_add(2);
                at = end.min(bytes.len());
                self.skip = end - at;
            } else {
                if line.starts_with(b"PING") {
                    say(Said::Ping);
                } else if line.starts_with(b"PONG") {
                    say(Said::Pong);
                } else if line.starts_with(b"-ERR") {
                    say(Said::Error(String::from_utf8_lossy(line).trim().to_owned()));
                }
                at = body;
            }
        }
        at
    }
}

/// Subscribes with all connections and takes what comes until the time is over.
///
/// # Errors
/// The server closes a connection, or the records cannot be written.
pub fn subscribe(load: &Load) -> io::Result<()> {
    let mut tcp = Tcp::new(TcpConfig::default())?;
    let options = SocketOptions { receive_buffer: Some(load.socket_buffer), ..SocketOptions::default() };
    let (mut parsers, mut links): (Vec<Parser>, Vec<Link>) = (Vec::new(), Vec::new());
    let mut waiting = 0;
    for _ in 0..load.connections.max(1) {
        let conn = tcp.connect(load.address(), &options)?;
        parsers.resize_with(parsers.len().max(conn.slot() + 1), Parser::default);
        links.resize_with(parsers.len(), Link::default);
        waiting += 1;
    }
    let mut observer = load.observer(End::Receiver);
    let (mut events, mut scratch) = (Vec::new(), Scratch::new(BATCH));
    let (mut received, mut first, mut fault) = (0u64, None, None);
    // By connection: the number of its last message. Any step but the next is a loss, or a message out of order.
    let (mut lasts, mut gaps): (Vec<Option<u32>>, u64) = (Vec::new(), 0);
    let mut cpu = 0;
    loop {
        tcp.poll(Some(Duration::from_millis(100)), &mut events)?;
        for event in events.drain(..) {
            let conn = match event {
                Event::Connected { conn, .. } => {
                    let first = if load.websocket { link::request(load.port, None) } else { hello(load.subjects) };
                    tcp.send(conn, &first);
                    continue;
                }
                Event::Readable { conn } => conn,
                Event::Closed { .. } => return Err(io::Error::other("the server closed a connection")),
                _ => continue,
            };
            let RecvOutcome::Data(bytes) = tcp.recv(conn, &mut scratch) else { continue };
            let (mut pings, mut pongs, slot) = (0, 0, conn.slot());
            lasts.resize(lasts.len().max(slot + 1), None);
            let mut say = |said| match said {
                Said::Message(id) => {
                    observer.received(id);
                    received += 1;
                    let number = id as u32;
                    gaps += u64::from(lasts[slot].replace(number).is_some_and(|last| number != last.wrapping_add(1)));
                }
                Said::Ping => pings += 1,
                Said::Pong => pongs += 1,
                Said::Error(text) => fault = Some(text),
            };
            let parser = &mut parsers[slot];
            if load.websocket {
                let opened = links[slot].take(bytes, &mut |payload| parser.take(payload, &mut say));
                if opened.map_err(io::Error::other)? {
                    tcp.send(conn, &link::frame(OpCode::Binary, &hello(load.subjects)));
                }
            } else {
                parser.take(bytes, &mut say);
            }
            if pongs > 0 && waiting > 0 {
                waiting -= 1;
                if waiting == 0 {
                    println!("ready");
                }
            }
            for _ in 0..pings {
                let pong = b"PONG\r\n";
                if load.websocket {
                    tcp.send(conn, &link::frame(OpCode::Binary, pong));
                } else {
                    tcp.send(conn, pong);
                }
            }
        }
        if let Some(text) = fault {
            return Err(io::Error::other(text));
        }
        let now = net::clock::now();
        if first.is_none() && received > 0 {
            (first, cpu) = (Some(now), net::clock::process_cpu());
        }
        if first.is_some_and(|at| now > at + (load.seconds * SECOND as f64) as u64) {
            break;
        }
    }
    let cpu = net::clock::process_cpu() - cpu;
    load.save(&observer)?;
    println!("{}", serde_json::json!({ "received": received, "gaps": gaps, "cpu_ns": cpu }));
    Ok(())
}

/// One run: nats-server, a subscriber of as many connections as the scenario has mounts, a publisher.
///
/// # Errors
/// nats-server is not there, or something fails.
pub fn run(peers: &Path, scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    let program = peers.join("nats-server");
    if !program.is_file() {
        return Err(format!("nats-server is not built ({}): make bench-peers", program.display()).into());
    }
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the records: {e}"))?;
    let observation = one_run::plan(scenario, rate, folder.path());
    let mut command = Command::new(&program);
    command.args(["-a", "127.0.0.1", "-p", "-1"]);
    let by_websocket = scenario.clients == Clients::Json;
    if by_websocket {
        let file = folder.path().join("nats.conf");
        let text = "websocket { host: \"127.0.0.1\", port: -1, no_tls: true, compression: false }\n";
        std::fs::write(&file, text).map_err(|e| format!("configuration of nats-server: {e}"))?;
        command.arg("-c").arg(file);
    }
    let mut server = Process::start("nats-server", &mut command)?;
    // The server names the port of WebSocket first.
    let websocket = by_websocket.then(|| named_port(&mut server, "Listening for websocket clients on")).transpose()?;
    let port = named_port(&mut server, "Listening for client connections on")?;
    let seconds = scenario.seconds + scenario.warmup;
    let mut base = format!(
        "--size {} --seconds {seconds} --socket-buffer {} --connections {} --subjects {}",
        scenario.size, scenario.socket_buffer, scenario.mounts, scenario.subjects
    );
    let trace = ticks::order(scenario, folder.path())?;
    base.extend(trace.iter().flat_map(|order| [" --order ", order]));
    let args = |what: &str, port: u16, plan: &Plan, file: PathBuf| {
        let mut args = words(&format!("nats-{what} --port {port} {base}"));
        args.extend(words(&format!("--observe-every {} --observe-capacity {}", plan.every, plan.capacity)));
        args.extend(["--observe".to_owned(), file.display().to_string()]);
        args
    };
    let mut flags = args("subscribe", websocket.unwrap_or(port), &observation.client, observation.received(0));
    flags.extend(by_websocket.then(|| "--websocket".to_owned()));
    let mut subscriber = product::start_part("NATS subscriber", &[], &flags)?;
    subscriber.wait_for("ready", PATIENCE)?;
    let mut flags = args("publish", port, &observation.source, observation.sent(0));
    flags.extend(words(&format!("--idle {} --rate {}", scenario.idle, rate.map_or(0.0, |r| r / scenario.fan()))));
    let mut publisher = product::start_part("NATS publisher", &[], &flags)?;
    publisher.wait_for("ready", PATIENCE)?;
    let cpu = server.cpu();
    publisher.tell("go")?;
    let received = subscriber.json(PATIENCE)?;
    let used = server.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    publisher.json(PATIENCE)?;

    let value = |name: &str| received[name].as_f64().unwrap_or(f64::NAN);
    if value("gaps") > 0.0 {
        return Err(subscriber.failed(&format!("saw {} gaps in the numbers", received["gaps"])));
    }
    let mut metrics = Metrics::default();
    let (analysis, heads) =
        one_run::analysis_of(&observation, 1, 1).map_err(|why| subscriber.failed(&why.to_string()))?;
    metrics.push("rate", analysis.received_per_s);
    one_run::add_observed(&mut metrics, &analysis, &heads).map_err(|why| subscriber.failed(&why.to_string()))?;
    metrics.push("client_cpu_ns", value("cpu_ns") / value("received"));
    if let Some(used) = used {
        metrics.push("server_cpu_ns", used as f64 / value("received"));
    }
    Ok(metrics)
}

/// The port at the end of a line of the server's log.
fn named_port(server: &mut Process, line: &str) -> Result<u16, Fault> {
    let line = server.wait_for(line, PATIENCE)?.text;
    let port = line.rsplit(':').next().and_then(|text| text.trim().parse().ok());
    port.ok_or_else(|| server.failed("names no port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pieces: &[&[u8]]) -> Vec<Said> {
        let (mut parser, mut all) = (Parser::default(), Vec::new());
        for piece in pieces {
            parser.take(piece, &mut |s| all.push(s));
        }
        all
    }

    #[test]
    fn messages_are_found_wherever_the_bytes_are_cut() {
        let mut bytes = b"INFO {\"a\":1}\r\nPONG\r\n".to_vec();
        for id in [7u64, 0x0A0D_0A0D_0A0D_0A0D] {
            bytes.extend_from_slice(b"MSG Q 1 24\r\n");
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(b"MSG Q 1 9999999\n");
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"PING\r\n-ERR 'Stale Connection'\r\n");
        let expected = [
            Said::Pong,
            Said::Message(7),
            Said::Message(0x0A0D_0A0D_0A0D_0A0D),
            Said::Ping,
            Said::Error("-ERR 'Stale Connection'".to_owned()),
        ];
        assert_eq!(said(&[&bytes]), expected);
        for cut in 0..bytes.len() {
            assert_eq!(said(&[&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(said(&single), expected);
    }

    #[test]
    fn nonsense_is_survived() {
        assert_eq!(said(&[b"MSG\r\nMSG Q 1 x\r\n", &[0; 30]]).len(), 1);
        assert!(said(&[b"\n\n\nMSG Q 1 99999999999999999999999\r\n12345678", &[b'\n'; 64]]).len() == 1);
    }
}
