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

    /// A new incarnation begins with this number. `mark` is any number that another one hardly has.
    pub fn begin(&mut self, first: u32, mark: u32) {
        if self.0.len() == EPOCHS_MAX {
            self.0.remove(0);
        }
        let mark = mark & ((1 << MARK_BITS) - 1);
        self.0.push(((self.count() + 1) << MARK_BITS | mark, first));
    }

    /// Whether there is an incarnation of this epoch, which is not the newest: who speaks of it is late.
    pub fn is_past(&self, epoch: u32) -> bool {
        self.latest() != epoch && self.0.iter().any(|(other, _)| *other == epoch)
    }

    /// Whether a number means the same to someone whose newest epoch is this one.
    pub fn is_shared(&self, epoch: u32, sqn: u32) -> bool {
        match self.0.iter().rposition(|(other, _)| *other == epoch) {
            Some(at) => self.0[at + 1..].iter().all(|(_, first)| distance(sqn, *first) > 0),
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
        let ours = self.0.iter().rposition(|(other, _)| *other == epoch).map_or(0, |at| at + 1);
        let after = known.0[shared + 1..].iter().chain(&self.0[ours..]).map(|(_, first)| *first);
        after.reduce(earlier).map_or(Cut::Nothing, Cut::From)
    }
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
            epochs.begin(*first, *mark);
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
                newest.begin(base.wrapping_add(first as u32), incarnation as u32);
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
