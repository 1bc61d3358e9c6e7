//! A feed from lines that lose, repeat and reorder, with servers that are no better: what a consumer holds behind each repair is the book of
//! a line that loses nothing, and meanwhile it has been told.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use venue::nasdaq::itch::{AddOrder, Message};
use venue::nasdaq::mold::{Header, MoldPacket};
use venue::nasdaq::{TotalView, soup};

use super::day::{Day, Random};
use super::nasdaq::{expected, messages};
use super::*;
use crate::replay::venue::live::{Clock, LiveConfig, LiveFeed, LiveItems as _, LiveProtocol, Login, Origin, Want};

const MS: u64 = 1_000_000;
const SESSION: [u8; 10] = *b"0000000077";
/// 2019-12-30 at 14:30 UTC.
const BEGIN: u64 = 1_577_716_200_000_000_000;
const STOCKS: u16 = 3;

/// What is on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Line(u8, Vec<u8>),
    Answer(Vec<u8>),
    Connected,
    Bytes(Vec<u8>),
    Cut,
}

#[derive(Clone, Copy, Default)]
struct Badness {
    /// Of packets of each line.
    loss: f64,
    late: f64,
    /// Of requests, and of answers.
    repair_loss: f64,
    /// Of connections: they are cut within.
    cut: f64,
}

/// The exchange: lines, a server that repeats, and one of snapshots or of the session.
struct Exchange {
    random: Random,
    badness: Badness,
    messages: Vec<Vec<u8>>,
    flight: BinaryHeap<Reverse<(u64, u64, Thing)>>,
    sent: u64,
    /// Messages that have been sent by the lines, by time.
    times: Vec<u64>,
    /// When requests were made.
    requests: Vec<u64>,
    answered: u64,
    repeats: bool,
    /// The TCP server is one of the session.
    is_session: bool,
    dials: usize,
    is_connected: bool,
}

impl Exchange {
    fn new(seed: u64, badness: Badness, messages: Vec<Vec<u8>>) -> Self {
        let times = (0..messages.len() as u64).map(|n| n * MS / 4).collect();
        Self {
            random: Random::new(seed),
            badness,
            messages,
            flight: BinaryHeap::new(),
            sent: 0,
            times,
            requests: Vec::new(),
            answered: 0,
            repeats: true,
            is_session: false,
            dials: 0,
            is_connected: false,
        }
    }

    fn put(&mut self, at: u64, thing: Thing) {
        self.sent += 1;
        self.flight.push(Reverse((at, self.sent, thing)));
    }

    /// Both lines, from the message of this index on; neither brings those of `lost`.
    fn send_lines(&mut self, from: usize, lost: &std::ops::Range<usize>) {
        for line in 0..2 {
            let mut at = from;
            while at < self.messages.len() {
                let count = 1 + self.random.below(6) as usize;
                let end = (at + count).min(self.messages.len());
                let mut packet = MoldPacket::new(SESSION, at as u64 + 1);
                self.messages[at..end].iter().for_each(|message| assert!(packet.push(message)));
                let time = self.times[end - 1] + u64::from(line) * 200_000;
                let is_lost = self.random.chance(self.badness.loss) || at < lost.end && end > lost.start;
                for _ in 0..=u8::from(self.random.chance(0.02)) {
                    let late = if self.random.chance(self.badness.late) { self.random.below(15 * MS) } else { 0 };
                    if !is_lost {
                        self.put(time + late, Thing::Line(line, packet.bytes().to_vec()));
                    }
                }
                at = end;
            }
            let (next, time) = (self.messages.len() as u64 + 1, self.times.last().copied().unwrap_or(0));
            for beat in 0..40 {
                let packet = MoldPacket::new(SESSION, next);
                self.put(time + beat * 50 * MS, Thing::Line(line, packet.bytes().to_vec()));
            }
        }
    }

    fn ask(&mut self, now: u64, request: &[u8]) {
        assert!(self.repeats, "nobody is there who could be asked");
        let header = Header::read(request).expect("a request");
        if let Some(before) = self.requests.last() {
            assert!(self.answered > *before || now >= before + 100 * MS, "two requests in flight");
        }
        self.requests.push(now);
        if self.random.chance(self.badness.repair_loss) {
            return;
        }
        let mut at = header.sequence;
        let end = header.sequence + u64::from(header.count).min(40);
        while at < end {
            let mut packet = MoldPacket::new(SESSION, at);
            (at..end.min(at + 15)).for_each(|number| assert!(packet.push(&self.messages[number as usize - 1])));
            at += u64::from(packet.count());
            if !self.random.chance(self.badness.repair_loss) {
                let after = MS + self.random.below(3 * MS);
                self.put(now + after, Thing::Answer(packet.bytes().to_vec()));
            }
        }
    }

    fn dial(&mut self, now: u64) {
        assert!(!self.is_connected, "two connections");
        self.dials += 1;
        let is_refused = self.random.chance(self.badness.cut);
        self.is_connected = !is_refused;
        self.put(now + MS, if is_refused { Thing::Cut } else { Thing::Connected });
    }

    /// What the client says: a login is answered, by all that follows.
    fn hear(&mut self, now: u64, bytes: &[u8]) {
        if bytes.get(2) != Some(&b'L') {
            return;
        }
        let next: u64 = std::str::from_utf8(&bytes[29..49]).expect("text").trim().parse().expect("a number");
        let (answer, times) = if self.is_session { self.session(now, next) } else { (self.snapshot(now), None) };
        let is_cut = self.random.chance(self.badness.cut);
        let end = if is_cut { self.random.below(answer.len() as u64) as usize } else { answer.len() };
        let (mut at, mut time) = (0, now + MS);
        while at < end {
            let length = 1 + self.random.below(700) as usize;
            let piece = answer[at..(at + length).min(end)].to_vec();
            at += piece.len();
            time += self.random.below(MS / 10) + times.unwrap_or(0);
            self.put(time, Thing::Bytes(piece));
        }
        if is_cut {
            self.put(time + 1, Thing::Cut);
        }
    }

    fn login(next: u64) -> Vec<u8> {
        let mut out = Vec::new();
        soup::packet(b'A', format!("{:>10}{next:>20}", "0000000077").as_bytes(), &mut out);
        out
    }

    /// All messages from a number on, and how long a piece of them takes.
    fn session(&self, _now: u64, next: u64) -> (Vec<u8>, Option<u64>) {
        let mut out = Self::login(next.max(1));
        self.messages[next.max(1) as usize - 1..].iter().for_each(|message| soup::packet(b'S', message, &mut out));
        (out, Some(MS))
    }

    /// The orders that live now, as a snapshot server tells them.
    fn snapshot(&self, now: u64) -> Vec<u8> {
        let sent = self.times.partition_point(|time| *time <= now);
        let mut day = TotalView::<true>::default();
        let mut out = Self::login(1);
        for message in &self.messages[..sent] {
            day.apply(message, &mut ()).expect("a message");
            if message[0] == b'R' || message[0] == b'S' {
                soup::packet(b'S', message, &mut out);
            }
        }
        let time = 34_200_000_000_000 + now;
        for locate in 1..=STOCKS {
            for side in Side::BOTH {
                for order in day.books().orders(BookId(u32::from(locate)), side) {
                    let add = Message::AddOrder(AddOrder {
                        locate,
                        tracking: 0,
                        time,
                        order: order.reference,
                        side,
                        shares: order.size as u32,
                        stock: Day::symbol(locate),
                        price: order.price as u32,
                    });
                    let mut bytes = Vec::new();
                    add.encode(&mut bytes);
                    soup::packet(b'S', &bytes, &mut out);
                }
            }
        }
        soup::packet(b'S', format!("G{:>20}", sent + 1).as_bytes(), &mut out);
        out
    }
}

/// A feed, and a consumer of all that it has told of.
struct World {
    exchange: Exchange,
    feed: LiveFeed,
    seen: HashMap<u32, (String, Seen)>,
    now: u64,
}

impl World {
    fn new(exchange: Exchange, config: &LiveConfig) -> Self {
        let feed = LiveFeed::new(config, Clock { now: 0, wall: BEGIN });
        Self { exchange, feed, seen: HashMap::new(), now: 0 }
    }

    fn clock(&self) -> Clock {
        Clock { now: self.now, wall: BEGIN + self.now }
    }

    /// The next thing or timer; false at the end.
    fn step(&mut self, until: u64) -> bool {
        let thing = self.exchange.flight.peek().map(|Reverse((at, ..))| *at);
        let timer = self.feed.timer().filter(|at| thing.is_none_or(|thing| *at <= thing));
        let Some(at) = timer.or(thing).filter(|at| *at <= until) else { return false };
        self.now = self.now.max(at);
        let clock = self.clock();
        if timer.is_some() {
            self.feed.on_timer(clock);
        } else if let Some(Reverse((_, _, thing))) = self.exchange.flight.pop() {
            match thing {
                Thing::Line(line, packet) => self.feed.datagram(Origin::Line(line), &packet, clock),
                Thing::Answer(packet) => {
                    self.exchange.answered = self.now;
                    self.feed.datagram(Origin::Repeater, &packet, clock);
                }
                Thing::Connected => self.feed.connected(clock),
                Thing::Bytes(bytes) if self.exchange.is_connected => self.feed.bytes(&bytes, clock),
                Thing::Bytes(_) => {}
                Thing::Cut => {
                    self.exchange.is_connected = false;
                    self.feed.disconnected(clock);
                }
            }
        }
        while let Some(want) = self.feed.poll() {
            match want {
                Want::Ask(request) => self.exchange.ask(self.now, &request),
                Want::Dial => self.exchange.dial(self.now),
                Want::Send(bytes) => self.exchange.hear(self.now, &bytes),
                Want::HangUp => {
                    self.exchange.is_connected = false;
                    let is_of_it = |thing: &Thing| matches!(thing, Thing::Connected | Thing::Bytes(_) | Thing::Cut);
                    self.exchange.flight.retain(|Reverse((_, _, thing))| !is_of_it(thing));
                }
            }
        }
        let seen = &mut self.seen;
        self.feed.flush(&mut |event| {
            let (_, seen) = seen.get_mut(&event.instrument.0).expect("what nobody watches is not told");
            seen.take(&event, 4);
        });
        true
    }

    /// Goes on until the feed is ready, then watches all that it has.
    fn open(&mut self) {
        while !self.feed.is_ready() {
            assert!(self.step(u64::MAX), "it is never ready");
        }
        for name in self.feed.symbols() {
            let id = self.feed.find(&name).expect("a symbol");
            let mut new = Seen::default();
            for model in [Model::Price, Model::ByOrder, Model::ByPrice] {
                assert!(self.feed.offers(model));
                self.feed.watch(id, model, true);
                let (mut part, mut more) = (0, true);
                while more {
                    let mut body = Vec::new();
                    more = self.feed.image(id, model, part, &mut body);
                    let payload = Payload::ImagePart { part: part as u16, more, data: self.feed.data_state(id) };
                    new.take(&Event { instrument: id, model, payload, body: &body }, 4);
                    part += 1;
                }
            }
            self.seen.insert(id.0, (name, new));
        }
        assert_eq!(self.seen.len(), usize::from(STOCKS));
    }

    fn run(&mut self) {
        // A feed goes on for ever, with its timers; nothing comes behind that.
        while self.step(3_600_000 * MS) && (!self.exchange.flight.is_empty() || self.feed.figures().is_in_doubt) {}
    }

    /// The books are those of a line that loses nothing, and good.
    fn holds(&self, all: &[Vec<u8>], label: &str) {
        for (name, expected) in expected(all, STOCKS) {
            let (_, seen) = self.seen.values().find(|(known, _)| *known == name).expect("an item");
            assert_eq!((&expected.orders, &expected.levels), (&seen.orders, &seen.levels), "{label}: {name}");
            assert_eq!(seen.quote, *expected.quotes.last().expect("a quote"), "{label}: {name}");
            assert_eq!(seen.states.last().map(|state| state.0), Some(DataState::OK), "{label}: {:?}", seen.states);
        }
    }

    /// How often each item was Suspect; all of them alike.
    fn doubts(&self) -> usize {
        let count = |seen: &Seen| seen.states.iter().filter(|state| state.0 == DataState::SUSPECT).count();
        let all: Vec<usize> = self.seen.values().map(|(_, seen)| count(seen)).collect();
        assert!(all.iter().all(|count| *count == all[0]), "{all:?}");
        all[0]
    }
}

fn config(protocol: LiveProtocol, is_repeated: bool, has_server: bool) -> LiveConfig {
    let login = Login { user: "quote".into(), password: "secret".into(), session: String::new() };
    LiveConfig { protocol, suffix: None, symbology: None, is_repeated, server: has_server.then_some(login) }
}

#[test]
fn two_bad_lines_and_a_bad_server_make_the_book_of_a_good_line() {
    let badness = Badness { loss: 0.05, late: 0.03, repair_loss: 0.2, cut: 0.0 };
    let (mut gaps, mut lines) = (0, [0; 2]);
    for seed in 1..10 {
        let all = messages(seed, STOCKS, 4_000);
        let mut exchange = Exchange::new(seed, badness, all.clone());
        exchange.send_lines(0, &(2_000..2_030));
        let mut world = World::new(exchange, &config(LiveProtocol::ItchMold, true, false));
        world.open();
        world.run();
        world.holds(&all, &format!("seed {seed}"));
        let figures = world.feed.figures();
        assert_eq!(figures.messages, 4_000);
        assert_eq!((figures.stream.lost, figures.is_in_doubt, figures.books), (0, false, 3), "{figures:?}");
        assert!(figures.stream.gaps > 0 && figures.stream.repairs == figures.stream.gaps, "{figures:?}");
        // Gaps that were told before the items were opened are not theirs.
        assert!(world.doubts() >= 1 && world.doubts() <= figures.stream.gaps as usize, "seed {seed}");
        assert!(figures.latency_median_ns > 0 && figures.latency_p99_ns >= figures.latency_median_ns);
        gaps += figures.stream.gaps;
        lines.iter_mut().zip(&figures.lines).for_each(|(sum, counts)| *sum += counts.first);
        assert!(figures.lines[1].behind > 10 && figures.lines[1].behind_ns / figures.lines[1].behind < 20 * MS);
    }
    assert!(gaps > 9 && lines[0] > lines[1] && lines[1] > 0, "{gaps} {lines:?}");
}

#[test]
fn a_late_start_takes_a_snapshot_and_goes_on_behind_it() {
    let badness = Badness { loss: 0.02, late: 0.02, repair_loss: 0.1, cut: 0.4 };
    let mut dials = 0;
    for seed in 1..10 {
        let all = messages(seed, STOCKS, 4_000);
        let mut exchange = Exchange::new(seed, badness, all.clone());
        exchange.send_lines(1_500, &(0..0));
        // Heartbeats until the last attempt has come.
        for beat in 0..400 {
            let packet = MoldPacket::new(SESSION, 4_001).bytes().to_vec();
            exchange.put(beat * 500 * MS, Thing::Line(0, packet));
        }
        let mut world = World::new(exchange, &config(LiveProtocol::ItchMold, true, true));
        world.open();
        world.run();
        world.holds(&all, &format!("seed {seed}"));
        let figures = world.feed.figures();
        assert_eq!((figures.snapshots, figures.stream.lost), (1, 0), "{figures:?}");
        dials += world.exchange.dials;
    }
    assert!(dials > 10, "connections that are cut are dialled again: {dials}");
}

#[test]
fn what_nobody_repeats_is_made_up_for_by_a_snapshot_which_is_told_before_ok() {
    for seed in 1..6 {
        let all = messages(seed, STOCKS, 4_000);
        let mut exchange = Exchange::new(seed, Badness { cut: 0.3, ..Badness::default() }, all.clone());
        exchange.send_lines(0, &(2_000..2_010));
        for beat in 0..200 {
            let packet = MoldPacket::new(SESSION, 4_001).bytes().to_vec();
            exchange.put((2_000 + beat * 500) * MS, Thing::Line(0, packet));
        }
        let mut world = World::new(exchange, &config(LiveProtocol::ItchMold, false, true));
        world.open();
        let images: usize = world.seen.values().map(|(_, seen)| seen.images).sum();
        world.run();
        world.holds(&all, &format!("seed {seed}"));
        let figures = world.feed.figures();
        assert!(figures.stream.lost >= 10 && figures.snapshots == 1, "{figures:?}");
        for (_, seen) in world.seen.values() {
            let states: Vec<DataState> = seen.states.iter().map(|state| state.0).collect();
            assert_eq!(states, [DataState::OK, DataState::SUSPECT, DataState::OK], "{:?}", seen.states);
            // The image says so: an Ok before it would have been of a book that is not whole.
            assert_eq!(seen.states[2].1, "");
        }
        assert_eq!(world.seen.values().map(|(_, seen)| seen.images).sum::<usize>(), images + 9);
    }
}

#[test]
fn without_servers_what_is_lost_leaves_all_items_suspect() {
    let all = messages(5, STOCKS, 4_000);
    let mut exchange = Exchange::new(5, Badness::default(), all);
    exchange.repeats = false;
    exchange.send_lines(0, &(2_000..2_010));
    let mut world = World::new(exchange, &config(LiveProtocol::ItchMold, false, false));
    world.open();
    while let Some(at) = world.exchange.flight.peek().map(|Reverse((at, ..))| *at) {
        world.step(at);
    }
    assert_eq!(world.doubts(), 1);
    let (_, seen) = world.seen.values().next().expect("an item");
    assert_eq!(seen.states.last().map(|state| state.0), Some(DataState::SUSPECT));
    assert_eq!(world.feed.figures().stream.lost, 10);
}

#[test]
fn a_session_over_tcp_that_is_cut_goes_on_where_it_was() {
    let mut dials = 0;
    for seed in 1..10 {
        let all = messages(seed, STOCKS, 3_000);
        let mut exchange = Exchange::new(seed, Badness { cut: 0.7, ..Badness::default() }, all.clone());
        exchange.is_session = true;
        let mut world = World::new(exchange, &config(LiveProtocol::ItchSoup, false, true));
        world.open();
        while world.feed.figures().messages < 3_000 {
            assert!(world.step(u64::MAX));
        }
        world.holds(&all, &format!("seed {seed}"));
        dials += world.exchange.dials;
        let suspect = world.feed.figures().stream.gaps as usize;
        assert!(world.doubts() <= suspect && (suspect == 0 || world.doubts() + 1 >= suspect), "seed {seed}");
    }
    assert!(dials > 15, "{dials}");
}

#[test]
fn another_session_begins_anew_even_within_a_snapshot() {
    let (first, second) = (messages(1, STOCKS, 1_000), messages(2, STOCKS, 1_000));
    let mut exchange = Exchange::new(1, Badness::default(), first);
    exchange.send_lines(500, &(0..0));
    let mut world = World::new(exchange, &config(LiveProtocol::ItchMold, false, true));
    while world.exchange.dials == 0 {
        assert!(world.step(u64::MAX));
    }
    // The snapshot never comes, and the next day begins.
    world.exchange.flight.clear();
    let end = MoldPacket::end(SESSION, 501);
    for (number, message) in second.iter().enumerate() {
        let mut packet = MoldPacket::new(*b"0000000078", number as u64 + 1);
        assert!(packet.push(message));
        for _ in 0..2 {
            world.exchange.put(world.now + number as u64 * MS, Thing::Line(0, packet.bytes().to_vec()));
        }
    }
    world.exchange.put(world.now, Thing::Line(0, end));
    world.open();
    let until = world.now + 5_000 * MS;
    while world.step(until) {}
    world.holds(&second, "the second session");
}
