//! Sockets, clocks, signals, threads' places and rings between them: everything that touches the operating system, and but for
//! one instruction in `lines` and the libraries for C the only crate of the workspace with `unsafe` code. It knows none of the protocols that data comes by.
//!
//! | module | what it is for |
//! |---|---|
//! | [`tcp`] | the listeners and connections of one thread |
//! | [`udp`] | datagrams in batches and trains, unicast and multicast |
//! | [`tls`] | TLS between a connection and a protocol, without I/O |
//! | [`shm`] | a log in shared memory, for other processes |
//! | [`ring`] | messages from one thread to one or many others |
//! | [`Waker`], [`Sleeper`] | waking a thread that waits in a poll, or in nothing else |
//! | [`Yielding`] | giving others a turn from a thread that never waits |
//! | [`clock`] | monotonic nanoseconds, wall clock, CPU time |
//! | [`signal`] | SIGINT, SIGTERM and SIGHUP as requests |
//! | [`affinity`] | CPUs, priority, slice and timer slack of a thread |
//! | [`huge_pages`] | an allocator that has large tables in huge pages |
//! | [`rlimit`], [`memory`], [`host`], [`interfaces`] | limits of the process, what it uses, what it runs on |
//! | [`dns`] | servers by the name of their service (SRV), which the system does not look up |
//! | [`Network`] | lists of who may come in |
//! | [`output`] | files that tools write: no symbolic link is followed |
//! | [`plain`] | texts of peers on screens and in logs |
//! | [`fault`] | connections that fail on purpose |
//! | `floor` (feature) | what bare loops need beside: forked processes, shared words |
//!
//! # Testing
//!
//! `cargo test -p quoteway-net --features floor` uses real loopback sockets on ports that the kernel chooses. The ring is also model-checked:
//! `RUSTFLAGS="--cfg loom" cargo test -p quoteway-net --lib --release model_tests`; and runs under Miri:
//! `cargo +nightly miri test -p quoteway-net --lib ring::tests`.

pub mod affinity;
pub mod clock;
pub mod dns;
pub mod fault;
#[cfg(feature = "floor")]
pub mod floor;
pub mod host;
pub mod huge_pages;
pub mod interfaces;
pub mod memory;
mod network;
pub mod output;
pub mod plain;
pub mod ring;
pub mod rlimit;
pub mod shm;
pub mod signal;
pub(crate) mod sys;
pub mod tcp;
pub mod tls;
pub mod udp;
mod waker;
mod yielding;

pub use network::{BadNetwork, Network};
pub use waker::{Sleeper, Waker};
pub use yielding::Yielding;
