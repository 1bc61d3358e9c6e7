//! Permissions by seed: P2PSs with the same rights, one stream of items that both read, and clients of random users.
//!
//! Users, rights and locks change at random. Each payload says which item it is of, its version, what the item demanded then, and what the
//! message itself demands; so the oracle judges every message that leaves a P2PS by itself:
//!
//! * nothing goes to a client whose user lacks what its content demands;
//! * who may see an item and has its image gets every update that the user may see, once and in order;
//! * a stream or login is ended only when its user lacks a right then.

use crate::chain::random::Random;
use hub::p2ps::{ClientId, ClientInfo, Config, P2ps, SourceId};
use hub::stream::{ALL, Block, BlockWriter, Event, NO_GROUP, Request, flags};
use permissions::lock::{Lock, ServiceLock};
use permissions::rights::Rights;
use permissions::{EventKind, Mode, Settings, Verdict};
use rwf::container::{FieldList, FieldListEncoder, SetScope};
use rwf::msg::{
    CloseMsg, Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusMsg, UpdateMsg,
};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::rdm::request::{Payload, View};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Qos, State, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

const SECOND: u64 = 1_000_000_000;
const USERS: [&str; 5] = ["ann", "ben", "cat", "dan", "eve"];
const ITEMS: usize = 6;
/// PEs 0 to 4; a lock demands all of a set of them.
const PES: u32 = 5;
const P2PSS: usize = 2;
const CLIENTS: usize = 5;
const SOURCE: SourceId = SourceId(0);
const PRICE: Domain = Domain::MARKET_PRICE;
/// The service at the source.
const REMOTE: u16 = 40;

/// What a user has: unknown, known without the service, or PEs of it, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    Unknown,
    Nothing,
    Pes(u8),
}

impl Has {
    fn may(self, demanded: u8) -> bool {
        matches!(self, Self::Pes(pes) if demanded & !pes == 0)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Item {
    version: u64,
    /// Set of PEs, a bit each; 0: no lock.
    lock: u8,
}

/// An item open at the source.
#[derive(Debug)]
struct Instance {
    item: usize,
    /// P2PSs that have it open.
    open: BTreeSet<usize>,
    snapshot: bool,
}

#[derive(Debug, Clone, Copy)]
struct Watch {
    item: usize,
    snapshot: bool,
    /// The watcher has had its image.
    sees: bool,
}

#[derive(Debug, Default)]
struct Client {
    /// Number of the user, while logged in.
    user: Option<usize>,
    wants_locks: bool,
    connected: bool,
    streams: BTreeMap<i32, Watch>,
    next_stream: i32,
}

struct World {
    random: Random,
    now: u64,
    p2ps: Vec<P2ps>,
    clients: Vec<Vec<Client>>,
    writer: BlockWriter,
    items: [Item; ITEMS],
    rights: [Has; USERS.len()],
    instances: BTreeMap<u32, Instance>,
    next_handle: u32,
    /// What the source is to say, in order: a P2PS's open is answered.
    opened: VecDeque<(usize, u32, u32)>,
    /// Reissues that are to be answered: P2PS, handle, number.
    reissued: VecDeque<(usize, u32, u32)>,
    /// Handles of which an image is to come.
    asked: BTreeSet<u32>,
    /// Updates that must come next: P2PS, client, stream, version.
    expected: BTreeSet<(usize, usize, i32, u64)>,
    audit: Vec<u64>,
    counts: Counts,
}

/// What has happened, so that a test can tell that it has looked at something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Images and updates that clients got.
    pub delivered: u64,
    /// Streams refused or closed for want of a right.
    pub denied: u64,
    /// Logins refused or ended.
    pub logins_ended: u64,
    /// Updates kept from a client that has the item open.
    pub kept: u64,
}

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("room");
    w.into_written().to_vec()
}

/// The lock that demands all of a set of PEs; nothing for none.
fn lock(set: u8) -> Option<Vec<u8>> {
    let groups: Vec<Vec<u32>> = (0..PES).filter(|pe| set >> pe & 1 == 1).map(|pe| vec![pe]).collect();
    (!groups.is_empty()).then(|| Lock { services: vec![ServiceLock { service: 1, groups }] }.encode().expect("a lock"))
}

fn payload(item: usize, version: u64, demanded: u8, own: u8) -> Vec<u8> {
    encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for (fid, value) in [(1, item as u64), (2, version), (3, demanded.into()), (4, own.into()), (5, 99)] {
            list.uint(fid, value)?;
        }
        list.finish()
    })
}

/// Item, version and demands that a payload tells.
fn read(body: &[u8]) -> (usize, u64, u8, u8) {
    let mut told = BTreeMap::new();
    for entry in FieldList::decode(body, &SetScope::NONE).expect("a field list").entries() {
        let entry = entry.expect("a field");
        told.insert(entry.fid, entry.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)));
    }
    (told[&1] as usize, told[&2], told[&3] as u8, told[&4] as u8)
}

impl World {
    fn new(seed: u64) -> Self {
        let settings = Settings { mode: Mode::On, locks_max: 40, audit_max: 1 << 20, ..Settings::default() };
        let config = Config { permissions: settings, ..Config::default() };
        let p2ps = (0..P2PSS).map(|id| P2ps::new(config.clone(), id as u16)).collect();
        let clients = || (0..CLIENTS).map(|_| Client { next_stream: 2, ..Client::default() }).collect();
        let mut world = Self {
            random: Random::new(seed),
            now: SECOND,
            p2ps,
            clients: (0..P2PSS).map(|_| clients()).collect(),
            writer: BlockWriter::new(7),
            items: [Item::default(); ITEMS],
            rights: [Has::Pes(3); USERS.len()],
            instances: BTreeMap::new(),
            next_handle: 0,
            opened: VecDeque::new(),
            reissued: VecDeque::new(),
            asked: BTreeSet::new(),
            expected: BTreeSet::new(),
            audit: vec![0; P2PSS],
            counts: Counts::default(),
        };
        for at in 0..P2PSS {
            world.p2ps[at].source_up(world.now, SOURCE);
        }
        let info = Info {
            name: "FEED".to_owned(),
            capabilities: vec![PRICE],
            qos: vec![Qos::REALTIME_TICK],
            ..Info::default()
        };
        let mut entry = Service::new(REMOTE, Action::Add);
        entry.info = Some(Part::Set(info));
        entry.state = Some(Part::Set(ServiceState::new(true)));
        let filters = encode(|w| entry.encode_filters(u32::MAX, w));
        world.publish(&Event::Service { target: ALL, service: REMOTE, cached: false, name: "FEED", filters: &filters });
        world.new_rights();
        world
    }

    fn run(&mut self) {
        for _ in 0..400 {
            self.step();
        }
        self.settle();
    }

    fn step(&mut self) {
        self.now += 1_000_000;
        match self.random.below(100) {
            0..=9 => self.client_comes_or_goes(),
            10..=34 => self.open(),
            35..=39 => self.close(),
            40..=54 => self.source_answers(),
            55..=79 => self.update(),
            80..=86 => self.new_lock(),
            87..=92 => {
                let user = self.random.below(USERS.len());
                self.rights[user] = match self.random.below(10) {
                    0 => Has::Unknown,
                    1 => Has::Nothing,
                    _ => Has::Pes(self.random.below(1 << PES) as u8),
                };
                self.new_rights();
            }
            93 => self.force_out(),
            _ => self.unsolicited_image(),
        }
    }

    /// The one event of a block, to all P2PSs.
    fn publish(&mut self, event: &Event<'_>) {
        self.writer.event(event);
        let block = self.writer.block().map(<[u8]>::to_vec).unwrap_or_default();
        self.writer.clear();
        for at in 0..P2PSS {
            self.p2ps[at].hub_block(self.now, SOURCE, &block).expect("a block that can be read");
            self.turn(at, &block);
        }
        assert!(self.expected.is_empty(), "updates that did not come: {:?}", self.expected);
    }

    /// The end of a turn: what leaves is judged, what is asked of the source is noted.
    fn turn(&mut self, at: usize, block: &[u8]) {
        let mut out = Vec::new();
        self.p2ps[at].flush(block, |client, deliveries| {
            out.extend(deliveries.map(|(body, stream)| (client.0 as usize, stream, body.to_vec())));
        });
        for (client, stream, body) in out {
            self.judge(at, client, stream, &body);
        }
        let mut asked = Vec::new();
        self.p2ps[at].requests(|_, block| asked.push(block.to_vec()));
        for block in asked {
            for message in Block::parse(&block).expect("a block").messages() {
                let message = message.expect("a message");
                self.source_hears(at, &Request::decode(&message).expect("a request"));
            }
        }
        let closing: Vec<ClientId> = self.p2ps[at].closing().map(|(client, _)| client).collect();
        for client in closing {
            self.disconnect(at, client.0 as usize);
        }
        while let Some(event) = self.p2ps[at].next_audit() {
            self.audit[at] += 1;
            assert_eq!(event.number, self.audit[at], "no line is missing");
            let is_denial = matches!(event.kind, EventKind::Denied | EventKind::LoginDenied | EventKind::PostDenied);
            assert_eq!(matches!(event.verdict, Verdict::Denied(_)), is_denial, "{event:?}");
        }
        self.p2ps[at].check_invariants();
    }

    fn judge(&mut self, at: usize, client: usize, stream: i32, body: &[u8]) {
        let mut bytes = body.to_vec();
        assert!(rwf::peek::set_stream_id(&mut bytes, stream));
        let msg = Msg::decode(&bytes).expect("a message");
        if msg.domain() == Domain::LOGIN {
            return self.judge_login(at, client, &msg);
        }
        let known = &mut self.clients[at][client];
        let user = known.user.unwrap_or_else(|| panic!("{client} of {at} is not logged in and gets {msg:?}"));
        let has = self.rights[user];
        assert!(known.wants_locks || msg.perm_data().is_none(), "permission data for one who wants none");
        let watch = known.streams.get_mut(&stream).unwrap_or_else(|| panic!("stream {stream} is not open: {msg:?}"));
        match &msg {
            // Waiting clients are told that the image does not come.
            Msg::Status(StatusMsg { state: Some(state), .. }) if state.stream == StreamState::OPEN => {
                assert!(!watch.sees);
            }
            Msg::Status(StatusMsg { state: Some(state), .. }) => {
                assert_eq!(state.code, StateCode::NOT_ENTITLED, "{msg:?}");
                assert!(!has.may(self.items[watch.item].lock), "{} may see {watch:?} and is closed", USERS[user]);
                known.streams.remove(&stream);
                self.counts.denied += 1;
            }
            // A new lock of an item that may still be seen.
            Msg::Status(_) => assert!(watch.sees),
            Msg::Refresh(refresh) => {
                let (item, _, demanded, _) = read(refresh.body);
                assert_eq!(item, watch.item);
                assert!(has.may(demanded), "{} gets an image that demands {demanded:b}: {has:?}", USERS[user]);
                watch.sees = true;
                if watch.snapshot {
                    known.streams.remove(&stream);
                }
                self.counts.delivered += 1;
            }
            Msg::Update(update) => {
                let (item, version, demanded, own) = read(update.body);
                assert_eq!(item, watch.item);
                assert!(has.may(demanded | own), "{} gets what demands {demanded:b} and {own:b}: {has:?}", USERS[user]);
                assert!(self.expected.remove(&(at, client, stream, version)), "version {version} is not the next one");
                self.counts.delivered += 1;
            }
            other => panic!("{other:?}"),
        }
    }

    fn judge_login(&mut self, at: usize, client: usize, msg: &Msg<'_>) {
        let known = &mut self.clients[at][client];
        match msg {
            Msg::Refresh(_) => assert!(known.user.is_some_and(|user| self.rights[user] != Has::Unknown)),
            Msg::Status(_) => {
                // Whose login is refused was not on; whose login ends is forced out, or unknown by now.
                known.user = None;
                known.streams.clear();
                self.counts.logins_ended += 1;
            }
            other => panic!("{other:?}"),
        }
    }

    fn source_hears(&mut self, at: usize, request: &Request<'_>) {
        match *request {
            Request::Open { token, flags, rwf, .. } => {
                let Ok(Msg::Request(request)) = Msg::decode(rwf) else { panic!("an open without a request") };
                let name = request.key.name.expect("a name");
                let item = usize::from(name[0] - b'A');
                let snapshot = flags & flags::SNAPSHOT_ONLY != 0;
                let shared =
                    self.instances.iter().find(|(_, known)| known.item == item && !known.snapshot && !snapshot);
                let handle = shared.map_or(self.next_handle, |(handle, _)| *handle);
                if handle == self.next_handle {
                    self.next_handle += 1;
                }
                let instance = Instance { item, open: BTreeSet::new(), snapshot };
                self.instances.entry(handle).or_insert(instance).open.insert(at);
                self.opened.push_back((at, handle, token));
            }
            Request::Refresh { handle, .. } => _ = self.asked.insert(handle),
            // More fields are wanted than before: the answer says from where on images have them.
            Request::Reissue { handle, serial, .. } => match serial {
                Some(serial) => self.reissued.push_back((at, handle, serial)),
                None => _ = self.asked.insert(handle),
            },
            Request::Close { handle } => {
                let known = self.instances.get_mut(&handle).expect("what is closed was open");
                assert!(known.open.remove(&at), "what is closed was open");
                if known.open.is_empty() && !self.opened.iter().any(|(_, other, _)| *other == handle) {
                    self.instances.remove(&handle);
                    self.asked.remove(&handle);
                }
            }
            Request::Hello { .. } | Request::Heartbeat { .. } => {}
            ref other => panic!("{other:?}"),
        }
    }

    fn source_answers(&mut self) {
        if let Some((at, handle, token)) = self.opened.pop_front() {
            self.asked.insert(handle);
            return self.publish(&Event::ItemOpened { target: at as u16, handle, token });
        }
        if let Some((at, handle, serial)) = self.reissued.pop_front() {
            if self.instances.get(&handle).is_none_or(|known| !known.open.contains(&at)) {
                return;
            }
            self.asked.insert(handle);
            let position = self.writer.next_position();
            return self.publish(&Event::Answered { target: at as u16, handle, serial, position });
        }
        let asked: Vec<u32> = self.asked.iter().copied().collect();
        if let Some(handle) = self.random.pick(&asked) {
            self.asked.remove(&handle);
            self.image(handle, 0);
        }
    }

    fn image(&mut self, handle: u32, bits: u8) {
        let Some(instance) = self.instances.get(&handle) else { return };
        let (item, snapshot) = (instance.item, instance.snapshot);
        let Item { version, lock: demanded } = self.items[item];
        let (perm_data, body) = (lock(demanded), payload(item, version, demanded, 0));
        let msg = RefreshMsg {
            flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
            state: State::OPEN_OK,
            container: DataType::FIELD_LIST,
            perm_data: perm_data.as_deref(),
            body: &body,
            ..RefreshMsg::new(PRICE, 77)
        };
        let rwf = encode(|w| msg.encode(w));
        let bits = bits | flags::FIRST | flags::COMPLETE | if snapshot { flags::SNAPSHOT } else { 0 };
        let position = self.writer.next_position();
        self.publish(&Event::Image { target: ALL, handle, group: 3, flags: bits, position, rwf: &rwf });
    }

    fn unsolicited_image(&mut self) {
        let shared: Vec<u32> =
            self.instances.iter().filter(|(_, known)| !known.snapshot).map(|(handle, _)| *handle).collect();
        if let Some(handle) = self.random.pick(&shared) {
            let item = self.instances[&handle].item;
            if self.random.chance(50) {
                self.items[item].lock = self.random.below(1 << PES) as u8 & self.random.below(1 << PES) as u8;
            }
            self.image(handle, flags::UNSOLICITED);
        }
    }

    /// The handle of an item that streams, if someone has it open.
    fn handle(&self, item: usize) -> Option<u32> {
        self.instances.iter().find(|(_, known)| known.item == item && !known.snapshot).map(|(handle, _)| *handle)
    }

    fn update(&mut self) {
        let item = self.random.below(ITEMS);
        let own = if self.random.chance(30) { 1 << self.random.below(PES as usize) } else { 0 };
        self.update_item(item, own);
    }

    fn update_item(&mut self, item: usize, own: u8) {
        self.items[item].version += 1;
        let Item { version, lock: demanded } = self.items[item];
        let Some(handle) = self.handle(item) else { return };
        let (perm_data, body) = (lock(own), payload(item, version, demanded, own));
        let perm_data = perm_data.as_deref();
        let msg = UpdateMsg { container: DataType::FIELD_LIST, perm_data, body: &body, ..UpdateMsg::new(PRICE, 77) };
        let rwf = encode(|w| msg.encode(w));
        for (at, clients) in self.clients.iter().enumerate() {
            for (number, client) in clients.iter().enumerate() {
                let Some(user) = client.user else { continue };
                for (stream, _) in client.streams.iter().filter(|(_, watch)| watch.item == item && watch.sees) {
                    if self.rights[user].may(own) {
                        self.expected.insert((at, number, *stream, version));
                    } else {
                        self.counts.kept += 1;
                    }
                }
            }
        }
        self.publish(&Event::Update { handle, has_key: false, rwf: &rwf });
    }

    fn new_lock(&mut self) {
        let item = self.random.below(ITEMS);
        let set = 1 << self.random.below(PES as usize)
            | self.random.below(1 << PES) as u8 & self.random.below(1 << PES) as u8;
        self.items[item].lock = set;
        let Some(handle) = self.handle(item) else { return };
        let perm_data = lock(set);
        let msg = StatusMsg { perm_data: perm_data.as_deref(), ..StatusMsg::new(PRICE, 77) };
        let rwf = encode(|w| msg.encode(w));
        self.publish(&Event::ItemStatus { target: ALL, handle, group: NO_GROUP, flags: 0, rwf: &rwf });
        let lacking = |client: &Client| {
            let user = client.user?;
            client
                .streams
                .values()
                .find(|watch| watch.item == item && watch.sees && !self.rights[user].may(set))
                .copied()
        };
        let left = self.clients.iter().flatten().find_map(lacking);
        assert!(left.is_none(), "a new lock holds at once: {left:?}");
    }

    fn new_rights(&mut self) {
        let mut text = "[services.FEED]\nid = 1\n".to_owned();
        for (user, has) in USERS.iter().zip(self.rights) {
            match has {
                Has::Unknown => {}
                Has::Nothing => _ = writeln!(text, "[users.{user}]"),
                Has::Pes(pes) => {
                    let pes: Vec<String> = (0..PES).filter(|pe| pes >> pe & 1 == 1).map(|pe| pe.to_string()).collect();
                    let _ = writeln!(text, "[users.{user}.grants]\nFEED = [{}]", pes.join(", "));
                }
            }
        }
        let rights: std::sync::Arc<Rights> = Rights::parse("world", &text).unwrap_or_else(|e| panic!("{e}")).into();
        for at in 0..P2PSS {
            self.p2ps[at].set_rights(self.now, rights.clone());
            self.p2ps[at].on_timer(self.now);
            self.turn(at, &[]);
        }
        for client in self.clients.iter().flatten() {
            let Some(user) = client.user else { continue };
            assert_ne!(self.rights[user], Has::Unknown, "{} is on", USERS[user]);
            for watch in client.streams.values().filter(|watch| watch.sees) {
                assert!(self.rights[user].may(self.items[watch.item].lock), "{} sees {watch:?}", USERS[user]);
            }
        }
    }

    fn force_out(&mut self) {
        let (at, user) = (self.random.below(P2PSS), self.random.below(USERS.len()));
        let on = self.clients[at].iter().filter(|client| client.user == Some(user)).count();
        assert_eq!(self.p2ps[at].force_logout(self.now, USERS[user]), on);
        self.p2ps[at].on_timer(self.now);
        self.turn(at, &[]);
        assert!(self.clients[at].iter().all(|client| client.user != Some(user)), "{} is still on", USERS[user]);
    }

    fn client_comes_or_goes(&mut self) {
        let (at, client) = (self.random.below(P2PSS), self.random.below(CLIENTS));
        if self.clients[at][client].user.is_some() {
            if self.random.chance(30) {
                self.disconnect(at, client);
            }
            return;
        }
        if !self.clients[at][client].connected {
            let info = ClientInfo { address: IpAddr::from(Ipv4Addr::LOCALHOST) };
            self.p2ps[at].client_up(self.now, ClientId(client as u32), info);
        }
        let (user, wants_locks) = (self.random.below(USERS.len()), self.random.chance(70));
        let known = &mut self.clients[at][client];
        (known.connected, known.user, known.wants_locks) = (true, Some(user), wants_locks);
        let mut request = login::Request { name: USERS[user].to_owned(), ..login::Request::default() };
        request.attributes.provide_permission_expressions = Some(wants_locks);
        self.send(at, client, &encode(|w| request.encode(w)));
    }

    fn disconnect(&mut self, at: usize, client: usize) {
        self.p2ps[at].client_down(self.now, ClientId(client as u32));
        let known = &mut self.clients[at][client];
        *known = Client { next_stream: known.next_stream, ..Client::default() };
        self.turn(at, &[]);
    }

    fn send(&mut self, at: usize, client: usize, msg: &[u8]) {
        self.p2ps[at].client_message(self.now, ClientId(client as u32), msg);
        self.turn(at, &[]);
    }

    /// A client that is on, by chance.
    fn someone(&mut self) -> Option<(usize, usize)> {
        let on: Vec<(usize, usize)> = (0..P2PSS)
            .flat_map(|at| (0..CLIENTS).map(move |client| (at, client)))
            .filter(|(at, client)| self.clients[*at][*client].user.is_some())
            .collect();
        self.random.pick(&on)
    }

    fn open(&mut self) {
        let Some((at, client)) = self.someone() else { return };
        let (item, snapshot) = (self.random.below(ITEMS), self.random.chance(20));
        let known = &mut self.clients[at][client];
        let stream = known.next_stream;
        known.next_stream += 1;
        known.streams.insert(stream, Watch { item, snapshot, sees: false });
        let name = [b'A' + item as u8];
        let mut flags = if snapshot { RequestFlags::default() } else { RequestFlags::STREAMING };
        let view =
            self.random.chance(30).then(|| view(if self.random.chance(50) { &[1, 2, 3, 4] } else { &[1, 2, 3, 4, 5] }));
        flags.set(RequestFlags::HAS_VIEW, view.is_some());
        let request = RequestMsg {
            flags,
            key: MsgKey { name_type: Some(1), ..MsgKey::item(1, &name) },
            container: if view.is_some() { DataType::ELEMENT_LIST } else { DataType::NO_DATA },
            body: view.as_deref().unwrap_or_default(),
            ..RequestMsg::new(PRICE, stream)
        };
        self.send(at, client, &encode(|w| request.encode(w)));
    }

    fn close(&mut self) {
        let Some((at, client)) = self.someone() else { return };
        let streams: Vec<i32> = self.clients[at][client].streams.keys().copied().collect();
        if let Some(stream) = self.random.pick(&streams) {
            self.clients[at][client].streams.remove(&stream);
            self.send(at, client, &encode(|w| CloseMsg::new(PRICE, stream).encode(w)));
        }
    }

    /// Everything that was asked for is answered: who is on sees all that is open and not denied. Then everyone leaves.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.now += SECOND / 10;
            for at in 0..P2PSS {
                self.p2ps[at].on_timer(self.now);
                self.turn(at, &[]);
            }
            self.source_answers();
        }
        for client in self.clients.iter().flatten() {
            let waiting = client.streams.iter().find(|(_, watch)| !watch.sees);
            assert!(waiting.is_none(), "{waiting:?} waits for ever");
        }
        (0..ITEMS).for_each(|item| self.update_item(item, 0));
        for at in 0..P2PSS {
            (0..CLIENTS)
                .filter(|client| self.clients[at][*client].connected)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|client| self.disconnect(at, client));
            let counts = self.p2ps[at].permission_counts();
            assert_eq!((counts.logins, counts.items, counts.opens, counts.broken), (0, 0, 0, 0), "{counts:?}");
        }
    }
}

/// A request's payload that asks for these fields.
fn view(fids: &[i16]) -> Vec<u8> {
    let payload = Payload { view: Some(View::Fields(fids.to_vec())), ..Payload::default() };
    encode(|w| payload.encode(w))
}

/// Runs the world of a seed; a rule that is broken is a panic that says which.
pub fn run(seed: u64) -> Counts {
    let mut world = World::new(seed);
    world.run();
    world.counts
}
