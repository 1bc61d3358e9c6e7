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

/// Messages of one topic that lie one behind the other as they came: without extension headers, and with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// Topic sequence number of the first.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// The messages, LBMC headers included: see [`lbmc::Message::plain`](crate::wire::lbmc::Message::plain).
    pub bytes: &'a [u8],
}

impl<'a> Run<'a> {
    /// Messages that were a run, and lie in `bytes`, the first with this number.
    pub fn read(first: u32, bytes: &'a [u8]) -> Self {
        let all = Self { first, count: 0, bytes };
        let (count, length) = all.messages().fold((0, 0), |(count, at), (_, message)| (count + 1, at + message.len()));
        Self { first, count, bytes: &bytes[..length] }
    }

    /// The messages that `bytes` begin with, if they are of this topic and numbered from `first` on.
    #[inline]
    pub(crate) fn of(topic: u32, first: u32, bytes: &'a [u8]) -> Self {
        let (mut end, mut count) = (0, 0);
        while let Some((message, length)) = bytes.get(end..).and_then(crate::wire::lbmc::Message::plain)
            && (message.topic, message.sqn) == (topic, first.wrapping_add(count))
        {
            end += length;
            count += 1;
        }
        Self { first, count, bytes: &bytes[..end] }
    }

    /// The number behind the last.
    #[inline]
    pub fn end(&self) -> u32 {
        self.first.wrapping_add(self.count)
    }

    /// Each message: its number, and its bytes with the LBMC header.
    #[inline]
    pub fn messages(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let (mut rest, mut sqn) = (self.bytes, self.first);
        core::iter::from_fn(move || {
            let (_, length) = crate::wire::lbmc::Message::plain(rest)?;
            let message = (sqn, &rest[..length]);
            (rest, sqn) = (&rest[length..], sqn.wrapping_add(1));
            Some(message)
        })
    }
}

/// Takes what receivers receive. `receiver` is the number given to [`Session::add`].
pub trait TopicSink {
    /// Whether [`TopicSink::run`] may take anything: what costs nothing where it does not.
    const TAKES_RUNS: bool = false;

    /// The source was heard. Once, before any message.
    fn begin(&mut self, _receiver: u32) {}

    /// A message.
    fn message(&mut self, receiver: u32, message: Message<'_>);

    /// Messages, for who keeps them as they came. False: [`TopicSink::message`] is to have each.
    fn run(&mut self, _receiver: u32, _run: &Run<'_>) -> bool {
        false
    }

    /// The message, or fragment, with this topic sequence number is lost. Once for each, and never before the first message.
    fn lost(&mut self, receiver: u32, sqn: u32);

    /// So many in one gap are lost: more than `delivery_control_maximum_burst_loss`.
    fn burst_lost(&mut self, receiver: u32, first: u32, count: u32);

    /// A control message that names the topic by its index came, with headers that are not known here.
    fn control(&mut self, _receiver: u32, _message: &crate::wire::lbmc::Message<'_>) {}

    /// The session's source leaves out topics that its receivers do not ask for, and says where they ask.
    fn filters(&mut self, _init: &crate::wire::filtering::FilterInit) {}

    /// The source has ended. Once; it may begin again.
    fn end(&mut self, receiver: u32, reason: EndReason);
}
