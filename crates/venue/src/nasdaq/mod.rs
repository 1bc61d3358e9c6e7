//! Nasdaq TotalView-ITCH 5.0, over `MoldUDP64` (A and B lines, re-requests), `SoupBinTCP` 3.00, GLIMPSE 5.0 snapshots, and day files.
//!
//! ```
//! use venue::nasdaq::itch::{AddOrder, Message};
//! use venue::nasdaq::{DayFile, Text, TotalView};
//!
//! let order = AddOrder {
//!     locate: 1, tracking: 0, time: 34_200_000_000_000, order: 77, side: market::Side::Bid, shares: 100,
//!     stock: Text::new("ZVZZT"), price: 100_500,
//! };
//! let mut message = Vec::new();
//! Message::AddOrder(order).encode(&mut message);
//! let file = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
//!
//! let (mut day, mut reader) = (TotalView::<true>::default(), DayFile::new());
//! reader.read(&file, |message| day.apply(message, &mut ()).expect("a message"));
//! assert_eq!(day.books().best(market::BookId(1), market::Side::Bid).map(|level| level.size), Some(100));
//! ```

mod feed;
mod file;
pub mod itch;
mod layout;
pub mod mold;
pub mod soup;
mod totalview;
mod trades;

pub use feed::{ItchFeed, Snapshot, end_of_snapshot};
pub use file::DayFile;
pub use layout::Text;
pub use totalview::{Bad, Stock, TotalView};
