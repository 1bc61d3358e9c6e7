//! A router between LBM domains, over sockets: [`RouterServer`]. The rules are those of `lbm-router`; a domain is heard and served by a
//! [`lbm_io::Context`], a peer is reached by TCP or TLS. [`Config`] is read from TOML.
#![forbid(unsafe_code)]

mod config;
mod endpoint;
mod link;
mod server;
mod stores;

pub use config::{Config, ConfigError, EndpointTable, PeerTable, TlsTable, Waiting, router_id};
pub use endpoint::EndpointStats;
pub use server::{RouterServer, ServerError};
