//! One program for the tests of the crate: each further one costs a link, and programs run one after the other.

mod dictionary;
mod golden;
mod hostile;
mod json;
mod page_emulator;
mod pages;
mod rdm;
mod roundtrip;
