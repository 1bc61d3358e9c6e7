//! Notes of a judge: where a rule was broken, and how often each had occasion.

use std::collections::BTreeMap;

use super::rules::{LIMITS, Rule};
use crate::numbers::SECOND;

/// Findings that are kept of one rule; the others are counted.
const KEPT: usize = 10;

/// A place at which a rule was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// When, nanoseconds since the scenario began.
    pub at_ns: u64,
    /// The client's deed, or what it did not do.
    pub text: String,
}

/// Findings, occasions, and the limits that hold in this scenario.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    findings: Vec<Finding>,
    broken: BTreeMap<&'static str, u64>,
    occasions: BTreeMap<&'static str, u64>,
    limits: BTreeMap<String, f64>,
}

impl Notes {
    /// Nothing noted; `limits` are those of the scenario.
    pub fn new(limits: BTreeMap<String, f64>) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What several have noted, as one; findings in order of time.
    pub fn joined<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut joined = Self::default();
        for notes in all {
            joined.findings.extend(notes.findings.iter().cloned());
            for (into, from) in [(&mut joined.broken, &notes.broken), (&mut joined.occasions, &notes.occasions)] {
                for (rule, count) in from {
                    *into.entry(rule).or_default() += count;
                }
            }
        }
        joined.findings.sort_by_key(|finding| finding.at_ns);
        joined
    }

    /// A limit: the scenario's, or what it is by default.
    pub fn limit(&self, name: &str) -> f64 {
        let default = || LIMITS.iter().find(|limit| limit.name == name).map_or(0.0, |limit| limit.value);
        self.limits.get(name).copied().unwrap_or_else(default)
    }

    /// A limit in seconds, as nanoseconds.
    pub fn time_limit(&self, name: &str) -> u64 {
        (self.limit(name) * SECOND as f64) as u64
    }

    /// The client had occasion to break a rule.
    pub fn occasion(&mut self, rule: &Rule) {
        *self.occasions.entry(rule.name).or_default() += 1;
    }

    /// The client broke a rule.
    pub fn broken(&mut self, rule: &Rule, at_ns: u64, text: String) {
        self.occasions.entry(rule.name).or_insert(1);
        let count = self.broken.entry(rule.name).or_default();
        *count += 1;
        if *count <= KEPT as u64 {
            self.findings.push(Finding { rule: rule.name, at_ns, text });
        }
    }

    /// Findings in order of time.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How often a rule was broken, those that are not kept included.
    pub fn times_broken(&self, rule: &str) -> u64 {
        self.broken.get(rule).copied().unwrap_or_default()
    }

    /// How often a rule had occasion.
    pub fn occasions(&self, rule: &str) -> u64 {
        self.occasions.get(rule).copied().unwrap_or_default()
    }
}

/// Times of something that should not come too often.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    times: std::collections::VecDeque<u64>,
}

impl Pace {
    /// The thing happens; gives how often it did in the ten seconds up to now.
    pub(super) fn note(&mut self, now: u64) -> usize {
        self.times.push_back(now);
        while self.times.front().is_some_and(|first| now - first > 10 * SECOND) {
            self.times.pop_front();
        }
        // Of a storm no more is kept than can be told from any limit.
        if self.times.len() > 100_000 {
            self.times.pop_front();
        }
        self.times.len()
    }
}
