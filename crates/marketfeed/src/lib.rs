//! The formats that came before RWF: Marketfeed records and pages.
//!
//! * [`Record`]: a Marketfeed message, borrowed; [`scan`] finds it in a stream of bytes.
//! * [`RecordEncoder`]: writes one; [`FieldCache`]: a field's value to which partial edits are applied.
//! * [`page`]: page records, whose rows are fields, as a grid of cells; ANSI pages are [`rwf::page`].
//! * [`Converter`]: to and from RWF by the dictionary, and records as OPAQUE payloads of RWF messages; what cannot be said is dropped and
//!   counted ([`Losses`]).
//!
//! Marketfeed is the data. The connection over which it used to travel (SSL, the Source Sink Library) is another thing,
//! whose wire format is not public: nothing here speaks it. `docs/wire/marketfeed.md` has the format.
//!
//! ```
//! use marketfeed::{Record, RecordType};
//!
//! let bytes = b"\x1c316\x1fXX\x1dGBP=\x1f4711\x1e22\x1f1.5520\x1e25\x1f1.5530\x1c";
//! let record = Record::parse(bytes)?;
//! assert_eq!((record.record_type, record.item, record.rtl), (RecordType::UPDATE, &b"GBP="[..], Some(4711)));
//! let bid = record.fields().next().unwrap()?;
//! assert_eq!((bid.fid, bid.value), (22, &b"1.5520"[..]));
//! # Ok::<(), marketfeed::ParseError>(())
//! ```

#![forbid(unsafe_code)]

mod convert;
mod edit;
mod encode;
mod losses;
mod opaque;
pub mod page;
mod record;
mod value;
mod words;

pub use convert::{ConvertError, Converter, Options, PriceStyle, RtlRule, RwfHeader};
pub use edit::{EditError, FieldCache, has_edit};
pub use encode::RecordEncoder;
pub use losses::{Loss, Losses};
pub use record::{Field, Fields, ParseError, Record, RecordType, Scan, scan};

/// Begins and ends a message.
pub const FS: u8 = 0x1C;
/// Before the item's name, and before a status code.
pub const GS: u8 = 0x1D;
/// Before each field.
pub const RS: u8 = 0x1E;
/// Between the parts of the header, and between field id and value.
pub const US: u8 = 0x1F;
