//! The servers: agents (threads that join sockets, sessions and hub), roles (the processes of a deployment), configuration, and what
//! a process shows of itself by HTTP. The binary `quoteway` starts them, and the programs of the crate `tools`.
//!
//! No protocol rule lives here: bytes are understood by `rwf` and `rssl`, items by `hub`, sockets by `net`.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod agents;
pub mod counters;
pub mod http;
pub mod log;
pub mod roles;
mod rotated;
