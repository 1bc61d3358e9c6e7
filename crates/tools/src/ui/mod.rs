//! What a person sees of the demo: a watchlist with live quotes, rates and latencies.
//!
//! [`feed::WatchClient`] is a consumer that keeps a [`Snapshot`]; [`navigation`] is where the person is in it; [`draw`] and [`plain`]
//! turn them into a screen or a line, and know nothing else. [`run`] joins them: on a terminal the screen, anywhere else lines.

pub mod detail;
pub mod draw;
pub mod feed;
pub mod navigation;
pub mod page;
pub mod plain;
mod screen;
mod snapshot;

pub use screen::{Command, Settings, run};
pub use snapshot::{ClientLine, Direction, Row, Snapshot};
