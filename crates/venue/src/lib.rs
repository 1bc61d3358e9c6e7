//! Exchanges' own protocols as state machines: bytes or datagrams and `now` in; books, trades, notices, gaps and requests for repair out.
//!
//! * [`sequence`]: messages of several lines in order, once; gaps told, asked for, repaired or given up.
//! * [`kraken`]: books of its WebSocket, proved by their checksums.
//! * [`lines`]: which line was first, and by how much.
//! * [`nasdaq`]: TotalView-ITCH 5.0 over `MoldUDP64`, `SoupBinTCP`, GLIMPSE and day files.
//! * [`iex`]: TOPS 1.6 and DEEP 1.0 over IEX-TP.
//! * [`cme`]: MDP 3.0 by the schema of the exchange.
//! * [`dbn`]: records of Databento files, and the books that those by order make.
//! * [`web`]: Coinbase, Binance, Bitstamp, `BitMEX`, Kraken Futures, Independent Reserve: JSON over WebSocket.
//! * [`Market`]: who takes what a handler tells. Order books are of the crate [`market`].
//!
//! `now` is nanoseconds of any clock that never falls. A message's own time is the venue's. Bytes may be cut short, forged or of another
//! version: what cannot be meant is counted by kind and passed over, never a panic, never a stop; memory that strangers can fill is bounded
//! by [`sequence::Limits`].
//!
//! Nothing is repaired in silence: a book that cannot be what the venue has is told as in doubt, and a crossed one is left crossed.

#![forbid(unsafe_code)]

pub mod cme;
pub mod dbn;
pub mod iex;
pub mod kraken;
pub mod lines;
mod market_events;
pub mod nasdaq;
pub mod sequence;
pub mod web;

pub use market_events::{Market, Trade, TradeKind};
