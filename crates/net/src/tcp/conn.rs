//! One connection's state and the dense table of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::tail::Tail;
use super::{CloseReason, ConnId};
use crate::fault::ConnFault;

/// What is true of a connection; several at once.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags(u16);

impl Flags {
    /// The connect is under way: nothing can be sent or received.
    pub(super) const CONNECTING: Self = Self(1);
    /// The kernel may hold input that has not been received.
    pub(super) const READABLE: Self = Self(1 << 1);
    /// The connection is in the list that the next poll reports as readable.
    pub(super) const LISTED: Self = Self(1 << 2);
    /// The caller wants no input for now.
    pub(super) const PAUSED: Self = Self(1 << 3);
    /// End of stream or an error is known to follow the input: only a recv that says so ends the reading.
    pub(super) const ENDING: Self = Self(1 << 4);
    /// Writability is armed in epoll.
    pub(super) const ARMED: Self = Self(1 << 5);
    /// Bytes wait in the tail.
    pub(super) const TAIL: Self = Self(1 << 6);
    /// The caller has closed it; what waits is still being sent.
    pub(super) const CLOSING: Self = Self(1 << 7);
    /// All has been sent and our end of stream too.
    pub(super) const SHUT: Self = Self(1 << 8);
    /// A send failed (`why` says how): input that is still there is delivered, then it ends.
    pub(super) const SEND_FAILED: Self = Self(1 << 9);
    /// A fault is injected.
    pub(super) const FAULTY: Self = Self(1 << 10);
    /// A fault keeps it from being read.
    pub(super) const STALLED: Self = Self(1 << 11);
    /// The connection is one of those that wait when the caller says so.
    pub(super) const PATIENT: Self = Self(1 << 12);

    /// What keeps input from being reported.
    pub(super) const HELD: Self = Self(Self::PAUSED.0 | Self::STALLED.0 | Self::CLOSING.0);
    /// What keeps a connection from being put on the list: being held, or being there.
    pub(super) const UNREPORTED: Self = Self(Self::HELD.0 | Self::LISTED.0);

    /// What keeps a send from going straight to the kernel.
    pub(super) const SEND_ASIDE: Self =
        Self(Self::CONNECTING.0 | Self::TAIL.0 | Self::CLOSING.0 | Self::FAULTY.0 | Self::SEND_FAILED.0);
    /// What keeps a receive from going straight to the kernel.
    pub(super) const RECV_ASIDE: Self = Self(Self::CONNECTING.0 | Self::CLOSING.0 | Self::FAULTY.0);

    pub(super) fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    pub(super) fn set(&mut self, what: Self) {
        self.0 |= what.0;
    }

    pub(super) fn clear(&mut self, what: Self) {
        self.0 &= !what.0;
    }
}

/// A connection. Forty bytes (asserted below): ten thousand idle ones cost nothing worth counting.
pub(super) struct Conn {
    /// `None` in a free slot and after the end.
    pub(super) fd: Option<OwnedFd>,
    pub(super) generation: u32,
    pub(super) flags: Flags,
    pub(super) tail: Option<Box<Tail>>,
    pub(super) fault: Option<Box<ConnFault>>,
    pub(super) why: CloseReason,
}

impl Conn {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("a connection has its descriptor until it has ended").as_fd()
    }

    /// Closes the descriptor.
    pub(super) fn drop_fd(&mut self) {
        self.fd = None;
    }

    pub(super) fn queued(&self) -> usize {
        self.tail.as_ref().map_or(0, |tail| tail.len())
    }
}

const _: () = assert!(size_of::<Conn>() <= 40);

/// The dense table: slots are reused, lowest recently freed first; the generation tells the owners of a slot apart.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Conn>,
    free: Vec<u32>,
}

impl Slots {
    /// The id that the next [`insert`](Self::insert) gives.
    pub(super) fn next_id(&self) -> ConnId {
        match self.free.last() {
            Some(&slot) => ConnId { slot, generation: self.slots[slot as usize].generation },
            None => ConnId { slot: self.slots.len() as u32, generation: 0 },
        }
    }

    pub(super) fn insert(&mut self, fd: OwnedFd, flags: Flags) -> ConnId {
        let id = self.next_id();
        let why = CloseReason::Local { drained: false };
        let conn = Conn { fd: Some(fd), generation: id.generation, flags, tail: None, fault: None, why };
        if self.free.pop().is_some() {
            self.slots[id.slot as usize] = conn;
        } else {
            self.slots.push(conn);
        }
        id
    }

    /// Makes the slot of an ended connection free for another one.
    pub(super) fn release(&mut self, id: ConnId) {
        let conn = &mut self.slots[id.slot as usize];
        debug_assert!(conn.generation == id.generation && conn.fd.is_none() && conn.tail.is_none());
        conn.generation = conn.generation.wrapping_add(1);
        conn.fault = None;
        self.free.push(id.slot);
    }

    /// The connection, unless the id is from an earlier owner of the slot. It may have ended.
    #[inline]
    pub(super) fn get(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.slots.get_mut(id.slot as usize).filter(|conn| conn.generation == id.generation)
    }

    #[inline]
    pub(super) fn get_ref(&self, id: ConnId) -> Option<&Conn> {
        self.slots.get(id.slot as usize).filter(|conn| conn.generation == id.generation)
    }

    /// The connection if it is open, closing included. Whoever finds none has nothing more to do: its end is reported once, by
    /// [`Event::Closed`](super::Event::Closed), and an owner who has not read that yet may still name it.
    #[inline]
    pub(super) fn open(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.get(id).filter(|conn| conn.fd.is_some())
    }

    pub(super) fn open_ref(&self, id: ConnId) -> Option<&Conn> {
        self.get_ref(id).filter(|conn| conn.fd.is_some())
    }

    /// Connections whose slot is taken.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
