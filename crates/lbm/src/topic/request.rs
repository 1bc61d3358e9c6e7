//! Request and response: a message that carries the address to which replies go by TCP.

use std::collections::BTreeMap;

use crate::wire::header::{ExtensionOption, Header};
use crate::wire::lbmc::{self, Kind, NEXT_DATA};
use crate::wire::{Full, WireError, Writer};

/// What our private option says.
const REPLY: u8 = 1;

/// A reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The request's index.
    pub request: u32,
    /// The data.
    pub payload: &'a [u8],
}

/// Writes a reply for the requester's TCP connection. How the product marks replies is not known: ours is a message without topic
/// that carries the request's index in a private option.
///
/// # Errors
/// It does not fit, or is longer than 65,535 bytes with its headers.
pub fn encode_reply(w: &mut Writer<'_>, reply: Reply<'_>) -> Result<(), Full> {
    let [a, b, c, d] = reply.request.to_be_bytes();
    let data = [REPLY, 0, 0, 0, a, b, c, d];
    let option = ExtensionOption { flags: 0, id: 0, subtype: ExtensionOption::QUOTEWAY, offset: 0, data: &data };
    lbmc::encode(w, Kind::Message, 0, 0, &[Header::Option(option)], NEXT_DATA, reply.payload)
}

/// Reads a reply; `None` for any other message.
///
/// # Errors
/// A broken chain of headers.
pub fn decode_reply<'a>(message: &lbmc::Message<'a>) -> Result<Option<Reply<'a>>, WireError> {
    let payload = message.content()?.payload;
    for header in message.headers() {
        if let Header::Option(ExtensionOption { subtype: ExtensionOption::QUOTEWAY, data, .. }) = header?
            && let [REPLY, _, _, _, a, b, c, d] = *data
        {
            return Ok(Some(Reply { request: u32::from_be_bytes([a, b, c, d]), payload }));
        }
    }
    Ok(None)
}

/// The requests of a context that wait for replies.
#[derive(Debug, Default)]
pub struct Replies {
    next: u32,
    open: BTreeMap<u32, u64>,
    /// Not after the first deadline.
    due: u64,
}

impl Replies {
    /// Gives the index for a new request, which stays open until `deadline`.
    pub fn open(&mut self, deadline: u64) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.due = if self.open.is_empty() { deadline } else { self.due.min(deadline) };
        self.open.insert(self.next, deadline);
        self.next
    }

    /// Whether a reply is for a request that is still open. A request may have many replies.
    pub fn is_open(&self, request: u32) -> bool {
        self.open.contains_key(&request)
    }

    /// Takes no more replies for the request.
    pub fn close(&mut self, request: u32) -> bool {
        self.open.remove(&request).is_some()
    }

    /// Closes what is too old, and names it.
    pub fn on_timer(&mut self, now: u64, mut expired: impl FnMut(u32)) {
        if now < self.due {
            return;
        }
        self.open.retain(|request, deadline| {
            let keep = *deadline > now;
            if !keep {
                expired(*request);
            }
            keep
        });
        self.due = self.open.values().min().copied().unwrap_or(u64::MAX);
    }

    /// When [`Replies::on_timer`] is to be called; now and then earlier than anything is due.
    pub fn timeout(&self) -> Option<u64> {
        (!self.open.is_empty()).then_some(self.due)
    }
}
