//! Aeron's settings, out of a configuration.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use aeron_io::{AeronError, DriverOf, FlowControl, Idle, Medium, Settings};
use config::{AeronDriver, AeronFlowControl, AeronIdle, AeronMedium, Config};

/// The group where none is configured: what Aeron answers on is the next address.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 101, 3, 11);
/// The ring between Aeron's thread and the agent's holds this at least: several of the longest messages.
const RING: usize = 32 << 20;
/// Shortest silence after which a driver is given up: a busy machine stops its threads for a while.
const SILENCE: Duration = Duration::from_secs(2);

hub::counters! {
/// Aeron's counters of one end of the hub's data stream; 0 with other transports.
pub struct Counters {
    /// Blocks that no P2PS subscribed to.
    pub unheard_blocks: u64,
    /// Times that the media driver was lost.
    pub drivers_lost: u64,
    /// Data streams heard.
    pub images: u64,
    /// Data streams that have ended.
    pub images_ended: u64,
    /// Times that a Source Distributor was held back because this P2PS did not take what Aeron had for it.
    pub held: u64,
    /// Blocks dropped because it took nothing for as long as others wait for it.
    pub dropped: u64,
    /// NAKs that the media driver has sent.
    pub naks_sent: u64,
    /// NAKs that the media driver has received.
    pub naks_received: u64,
    /// Datagrams that the media driver has sent again.
    pub retransmits: u64,
    /// Errors that the media driver has noted.
    pub driver_errors: u64,
}
}

impl From<aeron_io::Counters> for Counters {
    fn from(c: aeron_io::Counters) -> Self {
        Self {
            unheard_blocks: c.unheard,
            drivers_lost: c.drivers_lost,
            images: c.images,
            images_ended: c.images_ended,
            held: c.held,
            dropped: c.dropped,
            naks_sent: c.naks_sent,
            naks_received: c.naks_received,
            retransmits: c.retransmits,
            driver_errors: c.errors,
        }
    }
}

/// Both ends' settings.
///
/// # Errors
/// The interface is none of this machine.
pub(crate) fn settings(config: &Config) -> io::Result<Settings> {
    let (a, h) = (&config.aeron, &config.hub);
    let flow = match a.flow_control {
        AeronFlowControl::Min => FlowControl::Min,
        AeronFlowControl::Max => FlowControl::Max,
        AeronFlowControl::Tagged => FlowControl::Tagged,
    };
    let medium = match a.medium {
        AeronMedium::Ipc => Medium::Ipc,
        AeronMedium::Unicast => Medium::Unicast {
            at: config::listening_address(&h.interface, a.port)?,
            sources: a.sources.clone(),
            destinations: a.destinations.clone(),
            flow,
            tag: a.group_tag,
        },
        AeronMedium::Multicast => Medium::Multicast {
            group: SocketAddr::new(h.multicast_address.parse().unwrap_or(IpAddr::V4(GROUP)), a.port),
            interface: h.interface.clone(),
            ttl: h.multicast_ttl,
            flow,
            tag: a.group_tag,
        },
    };
    Ok(Settings {
        driver: match a.driver {
            AeronDriver::Embedded => DriverOf::ThisProcess,
            AeronDriver::External => DriverOf::Another,
        },
        dir: (!a.dir.is_empty()).then(|| PathBuf::from(&a.dir)),
        medium,
        stream: stream(&h.name),
        term_bytes: a.term_bytes as usize,
        mtu: a.mtu as usize,
        send_buffer: h.udp_send_buf_size as usize,
        receive_buffer: h.udp_recv_buf_size as usize,
        ring_bytes: RING.max(2 * h.window_bytes as usize),
        idle: match a.idle {
            AeronIdle::Backoff => Idle::BACKOFF,
            AeronIdle::Yield => Idle::Yield,
            AeronIdle::Spin => Idle::Spin,
        },
        nak_delay: Duration::from_micros(a.nak_delay_us.into()),
        retransmit_linger: Duration::from_micros(a.retransmit_linger_us.into()),
        patience: Duration::from_millis(h.patience_ms.into()),
        silence: SILENCE.max(Duration::from_millis(h.peer_timeout_ms.into())),
    })
}

/// Aeron's number of a hub's stream: of its name (FNV-1a, 31 bits), so that two hubs of one driver or group do not hear each other.
fn stream(hub: &str) -> i32 {
    let hash = hub.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 1) as i32
}

/// Whether a text is an end that Aeron has seen: `address:port`, or no network's.
pub(crate) fn address(from: &str) -> Option<IpAddr> {
    from.parse::<SocketAddr>().ok().map(|from| from.ip())
}

/// The name of a transport session, the same on both sides.
pub(crate) fn session(hub: &str, session: i32) -> String {
    format!("AERON:{}:{:x}", stream(hub), session as u32)
}

pub(crate) fn failed(e: AeronError) -> io::Error {
    match e {
        AeronError::Io(e) => e,
        AeronError::NotBuiltIn => {
            io::Error::new(io::ErrorKind::Unsupported, format!("hub.transport is \"aeron\": {e}"))
        }
        other => io::Error::new(io::ErrorKind::InvalidInput, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_have_streams_of_their_own() {
        // FNV-1a of "a" is e40c292c.
        assert_eq!(stream("a"), 0xe40c_292c_u32 as i32 >> 1 & 0x7fff_ffff);
        assert_ne!(stream("quoteway"), stream("quoteway2"));
        assert_eq!(session("a", -1), format!("AERON:{}:ffffffff", stream("a")));
    }

    #[test]
    fn the_medium_is_what_the_configuration_says() {
        let mut config = Config::default();
        config.hub.interface = "127.0.0.1".into();
        let Medium::Unicast { at, .. } = settings(&config).unwrap().medium else { panic!("UDP is the default") };
        assert_eq!(at, "127.0.0.1:40456".parse().unwrap());
        config.aeron.medium = AeronMedium::Multicast;
        let Medium::Multicast { group, .. } = settings(&config).unwrap().medium else { panic!("multicast") };
        assert_eq!(group, "239.101.3.11:40456".parse().unwrap());
    }
}
