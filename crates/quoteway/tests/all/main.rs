//! One program for the tests of the crate: each further one costs a link, and programs run one after the other.

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

mod batches;
mod cascade;
mod certificates;
mod chain;
mod client_chaos;
mod client_links;
mod client_servers;
mod clients;
mod config;
mod delay;
mod exchange_feed;
mod full_disk;
mod history;
mod hostile;
mod hosts;
mod http;
mod http_strangers;
mod hub;
mod lan;
mod latency;
mod lbm_hosts;
mod lbm_routes;
mod lbm_tools;
mod log;
mod operation;
mod permissions;
mod persistence;
mod pipes;
mod recording;
mod refused_peers;
mod replay_steering;
mod replaying;
mod report1;
mod rooms;
mod scenarios;
mod services;
mod source_threads;
mod status;
mod steering;
mod strangers;
mod tidy;
mod tokens;
mod told;
mod words;

/// Counts bytes, for tests that are alone in a process of their own (`client_chaos`).
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
