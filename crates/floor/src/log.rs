//! Shared memory between two sides: messages in a log, and nothing that a protocol does.
//!
//! A side is a function; the two run in threads or processes that share a [`Board`] and a path for the log.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::messaging::{Meter, RoundTrips, Streamed, Trips, Work};
use net::clock;
use net::floor::board::Board;
use net::shm::{Pacing, Reader, Writer};

const CAPACITY: usize = 4 << 20;
const HEADER: usize = 8;
const PATIENCE: Duration = Duration::from_secs(20);

fn other(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn writer(path: &Path) -> io::Result<Writer> {
    Writer::create(path, b"", CAPACITY, Pacing::Receiver).map_err(|e| other(&e))
}

/// Waits for the log.
fn reader(path: &Path) -> io::Result<Reader> {
    let begun = Instant::now();
    loop {
        match Reader::open(path) {
            Ok(reader) => return Ok(reader),
            Err(e) if begun.elapsed() > PATIENCE => return Err(other(&e)),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn wait_for_reader(board: &Board) -> io::Result<()> {
    let begun = Instant::now();
    while !board.is_joined() {
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads the log"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A message of `payload`, padded.
fn size(payload: usize) -> usize {
    (HEADER + payload + 7) & !7
}

/// The writer one way as fast as it goes; publishes when `work.datagram` bytes are there.
///
/// # Errors
/// What the system refuses.
pub fn send_stream(work: &Work, path: &Path, board: &Board) -> io::Result<Streamed> {
    let mut writer = writer(path)?;
    wait_for_reader(board)?;
    let payload = vec![7u8; work.payload];
    let boards = [board];
    let (each, mut meter, mut sent) = (size(work.payload), Meter::new(work, &boards), 0);
    let batch = (work.datagram / each).max(1);
    while meter.goes_on() {
        for _ in 0..64 {
            while writer.room(batch * each).len() < batch * each {
                work.wait.idle();
            }
            let room = writer.room(batch * each);
            for place in room[..batch * each].chunks_exact_mut(each) {
                place[..4].copy_from_slice(&(work.payload as u32).to_ne_bytes());
                place[HEADER..HEADER + payload.len()].copy_from_slice(&payload);
            }
            writer.publish(batch * each);
            sent += batch as u64;
        }
    }
    let result = meter.result();
    board.end(sent);
    // The log goes with its writer.
    let begun = Instant::now();
    while writer.lag() > 0 && writer.readers() > 0 && begun.elapsed() < PATIENCE {
        work.wait.idle();
    }
    Ok(result)
}

/// The reader one way as fast as it goes: looks at every message.
///
/// # Errors
/// What the system refuses.
pub fn receive_stream(work: &Work, path: &Path, board: &Board) -> io::Result<()> {
    let mut reader = reader(path)?;
    board.join();
    let (mut messages, mut sum, mut turns) = (0u64, 0u64, 0u32);
    loop {
        let over = board.is_over();
        let bytes = reader.peek().map_err(|e| other(&e))?;
        let (all, mut rest) = (bytes.len(), bytes);
        while rest.len() > HEADER {
            let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            sum += u64::from(rest[HEADER]);
            messages += 1;
            rest = rest.get(size(length)..).unwrap_or_default();
        }
        reader.release(all);
        board.received(messages);
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1_024) {
            board.used();
        }
        if all == 0 {
            if over {
                std::hint::black_box(sum);
                return Ok(());
            }
            work.wait.idle();
        }
    }
}

/// There and back, each message published at once: the side that echoes. The log back is at `path` with `.back`.
///
/// # Errors
/// What the system refuses.
pub fn echo(work: &Work, path: &Path, board: &Board) -> io::Result<()> {
    let mut back = writer(&path.with_extension("back"))?;
    let mut there = reader(path)?;
    board.join();
    while !board.is_over() {
        let bytes = there.peek().map_err(|e| other(&e))?;
        let all = bytes.len();
        if all == 0 {
            work.wait.idle();
            continue;
        }
        back.room(all)[..all].copy_from_slice(bytes);
        back.publish(all);
        there.release(all);
    }
    Ok(())
}

/// There and back: the side that asks.
///
/// # Errors
/// What the system refuses.
pub fn ping(work: &Work, path: &Path, board: &Board) -> io::Result<RoundTrips> {
    let mut there = writer(path)?;
    let mut back = reader(&path.with_extension("back"))?;
    wait_for_reader(board)?;
    let each = size(work.payload.max(8));
    let mut trips = Trips::new(work);
    loop {
        let now = clock::now();
        if trips.is_over(now) {
            board.end(0);
            return Ok(trips.result());
        }
        if let Some(intended) = trips.due(now) {
            let room = there.room(each);
            room[HEADER..HEADER + 8].copy_from_slice(&intended.to_ne_bytes());
            there.publish(each);
        }
        let bytes = back.peek().map_err(|e| other(&e))?;
        for message in bytes.chunks_exact(each) {
            let time = message[HEADER..HEADER + 8].try_into().expect("eight bytes");
            trips.back(clock::now(), u64::from_ne_bytes(time));
        }
        let all = bytes.len();
        back.release(all);
        if all == 0 {
            work.wait.idle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_and_come() {
        let work = Work { seconds: 0.1, warmup: 0.02, ..Work::default() };
        let path = std::env::temp_dir().join(format!("net-floor-{}", std::process::id()));
        let board = Board::default();
        thread::scope(|scope| {
            let reading = scope.spawn(|| receive_stream(&work, &path, &board));
            let streamed = send_stream(&work, &path, &board).expect("a run");
            assert!(streamed.rate > 0.0, "{streamed:?}");
            reading.join().expect("the reader").expect("a run");
        });
        let (board, path) = (Board::default(), path.with_extension("trips"));
        thread::scope(|scope| {
            let echoing = scope.spawn(|| echo(&work, &path, &board));
            let trips = ping(&work, &path, &board).expect("a run");
            assert!(trips.samples > 0 && trips.lost == 0 && trips.latency.median > 0.0, "{trips:?}");
            echoing.join().expect("the echo").expect("a run");
        });
    }
}
