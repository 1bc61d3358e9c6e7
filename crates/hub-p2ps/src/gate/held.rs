//! Messages of clients that wait until the audit has room: what is not logged must not happen.

use crate::clients::kept_messages::KeptMessages;
use crate::ids::ClientId;
use crate::keyed_queue::KeyedQueue;

/// Bytes that one client may have waiting before it is cut off.
const CLIENT_MAX: usize = 1 << 20;
/// Bytes that all clients may have waiting; beyond, who sends more is cut off.
const ALL_MAX: usize = 64 << 20;
/// Of which clients that are not logged in may have so many each, and begin no more once so many wait of whomever.
const STRANGER_MAX: usize = 64 << 10;
/// See [`STRANGER_MAX`].
const STRANGERS_MAX: usize = 8 << 20;

/// The messages of each client, in the order in which it sent them. Clients take turns.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    queue: KeyedQueue<ClientId, KeptMessages>,
    bytes: usize,
}

impl HeldMessages {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Later messages of a client have to wait behind those that it has waiting.
    pub(crate) fn holds_for(&self, client: ClientId) -> bool {
        !self.queue.is_empty() && self.queue.contains(client)
    }

    /// Keeps a message.
    ///
    /// # Errors
    /// There is no room: so many bytes of the client wait.
    pub(crate) fn push(&mut self, client: ClientId, msg: &[u8], is_in: bool) -> Result<(), usize> {
        let waiting = self.queue.get_mut(client).map_or(0, |kept| kept.bytes());
        let cost = KeptMessages::cost(msg);
        let (own, all) = if is_in { (CLIENT_MAX, ALL_MAX) } else { (STRANGER_MAX, STRANGERS_MAX) };
        if waiting + cost > own || self.bytes + cost > all {
            return Err(waiting);
        }
        if waiting == 0 {
            self.queue.push_back(client, KeptMessages::default());
        }
        if let Some(kept) = self.queue.get_mut(client) {
            kept.push(msg);
            self.bytes += cost;
        }
        Ok(())
    }

    /// The next message.
    pub(crate) fn pop(&mut self) -> Option<(ClientId, Box<[u8]>)> {
        let (client, mut kept) = self.queue.pop_front()?;
        let msg = kept.pop()?;
        self.bytes -= KeptMessages::cost(&msg);
        if !kept.is_empty() {
            self.queue.push_back(client, kept);
        }
        Some((client, msg))
    }

    /// A client is gone.
    pub(crate) fn forget(&mut self, client: ClientId) {
        if self.holds_for(client)
            && let Some(kept) = self.queue.remove(client)
        {
            self.bytes -= kept.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CLIENT_MAX, ClientId, HeldMessages, STRANGER_MAX, STRANGERS_MAX};

    #[test]
    fn strangers_leave_room_for_those_who_are_in() {
        let mut held = HeldMessages::default();
        assert_eq!(held.push(ClientId(0), &vec![0; STRANGER_MAX + 1], false), Err(0));
        let mut kept = 0;
        while held.push(ClientId(kept + 1), &vec![0; STRANGER_MAX / 2], false).is_ok() {
            kept += 1;
            assert!(kept as usize <= STRANGERS_MAX / (STRANGER_MAX / 2), "bounded");
        }
        assert!(kept > 100, "{kept}");
        held.push(ClientId(0), &vec![0; STRANGER_MAX + 1], true).unwrap();
    }

    #[test]
    fn messages_come_out_in_order_and_are_bounded() {
        let (a, b) = (ClientId(1), ClientId(2));
        let mut held = HeldMessages::default();
        held.push(a, b"one", true).unwrap();
        held.push(b, b"two", true).unwrap();
        held.push(a, b"three", true).unwrap();
        assert_eq!(held.push(a, &vec![0; CLIENT_MAX], true), Err(16));
        assert_eq!(held.push(ClientId(3), &vec![0; CLIENT_MAX + 1], true), Err(0));
        assert!(!held.holds_for(ClientId(3)));
        assert_eq!(held.pop().unwrap().1[..], *b"one");
        assert_eq!(held.pop().unwrap().1[..], *b"two", "clients take turns");
        held.push(b, b"four", true).unwrap();
        held.forget(a);
        assert!(!held.holds_for(a) && held.holds_for(b));
        assert_eq!(held.pop().unwrap().0, b);
        assert!(held.pop().is_none() && held.bytes == 0 && held.is_empty());
    }
}
