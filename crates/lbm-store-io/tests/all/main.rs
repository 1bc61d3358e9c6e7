//! Stores, sources and receivers as processes on this host.

mod capture;
mod kills;
mod processes;
mod returning;
mod roles;
