//! Sources and receivers of queues in contexts of one process, over sockets.

mod rig;
mod transports;
