//! What is looked at ahead of its turn: it changes nothing of what anybody gets.

use crate::world::{SECOND, World, item, status};
use hub_p2ps::Config;
use hub_p2ps::conflation::{JustInTime, ServiceConflation, Settings};
use hub_stream::flags;
use proptest::prelude::*;
use rwf::msg::RequestMsg;
use rwf::{DataState, Qos, Rate, StateCode, StreamState, Timeliness};

const ITEMS: u32 = 7;
const FIRST_HANDLE: u32 = 4;

/// Client 1 has all items tick by tick, client 2 has them conflated by time, and client 3 some of each. Debug builds look ahead from four items on.
fn world() -> World {
    let others =
        ServiceConflation { offered: vec![100], just_in_time: JustInTime::Off, ..ServiceConflation::default() };
    let conflation = Settings { others, ..Settings::default() };
    let mut world = World::with_feed_and(Config { conflation, ..Config::default() });
    world.clients([1, 2, 3]);
    let conflated = Qos { rate_info: 100, ..Qos::new(Timeliness::REALTIME, Rate::TIME_CONFLATED) };
    for number in 0..ITEMS {
        let (name, stream) = (format!("ITEM{number}"), 5 + number as i32);
        world.open(1, stream, &name, FIRST_HANDLE + number);
        let plain = item(stream, &name);
        world.request(2, &RequestMsg { qos: Some(conflated), ..plain.clone() });
        match number % 3 {
            0 => world.request(3, &plain),
            1 => world.request(3, &RequestMsg { qos: Some(conflated), ..plain }),
            _ => {}
        }
        world.publish(0, |p| {
            p.image(FIRST_HANDLE + number, &[(22, 1), (25, 2)]);
        });
        world.asked();
    }
    for client in [1, 2, 3] {
        world.take(client);
    }
    world
}

#[derive(Debug, Clone, Copy)]
enum What {
    Update(i16, u64),
    Image(u64),
    Suspect,
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        12 => (prop_oneof![Just(22_i16), Just(25), Just(30)], 0..9_u64).prop_map(|(fid, value)| What::Update(fid, value)),
        1 => (0..9_u64).prop_map(What::Image),
        1 => Just(What::Suspect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The messages of one block, where each update is looked at before its turn, do what they do in blocks of their own, where there is nothing ahead.
    #[test]
    fn nobody_gets_anything_else_because_somebody_looked_ahead(
        messages in prop::collection::vec((0..ITEMS + 2, what()), 1..120),
    ) {
        let (mut together, mut apart) = (world(), world());
        let suspect = status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
        let write = |p: &mut crate::world::Publisher<'_>, (number, what): (u32, What)| {
            // Handles behind the last one are nobody's.
            let handle = FIRST_HANDLE + number;
            match what {
                What::Update(fid, value) => p.update(handle, &[(fid, value)]),
                What::Image(value) => p.image_with(handle, flags::FIRST | flags::COMPLETE | flags::UNSOLICITED, &crate::world::refresh(&[(22, value)])),
                What::Suspect => p.status(handle, 0, &suspect),
            };
        };
        together.publish(0, |p| {
            for &message in &messages {
                write(p, message);
            }
        });
        for &message in &messages {
            apart.publish(0, |p| write(p, message));
        }
        for world in [&mut together, &mut apart] {
            world.pass(SECOND);
        }
        for client in [1, 2, 3] {
            prop_assert_eq!(together.take(client), apart.take(client), "client {}", client);
        }
        let counts = |world: &World| {
            let counters = world.p2ps.counters();
            (counters.updates_in, counters.updates_out, counters.updates_conflated, counters.updates_unwatched)
        };
        prop_assert_eq!(counts(&together), counts(&apart));
    }
}
