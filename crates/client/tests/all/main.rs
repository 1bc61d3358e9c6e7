//! A client against the provider of `omm`, without sockets.

mod images;
mod links;
mod pauses;
mod provided;
mod publication;
mod sharing;
mod sites;
mod takeovers;
mod world;
