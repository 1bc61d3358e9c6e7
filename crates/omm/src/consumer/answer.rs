//! What a refresh or status means for the stream of an item, and the least that anyone who has items keeps of each.
//!
//! | phase of an [`ItemStream`] | left by |
//! |---|---|
//! | closed: not asked for on this connection | [`ItemStream::ask`]: asked |
//! | asked: the image is awaited | image whole: live; final state: refused |
//! | live: the whole image is in | final state: lost |
//! | refused, lost | image whole: live; the loss of the connection: closed |
//!
//! A [`super::Consumer`] recovers its items, and so has more phases; answers mean the same to it.

use rwf::State;
use rwf::msg::{RefreshFlags, RefreshMsg, StatusMsg};

/// The meaning of a refresh or status for the stream on which it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer<'m> {
    /// A part of an image; further ones come.
    Part,
    /// The image is whole.
    Image,
    /// The stream goes on, perhaps in another state.
    State(Option<State<'m>>),
    /// The stream is over.
    Over(State<'m>),
}

impl<'m> Answer<'m> {
    /// Of a refresh.
    pub const fn of_refresh(refresh: &RefreshMsg<'m>) -> Self {
        if refresh.state.stream.is_final() {
            Self::Over(refresh.state)
        } else if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            Self::Image
        } else {
            Self::Part
        }
    }

    /// Of a status.
    pub const fn of_status(status: &StatusMsg<'m>) -> Self {
        match status.state {
            Some(state) if state.stream.is_final() => Self::Over(state),
            state => Self::State(state),
        }
    }
}

/// The phase of an item's stream, in one byte: for whoever has many items and decides alone what becomes of those that end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ItemStream {
    /// Not asked for on this connection.
    #[default]
    Closed,
    /// The image is awaited.
    Asked,
    /// The image is whole.
    Live,
    /// The stream has ended before an image was whole.
    Refused,
    /// The stream has ended after an image was whole.
    Lost,
}

/// The meaning of an answer for an [`ItemStream`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing new: a part, another image, another state.
    None,
    /// The image that was awaited is whole.
    Imaged,
    /// The request was refused.
    Refused,
    /// The stream has ended.
    Lost,
    /// An answer on a stream that was not asked for, or has ended.
    Unexpected,
}

impl ItemStream {
    /// The item is asked for.
    pub fn ask(&mut self) {
        debug_assert_eq!(*self, Self::Closed, "an item is asked for once on a connection");
        *self = Self::Asked;
    }

    /// No message can carry the request: nobody was asked, and the item is refused all the same.
    pub fn refuse_unasked(&mut self) {
        debug_assert_eq!(*self, Self::Closed, "it was asked for");
        *self = Self::Refused;
    }

    /// The connection is gone.
    pub fn reset(&mut self) {
        *self = Self::Closed;
    }

    /// Whether an image was whole, so that updates can be applied.
    #[inline]
    pub const fn was_imaged(self) -> bool {
        matches!(self, Self::Live | Self::Lost)
    }

    /// An answer has come.
    pub fn answer(&mut self, answer: Answer<'_>) -> Change {
        let (next, change) = match (*self, answer) {
            (Self::Closed, _) => (Self::Closed, Change::Unexpected),
            (Self::Asked, Answer::Image) => (Self::Live, Change::Imaged),
            (Self::Asked, Answer::Over(_)) => (Self::Refused, Change::Refused),
            (Self::Live, Answer::Over(_)) => (Self::Lost, Change::Lost),
            (Self::Refused | Self::Lost, Answer::Image) => (Self::Live, Change::Unexpected),
            (Self::Refused | Self::Lost, Answer::Over(_) | Answer::Part) => (*self, Change::Unexpected),
            (same, Answer::Part | Answer::State(_) | Answer::Image) => (same, Change::None),
        };
        *self = next;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::msg::Domain;
    use rwf::{DataState, StateCode, StreamState};

    const CLOSED: State<'_> = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, "no such item");

    #[test]
    fn parts_come_before_the_image_and_a_final_state_wins() {
        let mut refresh = RefreshMsg::new(Domain::MARKET_PRICE, 5);
        assert_eq!(Answer::of_refresh(&refresh), Answer::Part);
        refresh.flags = RefreshFlags::REFRESH_COMPLETE;
        assert_eq!(Answer::of_refresh(&refresh), Answer::Image);
        refresh.state = CLOSED;
        assert_eq!(Answer::of_refresh(&refresh), Answer::Over(CLOSED));
        let mut status = StatusMsg::new(Domain::MARKET_PRICE, 5);
        assert_eq!(Answer::of_status(&status), Answer::State(None));
        status.state = Some(CLOSED);
        assert_eq!(Answer::of_status(&status), Answer::Over(CLOSED));
    }

    #[test]
    fn an_item_is_answered_once() {
        let mut item = ItemStream::default();
        assert_eq!((item.answer(Answer::Image), item), (Change::Unexpected, ItemStream::Closed));
        item.ask();
        assert_eq!((item.answer(Answer::Part), item.was_imaged()), (Change::None, false));
        assert_eq!((item.answer(Answer::Image), item.was_imaged()), (Change::Imaged, true));
        assert_eq!((item.answer(Answer::Image), item), (Change::None, ItemStream::Live));
        assert_eq!((item.answer(Answer::Over(CLOSED)), item.was_imaged()), (Change::Lost, true));
        assert_eq!((item.answer(Answer::Over(CLOSED)), item), (Change::Unexpected, ItemStream::Lost));
        item.reset();
        item.ask();
        assert_eq!((item.answer(Answer::Over(CLOSED)), item), (Change::Refused, ItemStream::Refused));
        assert_eq!(item.answer(Answer::State(None)), Change::None);
    }
}
