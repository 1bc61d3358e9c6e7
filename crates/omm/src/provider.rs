//! An interactive provider's side of one connection: login, directory, dictionaries, and the streams of items.
//!
//! What consumers ask for is checked here (logged in, service known and up, domain offered, stream free) and refused with a
//! reason where that fails. What passes becomes an [`Event`] that the owner answers, at once or later:
//! [`Provider::refresh`], [`Provider::status`], [`Provider::update`].
//!
//! | stream of an item | left by |
//! |---|---|
//! | none | a request that passes: asked |
//! | asked: the image is owed | complete refresh: open, or none if it was a snapshot; final state: none |
//! | open | close by the consumer, final state by the owner, loss of the connection: none |

use crate::login::{LoginPort, Wanted};
use crate::outbox::Outbox;
use rwf::dictionary::Dictionary;
use rwf::msg::{
    AckMsg, Domain, GenericMsg, Msg, MsgKey, NakCode, PostFlags, PostMsg, Priority, RefreshFlags, RefreshMsg,
    RequestFlags, RequestMsg, StatusMsg, UpdateMsg,
};
use rwf::rdm::directory::{self, Action, Part, Service};
use rwf::rdm::request::{Payload, View};
use rwf::rdm::{dictionary, login};
use rwf::{DataState, Qos, State, StateCode, StreamState};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes of a part of a dictionary: goes through every session's default limits, and few of them are needed.
const DICTIONARY_PART: usize = 60_000;

/// The settings of a provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// What is offered, each with Info and State.
    pub services: Vec<Service>,
    /// What the login refresh says that this provider can do. Batches are split here.
    pub features: login::Features,
    /// What is handed out as `RWFFld` and `RWFEnum`.
    pub dictionary: Option<Arc<Dictionary>>,
    /// Most streams that one connection may have open.
    pub streams_max: usize,
    /// Most items of one batch.
    pub batch_max: usize,
}

impl Default for ProviderConfig {
    /// No services; batches of up to 10,000 and 1,000,000 streams.
    fn default() -> Self {
        Self {
            services: Vec::new(),
            features: login::Features { batch: Some(login::batch::REQUESTS), ..login::Features::default() },
            dictionary: None,
            streams_max: 1_000_000,
            batch_max: 10_000,
        }
    }
}

/// A request for an item that has passed.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Stream of the item, on this connection.
    pub stream_id: i32,
    /// Domain.
    pub domain: Domain,
    /// Id of the service.
    pub service: u16,
    /// Name of the item.
    pub name: Vec<u8>,
    /// What the name is.
    pub name_type: Option<u8>,
    /// Updates are wanted after the image.
    pub streaming: bool,
    /// The stream must not be shared.
    pub private: bool,
    /// Updates are not wanted for now.
    pub paused: bool,
    /// The fields wanted. A request for an open stream that says only that there is a view means the one that the stream has.
    pub view: Option<View>,
    /// The quality of service wanted, or the best of a range.
    pub qos: Option<Qos>,
    /// Priority.
    pub priority: Option<Priority>,
}

/// What a consumer wants.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A login; it waits for [`Provider::accept_login`] or [`Provider::refuse_login`]. Also a reissue, such as a new token.
    Login(Box<login::Request>),
    /// An item; its image is owed.
    Open(Arc<Asked>),
    /// An open item again: another view, priority, pause. An image is owed if `image` says so.
    Reissue {
        /// What is wanted from now on.
        asked: Arc<Asked>,
        /// Whether an image is wanted.
        image: bool,
    },
    /// An item is not wanted any more, or its connection is gone.
    Close {
        /// The item's stream.
        stream_id: i32,
    },
    /// The login was closed: the consumer ends the session.
    LoggedOut,
}

/// A message that goes upstream, as it came.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Upstream<'m> {
    /// A post for an open item, or on the stream of the login for an item of a known service. To be answered by
    /// [`Provider::acknowledge`] if it asks for that.
    Post(PostMsg<'m>),
    /// A generic message on an open item's stream.
    Generic(GenericMsg<'m>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The image is owed.
    Asked,
    Open,
}

#[derive(Debug, Clone)]
struct Stream {
    phase: Phase,
    /// An open stream was asked for again, and the image that was wanted with that is owed.
    wants_image: bool,
    /// Shared with the event that tells of it.
    asked: Arc<Asked>,
}

/// One connection of an interactive provider, without I/O. See the [crate] for how it is driven.
#[derive(Debug)]
pub struct Provider {
    config: Arc<ProviderConfig>,
    services: Vec<Service>,
    login: LoginPort,
    directory: Option<directory::Request>,
    streams: BTreeMap<i32, Stream>,
    out: Outbox,
    events: VecDeque<Event>,
    unexpected: u64,
}

impl Provider {
    /// A connection on which nothing has been said.
    pub fn new(config: Arc<ProviderConfig>) -> Self {
        Self {
            services: config.services.clone(),
            config,
            login: LoginPort::default(),
            directory: None,
            streams: BTreeMap::new(),
            out: Outbox::default(),
            events: VecDeque::new(),
            unexpected: 0,
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        self.out.pop()
    }

    /// What the consumer wants; all of it before the next message is handed in.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The connection is gone: so are its streams.
    pub fn handle_disconnected(&mut self) {
        let ids = std::mem::take(&mut self.streams).into_keys();
        self.events.extend(ids.map(|stream_id| Event::Close { stream_id }));
        self.login = LoginPort::default();
        self.directory = None;
        self.out.clear();
    }

    /// Takes a message of the consumer. Posts and generic messages are given back; everything else becomes an [`Event`] or is
    /// answered here.
    pub fn handle_message<'m>(&mut self, msg: &'m [u8]) -> Option<Upstream<'m>> {
        match Msg::decode(msg) {
            Ok(Msg::Request(request)) => self.request(&request),
            Ok(Msg::Close(close)) => self.close(close.stream_id),
            Ok(Msg::Post(post)) => return self.post(post).map(Upstream::Post),
            Ok(Msg::Generic(generic)) => {
                let stream = self.streams.get(&generic.stream_id);
                if stream.is_some_and(|stream| stream.asked.domain == generic.domain) {
                    return Some(Upstream::Generic(generic));
                }
                self.unexpected += 1;
            }
            _ => self.unexpected += 1,
        }
        None
    }

    fn request(&mut self, request: &RequestMsg<'_>) {
        match request.domain {
            Domain::LOGIN => self.ask_login(request),
            _ if !self.login.is_up() => {
                self.refuse(request, StateCode::USAGE_ERROR, "log in first: a login request on a stream of its own");
            }
            Domain::SOURCE => self.show_directory(directory::Request::decode(request)),
            Domain::DICTIONARY => self.hand_out_dictionary(request),
            _ if request.flags.contains(RequestFlags::HAS_BATCH) => self.batch(request),
            _ => self.ask_item(request),
        }
    }

    fn ask_login(&mut self, request: &RequestMsg<'_>) {
        if matches!(self.login.wanted(request), Wanted::SecondLogin { .. }) {
            return self.refuse(request, StateCode::USAGE_ERROR, "this connection has a login already");
        }
        let Ok(asked) = login::Request::decode(request) else {
            return self.refuse(request, StateCode::USAGE_ERROR, "the attributes of the login cannot be read");
        };
        self.events.push_back(Event::Login(Box::new(asked)));
    }

    /// Accepts a login, or confirms a reissue: its request is echoed with the features of the configuration.
    pub fn accept_login(&mut self, request: &login::Request, text: &str) {
        if let Some(refresh) = self.login.accept(request, self.config.features, text) {
            self.out.push(|w| refresh.encode(w));
        }
    }

    /// Refuses a login; the owner closes the connection when the refusal is sent.
    pub fn refuse_login(&mut self, request: &login::Request, code: StateCode, text: &str) {
        let status = self.login.refuse(request, code, text);
        self.out.push(|w| status.encode(w));
    }

    fn show_directory(&mut self, request: directory::Request) {
        let wanted = |service: &&Service| request.service_id.is_none_or(|id| id == service.id);
        let refresh = directory::Refresh::answer(&request, self.services.iter().filter(wanted).cloned().collect());
        self.out.push(|w| refresh.encode(w));
        if request.streaming {
            self.directory = Some(request);
        }
    }

    /// Changes a service, or adds one, and tells the consumer. With the deletion of a service its streams are over.
    pub fn change_service(&mut self, change: &Service) {
        if change.action == Action::Delete {
            self.services.retain(|service| service.id != change.id);
            let gone = self.streams_of(|asked| asked.service == change.id);
            for stream_id in gone {
                self.streams.remove(&stream_id);
                self.events.push_back(Event::Close { stream_id });
            }
        } else if let Some(known) = self.services.iter_mut().find(|service| service.id == change.id) {
            known.apply(change);
        } else {
            self.services.push(change.clone());
        }
        let Some(request) = self.directory.filter(|asked| asked.service_id.is_none_or(|id| id == change.id)) else {
            return;
        };
        let filter = request.filter & filter_of(change);
        if filter == 0 {
            return;
        }
        let update = directory::Update {
            stream_id: request.stream_id,
            filter: Some(filter),
            services: vec![change.clone()],
            ..directory::Update::default()
        };
        self.out.push(|w| update.encode(w));
    }

    fn streams_of(&self, wanted: impl Fn(&Asked) -> bool) -> Vec<i32> {
        let of = self.streams.iter().filter(|(_, stream)| wanted(&stream.asked));
        of.map(|(&id, _)| id).collect()
    }

    fn hand_out_dictionary(&mut self, request: &RequestMsg<'_>) {
        let asked = dictionary::Request::decode(request);
        let config = Arc::clone(&self.config);
        let parts = config.dictionary.as_ref().and_then(|known| dictionary::RefreshParts::answer(known, &asked));
        let Some(mut parts) = parts else {
            let known =
                if config.dictionary.is_some() { "there are RWFFld and RWFEnum" } else { "there are none here" };
            let text = format!("no dictionary {:?}; {known}", asked.name);
            return self.refuse(request, StateCode::NOT_FOUND, &text);
        };
        let mut buffer = vec![0; DICTIONARY_PART];
        while !parts.is_done() {
            let mut w = rwf::wire::Writer::new(&mut buffer);
            if parts.write(true, &mut w).is_err() {
                self.unexpected += 1;
                return;
            }
            let part = w.into_written();
            self.out.push(|w| w.bytes(part));
        }
    }

    fn batch(&mut self, request: &RequestMsg<'_>) {
        let payload = Payload::of_request(request).ok();
        let Some(names) = payload.as_ref().and_then(|payload| payload.items.as_ref()).filter(|names| !names.is_empty())
        else {
            return self.refuse(request, StateCode::INVALID_ARGUMENT, "the batch has no :ItemList");
        };
        let fits = names.len() <= self.config.batch_max
            && i32::try_from(names.len()).is_ok_and(|count| request.stream_id.checked_add(count).is_some());
        if !fits {
            return self.refuse(
                request,
                StateCode::TOO_MANY_ITEMS,
                "the batch has more items than are taken at a time",
            );
        }
        let text = format!("Processed {} total items from Batch Request.", names.len());
        let state = State::new(StreamState::CLOSED, DataState::OK, StateCode::NONE, &text);
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(request.domain, request.stream_id) };
        self.out.push(|w| status.encode(w));
        for (name, stream_id) in names.iter().zip(request.stream_id + 1..) {
            let flags = request.flags.without(RequestFlags::HAS_BATCH);
            let key = MsgKey { name: Some(name), ..request.key };
            self.ask_item(&RequestMsg { stream_id, flags, key, ..request.clone() });
        }
    }

    /// Why an item cannot be had.
    fn objection(&self, request: &RequestMsg<'_>, service: Option<&Service>) -> Option<(StateCode, String)> {
        let Some(service) = service else { return Some((StateCode::SOURCE_UNKNOWN, self.unknown_service(request))) };
        let info = service.info.as_ref().and_then(Part::value);
        if info.is_some_and(|info| !info.capabilities.is_empty() && !info.capabilities.contains(&request.domain)) {
            let name = service.name().unwrap_or("the service");
            return Some((StateCode::USAGE_ERROR, format!("{name} has no items of domain {}", request.domain.0)));
        }
        if request.key.name.is_none_or(<[u8]>::is_empty) {
            return Some((StateCode::INVALID_ARGUMENT, "the request names no item".to_owned()));
        }
        let full = self.streams.len() >= self.config.streams_max;
        let text = || format!("the connection has {} streams, as many as it may have", self.streams.len());
        full.then(|| (StateCode::TOO_MANY_ITEMS, text()))
    }

    /// Names the services that there are instead of one that is not.
    fn unknown_service(&self, request: &RequestMsg<'_>) -> String {
        let known = self.services.iter().take(5).map(|s| format!("{} is {}", s.name().unwrap_or("?"), s.id));
        let known = known.collect::<Vec<_>>().join(", ");
        let asked =
            request.key.service_id.map_or("the request names no service".to_owned(), |id| format!("no service {id}"));
        if known.is_empty() { asked } else { format!("{asked}; {known}") }
    }

    /// The service of a message that names it, or need not because there is no other one.
    fn service_of(&self, named: Option<u16>) -> Option<&Service> {
        match named {
            Some(id) => self.services.iter().find(|service| service.id == id),
            None => self.services.first().filter(|_| self.services.len() == 1),
        }
    }

    fn ask_item(&mut self, request: &RequestMsg<'_>) {
        if let Some(known) = self.streams.get(&request.stream_id) {
            let service = known.asked.service;
            return self.ask_again(request, service);
        }
        let service = self.service_of(request.key.service_id);
        if let Some((code, text)) = self.objection(request, service) {
            return self.refuse(request, code, &text);
        }
        if let Some(service) = service.filter(|service| service.is_usable()) {
            let asked = Arc::new(asked(request, service.id));
            let stream = Stream { phase: Phase::Asked, wants_image: false, asked: Arc::clone(&asked) };
            self.streams.insert(request.stream_id, stream);
            self.events.push_back(Event::Open(asked));
        } else {
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "Service is down");
            let status = StatusMsg { state: Some(state), ..StatusMsg::new(request.domain, request.stream_id) };
            self.out.push(|w| status.encode(w));
        }
    }

    fn ask_again(&mut self, request: &RequestMsg<'_>, service: u16) {
        let image = !request.flags.contains(RequestFlags::NO_REFRESH);
        let mut asked = asked(request, service);
        let Some(stream) = self.streams.get_mut(&request.stream_id) else { return };
        if asked.view.is_none() && request.flags.contains(RequestFlags::HAS_VIEW) {
            asked.view.clone_from(&stream.asked.view);
        }
        let asked = Arc::new(asked);
        stream.asked = Arc::clone(&asked);
        stream.wants_image |= image;
        self.events.push_back(Event::Reissue { asked, image });
    }

    fn close(&mut self, stream_id: i32) {
        match self.login {
            login if login.is_on(stream_id) => {
                self.handle_disconnected();
                self.events.push_back(Event::LoggedOut);
            }
            _ if self.directory.is_some_and(|request| request.stream_id == stream_id) => self.directory = None,
            _ => {
                if self.streams.remove(&stream_id).is_some() {
                    self.events.push_back(Event::Close { stream_id });
                }
            }
        }
    }

    /// A post that may be one is given to the owner; others are refused here.
    fn post<'m>(&mut self, post: PostMsg<'m>) -> Option<PostMsg<'m>> {
        let stream = self.streams.get(&post.stream_id);
        let off_stream = self.login.is_on(post.stream_id);
        let named = post.key.as_ref().and_then(|key| key.service_id);
        let known = self.service_of(named.or(stream.map(|stream| stream.asked.service)));
        let (code, text) = match known {
            _ if stream.is_none() && !off_stream => (NakCode::NOT_OPEN, "the stream of the post is not open here"),
            None => (NakCode::SOURCE_UNKNOWN, "the service of the post is not known here"),
            Some(known) if !known.is_usable() => (NakCode::SOURCE_DOWN, "the service is down"),
            Some(_) => return Some(post),
        };
        self.acknowledge(&post, Some(code), text);
        None
    }

    /// Answers a post, if it asks for that.
    pub fn acknowledge(&mut self, post: &PostMsg<'_>, nak_code: Option<NakCode>, text: &str) {
        if let Some(ack) = answer(post, nak_code, text) {
            self.out.push(|w| ack.encode(w));
        }
    }

    /// Sends a part of an image, on the stream that `refresh` names. Solicited, key and stream state follow from what was
    /// asked; data, parts and flags are the owner's. Gives whether the stream is there.
    pub fn refresh(&mut self, refresh: &RefreshMsg<'_>) -> bool {
        let stream_id = refresh.stream_id;
        let Some(stream) = self.streams.get_mut(&stream_id) else { return false };
        let asked = &stream.asked;
        let solicited = stream.phase == Phase::Asked || stream.wants_image;
        let mut flags = refresh.flags;
        flags.set(RefreshFlags::SOLICITED, solicited);
        flags.set(RefreshFlags::PRIVATE_STREAM, asked.private);
        let key = MsgKey { name_type: asked.name_type, ..MsgKey::item(asked.service, &asked.name) };
        let mut state = refresh.state;
        if !asked.streaming && state.stream == StreamState::OPEN {
            state.stream = StreamState::NON_STREAMING;
        }
        let key = solicited.then_some(key).or(refresh.key);
        let msg = RefreshMsg { flags, key, state, domain: asked.domain, ..refresh.clone() };
        self.out.push(|w| msg.encode(w));
        if flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            (stream.phase, stream.wants_image) = (Phase::Open, false);
        }
        let over = flags.contains(RefreshFlags::REFRESH_COMPLETE) && state.stream == StreamState::NON_STREAMING;
        if over || state.stream.is_final() {
            self.streams.remove(&stream_id);
        }
        true
    }

    /// Sends an update on the stream that it names. Gives whether the stream is open.
    pub fn update(&mut self, update: &UpdateMsg<'_>) -> bool {
        let open = self.streams.get(&update.stream_id).is_some_and(|stream| stream.phase == Phase::Open);
        open && self.out.push(|w| update.encode(w))
    }

    /// Sends a state for a stream; a final one ends it, and refuses the item if its image is still owed. Gives whether the stream is
    /// there.
    pub fn status(&mut self, stream_id: i32, state: State<'_>) -> bool {
        let Some(Stream { phase, asked, .. }) = self.streams.get(&stream_id) else { return false };
        let key = MsgKey { name_type: asked.name_type, ..MsgKey::item(asked.service, &asked.name) };
        let key = (*phase == Phase::Asked).then_some(key);
        let status = StatusMsg { state: Some(state), key, ..StatusMsg::new(asked.domain, stream_id) };
        self.out.push(|w| status.encode(w));
        if state.stream.is_final() {
            self.streams.remove(&stream_id);
        }
        true
    }

    /// Sends a generic message on the stream that it names. Gives whether the stream is open.
    pub fn send_generic(&mut self, generic: &GenericMsg<'_>) -> bool {
        let open = self.streams.get(&generic.stream_id).is_some_and(|stream| stream.asked.domain == generic.domain);
        open && self.out.push(|w| generic.encode(w))
    }

    /// What is asked for on a stream.
    pub fn stream(&self, stream_id: i32) -> Option<&Asked> {
        self.streams.get(&stream_id).map(|stream| &*stream.asked)
    }

    /// Streams of items.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether a login is accepted.
    pub const fn is_logged_in(&self) -> bool {
        self.login.is_up()
    }

    /// Messages that could not be read, or make no sense here.
    pub const fn unexpected(&self) -> u64 {
        self.unexpected
    }

    fn refuse(&mut self, request: &RequestMsg<'_>, code: StateCode, text: &str) {
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, code, text);
        let key = Some(MsgKey { attrib: None, ..request.key });
        let status = StatusMsg { state: Some(state), key, ..StatusMsg::new(request.domain, request.stream_id) };
        self.out.push(|w| status.encode(w));
    }
}

/// The answer to a post that asks for one.
pub(crate) fn answer<'t>(post: &PostMsg<'_>, nak_code: Option<NakCode>, text: &'t str) -> Option<AckMsg<'t>> {
    post.flags.contains(PostFlags::ACK).then(|| AckMsg {
        ack_id: post.post_id.unwrap_or(0),
        nak_code,
        text: (!text.is_empty()).then_some(text.as_bytes()),
        seq_num: post.seq_num,
        ..AckMsg::new(post.domain, post.stream_id)
    })
}

/// The filters of the directory of which a change of a service says something.
pub(crate) fn filter_of(change: &Service) -> u32 {
    let said = [
        (directory::filter::INFO, change.info.is_some()),
        (directory::filter::STATE, change.state.is_some()),
        (directory::filter::GROUP, !change.groups.is_empty()),
        (directory::filter::LOAD, change.load.is_some()),
        (directory::filter::DATA, change.data.is_some()),
        (directory::filter::LINK, change.links.is_some()),
    ];
    match said.into_iter().filter(|(_, is_there)| *is_there).fold(0, |all, (bit, _)| all | bit) {
        // The deletion of the service.
        0 => directory::filter::ALL,
        filter => filter,
    }
}

fn asked(request: &RequestMsg<'_>, service: u16) -> Asked {
    let has_view = request.flags.contains(RequestFlags::HAS_VIEW);
    let view =
        has_view.then(|| Payload::of_request(request).map_or(Some(View::Invalid), |payload| payload.view)).flatten();
    Asked {
        stream_id: request.stream_id,
        domain: request.domain,
        service,
        name: request.key.name.unwrap_or_default().to_vec(),
        name_type: request.key.name_type,
        streaming: request.flags.contains(RequestFlags::STREAMING),
        private: request.flags.contains(RequestFlags::PRIVATE_STREAM),
        paused: request.flags.contains(RequestFlags::PAUSE),
        view,
        qos: request.qos,
        priority: request.priority,
    }
}
