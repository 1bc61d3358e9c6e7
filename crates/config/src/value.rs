//! How one parameter's value is read, shown and named in messages.

use hub::cache::rules::{Domains, PageSizes};
use hub::distributor::ServiceGroup;
use hub::p2ps::ServiceIds;
use rwf::msg::Domain;

/// A value as it stands in a file, before anyone knows which parameter it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw<'a> {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Text; numbers and truth values given as text are taken as such, since `rmds.cnf` knows nothing else.
    Text(&'a str),
    /// A list of texts.
    List(Vec<&'a str>),
    /// Something that no parameter takes, named for the message.
    Other(&'static str),
}

impl Raw<'_> {
    fn describe(&self) -> String {
        match self {
            Raw::Bool(b) => b.to_string(),
            Raw::Int(n) => n.to_string(),
            Raw::Text(t) => format!("\"{t}\""),
            Raw::List(l) => format!("{l:?}"),
            Raw::Other(what) => (*what).to_string(),
        }
    }
}

/// A type that a parameter can have.
pub trait Parameter: Sized {
    /// The form of a value of this type, for `quoteway config` and for messages.
    const KIND: &'static str;
    /// Reads a value.
    ///
    /// # Errors
    /// A sentence that says what was expected and what stands there.
    fn read(raw: &Raw<'_>) -> Result<Self, String>;
    /// The value as it would stand in a TOML file.
    fn show(&self) -> String;
}

/// Whether a value is one of these words: files have them in capitals, too.
fn is(value: &str, words: &[&str]) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(value.trim()))
}

pub(super) fn expected<T: Parameter>(raw: &Raw<'_>) -> String {
    format!("expected {}, found {}", T::KIND, raw.describe())
}

impl Parameter for bool {
    const KIND: &'static str = "true or false";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::Bool(b) => Ok(*b),
            Raw::Text(t) if t.eq_ignore_ascii_case("true") => Ok(true),
            Raw::Text(t) if t.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! whole_number {
    ($($t:ty: $kind:literal),*) => {$(
        impl Parameter for $t {
            const KIND: &'static str = $kind;
            fn read(raw: &Raw<'_>) -> Result<Self, String> {
                let n = match raw {
                    Raw::Int(n) => *n,
                    Raw::Text(t) => t.trim().parse().map_err(|_| expected::<Self>(raw))?,
                    _ => return Err(expected::<Self>(raw)),
                };
                Self::try_from(n).map_err(|_| expected::<Self>(raw))
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

whole_number!(u16: "a whole number from 0 to 65535", u32: "a whole number from 0 to 4294967295", u64: "a whole number, 0 or more");

impl Parameter for String {
    const KIND: &'static str = "text";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::Text(t) => Ok((*t).to_string()),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl Parameter for Vec<String> {
    const KIND: &'static str = "a list of texts";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::List(l) => Ok(l.iter().map(|s| (*s).to_string()).collect()),
            Raw::Text(t) => Ok(t.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_string).collect()),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

/// A list of texts, none of which is split: a text alone is a list of one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries(pub Vec<String>);

impl Entries {
    /// No text.
    pub const NONE: Self = Self(Vec::new());
}

impl Parameter for Entries {
    const KIND: &'static str = "a list of texts";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::List(list) => Ok(Self(list.iter().map(|&text| text.to_owned()).collect())),
            Raw::Text(text) => Ok(Self(vec![(*text).to_owned()])),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A set of domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainList(pub Domains);

impl Parameter for DomainList {
    const KIND: &'static str = "a list of domains such as MARKET_BY_ORDER or 7, or ALL";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let words: Vec<&str> = match raw {
            Raw::List(list) => list.clone(),
            Raw::Text(text) => text.split([',', ' ', '\t']).filter(|word| !word.is_empty()).collect(),
            _ => return Err(expected::<Self>(raw)),
        };
        let mut domains = Domains::NONE;
        for word in words {
            if word.eq_ignore_ascii_case("ALL") {
                return Ok(Self(Domains::ALL));
            }
            let named = Domain::from_name(&word.to_ascii_uppercase());
            let domain = named.or_else(|| word.parse().ok().map(Domain)).ok_or_else(|| expected::<Self>(raw))?;
            domains = domains.with(domain);
        }
        Ok(Self(domains))
    }
    fn show(&self) -> String {
        if self.0 == Domains::ALL {
            return "[\"ALL\"]".to_owned();
        }
        let names = (0..=u8::MAX).map(Domain).filter(|&domain| self.0.has(domain)).map(|domain| domain.to_string());
        format!("{:?}", names.collect::<Vec<_>>())
    }
}

/// Which clients get Marketfeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarketfeedClients {
    /// Nobody.
    Off,
    /// Clients whose login asks for it.
    #[default]
    Asked,
    /// All that speak RSSL.
    All,
}

impl MarketfeedClients {
    const NAMES: [(Self, &str); 3] = [(Self::Off, "off"), (Self::Asked, "asked"), (Self::All, "all")];
}

impl Parameter for MarketfeedClients {
    const KIND: &'static str = "\"off\", \"asked\" or \"all\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let Raw::Text(text) = raw else { return Err(expected::<Self>(raw)) };
        let found = Self::NAMES.iter().find(|(_, name)| is(text, &[name]));
        found.map(|&(clients, _)| clients).ok_or_else(|| expected::<Self>(raw))
    }
    fn show(&self) -> String {
        Self::NAMES.iter().find(|(clients, _)| clients == self).map_or(String::new(), |(_, name)| format!("{name:?}"))
    }
}

/// How large the pages of services are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSizeList(pub PageSizes);

impl Parameter for PageSizeList {
    const KIND: &'static str =
        "a list of ROWSxCOLUMNS such as 25x80, or SERVICE=14x64 for one service; sides are 1 to 255";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let entries: Vec<String> = Parameter::read(raw).map_err(|_: String| expected::<Self>(raw))?;
        let mut sizes = PageSizes::default();
        for entry in &entries {
            let (service, size) = entry.rsplit_once('=').map_or((None, &**entry), |(name, size)| (Some(name), size));
            let size = size.trim().parse().map_err(|_| expected::<Self>(raw))?;
            match service {
                Some(name) => drop(sizes.services.insert(name.trim().to_owned(), size)),
                None => sizes.others = size,
            }
        }
        Ok(Self(sizes))
    }
    fn show(&self) -> String {
        let services = self.0.services.iter().map(|(name, size)| format!("{name}={size}"));
        format!("{:?}", std::iter::once(self.0.others.to_string()).chain(services).collect::<Vec<_>>())
    }
}

/// Ids that services have whenever they come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceIdList(pub ServiceIds);

impl Parameter for ServiceIdList {
    const KIND: &'static str = "a list of SERVICE=ID, each id (1 to 65000) given once";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let entries: Vec<String> = Parameter::read(raw).map_err(|_: String| expected::<Self>(raw))?;
        let mut ids = ServiceIds::default();
        for entry in &entries {
            // Lines of an rmds.cnf are SERVICE:ID.
            let (name, id) = entry.rsplit_once(['=', ':']).ok_or_else(|| expected::<Self>(raw))?;
            let id = id.trim().parse().map_err(|_| expected::<Self>(raw))?;
            ids.give(name.trim(), id).map_err(|fault| format!("{entry}: {fault}"))?;
        }
        Ok(Self(ids))
    }
    fn show(&self) -> String {
        format!("{:?}", self.0.iter().map(|(name, id)| format!("{name}={id}")).collect::<Vec<_>>())
    }
}

/// Service groups, as GROUP=SERVICE|SERVICE.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceGroupList(pub Vec<ServiceGroup>);

impl Parameter for ServiceGroupList {
    const KIND: &'static str = "a list of GROUP=SERVICE|SERVICE, each group given once and no member of another";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let entries: Vec<String> = Parameter::read(raw).map_err(|_: String| expected::<Self>(raw))?;
        let mut groups: Vec<ServiceGroup> = Vec::new();
        for entry in &entries {
            let (name, members) = entry.split_once('=').ok_or_else(|| expected::<Self>(raw))?;
            let members: Vec<String> = members.split('|').map(|member| member.trim().to_owned()).collect();
            let name = name.trim().to_owned();
            if name.is_empty() || members.iter().any(String::is_empty) {
                return Err(expected::<Self>(raw));
            }
            if (1..members.len()).any(|at| members[..at].contains(&members[at])) {
                return Err(format!("{entry}: a service is named twice"));
            }
            groups.push(ServiceGroup { name, members });
        }
        let is_named_again = |at: usize| groups[..at].iter().any(|known| known.name == groups[at].name);
        if let Some(at) = (0..groups.len()).find(|&at| is_named_again(at)) {
            return Err(format!("the group {} is given twice", groups[at].name));
        }
        let is_member = |name: &String| groups.iter().any(|group| group.members.contains(name));
        if let Some(group) = groups.iter().find(|group| is_member(&group.name)) {
            return Err(format!("{} is a group, and so no member of one", group.name));
        }
        Ok(Self(groups))
    }
    fn show(&self) -> String {
        let text = |group: &ServiceGroup| format!("{}={}", group.name, group.members.join("|"));
        format!("{:?}", self.0.iter().map(text).collect::<Vec<_>>())
    }
}

/// Where the images of an interactive provider's items are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheLocation {
    /// At the provider: it is asked for each image.
    #[default]
    SrcApp,
    /// In the Source Distributor.
    Ssl,
}

impl Parameter for CacheLocation {
    const KIND: &'static str = "\"srcApp\" or \"ssl\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if text.eq_ignore_ascii_case("srcApp") => Ok(Self::SrcApp),
            Raw::Text(text) if text.eq_ignore_ascii_case("ssl") => Ok(Self::Ssl),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::SrcApp => "\"srcApp\"",
            Self::Ssl => "\"ssl\"",
        }
        .to_owned()
    }
}

/// How an interactive provider is chosen where several have a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProviderChoice {
    /// By load factor and number of items: all of them serve.
    #[default]
    Load,
    /// The first of the routes that takes requests; the others stand by.
    First,
    /// As `First`, and the next one is asked for everything, too.
    Hot,
}

impl Parameter for ProviderChoice {
    const KIND: &'static str = "\"load\", \"first\" or \"hot\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if text.eq_ignore_ascii_case("load") => Ok(Self::Load),
            Raw::Text(text) if text.eq_ignore_ascii_case("first") => Ok(Self::First),
            Raw::Text(text) if text.eq_ignore_ascii_case("hot") => Ok(Self::Hot),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Load => "\"load\"",
            Self::First => "\"first\"",
            Self::Hot => "\"hot\"",
        }
        .to_owned()
    }
}

/// Which compression a server agrees to when a client offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// One zlib stream a direction.
    Zlib,
    /// Independent LZ4 blocks.
    Lz4,
}

impl Parameter for Compression {
    const KIND: &'static str = "\"none\", \"zlib\" or \"lz4\" (or 0, 1, 2)";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let text = match raw {
            Raw::Int(number) => number.to_string(),
            Raw::Text(text) => (*text).to_owned(),
            _ => return Err(expected::<Self>(raw)),
        };
        let found =
            [(Compression::None, "none", "0"), (Compression::Zlib, "zlib", "1"), (Compression::Lz4, "lz4", "2")]
                .into_iter()
                .find(|(_, name, number)| is(&text, &[name, number]));
        found.map(|(compression, ..)| compression).ok_or_else(|| expected::<Self>(raw))
    }
    fn show(&self) -> String {
        match self {
            Compression::None => "\"none\"",
            Compression::Zlib => "\"zlib\"",
            Compression::Lz4 => "\"lz4\"",
        }
        .to_string()
    }
}

/// Whether a session has TLS in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectionType {
    /// Plain TCP.
    #[default]
    Socket,
    /// TLS (`RSSL_CONN_TYPE_ENCRYPTED`).
    Encrypted,
}

impl Parameter for ConnectionType {
    const KIND: &'static str = "\"socket\" or \"encrypted\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if is(text, &["socket"]) => Ok(ConnectionType::Socket),
            Raw::Text(text) if is(text, &["encrypted"]) => Ok(ConnectionType::Encrypted),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        match self {
            ConnectionType::Socket => "\"socket\"",
            ConnectionType::Encrypted => "\"encrypted\"",
        }
        .to_string()
    }
}

/// A choice between names, for which another crate has the type.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident($of:ty): $kind:literal, $($value:ident = $text:literal $(| $($other:literal)|+)?),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name(pub $of);

        impl Parameter for $name {
            const KIND: &'static str = $kind;
            fn read(raw: &Raw<'_>) -> Result<Self, String> {
                match raw {
                    $(Raw::Text(text) if is(text, &[$text $($(, $other)+)?]) => Ok(Self(<$of>::$value)),)+
                    _ => Err(expected::<Self>(raw)),
                }
            }
            fn show(&self) -> String {
                format!("\"{self}\"")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self.0 { $(<$of>::$value => $text,)+ })
            }
        }
    };
}

choice!(
    /// The mode of permissions.
    PermissionMode(permissions::Mode): "\"off\", \"test\" or \"on\"",
    Off = "off", Test = "test", On = "on"
);
choice!(
    /// The behaviour while the rights cannot be read.
    AbsentRights(permissions::Absence): "\"last\", \"closed\" or \"open\"",
    Last = "last" | "False" | "false", Closed = "closed" | "True" | "true", Open = "open"
);

choice!(
    /// The treatment of slow clients' updates.
    JustInTime(hub::p2ps::conflation::JustInTime): "\"off\", \"asked\" or \"all\"",
    Off = "off", Asked = "asked", All = "all"
);

choice!(
    /// Which server of a list a client finds first.
    ServerOrder(hub::p2ps::ServerOrder): "\"list\" or \"spread\"",
    List = "list", Spread = "spread"
);

/// When the audit is forced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditSync {
    /// With each batch of lines.
    Each,
    /// Once a second.
    #[default]
    Second,
    /// When the operating system does.
    Never,
}

impl Parameter for AuditSync {
    const KIND: &'static str = "\"each\", \"second\" or \"never\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if is(text, &["each"]) => Ok(Self::Each),
            Raw::Text(text) if is(text, &["second"]) => Ok(Self::Second),
            Raw::Text(text) if is(text, &["never"]) => Ok(Self::Never),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Each => "\"each\"",
            Self::Second => "\"second\"",
            Self::Never => "\"never\"",
        }
        .to_string()
    }
}

/// The protocol with an interactive provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteProtocol {
    /// RSSL.
    #[default]
    Rssl,
    /// JSON over WebSocket.
    Json,
    /// RSSL in WebSocket frames.
    RwfInWebSocket,
}

impl RouteProtocol {
    const NAMES: [(Self, &str); 4] = [
        (Self::Rssl, "rssl"),
        (Self::Json, "tr_json2"),
        (Self::RwfInWebSocket, "rssl.rwf"),
        (Self::Json, "rssl.json.v2"),
    ];
}

impl Parameter for RouteProtocol {
    const KIND: &'static str = "\"rssl\", \"tr_json2\" or \"rssl.rwf\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let Raw::Text(text) = raw else { return Err(expected::<Self>(raw)) };
        let found = Self::NAMES.iter().find(|(_, name)| name == text);
        found.map(|&(protocol, _)| protocol).ok_or_else(|| expected::<Self>(raw))
    }
    fn show(&self) -> String {
        Self::NAMES.iter().find(|(protocol, _)| protocol == self).map_or(String::new(), |(_, name)| format!("{name:?}"))
    }
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

impl Parameter for LogFormat {
    const KIND: &'static str = "\"text\" or \"json\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if is(text, &["text"]) => Ok(Self::Text),
            Raw::Text(text) if is(text, &["json"]) => Ok(Self::Json),
            _ => Err(expected::<Self>(raw)),
        }
    }
    fn show(&self) -> String {
        if *self == Self::Json { "\"json\"" } else { "\"text\"" }.to_owned()
    }
}

/// How the hub's data stream travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HubTransport {
    /// On each P2PS's unicast connection.
    #[default]
    Tcp,
    /// Reliable multicast.
    LbtRm,
    /// Reliable UDP unicast.
    LbtRu,
    /// LBM's TCP transport.
    LbtTcp,
    /// Shared memory.
    LbtIpc,
    /// Aeron; the section `aeron` says how.
    Aeron,
}

impl HubTransport {
    const NAMES: [(Self, &str); 6] = [
        (Self::Tcp, "tcp"),
        (Self::LbtRm, "lbt-rm"),
        (Self::LbtRu, "lbt-ru"),
        (Self::LbtTcp, "lbt-tcp"),
        (Self::LbtIpc, "lbt-ipc"),
        (Self::Aeron, "aeron"),
    ];
}

impl Parameter for HubTransport {
    const KIND: &'static str = "\"tcp\", \"lbt-rm\", \"lbt-ru\", \"lbt-tcp\", \"lbt-ipc\" or \"aeron\"";
    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let Raw::Text(text) = raw else { return Err(expected::<Self>(raw)) };
        // RMDS's own reliable multicast.
        if text.eq_ignore_ascii_case("rrcp") {
            return Ok(Self::LbtRm);
        }
        let found = Self::NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        found.map(|&(transport, _)| transport).ok_or_else(|| expected::<Self>(raw))
    }
    fn show(&self) -> String {
        Self::NAMES
            .iter()
            .find(|(transport, _)| transport == self)
            .map_or(String::new(), |(_, name)| format!("{name:?}"))
    }
}
