//! The provider side of a server: sessions with interactive and non-interactive providers, joined to the Source
//! Distributor's state machine.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use config::Config;
use hub::deadlines::earliest;
use hub::distributor::{
    CloseReason, OfferOverview, Origin, PeerInfo, ProviderSink, SessionId, SourceDistributor, SwitchError,
};
use hub::stream::HubError;
use net::tcp::{ConnId, ListenerId};
use rssl::frame::Ahead;
use rwf::msg::{Domain, MsgClass};
use rwf::peek;

use super::each_latency::{EachLatency, Latency};
use super::input_rate::{InputLimit, InputRates};
use super::json_providers::JsonProviders;
use super::marketfeed::{Conversion, FromProviders};
use super::post_tunnels::PostTunnels;
use super::records::RecordWriter;
use super::routes::Routes;
use crate::counters::{Label, Part, Samples};
use rssl_io::{Ended, Handler, Opened, RsslIo};

/// Services, and their other providers, that are named when one is gone.
const SERVICES_TOLD: usize = 4;

/// The Source Distributor with its sessions.
pub struct Providers {
    /// The state machine.
    pub distributor: SourceDistributor,
    outbox: Outbox,
    routes: Routes,
    /// Which of several threads of the process this is, from 0 on, where each has its part of the routes.
    source_thread: Option<u16>,
    json: JsonProviders,
    marketfeed: FromProviders,
    /// Posts to some providers go in tunnel streams.
    post_tunnels: PostTunnels,
    /// Keeps images over a restart, where that is configured.
    record_writer: Option<RecordWriter>,
    /// Records of all providers are converted, not only those of routes that say so.
    converts_all: bool,
    /// By route: its records are converted.
    converting_routes: Vec<bool>,
    nip_port: Option<NipPort>,
    /// Limits of what a non-interactive provider may send.
    nip_limit: InputLimit,
    rates: InputRates,
    /// By connection slot.
    sessions: Vec<Option<Session>>,
    /// By the number of the session, until the connection has ended.
    conns: Vec<Option<ConnId>>,
    /// Nothing is read from providers.
    held: bool,
    /// Sessions that have come meanwhile and are still read.
    unheld: Vec<ConnId>,
    /// How long messages of each provider are in here, where that is wanted.
    latency: Option<EachLatency<ConnId>>,
    /// The turn is timed for that.
    is_timed: bool,
    /// Connections on which something has come in such a turn.
    timed: Vec<ConnId>,
}

hub::counters! {
/// Counters beside the state machine's own.
pub struct Counters {
    /// Items held, those included that only P2PSs still hold.
    pub items: u64 as Gauge,
    /// 1 while providers are not read, because too much is on its way to P2PSs or consumers.
    pub holding: u64 as Gauge,
    /// Providers that send more than they may in a second, and are held back.
    pub over_rate: u64 as Gauge,
    /// Times that a provider was not read for a moment, since it sent more than it may.
    pub rate_pauses: u64,
    /// Messages that no JSON stands for, and so did not reach WebSocket providers.
    pub json_unconvertible: u64,
    /// Fields that the dictionary does not have, and so did not reach WebSocket providers: of posts, as a rule.
    pub json_fields_left_out: u64,
    /// Marketfeed records that became RWF.
    pub marketfeed_converted: u64,
    /// Marketfeed records that could not become RWF, and were passed on as they came.
    pub marketfeed_unconvertible: u64,
    /// Fields of Marketfeed records that were dropped, since RWF or the dictionary has nothing for them; the log names field and reason.
    pub marketfeed_fields_lost: u64,
    /// Tunnel streams that were opened to providers for posts (enable_tunnel_stream_aggregation).
    pub post_tunnels_opened: u64,
    /// Posts that went to providers in tunnel streams.
    pub tunnel_posts: u64,
    /// Posts that were refused because the tunnel stream was not open, was full, takes none so long, or has ended before an answer.
    pub tunnel_posts_refused: u64,
    /// Messages in tunnel streams that were no answers to posts.
    pub tunnel_messages_unexpected: u64,
}
}

#[derive(Clone, Copy)]
struct Session {
    conn: ConnId,
    /// No slot of connections: what is left of a session that is lost may be worked off long after its connection's slot is another's.
    id: SessionId,
    /// The session's Marketfeed records become field lists.
    converts: Conversion,
    /// The provider's input is bounded.
    is_limited: bool,
}

/// The port of the non-interactive providers, and its mounts.
struct NipPort {
    listener: ListenerId,
    addr: SocketAddr,
    /// Connections that were admitted and are not gone.
    open: usize,
    /// By connection slot: it is one of them.
    admitted: Vec<bool>,
    max: usize,
}

impl Providers {
    /// Opens the port for non-interactive providers, if they are accepted. The routes are dialled by the first
    /// [`Providers::on_timer`].
    ///
    /// # Errors
    /// The port cannot be listened on, a dictionary or a list of priorities cannot be read, or there is no persistent cache where there is to be one.
    pub fn new(config: &Config, mut distributor: SourceDistributor, io: &mut RsslIo) -> io::Result<Self> {
        let c = &config.source_distributor;
        let priorities =
            config::item_priorities(config).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
        distributor.set_item_priorities(priorities);
        let mut nip_port = None;
        if c.enable_nip_server {
            let at = config::listening_address(&c.interface, c.nip_port)?;
            let options = config::socket_options(c.tcp_no_delay, c.tcp_send_buf_size, c.tcp_recv_buf_size);
            let (listener, addr) = io.listen_as(at, &options, super::provider_listener(config)?).map_err(|e| {
                config::listening_fault("non-interactive providers", at, "--nip-port (source_distributor.nip_port)", &e)
            })?;
            nip_port = Some(NipPort { listener, addr, open: 0, admitted: Vec::new(), max: c.nip_max_mounts as usize });
        }
        let record_writer = RecordWriter::start(config, net::clock::now(), &mut distributor)?;
        let (outbox, routes) = (Outbox::default(), Routes::new(config)?);
        let json = JsonProviders::new(config::dictionary(config)?, c);
        let marketfeed = FromProviders::new(json.dictionary(), config);
        Ok(Self {
            distributor,
            outbox,
            routes,
            source_thread: None,
            json,
            marketfeed,
            post_tunnels: PostTunnels::new(config)?,
            record_writer,
            converts_all: c.convert_mfeed_data_to_rwf,
            converting_routes: config.dialled_routes().map(|route| route.convert_mfeed_data_to_rwf).collect(),
            nip_port,
            nip_limit: nip_limit(config),
            rates: InputRates::new("provider"),
            sessions: Vec::new(),
            conns: Vec::new(),
            held: false,
            unheld: Vec::new(),
            latency: c.latency_calc_server_based.then(|| EachLatency::new(c.num_latency_samples)),
            is_timed: false,
            timed: Vec::new(),
        })
    }

    /// Routes that come with a reload are this thread's if they are its part of them all.
    pub const fn share_routes(&mut self, source_thread: u16) {
        self.source_thread = Some(source_thread);
    }

    /// Where non-interactive providers connect.
    pub fn nip_addr(&self) -> Option<SocketAddr> {
        self.nip_port.as_ref().map(|d| d.addr)
    }

    /// The counters so far; `holding` says that providers are not read.
    pub fn sample(&self, labels: &[Label], holding: bool, samples: &mut Samples) {
        samples.add(Part::SourceDistributor, labels, self.distributor.counters());
        let (marketfeed_converted, marketfeed_unconvertible, marketfeed_fields_lost) = self.marketfeed.counts();
        let (over_rate, rate_pauses) = self.rates.counts();
        let (json_unconvertible, json_fields_left_out) = self.json.counts();
        let of_tunnels = self.post_tunnels.counts();
        let counters = Counters {
            items: self.distributor.items() as u64,
            holding: holding.into(),
            over_rate,
            rate_pauses,
            json_unconvertible,
            json_fields_left_out,
            marketfeed_converted,
            marketfeed_unconvertible,
            marketfeed_fields_lost,
            post_tunnels_opened: of_tunnels.opened,
            tunnel_posts: of_tunnels.sent,
            tunnel_posts_refused: of_tunnels.refused,
            tunnel_messages_unexpected: of_tunnels.unexpected,
        };
        samples.add(Part::Providers, labels, &counters);
        if let Some(record_writer) = &self.record_writer {
            samples.add(Part::Records, labels, &record_writer.counters(&self.distributor));
        }
    }

    /// The turn that is about to begin is one of those that are timed.
    #[inline]
    pub fn time_turn(&mut self) {
        self.is_timed = self.latency.is_some();
    }

    /// A turn that began then has handed on all that providers have sent.
    #[inline]
    pub fn end_timed_turn(&mut self, began: u64) {
        if std::mem::take(&mut self.is_timed)
            && let Some(latency) = &mut self.latency
        {
            self.timed.drain(..).for_each(|conn| latency.bring(conn, began));
            latency.settle(net::clock::now, |_| Some(false));
        }
    }

    /// How long a provider's messages are in here until they go on; `None` if that is not measured.
    pub fn latency_of(&self, conn: ConnId) -> Option<Latency> {
        self.latency.as_ref()?.of(conn)
    }

    /// Something has come on a connection.
    #[inline]
    fn note_timed(&mut self, conn: ConnId) {
        if self.is_timed && self.timed.last() != Some(&conn) {
            self.timed.push(conn);
        }
    }

    /// The connection of a session.
    pub fn connection(&self, id: SessionId) -> Option<ConnId> {
        self.conns.get(id.0 as usize).copied().flatten()
    }

    /// A block of requests from a P2PS.
    ///
    /// # Errors
    /// The block cannot be read, or comes behind a gap. The P2PS is dropped then and has to join again.
    pub fn requests(&mut self, now: u64, p2ps: u16, block: &[u8]) -> Result<(), HubError> {
        self.distributor.request_block(now, p2ps, block, &mut self.outbox)
    }

    /// A P2PS is gone: what it had open is closed.
    pub fn p2ps_gone(&mut self, now: u64, p2ps: u16) {
        self.distributor.p2ps_down(now, p2ps, &mut self.outbox);
    }

    /// A P2PS is past a bound: all that it has is void until it joins again.
    pub fn p2ps_lost(&mut self, now: u64, p2ps: u16, why: &'static str) {
        self.distributor.p2ps_lost(now, p2ps, why, &mut self.outbox);
    }

    /// An operator wants a session to end: its items go to others, and a route is dialled again.
    pub fn end_by_operator(&mut self, now: u64, id: SessionId, why: &str, io: &mut RsslIo) {
        self.distributor.end_by_operator(now, id, why, &mut self.outbox);
        self.flush(now, io);
    }

    /// An operator has the items of a service asked for at this provider, by its address; `None`: in the order of the routes again. Tells how
    /// many items go.
    ///
    /// # Errors
    /// The provider, or the service, is not there.
    pub fn switch_by_operator(
        &mut self,
        now: u64,
        service: &str,
        provider: Option<&str>,
        io: &mut RsslIo,
    ) -> Result<usize, SwitchError> {
        let items = self.distributor.switch_provider(now, service, provider, &mut self.outbox)?;
        self.flush(now, io);
        Ok(items)
    }

    /// Takes over what a reload changes: limits, and routes, of which those that stay as they are keep their sessions. Gives what could not
    /// be done.
    pub fn reconfigure(&mut self, now: u64, (old, new): (&Config, &Config), io: &mut RsslIo) -> Vec<String> {
        let own = |config: &Config| match self.source_thread {
            Some(thread) => config::of_source_thread(config, thread),
            None => config.clone(),
        };
        let (old, new) = (&own(old), &own(new));
        self.distributor.reconfigure(&config::distributor_config(new));
        if let Some(nip_port) = &mut self.nip_port {
            nip_port.max = new.source_distributor.nip_max_mounts as usize;
        }
        self.nip_limit = nip_limit(new);
        let (gone, come) = config::routes(old, new);
        let why = &CloseReason::RouteRemoved.to_string();
        let ended: Vec<_> = gone.iter().filter_map(|route| self.routes.end(route)).collect();
        for (_, conn) in ended {
            let Some(conn) = conn else { continue };
            if let Some(session) = self.session(conn) {
                self.distributor.session_down(now, session.id, why, &mut self.outbox);
            }
            io.close_drained(conn, why);
        }
        let mut faults = Vec::new();
        match config::item_priorities(new) {
            Ok(priorities) => self.distributor.set_item_priorities(priorities),
            Err(fault) => faults.push(fault),
        }
        for route in &come {
            match self.routes.add(route, new) {
                Ok(number) => {
                    self.distributor.set_route(number, config::route_config(new, route));
                    if let Err(fault) = self.post_tunnels.set_route(number, route) {
                        faults.push(fault);
                    }
                    let number = usize::from(number);
                    if self.converting_routes.len() <= number {
                        self.converting_routes.resize(number + 1, false);
                    }
                    self.converting_routes[number] = route.convert_mfeed_data_to_rwf;
                }
                Err(e) => faults.push(format!("route to {}: {e}", route.host_list.join(", "))),
            }
        }
        self.on_timer(now, io);
        self.flush(now, io);
        faults
    }

    /// The hosts of each route that is dialled, with its number.
    pub fn routes(&self) -> impl Iterator<Item = (u16, String)> {
        self.routes.hosts()
    }

    /// The session of a connection.
    fn session(&self, conn: ConnId) -> Option<Session> {
        self.sessions.get(conn.slot()).copied().flatten().filter(|session| session.conn == conn)
    }

    /// A session number for a connection.
    fn bind(&mut self, conn: ConnId, converts: Conversion, is_limited: bool) -> SessionId {
        let is_bound = |id: &SessionId| self.conns.get(id.0 as usize).is_some_and(Option::is_some);
        let id = self.distributor.free_sessions().find(|id| !is_bound(id)).expect("numbers have no end");
        let place = id.0 as usize;
        if self.conns.len() <= place {
            self.conns.resize(place + 1, None);
        }
        self.conns[place] = Some(conn);
        if self.sessions.len() <= conn.slot() {
            self.sessions.resize(conn.slot() + 1, None);
        }
        self.sessions[conn.slot()] = Some(Session { conn, id, converts, is_limited });
        id
    }

    /// Stops or resumes reading from the providers: they are held back by their sockets.
    pub fn hold(&mut self, hold: bool, io: &mut RsslIo) {
        self.held = hold;
        for session in self.sessions.iter().flatten() {
            io.set_reading(session.conn, !hold && !self.rates.is_paused(session.conn.slot()));
        }
    }

    /// When [`Providers::on_timer`] is due.
    pub fn timeout(&self) -> Option<u64> {
        let record_writer =
            self.record_writer.as_ref().and_then(|record_writer| record_writer.timeout(&self.distributor));
        earliest([
            self.distributor.timeout(),
            self.routes.timeout(),
            self.rates.timeout(),
            record_writer,
            self.post_tunnels.timeout(),
        ])
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: u64, io: &mut RsslIo) {
        self.routes.on_timer(now, io);
        let Self { rates, sessions, held, .. } = self;
        let conn_of = |slot: usize| sessions.get(slot).copied().flatten().map(|session| session.conn);
        rates.on_timer(now, |slot| conn_of(slot).into_iter().for_each(|conn| io.set_reading(conn, !*held)));
        if self.distributor.timeout().is_some_and(|at| at <= now) {
            self.distributor.on_timer(now, &mut self.outbox);
        }
        self.post_tunnels.on_timer(now);
        self.answer_tunnel_posts(now);
        if let Some(record_writer) = &mut self.record_writer {
            record_writer.on_timer(now, &mut self.distributor);
        }
    }

    /// Sends to the providers what the turn has brought for them, packed per session.
    pub fn flush(&mut self, now: u64, io: &mut RsslIo) {
        for conn in self.unheld.drain(..) {
            io.set_reading(conn, !self.held);
        }
        let Self { rates, sessions, .. } = self;
        let conn_of = |slot: usize| sessions.get(slot).copied().flatten().map(|session| session.conn);
        rates.end_turn(now, |slot| conn_of(slot).into_iter().for_each(|conn| io.set_reading(conn, false)));
        self.json.reply(now, io);
        let Outbox { bytes, messages, closes } = &mut self.outbox;
        messages.sort_by_key(|m| m.0.0);
        for group in messages.chunk_by(|a, b| a.0 == b.0) {
            let Some(&Some(conn)) = self.conns.get(group[0].0.0 as usize) else { continue };
            // A provider that dials in logs in as often as it likes, and has an answer each time.
            let is_answer =
                |msg: &[u8]| peek::class(msg) == Some(MsgClass::REFRESH) && peek::domain(msg) == Some(Domain::LOGIN);
            let answers = group.iter().map(|(_, range)| &bytes[range.clone()]).filter(|msg| is_answer(msg));
            io.count_answers(conn, answers.map(<[u8]>::len).sum());
            if self.json.has(conn) {
                let messages = group.iter().map(|(_, range)| &bytes[range.clone()]);
                self.json.send(now, conn, messages, io);
                continue;
            }
            io.send(now, conn, |packer| {
                for (id, range) in group {
                    if !self.post_tunnels.take_post(*id, &bytes[range.clone()]) {
                        packer.push(&bytes[range.clone()], None);
                    }
                }
            });
        }
        for (id, tunnel) in self.post_tunnels.each() {
            let Some(&Some(conn)) = self.conns.get(id.0 as usize) else { continue };
            io.send(now, conn, |packer| {
                while let Some(msg) = tunnel.poll_transmit() {
                    packer.push(msg, None);
                }
            });
        }
        messages.clear();
        bytes.clear();
        for notice in self.distributor.notices() {
            tracing::info!("{notice}");
        }
        crate::log::tell_faults();
        for (session, reason) in closes.drain(..) {
            if let Some(&Some(conn)) = self.conns.get(session.0 as usize) {
                tracing::warn!("closing the session with a provider: {reason}");
                io.close_drained(conn, &reason.to_string());
            }
        }
    }
}

impl Providers {
    /// Answers to posts in tunnel streams go on to who has posted.
    fn answer_tunnel_posts(&mut self, now: u64) {
        let Self { post_tunnels, distributor, outbox, .. } = self;
        post_tunnels.answer(now, distributor, outbox);
    }

    fn who_is_gone(&self, gone: SessionId) -> String {
        let address = self.distributor.session_address(gone);
        address.map_or_else(|| "a provider is gone".to_owned(), |address| format!("provider {address} is gone"))
    }

    /// The fate of the items of an interactive provider that is gone, to be told behind that.
    fn succession(&self, gone: SessionId) -> String {
        let sessions: Vec<_> =
            self.distributor.session_overview().filter(|s| s.origin != Origin::NonInteractive).collect();
        let Some(own) = sessions.iter().find(|session| session.id == gone) else { return String::new() };
        let items = |offer: &OfferOverview<'_>| offer.open + offer.outstanding;
        let left = own.services.iter().filter(|offer| items(offer) > 0);
        let mut told = String::new();
        for offer in left.clone().take(SERVICES_TOLD) {
            let has_it = |other: &OfferOverview<'_>| other.service == offer.service && other.up;
            let others = sessions.iter().filter(|other| other.id != gone && other.services.iter().any(has_it));
            let others: Vec<&str> = others.map(|other| other.address).take(SERVICES_TOLD).collect();
            let next = match others[..] {
                [] => "are Suspect: no other provider has it".to_owned(),
                _ => format!("go to {}", others.join(" or ")),
            };
            let _ = write!(told, "; {} items of service {} {next}", items(offer), offer.service);
        }
        match left.count().saturating_sub(SERVICES_TOLD) {
            0 => told,
            more => told + &format!("; and those of {more} further services"),
        }
    }
}

/// Limits of what a non-interactive provider may send.
fn nip_limit(config: &Config) -> InputLimit {
    let c = &config.source_distributor;
    InputLimit { bytes: c.nip_max_incoming_bytes_per_second, messages: c.nip_max_incoming_messages_per_second }
}

/// A process that is stopped leaves what it holds on the disk.
impl Drop for Providers {
    fn drop(&mut self) {
        if let Some(record_writer) = self.record_writer.take() {
            record_writer.finish(&mut self.distributor);
        }
    }
}

impl Handler for Providers {
    /// A mount is counted from its admission on: many that connect together are as many as they are.
    fn admit(&mut self, _listener: ListenerId, conn: ConnId, _peer: SocketAddr) -> Result<(), String> {
        let Some(nip_port) = &mut self.nip_port else { return Ok(()) };
        if nip_port.open >= nip_port.max {
            return Err(CloseReason::MountsTaken { max: nip_port.max }.to_string());
        }
        nip_port.open += 1;
        if nip_port.admitted.len() <= conn.slot() {
            nip_port.admitted.resize(conn.slot() + 1, false);
        }
        nip_port.admitted[conn.slot()] = true;
        Ok(())
    }

    fn opened(&mut self, now: u64, conn: ConnId, opened: &Opened<'_>) {
        let route = if opened.listener.is_some() { None } else { self.routes.of(conn) };
        let origin = match (route, &mut self.nip_port) {
            (Some(route), _) => {
                self.routes.established(route);
                Origin::Route(route as u16)
            }
            (None, Some(nip_port)) if Some(nip_port.listener) == opened.listener => Origin::NonInteractive,
            _ => return,
        };
        let of_route = route.and_then(|route| self.converting_routes.get(route)).copied().unwrap_or(false);
        let limit = route.map_or(self.nip_limit, |route| self.routes.limit(route));
        let converts = self.marketfeed.of_session(self.converts_all || of_route);
        let id = self.bind(conn, converts, limit.is_on());
        if limit.is_on() {
            self.rates.opened(conn.slot(), opened.peer.to_string(), limit);
        }
        self.unheld.extend(self.held.then_some(conn));
        if opened.spoken.is_json() {
            self.json.opened(conn, route.is_some());
        }
        if let Some(route) = route {
            self.post_tunnels.opened(id, route as u16);
        }
        tracing::info!("provider {} is up ({})", opened.peer, opened.spoken);
        let peer = PeerInfo { address: opened.peer.to_string() };
        self.distributor.session_up(now, id, origin, peer, &mut self.outbox);
    }

    #[inline]
    fn ahead(&mut self, conn: ConnId, messages: Ahead<'_, '_>) {
        if let Some(Session { id, .. }) = self.session(conn) {
            self.distributor.look_ahead(id, messages);
        }
    }

    #[inline]
    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        self.note_timed(conn);
        let Some(Session { id, converts, is_limited, .. }) = self.session(conn) else { return };
        if is_limited {
            self.rates.take(conn.slot(), msg.len());
        }
        if !self.post_tunnels.is_empty() {
            let is_own = self.post_tunnels.handle_message(now, id, msg);
            self.answer_tunnel_posts(now);
            if is_own {
                return;
            }
        }
        let msg = match converts {
            Conversion::Off => msg,
            how => self.marketfeed.convert((how, id), msg, &self.distributor),
        };
        self.distributor.session_message(now, id, msg, &mut self.outbox);
    }

    fn text(&mut self, now: u64, conn: ConnId, text: &str) {
        self.note_timed(conn);
        let Some(Session { id, converts, is_limited, .. }) = self.session(conn) else { return };
        if is_limited {
            self.rates.take(conn.slot(), text.len());
        }
        let Self { distributor, outbox, json, marketfeed, .. } = self;
        json.read(conn, text, |message| {
            let message = match converts {
                Conversion::Off => message,
                how => marketfeed.convert((how, id), message, distributor),
            };
            distributor.session_message(now, id, message, outbox);
        });
    }

    fn is_known(&self, conn: ConnId) -> bool {
        self.session(conn).is_some_and(|session| self.distributor.is_logged_in(session.id))
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if let Some(latency) = &mut self.latency {
            latency.forget(conn);
        }
        self.timed.retain(|known| *known != conn);
        self.json.closed(conn);
        self.rates.closed(conn.slot());
        if let Some(nip_port) = &mut self.nip_port
            && nip_port.admitted.get_mut(conn.slot()).is_some_and(std::mem::take)
        {
            nip_port.open -= 1;
        }
        if let Some(session) = self.sessions.get_mut(conn.slot()).and_then(Option::take) {
            tracing::warn!("{}: {}{}", self.who_is_gone(session.id), ended.why, self.succession(session.id));
            self.conns[session.id.0 as usize] = None;
            self.post_tunnels.closed(session.id);
            self.distributor.session_down(now, session.id, &ended.why.to_string(), &mut self.outbox);
        }
        if let Some(route) = self.routes.of(conn) {
            self.routes.lost(now, route, &ended.why.to_string(), ended.next_version);
        }
    }
}

/// Messages that the state machine wants sent, kept until the turn's input has been taken in.
#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    messages: Vec<(SessionId, Range<usize>)>,
    closes: Vec<(SessionId, CloseReason)>,
}

impl ProviderSink for Outbox {
    fn send(&mut self, session: SessionId, msg: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(msg);
        self.messages.push((session, start..self.bytes.len()));
    }

    fn close(&mut self, session: SessionId, reason: &CloseReason) {
        self.closes.push((session, reason.clone()));
    }
}
