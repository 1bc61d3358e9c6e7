//! Captures of IEX: TOPS and DEEP over IEX-TP.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use market::{BookId, Event, Events, Level, PriceBook, Side};
use venue::iex::IexDay;
use venue::iex::messages::{Message, Unreadable};
use venue::iex::tp::{Header, Protocol, TpReceiver};
use venue::nasdaq::Text;
use venue::sequence::Change;
use venue::{Market, Trade};

use super::board::Board;
use super::datagrams::Datagrams;
use super::depth::Books;
use super::input::{Input, LIMITS};
use super::queue::{Next, Queue};
use super::values::{Auction, Facts, Print};
use crate::new_york;
use crate::session::{DAY, Nanos};

/// Prices have four decimals and are of US dollars; 229 is IEX in the tables of short numbers of exchanges, 1386 in that of `RDN_EXCHD2`.
pub(super) const FACTS: Facts =
    Facts { decimals: 4, currency: Some(840), exchange: Some(1_386), quote_exchange: Some(229) };

/// A capture that is read.
pub(super) struct Iex {
    datagrams: Datagrams,
    receiver: TpReceiver,
    queue: Queue,
    day: IexDay,
    told: Told,
    /// Packets of which the capture has a part.
    short: u64,
    /// Messages that cannot be read, by type.
    unreadable: HashMap<u8, u64>,
    has_ended: bool,
    now: u64,
}

/// What the exchange said of securities: trading status by book, and whether IEX alone halts it.
#[derive(Default)]
struct Told {
    states: HashMap<BookId, (u8, bool)>,
}

/// Which feed a datagram is of, if it is one of IEX.
pub(super) fn protocol(payload: &[u8]) -> Option<Protocol> {
    Header::read(payload)
        .filter(|header| usize::from(header.length) + 40 >= payload.len())
        .map(|header| header.protocol)
}

impl Iex {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut new = Self {
            datagrams: Datagrams::open(path)?,
            receiver: TpReceiver::new(LIMITS),
            queue: Queue::default(),
            day: IexDay::new(),
            told: Told::default(),
            short: 0,
            unreadable: HashMap::new(),
            has_ended: false,
            now: 0,
        };
        new.fill();
        Ok(new)
    }

    /// Reads until there is a message, or the end.
    fn fill(&mut self) {
        while self.queue.is_empty() && !self.has_ended {
            let Some(datagram) = self.datagrams.next() else {
                // Where the file is cut, nobody knows what followed; otherwise what is missing is lost.
                while let Some(at) = self.receiver.timer().filter(|_| !self.datagrams.is_cut()) {
                    self.receiver.on_timer(at, &mut self.queue);
                    let _unanswered = self.receiver.poll_request();
                }
                self.has_ended = true;
                break;
            };
            while let Some(at) = self.receiver.timer().filter(|at| *at <= datagram.at) {
                self.receiver.on_timer(at, &mut self.queue);
                let _unanswered = self.receiver.poll_request();
            }
            self.short += u64::from(datagram.missing > 0 && !self.datagrams.is_cut());
            self.receiver.receive(self.datagrams.payload(), datagram.at, &mut self.queue);
            // Until the first message tells its time.
            self.now = if self.now == 0 { datagram.at } else { self.now };
        }
        let time = self.queue.first_message().and_then(|message| message.get(2..10)?.try_into().ok());
        self.now = time.map_or(self.now, u64::from_le_bytes);
    }
}

impl Books for IexDay {
    fn best(&self, book: BookId, side: Side) -> Option<Level> {
        self.book(book)?.levels(side).next()
    }

    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        self.book(book)?.level(side, price)
    }

    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        Box::new(self.book(book).into_iter().flat_map(move |book: &PriceBook| book.levels(side)))
    }
}

impl Input for Iex {
    fn next_at(&self) -> Option<u64> {
        (!self.queue.is_empty()).then_some(self.now)
    }

    fn step(&mut self, board: &mut Board) {
        match self.queue.pop() {
            Some(Next::Message(range)) => {
                let message = self.queue.bytes(range);
                board.begin(self.now);
                let symbol = match message.first() {
                    Some(b'S') | None => None,
                    Some(_) => message.get(10..18).and_then(|symbol| symbol.try_into().ok()).map(Text),
                };
                let book = symbol.and_then(|symbol| Some((self.day.name(symbol)?, symbol)));
                if let Some((book, symbol)) = book.filter(|(book, _)| !board.is_named(*book)) {
                    board.name_book(book, &symbol.trimmed());
                }
                if let Err(Unreadable::Type(code) | Unreadable::Short { code, .. }) =
                    self.day.apply(message, &mut ToBoard { board, told: &mut self.told })
                {
                    *self.unreadable.entry(code).or_default() += 1;
                }
                if let Some((book, _)) = book.filter(|(book, _)| !self.day.is_in_event(*book)) {
                    board.settle_book(book, &self.day);
                }
            }
            Some(Next::Change(change)) => {
                if matches!(change, Change::Session { .. }) {
                    self.day.begin(&mut ToBoard { board, told: &mut self.told });
                }
                ToBoard { board, told: &mut self.told }.change(&change);
                board.settle(&self.day);
            }
            None => {}
        }
        self.fill();
    }

    fn settles_itself(&self) -> bool {
        true
    }

    /// Securities are told of one by one, each with its first quote: which there are is known at the end alone.
    fn is_at_traffic(&self) -> bool {
        false
    }

    fn books(&self) -> &dyn Books {
        &self.day
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        // The date in New York, whatever its clock: no feed runs at midnight.
        let date = (self.now.saturating_sub(5 * 3_600 * crate::session::SECOND) / DAY) as u32;
        let at = new_york::utc(date, since_midnight);
        u64::from(at.day) * DAY + at.time
    }

    fn messages(&self) -> u64 {
        self.day.messages()
    }

    fn unread(&self) -> Option<String> {
        self.datagrams
            .trouble()
            .or_else(|| (self.short > 0).then(|| format!("{} packets were captured in part (snap length)", self.short)))
    }

    fn remarks(&self) -> Option<String> {
        let (counts, bad, day) = (self.receiver.counts(), self.receiver.bad(), self.day.bad());
        let mut texts = Vec::new();
        if counts.gaps > 0 {
            let (gaps, repairs, lost) = (counts.gaps, counts.repairs, counts.lost);
            texts.push(format!("gaps {gaps}, repaired {repairs}, messages that are not in the capture {lost}"));
        }
        let kinds = [
            ("beginnings within a session", self.receiver.restarts()),
            ("datagrams that are none of IEX-TP", bad.header),
            ("segments of another feed", bad.foreign),
            ("segments of a session that is over", bad.of_an_old_session),
            ("deletions of levels that are not there", day.unknown_level),
            ("breaks of trades that are not there", day.unknown_trade),
            ("symbols too many", day.too_many),
        ];
        texts.extend(kinds.iter().filter(|kind| kind.1 > 0).map(|(what, count)| format!("{what}: {count}")));
        let mut unreadable: Vec<_> = self.unreadable.iter().collect();
        unreadable.sort_unstable();
        texts.extend(
            unreadable
                .iter()
                .map(|(code, count)| format!("messages of type {:?} that cannot be read: {count}", char::from(**code))),
        );
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// Takes what the session tells.
struct ToBoard<'a> {
    board: &'a mut Board,
    told: &'a mut Told,
}

impl Events for ToBoard<'_> {
    const WANTS_RANK: bool = false;

    fn event(&mut self, book: BookId, event: &Event) {
        self.board.event(book, event);
    }
}

/// A price of 0 is none.
fn price(price: i64) -> Option<i64> {
    Some(price).filter(|price| *price != 0)
}

impl Market<Message> for ToBoard<'_> {
    fn trade(&mut self, book: BookId, trade: &Trade) {
        let Some(item) = self.board.of_book(book) else { return };
        let Trade { number, price, size, aggressor, is_eligible, .. } = *trade;
        let at = self.board.now();
        self.board.trade(item, Print { number, price, size, at, aggressor, is_eligible });
    }

    fn broken(&mut self, book: BookId, trade: &Trade) {
        if let Some(item) = self.board.of_book(book) {
            self.board.break_trade(item, trade.number);
        }
    }

    fn notice(&mut self, book: Option<BookId>, notice: &Message) {
        if let Message::SystemEvent(event) = notice {
            let phase = match event.flags {
                b'S' => "PRE-MARKET",
                b'R' => "REGULAR",
                b'M' => "LATE",
                b'E' | b'C' => "CLOSED",
                _ => return,
            };
            return self.board.market_phase(phase);
        }
        let Some((book, item)) = book.and_then(|book| Some((book, self.board.of_book(book)?))) else { return };
        match notice {
            Message::Quote(m) => {
                let side = |value: i64, size: u32| {
                    price(value).filter(|_| size > 0).map(|price| Level { price, size: u64::from(size), orders: 0 })
                };
                self.board.quote(item, side(m.bid, m.bid_size), side(m.ask, m.ask_size));
            }
            Message::Directory(m) => self.board.status(item, |status| {
                (status.lot, status.adjusted_close) = (Some(m.lot), price(m.previous_close));
            }),
            Message::TradingStatus(m) => {
                self.told.states.entry(book).or_default().0 = m.flags;
                self.tell_state(item, book, &m.reason.trimmed());
            }
            Message::OperationalHalt(m) => {
                let is_halted = m.flags == b'O';
                let state = self.told.states.entry(book).or_insert((b'H', false));
                if std::mem::replace(&mut state.1, is_halted) != is_halted {
                    self.tell_state(item, book, if is_halted { "operational halt" } else { "" });
                }
            }
            Message::ShortSaleTest(m) => {
                let short_sale = match (m.flags, m.detail) {
                    (0, _) => 1,
                    (_, b'C') => 3,
                    _ => 4,
                };
                self.board.status(item, |status| status.short_sale = Some(short_sale));
            }
            Message::OfficialPrice(m) => self.board.status(item, |status| match m.flags {
                b'Q' => status.official_open = price(m.price),
                b'M' => status.official_close = price(m.price),
                _ => {}
            }),
            Message::Auction(m) => {
                let side = match m.side {
                    b'N' => 1,
                    b'B' => 2,
                    b'S' => 3,
                    _ => 0,
                };
                let (paired, imbalance) = (u64::from(m.paired), u64::from(m.imbalance));
                let (price, reference) = (price(m.indicative), price(m.reference));
                self.board.auction(item, Auction { price, paired, imbalance, side, reference });
            }
            _ => {}
        }
    }

    fn change(&mut self, change: &Change) {
        if matches!(change, Change::Session { .. }) {
            self.told.states.clear();
        }
        super::input::tell_change(self.board, change);
    }
}

impl ToBoard<'_> {
    fn tell_state(&mut self, item: u32, book: BookId, reason: &str) {
        let (state, is_halted) = self.told.states.get(&book).copied().unwrap_or_default();
        // `TRD_STATUS` and `INST_PHASE`: continuous trading, the orders of an auction, or nothing that is known.
        let (trading, phase) = match state {
            _ if is_halted => (2, 0),
            b'T' => (1, 3),
            b'O' => (4, 2),
            _ => (2, 0),
        };
        self.board.status(item, |status| {
            (status.trading, status.phase) = (Some(trading), Some(phase));
            reason.clone_into(&mut status.reason);
        });
    }
}
