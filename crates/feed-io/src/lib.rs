//! Exchanges' feeds on sockets: lines, sessions, channels and venues on the web as [market sources](feed::MarketSource).
//!
//! | module | what it is |
//! |---|---|
//! | `site` | where a feed comes from, as its user writes it |
//! | `source` | what all of them have in common: a source around what takes in |
//! | `live` | lines and sessions of Nasdaq and IEX: [`LiveSource`] |
//! | `cme` | a channel of CME by the exchange's configuration file: [`CmeSource`] |
//! | `web` | a venue on the web, over WebSocket and HTTP: [`WebSource`] |
//!
//! What is asked for and what comes is of the state machines in [`feed::replay::venue::live`]; here it is sent and received. A source is driven by its owner
//! ([`feed::MarketSource::advance`]), who waits for its descriptor.

#![forbid(unsafe_code)]

mod cme;
mod live;
mod site;
mod source;
mod web;

pub use cme::{CmePlace, CmeSource, is_cme_site};
pub use live::LiveSource;
pub use site::{Site, SiteArgs, is_site};
pub use source::Report;
pub use web::{WebPlace, WebSource, is_web_site};
