//! What the operator should know though nothing has failed.

use std::fmt;

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
    /// A transport session that was found could not be joined; that is tried again whenever it is advertised, and told once.
    Session {
        /// The session as it is advertised.
        session: String,
        /// Why not.
        reason: String,
    },
}

impl Warning {
    /// Notes a buffer that is too small, once an option. Returns the receive buffer.
    pub(crate) fn buffers(
        warnings: &mut Vec<Self>,
        option: &'static str,
        socket: &UdpSocket,
        options: &UdpOptions,
    ) -> usize {
        let Ok(granted) = socket.granted(options) else { return usize::MAX };
        let warning = Self::Buffer { option, granted };
        if !granted.in_full() && !warnings.contains(&warning) {
            warnings.push(warning);
        }
        granted.receive
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer { option, granted } => write!(f, "{option}: {granted}"),
            Self::Session { session, reason } => write!(f, "cannot receive {session}: {reason}"),
        }
    }
}
