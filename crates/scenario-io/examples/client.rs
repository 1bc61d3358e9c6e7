//! A consumer to be judged: `client [--wrong KIND] [--post] [--by-order] ITEM..`, of the server that `QUOTEWAY_PORT` names, and of a warm-standby
//! pair where `QUOTEWAY_PORT_2` names another one. It writes what it uses of its items. With `--wrong` it does one thing as it should not be done.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemId, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed, Role};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::container::{FieldList, Map, SetScope};
use rwf::msg::{Domain, Msg, MsgKey, NakCode, PostFlags, PostMsg, RefreshFlags, RequestMsg, StatusMsg};
use rwf::rdm::login::{ConnectionStatus, WarmStandby};
use rwf::wire::Writer;
use rwf::{DataState, DataType, State, StreamState};

const SECOND: u64 = 1_000_000_000;
/// How often it writes what it uses, and looks at what it has to do, nanoseconds.
const TICK: u64 = SECOND / 5;

/// A fault of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    NoReopen,
    ReopenStorm,
    UsesSuspect,
    IgnoresClearCache,
    DropsLastPart,
    NeverPings,
    IgnoresClosedLogin,
    ClosedRecoverAsClosed,
    NeverRenews,
    PostsAfterNak,
    NoTakeover,
    TwoActive,
    MixesServers,
    DistrustsClock,
    Impatient,
}

const KINDS: [(&str, Wrong); 16] = [
    ("nothing", Wrong::Nothing),
    ("no-reopen", Wrong::NoReopen),
    ("reopen-storm", Wrong::ReopenStorm),
    ("uses-suspect", Wrong::UsesSuspect),
    ("ignores-clear-cache", Wrong::IgnoresClearCache),
    ("drops-last-part", Wrong::DropsLastPart),
    ("never-pings", Wrong::NeverPings),
    ("ignores-closed-login", Wrong::IgnoresClosedLogin),
    ("closed-recover-as-closed", Wrong::ClosedRecoverAsClosed),
    ("never-renews", Wrong::NeverRenews),
    ("posts-after-nak", Wrong::PostsAfterNak),
    ("no-takeover", Wrong::NoTakeover),
    ("two-active", Wrong::TwoActive),
    ("mixes-servers", Wrong::MixesServers),
    ("distrusts-clock", Wrong::DistrustsClock),
    ("impatient", Wrong::Impatient),
];

/// The consumer, with what is kept from the server.
struct Held {
    consumer: Consumer,
    wrong: Wrong,
    /// A connection was lost before.
    was_lost: bool,
    message: Vec<u8>,
}

impl Role for Held {
    fn wants_connection(&mut self, now: u64) -> bool {
        self.consumer.poll_connect(now).is_some()
    }

    fn connected(&mut self, now: u64) {
        self.consumer.handle_connected(now);
    }

    fn disconnected(&mut self, now: u64) {
        self.was_lost = true;
        self.consumer.handle_disconnected(now);
    }

    fn handle_timeout(&mut self, now: u64) {
        self.consumer.handle_timeout(now);
    }

    fn poll_transmit(&mut self) -> Option<&[u8]> {
        loop {
            self.message = self.consumer.poll_transmit()?.to_vec();
            let is_item = matches!(Msg::decode(&self.message), Ok(Msg::Request(request))
                if ![Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY].contains(&request.domain));
            if !(self.wrong == Wrong::NoReopen && self.was_lost && is_item) {
                return Some(&self.message);
            }
        }
    }
}

/// An item as it is known.
#[derive(Default)]
struct Image {
    fids: BTreeSet<i16>,
    rows: BTreeSet<Vec<u8>>,
    whole: bool,
    suspect: bool,
    /// `TIMACT`, as it stands on the wire.
    time: Vec<u8>,
    heard_ns: u64,
}

struct Watch {
    client: Client<Held, SocketAddr>,
    conn: Option<ConnId>,
    names: BTreeMap<ItemId, String>,
    images: BTreeMap<ItemId, Image>,
    /// Sent by itself, beside the consumer.
    out: Vec<Vec<u8>>,
    login_is_closed: bool,
    renew_at_ns: Option<u64>,
    posts: bool,
    post: u32,
    posted_at_ns: u64,
    refused: bool,
    /// What the server was told that it is, in a pair.
    part: Option<u64>,
}

/// `WarmStandbyMode`.
const ACTIVE: u64 = 0;
const STANDBY: u64 = 1;

impl Watch {
    fn wrong(&self) -> Wrong {
        self.client.role.wrong
    }

    fn events(&mut self, now: u64) {
        while let Some(event) = self.client.role.consumer.poll_event() {
            match event {
                Event::LoggedIn(refresh) => {
                    let wall_s = net::clock::wall() / SECOND;
                    let renew = |at: u64| now + at.saturating_sub(wall_s + 1).max(1) * SECOND;
                    self.renew_at_ns = refresh.authentication.reissue_at.map(renew);
                }
                Event::LoginRefused(_) => self.login_is_closed = true,
                Event::Redirected { request, .. } => self.open(now, *request),
                Event::Disconnect(_) if self.wrong() != Wrong::IgnoresClosedLogin => self.client.leave(),
                Event::ItemState { item, state } => {
                    let image = self.images.entry(item).or_default();
                    let state = state.as_state();
                    image.suspect = state.data != DataState::OK || state.stream != StreamState::OPEN;
                }
                _ => {}
            }
        }
    }

    /// An item is opened, once more or under the name to which it was redirected. One that cannot be is not asked for: that is what is judged.
    fn open(&mut self, now: u64, request: ItemRequest) {
        let name = request.name.clone();
        if let Ok(item) = self.client.role.consumer.open(now, request) {
            self.names.insert(item, name);
        }
    }

    /// Closes an item and opens it again.
    fn open_again(&mut self, now: u64, item: ItemId) {
        let Some(request) = self.client.role.consumer.request(item).cloned() else { return };
        self.client.role.consumer.close(now, item);
        self.names.remove(&item);
        self.images.remove(&item);
        self.open(now, request);
    }

    fn item_message(&mut self, now: u64, item: ItemId, msg: &Msg<'_>) {
        let wrong = self.wrong();
        let image = self.images.entry(item).or_default();
        image.heard_ns = now;
        let time = std::mem::take(&mut image.time);
        let state = match msg {
            Msg::Refresh(refresh) => {
                if refresh.flags.contains(RefreshFlags::CLEAR_CACHE) && wrong != Wrong::IgnoresClearCache {
                    image.fids.clear();
                    image.rows.clear();
                }
                image.whole = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
                let is_last = image.whole && refresh.part_num.is_some_and(|part| part > 0);
                if !(is_last && wrong == Wrong::DropsLastPart) {
                    image.take(refresh.container, refresh.body);
                }
                Some(refresh.state)
            }
            Msg::Update(update) => {
                image.take(update.container, update.body);
                None
            }
            Msg::Status(status) => status.state,
            Msg::Ack(ack) => {
                self.refused = ack.nak_code.is_some_and(|code| code != NakCode::NONE);
                None
            }
            _ => None,
        };
        if let Some(state) = state.filter(|state| state.data != DataState::NO_CHANGE) {
            image.suspect = state.data != DataState::OK || state.stream != StreamState::OPEN;
        }
        if image.time.is_empty() {
            image.time = time;
        } else if image.time < time && wrong == Wrong::DistrustsClock {
            self.open_again(now, item);
        }
    }

    /// Writes what it uses; of another server too, where it mixes what both have.
    fn report(&self, other: Option<&Self>) {
        for (item, name) in &self.names {
            let Some(image) = self.images.get(item) else { continue };
            let suspect = image.suspect && self.wrong() != Wrong::UsesSuspect;
            if suspect || !image.whole || image.fids.is_empty() && image.rows.is_empty() {
                println!("uses {name} nothing");
            } else if image.rows.is_empty() {
                let of_other = other.and_then(|other| {
                    let (item, _) = other.names.iter().find(|(_, known)| *known == name)?;
                    other.images.get(item)
                });
                let of_other = of_other.filter(|_| self.wrong() == Wrong::MixesServers);
                let fids: BTreeSet<i16> =
                    image.fids.iter().chain(of_other.iter().flat_map(|o| &o.fids)).copied().collect();
                let fids: Vec<String> = fids.iter().map(|fid| format!("{fid}=1")).collect();
                println!("uses {name} {}", fids.join(" "));
            } else {
                println!("uses {name} rows={}", image.rows.len());
            }
        }
    }

    fn tick(&mut self, now: u64) {
        if self.wrong() == Wrong::Impatient {
            let silent = self.images.iter().filter(|(_, image)| image.whole && now > image.heard_ns + SECOND / 2);
            for item in silent.map(|(item, _)| *item).collect::<Vec<_>>() {
                self.open_again(now, item);
            }
        }
        if self.renew_at_ns.is_some_and(|at| now >= at) && self.wrong() != Wrong::NeverRenews {
            self.renew_at_ns = None;
            self.client.role.consumer.reissue_login(|_| {});
        }
        if self.login_is_closed && self.wrong() == Wrong::IgnoresClosedLogin {
            let key = MsgKey { service_id: Some(1), name: Some(b"MORE.N"), name_type: Some(1), ..MsgKey::EMPTY };
            self.out.push(bytes_of(|w| RequestMsg { key, ..RequestMsg::new(Domain::MARKET_PRICE, 900) }.encode(w)));
        }
        let again = self.refused && self.wrong() == Wrong::PostsAfterNak;
        if self.posts && now >= self.posted_at_ns + if again { TICK } else { SECOND } {
            self.posted_at_ns = now;
            self.post += 1;
            self.post(if again { 1 } else { self.post });
        }
    }

    fn post(&mut self, value: u32) {
        let Some(item) = self.names.keys().next().copied() else { return };
        let mut body = vec![0; 100];
        let mut w = Writer::new(&mut body);
        let mut list = rwf::container::FieldListEncoder::begin(&mut w).expect("room");
        list.uint(22, u64::from(value)).expect("room");
        list.finish().expect("room");
        let body = w.into_written().to_vec();
        let post = PostMsg {
            flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
            post_id: Some(self.post),
            container: DataType::FIELD_LIST,
            body: &body,
            ..PostMsg::new(Domain::MARKET_PRICE, item.stream_id())
        };
        // Without an open stream there is nothing to post on: the next tick tries again.
        let _ = self.client.role.consumer.post(item, &post);
    }
}

impl Image {
    fn take(&mut self, container: DataType, body: &[u8]) {
        if container == DataType::FIELD_LIST
            && let Ok(list) = FieldList::decode(body, &SetScope::NONE)
        {
            for entry in list.entries().flatten() {
                self.fids.insert(entry.fid);
                if entry.fid == 5 {
                    self.time = entry.data.to_vec();
                }
            }
        }
        if container == DataType::MAP
            && let Ok(map) = Map::decode(body, &SetScope::NONE)
        {
            self.rows.extend(map.entries().flatten().map(|entry| entry.key.to_vec()));
        }
    }
}

fn bytes_of(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1_000];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).expect("room");
    w.into_written().to_vec()
}

/// The message as one who takes `ClosedRecover` for `Closed` reads it.
fn as_closed(msg: &[u8]) -> Option<Vec<u8>> {
    let Ok(Msg::Status(status)) = Msg::decode(msg) else { return None };
    let state = status.state.filter(|state| state.stream == StreamState::CLOSED_RECOVER)?;
    let state = Some(State { stream: StreamState::CLOSED, ..state });
    Some(bytes_of(|w| StatusMsg { state, ..status.clone() }.encode(w)))
}

impl Handler for Watch {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.client.opened(now, conn);
        self.conn = Some(conn);
        self.login_is_closed = false;
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let changed = as_closed(msg).filter(|_| self.wrong() == Wrong::ClosedRecoverAsClosed);
        let msg = changed.as_deref().unwrap_or(msg);
        let given = self.client.role.consumer.handle_message(now, msg).map(|given| given.item);
        if let (Some(item), Ok(msg)) = (given, Msg::decode(msg)) {
            self.item_message(now, item, &msg);
        }
        self.events(now);
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        (self.conn, self.part) = (None, None);
        if self.client.closed(now, conn, ended) == Closed::Lost {
            self.events(now);
        }
    }
}

/// What the command line says.
struct Arguments {
    wrong: Wrong,
    posts: bool,
    domain: Domain,
    names: Vec<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut read = Arguments { wrong: Wrong::Nothing, posts: false, domain: Domain::MARKET_PRICE, names: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--wrong" => {
                let kind = arguments.next().unwrap_or_default();
                read.wrong = KINDS.iter().find(|(name, _)| *name == kind).ok_or(format!("{kind}: no kind"))?.1;
            }
            "--post" => read.posts = true,
            "--by-order" => read.domain = Domain::MARKET_BY_ORDER,
            _ => read.names.push(argument),
        }
    }
    Ok(read)
}

impl Watch {
    fn new(port: u16, arguments: &Arguments) -> Result<Self, Box<dyn std::error::Error>> {
        let list = ConnectionList::new(vec![Server::new("localhost", port)]);
        let mut config = ConsumerConfig::new(list, "user");
        // A user who is known by a token has to renew it.
        config.login.name_type = Some(rwf::rdm::login::name_type::AUTHENTICATION_TOKEN);
        config.login.authentication_token = Some("token".to_owned());
        if arguments.wrong == Wrong::ReopenStorm {
            config.retry_ns = 1_000_000;
        }
        let mut consumer = Consumer::new(config);
        let mut names = BTreeMap::new();
        for name in &arguments.names {
            let request = ItemRequest { domain: arguments.domain, ..ItemRequest::new("DIRECT_FEED", name) };
            names.insert(consumer.open(0, request)?, name.clone());
        }
        let held = Held { consumer, wrong: arguments.wrong, was_lost: false, message: Vec::new() };
        Ok(Self {
            client: Client::new(held, ([127, 0, 0, 1], port).into()),
            conn: None,
            names,
            images: BTreeMap::new(),
            out: Vec::new(),
            login_is_closed: false,
            renew_at_ns: None,
            posts: arguments.posts,
            post: 0,
            posted_at_ns: 0,
            refused: false,
            part: None,
        })
    }

    /// One turn, until this time at the latest.
    fn turn(&mut self, io: &mut RsslIo, until: u64) -> Result<u64, Box<dyn std::error::Error>> {
        // A server that is away is dialled again by the role in its time.
        let _ = self.client.connect(net::clock::now(), io);
        self.events(net::clock::now());
        let due = self.client.role.consumer.timeout();
        Ok(io.turn(Some(due.map_or(until, |due| due.min(until))), self)?)
    }

    fn send(&mut self, now: u64, io: &mut RsslIo) {
        self.client.send(now, io);
        if let Some(conn) = self.conn {
            let out = std::mem::take(&mut self.out);
            io.send(now, conn, |packer| {
                for msg in &out {
                    packer.push(msg, None);
                }
            });
        }
    }

    /// Says to the server of a pair what it is, if it was not told that yet.
    fn say_part(&mut self, part: u64) {
        if self.client.role.consumer.is_logged_in() && self.part != Some(part) {
            self.part = Some(part);
            let warm_standby = Some(WarmStandby { added: true, mode: part });
            let status = ConnectionStatus { stream_id: 1, warm_standby };
            self.out.push(bytes_of(|w| status.encode(w)));
        }
    }
}

/// Which server of a pair is the active one, after a look at them.
fn active_of(watches: &[Watch], before: usize, wrong: Wrong) -> usize {
    let is_up = |server: usize| watches[server].client.role.consumer.is_logged_in();
    let other = 1 - before;
    let keeps =
        wrong == Wrong::NoTakeover && watches.iter().any(|watch| watch.images.values().any(|image| image.whole));
    if is_up(before) || !is_up(other) || keeps { before } else { other }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = arguments()?;
    let ports = [std::env::var("QUOTEWAY_PORT").ok(), std::env::var("QUOTEWAY_PORT_2").ok()];
    let (mut watches, mut ios) = (Vec::new(), Vec::new());
    for port in ports.into_iter().flatten() {
        watches.push(Watch::new(port.parse()?, &arguments)?);
        ios.push(RsslIo::new(net::clock::now())?);
    }
    let wrong = arguments.wrong;
    let (mut tick_at, mut active) = (0, 0);
    loop {
        let mut now = net::clock::now();
        // Two servers are looked at in turn.
        let until = if watches.len() == 1 { tick_at } else { now + SECOND / 200 };
        for (watch, io) in watches.iter_mut().zip(&mut ios) {
            now = watch.turn(io, until)?;
        }
        if watches.len() == 2 {
            active = active_of(&watches, active, wrong);
            for (server, watch) in watches.iter_mut().enumerate() {
                watch.say_part(if server == active || wrong == Wrong::TwoActive { ACTIVE } else { STANDBY });
            }
        }
        if now >= tick_at {
            tick_at = now + TICK;
            watches[active].report(watches.get(1 - active));
            for watch in &mut watches {
                watch.tick(now);
            }
        }
        for (watch, io) in watches.iter_mut().zip(&mut ios) {
            watch.send(now, io);
        }
        if wrong == Wrong::NeverPings && watches.iter().any(|watch| watch.images.values().any(|image| image.whole)) {
            std::thread::park();
        }
    }
}
