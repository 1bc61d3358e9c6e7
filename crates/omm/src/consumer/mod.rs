//! A consumer: login, directory, dictionary, and items that are kept up through every loss.

mod answer;
mod crossings;
mod dictionary;
mod item;
mod open_streams;
mod standby;
mod watchlist;

pub use answer::{Answer, Change, ItemStream};
pub use item::{ItemId, ItemRequest};
pub use standby::StandbyMode;

use crate::directory::{Changes, Directory};
use crate::servers::{ConnectionList, Server, WallClock};
use crate::session::{Disconnect, Login, Session};
use dictionary::{Download, Progress};
use rwf::dictionary::Dictionary;
use rwf::msg::{AckMsg, CloseMsg, GenericMsg, Msg, MsgClass, NakCode, PostMsg};
use rwf::rdm::directory::{self, Info, Part, Service};
use rwf::rdm::login;
use rwf::rdm::request::data_streams;
use rwf::rdm::state::{Recovery, StateBuf};
use standby::Roles;
use std::collections::VecDeque;
use std::sync::Arc;
use watchlist::Watchlist;

const SECOND: u64 = 1_000_000_000;

/// Stream of the directory.
const DIRECTORY: i32 = 2;
/// Stream of the first item.
const FIRST_ITEM: i32 = 5;

/// The settings of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerConfig {
    /// Where to connect.
    pub connections: ConnectionList,
    /// Warm standby: what servers are told of their part ([`Consumer::set_standby`], [`Consumer::set_standby_in`]); `None`: nothing.
    pub warm_standby: Option<StandbyMode>,
    /// The login: user name, application, position. Its `SingleOpen` says whether items are recovered here; where it asks for them
    /// (`DownloadConnectionConfig`), the servers that the answer names are tried before those of `connections`.
    pub login: login::Request,
    /// Whether the dictionaries of the first service that has them are wanted.
    pub dictionary: bool,
    /// How long a login may go unanswered, nanoseconds.
    pub login_timeout_ns: u64,
    /// How long a request for an item may go unanswered, nanoseconds; it is made again then.
    pub request_timeout_ns: u64,
    /// How long an item rests after the server has closed it for now, or has not answered, nanoseconds.
    pub retry_ns: u64,
    /// Requests that may go unanswered at a time, for services that say nothing about it (`OpenWindow`).
    pub open_window: u64,
    /// Most items.
    pub items_max: usize,
}

impl ConsumerConfig {
    /// A consumer of a user, with the position `127.0.0.1/net` and the usual application id 256.
    pub fn new(connections: ConnectionList, user: impl Into<String>) -> Self {
        let attributes = login::Attributes {
            application_id: Some("256".to_owned()),
            application_name: Some("omm".to_owned()),
            position: Some("127.0.0.1/net".to_owned()),
            ..login::Attributes::default()
        };
        Self {
            connections,
            warm_standby: None,
            login: login::Request {
                name: user.into(),
                attributes,
                role: Some(login::ROLE_CONSUMER),
                ..login::Request::default()
            },
            dictionary: true,
            login_timeout_ns: 45 * SECOND,
            request_timeout_ns: 15 * SECOND,
            retry_ns: SECOND,
            open_window: u64::MAX,
            items_max: 1 << 24,
        }
    }
}

/// What has happened to a consumer, apart from the messages of its items.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The server has accepted the login.
    LoggedIn(Box<login::Refresh>),
    /// The state of the login has changed; it stays open. Also the answer to a reissue.
    LoginState(StateBuf),
    /// The login was refused, or has ended. `Closed` is for good: [`Consumer::restart`] tries again.
    LoginRefused(StateBuf),
    /// A post on the stream of the login ([`Consumer::post_off_stream`]) is answered.
    LoginAck {
        /// Id of the post.
        ack_id: u32,
        /// The reason of a refusal; `None`: taken.
        nak_code: Option<NakCode>,
        /// Text of the answer.
        text: String,
    },
    /// The owner is to send what there is to send, close the connection, and say so ([`Consumer::handle_disconnected`]).
    Disconnect(Disconnect),
    /// A service can be used.
    ServiceUp {
        /// Id on this connection.
        id: u16,
        /// Name.
        name: String,
    },
    /// A service can not be used any more. Items of it that are open stay open as long as it is in the directory.
    ServiceDown {
        /// Id on this connection.
        id: u16,
        /// Name.
        name: String,
    },
    /// The dictionary is whole.
    Dictionary(Arc<Dictionary>),
    /// The dictionary could not be had; the reason. The next service, or connection, is tried.
    DictionaryFailed(String),
    /// The state of an item has changed without a message of the server's that says just this: connection or service are
    /// gone, or what the server said means something else to a consumer with this login.
    ItemState {
        /// The item.
        item: ItemId,
        /// The item's state. The item is recovered if its stream is open, and is no more otherwise.
        state: StateBuf,
    },
    /// The server has opened an item that a symbol list names ([`ItemRequest::data_streams`]). Its first message comes behind this. Nobody recovers it:
    /// an [`Event::ItemState`] says that it is over.
    Provided {
        /// The item.
        item: ItemId,
        /// The request that would have been sent.
        request: Box<ItemRequest>,
    },
    /// An item is to be had elsewhere, and is no more itself: comes after the [`Event::ItemState`] that says `Redirected`. Who still wants it opens
    /// it there.
    Redirected {
        /// The item that has ended.
        item: ItemId,
        /// What was asked for of it, with the name and service that the server says, for [`Consumer::open`].
        request: Box<ItemRequest>,
    },
}

/// A message for an item: a refresh, update, status, acknowledgement or generic message, as the server has sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemMessage<'m> {
    /// The item. A snapshot whose image is whole with this message is no item any more.
    pub item: ItemId,
    /// The message.
    pub msg: &'m [u8],
}

/// Why an item was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The consumer has as many items as it may have.
    TooManyItems,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooManyItems => f.write_str("the consumer has as many items as it may have; raise items_max"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A consumer, without I/O. See the [crate] for how it is driven.
#[derive(Debug)]
pub struct Consumer {
    session: Session,
    directory: Directory,
    /// The directory of this connection has come.
    has_directory: bool,
    download: Download,
    wants_dictionary: bool,
    watchlist: Watchlist,
    roles: Roles,
    events: VecDeque<Event>,
}

impl Consumer {
    /// A consumer that has no connection yet.
    pub fn new(config: ConsumerConfig) -> Self {
        let recovery = config.login.attributes.recovery();
        let watchlist = Watchlist::new(&config, recovery);
        Self {
            session: Session::new(config.connections, config.login, config.login_timeout_ns),
            directory: Directory::default(),
            has_directory: false,
            download: Download::default(),
            wants_dictionary: config.dictionary,
            watchlist,
            roles: Roles::new(config.warm_standby),
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

    /// The connection is gone, or could not be made. Every item is stale until it is recovered.
    pub fn handle_disconnected(&mut self, now: u64) {
        let was_up = self.session.disconnected(now);
        self.leave(was_up);
    }

    fn leave(&mut self, was_up: bool) {
        for service in self.directory.iter().filter(|service| service.is_usable()) {
            let name = service.name().unwrap_or_default().to_owned();
            self.events.push_back(Event::ServiceDown { id: service.id, name });
        }
        self.directory.clear();
        self.has_directory = false;
        self.download.abandon(None);
        if was_up {
            self.watchlist.connection_lost(&mut self.events);
        }
    }

    /// The item of a message that is an update of it and changes nothing here, as most messages are. `None`: [`Consumer::handle_message`] is to look at it. Nothing
    /// else may wait to be told, so that order is kept.
    #[inline]
    pub fn passing_update(&self, msg: &[u8]) -> Option<ItemId> {
        let stream_id = rwf::peek::stream_id(msg)?;
        let is_update = stream_id >= FIRST_ITEM && rwf::peek::class(msg) == Some(MsgClass::UPDATE);
        let is_idle = self.events.is_empty() && self.session.is_up() && !self.session.disconnects();
        let passes = is_update && is_idle && self.watchlist.passes(stream_id);
        passes.then_some(ItemId(stream_id))
    }

    /// Takes a message of the server. What is for an item is given back; everything else becomes an [`Event`].
    pub fn handle_message<'m>(&mut self, now: u64, msg: &'m [u8]) -> Option<ItemMessage<'m>> {
        let stream_id = rwf::peek::stream_id(msg)?;
        if !(0..FIRST_ITEM).contains(&stream_id) {
            let Self { session, directory, watchlist, events, .. } = self;
            if stream_id < 0 && !watchlist.adopt(now, stream_id, msg, directory, events) {
                // Opened for a list that is closed meanwhile.
                let close = CloseMsg::new(rwf::peek::domain(msg)?, stream_id);
                session.out.push(|w| close.encode(w));
            }
            if let Some(class @ (MsgClass::UPDATE | MsgClass::GENERIC | MsgClass::ACK)) = rwf::peek::class(msg) {
                // Messages of these classes change nothing here, so that they cost one look-up.
                return watchlist.pass(stream_id, class, msg);
            }
            if let Some(domain) = watchlist.opened_anew(stream_id, msg) {
                let close = CloseMsg::new(domain, stream_id);
                session.out.push(|w| close.encode(w));
            }
            let given = watchlist.message(now, stream_id, msg, directory, events);
            watchlist.send_requests(now, directory, session);
            return given;
        }
        if stream_id == self.session.stream() {
            self.login_message(now, msg);
        } else if stream_id == DIRECTORY {
            self.directory_message(now, msg);
        } else if Download::is_stream(stream_id) {
            match self.download.message(stream_id, msg) {
                Progress::Going => {}
                Progress::Done(dictionary) => self.events.push_back(Event::Dictionary(dictionary)),
                Progress::Failed(reason) => self.events.push_back(Event::DictionaryFailed(reason)),
            }
        }
        None
    }

    fn login_message(&mut self, now: u64, msg: &[u8]) {
        let was_up = self.session.is_up();
        match self.session.message(now, msg) {
            Login::Nothing => {}
            Login::Ack => {
                if let Ok(Msg::Ack(AckMsg { ack_id, nak_code, text, .. })) = Msg::decode(msg) {
                    let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
                    self.events.push_back(Event::LoginAck { ack_id, nak_code, text });
                }
            }
            Login::Accepted(refresh) => {
                self.events.push_back(Event::LoggedIn(refresh));
                self.roles.logged_in(&mut self.session);
                let filter = directory::filter::INFO
                    | directory::filter::STATE
                    | directory::filter::GROUP
                    | directory::filter::LOAD;
                let request = directory::Request { stream_id: DIRECTORY, streaming: true, service_id: None, filter };
                self.session.out.push(|w| request.encode(w));
            }
            Login::State(state) => self.events.push_back(Event::LoginState(state)),
            Login::Refused(state) => {
                self.events.push_back(Event::LoginRefused(state));
                self.leave(was_up);
            }
        }
    }

    fn directory_message(&mut self, now: u64, msg: &[u8]) {
        let Some(changes) = self.directory.message(msg).filter(|_| self.session.is_up()) else { return };
        let Changes { up, down, gone, statuses, groups } = changes;
        for (id, name) in down {
            self.download.abandon(Some(id));
            self.events.push_back(Event::ServiceDown { id, name });
        }
        for id in gone {
            self.roles.gone(id);
            self.watchlist.service_lost(id, &mut self.events);
        }
        for (id, state) in statuses {
            self.watchlist.service_status(now, id, &state, &mut self.events);
        }
        for (id, group) in groups {
            self.watchlist.group_status(now, id, &group, &mut self.events);
        }
        self.roles.tell_of(&up, &self.directory, &mut self.session);
        for id in up {
            let name = self.directory.get(id).and_then(Service::name).unwrap_or_default().to_owned();
            self.events.push_back(Event::ServiceUp { id, name });
        }
        self.has_directory = true;
        self.fetch_dictionary();
        self.watchlist.tell_unavailable(&self.directory, &mut self.events);
        self.watchlist.send_requests(now, &self.directory, &mut self.session);
    }

    fn fetch_dictionary(&mut self) {
        if !self.wants_dictionary || !self.download.is_wanted() {
            return;
        }
        let provides = |info: &Info| {
            let has = |name| info.dictionaries_provided.iter().any(|provided| provided == name);
            has(rwf::rdm::dictionary::FIELDS) && has(rwf::rdm::dictionary::ENUMS)
        };
        let mut usable = self.directory.iter().filter(|service| service.is_usable());
        let provider = usable.find(|service| service.info.as_ref().and_then(Part::value).is_some_and(provides));
        if let Some((id, name)) = provider.and_then(|service| Some((service.id, service.name()?))) {
            self.download.begin(id, name, &mut self.session.out);
        }
    }

    /// The next message to send; all of them before the owner waits.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        self.session.out.pop()
    }

    /// What has happened since; all of it before the next message is handed in, so that order is kept.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        self.session.poll_disconnect().map(Event::Disconnect)
    }

    /// When [`Consumer::handle_timeout`] (or [`Consumer::poll_connect`]) has something to do.
    pub fn timeout(&self) -> Option<u64> {
        match (self.session.timeout(), self.watchlist.timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Does what is due: gives up on answers that do not come, asks again for items that have rested.
    pub fn handle_timeout(&mut self, now: u64) {
        if self.session.timer(now) {
            self.leave(true);
        }
        self.watchlist.timer(now, &mut self.session, &mut self.events);
        self.watchlist.send_requests(now, &self.directory, &mut self.session);
    }

    /// Opens an item: its image and updates come as [`ItemMessage`]s, now or as soon as there is a server that has it.
    ///
    /// # Errors
    /// There are too many items.
    pub fn open(&mut self, now: u64, request: ItemRequest) -> Result<ItemId, OpenError> {
        let item = self.watchlist.open(request)?;
        self.opened(now, item);
        Ok(item)
    }

    /// Opens many items of one service with one message, if the server takes such (`SupportBatchRequests`): `request` is for
    /// each of `names`.
    ///
    /// # Errors
    /// There are too many items; none is opened.
    pub fn open_batch(&mut self, now: u64, request: &ItemRequest, names: &[&str]) -> Result<Vec<ItemId>, OpenError> {
        let items = self.watchlist.open_batch(request, names)?;
        if let Some(&first) = items.first() {
            self.opened(now, first);
        }
        Ok(items)
    }

    /// Items have been opened, all of one service: `item` is one of these.
    fn opened(&mut self, now: u64, item: ItemId) {
        if self.has_directory {
            self.watchlist.tell_opened(item, &self.directory, &mut self.events);
        }
        self.watchlist.send_requests(now, &self.directory, &mut self.session);
    }

    /// Changes what is asked for of an item: its view, priority, or whether it is paused. Name, service and domain stay.
    pub fn reissue(&mut self, item: ItemId, change: impl FnOnce(&mut ItemRequest)) {
        self.watchlist.reissue(item, change, &mut self.session);
    }

    /// Asks for the image of an open item once more; updates go on meanwhile. Gives whether the item is open.
    pub fn ask_again(&mut self, item: ItemId) -> bool {
        self.watchlist.ask_again(item, &mut self.session)
    }

    /// Whether the server knows the stream of an item: it is asked for, or open.
    pub fn is_open(&self, item: ItemId) -> bool {
        self.watchlist.open_domain(item).is_some()
    }

    /// Whether the whole image of an item is in, its stream is open, and the server has not said since that it is Suspect.
    pub fn is_good(&self, item: ItemId) -> bool {
        self.watchlist.is_good(item)
    }

    /// Whether the whole image of an item has come, and its stream is open.
    pub fn is_live(&self, item: ItemId) -> bool {
        self.watchlist.is_live(item)
    }

    /// Says to the server, now and after each login, whether it stands by instead of serving this consumer, in all services; for
    /// [`StandbyMode::Login`]. At the beginning it serves.
    pub fn set_standby(&mut self, stands_by: bool) {
        self.roles.set(stands_by, &mut self.session);
    }

    /// As [`Consumer::set_standby`], in one service; for [`StandbyMode::Service`].
    pub fn set_standby_in(&mut self, service: &str, stands_by: bool) {
        self.roles.set_in(service, stands_by, &self.directory, &mut self.session);
    }

    /// Whether the server of this connection understands what it is told of its part; one that does not sends updates whatever its part is.
    pub fn knows_standby(&self) -> bool {
        self.roles.is_understood(&self.session)
    }

    /// Leaves the server for the preferred one, if it is another. Gives whether it is left: [`Event::Disconnect`] comes then.
    pub fn fall_back(&mut self, now: u64) -> bool {
        let is_left = self.session.fall_back(now);
        if is_left {
            self.leave(true);
        }
        is_left
    }

    /// Whether the server of this connection can pause streams; one that cannot goes on sending.
    pub fn pauses(&self) -> bool {
        self.session.features().optimized_pause_resume == Some(true)
    }

    /// Whether the server of this connection can open what a symbol list names.
    pub fn lists_data(&self) -> bool {
        lists_data(&self.session)
    }

    /// The time that the clock on the wall shows now, for [`ConnectionList::fall_back_at`]: at the beginning, and again every minute or so, since such clocks
    /// are put forward and back.
    pub fn set_clock(&mut self, clock: WallClock) {
        self.session.set_clock(clock);
    }

    /// Whether [`Consumer::set_clock`] is of use.
    pub const fn has_schedule(&self) -> bool {
        self.session.has_schedule()
    }

    /// The dictionary is to be had elsewhere: none is downloaded that is not under way.
    pub const fn forgo_dictionary(&mut self) {
        self.wants_dictionary = false;
    }

    /// The request for an item; `None` if it is none any more.
    pub fn request(&self, item: ItemId) -> Option<&ItemRequest> {
        self.watchlist.request(item)
    }

    /// Closes an item; nothing more comes of it.
    pub fn close(&mut self, now: u64, item: ItemId) {
        self.watchlist.close(item, &mut self.session);
        self.watchlist.send_requests(now, &self.directory, &mut self.session);
    }

    /// Posts to an open item. Stream and domain are the item's. Gives whether the item is open.
    pub fn post(&mut self, item: ItemId, post: &PostMsg<'_>) -> bool {
        let Some(domain) = self.watchlist.open_domain(item) else { return false };
        let post = PostMsg { stream_id: item.stream_id(), domain, ..post.clone() };
        self.session.out.push(|w| post.encode(w))
    }

    /// Posts on the stream of the login, to the item that the post's key names. Gives whether the login is up.
    pub fn post_off_stream(&mut self, post: &PostMsg<'_>) -> bool {
        let post = PostMsg { stream_id: self.session.stream(), ..post.clone() };
        self.session.is_up() && self.session.out.push(|w| post.encode(w))
    }

    /// Sends a generic message to an open item. Stream and domain are the item's. Gives whether the item is open.
    pub fn send_generic(&mut self, item: ItemId, generic: &GenericMsg<'_>) -> bool {
        let Some(domain) = self.watchlist.open_domain(item) else { return false };
        let generic = GenericMsg { stream_id: item.stream_id(), domain, ..generic.clone() };
        self.session.out.push(|w| generic.encode(w))
    }

    /// Changes the login, such as its token, here and at the server.
    pub fn reissue_login(&mut self, change: impl FnOnce(&mut login::Request)) {
        self.session.reissue(change);
    }

    /// Ends the session in order: the login is closed, then [`Event::Disconnect`] comes.
    pub fn shut_down(&mut self) {
        let was_up = self.session.shut_down();
        self.leave(was_up);
    }

    /// Connects again after a refused login or [`Consumer::shut_down`].
    pub fn restart(&mut self, now: u64) {
        self.session.restart(now);
    }

    /// The dictionary that was downloaded.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.download.dictionary()
    }

    /// The server of the connection, or of the attempt to connect.
    pub fn server(&self) -> Option<&Server> {
        self.session.server()
    }

    /// Whether the login is accepted.
    pub const fn is_logged_in(&self) -> bool {
        self.session.is_up()
    }

    /// Whether the directory of this connection has come.
    pub const fn has_directory(&self) -> bool {
        self.has_directory
    }

    /// The services of this connection.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.directory.iter()
    }

    /// Capabilities of the server, as its login refresh says.
    pub const fn features(&self) -> &login::Features {
        self.session.features()
    }

    /// Items that there are.
    pub fn items(&self) -> usize {
        self.watchlist.len()
    }

    /// Messages for streams that are closed here: the server did not know yet.
    pub const fn late_messages(&self) -> u64 {
        self.watchlist.late()
    }

    /// Messages that could not be written because a name or text in them is too long.
    pub const fn unwritten(&self) -> u64 {
        self.session.out.failed()
    }

    /// Checks what must hold between calls; for tests.
    ///
    /// # Panics
    /// Something does not hold.
    pub fn check_invariants(&self) {
        self.watchlist.check_invariants(self.session.is_up());
    }
}

/// Whether a server can open what a symbol list names.
pub(crate) fn lists_data(session: &Session) -> bool {
    session.features().enhanced_symbol_list.is_some_and(|bits| bits & data_streams::STREAMS != 0)
}

/// What recovery means for the states that the owner is told.
pub(crate) const fn recovers(recovery: Recovery) -> bool {
    recovery.single_open
}
