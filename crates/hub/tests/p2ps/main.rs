//! The P2PS by itself: one test per rule, on every message that either side gets.

mod answers;
mod cache;
mod conflation;
mod dictionaries;
mod directories;
mod egress;
mod filters;
mod hostile;
mod limits;
mod logins;
mod model;
mod network;
mod operation;
mod order;
mod outage;
mod pause;
mod permissions;
mod recovery;
mod requests;
mod round_trips;
mod streams;
mod tokens;
mod views;
mod waits;
mod warm_standby;
mod world;
