//! A receiving session in shared memory.

use std::os::fd::AsFd;

use lbm::options::{Options, ReceiverOption};
use lbm::transport::EndReason;
use lbm::transport::ipc::{Identity, LogReader};
use net::shm::{Reader, WriterState};

use crate::io::{Io, Watch};
use crate::{ContextError, ipc_host};

/// How often we look whether the writer of shared memory lives, ns.
const WRITER_CHECK_NS: u64 = 500_000_000;

/// A log in shared memory.
pub(super) struct Shared {
    pub(super) reader: Reader,
    pub(super) log: LogReader,
    pub(super) watch: u32,
    /// When to look whether the writer lives.
    pub(super) check_due: u64,
    /// How old its last sign of life may be, ns.
    activity_timeout_ns: u64,
}

impl Shared {
    /// The log of a session on this host.
    pub(super) fn open(
        session: usize,
        session_id: u32,
        transport: u16,
        options: &Options,
        io: &mut Io,
    ) -> Result<Self, ContextError> {
        let bad = |error: &dyn std::fmt::Display| ContextError::Unsupported(error.to_string());
        let reader = Reader::open(&ipc_host::path(session_id, transport)).map_err(|e| bad(&e))?;
        if Identity::decode(reader.identity()).is_none_or(|identity| identity.session_id != session_id) {
            return Err(bad(&"the shared memory belongs to another session"));
        }
        let watch = io.watch(reader.as_fd(), Watch::Inbound(session))?;
        let activity_timeout_ns = options.get(ReceiverOption::TRANSPORT_LBTIPC_ACTIVITY_TIMEOUT);
        Ok(Self { reader, log: LogReader::new(), watch, check_due: 0, activity_timeout_ns })
    }

    /// Whether the writer is gone or frozen. What it has written before was read.
    pub(super) fn check(&mut self, now: u64) -> Option<EndReason> {
        self.check_due = now + WRITER_CHECK_NS;
        if self.reader.writer() != WriterState::Alive {
            return Some(EndReason::Reset);
        }
        let silent = now.saturating_sub(self.reader.last_beat()) > self.activity_timeout_ns;
        (silent && self.reader.last_beat() != 0).then_some(EndReason::Timeout)
    }
}
