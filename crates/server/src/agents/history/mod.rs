//! Items' prices before somebody looked: those of a day, of items that the page has shown, for its chart.
//!
//! The agent is one more consumer of the process's own port, in a thread of its own; it logs in as the page does, so that it has the
//! page's rights. It begins when it is told of the first item, and never else: a process whose page nobody opens has no such client. Of
//! an item it tells what it has only while the item's stream is open to it: a right that was taken away takes the history with it.

mod series;

pub use series::{BARS_MAX, Bar, TICKS_MAX, Tick};

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

use net::Waker;
use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemId, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rustc_hash::FxHashMap;
use rwf::StateCode;
use rwf::msg::Msg;
use schemars::JsonSchema;
use serde::Serialize;

use series::Series;

/// Items that are remembered; the one that was asked for longest ago makes room for another. With [`BARS_MAX`] and [`TICKS_MAX`] for
/// each, that is at most 80 MB.
pub const ITEMS_MAX: usize = 500;
/// Queries that may wait for the agent.
const QUERIES_MAX: usize = 64;
/// A refusal is told for so long before the item is asked for again, nanoseconds.
const REFUSAL: u64 = 10_000_000_000;
/// Pause before another attempt to connect, nanoseconds.
const RETRY_MIN: u64 = 1_000_000_000;
const RETRY_MAX: u64 = 60_000_000_000;

/// The page's login: who may see an item by it may see the item's history.
pub const USER: &str = "web";
/// Where the page sits, for permissions.
pub const POSITION: &str = "127.0.0.1/browser";
const APPLICATION: &str = "Quoteway history";

/// The past of an item, as far as it is known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// The clock of this process, Unix milliseconds: `time_ms` and `time_s` are by the same.
    pub now_ms: u64,
    /// When the item was asked for first, Unix milliseconds: nothing is known of before.
    pub since_ms: u64,
    /// Why there is nothing to tell yet; nothing once the item's stream is open.
    pub waiting: Option<String>,
    /// The minutes that had a price, oldest first, at most 1,440.
    pub bars: Vec<Bar>,
    /// The last prices one by one, oldest first, at most 1,000.
    pub ticks: Vec<Tick>,
}

/// The server's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// There is no right to the item; else there is no such item, or no room for it.
    pub is_denied: bool,
    /// The server's text.
    pub why: String,
}

/// Told when there is an answer.
pub type Answer = Box<dyn FnOnce(Result<History, Refused>) + Send>;

struct ItemQuery {
    service: String,
    name: String,
    answer: Option<Answer>,
}

/// The way to the agent.
#[derive(Clone)]
pub struct HistoryHandle {
    queries: SyncSender<ItemQuery>,
    waker: Waker,
}

impl HistoryHandle {
    /// Starts the agent, which consumes at `address` and ends with the process.
    ///
    /// # Errors
    /// The system gives no thread, or no descriptors.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let (queries, asked) = sync_channel(QUERIES_MAX);
        let mut io = RsslIo::new(net::clock::now())?;
        let waker = io.tcp().waker();
        let mut agent = Agent { io, asked, memory: Memory::new(address) };
        let run = move || {
            let ended = loop {
                if let Err(e) = agent.turn() {
                    break e;
                }
            };
            tracing::error!("the history of prices has ended: {ended}");
        };
        std::thread::Builder::new().name("history".into()).spawn(run)?;
        Ok(Self { queries, waker })
    }

    /// Asks for what is known of an item, which is remembered from now on.
    ///
    /// # Errors
    /// Too many queries wait, or the agent has ended.
    pub fn ask(&self, service: &str, name: &str, answer: Answer) -> Result<(), &'static str> {
        self.put(service, name, Some(answer))
    }

    /// Remembers an item from now on.
    ///
    /// # Errors
    /// As [`HistoryHandle::ask`].
    pub fn remember(&self, service: &str, name: &str) -> Result<(), &'static str> {
        self.put(service, name, None)
    }

    fn put(&self, service: &str, name: &str, answer: Option<Answer>) -> Result<(), &'static str> {
        let query = ItemQuery { service: service.to_owned(), name: name.to_owned(), answer };
        self.queries.try_send(query).map_err(|_| "the history of prices does not answer")?;
        self.waker.wake();
        Ok(())
    }
}

struct Agent {
    io: RsslIo,
    asked: Receiver<ItemQuery>,
    memory: Memory,
}

impl Agent {
    /// Takes in what has come, and answers.
    fn turn(&mut self) -> io::Result<()> {
        let Self { io, asked, memory } = self;
        let now = net::clock::now();
        memory.restart(now);
        if let Err(e) = memory.client.connect(now, io) {
            memory.lost(now, &e.to_string());
        }
        let deadline = memory.client.role.timeout();
        let now = io.turn(deadline, memory)?;
        memory.client.role.handle_timeout(now);
        for ItemQuery { service, name, answer } in asked.try_iter().take(QUERIES_MAX) {
            let told = memory.tell(now, unix_ms(), &service, &name);
            if let Some(answer) = answer {
                answer(told);
            }
        }
        memory.follow_events(now);
        memory.client.send(now, io);
        Ok(())
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// How an item stands with its server.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// Asked for, or to be asked for again; why it is not open.
    Waiting(String),
    /// The item's image has come, and updates follow: there is a right to it.
    Open,
    /// The server has refused it, at this time.
    Refused(Refused, u64),
}

struct Kept {
    service: String,
    name: String,
    stream: ItemId,
    standing: Standing,
    series: Series,
    since_ms: u64,
    /// Counts up with each query.
    asked: u64,
}

/// The remembered items, and the consumer that brings them.
struct Memory {
    client: Client<Consumer, SocketAddr>,
    /// The login was refused: it is tried again then.
    restart: Option<u64>,
    kept: Vec<Kept>,
    /// By service and name, which strangers choose: the place in `kept`.
    names: HashMap<(String, String), usize>,
    /// By stream.
    streams: FxHashMap<ItemId, usize>,
    queries: u64,
    /// Why no item is open.
    why: String,
}

impl Memory {
    fn new(address: SocketAddr) -> Self {
        let server = Server::new(address.ip().to_string(), address.port());
        let connections =
            ConnectionList { retry_min_ns: RETRY_MIN, retry_max_ns: RETRY_MAX, ..ConnectionList::new(vec![server]) };
        let mut config = ConsumerConfig::new(connections, USER);
        config.login.attributes.position = Some(POSITION.to_owned());
        config.login.attributes.application_name = Some(APPLICATION.to_owned());
        config.dictionary = false;
        config.items_max = ITEMS_MAX;
        Self {
            client: Client::new(Consumer::new(config), address),
            restart: None,
            kept: Vec::new(),
            names: HashMap::new(),
            streams: FxHashMap::default(),
            queries: 0,
            why: "not connected yet".to_owned(),
        }
    }

    /// Logs in again where that was refused some time ago.
    fn restart(&mut self, now: u64) {
        if self.restart.is_some_and(|at| now >= at) {
            self.restart = None;
            self.client.role.restart(now);
        }
    }

    /// The history of an item, which is remembered from now on.
    fn tell(&mut self, now: u64, now_ms: u64, service: &str, name: &str) -> Result<History, Refused> {
        self.queries += 1;
        let place = match self.names.get(&(service.to_owned(), name.to_owned())) {
            Some(&place) => place,
            None => self.open(now, now_ms, service, name)?,
        };
        let kept = &mut self.kept[place];
        kept.asked = self.queries;
        let waiting = match &kept.standing {
            Standing::Refused(refused, at) if now.saturating_sub(*at) < REFUSAL => return Err(refused.clone()),
            Standing::Refused(..) => {
                self.reopen(now, now_ms, place)?;
                Some(self.why.clone())
            }
            Standing::Waiting(why) => Some(if why.is_empty() { self.why.clone() } else { why.clone() }),
            Standing::Open => None,
        };
        let kept = &self.kept[place];
        let since_ms = kept.since_ms;
        if waiting.is_some() {
            return Ok(History { now_ms, since_ms, waiting, bars: Vec::new(), ticks: Vec::new() });
        }
        let (bars, ticks) = (kept.series.bars().copied().collect(), kept.series.ticks().copied().collect());
        Ok(History { now_ms, since_ms, waiting, bars, ticks })
    }

    fn open(&mut self, now: u64, now_ms: u64, service: &str, name: &str) -> Result<usize, Refused> {
        if self.kept.len() >= ITEMS_MAX {
            self.forget_oldest(now);
        }
        let stream = self.request(now, service, name)?;
        let place = self.kept.len();
        self.kept.push(Kept {
            service: service.to_owned(),
            name: name.to_owned(),
            stream,
            standing: Standing::Waiting(String::new()),
            series: Series::default(),
            since_ms: now_ms,
            asked: self.queries,
        });
        self.names.insert((service.to_owned(), name.to_owned()), place);
        self.streams.insert(stream, place);
        Ok(place)
    }

    fn request(&mut self, now: u64, service: &str, name: &str) -> Result<ItemId, Refused> {
        let request = ItemRequest { name_type: Some(1), ..ItemRequest::new(service, name) };
        self.client.role.open(now, request).map_err(|e| Refused { is_denied: false, why: e.to_string() })
    }

    /// Asks once more for an item that was refused: from now on there may be a right to it.
    fn reopen(&mut self, now: u64, now_ms: u64, place: usize) -> Result<(), Refused> {
        let Kept { service, name, .. } = &self.kept[place];
        let (service, name) = (service.clone(), name.clone());
        let stream = self.request(now, &service, &name)?;
        let kept = &mut self.kept[place];
        (kept.stream, kept.since_ms) = (stream, now_ms);
        kept.standing = Standing::Waiting(String::new());
        self.streams.insert(stream, place);
        Ok(())
    }

    fn forget_oldest(&mut self, now: u64) {
        let Some(place) = (0..self.kept.len()).min_by_key(|&place| self.kept[place].asked) else { return };
        let gone = self.kept.swap_remove(place);
        self.names.remove(&(gone.service, gone.name));
        if self.streams.remove(&gone.stream).is_some() {
            self.client.role.close(now, gone.stream);
        }
        if let Some(moved) = self.kept.get(place) {
            self.names.insert((moved.service.clone(), moved.name.clone()), place);
            // A refused item has no stream any more.
            if let Some(known) = self.streams.get_mut(&moved.stream) {
                *known = place;
            }
        }
        debug_assert_eq!(self.names.len(), self.kept.len());
    }

    fn item(&mut self, now: u64, stream: ItemId, msg: &[u8]) {
        let Some(kept) = self.streams.get(&stream).and_then(|&place| self.kept.get_mut(place)) else { return };
        match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => {
                kept.standing = Standing::Open;
                kept.series.image(unix_ms(), refresh.container, refresh.body);
            }
            Ok(Msg::Update(update)) => kept.series.update(unix_ms(), update.container, update.body),
            _ => {}
        }
        // The state of an item that has ended comes as an event.
        self.follow_events(now);
    }

    fn follow_events(&mut self, now: u64) {
        while let Some(event) = self.client.role.poll_event() {
            match event {
                Event::LoginRefused(state) => {
                    self.why = format!("the login was refused: {}", state.as_state());
                    self.restart = Some(now.saturating_add(RETRY_MAX));
                }
                Event::LoggedIn(_) => "its image is awaited".clone_into(&mut self.why),
                Event::ItemState { item, state } => {
                    let Some(&place) = self.streams.get(&item) else { continue };
                    let kept = &mut self.kept[place];
                    let text = state.as_state().to_string();
                    if state.stream.is_final() {
                        // Whoever has no right to the item any more has none to what it was.
                        kept.series = Series::default();
                        let is_denied = state.code == StateCode::NOT_ENTITLED;
                        kept.standing = Standing::Refused(Refused { is_denied, why: text }, now);
                        self.streams.remove(&item);
                    } else {
                        kept.standing = Standing::Waiting(text);
                    }
                }
                Event::Disconnect(_) => self.client.leave(),
                _ => {}
            }
        }
    }

    fn lost(&mut self, now: u64, why: &str) {
        self.why = format!("not connected: {why}");
        self.follow_events(now);
    }
}

impl Handler for Memory {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.client.opened(now, conn);
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        match self.client.role.handle_message(now, msg) {
            Some(given) => self.item(now, given.item, msg),
            None => self.follow_events(now),
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.client.closed(now, conn, ended) == Closed::Lost {
            self.lost(now, &ended.why.to_string());
        }
    }
}
