//! A client against the provider of `omm`, without sockets.

mod images;
mod sharing;
mod world;
