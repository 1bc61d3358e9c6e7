//! Messages of one source in order, each once, and fragments put together.

use std::collections::BTreeMap;

use lbm::topic::Message;
use lbm::wire::header::Header;
use lbm::wire::lbmc::{self, Kind, NEXT_DATA};
use lbm::wire::{Writer, distance};

/// Bytes that a message which waits costs besides its own.
const OVERHEAD: usize = 64;

/// A whole message for the application.
#[derive(Clone, Debug)]
pub struct Delivered<'a> {
    /// Topic sequence number; of the last fragment if there were several.
    pub sqn: u32,
    /// The data, properties included.
    pub payload: &'a [u8],
    /// Bytes of message properties at the end of the payload.
    pub properties: u32,
    /// Whether it was sent again: an earlier process of this receiver may have had it.
    pub repeated: bool,
    /// Extension headers; those of the last fragment if there were several.
    pub headers: lbmc::Headers<'a>,
}

/// A message as it lies in a datagram or a log, from what the topic layer gives of it: in two parts, of which the first stands in `out` and
/// the second may be empty. Most messages have no extension headers and are not copied for it.
///
/// Both parts are empty if the message is longer than one can be.
#[inline]
pub fn encode<'a>(topic: u32, message: &Message<'a>, out: &'a mut Vec<u8>) -> [&'a [u8]; 2] {
    if message.headers.end() != NEXT_DATA {
        encode_headed(topic, message, out);
        return [out, &[]];
    }
    out.clear();
    let Ok(length) = u16::try_from(lbmc::DATA_HEADER + message.payload.len()) else { return [&[], &[]] };
    out.extend_from_slice(&lbmc::data_header(length, topic, message.sqn));
    [out, message.payload]
}

/// As [`encode`], of a message with extension headers, as a whole.
fn encode_headed(topic: u32, message: &Message<'_>, out: &mut Vec<u8>) {
    out.clear();
    let headers: Vec<Header<'_>> = message.headers.clone().flatten().collect();
    out.resize(lbmc::MESSAGE_MAX, 0);
    let mut w = Writer::new(out);
    let written = lbmc::encode(&mut w, Kind::Message, topic, message.sqn, &headers, NEXT_DATA, message.payload);
    let length = if written.is_ok() { w.position() } else { 0 };
    out.truncate(length);
}

/// See the module. Numbers are counted on beyond 32 bits, so that their order survives the wrap.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    /// The next number to be delivered.
    pub(super) expected: u64,
    held: BTreeMap<u64, (Vec<u8>, bool)>,
    held_bytes: usize,
    /// A message that is being put together: the number of its next fragment, its length.
    part: Vec<u8>,
    part_first: u64,
    part_next: u64,
    part_total: usize,
    part_repeated: bool,
    /// Messages up to before this number may have been delivered by an earlier process.
    pub(super) repeated_before: u64,
}

impl InOrder {
    /// The number in full.
    pub(super) fn wide(&self, sqn: u32) -> u64 {
        self.expected.wrapping_add_signed(i64::from(distance(self.expected as u32, sqn)))
    }

    pub(super) fn start(&mut self, sqn: u32) {
        // Far from 0, so that numbers before it are numbers as well.
        self.expected = 1 << 40 | u64::from(sqn);
        self.clear_part();
    }

    fn clear_part(&mut self) {
        self.part.clear();
        self.part_total = 0;
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.held.contains_key(&number)
    }

    /// All before this number is delivered: fragments of a message that is not whole yet have to come again.
    #[inline]
    pub(super) fn delivered_before(&self) -> u64 {
        if self.part.is_empty() { self.expected } else { self.part_first }
    }

    /// The first number that waits.
    pub(super) fn first_held(&self) -> Option<u64> {
        self.held.keys().next().copied()
    }

    /// All that waits.
    pub(super) fn into_held(self) -> impl Iterator<Item = (Vec<u8>, bool)> {
        self.held.into_values()
    }

    /// Keeps a message; false: there is no room.
    pub(super) fn hold(&mut self, number: u64, encoded: Vec<u8>, repeated: bool, limit: usize) -> bool {
        let bytes = encoded.len() + OVERHEAD;
        // The one that is next makes room for others.
        if self.held_bytes + bytes > limit && number != self.expected {
            return false;
        }
        if let std::collections::btree_map::Entry::Vacant(place) = self.held.entry(number) {
            place.insert((encoded, repeated));
            self.held_bytes += bytes;
        }
        true
    }

    /// Forgets all from a number on. If some of it was delivered, other messages have its numbers now.
    pub(super) fn cut(&mut self, from: u64) {
        for (encoded, _) in self.held.split_off(&from).into_values() {
            self.held_bytes -= encoded.len() + OVERHEAD;
        }
        if from < self.expected {
            self.expected = from;
            self.clear_part();
        }
        if !self.part.is_empty() && self.part_next > from {
            self.clear_part();
        }
        self.repeated_before = self.repeated_before.min(from);
    }

    /// Delivers what waits and is next.
    pub(super) fn drain(&mut self, mut deliver: impl FnMut(Delivered<'_>), message_max: usize) {
        while let Some(entry) = self.held.first_entry()
            && *entry.key() <= self.expected
        {
            let (number, (encoded, repeated)) = entry.remove_entry();
            self.held_bytes -= encoded.len() + OVERHEAD;
            if number == self.expected
                && let Ok((message, _)) = lbmc::Message::decode(&encoded)
            {
                let content = message.content();
                if let Ok(content) = content {
                    let (sqn, kind, headers) = (message.sqn, message.kind, message.headers());
                    let message =
                        Message { sqn, payload: content.payload, properties: content.properties, kind, headers };
                    self.next(&message, repeated, &mut deliver, message_max);
                } else {
                    self.expected += 1;
                }
            }
        }
    }

    /// Delivers the message that is next.
    #[inline]
    pub(super) fn next(
        &mut self,
        message: &Message<'_>,
        repeated: bool,
        mut deliver: impl FnMut(Delivered<'_>),
        message_max: usize,
    ) {
        let number = self.expected;
        self.expected += 1;
        let repeated = repeated || number < self.repeated_before;
        let Message { sqn, payload, properties, .. } = *message;
        if message.headers.end() == NEXT_DATA {
            return deliver(Delivered { sqn, payload, properties, repeated, headers: message.headers.clone() });
        }
        let fragment = message.headers.clone().find_map(|header| match header {
            Ok(Header::Fragment(fragment)) => Some(fragment),
            _ => None,
        });
        let Some(fragment) = fragment else {
            return deliver(Delivered { sqn, payload, properties, repeated, headers: message.headers.clone() });
        };
        let total = fragment.total as usize;
        if fragment.offset == 0 {
            self.clear_part();
            (self.part_total, self.part_repeated, self.part_first) = (total.min(message_max), false, number);
        }
        let follows = fragment.offset == 0 || self.part_next == number;
        if !follows || self.part.len() != fragment.offset as usize || self.part.len() + payload.len() > self.part_total
        {
            // Its beginning is lost, or it is longer than may be put together.
            return self.clear_part();
        }
        self.part.extend_from_slice(payload);
        self.part_next = number + 1;
        self.part_repeated |= repeated;
        if self.part.len() == total {
            let payload = std::mem::take(&mut self.part);
            let headers = message.headers.clone();
            deliver(Delivered { sqn, payload: &payload, properties, repeated: self.part_repeated, headers });
            self.part = payload;
            self.clear_part();
        }
    }

    /// The numbers from the expected one to before `end` will not come.
    pub(super) fn skip(&mut self, end: u64) {
        self.expected = end;
        self.clear_part();
    }
}
