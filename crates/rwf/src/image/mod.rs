//! Held images: what an item would send if it were asked now.
//!
//! An [`Image`] is the payload of an item's last refresh with every update since applied to it, and the header members
//! that a refresh needs beside it. Refreshes, updates and states go in as they come ([`Image::refresh`],
//! [`Image::update`], [`Image::set_state`]); out comes a refresh in as many parts as the receiver's size asks for
//! ([`Image::parts`]). A [`Payload`] is the data alone.
//!
//! Payloads are kept in the form in which they are sent, set definitions resolved: a value in set form means nothing
//! without its set. What an update does depends on the container:
//!
//! | container | identity of an entry | update |
//! |---|---|---|
//! | field list, element list | field id, name | the value replaces the held one; a new entry is appended; partial RMTES text changes its part; fields ripple if that is wanted |
//! | map | key | add replaces, update changes the entry's data, delete removes; an update of an unknown key is skipped |
//! | vector | index | set, update, clear; insert and delete move the entries behind |
//! | filter list | id | set replaces, update changes (or sets), clear removes |
//! | series | - | entries are appended |
//! | ANSI page | place | characters are written over those that are there; see [`crate::page`] |
//! | array, opaque, XML, JSON, message, others | - | held as a whole; a refresh replaces, an update is refused |
//!
//! Containers within entries follow the same rules. Parts of one refresh are applied one after the other, so a field,
//! key or index that comes twice has its last value.
//!
//! ```
//! use rwf::image::{Image, Schema};
//! use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, UpdateMsg};
//! use rwf::wire::Writer;
//! use rwf::{DataType, FieldList, FieldListEncoder, SetScope};
//!
//! fn quote(fields: &[(i16, u64)]) -> Vec<u8> {
//!     let mut buf = [0; 100];
//!     let mut w = Writer::new(&mut buf);
//!     let mut list = FieldListEncoder::begin(&mut w).unwrap();
//!     for (fid, value) in fields {
//!         list.uint(*fid, *value).unwrap();
//!     }
//!     list.finish().unwrap();
//!     w.written().to_vec()
//! }
//!
//! let (first, change) = (quote(&[(22, 1), (25, 2)]), quote(&[(25, 3)]));
//! let container = DataType::FIELD_LIST;
//! let flags = RefreshFlags::REFRESH_COMPLETE;
//! let mut image = Image::new();
//! image.refresh(&RefreshMsg { container, flags, body: &first, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) }, &Schema::NONE)?;
//! image.update(&UpdateMsg { container, body: &change, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) }, &Schema::NONE)?;
//!
//! let header = RefreshMsg { key: Some(MsgKey::item(1, b"IBM.N")), ..RefreshMsg::new(Domain::MARKET_PRICE, 7) };
//! let mut buf = [0; 200];
//! let mut w = Writer::new(&mut buf);
//! assert!(image.parts(header, 6_000).write(&mut w)?.is_last());
//! let refresh = RefreshMsg::decode(w.written())?;
//! assert_eq!(refresh.body, quote(&[(22, 1), (25, 3)]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chains;
mod content;
mod copies;
mod item;
mod latest;
mod lists;
mod plans;
mod rebuilds;
mod rows;
#[cfg(test)]
mod tests;

pub use content::Payload;
pub use item::{Combine, Image, Part, Parts};
pub use latest::Latest;
pub use plans::{Ahead, Plans};

use crate::dictionary::Dictionary;
use crate::page::PageSize;
use crate::{DataType, DecodeError, EncodeError, SetScope};
use std::fmt;

/// What payloads are read with, beside their own bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Schema<'a> {
    /// Set definitions that hold outside the payload: those of a set dictionary.
    pub sets: SetScope<'a>,
    /// The field definitions. They say which fields are RMTES text, which partial updates can change, and which fields
    /// ripple. Without them text is told by what it looks like, and nothing ripples.
    pub dictionary: Option<&'a Dictionary>,
    /// Whether fields ripple in updates, as the dictionary says: the value that a field had goes to the next one
    /// (`TRDPRC_1` to `TRDPRC_2` and on), if that is held. `DO_NOT_RIPPLE` of an update goes before it.
    pub ripple: bool,
    /// Rows and columns of an ANSI page that begins with this payload; one that is held keeps its own.
    pub page_size: PageSize,
}

impl Schema<'static> {
    /// Neither global sets nor field definitions.
    pub const NONE: Self = Self { sets: SetScope::NONE, dictionary: None, ripple: false, page_size: PageSize::DEFAULT };
}

/// Why a payload could not be applied. What is held is not current then: part of the payload may have been applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// The bytes are malformed: the sender's fault.
    Malformed(DecodeError),
    /// The payload has set data, and nobody has given the definition of the set.
    UnknownSet,
    /// An update of another container type than the held one, or of one that has no rules for updates.
    NotUpdatable {
        /// Type of what is held.
        held: DataType,
        /// Type of what came.
        update: DataType,
    },
    /// More entries, longer values or deeper nesting than a held image may have.
    TooLarge(&'static str),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "the payload is malformed: {error}"),
            Self::UnknownSet => f.write_str("the payload uses a set whose definition is not known"),
            Self::NotUpdatable { held, update } => {
                write!(f, "an update of type {update} cannot change an image of type {held}")
            }
            Self::TooLarge(what) => write!(f, "the image would have {what} than can be held"),
        }
    }
}

impl std::error::Error for ApplyError {}

impl From<DecodeError> for ApplyError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl From<EncodeError> for ApplyError {
    /// Values are written again when they leave their set: one that does not fit is too long to be held.
    fn from(_: EncodeError) -> Self {
        Self::TooLarge("a longer value")
    }
}
