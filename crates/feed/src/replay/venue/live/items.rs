//! The items of a feed from the network, which all feeds have in common.

use market::ReadBooks;
use rwf::DataState;

use super::{Clock, LiveFigures};
use crate::replay::venue::board::Board;
use crate::{Event, InstrumentId, Model};

/// Items of a feed and its books, for reading.
pub struct FeedItems<'a> {
    pub(super) board: &'a Board,
    pub(super) books: &'a dyn ReadBooks,
}

/// Items of a feed, to be watched and told.
pub struct FeedItemsMut<'a>(pub(super) &'a mut Board);

/// A feed from the network, whatever comes by it: what a [`MarketSource`](crate::MarketSource) around it gives on.
pub trait LiveItems {
    /// The items.
    fn items(&self) -> FeedItems<'_>;
    /// The items, to be changed.
    fn items_mut(&mut self) -> FeedItemsMut<'_>;
    /// When [`LiveItems::on_timer`] wants to be called.
    fn timer(&self) -> Option<u64>;
    /// Does what is due.
    fn on_timer(&mut self, clock: Clock);
    /// The list of the venue's instruments has come: the service is up, and names that are not known do not exist.
    fn is_ready(&self) -> bool;
    /// Figures so far.
    fn figures(&self) -> LiveFigures;

    /// Names that are not known may be told of later: the venue has no list of its instruments.
    fn may_come(&self) -> bool {
        false
    }

    /// Why the server refuses the login, as long as it does.
    fn rejection(&self) -> Option<String> {
        None
    }

    /// The instrument of a name.
    fn find(&self, name: &str) -> Option<InstrumentId> {
        self.items().board.find(name).map(InstrumentId)
    }

    /// Whether there is such a model of the feed's instruments.
    fn offers(&self, model: Model) -> bool {
        self.items().board.models().contains(&model)
    }

    /// Appends a part of an image, see [`crate::MarketSource::image`].
    fn image(&self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        let FeedItems { board, books } = self.items();
        board.image(id.0, model, part, books, out)
    }

    /// Whether what an image shows is good.
    fn data_state(&self, id: InstrumentId) -> DataState {
        self.items().board.data_state(id.0)
    }

    /// Starts or stops the events of a model of an instrument.
    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        self.items_mut().0.watch(id.0, model, on);
    }

    /// Names that the venue has told of.
    fn symbols(&self) -> Vec<String> {
        self.items().board.names().map(str::to_owned).collect()
    }

    /// Gives what consumers are to be told; returns how much that was.
    fn flush(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        self.items_mut().0.flush(sink)
    }
}
