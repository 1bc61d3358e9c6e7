//! A JSON session of a run: texts of the client as messages, and messages as what it gets.

use std::sync::Arc;

use rssl::ws::upgrade::Upgrade;
use rssl::ws::{Closed, Json, JsonConfig, JsonPeer, JsonTexts, Limits, Read, Role, Socket, TextOptions, login_payload};
use rwf::dictionary::Dictionary;
use rwf::peek;

/// Bytes of a message that is taken of a client, as the login's answer says.
const MESSAGE_BYTES_MAX: usize = 61_440;

/// A session of `tr_json2`.
pub(crate) struct JsonSession {
    json: Json,
    texts: JsonTexts,
    peer: JsonPeer,
    services: Vec<(u16, String)>,
    renamed: u64,
    ping_timeout_s: u8,
    /// Pings are not answered.
    pub(crate) is_silent: bool,
}

impl JsonSession {
    /// A session whose upgrade has been answered.
    pub(crate) fn new(now: u64, upgrade: &Upgrade, ping_timeout_s: u8) -> Self {
        // The shortest that a session of JSON keeps.
        let ping_timeout_s = ping_timeout_s.max(3);
        let socket = Socket::new(Role::Server, upgrade.deflate, Limits::default());
        let config = JsonConfig { ping_timeout_s, ..JsonConfig::default() };
        let options = TextOptions {
            login_payload: login_payload(u16::from(ping_timeout_s), MESSAGE_BYTES_MAX),
            ..TextOptions::default()
        };
        let mut texts = JsonTexts::new(options);
        texts.set_dictionary(&Arc::new(Dictionary::builtin()));
        Self {
            json: Json::new(socket, config, now),
            texts,
            peer: JsonPeer::default(),
            services: Vec::new(),
            renamed: 0,
            ping_timeout_s,
            is_silent: false,
        }
    }

    pub(crate) fn ping_timeout_s(&self) -> u8 {
        self.ping_timeout_s
    }

    /// Services are these from now on: what texts name them by.
    pub(crate) fn set_services(&mut self, services: Vec<(u16, String)>) {
        if services == self.services {
            return;
        }
        self.services = services;
        self.renamed += 1;
        let first = self.services.first().map(|(id, _)| *id);
        let all = &self.services;
        let from = |taken: usize| all.iter().skip(taken).map(|(id, name)| (*id, name.as_str()));
        self.texts.set_services(self.renamed, from, first);
    }

    /// Takes bytes. `false`: the client has closed the session in order. An error is what it did wrong.
    pub(crate) fn receive(
        &mut self,
        now: u64,
        bytes: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<Vec<u8>>,
    ) -> Result<bool, String> {
        let (texts, peer) = (&mut self.texts, &mut self.peer);
        let (mut replies, mut complaint) = (Vec::new(), None);
        let done = self.json.receive(now, bytes, out, |text| {
            texts.read(peer, text, |read| {
                match read {
                    Read::Message(message) => messages.push(message.to_vec()),
                    Read::Reply(reply) => replies.push(reply),
                    Read::Complaint(text) => {
                        complaint = Some(format!("the client could not read what it was sent: {text}"));
                    }
                    Read::TooManyErrors => {
                        complaint = Some("the client has sent too many messages that cannot be read".to_owned());
                    }
                }
                true
            });
        });
        if !replies.is_empty() && !self.is_silent {
            let mut packer = self.json.pack(now, out);
            for reply in &replies {
                packer.push(reply);
            }
            packer.finish();
        }
        match (done, complaint) {
            (Err(Closed::Peer { .. }), None) => Ok(false),
            (Err(why), None) => Err(why.to_string()),
            (_, Some(complaint)) => Err(complaint),
            (Ok(()), None) => Ok(true),
        }
    }

    /// Writes a message at the end of `out`.
    pub(crate) fn write(&mut self, now: u64, message: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let stream = peek::header(message).map_err(|error| error.to_string())?.stream_id;
        let mut packer = self.json.pack(now, out);
        let written = self.texts.write(&mut self.peer, message, stream, &mut packer);
        packer.finish();
        self.texts.end_flush();
        // No JSON stands for a message that cannot be read: to a JSON client it does not come.
        if written == Ok(true) {
            self.json.logged_in();
        }
        Ok(())
    }

    pub(crate) fn timeout(&self) -> u64 {
        self.json.timeout()
    }

    pub(crate) fn on_timer(&mut self, now: u64, out: &mut Vec<u8>) -> Result<(), String> {
        self.json.on_timer(now, out).map_err(|why| why.to_string())
    }
}
