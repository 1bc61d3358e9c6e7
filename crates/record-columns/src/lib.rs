//! Recordings as tables of columns: Parquet and Arrow IPC, written and read again.
//!
//! A table is of one domain, and has a row for each record of it in order, and one for each gap. The columns are those of the record itself (its
//! sequence number, clocks, item, kind, state), and one a field, whose type is what `DuckDB`, polars, pandas and pyarrow read right; an
//! enumeration has its display beside it. What columns do not tell is in `message` as it came, so that nothing is lost.
//!
//! * [`Learned`] sees records before a table is begun, since a file has its columns at the beginning.
//! * [`Table`] makes batches of columns of records, [`TableWriter`] files of them.
//! * [`TableReader`] makes records of tables again.
#![forbid(unsafe_code)]

mod cells;
mod error;
mod form;
mod learned;
mod read;
mod table;
mod values;
mod write;

pub use arrow_array::RecordBatch as Batch;
pub use arrow_schema::SchemaRef;
pub use error::Error;
pub use learned::Learned;
pub use read::{Assumed, Row, TableReader, form_of};
pub use table::{Surprise, Table, TableConfig};
pub use write::{FileForm, TableWriter};
