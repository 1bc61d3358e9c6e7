//! Which numbers a source has sent next to each other, where its messages do not come in its order.

/// Messages that are remembered by each end.
const REMEMBERED: usize = 8_192;

/// Positions by the topic sequence numbers of a source's latest messages.
#[derive(Debug)]
pub(crate) struct Trail {
    /// (sequence number, position) of messages by their first fragment's number; position 0 = none.
    by_first: Vec<(u32, u64)>,
    /// The same by their last fragment's.
    by_last: Vec<(u32, u64)>,
}

impl Default for Trail {
    fn default() -> Self {
        Self { by_first: vec![(0, 0); REMEMBERED], by_last: vec![(0, 0); REMEMBERED] }
    }
}

fn find(table: &[(u32, u64)], sqn: u32) -> Option<u64> {
    let (of, position) = table[sqn as usize % REMEMBERED];
    (of == sqn && position != 0).then_some(position)
}

impl Trail {
    /// A message from `first` to `last` has come.
    pub(crate) fn put(&mut self, first: u32, last: u32, position: u64) {
        self.by_first[first as usize % REMEMBERED] = (first, position);
        self.by_last[last as usize % REMEMBERED] = (last, position);
    }

    /// The positions of the messages right before and right behind those from `first` to `last`.
    pub(crate) fn neighbours(&self, first: u32, last: u32) -> (Option<u64>, Option<u64>) {
        (find(&self.by_last, first.wrapping_sub(1)), find(&self.by_first, last.wrapping_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_found_across_the_wrap_and_forgotten_in_time() {
        let mut trail = Trail::default();
        trail.put(u32::MAX - 2, u32::MAX, 100);
        trail.put(1, 1, 300);
        assert_eq!(trail.neighbours(0, 0), (Some(100), Some(300)));
        trail.put(u32::MAX.wrapping_add(REMEMBERED as u32), u32::MAX.wrapping_add(REMEMBERED as u32), 900);
        assert_eq!(trail.neighbours(0, 0), (None, Some(300)));
        assert_eq!(trail.neighbours(7, 9), (None, None));
    }
}
