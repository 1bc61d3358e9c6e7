//! LBM options of a hub's topics: those that suit a hub, then those of the configuration.

use std::io;

use config::HubTransport;
use lbm_io::options::{OptionError, Options};
use lbm_io::{Context, ContextError};

/// Options that suit a hub and are not LBM's default. Others win over them.
///
/// * Topics are advertised and asked for as long as a process lives, so that a partition of any length heals.
/// * Losses are asked for soon and often, and repeated at most twice in that time: at 20 % loss a datagram is missing for tens of
///   milliseconds, and one in a thousand million is given up after 5 s. The window holds what is sent in that time.
/// * A datagram fits an Ethernet frame. One that IP has to cut is lost with any of its pieces (8 KB at 20 %: three of four), and the
///   pieces of the others stay in the kernel for 30 s, until it has no room left to put any datagram together (4 MB).
/// * The end of a burst is told soon.
/// * No receiver holds up the others.
const SUITABLE: &str = "
context  transport_lbtrm_datagram_max_size                1472
context  transport_lbtru_datagram_max_size                1472
source   resolver_advertisement_minimum_sustain_duration  0
receiver resolver_query_minimum_sustain_duration          0
source   transport_lbtrm_transmission_window_size         67108864
receiver transport_lbtrm_nak_initial_backoff_interval     5
receiver transport_lbtrm_nak_backoff_interval             40
receiver transport_lbtrm_nak_suppress_interval            40
receiver transport_lbtrm_nak_generation_interval          5000
source   transport_lbtrm_ignore_interval                  15
source   transport_lbtrm_sm_minimum_interval              50
source   transport_lbtru_transmission_window_size         67108864
receiver transport_lbtru_nak_initial_backoff_interval     5
receiver transport_lbtru_nak_backoff_interval             40
receiver transport_lbtru_nak_suppress_interval            40
receiver transport_lbtru_nak_generation_interval          5000
source   transport_lbtru_ignore_interval                  15
source   transport_lbtru_sm_minimum_interval              50
source   transport_lbtipc_transmission_window_size        67108864
source   transport_lbtipc_behavior                        source_paced
source   transport_lbtipc_maximum_receivers_per_transport 64
source   transport_tcp_multiple_receiver_behavior         source_paced
source   transport_session_maximum_buffer                 16777216
";

/// Topic resolution of what goes through shared memory: it stays on the host, and apart from that of the network.
const HOST_ONLY: [&str; 2] = ["context resolver_multicast_ttl 0", "context resolver_multicast_port 12966"];

/// The options of a hub.
///
/// # Errors
/// The file cannot be read, or a line is wrong; the message names each.
pub fn of(config: &config::Hub) -> io::Result<Options> {
    let mut options = Options::new();
    parse(&mut options, "built in", SUITABLE)?;
    let transport = match config.transport {
        HubTransport::LbtRm => "lbtrm",
        HubTransport::LbtRu => "lbtru",
        HubTransport::Tcp | HubTransport::LbtTcp => "tcp",
        HubTransport::LbtIpc => "lbtipc",
        HubTransport::Aeron => {
            let what = "hub.transport is \"aeron\": an rrcpd carries LBM's streams only (a host's processes share an Aeron media driver)";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    };
    let mut lines = vec![format!("source transport {transport}")];
    if config.transport == HubTransport::LbtIpc {
        lines.extend(HOST_ONLY.map(str::to_owned));
    } else {
        lines.push(format!("context resolver_multicast_ttl {}", config.multicast_ttl));
    }
    for (name, bytes) in [("receiver", config.udp_recv_buf_size), ("source", config.udp_send_buf_size)] {
        for transport in ["lbtrm", "lbtru"] {
            lines.push(format!("context transport_{transport}_{name}_socket_buffer {bytes}"));
        }
    }
    if !config.interface.is_empty() {
        lines.push(format!("context default_interface {}", config.interface));
    }
    if !config.multicast_address.is_empty() {
        lines.push(format!("source transport_lbtrm_multicast_address {}", config.multicast_address));
    }
    parse(&mut options, "hub", &lines.join("\n"))?;
    if !config.lbm_options_file.is_empty() {
        let name = &config.lbm_options_file;
        let text = std::fs::read_to_string(name)
            .map_err(|e| io::Error::new(e.kind(), format!("LBM options {name} cannot be read: {e}")))?;
        let warnings = options.load(name, &text).map_err(|bad| refused(&bad))?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
    }
    parse(&mut options, "hub.lbm_options", &config.lbm_options.join("\n"))?;
    Ok(options)
}

fn parse(options: &mut Options, name: &str, text: &str) -> io::Result<()> {
    options.parse(name, text).map_err(|bad| refused(&bad))
}

fn refused(bad: &[OptionError]) -> io::Error {
    let lines: Vec<String> = bad.iter().map(ToString::to_string).collect();
    io::Error::new(io::ErrorKind::InvalidInput, lines.join("\n"))
}

/// The topic on which a Source Distributor publishes. In shared memory it is another one: the host's `rrcpd` listens for it and
/// carries it to the network.
pub(crate) fn topic_sent(config: &config::Hub) -> String {
    if config.transport == HubTransport::LbtIpc { local_topic(&config.name) } else { topic(&config.name) }
}

/// The topics that a P2PS listens for.
pub(crate) fn topics_heard(config: &config::Hub) -> Vec<String> {
    let mut topics = vec![topic(&config.name)];
    if config.transport == HubTransport::LbtIpc {
        topics.push(local_topic(&config.name));
    }
    topics
}

/// The topic of a hub's data streams.
pub fn topic(hub: &str) -> String {
    format!("quoteway.hub.{hub}")
}

/// The topic of the data streams of Source Distributors of this host, in shared memory.
pub fn local_topic(hub: &str) -> String {
    topic(hub) + LOCAL_SUFFIX
}

/// End of the name of a topic that `rrcpd` carries to the network.
pub const LOCAL_SUFFIX: &str = ".local";

/// An error of a context as one of input and output, with what was done.
pub fn failed(e: ContextError) -> io::Error {
    match e {
        ContextError::Io { what, error } => io::Error::new(error.kind(), format!("{what}: {error}")),
        other => io::Error::other(other.to_string()),
    }
}

/// Tells the operator what works less well than was asked for.
pub fn log_warnings(context: &mut Context) {
    for warning in context.warnings() {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::{of, topic_sent, topics_heard};
    use config::{Hub, HubTransport};
    use lbm_io::options::{ContextOption, SourceOption, TransportName};

    #[test]
    fn what_suits_a_hub_is_known_and_can_be_overruled() {
        let hub = Hub {
            transport: HubTransport::LbtRm,
            interface: "127.0.0.1".into(),
            multicast_address: "239.1.2.3".into(),
            lbm_options: vec!["source transport_lbtrm_ignore_interval 7".into()],
            ..Hub::default()
        };
        let options = of(&hub).expect("right");
        assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Lbtrm);
        assert_eq!(options.get(ContextOption::DEFAULT_INTERFACE), "127.0.0.1");
        assert_eq!(options.get(SourceOption::TRANSPORT_LBTRM_MULTICAST_ADDRESS), std::net::Ipv4Addr::new(239, 1, 2, 3));
        assert_eq!(options.get(SourceOption::TRANSPORT_LBTRM_IGNORE_INTERVAL), 7_000_000);
        let error = of(&Hub { lbm_options: vec!["source transprt lbtrm".into()], ..hub }).expect_err("wrong");
        assert!(error.to_string().contains("transport"), "{error}");
    }

    #[test]
    fn streams_of_a_host_have_a_topic_of_their_own() {
        let hub = Hub { transport: HubTransport::LbtIpc, ..Hub::default() };
        assert_eq!(topic_sent(&hub), "quoteway.hub.quoteway.local");
        assert_eq!(topics_heard(&hub), ["quoteway.hub.quoteway", "quoteway.hub.quoteway.local"]);
        assert_eq!(topics_heard(&Hub::default()), ["quoteway.hub.quoteway"]);
    }
}
