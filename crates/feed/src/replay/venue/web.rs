//! Venues on the web, applied to items: texts of a connection and what was fetched, wherever they come from.

use std::collections::HashSet;
use std::fmt;

use market::{BookId, Event, Events, ReadBooks};
use venue::kraken::Kraken;
use venue::web::{Binance, Bitmex, Bitstamp, Coinbase, IndependentReserve, KrakenFutures, Notice, Want, Web, WebVenue};
use venue::{Market, Trade};

use super::board::Board;
use super::values::{Facts, Print};
use crate::Model;

/// A venue whose feed is JSON over WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebKind {
    /// Binance, and those that speak as it does.
    Binance,
    /// `BitMEX`.
    Bitmex,
    /// Bitstamp.
    Bitstamp,
    /// Coinbase Exchange.
    Coinbase,
    /// Independent Reserve.
    IndependentReserve,
    /// Kraken.
    Kraken,
    /// Kraken Futures.
    KrakenFutures,
}

/// What is not the product's own: neither currency nor exchange is told.
pub(super) const FACTS: Facts =
    Facts { decimals: 0, size_decimals: 0, currency: None, exchange: None, quote_exchange: None };

/// Levels a side that are subscribed to at Kraken.
const KRAKEN_DEPTH: usize = 1_000;

impl fmt::Display for WebKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Binance => "Binance",
            Self::Bitmex => "BitMEX",
            Self::Bitstamp => "Bitstamp",
            Self::Coinbase => "Coinbase",
            Self::IndependentReserve => "Independent Reserve",
            Self::Kraken => "Kraken",
            Self::KrakenFutures => "Kraken Futures",
        })
    }
}

impl WebKind {
    /// All venues, with the name of each on the command line, where its WebSocket is and, if it wants bodies, its HTTP server. The addresses
    /// are those of the exchanges' own documents.
    pub const SITES: [(Self, &'static str, &'static str, Option<&'static str>); 7] = [
        (Self::Binance, "binance", "wss://stream.binance.com:9443/ws", Some("https://api.binance.com")),
        (Self::Bitmex, "bitmex", "wss://ws.bitmex.com/realtime", None),
        (Self::Bitstamp, "bitstamp", "wss://ws.bitstamp.net/", Some("https://www.bitstamp.net")),
        (Self::Coinbase, "coinbase", "wss://ws-feed.exchange.coinbase.com/", None),
        (
            Self::IndependentReserve,
            "independent-reserve",
            "wss://websockets.independentreserve.com/",
            Some("https://api.independentreserve.com"),
        ),
        (Self::Kraken, "kraken", "wss://ws.kraken.com/", None),
        (Self::KrakenFutures, "kraken-futures", "wss://futures.kraken.com/ws/v1", None),
    ];

    /// The venue of a server; `None`: none that is known.
    pub fn of_host(host: &str) -> Option<Self> {
        let is_of = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        Some(match host {
            _ if is_of("futures.kraken.com") => Self::KrakenFutures,
            _ if is_of("kraken.com") => Self::Kraken,
            _ if is_of("coinbase.com") => Self::Coinbase,
            _ if is_of("bitmex.com") => Self::Bitmex,
            _ if is_of("bitstamp.net") => Self::Bitstamp,
            _ if is_of("independentreserve.com") => Self::IndependentReserve,
            _ if is_of("binance.com") || is_of("binance.us") => Self::Binance,
            _ => return None,
        })
    }

    pub(super) fn models(self) -> &'static [Model] {
        match self {
            Self::IndependentReserve => &[Model::Price, Model::ByOrder, Model::ByPrice],
            _ => &[Model::Price, Model::ByPrice],
        }
    }

    /// Items of these products; of all that the texts tell of, if none is named.
    pub(super) fn items(self, names: &[String]) -> Box<dyn WebItems> {
        match self {
            Self::Binance => Items::of(Web::<Binance>::new(names)),
            Self::Bitmex => Items::of(Web::<Bitmex>::new(names)),
            Self::Bitstamp => Items::of(Web::<Bitstamp>::new(names)),
            Self::Coinbase => Items::of(Web::<Coinbase>::new(names)),
            Self::IndependentReserve => Items::of(IndependentReserve::new(names)),
            Self::Kraken => Items::of(Kraken::new(names, KRAKEN_DEPTH)),
            Self::KrakenFutures => Items::of(Web::<KrakenFutures>::new(names)),
        }
    }
}

/// When something came: nanoseconds of a clock that never falls, and since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub now: u64,
    pub wall: u64,
}

/// A venue on the web with its items. What comes is applied and settled.
pub(super) trait WebItems {
    /// A connection stands.
    fn connected(&mut self, now: u64);
    /// The connection is gone.
    fn disconnected(&mut self, at: At, board: &mut Board);
    /// A text of the connection; the venue's time of it, if it has one, nanoseconds since 1970.
    fn text(&mut self, text: &[u8], at: At, board: &mut Board) -> Option<u64>;
    /// What was fetched of a path.
    fn answer(&mut self, path: &str, body: &[u8], at: At, board: &mut Board);
    /// What was wanted of a path does not come.
    fn fetch_failed(&mut self, path: &str);
    /// A text that somebody else sent on a connection that was recorded.
    fn recorded(&mut self, text: &[u8], board: &mut Board);
    /// Makes the items of the products that were named.
    fn name_all(&mut self, board: &mut Board);
    /// When [`WebItems::on_timer`] wants to be called.
    fn timer(&self) -> Option<u64>;
    /// Does what is due.
    fn on_timer(&mut self, now: u64);
    /// What is to be done.
    fn poll(&mut self) -> Option<Want>;
    /// The books.
    fn books(&self) -> &dyn ReadBooks;
    /// Texts that came.
    fn messages(&self) -> u64;
    /// Products, and how many of their books are good.
    fn good(&self) -> (usize, usize);
    /// How often a book became doubtful, and how often such a one began anew.
    fn doubts(&self) -> (u64, u64);
    /// What was wrong, by kind.
    fn bad(&self) -> Vec<(String, u64)>;
}

struct Items<V> {
    venue: V,
    /// Products that have an item.
    named: usize,
    /// Trades of products that had no item yet.
    early: Vec<(BookId, Trade, u64)>,
    doubts: Doubts,
}

/// How often books became doubtful, and began anew.
#[derive(Default)]
struct Doubts {
    suspect: HashSet<BookId>,
    begun: u64,
    repaired: u64,
}

impl<V: WebVenue + 'static> Items<V> {
    fn of(venue: V) -> Box<dyn WebItems> {
        Box::new(Self { venue, named: 0, early: Vec::new(), doubts: Doubts::default() })
    }

    /// Applies something to the venue, names what is new, and settles.
    /// The venue's time of it, if it has one.
    fn apply(&mut self, wall: u64, board: &mut Board, what: impl FnOnce(&mut V, &mut ToBoard<'_>)) -> Option<u64> {
        let mut to = ToBoard { board, wall, told_at: None, early: &mut self.early, doubts: &mut self.doubts };
        to.board.begin(wall);
        what(&mut self.venue, &mut to);
        let told_at = to.told_at;
        self.name_new(board);
        board.settle(self.venue.books());
        told_at
    }

    fn name_new(&mut self, board: &mut Board) {
        if self.venue.count() == self.named {
            return;
        }
        let names = self.venue.names();
        for (at, name) in names.iter().enumerate().skip(self.named) {
            let book = BookId(at as u32);
            if !self.venue.is_wanted(book) {
                continue;
            }
            board.name_book(book, name);
            let scale = self.venue.scale(book);
            board.scale(book, scale.price, scale.size);
            board.suspect(book, "its book has not begun");
            board.renew(book);
            if self.venue.is_good(book) {
                board.vouch(book);
            }
        }
        self.named = names.len();
        for (book, trade, at) in self.early.drain(..) {
            tell_trade(board, book, &trade, at);
        }
    }
}

impl<V: WebVenue + 'static> WebItems for Items<V> {
    fn connected(&mut self, now: u64) {
        self.venue.connected(now);
    }

    fn disconnected(&mut self, at: At, board: &mut Board) {
        self.apply(at.wall, board, |venue, to| venue.disconnected(to));
    }

    fn text(&mut self, text: &[u8], at: At, board: &mut Board) -> Option<u64> {
        self.apply(at.wall, board, |venue, to| venue.text(text, at.now, to))
    }

    fn answer(&mut self, path: &str, body: &[u8], at: At, board: &mut Board) {
        self.apply(at.wall, board, |venue, to| venue.answer(path, body, at.now, to));
    }

    fn fetch_failed(&mut self, path: &str) {
        self.venue.fetch_failed(path);
    }

    fn recorded(&mut self, text: &[u8], board: &mut Board) {
        self.venue.recorded(text);
        self.name_new(board);
    }

    fn name_all(&mut self, board: &mut Board) {
        self.name_new(board);
    }

    fn timer(&self) -> Option<u64> {
        self.venue.timer()
    }

    fn on_timer(&mut self, now: u64) {
        self.venue.on_timer(now);
    }

    fn poll(&mut self) -> Option<Want> {
        self.venue.poll()
    }

    fn books(&self) -> &dyn ReadBooks {
        self.venue.books()
    }

    fn messages(&self) -> u64 {
        self.venue.messages()
    }

    fn good(&self) -> (usize, usize) {
        let wanted = || (0..self.named).map(|at| BookId(at as u32)).filter(|book| self.venue.is_wanted(*book));
        (wanted().count(), wanted().filter(|book| self.venue.is_good(*book)).count())
    }

    fn doubts(&self) -> (u64, u64) {
        (self.doubts.begun, self.doubts.repaired)
    }

    fn bad(&self) -> Vec<(String, u64)> {
        self.venue.bad().kinds().map(|(kind, count)| (kind.to_owned(), count)).to_vec()
    }
}

fn tell_trade(board: &mut Board, book: BookId, trade: &Trade, at: u64) {
    let Some(item) = board.of_book(book) else { return };
    let Trade { number, price, size, aggressor, is_eligible, .. } = *trade;
    board.trade(item, Print { number, price, size, at, aggressor, is_eligible });
}

/// Takes what a venue tells.
struct ToBoard<'a> {
    board: &'a mut Board,
    /// When it came.
    wall: u64,
    /// The venue's time of the text, once it has told one.
    told_at: Option<u64>,
    early: &'a mut Vec<(BookId, Trade, u64)>,
    doubts: &'a mut Doubts,
}

impl Events for ToBoard<'_> {
    const WANTS_RANK: bool = false;

    #[inline]
    fn event(&mut self, book: BookId, event: &Event) {
        self.board.event(book, event);
    }
}

impl Market<Notice> for ToBoard<'_> {
    fn begin(&mut self, _: Option<BookId>, time: u64) {
        self.told_at = Some(time).filter(|time| *time > 0).or(self.told_at);
        self.board.begin(if time > 0 { time } else { self.wall });
    }

    fn trade(&mut self, book: BookId, trade: &Trade) {
        let at = self.board.now();
        if self.board.is_named(book) {
            tell_trade(self.board, book, trade, at);
        } else {
            self.early.push((book, *trade, at));
        }
    }

    fn notice(&mut self, book: Option<BookId>, notice: &Notice) {
        let Some(book) = book else { return };
        match notice {
            Notice::Scale(scale) => self.board.scale(book, scale.price, scale.size),
            Notice::Suspect(why) => {
                self.doubts.begun += u64::from(self.doubts.suspect.insert(book));
                self.board.suspect(book, &why.to_string());
            }
            Notice::Good => {
                self.doubts.repaired += u64::from(self.doubts.suspect.remove(&book));
                self.board.vouch(book);
            }
            Notice::Refused(why) => self.board.suspect(book, &format!("the exchange refuses it: {why}")),
        }
    }
}
