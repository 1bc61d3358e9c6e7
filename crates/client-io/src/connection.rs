//! A client with its connections, driven by its owner: no thread, no queue.

use crate::dial::{self, Dial};
use crate::settings::SessionConfig;
use client::{Client, Delivery, Event, LinkId};
use net::dns::ServiceName;
use net::tcp::ConnId;
use omm::consumer;
use omm::{Server, WallClock};
use rssl::Version;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use std::collections::VecDeque;
use std::io;

/// Events of the client and of its links.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// Of login, services, dictionary and posts.
    Client(Event),
    /// A server has taken the connection; the login goes out.
    Connected {
        /// The link: most clients have one.
        link: LinkId,
        /// Its host and port, or the name of the service whose server it is.
        server: String,
    },
    /// A connection is gone, or could not be made. Another attempt is made in its time.
    Lost {
        /// The link.
        link: LinkId,
        /// Host and port of the server, or the name of the service whose server it is.
        server: String,
        /// The reason.
        why: String,
    },
}

/// A [`Client`] on sockets. The owner calls [`Connection::turn`] again and again, and may change what is subscribed in between.
pub struct Connection {
    io: RsslIo,
    /// The client: subscriptions, posts. What it wants to say is sent in the next turn.
    pub client: Client,
    links: Links,
    dial: Dial,
    /// When the client is told next what the clock on the wall shows; never without a schedule.
    clock_due: u64,
}

/// The connections that there are, or are being made, by place of the client's link.
struct Links {
    all: Vec<Link>,
    is_reading: bool,
    notices: VecDeque<Notice>,
}

struct Link {
    id: LinkId,
    conn: Option<ConnId>,
    /// The server has greeted: the connection takes messages from then on. One that is being made, or that becomes a WebSocket first, takes none.
    is_open: bool,
    server: Option<Server>,
    /// The version that the server is greeted with.
    version: Version,
    /// The server knows another version: it is dialled again, of which the client hears nothing.
    redials: bool,
    /// Attempts, so that all addresses of a name are tried.
    attempts: usize,
    /// Close the connection when all is sent.
    leaves: bool,
}

/// How often the client is told what the clock on the wall shows, nanoseconds.
const CLOCK_EVERY_NS: u64 = 60_000_000_000;

/// Notices that are kept for an owner who does not take them.
const NOTICES_MAX: usize = 4_096;

impl Link {
    const fn new(id: LinkId) -> Self {
        Self {
            id,
            conn: None,
            is_open: false,
            server: None,
            version: Version::V14,
            redials: false,
            attempts: 0,
            leaves: false,
        }
    }

    /// A server that was logged in at: after a loss the servers of a service are tried in their order again, from the first. A host's address that has
    /// failed has another one tried first.
    fn begin_anew(&mut self) {
        if self.server.as_ref().is_some_and(|server| ServiceName::is_meant_by(&server.host)) {
            self.attempts = 0;
        }
    }

    fn place(&self) -> String {
        self.server.as_ref().map(dial::entry).unwrap_or_default()
    }
}

impl Links {
    /// The link of a connection: there are few.
    #[inline]
    fn of(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.all.iter_mut().find(|link| link.conn == Some(conn))
    }

    fn note(&mut self, notice: Notice) {
        if self.notices.len() >= NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }

    fn take_events(&mut self, client: &mut Client) {
        while let Some(event) = client.poll_event() {
            if let Event::Consumer { link, event } = &event
                && let consumer::Event::LoggedIn(_) = **event
            {
                self.all[link.index()].begin_anew();
            }
            if let Some((link, _)) = Client::asks_to_disconnect(&event) {
                self.all[link.index()].leaves = true;
            } else {
                self.note(Notice::Client(event));
            }
        }
    }
}

impl Connection {
    /// Connections that are not made yet; [`Connection::turn`] dials.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn new(config: SessionConfig) -> io::Result<Self> {
        let client = Client::new(config.client);
        let links = Links { all: client.links().map(Link::new).collect(), is_reading: true, notices: VecDeque::new() };
        let dial = Dial { transport: config.transport, encryption: config.encryption };
        let clock_due = if client.has_schedule() { 0 } else { u64::MAX };
        Ok(Self { io: RsslIo::new(net::clock::now())?, client, links, dial, clock_due })
    }

    /// Wakes a turn that waits, from any thread.
    pub fn waker(&mut self) -> net::Waker {
        self.io.tcp().waker()
    }

    /// Dials if it is time for that, sends, waits for input until `deadline` (nanoseconds of [`net::clock::now`]; `None`: until something comes),
    /// and gives `sink` each message of an item with the time at which it was received. Gives the time. The look-up of a server's name blocks.
    ///
    /// # Errors
    /// The failure that makes all sockets unusable.
    pub fn turn(&mut self, deadline: Option<u64>, sink: &mut impl FnMut(u64, Delivery<'_>)) -> io::Result<u64> {
        let now = net::clock::now();
        self.tell_clock(now);
        self.client.handle_timeout(now, &mut |d| sink(now, d));
        for at in 0..self.links.all.len() {
            self.dial(now, at, sink);
        }
        // The owner may have ended the session since the last turn: connections close behind what is sent now, not when input comes.
        self.links.take_events(&mut self.client);
        self.send(now);
        let clock_due = Some(self.clock_due).filter(|due| *due < u64::MAX);
        let due = [deadline, self.client.timeout(), clock_due].into_iter().flatten().min();
        let mut served = Served { client: &mut self.client, links: &mut self.links, sink };
        let now = self.io.turn(due, &mut served)?;
        self.links.take_events(&mut self.client);
        self.send(now);
        Ok(now)
    }

    /// A schedule is kept by the clock of the place, which is put forward and back.
    fn tell_clock(&mut self, now: u64) {
        if now < self.clock_due {
            return;
        }
        let wall = net::clock::wall();
        let local_ns = wall.saturating_add_signed(net::clock::utc_offset_s(wall) * 1_000_000_000);
        self.client.set_clock(WallClock { now, local_ns });
        self.clock_due = now.saturating_add(CLOCK_EVERY_NS);
    }

    /// The next event since the last call.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.links.take_events(&mut self.client);
        self.links.notices.pop_front()
    }

    /// Stops or resumes reading: for an owner who cannot take more.
    pub fn set_reading(&mut self, reading: bool) {
        self.links.is_reading = reading;
        for conn in self.links.all.iter().filter_map(|link| link.conn) {
            self.io.set_reading(conn, reading);
        }
    }

    /// Whether there is a connection, or one is being made or ended.
    pub fn is_connected(&self) -> bool {
        self.links.all.iter().any(|link| link.conn.is_some())
    }

    /// Dials for the link of a place, if it is time for that.
    fn dial(&mut self, now: u64, at: usize, sink: &mut impl FnMut(u64, Delivery<'_>)) {
        let link = &mut self.links.all[at];
        if link.conn.is_some() {
            return;
        }
        if !std::mem::take(&mut link.redials) {
            // The client says when a server is to be dialled.
            let Some(server) = self.client.poll_connect(now, link.id) else { return };
            link.server = Some(server.clone());
        }
        link.leaves = false;
        let Some(server) = link.server.clone() else {
            return debug_assert!(false, "a server that was never dialled is dialled again");
        };
        let dialled = self.dial.connect(now, &mut self.io, &server, (link.attempts, link.version));
        let is_reading = self.links.is_reading;
        let link = &mut self.links.all[at];
        link.attempts = link.attempts.wrapping_add(1);
        match dialled {
            Ok(conn) => {
                (link.conn, link.is_open) = (Some(conn), false);
                self.io.set_reading(conn, is_reading);
            }
            Err(why) => {
                let (link, server) = (link.id, link.place());
                self.links.note(Notice::Lost { link, server, why });
                self.client.handle_disconnected(now, link, &mut |d| sink(now, d));
            }
        }
    }

    fn send(&mut self, now: u64) {
        let Self { io, client, links, .. } = self;
        for link in &mut links.all {
            // A message to send is kept, or void, until there is a connection.
            let Some(conn) = link.conn else { continue };
            if link.is_open {
                io.send(now, conn, |packer| {
                    while let Some(msg) = client.poll_transmit(link.id) {
                        packer.push(msg, None);
                    }
                });
            }
            if std::mem::take(&mut link.leaves) {
                io.close_drained(conn, "the session is over");
            }
        }
    }
}

/// A turn's handler.
struct Served<'t, S> {
    client: &'t mut Client,
    links: &'t mut Links,
    sink: &'t mut S,
}

impl<S: FnMut(u64, Delivery<'_>)> Handler for Served<'_, S> {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        if let Some(link) = self.links.of(conn) {
            link.is_open = true;
            let (link, server) = (link.id, link.place());
            self.links.note(Notice::Connected { link, server });
            self.client.handle_connected(now, link, &mut |d| (self.sink)(now, d));
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if let Some(link) = self.links.of(conn) {
            self.client.handle_message(now, link.id, msg, &mut |d| (self.sink)(now, d));
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        let Some(link) = self.links.of(conn) else {
            return debug_assert!(false, "{conn:?} was closed, and is no link's");
        };
        link.conn = None;
        link.version = ended.next_version.unwrap_or(Version::V14);
        link.redials = ended.next_version.is_some();
        if !link.redials {
            let (link, server) = (link.id, link.place());
            self.links.take_events(self.client);
            self.links.note(Notice::Lost { link, server, why: ended.why.to_string() });
            self.client.handle_disconnected(now, link, &mut |d| (self.sink)(now, d));
        }
    }
}
