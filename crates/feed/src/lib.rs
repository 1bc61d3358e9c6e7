//! Where market data comes from: a market made of nothing, or a recorded one.
//!
//! A [`MarketSource`] knows instruments by name, gives the image of each, and tells what happens as time goes by; it knows
//! nothing of sessions, streams or sockets. [`provider`] is the interactive provider in front of it.
#![forbid(unsafe_code)]

pub mod book;
pub mod chains;
pub mod composite;
pub mod datafile;
pub mod fields;
pub mod generator;
pub mod image;
pub mod instrument;
pub mod levels;
pub mod lines;
pub mod new_york;
pub mod pace;
pub mod provider;
pub mod random;
pub mod record;
pub mod recording;
pub mod records;
pub mod replay;
pub mod session;
pub mod shift;

use rwf::DataState;
use session::Nanos;

/// An instrument of a source: dense from 0, in the order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstrumentId(pub u32);

/// A domain model that a source can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// `MarketPrice`.
    Price,
    /// `MarketByOrder`.
    ByOrder,
    /// `MarketByPrice`.
    ByPrice,
    /// `SymbolList`.
    SymbolList,
}

/// Why an update is sent; the update type of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// 0: none of the others.
    Unspecified = 0,
    /// 1: best prices or sizes.
    Quote = 1,
    /// 2: a trade.
    Trade = 2,
    /// 6: the last values of a trading day.
    ClosingRun = 6,
    /// 7: an earlier value was wrong.
    Correction = 7,
}

/// The type of an event's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The payload of an update.
    Update(UpdateKind),
    /// The payload of an update whose type was recorded: a number of RDM's update types.
    Typed(u8),
    /// Not a payload, but a whole status message: the item's state changed.
    Status,
    /// A whole image that replaces what went before (a new trading day): an unsolicited refresh with a cleared cache.
    NewImage,
    /// A part of such an image, of a book that is too large for one message. The first part clears what went before.
    ImagePart {
        /// Number of the part, from 0.
        part: u16,
        /// Another part follows.
        more: bool,
        /// Whether what it shows is good.
        data: DataState,
    },
}

/// Something happened to an instrument.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Which one.
    pub instrument: InstrumentId,
    /// Of which model the body is.
    pub model: Model,
    /// The type of the body.
    pub payload: Payload,
    /// The message payload: a field list for `Price`, a map for the books.
    pub body: &'a [u8],
}

/// Something that publishes a market. Times are nanoseconds of the caller's clock; the source starts at 0 and never goes back.
pub trait MarketSource {
    /// The instrument of `name`, or `None` when there is none.
    fn find(&mut self, name: &str) -> Option<InstrumentId>;

    /// Whether the source has `model` for this instrument.
    fn offers(&self, id: InstrumentId, model: Model) -> bool;

    /// Appends part `part` (from 0) of the image to `out`; true when another part follows.
    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool;

    /// Whether what [`Self::image`] gives is good: not when what came after it is not known.
    fn data_state(&self, _id: InstrumentId, _model: Model) -> DataState {
        DataState::OK
    }

    /// Starts or stops the events of a model of an instrument.
    fn watch(&mut self, id: InstrumentId, model: Model, on: bool);

    /// When something will be due; `None` when nothing is watched or nothing will happen.
    fn due(&self) -> Option<Nanos>;

    /// Names worth knowing: what a symbol list shows.
    fn symbols(&self) -> Vec<String>;

    /// Tells what happened until `now`, in order, but about `limit` events at most.
    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>));

    /// Events are not known in advance, and have to be taken in even while nobody is connected.
    fn is_live(&self) -> bool {
        false
    }

    /// The items to serve are known; before that the service is down.
    fn is_ready(&self) -> bool {
        true
    }

    /// A name that is not found may be there later: whoever asks for it is to ask again.
    fn may_come(&self, _name: &str) -> bool {
        false
    }

    /// Losses, for people; `None` when nothing was lost.
    fn remarks(&self) -> Option<String> {
        None
    }

    /// Files that could not be read so far, for people: one is cut off or damaged. `None` while all could be.
    fn unread(&self) -> Option<String> {
        None
    }
}
