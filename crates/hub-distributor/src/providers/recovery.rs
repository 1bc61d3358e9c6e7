//! Items that have lost their provider, and how they come back.

use crate::SourceDistributor;
use crate::ids::Handle;
use crate::stream::Event;
use rwf::State;

impl SourceDistributor {
    /// Items that have been taken off their provider: tells those who have had an answer, and queues them. Those among them that
    /// somebody waits for without an answer: to be told of when it is clear whether they have to wait on. `all` says that others may be
    /// with providers of the service only.
    pub(super) fn lose_items(&mut self, service: u16, handles: &[Handle], state: State<'_>, all: bool) -> Vec<Handle> {
        let mut waited_for = Vec::new();
        let at_once = all && self.is_all_of(service, handles);
        if at_once {
            self.hub.event(&Event::ServiceStatus { service, state });
        }
        for &handle in handles {
            let item = &self.items[handle];
            let told = at_once && item.has_interest() && !item.is_private();
            // Of a snapshot's image parts may have come here that its P2PS, which waits for the last one, has not used.
            let waits = item.is_waited_for() || item.is_snapshot();
            if told {
                self.content.set_state(handle, &state);
                self.mark_lost(handle);
            }
            if told || self.lose_item(handle, state.code, state.text) {
                self.enqueue(handle);
                waited_for.extend(waits.then_some(handle));
            }
        }
        waited_for
    }

    /// Whether these are all the items of the service that have had an answer, and none of them was told before, so that one
    /// message for the service says it for each of them.
    fn is_all_of(&self, service: u16, handles: &[Handle]) -> bool {
        let mut answered = 0;
        for item in handles.iter().map(|&handle| &self.items[handle]).filter(|item| item.has_interest()) {
            if item.is_answered() && !item.is_private() {
                if item.is_suspect() {
                    return false;
                }
                answered += 1;
            }
        }
        let known = &self.providers.services[service];
        // A session that is lost may have more of them.
        let elsewhere = known.providers().iter().filter_map(|&id| self.providers.sessions[id].offer(service));
        answered > 0 && known.lost_items() == 0 && elsewhere.map(|offer| offer.open).sum::<u32>() == 0
    }
}
