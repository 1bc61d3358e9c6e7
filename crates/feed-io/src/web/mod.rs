//! A venue on the web on sockets: WebSocket and HTTP, over TLS as a rule. What its state machine asks for is done, and what comes is given to it.

mod pipe;
mod place;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::anyhow;
use feed::replay::venue::WebKind;
use feed::replay::venue::live::{Clock, WebFeed, WebWant};
use net::tcp::{CloseReason, ConnId, Event, RecvOutcome, Scratch, Tcp, TcpConfig};
use rssl::ws::frame::{self, OpCode};
use rssl::ws::upgrade::PlainAsk;
use rssl::ws::{Limits, Role, Sink, Socket, code};

use self::pipe::{Answer, Pipe};
use self::place::Url;
pub use self::place::{WebPlace, is_web_site};
use crate::source::{Intake, Report, Source, clock, run_timers};

/// What a text may have: the snapshots of the deepest books are some megabytes.
const LIMITS: Limits = Limits { message_bytes_max: 64 << 20, frames_max: 1 << 16 };

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    /// The venue's texts: the how-manieth dialling it is.
    Texts(u64),
    /// The fetch of this number.
    Fetch(u64),
}

/// How far a connection has come. It is dropped with what it has of the network when it is not wanted any more.
enum Way {
    /// The host's name is looked up.
    LookUp,
    /// Bytes go to and fro, or the connection is being made.
    Open(Pipe, Talk),
}

enum Talk {
    /// The WebSocket is asked for, and what has come of the answer.
    Asking(PlainAsk, Vec<u8>),
    Texts(Box<Socket>),
    /// The path is asked for, and what has come of the answer.
    Fetching(String, Answer),
}

type Found = (Purpose, Result<Vec<SocketAddr>, String>);

/// A venue on the web as a source. Its sockets are looked at whenever it is asked to go on.
pub type WebSource = Source<WebSockets>;

/// A venue on the web with its connections.
pub struct WebSockets {
    feed: WebFeed,
    place: WebPlace,
    /// The site for people, with the venue.
    site: String,
    protocol: String,
    tcp: Tcp,
    ways: HashMap<Purpose, Way>,
    paths: HashMap<u64, String>,
    dials: u64,
    looked_up: Receiver<Found>,
    look_up: Sender<Found>,
    scratch: Scratch,
    events: Vec<Event>,
    plain: Vec<u8>,
    /// Something was read, of which there may be more.
    has_read: bool,
    trouble: Option<String>,
}

/// Takes the texts of a session.
struct Texts<'a> {
    feed: &'a mut WebFeed,
    clock: Clock,
}

impl Sink for Texts<'_> {
    fn text(&mut self, text: &str) {
        self.feed.text(text.as_bytes(), self.clock);
    }

    fn binary(&mut self, bytes: &[u8]) {
        // None of these venues sends any: it is counted as what is not theirs, unless it is a text after all.
        self.feed.text(bytes, self.clock);
    }
}

/// A number that nobody outside can foresee: keys come from the operating system.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn nonce() -> [u8; 16] {
    let mut nonce = [0; 16];
    nonce.chunks_exact_mut(8).for_each(|half| half.copy_from_slice(&random().to_le_bytes()));
    nonce
}

impl Source<WebSockets> {
    /// Opens what is needed; the first connection is made when the source is asked to go on. `report` is told how the feed stands each second.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn open(place: WebPlace, text: &str, report: Option<Report>) -> anyhow::Result<Self> {
        let tcp = Tcp::new(TcpConfig::default()).map_err(|e| anyhow!("{text}: {e}"))?;
        let (look_up, looked_up) = channel();
        let kind: WebKind = place.config.kind;
        let ways = WebSockets {
            feed: WebFeed::new(&place.config, clock()),
            site: text.to_owned(),
            protocol: format!("{kind} (WebSocket)"),
            place,
            tcp,
            ways: HashMap::new(),
            paths: HashMap::new(),
            dials: 0,
            looked_up,
            look_up,
            scratch: Scratch::default(),
            events: Vec::new(),
            plain: Vec::new(),
            has_read: false,
            trouble: None,
        };
        Ok(Source::new(ways, text, report))
    }
}

impl WebSockets {
    fn purpose_of(&self, conn: ConnId) -> Option<Purpose> {
        let is_of = |way: &Way| matches!(way, Way::Open(pipe, _) if pipe.conn == conn);
        self.ways.iter().find(|(_, way)| is_of(way)).map(|(purpose, _)| *purpose)
    }

    fn url(&self, purpose: Purpose) -> Option<&Url> {
        match purpose {
            Purpose::Texts(_) => Some(&self.place.socket),
            Purpose::Fetch(_) => self.place.http.as_ref(),
        }
    }

    /// Has the name of a host looked up, which may take seconds: in a thread of its own, so that nobody else waits.
    fn begin(&mut self, purpose: Purpose) {
        let Some(url) = self.url(purpose).cloned() else {
            return self.failed(purpose, "there is no server that it can be fetched from");
        };
        self.ways.insert(purpose, Way::LookUp);
        let (answer, waker) = (self.look_up.clone(), self.tcp.waker());
        let find = move || {
            // Nobody waits for it any more only if the source is gone.
            let _told = answer.send((purpose, url.look_up()));
            waker.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("look-up".into()).spawn(find) {
            self.failed(purpose, &format!("its name cannot be looked up: {error}"));
        }
    }

    fn dial(&mut self, purpose: Purpose, found: Result<Vec<SocketAddr>, String>) {
        if !matches!(self.ways.get(&purpose), Some(Way::LookUp)) {
            // The connection was given up while its name was looked up.
            return;
        }
        // A look-up was begun for a server that there is (`begin`).
        let Some(url) = self.url(purpose).cloned() else { return };
        let opened = found.and_then(|all| {
            // Another address each time: the first one may be of a network that is not reached from here.
            let turn = match purpose {
                Purpose::Texts(number) | Purpose::Fetch(number) => number as usize % all.len(),
            };
            Pipe::dial(&mut self.tcp, all[turn], &url, self.place.tls.as_ref())
        });
        let talk = match purpose {
            Purpose::Texts(_) => {
                let ask = PlainAsk { host: url.authority(), path: url.path.clone(), nonce: nonce() };
                Talk::Asking(ask, Vec::new())
            }
            Purpose::Fetch(number) => Talk::Fetching(self.paths.remove(&number).unwrap_or_default(), Answer::default()),
        };
        match opened {
            Ok(pipe) => drop(self.ways.insert(purpose, Way::Open(pipe, talk))),
            Err(why) => self.failed(purpose, &why),
        }
    }

    fn connected(&mut self, conn: ConnId) {
        // A connection that was given up in this turn may still be reported: nothing is owed for it, here and below.
        let Some(purpose) = self.purpose_of(conn) else { return };
        let url = self.url(purpose).cloned();
        let (Some(Way::Open(pipe, talk)), Some(url)) = (self.ways.get_mut(&purpose), url) else { return };
        let mut first = Vec::new();
        match talk {
            Talk::Asking(ask, _) => ask.encode(&mut first),
            Talk::Fetching(path, _) => first = pipe::request(&url, path),
            Talk::Texts(_) => {}
        }
        if let Err(why) = pipe.begin(&mut self.tcp, &first) {
            self.failed(purpose, &why);
        }
    }

    fn read(&mut self, conn: ConnId) {
        let Some(purpose) = self.purpose_of(conn) else { return };
        // Nothing to read; an end is reported by itself (`closed`).
        let RecvOutcome::Data(bytes) = self.tcp.recv(conn, &mut self.scratch) else { return };
        self.has_read = true;
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let Some(Way::Open(pipe, _)) = self.ways.get_mut(&purpose) else { return };
        let taken = pipe.receive(&mut self.tcp, bytes, &mut plain);
        // Bytes that came before a fault count.
        let taken = self.take(purpose, &plain).and(taken);
        self.plain = plain;
        // Of a fetch that is whole nothing more matters.
        if let Err(why) = taken
            && self.ways.contains_key(&purpose)
        {
            self.failed(purpose, &why);
        }
    }

    /// Takes plain bytes of a connection.
    fn take(&mut self, purpose: Purpose, mut bytes: &[u8]) -> Result<(), String> {
        let Self { ways, feed, tcp, .. } = self;
        // The way was there when its bytes were read.
        let Some(Way::Open(pipe, talk)) = ways.get_mut(&purpose) else { return Ok(()) };
        if let Talk::Fetching(_, answer) = talk {
            if let Some(body) = answer.take(bytes)? {
                self.fetched(purpose, Some(&body));
            }
            return Ok(());
        }
        if let Talk::Asking(ask, head) = talk {
            let had = head.len();
            head.extend_from_slice(bytes);
            let Some(length) = ask.answer(head)? else { return Ok(()) };
            bytes = &bytes[length - had..];
            *talk = Talk::Texts(Box::new(Socket::new(Role::Client(random()), false, LIMITS)));
            feed.connected(clock());
        }
        if let Talk::Texts(socket) = talk {
            let mut out = Vec::new();
            let taken = socket.receive(bytes, &mut out, &mut Texts { feed, clock: clock() });
            if !out.is_empty() {
                pipe.send(tcp, &out)?;
            }
            return taken.map_err(|closed| closed.to_string());
        }
        Ok(())
    }

    fn closed(&mut self, conn: ConnId, why: CloseReason) {
        let Some(purpose) = self.purpose_of(conn) else { return };
        let Some(Way::Open(pipe, talk)) = self.ways.remove(&purpose) else { return };
        let body = match talk {
            // A connection that was refused or cut is said to be so; else its end is that of an answer without a length.
            Talk::Fetching(_, answer) => {
                let is_well = why == CloseReason::PeerClosed && pipe.has_ended_well();
                answer.end(is_well).map_err(|unfinished| format!("{why}: {unfinished}"))
            }
            _ => Err(why.to_string()),
        };
        match body {
            Ok(body) => self.fetched(purpose, Some(&body)),
            Err(why) => self.failed(purpose, &why),
        }
    }

    /// A fetch is over.
    fn fetched(&mut self, purpose: Purpose, body: Option<&[u8]>) {
        self.drop_way(purpose);
        if let Purpose::Fetch(number) = purpose {
            self.feed.fetched(number, body, clock());
        }
    }

    /// A connection is of no use, and why.
    fn failed(&mut self, purpose: Purpose, why: &str) {
        let whom = self.url(purpose).map(ToString::to_string).unwrap_or_default();
        tracing::warn!("{}: {whom}: {why}", self.site);
        match purpose {
            Purpose::Fetch(_) => self.fetched(purpose, None),
            Purpose::Texts(_) => {
                self.drop_way(purpose);
                self.feed.disconnected(clock());
            }
        }
    }

    fn drop_way(&mut self, purpose: Purpose) {
        if let Some(Way::Open(pipe, _)) = self.ways.remove(&purpose) {
            pipe.close(&mut self.tcp);
        }
        if let Purpose::Fetch(number) = purpose {
            self.paths.remove(&number);
        }
    }

    /// Does what the feed wants.
    fn act(&mut self) {
        while let Some(want) = self.feed.poll() {
            match want {
                WebWant::Dial => {
                    self.drop_way(Purpose::Texts(self.dials));
                    self.dials += 1;
                    self.begin(Purpose::Texts(self.dials));
                }
                WebWant::Say(text) => self.say(&text),
                WebWant::HangUp => self.hang_up(),
                WebWant::Fetch { number, path } => {
                    self.paths.insert(number, path);
                    self.begin(Purpose::Fetch(number));
                }
                WebWant::GiveUp { number } => self.drop_way(Purpose::Fetch(number)),
            }
        }
    }

    fn say(&mut self, text: &str) {
        let purpose = Purpose::Texts(self.dials);
        // Without a session there is nobody to say it to: all is subscribed to again when one is there (`WebFeed::connected`).
        let Some(Way::Open(pipe, Talk::Texts(socket))) = self.ways.get_mut(&purpose) else { return };
        let (mut out, mask) = (Vec::new(), socket.mask());
        frame::write(&mut out, OpCode::Text, true, false, mask, text.as_bytes());
        if let Err(why) = pipe.send(&mut self.tcp, &out) {
            self.failed(purpose, &why);
        }
    }

    fn hang_up(&mut self) {
        let purpose = Purpose::Texts(self.dials);
        if let Some(Way::Open(pipe, Talk::Texts(socket))) = self.ways.get_mut(&purpose) {
            let mut out = Vec::new();
            socket.close(code::GOING_AWAY, "nothing has come", &mut out);
            // It is closed in any case.
            let _told = pipe.send(&mut self.tcp, &out);
        }
        tracing::warn!("{}: {}: nothing has come for too long: dialled again", self.site, self.place.socket);
        self.drop_way(purpose);
    }
}

impl Intake for WebSockets {
    type Feed = WebFeed;

    fn feed(&self) -> &WebFeed {
        &self.feed
    }

    fn feed_mut(&mut self) -> &mut WebFeed {
        &mut self.feed
    }

    fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    fn protocol(&self) -> String {
        self.protocol.clone()
    }

    fn take_in(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.events);
        if let Err(error) = self.tcp.poll(Some(Duration::ZERO), &mut events) {
            self.trouble = Some(error.to_string());
        }
        self.has_read = false;
        while let Ok((purpose, found)) = self.looked_up.try_recv() {
            self.dial(purpose, found);
            self.act();
        }
        for event in &events {
            match *event {
                Event::Connected { conn } => self.connected(conn),
                Event::Readable { conn } => self.read(conn),
                Event::Closed { conn, why } => self.closed(conn, why),
                _ => {}
            }
            self.act();
        }
        self.events = events;
        run_timers(self, Self::act);
        self.has_read
    }

    fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

#[cfg(test)]
mod tests;
