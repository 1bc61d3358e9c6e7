//! Interactive providers: what they answer, on which streams, and what they leave alone.

use std::collections::BTreeMap;

use rwf::container::{FieldList, SetScope};
use rwf::msg::{AckMsg, Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg};
use rwf::rdm::login;
use rwf::rdm::request::{Payload, View};
use rwf::{DataType, State, StreamState};

use super::notes::Notes;
use super::rules::{self, Rule};
use crate::numbers::SECOND;

/// Messages that cross on their way do not count, nanoseconds.
const CROSSING: u64 = 2 * SECOND;

/// What a consumer has a stream for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Login,
    Directory,
    Dictionary,
    Item,
    Batch,
}

impl Kind {
    fn of(domain: Domain) -> Self {
        match domain {
            Domain::LOGIN => Self::Login,
            Domain::SOURCE => Self::Directory,
            Domain::DICTIONARY => Self::Dictionary,
            _ => Self::Item,
        }
    }

    fn rule(self) -> &'static Rule {
        match self {
            Self::Login => &rules::LOGIN_ANSWERED,
            Self::Directory => &rules::DIRECTORY_ANSWERED,
            Self::Dictionary => &rules::DICTIONARY_ANSWERED,
            Self::Item => &rules::REQUESTS_ANSWERED,
            Self::Batch => &rules::BATCHES,
        }
    }
}

#[derive(Debug)]
struct Stream {
    kind: Kind,
    name: String,
    streaming: bool,
    view: Option<Vec<i16>>,
    /// A request waits for its answer since then.
    asked_ns: Option<u64>,
    /// An image has begun.
    has_image: bool,
    /// The image is whole.
    is_whole: bool,
}

/// A post that waits for its ack.
#[derive(Debug)]
struct Post {
    at_ns: u64,
    seq: Option<u32>,
}

/// A connection to the provider, as the consumer's side knows it.
#[derive(Debug, Default)]
struct Session {
    streams: BTreeMap<i32, Stream>,
    /// Streams that the consumer has closed, and when.
    closed: BTreeMap<i32, u64>,
    /// Streams that the provider has ended.
    ended: BTreeMap<i32, String>,
    posts: BTreeMap<(i32, u32), Post>,
    features: login::Features,
}

/// The rules of interactive providers.
#[derive(Debug, Default)]
pub(super) struct Providers {
    sessions: BTreeMap<u32, Session>,
    /// The consumer does not read: answers are not seen.
    deaf: bool,
    /// The consumer has done something for which a provider may end a connection.
    excused: bool,
}

impl Providers {
    /// A provider may end connections from now on.
    pub(super) fn excuse(&mut self) {
        self.excused = true;
    }

    /// A connection is over, by the provider's doing or not.
    pub(super) fn closed(&mut self, now: u64, conn: u32, by_provider: bool, notes: &mut Notes) {
        let gone = self.sessions.remove(&conn);
        if gone.is_some() && !self.excused {
            notes.occasion(&rules::KEEPS_CONNECTIONS);
            if by_provider {
                let text = "the provider ended the connection of a consumer that had done nothing wrong".to_owned();
                notes.broken(&rules::KEEPS_CONNECTIONS, now, text);
            }
        }
    }

    /// The consumer reads, or does not: what it cannot see is not missing.
    pub(super) fn consumer_is(&mut self, now: u64, deaf: bool) {
        if self.deaf && !deaf {
            for session in self.sessions.values_mut() {
                session.streams.values_mut().filter_map(|stream| stream.asked_ns.as_mut()).for_each(|at| *at = now);
                session.posts.values_mut().for_each(|post| post.at_ns = now);
            }
        }
        self.deaf = deaf;
    }

    /// A message went to the provider.
    pub(super) fn consumer_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let session = self.sessions.entry(conn).or_default();
        match msg {
            Msg::Request(request) => session.request(now, request),
            Msg::Close(close) => {
                notes.occasion(&rules::CLOSED_ITEMS);
                match session.streams.remove(&close.stream_id).map(|stream| stream.kind) {
                    // A login takes all streams of its connection with it.
                    Some(Kind::Login) => {
                        let all = std::mem::take(&mut session.streams).into_keys().chain([close.stream_id]);
                        session.closed.extend(all.map(|id| (id, now)));
                    }
                    Some(_) => {
                        session.closed.insert(close.stream_id, now);
                    }
                    None => {}
                }
            }
            Msg::Post(post) if post.flags.contains(rwf::msg::PostFlags::ACK) => {
                if session.features.post == Some(true)
                    && let Some(id) = post.post_id
                {
                    session.posts.insert((post.stream_id, id), Post { at_ns: now, seq: post.seq_num });
                }
            }
            _ => {}
        }
    }

    /// A message came from the provider.
    pub(super) fn provider_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let session = self.sessions.entry(conn).or_default();
        let id = msg.stream_id();
        if let Msg::Ack(ack) = msg {
            return session.ack(now, ack, notes);
        }
        if let Some(at) = session.closed.get(&id) {
            if now > at + CROSSING {
                let seconds = (now - at) as f64 / 1e9;
                let text = format!("a message came on stream {id}, which was closed {seconds:.1} s before");
                notes.broken(&rules::CLOSED_ITEMS, now, text);
            }
            return;
        }
        if let Some(name) = session.ended.get(&id) {
            let text = format!("a message came on stream {id} of {name}, which the provider had ended");
            notes.broken(&rules::ENDED_STREAMS, now, text);
            return;
        }
        let supports_views = session.features.view == Some(true);
        let Some(stream) = session.streams.get_mut(&id) else {
            let text = format!("a message of the domain {} came on stream {id}, which nobody has opened", msg.domain());
            notes.broken(&rules::KNOWN_STREAMS, now, text);
            return;
        };
        notes.occasion(&rules::KNOWN_STREAMS);
        let state = match msg {
            Msg::Refresh(refresh) => {
                if stream.kind == Kind::Login
                    && let Ok(model) = login::Refresh::decode(refresh)
                {
                    session.features = model.features;
                }
                if stream.kind == Kind::Item {
                    stream.refresh(now, refresh, notes);
                    stream.content(now, supports_views, refresh.container, refresh.body, notes);
                }
                let solicited = refresh.flags.contains(RefreshFlags::SOLICITED) || stream.kind != Kind::Item;
                if solicited && refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
                    stream.is_answered(notes);
                }
                Some(refresh.state)
            }
            Msg::Update(update) if stream.kind == Kind::Item => {
                stream.update(now, notes);
                stream.content(now, supports_views, update.container, update.body, notes);
                None
            }
            Msg::Status(status) => status.state,
            _ => None,
        };
        let is_snapshot = !stream.streaming && stream.is_whole;
        if state.is_some_and(|state| is_end(&state)) || is_snapshot && stream.asked_ns.is_none() {
            notes.occasion(&rules::ENDED_STREAMS);
            stream.is_answered(notes);
            if let Some(stream) = session.streams.remove(&id) {
                session.ended.insert(id, stream.name);
            }
        }
    }

    /// When something is due next.
    pub(super) fn due(&self, notes: &Notes) -> Option<u64> {
        if self.deaf {
            return None;
        }
        let asked = self.sessions.values().flat_map(|s| s.streams.values().filter_map(|stream| stream.asked_ns));
        let posts = self.sessions.values().flat_map(|session| session.posts.values().map(|post| post.at_ns));
        asked.chain(posts).min().map(|at| at + notes.time_limit("answer-s"))
    }

    /// Time has come so far.
    pub(super) fn advance(&mut self, now: u64, notes: &mut Notes) {
        if self.deaf {
            return;
        }
        let limit = notes.time_limit("answer-s");
        for session in self.sessions.values_mut() {
            for (id, stream) in &mut session.streams {
                if stream.asked_ns.take_if(|at| now >= *at + limit).is_some() {
                    let name = &stream.name;
                    let text = format!("the request {name} on stream {id} had no answer in {} s", limit / SECOND);
                    notes.broken(stream.kind.rule(), now, text);
                }
            }
            let late: Vec<(i32, u32)> =
                session.posts.iter().filter(|(_, post)| now >= post.at_ns + limit).map(|(key, _)| *key).collect();
            for key in late {
                session.posts.remove(&key);
                let text = format!("the post {} on stream {} had no ack in {} s", key.1, key.0, limit / SECOND);
                notes.broken(&rules::POST_ANSWERS, now, text);
            }
        }
    }
}

impl Session {
    fn request(&mut self, now: u64, request: &RequestMsg<'_>) {
        let (id, streaming) = (request.stream_id, request.flags.contains(RequestFlags::STREAMING));
        let payload = Payload::of_request(request).unwrap_or_default();
        let view = match payload.view.filter(|_| request.flags.contains(RequestFlags::HAS_VIEW)) {
            Some(View::Fields(fids)) => Some(fids),
            _ => None,
        };
        let new = |kind: Kind, name: String| Stream {
            kind,
            name,
            streaming,
            view: view.clone(),
            asked_ns: Some(now),
            has_image: false,
            is_whole: false,
        };
        let batch = payload.items.filter(|_| request.flags.contains(RequestFlags::HAS_BATCH));
        if let Some(names) = batch {
            if self.features.batch.is_some_and(|bits| bits & login::batch::REQUESTS != 0) {
                self.streams.insert(id, new(Kind::Batch, "of a batch".to_owned()));
                for (id, name) in (id + 1..).zip(names) {
                    self.streams.insert(id, new(Kind::Item, String::from_utf8_lossy(name).into_owned()));
                }
            }
            return;
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.streaming = streaming;
            stream.view = view.or_else(|| stream.view.take());
            if !request.flags.contains(RequestFlags::NO_REFRESH) {
                stream.asked_ns.get_or_insert(now);
            }
            return;
        }
        self.closed.remove(&id);
        self.ended.remove(&id);
        let name = if request.key.name.is_some() { request.key.name_lossy().into_owned() } else { String::new() };
        self.streams.insert(id, new(Kind::of(request.domain), name));
    }

    fn ack(&mut self, now: u64, ack: &AckMsg<'_>, notes: &mut Notes) {
        notes.occasion(&rules::POST_ANSWERS);
        match self.posts.remove(&(ack.stream_id, ack.ack_id)) {
            Some(post) if ack.seq_num != post.seq => {
                let number = |seq: Option<u32>| seq.map_or_else(|| "none".to_owned(), |seq| seq.to_string());
                let (got, sent) = (number(ack.seq_num), number(post.seq));
                let text = format!("the ack of post {} has the sequence number {got}, the post had {sent}", ack.ack_id);
                notes.broken(&rules::POST_ANSWERS, now, text);
            }
            Some(_) => {}
            None => {
                let text = format!("an ack with id {} on stream {}: no post waits for it", ack.ack_id, ack.stream_id);
                notes.broken(&rules::POST_ANSWERS, now, text);
            }
        }
    }
}

impl Stream {
    fn is_answered(&mut self, notes: &mut Notes) {
        if self.asked_ns.take().is_some() {
            notes.occasion(self.kind.rule());
        }
    }

    fn refresh(&mut self, now: u64, refresh: &RefreshMsg<'_>, notes: &mut Notes) {
        let name = &self.name;
        notes.occasion(&rules::RIGHT_ITEM);
        let key = refresh.key.as_ref().and_then(|key: &MsgKey<'_>| key.name.map(|_| key.name_lossy().into_owned()));
        if let Some(other) = key.filter(|other| other != name) {
            notes.broken(&rules::RIGHT_ITEM, now, format!("{name} was asked for, and the image is of {other}"));
        }
        notes.occasion(&rules::SOLICITED);
        let solicited = refresh.flags.contains(RefreshFlags::SOLICITED);
        if solicited && self.asked_ns.is_none() {
            notes.broken(&rules::SOLICITED, now, format!("a solicited image of {name}, which was not asked for"));
        }
        if !solicited && !self.has_image {
            notes.broken(&rules::SOLICITED, now, format!("the answer to the request for {name} is not solicited"));
        }
        if !self.streaming && solicited {
            notes.occasion(&rules::SNAPSHOTS);
            if refresh.state.stream == StreamState::OPEN {
                notes.broken(&rules::SNAPSHOTS, now, format!("the snapshot of {name} says that its stream is open"));
            }
        }
        self.has_image = true;
        self.is_whole = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
    }

    fn update(&self, now: u64, notes: &mut Notes) {
        notes.occasion(&rules::IMAGES_FIRST);
        if !self.has_image {
            let text = format!("an update of {} came before its image", self.name);
            notes.broken(&rules::IMAGES_FIRST, now, text);
        }
    }

    /// Fields beside those of the view are what nobody asked for.
    fn content(&self, now: u64, supports_views: bool, container: DataType, body: &[u8], notes: &mut Notes) {
        let Some(view) = self.view.as_ref().filter(|_| supports_views && container == DataType::FIELD_LIST) else {
            return;
        };
        let Ok(list) = FieldList::decode(body, &SetScope::NONE) else { return };
        notes.occasion(&rules::VIEWS);
        let more: Vec<i16> =
            list.entries().flatten().map(|entry| entry.fid).filter(|fid| !view.contains(fid)).collect();
        if !more.is_empty() {
            let text = format!("{} was asked for with the view {view:?}, and {more:?} came as well", self.name);
            notes.broken(&rules::VIEWS, now, text);
        }
    }
}

/// Whether a stream is over with this state.
fn is_end(state: &State<'_>) -> bool {
    [StreamState::CLOSED, StreamState::CLOSED_RECOVER, StreamState::REDIRECTED].contains(&state.stream)
}
