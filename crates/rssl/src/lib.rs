//! RSSL sessions, both roles, as state machines without I/O.
//!
//! This crate stands between the bytes of a connection and the RWF messages on it. It opens no socket, reads no clock,
//! starts no thread and writes no log: the caller hands in received bytes and the time, and sends the bytes that it finds in
//! `out`. What a message means is no business of this crate; only the position of the stream id in an RWF header is known to it
//! ([`Packer::push`] patches it).
//!
//! ```
//! use rssl::{ClientConfig, Connection, Negotiated, ServerConfig, Sink};
//!
//! #[derive(Default)]
//! struct Messages(Vec<Vec<u8>>);
//! impl Sink for Messages {
//!     fn message(&mut self, msg: &[u8]) {
//!         self.0.push(msg.to_vec());
//!     }
//! }
//!
//! let mut client = Connection::client(ClientConfig::default());
//! let mut server = Connection::server(ServerConfig::default());
//! let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
//! let (mut at_client, mut at_server) = (Messages::default(), Messages::default());
//!
//! let now = 0; // monotonic nanoseconds
//! server.start(now, &mut to_client);
//! client.start(now, &mut to_server);
//! server.receive(now, &std::mem::take(&mut to_server), &mut to_client, &mut at_server)?; // request -> ack
//! client.receive(now, &std::mem::take(&mut to_client), &mut to_server, &mut at_client)?; // ack -> key
//! server.receive(now, &std::mem::take(&mut to_server), &mut to_client, &mut at_server)?;
//! assert!(server.is_connected() && client.is_connected());
//!
//! let mut packer = server.pack(now, &mut to_client);
//! packer.push(b"first message", None);
//! packer.push(b"second message", Some(7)); // bytes 4..8 become stream id 7
//! packer.finish()?;
//! client.receive(now, &to_client, &mut to_server, &mut at_client)?;
//! assert_eq!(at_client.0.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`frame`] | frame headers alone: length, kind, fragment header |
//! | [`handshake`] | connect request, answer, refusal and key frame as data |
//! | [`Connection`] | one session: handshake, pings, messages in and out |
//! | [`http_tunnel`] | the same in HTTP requests that do not end, as ETA's connection type `HTTP` has it |
//! | [`ws`] | the same over WebSocket, and JSON sessions |
//! | [`Tap`] | decodes the recorded bytes of both directions without taking part |
//!
//! The wire format is described in `docs/wire/rssl.md`.
#![forbid(unsafe_code)]

mod closed;
mod compress;
mod config;
mod connection;
pub mod frame;
pub mod handshake;
pub mod http_tunnel;
mod inbound;
mod key;
mod outbound;
mod spare;
mod standing;
mod tap;
pub mod ws;

pub use closed::{Closed, Fault, WriteError};
pub use config::{ClientConfig, Compression, CompressionSet, Negotiated, ServerConfig, Version};
pub use connection::{Connection, Sink};
pub use outbound::Packer;
pub use standing::Standing;
pub use tap::{Direction, Event, Tap};
