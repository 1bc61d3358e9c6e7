//! IEX: TOPS 1.6 (best quotes and trades) and DEEP 1.0 (price levels and trades) over IEX-TP.
//!
//! ```
//! use venue::iex::messages::{BuyLevel, EVENT_COMPLETE, Message};
//! use venue::iex::IexDay;
//! use venue::nasdaq::Text;
//!
//! let level = BuyLevel { flags: EVENT_COMPLETE, time: 0, symbol: Text::new("ZIEXT"), size: 300, price: 100_500 };
//! let mut bytes = Vec::new();
//! Message::BuyLevel(level).encode(&mut bytes);
//!
//! let mut day = IexDay::new();
//! day.apply(&bytes, &mut ()).expect("a message");
//! let book = day.number(Text::new("ZIEXT")).and_then(|number| day.book(number)).expect("its book");
//! assert_eq!(book.levels(market::Side::Bid).next().map(|level| level.size), Some(300));
//! ```

mod day;
mod layout;
pub mod messages;
pub mod tp;

pub use day::{Bad, IexDay};
