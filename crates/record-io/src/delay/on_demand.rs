//! A delayed service on demand: an interactive provider, to be dialled by a Source Distributor, whose items are asked for at the source when
//! somebody asks for them here.
//!
//! | a request for an item of which | is answered with |
//! |---|---|
//! | an image is due | that image |
//! | the source's image is younger than its delay | its fields that cost no fee, Suspect; the image when it is due |
//! | the source has not answered | what the source answers, as above |
//! | the source says that it is none | the same, if no image of it is due |

use super::delayed::{Arrival, Delayed, DelayedConfig, Output, quality};
use super::rules::{Rule, Rules};
use super::{IMAGE_PART, Key, ROOM, SECOND, Standing, TURN};
use net::tcp::{Close, ConnId, SocketOptions};
use omm::provider::{Asked, Event, Provider, ProviderConfig, Upstream};
use rssl::ServerConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::container::{FieldList, FieldListEncoder, SetScope};
use rwf::image::Image;
use rwf::msg::{Domain, Msg, NakCode, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::rdm::dictionary;
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, State, StateCode, StreamState};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Id of the service at this provider; a Source Distributor gives it one of its own.
const SERVICE_ID: u16 = 1;
/// A session with more than this waiting is cut off: it does not read.
const BACKLOG_MAX: usize = 64 << 20;
/// A service whose journal has failed begins anew so much later.
const PAUSE: Duration = Duration::from_secs(5);

/// The settings of a delayed service on demand.
#[derive(Clone, Debug)]
pub struct OnDemandConfig {
    /// The service that is delayed.
    pub service: String,
    /// The name of the delayed one.
    pub published_as: String,
    /// How late items are that no rule speaks of, nanoseconds.
    pub delay: u64,
    /// Rules; the first that fits holds.
    pub rules: Vec<Rule>,
    /// Fields that are kept back until they are due; `None`: all.
    pub fee_fields: Option<HashSet<i16>>,
    /// Domains of the items, by number.
    pub domains: Vec<u8>,
    /// Folder of the journal.
    pub journal: PathBuf,
    /// How long a segment of it is, nanoseconds.
    pub segment: u64,
    /// Most bytes of all segments together, but for the newest.
    pub bytes_max: u64,
    /// Most items.
    pub items_max: usize,
    /// An item that nobody watches is written down so much longer, nanoseconds.
    pub unwatched: u64,
    /// User name of the login at the source.
    pub user: String,
}

/// Serves until `stop`. `ready` is given the address to dial, and is waited for by whoever starts the server that dials; `source` says where the
/// service is consumed, as soon as that is known, and is asked again until then. `report` is told each second how the service stands.
///
/// A fault that ends the journal (a full disk, a folder that is another's) takes the service down, and is tried again.
///
/// # Errors
/// The system gives no sockets.
pub fn serve(
    config: &OnDemandConfig,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
    source: &dyn Fn(Duration) -> Option<SocketAddr>,
    report: &dyn Fn(&Standing),
) -> io::Result<()> {
    report(&Standing::default());
    let (mut io, mut at) = listen(SocketAddr::from((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)))?;
    ready(at);
    let from = loop {
        if stop.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(from) = source(Duration::from_nanos(TURN)) {
            break from;
        }
    };
    let name = &config.published_as;
    loop {
        let Err(error) = publish(config, from, &mut io, stop, report) else { return Ok(()) };
        report(&Standing::default());
        tracing::error!("delay {name}: {error}; it is tried again in {} s", PAUSE.as_secs());
        // A server that dials sees the service go.
        drop(io);
        let until = Instant::now() + PAUSE;
        while Instant::now() < until && !stop.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_nanos(TURN));
        }
        if stop.load(Ordering::Acquire) {
            return Ok(());
        }
        (io, at) = listen(at)?;
    }
}

fn listen(at: SocketAddr) -> io::Result<(RsslIo, SocketAddr)> {
    let mut io = RsslIo::new(net::clock::now())?;
    let (_, at) = io.listen(at, &SocketOptions::default(), Arc::new(ServerConfig::default()))?;
    Ok((io, at))
}

/// Publishes until it is stopped, or the journal fails.
fn publish(
    config: &OnDemandConfig,
    from: SocketAddr,
    io: &mut RsslIo,
    stop: &AtomicBool,
    report: &dyn Fn(&Standing),
) -> io::Result<()> {
    let of_journal = |error: io::Error| {
        io::Error::new(error.kind(), format!("the journal in {}: {error}", config.journal.display()))
    };
    let mut service = OnDemand::new(config, from).map_err(of_journal)?;
    let mut deadline = net::clock::now();
    let mut report_at = deadline;
    while !stop.load(Ordering::Acquire) {
        let now = io.turn(Some(deadline), &mut service)?;
        let is_more = service.work(now, net::clock::wall(), io).map_err(of_journal)?;
        if now >= report_at {
            report_at = now + SECOND;
            report(&service.standing(net::clock::wall()));
        }
        deadline = if is_more { now } else { now + TURN };
    }
    Ok(())
}

/// A session of whoever asks.
struct Session {
    conn: ConnId,
    provider: Provider,
    streams: HashMap<i32, Key>,
}

/// A stream on which an item is open here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watcher {
    slot: usize,
    stream_id: i32,
    /// The stream has been given something.
    is_answered: bool,
}

/// An item that is, or was, asked for here.
#[derive(Debug, Default)]
struct Wanted {
    watchers: Vec<Watcher>,
    /// The source is asked for the item, or has it open.
    is_at_source: bool,
    /// Since when nobody watches it.
    unwatched_since: Option<u64>,
}

/// The publishing side: sessions, and what they have open.
struct Demand {
    provider: Arc<ProviderConfig>,
    sessions: BTreeMap<usize, Session>,
    wanted: HashMap<Key, Wanted>,
    fee_fields: Option<HashSet<i16>>,
    /// Messages that were due, each stream counted.
    published: u64,
    buf: Vec<u8>,
}

struct OnDemand {
    delayed: Delayed<SocketAddr>,
    demand: Demand,
    items_max: usize,
    unwatched: u64,
    look_at: u64,
    /// Requests that were refused since there are too many items.
    refused: u64,
    name: String,
}

impl OnDemand {
    fn new(config: &OnDemandConfig, from: SocketAddr) -> io::Result<Self> {
        let rules = Rules { delay: config.delay, rules: config.rules.clone() };
        let provider = ProviderConfig { services: vec![directory_of(config, &rules)], ..ProviderConfig::default() };
        let mut delayed = Delayed::new(
            DelayedConfig {
                service: config.service.clone(),
                user: config.user.clone(),
                rules,
                journal: config.journal.clone(),
                segment: config.segment,
                bytes_max: config.bytes_max,
                tell: |line| tracing::info!("delay: {line}"),
            },
            from,
        )?;
        let mut wanted = HashMap::new();
        let now = net::clock::now();
        // An item that was written down before goes on: whoever asks for it finds no more than the hole of the restart.
        for key in delayed.formerly_open()?.into_iter().take(config.items_max) {
            delayed.open_known(now, &key)?;
            let unwatched_since = Some(now);
            wanted.insert(key, Wanted { is_at_source: true, unwatched_since, ..Wanted::default() });
        }
        Ok(Self {
            delayed,
            demand: Demand {
                provider: Arc::new(provider),
                sessions: BTreeMap::new(),
                wanted,
                fee_fields: config.fee_fields.clone(),
                published: 0,
                buf: vec![0; ROOM],
            },
            items_max: config.items_max,
            unwatched: config.unwatched,
            look_at: 0,
            refused: 0,
            name: config.published_as.clone(),
        })
    }

    /// Takes in what the source has said, plays what is due, sends. Tells whether more is due.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    fn work(&mut self, now: u64, wall: u64, io: &mut RsslIo) -> io::Result<bool> {
        self.delayed.work(now, wall, io)?;
        self.take_arrivals();
        let is_more = self.delayed.play(wall, false, &mut self.demand)?;
        if now >= self.look_at {
            self.look_at = now + SECOND;
            self.close_unwatched(now);
        }
        self.delayed.send(now, io);
        self.demand.send(now, io);
        Ok(is_more)
    }

    fn standing(&self, wall: u64) -> Standing {
        let wanted = &self.demand.wanted;
        Standing {
            items: wanted.len() as u64,
            watched: wanted.values().filter(|wanted| !wanted.watchers.is_empty()).count() as u64,
            refused: self.refused,
            published: self.demand.published,
            ..self.delayed.standing(wall)
        }
    }

    fn take_arrivals(&mut self) {
        while let Some(arrival) = self.delayed.next_arrival() {
            match arrival {
                Arrival::Image(key) => self.answer(&key),
                Arrival::End(key, state) => {
                    self.demand.refuse_unanswered(&key, state.as_state());
                    let is_due = self.delayed.due(&key).is_some();
                    self.demand.ended_at_source(&key, is_due);
                }
            }
        }
    }

    /// Answers the streams of an item that have had nothing, as far as something is known.
    fn answer(&mut self, key: &Key) {
        let Self { delayed, demand, .. } = self;
        let owed = demand.unanswered(key);
        if owed.is_empty() {
            return;
        }
        if let Some((image, qos, lock)) = delayed.due(key) {
            demand.image_to(&owed, key, image, qos, lock);
        } else if let Some((image, delay)) = delayed.latest(key) {
            demand.announce_to(&owed, key, image, delay);
        }
    }

    fn ask(&mut self, now: u64, slot: usize, asked: &Asked) {
        let stream_id = asked.stream_id;
        let refusal = |code, text| State::new(StreamState::CLOSED, DataState::SUSPECT, code, text);
        let Ok(name) = std::str::from_utf8(&asked.name) else {
            let text = "Names of delayed items are UTF-8";
            return self.demand.refuse(slot, stream_id, refusal(StateCode::NOT_FOUND, text));
        };
        if asked.private {
            let text = "Delayed items are on no private streams";
            return self.demand.refuse(slot, stream_id, refusal(StateCode::USAGE_ERROR, text));
        }
        let key = Key { domain: asked.domain.0, name: name.into() };
        let is_full = !self.demand.wanted.contains_key(&key) && self.demand.wanted.len() >= self.items_max;
        if is_full || self.delayed.open(now, &key).is_err() {
            if self.refused == 0 {
                tracing::warn!("delay {}: {} items are asked for, and no more may be", self.name, self.items_max);
            }
            self.refused += 1;
            let text = "The delayed service has as many items as it may have (delay_items_max)";
            return self.demand.refuse(slot, stream_id, refusal(StateCode::TOO_MANY_ITEMS, text));
        }
        self.demand.watch(&key, slot, stream_id);
        self.answer(&key);
    }

    fn close_unwatched(&mut self, now: u64) {
        let over = |wanted: &Wanted| wanted.unwatched_since.is_some_and(|since| now - since >= self.unwatched);
        let all = self.demand.wanted.iter().filter(|(_, wanted)| over(wanted));
        for key in all.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.delayed.close(now, &key);
            self.demand.wanted.remove(&key);
        }
    }

    fn take_events(&mut self, now: u64, slot: usize) {
        while let Some(session) = self.demand.sessions.get_mut(&slot)
            && let Some(event) = session.provider.poll_event()
        {
            match event {
                Event::Login(request) => session.provider.accept_login(&request, "Login accepted"),
                Event::Open(asked) => self.ask(now, slot, &asked),
                Event::Reissue { asked, image } => {
                    if image && let Some(key) = session.streams.get(&asked.stream_id).cloned() {
                        self.demand.owe_again(&key, slot, asked.stream_id);
                        self.answer(&key);
                    }
                }
                Event::Close { stream_id } => self.demand.left(now, slot, stream_id),
                // Its connection ends next.
                _ => {}
            }
        }
    }
}

impl Demand {
    fn watch(&mut self, key: &Key, slot: usize, stream_id: i32) {
        let wanted = self.wanted.entry(key.clone()).or_default();
        wanted.watchers.push(Watcher { slot, stream_id, is_answered: false });
        (wanted.is_at_source, wanted.unwatched_since) = (true, None);
        if let Some(session) = self.sessions.get_mut(&slot) {
            session.streams.insert(stream_id, key.clone());
        }
    }

    /// A stream is over.
    fn left(&mut self, now: u64, slot: usize, stream_id: i32) {
        let key = self.sessions.get_mut(&slot).and_then(|session| session.streams.remove(&stream_id));
        // A stream that was refused, or an item that is over, is left once more by its client.
        let Some(key) = key else { return };
        let Some(wanted) = self.wanted.get_mut(&key) else { return };
        wanted.watchers.retain(|watcher| (watcher.slot, watcher.stream_id) != (slot, stream_id));
        if !wanted.watchers.is_empty() {
            return;
        }
        if wanted.is_at_source {
            wanted.unwatched_since = Some(now);
        } else {
            self.wanted.remove(&key);
        }
    }

    /// The source has the item no more. One of which nothing is due, or that nobody watches, is forgotten.
    fn ended_at_source(&mut self, key: &Key, is_due: bool) {
        // Nobody has asked for the item since it was closed there.
        let Some(wanted) = self.wanted.get_mut(key) else { return };
        wanted.is_at_source = false;
        if wanted.watchers.is_empty() || !is_due && wanted.watchers.iter().all(|watcher| !watcher.is_answered) {
            self.wanted.remove(key);
        }
    }

    fn owe_again(&mut self, key: &Key, slot: usize, stream_id: i32) {
        let watchers = self.wanted.get_mut(key).into_iter().flat_map(|wanted| &mut wanted.watchers);
        for watcher in watchers.filter(|watcher| (watcher.slot, watcher.stream_id) == (slot, stream_id)) {
            watcher.is_answered = false;
        }
    }

    fn unanswered(&self, key: &Key) -> Vec<(usize, i32)> {
        let watchers = self.wanted.get(key).into_iter().flat_map(|wanted| &wanted.watchers);
        watchers.filter(|watcher| !watcher.is_answered).map(|it| (it.slot, it.stream_id)).collect()
    }

    fn watchers(&self, key: &Key) -> Vec<(usize, i32)> {
        let watchers = self.wanted.get(key).into_iter().flat_map(|wanted| &wanted.watchers);
        watchers.map(|it| (it.slot, it.stream_id)).collect()
    }

    /// Streams have been given something; one that was a snapshot is over with it.
    fn given(&mut self, key: &Key, to: &[(usize, i32)]) {
        let now = net::clock::now();
        if let Some(wanted) = self.wanted.get_mut(key) {
            for watcher in wanted.watchers.iter_mut().filter(|it| to.contains(&(it.slot, it.stream_id))) {
                watcher.is_answered = true;
            }
        }
        for &(slot, stream_id) in to {
            let is_over = self.sessions.get(&slot).is_some_and(|it| it.provider.stream(stream_id).is_none());
            if is_over {
                self.left(now, slot, stream_id);
            }
        }
    }

    fn image_to(&mut self, to: &[(usize, i32)], key: &Key, image: &Image, qos: Qos, lock: Option<&[u8]>) {
        for &(slot, stream_id) in to {
            let Some(session) = self.sessions.get_mut(&slot) else { continue };
            let mut parts = image.parts(RefreshMsg::new(Domain(key.domain), stream_id), IMAGE_PART);
            while !parts.is_done() {
                let mut w = Writer::new(&mut self.buf);
                if let Err(error) = parts.write(&mut w) {
                    // A stream that has no image cannot go on with updates.
                    self.refuse_unwritten(to, key, error);
                    return;
                }
                let Ok(Msg::Refresh(refresh)) = Msg::decode(w.written()) else { unreachable!("a refresh was written") };
                let perm_data = lock.or(refresh.perm_data);
                session.provider.refresh(&RefreshMsg { qos: Some(qos), perm_data, key: None, stream_id, ..refresh });
            }
        }
        self.given(key, to);
    }

    /// Tells that an item is there, and its data not yet: an image of what costs no fee, with the lock of the source's.
    fn announce_to(&mut self, to: &[(usize, i32)], key: &Key, image: &Image, delay: u64) {
        let mut w = Writer::new(&mut self.buf);
        let mut parts = image.parts(RefreshMsg::new(Domain(key.domain), 0), IMAGE_PART);
        if let Err(error) = parts.write(&mut w) {
            self.refuse_unwritten(to, key, error);
            return;
        }
        let Ok(Msg::Refresh(refresh)) = Msg::decode(w.written()) else { unreachable!("a refresh was written") };
        let mut body = vec![0; refresh.body.len() + 16];
        let mut out = Writer::new(&mut body);
        let container = match refresh.container {
            DataType::FIELD_LIST if free_fields(refresh.body, self.fee_fields.as_ref(), &mut out).is_ok() => {
                DataType::FIELD_LIST
            }
            _ => DataType::NO_DATA,
        };
        let text = format!("Data of this item comes {} s late, and is not due yet", delay / SECOND);
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, &text);
        let told = RefreshMsg {
            flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE,
            qos: Some(quality(delay)),
            state,
            perm_data: refresh.perm_data,
            container,
            body: if container == DataType::FIELD_LIST { out.written() } else { &[] },
            ..RefreshMsg::new(Domain(key.domain), 0)
        };
        for &(slot, stream_id) in to {
            if let Some(session) = self.sessions.get_mut(&slot) {
                session.provider.refresh(&RefreshMsg { stream_id, ..told.clone() });
            }
        }
        self.given(key, to);
    }

    fn refuse(&mut self, slot: usize, stream_id: i32, state: State<'_>) {
        if let Some(session) = self.sessions.get_mut(&slot) {
            session.provider.status(stream_id, state);
            session.streams.remove(&stream_id);
        }
    }

    /// An image that no message has room for is told to those who wait for it, and to the operator.
    fn refuse_unwritten(&mut self, to: &[(usize, i32)], key: &Key, error: EncodeError) {
        tracing::error!("delay: the image of {} cannot be written: {error}", key.name);
        let text = "The image of this item cannot be written";
        for &(slot, stream_id) in to {
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::ERROR, text);
            self.left(net::clock::now(), slot, stream_id);
            self.refuse(slot, stream_id, state);
        }
    }

    /// Tells those who have had nothing that there is no such item.
    fn refuse_unanswered(&mut self, key: &Key, state: State<'_>) {
        for (slot, stream_id) in self.unanswered(key) {
            self.refuse(slot, stream_id, state);
        }
        if let Some(wanted) = self.wanted.get_mut(key) {
            wanted.watchers.retain(|watcher| watcher.is_answered);
        }
    }

    fn send(&mut self, now: u64, io: &mut RsslIo) {
        for session in self.sessions.values_mut() {
            let backlog = io.send(now, session.conn, |packer| {
                while let Some(msg) = session.provider.poll_transmit() {
                    packer.push(msg, None);
                }
            });
            if backlog.is_some_and(|bytes| bytes > BACKLOG_MAX) {
                io.close(session.conn, "it does not read what it asked for", Close::Reset);
            }
        }
    }
}

impl Output for Demand {
    fn image(&mut self, key: &Key, image: &Image, qos: Qos, lock: Option<&[u8]>) {
        let to = self.watchers(key);
        self.published += to.len() as u64;
        if !to.is_empty() {
            self.image_to(&to, key, image, qos, lock);
        }
    }

    fn update(&mut self, key: &Key, update: &UpdateMsg<'_>) {
        // The journal plays what was written down of items, also of those that nobody has asked for since: here and in `state`.
        let Some(wanted) = self.wanted.get(key) else { return };
        self.published += wanted.watchers.len() as u64;
        for &Watcher { slot, stream_id, .. } in &wanted.watchers {
            if let Some(session) = self.sessions.get_mut(&slot) {
                session.provider.update(&UpdateMsg { key: None, stream_id, ..update.clone() });
            }
        }
    }

    fn state(&mut self, key: &Key, state: State<'_>) {
        let Some(wanted) = self.wanted.get(key) else { return };
        // At this time it was over, and is asked for again since: its next image is on the way.
        let is_to_come = wanted.is_at_source && state.stream.is_final();
        let shown =
            if is_to_come { State { stream: StreamState::OPEN, data: DataState::SUSPECT, ..state } } else { state };
        let to = self.watchers(key);
        self.published += to.len() as u64;
        for (slot, stream_id) in to {
            if shown.stream.is_final() {
                self.refuse(slot, stream_id, shown);
            } else if let Some(session) = self.sessions.get_mut(&slot) {
                session.provider.status(stream_id, shown);
            }
        }
        if shown.stream.is_final() {
            self.wanted.remove(key);
        }
    }
}

impl Handler for OnDemand {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        if !self.delayed.opened(now, conn) {
            let provider = Provider::new(Arc::clone(&self.demand.provider));
            let session = Session { conn, provider, streams: HashMap::new() };
            self.demand.sessions.insert(conn.slot(), session);
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if self.delayed.message(now, conn, msg) {
            return self.take_arrivals();
        }
        // A connection that was closed in this turn may still be reported: nothing is owed for it, here and in `closed`.
        let Some(session) = self.demand.sessions.get_mut(&conn.slot()).filter(|it| it.conn == conn) else { return };
        if let Some(Upstream::Post(post)) = session.provider.handle_message(msg) {
            let text = "Nobody can post to what was said long ago";
            session.provider.acknowledge(&post, Some(NakCode::DENIED_BY_SRC), text);
        }
        self.take_events(now, conn.slot());
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.delayed.closed(now, conn, ended) {
            return self.take_arrivals();
        }
        let Some(session) = self.demand.sessions.get_mut(&conn.slot()).filter(|it| it.conn == conn) else { return };
        session.provider.handle_disconnected();
        self.take_events(now, conn.slot());
        self.demand.sessions.remove(&conn.slot());
    }

    fn is_known(&self, conn: ConnId) -> bool {
        let session = self.demand.sessions.get(&conn.slot()).filter(|it| it.conn == conn);
        session.is_none_or(|session| session.provider.is_logged_in())
    }
}

/// Writes a field list of the fields that cost no fee: all but `fee_fields`, none if that does not say which do.
fn free_fields(body: &[u8], fee_fields: Option<&HashSet<i16>>, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let mut out = FieldListEncoder::begin(w)?;
    let list = FieldList::decode(body, &SetScope::NONE).ok();
    if let (Some(list), Some(fee_fields)) = (list, fee_fields) {
        // An image has standard entries; what a set would define cannot be copied as one, and is kept back.
        let free =
            |entry: &rwf::container::FieldEntry<'_>| entry.enc == DataType::UNKNOWN && !fee_fields.contains(&entry.fid);
        for entry in list.entries().flatten().filter(free) {
            out.raw(entry.fid, entry.data)?;
        }
    }
    out.finish()
}

fn directory_of(config: &OnDemandConfig, rules: &Rules) -> Service {
    let mut service = Service::new(SERVICE_ID, Action::Add);
    service.info = Some(Part::Set(Info {
        name: config.published_as.clone(),
        capabilities: config.domains.iter().map(|domain| Domain(*domain)).collect(),
        dictionaries_used: vec![dictionary::FIELDS.to_owned(), dictionary::ENUMS.to_owned()],
        qos: rules.delays().into_iter().map(quality).collect(),
        ..Info::default()
    }));
    service.state = Some(Part::Set(ServiceState::new(true)));
    service
}
