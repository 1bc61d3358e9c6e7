//! Hashes of the messages that were delivered last, so that copies of them can be held against them.

use std::hash::Hasher as _;

use rustc_hash::FxHasher;

/// The first and the last size of the table, in messages of 24 bytes.
const LEAST: usize = 64;
const MOST: usize = 1 << 18;

/// A number for what is in a message. It has no key: sources that differ by mistake are found, not who wants to deceive.
pub(crate) fn digest(payload: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(payload);
    hasher.write_usize(payload.len());
    hasher.finish()
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    position: u64,
    digest: u64,
    /// 0: there is no entry; else one more than the source.
    source: u64,
}

/// A table by position that grows while copies come later than it reaches.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    entries: Vec<Entry>,
}

impl Recent {
    #[inline]
    pub(crate) fn put(&mut self, position: u64, digest: u64, source: u32) {
        if self.entries.is_empty() {
            self.entries.resize(LEAST, Entry::default());
        }
        let at = position as usize & (self.entries.len() - 1);
        self.entries[at] = Entry { position, digest, source: u64::from(source) + 1 };
    }

    /// The digest and source of the first copy; `None` if it is not known any more.
    #[inline]
    pub(crate) fn get(&mut self, position: u64) -> Option<(u64, u32)> {
        let length = self.entries.len();
        let entry = *self.entries.get(position as usize & length.wrapping_sub(1))?;
        if entry.source == 0 {
            return None;
        }
        if entry.position != position {
            if entry.position > position {
                self.grow();
            }
            return None;
        }
        Some((entry.digest, (entry.source - 1) as u32))
    }

    #[cold]
    fn grow(&mut self) {
        let length = self.entries.len() * 2;
        if length > MOST {
            return;
        }
        let before = std::mem::replace(&mut self.entries, vec![Entry::default(); length]);
        for entry in before.into_iter().filter(|entry| entry.source != 0) {
            self.entries[entry.position as usize & (length - 1)] = entry;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_grows_until_it_reaches_the_slowest_copy() {
        let mut recent = Recent::default();
        assert_eq!(recent.get(3), None);
        let mut missed = 0;
        for position in 0..20_000u64 {
            recent.put(position, position * 7, 4);
            if position >= 1_000 {
                match recent.get(position - 1_000) {
                    Some(found) => assert_eq!(found, ((position - 1_000) * 7, 4)),
                    None => missed += 1,
                }
            }
        }
        assert!(recent.entries.len() == 1_024 && missed < 2_100, "{} {missed}", recent.entries.len());
        let most = (MOST as u64 * 3, 0);
        for position in 0..most.0 {
            recent.put(position, 0, 0);
            let _ = recent.get(position.saturating_sub(MOST as u64 * 2));
        }
        assert_eq!(recent.entries.len(), MOST);
    }

    #[test]
    fn digests_tell_lengths_apart() {
        assert_ne!(digest(b""), digest(b"\0"));
        assert_ne!(digest(b"IBM 142.10"), digest(b"IBM 142.11"));
        assert_eq!(digest(b"same"), digest(b"same"));
    }
}
