//! Merging updates of one stream into fewer that lead to the same image.
//!
//! Quotes merge, everything else is kept: an update merges if it is of type Unspecified, Quote or Multiple, has a field list
//! or a map of such (`book`), and neither flags (`DO_NOT_CONFLATE`, `DO_NOT_CACHE`) nor members forbid that (permission data of its own, an extended header, who posted it).
//! Of each field the last value counts.
//!
//! # Who waits since when
//! A [`Merged`] numbers its updates, and has with each field (in a map with each row, and each field of it) the number of its last change.
//! So many may wait for it, each since another update: [`Merged::join`] gives the number of the last one, and [`Merged::write`] writes what has
//! changed since a number. Of the updates themselves only the last one is kept, and of the numbers those since which somebody waits.
//!
//! # Fields that ripple
//! A receiver that ripples hands the value that a field had on to another field (`BID` to `BID_1` to `BID_2`), once for each update.
//! So as many of the last values of a rippling field are kept as it ripples through fields, and they go out one behind the other: small
//! updates with those older values alone, and the merged one behind them. A receiver that does not ripple sees the last values.
//! An update that sets a field to which others ripple is not merged, nor one that has a partial text: what these do depends on the image.

mod book;
mod fields;

use crate::encode;
use book::Book;
use fields::Fields;
use rustc_hash::{FxHashMap, FxHashSet};
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::msg::{Conflation, Domain, UpdateFlags, UpdateMsg, UpdateType};
use rwf::{DataType, EncodeError};

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

    /// No field ripples.
    pub fn is_none(&self) -> bool {
        self.by_fid.is_empty()
    }

    fn role(&self, fid: i16) -> Option<Role> {
        self.by_fid.get(&fid).copied()
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

/// The payloads of updates, merged.
#[derive(Debug)]
enum Content {
    Fields(Fields),
    Book(Book),
}

impl Content {
    fn new(container: DataType) -> Self {
        if container == DataType::MAP { Self::Book(Book::default()) } else { Self::Fields(Fields::default()) }
    }

    /// Takes in the payload of an update; false, and nothing changed, if it cannot be merged.
    fn merge(&mut self, update: &UpdateMsg<'_>, number: u32, oldest: u32, ripples: Option<&Ripples>) -> bool {
        match self {
            Self::Fields(fields) => {
                update.container == DataType::FIELD_LIST && fields.merge(update.body, number, ripples)
            }
            Self::Book(book) => update.container == DataType::MAP && book.merge(update.body, number, oldest),
        }
    }

    fn older(&self, since: u32) -> usize {
        if let Self::Fields(fields) = self { fields.older(since) } else { 0 }
    }
}

/// Since when somebody waits, and how many do.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// Of the first update that is waited for.
    number: u32,
    waiting: u32,
    /// Updates before it, those counted that were merged before they came.
    before: u32,
    /// When it came.
    at: u64,
}

/// Memory in which messages are written.
#[derive(Debug, Default)]
pub struct Room {
    body: Vec<u8>,
    msg: Vec<u8>,
}

/// Updates of one stream that go out as one, or as few, to each who waits for them.
#[derive(Debug)]
pub struct Merged {
    /// The last one, as it came.
    last: Vec<u8>,
    /// The number of the last update; the first one has 1.
    number: u32,
    /// Updates so far, those counted that were merged before they came. It wraps.
    total: u32,
    /// Updates that the last one stands for.
    last_count: u16,
    update_type: UpdateType,
    /// Number of the first of those behind which all have this type.
    type_since: u32,
    /// Number of the last one that is not to be discarded; 0 if all may be.
    to_be_kept: u32,
    /// Ripples at its receivers.
    ripples: bool,
    /// Milliseconds of merges before they came, with the numbers of the updates: only those that none behind them exceeds.
    times: Vec<(u32, u16)>,
    /// In the order of their numbers.
    starts: Vec<Start>,
    /// What all come to, from the second one on.
    content: Option<Box<Content>>,
}

impl Merged {
    /// An update that others may be merged with ([`may_merge`]). Nobody waits for it yet.
    pub fn begin(msg: &[u8], update: &UpdateMsg<'_>) -> Self {
        debug_assert!(may_merge(update), "an update that is to be kept is merged");
        let mut merged = Self {
            last: Vec::new(),
            number: 0,
            total: 0,
            last_count: 0,
            update_type: update.update_type,
            type_since: 1,
            to_be_kept: 0,
            ripples: !update.flags.contains(UpdateFlags::DO_NOT_RIPPLE),
            times: Vec::new(),
            starts: Vec::new(),
            content: None,
        };
        merged.note(msg, update);
        merged
    }

    /// Has the memory come near that the next update changes. The value means nothing.
    #[inline]
    pub fn touch(&self) -> u8 {
        let content = match self.content.as_deref() {
            Some(Content::Fields(fields)) => fields.touch(),
            Some(Content::Book(_)) | None => 0,
        };
        content ^ self.last.first().map_or(0, |byte| byte ^ self.number as u8)
    }

    /// Takes in another update; false, and nothing changed, if it has to follow by itself.
    pub fn merge(&mut self, msg: &[u8], update: &UpdateMsg<'_>, ripples: &Ripples) -> bool {
        debug_assert!(may_merge(update), "an update that is to be kept is merged");
        let ripple = !update.flags.contains(UpdateFlags::DO_NOT_RIPPLE);
        let (before, oldest) =
            self.starts.first().map_or((self.total, self.number), |start| (start.before, start.number));
        let count = self.total.wrapping_sub(before).saturating_add(u32::from(count_of(update)));
        if count > u32::from(MAX_COUNT) || ripple != self.ripples || self.number == u32::MAX {
            return false;
        }
        let ripples = ripple.then_some(ripples);
        if self.content.is_none() {
            let Ok(first) = UpdateMsg::decode(&self.last) else {
                hub_items::fault!("an update was read when it came");
                return false;
            };
            let mut content = Content::new(first.container);
            if !content.merge(&first, self.number, oldest, ripples) {
                return false;
            }
            self.content = Some(Box::new(content));
        }
        if !self.content.as_mut().is_some_and(|content| content.merge(update, self.number + 1, oldest, ripples)) {
            return false;
        }
        self.note(msg, update);
        true
    }

    /// Another update is the last one.
    fn note(&mut self, msg: &[u8], update: &UpdateMsg<'_>) {
        self.number += 1;
        self.last_count = count_of(update);
        self.total = self.total.wrapping_add(u32::from(self.last_count));
        if update.update_type != self.update_type {
            (self.update_type, self.type_since) = (update.update_type, self.number);
        }
        if !update.flags.contains(UpdateFlags::DISCARDABLE) {
            self.to_be_kept = self.number;
        }
        let time = update.conflation.map_or(0, |conflation| conflation.time);
        let oldest = self.starts.first().map_or(self.number, |start| start.number);
        self.times.retain(|(number, _)| *number >= oldest);
        if time > 0 {
            while self.times.pop_if(|(_, before)| *before <= time).is_some() {}
            self.times.push((self.number, time));
        }
        self.last.clear();
        self.last.extend_from_slice(msg);
    }

    /// Somebody waits from now on, for the last update and what follows. Gives its number, which is told to [`Merged::leave`].
    pub fn join(&mut self, now: u64) -> u32 {
        match self.starts.last_mut() {
            Some(start) if start.number == self.number => start.waiting += 1,
            _ => {
                let before = self.total.wrapping_sub(u32::from(self.last_count));
                self.starts.push(Start { number: self.number, waiting: 1, before, at: now });
            }
        }
        self.number
    }

    /// Somebody who waits since an update waits no more.
    pub fn leave(&mut self, since: u32) {
        let Ok(at) = self.place(since) else {
            hub_items::fault!("nobody waits since update {since}");
            return;
        };
        self.starts[at].waiting -= 1;
        if self.starts[at].waiting == 0 {
            self.starts.remove(at);
        }
    }

    fn place(&self, since: u32) -> Result<usize, usize> {
        self.starts.binary_search_by_key(&since, |start| start.number)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.starts.iter().map(|start| start.waiting as usize).sum()
    }

    /// True if somebody waits.
    pub const fn is_wanted(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Updates that came since one, that one included, however many those stood for.
    pub const fn came(&self, since: u32) -> u32 {
        self.number.saturating_sub(since) + 1
    }

    /// True if it is more than one update that came since one.
    pub const fn is_merged(&self, since: u32) -> bool {
        self.number > since
    }

    /// The domain of its updates.
    pub fn domain(&self) -> Domain {
        rwf::peek::domain(&self.last).unwrap_or_default()
    }

    /// Bytes of the last update.
    pub const fn last_len(&self) -> usize {
        self.last.len()
    }

    /// Hands the messages that go out to one who waits since an update to `f`, in order; tells how many. One that was merged with no other
    /// goes out as it came.
    ///
    /// # Errors
    /// [`EncodeError`] if what the updates were merged into cannot be written.
    pub fn write(&self, since: u32, now: u64, room: &mut Room, mut f: impl FnMut(&[u8])) -> Result<u16, EncodeError> {
        let Some(content) = self.content.as_deref().filter(|_| self.is_merged(since)) else {
            f(&self.last);
            return Ok(1);
        };
        let (Ok(last), Ok(start)) = (UpdateMsg::decode(&self.last), self.place(since)) else {
            hub_items::fault!("an update was read when it came, and somebody waits since {since}");
            return Ok(0);
        };
        let start = self.starts[start];
        let mut flags = last.flags;
        flags.set(UpdateFlags::DISCARDABLE, self.to_be_kept < since);
        let update_type = if self.type_since <= since { self.update_type } else { UpdateType::MULTIPLE };
        let last = UpdateMsg { flags, update_type, ..last };
        let Room { body, msg: out } = room;
        let older = content.older(since);
        for behind in (1..=older).rev() {
            let Content::Fields(fields) = content else { break };
            body.clear();
            fields.write_older(since, behind, body)?;
            let msg = UpdateMsg { seq_num: None, conflation: None, body, ..last.clone() };
            let end = encode::write_at(out, 0, 64 + self.last.len() + body.len(), |w| msg.encode(w))?;
            f(&out[..end]);
        }
        let end = encode::write_at(body, 0, 2 * self.last.len(), |w| match content {
            Content::Fields(fields) => fields.write_since(since, w),
            Content::Book(book) => book.write_since(since, w),
        })?;
        let count = self.total.wrapping_sub(start.before).saturating_sub(older as u32);
        let told = self.times.iter().find(|(number, _)| *number >= since).map_or(0, |(_, time)| *time);
        let time = u16::try_from(now.saturating_sub(start.at) / 1_000_000).unwrap_or(u16::MAX).max(told);
        let conflation = Some(Conflation { count: count as u16, time });
        let msg = UpdateMsg { conflation, body: &body[..end], ..last };
        let end = encode::write_at(out, 0, 64 + self.last.len() + msg.body.len(), |w| msg.encode(w))?;
        f(&out[..end]);
        Ok(older as u16 + 1)
    }
}

/// Updates that one stands for.
fn count_of(update: &UpdateMsg<'_>) -> u16 {
    update.conflation.map_or(1, |conflation| conflation.count.clamp(1, MAX_COUNT))
}

#[cfg(test)]
mod tests;
