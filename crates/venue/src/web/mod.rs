//! Venues whose feed is JSON over WebSocket, with what they have by HTTP where a book begins with that.
//!
//! A venue is a [`WebVenue`]: texts of its connection and answers of its server in; books, trades, notices and what is to be said or fetched out.
//! Most are a [`Web`] of a protocol: products with a book each, a doubt each, and at most one request of each under way.
//!
//! ```
//! use market::Side;
//! use venue::web::{Coinbase, Scale, Web, WebVenue as _};
//!
//! let mut coinbase = Web::<Coinbase>::new(&["BTC-USD".to_owned()]);
//! coinbase.connected(0);
//! let snapshot = r#"{"type":"snapshot","product_id":"BTC-USD","bids":[["60000.01","0.5"]],"asks":[]}"#;
//! coinbase.text(snapshot.as_bytes(), 1, &mut ());
//! let product = coinbase.find("BTC-USD").expect("a product");
//! let best = coinbase.books().best(product, Side::Bid).expect("a bid");
//! assert_eq!((best.price, best.size), (6_000_001, 5));
//! assert_eq!(coinbase.scale(product), Scale { price: 2, size: 1 });
//! ```

mod binance;
mod bitmex;
mod bitstamp;
mod coinbase;
mod decimal;
mod independent_reserve;
mod kraken_futures;
mod machine;
mod notice;
mod products;
mod time;

pub use binance::{Binance, BinanceRules};
pub use bitmex::{Bitmex, BitmexRules};
pub use bitstamp::{Bitstamp, BitstampRules};
pub use coinbase::{Coinbase, CoinbaseRules};
pub use decimal::Decimal;
pub use independent_reserve::{IndependentReserve, IndependentReserveRules};
pub use kraken_futures::{KrakenFutures, KrakenFuturesRules};
pub use machine::{Protocol, Web, WebVenue};
pub use notice::{Bad, Doubt, Notice, Scale, Want};
pub use products::{Products, Row, Sent};
