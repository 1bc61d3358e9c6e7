//! Queuing by load for LBM topics over sockets: the sources and receivers of [`lbm_queue`] on a [`Context`](lbm_io::Context).
//!
//! [`Queues`] stands beside a context and gets its events: a program without other sources and receivers calls [`Queues::poll`]; one that has
//! them gives [`Queues::events`] to the context's turn, and calls [`Queues::turn`] behind it.
#![forbid(unsafe_code)]

mod events;
mod queues;
mod turn;

pub use events::{AddError, Assigned, Consumption, QueueEvents, SendRefused};
pub use lbm_queue::receiver::{ReceiverEvent, ReceiverStats};
pub use lbm_queue::source::{NotAdmitted, SourceEvent, SourceStats};
pub use lbm_queue::{Index, MessageId};
pub use queues::{Queues, QueuesStats};
pub use turn::ToQueues;
