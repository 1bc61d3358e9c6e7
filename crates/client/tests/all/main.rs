//! A client against the provider of `omm`, without sockets.

mod images;
mod links;
mod opened;
mod pauses;
mod provided;
mod provided_links;
mod publication;
mod room;
mod sharing;
mod sites;
mod takeovers;
mod world;
