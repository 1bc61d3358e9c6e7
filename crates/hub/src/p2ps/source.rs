//! A Source Distributor as a P2PS sees it: its handles, the opens that it has not answered, and what goes to it next.

use super::direct::Early;
use super::gaps::Held;
use super::items::{ItemId, ServiceId};
use crate::stream::{BlockWriter, Continuity};
use rustc_hash::FxHashMap;

/// A Source Distributor: the number that whoever owns the transports gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// What a Source Distributor says when a P2PS joins it over a network. It comes by the way that requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// The number that the P2PS has there.
    pub number: u16,
    /// The life of the Source Distributor.
    pub incarnation: u32,
    /// Position of its stream from which on everything counts for this P2PS.
    pub position: u64,
}

/// No item.
pub(crate) const NO_ITEM: ItemId = ItemId::MAX;
/// Handles are dense; one beyond this is no handle that a sane peer hands out.
const MAX_HANDLE: u32 = 1 << 27;

/// Bits of a token that number the open; the others number the life of the stream.
const TOKEN_BITS: u32 = 24;
const TOKEN_MASK: u32 = (1 << TOKEN_BITS) - 1;

/// One Source Distributor.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) up: bool,
    /// The number that this P2PS has there.
    pub(crate) number: u16,
    /// The life of it that was joined over a network; `None` if there is none between.
    pub(crate) joined: Option<u32>,
    /// What came behind a gap waits here until the Source Distributor has said what was lost.
    pub(crate) held: Held,
    /// Images by the other way that are ahead of the stream.
    pub(crate) early: Early,
    /// Position that its stream was read to and acted upon.
    pub(crate) read_to: u64,
    /// Bytes of it read since the source was told how far.
    pub(crate) unreported: usize,
    incarnation: u32,
    pub(crate) continuity: Continuity,
    /// A block of its present life was read.
    pub(crate) heard: bool,
    pub(crate) writer: BlockWriter,
    /// Item by handle.
    handles: Vec<ItemId>,
    /// Item by token; what is free is linked through `free_tokens`.
    tokens: Vec<ItemId>,
    free_tokens: Vec<u32>,
    /// Public service by the source's own service id.
    pub(crate) services: FxHashMap<u16, ServiceId>,
    /// When its last block came.
    pub(crate) heard_at: u64,
    /// When the last block went to it.
    pub(crate) sent_at: u64,
}

impl Source {
    pub(crate) fn new(incarnation: u32) -> Self {
        Self {
            up: false,
            number: crate::stream::ALL,
            joined: None,
            held: Held::default(),
            early: Early::default(),
            read_to: 0,
            unreported: 0,
            incarnation,
            continuity: Continuity::new(),
            heard: false,
            writer: BlockWriter::new(incarnation),
            handles: Vec::new(),
            tokens: Vec::new(),
            free_tokens: Vec::new(),
            services: FxHashMap::default(),
            heard_at: 0,
            sent_at: 0,
        }
    }

    /// Opens that are not answered.
    pub(crate) fn opening(&self) -> usize {
        self.tokens.len() - self.free_tokens.len()
    }

    /// A token for the open of an item. It tells this life of the stream from the one before, whose answers may still
    /// be on their way.
    pub(crate) fn new_token(&mut self, item: ItemId) -> u32 {
        let slot = if let Some(slot) = self.free_tokens.pop() {
            self.tokens[slot as usize] = item;
            slot
        } else {
            self.tokens.push(item);
            (self.tokens.len() - 1) as u32
        };
        slot | self.life()
    }

    fn life(&self) -> u32 {
        (self.incarnation & 0xFF) << TOKEN_BITS
    }

    /// The item of a token, which is free afterwards.
    pub(crate) fn take_token(&mut self, token: u32) -> Option<ItemId> {
        if token & !TOKEN_MASK != self.life() {
            return None;
        }
        let slot = token & TOKEN_MASK;
        let place = self.tokens.get_mut(slot as usize)?;
        let item = std::mem::replace(place, NO_ITEM);
        if item == NO_ITEM {
            return None;
        }
        self.free_tokens.push(slot);
        Some(item)
    }

    /// True if another open fits: tokens are limited as well.
    pub(crate) fn has_room(&self, window: usize) -> bool {
        let window = if window == 0 { TOKEN_MASK as usize } else { window };
        self.opening() < window
    }

    /// The item that a handle stands for; [`NO_ITEM`] for one that nobody watches here.
    #[inline]
    pub(crate) fn item(&self, handle: u32) -> ItemId {
        self.handles.get(handle as usize).copied().unwrap_or(NO_ITEM)
    }

    /// Binds a handle; false for an impossible one.
    pub(crate) fn bind(&mut self, handle: u32, item: ItemId) -> bool {
        if handle >= MAX_HANDLE {
            return false;
        }
        let at = handle as usize;
        if self.handles.len() <= at {
            self.handles.resize(at + 1, NO_ITEM);
        }
        self.handles[at] = item;
        true
    }

    /// Forgets a handle.
    pub(crate) fn unbind(&mut self, handle: u32) {
        if let Some(slot) = self.handles.get_mut(handle as usize) {
            *slot = NO_ITEM;
        }
    }

    /// Forgets everything that belongs to the source's life so far, and what was to be sent. The stream to it begins
    /// again, as a new life of this side.
    pub(crate) fn forget(&mut self) {
        self.up = false;
        self.joined = None;
        self.held = Held::default();
        self.early = Early::default();
        self.incarnation = self.incarnation.wrapping_add(1);
        self.writer = BlockWriter::new(self.incarnation);
        self.continuity = Continuity::new();
        self.heard = false;
        self.handles.clear();
        self.tokens.clear();
        self.free_tokens.clear();
        self.services.clear();
    }
}
