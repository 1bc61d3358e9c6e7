//! Items that their provider has said Suspect of and keeps open: after a while without news an image is asked for
//! (`staleRecoveryRetryTime`), since providers have been known to forget what they have said.

use crate::ids::Handle;
use crate::timers::Timer;
use crate::{ProviderSink, SourceDistributor};
use rustc_hash::FxHashMap;

/// When the images of Suspect items are asked for; an item without a timer is in here no more.
#[derive(Debug, Default)]
pub(crate) struct StaleItems {
    due: FxHashMap<Handle, u64>,
}

impl StaleItems {
    pub(super) fn forget(&mut self, handle: Handle) {
        if !self.due.is_empty() {
            self.due.remove(&handle);
        }
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = Handle> {
        self.due.keys().copied()
    }
}

impl SourceDistributor {
    /// A provider may have said Suspect of an item that it has open.
    pub(crate) fn note_stale(&mut self, handle: Handle) {
        // The item is gone.
        let Some(item) = self.items.get(handle) else { return };
        let pause = self.providers.rules(&self.config, item.service()).stale_recovery_retry;
        if pause == 0 {
            // Stale images stay until the provider ends that.
            return;
        }
        let recovers = item.is_suspect_there() && item.is_watched() && !item.is_private() && !item.is_snapshot();
        if recovers && !self.upstream.stale.due.contains_key(&handle) {
            let at = self.now.saturating_add(pause);
            self.upstream.stale.due.insert(handle, at);
            self.timers.set(at, Timer::Stale(handle));
        }
    }

    /// The time of an item may be over, if it is still the one that was Suspect.
    pub(crate) fn stale_timer(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        if self.upstream.stale.due.get(&handle).is_none_or(|&at| at > self.now) {
            return;
        }
        self.upstream.stale.due.remove(&handle);
        if self.items.get(handle).is_some_and(|item| item.is_suspect_there() && item.is_watched()) {
            self.counters.stale_asked += 1;
            self.want_another_image(handle, out);
            self.note_stale(handle);
        }
    }
}
