//! A venue's connection as a state machine, whatever its protocol.

use std::collections::VecDeque;

use market::{BookId, ByPrice, ReadBooks};

use super::notice::{Bad, Notice, Scale, Want};
use super::products::Products;
use crate::market_events::Market;

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
    fn books(&self) -> &dyn ReadBooks;
    /// Texts that came.
    fn messages(&self) -> u64;
    /// What was wrong.
    fn bad(&self) -> &Bad;
}

/// Texts of a venue, whose books are by price.
pub trait Protocol: Default {
    /// What the venue's books may be.
    type Rules: ByPrice;
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
        products: &mut Products<Self::Rules>,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) -> Option<String>;
    /// Takes what was fetched.
    fn answer<M: Market<Notice>>(
        &mut self,
        _products: &mut Products<Self::Rules>,
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
pub struct Web<P: Protocol> {
    protocol: P,
    products: Products<P::Rules>,
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

    fn ask(&mut self) {
        while let Some(at) = self.products.next_asked() {
            self.wants.extend(P::again(self.products.name(at)));
        }
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

    fn books(&self) -> &dyn ReadBooks {
        self.products.books()
    }

    fn messages(&self) -> u64 {
        self.messages
    }

    fn bad(&self) -> &Bad {
        &self.products.bad
    }
}
