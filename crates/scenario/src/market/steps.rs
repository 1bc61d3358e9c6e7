//! Deeds of the server that steps ask for.

use rwf::StreamState;
use rwf::msg::Msg;
use rwf::rdm::directory as rdm_directory;

use super::{Act, Conn, Item, Logins, Market};
use crate::directory;
use crate::numbers::{DIRECTORY_STREAM, ServiceIds};
use crate::program::{Message, Server, Stream};
use crate::values::domain_name;
use crate::words;

impl Market {
    /// The streams that a step means, each with its connection.
    fn streams(&self, stream: &Stream) -> Vec<(u32, i32)> {
        let mut found = Vec::new();
        for (conn, known) in &self.conns {
            match stream {
                Stream::Login => found.extend(known.login.as_ref().map(|login| (*conn, login.stream_id))),
                Stream::Directory => found.extend(known.directory.map(|(stream, _)| (*conn, stream))),
                Stream::Number(number) => found.extend(known.logged_in.then_some((*conn, *number))),
                Stream::All | Stream::First | Stream::Item(_) => {
                    let fits = |item: &Item| match stream {
                        Stream::First => self.first.as_deref() == Some(item.name.as_str()),
                        Stream::Item(name) => item.name == *name,
                        _ => true,
                    };
                    found.extend(known.items.iter().filter(|(_, item)| fits(item)).map(|(stream, _)| (*conn, *stream)));
                    let is = |name: &String| match stream {
                        Stream::First => self.first.as_ref() == Some(name),
                        Stream::Item(item) => name == item,
                        _ => true,
                    };
                    let published = known.published.iter().filter(|(_, (name, _))| is(name));
                    found.extend(published.map(|(stream, _)| (*conn, *stream)));
                }
            }
        }
        found
    }

    /// Sends a message of a step to those that it means.
    ///
    /// # Errors
    /// The message cannot be made, or nobody has such a stream open.
    pub fn send_message(&mut self, message: &Message) -> Result<(), String> {
        let streams = self.streams(&message.stream);
        if streams.is_empty() {
            return Err("no such stream is open".to_owned());
        }
        for (conn, stream) in streams {
            self.send_on(conn, stream, message)?;
        }
        Ok(())
    }

    /// The bytes of a step's message on each stream that it means, to be broken off.
    ///
    /// # Errors
    /// As of [`Market::send_message`].
    pub fn break_off(&mut self, message: &Message) -> Result<(), String> {
        let streams = self.streams(&message.stream);
        let mut done = Vec::new();
        for (conn, stream) in streams {
            if !done.contains(&conn) {
                let bytes = self.built(conn, stream, message)?;
                self.acts.push_back(Act::BreakOff { conn, message: bytes });
                done.push(conn);
            }
        }
        if done.is_empty() { Err("no such stream is open".to_owned()) } else { Ok(()) }
    }

    fn built(&mut self, conn: u32, stream: i32, message: &Message) -> Result<Vec<u8>, String> {
        let Some(known) = self.conns.get_mut(&conn) else { return Err("the connection is gone".to_owned()) };
        let mut all = message.words.clone();
        if let Some(item) = known.items.get_mut(&stream) {
            if !all.iter().any(|word| word.starts_with("domain=")) {
                all.push(format!("domain={}", domain_name(item.domain)));
            }
            if message.class == "REFRESH" {
                item.open = true;
                let group = message.words.iter().find_map(|word| word.strip_prefix("group="));
                item.group = group.map(str::to_owned).or_else(|| item.group.take());
            }
        } else if let Some((_, domain)) = known.published.get(&stream) {
            all.push(format!("domain={}", domain_name(*domain)));
        } else if message.stream == Stream::Login {
            all.push("domain=Login".to_owned());
        } else if message.stream == Stream::Directory {
            all.push("domain=Source".to_owned());
        }
        words::build(&message.class, stream, &all, &known.ids)
    }

    pub(super) fn send_on(&mut self, conn: u32, stream: i32, message: &Message) -> Result<(), String> {
        let bytes = self.built(conn, stream, message)?;
        let state = match Msg::decode(&bytes) {
            Ok(Msg::Refresh(refresh)) => Some(refresh.state.stream),
            Ok(Msg::Status(status)) => status.state.map(|state| state.stream),
            _ => None,
        };
        let ends = [StreamState::CLOSED, StreamState::CLOSED_RECOVER, StreamState::REDIRECTED];
        if let (true, Some(known)) = (state.is_some_and(|state| ends.contains(&state)), self.conns.get_mut(&conn)) {
            known.items.remove(&stream);
            if message.stream == Stream::Login {
                known.items.clear();
                known.published.clear();
                known.logged_in = false;
            }
        }
        if let ("CLOSE", Some(known)) = (message.class.as_str(), self.conns.get_mut(&conn)) {
            known.published.remove(&stream);
        }
        self.send(conn, bytes);
        Ok(())
    }

    /// Sends a change of a service to those that have the directory open, and to JSON clients the states of their items that come of it.
    ///
    /// # Errors
    /// The service is not there, or a word is not known.
    pub fn send_directory(&mut self, service: &str, words: &[String]) -> Result<(), String> {
        let first_id = self.first_id;
        let mut acts = Vec::new();
        for (conn, known) in &mut self.conns {
            if known.directory.is_none() && !known.is_json {
                continue;
            }
            let stream = known.directory.map(|(stream, _)| stream);
            let mut lost = Vec::new();
            let message = known.changes(stream.unwrap_or(DIRECTORY_STREAM), service, words, first_id, &mut lost)?;
            let conn = *conn;
            acts.push(match stream {
                Some(_) => Act::Send { conn, message },
                None => Act::Note { conn, message },
            });
            if stream.is_none() {
                let messages = known.states(service, words, &lost)?;
                acts.extend(messages.into_iter().map(|message| Act::Send { conn, message }));
            }
        }
        self.acts.extend(acts);
        Ok(())
    }

    /// Whether requests for the directory are answered; those that wait are, when they are again.
    fn gives_directories(&mut self, given: bool) -> Result<(), String> {
        self.given.directories = given;
        let waiting: Vec<u32> =
            self.conns.iter().filter(|(_, known)| given && known.waits_for_directory).map(|(conn, _)| *conn).collect();
        waiting.into_iter().try_for_each(|conn| self.directory(conn))
    }

    fn each_service(&mut self, words: &[&str]) -> Result<(), String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let names: Vec<String> = self.conns.values().flat_map(|conn| conn.ids.keys().cloned()).collect();
        let names: std::collections::BTreeSet<String> = names.into_iter().collect();
        names.iter().try_for_each(|name| self.send_directory(name, &words))
    }

    /// All services go down or come up.
    ///
    /// # Errors
    /// The change cannot be encoded.
    pub fn set_up(&mut self, up: bool) -> Result<(), String> {
        self.down = !up;
        self.each_service(&[if up { "up" } else { "down" }])
    }

    /// Images are sent without having been asked for.
    ///
    /// # Errors
    /// Nobody has such a stream open.
    pub fn send_images(&mut self, stream: &Stream) -> Result<(), String> {
        let streams = self.streams(stream);
        if streams.is_empty() {
            return Err("no such stream is open".to_owned());
        }
        for (conn, stream) in streams {
            for message in self.image(conn, stream, "unsolicited")? {
                self.send(conn, message);
            }
        }
        Ok(())
    }

    /// Updates that cannot be decoded.
    ///
    /// # Errors
    /// Nobody has such a stream open.
    pub fn send_malformed(&mut self, stream: &Stream) -> Result<(), String> {
        let streams = self.streams(stream);
        if streams.is_empty() {
            return Err("no such stream is open".to_owned());
        }
        for (conn, stream) in streams {
            let Some(item) = self.conns.get(&conn).and_then(|known| known.items.get(&stream)) else { continue };
            let bytes = words::malformed(stream, item.domain)?;
            self.send(conn, bytes);
        }
        Ok(())
    }

    /// Another rate of updates.
    pub fn set_rate(&mut self, a_second: f64) {
        self.config.updates_a_second = a_second;
    }

    /// So many updates are numbered and not sent.
    pub fn set_gap(&mut self, updates: u64) {
        self.gap = updates;
    }

    /// Whether requests for items are answered; what waits is, when they are again.
    ///
    /// # Errors
    /// An image cannot be encoded.
    pub fn set_mute(&mut self, now: u64, mute: bool) -> Result<(), String> {
        self.mute = mute;
        if !mute {
            self.closes = None;
            let waiting = |conn: &Conn| -> Vec<i32> {
                conn.items.iter().filter(|(_, item)| !item.open).map(|(stream, _)| *stream).collect()
            };
            let all: Vec<(u32, Vec<i32>)> = self.conns.iter().map(|(conn, known)| (*conn, waiting(known))).collect();
            for (conn, streams) in all {
                streams.into_iter().try_for_each(|stream| self.answer(now, conn, stream))?;
            }
        }
        Ok(())
    }

    /// Connections end.
    pub fn close_all(&mut self, reset: bool) {
        let acts = self.conns.keys().map(|conn| Act::Close { conn: *conn, reset });
        self.acts.extend(acts);
    }

    /// Does what a step asks of the server.
    ///
    /// # Errors
    /// The change cannot be made.
    pub fn change(&mut self, now: u64, server: &Server) -> Result<(), String> {
        match server {
            Server::GoesAway => {
                self.acts.push_back(Act::Listen(false));
                self.close_all(false);
            }
            Server::ComesBack => self.acts.push_back(Act::Listen(true)),
            Server::Resets => self.close_all(true),
            Server::Grants => {
                self.logins = Logins::Granted;
                let waiting = |conn: &Conn| conn.login.is_some() && !conn.logged_in;
                let all: Vec<u32> =
                    self.conns.iter().filter(|(_, known)| waiting(known)).map(|(conn, _)| *conn).collect();
                all.into_iter().try_for_each(|conn| self.login(now, conn))?;
            }
            Server::Refuses(why) => self.logins = Logins::Refused(why.clone()),
            Server::IgnoresLogins => self.logins = Logins::Ignored,
            Server::Tokens(seconds) => self.tokens_s = Some(*seconds),
            Server::Reads(reads) => self.acts.push_back(Act::Read(*reads)),
            Server::Pace(pace) => self.acts.push_back(Act::Pace(*pace)),
            Server::Pings(pings) => self.acts.push_back(Act::Ping(*pings)),
            Server::Values => self.content.values += 1,
            Server::Parts(parts) => self.parts = *parts,
            Server::Posts(posts) => self.posts = posts.clone(),
            Server::Closes(state) => self.closes = Some(state.clone()),
            Server::Late(by) => self.late_ns = *by,
            Server::Renumbers => self.first_id += 100,
            Server::Repeats(times) => self.repeats = *times,
            Server::Swaps(times) => self.swaps = *times,
            Server::Directories(given) => self.gives_directories(*given)?,
            Server::Dictionaries(what) => self.given.dictionaries = *what,
            Server::Vanishes => self.acts.extend(self.conns.keys().map(|conn| Act::Vanish { conn: *conn })),
            Server::Clock(by) => self.content.clock_s += by,
            Server::LeavesOut(fids) => self.content.left_out = fids.iter().copied().collect(),
            // The play holds messages back: the server knows nothing of it.
            Server::Jitter(_) => {}
        }
        Ok(())
    }
}

impl Conn {
    /// Applies a change of a service: its message. Items that are gone with it are added to `lost`.
    fn changes(
        &mut self,
        stream: i32,
        service: &str,
        words: &[String],
        first_id: u16,
        lost: &mut Vec<(i32, Item)>,
    ) -> Result<Vec<u8>, String> {
        if words.iter().any(|word| word == "added") && !self.ids.contains_key(service) {
            let next = 1 + self.ids.values().max().copied().unwrap_or(first_id);
            self.ids.insert(service.to_owned(), next);
        }
        let bytes = directory::change_on(stream, service, words, &self.ids)?;
        let Ok(Msg::Update(update)) = Msg::decode(&bytes) else { return Ok(bytes) };
        for change in rdm_directory::services(update.container, update.body).map_err(|error| error.to_string())? {
            match self.services.iter_mut().find(|service| service.id == change.id) {
                Some(service) => service.apply(&change),
                None => self.services.push(change.clone()),
            }
            if change.action == rdm_directory::Action::Delete {
                self.services.retain(|service| service.id != change.id);
                self.ids.remove(service);
                lost.extend(self.items.extract_if(.., |_, item| item.service == change.id));
            }
        }
        let group = words.iter().find_map(|word| word.strip_prefix("group="));
        if let (Some(group), true) = (group, words.iter().any(|word| word == "status=ClosedRecover")) {
            let ends = |item: &Item| item.group.as_deref() == Some(group);
            lost.extend(self.items.extract_if(.., |_, item| ends(item)));
        }
        Ok(bytes)
    }

    /// What a server says of items where a client does not have the directory.
    fn states(&mut self, service: &str, words: &[String], lost: &[(i32, Item)]) -> Result<Vec<Vec<u8>>, String> {
        let has = |word: &str| words.iter().any(|other| other == word);
        let state = if has("status=ClosedRecover") {
            "ClosedRecover/Suspect"
        } else if has("down") || has("status=Suspect") {
            "Open/Suspect"
        } else if has("up") || has("status=Ok") {
            "Open/Ok"
        } else {
            ""
        };
        let status = |stream: i32, domain, state: &str| {
            let words =
                [state.to_owned(), format!("domain={}", domain_name(domain)), "\"the service says so\"".to_owned()];
            words::build("STATUS", stream, &words, &ServiceIds::new())
        };
        let mut messages = Vec::new();
        for (stream, item) in lost {
            messages.push(status(*stream, item.domain, "ClosedRecover/Suspect")?);
        }
        let id = self.ids.get(service).copied();
        let group = words.iter().find_map(|word| word.strip_prefix("group="));
        let fits =
            |item: &Item| Some(item.service) == id && group.is_none_or(|group| item.group.as_deref() == Some(group));
        let found = self.items.iter().filter(|(_, item)| !state.is_empty() && fits(item));
        for (stream, item) in found {
            messages.push(status(*stream, item.domain, state)?);
        }
        if state.starts_with("ClosedRecover") {
            self.items.retain(|_, item| !fits(item));
        }
        Ok(messages)
    }
}
