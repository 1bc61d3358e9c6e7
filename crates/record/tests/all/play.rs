//! A recording that is played is, at each time, what its images at that time are.

use crate::images::{closed, fields_of, image_at, refresh, update};
use crate::{at, close, item, small};
use record::{Gap, GapReason, Item, Journal, JournalConfig, Kind, Memory, Play, Player, PlayerItem, Recording};
use std::collections::BTreeMap;

pub(crate) const NAMES: [&str; 3] = ["IBM.N", "AIG.N", "BAC.N"];

/// A recording of two lives of its writer, with messages that were lost, closed items and items without images.
fn eventful(config: JournalConfig) -> Recording<Memory> {
    eventful_from([0, 1000], 1, config)
}

/// The same with the lives' beginnings, and a number in all images that tells the recording.
pub(crate) fn eventful_from(lives: [u64; 2], number: i64, config: JournalConfig) -> Recording<Memory> {
    let mut store = Memory::default();
    for begin in lives {
        let mut journal = Journal::open(store, config, &mut Vec::new()).expect("memory");
        let items = NAMES.map(|name| journal.item(item(name)));
        for n in begin..begin + 300 {
            let which = items[(n * 7 % 11 % 3) as usize];
            let refreshed = refresh(&[(22, n as i64), (40, number)]);
            match n % 97 {
                50 => journal.append(Kind::Status, Some(which), at(n * 10), &closed()),
                30 => journal.overflow(3, 30, at(n * 10)),
                10..=16 | 53..=59 => journal.append(Kind::Refresh, Some(which), at(n * 10), &refreshed),
                _ => journal.append(Kind::Update, Some(which), at(n * 10), &update(&[(22, n as i64)])),
            }
        }
        store = close(journal);
    }
    Recording::open(store).expect("a recording")
}

type Seen = BTreeMap<String, Option<(BTreeMap<i16, u64>, bool)>>;

fn seen(player: &Player<'_, Memory>) -> Seen {
    let of = |(n, item): (usize, &Item)| {
        let n = PlayerItem(n as u32);
        let parts = player.parts(n);
        (item.name.to_string(), parts.first().map(|msg| (fields_of(msg), player.is_in_gap(n))))
    };
    player.items().iter().enumerate().map(of).collect()
}

#[test]
fn at_each_time_the_images_are_those_of_then() {
    for config in [small(), JournalConfig { block_records: 3, segment_bytes: 1 << 20, ..small() }] {
        let recording = eventful(config);
        let mut running = Player::at(&recording, 0, &|_| true).expect("memory can be read");
        let mut gaps = 0;
        for n in (0..1_310).filter(|n| n % 50 == 0 || !(305..995).contains(n)) {
            let time = at(n * 10 + 5).wall;
            let mut count = |_: &Player<'_, Memory>, play: Play<'_>| gaps += usize::from(matches!(play, Play::Gap(_)));
            running.advance(time, usize::MAX, &mut count).expect("memory can be read");
            let expected: Seen =
                NAMES.iter().map(|name| ((*name).to_owned(), image_at(&recording, name, n * 10 + 5))).collect();
            let mut sought = Player::at(&recording, time, &|_| true).expect("memory can be read");
            assert_eq!(seen(&sought), seen(&running), "sought, {n}");
            let mut nothing = |_: &Player<'_, Memory>, play: Play<'_>| panic!("{play:?} is behind {n}");
            assert_eq!(sought.advance(time, usize::MAX, &mut nothing).expect("memory can be read"), 0);
            // A gap of lives begins when the first one ends, and is recorded when the second one begins.
            if !(300..1000).contains(&n) {
                assert_eq!(seen(&running), expected, "running, {n}");
            }
        }
        assert_eq!((running.due().expect("memory"), gaps), (None, 8));
    }
}

/// What is told, as one can compare it.
fn told(player: &mut Player<'_, Memory>, until: u64, limit: usize) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    let mut tell = |player: &Player<'_, Memory>, play: Play<'_>| all.push((player.time(), format!("{play:?}")));
    while player.advance(until, limit, &mut tell).expect("memory can be read") > 0 {}
    all
}

#[test]
fn what_is_told_is_what_was_recorded_whatever_the_steps() {
    let recording = eventful(small());
    let mut whole = Player::at(&recording, 0, &|item| *item.name == *"IBM.N").expect("memory can be read");
    let all = told(&mut whole, u64::MAX, usize::MAX);
    let mut cursor = recording.of_item(&item("IBM.N"), 0);
    let mut count = 0;
    while let Some(entry) = cursor.next().expect("memory") {
        let body = format!("{:?}", entry.record.body);
        count += 1;
        assert!(all[count - 1].1.contains(&body) || entry.record.kind == Kind::Gap, "{count}");
    }
    assert_eq!(all.len(), count);
    let mut stepwise = Player::at(&recording, 0, &|item| *item.name == *"IBM.N").expect("memory can be read");
    assert_eq!(told(&mut stepwise, u64::MAX, 1), all);
    // From the middle it is the same from there on.
    let middle = at(1500).wall;
    whole.seek(middle).expect("memory");
    let rest: Vec<_> = all.iter().filter(|(time, _)| *time > middle).cloned().collect();
    assert_eq!(told(&mut whole, u64::MAX, 5), rest);
}

#[test]
fn behind_a_full_disk_the_images_come_out_of_the_checkpoint() {
    let store = Memory { room: Some(usize::MAX), ..Memory::default() };
    let mut journal = Journal::open(store, small(), &mut Vec::new()).expect("memory");
    let ibm = journal.item(item("IBM.N"));
    let aig = journal.item(item("AIG.N"));
    // A block of its own.
    for n in 0..7 {
        journal.append(Kind::Refresh, Some(ibm), at(n), &refresh(&[(22, n as i64)]));
    }
    journal.sync(at(10));
    journal.store_mut().room = Some(0);
    // It opens in the gap.
    journal.append(Kind::Refresh, Some(aig), at(11), &refresh(&[(22, 1)]));
    let second = 1_000_000_000;
    for n in 1..40 {
        journal.append(Kind::Update, Some(ibm), at(n * second / 10), &update(&[(22, n as i64)]));
        journal.sync(at(n * second / 10));
    }
    journal.store_mut().room = None;
    for n in 60..80 {
        journal.append(Kind::Update, Some(ibm), at(n * second / 10), &update(&[(22, n as i64)]));
        journal.sync(at(n * second / 10));
    }
    let recording = Recording::open(close(journal)).expect("a recording");
    let gaps: Vec<Gap> = recording.info().gaps.into_iter().map(|(_, gap)| gap).collect();
    assert_eq!(gaps.iter().map(|gap| gap.reason).collect::<Vec<_>>(), [GapReason::Disk]);
    let mut player = Player::at(&recording, at(20).wall, &|_| true).expect("memory can be read");
    let (opened, item) = (PlayerItem(0), PlayerItem(1));
    player.advance(gaps[0].from - 1, usize::MAX, &mut |_, _| {}).expect("memory");
    assert!(!player.is_in_gap(item));
    player.advance(gaps[0].to - 1, usize::MAX, &mut |_, _| {}).expect("memory");
    assert!(player.is_in_gap(item) && player.image(opened).is_none());
    let mut plays = Vec::new();
    player.advance(gaps[0].to, 1, &mut |_, play| plays.push(format!("{play:?}"))).expect("memory");
    // In the order in which the writer has met them.
    let images = [item, opened].map(|item| format!("{:?}", Play::Image(item)));
    assert_eq!((&plays[..], player.is_in_gap(item)), (&images[..], false));
    assert_eq!(fields_of(&player.parts(opened)[0])[&22], 1);
    // The image is that of the last update that was lost, or of the first that was not.
    let value = fields_of(&player.parts(item)[0])[&22];
    assert!((39..=60).contains(&value), "{value}");
}
