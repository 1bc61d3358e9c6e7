//! Rates of messages without a store, to one receiver, two, three and four, with a store in memory, with one on disk, and with three: by turns, medians.
//! A store is a receiver at least, and more: what as many receivers get by the same transport is the most that stores could.
//!
//! `cargo run --release -p lbm-store-io --example rates [seconds=2] [rounds=3] [bytes=700] [folder=...] [cases=abcdefgh] [transport=tcp] [options=FILE]`.
//! The folder is where logs are written, the system's for temporary files as a rule. Cases are letters from a on, in the order above. A file has options of
//! LBM that count before those here. `peers/stores/run.sh` calls it by transports.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use lbm_io::options::{Options, Scope};
use lbm_io::{Context, Delivery, Events, SendFlags, Sources};
use lbm_store::receiver::Delivered;
use lbm_store::source::SourceEvent;
use lbm_store::store::StoreConfig;
use lbm_store_io::{Client, ClientEvents, PersistentReceiver, PersistentSource, ServerConfig, StoreServer};
use net::affinity::CpuList;

/// Messages between two turns of the source.
const BURST: u64 = 64;

/// The set-up that is measured.
struct Setup {
    time: Duration,
    rounds: usize,
    bytes: usize,
    folder: PathBuf,
    cases: Option<String>,
    options: Options,
    cpus: CpuList,
}

impl Setup {
    /// Has the calling thread run on the processor of this place, if there is one for each of `threads`; else on any. Two threads that wake each other are
    /// put on one processor by the kernel though another one is idle.
    fn place(&self, at: usize, threads: usize) -> anyhow::Result<()> {
        let own = self.cpus.iter().nth(at).filter(|_| threads <= self.cpus.len()).and_then(CpuList::one);
        own.unwrap_or_else(|| self.cpus.clone()).pin().map_err(Into::into)
    }
}

/// Options of all cases. Rates are bounded by nothing that is set.
fn options(transport: &str, file: Option<&str>) -> anyhow::Result<Options> {
    let lines = "
        context default_interface 127.0.0.1
        context resolver_multicast_address 239.255.17.9
        context transport_lbtrm_data_rate_limit 100000000000
        source implicit_batching_minimum_length 8192
        source ume_flight_size 20000
        source ume_session_id 1
        context transport_tcp_port_low 0
        context transport_tcp_port_high 0
        context request_tcp_port_low 0
        context request_tcp_port_high 0";
    let mut options = Options::new();
    options.parse("rates", lines).map_err(|bad| anyhow!("{}", bad[0]))?;
    options.set(Scope::Source, "transport", transport)?;
    if let Some(file) = file {
        options.parse(file, &std::fs::read_to_string(file)?).map_err(|bad| anyhow!("{}", bad[0]))?;
    }
    Ok(options)
}

impl Setup {
    fn of(words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut given = HashMap::new();
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| anyhow!("{word}: not name=value"))?;
            given.insert(name.to_owned(), value.to_owned());
        }
        let setup = Self {
            time: Duration::from_secs_f64(given.remove("seconds").map_or(Ok(2.0), |word| word.parse())?),
            rounds: given.remove("rounds").map_or(Ok(3), |word| word.parse())?,
            bytes: given.remove("bytes").map_or(Ok(700), |word| word.parse())?,
            folder: given.remove("folder").map_or_else(std::env::temp_dir, PathBuf::from),
            cases: given.remove("cases"),
            options: options(
                &given.remove("transport").unwrap_or_else(|| "tcp".to_owned()),
                given.remove("options").as_deref(),
            )?,
            cpus: CpuList::current()?,
        };
        ensure!(given.is_empty(), "not known: {given:?}");
        Ok(setup)
    }
}

#[derive(Default)]
struct Counts {
    ready: bool,
    stable: u64,
    came: u64,
}

impl Events for Counts {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {
        self.came += 1;
    }
}

impl ClientEvents for Counts {
    fn delivered(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, _: &Delivered<'_>) {
        self.came += 1;
    }

    fn source(&mut self, _: &mut Sources, _: PersistentSource, event: &SourceEvent) {
        match event {
            SourceEvent::Ready { .. } => self.ready = true,
            SourceEvent::Stable { first, last } => self.stable += u64::from(last.wrapping_sub(*first)) + 1,
            _ => {}
        }
    }
}

/// A receiver without stores on a thread of its own, which counts what comes.
fn plain_receiver(
    setup: &Arc<Setup>,
    topic: &str,
    threads: usize,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<anyhow::Result<(u64, Duration)>> {
    let (topic, stop, setup) = (topic.to_owned(), stop.clone(), setup.clone());
    std::thread::spawn(move || {
        setup.place(1, threads)?;
        let mut context = Context::new(&setup.options)?;
        context.receiver(&topic, &setup.options)?;
        let mut counts = Counts::default();
        while !stop.load(Ordering::Relaxed) {
            context.poll(Some(Duration::from_millis(10)), &mut counts)?;
        }
        Ok((counts.came, own_processor()))
    })
}

/// Processor time of the calling thread so far.
fn own_processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// Processor time of this process so far.
fn processors() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have blanks: the times in user and system mode are the 14th and 15th of all fields, in hundredths of a second.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// Gigabytes a second that one thread copies just now, of memory that is as much as what is under way: what others on the machine leave of the caches
/// that all of them share. Rates of rounds in which it differs much cannot be compared.
fn copying() -> f64 {
    const BYTES: usize = 8 << 20;
    const TIMES: usize = 4;
    let (from, mut to) = (vec![1u8; BYTES], vec![2u8; BYTES]);
    let began = Instant::now();
    for _ in 0..TIMES {
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
    }
    (TIMES * BYTES) as f64 / 1e9 / began.elapsed().as_secs_f64()
}

/// Messages a second, the processors that all threads together have kept busy, and the processor time of a message at the source, and at all receivers or stores.
struct Rate {
    messages: f64,
    processors: f64,
    source_ns: f64,
    others_ns: f64,
    /// See [`copying`]: before the first message.
    copying: f64,
}

/// Clocks before the first message is sent.
struct Started {
    at: Instant,
    busy: Duration,
    own: Duration,
    copying: f64,
}

impl Started {
    fn now() -> Self {
        let copying = copying();
        Self { at: Instant::now(), busy: processors(), own: own_processor(), copying }
    }

    /// So many messages later.
    fn rate(&self, messages: u64) -> Rate {
        let took = self.at.elapsed().as_secs_f64();
        Rate {
            messages: messages as f64 / took,
            processors: processors().saturating_sub(self.busy).as_secs_f64() / took,
            source_ns: own_processor().saturating_sub(self.own).as_nanos() as f64 / messages as f64,
            others_ns: 0.0,
            copying: self.copying,
        }
    }
}

/// Messages a second to so many receivers, without a store.
fn streaming(setup: &Arc<Setup>, topic: &str, receivers: usize) -> anyhow::Result<Rate> {
    let stop = Arc::new(AtomicBool::new(false));
    let threads = receivers + 1;
    let receivers: Vec<_> = (0..receivers).map(|_| plain_receiver(setup, topic, threads, &stop)).collect();
    setup.place(0, threads)?;
    let mut context = Context::new(&setup.options)?;
    let source = context.source(topic, &setup.options)?;
    let mut counts = Counts::default();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        context.poll(Some(Duration::from_millis(10)), &mut counts)?;
    }
    let (payload, started, mut sent) = (payload(setup.bytes), Started::now(), 0u64);
    while started.at.elapsed() < setup.time {
        for _ in 0..BURST {
            context.send(source, &payload, SendFlags::NONE).map_err(|e| anyhow!("{e}"))?;
        }
        sent += BURST;
        context.poll(Some(Duration::ZERO), &mut counts)?;
    }
    let took = started.at.elapsed().as_secs_f64();
    let mut rate = started.rate(sent);
    stop.store(true, Ordering::Relaxed);
    for receiver in receivers {
        let (heard, busy) = receiver.join().map_err(|_| anyhow!("the receiver"))??;
        ensure!(heard > 0, "nothing came");
        // A source over LBT-RM does not wait for receivers that are behind: what has come to the slowest counts.
        rate.messages = rate.messages.min(heard as f64 / took);
        rate.others_ns += busy.as_nanos() as f64 / sent as f64;
    }
    Ok(rate)
}

/// Bytes that do not pack: a disk is to write as many as there are.
fn payload(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A store on a thread of its own.
fn store(
    setup: &Arc<Setup>,
    threads: usize,
    folder: Option<&Path>,
    id: u16,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<(SocketAddrV4, JoinHandle<anyhow::Result<Duration>>)> {
    let config = ServerConfig {
        address: SocketAddrV4::new([127, 0, 0, 1].into(), 0),
        allow: Vec::new(),
        folder: folder.map(Path::to_owned),
        log_bytes_min: 512 << 20,
        store: StoreConfig { id, source_bytes_max: 64 << 20, ..StoreConfig::default() },
    };
    let mut server = StoreServer::new(&config, &setup.options)?;
    let (address, stop, setup) = (server.address(), stop.clone(), setup.clone());
    let thread = std::thread::spawn(move || {
        setup.place(1, threads)?;
        while !stop.load(Ordering::Relaxed) {
            server.poll(Some(Duration::from_millis(10)))?;
        }
        let busy = own_processor();
        drop(server);
        config.folder.map_or(Ok(()), std::fs::remove_dir_all)?;
        Ok(busy)
    });
    Ok((address, thread))
}

/// Messages a second that become stable, with so many stores, and no other receiver.
fn stored(setup: &Arc<Setup>, topic: &str, stores: u16, on_disk: bool) -> anyhow::Result<Rate> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut options = setup.options.clone();
    let mut threads = Vec::new();
    // The log's writer runs where there is room.
    setup.place(0, usize::MAX)?;
    for i in 0..stores {
        let folder = setup.folder.join(format!("rates-{}-{topic}-{i}", std::process::id()));
        let (address, thread) = store(setup, usize::from(stores) + 1, on_disk.then_some(&*folder), i, &stop)?;
        options.set(Scope::Source, "ume_store", &address.to_string())?;
        threads.push(thread);
    }
    setup.place(0, usize::from(stores) + 1)?;
    let mut client = Client::new(&options)?;
    let source = client.source(topic, &options)?;
    let mut counts = Counts::default();
    while !counts.ready {
        client.poll(Some(Duration::from_millis(10)), &mut counts)?;
    }
    let (payload, started) = (payload(setup.bytes), Started::now());
    while started.at.elapsed() < setup.time {
        for _ in 0..BURST {
            client.send_blocking(source, &payload, SendFlags::NONE, &mut counts)?;
        }
        client.poll(Some(Duration::ZERO), &mut counts)?;
    }
    let mut rate = started.rate(counts.stable);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let busy = thread.join().map_err(|_| anyhow!("a store"))??;
        rate.others_ns += busy.as_nanos() as f64 / counts.stable as f64;
    }
    Ok(rate)
}

const CASES: [&str; 8] = [
    "without a store",
    "without, to two",
    "without, to three",
    "without, to four",
    "one in memory",
    "one on disk",
    "three in memory",
    "three on disk",
];

fn main() -> anyhow::Result<()> {
    let setup = Arc::new(Setup::of(std::env::args().skip(1))?);
    let letter = |case: usize| char::from(b'a' + case as u8);
    let is_chosen = |case: usize| setup.cases.as_ref().is_none_or(|cases| cases.contains(letter(case)));
    let mut rates = [const { Vec::new() }; CASES.len()];
    for round in 0..setup.rounds {
        for case in (0..CASES.len()).filter(|case| is_chosen(*case)) {
            let topic = format!("{}{round}", letter(case));
            rates[case].push(match case {
                0..=3 => streaming(&setup, &topic, case + 1)?,
                4 => stored(&setup, &topic, 1, false)?,
                5 => stored(&setup, &topic, 1, true)?,
                6 => stored(&setup, &topic, 3, false)?,
                _ => stored(&setup, &topic, 3, true)?,
            });
        }
    }
    let medians = rates.map(|mut rates: Vec<Rate>| {
        rates.sort_by(|a, b| a.messages.total_cmp(&b.messages));
        let at = rates.len() / 2;
        rates.into_iter().nth(at)
    });
    let first = medians.iter().flatten().next().map_or(f64::NAN, |rate| rate.messages);
    for (name, rate) in CASES.iter().zip(medians).filter_map(|(name, rate)| Some((name, rate?))) {
        let Rate { messages, processors, source_ns, others_ns, copying } = rate;
        println!(
            "{name:17} {messages:10.0} a second, {:.2} of the first, {processors:.2} processors, {source_ns:5.0} ns a message at the source, {others_ns:5.0} elsewhere, copying {copying:4.1} GB/s",
            messages / first
        );
    }
    Ok(())
}
