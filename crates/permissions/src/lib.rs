//! Who may see which item: the job of DACS as a state machine without I/O.
//!
//! * [`lock`]: what an item demands, in the format that real feeds send: encode, decode, combine, compare, as text.

#![forbid(unsafe_code)]

pub mod lock;
