//! One connection's side of the provider.

use super::{ItemId, Items, Open, Post, Prank, Provider, Refusal};
use rwf::msg::{
    AckMsg, Domain, GenericMsg, Msg, MsgKey, NakCode, PostFlags, PostMsg, RefreshFlags, RefreshMsg, RequestFlags,
    RequestMsg, StatusMsg, UpdateMsg,
};
use rwf::rdm::request::Payload;
use rwf::rdm::{dictionary, directory, login};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, State, StateCode, StreamState};
use std::collections::HashMap;

/// A connection of the owner: dense, chosen by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(pub u32);

/// A streaming item of this connection.
#[derive(Clone, Copy, Debug)]
struct Stream {
    item: ItemId,
    domain: Domain,
}

/// One connection to the provider.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    login: Option<i32>,
    directory: Option<i32>,
    streams: HashMap<i32, Stream>,
    /// Encodes one message; grows to the largest.
    buffer: Vec<u8>,
    payload: Vec<u8>,
    /// Accepted, and not taken yet.
    posts: Vec<Post>,
    /// Messages that could not be understood, or make no sense here.
    strange: u64,
}

/// An image to be sent: of which item, on which stream, and the request that it answers.
#[derive(Clone, Copy)]
struct Shown<'r, 'a> {
    item: ItemId,
    stream_id: i32,
    domain: Domain,
    asked: Option<&'r RequestMsg<'a>>,
}

/// An update that promises more than it holds: five entries, and the first is cut off.
pub(super) fn malformed(domain: Domain, stream_id: i32) -> UpdateMsg<'static> {
    let container = if domain == Domain::MARKET_PRICE { DataType::FIELD_LIST } else { DataType::MAP };
    UpdateMsg { container, body: &[0x08, 0x00, 0x05, 0x00, 0x16, 0x20, 0x01], ..UpdateMsg::new(domain, stream_id) }
}

/// Takes the answers.
type Reply<'r> = &'r mut dyn FnMut(&[u8]);

impl Session {
    /// A connection that has not said anything yet.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            login: None,
            directory: None,
            streams: HashMap::new(),
            buffer: vec![0; 8 * 1024],
            payload: Vec::with_capacity(4 * 1024),
            posts: Vec::new(),
            strange: 0,
        }
    }

    /// Streaming items.
    pub fn open_items(&self) -> usize {
        self.streams.len()
    }

    /// Messages that could not be understood.
    pub fn strange(&self) -> u64 {
        self.strange
    }

    /// Answers a message.
    pub fn message(&mut self, provider: &Provider, items: &mut dyn Items, msg: &[u8], reply: Reply<'_>) {
        match Msg::decode(msg) {
            Ok(Msg::Request(request)) => self.request(provider, items, &request, reply),
            Ok(Msg::Close(close)) => self.close(close.stream_id, items),
            Ok(Msg::Post(post)) => self.post(provider, items, &post, reply),
            Ok(Msg::Generic(generic)) => self.generic(&generic, reply),
            _ => self.strange += 1,
        }
    }

    /// What was posted since the last call, in order.
    pub fn take_posts(&mut self) -> Vec<Post> {
        std::mem::take(&mut self.posts)
    }

    /// Tells that the service went up or down.
    pub fn service_changed(&mut self, provider: &Provider, reply: Reply<'_>) {
        let Some(stream_id) = self.directory else { return };
        let update = provider.state_update(stream_id);
        self.send(reply, |w| update.encode(w));
    }

    /// Plays a prank on the open items, or on those of one name; says on how many streams.
    pub fn prank(&mut self, items: &mut dyn Items, name: Option<&str>, prank: Prank<'_>, reply: Reply<'_>) -> usize {
        let mut streams: Vec<(i32, Stream)> = self.streams.iter().map(|(id, stream)| (*id, *stream)).collect();
        streams.sort_unstable_by_key(|(id, _)| *id);
        if let Some(name) = name {
            streams.retain(|(_, stream)| items.name(stream.item).as_deref() == Some(name));
        }
        for &(stream_id, Stream { item, domain }) in &streams {
            match prank {
                Prank::State(state) => {
                    if state.stream != StreamState::OPEN {
                        self.streams.remove(&stream_id);
                        items.close(item, self.id, stream_id);
                    }
                    self.status(domain, stream_id, None, state, reply);
                }
                Prank::Image => self.send_image(items, Shown { item, stream_id, domain, asked: None }, reply),
                Prank::Malformed => {
                    let update = malformed(domain, stream_id);
                    self.send(reply, |w| update.encode(w));
                }
            }
        }
        streams.len()
    }

    /// The connection is gone: so are its streams.
    pub fn ended(&mut self, items: &mut dyn Items) {
        for (stream_id, stream) in self.streams.drain() {
            items.close(stream.item, self.id, stream_id);
        }
        (self.login, self.directory) = (None, None);
    }

    fn request(&mut self, provider: &Provider, items: &mut dyn Items, request: &RequestMsg<'_>, reply: Reply<'_>) {
        match request.domain {
            Domain::LOGIN => self.log_in(provider, request, reply),
            _ if self.login.is_none() => {
                self.refuse(
                    request,
                    StateCode::USAGE_ERROR,
                    "log in first: a login request on a stream of its own",
                    reply,
                );
            }
            Domain::SOURCE => self.show_directory(provider, request, reply),
            Domain::DICTIONARY => self.hand_out_dictionary(provider, request, reply),
            _ if request.flags.contains(RequestFlags::HAS_BATCH) => self.batch(provider, items, request, reply),
            _ => self.item(provider, items, request, reply),
        }
    }

    fn log_in(&mut self, provider: &Provider, request: &RequestMsg<'_>, reply: Reply<'_>) {
        let Ok(login) = login::Request::decode(request) else {
            self.strange += 1;
            return self.refuse(request, StateCode::USAGE_ERROR, "the attributes of the login cannot be read", reply);
        };
        self.login = Some(request.stream_id);
        if login.no_refresh {
            return;
        }
        let features =
            login::Features { post: Some(true), batch: Some(login::batch::REQUESTS), ..login::Features::default() };
        let text = format!("Login accepted by {}", provider.config.vendor);
        let refresh = login::Refresh::accept(&login, features, &text);
        self.send(reply, |w| refresh.encode(w));
    }

    fn show_directory(&mut self, provider: &Provider, request: &RequestMsg<'_>, reply: Reply<'_>) {
        let request = directory::Request::decode(request);
        if request.streaming {
            self.directory = Some(request.stream_id);
        }
        let wanted = request.service_id.is_none_or(|id| id == provider.config.service_id);
        let services = if wanted { vec![provider.service()] } else { Vec::new() };
        let refresh = directory::Refresh::answer(&request, services);
        self.send(reply, |w| refresh.encode(w));
    }

    fn hand_out_dictionary(&mut self, provider: &Provider, request: &RequestMsg<'_>, reply: Reply<'_>) {
        let asked = dictionary::Request::decode(request);
        let Some(mut parts) = dictionary::RefreshParts::answer(&provider.dictionary, &asked) else {
            let text = format!("no dictionary {:?}; there are RWFFld and RWFEnum", asked.name);
            return self.refuse(request, StateCode::NOT_FOUND, &text, reply);
        };
        // Parts of this size go through every session's default limits, and few of them are needed.
        let mut buffer = vec![0; 60_000];
        while !parts.is_done() {
            let mut w = Writer::new(&mut buffer);
            if parts.write(true, &mut w).is_err() {
                self.strange += 1;
                return;
            }
            reply(w.written());
        }
    }

    fn batch(&mut self, provider: &Provider, items: &mut dyn Items, request: &RequestMsg<'_>, reply: Reply<'_>) {
        let names = Payload::of_request(request).ok().and_then(|p| p.items);
        let Some(names) = names.filter(|n| !n.is_empty()) else {
            return self.refuse(request, StateCode::INVALID_ARGUMENT, "the batch has no :ItemList", reply);
        };
        let text = format!("Processed {} total items from Batch Request.", names.len());
        let state = State::new(StreamState::CLOSED, DataState::OK, StateCode::NONE, &text);
        self.status(request.domain, request.stream_id, None, state, reply);
        for (name, stream_id) in names.iter().zip(request.stream_id + 1..) {
            let single = RequestMsg {
                stream_id,
                flags: request.flags.without(RequestFlags::HAS_BATCH),
                key: MsgKey { name: Some(name), ..request.key },
                ..request.clone()
            };
            self.item(provider, items, &single, reply);
        }
    }

    fn item(&mut self, provider: &Provider, items: &mut dyn Items, request: &RequestMsg<'_>, reply: Reply<'_>) {
        let config = &provider.config;
        if let Some(&stream) = self.streams.get(&request.stream_id) {
            // A reissue: priority and pause change nothing here, an image comes if it is wanted.
            if !request.flags.contains(RequestFlags::NO_REFRESH) {
                self.image(items, stream.item, request, reply);
            }
            return;
        }
        if !provider.is_up {
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "Service is down");
            return self.status(request.domain, request.stream_id, None, state, reply);
        }
        if request.key.service_id.is_some_and(|id| id != config.service_id) {
            let text = format!(
                "no service {}; {} is {}",
                request.key.service_id.unwrap_or(0),
                config.service,
                config.service_id
            );
            return self.refuse(request, StateCode::SOURCE_UNKNOWN, &text, reply);
        }
        if !config.domains.contains(&request.domain) {
            let text = format!("{} has no items of domain {}", config.service, request.domain.0);
            return self.refuse(request, StateCode::USAGE_ERROR, &text, reply);
        }
        let name = request.key.name_lossy();
        let streaming = request.flags.contains(RequestFlags::STREAMING);
        let open =
            Open { session: self.id, stream_id: request.stream_id, domain: request.domain, name: &name, streaming };
        match items.open(open) {
            Err(Refusal { code, text }) => self.refuse(request, code, &text, reply),
            Ok(item) => {
                if streaming {
                    self.streams.insert(request.stream_id, Stream { item, domain: request.domain });
                }
                self.image(items, item, request, reply);
            }
        }
    }

    fn image(&mut self, items: &mut dyn Items, item: ItemId, request: &RequestMsg<'_>, reply: Reply<'_>) {
        let (stream_id, domain) = (request.stream_id, request.domain);
        self.send_image(items, Shown { item, stream_id, domain, asked: Some(request) }, reply);
    }

    fn send_image(&mut self, items: &mut dyn Items, shown: Shown<'_, '_>, reply: Reply<'_>) {
        let Shown { item, stream_id, domain, asked } = shown;
        let has = |flag| asked.is_none_or(|request| request.flags.contains(flag));
        let stream = if has(RequestFlags::STREAMING) { StreamState::OPEN } else { StreamState::NON_STREAMING };
        let multi_part = domain != Domain::MARKET_PRICE;
        let mut part = 0;
        loop {
            let mut payload = std::mem::take(&mut self.payload);
            payload.clear();
            let image = items.image(item, domain, part, &mut payload);
            let mut flags = RefreshFlags::NONE;
            flags.set(RefreshFlags::SOLICITED, asked.is_some());
            flags.set(RefreshFlags::CLEAR_CACHE, part == 0);
            flags.set(RefreshFlags::REFRESH_COMPLETE, !image.more);
            flags.set(RefreshFlags::PRIVATE_STREAM, asked.is_some() && has(RequestFlags::PRIVATE_STREAM));
            let refresh = RefreshMsg {
                container: image.container,
                flags,
                seq_num: image.sequence,
                state: State { stream, ..State::OPEN_OK },
                qos: Some(Qos::REALTIME_TICK),
                key: asked.map(|request| MsgKey { attrib: None, ..request.key }),
                part_num: multi_part.then_some(part as u16),
                body: &payload,
                ..RefreshMsg::new(domain, stream_id)
            };
            self.send(reply, |w| refresh.encode(w));
            self.payload = payload;
            part += 1;
            if !image.more {
                return;
            }
        }
    }

    fn close(&mut self, stream_id: i32, items: &mut dyn Items) {
        if self.login == Some(stream_id) {
            return self.ended(items);
        }
        if self.directory == Some(stream_id) {
            self.directory = None;
        }
        if let Some(stream) = self.streams.remove(&stream_id) {
            items.close(stream.item, self.id, stream_id);
        }
    }

    /// A post is acknowledged when that is asked for; what is accepted is published by the owner.
    fn post(&mut self, provider: &Provider, items: &dyn Items, post: &PostMsg<'_>, reply: Reply<'_>) {
        let stream = self.streams.get(&post.stream_id);
        let known = self.login == Some(post.stream_id) || stream.is_some();
        let service = post.key.as_ref().and_then(|k| k.service_id);
        let accepted = Post::of(post, stream.and_then(|s| items.name(s.item)));
        let (nak, text) = if !known {
            (Some(NakCode::NOT_OPEN), "the stream of the post is not open here")
        } else if service.is_some_and(|id| id != provider.config.service_id) {
            (Some(NakCode::SOURCE_UNKNOWN), "the service of the post is not known here")
        } else if !provider.is_up {
            (Some(NakCode::SOURCE_DOWN), "the service is down")
        } else if accepted.is_none() {
            (Some(NakCode::INVALID_CONTENT), "the post names no item, or its message cannot be read")
        } else {
            (None, "")
        };
        if nak.is_none() {
            self.posts.extend(accepted);
        }
        if !post.flags.contains(PostFlags::ACK) {
            return;
        }
        let ack = AckMsg {
            ack_id: post.post_id.unwrap_or(0),
            nak_code: nak,
            text: (!text.is_empty()).then_some(text.as_bytes()),
            seq_num: post.seq_num,
            ..AckMsg::new(post.domain, post.stream_id)
        };
        self.send(reply, |w| ack.encode(w));
    }

    /// A generic message on an item's stream comes back as it is.
    fn generic(&mut self, generic: &GenericMsg<'_>, reply: Reply<'_>) {
        if self.streams.get(&generic.stream_id).is_some_and(|s| s.domain == generic.domain) {
            self.send(reply, |w| generic.encode(w));
        }
    }

    fn refuse(&mut self, request: &RequestMsg<'_>, code: StateCode, text: &str, reply: Reply<'_>) {
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, code, text);
        let key = MsgKey { attrib: None, ..request.key };
        self.status(request.domain, request.stream_id, Some(key), state, reply);
    }

    fn status(&mut self, domain: Domain, stream_id: i32, key: Option<MsgKey<'_>>, state: State<'_>, reply: Reply<'_>) {
        let status = StatusMsg { state: Some(state), key, ..StatusMsg::new(domain, stream_id) };
        self.send(reply, |w| status.encode(w));
    }

    /// Encodes and replies; the buffer grows until the message fits.
    fn send(&mut self, reply: Reply<'_>, encode: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) {
        loop {
            let mut w = Writer::new(&mut self.buffer);
            match encode(&mut w) {
                Ok(()) => return reply(w.written()),
                Err(EncodeError::BufferFull) if self.buffer.len() < 1 << 24 => {
                    let doubled = self.buffer.len() * 2;
                    self.buffer.resize(doubled, 0);
                }
                Err(_) => {
                    self.strange += 1;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
