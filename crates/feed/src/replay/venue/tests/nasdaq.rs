//! Day files.

use std::collections::BTreeMap;
use std::io::Write as _;

use proptest::prelude::*;
use venue::nasdaq::TotalView;
use venue::nasdaq::itch::Message;

use super::day::{Day, Settings};
use super::*;

/// A generated day: the messages of so many stocks.
pub(super) fn messages(seed: u64, stocks: u16, count: usize) -> Vec<Vec<u8>> {
    let mut day = Day::new(Settings { seed, stocks, longest_life: 3_000.0 });
    let encoded = |message: Message| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    };
    (0..count).map(|_| encoded(day.next())).collect()
}

pub(super) fn day_file(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.iter().flat_map(|message| [&(message.len() as u16).to_be_bytes()[..], message].concat()).collect()
}

/// What the handler makes of the messages, by stock.
pub(super) fn expected(messages: &[Vec<u8>], stocks: u16) -> BTreeMap<String, Expected> {
    let mut day = TotalView::<true>::default();
    let mut all: Vec<Expected> = (0..=stocks).map(|_| Expected::default()).collect();
    for message in messages {
        day.apply(message, &mut ()).expect("a message");
        let locate = u16::from_be_bytes([message[1], message[2]]);
        if locate > 0 {
            all[usize::from(locate)].settle(day.books(), BookId(u32::from(locate)));
        }
    }
    let named = |(locate, expected)| (Day::symbol(locate as u16).trimmed().into_owned(), expected);
    all.into_iter().enumerate().skip(1).map(named).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_consumer_holds_the_book_of_every_message(seed: u64, stocks in 1..8u16) {
        let messages = messages(seed, stocks, 6_000);
        let file = file("day", &day_file(&messages));
        let mut replay = open(&file.path, config());
        prop_assert_eq!(replay.file(), VenueFile::NasdaqDay);
        let expected = expected(&messages, stocks);
        let names: Vec<&str> = expected.keys().map(String::as_str).collect();
        prop_assert_eq!(replay.names().count(), names.len());
        let seen = play(&mut replay, &names, 4);
        for (name, expected) in &expected {
            expected.hold(&seen[name], name);
            let sizes: i64 = seen[name].trades.iter().map(|trade| trade.1).sum();
            prop_assert!(seen[name].corrections > 0 || sizes == seen[name].volume, "{} {}", sizes, seen[name].volume);
        }
        prop_assert_eq!(replay.unread(), None);
        prop_assert!(replay.remarks().expect("the end").ends_with("played to the end, 6000 messages"));
    }
}

#[test]
fn names_that_the_day_does_not_have_are_not_found_and_suffixes_are_the_callers() {
    let messages = messages(3, 4, 500);
    let file = file("S123019-v50.txt", &day_file(&messages));
    assert_eq!(date_in_name(&file.path), Some(18_260));
    let mut replay = open(&file.path, VenueConfig { suffix: Some(".ITCH".to_owned()), ..config() });
    assert!(replay.find("S1.ITCH").is_some());
    for unknown in ["S1", "S5.ITCH", "NOSUCH", "", ".ITCH", "s1.ITCH"] {
        assert_eq!(replay.find(unknown), None, "{unknown}");
    }
    assert_eq!(replay.symbols(), ["S1.ITCH", "S2.ITCH", "S3.ITCH", "S4.ITCH"]);
}

#[test]
fn what_is_no_day_is_not_taken_for_one() {
    // Two letters are a length, and the third one a type.
    let json = "{\"ID\":5,\"Type\":\"Update\",\"Fields\":{\"BID\":1.25}}\n".repeat(2_000);
    let texts =
        [json.clone(), format!("\0{json}"), "<?xml version=\"1.0\"?>".repeat(4_000), "S".repeat(70_000), String::new()];
    for text in texts {
        let file = file("data", text.as_bytes());
        assert_eq!(VenueFile::of(&file.path, false).expect("a file"), None, "{}", &text[..text.len().min(20)]);
    }
    let whole = day_file(&messages(3, 2, 40));
    for length in [14, 60, 200, whole.len()] {
        let file = file("day", &whole[..length]);
        assert_eq!(VenueFile::of(&file.path, false).expect("a file"), Some(VenueFile::NasdaqDay), "{length} bytes");
    }
}

/// Those that cannot be read are counted, and make no file another one; if most of them are such, it is one of another version.
#[test]
fn a_day_whose_first_messages_are_not_all_such_is_a_day_and_one_of_another_version_is_none() {
    let good = messages(3, 2, 40);
    let of = |messages: &[Vec<u8>]| {
        let file = file("day", &day_file(messages));
        VenueFile::of(&file.path, false).expect("a file").map(|kind| (kind, open(&file.path, config())))
    };
    for at in 0..4 {
        for (wrong, told) in [(b"?".to_vec(), "unknown type"), (good[0][..10].to_vec(), "too short"), (vec![], "")] {
            let mut all = good.clone();
            all.insert(at, wrong);
            let (kind, mut replay) = of(&all).expect("a file of a venue");
            assert_eq!(kind, VenueFile::NasdaqDay);
            play(&mut replay, &["S1"], 4);
            let remarks = replay.remarks().unwrap_or_default();
            assert!(remarks.contains(told), "{told}: {remarks}");
        }
    }
    // As version 4.1 has it: seconds in messages of their own.
    let older: Vec<Vec<u8>> = (0..20u32).map(|n| [&b"T"[..], &n.to_be_bytes()].concat()).collect();
    assert!(of(&older).is_none() && of(&[&older[..5], &good[..3]].concat()).is_none());
}

#[test]
fn packed_files_of_several_members_are_read_whole_and_cut_ones_say_so() {
    let messages = messages(4, 2, 4_000);
    let bytes = day_file(&messages);
    let packed = |part: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(part).expect("memory");
        packer.finish().expect("memory")
    };
    let members = [packed(&bytes[..30_001]), packed(&bytes[30_001..])].concat();
    let whole = file("day.gz", &members);
    let mut replay = open(&whole.path, config());
    let expected = expected(&messages, 2);
    expected["S1"].hold(&play(&mut replay, &["S1"], 4)["S1"], "S1");
    assert_eq!(replay.unread(), None);

    let cut = file("day.gz", &members[..members.len() - 100]);
    let mut replay = open(&cut.path, config());
    play(&mut replay, &["S1"], 4);
    assert!(replay.unread().expect("it is cut").contains("cut off"), "{:?}", replay.unread());
    let torn = file("day", &bytes[..bytes.len() - 1]);
    let mut replay = open(&torn.path, config());
    play(&mut replay, &["S1"], 4);
    assert!(replay.unread().expect("it is torn").contains("torn"), "{:?}", replay.unread());
}

#[test]
fn a_new_day_in_one_file_empties_books_and_values() {
    let (first, second) = (messages(5, 2, 3_000), messages(6, 2, 3_000));
    let file = file("days", &day_file(&[first.clone(), second.clone()].concat()));
    let mut replay = open(&file.path, config());
    let seen = play(&mut replay, &["S2"], 4);
    let seen = &seen["S2"];
    assert_eq!(seen.orders, expected(&second, 2)["S2"].orders);
    assert_eq!(seen.levels, expected(&second, 2)["S2"].levels);
    // Each model has an image at the beginning, and one at the new day.
    assert_eq!(seen.images, 6);
    let sizes = |messages: &[Vec<u8>]| {
        let folder = super::file("one", &day_file(messages));
        play(&mut open(&folder.path, config()), &["S2"], 4)["S2"].volume
    };
    assert_eq!(seen.volume, sizes(&second), "the first day's volume is not the second's");
}

#[test]
fn a_file_begins_where_it_is_told_to_and_again_at_its_end() {
    let messages = messages(7, 2, 6_000);
    let file = file("day", &day_file(&messages));
    let time = |message: &[u8]| message[5..11].iter().fold(0u64, |time, byte| time << 8 | u64::from(*byte));
    let from = time(&messages[3_000]);
    let mut replay = open(&file.path, VenueConfig { from: Some(from), ..config() });
    let seen = play(&mut replay, &["S1"], 4);
    let all = expected(&messages, 2);
    let (seen, all) = (&seen["S1"].order_states.0, &all["S1"].order_states.0);
    assert!(seen.len() < all.len() * 2 / 3 && all.ends_with(seen), "{} of {}", seen.len(), all.len());

    let mut again = open(&file.path, VenueConfig { repeat: true, ..config() });
    let id = again.find("S1").expect("a stock");
    again.watch(id, Model::ByOrder, true);
    let (mut images, mut held) = (0, Held::default());
    while images < 3 {
        again.advance(0, 100, &mut |event| {
            if matches!(event.payload, Payload::ImagePart { part: 0, .. }) {
                images += 1;
                held.clear();
            }
            held.apply(event.body, 4);
        });
    }
}

#[test]
fn a_message_that_names_no_order_makes_its_stock_suspect_and_no_other() {
    let mut messages = messages(8, 2, 3_000);
    let at = messages.iter().position(|message| message[0] == b'D' && message[2] == 1).expect("a deletion");
    let again = messages[at].clone();
    messages.insert(at + 1, again);
    let file = file("day", &day_file(&messages));
    let mut replay = open(&file.path, config());
    let seen = play(&mut replay, &["S1", "S2"], 4);
    let states = |name: &str| seen[name].states.iter().map(|state| state.0).collect::<Vec<_>>();
    assert_eq!(states("S1"), [DataState::OK, DataState::SUSPECT]);
    assert_eq!(states("S2"), [DataState::OK]);
    assert!(seen["S1"].states[1].1.contains("is in no book"), "{:?}", seen["S1"].states);
    assert_eq!(replay.remarks().map(|text| text.ends_with("messages about orders that are not there: 1")), Some(true));
}
