//! Routers as state machines: rules one by one, and whole worlds by seed.

mod hostile;
mod rules;
mod seeds;
mod world;
