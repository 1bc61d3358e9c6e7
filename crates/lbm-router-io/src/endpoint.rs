//! Endpoints: a context in a domain, its proxy sources, and what it hears.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddrV4;
use std::time::Duration;

use lbm::transport::EndReason;
use lbm::wire::header::Header;
use lbm::wire::lbmc::{self, Kind, NEXT_DATA, NEXT_NONE};
use lbm::wire::lbmr::{Advert, Body, PatternKind, Query};
use lbm::wire::lbmr_management::Management;
use lbm::wire::lbmr_option::{IGNORE, PacketOptions, TopicOption};
use lbm::wire::{Writer, lbmr};
use lbm_io::options::Options;
use lbm_io::{
    Context, Delivery, Events, Loss, Offer, ReceiverId, RequestId, SendError, SendFlags, SourceId, Sources, Stream,
};
use lbm_router::interest::Interest;
use lbm_router::wire::Gone;
use lbm_router::{Forward, Origin, PortalId, ProxyAdvert, Router, RouterId, SourceFound, StreamId};
use lbm_store::source::Question;

use crate::stores;

/// How long answers to a request are taken.
const REQUEST_PATIENCE: Duration = Duration::from_mins(1);
/// Requests that are open at a time.
const REQUESTS_MAX: usize = 10_000;
/// Between two questions to a source that has not said which stores it has, ns.
const ASK_STORES_NS: u64 = 1_000_000_000;
/// Names that were heard and wait for the end of a context's turn.
const NEWS_MAX: usize = 100_000;
/// Sources that were sent to and not flushed, at most: more are flushed at once.
const TOUCHED_MAX: usize = 1_024;

/// Counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// Messages sent by proxy sources.
    pub sent: u64,
    /// Messages that found no room: the domain is too slow.
    pub dropped: u64,
    /// Messages longer than a datagram here: domains need equal `..._datagram_max_size`.
    pub too_long: u64,
    /// Proxy sources that could not be made.
    pub refused: u64,
    /// Names heard that were not looked at: too many at once.
    pub unheard: u64,
    /// Requests that were passed on without a way for answers.
    pub unanswerable: u64,
    /// Sources with queues: receivers in other domains get all their messages, and share out none.
    pub queues: u64,
}

/// A proxy source.
struct Proxy {
    source: SourceId,
    /// Messages, and numbers that are over, while the session takes nothing. A message is never empty.
    waiting: VecDeque<(u32, Vec<u8>)>,
}

/// A stream that the context receives.
struct Received {
    /// The receivers that have it, of which the first one counts.
    receivers: Vec<ReceiverId>,
    origin: Origin,
    /// The stream's source has stores and has not said which: when it is asked.
    ask_at: Option<u64>,
}

/// A request that was passed on into the domain.
struct Open {
    stream: StreamId,
    to: SocketAddrV4,
    number: u32,
    until: u64,
}

/// State of an endpoint beside its context.
pub(crate) struct State {
    portal: PortalId,
    domain: u32,
    receivers: HashMap<Interest, ReceiverId>,
    streams: HashMap<u32, Received>,
    proxies: HashMap<u32, Proxy>,
    by_source: HashMap<SourceId, u32>,
    /// Streams of proxy sources that have stores, by the topic's index in the proxy's session.
    with_stores: HashMap<u32, Vec<u32>>,
    /// When sources are asked for their stores: no later than the first of them.
    ask_due: u64,
    requests: HashMap<RequestId, Open>,
    waiting_bytes: usize,
    waiting_max: usize,
    touched: Vec<SourceId>,
    /// Interest that was heard.
    news: Vec<Interest>,
    scratch: Vec<u8>,
    stats: EndpointStats,
}

/// A context and what belongs to it.
pub(crate) struct Endpoint {
    pub(crate) context: Context,
    options: Options,
    pub(crate) state: State,
}

/// The endpoints of a router; one whose context is taking its turn is out.
pub(crate) type Endpoints = [Option<Box<Endpoint>>];

/// Hands messages to the proxy sources of all endpoints.
pub(crate) struct ToProxies<'a>(pub(crate) &'a mut Endpoints);

impl Forward for ToProxies<'_> {
    #[inline]
    fn message(&mut self, portal: PortalId, stream: StreamId, sqn: u32, message: &[u8]) {
        if let Some(Some(endpoint)) = self.0.get_mut(portal.0 as usize) {
            let Endpoint { context, state, .. } = &mut **endpoint;
            state.forward(context.sources(), stream, sqn, message);
        }
    }

    fn skip_to(&mut self, portal: PortalId, stream: StreamId, sqn: u32) {
        if let Some(Some(endpoint)) = self.0.get_mut(portal.0 as usize) {
            let Endpoint { context, state, .. } = &mut **endpoint;
            state.skip_to(context.sources(), stream, sqn);
        }
    }
}

/// Takes what happens in an endpoint's context.
struct Intake<'a> {
    now: u64,
    router: &'a mut Router,
    state: &'a mut State,
    others: &'a mut Endpoints,
}

impl Endpoint {
    pub(crate) fn new(context: Context, options: Options, portal: PortalId, domain: u32, waiting_max: usize) -> Self {
        let state = State {
            portal,
            domain,
            receivers: HashMap::new(),
            streams: HashMap::new(),
            proxies: HashMap::new(),
            by_source: HashMap::new(),
            with_stores: HashMap::new(),
            ask_due: u64::MAX,
            requests: HashMap::new(),
            waiting_bytes: 0,
            waiting_max,
            touched: Vec::new(),
            news: Vec::new(),
            scratch: Vec::new(),
            stats: EndpointStats::default(),
        };
        Self { context, options, state }
    }

    /// The domain, and what was done.
    pub(crate) fn report(&self) -> (u32, EndpointStats, usize) {
        (self.state.domain, self.state.stats, self.state.waiting_bytes)
    }

    /// A turn of the context, without waiting. Returns how many messages were received.
    pub(crate) fn poll(&mut self, now: u64, router: &mut Router, others: &mut Endpoints) -> std::io::Result<usize> {
        let Self { context, state, .. } = self;
        context.poll(Some(Duration::ZERO), &mut Intake { now, router, state, others })
    }

    /// Input from the domain since the last time.
    pub(crate) fn take_news(&mut self) -> Vec<Interest> {
        std::mem::take(&mut self.state.news)
    }

    /// Sends what was gathered in a turn.
    pub(crate) fn flush(&mut self) {
        while let Some(source) = self.state.touched.pop() {
            // A source that is gone has flushed.
            let _ = self.context.flush(source);
        }
    }

    pub(crate) fn listen(&mut self, interest: Interest) -> Result<(), String> {
        let receiver = match interest.pattern() {
            None => self.context.receiver(interest.name(), &self.options),
            Some(_) => self.context.wildcard(interest.name(), &self.options),
        };
        let receiver = receiver.map_err(|error| format!("{interest}: {error}"))?;
        self.state.receivers.insert(interest, receiver);
        Ok(())
    }

    /// Receives no more for an interest; the numbers of streams that nobody has any more are given to `over`.
    pub(crate) fn unlisten(&mut self, interest: &Interest) -> Vec<u32> {
        let Some(receiver) = self.state.receivers.remove(interest) else { return Vec::new() };
        self.context.remove_receiver(receiver);
        let mut over = Vec::new();
        self.state.streams.retain(|number, stream| {
            stream.receivers.retain(|other| *other != receiver);
            if stream.receivers.is_empty() {
                over.push(*number);
            }
            !stream.receivers.is_empty()
        });
        over.sort_unstable();
        over
    }

    pub(crate) fn ask_for_use(&mut self, interests: &[Interest]) {
        self.context.ask_for_use(interests.iter().map(|interest| (interest.pattern(), interest.name().as_bytes())));
    }

    /// Makes a proxy source.
    pub(crate) fn serve(&mut self, router: RouterId, stream: StreamId, advert: &ProxyAdvert) -> Result<(), String> {
        let more = [
            TopicOption::Cost { flags: 0x80, hops: advert.hops, cost: advert.cost },
            TopicOption::Origin { flags: IGNORE, id: advert.origin.0 },
            TopicOption::Instance { flags: 0x80, reserved: 0, instance: router.0.to_be_bytes() },
            TopicOption::Domain { flags: IGNORE, domain: advert.origin.domain() },
        ];
        match self.context.proxy_source(&advert.topic, &self.options, &more, advert.persistent) {
            Ok(source) => {
                if advert.persistent
                    && let Some((_, index, _)) = self.context.sources().placement(source)
                {
                    self.state.with_stores.entry(index).or_default().push(stream.0);
                }
                self.state.proxies.insert(stream.0, Proxy { source, waiting: VecDeque::new() });
                self.state.by_source.insert(source, stream.0);
                Ok(())
            }
            Err(error) => {
                self.state.stats.refused += 1;
                Err(format!("domain {}: no proxy source of {}: {error}", self.state.domain, advert.topic))
            }
        }
    }

    pub(crate) fn cease(&mut self, stream: StreamId) {
        let Some(mut proxy) = self.state.proxies.remove(&stream.0) else { return };
        self.state.drain(self.context.sources(), &mut proxy);
        let State { stats, waiting_bytes, .. } = &mut self.state;
        for (_, message) in proxy.waiting.drain(..) {
            stats.dropped += u64::from(!message.is_empty());
            *waiting_bytes -= message.len();
        }
        self.state.by_source.remove(&proxy.source);
        self.state.with_stores.retain(|_, streams| {
            streams.retain(|other| *other != stream.0);
            !streams.is_empty()
        });
        self.state.touched.retain(|source| *source != proxy.source);
        self.context.remove_source(proxy.source);
    }

    /// Tells the receivers of a proxy source which stores its source has. Those that miss it ask.
    pub(crate) fn tell_stores(&mut self, stream: StreamId, word: &[u8]) {
        // The proxy source could not be made, which was counted.
        let Some(source) = self.state.proxies.get(&stream.0).map(|proxy| proxy.source) else { return };
        let sources = self.context.sources();
        if let Some((_, index, _)) = sources.placement(source)
            && let Some(word) = stores::of_proxy(word, index)
        {
            // A word that finds no room is told again with the next one.
            let _ = sources.send_control(source, &word);
        }
    }

    /// Asks sources that have not said yet which stores they have.
    pub(crate) fn ask_for_stores(&mut self, now: u64) {
        if now < self.state.ask_due {
            return;
        }
        let (mut next, mut asked) = (u64::MAX, Vec::new());
        for (number, stream) in &mut self.state.streams {
            if stream.ask_at.is_some_and(|at| at <= now) {
                stream.ask_at = Some(now.saturating_add(ASK_STORES_NS));
                asked.push(*number);
            }
            next = next.min(stream.ask_at.unwrap_or(u64::MAX));
        }
        self.state.ask_due = next;
        for number in asked {
            let mut question = Vec::new();
            if let Some((transport, topic)) = self.context.stream_origin(number) {
                Question::new(topic, lbm_store::wire::origin(&transport, topic)).encode(&mut question);
                // A source that cannot be reached is asked again.
                self.context.ask(number, &question);
            }
        }
    }

    pub(crate) fn respond(&mut self, to: SocketAddrV4, number: u32, payload: &[u8]) -> Result<(), SendError> {
        self.context.sources().respond(&lbm_io::Request { from: to, number }, payload)
    }

    /// Forgets requests that nobody answers any more.
    pub(crate) fn expire(&mut self, now: u64) {
        self.state.requests.retain(|_, open| open.until > now);
    }
}

impl State {
    fn forward(&mut self, sources: &mut Sources, stream: StreamId, sqn: u32, message: &[u8]) {
        let Some(proxy) = self.proxies.get(&stream.0) else {
            // The proxy source could not be made, which was counted.
            self.stats.dropped += 1;
            return;
        };
        let source = proxy.source;
        let sent = if proxy.waiting.is_empty() {
            self.try_forward(sources, stream, source, message)
        } else {
            Err(SendError::WouldBlock)
        };
        match sent {
            Ok(_) => {
                self.stats.sent += 1;
                self.touch(sources, source);
                return;
            }
            Err(SendError::WouldBlock) if self.waiting_bytes + message.len() <= self.waiting_max => {
                self.waiting_bytes += message.len();
                if let Some(proxy) = self.proxies.get_mut(&stream.0) {
                    proxy.waiting.push_back((sqn, message.to_vec()));
                }
                return;
            }
            Err(SendError::TooLong) => self.stats.too_long += 1,
            Err(_) => self.stats.dropped += 1,
        }
        self.skip_to(sources, stream, sqn.wrapping_add(1));
    }

    #[inline]
    fn try_forward(
        &mut self,
        sources: &mut Sources,
        stream: StreamId,
        source: SourceId,
        message: &[u8],
    ) -> Result<u32, SendError> {
        // A peer's message that cannot be read is one that does not fit.
        let (decoded, _) = lbmc::Message::decode(message).map_err(|_| SendError::TooLong)?;
        if decoded.next == NEXT_DATA || !has_request(&decoded) {
            sources.forward(source, &decoded, SendFlags::NONE)
        } else {
            self.forward_request(sources, stream, source, &decoded)
        }
    }

    fn touch(&mut self, sources: &mut Sources, source: SourceId) {
        if self.touched.last() == Some(&source) {
            return;
        }
        if self.touched.len() >= TOUCHED_MAX {
            for source in self.touched.drain(..) {
                // A source that is gone has flushed.
                let _ = sources.flush(source);
            }
        }
        self.touched.push(source);
    }

    /// A message that wants answers: they come to this router, which passes them back.
    fn forward_request(
        &mut self,
        sources: &mut Sources,
        stream: StreamId,
        source: SourceId,
        message: &lbmc::Message<'_>,
    ) -> Result<u32, SendError> {
        if self.requests.len() >= REQUESTS_MAX {
            self.stats.unanswerable += 1;
            return sources.forward(source, message, SendFlags::NONE);
        }
        let Ok((request, own)) = sources.open_request(REQUEST_PATIENCE) else {
            self.stats.unanswerable += 1;
            return sources.forward(source, message, SendFlags::NONE);
        };
        let (mut headers, mut asked) = (Vec::new(), None);
        let mut chain = message.headers();
        for header in &mut chain {
            match header {
                Ok(Header::Request(was)) => {
                    asked = Some(was);
                    headers.push(Header::Request(own));
                }
                Ok(header) => headers.push(header),
                Err(_) => break,
            }
        }
        self.scratch.resize(lbmc::MESSAGE_MAX, 0);
        let mut w = Writer::new(&mut self.scratch);
        let end = if chain.end() == NEXT_NONE { NEXT_NONE } else { NEXT_DATA };
        let encoded = lbmc::encode(&mut w, Kind::Message, message.topic, message.sqn, &headers, end, chain.payload());
        let (Some(asked), Ok(())) = (asked, encoded) else {
            sources.close_request(request);
            return sources.forward(source, message, SendFlags::NONE);
        };
        let length = w.position();
        let rewritten = lbmc::Message::decode(&self.scratch[..length]).map_err(|_| SendError::TooLong)?.0;
        let sent = sources.forward(source, &rewritten, SendFlags::NONE);
        if sent.is_ok() {
            let patience = u64::try_from(REQUEST_PATIENCE.as_nanos()).unwrap_or(u64::MAX);
            let until = sources.now().saturating_add(patience);
            let to = SocketAddrV4::new(asked.address, asked.port);
            self.requests.insert(request, Open { stream, to, number: asked.index, until });
        } else {
            sources.close_request(request);
        }
        sent
    }

    fn skip_to(&mut self, sources: &mut Sources, stream: StreamId, sqn: u32) {
        let Some(proxy) = self.proxies.get_mut(&stream.0) else { return };
        if proxy.waiting.is_empty() {
            // The source goes only with its proxy.
            let _ = sources.skip_to(proxy.source, sqn);
        } else if let Some((over, _)) = proxy.waiting.back_mut().filter(|(_, message)| message.is_empty()) {
            *over = sqn;
        } else {
            proxy.waiting.push_back((sqn, Vec::new()));
        }
    }

    /// Sends what waits, as far as the session takes it.
    fn drain(&mut self, sources: &mut Sources, proxy: &mut Proxy) {
        while let Some((sqn, message)) = proxy.waiting.front() {
            if message.is_empty() {
                let _ = sources.skip_to(proxy.source, *sqn);
            } else {
                let sent = lbmc::Message::decode(message).map_err(|_| SendError::TooLong);
                // A request that has waited is sent with its own address: its answers are for who can reach that.
                match sent.and_then(|(decoded, _)| sources.forward(proxy.source, &decoded, SendFlags::NONE)) {
                    Ok(_) => self.stats.sent += 1,
                    Err(SendError::WouldBlock) => break,
                    Err(SendError::TooLong) => self.stats.too_long += 1,
                    Err(_) => self.stats.dropped += 1,
                }
            }
            self.waiting_bytes -= message.len();
            proxy.waiting.pop_front();
        }
        self.touch(sources, proxy.source);
    }

    fn hear(&mut self, pattern: Option<PatternKind>, name: &[u8]) {
        if self.news.len() >= NEWS_MAX {
            self.stats.unheard += 1;
        } else if let Ok(name) = std::str::from_utf8(name)
            && !name.is_empty()
            && name.len() <= lbmr::TOPIC_NAME_MAX
        {
            self.news.push(Interest::new(pattern, name));
        }
    }
}

fn has_request(message: &lbmc::Message<'_>) -> bool {
    message.headers().any(|header| matches!(header, Ok(Header::Request(request)) if request.transport == 0))
}

/// (hops, cost), source and router of a proxy source's advertisement.
fn proxy_of(advert: &Advert<'_>) -> Option<(u32, Origin, RouterId)> {
    let (mut cost, mut origin, mut router) = (None, None, None);
    for option in advert.options.iter() {
        match option {
            Ok(TopicOption::Cost { hops: 1.., cost: of, .. }) => cost = Some(of),
            Ok(TopicOption::Origin { id, .. }) => origin = Some(Origin(id)),
            Ok(TopicOption::Instance { instance, .. }) => router = Some(RouterId(u64::from_be_bytes(instance))),
            _ => {}
        }
    }
    Some((cost?, origin?, router?))
}

/// Whether an advertisement is of a proxy source, and not of a source.
fn is_proxy(advert: &Advert<'_>) -> bool {
    advert.options.iter().any(|option| matches!(option, Ok(TopicOption::Cost { hops: 1.., .. })))
}

impl Intake<'_> {
    /// Whether the receiver is the one of a stream that counts.
    fn counts(&self, stream: &Stream<'_>) -> bool {
        self.state.streams.get(&stream.number).is_some_and(|of| of.receivers.first() == Some(&stream.receiver))
    }
}

impl Events for Intake<'_> {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        if !self.counts(&delivery.stream) {
            return;
        }
        let Self { now, router, state, others } = self;
        let (next, chain) = delivery.headers.encoded();
        let length = lbmc::DATA_HEADER + chain.len() + delivery.payload.len();
        let Ok(length) = u16::try_from(length) else {
            state.stats.too_long += 1;
            return;
        };
        let mut header = lbmc::data_header(length, delivery.stream.index, delivery.sqn);
        header[1] = next;
        state.scratch.clear();
        state.scratch.extend_from_slice(&header);
        state.scratch.extend_from_slice(chain);
        state.scratch.extend_from_slice(delivery.payload);
        router.message(
            *now,
            state.portal,
            delivery.stream.number,
            delivery.sqn,
            &state.scratch,
            &mut ToProxies(others),
        );
    }

    fn resolution(&mut self, packet: &lbmr::Packet<'_>) {
        let of_router = packet.options.is_some_and(PacketOptions::is_of_router);
        match packet.body {
            Body::Topics { adverts, .. } if of_router => {
                for (cost, origin, router) in adverts.iter().filter_map(|advert| proxy_of(&advert)) {
                    self.router.proxy_heard(self.now, self.state.portal, origin, (cost, router));
                }
            }
            Body::Topics { queries, .. } => {
                for query in queries.iter() {
                    match query {
                        Query::Topic(name) => self.state.hear(None, name),
                        Query::Pattern(kind, name) => self.state.hear(Some(kind), name),
                    }
                }
            }
            Body::Management { records, .. } if !of_router => {
                for record in Management::iter(records) {
                    if record.kind == Management::USE && record.is_response() {
                        self.state.hear(record.pattern, record.name);
                    }
                }
            }
            _ => {}
        }
    }

    fn wanted(&mut self, pattern: Option<PatternKind>, name: &[u8]) {
        self.state.hear(pattern, name);
    }

    fn accepts(&mut self, advert: &Advert<'_>) -> bool {
        !is_proxy(advert)
    }

    fn found(&mut self, _: &mut Sources, stream: &Stream<'_>, offer: &Offer) {
        let Self { now, router, state, others } = self;
        // A transport that cannot be received is not found.
        let Some(origin) = Origin::of(state.domain, stream.transport, stream.index) else { return };
        let (number, portal) = (stream.number, state.portal);
        if let Some(known) = state.streams.get_mut(&number) {
            if known.origin == origin {
                known.receivers.push(stream.receiver);
                return;
            }
            // The one before made way, and was not told as ended.
            router.source_gone(*now, portal, number, Gone::Unreachable, &mut ToProxies(others));
        }
        let ask_at = offer.persistent.then_some(*now);
        state.ask_due = state.ask_due.min(ask_at.unwrap_or(u64::MAX));
        state.stats.queues += u64::from(offer.queue.is_some());
        state.streams.insert(number, Received { receivers: vec![stream.receiver], origin, ask_at });
        let found = SourceFound { origin, topic: stream.topic, persistent: offer.persistent };
        router.source_found(*now, portal, number, found, &mut ToProxies(others));
    }

    fn control(&mut self, _: &mut Sources, stream: &Stream<'_>, message: &lbmc::Message<'_>) {
        if !self.counts(stream) || !stores::is_word(message, stream.index) {
            return;
        }
        if let Some(known) = self.state.streams.get_mut(&stream.number) {
            known.ask_at = None;
        }
        if let Some(word) = stores::bytes(message) {
            self.router.source_stores(self.state.portal, stream.number, &word);
        }
    }

    /// A receiver asks for the stores of a proxy source.
    fn question(&mut self, sources: &mut Sources, message: &lbmc::Message<'_>, answers: &mut Vec<u8>) {
        // Receivers ask nothing else of a proxy.
        let Some(question) = Question::of(message) else { return };
        let index = question.topic();
        for stream in self.state.with_stores.get(&index).into_iter().flatten() {
            let session = self.state.proxies.get(stream).and_then(|proxy| sources.transport(proxy.source));
            if session.is_some_and(|session| question.is_for(index, &lbm_store::wire::origin(session, index)))
                && let Some(word) = self.router.stores(StreamId(*stream)).and_then(|word| stores::of_proxy(word, index))
            {
                answers.extend_from_slice(&word);
            }
        }
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        if !self.counts(stream) {
            return;
        }
        let Self { now, router, state, others } = self;
        state.streams.remove(&stream.number);
        // A session that is silent may be one that cannot be heard: its proxies wait for it.
        let why = if reason == EndReason::Timeout { Gone::Unreachable } else { Gone::Ended };
        router.source_gone(*now, state.portal, stream.number, why, &mut ToProxies(others));
    }

    fn lost(&mut self, _: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        if self.counts(stream) {
            let Self { now, router, state, others } = self;
            router.message_lost(*now, state.portal, stream.number, (loss.first, loss.count), &mut ToProxies(others));
        }
    }

    fn writable(&mut self, sources: &mut Sources, source: SourceId) {
        let Some(id) = self.state.by_source.get(&source).copied() else { return };
        if let Some(mut proxy) = self.state.proxies.remove(&id) {
            self.state.drain(sources, &mut proxy);
            self.state.proxies.insert(id, proxy);
        }
    }

    fn response(&mut self, _: &mut Sources, request: RequestId, payload: &[u8]) {
        if let Some(open) = self.state.requests.get(&request) {
            self.router.response(open.stream, open.to, open.number, payload);
        }
    }
}
