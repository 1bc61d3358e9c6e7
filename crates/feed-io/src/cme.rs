//! A channel of CME MDP 3.0 on sockets: the groups of the exchange's configuration file. Those of definitions and snapshots are joined while they are
//! wanted, and left.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use feed::replay::venue::live::{CmeChannelFile, CmeConfig, CmeFeed, CmeFeedType, CmeSchema, CmeWay};
use net::tcp::{Event, Tcp, TcpConfig};
use net::udp::{Slabs, UdpOptions, UdpSocket};

use crate::site::SiteArgs;
use crate::source::{Intake, Report, Source, clock, run_timers};

/// Before the path of the configuration file.
const WORD: &str = "cme:";
const PROTOCOL: &str = "CME MDP 3.0";
/// Configuration files are some megabytes; a longer one is none.
const LONGEST: u64 = 64 << 20;

/// Whether a text names a channel of CME, not a file that is played.
pub fn is_cme_site(text: &str) -> bool {
    text.starts_with(WORD)
}

/// A group of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    way: CmeWay,
    at: SocketAddrV4,
    interface: Ipv4Addr,
}

/// A channel's place in the network.
pub struct CmePlace {
    /// How it is taken.
    pub config: CmeConfig,
    groups: Vec<Group>,
    schema: CmeSchema,
    options: UdpOptions,
    /// The channel for people.
    name: String,
}

/// A group that is joined.
struct Joined {
    group: Group,
    udp: UdpSocket,
    is_ready: bool,
    dropped: u64,
}

/// A channel as a source. Its sockets are looked at whenever it is asked to go on.
pub type CmeSource = Source<CmeSockets>;

/// A channel with its sockets.
pub struct CmeSockets {
    feed: CmeFeed,
    site: String,
    tcp: Tcp,
    groups: Vec<Group>,
    options: UdpOptions,
    /// By place among the groups.
    joined: Vec<Option<Joined>>,
    slabs: Slabs,
    events: Vec<Event>,
    /// Datagrams that found a buffer full, of groups that were left.
    dropped: u64,
    /// Something was read, of which there may be more.
    has_read: bool,
    trouble: Option<String>,
}

impl CmePlace {
    /// Reads the configuration file that the user names, and the schema.
    ///
    /// # Errors
    /// A text for the user.
    pub fn parse(text: &str, args: &SiteArgs, schema: Option<&Path>, suffix: Option<String>) -> anyhow::Result<Self> {
        let fault = |e: anyhow::Error| anyhow!("{text}: {e}");
        let file = Path::new(text.strip_prefix(WORD).unwrap_or(text));
        args.refuse_for_cme(text)?;
        let schema =
            schema.ok_or_else(|| fault(anyhow!("CME's schema is wanted: --schema templates_FixBinary.xml")))?;
        let length = std::fs::metadata(file).map_err(|e| anyhow!("{}: {e}", file.display()))?.len();
        if length > LONGEST {
            return Err(anyhow!("{} is of {length} bytes: no configuration (config.xml)", file.display()));
        }
        let content = std::fs::read_to_string(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        let channels = CmeChannelFile::read(&content).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        let known = || channels.iter().map(|channel| channel.id.as_str()).collect::<Vec<_>>().join(", ");
        let channel = match (&args.channel, &channels[..]) {
            (None, [only]) => only,
            (None, _) => return Err(fault(anyhow!("it has the channels {}: which one, --channel", known()))),
            (Some(id), all) => all
                .iter()
                .find(|channel| channel.id == *id)
                .ok_or_else(|| fault(anyhow!("there is no channel {id} in it, but {}", known())))?,
        };
        let interface = |line: u8| {
            let all = &args.line_interface;
            all.get(usize::from(line)).or(all.first()).copied().unwrap_or(Ipv4Addr::UNSPECIFIED)
        };
        if args.line_interface.len() > 2 {
            return Err(fault(anyhow!("--line-interface: one address for all, or one of line A and one of line B")));
        }
        let mut groups = Vec::new();
        for feed_type in
            [CmeFeedType::Incremental, CmeFeedType::Definitions, CmeFeedType::Snapshot, CmeFeedType::OrderSnapshot]
        {
            groups.extend(channel.groups(feed_type).map(|(line, at)| {
                let way = match feed_type {
                    CmeFeedType::Incremental => CmeWay::Line(line),
                    CmeFeedType::Definitions => CmeWay::Definitions,
                    _ => CmeWay::Snapshots,
                };
                Group { way, at, interface: interface(line) }
            }));
            if !matches!(feed_type, CmeFeedType::OrderSnapshot) && channel.groups(feed_type).next().is_none() {
                return Err(fault(anyhow!("channel {} has no group of its {feed_type:?} feed", channel.id)));
            }
        }
        let has_orders = channel.groups(CmeFeedType::OrderSnapshot).next().is_some();
        Ok(Self {
            config: CmeConfig { suffix, symbology: None, has_orders },
            groups,
            schema: CmeFeed::schema(schema)?,
            options: UdpOptions {
                receive_buffer: Some(args.receive_buffer),
                reuse_address: true,
                ..UdpOptions::default()
            },
            name: format!("channel {} {}", channel.id, channel.label),
        })
    }
}

impl Source<CmeSockets> {
    /// Joins the lines, and what else is wanted at the start. `report` is told how the channel stands each second, and `progress` what is less than was wanted.
    ///
    /// # Errors
    /// A text for the user: a socket cannot be had, or a group not be joined.
    pub fn open(
        place: CmePlace,
        text: &str,
        report: Option<Report>,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let fault = |e: std::io::Error| anyhow!("{text}: {e}");
        let CmePlace { config, groups, schema, options, name } = place;
        let site = format!("{text} {name}");
        let mut new = CmeSockets {
            feed: CmeFeed::new(schema, &config),
            site: site.clone(),
            tcp: Tcp::new(TcpConfig::default()).map_err(fault)?,
            joined: groups.iter().map(|_| None).collect(),
            groups,
            options,
            slabs: Slabs::default(),
            events: Vec::new(),
            dropped: 0,
            has_read: false,
            trouble: None,
        };
        for at in 0..new.groups.len() {
            if new.is_wanted(new.groups[at].way) {
                new.join(at).map_err(fault)?;
            }
        }
        let lines = new.joined.iter().flatten().filter(|joined| matches!(joined.group.way, CmeWay::Line(_)));
        for joined in lines {
            let shortage = joined.udp.granted(&new.options).map_err(fault)?.to_string();
            if !shortage.is_empty() {
                progress(&format!("{}: {shortage}", joined.group.at));
            }
        }
        Ok(Source::new(new, &site, report))
    }
}

impl CmeSockets {
    fn is_wanted(&self, way: CmeWay) -> bool {
        match way {
            CmeWay::Line(_) => true,
            CmeWay::Definitions => self.feed.wants_definitions(),
            CmeWay::Snapshots => self.feed.wants_snapshots(),
        }
    }

    fn join(&mut self, at: usize) -> std::io::Result<()> {
        let group = self.groups[at];
        let udp = UdpSocket::bind(group.at, &self.options)?;
        udp.join(*group.at.ip(), group.interface)?;
        self.tcp.watch(udp.as_fd(), at as u32)?;
        self.joined[at] = Some(Joined { group, udp, is_ready: true, dropped: 0 });
        Ok(())
    }

    /// Joins and leaves, so that what comes is what is wanted.
    fn settle(&mut self) {
        for at in 0..self.groups.len() {
            let is_wanted = self.is_wanted(self.groups[at].way);
            match (&self.joined[at], is_wanted) {
                (None, true) => {
                    if let Err(error) = self.join(at) {
                        self.trouble = Some(format!("{}: {error}", self.groups[at].at));
                    }
                }
                (Some(joined), false) => {
                    // A descriptor that is closed is watched no more in any case.
                    let _was_watched = self.tcp.unwatch(joined.udp.as_fd());
                    self.dropped += joined.dropped;
                    self.joined[at] = None;
                }
                _ => {}
            }
        }
    }

    fn receive(&mut self, at: usize) {
        let Self { joined, slabs, feed, site, trouble, has_read, .. } = self;
        let Some(joined) = &mut joined[at] else { return };
        if !std::mem::take(&mut joined.is_ready) {
            return;
        }
        match joined.udp.recv(slabs) {
            Ok(received) => {
                for arrival in &received {
                    let clock = clock();
                    arrival.datagrams().for_each(|datagram| feed.packet(joined.group.way, datagram, clock));
                }
                *has_read |= !received.is_empty();
            }
            Err(error) => *trouble = Some(format!("{}: {error}", joined.group.at)),
        }
        let dropped = joined.udp.drops();
        if dropped > joined.dropped {
            let (more, group) = (dropped - joined.dropped, joined.group.at);
            tracing::warn!("{site}: {more} datagrams of {group} found the receive buffer full (--receive-buffer)");
            joined.dropped = dropped;
        }
    }
}

impl Intake for CmeSockets {
    type Feed = CmeFeed;

    fn feed(&self) -> &CmeFeed {
        &self.feed
    }

    fn feed_mut(&mut self) -> &mut CmeFeed {
        &mut self.feed
    }

    fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    fn protocol(&self) -> String {
        PROTOCOL.to_owned()
    }

    fn take_in(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.events);
        if let Err(error) = self.tcp.poll(Some(Duration::ZERO), &mut events) {
            self.trouble = Some(error.to_string());
        }
        self.has_read = false;
        for event in &events {
            if let Event::Ready { token } = *event
                && let Some(Some(joined)) = self.joined.get_mut(token as usize)
            {
                joined.is_ready = true;
            }
        }
        self.events = events;
        for at in 0..self.joined.len() {
            self.receive(at);
        }
        run_timers(self, |_| {});
        self.settle();
        self.has_read
    }

    fn look_again(&mut self) {
        self.joined.iter_mut().flatten().for_each(|joined| joined.is_ready = true);
    }

    fn dropped(&self) -> u64 {
        self.dropped + self.joined.iter().flatten().map(|joined| joined.dropped).sum::<u64>()
    }

    fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}
