//! Merging updates of one stream into fewer that lead to the same image.
//!
//! Quotes merge, everything else is kept: an update merges if it is of type Unspecified, Quote or Multiple, has a field list
//! or a map of such (`book`), and neither flags (`DO_NOT_CONFLATE`, `DO_NOT_CACHE`) nor members forbid that (permission data of its own, an extended header, who posted it).
//! Of each field the last value counts.
//!
//! # Fields that ripple
//! A receiver that ripples hands the value that a field had on to another field (`BID` to `BID_1` to `BID_2`), once for each update.
//! So as many of the last values of a rippling field are kept as it ripples through fields, and they go out one behind the other: small
//! updates with those older values alone, and the merged one behind them. A receiver that does not ripple sees the last values.
//! An update that sets a field to which others ripple is not merged, nor one that has a partial text: what these do depends on the image.

mod book;

use crate::encode;
use book::Book;
use rustc_hash::{FxHashMap, FxHashSet};
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::image::{Payload, Schema};
use rwf::msg::{Conflation, Domain, UpdateFlags, UpdateMsg, UpdateType};
use rwf::{DataType, EncodeError, FieldList, FieldListEncoder, SetScope, rmtes};
use std::collections::VecDeque;

/// Most updates that one stands for, as conflation information can say it.
const MAX_COUNT: u16 = 0x7FFF;

/// Longest chain of fields that is followed; the longest one of the published dictionaries has five.
const MAX_CHAIN: usize = 16;

/// Which fields hand their values on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ripples {
    by_fid: FxHashMap<i16, Role>,
}

/// What a field is in a chain of fields that ripple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The first one: as many fields, it included, are in the chain.
    Head(u8),
    /// Others ripple to it.
    Member,
}

impl Ripples {
    /// The chains of a dictionary.
    pub fn of(dictionary: &Dictionary) -> Self {
        let next = |fid: i16| dictionary.field(fid).and_then(FieldDef::ripples_to);
        let members: FxHashSet<i16> = dictionary.fields().filter_map(FieldDef::ripples_to).collect();
        let mut by_fid: FxHashMap<i16, Role> = members.iter().map(|&fid| (fid, Role::Member)).collect();
        for field in dictionary.fields().filter(|field| field.ripples_to().is_some()) {
            if members.contains(&field.fid()) {
                continue;
            }
            let chain = std::iter::successors(Some(field.fid()), |&fid| next(fid)).take(MAX_CHAIN + 1).count();
            let role = if chain > MAX_CHAIN { Role::Member } else { Role::Head(chain as u8) };
            by_fid.insert(field.fid(), role);
        }
        Self { by_fid }
    }

    fn role(&self, fid: i16) -> Option<Role> {
        if self.by_fid.is_empty() { None } else { self.by_fid.get(&fid).copied() }
    }
}

/// True for an update that others may be merged with, as far as its header says.
pub fn may_merge(update: &UpdateMsg<'_>) -> bool {
    let barred = UpdateFlags::DO_NOT_CONFLATE | UpdateFlags::DO_NOT_CACHE;
    let is_plain = update.perm_data.is_none() && update.ext_header.is_none() && update.post_user_info.is_none();
    let is_quote = matches!(update.update_type, UpdateType::UNSPECIFIED | UpdateType::QUOTE | UpdateType::MULTIPLE);
    let is_item = !matches!(update.domain, Domain::LOGIN | Domain::SOURCE | Domain::DICTIONARY);
    let is_known = matches!(update.container, DataType::FIELD_LIST | DataType::MAP);
    is_item && is_plain && is_quote && is_known && update.flags.0 & barred.0 == 0
}

/// A rippling field: its last values, oldest first, the present one included.
#[derive(Debug)]
struct Head {
    fid: i16,
    depth: u8,
    values: VecDeque<Box<[u8]>>,
}

/// The payloads of updates, merged.
#[derive(Debug)]
struct Fields {
    payload: Payload,
    heads: Vec<Head>,
}

impl Fields {
    fn new() -> Self {
        Self { payload: Payload::new(DataType::FIELD_LIST), heads: Vec::new() }
    }

    /// Takes in the fields of an update; false, and nothing changed, if they cannot be merged.
    fn merge(&mut self, body: &[u8], ripples: Option<&Ripples>) -> bool {
        let Ok(list) = FieldList::decode(body, &SetScope::NONE) else { return false };
        if !can_merge(&list, ripples) || self.payload.update(DataType::FIELD_LIST, body, &Schema::NONE).is_err() {
            // What was read before a fault cannot be taken back; `can_merge` has read it all, so there is none.
            debug_assert!(self.payload.is_sound(), "fields that were read cannot be merged");
            return false;
        }
        for entry in list.entries().flatten() {
            let Some(Role::Head(depth)) = ripples.and_then(|ripples| ripples.role(entry.fid)) else { continue };
            let known = self.heads.iter().position(|head| head.fid == entry.fid).unwrap_or_else(|| {
                self.heads.push(Head { fid: entry.fid, depth, values: VecDeque::new() });
                self.heads.len() - 1
            });
            let head = &mut self.heads[known];
            if head.values.len() == usize::from(head.depth) {
                head.values.pop_front();
            }
            head.values.push_back(entry.data.into());
        }
        true
    }

    /// Updates that go out ahead of the merged one, for what ripples.
    fn older(&self) -> usize {
        self.heads.iter().map(|head| head.values.len() - 1).max().unwrap_or_default()
    }

    /// Appends the fields of one of the older updates, 0 the oldest.
    fn write_older(&self, at: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let behind = self.older() - at;
        let room = 16
            + self.heads.iter().map(|head| head.values.iter().map(|v| v.len() + 5).max().unwrap_or(0)).sum::<usize>();
        encode::append(out, room, |w| {
            let mut list = FieldListEncoder::begin(w)?;
            for head in &self.heads {
                if let Some(at) = (head.values.len() - 1).checked_sub(behind) {
                    list.raw(head.fid, &head.values[at])?;
                }
            }
            list.finish()
        })
    }
}

/// True if an update has no field that depends on the image, and each once.
fn can_merge(list: &FieldList<'_>, ripples: Option<&Ripples>) -> bool {
    if list.is_set_skipped() {
        return false;
    }
    let mut seen = 0_u64;
    for (at, entry) in list.entries().enumerate() {
        let Ok(entry) = entry else { return false };
        // A field that comes twice: its bit is looked at first, because two fields seldom share one.
        let bit = 1 << (entry.fid & 63);
        if seen & bit != 0 && list.entries().take(at).flatten().any(|other| other.fid == entry.fid) {
            return false;
        }
        seen |= bit;
        // A value of a set stands in another form than one of its own.
        if entry.enc != DataType::UNKNOWN && ripples.is_some_and(|ripples| ripples.role(entry.fid).is_some()) {
            return false;
        }
        if rmtes::is_partial(entry.data) {
            return false;
        }
        if ripples.and_then(|ripples| ripples.role(entry.fid)) == Some(Role::Member) {
            return false;
        }
    }
    true
}

/// The payloads of updates, merged.
#[derive(Debug)]
enum Content {
    Fields(Fields),
    Book(Book),
}

impl Content {
    fn new(container: DataType) -> Self {
        if container == DataType::MAP { Self::Book(Book::default()) } else { Self::Fields(Fields::new()) }
    }

    /// Takes in the payload of an update; false, and nothing changed, if it cannot be merged.
    fn merge(&mut self, update: &UpdateMsg<'_>, ripples: Option<&Ripples>) -> bool {
        match self {
            Self::Fields(fields) => update.container == DataType::FIELD_LIST && fields.merge(update.body, ripples),
            Self::Book(book) => update.container == DataType::MAP && book.merge(update.body),
        }
    }
}

/// Updates of one stream that go out as one, or as few.
#[derive(Debug)]
pub struct Merged {
    /// The last one, as it came.
    last: Vec<u8>,
    /// Updates that are in it, those counted that were merged before they came.
    count: u16,
    /// When the first one came.
    since: u64,
    /// Milliseconds of the longest merge before they came.
    time: u16,
    update_type: UpdateType,
    flags: UpdateFlags,
    /// What all come to, from the second one on.
    content: Option<Box<Content>>,
    /// Updates that came.
    came: u32,
}

impl Merged {
    /// An update that others may be merged with ([`may_merge`]).
    pub fn begin(msg: &[u8], update: &UpdateMsg<'_>, now: u64) -> Self {
        debug_assert!(may_merge(update), "an update that is to be kept is merged");
        let Conflation { count, time } = update.conflation.unwrap_or_default();
        Self {
            last: msg.to_vec(),
            count: count.clamp(1, MAX_COUNT),
            since: now,
            time,
            update_type: update.update_type,
            flags: update.flags,
            content: None,
            came: 1,
        }
    }

    /// Takes in another update; false, and nothing changed, if it has to follow by itself.
    pub fn merge(&mut self, msg: &[u8], update: &UpdateMsg<'_>, ripples: &Ripples) -> bool {
        debug_assert!(may_merge(update), "an update that is to be kept is merged");
        let Conflation { count, time } = update.conflation.unwrap_or_default();
        let count = u32::from(self.count) + u32::from(count.max(1));
        let stays = self.flags.contains(UpdateFlags::DO_NOT_RIPPLE);
        if count > u32::from(MAX_COUNT) || stays != update.flags.contains(UpdateFlags::DO_NOT_RIPPLE) {
            return false;
        }
        let ripples = (!stays).then_some(ripples);
        if self.content.is_none() {
            let Ok(first) = UpdateMsg::decode(&self.last) else {
                debug_assert!(false, "an update was read when it came");
                return false;
            };
            let mut content = Content::new(first.container);
            if !content.merge(&first, ripples) {
                return false;
            }
            self.content = Some(Box::new(content));
        }
        if !self.content.as_mut().is_some_and(|content| content.merge(update, ripples)) {
            return false;
        }
        self.count = count as u16;
        self.came += 1;
        self.time = self.time.max(time);
        self.flags
            .set(UpdateFlags::DISCARDABLE, self.is_discardable() && update.flags.contains(UpdateFlags::DISCARDABLE));
        if self.update_type != update.update_type {
            self.update_type = UpdateType::MULTIPLE;
        }
        self.last.clear();
        self.last.extend_from_slice(msg);
        true
    }

    fn is_discardable(&self) -> bool {
        self.flags.contains(UpdateFlags::DISCARDABLE)
    }

    /// Updates that came, however many those stood for.
    pub fn came(&self) -> u32 {
        self.came
    }

    /// True if it is more than one update that came.
    pub fn is_merged(&self) -> bool {
        self.came > 1
    }

    /// The domain of its updates.
    pub fn domain(&self) -> Domain {
        rwf::peek::domain(&self.last).unwrap_or_default()
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        match self.content.as_deref().filter(|_| self.is_merged()) {
            None => self.last.len(),
            Some(Content::Fields(_)) => 2 * self.last.len(),
            Some(Content::Book(book)) => self.last.len() + book.bytes(),
        }
    }

    /// Hands the messages that go out to `f`, in order; tells how many. One that was merged with no other goes out as it came.
    ///
    /// # Errors
    /// [`EncodeError`] if what the updates were merged into cannot be written.
    pub fn write(&self, now: u64, mut f: impl FnMut(&[u8])) -> Result<u16, EncodeError> {
        let Some(content) = self.content.as_deref().filter(|_| self.is_merged()) else {
            f(&self.last);
            return Ok(1);
        };
        let Ok(last) = UpdateMsg::decode(&self.last) else {
            debug_assert!(false, "an update was read when it came");
            return Ok(0);
        };
        let last = UpdateMsg { flags: self.flags, update_type: self.update_type, ..last };
        let (mut body, mut out) = (Vec::new(), Vec::new());
        let older = if let Content::Fields(fields) = content { fields.older() } else { 0 };
        for at in 0..older {
            let Content::Fields(fields) = content else { break };
            body.clear();
            out.clear();
            fields.write_older(at, &mut body)?;
            let msg = UpdateMsg { seq_num: None, conflation: None, body: &body, ..last.clone() };
            encode::append(&mut out, 64 + self.last.len() + body.len(), |w| msg.encode(w))?;
            f(&out);
        }
        body.clear();
        out.clear();
        encode::append(&mut body, 2 * self.last.len(), |w| match content {
            Content::Fields(fields) => fields.payload.write(w),
            Content::Book(book) => book.write(w),
        })?;
        let time = u16::try_from(now.saturating_sub(self.since) / 1_000_000).unwrap_or(u16::MAX).max(self.time);
        let conflation = Some(Conflation { count: self.count - older as u16, time });
        let msg = UpdateMsg { conflation, body: &body, ..last };
        encode::append(&mut out, 64 + self.last.len() + body.len(), |w| msg.encode(w))?;
        f(&out);
        Ok(older as u16 + 1)
    }
}

#[cfg(test)]
mod tests;
