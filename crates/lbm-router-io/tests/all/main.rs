//! Routers on sockets of this host: domains are groups of topic resolution.

mod capture;
mod peers;
mod rig;
mod stores;
mod topics;
