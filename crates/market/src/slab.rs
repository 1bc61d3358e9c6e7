//! Memory for many equal things: chunks that never move, places that are used again.

/// Things by place. Growing adds a chunk and copies nothing, so that no moment needs twice the memory.
#[derive(Debug)]
pub(crate) struct Slab<T, const CHUNK_BITS: u32> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T, const CHUNK_BITS: u32> Slab<T, CHUNK_BITS> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }

    /// Places given out so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum::<usize>();
        chunks + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    /// Puts one more thing behind the last; its place. The caller sees to it that there are never 2^32.
    #[inline]
    pub(crate) fn push(&mut self, thing: T) -> u32 {
        let place = self.len;
        if place & Self::MASK == 0 && place >> CHUNK_BITS == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(1 << CHUNK_BITS));
        }
        self.chunks[place >> CHUNK_BITS].push(thing);
        self.len += 1;
        place as u32
    }

    /// Forgets all things; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.chunks.iter_mut().for_each(Vec::clear);
        self.len = 0;
    }

    /// Makes chunks for `things`.
    pub(crate) fn reserve(&mut self, things: usize) {
        while self.chunks.len() << CHUNK_BITS < things {
            self.chunks.push(Vec::with_capacity(1 << CHUNK_BITS));
        }
    }

    const MASK: usize = (1 << CHUNK_BITS) - 1;

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &T {
        &self.chunks[place as usize >> CHUNK_BITS][place as usize & Self::MASK]
    }

    /// The thing at a place, if there is one.
    #[inline]
    pub(crate) fn try_get(&self, place: u32) -> Option<&T> {
        self.chunks.get(place as usize >> CHUNK_BITS)?.get(place as usize & Self::MASK)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut T {
        &mut self.chunks[place as usize >> CHUNK_BITS][place as usize & Self::MASK]
    }
}
