//! The consumer that an interactive provider under test has in front of it: it logs in and asks for the directory by itself, and for items as
//! steps have it do. Messages in, messages out.

use std::collections::{BTreeMap, VecDeque};

use rwf::msg::{Domain, Msg, RefreshFlags};
use rwf::rdm::directory::{self, Action, Service};
use rwf::rdm::{dictionary, login};
use rwf::{DataState, StreamState};

use crate::asks::{Ask, Opens};
use crate::encoding::bytes_of;
use crate::market::Act;
use crate::numbers::{DIRECTORY_STREAM, SECOND, ServiceIds};
use crate::program::{Message, Stream};
use crate::values::domain_name;
use crate::words;

const LOGIN_STREAM: i32 = 1;
/// Streams of items begin here; between are those of dictionaries.
const FIRST_STREAM: i32 = 10;
/// Time between two attempts to connect, nanoseconds.
const RETRY: u64 = SECOND / 5;

#[derive(Debug)]
struct Open {
    name: String,
    domain: Domain,
    service: u16,
    /// The image is whole.
    is_whole: bool,
    /// A request or reissue waits for its answer.
    waits: bool,
    streaming: bool,
}

#[derive(Debug, Default)]
struct Conn {
    asked_login: bool,
    logged_in: bool,
    has_directory: bool,
    /// What the provider takes, as its login refresh says.
    features: login::Features,
    services: Vec<Service>,
    ids: ServiceIds,
    streams: BTreeMap<i32, Open>,
    next: i32,
}

/// The consumer.
#[derive(Debug)]
pub struct Consumer {
    seed: u64,
    conns: BTreeMap<u32, Conn>,
    acts: VecDeque<Act>,
    /// Connections that it wants, those that it has included.
    wanted: usize,
    dials: usize,
    dial_at_ns: u64,
    logs_in: bool,
    first: Option<String>,
    /// Names of streams, those that have ended included: for what comes behind the end.
    names: BTreeMap<(u32, i32), String>,
    posts: u32,
}

impl Consumer {
    /// A consumer that wants one connection.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            conns: BTreeMap::new(),
            acts: VecDeque::new(),
            wanted: 1,
            dials: 0,
            dial_at_ns: 0,
            logs_in: true,
            first: None,
            names: BTreeMap::new(),
            posts: 0,
        }
    }

    /// The act that is next.
    pub fn take(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Whether a login is accepted on each connection that it wants.
    pub fn has_login(&self) -> bool {
        self.has_each(|conn| conn.logged_in)
    }

    /// Whether the directory has come on each connection that it wants.
    pub fn has_directory(&self) -> bool {
        self.has_each(|conn| conn.has_directory)
    }

    fn has_each(&self, is: impl Fn(&Conn) -> bool) -> bool {
        self.wanted > 0 && self.conns.len() >= self.wanted && self.conns.values().all(is)
    }

    /// How many streaming items have their image.
    pub fn open_items(&self, domain: Option<&str>) -> usize {
        let fits = |open: &&Open| {
            let is = |name: &str| open.domain.name().is_some_and(|known| words::camel(known) == name);
            open.is_whole && open.streaming && domain.is_none_or(is)
        };
        self.conns.values().flat_map(|conn| conn.streams.values()).filter(fits).count()
    }

    /// Whether no request waits for its answer.
    pub fn is_answered(&self) -> bool {
        self.conns.values().all(|conn| conn.streams.values().all(|open| !open.waits))
    }

    /// The name of the item that was asked for first.
    pub fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// The ids that services have on a connection, by name.
    pub fn ids(&self, conn: u32) -> Option<&ServiceIds> {
        self.conns.get(&conn).map(|conn| &conn.ids)
    }

    /// The name of the item on a stream, also of one that has ended.
    pub fn item(&self, conn: u32, stream: i32) -> Option<&str> {
        self.names.get(&(conn, stream)).map(String::as_str)
    }

    /// A connection came up: the login goes out.
    ///
    /// # Errors
    /// The login cannot be encoded.
    pub fn connected(&mut self, conn: u32) -> Result<(), String> {
        self.dials = self.dials.saturating_sub(1);
        self.conns.insert(conn, Conn { next: FIRST_STREAM, ..Conn::default() });
        if self.logs_in { self.log_in(conn) } else { Ok(()) }
    }

    fn log_in(&mut self, conn: u32) -> Result<(), String> {
        let request = login::Request { name: "quoteway".to_owned(), ..login::Request::default() };
        let bytes = bytes_of(|w| request.encode(w))?;
        if let Some(known) = self.conns.get_mut(&conn) {
            known.asked_login = true;
        }
        self.send(conn, bytes);
        Ok(())
    }

    /// A connection is over.
    pub fn closed(&mut self, now: u64, conn: u32) {
        self.conns.remove(&conn);
        self.names.retain(|(of, _), _| *of != conn);
        self.dial_at_ns = now + RETRY;
    }

    /// A connection could not be made: the provider is not there yet, or not any more.
    pub fn refused(&mut self, now: u64) {
        self.dials = self.dials.saturating_sub(1);
        self.dial_at_ns = now + RETRY;
    }

    fn send(&mut self, conn: u32, bytes: Vec<u8>) {
        self.acts.push_back(Act::Send { conn, message: bytes });
    }

    /// A message came in; those that cannot be decoded are not given here.
    ///
    /// # Errors
    /// A request cannot be encoded.
    pub fn message(&mut self, conn: u32, msg: &Msg<'_>) -> Result<(), String> {
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let state = match msg {
            Msg::Refresh(refresh) => Some(refresh.state),
            Msg::Status(status) => status.state,
            _ => None,
        };
        let ends = state.is_some_and(|state| {
            [StreamState::CLOSED, StreamState::CLOSED_RECOVER, StreamState::REDIRECTED].contains(&state.stream)
        });
        match (msg, msg.domain()) {
            (_, Domain::LOGIN) if ends => {
                known.logged_in = false;
                known.streams.clear();
            }
            (Msg::Refresh(refresh), Domain::LOGIN) => {
                if let Ok(model) = login::Refresh::decode(refresh) {
                    known.features = model.features;
                }
                let is_new = !known.logged_in && refresh.state.data == DataState::OK;
                known.logged_in |= is_new;
                if is_new && !known.has_directory {
                    return self.ask_directory(conn);
                }
            }
            (Msg::Refresh(refresh), Domain::SOURCE) => {
                known.has_directory = true;
                let services = directory::services(refresh.container, refresh.body);
                known.services(services.map_err(|error| error.to_string())?);
            }
            (Msg::Update(update), Domain::SOURCE) => {
                let services = directory::services(update.container, update.body);
                known.services(services.map_err(|error| error.to_string())?);
            }
            _ => known.item_message(msg, ends),
        }
        Ok(())
    }

    fn ask_directory(&mut self, conn: u32) -> Result<(), String> {
        let filter = directory::filter::ALL;
        let request = directory::Request { stream_id: DIRECTORY_STREAM, streaming: true, service_id: None, filter };
        let bytes = bytes_of(|w| request.encode(w))?;
        self.send(conn, bytes);
        Ok(())
    }

    /// Does what a step asks for.
    ///
    /// # Errors
    /// It cannot be done: no connection, no service, no such stream, a word that is not known.
    pub fn ask(&mut self, ask: &Ask) -> Result<(), String> {
        match ask {
            Ask::Opens(opens) => self.opens(opens),
            Ask::Dictionaries => self.dictionaries(),
            Ask::Sends(message) => self.send_message(message),
            Ask::BreaksOff(message) => self.break_off(message),
            Ask::Malformed => self.malformed(),
            Ask::Posts(stream) => self.post(stream),
            Ask::Connects => {
                self.wanted += 1;
                Ok(())
            }
            Ask::GoesAway { reset } => {
                self.wanted = 0;
                self.close_all(*reset);
                Ok(())
            }
            Ask::ComesBack => {
                self.wanted = self.wanted.max(1);
                Ok(())
            }
            Ask::Resets => {
                self.close_all(true);
                Ok(())
            }
            Ask::WithoutLogin => {
                self.logs_in = false;
                Ok(())
            }
            Ask::LogsIn => {
                self.logs_in = true;
                let all: Vec<u32> = self.conns.keys().copied().collect();
                all.into_iter().try_for_each(|conn| self.log_in(conn))
            }
            Ask::Reads(reads) => {
                self.acts.push_back(Act::Read(*reads));
                Ok(())
            }
            Ask::Pings(pings) => {
                self.acts.push_back(Act::Ping(*pings));
                Ok(())
            }
            Ask::Pace(pace) => {
                self.acts.push_back(Act::Pace(*pace));
                Ok(())
            }
        }
    }

    fn close_all(&mut self, reset: bool) {
        let acts = self.conns.keys().map(|conn| Act::Close { conn: *conn, reset });
        self.acts.extend(acts);
    }

    /// The connection that was made last.
    fn last(&self) -> Result<u32, String> {
        self.conns.keys().next_back().copied().ok_or_else(|| "there is no connection".to_owned())
    }

    fn opens(&mut self, opens: &Opens) -> Result<(), String> {
        let conn = self.last()?;
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let service = known.service(opens.service.as_deref())?;
        let takes_batches = known.features.batch.is_some_and(|bits| bits & login::batch::REQUESTS != 0);
        if opens.batch && !takes_batches {
            return Err("the provider's login does not say that it takes batches (SupportBatchRequests)".to_owned());
        }
        if opens.words.iter().any(|word| word.starts_with("view=")) && known.features.view != Some(true) {
            return Err("the provider's login does not say that it takes views (SupportViewRequests)".to_owned());
        }
        let names = opens.names();
        let mut messages = Vec::new();
        if opens.batch {
            let stream = known.next;
            let mut all = vec![format!("batch={}", names.join(",")), format!("service=#{service}")];
            all.extend(opens.words.iter().cloned());
            messages.push(words::build("REQUEST", stream, &all, &known.ids)?);
            known.next += 1;
        }
        for name in &names {
            let stream = known.next;
            known.next += 1;
            let mut all = vec![format!("item={name}"), format!("service=#{service}")];
            all.extend(opens.words.iter().cloned());
            let bytes = words::build("REQUEST", stream, &all, &known.ids)?;
            let Ok(Msg::Request(request)) = Msg::decode(&bytes) else { return Err("no request".to_owned()) };
            let streaming = request.flags.contains(rwf::msg::RequestFlags::STREAMING);
            let domain = request.domain;
            let open = Open { name: name.clone(), domain, service, is_whole: false, waits: true, streaming };
            known.streams.insert(stream, open);
            self.names.insert((conn, stream), name.clone());
            if !opens.batch {
                messages.push(bytes);
            }
        }
        self.first = self.first.take().or_else(|| names.first().cloned());
        for bytes in messages {
            self.send(conn, bytes);
        }
        Ok(())
    }

    fn dictionaries(&mut self) -> Result<(), String> {
        let conn = self.last()?;
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let provides = |service: &&Service| {
            let info = service.info.as_ref().and_then(directory::Part::value);
            info.is_some_and(|info| !info.dictionaries_provided.is_empty())
        };
        let Some(service) = known.services.iter().find(provides) else {
            return Err("no service of the provider has dictionaries".to_owned());
        };
        let id = service.id;
        let mut messages = Vec::new();
        for (stream_id, name) in [(3, dictionary::FIELDS), (4, dictionary::ENUMS)] {
            let verbosity = rwf::dictionary::Verbosity::NORMAL;
            let request = dictionary::Request {
                stream_id,
                streaming: true,
                service_id: Some(id),
                name: name.to_owned(),
                verbosity,
            };
            messages.push(bytes_of(|w| request.encode(w))?);
            let (name, domain) = (name.to_owned(), Domain::DICTIONARY);
            let open = Open { name: name.clone(), domain, service: id, is_whole: false, waits: true, streaming: true };
            known.streams.insert(stream_id, open);
            self.names.insert((conn, stream_id), name);
        }
        for bytes in messages {
            self.send(conn, bytes);
        }
        Ok(())
    }

    /// The streams that a step means, each with its connection.
    fn streams(&self, stream: &Stream) -> Vec<(u32, i32)> {
        let mut found = Vec::new();
        for (conn, known) in &self.conns {
            match stream {
                Stream::Login => found.extend(known.asked_login.then_some((*conn, LOGIN_STREAM))),
                Stream::Directory => found.extend(known.has_directory.then_some((*conn, DIRECTORY_STREAM))),
                Stream::Number(number) => found.push((*conn, *number)),
                Stream::All | Stream::First | Stream::Item(_) => {
                    let fits = |open: &Open| match stream {
                        Stream::First => self.first.as_deref() == Some(open.name.as_str()),
                        Stream::Item(name) => open.name == *name,
                        _ => open.domain != Domain::DICTIONARY,
                    };
                    let fit = known.streams.iter().filter(|(_, open)| fits(open));
                    found.extend(fit.map(|(stream, _)| (*conn, *stream)));
                }
            }
        }
        found
    }

    fn each(&mut self, message: &Message) -> Result<Vec<(u32, i32, Vec<u8>)>, String> {
        let streams = self.streams(&message.stream);
        if streams.is_empty() {
            return Err("no such stream is open".to_owned());
        }
        streams.into_iter().map(|(conn, stream)| Ok((conn, stream, self.built(conn, stream, message)?))).collect()
    }

    fn built(&self, conn: u32, stream: i32, message: &Message) -> Result<Vec<u8>, String> {
        let Some(known) = self.conns.get(&conn) else { return Err("the connection is gone".to_owned()) };
        if let (Stream::Login, "REQUEST") = (&message.stream, message.class.as_str()) {
            let request = login::Request { name: "quoteway".to_owned(), ..login::Request::default() };
            return bytes_of(|w| request.encode(w));
        }
        let mut all = message.words.clone();
        let has = |all: &[String], key: &str| all.iter().any(|word| word.starts_with(key));
        match (&message.stream, known.streams.get(&stream)) {
            (Stream::Login, _) => all.push("domain=Login".to_owned()),
            (Stream::Directory, _) => all.push("domain=Source".to_owned()),
            (_, Some(open)) => {
                if !has(&all, "domain=") {
                    all.push(format!("domain={}", domain_name(open.domain)));
                }
                if message.class == "REQUEST" {
                    all.extend([format!("item={}", open.name), format!("service=#{}", open.service)]);
                }
            }
            _ => {}
        }
        words::build(&message.class, stream, &all, &known.ids)
    }

    fn send_message(&mut self, message: &Message) -> Result<(), String> {
        for (conn, stream, bytes) in self.each(message)? {
            if let Some(known) = self.conns.get_mut(&conn) {
                match message.class.as_str() {
                    "CLOSE" => {
                        known.streams.remove(&stream);
                        if message.stream == Stream::Login {
                            known.logged_in = false;
                            known.streams.clear();
                        }
                    }
                    "REQUEST" if !message.words.iter().any(|word| word == "no-refresh") => {
                        known.streams.get_mut(&stream).into_iter().for_each(|open| open.waits = true);
                    }
                    _ => {}
                }
            }
            self.send(conn, bytes);
        }
        Ok(())
    }

    fn break_off(&mut self, message: &Message) -> Result<(), String> {
        let mut done = Vec::new();
        for (conn, _, bytes) in self.each(message)? {
            if !done.contains(&conn) {
                self.acts.push_back(Act::BreakOff { conn, message: bytes });
                done.push(conn);
            }
        }
        Ok(())
    }

    /// A request whose key says that it is longer than its message.
    fn malformed(&mut self) -> Result<(), String> {
        let conn = self.last()?;
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let stream = known.next;
        known.next += 1;
        let service = known.service(None)?;
        let words = ["item=MALFORMED".to_owned(), format!("service=#{service}")];
        let mut bytes = words::build("REQUEST", stream, &words, &known.ids)?;
        // The name is the last of the key: without its end the key is cut.
        bytes.truncate(bytes.len() - 4);
        self.send(conn, bytes);
        Ok(())
    }

    fn post(&mut self, stream: &Stream) -> Result<(), String> {
        if !self.conns.values().all(|known| known.features.post == Some(true)) {
            return Err("the provider's login does not say that it takes posts (SupportOMMPost)".to_owned());
        }
        self.posts += 1;
        let (id, price) = (self.posts, 1_000 + (self.seed ^ u64::from(self.posts)) % 1_000);
        let words = ["ack", "complete"].into_iter().map(str::to_owned);
        let numbers = [format!("id={id}"), format!("seq={id}"), format!("22={}.{:02}", price / 100, price % 100)];
        let message =
            Message { class: "POST".to_owned(), stream: stream.clone(), words: words.chain(numbers).collect() };
        self.send_message(&message)
    }

    /// When something is due next.
    pub fn due(&self) -> Option<u64> {
        (self.conns.len() + self.dials < self.wanted).then_some(self.dial_at_ns)
    }

    /// Time has come so far.
    pub fn advance(&mut self, now: u64) {
        while self.conns.len() + self.dials < self.wanted && now >= self.dial_at_ns {
            self.dials += 1;
            self.acts.push_back(Act::Dial);
        }
    }
}

impl Conn {
    fn services(&mut self, changes: Vec<Service>) {
        for change in changes {
            if change.action == Action::Delete {
                self.services.retain(|service| service.id != change.id);
                self.ids.retain(|_, id| *id != change.id);
                self.streams.retain(|_, open| open.service != change.id);
                continue;
            }
            if let Some(name) = change.name() {
                self.ids.insert(name.to_owned(), change.id);
            }
            match self.services.iter_mut().find(|service| service.id == change.id) {
                Some(service) => service.apply(&change),
                None => self.services.push(change),
            }
        }
    }

    /// The id of a service, or of the first that can be used.
    fn service(&self, name: Option<&str>) -> Result<u16, String> {
        if let Some(id) = name.and_then(|name| name.strip_prefix('#')) {
            return id.parse().map_err(|_| format!("#{id} is no id of a service"));
        }
        let fits = |service: &&Service| {
            let is = |wanted: &str| service.name() == Some(wanted);
            name.map_or_else(|| service.is_usable(), is)
        };
        let found = self.services.iter().find(fits).map(|service| service.id);
        found.ok_or_else(|| match name {
            Some(name) => format!("the provider has no service {name}"),
            None => "the provider has no service that can be used".to_owned(),
        })
    }

    fn item_message(&mut self, msg: &Msg<'_>, ends: bool) {
        let Some(open) = self.streams.get_mut(&msg.stream_id()) else { return };
        if ends {
            self.streams.remove(&msg.stream_id());
            return;
        }
        if let Msg::Refresh(refresh) = msg
            && refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE)
        {
            open.is_whole = true;
            open.waits &= !refresh.flags.contains(RefreshFlags::SOLICITED);
            if !open.streaming && !open.waits {
                self.streams.remove(&msg.stream_id());
            }
        }
    }
}
