//! The router as a server: its turn.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use lbm_io::{Context, ContextError};
use lbm_router::{Action, PortalId, Router, RouterId};
use net::clock;
use net::tcp::{Event, Scratch, Tcp, TcpConfig};

use crate::config::{Config, ConfigError, Waiting, router_id};
use crate::endpoint::{Endpoint, EndpointStats, ToProxies};
use crate::link::Link;

/// Turns of a router that does not sleep between two looks at its connections while nothing comes.
const TURNS: u32 = 16;
/// How often what is old is looked for, ns.
const EXPIRE_NS: u64 = 5_000_000_000;

/// A router could not be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration, as the file has it.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The context of an endpoint.
    #[error("[[endpoint]] of domain {domain}: {source}")]
    Context {
        /// The domain.
        domain: u32,
        /// Why.
        source: ContextError,
    },
    /// A peer portal.
    #[error("[[peer]] {number}: {source}")]
    Peer {
        /// Its place in the file.
        number: usize,
        /// Why.
        source: io::Error,
    },
    /// The system.
    #[error("the router's sockets: {0}")]
    Sockets(#[from] io::Error),
}

/// See the module. Driven by its owner's turn, [`RouterServer::poll`].
pub struct RouterServer {
    router: Router,
    name: String,
    idle: Waiting,
    endpoints: Vec<Option<Box<Endpoint>>>,
    links: Vec<Link>,
    listening: Vec<SocketAddr>,
    tcp: Tcp,
    events: Vec<Event>,
    scratch: Scratch,
    skipped: u32,
    expire_due: u64,
    warnings: Vec<String>,
}

impl RouterServer {
    /// Opens all portals.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn new(config: &Config) -> Result<Self, ServerError> {
        let mut router = Router::new(router_id(&config.name), config.limits());
        let mut tcp = Tcp::new(TcpConfig::default())?;
        let (mut endpoints, mut warnings) = (Vec::new(), Vec::new());
        for table in &config.endpoints {
            let domain = table.domain;
            let of = |source| ServerError::Context { domain, source };
            let options = table.options(|warning| warnings.push(warning))?;
            let mut context = Context::of_router(&options, domain).map_err(of)?;
            if table.standby && options.services().next().is_some() {
                warnings.push(format!(
                    "domain {domain}: standby is for domains without resolver_service: a service does not say again and again that the other router serves"
                ));
            }
            warnings.extend(context.warnings().map(|warning| format!("domain {domain}: {warning}")));
            let twice = || ConfigError::Value { place: format!("domain {domain}"), what: "is there twice".to_owned() };
            let portal = router.add_endpoint(table.config()?).ok_or_else(twice)?;
            tcp.watch(context.as_fd(), portal.0)?;
            context.ask_for_interest();
            let waiting_max = config.queue_mb.saturating_mul(1 << 20);
            endpoints.push(Some(Box::new(Endpoint::new(context, options, portal, domain, waiting_max))));
        }
        let (mut links, mut listening) = (Vec::new(), Vec::new());
        for (at, table) in config.peers.iter().enumerate() {
            let portal = router.add_peer(table.config(at)?);
            let opened = Link::open(portal, table, table.networks(at)?, &mut tcp);
            let (link, bound) = opened.map_err(|source| ServerError::Peer { number: at + 1, source })?;
            links.push(link);
            listening.extend(bound);
        }
        Ok(Self {
            router,
            name: config.name.clone(),
            idle: config.idle,
            endpoints,
            links,
            listening,
            tcp,
            events: Vec::new(),
            scratch: Scratch::default(),
            skipped: 0,
            expire_due: 0,
            warnings,
        })
    }

    /// The router's id.
    pub fn id(&self) -> RouterId {
        self.router.id()
    }

    /// Where peers connect, in the order of the file.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// The state machine: counters, sources, ways.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Counts of each endpoint: domain, counters, bytes that wait.
    pub fn endpoints(&self) -> impl Iterator<Item = (u32, EndpointStats, usize)> {
        self.endpoints.iter().flatten().map(|endpoint| endpoint.report())
    }

    /// Warnings for the operator, once each.
    pub fn news(&mut self) -> Vec<String> {
        let mut news = std::mem::take(&mut self.warnings);
        for link in &mut self.links {
            news.append(&mut link.news);
        }
        for endpoint in self.endpoints.iter_mut().flatten() {
            let (domain, ..) = endpoint.report();
            news.extend(endpoint.context.warnings().map(|warning| format!("domain {domain}: {warning}")));
        }
        news
    }

    /// A turn: waits at most `timeout` (a router that does not sleep: not at all), and handles what has come. Returns how many messages
    /// domains have brought.
    ///
    /// # Errors
    /// Only what makes the router unusable.
    pub fn poll(&mut self, timeout: Duration) -> Result<usize, ServerError> {
        let received = if self.idle == Waiting::Sleep { self.sleep(timeout)? } else { self.ask()? };
        let now = clock::now();
        if self.router.timeout() <= now {
            self.router.on_timer(now, &mut ToProxies(&mut self.endpoints));
        }
        for link in &mut self.links {
            if link.timeout().is_some_and(|at| at <= now) {
                link.on_timer(now, &mut self.tcp);
            }
        }
        if self.expire_due <= now {
            self.expire_due = now + EXPIRE_NS;
            for endpoint in self.endpoints.iter_mut().flatten() {
                endpoint.expire(now);
            }
        }
        self.settle(now);
        Ok(received)
    }

    /// Waits for anything.
    fn sleep(&mut self, timeout: Duration) -> Result<usize, ServerError> {
        let now = clock::now();
        let mut due = self.links.iter().filter_map(Link::timeout).chain(self.tcp.timeout()).min();
        let mut soon = u64::MAX;
        for endpoint in self.endpoints.iter_mut().flatten() {
            soon = soon.min(endpoint.context.timeout().unwrap_or(u64::MAX));
        }
        due = Some(due.unwrap_or(u64::MAX).min(soon).min(self.router.timeout()));
        let wait = due.map_or(timeout, |due| Duration::from_nanos(due.saturating_sub(now)).min(timeout));
        let mut events = std::mem::take(&mut self.events);
        let polled = self.tcp.poll(Some(wait), &mut events);
        let now = clock::now();
        let mut received = 0;
        for event in &events {
            if let Event::Ready { token } = event {
                received += self.turn(now, *token as usize)?;
            }
        }
        if soon <= now {
            for at in 0..self.endpoints.len() {
                received += self.turn(now, at)?;
            }
        }
        self.on_events(now, &mut events);
        self.events = events;
        polled?;
        Ok(received)
    }

    /// Asks domains, and connections now and then.
    fn ask(&mut self) -> Result<usize, ServerError> {
        let now = clock::now();
        let mut received = 0;
        for at in 0..self.endpoints.len() {
            received += self.turn(now, at)?;
        }
        self.skipped += 1;
        if self.skipped >= TURNS || self.endpoints.is_empty() || !self.links.is_empty() {
            self.skipped = 0;
            let mut events = std::mem::take(&mut self.events);
            let polled = self.tcp.poll(Some(Duration::ZERO), &mut events);
            self.on_events(clock::now(), &mut events);
            self.events = events;
            polled?;
        }
        match self.idle {
            Waiting::Yield if received == 0 => std::thread::yield_now(),
            Waiting::Spin if received == 0 => std::hint::spin_loop(),
            _ => {}
        }
        Ok(received)
    }

    /// The turn of an endpoint's context.
    fn turn(&mut self, now: u64, at: usize) -> io::Result<usize> {
        let Some(mut endpoint) = self.endpoints.get_mut(at).and_then(Option::take) else { return Ok(0) };
        let received = endpoint.poll(now, &mut self.router, &mut self.endpoints);
        let news = endpoint.take_news();
        self.endpoints[at] = Some(endpoint);
        for interest in news {
            self.router.heard(now, PortalId(at as u32), &interest, &mut ToProxies(&mut self.endpoints));
        }
        if received.as_ref().is_ok_and(|count| *count > 0) {
            for endpoint in self.endpoints.iter_mut().flatten() {
                endpoint.flush();
            }
        }
        received
    }

    fn on_events(&mut self, now: u64, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            let Self { router, endpoints, links, tcp, scratch, .. } = self;
            let mut out = ToProxies(endpoints);
            match event {
                Event::Accepted { listener, conn, peer } => {
                    let _ =
                        links.iter_mut().any(|link| link.accepted(now, (listener, conn, peer), router, tcp, &mut out));
                }
                Event::Connected { conn } => {
                    if let Some(link) = links.iter_mut().find(|link| link.has(conn)) {
                        link.connected(now, router, tcp, &mut out);
                    }
                }
                Event::Readable { conn } => {
                    if let Some(link) = links.iter_mut().find(|link| link.has(conn)) {
                        link.readable(now, router, tcp, scratch, &mut out);
                    }
                }
                Event::Closed { conn, why } => {
                    if let Some(link) = links.iter_mut().find(|link| link.has(conn)) {
                        link.closed(now, &why, router, &mut out);
                    }
                }
                Event::AcceptFailed { .. } | Event::Drained { .. } | Event::Woken | Event::Ready { .. } => {}
            }
        }
    }

    /// The end of a turn: what the router asks for is done, and what it has to say leaves.
    fn settle(&mut self, now: u64) {
        loop {
            let actions: Vec<Action> = self.router.actions().collect();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                self.act(now, action);
            }
        }
        for endpoint in self.endpoints.iter_mut().flatten() {
            endpoint.flush();
            endpoint.ask_for_stores(now);
        }
        for link in &mut self.links {
            link.send(now, &mut self.router, &mut self.tcp);
        }
    }

    fn act(&mut self, now: u64, action: Action) {
        let id = self.router.id();
        let mut failed = Ok(());
        if let Action::HangUp { portal, why } = &action {
            if let Some(link) = self.links.iter_mut().find(|link| link.portal == *portal) {
                link.hang_up(why, &mut self.tcp);
            }
            return;
        }
        let (Action::Listen { portal, .. }
        | Action::Unlisten { portal, .. }
        | Action::AskForUse { portal, .. }
        | Action::Serve { portal, .. }
        | Action::Cease { portal, .. }
        | Action::TellStores { portal, .. }
        | Action::Respond { portal, .. }
        | Action::HangUp { portal, .. }) = &action;
        let portal = *portal;
        let Some(Some(endpoint)) = self.endpoints.get_mut(portal.0 as usize) else { return };
        match action {
            Action::Listen { interest, .. } => failed = endpoint.listen(interest),
            Action::Unlisten { interest, .. } => {
                for number in endpoint.unlisten(&interest) {
                    let out = &mut ToProxies(&mut self.endpoints);
                    self.router.source_gone(now, portal, number, lbm_router::wire::Gone::Unreachable, out);
                }
            }
            Action::AskForUse { interests, .. } => endpoint.ask_for_use(&interests),
            Action::Serve { stream, advert, .. } => failed = endpoint.serve(id, stream, &advert),
            Action::Cease { stream, .. } => endpoint.cease(stream),
            Action::TellStores { stream, .. } => {
                // A source that ended in the same turn has no word any more.
                if let Some(word) = self.router.stores(stream) {
                    endpoint.tell_stores(stream, word);
                }
            }
            Action::Respond { to, number, payload, .. } => {
                failed = endpoint.respond(to, number, &payload).map_err(|error| format!("an answer to {to}: {error}"));
            }
            Action::HangUp { .. } => {}
        }
        if let Err(why) = failed
            && self.warnings.len() < 100
        {
            self.warnings.push(why);
        }
    }

    /// The state of the router as text, one line a thing.
    pub fn report(&self) -> Vec<String> {
        let mut lines =
            vec![format!("router {} ({}), {} topics and patterns wanted", self.name, self.id(), self.router.wanted())];
        for (at, (domain, done, waiting)) in self.endpoints().enumerate() {
            let portal = PortalId(at as u32);
            let (wanted, sources) = self.router.portal_counts(portal);
            let stats = self.router.portal_stats(portal).unwrap_or_default();
            lines.push(format!(
                "portal {at}, domain {domain}: {wanted} wanted, {sources} sources, {} messages in, {} sent, {waiting} bytes wait, {} dropped, {} too long, {} proxies refused, {} names not heard, {} requests without answers, {} queues not shared",
                stats.messages_in,
                done.sent,
                done.dropped,
                done.too_long,
                done.refused,
                done.unheard,
                done.unanswerable,
                done.queues
            ));
        }
        for link in &self.links {
            let stats = self.router.portal_stats(link.portal).unwrap_or_default();
            let (wanted, sources) = self.router.portal_counts(link.portal);
            let peer =
                self.router.peer(link.portal).map_or_else(|| "nobody".to_owned(), |peer| format!("router {peer}"));
            lines.push(format!(
                "portal {}, {peer}: {wanted} wanted, {sources} sources, {} messages in, {} out, {} dropped, {} bytes in, {} out, connected {} times, {} refused",
                link.portal.0, stats.messages_in, stats.messages_out, stats.dropped, link.bytes_in, link.bytes_out, link.connections, link.refused
            ));
        }
        for view in self.router.topics() {
            let ways: Vec<String> = view
                .ways
                .iter()
                .map(|(portal, cost, path, taken)| {
                    format!(
                        "portal {} cost {cost} hops {}{}",
                        portal.0,
                        path.len(),
                        if *taken { "" } else { " (spare)" }
                    )
                })
                .collect();
            let served: Vec<String> = view
                .served
                .iter()
                .map(|(portal, here)| format!("portal {}{}", portal.0, if *here { "" } else { " (another router)" }))
                .chain(view.peers.iter().map(|portal| format!("portal {}", portal.0)))
                .collect();
            let (messages, copies, lost) = view.counts;
            lines.push(format!(
                "topic {} of domain {}{}: by {}; to {}; {messages} messages, {copies} copies, {lost} lost",
                view.topic,
                view.origin.domain(),
                match view.stores {
                    None => "",
                    Some(true) => ", with stores",
                    Some(false) => ", with stores that are not known yet",
                },
                if ways.is_empty() { "nothing".to_owned() } else { ways.join(", ") },
                if served.is_empty() { "nobody".to_owned() } else { served.join(", ") }
            ));
        }
        let stats = self.router.stats();
        lines.push(format!(
            "{} interests refused, {} sources refused, {} answers passed on, {} answers lost, {} words on stores refused, {} internal faults",
            stats.interests_refused,
            stats.sources_refused,
            stats.responses,
            stats.responses_lost,
            stats.stores_refused,
            stats.internal_faults
        ));
        lines
    }
}

impl std::fmt::Debug for RouterServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterServer").field("router", &self.router.id()).finish_non_exhaustive()
    }
}
