//! Which topics each receiver of an LBT-TCP session has asked for.

use std::collections::HashMap;

use lbm::wire::Writer;
use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::lbmc::{self, Message};
use net::tcp::ConnId;

use crate::random;

struct Client {
    conn: ConnId,
    /// Its number, which nobody else knows: who names it may choose its topics.
    number: u32,
    /// What goes to it next.
    bytes: Vec<u8>,
}

/// See the module. `init` is the same for all receivers but for their number.
pub(super) struct Filter {
    init: FilterInit,
    clients: Vec<Option<Client>>,
    /// Topics that somebody has asked for, and the places of those who have.
    by_topic: HashMap<u32, Vec<u32>>,
}

impl Filter {
    pub(super) fn new(init: FilterInit) -> Self {
        Self { init, clients: Vec::new(), by_topic: HashMap::new() }
    }

    /// A receiver has come: the first message for it.
    pub(super) fn join(&mut self, conn: ConnId) -> Vec<u8> {
        let number = random::id();
        let client = Client { conn, number, bytes: Vec::new() };
        match self.clients.iter().position(Option::is_none) {
            Some(free) => self.clients[free] = Some(client),
            None => self.clients.push(Some(client)),
        }
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
        self.by_topic.retain(|_, places| {
            places.retain(|other| *other as usize != place);
            !places.is_empty()
        });
    }

    /// A receiver wants a topic of the session, or no more.
    pub(super) fn request(&mut self, request: &FilterRequest) {
        let is_this = |c: &Option<Client>| c.as_ref().is_some_and(|c| c.number == request.client);
        let Some(place) = self.clients.iter().position(is_this) else { return };
        let places = self.by_topic.entry(request.topic).or_default();
        places.retain(|other| *other as usize != place);
        if request.include {
            places.push(place as u32);
        } else if places.is_empty() {
            self.by_topic.remove(&request.topic);
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
            for place in self.by_topic.get(&message.topic).into_iter().flatten() {
                if let Some(Some(client)) = self.clients.get_mut(*place as usize) {
                    client.bytes.extend_from_slice(bytes);
                }
            }
        }
    }

    /// What [`Filter::part`] has left for each receiver, once.
    pub(super) fn each(&mut self, mut send: impl FnMut(ConnId, &[u8])) {
        for client in self.clients.iter_mut().flatten().filter(|client| !client.bytes.is_empty()) {
            send(client.conn, &client.bytes);
            client.bytes.clear();
        }
    }
}
