//! What goes to the clients.
//!
//! * `turn`: the deliveries of a turn;
//! * `events`: what Source Distributors publish, updates above all;
//! * `images`, `statuses`: images and states on their way to the watchers;
//! * `cached`: images out of the cache, and what goes into it;
//! * `compose`: messages of the P2PS's own.

mod cached;
mod compose;
mod conflated;
mod events;
pub(crate) mod images;
pub(crate) mod statuses;
pub(crate) mod turn;
