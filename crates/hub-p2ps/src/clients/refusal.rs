//! Why a client does not get what it asks for: the SDK's state code, and a text that says what to do.

use crate::status_texts::StatusTexts;
use rwf::{DataState, State, StateCode, StreamState};
use std::fmt;

/// From here on an id may stand for a name that no service has, in a request of a client that writes names (`rssl::ws`).
const UNKNOWN_NAMES: u16 = u16::MAX - 256;

/// A request that is refused. Its text goes to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal<'a> {
    /// Nobody is logged in on the connection.
    NotLoggedIn,
    /// A reissue of the login names another user.
    OtherUser { user: &'a str },
    /// A second login on another stream.
    SecondLogin { stream: i32 },
    /// The login is a provider's.
    ProviderRole,
    /// The login has no user name.
    NoUserName,
    /// The login's user name is longer than any that is kept.
    LongUserName { length: usize, most: usize },
    /// Whoever checks logins has said no.
    Rejected { code: StateCode, text: &'a str },
    /// The login is not for streaming.
    LoginNotStreaming,
    /// The user is logged in often enough.
    TooManyMounts { user: &'a str, limit: u32 },
    /// No such service.
    UnknownService { id: Option<u16>, texts: StatusTexts },
    /// The service does not have the domain.
    UnknownDomain { domain: u8, service: &'a str },
    /// The service does not have the quality.
    NoSuchQos { service: &'a str },
    /// An operator has blocked the item.
    Blocked { why: &'a str },
    /// An instrument without a name.
    NoName,
    /// The stream id is not a client's to use.
    BadStreamId { stream: i32 },
    /// The stream is in use for something else.
    StreamInUse { stream: i32 },
    /// A reissue with another key.
    KeyChanged { stream: i32 },
    /// The client has enough directories and dictionaries.
    AdministrativeStreams,
    /// The client has enough items.
    ItemLimit { limit: u32 },
    /// The user has enough items.
    AggregateItemLimit { user: &'a str, limit: u32 },
    /// All clients together have enough items.
    TotalItemLimit { items: u64, limit: u32 },
    /// All clients together have enough items of the service.
    ServiceItemLimit { service: &'a str, items: u64, limit: u32 },
    /// A table of this process is full.
    NoResources { what: &'static str },
    /// The batch cannot be read.
    BadBatch,
    /// A batch gives its names so many bytes of attributes together.
    BatchAttributes { bytes: usize, max: usize },
    /// The view cannot be read.
    BadView { why: &'static str },
    /// The type of view is not known.
    UnknownViewType { kind: u64 },
    /// The item is seen through as many views as it may be; `open`: by a stream that stays as it is.
    TooManyViews { limit: u32, open: bool },
    /// The dictionary is not known.
    UnknownDictionary { name: &'a str },
    /// What providers have added to the dictionary cannot be written.
    DictionaryUnwritable { name: &'a str },
    /// The message cannot be passed on.
    NotEncodable,
}

/// A refusal in words: what is left of it when what it borrows from changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusalState {
    stream: StreamState,
    data: DataState,
    code: StateCode,
    text: String,
}

impl RefusalState {
    pub(crate) fn state(&self) -> State<'_> {
        State::new(self.stream, self.data, self.code, &self.text)
    }
}

impl Refusal<'_> {
    /// The refusal in words.
    pub(crate) fn to_state(&self) -> RefusalState {
        let State { stream, data, code, .. } = self.state("");
        RefusalState { stream, data, code, text: self.to_string() }
    }

    /// The SDK's code (ETA `StateCodes`).
    pub(crate) const fn code(&self) -> StateCode {
        match self {
            Self::NotLoggedIn
            | Self::OtherUser { .. }
            | Self::SecondLogin { .. }
            | Self::ProviderRole
            | Self::LoginNotStreaming
            | Self::UnknownDomain { .. }
            | Self::BadStreamId { .. } => StateCode::USAGE_ERROR,
            Self::Rejected { code, .. } => *code,
            Self::NoUserName | Self::LongUserName { .. } | Self::NoName | Self::BadBatch | Self::NotEncodable => {
                StateCode::INVALID_ARGUMENT
            }
            Self::Blocked { .. } => StateCode::NOT_ENTITLED,
            Self::TooManyMounts { .. } => StateCode::EXCEEDED_MAX_MOUNTS_PER_USER,
            Self::UnknownService { .. } => StateCode::SOURCE_UNKNOWN,
            Self::NoSuchQos { .. } | Self::UnknownDictionary { .. } | Self::DictionaryUnwritable { .. } => {
                StateCode::NOT_FOUND
            }
            Self::StreamInUse { .. } | Self::KeyChanged { .. } => StateCode::ALREADY_OPEN,
            Self::ItemLimit { .. }
            | Self::AggregateItemLimit { .. }
            | Self::TotalItemLimit { .. }
            | Self::ServiceItemLimit { .. }
            | Self::AdministrativeStreams => StateCode::TOO_MANY_ITEMS,
            Self::NoResources { .. } | Self::TooManyViews { .. } | Self::BatchAttributes { .. } => {
                StateCode::NO_RESOURCES
            }
            Self::BadView { .. } => StateCode::INVALID_VIEW,
            Self::UnknownViewType { .. } => StateCode::UNSUPPORTED_VIEW_TYPE,
        }
    }

    /// The state that tells it. A stream that is open for something else stays open: then only code and text are news.
    pub(crate) const fn state<'t>(&self, text: &'t str) -> State<'t> {
        let (stream, data) = match self {
            Self::StreamInUse { .. }
            | Self::KeyChanged { .. }
            | Self::OtherUser { .. }
            | Self::TooManyViews { open: true, .. } => (StreamState::OPEN, DataState::NO_CHANGE),
            _ => (StreamState::CLOSED, DataState::SUSPECT),
        };
        State::new(stream, data, self.code(), text)
    }
}

/// Clients that write names instead of numbers have those that nobody knows stand under the last numbers.
fn no_service(id: u16) -> String {
    if id >= UNKNOWN_NAMES {
        return "No service has the name or id of the request: use one of the source directory of this connection."
            .to_owned();
    }
    format!("No service has id {id}: use an id of the source directory of this connection.")
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoggedIn => write!(f, "Not logged in: send a login request first, and wait for its refresh."),
            Self::OtherUser { user } => {
                write!(
                    f,
                    "This connection is logged in as {user} and stays so: log out first, or connect anew, for another user."
                )
            }
            Self::SecondLogin { stream } => {
                write!(
                    f,
                    "Already logged in on stream {stream}: one login a connection. Reissue it there, or close it first."
                )
            }
            Self::ProviderRole => {
                write!(
                    f,
                    "This port is for consumers (Role 0): a provider connects to the non-interactive provider port."
                )
            }
            Self::NoUserName => write!(f, "The login request has no user name: set Name in its key."),
            Self::LongUserName { length, most } => {
                write!(f, "The user name has {length} bytes, and {most} are the most: log in with a shorter one.")
            }
            Self::Rejected { text, .. } => f.write_str(text),
            Self::LoginNotStreaming => write!(f, "A login has to be streaming: set the STREAMING flag."),
            Self::TooManyMounts { user, limit } => {
                write!(
                    f,
                    "User {user} is logged in {limit} times, the most allowed (maxMountsPerUser): log out elsewhere."
                )
            }
            Self::UnknownService { id: Some(id), texts } => f.write_str(&texts.not_available(no_service(*id))),
            Self::UnknownService { id: None, .. } => {
                write!(f, "The request names no service: set the service id in its key.")
            }
            Self::UnknownDomain { domain, service } => {
                write!(f, "Service {service} does not offer domain {domain}: see Capabilities in its directory entry.")
            }
            Self::NoSuchQos { service } => {
                write!(
                    f,
                    "Service {service} does not offer that quality of service: ask for one in its directory entry."
                )
            }
            Self::Blocked { why } => write!(f, "The item is blocked by an operator: {why}"),
            Self::NoName => write!(f, "The request names no item: set Name in its key."),
            Self::BadStreamId { stream } => {
                write!(f, "Stream id {stream} is not usable: a consumer's ids are positive.")
            }
            Self::AdministrativeStreams => {
                let max = super::ADMINISTRATIVE_MAX;
                write!(f, "There are {max} directories and dictionaries open already: close those that are not needed.")
            }
            Self::StreamInUse { stream } => {
                write!(f, "Stream {stream} is open for something else and stays so: use another stream id.")
            }
            Self::KeyChanged { stream } => {
                write!(
                    f,
                    "The key of open stream {stream} cannot change; it stays as it is. Close it first, or use another id."
                )
            }
            Self::ItemLimit { limit } => {
                write!(f, "This connection has {limit} items open, the most allowed (itemLimit): close some first.")
            }
            Self::AggregateItemLimit { user, limit } => {
                write!(
                    f,
                    "User {user} has {limit} items open, the most allowed (aggregateItemLimit): close some first."
                )
            }
            Self::TotalItemLimit { items, limit } => {
                write!(
                    f,
                    "This server is overloaded: {items} items are open, of {limit} (totalItemLimit). Ask another server, or again later."
                )
            }
            Self::ServiceItemLimit { service, items, limit } => {
                write!(
                    f,
                    "Service {service} is overloaded: {items} items of it are open, of {limit} (serviceItemLimit). Ask another server, or again later."
                )
            }
            Self::NoResources { what } => write!(f, "No room for more {what} in this server: ask again later."),
            Self::BadBatch => {
                write!(f, "The batch cannot be read: its payload is an element list with :ItemList or :StreamIdList.")
            }
            Self::BatchAttributes { bytes, max } => {
                write!(
                    f,
                    "The attributes of the batch make {bytes} bytes for all of its names, of {max} allowed: ask for fewer names at once."
                )
            }
            Self::BadView { why } => write!(f, "The view cannot be read: {why}."),
            Self::UnknownViewType { kind } => {
                write!(f, "View type {kind} is not supported: use 1 (field ids) or 2 (element names).")
            }
            Self::TooManyViews { limit, .. } => {
                write!(
                    f,
                    "The item is watched through {limit} different views, the most allowed (maxViewsPerItem): ask for one of them, or for all fields."
                )
            }
            Self::UnknownDictionary { name } => {
                write!(f, "No dictionary is named {name}: ask for RWFFld or RWFEnum.")
            }
            Self::DictionaryUnwritable { name } => {
                write!(f, "The dictionary {name} of the providers here cannot be sent: load it from a file.")
            }
            Self::NotEncodable => write!(f, "The request cannot be passed on: its key is too long."),
        }
    }
}
