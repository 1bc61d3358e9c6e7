//! How updates that change the length of a value, or bring fields, are applied to lists of one layout: the new list is written from
//! stretches of the held one and of the update. What ripples is in the stretches.
//!
//! The first update of an item is such a one as a rule: its image had blanks, or numbers of other lengths. Where many items are alike, the
//! second of them does not look for its fields any more.

use super::latest::Again;
use super::lists::{ENTRY, Fields, LONG, MAX_RIPPLE, head};
use crate::dictionary::{Dictionary, FieldDef};
use std::ops::Range;

/// Bytes of an entry before its value: field id and length in the short form.
const HEAD: usize = 3;
/// Bytes of the field id.
const FID: usize = 2;

/// Bytes of the new list: so many of the update's message, or of the held list.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    is_new: bool,
    from: u16,
    len: u16,
}

/// The new list.
#[derive(Debug)]
pub(super) struct Rebuild {
    stretches: Box<[Stretch]>,
    /// The list's entries.
    count: u16,
    /// The number of its layout.
    layout: u32,
    /// How often each entry's value is to be kept, so that updates of this make can be applied later; `None` if they cannot.
    again: Option<Box<[Again]>>,
}

/// An entry of the list as it becomes: whose field id it has, and whose length and value.
struct Entry {
    fid: i16,
    id: Source,
    value: Source,
}

/// An entry of the held list, or of the update.
#[derive(Clone, Copy)]
struct Source {
    is_new: bool,
    /// Where the entry begins.
    start: usize,
    /// Bytes of its value.
    len: usize,
}

impl Rebuild {
    /// The list that becomes of one of this layout by so many entries of an update, which lie there in its message; its heads are left in
    /// `heads`. `None` if it is not so simple: a field twice, long values. The number of the new layout is for the caller to set.
    pub(super) fn new(
        layout: &[u32],
        (message, entries, count): (&[u8], Range<usize>, u16),
        rippling: Option<&Dictionary>,
        heads: &mut Vec<u32>,
    ) -> Option<Self> {
        let mut list = held_entries(layout);
        let update = new_entries(message, entries, count)?;
        if has_twice(&list) || has_twice(&update) {
            return None;
        }
        if let Some(dictionary) = rippling {
            ripple(&mut list, &update, dictionary);
        }
        let brought: Vec<(i16, Source)> = update.iter().map(|entry| (entry.fid, entry.value)).collect();
        for entry in update {
            match list.iter_mut().find(|held| held.fid == entry.fid) {
                Some(held) => *held = entry,
                None => list.push(entry),
            }
        }
        let again = again(&list, &brought, rippling);
        heads.clear();
        heads.extend(list.iter().map(|Entry { fid, value, .. }| {
            let [hi, lo] = fid.to_be_bytes();
            u32::from_le_bytes([hi, lo, value.len as u8, 0])
        }));
        let count = u16::try_from(list.len()).ok()?;
        Some(Self { stretches: stretches(&list)?, count, layout: 0, again })
    }

    /// The entries of the update, if those of this make can be applied later, one after the other.
    pub(super) fn again(&self) -> Option<&[Again]> {
        self.again.as_deref()
    }

    pub(super) const fn set_layout(&mut self, layout: u32) {
        self.layout = layout;
    }

    /// Applies an update of this make to a list of the layout; `room` is for the new list until it is whole.
    pub(super) fn carry_out(&self, fields: &mut Fields, message: &[u8], room: &mut Vec<u8>) {
        debug_assert_ne!(self.layout, 0, "the new list is of no layout");
        room.clear();
        for Stretch { is_new, from, len } in &self.stretches {
            let source = if *is_new { message } else { fields.bytes() };
            let from = usize::from(*from);
            room.extend_from_slice(&source[from..from + usize::from(*len)]);
        }
        fields.replace_all(room, self.count, self.layout);
    }
}

/// The entries of a held list of this layout.
fn held_entries(layout: &[u32]) -> Vec<Entry> {
    let mut start = 0;
    let entry = |head: &u32| {
        let [hi, lo, len, _] = head.to_le_bytes();
        let source = Source { is_new: false, start, len: usize::from(len) };
        start += HEAD + source.len;
        Entry { fid: i16::from_be_bytes([hi, lo]), id: source, value: source }
    };
    layout.iter().map(entry).collect()
}

/// The entries of an update.
fn new_entries(message: &[u8], Range { start: mut at, .. }: Range<usize>, count: u16) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for _ in 0..count {
        // The last entry of a message may be empty: nothing is behind its head then.
        let wanted = match head(message.get(at..)) {
            Some(wanted) => wanted & ENTRY,
            None => u32::from_le_bytes([*message.get(at)?, *message.get(at + 1)?, *message.get(at + 2)?, 0]),
        };
        let [hi, lo, len, _] = wanted.to_le_bytes();
        if u32::from(len) >= LONG || at + HEAD + usize::from(len) > message.len() {
            return None;
        }
        let source = Source { is_new: true, start: at, len: usize::from(len) };
        entries.push(Entry { fid: i16::from_be_bytes([hi, lo]), id: source, value: source });
        at += HEAD + source.len;
    }
    Some(entries)
}

/// Whether a field is there twice: which of them is meant depends on where the search begins.
fn has_twice(entries: &[Entry]) -> bool {
    let mut fids: Vec<_> = entries.iter().map(|entry| entry.fid).collect();
    fids.sort_unstable();
    fids.windows(2).any(|pair| pair[0] == pair[1])
}

/// Has values ripple as an update of these fields makes them.
fn ripple(list: &mut [Entry], update: &[Entry], dictionary: &Dictionary) {
    for &Entry { fid, .. } in update {
        let chain = follow(list, fid, dictionary);
        // A field further along in the chain of another one is moved with that one.
        let is_moved = || {
            let mut others = update.iter().filter(|other| other.fid != fid);
            dictionary.is_rippled_to(fid)
                && others.any(|other| follow(list, other.fid, dictionary).iter().any(|&at| list[at].fid == fid))
        };
        if chain.len() < 2 || is_moved() {
            continue;
        }
        for pair in chain.windows(2).rev() {
            list[pair[1]].value = list[pair[0]].value;
        }
    }
}

/// The places of a field and of those that its value ripples through, as far as all are held; none for a field that does not ripple.
fn follow(list: &[Entry], fid: i16, dictionary: &Dictionary) -> Vec<usize> {
    let next_of = |fid: i16| dictionary.field(fid).and_then(FieldDef::ripples_to);
    let mut chain: Vec<usize> = Vec::new();
    let mut next = next_of(fid).map(|_| fid);
    while let Some(fid) = next.filter(|fid| chain.len() < MAX_RIPPLE && chain.iter().all(|&at| list[at].fid != *fid)) {
        let Some(at) = list.iter().position(|entry| entry.fid == fid) else { break };
        chain.push(at);
        next = next_of(fid);
    }
    chain
}

/// The entries of an update, with the fields of the list as it becomes that each of their values ripples through from the next update on. `None` if one of those
/// fields has another value by the update itself.
fn again(list: &[Entry], brought: &[(i16, Source)], rippling: Option<&Dictionary>) -> Option<Box<[Again]>> {
    let is_brought = |at: &usize| brought.iter().any(|(fid, _)| *fid == list[*at].fid);
    let entry = |&(fid, Source { start, len, .. }): &(i16, Source)| {
        let chain = rippling.map_or_else(Vec::new, |dictionary| follow(list, fid, dictionary));
        let is_simple = !chain.iter().skip(1).any(is_brought);
        is_simple.then(|| Again { from: start + HEAD, len, fields: chain.len().max(1) })
    };
    brought.iter().map(entry).collect()
}

/// The stretches to write one behind the other; those that lie side by side are one.
fn stretches(list: &[Entry]) -> Option<Box<[Stretch]>> {
    let mut all: Vec<Stretch> = Vec::new();
    let mut add = |source: Source, from: usize, len: usize| {
        match all.last_mut() {
            Some(last) if last.is_new == source.is_new && usize::from(last.from) + usize::from(last.len) == from => {
                last.len = u16::try_from(usize::from(last.len) + len).ok()?;
            }
            _ => all.push(Stretch {
                is_new: source.is_new,
                from: u16::try_from(from).ok()?,
                len: u16::try_from(len).ok()?,
            }),
        }
        Some(())
    };
    for Entry { id, value, .. } in list {
        add(*id, id.start, FID)?;
        add(*value, value.start + FID, HEAD - FID + value.len)?;
    }
    Some(all.into())
}
