//! Delivery: messages to the clients.
//!
//! * `output`: the tables of this folder as one group, with what others may do to it;
//! * `turn`: the deliveries of a turn;
//! * `deliveries`: what one client gets in a flush;
//! * `kept`: deliveries of several turns that wait for one client;
//! * `events`: what Source Distributors publish, updates above all;
//! * `images`, `statuses`: images and states on their way to the watchers;
//! * `scratch`: memory that is used again and again;
//! * `cached`: images out of the cache, and what goes into it;
//! * `compose`: messages of the P2PS's own.

mod cached;
mod compose;
mod conflated;
pub(crate) mod deliveries;
mod events;
pub(crate) mod images;
pub(crate) mod kept;
pub(crate) mod output;
mod scratch;
pub(crate) mod statuses;
pub(crate) mod turn;
