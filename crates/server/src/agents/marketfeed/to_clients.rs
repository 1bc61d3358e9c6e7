//! Market Price items on their way to clients that want them as Marketfeed.
//!
//! A body is converted once, however many clients get it. A record names its item, and an update of RWF does not: so the streams of these
//! clients are followed from their refreshes on.

use std::collections::{HashMap, VecDeque, hash_map};
use std::ops::Range;
use std::sync::Arc;

use config::MarketfeedClients;
use hub::p2ps::{CLOSE_BATCH, ClientId, Deliveries, P2ps};
use marketfeed::Converter;
use net::tcp::ConnId;
use rssl_io::RsslIo;
use rustc_hash::FxHashMap;
use rwf::container::{ElementList, SetScope};
use rwf::dictionary::Dictionary;
use rwf::msg::{CloseMsg, Domain, Msg, MsgClass, RefreshFlags};
use rwf::rdm::request::Payload;
use rwf::{DataType, Primitive, StreamState, peek};

use super::{ServiceOptions, ToldLosses, options};

/// The attribute of a login that asks for Marketfeed, where it is a number other than 0. Ours: RDM has none.
const LOGIN_ATTRIBUTE: &[u8] = b"MarketfeedData";

/// Room for records that is kept between flushes, bytes.
const BYTES_KEPT: usize = 1 << 20;
/// Streams of clients that have left, or such clients, that a flush forgets.
const LEFT_A_FLUSH: usize = 1_000;
/// Streams of batches of closes that wait to be forgotten, 4 MB of numbers; beyond it the oldest are forgotten at once.
const CLOSED_KEPT: usize = 1 << 20;

/// An item that some of these clients watch.
struct Item {
    service: u16,
    name: Box<[u8]>,
    /// The item's transactions so far: all clients see the same number in the same record.
    rtl: u16,
    /// Streams on which it is.
    streams: u32,
}

/// The item of a stream.
struct Bound {
    at: usize,
    /// Batches of closes that came before: those do not mean this one, and may not be done yet.
    since: u32,
}

/// The streams of a client that have items.
struct Watched {
    /// Batches of closes that came before: those are of one who had the client's number before it.
    since: u32,
    streams: HashMap<i32, Bound>,
}

/// The streams that a batch has closed, at least one, and which batch that was.
struct Closed {
    client: ClientId,
    number: u32,
    streams: std::vec::IntoIter<i32>,
}

/// State that the clients of a thread share which want Marketfeed.
pub(in crate::agents) struct ToClients {
    who: MarketfeedClients,
    /// Names of services whose items everybody gets as Marketfeed.
    services: Vec<String>,
    /// Whether a service is one of these, by id, and of which state of the P2PS's services that holds.
    ids: Vec<bool>,
    ids_of: (u64, usize),
    dictionary: Arc<Dictionary>,
    converter: Converter,
    options: ServiceOptions,
    told: ToldLosses,
    items: Vec<Item>,
    free: Vec<usize>,
    /// Clients choose the names and the numbers of the streams: hashed with a key that nobody knows.
    by_key: HashMap<(u16, Box<[u8]>), usize>,
    /// By client, so that one that leaves is found without a look at the others' streams.
    streams: FxHashMap<ClientId, Watched>,
    /// Streams of clients that have left, whose items do not know yet.
    left: VecDeque<hash_map::IntoValues<i32, Bound>>,
    /// Streams that have been closed and are still bound, if nothing else has come on them since.
    closed: VecDeque<Closed>,
    /// So many streams are in there.
    closed_streams: usize,
    /// Of these so many are forgotten in a flush: no fewer than the P2PS closes in a turn, so that they do not pile up.
    closed_a_flush: usize,
    /// Batches of closes so far.
    batches: u32,
    /// Streams that this flush has brought an image, the first one or the first since a batch of closes.
    imaged: Vec<(ClientId, i32)>,
    /// Messages of this flush, and where that of a body is, by the body's address and length; `None` for one that stays as it is.
    bytes: Vec<u8>,
    bodies: FxHashMap<(usize, usize), Option<Range<usize>>>,
    converted: u64,
    unconvertible: u64,
}

impl ToClients {
    pub(in crate::agents) fn new(config: &config::Config) -> Self {
        let c = &config.p2ps;
        Self {
            who: c.marketfeed,
            services: c.marketfeed_services.clone(),
            ids: Vec::new(),
            ids_of: (u64::MAX, 0),
            dictionary: Arc::new(Dictionary::new()),
            converter: Converter::new(options(c)),
            options: ServiceOptions::new(config),
            told: ToldLosses::default(),
            items: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            streams: FxHashMap::default(),
            left: VecDeque::new(),
            closed: VecDeque::new(),
            closed_streams: 0,
            closed_a_flush: (c.work_per_turn as usize).max(LEFT_A_FLUSH),
            batches: 0,
            imaged: Vec::new(),
            bytes: Vec::new(),
            bodies: FxHashMap::default(),
            converted: 0,
            unconvertible: 0,
        }
    }

    /// A client's choice before it has said anything.
    pub(in crate::agents) fn at_first(&self) -> Wants {
        match self.who {
            MarketfeedClients::All => Wants::All,
            _ if !self.services.is_empty() => Wants::ByService,
            _ => Wants::Nothing,
        }
    }

    /// A client's choice after this message, which may be its login.
    pub(in crate::agents) fn wants_of_login(&self, wants: Wants, msg: &[u8]) -> Wants {
        if self.who == MarketfeedClients::Asked && asks(msg) { Wants::All } else { wants }
    }

    /// Takes over the dictionary and the services that the P2PS has now.
    pub(in crate::agents) fn follow(&mut self, p2ps: &P2ps) {
        if !Arc::ptr_eq(&self.dictionary, p2ps.dictionary()) {
            self.dictionary = Arc::clone(p2ps.dictionary());
        }
        self.options.follow(p2ps);
        let ids_of = (p2ps.services_renamed(), p2ps.services_from(0).len());
        if !self.services.is_empty() && self.ids_of != ids_of {
            self.ids.clear();
            for (id, name) in p2ps.services_from(0) {
                let slot = usize::from(id);
                if self.ids.len() <= slot {
                    self.ids.resize(slot + 1, false);
                }
                self.ids[slot] = self.services.iter().any(|named| named == name);
            }
            self.ids_of = ids_of;
        }
    }

    /// Writes a client's deliveries into its session. Gives the bytes that wait there, as [`RsslIo::queue`].
    pub(in crate::agents) fn deliver(
        &mut self,
        now: u64,
        (client, conn, wants): (ClientId, ConnId, Wants),
        deliveries: Deliveries<'_>,
        io: &mut RsslIo,
    ) -> Option<usize> {
        io.queue(now, conn, |packer| {
            for (body, stream) in deliveries {
                packer.push(self.message((client, wants), body, stream), Some(stream));
            }
        })
    }

    /// The message that a client gets for a body on one of its streams.
    fn message<'m>(&'m mut self, (client, wants): (ClientId, Wants), body: &'m [u8], stream: i32) -> &'m [u8] {
        match peek::class(body) {
            Some(MsgClass::UPDATE) => {}
            Some(MsgClass::REFRESH | MsgClass::STATUS) => {
                let Ok(msg) = Msg::decode(body) else { return body };
                if let Msg::Refresh(refresh) = &msg
                    && refresh.domain == Domain::MARKET_PRICE
                    && let Some(key) = &refresh.key
                    && let (Some(service), Some(name)) = (key.service_id, key.name)
                {
                    let is_wanted = wants == Wants::All || self.ids.get(usize::from(service)) == Some(&true);
                    if is_wanted {
                        self.bind((client, stream), service, name);
                    }
                }
                // The last message of a stream still goes out as the others.
                let is_last_part = matches!(&msg, Msg::Refresh(r) if r.flags.contains(RefreshFlags::REFRESH_COMPLETE));
                let stream_state = msg.state().map(|state| state.stream);
                if stream_state.is_some_and(StreamState::is_final)
                    || stream_state == Some(StreamState::NON_STREAMING) && is_last_part
                {
                    let range = self.record((client, stream), body);
                    self.unbind((client, stream));
                    return range.map_or(body, |range| &self.bytes[range]);
                }
            }
            _ => return body,
        }
        match self.record((client, stream), body) {
            Some(range) => &self.bytes[range],
            None => body,
        }
    }

    /// Where the message with the record of a body is, if it is to be one.
    fn record(&mut self, stream: (ClientId, i32), body: &[u8]) -> Option<Range<usize>> {
        let item = &mut self.items[self.streams.get(&stream.0)?.streams.get(&stream.1)?.at];
        let address = (body.as_ptr() as usize, body.len());
        if let Some(range) = self.bodies.get(&address) {
            return range.clone();
        }
        let start = self.bytes.len();
        if let Some(options) = self.options.of_id(item.service) {
            self.converter.set_options(options);
        }
        let written = self.converter.write_opaque(&self.dictionary, body, &item.name, &mut item.rtl, &mut self.bytes);
        let range = match written {
            Ok(true) => {
                self.converted += 1;
                self.told.tell(&self.converter, "Marketfeed");
                Some(start..self.bytes.len())
            }
            Ok(false) => None,
            Err(error) => {
                self.unconvertible += 1;
                if self.unconvertible.is_power_of_two() {
                    tracing::error!("{} messages could not become Marketfeed, now: {error}", self.unconvertible);
                }
                None
            }
        };
        self.bodies.insert(address, range.clone());
        range
    }

    /// The bodies of a flush are void: others will lie where they lay. `is_open` tells whether an item is open on a stream.
    pub(in crate::agents) fn end_flush(&mut self, is_open: impl Fn(ClientId, i32) -> bool) {
        self.forget_overtaken(is_open);
        self.forget_left();
        self.forget_closed();
        if !self.bodies.is_empty() {
            self.bodies.clear();
            self.bytes.clear();
            self.bytes.shrink_to(BYTES_KEPT);
        }
    }

    fn bind(&mut self, stream: (ClientId, i32), service: u16, name: &[u8]) {
        let since = self.batches;
        if let Some(bound) = self.streams.get_mut(&stream.0).and_then(|watched| watched.streams.get_mut(&stream.1)) {
            let item = &self.items[bound.at];
            if item.service == service && *item.name == *name {
                if bound.since != since {
                    bound.since = since;
                    self.imaged.push(stream);
                }
                return;
            }
            self.unbind(stream);
        }
        self.imaged.push(stream);
        let key = (service, Box::from(name));
        let at = if let Some(&at) = self.by_key.get(&key) {
            at
        } else {
            let item = Item { service, name: Box::from(name), rtl: 0, streams: 0 };
            let at = self.free.pop().unwrap_or(self.items.len());
            if at == self.items.len() {
                self.items.push(item);
            } else {
                self.items[at] = item;
            }
            self.by_key.insert(key, at);
            at
        };
        self.items[at].streams += 1;
        let watched = self.streams.entry(stream.0).or_insert_with(|| Watched { since, streams: HashMap::new() });
        watched.streams.insert(stream.1, Bound { at, since });
    }

    fn unbind(&mut self, (client, stream): (ClientId, i32)) {
        if let Some(bound) = self.streams.get_mut(&client).and_then(|watched| watched.streams.remove(&stream)) {
            self.release(bound.at);
        }
    }

    /// An item is on one stream less.
    fn release(&mut self, at: usize) {
        let item = &mut self.items[at];
        item.streams -= 1;
        if item.streams == 0 {
            let name = std::mem::take(&mut item.name);
            let known = self.by_key.remove(&(item.service, name));
            debug_assert_eq!(known, Some(at), "an item has one place");
            self.free.push(at);
        }
    }

    /// A client has sent this message, which may close streams. Nothing more comes on these before something else is open there, so that what
    /// a batch closes is forgotten in the flushes that follow: a message may name 65,535. As at the P2PS, a list counts where the flag of a
    /// batch is, and then the message's own stream is none of those that it closes. One that is not
    /// logged in any more (`is_in`) has nothing left, as one that is gone.
    pub(in crate::agents) fn note_message(&mut self, client: ClientId, msg: &[u8], is_in: bool) {
        if peek::class(msg) != Some(MsgClass::CLOSE) {
            return;
        }
        if !is_in {
            return self.left(client);
        }
        let Ok(Msg::Close(CloseMsg { flags, stream_id, container, body, .. })) = Msg::decode(msg) else { return };
        if flags.0 & CLOSE_BATCH == 0 {
            return self.unbind((client, stream_id));
        }
        if self.streams.get(&client).is_none_or(|watched| watched.streams.is_empty()) {
            return;
        }
        let batch = Payload::decode(container, body).ok().and_then(|payload| payload.streams).unwrap_or_default();
        if batch.is_empty() {
            return;
        }
        if let Some(number) = self.batches.checked_add(1) {
            self.batches = number;
            self.closed_streams += batch.len();
            self.closed.push_back(Closed { client, number, streams: batch.into_iter() });
            while self.closed_streams > CLOSED_KEPT {
                self.forget_a_closed_one();
            }
        } else {
            // There are no more numbers by which to tell which of them a stream is older than.
            for stream in batch {
                self.unbind((client, stream));
            }
        }
    }

    /// A client is gone, or has logged out. Its number may be another's from now on; what it had is forgotten in the flushes that follow.
    pub(in crate::agents) fn left(&mut self, client: ClientId) {
        self.left.extend(self.streams.remove(&client).map(|watched| watched.streams.into_values()));
    }

    /// True if there are streams of clients that have left, or that batches have closed: the next flush goes on with them.
    #[inline]
    pub(in crate::agents) fn has_left(&self) -> bool {
        !self.left.is_empty() || !self.closed.is_empty()
    }

    /// Goes on with the streams of clients that have left, so many of them and no more.
    fn forget_left(&mut self) {
        let mut budget = LEFT_A_FLUSH;
        while budget > 0
            && let Some(streams) = self.left.front_mut()
        {
            match streams.next() {
                Some(bound) => self.release(bound.at),
                None => drop(self.left.pop_front()),
            }
            budget -= 1;
        }
    }

    /// Goes on with the streams that batches have closed, so many of them and no more.
    fn forget_closed(&mut self) {
        for _ in 0..self.closed_a_flush {
            if self.closed.is_empty() {
                return;
            }
            self.forget_a_closed_one();
        }
    }

    /// Goes on with the oldest batch of closes: with its next stream, or with all of them at once if its client has left, or has nothing more.
    fn forget_a_closed_one(&mut self) {
        let Some(Closed { client, number, streams }) = self.closed.front_mut() else { return };
        let (client, number) = (*client, *number);
        let watched = self.streams.get(&client).filter(|watched| watched.since < number && !watched.streams.is_empty());
        let (done, stream) = if watched.is_some() { (1, streams.next()) } else { (streams.len(), None) };
        let is_over = watched.is_none() || streams.as_slice().is_empty();
        let bound = stream.and_then(|stream| watched?.streams.get(&stream));
        let is_meant = bound.is_some_and(|bound| bound.since < number);
        self.closed_streams -= done;
        if is_over {
            self.closed.pop_front();
        }
        if let Some(stream) = stream.filter(|_| is_meant) {
            self.unbind((client, stream));
        }
    }

    /// An image may go out when its stream is closed already: then nothing more comes there, and no close.
    fn forget_overtaken(&mut self, is_open: impl Fn(ClientId, i32) -> bool) {
        while let Some((client, stream)) = self.imaged.pop() {
            if !is_open(client, stream) {
                self.unbind((client, stream));
            }
        }
        self.imaged.shrink_to(LEFT_A_FLUSH);
    }

    /// Messages that were converted, messages that could not be, fields that were dropped.
    pub(in crate::agents) fn counts(&self) -> (u64, u64, u64) {
        (self.converted, self.unconvertible, self.converter.losses().dropped())
    }
}

/// A client's choice of Marketfeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::agents) enum Wants {
    Nothing,
    /// Items of the services of which everybody does.
    ByService,
    /// Every Market Price item.
    All,
}

/// Whether a message is a login that asks for Marketfeed.
fn asks(msg: &[u8]) -> bool {
    if peek::domain(msg) != Some(Domain::LOGIN) || peek::class(msg) != Some(MsgClass::REQUEST) {
        return false;
    }
    let Ok(Msg::Request(request)) = Msg::decode(msg) else { return false };
    let Some(attributes) = request.key.attrib.filter(|attrib| attrib.container == DataType::ELEMENT_LIST) else {
        return false;
    };
    let list = ElementList::decode(attributes.data, &SetScope::NONE).ok();
    let value = list.and_then(|list| list.find(LOGIN_ATTRIBUTE)).and_then(|entry| entry.value().ok());
    matches!(value, Some(Primitive::UInt(1..)))
}

#[cfg(test)]
impl ToClients {
    /// A client has had so many streams for a while, and has closed them with one message.
    pub(in crate::agents) fn close_many(&mut self, streams: i32) {
        (0..streams).for_each(|stream| self.bind((ClientId(1), stream), 2, b"IBM.N"));
        self.imaged.clear();
        let streams = (0..streams).collect::<Vec<_>>();
        self.batches += 1;
        self.closed_streams += streams.len();
        self.closed.push_back(Closed { client: ClientId(1), number: self.batches, streams: streams.into_iter() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::P2ps as Settings;
    use marketfeed::Record;
    use rwf::msg::{Attrib, CloseFlags, MsgKey, RefreshMsg, RequestMsg, StatusMsg, UpdateMsg};
    use rwf::wire::Writer;
    use rwf::{ElementListEncoder, EncodeError, FieldListEncoder, Real, RealHint, State};

    fn bytes(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
        let mut buffer = vec![0; 100_000];
        let mut w = Writer::new(&mut buffer);
        encode(&mut w).unwrap();
        w.written().to_vec()
    }

    fn bid(price: i64) -> Vec<u8> {
        bytes(|w| {
            let mut list = FieldListEncoder::begin(w)?;
            list.real(22, Real::new(price, RealHint::EXPONENT_2))?;
            list.finish()
        })
    }

    fn refresh(state: State<'_>) -> Vec<u8> {
        refresh_of(b"IBM.N", state)
    }

    fn refresh_of(name: &[u8], state: State<'_>) -> Vec<u8> {
        let (body, container) = (bid(100), DataType::FIELD_LIST);
        let key = Some(MsgKey::item(2, name));
        let flags = RefreshFlags::REFRESH_COMPLETE;
        let refresh =
            RefreshMsg { container, flags, key, state, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 0) };
        bytes(|w| refresh.encode(w))
    }

    fn update(price: i64) -> Vec<u8> {
        let update =
            UpdateMsg { container: DataType::FIELD_LIST, body: &bid(price), ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
        bytes(|w| update.encode(w))
    }

    /// A client's message read as a record: item, number, first field; `None` for one that is RWF.
    fn said(msg: &[u8]) -> Option<(String, Option<u16>, String)> {
        let msg = Msg::decode(msg).unwrap();
        if msg.container() != DataType::OPAQUE {
            return None;
        }
        let record = Record::parse(msg.body()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let field = record.fields().next().unwrap().unwrap();
        Some((text(record.item), record.rtl, text(field.value)))
    }

    fn clients(settings: &Settings) -> ToClients {
        let mut clients = ToClients::new(&config::Config { p2ps: settings.clone(), ..config::Config::default() });
        clients.dictionary = Arc::new(Dictionary::builtin());
        clients
    }

    /// All streams are still open at the P2PS.
    fn end_flush(clients: &mut ToClients) {
        clients.end_flush(|_, _| true);
    }

    fn note_message(clients: &mut ToClients, client: u32, msg: &[u8]) {
        clients.note_message(ClientId(client), msg, true);
    }

    fn count(clients: &ToClients) -> usize {
        clients.streams.values().map(|watched| watched.streams.len()).sum()
    }

    /// A close on a stream, with a list of streams.
    fn close(flags: u16, own: i32, streams: Vec<i32>) -> Vec<u8> {
        let body = bytes(|w| Payload { streams: Some(streams), ..Payload::default() }.encode(w));
        let (flags, container) = (CloseFlags(flags), DataType::ELEMENT_LIST);
        let close = CloseMsg { flags, container, body: &body, ..CloseMsg::new(Domain::MARKET_PRICE, own) };
        bytes(|w| close.encode(w))
    }

    #[test]
    fn a_body_is_converted_once_and_names_the_item_of_its_stream() {
        let mut clients = clients(&Settings { marketfeed: MarketfeedClients::All, ..Settings::default() });
        assert_eq!(clients.at_first(), Wants::All);
        let (a, b) = ((ClientId(1), Wants::All), (ClientId(2), Wants::All));
        let (image, change) = (refresh(State::OPEN_OK), update(101));
        let record = |text: &str, rtl| Some(("IBM.N".to_owned(), Some(rtl), text.to_owned()));
        assert_eq!(said(clients.message(a, &change, 5)), None, "no image, no name");
        end_flush(&mut clients);
        assert_eq!(said(clients.message(a, &image, 5)), record("1.00", 1));
        assert_eq!(said(clients.message(b, &image, 9)), record("1.00", 1), "the same record");
        assert_eq!(said(clients.message(a, &change, 5)), record("1.01", 2));
        assert_eq!(said(clients.message(b, &change, 9)), record("1.01", 2));
        assert_eq!((clients.counts(), clients.items.len(), clients.items[0].streams), ((2, 0, 0), 1, 2));
        end_flush(&mut clients);
        // A stream that is over forgets its item; the item goes with its last stream.
        let closed = State { stream: StreamState::CLOSED, ..State::OPEN_OK };
        let status = StatusMsg { state: Some(closed), ..StatusMsg::new(Domain::MARKET_PRICE, 0) };
        let status = bytes(|w| status.encode(w));
        assert_eq!(clients.message(a, &status, 5), &status[..]);
        assert_eq!(said(clients.message(a, &change, 5)), None);
        end_flush(&mut clients);
        assert_eq!(said(clients.message(b, &change, 9)), record("1.01", 3));
        note_message(&mut clients, 2, &bytes(|w| CloseMsg::new(Domain::MARKET_PRICE, 9).encode(w)));
        assert!(count(&clients) == 0 && clients.by_key.is_empty() && clients.free == [0]);
        // A snapshot is over when it is there.
        end_flush(&mut clients);
        let snapshot = refresh(State { stream: StreamState::NON_STREAMING, ..State::OPEN_OK });
        assert!(said(clients.message(a, &snapshot, 6)).is_some() && count(&clients) == 0);
        end_flush(&mut clients);
        clients.message(a, &image, 5);
        clients.left(ClientId(1));
        clients.left(ClientId(2));
        end_flush(&mut clients);
        assert!(clients.streams.is_empty() && clients.left.is_empty() && clients.by_key.is_empty());
    }

    #[test]
    fn a_client_with_many_streams_is_forgotten_in_turns() {
        let mut clients = clients(&Settings { marketfeed: MarketfeedClients::All, ..Settings::default() });
        let (a, b) = ((ClientId(1), Wants::All), (ClientId(2), Wants::All));
        let image = refresh(State::OPEN_OK);
        let many = LEFT_A_FLUSH as i32 + 5;
        for stream in 0..many {
            clients.message(a, &image, stream);
        }
        clients.message(b, &image, 7);
        clients.left(ClientId(1));
        assert_eq!(clients.items[0].streams as i32, many + 1);
        end_flush(&mut clients);
        assert_eq!(clients.items[0].streams, 6, "so many a flush");
        // The client's number is another's by now, who has none of its streams.
        assert_eq!(said(clients.message(a, &update(101), 5)), None);
        end_flush(&mut clients);
        assert_eq!((clients.items[0].streams, clients.left.len()), (1, 0));
        assert!(said(clients.message(b, &update(102), 7)).is_some());
    }

    #[test]
    fn a_batch_of_closes_is_done_in_turns_and_means_what_was_open_then() {
        let mut clients = clients(&Settings { marketfeed: MarketfeedClients::All, ..Settings::default() });
        let (a, b) = ((ClientId(1), Wants::All), (ClientId(2), Wants::All));
        let image = refresh(State::OPEN_OK);
        let many = 2 * LEFT_A_FLUSH as i32 + 5;
        for stream in 0..many {
            clients.message(a, &image, stream);
        }
        clients.message(b, &image, 7);
        end_flush(&mut clients);
        // The message's stream is open for something else, and not among those that it lists.
        let own = many + 10;
        clients.message(a, &image, own);
        end_flush(&mut clients);
        let close = close(CLOSE_BATCH, own, (0..many).collect());
        note_message(&mut clients, 1, &close);
        let left = |clients: &ToClients| clients.streams[&ClientId(1)].streams.len();
        assert_eq!((left(&clients), clients.has_left()), (many as usize + 1, true), "none at once");
        // Before it is their turn the same item is open on one of them again, and another one on the next.
        let msft = refresh_of(b"MSFT.O", State::OPEN_OK);
        let record = |name: &str, rtl, text: &str| Some((name.to_owned(), Some(rtl), text.to_owned()));
        assert_eq!(said(clients.message(a, &image, many - 1)), record("IBM.N", 3, "1.00"));
        assert_eq!(said(clients.message(a, &msft, many - 2)), record("MSFT.O", 1, "1.00"));
        let mut counts = Vec::new();
        while clients.has_left() {
            let before = left(&clients);
            end_flush(&mut clients);
            counts.push(before - left(&clients));
        }
        assert_eq!(counts, [LEFT_A_FLUSH, LEFT_A_FLUSH, 3], "so many a flush");
        assert_eq!(said(clients.message(a, &update(101), 5)), None, "it is closed");
        end_flush(&mut clients);
        assert_eq!(said(clients.message(a, &update(102), many - 1)), record("IBM.N", 4, "1.02"));
        end_flush(&mut clients);
        assert_eq!(said(clients.message(a, &update(104), own)), record("IBM.N", 5, "1.04"), "it stays open");
        end_flush(&mut clients);
        assert_eq!(said(clients.message(a, &update(103), many - 2)), record("MSFT.O", 2, "1.03"));
        assert_eq!(said(clients.message(b, &image, 7)).map(|(name, ..)| name).as_deref(), Some("IBM.N"));
        // Closes for a client that has left are nothing to the one that has its number now.
        note_message(&mut clients, 1, &close);
        clients.left(ClientId(1));
        assert!(said(clients.message(a, &msft, 9)).is_some());
        (0..9).for_each(|_| end_flush(&mut clients));
        assert_eq!((left(&clients), clients.has_left()), (1, false));
    }

    #[test]
    fn a_list_without_the_flag_of_a_batch_closes_nothing() {
        let mut clients = clients(&Settings { marketfeed: MarketfeedClients::All, ..Settings::default() });
        let a = (ClientId(1), Wants::All);
        let image = refresh(State::OPEN_OK);
        (5..8).for_each(|stream| drop(said(clients.message(a, &image, stream))));
        end_flush(&mut clients);
        note_message(&mut clients, 1, &close(0, 5, vec![6, 7]));
        assert!(clients.closed.is_empty() && clients.closed_streams == 0 && !clients.has_left());
        end_flush(&mut clients);
        assert_eq!((count(&clients), said(clients.message(a, &update(101), 5))), (2, None), "its own stream is closed");
        end_flush(&mut clients);
        assert!([6, 7].iter().all(|stream| said(clients.message(a, &update(101), *stream)).is_some()));
    }

    #[test]
    fn batches_are_forgotten_as_fast_as_they_can_come_and_no_more_than_so_many_are_kept() {
        let mut clients = clients(&Settings { marketfeed: MarketfeedClients::All, ..Settings::default() });
        let (a, b) = ((ClientId(1), Wants::All), (ClientId(2), Wants::All));
        let image = refresh(State::OPEN_OK);
        clients.message(a, &image, 100);
        end_flush(&mut clients);
        for stream in 0..3 * LEFT_A_FLUSH as i32 {
            note_message(&mut clients, 1, &close(CLOSE_BATCH, 0, vec![1_000 + stream]));
        }
        let left = [(); 3].map(|()| {
            end_flush(&mut clients);
            (clients.closed.len(), clients.closed_streams)
        });
        assert_eq!(left, [(2_000, 2_000), (1_000, 1_000), (0, 0)], "a batch goes with its last stream");
        // As many as there may be, and one message more, which costs what it brings.
        clients.message(a, &image, 5);
        end_flush(&mut clients);
        let many = 30_000;
        let close_many = close(CLOSE_BATCH, 0, vec![5; many]);
        for _ in 0..CLOSED_KEPT / many {
            note_message(&mut clients, 1, &close_many);
        }
        assert_eq!((count(&clients), clients.closed.len()), (2, CLOSED_KEPT / many));
        note_message(&mut clients, 1, &close_many);
        assert_eq!((count(&clients), clients.closed_streams), (1, CLOSED_KEPT), "the oldest are done at once");
        // Of one who leaves nothing is left to do: a batch is one step, however much it names.
        clients.message(b, &image, 7);
        end_flush(&mut clients);
        note_message(&mut clients, 2, &close(CLOSE_BATCH, 0, vec![7]));
        clients.left(ClientId(1));
        clients.message(a, &image, 5);
        end_flush(&mut clients);
        assert_eq!(
            (clients.closed_streams, clients.has_left(), clients.streams[&ClientId(2)].streams.len()),
            (0, false, 0)
        );
        assert_eq!(count(&clients), 1, "that of the next one with the number");
    }

    #[test]
    fn who_logs_out_has_nothing_left() {
        let mut clients = clients(&Settings { marketfeed: MarketfeedClients::All, ..Settings::default() });
        let a = (ClientId(1), Wants::All);
        let image = refresh(State::OPEN_OK);
        (5..8).for_each(|stream| drop(said(clients.message(a, &image, stream))));
        end_flush(&mut clients);
        clients.note_message(ClientId(1), &bytes(|w| CloseMsg::new(Domain::LOGIN, 1).encode(w)), false);
        assert!(clients.has_left() && count(&clients) == 0);
        end_flush(&mut clients);
        assert!(!clients.has_left() && clients.by_key.is_empty());
    }

    #[test]
    fn an_image_behind_its_close_leaves_nothing() {
        let mut clients = clients(&Settings { marketfeed: MarketfeedClients::All, ..Settings::default() });
        let a = (ClientId(1), Wants::All);
        let image = refresh(State::OPEN_OK);
        note_message(&mut clients, 1, &bytes(|w| CloseMsg::new(Domain::MARKET_PRICE, 5).encode(w)));
        assert!(
            [5, 6].iter().all(|stream| said(clients.message(a, &image, *stream)).is_some()),
            "they go out as all do"
        );
        clients.end_flush(|client, stream| (client, stream) == (ClientId(1), 6));
        assert_eq!((count(&clients), said(clients.message(a, &update(101), 5))), (1, None));
        end_flush(&mut clients);
        assert!(said(clients.message(a, &update(101), 6)).is_some());
        // The same where a batch has closed what was open, and the image comes before its turn.
        note_message(&mut clients, 1, &close(CLOSE_BATCH, 0, vec![6]));
        clients.message(a, &image, 6);
        clients.end_flush(|_, _| false);
        assert!(count(&clients) == 0 && clients.by_key.is_empty() && !clients.has_left());
    }

    #[test]
    fn a_service_or_a_login_asks_for_records() {
        let mut clients = clients(&Settings { marketfeed_services: vec!["FEED".to_owned()], ..Settings::default() });
        assert_eq!(clients.at_first(), Wants::ByService);
        let image = refresh(State::OPEN_OK);
        assert_eq!(said(clients.message((ClientId(1), Wants::ByService), &image, 5)), None);
        end_flush(&mut clients);
        clients.ids = vec![false, false, true];
        assert!(said(clients.message((ClientId(1), Wants::ByService), &image, 5)).is_some());

        let login = |name: &[u8], value| {
            let attributes = bytes(|w| {
                let mut list = ElementListEncoder::begin(w)?;
                list.uint(name, value)?;
                list.finish()
            });
            let attrib = Attrib::new(DataType::ELEMENT_LIST, &attributes);
            let key = MsgKey { attrib: Some(attrib), name: Some(b"user"), ..MsgKey::default() };
            bytes(|w| RequestMsg { key, ..RequestMsg::new(Domain::LOGIN, 1) }.encode(w))
        };
        let asked = login(LOGIN_ATTRIBUTE, 1);
        assert_eq!(clients.wants_of_login(Wants::Nothing, &asked), Wants::All);
        assert_eq!(clients.wants_of_login(Wants::Nothing, &login(LOGIN_ATTRIBUTE, 0)), Wants::Nothing);
        assert_eq!(clients.wants_of_login(Wants::ByService, &login(b"SingleOpen", 1)), Wants::ByService);
        let off = self::clients(&Settings { marketfeed: MarketfeedClients::Off, ..Settings::default() });
        assert_eq!((off.at_first(), off.wants_of_login(Wants::Nothing, &asked)), (Wants::Nothing, Wants::Nothing));
    }
}
