//! What the ring is made of, in two forms: the real one, and loom's, which tries every interleaving and every order in which one
//! thread may see the other's writes.

#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(loom)]
pub use model::Waker;
#[cfg(loom)]
pub(super) use model::{Arc, AtomicBool, AtomicU64, Bytes, OnceLock, Ordering, fence};

#[cfg(not(loom))]
mod real {
    use std::cell::UnsafeCell;
    use std::slice;

    pub(in super::super) use crate::Waker;
    pub(in super::super) use std::sync::Arc;
    pub(in super::super) use std::sync::OnceLock;
    pub(in super::super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

    /// Shared memory for messages, eight-byte aligned. Who may touch which bytes is decided by the ring's positions.
    pub(in super::super) struct Bytes(Box<[UnsafeCell<u64>]>);

    // SAFETY: the cells are only touched through `write` and `with`, whose callers promise that no two accesses of which one is a
    // write overlap in time.
    unsafe impl Sync for Bytes {}

    impl Bytes {
        pub(in super::super) fn new(len: usize) -> Self {
            assert!(len.is_multiple_of(8));
            Self((0..len / 8).map(|_| UnsafeCell::new(0)).collect())
        }

        /// Lets `f` write the `len` bytes from `at` on.
        ///
        /// # Safety
        /// They lie inside, and nobody else touches them meanwhile.
        #[inline]
        pub(in super::super) unsafe fn write<T>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> T) -> T {
            debug_assert!(at + len <= self.0.len() * 8);
            let base = UnsafeCell::raw_get(self.0.as_ptr());
            // SAFETY: the caller's promise; every bit pattern is a valid u8.
            f(unsafe { slice::from_raw_parts_mut(base.cast::<u8>().add(at), len) })
        }

        /// Lets `f` read the `len` bytes from `at` on.
        ///
        /// # Safety
        /// They lie inside, and nobody writes them meanwhile.
        #[inline]
        pub(in super::super) unsafe fn with<T>(&self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> T) -> T {
            debug_assert!(at + len <= self.0.len() * 8);
            let base = UnsafeCell::raw_get(self.0.as_ptr());
            // SAFETY: the caller's promise; the memory is initialised.
            f(unsafe { slice::from_raw_parts(base.cast_const().cast::<u8>().add(at), len) })
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::cell::UnsafeCell;
    use loom::sync::Notify;

    pub(in super::super) use loom::sync::Arc;
    pub(in super::super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(in super::super) use std::sync::OnceLock;

    /// In the place of an eventfd. A wait that nobody ends is a deadlock, which loom reports.
    #[derive(Clone)]
    pub struct Waker(Arc<Notify>);

    impl Waker {
        /// A new one, asleep.
        pub fn new() -> Self {
            Self(Arc::new(Notify::new()))
        }

        /// Ends the wait, now or the next one.
        pub fn wake(&self) {
            self.0.notify();
        }

        /// Waits until woken.
        pub fn wait(&self) {
            self.0.wait();
        }
    }

    impl std::fmt::Debug for Waker {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Waker")
        }
    }

    /// Words that loom watches: two accesses at a time, one of them a write, fail the test.
    pub(in super::super) struct Bytes(Vec<UnsafeCell<u64>>);

    impl Bytes {
        pub(in super::super) fn new(len: usize) -> Self {
            Self((0..len / 8).map(|_| UnsafeCell::new(0)).collect())
        }

        pub(in super::super) unsafe fn write<T>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> T) -> T {
            assert_eq!(at % 8, 0);
            let mut copy = vec![0; len.next_multiple_of(8)];
            let result = f(&mut copy[..len]);
            for (word, bytes) in self.0[at / 8..].iter().zip(copy.chunks(8)) {
                // SAFETY: loom checks that nobody else has access now.
                word.with_mut(|word| unsafe { *word = u64::from_ne_bytes(bytes.try_into().unwrap()) });
            }
            result
        }

        pub(in super::super) unsafe fn with<T>(&self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> T) -> T {
            assert_eq!(at % 8, 0);
            let words = &self.0[at / 8..][..len.div_ceil(8)];
            // SAFETY: loom checks that nobody writes now.
            let copy: Vec<u8> =
                words.iter().flat_map(|word| word.with(|word| unsafe { *word }).to_ne_bytes()).collect();
            f(&copy[..len])
        }
    }
}
