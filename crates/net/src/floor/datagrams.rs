//! UDP between two threads: messages packed into datagrams, and nothing that a protocol does but a number a datagram.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::messaging::{Meter, Progress, RoundTrips, Streamed, Trips, Work};
use crate::clock;
use crate::udp::{PAYLOAD_MAX, Slabs, UdpOptions, UdpSocket};

/// Bytes before the messages of a datagram, and before each message: as many as LBT-RM and LBMC have.
const HEADER: usize = 16;
const MESSAGE_HEADER: usize = 16;
/// Bytes that may be under way: what the socket's buffer holds for sure, whatever the kernel adds to each datagram.
const WINDOW: u64 = 2_000_000;
const BUFFER: usize = 16 << 20;

fn options(work: &Work) -> UdpOptions {
    UdpOptions {
        gso: work.trains,
        gro: work.trains,
        datagram_max: work.datagram.max(HEADER + MESSAGE_HEADER + work.payload),
        receive_buffer: Some(BUFFER),
        send_buffer: Some(4 << 20),
        reuse_address: work.multicast,
        multicast_interface: Some(Ipv4Addr::LOCALHOST),
        multicast_ttl: 0,
        ..UdpOptions::default()
    }
}

/// A sender connected to a receiver.
fn pair(work: &Work, group: Ipv4Addr) -> io::Result<(UdpSocket, UdpSocket)> {
    let at = if work.multicast { group } else { Ipv4Addr::LOCALHOST };
    let receiver = UdpSocket::bind(SocketAddrV4::new(at, 0), &options(work))?;
    if work.multicast {
        receiver.join(group, Ipv4Addr::LOCALHOST)?;
    }
    let mut sender = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &options(work))?;
    sender.connect(SocketAddrV4::new(at, receiver.local_addr().port()))?;
    Ok((sender, receiver))
}

/// One way, as fast as it goes. The receiver tells the sender, by memory, how far it is: nothing is lost for want of room.
///
/// # Errors
/// What the system refuses.
pub fn stream(work: &Work) -> io::Result<Streamed> {
    let (sender, receiver) = pair(work, Ipv4Addr::new(239, 192, 61, 1))?;
    let progress = Progress::default();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| count(work, receiver, &progress));
        let sent = send_all(work, sender, &progress);
        progress.over.store(true, Ordering::Release);
        let lost = receiving.join().map_err(|_| io::Error::other("the receiver has panicked"))??;
        Ok(Streamed { lost, ..sent? })
    })
}

fn send_all(work: &Work, mut sender: UdpSocket, progress: &Progress) -> io::Result<Streamed> {
    let each = MESSAGE_HEADER + work.payload;
    let per_datagram = ((work.datagram - HEADER.min(work.datagram)) / each).max(1);
    let datagram = HEADER + per_datagram * each;
    let datagrams = (PAYLOAD_MAX / datagram).clamp(1, 64);
    let mut train = vec![0u8; datagram * datagrams];
    let payload = vec![7u8; work.payload];
    let (mut number, mut message, mut sent) = (0u32, 0u32, 0u64);
    let window = WINDOW / each as u64;
    let mut meter = Meter::new(work, progress);
    while meter.goes_on() {
        if sent > progress.messages.load(Ordering::Relaxed) + window {
            work.wait.idle();
            continue;
        }
        for datagram in train.chunks_exact_mut(datagram) {
            datagram[8..12].copy_from_slice(&number.to_ne_bytes());
            number = number.wrapping_add(1);
            for place in datagram[HEADER..].chunks_exact_mut(each) {
                place[2..4].copy_from_slice(&(each as u16).to_ne_bytes());
                place[4..8].copy_from_slice(&message.to_ne_bytes());
                message = message.wrapping_add(1);
                place[MESSAGE_HEADER..].copy_from_slice(&payload);
            }
        }
        if sender.send_train(None, &train, datagram)? < datagrams {
            sender.wait_writable(None)?;
        }
        sent += (datagrams * per_datagram) as u64;
    }
    Ok(meter.result())
}

/// Looks at every message; returns how many datagrams were missed.
fn count(work: &Work, mut receiver: UdpSocket, progress: &Progress) -> io::Result<u64> {
    let mut slabs = Slabs::new(if work.trains { 8 } else { 16 });
    let (mut messages, mut expected, mut lost, mut sum, mut turns) = (0u64, 0u32, 0u64, 0u64, 0u32);
    loop {
        let over = progress.over.load(Ordering::Acquire);
        let received = receiver.recv(&mut slabs)?;
        for arrival in &received {
            for datagram in arrival.datagrams() {
                let Some(number) = datagram.get(8..12).and_then(|n| n.try_into().ok()) else { continue };
                let number = u32::from_ne_bytes(number);
                lost += u64::from(number.wrapping_sub(expected));
                expected = number.wrapping_add(1);
                let mut rest = &datagram[HEADER..];
                while rest.len() > MESSAGE_HEADER {
                    let length = usize::from(u16::from_ne_bytes([rest[2], rest[3]])).max(MESSAGE_HEADER);
                    sum += u64::from(rest[MESSAGE_HEADER]);
                    messages += 1;
                    rest = rest.get(length..).unwrap_or_default();
                }
            }
        }
        let is_empty = received.is_empty();
        progress.messages.store(messages, Ordering::Relaxed);
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(64) {
            progress.cpu.store(clock::thread_cpu(), Ordering::Relaxed);
        }
        if is_empty {
            if over {
                break;
            }
            work.wait.idle();
        }
    }
    std::hint::black_box(sum);
    Ok(lost)
}

/// There and back: a datagram each.
///
/// # Errors
/// What the system refuses.
pub fn round_trips(work: &Work) -> io::Result<RoundTrips> {
    let (there, mut echo_in) = pair(work, Ipv4Addr::new(239, 192, 61, 1))?;
    let (mut echo_out, back) = pair(work, Ipv4Addr::new(239, 192, 61, 2))?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let mut slabs = Slabs::new(8);
            while !over.load(Ordering::Acquire) {
                let received = echo_in.recv(&mut slabs)?;
                for datagram in received.iter().flat_map(|arrival| arrival.datagrams()) {
                    echo_out.send(None, datagram)?;
                }
                if received.is_empty() {
                    work.wait.idle();
                }
            }
            Ok::<_, io::Error>(())
        });
        let result = ping(work, there, back);
        over.store(true, Ordering::Release);
        echo.join().map_err(|_| io::Error::other("the echo has panicked"))??;
        result
    })
}

fn ping(work: &Work, mut there: UdpSocket, mut back: UdpSocket) -> io::Result<RoundTrips> {
    let mut slabs = Slabs::new(8);
    let mut datagram = vec![7u8; HEADER + MESSAGE_HEADER + work.payload.max(8)];
    let time = HEADER + MESSAGE_HEADER..HEADER + MESSAGE_HEADER + 8;
    let mut trips = Trips::new(work);
    loop {
        let now = clock::now();
        if trips.is_over(now) {
            return Ok(trips.result());
        }
        if let Some(intended) = trips.due(now) {
            datagram[time.clone()].copy_from_slice(&intended.to_ne_bytes());
            there.send(None, &datagram)?;
        }
        let received = back.recv(&mut slabs)?;
        for datagram in received.iter().flat_map(|arrival| arrival.datagrams()) {
            if let Some(bytes) = datagram.get(time.clone()).and_then(|t| t.try_into().ok()) {
                trips.back(clock::now(), u64::from_ne_bytes(bytes));
            }
        }
        if received.is_empty() {
            work.wait.idle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(trains: bool, multicast: bool) -> Work {
        Work { trains, multicast, seconds: 0.1, warmup: 0.02, ..Work::default() }
    }

    #[test]
    fn everything_comes_with_and_without_trains_and_by_multicast() {
        for (trains, multicast) in [(true, false), (false, false), (true, true)] {
            let streamed = stream(&short(trains, multicast)).expect("a run");
            assert!(streamed.rate > 1_000.0 && streamed.lost == 0, "{streamed:?}");
        }
    }

    #[test]
    fn what_goes_there_comes_back() {
        for (rate, multicast) in [(0.0, false), (2_000.0, true)] {
            let trips = round_trips(&Work { rate, ..short(true, multicast) }).expect("a run");
            assert!(trips.samples > 20 && trips.lost == 0 && trips.latency.median > 0.0, "{trips:?}");
        }
    }
}
