//! A service of the application's own, in a thread that listens or dials.

use crate::dial::Dial;
use crate::event_queue::EventQueue;
use crate::handle::lock;
use crate::settings::{AddressError, servers};
use client::fields::{self, WriteError};
use client::publication::{Event, ItemName, Publication, PublicationConfig, Watcher};
use net::Waker;
use net::tcp::{Close, ConnId, SocketOptions};
use net::tls::{TlsError, TlsServer};
use omm::{ConnectionList, Server};
use rssl::ws::upgrade::{Offer, Protocol};
use rssl::{ServerConfig, Version};
use rssl_io::{Encryption, Ended, Handler, Listener, Opened, RsslIo, WebSocket};
use rwf::dictionary::Dictionary;
use rwf::image::ApplyError;
use rwf::msg::Domain;
use rwf::rdm::login;
use rwf::{DataType, Primitive};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Bytes that wait for the thread, with what is kept of each entry; whoever publishes more waits until it has taken them. As much again is worked off meanwhile,
/// and lies once more in front of each connection.
const WAITING_MAX: usize = 1 << 20;
/// Bytes that wait for one consumer, before it is cut off.
const BACKLOG_MAX: usize = 256 << 20;
/// How long connections are given to take what is left at the end, nanoseconds.
const FAREWELL: u64 = 1_000_000_000;

/// Why nothing was published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// The fields cannot be written.
    Write(WriteError),
    /// The publisher is over: why.
    Ended(String),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => error.fmt(f),
            Self::Ended(why) => write!(f, "the publisher has ended: {why}"),
        }
    }
}

impl std::error::Error for PublishError {}

/// How a publisher is.
#[derive(Debug, Clone, Default)]
pub struct PublisherStatus {
    /// Connections to the interactive side.
    pub connections: usize,
    /// Consumers that were cut off because they were too slow.
    pub cut_off: u64,
    /// The server of the non-interactive side has everything.
    pub is_ready: bool,
    /// Why the last connection to the server was lost or not made, or the login refused.
    pub lost: Option<String>,
    /// Bodies that could not be applied to their items' images, and of whom nobody was told.
    pub refused: u64,
    /// The last of them.
    pub refusal: Option<String>,
    /// Events that nobody took in time.
    pub events_lost: u64,
    /// The publisher is over: why.
    pub is_over: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Publish,
    Image,
    End,
    Generic(Watcher),
}

/// Something that is to be published: its name, then its body, in one block of bytes.
struct Entry {
    act: Act,
    domain: Domain,
    container: DataType,
    name_end: usize,
    end: usize,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    events: EventQueue,
    status: PublisherStatus,
    ends: bool,
    /// Blocks that the thread has taken and worked off.
    taken: u64,
}

impl Waiting {
    const fn in_use(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// A service of the application's own. Dropped, it is closed.
pub struct Publisher {
    shared: Arc<Shared>,
    waker: Waker,
    dictionary: Arc<Dictionary>,
    address: Option<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// An interactive provider: consumers and servers dial it at this address (port 0: any free one, see [`Publisher::address`]), by RSSL or by
    /// WebSocket (`rssl.rwf`).
    ///
    /// # Errors
    /// The address cannot be listened on, or the system gives no thread.
    pub fn listen(config: PublicationConfig, address: SocketAddr) -> io::Result<Self> {
        Self::listen_as(config, address, Encryption::None)
    }

    /// As [`Publisher::listen`], with TLS; nothing else is taken. The files are PEM, and are read again when they change.
    ///
    /// # Errors
    /// As there; a file cannot be read, or has no certificate or key.
    pub fn listen_encrypted(
        config: PublicationConfig,
        address: SocketAddr,
        certificate: &Path,
        key: &Path,
    ) -> io::Result<Self> {
        let bad = |e: TlsError| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        let tls = TlsServer::from_files(certificate, key, None).map_err(bad)?;
        Self::listen_as(config, address, Encryption::Required(tls))
    }

    fn listen_as(config: PublicationConfig, address: SocketAddr, encryption: Encryption) -> io::Result<Self> {
        let mut io = RsslIo::new(net::clock::now())?;
        let options = SocketOptions { reuse_address: true, ..SocketOptions::default() };
        let offer = Offer { protocols: vec![Protocol::Rwf], ..Offer::default() };
        let websocket = Some(Arc::new(WebSocket { offer, ..WebSocket::default() }));
        let rssl = Listener::rssl(Arc::new(ServerConfig::default()));
        let (_, bound) = io.listen_as(address, &options, Listener { websocket, encryption, ..rssl })?;
        Self::start(io, Publication::new(config, None), Dial::default(), Some(bound))
    }

    /// A non-interactive provider: dials the servers of a list (`HOST:PORT` with commas between them), logs in as `user`, and publishes there.
    ///
    /// # Errors
    /// The list has an entry that is no server, or the system gives no sockets or thread.
    pub fn dial(config: PublicationConfig, list: &str, user: &str) -> io::Result<Self> {
        Self::dial_as(config, list, user, Dial::default())
    }

    /// As [`Publisher::dial`], by WebSocket or with TLS.
    ///
    /// # Errors
    /// As there.
    pub fn dial_as(config: PublicationConfig, list: &str, user: &str, dial: Dial) -> io::Result<Self> {
        let bad = |e: AddressError| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        let connections = ConnectionList::new(servers(list).map_err(bad)?);
        let attributes = login::Attributes {
            application_id: Some("256".to_owned()),
            application_name: Some("quoteway".to_owned()),
            position: Some("127.0.0.1/net".to_owned()),
            ..login::Attributes::default()
        };
        let login = login::Request { name: user.to_owned(), attributes, ..login::Request::default() };
        let io = RsslIo::new(net::clock::now())?;
        Self::start(io, Publication::new(config, Some((connections, login))), dial, None)
    }

    fn start(mut io: RsslIo, publication: Publication, dial: Dial, address: Option<SocketAddr>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let waker = io.tcp().waker();
        let dictionary = Arc::clone(publication.dictionary());
        let of_thread = Arc::clone(&shared);
        let thread =
            Builder::new().name("publisher".to_owned()).spawn(move || run(io, publication, dial, &of_thread))?;
        Ok(Self { shared, waker, dictionary, address, thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The dictionary.
    pub const fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Publishes fields of a market price by name: the first time they are its image, then an update. Waits while the thread has too much to do.
    ///
    /// # Errors
    /// The dictionary does not know a field, a value does not fit, or the publisher is over.
    pub fn publish(&self, name: &str, values: &[(&str, Primitive<'_>)]) -> Result<(), PublishError> {
        let mut body = Vec::new();
        fields::write(&self.dictionary, values, &mut body).map_err(PublishError::Write)?;
        self.publish_body(Domain::MARKET_PRICE, name, DataType::FIELD_LIST, &body)
    }

    /// As [`Publisher::publish`], of any domain and data.
    ///
    /// # Errors
    /// The publisher is over.
    pub fn publish_body(
        &self,
        domain: Domain,
        name: &str,
        container: DataType,
        body: &[u8],
    ) -> Result<(), PublishError> {
        self.give(Act::Publish, domain, name, container, body)
    }

    /// Publishes an image, which replaces what was known of the item.
    ///
    /// # Errors
    /// The publisher is over.
    pub fn publish_image(
        &self,
        domain: Domain,
        name: &str,
        container: DataType,
        body: &[u8],
    ) -> Result<(), PublishError> {
        self.give(Act::Image, domain, name, container, body)
    }

    /// Ends an item: consumers are told that it is closed, with this text.
    ///
    /// # Errors
    /// The publisher is over.
    pub fn end(&self, domain: Domain, name: &str, text: &str) -> Result<(), PublishError> {
        self.give(Act::End, domain, name, DataType::NO_DATA, text.as_bytes())
    }

    /// Sends a generic message to one who watches an item and has sent one ([`Event::Generic`]). Who has left meanwhile hears nothing.
    ///
    /// # Errors
    /// The publisher is over.
    pub fn send_generic(&self, to: Watcher, container: DataType, body: &[u8]) -> Result<(), PublishError> {
        self.give(Act::Generic(to), Domain::MARKET_PRICE, "", container, body)
    }

    fn give(&self, act: Act, domain: Domain, name: &str, container: DataType, body: &[u8]) -> Result<(), PublishError> {
        let mut waiting = lock(&self.shared.waiting);
        while waiting.in_use() > WAITING_MAX && waiting.status.is_over.is_none() {
            waiting = self.shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(why) = &waiting.status.is_over {
            return Err(PublishError::Ended(why.clone()));
        }
        waiting.bytes.extend_from_slice(name.as_bytes());
        let name_end = waiting.bytes.len();
        waiting.bytes.extend_from_slice(body);
        let end = waiting.bytes.len();
        waiting.entries.push(Entry { act, domain, container, name_end, end });
        drop(waiting);
        self.waker.wake();
        Ok(())
    }

    /// Waits until the thread has published all that was given before.
    pub fn flush(&self) {
        let mut waiting = lock(&self.shared.waiting);
        // The block under way, and the one that waits.
        let until = waiting.taken + 2;
        self.waker.wake();
        while waiting.taken < until && waiting.status.is_over.is_none() {
            waiting = self.shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            self.waker.wake();
        }
    }

    /// The next event; waits for one at most as long as `timeout`.
    pub fn next_event(&self, timeout: Duration) -> Option<Event> {
        let until = Instant::now() + timeout;
        let mut waiting = lock(&self.shared.waiting);
        loop {
            if let Some(event) = waiting.events.pop() {
                return Some(event);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || waiting.status.is_over.is_some() {
                return None;
            }
            waiting = self.shared.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the status is as `is_so` says, at most as long as `timeout`; gives the status then.
    pub fn wait(&self, timeout: Duration, mut is_so: impl FnMut(&PublisherStatus) -> bool) -> PublisherStatus {
        let until = Instant::now() + timeout;
        let mut waiting = lock(&self.shared.waiting);
        while !is_so(&waiting.status) && waiting.status.is_over.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            waiting = self.shared.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.status.clone()
    }

    /// How it is now.
    pub fn status(&self) -> PublisherStatus {
        lock(&self.shared.waiting).status.clone()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        lock(&self.shared.waiting).ends = true;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told to all who wait.
            let _ = thread.join();
        }
    }
}

/// The connections, and what is published on them.
struct Work {
    publication: Publication,
    /// Connections of the interactive side by number.
    conns: HashMap<u64, ConnId>,
    numbers: HashMap<ConnId, u64>,
    next: u64,
    dial: Dial,
    dialled: Option<ConnId>,
    /// The server has greeted: the connection takes messages from then on. One that becomes a WebSocket first takes none.
    is_open: bool,
    server: Option<Server>,
    version: Version,
    redials: bool,
    attempts: usize,
    leaves: bool,
    lost: Option<String>,
}

impl Handler for Work {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        if self.dialled == Some(conn) {
            self.is_open = true;
            self.publication.publisher().into_iter().for_each(|publisher| publisher.handle_connected(now));
            self.publication.publisher_events();
            return;
        }
        self.next += 1;
        self.conns.insert(self.next, conn);
        self.numbers.insert(conn, self.next);
        self.publication.opened(self.next);
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if self.dialled == Some(conn) {
            self.publication.publisher_message(now, msg);
        } else if let Some(number) = self.numbers.get(&conn) {
            self.publication.message(*number, msg);
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.dialled == Some(conn) {
            self.dialled = None;
            self.version = ended.next_version.unwrap_or(Version::V14);
            self.redials = ended.next_version.is_some();
            if !self.redials {
                self.failed(now, ended.why.to_string());
            }
        } else if let Some(number) = self.numbers.remove(&conn) {
            self.conns.remove(&number);
            self.publication.closed(number);
        }
    }
}

impl Work {
    fn failed(&mut self, now: u64, why: String) {
        self.lost = Some(why);
        self.publication.publisher().into_iter().for_each(|publisher| publisher.handle_disconnected(now));
        self.publication.publisher_events();
    }

    fn dial_server(&mut self, now: u64, io: &mut RsslIo) {
        if self.dialled.is_some() {
            return;
        }
        if !std::mem::take(&mut self.redials) {
            let server = self.publication.publisher().and_then(|publisher| publisher.poll_connect(now).cloned());
            // A publisher that listens dials nobody; one that dials says when.
            let Some(server) = server else { return };
            self.server = Some(server);
        }
        let Some(server) = &self.server else {
            return debug_assert!(false, "a server that was never dialled is dialled again");
        };
        let dialled = self.dial.connect(now, io, server, (self.attempts, self.version));
        self.attempts = self.attempts.wrapping_add(1);
        match dialled {
            Ok(conn) => (self.dialled, self.is_open) = (Some(conn), false),
            Err(why) => self.failed(now, why),
        }
    }

    /// Sends what there is to say. Gives how many consumers were cut off.
    fn send(&mut self, now: u64, io: &mut RsslIo) -> u64 {
        let mut cut_off = 0;
        while let Some(number) = self.publication.poll_unsent() {
            let Some(&conn) = self.conns.get(&number) else {
                debug_assert!(false, "connection {number} has something to send and is gone");
                continue;
            };
            io.send(now, conn, |packer| {
                while let Some(msg) = self.publication.poll_transmit(number) {
                    packer.push(msg, None);
                }
            });
            if io.backlog(conn) > BACKLOG_MAX {
                io.close(conn, "the consumer is too slow", Close::Reset);
                cut_off += 1;
            }
        }
        if let (Some(conn), Some(publisher)) = (self.dialled, self.publication.publisher()) {
            if self.is_open {
                io.send(now, conn, |packer| {
                    while let Some(msg) = publisher.poll_transmit() {
                        packer.push(msg, None);
                    }
                });
            }
            if std::mem::take(&mut self.leaves) {
                io.close_drained(conn, "the session is over");
            }
        }
        cut_off
    }

    fn carry_out(&mut self, bytes: &[u8], entries: &[Entry]) -> (u64, Option<ApplyError>) {
        let (mut start, mut refused, mut refusal) = (0, 0, None);
        for entry in entries {
            // Names were texts when they were given.
            let name = String::from_utf8_lossy(&bytes[start..entry.name_end]);
            let item = ItemName { domain: entry.domain, name: name.into() };
            let body = &bytes[entry.name_end..entry.end];
            let done = match entry.act {
                Act::Publish => self.publication.publish(&item, entry.container, body),
                Act::Image => self.publication.publish_image(&item, entry.container, body),
                Act::End => {
                    self.publication.end(&item, &String::from_utf8_lossy(body));
                    Ok(())
                }
                Act::Generic(to) => {
                    self.publication.send_generic(to, entry.container, body);
                    Ok(())
                }
            };
            refused += u64::from(done.is_err());
            refusal = done.err().or(refusal);
            start = entry.end;
        }
        (refused, refusal)
    }
}

/// Says to all who wait that it is over, also when the thread panics.
struct Over<'s>(&'s Shared, String);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiting).status.is_over = Some(std::mem::take(&mut self.1));
        self.0.changed.notify_all();
    }
}

fn run(mut io: RsslIo, publication: Publication, dial: Dial, shared: &Shared) {
    let mut over = Over(shared, "its thread has panicked".to_owned());
    let mut work = Work {
        publication,
        conns: HashMap::new(),
        numbers: HashMap::new(),
        next: 0,
        dial,
        dialled: None,
        is_open: false,
        server: None,
        version: Version::V14,
        redials: false,
        attempts: 0,
        leaves: false,
        lost: None,
    };
    let mut until = None;
    loop {
        let now = net::clock::now();
        let (bytes, entries, ends) = {
            let mut waiting = lock(&shared.waiting);
            (std::mem::take(&mut waiting.bytes), std::mem::take(&mut waiting.entries), waiting.ends)
        };
        let (refused, refusal) = work.carry_out(&bytes, &entries);
        work.publication.publisher().into_iter().for_each(|publisher| publisher.handle_timeout(now));
        work.publication.publisher_events();
        if ends && until.is_none() {
            until = Some(now + FAREWELL);
            work.publication.publisher().into_iter().for_each(omm::publisher::Publisher::shut_down);
            work.publication.publisher_events();
        } else if !ends {
            work.dial_server(now, &mut io);
        }
        let cut_off = work.send(now, &mut io);
        tell(&mut work, shared, (refused, refusal, cut_off));
        if until.is_some() {
            let conns: Vec<ConnId> = work.conns.values().copied().collect();
            for conn in conns {
                io.close_drained(conn, "the provider ends");
            }
        }
        if until.is_some_and(|until| now >= until || (work.conns.is_empty() && work.dialled.is_none())) {
            "it was ended".clone_into(&mut over.1);
            return;
        }
        let due = work.publication.publisher().and_then(|publisher| publisher.timeout());
        let due = due.filter(|_| until.is_none());
        match io.turn([due, until].into_iter().flatten().min(), &mut work) {
            Ok(now) => {
                work.send(now, &mut io);
            }
            Err(e) => {
                over.1 = format!("no sockets: {e}");
                return;
            }
        }
    }
}

/// Gives the owner what has happened.
fn tell(work: &mut Work, shared: &Shared, (refused, refusal, cut_off): (u64, Option<ApplyError>, u64)) {
    let mut waiting = lock(&shared.waiting);
    waiting.taken += 1;
    waiting.status.connections = work.conns.len();
    waiting.status.refused += refused;
    waiting.status.cut_off += cut_off;
    if let Some(refusal) = refusal {
        waiting.status.refusal = Some(refusal.to_string());
    }
    if let Some(lost) = work.lost.take() {
        waiting.status.lost = Some(lost);
    }
    while let Some(event) = work.publication.poll_event() {
        match &event {
            Event::Ready => (waiting.status.is_ready, waiting.status.lost) = (true, None),
            Event::Lost => waiting.status.is_ready = false,
            Event::Refused(why) => waiting.status.lost = Some(why.clone()),
            Event::Disconnect => {
                work.leaves = true;
                continue;
            }
            _ => {}
        }
        let lost = waiting.events.push(event);
        waiting.status.events_lost += lost;
    }
    drop(waiting);
    shared.changed.notify_all();
}
