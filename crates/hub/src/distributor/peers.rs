//! The P2PSs that are joined to this Source Distributor.

use crate::stream::Continuity;

/// P2PSs at once: an item's interest is a bit for each.
pub(super) const MAX_PEERS: usize = 64;

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: u16,
    pub(super) continuity: Continuity,
    /// A block of it has been read.
    pub(super) started: bool,
    pub(super) last_heard: u64,
}

/// P2PSs by slot.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: Vec<Option<Peer>>,
}

impl Peers {
    /// The slot of a P2PS; a new one if it is not known. `None` if all are taken.
    pub(super) fn join(&mut self, id: u16, now: u64) -> Option<u8> {
        if let Some(slot) = self.slot(id) {
            return Some(slot);
        }
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot >= MAX_PEERS {
            return None;
        }
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(Peer { id, continuity: Continuity::new(), started: false, last_heard: now });
        Some(slot as u8)
    }

    pub(super) fn leave(&mut self, id: u16) -> Option<u8> {
        let slot = self.slot(id)?;
        self.slots[usize::from(slot)] = None;
        Some(slot)
    }

    pub(super) fn slot(&self, id: u16) -> Option<u8> {
        let is = |peer: &Option<Peer>| peer.as_ref().is_some_and(|peer| peer.id == id);
        self.slots.iter().position(is).map(|slot| slot as u8)
    }

    pub(super) fn get_mut(&mut self, slot: u8) -> Option<&mut Peer> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// The id of the P2PS in a slot.
    pub(super) fn id(&self, slot: u8) -> Option<u16> {
        Some(self.slots.get(usize::from(slot))?.as_ref()?.id)
    }

    /// One that has not been heard since `time`.
    pub(super) fn silent_since(&self, time: u64) -> Option<u16> {
        self.slots.iter().flatten().find(|peer| peer.last_heard < time).map(|peer| peer.id)
    }
}
