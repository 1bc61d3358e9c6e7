//! A provider that counts: each item's image and updates carry a number that grows by one.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use feed::provider::{ImagePart, ItemId, Items, Open, Provider, ProviderConfig, Refusal, SessionId};
use net::tcp::SocketOptions;
use rssl::ServerConfig;
use rssl_io::RsslIo;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataState, DataType, StateCode};
use tools::source::publisher::{Egress, Feed, Publisher};

use crate::hub::place::Place;

pub(crate) const SERVICE: &str = "COUNT";

/// Between two updates of everything, if that are no more items than [`SLICE`].
const TICK: u64 = 5_000_000;
/// Items that are updated in one go; of more, the next ones have their turn with the next tick.
const SLICE: usize = 1_000;
/// Updates of everything in one go, when nothing holds it back.
const BURST: u32 = 16;

/// The provider, as a test sees it.
#[derive(Default)]
struct Shared {
    publishing: AtomicBool,
    /// As fast as its sessions take it.
    unpaced: AtomicBool,
    stop: AtomicBool,
    streams: AtomicU32,
    updates: AtomicU64,
    numbers: Mutex<HashMap<String, u32>>,
}

/// The provider, in a thread of its own.
pub(crate) struct Counting {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Counting {
    /// At a free port of the place.
    pub(crate) fn start(place: &Place) -> Self {
        let shared = Arc::new(Shared::default());
        shared.publishing.store(true, Ordering::Relaxed);
        let (addr, thread) = serve(place, &shared, 0);
        Self { addr, shared, thread: Some(thread) }
    }

    /// Ends it, and starts it again at its port: items go on from their last numbers.
    pub(crate) fn restart(&mut self, place: &Place) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
        self.shared.stop.store(false, Ordering::Relaxed);
        self.shared.streams.store(0, Ordering::Relaxed);
        let (_, thread) = serve(place, &self.shared, self.addr.port());
        self.thread = Some(thread);
    }

    /// Whether items are updated.
    pub(crate) fn publish(&self, on: bool) {
        self.shared.publishing.store(on, Ordering::Relaxed);
    }

    /// Updates items as fast as the sessions take it until there are so many more, then as before.
    pub(crate) fn flood(&self, updates: u64) {
        let goal = self.updates() + updates;
        self.shared.unpaced.store(true, Ordering::Relaxed);
        crate::hub::until("the updates of the flood", || self.updates() >= goal);
        self.shared.unpaced.store(false, Ordering::Relaxed);
    }

    /// Streams open.
    pub(crate) fn streams(&self) -> u32 {
        self.shared.streams.load(Ordering::Relaxed)
    }

    /// Updates sent so far.
    pub(crate) fn updates(&self) -> u64 {
        self.shared.updates.load(Ordering::Relaxed)
    }

    /// The last number of an item.
    pub(crate) fn number(&self, name: &str) -> u32 {
        self.shared.numbers.lock().expect("no panic").get(name).copied().unwrap_or(0)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A provider that has failed has failed its test already.
            let _ = thread.join();
        }
    }
}

/// The provider's thread, and where it listens.
fn serve(place: &Place, shared: &Arc<Shared>, port: u16) -> (SocketAddr, JoinHandle<()>) {
    let (ready, bound) = std::sync::mpsc::channel();
    let (feed, address) = (Numbers::new(Arc::clone(shared)), place.address());
    let thread = place.spawn("provider", move || {
        let mut io = RsslIo::new(1).expect("descriptors");
        let at = SocketAddr::from((address, port));
        let options = SocketOptions { reuse_address: true, ..SocketOptions::default() };
        // While nobody listens, a distributor of the same host that dials this port can come from it, and so meet itself: the port is
        // taken until that connection has failed.
        let deadline = Instant::now() + Duration::from_mins(1);
        let (_, addr) = loop {
            match io.listen(at, &options, Arc::new(ServerConfig::default())) {
                Err(e) if e.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    std::thread::park_timeout(Duration::from_millis(20));
                }
                listening => break listening.expect("a port"),
            }
        };
        ready.send(addr).expect("the test waits");
        let config = ProviderConfig { service: SERVICE.into(), ..ProviderConfig::default() };
        let shared = Arc::clone(&feed.shared);
        let mut publisher = Publisher::new(Provider::new(config, Arc::new(Dictionary::builtin())), feed);
        while !shared.stop.load(Ordering::Relaxed) {
            publisher.turn(&mut io, net::clock::now() + 2_000_000).expect("sockets");
        }
    });
    let addr = bound.recv().expect("the provider listens");
    (addr, thread)
}

struct Item {
    name: String,
    number: u32,
    streams: Vec<(SessionId, i32)>,
}

struct Numbers {
    shared: Arc<Shared>,
    items: Vec<Item>,
    by_name: HashMap<String, usize>,
    due: u64,
    /// The item that is updated next.
    next: usize,
}

impl Numbers {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, items: Vec::new(), by_name: HashMap::new(), due: 0, next: 0 }
    }
}

impl Items for Numbers {
    fn open(&mut self, open: Open<'_>) -> Result<ItemId, Refusal> {
        if open.name.starts_with("NONE") {
            return Err(Refusal { code: StateCode::NOT_FOUND, text: "no such item".into() });
        }
        let (items, shared) = (&mut self.items, &self.shared);
        let at = *self.by_name.entry(open.name.to_owned()).or_insert_with(|| {
            // In another life it had come so far.
            let number = shared.numbers.lock().expect("no panic").get(open.name).copied().unwrap_or(0);
            items.push(Item { name: open.name.to_owned(), number, streams: Vec::new() });
            items.len() - 1
        });
        if open.streaming {
            self.items[at].streams.push((open.session, open.stream_id));
            self.shared.streams.fetch_add(1, Ordering::Relaxed);
        }
        Ok(ItemId(at as u32))
    }

    fn image(&mut self, item: ItemId, _: Domain, _: usize, out: &mut Vec<u8>) -> ImagePart {
        out.extend_from_slice(&self.items[item.0 as usize].number.to_be_bytes());
        ImagePart {
            container: DataType::OPAQUE,
            sequence: Some(self.items[item.0 as usize].number),
            data: DataState::OK,
            more: false,
        }
    }

    fn name(&self, item: ItemId) -> Option<String> {
        self.items.get(item.0 as usize).map(|item| item.name.clone())
    }

    fn close(&mut self, item: ItemId, session: SessionId, stream_id: i32) {
        let streams = &mut self.items[item.0 as usize].streams;
        let before = streams.len();
        streams.retain(|&s| s != (session, stream_id));
        self.shared.streams.fetch_sub((before - streams.len()) as u32, Ordering::Relaxed);
    }
}

impl Feed for Numbers {
    fn items(&mut self, _: SessionId) -> &mut dyn Items {
        self
    }

    fn due(&self, now: u64, egress: &Egress<'_>) -> Option<u64> {
        let unpaced = self.shared.unpaced.load(Ordering::Relaxed) && egress.sessions().all(|s| egress.is_clear(s));
        Some(if unpaced { now } else { self.due.max(now) })
    }

    fn publish(&mut self, now: u64, egress: &mut Egress<'_>) {
        if !self.shared.publishing.load(Ordering::Relaxed) {
            return;
        }
        if self.shared.unpaced.load(Ordering::Relaxed) {
            if egress.sessions().all(|session| egress.is_clear(session)) {
                (0..BURST).for_each(|_| self.update_all(egress));
            }
        } else if now >= self.due {
            // Messages that a busy machine was late with come soon, if they were not too late.
            self.due = (self.due + TICK).max(now.saturating_sub(20 * TICK));
            self.update_all(egress);
        }
    }
}

impl Numbers {
    fn update_all(&mut self, egress: &mut Egress<'_>) {
        let mut numbers = self.shared.numbers.lock().expect("no panic");
        let all = self.items.len();
        let count = all.min(SLICE);
        let (before, from) = self.items.split_at_mut(self.next.min(all));
        self.next = (self.next + count) % all.max(1);
        let slice = from.iter_mut().chain(before).take(count);
        for item in slice.filter(|item| !item.streams.is_empty()) {
            item.number += 1;
            match numbers.get_mut(&item.name) {
                Some(number) => *number = item.number,
                None => drop(numbers.insert(item.name.clone(), item.number)),
            }
            for &(session, stream) in &item.streams {
                let body = item.number.to_be_bytes();
                let update = UpdateMsg {
                    seq_num: Some(item.number),
                    container: DataType::OPAQUE,
                    body: &body,
                    ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
                };
                let mut buffer = [0; 64];
                let mut writer = Writer::new(&mut buffer);
                update.encode(&mut writer).expect("room");
                egress.queue(session, writer.written());
                self.shared.updates.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
