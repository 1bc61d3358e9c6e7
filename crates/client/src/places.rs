//! Where the streams of a client are: what becomes of them when links and services come and go.

use crate::config::ClientConfig;
use crate::delivery::Delivery;
use crate::events::Event;
use crate::links::{LinkId, Links};
use crate::posts::Posts;
use crate::streams::{Owed, Stream, StreamId, Streams};
use omm::consumer::{self, Consumer, ItemId, ItemRequest};
use rwf::dictionary::Dictionary;
use rwf::image::Plans;
use rwf::msg::{AckMsg, Msg, NakCode};
use rwf::rdm::state::StateBuf;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// How long a server is given to open what a symbol list names, nanoseconds; it is asked for it then.
const PROVIDED_TIMEOUT_NS: u64 = 5_000_000_000;

const fn suspect(text: &str) -> State<'_> {
    State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, text)
}

/// The streams of a client, the links at which they are open, and what those have said.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) links: Links,
    pub(crate) streams: Streams,
    pub(crate) posts: Posts,
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    pub(crate) events: VecDeque<Event>,
    /// Streams whose image is owed by who has taken over, by the time until which it is awaited.
    takeovers: VecDeque<(u64, StreamId)>,
    takeover_timeout_ns: u64,
    /// Streams that servers are to open by themselves, by the time until which each is awaited.
    awaited: VecDeque<(u64, StreamId)>,
    /// Streams that could not be asked for at a link because it has as many items as it may have, by place of the link: they stay where they are until
    /// there is room.
    without_room: Vec<BTreeSet<StreamId>>,
}

impl Places {
    /// No connection is there yet, and no stream.
    pub(crate) fn new(mut config: ClientConfig) -> Self {
        config.consumer.dictionary &= config.dictionary.is_none();
        let links = Links::new(config.consumer, config.beside, config.arrangement);
        let without_room = links.ids().map(|_| BTreeSet::new()).collect();
        Self {
            streams: Streams::new(links.ids().count(), Plans::new(config.dictionary.clone())),
            links,
            posts: Posts::new(config.posts_max, config.post_timeout_ns),
            dictionary: config.dictionary,
            events: VecDeque::new(),
            takeovers: VecDeque::new(),
            takeover_timeout_ns: config.takeover_timeout_ns,
            awaited: VecDeque::new(),
            without_room,
        }
    }

    /// When there is something to do at a link, for a post or for an image that is owed.
    pub(crate) fn timeout(&self) -> Option<u64> {
        let due = |queue: &VecDeque<(u64, StreamId)>| queue.front().map(|(due, _)| *due);
        [self.links.timeout(), self.posts.timeout(), due(&self.takeovers), due(&self.awaited)]
            .into_iter()
            .flatten()
            .min()
    }

    /// The acknowledgement of a post.
    pub(crate) fn acknowledged(&mut self, msg: &[u8]) {
        // A message that cannot be read answers no post: whoever waits is told in its time that nothing has come.
        let Ok(Msg::Ack(AckMsg { ack_id, nak_code, text, .. })) = Msg::decode(msg) else { return };
        self.answered(ack_id, nak_code, text.unwrap_or_default());
    }

    fn answered(&mut self, id: u32, nak: Option<NakCode>, text: &[u8]) {
        if let Some(by) = self.posts.end(id) {
            let text = String::from_utf8_lossy(text).into_owned();
            self.events.push_back(Event::PostAnswered { id, by, nak, text });
        }
    }

    /// The dictionary is whole, of the link that was first to have it.
    fn take_dictionary(&mut self, dictionary: &Arc<Dictionary>) {
        self.streams.plans = Plans::new(Some(Arc::clone(dictionary)));
        self.dictionary = Some(Arc::clone(dictionary));
        self.links.all().for_each(Consumer::forgo_dictionary);
    }

    /// A stream is no more; what is open of it is closed. With the last list of a service goes what servers have opened for it and nobody watches.
    pub(crate) fn end(&mut self, now: u64, id: StreamId) {
        let request = self.streams.get(id).map(|stream| &*stream.request);
        let service = request.filter(|request| request.data_streams).map(|request| request.service.clone());
        for (link, item) in self.streams.remove(id) {
            self.links.of(link).close(now, item);
        }
        for waiting in &mut self.without_room {
            waiting.remove(&id);
        }
        // Nothing follows from the end of another item.
        let Some(service) = service else { return };
        let of_service = || self.streams.iter().filter(|(_, stream)| stream.request.service == service);
        if of_service().any(|(_, stream)| stream.request.data_streams) {
            return;
        }
        let unwatched: Vec<StreamId> = of_service().filter(|(_, s)| s.is_unwatched()).map(|(id, _)| id).collect();
        for id in unwatched {
            self.end(now, id);
        }
    }

    /// The server of a link has opened an item by itself: for a stream that awaits it, or for who will watch it. An item that is open already needs no
    /// second stream.
    fn provided(&mut self, now: u64, link: LinkId, item: ItemId, request: ItemRequest) {
        let stands_by = self.links.stand_by();
        let Some(id) = self.streams.open(&request) else {
            let source = if stands_by { self.links.serving(&request.service) } else { link };
            let id = self.streams.insert_provided(request, source);
            self.streams.put_leg(id, link, item);
            if source != link {
                self.await_provided(now, id);
            }
            return;
        };
        let is_free = |stream: &Stream| stream.legs[link.index()].is_none() && (stream.source == link || stands_by);
        if self.streams.get(id).is_some_and(is_free) {
            self.streams.put_leg(id, link, item);
        } else {
            self.links.of(link).close(now, item);
        }
    }

    /// A stream is to be opened by its server.
    pub(crate) fn await_provided(&mut self, now: u64, id: StreamId) {
        let until = now.saturating_add(PROVIDED_TIMEOUT_NS);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.awaited_until = Some(until);
            self.awaited.push_back((until, id));
        }
    }

    /// Items that servers have not opened in time are asked for; while there is no server they go on to be awaited.
    fn ask_for_awaited(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        while let Some(&(due, id)) = self.awaited.front().filter(|(due, _)| *due <= now) {
            self.awaited.pop_front();
            let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.awaited_until == Some(due)) else {
                continue;
            };
            stream.awaited_until = None;
            if stream.is_unwatched() {
                self.end(now, id);
                continue;
            }
            let (source, request) = (stream.source, (*stream.request).clone());
            if !self.links.having(&request.service).contains(&source) {
                self.await_provided(now, id);
                continue;
            }
            if let Ok(item) = self.links.of(source).open(now, request) {
                self.streams.put_leg(id, source, item);
                continue;
            }
            let text = "The server has not opened the item, and there are too many to ask for it";
            let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::TOO_MANY_ITEMS, text);
            self.streams.state(id, &state, sink);
            self.end(now, id);
        }
    }

    /// Whether a stream rests at its source: all who watch it do, and the server knows how.
    pub(crate) fn rests(&self, id: StreamId) -> bool {
        let rests = |stream: &Stream| stream.request.paused && self.links.get(stream.source).pauses();
        self.streams.get(id).is_some_and(rests)
    }

    /// Servers are told that a stream rests, or goes on, if that has changed.
    pub(crate) fn note_pause(&mut self, id: StreamId) {
        for (link, item) in self.streams.note_pause(id) {
            let rests = self.streams.get(id).is_some_and(|stream| stream.request.paused);
            self.links.of(link).reissue(item, |request| request.paused = rests);
        }
    }

    /// Another view or priority is asked for on a stream that one alone watches.
    pub(crate) fn change(&mut self, id: StreamId, request: &ItemRequest) {
        for (link, item) in self.streams.change(id, request.clone()) {
            self.links.of(link).reissue(item, |asked| {
                asked.view.clone_from(&request.view);
                asked.priority = request.priority;
            });
        }
    }

    /// Takes what all consumers have to say, until none has: an item that is moved is opened elsewhere, of which that link may say something.
    pub(crate) fn settle(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        loop {
            let mut said = false;
            for link in self.links.ids() {
                said |= self.take_events(now, link, sink);
            }
            if !said && !self.fill_room(now) {
                return;
            }
        }
    }

    /// Takes what the consumer of a link has to say. Gives whether there was something.
    pub(crate) fn take_events(&mut self, now: u64, link: LinkId, sink: &mut impl FnMut(Delivery<'_>)) -> bool {
        let mut said = false;
        if !self.links.get(link).is_logged_in() {
            let (is_lost, is_taken_over) = self.links.notice_loss(link);
            said = is_lost;
            if is_taken_over {
                self.take_over(now, None, sink);
            }
        }
        // Streams that their source does not have any more.
        let mut unplaced: Vec<StreamId> = Vec::new();
        while let Some(event) = self.links.of(link).poll_event() {
            said = true;
            match &event {
                consumer::Event::ItemState { item, state } => {
                    unplaced.extend(self.item_state(now, (link, *item), state, sink));
                    continue;
                }
                consumer::Event::Provided { item, request } => {
                    self.provided(now, link, *item, (**request).clone());
                    continue;
                }
                consumer::Event::LoginAck { ack_id, nak_code, text } => {
                    self.answered(*ack_id, *nak_code, text.as_bytes());
                    continue;
                }
                consumer::Event::Dictionary(_) if self.dictionary.is_some() => continue,
                consumer::Event::Dictionary(dictionary) => self.take_dictionary(dictionary),
                consumer::Event::LoggedIn(_) if self.links.logged_in(link) => self.take_over(now, None, sink),
                consumer::Event::ServiceUp { name, .. } => {
                    if self.links.service_up(link, name) {
                        self.take_over(now, Some(name.as_str()), sink);
                    }
                    self.reroute_waiting(now, link, name);
                }
                consumer::Event::ServiceDown { name, .. } => {
                    if self.links.service_down(link, name) {
                        self.take_over(now, Some(name.as_str()), sink);
                    }
                    self.reroute_lost(now, link, name, sink);
                }
                _ => {}
            }
            self.events.push_back(Event::Consumer { link, event: Box::new(event) });
        }
        for id in unplaced {
            self.reroute(now, link, id);
        }
        said
    }

    /// The consumer of a link says a state of an item itself. Gives the stream if it is not open at its only link any more.
    fn item_state(
        &mut self,
        now: u64,
        (link, item): (LinkId, ItemId),
        state: &StateBuf,
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Option<StreamId> {
        let id = self.streams.of(link, item)?;
        let is_final = state.stream != StreamState::OPEN;
        let is_open = self.links.get(link).is_open(item);
        let stands_by = self.links.stand_by();
        let stream = self.streams.get_mut(id)?;
        if stream.source != link {
            if is_final {
                let is_unwatched = stream.is_unwatched();
                self.streams.take_leg(id, link);
                if is_unwatched {
                    self.end(now, id);
                }
            }
            return None;
        }
        let is_lost = item.is_provided() && state.stream == StreamState::CLOSED_RECOVER && !stream.is_unwatched();
        if is_lost {
            // The list is asked for again, and its server opens what it names.
            let is_stale = stream.is_stale;
            self.streams.take_leg(id, link);
            if !is_stale {
                let text = state.as_state().text_lossy().into_owned();
                self.streams.state(id, &suspect(&text), sink);
            }
            self.await_provided(now, id);
            return None;
        }
        if is_final {
            self.streams.state(id, &state.as_state(), sink);
            self.end(now, id);
            return None;
        }
        if !is_open {
            stream.owed = Owed::Nothing;
        } else if stream.owed == Owed::Answer && state.data == DataState::OK {
            return None;
        }
        let is_everywhere = stands_by && stream.is_shared();
        let is_unplaced = !is_open && !is_everywhere;
        self.streams.state(id, &state.as_state(), sink);
        is_unplaced.then_some(id)
    }

    /// A stream is not open at its link: it goes to the next one that has its service. Where all have closed it for now it rests at the last, and
    /// is asked for there in its time.
    fn reroute(&mut self, now: u64, from: LinkId, id: StreamId) {
        // A stream that has ended or has moved since is not this link's any more.
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.source == from) else { return };
        let having = self.links.having(&stream.request.service);
        if having.contains(&from) {
            stream.refusals += 1;
            if stream.refusals.is_multiple_of(having.len() as u32) {
                return;
            }
        }
        if let Some(to) = self.links.next(&stream.request.service, from) {
            self.relocate(now, id, to);
        }
    }

    /// A service can be used at a link: streams that wait for it elsewhere wait no more.
    fn reroute_waiting(&mut self, now: u64, link: LinkId, service: &str) {
        if self.links.ids().count() == 1 {
            return;
        }
        let having = self.links.having(service);
        let stands_by = self.links.stand_by();
        let waits = self.streams.iter().filter(|(_, stream)| {
            let is_everywhere = stands_by && stream.is_shared();
            stream.request.service == service && !is_everywhere && !having.contains(&stream.source) && {
                let item = stream.legs[stream.source.index()];
                // A service that is down may have its items open still.
                item.is_none_or(|item| !self.links.get(stream.source).is_open(item))
            }
        });
        let waiting: Vec<StreamId> = waits.map(|(id, _)| id).collect();
        for id in waiting {
            if self.streams.get(id).is_some_and(|stream| stream.awaited_until.is_some()) {
                self.await_elsewhere(now, id, link);
            } else {
                self.relocate(now, id, link);
            }
        }
    }

    /// A stream that a server has opened by itself, or was to open, is lost there: where another server opens what lists name, its list is asked for there,
    /// and it is awaited. Nobody asks for what nobody watches. Gives whether it is to be had so.
    fn await_elsewhere(&mut self, now: u64, id: StreamId, to: LinkId) -> bool {
        // An item that nobody watched has ended with the last list of its service, another stream of those that are moved.
        let Some(stream) = self.streams.get(id) else { return false };
        if stream.is_unwatched() {
            self.end(now, id);
            return true;
        }
        if !self.links.get(to).lists_data() {
            return self.relocate(now, id, to);
        }
        let from = stream.source;
        if let Some(old) = self.streams.take_leg(id, from) {
            self.links.of(from).close(now, old);
        }
        self.streams.change_source(id, to, Owed::Nothing);
        self.await_provided(now, id);
        true
    }

    /// A service can not be used at a link any more: streams that are open there alone go where it can. Private ones stay: nobody recovers them.
    fn reroute_lost(&mut self, now: u64, link: LinkId, service: &str, sink: &mut impl FnMut(Delivery<'_>)) {
        // Nobody else has the service: its streams wait for it, and their consumer has told so.
        let Some(to) = self.links.next(service, link) else { return };
        let stands_by = self.links.stand_by();
        let is_there = |stream: &Stream| {
            let is_everywhere = stands_by && stream.is_shared();
            stream.source == link && stream.request.service == service && !is_everywhere && !stream.request.private
        };
        let ids: Vec<StreamId> = self.streams.iter().filter(|(_, stream)| is_there(stream)).map(|(id, _)| id).collect();
        for id in ids {
            let leg = self.streams.get(id).and_then(|stream| stream.legs[link.index()]);
            let is_provided = leg.is_none_or(ItemId::is_provided);
            let is_asked = if is_provided { self.await_elsewhere(now, id, to) } else { self.relocate(now, id, to) };
            // A stream for which there is no room elsewhere stays: it may be open still, of a service that is down; if it is lost, its consumer says so.
            if is_asked && self.streams.get(id).is_some_and(|stream| !stream.is_stale) {
                self.streams.state(id, &suspect("The service is lost at the server; another one is asked"), sink);
            }
        }
    }

    /// A stream is asked for at another link in place of its source. If that link has no room for it, it stays where it is, and waits for room there once
    /// it is lost. Gives whether it has moved.
    fn relocate(&mut self, now: u64, id: StreamId, to: LinkId) -> bool {
        // Nothing is to be moved of a stream that has ended.
        let Some(stream) = self.streams.get(id) else { return false };
        let (from, request) = (stream.source, (*stream.request).clone());
        let Ok(item) = self.links.of(to).open(now, request) else {
            self.without_room[to.index()].insert(id);
            return false;
        };
        if let Some(old) = self.streams.take_leg(id, from) {
            self.links.of(from).close(now, old);
        }
        self.streams.put_leg(id, to, item);
        self.streams.change_source(id, to, Owed::Nothing);
        true
    }

    /// Asks for streams at links that had no room for them, as far as there is room now. Gives whether one has moved.
    pub(crate) fn fill_room(&mut self, now: u64) -> bool {
        let mut has_moved = false;
        for link in self.links.ids() {
            while let Some(id) = self.without_room[link.index()].pop_first() {
                if self.waits_for(id, link) {
                    if !self.relocate(now, id, link) {
                        break;
                    }
                    has_moved = true;
                }
            }
        }
        has_moved
    }

    /// Whether a stream is still to be asked for at a link that had no room for it: its own link does not have it open, and that one has the service. When
    /// the service comes there later, all that waits for it is asked for ([`Places::reroute_waiting`]).
    fn waits_for(&self, id: StreamId, link: LinkId) -> bool {
        self.streams.get(id).is_some_and(|stream| {
            let item = stream.legs[stream.source.index()];
            let is_open = item.is_some_and(|item| self.links.get(stream.source).is_open(item));
            stream.source != link && !is_open && self.links.having(&stream.request.service).contains(&link)
        })
    }

    /// Warm standby: another link serves a service, or all. Streams that are good there go on with the image that it owes; the others are told
    /// Suspect until they have theirs.
    fn take_over(&mut self, now: u64, service: Option<&str>, sink: &mut impl FnMut(Delivery<'_>)) {
        let is_of = |name: &str| service.is_none_or(|service| service == name);
        let streams = self.streams.iter().filter(|(_, stream)| stream.is_shared() && is_of(&stream.request.service));
        let ids: Vec<StreamId> = streams.map(|(id, _)| id).collect();
        for id in ids {
            self.take_over_stream(now, id, sink);
        }
        let link = service.map_or_else(|| self.links.main(), |service| self.links.serving(service));
        self.events.push_back(Event::Serves { link, service: service.map(str::to_owned) });
    }

    fn take_over_stream(&mut self, now: u64, id: StreamId, sink: &mut impl FnMut(Delivery<'_>)) {
        // Nobody watches a stream that has ended.
        let Some(stream) = self.streams.get(id) else { return };
        let to = self.links.serving(&stream.request.service);
        if to == stream.source {
            return;
        }
        let is_stale = stream.is_stale;
        // An answer that is under way is of the time when the server stood by: what has changed since is not in it.
        let is_answered = |item: &ItemId| self.links.get(to).is_live(*item) || !self.links.get(to).is_open(*item);
        let leg = stream.legs[to.index()].filter(is_answered);
        let Some(item) = leg else {
            return self.take_over_anew(now, id, to, sink);
        };
        let consumer = self.links.of(to);
        let is_good = consumer.is_good(item);
        let owed = match (consumer.is_live(item), consumer.knows_standby()) {
            (false, _) => Owed::Nothing,
            (true, true) => Owed::Image,
            (true, false) => {
                // Its updates have come all along, and nobody has looked at them.
                consumer.ask_again(item);
                Owed::Answer
            }
        };
        self.streams.change_source(id, to, owed);
        if owed != Owed::Nothing {
            self.await_owed(now, id);
        }
        if !is_good && !is_stale {
            self.streams.state(id, &suspect("The server is lost, and the standby does not have the item yet"), sink);
        }
    }

    /// A link that serves now has ended the item before, or its answer is under way.
    fn take_over_anew(&mut self, now: u64, id: StreamId, to: LinkId, sink: &mut impl FnMut(Delivery<'_>)) {
        let Some(stream) = self.streams.live(id) else { return };
        let (is_stale, from, request) = (stream.is_stale, stream.source, (*stream.request).clone());
        let is_provided = stream.legs[from.index()].is_none_or(ItemId::is_provided);
        if is_provided && stream.legs[to.index()].is_none() && self.links.get(to).lists_data() {
            // Its list is open at the standby as well, which opens what the list names.
            self.streams.change_source(id, to, Owed::Nothing);
            self.await_provided(now, id);
            if !is_stale {
                self.streams.state(id, &suspect("The server is lost, and the standby has not opened the item"), sink);
            }
            return;
        }
        if let Some(partial) = self.streams.take_leg(id, to) {
            self.links.of(to).close(now, partial);
        }
        let Ok(item) = self.links.of(to).open(now, request) else {
            let text = "The server is lost, and the standby has no room for the item";
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::TOO_MANY_ITEMS, text);
            self.streams.state(id, &state, sink);
            return self.end(now, id);
        };
        self.streams.put_leg(id, to, item);
        self.streams.change_source(id, to, Owed::Nothing);
        if !is_stale {
            self.streams.state(id, &suspect("The server is lost, and the standby does not have the item"), sink);
        }
    }

    /// A server that has taken over sends changes of an item before its image.
    pub(crate) fn ask_after_gap(&mut self, now: u64, id: StreamId, sink: &mut impl FnMut(Delivery<'_>)) {
        self.ask_for_owed(id, "Changes may have been missed since another server serves; the image is asked for", sink);
        self.await_owed(now, id);
    }

    /// An image is owed: it has its time from now. The time is the same for each, so that the queue is in order.
    fn await_owed(&mut self, now: u64, id: StreamId) {
        let until = now.saturating_add(self.takeover_timeout_ns);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.owed_until = until;
            self.takeovers.push_back((until, id));
        }
    }

    /// Asks for the images that have not come in time since a link took over, and for what servers have not opened.
    pub(crate) fn ask_overdue(&mut self, now: u64, sink: &mut impl FnMut(Delivery<'_>)) {
        self.ask_for_awaited(now, sink);
        while let Some(&(due, id)) = self.takeovers.front().filter(|(due, _)| *due <= now) {
            self.takeovers.pop_front();
            let stream = self.streams.get(id).filter(|stream| stream.owed != Owed::Nothing);
            // An image that was asked for since has its time once more.
            if stream.is_some_and(|stream| stream.owed_until == due) {
                self.ask_for_owed(id, "No image has come since another server serves; it is asked for", sink);
                self.await_owed(now, id);
            }
        }
    }

    fn ask_for_owed(&mut self, id: StreamId, text: &str, sink: &mut impl FnMut(Delivery<'_>)) {
        let Some(stream) = self.streams.live(id) else { return };
        stream.owed = Owed::Answer;
        let (source, is_stale) = (stream.source, stream.is_stale);
        if let Some(item) = stream.legs[source.index()] {
            self.links.of(source).ask_again(item);
        }
        if !is_stale {
            self.streams.state(id, &suspect(text), sink);
        }
    }
}
