//! Events of a context, as its owner gets them.

use lbm::subscriber::Offer;
use lbm::topic::Run;
use lbm::transport::EndReason;
use lbm::wire::lbmc::{Headers, Kind, Message};
use lbm::wire::lbmr::{Advert, Packet, PatternKind, Transport};
use lbm_failover::{Lost, Number, Way};

use crate::handles::{ReceiverId, Request, RequestId, SourceId};
use crate::sources::Sources;

/// One topic of one source, as one receiver has it. Order, and the events of beginning, end and loss, belong to this.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// The receiver of the topic.
    pub receiver: ReceiverId,
    /// A small number that tells the streams of a context apart; used again after the end of a stream.
    pub number: u32,
    /// The topic's name.
    pub topic: &'a str,
    /// The transport session; with the topic's index it names the source.
    pub transport: &'a Transport,
    /// The topic's index in the session.
    pub index: u32,
}

/// A message that has come. Everything is borrowed for the time of the call.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// From which source, of which topic, for which receiver.
    pub stream: Stream<'a>,
    /// Topic sequence number; of the last fragment if there were several.
    pub sqn: u32,
    /// The data, properties included.
    pub payload: &'a [u8],
    /// Bytes of message properties at the end of the payload.
    pub properties: u32,
    /// [`Kind::Retransmission`] if it came by late join or off-transport recovery.
    pub kind: Kind,
    /// Extension headers; those of the last fragment if there were several.
    pub headers: Headers<'a>,
    /// Where a reply is to go, if the sender wants one: see [`Sources::respond`].
    pub request: Option<Request>,
    /// As what it comes, if the receiver is one of hot failover. `sqn` is the number of the source whose copy it is.
    pub failover: Option<Way>,
}

impl<'a> Delivery<'a> {
    /// The data without message properties, which other products may have put behind it.
    pub fn data(&self) -> &'a [u8] {
        let end = self.payload.len().saturating_sub(self.properties as usize);
        &self.payload[..end]
    }
}

/// Messages, or fragments, that will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Topic sequence number of the first.
    pub first: u32,
    /// How many. One event for each number, but for a gap longer than `delivery_control_maximum_burst_loss`.
    pub count: u32,
}

impl Loss {
    /// Whether this is one event for a long gap.
    pub const fn is_burst(self) -> bool {
        self.count > 1
    }
}

/// A topic of a receiver of hot failover.
#[derive(Clone, Copy, Debug)]
pub struct FailoverTopic<'a> {
    /// The receiver.
    pub receiver: ReceiverId,
    /// The topic's name.
    pub topic: &'a str,
}

/// What a receiver of hot failover tells beside messages.
#[derive(Clone, Copy, Debug)]
pub enum FailoverNews<'a> {
    /// Numbers that no source has brought. A single source's losses are not told.
    Lost(Lost),
    /// Two sources have sent different messages under one number.
    Differs {
        /// The number.
        number: Number,
        /// Whose copy was delivered, unless that stream has ended long since.
        delivered: Option<Stream<'a>>,
        /// Whose copy is another one.
        other: Stream<'a>,
    },
    /// A source has said that this number comes next, whatever came before.
    Reset(Number),
}

/// Takes what happens in a [`Context`](crate::Context)'s turn. `sources` is the sending half of the context: a callback may send.
pub trait Events {
    /// Whether [`Events::run`] may take anything: what costs nothing where it does not.
    const TAKES_RUNS: bool = false;

    /// A message.
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>);

    /// Messages of a stream, for who keeps them as they came. False: [`Events::message`] is to have each.
    fn run(&mut self, _sources: &mut Sources, _stream: &Stream<'_>, _run: &Run<'_>) -> bool {
        false
    }

    /// A stream can be heard from now on: its transport session is joined, and nothing of it was heard yet. `offer`: what its source
    /// says that it can do.
    fn found(&mut self, _sources: &mut Sources, _stream: &Stream<'_>, _offer: &Offer) {}

    /// A control message for the stream that is not for the context itself, by its transport or as the answer to [`Context::ask`](crate::Context::ask).
    fn control(&mut self, _sources: &mut Sources, _stream: &Stream<'_>, _message: &Message<'_>) {}

    /// A control message came to the request port that is not for the context itself. What is put into `answers` goes back.
    fn question(&mut self, _sources: &mut Sources, _message: &Message<'_>, _answers: &mut Vec<u8>) {}

    /// A packet of topic resolution has come, before the context itself looks at it.
    fn resolution(&mut self, _packet: &Packet<'_>) {}

    /// A resolution service has said that somebody looks for a topic, or for what matches a pattern: it says so to the context of a router
    /// ([`Context::of_router`](crate::Context::of_router)), and again when that asks who still does.
    fn wanted(&mut self, _pattern: Option<PatternKind>, _name: &[u8]) {}

    /// Whether a source that was found is to be received. One that is not is asked about again with its next advertisement.
    fn accepts(&mut self, _advert: &Advert<'_>) -> bool {
        true
    }

    /// The source was heard: once, before any message of it.
    fn begin(&mut self, _sources: &mut Sources, _stream: &Stream<'_>) {}

    /// The source has ended, once. If it comes back, that is another stream.
    fn end(&mut self, _sources: &mut Sources, _stream: &Stream<'_>, _reason: EndReason) {}

    /// Something is lost for good. Never before the first message of the stream.
    fn lost(&mut self, _sources: &mut Sources, _stream: &Stream<'_>, _loss: Loss) {}

    /// News of a topic that a receiver of hot failover has. [`Events::lost`] is not called for its streams: another source may bring what one
    /// has lost.
    fn failover(&mut self, _sources: &mut Sources, _topic: &FailoverTopic<'_>, _news: &FailoverNews<'_>) {}

    /// After [`SendError::WouldBlock`](crate::SendError::WouldBlock): the source can send again.
    fn writable(&mut self, _sources: &mut Sources, _source: SourceId) {}

    /// A reply to [`Sources::request`]. There may be several.
    fn response(&mut self, _sources: &mut Sources, _request: RequestId, _payload: &[u8]) {}
}

/// Takes messages only.
impl<F: FnMut(&mut Sources, &Delivery<'_>)> Events for F {
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        self(sources, delivery);
    }
}
