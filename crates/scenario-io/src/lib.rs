//! Scenarios on sockets: the server of a play, beside the process under test.
//!
//! | module | what it is |
//! |---|---|
//! | [`stage`] | one run: sockets, time, the client's process |
//! | [`client`] | the client's process: its start, its lines, its memory, its end |
//! | [`recording`] | what passed, as a packet capture |
//! | [`stand`] | scenarios that are chosen one after the other, for a client that stays |
//! | [`command`] | `quoteway scenario` |
#![forbid(unsafe_code)]

pub mod client;
pub mod command;
mod json;
mod listening;
mod peer;
pub mod recording;
pub mod stage;
pub mod stand;
