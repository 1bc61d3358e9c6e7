//! Simulation.
#![forbid(unsafe_code)]
