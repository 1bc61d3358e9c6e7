//! The journal under random restarts, cuts and clocks, against a model that keeps everything.

use super::record::{Next, Record};
use super::*;
use crate::random::Random;
use rwf::DataType;
use rwf::container::{FieldList, FieldListEncoder, SetScope};
use rwf::image::Image;
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::wire::Writer;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
const DELAY: u64 = 20 * SECOND;

/// Segments in memory.
#[derive(Default)]
struct Memory(BTreeMap<Segment, Vec<u8>>);

impl Store for Memory {
    fn segments(&self) -> Vec<Segment> {
        self.0.keys().copied().collect()
    }

    fn read(&mut self, segment: Segment, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        let bytes = self.0.get(&segment).and_then(|bytes| bytes.get(offset as usize..)).unwrap_or_default();
        Ok(bytes[..bytes.len().min(limit).min(300)].to_vec())
    }

    fn append(&mut self, segment: Segment, bytes: &[u8]) -> io::Result<()> {
        self.0.entry(segment).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn size(&self, segment: Segment) -> u64 {
        self.0.get(&segment).map_or(0, |bytes| bytes.len() as u64)
    }

    fn remove(&mut self, segment: Segment) -> io::Result<()> {
        self.0.remove(&segment);
        Ok(())
    }
}

/// The source's messages, as the model keeps them.
#[derive(Debug, Clone)]
enum Said {
    Value(u64),
    /// Nothing more is known.
    Hole,
}

/// The messages of one item's source: times, and where the record ends in its segment.
type History = Vec<(u64, Said, Option<(Segment, u64)>)>;

fn key(item: u64) -> Key {
    Key { domain: 6, name: format!("ITEM{item}").into() }
}

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("room");
    w.into_written().to_vec()
}

fn message(value: u64, is_image: bool, exchange: u64) -> Vec<u8> {
    let body = encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        list.uint(30, value)?;
        if is_image {
            list.uint(4, exchange)?;
        }
        list.finish()
    });
    encode(|w| {
        if is_image {
            let flags = RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE;
            let container = DataType::FIELD_LIST;
            RefreshMsg { flags, container, body: &body, ..RefreshMsg::new(Domain(6), 5) }.encode(w)
        } else {
            UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain(6), 5) }.encode(w)
        }
    })
}

fn value_of(image: &Image) -> u64 {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    image.parts(RefreshMsg::new(Domain(6), 5), 4000).write(&mut w).expect("an image");
    let Ok(Msg::Refresh(refresh)) = Msg::decode(w.written()) else { panic!("no refresh") };
    let list = FieldList::decode(refresh.body, &SetScope::NONE).expect("a list");
    let entry = list.entries().flatten().find(|entry| entry.fid == 30).expect("the value");
    entry.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

struct World {
    random: Random,
    rules: Rules,
    store: Memory,
    recorder: Recorder,
    player: Player,
    now: u64,
    /// The latest time that was played.
    played: u64,
    model: BTreeMap<u64, History>,
    /// Items whose image this life of the recorder has.
    imaged: std::collections::BTreeSet<u64>,
    next_value: u64,
    last: Option<(Segment, u64)>,
    /// Times of all records, and where they end.
    marks: Vec<(u64, (Segment, u64))>,
    checked: usize,
    holes: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let rules = Rules { delay: DELAY, rules: vec![Rule { fid: 4, value: 7, delay: 3 * SECOND }] };
        Self {
            random: Random::new(seed),
            store: Memory::default(),
            recorder: Recorder::new(config()),
            player: Player::new(DELAY, rules.clone()),
            rules,
            now: 1_000_000 * SECOND,
            played: 0,
            model: BTreeMap::new(),
            imaged: std::collections::BTreeSet::new(),
            next_value: 1,
            last: None,
            marks: Vec::new(),
            checked: 0,
            holes: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        u64::from(self.random.below(n as u32))
    }

    fn noted(&mut self, at: u64) {
        let segment = *self.store.0.keys().next_back().expect("a segment");
        let end = (segment, self.store.size(segment));
        self.last = Some(end);
        self.marks.push((at, end));
    }

    fn say(&mut self) {
        let item = self.below(4);
        let is_image = self.imaged.insert(item) || self.below(6) == 0;
        let value = self.next_value;
        self.next_value += 1;
        // Item 3 is of another exchange, and earlier.
        let bytes = message(value, is_image, if item == 3 { 7 } else { 1 });
        let at = self.recorder.message(self.now, &key(item), &bytes, &mut self.store).expect("memory");
        self.noted(at);
        self.model.entry(item).or_default().push((at, Said::Value(value), self.last));
    }

    /// The process ends; some of what it wrote last may not have reached the disk.
    fn crash(&mut self) {
        if let Some((segment, end)) = self.last {
            let cut = if self.below(2) == 0 { 0 } else { self.below(200).min(end) };
            let kept = end - cut;
            self.store.0.get_mut(&segment).expect("a segment").truncate(kept as usize);
            let is_lost = |(of, end): (Segment, u64)| of == segment && end > kept;
            self.marks.retain(|(_, place)| !is_lost(*place));
            for history in self.model.values_mut() {
                history.retain(|(_, _, place)| !place.is_some_and(is_lost));
            }
            let mut last_at = self.marks.last().map_or(0, |(at, _)| *at);
            // A segment of which only images are left says that they were good when it began.
            if matches!(Record::read(&self.store.0[&segment]), Next::Record(..)) {
                last_at = last_at.max(segment.start);
            }
            for history in self.model.values_mut() {
                let at = history.last().map_or(last_at, |(at, ..)| last_at.max(*at));
                history.push((at, Said::Hole, None));
            }
        }
        self.holes += 1;
        self.recorder = Recorder::new(config());
        self.player = Player::new(DELAY, self.rules.clone());
        self.imaged.clear();
        self.played = 0;
        self.last = None;
        self.now += self.below(15) * SECOND;
        // The first word of a life, before anything is played: what was before is over.
        let at = self.recorder.alive(self.now, &mut self.store).expect("memory");
        self.noted(at);
    }

    fn play(&mut self) {
        loop {
            let due = self.player.advance(self.now, 5, &mut self.store, &mut |_, _| {}).expect("memory");
            if due != Some(self.now) {
                break;
            }
        }
        self.played = self.played.max(self.now - DELAY);
        self.check();
    }

    fn check(&mut self) {
        assert!(self.player.items().all(|(item, _)| *item != key(3)), "an item of another delay is played");
        for item in 0..3 {
            let said = self.model.get(&item).and_then(|said| said.iter().rev().find(|(at, ..)| *at <= self.played));
            let image = self.player.image(&key(item));
            match (said.map(|(_, said, _)| said), image) {
                (Some(Said::Value(value)), Some(image)) => {
                    assert!(!image.is_suspect(), "item {item} is Suspect, and was {value}");
                    assert_eq!(value_of(image), *value, "item {item}");
                    self.checked += 1;
                }
                (Some(Said::Value(value)), None) => panic!("item {item} was {value} and is not played"),
                (Some(Said::Hole), Some(image)) => {
                    assert!(image.is_suspect(), "item {item} is good and nobody knows it");
                    self.checked += 1;
                }
                (Some(Said::Hole) | None, None) => {}
                (None, Some(image)) => panic!("item {item} is played before it was there: {}", image.state()),
            }
        }
    }
}

fn config() -> RecorderConfig {
    RecorderConfig { segment: 7 * SECOND, keep: DELAY, bytes_max: u64::MAX }
}

#[test]
fn at_each_moment_an_item_is_what_it_was_then() {
    let (mut checked, mut holes) = (0, 0);
    for seed in 1..200 {
        let mut world = World::new(seed);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..150 {
                match world.below(20) {
                    0..8 => world.say(),
                    8..15 => world.now += world.below(300) * SECOND / 100,
                    15 => world.now -= world.below(100) * SECOND / 100,
                    16 if world.below(4) == 0 => world.crash(),
                    17 => {
                        world.play();
                        let early = world.recorder.tidy(world.now, &mut world.store).expect("memory");
                        assert_eq!(early, 0);
                    }
                    18 => {
                        let at = world.recorder.alive(world.now, &mut world.store).expect("memory");
                        world.noted(at);
                    }
                    _ => world.play(),
                }
            }
        }));
        assert!(done.is_ok(), "seed {seed}");
        (checked, holes) = (checked + world.checked, holes + world.holes);
    }
    assert!(checked > 5_000 && holes > 100, "something happens: {checked} items looked at, {holes} holes");
}

#[test]
fn a_bound_on_bytes_takes_the_oldest_and_what_went_is_a_hole() {
    let mut store = Memory::default();
    let mut recorder = Recorder::new(RecorderConfig { bytes_max: 2_000, ..config() });
    let rules = Rules { delay: DELAY, rules: vec![] };
    let mut player = Player::new(DELAY, rules);
    let mut early = 0;
    let mut states = Vec::new();
    for step in 0..60 {
        let now = 1_000 * SECOND + step * SECOND;
        for _ in 0..4 {
            recorder.message(now, &key(1), &message(step, true, 1), &mut store).expect("memory");
        }
        early += recorder.tidy(now, &mut store).expect("memory");
        let mut play = |_: &Key, play: Play<'_>| {
            states.push(match play {
                Play::State(state) => state.data == rwf::DataState::SUSPECT,
                Play::Image(image) => image.is_suspect(),
                Play::Update(_) => false,
            });
        };
        player.advance(now, 1_000, &mut store, &mut play).expect("memory");
        let bytes: u64 = store.segments().iter().map(|segment| store.size(*segment)).sum();
        assert!(bytes <= 2_000 + 8 * 4 * 120, "{bytes} bytes are kept");
    }
    assert!(early > 0, "segments go before they were played");
    assert!(states.contains(&true), "who lacks them is told");
}

#[test]
fn rules_are_read_and_the_first_that_fits_holds() {
    assert_eq!("4=145:1200".parse(), Ok(Rule { fid: 4, value: 145, delay: 1_200 * SECOND }));
    for wrong in ["", "4=145", "4:1200", "x=1:2", "4=1:-2"] {
        assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
    }
    let rule = |value, delay| Rule { fid: 4, value, delay };
    let rules = Rules { delay: 9, rules: vec![rule(7, 5), rule(7, 6)] };
    assert_eq!(rules.delays(), [5, 6, 9]);
    let of = |exchange| {
        let bytes = message(1, true, exchange);
        let Ok(Msg::Refresh(refresh)) = Msg::decode(&bytes) else { panic!("no refresh") };
        rules.delay_of(&refresh)
    };
    assert_eq!((of(7), of(8)), (5, 9));
}
