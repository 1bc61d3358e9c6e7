//! The sides of each measurement. The schedule, the figures and the ends of a run are those of the crate `floor`.

use std::time::{Duration, Instant};

use net::clock;
use floor::messaging::{Arrivals, Meter, OpenLoop, STAMPED, Trips, slowest};

use crate::arguments::Arguments;
use crate::measure::{boards, work};
use crate::{BACK, LIMIT, Result, THERE, client, connected, image, offer, publication, subscription};

/// Messages between two looks at the clock.
const BATCH: u64 = 64;

/// There and back: the side that asks.
pub fn ping(arguments: &Arguments) -> Result<String> {
    let (boards, work) = (boards(arguments)?, work(arguments));
    let aeron = client(arguments)?;
    let there = publication(&aeron, arguments, THERE)?;
    let back = subscription(&aeron, arguments, BACK)?;
    let image = image(&back)?;
    connected(&there)?;
    let mut payload = vec![7u8; work.payload.max(8)];
    let mut trips = Trips::new(&work);
    loop {
        let now = clock::now();
        if trips.is_over(now) {
            boards[0].end(0);
            return Ok(trips.result().to_json());
        }
        for _ in 0..BATCH {
            let Some(intended) = trips.due(now) else { break };
            payload[..8].copy_from_slice(&intended.to_ne_bytes());
            offer(&there, &payload, arguments)?;
        }
        let fragments = image.poll_fn(
            |bytes, _| {
                if let Some(time) = bytes.first_chunk() {
                    trips.back(clock::now(), u64::from_ne_bytes(*time));
                }
            },
            LIMIT,
        )?;
        if fragments == 0 {
            arguments.idle.wait();
        }
    }
}

/// There and back: the side that echoes.
pub fn echo(arguments: &Arguments) -> Result<()> {
    let boards = boards(arguments)?;
    let aeron = client(arguments)?;
    let back = publication(&aeron, arguments, BACK)?;
    let there = subscription(&aeron, arguments, THERE)?;
    let mut failure = None;
    while !boards[0].is_over() {
        let fragments = there.poll_fn(
            |bytes, _| {
                if let Err(e) = offer(&back, bytes, arguments) {
                    failure = Some(e);
                }
            },
            LIMIT,
        )?;
        if let Some(e) = failure.take()
            && !boards[0].is_over()
        {
            return Err(e);
        }
        if fragments == 0 {
            arguments.idle.wait();
        }
    }
    Ok(())
}

/// One way: the source, as fast as it goes, with Aeron's own flow control.
pub fn publish(arguments: &Arguments) -> Result<String> {
    let (shared, work) = (boards(arguments)?, work(arguments));
    let boards: Vec<_> = shared.iter().map(|board| &**board).collect();
    let aeron = client(arguments)?;
    let there = publication(&aeron, arguments, THERE)?;
    connected(&there)?;
    joined(arguments)?;
    let payload = vec![7u8; work.payload];
    let mut meter = Meter::new(&work, &boards);
    let mut sent = 0;
    while meter.goes_on() {
        for _ in 0..BATCH {
            offer(&there, &payload, arguments)?;
        }
        sent += BATCH;
    }
    let result = meter.result();
    drain(&boards, sent);
    Ok(result.to_json())
}

/// One way: a receiver that counts.
pub fn count(arguments: &Arguments) -> Result<()> {
    let boards = boards(arguments)?;
    let board = &boards[0];
    let aeron = client(arguments)?;
    let there = subscription(&aeron, arguments, THERE)?;
    let image = image(&there)?;
    board.join();
    let (mut messages, mut sum, mut turns) = (0u64, 0u64, 0u32);
    while !board.is_over() {
        let fragments = image.poll_fn(
            |bytes, _| {
                messages += 1;
                sum = sum.wrapping_add(u64::from(bytes[0]));
            },
            LIMIT,
        )?;
        board.received(messages);
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1_024) {
            board.used();
        }
        if fragments == 0 {
            arguments.idle.wait();
        }
    }
    std::hint::black_box(sum);
    Ok(())
}

/// One way at a rate: the source.
pub fn publish_paced(arguments: &Arguments) -> Result<String> {
    let (shared, work) = (boards(arguments)?, work(arguments));
    let boards: Vec<_> = shared.iter().map(|board| &**board).collect();
    let aeron = client(arguments)?;
    let there = publication(&aeron, arguments, THERE)?;
    connected(&there)?;
    joined(arguments)?;
    let mut payload = vec![7u8; work.payload.max(STAMPED)];
    let mut pace = OpenLoop::new(&work, &boards);
    while let Some(due) = pace.due(clock::now()) {
        if due == 0 {
            pace.pause();
        }
        for _ in 0..due.min(BATCH) {
            pace.stamp(&mut payload);
            offer(&there, &payload, arguments)?;
        }
    }
    drain(&boards, pace.sent());
    Ok("{}".to_owned())
}

/// One way at a rate: a receiver.
pub fn observe(arguments: &Arguments) -> Result<String> {
    let (boards, work) = (boards(arguments)?, work(arguments));
    let board = &boards[0];
    let aeron = client(arguments)?;
    let there = subscription(&aeron, arguments, THERE)?;
    let image = image(&there)?;
    board.join();
    let mut arrivals = Arrivals::new(&work);
    loop {
        let over = board.is_over();
        let fragments = image.poll_fn(|bytes, _| arrivals.take(bytes, board), LIMIT)?;
        board.received(arrivals.messages());
        if fragments == 0 {
            if over {
                return Ok(arrivals.result(board).to_json());
            }
            arguments.idle.wait();
        }
    }
}

/// Waits until all receivers have the stream.
fn joined(arguments: &Arguments) -> Result<()> {
    let boards = boards(arguments)?;
    crate::until("a receiver has not joined", || boards.iter().all(|b| b.is_joined()).then_some(()))
}

/// Waits until everything has come, or will not, and says that it is over.
fn drain(boards: &[&floor::board::Board], sent: u64) {
    let begun = Instant::now();
    while slowest(boards) < sent && begun.elapsed() < Duration::from_secs(2) {
        std::thread::yield_now();
    }
    for board in boards {
        board.end(sent);
    }
}
