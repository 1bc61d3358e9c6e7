//! Slow clients beside the same clients that take everything: two P2PSs in step, of which one conflates just in time. What a client is
//! sent by the one leads where leads what it is sent by the other: whatever stays as it came, it gets in the same order, with the same
//! fields before each such message, and at the end.

use crate::world::{PRICE, SECOND, World, encode, fields, item, status};
use hub_p2ps::conflation::merge::may_merge;
use hub_p2ps::conflation::{JustInTime, ServiceConflation, Settings};
use hub_p2ps::egress::Limits;
use hub_p2ps::{ClientId, Config};
use hub_stream::flags;
use rwf::msg::{CloseMsg, Domain, Msg, RequestFlags, RequestMsg, UpdateFlags, UpdateMsg, UpdateType};
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, FieldList, SetScope, StateCode, StreamState};
use std::collections::BTreeMap;

const NAMES: [&str; 3] = ["IBM", "TRI", "LSEG"];
const CLIENTS: u32 = 5;
/// Of each client; the last one is always a view, the others change.
const STREAMS: i32 = 4;

/// xorshift64*: a run is its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

type Fields = BTreeMap<i16, Vec<u8>>;

fn apply(fields: &mut Fields, msg: &Msg<'_>) {
    if matches!(msg, Msg::Refresh(_)) {
        fields.clear();
    }
    if msg.container() == DataType::FIELD_LIST {
        let list = FieldList::decode(msg.body(), &SetScope::NONE).unwrap();
        fields.extend(list.entries().map(Result::unwrap).map(|entry| (entry.fid, entry.data.to_vec())));
    }
}

/// What a client was sent that stays as it came, with all fields of its streams before it, and the fields at the end. `whole` says whether all
/// streams count before a message of a directory, or only its own.
struct Seen {
    kept: BTreeMap<i32, Vec<(Vec<u8>, Fields)>>,
    services: Vec<(Vec<u8>, BTreeMap<i32, Fields>)>,
    at_end: BTreeMap<i32, Fields>,
    messages: usize,
    counted: BTreeMap<i32, u32>,
}

/// The messages of a client from where its fields were `before`.
fn seen(before: &BTreeMap<i32, Fields>, messages: &[Vec<u8>]) -> Seen {
    let mut streams = before.clone();
    let (mut kept, mut services): (BTreeMap<i32, Vec<_>>, Vec<_>) = Default::default();
    let mut counted = BTreeMap::new();
    for bytes in messages {
        let msg = Msg::decode(bytes).unwrap();
        let stream = msg.stream_id();
        if let Msg::Status(status) = &msg
            && let Some(state) = status.state
            && matches!(state.code, StateCode::JIT_CONFLATION_STARTED | StateCode::REALTIME_RESUMED)
        {
            continue;
        }
        if let Msg::Update(update) = &msg
            && may_merge(update)
        {
            *counted.entry(stream).or_default() +=
                update.conflation.map_or(1, |conflation| u32::from(conflation.count));
        } else if msg.domain() == Domain::SOURCE {
            services.push((bytes.clone(), streams.clone()));
            continue;
        } else {
            kept.entry(stream).or_default().push((bytes.clone(), streams.get(&stream).cloned().unwrap_or_default()));
        }
        apply(streams.entry(stream).or_default(), &msg);
    }
    Seen { kept, services, at_end: streams, messages: messages.len(), counted }
}

struct Pair {
    random: Random,
    /// The one that conflates, and the other.
    worlds: [World; 2],
    /// Fields of the streams of each client, after the last comparison.
    fields: Vec<BTreeMap<i32, Fields>>,
    /// What the other has sent since.
    owed: Vec<Vec<Vec<u8>>>,
    value: u64,
    spared: usize,
    log: Vec<String>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let slow = Limits { guaranteed: 300, conflate: 350, tick_by_tick: 50, ..Limits::default() };
        let worlds = [slow, Limits::default()].map(|egress| {
            let others = ServiceConflation { just_in_time: JustInTime::All, ..ServiceConflation::default() };
            let conflation = Settings { others, ripple: seed % 2 == 1, ..Settings::default() };
            let mut world = World::with_feed_and(Config { egress, conflation, ..Config::default() });
            world.clients([0, 1, 2, 3, 4]);
            (0..CLIENTS).for_each(|client| world.directory(client, 50));
            for (handle, name) in (4..).zip(NAMES) {
                world.open(0, 5 + handle as i32 - 4, name, handle);
            }
            world.asked();
            (0..CLIENTS).for_each(|client| drop(world.raw(client)));
            world
        });
        let clients = || (0..CLIENTS).map(|_| Vec::new()).collect();
        let fields = (0..CLIENTS).map(|_| BTreeMap::new()).collect();
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self { random, worlds, fields, owed: clients(), value: 0, spared: 0, log: Vec::new() }
    }

    fn both(&mut self, act: impl Fn(&mut World)) {
        self.worlds.iter_mut().for_each(act);
        for client in 0..CLIENTS {
            let got = self.worlds[1].raw(client);
            self.owed[client as usize].extend(got);
        }
        let asked = self.worlds.each_mut().map(World::asked);
        assert_eq!(asked[0], asked[1], "what is asked for does not depend on who is slow");
    }

    fn update(&mut self) -> Vec<u8> {
        let count = 1 + self.random.below(4);
        let mut list: Vec<(i16, u64)> = Vec::new();
        for _ in 0..count {
            let fid = [22, 25, 30, 31, 6][self.random.below(5) as usize];
            if list.iter().all(|(known, _)| *known != fid) {
                self.value += 1 + self.random.below(60_000);
                list.push((fid, self.value));
            }
        }
        let (update_type, flags) = match self.random.below(14) {
            0 => (UpdateType::TRADE, UpdateFlags::NONE),
            1 => (UpdateType::QUOTE, UpdateFlags::DO_NOT_CONFLATE),
            2..5 => (UpdateType::UNSPECIFIED, UpdateFlags::NONE),
            _ => (UpdateType::QUOTE, UpdateFlags::NONE),
        };
        let body = fields(&list);
        let container = DataType::FIELD_LIST;
        let msg = UpdateMsg { container, update_type, flags, body: &body, ..UpdateMsg::new(PRICE, 77) };
        encode(|w| msg.encode(w))
    }

    fn step(&mut self) {
        let handle = 4 + self.random.below(3) as u32;
        let (client, stream) = (self.random.below(u64::from(CLIENTS)) as u32, 5 + self.random.below(4) as i32);
        let chosen = self.random.below(40);
        self.log.push(format!("{chosen}: handle {handle}, client {client}, stream {stream}"));
        match chosen {
            0..20 => {
                // Several in a turn, and something between them perhaps.
                let updates: Vec<(u32, Vec<u8>)> =
                    (0..=self.random.below(3)).map(|_| (4 + self.random.below(3) as u32, self.update())).collect();
                let image = (self.random.below(6) == 0).then(|| (self.random.below(2) == 0, self.random.below(3)));
                let value = self.value;
                self.both(|world| {
                    world.publish(0, |p| {
                        for (at, (handle, update)) in (0..).zip(&updates) {
                            p.writer.update(*handle, false, update);
                            if let Some((asked, place)) = image
                                && place == at
                            {
                                let body = [(22, value), (25, value + 1), (30, 7), (31, 8), (6, 9)];
                                let kind = if asked { 0 } else { flags::UNSOLICITED };
                                p.image_with(*handle, kind, &crate::world::refresh(&body));
                            }
                        }
                    });
                });
            }
            20..22 => {
                let bad = self.random.below(2) == 0;
                let data = if bad { DataState::SUSPECT } else { DataState::OK };
                self.both(|world| {
                    world.publish(0, |p| {
                        p.status(handle, 0, &status(StreamState::OPEN, data, StateCode::NONE));
                    });
                });
            }
            22..26 => {
                let name = NAMES[stream as usize % 3];
                let request_flags = match self.random.below(5) {
                    0 => RequestFlags::STREAMING | RequestFlags::PAUSE,
                    1 => RequestFlags::STREAMING | RequestFlags::NO_REFRESH,
                    _ => RequestFlags::STREAMING,
                };
                let has_view = stream == 5 + STREAMS - 1 || self.random.below(4) == 0;
                let named = if self.random.below(3) == 0 { vec![22, 30] } else { vec![22, 30, 6] };
                let view = encode(|w| {
                    let view = Some(View::Fields(named.clone()));
                    Payload { view, ..Payload::default() }.encode(w)
                });
                self.both(|world| {
                    let plain = RequestMsg { flags: request_flags, ..item(stream, name) };
                    let request = if has_view {
                        let flags = request_flags | RequestFlags::HAS_VIEW;
                        RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &view, ..plain }
                    } else {
                        plain
                    };
                    world.request(client, &request);
                });
            }
            // Client 0 keeps the items open.
            26 if client > 0 => self.both(|world| world.send(client, CloseMsg::new(PRICE, stream))),
            27 => {
                let request =
                    rwf::rdm::directory::Request { stream_id: 50, streaming: true, service_id: None, filter: 3 };
                self.both(|world| world.send_with(client, |w| request.encode(w)));
            }
            28 => self.both(|world| world.pass(SECOND / 50)),
            29..35 => {
                // Slow clients get slower, or take a little.
                let bytes = [0, 100, 400, 1_000, 1_000, 1_000][self.random.below(6) as usize];
                self.worlds[0].p2ps.client_backlog(ClientId(client), bytes);
                self.worlds[0].settle();
            }
            35..38 => self.compare(client),
            _ => {}
        }
        self.worlds.iter().for_each(|world| world.p2ps.check_invariants());
    }

    /// A client takes all that waits for it: it has what it would have had.
    fn compare(&mut self, client: u32) {
        self.worlds[0].p2ps.client_backlog(ClientId(client), 0);
        (0..60).for_each(|_| self.worlds[0].settle());
        let before = &self.fields[client as usize];
        let given = seen(before, &self.worlds[0].raw(client));
        let whole = seen(before, &std::mem::take(&mut self.owed[client as usize]));
        let log = || self.log[self.log.len().saturating_sub(60)..].join("\n");
        let (all, got): (Vec<_>, Vec<_>) = (whole.kept.iter().collect(), given.kept.iter().collect());
        assert_eq!(all.len(), got.len(), "{}", log());
        for ((stream, all), (other, got)) in all.into_iter().zip(got) {
            assert_eq!(stream, other, "client {client}: {}", log());
            let words = |list: &[(Vec<u8>, Fields)]| {
                list.iter().map(|(msg, fields)| format!("{fields:?} {}", crate::world::words(msg))).collect::<Vec<_>>()
            };
            assert!(all == got, "client {client}, stream {stream}\n{:#?}\n{:#?}\n{}", words(all), words(got), log());
        }
        assert!(whole.services == given.services, "services, client {client}\n{}", log());
        assert_eq!(whole.at_end, given.at_end, "client {client}\n{}", log());
        assert_eq!(whole.counted, given.counted, "updates counted, client {client}\n{}", log());
        self.spared += whole.messages.saturating_sub(given.messages);
        self.fields[client as usize] = whole.at_end;
    }
}

#[test]
fn who_is_slow_gets_what_leads_to_the_same() {
    let seeds = std::env::var("HUB_MODEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(80);
    let mut spared = 0;
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut pair = Pair::new(seed);
            (0..400).for_each(|_| pair.step());
            (0..CLIENTS).for_each(|client| pair.compare(client));
            let counters = pair.worlds[0].p2ps.counters();
            assert_eq!(counters.clients_conflated, 0);
            pair.spared
        });
        spared += *outcome.as_ref().unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(spared > 100 * seeds as usize, "only {spared} messages were spared");
}
