//! Tasks that a router has for its owner.

use std::net::SocketAddrV4;

use crate::ids::{PortalId, StreamId};
use crate::interest::Interest;
use crate::origin::Origin;
use crate::wire::BadFrame;

/// A task for the owner of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look for sources of an interest in a domain.
    Listen {
        /// The endpoint.
        portal: PortalId,
        /// What for.
        interest: Interest,
    },
    /// Not any more; its sources are not to be told as ended.
    Unlisten {
        /// The endpoint.
        portal: PortalId,
        /// What for.
        interest: Interest,
    },
    /// Ask the domain whether these are still wanted.
    AskForUse {
        /// The endpoint.
        portal: PortalId,
        /// Topics and patterns.
        interests: Vec<Interest>,
    },
    /// Make a proxy source.
    Serve {
        /// The endpoint.
        portal: PortalId,
        /// The source that it stands for.
        stream: StreamId,
        /// The news of that.
        advert: ProxyAdvert,
    },
    /// Remove a proxy source, behind what was sent by it.
    Cease {
        /// The endpoint.
        portal: PortalId,
        /// The source that it stood for.
        stream: StreamId,
    },
    /// A source with stores has said which, or has said it anew: tell the receivers of its proxy source. [`Router::stores`](crate::Router::stores)
    /// has the word.
    TellStores {
        /// The endpoint.
        portal: PortalId,
        /// The source that the proxy stands for.
        stream: StreamId,
    },
    /// Answer a request in the domain where it was made.
    Respond {
        /// The endpoint.
        portal: PortalId,
        /// Where the requester takes answers.
        to: SocketAddrV4,
        /// The request there.
        number: u32,
        /// The answer.
        payload: Vec<u8>,
    },
    /// Close the connection of a peer portal.
    HangUp {
        /// The portal.
        portal: PortalId,
        /// Why.
        why: PeerFault,
    },
}

/// What a proxy source's advertisement says of the source that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyAdvert {
    /// The topic.
    pub topic: Box<str>,
    /// The source.
    pub origin: Origin,
    /// Routers between, this one included.
    pub hops: u8,
    /// Costs of the path.
    pub cost: u32,
    /// The source has stores.
    pub persistent: bool,
}

/// A source that was found in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFound<'a> {
    /// Name of the source across domains.
    pub origin: Origin,
    /// The topic.
    pub topic: &'a str,
    /// The source has stores, as its advertisement says.
    pub persistent: bool,
}

/// Why the connection of a peer is closed: each is the peer's fault, but for the last three, which may be anybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerFault {
    /// The bytes are no frame.
    Frame(BadFrame),
    /// A frame says what cannot be.
    Claim(&'static str),
    /// The peer has the id of this router: two routers have one, or a portal leads back to its own router.
    OurId,
    /// The peer said nothing.
    Silent,
    /// The peer does not read.
    Slow,
}

impl core::fmt::Display for PeerFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Frame(bad) => write!(f, "the peer does not speak this protocol: {bad}"),
            Self::Claim(what) => write!(f, "the peer says what cannot be: {what}"),
            Self::OurId => f.write_str(
                "the peer has this router's own id: the portal leads back here, or two routers have one name (give each its own `name`)",
            ),
            Self::Silent => f.write_str("the peer is silent: it hangs, or the network between is cut"),
            Self::Slow => f.write_str("the peer does not read what is sent: it hangs, or the network between is too slow"),
        }
    }
}

/// Takes messages for proxy sources.
pub trait Forward {
    /// A message for the proxy source that stands for a stream. Its numbers ascend; those left out are lost.
    fn message(&mut self, portal: PortalId, stream: StreamId, sqn: u32, message: &[u8]);
    /// All numbers before this one are over: the last ones are lost.
    fn skip_to(&mut self, portal: PortalId, stream: StreamId, sqn: u32);
}
