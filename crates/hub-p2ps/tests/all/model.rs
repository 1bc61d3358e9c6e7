//! Random operations against a model: whatever clients and a Source Distributor do, no update is lost, doubled or out of
//! order, and none comes before its image.
//!
//! Every item is a counter: an update adds one to field 1, an image holds the count so far. So a client that has its
//! image knows what each update must be, and at the end what every stream must hold.

use crate::world::{PRICE, encode, fields};
use hub_content::cache::rules::CacheRules;
use hub_p2ps::{ClientId, ClientInfo, Config, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, Request, flags};
use rwf::container::{FieldList, SetScope};
use rwf::msg::{CloseMsg, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, State, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

const SOURCE: SourceId = SourceId(0);
const ITEMS: u64 = 6;
const CLIENTS: u32 = 4;
const SECOND: u64 = 1_000_000_000;

/// xorshift64*: a run is its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A stream as its client knows it.
#[derive(Debug, Clone)]
struct Stream {
    item: u64,
    snapshot: bool,
    /// Only field 1 is wanted.
    view: bool,
    /// The count that the client has, after its image.
    count: Option<u64>,
    /// It has had an image, before it paused perhaps.
    answered: bool,
    /// An image was asked for by this client and has not begun.
    asked: bool,
    /// Parts of a set that have come, while it is not complete.
    parts: Option<u16>,
    /// The set was asked for.
    set_solicited: bool,
    paused: bool,
    suspect: bool,
}

/// An item at the Source Distributor.
#[derive(Debug, Default)]
struct Held {
    item: u64,
    /// Images that were asked for.
    wanted: u32,
    /// Parts that are still to be sent of the set that has begun, and what it holds.
    left: Option<(u16, u64)>,
    part: u16,
    bits: u8,
    /// The set is one that nobody asked for.
    unasked: bool,
    /// It rests: no updates, but between the parts of a set.
    paused: bool,
}

impl Held {
    fn rests(&self) -> bool {
        self.paused && self.left.is_none()
    }
}

struct Run {
    random: Random,
    p2ps: P2ps,
    now: u64,
    writer: BlockWriter,
    incarnation: u32,
    up: bool,
    counts: Vec<u64>,
    /// What the P2PS has asked for and the Source Distributor has not read.
    requests: VecDeque<Vec<u8>>,
    held: BTreeMap<u32, Held>,
    /// Snapshots too have handles of their own: handles in use, by item and kind.
    next_handle: u32,
    free_handles: Vec<u32>,
    streams: BTreeMap<(u32, i32), Stream>,
    next_stream: i32,
    /// Images that the provider sent by itself: item and count.
    unasked: BTreeSet<(u64, u64)>,
    log: Vec<String>,
}

fn name(item: u64) -> String {
    format!("ITEM{item}")
}

fn number(name: &[u8]) -> u64 {
    std::str::from_utf8(&name[4..]).unwrap().parse().unwrap()
}

impl Run {
    fn new(seed: u64) -> Self {
        // Every other world has a cache, of few items or of all.
        let cached = CacheRules { max_items: (seed % 5) as usize, ..CacheRules::everything() };
        let cache = if seed % 2 == 1 { cached } else { CacheRules::default() };
        let config = Config { opens_per_turn: 3, open_window: 4, item_limit: 40, cache, ..Config::default() };
        let mut run = Self {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            p2ps: P2ps::new(config, 7),
            now: SECOND,
            writer: BlockWriter::new(1),
            incarnation: 1,
            up: false,
            counts: vec![0; ITEMS as usize],
            requests: VecDeque::new(),
            held: BTreeMap::new(),
            next_handle: 0,
            free_handles: Vec::new(),
            streams: BTreeMap::new(),
            next_stream: 5,
            unasked: BTreeSet::new(),
            log: Vec::new(),
        };
        run.source_up();
        for client in 0..CLIENTS {
            run.connect(client);
        }
        run
    }

    fn connect(&mut self, client: u32) {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.p2ps.client_up(self.now, ClientId(client), ClientInfo { address });
        let request = login::Request { name: "user".to_owned(), ..login::Request::default() };
        self.p2ps.client_message(self.now, ClientId(client), &encode(|w| request.encode(w)));
    }

    fn source_up(&mut self) {
        self.up = true;
        self.incarnation += 1;
        self.writer = BlockWriter::new(self.incarnation);
        (self.held, self.next_handle, self.free_handles) = (BTreeMap::new(), 0, Vec::new());
        self.requests.clear();
        self.p2ps.source_up(self.now, SOURCE);
        let mut entry = Service::new(40, Action::Add);
        entry.info = Some(Part::Set(crate::world::info("FEED", &[6], &[])));
        entry.state = Some(Part::Set(ServiceState::new(true)));
        let filters = encode(|w| entry.encode_filters(u32::MAX, w));
        self.writer.event(&Event::Service { target: ALL, service: 40, cached: false, name: "FEED", filters: &filters });
        self.turn();
    }

    fn source_down(&mut self) {
        self.up = false;
        self.turn();
        self.requests.clear();
        for stream in self.streams.values_mut() {
            // A set that was broken off does not go on; whoever asked for it still waits for a whole one.
            if stream.parts.take().is_some() {
                stream.asked |= stream.set_solicited;
            }
        }
        self.p2ps.source_down(self.now, SOURCE);
        self.turn();
    }

    /// One block, one flush, requests taken over.
    fn turn(&mut self) {
        let block = self.writer.block().map(<[u8]>::to_vec).unwrap_or_default();
        self.writer.clear();
        if !block.is_empty() {
            self.p2ps.hub_block(self.now, SOURCE, &block).unwrap();
        }
        let mut got = Vec::new();
        self.p2ps.flush(&block, |client, deliveries| {
            got.extend(deliveries.map(|(body, stream)| (client.0, stream, body.to_vec())));
        });
        for (client, stream, body) in got {
            self.check(client, stream, &body);
        }
        let requests = &mut self.requests;
        self.p2ps.requests(|_, block| {
            for message in Block::parse(block).unwrap().messages() {
                // A block of its own for each, so that they can be read one at a time.
                let message = message.unwrap();
                let mut one = BlockWriter::new(1);
                one.request(&Request::decode(&message).unwrap());
                requests.push_back(one.block().unwrap().to_vec());
            }
        });
        assert!(self.p2ps.closing().next().is_none());
    }

    fn fail(&self, what: &str) -> ! {
        let from = self.log.len().saturating_sub(60);
        panic!("{what}\n{}", self.log[from..].join("\n"));
    }

    /// What a client gets has to fit to what it has.
    fn check(&mut self, client: u32, id: i32, body: &[u8]) {
        let msg = Msg::decode(body).unwrap();
        self.log.push(format!("  -> {client} {id}: {}", crate::world::words(body)));
        if id == 1 {
            return;
        }
        let Some(mut stream) = self.streams.get(&(client, id)).cloned() else {
            self.fail("a message on a stream that is not open");
        };
        let mut ended = false;
        match &msg {
            Msg::Status(status) => {
                let state = status.state.unwrap();
                if (state.stream, state.data) != (StreamState::OPEN, DataState::SUSPECT) || stream.suspect {
                    self.fail("a status that nothing calls for");
                }
                stream.suspect = true;
            }
            Msg::Update(_) => {
                let count = value(msg.body());
                if stream.paused {
                    self.fail("an update while paused");
                }
                match stream.count {
                    None => self.fail("an update before its image"),
                    Some(known) if count != known + 1 && !stream.suspect => self.fail("an update lost or doubled"),
                    Some(_) => stream.count = Some(count),
                }
            }
            Msg::Refresh(refresh) => ended = self.check_image(&mut stream, refresh),
            _ => self.fail("a message of no use"),
        }
        if ended {
            self.streams.remove(&(client, id));
        } else {
            self.streams.insert((client, id), stream);
        }
    }

    fn check_image(&self, stream: &mut Stream, refresh: &RefreshMsg<'_>) -> bool {
        let flag = |flag| refresh.flags.contains(flag);
        let (solicited, complete) = (flag(RefreshFlags::SOLICITED), flag(RefreshFlags::REFRESH_COMPLETE));
        let part = refresh.part_num.unwrap_or(0);
        // The count is in the first part alone: an update may come before the second.
        let count = if part == 0 { value(refresh.body) } else { 0 };
        let expected_fields = usize::from(part == 0) + usize::from(!stream.view);
        if FieldList::decode(refresh.body, &SetScope::NONE).unwrap().len() != expected_fields {
            self.fail("an image that is not what the view shows");
        }
        if part > 0 {
            if stream.parts != Some(part) {
                self.fail("a part without those before it");
            }
        } else {
            let recovery = stream.suspect && stream.answered;
            // Who asked has that which all get, too, and the answer behind it.
            let goes_on = stream.answered && !stream.paused && !stream.snapshot && complete;
            let before_its_answer = !solicited && stream.asked && goes_on;
            if solicited != stream.asked && !before_its_answer {
                self.fail("an answer that is not solicited, or the other way round");
            }
            if recovery && solicited && goes_on && stream.count.is_some() && refresh.state.data == DataState::OK {
                self.fail("a recovery that whoever shares the stream does not hear of");
            }
            if recovery && !solicited && !flag(RefreshFlags::CLEAR_CACHE) {
                self.fail("a recovery that is no recovery");
            }
            if !recovery && !solicited && !self.unasked.contains(&(stream.item, count)) {
                self.fail("an image that nobody asked for");
            }
            if stream.count.is_some_and(|known| known != count) && !stream.suspect && !stream.paused {
                self.fail("an image that does not follow what came before");
            }
            if stream.count.is_some_and(|known| count < known) {
                self.fail("an image from the past");
            }
            let suspect = refresh.state.data == DataState::SUSPECT;
            (stream.count, stream.asked, stream.suspect) = (Some(count), before_its_answer, suspect);
            (stream.set_solicited, stream.answered) = (solicited, true);
        }
        stream.parts = if complete { None } else { Some(part + 1) };
        let streaming = refresh.state.stream == StreamState::OPEN;
        if streaming == stream.snapshot {
            self.fail("the wrong stream state");
        }
        complete && stream.snapshot
    }

    /// The Source Distributor does something.
    fn source_step(&mut self) {
        match self.random.below(10) {
            0..=4 => self.publish_update(),
            5 | 6 => self.read_request(),
            _ => self.publish_image(),
        }
        if self.random.one_in(3) {
            self.turn();
        }
    }

    fn publish_update(&mut self) {
        let item = self.random.below(ITEMS);
        self.counts[item as usize] += 1;
        let count = self.counts[item as usize];
        if !self.up {
            return;
        }
        let body = fields(&[(1, count), (2, 7)]);
        let update = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(PRICE, 3) };
        let rwf = encode(|w| update.encode(w));
        let handles: Vec<u32> = self
            .held
            .iter()
            .filter(|(_, held)| held.item == item && !held.rests())
            .map(|(handle, _)| *handle)
            .collect();
        for handle in handles {
            self.log.push(format!("update {handle} {} = {count}", name(item)));
            self.writer.update(handle, false, &rwf);
        }
    }

    fn read_request(&mut self) {
        let Some(block) = self.requests.pop_front() else { return };
        if !self.up {
            return;
        }
        let message = Block::parse(&block).unwrap().messages().next().unwrap().unwrap();
        match Request::decode(&message).unwrap() {
            Request::Open { token, flags, rwf, .. } => {
                let Msg::Request(request) = Msg::decode(rwf).unwrap() else { panic!() };
                let item = number(request.key.name.unwrap());
                self.log.push(format!("open {} as {flags}", name(item)));
                if self.random.one_in(12) {
                    let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::TIMEOUT, "");
                    return self.writer.event(&Event::Refused { target: 7, token, state });
                }
                let handle = self.free_handles.pop().unwrap_or_else(|| {
                    self.next_handle += 1;
                    self.next_handle - 1
                });
                let bits = if flags & flags::SNAPSHOT_ONLY != 0 { flags::SNAPSHOT } else { 0 };
                let paused = request.flags.contains(RequestFlags::PAUSE);
                self.held.insert(handle, Held { item, wanted: 1, bits, paused, ..Held::default() });
                self.writer.event(&Event::ItemOpened { target: 7, handle, token });
            }
            Request::Refresh { handle, .. } => self.held.get_mut(&handle).unwrap().wanted += 1,
            Request::Reissue { handle, serial, rwf, .. } => {
                let Msg::Request(request) = Msg::decode(rwf).unwrap() else { panic!() };
                let held = self.held.get_mut(&handle).unwrap();
                held.paused = request.flags.contains(RequestFlags::PAUSE);
                self.log.push(format!("reissue {handle} as {:?}, {serial:?}", request.flags));
                if let Some(serial) = serial {
                    held.wanted += 1;
                    let position = self.writer.next_position();
                    self.writer.event(&Event::Answered { target: 7, handle, serial, position });
                }
            }
            Request::Close { handle } => {
                self.log.push(format!("close {handle}"));
                assert!(self.held.remove(&handle).is_some(), "each handle is given back once");
                self.free_handles.push(handle);
            }
            Request::Hello { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    /// An image that is due, or the next part of one; now and then one that nobody asked for.
    fn publish_image(&mut self) {
        if !self.up {
            return;
        }
        if self.random.one_in(8) {
            let idle = |held: &&mut Held| held.wanted == 0 && held.left.is_none() && held.bits == 0;
            if let Some(held) = self.held.values_mut().find(idle) {
                (held.wanted, held.unasked) = (1, true);
            }
        }
        let due: Vec<u32> =
            self.held.iter().filter(|(_, h)| h.wanted > 0 || h.left.is_some()).map(|(n, _)| *n).collect();
        if due.is_empty() {
            return;
        }
        let handle = due[self.random.below(due.len() as u64) as usize];
        let parts = if self.random.one_in(2) { 1 } else { 2 + self.random.below(2) as u16 };
        let held = self.held.get_mut(&handle).unwrap();
        let mut bits = held.bits | if held.unasked { flags::UNSOLICITED } else { 0 };
        if held.unasked {
            self.unasked.insert((held.item, held.left.map_or(self.counts[held.item as usize], |(_, count)| count)));
        }
        let count = if let Some((_, count)) = held.left {
            count
        } else {
            // Several that wait may be answered by one.
            held.wanted = if parts == 1 && !held.unasked { 0 } else { held.wanted - 1 };
            held.left = Some((parts, self.counts[held.item as usize]));
            held.part = 0;
            bits |= flags::FIRST;
            self.counts[held.item as usize]
        };
        let left = held.left.unwrap().0 - 1;
        let mut message_flags = RefreshFlags::SOLICITED;
        if left == 0 {
            bits |= flags::COMPLETE;
            message_flags |= RefreshFlags::REFRESH_COMPLETE;
        }
        let body = if held.part == 0 { fields(&[(1, count), (2, 7)]) } else { fields(&[(2, 7)]) };
        let refresh = RefreshMsg {
            flags: message_flags,
            part_num: Some(held.part),
            container: DataType::FIELD_LIST,
            body: &body,
            ..RefreshMsg::new(PRICE, 3)
        };
        held.part += 1;
        held.left = (left > 0).then_some((left, count));
        held.unasked &= left > 0;
        let item = held.item;
        let rwf = encode(|w| refresh.encode(w));
        let position = self.writer.next_position();
        self.log.push(format!("image {handle} {} = {count}, {left} parts left", name(item)));
        self.writer.event(&Event::Image { target: 7, handle, group: 1, flags: bits, position, rwf: &rwf });
    }

    /// A client does something.
    fn client_step(&mut self) {
        let client = self.random.below(CLIENTS.into()) as u32;
        match self.random.below(12) {
            0..=4 => self.open(client),
            5 | 6 => self.with_stream(client, Self::close),
            7 | 8 => self.with_stream(client, Self::refresh),
            9 | 10 => self.with_stream(client, Self::pause_or_resume),
            _ if self.random.one_in(4) => {
                self.log.push(format!("client {client} reconnects"));
                self.p2ps.client_down(self.now, ClientId(client));
                self.streams.retain(|(owner, _), _| *owner != client);
                self.connect(client);
            }
            _ => {}
        }
        if self.random.one_in(2) {
            self.turn();
        }
    }

    fn with_stream(&mut self, client: u32, act: fn(&mut Self, u32, i32)) {
        // Deliveries have to be known before the client decides.
        self.turn();
        let own: Vec<i32> = self.streams.keys().filter(|(owner, _)| *owner == client).map(|(_, id)| *id).collect();
        if !own.is_empty() {
            let id = own[self.random.below(own.len() as u64) as usize];
            act(self, client, id);
        }
    }

    fn request(&mut self, client: u32, id: i32, item: u64, view: bool, flags: RequestFlags) {
        let name = name(item);
        let payload = Payload { view: Some(View::Fields(vec![1])), ..Payload::default() };
        let payload = encode(|w| payload.encode(w));
        let mut request = RequestMsg { flags, key: MsgKey::item(1, name.as_bytes()), ..RequestMsg::new(PRICE, id) };
        if view {
            request.flags |= RequestFlags::HAS_VIEW;
            (request.container, request.body) = (DataType::ELEMENT_LIST, &payload);
        }
        let bytes = encode(|w| request.encode(w));
        self.p2ps.client_message(self.now, ClientId(client), &bytes);
    }

    fn open(&mut self, client: u32) {
        if self.streams.keys().filter(|(owner, _)| *owner == client).count() >= 20 {
            return;
        }
        let id = self.next_stream;
        self.next_stream += 1;
        let stream = Stream {
            item: self.random.below(ITEMS),
            snapshot: self.random.one_in(4),
            view: self.random.one_in(4),
            count: None,
            answered: false,
            asked: true,
            parts: None,
            set_solicited: false,
            paused: false,
            suspect: false,
        };
        self.log.push(format!("client {client} opens {id} {stream:?}"));
        let flags = if stream.snapshot { RequestFlags::NONE } else { RequestFlags::STREAMING };
        let (item, view) = (stream.item, stream.view);
        self.streams.insert((client, id), stream);
        self.request(client, id, item, view, flags);
    }

    fn close(&mut self, client: u32, id: i32) {
        self.log.push(format!("client {client} closes {id}"));
        let close = CloseMsg::new(PRICE, id);
        self.p2ps.client_message(self.now, ClientId(client), &encode(|w| close.encode(w)));
        self.streams.remove(&(client, id));
    }

    fn refresh(&mut self, client: u32, id: i32) {
        let stream = self.streams.get_mut(&(client, id)).unwrap();
        if stream.snapshot || stream.paused || stream.parts.is_some() {
            return;
        }
        stream.asked = true;
        let (item, view) = (stream.item, stream.view);
        self.log.push(format!("client {client} asks for a refresh of {id}"));
        self.request(client, id, item, view, RequestFlags::STREAMING);
    }

    fn pause_or_resume(&mut self, client: u32, id: i32) {
        let stream = self.streams.get_mut(&(client, id)).unwrap();
        if stream.snapshot || stream.count.is_none() || stream.parts.is_some() || stream.asked && !stream.paused {
            return;
        }
        stream.paused = !stream.paused;
        stream.asked = !stream.paused;
        let mut flags = RequestFlags::STREAMING;
        if stream.paused {
            flags |= RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
        } else {
            // Updates that were missed come with the image that is asked for.
            stream.count = None;
        }
        let (item, view) = (stream.item, stream.view);
        self.log.push(format!("client {client} pauses or resumes {id}: {flags}"));
        self.request(client, id, item, view, flags);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0 if self.up => {
                self.log.push("source goes down".to_owned());
                self.source_down();
            }
            1..=20 if !self.up => {
                self.log.push("source comes up".to_owned());
                self.source_up();
            }
            2 => {
                self.now += SECOND * self.random.below(5);
                self.p2ps.on_timer(self.now);
            }
            3..=40 => self.client_step(),
            _ => self.source_step(),
        }
    }

    /// Everything comes to rest; then every stream has what there is to have.
    fn finish(mut self) {
        if !self.up {
            self.source_up();
        }
        let due = |held: &Held| held.wanted > 0 || held.left.is_some();
        for _ in 0..2_000 {
            self.now += 10 * SECOND;
            self.p2ps.on_timer(self.now);
            self.turn();
            self.read_request();
            self.publish_image();
            self.turn();
            if self.requests.is_empty() && !self.held.values().any(due) && self.p2ps.counters().items_waiting == 0 {
                self.now += 100 * SECOND;
                self.p2ps.on_timer(self.now);
                self.turn();
                if self.requests.is_empty() {
                    break;
                }
            }
        }
        for item in 0..ITEMS {
            let stream = self.streams.iter().find(|(_, s)| s.item == item && !s.paused && s.count.is_none());
            if let Some((id, stream)) = stream {
                self.log.push(format!("{id:?} {stream:?}"));
                self.fail("a stream that never got its image");
            }
        }
        for ((client, id), stream) in &self.streams {
            let now = self.counts[stream.item as usize];
            if !stream.paused && stream.count != Some(now) {
                self.fail(&format!("stream {id} of client {client} has {:?}, the item {now}", stream.count));
            }
            if stream.snapshot || stream.suspect && !stream.paused {
                self.fail(&format!("stream {id} of client {client} is left over: {stream:?}"));
            }
        }
        for client in 0..CLIENTS {
            self.p2ps.client_down(self.now, ClientId(client));
        }
        self.streams.clear();
        self.turn();
        while !self.requests.is_empty() {
            self.read_request();
            self.turn();
        }
        let counters = self.p2ps.counters();
        assert_eq!((counters.items, counters.watchers, self.held.len()), (0, 0, 0), "nothing is left behind");
        assert_eq!(counters.hub_messages_bad, 0);
    }
}

#[test]
fn no_update_is_lost_doubled_or_early() {
    // `HUB_MODEL_SEEDS` runs more than the usual number.
    let seeds = std::env::var("HUB_MODEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(400);
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut run = Run::new(seed);
            for _ in 0..600 {
                run.step();
            }
            run.finish();
        });
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

fn value(body: &[u8]) -> u64 {
    let list = FieldList::decode(body, &SetScope::NONE).unwrap();
    let entry = list.entries().map(Result::unwrap).find(|entry| entry.fid == 1).unwrap();
    entry.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
