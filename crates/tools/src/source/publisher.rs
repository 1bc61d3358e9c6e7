//! A provider on sockets: listens, answers, and publishes what its [`Feed`] has.
//!
//! One thread, one [`RsslIo`]. A turn takes in what came, answers it, and then lets the feed write; every connection that has
//! something to get is written to once.

use crate::outbox::Outbox;
use crate::places::Places;
use feed::pace::Pacer;
use feed::provider::market::Market;
use feed::provider::noninteractive::{Answer, NonInteractive, Offered};
use feed::provider::{Items, Post, Prank, Provider, Session, SessionId};
use feed::{MarketSource, session::Nanos};
use net::tcp::{ConnId, SocketOptions};
use rssl::{ClientConfig, Packer, Version};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::State;
use rwf::msg::{Domain, MsgClass, RefreshMsg};
use std::fmt;
use std::sync::Arc;

/// What a publisher publishes.
pub trait Feed {
    /// The items as this session sees them.
    fn items(&mut self, session: SessionId) -> &mut dyn Items;

    /// A session began.
    fn opened(&mut self, _session: SessionId, _now: Nanos) {}

    /// A session is over; its items have been closed.
    fn closed(&mut self, _session: SessionId) {}

    /// Publishes what a session posted; false when there is no such item.
    fn posted(&mut self, _post: &Post, _egress: &mut Egress<'_>) -> bool {
        false
    }

    /// When there will be something to write, as far as sessions can be written to.
    fn due(&self, now: Nanos, egress: &Egress<'_>) -> Option<Nanos>;

    /// Whether what it serves is known; its service is down before that.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether it goes on while its service is down: one that tells by itself what its sessions get.
    fn publishes_while_down(&self) -> bool {
        false
    }

    /// Writes what is due.
    fn publish(&mut self, now: Nanos, egress: &mut Egress<'_>);
}

/// The way out, as a feed sees it.
pub struct Egress<'a> {
    io: &'a mut RsslIo,
    conns: &'a mut [Option<Conn>],
    dirty: &'a mut Vec<u32>,
}

struct Conn {
    id: ConnId,
    side: Side,
    outbox: Outbox,
    /// Bytes that the kernel did not take.
    backlog: usize,
    established: bool,
}

/// Who asks on a connection.
enum Side {
    /// The peer.
    Interactive(Box<Session>),
    /// Nobody: this side connected, and publishes.
    NonInteractive(Box<NonInteractive>),
}

/// Connecting to a Source Distributor, as long as it takes.
struct Dial {
    places: Places,
    options: SocketOptions,
    user: String,
    offered: Vec<Offered>,
    conn: Option<ConnId>,
    retry_at: Nanos,
    version: Version,
}

/// Between two attempts to connect.
const RETRY: Nanos = 1_000_000_000;

impl Egress<'_> {
    /// Sessions that are up.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.conns
            .iter()
            .enumerate()
            .filter(|(_, c)| c.as_ref().is_some_and(|c| c.established))
            .map(|(n, _)| SessionId(n as u32))
    }

    /// Whether the kernel took all that was written to the session.
    pub fn is_clear(&self, session: SessionId) -> bool {
        self.conns.get(session.0 as usize).and_then(Option::as_ref).is_some_and(|c| c.established && c.backlog == 0)
    }

    /// Writes to a session at once.
    #[inline]
    pub fn send(&mut self, now: Nanos, session: SessionId, write: impl FnOnce(&mut Packer<'_>)) {
        if let Some(Some(conn)) = self.conns.get_mut(session.0 as usize) {
            conn.backlog = self.io.send(now, conn.id, write).unwrap_or(0);
        }
    }

    /// A part of the image of an open item, on the stream that it names: solicited where one is owed. A final state ends the stream.
    pub fn refresh(&mut self, session: SessionId, refresh: &RefreshMsg<'_>) {
        self.answer(session, |side, reply| match side {
            Side::Interactive(it) => it.refresh(refresh, reply),
            Side::NonInteractive(nip) => nip.refresh(refresh, reply),
        });
    }

    /// The state of an open item. A final one ends its stream.
    pub fn status(&mut self, session: SessionId, stream_id: i32, state: State<'_>) {
        self.answer(session, |side, reply| match side {
            Side::Interactive(it) => it.status(stream_id, state, reply),
            Side::NonInteractive(nip) => nip.status(stream_id, state, reply),
        });
    }

    fn answer(&mut self, session: SessionId, say: impl FnOnce(&mut Side, &mut dyn FnMut(&[u8]))) {
        let Some(Some(conn)) = self.conns.get_mut(session.0 as usize) else { return };
        if conn.outbox.is_empty() {
            self.dirty.push(session.0);
        }
        let outbox = &mut conn.outbox;
        say(&mut conn.side, &mut |msg| outbox.push(msg));
    }

    /// Adds a message to what the session gets at the end of the turn.
    #[inline]
    pub fn queue(&mut self, session: SessionId, msg: &[u8]) {
        if let Some(Some(conn)) = self.conns.get_mut(session.0 as usize) {
            if conn.outbox.is_empty() {
                self.dirty.push(session.0);
            }
            conn.outbox.push(msg);
        }
    }

    /// Adds a message of an item to what the session gets at the end of the turn, on a stream of its own.
    #[inline]
    pub fn queue_as(&mut self, session: SessionId, msg: &[u8], stream_id: i32) {
        if let Some(Some(conn)) = self.conns.get_mut(session.0 as usize) {
            if conn.outbox.is_empty() {
                self.dirty.push(session.0);
            }
            conn.outbox.push_as(msg, stream_id);
        }
    }
}

/// A provider, its sessions and its feed.
pub struct Publisher<F> {
    provider: Provider,
    feed: F,
    conns: Vec<Option<Conn>>,
    dirty: Vec<u32>,
    dial: Option<Dial>,
    posts: Vec<Post>,
    /// Requests are taken in and not answered.
    mute: bool,
    /// What the feed was ready for when sessions were told last.
    was_ready: bool,
    counters: PublisherCounters,
}

/// What a publisher did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherCounters {
    /// Sessions that came up.
    pub sessions: u64,
    /// Requests and other messages that came in.
    pub messages: u64,
    /// Sessions cut off because they did not read.
    pub cut_off: u64,
    /// Posts that were published.
    pub posts: u64,
    /// Requests that were left without an answer on purpose.
    pub unanswered: u64,
}

impl fmt::Display for PublisherCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions, messages, cut_off, posts, unanswered } = self;
        write!(
            f,
            "{sessions} sessions, {messages} messages received, {posts} posts published, {unanswered} requests left \
             unanswered, {cut_off} sessions cut off"
        )
    }
}

/// A session with more than this waiting is cut off: it does not read.
const BACKLOG_MAX: usize = 256 << 20;

impl<F: Feed> Publisher<F> {
    /// A provider without sessions.
    pub fn new(provider: Provider, feed: F) -> Self {
        let counters = PublisherCounters::default();
        Self {
            provider,
            feed,
            conns: Vec::new(),
            dirty: Vec::new(),
            dial: None,
            posts: Vec::new(),
            mute: false,
            was_ready: true,
            counters,
        }
    }

    /// Connects to a Source Distributor as a non-interactive provider of these items, and again whenever it is cut off.
    pub fn dial(&mut self, places: Places, options: SocketOptions, user: &str, offered: Vec<Offered>) {
        let user = user.to_owned();
        let version = Version::V14;
        self.dial = Some(Dial { places, options, user, offered, conn: None, retry_at: 0, version });
    }

    /// What it publishes.
    pub fn feed(&mut self) -> &mut F {
        &mut self.feed
    }

    /// What it did.
    pub fn counters(&self) -> PublisherCounters {
        self.counters
    }

    /// When the feed has something to write.
    pub fn due(&mut self, now: Nanos, io: &mut RsslIo) -> Option<Nanos> {
        if !self.provider.is_up && !self.feed.publishes_while_down() {
            return None;
        }
        let egress = Egress { io, conns: &mut self.conns, dirty: &mut self.dirty };
        self.feed.due(now, &egress)
    }

    /// Takes the service up or down, and tells all sessions. One that is down publishes nothing.
    pub fn set_service(&mut self, is_up: bool) {
        self.set_service_of(self.provider.config.service_id, is_up);
    }

    /// The same of one of several services, by its id.
    pub fn set_service_of(&mut self, service_id: u16, is_up: bool) {
        self.provider.set_up(service_id, is_up);
        let provider = &self.provider;
        for (slot, conn) in self.conns.iter_mut().enumerate() {
            let Some(Conn { side, outbox, .. }) = conn else { continue };
            match side {
                Side::Interactive(session) => session.service_changed(provider, service_id, &mut |m| outbox.push(m)),
                Side::NonInteractive(nip) => nip.service_changed(provider, service_id, &mut |m| outbox.push(m)),
            }
            self.dirty.push(slot as u32);
        }
    }

    /// Plays a prank on all open items, or on those of one name; says on how many streams.
    pub fn prank(&mut self, name: Option<&str>, prank: Prank<'_>) -> usize {
        let mut count = 0;
        for (slot, conn) in self.conns.iter_mut().enumerate() {
            let Some(Conn { side, outbox, .. }) = conn else { continue };
            let items = self.feed.items(SessionId(slot as u32));
            let reply = &mut |m: &[u8]| outbox.push(m);
            count += match side {
                Side::Interactive(session) => session.prank(items, name, prank, reply),
                Side::NonInteractive(nip) => nip.prank(items, name, prank, reply),
            };
            self.dirty.push(slot as u32);
        }
        count
    }

    /// Leaves requests without an answer from now on, or no longer.
    pub fn set_mute(&mut self, mute: bool) {
        self.mute = mute;
    }

    /// Cuts all connections off, without a word.
    pub fn cut(&mut self, io: &mut RsslIo) -> usize {
        let conns = self.conns.iter().flatten();
        conns.map(|conn| io.close(conn.id, "cut off on command", net::tcp::Close::Reset)).count()
    }

    /// Waits until `deadline` at most, takes in, answers, publishes.
    ///
    /// # Errors
    /// Only what makes all sockets unusable.
    pub fn turn(&mut self, io: &mut RsslIo, deadline: Nanos) -> std::io::Result<Nanos> {
        self.tell_readiness();
        let deadline = self.dial_due(io).map_or(deadline, |at| at.min(deadline));
        io.turn(Some(deadline), self)?;
        let now = net::clock::now();
        // Answers first: an image must not come after updates that follow it.
        self.flush(io, now);
        let Self { feed, conns, dirty, posts, counters, provider, .. } = self;
        let egress = &mut Egress { io, conns, dirty };
        for post in posts.drain(..) {
            if feed.posted(&post, egress) {
                counters.posts += 1;
            } else {
                tracing::info!("{} of domain {} was posted, and is no item here", post.name, post.domain.0);
            }
        }
        if provider.is_up || feed.publishes_while_down() {
            feed.publish(now, egress);
        }
        self.tell_readiness();
        self.flush(io, now);
        Ok(now)
    }

    /// The service goes up when the feed knows what it serves, and not before.
    fn tell_readiness(&mut self) {
        let is_ready = self.feed.is_ready();
        if is_ready != self.was_ready {
            self.was_ready = is_ready;
            self.set_service(is_ready);
        }
    }

    /// Connects when it is time to; says when that is next.
    fn dial_due(&mut self, io: &mut RsslIo) -> Option<Nanos> {
        let dial = self.dial.as_mut().filter(|d| d.conn.is_none())?;
        let now = net::clock::now();
        if dial.retry_at > now {
            return Some(dial.retry_at);
        }
        let config = ClientConfig { version: dial.version, ..ClientConfig::default() };
        match io.connect(now, dial.places.address(), &dial.options, Arc::new(config), None) {
            Ok(conn) => dial.conn = Some(conn),
            Err(e) => {
                tracing::warn!("cannot connect to {}: {e}", dial.places);
                dial.places.go_on();
                dial.retry_at = now + RETRY;
            }
        }
        None
    }

    fn flush(&mut self, io: &mut RsslIo, now: Nanos) {
        for slot in self.dirty.drain(..) {
            let Some(conn) = &mut self.conns[slot as usize] else { continue };
            conn.backlog = io.send(now, conn.id, |packer| conn.outbox.drain(|m| packer.push(m, None))).unwrap_or(0);
            if conn.backlog > BACKLOG_MAX {
                self.counters.cut_off += 1;
                io.close(conn.id, "the peer does not read what it asked for", net::tcp::Close::Reset);
            }
        }
    }
}

impl<F: Feed> Handler for Publisher<F> {
    fn opened(&mut self, now: Nanos, conn: ConnId, _: &Opened<'_>) {
        let session = SessionId(conn.slot() as u32);
        let mut outbox = Outbox::default();
        let side = match self.dial.as_ref().filter(|d| d.conn == Some(conn)) {
            Some(dial) => {
                let mut nip = NonInteractive::new(session, &dial.user, dial.offered.clone(), &self.provider);
                nip.begin(now, &mut |m| outbox.push(m));
                self.dirty.push(session.0);
                Side::NonInteractive(Box::new(nip))
            }
            None => Side::Interactive(Box::new(Session::new(session, &self.provider))),
        };
        if self.conns.len() <= conn.slot() {
            self.conns.resize_with(conn.slot() + 1, || None);
        }
        self.conns[conn.slot()] = Some(Conn { id: conn, side, outbox, backlog: 0, established: true });
        self.counters.sessions += 1;
        self.feed.opened(session, now);
    }

    fn message(&mut self, now: Nanos, conn: ConnId, msg: &[u8]) {
        let Some(Some(entry)) = self.conns.get_mut(conn.slot()) else { return };
        if entry.id != conn {
            return;
        }
        self.counters.messages += 1;
        let is_request = rwf::peek::class(msg) == Some(MsgClass::REQUEST);
        let is_item = |domain| !matches!(domain, Domain::LOGIN | Domain::SOURCE | Domain::DICTIONARY);
        if self.mute && is_request && rwf::peek::domain(msg).is_some_and(is_item) {
            self.counters.unanswered += 1;
            return;
        }
        let was_empty = entry.outbox.is_empty();
        let items = self.feed.items(SessionId(conn.slot() as u32));
        let reply = &mut |reply: &[u8]| entry.outbox.push(reply);
        match &mut entry.side {
            Side::Interactive(session) => {
                session.message(items, msg, reply);
                self.posts.append(&mut session.take_posts());
            }
            Side::NonInteractive(nip) => match nip.message(now, items, msg, reply) {
                Answer::Nothing => {}
                Answer::Published { count, refused } => {
                    tracing::info!("published {count} items; {refused} names are not in the source");
                }
                Answer::Refused(text) => tracing::warn!("the login was refused: {text}"),
            },
        }
        if was_empty && !entry.outbox.is_empty() {
            self.dirty.push(conn.slot() as u32);
        }
    }

    fn closed(&mut self, now: Nanos, conn: ConnId, ended: &Ended) {
        if let Some(dial) = self.dial.as_mut().filter(|d| d.conn == Some(conn)) {
            dial.conn = None;
            dial.version = ended.next_version.unwrap_or(Version::V14);
            dial.retry_at = now + if ended.next_version.is_some() { 0 } else { RETRY };
            tracing::warn!("{}: {}; trying again", dial.places, ended.why);
            if ended.next_version.is_none() {
                dial.places.go_on();
            }
        }
        let Some(Some(entry)) = self.conns.get_mut(conn.slot()) else { return };
        if entry.id != conn {
            return;
        }
        let session = SessionId(conn.slot() as u32);
        let items = self.feed.items(session);
        match &mut entry.side {
            Side::Interactive(session) => session.ended(items),
            Side::NonInteractive(nip) => nip.ended(items),
        }
        self.conns[conn.slot()] = None;
        self.dirty.retain(|&slot| slot as usize != conn.slot());
        self.feed.closed(session);
    }

    /// A server that was dialled is no stranger.
    fn is_known(&self, conn: ConnId) -> bool {
        let entry = self.conns.get(conn.slot()).and_then(Option::as_ref).filter(|entry| entry.id == conn);
        entry.is_some_and(|entry| match &entry.side {
            Side::Interactive(session) => session.is_logged_in(),
            Side::NonInteractive(_) => true,
        })
    }

    fn drained(&mut self, _: Nanos, conn: ConnId) {
        if let Some(Some(entry)) = self.conns.get_mut(conn.slot()) {
            entry.backlog = 0;
        }
    }
}

/// A market as a feed.
pub struct MarketFeed<S> {
    market: Market<S>,
    started_at: Nanos,
    published: u64,
    stamped: bool,
    /// Events are told when this says so, not when they are due.
    pacer: Option<Pacer>,
}

/// Events published in one turn, at most: a market that is behind must not keep requests waiting.
const EVENTS_PER_TURN: usize = 2_048;

impl<S: MarketSource> MarketFeed<S> {
    /// A market whose time 0 is `now`, as the service of this id.
    pub fn new(source: S, service_id: u16, now: Nanos) -> Self {
        let market = Market::new(source, service_id);
        Self { market, started_at: now, published: 0, stamped: false, pacer: None }
    }

    /// Puts a time stamp into every market price update.
    #[must_use]
    pub fn stamped(mut self, stamped: bool) -> Self {
        self.stamped = stamped;
        self
    }

    /// Tells events at a rate of its own; the source has to be one for which everything is due at once.
    #[must_use]
    pub fn paced(mut self, pacer: Option<Pacer>) -> Self {
        self.pacer = pacer;
        self
    }

    /// The pacer, if there is one.
    pub fn pacer(&mut self) -> Option<&mut Pacer> {
        self.pacer.as_mut()
    }

    /// So many of the events to come are numbered, and not told.
    pub fn lose(&mut self, count: u64) {
        self.market.to_lose += count;
    }

    /// Updates published so far.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Streams that are updated.
    pub fn streams(&self) -> usize {
        self.market.streams()
    }

    /// The market source.
    pub fn source(&self) -> &S {
        self.market.source()
    }
}

impl<S: MarketSource> Feed for MarketFeed<S> {
    fn items(&mut self, _: SessionId) -> &mut dyn Items {
        &mut self.market
    }

    fn posted(&mut self, post: &Post, egress: &mut Egress<'_>) -> bool {
        self.market.post(post, &mut |session, msg| egress.queue(session, msg))
    }

    fn is_ready(&self) -> bool {
        self.market.source().is_ready()
    }

    fn publishes_while_down(&self) -> bool {
        self.market.source().is_live()
    }

    fn due(&self, now: Nanos, egress: &Egress<'_>) -> Option<Nanos> {
        if !self.market.source().is_live() {
            egress.sessions().next()?;
        }
        let at = self.market.due()?.saturating_add(self.started_at);
        self.pacer.as_ref().map_or(Some(at), |pacer| pacer.next(now))
    }

    fn publish(&mut self, now: Nanos, egress: &mut Egress<'_>) {
        let Self { market, started_at, published, stamped, pacer } = self;
        let limit = match pacer {
            None => EVENTS_PER_TURN,
            // Nobody listens: what would be due meanwhile is not made up for.
            Some(pacer) if market.due().is_none() => return pacer.set_rate(pacer.rate(), now),
            Some(pacer) => usize::try_from(pacer.due(now)).unwrap_or(usize::MAX).min(EVENTS_PER_TURN),
        };
        if limit == 0 {
            return;
        }
        let before = market.told;
        market.advance(now.saturating_sub(*started_at), limit, stamped.then_some(now), &mut |session, msg| {
            *published += 1;
            egress.queue(session, msg);
        });
        if let Some(pacer) = pacer {
            pacer.skip(market.told - before);
        }
    }
}
