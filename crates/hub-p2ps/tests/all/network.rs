//! A Source Distributor on the other side of a network: joining it, what is lost, and images that come by another way.

use crate::world::{SECOND, World, item, refresh, status, token_of, update};
use hub_content::cache::rules::CacheRules;
use hub_p2ps::{Config, Joined, SourceId};
use hub_stream::{BlockWriter, Event, HubError, NO_GROUP, flags};
use rwf::msg::{RequestFlags, RequestMsg};
use rwf::{DataState, StateCode, StreamState};

const SOURCE: SourceId = SourceId(0);
/// Its life.
const LIFE: u32 = 55;
/// The number that the P2PS has there.
const NUMBER: u16 = 12;

/// The world, the source's stream, and what it sends to this P2PS alone.
struct Net {
    world: World,
    stream: BlockWriter,
    point_to_point: BlockWriter,
}

fn config() -> Config {
    Config { heartbeat_interval: SECOND, source_timeout: 3 * SECOND, gap_timeout: 2 * SECOND, ..Config::default() }
}

impl Net {
    /// FEED is joined, and clients 1 and 2 are there.
    fn new(config: Config) -> Self {
        let mut net =
            Self { world: World::with(config), stream: stream_at(100), point_to_point: BlockWriter::new(LIFE) };
        net.join(100);
        net.world.clients([1, 2]);
        net.publish(|p| {
            p.service(40, "FEED");
        });
        net
    }

    fn join(&mut self, position: u64) {
        let joined = Joined { number: NUMBER, incarnation: LIFE, position };
        self.world.p2ps.source_joined(self.world.now, SOURCE, joined);
        self.world.settle();
        assert_eq!(self.world.asked(), ["0: hello"]);
    }

    fn write(&mut self, write: impl FnOnce(&mut crate::world::Publisher<'_>)) -> Vec<u8> {
        write(&mut crate::world::Publisher { writer: &mut self.stream });
        let block = self.stream.block().unwrap().to_vec();
        self.stream.clear();
        block
    }

    fn publish(&mut self, write: impl FnOnce(&mut crate::world::Publisher<'_>)) {
        let block = self.write(write);
        self.world.block(0, &block).unwrap();
    }

    /// A block of the stream that is lost on its way.
    fn lose(&mut self, write: impl FnOnce(&mut crate::world::Publisher<'_>)) {
        self.write(write);
    }

    /// To this P2PS alone.
    fn tell(&mut self, events: &[Event<'_>]) {
        for event in events {
            self.point_to_point.event(event);
        }
        let block = self.point_to_point.block().unwrap().to_vec();
        self.point_to_point.clear();
        self.world.p2ps.point_to_point_block(self.world.now, SOURCE, &block).unwrap();
        self.world.settle();
    }

    /// Client 1 opens an item on a stream, by an image in the stream.
    fn open(&mut self, stream: i32, name: &str, handle: u32) {
        let token = self.ask(stream, name);
        self.publish(|p| {
            p.event(Event::ItemOpened { target: NUMBER, handle, token }).image(handle, &[(22, 1)]);
        });
        assert_eq!(self.world.take(1).len(), 1);
    }

    /// Client 1 asks for an item; the token.
    fn ask(&mut self, stream: i32, name: &str) -> u32 {
        self.world.request(1, &item(stream, name));
        let asked = self.world.asked();
        token_of(asked.last().unwrap())
    }

    fn closing(&mut self) -> Vec<&'static str> {
        self.world.p2ps.closing_sources().map(|(_, why)| why).collect()
    }
}

/// A stream whose next position is this.
fn stream_at(position: u64) -> BlockWriter {
    let mut writer = BlockWriter::new(LIFE);
    for _ in 0..position {
        writer.event(&Event::Heartbeat { announcement: b"" });
    }
    writer.clear();
    writer
}

fn image(handle: u32, flags: u8, position: u64, rwf: &[u8]) -> Event<'_> {
    Event::Image {
        target: NUMBER,
        handle,
        group: NO_GROUP,
        flags: flags | flags::FIRST | flags::COMPLETE,
        position,
        rwf,
    }
}

/// Its Source Distributor takes who waits for one who has begun to get the image, and explains no more than a state for such.
#[test]
fn who_waits_for_the_rest_of_a_set_is_told_of_its_loss() {
    for is_early in [false, true] {
        let mut net = Net::new(config());
        net.world.request(1, &item(5, "A"));
        let token = token_of(net.world.asked().last().unwrap());
        net.publish(|p| {
            p.event(Event::ItemOpened { target: NUMBER, handle: 0, token });
        });
        let body = refresh(&[(22, 1)]);
        let position = net.stream.next_position() + u64::from(is_early);
        net.tell(&[Event::Image {
            target: NUMBER,
            handle: 0,
            group: NO_GROUP,
            flags: flags::FIRST,
            position,
            rwf: &body,
        }]);
        assert_eq!(net.world.take(1), [""; 0], "the set is not whole");
        net.publish(|p| {
            p.status(0, 0, &status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
        });
        assert_eq!(net.world.take(1), ["status 5 OPEN/SUSPECT"], "early: {is_early}");
    }
}

#[test]
fn nothing_counts_before_the_join_nor_from_another_life() {
    let mut net = Net { world: World::with(config()), stream: stream_at(100), point_to_point: BlockWriter::new(LIFE) };
    net.world.clients([1]);
    net.world.directory(1, 3);
    net.publish(|p| {
        p.service(39, "EARLY");
    });
    // The P2PS joins in the middle of what becomes one block.
    net.stream.event(&Event::Update { handle: 0, has_key: false, rwf: b"" });
    net.join(102);
    net.publish(|p| {
        p.service(40, "FEED");
    });
    assert_eq!(net.world.raw(1).len(), 1, "FEED");
    let mut other = BlockWriter::new(LIFE + 1);
    crate::world::Publisher { writer: &mut other }.service(41, "LATE");
    net.world.block(0, other.block().unwrap()).unwrap();
    assert_eq!(net.world.p2ps.counters().hub_blocks_foreign, 1);
    net.world.request(1, &item(5, "A"));
    assert_eq!(net.world.asked().len(), 1);
}

#[test]
fn a_gap_right_behind_the_join_is_noticed() {
    let mut net = Net { world: World::with(config()), stream: stream_at(100), point_to_point: BlockWriter::new(LIFE) };
    net.join(100);
    net.lose(|p| {
        p.service(40, "FEED");
    });
    net.publish(|p| {
        p.event(Event::Heartbeat { announcement: b"" });
    });
    assert_eq!(net.world.asked(), ["0: gap 100..101"]);
}

#[test]
fn exactly_the_items_that_were_hit_are_suspect_and_nobody_sees_an_update_over_a_hole() {
    let mut net = Net::new(config());
    net.open(5, "A", 0);
    net.open(6, "B", 1);
    net.lose(|p| {
        p.update(0, &[(22, 2)]);
    });
    net.publish(|p| {
        p.update(0, &[(22, 3)]).update(1, &[(22, 3)]);
    });
    assert_eq!(net.world.asked(), ["0: gap 105..106"]);
    net.publish(|p| {
        p.update(1, &[(22, 4)]);
    });
    assert_eq!(net.world.take(1), [""; 0], "it is not known yet who was hit");
    net.tell(&[Event::Missed { target: NUMBER, handle: 0 }, Event::CaughtUp { target: NUMBER, to: 106 }]);
    assert_eq!(net.world.take(1), ["status 5 OPEN/SUSPECT/GAP_DETECTED", "update 6 22=3", "update 6 22=4"]);
    assert_eq!(net.world.asked(), ["0: refresh 0"]);
    net.publish(|p| {
        p.update(0, &[(22, 5)]).image(0, &[(22, 5)]).update(0, &[(22, 6)]);
    });
    assert_eq!(net.world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=5", "update 5 22=6"]);
    let counters = net.world.p2ps.counters();
    assert_eq!((counters.hub_gaps, counters.hub_messages_lost, counters.items_missed), (1, 1, 1));
}

#[test]
fn a_good_state_of_an_item_that_was_hit_waits_for_its_image() {
    let mut net = Net::new(config());
    net.open(5, "A", 0);
    for (to, heard) in [(104, &["status 5 OPEN/SUSPECT/GAP_DETECTED"][..]), (106, &[])] {
        net.lose(|p| {
            p.update(0, &[(22, 2)]);
        });
        net.publish(|p| {
            p.status(0, 0, &status(StreamState::OPEN, DataState::OK, StateCode::NONE));
        });
        net.tell(&[Event::Missed { target: NUMBER, handle: 0 }, Event::CaughtUp { target: NUMBER, to }]);
        assert_eq!(net.world.take(1), heard, "it is told once, and not that it is good");
        assert_eq!(net.world.asked(), [format!("0: gap {}..{to}", to - 1), "0: refresh 0".to_owned()]);
    }
    net.publish(|p| {
        p.image(0, &[(22, 5)]);
    });
    assert_eq!(net.world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=5"]);
}

#[test]
fn a_reissue_whose_answer_was_lost_is_made_again_though_another_image_comes() {
    let mut net = Net::new(config());
    let payload = rwf::rdm::request::Payload {
        view: Some(rwf::rdm::request::View::Fields(vec![22])),
        ..rwf::rdm::request::Payload::default()
    };
    let body = crate::world::encode(|w| payload.encode(w));
    let narrow = rwf::msg::RequestMsg {
        flags: rwf::msg::RequestFlags::STREAMING | rwf::msg::RequestFlags::HAS_VIEW,
        container: rwf::DataType::ELEMENT_LIST,
        body: &body,
        ..item(5, "A")
    };
    net.world.request(1, &narrow);
    let token = token_of(net.world.asked().last().unwrap());
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token }).image(0, &[(22, 1)]);
    });
    net.world.request(2, &item(5, "A"));
    assert_eq!((net.world.asked().len(), net.world.take(1).len()), (1, 1));
    net.lose(|p| {
        p.event(Event::Answered { target: NUMBER, handle: 0, serial: 1, position: 103 });
    });
    net.publish(|p| {
        p.image_with(0, flags::RECOVERY, &refresh(&[(22, 2), (25, 2)]));
    });
    net.tell(&[Event::Missed { target: NUMBER, handle: 0 }, Event::CaughtUp { target: NUMBER, to: 104 }]);
    let asked = net.world.asked();
    assert!(asked.len() == 2 && asked[1].starts_with("0: reissue 0 with image"), "{asked:?}");
    assert_eq!((net.world.take(1).len(), net.world.take(2).len()), (2, 0));
    net.publish(|p| {
        let position = p.writer.next_position();
        p.event(Event::Answered { target: NUMBER, handle: 0, serial: 2, position }).image(0, &[(22, 3), (25, 3)]);
    });
    assert_eq!(net.world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3 25=3"]);
}

#[test]
fn a_reissue_whose_answer_was_lost_holds_up_nobody_though_who_wanted_it_has_gone() {
    let mut net = Net::new(config());
    let viewed = |fid| {
        let view = Some(rwf::rdm::request::View::Fields(vec![fid]));
        let payload = rwf::rdm::request::Payload { view, ..rwf::rdm::request::Payload::default() };
        crate::world::encode(|w| payload.encode(w))
    };
    let (bid, ask) = (viewed(22), viewed(25));
    let request = |stream, body| rwf::msg::RequestMsg {
        flags: rwf::msg::RequestFlags::STREAMING | rwf::msg::RequestFlags::HAS_VIEW,
        container: rwf::DataType::ELEMENT_LIST,
        body,
        ..item(stream, "A")
    };
    net.world.request(1, &request(5, &bid));
    let token = token_of(net.world.asked().last().unwrap());
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token }).image(0, &[(22, 1)]);
    });
    net.world.request(2, &request(5, &ask));
    assert!(net.world.asked()[0].starts_with("0: reissue 0 with image"));
    net.world.take(1);
    net.world.close(2, 5);
    net.world.asked();
    net.lose(|p| {
        p.event(Event::Answered { target: NUMBER, handle: 0, serial: 1, position: 103 });
    });
    net.publish(|p| {
        p.update(9, &[(22, 2)]);
    });
    net.tell(&[Event::Missed { target: NUMBER, handle: 0 }, Event::CaughtUp { target: NUMBER, to: 104 }]);
    let asked = net.world.asked();
    assert!(asked.last().unwrap().starts_with("0: reissue 0 with image"), "{asked:?}");
    net.publish(|p| {
        let position = p.writer.next_position();
        p.event(Event::Answered { target: NUMBER, handle: 0, serial: 2, position }).image(0, &[(22, 3)]);
    });
    assert_eq!(net.world.take(1).last().unwrap(), "refresh 5 clear complete OPEN/OK group 3 key 1:A 22=3");
    net.world.request(2, &request(6, &bid));
    assert_eq!(net.world.asked().len(), 1, "an image for who comes next");
    net.publish(|p| {
        p.image(0, &[(22, 4)]);
    });
    assert_eq!(net.world.take(2), ["refresh 6 solicited complete OPEN/OK group 3 key 1:A 22=4"]);
}

#[test]
fn an_item_that_was_opened_before_its_service_went_is_opened_again_when_that_is_back() {
    let mut net = Net::new(config());
    let token = net.ask(5, "A");
    net.lose(|p| {
        p.update(9, &[(22, 1)]);
    });
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token });
        p.event(Event::ServiceGone { service: 40 });
    });
    assert_eq!(net.world.asked(), ["0: gap 101..102"]);
    net.tell(&[Event::ServiceGone { service: 40 }, Event::CaughtUp { target: NUMBER, to: 102 }]);
    assert_eq!(net.world.asked(), ["0: close 0"], "the handle is of an item that is over");
    assert_eq!(net.world.take(1).len(), 1);
    net.publish(|p| {
        p.service(40, "FEED");
    });
    assert!(net.world.asked()[0].starts_with("0: open"));
}

#[test]
fn several_gaps_are_told_one_by_one() {
    let mut net = Net::new(config());
    net.open(5, "A", 0);
    for value in [2, 3] {
        net.lose(|p| {
            p.event(Event::Heartbeat { announcement: b"" });
        });
        net.publish(|p| {
            p.update(0, &[(22, value)]);
        });
    }
    assert_eq!(net.world.asked(), ["0: gap 103..104", "0: gap 105..106"]);
    net.tell(&[Event::CaughtUp { target: NUMBER, to: 104 }]);
    assert_eq!(net.world.take(1), ["update 5 22=2"]);
    net.tell(&[Event::CaughtUp { target: NUMBER, to: 106 }]);
    assert_eq!(net.world.take(1), ["update 5 22=3"]);
}

#[test]
fn without_word_on_a_gap_everything_is_asked_for_anew() {
    for (hold_bytes, why) in
        [(1 << 20, "does not say what was lost"), (100, "sends more than can be held before it says what was lost")]
    {
        let mut net = Net::new(Config { hold_bytes, ..config() });
        net.open(5, "A", 0);
        net.lose(|p| {
            p.update(0, &[(22, 2)]);
        });
        for value in 3..10 {
            net.publish(|p| {
                p.update(0, &[(22, value)]);
            });
        }
        net.world.pass(SECOND);
        net.world.pass(SECOND);
        assert_eq!(net.closing(), [why]);
        assert_eq!(net.world.take(1), ["status 5 OPEN/SUSPECT/GAP_DETECTED"]);
        net.world.asked();
        net.world.pass(SECOND);
        assert_eq!(net.world.asked(), [""; 0]);
        let position = net.stream.next_position();
        net.join(position);
        net.publish(|p| {
            p.service(40, "FEED");
        });
        let asked = net.world.asked();
        assert!(asked.len() == 1 && asked[0].contains(" key A"), "{asked:?}");
        net.world.take(1);
    }
}

#[test]
fn one_that_is_declared_lost_or_left_joins_again() {
    for event in [Event::Resync { target: NUMBER, why: "too slow" }, Event::Leaving { why: "end of day" }] {
        let mut net = Net::new(config());
        net.open(5, "A", 0);
        net.publish(|p| {
            p.event(Event::Resync { target: NUMBER + 1, why: "another one" }).event(event).update(0, &[(22, 9)]);
        });
        assert_eq!(net.closing().len(), 1);
        let told = net.world.take(1);
        assert!(told.len() == 1 && told[0].starts_with("status 5 OPEN/SUSPECT"), "{told:?}");
    }
}

#[test]
fn silence_is_noticed_but_not_ones_own() {
    let mut net = Net::new(config());
    net.open(5, "A", 0);
    net.world.pass(SECOND);
    assert_eq!(net.world.asked(), ["0: heartbeat"]);
    // The process stood still: what was sent meanwhile is still to be read.
    net.world.pass(60 * SECOND);
    assert_eq!(net.closing(), [""; 0]);
    assert_eq!(net.world.p2ps.counters().freezes, 1);
    net.world.asked();
    for _ in 0..3 {
        net.world.pass(SECOND);
    }
    assert_eq!(net.closing(), ["is silent"]);
    assert_eq!(net.world.take(1), ["status 5 OPEN/SUSPECT/TIMEOUT"]);
    net.world.asked();
}

#[test]
fn one_of_very_many_sends_few_heartbeats_and_still_notices_that_it_stood_still() {
    let mut net = Net::new(Config { is_unpaced: true, ..config() });
    net.open(5, "A", 0);
    for second in 1..=10 {
        let due = net.world.p2ps.timeout().expect("it looks at the time");
        assert!(due <= net.world.now + SECOND, "after {second} s");
        net.world.pass(SECOND);
        net.publish(|p| {
            p.event(Event::Heartbeat { announcement: b"" });
        });
        let expected: &[&str] = if second % 5 == 0 { &["0: heartbeat"] } else { &[] };
        assert_eq!(net.world.asked(), expected, "after {second} s");
    }
    // A lid was closed: the source had no chance to be heard.
    net.world.pass(20 * SECOND);
    assert_eq!(net.closing(), [""; 0]);
    assert_eq!(net.world.p2ps.counters().freezes, 1);
    for _ in 0..3 {
        net.world.pass(SECOND);
    }
    assert_eq!(net.closing(), ["is silent"]);
    assert_eq!(net.world.take(1), ["status 5 OPEN/SUSPECT/TIMEOUT"]);
    net.world.asked();
}

#[test]
fn an_image_behind_the_stream_is_followed_by_the_updates_that_it_does_not_hold() {
    let mut net = Net::new(config());
    let token = net.ask(5, "A");
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token });
        p.update(0, &[(22, 1)]).update(0, &[(22, 2)]).update(0, &[(22, 3)]);
    });
    let rwf = refresh(&[(22, 1)]);
    net.tell(&[image(0, 0, 103, &rwf)]);
    assert_eq!(
        net.world.take(1),
        ["refresh 5 solicited complete OPEN/OK key 1:A 22=1", "update 5 22=2", "update 5 22=3"]
    );
    assert_eq!(net.world.p2ps.counters().updates_replayed, 2);
}

/// The only one who watches has paused when the source is back, and waits for nothing. What is missing of the updates is missing in the cache as
/// well.
#[test]
fn an_image_behind_updates_that_nobody_waited_for_is_not_kept_for_who_comes_later() {
    let mut net = Net::new(Config { cache: CacheRules::everything(), ..config() });
    net.open(5, "A", 0);
    let pause = RequestFlags(RequestFlags::STREAMING.0 | RequestFlags::NO_REFRESH.0 | RequestFlags::PAUSE.0);
    net.world.request(1, &RequestMsg { flags: pause, ..item(5, "A") });
    net.world.p2ps.source_down(net.world.now, SOURCE);
    net.world.settle();
    net.world.asked();
    let position = net.stream.next_position();
    net.join(position);
    net.publish(|p| {
        p.service(40, "FEED");
    });
    let token = token_of(net.world.asked().last().unwrap());
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token });
    });
    let opened_at = net.stream.next_position();
    net.publish(|p| {
        p.update(0, &[(22, 2)]);
    });
    net.tell(&[image(0, 0, opened_at, &refresh(&[(22, 1), (25, 1)]))]);
    net.world.take(1);
    net.world.request(2, &item(6, "A"));
    let held = ["refresh 6 solicited clear complete OPEN/SUSPECT key 1:A 22=1"];
    assert_eq!(net.world.take(2), held, "the image of before the loss: the other one lacks the update");
    assert_eq!(net.world.asked().last().map(String::as_str), Some("0: refresh 0"));
    let position = net.stream.next_position();
    net.tell(&[image(0, 0, position, &refresh(&[(22, 2), (25, 1)]))]);
    assert_eq!(net.world.take(2), ["refresh 6 clear complete OPEN/OK key 1:A 22=2 25=1"]);
}

#[test]
fn an_image_that_was_asked_for_by_others_is_not_for_who_comes_after_updates_behind_it() {
    let mut net = Net::new(config());
    net.open(5, "A", 0);
    net.world.request(2, &item(5, "A"));
    assert_eq!(net.world.asked(), ["0: refresh 0"]);
    net.world.close(2, 5);
    let asked_at = net.stream.next_position();
    net.publish(|p| {
        p.update(0, &[(22, 2)]);
    });
    assert_eq!(net.world.take(1).len(), 1, "nobody waits: the update is kept for nobody");
    net.world.request(2, &item(6, "A"));
    assert_eq!(net.world.asked(), [""; 0], "an image is on its way");
    net.publish(|p| {
        p.update(0, &[(25, 3)]);
    });
    net.world.take(1);
    net.tell(&[image(0, 0, asked_at, &refresh(&[(22, 1), (25, 1)]))]);
    assert_eq!(net.world.take(2), [""; 0], "it lacks the first update");
    assert_eq!(net.world.asked(), ["0: refresh 0"]);
    let position = net.stream.next_position();
    net.tell(&[image(0, 0, position, &refresh(&[(22, 2), (25, 3)]))]);
    assert_eq!(net.world.take(2), ["refresh 6 solicited complete OPEN/OK group 3 key 1:A 22=2 25=3"]);
}

#[test]
fn a_set_that_began_for_others_is_not_for_who_comes_after_updates_behind_it() {
    let mut net = Net::new(config());
    net.open(5, "A", 0);
    net.world.request(2, &item(5, "A"));
    net.world.asked();
    let rwf = refresh(&[(22, 1)]);
    let (target, handle, group) = (NUMBER, 0, NO_GROUP);
    let part = |flags, position| Event::Image { target, handle, group, flags, position, rwf: &rwf };
    let position = net.stream.next_position();
    net.publish(|p| {
        p.image(0, &[(22, 1)]);
    });
    net.tell(&[part(flags::FIRST, position + 1)]);
    net.publish(|p| {
        p.update(0, &[(22, 2)]);
    });
    assert_eq!((net.world.take(1).len(), net.world.take(2).len()), (1, 2), "the stream has brought an image already");
    net.world.request(2, &item(6, "A"));
    assert_eq!(net.world.asked(), ["0: refresh 0"]);
    let position = net.stream.next_position();
    net.tell(&[part(flags::COMPLETE, position)]);
    assert_eq!(net.world.take(2), [""; 0], "its first part lacks the update");
    assert_eq!(net.world.asked(), ["0: refresh 0"]);
}

#[test]
fn an_image_ahead_of_the_stream_waits_for_it() {
    let mut net = Net::new(config());
    let token = net.ask(5, "A");
    let rwf = refresh(&[(22, 2)]);
    net.tell(&[image(0, 0, 104, &rwf)]);
    assert_eq!(net.world.take(1), [""; 0]);
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token }).update(0, &[(22, 1)]);
    });
    assert_eq!(net.world.take(1), [""; 0]);
    net.publish(|p| {
        p.update(0, &[(22, 2)]).update(0, &[(22, 3)]);
    });
    assert_eq!(net.world.take(1), ["refresh 5 solicited complete OPEN/OK key 1:A 22=2", "update 5 22=3"]);
}

#[test]
fn an_image_that_a_status_has_overtaken_is_asked_for_again() {
    let mut net = Net::new(config());
    let token = net.ask(5, "A");
    let suspect = status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token }).status(0, flags::PENDING_TOO, &suspect);
    });
    assert_eq!(net.world.take(1), ["status 5 OPEN/SUSPECT"]);
    let rwf = refresh(&[(22, 1)]);
    net.tell(&[image(0, 0, 102, &rwf)]);
    assert_eq!(net.world.take(1), [""; 0], "it would say Ok again");
    assert_eq!(net.world.asked(), ["0: refresh 0"]);
    net.tell(&[image(0, 0, 103, &rwf)]);
    assert_eq!(net.world.take(1).len(), 1);
    assert_eq!(net.world.p2ps.counters().images_late, 1);
}

#[test]
fn an_image_whose_updates_found_no_room_is_asked_for_again() {
    let mut net = Net::new(Config { hold_bytes: 60, ..config() });
    let token = net.ask(5, "A");
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token });
        for value in 1..20 {
            p.update(0, &[(22, value)]);
        }
    });
    let rwf = refresh(&[(22, 1)]);
    net.tell(&[image(0, 0, 103, &rwf)]);
    assert_eq!(net.world.take(1), [""; 0]);
    assert_eq!(net.world.asked(), ["0: refresh 0 in stream"]);
    net.publish(|p| {
        p.image(0, &[(22, 1)]);
    });
    assert_eq!(net.world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    let counters = net.world.p2ps.counters();
    assert!(counters.holds_dropped > 0 && counters.images_late == 1);
}

#[test]
fn a_set_whose_beginning_was_let_go_for_updates_is_asked_for_again() {
    let mut net = Net::new(Config { hold_bytes: 120, ..config() });
    let token = net.ask(5, "A");
    net.publish(|p| {
        p.event(Event::ItemOpened { target: NUMBER, handle: 0, token });
    });
    let rwf = refresh(&[(22, 1)]);
    let (target, handle, group) = (NUMBER, 0, NO_GROUP);
    let part = |flags, position| Event::Image { target, handle, group, flags, position, rwf: &rwf };
    let position = net.stream.next_position();
    net.tell(&[part(flags::FIRST, position)]);
    net.publish(|p| {
        for value in 1..20 {
            p.update(0, &[(22, value)]);
        }
    });
    let position = net.stream.next_position();
    net.tell(&[part(flags::COMPLETE, position)]);
    assert_eq!(net.world.take(1), [""; 0]);
    assert_eq!(net.world.asked(), ["0: refresh 0 in stream"]);
}

#[test]
fn an_image_for_an_open_watcher_has_to_come_in_the_stream() {
    let mut net = Net::new(config());
    net.open(5, "A", 0);
    net.world.request(2, &item(7, "A"));
    net.world.asked();
    net.world.request(1, &item(5, "A"));
    let rwf = refresh(&[(22, 1)]);
    let position = net.stream.next_position();
    net.tell(&[image(0, 0, position, &rwf)]);
    assert_eq!(net.world.take(2).len(), 1);
    assert_eq!(net.world.take(1), [""; 0], "it goes on getting updates, and would go back in time");
    assert_eq!(net.world.asked(), ["0: refresh 0 in stream"]);
    net.publish(|p| {
        p.image(0, &[(22, 1)]);
    });
    assert_eq!(net.world.take(1).len(), 1);
}

#[test]
fn what_comes_alone_is_judged_like_the_stream() {
    let mut net = Net::new(config());
    let mut other = BlockWriter::new(LIFE + 1);
    other.event(&Event::CaughtUp { target: NUMBER, to: 1 });
    net.world.p2ps.point_to_point_block(net.world.now, SOURCE, other.block().unwrap()).unwrap();
    assert_eq!(net.world.p2ps.counters().hub_blocks_foreign, 1);
    let error = net.world.p2ps.point_to_point_block(net.world.now, SOURCE, &update(&[]));
    assert!(matches!(error, Err(HubError::Truncated { .. } | HubError::NotAHubStream)), "{error:?}");
}

#[test]
fn one_that_ends_in_order_says_so() {
    let mut net = Net::new(config());
    net.world.p2ps.leave();
    net.world.settle();
    assert_eq!(net.world.asked(), ["0: bye"]);
}

#[test]
fn a_source_is_told_how_far_its_stream_was_read_before_the_next_heartbeat() {
    let mut net = Net::new(Config { report_bytes: 1_000, ..config() });
    net.open(5, "A", 3);
    net.world.asked();
    for _ in 0..5 {
        net.publish(|p| {
            for n in 0..4 {
                p.update(3, &[(22, n)]);
            }
        });
    }
    assert_eq!(net.world.take(1).len(), 20);
    // The updates have over 40 bytes each: 1,000 are read once.
    assert_eq!(net.world.asked(), ["0: heartbeat"]);
}
