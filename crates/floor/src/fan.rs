//! The fan: one writer -> many connections of one reader process, fed by itself or by the chain source -> relay.
//!
//! With `wide` 50 this is "Producer 50/50": half of the messages go to all connections, half to one each, so that the output is
//! 50.5 times the input with a hundred connections.

use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::str::FromStr;

use super::frames::{Input, Packer};
use super::latency::Histogram;
use net::floor::stage::Stage;

use super::cost::{numbers, parse, usage};
use super::relay::{latency_numbers, number};
use super::{Cost, Latency, Numbers, Schedule, Wait, pair, prepare};
use net::clock;
use net::floor::{Readable, receive};
use net::tcp::{Batching, ConnId, Tcp, TcpConfig};

const ITEMS: u32 = 1000;
const READ: usize = 65_536;
/// In a message: which item, which one connection gets it (or all), and when it was intended to be sent.
const TO_ALL: u32 = u32::MAX;
/// What packing adds to a message.
const MESSAGE_OVERHEAD: usize = 2;

/// How the writer sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanIo {
    /// A blocking write for each connection: the floor.
    #[default]
    Bare,
    /// [`Tcp::send`] for each connection.
    Tcp,
    /// [`Tcp::send_all`] by `io_uring`.
    IoUring,
}

impl FromStr for FanIo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "bare" => Ok(Self::Bare),
            "tcp" => Ok(Self::Tcp),
            "uring" => Ok(Self::IoUring),
            _ => Err(format!("`{text}`: the writer can send bare, tcp or uring")),
        }
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct FanOptions {
    /// Connections of the reader.
    pub connections: usize,
    /// Messages a second that come in; 0 for as many as go through.
    pub rate: f64,
    /// Length of the run; the first quarter is warm-up.
    pub seconds: f64,
    /// Of a hundred messages, those that go to all connections; each other one goes to one connection.
    pub wide: u32,
    /// Messages that the writer takes in a turn at most.
    pub batch: usize,
    /// Source and relays are processes before the writer; otherwise the writer makes the messages.
    pub chain: bool,
    /// Relays between source and writer, where there is a chain.
    pub relays: usize,
    /// How the writer sends.
    pub io: FanIo,
    /// Idle strategy of relay and writer.
    pub wait: Wait,
    /// `SO_SNDBUF` and `SO_RCVBUF`; `None` leaves them to the kernel.
    pub socket_buffer: Option<usize>,
    /// Bytes of a message, at least 32.
    pub message: usize,
    /// The source sleeps so long (ns) when nothing is due; 0: it yields.
    pub tick: u64,
}

impl Default for FanOptions {
    fn default() -> Self {
        Self {
            connections: 100,
            rate: 0.0,
            seconds: 3.0,
            wide: 50,
            batch: 264,
            chain: true,
            relays: 1,
            io: FanIo::Bare,
            wait: Wait::Block,
            socket_buffer: Some(256 * 1024),
            message: 90,
            tick: 0,
        }
    }
}

/// The figures.
#[derive(Clone, Debug, PartialEq)]
pub struct FanReport {
    /// Deliveries a second at the reader, after the warm-up.
    pub rate: f64,
    /// Deliveries.
    pub deliveries: u64,
    /// Connections whose messages did not come in order.
    pub out_of_sequence: u64,
    /// From the intended time of sending to the reader.
    pub latency: Latency,
    /// What each stage used, a message; for writer and reader, a delivery.
    pub costs: Vec<Cost>,
    /// Why `io_uring` was asked for and not used.
    pub refused: Option<String>,
}

impl FanReport {
    /// As a JSON object.
    pub fn to_json(&self, options: &FanOptions) -> String {
        let costs: Vec<_> = self.costs.iter().map(Cost::to_json).collect();
        format!(
            r#"{{"floor":"fan","connections":{},"asked_rate":{},"wide":{},"batch":{},"chain":{},"relays":{},"io":"{:?}","refused":{},"wait":"{:?}","socket_buffer":{},"message":{},"rate":{:.0},"deliveries":{},"out_of_sequence":{},"latency_us":{},"stages":[{}]}}"#,
            options.connections,
            options.rate,
            options.wide,
            options.batch,
            options.chain,
            options.relays,
            options.io,
            self.refused.is_some(),
            options.wait,
            options.socket_buffer.map_or_else(|| "null".to_owned(), |bytes| bytes.to_string()),
            options.message,
            self.rate,
            self.deliveries,
            self.out_of_sequence,
            self.latency.to_json(),
            costs.join(","),
        )
    }
}

/// Runs the fan.
///
/// # Errors
/// When sockets or processes cannot be made, or a stage fails.
pub fn run(options: &FanOptions) -> io::Result<FanReport> {
    let (outs, backs) = connections(options)?;
    // Each process drops what it was copied with and is another's: the end of one stage must be seen by the next.
    let (mut outs, mut backs) = (Some(outs), Some(backs));
    let reader = Stage::fork(|| {
        drop(outs.take());
        read(options, backs.take().expect("not yet given away"))
    })?;
    drop(backs.take());
    let mut stages = Vec::new();
    let mut feed = None;
    if options.chain {
        let mut links = Vec::new();
        for _ in 0..=options.relays {
            links.push(pair(options.socket_buffer)?);
        }
        let (mut sends, mut takes): (Vec<_>, Vec<_>) =
            links.into_iter().map(|(to, from)| (Some(to), Some(from))).unzip();
        for place in 0..=options.relays {
            let input = place.checked_sub(1).and_then(|link| takes[link].take());
            let output = sends[place].take().expect("not yet given away");
            let others = (&mut outs, &mut sends, &mut takes);
            let stage = Stage::fork(|| {
                drop(others.0.take());
                others.1.clear();
                others.2.clear();
                input.as_ref().map_or_else(|| source(options, &output), |input| relay(options, input, &output))
            })?;
            stages.push((if place == 0 { "source" } else { "relay" }, stage));
        }
        feed = takes.pop().flatten();
    }
    let stage = Stage::fork(|| write(options, outs.take().expect("not yet given away"), feed.as_ref()))?;
    stages.push(("writer", stage));
    drop((outs.take(), feed));

    let mut costs = Vec::new();
    let mut refused = None;
    for (name, stage) in stages {
        let text = stage.join()?;
        costs.push(Cost::new(name, &parse(text.lines().next().unwrap_or_default())));
        refused = refused.or_else(|| text.lines().nth(1).map(str::to_owned));
    }
    let result = parse(&reader.join()?);
    let &[deliveries, calls, user, system, out_of_sequence, measured, ns, min, median, p90, p99, p999, max] =
        result.as_slice()
    else {
        return Err(io::Error::other("the reader handed nothing back"));
    };
    costs.push(Cost::new("reader", &[deliveries, calls, user, system]));
    let us = |ns: u64| ns as f64 / 1000.0;
    let latency =
        Latency { min: us(min), median: us(median), p90: us(p90), p99: us(p99), p999: us(p999), max: us(max) };
    let rate = measured as f64 * 1e9 / ns.max(1) as f64;
    Ok(FanReport { rate, deliveries, out_of_sequence, latency, costs, refused })
}

/// The connections: the writer's ends and the reader's.
fn connections(options: &FanOptions) -> io::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (mut outs, mut backs) = (Vec::new(), Vec::new());
    for _ in 0..options.connections {
        let back = TcpStream::connect(listener.local_addr()?)?;
        let (out, _) = listener.accept()?;
        prepare(&out, &back, options.socket_buffer)?;
        outs.push(out);
        backs.push(back);
    }
    Ok((outs, backs))
}

/// Makes messages when they are due.
struct Maker {
    schedule: Schedule,
    numbers: Numbers,
    message: Vec<u8>,
    wide: u32,
    connections: u32,
}

impl Maker {
    fn new(options: &FanOptions) -> Self {
        Self {
            schedule: Schedule::new(options.rate, options.seconds),
            numbers: Numbers(1),
            message: (0..options.message.max(32)).map(|i| i as u8).collect(),
            wide: options.wide,
            connections: options.connections as u32,
        }
    }

    fn make(&mut self, now: u64) -> &[u8] {
        let sequence = self.schedule.sent;
        let intended = self.schedule.intended(now);
        let number = self.numbers.next();
        let target = if (number >> 3) % 100 < self.wide { TO_ALL } else { (number >> 13) % self.connections };
        self.message[4..8].copy_from_slice(&((number >> 8) % ITEMS).to_ne_bytes());
        self.message[8..12].copy_from_slice(&target.to_ne_bytes());
        self.message[16..24].copy_from_slice(&intended.to_ne_bytes());
        self.message[24..32].copy_from_slice(&sequence.to_ne_bytes());
        &self.message
    }
}

fn source(options: &FanOptions, mut output: &TcpStream) -> String {
    let mut maker = Maker::new(options);
    let mut packer = Packer::with_capacity(2 * READ);
    let mut calls = 0;
    loop {
        let now = clock::now();
        let Some(due) = maker.schedule.due(now, 300) else { break };
        if due == 0 {
            if options.tick > 0 {
                std::thread::sleep(std::time::Duration::from_nanos(options.tick));
            } else {
                std::thread::yield_now();
            }
            continue;
        }
        packer.clear();
        for _ in 0..due {
            packer.push(maker.make(now));
        }
        packer.finish();
        calls += 1;
        if output.write_all(&packer.bytes).is_err() {
            break;
        }
    }
    numbers(&usage(maker.schedule.sent, calls))
}

fn relay(options: &FanOptions, input: &TcpStream, mut output: &TcpStream) -> String {
    let mut buffer = Input::new(READ);
    let mut packer = Packer::with_capacity(2 * READ);
    let (mut messages, mut calls) = (0, 0);
    loop {
        packer.clear();
        if !buffer.read(READ, |room| options.wait.read(input, room)) {
            break;
        }
        buffer.messages(|message| {
            packer.push(message);
            messages += 1;
        });
        packer.finish();
        if output.write_all(&packer.bytes).is_err() {
            break;
        }
        calls += 1;
    }
    numbers(&usage(messages, calls))
}

/// One connection's entry for an item.
#[derive(Clone, Copy)]
struct Watch {
    connection: u32,
    stream: u32,
}

/// A turn's messages, one behind the other, and what the writer has to know of each.
#[derive(Default)]
struct Turn {
    bodies: Vec<u8>,
    spans: Vec<(Range<usize>, u32, u32)>,
}

impl Turn {
    fn clear(&mut self) {
        self.bodies.clear();
        self.spans.clear();
    }

    fn add(&mut self, message: &[u8]) {
        let start = self.bodies.len();
        self.bodies.extend_from_slice(message);
        let target = u32::from_ne_bytes(message[8..12].try_into().expect("four bytes"));
        self.spans.push((start..self.bodies.len(), number(message) % ITEMS, target));
    }

    /// Packs what one connection gets; returns how many messages that is.
    #[inline]
    fn pack(&self, connection: usize, watches: &[Watch], connections: usize, packer: &mut Packer) -> u64 {
        let mut count = 0;
        for (span, item, target) in &self.spans {
            if *target == TO_ALL || *target == connection as u32 {
                let watch = watches[*item as usize * connections + connection];
                debug_assert_eq!(watch.connection, connection as u32);
                packer.push(&self.bodies[span.clone()])[4..8].copy_from_slice(&watch.stream.to_ne_bytes());
                count += 1;
            }
        }
        packer.finish();
        count
    }
}

fn write(options: &FanOptions, outs: Vec<TcpStream>, feed: Option<&TcpStream>) -> String {
    let connections = options.connections;
    let watches: Vec<Watch> = (0..ITEMS)
        .flat_map(|item| {
            (0..connections as u32).map(move |connection| Watch { connection, stream: item * 7 + connection })
        })
        .collect();
    let mut maker = Maker::new(options);
    let mut buffer = Input::new(READ);
    let mut sender = Sender::new(options.io, outs);
    let mut turn = Turn::default();
    let (mut deliveries, mut sends) = (0, 0);
    // A read of so many bytes holds at most a batch.
    let limit = (options.batch * (options.message.max(32) + MESSAGE_OVERHEAD)).min(READ);
    loop {
        turn.clear();
        if let Some(feed) = feed {
            if !buffer.read(limit, |room| options.wait.read(feed, room)) {
                break;
            }
            buffer.messages(|message| turn.add(message));
        } else {
            let now = clock::now();
            let Some(due) = maker.schedule.due(now, options.batch as u64) else { break };
            for _ in 0..due {
                turn.add(maker.make(now));
            }
        }
        if turn.spans.is_empty() {
            if feed.is_none() {
                std::thread::yield_now();
            }
            continue;
        }
        let Some((delivered, sent)) = sender.send(&turn, &watches, connections) else { break };
        deliveries += delivered;
        sends += sent;
    }
    let refused = sender.refused().map(|why| format!("\n{why}")).unwrap_or_default();
    numbers(&usage(deliveries, sends)) + &refused
}

/// The ways to send a turn to all connections.
enum Sender {
    Bare { outs: Vec<TcpStream>, packer: Packer },
    Set { tcp: Box<Tcp>, conns: Vec<ConnId>, packer: Packer, batch: Vec<(ConnId, Range<usize>)>, ring: bool },
}

impl Sender {
    fn new(io: FanIo, outs: Vec<TcpStream>) -> Self {
        let packer = Packer::with_capacity(1 << 20);
        if io == FanIo::Bare {
            return Self::Bare { outs, packer };
        }
        let ring = io == FanIo::IoUring;
        let batching = if ring { Batching::IoUring } else { Batching::Send };
        let mut tcp = Tcp::new(TcpConfig { batching, ..TcpConfig::default() }).expect("a set");
        let conns = outs.into_iter().map(|out| tcp.adopt(out).expect("adopt")).collect();
        Self::Set { tcp: Box::new(tcp), conns, packer, batch: Vec::new(), ring }
    }

    /// Sends a turn; returns deliveries and sends, or `None` when a connection is gone.
    fn send(&mut self, turn: &Turn, watches: &[Watch], connections: usize) -> Option<(u64, u64)> {
        let (mut deliveries, mut sends) = (0, 0);
        match self {
            Self::Bare { outs, packer } => {
                for (connection, mut out) in outs.iter().enumerate() {
                    packer.clear();
                    deliveries += turn.pack(connection, watches, connections, packer);
                    if !packer.bytes.is_empty() {
                        sends += 1;
                        out.write_all(&packer.bytes).ok()?;
                    }
                }
            }
            Self::Set { tcp, conns, packer, batch, ring } => {
                batch.clear();
                packer.clear();
                for (connection, &conn) in conns.iter().enumerate() {
                    if !*ring {
                        packer.clear();
                    }
                    let start = packer.bytes.len();
                    deliveries += turn.pack(connection, watches, connections, packer);
                    if packer.bytes.len() == start {
                        continue;
                    }
                    sends += 1;
                    if *ring {
                        batch.push((conn, start..packer.bytes.len()));
                    } else {
                        tcp.send(conn, &packer.bytes);
                    }
                }
                tcp.send_all(batch, |range| &packer.bytes[range.clone()]);
                // As the blocking form does: no connection is left behind by more than a turn.
                let mut events = Vec::new();
                while conns.iter().any(|&conn| tcp.queued(conn) > 0) {
                    tcp.poll(None, &mut events).ok()?;
                }
            }
        }
        Some((deliveries, sends))
    }

    fn refused(&self) -> Option<&str> {
        match self {
            Self::Bare { .. } => None,
            Self::Set { tcp, .. } => tcp.batching_refused(),
        }
    }
}

/// The reader of all connections.
fn read(options: &FanOptions, backs: Vec<TcpStream>) -> String {
    let mut readable = Readable::new(128).expect("epoll");
    let mut connections = Vec::new();
    for (index, back) in backs.into_iter().enumerate() {
        back.set_nonblocking(true).expect("non-blocking");
        readable.add(&back, index as u64).expect("epoll");
        connections.push((back, Vec::<u8>::new(), 0u64));
    }
    let mut histogram = Histogram::new();
    let mut buffer = vec![0; 65_536 + 8192];
    let warm = clock::now() + (options.seconds * 0.25e9) as u64;
    let (mut deliveries, mut calls, mut bad, mut open) = (0u64, 0, 0, connections.len());
    let (mut measured_from, mut before, mut last) = (None, 0, 0);
    while open > 0 {
        let count = readable.wait().expect("wait");
        let now = clock::now();
        if measured_from.is_none() && now > warm {
            (measured_from, before) = (Some(now), deliveries);
        }
        for n in 0..count {
            let (back, partial, expected) = &mut connections[readable.number(n) as usize];
            buffer[..partial.len()].copy_from_slice(partial);
            let start = partial.len();
            let received = match receive(back, &mut buffer[start..start + READ]) {
                Ok(0) => {
                    readable.remove(back).expect("epoll");
                    open -= 1;
                    continue;
                }
                Ok(received) => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => {
                    open -= 1;
                    readable.remove(back).expect("epoll");
                    continue;
                }
            };
            calls += 1;
            // The clock is read at each read of a connection: a message that waits in this turn behind other connections has waited.
            last = clock::now();
            let have = start + received;
            let used = super::frames::messages(&buffer[..have], |message| {
                let sequence = u64::from_ne_bytes(message[24..32].try_into().expect("eight bytes"));
                bad += u64::from(sequence < *expected);
                *expected = sequence + 1;
                if measured_from.is_some() {
                    let intended = u64::from_ne_bytes(message[16..24].try_into().expect("eight bytes"));
                    histogram.add(last.saturating_sub(intended));
                }
                deliveries += 1;
            });
            partial.clear();
            partial.extend_from_slice(&buffer[used..have]);
        }
    }
    let ns = measured_from.map_or(0, |from: u64| last.saturating_sub(from));
    let mut values = usage(deliveries, calls).to_vec();
    values.extend([bad, deliveries - before, ns]);
    values.extend(latency_numbers(&histogram.latency()));
    numbers(&values)
}

impl fmt::Display for FanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} M deliveries/s, {} bad; {}", self.rate / 1e6, self.out_of_sequence, self.latency)?;
        self.costs.iter().try_for_each(|cost| write!(f, "; {cost}"))
    }
}
