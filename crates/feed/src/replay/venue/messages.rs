//! Effects of a venue's messages on its books and items, wherever they come from: a file, a capture or the network.

use market::{BookId, Event, Events, ReadBooks, Refused};
use venue::sequence::Change;
use venue::{Market, Trade};

use super::board::Board;
use super::values::Print;

/// A venue's messages, applied one by one.
pub(super) trait Messages {
    /// A session begins at this time (nanoseconds since 1970): venues whose messages do not have their date count from its day.
    fn set_date(&mut self, _wall: u64) {}

    /// When a message was sent, nanoseconds since 1970.
    fn time(&self, message: &[u8]) -> Option<u64>;

    /// Brings near what the messages that come next will touch. Nothing changes.
    fn look_ahead(&mut self, _messages: &mut dyn Iterator<Item = &[u8]>) {}

    /// Applies a message of that time, and settles the books that are fit to be published.
    fn apply(&mut self, message: &[u8], at: u64, board: &mut Board);

    /// Applies what became of the stream, and settles.
    fn change(&mut self, change: &Change, board: &mut Board);

    /// Empties all books: a snapshot follows.
    fn clear(&mut self, _board: &mut Board) {}

    /// A message is of an order, a quote or a trade: what the venue tells of instruments came before.
    fn is_traffic(&self, message: &[u8]) -> bool;

    /// The books.
    fn books(&self) -> &dyn ReadBooks;

    /// Messages that could be read.
    fn count(&self) -> u64;

    /// What was wrong, by kind, with how often.
    fn bad(&self) -> Vec<(String, u64)>;
}

/// What a venue says that is neither book nor trade, and how it becomes values.
pub(super) trait Notices<N> {
    /// A notice of the venue.
    fn notice(&mut self, board: &mut Board, book: Option<BookId>, notice: &N);

    /// A trade of an item has been told.
    fn traded(&mut self, _board: &mut Board, _item: u32, _trade: &Trade) {}
}

/// Takes what a venue's handler tells.
pub(super) struct ToBoard<'a, T> {
    pub board: &'a mut Board,
    pub notices: &'a mut T,
}

impl<T> Events for ToBoard<'_, T> {
    const WANTS_RANK: bool = false;

    #[inline]
    fn event(&mut self, book: BookId, event: &Event) {
        self.board.event(book, event);
    }
}

impl<N, T: Notices<N>> Market<N> for ToBoard<'_, T> {
    fn trade(&mut self, book: BookId, trade: &Trade) {
        let Some(item) = self.board.of_book(book) else { return };
        let Trade { number, price, size, aggressor, is_eligible, .. } = *trade;
        let at = self.board.now();
        self.board.trade(item, Print { number, price, size, at, aggressor, is_eligible });
        self.notices.traded(self.board, item, trade);
    }

    fn broken(&mut self, book: BookId, trade: &Trade) {
        if let Some(item) = self.board.of_book(book) {
            self.board.break_trade(item, trade.number);
        }
    }

    fn notice(&mut self, book: Option<BookId>, notice: &N) {
        self.notices.notice(self.board, book, notice);
    }

    fn doubt(&mut self, book: BookId, why: &Refused) {
        self.board.doubt_book(book, &format!("messages were lost: {why}"));
    }
}
