//! A non-interactive provider: it connects to a server, logs in, says which services it has, and publishes unasked.
//!
//! After a loss everything has to be published again: [`Event::Ready`] says when, with each connection.

use crate::provider::{answer, filter_of};
use crate::servers::{ConnectionList, Server};
use crate::session::{Disconnect, Login, Session};
use rwf::State;
use rwf::msg::{CloseMsg, Domain, MsgClass, MsgKey, NakCode, PostMsg, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::rdm::directory::{self, Action, Service};
use rwf::rdm::login;
use rwf::rdm::state::StateBuf;
use std::collections::{BTreeMap, VecDeque};

/// Stream of the directory, which nobody asked for.
const DIRECTORY: i32 = 0;

/// The settings of a publisher.
#[derive(Debug, Clone)]
pub struct PublisherConfig {
    /// Where to connect.
    pub connections: ConnectionList,
    /// The login: user name, application, position. The role is that of a provider whatever it says.
    pub login: login::Request,
    /// What is offered, each with Info and State.
    pub services: Vec<Service>,
    /// How long a login may go unanswered, nanoseconds.
    pub login_timeout_ns: u64,
}

/// What has happened to a publisher.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The login was accepted and the services are announced: every item is to be published now, image first.
    Ready(Box<login::Refresh>),
    /// The state of the login has changed; it stays open.
    LoginState(StateBuf),
    /// The login was refused, or has ended. `Closed` is for good: [`Publisher::restart`] tries again.
    LoginRefused(StateBuf),
    /// The owner is to send what there is to send, close the connection, and say so.
    Disconnect(Disconnect),
    /// The connection on which was published is gone.
    Lost,
}

/// A stream on which an item is published. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(i32);

impl StreamId {
    /// The number on the wire.
    pub const fn get(self) -> i32 {
        self.0
    }
}

#[derive(Debug)]
struct Item {
    domain: Domain,
    service: u16,
    name: Box<str>,
    /// The image has gone out on this connection.
    published: bool,
}

/// A non-interactive provider, without I/O. See the [crate] for how it is driven.
#[derive(Debug)]
pub struct Publisher {
    session: Session,
    services: Vec<Service>,
    items: BTreeMap<i32, Item>,
    next_stream: i32,
    events: VecDeque<Event>,
}

impl Publisher {
    /// A publisher that has no connection yet.
    pub fn new(config: PublisherConfig) -> Self {
        let login = login::Request { role: Some(login::ROLE_PROVIDER), ..config.login };
        Self {
            session: Session::new(config.connections, login, config.login_timeout_ns),
            services: config.services,
            items: BTreeMap::new(),
            next_stream: -1,
            events: VecDeque::new(),
        }
    }

    /// The server to connect to now; afterwards the owner says how that went.
    pub fn poll_connect(&mut self, now: u64) -> Option<&Server> {
        self.session.poll_connect(now)
    }

    /// The connection is there, and messages can be sent.
    pub fn handle_connected(&mut self, now: u64) {
        self.session.connected(now);
    }

    /// The connection is gone, or could not be made.
    pub fn handle_disconnected(&mut self, now: u64) {
        let was_up = self.session.disconnected(now);
        self.leave(was_up);
    }

    fn leave(&mut self, was_up: bool) {
        for item in self.items.values_mut() {
            item.published = false;
        }
        if was_up {
            self.events.push_back(Event::Lost);
        }
    }

    /// Takes a message of the server. An item that it closes is not published any more until it is refreshed. A post of a consumer for one of the items is given back: the owner
    /// answers it ([`Publisher::acknowledge`]).
    pub fn handle_message<'m>(&mut self, now: u64, msg: &'m [u8]) -> Option<PostMsg<'m>> {
        let stream = rwf::peek::stream_id(msg)?;
        if stream != self.session.stream() {
            if rwf::peek::class(msg) == Some(MsgClass::CLOSE) {
                // Nobody wants the item: there are no updates of it until its image is published again.
                self.items.get_mut(&stream)?.published = false;
                return None;
            }
            return PostMsg::decode(msg).ok().filter(|post| self.items.contains_key(&post.stream_id));
        }
        let was_up = self.session.is_up();
        match self.session.message(now, msg) {
            Login::Nothing | Login::Ack => {}
            Login::Accepted(refresh) => {
                self.announce();
                self.events.push_back(Event::Ready(refresh));
            }
            Login::State(state) => self.events.push_back(Event::LoginState(state)),
            Login::Refused(state) => {
                self.events.push_back(Event::LoginRefused(state));
                self.leave(was_up);
            }
        }
        None
    }

    fn announce(&mut self) {
        let refresh = directory::Refresh {
            stream_id: DIRECTORY,
            solicited: false,
            complete: true,
            clear_cache: true,
            sequence: None,
            state: State::OPEN_OK.into(),
            service_id: None,
            filter: Some(directory::filter::ALL),
            services: self.services.clone(),
        };
        self.session.out.push(|w| refresh.encode(w));
    }

    /// Changes a service, or adds one, and tells the server.
    pub fn change_service(&mut self, change: &Service) {
        if change.action == Action::Delete {
            self.services.retain(|service| service.id != change.id);
            self.items.retain(|_, item| item.service != change.id);
        } else if let Some(known) = self.services.iter_mut().find(|service| service.id == change.id) {
            known.apply(change);
        } else {
            self.services.push(change.clone());
        }
        if self.session.is_up() {
            let update = directory::Update {
                stream_id: DIRECTORY,
                filter: Some(filter_of(change)),
                services: vec![change.clone()],
                ..directory::Update::default()
            };
            self.session.out.push(|w| update.encode(w));
        }
    }

    /// A stream for an item, to publish on; `None` when all two thousand million are used up.
    pub fn open(&mut self, domain: Domain, service: u16, name: impl Into<Box<str>>) -> Option<StreamId> {
        let id = self.next_stream;
        self.next_stream = id.checked_sub(1)?;
        self.items.insert(id, Item { domain, service, name: name.into(), published: false });
        Some(StreamId(id))
    }

    /// Publishes an image, or a part of one: key, domain and stream are the item's. Gives whether it was sent.
    pub fn refresh(&mut self, stream: StreamId, refresh: &RefreshMsg<'_>) -> bool {
        let Some(item) = self.items.get_mut(&stream.0).filter(|_| self.session.is_up()) else { return false };
        item.published = true;
        let key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(item.service, item.name.as_bytes()) });
        let msg = RefreshMsg { stream_id: stream.0, domain: item.domain, key, ..refresh.clone() };
        self.session.out.push(|w| msg.encode(w))
    }

    /// Publishes an update. Gives whether it was sent: before an item's image on this connection there are none.
    pub fn update(&mut self, stream: StreamId, update: &UpdateMsg<'_>) -> bool {
        let Some(item) = self.items.get(&stream.0).filter(|item| item.published) else { return false };
        let msg = UpdateMsg { stream_id: stream.0, domain: item.domain, ..update.clone() };
        self.session.out.push(|w| msg.encode(w))
    }

    /// Publishes a state; a final one ends the item. Gives whether it was sent.
    pub fn status(&mut self, stream: StreamId, state: State<'_>) -> bool {
        let Some(item) = self.items.get(&stream.0).filter(|item| item.published) else { return false };
        let msg = StatusMsg { state: Some(state), ..StatusMsg::new(item.domain, stream.0) };
        if state.stream.is_final() {
            self.items.remove(&stream.0);
        }
        self.session.out.push(|w| msg.encode(w))
    }

    /// Ends an item.
    pub fn close(&mut self, stream: StreamId) {
        if let Some(item) = self.items.remove(&stream.0).filter(|item| item.published) {
            let close = CloseMsg::new(item.domain, stream.0);
            self.session.out.push(|w| close.encode(w));
        }
    }

    /// Answers a post, if it asks for that.
    pub fn acknowledge(&mut self, post: &PostMsg<'_>, nak_code: Option<NakCode>, text: &str) {
        if let Some(ack) = answer(post, nak_code, text) {
            self.session.out.push(|w| ack.encode(w));
        }
    }

    /// The next message to send; all of them before the owner waits.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        self.session.out.pop()
    }

    /// What has happened since; all of it before the next message is handed in.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        self.session.poll_disconnect().map(Event::Disconnect)
    }

    /// When [`Publisher::handle_timeout`] (or [`Publisher::poll_connect`]) has something to do.
    pub const fn timeout(&self) -> Option<u64> {
        self.session.timeout()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: u64) {
        if self.session.timer(now) {
            self.leave(true);
        }
    }

    /// Changes the login, such as its token, here and at the server.
    pub fn reissue_login(&mut self, change: impl FnOnce(&mut login::Request)) {
        self.session.reissue(|request| {
            change(request);
            request.role = Some(login::ROLE_PROVIDER);
        });
    }

    /// Ends the session in order: the login is closed, then [`Event::Disconnect`] comes.
    pub fn shut_down(&mut self) {
        let was_up = self.session.shut_down();
        self.leave(was_up);
    }

    /// Connects again after a refused login or [`Publisher::shut_down`].
    pub fn restart(&mut self, now: u64) {
        self.session.restart(now);
    }

    /// Whether the login is accepted: what is published now goes out.
    pub const fn is_ready(&self) -> bool {
        self.session.is_up()
    }

    /// The server of the connection, or of the attempt to connect.
    pub fn server(&self) -> Option<&Server> {
        self.session.server()
    }

    /// Messages that could not be written because a name or text in them is too long.
    pub const fn unwritten(&self) -> u64 {
        self.session.out.failed()
    }
}
