//! The play: steps in their time, the server that they are about, and the judge that sees all. Bytes of sockets, clocks and processes are the
//! owner's: messages, lines and times go in, acts come out, the same for the same seed as long as the client says the same.

use std::collections::VecDeque;

use rwf::msg::Msg;

use crate::commands::Command;
use crate::file::{FileError, Judges, ScenarioFile};
use crate::judge::Judge;
use crate::market::{Act, MarketConfig};
use crate::numbers::SECOND;
use crate::program::{self, Deed, Event, Message, Program, Server, Step, Stream};
use crate::side::Side;
use crate::words::ReceivedMessage;

/// Messages that are kept for the report of a failure.
pub const LAST_MESSAGES: usize = 50;
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
    side: Side,
    judge: Judge,
    random: u64,
    /// What the last handshake agreed on.
    ping_timeout_ns: u64,
    unseen: VecDeque<Unseen>,
    last: VecDeque<Passed>,
    acts: VecDeque<Act>,
    listening: bool,
    pings: bool,
    /// The server says nothing until then.
    hangs_until_ns: Option<u64>,
    reads: bool,
    posts_before: u64,
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
        let updates_a_second = f64::from(scenario.updates_a_second);
        let config = MarketConfig { services: scenario.services.clone(), updates_a_second, seed, wall_s };
        let mut judge = Judge::new(scenario.judges, scenario.limits.clone());
        let side = Side::new(scenario.judges, config);
        judge.listening(0, scenario.judges != Judges::Provider);
        Ok(Self {
            program,
            at: 0,
            until_ns: None,
            side,
            judge,
            random: seed ^ 0x9E37_79B9_7F4A_7C15,
            ping_timeout_ns: u64::from(scenario.ping_timeout_s) * SECOND,
            unseen: VecDeque::new(),
            last: VecDeque::new(),
            acts: VecDeque::new(),
            listening: true,
            pings: true,
            hangs_until_ns: None,
            reads: true,
            posts_before: 0,
            reports_before: 0,
            end: None,
        })
    }

    /// The judge, with what it has found.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// The judge, to be told of the client's process.
    pub fn judge_mut(&mut self) -> &mut Judge {
        &mut self.judge
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

    /// The act that is next.
    pub fn take(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// When [`Play::advance`] is to be called at the latest; `None` at the end.
    pub fn due(&self) -> Option<u64> {
        if self.end.is_some() {
            return None;
        }
        [self.until_ns, self.side.due(), self.judge.due(), self.hangs_until_ns].into_iter().flatten().min()
    }

    /// A connection came up: the handshake is done. `ping_timeout_s`: what it agreed on.
    pub fn connected(&mut self, now: u64, conn: u32, ping_timeout_s: u8, spoken: Spoken) {
        self.ping_timeout_ns = u64::from(ping_timeout_s) * SECOND;
        self.judge.connected(now, conn, self.ping_timeout_ns);
        if let Err(why) = self.side.connected(conn) {
            self.end.get_or_insert(End::Impossible(why));
        }
        if let (Spoken::Json, Ok(server)) = (spoken, self.side.server())
            && let Err(why) = server.speaks_json(conn)
        {
            self.end.get_or_insert(End::Impossible(why));
        }
        if spoken == Spoken::Json {
            self.judge.speaks_json(conn);
        }
        self.drain(now);
        self.advance(now);
    }

    /// The services of a connection, id and name.
    pub fn services(&self, conn: u32) -> Vec<(u16, String)> {
        let ids = self.side.ids(conn).into_iter().flatten();
        ids.map(|(name, id)| (*id, name.clone())).collect()
    }

    /// A connection is over; `by_client`: the client ended it.
    pub fn closed(&mut self, now: u64, conn: u32, by_client: bool) {
        self.judge.closed(now, conn, by_client);
        self.side.closed(now, conn);
        self.advance(now);
    }

    /// A connection that was asked for by [`Act::Dial`] could not be made.
    pub fn refused(&mut self, now: u64) {
        self.side.refused(now);
        self.advance(now);
    }

    /// Bytes came in, if only a ping.
    pub fn heard(&mut self, now: u64, conn: u32) {
        self.judge.heard(now, conn);
    }

    /// The client wrote a line.
    pub fn line(&mut self, now: u64, line: &str) {
        self.judge.line(now, line);
        self.advance(now);
    }

    /// A message came in.
    pub fn message(&mut self, now: u64, conn: u32, bytes: &[u8]) {
        if self.side.ids(conn).is_none() {
            // On its way when the server ended the connection.
            return;
        }
        self.passed(now, conn, true, bytes);
        if self.judge.client_message(now, conn, bytes)
            && let Ok(msg) = Msg::decode(bytes)
        {
            if let Some(ids) = self.side.ids(conn)
                && let Ok(received) = ReceivedMessage::of(bytes, ids)
            {
                let received = self.named(conn, received);
                self.unseen.push_back(Unseen { conn, received });
                if self.unseen.len() > UNSEEN_MAX {
                    self.unseen.pop_front();
                }
            }
            if let Err(why) = self.side.message(now, conn, &msg) {
                self.end.get_or_insert(End::Impossible(why));
            }
        }
        self.drain(now);
        self.advance(now);
    }

    /// The message with the name of its item where it has none of its own.
    fn named(&self, conn: u32, mut received: ReceivedMessage) -> ReceivedMessage {
        if received.item.is_none() {
            received.item = self.side.item(conn, received.stream).map(str::to_owned);
        }
        received
    }

    fn passed(&mut self, now: u64, conn: u32, from_client: bool, bytes: &[u8]) {
        if self.last.len() == LAST_MESSAGES {
            self.last.pop_front();
        }
        self.last.push_back(Passed { at_ns: now, conn, from_client, message: bytes.to_vec() });
    }

    /// Acts of the server go past the judge to the owner.
    fn drain(&mut self, now: u64) {
        while let Some(act) = self.side.take() {
            match &act {
                Act::Note { conn, message } => {
                    self.judge.server_message(now, *conn, message, self.side.wall_s(now));
                    continue;
                }
                Act::Send { conn, message } => {
                    self.judge.server_message(now, *conn, message, self.side.wall_s(now));
                    let (conn, message) = (*conn, message.clone());
                    self.passed(now, conn, false, &message);
                }
                Act::Close { conn, .. } | Act::BreakOff { conn, .. } => {
                    self.judge.closed(now, *conn, false);
                    self.side.closed(now, *conn);
                }
                Act::Listen(listening) => {
                    self.listening = *listening;
                    self.judge.listening(now, *listening);
                }
                Act::Read(reads) => {
                    self.reads = *reads;
                    self.judge.server_is(now, !self.pings, !reads);
                }
                Act::Ping(pings) => {
                    self.pings = *pings;
                    self.judge.server_is(now, !pings, !self.reads);
                }
                Act::Dial | Act::Talk(_) | Act::Pace(_) => {}
            }
            self.acts.push_back(act);
        }
    }

    /// Does what is due.
    pub fn advance(&mut self, now: u64) {
        if self.hangs_until_ns.is_some_and(|until| now >= until) {
            self.hangs_until_ns = None;
            self.acts.push_back(Act::Talk(true));
            self.judge.server_is(now, !self.pings, !self.reads);
        }
        if self.hangs_until_ns.is_none()
            && let Err(why) = self.side.advance(now)
        {
            self.end.get_or_insert(End::Impossible(why));
        }
        self.drain(now);
        self.judge.advance(now);
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
                if self.is_there(event) {
                    self.judge.step(now, None);
                    return Ok(true);
                }
                if now >= until {
                    let seconds = *patience as f64 / SECOND as f64;
                    let text = format!("line {}: {}: it did not come in {seconds} s", step.line, step.text);
                    self.judge.step(now, Some(text));
                    return Ok(true);
                }
                Ok(false)
            }
            Deed::Needs(event, patience) => {
                let until = *self.until_ns.get_or_insert(now + patience);
                if self.is_there(event) {
                    // Messages of before do not answer what is waited for from now on.
                    self.unseen.clear();
                    return Ok(true);
                }
                if now >= until {
                    let text = format!("line {}: {}: the client did not do that", step.line, step.text);
                    self.end = Some(End::NotJudged(text));
                }
                Ok(false)
            }
            Deed::Never(message, time) => {
                let until = *self.until_ns.get_or_insert(now + time);
                if self.has_come(message) {
                    self.judge.step(now, Some(format!("line {}: {}: it came", step.line, step.text)));
                    return Ok(true);
                }
                if now >= until {
                    self.judge.step(now, None);
                }
                Ok(now >= until)
            }
            deed => {
                self.posts_before = self.side.posts_seen();
                self.reports_before = self.judge.reports();
                // Messages of before do not answer what is done now.
                self.unseen.clear();
                self.act(now, deed).map(|()| true)
            }
        }
    }

    fn act(&mut self, now: u64, deed: &Deed) -> Result<(), String> {
        match deed {
            Deed::Send(message) => self.side.server()?.send_message(message),
            Deed::Directory(service, words) => self.side.server()?.send_directory(service, words),
            Deed::BreakOff(message) => self.side.server()?.break_off(message),
            Deed::Server(server) => self.side.server()?.change(now, server),
            Deed::Ask(ask) => {
                if ask.excuses() {
                    self.judge.excuse();
                }
                self.side.consumer()?.ask(ask)
            }
            Deed::Command(command) => self.command(now, command),
            Deed::After(..) | Deed::AfterPings(_) | Deed::Until(..) | Deed::Needs(..) | Deed::Never(..) => Ok(()),
        }
    }

    fn command(&mut self, now: u64, command: &Command<f64>) -> Result<(), String> {
        let server = self.side.server()?;
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
            Command::Hang(time) => {
                self.hangs_until_ns = Some(now + time.as_nanos() as u64);
                self.acts.push_back(Act::Talk(false));
                self.judge.server_is(now, true, !self.reads);
            }
            Command::Cut => server.change(now, &Server::Resets)?,
            Command::Delay(_) | Command::Status | Command::Help | Command::Quit => {
                return Err("this command is for people at a terminal".to_owned());
            }
        }
        Ok(())
    }

    fn is_there(&mut self, event: &Event) -> bool {
        match event {
            Event::Connection => self.side.connections() > 0,
            Event::NoConnection => self.side.connections() == 0,
            Event::Login => self.side.has_login(),
            Event::Items(count, domain) => self.side.open_items(domain.as_deref()) >= *count,
            Event::Directory => self.side.has_directory(),
            Event::Answered => self.side.is_answered(),
            Event::Published(count) => self.judge.published() >= *count,
            Event::Post => self.side.posts_seen() > self.posts_before,
            Event::Report => self.judge.reports() > self.reports_before,
            Event::Message(message) => self.has_come(message),
        }
    }

    /// Takes the first message that fits, and those of its stream before it.
    fn has_come(&mut self, message: &Message) -> bool {
        let first = self.side.first().map(str::to_owned);
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
            received.class == message.class && is_of(received) && received.differs(&message.words).is_none()
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
