//! A venue on the web as it comes from the network, as a market source without sockets: texts of its WebSocket and bodies of its HTTP server in; items,
//! texts and fetches out.
//!
//! A connection that ends, is refused or goes silent is dialled again after 1, 2, ... 30 s; one that stood for ten seconds begins that anew. From its end
//! until a product's book has begun again, that product is Suspect.

use std::collections::VecDeque;
use std::sync::Arc;

use venue::sequence::Counts;
use venue::web::Want;

use super::super::board::Board;
use super::super::web::{At, FACTS, WebItems};
use super::super::{Symbology, WebKind};
use super::items::{FeedItems, FeedItemsMut, LiveItems};
use super::{Clock, LiveFigures, Times};

const SECOND: u64 = 1_000_000_000;
/// A server that has not answered for so long is dialled again.
const ANSWER: u64 = 10 * SECOND;
/// Between two attempts at first, and at most.
const FIRST_RETRY: u64 = SECOND;
const LONGEST_RETRY: u64 = 30 * SECOND;
/// A connection that stood for so long was a good one: the next attempt comes soon.
const STEADY: u64 = 10 * SECOND;
/// Fetches that are under way at a time: exchanges count them.
const MOST_FETCHES: usize = 4;
/// A body that has not come by then is given up.
const FETCH: u64 = 20 * SECOND;

/// How a venue on the web is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebConfig {
    /// Whose texts these are.
    pub kind: WebKind,
    /// The products, by the venue's names; at least one.
    pub products: Vec<String>,
    /// Behind each symbol; `None`: nothing.
    pub suffix: Option<String>,
    /// Names of symbols, where they are others than the venue's.
    pub symbology: Option<Arc<Symbology>>,
}

/// What a venue on the web wants of the network. Each is to be done once, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebWant {
    /// The WebSocket: [`WebFeed::connected`] or [`WebFeed::disconnected`] is to follow.
    Dial,
    /// A text for it.
    Say(String),
    /// It is to be closed, or given up; nothing of it is wanted any more, not even its end. Nor is any fetch that is under way.
    HangUp,
    /// A path with its query, to be got from the HTTP server: [`WebFeed::fetched`] with this number is to follow.
    Fetch {
        /// Whose answer it is.
        number: u64,
        /// Path and query.
        path: String,
    },
    /// That fetch is not wanted any more, nor its end.
    GiveUp {
        /// The fetch.
        number: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To be dialled then.
    Due(u64),
    /// Dialled; to be given up then.
    Dialled(u64),
    /// It has stood since then.
    Up(u64),
}

struct Fetch {
    number: u64,
    path: String,
    give_up_at: u64,
}

/// A venue on the web.
pub struct WebFeed {
    board: Board,
    items: Box<dyn WebItems>,
    stage: Stage,
    retry: u64,
    dials: u64,
    requests: u64,
    times: Times,
    is_ready: bool,
    wants: VecDeque<WebWant>,
    /// Paths that wait for their turn: one of each product at most is wanted at a time.
    paths: VecDeque<String>,
    fetches: Vec<Fetch>,
    next_fetch: u64,
    failed_fetches: u64,
}

impl WebFeed {
    /// A feed of which nothing has come.
    pub fn new(config: &WebConfig, clock: Clock) -> Self {
        let WebConfig { kind, products, suffix, symbology } = config;
        let mut board = Board::new(FACTS, kind.models(), suffix.as_deref().unwrap_or_default());
        board.set_symbology(symbology.clone());
        let mut items = kind.items(products);
        items.name_all(&mut board);
        Self {
            board,
            items,
            stage: Stage::Due(clock.now),
            retry: FIRST_RETRY,
            dials: 0,
            requests: 0,
            times: Times::default(),
            is_ready: false,
            wants: VecDeque::new(),
            paths: VecDeque::new(),
            fetches: Vec::new(),
            next_fetch: 0,
            failed_fetches: 0,
        }
    }

    /// The connection that was asked for stands.
    pub fn connected(&mut self, clock: Clock) {
        self.stage = Stage::Up(clock.now);
        self.items.connected(clock.now);
        self.settle(clock);
    }

    /// The connection is gone, or could not be had.
    pub fn disconnected(&mut self, clock: Clock) {
        if !matches!(self.stage, Stage::Due(_)) {
            self.end(clock);
        }
    }

    /// Takes a text of the connection.
    pub fn text(&mut self, text: &[u8], clock: Clock) {
        if !matches!(self.stage, Stage::Up(_)) {
            // The rest of a connection that was given up.
            return;
        }
        if let Some(told_at) = self.items.text(text, at(clock), &mut self.board) {
            self.times.add(told_at, clock.wall);
        }
        // The venue speaks: what it does not have of the products is told by each one's state.
        self.is_ready = true;
        self.settle(clock);
    }

    /// Takes what a fetch has brought; `None`: nothing. The answer of one that was given up is passed over.
    pub fn fetched(&mut self, number: u64, body: Option<&[u8]>, clock: Clock) {
        let Some(place) = self.fetches.iter().position(|fetch| fetch.number == number) else { return };
        let fetch = self.fetches.remove(place);
        match body {
            Some(body) => self.items.answer(&fetch.path, body, at(clock), &mut self.board),
            None => self.fail(&fetch.path),
        }
        self.settle(clock);
    }

    /// What is to be done.
    pub fn poll(&mut self) -> Option<WebWant> {
        self.wants.pop_front()
    }

    /// The connection is over: nothing of it counts any more.
    fn end(&mut self, clock: Clock) {
        if matches!(self.stage, Stage::Up(since) if clock.now.saturating_sub(since) >= STEADY) {
            self.retry = FIRST_RETRY;
        }
        self.stage = Stage::Due(clock.now + self.retry);
        self.retry = (self.retry * 2).min(LONGEST_RETRY);
        self.wants.retain(|want| !matches!(want, WebWant::Say(_) | WebWant::Fetch { .. } | WebWant::Dial));
        for fetch in std::mem::take(&mut self.fetches) {
            self.wants.push_back(WebWant::GiveUp { number: fetch.number });
            self.items.fetch_failed(&fetch.path);
        }
        for path in std::mem::take(&mut self.paths) {
            self.items.fetch_failed(&path);
        }
        self.items.disconnected(at(clock), &mut self.board);
    }

    /// What is wanted again is not wanted as it was: an older answer may be of before what was lost since.
    fn replace_fetch(&mut self, path: &str) {
        if let Some(place) = self.fetches.iter().position(|fetch| fetch.path == path) {
            let fetch = self.fetches.remove(place);
            self.wants.push_back(WebWant::GiveUp { number: fetch.number });
            self.fail(path);
        } else if let Some(place) = self.paths.iter().position(|waiting| waiting == path) {
            self.paths.remove(place);
            self.items.fetch_failed(path);
        }
    }

    fn fail(&mut self, path: &str) {
        self.failed_fetches += 1;
        self.items.fetch_failed(path);
    }

    /// What follows from what has come.
    fn settle(&mut self, clock: Clock) {
        while let Some(want) = self.items.poll() {
            match want {
                Want::Say(text) => {
                    self.requests += 1;
                    self.wants.push_back(WebWant::Say(text));
                }
                Want::Fetch(path) => {
                    self.replace_fetch(&path);
                    self.paths.push_back(path);
                }
                Want::Reconnect => {
                    self.end(clock);
                    self.wants.push_back(WebWant::HangUp);
                }
            }
        }
        while self.fetches.len() < MOST_FETCHES
            && let Some(path) = self.paths.pop_front()
        {
            self.requests += 1;
            let number = self.next_fetch;
            self.next_fetch += 1;
            self.wants.push_back(WebWant::Fetch { number, path: path.clone() });
            self.fetches.push(Fetch { number, path, give_up_at: clock.now + FETCH });
        }
    }
}

fn at(clock: Clock) -> At {
    At { now: clock.now, wall: clock.wall }
}

impl LiveItems for WebFeed {
    fn items(&self) -> FeedItems<'_> {
        FeedItems { board: &self.board, books: self.items.books() }
    }

    fn items_mut(&mut self) -> FeedItemsMut<'_> {
        FeedItemsMut(&mut self.board)
    }

    fn timer(&self) -> Option<u64> {
        let stage = match self.stage {
            Stage::Due(at) | Stage::Dialled(at) => Some(at),
            Stage::Up(_) => self.items.timer(),
        };
        stage.into_iter().chain(self.fetches.iter().map(|fetch| fetch.give_up_at)).min()
    }

    fn on_timer(&mut self, clock: Clock) {
        while let Some(place) = self.fetches.iter().position(|fetch| fetch.give_up_at <= clock.now) {
            let fetch = self.fetches.remove(place);
            self.wants.push_back(WebWant::GiveUp { number: fetch.number });
            self.fail(&fetch.path);
        }
        match self.stage {
            Stage::Due(at) if at <= clock.now => {
                self.stage = Stage::Dialled(clock.now + ANSWER);
                self.dials += 1;
                self.wants.push_back(WebWant::Dial);
            }
            Stage::Dialled(at) if at <= clock.now => {
                self.end(clock);
                self.wants.push_back(WebWant::HangUp);
            }
            Stage::Up(_) => self.items.on_timer(clock.now),
            _ => {}
        }
        self.settle(clock);
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn figures(&self) -> LiveFigures {
        let (products, good) = self.items.good();
        let (gaps, repairs) = self.items.doubts();
        let failed = ("fetches that brought nothing".to_owned(), self.failed_fetches);
        let bad = self.items.bad().into_iter().chain([failed]).filter(|(_, count)| *count > 0);
        LiveFigures {
            messages: self.items.messages(),
            stream: Counts { gaps, repairs, requests: self.requests, ..Counts::default() },
            dials: self.dials,
            books: products as u64,
            latency_median_ns: self.times.percentile(50),
            latency_p99_ns: self.times.percentile(99),
            latency_max_ns: self.times.max,
            early: self.times.early,
            is_in_doubt: good < products,
            bad: bad.collect(),
            ..LiveFigures::default()
        }
    }
}
