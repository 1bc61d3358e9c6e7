//! Tests of stores, persistent sources and persistent receivers together.

mod had;
mod seeds;
mod tshark;
mod world;
