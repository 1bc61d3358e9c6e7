//! Counts of what a context has done.

use lbm::resolver::ResolverStats;
use lbm::resolver::service::{Client, ClientStats, Standing};
use lbm::topic::{SessionStats, SourceStats};
use lbm::transport::{ReceiverStats, SenderStats};
use lbm::wire::lbmr::Transport;

use crate::failover::FailoverStats;
use crate::handles::{ReceiverId, SourceId};
use crate::inbound::Inbound;
use crate::resolution::Resolution;
use crate::sources::Sources;

/// All counters of a context. Making it costs time and memory by the number of topics: not for the data path.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Sessions on which sources send.
    pub sending: Vec<SendingStats>,
    /// Sessions from which something is received.
    pub receiving: Vec<ReceivingStats>,
    /// Topic resolution.
    pub resolver: ResolverStats,
    /// Resolution services, all together.
    pub services: ClientStats,
    /// Of them, those that tell what they know now.
    pub services_registered: usize,
    /// Datagrams of sessions that nobody here wants.
    pub unwanted: u64,
    /// Datagrams that are no packets of their protocol.
    pub malformed: u64,
    /// Calls that were to receive datagrams and failed: the rest of that socket's turn was left out.
    pub receive_failures: u64,
    /// Datagrams that the kernel dropped since a receive buffer was full.
    pub dropped: u64,
    /// Datagrams dropped by [`Context::lose`](crate::Context::lose).
    pub lost_on_purpose: u64,
    /// How often a source in shared memory has overtaken this context; the loss itself was told.
    pub overruns: u64,
    /// Advertisements of wanted topics that could not be joined: shared memory of other hosts and unknown transports, each counted
    /// once; more than 4,096 sessions, counted until there is room.
    pub unreachable: u64,
    /// Topics of receivers of hot failover.
    pub failover: Vec<FailoverStats>,
}

/// A sending session. For LBT-TCP only bytes are counted, and as `would_block` the runs of messages that a slow receiver missed.
#[derive(Clone, Debug)]
pub struct SendingStats {
    /// The session, as it is advertised; `Display` gives the name that tools show.
    pub transport: Transport,
    /// Counts of the sending side.
    pub sent: SenderStats,
    /// Receivers, where they are known.
    pub receivers: Option<usize>,
    /// The session's sources.
    pub topics: Vec<SendingTopic>,
}

/// A source.
#[derive(Clone, Debug)]
pub struct SendingTopic {
    /// Which.
    pub source: SourceId,
    /// The topic's name.
    pub topic: String,
    /// The source's counters.
    pub stats: SourceStats,
}

/// A receiving session.
#[derive(Clone, Debug)]
pub struct ReceivingStats {
    /// The session.
    pub transport: Transport,
    /// The transport's counters; zero for LBT-TCP and LBT-IPC, which are reliable below.
    pub received: ReceiverStats,
    /// Datagrams handed to topics.
    pub session: SessionStats,
    /// The session's topics that somebody here wants.
    pub topics: Vec<ReceivingTopic>,
}

/// One topic of a receiving session.
#[derive(Clone, Debug)]
pub struct ReceivingTopic {
    /// The topic's receivers.
    pub receivers: Vec<ReceiverId>,
    /// The topic's name.
    pub topic: String,
    /// Messages delivered.
    pub messages: u64,
    /// Numbers reported lost.
    pub lost: u64,
}

impl Stats {
    /// Collects the counters of a context's parts.
    pub(crate) fn of(sources: &mut Sources, inbound: &Inbound, resolution: &Resolution) -> Self {
        let client = resolution.services.as_ref().map(|services| &services.client);
        let registered = |client: &Client| client.standings().filter(|s| *s == Standing::Registered).count();
        let mut stats = Self {
            resolver: *resolution.resolver.stats(),
            services: client.map(Client::stats).unwrap_or_default(),
            services_registered: client.map_or(0, registered),
            unwanted: inbound.subscriber.unknown(),
            malformed: inbound.malformed + resolution.malformed,
            receive_failures: inbound.receive_failures,
            dropped: inbound.drops(),
            lost_on_purpose: sources.fault.dropped,
            unreachable: inbound.unreachable,
            overruns: inbound.overruns,
            failover: inbound.streams.machines.stats().collect(),
            ..Self::default()
        };
        // Where a session's entry is in the list.
        let mut places = Vec::new();
        for session in &mut sources.sessions {
            places.push(stats.sending.len());
            if let Some(session) = session {
                let (sent, receivers) = session.stats();
                stats.sending.push(SendingStats { transport: session.transport, sent, receivers, topics: Vec::new() });
            }
        }
        sources.each(|source, topic, session, stats_of_source| {
            if let Some(place) = places.get(session).and_then(|place| stats.sending.get_mut(*place)) {
                place.topics.push(SendingTopic { source, topic: topic.to_owned(), stats: stats_of_source });
            }
        });
        for (transport, received, session) in inbound.subscriber.sessions() {
            stats.receiving.push(ReceivingStats { transport, received, session, topics: Vec::new() });
        }
        for (_, entry) in inbound.streams.iter() {
            let place = stats.receiving.iter_mut().find(|r| r.transport == entry.transport);
            if let Some(place) = place {
                place.topics.push(ReceivingTopic {
                    receivers: entry.receivers.iter().map(|target| target.receiver).collect(),
                    topic: entry.topic.to_string(),
                    messages: entry.messages,
                    lost: entry.lost,
                });
            }
        }
        stats
    }
}
