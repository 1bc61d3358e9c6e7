//! One way as fast as it goes: what each side does.

use std::time::{Duration, Instant};

use floor::board::Board;
use floor::messaging::{Meter, Streamed, Work, slowest};
use lbm_io::{Context, Delivery, Events, Loss, SendFlags, SourceId, Sources, Stream};

use super::process::{Args, context, turn};
use crate::scenario::grid::Medium;

/// Bytes that may be under way, as in the bare loop. In memory the log itself holds the sender back.
const WINDOW: u64 = 2_000_000;
/// Bytes of a message beside its payload, about.
const OVERHEAD: usize = 16;
/// Messages between two looks at the clock and at the receiver.
const BATCH: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the last messages may take, repairs included.
const DRAIN: Duration = Duration::from_secs(2);

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

pub(super) fn topic(args: &Args) -> String {
    format!("lab.path{}", args.path)
}

/// The receiver; gives how many messages were lost or out of order.
pub(super) fn receive(args: &Args, board: &Board) -> anyhow::Result<u64> {
    let (mut context, options) = context(args, 1)?;
    context.receiver(&topic(args), &options).map_err(anyhow::Error::msg)?;
    let mut taker = Taker::default();
    let mut turns = 0u32;
    loop {
        let over = board.is_over();
        let before = taker.messages;
        turn(&mut context, args.idle, &mut taker)?;
        if taker.messages != before {
            board.received(taker.messages);
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(64) {
                board.used();
            }
        } else if over {
            break;
        } else if taker.begun && !board.is_joined() {
            board.join();
        }
    }
    std::hint::black_box(taker.sum);
    Ok(taker.wrong)
}

/// Sends messages of zeros until all receivers have said that they hear the source.
pub(super) fn find_receivers(
    context: &mut Context,
    source: SourceId,
    boards: &[&Board],
    length: usize,
) -> anyhow::Result<()> {
    let probe = vec![0u8; length];
    let mut nothing = |_: &mut Sources, _: &Delivery<'_>| {};
    let began = Instant::now();
    while !boards.iter().all(|board| board.is_joined()) {
        context.send(source, &probe, SendFlags::FLUSH).map_err(anyhow::Error::msg)?;
        context.poll(Some(Duration::from_millis(2)), &mut nothing).map_err(anyhow::Error::msg)?;
        if began.elapsed() > PATIENCE {
            anyhow::bail!("a receiver has not found the source");
        }
    }
    Ok(())
}

/// Serves the receivers until they have everything, or will not, and says that it is over.
pub(super) fn end(context: &mut Context, source: SourceId, boards: &[&Board], sent: u64) -> anyhow::Result<Repairs> {
    let mut nothing = |_: &mut Sources, _: &Delivery<'_>| {};
    context.flush(source).map_err(anyhow::Error::msg)?;
    let ending = Instant::now();
    while slowest(boards) < sent && ending.elapsed() < DRAIN {
        context.poll(Some(Duration::ZERO), &mut nothing).map_err(anyhow::Error::msg)?;
        std::thread::yield_now();
    }
    for board in boards {
        board.end(sent);
    }
    Ok(Repairs::of(context))
}

/// What a context had to send again: numbers that were asked for by NAKs, datagrams that were sent once more.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Repairs {
    naks: u64,
    retransmissions: u64,
}

impl Repairs {
    /// Of all sessions of this context so far.
    pub(super) fn of(context: &mut Context) -> Self {
        let all = context.stats().sending;
        Self {
            naks: all.iter().map(|session| session.sent.naks).sum(),
            retransmissions: all.iter().map(|session| session.sent.retransmissions).sum(),
        }
    }

    /// A report with these in it.
    pub(super) fn in_report(self, report: &str) -> anyhow::Result<String> {
        let mut report: serde_json::Value = serde_json::from_str(report)?;
        report["naks"] = self.naks.into();
        report["retransmissions"] = self.retransmissions.into();
        Ok(report.to_string())
    }
}

/// The source.
pub(super) fn send(args: &Args, work: &Work, boards: &[&Board]) -> anyhow::Result<(Streamed, Repairs)> {
    let batching = if args.medium == Medium::Lbtipc { 8_192 } else { work.datagram };
    let (mut context, options) = context(args, batching)?;
    let source = context.source(&topic(args), &options).map_err(anyhow::Error::msg)?;
    find_receivers(&mut context, source, boards, work.payload)?;
    let mut payload = vec![7u8; work.payload];
    let mut nothing = |_: &mut Sources, _: &Delivery<'_>| {};
    // The log itself holds a source back; how far its receiver is would be one more line that goes to and fro, which Aeron's has not.
    let window = (args.medium != Medium::Lbtipc).then_some(WINDOW / (work.payload + OVERHEAD) as u64);
    let (mut sent, mut last_turn) = (0u64, 0u64);
    let mut meter = Meter::new(work, boards);
    while meter.goes_on() {
        if window.is_some_and(|most| sent >= slowest(boards).saturating_add(most)) {
            context.flush(source).map_err(anyhow::Error::msg)?;
            context.poll(Some(Duration::ZERO), &mut nothing).map_err(anyhow::Error::msg)?;
            work.pace.pause();
            continue;
        }
        for _ in 0..BATCH {
            sent += 1;
            payload[..8].copy_from_slice(&sent.to_ne_bytes());
            context.send(source, &payload, SendFlags::NONE).map_err(anyhow::Error::msg)?;
        }
        if sent - last_turn >= 16 * BATCH {
            last_turn = sent;
            context.poll(Some(Duration::ZERO), &mut nothing).map_err(anyhow::Error::msg)?;
        }
    }
    let streamed = meter.result();
    let repairs = end(&mut context, source, boards, sent)?;
    Ok((streamed, repairs))
}
