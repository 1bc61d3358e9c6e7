//! The play: steps in their time, the server that they are about, and the judge that sees all. Bytes of sockets, clocks and processes are the
//! owner's: messages, lines and times go in, acts come out, the same for the same seed as long as the client says the same.

use std::collections::{BTreeMap, VecDeque};

use rwf::msg::Msg;

use crate::commands::Command;
use crate::file::{FileError, Judges, ScenarioFile};
use crate::judge::{Judge, Notes, Pair};
use crate::market::{Act, MarketConfig};
use crate::numbers::SECOND;
use crate::place::Place;
use crate::program::{self, Deed, Event, Message, Program, Server, Step, Stream};
use crate::side::Side;
use crate::words::ReceivedMessage;

/// Messages that are kept for the report of a failure.
pub const LAST_MESSAGES: usize = 50;
/// How long a scenario waits for what it needs, where nothing else is said: a client may take its time to start, nanoseconds.
pub const START: u64 = 30 * SECOND;
/// Messages of the client that no step has looked at yet, at most: older ones are forgotten.
const UNSEEN_MAX: usize = 10_000;

/// A message of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// When, nanoseconds since the scenario began.
    pub at_ns: u64,
    /// Its connection, numbered as they came.
    pub conn: u32,
    /// The client sent it.
    pub from_client: bool,
    /// RWF.
    pub message: Vec<u8>,
}

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// RSSL, with RWF in it.
    Rssl,
    /// JSON over WebSocket: the client need not ask for the directory to know services by their names, and hears of them by its items.
    Json,
}

/// How a play ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Its steps are done.
    Done,
    /// Something was missing without which it judges nothing: the step, and its line.
    NotJudged(String),
    /// A step cannot be done: the scenario is at fault.
    Impossible(String),
}

/// A message that a step has not looked at.
#[derive(Debug)]
struct Unseen {
    conn: u32,
    received: ReceivedMessage,
}

/// A scenario being played.
#[derive(Debug)]
pub struct Play {
    program: Program,
    /// The step that is being done.
    at: usize,
    /// The step's time is over then, once it has begun.
    until_ns: Option<u64>,
    /// The server, and the second of a pair; or the consumer in front of a provider.
    places: Vec<Place>,
    /// The servers of connections.
    homes: BTreeMap<u32, usize>,
    /// The rules of a pair, where there is one.
    pair: Option<Pair>,
    start_ns: u64,
    has_begun: bool,
    random: u64,
    /// What the last handshake agreed on.
    ping_timeout_ns: u64,
    unseen: VecDeque<Unseen>,
    last: VecDeque<Passed>,
    acts: VecDeque<(usize, Act)>,
    reports_before: u64,
    end: Option<End>,
}

impl Play {
    /// A play at its beginning, time 0. `wall_s` is the wall clock then, seconds since 1970.
    ///
    /// # Errors
    /// A step that there is not.
    pub fn new(scenario: &ScenarioFile, seed: u64, wall_s: u64) -> Result<Self, FileError> {
        let program = program::compile(scenario)?;
        let (is_paired, judges) = (!scenario.standby_services.is_empty(), scenario.judges);
        let place = |number: u64, services: &[String]| {
            let (services, updates_a_second) = (services.to_vec(), f64::from(scenario.updates_a_second));
            // The second server has other values.
            let config =
                MarketConfig { services, updates_a_second, seed: seed.wrapping_add(number), wall_s, is_paired };
            let mut judge = Judge::new(judges, scenario.limits.clone());
            judge.listening(0, judges != Judges::Provider);
            Place::new(Side::new(judges, config), judge, seed)
        };
        let mut places = vec![place(0, &scenario.services)];
        places.extend(is_paired.then(|| place(1, &scenario.standby_services)));
        Ok(Self {
            program,
            at: 0,
            until_ns: None,
            places,
            homes: BTreeMap::new(),
            pair: is_paired.then(|| Pair::new(scenario.limits.clone())),
            start_ns: START,
            has_begun: false,
            random: seed ^ 0x9E37_79B9_7F4A_7C15,
            ping_timeout_ns: u64::from(scenario.ping_timeout_s) * SECOND,
            unseen: VecDeque::new(),
            last: VecDeque::new(),
            acts: VecDeque::new(),
            reports_before: 0,
            end: None,
        })
    }

    /// Has the play wait so long for what a client has to do first, nanoseconds: on a busy machine programs take their time to start.
    pub fn set_start(&mut self, patience_ns: u64) {
        self.start_ns = patience_ns;
    }

    /// How many servers there are: one, or two of a warm-standby pair.
    pub fn servers(&self) -> usize {
        self.places.len()
    }

    /// Connections, of all servers.
    pub fn connections(&self) -> usize {
        self.places.iter().map(|place| place.side.connections()).sum()
    }

    /// So many steps are done.
    pub fn steps_done(&self) -> usize {
        self.at
    }

    /// What the judges have found, of all servers.
    pub fn notes(&self) -> Notes {
        let servers = self.places.iter().map(|place| place.judge.notes());
        Notes::joined(servers.chain(self.pair.as_ref().map(Pair::notes)))
    }

    /// The judge of the first server, to be told of the client's process.
    pub fn judge_mut(&mut self) -> &mut Judge {
        &mut self.places[0].judge
    }

    /// Bytes of a connection are no session of the protocol, and why.
    pub fn malformed(&mut self, now: u64, conn: u32, why: &str) {
        self.home(conn).judge.malformed(now, why);
    }

    /// How it ended, when it has.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The last messages, oldest first.
    pub fn last(&self) -> &VecDeque<Passed> {
        &self.last
    }

    /// The step that is being done; `None` at the end.
    pub fn step(&self) -> Option<&Step> {
        self.program.steps.get(self.at)
    }

    /// The act that is next, and which server does it.
    pub fn take(&mut self) -> Option<(usize, Act)> {
        self.acts.pop_front()
    }

    /// When [`Play::advance`] is to be called at the latest; `None` at the end.
    pub fn due(&self) -> Option<u64> {
        if self.end.is_some() {
            return None;
        }
        let places = self.places.iter().filter_map(Place::due);
        places.chain(self.pair.as_ref().and_then(Pair::due)).chain(self.until_ns).min()
    }

    /// The server of a connection.
    fn home(&mut self, conn: u32) -> &mut Place {
        let server = self.homes.get(&conn).copied().unwrap_or_default();
        &mut self.places[server]
    }

    fn home_ref(&self, conn: u32) -> &Place {
        &self.places[self.homes.get(&conn).copied().unwrap_or_default()]
    }

    /// A connection came up: the handshake is done. `server` is the one that has it, `ping_timeout_s` what it agreed on.
    pub fn connected(&mut self, now: u64, server: usize, conn: u32, ping_timeout_s: u8, spoken: Spoken) {
        self.ping_timeout_ns = u64::from(ping_timeout_s) * SECOND;
        self.homes.insert(conn, server);
        if !std::mem::replace(&mut self.has_begun, true)
            && matches!(self.step(), Some(Step { deed: Deed::Needs(..), .. }))
        {
            // The time to start is over, and that for what is needed begins.
            self.until_ns = None;
        }
        let timeout = self.ping_timeout_ns;
        let place = self.home(conn);
        place.judge.connected(now, conn, timeout);
        let mut known = place.side.connected(conn);
        if let (Spoken::Json, Ok(server)) = (spoken, place.side.server()) {
            known = known.and_then(|()| server.speaks_json(conn));
        }
        if spoken == Spoken::Json {
            place.judge.speaks_json(conn);
        }
        if let Err(why) = known {
            self.end.get_or_insert(End::Impossible(why));
        }
        self.drain(now);
        self.advance(now);
    }

    /// The services of a connection, id and name.
    pub fn services(&self, conn: u32) -> Vec<(u16, String)> {
        let ids = self.home_ref(conn).side.ids(conn).into_iter().flatten();
        ids.map(|(name, id)| (*id, name.clone())).collect()
    }

    /// A connection is over; `by_client`: the client ended it.
    pub fn closed(&mut self, now: u64, conn: u32, by_client: bool) {
        let place = self.home(conn);
        place.judge.closed(now, conn, by_client);
        place.side.closed(now, conn);
        self.lost(now, conn);
        self.advance(now);
    }

    /// A server may have lost its last connection.
    fn lost(&mut self, now: u64, conn: u32) {
        let server = self.homes.get(&conn).copied().unwrap_or_default();
        if let Some(pair) = &mut self.pair
            && !self.places[server].side.has_login()
        {
            pair.lost(now, server);
        }
    }

    /// A connection that was asked for by [`Act::Dial`] could not be made.
    pub fn refused(&mut self, now: u64) {
        self.places[0].side.refused(now);
        self.advance(now);
    }

    /// Bytes came in, if only a ping.
    pub fn heard(&mut self, now: u64, conn: u32) {
        self.home(conn).judge.heard(now, conn);
    }

    /// The client wrote a line. What it uses is what the active server of a pair has sent.
    pub fn line(&mut self, now: u64, line: &str) {
        let server = self.pair.as_ref().map_or(0, Pair::active);
        self.places[server].judge.line(now, line);
        self.advance(now);
    }

    /// A message came in.
    pub fn message(&mut self, now: u64, conn: u32, bytes: &[u8]) {
        if self.home_ref(conn).side.ids(conn).is_none() {
            // On its way when the server ended the connection.
            return;
        }
        self.passed(now, conn, true, bytes);
        if self.home(conn).judge.client_message(now, conn, bytes)
            && let Ok(msg) = Msg::decode(bytes)
        {
            if let Some(ids) = self.home_ref(conn).side.ids(conn)
                && let Ok(received) = ReceivedMessage::of(bytes, ids)
            {
                let received = self.named(conn, received);
                self.unseen.push_back(Unseen { conn, received });
                if self.unseen.len() > UNSEEN_MAX {
                    self.unseen.pop_front();
                }
            }
            self.told(now, conn, &msg);
            if let Err(why) = self.home(conn).side.message(now, conn, &msg) {
                self.end.get_or_insert(End::Impossible(why));
            }
        }
        self.drain(now);
        self.advance(now);
    }

    /// The client may say which part a server of a pair has. From the one that becomes the active one it gets what it uses from now on.
    fn told(&mut self, now: u64, conn: u32, msg: &Msg<'_>) {
        let (Some(pair), Msg::Generic(generic)) = (&mut self.pair, msg) else { return };
        let server = self.homes.get(&conn).copied().unwrap_or_default();
        let before = pair.active();
        for (_, part) in crate::standby::parts(generic) {
            pair.told(now, server, part);
        }
        if pair.active() != before
            && let [first, second] = self.places.as_mut_slice()
        {
            let (from, to) = if before == 0 { (first, second) } else { (second, first) };
            to.judge.goes_on_for(now, &mut from.judge);
        }
    }

    /// The message with the name of its item where it has none of its own.
    fn named(&self, conn: u32, mut received: ReceivedMessage) -> ReceivedMessage {
        if received.item.is_none() {
            received.item = self.home_ref(conn).side.item(conn, received.stream).map(str::to_owned);
        }
        received
    }

    fn passed(&mut self, now: u64, conn: u32, from_client: bool, bytes: &[u8]) {
        if self.last.len() == LAST_MESSAGES {
            self.last.pop_front();
        }
        self.last.push_back(Passed { at_ns: now, conn, from_client, message: bytes.to_vec() });
    }

    /// Acts of the servers go past the judge to the owner, those that jitter holds back in their time.
    fn drain(&mut self, now: u64) {
        for server in 0..self.places.len() {
            while let Some(act) = self.places[server].take(now) {
                self.done_by(now, server, act);
            }
        }
    }

    fn done_by(&mut self, now: u64, server: usize, act: Act) {
        let place = &mut self.places[server];
        match &act {
            Act::Note { conn, message } => {
                place.judge.server_message(now, *conn, message, place.side.wall_s(now));
                return;
            }
            Act::Send { conn, message } => {
                place.judge.server_message(now, *conn, message, place.side.wall_s(now));
                if let Some(pair) = &mut self.pair
                    && place.side.has_login()
                {
                    pair.logged_in(now, server);
                }
                let (conn, message) = (*conn, message.clone());
                self.passed(now, conn, false, &message);
            }
            Act::Close { conn, .. } | Act::BreakOff { conn, .. } => {
                place.judge.closed(now, *conn, false);
                place.side.closed(now, *conn);
                let conn = *conn;
                self.lost(now, conn);
            }
            Act::Vanish { conn } => {
                place.judge.vanished(now, *conn);
                place.side.closed(now, *conn);
                let conn = *conn;
                self.lost(now, conn);
            }
            act => place.became(now, act),
        }
        self.acts.push_back((server, act));
    }

    /// Does what is due.
    pub fn advance(&mut self, now: u64) {
        for server in 0..self.places.len() {
            let place = &mut self.places[server];
            if place.wakes(now) {
                self.acts.push_back((server, Act::Talk(true)));
            }
            if let Err(why) = place.advance(now) {
                self.end.get_or_insert(End::Impossible(why));
            }
        }
        self.drain(now);
        self.places.iter_mut().for_each(|place| place.judge.advance(now));
        if let Some(pair) = &mut self.pair {
            pair.advance(now);
        }
        while self.end.is_none() {
            let Some(step) = self.program.steps.get(self.at).cloned() else {
                self.end = Some(End::Done);
                break;
            };
            match self.done(now, &step) {
                Ok(true) => {
                    self.at += 1;
                    self.until_ns = None;
                }
                Ok(false) => break,
                Err(why) => self.end = Some(End::Impossible(format!("line {}: {}: {why}", step.line, step.text))),
            }
            self.drain(now);
        }
    }

    /// Whether a step is done. The first call begins it.
    fn done(&mut self, now: u64, step: &Step) -> Result<bool, String> {
        let server = step.server;
        match &step.deed {
            Deed::After(least, most) => {
                if self.until_ns.is_none() {
                    let more = if most > least { self.next_random() % (most - least) } else { 0 };
                    self.until_ns = Some(now + least + more);
                }
                Ok(self.until_ns.is_some_and(|until| now >= until))
            }
            Deed::AfterPings(times) => {
                let time = (times * self.ping_timeout_ns as f64) as u64;
                Ok(now >= *self.until_ns.get_or_insert(now + time))
            }
            Deed::Until(event, patience) => {
                let until = *self.until_ns.get_or_insert(now + patience);
                if self.is_there(server, event) {
                    self.judge_mut().step(now, None);
                    return Ok(true);
                }
                if now >= until {
                    let seconds = *patience as f64 / SECOND as f64;
                    let text = format!("line {}: {}: it did not come in {seconds} s", step.line, step.text);
                    self.judge_mut().step(now, Some(text));
                    return Ok(true);
                }
                Ok(false)
            }
            Deed::Needs(event, patience) => Ok(self.is_met(now, step, event, *patience)),
            Deed::Never(message, time) => {
                let until = *self.until_ns.get_or_insert(now + time);
                if self.has_come(server, message) {
                    let text = format!("line {}: {}: it came", step.line, step.text);
                    self.judge_mut().step(now, Some(text));
                    return Ok(true);
                }
                if now >= until {
                    self.judge_mut().step(now, None);
                }
                Ok(now >= until)
            }
            deed => {
                self.places[server].posts_before = self.places[server].side.posts_seen();
                self.reports_before = self.reports();
                // Messages of before do not answer what is done now.
                self.unseen.clear();
                self.act(now, server, deed).map(|()| true)
            }
        }
    }

    /// Whether what a scenario needs is there. Where it does not come, nothing is judged: a client that has not even connected may be slow to start.
    fn is_met(&mut self, now: u64, step: &Step, event: &Event, patience: Option<u64>) -> bool {
        // A client that is there needs no time to start.
        let patience = patience.unwrap_or(START).max(if self.has_begun { 0 } else { self.start_ns });
        let until = *self.until_ns.get_or_insert(now + patience);
        if self.is_there(step.server, event) {
            // Messages of before do not answer what is waited for from now on.
            self.unseen.clear();
            return true;
        }
        if now >= until {
            let why = if self.has_begun {
                "the client did not do that".to_owned()
            } else {
                let seconds = patience as f64 / SECOND as f64;
                format!("no connection in {seconds} s; one that is slow to start is given more by --start SECONDS")
            };
            self.end = Some(End::NotJudged(format!("line {}: {}: {why}", step.line, step.text)));
        }
        false
    }

    fn reports(&self) -> u64 {
        self.places.iter().map(|place| place.judge.reports()).sum()
    }

    fn act(&mut self, now: u64, server: usize, deed: &Deed) -> Result<(), String> {
        let place = &mut self.places[server];
        match deed {
            Deed::Send(message) => place.side.server()?.send_message(message),
            Deed::Directory(service, words) => place.side.server()?.send_directory(service, words),
            Deed::BreakOff(message) => place.side.server()?.break_off(message),
            Deed::Server(Server::Jitter(most)) => {
                place.jitter_ns = *most;
                Ok(())
            }
            Deed::Server(change) => {
                if let Server::Clock(_) = change {
                    place.judge.clock_set(now);
                }
                place.side.server()?.change(now, change)
            }
            Deed::Ask(ask) => {
                if ask.excuses() {
                    place.judge.excuse();
                }
                place.side.consumer()?.ask(ask)
            }
            Deed::Command(command) => self.command(now, server, command),
            Deed::After(..) | Deed::AfterPings(_) | Deed::Until(..) | Deed::Needs(..) | Deed::Never(..) => Ok(()),
        }
    }

    fn command(&mut self, now: u64, number: usize, command: &Command<f64>) -> Result<(), String> {
        if let Command::Hang(time) = command {
            self.places[number].hangs(now, now + time.as_nanos() as u64);
            self.acts.push_back((number, Act::Talk(false)));
            return Ok(());
        }
        let server = self.places[number].side.server()?;
        let stream = |item: &Option<String>| match item.as_deref() {
            None | Some("*") => Stream::All,
            Some("first") => Stream::First,
            Some(item) => Stream::Item(item.to_owned()),
        };
        let status = |item: &Option<String>, words: [&str; 2]| Message {
            class: "STATUS".to_owned(),
            stream: stream(item),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        match command {
            Command::UpdateRate(rate) => server.set_rate(*rate),
            Command::Down => server.set_up(false)?,
            Command::Up => server.set_up(true)?,
            Command::Suspect(item) => {
                server.send_message(&status(item, ["Open/Suspect", "\"the source says so\""]))?;
            }
            Command::Ok(item) => server.send_message(&status(item, ["Open/Ok", "\"good again\""]))?,
            Command::Close(item) => server.send_message(&status(item, ["Closed/Suspect/NotFound", "\"gone\""]))?,
            Command::Recover(item) => {
                server.send_message(&status(item, ["ClosedRecover/Suspect", "\"open it again\""]))?;
            }
            Command::Image(item) => server.send_images(&stream(item))?,
            Command::Malformed(item) => server.send_malformed(&stream(item))?,
            Command::Gap(updates) => server.set_gap(*updates),
            Command::Mute => server.set_mute(now, true)?,
            Command::Answer => server.set_mute(now, false)?,
            Command::Cut => server.change(now, &Server::Resets)?,
            Command::Hang(_) | Command::Delay(_) | Command::Status | Command::Help | Command::Quit => {
                return Err("this command is for people at a terminal".to_owned());
            }
        }
        Ok(())
    }

    fn is_there(&mut self, server: usize, event: &Event) -> bool {
        let Place { side, judge, posts_before, .. } = &self.places[server];
        match event {
            Event::Connection => side.connections() > 0,
            Event::NoConnection => side.connections() == 0,
            Event::Login => side.has_login(),
            Event::Items(count, domain) => side.open_items(domain.as_deref()) >= *count,
            Event::Directory => side.has_directory(),
            Event::Answered => side.is_answered(),
            Event::Published(count) => judge.published() >= *count,
            Event::Post => side.posts_seen() > *posts_before,
            Event::Report => self.reports() > self.reports_before,
            Event::Part(part) => side.has_part(*part),
            Event::Message(message) => self.has_come(server, message),
        }
    }

    /// Takes the first message that fits, and those of its stream before it.
    fn has_come(&mut self, server: usize, message: &Message) -> bool {
        let first = self.places[server].side.first().map(str::to_owned);
        let homes = &self.homes;
        let is_here = |conn: u32| homes.get(&conn).copied().unwrap_or_default() == server;
        let is_of = |received: &ReceivedMessage| match &message.stream {
            Stream::Login => received.domain == rwf::msg::Domain::LOGIN,
            Stream::Directory => received.domain == rwf::msg::Domain::SOURCE,
            Stream::All => ![rwf::msg::Domain::LOGIN, rwf::msg::Domain::SOURCE, rwf::msg::Domain::DICTIONARY]
                .contains(&received.domain),
            Stream::First => received.item.is_some() && received.item == first,
            Stream::Item(name) => received.item.as_deref() == Some(name),
            Stream::Number(number) => received.stream == *number,
        };
        let fits = |unseen: &Unseen| {
            let received = &unseen.received;
            is_here(unseen.conn)
                && received.class == message.class
                && is_of(received)
                && received.differs(&message.words).is_none()
        };
        let Some(at) = self.unseen.iter().position(fits) else { return false };
        let (conn, stream) = (self.unseen[at].conn, self.unseen[at].received.stream);
        let mut index = 0;
        self.unseen.retain(|unseen| {
            index += 1;
            index > at + 1 || unseen.conn != conn || unseen.received.stream != stream
        });
        true
    }

    /// Numbers by the seed (xorshift).
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
