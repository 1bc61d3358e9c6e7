//! An interactive provider: it is dialled, answers login, directory and items, and misbehaves within the rules.

use super::content::{
    Change, DOMAINS, Item, NAMES, SERVICES, Truth, View, body, bytes_of, container, seen, seen_changes, seq_num,
    update_type,
};
use super::random::Random;
use rwf::msg::{
    AckMsg, CloseMsg, Domain, GenericMsg, Msg, MsgKey, NakCode, PostFlags, PostMsg, RefreshFlags, RefreshMsg,
    RequestFlags, RequestMsg, StatusMsg, UpdateMsg,
};
use rwf::rdm::directory::{self, Action, Group, Info, Load, Part, ServiceState};
use rwf::rdm::login;
use rwf::rdm::request::{self, Payload};
use rwf::{DataState, DataType, Qos, State, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A text that begins with this is of a provider that changes a state and goes on.
pub(crate) const MARK: &str = "P: still";
/// A stream id rests for longer than this before a distributor uses it again, nanoseconds.
const REST: u64 = 45_000_000_000;

/// A part of an image that is still to be sent.
#[derive(Debug)]
struct Sending {
    set: u32,
    part: u16,
    solicited: bool,
    /// The version that all parts show: a stream that is not updated gets none between them.
    version: Option<u16>,
    /// The cells of each part to come, in order.
    rest: VecDeque<Vec<super::content::Cell>>,
}

/// An item stream as its provider sees it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) item: Item,
    pub(crate) private: bool,
    pub(crate) snapshot: bool,
    /// Images asked for and not begun.
    pending: u32,
    /// No image and no status yet.
    fresh: bool,
    /// An image was begun.
    pub(crate) imaged: bool,
    sending: Option<Sending>,
    view: Option<View>,
    /// The stream gets no updates, but between the parts of an image.
    paused: bool,
}

/// A service as this provider offers it.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) service: u8,
    pub(crate) id: u16,
    pub(crate) up: bool,
    pub(crate) accepting: bool,
    window: Option<u32>,
    /// In the directory now.
    pub(crate) listed: bool,
}

/// State of an item that all of its streams share.
#[derive(Debug, Default, Clone)]
struct Shared {
    suspect: bool,
    group: u8,
}

/// The provider.
#[derive(Debug)]
pub(crate) struct Provider {
    /// Distributor and session that dial it.
    pub(crate) distributor: usize,
    pub(crate) session: u32,
    /// The session is established.
    pub(crate) up: bool,
    /// Login and directory are answered.
    pub(crate) ready: bool,
    pub(crate) life: u16,
    pub(crate) offers: Vec<Offer>,
    /// All service ids of this life.
    ids: BTreeSet<u16>,
    pub(crate) streams: BTreeMap<i32, Stream>,
    /// Streams that were ended here; a close of them may be under way.
    /// When each was.
    ended: BTreeMap<i32, u64>,
    /// Virtual time.
    pub(crate) now: u64,
    shared: BTreeMap<Item, Shared>,
    /// The version of each item that it has come to, where others say the same.
    versions: BTreeMap<Item, u16>,
    /// The provider filters by views.
    views: bool,
    /// The provider pauses streams.
    pauses: bool,
    /// The provider's items are in groups; JSON has no place for them.
    groups: bool,
    /// The provider answers the items that it never answers otherwise.
    pub(crate) healed: bool,
    /// The provider closes its connection at a request for such an item, as some do at what they do not like.
    pub(crate) hangs_up: bool,
    /// The provider was asked for one, and is about to go.
    pub(crate) is_going: bool,
    pub(crate) incoming: VecDeque<Vec<u8>>,
    pub(crate) outbox: VecDeque<Vec<u8>>,
    /// Posts that want an ack: stream, domain, id.
    posts: Vec<(i32, Domain, u32)>,
}

impl Provider {
    pub(crate) fn new(distributor: usize, session: u32) -> Self {
        Self {
            distributor,
            session,
            up: false,
            ready: false,
            life: 0,
            offers: Vec::new(),
            ids: BTreeSet::new(),
            streams: BTreeMap::new(),
            ended: BTreeMap::new(),
            now: 0,
            shared: BTreeMap::new(),
            versions: BTreeMap::new(),
            views: false,
            pauses: false,
            groups: true,
            healed: false,
            hangs_up: false,
            is_going: false,
            incoming: VecDeque::new(),
            outbox: VecDeque::new(),
            posts: Vec::new(),
        }
    }

    /// The provider is reached: another life. `services` are those that it has, by number.
    pub(crate) fn start(&mut self, services: &[u8], truth: &mut Truth, random: &mut Random) {
        let (distributor, session, healed, now) = (self.distributor, self.session, self.healed, self.now);
        let hangs_up = self.hangs_up;
        let ids: Vec<u16> = self.offers.iter().map(|offer| offer.id).collect();
        *self = Self::new(distributor, session);
        (self.healed, self.hangs_up, self.now) = (healed, hangs_up, now);
        self.up = true;
        self.life = truth.begin_interactive_life();
        self.views = random.chance(50);
        self.pauses = self.life.is_multiple_of(2);
        for (at, &service) in services.iter().enumerate() {
            let other = 1 + random.below(400) as u16 * 3 + at as u16;
            let id = ids.get(at).copied().filter(|_| random.chance(60)).unwrap_or(other);
            let window = random.chance(50).then(|| 1 + random.below(3) as u32);
            let listed = healed || random.chance(85);
            self.ids.insert(id);
            self.offers.push(Offer { service, id, up: true, accepting: true, window, listed });
        }
    }

    /// The provider speaks JSON in this life.
    pub(crate) fn speak_json(&mut self) {
        self.groups = false;
    }

    /// The provider's services in this life, whether or not in its directory now: ids and names.
    pub(crate) fn service_names(&self) -> BTreeMap<u16, String> {
        self.offers.iter().map(|offer| (offer.id, SERVICES[usize::from(offer.service)].to_owned())).collect()
    }

    /// The session is gone.
    pub(crate) fn stop(&mut self) {
        self.up = false;
        self.ready = false;
        self.is_going = false;
        self.streams.clear();
        self.incoming.clear();
        self.outbox.clear();
        self.posts.clear();
    }

    fn send(&mut self, encode: impl FnOnce(&mut rwf::wire::Writer<'_>) -> Result<(), rwf::EncodeError>) {
        self.outbox.push_back(bytes_of(encode));
    }

    /// A message of the Source Distributor is on its way.
    pub(crate) fn deliver(&mut self, bytes: Vec<u8>) {
        self.incoming.push_back(bytes);
    }

    /// Takes in one message of the Source Distributor.
    pub(crate) fn receive(&mut self, random: &mut Random) -> bool {
        let Some(bytes) = self.incoming.pop_front() else { return false };
        match Msg::decode(&bytes).expect("a distributor sends messages") {
            Msg::Request(request) => self.request(&request, random),
            Msg::Close(close) => self.closed(&close),
            Msg::Post(post) => self.post(&post),
            Msg::Generic(generic) => self.generic(&generic),
            other => panic!("provider got {other:?}"),
        }
        true
    }

    fn request(&mut self, msg: &RequestMsg<'_>, random: &mut Random) {
        match msg.domain {
            Domain::LOGIN => {
                let request = login::Request::decode(msg).expect("a login request");
                let pauses = self.pauses.then_some(true);
                let features = login::Features {
                    view: Some(self.views),
                    optimized_pause_resume: pauses,
                    ..login::Features::default()
                };
                let answer = login::Refresh::accept(&request, features, "P: welcome");
                self.send(|w| answer.encode(w));
            }
            Domain::SOURCE => {
                let request = directory::Request::decode(msg);
                let services = self.offers.iter().filter(|offer| offer.listed).map(Self::entry).collect();
                let answer = directory::Refresh::answer(&request, services);
                self.send(|w| answer.encode(w));
                self.ready = true;
            }
            Domain::DICTIONARY => {
                let text = "P: no dictionary";
                let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, text);
                let status = StatusMsg { state: Some(state), ..StatusMsg::new(msg.domain, msg.stream_id) };
                self.send(|w| status.encode(w));
            }
            _ => self.item_request(msg, random),
        }
    }

    fn entry(offer: &Offer) -> directory::Service {
        let info = Info {
            name: SERVICES[usize::from(offer.service)].into(),
            capabilities: DOMAINS.to_vec(),
            qos: vec![Qos::REALTIME_TICK],
            ..Info::default()
        };
        let state = ServiceState { up: offer.up, accepting_requests: Some(offer.accepting), status: None };
        let load = Load { open_window: offer.window.map(u64::from), ..Load::default() };
        directory::Service {
            info: Some(Part::Set(info)),
            state: Some(Part::Set(state)),
            load: Some(Part::Set(load)),
            ..directory::Service::new(offer.id, Action::Add)
        }
    }

    fn item_request(&mut self, msg: &RequestMsg<'_>, random: &mut Random) {
        let id = msg.stream_id;
        let has = |flag| msg.flags.contains(flag);
        let name = msg.key.name_lossy();
        let name = NAMES.iter().find(|known| **known == name).expect("a name that a consumer asked for");
        let service = msg.key.service_id.expect("a request names its service");
        let Some(offer) = self.offers.iter().find(|offer| offer.id == service && offer.listed) else {
            // The service has gone while the request was on its way.
            assert!(self.ids.contains(&service), "request for service {service}, which was never here");
            if !has(RequestFlags::NO_REFRESH) && !self.ended.contains_key(&id) {
                let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::SOURCE_UNKNOWN, "P: gone");
                let status = StatusMsg { state: Some(state), ..StatusMsg::new(msg.domain, id) };
                self.send(|w| status.encode(w));
            }
            self.ended.insert(id, self.now);
            return;
        };
        let item = Item { service: offer.service, domain: msg.domain.0, name };
        let view = has(RequestFlags::HAS_VIEW).then(|| {
            assert!(self.views, "a view goes to a provider whose login does not support views");
            match Payload::of_request(msg).expect("a payload").view {
                Some(request::View::Fields(fids)) => fids.into_iter().collect(),
                other => panic!("view {other:?}"),
            }
        });
        let paused = has(RequestFlags::PAUSE);
        assert!(!paused || self.pauses, "a pause goes to a provider whose login does not support it");
        if let Some(stream) = self.streams.get_mut(&id) {
            assert_eq!(stream.item, item, "a reissue keeps its key");
            assert_eq!(stream.private, has(RequestFlags::PRIVATE_STREAM));
            (stream.view, stream.paused) = (view, paused);
            if !has(RequestFlags::NO_REFRESH) {
                stream.pending += 1;
            }
            return;
        }
        if self.ended.get(&id).is_some_and(|at| self.now - at < REST) {
            // A reissue that has crossed with the end; an id that is used again has rested.
            return;
        }
        assert!(!has(RequestFlags::NO_REFRESH), "a first request without refresh");
        self.is_going |= self.hangs_up && !self.healed && *name == "MUTE";
        let (private, snapshot) = (has(RequestFlags::PRIVATE_STREAM), !has(RequestFlags::STREAMING));
        if !private && !snapshot {
            let twice = self.streams.values().any(|other| other.item == item && !other.private && !other.snapshot);
            assert!(!twice, "{item} is open here already");
        }
        let (service, window) = (offer.service, offer.window);
        let stream =
            Stream { item, private, snapshot, pending: 1, fresh: true, imaged: false, sending: None, view, paused };
        self.streams.insert(id, stream);
        if let Some(window) = window {
            let fresh = self.streams.values().filter(|stream| stream.fresh && stream.item.service == service).count();
            // Answers under way have made room already where this provider does not see it.
            assert!(fresh <= window as usize, "OpenWindow {window}: {fresh} requests are unanswered");
        }
        let group = self.group(random);
        self.shared.entry(item).or_insert(Shared { suspect: false, group });
    }

    fn closed(&mut self, close: &CloseMsg<'_>) {
        let id = close.stream_id;
        let known = self.streams.contains_key(&id) || self.ended.contains_key(&id);
        assert!(known, "close of stream {id}, which was never open");
        self.streams.remove(&id);
        // Nothing of the old stream comes behind its close, so that the id has no need to rest here.
        self.ended.insert(id, self.now.saturating_sub(REST));
    }

    fn post(&mut self, post: &PostMsg<'_>) {
        let service = post.key.and_then(|key| key.service_id);
        let known = |id: Option<u16>| id.is_none_or(|id| self.ids.contains(&id));
        assert!(known(service), "post names service {service:?}, which is not here");
        assert!(post.post_user_info.addr != 0 && post.post_user_info.id != 0, "poster is not filled in");
        if post.container == DataType::MSG {
            let nested = Msg::decode(post.body).expect("a nested message");
            let nested = nested.key().and_then(|key| key.service_id);
            assert!(known(nested), "nested message names service {nested:?}, which is not here");
        }
        let item_stream = self.streams.contains_key(&post.stream_id) || self.ended.contains_key(&post.stream_id);
        assert!(post.stream_id == 1 || item_stream, "post on stream {}", post.stream_id);
        if post.flags.contains(PostFlags::ACK) {
            let id = post.post_id.expect("a post that wants an ack has an id");
            assert!(!self.posts.iter().any(|known| known.2 == id), "two posts with id {id}");
            self.posts.push((post.stream_id, post.domain, id));
        }
    }

    fn generic(&mut self, generic: &GenericMsg<'_>) {
        if generic.domain == Domain::SOURCE {
            let status = directory::ConsumerStatus::decode(generic).expect("it can be read").expect("its part");
            let is_part = |service: &directory::ServiceStatus| service.mirroring.is_some_and(|mode| mode <= 2);
            assert!(status.services.iter().all(is_part), "{status:?}");
            return;
        }
        let id = generic.stream_id;
        let known = self.streams.contains_key(&id) || self.ended.contains_key(&id);
        assert!(known, "generic message on stream {id}, which was never open");
        if self.streams.get(&id).is_some_and(|stream| stream.imaged) {
            let answer = GenericMsg::new(generic.domain, id);
            self.send(|w| answer.encode(w));
        }
    }

    /// Does something of its own accord. True if there was anything to do.
    pub(crate) fn act(&mut self, truth: &mut Truth, random: &mut Random) -> bool {
        if !self.ready {
            return false;
        }
        match random.below(40) {
            0..=12 => self.answer(truth, random),
            13..=27 => self.update(truth, random),
            28 => self.refresh_unasked(truth, random),
            29..=30 => self.change_state(random),
            31 => self.end_stream(random),
            32 => self.group_status(random),
            33 if self.groups => self.merge_groups(random),
            34 => self.service_state(random),
            35 => self.list_service(random),
            36..=38 => self.acknowledge(random),
            _ => self.send_generic(random),
        }
    }

    /// Answers a request, or goes on with an image. True if there was one.
    pub(crate) fn answer(&mut self, truth: &mut Truth, random: &mut Random) -> bool {
        let healed = self.healed;
        let wants = |stream: &Stream| stream.sending.is_some() || stream.pending > 0;
        let silent = |stream: &Stream| stream.item.name == "MUTE" && !healed;
        let due: Vec<i32> = self.streams.iter().filter(|(_, s)| wants(s) && !silent(s)).map(|(id, _)| *id).collect();
        let Some(id) = random.pick(&due) else { return false };
        let stream = &self.streams[&id];
        let domain = Domain(stream.item.domain);
        if stream.sending.is_some() {
            self.send_part(id, truth, random);
        } else if stream.item.name == "NOPE" {
            self.end(id, StreamState::CLOSED, StateCode::NOT_FOUND);
        } else if stream.item.name == "GOTO" {
            let state = State::new(StreamState::REDIRECTED, DataState::SUSPECT, StateCode::NONE, "P: go there");
            let key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(self.id_of(stream.item.service), b"A") });
            let status = StatusMsg { state: Some(state), key, ..StatusMsg::new(domain, id) };
            self.send(|w| status.encode(w));
            self.streams.remove(&id);
            self.ended.insert(id, self.now);
        } else {
            self.begin_image(id, true, truth, random);
        }
        true
    }

    fn id_of(&self, service: u8) -> u16 {
        self.offers.iter().find(|offer| offer.service == service).map_or(0, |offer| offer.id)
    }

    fn begin_image(&mut self, id: i32, solicited: bool, truth: &mut Truth, random: &mut Random) {
        let life = self.life;
        let stream = self.streams.get_mut(&id).expect("a stream");
        if solicited {
            stream.pending -= 1;
        }
        let set = truth.new_set(!solicited);
        let item = stream.item;
        let latest = self.latest(truth, item);
        let stream = self.streams.get_mut(&id).expect("a stream");
        let versions = truth.versions(life, item);
        let version = (item.name == "ONCE").then_some(latest);
        let rows = &versions[usize::from(latest)].rows;
        let cells: Vec<_> = seen(rows, stream.view.as_ref()).into_keys().collect();
        let parts = if random.chance(60) { 1 } else { 2 + random.below(3) };
        let mut rest: VecDeque<Vec<_>> = VecDeque::new();
        // The cells of a row stay together.
        let mut rows: Vec<Vec<super::content::Cell>> = Vec::new();
        for cell in cells {
            match rows.last_mut() {
                Some(row) if stream.item.is_map() && row[0].0 == cell.0 => row.push(cell),
                _ => rows.push(vec![cell]),
            }
        }
        let each = rows.len().div_ceil(parts).max(1);
        for rows in rows.chunks(each) {
            rest.push_back(rows.concat());
        }
        if rest.is_empty() {
            rest.push_back(Vec::new());
        }
        stream.fresh = false;
        stream.imaged = true;
        stream.sending = Some(Sending { set, part: 0, solicited, version, rest });
        self.send_part(id, truth, random);
    }

    fn send_part(&mut self, id: i32, truth: &mut Truth, random: &mut Random) {
        let life = self.life;
        let item = self.streams[&id].item;
        let latest = self.latest(truth, item);
        let stream = self.streams.get_mut(&id).expect("a stream");
        let sending = stream.sending.as_mut().expect("an image under way");
        let versions = truth.versions(life, item);
        let version = sending.version.unwrap_or(latest);
        let rows = &versions[usize::from(version)].rows;
        let cells = sending.rest.pop_front().unwrap_or_default();
        let changes: Vec<Change> = cells.iter().filter_map(|cell| Some(Change::Set(*cell, *rows.get(cell)?))).collect();
        let (first, last) = (sending.part == 0, sending.rest.is_empty());
        let body = body(item, &changes, true);
        let set = sending.set.to_be_bytes();
        let one_shot = stream.snapshot || item.name == "ONCE";
        let mut flags = RefreshFlags::NONE;
        flags.set(RefreshFlags::SOLICITED, sending.solicited);
        flags.set(RefreshFlags::REFRESH_COMPLETE, last);
        flags.set(RefreshFlags::CLEAR_CACHE, first && (sending.solicited || random.chance(50)));
        flags.set(RefreshFlags::PRIVATE_STREAM, stream.private);
        let shared = &self.shared[&item];
        let data = if shared.suspect { DataState::SUSPECT } else { DataState::OK };
        let state = if one_shot { StreamState::NON_STREAMING } else { StreamState::OPEN };
        let group = [0, shared.group];
        let service = self.offers.iter().find(|offer| offer.service == item.service).map_or(0, |offer| offer.id);
        let name = item.name.as_bytes();
        let refresh = RefreshMsg {
            container: container(item),
            flags,
            seq_num: Some(seq_num(life, version)),
            state: State::new(state, data, StateCode::NONE, "P: image"),
            group_id: &group,
            part_num: (!(first && last) || random.chance(50)).then_some(sending.part),
            key: random.chance(50).then(|| MsgKey { name_type: Some(1), ..MsgKey::item(service, name) }),
            ext_header: Some(&set),
            body: &body,
            ..RefreshMsg::new(Domain(item.domain), id)
        };
        let bytes = bytes_of(|w| refresh.encode(w));
        sending.part += 1;
        if last {
            stream.sending = None;
            if one_shot {
                self.streams.remove(&id);
                self.ended.insert(id, self.now);
            }
        }
        self.outbox.push_back(bytes);
    }

    /// Changes an item that is open.
    pub(crate) fn update(&mut self, truth: &mut Truth, random: &mut Random) -> bool {
        let items: Vec<Item> = self.streams.values().filter(|s| s.imaged).map(|s| s.item).collect();
        let Some(item) = random.pick(&items) else { return false };
        if self.follow(item, truth) {
            return true;
        }
        let rows = truth.versions(self.life, item).last().expect("a version").rows.clone();
        let changes = changes(item, &rows, random);
        let version = truth.change(self.life, item, changes.clone());
        self.versions.insert(item, version);
        let with_key = random.chance(20);
        self.send_update(item, version, &changes, with_key);
        true
    }

    /// The version that it has come to: the last one, unless others say the same and are ahead.
    fn latest(&mut self, truth: &mut Truth, item: Item) -> u16 {
        let last = (truth.versions(self.life, item).len() - 1) as u16;
        let is_followed = self.streams.values().any(|stream| stream.item == item && stream.imaged);
        if !truth.is_shared(self.life) || !is_followed {
            self.versions.insert(item, last);
        }
        *self.versions.entry(item).or_insert(last)
    }

    /// Says the next thing that another has said before of an item, if there is one.
    fn follow(&mut self, item: Item, truth: &mut Truth) -> bool {
        let at = self.latest(truth, item) + 1;
        let Some(next) = truth.versions(self.life, item).get(usize::from(at)).cloned() else { return false };
        self.versions.insert(item, at);
        self.send_update(item, at, &next.changes, false);
        true
    }

    /// Says all that others have said before.
    pub(crate) fn catch_up(&mut self, truth: &mut Truth) {
        let items: BTreeSet<Item> = self.streams.values().filter(|s| s.imaged).map(|s| s.item).collect();
        for item in items {
            while self.follow(item, truth) {}
        }
    }

    fn send_update(&mut self, item: Item, version: u16, changes: &[Change], with_key: bool) {
        let seq_num = Some(seq_num(self.life, version));
        let name = item.name.as_bytes();
        let key = with_key.then(|| MsgKey { name_type: Some(1), ..MsgKey::item(self.id_of(item.service), name) });
        let streams: Vec<i32> =
            self.streams.iter().filter(|(_, s)| s.item == item && s.imaged).map(|(id, _)| *id).collect();
        for id in streams {
            let stream = &self.streams[&id];
            let changes = seen_changes(changes, stream.view.as_ref());
            let rests = (stream.paused || stream.snapshot) && stream.sending.is_none();
            if changes.is_empty() || rests || item.name == "ONCE" {
                continue;
            }
            let body = body(item, &changes, false);
            let update = UpdateMsg {
                container: container(item),
                seq_num,
                key,
                update_type: update_type(version),
                body: &body,
                ..UpdateMsg::new(Domain(item.domain), id)
            };
            self.send(|w| update.encode(w));
        }
    }

    fn idle_stream(&self, random: &mut Random) -> Option<i32> {
        let idle: Vec<i32> = self.idle_streams().map(|(id, _)| id).collect();
        random.pick(&idle)
    }

    fn idle_streams(&self) -> impl Iterator<Item = (i32, &Stream)> {
        let is_idle = |s: &Stream| s.imaged && s.sending.is_none() && !s.snapshot;
        self.streams.iter().filter(move |(_, s)| is_idle(s)).map(|(id, s)| (*id, s))
    }

    fn refresh_unasked(&mut self, truth: &mut Truth, random: &mut Random) -> bool {
        let Some(id) = self.idle_stream(random) else { return false };
        self.begin_image(id, false, truth, random);
        true
    }

    /// Each service that has items has an image of one that nobody has asked for.
    pub(crate) fn tick(&mut self, truth: &mut Truth, random: &mut Random) {
        let mut services = BTreeSet::new();
        let idle: Vec<(i32, u8)> = self.idle_streams().map(|(id, stream)| (id, stream.item.service)).collect();
        for (id, service) in idle {
            if services.insert(service) {
                self.begin_image(id, false, truth, random);
            }
        }
    }

    /// An item becomes Suspect, or good again.
    fn change_state(&mut self, random: &mut Random) -> bool {
        let items: Vec<Item> = self.streams.values().filter(|s| s.imaged).map(|s| s.item).collect();
        let Some(item) = random.pick(&items) else { return false };
        let suspect = !self.shared[&item].suspect;
        self.set_state(item, suspect);
        true
    }

    fn set_state(&mut self, item: Item, suspect: bool) {
        self.shared.entry(item).or_default().suspect = suspect;
        let data = if suspect { DataState::SUSPECT } else { DataState::OK };
        let state = State::new(StreamState::OPEN, data, StateCode::NONE, "P: still item");
        let streams: Vec<i32> =
            self.streams.iter().filter(|(_, s)| s.item == item && s.imaged).map(|(id, _)| *id).collect();
        for id in streams {
            let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(item.domain), id) };
            self.send(|w| status.encode(w));
        }
    }

    fn end_stream(&mut self, random: &mut Random) -> bool {
        let ids: Vec<i32> = self.streams.keys().copied().collect();
        let Some(id) = random.pick(&ids) else { return false };
        let end = if random.chance(30) { StreamState::CLOSED } else { StreamState::CLOSED_RECOVER };
        self.end(id, end, StateCode::NONE);
        true
    }

    fn end(&mut self, id: i32, end: StreamState, code: StateCode) {
        let stream = self.streams.remove(&id).expect("a stream");
        self.ended.insert(id, self.now);
        let state = State::new(end, DataState::SUSPECT, code, "P: end");
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(stream.item.domain), id) };
        self.send(|w| status.encode(w));
    }

    fn directory_update(&mut self, entry: directory::Service) {
        let update =
            directory::Update { stream_id: 2, filter: Some(0x3F), services: vec![entry], ..Default::default() };
        self.send(|w| update.encode(w));
    }

    fn group(&self, random: &mut Random) -> u8 {
        if self.groups { random.below(3) as u8 } else { 0 }
    }

    fn members(&self, service: u8, group: Option<u8>) -> Vec<Item> {
        let of = |s: &&Stream| s.imaged && s.item.service == service;
        let items: BTreeSet<Item> = self.streams.values().filter(of).map(|s| s.item).collect();
        items.into_iter().filter(|item| group.is_none_or(|group| self.shared[item].group == group)).collect()
    }

    fn group_status(&mut self, random: &mut Random) -> bool {
        let listed: Vec<(u8, u16)> = self.offers.iter().filter(|o| o.listed).map(|o| (o.service, o.id)).collect();
        let Some((service, id)) = random.pick(&listed) else { return false };
        let group = self.group(random);
        let suspect = random.chance(50);
        let whole = random.chance(30);
        for item in self.members(service, (!whole).then_some(group)) {
            self.shared.entry(item).or_default().suspect = suspect;
        }
        let data = if suspect { DataState::SUSPECT } else { DataState::OK };
        let state = State::new(StreamState::OPEN, data, StateCode::NONE, "P: still many");
        let mut entry = directory::Service::new(id, Action::Update);
        if whole {
            let offer = self.offers.iter().find(|o| o.service == service).expect("an offer");
            let (up, accepting_requests) = (offer.up, Some(offer.accepting));
            entry.state = Some(Part::Update(ServiceState { up, accepting_requests, status: Some(state.into()) }));
        } else {
            let (group, status) = (vec![0, group], Some(state.into()));
            entry.groups.push(Part::Update(Group { group, merged_to: None, status }));
        }
        self.directory_update(entry);
        true
    }

    fn merge_groups(&mut self, random: &mut Random) -> bool {
        let listed: Vec<(u8, u16)> = self.offers.iter().filter(|o| o.listed).map(|o| (o.service, o.id)).collect();
        let Some((service, id)) = random.pick(&listed) else { return false };
        let (from, to) = (random.below(3) as u8, random.below(3) as u8);
        if from == to {
            return false;
        }
        for item in self.members(service, Some(from)) {
            self.shared.entry(item).or_default().group = to;
        }
        let mut entry = directory::Service::new(id, Action::Update);
        entry.groups.push(Part::Update(Group { group: vec![0, from], merged_to: Some(vec![0, to]), status: None }));
        self.directory_update(entry);
        true
    }

    fn service_state(&mut self, random: &mut Random) -> bool {
        let at = random.below(self.offers.len());
        let offer = &mut self.offers[at];
        if !offer.listed {
            return false;
        }
        offer.up = random.chance(60);
        offer.accepting = random.chance(60);
        self.tell_state(at);
        true
    }

    fn tell_state(&mut self, at: usize) {
        let offer = &self.offers[at];
        let mut entry = directory::Service::new(offer.id, Action::Update);
        let (up, accepting_requests) = (offer.up, Some(offer.accepting));
        entry.state = Some(Part::Update(ServiceState { up, accepting_requests, status: None }));
        self.directory_update(entry);
    }

    /// A service leaves the directory, or comes back.
    fn list_service(&mut self, random: &mut Random) -> bool {
        let at = random.below(self.offers.len());
        if !self.offers[at].listed {
            self.relist(at, random);
        } else if random.chance(30) {
            let offer = &mut self.offers[at];
            offer.listed = false;
            let (id, service) = (offer.id, offer.service);
            let gone: Vec<i32> =
                self.streams.iter().filter(|(_, s)| s.item.service == service).map(|(id, _)| *id).collect();
            for stream in gone {
                self.streams.remove(&stream);
                self.ended.insert(stream, self.now);
            }
            self.directory_update(directory::Service::delete(id));
        } else {
            return false;
        }
        true
    }

    fn relist(&mut self, at: usize, random: &mut Random) {
        let offer = &mut self.offers[at];
        (offer.listed, offer.up, offer.accepting) = (true, true, true);
        if random.chance(40) {
            offer.id += 1300;
        }
        self.ids.insert(offer.id);
        let entry = Self::entry(&self.offers[at]);
        self.directory_update(entry);
    }

    fn acknowledge(&mut self, random: &mut Random) -> bool {
        if self.posts.is_empty() {
            return false;
        }
        let (stream, domain, ack_id) = self.posts.remove(random.below(self.posts.len()));
        match random.below(10) {
            0 => {}
            1..=2 => {
                let nak_code = Some(NakCode::DENIED_BY_SRC);
                let ack = AckMsg { ack_id, nak_code, text: Some(b"P: no"), ..AckMsg::new(domain, stream) };
                self.send(|w| ack.encode(w));
            }
            _ => {
                let ack = AckMsg { ack_id, ..AckMsg::new(domain, stream) };
                self.send(|w| ack.encode(w));
            }
        }
        true
    }

    fn send_generic(&mut self, random: &mut Random) -> bool {
        let Some(id) = self.idle_stream(random) else { return false };
        let domain = Domain(self.streams[&id].item.domain);
        let generic = GenericMsg::new(domain, id);
        self.send(|w| generic.encode(w));
        true
    }

    /// Everything is as good as can be from now on.
    pub(crate) fn heal(&mut self, random: &mut Random) {
        self.healed = true;
        if !self.ready {
            return;
        }
        for at in 0..self.offers.len() {
            if !self.offers[at].listed {
                self.relist(at, random);
            } else if !(self.offers[at].up && self.offers[at].accepting) {
                (self.offers[at].up, self.offers[at].accepting) = (true, true);
                self.tell_state(at);
            }
        }
        let suspect: Vec<Item> =
            self.shared.iter().filter(|(_, shared)| shared.suspect).map(|(item, _)| *item).collect();
        for item in suspect {
            self.set_state(item, false);
        }
    }
}

/// A random change of an item's content.
pub(crate) fn changes(item: Item, rows: &super::content::Rows, random: &mut Random) -> Vec<Change> {
    let fresh = random.next() >> 40;
    let mut out = Vec::new();
    if !item.is_map() {
        let first = 1 + random.below(5) as i16;
        for fid in first..=(first + random.below(2) as i16).min(5) {
            out.push(Change::Set((0, fid), fresh + fid as u64));
        }
        return out;
    }
    let row = 1 + random.below(6) as u32;
    let there = rows.contains_key(&(row, 1));
    if there && random.chance(25) {
        out.push(Change::Delete(row));
    } else if there {
        out.push(Change::Set((row, 1 + random.below(5) as i16), fresh));
    } else {
        out.push(Change::Delete(row));
        out.extend((1..6).map(|fid| Change::Set((row, fid), fresh + fid as u64)));
    }
    out
}
