//! Persistence for LBM topics over sockets.
//!
//! [`StoreServer`] is a store ([`command`] runs one); [`Client`] is a context whose sources keep their messages in stores and whose
//! receivers get from them what they have missed. The rules are those of `lbm-store`; messages of topics go by [`lbm_io::Context`].
#![forbid(unsafe_code)]

mod client;
pub mod command;
mod disk;
mod lines;
mod server;

pub use client::{Client, ClientEvents, PersistentReceiver, PersistentSource, SendRefused};
pub use disk::{DiskLog, LOG_SERVICE};
pub use server::{ServerConfig, StoreServer};
