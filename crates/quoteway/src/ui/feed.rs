//! The consumer behind the view: a watchlist over RSSL, decoded into rows.

use super::{Direction, Row, Snapshot};
use crate::tools::consumer::{Consumer, Heard, Identity};
use crate::tools::outbox::Outbox;
use feed::fields as fid;
use measure::latency::Latency;
use net::tcp::{ConnId, SocketOptions};
use rssl::{ClientConfig, Version};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::wire::Writer;
use rwf::{DataType, FieldList, Primitive, Real, SetScope, StreamState};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// Stream of the first row.
const FIRST_STREAM: i32 = 5;
const SECOND: u64 = 1_000_000_000;
/// Seconds of rates kept, and of latencies summed up.
const HISTORY: usize = 300;
const LATENCY_SECONDS: usize = 10;

/// A consumer that keeps a snapshot of its watchlist.
pub struct WatchClient {
    io: RsslIo,
    address: SocketAddr,
    view: View,
}

/// What the session's messages change.
struct View {
    snapshot: Snapshot,
    consumer: Consumer,
    outbox: Outbox,
    conn: Option<ConnId>,
    service: Option<u16>,
    version: Version,
    retry_at: Option<u64>,
    started: u64,
    second: u64,
    this_second: u64,
    /// When each row's price moved.
    moved: Vec<u64>,
    latency: Latency,
    /// Latencies of the last seconds, newest last.
    latencies: VecDeque<Latency>,
}

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
        let snapshot =
            Snapshot { service: service.to_owned(), address: address.to_string(), rows, ..Snapshot::default() };
        let view = View {
            snapshot,
            consumer: Consumer::new(identity),
            outbox: Outbox::default(),
            conn: None,
            service: None,
            version: Version::V14,
            retry_at: Some(now),
            started: now,
            second: now,
            this_second: 0,
            moved: vec![0; names.len()],
            latency: Latency::new(),
            latencies: VecDeque::new(),
        };
        Ok(Self { io: RsslIo::new(now)?, address, view })
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
        if self.view.retry_at.is_some_and(|at| at <= now) {
            self.view.retry_at = None;
            let config = ClientConfig { version: self.view.version, ..ClientConfig::default() };
            match self.io.connect(now, self.address, &SocketOptions::default(), Arc::new(config), None) {
                Ok(conn) => self.view.conn = Some(conn),
                Err(e) => self.view.lost(now, &e.to_string()),
            }
        }
        let wake = self.view.retry_at.map_or(deadline, |at| at.min(deadline)).min(self.view.second + SECOND);
        let now = self.io.turn(Some(wake), &mut self.view)?;
        self.view.tick(now);
        let view = &mut self.view;
        if let Some(conn) = view.conn.filter(|_| !view.outbox.is_empty()) {
            self.io.send(now, conn, |packer| view.outbox.drain(|m| packer.push(m, None)));
        }
        Ok(())
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

    fn request_all(&mut self, service: u16) {
        let mut buffer = [0; 512];
        for (row, stream_id) in self.snapshot.rows.iter().zip(FIRST_STREAM..) {
            let mut w = Writer::new(&mut buffer);
            let request = RequestMsg {
                flags: RequestFlags::STREAMING,
                key: MsgKey { name_type: Some(1), ..MsgKey::item(service, row.name.as_bytes()) },
                ..RequestMsg::new(Domain::MARKET_PRICE, stream_id)
            };
            if request.encode(&mut w).is_ok() {
                self.outbox.push(w.written());
            }
        }
    }

    fn lost(&mut self, now: u64, why: &str) {
        self.conn = None;
        self.service = None;
        self.snapshot.connected = false;
        why.clone_into(&mut self.snapshot.notice);
        self.outbox = Outbox::default();
        self.retry_at = Some(now + SECOND / 2);
    }

    fn item(&mut self, now: u64, msg: &[u8]) {
        let index =
            rwf::peek::stream_id(msg).map_or(usize::MAX, |id| (id as usize).wrapping_sub(FIRST_STREAM as usize));
        let Some(row) = self.snapshot.rows.get_mut(index) else { return };
        match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => {
                let name = std::mem::take(&mut row.name);
                *row = Row { name, imaged: true, updates: row.updates, direction: row.direction, ..Row::default() };
                self.snapshot.images += 1;
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
                let Some(state) = status.state else { return };
                row.state = if state == rwf::State::OPEN_OK { String::new() } else { state.to_string() };
                row.imaged &= state.stream == StreamState::OPEN;
            }
            _ => {}
        }
    }
}

/// Takes the fields of a row; true when its price moved.
fn apply(row: &mut Row, container: DataType, body: &[u8]) -> bool {
    if container != DataType::FIELD_LIST {
        return false;
    }
    let Ok(list) = FieldList::decode(body, &SetScope::default()) else { return false };
    let (last, bid) = (row.last, row.bid);
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
            _ => continue,
        };
        *place = match entry.value(DataType::REAL) {
            Ok(Primitive::Real(real)) => Some(real),
            _ => None,
        };
    }
    let moved = if last.is_some() || row.last.is_some() { move_of(last, row.last) } else { move_of(bid, row.bid) };
    if let Some(direction) = moved {
        row.direction = direction;
    }
    moved.is_some()
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
    fn opened(&mut self, _: u64, _: ConnId, _: &Opened<'_>) {
        let outbox = &mut self.outbox;
        self.consumer.begin(&mut |m| outbox.push(m));
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let outbox = &mut self.outbox;
        match self.consumer.hear(msg, &mut |m| outbox.push(m)) {
            Heard::Item => self.item(now, msg),
            Heard::ServiceUp(id) => {
                self.snapshot.connected = true;
                self.snapshot.notice.clear();
                // A service that comes back under its id recovers its streams itself.
                if self.service.replace(id) != Some(id) {
                    self.request_all(id);
                }
            }
            Heard::ServiceDown => {
                self.snapshot.connected = false;
                self.snapshot.notice = format!("service {} is down", self.snapshot.service);
            }
            Heard::ServiceUnknown(_) => {
                self.snapshot.notice = format!("waiting for service {}", self.snapshot.service);
            }
            Heard::LoginClosed(text) => self.snapshot.notice = format!("login closed: {text}"),
            Heard::LoggedIn | Heard::Nothing => {}
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.conn == Some(conn) {
            self.version = ended.next_version.unwrap_or(Version::V14);
            self.lost(now, &ended.why);
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
}
