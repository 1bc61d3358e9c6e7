//! Buffers that the sessions of a thread share while they work, so that an idle session owns none.
//!
//! Contents never outlive a call: nothing that a caller can see depends on what happened on the thread before.

use std::cell::{Cell, RefCell};

use lz4_flex::block::CompressTable;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static WORK: Cell<Option<Box<Work>>> = const { Cell::new(None) };
}

/// An empty buffer, with capacity if one is at hand.
pub(crate) fn take() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a buffer back; the large and the many are freed.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > KEPT_BYTES_MAX {
        return;
    }
    BUFFERS.with_borrow_mut(|kept| {
        if kept.len() < KEPT_BUFFERS_MAX {
            buffer.clear();
            kept.push(buffer);
        }
    });
}

/// Where frames are compressed and decompressed. What is in it before is of no meaning.
pub(crate) struct Work {
    /// [`WORK_BYTES`] bytes: any decompressed frame, or any frame after compression.
    pub(crate) bytes: Box<[u8]>,
    /// Cleared by each compression.
    pub(crate) lz4: CompressTable,
}

/// Lends the thread's work block to `f`. A call from within `f` gets another block, so a sink may use other sessions.
pub(crate) fn with_work<R>(f: impl FnOnce(&mut Work) -> R) -> R {
    let mut work = WORK.take().unwrap_or_else(|| {
        Box::new(Work { bytes: vec![0; WORK_BYTES].into_boxed_slice(), lz4: CompressTable::default() })
    });
    let result = f(&mut work);
    WORK.set(Some(work));
    result
}

const WORK_BYTES: usize = 128 * 1024;

/// Frames have at most 64 KB; longer buffers come from reassembled messages.
const KEPT_BYTES_MAX: usize = 128 * 1024;
const KEPT_BUFFERS_MAX: usize = 64;
