//! One program for the tests of the crate: each further one costs a link, and programs run one after the other. `report` is apart: it looks at
//! all contexts of its process.

mod capture;
mod conformance;
mod daemon;
mod extremes;
mod failover;
mod filtering;
mod hostile;
mod memory;
mod process;
mod report_options;
mod resolution;
mod srs;
mod world;
