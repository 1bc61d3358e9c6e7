//! Persistence for LBM topics, as state machines without I/O: messages and `now` (monotonic nanoseconds) go in, messages and events come
//! out. A source is not done with a message before enough stores have it; a receiver that was away gets from them what it has missed.
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | the headers of persistence |
//! | [`epochs`] | incarnations of a source, so that no number ever means two messages |
//! | [`store`] | the store: registrations, messages, retransmissions, its log |
//! | [`source`] | the persistent source: quorum, flight size, stability, retention |
//! | [`receiver`] | the persistent receiver: recovery, order, acknowledgements |
//! | [`repository`] | what a source asks of its stores for its messages |
//! | [`options`] | what `ume_` options say of sources and receivers |
//!
//! The crate `lbm-store-io` puts sockets and a log on disk around them.
#![forbid(unsafe_code)]

mod blocks;
pub mod epochs;
pub mod options;
pub mod receiver;
pub mod repository;
pub mod source;
pub mod store;
pub mod wire;

/// Messages for connections, by their number. Messages for one connection that follow one another stand together.
#[derive(Debug, Default)]
pub struct Outbox {
    messages: Vec<(u64, Vec<u8>)>,
}

impl Outbox {
    /// Where a message for the connection is to be written.
    pub fn to(&mut self, conn: u64) -> &mut Vec<u8> {
        if self.messages.last().is_none_or(|(last, _)| *last != conn) {
            self.messages.push((conn, Vec::new()));
        }
        let at = self.messages.len() - 1;
        &mut self.messages[at].1
    }

    /// Takes all that is to be sent, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        self.messages.drain(..)
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
