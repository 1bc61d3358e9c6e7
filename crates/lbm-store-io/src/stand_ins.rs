//! Proxy sources of a store: it advertises the topics of sources that are gone, and says which stores they had.

use std::collections::BTreeMap;

use lbm::wire::lbmc::Message;
use lbm_io::options::Options;
use lbm_io::{Context, SourceId, Sources};
use lbm_store::source::{Question, SourceConfig};
use lbm_store::store::{Log, Proxy, Store};

struct StandIn {
    source: SourceId,
    index: u32,
    /// Announcements that are still to be made, and when the next one is.
    left: u32,
    due: u64,
}

/// See the module: by the registration id of the source that is gone.
#[derive(Default)]
pub(crate) struct StandIns {
    of: BTreeMap<u32, StandIn>,
    /// Proxy sources that could not be made.
    refused: u64,
}

impl StandIns {
    /// How many there are, and how many could not be made.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.of.len(), self.refused)
    }

    /// Makes or removes a proxy source.
    pub(crate) fn set(&mut self, now: u64, proxy: &Proxy, context: &mut Context, options: &Options) {
        if let Some(before) = self.of.remove(&proxy.reg_id) {
            context.remove_source(before.source);
        }
        if !proxy.on {
            return;
        }
        let made = std::str::from_utf8(&proxy.topic).ok().and_then(|topic| {
            let source = context.persistent_source(topic, options).ok()?;
            let (_, index, _) = context.sources().placement(source)?;
            Some(StandIn { source, index, left: SourceConfig::default().info_maximum, due: now })
        });
        match made {
            Some(made) => drop(self.of.insert(proxy.reg_id, made)),
            None => self.refused += 1,
        }
    }

    /// When [`StandIns::announce`] has something to do.
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.of.values().filter(|of| of.left > 0).map(|of| of.due).min()
    }

    /// Says which stores sources had, as those would: some times in the beginning.
    pub(crate) fn announce(&mut self, now: u64, context: &mut Context, store: &Store<impl Log>) {
        for (reg_id, of) in self.of.iter_mut().filter(|(_, of)| of.left > 0 && of.due <= now) {
            (of.left, of.due) = (of.left - 1, now.saturating_add(SourceConfig::default().info_interval_ns));
            let mut word = Vec::new();
            store.proxy_info(*reg_id, of.index, &mut word);
            if !word.is_empty() {
                // An announcement that the session does not take now is repeated, and receivers ask.
                let _ = context.sources().send_control(of.source, &word);
            }
        }
    }

    /// A receiver asks which stores a source had.
    pub(crate) fn answer(
        &self,
        sources: &Sources,
        message: &Message<'_>,
        store: &Store<impl Log>,
        answers: &mut Vec<u8>,
    ) {
        // Receivers ask nothing else of a proxy source.
        let Some(question) = Question::of(message) else { return };
        for (reg_id, of) in self.of.iter().filter(|(_, of)| of.index == question.topic()) {
            let session = sources.transport(of.source);
            if session.is_some_and(|session| question.is_for(of.index, &session.originating_id(of.index))) {
                store.proxy_info(*reg_id, of.index, answers);
            }
        }
    }
}
