//! Topic messaging over reliable multicast, in options, behaviour and bytes like 29West LBM (Ultra Messaging), as state machines
//! without I/O: bytes and `now` (monotonic nanoseconds) go in, bytes and events come out.
#![forbid(unsafe_code)]

pub mod options;
mod random;
pub mod resolver;
pub mod topic;
pub mod transport;
pub mod wire;
