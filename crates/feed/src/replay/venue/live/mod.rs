//! A venue's feed as it comes from the network, as a market source without sockets: datagrams and bytes of connections in, items and
//! requests out.
//!
//! What is missing is told before anything else is: which items a missing message is about cannot be known of ITCH and IEX, so all of the channel
//! are Suspect until it has come, or a snapshot is in place.

mod cme;
mod items;
mod link;
mod tally;
mod web;

use std::collections::VecDeque;
use std::sync::Arc;

use venue::iex::tp::TpReceiver;
use venue::lines::LINES;
use venue::nasdaq::mold::{self, Join, Line, MoldReceiver};
use venue::nasdaq::{end_of_snapshot, soup};
use venue::sequence::{Change, Counts, Limits, Receiver};

use self::link::{Link, Wanted};
use self::tally::Times;
use super::board::Board;
use super::iex_messages::IexMessages;
use super::input::LIMITS;
use super::itch::ItchMessages;
use super::messages::Messages;
use super::{Symbology, VenueFile, iex_messages, itch};
use crate::Model;

pub use self::cme::{CmeChannelFile, CmeConfig, CmeFeed, CmeFeedType, CmeSchema, CmeWay};
pub use self::items::{FeedItems, FeedItemsMut, LiveItems};
pub use self::tally::LiveFigures;
pub use self::web::{WebConfig, WebFeed, WebWant};
pub use venue::lines::LineCounts;

/// What comes by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveProtocol {
    /// Nasdaq TotalView-ITCH 5.0 over `MoldUDP64`.
    ItchMold,
    /// Nasdaq TotalView-ITCH 5.0 over `SoupBinTCP`.
    ItchSoup,
    /// IEX TOPS 1.6 over IEX-TP.
    IexTops,
    /// IEX DEEP 1.0 over IEX-TP.
    IexDeep,
}

/// User, password and session of a server; the password is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// User name, at most six characters.
    pub user: String,
    /// Password, at most ten.
    pub password: String,
    /// Session, at most ten; empty: the one that runs.
    pub session: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("session", &self.session).finish_non_exhaustive()
    }
}

/// How a feed is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveConfig {
    /// What comes.
    pub protocol: LiveProtocol,
    /// Behind each symbol; `None`: what is usual for the venue.
    pub suffix: Option<String>,
    /// Names of symbols, where they are others than the venue's.
    pub symbology: Option<Arc<Symbology>>,
    /// There is a server that repeats messages: what is missing is asked for.
    pub is_repeated: bool,
    /// There is a TCP server, and this is the login: of the session, if the protocol is one over TCP, else of snapshots (GLIMPSE).
    pub server: Option<Login>,
}

/// Time of what comes: a clock that never falls, and the time of day, nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds of any clock that never falls.
    pub now: u64,
    /// Nanoseconds since 1970.
    pub wall: u64,
}

/// Where a datagram came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line: A is 0, B is 1.
    Line(u8),
    /// The server that repeats messages.
    Repeater,
}

/// What the feed wants of the network. Each is to be done once, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// A datagram for the server that repeats messages.
    Ask(Vec<u8>),
    /// The connection: [`LiveFeed::connected`] or [`LiveFeed::disconnected`] is to follow.
    Dial,
    /// Bytes for the connection.
    Send(Vec<u8>),
    /// The connection is to be closed, or given up; nothing of it is wanted any more, not even its end.
    HangUp,
}

enum Transport {
    Mold(Box<MoldReceiver>),
    Iex(Box<TpReceiver>),
    Soup,
}

/// A feed from the network.
pub struct LiveFeed {
    board: Board,
    messages: Box<dyn Messages>,
    transport: Transport,
    link: Option<Link>,
    /// Somebody answers requests.
    is_repeated: bool,
    tally: Tally,
    takes_snapshot: bool,
    snapshots: u64,
    is_ready: bool,
    wants: VecDeque<Want>,
}

#[derive(Default)]
struct Tally {
    times: Times,
    /// Sessions that began.
    sessions: u64,
    /// What tells of instruments has come.
    has_names: bool,
    /// Gaps and repairs of a stream without numbers of its own.
    changes: Counts,
    is_in_doubt: bool,
}

/// Applies messages, and what becomes of the stream, in order.
struct Taker<'a> {
    messages: &'a mut dyn Messages,
    board: &'a mut Board,
    tally: &'a mut Tally,
    wall: u64,
}

impl Receiver for Taker<'_> {
    #[inline]
    fn message(&mut self, _number: u64, message: &[u8]) {
        let at = self.messages.time(message);
        if let Some(at) = at {
            self.tally.times.add(at, self.wall);
        }
        self.tally.has_names |= self.messages.is_traffic(message);
        self.messages.apply(message, at.unwrap_or(self.wall), self.board);
    }

    fn change(&mut self, change: &Change) {
        let tally = &mut *self.tally;
        match change {
            Change::Session { .. } => {
                tally.sessions += 1;
                tally.is_in_doubt = false;
                self.messages.set_date(self.wall);
            }
            Change::Gap { .. } => {
                tally.changes.gaps += 1;
                tally.is_in_doubt = true;
            }
            Change::Lost { missing } => {
                tally.changes.lost += missing.end - missing.start;
                tally.is_in_doubt = true;
            }
            Change::Repaired | Change::Resumed { .. } => {
                tally.changes.repairs += 1;
                tally.is_in_doubt = false;
            }
            Change::Ended => {}
        }
        self.messages.change(change, self.board);
    }
}

/// Takes a snapshot: its messages are applied, and the number at its end is where the lines go on.
struct FromSnapshot<'a> {
    messages: &'a mut dyn Messages,
    board: &'a mut Board,
    wall: u64,
    next: Option<u64>,
}

/// Why items are Suspect while a snapshot is being taken.
const SNAPSHOT: &str = "a snapshot is being taken";

impl Receiver for FromSnapshot<'_> {
    fn message(&mut self, _number: u64, message: &[u8]) {
        if self.next.is_some() {
            return;
        }
        self.next = end_of_snapshot(message);
        if self.next.is_none() {
            let at = self.messages.time(message).unwrap_or(self.wall);
            self.messages.apply(message, at, self.board);
            // The beginning of the day, told in it, is no end of doubt.
            self.board.doubt(SNAPSHOT);
        }
    }

    fn change(&mut self, _: &Change) {}
}

/// Limits where somebody answers requests.
const REPEATED: Limits = Limits {
    patience: 5_000_000,
    first_retry: 100_000_000,
    longest_retry: 2_000_000_000,
    attempts: 8,
    most_requested: 1_000,
    window: LIMITS.window,
    held_bytes: LIMITS.held_bytes,
};

impl LiveProtocol {
    fn file(self) -> VenueFile {
        match self {
            Self::ItchMold | Self::ItchSoup => VenueFile::NasdaqMold,
            Self::IexTops => VenueFile::IexTops,
            Self::IexDeep => VenueFile::IexDeep,
        }
    }

    fn models(self) -> &'static [Model] {
        match self {
            Self::ItchMold | Self::ItchSoup => &[Model::Price, Model::ByOrder, Model::ByPrice],
            Self::IexTops => &[Model::Price],
            Self::IexDeep => &[Model::Price, Model::ByPrice],
        }
    }

    /// Whether messages come by a connection, not by lines.
    pub fn is_connected(self) -> bool {
        self == Self::ItchSoup
    }
}

impl std::fmt::Display for LiveProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ItchMold => "Nasdaq TotalView-ITCH 5.0 (MoldUDP64)",
            Self::ItchSoup => "Nasdaq TotalView-ITCH 5.0 (SoupBinTCP)",
            Self::IexTops => "IEX TOPS 1.6",
            Self::IexDeep => "IEX DEEP 1.0",
        })
    }
}

impl LiveFeed {
    /// A feed of which nothing has come.
    pub fn new(config: &LiveConfig, clock: Clock) -> Self {
        let LiveConfig { protocol, suffix, symbology, is_repeated, server } = config;
        let limits = if *is_repeated { REPEATED } else { LIMITS };
        let login = server.as_ref().map(|login| {
            let Login { user, password, session } = login.clone();
            soup::Login { user, password, session, sequence: 1 }
        });
        let join = if login.is_some() { Join::Live } else { Join::Beginning };
        let (transport, facts): (_, _) = match protocol {
            LiveProtocol::ItchMold => (Transport::Mold(Box::new(MoldReceiver::new(join, limits))), itch::FACTS),
            LiveProtocol::ItchSoup => (Transport::Soup, itch::FACTS),
            LiveProtocol::IexTops | LiveProtocol::IexDeep => {
                (Transport::Iex(Box::new(TpReceiver::new(limits))), iex_messages::FACTS)
            }
        };
        let messages: Box<dyn Messages> = match transport {
            Transport::Iex(_) => Box::new(IexMessages::default()),
            _ => Box::new(ItchMessages::default()),
        };
        let suffix = suffix.as_deref().unwrap_or_else(|| protocol.file().suffix());
        let mut new = Self {
            board: Board::new(facts, protocol.models(), suffix),
            messages,
            transport,
            link: login.map(Link::new),
            is_repeated: *is_repeated,
            tally: Tally::default(),
            takes_snapshot: false,
            snapshots: 0,
            is_ready: false,
            wants: VecDeque::new(),
        };
        new.board.set_symbology(symbology.clone());
        new.messages.set_date(clock.wall);
        if let (Transport::Soup, Some(link)) = (&new.transport, &mut new.link) {
            link.want(clock.now, false);
        }
        new
    }

    /// Takes a datagram.
    pub fn datagram(&mut self, origin: Origin, datagram: &[u8], clock: Clock) {
        let Self { board, messages, transport, tally, .. } = self;
        if let Transport::Mold(_) = transport {
            messages.look_ahead(&mut mold::messages(datagram));
        }
        let taker = &mut Taker { messages: &mut **messages, board, tally, wall: clock.wall };
        match (transport, origin) {
            (Transport::Mold(mold), Origin::Line(line)) => {
                mold.receive(Line::Feed(line), datagram, clock.now, taker);
            }
            (Transport::Mold(mold), Origin::Repeater) => mold.receive(Line::Repair, datagram, clock.now, taker),
            (Transport::Iex(tp), Origin::Line(line)) => tp.receive(line, datagram, clock.now, taker),
            // Counts as no line.
            (Transport::Iex(tp), Origin::Repeater) => tp.receive(LINES as u8, datagram, clock.now, taker),
            (Transport::Soup, _) => {}
        }
        self.settle(clock);
    }

    /// The connection that was asked for stands.
    pub fn connected(&mut self, clock: Clock) {
        if let Some(link) = &mut self.link {
            link.connected(clock.now);
        }
        self.settle(clock);
    }

    /// The connection is gone, or could not be had.
    pub fn disconnected(&mut self, clock: Clock) {
        let Self { board, messages, link: Some(link), tally, transport, .. } = self else { return };
        if matches!(transport, Transport::Soup) {
            let taker = &mut Taker { messages: &mut **messages, board, tally, wall: clock.wall };
            link.disconnected(clock.now, taker);
        } else {
            let nobody = &mut FromSnapshot { messages: &mut **messages, board, wall: clock.wall, next: None };
            link.disconnected(clock.now, nobody);
            self.begin_snapshot_again();
        }
        self.settle(clock);
    }

    /// Takes bytes of the connection, cut anywhere.
    pub fn bytes(&mut self, bytes: &[u8], clock: Clock) {
        let Self { board, messages, link: Some(link), tally, transport, .. } = self else { return };
        let (wanted, next) = if matches!(transport, Transport::Soup) {
            let taker = &mut Taker { messages: &mut **messages, board, tally, wall: clock.wall };
            (link.receive(bytes, clock.now, taker), None)
        } else {
            let taker = &mut FromSnapshot { messages: &mut **messages, board, wall: clock.wall, next: None };
            (link.receive(bytes, clock.now, taker), taker.next)
        };
        match next {
            Some(next) => self.end_snapshot(next, clock),
            None if wanted.is_some() => {
                self.want(wanted);
                self.begin_snapshot_again();
            }
            None => {}
        }
        self.settle(clock);
    }

    /// What is to be done.
    pub fn poll(&mut self) -> Option<Want> {
        self.wants.pop_front()
    }

    fn want(&mut self, wanted: Option<Wanted>) {
        match wanted {
            Some(Wanted::Dial) => self.wants.push_back(Want::Dial),
            Some(Wanted::HangUp) => {
                self.say();
                self.wants.push_back(Want::HangUp);
            }
            None => {}
        }
    }

    fn say(&mut self) {
        let said = self.link.as_mut().map(|link| link.client.take_output()).unwrap_or_default();
        if !said.is_empty() {
            self.wants.push_back(Want::Send(said));
        }
    }

    /// What follows from what has come: requests, and the beginning of a snapshot.
    fn settle(&mut self, clock: Clock) {
        let is_in_need = matches!(&self.transport, Transport::Mold(mold) if mold.is_paused() || mold.is_lost());
        if is_in_need && !self.takes_snapshot && self.link.is_some() {
            self.begin_snapshot(clock);
        } else if self.takes_snapshot && !is_in_need {
            // Another session has begun, of which nothing is missing.
            let wanted = self.link.as_mut().and_then(Link::rest);
            self.want(wanted);
            self.takes_snapshot = false;
            self.speak();
        }
        let request = match &mut self.transport {
            Transport::Mold(mold) => mold.poll_request().map(|request| request.to_vec()),
            // The layout of IEX's request is in no document that can be had: what no line brings is given up.
            Transport::Iex(tp) => tp.poll_request().and(None),
            Transport::Soup => None,
        };
        self.wants.extend(request.filter(|_| self.is_repeated).map(Want::Ask));
        if self.link.as_ref().is_some_and(Link::is_up) {
            self.say();
        }
        self.is_ready |= self.tally.has_names && !self.takes_snapshot || self.may_come() && self.messages.count() > 0;
    }

    /// Books are emptied, and what the lines bring is held. Consumers keep what they have, Suspect, until the snapshot is there.
    fn begin_snapshot(&mut self, clock: Clock) {
        let (Transport::Mold(mold), Some(link)) = (&mut self.transport, &mut self.link) else { return };
        mold.pause();
        self.board.doubt(SNAPSHOT);
        self.takes_snapshot = true;
        self.board.be_silent();
        link.want(clock.now, true);
        self.begin_snapshot_again();
    }

    /// What a snapshot that broke off has brought is of no use.
    fn begin_snapshot_again(&mut self) {
        if self.takes_snapshot {
            self.messages.clear(&mut self.board);
            self.board.doubt(SNAPSHOT);
        }
    }

    fn end_snapshot(&mut self, next: u64, clock: Clock) {
        let Self { board, messages, transport: Transport::Mold(mold), tally, takes_snapshot: true, .. } = self else {
            return;
        };
        let taker = &mut Taker { messages: &mut **messages, board, tally, wall: clock.wall };
        if mold.resume(next, clock.now, taker).is_err() {
            // Older than what was given on: another one is taken, later.
            let wanted = self.link.as_mut().map(|link| link.give_up(clock.now));
            self.want(wanted);
            return self.begin_snapshot_again();
        }
        (self.takes_snapshot, self.is_ready) = (false, true);
        self.snapshots += 1;
        let wanted = self.link.as_mut().and_then(Link::rest);
        self.want(wanted);
        self.speak();
    }

    /// All that was passed over is told as images.
    fn speak(&mut self) {
        self.board.speak();
        self.board.settle(self.messages.books());
    }
}

impl LiveItems for LiveFeed {
    fn items(&self) -> FeedItems<'_> {
        FeedItems { board: &self.board, books: self.messages.books() }
    }

    fn items_mut(&mut self) -> FeedItemsMut<'_> {
        FeedItemsMut(&mut self.board)
    }

    fn timer(&self) -> Option<u64> {
        let transport = match &self.transport {
            Transport::Mold(mold) => mold.timer(),
            Transport::Iex(tp) => tp.timer(),
            Transport::Soup => None,
        };
        let link = self.link.as_ref().and_then(Link::timer);
        transport.into_iter().chain(link).min()
    }

    fn on_timer(&mut self, clock: Clock) {
        let Self { board, messages, transport, tally, link, .. } = self;
        let taker = &mut Taker { messages: &mut **messages, board, tally, wall: clock.wall };
        match transport {
            Transport::Mold(mold) => mold.on_timer(clock.now, taker),
            Transport::Iex(tp) => tp.on_timer(clock.now, taker),
            Transport::Soup => {}
        }
        let wanted = match (link, &self.transport) {
            (Some(link), Transport::Soup) => link.on_timer(clock.now, taker),
            (Some(link), _) => {
                let nobody = &mut FromSnapshot { messages: taker.messages, board: taker.board, wall: 0, next: None };
                link.on_timer(clock.now, nobody)
            }
            (None, _) => None,
        };
        self.want(wanted);
        if wanted == Some(Wanted::HangUp) {
            self.begin_snapshot_again();
        }
        self.settle(clock);
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn may_come(&self) -> bool {
        matches!(self.transport, Transport::Iex(_))
    }

    fn figures(&self) -> LiveFigures {
        let (stream, lines, is_in_doubt, bad): (Counts, Vec<LineCounts>, bool, Vec<(&str, u64)>) = match &self.transport
        {
            Transport::Mold(mold) => {
                let bad = mold.bad();
                let kinds = vec![
                    ("packets without a header", bad.short),
                    ("packets that are cut", bad.cut),
                    ("packets that are too long", bad.overlong),
                    ("packets of an old session", bad.of_an_old_session),
                    ("packets of an unknown session", bad.strange),
                ];
                let lines = (0..LINES as u8).map(|line| mold.line(line)).collect();
                (*mold.counts(), lines, mold.is_in_doubt(), kinds)
            }
            Transport::Iex(tp) => {
                let bad = tp.bad();
                let kinds = vec![
                    ("datagrams that are none of IEX-TP", bad.header),
                    ("segments that are cut", bad.cut),
                    ("segments of another feed", bad.foreign),
                    ("segments of a session that is over", bad.of_an_old_session),
                ];
                let lines = (0..LINES as u8).map(|line| tp.line(line)).collect();
                (*tp.counts(), lines, tp.is_in_doubt(), kinds)
            }
            Transport::Soup => (self.tally.changes, Vec::new(), self.tally.is_in_doubt, Vec::new()),
        };
        let times = &self.tally.times;
        let mut all_bad: Vec<(String, u64)> = bad.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
        all_bad.extend(self.messages.bad());
        all_bad.retain(|(_, count)| *count > 0);
        LiveFigures {
            messages: self.messages.count(),
            stream: Counts { requests: if self.is_repeated { stream.requests } else { 0 }, ..stream },
            lines,
            snapshots: self.snapshots,
            dials: self.link.as_ref().map_or(0, |link| link.dials),
            books: self.board.names().count() as u64,
            latency_median_ns: times.percentile(50),
            latency_p99_ns: times.percentile(99),
            latency_max_ns: times.max,
            early: times.early,
            is_in_doubt: is_in_doubt || self.takes_snapshot,
            bad: all_bad,
        }
    }

    fn rejection(&self) -> Option<String> {
        let why = self.link.as_ref()?.rejection?;
        Some(match why {
            soup::Rejection::NotAuthorised => "the server refuses the login: user or password".to_owned(),
            soup::Rejection::NoSession => "the server refuses the login: it has no such session".to_owned(),
            soup::Rejection::Other(code) => format!("the server refuses the login with {:?}", char::from(code)),
        })
    }
}
