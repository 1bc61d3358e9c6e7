//! One program for the tests of the crate: each further one costs a link, and programs run one after the other.

mod batches;
mod cascade;
mod certificates;
mod chain;
mod config;
mod delay;
mod doors;
mod full_disk;
mod history;
mod hostile;
mod hosts;
mod http;
mod hub;
mod lan;
mod lbm_hosts;
mod lbm_tools;
mod log;
mod operation;
mod permissions;
mod persistence;
mod report1;
mod rooms;
mod status;
mod steering;
mod tidy;
mod tokens;
