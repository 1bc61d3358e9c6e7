//! Random operations on non-interactive providers by seed, against a model of the images that must be held.
//!
//! Three providers of one service publish, update, close, go away and come back, also one over the other's items, which stand by then and
//! go on, until the one that is used leaves. P2PSs open
//! and ask for images. Every image that is sent must be the model's, with its data state; every update of an item reaches
//! those who have it open; what was never published, or is closed, is not found.

use crate::random::Random;
use crate::world::*;
use hub_distributor::Config;
use hub_stream::{ALL, Kind, Request, flags};
use rwf::msg::Msg;
use rwf::rdm::directory::{Action, Service};
use rwf::{DataState, StateCode, StreamState};
use std::collections::{BTreeMap, HashMap};

const NAMES: [&str; 4] = ["A", "B", "C", "D"];

/// An item as the Source Distributor must hold it.
#[derive(Debug, Clone)]
struct Held {
    fields: BTreeMap<i16, Vec<u8>>,
    suspect: bool,
    /// Session and stream that it was last published on, while the session lives.
    owner: Option<(u32, i32)>,
    /// What those have whom another has displaced, the last one last.
    standby: Vec<Standby>,
}

/// An item as one has it that is not used.
#[derive(Debug, Clone)]
struct Standby {
    fields: BTreeMap<i16, Vec<u8>>,
    suspect: bool,
    owner: (u32, i32),
}

impl Held {
    /// The owner leaves: who was used before has the item back. False if there is nobody.
    fn take_back(&mut self) -> bool {
        let Some(Standby { fields, suspect, owner }) = self.standby.pop() else { return false };
        (self.fields, self.suspect, self.owner) = (fields, suspect, Some(owner));
        true
    }
}

/// A watcher's copy, by what it was sent.
#[derive(Debug, Default, Clone)]
struct Copy {
    name: String,
    fields: BTreeMap<i16, Vec<u8>>,
    imaged: bool,
    ended: bool,
}

struct Run {
    world: World,
    random: Random,
    /// Session of each provider that is up.
    up: [Option<u32>; 3],
    next_session: u32,
    next_stream: i32,
    held: BTreeMap<&'static str, Held>,
    copies: BTreeMap<(u16, u32), Copy>,
    opens: HashMap<u32, (u16, &'static str)>,
    known: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        // All steps are one turn, and the model knows no outage that goes on in the next one.
        let mut world = World::new(Config { image_part: 10, work_per_turn: u32::MAX, ..Config::default() });
        for id in [1, 2] {
            world.p2ps_up(id);
        }
        Self {
            world,
            random: Random::new(seed),
            up: [None; 3],
            next_session: 0,
            next_stream: 0,
            held: BTreeMap::new(),
            copies: BTreeMap::new(),
            opens: HashMap::new(),
            known: false,
        }
    }

    fn fields(&mut self) -> Vec<(i16, Vec<u8>)> {
        let count = 1 + self.random.below(3);
        let mut fields = BTreeMap::new();
        for _ in 0..count {
            let length = self.random.below(6);
            fields.insert(self.random.below(6) as i16, vec![b'a' + self.random.below(26) as u8; length]);
        }
        fields.into_iter().collect()
    }

    fn step(&mut self) {
        match self.random.below(14) {
            12 | 13 => self.stand_by(),
            0 | 1 => self.toggle(),
            2..=4 => self.publish(),
            5..=7 => self.update(),
            8 => self.end(),
            9 | 10 => self.open(),
            _ => self.close_or_refresh(),
        }
        self.check();
    }

    fn toggle(&mut self) {
        let which = self.random.below(3);
        if let Some(id) = self.up[which].take() {
            for held in self.held.values_mut() {
                held.standby.retain(|standby| standby.owner.0 != id);
                if held.owner.is_some_and(|owner| owner.0 == id) && !held.take_back() {
                    held.owner = None;
                    held.suspect = true;
                }
            }
            if self.random.chance(50) {
                self.world.down(id);
            } else {
                // The publisher withdraws the service first: the same to those who watch.
                let mut gone = service(3 + id as u16, "NI_PUB");
                gone = Service { action: Action::Delete, info: None, state: None, ..gone };
                let last = self.up.iter().all(Option::is_none);
                if !last {
                    self.world.directory_update(id, vec![gone]);
                }
                self.world.down(id);
            }
        } else {
            let id = self.next_session;
            self.next_session += 1;
            self.up[which] = Some(id);
            self.known = true;
            self.world.nip_up(id);
            self.world.directory(id, vec![service(3 + id as u16, "NI_PUB")]);
        }
    }

    fn publish(&mut self) {
        let Some(id) = self.up[self.random.below(3)] else { return };
        let name = NAMES[self.random.below(NAMES.len())];
        let fields = self.fields();
        let stream = match self.held.get(name).and_then(|held| held.owner) {
            Some((owner, stream)) if owner == id && self.random.chance(70) => stream,
            _ => {
                self.next_stream -= 1;
                self.next_stream
            }
        };
        let borrowed: Vec<(i16, &[u8])> = fields.iter().map(|(fid, value)| (*fid, &value[..])).collect();
        self.world.publish(id, stream, 3 + id as u16, name, &borrowed);
        let mut standby = Vec::new();
        if let Some(before) = self.held.remove(name) {
            standby = before.standby;
            standby.retain(|standby| standby.owner.0 != id);
            if let Some(owner) = before.owner.filter(|owner| owner.0 != id) {
                standby.push(Standby { fields: before.fields, suspect: before.suspect, owner });
            }
        }
        let held = Held { fields: fields.into_iter().collect(), suspect: false, owner: Some((id, stream)), standby };
        self.held.insert(name, held);
    }

    fn update(&mut self) {
        let fields = self.fields();
        let name = NAMES[self.random.below(NAMES.len())];
        let Some(held) = self.held.get_mut(name) else { return };
        let Some((id, stream)) = held.owner else { return };
        held.fields.extend(fields.clone());
        let borrowed: Vec<(i16, &[u8])> = fields.iter().map(|(fid, value)| (*fid, &value[..])).collect();
        self.world.update(id, stream, &borrowed);
    }

    /// One that is not used goes on with its item: an update, a state, or the end of it. Nobody hears of that.
    fn stand_by(&mut self) {
        let fields = self.fields();
        let name = NAMES[self.random.below(NAMES.len())];
        let Some(held) = self.held.get_mut(name).filter(|held| !held.standby.is_empty()) else { return };
        let at = self.random.below(held.standby.len());
        let standby = &mut held.standby[at];
        let (id, stream) = standby.owner;
        match self.random.below(6) {
            0 => {
                let data = if standby.suspect { DataState::OK } else { DataState::SUSPECT };
                standby.suspect = !standby.suspect;
                self.world.status(id, stream, state(StreamState::OPEN, data, StateCode::NONE));
            }
            1 => {
                held.standby.remove(at);
                self.world.provider_close(id, stream);
            }
            _ => {
                standby.fields.extend(fields.clone());
                let borrowed: Vec<(i16, &[u8])> = fields.iter().map(|(fid, value)| (*fid, &value[..])).collect();
                self.world.update(id, stream, &borrowed);
            }
        }
        assert!(self.world.events().is_empty(), "what stands by is nobody's");
    }

    /// The provider says something about an item: Suspect, good again, to be recovered, or closed.
    fn end(&mut self) {
        let name = NAMES[self.random.below(NAMES.len())];
        let Some(held) = self.held.get_mut(name) else { return };
        let Some((id, stream)) = held.owner else { return };
        let what = self.random.below(4);
        let (open, suspect) = (StreamState::OPEN, DataState::SUSPECT);
        let state = match what {
            0 => state(open, suspect, StateCode::NONE),
            1 => state(open, DataState::OK, StateCode::NONE),
            2 => state(StreamState::CLOSED_RECOVER, suspect, StateCode::NONE),
            _ => state(StreamState::CLOSED, suspect, StateCode::NONE),
        };
        self.world.status(id, stream, state);
        match what {
            2 | 3 if held.take_back() => {}
            3 => drop(self.held.remove(name)),
            2 => (held.suspect, held.owner) = (true, None),
            what => held.suspect = what == 0,
        }
    }

    fn open(&mut self) {
        let id = 1 + self.random.below(2) as u16;
        let name = NAMES[self.random.below(NAMES.len())];
        if self.copies.iter().any(|((owner, _), copy)| *owner == id && copy.name == name && !copy.ended) {
            return;
        }
        let token = self.world.open_with(id, name, flags::STREAMING);
        self.opens.insert(token, (id, name));
    }

    fn close_or_refresh(&mut self) {
        let keys: Vec<(u16, u32)> = self.copies.keys().copied().collect();
        let Some((id, handle)) = self.random.pick(&keys) else { return };
        if self.copies[&(id, handle)].ended || self.random.chance(60) {
            self.copies.remove(&(id, handle));
            self.world.close(id, handle);
        } else {
            self.world.request(id, &Request::Refresh { handle, in_stream: false }).unwrap();
        }
    }

    fn check(&mut self) {
        for event in self.world.events() {
            match event.kind {
                Kind::ItemOpened => {
                    let (id, name) = self.opens.remove(&event.arg).unwrap();
                    assert!(self.held.contains_key(name), "{name} was not published");
                    let copy = Copy { name: name.to_owned(), ..Copy::default() };
                    self.copies.insert((id, event.handle), copy);
                }
                Kind::Refused => {
                    let (_, name) = self.opens.remove(&event.arg).unwrap();
                    let code = if self.known { StateCode::NOT_FOUND } else { StateCode::SOURCE_UNKNOWN };
                    assert_eq!(event.short_state().2, code);
                    assert!(!self.held.contains_key(name), "{name} is published");
                }
                Kind::Image | Kind::Update | Kind::ItemStatus => self.deliver(&event),
                _ => {}
            }
        }
        for copy in self.copies.values().filter(|copy| !copy.ended) {
            let held = self.held.get(&*copy.name).unwrap_or_else(|| panic!("{} is closed: {copy:?}", copy.name));
            assert!(copy.imaged, "{copy:?}");
            assert_eq!(copy.fields, held.fields, "{}", copy.name);
        }
        assert_eq!(self.world.sd.counters().cache_failures, 0);
    }

    fn deliver(&mut self, event: &Ev) {
        let held = &self.held;
        for ((id, handle), copy) in &mut self.copies {
            if *handle != event.handle || (event.target != ALL && event.target != *id) {
                continue;
            }
            assert!(!copy.ended, "{event:?} after the end");
            match event.kind {
                Kind::Image => {
                    let image = event.image();
                    copy.fields = fields_of(image.body).into_iter().collect();
                    copy.imaged = true;
                    let suspect = held.get(&*copy.name).is_some_and(|held| held.suspect);
                    assert_eq!(image.state.data == DataState::SUSPECT, suspect, "{}", copy.name);
                }
                Kind::Update => {
                    let Msg::Update(update) = Msg::decode(&event.body).unwrap() else { panic!() };
                    copy.fields.extend(fields_of(update.body));
                }
                _ => copy.ended = event.has(flags::CLOSED),
            }
        }
    }
}

#[test]
fn random_publishing_is_held_as_it_was_published() {
    for seed in 1..=300u64 {
        let mut run = Run::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for _ in 0..250 {
            run.step();
        }
        let keys: Vec<(u16, u32)> = run.copies.keys().copied().collect();
        for (id, handle) in keys {
            run.copies.remove(&(id, handle));
            run.world.close(id, handle);
        }
        assert_eq!(run.world.sd.items(), run.held.len(), "seed {seed}");
    }
}
