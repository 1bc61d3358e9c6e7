//! A Source Distributor that starts copies the images that another one holds, before it opens its ports.

use std::io;
use std::net::ToSocketAddrs as _;
use std::time::{Duration, Instant};

use config::Config;
use hub::distributor::Record;
use hub::stream::{Block, Event, HubError};
use net::dns::{self, ServiceName};
use net::tcp::{self, Close, RecvOutcome, Scratch, Tcp, TcpConfig};

use super::frames::{Frame, FrameError, FrameReader, Hello, Welcome};
use super::links::prove;
use super::trust::Trust;
use super::wire::Encryption;
use super::{LinkError, auth, socket_options};

/// Images of the first Source Distributor that is there and gives all of its own; each goes to `take`. What is wrong with others is a line of
/// the log, and nothing that keeps a process from starting.
///
/// # Errors
/// The hub's key, certificates or networks cannot be used.
pub fn copy(config: &Config, incarnation: u32, mut take: impl FnMut(&Record<'_>)) -> io::Result<()> {
    let c = &config.hub;
    let hosts = found(&config.source_distributor.cache_resiliency_hosts);
    let (trust, encryption) = (Trust::new(c)?, Encryption::client(c)?);
    let end = Instant::now() + Duration::from_secs(config.source_distributor.cache_resiliency_time_s.into());
    for host in &hosts {
        let nonce = trust.key.as_ref().map(|_| auth::nonce()).transpose()?;
        let name = format!("{} (starts)", net::host::name());
        let hello = Hello { incarnation, data: false, unpaced: false, copy: true, hub: c.name.clone(), name, nonce };
        let (begun, mut images) = (Instant::now(), 0_u64);
        let copied = from(host, &hello, (config, &trust, &encryption), end, |record| {
            images += 1;
            take(record);
        });
        match copied {
            Ok(()) => {
                let took = begun.elapsed().as_millis();
                tracing::info!("{images} images were copied from the Source Distributor at {host} in {took} ms");
                return Ok(());
            }
            Err(why) if images > 0 => {
                tracing::warn!("the copy of images from {host} has ended after {images} of them: {why}");
            }
            Err(why) => tracing::info!("no images are copied from {host}: {why}"),
        }
    }
    Ok(())
}

/// The hosts of a list, with the servers of services in it; a name that nobody knows is a line of the log.
fn found(list: &[String]) -> Vec<String> {
    let servers = |entry: &String| match ServiceName::of(entry) {
        None => vec![entry.clone()],
        Some(Err(e)) => {
            tracing::warn!("no images are copied: {e}");
            Vec::new()
        }
        Some(Ok(service)) => match dns::look_up(&service) {
            Ok(servers) => servers.draw(),
            Err(why) => {
                tracing::warn!("no images are copied from {service}: {why}");
                Vec::new()
            }
        },
    };
    list.iter().flat_map(servers).collect()
}

/// Why there is no copy, or no whole one.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    /// The socket.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The time is over.
    #[error("its time is over (cache_resiliency_time_s)")]
    Late,
    /// The connection has ended.
    #[error("{0}")]
    Closed(String),
}

impl From<FrameError> for CopyError {
    fn from(e: FrameError) -> Self {
        Self::Link(e.into())
    }
}

impl From<HubError> for CopyError {
    fn from(why: HubError) -> Self {
        Self::Link(LinkError::Block { what: "its images", why })
    }
}

/// Takes all that one Source Distributor has.
fn from(
    host: &str,
    hello: &Hello,
    (config, trust, encryption): (&Config, &Trust, &Encryption),
    end: Instant,
    mut take: impl FnMut(&Record<'_>),
) -> Result<(), CopyError> {
    let (mut addresses, options) = (host.to_socket_addrs()?, socket_options(&config.hub));
    let mut dial = |tcp: &mut Tcp| addresses.next().map(|addr| tcp.connect(addr, &options));
    let mut wire = encryption.connect(host).map_err(|e| CopyError::Closed(e.to_string()))?;
    let mut tcp = Tcp::new(TcpConfig::default())?;
    let mut conn = dial(&mut tcp).ok_or_else(|| io::Error::other("no address has this name"))??;
    let mut is_connected = false;
    let mut reader = FrameReader::new(trust.key.is_some());
    let (mut events, mut scratch, mut cipher, mut out) = (Vec::new(), Scratch::default(), Vec::new(), Vec::new());
    // With a key the first greeting is its challenge.
    let mut stage = if trust.key.is_some() { Stage::Proving } else { Stage::Greeting };
    while stage != Stage::Done {
        let left = end.checked_duration_since(Instant::now()).ok_or(CopyError::Late)?;
        events.clear();
        tcp.poll(Some(left), &mut events)?;
        for event in events.drain(..) {
            match event {
                tcp::Event::Connected { .. } => {
                    is_connected = true;
                    out.clear();
                    hello.write(&mut out);
                    wire.send(&out, (&mut tcp, conn, &mut cipher));
                }
                // The Source Distributor's name may have further addresses.
                tcp::Event::Closed { why, .. } => match dial(&mut tcp).filter(|_| !is_connected) {
                    Some(next) => conn = next?,
                    None => return Err(CopyError::Closed(why.to_string())),
                },
                tcp::Event::Readable { .. } => {
                    let RecvOutcome::Data(bytes) = tcp.recv(conn, &mut scratch) else { continue };
                    let mut read: Result<(), CopyError> = Ok(());
                    out.clear();
                    let opened = wire.receive(bytes, (&mut tcp, conn, &mut cipher), |bytes| {
                        if read.is_ok() {
                            let each = |frame: Frame<'_>| stage.frame(&frame, (trust, hello), &mut out, &mut take);
                            read = reader.read(bytes, each);
                        }
                    });
                    opened.map_err(|e| CopyError::Closed(e.to_string()))?;
                    read?;
                    if !out.is_empty() {
                        wire.send(&out, (&mut tcp, conn, &mut cipher));
                    }
                }
                _ => {}
            }
        }
    }
    tcp.close(conn, Close::Now);
    Ok(())
}

/// The frame that is to come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The challenge of a hub with a key.
    Proving,
    /// The welcome.
    Greeting,
    /// Images.
    Images,
    /// Nothing.
    Done,
}

impl Stage {
    fn frame(
        &mut self,
        frame: &Frame<'_>,
        (trust, hello): (&Trust, &Hello),
        out: &mut Vec<u8>,
        take: &mut impl FnMut(&Record<'_>),
    ) -> Result<(), CopyError> {
        match (frame, &self) {
            (Frame::Greeting(bytes), Self::Proving | Self::Greeting) => {
                // A peer that refuses says so whatever is due.
                if let Welcome::Refused(why) = Welcome::read(bytes)? {
                    return Err(LinkError::Refused(why).into());
                }
                if *self == Self::Proving {
                    prove(trust, hello, bytes)?.write(out);
                    *self = Self::Greeting;
                } else {
                    *self = Self::Images;
                }
                Ok(())
            }
            (Frame::Block(block), Self::Images) => {
                if records(block, take)? {
                    *self = Self::Done;
                }
                Ok(())
            }
            _ => Err(FrameError::OutOfTurn.into()),
        }
    }
}

/// Takes the images of a block; true if no more follow.
fn records(block: &[u8], take: &mut impl FnMut(&Record<'_>)) -> Result<bool, CopyError> {
    for message in Block::parse(block)?.messages() {
        match Event::decode(&message?)? {
            Event::Record { service, key, age, parts } => take(&Record { service, key, parts, age }),
            Event::Leaving { .. } => return Ok(true),
            // Later versions may say more.
            _ => {}
        }
    }
    Ok(false)
}
