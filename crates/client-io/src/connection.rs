//! A client with its connection, driven by its owner: no thread, no queue.

use crate::settings::{Encryption, SessionConfig, Transport};
use client::{Client, Delivery, Event};
use net::tcp::{ConnId, SocketOptions};
use omm::Server;
use rssl::ws::upgrade::Protocol;
use rssl::ws::{JsonConfig, Limits};
use rssl::{ClientConfig, Version};
use rssl_io::{Ended, Handler, Opened, RsslIo, WebSocketDial};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

/// Events of a connection's client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// Of login, services, dictionary and posts.
    Client(Event),
    /// A server has taken the connection; the login goes out.
    Connected {
        /// Its host and port.
        server: String,
    },
    /// A connection is gone, or could not be made. Another attempt is made in its time.
    Lost {
        /// Host and port of the server.
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
    link: Link,
    transport: Transport,
    encryption: Encryption,
}

/// The connection that there is, or is being made.
struct Link {
    conn: Option<ConnId>,
    server: Option<Server>,
    /// The version that the server is greeted with.
    version: Version,
    /// The server knows another version: it is dialled again, of which the client hears nothing.
    redials: bool,
    /// Attempts, so that all addresses of a name are tried.
    attempts: usize,
    /// Close the connection when all is sent.
    leaves: bool,
    is_reading: bool,
    notices: VecDeque<Notice>,
}

/// Notices that are kept for an owner who does not take them.
const NOTICES_MAX: usize = 4_096;

impl Link {
    fn place(&self) -> String {
        self.server.as_ref().map(|server| format!("{}:{}", server.host, server.port)).unwrap_or_default()
    }

    fn note(&mut self, notice: Notice) {
        if self.notices.len() >= NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }

    fn take_events(&mut self, client: &mut Client) {
        while let Some(event) = client.poll_event() {
            if Client::asks_to_disconnect(&event).is_some() {
                self.leaves = true;
            } else {
                self.note(Notice::Client(event));
            }
        }
    }
}

impl Connection {
    /// A connection that is not made yet; [`Connection::turn`] dials.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn new(config: SessionConfig) -> io::Result<Self> {
        Ok(Self {
            io: RsslIo::new(net::clock::now())?,
            client: Client::new(config.client),
            link: Link {
                conn: None,
                server: None,
                version: Version::V14,
                redials: false,
                attempts: 0,
                leaves: false,
                is_reading: true,
                notices: VecDeque::new(),
            },
            transport: config.transport,
            encryption: config.encryption,
        })
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
        self.client.handle_timeout(now, &mut |d| sink(now, d));
        self.dial(now, sink);
        // The owner may have ended the session since the last turn: the connection closes behind what is sent now, not when input comes.
        self.link.take_events(&mut self.client);
        self.send(now);
        let due = [deadline, self.client.timeout()].into_iter().flatten().min();
        let mut served = Served { client: &mut self.client, link: &mut self.link, sink };
        let now = self.io.turn(due, &mut served)?;
        self.link.take_events(&mut self.client);
        self.send(now);
        Ok(now)
    }

    /// The next event since the last call.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.link.take_events(&mut self.client);
        self.link.notices.pop_front()
    }

    /// Stops or resumes reading: for an owner who cannot take more.
    pub fn set_reading(&mut self, reading: bool) {
        self.link.is_reading = reading;
        if let Some(conn) = self.link.conn {
            self.io.set_reading(conn, reading);
        }
    }

    /// Whether there is a connection, or one is being made or ended.
    pub const fn is_connected(&self) -> bool {
        self.link.conn.is_some()
    }

    fn dial(&mut self, now: u64, sink: &mut impl FnMut(u64, Delivery<'_>)) {
        if self.link.conn.is_some() {
            return;
        }
        if !std::mem::take(&mut self.link.redials) {
            let Some(server) = self.client.poll_connect(now) else { return };
            self.link.server = Some(server.clone());
        }
        self.link.leaves = false;
        let Some(server) = self.link.server.clone() else { return };
        let dialled = self.connect(now, &server);
        self.link.attempts = self.link.attempts.wrapping_add(1);
        match dialled {
            Ok(conn) => {
                self.link.conn = Some(conn);
                self.io.set_reading(conn, self.link.is_reading);
            }
            Err(why) => {
                let server = self.link.place();
                self.link.note(Notice::Lost { server, why });
                self.client.handle_disconnected(now, &mut |d| sink(now, d));
            }
        }
    }

    fn connect(&mut self, now: u64, server: &Server) -> Result<ConnId, String> {
        let addresses = (server.host.as_str(), server.port).to_socket_addrs().map_err(|e| e.to_string())?;
        let mut addresses: Vec<SocketAddr> = addresses.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6);
        let at = self.link.attempts.checked_rem(addresses.len()).ok_or("no address has this name")?;
        let tls = match &self.encryption {
            Encryption::Plain => None,
            Encryption::Tls(tls) => Some(tls.connect(&server.host).map_err(|e| e.to_string())?),
        };
        let config = Arc::new(ClientConfig { version: self.link.version, ..ClientConfig::default() });
        let options = SocketOptions::default();
        let dialled = match self.transport {
            Transport::Rssl => self.io.connect(now, addresses[at], &options, config, tls),
            Transport::WebSocket => {
                let dial = WebSocketDial {
                    host: format!("{}:{}", server.host, server.port),
                    protocols: vec![Protocol::Rwf],
                    rssl: config,
                    limits: Limits::default(),
                    json: JsonConfig::default(),
                };
                self.io.connect_websocket(now, addresses[at], &options, Arc::new(dial), tls)
            }
        };
        dialled.map_err(|e| e.to_string())
    }

    fn send(&mut self, now: u64) {
        let Some(conn) = self.link.conn else { return };
        let client = &mut self.client;
        self.io.send(now, conn, |packer| {
            while let Some(msg) = client.poll_transmit() {
                packer.push(msg, None);
            }
        });
        if std::mem::take(&mut self.link.leaves) {
            self.io.close_drained(conn, "the session is over");
        }
    }
}

/// A turn's handler.
struct Served<'t, S> {
    client: &'t mut Client,
    link: &'t mut Link,
    sink: &'t mut S,
}

impl<S: FnMut(u64, Delivery<'_>)> Handler for Served<'_, S> {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        if self.link.conn == Some(conn) {
            let server = self.link.place();
            self.link.note(Notice::Connected { server });
            self.client.handle_connected(now, &mut |d| (self.sink)(now, d));
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if self.link.conn == Some(conn) {
            self.client.handle_message(now, msg, &mut |d| (self.sink)(now, d));
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.link.conn != Some(conn) {
            return;
        }
        self.link.conn = None;
        self.link.version = ended.next_version.unwrap_or(Version::V14);
        self.link.redials = ended.next_version.is_some();
        if !self.link.redials {
            self.link.take_events(self.client);
            let server = self.link.place();
            self.link.note(Notice::Lost { server, why: ended.why.to_string() });
            self.client.handle_disconnected(now, &mut |d| (self.sink)(now, d));
        }
    }
}
