//! Hot standby: items that are open at two providers, of which one is used.
//!
//! With [`super::Balance::Hot`] each shared item of an interactive provider is asked for at the next provider of its service, too: that is
//! its *mirror*. What the mirror's provider sends goes to nobody. When the provider in use is lost, has the item no more, or says Suspect of it, the mirror's
//! stream becomes the item's stream in the same turn, and those who watch hear of no loss.
//!
//! What they get depends on the sequence numbers. Where both providers number alike ([`super::Config::sequence_numbers`]) and the mirror's
//! tail reaches back to the last number that was passed on, they get the updates behind that and nothing else: none is lost, none comes
//! twice ([`crate::sequence`] has the rule). Otherwise they get one new image, which the mirror's provider is asked for.
//!
//! | file | what it knows |
//! |---|---|
//! | `mirrors` | which items are to have a mirror, asking for it, and what its provider sends |
//! | `takeover` | a mirror becomes the stream in use |
//! | `suspect` | takeover because the provider in use says Suspect of what its standby has good, and the way back |
//!
//! A mirror is there only while its item is open at another provider. It counts as an item open at its own provider for that one's open
//! window and limit, and is asked for with what requests of a turn are left.

mod mirrors;
mod suspect;
mod takeover;

use super::SessionId;
use super::ids::{GroupId, Handle};
use super::items::Place;
use crate::roster::{ListKey, Roster};
use crate::sequence::{Sequence, TAILS_BYTES, Tail};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An item that may have a mirror.
#[derive(Debug, Default)]
struct Pair {
    /// Sequence numbers of the provider in use.
    sequence: Sequence,
    mirror: Option<Mirror>,
}

/// An item's stream at the provider that stands by.
#[derive(Debug)]
struct Mirror {
    place: Place,
    /// When it was asked for, as long as that is not answered.
    asked_at: Option<u64>,
    /// As of the last image or status.
    group: GroupId,
    /// The mirror's image has come.
    is_whole: bool,
    /// Since when it is not Suspect; 0 if it has never been, as far as is known. None: it is.
    good_since: Option<u64>,
    /// The mirror was Suspect, and the item may go back to it then: there is an entry in [`HotStandby::returns`].
    returns_at: Option<u64>,
    tail: Tail,
}

/// Items of a service that are to have a mirror.
#[derive(Debug, Default)]
struct Filling {
    queue: VecDeque<Handle>,
    /// Places in the list of the service's items that are to be looked at: all below this. An item that leaves the list gives its place
    /// to the last one, which is looked at already.
    below: usize,
    /// The standby's open window is full.
    is_blocked: bool,
}

/// Items that a mirror has taken over when a provider went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Taken {
    pub(crate) items: usize,
    /// The items among them that needed no new image.
    pub(crate) in_sequence: usize,
}

/// The mirrors, and what is to have one.
#[derive(Debug, Default)]
pub(crate) struct HotStandby {
    /// By handle.
    pairs: Vec<Option<Box<Pair>>>,
    /// Items by the session and service of their mirror.
    mirrors: Roster,
    /// By service.
    filling: BTreeMap<u16, Filling>,
    /// Services with a timer for the next look.
    timed: BTreeSet<u16>,
    /// By the session that has left the items, and service.
    taken: BTreeMap<(SessionId, u16), Taken>,
    /// Mirrors that were Suspect and are good, by the time at which their items may go back to them.
    returns: BTreeSet<(u64, Handle)>,
    /// Items that have gone over because of what their provider says, until the operator has heard of them.
    swapped: suspect::AllSwapped,
    /// Bytes in all tails.
    tail_bytes: usize,
}

fn list(session: SessionId, service: u16) -> ListKey {
    ListKey::new(u32::from(service), session.0)
}

impl HotStandby {
    /// Whether the updates of an item have to be looked at before they go on.
    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.pair(handle).is_some()
    }

    fn pair(&self, handle: Handle) -> Option<&Pair> {
        self.pairs.get(handle.0 as usize)?.as_deref()
    }

    fn pair_mut(&mut self, handle: Handle) -> Option<&mut Pair> {
        self.pairs.get_mut(handle.0 as usize)?.as_deref_mut()
    }

    fn mirror(&self, handle: Handle) -> Option<&Mirror> {
        self.pair(handle)?.mirror.as_ref()
    }

    /// The session of an item's mirror.
    pub(crate) fn mirror_session(&self, handle: Handle) -> Option<SessionId> {
        Some(self.mirror(handle)?.place.session)
    }

    fn mirror_mut(&mut self, handle: Handle) -> Option<&mut Mirror> {
        self.pair_mut(handle)?.mirror.as_mut()
    }

    /// The item may have a mirror from now on.
    fn add_pair(&mut self, handle: Handle) {
        let index = handle.0 as usize;
        if self.pairs.len() <= index {
            self.pairs.resize_with(index + 1, || None);
        }
        self.pairs[index].get_or_insert_default();
    }

    /// The item is gone, or over. Its mirror has gone with its stream.
    pub(crate) fn forget(&mut self, handle: Handle) {
        if let Some(pair) = self.pairs.get_mut(handle.0 as usize) {
            debug_assert!(pair.as_ref().is_none_or(|pair| pair.mirror.is_none()), "a mirror without an item");
            *pair = None;
        }
    }

    fn set_mirror(&mut self, handle: Handle, service: u16, mirror: Mirror) {
        let key = list(mirror.place.session, service);
        let Some(pair) = self.pair_mut(handle) else {
            return hub_items::fault!("{handle:?} may have no mirror");
        };
        assert!(pair.mirror.is_none(), "an item has one mirror");
        pair.mirror = Some(mirror);
        self.mirrors.refile(handle.0, None, Some(key));
    }

    fn take_mirror(&mut self, handle: Handle, service: u16) -> Option<Mirror> {
        let mirror = self.pair_mut(handle)?.mirror.take()?;
        self.mirrors.refile(handle.0, Some(list(mirror.place.session, service)), None);
        self.tail_bytes -= mirror.tail.bytes();
        if let Some(due) = mirror.returns_at {
            self.returns.remove(&(due, handle));
        }
        Some(mirror)
    }

    /// The items of a service that have their mirror at a session, in no order.
    pub(crate) fn at(&self, session: SessionId, service: u16) -> impl ExactSizeIterator<Item = Handle> + '_ {
        self.mirrors.of(list(session, service)).iter().copied().map(Handle)
    }

    /// An image, or the first part of one, of the provider in use has this number.
    pub(crate) fn image_passed(&mut self, handle: Handle, number: Option<u32>) {
        self.begin_numbers(handle, number);
        self.trim_tail(handle);
    }

    /// An update of the provider in use has come: whether it goes on.
    pub(crate) fn update_passed(&mut self, handle: Handle, number: Option<u32>) -> bool {
        let Some(pair) = self.pair_mut(handle) else { return true };
        let goes_on = pair.sequence.pass(number);
        self.trim_tail(handle);
        goes_on
    }

    /// A part of an image of the provider in use has come: whether it is held back, because those who watch have had what is behind it.
    pub(crate) fn holds_back(&mut self, handle: Handle, number: Option<u32>, begins: bool, complete: bool) -> bool {
        self.pair_mut(handle).is_some_and(|pair| pair.sequence.holds_back(number, begins, complete))
    }

    /// Whether the provider in use has caught up after an image of it was held back: true once.
    pub(crate) fn has_caught_up(&mut self, handle: Handle) -> bool {
        self.pair_mut(handle).is_some_and(|pair| pair.sequence.has_caught_up())
    }

    /// A request has taken too long, because its image was held back.
    pub(crate) fn held_too_long(&mut self, handle: Handle) {
        if let Some(pair) = self.pair_mut(handle) {
            pair.sequence.held_too_long();
        }
    }

    /// The numbers of the provider in use begin anew, with this one.
    fn begin_numbers(&mut self, handle: Handle, passed: Option<u32>) {
        if let Some(pair) = self.pair_mut(handle) {
            pair.sequence.begin(passed);
        }
    }

    /// What the tail holds up to the last number that was passed on is of no use.
    fn trim_tail(&mut self, handle: Handle) {
        // Without a mirror there is no tail.
        let Some(Pair { sequence, mirror: Some(mirror) }) = self.pair_mut(handle) else { return };
        let freed = sequence.trim(&mut mirror.tail);
        self.tail_bytes -= freed;
    }

    /// An update of the mirror's provider has come.
    fn keep_update(&mut self, handle: Handle, number: Option<u32>, msg: &[u8]) {
        let room = TAILS_BYTES.saturating_sub(self.tail_bytes);
        // The mirror has gone since its provider wrote.
        let Some(Pair { sequence, mirror: Some(mirror) }) = self.pair_mut(handle) else { return };
        let grown = sequence.keep(&mut mirror.tail, number, 0, msg, room);
        self.tail_bytes = self.tail_bytes.checked_add_signed(grown).unwrap_or_else(|| {
            hub_items::fault!("{grown} bytes are more than all tails have");
            0
        });
    }

    /// The numbers of before mean nothing any more.
    pub(crate) fn forget_numbers(&mut self) {
        for pair in self.pairs.iter_mut().flatten() {
            pair.sequence.begin(None);
            if let Some(mirror) = &mut pair.mirror {
                mirror.tail = Tail::default();
            }
        }
        self.tail_bytes = 0;
    }

    /// The items of a service are to be looked through for those without a mirror.
    pub(crate) fn look_through(&mut self, service: u16, items: usize) {
        let filling = self.filling.entry(service).or_default();
        filling.below = items;
        filling.is_blocked = false;
    }

    /// The standby of a service may have room again.
    fn unblock(&mut self, service: u16) {
        if let Some(filling) = self.filling.get_mut(&service) {
            filling.is_blocked = false;
        }
    }

    /// True if something may be asked for in the next turn.
    pub(crate) fn has_work(&self) -> bool {
        self.filling.values().any(|filling| !filling.is_blocked)
    }

    /// What was taken over from a session that has left a service to its end.
    pub(crate) fn taken_from(&mut self, session: SessionId, service: u16) -> Option<Taken> {
        self.taken.remove(&(session, service))
    }

    /// Every mirror: its item, its place, and whether it is not answered yet.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, Place, bool)> + '_ {
        let mirror = |(index, pair): (usize, &Option<Box<Pair>>)| {
            let mirror = pair.as_ref()?.mirror.as_ref()?;
            Some((Handle(index as u32), mirror.place, mirror.asked_at.is_some()))
        };
        self.pairs.iter().enumerate().filter_map(mirror)
    }

    /// Every item that may have a mirror.
    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.pairs.iter().enumerate().filter(|(_, pair)| pair.is_some()).map(|(index, _)| Handle(index as u32))
    }

    /// Asserts that the lists and the bytes are those of the mirrors.
    pub(crate) fn check(&self, service_of: impl Fn(Handle) -> u16) {
        let mut count = 0;
        for (handle, place, _) in self.iter() {
            self.mirrors.check(handle.0, list(place.session, service_of(handle)));
            count += 1;
        }
        assert_eq!(self.mirrors.len(), count, "mirrors, and those on lists");
        let bytes: usize = self.pairs.iter().flatten().filter_map(|p| p.mirror.as_ref()).map(|m| m.tail.bytes()).sum();
        assert_eq!(self.tail_bytes, bytes, "bytes in tails");
        let returns = |(index, pair): (usize, &Option<Box<Pair>>)| {
            Some((pair.as_ref()?.mirror.as_ref()?.returns_at?, Handle(index as u32)))
        };
        let returns: BTreeSet<(u64, Handle)> = self.pairs.iter().enumerate().filter_map(returns).collect();
        assert_eq!(self.returns, returns, "mirrors that items may go back to");
    }
}
