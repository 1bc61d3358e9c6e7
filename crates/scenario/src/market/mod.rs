//! The server that a client under test talks to: what it answers by itself, and what steps have it do. Messages in, messages out.

mod pairs;
mod steps;
mod updates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, PostFlags, PostMsg, RequestFlags, RequestMsg};
use rwf::rdm::directory::{self as rdm_directory, Part, Service};
use rwf::rdm::request::Payload;
use rwf::rdm::{dictionary, login};
use rwf::wire::Writer;
use rwf::{DataState, State, StateCode, StreamState};

use crate::directory;
use crate::encoding::bytes_of;
use crate::numbers::{DIRECTORY_STREAM, SECOND, ServiceIds};
use crate::program::{Dictionaries, Message, Posts, Stream};
use crate::special;
use crate::standby::StandbyPart;
use crate::values::{content, domain_name, has_images, price, times};
use crate::words::{self, Words};

/// Something to be done on sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A connection is to be made, to the provider under test.
    Dial,
    /// A message that goes to the judge alone: a JSON client knows without it.
    Note {
        /// The connection.
        conn: u32,
        /// RWF.
        message: Vec<u8>,
    },
    /// A message for a connection.
    Send {
        /// The connection.
        conn: u32,
        /// RWF.
        message: Vec<u8>,
    },
    /// Half of a message's frame, and then a reset.
    BreakOff {
        /// The connection.
        conn: u32,
        /// RWF.
        message: Vec<u8>,
    },
    /// A connection ends.
    Close {
        /// The connection.
        conn: u32,
        /// By a reset; otherwise in order.
        reset: bool,
    },
    /// Connections are taken, or refused.
    Listen(bool),
    /// Whether input is read.
    Read(bool),
    /// Whether pings are sent.
    Ping(bool),
    /// Whether anything is sent: what is not waits.
    Talk(bool),
    /// So many bytes a second are sent to each connection; `None`: as many as it takes.
    Pace(Option<u64>),
    /// Nothing of a connection is heard any more and nothing is said on it, not even its end: as where the host is gone, or a firewall has forgotten
    /// the connection.
    Vanish {
        /// The connection.
        conn: u32,
    },
}

/// `SupportStandbyMode` of a server that may be the active one or the standby for all of its services.
const LOGIN_BASED: u64 = 1;
/// Bytes of a part of a dictionary.
const DICTIONARY_PART: usize = 30_000;
/// Items of a connection at most: a client that asks for more is refused.
const ITEMS_MAX: usize = 200_000;

#[derive(Debug, Clone, PartialEq)]
enum Logins {
    Granted,
    Refused(String),
    Ignored,
}

#[derive(Debug)]
struct Item {
    name: String,
    service: u16,
    domain: Domain,
    streaming: bool,
    /// Its image has been sent.
    open: bool,
    seq: u32,
    /// Its item group, where a step has given it one, as words have it.
    group: Option<String>,
}

#[derive(Debug, Default)]
struct Conn {
    login: Option<login::Request>,
    logged_in: bool,
    directory: Option<(i32, u32)>,
    waits_for_directory: bool,
    services: Vec<Service>,
    ids: ServiceIds,
    items: BTreeMap<i32, Item>,
    /// The client speaks JSON.
    is_json: bool,
    /// Items that a publisher sends, by its streams.
    published: BTreeMap<i32, (String, Domain)>,
    /// A publisher has sent its directory.
    has_published: bool,
    /// What the client has said that the server is to it: by service, or for all of them.
    parts: BTreeMap<Option<u16>, StandbyPart>,
}

/// How requests for what is no item are answered.
#[derive(Debug)]
struct Given {
    dictionaries: Dictionaries,
    /// Requests for the directory are answered.
    directories: bool,
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct MarketConfig {
    /// Services, each with the words that it is offered with.
    pub services: Vec<String>,
    /// Updates a second over all open items.
    pub updates_a_second: f64,
    /// Values of images and updates come out of it, together with the names of items.
    pub seed: u64,
    /// Wall clock at time 0, seconds since 1970.
    pub wall_s: u64,
    /// It is one of a warm-standby pair, and says in its login refresh that it can be.
    pub is_paired: bool,
}

/// The server.
#[derive(Debug)]
pub struct Market {
    config: MarketConfig,
    dictionary: Dictionary,
    conns: BTreeMap<u32, Conn>,
    acts: VecDeque<Act>,
    logins: Logins,
    tokens_s: Option<f64>,
    parts: usize,
    posts: Posts,
    closes: Option<Vec<String>>,
    mute: bool,
    late_ns: u64,
    later: VecDeque<(u64, u32, Vec<u8>)>,
    given: Given,
    down: bool,
    first_id: u16,
    content: Content,
    ticks: u64,
    next_update_ns: u64,
    gap: u64,
    repeats: u64,
    swaps: u64,
    /// An update that its successor overtakes.
    overtaken: Option<(u32, Vec<u8>)>,
    first: Option<String>,
    posts_seen: u64,
}

/// What goes into images and updates.
#[derive(Debug, Default)]
struct Content {
    /// Other values since so many changes.
    values: u64,
    /// The clock of the time fields is set by so many seconds.
    clock_s: i64,
    /// Fields that are not in it.
    left_out: BTreeSet<i16>,
}

/// Whether a word is a field that is left out.
fn is_left_out(left_out: &BTreeSet<i16>, word: &str) -> bool {
    word.split_once('=').and_then(|(fid, _)| fid.parse().ok()).is_some_and(|fid: i16| left_out.contains(&fid))
}

impl Market {
    /// A server without connections.
    pub fn new(config: MarketConfig) -> Self {
        Self {
            config,
            dictionary: Dictionary::builtin(),
            conns: BTreeMap::new(),
            acts: VecDeque::new(),
            logins: Logins::Granted,
            tokens_s: None,
            parts: 1,
            posts: Posts::Acked { numbered: true },
            closes: None,
            mute: false,
            late_ns: 0,
            later: VecDeque::new(),
            given: Given { dictionaries: Dictionaries::Given, directories: true },
            down: false,
            first_id: 1,
            content: Content::default(),
            ticks: 0,
            next_update_ns: 0,
            gap: 0,
            repeats: 0,
            swaps: 0,
            overtaken: None,
            first: None,
            posts_seen: 0,
        }
    }

    /// The act that is next.
    pub fn take(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// Wall clock at a time of this clock, seconds since 1970.
    pub fn wall_s(&self, now: u64) -> u64 {
        self.config.wall_s + now / SECOND
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Whether a login is accepted.
    pub fn has_login(&self) -> bool {
        self.conns.values().any(|conn| conn.logged_in)
    }

    /// How many streaming items have their image, of a domain if one is named.
    pub fn open_items(&self, domain: Option<&str>) -> usize {
        let fits = |item: &&Item| {
            let is = |name: &str| item.domain.name().is_some_and(|known| words::camel(known) == name);
            item.open && item.streaming && domain.is_none_or(is)
        };
        self.conns.values().flat_map(|conn| conn.items.values()).filter(fits).count()
    }

    /// So many posts have come.
    pub fn posts_seen(&self) -> u64 {
        self.posts_seen
    }

    /// Whether a directory was asked for, or sent by a publisher.
    pub fn has_directory(&self) -> bool {
        self.conns.values().any(|conn| conn.directory.is_some() || conn.has_published)
    }

    /// The name of the item that was asked for first, or published first.
    pub fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// The ids that services have on a connection, by name.
    pub fn ids(&self, conn: u32) -> Option<&ServiceIds> {
        self.conns.get(&conn).map(|conn| &conn.ids)
    }

    /// The name of the item on a stream.
    pub fn item(&self, conn: u32, stream: i32) -> Option<&str> {
        let known = self.conns.get(&conn)?;
        let published = known.published.get(&stream).map(|(name, _)| name.as_str());
        known.items.get(&stream).map(|item| item.name.as_str()).or(published)
    }

    /// A connection came up.
    ///
    /// # Errors
    /// A service of the scenario has words that are not known.
    pub fn connected(&mut self, conn: u32) -> Result<(), String> {
        let mut offered = Vec::new();
        for (text, id) in self.config.services.iter().zip(self.first_id..) {
            let mut all: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let name = if all.is_empty() { String::new() } else { all.remove(0) };
            let mut service = {
                let mut words = Words::new(&all);
                let service = directory::offer(id, &name, &mut words)?;
                words.end()?;
                service
            };
            if let Some(Part::Set(info)) = &mut service.info {
                info.dictionaries_used = vec![dictionary::FIELDS.to_owned(), dictionary::ENUMS.to_owned()];
                info.dictionaries_provided.clone_from(&info.dictionaries_used);
                // EMA asks for dictionaries at services that have their domain.
                info.capabilities.push(Domain::DICTIONARY);
            }
            if let Some(Part::Set(state)) = service.state.as_mut().filter(|_| self.down) {
                state.up = false;
                state.accepting_requests = Some(false);
            }
            offered.push(service);
        }
        let ids = offered.iter().filter_map(|service| Some((service.name()?.to_owned(), service.id))).collect();
        self.conns.insert(conn, Conn { services: offered, ids, ..Conn::default() });
        Ok(())
    }

    /// The client of a connection speaks JSON: services are known to it.
    ///
    /// # Errors
    /// The directory cannot be encoded.
    pub fn speaks_json(&mut self, conn: u32) -> Result<(), String> {
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        known.is_json = true;
        let request = rdm_directory::Request {
            stream_id: DIRECTORY_STREAM,
            streaming: true,
            service_id: None,
            filter: rdm_directory::filter::ALL,
        };
        let refresh = rdm_directory::Refresh::answer(&request, known.services.clone());
        let message = bytes_of(|w| refresh.encode(w))?;
        self.acts.push_back(Act::Note { conn, message });
        Ok(())
    }

    /// A connection is over.
    pub fn closed(&mut self, conn: u32) {
        self.conns.remove(&conn);
        self.later.retain(|(_, of, _)| *of != conn);
        self.overtaken.take_if(|(of, _)| *of == conn);
    }

    fn send(&mut self, conn: u32, bytes: Vec<u8>) {
        self.acts.push_back(Act::Send { conn, message: bytes });
    }

    /// A message came in; those that cannot be decoded are not given here.
    ///
    /// # Errors
    /// An answer cannot be encoded.
    pub fn message(&mut self, now: u64, conn: u32, msg: &Msg<'_>) -> Result<(), String> {
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        match msg {
            Msg::Request(request) => match request.domain {
                Domain::LOGIN => {
                    known.login = login::Request::decode(request).ok();
                    self.login(now, conn)
                }
                Domain::SOURCE => {
                    let request = rdm_directory::Request::decode(request);
                    known.directory = Some((request.stream_id, request.filter));
                    self.directory(conn)
                }
                Domain::DICTIONARY => self.dictionary(conn, request),
                _ => self.items(now, conn, request),
            },
            Msg::Close(close) => {
                known.items.remove(&close.stream_id);
                if known.login.as_ref().is_some_and(|login| login.stream_id == close.stream_id) {
                    known.logged_in = false;
                    known.items.clear();
                }
                Ok(())
            }
            Msg::Post(post) => self.post(conn, post),
            Msg::Generic(generic) => self.told(conn, generic),
            Msg::Refresh(refresh) if refresh.domain == Domain::SOURCE => {
                known.has_published = true;
                Ok(())
            }
            Msg::Refresh(refresh) => {
                if let Some(key) = refresh.key.as_ref().filter(|key| key.name.is_some()) {
                    let name = key.name_lossy().into_owned();
                    known.published.insert(refresh.stream_id, (name.clone(), refresh.domain));
                    self.first.get_or_insert(name);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn login(&mut self, now: u64, conn: u32) -> Result<(), String> {
        let wall_s = self.wall_s(now);
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let Some(request) = known.login.clone() else { return Ok(()) };
        match &self.logins {
            Logins::Ignored => Ok(()),
            Logins::Refused(why) => {
                let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, why);
                known.login = None;
                known.logged_in = false;
                known.items.clear();
                let bytes = words::status_of(request.stream_id, Domain::LOGIN, state)?;
                self.send(conn, bytes);
                Ok(())
            }
            Logins::Granted => {
                known.logged_in = true;
                let features = login::Features {
                    post: Some(true),
                    batch: Some(login::batch::REQUESTS),
                    standby: self.config.is_paired.then_some(true),
                    standby_mode: self.config.is_paired.then_some(LOGIN_BASED),
                    ..login::Features::default()
                };
                let mut refresh = login::Refresh::accept(&request, features, "login accepted");
                let has_token = request.name_type == Some(login::name_type::AUTHENTICATION_TOKEN);
                let expires = self.tokens_s.filter(|_| has_token);
                refresh.authentication.reissue_at = expires.map(|seconds| wall_s + seconds.ceil() as u64);
                if !request.no_refresh {
                    let bytes = bytes_of(|w| refresh.encode(w))?;
                    self.send(conn, bytes);
                }
                Ok(())
            }
        }
    }

    fn directory(&mut self, conn: u32) -> Result<(), String> {
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let Some((stream_id, filter)) = known.directory else { return Ok(()) };
        known.waits_for_directory = !self.given.directories;
        if !self.given.directories {
            return Ok(());
        }
        let request = rdm_directory::Request { stream_id, streaming: true, service_id: None, filter };
        let refresh = rdm_directory::Refresh::answer(&request, known.services.clone());
        let bytes = bytes_of(|w| refresh.encode(w))?;
        self.send(conn, bytes);
        Ok(())
    }

    fn dictionary(&mut self, conn: u32, request: &RequestMsg<'_>) -> Result<(), String> {
        let request = dictionary::Request::decode(request);
        let wrong = match self.given.dictionaries {
            Dictionaries::Wrong if request.name == dictionary::FIELDS => Some(special::wrong_dictionary()?),
            _ => None,
        };
        let parts = dictionary::RefreshParts::answer(wrong.as_ref().unwrap_or(&self.dictionary), &request);
        let mut parts = match (self.given.dictionaries, parts) {
            (Dictionaries::Ignored, _) => return Ok(()),
            (Dictionaries::Given | Dictionaries::Wrong, Some(parts)) => parts,
            (Dictionaries::Refused, _) | (Dictionaries::Given | Dictionaries::Wrong, None) => {
                let text = "there is no such dictionary";
                let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, text);
                let bytes = words::status_of(request.stream_id, Domain::DICTIONARY, state)?;
                self.send(conn, bytes);
                return Ok(());
            }
        };
        while !parts.is_done() {
            let mut buf = vec![0; DICTIONARY_PART];
            let mut w = Writer::new(&mut buf);
            parts.write(true, &mut w).map_err(|error| error.to_string())?;
            let message = w.into_written().to_vec();
            self.acts.push_back(Act::Send { conn, message });
        }
        Ok(())
    }

    fn items(&mut self, now: u64, conn: u32, request: &RequestMsg<'_>) -> Result<(), String> {
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let payload = Payload::of_request(request).unwrap_or_default();
        let batch = payload.items.filter(|_| request.flags.contains(RequestFlags::HAS_BATCH));
        let stream = request.stream_id;
        if !known.logged_in {
            let text = "not logged in";
            let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::USAGE_ERROR, text);
            let bytes = words::status_of(stream, request.domain, state)?;
            self.send(conn, bytes);
            return Ok(());
        }
        let names: Vec<(i32, String)> = match &batch {
            Some(names) => (stream + 1..).zip(names.iter().map(|n| String::from_utf8_lossy(n).into_owned())).collect(),
            None => vec![(stream, request.key.name_lossy().into_owned())],
        };
        if batch.is_some() {
            let state = State::new(StreamState::CLOSED, DataState::OK, StateCode::NONE, "batch taken apart");
            let bytes = words::status_of(stream, request.domain, state)?;
            self.send(conn, bytes);
        }
        for (stream, name) in names {
            self.one_item(now, conn, request, stream, name)?;
        }
        Ok(())
    }

    fn one_item(
        &mut self,
        now: u64,
        conn: u32,
        request: &RequestMsg<'_>,
        stream: i32,
        name: String,
    ) -> Result<(), String> {
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let (domain, streaming) = (request.domain, request.flags.contains(RequestFlags::STREAMING));
        if let Some(item) = known.items.get_mut(&stream) {
            // A reissue: the image is wanted again, or nothing.
            item.streaming = streaming;
            if request.flags.contains(RequestFlags::NO_REFRESH) {
                return Ok(());
            }
            return self.answer(now, conn, stream);
        }
        let service = known.services.iter().find(|service| Some(service.id) == request.key.service_id);
        let refusal = match service {
            // Who does not know the directory cannot know that.
            None if known.is_json => Some((StreamState::CLOSED_RECOVER, StateCode::NONE, "the service is not there")),
            None => Some((StreamState::CLOSED, StateCode::USAGE_ERROR, "there is no such service")),
            Some(service) if !service.is_usable() => {
                Some((StreamState::CLOSED_RECOVER, StateCode::NONE, "the service is down"))
            }
            Some(_) if !has_images(domain) => {
                Some((StreamState::CLOSED, StateCode::NOT_FOUND, "no items in this domain"))
            }
            Some(_) if known.items.len() >= ITEMS_MAX => {
                Some((StreamState::CLOSED, StateCode::TOO_MANY_ITEMS, "more items than a scenario takes"))
            }
            Some(_) => None,
        };
        if let Some((state, code, text)) = refusal {
            let bytes = words::status_of(stream, domain, State::new(state, DataState::SUSPECT, code, text))?;
            self.send(conn, bytes);
            return Ok(());
        }
        let service = request.key.service_id.unwrap_or_default();
        known
            .items
            .insert(stream, Item { name: name.clone(), service, domain, streaming, open: false, seq: 0, group: None });
        self.first.get_or_insert(name);
        if self.mute {
            return Ok(());
        }
        if let Some(state) = self.closes.clone() {
            let message = Message { class: "STATUS".to_owned(), stream: Stream::All, words: state };
            return self.send_on(conn, stream, &message);
        }
        self.answer(now, conn, stream)
    }

    /// The image of an item, in as many parts as images have now.
    fn answer(&mut self, now: u64, conn: u32, stream: i32) -> Result<(), String> {
        for message in self.image(conn, stream, "solicited")? {
            if self.late_ns > 0 {
                self.later.push_back((now + self.late_ns, conn, message));
            } else {
                self.send(conn, message);
            }
        }
        let snapshot =
            self.conns.get(&conn).and_then(|known| known.items.get(&stream)).is_some_and(|item| !item.streaming);
        if snapshot && let Some(known) = self.conns.get_mut(&conn) {
            known.items.remove(&stream);
        }
        Ok(())
    }

    fn image(&mut self, conn: u32, stream: i32, how: &str) -> Result<Vec<Vec<u8>>, String> {
        let (seed, values, ticks) = (self.config.seed, self.content.values, self.ticks);
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(Vec::new()) };
        let Some(item) = known.items.get_mut(&stream) else { return Ok(Vec::new()) };
        item.open = true;
        let price = price(seed, values, &item.name, ticks);
        let mut content = content(item.domain, price, ticks);
        if item.domain == Domain::MARKET_PRICE {
            // First: updates have these too, and who drops the last part of an image is to miss something.
            content.splice(0..0, times(ticks, self.content.clock_s));
            content.retain(|word| !is_left_out(&self.content.left_out, word));
        }
        let parts = self.parts.min(content.len());
        let state = if item.streaming { "Open/Ok" } else { "NonStreaming/Ok" };
        let mut messages = Vec::new();
        for (number, part) in content.chunks(content.len().div_ceil(parts)).enumerate() {
            let mut all = vec![state.to_owned(), how.to_owned(), format!("domain={}", domain_name(item.domain))];
            all.extend([format!("item={}", item.name), format!("service=#{}", item.service)]);
            if number == 0 {
                all.push("clear-cache".to_owned());
            }
            if parts > 1 {
                all.push(format!("part={number}"));
            }
            if (number + 1) * content.len().div_ceil(parts) >= content.len() {
                all.push("complete".to_owned());
            }
            all.extend(part.iter().cloned());
            messages.push(words::build("REFRESH", stream, &all, &known.ids)?);
        }
        Ok(messages)
    }

    fn post(&mut self, conn: u32, post: &PostMsg<'_>) -> Result<(), String> {
        self.posts_seen += 1;
        let (true, Some(id)) = (post.flags.contains(PostFlags::ACK), post.post_id) else { return Ok(()) };
        let (seq, nak) = match &self.posts {
            Posts::Ignored => return Ok(()),
            Posts::Acked { numbered } => (post.seq_num.filter(|_| *numbered), None),
            Posts::Naked(code) => (post.seq_num, Some(code.clone())),
        };
        let bytes = words::ack_of(post.stream_id, post.domain, id, seq, nak.as_deref())?;
        self.send(conn, bytes);
        Ok(())
    }
}
