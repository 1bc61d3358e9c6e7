use super::{Action, Service};
use crate::container::SetScope;
use crate::msg::{
    CloseMsg, Domain, GenericMsg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusFlags, StatusMsg,
    UpdateFlags, UpdateMsg,
};
use crate::primitive::Primitive;
use crate::rdm::elements::Elements;
use crate::rdm::read::{Entry, for_each, for_each_map_entry};
use crate::rdm::state::StateBuf;
use crate::wire::{LenForm, Writer};
use crate::{DataType, DecodeError, EncodeError};

/// A request for the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Stream of the directory.
    pub stream_id: i32,
    /// Changes are wanted.
    pub streaming: bool,
    /// Only this service; `None` for all.
    pub service_id: Option<u16>,
    /// Bits of [`filter`](super::filter): the parts wanted.
    pub filter: u32,
}

impl Request {
    /// Reads the model out of a request of the source domain. A key without a filter asks for nothing.
    pub fn decode(msg: &RequestMsg<'_>) -> Self {
        Self {
            stream_id: msg.stream_id,
            streaming: msg.flags.contains(RequestFlags::STREAMING),
            service_id: msg.key.service_id,
            filter: msg.key.filter.unwrap_or(0),
        }
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = RequestFlags::NONE;
        flags.set(RequestFlags::STREAMING, self.streaming);
        let key = MsgKey { service_id: self.service_id, filter: Some(self.filter), ..MsgKey::EMPTY };
        RequestMsg { flags, key, ..RequestMsg::new(Domain::SOURCE, self.stream_id) }.encode(w)
    }
}

/// The directory, whole or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refresh {
    /// Stream of the directory; 0 or below from a non-interactive provider.
    pub stream_id: i32,
    /// The refresh answers a request.
    pub solicited: bool,
    /// No further part follows.
    pub complete: bool,
    /// What was known is void.
    pub clear_cache: bool,
    /// Sequence number of the stream.
    pub sequence: Option<u32>,
    /// State of the stream.
    pub state: StateBuf,
    /// Only this service.
    pub service_id: Option<u16>,
    /// Bits of [`filter`](super::filter): the parts that were asked for. Encoding leaves other parts out.
    pub filter: Option<u32>,
    /// The services.
    pub services: Vec<Service>,
}

impl Refresh {
    /// The solicited answer to a request, complete, Open/Ok (or `NonStreaming`/Ok to a snapshot request).
    pub fn answer(request: &Request, services: Vec<Service>) -> Self {
        use crate::{DataState, State, StateCode, StreamState};
        let stream = if request.streaming { StreamState::OPEN } else { StreamState::NON_STREAMING };
        Self {
            stream_id: request.stream_id,
            solicited: true,
            complete: true,
            clear_cache: true,
            sequence: None,
            state: State::new(stream, DataState::OK, StateCode::NONE, "").into(),
            service_id: request.service_id,
            filter: Some(request.filter),
            services,
        }
    }

    /// Reads the model out of a refresh of the source domain.
    ///
    /// # Errors
    /// The body is no map of filter lists by number, or a known element has another type than it must.
    pub fn decode(msg: &RefreshMsg<'_>) -> Result<Self, DecodeError> {
        let key = msg.key.unwrap_or_default();
        Ok(Self {
            stream_id: msg.stream_id,
            solicited: msg.flags.contains(RefreshFlags::SOLICITED),
            complete: msg.flags.contains(RefreshFlags::REFRESH_COMPLETE),
            clear_cache: msg.flags.contains(RefreshFlags::CLEAR_CACHE),
            sequence: msg.seq_num,
            state: msg.state.into(),
            service_id: key.service_id,
            filter: key.filter,
            services: services(msg.container, msg.body)?,
        })
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or a part is longer than its length coding can say.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = RefreshFlags::NONE;
        flags.set(RefreshFlags::SOLICITED, self.solicited);
        flags.set(RefreshFlags::REFRESH_COMPLETE, self.complete);
        flags.set(RefreshFlags::CLEAR_CACHE, self.clear_cache);
        let msg = RefreshMsg {
            container: DataType::MAP,
            flags,
            seq_num: self.sequence,
            state: self.state.as_state(),
            key: Some(directory_key(self.service_id, self.filter)),
            ..RefreshMsg::new(Domain::SOURCE, self.stream_id)
        };
        msg.encode_header(w)?;
        write_services(&self.services, self.filter, w)
    }
}

/// A change of the directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Update {
    /// Stream of the directory.
    pub stream_id: i32,
    /// Sequence number of the stream.
    pub sequence: Option<u32>,
    /// Only this service.
    pub service_id: Option<u16>,
    /// Bits of [`filter`](super::filter): the parts that were asked for. Encoding leaves other parts out.
    pub filter: Option<u32>,
    /// The services that change.
    pub services: Vec<Service>,
}

impl Update {
    /// Reads the model out of an update of the source domain.
    ///
    /// # Errors
    /// The body is no map of filter lists by number, or a known element has another type than it must.
    pub fn decode(msg: &UpdateMsg<'_>) -> Result<Self, DecodeError> {
        let key = msg.key.unwrap_or_default();
        Ok(Self {
            stream_id: msg.stream_id,
            sequence: msg.seq_num,
            service_id: key.service_id,
            filter: key.filter,
            services: services(msg.container, msg.body)?,
        })
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or a part is longer than its length coding can say.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let has_key = self.service_id.is_some() || self.filter.is_some();
        let msg = UpdateMsg {
            container: DataType::MAP,
            flags: UpdateFlags::DO_NOT_CONFLATE,
            seq_num: self.sequence,
            key: has_key.then(|| directory_key(self.service_id, self.filter)),
            ..UpdateMsg::new(Domain::SOURCE, self.stream_id)
        };
        msg.encode_header(w)?;
        write_services(&self.services, self.filter, w)
    }
}

/// A change of the directory stream's own state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Stream of the directory.
    pub stream_id: i32,
    /// The state, if it changes.
    pub state: Option<StateBuf>,
    /// What was known is void.
    pub clear_cache: bool,
    /// Only this service.
    pub service_id: Option<u16>,
    /// Bits of [`filter`](super::filter).
    pub filter: Option<u32>,
}

impl Status {
    /// Reads the model out of a status of the source domain.
    pub fn decode(msg: &StatusMsg<'_>) -> Self {
        let key = msg.key.unwrap_or_default();
        Self {
            stream_id: msg.stream_id,
            state: msg.state.map(Into::into),
            clear_cache: msg.flags.contains(StatusFlags::CLEAR_CACHE),
            service_id: key.service_id,
            filter: key.filter,
        }
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or the state's text is too long.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = StatusFlags::NONE;
        flags.set(StatusFlags::CLEAR_CACHE, self.clear_cache);
        let has_key = self.service_id.is_some() || self.filter.is_some();
        let key = has_key.then(|| directory_key(self.service_id, self.filter));
        let state = self.state.as_ref().map(StateBuf::as_state);
        StatusMsg { flags, state, key, ..StatusMsg::new(Domain::SOURCE, self.stream_id) }.encode(w)
    }
}

/// Writes the end of a directory stream.
///
/// # Errors
/// The buffer is full.
pub fn encode_close(stream_id: i32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    CloseMsg::new(Domain::SOURCE, stream_id).encode(w)
}

/// A consumer's part in mirrored sources (`ConsumerStatus`), by service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// Stream of the directory.
    pub stream_id: i32,
    /// The services concerned.
    pub services: Vec<ServiceStatus>,
}

/// A consumer's part in the mirrored source of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Id of the service.
    pub service_id: u16,
    /// Whether the entry is new, changed or gone.
    pub action: Action,
    /// `SourceMirroringMode`: 0 active without standby, 1 active with standby, 2 standby.
    pub mirroring: Option<u64>,
    /// `WarmStandbyMode`: 0 active, 1 standby.
    pub warm_standby: Option<u64>,
}

const CONSUMER_STATUS: &[u8] = b"ConsumerStatus";

impl ConsumerStatus {
    /// Reads the model out of a generic message of the source domain; `None` if it is another one.
    ///
    /// # Errors
    /// The body is no map of element lists by number.
    pub fn decode(msg: &GenericMsg<'_>) -> Result<Option<Self>, DecodeError> {
        if msg.container != DataType::MAP || msg.key.and_then(|key| key.name) != Some(CONSUMER_STATUS) {
            return Ok(None);
        }
        let mut services = Vec::new();
        for_each_map_entry(msg.body, DataType::UINT, &SetScope::NONE, |entry| {
            let action = Action::from_wire(entry.action)?;
            let mut status =
                ServiceStatus { service_id: service_id(entry)?, action, mirroring: None, warm_standby: None };
            for_each(entry.data, &entry.scope, |element| {
                match element.name() {
                    b"SourceMirroringMode" => status.mirroring = element.uint()?,
                    b"WarmStandbyMode" => status.warm_standby = element.uint()?,
                    _ => {}
                }
                Ok(())
            })?;
            services.push(status);
            Ok(())
        })?;
        Ok(Some(Self { stream_id: msg.stream_id, services }))
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or there are over 65,535 services.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let key = MsgKey { name: Some(CONSUMER_STATUS), ..MsgKey::EMPTY };
        let msg =
            GenericMsg { container: DataType::MAP, key: Some(key), ..GenericMsg::new(Domain::SOURCE, self.stream_id) };
        msg.encode_header(w)?;
        write_map_head(DataType::ELEMENT_LIST, self.services.len(), w)?;
        for service in &self.services {
            write_entry_head(service.service_id, service.action, w)?;
            if service.action != Action::Delete {
                let entry = w.begin_ob16(LenForm::Long)?;
                let mut list = Elements::begin(w)?;
                list.uint_opt("SourceMirroringMode", service.mirroring)?;
                list.uint_opt("WarmStandbyMode", service.warm_standby)?;
                list.end();
                w.end_ob16(entry)?;
            }
        }
        Ok(())
    }
}

/// The services in the body of a directory refresh or update.
///
/// # Errors
/// The body is no map of filter lists by number, or a known element has another type than it must.
pub fn services(container: DataType, body: &[u8]) -> Result<Vec<Service>, DecodeError> {
    let mut services = Vec::new();
    match container {
        DataType::MAP => {}
        DataType::NO_DATA => return Ok(services),
        _ => return Err(DecodeError::invalid("directory that is no map", 0)),
    }
    for_each_map_entry(body, DataType::UINT, &SetScope::NONE, |entry| {
        let id = service_id(entry)?;
        let action = Action::from_wire(entry.action)?;
        services.push(match action {
            Action::Delete => Service::delete(id),
            _ if entry.container != DataType::FILTER_LIST => {
                return Err(DecodeError::invalid("service that is no filter list", 0));
            }
            _ => Service::decode_in(id, action, entry.data, &entry.scope)?,
        });
        Ok(())
    })?;
    Ok(services)
}

fn service_id(entry: &Entry<'_>) -> Result<u16, DecodeError> {
    let id = Primitive::decode(DataType::UINT, entry.key)?.as_u64().and_then(|id| u16::try_from(id).ok());
    id.ok_or(DecodeError::invalid("service id", 0))
}

fn write_services(services: &[Service], filter: Option<u32>, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    write_map_head(DataType::FILTER_LIST, services.len(), w)?;
    for service in services {
        write_entry_head(service.id, service.action, w)?;
        if service.action != Action::Delete {
            let entry = w.begin_ob16(LenForm::Long)?;
            service.encode_filters(filter.unwrap_or(u32::MAX), w)?;
            w.end_ob16(entry)?;
        }
    }
    Ok(())
}

fn write_map_head(container: DataType, count: usize, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let max = usize::from(u16::MAX);
    w.array([0, DataType::UINT.0, container.wire_container()])?;
    w.u16(u16::try_from(count).map_err(|_| EncodeError::TooLong { what: "list of services", len: count, max })?)
}

fn write_entry_head(service_id: u16, action: Action, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.u8(action.to_wire())?;
    match u8::try_from(service_id) {
        Ok(id) => w.buf15(&[id]),
        Err(_) => w.buf15(&service_id.to_be_bytes()),
    }
}

fn directory_key(service_id: Option<u16>, filter: Option<u32>) -> MsgKey<'static> {
    MsgKey { service_id, filter, ..MsgKey::EMPTY }
}
