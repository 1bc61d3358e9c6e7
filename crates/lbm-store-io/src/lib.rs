//! Persistence for LBM topics over sockets.
//!
//! [`StoreServer`] is a store; [`Client`] is a context whose sources keep their messages in stores and whose receivers get from them what
//! they have missed. The rules are those of `lbm-store`; messages of topics go by [`lbm_io::Context`].
#![forbid(unsafe_code)]

mod client;
mod disk;
mod lines;
mod server;
mod stand_ins;

pub use client::{AddError, Client, ClientEvents, PersistentReceiver, PersistentSource, SendBlocked, SendRefused};
pub use disk::{DiskLog, LOG_DOMAIN, LOG_SERVICE};
pub use server::{ServerConfig, ServerError, StoreServer};
