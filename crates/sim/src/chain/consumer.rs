//! A consumer: what it asks for, and what it makes of the answers.

use super::content::{Change, DOMAINS, Item, NAMES, PUBLISHED, SERVICES, Truth, View, body, bytes_of, container};
use super::filtering::Filtering;
use super::random::Random;
use super::watch::{Kind, Watch};
use rwf::msg::{
    AckMsg, CloseFlags, CloseMsg, Domain, GenericMsg, Msg, MsgKey, PostFlags, PostMsg, Priority, RequestFlags,
    RequestMsg, UpdateMsg,
};
use rwf::rdm::directory::{self, Action, Part, filter};
use rwf::rdm::login;
use rwf::rdm::request::{self, Payload};
use rwf::rdm::state::Recovery;
use rwf::{DataState, DataType, Qos, Rate, StateCode, StreamState};
use std::collections::BTreeMap;

pub(super) const LOGIN: i32 = 1;
pub(super) const DIRECTORY: i32 = 2;

/// A post that wants an ack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Post {
    stream: i32,
    id: u32,
    pub(crate) sent_at: u64,
}

/// A batch: its own stream gets one status.
#[derive(Debug)]
struct Batch {
    total: usize,
    sent_at: u64,
}

/// A service as this consumer sees it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) up: bool,
    pub(crate) accepting: bool,
    pub(super) service: u8,
    qos: Vec<Qos>,
}

/// The consumer's messages about its server.
#[derive(Debug, Default)]
pub(crate) struct Standby {
    pub(super) everywhere: bool,
    /// By service, as the truth knows them.
    pub(super) services: BTreeMap<u8, bool>,
}

impl Standby {
    pub(super) fn is_for(&self, service: u8) -> bool {
        self.services.get(&service).copied().unwrap_or(self.everywhere)
    }
}

/// The consumer.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) shard: usize,
    pub(crate) slot: u32,
    pub(crate) policy: Recovery,
    /// Filter of its directory stream; none if it took a snapshot of the directory.
    pub(super) filter: Option<u32>,
    pub(crate) logged_in: bool,
    pub(crate) listed: BTreeMap<u16, Listed>,
    pub(crate) watches: BTreeMap<i32, Watch>,
    batches: BTreeMap<i32, Batch>,
    /// Closes of many streams that are not answered: their stream, and how many they close.
    batch_closes: BTreeMap<i32, usize>,
    pub(crate) posts: Vec<Post>,
    /// Streams of items that this side has closed, and the turn in which it did.
    closed: BTreeMap<i32, u64>,
    /// What it wants again: items that were closed for recovery.
    again: Vec<(Item, Kind, Option<View>)>,
    next_stream: i32,
    next_post: u32,
    /// Its messages in both directions are on their way for a while.
    pub(crate) wired: bool,
    /// The consumer has opened or closed many streams at once, and its P2PS may not be done with that, or with what it has said since.
    pub(crate) behind: bool,
    /// The consumer has said what its server is to it, and its P2PS may not have gone through all streams since: some are served until then.
    pub(crate) is_swept: bool,
    /// Its messages have to make sense as JSON: every request has a key.
    pub(crate) speaks_json: bool,
    /// The consumer wants what others want, and changes how.
    pub(crate) crowded: bool,
    /// The consumer knows several servers, and says what this one is to it.
    pub(crate) warm: bool,
    pub(super) standby: Standby,
    /// The data of services that passes.
    pub(crate) filtering: Filtering,
    /// Providers have hot standbys.
    pub(crate) hot: bool,
    /// The consumer asks for what is conflated by time, where that is offered.
    pub(crate) by_time: bool,
    /// The consumer's streams may be conflated when it is slow.
    pub(crate) when_slow: bool,
    pub(crate) out: Vec<Vec<u8>>,
    pub(crate) turn: u64,
    /// Virtual time.
    pub(crate) now: u64,
    /// When it connected.
    since: u64,
}

impl Consumer {
    pub(crate) fn new(shard: usize, slot: u32, now: u64, random: &mut Random) -> Self {
        let policy = match random.below(6) {
            0 => Recovery { single_open: false, allow_suspect_data: false },
            1 => Recovery { single_open: false, allow_suspect_data: true },
            2 => Recovery { single_open: true, allow_suspect_data: false },
            _ => Recovery::default(),
        };
        let filter = match random.below(6) {
            0 => None,
            1 => Some(filter::INFO | filter::STATE),
            2 => Some(filter::INFO | filter::GROUP),
            3 => Some(filter::INFO),
            _ => Some(filter::ALL),
        };
        let mut consumer = Self {
            shard,
            slot,
            policy,
            filter,
            logged_in: false,
            listed: BTreeMap::new(),
            watches: BTreeMap::new(),
            batches: BTreeMap::new(),
            batch_closes: BTreeMap::new(),
            posts: Vec::new(),
            closed: BTreeMap::new(),
            again: Vec::new(),
            next_stream: 4,
            next_post: 0,
            filtering: Filtering::default(),
            hot: false,
            wired: false,
            behind: false,
            is_swept: false,
            speaks_json: false,
            crowded: false,
            warm: false,
            standby: Standby::default(),
            by_time: false,
            when_slow: false,
            out: Vec::new(),
            turn: 0,
            now,
            since: now,
        };
        consumer.log_in();
        consumer
    }

    pub(super) fn send(&mut self, encode: impl FnOnce(&mut rwf::wire::Writer<'_>) -> Result<(), rwf::EncodeError>) {
        self.out.push(bytes_of(encode));
    }

    fn log_in(&mut self) {
        let standard = self.policy == Recovery::default();
        let attributes = login::Attributes {
            single_open: (!standard).then_some(self.policy.single_open),
            allow_suspect_data: (!standard).then_some(self.policy.allow_suspect_data),
            ..login::Attributes::default()
        };
        let request =
            login::Request { name: format!("user{}", self.slot % 3), attributes, ..login::Request::default() };
        self.send(|w| request.encode(w));
        self.ask_directory();
    }

    fn ask_directory(&mut self) {
        let (streaming, filter) = (self.filter.is_some(), self.filter.unwrap_or(filter::ALL));
        let request = directory::Request { stream_id: DIRECTORY, streaming, service_id: None, filter };
        self.send(|w| request.encode(w));
    }

    /// Does something. True if there was anything to do.
    pub(crate) fn act(&mut self, now: u64, random: &mut Random) -> bool {
        if !self.logged_in {
            return false;
        }
        if self.crowded && !self.is_late() && random.chance(40) {
            return self.reissue_any(random);
        }
        match random.below(24) {
            0..=6 => self.open_any(random),
            7 => self.batch(random),
            8..=10 => self.close_any(random),
            // A reissue that crosses with the end of its stream would be a request.
            11..=13 if !self.is_late() => self.reissue_any(random),
            14..=16 => self.post_any(now, random),
            17 if self.warm && !self.is_late() && random.chance(60) => self.change_standby(random),
            17 => self.generic_any(random),
            18 => self.batch_close(random),
            19..=20 => self.reopen(),
            21 if self.filter.is_none() => {
                self.ask_directory();
                true
            }
            _ => false,
        }
    }

    fn service_id(&self, service: u8) -> Option<u16> {
        self.listed.iter().find(|(_, listed)| listed.service == service).map(|(id, _)| *id)
    }

    fn open_any(&mut self, random: &mut Random) -> bool {
        let services: Vec<u8> = self.listed.values().map(|listed| listed.service).collect();
        let Some(service) = random.pick(&services) else { return false };
        let domain = DOMAINS[random.below(DOMAINS.len() + 1).min(2) % DOMAINS.len()].0;
        let crowd = self.crowded && random.chance(80);
        let (domain, names) = if crowd { (DOMAINS[0].0, 2) } else { (domain, NAMES.len()) };
        let item = Item { service, domain, name: NAMES[random.below(names)] };
        let kind = match random.below(8) {
            0 => Kind::Snapshot,
            1 if service != PUBLISHED => Kind::Private,
            _ => Kind::Streaming,
        };
        let view = (!item.is_map() && random.chance(30)).then(|| any_view(random)).filter(|_| !item.is_page());
        self.open(item, kind, view, random.chance(5));
        true
    }

    fn open(&mut self, item: Item, kind: Kind, view: Option<View>, paused: bool) {
        let Some(service) = self.service_id(item.service) else {
            self.again.push((item, kind, view));
            return;
        };
        let paused = paused && kind == Kind::Streaming;
        let stream = self.next_stream;
        self.next_stream += 1;
        let mut watch = Watch::new(item, kind, view, paused, self.filtering, (self.turn, self.now));
        watch.hot = self.hot;
        watch.stands_by = kind != Kind::Snapshot && self.standby.is_for(item.service);
        self.watches.insert(stream, watch);
        self.request(stream, Some(service), RequestFlags::NONE, None);
    }

    /// Sends the request of a stream as it stands. Without a service the key is left out.
    fn request(&mut self, stream: i32, service: Option<u16>, extra: RequestFlags, priority: Option<Priority>) {
        let watch = &self.watches[&stream];
        let item = watch.item;
        let payload = view_payload(watch.view.as_ref());
        let listed = self.listed.values().find(|listed| listed.service == item.service);
        let offered = listed.and_then(|listed| listed.qos.iter().find(|qos| qos.rate == Rate::TIME_CONFLATED));
        let qos = offered.filter(|_| self.by_time && watch.kind == Kind::Streaming).copied();
        let conflated = qos.is_some() || self.when_slow || self.is_conflated_for_all(item);
        let mut flags = extra;
        flags.set(RequestFlags::STREAMING, watch.kind != Kind::Snapshot);
        flags.set(RequestFlags::PRIVATE_STREAM, watch.kind == Kind::Private);
        flags.set(RequestFlags::PAUSE, watch.paused);
        flags.set(RequestFlags::HAS_VIEW, payload.is_some());
        let key = service.map_or(MsgKey::EMPTY, |service| MsgKey {
            name_type: Some(1),
            ..MsgKey::item(service, item.name.as_bytes())
        });
        let request = RequestMsg {
            flags,
            key,
            priority,
            qos,
            container: if payload.is_some() { DataType::ELEMENT_LIST } else { DataType::NO_DATA },
            body: payload.as_deref().unwrap_or_default(),
            ..RequestMsg::new(Domain(item.domain), stream)
        };
        self.send(|w| request.encode(w));
        self.watches.get_mut(&stream).expect("a watch").conflated |= conflated;
    }

    /// The service has no other rate than that of its conflation.
    fn is_conflated_for_all(&self, item: Item) -> bool {
        let is_all = |listed: &Listed| listed.qos.iter().all(|qos| qos.rate == Rate::TIME_CONFLATED);
        self.listed.values().any(|listed| listed.service == item.service && is_all(listed))
    }

    fn batch(&mut self, random: &mut Random) -> bool {
        let services: Vec<u8> = self.listed.values().map(|listed| listed.service).collect();
        let Some(service) = random.pick(&services) else { return false };
        let id = self.service_id(service).expect("a service");
        let domain = DOMAINS[random.below(DOMAINS.len())];
        let names: Vec<&'static str> = (0..=random.below(5)).map(|_| NAMES[random.below(NAMES.len())]).collect();
        let stream = self.next_stream;
        let kind = if random.chance(20) { Kind::Snapshot } else { Kind::Streaming };
        for (at, &name) in names.iter().enumerate() {
            let item = Item { service, domain: domain.0, name };
            let mut watch = Watch::new(item, kind, None, false, self.filtering, (self.turn, self.now));
            watch.hot = self.hot;
            watch.stands_by = kind != Kind::Snapshot && self.standby.is_for(item.service);
            watch.conflated = self.when_slow || self.is_conflated_for_all(item);
            self.watches.insert(stream + 1 + at as i32, watch);
        }
        self.next_stream += 1 + names.len() as i32;
        self.batches.insert(stream, Batch { total: names.len(), sent_at: self.now });
        let items = names.iter().map(|name| name.as_bytes()).collect();
        let payload = Payload { items: Some(items), ..Payload::default() };
        let body = bytes_of(|w| payload.encode(w));
        let mut flags = RequestFlags::HAS_BATCH;
        flags.set(RequestFlags::STREAMING, kind == Kind::Streaming);
        let request = RequestMsg {
            flags,
            key: MsgKey { service_id: Some(id), ..MsgKey::EMPTY },
            container: DataType::ELEMENT_LIST,
            body: &body,
            ..RequestMsg::new(domain, stream)
        };
        self.send(|w| request.encode(w));
        self.behind = true;
        true
    }

    /// Its messages are not acted on in the turn in which it sends them.
    fn is_late(&self) -> bool {
        self.wired || self.behind
    }

    fn live(&self) -> Vec<i32> {
        self.watches.iter().filter(|(_, watch)| watch.ended.is_none()).map(|(stream, _)| *stream).collect()
    }

    fn close_any(&mut self, random: &mut Random) -> bool {
        let Some(stream) = random.pick(&self.live()) else { return false };
        let domain = Domain(self.watches[&stream].item.domain);
        self.forget(stream);
        let close = CloseMsg::new(domain, stream);
        self.send(|w| close.encode(w));
        true
    }

    fn forget(&mut self, stream: i32) {
        self.watches.remove(&stream);
        self.closed.insert(stream, self.turn);
    }

    fn batch_close(&mut self, random: &mut Random) -> bool {
        let mut streams = self.live();
        streams.truncate(random.below(4));
        if streams.is_empty() {
            return false;
        }
        for &stream in &streams {
            self.forget(stream);
        }
        let payload = Payload { streams: Some(streams.clone()), ..Payload::default() };
        let body = bytes_of(|w| payload.encode(w));
        let close = CloseMsg {
            flags: CloseFlags(0x04),
            container: DataType::ELEMENT_LIST,
            body: &body,
            ..CloseMsg::new(Domain::MARKET_PRICE, streams[0])
        };
        self.send(|w| close.encode(w));
        self.batch_closes.insert(streams[0], streams.len());
        self.behind = true;
        true
    }

    /// The one status that answers a batch close; false for what else comes on that stream.
    fn batch_is_closed(&mut self, stream: i32, msg: &Msg<'_>) -> bool {
        let Some(&total) = self.batch_closes.get(&stream) else { return false };
        let Msg::Status(status) = msg else { return false };
        let Some(state) = status.state.filter(|state| state.text_lossy().contains("Batch Close")) else { return false };
        self.batch_closes.remove(&stream);
        assert_eq!((state.stream, state.data), (StreamState::CLOSED, DataState::OK), "{state}");
        assert!(state.text_lossy().starts_with(&format!("Processed {total} total stream ids")), "{state}");
        true
    }

    /// Pause, resume, another view, a refresh, another priority.
    fn reissue_any(&mut self, random: &mut Random) -> bool {
        let live: Vec<i32> = self
            .watches
            .iter()
            .filter(|(_, w)| w.ended.is_none() && w.kind != Kind::Snapshot && w.opened < self.turn)
            .map(|(stream, _)| *stream)
            .collect();
        let Some(stream) = random.pick(&live) else { return false };
        if self.speaks_json && self.service_id(self.watches[&stream].item.service).is_none() {
            return false;
        }
        let no_refresh = random.chance(30);
        let kind = if self.crowded && random.chance(30) { 3 } else { random.below(6) };
        let watch = self.watches.get_mut(&stream).expect("a watch");
        let mut priority = None;
        match kind {
            0 => {
                watch.paused = true;
                watch.miss();
            }
            1 | 2 if watch.paused => {
                watch.paused = false;
                watch.miss();
                watch.unasked |= no_refresh && !watch.is_silent();
            }
            3 if !watch.item.is_map() && !watch.is_silent() => {
                let view = random.chance(70).then(|| any_view(random)).filter(|_| !watch.item.is_page());
                if view != watch.view {
                    let narrower = match (&view, &watch.view) {
                        (Some(_), None) => true,
                        (Some(new), Some(old)) => new.is_subset(old),
                        (None, _) => false,
                    };
                    let goes_on = watch.change_view(view, narrower && no_refresh);
                    watch.unasked |= no_refresh && !goes_on;
                }
            }
            4 => priority = Some(Priority { class: 1 + random.below(4) as u8, count: 1 }),
            _ => {}
        }
        if !no_refresh {
            watch.ask();
        }
        watch.asked_at(self.now);
        // The stream may be ended by this, and the next one would be a request.
        watch.opened = self.turn;
        let mut flags = RequestFlags::NONE;
        flags.set(RequestFlags::NO_REFRESH, no_refresh);
        let service = self.watches[&stream].item.service;
        let id = if random.chance(70) || self.speaks_json { self.service_id(service) } else { None };
        self.request(stream, id, flags, priority);
        true
    }

    fn post_any(&mut self, now: u64, random: &mut Random) -> bool {
        let on_stream = random.pick(&self.live()).filter(|_| random.chance(60));
        let services: Vec<u8> = self.listed.values().map(|listed| listed.service).collect();
        let (stream, item) = if let Some(stream) = on_stream {
            (stream, self.watches[&stream].item)
        } else {
            let Some(service) = random.pick(&services) else { return false };
            (LOGIN, Item { service, domain: 6, name: "A" })
        };
        // Posts to images that are held here would change them.
        if item.service == PUBLISHED {
            return false;
        }
        let Some(service) = self.service_id(item.service) else { return false };
        let key = MsgKey { name_type: Some(1), ..MsgKey::item(service, item.name.as_bytes()) };
        let changes = [Change::Set((u32::from(item.is_map()), 1), 7)];
        let inner = body(item, &changes, false);
        let update = UpdateMsg {
            container: container(item),
            key: random.chance(60).then_some(key),
            body: &inner,
            ..UpdateMsg::new(Domain(item.domain), stream)
        };
        let nested = bytes_of(|w| update.encode(w));
        self.next_post += 1;
        let wants_ack = random.chance(80);
        let mut flags = PostFlags::POST_COMPLETE;
        flags.set(PostFlags::ACK, wants_ack);
        let post = PostMsg {
            flags,
            post_id: Some(self.next_post),
            key: (stream == LOGIN || random.chance(50)).then_some(key),
            container: DataType::MSG,
            body: &nested,
            ..PostMsg::new(Domain(item.domain), stream)
        };
        let bytes = bytes_of(|w| post.encode(w));
        self.out.push(bytes);
        if wants_ack {
            self.posts.push(Post { stream, id: self.next_post, sent_at: now });
        }
        true
    }

    fn generic_any(&mut self, random: &mut Random) -> bool {
        let Some(stream) = random.pick(&self.live()) else { return false };
        let generic = GenericMsg::new(Domain(self.watches[&stream].item.domain), stream);
        self.send(|w| generic.encode(w));
        true
    }

    /// Asks again for what was closed for recovery.
    pub(crate) fn reopen(&mut self) -> bool {
        if !self.logged_in {
            return false;
        }
        let again = std::mem::take(&mut self.again);
        let any = !again.is_empty();
        for (item, kind, view) in again {
            self.open(item, kind, view, false);
        }
        any
    }

    /// Resumes what is paused, so that all is to be current in the end.
    pub(crate) fn resume(&mut self) {
        self.make_active();
        let paused: Vec<i32> = self
            .watches
            .iter()
            .filter(|(_, watch)| watch.paused && watch.ended.is_none())
            .map(|(stream, _)| *stream)
            .collect();
        for stream in paused {
            let watch = self.watches.get_mut(&stream).expect("a watch");
            watch.paused = false;
            watch.miss();
            watch.ask();
            watch.asked_at(self.now);
            let service = self.watches[&stream].item.service;
            let id = self.service_id(service);
            self.request(stream, id, RequestFlags::NONE, None);
        }
    }

    /// A message has come.
    pub(crate) fn receive(&mut self, bytes: &[u8], truth: &Truth, names: &mut BTreeMap<u16, String>) {
        let msg = Msg::decode(bytes).expect("a message");
        let stream = msg.stream_id();
        match &msg {
            Msg::Ack(ack) => return self.ack(ack),
            _ if stream == LOGIN => return self.login(&msg),
            _ if stream == DIRECTORY => return self.directory(&msg, names),
            _ => {}
        }
        if let Some(batch) = self.batches.get(&stream) {
            let Msg::Status(status) = &msg else { panic!("a batch is answered by {msg:?}") };
            let state = status.state.expect("a state");
            let total = batch.total;
            self.batches.remove(&stream);
            assert_eq!(state.stream, StreamState::CLOSED, "{state}");
            if state.code == StateCode::SOURCE_UNKNOWN {
                // The service went when the batch was on its way: nothing of it is open.
                (1..=total as i32).for_each(|at| self.forget(stream + at));
            } else {
                assert_eq!(state.data, DataState::OK, "{state}");
                assert!(state.text_lossy().contains(&format!("{total} total")), "{state}");
            }
            return;
        }
        if self.batch_is_closed(stream, &msg) {
            return;
        }
        if let Some(turn) = self.closed.get(&stream) {
            // Messages delivered before the P2PS could read the close.
            assert!(self.is_late() || *turn == self.turn, "{msg:?} on a stream that was closed");
            return;
        }
        let policy = self.policy;
        let service = msg.key().and_then(|key| key.service_id);
        let Some(watch) = self.watches.get_mut(&stream) else { panic!("{msg:?} on a stream that was never opened") };
        if let Some(id) = service
            && !matches!(msg.state(), Some(state) if state.stream == StreamState::REDIRECTED)
        {
            assert_eq!(
                names.get(&id).map(String::as_str),
                Some(SERVICES[usize::from(watch.item.service)]),
                "service id"
            );
        }
        match &msg {
            Msg::Refresh(refresh) => watch.refresh(refresh, policy, truth),
            // Updates merged before the P2PS could read that the stream wants something else; an image follows.
            Msg::Update(_) if watch.conflated && watch.opened == self.turn && watch.misses() => {}
            Msg::Update(_) if self.is_swept && watch.stands_by && watch.misses() => {}
            Msg::Update(update) => {
                if watch.opened < self.turn {
                    watch.view_has_arrived();
                }
                watch.update(update, truth);
            }
            Msg::Status(status) => watch.status(status, policy),
            Msg::Generic(_) => assert!(watch.imaged && watch.ended.is_none(), "a generic message on no open stream"),
            other => panic!("consumer got {other:?}"),
        }
        self.after(stream);
    }

    /// A stream that was closed for recovery is wanted again.
    fn after(&mut self, stream: i32) {
        let watch = &self.watches[&stream];
        if watch.ended == Some(StreamState::CLOSED_RECOVER) {
            let watch = self.watches.remove(&stream).expect("a watch");
            // The consumer's request of this turn crossed the end of the stream: to the P2PS that was a request, which it may answer.
            self.closed.insert(stream, if watch.opened == self.turn { self.turn } else { u64::MAX });
            if watch.kind != Kind::Private {
                self.again.push((watch.item, watch.kind, watch.view));
            }
        }
    }

    fn login(&mut self, msg: &Msg<'_>) {
        let Msg::Refresh(refresh) = msg else { panic!("login is answered by {msg:?}") };
        let refresh = login::Refresh::decode(refresh).expect("a login refresh");
        assert!(refresh.solicited, "a login refresh is solicited");
        assert_eq!(refresh.name, format!("user{}", self.slot % 3));
        assert_eq!(refresh.attributes.recovery(), self.policy);
        assert_eq!((refresh.features.post, refresh.features.view), (Some(true), Some(true)));
        assert_eq!(refresh.features.batch, Some(7));
        self.logged_in = true;
    }

    fn ack(&mut self, ack: &AckMsg<'_>) {
        let at = self.posts.iter().position(|post| (post.stream, post.id) == (ack.stream_id, ack.ack_id));
        let at = at.unwrap_or_else(|| panic!("ack {} on stream {}: answers no post", ack.ack_id, ack.stream_id));
        self.posts.remove(at);
    }

    fn directory(&mut self, msg: &Msg<'_>, names: &mut BTreeMap<u16, String>) {
        let entries = match msg {
            Msg::Refresh(refresh) => {
                let refresh = directory::Refresh::decode(refresh).expect("a directory");
                assert!(refresh.solicited && refresh.complete);
                if self.filter.is_none() {
                    self.listed.clear();
                }
                refresh.services
            }
            Msg::Update(update) => directory::Update::decode(update).expect("a directory update").services,
            other => panic!("directory is answered by {other:?}"),
        };
        for entry in entries {
            self.service(&entry, names);
        }
    }

    fn service(&mut self, entry: &directory::Service, names: &mut BTreeMap<u16, String>) {
        let id = entry.id;
        if entry.action == Action::Delete {
            let listed = self.listed.remove(&id).expect("a service that is deleted was there");
            let state = rwf::State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, rwf::StateCode::NONE, "gone");
            self.relay(listed.service, &state, None);
            return;
        }
        assert_eq!(entry.action == Action::Add, !self.listed.contains_key(&id), "a new service is added, others not");
        if let Some(info) = entry.info.as_ref().and_then(Part::value) {
            self.info(id, info, names);
        } else {
            assert!(entry.action == Action::Update, "a new service comes with its Info");
        }
        let listed = self.listed.get_mut(&id).expect("a service that was added");
        let service = listed.service;
        if let Some(state) = entry.state.as_ref().and_then(Part::value) {
            listed.up = state.up;
            listed.accepting = state.accepting_requests.expect("AcceptingRequests");
            if let Some(status) = &state.status {
                self.relay(service, &status.as_state(), None);
            }
        }
        for group in entry.groups.iter().filter_map(Part::value) {
            if let Some(status) = &group.status {
                self.relay(service, &status.as_state(), Some(&group.group));
            }
            if let Some(to) = &group.merged_to {
                for watch in self.watches.values_mut() {
                    if watch.item.service == service && watch.group == group.group {
                        watch.group.clone_from(to);
                    }
                }
            }
        }
    }

    /// The settings of every service that consumers see, whoever provides it.
    fn info(&mut self, id: u16, info: &directory::Info, names: &mut BTreeMap<u16, String>) {
        assert!(id > 0, "ids begin at 1");
        let name = names.entry(id).or_insert_with(|| info.name.clone());
        assert_eq!(*name, info.name, "a service id keeps its name");
        assert!(usize::from(id) <= SERVICES.len(), "ids are dense");
        let service = SERVICES.iter().position(|known| *known == info.name).expect("a known service") as u8;
        assert!(info.capabilities.contains(&Domain::DICTIONARY), "capability 5");
        if service != PUBLISHED {
            assert!(DOMAINS.iter().all(|domain| info.capabilities.contains(domain)), "{:?}", info.capabilities);
        }
        assert_eq!(info.dictionaries_provided, ["RWFFld", "RWFEnum"]);
        assert_eq!(info.dictionaries_used, ["RWFFld", "RWFEnum"]);
        assert!(!info.qos.is_empty(), "a service has a quality");
        let qos = info.qos.clone();
        if let Some(known) = self.listed.get(&id) {
            assert_eq!(known.qos, qos, "qualities do not change");
        }
        let (up, accepting) = self.listed.get(&id).map_or((false, false), |listed| (listed.up, listed.accepting));
        self.listed.insert(id, Listed { up, accepting, service, qos });
    }

    /// A state for all streams of a service, or of a group of it: fanned out here, as the SDK does.
    fn relay(&mut self, service: u8, state: &rwf::State<'_>, group: Option<&[u8]>) {
        let of = |watch: &Watch| watch.item.service == service && group.is_none_or(|group| watch.group == group);
        let streams: Vec<i32> = self.watches.iter().filter(|(_, watch)| of(watch)).map(|(stream, _)| *stream).collect();
        let gone = state.text == b"gone";
        for stream in streams {
            let watch = self.watches.get_mut(&stream).expect("a watch");
            if gone && watch.ended.is_none() {
                watch.ended = Some(StreamState::CLOSED_RECOVER);
            } else {
                watch.relayed(state);
            }
            self.after(stream);
        }
    }

    /// Requests without an answer for longer than this.
    pub(crate) fn unanswered(&mut self, limit: u64) -> Option<String> {
        if !self.logged_in && self.now - self.since > limit {
            return Some("its login".to_owned());
        }
        if let Some((stream, _)) = self.batches.iter().find(|(_, batch)| self.now - batch.sent_at > limit) {
            return Some(format!("the batch on stream {stream}"));
        }
        let (now, mut watches) = (self.now, self.watches.iter_mut());
        let (stream, watch) =
            watches.find_map(|(stream, watch)| watch.is_unanswered(now, limit).then_some((stream, watch)))?;
        Some(format!("stream {stream}, {}: {watch:?}", watch.item))
    }

    /// Whether its directory stream tells of the state of services.
    pub(crate) fn sees_state(&self) -> bool {
        self.filter.is_some_and(|filter| filter & filter::STATE != 0)
    }
}

fn any_view(random: &mut Random) -> View {
    let mut view = View::new();
    for _ in 0..=random.below(3) {
        view.insert(1 + random.below(7) as i16);
    }
    view
}

fn view_payload(view: Option<&View>) -> Option<Vec<u8>> {
    let fids: Vec<i16> = view?.iter().copied().collect();
    let payload = Payload { view: Some(request::View::Fields(fids)), ..Payload::default() };
    Some(bytes_of(|w| payload.encode(w)))
}
