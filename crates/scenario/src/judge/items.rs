//! Services and items: what is asked for where, and what becomes of streams that end.

use std::collections::{BTreeMap, BTreeSet};

use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::directory::{self, Action, Part, Service};
use rwf::rdm::request::Payload;
use rwf::{State, StreamState};

use super::notes::{Notes, Pace};
use super::rules;
use super::sessions::name;
use crate::numbers::SECOND;

/// Messages that cross on their way do not count, nanoseconds.
const CROSSING: u64 = SECOND;

/// An item as a client asks for it: service, domain, name.
type Key = (String, u8, String);

#[derive(Debug)]
struct Open {
    key: Key,
    has_image: bool,
    /// Its item group, as the last image or status said it.
    group: Vec<u8>,
}

#[derive(Debug, Default)]
struct KnownService {
    name: String,
    usable: bool,
    /// The service is not usable since then.
    unusable_since_ns: u64,
    open_window: Option<u64>,
}

/// A connection, as far as it is known.
#[derive(Debug, Default)]
struct Session {
    services: BTreeMap<u16, KnownService>,
    has_directory: bool,
    /// The client need not know how services are: it hears of them by its items.
    is_json: bool,
    streams: BTreeMap<i32, Open>,
    /// Services that were deleted, and when.
    gone: BTreeMap<u16, u64>,
    /// Streams that the server has closed, and when.
    ended: BTreeMap<i32, u64>,
    /// Streams of login, directory and dictionaries.
    others: BTreeSet<i32>,
}

/// Why an item has to be asked for again.
#[derive(Debug)]
struct Lost {
    why: &'static str,
    /// The item can be asked for since then.
    possible_since_ns: Option<u64>,
}

/// An item that the client wants.
#[derive(Debug, Default)]
struct Wanted {
    requests: Pace,
    lost: Option<Lost>,
    closed_at_ns: Option<u64>,
    redirected: Option<(u64, Key)>,
}

/// The rules of services and items.
#[derive(Debug, Default)]
pub(super) struct Items {
    sessions: BTreeMap<u32, Session>,
    wanted: BTreeMap<Key, Wanted>,
    dictionaries: Pace,
    /// The clock of the time fields was set then.
    clock_set_ns: Option<u64>,
}

impl Items {
    /// The clock of the time fields was set: of no consequence for who has items open.
    pub(super) fn clock_set(&mut self, now: u64, notes: &mut Notes) {
        self.clock_set_ns = Some(now);
        if self.sessions.values().any(|session| !session.streams.is_empty()) {
            notes.occasion(&rules::TIME_FIELDS);
        }
    }

    /// An open item is closed or asked for again.
    fn gave_up(&self, now: u64, item: &str, deed: &str, notes: &mut Notes) {
        let limit = notes.time_limit("time-fields-s");
        if let Some(at) = self.clock_set_ns.filter(|at| now < at + limit) {
            let text = format!("{item} was {deed} {:.1} s after its time fields leapt", (now - at) as f64 / 1e9);
            notes.broken(&rules::TIME_FIELDS, now, text);
        }
    }

    /// The client of a connection speaks JSON.
    pub(super) fn speaks_json(&mut self, conn: u32) {
        self.sessions.entry(conn).or_default().is_json = true;
    }

    /// A connection is gone: what was open on it is lost.
    pub(super) fn closed(&mut self, conn: u32) {
        // A connection on which nothing was asked for has no items to lose.
        let Some(session) = self.sessions.remove(&conn) else { return };
        for open in session.streams.into_values() {
            self.lose(&open.key, "its connection was lost");
        }
    }

    /// The login of a connection is closed, and all that was had by it. Requests may be on their way still.
    fn logged_out(&mut self, now: u64, conn: u32) {
        // As there: nothing was asked for by the login that is closed.
        let Some(session) = self.sessions.get(&conn) else { return };
        let gone = session.services.keys().map(|id| (*id, now)).collect();
        let (ended, is_json) = (session.streams.keys().map(|id| (*id, now)).collect(), session.is_json);
        self.closed(conn);
        self.sessions.insert(conn, Session { is_json, gone, ended, ..Session::default() });
    }

    fn lose(&mut self, key: &Key, why: &'static str) {
        let wanted = self.wanted.entry(key.clone()).or_default();
        wanted.lost = Some(Lost { why, possible_since_ns: None });
    }

    /// A message came from the client.
    pub(super) fn client_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let session = self.sessions.entry(conn).or_default();
        match msg {
            Msg::Request(request) if request.domain == Domain::LOGIN => {
                session.others.insert(request.stream_id);
            }
            _ if msg.domain() == Domain::LOGIN => {}
            Msg::Request(request) => match request.domain {
                Domain::SOURCE => {
                    session.others.insert(request.stream_id);
                }
                Domain::DICTIONARY => {
                    session.others.insert(request.stream_id);
                    notes.occasion(&rules::DICTIONARY_REQUESTS);
                    let (count, most) = (self.dictionaries.note(now), notes.limit("dictionaries-in-10-s"));
                    if count as f64 > most {
                        let text = format!("{count} requests for dictionaries in 10 s, {most} are the most");
                        notes.broken(&rules::DICTIONARY_REQUESTS, now, text);
                    }
                }
                _ => self.request(now, conn, request, notes),
            },
            Msg::Close(close) => {
                if let Some(open) = session.streams.remove(&close.stream_id) {
                    // An item that the client does not want any more need not come back.
                    self.wanted.remove(&open.key);
                    self.gave_up(now, &open.key.2, "closed", notes);
                } else if !session.others.remove(&close.stream_id) {
                    not_open(now, session, msg, notes);
                }
            }
            Msg::Post(_) | Msg::Generic(_) if !session.streams.contains_key(&msg.stream_id()) => {
                not_open(now, session, msg, notes);
            }
            _ => {}
        }
    }

    fn request(&mut self, now: u64, conn: u32, request: &RequestMsg<'_>, notes: &mut Notes) {
        let session = self.sessions.entry(conn).or_default();
        if request.key.service_id.is_none() && session.streams.contains_key(&request.stream_id) {
            // A reissue, whose stream says of which item it is.
            notes.occasion(&rules::STREAM_IDS);
            return;
        }
        let Some(service) = check_service(now, session, &request.key, notes) else {
            // What was wrong about it is noted there. The answer ends the stream; a close of it may cross with that.
            session.ended.insert(request.stream_id, now);
            return;
        };
        // A payload that cannot be read does not come here: well-formed is the rule for that.
        let payload = Payload::of_request(request).unwrap_or_default();
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let names: Vec<String> = match &payload.items {
            Some(names) if request.flags.contains(RequestFlags::HAS_BATCH) => {
                names.iter().map(|name| text(name)).collect()
            }
            _ => vec![request.key.name_lossy().into_owned()],
        };
        let is_batch = request.flags.contains(RequestFlags::HAS_BATCH) && payload.items.is_some();
        let streams = (request.stream_id + i32::from(is_batch)..).zip(names);
        for (stream, name) in streams {
            let key: Key = (service.clone(), request.domain.0, name);
            notes.occasion(&rules::STREAM_IDS);
            if let Some(open) = session.streams.get(&stream) {
                if open.key != key && !key.2.is_empty() {
                    let text = format!("stream {stream} has {}, and was asked for {}", open.key.2, key.2);
                    notes.broken(&rules::STREAM_IDS, now, text);
                }
                continue;
            }
            session.ended.remove(&stream);
            if request.flags.contains(RequestFlags::STREAMING) {
                session.streams.insert(stream, Open { key: key.clone(), has_image: false, group: Vec::new() });
                wants(now, self.wanted.entry(key.clone()).or_default(), &key, notes);
            }
        }
        check_window(now, session, &service, notes);
    }

    /// A message went to the client.
    pub(super) fn server_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let session = self.sessions.entry(conn).or_default();
        let (stream, is_login) = (msg.stream_id(), msg.domain() == Domain::LOGIN);
        if !is_login && !session.streams.contains_key(&stream) && !session.others.contains(&stream) {
            // A stream that the client does not know: whoever closes it in answer has understood that.
            session.ended.insert(stream, now);
        }
        let (state, key) = match msg {
            Msg::Refresh(refresh) if refresh.domain == Domain::SOURCE => {
                session.has_directory = true;
                return self.directory(now, conn, directory::services(refresh.container, refresh.body));
            }
            Msg::Update(update) if update.domain == Domain::SOURCE => {
                return self.directory(now, conn, directory::services(update.container, update.body));
            }
            Msg::Status(status) if status.domain == Domain::LOGIN => {
                if status.state.is_some_and(|state| is_final(&state)) {
                    self.logged_out(now, conn);
                }
                return;
            }
            Msg::Refresh(refresh) => {
                if let Some(open) = session.streams.get_mut(&refresh.stream_id) {
                    open.has_image |= refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
                    open.group = refresh.group_id.to_vec();
                }
                (Some(refresh.state), refresh.key)
            }
            Msg::Status(status) => (status.state, status.key),
            _ => return,
        };
        if let Some(state) = state.filter(is_final) {
            self.ended(now, conn, msg.stream_id(), &state, key.as_ref(), notes);
        }
    }

    /// A stream ended by the server's word.
    fn ended(
        &mut self,
        now: u64,
        conn: u32,
        stream: i32,
        state: &State<'_>,
        key: Option<&MsgKey<'_>>,
        notes: &mut Notes,
    ) {
        let session = self.sessions.entry(conn).or_default();
        // A dictionary, a snapshot, or a stream that the client does not have: no item that it would have to ask for again.
        let Some(open) = session.streams.remove(&stream) else { return };
        session.ended.insert(stream, now);
        notes.occasion(&rules::CLOSED_STREAMS);
        match state.stream {
            StreamState::CLOSED_RECOVER => self.lose(&open.key, "it was closed with ClosedRecover"),
            StreamState::CLOSED => {
                notes.occasion(&rules::FINAL_STATES);
                self.wanted.entry(open.key).or_default().closed_at_ns = Some(now);
            }
            StreamState::REDIRECTED => {
                notes.occasion(&rules::REDIRECTS);
                let name = key.map_or_else(|| open.key.2.clone(), |key| key.name_lossy().into_owned());
                let target = (open.key.0.clone(), open.key.1, name);
                self.wanted.entry(open.key).or_default().redirected = Some((now, target));
            }
            _ => {}
        }
    }

    fn directory(&mut self, now: u64, conn: u32, services: Result<Vec<Service>, rwf::DecodeError>) {
        // A directory that cannot be read was sent to see what becomes of it: services are for the client what they were.
        let Ok(services) = services else { return };
        let session = self.sessions.entry(conn).or_default();
        let mut gone = Vec::new();
        let mut groups = Vec::new();
        for service in services {
            if service.action == Action::Delete {
                gone.extend(session.services.remove(&service.id).map(|known| known.name));
                session.gone.insert(service.id, now);
                continue;
            }
            let known = session.services.entry(service.id).or_default();
            if let Some(info) = service.info.as_ref().and_then(Part::value) {
                known.name.clone_from(&info.name);
            }
            for group in service.groups.iter().filter_map(Part::value) {
                if let Some(to) = &group.merged_to {
                    let of_it = |open: &&mut Open| open.key.0 == known.name && open.group == group.group;
                    session.streams.values_mut().filter(of_it).for_each(|open| open.group.clone_from(to));
                }
                if group.status.as_ref().is_some_and(|status| status.stream == StreamState::CLOSED_RECOVER) {
                    groups.push((known.name.clone(), group.group.clone()));
                }
            }
            if let Some(load) = service.load.as_ref().and_then(Part::value) {
                known.open_window = load.open_window.or(known.open_window);
            }
            if let Some(state) = service.state.as_ref().and_then(Part::value) {
                let usable = state.up && state.accepting_requests != Some(false);
                if known.usable && !usable {
                    known.unusable_since_ns = now;
                }
                known.usable = usable;
                if state.status.as_ref().is_some_and(|status| status.stream == StreamState::CLOSED_RECOVER) {
                    gone.push(known.name.clone());
                }
            }
        }
        let is_gone = |open: &Open| {
            gone.contains(&open.key.0) || groups.iter().any(|(name, group)| *name == open.key.0 && *group == open.group)
        };
        let lost: Vec<i32> = session.streams.iter().filter(|(_, open)| is_gone(open)).map(|(id, _)| *id).collect();
        let lost: Vec<Open> = lost
            .iter()
            .filter_map(|id| session.streams.remove_entry(id))
            .map(|(id, open)| {
                session.ended.insert(id, now);
                open
            })
            .collect();
        for open in lost {
            self.lose(&open.key, "its service was lost");
        }
    }

    /// Whether an item of a service can be asked for on some connection.
    fn is_possible(&self, service: &str) -> bool {
        let has = |session: &Session| session.services.values().any(|known| known.name == service && known.usable);
        self.sessions.values().any(|session| session.has_directory && has(session))
    }

    /// When something is due next.
    pub(super) fn due(&self, notes: &Notes) -> Option<u64> {
        let limit = notes.time_limit("reopen-s");
        let due = |wanted: &Wanted| {
            let lost = wanted.lost.as_ref().and_then(|lost| lost.possible_since_ns);
            [lost, wanted.redirected.as_ref().map(|(at, _)| *at)].into_iter().flatten().min()
        };
        self.wanted.values().filter_map(due).min().map(|at| at + limit)
    }

    /// Time has come so far.
    pub(super) fn advance(&mut self, now: u64, notes: &mut Notes) {
        let limit = notes.time_limit("reopen-s");
        let keys: Vec<Key> = self.wanted.keys().cloned().collect();
        for key in keys {
            let possible = self.is_possible(&key.0);
            let Some(wanted) = self.wanted.get_mut(&key) else { continue };
            if let Some(lost) = &mut wanted.lost {
                lost.possible_since_ns = possible.then(|| lost.possible_since_ns.unwrap_or(now));
                if lost.possible_since_ns.is_some_and(|since| now >= since + limit) {
                    let text = format!("{} was not asked for again in {} s: {}", key.2, limit / SECOND, lost.why);
                    wanted.lost = None;
                    notes.broken(&rules::REOPENS, now, text);
                }
            }
            if let Some((_, target)) = wanted.redirected.take_if(|(at, _)| now >= *at + limit) {
                let text = format!("{} was redirected to {}, which was not asked for", key.2, target.2);
                notes.broken(&rules::REDIRECTS, now, text);
            }
        }
    }
}

fn is_final(state: &State<'_>) -> bool {
    [StreamState::CLOSED, StreamState::CLOSED_RECOVER, StreamState::REDIRECTED].contains(&state.stream)
}

/// A message on a stream that is not open.
fn not_open(now: u64, session: &Session, msg: &Msg<'_>, notes: &mut Notes) {
    notes.occasion(&rules::CLOSED_STREAMS);
    // On its way when the server closed the stream, or on the stream of the login or of a batch.
    let crossing = session.ended.get(&msg.stream_id()).is_some_and(|at| now <= at + CROSSING);
    let is_batch = session.streams.contains_key(&(msg.stream_id() + 1)) && matches!(msg, Msg::Close(_));
    if !crossing && !is_batch && !session.others.contains(&msg.stream_id()) {
        notes.broken(&rules::CLOSED_STREAMS, now, format!("{}, which is not open", name(msg)));
    }
}

/// The name of the service that a request names, if there is one.
fn check_service(now: u64, session: &Session, key: &MsgKey<'_>, notes: &mut Notes) -> Option<String> {
    notes.occasion(&rules::SERVICE_KNOWN);
    let item = key.name_lossy();
    let Some(id) = key.service_id else {
        // The service that a JSON client names is not there: the answer says so.
        if !session.is_json {
            notes.broken(&rules::SERVICE_KNOWN, now, format!("{item} was asked for without a service"));
        }
        return None;
    };
    let Some(known) = session.services.get(&id) else {
        if session.is_json || session.gone.get(&id).is_some_and(|at| now <= at + CROSSING) {
            return None;
        }
        let text = format!("{item} was asked for at service id {id}, which the directory of this connection has not");
        notes.broken(&rules::SERVICE_KNOWN, now, text);
        return None;
    };
    if session.is_json {
        return Some(known.name.clone());
    }
    if !known.usable && now > known.unusable_since_ns + CROSSING {
        let text = format!("{item} was asked for at {}, which is down or does not accept requests", known.name);
        notes.broken(&rules::SERVICE_USABLE, now, text);
    }
    if !known.usable || known.unusable_since_ns > 0 {
        notes.occasion(&rules::SERVICE_USABLE);
    }
    Some(known.name.clone())
}

fn check_window(now: u64, session: &Session, service: &str, notes: &mut Notes) {
    // A service that says nothing about its window takes any number of requests.
    let Some(window) = session.services.values().find(|known| known.name == service).and_then(|s| s.open_window) else {
        return;
    };
    let waiting = session.streams.values().filter(|open| !open.has_image && open.key.0 == service).count() as u64;
    notes.occasion(&rules::OPEN_WINDOW);
    if waiting > window {
        let text = format!("{waiting} requests wait at {service}, whose OpenWindow is {window}");
        notes.broken(&rules::OPEN_WINDOW, now, text);
    }
}

/// An item is asked for.
fn wants(now: u64, wanted: &mut Wanted, key: &Key, notes: &mut Notes) {
    let item = &key.2;
    if wanted.lost.take().is_some() {
        notes.occasion(&rules::REOPENS);
        notes.occasion(&rules::REOPEN_PACING);
    }
    let (count, most) = (wanted.requests.note(now), notes.limit("reopens-in-10-s"));
    if count as f64 > most {
        let text = format!("{count} requests for {item} in 10 s, {most} are the most");
        notes.broken(&rules::REOPEN_PACING, now, text);
    }
    let limit = notes.time_limit("final-s");
    if let Some(at) = wanted.closed_at_ns.take().filter(|at| now < at + limit) {
        let text = format!("{item} was asked for again {:.1} s after it was closed for good", (now - at) as f64 / 1e9);
        notes.broken(&rules::FINAL_STATES, now, text);
    }
    if let Some((_, target)) = wanted.redirected.take_if(|(_, target)| target != key) {
        let text = format!("{item} was asked for again, and it was redirected to {}", target.2);
        notes.broken(&rules::REDIRECTS, now, text);
    }
}

impl Items {
    /// A request under the name to which an item was redirected is what was to come.
    pub(super) fn follow(&mut self, conn: u32) {
        // Nothing was asked for on this connection yet.
        let Some(session) = self.sessions.get(&conn) else { return };
        let open: Vec<&Key> = session.streams.values().map(|open| &open.key).collect();
        for wanted in self.wanted.values_mut() {
            wanted.redirected.take_if(|(_, target)| open.contains(&&*target));
        }
    }
}
