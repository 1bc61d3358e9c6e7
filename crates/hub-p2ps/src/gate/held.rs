//! Messages of clients that wait until the audit has room: what is not logged must not happen.

use crate::clients::kept_messages::KeptMessages;
use crate::ids::ClientId;
use crate::keyed_queue::KeyedQueue;

/// Bytes that one client may have waiting before it is cut off.
const CLIENT_MAX: usize = 1 << 20;
/// Bytes that all clients may have waiting; beyond, who sends more is cut off.
const ALL_MAX: usize = 64 << 20;

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

    /// What comes later of a client has to wait behind what it has waiting.
    pub(crate) fn holds_for(&self, client: ClientId) -> bool {
        !self.queue.is_empty() && self.queue.contains(client)
    }

    /// Keeps a message.
    ///
    /// # Errors
    /// There is no room: so many bytes of the client wait.
    pub(crate) fn push(&mut self, client: ClientId, msg: &[u8]) -> Result<(), usize> {
        let waiting = self.queue.get_mut(client).map_or(0, |kept| kept.bytes());
        let cost = KeptMessages::cost(msg);
        if waiting + cost > CLIENT_MAX || self.bytes + cost > ALL_MAX {
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
    use super::{CLIENT_MAX, ClientId, HeldMessages};

    #[test]
    fn messages_come_out_in_order_and_are_bounded() {
        let (a, b) = (ClientId(1), ClientId(2));
        let mut held = HeldMessages::default();
        held.push(a, b"one").unwrap();
        held.push(b, b"two").unwrap();
        held.push(a, b"three").unwrap();
        assert_eq!(held.push(a, &vec![0; CLIENT_MAX]), Err(16));
        assert_eq!(held.push(ClientId(3), &vec![0; CLIENT_MAX + 1]), Err(0));
        assert!(!held.holds_for(ClientId(3)));
        assert_eq!(held.pop().unwrap().1[..], *b"one");
        assert_eq!(held.pop().unwrap().1[..], *b"two", "clients take turns");
        held.push(b, b"four").unwrap();
        held.forget(a);
        assert!(!held.holds_for(a) && held.holds_for(b));
        assert_eq!(held.pop().unwrap().0, b);
        assert!(held.pop().is_none() && held.bytes == 0 && held.is_empty());
    }
}
