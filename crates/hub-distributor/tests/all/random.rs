//! Random operations by seed, against a model that knows what each P2PS must have been told.
//!
//! The world is a few interactive providers of two services, three P2PSs and a handful of names. Providers answer, update,
//! close and go away at random; P2PSs open, refresh and close. After each step the hub stream is read as a P2PS reads it,
//! and the rules that hold for every run are checked:
//!
//! * a handle means one item as long as somebody holds it, and every open is answered exactly once;
//! * no update reaches a P2PS before the first image of its handle, none after the item was lost and before it is back;
//! * values arrive in order, none lost and none twice, between an image and the next loss;
//! * what a provider has been asked is exactly what is open: no stream opened twice, none closed twice;
//! * in the end, with all providers answering, every watched item has an image, and nothing is left when all is closed.
//!
//! In every third world the data of providers are watched for interruptions, of which there are many, since nobody publishes for seconds. In some
//! the service is conflated: an update stands for as many as it says.

use crate::world::*;
use hub_content::cache::rules::CacheRules;
use hub_content::conflation::{ServiceConflation, Settings};
use hub_distributor::{Balance, Config, Interruption, RouteConfig};
use hub_stream::{Kind, Request, flags};
use rwf::msg::{Msg, RefreshFlags};
use rwf::{DataState, StateCode, StreamState};
use std::collections::{BTreeMap, HashMap};

/// A generator that needs no crate: xorshift*, good enough to shuffle operations.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())].clone()) }
    }
}

/// A provider's view of one of its streams.
#[derive(Debug, Clone)]
struct Stream {
    name: String,
    /// Requests that want an image and have not had one.
    owed: u32,
    /// In the middle of a set.
    in_set: bool,
    /// It has sent an image.
    imaged: bool,
}

#[derive(Default)]
struct Provider {
    up: bool,
    streams: BTreeMap<i32, Stream>,
}

/// What a P2PS knows of a handle.
#[derive(Debug, Clone, Default)]
struct Held {
    name: String,
    /// It has had a whole image and no loss since: the last value.
    value: Option<u64>,
    in_set: bool,
    waiting: bool,
    ended: bool,
}

#[derive(Default)]
struct P2ps {
    handles: HashMap<u32, Held>,
    opens: HashMap<u32, String>,
}

struct Run {
    world: World,
    random: Random,
    providers: Vec<Provider>,
    p2ps: BTreeMap<u16, P2ps>,
    /// The last value published for an item, by name.
    values: HashMap<String, u64>,
    /// A provider that publishes nothing for a while is silent.
    is_monitored: bool,
    log: Vec<String>,
}

const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];
const PROVIDERS: usize = 3;

fn value_of(body: &[u8]) -> u64 {
    let fields = fields_of(body);
    u64::from_be_bytes(fields[0].1.clone().try_into().unwrap())
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let age = if random.chance(50) { 5 * SECOND } else { 0 };
        // Every other world has a cache, of few items or of all.
        let cached = CacheRules { max_items: (seed % 7 / 2) as usize, ..CacheRules::everything() };
        let cache = if seed % 2 == 1 { cached } else { CacheRules::default() };
        let opens_per_turn = 1 + random.below(5) as u32;
        let work_per_turn = [1, 3, 4_000][(seed % 3) as usize];
        let is_monitored = (seed / 7).is_multiple_of(3);
        let interruption = is_monitored.then_some(Interruption { duration: 2 * SECOND, traffic_window: SECOND });
        let routes = vec![RouteConfig { interruption, ..RouteConfig::default() }; PROVIDERS];
        let balance = if (seed / 21).is_multiple_of(2) { Balance::Load } else { Balance::First };
        let failback = (seed / 42 % 2) * 3 * SECOND;
        let interval = (seed / 84 % 3 / 2 * 700) as u16;
        let others = ServiceConflation { interval, ..ServiceConflation::default() };
        let conflation = Settings { others, ..Settings::default() };
        let config = Config {
            age_unwatched: age,
            opens_per_turn,
            work_per_turn,
            cache,
            routes,
            balance,
            failback,
            conflation,
            ..Config::default()
        };
        let mut run = Self {
            world: World::new(config),
            random,
            providers: (0..PROVIDERS).map(|_| Provider::default()).collect(),
            p2ps: BTreeMap::new(),
            values: HashMap::new(),
            is_monitored,
            log: Vec::new(),
        };
        for id in 1..=3 {
            run.world.p2ps_up(id);
            run.p2ps.insert(id, P2ps::default());
        }
        run.provider_up(0);
        run
    }

    fn provider_up(&mut self, id: usize) {
        if self.providers[id].up {
            return;
        }
        self.log.push(format!("provider {id} up"));
        self.providers[id] = Provider { up: true, ..Provider::default() };
        self.world.route_up(id as u32);
        let mut entry = service(7 + 100 * id as u16, "FEED");
        if self.random.chance(50) {
            entry = with_load(
                entry,
                rwf::rdm::directory::Load { open_window: Some(1 + self.random.below(3) as u64), ..Default::default() },
            );
        }
        self.world.directory(id as u32, vec![entry]);
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=3 => self.open(),
            4..=5 => self.close(),
            6 => self.refresh_request(),
            7..=10 => self.answer(),
            11..=15 => self.publish(),
            16 => self.provider_ends_a_stream(),
            17 => {
                let id = self.random.below(PROVIDERS);
                if self.random.chance(60) {
                    self.provider_up(id);
                } else if self.providers[id].up {
                    self.log.push(format!("provider {id} down"));
                    self.providers[id].up = false;
                    self.world.down(id as u32);
                }
            }
            18 => {
                let seconds = 1 + self.random.below(4) as u64;
                self.log.push(format!("{seconds} s pass"));
                self.world.pass(seconds);
            }
            _ => self.world.turn(),
        }
        self.check();
    }

    fn any_handle(&mut self, held: impl Fn(&Held) -> bool) -> Option<(u16, u32)> {
        let id = 1 + self.random.below(3) as u16;
        let mut handles: Vec<u32> =
            self.p2ps[&id].handles.iter().filter(|(_, h)| held(h)).map(|(handle, _)| *handle).collect();
        handles.sort_unstable();
        self.random.pick(&handles).map(|handle| (id, handle))
    }

    fn open(&mut self) {
        let id = 1 + self.random.below(3) as u16;
        let name = NAMES[self.random.below(NAMES.len())];
        let p2ps = &self.p2ps[&id];
        let known = p2ps.handles.values().any(|h| h.name == name && !h.ended) || p2ps.opens.values().any(|n| n == name);
        if !known {
            self.log.push(format!("p2ps {id} opens {name}"));
            let token = self.world.open_with(id, name, flags::STREAMING);
            self.p2ps.get_mut(&id).unwrap().opens.insert(token, name.to_owned());
        }
    }

    fn close(&mut self) {
        if let Some((id, handle)) = self.any_handle(|_| true) {
            self.log.push(format!("p2ps {id} closes {handle}"));
            self.p2ps.get_mut(&id).unwrap().handles.remove(&handle);
            self.world.close(id, handle);
        }
    }

    fn refresh_request(&mut self) {
        if let Some((id, handle)) = self.any_handle(|h| !h.ended && h.value.is_some() && !h.in_set) {
            self.log.push(format!("p2ps {id} wants an image of {handle}"));
            self.p2ps.get_mut(&id).unwrap().handles.get_mut(&handle).unwrap().waiting = true;
            self.world.request(id, &Request::Refresh { handle, in_stream: false }).unwrap();
        }
    }

    /// A provider sends an image that it owes, or the next part of one.
    fn answer(&mut self) {
        let mut owed = Vec::new();
        for (id, provider) in self.providers.iter().enumerate().filter(|(_, p)| p.up) {
            let streams = provider.streams.iter().filter(|(_, s)| s.owed > 0 || s.in_set);
            owed.extend(streams.map(|(stream, _)| (id, *stream)));
        }
        if let Some((id, stream)) = self.random.pick(&owed) {
            let last = self.random.chance(70);
            self.send_image(id, stream, last, true);
        }
    }

    fn send_image(&mut self, id: usize, stream: i32, last: bool, solicited: bool) {
        let state = self.providers[id].streams.get_mut(&stream).unwrap();
        let value = self.values.get(&state.name).copied().unwrap_or(0);
        if !state.in_set && solicited {
            state.owed -= 1;
        }
        state.in_set = !last;
        state.imaged = true;
        let mut bits = if solicited { RefreshFlags::SOLICITED } else { RefreshFlags::NONE };
        if last {
            bits |= RefreshFlags::REFRESH_COMPLETE;
        }
        self.log.push(format!("provider {id} images {stream} with {value}, last {last}, solicited {solicited}"));
        self.world.refresh(id as u32, stream, &[(1, &value.to_be_bytes())], bits);
    }

    /// A provider sends an update or an image that nobody asked for.
    fn publish(&mut self) {
        let mut imaged = Vec::new();
        for (id, provider) in self.providers.iter().enumerate().filter(|(_, p)| p.up) {
            imaged.extend(provider.streams.iter().filter(|(_, s)| s.imaged).map(|(stream, _)| (id, *stream)));
        }
        let Some((id, stream)) = self.random.pick(&imaged) else { return };
        let state = &self.providers[id].streams[&stream];
        let (in_set, name) = (state.in_set, state.name.clone());
        if !in_set && self.random.chance(10) {
            self.send_image(id, stream, true, false);
            return;
        }
        let value = self.values.entry(name).or_default();
        *value += 1;
        let bytes = value.to_be_bytes();
        self.log.push(format!("provider {id} updates {stream} to {value}"));
        self.world.update(id as u32, stream, &[(1, &bytes)]);
    }

    fn provider_ends_a_stream(&mut self) {
        let mut open = Vec::new();
        for (id, provider) in self.providers.iter().enumerate().filter(|(_, p)| p.up) {
            open.extend(provider.streams.keys().map(|stream| (id, *stream)));
        }
        let Some((id, stream)) = self.random.pick(&open) else { return };
        let end = if self.random.chance(50) { StreamState::CLOSED } else { StreamState::CLOSED_RECOVER };
        self.log.push(format!("provider {id} ends {stream}: {end}"));
        self.providers[id].streams.remove(&stream);
        self.world.status(id as u32, stream, state(end, DataState::SUSPECT, StateCode::NONE));
    }

    /// Every provider updates what it has open.
    fn tick(&mut self) {
        for id in 0..PROVIDERS {
            let streams = &self.providers[id].streams;
            let whole = streams.iter().filter(|(_, stream)| stream.imaged && !stream.in_set);
            for (stream, name) in whole.map(|(id, stream)| (*id, stream.name.clone())).collect::<Vec<_>>() {
                let value = self.values.entry(name).or_default();
                *value += 1;
                let bytes = value.to_be_bytes();
                self.log.push(format!("provider {id} updates {stream} to {value}"));
                self.world.update(id as u32, stream, &[(1, &bytes)]);
            }
        }
        self.world.turn();
    }

    /// Reads what the Source Distributor has sent both ways, and checks it.
    fn check(&mut self) {
        for id in 0..PROVIDERS {
            self.read_provider(id);
        }
        for event in self.world.events() {
            self.log.push(format!(
                "    {:?} of {} to {}, flags {:#x}",
                event.kind, event.handle, event.target, event.flags
            ));
            for (id, p2ps) in &mut self.p2ps {
                if event.target == hub_stream::ALL || event.target == *id {
                    p2ps.read(&event);
                }
            }
            if event.kind == Kind::ItemOpened {
                assert!(self.p2ps[&event.target].handles.contains_key(&event.handle));
            }
        }
        // One handle, one item, whoever holds it.
        let mut names: HashMap<u32, &str> = HashMap::new();
        for p2ps in self.p2ps.values() {
            for (handle, held) in &p2ps.handles {
                assert_eq!(*names.entry(*handle).or_insert(&held.name), held.name);
            }
        }
    }

    fn read_provider(&mut self, id: usize) {
        let provider = &mut self.providers[id];
        for bytes in self.world.sent(id as u32) {
            match Msg::decode(&bytes).unwrap() {
                Msg::Request(r) if r.domain == rwf::msg::Domain::MARKET_PRICE => {
                    if !provider.up {
                        continue;
                    }
                    let name = r.key.name_lossy().into_owned();
                    self.log.push(format!("    asked {id}: {name} on {}", r.stream_id));
                    if let Some(stream) = provider.streams.get_mut(&r.stream_id) {
                        assert_eq!(stream.name, name, "a stream keeps its item");
                        stream.owed += 1;
                    } else {
                        let twice = provider.streams.values().any(|stream| stream.name == name);
                        assert!(!twice, "{name} is open at the provider already");
                        let stream = Stream { name, owed: 1, in_set: false, imaged: false };
                        provider.streams.insert(r.stream_id, stream);
                    }
                }
                Msg::Close(close) => {
                    let open = provider.streams.remove(&close.stream_id);
                    assert!(!provider.up || open.is_some(), "{} was not open", close.stream_id);
                }
                _ => {}
            }
        }
    }

    /// All providers come up and answer everything: the state of rest.
    fn settle(&mut self) {
        for id in 0..PROVIDERS {
            self.provider_up(id);
        }
        for _ in 0..if self.is_monitored { 1_000 } else { 400 } {
            self.check();
            let owed = self.providers.iter().enumerate().find_map(|(id, provider)| {
                let stream = provider.streams.iter().find(|(_, s)| s.owed > 0 || s.in_set)?;
                Some((id, *stream.0))
            });
            match owed {
                Some((id, stream)) => self.send_image(id, stream, true, true),
                None if self.is_monitored => {
                    self.world.pass(1);
                    self.check();
                    self.tick();
                }
                None => self.world.pass(2),
            }
        }
        // Updates that wait for their interval go out.
        self.world.pass(1);
        self.check();
        for (id, p2ps) in &self.p2ps {
            assert!(p2ps.opens.is_empty(), "p2ps {id}: opens without answer {:?}", p2ps.opens);
            for (handle, held) in p2ps.handles.iter().filter(|(_, held)| !held.ended) {
                assert!(held.value.is_some() && !held.waiting, "p2ps {id}: {handle} has no image: {held:?}");
                assert_eq!(held.value, self.values.get(&held.name).copied().or(Some(0)), "{held:?}");
            }
        }
    }

    fn close_all(&mut self) {
        let ids: Vec<u16> = self.p2ps.keys().copied().collect();
        for id in ids {
            let handles: Vec<u32> = self.p2ps[&id].handles.keys().copied().collect();
            for handle in handles {
                self.p2ps.get_mut(&id).unwrap().handles.remove(&handle);
                self.world.close(id, handle);
            }
        }
        self.world.pass(10);
        self.check();
        assert_eq!(self.world.sd.items(), 0);
        for provider in &self.providers {
            assert!(provider.streams.is_empty(), "left open: {:?}", provider.streams);
        }
    }
}

impl P2ps {
    fn read(&mut self, event: &Ev) {
        match event.kind {
            Kind::ItemOpened => {
                let name = self.opens.remove(&event.arg).expect("an open with this token");
                let held = Held { name, waiting: true, ..Held::default() };
                let before = self.handles.insert(event.handle, held);
                assert!(before.is_none_or(|held| held.ended), "the handle was in use");
            }
            Kind::Refused => {
                self.opens.remove(&event.arg).expect("an open with this token");
            }
            Kind::ServiceStatus => {
                self.handles.values_mut().filter(|held| !held.ended).for_each(Held::lose);
            }
            Kind::Image => {
                if let Some(held) = self.handles.get_mut(&event.handle) {
                    held.image(event);
                }
            }
            Kind::Update => {
                if let Some(held) = self.handles.get_mut(&event.handle) {
                    let Msg::Update(update) = Msg::decode(&event.body).unwrap() else { panic!() };
                    held.update(value_of(update.body), update.conflation.map_or(1, |merged| merged.count));
                }
            }
            Kind::ItemStatus => {
                if let Some(held) = self.handles.get_mut(&event.handle) {
                    assert!(!held.ended, "a status after the end");
                    if event.has(flags::CLOSED) {
                        held.ended = true;
                    } else if event.state().data == DataState::SUSPECT
                        && !event.has(flags::PENDING_TOO | flags::WAITING_ONLY)
                    {
                        held.lose();
                    }
                }
            }
            _ => {}
        }
    }
}

impl Held {
    fn lose(&mut self) {
        if self.value.is_some() || self.in_set {
            self.value = None;
            self.in_set = false;
            self.waiting = true;
        }
    }

    fn image(&mut self, event: &Ev) {
        assert!(!self.ended, "an image after the end");
        if event.image().state.data == DataState::SUSPECT {
            // Out of the cache, of before a loss: the next image is for everyone.
            let known = self.value.is_none_or(|value| value == value_of(event.image().body));
            assert!(known && !self.in_set, "another image of before the loss: {self:?}");
            return;
        }
        let to_all = event.has(flags::UNSOLICITED) || event.has(flags::RECOVERY);
        if event.has(flags::FIRST) {
            self.in_set = to_all || self.waiting;
        }
        if !self.in_set {
            return;
        }
        let value = value_of(event.image().body);
        assert!(self.value.is_none_or(|last| last == value), "an image out of order: {self:?}, {value}");
        self.value = Some(value);
        if event.has(flags::COMPLETE) {
            self.in_set = false;
            self.waiting = false;
        }
    }

    fn update(&mut self, value: u64, stands_for: u16) {
        assert!(!self.ended, "an update after the end");
        // A P2PS that joined late waits for its image; what comes before that is not for it.
        if let Some(last) = self.value {
            assert_eq!(value, last + u64::from(stands_for), "lost, repeated or out of order: {self:?}");
            self.value = Some(value);
        }
    }
}

fn run(seed: u64, steps: usize) {
    let alone = std::env::var_os("QUOTEWAY_SEED").is_some();
    let mut run = Run::new(seed);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..steps {
            run.step();
        }
        run.settle();
        run.close_all();
    }));
    if let Err(panic) = outcome {
        let from = run.log.len().saturating_sub(if alone { 5000 } else { 60 });
        let reason = panic.downcast_ref::<String>().map_or("a rule was broken", String::as_str);
        panic!("seed {seed}: {reason}\nafter these operations:\n{}", run.log[from..].join("\n"));
    }
}

#[test]
fn random_operations_keep_the_rules() {
    // One seed alone: QUOTEWAY_SEED=n cargo test -p hub-distributor --test all random; more of them: QUOTEWAY_SEEDS=count.
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    if let Some(seed) = number("QUOTEWAY_SEED") {
        run(seed, 300);
        return;
    }
    for seed in 1..=number("QUOTEWAY_SEEDS").unwrap_or(400) {
        run(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), 300);
    }
}
