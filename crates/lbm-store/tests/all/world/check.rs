//! What must hold of a world in the end.

use std::fmt::Write as _;

use lbm_store::receiver::Topic;
use lbm_store::source::Source;

use super::World;

impl World {
    /// How everybody stands, for a message of failure.
    fn standing(&self) -> String {
        let mut text = String::new();
        for (i, store) in self.stores.iter().enumerate() {
            if let Some(store) = store {
                let _ = write!(text, "\nstore {i}: {:?}", store.stats());
                store.each_source(|id, _, range, _, receivers| {
                    let _ = write!(text, " source {id} {range:?} receivers {receivers:?}");
                });
            }
        }
        for (i, topic) in self.topics.iter().enumerate() {
            for (source, stats, running) in topic.iter().flat_map(Topic::sources) {
                let stores: Vec<_> = topic.iter().flat_map(|topic| topic.stores(source)).collect();
                let _ = write!(text, "\nreceiver {i}: source {source} {stats:?} running {running} {stores:?}");
            }
        }
        text + &format!("\nstream {}, next {:?}", self.stream, self.source.as_ref().and_then(Source::next_sqn))
    }

    /// What must hold in the end.
    pub(crate) fn check(&self, seed: u64) {
        assert_eq!(self.next_id - 1, self.setup.messages, "seed {seed}: all is sent");
        let source = self.source.as_ref().expect("it runs");
        assert_eq!(source.in_flight(), 0, "seed {seed}: all is stable{}", self.standing());
        self.check_had(seed);
    }

    /// Each receiver has had what is stable, by the rules.
    pub(super) fn check_had(&self, seed: u64) {
        for (i, had) in self.had.iter().enumerate() {
            assert!(had.faults.is_empty(), "seed {seed}: receiver {i}: {:?}", had.faults);
            let missing: Vec<u64> = self.stable.iter().filter(|id| !had.count.contains_key(id)).copied().collect();
            assert!(
                missing.is_empty(),
                "seed {seed}: receiver {i} has not had {missing:?}, which are stable; {} lost{}",
                had.lost,
                self.standing()
            );
        }
    }
}
