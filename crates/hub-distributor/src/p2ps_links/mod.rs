//! The P2PSs that are joined to this Source Distributor, and those that are gone and have left their interest behind.
//!
//! | file | what it knows |
//! |---|---|
//! | `membership` | joining, leaving, leases, heartbeats, the bounds of what one P2PS may cost |
//! | `requests` | opens, closes, further images, reissues, generic messages |
//! | `gap_recovery` | what a P2PS hears again after a loss |
//! | `servers` | where consumers reach the P2PSs, of which these are told |

mod gap_recovery;
mod membership;
mod requests;
mod servers;

use super::ids::{Handle, Slot};
use crate::stream::{BlockWriter, Continuity, Event, Heading, Seen, UNPACED_HEARTBEATS};
use rustc_hash::FxHashMap;

/// P2PSs at once, those included that are gone and whose lease still runs. A set of them is a bit for each.
pub(crate) const MAX_P2PSS: usize = 4_096;

/// Gaps that a P2PS may tell of between two heartbeats: one that loses more is not able to follow.
const MAX_GAPS: u32 = 200;

/// The same for one that nobody waits for: joining anew costs the others less than long answers to each of very many.
const MAX_GAPS_UNPACED: u32 = 20;
/// Messages in the longest gap that such a one is told of.
const LONGEST_GAP_UNPACED: u64 = 100_000;

/// One P2PS: what it said of itself, how far it has come, and what it has cost since the last heartbeat.
#[derive(Debug)]
struct Link {
    /// The P2PS's number; `None` if it is gone, and only its lease holds the slot.
    id: Option<u16>,
    /// What it says it is, whichever number it has; 0 if it does not say.
    key: u64,
    /// The P2PS has joined over a network: its requests may end before it has read the stream up to there.
    over_network: bool,
    /// Tells it from others that have had the slot.
    serial: u32,
    continuity: Continuity,
    /// A block of it has been read.
    started: bool,
    last_heard: u64,
    /// Position of the stream that it has read up to.
    read_to: u64,
    /// Requests since the last heartbeat of ours.
    requests: u32,
    /// Gaps told since the last heartbeat of ours.
    gaps: u32,
    /// End of the last gap that it has told of.
    told_to: u64,
    /// Messages for this P2PS alone.
    point_to_point: BlockWriter,
    /// Providers never wait for it, and what is for it alone comes to it alone.
    is_unpaced: bool,
    opened: OpenedItems,
    /// Where consumers reach it, as it is written: one server.
    server: Option<Box<[u8]>>,
}

/// The items that a P2PS has open, so that its end costs what it had and not what there is. Items that it has given back are among
/// them until the list is swept: handles are looked at before they are believed.
#[derive(Debug, Default)]
struct OpenedItems {
    handles: Vec<Handle>,
    /// The list is swept when it is as long as this.
    sweep_at: usize,
}

/// A list of opened items is not swept before it is so long.
const SWEEP_LEAST: usize = 64;

impl OpenedItems {
    /// Adds an item. `is_open` tells those that are still open at the P2PS: half of a list that is swept at least has to be
    /// stale before it is swept again, so an item costs a constant.
    fn add(&mut self, handle: Handle, is_open: impl Fn(Handle) -> bool) {
        self.handles.push(handle);
        if self.handles.len() >= self.sweep_at.max(SWEEP_LEAST) {
            self.sweep(is_open);
            self.sweep_at = 2 * self.handles.len();
        }
    }

    fn sweep(&mut self, is_open: impl Fn(Handle) -> bool) {
        self.handles.sort_unstable();
        self.handles.dedup();
        self.handles.retain(|&handle| is_open(handle));
    }
}

/// The answer to a P2PS that tells of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// Positions that it cannot have lost, or was told of already.
    Impossible,
    /// The P2PS loses too much to be able to follow.
    TooMany,
    Recoverable,
}

impl Link {
    /// How many times as long as others it may be silent, and as far behind what it said last.
    fn patience(&self) -> u64 {
        if self.is_unpaced { UNPACED_HEARTBEATS } else { 1 }
    }
}

/// P2PSs by slot, and what is to be said of them.
#[derive(Debug, Default)]
pub(crate) struct Links {
    slots: Vec<Option<Link>>,
    /// Slots of those that are there, by their numbers.
    by_id: FxHashMap<u16, Slot>,
    last_serial: u32,
    /// P2PSs whose transports are to be ended.
    closing: Vec<(u16, &'static str)>,
    /// The announcement that heartbeats carry.
    announcement: Box<[u8]>,
    /// When the next heartbeat is due; 0 before the first.
    heartbeat_due: u64,
    telling: servers::Telling,
}

impl Links {
    /// A slot for a P2PS that is not known. `None` if all are taken.
    fn join(&mut self, id: u16, now: u64, (incarnation, position): (u32, u64), is_unpaced: bool) -> Option<Slot> {
        debug_assert!(!self.by_id.contains_key(&id), "a number is one P2PS's");
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot >= MAX_P2PSS {
            return None;
        }
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.last_serial = self.last_serial.wrapping_add(1);
        self.slots[slot] = Some(Link {
            id: Some(id),
            key: 0,
            over_network: false,
            serial: self.last_serial,
            continuity: Continuity::new(),
            started: false,
            last_heard: now,
            read_to: position,
            requests: 0,
            gaps: 0,
            told_to: 0,
            point_to_point: BlockWriter::new(incarnation),
            is_unpaced,
            opened: OpenedItems::default(),
            server: None,
        });
        let slot = Slot(slot as u16);
        self.by_id.insert(id, slot);
        Some(slot)
    }

    /// True if nobody else can join.
    fn is_full(&self) -> bool {
        self.slots.len() >= MAX_P2PSS && self.slots.iter().all(Option::is_some)
    }

    /// The P2PS is gone, and its number free; its lease keeps the slot. The serial of the lease.
    fn leave(&mut self, slot: Slot, now: u64) -> u32 {
        let link = self.link_mut(slot);
        let id = link.id.take();
        link.last_heard = now;
        link.point_to_point.clear();
        let serial = link.serial;
        let removed = id.and_then(|id| self.by_id.remove(&id));
        debug_assert_eq!(removed, Some(slot), "a P2PS that leaves was there");
        serial
    }

    /// Frees a slot.
    fn remove(&mut self, slot: Slot) {
        let link = self.slots.get_mut(usize::from(slot.0)).and_then(Option::take);
        debug_assert!(link.is_some_and(|link| link.id.is_none()), "a P2PS leaves before its slot is free");
    }

    /// The slot of the P2PS that has a number.
    pub(crate) fn slot(&self, id: u16) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// The number of the P2PS in a slot, if it is there.
    pub(crate) fn id(&self, slot: Slot) -> Option<u16> {
        self.slots.get(usize::from(slot.0))?.as_ref()?.id
    }

    /// The number of a P2PS that is there: one that speaks, or waits for an answer.
    pub(crate) fn number(&self, slot: Slot) -> u16 {
        self.id(slot).expect("a P2PS that speaks is there")
    }

    /// Every P2PS that is there: slot and number.
    pub(crate) fn present(&self) -> impl Iterator<Item = (Slot, u16)> + '_ {
        let place = |(slot, link): (usize, &Option<Link>)| Some((Slot(slot as u16), link.as_ref()?.id?));
        self.slots.iter().enumerate().filter_map(place)
    }

    fn link(&self, slot: Slot) -> &Link {
        self.slots[usize::from(slot.0)].as_ref().expect("a slot of ours is a P2PS's")
    }

    fn link_mut(&mut self, slot: Slot) -> &mut Link {
        self.slots[usize::from(slot.0)].as_mut().expect("a slot of ours is a P2PS's")
    }

    /// Whether what is for the P2PS alone is to come to it alone, whatever is usual.
    pub(crate) fn is_unpaced(&self, slot: Slot) -> bool {
        self.slots.get(usize::from(slot.0)).and_then(Option::as_ref).is_some_and(|link| link.is_unpaced)
    }

    /// The P2PS has opened an item. `is_open` tells of any item whether the P2PS has it open.
    fn opens(&mut self, slot: Slot, handle: Handle, is_open: impl Fn(Handle) -> bool) {
        self.link_mut(slot).opened.add(handle, is_open);
    }

    /// The items that a P2PS may have open, each once.
    fn opened(&mut self, slot: Slot, is_open: impl Fn(Handle) -> bool) -> Vec<Handle> {
        let opened = &mut self.link_mut(slot).opened;
        opened.sweep(is_open);
        opened.handles.clone()
    }

    /// Whether an item is on the list of those that a P2PS has opened: each that it has open is.
    pub(crate) fn lists(&self, slot: Slot, handle: Handle) -> bool {
        self.link(slot).opened.handles.contains(&handle)
    }

    /// One that is there and of which this is true.
    fn find(&self, wanted: impl Fn(&Link) -> bool) -> Option<u16> {
        self.slots.iter().flatten().filter(|link| wanted(link)).find_map(|link| link.id)
    }

    /// One that is gone, and whose lease has run longest.
    fn oldest_lease(&self) -> Option<Slot> {
        let gone = self.slots.iter().enumerate().filter_map(|(slot, link)| Some((slot, link.as_ref()?)));
        let gone = gone.filter(|(_, link)| link.id.is_none());
        gone.min_by_key(|(_, link)| link.last_heard).map(|(slot, _)| Slot(slot as u16))
    }

    /// True if the lease of this serial still holds the slot.
    fn is_lease(&self, slot: Slot, serial: u32) -> bool {
        let link = self.slots.get(usize::from(slot.0)).and_then(Option::as_ref);
        link.is_some_and(|link| link.serial == serial && link.id.is_none())
    }

    /// A block of a P2PS has come. True beside it if another one came before.
    fn heard(&mut self, slot: Slot, now: u64, heading: &Heading) -> (Seen, bool) {
        let link = self.link_mut(slot);
        link.last_heard = now;
        let started = std::mem::replace(&mut link.started, true);
        (link.continuity.accept(heading), started)
    }

    /// Counts requests; how many there were since the last heartbeat.
    fn count_requests(&mut self, slot: Slot, count: u32) -> u32 {
        let link = self.link_mut(slot);
        link.requests = link.requests.saturating_add(count);
        link.requests
    }

    /// A P2PS has lost the messages from one position up to another.
    fn note_gap(&mut self, slot: Slot, from: u64, to: u64, published: u64) -> Gap {
        let link = self.link_mut(slot);
        // Nothing is told twice: one short request has a long answer.
        if from > to || from < link.told_to || to > published {
            return Gap::Impossible;
        }
        link.told_to = to;
        link.gaps += 1;
        let too_many = if link.is_unpaced {
            link.gaps > MAX_GAPS_UNPACED || to - from > LONGEST_GAP_UNPACED
        } else {
            link.gaps > MAX_GAPS
        };
        if too_many { Gap::TooMany } else { Gap::Recoverable }
    }

    /// The process stood still itself, and has heard nobody: that time does not count.
    fn excuse(&mut self, now: u64, late: u64) {
        for link in self.slots.iter_mut().flatten() {
            link.last_heard = link.last_heard.saturating_add(late).min(now);
        }
    }

    /// Requests and gaps are counted from one heartbeat to the next.
    fn start_counting(&mut self) {
        for link in self.slots.iter_mut().flatten() {
            (link.requests, link.gaps) = (0, 0);
        }
    }

    /// Publishes to one P2PS alone. False if it is not there.
    pub(crate) fn event_alone(&mut self, target: u16, event: &Event<'_>) -> bool {
        let Some(slot) = self.slot(target) else { return false };
        self.link_mut(slot).point_to_point.event(event);
        true
    }

    /// Hands out what goes to single P2PSs, by their numbers, and clears it.
    pub(crate) fn point_to_point_blocks(&mut self, mut f: impl FnMut(u16, &[u8])) {
        for link in self.slots.iter_mut().flatten() {
            if let (Some(id), Some(block)) = (link.id, link.point_to_point.block()) {
                f(id, block);
            }
            link.point_to_point.clear();
        }
    }

    /// Sets the announcement that heartbeats carry from now on.
    pub(crate) fn announce(&mut self, announcement: &[u8]) {
        self.announcement = announcement.into();
    }

    /// The P2PSs whose transports are to be ended.
    pub(crate) fn closing(&mut self) -> std::vec::Drain<'_, (u16, &'static str)> {
        self.closing.drain(..)
    }

    /// Asserts that numbers and slots belong together.
    pub(crate) fn check(&self) {
        assert!(self.slots.len() <= MAX_P2PSS);
        assert_eq!(self.present().count(), self.by_id.len(), "P2PSs that are there, and their numbers");
        for (slot, id) in self.present() {
            assert_eq!(self.by_id.get(&id), Some(&slot), "another P2PS has the number {id}");
        }
    }

    /// Whether a slot is taken, be it by a lease.
    pub(crate) fn is_taken(&self, slot: Slot) -> bool {
        self.slots.get(usize::from(slot.0)).is_some_and(Option::is_some)
    }
}
