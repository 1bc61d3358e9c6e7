//! The published stream that all P2PSs read, what is kept of it for those that lose some, and whether they keep up.

mod composer;
mod flow_control;
mod history;

pub(crate) use composer::Composer;

use super::Config;
use super::ids::{Handle, Slot};
use crate::stream::{BlockWriter, Event, Kind, Message};
use flow_control::FlowControl;
use history::History;

/// The stream of one life of a Source Distributor.
#[derive(Debug)]
pub(crate) struct HubStream {
    writer: BlockWriter,
    history: History,
    flow_control: FlowControl,
    incarnation: u32,
}

impl HubStream {
    pub(crate) fn new(config: &Config, incarnation: u32) -> Self {
        Self {
            writer: if config.history_bytes > 0 {
                BlockWriter::indexed(incarnation)
            } else {
                BlockWriter::new(incarnation)
            },
            history: History::new(config.history_bytes),
            flow_control: FlowControl::new(config.window, config.patience),
            incarnation,
        }
    }

    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Publishes one event.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        self.writer.event(event);
    }

    /// Publishes an update: a header and a copy.
    #[inline]
    pub(crate) fn update(&mut self, handle: Handle, flags: u8, rwf: &[u8]) {
        self.writer.update_with(handle.0, flags, rwf);
    }

    /// Publishes again what one P2PS has lost.
    pub(crate) fn repeat(&mut self, kind: Kind, target: u16, handle: u32, arg: u32, body: &[u8]) {
        self.writer.message_with(kind, 0, target, handle, arg, |out| out.extend_from_slice(body));
    }

    /// What is published goes to this block from now on, and what is in the block is the stream: for messages to one P2PS alone.
    pub(crate) fn swap(&mut self, other: &mut BlockWriter) {
        std::mem::swap(&mut self.writer, other);
    }

    /// Position of the next message.
    pub(crate) fn next_position(&self) -> u64 {
        self.writer.next_position()
    }

    /// The messages that were published since [`Self::end_block`].
    pub(crate) fn block(&self) -> Option<&[u8]> {
        self.writer.block()
    }

    /// The block was handed on.
    pub(crate) fn end_block(&mut self) {
        let end = self.writer.next_position();
        let (block, index) = self.writer.parts_mut();
        if let Some(block) = block {
            if let Some(index) = index {
                self.history.keep(block, index, end);
            }
            self.flow_control.published(block.len(), end);
        }
        self.writer.clear();
    }

    /// True if all that was published from this position on is kept.
    pub(crate) fn keeps(&self, from: u64) -> bool {
        self.history.reaches(from)
    }

    /// The messages from one position up to before another, as far as they are kept.
    pub(crate) fn kept(&self, from: u64, to: u64) -> impl Iterator<Item = Message<'_>> {
        self.history.messages(from, to)
    }

    /// A P2PS reads from here on.
    pub(crate) fn reader_joined(&mut self, now: u64, slot: Slot) {
        self.flow_control.joined(now, slot);
    }

    /// A P2PS reads no more.
    pub(crate) fn reader_left(&mut self, slot: Slot) {
        self.flow_control.left(slot);
    }

    /// A P2PS has read up to a position.
    pub(crate) fn has_read(&mut self, now: u64, slot: Slot, position: u64) {
        debug_assert!(position <= self.next_position(), "the caller has checked that it is published");
        self.flow_control.has_read(now, slot, position);
    }

    /// How often providers had to wait, and how many P2PSs were left behind.
    pub(crate) fn waits(&self) -> (u64, u64) {
        (self.flow_control.waits, self.flow_control.left_behind)
    }

    /// Whether providers have to wait now.
    pub(crate) fn must_wait(&mut self, now: u64) -> bool {
        self.flow_control.must_wait(now)
    }

    /// Bytes that a P2PS has yet to read, at most, and whether it was left behind.
    pub(crate) fn behind(&self, slot: Slot) -> (u64, bool) {
        self.flow_control.behind(slot)
    }

    /// When a P2PS may have to be left behind.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.flow_control.deadline()
    }
}
