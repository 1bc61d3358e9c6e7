//! Settings of a session, and the result of its handshake.

use std::ops::{BitOr, RangeInclusive};

/// Connection version of the RSSL handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// No protocol type, one-byte fragment ids, no component version.
    V11 = 11,
    /// One-byte fragment ids, no component version.
    V12 = 12,
    /// Two-byte fragment ids, component version.
    V13 = 13,
    /// As 13, with the key exchange.
    V14 = 14,
}

impl Version {
    /// All versions, highest first: the order in which a client offers them.
    pub const ALL: [Self; 4] = [Self::V14, Self::V13, Self::V12, Self::V11];

    /// The next lower version, which a client offers after a server closed without an answer.
    #[must_use]
    pub fn lower(self) -> Option<Self> {
        match self {
            Self::V14 => Some(Self::V13),
            Self::V13 => Some(Self::V12),
            Self::V12 => Some(Self::V11),
            Self::V11 => None,
        }
    }

    /// The number that stands for this version in a connect request (0x14 to 0x17).
    #[must_use]
    pub fn request_code(self) -> u32 {
        self as u32 + 9
    }

    /// The number that stands for this version in a connect answer (6 to 9).
    #[must_use]
    pub fn answer_code(self) -> u32 {
        self as u32 - 5
    }

    /// The version of a connect request's number.
    #[must_use]
    pub fn from_request_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.request_code() == code)
    }

    /// The version of a connect answer's number.
    #[must_use]
    pub fn from_answer_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.answer_code() == code)
    }

    /// Fragment ids have two bytes (13 and 14) or one.
    #[must_use]
    pub fn wide_fragment_ids(self) -> bool {
        self >= Self::V13
    }
}

/// Compression of a session. The numbers are those of the connect answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// None.
    #[default]
    None = 0,
    /// One zlib stream for each direction, flushed at the end of each frame.
    Zlib = 1,
    /// Each compressed frame is one raw LZ4 block.
    Lz4 = 2,
}

impl Compression {
    /// Payloads shorter than this stay plain (the thresholds of ETA's `RsslSocketChannel`), bytes.
    #[must_use]
    pub fn default_threshold(self) -> usize {
        match self {
            Self::None => usize::MAX,
            Self::Zlib => 30,
            Self::Lz4 => 300,
        }
    }

    pub(crate) fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Zlib),
            2 => Some(Self::Lz4),
            _ => None,
        }
    }
}

/// The compressions that a client offers: the bitmap of the connect request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CompressionSet(u8);

impl CompressionSet {
    /// Offers none.
    pub const NONE: Self = Self(0);
    /// Offers zlib.
    pub const ZLIB: Self = Self(0x01);
    /// Offers LZ4.
    pub const LZ4: Self = Self(0x02);

    /// From the first byte of the bitmap; unknown bits are kept.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The byte as on the wire.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The one that a server takes: the first offered in the order zlib, LZ4.
    #[must_use]
    pub fn preferred(self) -> Option<Compression> {
        if self.0 & Self::ZLIB.0 != 0 {
            Some(Compression::Zlib)
        } else if self.0 & Self::LZ4.0 != 0 {
            Some(Compression::Lz4)
        } else {
            None
        }
    }
}

impl BitOr for CompressionSet {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A client's offer. Sessions share it behind an `Arc`.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Connection version to offer. A server that does not know it closes without an answer; then connect again with
    /// [`Connection::next_version`](crate::Connection::next_version).
    pub version: Version,
    /// 0 for RWF (ETA `Codec.protocolType`), 2 for JSON. Version 11 cannot say it.
    pub protocol_type: u8,
    /// RWF major version.
    pub major: u8,
    /// RWF minor version.
    pub minor: u8,
    /// Ping timeout asked for, seconds; the server brings it into its own limits.
    pub ping_timeout_s: u8,
    /// Compressions offered.
    pub compression: CompressionSet,
    /// Payloads shorter than this are not compressed, bytes; `None` for ETA's thresholds (30 zlib, 300 LZ4).
    pub compression_threshold: Option<usize>,
    /// Offer the key exchange of version 14. ETA always does; nothing of the session is encrypted with it.
    pub key_exchange: bool,
    /// Host name for the connect request (at most 128 bytes go out).
    pub host: String,
    /// IP address as text for the connect request (at most 64 bytes go out).
    pub address: String,
    /// Component version that the peer sees (at most 253 bytes go out).
    pub component: String,
    /// Time for the server's answer, nanoseconds.
    pub handshake_timeout_ns: u64,
    /// Bound on all unfinished fragmented messages of the peer together, bytes.
    pub reassembly_bytes_max: usize,
    /// Where the random value of the key exchange comes from. Give each session its own.
    pub seed: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            version: Version::V14,
            protocol_type: 0,
            major: RWF_MAJOR,
            minor: RWF_MINOR,
            ping_timeout_s: 60,
            compression: CompressionSet::NONE,
            compression_threshold: None,
            key_exchange: true,
            host: "localhost".to_owned(),
            address: "127.0.0.1".to_owned(),
            component: COMPONENT.to_owned(),
            handshake_timeout_ns: HANDSHAKE_TIMEOUT_NS,
            reassembly_bytes_max: REASSEMBLY_BYTES_MAX,
            seed: 0,
        }
    }
}

/// A server's terms. Sessions share them behind an `Arc`.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Connection versions accepted. The connection is closed without an answer on others.
    pub versions: RangeInclusive<Version>,
    /// 0 for RWF, 2 for JSON; a client that asks for another one is refused.
    pub protocol_type: u8,
    /// RWF major version.
    pub major: u8,
    /// RWF minor version; the lower one of both sides is used.
    pub minor: u8,
    /// Longest message (or packed payload) in one frame, bytes (ETA `BindOptions.maxFragmentSize`; ETA's default is 6144).
    pub max_user_message_size: u16,
    /// Lowest ping timeout, seconds (ETA `BindOptions.minPingTimeout`).
    pub ping_timeout_min_s: u8,
    /// Highest ping timeout, seconds (ETA `BindOptions.pingTimeout`).
    pub ping_timeout_max_s: u8,
    /// Clients have to ping.
    pub client_pings: bool,
    /// This server pings.
    pub server_pings: bool,
    /// With `None` nothing is compressed. Otherwise the client's offer decides (zlib before LZ4), or this one if it is forced on a
    /// client that offered none.
    pub compression: Compression,
    /// Zlib level 0 to 9 (1 is run as 2); sent to the client, which uses it for its direction.
    pub compression_level: u8,
    /// Compress with clients that did not offer it, too.
    pub force_compression: bool,
    /// Payloads shorter than this are not compressed, bytes; `None` for ETA's thresholds (30 zlib, 300 LZ4).
    pub compression_threshold: Option<usize>,
    /// Take part in the key exchange of version 14; otherwise its key block is empty (type 0), which clients accept.
    pub key_exchange: bool,
    /// Component version that the peer sees (at most 253 bytes go out).
    pub component: String,
    /// Time for the client's part of the handshake, nanoseconds.
    pub handshake_timeout_ns: u64,
    /// Bound on all unfinished fragmented messages of one peer together, bytes.
    pub reassembly_bytes_max: usize,
    /// Where the random values of the key exchange come from. Sessions that share this configuration get their own with
    /// [`Connection::with_seed`](crate::Connection::with_seed).
    pub seed: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            versions: Version::V11..=Version::V14,
            protocol_type: 0,
            major: RWF_MAJOR,
            minor: RWF_MINOR,
            max_user_message_size: 6144,
            ping_timeout_min_s: 20,
            ping_timeout_max_s: 60,
            client_pings: true,
            server_pings: true,
            compression: Compression::None,
            compression_level: 6,
            force_compression: false,
            compression_threshold: None,
            key_exchange: true,
            component: COMPONENT.to_owned(),
            handshake_timeout_ns: HANDSHAKE_TIMEOUT_NS,
            reassembly_bytes_max: REASSEMBLY_BYTES_MAX,
            seed: 0,
        }
    }
}

/// The terms that both sides agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// Connection version.
    pub version: Version,
    /// RWF major version.
    pub major: u8,
    /// RWF minor version.
    pub minor: u8,
    /// 0 for RWF, 2 for JSON.
    pub protocol_type: u8,
    /// Ping timeout, seconds; 0 for none.
    pub ping_timeout_s: u8,
    /// The client pings.
    pub client_pings: bool,
    /// The server pings.
    pub server_pings: bool,
    /// Longest message (or packed payload) in one frame, bytes.
    pub max_user_message_size: u16,
    /// Compression of both directions.
    pub compression: Compression,
    /// Zlib level.
    pub compression_level: u8,
    /// The server forced the compression.
    pub compression_forced: bool,
    /// The secret that both sides know after the key exchange; `None` if there was none.
    pub shared_key: Option<u64>,
    /// Component version of the peer, empty if it sent none.
    pub peer_component: String,
    /// Host name in the client's request (server side; otherwise empty).
    pub peer_host: String,
    /// Address in the client's request (server side; otherwise empty). Not verified: use the socket's for decisions.
    pub peer_address: String,
}

impl Negotiated {
    /// The size that ETA reports as `Channel.info().maxFragmentSize()`, bytes.
    #[must_use]
    pub fn max_fragment_size(&self) -> u16 {
        self.max_user_message_size.saturating_sub(2)
    }
}

/// RWF version that this project speaks.
const RWF_MAJOR: u8 = 14;
const RWF_MINOR: u8 = 1;

const COMPONENT: &str = concat!("quoteway", env!("CARGO_PKG_VERSION"));

/// EMA waits 60 s for the whole connection; a server that is alive answers within milliseconds.
const HANDSHAKE_TIMEOUT_NS: u64 = 15_000_000_000;

/// Far over any real message (a full dictionary in one piece has 1 MB), and little enough for a hundred hostile peers.
const REASSEMBLY_BYTES_MAX: usize = 16 << 20;
