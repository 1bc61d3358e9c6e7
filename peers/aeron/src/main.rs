//! Aeron's C media driver and C client on the work that `quoteway lab` gives to LBM: round trips at a rate, and one way as fast as
//! they go. One driver (shared mode: one thread) serves both sides, each side is a thread with a client of its own. Prints one line of
//! JSON. Arguments: `--help`.

mod arguments;
mod measure;

use std::error::Error;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusteron_client::{
    Aeron, AeronContext, AeronExclusivePublication, AeronImage, AeronOfferError, AeronSubscription, Handlers,
};
use rusteron_media_driver::testing::EmbeddedDriver;

use arguments::{Arguments, Kind, Medium};
use measure::{Latency, Schedule, now};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const THERE: i32 = 1001;
const BACK: i32 = 1002;
/// Fragments of one poll.
const LIMIT: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    let driver = EmbeddedDriver::launch_with(|context| {
        context.set_threading_mode(
            rusteron_media_driver::bindings::aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED,
        )?;
        context.set_shared_idle_strategy(&CString::new(arguments.idle.name()).expect("a name"))?;
        context.set_term_buffer_sparse_file(false)?;
        context.set_ipc_term_buffer_length(arguments.term)?;
        context.set_term_buffer_length(arguments.term)?;
        // What the loss of a datagram costs less, and a slow receiver more; 128 KB otherwise.
        context.set_rcv_initial_window_length(arguments.buffer)?;
        context.set_socket_so_rcvbuf(arguments.buffer)?;
        context.set_socket_so_sndbuf(arguments.buffer)?;
        context.set_mtu_length(arguments.mtu)?;
        Ok(())
    })?;
    let line = match arguments.kind {
        Kind::Latency => latency(&arguments, driver.dir())?,
        Kind::Throughput => throughput(&arguments, driver.dir())?,
    };
    println!("{line}");
    Ok(())
}

/// A client of the driver.
fn client(dir: &str) -> Result<Aeron> {
    let context = AeronContext::new()?;
    context.set_dir(&CString::new(dir)?)?;
    context.set_error_handler(Some(|code: i32, text: &str| eprintln!("aeron error {code}: {text}")))?;
    context.set_pre_touch_mapped_memory(true)?;
    let aeron = Aeron::new(&context)?;
    aeron.start()?;
    Ok(aeron)
}

fn publication(aeron: &Aeron, arguments: &Arguments, stream: i32) -> Result<AeronExclusivePublication> {
    let channel = CString::new(arguments.channel(stream))?;
    Ok(aeron.async_add_exclusive_publication(&channel, stream)?.poll_blocking(PATIENCE)?)
}

fn subscription(aeron: &Aeron, arguments: &Arguments, stream: i32) -> Result<AeronSubscription> {
    let channel = CString::new(arguments.channel(stream))?;
    Ok(aeron.async_add_subscription(&channel, stream, Handlers::NONE, Handlers::NONE)?.poll_blocking(PATIENCE)?)
}

/// Waits until a publication has a subscriber, and gives the image of the other direction.
fn connected(
    publication: &AeronExclusivePublication,
    subscription: Option<&AeronSubscription>,
) -> Result<Option<AeronImage>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let image = subscription.and_then(|s| s.image_at_index(0));
        if publication.is_connected() && subscription.is_none() == image.is_none() {
            return Ok(image);
        }
        if Instant::now() > end {
            return Err("nobody has connected".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Offers until it is taken.
#[inline]
fn offer(publication: &AeronExclusivePublication, bytes: &[u8], arguments: &Arguments) -> Result<()> {
    loop {
        match publication.offer(bytes) {
            Ok(_) => return Ok(()),
            Err(AeronOfferError::BackPressured | AeronOfferError::AdminAction) => arguments.idle.wait(),
            Err(e) if e.is_retryable() => arguments.idle.wait(),
            Err(e) => return Err(e.into()),
        }
    }
}

/// There and back, at a rate or (rate 0) each when the one before is back.
fn latency(arguments: &Arguments, dir: &str) -> Result<String> {
    let running = Arc::new(AtomicBool::new(true));
    let echo = {
        let (arguments, dir, running) = (arguments.clone(), dir.to_owned(), Arc::clone(&running));
        thread::Builder::new().name("pong".to_owned()).spawn(move || echo(&arguments, &dir, &running))?
    };
    let result = ping(arguments, dir);
    running.store(false, Ordering::Release);
    echo.join().map_err(|_| "the echo has panicked")??;
    result
}

fn echo(arguments: &Arguments, dir: &str, running: &AtomicBool) -> Result<()> {
    let aeron = client(dir)?;
    let back = publication(&aeron, arguments, BACK)?;
    let there = subscription(&aeron, arguments, THERE)?;
    let mut failure = None;
    while running.load(Ordering::Acquire) && failure.is_none() {
        let fragments = there.poll_fn(
            |bytes, _| {
                if let Err(e) = offer(&back, bytes, arguments) {
                    failure = Some(e);
                }
            },
            LIMIT,
        )?;
        if fragments == 0 {
            arguments.idle.wait();
        }
    }
    match failure {
        Some(e) if running.load(Ordering::Acquire) => Err(e),
        _ => Ok(()),
    }
}

fn ping(arguments: &Arguments, dir: &str) -> Result<String> {
    let aeron = client(dir)?;
    let there = publication(&aeron, arguments, THERE)?;
    let back = subscription(&aeron, arguments, BACK)?;
    let image = connected(&there, Some(&back))?.ok_or("no image")?;
    let mut payload = vec![0u8; arguments.payload];
    let mut latency = Latency::new();
    let mut schedule = Schedule::new(arguments.rate, arguments.warmup, arguments.seconds);
    let mut received = 0;
    loop {
        let time = now();
        if schedule.is_over(time) && (received == schedule.sent() || schedule.is_overdue(time)) {
            break;
        }
        if let Some(intended) = schedule.due(time, received) {
            payload[..8].copy_from_slice(&intended.to_le_bytes());
            offer(&there, &payload, arguments)?;
            latency.late(intended, schedule.counts(intended));
        }
        let fragments = image.poll_fn(
            |bytes, _| {
                let intended = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
                latency.back(intended, schedule.counts(intended));
                received += 1;
            },
            LIMIT,
        )?;
        if fragments == 0 {
            arguments.idle.wait();
        }
    }
    let lost = schedule.sent() - received;
    Ok(format!("{{{},{},\"lost\":{lost}}}", arguments.json(), latency.json(arguments.seconds)))
}

/// One way, as fast as it goes (or at a rate), counted by the receiver after the warm-up.
fn throughput(arguments: &Arguments, dir: &str) -> Result<String> {
    let running = Arc::new(AtomicBool::new(true));
    let count = Arc::new(AtomicU64::new(0));
    let counter = {
        let (arguments, dir) = (arguments.clone(), dir.to_owned());
        let (running, count) = (Arc::clone(&running), Arc::clone(&count));
        thread::Builder::new()
            .name("subscriber".to_owned())
            .spawn(move || count_all(&arguments, &dir, &running, &count))?
    };
    let result = publish(arguments, dir, &count);
    running.store(false, Ordering::Release);
    counter.join().map_err(|_| "the subscriber has panicked")??;
    result
}

fn count_all(arguments: &Arguments, dir: &str, running: &AtomicBool, count: &AtomicU64) -> Result<()> {
    let aeron = client(dir)?;
    let there = subscription(&aeron, arguments, THERE)?;
    let (mut messages, mut sum) = (0u64, 0u64);
    while running.load(Ordering::Relaxed) {
        let fragments = there.poll_fn(
            |bytes, _| {
                messages += 1;
                sum = sum.wrapping_add(u64::from(bytes[0]));
            },
            LIMIT,
        )?;
        count.store(messages, Ordering::Relaxed);
        if fragments == 0 {
            arguments.idle.wait();
        }
    }
    std::hint::black_box(sum);
    Ok(())
}

fn publish(arguments: &Arguments, dir: &str, count: &AtomicU64) -> Result<String> {
    let aeron = client(dir)?;
    let there = publication(&aeron, arguments, THERE)?;
    connected(&there, None)?;
    let payload = vec![7u8; arguments.payload];
    let begin = now();
    let from = begin + (arguments.warmup * 1e9) as u64;
    let end = from + (arguments.seconds * 1e9) as u64;
    let mut marked = None;
    let (mut sent, mut time) = (0u64, begin);
    while time < end {
        for _ in 0..64 {
            offer(&there, &payload, arguments)?;
        }
        sent += 64;
        time = now();
        if time >= from && marked.is_none() {
            marked = Some((time, count.load(Ordering::Relaxed)));
        }
        while arguments.rate > 0.0 && (now() - begin) as f64 * arguments.rate < sent as f64 * 1e9 {
            arguments.idle.wait();
        }
    }
    let (since, before) = marked.ok_or("too short")?;
    let (until, after) = (now(), count.load(Ordering::Relaxed));
    let rate = (after - before) as f64 * 1e9 / (until - since) as f64;
    Ok(format!("{{{},\"messages\":{},\"rate_per_s\":{rate:.0}}}", arguments.json(), after - before))
}

/// The channel of a direction.
impl Arguments {
    fn channel(&self, stream: i32) -> String {
        let port = self.port + u16::try_from(stream - THERE).unwrap_or(0);
        match self.medium {
            Medium::Ipc => "aeron:ipc".to_owned(),
            Medium::Udp => format!("aeron:udp?endpoint={}:{port}", self.address),
            Medium::Multicast => format!("aeron:udp?endpoint={}:{port}|interface={}", self.group, self.address),
        }
    }
}
