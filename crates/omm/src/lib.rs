//! The roles of OMM market data as state machines without I/O: a [`consumer`], an interactive [`provider`], and a
//! non-interactive one, the [`publisher`].
//!
//! This crate knows what to say and what answers mean: login, directory, dictionaries, items and their recovery, lists of
//! servers. It opens no socket, reads no clock, starts no thread and writes no log. Whole messages and the time
//! (`now`, monotonic nanoseconds) go in, whole messages and events come out; `rssl` makes bytes of messages.
//!
//! A consumer and a publisher are driven alike:
//!
//! 1. `poll_connect(now)` names the server to connect to; when the session is made, `handle_connected(now)`, else
//!    `handle_disconnected(now)`, also when it is lost later.
//! 2. `handle_message(now, msg)` for each message that comes, `handle_timeout(now)` when `timeout()` is reached.
//! 3. After each call: `poll_event()` until there is none, and `poll_transmit()` until there is none, each to be sent.
//!
//! A [`provider::Provider`] is one accepted connection: steps 2 and 3, without time.
//!
//! ```
//! use omm::consumer::{Consumer, ConsumerConfig, Event, ItemRequest};
//! use omm::provider::{self, Provider, ProviderConfig};
//! use omm::{ConnectionList, Server};
//! use rwf::msg::{Domain, RefreshFlags, RefreshMsg};
//! use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
//! use rwf::{State, StreamState};
//! use std::sync::Arc;
//!
//! let mut service = Service::new(1, Action::Add);
//! service.info = Some(Part::Set(Info {
//!     name: "DIRECT_FEED".into(),
//!     capabilities: vec![Domain::MARKET_PRICE],
//!     ..Info::default()
//! }));
//! service.state = Some(Part::Set(ServiceState::new(true)));
//! let config = ProviderConfig { services: vec![service], ..ProviderConfig::default() };
//! let mut provider = Provider::new(Arc::new(config));
//!
//! let servers = ConnectionList::new(vec![Server::new("localhost", 14_002)]);
//! let mut consumer = Consumer::new(ConsumerConfig::new(servers, "user"));
//! let item = consumer.open(0, ItemRequest::new("DIRECT_FEED", "IBM.N"))?;
//! let mut image = None;
//!
//! assert_eq!(consumer.poll_connect(0).map(|server| server.port), Some(14_002));
//! consumer.handle_connected(0);
//! while image.is_none() {
//!     while let Some(msg) = consumer.poll_transmit() {
//!         provider.handle_message(msg);
//!         while let Some(event) = provider.poll_event() {
//!             match event {
//!                 provider::Event::Login(request) => provider.accept_login(&request, "welcome"),
//!                 provider::Event::Open(asked) => {
//!                     let refresh = RefreshMsg {
//!                         flags: RefreshFlags::REFRESH_COMPLETE,
//!                         state: State::OPEN_OK,
//!                         ..RefreshMsg::new(asked.domain, asked.stream_id)
//!                     };
//!                     provider.refresh(&refresh);
//!                 }
//!                 _ => {}
//!             }
//!         }
//!     }
//!     while let Some(msg) = provider.poll_transmit() {
//!         image = consumer.handle_message(0, msg).map(|given| given.item);
//!         while let Some(event) = consumer.poll_event() {
//!             println!("{event:?}"); // LoggedIn, ServiceUp
//!         }
//!     }
//! }
//! assert_eq!(image, Some(item));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod by_stream;
pub mod consumer;
mod directory;
pub mod login;
mod outbox;
pub mod provider;
pub mod publisher;
mod schedule;
mod servers;
mod session;
pub mod tunnel;

pub use by_stream::ByStream;
pub use schedule::{Schedule, ScheduleError};
pub use servers::{ConnectionList, Server, WallClock};
pub use session::Disconnect;
