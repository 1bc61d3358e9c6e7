//! What receivers have found, so that an advertisement costs two look-ups whatever is known already, and the end of a session
//! only what was found on it.

use std::collections::{HashMap, HashSet};

use crate::wire::lbmr::Transport;

/// Who was looking: a number among the receivers, or among the wildcard receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Seeker {
    Receiver(u32),
    Wildcard(u32),
}

/// The most sources that all receivers of a context may find: 4 million forged advertisements must not fill the memory.
const MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Seeker and topic index.
    by_transport: HashMap<Transport, HashSet<(Seeker, u32)>>,
    count: usize,
}

impl Known {
    pub(super) fn has(&self, transport: &Transport, seeker: Seeker, topic: u32) -> bool {
        self.by_transport.get(transport).is_some_and(|found| found.contains(&(seeker, topic)))
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= MAX
    }

    pub(super) fn add(&mut self, transport: Transport, seeker: Seeker, topic: u32) {
        self.count += usize::from(self.by_transport.entry(transport).or_default().insert((seeker, topic)));
    }

    pub(super) fn remove(&mut self, transport: &Transport, seeker: Seeker, topic: u32) {
        let Some(found) = self.by_transport.get_mut(transport) else { return };
        self.count -= usize::from(found.remove(&(seeker, topic)));
        if found.is_empty() {
            self.by_transport.remove(transport);
        }
    }

    /// Nothing of this session is known any more; who had something of it, each once.
    pub(super) fn take(&mut self, transport: &Transport) -> Vec<Seeker> {
        let found = self.by_transport.remove(transport).unwrap_or_default();
        self.count -= found.len();
        let mut seekers: Vec<Seeker> = found.into_iter().map(|(seeker, _)| seeker).collect();
        seekers.sort_unstable();
        seekers.dedup();
        seekers
    }
}
