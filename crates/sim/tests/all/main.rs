//! One program for the tests of the crate: each further one costs a link, and programs run one after the other.

mod chain;
mod conformance;
mod desktops;
mod lbm;
mod permissions;
