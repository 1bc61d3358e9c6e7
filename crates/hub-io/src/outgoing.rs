//! The data stream of a Source Distributor over LBM or Aeron: each block is a message of the hub's topic, sent at once.
//!
//! Where the carrier would block (a rate limit, a full socket, receivers that pace), blocks wait here in order, up to a bound; at half
//! of it the providers' sockets are not read any more until it has halved again. Nothing is dropped for that.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use config::{Config, HubTransport};
use hub::stream::parts;
use lbm_io::{Context, Delivery, Events, SendError, SendFlags, SourceId, Sources, Transport};

use super::{aeron, options};

/// Longest message; longer blocks are cut.
const CUT: usize = 512 << 10;

/// The sending end. See the module's description.
pub(crate) struct Outgoing {
    carrier: Carrier,
    waiting: VecDeque<Box<[u8]>>,
    waiting_bytes: usize,
    limit: usize,
    /// Providers are to wait.
    congested: bool,
    /// Times that the carrier would have blocked.
    pub(crate) blocked: u64,
    /// Times that providers had to wait for that.
    pub(crate) congestions: u64,
}

enum Carrier {
    Lbm(Box<Context>, SourceId),
    Aeron { publication: Box<aeron_io::Publication>, hub: String },
}

/// The fate of a block.
enum Sent {
    Gone,
    WouldBlock,
}

impl Carrier {
    fn new(config: &Config) -> io::Result<Self> {
        let c = &config.hub;
        if c.transport == HubTransport::Aeron {
            let publication = aeron_io::Publication::new(aeron::settings(config)?).map_err(aeron::failed)?;
            return Ok(Self::Aeron { publication: Box::new(publication), hub: c.name.clone() });
        }
        let options = options::of(c)?;
        let mut context = Context::new(&options).map_err(options::failed)?;
        let source = context.source(&options::topic_sent(c), &options).map_err(options::failed)?;
        options::log_warnings(&mut context);
        Ok(Self::Lbm(Box::new(context), source))
    }

    /// Sends a block if that needs no waiting. One that cannot be sent is gone: positions tell every P2PS that something is missing.
    #[inline]
    fn send(&mut self, block: &[u8]) -> Sent {
        match self {
            Self::Lbm(context, source) => match context.send(*source, block, SendFlags::FLUSH | SendFlags::NONBLOCK) {
                Ok(_) => return Sent::Gone,
                Err(SendError::WouldBlock) => return Sent::WouldBlock,
                Err(e) => tracing::error!("a block of the hub stream cannot be sent: {e}"),
            },
            Self::Aeron { publication, .. } => match publication.offer(block) {
                // Nobody subscribes: as with LBM, it is sent to nobody.
                aeron_io::Offer::Taken | aeron_io::Offer::Unheard => {}
                aeron_io::Offer::Full => return Sent::WouldBlock,
                aeron_io::Offer::TooLong => {
                    tracing::error!(
                        "a block of the hub stream cannot be sent: {} bytes are over an eighth of aeron.term_bytes",
                        block.len()
                    );
                }
            },
        }
        Sent::Gone
    }
}

impl Outgoing {
    /// The source of a hub's topic.
    ///
    /// # Errors
    /// The LBM options are wrong, the operating system refuses a socket, or Aeron is not built in.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            carrier: Carrier::new(config)?,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            limit: config.hub.max_backlog as usize / 2,
            congested: false,
            blocked: 0,
            congestions: 0,
        })
    }

    /// Descriptors for the owner's set. Aeron has none: its turns come by [`Outgoing::timeout`].
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.carrier {
            Carrier::Lbm(context, _) => Some(context.as_fd()),
            Carrier::Aeron { .. } => None,
        }
    }

    /// An address by which other hosts reach this one: that from which the stream is sent, if it is one of a network.
    pub(crate) fn address(&mut self) -> Option<IpAddr> {
        let Carrier::Lbm(context, source) = &mut self.carrier else { return None };
        let address = match *context.sources().transport(*source)? {
            Transport::Lbtrm { source, .. } => source,
            Transport::Lbtru { address, .. } | Transport::Tcp { address, .. } => address,
            _ => return None,
        };
        (address != Ipv4Addr::UNSPECIFIED).then_some(IpAddr::V4(address))
    }

    /// The transport session of the stream, as text; Aeron's is another one whenever its driver is.
    pub(crate) fn session(&mut self) -> Option<String> {
        match &mut self.carrier {
            Carrier::Lbm(context, source) => context.sources().transport(*source).map(ToString::to_string),
            Carrier::Aeron { publication, hub } => Some(aeron::session(hub, publication.session()?)),
        }
    }

    /// When [`Outgoing::turn`] wants to be called though the descriptor is quiet.
    pub(crate) fn timeout(&mut self) -> Option<u64> {
        match &mut self.carrier {
            Carrier::Lbm(context, _) => context.timeout(),
            Carrier::Aeron { publication, .. } => Some(publication.timeout()),
        }
    }

    /// Aeron's counters.
    pub(crate) fn aeron(&self) -> Option<aeron::Counters> {
        match &self.carrier {
            Carrier::Lbm(..) => None,
            Carrier::Aeron { publication, .. } => Some(publication.counters().into()),
        }
    }

    /// True while providers are to wait.
    pub(crate) fn is_congested(&self) -> bool {
        self.congested
    }

    /// Bytes that wait to be sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Answers NAKs, and sends what waits.
    pub(crate) fn turn(&mut self, now: u64) -> io::Result<()> {
        match &mut self.carrier {
            Carrier::Lbm(context, _) => {
                context.poll(Some(Duration::ZERO), &mut Nothing)?;
            }
            Carrier::Aeron { publication, .. } => {
                publication.turn(now);
                for warning in publication.warnings() {
                    tracing::warn!("{warning}");
                }
            }
        }
        while let Some(block) = self.waiting.front() {
            if matches!(self.carrier.send(block), Sent::WouldBlock) {
                break;
            }
            self.waiting_bytes -= block.len();
            self.waiting.pop_front();
        }
        self.judge();
        Ok(())
    }

    /// Sends a block to all receivers.
    pub(crate) fn publish(&mut self, block: &[u8]) {
        for part in parts(block, CUT) {
            if self.waiting.is_empty() {
                match self.carrier.send(&part) {
                    Sent::Gone => continue,
                    Sent::WouldBlock => self.blocked += 1,
                }
            }
            self.waiting_bytes += part.len();
            self.waiting.push_back(part.into());
        }
        self.judge();
    }

    fn judge(&mut self) {
        let congested = self.waiting_bytes > if self.congested { self.limit / 2 } else { self.limit };
        if congested != self.congested {
            self.congested = congested;
            if congested {
                self.congestions += 1;
                tracing::warn!(
                    "{} bytes of the hub stream are waiting to be sent: providers have to wait",
                    self.waiting_bytes
                );
            } else {
                tracing::info!("the hub stream flows again");
            }
        }
    }
}

struct Nothing;

impl Events for Nothing {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

/// An address of this host that is none of the loopback, for others to connect to.
pub(crate) fn public_address(listening: SocketAddr, sending: Option<IpAddr>) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let host = || {
        let found = net::interfaces::interfaces().ok()?.into_iter().find(|i| !i.loopback);
        found.map(|i| IpAddr::V4(i.address))
    };
    let ip = sending.or_else(host).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    SocketAddr::new(ip, listening.port())
}
