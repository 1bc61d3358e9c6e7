//! The clients of a P2PS: who they are, what they have open, why they were closed.

use super::dictionary::DictionaryStream;
use super::items::ItemId;
use super::streams::{Open, Streams};
use rustc_hash::FxHashMap;
use rwf::DecodeError;
use rwf::msg::{Domain, MsgClass, Priority};
use rwf::rdm::state::Recovery;
use std::fmt;
use std::net::IpAddr;

/// A client: the dense number of its connection, chosen by whoever owns the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// What is known of a client before it says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientInfo {
    /// Address that it connects from.
    pub address: IpAddr,
}

/// Why a client's connection is to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// A message cannot be read.
    Garbage {
        /// What is wrong, and where.
        error: DecodeError,
        /// Bytes of the message.
        length: usize,
    },
    /// A class of message that only a provider sends.
    WrongDirection {
        /// The class.
        class: MsgClass,
        /// Its domain.
        domain: Domain,
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
            Self::WrongDirection { class, domain } => {
                write!(f, "sent a {class} message of domain {domain}, which only a provider may send")
            }
            Self::LoginRefused { text } => write!(f, "login refused: {text}"),
        }
    }
}

/// The login of a client.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) stream: i32,
    pub(crate) name: String,
    pub(crate) application_id: String,
    pub(crate) application_name: String,
    pub(crate) position: String,
    /// All streams rest.
    pub(crate) paused: bool,
}

/// An open directory stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryStream {
    pub(crate) stream: i32,
    /// Wanted filters, bits of `rwf::rdm::directory::filter`.
    pub(crate) filter: u32,
    /// The one service wanted.
    pub(crate) service: Option<u16>,
}

impl DirectoryStream {
    /// True if the stream is told of this filter of this service.
    pub(crate) fn covers(&self, service: u16, filter: u32) -> bool {
        self.filter & filter != 0 && self.service.is_none_or(|only| only == service)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) info: ClientInfo,
    pub(crate) login: Option<Login>,
    pub(crate) policy: Recovery,
    pub(crate) streams: Streams,
    pub(crate) directories: Vec<DirectoryStream>,
    pub(crate) dictionaries: Vec<DictionaryStream>,
    /// Priorities of streams that are not the default.
    pub(crate) priorities: FxHashMap<i32, Priority>,
    /// Watchers, each of its item streams one.
    pub(crate) items: u32,
    /// Posts that are not answered.
    pub(crate) posts: u32,
    /// It is to be closed: nothing more is read from it.
    pub(crate) closing: bool,
}

impl Client {
    pub(crate) fn new(info: ClientInfo) -> Self {
        Self {
            info,
            login: None,
            policy: Recovery::default(),
            streams: Streams::default(),
            directories: Vec::new(),
            dictionaries: Vec::new(),
            priorities: FxHashMap::default(),
            items: 0,
            posts: 0,
            closing: false,
        }
    }

    /// Its item streams, with what is open on them.
    pub(crate) fn item_streams(&self) -> Vec<(i32, ItemId)> {
        let item = |(stream, open)| if let Open::Item(item) = open { Some((stream, item)) } else { None };
        self.streams.iter().filter_map(item).collect()
    }

    /// True if it has a directory stream that is told of this filter of this service.
    pub(crate) fn hears_of(&self, service: u16, filter: u32) -> bool {
        self.directories.iter().any(|directory| directory.covers(service, filter))
    }
}

/// A login as an auditor sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The client.
    pub client: ClientId,
    /// Address that it connects from.
    pub address: IpAddr,
    /// User name.
    pub user: &'a str,
    /// Position, as the client says.
    pub position: &'a str,
    /// Application id, as the client says.
    pub application_id: &'a str,
    /// Application name, as the client says.
    pub application_name: &'a str,
    /// Items it watches.
    pub items: u32,
}

/// What one user has over all connections.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) mounts: u32,
    pub(crate) items: u32,
}

/// Users that are logged in, by name.
#[derive(Debug, Default)]
pub(crate) struct Users {
    by_name: FxHashMap<String, Usage>,
}

impl Users {
    pub(crate) fn usage(&self, name: &str) -> Usage {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn mount(&mut self, name: &str) {
        if let Some(usage) = self.by_name.get_mut(name) {
            usage.mounts += 1;
        } else {
            self.by_name.insert(name.to_owned(), Usage { mounts: 1, items: 0 });
        }
    }

    pub(crate) fn unmount(&mut self, name: &str) {
        if let Some(usage) = self.by_name.get_mut(name) {
            usage.mounts = usage.mounts.saturating_sub(1);
            if usage.mounts == 0 {
                self.by_name.remove(name);
            }
        }
    }

    pub(crate) fn count_item(&mut self, name: &str, change: i32) {
        if let Some(usage) = self.by_name.get_mut(name) {
            usage.items = usage.items.saturating_add_signed(change);
        }
    }
}
