//! Simulation.
#![forbid(unsafe_code)]
pub mod chain;
pub mod lbm;
pub mod net;
pub mod permissions;
