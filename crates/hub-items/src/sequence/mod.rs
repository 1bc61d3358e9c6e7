//! Two streams of one item that are numbered alike, of which one is used and the other one, its *mirror*, stands by: what has been passed
//! on of the stream in use, what its mirror holds beyond that, and what of the mirror's is new when it takes over.
//!
//! Both sides of the hub have such streams: a Source Distributor of two providers, a P2PS of two Source Distributors. Whose numbers
//! they are, and who asks for which stream, is theirs to know.

mod tail;

pub use tail::{Tail, TailUpdate, is_after};

/// Bytes of updates that all tails of one side of the hub together may hold.
pub const TAILS_BYTES: usize = 64 << 20;

/// How far behind the last number an update may be to be one that was passed on before; one further behind has been numbered anew.
const REPEATS: u32 = 1 << 16;

/// An image that is older than what was passed on goes on when so many requests have brought no newer one in their time.
const PATIENCE: u8 = 3;

/// What the stream in use has brought.
#[derive(Debug, Default)]
pub struct Sequence {
    /// The number of its last image or update.
    passed: Option<u32>,
    /// A mirror has taken over, and its stream may be behind the one before: what has come from that is dropped.
    catches_up: bool,
    held_back: HeldBack,
    /// The number of images that were held back for as long as a request may take, and for how many requests: a stream that stays there
    /// is no longer waited for, see [`PATIENCE`].
    stays_at: Option<(u32, u8)>,
}

/// An image of a stream that catches up, and that is older than what was passed on: the updates behind that image would come again to
/// those who watch. Who waits for an image gets the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum HeldBack {
    /// There is none.
    #[default]
    None,
    /// The set's last part has not come; the number of the first.
    Arriving(u32),
    /// The set was dropped whole: another one is to be asked for when the stream has caught up.
    Whole(u32),
}

impl Sequence {
    /// The number of the last image or update.
    pub const fn passed(&self) -> Option<u32> {
        self.passed
    }

    /// Whether the stream may still bring what was passed on of the one before.
    pub const fn catches_up(&self) -> bool {
        self.catches_up
    }

    /// An update has come: true if it goes on, false if it was passed on before a takeover.
    pub fn pass(&mut self, number: Option<u32>) -> bool {
        if self.catches_up
            && let (Some(number), Some(passed)) = (number, self.passed)
            && passed.wrapping_sub(number) < REPEATS
        {
            // What comes behind the last one of these is new.
            self.catches_up = number != passed;
            return false;
        }
        self.catches_up = false;
        self.passed = number;
        true
    }

    /// What is passed on from now on is compared with this number, and with nothing of before.
    pub fn begin(&mut self, passed: Option<u32>) {
        *self = Self { passed, ..Self::default() };
    }

    /// Whoever may know some of what was passed on has an image with this number; numbers are those of before.
    pub fn image_passed(&mut self, number: Option<u32>) {
        let is_ahead = |number: u32| self.passed.is_some_and(|passed| is_after(passed, number));
        if !number.is_some_and(is_ahead) {
            self.begin(number.or(self.passed));
        }
    }

    /// A mirror takes over.
    pub fn take_over(&mut self) {
        *self = Self { passed: self.passed, catches_up: true, ..Self::default() };
    }

    /// A part of an image has come: whether it is held back, as one that is older than what was passed on.
    pub fn holds_back(&mut self, number: Option<u32>, begins: bool, complete: bool) -> bool {
        if begins {
            let is_old = |&number: &u32| {
                let is_behind = self.passed.is_some_and(|passed| is_after(passed, number));
                self.catches_up && is_behind && self.stays_at != Some((number, PATIENCE))
            };
            self.held_back = number.filter(is_old).map_or(HeldBack::None, HeldBack::Arriving);
        }
        let HeldBack::Arriving(number) = self.held_back else { return false };
        if complete {
            self.held_back = HeldBack::Whole(number);
        }
        true
    }

    /// Whether an image was held back and dropped.
    pub const fn has_held_back(&self) -> bool {
        matches!(self.held_back, HeldBack::Whole(_))
    }

    /// Whether the stream has caught up after an image of it was held back: true once.
    pub fn has_caught_up(&mut self) -> bool {
        let is_due = self.has_held_back() && !self.catches_up;
        if is_due {
            self.held_back = HeldBack::None;
        }
        is_due
    }

    /// A request has taken too long, because its image was held back.
    pub fn held_too_long(&mut self) {
        let (HeldBack::Arriving(number) | HeldBack::Whole(number)) = self.held_back else { return };
        let times = self.stays_at.filter(|&(at, _)| at == number).map_or(0, |(_, times)| times);
        self.stays_at = Some((number, (times + 1).min(PATIENCE)));
        // The other parts of one that is arriving are nobody's either.
        if self.has_held_back() {
            self.held_back = HeldBack::None;
        }
    }

    /// Whether those who watch can go on with what a mirror has, and need no image.
    pub fn goes_on_with(&self, tail: &Tail) -> bool {
        self.passed.is_some_and(|passed| tail.reaches_back_to(passed))
    }

    /// An update of the mirror has come, with these flags: held if it was not passed on. `room` is what all tails may still take. Tells by
    /// how many bytes the tail has grown, below 0 if it has become shorter.
    pub fn keep(&self, tail: &mut Tail, number: Option<u32>, flags: u8, rwf: &[u8], room: usize) -> isize {
        let before = tail.bytes();
        let is_old = matches!((number, self.passed), (Some(number), Some(passed)) if !is_after(number, passed));
        if is_old {
            tail.skip(number);
        } else {
            tail.push(number, flags, rwf, room);
        }
        tail.bytes().cast_signed() - before.cast_signed()
    }

    /// What a tail holds of what was passed on is of no use: the bytes that this frees.
    pub fn trim(&self, tail: &mut Tail) -> usize {
        self.passed.map_or(0, |passed| tail.trim(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, Sequence, Tail};

    fn taken_over_at(passed: u32) -> Sequence {
        let mut sequence = Sequence::default();
        sequence.begin(Some(passed));
        sequence.take_over();
        sequence
    }

    #[test]
    fn what_was_passed_on_before_a_takeover_is_dropped_once() {
        let mut sequence = taken_over_at(1);
        assert_eq!([u32::MAX, 0, 1, 2, 2].map(|number| sequence.pass(Some(number))), [false, false, false, true, true]);
        let mut anew = taken_over_at(1 << 20);
        assert!(anew.pass(Some(7)) && !anew.catches_up(), "numbers that begin again are those of another life");
    }

    #[test]
    fn an_image_that_answers_one_watcher_takes_nothing_back() {
        let mut sequence = Sequence::default();
        sequence.begin(Some(5));
        sequence.image_passed(Some(3));
        assert_eq!(sequence.passed(), Some(5));
        sequence.image_passed(None);
        assert_eq!(sequence.passed(), Some(5));
        sequence.image_passed(Some(6));
        assert_eq!(sequence.passed(), Some(6));
    }

    #[test]
    fn an_older_image_is_held_back_until_the_stream_has_caught_up_or_stays_there() {
        let mut sequence = taken_over_at(5);
        assert!(sequence.holds_back(Some(3), true, false) && sequence.holds_back(None, false, true));
        assert!(sequence.has_held_back() && !sequence.has_caught_up());
        assert!(!sequence.pass(Some(4)) && !sequence.has_caught_up());
        assert!(!sequence.pass(Some(5)) && sequence.has_caught_up() && !sequence.has_caught_up());
        assert!(!sequence.holds_back(Some(5), true, true));
        let mut stays = taken_over_at(5);
        for _ in 0..PATIENCE {
            assert!(stays.holds_back(Some(3), true, true));
            stays.held_too_long();
        }
        assert!(!stays.holds_back(Some(3), true, true), "it has been numbered anew, it seems");
    }

    #[test]
    fn a_mirror_keeps_what_was_not_passed_on() {
        let mut sequence = Sequence::default();
        sequence.begin(Some(5));
        let mut tail = Tail::behind(Some(4));
        assert_eq!(sequence.keep(&mut tail, Some(5), 0, b"ab", 9), 0);
        assert_eq!(sequence.keep(&mut tail, Some(6), 0, b"ab", 9), 2);
        assert!(sequence.goes_on_with(&tail));
        sequence.pass(Some(6));
        assert_eq!((sequence.trim(&mut tail), sequence.keep(&mut tail, None, 0, b"ab", 9)), (2, 0));
        assert!(!sequence.goes_on_with(&tail));
    }
}
