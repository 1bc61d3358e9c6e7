//! Large tables in huge pages: an allocator that asks the kernel for them.
//!
//! An update of one of a million items touches lines of tables of tens of megabytes, in no order. In pages of 4 KB nearly each such line is on a page
//! that the processor has to look up first, and in a virtual machine that look-up reads several lines more. In pages of 2 MB the whole table
//! is on a few dozen pages, which the processor remembers.
//!
//! [`HugePages`] is the system's allocator, but for blocks of [`LARGE_BYTES`] and more: each of these is a mapping of its own that begins where a huge
//! page may, and for which huge pages are asked (`madvise`, `MADV_HUGEPAGE`). A table that grows is not copied: its pages move.
//! What is smaller comes from the heap, which [`use_for_heap`] has grow by [`HEAP_STEP_BYTES`] at a time and asks huge pages for as well: the parts of hash tables and the
//! images of a cache are blocks of some hundred bytes, and millions of them. (The heap is that of the main thread, which serves; other threads' are as they were.)
//!
//! Where the machine gives none (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`, or the kernel has none), all is as it was, with small pages;
//! [`usage`] and [`are_given`] tell.
//!
//! A binary chooses it:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: net::huge_pages::HugePages = net::huge_pages::HugePages;
//!
//! fn main() {
//!     net::huge_pages::use_for_heap();
//! }
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of a huge page, on processors with small pages of 4 KB.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of a block from which on it is large: of two huge pages one is surely used. Smaller blocks are the system allocator's.
pub const LARGE_BYTES: usize = 2 * HUGE_PAGE_BYTES;
/// Bytes of a small page: mappings end between two.
const PAGE_BYTES: usize = 4 << 10;

/// Bytes of large blocks that are in use, as they were asked for.
static LARGE: AtomicU64 = AtomicU64::new(0);
/// Large blocks for which the kernel did not take the request.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Bytes by which the heap grows at a time: address space, of which only what is written takes memory.
pub const HEAP_STEP_BYTES: usize = 16 * HUGE_PAGE_BYTES;
/// Bytes at the end of the heap that are free, after which they are given back.
const HEAP_SPARE_BYTES: usize = 2 * HEAP_STEP_BYTES;
/// The heap and what is mapped lie further apart than this, and the heap is never as long.
const HEAP_REACH_BYTES: usize = 1 << 40;

/// Where the part of the heap ends for which huge pages are asked; 0 before [`use_for_heap`].
static HEAP_END: AtomicUsize = AtomicUsize::new(0);

/// The allocator. See the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

/// What the process has of large blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of blocks that are in use and for which huge pages were asked; only what was written of them takes memory.
    pub large_bytes: u64,
    /// Blocks since the start for which the kernel did not take the request: it knows no huge pages.
    pub refused: u64,
}

/// What there is of large blocks now. Nothing where [`HugePages`] is not the allocator.
pub fn usage() -> Usage {
    Usage { large_bytes: LARGE.load(Ordering::Relaxed), refused: REFUSED.load(Ordering::Relaxed) }
}

/// Asks huge pages for the heap from now on: what is in it already stays as it is. For the start of a program.
pub fn use_for_heap() {
    #[cfg(target_env = "gnu")]
    {
        let limits = [
            (libc::M_TOP_PAD, HEAP_STEP_BYTES),
            (libc::M_TRIM_THRESHOLD, HEAP_SPARE_BYTES),
            // All blocks but our large ones.
            (libc::M_MMAP_THRESHOLD, LARGE_BYTES),
        ];
        // SAFETY: parameters of the allocator, which has a lock for them; it refuses what it does not know.
        let is_set = limits.map(|(parameter, bytes)| unsafe { libc::mallopt(parameter, bytes as libc::c_int) } == 1);
        if is_set == [true; 3] {
            HEAP_END.store(heap_end(), Ordering::Relaxed);
        }
    }
}

/// Where the heap ends now.
#[cfg(target_env = "gnu")]
fn heap_end() -> usize {
    // SAFETY: with 0 the call only says where the end is.
    unsafe { libc::sbrk(0) }.addr()
}

/// A block of the system's allocator was handed out: if the heap has grown for it, huge pages are asked for what is new.
#[inline]
fn note_heap(block: *mut u8) {
    if block.addr().wrapping_sub(HEAP_END.load(Ordering::Relaxed)) < HEAP_REACH_BYTES {
        heap_has_grown();
    }
}

/// Asks huge pages for what is new of the heap. One thread does it where several find that.
#[cold]
fn heap_has_grown() {
    #[cfg(target_env = "gnu")]
    {
        let (before, now) = (HEAP_END.load(Ordering::Relaxed), heap_end());
        let is_ours = before > 0 && before < now && now - before < HEAP_REACH_BYTES;
        if is_ours && HEAP_END.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let start = before / PAGE_BYTES * PAGE_BYTES;
            // SAFETY: a part of the heap, or of what was given back of it meanwhile; the call changes how pages are got, not what is in them.
            let asked =
                unsafe { libc::madvise(ptr::with_exposed_provenance_mut(start), now - start, libc::MADV_HUGEPAGE) };
            if asked != 0 {
                REFUSED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Whether large tables of this process get huge pages, now and on this machine: a block is made, written to, and looked up.
///
/// # Errors
/// `/proc/self/smaps` cannot be read, or has no word of the block.
pub fn are_given() -> io::Result<bool> {
    let block = std::hint::black_box(vec![1_u8; LARGE_BYTES]);
    let map = std::fs::read_to_string("/proc/self/smaps")?;
    let missing = || io::Error::new(io::ErrorKind::InvalidData, "/proc/self/smaps does not show a mapping of ours");
    Ok(huge_kilobytes(&map, block.as_ptr().addr()).ok_or_else(missing)? > 0)
}

/// Kilobytes in huge pages of the mapping in which an address lies, as `smaps` has it.
fn huge_kilobytes(map: &str, address: usize) -> Option<u64> {
    let holds = |line: &str| {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        let ends = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
        Some(ends.contains(&address))
    };
    let lines = map.lines().skip_while(|line| holds(line) != Some(true));
    let of_it = lines.take_while(|line| holds(line) != Some(false));
    of_it
        .filter_map(|line| line.strip_prefix("AnonHugePages:"))
        .find_map(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// Whether a block is a mapping of its own. Its size and alignment alone decide, so that who gives it back knows as much as who took it.
#[inline]
const fn is_large(bytes: usize, align: usize) -> bool {
    bytes >= LARGE_BYTES && align <= HUGE_PAGE_BYTES
}

/// Whole small pages for so many bytes; those of a `Layout` are far below `usize::MAX`.
const fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Address space for so many bytes from where a huge page may begin, with this protection; null if there is none.
fn reserve(bytes: usize, protection: libc::c_int, flags: libc::c_int) -> *mut u8 {
    let whole = whole_pages(bytes) + HUGE_PAGE_BYTES;
    // SAFETY: an anonymous mapping wherever the kernel likes; nothing existing is touched.
    let base = unsafe {
        libc::mmap(ptr::null_mut(), whole, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let base = base.cast::<u8>();
    let before = base.align_offset(HUGE_PAGE_BYTES);
    // SAFETY: `before` is less than a huge page, by which the mapping is longer than what is asked for.
    let (start, end) = unsafe { (base.add(before), base.add(before + whole_pages(bytes))) };
    let behind = whole - before - whole_pages(bytes);
    for (at, len) in [(base, before), (end, behind)] {
        if len > 0 {
            // SAFETY: a part of the mapping that was just made, of whole pages, to which nobody refers.
            unsafe { libc::munmap(at.cast(), len) };
        }
    }
    start
}

/// A block of zeros in a mapping of its own, for which huge pages are asked; null if there is no memory.
fn map(bytes: usize) -> *mut u8 {
    let start = reserve(bytes, libc::PROT_READ | libc::PROT_WRITE, 0);
    if !start.is_null() {
        // SAFETY: the mapping that was just made; the call changes how it gets its pages, not what is in it.
        let asked = unsafe { libc::madvise(start.cast(), whole_pages(bytes), libc::MADV_HUGEPAGE) };
        if asked != 0 {
            REFUSED.fetch_add(1, Ordering::Relaxed);
        }
        LARGE.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    start
}

/// Gives a block back.
///
/// # Safety
/// It is one of [`map`] or [`remap`], of so many bytes, and nobody refers to it.
unsafe fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: a whole mapping of ours, as the caller says.
    unsafe { libc::munmap(start.cast(), whole_pages(bytes)) };
    LARGE.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Gives a block another size, elsewhere if it has to be: its pages move, nothing is copied. Null if there is no memory; the block is as it was then.
///
/// # Safety
/// As [`unmap`]; both sizes are large.
unsafe fn remap(start: *mut u8, bytes: usize, new_bytes: usize) -> *mut u8 {
    let (len, new_len) = (whole_pages(bytes), whole_pages(new_bytes));
    // SAFETY: a whole mapping of ours, which grows where it is or gives its end back. What huge pages were asked for goes on in what is new.
    let mut moved = unsafe { libc::mremap(start.cast(), len, new_len, 0) };
    if moved == libc::MAP_FAILED {
        // Where a huge page may begin again, else the pages would be cut up on their way.
        let to = reserve(new_bytes, libc::PROT_NONE, libc::MAP_NORESERVE);
        if to.is_null() {
            return to;
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: what is replaced at `to` is the room that was just reserved, of this length.
        moved = unsafe { libc::mremap(start.cast(), len, new_len, flags, to.cast::<libc::c_void>()) };
        if moved == libc::MAP_FAILED {
            // SAFETY: the room that was reserved in vain.
            unsafe { libc::munmap(to.cast(), new_len) };
            return ptr::null_mut();
        }
    }
    LARGE.fetch_add(new_bytes as u64, Ordering::Relaxed);
    LARGE.fetch_sub(bytes as u64, Ordering::Relaxed);
    moved.cast()
}

// SAFETY: every block is the system allocator's, or a private mapping of its own that is at least as long and as aligned as was asked; which of
// both is told by size and alignment alone, so that each goes back to where it is from. Nothing panics, and nothing allocates on its way.
unsafe impl GlobalAlloc for HugePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size(), layout.align()) {
            return map(layout.size());
        }
        // SAFETY: the caller's promises are those that the system's allocator wants.
        let block = unsafe { System.alloc(layout) };
        note_heap(block);
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size(), layout.align()) {
            return map(layout.size());
        }
        // SAFETY: as in `alloc`.
        let block = unsafe { System.alloc_zeroed(layout) };
        note_heap(block);
        block
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if is_large(layout.size(), layout.align()) {
            // SAFETY: a block of this layout is one of `map`.
            return unsafe { unmap(start, layout.size()) };
        }
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(start, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        let (is, becomes) = (is_large(layout.size(), layout.align()), is_large(new_bytes, layout.align()));
        if !is && !becomes {
            // SAFETY: as in `alloc`.
            let block = unsafe { System.realloc(start, layout, new_bytes) };
            note_heap(block);
            return block;
        }
        if is && becomes {
            // SAFETY: a block of this layout is one of `map`.
            return unsafe { remap(start, layout.size(), new_bytes) };
        }
        // SAFETY: the caller promises that the new size, rounded up, does not overflow; both blocks hold what is copied.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(new_bytes, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(start, new, layout.size().min(new_bytes));
                self.dealloc(start, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A block with what is to be in it: a byte at the begin of each small page, and the last one.
    struct Block {
        start: *mut u8,
        layout: Layout,
        seed: u8,
    }

    impl Block {
        fn places(bytes: usize) -> impl Iterator<Item = usize> + use<> {
            (0..bytes).step_by(PAGE_BYTES).chain(bytes.checked_sub(1))
        }

        fn byte(&self, place: usize) -> u8 {
            self.seed.wrapping_add((place / PAGE_BYTES) as u8)
        }

        fn new(bytes: usize, align: usize, seed: u8) -> Self {
            let layout = Layout::from_size_align(bytes, align).unwrap();
            // SAFETY: the layout is of one byte at least.
            let block = Self { start: unsafe { HugePages.alloc_zeroed(layout) }, layout, seed };
            assert!(!block.start.is_null());
            assert_eq!(block.start.addr() % layout.align(), 0);
            for place in Self::places(bytes) {
                // SAFETY: within the block.
                assert_eq!(unsafe { *block.start.add(place) }, 0, "a block of zeros");
            }
            for place in Self::places(bytes) {
                // SAFETY: within the block.
                unsafe { *block.start.add(place) = block.byte(place) };
            }
            block
        }

        fn resize(&mut self, bytes: usize) {
            let kept = bytes.min(self.layout.size());
            // SAFETY: a block of this layout.
            self.start = unsafe { HugePages.realloc(self.start, self.layout, bytes) };
            assert!(!self.start.is_null());
            assert_eq!(self.start.addr() % self.layout.align(), 0);
            for place in (0..kept).step_by(PAGE_BYTES) {
                // SAFETY: within the block.
                assert_eq!(unsafe { *self.start.add(place) }, self.byte(place), "byte {place} of {kept}");
            }
            for place in Self::places(bytes) {
                // SAFETY: within the block.
                unsafe { *self.start.add(place) = self.byte(place) };
            }
            self.layout = Layout::from_size_align(bytes, self.layout.align()).unwrap();
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: a block of this layout, of which nobody knows any more.
            unsafe { HugePages.dealloc(self.start, self.layout) };
        }
    }

    fn bytes() -> impl Strategy<Value = usize> {
        let near = |at: usize| at - 2..at + 2;
        prop_oneof![1..10_000_usize, near(LARGE_BYTES), near(LARGE_BYTES + PAGE_BYTES), LARGE_BYTES..20 << 20]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        /// Blocks that come, grow, shrink and go, across the border as well: each keeps what is in it, and no two lie in each other.
        #[test]
        fn blocks_keep_what_is_in_them(steps in prop::collection::vec((0..6_usize, bytes(), 0..4_u32, any::<u8>()), 1..30)) {
            let mut blocks: Vec<Option<Block>> = (0..6).map(|_| None).collect();
            for (at, bytes, align, seed) in steps {
                match &mut blocks[at] {
                    None => blocks[at] = Some(Block::new(bytes, 8 << (align * 6), seed)),
                    Some(block) if seed % 4 > 0 => block.resize(bytes),
                    gone => *gone = None,
                }
                for block in blocks.iter().flatten() {
                    for place in Block::places(block.layout.size()) {
                        // SAFETY: within the block.
                        prop_assert_eq!(unsafe { *block.start.add(place) }, block.byte(place));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_large_is_counted_while_it_is_there() {
        let block = Block::new(64 << 20, 8, 1);
        assert!(usage().large_bytes >= 64 << 20);
        assert_eq!(block.start.addr() % HUGE_PAGE_BYTES, 0);
    }

    #[test]
    fn the_kernel_says_whether_there_are_huge_pages() {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let block = Block::new(LARGE_BYTES, 8, 1);
        let map = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let given = huge_kilobytes(&map, block.start.addr()).expect("its mapping");
        // A machine that gives some on request may have none left at this moment; one that never does gives none.
        assert!(given == 0 || setting.contains("[always]") || setting.contains("[madvise]"), "{setting}");
        assert!(
            map.lines().any(|line| line.starts_with("VmFlags:") && line.contains(" hg")),
            "nobody asked for huge pages"
        );
        // The allocator of this binary is the system's.
        are_given().expect("an answer");
    }

    #[test]
    fn a_mapping_is_found_among_others() {
        let map = "1000-2000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages:         0 kB\n\
            200000-600000 rw-p 00000000 00:00 0\nRss:   2048 kB\nAnonHugePages:      2048 kB\nVmFlags: rd wr hg\n\
            600000-700000 r--p 00000000 fe:00 7    /usr/lib/x\nAnonHugePages:         8 kB\n";
        let of = |address| huge_kilobytes(map, address);
        assert_eq!([of(0x1000), of(0x3f_ffff), of(0x60_0000), of(0x2000)], [Some(0), Some(2048), Some(8), None]);
    }
}
