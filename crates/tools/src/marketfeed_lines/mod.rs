//! `quoteway marketfeed-lines`: items as raw Marketfeed for programs that know no RSSL, by lines of text on a plain socket.
//!
//! Each client of lines is a consumer of its own at the server, with its own login: permissions, limits and the audit hold for it as for
//! any other. The protocol is ours (`docs/wire/marketfeed.md`); it is not SSL, whose wire format is not public.

mod session;

use crate::places::Places;
use anyhow::anyhow;
use clap::Args as ClapArgs;
use net::Waker;
use net::tcp::{Close, ConnId};
use omm::consumer::ConsumerConfig;
use omm::{ConnectionList, Server};
use omm_io::{Closed, Dialled};
use rssl_io::admission::RefusalLog;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::dictionary::Dictionary;
use session::Session;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A longer line is none, bytes.
const LINE_MAX: u64 = 1_024;
/// Lines of all clients that wait to be done.
const LINES_MAX: usize = 1_024;
/// Parts that wait to be written to a client; one that does not read them is cut off.
const PARTS_MAX: usize = 1_024;
/// Bytes that wait to be written to a client, with the same end.
const WAITING_MAX: usize = 64 << 20;
/// How long a client may take nothing.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that wait to be written to all clients; beyond, one with more than [`WAITING_FREE`] is cut off that is to get more.
const WAITING_ALL: usize = 64 << 20;
const WAITING_FREE: usize = 1 << 20;
/// Bytes of lines of a client that are done before the server has accepted its login; what follows is not read until then.
const LINES_BEFORE_LOGIN: usize = 64 << 10;
/// Items of one client, at most.
const ITEMS_MAX: usize = 100_000;
/// Why a place is taken from who makes no use of it.
const IDLE: &str = "no item with an image in time (--idle-timeout)";
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
    /// Where consumers connect to the P2PS; srv:_SERVICE._tcp.DOMAIN for what the DNS says (SRV)
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
    /// Clients of one address at a time, at most; 0: as many as there are places
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub clients_per_address: usize,
    /// Seconds within which a client has to write its first line
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub handshake_timeout: u32,
    /// Seconds that a client may be without an item that has an image, whatever it writes; then its place is another's
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub idle_timeout: u32,
}

/// What a client's reader tells.
enum Input {
    Joined(TcpStream, SocketAddr),
    Line(String),
    /// The client is gone, or has written something that is no line: why.
    Left(&'static str),
}

/// Number of a client, and what was heard of it.
type News = (u64, Input);

struct Client {
    peer: SocketAddr,
    /// `None` until its first line, which may name the user.
    session: Option<Session>,
    /// When its place is over without a line, and later without an item.
    place_until: u64,
    /// Images that it had been given when that was set last.
    images: u64,
    server: Dialled<Places>,
    /// To the thread that writes.
    to: SyncSender<Vec<u8>>,
    /// Bytes that wait there.
    waiting: Arc<AtomicUsize>,
    /// What the thread that reads waits for.
    gate: Arc<Gate>,
}

/// Holds a client's lines back that come before its login is accepted, beyond what may wait.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut is_open, true) {
            self.changed.notify_all();
        }
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(is_open, |is_open| !*is_open));
    }
}

impl Client {
    /// When there is something to do without news of it.
    fn timeout(&self) -> Option<u64> {
        let Some(session) = &self.session else { return Some(self.place_until) };
        let place = (!session.watches()).then_some(self.place_until);
        [session.consumer.timeout(), place].into_iter().flatten().min()
    }

    /// Counts the time that it holds a place without having an item; tells whether that is over.
    fn is_idle(&mut self, now: u64, borne: u64) -> bool {
        let Some(session) = &self.session else { return self.place_until <= now };
        if session.watches() || session.images > self.images {
            (self.images, self.place_until) = (session.images, now.saturating_add(borne));
        }
        self.place_until <= now
    }

    /// Gives the thread that writes a part, or says why the client is over. So much waits for all clients.
    fn write(&self, part: Vec<u8>, all: usize) -> Result<(), &'static str> {
        // Bytes added here are taken away when they are written: the order of other memory does not matter.
        let own = self.waiting.fetch_add(part.len(), Ordering::Relaxed);
        if own > WAITING_MAX || (own > WAITING_FREE && all > WAITING_ALL) {
            return Err("it does not read what it asked for");
        }
        self.to.try_send(part).map_err(|e| match e {
            TrySendError::Full(_) => "it does not read what it asked for",
            TrySendError::Disconnected(_) => "it takes nothing any more",
        })
    }
}

struct Lines {
    args: Args,
    server: Places,
    dictionary: Arc<Dictionary>,
    clients: HashMap<u64, Client>,
    /// Whose a connection is.
    owners: HashMap<ConnId, u64>,
    /// Where readers tell what they hear, for those of new clients.
    news: SyncSender<News>,
    waker: Waker,
    /// Which of those that are not taken have a line.
    refusals: RefusalLog,
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
    let server = Places::of(&args.server, "--server")?;
    let at = SocketAddr::new(args.bind, args.port);
    let listener = TcpListener::bind(at).map_err(|e| anyhow!("cannot listen on {at}: {e}; choose another --port"))?;
    let bound = listener.local_addr()?;
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("no sockets: {e}"))?;
    let waker = io.tcp().waker();
    net::signal::wake(&waker);
    let (sender, news) = sync_channel(LINES_MAX);
    // The thread ends with the process: nothing wakes it from its wait for a client.
    let (to_accept, wake_accept) = (sender.clone(), waker.clone());
    std::thread::Builder::new().name("lines".to_owned()).spawn(move || accept(&listener, &to_accept, &wake_accept))?;
    eprintln!("records of {server} are given on {bound} by lines (not SSL)");
    ready(bound);
    let dictionary = Arc::new(Dictionary::builtin());
    let mut lines = Lines {
        args: args.clone(),
        server,
        dictionary,
        clients: HashMap::new(),
        owners: HashMap::new(),
        news: sender,
        waker,
        refusals: RefusalLog::default(),
    };
    let mut more_news = false;
    while !stop() {
        let now = net::clock::now();
        let due = lines.clients.values().filter_map(Client::timeout).min();
        let wake = if more_news { now } else { due.unwrap_or(u64::MAX).min(now + STOP_EVERY) };
        let now = io.turn(Some(wake), &mut lines).map_err(|e| anyhow!("sockets: {e}"))?;
        more_news = lines.take_news(now, &news, &mut io);
        lines.work(now, &mut io);
        if let Some(unsaid) = lines.refusals.unsaid(now) {
            eprintln!("{unsaid}");
        }
    }
    Ok(())
}

impl Lines {
    /// Tells whether there may be more: those who write much do not keep the others from what is theirs.
    fn take_news(&mut self, now: u64, news: &Receiver<News>, io: &mut RsslIo) -> bool {
        for _ in 0..LINES_MAX {
            let Ok((id, heard)) = news.try_recv() else { return false };
            match heard {
                Input::Joined(stream, peer) => self.join(now, id, stream, peer),
                Input::Line(line) => self.line(now, id, &line),
                Input::Left(why) => self.leave(now, id, why, io),
            }
        }
        true
    }

    fn join(&mut self, now: u64, id: u64, stream: TcpStream, peer: SocketAddr) {
        let of_address = self.clients.values().filter(|client| client.peer.ip() == peer.ip()).count();
        let most = self.args.clients_per_address;
        if self.clients.len() >= self.args.clients {
            return self.refuse(now, peer, &format!("there are {} clients (--clients)", self.clients.len()));
        }
        if most > 0 && of_address >= most {
            let why = format!("there are {of_address} of its address (--clients-per-address)");
            return self.refuse(now, peer, &why);
        }
        let (to, parts) = sync_channel(PARTS_MAX);
        let (waiting, gate) = (Arc::default(), Arc::default());
        match self.start_threads(id, stream, parts, (Arc::clone(&waiting), Arc::clone(&gate))) {
            Ok(()) => {
                eprintln!("{peer} is up");
                let place_until = now + u64::from(self.args.handshake_timeout) * 1_000_000_000;
                let (server, session, images) = (Dialled::new(self.server.clone()), None, 0);
                let client = Client { peer, session, place_until, images, server, to, waiting, gate };
                self.clients.insert(id, client);
            }
            Err(e) => self.refuse(now, peer, &e.to_string()),
        }
    }

    /// Says that a peer has no place, or no longer one that it has made no use of.
    fn refuse(&mut self, now: u64, peer: SocketAddr, why: &str) {
        if self.refusals.may_say(now, peer.ip()) {
            eprintln!("{peer} is not taken: {why}");
        }
    }

    /// The threads of a client that is taken. They end with its socket, and with `parts`.
    fn start_threads(
        &self,
        id: u64,
        stream: TcpStream,
        parts: Receiver<Vec<u8>>,
        (waiting, gate): (Arc<AtomicUsize>, Arc<Gate>),
    ) -> std::io::Result<()> {
        let (reading, news, waker) = (stream.try_clone()?, self.news.clone(), self.waker.clone());
        std::thread::Builder::new().spawn(move || {
            let tell = |heard| {
                let is_heard = news.send((id, heard)).is_ok();
                waker.wake();
                is_heard
            };
            let mut bytes = 0_usize;
            let why = read(reading, |line| {
                bytes = bytes.saturating_add(line.len());
                if bytes > LINES_BEFORE_LOGIN {
                    gate.wait();
                }
                tell(Input::Line(line))
            });
            tell(Input::Left(why));
        })?;
        let closing = stream.try_clone()?;
        let spawned = std::thread::Builder::new().spawn(move || write(stream, &parts, &waiting));
        if spawned.is_err() {
            // The thread that reads ends with the connection. The peer may have closed already.
            let _ = closing.shutdown(Shutdown::Both);
        }
        spawned.map(drop)
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
        client.place_until = now + u64::from(self.args.idle_timeout) * 1_000_000_000;
        let session = client.session.insert(Session::new(config, Arc::clone(&self.dictionary)));
        if named.is_none() {
            session.line(now, line);
        }
    }

    fn leave(&mut self, now: u64, id: u64, why: &str, io: &mut RsslIo) {
        // Without its sender the thread that writes closes the socket, behind what waits.
        let Some(client) = self.clients.remove(&id) else { return };
        client.gate.open();
        if client.session.is_some() {
            eprintln!("{} is gone: {why}", client.peer);
        } else {
            self.refuse(now, client.peer, why);
        }
        if let Some(conn) = client.server.conn() {
            self.owners.remove(&conn);
            io.close(conn, "the client of lines is gone", Close::Reset);
        }
    }

    /// Connects, sends and writes what there is, and ends clients that are over.
    fn work(&mut self, now: u64, io: &mut RsslIo) {
        let mut over = Vec::new();
        let all = self.clients.values().map(|client| client.waiting.load(Ordering::Relaxed)).sum();
        let borne = u64::from(self.args.idle_timeout) * 1_000_000_000;
        for (&id, client) in &mut self.clients {
            let is_idle = client.is_idle(now, borne);
            if is_idle && client.session.is_none() {
                over.push((id, "no line in time (--handshake-timeout)"));
            }
            let Client { session: Some(session), server, gate, .. } = client else { continue };
            if is_idle && !session.is_over {
                session.end(IDLE);
            }
            if session.is_logged_in {
                gate.open();
            }
            let had = server.conn();
            // Without a socket for it the client waits, as for a server that is away: it is tried again in a while.
            let _ = server.connect(&mut session.consumer, now, io);
            if let Some(conn) = server.conn().filter(|conn| had != Some(*conn)) {
                self.owners.insert(conn, id);
            }
            session.take_events();
            server.send(&mut session.consumer, now, io);
            let (written, is_over) = (std::mem::take(&mut session.out), session.is_over);
            let given = if written.is_empty() { Ok(()) } else { client.write(written, all) };
            match given {
                Ok(()) if is_idle => over.push((id, IDLE)),
                Ok(()) if is_over => over.push((id, "it is over")),
                Ok(()) => {}
                Err(why) => over.push((id, why)),
            }
        }
        for (id, why) in over {
            self.leave(now, id, why, io);
        }
    }

    fn session(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.clients.get_mut(self.owners.get(&conn)?)?.session.as_mut()
    }
}

impl Handler for Lines {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        let client = self.owners.get(&conn).and_then(|id| self.clients.get_mut(id));
        if let Some(Client { session: Some(session), server, .. }) = client {
            server.opened(&mut session.consumer, now, conn);
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if let Some(session) = self.session(conn) {
            session.receive(now, msg);
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        let Some(client) = self.owners.remove(&conn).and_then(|id| self.clients.get_mut(&id)) else { return };
        if let Some(session) = &mut client.session
            && client.server.closed(&mut session.consumer, now, conn, ended) == Closed::Lost
        {
            session.take_events();
        }
    }
}

/// Tells of who connects. Whoever there is no place for costs no thread.
fn accept(listener: &TcpListener, news: &SyncSender<News>, waker: &Waker) {
    for id in 0.. {
        let heard = match listener.accept() {
            Ok((stream, peer)) => Input::Joined(stream, peer),
            Err(e) => {
                eprintln!("a client is not taken: {e}");
                // Without descriptors the next one fares no better.
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        if news.send((id, heard)).is_err() {
            return;
        }
        waker.wake();
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
fn write(mut stream: TcpStream, parts: &Receiver<Vec<u8>>, waiting: &AtomicUsize) {
    let patient = stream.set_write_timeout(Some(WRITE_PATIENCE));
    while let Ok(part) = parts.recv() {
        if patient.is_err() || stream.write_all(&part).is_err() {
            break;
        }
        waiting.fetch_sub(part.len(), Ordering::Relaxed);
    }
    // The peer may have closed already.
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_read_is_cut_off_by_bytes_too() {
        let (to, parts) = sync_channel(PARTS_MAX);
        let client = Client {
            server: Dialled::new(Places::of("127.0.0.1:14002", "--server").expect("an address")),
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
            session: None,
            place_until: 0,
            images: 0,
            to,
            waiting: Arc::default(),
            gate: Arc::default(),
        };
        let part = || vec![0; WAITING_MAX / 4 + 1];
        for _ in 0..4 {
            assert_eq!(client.write(part(), 0), Ok(()));
        }
        assert_eq!(client.write(part(), 0), Err("it does not read what it asked for"));
        // Written bytes wait no more.
        let first = parts.recv().expect("it waits");
        client.waiting.store(3 * first.len(), Ordering::Relaxed);
        assert_eq!(client.write(part(), 0), Ok(()));
        // Beside others that have much there is less for each.
        assert_eq!(client.write(part(), WAITING_ALL + 1), Err("it does not read what it asked for"));
        client.waiting.store(WAITING_FREE, Ordering::Relaxed);
        assert_eq!(client.write(part(), WAITING_ALL + 1), Ok(()));
    }

    #[test]
    fn lines_wait_before_a_gate_until_it_is_open() {
        let gate = Arc::new(Gate::default());
        let waiting = std::thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.wait()
        });
        gate.open();
        waiting.join().expect("it goes on");
        gate.wait();
    }
}
