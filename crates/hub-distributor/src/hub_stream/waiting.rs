//! Updates that wait before they are published: those of services that are conflated here, ahead of the backbone.
//!
//! The rules are those of a P2PS ([`crate::conflation`]): quotes of an item merge until its interval ends, and go out ahead of anything else
//! that is published of the item.

use crate::conflation::merge::{Merged, Ripples, Room};
use crate::conflation::{Added, FIRST, ItemRules, ServiceConflation, TimeConflation};
use crate::ids::Handle;
use crate::stream::{BlockWriter, Event, update_flags_of};
use std::sync::Arc;

/// Totals of the updates that waited, since they were taken last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Updates published, merged or as they came.
    pub(crate) published: u64,
    /// Updates that were merged into these, beyond one for each.
    pub(crate) spared: u64,
    /// Merges that could not be written.
    pub(crate) unwritable: u64,
}

/// Updates that wait, by item.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    updates: TimeConflation<Handle>,
    rules: ItemRules<Handle>,
    ripples: Arc<Ripples>,
    room: Room,
    released: Released,
    /// The time of the call at hand, monotonic nanoseconds.
    now: u64,
}

impl Waiting {
    pub(super) fn new(ripples: Arc<Ripples>) -> Self {
        Self { ripples, ..Self::default() }
    }

    /// An entry point is called at this time.
    pub(super) fn begin(&mut self, now: u64) {
        self.now = now;
    }

    /// What an item's name and image say of its interval is noted.
    pub(super) fn note(
        &mut self,
        handle: Handle,
        conflation: &ServiceConflation,
        name: &[u8],
        image: (rwf::DataType, &[u8]),
    ) {
        self.rules.note(handle, conflation.interval, &conflation.exceptions, name, image);
    }

    /// Takes in an update of an item whose service has this interval, in milliseconds: what goes out because of it does so now.
    pub(super) fn add(&mut self, handle: Handle, interval: u16, rwf: &[u8], writer: &mut BlockWriter) {
        let interval = self.rules.interval(handle, interval, rwf);
        let added = if interval == 0 {
            Added::Passes(self.updates.take(handle))
        } else {
            self.updates.add(handle, interval, rwf, self.now, &self.ripples)
        };
        match added {
            Added::Waits => {}
            Added::Follows(before) => self.write(handle, &before, writer),
            Added::Passes(before) => {
                if let Some(before) = before {
                    self.write(handle, &before, writer);
                }
                writer.update_with(handle.0, update_flags_of(rwf), rwf);
                self.released.published += 1;
            }
        }
    }

    /// Publishes what is to go out before an event, if anything waits. True if something did.
    pub(super) fn release_before(&mut self, event: &Event<'_>, writer: &mut BlockWriter) -> bool {
        match *event {
            Event::Image { handle, .. }
            | Event::Answered { handle, .. }
            | Event::ItemStatus { handle, .. }
            | Event::Generic { handle, .. } => self.release(Handle(handle), writer),
            // Of which items these are, P2PSs know.
            Event::ServiceStatus { .. }
            | Event::GroupStatus { .. }
            | Event::ServiceGone { .. }
            | Event::Leaving { .. } => self.release_due(u64::MAX, writer),
            _ => false,
        }
    }

    /// Publishes what waits for an item. True if something did.
    pub(super) fn release(&mut self, handle: Handle, writer: &mut BlockWriter) -> bool {
        let Some(merged) = self.updates.take(handle) else { return false };
        self.write(handle, &merged, writer);
        true
    }

    /// Publishes what is due by a time. True if something was.
    pub(super) fn release_due(&mut self, by: u64, writer: &mut BlockWriter) -> bool {
        let mut is_any = false;
        while let Some((handle, merged)) = self.updates.take_due(by) {
            self.write(handle, &merged, writer);
            is_any = true;
        }
        is_any
    }

    fn write(&mut self, handle: Handle, merged: &Merged, writer: &mut BlockWriter) {
        let written = merged.write(FIRST, self.now, &mut self.room, |msg| {
            writer.update_with(handle.0, update_flags_of(msg), msg);
        });
        self.released.unwritable += u64::from(written.is_err());
        let written = u32::from(written.unwrap_or(0));
        self.released.published += u64::from(written);
        self.released.spared += u64::from(merged.came(FIRST).saturating_sub(written));
    }

    /// The item is gone: its number may become another's.
    pub(super) fn forget(&mut self, handle: Handle) {
        self.updates.take(handle);
        self.rules.forget(handle);
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// When something is due, or was.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.updates.timeout()
    }

    /// Totals since the last call.
    pub(super) fn take_released(&mut self) -> Released {
        std::mem::take(&mut self.released)
    }

    /// Panics if something waits for an item that is not there, or that is not conflated.
    pub(super) fn check(&self, is_conflated: impl Fn(Handle) -> bool) {
        self.updates.check(&is_conflated);
        self.rules.check(is_conflated);
    }
}
