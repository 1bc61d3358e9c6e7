//! Shared memory between two threads: messages in a log, and nothing that a protocol does.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::{env, io, process, thread};

use super::messaging::{Meter, Progress, RoundTrips, Streamed, Trips, Work};
use crate::clock;
use crate::shm::{Pacing, Reader, Writer};

const CAPACITY: usize = 4 << 20;
const HEADER: usize = 8;

fn other(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn pair() -> io::Result<(Writer, Reader)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let shared = PathBuf::from("/dev/shm");
    let directory = if shared.is_dir() { shared } else { env::temp_dir() };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("net-floor-{}-{number}", process::id()));
    let writer = Writer::create(&path, b"", CAPACITY, Pacing::Receiver).map_err(|e| other(&e))?;
    let reader = Reader::open(&path).map_err(|e| other(&e))?;
    Ok((writer, reader))
}

/// A message of `payload`, padded.
fn size(payload: usize) -> usize {
    (HEADER + payload + 7) & !7
}

/// One way, as fast as it goes; published when `work.datagram` bytes are there.
///
/// # Errors
/// What the system refuses.
pub fn stream(work: &Work) -> io::Result<Streamed> {
    let (mut writer, mut reader) = pair()?;
    let progress = Progress::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut messages, mut sum, mut turns) = (0u64, 0u64, 0u32);
            loop {
                let over = progress.over.load(Ordering::Acquire);
                let Ok(bytes) = reader.peek() else { return };
                let (all, mut rest) = (bytes.len(), bytes);
                while rest.len() > HEADER {
                    let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
                    sum += u64::from(rest[HEADER]);
                    messages += 1;
                    rest = rest.get(size(length)..).unwrap_or_default();
                }
                reader.release(all);
                progress.messages.store(messages, Ordering::Relaxed);
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(1_024) {
                    progress.cpu.store(clock::thread_cpu(), Ordering::Relaxed);
                }
                if all == 0 {
                    if over {
                        std::hint::black_box(sum);
                        return;
                    }
                    work.wait.idle();
                }
            }
        });
        let payload = vec![7u8; work.payload];
        let (each, mut meter) = (size(work.payload), Meter::new(work, &progress));
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
            }
        }
        progress.over.store(true, Ordering::Release);
        Ok(meter.result())
    })
}

/// There and back, each message published at once.
///
/// # Errors
/// What the system refuses.
pub fn round_trips(work: &Work) -> io::Result<RoundTrips> {
    let (there, mut echo_in) = pair()?;
    let (mut echo_out, back) = pair()?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                let Ok(bytes) = echo_in.peek() else { return };
                let all = bytes.len();
                if all == 0 {
                    work.wait.idle();
                    continue;
                }
                echo_out.room(all)[..all].copy_from_slice(bytes);
                echo_out.publish(all);
                echo_in.release(all);
            }
        });
        let result = ping(work, there, back);
        over.store(true, Ordering::Release);
        result
    })
}

fn ping(work: &Work, mut there: Writer, mut back: Reader) -> io::Result<RoundTrips> {
    let each = size(work.payload.max(8));
    let mut trips = Trips::new(work);
    loop {
        let now = clock::now();
        if trips.is_over(now) {
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
        let streamed = stream(&work).expect("a run");
        assert!(streamed.rate > 100_000.0, "{streamed:?}");
        let trips = round_trips(&work).expect("a run");
        assert!(trips.samples > 100 && trips.lost == 0 && trips.latency.median > 0.0, "{trips:?}");
    }
}
