//! After the end of the source: receivers that know nothing get from the stores what the source has left.

use lbm_store::store::Store;

use super::{Act, MS, Node, World};
use crate::had::Had;

/// The stream on which the first store stands in.
const PROXIES: u32 = 100_000;

/// The store that stands in on a stream, if one does.
pub(super) fn store_of(stream: u32) -> Option<usize> {
    stream.checked_sub(PROXIES).map(|store| store as usize)
}

impl World {
    pub(super) fn answer_by_proxy(&mut self, node: Node, store: usize, stream: u32) {
        let Some(speaker) = self.stores[store].as_ref().filter(|_| self.standing_in[store]) else { return };
        let mut bytes = Vec::new();
        speaker.each_source(|reg_id, _, _, _, _| speaker.proxy_info(reg_id, 1_000 * stream, &mut bytes));
        let life = self.life(node);
        self.at(self.now + 2 * MS, Act::Announcement { node, life, stream, bytes });
    }

    /// The source ends for good, a store is killed and starts again, and all receivers are new programs.
    pub(crate) fn outlive(&mut self) {
        self.kill(Node::Source);
        let killed = Node::Store(self.random.below(self.setup.stores as u64) as usize);
        self.kill(killed);
        self.start(killed);
        let end = self.now + 40_000 * MS;
        self.run_until(end);
        self.generation += 1;
        for i in 0..self.setup.receivers {
            self.kill(Node::Receiver(i));
            self.had[i] = Had::default();
            self.start(Node::Receiver(i));
            let topic = self.topics[i].as_mut().expect("it was started");
            for store in 0..self.setup.stores as u32 {
                topic.stream_begun(self.now, PROXIES + store, true);
            }
            self.at(self.now, Act::Timer { node: Node::Receiver(i) });
        }
        let end = self.now + 60_000 * MS;
        self.run_until(end);
    }

    /// The promise that must hold then.
    pub(crate) fn check_outlived(&self, seed: u64) {
        assert!(self.standing_in.iter().all(|stands| *stands), "seed {seed}: {:?}", self.standing_in);
        assert_eq!(self.stores.iter().flatten().map(|store| Store::stats(store).internal_faults).sum::<u64>(), 0);
        self.check_had(seed);
    }
}
