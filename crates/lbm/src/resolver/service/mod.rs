//! Topic resolution over TCP: a stateful resolution service (SRS) knows every source, and tells each context of the sources of the topics
//! that it wants. Nothing is said twice as long as a connection stands; when one has broken, all is said again.
//!
//! A context ([`Client`]) connects to all services that it names (at most [`LINKS_MAX`]), tells each of them the same, and takes what any of
//! them says: so one may be away at any time. Services ([`Service`]) know nothing of each other.
//!
//! On a connection the context sets up `RSocket`, registers (one request, one response), says its sources and what it wants (messages
//! without an answer), and asks for the stream of records. That request also says that the context is through: of an earlier connection
//! of the same context, what it has not said again is no more.

mod cache;
mod client;
mod server;

pub use client::{Action, Client, ClientConfig, ClientStats, Ended, InterestTold, Standing};
pub use server::{Closing, Service, ServiceConfig, ServiceStats};

/// Services that a context may name.
pub const LINKS_MAX: usize = 5;
/// Records of a frame are so many bytes, and one more record, at most.
const BATCH: usize = 16_384;
