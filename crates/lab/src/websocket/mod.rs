//! WebSocket clients of a test: of ours by `tr_json2`, and below those of nats-server.
//!
//! Both look for numbers only, by hand, so that they cost as little as the load generators over plain TCP: what is measured is the
//! server.

pub mod clients;
pub mod link;
