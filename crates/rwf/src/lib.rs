//! The RWF wire format: messages, containers, primitives.
//!
//! Bytes are borrowed, never copied: decoding allocates nothing, and encoding writes into the caller's buffer. There is
//! no I/O, no clock and no unsafe code here.
//!
//! * [`msg`]: the eight message classes; [`peek`]: header reads and rewrites on bytes, for relays.
//! * [`container`]: field lists, element lists, filter lists, vectors, maps, series, arrays, and set definitions;
//!   [`Primitive`]: the values in them; [`rmtes`]: the text of some.
//! * [`dictionary`]: what field ids mean; [`rdm`]: the models of login, directory and dictionary messages.
//! * [`passing`]: bodies without what does not pass, as views and filters leave them.
//! * [`image`]: held images, to which refreshes and updates are applied; [`page`]: ANSI pages as a grid of cells.
//! * [`json`]: any message as JSON; [`walk`]: a full visit of any bytes.
//! * [`wire`]: the cursors and length codings everything else is made of.
//!
//! ```
//! use rwf::msg::{Domain, UpdateMsg, UpdateType};
//! use rwf::wire::Writer;
//! use rwf::{DataType, FieldList, FieldListEncoder, Primitive, Real, RealHint, SetScope};
//!
//! let update = UpdateMsg {
//!     container: DataType::FIELD_LIST,
//!     update_type: UpdateType::QUOTE,
//!     ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
//! };
//! let mut buf = [0; 100];
//! let mut w = Writer::new(&mut buf);
//! update.encode_header(&mut w)?;
//! let mut fields = FieldListEncoder::begin(&mut w)?;
//! fields.real(22, Real::new(40_150, RealHint::EXPONENT_2))?;
//! fields.finish()?;
//!
//! let update = UpdateMsg::decode(w.written())?;
//! for field in FieldList::decode(update.body, &SetScope::NONE)?.entries() {
//!     let field = field?;
//!     // Field ids carry no type: a dictionary says what 22 is.
//!     assert_eq!((field.fid, field.value(DataType::REAL)?.to_string()), (22, "401.50".to_owned()));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod container;
mod data_type;
mod datetime;
pub mod dictionary;
mod error;
pub mod image;
pub mod json;
mod macros;
pub mod msg;
pub use ::page;
pub mod passing;
pub mod peek;
pub mod primitive;
mod qos;
pub mod rdm;
mod real;
pub mod rmtes;
mod state;
pub mod walk;
pub mod wire;

pub use container::{
    Array, ArrayEncoder, ElementEntry, ElementList, ElementListEncoder, FieldEntry, FieldList, FieldListEncoder,
    FilterAction, FilterEntry, FilterHead, FilterList, FilterListEncoder, GlobalSets, Map, MapAction, MapEncoder,
    MapEntry, MapHead, Series, SeriesEncoder, SetScope, Vector, VectorAction, VectorEncoder, VectorEntry, VectorHead,
};
pub use data_type::DataType;
pub use datetime::{Date, DateTime, Time};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use primitive::Primitive;
pub use qos::{Qos, Rate, Timeliness};
pub use real::{Real, RealHint};
pub use state::{DataState, State, StateCode, StreamState};
