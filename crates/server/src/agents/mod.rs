//! The threads that join sockets, sessions and hub.
//!
//! An agent's turn: take in all that is ready (bounded), let the state machines work, flush every connection that has
//! something to get once. Agents reach each other only through bounded rings; see `ARCHITECTURE.md`.

mod answering;
pub mod backpressure;
pub mod class_latency;
mod client_connection;
mod client_numbers;
pub mod consumer_ports;
pub mod consumers;
pub mod each_latency;
pub mod history;
pub mod input_rate;
mod json;
mod json_providers;
pub mod lifecycle;
mod logins;
mod marketfeed;
pub mod monitor;
pub mod open_rate;
mod outage_watch;
pub mod p2ps;
pub mod permissions;
mod post_tunnels;
pub mod providers;
pub mod recording;
pub mod records;
pub mod relay;
pub mod routes;
pub mod send_coalescing;
pub mod server;
pub mod shards;
pub mod source_distributor;
pub mod status;
pub mod trace;
pub mod turn_latency;

use std::io;
use std::sync::{Arc, LazyLock};

use config::{Compression, Config};
use net::tcp::Batching;
use net::tls::TlsServer;
use rssl::ServerConfig;
use rssl::ws::pages::{Host, OwnPage, Pages};
use rssl::ws::{self, upgrade::Offer};
use rssl_io::account::Bounds;
use rssl_io::{Encryption, Listener, admission};

/// How what a turn has for many clients is sent.
fn batching(config: &Config) -> Batching {
    if config.p2ps.io_uring { Batching::IoUring } else { Batching::Send }
}

/// Longest message that a WebSocket client may send, bytes: what the answer to its login says.
const WEBSOCKET_MESSAGE_MAX: usize = 61_440;

/// The same for providers, bytes: their images may be large.
const PROVIDER_MESSAGE_MAX: usize = 1 << 20;

/// Longest message of a provider that was dialled, bytes: a whole dictionary is one.
const DIALLED_MESSAGE_MAX: usize = 32 << 20;

/// How a port takes TLS: as connections like, or always where certificates are asked for, which a plain connection shows none of.
fn encryption(tls: Option<TlsServer>, certificates: bool) -> Encryption {
    match tls {
        None => Encryption::None,
        Some(tls) if certificates => Encryption::Required(tls),
        Some(tls) => Encryption::Offered(tls),
    }
}

/// Protocols of the port for non-interactive providers: RSSL, and WebSocket where that is on.
fn provider_listener(config: &Config) -> io::Result<Listener> {
    let c = &config.source_distributor;
    let websocket = c.websocket.then(|| {
        let limits = ws::Limits { message_bytes_max: PROVIDER_MESSAGE_MAX + 2, ..ws::Limits::default() };
        let json = ws::JsonConfig { ping_timeout_s: c.websocket_ping_timeout_s as u8, ..ws::JsonConfig::default() };
        Arc::new(rssl_io::WebSocket { limits, json, ..rssl_io::WebSocket::default() })
    });
    let limits = admission::Limits {
        per_address: c.nip_max_connections_per_address as usize,
        handshakes: c.nip_max_handshakes as usize,
        login_timeout_ns: u64::from(c.nip_login_timeout_s) * 1_000_000_000,
    };
    let tls = c.tls().map_err(io::Error::other)?;
    let encryption = encryption(tls, !c.nip_client_ca_file.is_empty());
    let each = c.max_provider_backlog as usize;
    let bounds = Bounds { each, all: each / 2 };
    Ok(Listener { websocket, encryption, limits, bounds, ..Listener::rssl(Arc::new(session_config(&config.p2ps))) })
}

/// Where the page of this process is, once it is shown.
pub(crate) static OWN_PAGE: LazyLock<OwnPage> = LazyLock::new(OwnPage::default);

/// Names of this machine in a browser of its network: its name, and the first part of it.
fn own_names(name: &str) -> Vec<Host> {
    let short = name.split('.').next().unwrap_or_default();
    let mut names: Vec<Host> = [name, short].iter().filter_map(|name| name.parse().ok()).collect();
    names.dedup();
    names
}

/// Protocols of a port for consumers: RSSL, and WebSocket where that is on.
fn consumer_listener(c: &config::P2ps, encryption: Encryption, read_most_bytes: usize) -> Listener {
    let websocket = c.websocket.then(|| {
        let pages = Pages::parse(&c.websocket_origins, &OWN_PAGE).unwrap_or_default();
        let names = own_names(&net::host::name());
        let offer = Offer { deflate: c.websocket_compression, pages: Pages { names, ..pages }, ..Offer::default() };
        // A frame of a client may be the array that holds a message of the longest kind.
        let limits = ws::Limits { message_bytes_max: WEBSOCKET_MESSAGE_MAX + 2, ..ws::Limits::default() };
        let json = ws::JsonConfig { ping_timeout_s: c.websocket_ping_timeout_s as u8, ..ws::JsonConfig::default() };
        let one_message_agents = c.websocket_one_message_agents.clone();
        Arc::new(rssl_io::WebSocket { offer, limits, json, one_message_agents })
    });
    let limits = admission::Limits {
        per_address: c.max_connections_per_address as usize,
        handshakes: c.max_handshakes as usize,
        login_timeout_ns: u64::from(c.login_timeout_s) * 1_000_000_000,
    };
    Listener { websocket, encryption, read_most_bytes, limits, ..Listener::rssl(Arc::new(session_config(c))) }
}

/// Terms that this server agrees to in a handshake, with consumers and with providers that dial in.
fn session_config(c: &config::P2ps) -> ServerConfig {
    ServerConfig {
        max_user_message_size: c.max_fragment_size as u16,
        handshake_timeout_ns: u64::from(c.handshake_timeout_s) * 1_000_000_000,
        ping_timeout_min_s: c.min_ping_timeout_s as u8,
        ping_timeout_max_s: c.ping_timeout_s as u8,
        client_pings: c.client_to_server_pings,
        server_pings: c.server_to_client_pings,
        compression: match c.compression_type {
            _ if !c.allow_comp_mode => rssl::Compression::None,
            Compression::None => rssl::Compression::None,
            Compression::Zlib => rssl::Compression::Zlib,
            Compression::Lz4 => rssl::Compression::Lz4,
        },
        compression_level: c.zlib_compression_level as u8,
        force_compression: c.force_rssl_compression,
        compression_threshold: (c.min_compression_threshold > 0).then_some(c.min_compression_threshold as usize),
        ..ServerConfig::default()
    }
}
