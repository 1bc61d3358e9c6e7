//! How long what nobody publishes any more is held.
//!
//! The image of an item whose non-interactive provider has gone stays, Suspect, for those who watch and for those who come; so does the
//! name of a service. Neither may stay for ever, or providers that come and go fill the tables. Every [`LOOK_MAX`] or sooner all that
//! nobody publishes is looked at, a slice at a time; what so many looks in a row have found idle is forgotten. Where the table of items
//! is full, idle images make room before their time.

use crate::SourceDistributor;
use crate::ids::Handle;
use crate::providers::Session;
use crate::timers::Timer;
use crate::{CloseReason, Origin, ProviderSink, SessionId};
use rwf::rdm::directory::Service as Entry;

const SECOND: u64 = 1_000_000_000;
/// Longest pause from one look to the next, nanoseconds.
const LOOK_MAX: u64 = 600 * SECOND;
/// Looks in the time that an image is held, if the pause between them is not bounded.
const LOOKS: u64 = 8;
/// Items that are looked at from one timer to the next, which is [20 ms](super::super::timers) later.
const SLICE: usize = 4_096;
/// Items that are looked at for one that can make room.
const ROOM_LOOKS: usize = 64;

/// Where the look is that is under way.
#[derive(Debug, Default)]
pub(super) struct Retention {
    /// Unpublished items that are yet to be looked at: those at the front of their list. `None` between two looks.
    left: Option<usize>,
    /// Where the next item that can make room is looked for.
    room_at: usize,
}

/// The pause from one look to the next, and after how many an image or service is forgotten.
fn plan(age: u64) -> (u64, u16) {
    let pause = (age / LOOKS).clamp(SECOND, LOOK_MAX);
    // The first look may come just after the provider has gone.
    let looks = (age.div_ceil(pause) + 1).min(u64::from(u16::MAX));
    (pause, looks as u16)
}

impl SourceDistributor {
    /// Looks at another slice of what nobody publishes, and at the services if that was the last one.
    pub(crate) fn retention_timer(&mut self, out: &mut dyn ProviderSink) {
        let (pause, looks) = plan(self.config.age_unpublished);
        let held = self.items.unpublished().len();
        let mut left = self.published.retention.left.take().unwrap_or(held);
        for _ in 0..SLICE {
            // From the end: what is forgotten gives its place to one that was looked at.
            let Some(at) = left.min(self.items.unpublished().len()).checked_sub(1) else {
                left = 0;
                break;
            };
            left = at;
            self.look_at(Handle(self.items.unpublished()[at]), looks);
        }
        if left > 0 {
            self.published.retention.left = Some(left);
            return self.timers.set(self.now.saturating_add(1), Timer::Retention);
        }
        self.look_at_services(looks, out);
        self.timers.set(self.now.saturating_add(pause), Timer::Retention);
    }

    /// Nobody watches an image that is held, or waits for it.
    fn is_idle(&self, handle: Handle) -> bool {
        !self.items[handle].has_interest() && !self.published.snapshots.any(handle)
    }

    fn look_at(&mut self, handle: Handle, looks: u16) {
        let Some(image) = self.items[handle].image() else {
            return hub_items::fault!("{handle:?} has no image, and is published");
        };
        if !self.is_idle(handle) {
            self.published.images.touch(image);
        } else if self.published.images.look(image) >= looks {
            self.counters.images_aged += 1;
            self.end_item(handle);
        }
    }

    /// Whether another item may be made; the image of one that nobody publishes or watches makes room if none is left, but not that of
    /// `spare`.
    pub(crate) fn find_room(&mut self, spare: Option<Handle>) -> bool {
        if !self.is_full() {
            return true;
        }
        for _ in 0..ROOM_LOOKS.min(self.items.unpublished().len()) {
            let unpublished = self.items.unpublished();
            let at = self.published.retention.room_at % unpublished.len();
            let handle = Handle(unpublished[at]);
            if self.is_idle(handle) && Some(handle) != spare {
                self.counters.images_aged += 1;
                self.end_item(handle);
                return !self.is_full();
            }
            self.published.retention.room_at = at + 1;
        }
        false
    }

    /// Forgets the services that nobody has offered for long and that have no item, and lets those in that found no id.
    fn look_at_services(&mut self, looks: u16, out: &mut dyn ProviderSink) {
        self.providers.rest_is_over();
        for id in self.providers.service_ids() {
            let known = &self.providers[id];
            // The deletion of a service has an end of its own.
            if known.is_forgotten() || known.is_settling {
                continue;
            }
            if !known.providers().is_empty() || self.items.any_of_service(id) {
                self.providers[id].idle_looks = 0;
                continue;
            }
            let known = &mut self.providers[id];
            known.idle_looks = known.idle_looks.saturating_add(1);
            // A service that P2PSs do not know is missed by nobody.
            if known.idle_looks >= if known.advertised { looks } else { 2 } {
                self.counters.services_aged += 1;
                self.tell_gone(id);
                self.providers.forget_service(id);
            }
        }
        if self.providers.has_room_for_services() {
            self.let_in_refused(out);
        }
    }

    fn let_in_refused(&mut self, out: &mut dyn ProviderSink) {
        let lacking = |entry: &&Entry| entry.name().is_some_and(|name| !self.providers.has_service(name));
        let waits = |(id, session): (SessionId, &Session)| {
            let entries: Vec<Entry> = session.all_refused().filter(lacking).cloned().collect();
            (!entries.is_empty()).then_some((id, session.origin, entries))
        };
        let waits: Vec<_> = self.providers.iter().filter_map(waits).collect();
        for (id, origin, entries) in waits {
            if origin == Origin::NonInteractive {
                // Items that it has published in them are not held: it publishes all of it when it comes back.
                self.close_session(id, &CloseReason::RoomForServices, out);
                continue;
            }
            for entry in entries {
                self.service_entry(id, &entry, out);
            }
        }
    }
}
