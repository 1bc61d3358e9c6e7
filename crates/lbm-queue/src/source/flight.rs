//! Messages that are not consumed in all application sets, and where each of them stands in each set.

use std::collections::VecDeque;

use crate::Index;

/// Bytes of memory that is kept for messages to come.
const SPARE_MAX: usize = 4 << 20;

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) payload: Vec<u8>,
    pub(super) index: Option<Index>,
    pub(super) sent_at: u64,
    /// Sets in which it is neither consumed nor given up, by bit.
    open: u16,
}

/// Where a message stands in one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody can have it now.
    Waiting,
    /// Assigned to the receiver of this place; `sent_at`: when the transport has taken it for that one.
    Assigned { place: u16, sent_at: Option<u64> },
    /// Consumed, or given up.
    Done,
}

/// See [`Standing`].
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) standing: Standing,
    /// How often it was assigned.
    pub(super) times: u16,
    /// Whether it was ever sent for a receiver of the set: somebody may have had it.
    pub(super) was_sent: bool,
}

/// See the module: consecutive stamps, oldest first.
#[derive(Debug)]
pub(super) struct Flight {
    sets: usize,
    base: u64,
    messages: VecDeque<Option<Message>>,
    /// As many for each message as there are sets.
    states: VecDeque<State>,
    open: usize,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Flight {
    pub(super) fn new(sets: usize) -> Self {
        Self {
            sets,
            base: 0,
            messages: VecDeque::new(),
            states: VecDeque::new(),
            open: 0,
            bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
        }
    }

    /// Messages that are not done with.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.open
    }

    /// Their bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stamps from the oldest that is not done with on; some of them are.
    pub(super) fn stamps(&self) -> std::ops::Range<u64> {
        self.base..self.base + self.messages.len() as u64
    }

    /// Keeps a message; it waits in all sets.
    pub(super) fn push(&mut self, now: u64, payload: &[u8], index: Option<Index>) -> u64 {
        let mut kept = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= kept.capacity();
        kept.extend_from_slice(payload);
        self.open += 1;
        self.bytes += kept.len();
        let open = u16::MAX >> (16 - self.sets.min(16));
        self.messages.push_back(Some(Message { payload: kept, index, sent_at: now, open }));
        let waits = State { standing: Standing::Waiting, times: 0, was_sent: false };
        self.states.extend(std::iter::repeat_n(waits, self.sets));
        self.base + self.messages.len() as u64 - 1
    }

    #[inline]
    fn offset(&self, stamp: u64) -> Option<usize> {
        usize::try_from(stamp.checked_sub(self.base)?).ok()
    }

    #[inline]
    pub(super) fn get(&self, stamp: u64) -> Option<&Message> {
        self.messages.get(self.offset(stamp)?)?.as_ref()
    }

    /// `None`: the message is done with, or there is no such set.
    #[inline]
    pub(super) fn state(&self, stamp: u64, set: u16) -> Option<&State> {
        let (offset, set) = (self.offset(stamp)?, usize::from(set));
        if set < self.sets { self.states.get(offset * self.sets + set) } else { None }
    }

    #[inline]
    pub(super) fn state_mut(&mut self, stamp: u64, set: u16) -> Option<&mut State> {
        let (offset, set) = (self.offset(stamp)?, usize::from(set));
        if set < self.sets { self.states.get_mut(offset * self.sets + set) } else { None }
    }

    /// The message is done with in a set. Whether it is so in all of them now, and is kept no more.
    pub(super) fn done(&mut self, stamp: u64, set: u16) -> bool {
        if let Some(state) = self.state_mut(stamp, set) {
            state.standing = Standing::Done;
        }
        let Some(offset) = self.offset(stamp) else { return false };
        let Some(place) = self.messages.get_mut(offset) else { return false };
        let Some(message) = place else { return false };
        message.open &= !(1 << set);
        if message.open != 0 {
            return false;
        }
        if let Some(Message { payload, .. }) = place.take() {
            self.open -= 1;
            self.bytes -= payload.len();
            self.recycle(payload);
        }
        while let Some(None) = self.messages.front() {
            self.messages.pop_front();
            self.states.drain(..self.sets);
            self.base += 1;
        }
        true
    }

    fn recycle(&mut self, mut payload: Vec<u8>) {
        if self.spare_bytes + payload.capacity() <= SPARE_MAX {
            payload.clear();
            self.spare_bytes += payload.capacity();
            self.spare.push(payload);
        }
    }
}
