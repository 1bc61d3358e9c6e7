//! Groups of files that use each other.

use std::collections::{BTreeMap, BTreeSet};

use super::arrows::Pairs;

/// Groups each of whose files leads to all others of it, the largest first.
pub(super) fn circles(pairs: &Pairs) -> Vec<BTreeSet<usize>> {
    let mut uses: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, to) in pairs {
        uses.entry(*from).or_default().push(*to);
    }
    let reach = |from: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(uses.get(&at).into_iter().flatten().filter(|next| seen.insert(**next)));
        }
        seen
    };
    let reached: BTreeMap<usize, BTreeSet<usize>> = uses.keys().map(|from| (*from, reach(*from))).collect();
    let leads = |from: usize, to: usize| reached.get(&from).is_some_and(|seen| seen.contains(&to));
    let mut groups = BTreeSet::new();
    for (from, seen) in &reached {
        let group: BTreeSet<usize> = seen.iter().copied().filter(|to| leads(*to, *from)).collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}
