//! Why sessions of providers are closed or refused: a closed list. The text reaches the operator, and the peer where its protocol has a
//! place for one.

use rwf::DecodeError;
use std::fmt;

/// Why a session with a provider cannot go on, or was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// Bytes that are no message, or not the one they should be.
    Malformed(DecodeError),
    /// JSON that cannot be read, of an interactive provider.
    MalformedJson {
        /// The error, and its place.
        error: String,
    },
    /// A non-interactive provider sent more JSON that cannot be read than is borne.
    TooMuchMalformed,
    /// A request, close or post on the stream of our login.
    WrongOnLoginStream,
    /// Neither request nor close on the login domain, by a non-interactive provider.
    WrongOnLoginDomain,
    /// Another domain than that of the directory on the directory's stream.
    WrongOnDirectoryStream,
    /// A message that should be an acknowledgement is none.
    NoAck,
    /// Data before the login.
    NotLoggedIn,
    /// A consumer's login on the port of the providers.
    ConsumerLogin,
    /// Login and directory have not come in time.
    NoAnswer,
    /// The provider ended the login, or refused it.
    LoginClosed {
        /// The provider's words.
        text: String,
    },
    /// A non-interactive provider has logged out.
    LoggedOut,
    /// The name of a service that was another's is free: what was published in it meanwhile was not taken.
    ServiceIsFree,
    /// There is room for services that found none: what was published in them meanwhile was not taken.
    RoomForServices,
    /// A reload has taken the route away.
    RouteRemoved,
    /// As many non-interactive providers are connected as may be.
    MountsTaken {
        /// The highest number that is allowed.
        max: usize,
    },
    /// There are as many sessions as there may be.
    SessionsTaken,
    /// An operator wants it.
    ByOperator {
        /// The operator, and the reason.
        why: String,
    },
}

impl From<DecodeError> for CloseReason {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "provider sent a malformed message: {error}"),
            Self::MalformedJson { error } => write!(f, "provider sent JSON that cannot be read: {error}"),
            Self::TooMuchMalformed => f.write_str("too many messages that could not be read"),
            Self::WrongOnLoginStream => f.write_str("provider sent a request, close or post on the login stream"),
            Self::WrongOnLoginDomain => f.write_str("provider sent neither request nor close on the login domain"),
            Self::WrongOnDirectoryStream => f.write_str("provider sent another domain on the directory stream"),
            Self::NoAck => f.write_str("not an ack"),
            Self::NotLoggedIn => f.write_str("provider sent data before it logged in: log in first"),
            Self::ConsumerLogin => f.write_str("a consumer tried to log in on the providers' port"),
            Self::NoAnswer => f.write_str("provider has not answered login and directory in time"),
            Self::LoginClosed { text } => write!(f, "provider closed the login: {text}"),
            Self::LoggedOut => f.write_str("provider logged out"),
            Self::ServiceIsFree => f.write_str("its service is free now: connect again and publish it"),
            Self::RoomForServices => f.write_str("there is room for its services now: connect again and publish them"),
            Self::RouteRemoved => f.write_str("its route is not in the configuration any more"),
            Self::MountsTaken { max } => {
                write!(f, "All {max} provider mounts are taken: close one or raise maxMounts.")
            }
            Self::SessionsTaken => f.write_str("too many provider sessions"),
            Self::ByOperator { why } => write!(f, "ended by an operator: {why}"),
        }
    }
}
