//! Many consumers over RSSL in one thread: they connect, log in, ask, and leave, as fast as the server lets them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use measure::process::{Fault, stopped};
use net::clock::now;
use net::tcp::{Close, ConnId, SocketOptions};
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg, MsgClass, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::directory::Part;
use rwf::rdm::{directory, login};
use rwf::wire::Writer;
use rwf::{EncodeError, peek};

/// Consumers that are connecting or logging in at a time.
const COMING: usize = 500;
/// Connections from one address of this host: there are not many more ports.
const OF_AN_ADDRESS: usize = 20_000;
/// Longest time in which nothing moves.
const PATIENCE: Duration = Duration::from_mins(1);
/// Room for a message that is written.
const MESSAGE: usize = 2 << 20;
const DIRECTORY: i32 = 2;

/// The service of the source.
pub(crate) const SERVICE: &str = "DIRECT_FEED";

pub(crate) fn request(service: u16, name: &[u8], stream: i32) -> RequestMsg<'_> {
    RequestMsg {
        flags: RequestFlags::STREAMING,
        key: MsgKey { name_type: Some(1), ..MsgKey::item(service, name) },
        ..RequestMsg::new(Domain::MARKET_PRICE, stream)
    }
}

/// The consumers.
pub(crate) struct Swarm {
    io: RsslIo,
    server: SocketAddr,
    config: Arc<ClientConfig>,
    options: SocketOptions,
    crowd: Crowd,
    /// Connections so far, for names and addresses.
    dialled: usize,
    /// What all are: 0 for consumers, 1 for providers.
    role: u64,
    buffer: Vec<u8>,
}

/// What all of them have got.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    opened: Vec<ConnId>,
    /// Connections that are logged in.
    pub(crate) present: Vec<ConnId>,
    /// Images, updates, statuses.
    pub(crate) images: u64,
    /// See `images`.
    pub(crate) updates: u64,
    /// See `images`.
    pub(crate) statuses: u64,
    /// Bytes of the images' payloads.
    pub(crate) image_bytes: u64,
    /// Bytes of messages.
    pub(crate) bytes: u64,
    /// Connections that have ended.
    pub(crate) closed: usize,
    /// Why the last one has ended.
    pub(crate) why: String,
    /// Services by name, for those that have asked for the directory.
    pub(crate) services: BTreeMap<String, u16>,
    /// Services that are down, by their ids.
    pub(crate) down: BTreeSet<u16>,
}

impl Handler for Crowd {
    fn opened(&mut self, _now: u64, conn: ConnId, _opened: &Opened<'_>) {
        self.opened.push(conn);
    }

    fn message(&mut self, _now: u64, conn: ConnId, msg: &[u8]) {
        self.bytes += msg.len() as u64;
        let (Some(class), Ok(header)) = (peek::class(msg), peek::header(msg)) else { return };
        match (class, header.domain) {
            (MsgClass::REFRESH, Domain::LOGIN) => self.present.push(conn),
            (MsgClass::REFRESH | MsgClass::UPDATE, Domain::SOURCE) => self.note_services(msg),
            (MsgClass::REFRESH, _) => {
                self.images += 1;
                self.image_bytes += peek::body(msg).map_or(0, <[u8]>::len) as u64;
            }
            (MsgClass::UPDATE, _) => self.updates += 1,
            (MsgClass::STATUS, _) => self.statuses += 1,
            _ => {}
        }
    }

    fn closed(&mut self, _now: u64, conn: ConnId, ended: &Ended) {
        self.closed += 1;
        self.why = ended.why.to_string();
        self.present.retain(|&other| other != conn);
    }
}

impl Crowd {
    fn note_services(&mut self, msg: &[u8]) {
        let entries = match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => directory::Refresh::decode(&refresh).map(|refresh| refresh.services),
            Ok(Msg::Update(update)) => directory::Update::decode(&update).map(|update| update.services),
            _ => return,
        };
        for entry in entries.into_iter().flatten() {
            if let Some(name) = entry.name() {
                self.services.insert(name.to_owned(), entry.id);
            }
            match entry.state.as_ref().and_then(Part::value) {
                Some(state) if state.up => drop(self.down.remove(&entry.id)),
                Some(_) => drop(self.down.insert(entry.id)),
                None => {}
            }
        }
    }
}

impl Swarm {
    /// No consumers yet; `options` are of their sockets.
    ///
    /// # Errors
    /// The system refuses sockets.
    pub(crate) fn new(server: SocketAddr, options: SocketOptions) -> Result<Self, Fault> {
        let failed = |e: std::io::Error| Fault::Failed(format!("sockets for consumers: {e}"));
        Ok(Self {
            io: RsslIo::new(now()).map_err(failed)?,
            server,
            config: Arc::new(ClientConfig { ping_timeout_s: 255, ..ClientConfig::default() }),
            options,
            crowd: Crowd::default(),
            dialled: 0,
            role: 0,
            buffer: vec![0; MESSAGE],
        })
    }

    /// As [`Self::new`], for non-interactive providers.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn of_providers(server: SocketAddr) -> Result<Self, Fault> {
        Ok(Self { role: 1, ..Self::new(server, SocketOptions::default())? })
    }

    /// What they have got.
    pub(crate) fn crowd(&self) -> &Crowd {
        &self.crowd
    }

    /// Takes in what there is, for so long at most.
    ///
    /// # Errors
    /// The sockets are unusable, or the lab was stopped.
    pub(crate) fn turn(&mut self, wait: Duration) -> Result<(), Fault> {
        if stopped() {
            return Err(Fault::Stopped);
        }
        let deadline = now() + wait.as_nanos() as u64;
        let turned = self.io.turn(Some(deadline), &mut self.crowd);
        let at = turned.map_err(|e| Fault::Failed(format!("sockets of consumers: {e}")))?;
        for conn in std::mem::take(&mut self.crowd.opened) {
            // Each is a user, since a user has few mounts.
            let request =
                login::Request { name: format!("lab{}", conn.slot()), role: Some(self.role), ..Default::default() };
            self.write(at, conn, |w| request.encode(w))?;
        }
        Ok(())
    }

    /// Turns until `enough` is true of what they have got. Seconds that took.
    ///
    /// # Errors
    /// As [`Self::turn`], or nothing moves any more.
    pub(crate) fn until(&mut self, what: &str, enough: impl Fn(&Crowd) -> bool) -> Result<f64, Fault> {
        let (began, mut moved, mut seen) = (now(), now(), 0);
        while !enough(&self.crowd) {
            self.turn(Duration::from_millis(5))?;
            let Crowd { images, updates, statuses, present, services, down, .. } = &self.crowd;
            let got = *images + *updates + *statuses + (present.len() + services.len() + down.len()) as u64;
            if got != seen {
                (seen, moved) = (got, now());
            } else if now() - moved > PATIENCE.as_nanos() as u64 {
                return Err(Fault::Failed(format!("waiting for {what}: nothing comes any more; {:?}", self.summary())));
            }
        }
        Ok((now() - began) as f64 / 1e9)
    }

    fn summary(&self) -> String {
        let Crowd { present, images, updates, statuses, closed, why, down, .. } = &self.crowd;
        format!(
            "{} logged in, {images} images, {updates} updates, {statuses} statuses, {} services down, {closed} closed ({why})",
            present.len(),
            down.len()
        )
    }

    /// Has so many logged in, together with those that are. Seconds that took.
    ///
    /// # Errors
    /// As [`Self::until`].
    pub(crate) fn bring(&mut self, count: usize) -> Result<f64, Fault> {
        let began = now();
        let mut coming = 0;
        while self.crowd.present.len() < count {
            let (present, closed) = (self.crowd.present.len(), self.crowd.closed);
            while coming < COMING && present + coming < count {
                let part = (self.dialled / OF_AN_ADDRESS % 200) as u8;
                let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 1, part + 1)), 0);
                let options = SocketOptions { local: Some(from), ..self.options };
                let dialled = self.io.connect(now(), self.server, &options, Arc::clone(&self.config), None);
                dialled.map_err(|e| Fault::Failed(format!("connection {}: {e}", self.dialled)))?;
                self.dialled += 1;
                coming += 1;
            }
            self.turn(Duration::from_millis(5))?;
            if self.crowd.closed > closed {
                return Err(Fault::Failed(format!("a consumer was closed: {}", self.summary())));
            }
            coming -= (self.crowd.present.len() - present).min(coming);
        }
        Ok((now() - began) as f64 / 1e9)
    }

    /// All of them are gone at once, without a word.
    ///
    /// # Errors
    /// As [`Self::turn`].
    pub(crate) fn drop_all(&mut self) -> Result<(), Fault> {
        for conn in std::mem::take(&mut self.crowd.present) {
            self.io.close(conn, "gone", Close::Reset);
        }
        self.turn(Duration::ZERO)?;
        self.crowd.closed = 0;
        Ok(())
    }

    /// Stops reading what comes for one, or goes on; one that is gone may be named.
    pub(crate) fn set_reading(&mut self, conn: ConnId, reading: bool) {
        if self.crowd.present.contains(&conn) {
            self.io.set_reading(conn, reading);
        }
    }

    /// One of them asks for the directory, and waits until it knows a service. The id of that.
    ///
    /// # Errors
    /// As [`Self::until`].
    pub(crate) fn service(&mut self, name: &str) -> Result<u16, Fault> {
        let request = directory::Request {
            stream_id: DIRECTORY,
            streaming: true,
            service_id: None,
            filter: directory::filter::INFO | directory::filter::STATE,
        };
        self.say(|w| request.encode(w))?;
        self.until(name, |crowd| crowd.services.contains_key(name))?;
        Ok(self.crowd.services[name])
    }

    /// The first of them says something.
    ///
    /// # Errors
    /// There is none, or the message is too long.
    pub(crate) fn say(&mut self, encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<(), Fault> {
        let &conn = self.crowd.present.first().ok_or("no consumer is there")?;
        self.write(now(), conn, encode)
    }

    /// Turns until all that was said is with the kernel.
    ///
    /// # Errors
    /// As [`Self::turn`], or one that is spoken to takes nothing.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        let (mut left, mut moved) = (usize::MAX, now());
        loop {
            self.turn(Duration::ZERO)?;
            let waits = self.crowd.present.iter().map(|&conn| self.io.backlog(conn)).sum();
            match waits {
                0 => return Ok(()),
                waits if waits < left => (left, moved) = (waits, now()),
                _ if now() - moved > PATIENCE.as_nanos() as u64 => {
                    return Err(Fault::Failed(format!("{left} bytes are not taken: {}", self.summary())));
                }
                _ => self.turn(Duration::from_millis(5))?,
            }
        }
    }

    /// All of them say the same.
    ///
    /// # Errors
    /// The message is too long.
    pub(crate) fn say_all(&mut self, encode: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<(), Fault> {
        for conn in self.crowd.present.clone() {
            self.write(now(), conn, &encode)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        at: u64,
        conn: ConnId,
        encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), Fault> {
        let mut w = Writer::new(&mut self.buffer);
        encode(&mut w).map_err(|e| Fault::Failed(format!("a message of a consumer: {e}")))?;
        let message = w.into_written();
        self.io.send(at, conn, |packer| {
            packer.push(message, None);
        });
        Ok(())
    }
}
