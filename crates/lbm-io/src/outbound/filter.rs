//! Which topics each receiver of an LBT-TCP session has asked for, and which messages are for some receivers alone.

use std::collections::VecDeque;

use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::lbmc::{self, Message};
use lbm::wire::{Writer, distance};
use net::tcp::ConnId;

use crate::handles::FilteredReceiver;
use crate::random;

/// Receivers that a message can be for alone; one that is for more goes to all of its topic.
const DIRECTED_MAX: usize = 16;

struct Client {
    conn: ConnId,
    /// Its number, which nobody else knows: who names it may choose its topics.
    number: u32,
    /// What goes to it next.
    bytes: Vec<u8>,
}

/// A message for some receivers alone.
#[derive(Clone, Copy)]
struct Directed {
    /// Numbers of its fragments. Of one that is being sent the last is not known.
    first: u32,
    last: Option<u32>,
    /// Places of the receivers, as many as `count`.
    places: [u32; DIRECTED_MAX],
    count: usize,
}

impl Directed {
    fn leave_out(&mut self, place: usize) {
        let mut count = 0;
        for at in 0..self.count {
            if self.places[at] as usize != place {
                self.places[count] = self.places[at];
                count += 1;
            }
        }
        self.count = count;
    }
}

/// A topic that somebody has asked for.
#[derive(Default)]
struct Topic {
    /// Places of those who have.
    places: Vec<u32>,
    /// By number, of messages that wait to be parted.
    directed: VecDeque<Directed>,
}

impl Topic {
    /// Whom a message goes to.
    fn receivers(&mut self, sqn: u32) -> &[u32] {
        while self.directed.front().is_some_and(|message| message.last.is_some_and(|last| distance(last, sqn) > 0)) {
            self.directed.pop_front();
        }
        match self.directed.front() {
            Some(message) if distance(message.first, sqn) >= 0 => &message.places[..message.count],
            _ => &self.places,
        }
    }
}

/// See the module. `init` is the same for all receivers but for their number.
pub(super) struct Filter {
    init: FilterInit,
    clients: Vec<Option<Client>>,
    topics: Topics,
    /// The receivers' numbers with their places, ascending.
    numbers: Vec<(u32, u32)>,
}

/// Topics by their index, ascending. They are looked for several times a message: the one that was found last is tried first.
#[derive(Default)]
struct Topics {
    all: Vec<(u32, Topic)>,
    last: usize,
}

impl Topics {
    #[inline]
    fn get_mut(&mut self, topic: u32) -> Option<&mut Topic> {
        if self.all.get(self.last).is_none_or(|(index, _)| *index != topic) {
            self.last = self.all.binary_search_by_key(&topic, |(index, _)| *index).ok()?;
        }
        Some(&mut self.all[self.last].1)
    }

    fn get_or_add(&mut self, topic: u32) -> &mut Topic {
        let at = self.all.binary_search_by_key(&topic, |(index, _)| *index).unwrap_or_else(|at| {
            self.all.insert(at, (topic, Topic::default()));
            at
        });
        &mut self.all[at].1
    }

    /// Forgets those that nobody has asked for any more.
    fn keep_wanted(&mut self) {
        self.all.retain(|(_, topic)| !topic.places.is_empty() || !topic.directed.is_empty());
    }
}

impl Filter {
    pub(super) fn new(init: FilterInit) -> Self {
        Self { init, clients: Vec::new(), topics: Topics::default(), numbers: Vec::new() }
    }

    /// A receiver has come: the first message for it.
    pub(super) fn join(&mut self, conn: ConnId) -> Vec<u8> {
        let number = random::id();
        let client = Client { conn, number, bytes: Vec::new() };
        let place = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
        if place == self.clients.len() {
            self.clients.push(None);
        }
        self.clients[place] = Some(client);
        let at = self.numbers.partition_point(|(other, _)| *other < number);
        self.numbers.insert(at, (number, place as u32));
        let mut bytes = [0; 32];
        let mut w = Writer::new(&mut bytes);
        let body = FilterInit { client: number, ..self.init }.body();
        let written = lbmc::encode_control(&mut w, &[FilterInit::header(&body)]);
        debug_assert!(written.is_ok(), "the buffer has room");
        w.written().to_vec()
    }

    pub(super) fn leave(&mut self, conn: ConnId) {
        let Some(place) = self.clients.iter().position(|c| c.as_ref().is_some_and(|c| c.conn == conn)) else { return };
        self.clients[place] = None;
        self.numbers.retain(|(_, other)| *other as usize != place);
        for (_, topic) in &mut self.topics.all {
            topic.places.retain(|other| *other as usize != place);
            // The place may be another receiver's soon: a message that was for this one alone is for nobody.
            topic.directed.iter_mut().for_each(|message| message.leave_out(place));
        }
        self.topics.keep_wanted();
    }

    /// The message that comes next on the topic, with this number, is for these receivers alone. It goes to all of the topic if they are none
    /// or too many, or if one of them is not known.
    pub(super) fn direct(&mut self, topic: u32, first: u32, receivers: &[FilteredReceiver]) {
        let (mut places, mut count) = ([0; DIRECTED_MAX], 0);
        let Some(topic) = self.topics.get_mut(topic).filter(|_| !receivers.is_empty()) else { return };
        for receiver in receivers {
            let at = self.numbers.binary_search_by_key(&receiver.0, |(number, _)| *number);
            let (Ok(at), Some(to)) = (at, places.get_mut(count)) else { return };
            (*to, count) = (self.numbers[at].1, count + 1);
        }
        topic.directed.push_back(Directed { first, last: None, places, count });
    }

    /// The message has this number in its last fragment; `None`: it was not taken.
    pub(super) fn directed(&mut self, topic: u32, last: Option<u32>) {
        let Some(topic) = self.topics.get_mut(topic) else { return };
        // A message that was not noted goes to all of the topic.
        if let Some(message) = topic.directed.back_mut().filter(|message| message.last.is_none()) {
            message.last = last;
            if last.is_none() {
                topic.directed.pop_back();
            }
        }
    }

    /// A receiver wants a topic of the session, or no more.
    pub(super) fn request(&mut self, request: &FilterRequest) {
        let is_this = |c: &Option<Client>| c.as_ref().is_some_and(|c| c.number == request.client);
        let Some(place) = self.clients.iter().position(is_this) else { return };
        let topic = self.topics.get_or_add(request.topic);
        topic.places.retain(|other| *other as usize != place);
        if request.include {
            topic.places.push(place as u32);
        } else {
            self.topics.keep_wanted();
        }
    }

    /// Parts messages by who has asked for their topics. What has no topic goes to all.
    pub(super) fn part(&mut self, mut messages: &[u8]) {
        while let Ok((message, length)) = Message::decode(messages) {
            let (bytes, rest) = messages.split_at(length);
            messages = rest;
            if !message.kind.has_topic() {
                self.clients.iter_mut().flatten().for_each(|client| client.bytes.extend_from_slice(bytes));
                continue;
            }
            let Some(topic) = self.topics.get_mut(message.topic) else { continue };
            for place in topic.receivers(message.sqn) {
                if let Some(Some(client)) = self.clients.get_mut(*place as usize) {
                    client.bytes.extend_from_slice(bytes);
                }
            }
        }
    }

    /// What [`Filter::part`] has left for each receiver, once, of those that have `at_least` so many bytes. Whether others have some.
    pub(super) fn each(&mut self, at_least: usize, mut send: impl FnMut(ConnId, &[u8])) -> bool {
        let mut waits = false;
        for client in self.clients.iter_mut().flatten().filter(|client| !client.bytes.is_empty()) {
            if client.bytes.len() < at_least {
                waits = true;
                continue;
            }
            send(client.conn, &client.bytes);
            client.bytes.clear();
        }
        waits
    }
}
