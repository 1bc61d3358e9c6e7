//! Each who waits for a shared merge gets what it would get of a merge of its own: a naive model, with one list of updates for each, says
//! what that is.

use super::{MergeId, SharedMerges};
use crate::conflation::merge::{Ripples, may_merge};
use proptest::prelude::*;
use rwf::container::{MapAction, MapEncoder, MapHead};
use rwf::dictionary::Dictionary;
use rwf::image::{Payload, Schema};
use rwf::msg::{Conflation, Domain, UpdateFlags, UpdateMsg, UpdateType};
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, EncodeError, FieldList, FieldListEncoder, Primitive, SetScope};
use std::collections::BTreeMap;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 14];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

/// A value of a length that its number says, so that values grow and shrink where they lie.
fn value(number: u32) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(4 + number as usize % 7, 0x2A);
    value
}

fn fields(list: &[(i16, u32)]) -> Vec<u8> {
    encode(|w| {
        let mut out = FieldListEncoder::begin(w)?;
        for &(fid, number) in list {
            out.raw(fid, &value(number))?;
        }
        out.finish()
    })
}

/// Fields of the built-in dictionary: two heads of chains (`BID`, `ASK`), one that they ripple to, and some that do not.
const FIDS: [i16; 8] = [22, 25, 30, 31, 3, 40, 41, 23];

#[derive(Debug, Clone)]
enum Step {
    /// An update of a view: its fields, by their places in [`FIDS`], and what is peculiar about it.
    Update { view: u8, fids: u8, kind: u8, conflation: Option<(u16, u16)> },
    /// Someone begins to get the updates of a view, from the next one on, or begins to wait anew.
    Begin { who: u8 },
    /// Someone takes what waits for it.
    Take { who: u8 },
    /// Something else is told to someone, which stays in its place.
    Deliver { who: u8 },
    /// Someone is gone.
    Leave { who: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let conflation = prop_oneof![9 => Just(None), 1 => (1..40_u16, 0..900_u16).prop_map(Some)];
    prop_oneof![
        12 => (0..2_u8, 1..=127_u8, 0..40_u8, conflation)
            .prop_map(|(view, fids, kind, conflation)| Step::Update { view, fids, kind, conflation }),
        3 => (0..6_u8).prop_map(|who| Step::Begin { who }),
        3 => (0..6_u8).prop_map(|who| Step::Take { who }),
        1 => (0..6_u8).prop_map(|who| Step::Deliver { who }),
        1 => (0..6_u8).prop_map(|who| Step::Leave { who }),
    ]
}

/// What waits for one who watches a view: of merges, or messages as they are.
#[derive(Default)]
struct Waiter {
    watches: bool,
    waits_in: Option<MergeId>,
    entries: Vec<Result<(MergeId, u32), Vec<u8>>>,
    /// The naive model: everything that came, in order, and how much of it has been taken.
    all: Vec<Vec<u8>>,
    taken: usize,
    /// Its image by everything, and by what it was given.
    images: Option<(Payload, Payload)>,
}

struct World {
    shared: SharedMerges<u8>,
    ripples: Ripples,
    dictionary: Dictionary,
    waiters: Vec<Waiter>,
    now: u64,
    number: u32,
    spared: u32,
}

impl World {
    fn new(ripple: bool) -> Self {
        let dictionary = Dictionary::builtin();
        let ripples = if ripple { Ripples::of(&dictionary) } else { Ripples::default() };
        let waiters = (0..6).map(|_| Waiter::default()).collect();
        Self { shared: SharedMerges::default(), ripples, dictionary, waiters, now: 0, number: 0, spared: 0 }
    }

    fn schema(&self) -> Schema<'_> {
        Schema { dictionary: Some(&self.dictionary), ripple: !self.ripples.is_none(), ..Schema::NONE }
    }

    fn update(&mut self, view: u8, fids: u8, kind: u8, conflation: Option<(u16, u16)>) -> Vec<u8> {
        let chosen: Vec<(i16, u32)> = (0..7)
            .filter(|bit| fids & (1 << bit) != 0)
            .map(|bit| {
                self.number += 1;
                (FIDS[bit], self.number)
            })
            .chain((kind == 7).then_some((FIDS[7], 1)))
            .collect();
        let body = fields(&chosen);
        let update_type = match kind {
            0..3 => UpdateType::TRADE,
            3 => UpdateType::CORRECTION,
            4..12 => UpdateType::UNSPECIFIED,
            _ => UpdateType::QUOTE,
        };
        let mut flags = match kind {
            12 => UpdateFlags::DO_NOT_CONFLATE,
            13 => UpdateFlags::DO_NOT_RIPPLE,
            _ => UpdateFlags::NONE,
        };
        flags.set(UpdateFlags::DISCARDABLE, kind.is_multiple_of(2));
        let conflation = conflation.map(|(count, time)| Conflation { count, time });
        let container = DataType::FIELD_LIST;
        let (seq_num, body) = (Some(self.number), &body[..]);
        let msg = UpdateMsg {
            container,
            flags,
            update_type,
            conflation,
            seq_num,
            body,
            ..UpdateMsg::new(Domain::MARKET_PRICE, i32::from(view))
        };
        encode(|w| msg.encode(w))
    }

    /// Those of an even number watch view 0, the others view 1.
    fn publish(&mut self, view: u8, msg: &[u8]) {
        let Self { shared, ripples, waiters, now, .. } = self;
        let mut watching =
            waiters.iter_mut().enumerate().filter(|(who, w)| *who as u8 % 2 == view && w.watches).peekable();
        if watching.peek().is_none() {
            return shared.end(view);
        }
        let merge = shared.add(view, msg, ripples);
        assert_eq!(merge.is_some(), may_merge(&UpdateMsg::decode(msg).unwrap()));
        for (_, waiter) in watching {
            waiter.all.push(msg.to_vec());
            match merge {
                Some(merge) if waiter.waits_in == Some(merge) => {}
                Some(merge) => {
                    waiter.entries.push(Ok((merge, shared.join(merge, *now))));
                    waiter.waits_in = Some(merge);
                }
                None => {
                    waiter.waits_in = None;
                    waiter.entries.push(Err(msg.to_vec()));
                }
            }
        }
    }

    fn tell(&mut self, who: usize) {
        let waiter = &mut self.waiters[who];
        if waiter.watches {
            // Not an update at all: it stays where it is.
            waiter.all.push(b"told".to_vec());
            waiter.entries.push(Err(b"told".to_vec()));
            if let Some(merge) = waiter.waits_in.take() {
                self.shared.end_merge(merge);
            }
        }
    }

    fn take(&mut self, who: usize) {
        let waiter = &mut self.waiters[who];
        let mut got = Vec::new();
        for entry in waiter.entries.drain(..) {
            match entry {
                Ok((merge, since)) => {
                    self.shared.take(merge, since, self.now, |msg| got.push(msg.to_vec())).unwrap();
                }
                Err(msg) => got.push(msg),
            }
        }
        waiter.waits_in = None;
        let came = waiter.all[waiter.taken..].to_vec();
        waiter.taken = waiter.all.len();
        self.compare(who, &came, &got);
    }

    /// What was given leads where everything leads that came: the same image, what is kept as it came and in its place, every update counted.
    fn compare(&mut self, who: usize, came: &[Vec<u8>], got: &[Vec<u8>]) {
        self.spared += (came.len() - got.len().min(came.len())) as u32;
        let is_kept = |msg: &&Vec<u8>| UpdateMsg::decode(msg).map_or(true, |update| !may_merge(&update));
        assert!(came.iter().filter(is_kept).eq(got.iter().filter(is_kept)), "what is kept, for {who}");
        let count = |msgs: &[Vec<u8>]| -> u32 {
            let of = |msg: &Vec<u8>| {
                UpdateMsg::decode(msg).map_or(1, |update| update.conflation.map_or(1, |c| u32::from(c.count)))
            };
            msgs.iter().map(of).sum()
        };
        assert_eq!(count(came), count(got), "updates counted, for {who}");
        let last_seq = |msgs: &[Vec<u8>]| msgs.iter().rev().find_map(|msg| UpdateMsg::decode(msg).ok()?.seq_num);
        assert_eq!(last_seq(came), last_seq(got), "the last number, for {who}");
        if self.ripples.is_none() {
            compare_headers(came, got);
        }
        let (mut whole, mut given) = self.waiters[who].images.take().unwrap();
        let schema = self.schema();
        // At each message that is kept both are the same, and at the end.
        let divided = |msgs: &[Vec<u8>]| -> Vec<Vec<Vec<u8>>> {
            msgs.split_inclusive(|msg| is_kept(&msg)).map(<[_]>::to_vec).collect()
        };
        for (came, got) in divided(came).iter().zip(&divided(got)) {
            for msg in came {
                apply(&mut whole, msg, &schema);
            }
            for msg in got {
                apply(&mut given, msg, &schema);
            }
            assert_eq!(written(&whole), written(&given), "the image of {who}");
        }
        self.waiters[who].images = Some((whole, given));
    }

    fn run(&mut self, steps: &[Step]) {
        let initial: Vec<(i16, u32)> = FIDS.iter().chain(&[24, 26]).map(|&fid| (fid, 1_000 + fid as u32)).collect();
        for step in steps {
            self.now += 7_000_000;
            match *step {
                Step::Update { view, fids, kind, conflation } => {
                    let msg = self.update(view, fids, kind, conflation);
                    self.publish(view, &msg);
                }
                Step::Begin { who } if !self.waiters[who as usize].watches => {
                    let schema = self.schema();
                    let image = || {
                        let mut payload = Payload::new(DataType::FIELD_LIST);
                        payload.refresh(DataType::FIELD_LIST, &fields(&initial), &schema).unwrap();
                        payload
                    };
                    let images = Some((image(), image()));
                    self.waiters[who as usize] = Waiter { watches: true, images, ..Waiter::default() };
                }
                Step::Begin { .. } => {}
                Step::Take { who } => self.take_if(who as usize),
                Step::Deliver { who } => self.tell(who as usize),
                Step::Leave { who } => {
                    let waiter = std::mem::take(&mut self.waiters[who as usize]);
                    for (merge, since) in waiter.entries.into_iter().flatten() {
                        self.shared.leave(merge, since);
                    }
                }
            }
            let waiting = self.waiters.iter().map(|waiter| waiter.entries.iter().flatten().count()).sum();
            self.shared.check(waiting, |_| true);
        }
        (0..6).for_each(|who| self.take_if(who));
        assert!(self.shared.is_empty(), "nobody waits, and something is kept");
    }

    fn take_if(&mut self, who: usize) {
        if self.waiters[who].watches {
            self.take(who);
        }
    }
}

/// What each message says of the updates that it stands for is true of them.
fn compare_headers(came: &[Vec<u8>], got: &[Vec<u8>]) {
    let count_of = |update: &UpdateMsg<'_>| update.conflation.map_or(1, |conflation| conflation.count);
    let mut came = came.iter();
    for msg in got {
        let Ok(update) = UpdateMsg::decode(msg) else {
            assert_eq!(came.next(), Some(msg));
            continue;
        };
        let (mut left, mut of) = (count_of(&update), Vec::new());
        while left > 0 {
            let one = UpdateMsg::decode(came.next().unwrap()).unwrap();
            left = left.checked_sub(count_of(&one)).unwrap();
            of.push(one);
        }
        let is_discardable = |one: &UpdateMsg<'_>| one.flags.contains(UpdateFlags::DISCARDABLE);
        assert_eq!(of.iter().all(is_discardable), is_discardable(&update));
        let of_one_type = of.iter().all(|one| one.update_type == of[0].update_type);
        assert_eq!(update.update_type, if of_one_type { of[0].update_type } else { UpdateType::MULTIPLE });
        let told = of.iter().filter_map(|one| one.conflation).map(|conflation| conflation.time).max();
        assert!(update.conflation.map_or(0, |conflation| conflation.time) >= told.unwrap_or(0));
        assert_eq!(update.seq_num, of.last().unwrap().seq_num);
    }
}

fn apply(payload: &mut Payload, msg: &[u8], schema: &Schema<'_>) {
    let Ok(update) = UpdateMsg::decode(msg) else { return };
    let ripple = schema.ripple && !update.flags.contains(UpdateFlags::DO_NOT_RIPPLE);
    payload.update(update.container, update.body, &Schema { ripple, ..*schema }).unwrap();
}

fn written(payload: &Payload) -> Vec<u8> {
    encode(|w| payload.write(w))
}

proptest! {
    #[test]
    fn each_gets_what_a_merge_of_its_own_would_give(
        steps in prop::collection::vec(step(), 1..150),
        ripple in any::<bool>(),
    ) {
        World::new(ripple).run(&steps);
    }
}

#[test]
fn most_updates_are_spared() {
    let mut world = World::new(true);
    let mut steps: Vec<Step> = (0..6).map(|who| Step::Begin { who }).collect();
    for at in 0..1_000_u32 {
        steps.push(Step::Update { view: (at % 2) as u8, fids: 1 + (at % 127) as u8, kind: 20, conflation: None });
        if at % 50 == 0 {
            steps.push(Step::Take { who: (at / 50 % 6) as u8 });
        }
    }
    world.run(&steps);
    assert!(world.spared > 2_000, "only {} of 3,000 were spared", world.spared);
}

type Rows = BTreeMap<Vec<u8>, BTreeMap<i16, Vec<u8>>>;

/// The rows of a map that was written, and its summary under the empty key.
fn rows(body: &[u8]) -> Rows {
    let fields = |data: &[u8]| {
        let list = FieldList::decode(data, &SetScope::NONE).unwrap();
        list.entries().map(Result::unwrap).map(|entry| (entry.fid, entry.data.to_vec())).collect()
    };
    let map = rwf::Map::decode(body, &SetScope::NONE).unwrap();
    let mut rows: Rows =
        map.entries().map(Result::unwrap).map(|entry| (entry.key.to_vec(), fields(entry.data))).collect();
    rows.extend(map.summary().map(|summary| (Vec::new(), fields(summary))));
    rows
}

proptest! {
    #[test]
    fn books_are_shared_by_row(
        updates in prop::collection::vec(
            (prop::option::of(0..3_i16), prop::collection::vec((0..7_u64, 0..3_u8, 0..4_i16), 1..5), 0..6_usize),
            1..60,
        ),
    ) {
        let head = MapHead::new(DataType::UINT, DataType::FIELD_LIST);
        let first = encode(|w| {
            let mut map = MapEncoder::begin(w, head)?;
            map.summary(LenForm::Shortest, |w| w.bytes(&fields(&[(1, 7)])))?;
            for key in 0..4 {
                map.entry(MapAction::ADD, &Primitive::UInt(key), |w| w.bytes(&fields(&[(1, key as u32), (2, 9)])))?;
            }
            map.finish()
        });
        let image = || {
            let mut payload = Payload::new(DataType::MAP);
            payload.refresh(DataType::MAP, &first, &Schema::NONE).unwrap();
            payload
        };
        let (mut shared, mut whole) = (SharedMerges::<u8>::default(), image());
        // Five wait, each takes at other times.
        let mut waiters: Vec<(Payload, Option<(MergeId, u32)>)> = (0..5).map(|_| (image(), None)).collect();
        let mut number = 0;
        let take = |shared: &mut SharedMerges<u8>, waiter: &mut (Payload, Option<(MergeId, u32)>), whole: &Payload| {
            let (given, entry) = waiter;
            if let Some((merge, since)) = entry.take() {
                shared.take(merge, since, 0, |msg| apply(given, msg, &Schema::NONE)).unwrap();
                assert_eq!(rows(&written(given)), rows(&written(whole)));
            }
        };
        for (summary, changes, taker) in &updates {
            let body = encode(|w| {
                let mut map = MapEncoder::begin(w, head)?;
                if let Some(fid) = summary {
                    number += 1;
                    map.summary(LenForm::Shortest, |w| w.bytes(&fields(&[(*fid, number)])))?;
                }
                for &(key, action, fid) in changes {
                    number += 1;
                    let action = MapAction(1 + action);
                    map.entry(action, &Primitive::UInt(key), |w| w.bytes(&fields(&[(1 + fid, number)])))?;
                }
                map.finish()
            });
            let update = UpdateMsg { container: DataType::MAP, body: &body, ..UpdateMsg::new(Domain::MARKET_BY_ORDER, 5) };
            let msg = encode(|w| update.encode(w));
            apply(&mut whole, &msg, &Schema::NONE);
            let merge = shared.add(0, &msg, &Ripples::default()).unwrap();
            for (_, entry) in &mut waiters {
                if entry.is_none() {
                    *entry = Some((merge, shared.join(merge, 0)));
                }
            }
            if let Some(waiter) = waiters.get_mut(*taker) {
                take(&mut shared, waiter, &whole);
            }
        }
        for waiter in &mut waiters {
            take(&mut shared, waiter, &whole);
        }
        assert!(shared.is_empty());
    }
}

#[test]
fn a_merge_counts_for_the_one_who_waits_longest() {
    let mut shared = SharedMerges::<u8>::default();
    let msg = |value| {
        let body = fields(&[(22, value)]);
        let update =
            UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        encode(|w| update.encode(w))
    };
    let ripples = Ripples::default();
    let first = shared.add(1, &msg(0), &ripples).unwrap();
    let since = shared.join(first, 0);
    for value in 1..32_767 {
        assert_eq!(shared.add(1, &msg(value), &ripples), Some(first));
    }
    let late = shared.join(first, 5);
    let next = shared.add(1, &msg(7), &ripples).unwrap();
    assert_ne!(next, first, "conflation information says no more than 32,767");
    shared.join(next, 9);
    let mut counts = Vec::new();
    let mut count = |msg: &[u8]| counts.push(UpdateMsg::decode(msg).unwrap().conflation.map_or(1, |c| c.count));
    shared.take(first, since, 0, &mut count).unwrap();
    shared.take(first, late, 0, &mut count).unwrap();
    assert_eq!(counts, [32_767, 1]);
    assert_eq!(shared.len(), 1);
    // Each waits for it for a while: it goes on for all of them, however many updates that is.
    let mut waits = 1;
    for value in 0..100_000 {
        assert_eq!(shared.add(1, &msg(value), &ripples), Some(next), "update {value}");
        if value % 1_000 == 0 {
            let since = shared.join(next, 0);
            shared.leave(next, waits);
            waits = since;
        }
    }
    shared.leave(next, waits);
    assert!(shared.is_empty());
}
