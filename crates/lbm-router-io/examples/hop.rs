//! What a router adds to the way of a message: the same source to a receiver in its own domain, and to one in another domain behind one router
//! and behind two, by turns in one call.
//!
//! `cargo run --release -p lbm-router-io --example hop [messages a round [rounds [bytes [transport [sleep|yield|spin]]]]]`. The sender
//! sends, and then looks for the message until it is there; the routers have a thread each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, SendFlags, SourceId, Sources};
use lbm_router_io::{Config, RouterServer};

fn lines(domain: u32, transport: &str) -> String {
    format!(
        "context default_interface 127.0.0.1
        context resolver_multicast_address 239.255.18.{domain}
        source transport {transport}
        source transport_lbtrm_multicast_address 239.255.19.{domain}
        source implicit_batching_minimum_length 1
        context transport_lbtrm_source_port_low 0
        context transport_lbtrm_source_port_high 0
        context transport_tcp_port_low 0
        context transport_tcp_port_high 0
        context transport_lbtru_port_low 0
        context transport_lbtru_port_high 0
        context request_tcp_port_low 0
        context request_tcp_port_high 0"
    )
}

fn options(domain: u32, transport: &str) -> anyhow::Result<Options> {
    let mut options = Options::new();
    options.parse("hop", &lines(domain, transport)).map_err(|bad| anyhow::anyhow!("{}", bad[0]))?;
    Ok(options)
}

fn endpoint(domain: u32, transport: &str) -> String {
    let set: Vec<String> = lines(domain, transport).lines().map(|line| format!("{:?}", line.trim())).collect();
    format!("\n[[endpoint]]\ndomain = {domain}\nset = [{}]\n", set.join(", "))
}

struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(&mut self, text: &str) -> anyhow::Result<Vec<std::net::SocketAddr>> {
        let mut server = RouterServer::new(&Config::parse(text, Path::new(""))?)?;
        let listening = server.listening().to_vec();
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Err(error) = server.poll(Duration::from_millis(10)) {
                    eprintln!("{error}");
                    return;
                }
                std::hint::black_box(server.router());
            }
        }));
        Ok(listening)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

struct Receiver {
    name: &'static str,
    context: Context,
    came: u64,
    /// The number of the last message.
    last: u64,
}

impl Receiver {
    fn new(name: &'static str, domain: u32, transport: &str) -> anyhow::Result<Self> {
        let options = options(domain, transport)?;
        let mut context = Context::new(&options)?;
        context.receiver("hop", &options)?;
        Ok(Self { name, context, came: 0, last: 0 })
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let Self { context, came, last, .. } = self;
        context.poll(Some(Duration::ZERO), &mut |_: &mut Sources, delivery: &Delivery<'_>| {
            *came += 1;
            *last = delivery.payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        })?;
        Ok(())
    }
}

/// Times of single messages to one of the receivers, ns. Messages begin with a number, so that none is taken for another one. Between messages the others take what
/// has come for them: a source on TCP waits for a receiver that does not.
fn round(
    publisher: &mut Context,
    source: SourceId,
    (receivers, at): (&mut [Receiver], usize),
    (first, count): (u64, usize),
    payload: &mut [u8],
) -> anyhow::Result<Vec<u64>> {
    let mut times = Vec::with_capacity(count);
    for number in first..first + count as u64 {
        payload[..8].copy_from_slice(&number.to_be_bytes());
        let began = Instant::now();
        publisher.send(source, payload, SendFlags::FLUSH)?;
        let receiver = &mut receivers[at];
        while receiver.last != number {
            receiver.turn()?;
            std::thread::yield_now();
            ensure!(began.elapsed() < Duration::from_secs(10), "{}: a message did not come", receiver.name);
        }
        times.push(began.elapsed().as_nanos() as u64);
        publisher.poll(Some(Duration::ZERO), &mut |_: &mut Sources, _: &Delivery<'_>| {})?;
        for receiver in &mut *receivers {
            receiver.turn()?;
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let mut number = |or: usize| args.next().map_or(Ok(or), |text| text.parse::<usize>()).context("a number");
    let (count, rounds, bytes) = (number(20_000)?, number(7)?, number(100)?);
    let transport = args.next().unwrap_or_else(|| "lbtrm".to_owned());
    let idle = args.next().unwrap_or_else(|| "yield".to_owned());
    let mut running = Running { stop: Arc::default(), threads: Vec::new() };
    let head = |name: &str| format!("name = '{name}'\nidle = '{idle}'\n");
    let peer = "[[peer]]\nlisten = '127.0.0.1:0'\n";
    let at = running.start(&format!("{}{}{}{peer}", head("one"), endpoint(1, &transport), endpoint(2, &transport)))?;
    running.start(&format!("{}{}[[peer]]\nconnect = '{}'\n", head("two"), endpoint(3, &transport), at[0]))?;
    let options = options(1, &transport)?;
    let mut publisher = Context::new(&options)?;
    let source = publisher.source("hop", &options)?;
    let mut receivers = [
        Receiver::new("none", 1, &transport)?,
        Receiver::new("one", 2, &transport)?,
        Receiver::new("two", 3, &transport)?,
    ];
    ensure!(bytes >= 8, "a message has 8 bytes at least");
    let mut payload = vec![0; bytes];
    let mut next = 1;
    let began = Instant::now();
    while receivers.iter().any(|receiver| receiver.came < 10) {
        ensure!(began.elapsed() < Duration::from_mins(1), "receivers do not hear the source");
        publisher.send(source, &payload, SendFlags::FLUSH)?;
        publisher.poll(Some(Duration::ZERO), &mut |_: &mut Sources, _: &Delivery<'_>| {})?;
        for receiver in &mut receivers {
            receiver.turn()?;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let mut medians = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (at, medians) in medians.iter_mut().enumerate() {
            let times = round(&mut publisher, source, (&mut receivers, at), (next, count), &mut payload)?;
            next += count as u64;
            medians.push((times[times.len() / 2], times[times.len() * 99 / 100]));
        }
    }
    println!(
        "{bytes} bytes by {transport}, routers {idle}, {rounds} rounds of {count}: us, median and 99 %, of the middle round"
    );
    let mut direct = 0;
    for (receiver, medians) in receivers.iter().zip(&mut medians) {
        medians.sort_unstable();
        let (median, high) = medians[medians.len() / 2];
        let added = (median as f64 - direct as f64) / 1_000.0;
        direct = if direct == 0 { median } else { direct };
        println!(
            "routers {}: {:.1} {:.1}, {added:.1} more than directly",
            receiver.name,
            median as f64 / 1_000.0,
            high as f64 / 1_000.0
        );
    }
    Ok(())
}
