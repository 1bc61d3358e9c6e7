//! Incarnations of a source.
//!
//! A source that dies has sent messages that no quorum of stores has. The one that takes up its registration goes on behind what the
//! quorum has, so it gives numbers of those to other messages. A store or a receiver that was away meanwhile must not take the one for the
//! other. So each incarnation has an *epoch*, and whoever learns of one forgets what it has from earlier ones from that first number on.
//! Any two quorums have a store in common, so a later incarnation has a higher epoch.

use lbm::wire::distance;

use crate::wire::EPOCHS_MAX;

/// Bits of an epoch that tell incarnations apart which have counted alike since neither knew of the other.
const MARK_BITS: u32 = 12;

/// The newest incarnations of a source, oldest first: epoch (a count and a mark) and first number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs(Vec<(u32, u32)>);

/// What is to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Nothing,
    /// Messages from this number on.
    From(u32),
    /// Everything: what has happened meanwhile is not known any more.
    All,
}

impl Epochs {
    /// From pairs as they stand on the wire. What is no whole pair is left out.
    pub fn read(pairs: &[u8]) -> Self {
        let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        Self(pairs.chunks_exact(8).take(EPOCHS_MAX).map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect())
    }

    /// As they stand on the wire.
    pub fn written(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(epoch, first)| [epoch.to_be_bytes(), first.to_be_bytes()]).flatten().collect()
    }

    /// The newest epoch; 0: none.
    pub fn latest(&self) -> u32 {
        self.0.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// How many incarnations there were.
    pub fn count(&self) -> u32 {
        self.latest() >> MARK_BITS
    }

    /// The first number of the newest incarnation.
    pub fn first(&self) -> Option<u32> {
        self.0.last().map(|(_, first)| *first)
    }

    /// A new incarnation begins with this number, and counts on from this one and `count`. `mark` is any number that another one hardly has.
    pub fn begin(&mut self, first: u32, count: u32, mark: u32) {
        if self.0.len() == EPOCHS_MAX {
            self.0.remove(0);
        }
        // Never that of the one before: what has the same mark behind one another is the same program.
        let mark = if mark_of(self.latest()) == mark_of(mark) { mark_of(mark) ^ 1 } else { mark_of(mark) };
        self.0.push(((self.count().max(count) + 1) << MARK_BITS | mark, first));
    }

    /// The newest incarnation counts on, with `first` as its next number: it is the same program, and gives no number again.
    pub fn go_on(&mut self, first: u32, count: u32) {
        let mark = mark_of(self.latest());
        if self.0.len() == EPOCHS_MAX {
            self.0.remove(0);
        }
        self.0.push(((self.count().max(count) + 1) << MARK_BITS | mark, first));
    }

    /// What came after the incarnation at a place, without those as which it has gone on itself.
    fn others_after(&self, at: usize) -> impl Iterator<Item = &(u32, u32)> {
        let mark = mark_of(self.0[at].0);
        self.0[at + 1..].iter().skip_while(move |(epoch, _)| mark_of(*epoch) == mark)
    }

    /// Those that someone has messages of who has none from `end` on. Of the others only their word is known: whether any store has taken a
    /// message of them is not.
    #[must_use]
    pub fn with_messages(&self, end: u32) -> Self {
        let last = self.0.iter().rposition(|(_, first)| distance(*first, end) > 0);
        Self(self.0[..last.map_or(0, |at| at + 1)].to_vec())
    }

    /// The very first incarnation alone, if it is known.
    #[must_use]
    pub fn beginning(&self) -> Self {
        Self(self.0.iter().take(1).copied().filter(|(epoch, _)| epoch >> MARK_BITS == 1).collect())
    }

    /// Whether there is an incarnation of this epoch, which is not the newest: who speaks of it is late.
    pub fn is_past(&self, epoch: u32) -> bool {
        self.latest() != epoch && self.0.iter().any(|(other, _)| *other == epoch)
    }

    /// Whether a number means the same to someone whose newest epoch is this one.
    pub fn is_shared(&self, epoch: u32, sqn: u32) -> bool {
        match self.0.iter().rposition(|(other, _)| *other == epoch) {
            Some(at) => self.others_after(at).all(|(_, first)| distance(sqn, *first) > 0),
            // Of a later one this one has not heard yet.
            None => epoch >> MARK_BITS > self.count(),
        }
    }

    /// Whether these come behind `known`, or are the same.
    pub fn follow(&self, known: &Self) -> bool {
        self.count() > known.count() || self.latest() == known.latest()
    }

    /// What someone who knows `known` has to forget. Who knows nothing has nothing to forget.
    pub fn cut(&self, known: &Self) -> Cut {
        let shared = known.0.iter().rposition(|(epoch, _)| self.0.iter().any(|(other, _)| other == epoch));
        let Some(shared) = shared else {
            let is_whole = self.0.first().is_some_and(|(epoch, _)| epoch >> MARK_BITS == 1);
            return match known.0.first() {
                None => Cut::Nothing,
                Some((_, first)) if is_whole => Cut::From(self.0.iter().fold(*first, |a, (_, b)| earlier(a, *b))),
                Some(_) => Cut::All,
            };
        };
        let epoch = known.0[shared].0;
        let Some(ours) = self.0.iter().rposition(|(other, _)| *other == epoch) else { return Cut::All };
        let after = known.others_after(shared).chain(self.others_after(ours)).map(|(_, first)| *first);
        after.reduce(earlier).map_or(Cut::Nothing, Cut::From)
    }
}

fn mark_of(epoch: u32) -> u32 {
    epoch & ((1 << MARK_BITS) - 1)
}

fn earlier(a: u32, b: u32) -> u32 {
    if distance(a, b) < 0 { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(firsts: &[(u32, u32)]) -> Epochs {
        let mut epochs = Epochs::default();
        for (first, mark) in firsts {
            epochs.begin(*first, 0, *mark);
        }
        epochs
    }

    #[test]
    fn who_was_away_forgets_from_the_earliest_number_that_was_given_again() {
        let all = [(0, 1), (100, 2), (80, 3), (120, 4)];
        let newest = epochs(&all);
        let cuts: Vec<Cut> = (0..=4).map(|known| newest.cut(&epochs(&all[..known]))).collect();
        assert_eq!(cuts, [Cut::Nothing, Cut::From(80), Cut::From(80), Cut::From(120), Cut::Nothing]);
        assert_eq!(Epochs::read(&newest.written()), newest);
    }

    #[test]
    fn incarnations_that_count_alike_are_told_apart() {
        let (one, two) = (epochs(&[(0, 1), (50, 7)]), epochs(&[(0, 1), (40, 8)]));
        assert!(!one.follow(&two) && !two.follow(&one) && one.follow(&one));
        assert_eq!((one.cut(&two), two.cut(&one)), (Cut::From(40), Cut::From(40)));
        assert!(epochs(&[(0, 1), (40, 8), (60, 8)]).follow(&one));
    }

    #[test]
    fn one_that_goes_on_forgets_nothing_and_another_one_is_never_taken_for_it() {
        let before = epochs(&[(0, 1), (50, 2)]);
        let mut on = before.clone();
        on.go_on(80, 0);
        assert_eq!(
            (on.cut(&before), before.cut(&on), on.is_shared(before.latest(), 90)),
            (Cut::Nothing, Cut::Nothing, true)
        );
        let mut next = on.clone();
        next.begin(90, 0, 2);
        assert_eq!((next.cut(&on), next.cut(&before)), (Cut::From(90), Cut::From(90)), "though the mark is the same");
        assert!(!next.is_shared(before.latest(), 90) && next.is_shared(before.latest(), 89));
    }

    #[test]
    fn one_that_has_sent_nothing_is_a_word_alone() {
        let all = epochs(&[(0, 1), (50, 2), (40, 3)]);
        let counts: Vec<u32> = [0, 1, 40, 41].map(|end| all.with_messages(end).count()).into();
        assert_eq!(counts, [0, 1, 1, 3]);
        let mut next = all.with_messages(40);
        next.begin(40, all.count(), 4);
        assert_eq!((next.count(), next.cut(&all)), (4, Cut::From(40)), "it counts on from what it was told");
    }

    #[test]
    fn who_was_away_for_too_long_forgets_everything() {
        let all: Vec<(u32, u32)> = (0..=EPOCHS_MAX as u32 + 1).map(|first| (first, first)).collect();
        let newest = epochs(&all);
        assert_eq!((newest.cut(&epochs(&all[..1])), newest.cut(&epochs(&all[..3]))), (Cut::All, Cut::From(3)));
        let wrapped = epochs(&[(u32::MAX - 5, 1), (3, 2), (u32::MAX - 1, 3)]);
        assert_eq!(wrapped.cut(&epochs(&[(u32::MAX - 5, 1)])), Cut::From(u32::MAX - 1), "numbers wrap");
    }

    proptest::proptest! {
        /// Logs of peers that have followed a source for some of its incarnations: what is left after the cut is what the newest one has
        /// under these numbers.
        #[test]
        fn what_is_left_after_a_cut_is_what_the_newest_incarnation_has(
            base in proptest::prelude::any::<u32>(),
            steps in proptest::collection::vec((0usize..12, 1usize..12), 1..40),
            known in 0usize..40,
        ) {
            let (mut truth, mut newest): (Vec<usize>, Epochs) = (Vec::new(), Epochs::default());
            let mut states = vec![(truth.clone(), newest.clone())];
            for (incarnation, (unstable, sent)) in steps.into_iter().enumerate() {
                let first = truth.len().saturating_sub(unstable);
                truth.truncate(first);
                truth.extend(std::iter::repeat_n(incarnation, sent));
                newest.begin(base.wrapping_add(first as u32), 0, incarnation as u32);
                states.push((truth.clone(), newest.clone()));
            }
            let (mut log, epochs) = states[known.min(states.len() - 1)].clone();
            match newest.cut(&epochs) {
                Cut::Nothing => {}
                Cut::From(from) => log.truncate(from.wrapping_sub(base) as usize),
                Cut::All => log.clear(),
            }
            proptest::prop_assert!(log.len() <= truth.len());
            proptest::prop_assert_eq!(&log[..], &truth[..log.len()]);
        }
    }
}
