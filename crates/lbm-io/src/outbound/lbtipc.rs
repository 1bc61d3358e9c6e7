//! LBT-IPC: a log in shared memory. What is complete is published at once; nothing waits for a turn.

use std::os::fd::{AsFd, BorrowedFd};

use lbm::options::{ContextOption, Options, SourceOption};
use lbm::topic::SendError;
use lbm::transport::ipc::{self, Identity, Log, Room};
use lbm::transport::{Carrier, SenderStats};
use lbm::wire::lbmr::Transport;
use net::shm::{Pacing, Writer};

use crate::error::ContextError;
use crate::{ipc_host, random};

/// How often dead readers are looked for, ns.
const REAP_NS: u64 = 1_000_000_000;

/// The log's view of the segment.
pub(super) struct Memory(Writer);

impl Room for Memory {
    #[inline]
    fn room(&mut self, want: usize) -> &mut [u8] {
        self.0.room(want)
    }

    #[inline]
    fn publish(&mut self, bytes: usize) {
        self.0.publish(bytes);
    }
}

pub(super) struct IpcOut {
    log: Log,
    memory: Memory,
    pacing: ipc::Pacing,
    batching_interval_ns: u64,
    /// Since when messages wait for a fuller datagram.
    open_since: Option<u64>,
    beat_interval_ns: u64,
    beat_due: u64,
    reap_due: u64,
    /// The room that the last refused message needs.
    refused: usize,
    would_block: u64,
}

impl IpcOut {
    pub(super) fn open(options: &Options, place: u32, now: u64) -> Result<(Self, Transport), ContextError> {
        let own = options.get(SourceOption::TRANSPORT_LBTIPC_ID);
        let low = options.get(ContextOption::TRANSPORT_LBTIPC_ID_LOW);
        let transport_id = if own == 0 { low.saturating_add(place as u16) } else { own };
        let identity = Identity { session_id: random::id(), transport_id, host_id: ipc_host::id() };
        let datagram_max = options.get(ContextOption::TRANSPORT_LBTIPC_DATAGRAM_MAX_SIZE);
        let window = options.get(SourceOption::TRANSPORT_LBTIPC_TRANSMISSION_WINDOW_SIZE);
        let capacity = window.clamp(4 * 65_536, net::shm::CAPACITY_MAX / 2).next_power_of_two();
        let pacing = options.lbtipc_pacing();
        let shared = match pacing {
            ipc::Pacing::Source => Pacing::Source,
            ipc::Pacing::Receiver => Pacing::Receiver,
        };
        ipc_host::sweep();
        let path = ipc_host::path(identity.session_id, transport_id);
        let writer = Writer::create(&path, &identity.encode(), capacity, shared)
            .map_err(|error| ContextError::Unsupported(error.to_string()))?;
        writer.beat(now);
        let transport =
            Transport::Lbtipc { host: identity.host_id, session_id: identity.session_id, transport: transport_id };
        let out = Self {
            log: Log::new(datagram_max, options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH), pacing),
            memory: Memory(writer),
            pacing,
            batching_interval_ns: options.get(SourceOption::IMPLICIT_BATCHING_INTERVAL),
            open_since: None,
            beat_interval_ns: options.get(SourceOption::TRANSPORT_LBTIPC_SM_INTERVAL).max(1_000_000),
            beat_due: now,
            reap_due: now + REAP_NS,
            refused: 0,
            would_block: 0,
        };
        Ok((out, transport))
    }

    #[inline]
    pub(super) fn carrier(&mut self) -> impl Carrier {
        self.log.writer(&mut self.memory)
    }

    /// A source that waits for its readers cannot wait for more than there is.
    #[inline]
    pub(super) fn can_ever_take(&self, length: usize) -> bool {
        length < 65_536
            || self.pacing == ipc::Pacing::Source
            || self.log.needs(length + length / 64 + 4_096) <= self.memory.0.capacity()
    }

    /// After a send, for the timer of batches and the wake-up of a refused one.
    #[inline]
    pub(super) fn sent(&mut self, now: u64, length: usize, result: Result<u32, SendError>) {
        if result == Err(SendError::WouldBlock) {
            self.would_block += 1;
            // The transport's and the topic's headers; what the log adds it knows.
            self.refused = self.log.needs(length + 4_096);
            self.memory.0.reap();
        } else if !self.log.is_open() {
            self.open_since = None;
        } else if self.open_since.is_none() {
            self.open_since = Some(now);
        }
    }

    pub(super) fn flush(&mut self, now: u64) {
        self.carrier().flush(now);
        self.open_since = None;
    }

    /// Whether the refused message would find room; if not, the descriptor wakes us when readers make some.
    pub(super) fn is_writable(&mut self) -> bool {
        self.pacing == ipc::Pacing::Source || !self.memory.0.arm(self.refused.min(self.memory.0.capacity()))
    }

    pub(super) fn timeout(&self) -> Option<u64> {
        let batch = self.open_since.map(|at| at.saturating_add(self.batching_interval_ns));
        batch.into_iter().chain([self.beat_due, self.reap_due]).min()
    }

    pub(super) fn on_timer(&mut self, now: u64) {
        if self.open_since.is_some_and(|at| at.saturating_add(self.batching_interval_ns) <= now) {
            self.flush(now);
        }
        if now >= self.beat_due {
            self.memory.0.beat(now);
            self.beat_due = now + self.beat_interval_ns;
        }
        if now >= self.reap_due {
            self.memory.0.reap();
            self.reap_due = now + REAP_NS;
        }
    }

    pub(super) fn stats(&self) -> (SenderStats, usize) {
        let stats =
            SenderStats { bytes: self.memory.0.published(), would_block: self.would_block, ..SenderStats::default() };
        (stats, self.memory.0.readers())
    }
}

impl AsFd for IpcOut {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.0.as_fd()
    }
}
