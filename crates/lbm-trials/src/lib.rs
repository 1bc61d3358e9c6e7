//! Parts that tests of the LBM crates share. Nothing else uses this crate.
//!
//! | module | what it is |
//! |---|---|
//! | [`seeds`] | chance from a seed, and how many worlds a test goes through |
//! | [`lines`] | options by which contexts on one host keep apart |
//! | [`capture`] | captures that are built, and how Wireshark reads them |
#![forbid(unsafe_code)]

pub mod capture;
pub mod lines;
pub mod seeds;
