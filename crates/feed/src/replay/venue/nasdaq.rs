//! Days of Nasdaq TotalView-ITCH 5.0: day files, and captures of `MoldUDP64`.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use market::{BookId, Event, Events, Refused};
use venue::nasdaq::itch::Message;
use venue::nasdaq::mold::{Header, Join, LINES, Line, MoldReceiver};
use venue::nasdaq::{Bad, DayFile, Text, TotalView};
use venue::sequence::Change;
use venue::{Market, Trade, TradeKind};

use super::board::Board;
use super::bytes::Bytes;
use super::datagrams::Datagrams;
use super::depth::Books;
use super::input::{Input, LIMITS, tell_change};
use super::queue::{Next, Queue};
use super::values::{Auction, Facts, Print};
use crate::new_york;
use crate::session::{DAY, Nanos, SECOND};

/// Prices have four decimals and are of US dollars; 43 is Nasdaq in the dictionary's table of `BIDXID`.
pub(super) const FACTS: Facts = Facts { decimals: 4, currency: Some(840), exchange: None, quote_exchange: Some(43) };

/// Types of messages that name orders and trades: what the venue tells of stocks comes before them.
const TRAFFIC: &[u8] = b"AFECXDUPQ";

/// A day that is being read.
pub(super) struct Nasdaq {
    source: Source,
    queue: Queue,
    day: TotalView,
    told: Told,
    /// The day's date in New York, as days since 1970; of a capture it is that of the packets.
    date: Option<u32>,
    now: u64,
}

/// What the venue said of stocks and market.
#[derive(Default)]
struct Told {
    /// Trading state by locate, and whether Nasdaq's own market halts it.
    states: HashMap<u16, (u8, bool)>,
    /// Nanoseconds from 1970 to the day's midnight in New York.
    midnight: u64,
}

enum Source {
    Day { bytes: Bytes, file: DayFile, piece: Vec<u8>, has_ended: bool },
    Mold(Box<MoldCapture>),
}

struct MoldCapture {
    datagrams: Datagrams,
    receiver: MoldReceiver,
    /// Groups that carry the feed.
    lines: Vec<SocketAddr>,
    /// Datagrams of other groups.
    foreign: u64,
    /// Packets of which the capture has a part.
    short: u64,
    /// The last packet of another session.
    unbelieved: Vec<u8>,
    has_ended: bool,
}

/// Messages at the beginning of a file that have to be such, as far as the beginning has them whole.
const HELD_TO: usize = 8;
/// Longer messages are of no version: two letters are a length, too.
const LONGEST: usize = 128;

/// Whether the beginning of a file is that of a day file: messages of known types behind their lengths.
pub(super) fn is_day_file(head: &[u8]) -> bool {
    let mut rest = head;
    for n in 0..HELD_TO {
        let message = rest.split_first_chunk::<2>().and_then(|(length, behind)| {
            let length = usize::from(u16::from_be_bytes(*length));
            // A file that is shorter, or a message that is not whole yet.
            (length <= LONGEST).then(|| behind.split_at_checked(length))
        });
        match message {
            Some(Some((message, behind))) if Message::decode(message).is_ok() => rest = behind,
            Some(None) => return n > 0,
            None => return n > 0 && rest.len() < 2,
            Some(Some(_)) => return false,
        }
    }
    true
}

/// Whether a datagram is of `MoldUDP64` with ITCH in it, or a sign of life of such a session.
pub(super) fn is_mold(payload: &[u8]) -> bool {
    let Some(header) = Header::read(payload) else { return false };
    let is_text = header.session.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let is_silent = header.count == 0 || header.count == 0xFFFF;
    is_text && header.sequence > 0 && (is_silent && payload.len() == 20 || is_day_file(&payload[20..]))
}

impl Nasdaq {
    /// Opens a day file.
    pub(super) fn day_file(path: &Path, date: u32) -> io::Result<Self> {
        let source =
            Source::Day { bytes: Bytes::open(path)?, file: DayFile::new(), piece: Vec::new(), has_ended: false };
        Ok(Self::new(source, Some(date)))
    }

    /// Opens a capture.
    pub(super) fn capture(path: &Path) -> io::Result<Self> {
        let source = Source::Mold(Box::new(MoldCapture {
            datagrams: Datagrams::open(path)?,
            receiver: MoldReceiver::new(Join::Beginning, LIMITS),
            lines: Vec::new(),
            foreign: 0,
            short: 0,
            unbelieved: Vec::new(),
            has_ended: false,
        }));
        Ok(Self::new(source, None))
    }

    fn new(source: Source, date: Option<u32>) -> Self {
        let mut new =
            Self { source, queue: Queue::default(), day: TotalView::default(), told: Told::default(), date, now: 0 };
        new.told.midnight = date.map_or(0, midnight);
        new.fill();
        new
    }

    /// Reads until there is a message, or the end.
    fn fill(&mut self) {
        while self.queue.is_empty() {
            let goes_on = match &mut self.source {
                Source::Day { bytes, file, piece, has_ended } => {
                    *has_ended = *has_ended || !bytes.next(piece);
                    if !*has_ended {
                        file.read(piece, |message| self.queue.push(message));
                    }
                    !*has_ended
                }
                Source::Mold(mold) => {
                    let goes_on = mold.next(&mut self.queue);
                    if let (None, Some(at)) = (self.date, goes_on) {
                        let date = (at.saturating_sub(5 * 3_600 * SECOND) / DAY) as u32;
                        self.date = Some(date);
                        self.told.midnight = midnight(date);
                        // Until the first message tells its time.
                        self.now = at;
                    }
                    goes_on.is_some()
                }
            };
            if !goes_on {
                return;
            }
        }
        if let Some(time) = self.queue.first_message().and_then(time_of) {
            self.now = self.told.midnight + time;
        }
    }

    /// The stock of a message that names one.
    fn stock_of(message: &[u8]) -> Option<Text<8>> {
        let at = match message.first()? {
            b'R' | b'H' | b'Y' | b'K' | b'J' | b'h' | b'N' | b'O' => 11,
            b'A' | b'F' | b'P' => 24,
            b'Q' => 19,
            b'L' => 15,
            b'I' => 28,
            _ => return None,
        };
        message.get(at..at + 8)?.try_into().ok().map(Text)
    }
}

/// When it was midnight in New York, by the clock that is valid at noon: markets are closed when the clock changes.
fn midnight(date: u32) -> u64 {
    let noon = new_york::utc(date, DAY / 2);
    u64::from(noon.day) * DAY + noon.time - DAY / 2
}

/// Nanoseconds since midnight.
fn time_of(message: &[u8]) -> Option<u64> {
    let bytes: [u8; 6] = message.get(5..11)?.try_into().ok()?;
    Some(bytes.iter().fold(0, |time, byte| time << 8 | u64::from(*byte)))
}

fn locate_of(message: &[u8]) -> Option<u16> {
    message.get(1..3)?.try_into().ok().map(u16::from_be_bytes)
}

impl MoldCapture {
    /// Takes the next datagram; its time, or `None` at the end, when all that waited has been given up.
    fn next(&mut self, queue: &mut Queue) -> Option<u64> {
        if self.has_ended {
            return None;
        }
        let Some(datagram) = self.datagrams.next() else {
            // Nothing follows: what is missing is lost.
            while let Some(at) = self.receiver.timer() {
                self.receiver.on_timer(at, queue);
                let _unanswered = self.receiver.poll_request();
            }
            self.has_ended = true;
            return Some(0).filter(|_| !queue.is_empty());
        };
        while let Some(at) = self.receiver.timer().filter(|at| *at <= datagram.at) {
            self.receiver.on_timer(at, queue);
            let _unanswered = self.receiver.poll_request();
        }
        let payload = self.datagrams.payload();
        let known = self.lines.iter().position(|line| *line == datagram.destination);
        let line = known.or_else(|| {
            let session = Header::read(payload).map(|header| name_of(&header.session));
            let is_ours = is_mold(payload) && (self.lines.is_empty() || session == Some(self.receiver.session()));
            is_ours.then(|| {
                self.lines.push(datagram.destination);
                self.lines.len() - 1
            })
        });
        match line {
            Some(line) => {
                self.short += u64::from(datagram.missing > 0 && !self.datagrams.is_cut());
                let line = Line::Feed(line.min(LINES - 1) as u8);
                let before = self.receiver.session();
                self.receiver.receive(line, payload, datagram.at, queue);
                let is_other = Header::read(payload).is_some_and(|header| name_of(&header.session) != before);
                if before != self.receiver.session() {
                    // One packet of another session is not believed, and the one that confirms it does not have its messages.
                    self.receiver.receive(line, &std::mem::take(&mut self.unbelieved), datagram.at, queue);
                } else if is_other {
                    self.unbelieved = payload.to_vec();
                }
            }
            None => self.foreign += 1,
        }
        Some(datagram.at)
    }
}

fn name_of(session: &[u8; 10]) -> String {
    String::from_utf8_lossy(session).trim().to_owned()
}

impl Input for Nasdaq {
    fn next_at(&self) -> Option<u64> {
        (!self.queue.is_empty()).then_some(self.now)
    }

    fn step(&mut self, board: &mut Board) {
        board.midnight = self.told.midnight;
        match self.queue.pop() {
            Some(Next::Message(range)) => {
                let message = self.queue.bytes(range);
                board.begin(self.now);
                if let (Some(stock), Some(locate)) = (Self::stock_of(message), locate_of(message).filter(|l| *l > 0))
                    && !board.is_named(BookId(u32::from(locate)))
                {
                    board.name_book(BookId(u32::from(locate)), &stock.trimmed());
                }
                // A message that cannot be read has been counted by its kind.
                let _unreadable = self.day.apply(message, &mut ToBoard { board, told: &mut self.told });
            }
            Some(Next::Change(change)) => {
                if matches!(change, Change::Session { .. }) {
                    self.day.begin(&mut ToBoard { board, told: &mut self.told });
                }
                ToBoard { board, told: &mut self.told }.change(&change);
            }
            None => {}
        }
        self.fill();
    }

    fn is_at_traffic(&self) -> bool {
        let Some(Next::Message(range)) = self.queue.front() else { return false };
        self.queue.bytes(range.clone()).first().is_some_and(|code| TRAFFIC.contains(code))
    }

    fn books(&self) -> &dyn Books {
        self.day.books()
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        self.told.midnight + since_midnight
    }

    fn messages(&self) -> u64 {
        self.day.messages()
    }

    fn unread(&self) -> Option<String> {
        match &self.source {
            Source::Day { bytes, file, has_ended, .. } => {
                let torn = (*has_ended && file.torn() > 0)
                    .then(|| format!("the last message is torn: {} bytes of it are there", file.torn()));
                bytes.trouble().map(str::to_owned).or(torn)
            }
            Source::Mold(mold) => mold.datagrams.trouble().or_else(|| {
                (mold.short > 0).then(|| format!("{} packets were captured in part (snap length)", mold.short))
            }),
        }
    }

    fn remarks(&self) -> Option<String> {
        let mut texts = Vec::new();
        if let Source::Mold(mold) = &self.source {
            let counts = mold.receiver.counts();
            if counts.gaps > 0 {
                let (gaps, repairs, lost) = (counts.gaps, counts.repairs, counts.lost);
                texts.push(format!("gaps {gaps}, repaired {repairs}, messages that are not in the capture {lost}"));
            }
            if mold.foreign > 0 {
                texts.push(format!("{} datagrams of other feeds were left out", mold.foreign));
            }
        }
        let bad = Bad::ALL.iter().filter(|kind| self.day.bad(**kind) > 0);
        texts.extend(bad.map(|kind| format!("{kind:?}: {}", self.day.bad(*kind))));
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// Takes what the day tells.
struct ToBoard<'a> {
    board: &'a mut Board,
    told: &'a mut Told,
}

impl Events for ToBoard<'_> {
    const WANTS_RANK: bool = false;

    #[inline]
    fn event(&mut self, book: BookId, event: &Event) {
        self.board.event(book, event);
    }
}

impl Market<Message> for ToBoard<'_> {
    fn trade(&mut self, book: BookId, trade: &Trade) {
        let Some(item) = self.board.of_book(book) else { return };
        let print = Print {
            number: trade.number,
            price: trade.price,
            size: trade.size,
            at: self.board.now(),
            aggressor: trade.aggressor,
            is_eligible: true,
        };
        self.board.trade(item, print);
        match trade.kind {
            TradeKind::Cross(b'O') => self.board.status(item, |status| status.official_open = Some(trade.price)),
            TradeKind::Cross(b'C') => self.board.status(item, |status| status.official_close = Some(trade.price)),
            _ => {}
        }
    }

    fn broken(&mut self, book: BookId, trade: &Trade) {
        if let Some(item) = self.board.of_book(book) {
            self.board.break_trade(item, trade.number);
        }
    }

    fn notice(&mut self, book: Option<BookId>, notice: &Message) {
        if let Message::SystemEvent(event) = notice {
            return self.system_event(event.event);
        }
        let Some(item) = book.and_then(|book| self.board.of_book(book)) else { return };
        match notice {
            Message::StockDirectory(m) => {
                // The day's directory has the last word on whose number it is.
                self.board.name_book(BookId(u32::from(m.locate)), &m.stock.trimmed());
                self.board.status(item, |status| status.lot = Some(m.round_lot));
            }
            Message::TradingAction(m) => {
                self.told.states.entry(m.locate).or_default().0 = m.state;
                self.tell_state(item, m.locate, &m.reason.trimmed());
            }
            Message::OperationalHalt(m) if m.market == b'Q' => {
                let state = self.told.states.entry(m.locate).or_insert((b'H', false));
                state.1 = m.action == b'H';
                self.tell_state(item, m.locate, if m.action == b'H' { "operational halt" } else { "" });
            }
            Message::RegSho(m) => {
                let short_sale = match m.action {
                    b'0' => 1,
                    b'1' => 4,
                    b'2' => 3,
                    _ => 0,
                };
                self.board.status(item, |status| status.short_sale = Some(short_sale));
            }
            Message::Imbalance(m) => {
                let price = |price: u32| (price > 0).then_some(i64::from(price));
                let side = match m.direction {
                    b'N' => 1,
                    b'B' => 2,
                    b'S' => 3,
                    b'O' => 4,
                    _ => 0,
                };
                let (price, reference) = (price(m.near), price(m.reference));
                self.board.auction(item, Auction { price, paired: m.paired, imbalance: m.imbalance, side, reference });
            }
            _ => {}
        }
    }

    fn doubt(&mut self, book: BookId, why: &Refused) {
        self.board.doubt_book(book, &format!("messages were lost: {why}"));
    }

    fn change(&mut self, change: &Change) {
        if matches!(change, Change::Session { .. }) {
            self.told.states.clear();
        }
        tell_change(self.board, change);
    }
}

impl ToBoard<'_> {
    fn begin_session(&mut self) {
        self.told.states.clear();
        self.board.begin_session();
    }

    fn system_event(&mut self, event: u8) {
        if event == b'O' {
            self.begin_session();
        }
        let phase = match event {
            b'S' => "PRE-MARKET",
            b'Q' => "REGULAR",
            b'M' => "LATE",
            b'E' | b'C' => "CLOSED",
            _ => return,
        };
        self.board.market_phase(phase);
    }

    fn tell_state(&mut self, item: u32, locate: u16, reason: &str) {
        let (state, is_halted) = self.told.states.get(&locate).copied().unwrap_or_default();
        // `TRD_STATUS` and `INST_PHASE`: continuous trading, quotation only, or nothing that is known.
        let (trading, phase) = match state {
            _ if is_halted => (2, 0),
            b'T' => (1, 3),
            b'Q' => (4, 16),
            _ => (2, 0),
        };
        self.board.status(item, |status| {
            (status.trading, status.phase) = (Some(trading), Some(phase));
            reason.clone_into(&mut status.reason);
        });
    }
}
