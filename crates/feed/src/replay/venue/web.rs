//! Venues on the web, applied to items: texts of a connection and what was fetched, wherever they come from.

use std::fmt;

use market::{BookId, Event, Events, Level, Order, Side};
use venue::kraken::Kraken;
use venue::web::{Binance, Bitmex, Bitstamp, Coinbase, IndependentReserve, KrakenFutures, Notice, Want, Web, WebVenue};
use venue::{Market, Trade};

use super::board::Board;
use super::depth::Books;
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
    /// A text of the connection.
    fn text(&mut self, text: &[u8], at: At, board: &mut Board);
    /// What was fetched of a path.
    fn answer(&mut self, path: &str, body: &[u8], at: At, board: &mut Board);
    /// A text that somebody else sent on a connection that was recorded.
    fn recorded(&mut self, text: &[u8], board: &mut Board);
    /// What is to be done.
    fn poll(&mut self) -> Option<Want>;
    /// The books.
    fn books(&self) -> &dyn Books;
    /// Texts that came.
    fn messages(&self) -> u64;
    /// Products, and how many of their books are good.
    fn good(&self) -> (usize, usize);
    /// What was wrong, by kind.
    fn bad(&self) -> Vec<(String, u64)>;
}

struct Items<V> {
    venue: V,
    /// Products that have an item.
    named: usize,
    /// Trades of products that had no item yet.
    early: Vec<(BookId, Trade, u64)>,
}

impl<V: WebVenue + 'static> Items<V> {
    fn of(venue: V) -> Box<dyn WebItems> {
        Box::new(Self { venue, named: 0, early: Vec::new() })
    }

    /// Applies something to the venue, names what is new, and settles.
    fn apply(&mut self, wall: u64, board: &mut Board, what: impl FnOnce(&mut V, &mut ToBoard<'_>)) {
        let mut to = ToBoard { board, wall, early: &mut self.early };
        to.board.begin(wall);
        what(&mut self.venue, &mut to);
        self.name_new(board);
        board.settle(self);
    }

    fn name_new(&mut self, board: &mut Board) {
        if self.venue.count() == self.named {
            return;
        }
        let names = self.venue.names();
        for (at, name) in names.iter().enumerate().skip(self.named) {
            let book = BookId(at as u32);
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

    fn text(&mut self, text: &[u8], at: At, board: &mut Board) {
        self.apply(at.wall, board, |venue, to| venue.text(text, at.now, to));
    }

    fn answer(&mut self, path: &str, body: &[u8], at: At, board: &mut Board) {
        self.apply(at.wall, board, |venue, to| venue.answer(path, body, at.now, to));
    }

    fn recorded(&mut self, text: &[u8], board: &mut Board) {
        self.venue.recorded(text);
        self.name_new(board);
    }

    fn poll(&mut self) -> Option<Want> {
        self.venue.poll()
    }

    fn books(&self) -> &dyn Books {
        self
    }

    fn messages(&self) -> u64 {
        self.venue.messages()
    }

    fn good(&self) -> (usize, usize) {
        (self.named, (0..self.named).filter(|at| self.venue.is_good(BookId(*at as u32))).count())
    }

    fn bad(&self) -> Vec<(String, u64)> {
        self.venue.bad().kinds().map(|(kind, count)| (kind.to_owned(), count)).to_vec()
    }
}

impl<V: WebVenue> Books for Items<V> {
    fn best(&self, book: BookId, side: Side) -> Option<Level> {
        self.venue.books().best(book, side)
    }

    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        self.venue.books().level(book, side, price)
    }

    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        self.venue.books().levels(book, side)
    }

    fn orders(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Order> + '_> {
        self.venue.books().orders(book, side)
    }

    fn order_name(&self, reference: u64) -> Option<[u8; 16]> {
        self.venue.books().order_name(reference)
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
    early: &'a mut Vec<(BookId, Trade, u64)>,
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
            Notice::Suspect(why) => self.board.suspect(book, &why.to_string()),
            Notice::Good => self.board.vouch(book),
            Notice::Refused(why) => self.board.suspect(book, &format!("the exchange refuses it: {why}")),
        }
    }
}
