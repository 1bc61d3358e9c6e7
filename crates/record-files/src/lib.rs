//! Recordings to and from files that other programs read: lines of JSON, CSV, and tables for Parquet and Arrow.
//!
//! * [`write_text`] and [`write_tables`] export the [`Wanted`] records of a recording.
//! * [`import()`] makes a recording of such files, of captured RSSL sessions, and of exchanges' files.
//!
//! [`when`], times as text, is of `record`.
//!
//! Long work tells on standard error how far it is.
#![forbid(unsafe_code)]

mod import;
mod selected;
mod tables;
mod text;

pub use import::{Imported, InputForm, import};
pub use record::when;
pub use record_columns::{Assumed, FileForm, TableConfig};
pub use selected::{Failure, Wanted};
pub use tables::{ONLY_PART, Tables, Written, write_tables};
pub use text::{TextForm, json_line, write_text};
