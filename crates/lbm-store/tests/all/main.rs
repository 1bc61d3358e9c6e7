//! Tests of stores, persistent sources and persistent receivers together.

mod had;
mod random;
mod seeds;
mod tshark;
mod world;
