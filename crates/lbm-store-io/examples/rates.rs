//! How fast messages of 700 bytes go without a store, with one in memory, with one on disk, and with three: by turns, medians.
//!
//! `cargo run --release -p lbm-store-io --example rates [seconds] [rounds]`

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lbm_io::options::Options;
use lbm_io::{Context, Delivery, SendFlags, Sources};
use lbm_store::receiver::Delivered;
use lbm_store::source::{SourceConfig, SourceEvent, StoreAddress};
use lbm_store::store::StoreConfig;
use lbm_store_io::{Client, ClientEvents, PersistentReceiver, PersistentSource, ServerConfig, StoreServer};

const BYTES: usize = 700;

fn options() -> anyhow::Result<Options> {
    let lines = "
        context default_interface 127.0.0.1
        context resolver_multicast_address 239.255.17.9
        source transport tcp
        source implicit_batching_minimum_length 8192
        context transport_tcp_port_low 0
        context transport_tcp_port_high 0
        context request_tcp_port_low 0
        context request_tcp_port_high 0";
    let mut options = Options::new();
    options.parse("rates", lines).map_err(|bad| anyhow::anyhow!("{}", bad[0]))?;
    Ok(options)
}

#[derive(Default)]
struct Counts {
    ready: bool,
    stable: u64,
}

impl ClientEvents for Counts {
    fn message(&mut self, _: PersistentReceiver, _: u32, _: &Delivered<'_>) {}
    fn source(&mut self, _: PersistentSource, event: &SourceEvent) {
        match event {
            SourceEvent::Ready { .. } => self.ready = true,
            SourceEvent::Stable { first, last } => self.stable += u64::from(last - first) + 1,
            _ => {}
        }
    }
}

/// Messages a second to one receiver, without a store.
fn streaming(topic: &str, time: Duration) -> anyhow::Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let (name, seen) = (topic.to_owned(), stop.clone());
    let receiver = std::thread::spawn(move || -> anyhow::Result<u64> {
        let options = options()?;
        let mut context = Context::new(&options)?;
        context.receiver(&name, &options)?;
        let mut count = 0u64;
        while !seen.load(Ordering::Relaxed) {
            context.poll(Some(Duration::from_millis(10)), &mut |_: &mut Sources, _: &Delivery<'_>| count += 1)?;
        }
        Ok(count)
    });
    let options = options()?;
    let mut context = Context::new(&options)?;
    let source = context.source(topic, &options)?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        context.poll(Some(Duration::from_millis(10)), &mut |_: &mut Sources, _: &Delivery<'_>| {})?;
    }
    let (payload, began, mut sent) = (vec![7; BYTES], Instant::now(), 0u64);
    while began.elapsed() < time {
        for _ in 0..64 {
            context.send(source, &payload, SendFlags::NONE).map_err(|e| anyhow::anyhow!("{e}"))?;
        }
        sent += 64;
        context.poll(Some(Duration::ZERO), &mut |_: &mut Sources, _: &Delivery<'_>| {})?;
    }
    let rate = sent as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let heard = receiver.join().map_err(|_| anyhow::anyhow!("the receiver"))??;
    anyhow::ensure!(heard * 10 > sent * 9, "{heard} of {sent} came");
    Ok(rate)
}

/// Messages a second that become stable, with so many stores.
fn stored(topic: &str, stores: usize, on_disk: bool, time: Duration) -> anyhow::Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    let mut addresses: Vec<SocketAddrV4> = Vec::new();
    for i in 0..stores {
        let folder = on_disk.then(|| std::env::temp_dir().join(format!("rates-{}-{topic}-{i}", std::process::id())));
        let store = StoreConfig { id: i as u16, source_bytes_max: 64 << 20, ..StoreConfig::default() };
        let config = ServerConfig { address: SocketAddrV4::new([127, 0, 0, 1].into(), 0), folder, store };
        let mut server = StoreServer::new(&config, &options()?)?;
        addresses.push(server.address());
        let seen = stop.clone();
        threads.push(std::thread::spawn(move || -> anyhow::Result<()> {
            while !seen.load(Ordering::Relaxed) {
                server.poll(Some(Duration::from_millis(10)))?;
            }
            drop(server);
            if let Some(folder) = config.folder {
                std::fs::remove_dir_all(folder)?;
            }
            Ok(())
        }));
    }
    let mut client = Client::new(&options()?)?;
    let stores = addresses.iter().map(|at| StoreAddress { group: 0, at: *at, reg_id: 0 }).collect();
    let config = SourceConfig { stores, session: 1, flight_size: 20_000, ..SourceConfig::default() };
    let source = client.source(topic, config)?;
    let mut counts = Counts::default();
    while !counts.ready {
        client.poll(Some(Duration::from_millis(10)), &mut counts)?;
    }
    let payload = vec![7; BYTES];
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..64 {
            client.send_blocking(source, &payload, SendFlags::NONE, &mut counts)?;
        }
        client.poll(Some(Duration::ZERO), &mut counts)?;
    }
    let rate = counts.stable as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a store"))??;
    }
    Ok(rate)
}

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let time = Duration::from_secs_f64(words.next().map_or(Ok(2.0), |word| word.parse())?);
    let rounds: usize = words.next().map_or(Ok(3), |word| word.parse())?;
    let mut rates = [const { Vec::new() }; 4];
    for round in 0..rounds {
        rates[0].push(streaming(&format!("a{round}"), time)?);
        rates[1].push(stored(&format!("b{round}"), 1, false, time)?);
        rates[2].push(stored(&format!("c{round}"), 1, true, time)?);
        rates[3].push(stored(&format!("d{round}"), 3, false, time)?);
    }
    let medians = rates.map(|mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    for (what, rate) in ["without a store", "one in memory", "one on disk", "three in memory"].iter().zip(medians) {
        println!("{what:16} {rate:10.0} a second, {:.2} of the rate without", rate / medians[0]);
    }
    Ok(())
}
