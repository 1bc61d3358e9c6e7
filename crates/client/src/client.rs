//! Subscriptions over the consumers of a client's links.

use crate::config::ClientConfig;
use crate::delivery::Delivery;
use crate::events::Event;
use crate::links::{Availability, LinkId};
use crate::places::Places;
use crate::posts::Poster;
use crate::streams::{Sequel, StreamId};
use crate::subscription::{Interest, SubscriptionId};
use omm::consumer::{self, Consumer, ItemId, ItemRequest, OpenError};
use omm::{Disconnect, Server, WallClock};
use rwf::dictionary::Dictionary;
use rwf::image::Image;
use rwf::msg::{GenericMsg, MsgClass, MsgKey, PostFlags, PostMsg};
use rwf::rdm::directory::Service;
use rwf::rdm::login;
use std::collections::HashSet;
use std::sync::Arc;

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

/// A client, without I/O. Each of its links is driven as a [`Consumer`] is (see [`omm`]), with a sink for messages of items.
#[derive(Debug)]
pub struct Client {
    /// Where the streams are.
    places: Places,
    /// The streams of each subscription, by place; `None`: ended.
    subscriptions: Vec<Option<Vec<Option<StreamId>>>>,
    free: Vec<u32>,
}

impl Client {
    /// A client that has no connection yet.
    pub fn new(config: ClientConfig) -> Self {
        Self { places: Places::new(config), subscriptions: Vec::new(), free: Vec::new() }
    }

    /// The connections that are held at a time.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        self.places.links.ids()
    }

    /// The server that a link is to connect to now.
    pub fn poll_connect(&mut self, now: u64, link: LinkId) -> Option<&Server> {
        self.places.links.poll_connect(now, link)
    }

    /// The connection of a link is there.
    pub fn handle_connected(&mut self, now: u64, link: LinkId, sink: &mut impl FnMut(Delivery<'_>)) {
        self.places.links.of(link).handle_connected(now);
        self.places.settle(now, sink);
    }

    /// The connection of a link is gone, or could not be made.
    pub fn handle_disconnected(&mut self, now: u64, link: LinkId, sink: &mut impl FnMut(Delivery<'_>)) {
        self.places.links.of(link).handle_disconnected(now);
        self.places.links.first_is_decided(link);
        self.places.streams.abandon_refreshes(link);
        self.places.settle(now, sink);
        for (id, by) in self.places.posts.lost(link) {
            self.places.events.push_back(Event::PostUnanswered { id, by });
        }
    }

    /// Takes a message of a link's server.
    #[inline]
    pub fn handle_message(&mut self, now: u64, link: LinkId, msg: &[u8], sink: &mut impl FnMut(Delivery<'_>)) {
        let passing = self.places.links.get(link).passing_update(msg);
        if passing.is_none_or(|item| !self.places.streams.update((link, item), msg, sink)) {
            self.handle_other(now, link, msg, sink);
        }
    }

    /// Takes a message that is not only an update of an item.
    #[inline(never)]
    fn handle_other(&mut self, now: u64, link: LinkId, msg: &[u8], sink: &mut impl FnMut(Delivery<'_>)) {
        if let Some(given) = self.places.links.of(link).handle_message(now, msg) {
            if given.item.is_provided() && self.places.streams.of(link, given.item).is_none() {
                // The first message of what the server has opened itself: who it is for is an event before it.
                self.places.take_events(now, link, sink);
            }
            if rwf::peek::class(msg) == Some(MsgClass::ACK) {
                self.places.acknowledged(msg);
            }
            let sequel = self.places.streams.message(link, self.places.links.get(link), (given.item, given.msg), sink);
            match sequel {
                Sequel::None => {}
                Sequel::Gap(id) => self.places.ask_after_gap(now, id, sink),
                Sequel::Ended(id) => self.places.end(now, id),
            }
        }
        if self.places.take_events(now, link, sink) {
            self.places.settle(now, sink);
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        self.places.links.all().for_each(|consumer| consumer.handle_timeout(now));
        while let Some((id, by)) = self.places.posts.overdue(now) {
            self.places.events.push_back(Event::PostUnanswered { id, by });
        }
        self.places.settle(now, sink);
        self.places.ask_overdue(now, sink);
    }

    /// When [`Client::handle_timeout`] or [`Client::poll_connect`] has something to do.
    pub fn timeout(&self) -> Option<u64> {
        self.places.timeout()
    }

    /// The next message to send on a link; all of them before the owner waits.
    pub fn poll_transmit(&mut self, link: LinkId) -> Option<&[u8]> {
        self.places.links.of(link).poll_transmit()
    }

    /// The next event since the last call.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.places.events.pop_front()
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
        let id = SubscriptionId::new(self.free.last().copied().unwrap_or(self.subscriptions.len() as u32));
        let items = self.open_items(now, (id, 0), interest, sink)?;
        if self.free.pop().is_some() {
            self.subscriptions[id.index()] = Some(items);
        } else {
            self.subscriptions.push(Some(items));
        }
        self.places.settle(now, sink);
        Ok(id)
    }

    /// Opens further items for a subscription, as [`Client::subscribe`] does. Gives the place of the first; `None`: the subscription has ended.
    ///
    /// # Errors
    /// There are too many items; none is opened.
    pub fn extend(
        &mut self,
        now: u64,
        id: SubscriptionId,
        interest: &Interest,
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Result<Option<u32>, OpenError> {
        let Some(Some(known)) = self.subscriptions.get(id.index()) else { return Ok(None) };
        let first = known.len() as u32;
        let items = self.open_items(now, (id, first), interest, sink)?;
        if let Some(Some(known)) = self.subscriptions.get_mut(id.index()) {
            known.extend(items);
        }
        self.places.settle(now, sink);
        Ok(Some(first))
    }

    /// As [`Client::extend`], for names of a symbol list that is open with [`ItemRequest::data_streams`]: the server opens them by itself, and is asked
    /// only for what it does not open in 5 s. Where the request is not for plain market prices, or the server cannot, this is `extend`.
    ///
    /// # Errors
    /// As there.
    pub fn extend_listed(
        &mut self,
        now: u64,
        id: SubscriptionId,
        interest: &Interest,
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Result<Option<u32>, OpenError> {
        let service = &interest.request.service;
        let stands_by = self.places.links.stand_by();
        let source = if stands_by { self.places.links.serving(service) } else { self.places.links.asked_for(service) };
        if !interest.is_plain() || !self.places.links.get(source).lists_data() {
            return self.extend(now, id, interest, sink);
        }
        let Some(Some(known)) = self.subscriptions.get(id.index()) else { return Ok(None) };
        let first = known.len() as u32;
        let mut items = Vec::with_capacity(interest.names.len());
        for (name, place) in interest.names.iter().zip(first..) {
            let request = ItemRequest { name: name.clone(), ..interest.request.clone() };
            let stream = if let Some(open) = self.places.streams.open(&request) {
                let pause = (request.paused, self.places.rests(open));
                self.places.streams.join(open, (id, place), pause, sink);
                self.places.note_pause(open);
                open
            } else {
                let stream = self.places.streams.insert(request, source, (id, place));
                self.places.await_provided(now, stream);
                stream
            };
            items.push(Some(stream));
        }
        if let Some(Some(known)) = self.subscriptions.get_mut(id.index()) {
            known.extend(items);
        }
        self.places.settle(now, sink);
        Ok(Some(first))
    }

    /// Closes one item of a subscription; nothing more comes of it. Its place is not used again.
    pub fn drop_item(&mut self, now: u64, id: SubscriptionId, place: u32) {
        let known = self.subscriptions.get_mut(id.index()).and_then(Option::as_mut);
        let stream = known.and_then(|items| items.get_mut(place as usize)).and_then(Option::take);
        if let Some(stream) = stream {
            self.leave(now, stream, (id, place));
            self.places.fill_room(now);
        }
    }

    fn leave(&mut self, now: u64, stream: StreamId, (id, place): (SubscriptionId, u32)) {
        // A stream that has ended was left by all with its end.
        if self.places.streams.get(stream).is_none() {
            return;
        }
        if self.places.streams.leave(stream, id, place) {
            self.places.end(now, stream);
        } else {
            self.places.note_pause(stream);
        }
    }

    /// Pauses an item of a subscription, or goes on with it: no updates of it are given in a pause, refreshes and states are, and behind it comes the
    /// item's image. A server that can hears of it when nobody else here watches the item. Gives whether there is such an item.
    pub fn pause(
        &mut self,
        (id, place): (SubscriptionId, u32),
        is_paused: bool,
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> bool {
        let Some(stream) = self.stream(id, place).filter(|stream| self.places.streams.get(*stream).is_some()) else {
            return false;
        };
        let rests = self.places.rests(stream);
        self.places.streams.pause(stream, (id, place), (is_paused, rests), sink);
        self.places.note_pause(stream);
        true
    }

    /// Changes what is asked for of an item: its view or its priority. Others who watch it keep what they have. Gives whether there is such an item.
    ///
    /// # Errors
    /// Others watch the stream, and there are too many items for one more; all is as it was.
    pub fn reissue(
        &mut self,
        now: u64,
        (id, place): (SubscriptionId, u32),
        change: impl FnOnce(&mut ItemRequest),
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Result<bool, OpenError> {
        let Some(old) = self.stream(id, place) else { return Ok(false) };
        let Some(stream) = self.places.streams.get(old) else { return Ok(false) };
        let mut changed = (*stream.request).clone();
        change(&mut changed);
        let ItemRequest { view, priority, .. } = changed;
        let request = ItemRequest { view, priority, paused: stream.is_paused(id, place), ..(*stream.request).clone() };
        if (&request.view, request.priority) == (&stream.request.view, stream.request.priority) {
            return Ok(true);
        }
        if stream.is_alone() && self.places.streams.open(&request).is_none() {
            self.places.change(old, &request);
            return Ok(true);
        }
        let names = vec![request.name.clone()];
        let opened = self.open_items(now, (id, place), &Interest { request, names }, sink)?;
        self.leave(now, old, (id, place));
        if let Some(Some(items)) = self.subscriptions.get_mut(id.index()) {
            items[place as usize] = opened[0];
        }
        self.places.settle(now, sink);
        Ok(true)
    }

    /// The streams of an interest's items, joined or opened, for the places from `first` on.
    fn open_items(
        &mut self,
        now: u64,
        (id, first): (SubscriptionId, u32),
        interest: &Interest,
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Result<Vec<Option<StreamId>>, OpenError> {
        let request = |name: &str| ItemRequest { name: name.to_owned(), ..interest.request.clone() };
        let mut items = vec![None; interest.names.len()];
        let mut fresh: Vec<&str> = Vec::new();
        let mut places: Vec<usize> = Vec::new();
        let mut again: Vec<usize> = Vec::new();
        let mut named: HashSet<&str> = HashSet::new();
        let shares = interest.request.streaming && !interest.request.private;
        for (place, name) in interest.names.iter().enumerate() {
            if shares && (!named.insert(name) || self.places.streams.open(&request(name)).is_some()) {
                again.push(place);
            } else {
                fresh.push(name);
                places.push(place);
            }
        }
        let service = &interest.request.service;
        let is_everywhere = shares && self.places.links.stand_by();
        let source =
            if is_everywhere { self.places.links.serving(service) } else { self.places.links.asked_for(service) };
        let legs = self.open_legs(now, interest, &fresh, source);
        let legs = legs.inspect_err(|_| self.places.settle(now, sink))?;
        for (at, (name, place)) in fresh.iter().zip(&places).enumerate() {
            let stream = self.places.streams.insert(request(name), source, (id, first + *place as u32));
            for (link, opened) in &legs {
                self.places.streams.put_leg(stream, *link, opened[at]);
            }
            items[*place] = Some(stream);
        }
        for place in again {
            items[place] = self.places.streams.open(&request(&interest.names[place]));
            if let Some(stream) = items[place] {
                let pause = (interest.request.paused, self.places.rests(stream));
                self.places.streams.join(stream, (id, first + place as u32), pause, sink);
                self.places.note_pause(stream);
            }
        }
        Ok(items)
    }

    /// Asks for items at the links at which they are to be open: the items by place of `names`.
    fn open_legs(
        &mut self,
        now: u64,
        interest: &Interest,
        names: &[&str],
        source: LinkId,
    ) -> Result<Vec<(LinkId, Vec<ItemId>)>, OpenError> {
        let request = &interest.request;
        let is_everywhere = self.places.links.stand_by() && request.streaming && !request.private;
        let mut legs: Vec<(LinkId, Vec<ItemId>)> = Vec::new();
        for link in self.places.links.ids().filter(|link| is_everywhere || *link == source) {
            let consumer = self.places.links.of(link);
            let opened = match names {
                [] => Ok(Vec::new()),
                [name] => consumer
                    .open(now, ItemRequest { name: (*name).to_owned(), ..request.clone() })
                    .map(|item| vec![item]),
                names => consumer.open_batch(now, request, names),
            };
            match opened {
                Ok(items) => legs.push((link, items)),
                Err(error) => {
                    for (link, items) in legs {
                        for item in items {
                            self.places.links.of(link).close(now, item);
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(legs)
    }

    /// Ends a subscription: nothing more comes of it. Streams that nobody else watches are closed.
    pub fn unsubscribe(&mut self, now: u64, id: SubscriptionId) {
        // A subscription that has ended before has left its streams.
        let Some(items) = self.subscriptions.get_mut(id.index()).and_then(Option::take) else { return };
        self.free.push(id.index() as u32);
        for (place, stream) in items.into_iter().enumerate() {
            if let Some(stream) = stream {
                self.leave(now, stream, (id, place as u32));
            }
        }
        self.places.fill_room(now);
    }

    /// The stream of an item; `None` if there never was such.
    fn stream(&self, id: SubscriptionId, place: u32) -> Option<StreamId> {
        *self.subscriptions.get(id.index())?.as_ref()?.get(place as usize)?
    }

    /// Where an item is open, and its stream there.
    fn source(&self, id: SubscriptionId, place: u32) -> Option<(LinkId, ItemId)> {
        let stream = self.places.streams.get(self.stream(id, place)?)?;
        Some((stream.source, stream.legs[stream.source.index()]?))
    }

    /// The held image of an item.
    pub fn image(&self, id: SubscriptionId, place: u32) -> Option<&Image> {
        self.places.streams.image(self.stream(id, place)?)
    }

    /// Writes the held image of an item as a refresh; false if there is no whole one.
    pub fn write_image(&self, id: SubscriptionId, place: u32, out: &mut Vec<u8>) -> bool {
        self.stream(id, place).is_some_and(|stream| self.places.streams.write_image(stream, out))
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
        let (link, item) = self.source(id, place).ok_or(PostError::NotOpen)?;
        self.send_post((now, link), Some((id, place)), post, wants_ack, |consumer, post| consumer.post(item, post))
    }

    /// Posts on the stream of a login, to an item that need not be open: at the link that serves its service.
    ///
    /// # Errors
    /// No server that is logged in at has the service, or too many posts wait.
    pub fn post_off_stream(
        &mut self,
        now: u64,
        (service, name): (&str, &str),
        post: &PostMsg<'_>,
        wants_ack: bool,
    ) -> Result<u32, PostError> {
        let link = self.places.links.serving(service);
        let known = self.places.links.get(link).services().find(|known| known.name() == Some(service));
        let id = known.map(|known| known.id).ok_or(PostError::NotOpen)?;
        let key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(id, name.as_bytes()) });
        self.send_post((now, link), None, &PostMsg { key, ..post.clone() }, wants_ack, Consumer::post_off_stream)
    }

    fn send_post(
        &mut self,
        (now, link): (u64, LinkId),
        poster: Poster,
        post: &PostMsg<'_>,
        wants_ack: bool,
        send: impl FnOnce(&mut Consumer, &PostMsg<'_>) -> bool,
    ) -> Result<u32, PostError> {
        let post_id =
            if wants_ack { self.places.posts.begin(now, link, poster).ok_or(PostError::TooManyWait)? } else { 0 };
        let mut post = PostMsg { post_id: wants_ack.then_some(post_id).or(post.post_id), ..post.clone() };
        post.flags |= PostFlags::POST_COMPLETE;
        post.flags.set(PostFlags::ACK, wants_ack);
        if send(self.places.links.of(link), &post) {
            return Ok(post_id);
        }
        self.places.posts.end(post_id);
        Err(PostError::NotOpen)
    }

    /// Sends a generic message on the stream of an item. Gives whether the item is open.
    pub fn send_generic(&mut self, (id, place): (SubscriptionId, u32), generic: &GenericMsg<'_>) -> bool {
        let source = self.source(id, place);
        source.is_some_and(|(link, item)| self.places.links.of(link).send_generic(item, generic))
    }

    /// Changes the login, such as its token, here and at all servers.
    pub fn reissue_login(&mut self, change: impl Fn(&mut login::Request)) {
        self.places.links.all().for_each(|consumer| consumer.reissue_login(&change));
    }

    /// Leaves servers for the preferred ones of their lists, where they are others. Gives how many are left.
    pub fn fall_back(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) -> usize {
        let left = self.places.links.all().map(|consumer| usize::from(consumer.fall_back(now))).sum();
        self.places.settle(now, sink);
        left
    }

    /// The time that the clock on the wall shows now, for lists with a schedule ([`omm::ConnectionList::fall_back_at`]); again every minute or so.
    pub fn set_clock(&mut self, clock: WallClock) {
        self.places.links.all().for_each(|consumer| consumer.set_clock(clock));
    }

    /// Whether [`Client::set_clock`] is of use.
    pub fn has_schedule(&self) -> bool {
        self.places.links.iter().any(Consumer::has_schedule)
    }

    /// Ends the session in order; then [`consumer::Event::Disconnect`] comes for each link that has a connection.
    pub fn shut_down(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        self.places.links.all().for_each(Consumer::shut_down);
        self.places.settle(now, sink);
    }

    /// Connects again after refused logins or [`Client::shut_down`].
    pub fn restart(&mut self, now: u64) {
        self.places.links.all().for_each(|consumer| consumer.restart(now));
    }

    /// The dictionary: the application's own, or the one that was downloaded.
    pub const fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.places.dictionary.as_ref()
    }

    /// The consumer of a link, for what it knows of login, services and server.
    pub fn consumer(&self, link: LinkId) -> &Consumer {
        self.places.links.get(link)
    }

    /// The link that serves all services, or that was logged in first: for what concerns no item.
    pub fn main_link(&self) -> LinkId {
        self.places.links.main()
    }

    /// Links at which a service can be used.
    pub fn links_with(&self, service: &str) -> &[LinkId] {
        self.places.links.having(service)
    }

    /// How far a service can be used now.
    pub fn availability(&self, service: &str) -> Availability {
        self.places.links.availability(service)
    }

    /// Names of the services that servers have told of, whether they can be used or not; one that several have comes several times.
    pub fn service_names(&self) -> impl Iterator<Item = &str> {
        self.places.links.iter().flat_map(Consumer::services).filter_map(Service::name)
    }

    /// Whether an item's stream is open at a server: its image has come, or is asked for there. What is lost, refused for now, or waits for its
    /// service is not.
    pub fn is_open(&self, id: SubscriptionId, place: u32) -> bool {
        self.source(id, place).is_some_and(|(link, item)| self.places.links.get(link).is_open(item))
    }

    /// The link at which an item is open, or asked for.
    pub fn link_of(&self, id: SubscriptionId, place: u32) -> Option<LinkId> {
        self.source(id, place).map(|(link, _)| link)
    }

    /// Streams that are open or asked for.
    pub const fn streams(&self) -> usize {
        self.places.streams.len()
    }

    /// Whether an event asks the owner to close the connection of a link behind what there is to send.
    pub fn asks_to_disconnect(event: &Event) -> Option<(LinkId, Disconnect)> {
        match event {
            Event::Consumer { link, event } => match **event {
                consumer::Event::Disconnect(why) => Some((*link, why)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Checks what must hold between calls; for tests.
    ///
    /// # Panics
    /// Something does not hold.
    pub fn check_invariants(&self) {
        self.places.links.check_invariants();
        self.places.streams.check_invariants(&self.places.links);
    }
}
