//! Simulation.
#![forbid(unsafe_code)]
pub mod chain;
pub mod conformance;
pub mod lbm;
pub mod net;
pub mod permissions;
