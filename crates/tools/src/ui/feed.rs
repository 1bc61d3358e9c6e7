//! The consumer behind the view: a watchlist over RSSL, decoded into rows.

use super::detail::{Detail, Held};
use super::{Direction, Link, Row, Snapshot, trouble};
use crate::consumer::Identity;
use feed::fields as fid;
use measure::latency::Latency;
use net::tcp::ConnId;
use omm::consumer::{Consumer, Event, ItemId, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rustc_hash::FxHashMap;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::Service;
use rwf::rmtes::RmtesCache;
use rwf::{DataState, DataType, FieldList, Primitive, Real, SetScope, State, StreamState};
use std::collections::VecDeque;
use std::net::SocketAddr;

const SECOND: u64 = 1_000_000_000;
/// Pause before another attempt to connect, nanoseconds.
const RETRY: u64 = SECOND / 2;
/// Seconds of rates kept, and of latencies summed up.
const HISTORY: usize = 300;
const LATENCY_SECONDS: usize = 10;

/// A consumer that keeps a snapshot of its watchlist.
pub struct WatchClient {
    io: RsslIo,
    view: View,
}

/// What the session's messages change.
struct View {
    snapshot: Snapshot,
    client: Client<Consumer, SocketAddr>,
    /// Which row an item has.
    places: FxHashMap<ItemId, usize>,
    started: u64,
    second: u64,
    this_second: u64,
    /// When each row's price moved.
    moved: Vec<u64>,
    latency: Latency,
    /// Latencies of the last seconds, newest last.
    latencies: VecDeque<Latency>,
    /// By row: the image, for who looks at the item in full.
    images: Vec<Held>,
    dictionary: Dictionary,
    book: Option<Book>,
}

/// The order book of the item that is looked at in full.
struct Book {
    row: usize,
    item: ItemId,
    held: Held,
}

/// Levels of a book that are shown, at most.
const DEPTH: usize = 50;

impl WatchClient {
    /// A watchlist of `names` of `service` at `address`; it connects at the first turn, and again whenever it is cut off.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new(address: SocketAddr, service: &str, names: &[String]) -> std::io::Result<Self> {
        let now = net::clock::now();
        let rows = names.iter().map(|name| Row { name: name.clone(), ..Row::default() }).collect();
        let identity =
            Identity { user: "demo".to_owned(), application: "quoteway demo".to_owned(), service: service.to_owned() };
        let server = Server::new(address.ip().to_string(), address.port());
        let connections =
            ConnectionList { retry_min_ns: RETRY, retry_max_ns: RETRY, ..ConnectionList::new(vec![server]) };
        let mut consumer = Consumer::new(identity.config(connections));
        let mut places = FxHashMap::default();
        for (place, name) in names.iter().enumerate() {
            let request = ItemRequest { name_type: Some(1), ..ItemRequest::new(service, name) };
            let item = consumer.open(now, request).map_err(std::io::Error::other)?;
            places.insert(item, place);
        }
        let snapshot =
            Snapshot { service: service.to_owned(), address: address.to_string(), rows, ..Snapshot::default() };
        let view = View {
            snapshot,
            client: Client::new(consumer, address),
            places,
            started: now,
            second: now,
            this_second: 0,
            moved: vec![0; names.len()],
            latency: Latency::new(),
            latencies: VecDeque::new(),
            images: names.iter().map(|_| Held::default()).collect(),
            dictionary: Dictionary::builtin(),
            book: None,
        };
        Ok(Self { io: RsslIo::new(now)?, view })
    }

    /// Wakes the turn from another thread.
    pub fn waker(&mut self) -> net::Waker {
        self.io.tcp().waker()
    }

    /// Takes in what comes until `deadline` (nanoseconds of the monotonic clock).
    ///
    /// # Errors
    /// Only what makes all sockets unusable.
    pub fn turn(&mut self, deadline: u64) -> std::io::Result<()> {
        let now = net::clock::now();
        let Self { io, view, .. } = self;
        if let Err(e) = view.client.connect(now, io) {
            view.lost(&e.to_string());
        }
        let wake = view.client.role.timeout().map_or(deadline, |at| at.min(deadline)).min(view.second + SECOND);
        let now = io.turn(Some(wake), view)?;
        view.tick(now);
        view.client.role.handle_timeout(now);
        view.follow_events();
        view.client.send(now, io);
        Ok(())
    }

    /// Adds an item to the watchlist, unless it is there: its row.
    ///
    /// # Errors
    /// There are as many items as one session may have.
    pub fn watch(&mut self, name: &str) -> std::io::Result<usize> {
        let view = &mut self.view;
        if let Some(row) = view.snapshot.rows.iter().position(|row| row.name == name) {
            return Ok(row);
        }
        let row = view.snapshot.rows.len();
        let request = ItemRequest { name_type: Some(1), ..ItemRequest::new(view.snapshot.service.as_str(), name) };
        let item = view.client.role.open(net::clock::now(), request).map_err(std::io::Error::other)?;
        view.places.insert(item, row);
        view.snapshot.rows.push(Row { name: name.to_owned(), ..Row::default() });
        view.moved.push(0);
        view.images.push(Held::default());
        Ok(row)
    }

    /// Looks at the item of a row in full, its order book included, or at none.
    pub fn look_at(&mut self, row: Option<usize>) {
        let view = &mut self.view;
        let now = net::clock::now();
        if view.book.as_ref().map(|book| book.row) != row {
            if let Some(book) = view.book.take() {
                view.client.role.close(now, book.item);
            }
            let name = row.and_then(|row| view.snapshot.rows.get(row)).map(|row| row.name.as_str());
            view.book = row.zip(name).and_then(|(row, name)| {
                let request = ItemRequest {
                    name_type: Some(1),
                    domain: Domain::MARKET_BY_PRICE,
                    ..ItemRequest::new(view.snapshot.service.as_str(), name)
                };
                // Without room for its book, the item is shown without one.
                let item = view.client.role.open(now, request).ok()?;
                Some(Book { row, item, held: Held::default() })
            });
        }
        view.snapshot.detail = row.and_then(|row| {
            let fields = view.images.get(row)?.fields(&view.dictionary);
            let (bids, asks) = view.book.as_ref().map(|book| book.held.book(DEPTH)).unwrap_or_default();
            Some(Detail { fields, bids, asks })
        });
    }

    /// What there is to show now.
    pub fn snapshot(&mut self) -> &mut Snapshot {
        let now = net::clock::now();
        let view = &mut self.view;
        view.snapshot.uptime_s = (now - view.started) as f64 / SECOND as f64;
        for (row, moved) in view.snapshot.rows.iter_mut().zip(&view.moved) {
            row.moved_s = now.saturating_sub(*moved) as f64 / SECOND as f64;
        }
        &mut view.snapshot
    }
}

impl View {
    /// Once a second the figures of that second are filed.
    fn tick(&mut self, now: u64) {
        if now < self.second + SECOND {
            return;
        }
        let seconds = (now - self.second) as f64 / SECOND as f64;
        self.second = now;
        let rate = (std::mem::take(&mut self.this_second) as f64 / seconds).round() as u64;
        self.snapshot.rate = rate;
        self.snapshot.rates.push(rate);
        if self.snapshot.rates.len() > HISTORY {
            self.snapshot.rates.remove(0);
        }
        self.latencies.push_back(std::mem::take(&mut self.latency));
        if self.latencies.len() > LATENCY_SECONDS {
            self.latencies.pop_front();
        }
        let mut sum = Latency::new();
        self.latencies.iter().for_each(|l| sum.add(l));
        self.snapshot.latency = sum.summary();
    }

    fn lost(&mut self, why: &str) {
        self.follow_events();
        self.snapshot.link = Link::Away;
        why.clone_into(&mut self.snapshot.notice);
    }

    fn follow_events(&mut self) {
        while let Some(event) = self.client.role.poll_event() {
            match event {
                Event::ServiceUp { name, .. } if name == self.snapshot.service => {
                    self.snapshot.link = Link::Up;
                    self.snapshot.notice.clear();
                }
                Event::ServiceDown { name, .. } if name == self.snapshot.service => {
                    // The head of the screen says so. A connection that goes takes the service with it, and says more.
                    self.snapshot.link = Link::ServiceDown;
                    self.snapshot.notice.clear();
                }
                Event::LoginRefused(state) => self.snapshot.notice = format!("login closed: {}", state.as_state()),
                Event::ItemState { item, state } => {
                    let row = self.places.get(&item).and_then(|&place| self.snapshot.rows.get_mut(place));
                    if let Some(row) = row.filter(|row| row.imaged || state.stream.is_final()) {
                        row.take_state(state.as_state());
                    }
                }
                Event::Disconnect(_) => self.client.leave(),
                _ => {}
            }
        }
    }

    fn item(&mut self, now: u64, item: ItemId, msg: &[u8]) {
        if let Some(book) = self.book.as_mut().filter(|book| book.item == item) {
            return book.held.receive(msg, &self.dictionary);
        }
        let Some(&index) = self.places.get(&item) else { return };
        self.images[index].receive(msg, &self.dictionary);
        let Some(row) = self.snapshot.rows.get_mut(index) else { return };
        match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => {
                let name = std::mem::take(&mut row.name);
                *row = Row { name, imaged: true, updates: row.updates, direction: row.direction, ..Row::default() };
                self.snapshot.images += 1;
                row.take_state(refresh.state);
                if apply(row, refresh.container, refresh.body) {
                    self.moved[index] = now;
                }
            }
            Ok(Msg::Update(update)) => {
                row.updates += 1;
                self.snapshot.updates += 1;
                self.this_second += 1;
                if apply(row, update.container, update.body) {
                    self.moved[index] = now;
                }
                if let Some(sent) = measure::stamp::find(msg) {
                    self.latency.record(net::clock::now().saturating_sub(sent));
                }
            }
            Ok(Msg::Status(status)) => {
                if let Some(state) = status.state {
                    row.take_state(state);
                }
            }
            _ => {}
        }
    }
}

impl Row {
    fn take_state(&mut self, state: State<'_>) {
        if state.data != DataState::NO_CHANGE || state.stream.is_final() {
            self.state = trouble(state).unwrap_or_default();
        }
        self.imaged &= state.stream == StreamState::OPEN;
    }
}

/// A link once a value has come for it, which may change a part of it.
fn link(held: &str, value: &[u8]) -> String {
    let mut text = RmtesCache::new();
    let taken = text.apply(held.as_bytes()).and_then(|()| text.apply(value));
    if taken.is_ok() { text.text().into_owned() } else { held.to_owned() }
}

/// Takes the fields of a row; true when its price moved.
fn apply(row: &mut Row, container: DataType, body: &[u8]) -> bool {
    if container != DataType::FIELD_LIST {
        return false;
    }
    let Ok(list) = FieldList::decode(body, &SetScope::default()) else { return false };
    let (last, bid) = (row.last, row.bid);
    // By place, as an update replaces one of them.
    let mut links = std::mem::take(&mut row.links);
    for entry in list.entries().map_while(Result::ok) {
        let place = match entry.fid {
            fid::BID => &mut row.bid,
            fid::BIDSIZE => &mut row.bid_size,
            fid::ASK => &mut row.ask,
            fid::ASKSIZE => &mut row.ask_size,
            fid::TRDPRC_1 => &mut row.last,
            fid::NETCHNG_1 => &mut row.change,
            fid::PCTCHNG => &mut row.percent,
            fid::ACVOL_1 => &mut row.volume,
            id => {
                if let Some(at) = link_of(id) {
                    links.resize(links.len().max(at + 1), String::new());
                    link(&links[at], entry.data).trim().clone_into(&mut links[at]);
                }
                continue;
            }
        };
        *place = match entry.value(DataType::REAL) {
            Ok(Primitive::Real(real)) => Some(real),
            _ => None,
        };
    }
    row.members = links.iter().filter(|link| !link.is_empty()).cloned().collect();
    row.links = links;
    let moved = if last.is_some() || row.last.is_some() { move_of(last, row.last) } else { move_of(bid, row.bid) };
    if let Some(direction) = moved {
        row.direction = direction;
    }
    moved.is_some()
}

/// Links of a record of a chain, and those for longer names (`LONGLINK1` and on).
const LINKS: i16 = 14;
const LONG_LINK_1: i16 = 800;

/// The place among a chain's links that a field has.
fn link_of(id: i16) -> Option<usize> {
    [fid::LINK_1, LONG_LINK_1]
        .iter()
        .find(|&&first| (first..first + LINKS).contains(&id))
        .map(|first| (id - first) as usize)
}

/// Where a price went; `None` when it stayed.
fn move_of(before: Option<Real>, after: Option<Real>) -> Option<Direction> {
    let (before, after) = (before?.to_f64(), after?.to_f64());
    match after.partial_cmp(&before)? {
        std::cmp::Ordering::Greater => Some(Direction::Up),
        std::cmp::Ordering::Less => Some(Direction::Down),
        std::cmp::Ordering::Equal => None,
    }
}

impl Handler for View {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.client.opened(now, conn);
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let had_directory = self.client.role.has_directory();
        if let Some(given) = self.client.role.handle_message(now, msg) {
            return self.item(now, given.item, msg);
        }
        self.follow_events();
        let is_known = |name: &str| self.client.role.services().filter_map(Service::name).any(|known| known == name);
        if !had_directory && self.client.role.has_directory() {
            if !is_known(&self.snapshot.service) {
                self.snapshot.link = Link::NoService;
                self.snapshot.notice = format!("waiting for service {}", self.snapshot.service);
            } else if self.snapshot.link == Link::Away {
                // The service is there, and was not said to be up with the directory.
                self.snapshot.link = Link::ServiceDown;
            }
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.client.closed(now, conn, ended) == Closed::Lost {
            self.lost(&ended.why.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use feed::fields::append_fields;

    fn body(write: impl FnOnce(&mut fid::FieldWriter<'_, '_>)) -> Vec<u8> {
        let mut out = Vec::new();
        append_fields(&mut out, write);
        out
    }

    #[test]
    fn a_change_of_a_part_of_a_link_changes_that_part() {
        assert_eq!(link("IBM.N", b"\x1b[4`O"), "IBM.O");
        assert_eq!(link("IBM.N", b"MSFT.O"), "MSFT.O");
        // A value that has no room changes nothing.
        assert_eq!(link("IBM.N", b"\x1b[99999999`O"), "IBM.N");
    }

    #[test]
    fn fields_land_in_their_columns_and_ticks_have_a_direction() {
        let mut row = Row::default();
        let image = body(|f| {
            f.real(fid::BID, 10_000, 2);
            f.real(fid::TRDPRC_1, 10_001, 2);
            f.real(fid::ACVOL_1, 5_000, 0);
            f.text(fid::DSPLY_NAME, "X");
        });
        assert!(!apply(&mut row, DataType::FIELD_LIST, &image), "a first price is no move");
        assert_eq!(
            (row.bid.unwrap().to_string(), row.last.unwrap().to_string()),
            ("100.00".to_owned(), "100.01".to_owned())
        );
        assert!(apply(&mut row, DataType::FIELD_LIST, &body(|f| f.real(fid::TRDPRC_1, 10_005, 2))));
        assert_eq!(row.direction, Direction::Up);
        assert!(!apply(&mut row, DataType::FIELD_LIST, &body(|f| f.real(fid::BID, 9_000, 2))), "trades decide");
        assert!(apply(&mut row, DataType::FIELD_LIST, &body(|f| f.real(fid::TRDPRC_1, 100, 0))));
        assert_eq!(row.direction, Direction::Down);
        assert!(!apply(&mut row, DataType::FIELD_LIST, &body(|f| f.blank(fid::TRDPRC_1))));
        assert_eq!(row.last, None);
    }

    #[test]
    fn a_change_that_nobody_can_know_is_blank() {
        let mut row = Row::default();
        let image = body(|f| {
            f.real(fid::TRDPRC_1, 18_179, 2);
            f.blank(fid::NETCHNG_1);
            f.blank(fid::PCTCHNG);
        });
        apply(&mut row, DataType::FIELD_LIST, &image);
        assert_eq!((row.last.is_some(), row.change, row.percent), (true, None, None));
    }

    #[test]
    fn an_item_is_good_again_whatever_the_text_that_says_so() {
        let mut row = Row { imaged: true, ..Row::default() };
        let state = |data, text| State::new(StreamState::OPEN, data, rwf::StateCode::NONE, text);
        row.take_state(state(DataState::SUSPECT, "Service is down"));
        assert!(row.state.contains("Service is down"), "{}", row.state);
        row.take_state(state(DataState::NO_CHANGE, "another group"));
        assert!(row.state.contains("Service is down"), "no change of the data is none");
        row.take_state(state(DataState::OK, "Service is up"));
        assert_eq!((row.state.as_str(), row.imaged), ("", true));
        row.take_state(State::new(StreamState::CLOSED, DataState::SUSPECT, rwf::StateCode::NOT_FOUND, "no such item"));
        assert!(row.state.contains("no such item") && !row.imaged, "{}", row.state);
    }

    #[test]
    fn a_chain_names_its_members() {
        let mut row = Row { imaged: true, ..Row::default() };
        let link = |f: &mut fid::FieldWriter<'_, '_>, at: i16, name: &str| {
            f.value(fid::LINK_1 + at, &Primitive::Ascii(name.as_bytes()));
        };
        apply(
            &mut row,
            DataType::FIELD_LIST,
            &body(|f| ["AXP.N", "BA.N", ""].iter().zip(0..).for_each(|(n, at)| link(f, at, n))),
        );
        assert_eq!(row.in_words().as_deref(), Some("chain of 2: AXP.N BA.N"));
        apply(&mut row, DataType::FIELD_LIST, &body(|f| link(f, 1, "CAT.N")));
        assert_eq!(row.in_words().as_deref(), Some("chain of 2: AXP.N CAT.N"));
        apply(&mut row, DataType::FIELD_LIST, &body(|f| f.real(fid::BID, 100, 0)));
        assert_eq!(row.in_words(), None, "an item with a quote shows that");
    }
}
