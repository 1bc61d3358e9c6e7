//! The session behind the view: a watchlist of the client library, decoded into rows.

use super::detail::{self, Detail};
use super::{Direction, Link, Row, Snapshot, trouble};
use client::{Availability, Delivery, Event, Interest, SubscriptionId};
use client_io::{Connection, Notice};
use feed::fields as fid;
use measure::latency::Latency;
use omm::consumer::{self, ItemRequest};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg};
use rwf::rmtes::RmtesCache;
use rwf::{DataState, DataType, FieldList, Primitive, Real, SetScope, State, StreamState};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// Seconds of rates kept, and of latencies summed up.
const HISTORY: usize = 300;
const LATENCY_SECONDS: usize = 10;

/// A session that keeps a snapshot of its watchlist.
pub struct WatchClient {
    connection: Connection,
    view: View,
    /// The rows, by place.
    list: SubscriptionId,
    /// The order book of the item that is looked at in full, and its row.
    book: Option<(usize, SubscriptionId)>,
    dictionary: Arc<Dictionary>,
}

/// Figures that the session's messages change.
struct View {
    snapshot: Snapshot,
    started: u64,
    second: u64,
    this_second: u64,
    /// When each row's price moved.
    moved: Vec<u64>,
    latency: Latency,
    /// Latencies of the last seconds, newest last.
    latencies: VecDeque<Latency>,
}

/// Levels of a book that are shown, at most.
const DEPTH: usize = 50;

fn request(service: &str, domain: Domain) -> ItemRequest {
    ItemRequest { name_type: Some(1), domain, ..ItemRequest::new(service, "") }
}

impl WatchClient {
    /// A watchlist of `names` of `service` at `address`; it connects at the first turn, and again whenever it is cut off.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new(address: SocketAddr, service: &str, names: &[String]) -> std::io::Result<Self> {
        let now = net::clock::now();
        let dictionary = Arc::new(Dictionary::builtin());
        let mut config =
            super::session(&address.to_string(), "demo", "quoteway demo").map_err(std::io::Error::other)?;
        config.client.dictionary = Some(Arc::clone(&dictionary));
        let mut connection = Connection::new(config)?;
        let interest = Interest { request: request(service, Domain::MARKET_PRICE), names: names.to_vec() };
        let list = connection.client.subscribe(now, &interest, &mut |_| {}).map_err(std::io::Error::other)?;
        let rows = names.iter().map(|name| Row { name: name.clone(), ..Row::default() }).collect();
        let snapshot =
            Snapshot { service: service.to_owned(), address: address.to_string(), rows, ..Snapshot::default() };
        let view = View {
            snapshot,
            started: now,
            second: now,
            this_second: 0,
            moved: vec![0; names.len()],
            latency: Latency::new(),
            latencies: VecDeque::new(),
        };
        Ok(Self { connection, view, list, book: None, dictionary })
    }

    /// Wakes the turn from another thread.
    pub fn waker(&mut self) -> net::Waker {
        self.connection.waker()
    }

    /// Takes in what comes until `deadline` (nanoseconds of the monotonic clock).
    ///
    /// # Errors
    /// Only what makes all sockets unusable.
    pub fn turn(&mut self, deadline: u64) -> std::io::Result<()> {
        let Self { connection, view, list, .. } = self;
        let wake = deadline.min(view.second + SECOND);
        let now = connection.turn(Some(wake), &mut |now, delivery| {
            if delivery.subscription == *list {
                view.item(now, &delivery);
            }
        })?;
        view.tick(now);
        view.follow(connection);
        Ok(())
    }

    /// Adds an item to the watchlist, unless it is there: its row.
    ///
    /// # Errors
    /// There are as many items as one session may have.
    pub fn watch(&mut self, name: &str) -> std::io::Result<usize> {
        let Self { connection, view, list, .. } = self;
        if let Some(row) = view.snapshot.rows.iter().position(|row| row.name == name) {
            return Ok(row);
        }
        let row = view.snapshot.rows.len();
        view.snapshot.rows.push(Row { name: name.to_owned(), ..Row::default() });
        view.moved.push(0);
        let now = net::clock::now();
        let request = request(&view.snapshot.service, Domain::MARKET_PRICE);
        let interest = Interest { request, names: vec![name.to_owned()] };
        let opened = connection.client.extend(now, *list, &interest, &mut |delivery| view.item(now, &delivery));
        if let Err(error) = opened {
            view.snapshot.rows.pop();
            view.moved.pop();
            return Err(std::io::Error::other(error));
        }
        Ok(row)
    }

    /// Looks at the item of a row in full, its order book included, or at none.
    pub fn look_at(&mut self, row: Option<usize>) {
        let Self { connection, view, list, book, dictionary } = self;
        let now = net::clock::now();
        if book.map(|(row, _)| row) != row {
            if let Some((_, book)) = book.take() {
                connection.client.unsubscribe(now, book);
            }
            let name = row.and_then(|row| view.snapshot.rows.get(row)).map(|row| row.name.clone());
            *book = row.zip(name).and_then(|(row, name)| {
                let request = request(&view.snapshot.service, Domain::MARKET_BY_PRICE);
                let interest = Interest { request, names: vec![name] };
                // Without room for its book, the item is shown without one.
                Some((row, connection.client.subscribe(now, &interest, &mut |_| {}).ok()?))
            });
        }
        let held = |subscription, place| connection.client.image(subscription, place)?.payload();
        view.snapshot.detail = row.map(|row| {
            let fields = held(*list, row as u32).map(|image| detail::fields(image, dictionary)).unwrap_or_default();
            let book = book.and_then(|(_, book)| held(book, 0));
            let (bids, asks) = book.map(|book| detail::book(book, DEPTH)).unwrap_or_default();
            Detail { fields, bids, asks }
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

    /// The state of connection and service.
    fn follow(&mut self, connection: &mut Connection) {
        while let Some(notice) = connection.poll_notice() {
            match notice {
                Notice::Lost { why, .. } => self.snapshot.notice = why,
                Notice::Client(Event::Consumer { event, .. }) => match *event {
                    consumer::Event::LoginRefused(state) => {
                        self.snapshot.notice = format!("login closed: {}", state.as_state());
                    }
                    consumer::Event::ServiceUp { name, .. } if name == self.snapshot.service => {
                        self.snapshot.notice.clear();
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        let link = match connection.client.availability(&self.snapshot.service) {
            Availability::Unknown => Link::Away,
            Availability::Absent => Link::NoService,
            Availability::Down => Link::ServiceDown,
            Availability::Up => Link::Up,
        };
        if std::mem::replace(&mut self.snapshot.link, link) == link {
            return;
        }
        match link {
            Link::NoService => self.snapshot.notice = format!("waiting for service {}", self.snapshot.service),
            // The head of the screen says so. A connection that goes takes the service with it, and says more.
            Link::ServiceDown => self.snapshot.notice.clear(),
            Link::Away | Link::Up => {}
        }
    }

    fn item(&mut self, now: u64, delivery: &Delivery<'_>) {
        let index = delivery.item as usize;
        let Some(row) = self.snapshot.rows.get_mut(index) else { return };
        match Msg::decode(delivery.msg) {
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
                if let Some(sent) = measure::stamp::find(delivery.msg) {
                    self.latency.record(net::clock::now().saturating_sub(sent));
                }
            }
            Ok(Msg::Status(status)) => {
                // An item without an image waits for connection and service, whatever is said of it; from a service that is up it is an answer.
                let is_answer = row.imaged || delivery.is_final || self.snapshot.link == Link::Up;
                if let Some(state) = status.state.filter(|_| is_answer) {
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
