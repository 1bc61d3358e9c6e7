//! What the hub does with the content of item messages, apart from whose they are: images held ([`cache`]), fields and updates that a
//! service leaves out ([`filter`]), headlines that have locks of their own ([`headlines`]), names in symbol lists and chains ([`listed`]), updates merged into fewer ([`conflation`]).
//!
//! Both halves of the hub use these; nothing here knows of clients, providers or sources.
#![forbid(unsafe_code)]

pub mod cache;
pub mod conflation;
pub mod encode;
pub mod filter;
pub mod headlines;
pub mod listed;

use hub_stream as stream;
