//! A consumer that checks: image before update, every update once and in order while the data state is Ok, no change from
//! Suspect to Ok that hides a hole.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::tcp::{ConnId, SocketOptions};
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, GenericMsg, Msg, MsgKey, NakCode, PostFlags, PostMsg, RequestFlags, RequestMsg};
use rwf::rdm::directory;
use rwf::rdm::state::StateBuf;
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, State, StateCode, StreamState};
use tools::consumer::{Consumer, Identity, Received};

use crate::hub::place::Place;
use crate::hub::provider::{Counting, SERVICE};

/// First stream of items; the streams before are login, directory and dictionaries.
const FIRST: i32 = 100;
const DICTIONARY: i32 = 50;

/// An item as its consumer sees it.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// The number of the last message.
    pub(crate) number: Option<u32>,
    /// The data state is Ok.
    pub(crate) is_ok: bool,
    pub(crate) images: u32,
    pub(crate) updates: u32,
    /// Times that the state became Suspect.
    pub(crate) suspects: u32,
    /// The stream is over, with this text.
    pub(crate) closed: Option<String>,
    /// Numbers are missing since the state became Suspect.
    hole: bool,
    /// When the last update came.
    updated: Option<Instant>,
    /// The longest time between two updates since the last [`Watcher::forget_pauses`].
    pub(crate) pause: Duration,
}

/// The messages that a watcher has seen.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) service: Option<u16>,
    pub(crate) ended: Option<String>,
    pub(crate) items: BTreeMap<i32, Item>,
    pub(crate) acks: HashMap<u32, Option<NakCode>>,
    pub(crate) generics: Vec<Vec<u8>>,
    /// Dictionary parts, and whether the last has come.
    pub(crate) dictionary: (u32, bool),
    /// An image may be older than what was there, if that was Suspect: see [`Watcher::has_several_sources`].
    may_go_back: bool,
    /// Rules broken.
    faults: Vec<String>,
}

enum Order {
    Open(Vec<String>),
    Close(Vec<String>),
    Post { name: String, id: u32 },
    Generic { name: String, body: Vec<u8> },
    Dictionary,
    Stop,
}

type Shared = Arc<(Mutex<View>, Condvar)>;

/// A consumer in a thread of its own.
pub(crate) struct Watcher {
    name: String,
    shared: Shared,
    orders: Sender<Order>,
    waker: net::Waker,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Connects to a P2PS and logs in.
    pub(crate) fn connect(place: &Place, name: &str, addr: SocketAddr) -> Self {
        let shared = Shared::default();
        let (orders, taken) = channel();
        let (ready, waker) = channel();
        let view = Arc::clone(&shared);
        let thread = place.spawn(name, move || {
            let mut io = RsslIo::new(7).expect("descriptors");
            ready.send(io.tcp().waker()).expect("the test waits");
            Session::connect(view, addr, &mut io).run(&mut io, &taken);
        });
        let waker = waker.recv().expect("the watcher has started");
        Self { name: name.into(), shared, orders, waker, thread: Some(thread) }
    }

    fn order(&self, order: Order) {
        self.orders.send(order).expect("the watcher runs");
        self.waker.wake();
    }

    /// Asks for items.
    pub(crate) fn open(&self, names: &[String]) {
        self.order(Order::Open(names.to_vec()));
    }

    /// Closes items.
    pub(crate) fn close(&self, names: &[String]) {
        self.order(Order::Close(names.to_vec()));
    }

    /// Posts on an item's stream and wants an ack.
    pub(crate) fn post(&self, name: &str, id: u32) {
        self.order(Order::Post { name: name.into(), id });
    }

    /// Sends a generic message on an item's stream; the provider sends it back.
    pub(crate) fn generic(&self, name: &str, body: &[u8]) {
        self.order(Order::Generic { name: name.into(), body: body.to_vec() });
    }

    /// Asks for the field dictionary.
    pub(crate) fn dictionary(&self) {
        self.order(Order::Dictionary);
    }

    fn view(&self) -> MutexGuard<'_, View> {
        let view = self.shared.0.lock().expect("no panic");
        assert!(view.faults.is_empty(), "{}: {}", self.name, view.faults.join("\n"));
        view
    }

    /// The present value.
    pub(crate) fn look<T>(&self, f: impl FnOnce(&View) -> T) -> T {
        f(&self.view())
    }

    /// Waits until something is so; `what` names it for when it does not come.
    pub(crate) fn wait(&self, what: &str, so: impl Fn(&View) -> bool) {
        let deadline = Instant::now() + crate::hub::PATIENCE;
        let mut view = self.view();
        // With many items a look takes as long as some turns: whoever looks at each would keep them from happening.
        let pause = Duration::from_micros(view.items.len() as u64);
        while !so(&view) {
            assert!(Instant::now() < deadline, "{}: waited in vain for {what}: {}", self.name, summary(&view));
            let again = Instant::now() + pause;
            loop {
                view = self.shared.1.wait_timeout(view, Duration::from_millis(200)).expect("no panic").0;
                if Instant::now() >= again {
                    break;
                }
            }
            assert!(view.faults.is_empty(), "{}: {}", self.name, view.faults.join("\n"));
        }
    }

    /// Checks at each event of `time` that something is so, and stays so.
    pub(crate) fn stays(&self, what: &str, time: Duration, so: impl Fn(&View) -> bool) {
        let deadline = Instant::now() + time;
        let mut view = self.view();
        loop {
            assert!(so(&view), "{}: {what}: {}", self.name, summary(&view));
            let Some(rest) = deadline.checked_duration_since(Instant::now()) else { return };
            view = self.shared.1.wait_timeout(view, rest).expect("no panic").0;
        }
    }

    /// Waits until every item asked for is Ok.
    pub(crate) fn wait_all_ok(&self) {
        self.wait("all items to be Ok", |v| !v.items.is_empty() && v.items.values().all(|i| i.is_ok));
    }

    /// Waits until no item is Ok: each is Suspect, or closed.
    pub(crate) fn wait_none_ok(&self) {
        self.wait("no item to be Ok", |v| v.items.values().all(|i| !i.is_ok));
    }

    /// Waits until every item has had so many updates more than now.
    pub(crate) fn wait_updates(&self, more: u32) {
        let goal: BTreeMap<i32, u32> = self.look(|v| v.items.iter().map(|(&s, i)| (s, i.updates + more)).collect());
        self.wait("updates", |v| v.items.iter().all(|(s, i)| i.is_ok && i.updates >= goal[s]));
    }

    /// There is more than one Source Distributor behind the P2PS. What the provider has sent to one of them may wait in the network when
    /// the other one has had it: who goes over from this to that gets an older image, and what followed in time.
    pub(crate) fn has_several_sources(&self) {
        self.view().may_go_back = true;
    }

    /// Pauses between updates count anew, from the next update on.
    pub(crate) fn forget_pauses(&self) {
        for item in self.view().items.values_mut() {
            item.pause = Duration::ZERO;
        }
    }

    /// Holds the provider's updates and waits until every item has its last number, and is Ok.
    pub(crate) fn settle(&self, provider: &Counting) {
        provider.publish(false);
        self.wait("the last number of every item", |v| {
            v.items.values().all(|i| i.is_ok && i.number == Some(provider.number(&i.name)))
        });
        provider.publish(true);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // A thread that has ended takes no orders.
        let _ = self.orders.send(Order::Stop);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The first that are not Ok, for messages.
fn summary(view: &View) -> String {
    let bad: Vec<_> = view.items.values().filter(|i| !i.is_ok).take(3).collect();
    let ok = view.items.values().filter(|i| i.is_ok).count();
    let first = view.items.values().next();
    format!(
        "{ok} of {} items are Ok; service {:?}; {bad:?}; {first:?}; ended {:?}",
        view.items.len(),
        view.service,
        view.ended
    )
}

/// The connection, within the thread.
struct Session {
    conn: ConnId,
    seen: Seen,
}

struct Seen {
    shared: Shared,
    consumer: Consumer,
    replies: Vec<Vec<u8>>,
    /// Items asked for before the service was there.
    waiting: Vec<String>,
    next_stream: i32,
}

impl Session {
    fn connect(shared: Shared, addr: SocketAddr, io: &mut RsslIo) -> Self {
        let identity = Identity { user: "test".into(), application: "hub test".into(), service: SERVICE.into() };
        let options = SocketOptions::default();
        let conn =
            io.connect(net::clock::now(), addr, &options, Arc::new(ClientConfig::default()), None).expect("a socket");
        let consumer = Consumer::new(identity);
        Self { conn, seen: Seen { shared, consumer, replies: Vec::new(), waiting: Vec::new(), next_stream: FIRST } }
    }

    fn run(&mut self, io: &mut RsslIo, orders: &Receiver<Order>) {
        loop {
            while let Ok(order) = orders.try_recv() {
                if matches!(order, Order::Stop) {
                    return;
                }
                self.seen.obey(order);
            }
            let replies = std::mem::take(&mut self.seen.replies);
            if !replies.is_empty() {
                io.send(net::clock::now(), self.conn, |p| replies.iter().for_each(|r| p.push(r, None)));
            }
            let deadline = net::clock::now() + 100_000_000;
            io.turn(Some(deadline), &mut self.seen).expect("sockets");
            self.seen.shared.1.notify_all();
        }
    }
}

impl Seen {
    fn obey(&mut self, order: Order) {
        match order {
            Order::Open(names) => {
                self.waiting.extend(names);
                self.ask();
            }
            Order::Close(names) => {
                let shared = Arc::clone(&self.shared);
                let mut view = shared.0.lock().expect("no panic");
                let streams: Vec<i32> =
                    view.items.iter().filter(|(_, i)| names.contains(&i.name)).map(|(&s, _)| s).collect();
                for stream in streams {
                    view.items.remove(&stream);
                    self.reply(|w| rwf::msg::CloseMsg::new(Domain::MARKET_PRICE, stream).encode(w));
                }
            }
            Order::Post { name, id } => {
                let stream = self.stream_of(&name);
                let mut flags = PostFlags::ACK;
                flags.set(PostFlags::POST_COMPLETE, true);
                let post = PostMsg {
                    flags,
                    post_id: Some(id),
                    container: DataType::OPAQUE,
                    body: b"posted",
                    ..PostMsg::new(Domain::MARKET_PRICE, stream)
                };
                self.reply(|w| post.encode(w));
            }
            Order::Generic { name, body } => {
                let stream = self.stream_of(&name);
                let generic = GenericMsg {
                    container: DataType::OPAQUE,
                    body: &body,
                    ..GenericMsg::new(Domain::MARKET_PRICE, stream)
                };
                self.reply(|w| generic.encode(w));
            }
            Order::Dictionary => {
                let service = self.shared.0.lock().expect("no panic").service;
                let request = rwf::rdm::dictionary::Request {
                    stream_id: DICTIONARY,
                    service_id: service,
                    name: rwf::rdm::dictionary::FIELDS.into(),
                    verbosity: rwf::dictionary::Verbosity::NORMAL,
                    streaming: false,
                };
                self.reply(|w| request.encode(w));
            }
            Order::Stop => {}
        }
    }

    fn stream_of(&self, name: &str) -> i32 {
        let view = self.shared.0.lock().expect("no panic");
        *view.items.iter().find(|(_, i)| i.name == name).expect("an open item").0
    }

    /// Asks for what waits, if the service is there.
    fn ask(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut view = shared.0.lock().expect("no panic");
        let Some(service) = view.service else { return };
        for name in std::mem::take(&mut self.waiting) {
            let stream = self.next_stream;
            self.next_stream += 1;
            let key = MsgKey { service_id: Some(service), name: Some(name.as_bytes()), ..MsgKey::default() };
            let flags = RequestFlags::STREAMING;
            let request = RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, stream) };
            self.reply(|w| request.encode(w));
            let item = Item {
                name: name.clone(),
                number: None,
                is_ok: false,
                images: 0,
                updates: 0,
                suspects: 0,
                closed: None,
                hole: false,
                updated: None,
                pause: Duration::ZERO,
            };
            view.items.insert(stream, item);
        }
    }

    fn reply(&mut self, encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) {
        let mut buffer = [0; 512];
        let mut writer = Writer::new(&mut buffer);
        encode(&mut writer).expect("room");
        self.replies.push(writer.written().to_vec());
    }
}

impl View {
    fn fault(&mut self, stream: i32, what: &str) {
        let item = self.items.get(&stream);
        self.faults.push(format!("{what}: {item:?}"));
    }

    fn item_message(&mut self, msg: &Msg<'_>) {
        let stream = msg.stream_id();
        if let Msg::Ack(ack) = msg {
            self.acks.insert(ack.ack_id, ack.nak_code);
            return;
        }
        if stream == DICTIONARY {
            if let Msg::Refresh(refresh) = msg {
                self.dictionary.0 += 1;
                self.dictionary.1 |= refresh.flags.contains(rwf::msg::RefreshFlags::REFRESH_COMPLETE);
            }
            return;
        }
        if !self.items.contains_key(&stream) {
            return;
        }
        match msg {
            Msg::Refresh(refresh) => self.image(stream, refresh.state, number(refresh.body)),
            Msg::Update(update) => self.update(stream, number(update.body)),
            Msg::Status(status) => {
                if let Some(state) = status.state {
                    self.state(stream, state);
                }
            }
            Msg::Generic(generic) => self.generics.push(generic.body.to_vec()),
            _ => self.fault(stream, "a message of a class that nobody asked for"),
        }
    }

    /// A state of a service as a whole is that of its items: the SDK tells each, and so does this.
    fn directory_message(&mut self, msg: &[u8]) {
        let services = match Msg::decode(msg) {
            Ok(Msg::Refresh(m)) if m.domain == Domain::SOURCE => directory::Refresh::decode(&m).map(|r| r.services),
            Ok(Msg::Update(m)) if m.domain == Domain::SOURCE => directory::Update::decode(&m).map(|u| u.services),
            _ => return,
        };
        for service in services.expect("a directory") {
            let state = service.state.as_ref().and_then(directory::Part::value).and_then(|s| s.status.as_ref());
            let gone = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "the service is gone");
            let deleted = (service.action == directory::Action::Delete).then_some(gone);
            for stream in self.items.keys().copied().collect::<Vec<_>>() {
                if let Some(state) = state.map(StateBuf::as_state).or(deleted) {
                    self.state(stream, state);
                }
            }
        }
    }

    fn image(&mut self, stream: i32, state: State<'_>, number: u32) {
        let Some(item) = self.items.get_mut(&stream) else { return };
        let older = item.number.filter(|&had| number < had && (item.is_ok || !self.may_go_back));
        item.images += 1;
        item.number = Some(number);
        item.hole = false;
        if let Some(had) = older {
            self.fault(stream, &format!("an image with {number}, older than {had}, which was there"));
        }
        self.state(stream, state);
    }

    fn update(&mut self, stream: i32, number: u32) {
        let Some(item) = self.items.get_mut(&stream) else { return };
        item.updates += 1;
        let now = Instant::now();
        item.pause = item.updated.replace(now).map_or(item.pause, |last| item.pause.max(now - last));
        let Some(had) = item.number.replace(number) else {
            return self.fault(stream, "an update before the image");
        };
        let in_order = number == had + 1;
        item.hole |= !in_order;
        if item.is_ok && !in_order {
            self.fault(stream, &format!("update {number} after {had} and the state is Ok"));
        }
    }

    fn state(&mut self, stream: i32, state: State<'_>) {
        let Some(item) = self.items.get_mut(&stream) else { return };
        if state.stream != StreamState::OPEN {
            item.closed = Some(state.to_string());
            item.is_ok = false;
            return;
        }
        match state.data {
            DataState::OK => {
                item.is_ok = true;
                if item.hole {
                    self.fault(stream, "Ok again, although numbers are missing");
                } else if self.items[&stream].number.is_none() {
                    self.fault(stream, "Ok before the image");
                }
            }
            DataState::SUSPECT => item.suspects += u32::from(std::mem::replace(&mut item.is_ok, false)),
            _ => {}
        }
    }
}

fn number(body: &[u8]) -> u32 {
    body.try_into().map_or(u32::MAX, u32::from_be_bytes)
}

impl Handler for Seen {
    fn opened(&mut self, now: u64, _: ConnId, _: &Opened<'_>) {
        let replies = &mut self.replies;
        self.consumer.begin(now, &mut |msg| replies.push(msg.to_vec()));
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let replies = &mut self.replies;
        let heard = self.consumer.receive(now, msg, &mut |msg| replies.push(msg.to_vec()));
        let shared = Arc::clone(&self.shared);
        let mut view = shared.0.lock().expect("no panic");
        view.directory_message(msg);
        match heard {
            Received::ServiceUp(id) => {
                view.service = Some(id);
                drop(view);
                self.ask();
            }
            Received::ServiceDown => view.service = None,
            Received::Item => view.item_message(&Msg::decode(msg).expect("a message")),
            _ => {}
        }
    }

    fn closed(&mut self, _: u64, _: ConnId, ended: &Ended) {
        let mut view = self.shared.0.lock().expect("no panic");
        view.ended = Some(ended.why.to_string());
        for item in view.items.values_mut() {
            item.is_ok = false;
        }
    }
}
