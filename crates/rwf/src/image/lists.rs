//! Field lists and element lists: entries one behind the other in the form in which they are sent.

use super::chains::{Begun, Chains, Noting};
use super::{ApplyError, Schema};
use crate::container::{ElementListInfo, FieldListInfo};
use crate::dictionary::{Dictionary, FieldDef};
use crate::rmtes::{self, RmtesCache};
use crate::wire::{Reader, Writer};
use crate::{
    DataType, ElementList, ElementListEncoder, EncodeError, FieldEntry, FieldList, FieldListEncoder, Primitive,
};
use std::ops::Range;

/// Longest value in set form once it stands on its own.
const MAX_SET_VALUE: usize = 32;

/// A value as standard data has it, whatever form it came in.
fn standard<'a>(enc: DataType, data: &'a [u8], room: &'a mut [u8; MAX_SET_VALUE]) -> Result<&'a [u8], ApplyError> {
    if enc == DataType::UNKNOWN || enc == enc.base() {
        return Ok(data);
    }
    let value = Primitive::decode(enc, data)?;
    let mut w = Writer::new(room);
    value.encode(&mut w)?;
    Ok(w.into_written())
}

/// Spare room that a list gets when it has to grow: an eighth, so that memory stays near what is held.
fn spare(len: usize) -> usize {
    len / 8 + 8
}

/// Gives the bytes at `old` another length; at the end if that is empty there. What is in them then is not specified. Nothing
/// is allocated as long as the capacity is enough.
fn resize_at(bytes: &mut Vec<u8>, old: &Range<usize>, len: usize) {
    let end = bytes.len();
    if len > old.len() {
        let more = len - old.len();
        if bytes.capacity() - end < more {
            bytes.reserve_exact(more.max(spare(end)));
        }
        bytes.resize(end + more, 0);
        bytes.copy_within(old.end..end, old.end + more);
    } else {
        bytes.copy_within(old.end.., old.start + len);
        bytes.truncate(end - (old.len() - len));
    }
}

/// Puts `new` in the place of `old`, at the end if that is empty there.
fn splice(bytes: &mut Vec<u8>, old: Range<usize>, new: &[u8]) {
    resize_at(bytes, &old, new.len());
    bytes[old.start..old.start + new.len()].copy_from_slice(new);
}

/// A field list.
#[derive(Debug, Default)]
pub(super) struct Fields {
    info: Option<FieldListInfo>,
    count: u16,
    chains: Chains,
    /// Field id and length-prefixed value of each field.
    bytes: Vec<u8>,
}

/// Most fields that a value passes through when it ripples; the longest chain of the published dictionaries has five.
pub(super) const MAX_RIPPLE: usize = 16;

/// First byte of a partial text.
pub(super) const ESC: u8 = 0x1B;

/// Of a [`head`]: field id and length; field id.
pub(super) const ENTRY: u32 = 0xFF_FFFF;
const FID: u32 = 0xFFFF;
/// Lengths from here on are in the long form.
pub(super) const LONG: u32 = 0xFE;
const LONG_HEAD: u8 = LONG as u8;

/// Head of an entry as one number: field id and length in the short form. Behind those is a byte of the value, or of the next entry.
#[inline]
pub(super) fn head(entry: Option<&[u8]>) -> Option<u32> {
    entry?.first_chunk().map(|head| u32::from_le_bytes(*head))
}

/// How far [`overwrite`] has come.
#[derive(Default)]
struct Overwritten {
    /// Entries of the update, and their bytes.
    count: u16,
    bytes: usize,
    /// Where the last of them ends in what is held.
    cursor: usize,
}

/// Writes entries of an update over those that are held from `cursor` on, as long as they are there in this order and with values of
/// these lengths: nearly all of nearly all updates. Those beside each other in both are copied at once. What this stops at is for
/// [`Fields::put_entry`].
fn overwrite(held: &mut [u8], cursor: usize, update: &[u8], left: u16) -> Overwritten {
    let (mut from, mut to) = (0, cursor);
    let (mut count, mut at, mut place) = (0, 0, cursor);
    'entries: while count < left {
        let Some(wanted) = head(update.get(at..)) else { break };
        let length = (wanted >> 16) & 0xFF;
        let end = at + 3 + length as usize;
        if length >= LONG || end > update.len() {
            break;
        }
        let Some(mut found) = head(held.get(place..)) else { break };
        if (found ^ wanted) & ENTRY != 0 {
            held[to..to + at - from].copy_from_slice(&update[from..at]);
            let mut next = place;
            while (found ^ wanted) & ENTRY != 0 {
                let length = (found >> 16) & 0xFF;
                if (found ^ wanted) & FID == 0 || length >= LONG {
                    (from, to) = (at, place);
                    break 'entries;
                }
                next += 3 + length as usize;
                let Some(behind) = head(held.get(next..)) else {
                    (from, to) = (at, place);
                    break 'entries;
                };
                found = behind;
            }
            (from, to, place) = (at, next, next);
        }
        count += 1;
        place += end - at;
        at = end;
    }
    held[to..to + at - from].copy_from_slice(&update[from..at]);
    Overwritten { count, bytes: at, cursor: place }
}

/// Whether a byte is there that partial texts begin with. Eight at a time: values are short, and few have one.
#[inline]
pub(super) fn has_escape(bytes: &[u8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let zero = |word: u64| word.wrapping_sub(EACH) & !word & (EACH << 7);
    let of = |bytes: &[u8; 8]| zero(u64::from_le_bytes(*bytes) ^ (EACH * ESC as u64));
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.contains(&ESC) };
    bytes.as_chunks::<8>().0.iter().fold(of(last), |any, word| any | of(word)) != 0
}

/// Held fields through which a value ripples, and where their entries are.
#[derive(Default)]
struct Chain {
    fields: [(i16, Range<usize>); MAX_RIPPLE],
    len: usize,
}

impl Chain {
    fn fields(&self) -> &[(i16, Range<usize>)] {
        &self.fields[..self.len]
    }

    fn has(&self, fid: i16) -> bool {
        self.fields().iter().any(|(known, _)| *known == fid)
    }
}

impl Fields {
    /// Forgets all fields, but not the memory for them.
    pub(super) fn clear(&mut self) {
        self.info = None;
        self.count = 0;
        self.chains = Chains::default();
        self.bytes.clear();
    }

    /// Replaces the fields that `data` has, and appends those that are new. In an update, fields ripple first.
    pub(super) fn apply(&mut self, data: &[u8], schema: &Schema<'_>, refresh: bool) -> Result<(), ApplyError> {
        let plain = FieldList::plain(data);
        if refresh && self.bytes.is_empty() && plain.is_some_and(|plain| self.fill_plain(plain)) {
            return Ok(());
        }
        let rippling = schema.dictionary.filter(|_| schema.ripple && !refresh);
        let rippling = rippling.filter(|dictionary| !self.ripple_at_places(plain, dictionary));
        let mut done = Overwritten::default();
        if let Some((update, count)) = plain.filter(|(update, _)| rippling.is_none() && !has_escape(update)) {
            done = overwrite(&mut self.bytes, 0, update, count);
            if done.count == count {
                return Ok(());
            }
        }
        self.apply_rest(data, schema, rippling, &done)
    }

    #[inline(never)]
    fn apply_rest(
        &mut self,
        data: &[u8],
        schema: &Schema<'_>,
        rippling: Option<&Dictionary>,
        done: &Overwritten,
    ) -> Result<(), ApplyError> {
        let list = FieldList::decode(data, &schema.sets)?;
        if list.is_set_skipped() {
            return Err(ApplyError::UnknownSet);
        }
        self.info = list.info.or(self.info);
        if self.bytes.is_empty() {
            return self.fill(&list, data.len(), schema);
        }
        if let Some(dictionary) = rippling {
            self.ripple(&list, dictionary)?;
        }
        self.replace(&list, schema, done)
    }

    /// Takes the entries of a list in as they are, where none is held. False, and nothing is changed, if they are to be looked at one by one: a long value
    /// might be written shorter, and what does not end where it says is an error.
    fn fill_plain(&mut self, (entries, count): (&[u8], u16)) -> bool {
        let (mut rest, mut left) = (entries, count);
        while let [_, _, length @ 0..LONG_HEAD, behind @ ..] = rest
            && left > 0
            && let Some(next) = behind.get(usize::from(*length)..)
        {
            (rest, left) = (next, left - 1);
        }
        let len = entries.len() - rest.len();
        if left > 0 || len == 0 {
            return false;
        }
        if self.bytes.capacity() < len {
            self.bytes.reserve_exact(len + spare(len));
        }
        self.bytes.extend_from_slice(&entries[..len]);
        (self.count, self.chains) = (count, Chains::default());
        true
    }

    /// Takes the fields of a list in where none is held. With the room that a list gets when it grows, which it does as a rule with its first update: many
    /// fields of an image are blank. A million first updates would else look for other memory each.
    fn fill(&mut self, list: &FieldList<'_>, len: usize, schema: &Schema<'_>) -> Result<(), ApplyError> {
        if self.bytes.capacity() < len {
            self.bytes.reserve_exact(len + spare(len));
        }
        for entry in list.entries() {
            let end = self.bytes.len();
            self.put_entry(&entry?, end..end, schema)?;
        }
        Ok(())
    }

    /// Replaces and appends what is not `done`.
    fn replace(&mut self, list: &FieldList<'_>, schema: &Schema<'_>, done: &Overwritten) -> Result<(), ApplyError> {
        let is_partial =
            |entry: FieldEntry<'_>| rmtes::is_partial(entry.data) && entry_may_be_text(&entry, schema.dictionary);
        let has_partial = has_escape(list.entries().standard().0) && list.entries().flatten().any(is_partial);
        // Updates name fields in the image's order as a rule: the search goes on behind the last one found.
        let mut cursor = done.cursor;
        let mut entries = list.entries();
        if done.count > 0 {
            entries.skip_standard(done.count, done.bytes);
        }
        loop {
            if !has_partial && !entries.in_set() {
                let (update, left) = entries.standard();
                let done = overwrite(&mut self.bytes, cursor, update, left);
                entries.skip_standard(done.count, done.bytes);
                cursor = done.cursor;
            }
            let Some(entry) = entries.next() else { return Ok(()) };
            let entry = entry?;
            let place = self.find_from(entry.fid, cursor).unwrap_or(self.bytes.len()..self.bytes.len());
            cursor = self.put_entry(&entry, place, schema)?;
        }
    }

    /// Puts a field in its place, at the end if that is empty there. Gives where the entry ends.
    fn put_entry(
        &mut self,
        entry: &FieldEntry<'_>,
        place: Range<usize>,
        schema: &Schema<'_>,
    ) -> Result<usize, ApplyError> {
        let mut room = [0; MAX_SET_VALUE];
        let value = standard(entry.enc, entry.data, &mut room)?;
        let partial = !place.is_empty() && rmtes::is_partial(value) && entry_may_be_text(entry, schema.dictionary);
        if partial && holds_text(&self.bytes[place.clone()]) {
            let whole = changed_text(&self.bytes[place.clone()], value)?;
            return self.put(entry.fid, place, whole.bytes());
        }
        self.put(entry.fid, place, value)
    }

    /// Gives the entry at `place` another length.
    fn resize(&mut self, place: &Range<usize>, len: usize) {
        resize_at(&mut self.bytes, place, len);
        self.chains.moved(place.start, len as isize - place.len() as isize);
    }

    /// Writes a value to the place of its field; at the end for a new one. Gives where the entry ends.
    fn put(&mut self, fid: i16, place: Range<usize>, value: &[u8]) -> Result<usize, ApplyError> {
        let length = u16::try_from(value.len()).map_err(|_| ApplyError::TooLarge("a longer value"))?;
        let head = if length < 0xFE { 3 } else { 5 };
        if place.is_empty() {
            self.count = self.count.checked_add(1).ok_or(ApplyError::TooLarge("more entries"))?;
            self.chains = Chains::default();
        }
        let end = place.start + head + value.len();
        if place.len() != head + value.len() {
            self.resize(&place, head + value.len());
        }
        let entry = &mut self.bytes[place.start..end];
        entry[..2].copy_from_slice(&fid.to_be_bytes());
        let [hi, lo] = length.to_be_bytes();
        if head == 3 {
            entry[2] = lo;
        } else {
            entry[2..5].copy_from_slice(&[0xFE, hi, lo]);
        }
        entry[head..].copy_from_slice(value);
        Ok(end)
    }

    /// Has fields ripple by what is noted of their places. False, and nothing is changed, if that is not enough.
    #[inline]
    fn ripple_at_places(&mut self, plain: Option<(&[u8], u16)>, dictionary: &Dictionary) -> bool {
        if !self.chains.is_of(dictionary) {
            self.note_chains(dictionary);
        }
        if self.chains.is_nowhere() {
            return true;
        }
        let begun = match (self.chains.noted(), plain) {
            (Some(places), Some((update, count))) => places.begun_by(&self.bytes, update, count, dictionary),
            _ => None,
        };
        for chain in begun.iter().flat_map(Begun::chains) {
            self.pass_on_at_places(chain);
        }
        begun.is_some()
    }

    /// Each field of a noted chain gets the value of the one before.
    fn pass_on_at_places(&mut self, chain: Range<usize>) {
        for number in (chain.start + 1..chain.end).rev() {
            let Some(places) = self.chains.noted() else {
                debug_assert!(false, "places that are noted went out of reach");
                return;
            };
            let (mut from, to) = (places.at(number - 1), places.at(number));
            let (length, before) = (self.bytes[from + 2], self.bytes[to + 2]);
            if length != before {
                self.resize(&(to..to + 3 + usize::from(before)), 3 + usize::from(length));
                self.bytes[to + 2] = length;
                if let Some(places) = self.chains.noted() {
                    from = places.at(number - 1);
                }
            }
            self.bytes.copy_within(from + 3..from + 3 + usize::from(length), to + 3);
        }
    }

    /// Which bytes of what is held ripple where when an update comes, in their order: from, to, how many. `None` if that is not so simple,
    /// or values would have other lengths.
    pub(super) fn ripples_to(
        &mut self,
        update: &[u8],
        count: u16,
        dictionary: &Dictionary,
    ) -> Option<Vec<(usize, usize, usize)>> {
        if !self.chains.is_of(dictionary) {
            self.note_chains(dictionary);
        }
        if self.chains.is_nowhere() {
            return Some(Vec::new());
        }
        let places = self.chains.noted()?;
        let begun = places.begun_by(&self.bytes, update, count, dictionary)?;
        let pairs = || begun.chains().flat_map(|chain| (chain.start + 1..chain.end).rev());
        let length = |number: usize| self.bytes[places.at(number) + 2];
        if pairs().any(|number| length(number - 1) != length(number)) {
            return None;
        }
        let moved = |number| (places.at(number - 1) + 3, places.at(number) + 3, usize::from(length(number)));
        Some(pairs().map(moved).collect())
    }

    /// Whether all entries of an update are held, with values of the same lengths in the short form.
    pub(super) fn has_all(&self, update: &[u8], count: u16) -> bool {
        let (mut rest, mut cursor) = (update, 0);
        for _ in 0..count {
            let [hi, lo, length, behind @ ..] = rest else { return false };
            let held = self.find_from(i16::from_be_bytes([*hi, *lo]), cursor);
            let len = usize::from(*length);
            let Some(held) = held.filter(|held| u32::from(*length) < LONG && held.len() == 3 + len) else {
                return false;
            };
            let Some(next) = behind.get(len..) else { return false };
            (rest, cursor) = (next, held.end);
        }
        true
    }

    /// The number of the list's layout; 0 if that is not known.
    #[inline]
    pub(super) const fn layout(&self) -> u32 {
        self.chains.layout()
    }

    /// The list is of the layout of this number, until a field comes or a value has another length.
    pub(super) const fn set_layout(&mut self, layout: u32) {
        self.chains.set_layout(layout);
    }

    /// The entries.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Other entries take the place of all, as many as `count`, which are of this layout.
    pub(super) fn replace_all(&mut self, entries: &[u8], count: u16, layout: u32) {
        let before = self.bytes.len();
        self.bytes.clear();
        if self.bytes.capacity() < entries.len() {
            self.bytes.reserve_exact(entries.len().max(before + spare(before)));
        }
        self.bytes.extend_from_slice(entries);
        self.count = count;
        self.chains.forget();
        self.chains.set_layout(layout);
    }

    /// The entries, to have values of the same lengths.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Reads the heads of all entries. False if there is none, if there are more than `max`, or a value is long.
    pub(super) fn read_heads(&self, heads: &mut Vec<u32>, max: usize) -> bool {
        heads.clear();
        let mut rest = &self.bytes[..];
        while let [hi, lo, length, behind @ ..] = rest
            && u32::from(*length) < LONG
            && let Some(next) = behind.get(usize::from(*length)..)
        {
            heads.push(u32::from_le_bytes([*hi, *lo, *length, 0]));
            rest = next;
        }
        rest.is_empty() && (1..=max).contains(&heads.len())
    }

    /// Has the memory of the entries come near.
    #[inline]
    pub(super) fn touch(&self) -> u8 {
        /// Bytes that come at once, and how often of them.
        const LINE: usize = 64;
        const LINES: usize = 8;
        self.bytes.iter().step_by(LINE).take(LINES).fold(0, |seen, byte| seen ^ byte)
    }

    /// Looks for fields that ripple to others that are held.
    #[inline(never)]
    fn note_chains(&mut self, dictionary: &Dictionary) {
        let mut noting = Noting::new(dictionary);
        let mut chain = Chain::default();
        // First those that begin with fields to which nothing ripples that is held, then whether that were all.
        for heads in [true, false] {
            let mut r = Reader::new(&self.bytes, "held field list");
            while let Ok(fid) = r.i16() {
                let at = r.offset() - 2;
                self.follow(fid, dictionary, &mut chain);
                let places = chain.fields().iter().map(|(_, place)| place.start);
                if chain.len == MAX_RIPPLE {
                    noting.give_up();
                } else if chain.len > 1 && heads && !self.is_rippled_to(fid, dictionary) {
                    noting.chain(places);
                } else if chain.len > 1 && !heads && !noting.has(at) {
                    noting.give_up();
                }
                if r.buf16().is_err() {
                    break;
                }
            }
        }
        self.chains.replace(noting.end());
    }

    /// Whether a field that is held ripples to this one.
    fn is_rippled_to(&self, wanted: i16, dictionary: &Dictionary) -> bool {
        let mut r = Reader::new(&self.bytes, "held field list");
        while let Ok(fid) = r.i16() {
            if fid != wanted && dictionary.field(fid).and_then(FieldDef::ripples_to) == Some(wanted) {
                return true;
            }
            if r.buf16().is_err() {
                break;
            }
        }
        false
    }

    /// Hands the held values of the fields that an update is about to change on to the fields that they ripple to, as far as
    /// those are held. What the update itself says of such a field comes after, and counts.
    #[inline(never)]
    fn ripple(&mut self, update: &FieldList<'_>, dictionary: &Dictionary) -> Result<(), ApplyError> {
        let (mut chain, mut other_chain) = (Chain::default(), Chain::default());
        for entry in update.entries() {
            let fid = entry?.fid;
            self.follow(fid, dictionary, &mut chain);
            if chain.len < 2 {
                continue;
            }
            // A field further along in the chain of another one is moved with that one.
            let mut others = update.entries().flatten().filter(|other| other.fid != fid);
            let moved = dictionary.is_rippled_to(fid)
                && others.any(|other| {
                    self.follow(other.fid, dictionary, &mut other_chain);
                    other_chain.has(fid)
                });
            if !moved {
                self.pass_on(chain.fields());
            }
        }
        Ok(())
    }

    /// Each field of a chain gets the value of the one before.
    fn pass_on(&mut self, chain: &[(i16, Range<usize>)]) {
        let same_length = chain.windows(2).all(|pair| pair[0].1.len() == pair[1].1.len());
        for pair in chain.windows(2).rev() {
            let [(from, source), (to, place)] = pair else { continue };
            if same_length {
                self.bytes.copy_within(source.start + 2..source.end, place.start + 2);
            } else {
                self.copy_value(*from, *to);
            }
        }
    }

    /// A field and those that its value ripples through, as far as all are held; none for a field that does not ripple.
    fn follow(&self, fid: i16, dictionary: &Dictionary, chain: &mut Chain) {
        chain.len = 0;
        let mut cursor = 0;
        let mut next = dictionary.field(fid).and_then(|field| field.ripples_to().map(|_| fid));
        while let Some(fid) = next.filter(|&fid| chain.len < MAX_RIPPLE && !chain.has(fid)) {
            let Some(place) = self.find_from(fid, cursor) else { break };
            cursor = place.end;
            chain.fields[chain.len] = (fid, place);
            chain.len += 1;
            next = dictionary.field(fid).and_then(FieldDef::ripples_to);
        }
    }

    /// Gives a held field the value of another.
    fn copy_value(&mut self, from: i16, to: i16) {
        let (Some(source), Some(place)) = (self.find_from(from, 0), self.find_from(to, 0)) else { return };
        let len = source.len();
        let grown = len as isize - place.len() as isize;
        self.resize(&place, len);
        // The source has moved if it lies behind.
        let start = if source.start > place.start { source.start.wrapping_add_signed(grown) } else { source.start };
        self.bytes.copy_within(start..start + len, place.start);
        self.bytes[place.start..place.start + 2].copy_from_slice(&to.to_be_bytes());
    }

    /// The entry of a field: first looked for from `cursor`, between two entries, on.
    #[inline]
    pub(super) fn find_from(&self, fid: i16, cursor: usize) -> Option<Range<usize>> {
        self.find(fid, cursor..self.bytes.len()).or_else(|| self.find(fid, 0..cursor))
    }

    /// The entry of a field within a range that begins and ends between entries.
    #[inline]
    fn find(&self, fid: i16, range: Range<usize>) -> Option<Range<usize>> {
        let wanted = fid.to_be_bytes();
        let mut rest = &self.bytes[range.clone()];
        while let [hi, lo, short, behind @ ..] = rest {
            let (head, length) = match (short, behind) {
                (0..0xFE, _) => (3, usize::from(*short)),
                (_, [hi, lo, ..]) => (5, usize::from(u16::from_be_bytes([*hi, *lo]))),
                _ => return None,
            };
            if [*hi, *lo] == wanted {
                let at = range.end - rest.len();
                return Some(at..at + head + length);
            }
            rest = rest.get(head + length..)?;
        }
        None
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = FieldListEncoder::begin(w)?;
        if let Some(info) = self.info {
            list.info(info)?;
        }
        list.begin_standard()?;
        list.finish_bare();
        let count_at = w.position() - 2;
        w.patch_u16(count_at, self.count);
        w.bytes(&self.bytes)
    }
}

/// Whether a field may be RMTES text: the set or the dictionary says so, or nobody says anything.
#[inline]
fn entry_may_be_text(entry: &FieldEntry<'_>, dictionary: Option<&Dictionary>) -> bool {
    if entry.enc == DataType::UNKNOWN {
        may_be_text(entry.fid, dictionary)
    } else {
        entry.enc.base() == DataType::RMTES_STRING
    }
}

/// Whether a field of standard data may be RMTES text: the dictionary says so, or nobody says anything.
#[inline]
pub(super) fn may_be_text(fid: i16, dictionary: Option<&Dictionary>) -> bool {
    match dictionary.and_then(|dictionary| dictionary.field(fid)) {
        Some(field) => field.data_type() == DataType::RMTES_STRING,
        None => true,
    }
}

/// Whether what a field's entry holds can be text: a number may begin with the bytes of a partial update.
fn holds_text(entry: &[u8]) -> bool {
    let mut r = Reader::new(entry, "held field");
    r.i16().and_then(|_| r.buf16()).is_ok_and(|held| rmtes::decode(held).is_ok())
}

/// The held text of a field's entry with the parts replaced that an update names. Types are not known here; only RMTES has
/// sequences that say so.
fn changed_text(entry: &[u8], update: &[u8]) -> Result<RmtesCache, ApplyError> {
    let mut r = Reader::new(entry, "held field");
    r.i16()?;
    let mut text = RmtesCache::new();
    text.apply(r.buf16()?)?;
    text.apply(update)?;
    Ok(text)
}

fn write_ob16(out: &mut Vec<u8>, value: &[u8]) -> Result<(), ApplyError> {
    let length = u16::try_from(value.len()).map_err(|_| ApplyError::TooLarge("a longer value"))?;
    if length < 0xFE {
        out.push(length as u8);
    } else {
        out.push(0xFE);
        out.extend_from_slice(&length.to_be_bytes());
    }
    out.extend_from_slice(value);
    Ok(())
}

/// An element list.
#[derive(Debug, Default)]
pub(super) struct Elements {
    info: Option<ElementListInfo>,
    count: u16,
    /// Name, type and value of each element.
    bytes: Vec<u8>,
}

impl Elements {
    /// Replaces the elements that `data` has, and appends those that are new.
    pub(super) fn apply(&mut self, data: &[u8], schema: &Schema<'_>) -> Result<(), ApplyError> {
        let list = ElementList::decode(data, &schema.sets)?;
        if list.is_set_skipped() {
            return Err(ApplyError::UnknownSet);
        }
        self.info = list.info.or(self.info);
        let mut entry_bytes = Vec::new();
        for entry in list.entries() {
            let entry = entry?;
            let mut room = [0; MAX_SET_VALUE];
            let value = standard(entry.data_type, entry.data, &mut room)?;
            write_element(&mut entry_bytes, entry.name, entry.data_type.base(), value)?;
            let place = self.find(entry.name)?.unwrap_or(self.bytes.len()..self.bytes.len());
            if place.is_empty() {
                self.count = self.count.checked_add(1).ok_or(ApplyError::TooLarge("more entries"))?;
            }
            splice(&mut self.bytes, place, &entry_bytes);
        }
        Ok(())
    }

    fn find(&self, name: &[u8]) -> Result<Option<Range<usize>>, ApplyError> {
        let mut r = Reader::new(&self.bytes, "held element list");
        while !r.is_empty() {
            let start = r.offset();
            let found = r.buf15()? == name;
            if DataType(r.u8()?) != DataType::NO_DATA {
                r.buf16()?;
            }
            if found {
                return Ok(Some(start..r.offset()));
            }
        }
        Ok(None)
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = ElementListEncoder::begin(w)?;
        if let Some(info) = self.info {
            list.info(info)?;
        }
        list.finish()?;
        let count_at = w.position() - 2;
        w.patch_u16(count_at, self.count);
        w.bytes(&self.bytes)
    }
}

fn write_element(out: &mut Vec<u8>, name: &[u8], data_type: DataType, value: &[u8]) -> Result<(), ApplyError> {
    out.clear();
    match u16::try_from(name.len()) {
        Ok(short @ 0..0x80) => out.push(short as u8),
        Ok(length @ 0x80..0x8000) => out.extend_from_slice(&(0x8000 | length).to_be_bytes()),
        _ => return Err(ApplyError::TooLarge("a longer value")),
    }
    out.extend_from_slice(name);
    out.push(data_type.0);
    if data_type == DataType::NO_DATA { Ok(()) } else { write_ob16(out, value) }
}
