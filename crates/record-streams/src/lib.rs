//! Recordings that are followed while they are written, and sent on to a message broker.
//!
//! * [`Target`] says where to: a stream of NATS `JetStream`, or a topic of Kafka.
//! * [`Follower`] makes [`Message`]s of what a recording has behind the last one that a broker has taken.
//! * [`run`] sends until it is stopped, and goes on where it was.
//!
//! What waits for a broker waits on the disk, in the recording: whoever writes it knows nothing of the broker, and waits for nobody. Each message is
//! sent until the broker has said that it has it, so at least once; its [id](Message::id) is the same each time and that of no other message, so that
//! `JetStream` leaves out what it has already.
#![forbid(unsafe_code)]

mod error;
mod follow;
mod kafka;
mod message;
mod nats;
mod place;
mod run;
mod target;

pub use error::Error;
pub use follow::Follower;
pub use kafka::partition_of;
pub use message::{Form, Message, subject};
pub use place::Place;
pub use run::{Config, Progress, Start, run};
pub use target::{Access, Target, TargetError};
