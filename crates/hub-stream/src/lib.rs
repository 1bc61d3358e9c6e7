//! The hub stream: the messages between a Source Distributor and a P2PS.
//!
//! A stream is a sequence of *blocks*, and a block a header and the messages of one turn behind it. Everything is
//! little-endian; the RWF messages carried inside keep their own byte order. `docs/wire/hub.md` is the specification
//! that other implementations read; this crate is the only place that knows the bytes.
//!
//! * [`BlockWriter`] composes the block of a turn, [`Block`] reads one and yields [`Message`]s.
//! * [`Event`] is what a Source Distributor publishes, [`Request`] what a P2PS asks; both borrow from the block.
//! * The data path needs neither: [`BlockWriter::update`] is one header write and one copy, and a reader that finds
//!   [`Kind::Update`] has handle and body in the [`Message`] already.
//! * [`Continuity`] tells a gap and a restarted peer from the next block in order.
#![forbid(unsafe_code)]

mod block;
mod error;
mod event;
mod kind;
mod message;
mod parts;
mod request;
mod server;
mod state;

pub use block::{Block, BlockWriter, Continuity, Heading, Index, Messages, Seen};
pub use error::HubError;
pub use event::Event;
pub use kind::Kind;
pub use message::Message;
pub use parts::parts;
pub use request::Request;
pub use server::{Health, Server};

use rwf::container::{FilterListFlags, MapFlags, VectorFlags};
use rwf::msg::{MsgClass, UpdateFlags};
use rwf::{DataType, peek};

/// First two bytes of every block: `Qw`, read as a little-endian number.
pub const MAGIC: u16 = u16::from_le_bytes(*b"Qw");
/// Version of the hub stream that this crate speaks. A block of another version is refused as a whole.
pub const VERSION: u8 = 1;
/// Bytes of a block's header.
pub const BLOCK_HEADER: usize = 24;
/// Bytes of the header in front of each message's body.
pub const MESSAGE_HEADER: usize = 16;
/// `target` of an event that is meant for every P2PS.
pub const ALL: u16 = 0xFFFF;
/// A P2PS that nobody waits for, one of very many, sends a heartbeat only each so many intervals, and may be silent so many times as long
/// as others: each of its heartbeats wakes the Source Distributor, which thousands of them would keep busy.
pub const UNPACED_HEARTBEATS: u64 = 5;
/// `handle` of a message that belongs to no item.
pub const NO_HANDLE: u32 = 0xFFFF_FFFF;
/// Group of an item that has none (yet), and "unchanged" where a status may carry one.
pub const NO_GROUP: u32 = 0;

/// Who sends a block of a data stream, if the block says so: the life of the Source Distributor, and its announcement (see
/// [`Event::Heartbeat`]). For a reader that looks for Source Distributors and has joined none yet.
pub fn announcement(block: &[u8]) -> Option<(u32, &[u8])> {
    let block = Block::parse(block).ok()?;
    let heartbeat = |message: Message<'_>| message.kind == Kind::Heartbeat;
    let message = block.messages().map_while(Result::ok).find(|message| heartbeat(*message))?;
    Some((block.heading.incarnation, message.body))
}

/// The life of the sender of a block; `None` if the bytes are no block's. For a reader that sorts blocks before it reads them.
pub fn incarnation(block: &[u8]) -> Option<u32> {
    let header = block.first_chunk::<BLOCK_HEADER>()?;
    let is_block = u16::from_le_bytes([header[0], header[1]]) == MAGIC && header[2] == VERSION;
    is_block.then(|| u32::from_le_bytes([header[4], header[5], header[6], header[7]]))
}

/// True if the header of a container says that its entries may have permission data.
#[inline]
pub fn may_have_entry_locks(container: DataType, body: &[u8]) -> bool {
    let bit = match container {
        DataType::MAP => MapFlags::HAS_PER_ENTRY_PERM_DATA.0,
        DataType::VECTOR => VectorFlags::HAS_PER_ENTRY_PERM_DATA.0,
        DataType::FILTER_LIST => FilterListFlags::HAS_PER_ENTRY_PERM_DATA.0,
        _ => return false,
    };
    body.first().is_some_and(|flags| flags & bit != 0)
}

/// Flags of an [`Event::Update`] with this message, whose header was read.
#[inline]
pub fn update_flags(header: &peek::Header, rwf: &[u8]) -> u8 {
    let key = if peek::has_key(MsgClass::UPDATE, header.flags) { flags::HAS_KEY } else { 0 };
    let is_locked = header.flags & UpdateFlags::HAS_PERM_DATA.0 != 0
        || header.container != DataType::FIELD_LIST
            && rwf.get(header.body_offset..).is_some_and(|body| may_have_entry_locks(header.container, body));
    key | if is_locked { flags::HAS_LOCK } else { 0 }
}

/// Flags of an [`Event::Update`] with this message; none if its header cannot be read.
pub fn update_flags_of(rwf: &[u8]) -> u8 {
    peek::header(rwf).map_or(0, |header| update_flags(&header, rwf))
}

/// Bits of a message's `flags`. Each belongs to the kinds named in its description; others leave it clear.
pub mod flags {
    /// [`super::Event::Image`]: the provider sent it unasked: it goes to every watcher.
    pub const UNSOLICITED: u8 = 0x01;
    /// [`super::Event::Image`]: the item was lost and is back: it goes to every watcher, and those that had an image
    /// start afresh (`ClearCache`).
    pub const RECOVERY: u8 = 0x02;
    /// [`super::Event::Image`]: the whole answer to an [`super::Request::Open`] that asked for a snapshot.
    pub const SNAPSHOT: u8 = 0x04;
    /// [`super::Event::Image`]: the first part of a set (a single-part image has it and [`COMPLETE`]).
    pub const FIRST: u8 = 0x08;
    /// [`super::Event::Image`]: the last part of a set.
    pub const COMPLETE: u8 = 0x10;
    /// [`super::Event::Image`]: everything received before it is void, also to those that are open.
    pub const CLEAR_CACHE: u8 = 0x20;

    /// [`super::Event::Update`], [`super::Event::Generic`]: the RWF message has a key, so its service id is the
    /// provider's and has to be rewritten.
    pub const HAS_KEY: u8 = 0x01;

    /// [`super::Event::Update`]: the RWF message has permission data of its own, or its entries may have some: it is not for everyone.
    pub const HAS_LOCK: u8 = 0x02;

    /// [`super::Event::ItemStatus`]: the stream state in it is a final one; no more comes for the handle, which the
    /// P2PS gives back with [`super::Request::Close`].
    pub const CLOSED: u8 = 0x01;
    /// [`super::Event::ItemStatus`]: the status is for the watchers that still wait for their image as well. Without
    /// it a P2PS keeps them waiting (a Suspect on an item whose open goes on elsewhere).
    pub const PENDING_TOO: u8 = 0x02;
    /// [`super::Event::ItemStatus`]: the status says why an image does not come: it is for the watchers that wait for one and get
    /// no updates, and for no others.
    pub const WAITING_ONLY: u8 = 0x04;

    /// [`super::Event::Service`]: the Source Distributor holds the images of this service (non-interactive).
    pub const CACHED: u8 = 0x01;

    /// [`super::Event::GroupStatus`]: a new state for the members. It applies before [`MERGED`].
    pub const HAS_STATE: u8 = 0x01;
    /// [`super::Event::GroupStatus`]: the members belong to another group from now on.
    pub const MERGED: u8 = 0x02;

    /// [`super::Request::Open`]: updates are wanted after the image.
    pub const STREAMING: u8 = 0x01;
    /// [`super::Request::Open`]: the image alone is wanted; the item is an instance of its own.
    pub const SNAPSHOT_ONLY: u8 = 0x02;
    /// [`super::Request::Open`]: a private stream: an instance of its own, never shared, never recovered.
    pub const PRIVATE: u8 = 0x04;
    /// [`super::Request::Open`]: who watches the item at the P2PS has had an image of it, and waits for it however long it takes: it is not
    /// refused because nobody has published it yet.
    pub const WANTED_BACK: u8 = 0x08;

    /// [`super::Request::Reissue`]: an image is wanted with it, as [`super::Request::Refresh`] asks for one.
    pub const WITH_IMAGE: u8 = 0x01;
    /// [`super::Request::Refresh`], [`super::Request::Reissue`]: the image is to come by the stream that all read.
    pub const IN_STREAM: u8 = 0x02;
}

#[cfg(test)]
mod tests;
