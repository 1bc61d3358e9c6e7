//! The client side of an application, as a state machine without I/O: over a [consumer](omm::consumer) of `omm`, which logs in, finds services and
//! recovers items, lie subscriptions.
//!
//! | module | what it has |
//! |---|---|
//! | [`Client`] | subscriptions of many items; requests that are equal share one stream; posts and their acknowledgements |
//! | [`Arrangement`] | several connections at a time: items routed to one of them, or one that serves and others that stand by |
//! | [`queue`] | what waits for an application that is slower than its data: bounded, and what happens at the bound |
//! | [`fields`] | values by name, decoded when they are looked at; structs of fields ([`Fields`], `#[derive(Fields)]`) |
//! | [`members`] | the members of chains and symbol lists, followed as they change |
//! | [`publication`] | the other side: items that an application publishes, as interactive and as non-interactive provider |
//! | [`images`] | held images of a subscription's items, on the application's side |
//!
//! `client-io` runs a [`Client`] on sockets, for programs that block, call back or wait for futures. Time is an argument (`now`, nanoseconds of a
//! monotonic clock).
#![forbid(unsafe_code)]

mod client;
mod config;
mod delivery;
mod events;
pub mod fields;
pub mod images;
mod links;
pub mod members;
mod places;
mod plain;
mod posts;
pub mod publication;
pub mod queue;
mod streams;
mod subscription;
pub mod visits;
mod watchers;

pub use client::{Client, PostError};
pub use client_derive::Fields;
pub use config::ClientConfig;
pub use delivery::Delivery;
pub use events::Event;
pub use fields::{Fields, Layout};
pub use links::{Arrangement, Availability, LINKS_MAX, LinkId};
pub use subscription::{Interest, SubscriptionId};
