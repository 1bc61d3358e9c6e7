//! Recordings that are played as one: an item is that of the first one which has it good, and who listens has the image of that.

use crate::images::fields_of;
use crate::play::{NAMES, eventful_from};
use crate::{at, close, item, small};
use record::{
    By, Clocks, Event, Gap, GapReason, Item, Journal, Kind, Memory, Merge, MergedItem, Play, Player, Recording,
};
use rwf::image::{Image, Schema};
use rwf::msg::{Domain, Msg, RefreshMsg};
use rwf::wire::Writer;
use std::collections::BTreeMap;

type Fields = BTreeMap<i16, u64>;

/// All events up to a time, as one can compare them.
fn told(merge: &mut Merge<'_, Memory>, until: u64, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut tell = |event: Event<'_, '_, Memory>| {
        all.push(match event {
            Event::Message { item, kind, body, .. } => format!("{} {kind:?} {body:?}", item.0),
            Event::Image { item, shown } => format!("{} image {:?}", item.0, shown.parts()),
            Event::Gap { item, gap } => format!("{} {gap:?}", item.0),
            Event::Directory { recording, body } => format!("{recording} {body:?}"),
        });
    };
    while merge.advance(until, limit, &mut tell).expect("memory can be read") > 0 {}
    all
}

#[expect(clippy::unnecessary_wraps, reason = "a merge asks for it")]
fn served(item: &Item) -> Option<Item> {
    Some(item.clone())
}

#[test]
fn one_recording_alone_is_what_its_player_tells() {
    let recording = eventful_from([0, 1000], 1, small());
    let mut player = Player::at(&recording, 0, &|_| true).expect("memory can be read");
    let mut expected = Vec::new();
    let mut tell = |player: &Player<'_, Memory>, play: Play<'_>| match play {
        Play::Message { item, kind, body } => expected.push(format!("{} {kind:?} {body:?}", item.0)),
        Play::Image(item) => expected.push(format!("{} image {:?}", item.0, player.parts(item))),
        Play::Gap(gap) => {
            let open = (0..3).filter(|n| player.image(record::PlayerItem(*n)).is_some());
            expected.extend(open.map(|n| format!("{n} {gap:?}")));
        }
        Play::Directory(_) => panic!("there is none"),
    };
    while player.advance(u64::MAX, 100, &mut tell).expect("memory can be read") > 0 {}
    let mut merge = Merge::at(&[&recording], 0, By::Receipt, &served).expect("memory can be read");
    assert_eq!(told(&mut merge, u64::MAX, 100), expected);
    let mut stepwise = Merge::at(&[&recording], 0, By::Receipt, &served).expect("memory can be read");
    assert_eq!(told(&mut stepwise, u64::MAX, 1), expected);
    assert_eq!((stepwise.due(), stepwise.is_over(0)), (None, true));
}

/// The image of an item, and whether it is Suspect, as the rule says: out of each recording alone.
fn by_the_rule(recordings: &[&Recording<Memory>], name: &str, nanos: u64) -> Option<(Fields, bool)> {
    let ends = recordings.iter().map(|recording| recording.info().span.expect("records").1);
    let last = ends.clone().max().expect("a recording");
    let all: Vec<(bool, u64, Fields, bool)> = recordings
        .iter()
        .zip(ends)
        .filter_map(|(recording, end)| {
            let alone = Player::at(recording, at(nanos).wall, &|_| true).expect("memory can be read");
            let own = alone.find(&item(name)).expect("an item");
            let fields = fields_of(alone.parts(own).first()?);
            Some((end <= at(nanos).wall, end, fields, alone.is_in_gap(own)))
        })
        .collect();
    let good = all.iter().find(|(is_over, .., is_in_gap)| !is_over && !is_in_gap);
    let going_on = || all.iter().find(|(is_over, ..)| !is_over);
    let longest = || all.iter().rev().max_by_key(|(_, end, ..)| *end);
    let (is_over, end, fields, is_in_gap) = good.or_else(going_on).or_else(longest)?;
    Some((fields.clone(), *is_in_gap || *is_over && *end < last))
}

/// A client's view of the messages that it gets.
#[derive(Default)]
struct Client {
    image: Image,
    is_suspect: bool,
}

impl Client {
    fn receive(&mut self, msg: &[u8]) {
        match Msg::decode(msg).expect("a message") {
            Msg::Refresh(refresh) => {
                self.image.refresh(&refresh, &Schema::NONE).expect("an image");
                self.is_suspect = false;
            }
            Msg::Update(update) => drop(self.image.update(&update, &Schema::NONE)),
            Msg::Status(_) => *self = Self::default(),
            _ => panic!("no such message"),
        }
    }

    fn fields(&self) -> Option<(Fields, bool)> {
        if !self.image.is_whole() {
            return None;
        }
        let mut buf = vec![0; 4000];
        let mut writer = Writer::new(&mut buf);
        self.image.parts(RefreshMsg::new(Domain(6), 0), 3000).write(&mut writer).expect("a small image");
        Some((fields_of(writer.written()), self.is_suspect))
    }
}

#[test]
fn at_each_time_an_item_is_that_of_the_first_that_has_it_good() {
    let first = eventful_from([0, 1000], 1, small());
    let second = eventful_from([200, 1150], 2, small());
    let third = eventful_from([1400, 1650], 3, small());
    let orders = [vec![&first, &second, &third], vec![&second, &first], vec![&third, &first], vec![&first, &first]];
    let mut kinds = [0; 3];
    for recordings in orders {
        let mut running = Merge::at(&recordings, 0, By::Receipt, &served).expect("memory can be read");
        let mut clients: Vec<Client> = NAMES.iter().map(|_| Client::default()).collect();
        for n in (0..1_960).filter(|n| n % 20 == 0 || n % 97 > 28 && n % 97 < 32 || n % 97 > 48 && n % 97 < 54) {
            let nanos = n * 10 + 5;
            let mut tell = |event: Event<'_, '_, Memory>| match event {
                Event::Message { item, kind, body, .. } => {
                    kinds[0] += usize::from(kind == Kind::Update);
                    clients[item.0 as usize].receive(body);
                }
                Event::Image { item, shown } => {
                    kinds[1] += 1;
                    let client = &mut clients[item.0 as usize];
                    *client = Client::default();
                    shown.parts().iter().for_each(|part| client.receive(part));
                    client.is_suspect = shown.is_in_gap();
                }
                Event::Gap { item, .. } => {
                    kinds[2] += 1;
                    clients[item.0 as usize].is_suspect = true;
                }
                Event::Directory { .. } => panic!("there is none"),
            };
            running.advance(at(nanos).wall, usize::MAX, &mut tell).expect("memory can be read");
            let sought = Merge::at(&recordings, at(nanos).wall, By::Receipt, &served).expect("memory can be read");
            for name in NAMES {
                let expected = by_the_rule(&recordings, name, nanos);
                for merge in [&running, &sought] {
                    let shown = merge.shown(merge.find(&item(name)).expect("an item")).expect("it is there");
                    let seen = shown.parts().first().map(|msg| (fields_of(msg), shown.is_in_gap()));
                    assert_eq!(seen, expected, "{name} at {n}");
                }
                let item = running.find(&item(name)).expect("an item");
                assert_eq!(clients[item.0 as usize].fields(), expected, "client's {name} at {n}");
            }
        }
    }
    assert!(kinds[0] > 1000 && kinds[1] > 10 && kinds[2] > 10, "{kinds:?}");
}

#[test]
fn items_are_found_under_the_names_that_they_are_given() {
    let recording = eventful_from([0, 1000], 1, small());
    let rename = |from: &Item| (*from.name != *"BAC.N").then(|| item("ONE"));
    let merge = Merge::at(&[&recording], at(9_000).wall, By::Receipt, &rename).expect("memory can be read");
    assert_eq!((merge.items(), merge.find(&item("ONE"))), (&[item("ONE")][..], Some(MergedItem(0))));
    assert_eq!(merge.find(&item("IBM.N")), None);
}

#[test]
fn an_item_of_a_recording_that_is_over_is_suspect_until_the_next_one_has_it() {
    let (morning, evening) = (eventful_from([0, 200], 1, small()), eventful_from([5_000, 5_200], 2, small()));
    let end = morning.info().span.expect("records").1;
    let mut merge = Merge::at(&[&morning, &evening], 0, By::Receipt, &served).expect("memory can be read");
    let mut gaps = Vec::new();
    let mut tell = |event: Event<'_, '_, Memory>| {
        if let Event::Gap { item, gap: gap @ Gap { reason: GapReason::Restart, .. } } = event {
            gaps.push((item.0, gap.from));
        }
    };
    merge.advance(end, usize::MAX, &mut tell).expect("memory can be read");
    let of_end: Vec<u32> = gaps.iter().filter(|(_, from)| *from == end).map(|(item, _)| *item).collect();
    let open = (0..3).filter(|n| merge.shown(MergedItem(*n)).is_some_and(|shown| shown.image().is_some()));
    assert_eq!(of_end, open.collect::<Vec<_>>());
    assert!(!of_end.is_empty() && merge.is_over(0) && !merge.is_over(1));
}

/// A recording whose records were received at some nanoseconds, with what the source's clock said.
fn with_clocks(name: &str, moments: &[(u64, Option<u64>)]) -> Recording<Memory> {
    let mut journal = Journal::open(Memory::default(), small(), &mut Vec::new()).expect("memory");
    let id = journal.item(item(name));
    for (n, (receipt, source)) in moments.iter().enumerate() {
        let clocks = Clocks { source: source.map(|source| at(source).wall), ..at(*receipt) };
        journal.append(Kind::Update, Some(id), clocks, &crate::body(n as u64));
    }
    Recording::open(close(journal)).expect("a recording")
}

#[test]
fn by_the_source_s_clock_records_come_when_that_says_and_in_their_order() {
    let late =
        with_clocks("IBM.N", &[(1000, None), (1010, Some(510)), (1030, None), (1040, Some(505)), (1100, Some(620))]);
    let early = with_clocks("AIG.N", &[(515, Some(515)), (700, Some(700))]);
    let mut merge = Merge::at(&[&late, &early], at(500).wall, By::Source, &served).expect("memory can be read");
    let mut came = Vec::new();
    while let Some(due) = merge.due() {
        let mut tell = |event: Event<'_, '_, Memory>| {
            let Event::Message { item, .. } = event else { panic!("only updates") };
            came.push((due - at(0).wall, item.0));
        };
        merge.advance(due, 1, &mut tell).expect("memory can be read");
    }
    // AIG.N is item 0. Who has no clock is as late as the one before, the first one as the next; what is put before another comes with it.
    assert_eq!(came, [(500, 1), (510, 1), (515, 0), (530, 1), (530, 1), (620, 1), (700, 0)]);
    // By receipt the clock of the source means nothing.
    let mut merge = Merge::at(&[&late], at(1000).wall, By::Receipt, &served).expect("memory can be read");
    let mut due = Vec::new();
    while let Some(at_ns) = merge.due() {
        due.push(at_ns - at(0).wall);
        merge.advance(at_ns, 1, &mut |_| {}).expect("memory can be read");
    }
    assert_eq!(due, [1010, 1030, 1040, 1100]);
}
