//! One program for the tests of the crate: each further one costs a link, and programs run one after the other.

mod captures;
mod contexts;
mod forged;
mod hostile;
mod memory;
mod resolution;
mod roundtrip;
mod services;
mod topics;
mod trains;
mod transports;
mod tshark;
