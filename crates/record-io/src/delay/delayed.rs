//! A service that is consumed and written down, and what of it is due.

use super::alive::Alive;
use super::player::{Play, Player};
use super::recorder::{Recorder, RecorderConfig};
use super::rules::Rules;
use super::{Key, SECOND, Standing, former};
use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemId, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed, Reach};
use record::{Clocks, Folder, Recording};
use rssl_io::{Ended, RsslIo};
use rwf::image::Image;
use rwf::msg::{Domain, Msg, MsgClass, RefreshFlags, StatusMsg, UpdateMsg};
use rwf::rdm::state::StateBuf;
use rwf::wire::Writer;
use rwf::{Qos, Rate, State, Timeliness};
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// Records that one turn plays of each delay, so that connections have their turns.
const RECORDS: usize = 20_000;
/// Messages survive the process, and can be played, so long after they came, nanoseconds.
const SYNC: u64 = SECOND / 20;

/// The settings of a delayed service.
#[derive(Clone, Debug)]
pub struct DelayedConfig {
    /// The service that is delayed.
    pub service: String,
    /// User name of the login at its server.
    pub user: String,
    /// How late its items are.
    pub rules: Rules,
    /// Folder of the journal.
    pub journal: PathBuf,
    /// How long a segment of it is, nanoseconds.
    pub segment: u64,
    /// Most bytes of all segments together, but for the newest.
    pub bytes_max: u64,
    /// Takes lines for the user.
    pub tell: fn(&str),
}

/// The publisher of a delayed service, as it is given what is due.
pub trait Output {
    /// The whole image of an item, with the lock that its source has now, if that is known.
    fn image(&mut self, key: &Key, image: &Image, qos: Qos, lock: Option<&[u8]>);
    /// An update of it.
    fn update(&mut self, key: &Key, update: &UpdateMsg<'_>);
    /// Its state.
    fn state(&mut self, key: &Key, state: State<'_>);
}

/// The source's last word on an item, whenever that is due.
#[derive(Clone, Debug)]
pub(super) enum Arrival {
    /// The whole image.
    Image(Key),
    /// The item is no more, for this reason.
    End(Key, StateBuf),
}

/// A service as it is consumed, its journal, and the players of that, one for each delay.
pub struct Delayed<R> {
    consumer: Client<Consumer, R>,
    service: String,
    /// Items that are open, or asked for, at the source.
    keys: HashMap<ItemId, Key>,
    items: HashMap<Key, ItemId>,
    journal: PathBuf,
    recorder: Recorder<Folder>,
    alive: Alive,
    rules: Rules,
    /// By their delays.
    players: Vec<(u64, Player<Folder>)>,
    /// Records that went before they were played, of all players.
    removed: u64,
    /// Items whose lock is another one now.
    relocked: Vec<Key>,
    arrivals: VecDeque<Arrival>,
    sync_at: u64,
    alive_at: u64,
    tell: fn(&str),
}

impl<R: Reach + Display> Delayed<R> {
    /// A service of which nothing is asked for yet. The journal is gone on with.
    ///
    /// # Errors
    /// The journal cannot be read or written, or another one has it.
    pub fn new(config: DelayedConfig, from: R) -> io::Result<Self> {
        let DelayedConfig { service, user, rules, journal, segment, bytes_max, tell } = config;
        let (delays, longest) = (rules.delays(), rules.longest());
        let mut consumer = ConsumerConfig::new(ConnectionList::new(vec![Server::new("", 0)]), &user);
        consumer.login.attributes.application_name = Some("delay".to_owned());
        consumer.dictionary = false;
        former::refuse(&journal)?;
        // The folder is ours before anything in it is believed.
        let folder = Folder::to_write(&journal).map_err(io::Error::other)?;
        let alive = Alive::new(&journal);
        let recorder = RecorderConfig { segment, keep: longest, bytes_max };
        let (recorder, damage) = Recorder::new(folder, &service, recorder, alive.read()?).map_err(io::Error::other)?;
        for found in damage {
            tell(&format!("the journal: {found}"));
        }
        let players = delays.into_iter().map(|delay| (delay, Player::new(delay, rules.clone()))).collect();
        Ok(Self {
            consumer: Client::new(Consumer::new(consumer), from),
            service,
            keys: HashMap::new(),
            items: HashMap::new(),
            journal,
            recorder,
            alive,
            rules,
            players,
            removed: 0,
            relocked: Vec::new(),
            arrivals: VecDeque::new(),
            sync_at: 0,
            alive_at: 0,
            tell,
        })
    }

    /// Has an item written down from now on, unless it is already.
    ///
    /// # Errors
    /// The service has too many items.
    pub(super) fn open(&mut self, now: u64, key: &Key) -> io::Result<()> {
        if self.items.contains_key(key) {
            return Ok(());
        }
        let request = ItemRequest { domain: Domain(key.domain), ..ItemRequest::new(&self.service, &*key.name) };
        let item = self.consumer.role.open(now, request).map_err(io::Error::other)?;
        self.keys.insert(item, key.clone());
        self.items.insert(key.clone(), item);
        Ok(())
    }

    /// The same of an item that is named, or was written down before: what its source says of it counts also before its first image.
    ///
    /// # Errors
    /// The service has too many items.
    pub fn open_known(&mut self, now: u64, key: &Key) -> io::Result<()> {
        self.recorder.know(key);
        self.open(now, key)
    }

    /// Writes an item down no more. At this place in time it is closed, for whoever it is published to.
    pub(super) fn close(&mut self, now: u64, key: &Key) {
        let Some(item) = self.items.remove(key) else { return };
        self.keys.remove(&item);
        self.consumer.role.close(now, item);
        let state = State::new(
            rwf::StreamState::CLOSED_RECOVER,
            rwf::DataState::SUSPECT,
            rwf::StateCode::NONE,
            "Nobody has asked for the item at this time",
        );
        self.record_state(key, state);
    }

    /// Items that were open when the journal was written to last.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) fn formerly_open(&self) -> io::Result<Vec<Key>> {
        let recording = match Recording::open(Folder::to_read(&self.journal)) {
            Ok(recording) => recording,
            Err(record::Error::Empty { .. } | record::Error::Foreign { .. } | record::Error::Head { .. }) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let player = record::Player::at(&recording, u64::MAX, &|_| true).map_err(io::Error::other)?;
        let open = player.items().iter().filter(|item| {
            let place = player.find(item);
            place.is_some_and(|place| !player.parts(place).is_empty())
        });
        Ok(open.map(|item| Key { domain: item.domain, name: item.name.clone() }).collect())
    }

    /// News of items from the source since the last call.
    pub(super) fn next_arrival(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }

    /// Forgets what the source has said: nobody waits for an answer, and what is known is said when it is due.
    pub fn forget_arrivals(&mut self) {
        self.arrivals.clear();
    }

    /// The image of an item as its source has it now, and how late it is to be published, nanoseconds.
    pub(super) fn latest(&self, key: &Key) -> Option<(&Image, u64)> {
        let image = self.recorder.image(key)?;
        Some((image, self.delay_of(key, image)))
    }

    fn delay_of(&self, key: &Key, image: &Image) -> u64 {
        let mut first = vec![0; super::ROOM];
        let mut w = Writer::new(&mut first);
        let mut parts = image.parts(rwf::msg::RefreshMsg::new(Domain(key.domain), 0), super::IMAGE_PART);
        if parts.write(&mut w).is_err() {
            return self.rules.longest();
        }
        match Msg::decode(w.written()) {
            Ok(Msg::Refresh(refresh)) => self.rules.delay_of(&key.name, &refresh),
            _ => self.rules.longest(),
        }
    }

    /// The image of an item as it is due now, with its quality and the lock that its source has now.
    pub(super) fn due(&self, key: &Key) -> Option<(&Image, Qos, Option<&[u8]>)> {
        let whole = |player: &'_ Player<Folder>| player.image(key).is_some_and(Image::is_whole);
        let (delay, player) = self.players.iter().find(|(_, player)| whole(player))?;
        Some((player.image(key)?, quality(*delay), self.recorder.lock(key)))
    }

    /// Connects to the source, and writes down what it has said.
    ///
    /// # Errors
    /// The journal cannot be written: what is published would not be true any more.
    pub fn work(&mut self, now: u64, wall: u64, io: &mut RsslIo) -> io::Result<()> {
        if let Err(error) = self.consumer.connect(now, io) {
            self.tell(&format!("{}: {error}; trying again", self.consumer.server()));
        }
        self.take_events();
        if now >= self.sync_at {
            self.recorder.sync(Clocks { wall, mono: now, source: None }).map_err(io::Error::other)?;
            self.sync_at = now + SYNC;
            if now >= self.alive_at {
                self.alive.write(wall)?;
                self.alive_at = now + SECOND;
            }
        }
        Ok(())
    }

    /// Says what is due; with `begin` all images, for an output that has nothing yet. Tells whether more is due than one turn says.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn play(&mut self, wall: u64, begin: bool, output: &mut impl Output) -> io::Result<bool> {
        let Self { players, journal, recorder, relocked, .. } = self;
        let mut is_more = false;
        for (delay, player) in players.iter_mut() {
            let qos = quality(*delay);
            let played = player.advance(wall, RECORDS, &|| Folder::to_read(journal), &mut |key, play| match play {
                Play::Image(image) => output.image(key, image, qos, recorder.lock(key)),
                Play::Update(update) => output.update(key, update),
                Play::State(state) => output.state(key, state),
            });
            is_more |= played.map_err(io::Error::other)?.is_some_and(|at| at <= wall);
            if begin {
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
        relocked.clear();
        recorder.played(players.iter().map(|(_, player)| player.played()).min().unwrap_or_default());
        let removed = self.players.iter().map(|(_, player)| player.removed()).sum();
        if removed > self.removed {
            let count = removed - self.removed;
            self.tell(&format!(
                "the journal is full (its limit in megabytes): {count} messages went before they were published"
            ));
            self.removed = removed;
        }
        Ok(is_more)
    }

    /// How the journal stands at this wall clock; of items and who watches them the publisher knows.
    pub(super) fn standing(&self, wall: u64) -> Standing {
        let oldest = self.players.iter().filter_map(|(_, player)| player.oldest()).min();
        Standing {
            is_up: true,
            written: self.recorder.written(),
            removed: self.removed,
            held_bytes: self.recorder.bytes(),
            oldest_ns: oldest.map_or(0, |at| wall.saturating_sub(at)),
            ..Standing::default()
        }
    }

    /// Sends what there is for the source. Last of all in a turn.
    pub fn send(&mut self, now: u64, io: &mut RsslIo) {
        self.consumer.send(now, io);
    }

    /// A session is established: true if it is the source's.
    pub fn opened(&mut self, now: u64, conn: ConnId) -> bool {
        self.consumer.opened(now, conn)
    }

    /// A message came: true if it is the source's.
    pub fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) -> bool {
        if !self.consumer.has(conn) {
            return false;
        }
        let item = self.consumer.role.handle_message(now, msg).map(|given| given.item);
        // An item's states come before its message where both do.
        self.take_events();
        let class = rwf::peek::class(msg);
        let is_data = matches!(class, Some(MsgClass::REFRESH | MsgClass::UPDATE | MsgClass::STATUS));
        if let Some(item) = item.filter(|_| is_data)
            && let Some(key) = self.keys.get(&item).cloned()
        {
            self.record(&key, msg);
            if class != Some(MsgClass::UPDATE) {
                self.note_arrival(item, &key, msg);
            }
        }
        true
    }

    /// A connection is over: true if it is the source's.
    pub fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) -> bool {
        let closed = self.consumer.closed(now, conn, ended);
        if closed == Closed::Lost {
            self.take_events();
        }
        closed != Closed::OfAnother
    }

    fn note_arrival(&mut self, item: ItemId, key: &Key, msg: &[u8]) {
        let Ok(msg) = Msg::decode(msg) else { return };
        if self.consumer.role.request(item).is_none() {
            if let Some(state) = msg.state() {
                self.end(item, key, (*state).into());
            }
        } else if matches!(&msg, Msg::Refresh(refresh) if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE)) {
            self.arrivals.push_back(Arrival::Image(key.clone()));
        }
    }

    /// An item is no more at the source.
    fn end(&mut self, item: ItemId, key: &Key, state: StateBuf) {
        self.keys.remove(&item);
        if self.items.get(key) == Some(&item) {
            self.items.remove(key);
            self.arrivals.push_back(Arrival::End(key.clone(), state));
        }
    }

    /// Writes down what came of an item. A change of its lock counts at once, not when it is due.
    fn record(&mut self, key: &Key, message: &[u8]) {
        let class = rwf::peek::class(message);
        if class == Some(MsgClass::STATUS) && !self.recorder.knows(key) {
            // Of an item that never had an image there is nothing to be said later: names that are no items take no room.
            return;
        }
        let had = self.recorder.lock(key).map(<[u8]>::to_vec);
        let clocks = Clocks { wall: net::clock::wall(), mono: net::clock::now(), source: None };
        self.recorder.message(clocks, key, message);
        let has_lock = matches!(class, Some(MsgClass::REFRESH | MsgClass::STATUS));
        if has_lock && self.recorder.lock(key) != had.as_deref() {
            self.relocked.push(key.clone());
        }
    }

    fn record_state(&mut self, key: &Key, state: State<'_>) {
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(key.domain), 0) };
        let mut buf = [0; 1024];
        let mut w = Writer::new(&mut buf);
        if status.encode(&mut w).is_ok() {
            let message = w.into_written().to_vec();
            self.record(key, &message);
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.consumer.role.poll_event() {
            match event {
                Event::ItemState { item, state } => {
                    let Some(key) = self.keys.get(&item).cloned() else { continue };
                    self.record_state(&key, state.as_state());
                    if state.stream.is_final() {
                        self.end(item, &key, state);
                    }
                }
                Event::LoginRefused(state) => {
                    self.tell(&format!("the login at {} is refused: {}", self.consumer.server(), state.as_state()));
                }
                Event::ServiceUp { name, .. } => self.tell(&format!("{name} is up at {}", self.consumer.server())),
                Event::ServiceDown { name, .. } => self.tell(&format!("{name} is down at {}", self.consumer.server())),
                _ => {}
            }
        }
    }

    /// A line for the user, with texts that servers have chosen.
    fn tell(&self, line: &str) {
        (self.tell)(&net::plain::escaped(line));
    }
}

/// The quality of data that is so late. The wire has room for 18 hours.
pub fn quality(delay: u64) -> Qos {
    let late = |timeliness| Qos::new(timeliness, Rate::TICK_BY_TICK);
    match u16::try_from(delay / SECOND) {
        Ok(0) => Qos::new(Timeliness::REALTIME, Rate::TICK_BY_TICK),
        Ok(time_info) => Qos { time_info, ..late(Timeliness::DELAYED) },
        Err(_) => late(Timeliness::DELAYED_UNKNOWN),
    }
}
