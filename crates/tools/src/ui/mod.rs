//! What a person sees of the demo: a watchlist with live quotes, rates and latencies.
//!
//! [`feed::WatchClient`] is a consumer that keeps a [`Snapshot`]; [`draw`] and [`plain`] turn a snapshot into a screen or a
//! line, and know nothing else. [`run`] joins them: on a terminal the screen, anywhere else lines.

pub mod draw;
pub mod feed;
pub mod page;
pub mod plain;
mod screen;
mod snapshot;

pub use screen::{Settings, run};
pub use snapshot::{Direction, Row, Snapshot};
