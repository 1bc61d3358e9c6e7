//! Messages of clients that wait until the audit has room: what is not logged must not happen.

use crate::ids::ClientId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Bytes that one client may have waiting before it is cut off.
const CLIENT_MAX: usize = 1 << 20;
/// Bytes that all clients may have waiting; beyond, who sends more is cut off.
const ALL_MAX: usize = 64 << 20;

/// The messages, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    queue: VecDeque<(ClientId, Box<[u8]>)>,
    bytes: usize,
    by_client: FxHashMap<ClientId, usize>,
}

impl HeldMessages {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What comes later of a client has to wait behind what it has waiting.
    pub(crate) fn holds_for(&self, client: ClientId) -> bool {
        self.by_client.contains_key(&client)
    }

    /// Keeps a message.
    ///
    /// # Errors
    /// There is no room: so many bytes of the client wait.
    pub(crate) fn push(&mut self, client: ClientId, msg: &[u8]) -> Result<(), usize> {
        let waiting = self.by_client.entry(client).or_default();
        if *waiting + msg.len() > CLIENT_MAX || self.bytes + msg.len() > ALL_MAX {
            let waiting = *waiting;
            if waiting == 0 {
                self.by_client.remove(&client);
            }
            return Err(waiting);
        }
        *waiting += msg.len();
        self.bytes += msg.len();
        self.queue.push_back((client, msg.into()));
        Ok(())
    }

    /// The next message.
    pub(crate) fn pop(&mut self) -> Option<(ClientId, Box<[u8]>)> {
        let (client, msg) = self.queue.pop_front()?;
        self.bytes -= msg.len();
        if let Some(waiting) = self.by_client.get_mut(&client) {
            *waiting -= msg.len();
            if *waiting == 0 {
                self.by_client.remove(&client);
            }
        }
        Some((client, msg))
    }

    /// A client is gone.
    pub(crate) fn forget(&mut self, client: ClientId) {
        if self.by_client.remove(&client).is_some() {
            self.queue.retain(|(other, msg)| {
                let stays = *other != client;
                self.bytes -= if stays { 0 } else { msg.len() };
                stays
            });
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
        assert_eq!(held.push(a, &vec![0; CLIENT_MAX]), Err(8));
        assert_eq!(held.push(ClientId(3), &vec![0; CLIENT_MAX + 1]), Err(0));
        assert!(!held.holds_for(ClientId(3)));
        assert_eq!(held.pop().unwrap().1[..], *b"one");
        held.forget(a);
        assert!(!held.holds_for(a) && held.holds_for(b));
        assert_eq!(held.pop().unwrap().0, b);
        assert!(held.pop().is_none() && held.bytes == 0 && held.by_client.is_empty());
    }
}
