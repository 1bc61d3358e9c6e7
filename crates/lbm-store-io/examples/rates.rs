//! How fast messages go without a store, with one in memory, with one on disk, and with three: by turns, medians.
//!
//! `cargo run --release -p lbm-store-io --example rates [seconds [rounds [bytes [folder]]]]`. The folder is where logs are written; without it
//! in the system's folder for temporary files.

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

/// Messages between two turns of the source.
const BURST: u64 = 64;

/// The set-up that is measured.
struct Setup {
    time: Duration,
    bytes: usize,
    folder: PathBuf,
}

fn options() -> anyhow::Result<Options> {
    let lines = "
        context default_interface 127.0.0.1
        context resolver_multicast_address 239.255.17.9
        source transport tcp
        source implicit_batching_minimum_length 8192
        source ume_flight_size 20000
        source ume_session_id 1
        context transport_tcp_port_low 0
        context transport_tcp_port_high 0
        context request_tcp_port_low 0
        context request_tcp_port_high 0";
    let mut options = Options::new();
    options.parse("rates", lines).map_err(|bad| anyhow!("{}", bad[0]))?;
    Ok(options)
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
fn plain_receiver(topic: &str, stop: &Arc<AtomicBool>) -> JoinHandle<anyhow::Result<u64>> {
    let (topic, stop) = (topic.to_owned(), stop.clone());
    std::thread::spawn(move || {
        let options = options()?;
        let mut context = Context::new(&options)?;
        context.receiver(&topic, &options)?;
        let mut counts = Counts::default();
        while !stop.load(Ordering::Relaxed) {
            context.poll(Some(Duration::from_millis(10)), &mut counts)?;
        }
        Ok(counts.came)
    })
}

/// Messages a second to one receiver, without a store.
fn streaming(setup: &Setup, topic: &str) -> anyhow::Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let receiver = plain_receiver(topic, &stop);
    let options = options()?;
    let mut context = Context::new(&options)?;
    let source = context.source(topic, &options)?;
    let mut counts = Counts::default();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        context.poll(Some(Duration::from_millis(10)), &mut counts)?;
    }
    let (payload, began, mut sent) = (vec![7; setup.bytes], Instant::now(), 0u64);
    while began.elapsed() < setup.time {
        for _ in 0..BURST {
            context.send(source, &payload, SendFlags::NONE).map_err(|e| anyhow!("{e}"))?;
        }
        sent += BURST;
        context.poll(Some(Duration::ZERO), &mut counts)?;
    }
    let rate = sent as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let heard = receiver.join().map_err(|_| anyhow!("the receiver"))??;
    ensure!(heard * 10 > sent * 9, "{heard} of {sent} came");
    Ok(rate)
}

/// A store on a thread of its own.
fn store(
    folder: Option<&Path>,
    id: u16,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<(SocketAddrV4, JoinHandle<anyhow::Result<()>>)> {
    let config = ServerConfig {
        address: SocketAddrV4::new([127, 0, 0, 1].into(), 0),
        allow: Vec::new(),
        folder: folder.map(Path::to_owned),
        log_bytes_min: 512 << 20,
        store: StoreConfig { id, source_bytes_max: 64 << 20, ..StoreConfig::default() },
    };
    let mut server = StoreServer::new(&config, &options()?)?;
    let (address, stop) = (server.address(), stop.clone());
    let thread = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            server.poll(Some(Duration::from_millis(10)))?;
        }
        drop(server);
        config.folder.map_or(Ok(()), std::fs::remove_dir_all).map_err(Into::into)
    });
    Ok((address, thread))
}

/// Messages a second that become stable, with so many stores, and no other receiver.
fn stored(setup: &Setup, topic: &str, stores: u16, on_disk: bool) -> anyhow::Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut options = options()?;
    let mut threads = Vec::new();
    for i in 0..stores {
        let folder = setup.folder.join(format!("rates-{}-{topic}-{i}", std::process::id()));
        let (address, thread) = store(on_disk.then_some(&*folder), i, &stop)?;
        options.set(Scope::Source, "ume_store", &address.to_string())?;
        threads.push(thread);
    }
    let mut client = Client::new(&options)?;
    let source = client.source(topic, &options)?;
    let mut counts = Counts::default();
    while !counts.ready {
        client.poll(Some(Duration::from_millis(10)), &mut counts)?;
    }
    let (payload, began) = (vec![7; setup.bytes], Instant::now());
    while began.elapsed() < setup.time {
        for _ in 0..BURST {
            client.send_blocking(source, &payload, SendFlags::NONE, &mut counts)?;
        }
        client.poll(Some(Duration::ZERO), &mut counts)?;
    }
    let rate = counts.stable as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| anyhow!("a store"))??;
    }
    Ok(rate)
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let setup = Setup {
        time: Duration::from_secs_f64(words.first().map_or(Ok(2.0), |word| word.parse())?),
        bytes: words.get(2).map_or(Ok(700), |word| word.parse())?,
        folder: words.get(3).map_or_else(std::env::temp_dir, PathBuf::from),
    };
    let rounds: usize = words.get(1).map_or(Ok(3), |word| word.parse())?;
    let mut rates = [const { Vec::new() }; 5];
    for round in 0..rounds {
        rates[0].push(streaming(&setup, &format!("a{round}"))?);
        rates[1].push(stored(&setup, &format!("b{round}"), 1, false)?);
        rates[2].push(stored(&setup, &format!("c{round}"), 1, true)?);
        rates[3].push(stored(&setup, &format!("d{round}"), 3, false)?);
        rates[4].push(stored(&setup, &format!("e{round}"), 3, true)?);
    }
    let medians = rates.map(|mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let names = ["without a store", "one in memory", "one on disk", "three in memory", "three on disk"];
    for (name, rate) in names.iter().zip(medians) {
        println!("{name:16} {rate:10.0} a second, {:.2} of the rate without", rate / medians[0]);
    }
    Ok(())
}
