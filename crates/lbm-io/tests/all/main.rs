//! One program for the tests of the crate: each further one costs a link, and programs run one after the other.

mod capture;
mod conformance;
mod daemon;
mod extremes;
mod hostile;
mod memory;
mod process;
mod report;
mod report_options;
mod resolution;
mod world;
