//! Records: published items of services whose images outlive the process, or expire.
//!
//! A record is changed when its image is; [`SourceDistributor::take_record_changes`] gives what has changed to whoever keeps it, as it is then and
//! however often it has changed, so that a slow keeper costs age and no memory. After a restart, [`SourceDistributor::restore`] takes it back. Records that expire
//! stand in a list for each service, in the order in which they were published last.
//!
//! Without such services nothing is noted, and a published message costs one look at an empty table.

use super::RestoreError;
use super::intake::both_locks;
use crate::Config;
use crate::SourceDistributor;
use crate::ids::{Handle, ImageSlot};
use crate::item::ItemKey;
use crate::items::Kind;
use crate::timers::Timer;
use rwf::image::Image;
use rwf::msg::{Domain, RefreshMsg};
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// Ends of records that are remembered until they are taken. Those of more are forgotten, and counted: such a record comes back with a
/// restart, and expires.
const GONE_MAX: usize = 100_000;
/// End of a list.
const NONE: u32 = u32::MAX;

const EXPIRED: State<'static> = State {
    stream: StreamState::CLOSED,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"Record has expired: it is older, or one more, than its service keeps",
};

const RESTORED: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"Image is of before a restart: waiting for the provider",
};

/// The fate of a record since it was taken last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordChange<'a> {
    /// The record is there, or has changed.
    Image(Record<'a>),
    /// The record is no more.
    Gone {
        /// The record's service.
        service: &'a str,
        /// The record's key.
        key: &'a [u8],
    },
}

/// A record as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record's service.
    pub service: &'a str,
    /// Canonical bytes of its key.
    pub key: &'a [u8],
    /// The image: refresh messages without keys, each behind its length (four bytes, little endian).
    pub parts: &'a [u8],
    /// Nanoseconds since it was published last.
    pub age: u64,
}

/// How a record is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restore {
    /// The record is Suspect until it is published again; otherwise as it was.
    pub as_stale: bool,
    /// Whoever keeps records has it already.
    pub is_kept: bool,
}

/// The fate of a record that was to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// The record is taken over.
    Taken,
    /// The record is too old, or one too many for its service.
    Expired,
    /// The item is published already.
    Known,
}

/// The note of an image slot.
#[derive(Debug, Clone, Copy)]
struct Note {
    handle: Handle,
    service: u16,
    /// The slot stands in the list of its service.
    is_record: bool,
    is_kept: bool,
    /// The slot waits in `changed`.
    is_changed: bool,
    /// Whoever keeps records has it.
    is_stored: bool,
    /// When it was published last; may lie before the beginning of time.
    at: i64,
    older: u32,
    newer: u32,
}

impl Note {
    const NOTHING: Self = Self {
        handle: Handle(0),
        service: 0,
        is_record: false,
        is_kept: false,
        is_changed: false,
        is_stored: false,
        at: 0,
        older: NONE,
        newer: NONE,
    };
}

/// The records of a service, oldest first.
#[derive(Debug, Clone, Copy)]
struct Ages {
    oldest: u32,
    newest: u32,
    count: u32,
    expires: bool,
}

/// Notes of records. See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// By image slot.
    notes: Vec<Note>,
    /// By service.
    ages: Vec<Ages>,
    changed: VecDeque<ImageSlot>,
    /// Service and key of kept records that are no more.
    gone: VecDeque<(Box<str>, Box<[u8]>)>,
    parts: Vec<u8>,
}

impl Records {
    fn note(&mut self, slot: ImageSlot) -> Option<&mut Note> {
        self.notes.get_mut(slot.0 as usize).filter(|note| note.is_record)
    }

    fn add(&mut self, slot: ImageSlot, note: Note, expires: bool) {
        let (at, service) = (slot.0 as usize, usize::from(note.service));
        if self.notes.len() <= at {
            self.notes.resize(at + 1, Note::NOTHING);
        }
        if self.ages.len() <= service {
            self.ages.resize(service + 1, Ages { oldest: NONE, newest: NONE, count: 0, expires: false });
        }
        let list = &mut self.ages[service];
        list.expires = expires;
        // A record that is copied late is not put in front of younger ones.
        let youngest = self.notes.get(list.newest as usize).map_or(i64::MIN, |newest| newest.at);
        self.notes[at] = Note { at: note.at.max(youngest), ..note };
        self.append(slot.0);
    }

    fn append(&mut self, slot: u32) {
        let Self { notes, ages, .. } = self;
        let list = &mut ages[usize::from(notes[slot as usize].service)];
        (notes[slot as usize].older, notes[slot as usize].newer) = (list.newest, NONE);
        match list.newest {
            NONE => list.oldest = slot,
            newest => notes[newest as usize].newer = slot,
        }
        list.newest = slot;
        list.count += 1;
    }

    fn unlink(&mut self, slot: u32) {
        let Self { notes, ages, .. } = self;
        let Note { older, newer, service, .. } = notes[slot as usize];
        let list = &mut ages[usize::from(service)];
        match older {
            NONE => list.oldest = newer,
            older => notes[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => notes[newer as usize].older = older,
        }
        list.count -= 1;
    }

    /// The image has changed.
    #[inline]
    fn change(&mut self, slot: ImageSlot) {
        // Most services keep no records.
        let Some(note) = self.note(slot) else { return };
        if note.is_kept && !note.is_changed {
            note.is_changed = true;
            self.changed.push_back(slot);
        }
    }

    /// The item was published.
    #[inline]
    fn touch(&mut self, now: u64, slot: ImageSlot) {
        // Most services keep no records.
        let Some(note) = self.note(slot) else { return };
        note.at = now as i64;
        if note.newer != NONE {
            self.unlink(slot.0);
            self.append(slot.0);
        }
        self.change(slot);
    }

    fn oldest(&self, service: u16) -> Option<(Handle, i64)> {
        let list = self.ages.get(usize::from(service)).filter(|list| list.oldest != NONE && list.expires)?;
        let note = &self.notes[list.oldest as usize];
        Some((note.handle, note.at))
    }

    fn count(&self, service: u16) -> u32 {
        self.ages.get(usize::from(service)).map_or(0, |list| list.count)
    }

    /// Asserts that lists and notes say the same.
    pub(super) fn check(&self) {
        let listed: usize = self.ages.iter().map(|list| list.count as usize).sum();
        assert_eq!(listed, self.notes.iter().filter(|note| note.is_record).count(), "records, and those on lists");
        let waiting = self.notes.iter().filter(|note| note.is_changed).count();
        assert!(waiting <= self.changed.len(), "records that have changed and do not wait");
        for list in &self.ages {
            let (mut slot, mut at) = (list.oldest, i64::MIN);
            for _ in 0..list.count {
                let note = &self.notes[slot as usize];
                assert!(note.is_record && note.at >= at, "records stand in the order of their age");
                (slot, at) = (note.newer, note.at);
            }
            assert_eq!(slot, NONE, "a list of records is as long as it says");
        }
    }
}

impl Config {
    fn read_parts(&self, record: &Record<'_>, domain: Domain) -> Result<Image, RestoreError> {
        let (mut image, mut left) = (Image::new(), record.parts);
        let schema = self.page_sizes.schema(record.service);
        while let Some((length, rest)) = left.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let part = rest.get(..length).ok_or(RestoreError::Image)?;
            let refresh = RefreshMsg::decode(part).map_err(|_| RestoreError::Image)?;
            if refresh.domain != domain || refresh.state.stream != StreamState::OPEN {
                return Err(RestoreError::Image);
            }
            image.refresh(&refresh, &schema).map_err(|_| RestoreError::Image)?;
            // How much of it updates have added is not kept, so all of it stays until the next refresh.
            if let Some(lock) = refresh.perm_data {
                image.add_perm_data(lock, both_locks);
            }
            left = &rest[length..];
        }
        if left.is_empty() && image.is_whole() && !image.is_refreshing() { Ok(image) } else { Err(RestoreError::Image) }
    }
}

impl SourceDistributor {
    /// An item was published: a whole refresh of it, or an update.
    #[inline]
    pub(super) fn note_published(&mut self, handle: Handle) {
        if !self.published.records.notes.is_empty() {
            let Some(slot) = self.items[handle].image() else {
                return hub_items::fault!("{handle:?} has no image, and is published");
            };
            self.published.records.touch(self.now, slot);
        }
    }

    /// What is held of an item says something else.
    pub(super) fn note_changed(&mut self, handle: Handle) {
        if !self.published.records.notes.is_empty() {
            let Some(slot) = self.items[handle].image() else {
                return hub_items::fault!("{handle:?} has no image, and is published");
            };
            self.published.records.change(slot);
        }
    }

    /// A published item is new: it is a record if its service is one of those. One too many ends the oldest of its service.
    pub(crate) fn begin_record(&mut self, handle: Handle, age: u64, is_stored: bool) {
        let rules = &self.config.records;
        if !rules.is_on() {
            return;
        }
        let service = self.items[handle].service();
        let Some(slot) = self.items[handle].image() else {
            return hub_items::fault!("{handle:?} has no image, and is published");
        };
        let name = &self.providers[service].name;
        let (is_kept, expires) = (rules.kept.has(name), rules.expiring.has(name));
        if !is_kept && !expires {
            return;
        }
        let max = if expires { rules.max_number } else { 0 };
        let records = &mut self.published.records;
        let at = self.now as i64 - i64::try_from(age).unwrap_or(i64::MAX / 2);
        let note = Note { handle, service, is_record: true, is_kept, is_stored, at, ..Note::NOTHING };
        records.add(slot, note, expires);
        if max > 0
            && records.count(service) > max
            && let Some((oldest, _)) = records.oldest(service).filter(|(oldest, _)| *oldest != handle)
        {
            self.expire(oldest);
        }
    }

    /// A record is no more; to be called while the item has its key.
    pub(crate) fn end_record(&mut self, handle: Handle, slot: ImageSlot) {
        let records = &mut self.published.records;
        // Most services keep no records.
        let Some(note) = records.note(slot).copied() else { return };
        records.unlink(slot.0);
        // The slot's place in the queue of those that have changed stays, and is passed over.
        records.notes[slot.0 as usize] = Note::NOTHING;
        if !note.is_stored {
            return;
        }
        if records.gone.len() >= GONE_MAX {
            self.counters.record_ends_lost += 1;
            return;
        }
        let item = &self.items[handle];
        records.gone.push_back((self.providers[item.service()].name.as_str().into(), item.key().into()));
    }

    fn expire(&mut self, handle: Handle) {
        self.counters.records_expired += 1;
        self.unpublish(handle);
        if self.items[handle].has_interest() {
            self.publish_end(handle, &EXPIRED, None);
        }
        self.end_item(handle);
    }

    /// Ends the records whose time is over, so many in a turn.
    pub(crate) fn records_timer(&mut self) {
        let max_age = self.config.records.max_age;
        let mut next = self.now.saturating_add(max_age);
        let mut left = self.config.work_per_turn;
        for service in self.providers.service_ids() {
            while let Some((handle, at)) = self.published.records.oldest(service) {
                let due = u64::try_from(at.saturating_add(max_age as i64)).unwrap_or(0);
                if due > self.now || left == 0 {
                    next = next.min(due);
                    break;
                }
                left -= 1;
                self.expire(handle);
            }
        }
        self.timers.set(next.max(self.now.saturating_add(1)), Timer::Records);
    }

    /// Whether [`Self::take_record_changes`] has something to give.
    pub fn has_record_changes(&self) -> bool {
        let records = &self.published.records;
        !records.changed.is_empty() || !records.gone.is_empty()
    }

    /// Records that have changed since they were taken last, at most; those that are no more count, too.
    pub fn record_changes(&self) -> usize {
        self.published.records.changed.len() + self.published.records.gone.len()
    }

    /// Gives out up to `most` records of the services that are kept, each as it is now: what is no more first, then what has changed longest ago.
    pub fn take_record_changes(&mut self, most: usize, mut each: impl FnMut(RecordChange<'_>)) {
        let mut left = most;
        while left > 0
            && let Some((service, key)) = self.published.records.gone.pop_front()
        {
            left -= 1;
            each(RecordChange::Gone { service: &service, key: &key });
        }
        while left > 0
            && let Some(slot) = self.published.records.changed.pop_front()
        {
            left -= 1;
            self.give_record(slot, &mut each);
        }
    }

    fn give_record(&mut self, slot: ImageSlot, each: &mut impl FnMut(RecordChange<'_>)) {
        let records = &mut self.published.records;
        let now = self.now as i64;
        // Not changed: of an item that is gone, and given under its next one or not at all.
        let Some(note) = records.note(slot).filter(|note| note.is_changed) else { return };
        note.is_changed = false;
        let (handle, age, was_stored) = (note.handle, now.saturating_sub(note.at).max(0) as u64, note.is_stored);
        let mut parts = std::mem::take(&mut records.parts);
        let is_whole = self.write_parts(handle, slot, &mut parts);
        let item = &self.items[handle];
        let (service, key) = (self.providers[item.service()].name.as_str(), item.key());
        if is_whole {
            each(RecordChange::Image(Record { service, key, parts: &parts, age }));
        } else if was_stored {
            each(RecordChange::Gone { service, key });
        }
        self.published.records.notes[slot.0 as usize].is_stored = is_whole;
        self.published.records.parts = parts;
    }

    /// Gives another Source Distributor what is held: up to `most` images, from handle `from` on. Where the next ones begin; `None` if that was
    /// all. What is published meanwhile may be among them or not.
    pub fn copy_records(&mut self, from: u32, most: usize, mut each: impl FnMut(Record<'_>)) -> Option<u32> {
        /// Items that are looked at for one that has an image.
        const LOOKS: usize = 16;
        let mut parts = std::mem::take(&mut self.published.records.parts);
        let (mut at, mut given, mut looks) = (from, 0, 0);
        while at < self.items.handles_end() && given < most && looks < most * LOOKS {
            let handle = Handle(at);
            (at, looks) = (at + 1, looks + 1);
            let Some(slot) = self.items.get(handle).and_then(crate::items::Item::image) else { continue };
            if !self.write_parts(handle, slot, &mut parts) {
                continue;
            }
            given += 1;
            let records = &mut self.published.records;
            let now = self.now as i64;
            let age = records.note(slot).map_or(0, |note| now.saturating_sub(note.at).max(0) as u64);
            let item = &self.items[handle];
            let service = self.providers[item.service()].name.as_str();
            each(Record { service, key: item.key(), parts: &parts, age });
        }
        self.published.records.parts = parts;
        (at < self.items.handles_end()).then_some(at)
    }

    /// Writes the image of an item as [`Record::parts`] says; false if there is none that is whole.
    fn write_parts(&mut self, handle: Handle, slot: ImageSlot, out: &mut Vec<u8>) -> bool {
        out.clear();
        let image = self.published.images.get(slot);
        if !image.is_whole() {
            return false;
        }
        let header = RefreshMsg::new(Domain(self.items[handle].domain()), 0);
        let mut parts = image.parts(header, self.config.image_part);
        while !parts.is_done() {
            let Some(rwf) = self.composer.write(&mut self.counters, |w| parts.write(w).map(drop)) else { return false };
            out.extend_from_slice(&(rwf.len() as u32).to_le_bytes());
            out.extend_from_slice(rwf);
        }
        true
    }

    /// Takes a record back that an earlier life gave out, or another Source Distributor. Its service is known and up from then on, as far as this has it;
    /// what its provider says counts as soon as there is one. Records are to be taken back in the order of their age, the oldest first.
    ///
    /// # Errors
    /// It cannot be taken, and nothing has changed.
    pub fn restore(&mut self, now: u64, record: &Record<'_>, how: Restore) -> Result<Restored, RestoreError> {
        self.begin(now);
        let key = ItemKey::read(record.key).ok_or(RestoreError::Key)?;
        let (domain, qos) = (Domain(key.domain), key.qos.to_qos());
        let rules = &self.config.records;
        let expires = rules.expiring.has(record.service);
        if expires && rules.max_age > 0 && record.age >= rules.max_age {
            return Ok(Restored::Expired);
        }
        let mut image = self.config.read_parts(record, domain)?;
        let service = self.providers.find_or_add(record.service, true).ok_or(RestoreError::Service)?;
        let hash = self.items.hash(service, record.key);
        if self.items.find_hashed(hash, service, record.key).is_some() {
            if let Some(slot) =
                self.items.find_hashed(hash, service, record.key).and_then(|known| self.items[known].image())
                && let Some(note) = self.published.records.note(slot).filter(|_| how.is_kept)
            {
                // The stored record is older, and has to go with the item.
                note.is_stored = true;
            }
            return Ok(Restored::Known);
        }
        if !self.find_room(None) {
            return Err(RestoreError::Room);
        }
        if how.as_stale {
            image.set_state(&RESTORED);
        }
        let data = image.state().data;
        let slot = self.published.images.add();
        *self.published.images.get_mut(slot) = image;
        let handle = self.items.insert_hashed(hash, service, record.key, Kind::Cached { image: slot });
        let item = &mut self.items[handle];
        item.take_cached_part(true, true, data);
        item.complete_set();
        if how.as_stale && item.lose() {
            self.providers[service].item_is_lost();
        }
        self.begin_record(handle, record.age, how.is_kept);
        if !how.is_kept {
            self.note_changed(handle);
        }
        self.counters.records_restored += 1;
        self.offer_restored(service, domain, qos);
        Ok(Restored::Taken)
    }

    /// A service has an item that was taken back: P2PSs know it, with the item's domain and quality.
    fn offer_restored(&mut self, service: u16, domain: Domain, qos: Option<rwf::Qos>) {
        let known = &mut self.providers[service];
        known.stale |= known.domains.insert(domain.0);
        if let Some(qos) = qos.filter(|qos| !known.qos.contains(qos)) {
            known.qos.push(qos);
            known.stale = true;
        }
        if known.providers().is_empty() && !known.is_settling {
            known.is_restored = true;
        }
        self.advertise(service);
    }
}
