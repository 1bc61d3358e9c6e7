//! Sessions over sockets: bytes in, messages out, and back.
//!
//! One [`RsslIo`] belongs to one thread. [`RsslIo::turn`] polls the sockets, feeds the sessions and calls the
//! [`Handler`] for what comes out; afterwards the owner writes with [`RsslIo::send`]. The handler does not write itself:
//! everything a turn brings is taken in first and answered in one packed write per connection.
//!
//! # Layers
//! A connection has a socket (`net::tcp`), encryption where its listener has it (`net::tls`), and a session above: RSSL, RSSL in
//! WebSocket frames, or JSON in WebSocket frames. One port takes all of them: the first bytes tell ([`listener`]).
//!
//! | module | what it is |
//! |---|---|
//! | [`RsslIo`] | the turn, sending, closing |
//! | [`Handler`] | what the owner is told |
//! | `session` | one connection's layers; what its kind of session makes of bytes and of time |
//! | [`listener`] | what a port accepts, and how the first bytes tell the protocols apart |
//! | `tunnel` | the way of a dialled connection through an HTTP proxy |
//! | `reason` | why connections are not taken, and why they end |
//! | [`account`] | what waits for a peer and what of it is not whole: counted in one place, bounded |
//! | [`admission`] | limits by address, and the bounded log of those that never became a session |
#![forbid(unsafe_code)]

pub mod account;
pub mod admission;
mod handler;
mod io;
pub mod listener;
mod reason;
mod session;
mod tunnel;

pub use handler::{Ended, Handler, Opened, Spoken};
pub use io::RsslIo;
pub use listener::{Encryption, Listener, WebSocket, WebSocketDial};
pub use reason::{AdmissionError, EndReason};
pub use tunnel::{Credentials, Way};
