//! Values of two makes, kept together.
//!
//! Where updates of two makes take turns, as quotes and trades do, or updates of which some have a time stamp, each would find values of the other make, which had to go
//! into the image first. So values of the second make lie behind those of the first one, and fields that both bring share their places: they have their last value,
//! whichever make has brought it. When somebody wants the image, one update of each make is applied to it, the first one's first, and as many more as there are values
//! that ripple.

use super::super::copies::{Copies, Copying};
use super::{Again, Gather, Latest, ROOM, Ripple, Slot, Updates};

/// How values of two makes are kept together.
///
/// INVARIANT: if updates of both ripple, they do so by the same fields; no make brings a field that the other one ripples to.
#[derive(Debug)]
pub(in super::super) struct Pair {
    /// The makes' plans: of the one whose values were there, and of the one that joined them.
    plans: [u8; 2],
    makes: [OfMake; 2],
}

/// The part of a pair that is of one make.
#[derive(Debug)]
struct OfMake {
    inward: Copies,
    /// An update, and where its values come from, but for those that ripple.
    message: Box<[u8]>,
    outward: Copies,
    /// None if its updates do not ripple.
    ripples: Box<[Ripple]>,
}

impl OfMake {
    fn new(message: &[u8], slots: &[Slot], seq_num_at: Option<u16>) -> Self {
        let (mut inward, mut outward, mut ripples) = (Copying::default(), Copying::default(), Vec::new());
        if let Some(place) = seq_num_at {
            inward.add(place.into(), 0, size_of::<u32>(), 0);
            outward.add(0, place.into(), size_of::<u32>(), 0);
        }
        for &Slot { from, at, len, kept } in slots {
            inward.add(from, at, len, 0);
            if kept > 1 {
                ripples.push(Ripple { at, len, kept, places: [from as u16].into() });
            } else {
                outward.add(at, from, len, 0);
            }
        }
        Self { inward: inward.end(), message: message.into(), outward: outward.end(), ripples: ripples.into() }
    }

    /// Where its values lie that ripple.
    fn rippling(&self) -> Vec<usize> {
        let mut all: Vec<_> = self.ripples.iter().map(|ripple| ripple.at).collect();
        all.sort_unstable();
        all
    }
}

impl Pair {
    /// Of a make whose values are kept, with one of its updates, and of another one: one of its updates, its entries on a list to which the first make has been
    /// applied, and where its sequence number is.
    ///
    /// `None` if the values find no room together, or a field of both is not alike in them.
    pub(in super::super) fn new(
        plans: [u8; 2],
        (first, first_message): (&Gather, &[u8]),
        (message, entries, seq_num_at): (&[u8], &[Again], Option<u16>),
    ) -> Option<Self> {
        let fid = |message: &[u8], value_at: usize| [message[value_at - 3], message[value_at - 2]];
        let mut end = first.end;
        let mut slots = Vec::new();
        for &Again { from, len, fields } in entries {
            let in_both = first.slots.iter().find(|slot| fid(first_message, slot.from) == fid(message, from));
            match in_both {
                Some(slot) if (slot.len, slot.kept) == (len, fields) => slots.push(Slot { from, ..*slot }),
                Some(_) => return None,
                // Nothing ripples of a blank, which has no bytes.
                None if end + fields * len > ROOM || (fields > 1 && len == 0) => return None,
                None => {
                    slots.push(Slot { from, at: end, len, kept: fields });
                    end += fields * len;
                }
            }
        }
        let makes =
            [OfMake::new(first_message, &first.slots, first.seq_num_at), OfMake::new(message, &slots, seq_num_at)];
        let [one, other] = makes.each_ref().map(OfMake::rippling);
        let is_alike = one.is_empty() || other.is_empty() || one == other;
        (is_alike && first.seq_num_at.is_some() == seq_num_at.is_some()).then_some(Self { plans, makes })
    }

    /// The plans of its makes.
    #[inline]
    pub(in super::super) const fn plans(&self) -> [u8; 2] {
        self.plans
    }

    /// Values of the first make are there alone: what is kept from now on is kept of both.
    pub(in super::super) fn join(&self, latest: &mut Latest) {
        if self.makes[0].ripples.is_empty() {
            latest.count = 0;
        }
    }

    /// Keeps the values of an update of one of the makes.
    #[inline]
    pub(in super::super) fn keep(&self, of: usize, message: &[u8], latest: &mut Latest) {
        let make = &self.makes[of];
        if !make.ripples.is_empty() {
            make.ripples.iter().for_each(|ripple| ripple.shift(&mut latest.values));
            latest.count = latest.count.saturating_add(1);
        }
        make.inward.carry_out(message, &mut latest.values);
    }

    /// Writes updates that do to the list what those did that were kept.
    pub(in super::super) fn write_updates(&self, latest: &Latest, updates: &mut Updates) {
        let most = self.makes.iter().flat_map(|make| &make.ripples).map(|ripple| ripple.kept).max().unwrap_or(1);
        // Values that ripple and are left to be written: the oldest of them goes first.
        let mut left = most.min(latest.count.into());
        let [first, second] = self.makes.each_ref().map(|make| !make.ripples.is_empty());
        let of_first = match (first, second) {
            (true, false) => left,
            _ => 1,
        };
        debug_assert!(left >= usize::from(first) + usize::from(second), "both makes have come");
        let mut write = |make: &OfMake, left: &mut usize| {
            let update = updates.add(&make.message);
            make.outward.carry_out(&latest.values, update);
            *left = left.saturating_sub(usize::from(!make.ripples.is_empty()));
            make.ripples.iter().for_each(|ripple| ripple.put(&latest.values, *left, update));
        };
        (0..of_first).for_each(|_| write(&self.makes[0], &mut left));
        let of_second = if second { left } else { 1 };
        (0..of_second).for_each(|_| write(&self.makes[1], &mut left));
    }
}
