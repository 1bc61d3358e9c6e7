//! Items that an application publishes, with their images: as an interactive provider, whom consumers and servers dial and ask, and as a
//! non-interactive one, which dials a server and publishes unasked; the application says only what each item is now.

mod views;

use omm::provider::{self, Asked, Provider, ProviderConfig, Upstream};
use omm::publisher::{self, Publisher, PublisherConfig, StreamId};
use rwf::dictionary::Dictionary;
use rwf::image::{Image, Plans};
use rwf::msg::{Domain, GenericFlags, GenericMsg, MsgClass, NakCode, RefreshFlags, RefreshMsg, UpdateFlags, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::wire::encode_growing;
use rwf::{DataState, DataType, State, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use views::{ViewId, Views};

/// The answer to posts where none are taken.
const NO_POSTS: &str = "no posts are taken here";
/// Longest image, bytes.
const IMAGE_MAX: usize = 1 << 24;
/// Longest body of an update, bytes: its message, with header and key, is to have a place among the longest that are sent.
const UPDATE_MAX: usize = IMAGE_MAX - 4_096;

/// State of an item whose image has grown longer than that: who wants one gets this.
const TOO_LONG: State<'static> = State {
    stream: StreamState::CLOSED,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"The item's image has more than 16,777,216 bytes and is not sent.",
};

/// An item's domain and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemName {
    /// The domain.
    pub domain: Domain,
    /// The name.
    pub name: Box<str>,
}

/// The answer to a request for an item that is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unpublished {
    /// Refused: there is no such item.
    #[default]
    Refuse,
    /// Left open until it is published; [`Event::Wanted`] says that somebody waits.
    Wait,
}

/// The settings of a publication.
#[derive(Debug, Clone)]
pub struct PublicationConfig {
    /// Name of the service.
    pub service: String,
    /// Id of the service.
    pub service_id: u16,
    /// Domains of the items.
    pub domains: Vec<Domain>,
    /// The dictionary that is handed out, and by which fields ripple.
    pub dictionary: Arc<Dictionary>,
    /// Requests for other items.
    pub unpublished: Unpublished,
    /// Whether posts are taken; they are refused otherwise.
    pub takes_posts: bool,
    /// Most items that are wanted and not published.
    pub wanted_max: usize,
}

impl PublicationConfig {
    /// A service of market prices with the built-in dictionary, that refuses what is not published, and posts.
    pub fn new(service: impl Into<String>) -> Self {
        Self {
            service: service.into(),
            service_id: 1,
            domains: vec![Domain::MARKET_PRICE],
            dictionary: Arc::new(Dictionary::builtin()),
            unpublished: Unpublished::Refuse,
            takes_posts: false,
            wanted_max: 1_000_000,
        }
    }

    /// The service as the directory has it.
    pub fn service(&self) -> Service {
        let dictionaries = || vec!["RWFFld".to_owned(), "RWFEnum".to_owned()];
        let mut service = Service::new(self.service_id, Action::Add);
        service.info = Some(Part::Set(Info {
            name: self.service.clone(),
            capabilities: self.domains.iter().copied().chain([Domain::DICTIONARY]).collect(),
            dictionaries_provided: dictionaries(),
            dictionaries_used: dictionaries(),
            ..Info::default()
        }));
        service.state = Some(Part::Set(ServiceState::new(true)));
        service
    }
}

/// A stream on which a consumer has an item open, at the interactive side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watcher {
    conn: u64,
    stream_id: i32,
}

/// Messages of watchers to a publication.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Somebody has asked for an item that nobody had asked for.
    Wanted(ItemName),
    /// Nobody wants the item any more.
    Unwanted(ItemName),
    /// A consumer has published: field list or other data of an item. It has been acknowledged, and was not applied: publish it if it is to be seen.
    Posted {
        /// The item.
        item: ItemName,
        /// Type of the data.
        container: DataType,
        /// The data.
        body: Vec<u8>,
    },
    /// A consumer has said something on an item's stream, which is for the application alone; [`Publication::send_generic`] answers.
    Generic {
        /// The item.
        item: ItemName,
        /// The peer that has said so.
        by: Watcher,
        /// Type of the data.
        container: DataType,
        /// The data.
        body: Vec<u8>,
    },
    /// The server of the non-interactive side has taken the login: everything is published there.
    Ready,
    /// The server of the non-interactive side is lost.
    Lost,
    /// The server of the non-interactive side has refused the login; the reason.
    Refused(String),
    /// The connection of the non-interactive side is to be closed behind what there is to send.
    Disconnect,
}

/// How a stream's consumer watches the item.
#[derive(Debug, Clone, Copy, Default)]
struct Watching {
    /// Everything if `None`.
    view: Option<ViewId>,
    is_paused: bool,
    /// Updates were left out in the pause.
    has_missed: bool,
}

/// A connection of the interactive side.
#[derive(Debug)]
struct Connection {
    provider: Provider,
    /// The items of its streams.
    names: HashMap<i32, ItemName>,
    /// Its login says that all rests.
    is_paused: bool,
}

#[derive(Debug, Default)]
struct Item {
    image: Image,
    /// By connection and stream.
    streams: BTreeMap<(u64, i32), Watching>,
    published: Option<StreamId>,
}

/// Published items. Connections of the interactive side are numbered by the owner.
#[derive(Debug)]
pub struct Publication {
    config: PublicationConfig,
    provider_config: Arc<ProviderConfig>,
    plans: Plans,
    items: HashMap<ItemName, Item>,
    wanted: usize,
    connections: HashMap<u64, Connection>,
    /// Connections that have something to send.
    unsent: BTreeSet<u64>,
    publisher: Option<Publisher>,
    by_stream: HashMap<i32, ItemName>,
    events: VecDeque<Event>,
    views: Views,
    room: Vec<u8>,
}

impl Publication {
    /// Nothing is published yet. `dials` is the non-interactive side, if there is one: where to connect, and as whom.
    pub fn new(config: PublicationConfig, dials: Option<(omm::ConnectionList, rwf::rdm::login::Request)>) -> Self {
        let service = config.service();
        let publisher = dials.map(|(connections, login)| {
            let services = vec![service.clone()];
            Publisher::new(PublisherConfig { connections, login, services, login_timeout_ns: 45_000_000_000 })
        });
        let mut provider_config = ProviderConfig {
            services: vec![service],
            dictionary: Some(Arc::clone(&config.dictionary)),
            ..ProviderConfig::default()
        };
        // Servers and consumers ask the login whether posts are of any use.
        provider_config.features.post = Some(config.takes_posts);
        provider_config.features.view = Some(true);
        provider_config.features.optimized_pause_resume = Some(true);
        Self {
            plans: Plans::new(Some(Arc::clone(&config.dictionary))),
            config,
            provider_config: Arc::new(provider_config),
            items: HashMap::new(),
            wanted: 0,
            connections: HashMap::new(),
            unsent: BTreeSet::new(),
            publisher,
            by_stream: HashMap::new(),
            events: VecDeque::new(),
            views: Views::default(),
            room: Vec::new(),
        }
    }

    /// The dictionary.
    pub const fn dictionary(&self) -> &Arc<Dictionary> {
        &self.config.dictionary
    }

    /// The non-interactive side, which is driven as in [`omm`]; [`Publication::publisher_message`] takes its messages.
    pub const fn publisher(&mut self) -> Option<&mut Publisher> {
        self.publisher.as_mut()
    }

    /// Publishes an item: the first time the body is its image, then an update of it. Bodies are field lists or what else the domain has.
    ///
    /// # Errors
    /// The body cannot be applied to the item's image, or is longer than 16,773,120 bytes; nobody is told of it.
    pub fn publish(&mut self, item: &ItemName, container: DataType, body: &[u8]) -> Result<(), rwf::image::ApplyError> {
        let Self { items, plans, connections, unsent, publisher, views, .. } = self;
        let Some(known) = items.get_mut(item).filter(|known| known.image.is_whole()) else {
            return self.publish_image(item, container, body);
        };
        if body.len() > UPDATE_MAX {
            return Err(rwf::image::ApplyError::TooLarge("more bytes"));
        }
        // The application has said what changes: nothing else is to change with it by the dictionary's ripples.
        let flags = UpdateFlags::DO_NOT_RIPPLE;
        let update = UpdateMsg { container, flags, body, ..UpdateMsg::new(item.domain, 0) };
        known.image.update(&update, &plans.schema())?;
        views.begin();
        for (&(conn, stream_id), watching) in &mut known.streams {
            if watching.is_paused {
                watching.has_missed = true;
            } else if let Some(Connection { provider, .. }) = connections.get_mut(&conn)
                && let Some(body) = views.cut(watching.view, MsgClass::UPDATE, container, body)
            {
                provider.update(&UpdateMsg { stream_id, body, ..update.clone() });
                unsent.insert(conn);
            }
        }
        if let (Some(publisher), Some(stream)) = (publisher, known.published) {
            publisher.update(stream, &update);
        }
        Ok(())
    }

    /// Publishes an image of an item, which replaces all that was known of it.
    ///
    /// # Errors
    /// The body is malformed, or longer than 16,777,216 bytes; nobody is told of it. An image that grows longer by updates is closed where it would have to be sent.
    pub fn publish_image(
        &mut self,
        item: &ItemName,
        container: DataType,
        body: &[u8],
    ) -> Result<(), rwf::image::ApplyError> {
        let refresh = RefreshMsg {
            container,
            flags: RefreshFlags::REFRESH_COMPLETE,
            state: State::OPEN_OK,
            body,
            ..RefreshMsg::new(item.domain, 0)
        };
        if body.len() > IMAGE_MAX {
            return Err(rwf::image::ApplyError::TooLarge("more bytes"));
        }
        let mut image = Image::new();
        image.refresh(&refresh, &self.plans.schema())?;
        let known = self.items.entry(item.clone()).or_default();
        if !known.image.is_whole() && !known.streams.is_empty() {
            self.wanted -= 1;
        }
        known.image = image;
        let streams: Vec<(u64, i32)> = known.streams.keys().copied().collect();
        for (conn, stream_id) in streams {
            self.send_image(item, conn, stream_id);
        }
        self.publish_at_server(item);
        Ok(())
    }

    /// Ends an item: it is not published any more.
    pub fn end(&mut self, item: &ItemName, text: &str) {
        // An item that was never published or asked for has nobody to tell.
        let Some(known) = self.items.remove(item) else { return };
        if !known.image.is_whole() && !known.streams.is_empty() {
            self.wanted -= 1;
        }
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE, text);
        for ((conn, stream_id), watching) in known.streams {
            if let Some(view) = watching.view {
                self.views.leave(view);
            }
            if let Some(Connection { provider, names, .. }) = self.connections.get_mut(&conn) {
                names.remove(&stream_id);
                provider.status(stream_id, state);
                self.unsent.insert(conn);
            }
        }
        if let (Some(publisher), Some(stream)) = (&mut self.publisher, known.published) {
            self.by_stream.remove(&stream.get());
            publisher.status(stream, state);
        }
    }

    fn send_image(&mut self, item: &ItemName, conn: u64, stream_id: i32) {
        let Self { items, connections, room, unsent, views, .. } = self;
        let known = items.get_mut(item);
        let (Some(Connection { provider, names, .. }), Some(Item { image, streams, .. })) =
            (connections.get_mut(&conn), known)
        else {
            return debug_assert!(
                false,
                "an image of {item:?} for stream {stream_id} of connection {conn}, one of which is gone"
            );
        };
        let Some(watching) = streams.get_mut(&(conn, stream_id)) else {
            return debug_assert!(false, "{item:?} has no stream {stream_id} of connection {conn}");
        };
        // Without a whole image the stream waits for it: its first publication sends it.
        let Some(payload) = image.payload() else { return };
        let Ok(end) = encode_growing(room, 0, 1_024, IMAGE_MAX, |w| payload.write(w)) else {
            names.remove(&stream_id);
            provider.status(stream_id, TOO_LONG);
            unsent.insert(conn);
            return self.leave(item, conn, stream_id);
        };
        watching.has_missed = false;
        views.begin();
        let body = views.cut(watching.view, MsgClass::REFRESH, payload.container(), &room[..end]);
        let refresh = RefreshMsg {
            container: payload.container(),
            flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE,
            state: State::OPEN_OK,
            body: body.unwrap_or_default(),
            ..RefreshMsg::new(item.domain, stream_id)
        };
        provider.refresh(&refresh);
        unsent.insert(conn);
        if provider.stream(stream_id).is_none() {
            // A snapshot is over with its image.
            names.remove(&stream_id);
            self.leave(item, conn, stream_id);
        }
    }

    fn publish_at_server(&mut self, item: &ItemName) {
        let Self { items, publisher, by_stream, room, config, .. } = self;
        // An interactive provider alone has no server to publish at.
        let Some(publisher) = publisher else { return };
        let Some(known) = items.get_mut(item) else {
            return debug_assert!(false, "{item:?} is published and not there");
        };
        // An image that is not whole yet is published with its next update.
        let Some(payload) = known.image.payload() else { return };
        if known.published.is_none() {
            known.published = publisher.open(item.domain, config.service_id, item.name.clone());
            by_stream.extend(known.published.map(|stream| (stream.get(), item.clone())));
        }
        // Without a service at the server there is no stream: all is published when there is one.
        let Some(stream) = known.published else { return };
        // A server that is not logged in at is published to when it is.
        let is_sent = encode_growing(room, 0, 1_024, IMAGE_MAX, |w| payload.write(w)).is_ok_and(|end| {
            let refresh = RefreshMsg {
                container: payload.container(),
                flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE,
                state: State::OPEN_OK,
                body: &room[..end],
                ..RefreshMsg::new(item.domain, 0)
            };
            publisher.refresh(stream, &refresh) || !publisher.is_ready()
        });
        if !is_sent {
            by_stream.remove(&stream.get());
            known.published = None;
            if !publisher.status(stream, TOO_LONG) {
                publisher.close(stream);
            }
        }
    }

    fn leave(&mut self, item: &ItemName, conn: u64, stream_id: i32) {
        let Some(known) = self.items.get_mut(item) else {
            return debug_assert!(false, "stream {stream_id} of connection {conn} has {item:?}, which is not there");
        };
        let Some(watching) = known.streams.remove(&(conn, stream_id)) else {
            return debug_assert!(false, "{item:?} does not know its stream {stream_id} of connection {conn}");
        };
        if let Some(view) = watching.view {
            self.views.leave(view);
        }
        if !known.streams.is_empty() {
            return;
        }
        self.events.push_back(Event::Unwanted(item.clone()));
        if !known.image.is_whole() {
            self.wanted -= 1;
            self.items.remove(item);
        }
    }

    /// A connection has come in.
    pub fn opened(&mut self, conn: u64) {
        let provider = Provider::new(Arc::clone(&self.provider_config));
        self.connections.insert(conn, Connection { provider, names: HashMap::new(), is_paused: false });
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: u64) {
        // A connection that was closed before has left its items.
        let Some(Connection { names, .. }) = self.connections.remove(&conn) else { return };
        self.unsent.remove(&conn);
        for (stream_id, item) in names {
            self.leave(&item, conn, stream_id);
        }
    }

    /// Takes a message of a connection.
    pub fn message(&mut self, conn: u64, msg: &[u8]) {
        // A connection that was closed says nothing any more.
        let Some(Connection { provider, names, .. }) = self.connections.get_mut(&conn) else { return };
        self.unsent.insert(conn);
        match provider.handle_message(msg) {
            Some(Upstream::Post(post)) => {
                let name = post.key.as_ref().and_then(|key| key.name).map(|name| String::from_utf8_lossy(name).into());
                let item =
                    names.get(&post.stream_id).cloned().or(name.map(|name| ItemName { domain: post.domain, name }));
                match item.filter(|_| self.config.takes_posts) {
                    Some(item) => {
                        provider.acknowledge(&post, None, "");
                        let body = post.body.to_vec();
                        self.events.push_back(Event::Posted { item, container: post.container, body });
                    }
                    None => provider.acknowledge(&post, Some(NakCode::DENIED_BY_SRC), NO_POSTS),
                }
            }
            Some(Upstream::Generic(generic)) => {
                // A stream that was refused a moment ago has no item any more.
                if let Some(item) = names.get(&generic.stream_id).cloned() {
                    let by = Watcher { conn, stream_id: generic.stream_id };
                    let body = generic.body.to_vec();
                    self.events.push_back(Event::Generic { item, by, container: generic.container, body });
                }
            }
            _ => {}
        }
        self.take_provider_events(conn);
    }

    /// Sends a generic message to one who watches an item. Gives whether the stream is still open.
    pub fn send_generic(&mut self, to: Watcher, container: DataType, body: &[u8]) -> bool {
        let Some(Connection { provider, names, .. }) = self.connections.get_mut(&to.conn) else { return false };
        let Some(item) = names.get(&to.stream_id) else { return false };
        let flags = GenericFlags::MESSAGE_COMPLETE;
        self.unsent.insert(to.conn);
        provider.send_generic(&GenericMsg { container, flags, body, ..GenericMsg::new(item.domain, to.stream_id) })
    }

    /// Does what a connection's consumer wants.
    fn take_provider_events(&mut self, conn: u64) {
        while let Some(Connection { provider, names, .. }) = self.connections.get_mut(&conn) {
            match provider.poll_event() {
                Some(provider::Event::Login(request)) => {
                    provider.accept_login(&request, "");
                    self.pause_all(conn, request.pause);
                }
                Some(provider::Event::Open(asked)) => {
                    let name = String::from_utf8_lossy(&asked.name).into();
                    let item = ItemName { domain: asked.domain, name };
                    self.asked(conn, &asked, &item);
                }
                Some(provider::Event::Reissue { asked, image }) => {
                    if let Some(item) = names.get(&asked.stream_id).cloned() {
                        self.asked_again(conn, &asked, &item, image);
                    }
                }
                Some(provider::Event::Close { stream_id }) => {
                    if let Some(item) = names.remove(&stream_id) {
                        self.leave(&item, conn, stream_id);
                    }
                }
                Some(_) => {}
                None => break,
            }
        }
    }

    fn asked(&mut self, conn: u64, asked: &Asked, item: &ItemName) {
        let stream_id = asked.stream_id;
        let is_published = self.items.get(item).is_some_and(|known| known.image.is_whole());
        let is_wanted = self.items.contains_key(item);
        let waits = self.config.unpublished == Unpublished::Wait && (is_wanted || self.wanted < self.config.wanted_max);
        if !is_published && !waits {
            return self.refuse(conn, stream_id, (StateCode::NOT_FOUND, "no such item here"));
        }
        let view = match asked.view.as_ref().map(|view| self.views.watch(view)).transpose() {
            Ok(view) => view,
            Err(why) => return self.refuse(conn, stream_id, why),
        };
        let Some(Connection { names, is_paused, .. }) = self.connections.get_mut(&conn) else {
            return debug_assert!(false, "connection {conn} has just asked and is not there");
        };
        let is_paused = asked.paused || *is_paused;
        names.insert(stream_id, item.clone());
        let known = self.items.entry(item.clone()).or_default();
        if known.streams.is_empty() {
            self.wanted += usize::from(!is_published);
            self.events.push_back(Event::Wanted(item.clone()));
        }
        known.streams.insert((conn, stream_id), Watching { view, is_paused, has_missed: false });
        if is_published {
            self.send_image(item, conn, stream_id);
        }
    }

    /// A stream is to have another view, rest, or go on. What it has missed in a pause comes as an image, whether it asks for one or not.
    fn asked_again(&mut self, conn: u64, asked: &Asked, item: &ItemName, wants_image: bool) {
        let stream_id = asked.stream_id;
        let view = match asked.view.as_ref().map(|view| self.views.watch(view)).transpose() {
            Ok(view) => view,
            Err(why) => {
                if let Some(Connection { names, .. }) = self.connections.get_mut(&conn) {
                    names.remove(&stream_id);
                }
                self.refuse(conn, stream_id, why);
                return self.leave(item, conn, stream_id);
            }
        };
        let known = self.items.get_mut(item).and_then(|known| known.streams.get_mut(&(conn, stream_id)));
        let Some(watching) = known else {
            return debug_assert!(
                false,
                "stream {stream_id} of connection {conn} has {item:?}, which does not know it"
            );
        };
        let before = std::mem::replace(&mut watching.view, view);
        watching.is_paused = asked.paused;
        let owes_image = wants_image || (!asked.paused && watching.has_missed);
        if let Some(view) = before {
            self.views.leave(view);
        }
        if owes_image {
            self.send_image(item, conn, stream_id);
        }
    }

    /// A login says whether all streams of its connection are to rest.
    fn pause_all(&mut self, conn: u64, is_paused: bool) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return debug_assert!(false, "connection {conn} has just logged in and is not there");
        };
        if std::mem::replace(&mut connection.is_paused, is_paused) == is_paused {
            return;
        }
        let streams: Vec<(i32, ItemName)> = connection.names.iter().map(|(id, item)| (*id, item.clone())).collect();
        for (stream_id, item) in streams {
            let known = self.items.get_mut(&item).and_then(|known| known.streams.get_mut(&(conn, stream_id)));
            let Some(watching) = known else {
                debug_assert!(false, "stream {stream_id} of connection {conn} has {item:?}, which does not know it");
                continue;
            };
            watching.is_paused = is_paused;
            if !is_paused && watching.has_missed {
                self.send_image(&item, conn, stream_id);
            }
        }
    }

    fn refuse(&mut self, conn: u64, stream_id: i32, (code, text): (StateCode, &str)) {
        if let Some(Connection { provider, .. }) = self.connections.get_mut(&conn) {
            provider.status(stream_id, State::new(StreamState::CLOSED, DataState::SUSPECT, code, text));
        }
    }

    /// A connection that has something to send.
    pub fn poll_unsent(&mut self) -> Option<u64> {
        self.unsent.pop_first()
    }

    /// The next message to send on a connection.
    pub fn poll_transmit(&mut self, conn: u64) -> Option<&[u8]> {
        self.connections.get_mut(&conn)?.provider.poll_transmit()
    }

    /// Takes a message of the server of the non-interactive side.
    pub fn publisher_message(&mut self, now: u64, msg: &[u8]) {
        // Only a server that was dialled sends here.
        let Some(publisher) = &mut self.publisher else { return };
        if let Some(post) = publisher.handle_message(now, msg) {
            match self.by_stream.get(&post.stream_id).filter(|_| self.config.takes_posts) {
                Some(item) => {
                    publisher.acknowledge(&post, None, "");
                    let (item, body) = (item.clone(), post.body.to_vec());
                    self.events.push_back(Event::Posted { item, container: post.container, body });
                }
                None => publisher.acknowledge(&post, Some(NakCode::DENIED_BY_SRC), NO_POSTS),
            }
        }
        self.publisher_events();
    }

    /// Takes over what the non-interactive side has to tell: after each call to it.
    pub fn publisher_events(&mut self) {
        while let Some(event) = self.publisher.as_mut().and_then(Publisher::poll_event) {
            match event {
                publisher::Event::Ready(_) => {
                    for item in self.items.keys().cloned().collect::<Vec<_>>() {
                        self.publish_at_server(&item);
                    }
                    self.events.push_back(Event::Ready);
                }
                publisher::Event::Lost => self.events.push_back(Event::Lost),
                publisher::Event::LoginRefused(state) => {
                    self.events.push_back(Event::Refused(state.as_state().to_string()));
                }
                publisher::Event::Disconnect(_) => self.events.push_back(Event::Disconnect),
                _ => {}
            }
        }
    }

    /// Events since then.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Items that are published.
    pub fn items(&self) -> usize {
        self.items.values().filter(|item| item.image.is_whole()).count()
    }

    /// Writes the payload of a published item: type and bytes.
    pub fn payload<'r>(&self, item: &ItemName, room: &'r mut Vec<u8>) -> Option<(DataType, &'r [u8])> {
        let payload = self.items.get(item)?.image.payload()?;
        let end = encode_growing(room, 0, 1_024, IMAGE_MAX, |w| payload.write(w)).ok()?;
        Some((payload.container(), &room[..end]))
    }
}
