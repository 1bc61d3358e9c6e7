//! Two contexts of one process on loopback: messages a second, and round trips. `cargo bench -p quoteway-lbm-io`, with words of the rows that
//! are wanted, `seconds=N` and `idle=spin`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lbm_io::failover::{Mark, Number};
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, Events, Loss, SendFlags, Sources, Stream};

fn options(port: u16, lines: &str) -> Options {
    let mut options = Options::new();
    let base = format!(
        "context default_interface 127.0.0.1
        context resolver_multicast_address 239.255.18.1
        context resolver_multicast_port {port}
        source transport_lbtrm_multicast_address 239.255.18.2
        source transport_lbtrm_destination_port {port}
        context transport_lbtrm_source_port_low 0
        context transport_lbtrm_source_port_high 0
        context transport_lbtru_port_low 0
        context transport_lbtru_port_high 0
        receiver transport_lbtru_port_low 0
        receiver transport_lbtru_port_high 0
        context transport_tcp_port_low 0
        context transport_tcp_port_high 0
        receiver transport_lbtrm_nak_initial_backoff_interval 1
        receiver transport_lbtrm_nak_backoff_interval 20
        source transport_lbtrm_ignore_interval 5
        {lines}"
    );
    options.parse("bench", &base).expect("good options");
    options
}

/// Both sides while there is nothing to do: they yield, or spin with `idle=spin`.
fn idle() {
    if SPIN.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

static SPIN: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Count {
    messages: u64,
    lost: u64,
    shared: Arc<AtomicU64>,
}

impl Events for Count {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        self.messages += 1;
        std::hint::black_box(delivery.payload);
    }
    fn lost(&mut self, _: &mut Sources, _: &Stream<'_>, loss: Loss) {
        self.lost += u64::from(loss.count);
    }
}

/// Messages a second that one receiver gets, with the sender as fast as it can be without outrunning it by more than `lead`. Names that end in
/// "hf" are hot failover: a number with each message.
fn throughput(name: &str, port: u16, transport: &str, size: usize, lines: &str, seconds: u64) {
    let options = options(port, &format!("source transport {transport}\n{lines}"));
    let is_failover = name.ends_with("hf");
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::new(AtomicU64::new(0));
    let receiver = {
        let (options, stop, heard) = (options.clone(), Arc::clone(&stop), Arc::clone(&heard));
        std::thread::spawn(move || {
            let mut context = Context::new(&options).expect("a context");
            if is_failover {
                context.failover_receiver("bench", &options).expect("a receiver");
            } else {
                context.receiver("bench", &options).expect("a receiver");
            }
            let mut count = Count { shared: heard, ..Count::default() };
            let mut cpu = net::clock::thread_cpu();
            while !stop.load(Ordering::Relaxed) {
                let at = net::clock::thread_cpu();
                if context.poll(Some(Duration::ZERO), &mut count).expect("a turn") == 0 {
                    // A poll that finds nothing is not counted.
                    cpu += net::clock::thread_cpu() - at;
                    idle();
                }
                count.shared.store(count.messages + count.lost, Ordering::Relaxed);
            }
            let stats = context.stats();
            let cpu = net::clock::thread_cpu() - cpu;
            (cpu, count.messages, count.lost, stats.receiving.first().map(|r| r.received), stats.dropped)
        })
    };
    let mut context = Context::new(&options).expect("a context");
    let source = context.source("bench", &options).expect("a source");
    let payload = vec![7u8; size];
    let mut nothing = |_: &mut Sources, _: &Delivery<'_>| {};
    let mut number = 0;
    let mut send = |context: &mut Context, flags| {
        if is_failover {
            let mark = Mark::new(Number::Bits64(number));
            context.sources().send_failover(source, mark, &payload, flags).expect("room");
            number += 1;
        } else {
            context.send(source, &payload, flags).expect("room");
        }
    };
    while heard.load(Ordering::Relaxed) == 0 {
        send(&mut context, SendFlags::FLUSH);
        context.poll(Some(Duration::from_millis(5)), &mut nothing).expect("a turn");
    }
    // The lead of one over the other fits the receive buffer.
    let lead = (2 << 20) / (size as u64 + 12);
    let first = heard.load(Ordering::Relaxed);
    let (began, mut sent) = (Instant::now(), 0u64);
    let cpu = net::clock::thread_cpu();
    while began.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..256 {
            send(&mut context, SendFlags::NONE);
        }
        sent += 256;
        context.poll(Some(Duration::ZERO), &mut nothing).expect("a turn");
        while sent + first > heard.load(Ordering::Relaxed) + lead && began.elapsed() < Duration::from_secs(seconds) {
            context.poll(Some(Duration::ZERO), &mut nothing).expect("a turn");
            idle();
        }
    }
    let got = heard.load(Ordering::Relaxed) - first;
    let elapsed = began.elapsed().as_secs_f64();
    let cpu = net::clock::thread_cpu() - cpu;
    context.flush(source).expect("a source");
    for _ in 0..50 {
        context.poll(Some(Duration::from_millis(2)), &mut nothing).expect("a turn");
    }
    stop.store(true, Ordering::Relaxed);
    let (cpu_receiver, messages, lost, received, dropped) = receiver.join().expect("the receiver");
    println!(
        "{name:28} {:8.2} M msg/s  {:7.2} Gbit/s  CPU sender {:5.0} receiver {:5.0} ns/msg  lost {lost} dropped {dropped} repaired {}",
        got as f64 / elapsed / 1e6,
        got as f64 * size as f64 * 8.0 / elapsed / 1e9,
        cpu as f64 / sent as f64,
        cpu_receiver as f64 / messages as f64,
        received.map_or(0, |r| r.repaired),
    );
}

/// Round trips of single messages, both sides yielding or spinning.
fn round_trips(name: &str, port: u16, transport: &str, size: usize, lines: &str, seconds: u64) {
    let options =
        options(port, &format!("source transport {transport}\nsource implicit_batching_minimum_length 1\n{lines}"));
    let stop = Arc::new(AtomicBool::new(false));
    let echo = {
        let (options, stop) = (options.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut context = Context::new(&options).expect("a context");
            let pong = context.source("pong", &options).expect("a source");
            context.receiver("ping", &options).expect("a receiver");
            let mut answer = |sources: &mut Sources, delivery: &Delivery<'_>| {
                sources.send(pong, delivery.payload, SendFlags::FLUSH).expect("room");
            };
            while !stop.load(Ordering::Relaxed) {
                if context.poll(Some(Duration::ZERO), &mut answer).expect("a turn") == 0 {
                    idle();
                }
            }
        })
    };
    let mut context = Context::new(&options).expect("a context");
    let ping = context.source("ping", &options).expect("a source");
    context.receiver("pong", &options).expect("a receiver");
    let payload = vec![7u8; size];
    let mut heard = 0u64;
    let mut wait = |context: &mut Context, limit: Duration| {
        let (before, began) = (heard, Instant::now());
        while heard == before && began.elapsed() < limit {
            let mut take = |_: &mut Sources, _: &Delivery<'_>| heard += 1;
            if context.poll(Some(Duration::ZERO), &mut take).expect("a turn") == 0 {
                idle();
            }
        }
        heard > before
    };
    loop {
        context.send(ping, &payload, SendFlags::FLUSH).expect("room");
        if wait(&mut context, Duration::from_millis(20)) {
            break;
        }
    }
    while wait(&mut context, Duration::from_millis(50)) {}
    let (mut times, began) = (Vec::new(), Instant::now());
    while began.elapsed() < Duration::from_secs(seconds) {
        let at = net::clock::now();
        context.send(ping, &payload, SendFlags::FLUSH).expect("room");
        if !wait(&mut context, Duration::from_secs(1)) {
            continue;
        }
        times.push(net::clock::now() - at);
    }
    stop.store(true, Ordering::Relaxed);
    echo.join().expect("the echo");
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 1e3;
    println!(
        "{name:28} round trip: median {:.2} us, 90 % {:.2}, 99 % {:.2} ({} trips)",
        at(0.5),
        at(0.9),
        at(0.99),
        times.len()
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    SPIN.store(words.iter().any(|w| w == "idle=spin"), Ordering::Relaxed);
    let seconds = words.iter().find_map(|w| w.strip_prefix("seconds=")?.parse().ok()).unwrap_or(2);
    let wanted = |name: &str| words.iter().all(|w| w.contains('=') || name.contains(w.as_str()));
    let mtu = |mtu: u32| {
        format!(
            "context transport_lbtrm_datagram_max_size {mtu}\ncontext transport_lbtru_datagram_max_size {mtu}\nsource implicit_batching_minimum_length {}",
            mtu - 100
        )
    };
    let mut port = 21_000;
    for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
        for (size, datagram) in [(64, 1_408), (64, 8_192), (1_024, 1_408), (1_024, 8_192)] {
            for (offload, word) in [("0", "plain"), ("1", "gso")] {
                if word == "plain" || transport.starts_with("lbtr") {
                    for numbered in ["", ", hf"] {
                        port += 1;
                        let name = format!("{transport} {size} B, {datagram}, {word}{numbered}");
                        if wanted(&format!("throughput {name}")) {
                            let pacing = "source transport_lbtipc_behavior receiver_paced";
                            let lines = format!("{}\ncontext udp_offload {offload}\n{pacing}", mtu(datagram));
                            throughput(&name, port, transport, size, &lines, seconds);
                        }
                    }
                }
            }
        }
        port += 1;
        let name = format!("{transport} 64 B");
        if wanted(&format!("latency {name}")) {
            round_trips(&name, port, transport, 64, "", seconds);
        }
    }
}
