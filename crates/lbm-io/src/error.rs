//! Errors, by whose fault they are.

use std::{fmt, io};

use lbm::resolver::ResolveError;

/// A context, source or receiver could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ContextError {
    /// An option names an interface that this host does not have.
    Interface {
        /// The option.
        option: &'static str,
        /// The option's value.
        value: String,
    },
    /// Every port of a pool is taken.
    Ports {
        /// The use that the port has.
        what: &'static str,
        /// The first option of the pool; the other ends in `_high`.
        option: &'static str,
        /// First and last port.
        pool: (u16, u16),
        /// The error of the last attempt.
        error: io::Error,
    },
    /// The operating system refuses something else.
    Io {
        /// The call that failed.
        what: String,
        /// Why not.
        error: io::Error,
    },
    /// A bad topic name or pattern.
    Resolve(ResolveError),
    /// A value that cannot be used here.
    Unsupported(String),
}

impl ContextError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface { option, value } => write!(f, "{option} {value}: this host has no such interface"),
            Self::Ports { what, option, pool: (low, high), error } => write!(
                f,
                "no port for {what}: {low} to {high} are all taken ({error}); widen {option} and its _high, or set both to 0 for any port"
            ),
            Self::Io { what, error } => {
                write!(f, "{what}: {error}")?;
                // An interface that is down, or none, looks so from here.
                if error.kind() == io::ErrorKind::AddrNotAvailable {
                    f.write_str("; is the interface up? `context default_interface` chooses another")?;
                }
                Ok(())
            }
            Self::Resolve(error) => error.fmt(f),
            Self::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ContextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Ports { error, .. } | Self::Io { error, .. } => Some(error),
            Self::Resolve(error) => Some(error),
            Self::Interface { .. } | Self::Unsupported(_) => None,
        }
    }
}

impl From<ResolveError> for ContextError {
    fn from(error: ResolveError) -> Self {
        Self::Resolve(error)
    }
}

/// A message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// Not now; [`crate::Events::writable`] tells when. Nothing was sent.
    WouldBlock,
    /// Never: longer than 4 GiB or about half of the transmission window, or its headers do not fit a datagram.
    TooLong,
    /// The source was removed.
    NoSource,
    /// The context has no request port: see `request_tcp_port_low`.
    NoRequestPort,
    /// Whoever asked cannot be reached any more, or too many replies wait for it.
    NoRequester,
}

impl From<lbm::topic::SendError> for SendError {
    fn from(error: lbm::topic::SendError) -> Self {
        match error {
            lbm::topic::SendError::WouldBlock => Self::WouldBlock,
            lbm::topic::SendError::TooLong => Self::TooLong,
            lbm::topic::SendError::NoTopic => Self::NoSource,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "the transport session cannot take a message now",
            Self::TooLong => "the message or its headers are too long",
            Self::NoSource => "there is no such source any more",
            Self::NoRequestPort => "the context has no request port, so nobody could reply",
            Self::NoRequester => "the requester cannot be reached",
        })
    }
}

impl std::error::Error for SendError {}
