//! The way to interactive providers: which provider is asked for what, when, and for whom the answers are.
//!
//! | file | what it knows |
//! |---|---|
//! | `requests` | queues, open windows, request pacing, timeouts and retries |
//! | `routing` | which provider is asked |
//! | `preemption` | which item gives its place at a provider to another |
//! | `item_priorities` | priorities and locks that items have whoever asks for them |
//! | `request_merge` | the one request that several P2PSs' demands make |
//! | `item_messages` | what providers send on item streams |
//! | `doubts` | what was unanswered when a provider went: asked last, singly, and given up in the end |
//! | `pending_images` | which P2PSs an answer is not for yet |
//! | `stale` | when an image is asked for of an item that its provider says Suspect of |
//! | `point_to_point` | on which way an image goes to whom |

mod doubts;
mod item_messages;
pub(crate) mod item_priorities;
mod pending_images;
mod point_to_point;
mod preemption;
mod request_merge;
mod requests;
mod routing;
mod stale;

pub(crate) use point_to_point::write_image;
pub(crate) use routing::Wait;

use super::ids::{Handle, Slot};
use super::items::Items;
use super::{Config, SessionId};
use doubts::Doubts;
use item_priorities::{ItemPriorities, Locked};
use pending_images::PendingImages;
use point_to_point::{PointToPoint, Recipients};
use preemption::Preemption;
use request_merge::RequestMerge;
use rustc_hash::FxHashMap;
use rwf::msg::RequestMsg;
use stale::StaleItems;

/// What is known of items on their way to and from interactive providers, beside their states: side tables, since few items
/// have anything in them.
#[derive(Debug)]
pub(crate) struct Upstream {
    merge: RequestMerge,
    pending: PendingImages,
    delivery: PointToPoint,
    pacing: RequestPacing,
    doubts: Doubts,
    /// The session that failed an item last: another one is asked before it.
    failed_at: FxHashMap<Handle, SessionId>,
    preemption: Preemption,
    stale: StaleItems,
    /// The list of priorities of items.
    priorities: ItemPriorities,
    /// Items that operators have locked.
    locked: Locked,
}

impl Upstream {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            merge: RequestMerge::default(),
            pending: PendingImages::default(),
            delivery: PointToPoint::default(),
            pacing: RequestPacing { left: config.opens_per_turn, taken: 0, exhausted: false },
            doubts: Doubts::new(config.hash_seed),
            failed_at: FxHashMap::default(),
            preemption: Preemption::default(),
            stale: StaleItems::default(),
            priorities: config.item_priorities.clone(),
            locked: Locked::default(),
        }
    }

    /// A turn begins, in which so many item requests may be sent.
    pub(crate) fn begin_turn(&mut self, requests: u32) {
        self.pacing.begin_turn(requests);
    }

    /// True if something waits for the next turn.
    pub(crate) fn has_work(&self) -> bool {
        self.pacing.is_exhausted() || self.doubts.is_due()
    }

    /// The requests that a turn may send.
    pub(crate) fn pacing(&mut self) -> &mut RequestPacing {
        &mut self.pacing
    }

    /// What a P2PS wants of an item, which its provider is asked for with what others want.
    pub(crate) fn note_demand(&mut self, handle: Handle, slot: Slot, request: &RequestMsg<'_>) {
        self.merge.note(handle, slot, request);
    }

    /// A P2PS waits for an image of an item, alone or in the stream.
    pub(crate) fn want_image(&mut self, handle: Handle, slot: Slot, alone: bool) {
        self.delivery.want(handle, slot, alone);
    }

    /// Whether the provider of an item was asked for less than the whole of it.
    pub(crate) fn is_narrowed(&self, handle: Handle) -> bool {
        self.merge.is_narrowed(handle)
    }

    /// Whether an item rests at its provider.
    pub(crate) fn is_paused(&self, handle: Handle) -> bool {
        self.merge.is_paused(handle)
    }

    /// Whether an item is to rest at its provider, since all of so many P2PSs that watch it have paused.
    pub(crate) fn is_to_pause(&self, handle: Handle, watching: usize) -> bool {
        self.merge.is_to_pause(handle, watching)
    }

    /// Whether an image of an item goes to a P2PS on its own way.
    pub(crate) fn goes_alone(&mut self, handle: Handle, slot: Slot) -> bool {
        self.delivery.goes_alone(handle, slot)
    }

    /// P2PSs that came in the middle of the image that is whole now: who gets another one, out of the cache. None if some wait for an image
    /// of something else.
    pub(crate) fn serve_latecomers(&mut self, handle: Handle) -> Option<Recipients> {
        let left_out = self.pending.all(handle);
        left_out.is_empty().then(|| self.delivery.serve(handle, &left_out, true, true))
    }

    /// Nobody waits for an image of an item any more that was asked for and has not come.
    pub(crate) fn owe_nothing(&mut self, handle: Handle) {
        self.pending.forget_item(handle);
    }

    /// Items that wait to be asked for last and singly.
    pub(crate) fn in_doubt(&self) -> impl Iterator<Item = Handle> + '_ {
        self.doubts.queued()
    }

    /// Items of a service that wait so.
    pub(crate) fn waiting_in_doubt(&self, service: u16, items: &Items) -> usize {
        self.doubts.waiting_of(service, items)
    }

    /// The end of a session was told everywhere: nothing is asked for there.
    pub(crate) fn forget_session(&mut self, id: SessionId) {
        self.doubts.forget_session(id);
    }

    /// Other priorities of items.
    pub(crate) fn set_priorities(&mut self, priorities: ItemPriorities) {
        self.priorities = priorities;
    }

    /// A P2PS is no longer interested in an item.
    pub(crate) fn unwatch(&mut self, handle: Handle, slot: Slot) {
        self.merge.forget(handle, slot);
        self.pending.forget(handle, slot);
        self.delivery.forget(handle, slot);
    }

    /// A session has not served an item that it was asked for.
    fn note_failure(&mut self, handle: Handle, session: SessionId) {
        self.failed_at.insert(handle, session);
    }

    /// A session serves the item.
    fn forget_failure(&mut self, handle: Handle) {
        if !self.failed_at.is_empty() {
            self.failed_at.remove(&handle);
        }
    }

    /// The item is gone.
    pub(crate) fn forget_item(&mut self, handle: Handle) {
        self.forget_failure(handle);
        self.stale.forget(handle);
        self.merge.forget_item(handle);
        self.pending.forget_item(handle);
        self.delivery.forget_item(handle);
    }

    /// The item is off its stream. True if a set was under way that single P2PSs wait for.
    pub(crate) fn left_stream(&mut self, handle: Handle) -> bool {
        self.merge.left_stream(handle);
        self.pending.start_over(handle);
        self.delivery.break_off(handle)
    }

    /// Asserts that only items are known here, and only P2PSs that have them open.
    pub(crate) fn check(&self, items: &Items) {
        let failed = self.failed_at.keys().copied();
        for handle in self.merge.handles().chain(self.delivery.handles()).chain(failed).chain(self.stale.handles()) {
            assert!(items.get(handle).is_some(), "something is kept of an item that is gone: {handle:?}");
        }
        for (handle, slot) in self.pending.iter() {
            let open = items.get(handle).is_some_and(|item| item.interest().contains(slot));
            assert!(open, "an image of {handle:?} is pending for {slot:?}, which has not opened it");
        }
    }
}

/// How many item requests may be sent in a turn, so that a storm of them leaves the others their turn.
#[derive(Debug)]
pub(crate) struct RequestPacing {
    left: u32,
    /// Items taken from queues, for taking turns.
    taken: u32,
    /// Something waits for the next turn.
    exhausted: bool,
}

impl RequestPacing {
    /// A turn begins.
    pub(crate) fn begin_turn(&mut self, requests: u32) {
        (self.left, self.exhausted) = (requests, false);
    }

    /// Something waits for the next turn.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Whether another request may be sent; if not, something waits for the next turn from now on.
    pub(crate) fn may_send(&mut self) -> bool {
        self.exhausted |= self.left == 0;
        self.left > 0
    }

    /// Whether this turn has requests left.
    pub(crate) fn may_go_on(&self) -> bool {
        self.left > 0
    }

    pub(crate) fn sent(&mut self) {
        assert!(self.left > 0, "more requests were sent than a turn has");
        self.left -= 1;
    }

    /// Something other than requests waits for the next turn.
    pub(crate) fn go_on_next_turn(&mut self) {
        self.exhausted = true;
    }

    /// The number of an item that is taken from a queue.
    fn take(&mut self) -> u32 {
        self.taken = self.taken.wrapping_add(1);
        self.taken.wrapping_sub(1)
    }
}
