//! `quoteway marketfeed-lines`: items as raw Marketfeed for programs that know no RSSL, by lines of text on a plain socket.
//!
//! Each client of lines is a consumer of its own at the server, with its own login: permissions, limits and the audit hold for it as for
//! any other. The protocol is ours (`docs/wire/marketfeed.md`); it is not SSL, whose wire format is not public.

mod session;

use anyhow::anyhow;
use clap::Args as ClapArgs;
use net::Waker;
use net::tcp::{Close, ConnId, SocketOptions};
use omm::consumer::ConsumerConfig;
use omm::{ConnectionList, Server};
use rssl::{ClientConfig, Version};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::dictionary::Dictionary;
use session::Session;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// A longer line is none, bytes.
const LINE_MAX: u64 = 1_024;
/// Lines of all clients that wait to be done.
const LINES_MAX: usize = 1_024;
/// Parts that wait to be written to a client; one that does not read them is cut off.
const PARTS_MAX: usize = 1_024;
/// How long a client may take nothing.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Items of one client, at most.
const ITEMS_MAX: usize = 100_000;
/// How often the wish to stop is looked at when nothing happens, nanoseconds.
const STOP_EVERY: u64 = 100_000_000;
/// After a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Give items as raw Marketfeed to programs that know no RSSL, by lines of text on a plain socket.
///
/// The protocol is Quoteway's own, and not that of SSL, which is not public. A client writes `open SERVICE ITEM` and reads records from FS
/// to FS (docs/wire/marketfeed.md).
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "Examples:\n  quoteway marketfeed-lines --server localhost:14002\n  \
    (echo open DIRECT_FEED IBM.N; sleep 5) | nc localhost 8101 | quoteway dump --marketfeed -")]
pub struct Args {
    /// Where consumers connect to the P2PS
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:14002")]
    pub server: String,
    /// Address to listen on: this host only, unless another is given
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8101)]
    pub port: u16,
    /// User name of clients that give none
    #[arg(long, value_name = "NAME", default_value = "rmds")]
    pub user: String,
    /// Clients at a time, at most
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub clients: usize,
}

/// What a client's reader tells.
enum Heard {
    Joined(TcpStream),
    Line(String),
    /// The client is gone, or has written something that is no line: why.
    Left(&'static str),
}

/// Number of a client, and what was heard of it.
type News = (u64, Heard);

struct Client {
    peer: SocketAddr,
    /// `None` until its first line, which may name the user.
    session: Option<Session>,
    conn: Option<ConnId>,
    version: Version,
    /// To the thread that writes.
    to: SyncSender<Vec<u8>>,
}

struct Lines {
    args: Args,
    server: SocketAddr,
    dictionary: Arc<Dictionary>,
    clients: HashMap<u64, Client>,
    /// Whose a connection is.
    owners: HashMap<ConnId, u64>,
}

/// Serves until it is stopped.
///
/// # Errors
/// A text for the user: the server has no address, or the port cannot be listened on.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    run_until(args, &|| net::signal::stop_requested() > 0, |_| {})
}

/// Serves until `stop` says so; `ready` gets the address that was bound.
///
/// # Errors
/// A text for the user.
pub fn run_until(args: &Args, stop: &dyn Fn() -> bool, ready: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    let found = args.server.to_socket_addrs().map_err(|e| anyhow!("server {:?}: {e}; write HOST:PORT", args.server))?;
    let server = found.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| anyhow!("{:?} has no address", args.server))?;
    let at = SocketAddr::new(args.bind, args.port);
    let listener = TcpListener::bind(at).map_err(|e| anyhow!("cannot listen on {at}: {e}; choose another --port"))?;
    let bound = listener.local_addr()?;
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("no sockets: {e}"))?;
    let waker = io.tcp().waker();
    net::signal::wake(&waker);
    let (sender, news) = sync_channel(LINES_MAX);
    // The thread ends with the process: nothing wakes it from its wait for a client.
    std::thread::Builder::new().name("lines".to_owned()).spawn(move || accept(&listener, &sender, &waker))?;
    eprintln!("records of {server} are given on {bound} by lines (not SSL)");
    ready(bound);
    let dictionary = Arc::new(Dictionary::builtin());
    let mut lines = Lines { args: args.clone(), server, dictionary, clients: HashMap::new(), owners: HashMap::new() };
    while !stop() {
        let now = net::clock::now();
        let due = lines.clients.values().filter_map(|c| c.session.as_ref()?.consumer.timeout()).min();
        let wake = due.unwrap_or(u64::MAX).min(now + STOP_EVERY);
        let now = io.turn(Some(wake), &mut lines).map_err(|e| anyhow!("sockets: {e}"))?;
        lines.take_news(now, &news, &mut io);
        lines.work(now, &mut io);
    }
    Ok(())
}

impl Lines {
    fn take_news(&mut self, now: u64, news: &Receiver<News>, io: &mut RsslIo) {
        while let Ok((id, heard)) = news.try_recv() {
            match heard {
                Heard::Joined(stream) => self.join(id, stream),
                Heard::Line(line) => self.line(now, id, &line),
                Heard::Left(why) => self.leave(id, why, io),
            }
        }
    }

    fn join(&mut self, id: u64, stream: TcpStream) {
        let peer = match stream.peer_addr() {
            Ok(peer) => peer,
            Err(e) => return eprintln!("a client is not taken: {e}"),
        };
        if self.clients.len() >= self.args.clients {
            eprintln!("{peer} is not taken: there are {} clients (--clients)", self.clients.len());
            // The peer may have closed already.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        let (to, parts) = sync_channel(PARTS_MAX);
        match std::thread::Builder::new().spawn(move || write(stream, &parts)) {
            Ok(_) => {
                eprintln!("{peer} is up");
                self.clients.insert(id, Client { peer, session: None, conn: None, version: Version::V14, to });
            }
            Err(e) => eprintln!("{peer} is not taken: {e}"),
        }
    }

    fn line(&mut self, now: u64, id: u64, line: &str) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if let Some(session) = &mut client.session {
            return session.line(now, line);
        }
        let named = line.trim().strip_prefix("user ").map(str::trim);
        let user = named.unwrap_or(&self.args.user);
        let mut config = ConsumerConfig::new(ConnectionList::new(vec![Server::new("", 0)]), user);
        config.login.attributes.application_name = Some("marketfeed-lines".to_owned());
        config.login.attributes.position = Some(format!("{}/net", client.peer.ip()));
        config.items_max = ITEMS_MAX;
        let session = client.session.insert(Session::new(config, Arc::clone(&self.dictionary)));
        if named.is_none() {
            session.line(now, line);
        }
    }

    fn leave(&mut self, id: u64, why: &str, io: &mut RsslIo) {
        // Without its sender the thread that writes closes the socket, behind what waits.
        let Some(client) = self.clients.remove(&id) else { return };
        eprintln!("{} is gone: {why}", client.peer);
        if let Some(conn) = client.conn {
            self.owners.remove(&conn);
            io.close(conn, "the client of lines is gone", Close::Reset);
        }
    }

    /// Connects, sends and writes what there is, and ends clients that are over.
    fn work(&mut self, now: u64, io: &mut RsslIo) {
        let mut over = Vec::new();
        for (&id, client) in &mut self.clients {
            let Client { session: Some(session), conn, version, to, .. } = client else { continue };
            session.consumer.handle_timeout(now);
            session.hear_events();
            if conn.is_none() && session.consumer.poll_connect(now).is_some() {
                let config = ClientConfig { version: *version, ..ClientConfig::default() };
                match io.connect(now, self.server, &SocketOptions::default(), Arc::new(config), None) {
                    Ok(dialled) => {
                        *conn = Some(dialled);
                        self.owners.insert(dialled, id);
                    }
                    Err(_) => session.consumer.handle_disconnected(now),
                }
            }
            if let Some(conn) = *conn {
                io.send(now, conn, |packer| {
                    while let Some(msg) = session.consumer.poll_transmit() {
                        packer.push(msg, None);
                    }
                });
            }
            let written = std::mem::take(&mut session.out);
            match (written.is_empty(), session.is_over) {
                (true, false) => {}
                (true, true) => over.push((id, "it is over")),
                (false, is_over) => match to.try_send(written) {
                    Ok(()) if is_over => over.push((id, "it is over")),
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => over.push((id, "it does not read what it asked for")),
                    Err(TrySendError::Disconnected(_)) => over.push((id, "it takes nothing any more")),
                },
            }
        }
        for (id, why) in over {
            self.leave(id, why, io);
        }
    }

    fn session(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.clients.get_mut(self.owners.get(&conn)?)?.session.as_mut()
    }
}

impl Handler for Lines {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        if let Some(session) = self.session(conn) {
            session.consumer.handle_connected(now);
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if let Some(session) = self.session(conn) {
            session.hear(now, msg);
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        let Some(client) = self.owners.remove(&conn).and_then(|id| self.clients.get_mut(&id)) else { return };
        client.conn = None;
        client.version = ended.next_version.unwrap_or(Version::V14);
        if let Some(session) = &mut client.session {
            session.consumer.handle_disconnected(now);
            session.hear_events();
        }
    }
}

/// Takes clients; each has a thread that reads its lines.
fn accept(listener: &TcpListener, news: &SyncSender<News>, waker: &Waker) {
    for (id, stream) in listener.incoming().enumerate() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(e) => {
                eprintln!("a client is not taken: {e}");
                // Without descriptors the next one fares no better.
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let (news, waker) = (news.clone(), waker.clone());
        let spawned = std::thread::Builder::new().spawn(move || {
            let id = id as u64;
            let writing = match stream.try_clone() {
                Ok(writing) => writing,
                Err(e) => {
                    // The peer may have closed already.
                    let peer = stream.peer_addr().map_or_else(|_| "a client".to_owned(), |peer| peer.to_string());
                    return eprintln!("{peer} is not taken: {e}");
                }
            };
            let tell = |heard| {
                let is_heard = news.send((id, heard)).is_ok();
                waker.wake();
                is_heard
            };
            if !tell(Heard::Joined(writing)) {
                return;
            }
            let why = read(stream, |line| tell(Heard::Line(line)));
            tell(Heard::Left(why));
        });
        if let Err(e) = spawned {
            eprintln!("a client is not taken: {e}");
        }
    }
}

/// Reads lines until nobody takes them, or the client is done; says why.
fn read(stream: TcpStream, mut take: impl FnMut(String) -> bool) -> &'static str {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return "it has closed",
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX => return "a line is too long",
            Ok(_) => {
                if !take(String::from_utf8_lossy(&line).into_owned()) {
                    return "the server ends";
                }
            }
            Err(_) => return "its connection is lost",
        }
    }
}

/// Writes parts until there are no more, and ends the connection.
fn write(mut stream: TcpStream, parts: &Receiver<Vec<u8>>) {
    let patient = stream.set_write_timeout(Some(WRITE_PATIENCE));
    while let Ok(part) = parts.recv() {
        if patient.is_err() || stream.write_all(&part).is_err() {
            break;
        }
    }
    // The peer may have closed already.
    let _ = stream.shutdown(Shutdown::Both);
}
