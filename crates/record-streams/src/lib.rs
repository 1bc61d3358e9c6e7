//! Recordings that are followed while they are written, and sent on to a message broker or an object store.
//!
//! * [`Target`] says where to: a stream of NATS `JetStream`, a topic of Kafka, a bucket of S3 or a folder.
//! * [`Follower`] makes [`Message`]s of what a recording has behind the last one that a broker has taken.
//! * [`run`] sends until it is stopped, and goes on where it was.
//!
//! What waits for a broker waits on the disk, in the recording: whoever writes it knows nothing of the broker, and waits for nobody. Each message is
//! sent until the broker has said that it has it, so at least once; its [id](Message::id) is the same each time and that of no other message, so that
//! `JetStream` leaves out what it has already. An object store gets each segment when it is closed, as files of Parquet, and [`put_files`] puts an export.
#![forbid(unsafe_code)]

mod config;
mod dataset;
mod error;
mod follow;
mod http;
mod kafka;
mod message;
mod nats;
mod objects;
mod place;
mod retry;
mod run;
mod target;

pub use config::{Config, Progress, Start};
pub use error::Error;
pub use follow::Follower;
pub use kafka::partition_of;
pub use message::{Form, Message, subject};
pub use objects::put_files;
pub use place::Place;
pub use run::run;
pub use target::{Access, Target, TargetError};
