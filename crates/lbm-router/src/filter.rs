//! Which topics pass a portal.

use names::Pattern;

/// Topics that may pass a portal: those of `include` (all, if it is empty) that are not of `exclude`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Patterns of topics that pass; empty: all.
    pub include: Vec<Pattern>,
    /// Patterns of topics that do not.
    pub exclude: Vec<Pattern>,
}

impl Filter {
    /// Whether a topic passes.
    pub fn passes(&self, topic: &str) -> bool {
        let of = |list: &[Pattern]| list.iter().any(|pattern| pattern.matches(topic.as_bytes()));
        (self.include.is_empty() || of(&self.include)) && !of(&self.exclude)
    }
}
