//! The state of the demo at one moment, as its view shows it.

use super::detail::Detail;
use measure::latency::Summary;
use rwf::Real;

/// Everything that is on the screen.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Name of the service.
    pub service: String,
    /// Where the watchlist is connected to.
    pub address: String,
    /// Since when this runs, in seconds.
    pub uptime_s: f64,
    /// How far the way to the service is there.
    pub link: Link,
    /// The watchlist, in the order in which it was asked for.
    pub rows: Vec<Row>,
    /// Updates in the last second.
    pub rate: u64,
    /// Updates of each of the last seconds, oldest first.
    pub rates: Vec<u64>,
    /// Updates since the start.
    pub updates: u64,
    /// Images since the start.
    pub images: u64,
    /// From publisher to this screen, over the last seconds; no samples while nothing carries a time stamp.
    pub latency: Summary,
    /// Lines for the person: how to connect something else.
    pub hints: Vec<String>,
    /// The last thing that happened to the session.
    pub notice: String,
    /// What the last command has done, and when; it stays until the next one, whatever happens to the session meanwhile.
    pub done: String,
    /// The item that is looked at in full.
    pub detail: Option<Detail>,
    /// Who is connected to the server; `None` where nobody tells.
    pub clients: Option<Vec<ClientLine>>,
    /// Keys that do something to the system, and what.
    pub commands: Vec<(char, &'static str)>,
}

/// How far the way from the view to its service is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// There is no connection to the server.
    #[default]
    Away,
    /// The connection is there, and the service is not in the directory.
    NoService,
    /// The server has the service, and its provider says that it is down or has gone.
    ServiceDown,
    /// The service can be used.
    Up,
}

impl Link {
    /// As the view calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Away => "not connected",
            Self::NoService => "no service yet",
            Self::ServiceDown => "service down",
            Self::Up => "connected",
        }
    }
}

/// A client of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientLine {
    /// Login name; empty before the login.
    pub user: String,
    /// Application name or program.
    pub application: String,
    /// Address and port.
    pub address: String,
    /// `rssl`, `rssl.rwf` or `tr_json2`.
    pub protocol: String,
    /// Items it watches.
    pub items: u64,
    /// Bytes that wait for it.
    pub waiting_bytes: u64,
    /// Seconds since it came.
    pub connected_s: u64,
}

impl Snapshot {
    /// Rows that have an image.
    pub fn imaged(&self) -> usize {
        self.rows.iter().filter(|r| r.imaged).count()
    }

    /// Every item of the watchlist was answered.
    pub fn is_ready(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|r| r.imaged || !r.state.is_empty())
    }
}

/// Where a price went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Nowhere yet.
    #[default]
    Level,
    /// Higher than before.
    Up,
    /// Lower than before.
    Down,
}

impl Row {
    /// What stands in place of quotes where an item has none by its nature: the members of a chain.
    pub fn in_words(&self) -> Option<String> {
        let quotes = [self.bid, self.ask, self.last];
        (self.imaged && !self.members.is_empty() && quotes.iter().all(Option::is_none))
            .then(|| format!("chain of {}: {}", self.members.len(), self.members.join(" ")))
    }
}

/// One item of the watchlist.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Name of the item.
    pub name: String,
    /// It has an image.
    pub imaged: bool,
    /// Why there is none, or what is wrong with it; empty when all is well.
    pub state: String,
    /// Best bid.
    pub bid: Option<Real>,
    /// Its size.
    pub bid_size: Option<Real>,
    /// Best ask.
    pub ask: Option<Real>,
    /// Its size.
    pub ask_size: Option<Real>,
    /// Last trade.
    pub last: Option<Real>,
    /// Change since yesterday.
    pub change: Option<Real>,
    /// The same in percent.
    pub percent: Option<Real>,
    /// Volume of the day.
    pub volume: Option<Real>,
    /// The members that a record of a chain names; empty for everything else.
    pub members: Vec<String>,
    /// The same by the place of their field, with gaps.
    pub(super) links: Vec<String>,
    /// Where the last trade (or bid, without trades) went.
    pub direction: Direction,
    /// Seconds since the price moved; colours fade.
    pub moved_s: f64,
    /// Updates so far.
    pub updates: u64,
}
