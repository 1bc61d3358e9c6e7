//! Hostile bytes and hostile orders of events: no panic, and those who keep to the rules understand each other all the same.
//! `QUOTEWAY_HOSTILE_CASES` is how many cases a test tries (default 300).

#[path = "../../../../fuzz/kept.rs"]
mod kept;
mod targets;

use hub::stream::{ALL, BlockWriter, Event, Request, flags};
use proptest::prelude::*;
use rwf::{DataState, State, StateCode, StreamState};

fn cases() -> u32 {
    std::env::var("QUOTEWAY_HOSTILE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

fn good_block() -> Vec<u8> {
    let mut writer = BlockWriter::new(9);
    let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "text");
    writer.event(&Event::Service { target: ALL, service: 1, cached: true, name: "FEED", filters: &[1, 2, 3] });
    writer.event(&Event::ServiceStatus { service: 1, state });
    writer.event(&Event::GroupStatus { service: 1, group: 3, state: Some(state), merged_to: Some(9) });
    writer.event(&Event::ItemOpened { target: 7, handle: 1, token: 2 });
    writer.event(&Event::Refused { target: 7, token: 2, state });
    writer.event(&Event::Image { target: ALL, handle: 1, group: 3, flags: 0x1B, position: 7, rwf: b"image" });
    writer.event(&Event::Update { handle: 1, has_key: true, rwf: b"update" });
    writer.event(&Event::Resync { target: 7, why: "why" });
    writer.request(&Request::Hello { incarnation: 1, key: 2 });
    writer.request(&Request::Open { service: 1, token: 1, flags: flags::STREAMING, rwf: b"request" });
    writer.request(&Request::Post { service: 1, handle: Some(4), token: 1, rwf: b"post" });
    writer.request(&Request::Gap { from: 1, to: 9 });
    writer.block().expect("messages").to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn smoke_blocks(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
        let mut block = good_block();
        for (at, value) in changes {
            let at = at.index(block.len());
            block[at] = value;
        }
        targets::block(&block);
    }

    #[test]
    fn smoke_messages(data in prop::collection::vec(any::<u8>(), 0..100)) {
        targets::message(&data);
        targets::block(&data);
    }

    #[test]
    fn smoke_operations(data in prop::collection::vec(any::<u8>(), 0..900)) {
        targets::operations(&data);
    }

    #[test]
    fn smoke_strangers(data in prop::collection::vec(any::<u8>(), 0..900)) {
        targets::strangers(&data);
    }
}

/// Inputs that coverage-guided fuzzing has found keep the rules.
#[test]
fn kept_inputs_keep_the_rules() {
    let folder = env!("CARGO_MANIFEST_DIR");
    kept::run(folder, "hub_block", targets::block);
    kept::run(folder, "hub_message", targets::message);
    kept::run(folder, "hub_operations", targets::operations);
    kept::run(folder, "hub_strangers", targets::strangers);
}
