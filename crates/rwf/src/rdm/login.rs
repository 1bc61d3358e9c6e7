//! The login domain: who connects, with which attributes, and what the server can do.
//!
//! A consumer or non-interactive provider sends a [`Request`] on the first stream; the server answers with a [`Refresh`]
//! (accepted) or a [`Status`] (refused). Element names, types and order are those of the SDK's `ValueAdd` layer, so that
//! what is decoded and encoded again gives the same bytes. Unknown elements are skipped.

use super::elements::{Element, Elements, scratch};
use super::read::{for_each, for_each_map_entry, for_each_of_key, for_each_vector_entry};
use super::state::{Recovery, StateBuf};
use crate::container::{MapAction, SetScope};
use crate::msg::{
    Attrib, CloseMsg, Domain, GenericFlags, GenericMsg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg,
    StatusFlags, StatusMsg,
};
use crate::wire::{LenForm, Writer};
use crate::{DataState, DataType, DecodeError, EncodeError, State, StateCode, StreamState};

/// What the name of a login is (ETA `Login.UserIdTypes`).
pub mod name_type {
    /// A user name.
    pub const NAME: u8 = 1;
    /// An e-mail address.
    pub const EMAIL_ADDRESS: u8 = 2;
    /// A token of an application's own.
    pub const TOKEN: u8 = 3;
    /// A cookie.
    pub const COOKIE: u8 = 4;
    /// The name is a dummy, the user is in `AuthenticationToken`.
    pub const AUTHENTICATION_TOKEN: u8 = 5;
}

/// `Role` of a consumer.
pub const ROLE_CONSUMER: u64 = 0;
/// `Role` of a non-interactive provider.
pub const ROLE_PROVIDER: u64 = 1;

/// Bits of `SupportBatchRequests` (ETA `Login.BatchSupportFlags`).
pub mod batch {
    /// Several items may be requested in one message.
    pub const REQUESTS: u64 = 1;
    /// Several streams may be changed in one message.
    pub const REISSUES: u64 = 2;
    /// Several streams may be closed in one message.
    pub const CLOSES: u64 = 4;
}

/// What a request asks for and a refresh confirms; `None` where the element is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `ApplicationId`, a number as text.
    pub application_id: Option<String>,
    /// `ApplicationName`.
    pub application_name: Option<String>,
    /// `Position`: `address/host` or `address/net`.
    pub position: Option<String>,
    /// `ProvidePermissionProfile`; absent means true.
    pub provide_permission_profile: Option<bool>,
    /// `ProvidePermissionExpressions`; absent means true.
    pub provide_permission_expressions: Option<bool>,
    /// `SingleOpen`; absent means true.
    pub single_open: Option<bool>,
    /// `AllowSuspectData`; absent means true.
    pub allow_suspect_data: Option<bool>,
    /// `RoundTripLatency`; 2 if round trips may be measured.
    pub round_trip_latency: Option<u64>,
}

impl Attributes {
    /// The two attributes that decide how states reach this user.
    pub fn recovery(&self) -> Recovery {
        Recovery {
            single_open: self.single_open.unwrap_or(true),
            allow_suspect_data: self.allow_suspect_data.unwrap_or(true),
        }
    }
}

/// A login request; also a re-issue that pauses, resumes or renews the user's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Stream of the login, 1 by custom.
    pub stream_id: i32,
    /// Changes are wanted; without it the connection is only tried out.
    pub streaming: bool,
    /// `NO_REFRESH`: no answer wanted.
    pub no_refresh: bool,
    /// `PAUSE`: all streams of the connection are to rest.
    pub pause: bool,
    /// The user, in the form that `name_type` says.
    pub name: String,
    /// One of [`name_type`]; `None` means a user name.
    pub name_type: Option<u8>,
    /// What is asked for and echoed.
    pub attributes: Attributes,
    /// `Password`.
    pub password: Option<String>,
    /// `SupportProviderDictionaryDownload`: a non-interactive provider can fetch dictionaries.
    pub provider_dictionary_download: Option<bool>,
    /// `AuthenticationToken`.
    pub authentication_token: Option<String>,
    /// `AuthenticationExtended`.
    pub authentication_extended: Option<Vec<u8>>,
    /// `InstanceId`: tells several applications of one machine apart.
    pub instance_id: Option<String>,
    /// `Role`: [`ROLE_CONSUMER`] or [`ROLE_PROVIDER`]; absent means consumer.
    pub role: Option<u64>,
    /// `DownloadConnectionConfig`: a list of standby servers is wanted.
    pub download_connection_config: Option<bool>,
    /// `UpdateTypeFilter`: bits of the update types wanted.
    pub update_type_filter: Option<u64>,
    /// `NegativeUpdateTypeFilter`: bits of the update types not wanted.
    pub negative_update_type_filter: Option<u64>,
}

impl Default for Request {
    /// A streaming consumer login without a name.
    fn default() -> Self {
        Self {
            stream_id: 1,
            streaming: true,
            no_refresh: false,
            pause: false,
            name: String::new(),
            name_type: Some(name_type::NAME),
            attributes: Attributes::default(),
            password: None,
            provider_dictionary_download: None,
            authentication_token: None,
            authentication_extended: None,
            instance_id: None,
            role: None,
            download_connection_config: None,
            update_type_filter: None,
            negative_update_type_filter: None,
        }
    }
}

impl Request {
    /// Whether a non-interactive provider logs in.
    pub fn is_provider(&self) -> bool {
        self.role == Some(ROLE_PROVIDER)
    }

    /// Reads the model out of a request of the login domain.
    ///
    /// # Errors
    /// The attributes are no element list, or an element of a known name has another type than it must.
    pub fn decode(msg: &RequestMsg<'_>) -> Result<Self, DecodeError> {
        let mut request = Self {
            stream_id: msg.stream_id,
            streaming: msg.flags.contains(RequestFlags::STREAMING),
            no_refresh: msg.flags.contains(RequestFlags::NO_REFRESH),
            pause: msg.flags.contains(RequestFlags::PAUSE),
            name: msg.key.name_lossy().into_owned(),
            name_type: msg.key.name_type,
            ..Self::default()
        };
        for_each_of_key(&msg.key, |element| {
            match element.name() {
                b"Password" => request.password = Some(element.text()?),
                b"SupportProviderDictionaryDownload" => request.provider_dictionary_download = element.bool()?,
                b"AuthenticationToken" => request.authentication_token = Some(element.text()?),
                b"AuthenticationExtended" => request.authentication_extended = Some(element.bytes()?),
                b"InstanceId" => request.instance_id = Some(element.text()?),
                b"Role" => request.role = element.uint()?,
                b"DownloadConnectionConfig" => request.download_connection_config = element.bool()?,
                b"UpdateTypeFilter" => request.update_type_filter = element.uint()?,
                b"NegativeUpdateTypeFilter" => request.negative_update_type_filter = element.uint()?,
                _ => request.attributes.read(element)?,
            }
            Ok(())
        })?;
        Ok(request)
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or a text is longer than its length coding can say.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = RequestFlags::NONE;
        flags.set(RequestFlags::STREAMING, self.streaming);
        flags.set(RequestFlags::NO_REFRESH, self.no_refresh);
        flags.set(RequestFlags::PAUSE, self.pause);
        let attributes = scratch(|w| self.write_attributes(w))?;
        let key = login_key(&self.name, self.name_type, Some(&attributes));
        RequestMsg { flags, key, ..RequestMsg::new(Domain::LOGIN, self.stream_id) }.encode(w)
    }

    fn write_attributes(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        let shared = &self.attributes;
        list.ascii_opt("ApplicationId", shared.application_id.as_ref())?;
        list.ascii_opt("ApplicationName", shared.application_name.as_ref())?;
        list.ascii_opt("Position", shared.position.as_ref())?;
        list.ascii_opt("Password", self.password.as_ref())?;
        list.bool_opt("ProvidePermissionProfile", shared.provide_permission_profile)?;
        list.bool_opt("ProvidePermissionExpressions", shared.provide_permission_expressions)?;
        list.bool_opt("SingleOpen", shared.single_open)?;
        list.bool_opt("AllowSuspectData", shared.allow_suspect_data)?;
        list.bool_opt("SupportProviderDictionaryDownload", self.provider_dictionary_download)?;
        list.ascii_opt("AuthenticationToken", self.authentication_token.as_ref())?;
        if let Some(extended) = &self.authentication_extended {
            list.buffer("AuthenticationExtended", extended)?;
        }
        list.ascii_opt("InstanceId", self.instance_id.as_ref())?;
        list.uint_opt("Role", self.role)?;
        list.bool_opt("DownloadConnectionConfig", self.download_connection_config)?;
        list.uint_opt("RoundTripLatency", shared.round_trip_latency)?;
        list.uint_opt("UpdateTypeFilter", self.update_type_filter)?;
        list.uint_opt("NegativeUpdateTypeFilter", self.negative_update_type_filter)?;
        list.end();
        Ok(())
    }
}

impl Attributes {
    fn read(&mut self, element: &Element<'_>) -> Result<(), DecodeError> {
        match element.name() {
            b"ApplicationId" => self.application_id = Some(element.text()?),
            b"ApplicationName" => self.application_name = Some(element.text()?),
            b"Position" => self.position = Some(element.text()?),
            b"ProvidePermissionProfile" => self.provide_permission_profile = element.bool()?,
            b"ProvidePermissionExpressions" => self.provide_permission_expressions = element.bool()?,
            b"SingleOpen" => self.single_open = element.bool()?,
            b"AllowSuspectData" => self.allow_suspect_data = element.bool()?,
            b"RoundTripLatency" => self.round_trip_latency = element.uint()?,
            _ => {}
        }
        Ok(())
    }

    fn write(&self, list: &mut Elements<'_, '_>) -> Result<(), EncodeError> {
        list.ascii_opt("ApplicationId", self.application_id.as_ref())?;
        list.ascii_opt("ApplicationName", self.application_name.as_ref())?;
        list.ascii_opt("Position", self.position.as_ref())?;
        list.bool_opt("ProvidePermissionProfile", self.provide_permission_profile)?;
        list.bool_opt("ProvidePermissionExpressions", self.provide_permission_expressions)?;
        list.bool_opt("SingleOpen", self.single_open)?;
        list.bool_opt("AllowSuspectData", self.allow_suspect_data)?;
        list.uint_opt("RoundTripLatency", self.round_trip_latency)
    }
}

/// What a server can do, as its login refresh claims; `None` where the element is absent, which means "no".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// `SupportOMMPost`: the user may post.
    pub post: Option<bool>,
    /// `SupportBatchRequests`: bits of [`batch`].
    pub batch: Option<u64>,
    /// `SupportViewRequests`: requests may name the fields wanted.
    pub view: Option<bool>,
    /// `SupportStandby`: warm standby by the server's lead.
    pub standby: Option<bool>,
    /// `SupportStandbyMode`: bit 0 login based, bit 1 service based.
    pub standby_mode: Option<u64>,
    /// `SupportOptimizedPauseResume`: streams can be paused.
    pub optimized_pause_resume: Option<bool>,
    /// `SupportProviderDictionaryDownload`: a non-interactive provider can fetch dictionaries.
    pub provider_dictionary_download: Option<bool>,
    /// `SupportEnhancedSymbolList`: bits of the symbol-list behaviours (ETA `SymbolList`).
    pub enhanced_symbol_list: Option<u64>,
}

/// Outcome of a login by token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authentication {
    /// `AuthenticationTTReissue`: when the next token is due, seconds since 1970.
    pub reissue_at: Option<u64>,
    /// `AuthenticationExtendedResp`.
    pub extended_response: Option<Vec<u8>>,
    /// `AuthenticationErrorCode`; 0 is success.
    pub error_code: Option<u64>,
    /// `AuthenticationErrorText`.
    pub error_text: Option<String>,
}

impl Authentication {
    /// Whether the element was one of these.
    fn read(&mut self, element: &Element<'_>) -> Result<bool, DecodeError> {
        match element.name() {
            b"AuthenticationTTReissue" => self.reissue_at = element.uint()?,
            b"AuthenticationExtendedResp" => self.extended_response = Some(element.bytes()?),
            b"AuthenticationErrorCode" => self.error_code = element.uint()?,
            b"AuthenticationErrorText" => self.error_text = Some(element.text()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn write(&self, list: &mut Elements<'_, '_>) -> Result<(), EncodeError> {
        list.uint_opt("AuthenticationTTReissue", self.reissue_at)?;
        if let Some(response) = &self.extended_response {
            list.ascii_bytes("AuthenticationExtendedResp", response)?;
        }
        list.uint_opt("AuthenticationErrorCode", self.error_code)?;
        list.ascii_opt("AuthenticationErrorText", self.error_text.as_ref())
    }
}

/// A server that a consumer may fall back on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `Hostname`.
    pub host: String,
    /// `Port`.
    pub port: u64,
    /// `LoadFactor`: the least loaded has the lowest.
    pub load_factor: Option<u64>,
    /// `ServerType`: 0 active, 1 standby.
    pub kind: Option<u16>,
}

/// The servers that a consumer may use, most wanted first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// `NumStandbyServers`: how many connections to hold beside the first.
    pub standby_servers: u64,
    /// The servers.
    pub servers: Vec<Server>,
}

/// The acceptance of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refresh {
    /// Stream of the login.
    pub stream_id: i32,
    /// The refresh answers a request.
    pub solicited: bool,
    /// The refresh replaces what was known of the user.
    pub clear_cache: bool,
    /// Sequence number of the stream.
    pub sequence: Option<u32>,
    /// State of the login: Open/Ok as a rule.
    pub state: StateBuf,
    /// The user, as in the request.
    pub name: String,
    /// One of [`name_type`].
    pub name_type: Option<u8>,
    /// Echo of the request.
    pub attributes: Attributes,
    /// What the server can do.
    pub features: Features,
    /// Outcome of a login by token.
    pub authentication: Authentication,
    /// Servers to fall back on, when the request asked for them.
    pub connection_config: Option<ConnectionConfig>,
}

impl Refresh {
    /// The solicited, accepting answer to a request: name and attributes echoed, Open/Ok.
    pub fn accept(request: &Request, features: Features, text: &str) -> Self {
        Self {
            stream_id: request.stream_id,
            solicited: true,
            clear_cache: false,
            sequence: None,
            state: State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, text).into(),
            name: request.name.clone(),
            name_type: request.name_type,
            attributes: request.attributes.clone(),
            features,
            authentication: Authentication::default(),
            connection_config: None,
        }
    }

    /// Reads the model out of a refresh of the login domain.
    ///
    /// # Errors
    /// The attributes are no element list, or an element of a known name has another type than it must.
    pub fn decode(msg: &RefreshMsg<'_>) -> Result<Self, DecodeError> {
        let key = msg.key.unwrap_or_default();
        let mut refresh = Self {
            stream_id: msg.stream_id,
            solicited: msg.flags.contains(RefreshFlags::SOLICITED),
            clear_cache: msg.flags.contains(RefreshFlags::CLEAR_CACHE),
            sequence: msg.seq_num,
            state: msg.state.into(),
            name: key.name_lossy().into_owned(),
            name_type: key.name_type,
            attributes: Attributes::default(),
            features: Features::default(),
            authentication: Authentication::default(),
            connection_config: None,
        };
        let features = &mut refresh.features;
        for_each_of_key(&key, |element| {
            match element.name() {
                b"SupportOMMPost" => features.post = element.bool()?,
                b"SupportBatchRequests" => features.batch = element.uint()?,
                b"SupportViewRequests" => features.view = element.bool()?,
                b"SupportStandby" => features.standby = element.bool()?,
                b"SupportStandbyMode" => features.standby_mode = element.uint()?,
                b"SupportOptimizedPauseResume" => features.optimized_pause_resume = element.bool()?,
                b"SupportProviderDictionaryDownload" => features.provider_dictionary_download = element.bool()?,
                b"SupportEnhancedSymbolList" => features.enhanced_symbol_list = element.uint()?,
                _ if refresh.authentication.read(element)? => {}
                _ => refresh.attributes.read(element)?,
            }
            Ok(())
        })?;
        if msg.container == DataType::ELEMENT_LIST {
            for_each(msg.body, &SetScope::NONE, |element| {
                if element.name() == b"ConnectionConfig" {
                    refresh.connection_config = Some(ConnectionConfig::read(element)?);
                }
                Ok(())
            })?;
        }
        Ok(refresh)
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or a text is longer than its length coding can say.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = RefreshFlags::REFRESH_COMPLETE;
        flags.set(RefreshFlags::SOLICITED, self.solicited);
        flags.set(RefreshFlags::CLEAR_CACHE, self.clear_cache);
        let attributes = scratch(|w| self.write_attributes(w))?;
        let body = self.connection_config.as_ref().map(|config| scratch(|w| config.write(w))).transpose()?;
        let msg = RefreshMsg {
            container: if body.is_some() { DataType::ELEMENT_LIST } else { DataType::NO_DATA },
            flags,
            seq_num: self.sequence,
            state: self.state.as_state(),
            key: Some(login_key(&self.name, self.name_type, Some(&attributes))),
            body: body.as_deref().unwrap_or_default(),
            ..RefreshMsg::new(Domain::LOGIN, self.stream_id)
        };
        msg.encode(w)
    }

    fn write_attributes(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        self.authentication.write(&mut list)?;
        self.attributes.write(&mut list)?;
        let features = &self.features;
        list.bool_opt("SupportOMMPost", features.post)?;
        list.uint_opt("SupportBatchRequests", features.batch)?;
        list.bool_opt("SupportViewRequests", features.view)?;
        list.bool_opt("SupportStandby", features.standby)?;
        list.uint_opt("SupportStandbyMode", features.standby_mode)?;
        list.bool_opt("SupportOptimizedPauseResume", features.optimized_pause_resume)?;
        list.bool_opt("SupportProviderDictionaryDownload", features.provider_dictionary_download)?;
        list.uint_opt("SupportEnhancedSymbolList", features.enhanced_symbol_list)?;
        list.end();
        Ok(())
    }
}

impl ConnectionConfig {
    fn read(element: &Element<'_>) -> Result<Self, DecodeError> {
        if element.data_type() != DataType::VECTOR {
            return Err(DecodeError::invalid("ConnectionConfig that is no vector", 0));
        }
        let mut standby_servers = 0;
        let mut servers = Vec::new();
        let summary = |element: &Element<'_>| {
            if element.name() == b"NumStandbyServers" {
                standby_servers = element.uint()?.unwrap_or(0);
            }
            Ok(())
        };
        for_each_vector_entry(element.data(), summary, |data, scope| {
            let mut server = Server { host: String::new(), port: 0, load_factor: None, kind: None };
            for_each(data, scope, |element| {
                match element.name() {
                    b"Hostname" => server.host = element.text()?,
                    b"Port" => server.port = element.uint()?.unwrap_or(0),
                    b"LoadFactor" => server.load_factor = element.uint()?,
                    b"ServerType" => server.kind = element.enumeration()?,
                    _ => {}
                }
                Ok(())
            })?;
            servers.push(server);
            Ok(())
        })?;
        Ok(Self { standby_servers, servers })
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        list.container("ConnectionConfig", DataType::VECTOR, LenForm::Long, |w| self.write_vector(w))?;
        list.end();
        Ok(())
    }

    fn write_vector(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        const HAS_SUMMARY: u8 = 0x02;
        const SET: u8 = 2;
        w.array([HAS_SUMMARY, DataType::ELEMENT_LIST.wire_container()])?;
        let summary = w.begin_rb15(LenForm::Long)?;
        let mut list = Elements::begin(w)?;
        list.uint("NumStandbyServers", self.standby_servers)?;
        list.end();
        w.end_rb15(summary)?;
        let max = usize::from(u16::MAX);
        let count = self.servers.len();
        w.u16(u16::try_from(count).map_err(|_| EncodeError::TooLong { what: "list of servers", len: count, max })?)?;
        for (index, server) in self.servers.iter().enumerate() {
            w.u8(SET)?;
            w.u30(index as u32)?;
            let entry = w.begin_ob16(LenForm::Long)?;
            let mut list = Elements::begin(w)?;
            list.ascii("Hostname", &server.host)?;
            list.uint("Port", server.port)?;
            list.uint_opt("LoadFactor", server.load_factor)?;
            if let Some(kind) = server.kind {
                list.enumeration("ServerType", kind)?;
            }
            list.end();
            w.end_ob16(entry)?;
        }
        Ok(())
    }
}

/// A change of the login's state: a refusal (Closed), or something that the user should know (Open).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Stream of the login.
    pub stream_id: i32,
    /// The state, if it changes.
    pub state: Option<StateBuf>,
    /// What was known of the user is void.
    pub clear_cache: bool,
    /// The user; `None` leaves the key out.
    pub name: Option<String>,
    /// One of [`name_type`].
    pub name_type: Option<u8>,
    /// Outcome of a login by token.
    pub authentication: Authentication,
}

impl Status {
    /// A refusal: Closed/Suspect with a reason.
    pub fn refuse(stream_id: i32, code: StateCode, text: &str) -> Self {
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, code, text);
        Self { stream_id, state: Some(state.into()), ..Self::default() }
    }

    /// Reads the model out of a status of the login domain.
    ///
    /// # Errors
    /// The attributes are no element list, or an element of a known name has another type than it must.
    pub fn decode(msg: &StatusMsg<'_>) -> Result<Self, DecodeError> {
        let mut authentication = Authentication::default();
        if let Some(key) = &msg.key {
            for_each_of_key(key, |element| authentication.read(element).map(|_| ()))?;
        }
        Ok(Self {
            stream_id: msg.stream_id,
            state: msg.state.map(Into::into),
            clear_cache: msg.flags.contains(StatusFlags::CLEAR_CACHE),
            name: msg.key.map(|key| key.name_lossy().into_owned()),
            name_type: msg.key.and_then(|key| key.name_type),
            authentication,
        })
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full, or a text is longer than its length coding can say.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = StatusFlags::NONE;
        flags.set(StatusFlags::CLEAR_CACHE, self.clear_cache);
        let attributes = (self.authentication != Authentication::default()).then(|| {
            scratch(|w| {
                let mut list = Elements::begin(w)?;
                self.authentication.write(&mut list)?;
                list.end();
                Ok(())
            })
        });
        let attributes = attributes.transpose()?;
        let key = match (&self.name, &attributes) {
            (None, None) => None,
            (name, attributes) => {
                Some(login_key(name.as_deref().unwrap_or_default(), self.name_type, attributes.as_deref()))
            }
        };
        let state = self.state.as_ref().map(StateBuf::as_state);
        StatusMsg { flags, state, key, ..StatusMsg::new(Domain::LOGIN, self.stream_id) }.encode(w)
    }
}

/// Writes a login close: the end of the session.
///
/// # Errors
/// The buffer is full.
pub fn encode_close(stream_id: i32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    CloseMsg::new(Domain::LOGIN, stream_id).encode(w)
}

/// A measurement of the round trip over the login stream: the server sends its ticks, the client sends them back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// Stream of the login.
    pub stream_id: i32,
    /// Sent by the server (`PROVIDER_DRIVEN`); the answer is without.
    pub from_provider: bool,
    /// `Ticks`: the server's clock, in a unit of its own.
    pub ticks: u64,
    /// `RoundTripLatency`: the last measurement, microseconds.
    pub latency: Option<u64>,
    /// `TcpRetrans`: retransmitted segments so far.
    pub retransmissions: Option<u64>,
}

impl RoundTrip {
    /// Reads the model out of a generic message of the login domain; `None` if it is another one.
    ///
    /// # Errors
    /// The body is no element list, or an element of a known name has another type than it must.
    pub fn decode(msg: &GenericMsg<'_>) -> Result<Option<Self>, DecodeError> {
        if msg.container != DataType::ELEMENT_LIST {
            return Ok(None);
        }
        let from_provider = msg.flags.contains(GenericFlags::PROVIDER_DRIVEN);
        let mut ticks = None;
        let mut round_trip = Self { stream_id: msg.stream_id, from_provider, ..Self::default() };
        for_each(msg.body, &SetScope::NONE, |element| {
            match element.name() {
                b"Ticks" => ticks = element.uint()?,
                b"RoundTripLatency" => round_trip.latency = element.uint()?,
                b"TcpRetrans" => round_trip.retransmissions = element.uint()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(ticks.map(|ticks| Self { ticks, ..round_trip }))
    }

    /// What the client answers.
    #[must_use]
    pub fn answer(&self) -> Self {
        Self { from_provider: false, latency: None, retransmissions: None, ..*self }
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = GenericFlags::NONE;
        flags.set(GenericFlags::PROVIDER_DRIVEN, self.from_provider);
        GenericMsg { container: DataType::ELEMENT_LIST, flags, ..GenericMsg::new(Domain::LOGIN, self.stream_id) }
            .encode_header(w)?;
        let mut list = Elements::begin(w)?;
        list.uint("Ticks", self.ticks)?;
        list.uint_opt("RoundTripLatency", self.latency)?;
        list.uint_opt("TcpRetrans", self.retransmissions)?;
        list.end();
        Ok(())
    }
}

/// The consumer's word to a server whether it is its active or its standby one: `ConsumerConnectionStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// Stream of the login.
    pub stream_id: i32,
    /// `WarmStandbyInfo`, when the message says something of it.
    pub warm_standby: Option<WarmStandby>,
}

/// The part of a server in a warm standby group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmStandby {
    /// The entry is new (map action Add) or a change of an earlier one (Update).
    pub added: bool,
    /// `WarmStandbyMode`: 0 active, 1 standby.
    pub mode: u64,
}

const CONNECTION_STATUS: &[u8] = b"ConsumerConnectionStatus";
const WARM_STANDBY_INFO: &[u8] = b"WarmStandbyInfo";

impl ConnectionStatus {
    /// Reads the model out of a generic message of the login domain; `None` if it is another one.
    ///
    /// # Errors
    /// The body is no map of element lists by text.
    pub fn decode(msg: &GenericMsg<'_>) -> Result<Option<Self>, DecodeError> {
        if msg.container != DataType::MAP || msg.key.and_then(|key| key.name) != Some(CONNECTION_STATUS) {
            return Ok(None);
        }
        let mut warm_standby = None;
        for_each_map_entry(msg.body, DataType::ASCII_STRING, &SetScope::NONE, |entry| {
            if entry.key == WARM_STANDBY_INFO && entry.action != MapAction::DELETE {
                for_each(entry.data, &entry.scope, |element| {
                    if element.name() == b"WarmStandbyMode" {
                        warm_standby =
                            element.uint()?.map(|mode| WarmStandby { added: entry.action == MapAction::ADD, mode });
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        Ok(Some(Self { stream_id: msg.stream_id, warm_standby }))
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The buffer is full.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let key = MsgKey { name: Some(CONNECTION_STATUS), ..MsgKey::EMPTY };
        let msg =
            GenericMsg { container: DataType::MAP, key: Some(key), ..GenericMsg::new(Domain::LOGIN, self.stream_id) };
        msg.encode_header(w)?;
        w.array([0, DataType::ASCII_STRING.0, DataType::ELEMENT_LIST.wire_container()])?;
        w.u16(self.warm_standby.is_some().into())?;
        if let Some(info) = self.warm_standby {
            w.u8(if info.added { MapAction::ADD.0 } else { MapAction::UPDATE.0 })?;
            w.buf15(WARM_STANDBY_INFO)?;
            let entry = w.begin_ob16(LenForm::Long)?;
            let mut list = Elements::begin(w)?;
            list.uint("WarmStandbyMode", info.mode)?;
            list.end();
            w.end_ob16(entry)?;
        }
        Ok(())
    }
}

fn login_key<'a>(name: &'a str, name_type: Option<u8>, attributes: Option<&'a [u8]>) -> MsgKey<'a> {
    let attrib = |data| Attrib { len_form: LenForm::Long, ..Attrib::new(DataType::ELEMENT_LIST, data) };
    MsgKey { name: Some(name.as_bytes()), name_type, attrib: attributes.map(attrib), ..MsgKey::EMPTY }
}
