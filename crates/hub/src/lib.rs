//! Items, interest, images and fan-out between providers and consumers, as state machines without I/O.
//!
//! Bytes go left to right: [`distributor`] turns what providers send into a stream of hub messages ([`stream`]), and
//! [`p2ps`] turns that stream into deliveries for each consumer. The two know each other only by the bytes of the hub
//! stream, so that one process, many threads or many hosts make no difference to either.
#![forbid(unsafe_code)]

mod cascade;
pub mod counters;
pub mod distributor;
pub mod hash_seed;
pub mod item;
mod keyed_queue;
pub mod p2ps;
mod roster;
mod sequence;

pub use hub_content::{cache, filter};
pub use hub_stream as stream;
