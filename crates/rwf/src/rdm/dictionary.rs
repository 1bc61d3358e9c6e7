//! Messages of the dictionary domain. The payload, field definitions and enumerations, is [`crate::dictionary`].

use super::state::StateBuf;
use crate::dictionary::{Dictionary, EnumParts, FieldParts, Verbosity};
use crate::msg::{
    CloseMsg, Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusFlags, StatusMsg,
};
use crate::wire::Writer;
use crate::{DataType, EncodeError, State};

/// Name under which field definitions are asked for.
pub const FIELDS: &str = "RWFFld";
/// Name under which enumerations are asked for.
pub const ENUMS: &str = "RWFEnum";

/// A request for a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Stream of the dictionary.
    pub stream_id: i32,
    /// Changes are wanted.
    pub streaming: bool,
    /// The service that provides it.
    pub service_id: Option<u16>,
    /// [`FIELDS`], [`ENUMS`] or another name that the service's Info gives.
    pub name: String,
    /// How much of it.
    pub verbosity: Verbosity,
}

impl Request {
    /// Reads the model out of a request of the dictionary domain. A key without a filter asks for versions only.
    pub fn decode(msg: &RequestMsg<'_>) -> Self {
        Self {
            stream_id: msg.stream_id,
            streaming: msg.flags.contains(RequestFlags::STREAMING),
            service_id: msg.key.service_id,
            name: msg.key.name_lossy().into_owned(),
            verbosity: Verbosity(msg.key.filter.unwrap_or(0)),
        }
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or the name is over 255 bytes.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = RequestFlags::NONE;
        flags.set(RequestFlags::STREAMING, self.streaming);
        let key = dictionary_key(self.service_id, &self.name, self.verbosity);
        RequestMsg { flags, key, ..RequestMsg::new(Domain::DICTIONARY, self.stream_id) }.encode(w)
    }
}

/// A dictionary on its way to a requester: as many refresh messages as it takes.
#[derive(Debug, Clone)]
pub struct RefreshParts<'d> {
    parts: Parts<'d>,
    request: Request,
    solicited: bool,
    first: bool,
    done: bool,
}

#[derive(Debug, Clone)]
enum Parts<'d> {
    Fields(FieldParts<'d>),
    Enums(EnumParts<'d>),
}

impl<'d> RefreshParts<'d> {
    /// The answer to a request; `None` if it names neither [`FIELDS`] nor [`ENUMS`].
    pub fn answer(dictionary: &'d Dictionary, request: &Request) -> Option<Self> {
        let parts = match request.name.as_str() {
            FIELDS => Parts::Fields(dictionary.field_parts(request.verbosity)),
            ENUMS => Parts::Enums(dictionary.enum_parts(request.verbosity)),
            _ => return None,
        };
        Some(Self { parts, request: request.clone(), solicited: true, first: true, done: false })
    }

    /// Marks the messages as unsolicited, for a requester that has the dictionary already.
    #[must_use]
    pub fn unsolicited(mut self) -> Self {
        self.solicited = false;
        self
    }

    /// Whether the last part has been written.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Writes the next part, a whole refresh message, into the room that is left. The first has `CLEAR_CACHE` if
    /// `clear_cache` asks for it, the last has `REFRESH_COMPLETE`.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] when there is not room for one definition; nothing is written then.
    pub fn write(&mut self, clear_cache: bool, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = w.position();
        let result = self.write_part(clear_cache, w);
        if result.is_err() {
            w.rollback(start);
        }
        result
    }

    fn write_part(&mut self, clear_cache: bool, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        /// Offset of the flags in a message.
        const FLAGS: usize = 8;
        let start = w.position();
        let mut flags = RefreshFlags::NONE;
        flags.set(RefreshFlags::SOLICITED, self.solicited);
        flags.set(RefreshFlags::CLEAR_CACHE, clear_cache && self.first);
        let mut msg = RefreshMsg {
            container: DataType::SERIES,
            flags,
            state: State::OPEN_OK,
            key: Some(dictionary_key(self.request.service_id, &self.request.name, self.request.verbosity)),
            ..RefreshMsg::new(Domain::DICTIONARY, self.request.stream_id)
        };
        msg.encode_header(w)?;
        let last = match &mut self.parts {
            Parts::Fields(parts) => parts.write(w)?,
            Parts::Enums(parts) => parts.write(w)?,
        };
        if last {
            // The flag is in the low byte of the coding, so the header keeps its size.
            let low_byte = start + FLAGS + usize::from(msg.wire_flags().0 >= 0x80);
            msg.flags |= RefreshFlags::REFRESH_COMPLETE;
            w.patch_u8(low_byte, msg.wire_flags().0 as u8);
        }
        self.first = false;
        self.done = last;
        Ok(())
    }
}

/// A change of a dictionary stream's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Stream of the dictionary.
    pub stream_id: i32,
    /// The state, if it changes.
    pub state: Option<StateBuf>,
    /// What was sent before is void.
    pub clear_cache: bool,
}

impl Status {
    /// Reads the model out of a status of the dictionary domain.
    pub fn decode(msg: &StatusMsg<'_>) -> Self {
        Self {
            stream_id: msg.stream_id,
            state: msg.state.map(Into::into),
            clear_cache: msg.flags.contains(StatusFlags::CLEAR_CACHE),
        }
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or the state's text is too long.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = StatusFlags::NONE;
        flags.set(StatusFlags::CLEAR_CACHE, self.clear_cache);
        let state = self.state.as_ref().map(StateBuf::as_state);
        StatusMsg { flags, state, ..StatusMsg::new(Domain::DICTIONARY, self.stream_id) }.encode(w)
    }
}

/// Writes the end of a dictionary stream.
///
/// # Errors
/// The buffer is full.
pub fn encode_close(stream_id: i32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    CloseMsg::new(Domain::DICTIONARY, stream_id).encode(w)
}

fn dictionary_key(service_id: Option<u16>, name: &str, verbosity: Verbosity) -> MsgKey<'_> {
    MsgKey { service_id, name: Some(name.as_bytes()), filter: Some(verbosity.0), ..MsgKey::EMPTY }
}
