//! LBT-TCP: LBMC messages back to back on a stream.

use super::{Carrier, WouldBlock};
use crate::wire::header::Header;
use crate::wire::lbmc::{self, CONTROL_HEADER, Kind, MESSAGE_MAX, Message};
use crate::wire::{WireError, Writer};

/// What a receiver sends first: the session it wants, as advertised.
pub fn hello(session_id: u32) -> Vec<u8> {
    let mut bytes = [0; 12];
    let mut w = Writer::new(&mut bytes);
    let written = lbmc::encode_control(&mut w, &[Header::SessionId { flags: 0, id: session_id }]);
    debug_assert!(written.is_ok(), "the buffer has this size");
    bytes.to_vec()
}

/// The session that a receiver's first message asks for. A source disconnects if it is another one.
pub fn session_of_hello(message: &Message<'_>) -> Option<u32> {
    if message.kind != Kind::Control {
        return None;
    }
    message.headers().find_map(|header| match header {
        Ok(Header::SessionId { id, .. }) => Some(id),
        _ => None,
    })
}

/// Cuts a stream into whole messages.
#[derive(Debug, Default)]
pub struct Deframer {
    tail: Vec<u8>,
}

impl Deframer {
    /// Takes received bytes and hands on runs of whole messages, borrowed where possible; see [`lbmc::Messages`]. An incomplete
    /// message is kept.
    ///
    /// # Errors
    /// A message that cannot be one. The connection has to be closed.
    pub fn receive(&mut self, mut input: &[u8], mut sink: impl FnMut(&[u8])) -> Result<(), WireError> {
        while !self.tail.is_empty() {
            let want = if self.tail.len() < CONTROL_HEADER { CONTROL_HEADER } else { length(&self.tail)? };
            let missing = want - self.tail.len();
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.tail.extend_from_slice(taken);
            input = rest;
            if taken.len() < missing {
                return Ok(());
            }
            if length(&self.tail)? == self.tail.len() {
                sink(&self.tail);
                self.tail.clear();
            }
        }
        let mut whole = 0;
        while input.len() - whole >= CONTROL_HEADER {
            let end = whole + length(&input[whole..]).map_err(|e| e.shifted(whole))?;
            if end > input.len() {
                break;
            }
            whole = end;
        }
        if whole > 0 {
            sink(&input[..whole]);
        }
        self.tail.extend_from_slice(&input[whole..]);
        Ok(())
    }
}

fn length(bytes: &[u8]) -> Result<usize, WireError> {
    let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    if bytes[0] >> 4 != 0 {
        return Err(crate::wire::invalid("LBMC version", 0));
    }
    if length < CONTROL_HEADER {
        return Err(crate::wire::invalid("LBMC message length", 2));
    }
    Ok(length)
}

/// The sending side: messages for all connections of a session gather here until they are sent.
#[derive(Debug)]
pub struct Batch {
    /// Memory, of which the first `length` bytes are messages: what lies behind was messages before, and is not made anew for the next ones.
    bytes: Vec<u8>,
    length: usize,
    bytes_max: usize,
    message_max: usize,
    /// How much may be sent; what lies behind waits for more messages.
    ready: usize,
    batching_minimum_length: usize,
    batching_interval_ns: u64,
    waiting_since: u64,
}

impl Batch {
    /// Holds at most about `bytes_max` bytes; sends at `batching_minimum_length` or after `batching_interval_ns`.
    pub fn new(bytes_max: usize, batching_minimum_length: usize, batching_interval_ns: u64) -> Self {
        Self {
            bytes: Vec::new(),
            length: 0,
            bytes_max,
            message_max: MESSAGE_MAX,
            ready: 0,
            batching_minimum_length,
            batching_interval_ns,
            waiting_since: 0,
        }
    }

    /// What is to be sent now, to every connection.
    pub fn output(&self) -> &[u8] {
        &self.bytes[..self.ready]
    }

    /// All of [`Batch::output`] was handed to the connections.
    pub fn sent(&mut self) {
        self.bytes.copy_within(self.ready..self.length, 0);
        self.length -= self.ready;
        self.ready = 0;
    }

    /// When [`Batch::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        (self.ready < self.length).then_some(self.waiting_since.saturating_add(self.batching_interval_ns))
    }

    /// Lets go what has waited long enough.
    pub fn on_timer(&mut self, now: u64) {
        if self.timeout().is_some_and(|at| at <= now) {
            self.ready = self.length;
        }
    }
}

impl Carrier for Batch {
    fn message_max(&self) -> usize {
        self.message_max
    }

    fn admit(&mut self, _now: u64, _bytes: usize) -> Result<(), WouldBlock> {
        if self.length < self.bytes_max { Ok(()) } else { Err(WouldBlock) }
    }

    fn claim(&mut self, now: u64, length: usize) -> &mut [u8] {
        let at = self.length;
        if at == self.ready {
            self.waiting_since = now;
        }
        self.length += length;
        if self.bytes.len() < self.length {
            self.bytes.resize(self.length.next_power_of_two(), 0);
        }
        &mut self.bytes[at..self.length]
    }

    fn commit(&mut self, _now: u64, flush: bool) {
        if flush || self.length - self.ready >= self.batching_minimum_length {
            self.ready = self.length;
        }
    }

    fn flush(&mut self, _now: u64) {
        self.ready = self.length;
    }
}
