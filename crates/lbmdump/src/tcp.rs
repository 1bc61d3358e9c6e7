//! Messages on a TCP stream of which the capture may not have the beginning: into step, and out of it.
//!
//! Nothing marks where a message begins. A chain of them does: each header says the length of its message, behind which the next begins.

use capture::ip::Segment;
use capture::{Order, Piece};
use lbm::wire::lbmc::Message;

/// Messages in a row that are no chance.
const CHAIN: usize = 3;
/// The longest message, and a second one: where no message is found in so many bytes, the first of them are passed over.
const SEARCHED_MAX: usize = 1 << 17;
/// No message of a topic is shorter.
const LENGTH_MIN: usize = 8;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    order: Order,
    /// In order, not read yet.
    unread: Vec<u8>,
    /// A message begins where `unread` does.
    in_step: bool,
    /// Where in `unread` bytes begin that were sent together, while a message is looked for.
    starts: Vec<usize>,
    /// The gap that is told with the next messages.
    untold: Gap,
}

/// A hole before messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// Bytes that the capture does not have.
    pub(super) missing: u64,
    /// Bytes in which no message was found.
    pub(super) out_of_step: u64,
}

impl Gap {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Bytes that came in order: bytes that follow each other are one piece.
pub(super) enum Arrived {
    Opened,
    Bytes { bytes: Vec<u8>, starts: Vec<usize> },
    Hole(u64),
}

impl Stream {
    /// Bytes that are in order now that a segment is there; without one, all that waits.
    pub(super) fn arrived(&mut self, segment: Option<&Segment<'_>>) -> Vec<Arrived> {
        let mut all: Vec<Arrived> = Vec::new();
        let mut each = |piece: Piece<'_>| match (piece, all.last_mut()) {
            (Piece::Bytes(new), Some(Arrived::Bytes { bytes, starts })) => {
                starts.push(bytes.len());
                bytes.extend_from_slice(new);
            }
            (Piece::Bytes(new), _) => all.push(Arrived::Bytes { bytes: new.to_vec(), starts: vec![0] }),
            (Piece::Opened, _) => all.push(Arrived::Opened),
            (Piece::Hole(count), _) => all.push(Arrived::Hole(count)),
        };
        match segment {
            Some(segment) => self.order.take(segment, &mut each),
            None => self.order.finish(&mut each),
        }
        all
    }

    /// Takes what came.
    pub(super) fn add(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Opened => {
                self.pass_over(self.unread.len());
                self.in_step = true;
            }
            Arrived::Hole(count) => {
                self.pass_over(self.unread.len());
                self.untold.missing += count;
                self.in_step = false;
            }
            Arrived::Bytes { bytes, starts } => {
                if !self.in_step {
                    self.starts.extend(starts.iter().map(|start| start + self.unread.len()));
                }
                self.unread.extend_from_slice(&bytes);
            }
        }
    }

    /// Bytes that begin with a message, and what is not there before it; `None` while no message is found.
    pub(super) fn messages(&mut self) -> Option<(Vec<u8>, Gap)> {
        if !self.in_step {
            match first_message(&self.unread, &self.starts) {
                Some(at) => {
                    self.pass_over(at);
                    self.in_step = true;
                }
                None if self.unread.len() > SEARCHED_MAX => self.pass_over(self.unread.len() - SEARCHED_MAX / 2),
                None => {}
            }
        }
        (self.in_step && !self.unread.is_empty())
            .then(|| (std::mem::take(&mut self.unread), std::mem::take(&mut self.untold)))
    }

    /// Takes back what was not read; a message that is none means that the next one has to be looked for.
    pub(super) fn keep(&mut self, mut bytes: Vec<u8>, read: usize, is_malformed: bool) {
        bytes.drain(..read);
        self.unread = bytes;
        if is_malformed {
            self.in_step = false;
            self.pass_over(1.min(self.unread.len()));
        }
    }

    /// The gap that is told when nothing more comes. The beginning of a message that was still being sent is no fault.
    pub(super) fn end(&mut self) -> Gap {
        if !self.in_step {
            self.pass_over(self.unread.len());
        }
        std::mem::take(&mut self.untold)
    }

    fn pass_over(&mut self, count: usize) {
        self.untold.out_of_step += count as u64;
        self.unread.drain(..count);
        self.starts.retain(|start| *start >= count);
        self.starts.iter_mut().for_each(|start| *start -= count);
    }
}

/// Where the first message begins: behind a chain is another, or the end; where bytes were sent together, one message and what may be
/// the beginning of another are enough.
fn first_message(bytes: &[u8], starts: &[usize]) -> Option<usize> {
    (0..bytes.len()).find(|&at| {
        let is_start = starts.contains(&at);
        let (mut count, mut end) = (0, at);
        while count < CHAIN
            && let Ok((message, length)) = Message::decode(&bytes[end..])
            && message.content().is_ok()
        {
            count += 1;
            end += length;
        }
        let rest = &bytes[end..];
        count == CHAIN || count > 0 && (is_start && may_begin(rest) || count > 1 && rest.is_empty())
    })
}

/// Whether these bytes may be the beginning of a message.
fn may_begin(bytes: &[u8]) -> bool {
    match bytes {
        // The version is 0.
        [version_type, ..] if version_type >> 4 != 0 => false,
        [_, _, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            length >= LENGTH_MIN && length > bytes.len()
        }
        _ => true,
    }
}
