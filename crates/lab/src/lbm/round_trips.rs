//! There and back: each side has a source and a receiver.

use std::time::{Duration, Instant};

use floor::board::Board;
use floor::messaging::{RoundTrips, Trips, Work};
use lbm_io::{Delivery, SendFlags, Sources};
use net::clock;

use super::process::{Args, context, turn};
use super::stream::Repairs;
use crate::scenario::grid::Idle;

const THERE: &str = "lab.there";
const BACK: &str = "lab.back";
/// Messages that leave together at most.
const TOGETHER: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(20);

/// The side that echoes.
pub(super) fn echo(args: &Args, board: &Board) -> anyhow::Result<()> {
    let (mut context, options) = context(args, args.datagram)?;
    context.receiver(THERE, &options).map_err(anyhow::Error::msg)?;
    let back = context.source(BACK, &options).map_err(anyhow::Error::msg)?;
    let mut failure = None;
    while !board.is_over() {
        turn(&mut context, args.idle, &mut |sources: &mut Sources, delivery: &Delivery<'_>| {
            if let Err(e) = sources.send(back, delivery.payload, SendFlags::FLUSH_SOON) {
                failure = Some(e);
            }
        })?;
        if let Some(e) = failure.take() {
            return Err(e.into());
        }
    }
    Ok(())
}

/// The side that asks.
pub(super) fn ping(args: &Args, work: &Work, board: &Board) -> anyhow::Result<(RoundTrips, Repairs)> {
    let (mut context, options) = context(args, args.datagram)?;
    context.receiver(BACK, &options).map_err(anyhow::Error::msg)?;
    let there = context.source(THERE, &options).map_err(anyhow::Error::msg)?;
    let mut payload = vec![7u8; work.payload];

    // Time 0 only looks for the echo.
    payload[..8].fill(0);
    let (mut found, began) = (false, Instant::now());
    while !found {
        context.send(there, &payload, SendFlags::FLUSH).map_err(anyhow::Error::msg)?;
        let mut any = |_: &mut Sources, _: &Delivery<'_>| found = true;
        context.poll(Some(Duration::from_millis(2)), &mut any).map_err(anyhow::Error::msg)?;
        if began.elapsed() > PATIENCE {
            anyhow::bail!("the two sides have not found each other");
        }
    }

    let mut trips = Trips::new(work);
    loop {
        let now = clock::now();
        if trips.is_over(now) {
            board.end(0);
            return Ok((trips.result(), Repairs::of(&mut context)));
        }
        // A single message as a rule. Behind, those that are due leave together, as Aeron's driver does by itself.
        let mut due = trips.due(now);
        for n in 1..=TOGETHER {
            let Some(intended) = due else { break };
            payload[..8].copy_from_slice(&intended.to_ne_bytes());
            due = if n < TOGETHER { trips.due(now) } else { None };
            let flags = if due.is_some() { SendFlags::NONE } else { SendFlags::FLUSH };
            context.send(there, &payload, flags).map_err(anyhow::Error::msg)?;
        }
        // Whoever has a schedule cannot block.
        turn(&mut context, Idle::Yield, &mut |_: &mut Sources, delivery: &Delivery<'_>| {
            if let Some(time) = delivery.payload.first_chunk().map(|time| u64::from_ne_bytes(*time))
                && time != 0
            {
                trips.back(clock::now(), time);
            }
        })?;
    }
}
