//! Which of several lines brings messages first, and how far the others are behind.

/// Lines whose counts are kept.
pub const LINES: usize = 4;

/// When messages first came, to know how far the other line is behind: so many packets are remembered.
const REMEMBERED: usize = 1024;

/// Packets of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Packets.
    pub packets: u64,
    /// Messages that no other line had brought before.
    pub first: u64,
    /// Packets whose first message another line had brought a known time before.
    pub behind: u64,
    /// How long before, summed; nanoseconds.
    pub behind_ns: u64,
}

/// The lines of one stream.
#[derive(Debug)]
pub(crate) struct Lines {
    counts: [LineCounts; LINES],
    /// By number of a packet's first message: that number, and when it came.
    first_seen: Vec<(u64, u64)>,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self { counts: [LineCounts::default(); LINES], first_seen: vec![(0, 0); REMEMBERED] }
    }

    /// Counters of a line.
    pub(crate) fn counts(&self, line: u8) -> LineCounts {
        self.counts.get(usize::from(line)).copied().unwrap_or_default()
    }

    /// Numbers begin again.
    pub(crate) fn forget_times(&mut self) {
        self.first_seen.fill((0, 0));
    }

    /// A packet has come at `now`: number of its first message, how many it has, and how many of them were new.
    #[inline]
    pub(crate) fn note(&mut self, line: u8, first: u64, count: u64, new: u64, now: u64) {
        let Some(counts) = self.counts.get_mut(usize::from(line)) else { return };
        counts.packets += 1;
        counts.first += new;
        let seen = &mut self.first_seen[first as usize % REMEMBERED];
        if new > 0 {
            *seen = (first, now);
        } else if seen.0 == first && count > 0 {
            counts.behind += 1;
            counts.behind_ns += now.saturating_sub(seen.1);
        }
    }
}
