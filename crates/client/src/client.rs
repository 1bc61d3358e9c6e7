//! Subscriptions over one consumer.

use crate::posts::{Poster, Posts};
use crate::streams::{Delivery, Streams};
use crate::subscription::{Interest, SubscriptionId};
use omm::consumer::{self, Consumer, ConsumerConfig, ItemId, ItemRequest, OpenError};
use omm::{Disconnect, Server};
use rwf::StreamState;
use rwf::dictionary::Dictionary;
use rwf::image::{Image, Plans};
use rwf::msg::{AckMsg, GenericMsg, Msg, MsgClass, NakCode, PostFlags, PostMsg};
use rwf::rdm::login;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Connection list, login, recovery; whether the dictionary is downloaded.
    pub consumer: ConsumerConfig,
    /// The dictionary, if the application has one; it goes before one that is downloaded.
    pub dictionary: Option<Arc<Dictionary>>,
    /// Most posts that wait for an acknowledgement.
    pub posts_max: usize,
    /// How long an acknowledgement is awaited, nanoseconds.
    pub post_timeout_ns: u64,
}

impl ClientConfig {
    /// A client of this consumer; 100,000 posts may wait, 15 s each.
    pub const fn new(consumer: ConsumerConfig) -> Self {
        Self { consumer, dictionary: None, posts_max: 100_000, post_timeout_ns: 15_000_000_000 }
    }
}

/// Events apart from messages of items.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Of login, services, dictionary and connection. The states of items are deliveries.
    Consumer(Box<consumer::Event>),
    /// A post was answered.
    PostAnswered {
        /// The post.
        id: u32,
        /// Who has posted; `None`: off-stream.
        by: Option<(SubscriptionId, u32)>,
        /// The reason of a refusal; `None`: taken.
        nak: Option<NakCode>,
        /// Text of the answer.
        text: String,
    },
    /// A post was not answered in time, or its connection was lost: whether it was taken is not known.
    PostUnanswered {
        /// The post.
        id: u32,
        /// Who has posted; `None`: off-stream.
        by: Option<(SubscriptionId, u32)>,
    },
}

/// Why a post was not sent: all are the caller's to do something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// The item is not open, or there is no login: post when it is.
    NotOpen,
    /// As many posts as may wait for an acknowledgement do (`posts_max`).
    TooManyWait,
}

impl std::fmt::Display for PostError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotOpen => {
                "the post was not sent: its item is not open, or nobody is logged in; wait for the image and post again"
            }
            Self::TooManyWait => {
                "the post was not sent: too many wait for an acknowledgement; wait for some, or raise posts_max"
            }
        })
    }
}

impl std::error::Error for PostError {}

/// A client, without I/O. Driven as a [`Consumer`] is (see [`omm`]), with a sink for messages of items.
#[derive(Debug)]
pub struct Client {
    consumer: Consumer,
    streams: Streams,
    /// The items of each subscription, by place; `None`: ended.
    subscriptions: Vec<Option<Vec<Option<ItemId>>>>,
    free: Vec<u32>,
    posts: Posts,
    dictionary: Option<Arc<Dictionary>>,
    has_own_dictionary: bool,
    events: VecDeque<Event>,
}

impl Client {
    /// A client that has no connection yet.
    pub fn new(mut config: ClientConfig) -> Self {
        config.consumer.dictionary &= config.dictionary.is_none();
        Self {
            consumer: Consumer::new(config.consumer),
            streams: Streams::new(Plans::new(config.dictionary.clone())),
            subscriptions: Vec::new(),
            free: Vec::new(),
            posts: Posts::new(config.posts_max, config.post_timeout_ns),
            has_own_dictionary: config.dictionary.is_some(),
            dictionary: config.dictionary,
            events: VecDeque::new(),
        }
    }

    /// The server to connect to now.
    pub fn poll_connect(&mut self, now: u64) -> Option<&Server> {
        self.consumer.poll_connect(now)
    }

    /// The connection is there.
    pub fn handle_connected(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        self.consumer.handle_connected(now);
        self.take_events(sink);
    }

    /// The connection is gone, or could not be made.
    pub fn handle_disconnected(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        self.consumer.handle_disconnected(now);
        self.streams.abandon_refreshes();
        self.take_events(sink);
        while let Some((id, by)) = self.posts.any() {
            self.events.push_back(Event::PostUnanswered { id, by });
        }
    }

    /// Takes a message of the server.
    #[inline]
    pub fn handle_message(&mut self, now: u64, msg: &[u8], sink: &mut impl FnMut(Delivery<'_>)) {
        if let Some(given) = self.consumer.handle_message(now, msg) {
            if rwf::peek::class(msg) == Some(MsgClass::ACK) {
                self.acknowledged(msg);
            }
            self.streams.message(&self.consumer, given.item, given.msg, sink);
        }
        self.take_events(sink);
    }

    fn acknowledged(&mut self, msg: &[u8]) {
        let Ok(Msg::Ack(AckMsg { ack_id, nak_code, text, .. })) = Msg::decode(msg) else { return };
        self.answered(ack_id, nak_code, text.unwrap_or_default());
    }

    fn answered(&mut self, id: u32, nak: Option<NakCode>, text: &[u8]) {
        if let Some(by) = self.posts.end(id) {
            let text = String::from_utf8_lossy(text).into_owned();
            self.events.push_back(Event::PostAnswered { id, by, nak, text });
        }
    }

    fn take_events(&mut self, sink: &mut impl FnMut(Delivery<'_>)) {
        while let Some(event) = self.consumer.poll_event() {
            match event {
                consumer::Event::ItemState { item, state } => {
                    let is_final = state.stream != StreamState::OPEN;
                    self.streams.state(item, &state, is_final, sink);
                }
                consumer::Event::LoginAck { ack_id, nak_code, text } => {
                    self.answered(ack_id, nak_code, text.as_bytes());
                }
                consumer::Event::Dictionary(dictionary) => {
                    if !self.has_own_dictionary {
                        self.streams.plans = Plans::new(Some(Arc::clone(&dictionary)));
                        self.dictionary = Some(Arc::clone(&dictionary));
                    }
                    self.events.push_back(Event::Consumer(Box::new(consumer::Event::Dictionary(dictionary))));
                }
                other => self.events.push_back(Event::Consumer(Box::new(other))),
            }
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        self.consumer.handle_timeout(now);
        while let Some((id, by)) = self.posts.overdue(now) {
            self.events.push_back(Event::PostUnanswered { id, by });
        }
        self.take_events(sink);
    }

    /// When [`Client::handle_timeout`] or [`Client::poll_connect`] has something to do.
    pub fn timeout(&self) -> Option<u64> {
        [self.consumer.timeout(), self.posts.timeout()].into_iter().flatten().min()
    }

    /// The next message to send; all of them before the owner waits.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        self.consumer.poll_transmit()
    }

    /// The next event since the last call.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Opens the items of an interest. Those that are open for an equal request already are joined: their held images are given at once, and
    /// the server hears nothing of it.
    ///
    /// # Errors
    /// There are too many items; none is opened.
    pub fn subscribe(
        &mut self,
        now: u64,
        interest: &Interest,
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Result<SubscriptionId, OpenError> {
        let request = |name: &str| ItemRequest { name: name.to_owned(), ..interest.request.clone() };
        let id = SubscriptionId::new(self.free.last().copied().unwrap_or(self.subscriptions.len() as u32));
        let mut items = vec![None; interest.names.len()];
        let mut fresh: Vec<&str> = Vec::new();
        let mut places: Vec<u32> = Vec::new();
        let mut again: Vec<u32> = Vec::new();
        let mut named: HashSet<&str> = HashSet::new();
        let shares = interest.request.streaming && !interest.request.private;
        for (place, name) in interest.names.iter().enumerate() {
            if shares && (!named.insert(name) || self.streams.open(&request(name)).is_some()) {
                again.push(place as u32);
            } else {
                fresh.push(name);
                places.push(place as u32);
            }
        }
        let opened = match fresh.as_slice() {
            [] => Vec::new(),
            [name] => vec![self.consumer.open(now, request(name))?],
            names => self.consumer.open_batch(now, &interest.request, names)?,
        };
        for ((item, name), place) in opened.into_iter().zip(&fresh).zip(&places) {
            self.streams.insert(item, request(name), (id, *place));
            items[*place as usize] = Some(item);
        }
        for place in again {
            let item = self.streams.open(&request(&interest.names[place as usize]));
            items[place as usize] = item;
            if let Some(item) = item {
                self.streams.join(item, (id, place), sink);
            }
        }
        if self.free.pop().is_some() {
            self.subscriptions[id.index()] = Some(items);
        } else {
            self.subscriptions.push(Some(items));
        }
        self.take_events(sink);
        Ok(id)
    }

    /// Ends a subscription: nothing more comes of it. Streams that nobody else watches are closed.
    pub fn unsubscribe(&mut self, now: u64, id: SubscriptionId) {
        let Some(items) = self.subscriptions.get_mut(id.index()).and_then(Option::take) else { return };
        self.free.push(id.index() as u32);
        for (place, item) in items.into_iter().enumerate() {
            if let Some(item) = item.filter(|item| self.streams.leave(*item, id, place as u32)) {
                self.consumer.close(now, item);
            }
        }
    }

    /// The stream of an item; `None` if there never was such.
    fn item(&self, id: SubscriptionId, place: u32) -> Option<ItemId> {
        *self.subscriptions.get(id.index())?.as_ref()?.get(place as usize)?
    }

    /// The held image of an item.
    pub fn image(&self, id: SubscriptionId, place: u32) -> Option<&Image> {
        self.streams.image(self.item(id, place)?)
    }

    /// Writes the held image of an item as a refresh; false if there is no whole one.
    pub fn write_image(&self, id: SubscriptionId, place: u32, out: &mut Vec<u8>) -> bool {
        self.item(id, place).is_some_and(|item| self.streams.write_image(item, out))
    }

    /// Posts to an item of a subscription, on its stream. With `wants_ack` the answer comes as an [`Event`] with the id that is given here, in its
    /// own time: an acknowledgement counts whether or not it repeats a sequence number.
    ///
    /// # Errors
    /// The item is not open, or too many posts wait.
    pub fn post(
        &mut self,
        now: u64,
        (id, place): (SubscriptionId, u32),
        post: &PostMsg<'_>,
        wants_ack: bool,
    ) -> Result<u32, PostError> {
        let item = self.item(id, place).ok_or(PostError::NotOpen)?;
        self.send_post(now, Some((id, place)), post, wants_ack, |consumer, post| consumer.post(item, post))
    }

    /// Posts on the stream of the login, to the item that the post's key names.
    ///
    /// # Errors
    /// There is no login, or too many posts wait.
    pub fn post_off_stream(&mut self, now: u64, post: &PostMsg<'_>, wants_ack: bool) -> Result<u32, PostError> {
        self.send_post(now, None, post, wants_ack, Consumer::post_off_stream)
    }

    fn send_post(
        &mut self,
        now: u64,
        poster: Poster,
        post: &PostMsg<'_>,
        wants_ack: bool,
        send: impl FnOnce(&mut Consumer, &PostMsg<'_>) -> bool,
    ) -> Result<u32, PostError> {
        let post_id = if wants_ack { self.posts.begin(now, poster).ok_or(PostError::TooManyWait)? } else { 0 };
        let mut post = PostMsg { post_id: wants_ack.then_some(post_id).or(post.post_id), ..post.clone() };
        post.flags |= PostFlags::POST_COMPLETE;
        post.flags.set(PostFlags::ACK, wants_ack);
        if send(&mut self.consumer, &post) {
            return Ok(post_id);
        }
        self.posts.end(post_id);
        Err(PostError::NotOpen)
    }

    /// Sends a generic message on the stream of an item. Gives whether the item is open.
    pub fn send_generic(&mut self, (id, place): (SubscriptionId, u32), generic: &GenericMsg<'_>) -> bool {
        self.item(id, place).is_some_and(|item| self.consumer.send_generic(item, generic))
    }

    /// Changes the login, such as its token, here and at the server.
    pub fn reissue_login(&mut self, change: impl FnOnce(&mut login::Request)) {
        self.consumer.reissue_login(change);
    }

    /// Ends the session in order; then [`consumer::Event::Disconnect`] comes.
    pub fn shut_down(&mut self, sink: &mut impl FnMut(Delivery<'_>)) {
        self.consumer.shut_down();
        self.take_events(sink);
    }

    /// Connects again after a refused login or [`Client::shut_down`].
    pub fn restart(&mut self, now: u64) {
        self.consumer.restart(now);
    }

    /// The dictionary: the application's own, or the one that was downloaded.
    pub const fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }

    /// The consumer below, for what it knows of login, services and server.
    pub const fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// Streams that are open or asked for.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether an event asks the owner to close the connection behind what there is to send.
    pub fn asks_to_disconnect(event: &Event) -> Option<Disconnect> {
        match event {
            Event::Consumer(event) => match **event {
                consumer::Event::Disconnect(why) => Some(why),
                _ => None,
            },
            _ => None,
        }
    }
}
