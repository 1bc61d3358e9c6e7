//! A consumer to be judged: `client [--wrong KIND] [--post] [--by-order] ITEM..`, of the server that `QUOTEWAY_PORT` names. It writes what it uses
//! of its items. With `--wrong` it does one thing as it should not be done.

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
}

const KINDS: [(&str, Wrong); 11] = [
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
}

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

    /// An item that is to be had under another name is opened under that.
    fn follow(&mut self, now: u64, msg: &Msg<'_>) {
        let Msg::Status(status) = msg else { return };
        let redirected = status.state.is_some_and(|state| state.stream == StreamState::REDIRECTED);
        let Some(key) = status.key.as_ref().filter(|key| redirected && key.name.is_some()) else { return };
        let name = key.name_lossy().into_owned();
        let request = ItemRequest { domain: status.domain, ..ItemRequest::new("DIRECT_FEED", &name) };
        // A name that cannot be asked for is not asked for: that is what is judged.
        if let Ok(item) = self.client.role.consumer.open(now, request) {
            self.names.insert(item, name);
        }
    }

    fn item_message(&mut self, item: ItemId, msg: &Msg<'_>) {
        let wrong = self.wrong();
        let image = self.images.entry(item).or_default();
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
    }

    fn tick(&mut self, now: u64) {
        for (item, name) in &self.names {
            let Some(image) = self.images.get(item) else { continue };
            let suspect = image.suspect && self.wrong() != Wrong::UsesSuspect;
            if suspect || !image.whole || image.fids.is_empty() && image.rows.is_empty() {
                println!("uses {name} nothing");
            } else if image.rows.is_empty() {
                let fids: Vec<String> = image.fids.iter().map(|fid| format!("{fid}=1")).collect();
                println!("uses {name} {}", fids.join(" "));
            } else {
                println!("uses {name} rows={}", image.rows.len());
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
            self.fids.extend(list.entries().flatten().map(|entry| entry.fid));
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
            self.item_message(item, &msg);
        }
        // The consumer tells that a stream has ended, and not under which name it goes on.
        if let Ok(msg) = Msg::decode(msg) {
            self.follow(now, &msg);
        }
        self.events(now);
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        self.conn = None;
        if self.client.closed(now, conn, ended) == Closed::Lost {
            self.events(now);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr = ([127, 0, 0, 1], std::env::var("QUOTEWAY_PORT")?.parse()?).into();
    let list = ConnectionList::new(vec![Server::new("localhost", address.port())]);
    let mut config = ConsumerConfig::new(list, "user");
    let (mut wrong, mut posts, mut domain, mut names) = (Wrong::Nothing, false, Domain::MARKET_PRICE, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--wrong" => {
                let kind = arguments.next().unwrap_or_default();
                wrong = KINDS.iter().find(|(name, _)| *name == kind).ok_or(format!("{kind}: no kind"))?.1;
            }
            "--post" => posts = true,
            "--by-order" => domain = Domain::MARKET_BY_ORDER,
            _ => names.push(argument),
        }
    }
    // A user who is known by a token has to renew it.
    config.login.name_type = Some(rwf::rdm::login::name_type::AUTHENTICATION_TOKEN);
    config.login.authentication_token = Some("token".to_owned());
    if wrong == Wrong::ReopenStorm {
        config.retry_ns = 1_000_000;
    }
    let mut consumer = Consumer::new(config);
    let mut ids = BTreeMap::new();
    for name in names {
        let request = ItemRequest { domain, ..ItemRequest::new("DIRECT_FEED", &name) };
        ids.insert(consumer.open(0, request)?, name);
    }
    let held = Held { consumer, wrong, was_lost: false, message: Vec::new() };
    let mut watch = Watch {
        client: Client::new(held, address),
        conn: None,
        names: ids,
        images: BTreeMap::new(),
        out: Vec::new(),
        login_is_closed: false,
        renew_at_ns: None,
        posts,
        post: 0,
        posted_at_ns: 0,
        refused: false,
    };
    let mut io = RsslIo::new(net::clock::now())?;
    let mut tick_at = 0;
    loop {
        // A server that is away is dialled again by the role in its time.
        let _ = watch.client.connect(net::clock::now(), &mut io);
        watch.events(net::clock::now());
        let due = watch.client.role.consumer.timeout();
        let now = io.turn(Some(due.map_or(tick_at, |due| due.min(tick_at))), &mut watch)?;
        if now >= tick_at {
            tick_at = now + TICK;
            watch.tick(now);
        }
        watch.client.send(now, &mut io);
        if let Some(conn) = watch.conn {
            let out = std::mem::take(&mut watch.out);
            io.send(now, conn, |packer| {
                for msg in &out {
                    packer.push(msg, None);
                }
            });
        }
        if wrong == Wrong::NeverPings && watch.images.values().any(|image| image.whole) {
            std::thread::park();
        }
    }
}
