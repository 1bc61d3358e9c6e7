//! The journal under random restarts, cuts and clocks, against a model that keeps everything.

use super::player::{Play, Player};
use super::recorder::{Recorder, RecorderConfig};
use super::rules::{Rule, Rules, Selects, read_rules};
use super::{Key, SECOND};
use feed::random::Random;
use record::{Clocks, Memory, Store};
use rwf::DataType;
use rwf::container::{FieldList, FieldListEncoder, SetScope};
use rwf::image::Image;
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::wire::Writer;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

const DELAY: u64 = 20 * SECOND;

/// Files in memory that all have: who writes and who reads.
#[derive(Clone, Debug, Default)]
struct Files(Rc<RefCell<Memory>>);

impl Store for Files {
    fn name(&self) -> String {
        self.0.borrow().name()
    }

    fn files(&self) -> io::Result<BTreeMap<String, u64>> {
        self.0.borrow().files()
    }

    fn read(&self, name: &str, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.0.borrow().read(name, offset, limit)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().append(name, bytes)
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.0.borrow_mut().truncate(name, len)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().sync(name)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().remove(name)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.0.borrow_mut().rename(from, to)
    }
}

/// The source's messages, as the model keeps them.
#[derive(Debug, Clone)]
enum Said {
    Value(u64),
    /// Nothing more is known.
    Hole,
}

/// The messages of one item's source: times, and whether it survives a crash.
type History = Vec<(u64, Said, bool)>;

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
    value_in(w.written())
}

fn value_in(message: &[u8]) -> u64 {
    let body = match Msg::decode(message) {
        Ok(Msg::Refresh(refresh)) => refresh.body,
        Ok(Msg::Update(update)) => update.body,
        other => panic!("{other:?}"),
    };
    let list = FieldList::decode(body, &SetScope::NONE).expect("a list");
    let entry = list.entries().flatten().find(|entry| entry.fid == 30).expect("the value");
    entry.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

struct World {
    random: Random,
    rules: Rules,
    store: Files,
    recorder: Recorder<Files>,
    player: Player<Files>,
    now: u64,
    mono: u64,
    /// The latest time that was played.
    played: u64,
    model: BTreeMap<u64, History>,
    /// Items whose image this life of the recorder has.
    imaged: std::collections::BTreeSet<u64>,
    next_value: u64,
    /// Time of the last record, and when the recorder was known to live.
    last: Option<u64>,
    alive: u64,
    checked: usize,
    holes: usize,
}

fn recorder(store: &Files, alive_until: Option<u64>) -> Recorder<Files> {
    let (recorder, damage) = Recorder::new(store.clone(), "FEED", config(), alive_until).expect("memory");
    assert_eq!(damage, []);
    recorder
}

impl World {
    fn new(seed: u64) -> Self {
        let rules = Rules {
            delay: DELAY,
            rules: vec![Rule { selects: Selects::Field { fid: 4, value: 7 }, delay: 3 * SECOND }],
        };
        let store = Files::default();
        Self {
            random: Random::new(seed),
            recorder: recorder(&store, None),
            store,
            player: Player::new(DELAY, rules.clone()),
            rules,
            now: 1_000_000 * SECOND,
            mono: 0,
            played: 0,
            model: BTreeMap::new(),
            imaged: std::collections::BTreeSet::new(),
            next_value: 1,
            last: None,
            alive: 0,
            checked: 0,
            holes: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        u64::from(self.random.below(n as u32))
    }

    const fn clocks(&self) -> Clocks {
        Clocks { wall: self.now, mono: self.mono, source: None }
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        self.mono += time;
    }

    /// A record counts as of the latest time, where the clock was set back.
    fn noted(&mut self) -> u64 {
        let at = self.now.max(self.last.unwrap_or(0));
        self.last = Some(at);
        at
    }

    fn say(&mut self) {
        let item = self.below(4);
        let is_image = self.imaged.insert(item) || self.below(6) == 0;
        let value = self.next_value;
        self.next_value += 1;
        // Item 3 is of another exchange, and earlier.
        let bytes = message(value, is_image, if item == 3 { 7 } else { 1 });
        self.recorder.message(self.clocks(), &key(item), &bytes);
        let at = self.noted();
        self.model.entry(item).or_default().push((at, Said::Value(value), false));
    }

    fn sync(&mut self) {
        self.recorder.sync(self.clocks()).expect("memory");
        self.model.values_mut().flatten().for_each(|(.., is_safe)| *is_safe = true);
        self.alive = self.alive.max(self.now);
    }

    /// The process ends; what it wrote down since the last time is lost, but for what had a full segment.
    fn crash(&mut self) {
        let mut kept = std::collections::BTreeSet::new();
        self.last = None;
        if let Ok(recording) = record::Recording::open(self.store.clone()) {
            let mut cursor = recording.from_time(0);
            while let Some(entry) = cursor.next().expect("memory") {
                self.last = Some(entry.record.time);
                if entry.item.is_some() {
                    kept.insert(value_in(entry.record.body));
                }
            }
        }
        let is_kept = |said: &Said| matches!(said, Said::Value(value) if kept.contains(value));
        for history in self.model.values_mut() {
            history.retain(|(_, said, is_safe)| *is_safe || is_kept(said));
        }
        self.holes += 1;
        self.player = Player::new(DELAY, self.rules.clone());
        self.imaged.clear();
        self.played = 0;
        let time = self.below(15) * SECOND;
        self.pass(time);
        self.recorder = recorder(&self.store, Some(self.alive));
        // The first word of a life, before anything is played: what was before is over.
        if let Some(last) = self.last {
            // No later than it is told, where the clock was set back.
            let at = self.alive.max(last).min(self.noted());
            for history in self.model.values_mut() {
                history.push((at, Said::Hole, true));
            }
        }
        self.sync();
    }

    fn play(&mut self) {
        self.sync();
        let store = self.store.clone();
        loop {
            let due = self.player.advance(self.now, 5, &|| store.clone(), &mut |_, _| {}).expect("memory");
            if due != Some(self.now) {
                break;
            }
        }
        self.recorder.played(self.player.played());
        self.played = self.played.max(self.now - DELAY);
        assert!(self.player.played() <= self.played, "nothing is played before it is due");
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

/// Two hundred, or as many as `QUOTEWAY_SEEDS` says, or the one that `QUOTEWAY_SEED` names.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    number("QUOTEWAY_SEED").map_or_else(|| 1..number("QUOTEWAY_SEEDS").unwrap_or(200) + 1, |seed| seed..seed + 1)
}

#[test]
fn at_each_moment_an_item_is_what_it_was_then() {
    let (mut checked, mut holes) = (0, 0);
    for seed in seeds() {
        let mut world = World::new(seed);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..150 {
                match world.below(20) {
                    0..8 => world.say(),
                    8..15 => {
                        let time = world.below(300) * SECOND / 100;
                        world.pass(time);
                    }
                    15 => world.now -= world.below(100) * SECOND / 100,
                    16 if world.below(4) == 0 => world.crash(),
                    17 => {
                        world.play();
                        assert_eq!(world.player.removed(), 0);
                    }
                    18 => world.sync(),
                    _ => world.play(),
                }
            }
        }));
        assert!(done.is_ok(), "seed {seed}");
        (checked, holes) = (checked + world.checked, holes + world.holes);
    }
    let is_enough = checked > 5_000 && holes > 100 || std::env::var_os("QUOTEWAY_SEED").is_some();
    assert!(is_enough, "something happens: {checked} items looked at, {holes} holes");
}

#[test]
fn a_bound_on_bytes_takes_the_oldest_and_what_went_is_a_hole() {
    let store = Files::default();
    let config = RecorderConfig { bytes_max: 1_500, ..config() };
    let (mut recorder, _) = Recorder::new(store.clone(), "FEED", config, None).expect("memory");
    let rules = Rules { delay: DELAY, rules: vec![] };
    let mut player = Player::new(DELAY, rules);
    let (mut states, mut images) = (Vec::new(), 0);
    for step in 0..90 {
        let (now, mono) = (1_000 * SECOND + step * SECOND, step * SECOND);
        for _ in 0..4 {
            recorder.message(Clocks { wall: now, mono, source: None }, &key(1), &message(step, true, 1));
        }
        recorder.sync(Clocks { wall: now, mono, source: None }).expect("memory");
        let mut play = |_: &Key, play: Play<'_>| {
            images += u64::from(matches!(play, Play::Image(image) if !image.is_suspect()));
            states.push(match play {
                Play::State(state) => state.data == rwf::DataState::SUSPECT,
                Play::Image(image) => image.is_suspect(),
                Play::Update(_) => false,
            });
        };
        player.advance(now, 1_000, &|| store.clone(), &mut play).expect("memory");
        let bytes: u64 = store.files().expect("memory").values().sum();
        // The newest segment is beside the bound, with its tail.
        assert!(bytes <= 1_500 + 6_000, "{bytes} bytes are kept");
    }
    assert!(player.removed() > 0, "segments go before they were played");
    assert!(states.contains(&true), "who lacks them is told");
    assert!(images > 3, "and what is there is played: {images}");
}

#[test]
fn rules_are_read_and_the_first_that_fits_holds() {
    let of_exchange = |value, delay| Rule { selects: Selects::Field { fid: 4, value }, delay };
    assert_eq!("4=145:1200".parse(), Ok(of_exchange(145, 1_200 * SECOND)));
    for wrong in ["", "4=145", "4:1200", "x=1:2", "4=1:-2", "name=:3", "name=^(:3", "name=A"] {
        assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
    }
    let file = "# exchanges\n4=7:5\n\n4=7:6 # never\nname=^A:B\\.:0\nname=*.XX:1\n";
    let rules = Rules { delay: 9 * SECOND, rules: read_rules(file).expect("rules") };
    assert_eq!((rules.delays(), rules.longest()), ([0, 1, 5, 6, 9].map(|s| s * SECOND).to_vec(), 9 * SECOND));
    let of = |name: &str, exchange| {
        let bytes = message(1, true, exchange);
        let Ok(Msg::Refresh(refresh)) = Msg::decode(&bytes) else { panic!("no refresh") };
        rules.delay_of(name, &refresh) / SECOND
    };
    assert_eq!((of("A", 7), of("A", 8), of("A:B.C", 8), of("B.XX", 8), of("B.XX", 7)), (5, 9, 0, 1, 5));
    let bad = read_rules("4=7:5\n4=\n").expect_err("no rule");
    assert_eq!(bad.0, 2);
}
