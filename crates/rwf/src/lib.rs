//! The RWF wire format: messages, containers, primitives.
//!
//! Bytes are borrowed, never copied: decoding allocates nothing, and encoding writes into the caller's buffer. There is
//! no I/O, no clock and no unsafe code here.
//!
//! * [`dictionary`]: what field ids mean; [`rdm`]: the models of login, directory and dictionary messages.
//! * [`msg`]: the eight message classes; [`peek`]: header reads and rewrites on bytes, for relays.
//! * [`text`]: readable text of any message.
//! * [`wire`]: the cursors and length codings everything else is made of.

#![forbid(unsafe_code)]

pub mod container;
mod data_type;
mod datetime;
pub mod dictionary;
mod error;
pub mod json;
mod macros;
pub mod msg;
pub mod peek;
pub mod primitive;
mod qos;
pub mod rdm;
mod real;
pub mod reference;
pub mod rmtes;
mod state;
pub mod text;
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
