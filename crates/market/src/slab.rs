//! Memory for many equal things: chunks that never move, places that are used again.

/// Things by place, `CHUNK` of them in a piece of memory, which is a power of two. Growing adds a chunk and copies nothing, so that no moment needs
/// twice the memory.
#[derive(Debug)]
pub(crate) struct Slab<T, const CHUNK: usize> {
    chunks: Vec<Box<[T; CHUNK]>>,
    len: usize,
}

impl<T: Copy, const CHUNK: usize> Slab<T, CHUNK> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }

    /// Places given out so far.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>() + self.chunks.capacity() * size_of::<Box<[T; CHUNK]>>()
    }

    /// Puts one more thing behind the last; its place. The caller sees to it that there are never 2^32.
    #[inline]
    pub(crate) fn push(&mut self, thing: T) -> u32 {
        let place = self.len;
        if place / CHUNK == self.chunks.len() {
            self.add_chunk(thing);
        }
        self.chunks[place / CHUNK][place % CHUNK] = thing;
        self.len += 1;
        place as u32
    }

    #[cold]
    fn add_chunk(&mut self, filler: T) {
        if let Ok(chunk) = vec![filler; CHUNK].into_boxed_slice().try_into() {
            self.chunks.push(chunk);
        }
    }

    /// Forgets all things; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes chunks for `things`.
    pub(crate) fn reserve(&mut self, things: usize, filler: T) {
        while self.chunks.len() * CHUNK < things {
            self.add_chunk(filler);
        }
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &T {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    /// The thing at a place, if there is memory for one; what is behind the last place given out is nothing in particular.
    #[inline]
    pub(crate) fn try_get(&self, place: u32) -> Option<&T> {
        Some(&self.chunks.get(place as usize / CHUNK)?[place as usize % CHUNK])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut T {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}
