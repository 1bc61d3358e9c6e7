//! Values of an item's last update, beside its image.
//!
//! Updates of one item mostly bring the same fields with values of the same lengths: each replaces what the one before has brought, and an image that nobody reads
//! need not have been written. So the values of the last one are kept in one place, all together ([`Latest`]), and go into the image when somebody wants to read or
//! change it. A quote touches one line of memory then, and not those of the image, which are eight where fields lie here and there.
//!
//! That is so for an update that changes no length of a value and ripples nothing: what ripples needs the value of before.

use super::copies::{Copies, Copying, Entry, at};
use super::lists::Fields;

/// Bytes of values that are kept: with what else there is of them, and four bytes of whoever holds them, one line of memory.
const ROOM: usize = 52;

/// The values of an item's last update, of which the image does not know yet.
///
/// INVARIANT: while it holds values, the image's list is of the layout that is noted here.
#[derive(Debug, Clone)]
pub struct Latest {
    /// The layout of the list that the values belong to; 0 for none.
    pub(super) layout: u32,
    /// The plan of the update, among those of the layout.
    pub(super) plan: u8,
    pub(super) state: Held,
    values: [u8; ROOM],
}

/// What there is to be known of values that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// None, and none is to be kept: the image has not been looked at.
    Closed,
    /// None yet.
    Open,
    /// Those of an update.
    Values,
    /// Those of an update, and no others are to be kept: another update waits for the image.
    ValuesAlone,
}

impl Default for Latest {
    fn default() -> Self {
        Self { layout: 0, plan: 0, state: Held::Closed, values: [0; ROOM] }
    }
}

impl Latest {
    /// Whether there are values that the image does not have.
    #[inline]
    pub const fn is_due(&self) -> bool {
        matches!(self.state, Held::Values | Held::ValuesAlone)
    }

    /// Whether an update can be kept, if it is of the right make.
    #[inline]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, Held::Open | Held::Values)
    }

    /// No update is kept any more before [`Image::open`](super::Image::open); values that are here stay.
    #[inline]
    pub const fn close(&mut self) {
        self.state = if self.is_due() { Held::ValuesAlone } else { Held::Closed };
    }
}

/// How the values of an update come to be kept, and from there into the list.
#[derive(Debug)]
pub(super) struct Gather {
    inward: Copies,
    outward: Copies,
    /// The sequence number is the first of the values.
    has_seq_num: bool,
}

impl Gather {
    /// `None` if the values are more than are kept.
    pub(super) fn new(entries: &[Entry], seq_num_at: Option<u16>) -> Option<Self> {
        let (mut inward, mut outward, mut end) = (Copying::default(), Copying::default(), 0);
        if let Some(place) = seq_num_at {
            inward.add(place.into(), 0, size_of::<u32>(), 0);
            end = size_of::<u32>();
        }
        for entry in entries {
            let value = entry.len - Entry::HEAD;
            if end + value > ROOM {
                return None;
            }
            inward.add(entry.from + Entry::HEAD, end, value, 0);
            outward.add(end, entry.to + Entry::HEAD, value, 0);
            end += value;
        }
        Some(Self { inward: inward.end(), outward: outward.end(), has_seq_num: seq_num_at.is_some() })
    }

    /// Keeps the values of an update.
    #[inline]
    pub(super) fn keep(&self, message: &[u8], latest: &mut Latest) {
        self.inward.carry_out(message, &mut latest.values);
    }

    /// Puts the values where they belong.
    #[inline]
    pub(super) fn give(&self, latest: &Latest, fields: &mut Fields, seq_num: &mut Option<u32>) {
        if self.has_seq_num {
            *seq_num = Some(u32::from_be_bytes(at(&latest.values, 0)));
        }
        self.outward.carry_out(&latest.values, fields.bytes_mut());
    }
}
