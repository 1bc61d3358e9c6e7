//! The streams of one provider session: which item is on which stream id.
//!
//! The data path looks a stream up for every update, so ids are direct indexes. An id that would make the table grow out
//! of proportion (a provider chooses its own ids) goes to a hash table instead.

use crate::hash_seed::{HashSeed, SeededMap};
use crate::ids::{Handle, StreamId};
use std::collections::VecDeque;

const LIVE: u32 = 0x8000_0000;
const KNOWN: u32 = 0x4000_0000;
/// Updates are relayed when they have been looked at; without `KNOWN`, those of a mirror.
const CAREFUL: u32 = 0x2000_0000;
/// With `KNOWN` and `CAREFUL`: updates are relayed as they come, and the cache takes them in; nobody else looks at them.
const CACHED: u32 = 0x1000_0000;

/// What is known of a stream id: nothing, or an item and whether its updates are relayed. Four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stream(u32);

impl Stream {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(handle: Handle, live: bool) -> Self {
        debug_assert!(handle.0 <= Handle::MAX);
        Self(handle.0 | KNOWN | if live { LIVE } else { 0 })
    }

    /// The stream of an item that is filtered, mirrored or watched for interruptions: its updates are looked at before they are relayed.
    pub(crate) fn of_careful(handle: Handle, live: bool) -> Self {
        debug_assert!(handle.0 <= Handle::MAX);
        Self(handle.0 | KNOWN | if live { CAREFUL } else { 0 })
    }

    /// The stream of an item whose only peculiarity is that it is cached.
    pub(crate) fn of_cached(handle: Handle, live: bool) -> Self {
        let careful = Self::of_careful(handle, live);
        Self(careful.0 | if live { CACHED } else { 0 })
    }

    /// The item whose updates are relayed as they come, and taken in by the cache.
    #[inline]
    pub(crate) fn live_cached(self) -> Option<Handle> {
        (self.0 & CACHED != 0).then_some(Handle(self.0 & Handle::MAX))
    }

    /// The stream of an item's mirror: what comes on it goes to nobody.
    pub(crate) fn of_mirror(handle: Handle) -> Self {
        debug_assert!(handle.0 <= Handle::MAX);
        Self(handle.0 | CAREFUL)
    }

    /// The item whose mirror is on the stream.
    #[inline]
    pub(crate) fn mirror(self) -> Option<Handle> {
        (self.0 & (LIVE | KNOWN | CAREFUL) == CAREFUL).then_some(Handle(self.0 & Handle::MAX))
    }

    /// True if the updates of an item are relayed that is cached, filtered, mirrored or watched for interruptions.
    pub(crate) fn is_live_careful(self) -> bool {
        self.0 & (KNOWN | CAREFUL) == KNOWN | CAREFUL
    }

    /// The item whose updates are relayed as they come; the data path's only question.
    #[inline]
    pub(crate) fn live(self) -> Option<Handle> {
        (self.0 & LIVE != 0).then_some(Handle(self.0 & Handle::MAX))
    }

    #[inline]
    pub(crate) fn handle(self) -> Option<Handle> {
        (self.0 & KNOWN != 0).then_some(Handle(self.0 & Handle::MAX))
    }
}

/// Table from stream id to [`Stream`].
#[derive(Debug, Default)]
pub(crate) struct Streams {
    positive: Vec<Stream>,
    negative: Vec<Stream>,
    sparse: SeededMap<i32, Stream>,
    used: usize,
}

impl Streams {
    /// No streams yet. Providers choose their ids: `seed` keys the hash table.
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { sparse: SeededMap::with_hasher(seed), ..Self::default() }
    }

    #[inline]
    pub(crate) fn get(&self, StreamId(id): StreamId) -> Stream {
        let (table, index) =
            if id < 0 { (&self.negative, id.unsigned_abs() as usize) } else { (&self.positive, id as usize) };
        match table.get(index) {
            Some(&stream) => stream,
            None if self.sparse.is_empty() => Stream::NONE,
            None => self.sparse.get(&id).copied().unwrap_or_default(),
        }
    }

    /// Asks for the line of memory in which an id is, to be read some messages later.
    #[inline]
    pub(crate) fn ask(&self, StreamId(id): StreamId) {
        let (table, index) =
            if id < 0 { (&self.negative, id.unsigned_abs() as usize) } else { (&self.positive, id as usize) };
        lines::fetch(&[table.as_ptr().wrapping_add(index).cast()]);
    }

    /// Puts `stream` on `id`, or takes the id out of use with [`Stream::NONE`]; returns what was there.
    pub(crate) fn set(&mut self, StreamId(id): StreamId, stream: Stream) -> Stream {
        let index = id.unsigned_abs() as usize;
        let bound = 4096 + 2 * self.used;
        let table = if id < 0 { &mut self.negative } else { &mut self.positive };
        let old = if index < table.len() {
            std::mem::replace(&mut table[index], stream)
        } else if index <= bound && stream != Stream::NONE {
            let from = table.len();
            table.resize((index + 1).next_power_of_two().min(bound + 1).max(index + 1), Stream::NONE);
            let old = self.sparse.remove(&id).unwrap_or_default();
            table[index] = stream;
            self.move_in(from, id < 0);
            old
        } else if stream == Stream::NONE {
            self.sparse.remove(&id).unwrap_or_default()
        } else {
            self.sparse.insert(id, stream).unwrap_or_default()
        };
        self.used = self.used + usize::from(stream != Stream::NONE) - usize::from(old != Stream::NONE);
        old
    }

    /// After a table has grown from `from`: ids that it covers now leave the hash table.
    fn move_in(&mut self, from: usize, negative: bool) {
        if self.sparse.is_empty() {
            return;
        }
        let table = if negative { &mut self.negative } else { &mut self.positive };
        self.sparse.retain(|&id, &mut stream| {
            let index = id.unsigned_abs() as usize;
            let covered = (id < 0) == negative && (from..table.len()).contains(&index);
            if covered {
                table[index] = stream;
            }
            !covered
        });
    }

    /// Every id in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, Stream)> + '_ {
        let positive = self.positive.iter().enumerate().map(|(index, stream)| (index as i32, *stream));
        let negative = self.negative.iter().enumerate().map(|(index, stream)| ((index as i32).wrapping_neg(), *stream));
        let sparse = self.sparse.iter().map(|(id, stream)| (*id, *stream));
        positive
            .chain(negative)
            .chain(sparse)
            .filter(|(_, stream)| *stream != Stream::NONE)
            .map(|(id, stream)| (StreamId(id), stream))
    }

    /// Ids in use.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.used
    }
}

/// First stream id of items towards a provider; login, directory and two dictionaries come before it.
pub(crate) const FIRST_ITEM_STREAM: i32 = 5;
/// How long a closed stream id rests: what the provider sent before it saw the close must not meet another item.
const REST: u64 = 60_000_000_000;

/// Chooses stream ids towards a provider.
#[derive(Debug)]
pub(crate) struct StreamIds {
    next: i32,
    resting: VecDeque<(i32, u64)>,
}

impl Default for StreamIds {
    fn default() -> Self {
        Self { next: FIRST_ITEM_STREAM, resting: VecDeque::new() }
    }
}

impl StreamIds {
    pub(crate) fn take(&mut self, now: u64) -> StreamId {
        let id = match self.resting.front() {
            Some(&(id, until)) if until <= now || self.next == i32::MAX => {
                self.resting.pop_front();
                id
            }
            _ => {
                self.next += 1;
                self.next - 1
            }
        };
        debug_assert!(id >= FIRST_ITEM_STREAM, "{id} is an administrative stream");
        StreamId(id)
    }

    pub(crate) fn give_back(&mut self, StreamId(id): StreamId, now: u64) {
        self.resting.push_back((id, now.saturating_add(REST)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_closed_id_rests_before_it_is_used_again() {
        let mut ids = StreamIds::default();
        assert_eq!((ids.take(0), ids.take(0)), (StreamId(5), StreamId(6)));
        ids.give_back(StreamId(5), 10);
        assert_eq!(ids.take(REST), StreamId(7));
        assert_eq!(ids.take(REST + 10), StreamId(5));
        assert_eq!(ids.take(u64::MAX), StreamId(8));
    }

    #[test]
    fn wild_ids_cost_no_table() {
        let mut streams = Streams::default();
        for id in [i32::MIN, i32::MAX, -1_000_000, 1_000_000] {
            streams.set(StreamId(id), Stream::new(Handle(7), true));
            assert_eq!(streams.get(StreamId(id)).live(), Some(Handle(7)));
        }
        assert!(streams.positive.is_empty() && streams.negative.is_empty());
        assert_eq!(streams.len(), 4);
    }

    proptest! {
        #[test]
        fn it_is_a_map(ops in prop::collection::vec((prop_oneof![-20..20, -9000..9000, any::<i32>()], any::<Option<(u8, bool)>>()), 1..400)) {
            let mut streams = Streams::default();
            let mut model: HashMap<i32, Stream> = HashMap::new();
            for (id, value) in ops {
                let stream = value.map_or(Stream::NONE, |(handle, live)| Stream::new(Handle(handle.into()), live));
                let old = streams.set(StreamId(id), stream);
                let expected = if stream == Stream::NONE { model.remove(&id) } else { model.insert(id, stream) };
                prop_assert_eq!(old, expected.unwrap_or_default());
                prop_assert_eq!(streams.len(), model.len());
            }
            for (id, stream) in &model {
                prop_assert_eq!(streams.get(StreamId(*id)), *stream);
            }
            let listed: HashMap<i32, Stream> = streams.iter().map(|(id, stream)| (id.0, stream)).collect();
            prop_assert_eq!(listed, model);
        }
    }
}
