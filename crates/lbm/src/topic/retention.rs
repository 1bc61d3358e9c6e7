//! What a source keeps for late joiners.

use std::collections::VecDeque;

use crate::wire::distance;

/// How much is kept.
#[derive(Clone, Debug)]
pub struct RetentionConfig {
    /// More than so many bytes may be dropped if also the age allows it, 0 = no such rule:
    /// `retransmit_retention_size_threshold`.
    pub size_threshold: usize,
    /// What is older, ns, may be dropped if also the size allows it, 0 = no such rule: `retransmit_retention_age_threshold`.
    pub age_threshold_ns: u64,
    /// Never more than so many bytes: `retransmit_retention_size_limit`.
    pub size_limit: usize,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { size_threshold: 0, age_threshold_ns: 0, size_limit: 25_165_824 }
    }
}

#[derive(Debug)]
struct Kept {
    sqn: u32,
    at: u64,
    message: Vec<u8>,
}

/// Encoded messages, oldest first, with ascending numbers: consecutive ones, unless the source has left numbers out.
#[derive(Debug)]
pub struct Retention {
    config: RetentionConfig,
    kept: VecDeque<Kept>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Retention {
    /// Keeps nothing yet.
    pub fn new(config: RetentionConfig) -> Self {
        Self { config, kept: VecDeque::new(), bytes: 0, spare: Vec::new() }
    }

    /// How many messages and fragments are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// (oldest, newest) number.
    pub fn range(&self) -> Option<(u32, u32)> {
        Some((self.kept.front()?.sqn, self.kept.back()?.sqn))
    }

    pub(super) fn keep(&mut self, now: u64, sqn: u32, message: &[u8]) {
        self.bytes += message.len();
        self.expire(now);
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(message);
        self.kept.push_back(Kept { sqn, at: now, message: buffer });
    }

    /// Drops what need not be kept any more.
    pub(super) fn expire(&mut self, now: u64) {
        let RetentionConfig { size_threshold, age_threshold_ns, size_limit } = self.config;
        while let Some(oldest) = self.kept.front() {
            let by_rule = (size_threshold != 0 || age_threshold_ns != 0)
                && (size_threshold == 0 || self.bytes > size_threshold)
                && (age_threshold_ns == 0 || now.saturating_sub(oldest.at) > age_threshold_ns);
            if !by_rule && self.bytes <= size_limit {
                return;
            }
            let Some(mut oldest) = self.kept.pop_front() else { return };
            self.bytes -= oldest.message.len();
            oldest.message.clear();
            if self.spare.len() < 64 {
                self.spare.push(oldest.message);
            }
        }
    }

    /// Asserts what is promised of what is kept, of which `next` is the number after the newest: for simulations.
    pub(super) fn check_invariants(&self, next: u32) {
        let bytes: usize = self.kept.iter().map(|kept| kept.message.len()).sum();
        assert_eq!(self.bytes, bytes, "bytes kept");
        for (i, kept) in self.kept.iter().rev().enumerate() {
            assert!(distance(kept.sqn, next) > i as i32, "numbers ascend up to the newest");
        }
        let largest = self.kept.back().map_or(0, |kept| kept.message.len());
        assert!(bytes <= self.config.size_limit.max(largest), "{bytes} bytes of {}", self.config.size_limit);
    }

    pub(super) fn get(&self, sqn: u32) -> Option<&[u8]> {
        let index = sqn.wrapping_sub(self.kept.front()?.sqn) as usize;
        if let Some(kept) = self.kept.get(index).filter(|kept| kept.sqn == sqn) {
            return Some(&kept.message);
        }
        // The source has left numbers out.
        let index = self.kept.partition_point(|kept| distance(kept.sqn, sqn) > 0);
        self.kept.get(index).filter(|kept| kept.sqn == sqn).map(|kept| &*kept.message)
    }
}
