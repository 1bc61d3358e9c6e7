//! What the binary is made of: agents (threads that join sockets, sessions and hub), roles (the processes of a
//! deployment), tools, configuration.
//!
//! No protocol rule lives here: bytes are understood by `rwf` and `rssl`, items by `hub`, sockets by `net`.
#![forbid(unsafe_code)]

pub mod agents;
pub mod command_line;
pub mod config;
pub mod counters;
pub mod http;
pub mod lab;
pub mod log;
pub mod manual;
pub mod roles;
pub mod source;
pub mod tools;
pub mod ui;
