//! HTTP of a process: the web page, metrics, health, and the administration of `/api/v1`.
//!
//! One thread serves it, beside those that serve data. What it has to know of them it asks them ([`Threads`]): they answer at the end
//! of a turn, when they are asked and never else.
//!
//! | room | what it is |
//! |---|---|
//! | [`api`] | the table of what can be asked and done; the router and the OpenAPI document are made of it |
//! | `endpoint` | what an endpoint is, and the state that endpoints answer from |
//! | `rights` | what administrators ask and do about permissions |
//! | [`facts`] | what is told of processes, services, providers, clients and items |
//! | `families` | how a family of metrics is written |
//! | `feeds` | how exchanges' feeds of the process stand |
//! | `delays` | how delayed services of the process stand |
//! | `item_detail` | what is told of one item |
//! | `images` | how the image of an item is told |
//! | `history` | what items were worth before the page was opened |
//! | `replays` | how replays of the process stand, and how they are steered |
//! | `recording` | what administrators ask and do about what is recorded |
//! | `scenarios` | the test stand of the process: scenarios that are chosen, and their steps |
//! | [`metrics`] | the counters as OpenMetrics |
//! | `access` | who may look, who may act: pages of other servers, users |
//! | `passwords` | names and passwords, checked in a thread of their own |
//! | `asked`, `answer` | what a request says, read strictly; what it is answered |
//! | `assets` | the files of the page |
//! | `threads` | how the serving threads are asked |
//! | `sharedmem` | statistics as scripts for RTDS read them |
//! | `serve` | sockets, requests, answers |
//! | `places` | who has a place, and who gives way |
//! | `paced` | answers that are not taken |

mod access;
mod actions;
mod answer;
pub mod api;
mod asked;
mod assets;
mod delays;
mod endpoint;
pub mod facts;
mod families;
mod feeds;
mod history;
mod images;
mod item_detail;
pub mod metrics;
mod openapi;
mod paced;
mod passwords;
mod places;
mod recording;
mod replays;
mod rights;
mod scenarios;
mod serve;
mod sharedmem;
mod threads;

pub use api::document;
pub use delays::{Delay, Delays};
pub use feeds::{Feed, Feeds, Line};
pub use replays::Replays;
pub use serve::{Running, start};
pub use threads::Threads;

use std::net::SocketAddr;

use scenario_io::stand::Stand;

/// The role of the daemon that carries streams ([`About::role`]).
pub const RRCPD: &str = "rrcpd";
/// The role of a test stand ([`About::role`]).
pub const STAND: &str = "scenario";

/// Facts of a process that the page and the administration tell without asking a thread.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// `serve`, `p2ps`, `source-distributor`, `rrcpd`, `demo`, `scenario`.
    pub role: &'static str,
    /// Where consumers connect.
    pub rssl: Option<SocketAddr>,
    /// Where consumers with the encrypted connection type connect.
    pub encrypted: Option<SocketAddr>,
    /// The port by which WebSocket clients find a server by habit.
    pub websocket: Option<SocketAddr>,
    /// Where non-interactive providers connect.
    pub nip: Option<SocketAddr>,
    /// Where P2PSs connect.
    pub hub: Option<SocketAddr>,
    /// The service of requests that name none.
    pub default_service: String,
    /// Clients may speak WebSocket on the ports for consumers.
    pub takes_websocket: bool,
    /// When the process was ready, Unix seconds.
    pub started: u64,
    /// Exchanges' feeds that the process takes in itself.
    pub feeds: Feeds,
    /// Services that the process publishes later itself.
    pub delays: Delays,
    /// Recordings that the process plays itself.
    pub replays: Replays,
    /// The test stand that the process is.
    pub stand: Option<Stand>,
}
