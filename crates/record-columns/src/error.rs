//! Why a table cannot be written or read.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use std::io;

/// Failure of a table.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is no Parquet, is damaged, or cannot be written.
    #[error("Parquet: {0}")]
    Parquet(#[from] ParquetError),
    /// The file is no Arrow, is damaged, or cannot be written.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
    /// The file's columns are not those of a recording: whoever made it has to add or to name one.
    #[error("column {column}: {problem}; docs/operating/record.md has the columns that a table needs")]
    Column {
        /// Name of the column.
        column: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A row has a value that no message can have.
    #[error("row {row}, column {column}: {problem}")]
    Value {
        /// Number of the row in the file, from 0 on.
        row: u64,
        /// Name of the column.
        column: String,
        /// What is wrong with it.
        problem: String,
    },
}
