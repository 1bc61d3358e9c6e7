//! A consumer of books by price that measures: how long ago the exchange sent what an update tells, and whether one is missing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use measure::latency::Latency;
use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg, RefreshFlags};
use rwf::{DataState, DataType, FieldList, Map, MapAction, Primitive, SetScope};

use super::exchange::LAST_PRICE;

const SECOND: u64 = 1_000_000_000;

/// Of a level, its time in UTC with nanoseconds.
const LV_TIM_NS: i16 = 14268;

/// How a consumer stands, for others to read.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Items whose image is whole.
    pub(crate) images: AtomicU64,
    /// Updates that came.
    pub(crate) updates: AtomicU64,
    /// Items whose last order has come.
    pub(crate) ended: AtomicU64,
    /// What comes from now on is measured.
    pub(crate) is_measured: AtomicBool,
    /// Nothing is wanted any more.
    pub(crate) is_over: AtomicBool,
}

/// Counts and times of a consumer.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// From the time in the datagram until the update was here, by second.
    pub(crate) seconds: Vec<Latency>,
    /// Updates that were measured.
    pub(crate) measured: u64,
    /// Numbers that an item's updates left out.
    pub(crate) missing: u64,
    /// Updates without a number, or without a time.
    pub(crate) unnumbered: u64,
    pub(crate) untimed: u64,
    /// Times that were later than the clock here.
    pub(crate) early: u64,
    /// States other than Ok.
    pub(crate) suspect: u64,
    /// Why it was cut off, if it was.
    pub(crate) trouble: Option<String>,
}

impl Seen {
    /// All seconds together.
    pub(crate) fn latency(&self) -> Latency {
        let mut all = Latency::new();
        for second in &self.seconds {
            all.add(second);
        }
        all
    }
}

/// An item's last number, and whether its image is whole.
#[derive(Clone, Copy, Default)]
struct Item {
    number: Option<u32>,
    is_whole: bool,
    has_ended: bool,
}

struct Watcher {
    client: Client<Consumer, SocketAddr>,
    items: Vec<Item>,
    standing: Arc<Standing>,
    seen: Seen,
    begin: Option<u64>,
    last_key: Vec<u8>,
}

/// Starts a consumer of these items; it ends when the standing says that it is over, and gives what it has seen.
pub(crate) fn start(at: SocketAddr, names: &[String], standing: Arc<Standing>) -> JoinHandle<std::io::Result<Seen>> {
    let list = ConnectionList::new(vec![Server::new(at.ip().to_string(), at.port())]);
    let mut config = ConsumerConfig::new(list, "rate");
    config.dictionary = false;
    let mut consumer = Consumer::new(config);
    for name in names {
        let request = ItemRequest { domain: Domain::MARKET_BY_PRICE, ..ItemRequest::new("DIRECT_FEED", name) };
        consumer.open(0, request).expect("fewer items than a consumer may have");
    }
    let client = Client::new(consumer, at);
    let last_key = format!("{LAST_PRICE}B").into_bytes();
    let mut watcher = Watcher { client, items: Vec::new(), standing, seen: Seen::default(), begin: None, last_key };
    std::thread::spawn(move || {
        let mut io = RsslIo::new(net::clock::now())?;
        while !watcher.standing.is_over.load(Ordering::Acquire) && watcher.seen.trouble.is_none() {
            watcher.client.connect(net::clock::now(), &mut io)?;
            watcher.drain_events();
            let due = watcher.client.role.timeout().into_iter().chain([net::clock::now() + SECOND / 20]).min();
            let now = io.turn(due, &mut watcher)?;
            watcher.client.send(now, &mut io);
        }
        Ok(watcher.seen)
    })
}

impl Watcher {
    fn drain_events(&mut self) {
        while let Some(event) = self.client.role.poll_event() {
            match event {
                Event::ItemState { state, .. } => {
                    self.seen.suspect += u64::from(state.data == DataState::SUSPECT);
                }
                Event::LoginRefused(state) => self.seen.trouble = Some(format!("login: {}", state.as_state())),
                Event::Disconnect(_) => self.client.leave(),
                _ => {}
            }
        }
    }

    fn item(&mut self, stream: i32) -> &mut Item {
        let at = stream.unsigned_abs() as usize;
        if self.items.len() <= at {
            self.items.resize(at + 1, Item::default());
        }
        &mut self.items[at]
    }

    fn take(&mut self, stream: i32, bytes: &[u8]) {
        let Ok(msg) = Msg::decode(bytes) else {
            self.seen.trouble = Some("a message that cannot be read".to_owned());
            return;
        };
        match msg {
            Msg::Refresh(refresh) => {
                let is_whole = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
                self.seen.suspect += u64::from(refresh.state.data == DataState::SUSPECT);
                let item = self.item(stream);
                item.number = refresh.seq_num.or(item.number);
                if is_whole && !std::mem::replace(&mut item.is_whole, true) {
                    self.standing.images.fetch_add(1, Ordering::Release);
                }
            }
            Msg::Update(update) => {
                let last = update.seq_num.and_then(|number| self.item(stream).number.replace(number));
                match (last, update.seq_num) {
                    (Some(last), Some(number)) => self.seen.missing += u64::from(number.wrapping_sub(last + 1)),
                    (None, Some(_)) => {}
                    (_, None) => self.seen.unnumbered += 1,
                }
                self.standing.updates.fetch_add(1, Ordering::Relaxed);
                self.take_levels(stream, update.body);
            }
            Msg::Status(status) => {
                self.seen.suspect += u64::from(status.state.is_some_and(|state| state.data == DataState::SUSPECT));
            }
            _ => {}
        }
    }

    /// The time of an update is the latest of its levels: a level that is gone has none.
    fn take_levels(&mut self, stream: i32, body: &[u8]) {
        let arrived = net::clock::wall();
        let Ok(map) = Map::decode(body, &SetScope::default()) else { return self.seen.untimed += 1 };
        let mut time = None;
        for entry in map.entries().flatten() {
            if entry.key == &self.last_key[..] && !std::mem::replace(&mut self.item(stream).has_ended, true) {
                self.standing.ended.fetch_add(1, Ordering::Release);
            }
            if entry.action != MapAction::DELETE {
                time = time.max(level_time(entry.data));
            }
        }
        let Some(time) = time else { return self.seen.untimed += 1 };
        if !self.standing.is_measured.load(Ordering::Relaxed) {
            return;
        }
        let begin = *self.begin.get_or_insert(arrived);
        let second = ((arrived - begin) / SECOND) as usize;
        if self.seen.seconds.len() <= second {
            self.seen.seconds.resize_with(second + 1, Latency::new);
        }
        let latency = (arrived % (86_400 * SECOND)).checked_sub(time);
        self.seen.early += u64::from(latency.is_none());
        self.seen.measured += 1;
        if let Some(latency) = latency {
            self.seen.seconds[second].record(latency);
        }
    }
}

/// Nanoseconds since midnight UTC.
fn level_time(fields: &[u8]) -> Option<u64> {
    let list = FieldList::decode(fields, &SetScope::default()).ok()?;
    let field = list.entries().flatten().find(|field| field.fid == LV_TIM_NS)?;
    let Ok(Primitive::Time(time)) = field.value(DataType::TIME) else { return None };
    let seconds = (u64::from(time.hour) * 60 + u64::from(time.minute)) * 60 + u64::from(time.second);
    let below = [time.millisecond, time.microsecond, time.nanosecond];
    Some(below.iter().fold(seconds, |time, part| time * 1_000 + u64::from(*part)))
}

impl Handler for Watcher {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.client.opened(now, conn);
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        if let Some(given) = self.client.role.handle_message(now, msg) {
            let (stream, bytes) = (given.item.stream_id(), given.msg);
            self.take(stream, bytes);
        }
        self.drain_events();
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.client.closed(now, conn, ended) == Closed::Lost {
            self.seen.trouble = Some(format!("{}: {}", self.client.server(), ended.why));
        }
    }
}
