//! Messages that another source has numbered, on their way through a router.

use lbm::topic::SendError;
use lbm::wire::lbmc::Message;

use super::{Leave, Link, Outbound, TRAIN_DATAGRAMS};
use crate::io::Io;

impl Outbound {
    /// Sends a message or fragment under the number that it has, with its extension headers.
    #[inline]
    pub(crate) fn forward(
        &mut self,
        now: u64,
        io: &mut Io,
        topic: u32,
        message: &Message<'_>,
        leave: Leave,
    ) -> Result<u32, SendError> {
        let (topics, flush) = (&mut self.topics, leave == Leave::Now);
        let (sqn, full) = match &mut self.link {
            Link::Lbtrm(out) => {
                let sqn = topics.with(topic, |source| source.forward(now, out.carrier(), message, flush))?;
                (sqn, out.sender.has_train(out.train_max, TRAIN_DATAGRAMS))
            }
            Link::Lbtru(out) => {
                let sqn = topics.with(topic, |source| source.forward(now, out.server.sender(), message, flush))?;
                (sqn, out.server.sender().has_train(out.train_max, TRAIN_DATAGRAMS))
            }
            Link::Tcp(out) => {
                if out.is_full() {
                    return Err(SendError::WouldBlock);
                }
                let sqn = topics.with(topic, |source| source.forward(now, &mut out.batch, message, flush))?;
                (sqn, out.batch.output().len() >= net::udp::PAYLOAD_MAX)
            }
            Link::Lbtipc(out) => {
                if !out.can_ever_take(message.tail.len()) {
                    return Err(SendError::TooLong);
                }
                let sent = topics.with(topic, |source| source.forward(now, &mut out.carrier(), message, flush));
                out.sent(now, message.tail.len(), sent);
                return sent;
            }
        };
        self.took(now, io, leave, full);
        Ok(sqn)
    }
}
