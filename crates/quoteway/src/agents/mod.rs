//! The threads that join sockets, sessions and hub.
//!
//! An agent's turn: take in all that is ready (bounded), let the state machines work, flush every connection that has
//! something to get once. Agents reach each other only through bounded rings; see `ARCHITECTURE.md`.

pub mod rssl_io;
