//! A channel of CME MDP 3.0 as it comes from the network, as a market source without sockets: packets in, items out, and which feeds are wanted.
//!
//! Definitions come first: nothing of the lines is taken until all instruments are known, so that each has its name. Then snapshots make their books whole,
//! one by one; the feeds that repeat them are wanted again whenever a book waits for one.

use std::sync::Arc;

use venue::cme::CmeChannel;
pub use venue::cme::{Channel as CmeChannelFile, FeedType as CmeFeedType, Schema as CmeSchema};
use venue::lines::LINES;
use venue::sequence::Limits;

use super::super::board::Board;
use super::super::cme_items::{CmeItems, FACTS};
use super::super::input::LIMITS;
use super::super::web::At;
use super::super::{Symbology, cme};
use super::items::{FeedItems, FeedItemsMut, LiveItems};
use super::{Clock, LiveFigures, Times};
use crate::Model;

/// How a channel is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmeConfig {
    /// Behind each symbol; `None`: nothing.
    pub suffix: Option<String>,
    /// Names of symbols, where they are others than the exchange's.
    pub symbology: Option<Arc<Symbology>>,
    /// There are snapshots by order: books by order are kept.
    pub has_orders: bool,
}

/// What a packet came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmeWay {
    /// A line of the incremental feed: A is 0, B is 1.
    Line(u8),
    /// The feed of definitions, of either line.
    Definitions,
    /// A feed of snapshots, of either line.
    Snapshots,
}

/// A channel of CME MDP 3.0.
pub struct CmeFeed {
    board: Board,
    items: CmeItems,
    times: Times,
    is_defined: bool,
    /// How often the definitions' first packet has come, of any line.
    beginnings: u8,
}

/// Lines of the feed of definitions, A and B.
const LINES_OF_DEFINITIONS: u8 = 2;

const ALL: &[Model] = &[Model::Price, Model::ByOrder, Model::ByPrice];
const WITHOUT_ORDERS: &[Model] = &[Model::Price, Model::ByPrice];

impl CmeFeed {
    /// A channel of which nothing has come.
    pub fn new(schema: CmeSchema, config: &CmeConfig) -> Self {
        let CmeConfig { suffix, symbology, has_orders } = config;
        let models = if *has_orders { ALL } else { WITHOUT_ORDERS };
        let mut board = Board::new(FACTS, models, suffix.as_deref().unwrap_or_default());
        board.set_symbology(symbology.clone());
        let limits: Limits = LIMITS;
        Self {
            board,
            items: CmeItems::new(CmeChannel::new(schema, limits), std::collections::HashMap::new(), *has_orders),
            times: Times::default(),
            is_defined: false,
            beginnings: 0,
        }
    }

    /// Reads the exchange's schema from its file.
    ///
    /// # Errors
    /// It cannot be read, or is none; the text names the file.
    pub fn schema(path: &std::path::Path) -> std::io::Result<CmeSchema> {
        cme::schema(path)
    }

    /// Takes a packet.
    pub fn packet(&mut self, way: CmeWay, packet: &[u8], clock: Clock) {
        let at = At { now: clock.now, wall: clock.wall };
        match way {
            CmeWay::Line(line) if self.is_defined => {
                if let Some(sent) = packet.get(4..12).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes) {
                    self.times.add(sent, clock.wall);
                }
                self.items.incremental(line, packet, at, &mut self.board);
            }
            CmeWay::Snapshots if self.is_defined => self.items.recovery(packet, at, &mut self.board),
            CmeWay::Definitions => self.definitions(packet, at),
            // Whose they are is not known yet.
            CmeWay::Line(_) | CmeWay::Snapshots => {}
        }
    }

    fn definitions(&mut self, packet: &[u8], at: At) {
        self.items.recovery(packet, at, &mut self.board);
        let number = packet.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        // Both lines begin anew each time around, so that a third beginning is behind a whole turn.
        self.beginnings = self.beginnings.saturating_add(u8::from(number == 1));
        let (defined, total) = self.items.defined();
        self.is_defined |= match total {
            Some(total) => defined >= total && defined > 0,
            // The schema does not tell how many there are: once around.
            None => self.beginnings > LINES_OF_DEFINITIONS && defined > 0,
        };
    }

    /// Definitions are wanted: not all instruments are known.
    pub fn wants_definitions(&self) -> bool {
        !self.is_defined
    }

    /// Snapshots are wanted: a book waits for one.
    pub fn wants_snapshots(&self) -> bool {
        self.is_defined && self.items.channel().is_recovering()
    }
}

impl LiveItems for CmeFeed {
    fn items(&self) -> FeedItems<'_> {
        FeedItems { board: &self.board, books: &self.items }
    }

    fn items_mut(&mut self) -> FeedItemsMut<'_> {
        FeedItemsMut(&mut self.board)
    }

    fn timer(&self) -> Option<u64> {
        self.items.timer()
    }

    fn on_timer(&mut self, clock: Clock) {
        self.items.on_timer(At { now: clock.now, wall: clock.wall }, &mut self.board);
    }

    fn is_ready(&self) -> bool {
        self.is_defined
    }

    fn figures(&self) -> LiveFigures {
        let channel = self.items.channel();
        let bad = self.items.bad().into_iter().filter(|(_, count)| *count > 0).collect();
        LiveFigures {
            messages: self.items.packets(),
            stream: venue::sequence::Counts { requests: 0, ..*channel.counts() },
            lines: (0..LINES as u8).map(|line| channel.line(line)).collect(),
            books: self.board.names().count() as u64,
            latency_median_ns: self.times.percentile(50),
            latency_p99_ns: self.times.percentile(99),
            latency_max_ns: self.times.max,
            early: self.times.early,
            is_in_doubt: !self.is_defined || channel.is_recovering() || channel.timer().is_some(),
            bad,
            ..LiveFigures::default()
        }
    }
}
