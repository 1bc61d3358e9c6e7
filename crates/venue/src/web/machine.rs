//! A venue's connection as a state machine, whatever its protocol.

use std::collections::VecDeque;

use market::{BookId, Level, Order, PriceBook, Side};

use super::notice::{Bad, Notice, Scale, Want};
use super::products::Products;
use crate::market_events::Market;

/// The books of a venue on the web.
pub trait WebBooks {
    /// The best level of a side.
    fn best(&self, book: BookId, side: Side) -> Option<Level>;
    /// The level at a price.
    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level>;
    /// Levels of a side, the best first.
    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_>;
    /// Orders of a side, as they will be executed; none where the venue tells of none.
    fn orders(&self, _book: BookId, _side: Side) -> Box<dyn Iterator<Item = Order> + '_> {
        Box::new(std::iter::empty())
    }
    /// The venue's own name of an order that stands, or that the last text took away; `None`: its number is its name.
    fn order_name(&self, _reference: u64) -> Option<[u8; 16]> {
        None
    }
}

/// A venue on the web: texts, answers and `now` in (nanoseconds of any clock that never falls); books, trades, notices and wants out.
/// [`BookId`]s count products in the order in which they were named.
pub trait WebVenue {
    /// A connection stands: all is subscribed to.
    fn connected(&mut self, now: u64);
    /// The connection is gone.
    fn disconnected<M: Market<Notice>>(&mut self, market: &mut M);
    /// Takes a text of the connection.
    fn text<M: Market<Notice>>(&mut self, text: &[u8], now: u64, market: &mut M);
    /// Takes the body that a [`Want::Fetch`] of this path has brought.
    fn answer<M: Market<Notice>>(&mut self, _path: &str, _body: &[u8], _now: u64, _market: &mut M) {}
    /// A [`Want::Fetch`] of this path has brought nothing, and will not: each is answered or has failed, once, in the order in which they were
    /// wanted for one path. It is wanted again in its time.
    fn fetch_failed(&mut self, _path: &str) {}
    /// Whether somebody wants this product: it was named, or all are taken.
    fn is_wanted(&self, _book: BookId) -> bool {
        true
    }
    /// Takes a text that somebody else sent on a connection that was recorded: what it subscribes to is known from then on.
    fn recorded(&mut self, text: &[u8]);
    /// When [`WebVenue::on_timer`] wants to be called.
    fn timer(&self) -> Option<u64>;
    /// Does what is due.
    fn on_timer(&mut self, now: u64);
    /// What is to be done.
    fn poll(&mut self) -> Option<Want>;
    /// The number of a product's book.
    fn find(&self, name: &str) -> Option<BookId>;
    /// Products in the order of their numbers.
    fn names(&self) -> Vec<String>;
    /// How many products there are.
    fn count(&self) -> usize;
    /// Units of a book.
    fn scale(&self, book: BookId) -> Scale;
    /// Whether a book is the exchange's, as far as is known.
    fn is_good(&self, book: BookId) -> bool;
    /// The books.
    fn books(&self) -> &dyn WebBooks;
    /// Texts that came.
    fn messages(&self) -> u64;
    /// What was wrong.
    fn bad(&self) -> &Bad;
}

/// Texts of a venue, whose books are by price.
pub trait Protocol: Default {
    /// Silence of so long is no connection, nanoseconds.
    const SILENCE: u64;
    /// What is said after half of that, so that there is an answer.
    const PROBE: Option<&'static str>;
    /// A subscription brings a snapshot; otherwise it is fetched.
    const HAS_SNAPSHOTS: bool;
    /// Texts that subscribe to all of these.
    fn subscribe(names: &[&str]) -> Vec<String>;
    /// What brings the book of one from its beginning.
    fn again(name: &str) -> Vec<Want>;
    /// Names in a text that subscribes, of somebody else's.
    fn subscribed(text: &[u8]) -> Vec<String>;
    /// Takes a text; what is to be said at once.
    fn text<M: Market<Notice>>(
        &mut self,
        products: &mut Products,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) -> Option<String>;
    /// Takes what was fetched.
    fn answer<M: Market<Notice>>(
        &mut self,
        _products: &mut Products,
        _path: &str,
        _body: &[u8],
        _now: u64,
        _market: &mut M,
    ) {
    }
    /// The connection is gone: what was kept of it is void.
    fn forget(&mut self) {}
}

/// A connection of a protocol with its products.
#[derive(Debug)]
pub struct Web<P> {
    protocol: P,
    products: Products,
    is_connected: bool,
    heard: u64,
    is_probed: bool,
    wants: VecDeque<Want>,
    messages: u64,
}

impl<P: Protocol> Web<P> {
    /// The products to take; all that the texts tell of, if there are none.
    pub fn new(names: &[String]) -> Self {
        Self {
            protocol: P::default(),
            products: Products::new(names),
            is_connected: false,
            heard: 0,
            is_probed: false,
            wants: VecDeque::new(),
            messages: 0,
        }
    }

    /// The book of a product.
    pub fn book(&self, book: BookId) -> Option<&PriceBook> {
        self.products.book(book.0 as usize)
    }

    fn ask(&mut self) {
        while let Some(at) = self.products.next_asked() {
            self.wants.extend(P::again(self.products.name(at)));
        }
    }
}

impl WebBooks for Products {
    fn best(&self, book: BookId, side: Side) -> Option<Level> {
        self.book(book.0 as usize)?.levels(side).next()
    }

    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        self.book(book.0 as usize)?.level(side, price)
    }

    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        Box::new(self.book(book.0 as usize).into_iter().flat_map(move |book| book.levels(side)))
    }
}

impl<P: Protocol> WebVenue for Web<P> {
    fn connected(&mut self, now: u64) {
        (self.is_connected, self.heard, self.is_probed) = (true, now, false);
        self.wants.clear();
        let names: Vec<&str> = self.products.names().collect();
        self.wants.extend(P::subscribe(&names).into_iter().map(Want::Say));
        self.products.connected(now, P::HAS_SNAPSHOTS);
    }

    fn disconnected<M: Market<Notice>>(&mut self, market: &mut M) {
        self.is_connected = false;
        self.wants.clear();
        self.protocol.forget();
        self.products.disconnected(market);
    }

    fn text<M: Market<Notice>>(&mut self, text: &[u8], now: u64, market: &mut M) {
        (self.heard, self.is_probed) = (now, false);
        self.messages += 1;
        let said = self.protocol.text(&mut self.products, text, now, market);
        self.wants.extend(said.map(Want::Say));
        self.ask();
    }

    fn answer<M: Market<Notice>>(&mut self, path: &str, body: &[u8], now: u64, market: &mut M) {
        self.protocol.answer(&mut self.products, path, body, now, market);
        self.ask();
    }

    fn recorded(&mut self, text: &[u8]) {
        for name in P::subscribed(text) {
            let _number = self.products.find(&name);
        }
    }

    fn timer(&self) -> Option<u64> {
        let silence = if P::PROBE.is_some() && !self.is_probed { P::SILENCE / 2 } else { P::SILENCE };
        let silence = self.heard.saturating_add(silence);
        self.is_connected.then(|| self.products.timer().map_or(silence, |at| at.min(silence)))
    }

    fn on_timer(&mut self, now: u64) {
        if !self.is_connected {
            return;
        }
        if now >= self.heard.saturating_add(P::SILENCE) {
            // Said once: the answer is the end of this connection.
            (self.heard, self.is_probed) = (now, false);
            self.wants.push_back(Want::Reconnect);
            return;
        }
        if let (false, Some(probe)) = (self.is_probed || now < self.heard.saturating_add(P::SILENCE / 2), P::PROBE) {
            self.is_probed = true;
            self.wants.push_back(Want::Say(probe.to_owned()));
        }
        self.products.on_timer(now);
        self.ask();
    }

    fn poll(&mut self) -> Option<Want> {
        self.wants.pop_front()
    }

    fn find(&self, name: &str) -> Option<BookId> {
        self.products.names().position(|known| known == name).map(|at| BookId(at as u32))
    }

    fn names(&self) -> Vec<String> {
        self.products.names().map(str::to_owned).collect()
    }

    fn count(&self) -> usize {
        self.products.count()
    }

    fn scale(&self, book: BookId) -> Scale {
        self.products.scale(book.0 as usize)
    }

    fn is_good(&self, book: BookId) -> bool {
        self.products.is_good(book.0 as usize)
    }

    fn books(&self) -> &dyn WebBooks {
        &self.products
    }

    fn messages(&self) -> u64 {
        self.messages
    }

    fn bad(&self) -> &Bad {
        &self.products.bad
    }
}
