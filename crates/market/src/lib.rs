//! Order books: one structure for feeds, replay, caches and pages.
//!
//! * [`OrderBooks`]: all books of a channel under a venue's [`Rules`]: order by order with queue positions ([`ByOrder`]), by price ([`ByPrice`]) or by
//!   rank ([`ByRank`]). Levels are held, read and told in one way.
//! * [`DepthView`]: what changes for a subscriber of the best levels; [`consolidated`]: several books as one; [`best_quote`]: the best of several
//!   venues that have units of their own.
//! * [`Event`]: what a change did, given to whoever implements [`Events`].
//!
//! Prices and sizes are integers in the venue's smallest unit; how many decimals that has is the venue's handler's knowledge. A price may be
//! zero or negative: no rule takes one for "none". Crossed books are told ([`BookState`]), never repaired. Nothing here knows bytes, clocks or
//! names; what a venue says of an order that is not there is a [`Refused`], never a panic.
//!
//! ```
//! use market::{BookId, NasdaqItch, Order, OrderBooks, Side};
//!
//! let mut books = OrderBooks::<NasdaqItch>::default();
//! let book = BookId(7);
//! books.open(book);
//! for (reference, size) in [(1, 300), (2, 100)] {
//!     let order = Order { reference, side: Side::Bid, price: 1_001_500, size, priority: reference, owner: 0 };
//!     books.add(book, &order, &mut ())?;
//! }
//! books.fill(1, 200, &mut ())?;
//! let best = books.best(book, Side::Bid).expect("a bid");
//! assert_eq!((best.price, best.size, best.orders), (1_001_500, 200, 2));
//! assert_eq!(books.place(2).map(|place| place.size_ahead), Some(100));
//! # Ok::<(), market::Refused>(())
//! ```
//!
//! Sources of the rules: Nasdaq TotalView-ITCH 5.0; CME MDP 3.0 market by order and by price; Databento's MBO schema as recorded files
//! have it.

#![forbid(unsafe_code)]

mod books;
mod event;
mod index;
mod ladder;
mod prices;
mod rules;
mod slab;
mod view;

pub use books::{Ahead, Hint, OneBook, OrderBooks, Place, Rank, ReadBooks, Refused, Terms, UnknownLevel, WrongRank};
pub use event::{BookId, BookState, Cause, Event, Events, Level, LevelChange, Order, Side};
pub use rules::{
    ByOrder, ByPrice, ByRank, ClearRule, CmeLevels, CmeMdp, CrossedRule, DbnMbo, FillRule, IexDeep, KrakenLevels,
    NasdaqItch, Priority, Rules,
};
pub use view::{BestQuote, DepthView, Quote, best_quote, consolidated};
