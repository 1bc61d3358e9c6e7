//! The processes of a deployment.

pub mod delayed;
pub mod desktop;
pub mod exposure;
pub mod p2ps;
pub mod process;
pub mod rrcpd;
pub mod scenarios;
pub mod serve;
pub mod service;
pub mod source_distributor;
