//! What changes that come soon will touch, brought into the caches: an order is found by three reads of which each waits for the one before it, and
//! none of them is in a cache in a channel of many instruments. Of a batch of messages the reads of one kind wait for memory together.

use super::{NONE, OrderBooks, Stored, ladder_of, scale, side_of};
use crate::event::{BookId, Side};
use crate::prices::{Prices, Scale};
use crate::rules::ByOrder;

/// Messages of one kind that take a step together: always as many, so that no loop's end is a guess.
const GROUP: usize = 8;

/// Groups that are kept: all whose messages have been looked at and have not come yet.
const GROUPS: usize = 16;

/// Steps that a message takes at most: what one has asked for, the next reads.
const STEPS: usize = 5;

/// Place of the order that a message names, as it was found when the message was looked ahead at; it may be wrong when the message comes.
#[derive(Clone, Copy, Debug)]
pub struct Hint(pub(super) u32);

impl Hint {
    /// Nothing was looked at.
    pub const NONE: Self = Self(NONE);
}

/// A message about an order that stands.
#[derive(Clone, Copy, Debug)]
struct Standing {
    reference: u64,
    /// Price of the order that comes in its place.
    price: i64,
    is_replaced: bool,
    /// Places of the order and of its level, once they are known.
    place: u32,
    level: u32,
}

/// A message about a new order.
#[derive(Clone, Copy, Debug)]
struct Coming {
    price: i64,
    ladder: u32,
    /// Place of the level that it comes to, once it is known.
    level: u32,
}

/// The newest messages of a kind, in groups: with each turn one more group takes its first step, and those before it the next.
#[derive(Clone, Debug)]
struct Queue<T> {
    groups: [[T; GROUP]; GROUPS],
    /// Messages of each group; what else is in it is from before, and as good to look at.
    counts: [u8; GROUPS],
    /// Places of the next message, now and at the last look.
    len: usize,
    seen: usize,
    /// Groups that have taken the first step.
    turns: usize,
    /// Messages waited for their group to be whole.
    has_waited: bool,
}

impl<T: Copy> Queue<T> {
    fn new(filler: T) -> Self {
        let groups = [[filler; GROUP]; GROUPS];
        Self { groups, counts: [0; GROUPS], len: 0, seen: 0, turns: 0, has_waited: false }
    }

    fn clear(&mut self) {
        (self.counts, self.len, self.has_waited) = ([0; GROUPS], self.turns * GROUP, false);
    }

    /// Takes one if it is wanted: written it is in any case, so that no branch depends on it.
    #[inline]
    fn push_if(&mut self, is_wanted: bool, one: T) {
        self.groups[self.len / GROUP % GROUPS][self.len % GROUP] = one;
        self.len += usize::from(is_wanted);
    }

    /// Another turn, if a whole group waits; if not, some of a group wait until nothing more has come at a second look.
    #[inline]
    fn next_turn(&mut self, is_due: bool) -> bool {
        let waiting = self.len - self.turns * GROUP;
        if waiting < GROUP && !is_due {
            return false;
        }
        self.counts[self.turns % GROUPS] = waiting.min(GROUP) as u8;
        self.turns += 1;
        self.len = self.len.max(self.turns * GROUP);
        true
    }

    /// Waiting is over: nothing has come since the last look, or messages have waited once.
    #[inline]
    fn is_due(&mut self) -> bool {
        let is_silent = std::mem::replace(&mut self.seen, self.len) == self.len;
        std::mem::replace(&mut self.has_waited, true) | is_silent
    }

    /// The group that takes this step in this turn, and how many messages it has.
    #[inline]
    fn of_step(&mut self, step: usize) -> Option<(&mut [T; GROUP], usize)> {
        let at = self.turns.wrapping_sub(step + 1) % GROUPS;
        let count = usize::from(self.counts[at]);
        (count > 0).then(|| (&mut self.groups[at], count))
    }

    /// Messages have more steps to take.
    #[inline]
    fn is_under_way(&self, steps: usize) -> bool {
        self.len > self.turns * GROUP || (1..steps).any(|step| self.counts[self.turns.wrapping_sub(step) % GROUPS] > 0)
    }
}

/// The orders and levels that the next messages are about: filled with messages ahead of their time, given to [`OrderBooks::look_ahead`].
#[derive(Clone, Debug)]
pub struct Ahead {
    standing: Queue<Standing>,
    coming: Queue<Coming>,
    /// Of each message about an order that stands what was found.
    hints: [Hint; GROUP * GROUPS],
    /// Hints that are there, and that have been asked for.
    found: usize,
    given: usize,
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            standing: Queue::new(Standing { reference: 0, price: 0, is_replaced: false, place: NONE, level: 0 }),
            coming: Queue::new(Coming { price: 0, ladder: 0, level: 0 }),
            hints: [Hint::NONE; GROUP * GROUPS],
            found: 0,
            given: 0,
        }
    }
}

impl Ahead {
    /// Most messages that have been pushed and have not come.
    pub const MOST: usize = GROUP * (GROUPS - 2);

    /// Forgets all messages.
    #[inline]
    pub fn clear(&mut self) {
        self.standing.clear();
        self.coming.clear();
        (self.found, self.given) = (0, 0);
    }

    /// Places found for the next message that names an order: to be asked for each of those in their order. It is for the changes of [`OrderBooks`] alone.
    #[inline]
    pub fn next_hint(&mut self) -> Hint {
        let hint = self.hints[self.given % self.hints.len()];
        // A message that has not come so far has no hint.
        let is_found = self.given < self.found;
        self.given += 1;
        if is_found { hint } else { Hint::NONE }
    }

    /// The next message. If `names` it is about the order of this number, which stands; if `brings`, an order comes to this price, which is
    /// of that book and side unless it comes in the named one's place. Nothing here is a branch on what the message is.
    #[inline]
    #[allow(clippy::needless_bitwise_bool, reason = "a lazy operator is a branch")]
    pub fn push(&mut self, (names, reference): (bool, u64), (brings, book, side, price): (bool, BookId, Side, i64)) {
        self.standing.push_if(names, Standing { reference, price, is_replaced: brings, place: NONE, level: 0 });
        self.coming.push_if(brings & !names, Coming { price, ladder: ladder_of(book, side), level: 0 });
    }
}

/// The place, or one that can be read as well as any: without a branch.
#[inline]
fn or_first(place: u32) -> u32 {
    place & u32::from(place == NONE).wrapping_sub(1)
}

impl<R: ByOrder, const QUEUED: bool> OrderBooks<R, QUEUED> {
    /// Messages that were pushed take a step, a group at a time: ask for the memory that their next step will read, and the change itself at last. Nothing changes,
    /// and nothing needs to be right: what is not found is read when it is needed.
    ///
    /// Steps of a message are best some changes apart: memory has time to answer meanwhile. True: some have more to take.
    pub fn look_ahead(&self, ahead: &mut Ahead) -> bool {
        let Some(first) = self.ladders.first() else { return false };
        let steps = Steps { books: self, first };
        let Ahead { standing, coming, hints, found, .. } = ahead;
        let mut is_due = standing.is_due();
        while standing.next_turn(is_due) {
            (is_due, standing.has_waited) = (false, false);
            steps.take_standing(standing, hints, found);
        }
        let mut is_due = coming.is_due();
        while coming.next_turn(is_due) {
            (is_due, coming.has_waited) = (false, false);
            steps.take_coming(coming);
        }
        standing.is_under_way(STEPS) || coming.is_under_way(STEPS_OF_COMING)
    }
}

/// Steps of a message about a new order.
const STEPS_OF_COMING: usize = 3;

/// Books, as the steps of messages read them.
struct Steps<'a, R, const QUEUED: bool> {
    books: &'a OrderBooks<R, QUEUED>,
    /// A ladder that there is.
    first: &'a Prices,
}

impl<R: ByOrder, const QUEUED: bool> Steps<'_, R, QUEUED> {
    /// A step of messages about orders that stand.
    #[inline]
    fn take_standing(&self, standing: &mut Queue<Standing>, hints: &mut [Hint; GROUP * GROUPS], found: &mut usize) {
        let books = self.books;
        // The cell of the index, and the order.
        if let Some((group, _)) = standing.of_step(0) {
            fetch(group, |one| books.index.address(one.reference));
        }
        if let Some((group, count)) = standing.of_step(1) {
            fetch(group, |one| {
                let (place, is_inside) = books.index.peek(one.reference);
                one.place = if is_inside { place } else { books.index.guess(one.reference) };
                books.orders.address(or_first(one.place))
            });
            for (at, one) in group.iter().enumerate() {
                hints[(*found + at) % hints.len()] = Hint(one.place);
            }
            *found += count;
        }
        if let Some((group, _)) = standing.of_step(2) {
            self.fetch_levels(group);
        }
        if let Some((group, _)) = standing.of_step(3) {
            self.fetch_ladders(group);
        }
        if let Some((group, _)) = standing.of_step(4) {
            self.fetch_targets(group);
        }
    }

    /// A step of messages about new orders.
    #[inline]
    fn take_coming(&self, coming: &mut Queue<Coming>) {
        let books = self.books;
        if let Some((group, _)) = coming.of_step(0) {
            fetch(group, |one| self.ladder(one.ladder).address());
            fetch(group, |one| self.ladder(one.ladder).slot_address(scale::<R>(side_of(one.ladder)), one.price));
        }
        if let Some((group, _)) = coming.of_step(1) {
            fetch(group, |one| {
                one.level = or_first(self.ladder(one.ladder).guess(scale::<R>(side_of(one.ladder)), one.price));
                books.levels.address(one.level)
            });
        }
        // The order that a new one stands behind.
        if QUEUED && let Some((group, _)) = coming.of_step(2) {
            fetch(group, |one| {
                let last = books.levels.try_get(one.level).map_or(0, |level| level.last);
                books.orders.address(or_first(last))
            });
        }
    }

    #[inline]
    fn ladder(&self, ladder: u32) -> &Prices {
        self.books.ladders.get(ladder as usize).unwrap_or(self.first)
    }

    /// Levels at which orders stand; what an order is queued between, and its priority.
    #[inline]
    fn fetch_levels(&self, group: &mut [Standing; GROUP]) {
        let (orders, levels) = (&self.books.orders, &self.books.levels);
        let order = |one: &Standing| orders.try_get(or_first(one.place)).unwrap_or(&Stored::FREE);
        fetch(group, |one| {
            one.level = or_first(order(one).level);
            levels.address(one.level)
        });
        if QUEUED {
            fetch(group, |one| self.books.priorities.address(or_first(one.place)));
            fetch(group, |one| orders.address(or_first(order(one).previous)));
            fetch(group, |one| orders.address(or_first(order(one).next)));
        }
    }

    /// The places where levels will be taken off, and where the levels of orders are that come in others' places.
    #[inline]
    #[allow(clippy::needless_bitwise_bool, reason = "a lazy operator is a branch")]
    fn fetch_ladders(&self, group: &mut [Standing; GROUP]) {
        let levels = &self.books.levels;
        // A level goes with its last order. What is not wanted is asked for where it is near already.
        fetch(group, |one| {
            let (ladder, orders) = levels.try_get(one.level).map_or((0, 0), |level| (level.ladder, level.orders));
            let prices = self.ladder(ladder).address();
            if (orders == 1) | one.is_replaced { prices } else { levels.address(one.level) }
        });
        self.fetch_of_replaced(group, Prices::slot_address);
    }

    /// Levels that orders come to in others' places, whose side and book are those of the others.
    #[inline]
    fn fetch_targets(&self, group: &[Standing; GROUP]) {
        let levels = &self.books.levels;
        self.fetch_of_replaced(group, |prices, scale, price| levels.address(or_first(prices.guess(scale, price))));
    }

    /// Asks for a line of each order that comes in another's place: few of a group do.
    #[inline]
    fn fetch_of_replaced(&self, group: &[Standing; GROUP], line: impl Fn(&Prices, Scale, i64) -> *const u8) {
        let mut left = (0..GROUP).fold(0u32, |left, at| left | u32::from(group[at].is_replaced) << at);
        while left != 0 {
            let one = &group[left.trailing_zeros() as usize % GROUP];
            left &= left - 1;
            let ladder = self.books.levels.try_get(one.level).map_or(0, |level| level.ladder);
            lines::fetch(&[line(self.ladder(ladder), scale::<R>(side_of(ladder)), one.price)]);
        }
    }
}

/// Asks for a line of each of a group.
#[inline]
fn fetch<T>(group: &mut [T; GROUP], line: impl FnMut(&mut T) -> *const u8) {
    lines::fetch(&group.each_mut().map(line));
}
