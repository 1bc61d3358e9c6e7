//! Recordings of services: every message byte for byte, with three clocks, written beside a serving thread and read by time and by item.
//!
//! A recording is a folder of *segments*. A segment is made of *frames* with checksums: *blocks* of some thousand records, *checkpoints*
//! with the images of items, and at its end an *index*. `docs/wire/recording.md` has the bytes.
//!
//! * [`Recorder`] writes in a thread of its own; a serving thread hands messages over by a [`Handover`], which never waits.
//!   [`Journal`] is the same without a thread.
//! * [`Recording`] reads: [`Recording::from_time`], [`Recording::of_item`], [`Recording::image_at`], [`Recording::info`].
//! * [`Player`] has the images of all items as they were at a time, and goes on from there.
//! * [`Merge`] plays several as one.
//! * [`compact`] makes a finished recording smaller.
//! * [`Steering`] is how a replay that runs is steered and looked at from other threads, by [`Order`]s; [`when`] has times as text.
//!
//! What is missing is told where it is missing: a [`Gap`] is a record as any other, and an image behind it says that it is in one.
//!
//! ```
//! use record::{Clocks, Item, Journal, JournalConfig, Kind, Memory, Recording};
//! let mut journal = Journal::open(Memory::default(), JournalConfig::default(), &mut Vec::new())?;
//! let ibm = journal.item(Item { service: "FEED".into(), domain: 6, name: "IBM.N".into() });
//! let clocks = Clocks { wall: 1_800_000_000_000_000_000, mono: 7, source: None };
//! journal.append(Kind::Generic, Some(ibm), clocks, b"a message");
//! journal.end();
//! let recording = Recording::open(journal.store().clone())?;
//! let mut cursor = recording.from_time(0);
//! let entry = cursor.next()?.expect("there is one record");
//! assert_eq!((entry.record.body, &*entry.item.expect("it is of an item").name), (&b"a message"[..], "IBM.N"));
//! # Ok::<(), record::Error>(())
//! ```
#![forbid(unsafe_code)]

mod ahead;
mod block;
mod bytes;
mod checkpoint;
mod compact;
mod error;
mod frame;
mod images;
mod index;
mod item_set;
mod journal;
mod merge;
mod packing;
mod play;
mod reader;
mod record;
mod recorder;
mod row;
mod segment;
mod state;
mod steer;
mod store;
pub mod when;

pub use compact::{Compacted, Left, compact};
pub use error::{Damage, Error};
pub use index::Count;
pub use journal::{Journal, JournalConfig, JournalCounters, MESSAGE_MAX, UNPACKED_BYTES};
pub use merge::{Event, Merge, MergedItem, Shown};
pub use play::{By, Play, Player, PlayerItem};
pub use reader::{Cursor, Entry, ImageAt, Info, Recording, SegmentInfo};
pub use record::{Clocks, Gap, GapReason, Item, ItemNumber, Kind, Record};
pub use recorder::{Clock, Handover, ItemId, Recorder, RecorderConfig, RecorderStatus};
pub use steer::{
    KNOWN_ORDERS, NoOrder, NotDone, Order, Overview, Pace, PlayedGap, Standing, State as ReplayState, Steering,
};
pub use store::{Append, Folder, Memory, Store, Synchronise};
