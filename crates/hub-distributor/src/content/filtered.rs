//! Services that are filtered: what does not pass is taken out of what providers send before anything else looks at it.
//!
//! Fields that do not pass are in no image and no update from here on. Updates of a type that is withheld are applied to cached and
//! published images, and not relayed: an image says what its provider's would. The streams of items that are filtered are not live, so
//! their updates come here and not to the data path, which does not know of filters.
//!
//! A filter may be for those items alone whose image has a certain value in a field. Which these are each image decides anew, before anything
//! is taken out of it; what has no image yet is one of them.

use crate::filter::bodies::{Left, append_passing};
use crate::filter::rules::{FieldRule, ServiceFilter};
use crate::ids::{Handle, StreamId};
use crate::items::Place;
use crate::stream::{flags, update_flags};
use crate::{CloseReason, ProviderSink, SessionId, SourceDistributor};
use rustc_hash::FxHashSet;
use rwf::msg::{Msg, MsgClass, RefreshMsg};
use rwf::{DataType, peek};

/// Items of filtered services that the filter is not about.
#[derive(Debug, Default)]
pub(crate) struct Unselected(FxHashSet<Handle>);

impl Unselected {
    /// An image of an item has come: it decides whether the filter is about the item.
    fn note(&mut self, handle: Handle, filter: &ServiceFilter, (container, body): (DataType, &[u8])) {
        // A filter without a selector is about all items.
        let Some(selector) = &filter.selector else { return };
        if selector.selects(container, body) {
            self.0.remove(&handle);
        } else {
            self.0.insert(handle);
        }
    }

    fn has(&self, handle: Handle) -> bool {
        !self.0.is_empty() && self.0.contains(&handle)
    }

    /// The item is gone, or over.
    pub(crate) fn forget(&mut self, handle: Handle) {
        if !self.0.is_empty() {
            self.0.remove(&handle);
        }
    }

    /// Panics if something is kept for an item that is not there.
    pub(crate) fn check(&self, is_there: impl Fn(Handle) -> bool) {
        for &handle in &self.0 {
            assert!(is_there(handle), "an exception from a filter is kept for {handle:?}");
        }
    }
}

/// The container and the body of a refresh, if it is the first part of an image.
fn image_of<'a>(header: &peek::Header, refresh: &RefreshMsg<'_>, msg: &'a [u8]) -> Option<(DataType, &'a [u8])> {
    refresh.part_num.is_none_or(|part| part == 0).then(|| (header.container, &msg[header.body_offset..]))
}

/// Writes what passes of a refresh or an update. Of an update with a lock of its own that is left, without fields.
fn write_passing(filter: &ServiceFilter, header: &peek::Header, msg: &[u8], out: &mut Vec<u8>) -> Left {
    out.clear();
    if filter.fields == FieldRule::All || !matches!(header.class, MsgClass::REFRESH | MsgClass::UPDATE) {
        return Left::Whole;
    }
    let (head, body) = msg.split_at(header.body_offset);
    out.extend_from_slice(head);
    let left = append_passing(filter, header.class, header.container, body, out);
    let is_needed = || header.class == MsgClass::REFRESH || update_flags(header, msg) & flags::HAS_LOCK != 0;
    if left == Left::Nothing && is_needed() { Left::Part } else { left }
}

impl SourceDistributor {
    /// An update of an interactive item that is not relayed as it comes.
    pub(crate) fn careful_update(&mut self, id: SessionId, handle: Handle, header: &peek::Header, msg: &[u8]) {
        if self.config.sequence_numbers
            && self.hot_standby.has(handle)
            && !self.hot_standby.update_passed(handle, peek::update_seq_num(header, msg))
        {
            self.counters.dropped_repeats += 1;
            return;
        }
        let Some(filter) = &self.providers[self.items[handle].service()].treatment.filter else {
            return self.cached_update(id, handle, header, msg, true);
        };
        if self.content.unselected.has(handle) {
            return self.cached_update(id, handle, header, msg, true);
        }
        let mut passing = std::mem::take(&mut self.content.passing);
        let left = write_passing(filter, header, msg, &mut passing);
        self.counters.unfiltered += u64::from(left == Left::Unreadable);
        let relays = !filter.withholds(msg) || update_flags(header, msg) & flags::HAS_LOCK != 0;
        match left {
            Left::Nothing => self.counters.updates_filtered += 1,
            Left::Part => self.cached_update(id, handle, header, &passing, relays),
            Left::Whole | Left::Unreadable => self.cached_update(id, handle, header, msg, relays),
        }
        self.content.passing = passing;
    }

    /// A refresh of an interactive item.
    pub(crate) fn passing_refresh(
        &mut self,
        handle: Handle,
        header: &peek::Header,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        let Some(filter) = &self.providers[self.items[handle].service()].treatment.filter else {
            self.item_refresh(handle, &RefreshMsg::decode(msg)?, msg, out);
            return Ok(());
        };
        if filter.selector.is_some() {
            let refresh = RefreshMsg::decode(msg)?;
            if let Some(image) = image_of(header, &refresh, msg) {
                self.content.unselected.note(handle, filter, image);
            }
            if self.content.unselected.has(handle) {
                self.item_refresh(handle, &refresh, msg, out);
                return Ok(());
            }
        }
        let mut passing = std::mem::take(&mut self.content.passing);
        let left = write_passing(filter, header, msg, &mut passing);
        self.counters.unfiltered += u64::from(left == Left::Unreadable);
        let msg = if matches!(left, Left::Whole | Left::Unreadable) { msg } else { &passing[..] };
        let decoded = RefreshMsg::decode(msg);
        if let Ok(refresh) = &decoded {
            self.item_refresh(handle, refresh, msg, out);
        }
        decoded?;
        self.content.passing = passing;
        Ok(())
    }

    /// A message of a non-interactive provider on an item stream.
    pub(crate) fn published_message(&mut self, id: SessionId, msg: &[u8]) -> Result<(), CloseReason> {
        let decoded = Msg::decode(msg)?;
        let Some(headline) = self.as_published_headline(id, &decoded, msg) else {
            return self.decoded_published(id, &decoded, msg);
        };
        let taken = self.decoded_published(id, &Msg::decode(&headline)?, &headline);
        self.content.headline = headline;
        taken
    }

    fn decoded_published(&mut self, id: SessionId, decoded: &Msg<'_>, msg: &[u8]) -> Result<(), CloseReason> {
        let service = if self.config.filters.is_on() { self.service_of_published(id, decoded) } else { None };
        let Some(filter) = service.and_then(|service| self.providers[service].treatment.filter.clone()) else {
            self.take_published(id, decoded, msg);
            return Ok(());
        };
        let header = peek::header(msg)?;
        if self.is_unselected_published(id, &filter, &header, decoded, msg) {
            self.take_published(id, decoded, msg);
        } else {
            self.take_passing_published(id, &filter, &header, decoded, msg);
        }
        self.note_selected(id, &filter, &header, decoded, msg);
        Ok(())
    }

    /// A message of a non-interactive provider, without what does not pass.
    fn take_passing_published(
        &mut self,
        id: SessionId,
        filter: &ServiceFilter,
        header: &peek::Header,
        decoded: &Msg<'_>,
        msg: &[u8],
    ) {
        let mut passing = std::mem::take(&mut self.content.passing);
        let left = write_passing(filter, header, msg, &mut passing);
        self.counters.unfiltered += u64::from(left == Left::Unreadable);
        match left {
            Left::Nothing => self.counters.updates_filtered += 1,
            Left::Whole | Left::Unreadable => self.take_published(id, decoded, msg),
            Left::Part => match Msg::decode(&passing) {
                Ok(part) => self.take_published(id, &part, &passing),
                // Of what can be read each part can be.
                Err(_) => self.counters.encode_failures += 1,
            },
        }
        self.content.passing = passing;
    }

    /// Whether a message of a non-interactive provider is of an item that its service's filter is not about: by the image in it, or by the
    /// item's last.
    fn is_unselected_published(
        &self,
        id: SessionId,
        filter: &ServiceFilter,
        header: &peek::Header,
        decoded: &Msg<'_>,
        msg: &[u8],
    ) -> bool {
        let Some(selector) = &filter.selector else { return false };
        if let Msg::Refresh(refresh) = decoded
            && let Some((container, body)) = image_of(header, refresh, msg)
        {
            return !selector.selects(container, body);
        }
        let stream = StreamId(decoded.stream_id());
        let standby = || self.published.item_standing_by(Place { session: id, stream });
        self.providers[id]
            .streams
            .get(stream)
            .handle()
            .or_else(standby)
            .is_some_and(|handle| self.content.unselected.has(handle))
    }

    /// An image has found its place: what it says of the filter holds for its item, if that is its provider's.
    fn note_selected(
        &mut self,
        id: SessionId,
        filter: &ServiceFilter,
        header: &peek::Header,
        decoded: &Msg<'_>,
        msg: &[u8],
    ) {
        let stream = StreamId(decoded.stream_id());
        if filter.selector.is_some()
            && let Msg::Refresh(refresh) = decoded
            && let Some(image) = image_of(header, refresh, msg)
            && let Some(handle) = self.providers.get(id).and_then(|session| session.streams.get(stream).handle())
        {
            self.content.unselected.note(handle, filter, image);
        }
    }

    /// The service of the item that a message is for, if that is known.
    pub(crate) fn service_of_published(&self, id: SessionId, msg: &Msg<'_>) -> Option<u16> {
        let stream = StreamId(msg.stream_id());
        let by_key = || {
            let offers = &self.providers[id];
            let offer = match msg.key()?.service_id {
                Some(service) => offers.offer_by_id(service),
                None => offers.offers.only(),
            };
            offer.map(|offer| offer.service)
        };
        let by_stream = || {
            let placed = self.providers[id].streams.get(stream).handle();
            let handle = placed.or_else(|| self.published.item_standing_by(Place { session: id, stream }))?;
            Some(self.items[handle].service())
        };
        // A refresh may put another item on its stream.
        if matches!(msg, Msg::Refresh(_)) { by_key().or_else(by_stream) } else { by_stream().or_else(by_key) }
    }

    /// True if updates of an item have to be looked at before they are relayed.
    pub(crate) fn is_filtered(&self, handle: Handle) -> bool {
        self.providers[self.items[handle].service()].treatment.filter.is_some()
    }

    /// What passes of a message that was posted to an item; `None` for an update of which nothing is left.
    pub(crate) fn passing_post(&mut self, handle: Handle, msg: Vec<u8>) -> Option<Vec<u8>> {
        let filter = self.providers[self.items[handle].service()].treatment.filter.as_ref();
        let filter = filter.filter(|_| !self.content.unselected.has(handle));
        let (Some(filter), Ok(header)) = (filter, peek::header(&msg)) else { return Some(msg) };
        let mut passing = Vec::new();
        let left = write_passing(filter, &header, &msg, &mut passing);
        self.counters.unfiltered += u64::from(left == Left::Unreadable);
        match left {
            Left::Whole | Left::Unreadable => Some(msg),
            Left::Part => Some(passing),
            Left::Nothing => {
                self.counters.updates_filtered += 1;
                None
            }
        }
    }

    /// True if an update of a published item goes on; one that does not is counted.
    pub(crate) fn relays_published(&mut self, handle: Handle, update: &[u8], bits: u8) -> bool {
        let filter = self.providers[self.items[handle].service()].treatment.filter.as_ref();
        let is_withheld = !self.content.unselected.has(handle)
            && filter.is_some_and(|filter| filter.withholds(update))
            && bits & flags::HAS_LOCK == 0;
        self.counters.updates_filtered += u64::from(is_withheld);
        !is_withheld
    }
}
