//! Topic resolution with its sockets: by multicast, or through resolver daemons if any are named; and over TCP, if services are.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use lbm::options::{ContextOption as C, Opt, Options, OwnGroup, Port};
use lbm::resolver::service::InterestTold;
use lbm::resolver::unicast::DaemonLink;
use lbm::resolver::{Found, ResolveError, Resolver, ResolverConfig};
use lbm::wire::lbmr::{Advert, Body, Packet, PatternKind, Transport};
use lbm::wire::lbmr_option::{self, PacketOptions, SenderKind};
use lbm::wire::{Full, Writer};
use net::udp::{Slabs, UdpOptions, UdpSocket};

use crate::error::ContextError;
use crate::io::{self, Io, Watch};
use crate::services::Services;
use crate::{Warning, interface, random};

/// Calls that receive, a turn.
const RECEIVE_TURN: usize = 16;
/// Bytes of a packet of our own.
const SAID_MAX: usize = 1_400;

struct Multicast {
    receive: UdpSocket,
    send: UdpSocket,
}

struct DaemonLine {
    socket: UdpSocket,
    link: DaemonLink,
    alive: bool,
}

/// Input of topic resolution.
pub(crate) enum Received<'a> {
    /// A packet, before it is looked at.
    Packet(Packet<'a>),
    /// A source that a receiver looks for; the answer is whether it is known now.
    Found(Found<'a>),
}

/// See the module.
pub(crate) struct Resolution {
    pub(crate) resolver: Resolver,
    /// The options behind packets of our own.
    sender: [u8; lbmr_option::SENDER_LENGTH],
    multicast: Option<Multicast>,
    daemons: Vec<DaemonLine>,
    pub(crate) services: Option<Services>,
    /// By the resolver's handle of a source: the services'.
    told: Vec<u32>,
    slabs: Slabs,
    /// Packets that are none.
    pub(crate) malformed: u64,
}

impl Resolution {
    pub(crate) fn new(
        options: &Options,
        io: &mut Io,
        interface: Ipv4Addr,
        now: u64,
        (sender, domain): (SenderKind, u32),
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, ContextError> {
        let seed = random::bits();
        let config = options.resolver(seed.to_be_bytes(), seed.rotate_left(32));
        let mut resolution = Self {
            resolver: Resolver::new(ResolverConfig { sender, domain, ..config }),
            sender: lbmr_option::sender(seed.to_be_bytes(), sender, domain),
            multicast: None,
            daemons: Vec::new(),
            services: Services::open(options, seed.to_be_bytes(), sender == SenderKind::Router, now)?,
            told: Vec::new(),
            slabs: Slabs::new(8),
            malformed: 0,
        };
        if options.get(C::RESOLVER_DISABLE_UDP_TOPIC_RESOLUTION) {
            if resolution.services.is_none() {
                warnings.push(Warning::NoResolution);
            }
            return Ok(resolution);
        }
        for daemon in options.daemons() {
            let line = daemon_line(daemon, options, now)?;
            io.watch(line.socket.as_fd(), Watch::Daemon(resolution.daemons.len()))?;
            resolution.daemons.push(line);
        }
        if resolution.daemons.is_empty() {
            let multicast = Multicast::open(options, interface, warnings)?;
            io.watch(multicast.receive.as_fd(), Watch::Resolver)?;
            resolution.multicast = Some(multicast);
        }
        Ok(resolution)
    }

    /// Advertises a topic; returns a handle for [`Resolution::remove_source`].
    pub(crate) fn add_source(&mut self, now: u64, advert: &Advert<'_>) -> Result<u32, ResolveError> {
        let handle = self.resolver.add_source(now, advert)?;
        if let Some(services) = &mut self.services {
            let place = handle as usize;
            if self.told.len() <= place {
                self.told.resize(place + 1, u32::MAX);
            }
            self.told[place] = services.client.add_source(advert);
        }
        Ok(handle)
    }

    pub(crate) fn remove_source(&mut self, handle: u32) {
        self.resolver.remove_source(handle);
        if let (Some(services), Some(told)) = (&mut self.services, self.told.get(handle as usize)) {
            services.client.remove_source(*told);
        }
    }

    /// Looks for a topic, or with a kind of pattern for what matches; returns a handle for [`Resolution::remove_receiver`].
    pub(crate) fn add_receiver(
        &mut self,
        now: u64,
        topic: &str,
        pattern: Option<PatternKind>,
        token: u32,
    ) -> Result<u32, ResolveError> {
        let handle = match pattern {
            None => self.resolver.add_receiver(now, topic.as_bytes(), token)?,
            Some(kind) => self.resolver.add_wildcard(now, kind, topic, token)?,
        };
        match (&mut self.services, pattern) {
            (Some(services), None) => services.client.add_receiver(now, topic.as_bytes()),
            (Some(services), Some(_)) => services.client.add_pattern(now, topic),
            (None, _) => {}
        }
        Ok(handle)
    }

    pub(crate) fn remove_receiver(&mut self, handle: u32, is_wildcard: bool) {
        if let Some(services) = &mut self.services {
            if is_wildcard {
                if let Some(pattern) = self.resolver.wildcard_text(handle) {
                    services.client.remove_pattern(pattern);
                }
            } else if let Some(topic) = self.resolver.receiver_name(handle) {
                services.client.remove_receiver(topic);
            }
        }
        if is_wildcard {
            self.resolver.remove_wildcard(handle);
        } else {
            self.resolver.remove_receiver(handle);
        }
    }

    /// A session has ended: its sources are not known any more.
    pub(crate) fn forget(&mut self, now: u64, transport: &Transport) {
        self.resolver.forget(now, transport);
        if let Some(services) = &mut self.services {
            services.client.forget(now, transport);
        }
    }

    /// Records from services: sources are offered to receivers, and forgotten.
    pub(crate) fn take_told(&mut self, now: u64, mut found: impl FnMut(&Found<'_>) -> bool) {
        let Self { resolver, services: Some(services), .. } = self else { return };
        for ended in services.client.take_ended() {
            resolver.forget_source(&ended.topic, &ended.transport, ended.index);
        }
        services.client.offer_due(now, |advert| resolver.offer(advert, |f| found(&f)));
    }

    /// Topics that others look for, as services have told a router.
    pub(crate) fn take_heard(&mut self) -> Vec<InterestTold> {
        self.services.as_mut().map(|services| services.client.take_heard()).unwrap_or_default()
    }

    /// Packets have come by multicast, or from a daemon.
    pub(crate) fn receive(&mut self, now: u64, daemon: Option<usize>, mut heard: impl FnMut(&Received<'_>) -> bool) {
        let Self { resolver, multicast, daemons, slabs, malformed, .. } = self;
        let mut line = daemon.and_then(|index| daemons.get_mut(index));
        for _ in 0..RECEIVE_TURN {
            let socket = match (&mut line, &mut *multicast) {
                (Some(line), _) => &mut line.socket,
                (None, Some(multicast)) => &mut multicast.receive,
                (None, None) => return,
            };
            let Ok(received) = socket.recv(slabs) else { return };
            if received.is_empty() {
                return;
            }
            for datagram in received.iter().flat_map(|arrival| arrival.datagrams()) {
                let Ok(packet) = Packet::decode(datagram) else {
                    *malformed += 1;
                    continue;
                };
                if let Some(line) = &mut line {
                    line.link.heard(now);
                    if !std::mem::replace(&mut line.alive, true) {
                        // What was said before, nobody has passed on.
                        resolver.renew(now);
                    }
                }
                heard(&Received::Packet(packet));
                resolver.receive(now, &packet, |found| heard(&Received::Found(found)));
            }
        }
    }

    fn has_way(&self) -> bool {
        self.multicast.is_some() || self.daemons.iter().any(|line| line.alive)
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        let resolver = if self.has_way() { self.resolver.timeout() } else { None };
        let services = self.services.as_ref().and_then(|services| services.client.timeout());
        resolver.into_iter().chain(services).chain(self.daemons.iter().map(|line| line.link.timeout())).min()
    }

    /// Sends a packet of our own to those with whom topics are resolved. One that no way takes now is like a lost one.
    pub(crate) fn say(&mut self, body: Body<'_>) -> Result<(), Full> {
        let mut buffer = [0; SAID_MAX];
        let mut w = Writer::new(&mut buffer);
        let options = Some(PacketOptions::from_encoded(&self.sender));
        Packet { version: 1, body, options }.encode(&mut w)?;
        if let Some(socket) = self.way() {
            let _ = socket.send(None, w.written());
        }
        Ok(())
    }

    /// The socket by which others are reached.
    fn way(&mut self) -> Option<&mut UdpSocket> {
        match &mut self.multicast {
            Some(multicast) => Some(&mut multicast.send),
            None => self.daemons.iter_mut().find(|line| line.alive).map(|line| &mut line.socket),
        }
    }

    /// Advertises, asks, and tells daemons that we live.
    pub(crate) fn on_timer(&mut self, now: u64) {
        let has_sources = self.resolver.has_sources();
        for line in &mut self.daemons {
            line.link.set_sources(has_sources);
            if let Some(packet) = line.link.on_timer(now) {
                // A refused one is like a lost one.
                let _ = line.socket.send(None, &packet);
            }
            line.alive &= line.link.is_alive(now);
        }
        if !self.has_way() {
            return;
        }
        let Self { resolver, multicast, daemons, .. } = self;
        let socket = match multicast {
            Some(multicast) => &mut multicast.send,
            None => match daemons.iter_mut().find(|line| line.alive) {
                Some(line) => &mut line.socket,
                None => return,
            },
        };
        resolver.on_timer(now, |packet| {
            let _ = socket.send(None, packet);
        });
    }
}

impl Multicast {
    fn open(options: &Options, interface: Ipv4Addr, warnings: &mut Vec<Warning>) -> Result<Self, ContextError> {
        // The general option sets both directions unless they have their own.
        let (group, port) = (options.get(C::RESOLVER_MULTICAST_ADDRESS), options.get(C::RESOLVER_MULTICAST_PORT));
        let way = |own_group: Opt<OwnGroup>, own_port: Opt<Port>| {
            let own = Some(options.get(own_group)).filter(|own| options.is_set(own_group) && !own.is_unspecified());
            let own_port = Some(options.get(own_port)).filter(|own| options.is_set(own_port) && *own != 0);
            SocketAddrV4::new(own.unwrap_or(group), own_port.unwrap_or(port))
        };
        let incoming = way(C::RESOLVER_MULTICAST_INCOMING_ADDRESS, C::RESOLVER_MULTICAST_INCOMING_PORT);
        let outgoing = way(C::RESOLVER_MULTICAST_OUTGOING_ADDRESS, C::RESOLVER_MULTICAST_OUTGOING_PORT);
        let buffer = options.get(C::RESOLVER_MULTICAST_RECEIVER_SOCKET_BUFFER);
        let udp = UdpOptions {
            receive_buffer: Some(buffer).filter(|bytes| *bytes != 0),
            reuse_address: true,
            gro: false,
            multicast_interface: Some(interface),
            multicast_ttl: options.get(C::RESOLVER_MULTICAST_TTL) as u8,
            ..UdpOptions::default()
        };
        let receive = UdpSocket::bind(incoming, &udp).map_err(ContextError::io("topic resolution"))?;
        receive.join(*incoming.ip(), interface).map_err(ContextError::io("topic resolution"))?;
        Warning::buffers(warnings, C::RESOLVER_MULTICAST_RECEIVER_SOCKET_BUFFER, &receive, &udp);
        let sending = UdpOptions { receive_buffer: None, reuse_address: false, ..udp };
        let any = SocketAddrV4::new(interface, 0);
        let mut send = UdpSocket::bind(any, &sending).map_err(ContextError::io("topic resolution"))?;
        send.connect(outgoing).map_err(ContextError::io(format!("sending to group {outgoing}")))?;
        Ok(Self { receive, send })
    }
}

/// A daemon as it is written: `[Interface[:LocalPort]->]Address:Port`. The option's value was checked when it was set.
fn daemon_line(text: &str, options: &Options, now: u64) -> Result<DaemonLine, ContextError> {
    let bad =
        || ContextError::Unsupported(format!("resolver_unicast_daemon {text}: not [interface[:port]->]address:port"));
    let (local, remote) = match text.rsplit_once("->") {
        Some((local, remote)) => (Some(local), remote),
        None => (None, text),
    };
    let remote: SocketAddrV4 = remote.trim().parse().map_err(|_| bad())?;
    let mut pool = (options.get(C::RESOLVER_UNICAST_PORT_LOW), options.get(C::RESOLVER_UNICAST_PORT_HIGH));
    let mut own = options.clone();
    if let Some(local) = local {
        let (interface, port) = local.trim().split_once(':').map_or((local.trim(), None), |(i, p)| (i, Some(p)));
        if let Some(port) = port {
            let port = port.parse().map_err(|_| bad())?;
            pool = (port, port);
        }
        own.put(C::RESOLVER_UNICAST_INTERFACE, interface).map_err(|_| bad())?;
    }
    let interface = interface::unicast(&own, C::RESOLVER_UNICAST_INTERFACE)?;
    // A daemon on this host is reached by its own address, whichever interface leads to the others.
    let interface = if remote.ip().is_loopback() { Ipv4Addr::LOCALHOST } else { interface };
    let buffer = options.get(C::RESOLVER_UNICAST_RECEIVER_SOCKET_BUFFER);
    let udp = UdpOptions { receive_buffer: Some(buffer).filter(|b| *b != 0), gro: false, ..UdpOptions::default() };
    let mut socket = io::bind("a resolver daemon", C::RESOLVER_UNICAST_PORT_LOW, pool, interface, &udp)?;
    socket.connect(remote).map_err(ContextError::io(format!("resolver daemon {remote}")))?;
    let link = DaemonLink::new(
        options.get(C::RESOLVER_UNICAST_KEEPALIVE_INTERVAL),
        options.get(C::RESOLVER_UNICAST_ACTIVITY_TIMEOUT),
        now,
    );
    Ok(DaemonLine { socket, link, alive: false })
}
