//! Which items are headlines whose permission codes are in a field: [`HeadlineRule`] says what becomes of their messages, before anything
//! else looks at them.

use crate::SessionId;
use crate::SourceDistributor;
use crate::ids::{Handle, StreamId};
use crate::items::Place;
use hub_content::headlines::HeadlineRule;
use rustc_hash::FxHashMap;
use rwf::msg::{Msg, MsgClass};
use std::sync::Arc;

/// Of items of services that have headlines, whether they are such: their names are matched once.
#[derive(Debug, Default)]
pub(crate) struct Headlines(FxHashMap<Handle, bool>);

impl Headlines {
    /// The item is gone, or over.
    pub(crate) fn forget(&mut self, handle: Handle) {
        if !self.0.is_empty() {
            self.0.remove(&handle);
        }
    }

    /// Panics if something is kept for an item that is not there.
    pub(crate) fn check(&self, is_there: impl Fn(Handle) -> bool) {
        for &handle in self.0.keys() {
            assert!(is_there(handle), "whether it is a headline is kept of {handle:?}");
        }
    }
}

impl SourceDistributor {
    /// The rule of an item's service, if the item is a headline.
    pub(crate) fn headline_rule(&mut self, handle: Handle) -> Option<Arc<HeadlineRule>> {
        let item = self.items.get(handle)?;
        let rule = self.providers[item.service()].treatment.headlines.as_ref()?;
        let is_one = *self.content.headlines.0.entry(handle).or_insert_with(|| {
            let key = item.item_key();
            rule.is_about(key.name.unwrap_or_default())
        });
        is_one.then(|| Arc::clone(rule))
    }

    /// Whether updates of an item may be headlines: they are looked at before they are relayed.
    pub(crate) fn has_headlines(&self, handle: Handle) -> bool {
        self.providers[self.items[handle].service()].treatment.headlines.is_some()
    }

    /// What goes on instead of a message of an interactive item; `None` for the message itself. The bytes are to be given back in
    /// `self.content.headline`.
    pub(crate) fn as_headline(&mut self, handle: Handle, class: MsgClass, msg: &[u8]) -> Option<Vec<u8>> {
        let rule = self.headline_rule(handle)?;
        self.rewritten(&rule, class, msg)
    }

    /// As [`Self::as_headline`], of a message of a non-interactive provider.
    pub(crate) fn as_published_headline(&mut self, id: SessionId, decoded: &Msg<'_>, msg: &[u8]) -> Option<Vec<u8>> {
        if self.config.headlines.is_empty() {
            return None;
        }
        let rule = match decoded {
            Msg::Refresh(refresh) if let Some(name) = refresh.key.as_ref().and_then(|key| key.name) => {
                let service = self.service_of_published(id, decoded)?;
                let rule = self.providers[service].treatment.headlines.clone()?;
                rule.is_about(name).then_some(rule)?
            }
            _ => {
                let stream = StreamId(decoded.stream_id());
                let standby = || self.published.item_standing_by(Place { session: id, stream });
                let handle = self.providers[id].streams.get(stream).handle().or_else(standby)?;
                self.headline_rule(handle)?
            }
        };
        let class = match decoded {
            Msg::Refresh(_) => MsgClass::REFRESH,
            Msg::Update(_) => MsgClass::UPDATE,
            _ => return None,
        };
        self.rewritten(&rule, class, msg)
    }

    fn rewritten(&mut self, rule: &HeadlineRule, class: MsgClass, msg: &[u8]) -> Option<Vec<u8>> {
        let mut own = std::mem::take(&mut self.content.headline);
        if rule.rewrite(class, msg, &mut own) {
            self.counters.headlines += u64::from(class == MsgClass::UPDATE);
            return Some(own);
        }
        self.content.headline = own;
        None
    }
}
