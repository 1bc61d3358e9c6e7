//! UDP between two sides: messages packed into datagrams, and nothing that a protocol does but a number a datagram.
//!
//! A side is a function; the two run in threads or processes of one host, or of several that share a [`Board`].

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use super::Wait;
use super::messaging::{Arrivals, Meter, OneWay, OpenLoop, RoundTrips, Streamed, Trips, Work, slowest};
use net::clock;
use net::floor::board::{Board, listener, listens};
use net::udp::{PAYLOAD_MAX, Slabs, UdpOptions, UdpSocket};

/// Bytes before the messages of a datagram, and before each message: as many as LBT-RM and LBMC have.
const HEADER: usize = 16;
const MESSAGE_HEADER: usize = 16;
/// Bytes that may be under way: what the socket's buffer holds for sure, whatever the kernel adds to each datagram.
const WINDOW: u64 = 2_000_000;
const BUFFER: usize = 16 << 20;
/// How long a receiver that blocks does so at a time, to see the end.
const BLOCK: Duration = Duration::from_millis(20);

fn options(work: &Work) -> UdpOptions {
    UdpOptions {
        gso: work.trains,
        gro: work.trains,
        datagram_max: work.datagram.max(HEADER + MESSAGE_HEADER + work.payload),
        receive_buffer: Some(BUFFER),
        send_buffer: Some(4 << 20),
        reuse_address: work.multicast,
        multicast_interface: Some(work.here),
        multicast_ttl: u8::from(!work.here.is_loopback()),
        ..UdpOptions::default()
    }
}

fn receiver(work: &Work, group: Ipv4Addr) -> io::Result<UdpSocket> {
    let at = if work.multicast { group } else { work.here };
    let receiver = UdpSocket::bind(SocketAddrV4::new(at, work.port), &options(work))?;
    if work.multicast {
        receiver.join(group, work.here)?;
    }
    Ok(receiver)
}

fn sender(work: &Work, to: SocketAddrV4) -> io::Result<UdpSocket> {
    let mut sender = UdpSocket::bind(SocketAddrV4::new(work.here, 0), &options(work))?;
    sender.connect(to)?;
    Ok(sender)
}

/// Waits for all receivers; all are of one group, or there is one.
fn sender_to(work: &Work, boards: &[&Board]) -> io::Result<UdpSocket> {
    let mut at = None;
    for board in boards {
        at = Some(listener(&board.receiver.at)?);
    }
    sender(work, at.ok_or_else(|| io::Error::other("no receiver"))?)
}

/// Datagrams that are filled one after the other and sent together.
struct Train {
    bytes: Vec<u8>,
    each: usize,
    per_datagram: usize,
    datagram: usize,
    /// Datagrams, and messages in the open one.
    closed: usize,
    open: usize,
    number: u32,
}

impl Train {
    fn new(work: &Work, per_datagram: usize) -> Self {
        let each = MESSAGE_HEADER + work.payload;
        let datagram = HEADER + per_datagram * each;
        let bytes = vec![7u8; datagram * (PAYLOAD_MAX / datagram).clamp(1, 64)];
        Self { bytes, each, per_datagram, datagram, closed: 0, open: 0, number: 0 }
    }

    /// As many messages as fit into a datagram.
    fn full(work: &Work) -> Self {
        let each = MESSAGE_HEADER + work.payload;
        Self::new(work, ((work.datagram - HEADER.min(work.datagram)) / each).max(1))
    }

    fn capacity(&self) -> usize {
        self.bytes.len() / self.datagram * self.per_datagram
    }

    fn is_full(&self) -> bool {
        (self.closed + 1) * self.datagram > self.bytes.len()
    }

    /// The place of the next message; the train is not full.
    #[inline]
    fn place(&mut self) -> &mut [u8] {
        let begin = self.closed * self.datagram;
        if self.open == 0 {
            self.bytes[begin + 8..begin + 12].copy_from_slice(&self.number.to_ne_bytes());
            self.number = self.number.wrapping_add(1);
        }
        let at = begin + HEADER + self.open * self.each;
        self.open += 1;
        if self.open == self.per_datagram {
            (self.closed, self.open) = (self.closed + 1, 0);
        }
        let place = &mut self.bytes[at..at + self.each];
        place[2..4].copy_from_slice(&(self.each as u16).to_ne_bytes());
        &mut place[MESSAGE_HEADER..]
    }

    /// Sends what there is.
    fn send(&mut self, socket: &mut UdpSocket) -> io::Result<()> {
        let rest = if self.open > 0 { HEADER + self.open * self.each } else { 0 };
        let (mut from, end) = (0, self.closed * self.datagram + rest);
        while from < end {
            let sent = socket.send_train(None, &self.bytes[from..end], self.datagram)?;
            from += sent * self.datagram;
            if from < end {
                socket.wait_writable(None)?;
            }
        }
        (self.closed, self.open) = (0, 0);
        Ok(())
    }
}

/// The sender one way as fast as it goes. Receivers tell it on their boards how far they are: nothing is lost for want of room.
///
/// # Errors
/// What the system refuses.
pub fn send_stream(work: &Work, boards: &[&Board]) -> io::Result<Streamed> {
    let mut socket = sender_to(work, boards)?;
    let mut train = Train::full(work);
    let payload = vec![7u8; work.payload];
    let (mut sent, window) = (0u64, WINDOW / train.each as u64);
    let mut meter = Meter::new(work, boards);
    while meter.goes_on() {
        if sent > slowest(boards) + window {
            work.pace.pause();
            continue;
        }
        while !train.is_full() {
            train.place().copy_from_slice(&payload);
        }
        sent += train.capacity() as u64;
        train.send(&mut socket)?;
    }
    let result = meter.result();
    for board in boards {
        board.end(sent);
    }
    Ok(result)
}

/// Calls `each` for every message until the sender has ended; returns how many datagrams were missed.
fn receive(work: &Work, board: &Board, mut each: impl FnMut(&[u8]), count: impl Fn(u64)) -> io::Result<u64> {
    let mut socket = receiver(work, work.group)?;
    listens(&board.receiver.at, socket.local_addr());
    let mut slabs = Slabs::new(if work.trains { 8 } else { 16 });
    let (mut messages, mut expected, mut lost, mut turns) = (0u64, 0u32, 0u64, 0u32);
    loop {
        let over = board.is_over();
        let received = socket.recv(&mut slabs)?;
        for datagram in received.iter().flat_map(|arrival| arrival.datagrams()) {
            let Some(number) = datagram.get(8..12).and_then(|n| n.try_into().ok()) else { continue };
            let number = u32::from_ne_bytes(number);
            lost += u64::from(number.wrapping_sub(expected));
            expected = number.wrapping_add(1);
            let mut rest = datagram.get(HEADER..).unwrap_or_default();
            while rest.len() > MESSAGE_HEADER {
                let length = usize::from(u16::from_ne_bytes([rest[2], rest[3]])).max(MESSAGE_HEADER);
                each(rest.get(MESSAGE_HEADER..length).unwrap_or_default());
                messages += 1;
                rest = rest.get(length..).unwrap_or_default();
            }
        }
        let is_empty = received.is_empty();
        count(messages);
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(64) {
            board.used();
        }
        if is_empty {
            if over {
                return Ok(lost);
            }
            if work.wait == Wait::Block {
                socket.wait_readable(Some(BLOCK))?;
            } else {
                work.wait.idle();
            }
        }
    }
}

/// The receiver one way as fast as it goes: looks at every message; returns how many datagrams were missed.
///
/// # Errors
/// What the system refuses.
pub fn receive_stream(work: &Work, board: &Board) -> io::Result<u64> {
    let mut sum = 0u64;
    let lost = receive(
        work,
        board,
        |payload| sum += payload.first().copied().map_or(0, u64::from),
        |messages| board.received(messages),
    )?;
    std::hint::black_box(sum);
    Ok(lost)
}

/// The sender one way at a rate. `alone`: every message is a datagram; otherwise those that are due share one.
///
/// # Errors
/// What the system refuses.
pub fn send_paced(work: &Work, alone: bool, boards: &[&Board]) -> io::Result<()> {
    let mut socket = sender_to(work, boards)?;
    let mut train = if alone { Train::new(work, 1) } else { Train::full(work) };
    let mut pace = OpenLoop::new(work, boards);
    while let Some(due) = pace.due(clock::now()) {
        if due == 0 {
            pace.pause();
            continue;
        }
        for _ in 0..due.min(train.capacity() as u64) {
            pace.stamp(train.place());
            if alone {
                train.send(&mut socket)?;
            }
        }
        train.send(&mut socket)?;
    }
    for board in boards {
        board.end(pace.sent());
    }
    Ok(())
}

/// The receiver one way at a rate.
///
/// # Errors
/// What the system refuses.
pub fn receive_paced(work: &Work, board: &Board) -> io::Result<OneWay> {
    let mut arrivals = Arrivals::new(work);
    receive(work, board, |payload| arrivals.take(payload, board), |_| {})?;
    Ok(arrivals.result(board))
}

fn next(group: Ipv4Addr) -> Ipv4Addr {
    Ipv4Addr::from_bits(group.to_bits().wrapping_add(1))
}

/// There and back, a datagram each: the side that echoes.
///
/// # Errors
/// What the system refuses.
pub fn echo(work: &Work, board: &Board) -> io::Result<()> {
    let mut there = receiver(work, work.group)?;
    listens(&board.receiver.at, there.local_addr());
    let mut back = sender(work, listener(&board.sender.at)?)?;
    let mut slabs = Slabs::new(8);
    while !board.is_over() {
        let received = there.recv(&mut slabs)?;
        for datagram in received.iter().flat_map(|arrival| arrival.datagrams()) {
            back.send(None, datagram)?;
        }
        if received.is_empty() {
            work.wait.idle();
        }
    }
    Ok(())
}

/// There and back: the side that asks.
///
/// # Errors
/// What the system refuses.
pub fn ping(work: &Work, board: &Board) -> io::Result<RoundTrips> {
    let mut back = receiver(work, next(work.group))?;
    listens(&board.sender.at, back.local_addr());
    let mut there = sender(work, listener(&board.receiver.at)?)?;
    let mut slabs = Slabs::new(8);
    let mut datagram = vec![7u8; HEADER + MESSAGE_HEADER + work.payload.max(8)];
    let time = HEADER + MESSAGE_HEADER..HEADER + MESSAGE_HEADER + 8;
    let mut trips = Trips::new(work);
    loop {
        let now = clock::now();
        if trips.is_over(now) {
            board.end(0);
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
    use std::thread;

    use super::*;

    fn short(trains: bool, multicast: bool) -> Work {
        Work { trains, multicast, seconds: 0.1, warmup: 0.02, ..Work::default() }
    }

    /// Both sides in threads.
    fn both<R: Send, S>(receive: impl FnOnce(&Board) -> R + Send, send: impl FnOnce(&Board) -> S) -> (R, S) {
        let board = Board::default();
        thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(&board));
            let sent = send(&board);
            (receiving.join().expect("the receiver"), sent)
        })
    }

    #[test]
    fn everything_comes_with_and_without_trains_and_by_multicast() {
        for (trains, multicast) in [(true, false), (false, false), (true, true)] {
            let work = short(trains, multicast);
            let (lost, streamed) = both(|b| receive_stream(&work, b), |b| send_stream(&work, &[b]));
            let streamed = streamed.expect("a run");
            assert!(streamed.rate > 0.0 && lost.expect("a run") == 0, "{streamed:?}");
        }
    }

    #[test]
    fn a_rate_comes_as_it_was_sent() {
        for (alone, wait) in [(true, Wait::Yield), (false, Wait::Block)] {
            let work = Work { rate: 5_000.0, wait, pace: wait, ..short(true, false) };
            let (arrived, sent) = both(|b| receive_paced(&work, b), |b| send_paced(&work, alone, &[b]));
            sent.expect("a run");
            let arrived = arrived.expect("a run");
            assert!(arrived.lost == 0 && arrived.samples > 0 && arrived.latency.median > 0.0, "{arrived:?}");
            assert!(arrived.from_call.median <= arrived.latency.median, "{arrived:?}");
        }
    }

    #[test]
    fn what_goes_there_comes_back() {
        for (rate, multicast) in [(0.0, false), (2_000.0, true)] {
            let work = Work { rate, ..short(true, multicast) };
            // On a busy machine a short run may end before anything has come back.
            let run = || {
                let (echoed, trips) = both(|b| echo(&work, b), |b| ping(&work, b));
                echoed.expect("a run");
                trips.expect("a run")
            };
            let trips = (0..20).map(|_| run()).find(|trips| trips.samples > 0).expect("a run with samples");
            assert!(trips.samples > 0 && trips.lost == 0 && trips.latency.median > 0.0, "{trips:?}");
        }
    }
}
