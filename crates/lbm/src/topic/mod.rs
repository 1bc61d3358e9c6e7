//! Topics over transport sessions: sources number messages, receivers put them in order and together.

mod catch_up;
mod delivery;
mod reassembly;
mod request;
mod retention;
mod session;
mod source;

pub use catch_up::CatchUpConfig;
pub use delivery::{DeliveryConfig, Ordering};
pub use request::{Replies, Reply, decode_reply, encode_reply};
pub use retention::{Retention, RetentionConfig};
pub use session::{Dispatch, Session, SessionStats};
pub use source::{SendError, Source, SourceConfig, SourceStats};

use crate::transport::EndReason;
use crate::wire::lbmc::{Headers, Kind};

/// A whole message, as an application gets it.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Topic sequence number; of the last fragment if there were several.
    pub sqn: u32,
    /// The data, properties included. Borrowed from the received datagram unless the message was fragmented or held.
    pub payload: &'a [u8],
    /// Bytes of message properties at the end of the payload.
    pub properties: u32,
    /// How it came: [`Kind::Retransmission`] for late join and off-transport recovery.
    pub kind: Kind,
    /// Extension headers; those of the last fragment if there were several.
    pub headers: Headers<'a>,
}

/// Takes what receivers receive. `receiver` is the number given to [`Session::add`].
pub trait TopicSink {
    /// The source was heard. Once, before any message.
    fn begin(&mut self, _receiver: u32) {}

    /// A message.
    fn message(&mut self, receiver: u32, message: Message<'_>);

    /// The message, or fragment, with this topic sequence number is lost. Once for each, and never before the first message.
    fn lost(&mut self, receiver: u32, sqn: u32);

    /// So many in one gap are lost: more than `delivery_control_maximum_burst_loss`.
    fn burst_lost(&mut self, receiver: u32, first: u32, count: u32);

    /// A control message that names the topic by its index came, with headers that are not known here.
    fn control(&mut self, _receiver: u32, _message: &crate::wire::lbmc::Message<'_>) {}

    /// The source has ended. Once; it may begin again.
    fn end(&mut self, receiver: u32, reason: EndReason);
}
