//! TotalView-ITCH from multicast lines: packets in, books and what is told of them out; requests for what is missing; snapshots by GLIMPSE.

use super::itch::Message;
use super::mold::{HEADER, Join, Line, MoldReceiver};
use super::soup::digits;
use super::totalview::TotalView;
use crate::market_events::Market;
use crate::sequence::{Change, Limits, Receiver, Stale};

/// A channel of TotalView-ITCH over `MoldUDP64`.
///
/// Gap and repair are told by [`Market::change`] between the messages to which they apply: from [`Change::Gap`] to [`Change::Repaired`] or
/// [`Change::Resumed`] every book of the channel is in doubt, since a missing message may be of any order.
#[derive(Debug)]
pub struct ItchFeed<const QUEUED: bool = true> {
    mold: MoldReceiver,
    day: TotalView<QUEUED>,
    takes_snapshot: bool,
}

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// More messages belong to it.
    More,
    /// The snapshot is whole and in place.
    Done,
}

/// Applies messages, and tells of changes, in the order in which the lines bring them.
struct ToDay<'a, M, const QUEUED: bool> {
    day: &'a mut TotalView<QUEUED>,
    market: &'a mut M,
}

impl<M: Market<Message>, const QUEUED: bool> Receiver for ToDay<'_, M, QUEUED> {
    #[inline]
    fn message(&mut self, _number: u64, message: &[u8]) {
        // A message that cannot be read has been counted by its kind.
        let _unreadable = self.day.apply(message, self.market);
    }

    fn change(&mut self, change: &Change) {
        if matches!(change, Change::Session { .. }) {
            self.day.begin(self.market);
        }
        self.market.change(change);
    }
}

impl<const QUEUED: bool> ItchFeed<QUEUED> {
    /// A channel of which nothing has come.
    pub fn new(join: Join, limits: Limits) -> Self {
        Self { mold: MoldReceiver::new(join, limits), day: TotalView::default(), takes_snapshot: false }
    }

    /// Takes a packet of a line at time `now` (nanoseconds, never falling).
    pub fn receive<M: Market<Message>>(&mut self, line: Line, packet: &[u8], now: u64, market: &mut M) {
        self.mold.receive(line, packet, now, &mut ToDay { day: &mut self.day, market });
    }

    /// When [`ItchFeed::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<u64> {
        self.mold.timer()
    }

    /// Tells and asks for what is missing, or gives it up.
    pub fn on_timer<M: Market<Message>>(&mut self, now: u64, market: &mut M) {
        self.mold.on_timer(now, &mut ToDay { day: &mut self.day, market });
    }

    /// A request to be sent to the re-request server.
    pub fn poll_request(&mut self) -> Option<[u8; HEADER]> {
        self.mold.poll_request()
    }

    /// Begins a snapshot: the books are emptied, and what the lines bring is held. To be called when messages were [lost](Change::Lost), or at
    /// the start of a feed that [joins live](Join::Live).
    pub fn begin_snapshot<M: Market<Message>>(&mut self, market: &mut M) {
        if !self.mold.is_in_doubt() {
            let next = self.mold.next();
            market.change(&Change::Gap { missing: next..next });
        }
        self.mold.pause();
        self.takes_snapshot = true;
        self.day.clear_books(market);
    }

    /// Takes a message of the GLIMPSE session, which tells the live orders as messages of ITCH and then the number at which to go on.
    ///
    /// # Errors
    /// The snapshot is older than what has been given on: begin another.
    pub fn snapshot_message<M: Market<Message>>(
        &mut self,
        message: &[u8],
        now: u64,
        market: &mut M,
    ) -> Result<Snapshot, Stale> {
        let Some(next) = end_of_snapshot(message).filter(|_| self.takes_snapshot) else {
            if self.takes_snapshot {
                let _unreadable = self.day.apply(message, market);
            }
            return Ok(Snapshot::More);
        };
        self.mold.resume(next, now, &mut ToDay { day: &mut self.day, market })?;
        self.takes_snapshot = false;
        Ok(Snapshot::Done)
    }

    /// Messages are missing or were, or a snapshot is being taken: no book is regular.
    pub fn is_in_doubt(&self) -> bool {
        self.takes_snapshot || self.mold.is_in_doubt()
    }

    /// The day: stocks, books, counters.
    pub fn day(&self) -> &TotalView<QUEUED> {
        &self.day
    }

    /// The lines: counters of packets and messages.
    pub fn mold(&self) -> &MoldReceiver {
        &self.mold
    }
}

/// The number at which to go on, if a message of GLIMPSE 5.0 is the end of its snapshot: type G and twenty digits.
pub fn end_of_snapshot(message: &[u8]) -> Option<u64> {
    let (code, rest) = message.split_first()?;
    digits(rest.get(..20)?).filter(|_| *code == b'G')
}
