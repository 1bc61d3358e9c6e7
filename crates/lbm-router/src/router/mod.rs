//! The router.

mod domains;
mod onward;
mod peers;
mod portal;
mod report;
mod route;
mod stores;
mod stream;
mod tables;
mod times;

pub use portal::PortalStats;
pub use report::TopicView;
pub use tables::{Router, RouterStats};
