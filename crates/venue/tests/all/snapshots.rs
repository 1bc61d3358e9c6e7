//! GLIMPSE: a book that begins or is mended in the middle of the day.

use market::{BookId, Side};
use venue::nasdaq::itch::{AddOrder, Message};
use venue::nasdaq::mold::{Join, Line, MoldPacket};
use venue::nasdaq::{ItchFeed, Snapshot, end_of_snapshot};
use venue::sequence::{Change, Limits};

use crate::day::{Day, Settings};
use crate::itch::{encoded, hold};
use crate::lines::SESSION;
use crate::naive::Naive;
use crate::watch::Watch;

const STOCKS: u16 = 4;

/// Messages of a GLIMPSE session: all live orders, and the number at which to go on.
fn snapshot(source: &Day, next: u64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for locate in 1..=STOCKS {
        for side in Side::BOTH {
            for order in source.books().orders(BookId(u32::from(locate)), side) {
                let (order, side, shares, price) = (order.reference, side, order.size as u32, order.price as u32);
                let (tracking, time, stock) = (0, 1, Day::symbol(locate));
                all.push(encoded(&Message::AddOrder(AddOrder {
                    locate,
                    tracking,
                    time,
                    order,
                    side,
                    shares,
                    stock,
                    price,
                })));
            }
        }
    }
    all.push(format!("G{next:>20}").into_bytes());
    all
}

struct Channel {
    source: Day,
    naive: Naive,
    next: u64,
    feed: ItchFeed<true>,
    watch: Watch,
}

impl Channel {
    fn new(join: Join) -> Self {
        let source = Day::new(Settings { seed: 3, stocks: STOCKS, longest_life: 300.0 });
        let limits = Limits { attempts: 1, ..Limits::default() };
        let (feed, watch) = (ItchFeed::new(join, limits), Watch::default());
        Self { source, naive: Naive::default(), next: 1, feed, watch }
    }

    /// So many messages happen, one a packet, and are sent or not.
    fn run(&mut self, messages: u64, are_sent: bool) {
        for _ in 0..messages {
            let message = encoded(&self.source.next());
            self.naive.apply(&message);
            let mut packet = MoldPacket::new(SESSION, self.next);
            packet.push(&message);
            if are_sent {
                self.feed.receive(Line::Feed(0), packet.bytes(), self.next, &mut self.watch);
            }
            self.next += 1;
        }
    }

    fn take(&mut self, messages: &[Vec<u8>]) -> Snapshot {
        let mut last = Snapshot::More;
        for message in messages {
            assert_eq!(last, Snapshot::More);
            last = self.feed.snapshot_message(message, self.next, &mut self.watch).expect("in time");
        }
        last
    }

    fn hold(&self) {
        (1..=STOCKS).for_each(|locate| hold(self.feed.day(), &self.naive, locate));
        assert!(!self.feed.is_in_doubt());
    }
}

#[test]
fn a_feed_that_joins_live_is_in_doubt_until_the_snapshot_and_whole_behind_it() {
    let mut channel = Channel::new(Join::Live);
    channel.run(500, false);
    channel.run(40, true);
    assert!(channel.feed.is_in_doubt() && channel.feed.day().books().is_empty(), "what comes is held");
    channel.feed.begin_snapshot(&mut channel.watch);
    channel.run(40, true);
    let messages = snapshot(&channel.source, channel.next);
    channel.run(40, true);
    assert_eq!(channel.take(&messages), Snapshot::Done);
    channel.hold();
    channel.run(200, true);
    channel.hold();
    assert_eq!(channel.feed.day().bad_total() - channel.feed.day().bad(venue::nasdaq::Bad::NoDirectory), 0);
    let began = Change::Session { name: "day1".into(), next: 501 };
    let changes = [began, Change::Gap { missing: 1..501 }, Change::Resumed { next: 581 }];
    assert_eq!(channel.watch.changes(), changes);
}

#[test]
fn messages_that_were_lost_leave_the_books_in_doubt_until_a_snapshot() {
    let mut channel = Channel::new(Join::Beginning);
    channel.run(300, true);
    channel.hold();
    channel.run(7, false);
    channel.run(100, true);
    while let Some(due) = channel.feed.timer() {
        channel.feed.on_timer(due, &mut channel.watch);
    }
    assert!(channel.feed.is_in_doubt());
    assert_eq!(channel.watch.changes()[1..], [Change::Gap { missing: 301..308 }, Change::Lost { missing: 301..308 }]);
    channel.run(50, true);
    // A snapshot of before what has been given on cannot be joined to what comes.
    channel.feed.begin_snapshot(&mut channel.watch);
    let stale = channel.feed.snapshot_message(b"G                 310", 1, &mut channel.watch);
    assert!(stale.is_err() && channel.feed.is_in_doubt());
    channel.feed.begin_snapshot(&mut channel.watch);
    let messages = snapshot(&channel.source, channel.next);
    channel.run(30, true);
    assert_eq!(channel.take(&messages), Snapshot::Done);
    channel.hold();
    assert_eq!(channel.watch.changes().last(), Some(&Change::Resumed { next: 458 }));
}

#[test]
fn the_end_of_a_snapshot_is_read_with_blanks_on_either_side() {
    assert_eq!(end_of_snapshot(b"G                 458"), Some(458));
    assert_eq!(end_of_snapshot(b"G458                 "), Some(458));
    assert_eq!(end_of_snapshot(b"G00000000000000000458"), Some(458));
    for not in [&b""[..], b"G", b"G458", b"A                 458", b"G                 4x8"] {
        assert_eq!(end_of_snapshot(not), None);
    }
}
