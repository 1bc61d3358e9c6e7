//! Files of tables.

use crate::error::Error;
use crate::table::{BATCH_BYTES, OWN};
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::io::Write;

/// Rows of a row group of Parquet, and of a batch of Arrow.
const GROUP_ROWS: usize = 1 << 17;
/// Rows of a batch that goes into a row group: the values of so many stay in a processor's cache from their messages to their pages.
const PART_ROWS: usize = 1 << 13;

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileForm {
    /// Apache Parquet, packed with zstd; some batches a row group.
    Parquet,
    /// Apache Arrow IPC, the file with its index at the end.
    Arrow,
}

impl FileForm {
    /// Ending of names of such files.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// Rows of a batch.
    #[must_use]
    pub const fn batch_rows(self) -> usize {
        match self {
            Self::Parquet => PART_ROWS,
            Self::Arrow => GROUP_ROWS,
        }
    }
}

/// Writes the batches of one table.
pub struct TableWriter<W: Write + Send>(Inner<W>);

enum Inner<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Arrow(Box<FileWriter<W>>),
}

impl<W: Write + Send> std::fmt::Debug for TableWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Inner::Parquet(_) => "TableWriter(Parquet)",
            Inner::Arrow(_) => "TableWriter(Arrow)",
        })
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(form: FileForm, out: W, schema: SchemaRef) -> Result<Self, Error> {
        Ok(Self(match form {
            FileForm::Parquet => {
                let options = ArrowWriterOptions::new().with_properties(properties(&schema)?);
                Inner::Parquet(Box::new(ArrowWriter::try_new_with_options(out, schema, options)?))
            }
            FileForm::Arrow => Inner::Arrow(Box::new(FileWriter::try_new(out, &schema)?)),
        }))
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        match &mut self.0 {
            Inner::Parquet(writer) => {
                writer.write(batch)?;
                if writer.in_progress_rows() >= GROUP_ROWS || writer.in_progress_size() >= BATCH_BYTES {
                    writer.flush()?;
                }
            }
            Inner::Arrow(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Ends the file, and gives `out` back.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn finish(self) -> Result<W, Error> {
        Ok(match self.0 {
            Inner::Parquet(writer) => writer.into_inner()?,
            Inner::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()?
            }
        })
    }
}

fn properties(schema: &Schema) -> Result<WriterProperties, Error> {
    // Values that grow are packed as differences; a dictionary of all different ones is work for nothing.
    // So are those that hardly change from row to row: each value of a dictionary is looked up in it.
    let grow = [
        "sequence",
        "time",
        "time_ns",
        "wall_ns",
        "mono_ns",
        "source_time",
        "date",
        "domain",
        "update_type",
        "seq_num",
    ];
    let sorted = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    let fields = schema.fields().iter().filter(|field| !OWN.contains(&field.name().as_str())).count();
    let builder = WriterProperties::builder()
        .set_created_by(concat!("quoteway ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(2 * GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_sorting_columns(Some(vec![sorted]))
        .set_column_statistics_enabled(ColumnPath::from("message"), EnabledStatistics::None)
        .set_column_dictionary_enabled(ColumnPath::from("message"), false)
        .set_key_value_metadata(Some(vec![KeyValue::new("quoteway.fields".to_owned(), fields.to_string())]));
    let builder = grow.into_iter().map(ColumnPath::from).fold(builder, |builder, column| {
        builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
    });
    Ok(builder.build())
}
