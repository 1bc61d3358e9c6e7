//! The data stream of a Source Distributor over LBM: each block is a message of the hub's topic, sent at once.
//!
//! Where LBM would block (a rate limit, a full socket, receivers that pace), blocks wait here in order, up to a bound; at half
//! of it the providers' sockets are not read any more until it has halved again. Nothing is dropped for that.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hub::stream::parts;
use lbm_io::{Context, Delivery, Events, SendError, SendFlags, SourceId, Sources, Transport};

use super::options;
use crate::config;

/// Longest message; longer blocks are cut.
const CUT: usize = 512 << 10;

/// The sending end. See the module's description.
pub(super) struct Outgoing {
    context: Context,
    source: SourceId,
    waiting: VecDeque<Box<[u8]>>,
    waiting_bytes: usize,
    limit: usize,
    /// Providers are to wait.
    congested: bool,
    /// Times that LBM would have blocked.
    pub(super) blocked: u64,
    /// Times that providers had to wait for that.
    pub(super) congestions: u64,
}

impl Outgoing {
    /// The source of a hub's topic.
    ///
    /// # Errors
    /// The LBM options are wrong, or the operating system refuses a socket.
    pub(super) fn new(config: &config::Hub) -> io::Result<Self> {
        let options = options::of(config)?;
        let mut context = Context::new(&options).map_err(options::failed)?;
        let source = context.source(&options::topic_sent(config), &options).map_err(options::failed)?;
        options::log_warnings(&mut context);
        Ok(Self {
            context,
            source,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            limit: config.max_backlog as usize / 2,
            congested: false,
            blocked: 0,
            congestions: 0,
        })
    }

    /// What the owner's set watches.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// An address by which other hosts reach this one: that from which the stream is sent, if it is one of a network.
    pub(super) fn address(&mut self) -> Option<IpAddr> {
        let source = self.source;
        let address = match *self.context.sources().transport(source)? {
            Transport::Lbtrm { source, .. } => source,
            Transport::Lbtru { address, .. } | Transport::Tcp { address, .. } => address,
            _ => return None,
        };
        (address != Ipv4Addr::UNSPECIFIED).then_some(IpAddr::V4(address))
    }

    /// The transport session of the stream, as text.
    pub(super) fn session(&mut self) -> Option<String> {
        let source = self.source;
        self.context.sources().transport(source).map(ToString::to_string)
    }

    /// When [`Outgoing::turn`] wants to be called though the descriptor is quiet.
    pub(super) fn timeout(&mut self) -> Option<u64> {
        self.context.timeout()
    }

    /// True while providers are to wait.
    pub(super) fn is_congested(&self) -> bool {
        self.congested
    }

    /// Bytes that wait to be sent.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Answers NAKs, and sends what waits.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        self.context.poll(Some(Duration::ZERO), &mut Nothing)?;
        while let Some(block) = self.waiting.front() {
            if self.context.send(self.source, block, SendFlags::FLUSH | SendFlags::NONBLOCK)
                == Err(SendError::WouldBlock)
            {
                break;
            }
            self.waiting_bytes -= block.len();
            self.waiting.pop_front();
        }
        self.judge();
        Ok(())
    }

    /// Sends a block to all receivers.
    pub(super) fn publish(&mut self, block: &[u8]) {
        for part in parts(block, CUT) {
            if self.waiting.is_empty() {
                match self.context.send(self.source, &part, SendFlags::FLUSH | SendFlags::NONBLOCK) {
                    Ok(_) => continue,
                    Err(SendError::WouldBlock) => self.blocked += 1,
                    Err(e) => {
                        // Positions tell every P2PS that something is missing.
                        tracing::error!("a block of the hub stream cannot be sent: {e}");
                        continue;
                    }
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
pub(super) fn public_address(listening: SocketAddr, sending: Option<IpAddr>) -> SocketAddr {
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
