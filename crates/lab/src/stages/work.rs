//! The stages of an update's way through `serve`, each timed alone on real messages, and the bare thing it cannot be cheaper than.
//!
//! A round is one batch: a provider's bytes lie in a socket, and go through wait, receive, frames, Source Distributor, P2PS, packing
//! and sends as in a turn of the server, by the same functions. Between two stages the clock is read. What a stage of
//! the server does in one call with another one is measured in both ways, and is the difference.

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use hub::stream::BlockWriter;
use net::tcp::{ConnId, Event, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp, TcpConfig};
use rssl::{ClientConfig, Connection, ServerConfig};
use rwf::msg::MsgClass;
use rwf::peek;

use super::total::Total;
use super::world::{Hub, SESSION, SOURCE, Source, Work};

/// What is timed. One function each that is never inlined, so that a profiler counts its instructions by its name.
macro_rules! probes {
    ($($name:ident)*) => {
        /// What is timed; the names are those in valgrind's output.
        pub const PROBES: &[&str] = &[$(stringify!($name)),*];

        #[allow(non_camel_case_types, reason = "they are function names too")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Probe { $($name),* }

        /// The functions in which the work is done.
        mod probed {
            $(
                #[inline(never)]
                pub(super) fn $name(work: &mut dyn FnMut()) {
                    std::hint::black_box(stringify!($name));
                    work();
                }
            )*
        }

        impl Probe {
            fn run(self, work: &mut dyn FnMut()) {
                match self { $(Self::$name => probed::$name(work)),* }
            }
        }
    };
}

probes! {
    stage_wait stage_receive stage_frame stage_header stage_distribute stage_publish stage_unwatched stage_watched stage_pack
    stage_send stage_turn
    floor_wait floor_receive floor_frame floor_header floor_lookup floor_publish floor_apply floor_fan_out floor_pack floor_send
}

/// Nanoseconds of each probe, round by round.
struct Clock {
    /// What reading it twice costs.
    own_ns: f64,
    round: Vec<f64>,
    rounds: Vec<Vec<f64>>,
}

impl Clock {
    fn new() -> Self {
        let read = || {
            let begin = net::clock::now();
            (net::clock::now() - begin) as f64
        };
        let mut all: Vec<f64> = (0..2_001).map(|_| read()).collect();
        all.sort_by(f64::total_cmp);
        Self { own_ns: all[1_000], round: vec![0.0; PROBES.len()], rounds: Vec::new() }
    }

    /// Times a part of a round; a probe may have several.
    fn time(&mut self, probe: Probe, work: &mut dyn FnMut()) {
        let begin = net::clock::now();
        probe.run(work);
        self.round[probe as usize] += (net::clock::now() - begin) as f64 - self.own_ns;
    }

    fn end_round(&mut self) {
        let done = std::mem::replace(&mut self.round, vec![0.0; PROBES.len()]);
        self.rounds.push(done);
    }

    /// The median of a probe over the rounds after the first so many.
    fn medians(&self, warm_up: usize) -> Vec<f64> {
        let of = |n: usize| self.rounds.iter().skip(warm_up).map(|r| r[n]).collect::<Vec<_>>();
        (0..PROBES.len()).map(|n| measure::stats::median(&of(n))).collect()
    }
}

/// Sockets on which the server's side is a [`Tcp`] and the other is plain.
struct Links {
    tcp: Tcp,
    conns: Vec<ConnId>,
    far: Vec<TcpStream>,
    events: Vec<Event>,
}

impl Links {
    fn open(count: usize) -> std::io::Result<Self> {
        let mut tcp = Tcp::new(TcpConfig::default())?;
        let options = SocketOptions {
            no_delay: true,
            send_buffer: Some(SOCKET_BUFFER),
            receive_buffer: Some(SOCKET_BUFFER),
            ..SocketOptions::default()
        };
        let (_, at) = tcp.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options)?;
        let mut links = Self { tcp, conns: Vec::new(), far: Vec::new(), events: Vec::new() };
        for n in 1..=count {
            let far = TcpStream::connect(at)?;
            far.set_nodelay(true)?;
            far.set_nonblocking(true)?;
            links.far.push(far);
            while links.conns.len() < n {
                links.tcp.poll(Some(Duration::from_secs(1)), &mut links.events)?;
                for event in &links.events {
                    if let Event::Accepted { conn, .. } = event {
                        links.conns.push(*conn);
                    }
                }
            }
        }
        Ok(links)
    }
}

const SOCKET_BUFFER: usize = 262_144;
/// Rounds that do not count.
const WARM_UP: usize = 20;
/// Bytes of a message header that its reader looks at, of a hub header, of an entry of a client's list.
const HEADER: usize = 12;
const HUB_HEADER: usize = 16;
const ENTRY: usize = 8;

/// The task of a run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Items
    #[arg(long)]
    items: u32,
    /// Bytes of an update
    #[arg(long)]
    size: usize,
    /// Clients
    #[arg(long)]
    mounts: u32,
    /// Share of the items that all clients watch
    #[arg(long)]
    common: f64,
    /// Updates in a turn
    #[arg(long)]
    batch: usize,
    /// Turns
    #[arg(long)]
    rounds: usize,
}

/// Measures and prints a line of JSON: nanoseconds of each probe a round, and how much a round is.
///
/// # Errors
/// What went wrong, for the user.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let work = Work { items: args.items, size: args.size, mounts: args.mounts.max(1), common: args.common };
    let mut bench = Bench::new(work, args.batch)?;
    let mut clock = Clock::new();
    for _ in 0..args.rounds + WARM_UP {
        bench.round(&mut clock)?;
        bench.sizes.push([bench.updates as f64, bench.deliveries as f64]);
        clock.end_round();
    }
    let probes: serde_json::Map<String, serde_json::Value> =
        PROBES.iter().zip(clock.medians(WARM_UP)).map(|(name, ns)| ((*name).to_owned(), ns.into())).collect();
    let Bench { bytes_in, bytes_out, .. } = bench;
    let rounds = clock.rounds.len();
    let [updates, deliveries] =
        [0, 1].map(|n| measure::stats::median(&bench.sizes.iter().map(|s| s[n]).collect::<Vec<_>>()));
    println!(
        "{}",
        serde_json::json!({
            "probes": probes, "updates": updates, "deliveries": deliveries, "rounds": rounds,
            "bytes_in": bytes_in, "bytes_out": bytes_out, "sends": work.mounts, "clock_ns": clock.own_ns,
        })
    );
    Ok(())
}

/// Everything a round needs.
struct Bench {
    batch: usize,
    source: Source,
    hub: Hub,
    /// First link: the provider; the others: clients.
    links: Links,
    /// As many plain sockets.
    bare: Vec<(TcpStream, TcpStream)>,
    provider: Connection,
    route: Connection,
    sessions: Vec<Connection>,
    scratch: Scratch,
    writer: BlockWriter,
    total: Total,
    wire: Vec<u8>,
    input: Vec<u8>,
    room: Vec<u8>,
    out: Vec<u8>,
    table: Vec<u64>,
    /// An empty set, to wait on.
    idle: Tcp,
    updates: usize,
    deliveries: usize,
    bytes_in: usize,
    bytes_out: usize,
    /// Updates and deliveries of each round.
    sizes: Vec<[f64; 2]>,
}

impl Bench {
    fn new(work: Work, batch: usize) -> anyhow::Result<Self> {
        let failed = |e: std::io::Error| anyhow::anyhow!("sockets of the stages: {e}");
        let mut source = Source::new(&work)?;
        let hub = Hub::open(&work, &mut source)?;
        let links = Links::open(1 + work.mounts as usize).map_err(failed)?;
        let bare: Result<Vec<_>, _> = (0..=work.mounts).map(|_| pair()).collect();
        let (route, provider) = handshake()?;
        let sessions: Result<Vec<_>, _> = (0..work.mounts).map(|_| handshake().map(|(_, server)| server)).collect();
        Ok(Self {
            batch: batch.max(1),
            source,
            hub,
            links,
            bare: bare.map_err(failed)?,
            provider,
            route,
            sessions: sessions?,
            scratch: Scratch::default(),
            writer: BlockWriter::new(1),
            total: Total::open(&work)?,
            wire: Vec::new(),
            input: Vec::new(),
            room: vec![0; 4 << 20],
            out: Vec::with_capacity(1 << 20),
            table: vec![1; work.items as usize + 16],
            idle: Tcp::new(TcpConfig::default()).map_err(failed)?,
            updates: 0,
            deliveries: 0,
            bytes_in: 0,
            bytes_out: 0,
            sizes: Vec::new(),
        })
    }

    fn round(&mut self, clock: &mut Clock) -> anyhow::Result<()> {
        let now = net::clock::now();
        self.make_batch(now);
        self.receive(clock)?;
        let messages = self.frames(clock, now)?;
        self.distribute(clock, now, &messages);
        self.deliver(clock, now)?;
        self.total.round(self.batch, &mut |work| clock.time(Probe::stage_turn, work))
    }

    /// The provider's bytes of a turn, packed as the source packs them.
    fn make_batch(&mut self, now: u64) {
        self.wire.clear();
        let mut packer = self.provider.pack(now, &mut self.wire);
        let (updates, _) = self.source.updates(self.batch, |msg, stream| packer.push(msg, Some(stream)));
        packer.finish().expect("reference updates fit frames");
        (self.updates, self.bytes_in) = (updates, self.wire.len());
    }

    /// Waits for the bytes and takes them in; beside it the same from a plain socket.
    fn receive(&mut self, clock: &mut Clock) -> anyhow::Result<()> {
        let failed = |e: std::io::Error| anyhow::anyhow!("the stages' provider: {e}");
        self.input.clear();
        (&self.links.far[0]).write_all(&self.wire).map_err(failed)?;
        let Links { tcp, conns, events, .. } = &mut self.links;
        while self.input.len() < self.wire.len() {
            let mut polled = Ok(());
            clock.time(Probe::stage_wait, &mut || polled = tcp.poll(Some(Duration::from_secs(1)), events));
            polled.map_err(failed)?;
            let mut got = 0;
            clock.time(Probe::stage_receive, &mut || {
                if let RecvOutcome::Data(bytes) = tcp.recv(conns[0], &mut self.scratch) {
                    got = bytes.len();
                }
            });
            if got == 0 {
                anyhow::bail!("the stages' provider sent nothing");
            }
            self.input.extend_from_slice(&self.scratch[..got]);
        }
        clock.time(Probe::floor_wait, &mut || {
            let _ = black_box(self.idle.poll(Some(Duration::ZERO), events));
        });
        let (near, far) = &mut self.bare[0];
        far.write_all(&self.wire).map_err(failed)?;
        let mut left = self.wire.len();
        while left > 0 {
            let mut got = Ok(0);
            clock.time(Probe::floor_receive, &mut || got = near.read(&mut self.room[..SOCKET_BUFFER]));
            left = left.saturating_sub(got.map_err(failed)?);
        }
        Ok(())
    }

    /// Finds the messages in the bytes; gives where they are.
    fn frames(&mut self, clock: &mut Clock, now: u64) -> anyhow::Result<Vec<Range<usize>>> {
        let Self { route, input, out, room, .. } = self;
        let (mut seen, mut result) = (Seen::default(), Ok(()));
        clock.time(Probe::stage_frame, &mut || result = route.receive(now, input, out, &mut seen));
        black_box(seen.bytes);
        result.map_err(anyhow::Error::msg)?;
        clock.time(Probe::floor_frame, &mut || {
            room[..input.len()].copy_from_slice(black_box(input));
            black_box(&room);
        });
        let mut places = Places { start: input.as_ptr() as usize, ranges: Vec::new() };
        route.receive(now, input, out, &mut places).map_err(anyhow::Error::msg)?;
        if places.ranges.len() == self.updates { Ok(places.ranges) } else { Err(anyhow::anyhow!("frames were lost")) }
    }

    /// Header, look-up and publishing: together as the Source Distributor does them, and the parts that can be called alone.
    fn distribute(&mut self, clock: &mut Clock, now: u64, messages: &[Range<usize>]) {
        let Self { hub, input, writer, room, table, .. } = self;
        let all = || messages.iter().map(|range| &input[range.clone()]);
        clock.time(Probe::stage_header, &mut || {
            for msg in all() {
                black_box((peek::class(msg) == Some(MsgClass::UPDATE), peek::header(msg).is_ok()));
            }
        });
        clock.time(Probe::floor_header, &mut || {
            for (place, msg) in room.chunks_exact_mut(HEADER).zip(all()) {
                place.copy_from_slice(&msg[..HEADER]);
            }
            black_box(&room);
        });
        let streams: Vec<usize> = all().filter_map(peek::stream_id).map(|id| id as usize % table.len()).collect();
        clock.time(Probe::floor_lookup, &mut || {
            black_box(streams.iter().map(|at| table[*at]).sum::<u64>());
        });
        hub.distributor.clear_block();
        clock.time(Probe::stage_distribute, &mut || {
            for msg in all() {
                hub.distributor.session_message(now, SESSION, msg, &mut hub.outbox);
            }
        });
        writer.clear();
        clock.time(Probe::stage_publish, &mut || {
            for (handle, msg) in all().enumerate() {
                writer.update(handle as u32, false, msg);
            }
        });
        clock.time(Probe::floor_publish, &mut || {
            copy_in_pieces(room, HUB_HEADER, all());
            black_box(&room);
        });
    }

    /// What a P2PS does with the block, and what goes out.
    fn deliver(&mut self, clock: &mut Clock, now: u64) -> anyhow::Result<()> {
        let Self { hub, room, out, links, bare, sessions, .. } = self;
        let block = hub.distributor.block().unwrap_or_default();
        let mut read = Ok(());
        clock.time(Probe::stage_unwatched, &mut || read = hub.unwatched.hub_block(now, SOURCE, block));
        read.map_err(anyhow::Error::msg)?;
        hub.unwatched.flush(block, |_, _| {});
        let (updates, step) = (self.updates, block.len() / self.updates.max(1));
        clock.time(Probe::floor_apply, &mut || {
            for n in 0..updates {
                room[n * HUB_HEADER..][..HUB_HEADER].copy_from_slice(&block[n * step..][..HUB_HEADER]);
            }
            black_box(&room);
        });
        let mut read = Ok(());
        clock.time(Probe::stage_watched, &mut || read = hub.watched.hub_block(now, SOURCE, block));
        read.map_err(anyhow::Error::msg)?;
        let (mut deliveries, mut bytes, mut fault) = (0, 0, None);
        // The cost of flushing beside packing is packing's: begin and end of the call are timed with it.
        hub.watched.flush(block, |client, list| {
            let (slot, length) = (client.0 as usize, list.len());
            deliveries += length;
            out.clear();
            let session = &mut sessions[slot];
            let mut list = Some(list);
            clock.time(Probe::stage_pack, &mut || {
                let mut packer = session.pack(now, out);
                for (body, stream) in list.take().into_iter().flatten() {
                    packer.push(body, Some(stream));
                }
                let _ = black_box(packer.finish());
            });
            let piece = out.len() / length.max(1);
            clock.time(Probe::floor_pack, &mut || {
                copy_in_pieces(room, 0, out.chunks(piece.max(1)));
                black_box(&room);
            });
            bytes += out.len();
            let mut sent = SendOutcome::Gone;
            clock.time(Probe::stage_send, &mut || sent = links.tcp.send(links.conns[1 + slot], out));
            let mut written = Ok(0);
            let (near, _) = &mut bare[1 + slot];
            clock.time(Probe::floor_send, &mut || written = near.write(out));
            if sent != SendOutcome::Sent || written.as_ref().ok() != Some(&out.len()) {
                fault = Some(anyhow::anyhow!(
                    "a socket of the stages did not take a turn: {sent:?}, {written:?}; use smaller batches"
                ));
            }
        });
        clock.time(Probe::floor_fan_out, &mut || {
            for place in room.chunks_exact_mut(ENTRY).take(deliveries) {
                place.copy_from_slice(&black_box(7u64).to_le_bytes());
            }
            black_box(&room);
        });
        (self.deliveries, self.bytes_out) = (deliveries, bytes);
        for far in links.far.iter_mut().chain(bare.iter_mut().map(|(_, far)| far)) {
            while matches!(far.read(&mut self.room), Ok(n) if n > 0) {}
        }
        fault.map_or(Ok(()), Err)
    }
}

/// Copies messages one behind the other, with so many bytes of room before each.
#[inline]
fn copy_in_pieces<'a>(room: &mut [u8], before: usize, pieces: impl Iterator<Item = &'a [u8]>) {
    let mut at = 0;
    for piece in pieces {
        at += before;
        room[at..at + piece.len()].copy_from_slice(black_box(piece));
        at += piece.len();
    }
}

/// A plain pair of sockets that do not block.
fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let far = TcpStream::connect(listener.local_addr()?)?;
    let (near, _) = listener.accept()?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    Ok((near, far))
}

/// Both ends of a session after its handshake: client, server.
///
/// # Errors
/// It was refused.
pub fn handshake() -> anyhow::Result<(Connection, Connection)> {
    let mut client = Connection::client(ClientConfig::default());
    let mut server = Connection::server(ServerConfig::default());
    let now = net::clock::now();
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.start(now, &mut there);
    for _ in 0..4 {
        let said = std::mem::take(&mut there);
        server.receive(now, &said, &mut back, &mut Seen::default()).map_err(anyhow::Error::msg)?;
        let said = std::mem::take(&mut back);
        client.receive(now, &said, &mut there, &mut Seen::default()).map_err(anyhow::Error::msg)?;
    }
    if client.is_connected() && server.is_connected() {
        Ok((client, server))
    } else {
        Err(anyhow::anyhow!("no handshake"))
    }
}

/// Counts the bytes of messages.
#[derive(Default)]
struct Seen {
    bytes: usize,
}

impl rssl::Sink for Seen {
    #[inline]
    fn message(&mut self, msg: &[u8]) {
        self.bytes += msg.len();
    }
}

/// Remembers where messages lie in the input.
struct Places {
    start: usize,
    ranges: Vec<Range<usize>>,
}

impl rssl::Sink for Places {
    fn message(&mut self, msg: &[u8]) {
        let at = msg.as_ptr() as usize - self.start;
        self.ranges.push(at..at + msg.len());
    }
}
