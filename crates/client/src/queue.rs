//! Messages that wait for an application, in one block of bytes, with a bound and a rule for when it is reached.
//!
//! | [`Overflow`] | at the bound | who notices |
//! |---|---|---|
//! | `Wait` | messages are taken, and the session reads no more until the application has | all subscriptions of the session, and the server |
//! | `Latest` | an item's messages become its image, which is given when there is room | the item alone: fewer updates |
//! | `Cut` | the subscription ends | the subscription alone |

use rwf::msg::MsgClass;
use std::collections::VecDeque;

/// Behaviour of a queue that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Nothing is lost: the session reads no more, so that the server sees a slow client and does with it as it is set up to. The default.
    #[default]
    Wait,
    /// The latest value by item: what has no room is merged into the item's image. Acknowledgements and generic messages, which nothing can merge,
    /// are dropped and counted.
    Latest,
    /// The subscription ends with [`Counts::cut`].
    Cut,
}

/// Bound and rule of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// Bytes of messages that may wait. One turn's input may lie beyond it with [`Overflow::Wait`].
    pub limit_bytes: usize,
    /// Behaviour at the bound.
    pub overflow: Overflow,
}

impl Default for QueueConfig {
    /// 64 MB, and the session waits.
    fn default() -> Self {
        Self { limit_bytes: 64 << 20, overflow: Overflow::Wait }
    }
}

/// Counts of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that the application was given or will be.
    pub queued: u64,
    /// Messages that were merged into images, because there was no room.
    pub merged: u64,
    /// Acknowledgements and generic messages for which there was no room.
    pub dropped: u64,
    /// Times that the bound was reached.
    pub full: u64,
    /// 1 once the subscription was cut.
    pub cut: u64,
}

/// A message of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'b> {
    /// The item: its place in the subscription.
    pub item: u32,
    /// When it was received, nanoseconds of the session's monotonic clock.
    pub received_ns: u64,
    /// The class.
    pub class: MsgClass,
    /// Nothing comes of the item behind this: it has ended, or its snapshot is whole.
    pub is_final: bool,
    /// The message, RWF.
    pub msg: &'b [u8],
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    received_ns: u64,
    item: u32,
    class: MsgClass,
    is_final: bool,
    end: usize,
}

/// Messages in order, one block of bytes for all: filled, read and cleared without an allocation for each.
#[derive(Debug, Default)]
pub struct Batch {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

/// Memory that a batch keeps when it is cleared, bytes, however little of it was used.
const KEPT: usize = 4 << 20;
/// More than that is kept where at least this part was used: memory that is given back comes as new pages, which the system has to clear.
const KEPT_PART: usize = 4;

impl Batch {
    /// Appends a message.
    #[inline]
    pub fn push(&mut self, message: Message<'_>) {
        let Message { item, received_ns, class, is_final, msg } = message;
        self.bytes.extend_from_slice(msg);
        self.entries.push(Entry { received_ns, item, class, is_final, end: self.bytes.len() });
    }

    /// Messages.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all messages.
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The message at a place.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Message<'_>> {
        let Entry { received_ns, item, class, is_final, end } = *self.entries.get(at)?;
        let start = if at == 0 { 0 } else { self.entries[at - 1].end };
        Some(Message { item, received_ns, class, is_final, msg: &self.bytes[start..end] })
    }

    /// All messages in order.
    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Forgets all messages; memory beyond some megabytes is given back, unless messages fill it.
    pub fn clear(&mut self) {
        let is_filled = self.bytes.len() >= self.bytes.capacity() / KEPT_PART;
        self.entries.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT && !is_filled {
            self.bytes = Vec::new();
            self.entries = Vec::new();
        }
    }
}

/// A bounded queue of a subscription.
#[derive(Debug)]
pub struct Queue {
    config: QueueConfig,
    batch: Batch,
    /// Items whose messages had no room, the oldest first.
    missed: VecDeque<u32>,
    is_missed: Vec<bool>,
    /// At the bound since the application took something last.
    is_full: bool,
    counts: Counts,
}

impl Queue {
    /// An empty queue of a subscription of so many items.
    pub fn new(config: QueueConfig, items: usize) -> Self {
        Self {
            config,
            batch: Batch::default(),
            missed: VecDeque::new(),
            is_missed: vec![false; items],
            is_full: false,
            counts: Counts::default(),
        }
    }

    /// The subscription has further items.
    pub fn grow(&mut self, items: usize) {
        self.is_missed.resize(self.is_missed.len() + items, false);
    }

    /// The counts so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Another rule for what comes from now on; what has been merged stays merged.
    pub const fn set_overflow(&mut self, overflow: Overflow) {
        self.config.overflow = overflow;
    }

    /// Whether the session is to read no more: the bound is reached and the rule is [`Overflow::Wait`].
    pub const fn holds_up(&self) -> bool {
        self.is_full && matches!(self.config.overflow, Overflow::Wait)
    }

    /// Whether the subscription has been cut: what waits is given, and nothing more.
    pub const fn is_cut(&self) -> bool {
        self.counts.cut > 0
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Puts a message in, by the rule if there is no room.
    pub fn put(&mut self, message: Message<'_>) {
        if self.is_cut() {
            return;
        }
        let item = message.item as usize;
        if message.is_final {
            // The end of an item has room always: there is one an item.
            self.forget_missed(item);
            return self.append(message);
        }
        let merges = matches!(message.class, MsgClass::REFRESH | MsgClass::UPDATE | MsgClass::STATUS);
        if merges && self.is_missed.get(item).is_some_and(|missed| *missed) {
            self.counts.merged += 1;
            return;
        }
        if self.batch.bytes() + message.msg.len() <= self.config.limit_bytes || self.batch.is_empty() {
            return self.append(message);
        }
        self.counts.full += u64::from(!std::mem::replace(&mut self.is_full, true));
        match self.config.overflow {
            Overflow::Wait => self.append(message),
            Overflow::Cut => self.counts.cut = 1,
            Overflow::Latest if merges => {
                self.counts.merged += 1;
                if let Some(missed) = self.is_missed.get_mut(item) {
                    *missed = true;
                    self.missed.push_back(message.item);
                }
            }
            Overflow::Latest => self.counts.dropped += 1,
        }
    }

    /// Puts all messages of a turn in, which leaves the batch empty. As they are if nothing waits and there is room for all.
    pub fn put_all(&mut self, batch: &mut Batch) {
        if self.batch.is_empty() && self.missed.is_empty() && !self.is_cut() && batch.bytes() <= self.config.limit_bytes
        {
            self.counts.queued += batch.len() as u64;
            std::mem::swap(&mut self.batch, batch);
            return;
        }
        for message in batch.iter() {
            self.put(message);
        }
        batch.clear();
    }

    fn append(&mut self, message: Message<'_>) {
        self.counts.queued += 1;
        self.batch.push(message);
    }

    fn forget_missed(&mut self, item: usize) {
        if self.is_missed.get(item).is_some_and(|missed| *missed) {
            self.is_missed[item] = false;
            self.missed.retain(|missed| *missed as usize != item);
        }
    }

    /// Gives the application what waits, in exchange for an empty batch. True if the session was held up by this queue and may go on, or has
    /// images to give for what was merged.
    pub fn take(&mut self, into: &mut Batch) -> bool {
        into.clear();
        std::mem::swap(&mut self.batch, into);
        std::mem::take(&mut self.is_full) || !self.missed.is_empty()
    }

    /// Gives the images of items whose messages were merged, as far as there is room. `image` writes an item's image as a refresh, and says whether
    /// there is a whole one; an item without goes on being merged until there is.
    pub fn refill(&mut self, now: u64, room: &mut Vec<u8>, mut image: impl FnMut(u32, &mut Vec<u8>) -> bool) {
        for _ in 0..self.missed.len() {
            if self.batch.bytes() >= self.config.limit_bytes && !self.batch.is_empty() {
                return;
            }
            let Some(item) = self.missed.pop_front() else {
                return debug_assert!(false, "fewer items are missed than there were");
            };
            room.clear();
            if image(item, room) {
                self.is_missed[item as usize] = false;
                let class = MsgClass::REFRESH;
                self.append(Message { item, received_ns: now, class, is_final: false, msg: room });
            } else {
                self.missed.push_back(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(item: u32, class: MsgClass, msg: &[u8]) -> Message<'_> {
        Message { item, received_ns: 7, class, is_final: false, msg }
    }

    fn queue(limit_bytes: usize, overflow: Overflow) -> Queue {
        Queue::new(QueueConfig { limit_bytes, overflow }, 3)
    }

    #[test]
    fn a_batch_keeps_the_memory_that_it_fills_and_gives_back_what_it_does_not() {
        let mut batch = Batch::default();
        let fill =
            |batch: &mut Batch, count| (0..count).for_each(|_| batch.push(message(0, MsgClass::UPDATE, &[7; 1_000])));
        fill(&mut batch, 20_000);
        batch.clear();
        assert!(batch.is_empty() && batch.bytes.capacity() >= 20_000_000, "it was filled");
        fill(&mut batch, 1_000);
        batch.clear();
        assert_eq!(batch.bytes.capacity(), 0, "little of it was used");
        fill(&mut batch, 1);
        batch.clear();
        assert!((1_000..=KEPT).contains(&batch.bytes.capacity()));
    }

    fn taken(queue: &mut Queue) -> (Vec<(u32, Vec<u8>)>, bool) {
        let mut batch = Batch::default();
        let goes_on = queue.take(&mut batch);
        (batch.iter().map(|m| (m.item, m.msg.to_vec())).collect(), goes_on)
    }

    #[test]
    fn messages_come_in_order_and_the_bound_holds_the_session_up() {
        let mut queue = queue(5, Overflow::Wait);
        queue.put(message(0, MsgClass::REFRESH, b"abc"));
        assert!(!queue.holds_up());
        queue.put(message(1, MsgClass::UPDATE, b"def"));
        queue.put(message(0, MsgClass::UPDATE, b"g"));
        assert!(queue.holds_up());
        let all = vec![(0, b"abc".to_vec()), (1, b"def".to_vec()), (0, b"g".to_vec())];
        assert_eq!(taken(&mut queue), (all, true));
        assert!(!queue.holds_up() && queue.is_empty());
        assert_eq!(queue.counts(), Counts { queued: 3, full: 1, ..Counts::default() });
    }

    #[test]
    fn an_item_without_room_becomes_its_image_and_stays_in_order() {
        let mut queue = queue(4, Overflow::Latest);
        queue.put(message(0, MsgClass::UPDATE, b"0a"));
        queue.put(message(1, MsgClass::UPDATE, b"1a1a"));
        queue.put(message(0, MsgClass::UPDATE, b"0b"));
        queue.put(message(1, MsgClass::UPDATE, b"1"));
        queue.put(message(2, MsgClass::ACK, b"ack"));
        assert!(!queue.holds_up());
        assert_eq!(taken(&mut queue), (vec![(0, b"0a".to_vec()), (0, b"0b".to_vec())], true));
        // There is room now, but item 1 has an image to be given first.
        queue.put(message(1, MsgClass::UPDATE, b"1"));
        queue.put(message(2, MsgClass::UPDATE, b"2"));
        let mut room = Vec::new();
        queue.refill(9, &mut room, |_, _| false);
        queue.refill(9, &mut room, |item, out| {
            out.extend_from_slice(format!("I{item}").as_bytes());
            true
        });
        queue.put(message(1, MsgClass::UPDATE, b"3"));
        let all = vec![(2, b"2".to_vec()), (1, b"I1".to_vec()), (1, b"3".to_vec())];
        assert_eq!(taken(&mut queue), (all, false));
        let counts = queue.counts();
        assert_eq!((counts.merged, counts.dropped, counts.full), (3, 1, 1));
    }

    #[test]
    fn the_end_of_an_item_has_room_and_nothing_comes_behind_it() {
        let mut queue = queue(1, Overflow::Latest);
        queue.put(message(0, MsgClass::UPDATE, b"abc"));
        queue.put(message(1, MsgClass::UPDATE, b"abc"));
        queue.put(Message { is_final: true, ..message(1, MsgClass::STATUS, b"end") });
        assert_eq!(taken(&mut queue).0.len(), 2);
        queue.refill(9, &mut Vec::new(), |_, _| panic!("item 1 has no image any more"));
    }

    #[test]
    fn a_cut_gives_what_was_and_no_more() {
        let mut queue = queue(3, Overflow::Cut);
        queue.put(message(0, MsgClass::UPDATE, b"abc"));
        queue.put(message(0, MsgClass::UPDATE, b"d"));
        queue.put(Message { is_final: true, ..message(0, MsgClass::STATUS, b"end") });
        assert!(queue.is_cut());
        assert_eq!(taken(&mut queue).0, [(0, b"abc".to_vec())]);
    }
}
