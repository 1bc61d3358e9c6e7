//! One way: a source in one thread, a receiver in another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lbm_io::{Delivery, Events, Loss, SendFlags, Sources, Stream};
use net::clock;
use net::floor::messaging::{Meter, Progress, Streamed, Work};

use super::cell::Medium;
use super::work::{Args, context, turn};

const TOPIC: &str = "lab.stream";
/// Bytes that may be under way, as in the bare loop. In memory the log itself holds the sender back.
const WINDOW: u64 = 2_000_000;
/// What a message has beside its payload, about.
const OVERHEAD: usize = 16;
/// Messages between two looks at the clock and at the receiver.
const BATCH: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs it.
pub(super) fn run(args: &Args, work: &Work) -> Result<Streamed, String> {
    let (progress, joined) = (Progress::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let result = receive(args, &progress, &joined);
            // Else the sender would wait for it.
            joined.store(true, Ordering::Release);
            result
        });
        let sent = send(args, work, &progress, &joined);
        progress.over.store(true, Ordering::Release);
        let lost = receiving.join().map_err(|_| "the receiver has panicked")??;
        Ok(Streamed { lost, ..sent? })
    })
}

/// Counts messages, and checks that each is the next one.
#[derive(Default)]
struct Taker {
    begun: bool,
    messages: u64,
    wrong: u64,
    sum: u64,
}

impl Events for Taker {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let Some((number, rest)) = delivery.payload.split_first_chunk() else { return };
        let number = u64::from_ne_bytes(*number);
        // Number 0 only looks for a receiver.
        if number != 0 {
            self.messages += 1;
            self.wrong += u64::from(number != self.messages);
            self.sum += rest.first().copied().map_or(0, u64::from);
        }
        self.begun = true;
    }

    fn lost(&mut self, _: &mut Sources, _: &Stream<'_>, loss: Loss) {
        self.wrong += u64::from(loss.count);
    }
}

fn receive(args: &Args, progress: &Progress, joined: &AtomicBool) -> Result<u64, String> {
    let (mut context, options) = context(args, 1)?;
    context.receiver(TOPIC, &options).map_err(|e| e.to_string())?;
    let mut taker = Taker::default();
    let mut turns = 0u32;
    loop {
        let over = progress.over.load(Ordering::Acquire);
        let before = taker.messages;
        turn(&mut context, &mut taker)?;
        if taker.messages != before {
            progress.messages.store(taker.messages, Ordering::Relaxed);
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(64) {
                progress.cpu.store(clock::thread_cpu(), Ordering::Relaxed);
            }
        } else if over {
            break;
        } else if taker.begun {
            joined.store(true, Ordering::Release);
        }
    }
    std::hint::black_box(taker.sum);
    Ok(taker.wrong)
}

fn send(args: &Args, work: &Work, progress: &Progress, joined: &AtomicBool) -> Result<Streamed, String> {
    let batching = if args.medium == Medium::Lbtipc { 8_192 } else { work.datagram };
    let (mut context, options) = context(args, batching)?;
    let source = context.source(TOPIC, &options).map_err(|e| e.to_string())?;
    let mut payload = vec![7u8; work.payload];
    let mut nothing = |_: &mut Sources, _: &Delivery<'_>| {};
    let failed = |e: lbm_io::SendError| e.to_string();
    payload[..8].fill(0);
    let began = Instant::now();
    while !joined.load(Ordering::Acquire) {
        context.send(source, &payload, SendFlags::FLUSH).map_err(failed)?;
        context.poll(Some(Duration::from_millis(2)), &mut nothing).map_err(|e| e.to_string())?;
        if began.elapsed() > PATIENCE {
            return Err("the receiver has not found the source".to_owned());
        }
    }
    let window = if args.medium == Medium::Lbtipc { u64::MAX } else { WINDOW / (work.payload + OVERHEAD) as u64 };
    let (mut sent, mut last_turn) = (0u64, 0u64);
    let mut meter = Meter::new(work, progress);
    while meter.goes_on() {
        if sent >= progress.messages.load(Ordering::Relaxed).saturating_add(window) {
            context.flush(source).map_err(failed)?;
            turn(&mut context, &mut nothing)?;
            continue;
        }
        for _ in 0..BATCH {
            sent += 1;
            payload[..8].copy_from_slice(&sent.to_ne_bytes());
            context.send(source, &payload, SendFlags::NONE).map_err(failed)?;
        }
        if sent - last_turn >= 16 * BATCH {
            last_turn = sent;
            context.poll(Some(Duration::ZERO), &mut nothing).map_err(|e| e.to_string())?;
        }
    }
    let streamed = meter.result();
    // So that the receiver has everything before the session goes.
    context.flush(source).map_err(failed)?;
    let ending = Instant::now();
    while progress.messages.load(Ordering::Relaxed) < sent && ending.elapsed() < Duration::from_secs(2) {
        turn(&mut context, &mut nothing)?;
    }
    Ok(streamed)
}
