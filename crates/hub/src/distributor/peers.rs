//! The P2PSs that are joined to this Source Distributor, and those that are gone and have left their interest behind.

use crate::stream::{BlockWriter, Continuity};

/// A set of P2PSs, a bit for each slot.
pub(super) type Slots = u128;

/// P2PSs at once: an item's interest is a bit for each.
pub(super) const MAX_PEERS: usize = Slots::BITS as usize;

/// The slots of a set, in ascending order.
pub(super) fn slots(mut set: Slots) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let slot = set.trailing_zeros() as u8;
        (set != 0).then(|| {
            set &= set - 1;
            slot
        })
    })
}

#[derive(Debug)]
pub(super) struct Peer {
    /// Its number; `None` if it is gone, and only its lease holds the slot.
    pub(super) id: Option<u16>,
    /// What it says it is, whichever number it has; 0 if it does not say.
    pub(super) key: u64,
    /// It has joined over a network: its requests may end before it has read the stream up to there.
    pub(super) over_network: bool,
    /// Tells it from others that have had the slot.
    pub(super) serial: u32,
    pub(super) continuity: Continuity,
    /// A block of it has been read.
    pub(super) started: bool,
    pub(super) last_heard: u64,
    /// Position of the stream that it has read up to.
    pub(super) read_to: u64,
    /// Requests since the last heartbeat of ours.
    pub(super) requests: u32,
    /// Gaps told since the last heartbeat of ours.
    pub(super) gaps: u32,
    /// End of the last gap that it has told of.
    pub(super) told_to: u64,
    /// What goes to it alone.
    pub(super) direct: BlockWriter,
}

/// P2PSs by slot.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: Vec<Option<Peer>>,
    last_serial: u32,
}

impl Peers {
    /// A slot for a P2PS that is not known. `None` if all are taken.
    pub(super) fn join(&mut self, id: u16, now: u64, incarnation: u32, position: u64) -> Option<u8> {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot >= MAX_PEERS {
            return None;
        }
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.last_serial = self.last_serial.wrapping_add(1);
        self.slots[slot] = Some(Peer {
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
            direct: BlockWriter::new(incarnation),
        });
        Some(slot as u8)
    }

    /// True if nobody else can join.
    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= MAX_PEERS && self.slots.iter().all(Option::is_some)
    }

    /// Frees a slot.
    pub(super) fn remove(&mut self, slot: u8) {
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = None;
        }
    }

    pub(super) fn slot(&self, id: u16) -> Option<u8> {
        let is = |peer: &Option<Peer>| peer.as_ref().is_some_and(|peer| peer.id == Some(id));
        self.slots.iter().position(is).map(|slot| slot as u8)
    }

    pub(super) fn get(&self, slot: u8) -> Option<&Peer> {
        self.slots.get(usize::from(slot))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u8) -> Option<&mut Peer> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Everyone, by slot; those that are gone have no number.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u8, &mut Peer)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, peer)| Some((slot as u8, peer.as_mut()?)))
    }

    /// The number of the P2PS in a slot, if it is there.
    pub(super) fn id(&self, slot: u8) -> Option<u16> {
        self.get(slot)?.id
    }

    /// One that is there and of which this is true.
    pub(super) fn find(&self, wanted: impl Fn(&Peer) -> bool) -> Option<u16> {
        self.slots.iter().flatten().filter(|peer| wanted(peer)).find_map(|peer| peer.id)
    }

    /// One that is gone, and whose lease has run longest.
    pub(super) fn oldest_lease(&self) -> Option<u8> {
        let gone = self.slots.iter().enumerate().filter_map(|(slot, peer)| Some((slot, peer.as_ref()?)));
        let gone = gone.filter(|(_, peer)| peer.id.is_none());
        gone.min_by_key(|(_, peer)| peer.last_heard).map(|(slot, _)| slot as u8)
    }
}
