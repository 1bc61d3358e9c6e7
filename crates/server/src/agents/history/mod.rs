//! Items' prices before somebody looked: those of a day, of items that the page has shown, for its chart.
//!
//! The agent is one more consumer of the process's own port (a [`Connection`] of the client library), in a thread of its own; it logs in as the page does, so that it has the
//! page's rights. It begins when it is told of the first item, and never else: a process whose page nobody opens has no such client. Of
//! an item it tells what it has only while the item's stream is open to it: a right that was taken away takes the history with it.

mod series;

pub use series::{BARS_MAX, Bar, TICKS_MAX, Tick};

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

use client::{Client, Delivery, Event, Interest, SubscriptionId};
use client_io::{Connection, Notice, SessionConfig};
use net::Waker;
use omm::consumer::{self, ItemRequest};
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
        let mut connection = Connection::new(settings(address).map_err(io::Error::other)?)?;
        let waker = connection.waker();
        let mut agent = Agent { connection, asked, memory: Memory::new() };
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
    connection: Connection,
    asked: Receiver<ItemQuery>,
    memory: Memory,
}

impl Agent {
    /// Takes in what has come, and answers.
    fn turn(&mut self) -> io::Result<()> {
        let Self { connection, asked, memory } = self;
        memory.restart(net::clock::now(), &mut connection.client);
        let now = connection.turn(memory.restart, &mut |now, delivery| memory.item(now, &delivery))?;
        memory.note_lost(&connection.client);
        for ItemQuery { service, name, answer } in asked.try_iter().take(QUERIES_MAX) {
            let told = memory.tell((now, unix_ms()), &mut connection.client, &service, &name);
            if let Some(answer) = answer {
                answer(told);
            }
        }
        while let Some(notice) = connection.poll_notice() {
            memory.note(now, &notice);
        }
        Ok(())
    }
}

/// The session: the page's login, at the process's own port.
fn settings(address: SocketAddr) -> Result<SessionConfig, client_io::AddressError> {
    let mut config = SessionConfig::new(&address.to_string(), USER)?;
    let consumer = &mut config.client.consumer;
    (consumer.connections.retry_min_ns, consumer.connections.retry_max_ns) = (RETRY_MIN, RETRY_MAX);
    consumer.login.attributes.position = Some(POSITION.to_owned());
    consumer.login.attributes.application_name = Some(APPLICATION.to_owned());
    consumer.dictionary = false;
    consumer.items_max = ITEMS_MAX;
    Ok(config)
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
    subscription: SubscriptionId,
    standing: Standing,
    series: Series,
    since_ms: u64,
    /// Counts up with each query.
    asked: u64,
}

/// The remembered items. The methods that open or close are handed the client that brings them.
struct Memory {
    /// The login was refused: it is tried again then.
    restart: Option<u64>,
    kept: Vec<Kept>,
    /// By service and name, which strangers choose: the place in `kept`.
    names: HashMap<(String, String), usize>,
    /// The places by subscription; each has one item.
    subscriptions: FxHashMap<SubscriptionId, usize>,
    /// Items of which a state was told that may mean that they are lost, by place.
    in_doubt: Vec<(usize, String)>,
    queries: u64,
    /// Why no item is open.
    why: String,
}

impl Memory {
    fn new() -> Self {
        Self {
            restart: None,
            kept: Vec::new(),
            names: HashMap::new(),
            subscriptions: FxHashMap::default(),
            in_doubt: Vec::new(),
            queries: 0,
            why: "not connected yet".to_owned(),
        }
    }

    /// Logs in again where that was refused some time ago.
    fn restart(&mut self, now: u64, client: &mut Client) {
        if self.restart.is_some_and(|at| now >= at) {
            self.restart = None;
            client.restart(now);
        }
    }

    /// The history of an item, which is remembered from now on.
    fn tell(
        &mut self,
        (now, now_ms): (u64, u64),
        client: &mut Client,
        service: &str,
        name: &str,
    ) -> Result<History, Refused> {
        self.queries += 1;
        let place = match self.names.get(&(service.to_owned(), name.to_owned())) {
            Some(&place) => place,
            None => self.open((now, now_ms), client, service, name)?,
        };
        let kept = &mut self.kept[place];
        kept.asked = self.queries;
        let waiting = match &kept.standing {
            Standing::Refused(refused, at) if now.saturating_sub(*at) < REFUSAL => return Err(refused.clone()),
            Standing::Refused(..) => {
                self.reopen((now, now_ms), client, place)?;
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

    fn open(
        &mut self,
        (now, now_ms): (u64, u64),
        client: &mut Client,
        service: &str,
        name: &str,
    ) -> Result<usize, Refused> {
        if self.kept.len() >= ITEMS_MAX {
            self.forget_oldest(now, client);
        }
        let (subscription, standing) = subscribe(now, client, service, name)?;
        let place = self.kept.len();
        self.kept.push(Kept {
            service: service.to_owned(),
            name: name.to_owned(),
            subscription,
            standing,
            series: Series::default(),
            since_ms: now_ms,
            asked: self.queries,
        });
        self.names.insert((service.to_owned(), name.to_owned()), place);
        self.subscriptions.insert(subscription, place);
        Ok(place)
    }

    /// Asks once more for an item that was refused: from now on there may be a right to it.
    fn reopen(&mut self, (now, now_ms): (u64, u64), client: &mut Client, place: usize) -> Result<(), Refused> {
        let kept = &mut self.kept[place];
        let (subscription, standing) = subscribe(now, client, &kept.service, &kept.name)?;
        // The one that was refused has no stream any more.
        client.unsubscribe(now, kept.subscription);
        self.subscriptions.remove(&kept.subscription);
        (kept.subscription, kept.since_ms, kept.standing) = (subscription, now_ms, standing);
        self.subscriptions.insert(subscription, place);
        Ok(())
    }

    fn forget_oldest(&mut self, now: u64, client: &mut Client) {
        let Some(place) = (0..self.kept.len()).min_by_key(|&place| self.kept[place].asked) else { return };
        let gone = self.kept.swap_remove(place);
        self.names.remove(&(gone.service, gone.name));
        self.subscriptions.remove(&gone.subscription);
        client.unsubscribe(now, gone.subscription);
        if let Some(moved) = self.kept.get(place) {
            self.names.insert((moved.service.clone(), moved.name.clone()), place);
            self.subscriptions.insert(moved.subscription, place);
        }
        debug_assert_eq!(self.names.len(), self.kept.len());
        debug_assert_eq!(self.subscriptions.len(), self.kept.len());
    }

    fn item(&mut self, now: u64, delivery: &Delivery<'_>) {
        let Some(&place) = self.subscriptions.get(&delivery.subscription) else { return };
        let kept = &mut self.kept[place];
        let msg = Msg::decode(delivery.msg);
        if delivery.is_final {
            // A user who has no right to the item any more has none to what it was.
            kept.series = Series::default();
            let state = msg.as_ref().ok().and_then(Msg::state);
            let is_denied = state.is_some_and(|state| state.code == StateCode::NOT_ENTITLED);
            let why = state.map_or_else(|| "the item has ended".to_owned(), ToString::to_string);
            kept.standing = Standing::Refused(Refused { is_denied, why }, now);
            return;
        }
        match msg {
            Ok(Msg::Refresh(refresh)) => {
                kept.standing = Standing::Open;
                kept.series.image(unix_ms(), refresh.container, refresh.body);
            }
            Ok(Msg::Update(update)) => kept.series.update(unix_ms(), update.container, update.body),
            Ok(Msg::Status(status)) => {
                self.in_doubt.extend(status.state.map(|state| (place, state.to_string())));
            }
            _ => {}
        }
    }

    /// Items of which something was told and whose stream is not open any more wait for it; of the others the provider alone has said something.
    fn note_lost(&mut self, client: &Client) {
        for (place, why) in std::mem::take(&mut self.in_doubt) {
            let Some(kept) = self.kept.get_mut(place) else { continue };
            let is_refused = matches!(kept.standing, Standing::Refused(..));
            if !is_refused && !client.is_open(kept.subscription, 0) {
                kept.standing = Standing::Waiting(why);
            }
        }
    }

    fn note(&mut self, now: u64, notice: &Notice) {
        match notice {
            Notice::Lost { why, .. } => self.why = format!("not connected: {why}"),
            Notice::Client(Event::Consumer { event, .. }) => match &**event {
                consumer::Event::LoginRefused(state) => {
                    self.why = format!("the login was refused: {}", state.as_state());
                    self.restart = Some(now.saturating_add(RETRY_MAX));
                }
                consumer::Event::LoggedIn(_) => "its image is awaited".clone_into(&mut self.why),
                _ => {}
            },
            _ => {}
        }
    }
}

/// Asks for an item; it waits, for whatever is said of it at once.
fn subscribe(now: u64, client: &mut Client, service: &str, name: &str) -> Result<(SubscriptionId, Standing), Refused> {
    let request = ItemRequest { name_type: Some(1), ..ItemRequest::new(service, "") };
    let interest = Interest { request, names: vec![name.to_owned()] };
    let mut why = String::new();
    let opened = client.subscribe(now, &interest, &mut |delivery| {
        if let Some(state) = Msg::decode(delivery.msg).ok().as_ref().and_then(Msg::state) {
            why = state.to_string();
        }
    });
    let subscription = opened.map_err(|e| Refused { is_denied: false, why: e.to_string() })?;
    Ok((subscription, Standing::Waiting(why)))
}
