//! Combination and comparison: what an item demands that is made of several.

use super::{Lock, LockError, ServiceLock};

/// The AND of all locks: whoever satisfies it satisfies each of them. Services come out ascending. Groups of a service
/// that occurs more than once are united, ascending, without those that another group implies; a service that occurs
/// once stays as it is written.
pub fn combine<'a>(locks: impl IntoIterator<Item = &'a Lock>) -> Lock {
    let mut services: Vec<ServiceLock> = locks.into_iter().flat_map(|lock| &lock.services).cloned().collect();
    services.sort_by_key(|list| list.service);
    let mut united: Vec<(ServiceLock, bool)> = Vec::with_capacity(services.len());
    for list in services {
        match united.last_mut() {
            Some((last, is_united)) if last.service == list.service => {
                last.groups.extend(list.groups);
                *is_united = true;
            }
            _ => united.push((list, false)),
        }
    }
    let unite = |(mut list, is_united): (ServiceLock, bool)| {
        if is_united {
            absorb(&mut list.groups);
        }
        list
    };
    Lock { services: united.into_iter().map(unite).collect() }
}

/// As [`combine`], on bytes. Empty inputs (items without a lock) add nothing.
///
/// # Errors
/// The first input that is no lock of version 3; [`LockError::NoLocks`] if all are empty; [`LockError::TooLong`].
pub fn combine_bytes<'a>(locks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, LockError> {
    let decoded: Result<Vec<Lock>, LockError> =
        locks.into_iter().filter(|bytes| !bytes.is_empty()).map(Lock::decode).collect();
    combine(&decoded?).encode()
}

/// Whether both are the same bytes: what DACS's `CmpLock` tells, although described otherwise.
pub fn eq_bytes(a: &[u8], b: &[u8]) -> bool {
    a == b
}

/// Whether both demand the same: whoever satisfies one satisfies the other.
pub fn eq_meaning(a: &Lock, b: &Lock) -> bool {
    a.normal() == b.normal()
}

impl Lock {
    /// The one form of all locks that demand the same: services and groups ascending, nothing said twice. Without
    /// negation, the smallest set of groups is unique.
    #[must_use]
    pub fn normal(&self) -> Self {
        let mut lock = combine([self]);
        for list in &mut lock.services {
            absorb(&mut list.groups);
        }
        lock
    }
}

/// Sorts, and drops each group that holds all PEs of another: (A or B) and A is A.
fn absorb(groups: &mut Vec<Vec<u32>>) {
    for group in groups.iter_mut() {
        group.sort_unstable();
        group.dedup();
    }
    groups.sort_unstable();
    groups.dedup();
    // A group can only be implied by one whose least PE it has, too; groups stand by their least PE.
    let implied: Vec<bool> = (0..groups.len())
        .map(|index| {
            let group = &groups[index];
            group.iter().any(|pe| {
                let from = groups.partition_point(|other| other[0] < *pe);
                let others = groups[from..].iter().enumerate().take_while(|(_, other)| other[0] == *pe);
                others.into_iter().any(|(at, other)| from + at != index && is_subset(other, group))
            })
        })
        .collect();
    let mut is_implied = implied.into_iter();
    groups.retain(|_| !is_implied.next().unwrap_or(false));
}

/// Whether `part`, ascending, is in `whole`, ascending.
fn is_subset(part: &[u32], whole: &[u32]) -> bool {
    let mut rest = whole.iter();
    part.len() < whole.len() && part.iter().all(|pe| rest.any(|other| other == pe))
}
