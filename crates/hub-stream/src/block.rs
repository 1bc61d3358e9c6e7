//! Blocks: the unit in which the hub stream is written, sent and read.

use super::{ALL, BLOCK_HEADER, Event, HubError, Kind, MAGIC, MESSAGE_HEADER, Message, Request, VERSION, flags};

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading {
    /// The life of the sender that this stream belongs to; handles, groups and positions mean nothing in another.
    pub incarnation: u32,
    /// Position of the first message.
    pub first_seq: u64,
    /// Messages in the block.
    pub count: u32,
}

/// A block whose header has been checked. Its messages are checked as they are read.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// What the header says.
    pub heading: Heading,
    bytes: &'a [u8],
}

impl<'a> Block<'a> {
    /// Checks the header and takes the block's bytes; `bytes` is exactly one block.
    ///
    /// # Errors
    /// [`HubError::Truncated`], [`HubError::NotAHubStream`] or [`HubError::Version`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HubError> {
        let found = bytes.len();
        let Some(header) = bytes.first_chunk::<BLOCK_HEADER>() else {
            return Err(HubError::Truncated { expected: BLOCK_HEADER, found });
        };
        if u16::from_le_bytes([header[0], header[1]]) != MAGIC {
            return Err(HubError::NotAHubStream);
        }
        if header[2] != VERSION {
            return Err(HubError::Version(header[2]));
        }
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let expected = BLOCK_HEADER + word(20) as usize;
        if expected != found {
            return Err(HubError::Truncated { expected, found });
        }
        let first_seq = u64::from(word(8)) | u64::from(word(12)) << 32;
        Ok(Self { heading: Heading { incarnation: word(4), first_seq, count: word(16) }, bytes })
    }

    /// The messages in order. The iterator ends after the first error.
    #[inline]
    pub fn messages(&self) -> Messages<'a> {
        Messages {
            bytes: self.bytes,
            offset: BLOCK_HEADER,
            position: self.heading.first_seq,
            left: self.heading.count,
            announced: self.heading.count,
        }
    }
}

/// Iterator over the messages of a [`Block`].
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    offset: usize,
    position: u64,
    left: u32,
    announced: u32,
}

impl<'a> Messages<'a> {
    /// The next message if it is a whole update, for the data path: no other kind is looked into. Whatever else is next is left
    /// for the iterator.
    #[inline]
    pub fn next_update(&mut self) -> Option<Message<'a>> {
        let rest = self.bytes.get(self.offset..)?;
        let header = rest.first_chunk::<MESSAGE_HEADER>().filter(|header| header[4] == Kind::Update as u8)?;
        let length = super::message::u32_at(header, 0) as usize;
        let body = rest.get(MESSAGE_HEADER..length).filter(|_| self.left > 0)?;
        let message = Message {
            kind: Kind::Update,
            flags: header[5],
            target: u16::from_le_bytes([header[6], header[7]]),
            handle: super::message::u32_at(header, 8),
            arg: super::message::u32_at(header, 12),
            position: self.position,
            body,
        };
        self.offset += length;
        self.position = self.position.wrapping_add(1);
        self.left -= 1;
        Some(message)
    }

    fn fail(&mut self, error: HubError) -> HubError {
        self.offset = self.bytes.len();
        self.left = 0;
        error
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, HubError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at_end = self.offset == self.bytes.len();
        if at_end && self.left == 0 {
            return None;
        }
        if at_end || self.left == 0 {
            let found = if at_end { self.announced - self.left } else { self.announced.saturating_add(1) };
            let error = HubError::Count { announced: self.announced, found };
            return Some(Err(self.fail(error)));
        }
        match Message::at(self.bytes, self.offset, self.position) {
            Ok((message, end)) => {
                self.offset = end;
                self.position = self.position.wrapping_add(1);
                self.left -= 1;
                Some(Ok(message))
            }
            Err(error) => Some(Err(self.fail(error))),
        }
    }
}

/// Composes blocks. What it holds is a valid block after every call; its memory is reused.
#[derive(Debug)]
pub struct BlockWriter {
    buf: Vec<u8>,
    count: u32,
    next_seq: u64,
    index: Option<Index>,
}

/// What the messages of a block are about, noted while it is written and its bytes are at hand.
#[derive(Debug, Default)]
pub struct Index {
    /// The handle of each message.
    pub handles: Vec<u32>,
    /// Which messages are no updates for all, and where they start in the block.
    pub others: Vec<(u32, usize)>,
}

impl Index {
    /// Nothing is noted any more.
    pub fn clear(&mut self) {
        self.handles.clear();
        self.others.clear();
    }
}

impl BlockWriter {
    /// A writer for one stream of one incarnation. The first message gets position 0.
    pub fn new(incarnation: u32) -> Self {
        let mut buf = vec![0; BLOCK_HEADER];
        buf[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        buf[2] = VERSION;
        buf[4..8].copy_from_slice(&incarnation.to_le_bytes());
        Self { buf, count: 0, next_seq: 0, index: None }
    }

    /// As [`Self::new`]; it notes what the messages are about.
    pub fn indexed(incarnation: u32) -> Self {
        Self { index: Some(Index::default()), ..Self::new(incarnation) }
    }

    /// The block as [`Self::block`] gives it, and what its messages are about where that is noted.
    pub fn parts_mut(&mut self) -> (Option<&[u8]>, Option<&mut Index>) {
        ((self.count > 0).then_some(&self.buf), self.index.as_mut())
    }

    /// The block so far, or `None` if nothing was written since [`Self::clear`].
    pub fn block(&self) -> Option<&[u8]> {
        (self.count > 0).then_some(&self.buf)
    }

    /// Bytes of the block so far, its header included.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// True if nothing was written since [`Self::clear`].
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Starts the next block: the stream goes on at [`Self::next_position`].
    pub fn clear(&mut self) {
        self.buf.truncate(BLOCK_HEADER);
        self.count = 0;
        if let Some(index) = &mut self.index {
            index.clear();
        }
        self.buf[8..16].copy_from_slice(&self.next_seq.to_le_bytes());
        self.patch();
    }

    /// The position that the next message will have.
    #[inline]
    pub fn next_position(&self) -> u64 {
        self.next_seq
    }

    /// Appends an event.
    pub fn event(&mut self, event: &Event<'_>) {
        let head = event.head();
        self.message_with(head.0, head.1, head.2, head.3, head.4, |body| event.write_body(body));
    }

    /// Appends a request.
    pub fn request(&mut self, request: &Request<'_>) {
        let head = request.head();
        self.message_with(head.0, head.1, head.2, head.3, head.4, |body| request.write_body(body));
    }

    /// Appends an [`Event::Update`] for every P2PS: the data path.
    #[inline]
    pub fn update(&mut self, handle: u32, has_key: bool, rwf: &[u8]) {
        self.update_with(handle, if has_key { flags::HAS_KEY } else { 0 }, rwf);
    }

    /// As [`Self::update`], with all flags ([`super::update_flags`]).
    #[inline]
    pub fn update_with(&mut self, handle: u32, flags: u8, rwf: &[u8]) {
        self.buf.extend_from_slice(&Message::header(Kind::Update, flags, ALL, handle, 0, rwf.len()));
        self.buf.extend_from_slice(rwf);
        self.appended(handle);
    }

    /// Appends a message whose body `write` appends to the vector it is given (it must only append). Header members
    /// as in [`Message`].
    pub fn message_with(
        &mut self,
        kind: Kind,
        flags: u8,
        target: u16,
        handle: u32,
        arg: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.buf.len();
        self.buf.extend_from_slice(&Message::header(kind, flags, target, handle, arg, 0));
        write(&mut self.buf);
        let length = (self.buf.len() - start) as u32;
        debug_assert!(length as usize >= MESSAGE_HEADER, "a body writer only appends");
        self.buf[start..start + 4].copy_from_slice(&length.to_le_bytes());
        if let Some(index) = &mut self.index {
            index.others.push((self.count, start));
        }
        self.appended(handle);
    }

    #[inline]
    fn appended(&mut self, handle: u32) {
        if let Some(index) = &mut self.index {
            index.handles.push(handle);
        }
        self.count += 1;
        self.next_seq = self.next_seq.wrapping_add(1);
        self.patch();
    }

    #[inline]
    fn patch(&mut self) {
        let bytes = self.buf.len() - BLOCK_HEADER;
        assert!(u32::try_from(bytes).is_ok(), "a hub block must be cleared before it reaches 4 GiB");
        if let Some(header) = self.buf.first_chunk_mut::<BLOCK_HEADER>() {
            header[16..20].copy_from_slice(&self.count.to_le_bytes());
            header[20..24].copy_from_slice(&(bytes as u32).to_le_bytes());
        }
    }
}

/// What a block is to a reader that has read others before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The next one in order.
    Next,
    /// The first of a sender's new life: everything known of the old one is void.
    NewIncarnation,
    /// Messages are missing in front of it: so many.
    Gap(u64),
    /// All of it was read before: skip it.
    Old,
    /// So many messages at its beginning were read before: skip those.
    Partly(u64),
}

/// Follows the positions of one stream and tells what each block is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Continuity {
    expected: Option<(u32, u64)>,
}

impl Continuity {
    /// Nothing read yet: the first block will be [`Seen::NewIncarnation`].
    pub const fn new() -> Self {
        Self { expected: None }
    }

    /// The stream of this incarnation is read from a position on: what lies before it counts as read.
    pub const fn starting(incarnation: u32, position: u64) -> Self {
        Self { expected: Some((incarnation, position)) }
    }

    /// Position of the next message in order, if any was read.
    pub fn next_position(&self) -> Option<u64> {
        self.expected.map(|(_, next)| next)
    }

    /// Judges a block and moves on behind it (unless it is [`Seen::Old`]).
    pub fn accept(&mut self, heading: &Heading) -> Seen {
        let behind = heading.first_seq.wrapping_add(u64::from(heading.count));
        let seen = match self.expected {
            Some((incarnation, next)) if incarnation == heading.incarnation => {
                let ahead = heading.first_seq.wrapping_sub(next);
                if ahead == 0 {
                    Seen::Next
                } else if ahead < u64::MAX / 2 {
                    Seen::Gap(ahead)
                } else if behind.wrapping_sub(next).wrapping_sub(1) < u64::MAX / 2 {
                    Seen::Partly(next.wrapping_sub(heading.first_seq))
                } else {
                    return Seen::Old;
                }
            }
            _ => Seen::NewIncarnation,
        };
        self.expected = Some((heading.incarnation, behind));
        seen
    }
}
