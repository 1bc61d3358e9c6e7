//! Warnings: of what the operator should know though nothing has failed.

use std::fmt;
use std::net::SocketAddrV4;

use lbm::options::{Bytes, Opt};
use net::udp::{Granted, UdpOptions, UdpSocket};

/// Something works less well than it was asked for. `Display` says what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The kernel granted smaller socket buffers than an option asks for.
    Buffer {
        /// The option.
        option: &'static str,
        /// What was asked for and what was granted.
        granted: Granted,
    },
    /// Datagrams of a source are longer than what its interface sends in one piece: the network carries them as fragments, and one lost
    /// fragment loses all of it.
    Fragments {
        /// The option that says how long they are.
        option: &'static str,
        /// The option's value.
        datagram: usize,
        /// The interface.
        interface: String,
        /// The longest packet that it sends in one piece.
        mtu: usize,
    },
    /// A transport session that was found could not be joined; that is tried again whenever it is advertised, and told once.
    Session {
        /// The session as it is advertised.
        session: String,
        /// Why not.
        reason: String,
    },
    /// A resolution service cannot be reached, or its connection is broken; that is tried again for ever, and told once each time.
    Service {
        /// Where it should be.
        service: SocketAddrV4,
        /// The reason.
        reason: String,
    },
    /// `resolver_disable_udp_topic_resolution` is set and no `resolver_service` is named: nobody is found.
    NoResolution,
}

impl Warning {
    /// Notes a buffer that is too small, once an option. Returns the receive buffer.
    pub(crate) fn buffers(
        warnings: &mut Vec<Self>,
        option: Opt<Bytes>,
        socket: &UdpSocket,
        options: &UdpOptions,
    ) -> usize {
        let Ok(granted) = socket.granted(options) else { return usize::MAX };
        let warning = Self::Buffer { option: option.name(), granted };
        if !granted.in_full() && !warnings.contains(&warning) {
            warnings.push(warning);
        }
        granted.receive
    }
}

/// IP and UDP headers of a datagram.
const HEADERS: usize = 28;

impl Warning {
    /// For a source whose longest datagrams are `datagram` bytes, on an interface of that name and MTU.
    pub(crate) fn fragments(option: Opt<Bytes>, datagram: usize, (interface, mtu): (String, usize)) -> Option<Self> {
        (datagram + HEADERS > mtu).then_some(Self::Fragments { option: option.name(), datagram, interface, mtu })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer { option, granted } => write!(f, "{option}: {granted}"),
            Self::Fragments { option, datagram, interface, mtu } => {
                let (pieces, fits) = ((datagram + 8).div_ceil((mtu.max(&68) - 20) & !7), mtu.saturating_sub(HEADERS));
                write!(
                    f,
                    "{option}: datagrams of {datagram} bytes are {pieces} fragments each on {interface} (MTU {mtu}), and one that is \
                     lost loses them all; if the network loses any, set context {option} {fits}"
                )
            }
            Self::Service { service, reason } => write!(
                f,
                "the resolution service {service} is away: {reason}; the connection is tried again (is quoteway lbmsrs running there, and does it allow this host?)"
            ),
            Self::NoResolution => f.write_str(
                "resolver_disable_udp_topic_resolution is 1 and no resolver_service is named: sources and receivers do not find each other",
            ),
            Self::Session { session, reason } => write!(f, "cannot receive {session}: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use lbm::options::ContextOption;

    use super::*;

    #[test]
    fn datagrams_that_do_not_fit_a_frame_are_told_with_what_would() {
        let at = |datagram| {
            Warning::fragments(ContextOption::TRANSPORT_LBTRM_DATAGRAM_MAX_SIZE, datagram, ("eth0".to_owned(), 1_500))
        };
        assert_eq!(at(1_472), None);
        assert!(at(1_473).is_some());
        let text = at(8_192).expect("too long").to_string();
        for part in ["8192 bytes are 6 fragments", "eth0 (MTU 1500)", "context transport_lbtrm_datagram_max_size 1472"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
