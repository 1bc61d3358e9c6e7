//! What both halves of the hub are built on, and what crosses no wire: keys of items, lists of items by what they have in common, queues, the rule of sequence numbers,
//! the secret that tables are hashed with, counters as data, broken invariants, the words of texts, states that items have had, marks of limits, priorities asked for
//! together, items that stay open though nobody watches them.
//!
//! Nothing here knows of clients, providers or sources.
#![forbid(unsafe_code)]

pub mod cascade;
pub mod counters;
pub mod deadlines;
pub mod faults;
pub mod hash_seed;
pub mod item;
pub mod item_history;
pub mod item_index;
pub mod keyed_queue;
pub mod load_marks;
pub mod priorities;
pub mod roster;
pub mod sequence;
pub mod status_texts;
pub mod unwatched;
