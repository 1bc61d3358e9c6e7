//! The published stream that all P2PSs read, what waits to be published, what is kept of the stream for those that lose some, and whether
//! they keep up.

mod composer;
mod flow_control;
mod history;
mod waiting;

pub(crate) use composer::Composer;

use super::Config;
use super::ids::{Handle, Slot};
use crate::conflation::ServiceConflation;
use crate::stream::{BlockWriter, Event, Kind, Message};
use flow_control::FlowControl;
use history::History;
use rwf::msg::RefreshMsg;
use waiting::{Released, Waiting};

/// The stream of one life of a Source Distributor.
#[derive(Debug)]
pub(crate) struct HubStream {
    writer: BlockWriter,
    /// What is published is for one P2PS alone, and belongs to no place in the stream.
    is_swapped: bool,
    waiting: Waiting,
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
            is_swapped: false,
            waiting: Waiting::new(config.ripples.clone()),
            history: History::new(config.history_bytes),
            flow_control: FlowControl::new(config.window, config.patience),
            incarnation,
        }
    }

    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// An entry point is called at this time.
    #[inline]
    pub(crate) fn begin(&mut self, now: u64) {
        self.waiting.begin(now);
    }

    /// Publishes one event, behind what waits of the items that it is about.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        let Self { writer, waiting, .. } = self;
        if waiting.is_empty() || self.is_swapped || !waiting.release_before(event, writer) {
            return writer.event(event);
        }
        // The message belongs behind what went out before.
        let here = writer.next_position();
        let mut event = *event;
        if let Event::Image { position, .. } | Event::Answered { position, .. } = &mut event {
            *position = here;
        }
        writer.event(&event);
    }

    /// Publishes an update; if its item is conflated it waits for its interval, and is counted when it goes out. True if it was published and is to be
    /// counted.
    pub(crate) fn relay(
        &mut self,
        handle: Handle,
        flags: u8,
        rwf: &[u8],
        conflation: Option<&ServiceConflation>,
    ) -> bool {
        if let Some(conflation) = conflation {
            debug_assert_eq!(flags, crate::stream::update_flags_of(rwf), "flags of another update");
            self.waiting.add(handle, conflation.interval, rwf, &mut self.writer);
        } else {
            self.update(handle, flags, rwf);
        }
        conflation.is_none()
    }

    /// The first part of an image has come: of an item that is conflated, its name and the image may say another interval.
    pub(crate) fn note_interval(
        &mut self,
        handle: Handle,
        conflation: Option<&ServiceConflation>,
        name: Option<&[u8]>,
        refresh: &RefreshMsg<'_>,
    ) {
        if let Some(conflation) = conflation {
            let image = (refresh.container, refresh.body);
            self.waiting.note(handle, conflation, name.unwrap_or_default(), image);
        }
    }

    /// Publishes what waits of an item: for what is to go to a P2PS beside the stream, and belongs behind that.
    pub(crate) fn release(&mut self, handle: Handle) {
        if !self.waiting.is_empty() {
            self.waiting.release(handle, &mut self.writer);
        }
    }

    /// Publishes what has waited for its interval.
    pub(crate) fn release_due(&mut self, now: u64) {
        self.waiting.release_due(now, &mut self.writer);
    }

    /// Counts of what became of updates that waited, since the last call.
    pub(crate) fn take_released(&mut self) -> Released {
        self.waiting.take_released()
    }

    /// The item is gone: its number may become another's.
    pub(crate) fn forget(&mut self, handle: Handle) {
        self.waiting.forget(handle);
    }

    /// Asserts that updates wait for items alone that are conflated.
    pub(crate) fn check(&self, is_conflated: impl Fn(Handle) -> bool) {
        assert!(!self.is_swapped, "the stream goes to one P2PS alone");
        self.waiting.check(is_conflated);
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
        self.is_swapped = !self.is_swapped;
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

    /// When a P2PS may have to be left behind, or what waits is due.
    pub(crate) fn deadline(&self) -> Option<u64> {
        hub_items::deadlines::earliest([self.flow_control.deadline(), self.waiting.deadline()])
    }
}
