//! The roles against each other, in memory.

mod against_provider;
mod consumer;
mod publisher;
mod world;
