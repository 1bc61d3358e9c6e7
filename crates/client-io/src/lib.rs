//! The client side over sockets: data in five lines, for programs that block, call back or wait for futures.
//!
//! ```no_run
//! use client_io::{Session, SessionConfig};
//!
//! let session = Session::connect(SessionConfig::new("localhost:14002", "user")?)?;
//! let mut quotes = session.subscribe("DIRECT_FEED", ["IBM.N", "MSFT.O"])?;
//! while let Some(message) = quotes.next(None)? {
//!     println!("{} {:?}", message.item, message.class);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | type | for whom |
//! |---|---|
//! | [`Session`] and [`Subscription`] | a thread of the session's own reads; the application takes messages when it likes: it blocks ([`Subscription::next`], [`Subscription::next_batch`]), or awaits [`Subscription::ready_batch`] in whatever runtime it has |
//! | [`Followed`] | the members of a chain or symbol list, as they come and go |
//! | [`Connection`] | no thread: the application calls [`Connection::turn`], and is called back with each message where it lies |
//! | [`Publisher`] | a service of the application's own, as an interactive provider or at a server |
//!
//! A session goes through its list of servers, logs in again, and asks again for its items, until it is dropped ([`omm::consumer`]).
#![forbid(unsafe_code)]

mod connection;
mod dial;
mod event_queue;
mod followed;
mod handle;
mod publisher;
mod session;
mod settings;
mod subscription;

pub use connection::{Connection, Notice};
pub use dial::Dial;
pub use followed::{FollowError, Followed, Step};
pub use publisher::{PublishError, Publisher, PublisherStatus};
pub use session::{Link, Session, Status};
pub use settings::{AddressError, Encryption, SessionConfig, Transport};
pub use subscription::{Ended, PostFailure, SubscribeError, Subscription};
