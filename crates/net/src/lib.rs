//! Sockets, clocks, signals, threads' places and rings between them: everything that touches the operating system, and the only
//! crate of the workspace with `unsafe` code. It knows no protocol.

pub mod affinity;
pub mod clock;
pub mod fault;
#[cfg(feature = "floor")]
pub mod floor;
pub mod host;
pub mod memory;
pub mod ring;
pub mod rlimit;
pub mod signal;
pub(crate) mod sys;
pub mod tcp;
pub mod tls;
mod waker;

pub use waker::{Sleeper, Waker};
