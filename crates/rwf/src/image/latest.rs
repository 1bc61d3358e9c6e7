//! Values of an item's last update, beside its image.
//!
//! Updates of one item mostly bring the same fields with values of the same lengths: each replaces what the one before has brought, and an image that nobody reads
//! need not have been written. So the values of the last one are kept in one place, all together ([`Latest`]), and go into the image when somebody wants to read or
//! change it. A quote touches one line of memory then, or two if it is long, and not those of the image, which are eight where fields lie here and there.
//!
//! Updates of another make join those that are there, if there is room for both ([`Pair`]); where there is none, what is there goes into the image.
//!
//! Of a field that ripples its last values are kept, as many as there are fields that they ripple to. Where an update changes the length of a value or brings fields,
//! as the first ones of an item do whose image had blanks, the values have no places yet in the list: there the updates themselves are written again with what is kept,
//! and applied one after the other, as many as leave a trace.

mod pairs;

use super::copies::{Copies, Copying, Entry, at};
use super::lists::Fields;
pub(super) use pairs::Pair;

/// Bytes of values that are kept: with what else there is of them, and four bytes of whoever holds them, two lines of memory. The values of most updates lie in the first
/// of them; behind those are what a second make brings besides, as a time stamp, and the rest of long updates.
const ROOM: usize = 116;

/// The values of an item's last update, of which the image does not know yet.
///
/// INVARIANT: while it holds values, the image's list is of the layout that is noted here.
///
/// In this order, so that the first line of memory has all that is asked of an update, and its first values.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Latest {
    /// The layout of the list that the values belong to; 0 for none.
    pub(super) layout: u32,
    /// The plan of the update, among those of the layout; behind those, the pair of plans.
    pub(super) plan: u8,
    pub(super) state: Held,
    /// Updates that are kept, of which those that ripple have a value each: no chain of fields has 255.
    count: u8,
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
        Self { layout: 0, plan: 0, state: Held::Closed, count: 0, values: [0; ROOM] }
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
    /// All but the values that ripple.
    outward: Outward,
    ripples: Box<[Ripple]>,
    /// Where the sequence number is in an update; it is the first of the values.
    seq_num_at: Option<u16>,
    /// The values but for the sequence number, and where they end.
    slots: Box<[Slot]>,
    end: usize,
}

/// Where values of a field are kept.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Where a value begins in its update.
    from: usize,
    /// Where it begins among those that are kept.
    at: usize,
    /// Bytes of a value.
    len: usize,
    /// Values that are kept at most: more than one if the field ripples.
    kept: usize,
}

/// Updates that are written again, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Updates {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Updates {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds an update, which begins as a copy of this.
    fn add(&mut self, message: &[u8]) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.ends.push(self.bytes.len());
        &mut self.bytes[start..]
    }

    /// In their order.
    pub(super) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// Where values that are kept belong.
#[derive(Debug)]
enum Outward {
    /// In the list: no value gets another length.
    List(Copies),
    /// In updates of their make, of which this is one.
    Update { message: Box<[u8]>, values: Copies },
}

/// A field whose value ripples to others when it gets another one. Its last values are kept, the newest first, as many as there are places for: what the list
/// has of older ones moves behind those.
#[derive(Debug)]
struct Ripple {
    /// Where the newest value begins among those that are kept; the others follow.
    at: usize,
    /// Bytes of a value.
    len: usize,
    /// Values that are kept at most.
    kept: usize,
    /// Where the values belong in the list, the newest first; of an update that is written again, where its value belongs there.
    places: Box<[u16]>,
}

/// An entry of an update for [`Gather::again`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Again {
    /// Where its value begins in the message.
    pub(super) from: usize,
    /// Bytes of the value.
    pub(super) len: usize,
    /// Fields that the value stands in one after the other, the entry's own among them; 1 if it does not ripple.
    pub(super) fields: usize,
}

impl Ripple {
    /// The chains of which these moves are: from, to and bytes, those of a chain one behind the other, the oldest value's first. `None` if a field that is not
    /// the first one of its chain has another value by the update itself.
    fn all(moves: &[(usize, usize, usize)], entries: &[Entry]) -> Option<Vec<Self>> {
        let of_chain = moves.chunk_by(|(from, ..), (_, to, _)| from == to);
        let chain = |moves: &[(usize, usize, usize)]| {
            let (newest, _, len) = *moves.last()?;
            let places = std::iter::once(newest).chain(moves.iter().rev().map(|(_, to, _)| *to));
            let places: Box<[u16]> = places.map(|place| place as u16).collect();
            Some(Self { at: 0, len, kept: places.len(), places })
        };
        let chains: Vec<Self> = of_chain.map(chain).collect::<Option<_>>()?;
        let is_brought = |place: &u16| entries.iter().any(|entry| entry.to + Entry::HEAD == usize::from(*place));
        let is_simple = |chain: &Self| is_brought(&chain.places[0]) && !chain.places[1..].iter().any(is_brought);
        chains.iter().all(is_simple).then_some(chains)
    }

    /// Makes room for a newer value.
    #[inline]
    fn shift(&self, values: &mut [u8; ROOM]) {
        let older = self.len * (self.kept - 1);
        values.copy_within(self.at..self.at + older, self.at + self.len);
    }

    /// Puts the value of so many updates ago where it belongs in an update. One that came before all that are kept has rippled out of its last place.
    fn put(&self, values: &[u8; ROOM], ago: usize, update: &mut [u8]) {
        let (from, to) = (self.at + ago.min(self.kept - 1) * self.len, usize::from(self.places[0]));
        update[to..to + self.len].copy_from_slice(&values[from..from + self.len]);
    }

    /// Puts the last `count` values where they belong, and those that the list has behind them.
    fn give(&self, values: &[u8; ROOM], count: usize, held: &mut [u8]) {
        let count = count.min(self.places.len());
        let place = |number: usize| usize::from(self.places[number]);
        for number in (count..self.places.len()).rev() {
            let from = place(number - count);
            held.copy_within(from..from + self.len, place(number));
        }
        for (number, value) in values[self.at..].chunks_exact(self.len).take(count).enumerate() {
            held[place(number)..place(number) + self.len].copy_from_slice(value);
        }
    }
}

impl Gather {
    /// `None` if the values are more than are kept, or ripple in a way that is not so simple.
    pub(super) fn new(entries: &[Entry], moves: &[(usize, usize, usize)], seq_num_at: Option<u16>) -> Option<Self> {
        let (mut inward, mut outward, mut end) = (Copying::default(), Copying::default(), 0);
        let mut slots = Vec::new();
        let mut ripples = Ripple::all(moves, entries)?;
        if let Some(place) = seq_num_at {
            inward.add(place.into(), 0, size_of::<u32>(), 0);
            end = size_of::<u32>();
        }
        for entry in entries {
            let (len, to) = (entry.len - Entry::HEAD, entry.to + Entry::HEAD);
            let ripple = ripples.iter_mut().find(|ripple| usize::from(ripple.places[0]) == to);
            let (from, kept) = (entry.from + Entry::HEAD, ripple.as_ref().map_or(1, |ripple| ripple.places.len()));
            // Nothing ripples of a blank, which has no bytes.
            if end + kept * len > ROOM || (ripple.is_some() && len == 0) {
                return None;
            }
            inward.add(from, end, len, 0);
            slots.push(Slot { from, at: end, len, kept });
            match ripple {
                Some(ripple) => ripple.at = end,
                None => outward.add(end, to, len, 0),
            }
            end += kept * len;
        }
        let (inward, outward, ripples) = (inward.end(), Outward::List(outward.end()), ripples.into());
        Some(Self { inward, outward, ripples, seq_num_at, slots: slots.into(), end })
    }

    /// For updates that are applied again when somebody wants the image, since lengths change by them or fields come. `message` is one of them.
    ///
    /// `None` if the values are more than are kept.
    pub(super) fn again(message: &[u8], entries: &[Again], seq_num_at: Option<u16>) -> Option<Self> {
        let (mut inward, mut values, mut ripples, mut end) = (Copying::default(), Copying::default(), Vec::new(), 0);
        let mut slots = Vec::new();
        if let Some(place) = seq_num_at {
            inward.add(place.into(), 0, size_of::<u32>(), 0);
            values.add(0, place.into(), size_of::<u32>(), 0);
            end = size_of::<u32>();
        }
        for Again { from, len, fields } in entries.iter().copied() {
            // Nothing ripples of a blank, which has no bytes.
            if end + fields * len > ROOM || (fields > 1 && len == 0) {
                return None;
            }
            inward.add(from, end, len, 0);
            slots.push(Slot { from, at: end, len, kept: fields });
            if fields > 1 {
                ripples.push(Ripple { at: end, len, kept: fields, places: [from as u16].into() });
            } else {
                values.add(end, from, len, 0);
            }
            end += fields * len;
        }
        let outward = Outward::Update { message: message.into(), values: values.end() };
        Some(Self { inward: inward.end(), outward, ripples: ripples.into(), seq_num_at, slots: slots.into(), end })
    }

    /// Keeps the values of an update.
    #[inline]
    pub(super) fn keep(&self, message: &[u8], latest: &mut Latest) {
        if latest.is_due() {
            self.ripples.iter().for_each(|ripple| ripple.shift(&mut latest.values));
            latest.count = latest.count.saturating_add(1);
        } else {
            latest.count = 1;
        }
        self.inward.carry_out(message, &mut latest.values);
    }

    /// Puts the values where they belong in the list. False, and nothing has changed, if that is for updates to do ([`Self::write_updates`]).
    #[inline]
    pub(super) fn give(&self, latest: &Latest, fields: &mut Fields, seq_num: &mut Option<u32>) -> bool {
        let Outward::List(outward) = &self.outward else { return false };
        if self.seq_num_at.is_some() {
            *seq_num = Some(u32::from_be_bytes(at(&latest.values, 0)));
        }
        for ripple in &self.ripples {
            ripple.give(&latest.values, latest.count.into(), fields.bytes_mut());
        }
        outward.carry_out(&latest.values, fields.bytes_mut());
        true
    }

    /// Writes updates that do to the list what those did that were kept. The last one of all is the last one that was kept; of those before it as many are written as
    /// there are fields for a value to ripple through, and what each of them brings is overwritten by the last but for what has rippled. All have the last one's
    /// sequence number.
    pub(super) fn write_updates(&self, latest: &Latest, updates: &mut Updates) {
        let Outward::Update { message, values } = &self.outward else { return };
        let most = self.ripples.iter().map(|ripple| ripple.kept).max().unwrap_or(1);
        for ago in (0..most.min(latest.count.into())).rev() {
            let update = updates.add(message);
            values.carry_out(&latest.values, update);
            self.ripples.iter().for_each(|ripple| ripple.put(&latest.values, ago, update));
        }
    }
}
