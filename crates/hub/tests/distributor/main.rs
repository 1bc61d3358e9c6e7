//! The Source Distributor between hand-built providers and P2PSs.

mod cache;
mod cascade;
mod desktops;
mod directory;
mod filters;
mod hostile;
mod hot_standby;
mod interactive;
mod interruption;
mod network;
mod outage;
mod pause;
mod posts;
mod preemption;
mod published;
mod random;
mod random_published;
mod records;
mod recovery;
mod retention;
mod service_groups;
mod standby;
mod suspect;
mod views;
mod waits;
mod world;
