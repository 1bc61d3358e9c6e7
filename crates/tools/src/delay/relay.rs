//! The consumer of a service, its journal, and the publisher of the same later.

use super::alive::Alive;
use super::player::{Play, Player};
use super::recorder::{Recorder, RecorderConfig};
use super::rules::Rules;
use super::{Args, Key, SECOND, former, wall_clock};
use crate::places::Places;
use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemId, ItemRequest};
use omm::publisher::{self, Publisher, PublisherConfig, StreamId};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed};
use record::{Clocks, Folder};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::image::Image;
use rwf::msg::{Domain, Msg, MsgClass, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::{dictionary, login};
use rwf::wire::Writer;
use rwf::{Qos, Rate, State, Timeliness};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;

/// Payload in a part of an image, bytes.
const IMAGE_PART: usize = 30_000;
/// Room for a message, bytes.
const ROOM: usize = 128_000;
/// Records that one turn plays of each delay, so that both connections have their turns.
const RECORDS: usize = 20_000;
/// Messages survive the process, and can be played, so long after they were heard, nanoseconds.
const SYNC: u64 = SECOND / 20;

/// The output.
struct Output {
    service_id: u16,
    publisher: Client<Publisher, Places>,
    streams: BTreeMap<Key, StreamId>,
    buf: Vec<u8>,
}

pub(super) struct Relay {
    consumer: Client<Consumer, Places>,
    keys: HashMap<ItemId, Key>,
    journal: PathBuf,
    recorder: Recorder<Folder>,
    alive: Alive,
    /// By their delays.
    players: Vec<(u64, Player<Folder>)>,
    /// Records that went before they were played, of all players.
    removed: u64,
    output: Output,
    /// The images are to go out, on a new connection.
    begin: bool,
    /// Items whose lock is another one now.
    relocked: Vec<Key>,
    sync_at: u64,
    alive_at: u64,
}

impl Relay {
    pub(super) fn new(args: &Args, names: &[String], (from, to): (Places, Places)) -> io::Result<Self> {
        let rules = Rules { delay: args.delay.saturating_mul(SECOND), rules: args.rules.clone() };
        let delays = rules.delays();
        let longest = delays.last().copied().unwrap_or_default();
        let one = || ConnectionList::new(vec![Server::new("", 0)]);
        let mut config = ConsumerConfig::new(one(), &args.user);
        config.login.attributes.application_name = Some("delay".to_owned());
        let login = config.login.clone();
        config.dictionary = false;
        let mut consumer = Consumer::new(config);
        let mut keys = HashMap::new();
        let wanted = args.domains.iter().flat_map(|domain| names.iter().map(move |name| (*domain, name)));
        for (domain, name) in wanted {
            let request = ItemRequest { domain: Domain(domain), ..ItemRequest::new(&args.service, name) };
            let item = consumer.open(0, request).map_err(io::Error::other)?;
            keys.insert(item, Key { domain, name: name.as_str().into() });
        }
        let services = vec![service(args, &delays)];
        let login = login::Request { role: Some(login::ROLE_PROVIDER), ..login };
        let publisher =
            Publisher::new(PublisherConfig { connections: one(), login, services, login_timeout_ns: 45 * SECOND });
        let config =
            RecorderConfig { segment: args.file_seconds * SECOND, keep: longest, bytes_max: args.disk_limit << 20 };
        former::refuse(&args.journal)?;
        // The folder is ours before anything in it is believed.
        let folder = Folder::to_write(&args.journal).map_err(io::Error::other)?;
        let alive = Alive::new(&args.journal);
        let (recorder, damage) =
            Recorder::new(folder, &args.service, config, alive.read()?).map_err(io::Error::other)?;
        for found in damage {
            tell(&format!("the journal: {found}"));
        }
        let players = delays.into_iter().map(|delay| (delay, Player::new(delay, rules.clone()))).collect();
        Ok(Self {
            consumer: Client::new(consumer, from),
            keys,
            journal: args.journal.clone(),
            recorder,
            alive,
            players,
            removed: 0,
            output: Output {
                service_id: args.service_id,
                publisher: Client::new(publisher, to),
                streams: BTreeMap::new(),
                buf: vec![0; ROOM],
            },
            begin: false,
            relocked: Vec::new(),
            sync_at: 0,
            alive_at: 0,
        })
    }

    /// Connects, plays what is due, keeps the journal in its bounds, sends.
    ///
    /// # Errors
    /// The journal cannot be read or written: what is published would not be true any more.
    pub(super) fn work(&mut self, now: u64, wall: u64, io: &mut RsslIo) -> io::Result<()> {
        if let Err(error) = self.consumer.connect(now, io) {
            tell(&format!("{}: {error}; trying again", self.consumer.server()));
        }
        self.take_source_events();
        if let Err(error) = self.output.publisher.connect(now, io) {
            tell(&format!("{}: {error}; trying again", self.output.publisher.server()));
        }
        self.take_target_events();
        if now >= self.sync_at {
            self.recorder.sync(Clocks { wall, mono: now, source: None }).map_err(io::Error::other)?;
            self.sync_at = now + SYNC;
            if now >= self.alive_at {
                self.alive.write(wall)?;
                self.alive_at = now + SECOND;
            }
        }
        self.play(wall)?;
        self.consumer.send(now, io);
        self.output.publisher.send(now, io);
        Ok(())
    }

    fn play(&mut self, wall: u64) -> io::Result<()> {
        let Self { players, journal, output, recorder, begin, relocked, .. } = self;
        for (delay, player) in players.iter_mut() {
            let qos = quality(*delay);
            let played = player.advance(wall, RECORDS, &|| Folder::to_read(journal), &mut |key, play| match play {
                Play::Image(image) => output.image(key, image, qos, recorder.lock(key)),
                Play::Update(update) => output.update(key, update),
                Play::State(state) => output.state(key, state),
            });
            played.map_err(io::Error::other)?;
            if *begin {
                for (key, image) in player.items() {
                    output.image(key, image, qos, recorder.lock(key));
                }
            }
            for key in relocked.iter() {
                if let Some(image) = player.image(key).filter(|image| image.is_whole()) {
                    output.image(key, image, qos, recorder.lock(key));
                }
            }
        }
        *begin = false;
        relocked.clear();
        recorder.played(players.iter().map(|(_, player)| player.played()).min().unwrap_or_default());
        let removed = self.players.iter().map(|(_, player)| player.removed()).sum();
        if removed > self.removed {
            let count = removed - self.removed;
            eprintln!("the journal is full (--disk-limit): {count} messages went before they were published");
            self.removed = removed;
        }
        Ok(())
    }

    /// Writes down what came of an item. A change of its lock counts at once, not when it is due.
    fn record(&mut self, key: &Key, message: &[u8]) {
        let had = self.recorder.lock(key).map(<[u8]>::to_vec);
        let clocks = Clocks { wall: wall_clock(), mono: net::clock::now(), source: None };
        self.recorder.message(clocks, key, message);
        let has_lock = matches!(rwf::peek::class(message), Some(MsgClass::REFRESH | MsgClass::STATUS));
        if has_lock && self.recorder.lock(key) != had.as_deref() {
            self.relocked.push(key.clone());
        }
    }

    fn take_source_events(&mut self) {
        while let Some(event) = self.consumer.role.poll_event() {
            match event {
                Event::ItemState { item, state } => {
                    let Some(key) = self.keys.get(&item).cloned() else { continue };
                    let state = Some(state.as_state());
                    let status = StatusMsg { state, ..StatusMsg::new(Domain(key.domain), 0) };
                    let mut buf = [0; 1024];
                    let mut w = Writer::new(&mut buf);
                    if status.encode(&mut w).is_ok() {
                        let message = w.into_written().to_vec();
                        self.record(&key, &message);
                    }
                }
                Event::LoginRefused(state) => {
                    tell(&format!("the login at {} is refused: {}", self.consumer.server(), state.as_state()));
                }
                Event::ServiceUp { name, .. } => tell(&format!("{name} is up at {}", self.consumer.server())),
                Event::ServiceDown { name, .. } => tell(&format!("{name} is down at {}", self.consumer.server())),
                _ => {}
            }
        }
    }

    fn take_target_events(&mut self) {
        while let Some(event) = self.output.publisher.role.poll_event() {
            match event {
                publisher::Event::Ready(_) => {
                    eprintln!("published at {}", self.output.publisher.server());
                    self.begin = true;
                }
                publisher::Event::Lost => {
                    eprintln!("{} is lost: published again when it is back", self.output.publisher.server());
                }
                publisher::Event::LoginRefused(state) => {
                    tell(&format!("the login at {} is refused: {}", self.output.publisher.server(), state.as_state()));
                }
                _ => {}
            }
        }
    }
}

impl Output {
    fn stream(&mut self, key: &Key) -> Option<StreamId> {
        if let Some(stream) = self.streams.get(key) {
            return Some(*stream);
        }
        let stream = self.publisher.role.open(Domain(key.domain), self.service_id, key.name.clone())?;
        self.streams.insert(key.clone(), stream);
        Some(stream)
    }

    fn image(&mut self, key: &Key, image: &Image, qos: Qos, lock: Option<&[u8]>) {
        let Some(stream) = self.stream(key) else { return };
        let mut parts = image.parts(RefreshMsg::new(Domain(key.domain), 0), IMAGE_PART);
        while !parts.is_done() {
            let mut w = Writer::new(&mut self.buf);
            if parts.write(&mut w).is_err() {
                return;
            }
            if let Ok(Msg::Refresh(refresh)) = Msg::decode(w.written()) {
                let perm_data = lock.or(refresh.perm_data);
                self.publisher.role.refresh(stream, &RefreshMsg { qos: Some(qos), perm_data, ..refresh });
            }
        }
    }

    fn update(&mut self, key: &Key, update: &UpdateMsg<'_>) {
        if let Some(&stream) = self.streams.get(key) {
            self.publisher.role.update(stream, &UpdateMsg { key: None, ..update.clone() });
        }
    }

    fn state(&mut self, key: &Key, state: State<'_>) {
        let Some(&stream) = self.streams.get(key) else { return };
        self.publisher.role.status(stream, state);
        if state.stream.is_final() {
            self.streams.remove(key);
        }
    }
}

impl Handler for Relay {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        if !self.consumer.opened(now, conn) {
            self.output.publisher.opened(now, conn);
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if self.consumer.has(conn) {
            let item = self.consumer.role.handle_message(now, msg).map(|given| given.item);
            // An item's states come before its message where both do.
            self.take_source_events();
            let class = rwf::peek::class(msg);
            let is_data = matches!(class, Some(MsgClass::REFRESH | MsgClass::UPDATE | MsgClass::STATUS));
            if let Some(key) = item.filter(|_| is_data).and_then(|item| self.keys.get(&item).cloned()) {
                self.record(&key, msg);
            }
        } else if self.output.publisher.has(conn) {
            // Nobody can post to what was said long ago.
            self.output.publisher.role.handle_message(now, msg);
            self.take_target_events();
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        match self.consumer.closed(now, conn, ended) {
            Closed::Lost => self.take_source_events(),
            Closed::Redialled => {}
            Closed::OfAnother => {
                if self.output.publisher.closed(now, conn, ended) == Closed::Lost {
                    self.take_target_events();
                }
            }
        }
    }
}

/// A line for the user, with texts that servers have chosen.
fn tell(line: &str) {
    eprintln!("{}", net::plain::escaped(line));
}

/// The quality of data that is so late. The wire has room for 18 hours.
fn quality(delay: u64) -> Qos {
    let late = |timeliness| Qos::new(timeliness, Rate::TICK_BY_TICK);
    match u16::try_from(delay / SECOND) {
        Ok(time_info) => Qos { time_info, ..late(Timeliness::DELAYED) },
        Err(_) => late(Timeliness::DELAYED_UNKNOWN),
    }
}

fn service(args: &Args, delays: &[u64]) -> Service {
    let mut service = Service::new(args.service_id, Action::Add);
    service.info = Some(Part::Set(Info {
        name: args.published_as.clone(),
        capabilities: args.domains.iter().map(|domain| Domain(*domain)).collect(),
        dictionaries_used: vec![dictionary::FIELDS.to_owned(), dictionary::ENUMS.to_owned()],
        qos: delays.iter().map(|delay| quality(*delay)).collect(),
        ..Info::default()
    }));
    service.state = Some(Part::Set(ServiceState::new(true)));
    service
}
