//! LBM messaging in a program: sources and receivers of topics over multicast, UDP, TCP and shared memory, without a broker.
//!
//! The crate `lbm` has the protocols as state machines; this one puts sockets around them. A [`Context`] is one use of LBM: it belongs
//! to one thread, which calls [`Context::poll`], and has no thread, lock or log of its own. Options have the names of 29West LBM / Ultra
//! Messaging and come from files or code ([`options`]).
//!
//! ```
//! use std::time::{Duration, Instant};
//! use lbm_io::options::{Options, Scope};
//! use lbm_io::{Context, Delivery, SendFlags, Sources};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = Options::new();
//! options.parse("lbm.cfg", "
//!     source  transport                        lbtrm        # or lbtru, tcp, lbtipc
//!     context default_interface                127.0.0.1    # left out: where the default route leads
//!     context resolver_multicast_address       239.255.17.1
//!     source  implicit_batching_minimum_length 1            # every message leaves at once
//! ").map_err(|bad| bad[0].to_string())?;
//! # for (name, value) in [("transport_lbtrm_source_port_low", "0"), ("transport_lbtrm_source_port_high", "0")] {
//! #     options.set(Scope::Context, name, value)?;
//! # }
//!
//! // Most often two processes; a context also hears itself.
//! let mut context = Context::new(&options)?;
//! for warning in context.warnings() {
//!     eprintln!("{warning}"); // socket buffers that the kernel did not grant, and the command that helps
//! }
//! let source = context.source("md.equities.ibm", &options)?;
//! context.receiver("md.equities.ibm", &options)?;
//!
//! let mut heard = Vec::new();
//! let began = Instant::now();
//! while heard.is_empty() && began.elapsed() < Duration::from_secs(20) {
//!     // Nobody hears what is sent before receivers have found the source, so: until somebody does.
//!     context.send(source, b"IBM bid 142.10", SendFlags::NONE)?;
//!     context.poll(Some(Duration::from_millis(20)), &mut |_: &mut Sources, delivery: &Delivery<'_>| {
//!         heard.push((delivery.stream.topic.to_owned(), delivery.payload.to_vec()));
//!     })?;
//! }
//! assert_eq!(heard[0], ("md.equities.ibm".to_owned(), b"IBM bid 142.10".to_vec()));
//! # Ok(())
//! # }
//! ```
//!
//! # What happens
//!
//! *Topic resolution.* A source advertises its topic, a receiver asks for it, both by multicast (or through `resolver_unicast_daemon`),
//! and over TCP if services are named (`resolver_service`).
//! A receiver joins the session of every source that it finds: [`Events::begin`], messages, [`Events::end`]. Events belong to a
//! [`Stream`]: one topic of one source at one receiver.
//!
//! *Sending.* [`Context::send`] writes the message straight into the transmission window. It leaves with [`SendFlags::FLUSH`], at once if
//! `implicit_batching_minimum_length` is 1, when a train of datagrams is full (64 KB, one system call), and otherwise in the next
//! [`Context::poll`] once its datagram is full enough or `implicit_batching_interval` old. So a context that sends has to take turns as
//! well: there NAKs are answered and timers run. A send that cannot go on waits, or returns [`SendError::WouldBlock`] and
//! [`Events::writable`] tells when.
//!
//! *Receiving.* Callbacks get payloads borrowed from the receive buffer, in the order of the topic, each once. What is missing is asked
//! for meanwhile; what will never come is told by [`Events::lost`], once. A callback gets the [`Sources`] of the context and can send.
//!
//! *Hot failover.* Several sources of a topic send the same messages under numbers of the application's ([`Sources::send_failover`]);
//! [`Context::failover_receiver`] delivers each once, whichever source is alive ([`failover`]).
//!
//! *More.* [`Context::wildcard`] receives all topics that match a pattern; [`Context::request`] and [`Sources::respond`] are
//! questions and answers; `late_join` and `use_otr` fetch by TCP what was sent before, or lost.
//!
//! # How to wait
//!
//! | idle | latency | costs |
//! |---|---|---|
//! | `poll(None, ..)` blocks | a wake-up: 5 to 50 µs | nothing while idle |
//! | `poll(Some(ZERO), ..)` and `yield_now` in a loop | a few µs | a core, shared with others |
//! | `poll(Some(ZERO), ..)` in a loop | the least | a core |
//! | in another epoll set: [`AsFd`](std::os::fd::AsFd) and [`Context::timeout`] | of that set | one system call more a turn |
//!
//! [`Context::run`] is such a loop for a thread of its own; [`Context::waker`] wakes it from others.
//!
//! # Bounds
//!
//! A turn receives at most 4 MB from a socket. Windows, queues and maps are bounded by their options and counted in
//! [`Context::stats`]. In the steady state nothing is allocated.
#![forbid(unsafe_code)]

mod context;
mod daemon;
mod error;
mod events;
pub mod failover;
mod fault;
mod handles;
mod inbound;
mod interface;
mod io;
mod ipc_host;
mod outbound;
mod places;
mod random;
mod report;
mod requests;
mod resolution;
mod router;
mod run;
mod services;
mod sources;
mod srs;
mod stats;
mod streams;
mod waiting_transports;
mod warning;

pub use context::Context;
pub use daemon::{Daemon, DaemonConfig, DaemonLimits, DaemonStats};
pub use error::{ContextError, SendError};
pub use events::{Delivery, Events, Loss, Stream};
pub use handles::{FilteredReceiver, ReceiverId, Request, RequestId, SendFlags, SourceId};
pub use lbm::options;
pub use lbm::resolver::service::{ClientStats, Standing};
pub use lbm::subscriber::Offer;
pub use lbm::transport::EndReason;
pub use lbm::wire::lbmr::Transport;
pub use report::SOCKET_PREFIX;
pub use run::Idle;
pub use sources::Sources;
pub use srs::{ServiceConfig, ServiceStats, Srs, SrsConfig};
pub use stats::{ReceivingStats, ReceivingTopic, SendingStats, SendingTopic, Stats};
pub use warning::Warning;
