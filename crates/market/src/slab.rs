//! Memory for many equal things: places that are used again.

/// Things by place, in one piece of memory. The pages of large pieces move where the allocator can do that (the server's does), and are copied where it cannot:
/// a small piece doubles and soon is a large one, a large one grows by a sixteenth, so that there is never much more than is used.
#[derive(Debug)]
pub(crate) struct Slab<T, const STEP: usize> {
    things: Vec<T>,
}

/// A piece of so many bytes is not doubled any more, it becomes a large one. Pages that nothing is written to take no memory.
const SMALL_BYTES: usize = 1 << 20;
/// Bytes of a piece that is large enough for huge pages, and those of such a page.
const LARGE_BYTES: usize = 4 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

impl<T: Copy, const STEP: usize> Slab<T, STEP> {
    /// Places given out so far.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.things.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.things.capacity() * size_of::<T>()
    }

    /// Puts one more thing behind the last; its place. The caller sees to it that there are never 2^32.
    #[inline]
    pub(crate) fn push(&mut self, thing: T) -> u32 {
        let place = self.things.len();
        if place == self.things.capacity() {
            self.grow();
        }
        self.things.push(thing);
        place as u32
    }

    #[cold]
    fn grow(&mut self) {
        let (len, bytes) = (self.things.len(), size_of::<T>().max(1));
        let most = match len * bytes {
            0..SMALL_BYTES => (len * 2).max(STEP),
            SMALL_BYTES..LARGE_BYTES => LARGE_BYTES / bytes,
            // The end of a piece that is no whole huge page would have small ones, and keep them when the piece grows.
            has => (has + has / 16 + 1).next_multiple_of(HUGE_PAGE_BYTES) / bytes,
        };
        self.things.reserve_exact(most.saturating_sub(len).max(1));
    }

    /// Forgets all things; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.things.clear();
    }

    /// Room for `things` in all, in memory that is there: its pages have been written to.
    pub(crate) fn with_room(things: usize, filler: T) -> Self {
        let mut things = vec![filler; things];
        things.clear();
        Self { things }
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &T {
        &self.things[place as usize]
    }

    /// The thing at a place, if one was given out.
    #[inline]
    pub(crate) fn try_get(&self, place: u32) -> Option<&T> {
        self.things.get(place as usize)
    }

    /// Where the thing at a place lies, if one was given out; else where nothing in particular does.
    #[inline]
    pub(crate) fn address(&self, place: u32) -> *const u8 {
        self.things.as_ptr().wrapping_add(place as usize).cast()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut T {
        &mut self.things[place as usize]
    }
}
