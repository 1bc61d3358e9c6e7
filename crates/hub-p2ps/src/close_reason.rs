//! Why clients are closed or refused: a closed list. The text reaches the operator, and the client where its protocol has a place for one.

use rwf::DecodeError;
use rwf::msg::{Domain, MsgClass};
use std::fmt;

/// Why a client's connection is closed, or was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// A message cannot be read.
    Garbage {
        /// The error, and its place.
        error: DecodeError,
        /// Bytes of the message.
        length: usize,
    },
    /// A JSON client sent more that cannot be read than is borne.
    TooMuchMalformed,
    /// A class of message that only a provider sends.
    WrongDirection {
        /// The class.
        class: MsgClass,
        /// The message's domain.
        domain: Domain,
    },
    /// More waits for it than it may leave untaken.
    SlowConsumer {
        /// Bytes that wait for it.
        waiting: usize,
        /// The bound of what waits for one client.
        max: usize,
        /// The bound of what waits for all, before those with more than is guaranteed are cut off.
        pool: usize,
    },
    /// What it asks for cannot be logged, because nobody takes the lines of the audit, and it asks for more than can wait.
    HeldUp {
        /// Bytes of its messages that wait.
        waiting: usize,
    },
    /// The client sends more while what it has asked for in a batch is not done, and has so many bytes waiting, than can wait.
    Occupied {
        /// Bytes of its messages that wait.
        waiting: usize,
    },
    /// As many clients are connected as may be.
    MountsTaken {
        /// The highest number that is allowed.
        max: usize,
    },
    /// No new clients are taken, because an operator wants that, or the process is about to end.
    Drained {
        /// Why.
        why: String,
    },
    /// A JSON client has closed its login: nothing can be asked for without one.
    LoggedOut,
    /// An operator wants it.
    ByOperator {
        /// The operator, and the reason.
        why: String,
    },
    /// The client was not logged in for too long.
    NoLogin {
        /// The time that it had.
        seconds: u64,
    },
    /// The login was refused; the text is what the client was told.
    LoginRefused {
        /// Why.
        text: String,
    },
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbage { error, length } => {
                write!(f, "sent a message of {length} bytes that is no RWF message ({error}): check its encoder")
            }
            Self::TooMuchMalformed => f.write_str("too many messages that could not be read"),
            Self::MountsTaken { max } => {
                write!(f, "All {max} mounts are taken: close a connection or raise maxMounts.")
            }
            Self::Drained { why } => write!(f, "This server takes no new clients: {why}"),
            Self::LoggedOut => f.write_str("logged out"),
            Self::WrongDirection { class, domain } => {
                write!(f, "sent a {class} message of domain {domain}, which only a provider may send")
            }
            Self::SlowConsumer { waiting, max, pool } => write!(
                f,
                "slow consumer: {waiting} bytes are waiting for it (maxOutputBuffers: {max}, poolSize: {pool})"
            ),
            Self::HeldUp { waiting } => write!(
                f,
                "the audit log cannot be written, and {waiting} bytes of its requests wait for that: see where the audit goes"
            ),
            Self::Occupied { waiting } => write!(
                f,
                "{waiting} bytes of its requests wait behind a batch of it that is not done: ask for less at once"
            ),
            Self::ByOperator { why } => write!(f, "closed by an operator: {why}"),
            Self::NoLogin { seconds } => write!(f, "not logged in within {seconds} s (login_timeout_s)"),
            Self::LoginRefused { text } => write!(f, "login refused: {text}"),
        }
    }
}
