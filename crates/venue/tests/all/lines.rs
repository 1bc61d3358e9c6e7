//! Two lines that lose, repeat and reorder, and a re-request server that is no better: what comes out is what a lossless line brings, and
//! what is missing meanwhile is told.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use venue::nasdaq::ItchFeed;
use venue::nasdaq::mold::{Header, Join, Line, MoldPacket, MoldReceiver};
use venue::sequence::{Change, Limits};

use crate::day::{Day, Random, Settings};
use crate::itch::{encoded, hold};
use crate::naive::Naive;
use crate::watch::{Stream, Watch};

pub(crate) const SESSION: [u8; 10] = *b"day1      ";

const MS: u64 = 1_000_000;

/// How bad the network is.
#[derive(Clone, Copy, Debug)]
struct Network {
    /// Of packets of each line, independently.
    loss: f64,
    /// Begin of a burst that neither line brings.
    both: f64,
    repeated: f64,
    late: f64,
    /// Of requests and of answers.
    repair_loss: f64,
}

/// Packets on their way: when, a number that makes it unique, line and bytes.
type Flight = BinaryHeap<Reverse<(u64, u64, u8, Vec<u8>)>>;

/// A time, and the packet that arrives then; none: a timer is due.
type Moment = (u64, Option<(Line, Vec<u8>)>);

const REPAIR: u8 = 9;

struct World {
    random: Random,
    network: Network,
    messages: Vec<Vec<u8>>,
    flight: Flight,
    sent: u64,
    /// When requests were made, and when an answer arrived last.
    requests: Vec<(u64, Header)>,
    answered: u64,
    limits: Limits,
}

impl World {
    fn new(seed: u64, network: Network, messages: Vec<Vec<u8>>) -> Self {
        let limits = Limits { most_requested: 60, ..Limits::default() };
        let random = Random::new(seed);
        let mut world = Self {
            random,
            network,
            messages,
            flight: BinaryHeap::new(),
            sent: 0,
            requests: Vec::new(),
            answered: 0,
            limits,
        };
        let burst = world.bursts();
        world.send_line(0, &burst);
        world.send_line(1, &burst);
        world
    }

    /// Times at which neither line gets through.
    fn bursts(&mut self) -> Vec<std::ops::Range<u64>> {
        let times = self.messages.len() as u64;
        let begins: Vec<u64> = (0..times).filter(|_| self.random.chance(self.network.both)).collect();
        begins.into_iter().map(|at| at * MS / 4..at * MS / 4 + self.random.below(12 * MS)).collect()
    }

    fn put(&mut self, at: u64, line: u8, packet: Vec<u8>) {
        self.sent += 1;
        self.flight.push(Reverse((at, self.sent, line, packet)));
    }

    /// Packs as this line likes, a quarter of a millisecond a message.
    fn send_line(&mut self, line: u8, bursts: &[std::ops::Range<u64>]) {
        let mut at = 0;
        while at < self.messages.len() {
            let mut packet = MoldPacket::new(SESSION, at as u64 + 1);
            for message in self.messages.iter().skip(at).take(self.random.below(6) as usize) {
                packet.push(message);
            }
            at += usize::from(packet.count());
            let time = at as u64 * MS / 4 + u64::from(line) * 200_000;
            let is_lost = self.random.chance(self.network.loss) || bursts.iter().any(|burst| burst.contains(&time));
            if is_lost {
                continue;
            }
            for _ in 0..=u8::from(self.random.chance(self.network.repeated)) {
                let late = if self.random.chance(self.network.late) { self.random.below(15 * MS) } else { 0 };
                self.put(time + late, line, packet.bytes().to_vec());
            }
        }
        let end = self.messages.len() as u64;
        for again in 0..20 {
            self.put(end * MS / 4 + again * 50 * MS, line, MoldPacket::end(SESSION, end + 1));
        }
    }

    /// The re-request server: short answers in one or several packets.
    fn request(&mut self, now: u64, request: &[u8]) {
        let header = Header::read(request).expect("a header");
        assert_eq!(header.session, SESSION);
        if let Some((before, _)) = self.requests.last() {
            let is_answered = self.answered > *before;
            assert!(is_answered || now >= before + self.limits.first_retry, "two requests in flight");
        }
        self.requests.push((now, header));
        if self.random.chance(self.network.repair_loss) {
            return;
        }
        let mut at = header.sequence;
        let end = header.sequence + u64::from(header.count).min(40);
        while at < end {
            let mut packet = MoldPacket::new(SESSION, at);
            for number in at..end.min(at + 15) {
                packet.push(&self.messages[number as usize - 1]);
            }
            at += u64::from(packet.count());
            if !self.random.chance(self.network.repair_loss) {
                let after = MS + self.random.below(3 * MS);
                self.put(now + after, REPAIR, packet.bytes().to_vec());
            }
        }
    }

    /// The next moment: a packet, or a timer that is due before it.
    fn next(&mut self, timer: Option<u64>) -> Option<Moment> {
        let packet = self.flight.peek().map(|Reverse((at, ..))| *at);
        match (packet, timer) {
            (None, None) => None,
            (packet, Some(due)) if packet.is_none_or(|at| due <= at) => Some((due, None)),
            _ => self.flight.pop().map(|Reverse((at, _, line, packet))| {
                if line == REPAIR {
                    self.answered = at;
                }
                (at, Some((if line == REPAIR { Line::Repair } else { Line::Feed(line) }, packet)))
            }),
        }
    }
}

fn messages_of(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut source = Day::new(Settings { seed, stocks: 6, longest_life: 400.0 });
    (0..count).map(|_| encoded(&source.next())).collect()
}

fn lossy() -> Network {
    Network { loss: 0.01, both: 0.002, repeated: 0.02, late: 0.03, repair_loss: 0.2 }
}

#[test]
fn lines_that_lose_one_in_a_hundred_bring_what_a_lossless_line_brings() {
    let (mut gaps, mut repairs) = (0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed, lossy(), messages_of(seed, 2_000));
        let (mut feed, mut watch) = (ItchFeed::<true>::new(Join::Beginning, world.limits), Watch::default());
        let (mut naive, mut applied, mut doubted) = (Naive::default(), 0, false);
        let mut last = 0;
        while let Some((now, packet)) = world.next(feed.timer()) {
            assert!(now >= last, "time does not fall");
            last = now;
            match packet {
                Some((line, packet)) => feed.receive(line, &packet, now, &mut watch),
                None => feed.on_timer(now, &mut watch),
            }
            if let Some(request) = feed.poll_request() {
                world.request(now, &request);
            }
            // The books are those of the messages up to the first that is missing, never more and never less.
            for message in &world.messages[applied..feed.mold().next() as usize - 1] {
                naive.apply(message);
                applied += 1;
            }
            let is_gap = watch.changes().iter().rev().find_map(|change| match change {
                Change::Gap { .. } => Some(true),
                Change::Repaired | Change::Session { .. } => Some(false),
                _ => None,
            });
            assert_eq!(feed.is_in_doubt(), is_gap.unwrap_or(true), "doubt is told when it is");
            doubted |= is_gap == Some(true);
            if now % 13 == 0 || is_gap == Some(false) && doubted {
                (1..=6).for_each(|locate| hold(feed.day(), &naive, locate));
                doubted = false;
            }
        }
        assert_eq!(applied, world.messages.len(), "seed {seed}");
        assert_eq!((feed.is_in_doubt(), feed.day().bad_total()), (false, 0));
        assert_eq!(watch.changes().last(), Some(&Change::Ended), "seed {seed}");
        let counts = feed.mold().counts();
        assert_eq!((counts.given, counts.lost), (2_000, 0));
        assert_eq!(counts.gaps, counts.repairs);
        (gaps, repairs) = (gaps + counts.gaps, repairs + counts.repairs);
        hold_backoff(&world);
    }
    assert!(gaps > 60 && repairs == gaps, "{gaps} gaps and {repairs} repairs in 60 days");
}

/// Requests for one range without an answer between are each twice as far apart.
fn hold_backoff(world: &World) {
    for pair in world.requests.windows(2) {
        let [(before, first), (after, second)] = pair else { continue };
        assert!(after > before && first.count <= 60 && second.count > 0);
    }
}

fn packet_of(messages: &[Vec<u8>], from: u64, count: u64) -> Vec<u8> {
    let mut packet = MoldPacket::new(SESSION, from);
    for number in from..from + count {
        packet.push(&messages[number as usize - 1]);
    }
    packet.bytes().to_vec()
}

#[test]
fn packets_that_overlap_are_used_in_part() {
    let messages = messages_of(1, 20);
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, Limits::default()), Stream::default());
    for (line, from, count) in [(0, 1, 4), (1, 3, 5), (0, 5, 2), (1, 1, 12), (0, 13, 8)] {
        mold.receive(Line::Feed(line), &packet_of(&messages, from, count), from, &mut stream);
    }
    assert!(stream.messages.iter().map(|(_, message)| message).eq(&messages));
    assert_eq!(mold.counts().repeated, 2 + 2 + 7);
}

#[test]
fn the_other_line_fills_a_hole_before_it_is_a_gap() {
    let messages = messages_of(2, 9);
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, Limits::default()), Stream::default());
    mold.receive(Line::Feed(0), &packet_of(&messages, 1, 3), 0, &mut stream);
    mold.receive(Line::Feed(0), &packet_of(&messages, 7, 3), MS, &mut stream);
    assert_eq!((stream.messages.len(), mold.timer()), (3, Some(6 * MS)));
    mold.receive(Line::Feed(1), &packet_of(&messages, 4, 3), 3 * MS, &mut stream);
    assert_eq!((stream.messages.len(), mold.timer(), mold.is_in_doubt()), (9, None, false));
    assert_eq!(stream.changes.len(), 1, "only the session was told");
}

#[test]
fn a_request_that_is_not_answered_is_made_again_later_each_time_and_given_up() {
    let messages = messages_of(3, 9);
    let limits = Limits { attempts: 4, ..Limits::default() };
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, limits), Stream::default());
    mold.receive(Line::Feed(0), &packet_of(&messages, 1, 2), 0, &mut stream);
    mold.receive(Line::Feed(0), &packet_of(&messages, 5, 5), 0, &mut stream);
    let mut asked = Vec::new();
    while let Some(due) = mold.timer() {
        mold.on_timer(due, &mut stream);
        if let Some(request) = mold.poll_request() {
            let header = Header::read(&request).expect("a header");
            asked.push((due / MS, header.sequence, header.count));
        }
        assert_eq!(mold.poll_request(), None, "one in flight");
    }
    assert_eq!(asked, [(5, 3, 2), (105, 3, 2), (305, 3, 2), (705, 3, 2)]);
    assert_eq!(stream.changes[1..], [Change::Gap { missing: 3..5 }, Change::Lost { missing: 3..5 }]);
    assert_eq!(stream.messages.len(), 7, "what came behind the gap is given on, in doubt");
    assert!(mold.is_in_doubt());
    // A late copy of what was given up is of no use: its place has passed.
    mold.receive(Line::Repair, &packet_of(&messages, 3, 2), 2_000 * MS, &mut stream);
    assert_eq!((stream.messages.len(), mold.counts().lost), (7, 2));
}

#[test]
fn a_count_that_promises_more_than_there_is_makes_a_gap() {
    let messages = messages_of(4, 5);
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, Limits::default()), Stream::default());
    let packet = packet_of(&messages, 1, 5);
    mold.receive(Line::Feed(0), &packet[..packet.len() - 1], 0, &mut stream);
    assert_eq!((stream.messages.len(), mold.bad().cut), (4, 1));
    mold.on_timer(mold.timer().expect("a hole"), &mut stream);
    assert_eq!(stream.changes[1], Change::Gap { missing: 5..6 });
    mold.receive(Line::Repair, &packet, 7 * MS, &mut stream);
    assert_eq!(stream.changes[2..], [Change::Repaired]);
}

#[test]
fn a_heartbeat_shows_a_gap_and_the_end_of_a_session_is_told_when_all_has_come() {
    let messages = messages_of(4, 5);
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, Limits::default()), Stream::default());
    mold.receive(Line::Feed(0), &packet_of(&messages, 1, 3), 0, &mut stream);
    mold.receive(Line::Feed(0), MoldPacket::new(SESSION, 6).bytes(), MS, &mut stream);
    assert!(mold.timer().is_some());
    mold.receive(Line::Feed(1), &MoldPacket::end(SESSION, 6), MS, &mut stream);
    mold.on_timer(20 * MS, &mut stream);
    let request = mold.poll_request().and_then(|request| Header::read(&request)).expect("a request");
    assert_eq!((request.sequence, request.count), (4, 2));
    assert!(!stream.changes.contains(&Change::Ended));
    mold.receive(Line::Repair, &packet_of(&messages, 4, 2), 21 * MS, &mut stream);
    assert_eq!(stream.changes[1..], [Change::Gap { missing: 4..6 }, Change::Repaired, Change::Ended]);
}

#[test]
fn one_strange_packet_empties_no_book_and_a_new_session_does() {
    let messages = messages_of(5, 30);
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, Limits::default()), Stream::default());
    let mut receive = |mold: &mut MoldReceiver, session: &[u8; 10], from: u64, count: u64| {
        let mut packet = packet_of(&messages, from.min(20), count);
        packet[..10].copy_from_slice(session);
        packet[10..18].copy_from_slice(&from.to_be_bytes());
        mold.receive(Line::Feed(0), &packet, 0, &mut stream);
        stream.messages.len()
    };
    assert_eq!(receive(&mut mold, &SESSION, 1, 5), 5);
    assert_eq!(receive(&mut mold, b"garbage   ", 1, 5), 5, "not believed");
    assert_eq!(receive(&mut mold, &SESSION, 1 << 60, 1), 5, "not believed");
    assert_eq!(receive(&mut mold, &SESSION, u64::MAX - 1, 1), 5, "not believed");
    assert_eq!(receive(&mut mold, &SESSION, 6, 5), 10, "goes on");
    assert_eq!((mold.bad().strange, mold.session()), (3, "day1".to_owned()));
    // Two packets of another session, the second behind the first.
    receive(&mut mold, b"day2      ", 1, 2);
    assert_eq!(receive(&mut mold, b"day2      ", 3, 2), 10, "message 1 of day2 is missing now");
    assert_eq!(receive(&mut mold, b"day2      ", 1, 2), 14);
    assert_eq!(receive(&mut mold, &SESSION, 11, 2), 14, "late packets of the day before");
    assert_eq!(mold.bad().of_an_old_session, 1);
    let day2 = Change::Session { name: "day2".into(), next: 1 };
    assert_eq!(stream.changes.last(), Some(&day2));
}

#[test]
fn what_a_session_that_is_over_still_lacked_counts_as_lost() {
    let messages = messages_of(5, 30);
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, Limits::default()), Stream::default());
    mold.receive(Line::Feed(0), &packet_of(&messages, 1, 5), 0, &mut stream);
    mold.receive(Line::Feed(0), &packet_of(&messages, 8, 2), MS, &mut stream);
    mold.on_timer(mold.timer().expect("a hole"), &mut stream);
    for (from, at) in [(1, 7), (3, 8)] {
        let mut packet = packet_of(&messages, from, 2);
        packet[..10].copy_from_slice(b"day2      ");
        mold.receive(Line::Feed(0), &packet, at * MS, &mut stream);
    }
    assert_eq!(mold.session(), "day2");
    // 6 and 7 never came, and 8 and 9 waited for them.
    assert_eq!((mold.counts().gaps, mold.counts().repairs, mold.counts().lost), (1, 0, 4));
}

#[test]
fn what_is_held_is_bounded_and_asked_for_again() {
    let messages = messages_of(6, 400);
    let limits = Limits { window: 64, held_bytes: 1_000, ..Limits::default() };
    let (mut mold, mut stream) = (MoldReceiver::new(Join::Beginning, limits), Stream::default());
    for from in (2..400).step_by(3) {
        mold.receive(Line::Feed(0), &packet_of(&messages, from, 3.min(401 - from)), 0, &mut stream);
    }
    assert!(mold.counts().not_held > 300 && stream.messages.is_empty());
    let mut now = 0;
    while let Some(due) = mold.timer() {
        now = due.max(now + MS);
        mold.on_timer(now, &mut stream);
        while let Some(request) = mold.poll_request() {
            let header = Header::read(&request).expect("a header");
            let count = u64::from(header.count).min(30);
            mold.receive(Line::Repair, &packet_of(&messages, header.sequence, count), now, &mut stream);
        }
    }
    assert!(stream.messages.iter().map(|(_, message)| message).eq(&messages));
    assert_eq!(stream.changes.last(), Some(&Change::Repaired));
}

#[test]
fn a_lossless_stream_allocates_nothing_and_lossy_lines_hardly() {
    let messages = messages_of(7, 4_000);
    let mut mold = MoldReceiver::new(Join::Beginning, Limits::default());
    struct Nobody(u64);
    impl venue::sequence::Receiver for Nobody {
        fn message(&mut self, _number: u64, message: &[u8]) {
            self.0 += message.len() as u64;
        }
        fn change(&mut self, _change: &Change) {}
    }
    let packets: Vec<Vec<u8>> =
        (1..4_000).step_by(8).map(|from| packet_of(&messages, from, 8.min(4_001 - from))).collect();
    let mut nobody = Nobody(0);
    mold.receive(Line::Feed(0), &packets[0], 0, &mut nobody);
    let info = allocation_counter::measure(|| {
        for (at, packet) in packets.iter().enumerate().skip(1) {
            for line in 0..2 {
                mold.receive(Line::Feed(line), packet, at as u64, &mut nobody);
            }
        }
    });
    assert_eq!((info.count_total, mold.next()), (0, 4_001));
    assert!((mold.line(0).first, mold.line(1).behind) == (4_000, packets.len() as u64 - 1));
}
