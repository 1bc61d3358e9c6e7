//! One connection's side of the provider.

use super::{ItemId, Items, Open, Post, Prank, Provider, Refusal};
use omm::provider::{Asked, Event, Upstream};
use rustc_hash::FxHashMap;
use rwf::msg::{Domain, NakCode, PostMsg, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::{DataState, DataType, Qos, State, StateCode, StreamState};
use std::sync::Arc;

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
    /// Login, directory, dictionaries, and which streams there are.
    role: omm::provider::Provider,
    login_text: String,
    /// The image shown on the streams.
    streams: FxHashMap<i32, Stream>,
    payload: Vec<u8>,
    lock: Arc<[u8]>,
    /// Accepted, and not taken yet.
    posts: Vec<Post>,
}

/// An image to be sent: of which item, on which stream, and whether updates follow.
#[derive(Clone, Copy)]
struct Shown {
    item: ItemId,
    stream_id: i32,
    domain: Domain,
    streaming: bool,
}

/// An update that promises more than it holds: five entries, and the first is cut off.
pub(super) fn malformed(domain: Domain, stream_id: i32) -> UpdateMsg<'static> {
    let container = if domain == Domain::MARKET_PRICE { DataType::FIELD_LIST } else { DataType::MAP };
    UpdateMsg { container, body: &[0x08, 0x00, 0x05, 0x00, 0x16, 0x20, 0x01], ..UpdateMsg::new(domain, stream_id) }
}

/// Takes the answers.
type Reply<'r> = &'r mut dyn FnMut(&[u8]);

impl Session {
    /// A connection to this provider that has not said anything yet. From now on it is told of each change of the service
    /// ([`Session::service_changed`]).
    pub fn new(id: SessionId, provider: &Provider) -> Self {
        Self {
            id,
            role: omm::provider::Provider::new(provider.role()),
            login_text: format!("Login accepted by {}", provider.config.vendor),
            streams: FxHashMap::default(),
            payload: Vec::with_capacity(4 * 1024),
            lock: Arc::clone(&provider.config.lock),
            posts: Vec::new(),
        }
    }

    /// Streaming items.
    pub fn open_items(&self) -> usize {
        self.streams.len()
    }

    /// Messages that could not be understood.
    pub fn strange(&self) -> u64 {
        self.role.unexpected()
    }

    /// Answers a message.
    pub fn message(&mut self, items: &mut dyn Items, msg: &[u8], reply: Reply<'_>) {
        match self.role.handle_message(msg) {
            None => {}
            Some(Upstream::Post(post)) => self.post(items, &post),
            // A generic message on an item's stream comes back as it is.
            Some(Upstream::Generic(generic)) => drop(self.role.send_generic(&generic)),
            Some(_) => debug_assert!(false, "a kind of message that is not answered"),
        }
        self.answer(items);
        self.send(reply);
    }

    /// Posts since the last call, in order.
    pub fn take_posts(&mut self) -> Vec<Post> {
        std::mem::take(&mut self.posts)
    }

    /// Tells that a service went up or down.
    pub fn service_changed(&mut self, provider: &Provider, service_id: u16, reply: Reply<'_>) {
        self.role.change_service(&provider.state_change(service_id));
        self.send(reply);
    }

    /// Sends a part of an image of an open item, solicited where one is owed. A final state ends the stream, of which the items are not told.
    pub fn refresh(&mut self, refresh: &RefreshMsg<'_>, reply: Reply<'_>) {
        self.role.refresh(refresh);
        if refresh.state.stream.is_final() {
            self.streams.remove(&refresh.stream_id);
        }
        self.send(reply);
    }

    /// Sends the state of an open item; a final one ends the stream, of which the items are not told.
    pub fn status(&mut self, stream_id: i32, state: State<'_>, reply: Reply<'_>) {
        self.role.status(stream_id, state);
        if state.stream.is_final() {
            self.streams.remove(&stream_id);
        }
        self.send(reply);
    }

    /// Whether the consumer's login is accepted.
    pub fn is_logged_in(&self) -> bool {
        self.role.is_logged_in()
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
                    self.role.status(stream_id, state);
                }
                Prank::Image => self.show(items, Shown { item, stream_id, domain, streaming: true }),
                Prank::Malformed => drop(self.role.update(&malformed(domain, stream_id))),
            }
        }
        self.send(reply);
        streams.len()
    }

    /// The connection is gone: so are its streams.
    pub fn ended(&mut self, items: &mut dyn Items) {
        self.role.handle_disconnected();
        self.answer(items);
        debug_assert!(self.streams.is_empty(), "a stream without a connection");
    }

    /// Does what the consumer wants.
    fn answer(&mut self, items: &mut dyn Items) {
        while let Some(event) = self.role.poll_event() {
            match event {
                Event::Login(request) => self.role.accept_login(&request, &self.login_text),
                Event::Open(asked) => self.open(items, &asked),
                // Priority and pause change nothing here, an image comes if one is wanted.
                Event::Reissue { asked, image: true } => {
                    if let Some(&Stream { item, domain }) = self.streams.get(&asked.stream_id) {
                        let streaming = asked.streaming;
                        self.show(items, Shown { item, stream_id: asked.stream_id, domain, streaming });
                    }
                }
                Event::Close { stream_id } => {
                    if let Some(stream) = self.streams.remove(&stream_id) {
                        items.close(stream.item, self.id, stream_id);
                    }
                }
                _ => {}
            }
        }
    }

    fn open(&mut self, items: &mut dyn Items, asked: &Asked) {
        let Asked { stream_id, domain, service, streaming, .. } = *asked;
        let name = String::from_utf8_lossy(&asked.name);
        match items.open(Open { session: self.id, stream_id, service, domain, name: &name, streaming }) {
            Err(Refusal { code, text }) => {
                let may_come = code == StateCode::NOT_OPEN;
                let stream = if may_come { StreamState::CLOSED_RECOVER } else { StreamState::CLOSED };
                self.role.status(stream_id, State::new(stream, DataState::SUSPECT, code, &text));
            }
            Ok(item) => {
                if streaming {
                    self.streams.insert(stream_id, Stream { item, domain });
                }
                self.show(items, Shown { item, stream_id, domain, streaming });
            }
        }
    }

    /// Sends an image in its parts.
    fn show(&mut self, items: &mut dyn Items, shown: Shown) {
        let Shown { item, stream_id, domain, streaming } = shown;
        if let Some(state) = items.without_image(item) {
            self.role.status(stream_id, state);
            return;
        }
        let stream = if streaming { StreamState::OPEN } else { StreamState::NON_STREAMING };
        let multi_part = domain != Domain::MARKET_PRICE;
        let mut part = 0;
        loop {
            self.payload.clear();
            let image = items.image(item, domain, part, &mut self.payload);
            let mut flags = RefreshFlags::NONE;
            flags.set(RefreshFlags::CLEAR_CACHE, part == 0);
            flags.set(RefreshFlags::REFRESH_COMPLETE, !image.more);
            let refresh = RefreshMsg {
                container: image.container,
                flags,
                seq_num: image.sequence,
                state: State { stream, data: image.data, ..State::OPEN_OK },
                qos: Some(Qos::REALTIME_TICK),
                part_num: multi_part.then_some(part as u16),
                perm_data: Some(&self.lock),
                body: &self.payload,
                ..RefreshMsg::new(domain, stream_id)
            };
            self.role.refresh(&items.dress(item, refresh));
            part += 1;
            if !image.more {
                return;
            }
        }
    }

    /// A post that passed is acknowledged when that is asked for, and published by the owner.
    fn post(&mut self, items: &dyn Items, post: &PostMsg<'_>) {
        let stream = self.streams.get(&post.stream_id);
        if let Some(accepted) = Post::of(post, stream.and_then(|stream| items.name(stream.item))) {
            self.posts.push(accepted);
            self.role.acknowledge(post, None, "");
        } else {
            let text = "the post names no item, or its message cannot be read";
            self.role.acknowledge(post, Some(NakCode::INVALID_CONTENT), text);
        }
    }

    fn send(&mut self, reply: Reply<'_>) {
        while let Some(msg) = self.role.poll_transmit() {
            reply(msg);
        }
    }
}

#[cfg(test)]
mod tests;
