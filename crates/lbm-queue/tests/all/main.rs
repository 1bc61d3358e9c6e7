//! Tests of sources and receivers of queues together.

mod rules;
mod seeds;
mod tshark;
mod world;
