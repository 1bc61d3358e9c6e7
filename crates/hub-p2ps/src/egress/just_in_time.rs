//! Messages that wait for clients that are conflated just in time.
//!
//! An update is merged once for all of them that watch an item, or a view of it (`SharedMerges`). Of each client there is the order in which its
//! streams wait, for what comes of a merge since an update, and between them everything else as it came. So an update of a stream that waits
//! already costs its client nothing but a look.
//!
//! The order within a stream is kept. Between streams it is that in which the messages came first: an update that merges goes out in
//! the place of the first one. What is said of services and logins stands still between what came before and after it.
//!
//! What is kept for one stream ends the merge that this stream waits in, for all who do: what came before it goes out as it was then.

use crate::conflation::merge::{Merged, Ripples};
use crate::conflation::{MergeId, SharedMerges};
use crate::delivery::kept::KeptDeliveries;
use crate::encode;
use crate::ids::{ClientId, ItemId};
use crate::items::watchers::Watcher;
use rwf::msg::{Domain, MsgClass, StatusMsg};
use rwf::{DataState, State, StateCode, StreamState, peek};
use std::collections::{BTreeMap, VecDeque};

/// Told ahead of the first update of a stream that is merged.
pub(crate) const STARTED: &str =
    "Conflation has started: the connection takes less than there is. Trades are not conflated.";
/// Told when the client has caught up.
pub(crate) const RESUMED: &str = "Conflation has ended: updates come one by one again.";

/// The time and the rules by which updates are merged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merging<'a> {
    pub(crate) now: u64,
    pub(crate) ripples: &'a Ripples,
}

/// The most that waits for one client between two looks at it, bytes. Far beyond what any bound lets wait.
const MOST: usize = 1 << 30;

/// Something that waits for a client.
#[derive(Debug)]
struct Entry {
    stream: i32,
    /// The merge that it comes of; none for the next message that is kept as it came.
    merge: MergeId,
    /// The update of the merge since which the stream waits.
    since: u32,
    /// Bytes that it counts as: those of that update, or of the message.
    bytes: u32,
}

/// The merge in which each stream waits for what comes. Clients number their streams from 1 up, so most are found in pages; no hash is taken
/// of numbers that clients choose.
#[derive(Debug, Default)]
struct Waits {
    pages: Vec<Option<Box<[MergeId; Self::PAGE]>>>,
    far: BTreeMap<i32, MergeId>,
}

impl Waits {
    const PAGE: usize = 128;
    /// Streams beyond these are far.
    const NEAR: usize = 1 << 20;

    #[inline]
    fn get(&self, stream: i32) -> MergeId {
        let number = usize::try_from(stream).unwrap_or(Self::NEAR);
        if number < Self::NEAR {
            let page = self.pages.get(number / Self::PAGE).and_then(Option::as_ref);
            return page.map_or(MergeId::NONE, |page| page[number % Self::PAGE]);
        }
        self.far.get(&stream).copied().unwrap_or(MergeId::NONE)
    }

    fn set(&mut self, stream: i32, merge: MergeId) {
        let number = usize::try_from(stream).unwrap_or(Self::NEAR);
        if number < Self::NEAR {
            let page = number / Self::PAGE;
            if merge == MergeId::NONE && self.pages.get(page).is_none_or(Option::is_none) {
                return;
            }
            if self.pages.len() <= page {
                self.pages.resize_with(page + 1, || None);
            }
            let page = self.pages[page].get_or_insert_with(|| Box::new([MergeId::NONE; Self::PAGE]));
            page[number % Self::PAGE] = merge;
        } else if merge == MergeId::NONE {
            self.far.remove(&stream);
        } else {
            self.far.insert(stream, merge);
        }
    }

    fn take(&mut self, stream: i32) -> MergeId {
        let merge = self.get(stream);
        if merge != MergeId::NONE {
            self.set(stream, MergeId::NONE);
        }
        merge
    }
}

/// What waits for one client, behind what waited for it before it was conflated.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The messages that are kept, in their order.
    kept: VecDeque<Box<[u8]>>,
    waits: Waits,
    /// One of them may wait in a merge that goes on.
    goes_on: bool,
    /// Streams that were told, and their domains.
    told: BTreeMap<i32, Domain>,
    bytes: usize,
    /// More was to be kept than may be for anybody.
    is_too_much: bool,
    /// The queue got something since [`SlowClients::take_touched`].
    is_touched: bool,
}

impl Queue {
    fn push(&mut self, stream: i32, merge: MergeId, since: u32, bytes: usize) {
        self.bytes += bytes;
        self.entries.push_back(Entry { stream, merge, since, bytes: bytes as u32 });
    }
}

/// The clients that are conflated, and what waits for them.
#[derive(Debug, Default)]
pub(crate) struct SlowClients {
    /// By client.
    queues: Vec<Option<Box<Queue>>>,
    count: usize,
    merges: SharedMerges<ItemId>,
    /// Clients that got something, each once.
    touched: Vec<ClientId>,
    /// Messages that came for these clients since [`SlowClients::take_came`].
    came: u64,
}

impl SlowClients {
    /// A client is conflated from now on.
    pub(crate) fn begin(&mut self, id: ClientId) {
        let at = id.0 as usize;
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, || None);
        }
        if self.queues[at].is_none() {
            self.queues[at] = Some(Box::default());
            self.count += 1;
        }
    }

    /// A client is conflated no more; what waits for it is dropped. Gives the streams that were told that they are conflated.
    pub(crate) fn end(&mut self, id: ClientId) -> impl Iterator<Item = (i32, Domain)> + use<> {
        let queue = self.queues.get_mut(id.0 as usize).and_then(Option::take);
        if let Some(queue) = &queue {
            self.count -= 1;
            for entry in queue.entries.iter().filter(|entry| entry.merge != MergeId::NONE) {
                self.merges.leave(entry.merge, entry.since);
            }
            self.touched.retain(|&touched| touched != id);
        }
        queue.into_iter().flat_map(|queue| queue.told)
    }

    /// Clients that are conflated.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    fn get(&self, id: ClientId) -> Option<&Queue> {
        self.queues.get(id.0 as usize)?.as_deref()
    }

    fn get_mut(&mut self, id: ClientId) -> Option<&mut Queue> {
        self.queues.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// True if a client is conflated.
    pub(crate) fn has(&self, id: ClientId) -> bool {
        self.get(id).is_some()
    }

    /// Bytes that wait for a client. What comes of a merge counts as the update that its stream waits since.
    pub(crate) fn bytes(&self, id: ClientId) -> usize {
        self.get(id).map_or(0, |queue| queue.bytes)
    }

    /// True if a client was to get more than waits for anybody: something is missing of what waits for it.
    pub(super) fn is_too_much(&self, id: ClientId) -> bool {
        self.get(id).is_some_and(|queue| queue.is_too_much)
    }

    /// True if nothing waits for a client.
    pub(crate) fn is_empty(&self, id: ClientId) -> bool {
        self.get(id).is_none_or(|queue| queue.entries.is_empty())
    }

    /// Takes in an update of an item, or a view of it, that somebody who is conflated watches: the merge it is in, or none if it has to be kept
    /// as it is.
    pub(crate) fn add(&mut self, view: ItemId, msg: &[u8], ripples: &Ripples) -> Option<MergeId> {
        debug_assert_eq!(peek::class(msg), Some(MsgClass::UPDATE), "only updates are merged");
        self.merges.add(view, msg, ripples)
    }

    /// Has the memory come near that an update of an item, or of a view of it, is merged in: for many of them one after the other.
    #[inline]
    pub(crate) fn look_ahead(&self, view: ItemId) -> u8 {
        self.merges.look_ahead(view)
    }

    /// An update of an item, or a view of it, passed that nobody who is conflated watches: what goes on cannot take in later ones.
    #[inline]
    pub(crate) fn miss(&mut self, view: ItemId) {
        self.merges.end(view);
    }

    /// All who wait for an update that was [added](Self::add) do.
    pub(crate) fn end_add(&mut self, merge: MergeId) {
        self.merges.forget_unwanted(merge);
    }

    /// A client's stream gets an update that is in this merge; `may_conflate` says whether it may get it so. Without that it has to be
    /// [kept](Self::keep), and false comes back.
    #[inline]
    pub(crate) fn merge(
        &mut self,
        watcher: Watcher,
        merge: MergeId,
        now: u64,
        may_conflate: impl FnOnce() -> bool,
    ) -> bool {
        // The caller keeps the message as it is.
        let Some(Some(queue)) = self.queues.get_mut(watcher.client.0 as usize) else { return false };
        if queue.waits.get(watcher.stream.0) == merge {
            self.came += 1;
            return true;
        }
        may_conflate() && self.wait(watcher, merge, now)
    }

    /// A stream waits in a merge from its last update on.
    #[inline(never)]
    fn wait(&mut self, watcher: Watcher, merge: MergeId, now: u64) -> bool {
        let Self { queues, merges, touched, came, .. } = self;
        // The caller keeps the message as it is.
        let Some(Some(queue)) = queues.get_mut(watcher.client.0 as usize) else { return false };
        *came += 1;
        if !std::mem::replace(&mut queue.is_touched, true) {
            touched.push(watcher.client);
        }
        let bytes = merges.get(merge).map_or(0, Merged::last_len);
        queue.push(watcher.stream.0, merge, merges.join(merge, now), bytes);
        queue.waits.set(watcher.stream.0, merge);
        queue.goes_on = true;
        true
    }

    /// A message for a client that goes out as it is, behind what waits for its stream.
    pub(crate) fn keep(&mut self, watcher: Watcher, body: &[u8]) {
        let Self { queues, merges, touched, came, .. } = self;
        let Some(Some(queue)) = queues.get_mut(watcher.client.0 as usize) else {
            hub_items::fault!("{:?} is not conflated", watcher.client);
            return;
        };
        *came += 1;
        if !std::mem::replace(&mut queue.is_touched, true) {
            touched.push(watcher.client);
        }
        if matches!(peek::domain(body), Some(Domain::LOGIN | Domain::SOURCE)) {
            // Much may be said of many services in a row.
            if std::mem::take(&mut queue.goes_on) {
                queue.waits = Waits::default();
                for entry in queue.entries.iter().filter(|entry| entry.merge != MergeId::NONE) {
                    merges.end_merge(entry.merge);
                }
            }
        } else {
            merges.end_merge(queue.waits.take(watcher.stream.0));
        }
        if queue.bytes + body.len() > MOST {
            queue.is_too_much = true;
            return;
        }
        queue.push(watcher.stream.0, MergeId::NONE, 0, body.len());
        queue.kept.push_back(body.into());
    }

    /// What comes for a stream from now on does not merge with what waits: it pauses, or goes on as another view.
    pub(crate) fn divide(&mut self, watcher: Watcher) {
        // Nothing waits for a client that is not conflated.
        let Some(queue) = self.get_mut(watcher.client) else { return };
        let merge = queue.waits.take(watcher.stream.0);
        self.merges.end_merge(merge);
    }

    /// A stream is closed: what comes under its number from now on is another's.
    pub(crate) fn close_stream(&mut self, watcher: Watcher) {
        self.divide(watcher);
        if let Some(queue) = self.get_mut(watcher.client) {
            queue.told.remove(&watcher.stream.0);
        }
    }

    /// Moves the first of what waits for a client to where it is taken from; tells how many updates it saved. None if nothing was left.
    pub(super) fn take_next(&mut self, id: ClientId, now: u64, to: &mut KeptDeliveries) -> Option<u32> {
        let Self { queues, merges, .. } = self;
        let queue = queues.get_mut(id.0 as usize)?.as_deref_mut()?;
        let Entry { stream, merge, since, bytes } = queue.entries.pop_front()?;
        queue.bytes -= bytes as usize;
        if merge == MergeId::NONE {
            let body = queue.kept.pop_front();
            debug_assert!(body.is_some(), "nothing is there of what was kept");
            to.push(&body.unwrap_or_default(), stream);
            return Some(0);
        }
        if queue.waits.get(stream) == merge {
            queue.waits.set(stream, MergeId::NONE);
        }
        let merged = merges.get(merge)?;
        let (is_merged, came) = (merged.is_merged(since), merged.came(since));
        if is_merged && !queue.told.contains_key(&stream) {
            let domain = merged.domain();
            queue.told.insert(stream, domain);
            push_status(domain, stream, to);
        }
        let written = merges.take(merge, since, now, |msg| to.push(msg, stream));
        debug_assert!(written.is_ok(), "a merge of updates that cannot be written: {written:?}");
        Some(came.saturating_sub(u32::from(written.unwrap_or(0))))
    }

    /// True if somebody got something that is to be looked at.
    #[inline]
    pub(crate) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// A client that got something since it was asked for last.
    pub(super) fn take_touched(&mut self) -> Option<ClientId> {
        let id = self.touched.pop()?;
        if let Some(queue) = self.get_mut(id) {
            queue.is_touched = false;
        }
        Some(id)
    }

    /// Messages that came for conflated clients since this was asked for last.
    pub(crate) fn take_came(&mut self) -> u64 {
        std::mem::take(&mut self.came)
    }

    /// Panics if what is counted is not there, or a merge goes on that is none of a live item's.
    pub(crate) fn check(&self, is_live: impl Fn(ItemId) -> bool) {
        let queues = self.queues.iter().flatten();
        assert_eq!(queues.clone().count(), self.count, "clients conflated");
        let mut waiting = 0;
        for queue in queues {
            assert_eq!(
                queue.entries.iter().map(|entry| entry.bytes as usize).sum::<usize>(),
                queue.bytes,
                "bytes conflated"
            );
            let merged = queue.entries.iter().filter(|entry| entry.merge != MergeId::NONE);
            assert_eq!(queue.entries.len() - merged.clone().count(), queue.kept.len(), "messages kept");
            waiting += merged.count();
            let near = queue.waits.pages.iter().flatten().flat_map(|page| page.iter());
            let set = near.chain(queue.waits.far.values()).filter(|&&merge| merge != MergeId::NONE).count();
            let streams = queue
                .entries
                .iter()
                .filter(|entry| entry.merge != MergeId::NONE && queue.waits.get(entry.stream) == entry.merge);
            assert_eq!(set, streams.count(), "streams that wait in a merge");
        }
        self.merges.check(waiting, is_live);
    }
}

fn push_status(domain: Domain, stream: i32, to: &mut KeptDeliveries) {
    let state = State::new(StreamState::OPEN, DataState::NO_CHANGE, StateCode::JIT_CONFLATION_STARTED, STARTED);
    let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, stream) };
    let mut out = Vec::new();
    let written = encode::append(&mut out, 64 + STARTED.len(), |w| status.encode(w));
    debug_assert!(written.is_ok(), "a status of known size");
    if written.is_ok() {
        to.push(&out, stream);
    }
}
