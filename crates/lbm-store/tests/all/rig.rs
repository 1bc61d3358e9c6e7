//! A source, stores and receivers that hear each other at once: for rules that need no chance.

use std::net::SocketAddrV4;

use lbm::topic::Message;
use lbm::wire::lbmc::{self, Messages};
use lbm_store::receiver::{ReceiverConfig, ReceiverEvent, Sink, Topic, TopicEvent};
use lbm_store::source::{Identity, NotAdmitted, Source, SourceConfig, SourceEvent, StoreAddress};
use lbm_store::store::{Entry, Proxy, Store, StoreConfig};

use crate::had::payload;
use crate::sim_log::SimLog;
use crate::world::{MS, origin};

const TOPIC_INDEX: u32 = 42;
const STREAM: u32 = 1;

/// A receiver with its application; the place of each store in its list.
pub(crate) struct Reader<S> {
    pub(crate) topic: Topic,
    pub(crate) sink: S,
    places: Vec<usize>,
    pub(crate) events: Vec<ReceiverEvent>,
    /// It has asked the source for its stores.
    asks: bool,
    conn: u64,
}

pub(crate) struct Rig<S> {
    pub(crate) now: u64,
    pub(crate) stores: Vec<Store<SimLog>>,
    /// Everything that the stores have written survives by the next turn.
    pub(crate) syncs: bool,
    /// Stores that hear and answer nobody.
    pub(crate) silent: Vec<bool>,
    pub(crate) source: Source,
    pub(crate) events: Vec<SourceEvent>,
    pub(crate) readers: Vec<Reader<S>>,
    /// The source's process is no more.
    gone: bool,
    /// By store: what it was to do about proxy sources, in order.
    pub(crate) proxies: Vec<Vec<Proxy>>,
    next_conn: u64,
}

/// The stream on which a store stands in for the source, and the topic's index there.
fn proxy_stream(store: usize) -> (u32, u32) {
    (100 + store as u32, 7_000 + store as u32)
}

pub(crate) fn store_at(store: usize) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, 0, store as u8 + 1].into(), 14567)
}

/// A configuration with so many stores that give registration ids.
pub(crate) fn source_config(stores: usize) -> SourceConfig {
    let address = |i| StoreAddress { group: 0, at: store_at(i), reg_id: 0 };
    SourceConfig { stores: (0..stores).map(address).collect(), session: 77, ..SourceConfig::default() }
}

pub(crate) fn new_source(now: u64, config: SourceConfig) -> Source {
    let identity = Identity {
        topic: b"orders".as_slice().into(),
        transport: 0,
        topic_index: TOPIC_INDEX,
        origin: origin(STREAM),
        requests: SocketAddrV4::new([10, 0, 1, 1].into(), 14391),
    };
    Source::new(now, config, identity)
}

impl<S: Sink> Rig<S> {
    /// With stores in memory.
    pub(crate) fn new(config: SourceConfig, store: &StoreConfig) -> Self {
        Self::with_logs(config, store, false)
    }

    /// With stores in memory, or with a log.
    pub(crate) fn with_logs(config: SourceConfig, store: &StoreConfig, durable: bool) -> Self {
        let now = 1_000 * MS;
        let count = config.stores.len();
        let log = || SimLog { durable, ..SimLog::default() };
        let mut stores: Vec<_> =
            (0..count).map(|i| Store::new(StoreConfig { id: i as u16, ..store.clone() }, log())).collect();
        for store in &mut stores {
            store.stream(now, STREAM, origin(STREAM));
        }
        let source = new_source(now, config);
        let mut rig = Self {
            now,
            stores,
            syncs: true,
            silent: vec![false; count],
            source,
            events: Vec::new(),
            readers: Vec::new(),
            gone: false,
            proxies: vec![Vec::new(); count],
            next_conn: 10,
        };
        rig.run(2_000);
        rig
    }

    /// Another process of a receiver; returns its place.
    pub(crate) fn read(&mut self, config: ReceiverConfig, sink: S) -> usize {
        let mut topic = Topic::new(b"orders", config);
        topic.stream_begun(self.now, STREAM, true);
        let places = vec![usize::MAX; self.stores.len()];
        self.next_conn += 1;
        self.readers.push(Reader { topic, sink, places, events: Vec::new(), asks: false, conn: self.next_conn });
        self.readers.len() - 1
    }

    /// The source's process ends.
    pub(crate) fn leave(&mut self) {
        self.gone = true;
        self.stores.iter_mut().for_each(|store| store.closed(self.now, 1));
    }

    /// Another process of the source, heard by all.
    pub(crate) fn come_back(&mut self, config: SourceConfig) {
        (self.source, self.gone) = (new_source(self.now, config), false);
        self.events.clear();
        self.readers.iter_mut().for_each(|reader| reader.topic.stream_begun(self.now, STREAM, true));
    }

    /// A store is killed and started again, with what it has written.
    pub(crate) fn restart(&mut self, at: usize, config: &StoreConfig) {
        let entries = std::mem::take(&mut self.stores[at].log().entries);
        let mut store = Store::new(config.clone(), SimLog { durable: true, entries: entries.clone() });
        for entry in &entries {
            store.restore(self.now, &Entry::decode(entry).expect("an entry"));
        }
        self.stores[at] = store;
    }

    /// Another process of a receiver, that hears the stores which stand in for the source.
    pub(crate) fn read_by_proxies(&mut self, config: ReceiverConfig, sink: S) -> usize {
        let reader = self.read(config, sink);
        let topic = &mut self.readers[reader].topic;
        topic.stream_ended(STREAM);
        (0..self.stores.len()).for_each(|store| topic.stream_begun(self.now, proxy_stream(store).0, true));
        reader
    }

    /// Stores answer those that ask.
    fn turn_proxies(&mut self) {
        for reader in self.readers.iter_mut().filter(|reader| reader.asks) {
            reader.asks = false;
            for (at, store) in self.stores.iter().enumerate() {
                let (stream, index) = proxy_stream(at);
                let mut word = Vec::new();
                store.each_source(|reg_id, _, _, _, _| store.proxy_info(reg_id, index, &mut word));
                for message in Messages::new(&word) {
                    let message = message.expect("ours");
                    reader.topic.control(self.now, stream, index, &message, &mut reader.sink).expect("ours");
                }
            }
        }
    }

    /// The process of a receiver ends.
    pub(crate) fn stop(&mut self, reader: usize) -> Reader<S> {
        let reader = self.readers.remove(reader);
        self.stores.iter_mut().for_each(|store| store.closed(self.now, reader.conn));
        reader
    }

    /// Sends the message of this number if there is room.
    pub(crate) fn send(&mut self, id: u64) -> Result<u32, NotAdmitted> {
        let payload = payload(id);
        self.source.admit(1, payload.len())?;
        let sqn = self.source.next_sqn().expect("it is ready");
        self.source.sent(self.now, sqn, &payload, 1_000);
        let length = (lbmc::DATA_HEADER + payload.len()) as u16;
        let mut encoded = lbmc::data_header(length, TOPIC_INDEX, sqn).to_vec();
        encoded.extend_from_slice(&payload);
        for (store, _) in self.stores.iter_mut().zip(&self.silent).filter(|(_, silent)| !**silent) {
            store.data(self.now, STREAM, sqn, [&encoded, &[]]);
        }
        let (message, _) = lbmc::Message::decode(&encoded).expect("ours");
        let content = message.content().expect("ours");
        let (kind, headers) = (message.kind, message.headers());
        let message = Message { sqn, payload: content.payload, properties: 0, kind, headers };
        for reader in &mut self.readers {
            reader.topic.message(self.now, STREAM, &message, &mut reader.sink);
        }
        Ok(sqn)
    }

    /// Sends all of them.
    pub(crate) fn send_all(&mut self, ids: std::ops::Range<u64>) {
        for id in ids {
            self.send(id).expect("there is room");
        }
    }

    /// So many milliseconds pass.
    pub(crate) fn run(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(10) {
            self.now += 10 * MS;
            self.turn_source();
            (0..self.readers.len()).for_each(|reader| self.turn_reader(reader));
            (0..self.stores.len()).for_each(|store| self.turn_store(store));
        }
    }

    fn turn_source(&mut self) {
        if self.gone {
            return self.turn_proxies();
        }
        let now = self.now;
        let mut announced = Vec::new();
        self.source.on_timer(now, |bytes| announced.push(bytes.to_vec()));
        let asks = self.readers.iter_mut().any(|reader| std::mem::take(&mut reader.asks));
        if asks {
            let mut info = Vec::new();
            self.source.info(&mut info);
            announced.push(info);
        }
        for message in announced.iter().flat_map(|bytes| Messages::new(bytes)) {
            let message = message.expect("ours");
            for reader in &mut self.readers {
                reader.topic.control(now, STREAM, TOPIC_INDEX, &message, &mut reader.sink).expect("ours");
            }
        }
        for event in self.source.events().collect::<Vec<_>>() {
            if let SourceEvent::Dial { store, .. } = event {
                self.source.connected(now, store);
            }
            self.events.push(event);
        }
        for (store, bytes) in self.source.output().drain().collect::<Vec<_>>() {
            if !self.silent[store as usize] {
                self.stores[store as usize].receive(now, 1, &bytes).expect("ours");
            }
        }
    }

    fn turn_reader(&mut self, reader: usize) {
        let (now, reader) = (self.now, &mut self.readers[reader]);
        reader.topic.on_timer(now, &mut reader.sink);
        for event in reader.topic.events() {
            let TopicEvent::Source(source, event) = event else {
                reader.asks = true;
                continue;
            };
            if let ReceiverEvent::Dial { store, to } = event {
                let at = (0..self.stores.len()).find(|i| store_at(*i) == to).expect("a store");
                reader.places[at] = store;
                reader.topic.connected(now, Topic::conn(source, store));
            }
            reader.events.push(event);
        }
        let mut out = Vec::new();
        reader.topic.output(|conn, bytes| out.push(((conn & 0xFF) as usize, bytes)));
        for (place, bytes) in out {
            let at = reader.places.iter().position(|known| *known == place).expect("it was dialled");
            if !self.silent[at] {
                self.stores[at].receive(now, reader.conn, &bytes).expect("ours");
            }
        }
    }

    fn turn_store(&mut self, at: usize) {
        let (now, store) = (self.now, &mut self.stores[at]);
        store.on_timer(now);
        self.proxies[at].extend(store.proxies());
        if self.syncs {
            let written = store.log().entries.len() as u64;
            store.logged(written);
        }
        store.flush();
        for (conn, bytes) in store.output().drain().collect::<Vec<_>>() {
            if self.silent[at] {
                continue;
            }
            if conn == 1 && self.gone {
                continue;
            }
            if conn == 1 {
                self.source.receive(now, at, &bytes).expect("ours");
            } else if let Some(reader) = self.readers.iter_mut().find(|reader| reader.conn == conn) {
                let conn = Topic::conn(0, reader.places[at]);
                reader.topic.receive(now, conn, &bytes, &mut reader.sink).expect("ours");
            }
        }
    }

    /// Oldest and next number that a store holds, and the first number not consumed of each receiver.
    pub(crate) fn held(&self, store: usize) -> ((u32, u32), Vec<u32>) {
        let mut held = ((0, 0), Vec::new());
        self.stores[store].each_source(|_, _, range, _, receivers| {
            held = (range, receivers.iter().map(|(_, next)| *next).collect());
        });
        held
    }
}
