//! Consumers and publishers over sockets.
//!
//! A [`Client`] is a role of `omm` (a [`Consumer`](omm::consumer::Consumer), a [`Publisher`](omm::publisher::Publisher)) with the one connection
//! that it has at a time: dialled when the role wants it, with the version of the protocol that the server knows, at the server's next place
//! when one fails. Its owner runs the sockets ([`RsslIo`](rssl_io::RsslIo)) and may have several clients on them:
//!
//! ```text
//! each turn:  client.connect(now, io)         what is due; dials
//!             io.turn(deadline, handler)      handler: client.opened, client.role.handle_message, client.closed
//!             client.send(now, io)            what the role has to say
//! ```
//!
//! `examples/consumer.rs` is a whole program.
#![forbid(unsafe_code)]

mod client;
mod dialled;
mod role;

pub use client::Client;
pub use dialled::{Closed, Dialled, Reach};
pub use role::Role;
