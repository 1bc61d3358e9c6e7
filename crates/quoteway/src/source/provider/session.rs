//! One connection's side of the provider.

use super::{ItemId, Items, Open, Provider, Refusal};
use rwf::msg::{
    AckMsg, Domain, GenericMsg, Msg, MsgKey, NakCode, PostFlags, PostMsg, RefreshFlags, RefreshMsg, RequestFlags,
    RequestMsg, StatusMsg,
};
use rwf::rdm::request::Payload;
use rwf::rdm::{dictionary, directory, login};
use rwf::wire::Writer;
use rwf::{DataState, EncodeError, Qos, State, StateCode, StreamState};
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
    /// Messages that could not be understood, or make no sense here.
    strange: u64,
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
            Ok(Msg::Post(post)) => self.post(provider, &post, reply),
            Ok(Msg::Generic(generic)) => self.generic(&generic, reply),
            _ => self.strange += 1,
        }
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
        let streaming = request.flags.contains(RequestFlags::STREAMING);
        let stream = if streaming { StreamState::OPEN } else { StreamState::NON_STREAMING };
        let multi_part = request.domain != Domain::MARKET_PRICE;
        let mut part = 0;
        loop {
            let mut payload = std::mem::take(&mut self.payload);
            payload.clear();
            let image = items.image(item, request.domain, part, &mut payload);
            let mut flags = RefreshFlags::SOLICITED;
            flags.set(RefreshFlags::CLEAR_CACHE, part == 0);
            flags.set(RefreshFlags::REFRESH_COMPLETE, !image.more);
            flags.set(RefreshFlags::PRIVATE_STREAM, request.flags.contains(RequestFlags::PRIVATE_STREAM));
            let refresh = RefreshMsg {
                container: image.container,
                flags,
                seq_num: image.sequence,
                state: State { stream, ..State::OPEN_OK },
                qos: Some(Qos::REALTIME_TICK),
                key: Some(MsgKey { attrib: None, ..request.key }),
                part_num: multi_part.then_some(part as u16),
                body: &payload,
                ..RefreshMsg::new(request.domain, request.stream_id)
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

    /// Posts are taken note of: acknowledged when that is asked for, and nothing else.
    fn post(&mut self, provider: &Provider, post: &PostMsg<'_>, reply: Reply<'_>) {
        if !post.flags.contains(PostFlags::ACK) {
            return;
        }
        let known = self.login == Some(post.stream_id) || self.streams.contains_key(&post.stream_id);
        let service = post.key.as_ref().and_then(|k| k.service_id);
        let (nak, text) = if !known {
            (Some(NakCode::NOT_OPEN), "the stream of the post is not open here")
        } else if service.is_some_and(|id| id != provider.config.service_id) {
            (Some(NakCode::SOURCE_UNKNOWN), "the service of the post is not known here")
        } else {
            (None, "")
        };
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
