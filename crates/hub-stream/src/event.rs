//! What a Source Distributor publishes.

use super::{ALL, HubError, Kind, Message, NO_HANDLE, Server, flags, state};
use rwf::State;

/// A message from a Source Distributor to its P2PSs, borrowed from the block. `rwf` members are whole RWF messages as
/// the provider sent them (stream id, service id and group id are the provider's); a message's `target` is the P2PS it
/// is meant for, or [`ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A service is new, or what it says of itself has changed.
    Service {
        /// The P2PS that has just come, or [`ALL`].
        target: u16,
        /// The service's id in this incarnation; it never gets another name.
        service: u16,
        /// The Source Distributor holds its images.
        cached: bool,
        /// The service's name.
        name: &'a str,
        /// RWF filter list as in the map entry of a directory refresh: Info (normalised) and State.
        filters: &'a [u8],
    },
    /// A service is deleted. Its items have had their closing status before it.
    ServiceGone {
        /// The service.
        service: u16,
    },
    /// A transient state for every open item of a service.
    ServiceStatus {
        /// The service.
        service: u16,
        /// The state; applies to no item that waits for its first image, and is not kept.
        state: State<'a>,
    },
    /// A transient state for the members of an item group, or their move to another, or both in this order.
    GroupStatus {
        /// The service that the provider named.
        service: u16,
        /// The group: a number of this incarnation, never [`super::NO_GROUP`].
        group: u32,
        /// The state, as with [`Event::ServiceStatus`].
        state: Option<State<'a>>,
        /// The group that the members belong to from now on.
        merged_to: Option<u32>,
    },
    /// The answer to an open: the item's handle.
    ItemOpened {
        /// Who asked.
        target: u16,
        /// The item. What comes for it from now on is for this P2PS too.
        handle: u32,
        /// The token of the open.
        token: u32,
    },
    /// The answer to an open that cannot be served; there is no handle.
    Refused {
        /// Who asked.
        target: u16,
        /// The token of the open.
        token: u32,
        /// A final state.
        state: State<'a>,
    },
    /// An image, or a part of one.
    Image {
        /// Who it is for.
        target: u16,
        /// The item.
        handle: u32,
        /// The item's group, never `NO_GROUP` for an interactive item.
        group: u32,
        /// [`flags::UNSOLICITED`], [`flags::RECOVERY`], [`flags::SNAPSHOT`], [`flags::FIRST`], [`flags::COMPLETE`],
        /// [`flags::CLEAR_CACHE`].
        flags: u8,
        /// Position in the stream that the image belongs to: updates behind it are newer, those before it are in it.
        position: u64,
        /// The refresh.
        rwf: &'a [u8],
    },
    /// A `Reissue` that wanted an image is answered: images from here on hold all that it asked for.
    Answered {
        /// Who asked.
        target: u16,
        /// The item.
        handle: u32,
        /// The number of the reissue.
        serial: u32,
        /// Position in the stream, as of an image: those before it may hold less.
        position: u64,
    },
    /// An update.
    Update {
        /// The item.
        handle: u32,
        /// The update has a key, whose service id is the provider's.
        has_key: bool,
        /// The update.
        rwf: &'a [u8],
    },
    /// A status of an item.
    ItemStatus {
        /// Who it is for.
        target: u16,
        /// The item.
        handle: u32,
        /// The item's group from now on; [`super::NO_GROUP`] leaves it.
        group: u32,
        /// [`flags::CLOSED`], [`flags::PENDING_TOO`], [`flags::WAITING_ONLY`].
        flags: u8,
        /// The status.
        rwf: &'a [u8],
    },
    /// The answer to a post.
    Ack {
        /// Who posted.
        target: u16,
        /// The token of the post.
        token: u32,
        /// The ack; its ack id is not the poster's.
        rwf: &'a [u8],
    },
    /// A generic message on an item's stream.
    Generic {
        /// Who it is for.
        target: u16,
        /// The item.
        handle: u32,
        /// The message has a key, whose service id is the provider's.
        has_key: bool,
        /// The generic message.
        rwf: &'a [u8],
    },
    /// A part of a dictionary that a provider offers.
    Dictionary {
        /// Who it is for.
        target: u16,
        /// The service it comes with.
        service: u16,
        /// The dictionary refresh.
        rwf: &'a [u8],
    },
    /// The Source Distributor is alive, and this is who it is.
    Heartbeat {
        /// What whoever owns the transports wants P2PSs to know (name, services, address for requests): opaque here.
        announcement: &'a [u8],
    },
    /// A lost message was of this item: what the P2PS has of it is not current.
    Missed {
        /// Who told of the gap.
        target: u16,
        /// The item.
        handle: u32,
    },
    /// All that was lost before this position has been told.
    CaughtUp {
        /// Who told of the gap.
        target: u16,
        /// End of the gap.
        to: u64,
    },
    /// Nothing that the P2PS has of this Source Distributor counts any more: it has to join again.
    Resync {
        /// The actor.
        target: u16,
        /// Why, in words.
        why: &'a str,
    },
    /// An image that is held, for another Source Distributor that starts: no P2PS is sent it.
    Record {
        /// The item's service.
        service: &'a str,
        /// Canonical bytes of its key (`hub::item::ItemKey`).
        key: &'a [u8],
        /// Nanoseconds since it was published last.
        age: u64,
        /// The image, as in `hub::distributor::Record::parts`.
        parts: &'a [u8],
    },
    /// The P2PSs of the Source Distributor that say where consumers reach them. It comes to those of them alone, on their connections.
    Servers {
        /// The actor.
        target: u16,
        /// [`super::Server`]s as they are written, one behind the other: all that there are, but for those that are too many.
        servers: &'a [u8],
    },
    /// The Source Distributor ends in order; nothing comes behind it.
    Leaving {
        /// Why, in words.
        why: &'a str,
    },
}

/// Kind, flags, target, handle and arg of a header.
pub(super) type Head = (Kind, u8, u16, u32, u32);

const fn key_flag(has_key: bool) -> u8 {
    if has_key { flags::HAS_KEY } else { 0 }
}

impl<'a> Event<'a> {
    /// Reads a message's body.
    ///
    /// # Errors
    /// [`HubError::WrongDirection`] for a request, [`HubError::Malformed`] for a body that does not fit its kind.
    pub fn decode(message: &Message<'a>) -> Result<Self, HubError> {
        let &Message { kind, target, handle, arg, body, .. } = message;
        let bad = |what| HubError::Malformed { kind, what };
        let service = || u16::try_from(arg).map_err(|_| bad("service id"));
        if handle == NO_HANDLE && matches!(kind, Kind::Missed | Kind::Answered) {
            return Err(bad("handle"));
        }
        Ok(match kind {
            Kind::Service => {
                let (name, filters) = read_name(body).ok_or(bad("service name"))?;
                Self::Service { target, service: service()?, cached: message.has(flags::CACHED), name, filters }
            }
            Kind::ServiceGone => Self::ServiceGone { service: service()? },
            Kind::ServiceStatus => Self::ServiceStatus { service: service()?, state: state::read(kind, body)? },
            Kind::GroupStatus => {
                let (merged, rest) = body.split_first_chunk::<4>().ok_or(bad("group"))?;
                let merged_to = message.has(flags::MERGED).then_some(u32::from_le_bytes(*merged));
                let state = if message.has(flags::HAS_STATE) { Some(state::read(kind, rest)?) } else { None };
                Self::GroupStatus { service: service()?, group: handle, state, merged_to }
            }
            Kind::ItemOpened => Self::ItemOpened { target, handle, token: arg },
            Kind::Refused => Self::Refused { target, token: arg, state: state::read(kind, body)? },
            Kind::Image => {
                let (position, rwf) = body.split_first_chunk::<8>().ok_or(bad("position"))?;
                let position = u64::from_le_bytes(*position);
                Self::Image { target, handle, group: arg, flags: message.flags, position, rwf }
            }
            Kind::Answered => {
                let position = u64::from_le_bytes(*body.first_chunk::<8>().ok_or(bad("position"))?);
                Self::Answered { target, handle, serial: arg, position }
            }
            Kind::Update => Self::Update { handle, has_key: message.has(flags::HAS_KEY), rwf: body },
            Kind::ItemStatus => Self::ItemStatus { target, handle, group: arg, flags: message.flags, rwf: body },
            Kind::Ack => Self::Ack { target, token: arg, rwf: body },
            Kind::Generic => Self::Generic { target, handle, has_key: message.has(flags::HAS_KEY), rwf: body },
            Kind::Dictionary => Self::Dictionary { target, service: service()?, rwf: body },
            Kind::Heartbeat => Self::Heartbeat { announcement: body },
            Kind::Missed => Self::Missed { target, handle },
            Kind::CaughtUp => {
                let to = body.first_chunk::<8>().ok_or(bad("position"))?;
                Self::CaughtUp { target, to: u64::from_le_bytes(*to) }
            }
            Kind::Resync => Self::Resync { target, why: std::str::from_utf8(body).map_err(|_| bad("text"))? },
            Kind::Servers => {
                Server::read_all(kind, body)?;
                Self::Servers { target, servers: body }
            }
            Kind::Leaving => Self::Leaving { why: std::str::from_utf8(body).map_err(|_| bad("text"))? },
            Kind::Record => {
                let (service, rest) = read_name(body).ok_or(bad("service name"))?;
                let (key, rest) = read_short(rest).ok_or(bad("key"))?;
                let (age, parts) = rest.split_first_chunk::<8>().ok_or(bad("age"))?;
                Self::Record { service, key, age: u64::from_le_bytes(*age), parts }
            }
            other => return Err(HubError::WrongDirection(other)),
        })
    }

    pub(super) fn head(&self) -> Head {
        match *self {
            Self::Service { target, service, cached, .. } => {
                (Kind::Service, if cached { flags::CACHED } else { 0 }, target, NO_HANDLE, service.into())
            }
            Self::ServiceGone { service } => (Kind::ServiceGone, 0, ALL, NO_HANDLE, service.into()),
            Self::ServiceStatus { service, .. } => (Kind::ServiceStatus, 0, ALL, NO_HANDLE, service.into()),
            Self::GroupStatus { service, group, state, merged_to } => {
                let bits = if state.is_some() { flags::HAS_STATE } else { 0 }
                    | if merged_to.is_some() { flags::MERGED } else { 0 };
                (Kind::GroupStatus, bits, ALL, group, service.into())
            }
            Self::ItemOpened { target, handle, token } => (Kind::ItemOpened, 0, target, handle, token),
            Self::Refused { target, token, .. } => (Kind::Refused, 0, target, NO_HANDLE, token),
            Self::Image { target, handle, group, flags, .. } => (Kind::Image, flags, target, handle, group),
            Self::Answered { target, handle, serial, .. } => (Kind::Answered, 0, target, handle, serial),
            Self::Update { handle, has_key, rwf } => {
                let lock = super::update_flags_of(rwf) & flags::HAS_LOCK;
                (Kind::Update, key_flag(has_key) | lock, ALL, handle, 0)
            }
            Self::ItemStatus { target, handle, group, flags, .. } => (Kind::ItemStatus, flags, target, handle, group),
            Self::Ack { target, token, .. } => (Kind::Ack, 0, target, NO_HANDLE, token),
            Self::Generic { target, handle, has_key, .. } => (Kind::Generic, key_flag(has_key), target, handle, 0),
            Self::Dictionary { target, service, .. } => (Kind::Dictionary, 0, target, NO_HANDLE, service.into()),
            Self::Heartbeat { .. } => (Kind::Heartbeat, 0, ALL, NO_HANDLE, 0),
            Self::Missed { target, handle } => (Kind::Missed, 0, target, handle, 0),
            Self::CaughtUp { target, .. } => (Kind::CaughtUp, 0, target, NO_HANDLE, 0),
            Self::Resync { target, .. } => (Kind::Resync, 0, target, NO_HANDLE, 0),
            Self::Record { .. } => (Kind::Record, 0, ALL, NO_HANDLE, 0),
            Self::Servers { target, .. } => (Kind::Servers, 0, target, NO_HANDLE, 0),
            Self::Leaving { .. } => (Kind::Leaving, 0, ALL, NO_HANDLE, 0),
        }
    }

    pub(super) fn write_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Service { name, filters, .. } => {
                write_short(name.as_bytes(), out);
                out.extend_from_slice(filters);
            }
            Self::ServiceStatus { state, .. } | Self::Refused { state, .. } => state::write(state, out),
            Self::GroupStatus { state, merged_to, .. } => {
                out.extend_from_slice(&merged_to.unwrap_or(super::NO_GROUP).to_le_bytes());
                if let Some(state) = state {
                    state::write(state, out);
                }
            }
            Self::Image { position, rwf, .. } => {
                out.extend_from_slice(&position.to_le_bytes());
                out.extend_from_slice(rwf);
            }
            Self::Update { rwf, .. }
            | Self::ItemStatus { rwf, .. }
            | Self::Ack { rwf, .. }
            | Self::Generic { rwf, .. }
            | Self::Dictionary { rwf, .. } => out.extend_from_slice(rwf),
            Self::Heartbeat { announcement } => out.extend_from_slice(announcement),
            Self::Servers { servers, .. } => out.extend_from_slice(servers),
            Self::Record { service, key, age, parts } => {
                write_short(service.as_bytes(), out);
                write_short(key, out);
                out.extend_from_slice(&age.to_le_bytes());
                out.extend_from_slice(parts);
            }
            Self::Answered { position, .. } => out.extend_from_slice(&position.to_le_bytes()),
            Self::CaughtUp { to, .. } => out.extend_from_slice(&to.to_le_bytes()),
            Self::Resync { why, .. } | Self::Leaving { why } => out.extend_from_slice(why.as_bytes()),
            Self::ServiceGone { .. } | Self::ItemOpened { .. } | Self::Missed { .. } => {}
        }
    }
}

fn read_name(body: &[u8]) -> Option<(&str, &[u8])> {
    let (name, rest) = read_short(body)?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

/// Bytes behind their length, and what follows.
fn read_short(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = body.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}

fn write_short(bytes: &[u8], out: &mut Vec<u8>) {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}
