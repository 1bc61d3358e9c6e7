//! Containers: field lists, element lists, filter lists, vectors, maps, series, and arrays of primitives.
//!
//! Decoding gives the header of a container at once and its entries by an iterator; entries borrow. Encoders write in
//! place: the container's count and the lengths of its entries are patched when they are finished, and an entry whose
//! content does not fit is taken back, so that a full buffer still holds a complete container.
//!
//! Zero bytes in place of a container are legal (the sender had nothing to say) and decode to one without entries.

mod array;
mod element_list;
mod field_list;
mod filter_list;
mod map;
mod parts;
mod series;
pub mod sets;
mod vector;

pub use array::{Array, ArrayEncoder, ArrayItems};
pub use element_list::{ElementEntries, ElementEntry, ElementList, ElementListEncoder, ElementListInfo};
pub use field_list::{FieldEntries, FieldEntry, FieldList, FieldListEncoder, FieldListInfo, ListFlags};
pub use filter_list::{
    FilterAction, FilterEntries, FilterEntry, FilterHead, FilterList, FilterListEncoder, FilterListFlags,
};
pub use map::{Map, MapAction, MapEncoder, MapEntries, MapEntry, MapFlags, MapHead};
pub use series::{Series, SeriesEncoder, SeriesEntries, SeriesFlags};
pub use sets::{ElementSetDef, FieldSetDef, GlobalSets, SetDefsEncoder, SetEncoder, SetScope};
pub use vector::{Vector, VectorAction, VectorEncoder, VectorEntries, VectorEntry, VectorFlags, VectorHead};
