//! Tests of stores, persistent sources and persistent receivers together.

mod had;
mod proxies;
mod rig;
mod rules;
mod seeds;
mod sim_log;
mod tshark;
mod world;
