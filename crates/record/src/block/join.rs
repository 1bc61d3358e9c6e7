//! Pieces of messages that are put together again, most of a few bytes each.

/// Bytes of a piece that is copied as a whole register, whatever of them it has: a copy of a length that the processor knows takes a fraction of one of any.
pub(super) const REGISTER: usize = 16;

/// Bytes that grow, with room behind their end for a whole register more.
#[derive(Debug)]
pub(super) struct Joined<'a> {
    bytes: &'a mut Vec<u8>,
    end: usize,
}

impl<'a> Joined<'a> {
    /// Goes on behind what is there, with room for about so many more.
    pub(super) fn new(bytes: &'a mut Vec<u8>, more: usize) -> Self {
        let end = bytes.len();
        bytes.resize(end + more + REGISTER, 0);
        Self { bytes, end }
    }

    /// Bytes so far, with those that were there before.
    pub(super) const fn len(&self) -> usize {
        self.end
    }

    /// Cuts off the room that was not needed.
    pub(super) fn finish(self) {
        self.bytes.truncate(self.end);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) {
        // Twice as much: what grows so is moved as often as a vector is.
        let wanted = self.end + more + REGISTER;
        self.bytes.resize(wanted.max(2 * self.bytes.len()), 0);
    }

    /// Appends the first `len` bytes of a register.
    #[inline]
    pub(super) fn put_register(&mut self, register: &[u8; REGISTER], len: usize) {
        debug_assert!(len <= REGISTER, "a register has no more");
        if self.end + REGISTER > self.bytes.len() {
            self.grow(REGISTER);
        }
        if let Some(place) = self.bytes.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut) {
            *place = *register;
        }
        self.end += len;
    }

    #[inline]
    pub(super) fn put(&mut self, piece: &[u8]) {
        if self.end + piece.len() > self.bytes.len() {
            self.grow(piece.len());
        }
        self.bytes[self.end..self.end + piece.len()].copy_from_slice(piece);
        self.end += piece.len();
    }

    /// Changes a byte that is there.
    #[inline]
    pub(super) fn set(&mut self, at: usize, byte: u8) {
        self.bytes[at] = byte;
    }
}

/// A literal or a listed value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    register: [u8; REGISTER],
    whole: &'a [u8],
}

impl<'a> Piece<'a> {
    pub(super) fn new(whole: &'a [u8]) -> Self {
        let mut register = [0; REGISTER];
        let len = whole.len().min(REGISTER);
        register[..len].copy_from_slice(&whole[..len]);
        Self { register, whole }
    }

    #[inline]
    pub(super) fn put(&self, out: &mut Joined<'_>) {
        if self.whole.len() <= REGISTER {
            out.put_register(&self.register, self.whole.len());
        } else {
            out.put(self.whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_stand_one_behind_the_other() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut bytes, mut expected) = (b"before".to_vec(), b"before".to_vec());
        let mut out = Joined::new(&mut bytes, 3);
        for len in (0..=40).rev().chain([255]) {
            Piece::new(&all[..len]).put(&mut out);
            expected.extend_from_slice(&all[..len]);
            assert_eq!(out.len(), expected.len());
        }
        out.finish();
        assert_eq!(bytes, expected);
    }
}
