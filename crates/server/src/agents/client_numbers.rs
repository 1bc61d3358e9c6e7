//! The numbers by which a P2PS knows the clients on our connections. A number outlives its connection where the client had so much open
//! that it departs in turns: it is not given out again before.

use hub::p2ps::ClientId;
use net::tcp::ConnId;

/// Which connection is which client.
#[derive(Debug, Default)]
pub(super) struct ClientNumbers {
    /// By connection slot.
    by_slot: Vec<Option<(ConnId, ClientId)>>,
    free: Vec<ClientId>,
    /// Numbers that were ever given out.
    given: u32,
}

impl ClientNumbers {
    /// A number for a connection, as low as any that is free.
    pub(super) fn enter(&mut self, conn: ConnId) -> ClientId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.given += 1;
            ClientId(self.given - 1)
        });
        if self.by_slot.len() <= conn.slot() {
            self.by_slot.resize(conn.slot() + 1, None);
        }
        debug_assert!(self.by_slot[conn.slot()].is_none(), "{conn:?} is in a slot that is taken");
        self.by_slot[conn.slot()] = Some((conn, id));
        id
    }

    /// Whose a connection is.
    #[inline]
    pub(super) fn of(&self, conn: ConnId) -> Option<ClientId> {
        let (of, id) = (*self.by_slot.get(conn.slot())?)?;
        (of == conn).then_some(id)
    }

    /// A connection is gone; tells whose it was. The number is taken until it is [released](Self::release).
    pub(super) fn leave(&mut self, conn: ConnId) -> Option<ClientId> {
        let id = self.of(conn)?;
        self.by_slot[conn.slot()] = None;
        Some(id)
    }

    /// Nothing is left of a client that is gone.
    pub(super) fn release(&mut self, id: ClientId) {
        debug_assert!(!self.free.contains(&id) && id.0 < self.given, "{id:?} is free already");
        self.free.push(id);
    }
}
