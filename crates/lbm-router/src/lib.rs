//! Routing of LBM topics between domains, as a state machine without I/O: what portals hear and `now` (monotonic nanoseconds) go in,
//! frames for peers, messages for proxy sources and [`Action`]s come out.
//!
//! A *domain* is what one topic resolution reaches. A *router* has *portals*: an *endpoint* is a context in a domain, a *peer portal* a
//! connection to another router. A source of one domain appears as a *proxy source* in every other domain where somebody wants its
//! topic, with the same topic, order, numbers and losses.
//!
//! # No loops
//!
//! * Domains are leaves: a router takes only sources that are advertised without hops, so never a proxy, and no router's query counts as
//!   interest. What goes on beyond a domain goes by peer portals.
//! * Interest, and the news of a source, carry the ids of all routers that they have passed. A router refuses what names itself, and tells
//!   nobody who is named. So each lasts no longer than the chain of routers that it came by, and no chain is a circle.
//! * A message goes only where a router has subscribed to the source by such a chain, and each router sends each number of a source
//!   on once at most: [`merge::Merge`] has a cursor that only ascends.
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | the frames between routers |
//! | [`interest`] | who wants what, and by which routers it was heard |
//! | [`merge`] | copies of a source by several paths, made one |
//! | [`router`] | the router |
//!
//! The crate `lbm-router-io` puts sockets around it.
#![forbid(unsafe_code)]

mod action;
mod config;
mod filter;
mod ids;
pub mod interest;
pub mod merge;
mod origin;
pub mod router;
pub mod wire;

pub use action::{Action, Forward, PeerFault, ProxyAdvert, SourceFound};
pub use config::{EndpointConfig, Limits, PeerConfig};
pub use filter::Filter;
pub use ids::{Path, PortalId, RouterId, StreamId};
pub use origin::Origin;
pub use router::{PortalStats, Router, RouterStats, TopicView};
