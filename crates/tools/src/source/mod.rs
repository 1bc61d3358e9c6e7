//! The sources of [`feed`] on sockets: what `quoteway demo` and `sink-driven-src` start as their provider.

pub mod publisher;
pub mod serve;
