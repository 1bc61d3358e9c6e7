//! The whole turn of the real server, for the sum of the stages to be compared with: `serve` in this process, its provider and its
//! clients on plain sockets that the bench drives.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use config::{Config, Route};
use rssl::{ClientConfig, Connection, ServerConfig, Sink};

use super::world::{Client, Source, Work};
use server::agents::server::Server;

/// Looks at sockets in which nothing moves before a world counts as stuck.
const IDLE_MAX: u32 = 2_000;

/// The server with its peers, everything open.
pub struct Total {
    server: Server,
    waker: net::Waker,
    provider: Peer,
    source: Source,
    clients: Vec<(Peer, Client)>,
}

/// One end of a session that is not the server's.
struct Peer {
    stream: TcpStream,
    rssl: Connection,
    out: Vec<u8>,
    room: Vec<u8>,
    /// Messages so far.
    messages: usize,
}

/// The result of a read.
#[derive(Default)]
struct Collected(Vec<Vec<u8>>);

impl Sink for Collected {
    fn message(&mut self, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }
}

/// Counts only.
struct Count<'a>(&'a mut usize);

impl Sink for Count<'_> {
    fn message(&mut self, _msg: &[u8]) {
        *self.0 += 1;
    }
}

/// Takes a message and a way to answer.
type Receive<'a> = &'a mut dyn FnMut(&[u8], &mut dyn FnMut(&[u8]));

impl Peer {
    fn new(stream: TcpStream, mut rssl: Connection) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut out = Vec::new();
        rssl.start(net::clock::now(), &mut out);
        Ok(Self { stream, rssl, out, room: vec![0; 1 << 18], messages: 0 })
    }

    /// Takes what is there and sends what is to be said; whether anything moved.
    fn pump(&mut self, receive: Receive<'_>) -> anyhow::Result<bool> {
        let now = net::clock::now();
        let mut busy = false;
        loop {
            match self.stream.read(&mut self.room) {
                Ok(0) => anyhow::bail!("the server closed a connection of the stages"),
                Ok(got) => {
                    busy = true;
                    let mut heard = Collected::default();
                    let read = self.rssl.receive(now, &self.room[..got], &mut self.out, &mut heard);
                    read.map_err(anyhow::Error::msg)?;
                    let mut packer = self.rssl.pack(now, &mut self.out);
                    for msg in heard.0 {
                        receive(&msg, &mut |reply| packer.push(reply, None));
                    }
                    packer.finish().map_err(anyhow::Error::msg)?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e.into()),
            }
        }
        match self.stream.write(&self.out) {
            Ok(n) => {
                busy |= n > 0;
                self.out.drain(..n);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
        Ok(busy)
    }

    /// Counts the messages that are there.
    fn drain(&mut self) -> anyhow::Result<()> {
        let now = net::clock::now();
        loop {
            match self.stream.read(&mut self.room) {
                Ok(got) if got > 0 => {
                    let mut count = Count(&mut self.messages);
                    let read = self.rssl.receive(now, &self.room[..got], &mut self.out, &mut count);
                    read.map_err(anyhow::Error::msg)?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Ok(_) => anyhow::bail!("the server closed a client of the stages"),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Total {
    /// Starts the server and opens every watchlist.
    ///
    /// # Errors
    /// A text: sockets are refused, or images do not come.
    pub fn open(work: &Work) -> anyhow::Result<Self> {
        let failed = |e: std::io::Error| anyhow::anyhow!("the stages' server: {e}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let at = listener.local_addr().map_err(failed)?;
        let mut config = Config::default();
        config.p2ps.interface = Ipv4Addr::LOCALHOST.to_string();
        config.p2ps.rssl_port = 0;
        config.source_distributor.interface.clone_from(&config.p2ps.interface);
        config.source_distributor.nip_port = 0;
        config.routes.push(Route { host_list: vec![at.to_string()], ..Route::default() });
        let mut server = Server::new(&config, 1).map_err(failed)?;
        let waker = server.io().tcp().waker();
        turn(&mut server, &waker)?;
        let (stream, _) = listener.accept().map_err(failed)?;
        let provider = Peer::new(stream, Connection::server(ServerConfig::default())).map_err(failed)?;
        let address = server.addresses().rssl;
        let mut total = Self { server, waker, provider, source: Source::new(work)?, clients: Vec::new() };
        total.connect(work, address).map_err(failed)?;
        total.fill(work.streams())?;
        Ok(total)
    }

    fn connect(&mut self, work: &Work, address: SocketAddr) -> std::io::Result<()> {
        for n in 0..work.mounts {
            let rssl = Connection::client(ClientConfig::default()).with_seed(u64::from(n));
            self.clients.push((Peer::new(TcpStream::connect(address)?, rssl)?, Client::new(work.watchlist(n))));
        }
        Ok(())
    }

    fn fill(&mut self, images: usize) -> anyhow::Result<()> {
        let mut begun = vec![false; self.clients.len()];
        let mut idle = 0;
        while self.clients.iter().map(|(_, client)| client.images).sum::<usize>() < images {
            turn(&mut self.server, &self.waker)?;
            let source = &mut self.source;
            let mut busy = self.provider.pump(&mut |msg, reply| source.receive(msg, reply))?;
            for ((peer, client), begun) in self.clients.iter_mut().zip(&mut begun) {
                if peer.rssl.is_connected() && !*begun {
                    *begun = true;
                    let mut packer = peer.rssl.pack(net::clock::now(), &mut peer.out);
                    client.begin(&mut |msg| packer.push(msg, None));
                    packer.finish().map_err(anyhow::Error::msg)?;
                }
                busy |= peer.pump(&mut |msg, reply| client.receive(msg, reply))?;
            }
            idle = if busy { 0 } else { idle + 1 };
            if idle > IDLE_MAX {
                let got: usize = self.clients.iter().map(|(_, client)| client.images).sum();
                anyhow::bail!("the stages' server gave {got} of {images} images");
            }
        }
        Ok(())
    }

    /// A batch of the provider through the server, in as many turns as it takes; only those are timed.
    ///
    /// # Errors
    /// Not everything comes out.
    pub fn round(&mut self, batch: usize, time: &mut dyn FnMut(&mut dyn FnMut())) -> anyhow::Result<()> {
        self.clients.iter_mut().for_each(|(peer, _)| peer.messages = 0);
        let Peer { stream, rssl, out, .. } = &mut self.provider;
        let mut packer = rssl.pack(net::clock::now(), out);
        let (_, deliveries) = self.source.updates(batch, |msg, stream| packer.push(msg, Some(stream)));
        packer.finish().map_err(anyhow::Error::msg)?;
        stream.write_all(out).map_err(|e| anyhow::anyhow!("the stages' provider: {e}"))?;
        out.clear();
        for again in 0..IDLE_MAX {
            if again > 0 {
                self.waker.wake();
            }
            let (server, mut result) = (&mut self.server, Ok(()));
            time(&mut || result = once(server));
            result?;
            let mut got = 0;
            for (peer, _) in &mut self.clients {
                peer.drain()?;
                got += peer.messages;
            }
            if got >= deliveries {
                return Ok(());
            }
        }
        Err(anyhow::anyhow!("the server did not deliver a whole turn"))
    }
}

/// A turn that does not wait.
fn turn(server: &mut Server, waker: &net::Waker) -> anyhow::Result<()> {
    waker.wake();
    once(server)
}

fn once(server: &mut Server) -> anyhow::Result<()> {
    let turns = std::cell::Cell::new(0);
    server.run(|| turns.replace(turns.get() + 1) > 0).map_err(anyhow::Error::msg)
}
