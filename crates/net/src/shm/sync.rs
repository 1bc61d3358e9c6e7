//! Atomics and fences of the log, in two forms: the real ones, and loom's.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{Ordering, fence};

/// Between a swap and a load, both `SeqCst`: they are in the one order of all such operations by that. Loom takes them for acquire and
/// release, and has that order for fences only.
#[inline]
pub(super) fn total_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
