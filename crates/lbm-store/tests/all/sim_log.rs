//! The log of a store on a disk that writes late.

use lbm_store::store::{Entry, Log};

/// A log of which only what was synchronised survives. Without `durable` it is a store in memory.
#[derive(Debug, Default)]
pub(crate) struct SimLog {
    pub(crate) durable: bool,
    pub(crate) entries: Vec<Vec<u8>>,
}

impl Log for SimLog {
    fn write(&mut self, entry: &Entry<'_>) -> u64 {
        if !self.durable {
            return 0;
        }
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        self.entries.push(bytes);
        self.entries.len() as u64
    }

    fn is_durable(&self) -> bool {
        self.durable
    }
}

/// The log of a store of which a source has taken numbers before, all of them released; and how much of it survives.
pub(crate) fn begun(first: u32) -> (Vec<Vec<u8>>, usize) {
    let epochs = [4_097u32, first].map(u32::to_be_bytes).concat();
    let source = Entry::Source { reg_id: 1, session: 77, topic: b"orders", epochs: &epochs };
    let mut entries = vec![Vec::new(); if first == 0 { 0 } else { 2 }];
    for (out, entry) in entries.iter_mut().zip([source, Entry::Start { source: 1, low: first }]) {
        entry.encode(out);
    }
    let count = entries.len();
    (entries, count)
}
