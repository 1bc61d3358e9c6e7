//! The consumer of a service whose messages go to a recorder.

use crate::source_time::SourceTime;
use names::Pattern;
use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemId, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed, Reach};
use record::{Clock, Clocks, Handover, Item, Kind, RecorderStatus};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg, MsgClass, StatusMsg};
use rwf::rdm::dictionary::{ENUMS, FIELDS};
use rwf::rdm::directory::{Refresh, Service, filter};
use rwf::wire::Writer;
use rwf::{Map, MapAction, SetScope, State};
use std::collections::{HashMap, HashSet, VecDeque};

/// Stream on which a consumer hears the directory.
const DIRECTORY: i32 = 2;
/// Room for a directory of our own making, bytes.
const ROOM: usize = 1 << 20;
/// Items of which a turn asks for images after messages were lost.
const ANEW: usize = 1_000;

/// The items to record.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Name of the service.
    pub service: String,
    /// Names of items.
    pub names: Vec<String>,
    /// Symbol lists whose names are recorded, now and when they come.
    pub lists: Vec<String>,
    /// Of the lists' names; none: all.
    pub patterns: Vec<Pattern>,
    /// Domains of the items, by number.
    pub domains: Vec<u8>,
}

/// More items are named than may be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} items are more than --items-max (record.items_max) allows, {most}")]
pub struct TooMany {
    /// Items that are named.
    pub given: usize,
    /// Items that may be.
    pub most: usize,
}

/// Takes lines for the user.
pub type LogLine = Box<dyn FnMut(&str) + Send>;

/// How much is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Items, over all domains and with symbol lists.
    pub items: usize,
    /// Generic messages and acks, too.
    pub generic: bool,
}

/// Progress of a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Items that were asked for.
    pub items: usize,
    /// Items that have had an image.
    pub open: usize,
    /// Whether the service is up.
    pub is_up: bool,
    /// Connections that were lost.
    pub lost: u64,
}

/// An item that is recorded.
#[derive(Clone, Copy)]
struct Recorded {
    id: record::ItemId,
    domain: u8,
    has_image: bool,
    is_list: bool,
}

/// Watches a service, and hands over what comes.
pub struct Subscriber<R> {
    client: Client<Consumer, R>,
    service: String,
    domains: Vec<u8>,
    patterns: Vec<Pattern>,
    limits: Limits,
    items: HashMap<ItemId, Recorded>,
    /// Names of lists that were asked for, so that none is twice.
    listed: HashSet<(u8, Box<str>)>,
    open: usize,
    out: Out,
    /// Said once: the service is not there; there are too many names.
    said: (bool, bool),
    is_up: bool,
    connections_lost: u64,
    tell: LogLine,
}

/// The way to the recorder.
struct Out {
    handover: Handover,
    clock: Clock,
    /// When the turn has begun, and the clocks of all that came in it: to read them for each message takes as long as to hand it over.
    turn: (u64, Clocks),
    times: SourceTime,
    of_service: record::ItemId,
    fields: record::ItemId,
    enums: record::ItemId,
    /// The dictionaries as they came, for segments to come: a segment is to be read by itself.
    dictionaries: Vec<(record::ItemId, Vec<u8>)>,
    segments: u64,
    /// Failures of the disk that were over.
    had_failures: u64,
    /// Messages were lost: items whose images are to be asked for when there is room again.
    lost: bool,
    anew: VecDeque<ItemId>,
}

impl Out {
    fn new(service: &str, mut handover: Handover) -> Self {
        let mut item = |domain: Domain, name: &str| {
            handover.item(&Item { service: service.into(), domain: domain.0, name: name.into() })
        };
        let of_service = item(Domain::SOURCE, "");
        let (fields, enums) = (item(Domain::DICTIONARY, FIELDS), item(Domain::DICTIONARY, ENUMS));
        let mut clock = Clock::start();
        Self {
            handover,
            turn: (0, clock.now()),
            clock,
            times: SourceTime::default(),
            of_service,
            fields,
            enums,
            dictionaries: Vec::new(),
            segments: 1,
            had_failures: 0,
            lost: false,
            anew: VecDeque::new(),
        }
    }

    /// Messages that are put from here on came in the turn that began at `now`.
    #[inline]
    fn begin_turn(&mut self, now: u64) {
        if self.turn.0 != now {
            self.turn = (now, self.clock.now());
        }
    }

    fn put(&mut self, kind: Kind, item: record::ItemId, msg: &[u8]) {
        let clocks = self.turn.1;
        let source = if kind == Kind::Update { self.times.read(msg, clocks.wall) } else { None };
        self.lost |= !self.handover.message(kind, Some(item), Clocks { source, ..clocks }, msg);
    }

    /// A part of a dictionary, by what its key or stream says.
    fn dictionary(&mut self, msg: &[u8]) {
        let Ok(Msg::Refresh(refresh)) = Msg::decode(msg) else { return };
        let name = refresh.key.as_ref().and_then(|key| key.name).unwrap_or_default();
        // Parts behind the first need not repeat the key.
        let is_fields = if name.is_empty() { refresh.stream_id == DIRECTORY + 1 } else { name == FIELDS.as_bytes() };
        let item = if is_fields { self.fields } else { self.enums };
        self.put(Kind::Dictionary, item, msg);
        self.dictionaries.push((item, msg.to_vec()));
    }

    /// Dictionaries and directory once more.
    fn service(&mut self, services: &mut dyn Iterator<Item = Service>) {
        for (item, msg) in std::mem::take(&mut self.dictionaries) {
            self.put(Kind::Dictionary, item, &msg);
            self.dictionaries.push((item, msg));
        }
        let refresh = Refresh {
            stream_id: DIRECTORY,
            solicited: false,
            complete: true,
            clear_cache: true,
            sequence: None,
            state: State::OPEN_OK.into(),
            service_id: None,
            filter: Some(filter::INFO | filter::STATE | filter::GROUP | filter::LOAD),
            services: services.collect(),
        };
        let mut buf = vec![0; ROOM];
        let mut w = Writer::new(&mut buf);
        if refresh.encode(&mut w).is_ok() {
            self.put(Kind::Directory, self.of_service, w.written());
        }
    }
}

impl<R: Reach> Subscriber<R> {
    /// A consumer that is not connected yet; [`Subscriber::work`] connects it. It logs in as `user`, and `tell` takes lines about what it
    /// meets, with texts that servers have chosen escaped.
    ///
    /// # Errors
    /// More items are named than `limits` allows.
    pub fn new(
        server: R,
        user: &str,
        wanted: &Wanted,
        limits: Limits,
        handover: Handover,
        tell: LogLine,
    ) -> Result<Self, TooMany> {
        let mut config = ConsumerConfig::new(ConnectionList::new(vec![Server::new("", 0)]), user);
        config.login.attributes.application_name = Some("record".to_owned());
        let mut subscriber = Self {
            client: Client::new(Consumer::new(config), server),
            service: wanted.service.clone(),
            domains: wanted.domains.clone(),
            patterns: wanted.patterns.clone(),
            limits,
            items: HashMap::new(),
            listed: HashSet::new(),
            open: 0,
            out: Out::new(&wanted.service, handover),
            said: (false, false),
            is_up: false,
            connections_lost: 0,
            tell,
        };
        let given = wanted.names.len() * wanted.domains.len() + wanted.lists.len();
        if given > limits.items {
            return Err(TooMany { given, most: limits.items });
        }
        for list in &wanted.lists {
            subscriber.open(Domain::SYMBOL_LIST.0, list, true);
        }
        for name in &wanted.names {
            subscriber.open_of_all_domains(name);
        }
        Ok(subscriber)
    }

    fn open_of_all_domains(&mut self, name: &str) {
        for at in 0..self.domains.len() {
            self.open(self.domains[at], name, false);
        }
    }

    fn open(&mut self, domain: u8, name: &str, is_list: bool) {
        if self.listed.contains(&(domain, name.into())) {
            return;
        }
        if self.items.len() >= self.limits.items {
            if !std::mem::replace(&mut self.said.1, true) {
                let most = self.limits.items;
                self.tell(&format!("there are more names than may be recorded ({most}): the rest is left out"));
            }
            return;
        }
        let request = ItemRequest { domain: Domain(domain), ..ItemRequest::new(&self.service, name) };
        let Ok(item) = self.client.role.open(net::clock::now(), request) else { return };
        let id = self.out.handover.item(&Item { service: self.service.as_str().into(), domain, name: name.into() });
        self.items.insert(item, Recorded { id, domain, has_image: false, is_list });
        self.listed.insert((domain, name.into()));
    }

    /// Connects, asks anew for what was lost, sends, and gives the recorder what was heard in this turn.
    pub fn work(&mut self, now: u64, io: &mut RsslIo) {
        self.out.begin_turn(now);
        if let Err(error) = self.client.connect(now, io) {
            self.tell(&format!("{}: {error}; trying again", self.client.server()));
        }
        self.take_events();
        self.recover();
        self.client.send(now, io);
        self.out.handover.flush();
    }

    /// What the recorder had no room for leaves images that are not right any more: they are asked for again, some each turn, once it has
    /// caught up. A server gives an image with a request for another stream.
    fn recover(&mut self) {
        if !self.out.handover.has_room() {
            return;
        }
        if std::mem::take(&mut self.out.lost) {
            self.out.anew = self.items.keys().copied().collect();
            self.out.anew.make_contiguous().sort_unstable();
        }
        let now = net::clock::now();
        let count = self.out.anew.len().min(ANEW);
        for item in self.out.anew.drain(..count).collect::<Vec<_>>() {
            let Some(recorded) = self.items.remove(&item) else { continue };
            let Some(request) = self.client.role.request(item).cloned() else { continue };
            self.client.role.close(now, item);
            if let Ok(again) = self.client.role.open(now, request) {
                self.items.insert(again, recorded);
            }
        }
    }

    /// How the recorder is: a new segment is to have dictionaries and directory, too, and so has what comes behind a failure of the disk, which
    /// may have lost them.
    pub fn recorder_is(&mut self, status: &RecorderStatus) {
        let is_new = status.counters.segments > self.out.segments;
        self.out.segments = self.out.segments.max(status.counters.segments);
        let has_recovered = self.out.had_failures != status.counters.failures && status.trouble.is_none();
        if status.trouble.is_none() {
            self.out.had_failures = status.counters.failures;
        }
        if is_new || has_recovered {
            self.out.service(&mut self.client.role.services().cloned());
        }
    }

    /// Logs out.
    pub fn end(&mut self, now: u64, io: &mut RsslIo) {
        self.client.role.shut_down();
        self.client.send(now, io);
    }

    /// The progress so far.
    pub fn progress(&self) -> Progress {
        Progress { items: self.items.len(), open: self.open, is_up: self.is_up, lost: self.connections_lost }
    }

    /// A line for the user.
    fn tell(&mut self, line: &str) {
        (self.tell)(&net::plain::escaped(line));
    }

    fn take_events(&mut self) {
        while let Some(event) = self.client.role.poll_event() {
            match event {
                Event::ItemState { item, state } => {
                    let Some(&Recorded { id, domain, .. }) = self.items.get(&item) else { continue };
                    let status =
                        StatusMsg { state: Some(state.as_state()), ..StatusMsg::new(Domain(domain), item.stream_id()) };
                    let mut buf = [0; 1024];
                    let mut w = Writer::new(&mut buf);
                    if status.encode(&mut w).is_ok() {
                        self.out.put(Kind::Status, id, w.written());
                    }
                }
                Event::Dictionary(dictionary) => self.out.times = SourceTime::of(&dictionary),
                Event::DictionaryFailed(reason) => self.tell(&format!("no dictionary: {reason}")),
                Event::LoginRefused(state) => {
                    self.tell(&format!("the login at {} is refused: {}", self.client.server(), state.as_state()));
                }
                Event::ServiceUp { name, .. } if name == self.service => {
                    self.is_up = true;
                    self.tell(&format!("{name} is up at {}", self.client.server()));
                }
                Event::ServiceDown { name, .. } if name == self.service => {
                    self.is_up = false;
                    self.tell(&format!("{name} is down at {}", self.client.server()));
                }
                _ => {}
            }
        }
    }

    /// Says which services there are, once, if the wanted one is not there.
    fn look_for_service(&mut self) {
        let names: Vec<&str> = self.client.role.services().filter_map(Service::name).collect();
        if !names.is_empty() && !names.contains(&self.service.as_str()) && !std::mem::replace(&mut self.said.0, true) {
            let known = names.join(", ");
            self.tell(&format!(
                "{} has no service {}, which is waited for; there are {known}",
                self.client.server(),
                self.service
            ));
        }
    }

    /// A message of an item.
    fn item(&mut self, item: ItemId, class: MsgClass, msg: &[u8]) {
        let Some(recorded) = self.items.get_mut(&item) else { return };
        let kind = match class {
            MsgClass::REFRESH => Kind::Refresh,
            MsgClass::UPDATE => Kind::Update,
            MsgClass::STATUS => Kind::Status,
            MsgClass::GENERIC if self.limits.generic => Kind::Generic,
            MsgClass::ACK if self.limits.generic => Kind::Ack,
            _ => return,
        };
        if kind == Kind::Refresh && !std::mem::replace(&mut recorded.has_image, true) {
            self.open += 1;
        }
        let is_list = recorded.is_list;
        self.out.put(kind, recorded.id, msg);
        if is_list {
            self.list(msg);
        }
    }

    /// Opens what a symbol list names.
    fn list(&mut self, msg: &[u8]) {
        let body = rwf::peek::body(msg).unwrap_or_default();
        let Ok(map) = Map::decode(body, &SetScope::NONE) else { return };
        for entry in map.entries().flatten().filter(|entry| entry.action != MapAction::DELETE) {
            let Ok(name) = std::str::from_utf8(entry.key) else { continue };
            if self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(name)) {
                self.open_of_all_domains(name);
            }
        }
    }
}

impl<R: Reach> Handler for Subscriber<R> {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.client.opened(now, conn);
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if !self.client.has(conn) {
            return;
        }
        self.out.begin_turn(now);
        let item = self.client.role.handle_message(now, msg).map(|given| given.item);
        // An item's states come before its message where both do.
        self.take_events();
        match (item, rwf::peek::class(msg), rwf::peek::domain(msg)) {
            (Some(item), Some(class), _) => self.item(item, class, msg),
            (None, _, Some(Domain::SOURCE)) => {
                self.out.put(Kind::Directory, self.out.of_service, msg);
                self.look_for_service();
            }
            (None, _, Some(Domain::DICTIONARY)) => self.out.dictionary(msg),
            _ => {}
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        let server = self.client.server().to_string();
        self.out.begin_turn(now);
        if self.client.closed(now, conn, ended) == Closed::Lost {
            self.tell(&format!("{server}: {}; trying again", ended.why));
            self.connections_lost += 1;
            self.is_up = false;
            self.take_events();
        }
    }
}
