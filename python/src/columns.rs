//! Messages as Arrow columns, typed by the dictionary, handed over by the PyCapsule interface.

use crate::QuotewayError;
use crate::tick::kind;
use crate::values::display;
use arrow_array::builder::{
    BinaryBuilder, Date32Builder, Decimal128Builder, Float64Builder, Int64Builder, StringBuilder,
    TimestampNanosecondBuilder, UInt16Builder, UInt64Builder,
};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef, TimeUnit};
use client::fields::Places;
use client::queue::Message;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rwf::dictionary::Dictionary;
use rwf::msg::MsgClass;
use rwf::{DataType, Date, DecodeError, FieldEntry, Primitive, Real, Time, primitive};
use std::collections::HashMap;
use std::sync::Arc;

/// Digits and places of REAL columns: all places that RWF has.
const DECIMAL: (u8, i8) = (38, 14);

/// How REAL fields are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reals {
    Double,
    Decimal,
}

enum Column {
    Real(Float64Builder),
    Decimal(Decimal128Builder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    /// The number, its display, and the displays that have come so far, by number: they are looked up and converted once.
    Enum(UInt16Builder, StringBuilder, Vec<Option<Option<Box<str>>>>),
    Date(Date32Builder),
    TimeOfDay(Int64Builder),
    DateTime(TimestampNanosecondBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

fn utc() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

impl Column {
    fn of(data_type: DataType, reals: Reals) -> Self {
        match data_type {
            DataType::REAL if reals == Reals::Decimal => {
                Self::Decimal(Decimal128Builder::new().with_data_type(ArrowType::Decimal128(DECIMAL.0, DECIMAL.1)))
            }
            DataType::REAL | DataType::DOUBLE | DataType::FLOAT => Self::Real(Float64Builder::new()),
            DataType::INT => Self::Int(Int64Builder::new()),
            DataType::UINT => Self::UInt(UInt64Builder::new()),
            DataType::ENUM => Self::Enum(UInt16Builder::new(), StringBuilder::new(), Vec::new()),
            DataType::DATE => Self::Date(Date32Builder::new()),
            DataType::TIME => Self::TimeOfDay(Int64Builder::new()),
            DataType::DATETIME => Self::DateTime(TimestampNanosecondBuilder::new().with_timezone("UTC")),
            DataType::BUFFER => Self::Bytes(BinaryBuilder::new()),
            _ => Self::Text(StringBuilder::new()),
        }
    }

    fn fields(&self, name: &str) -> Vec<Field> {
        let of = |data_type| Field::new(name, data_type, true);
        match self {
            Self::Real(_) => vec![of(ArrowType::Float64)],
            Self::Decimal(_) => vec![of(ArrowType::Decimal128(DECIMAL.0, DECIMAL.1))],
            Self::Int(_) => vec![of(ArrowType::Int64)],
            Self::UInt(_) => vec![of(ArrowType::UInt64)],
            Self::Enum(..) => {
                vec![of(ArrowType::UInt16), Field::new(format!("{name}.display"), ArrowType::Utf8, true)]
            }
            Self::Date(_) => vec![of(ArrowType::Date32)],
            Self::TimeOfDay(_) => {
                let unit = HashMap::from([("unit".to_owned(), "nanoseconds of the day".to_owned())]);
                vec![of(ArrowType::Int64).with_metadata(unit)]
            }
            Self::DateTime(_) => vec![of(utc())],
            Self::Text(_) => vec![of(ArrowType::Utf8)],
            Self::Bytes(_) => vec![of(ArrowType::Binary)],
        }
    }

    fn push(&mut self, value: Option<&Primitive<'_>>, display: impl Fn(u16) -> Option<String>) {
        let value = value.filter(|value| !value.is_blank());
        match self {
            Self::Real(column) => column.append_option(value.and_then(number)),
            Self::Decimal(column) => column.append_option(value.and_then(decimal)),
            Self::Int(column) => column.append_option(value.and_then(|v| match v {
                Primitive::Int(v) => Some(*v),
                _ => None,
            })),
            Self::UInt(column) => column.append_option(value.and_then(|v| match v {
                Primitive::UInt(v) => Some(*v),
                _ => None,
            })),
            Self::Enum(column, displays, known) => {
                let number = value.and_then(|v| match v {
                    Primitive::Enum(v) => Some(*v),
                    _ => None,
                });
                column.append_option(number);
                displays.append_option(number.and_then(|number| known_display(known, number, display)));
            }
            Self::Date(column) => column.append_option(value.and_then(|v| match v {
                Primitive::Date(date) => days(*date),
                _ => None,
            })),
            Self::TimeOfDay(column) => column.append_option(value.and_then(|v| match v {
                Primitive::Time(time) => Some(nanoseconds(*time)),
                _ => None,
            })),
            Self::DateTime(column) => column.append_option(value.and_then(|v| match v {
                Primitive::DateTime(both) => {
                    let day = i64::from(days(both.date)?).checked_mul(86_400_000_000_000)?;
                    day.checked_add(nanoseconds(both.time))
                }
                _ => None,
            })),
            Self::Text(column) => column.append_option(value.and_then(|v| v.as_text())),
            Self::Bytes(column) => column.append_option(value.and_then(Primitive::as_bytes)),
        }
    }

    /// Appends the value of a field that an update has. The types that most fields have are read into their columns, without a [`Primitive`] in between.
    #[inline]
    fn append(
        &mut self,
        entry: &FieldEntry<'_>,
        data_type: DataType,
        display: impl Fn(u16) -> Option<String>,
    ) -> Result<(), DecodeError> {
        if entry.data.is_empty() || entry.enc != DataType::UNKNOWN {
            self.push(Some(&entry.value(data_type)?), display);
            return Ok(());
        }
        match (self, data_type) {
            (Self::Real(column), DataType::REAL) => {
                let number = primitive::real(entry.data)?.map(Real::to_f64).filter(|number| !number.is_nan());
                column.append_option(number);
            }
            (Self::UInt(column), DataType::UINT) => column.append_value(primitive::uint(entry.data)?),
            (Self::Int(column), DataType::INT) => column.append_value(primitive::int(entry.data)?),
            (Self::Enum(column, displays, known), DataType::ENUM) => {
                let number = primitive::enumeration(entry.data)?;
                column.append_value(number);
                displays.append_option(known_display(known, number, display));
            }
            (Self::Text(column), DataType::RMTES_STRING) => {
                column.append_value(rwf::rmtes::message_text(entry.data));
            }
            (Self::TimeOfDay(column), DataType::TIME) => {
                let time = primitive::time(entry.data)?;
                column.append_option((!time.is_blank()).then(|| nanoseconds(time)));
            }
            (column, data_type) => column.push(Some(&entry.value(data_type)?), display),
        }
        Ok(())
    }

    fn finish(&mut self, into: &mut Vec<ArrayRef>) {
        match self {
            Self::Real(column) => into.push(Arc::new(column.finish())),
            Self::Decimal(column) => into.push(Arc::new(column.finish())),
            Self::Int(column) | Self::TimeOfDay(column) => into.push(Arc::new(column.finish())),
            Self::UInt(column) => into.push(Arc::new(column.finish())),
            Self::Enum(column, displays, _) => {
                into.push(Arc::new(column.finish()));
                into.push(Arc::new(displays.finish()));
            }
            Self::Date(column) => into.push(Arc::new(column.finish())),
            Self::DateTime(column) => into.push(Arc::new(column.finish())),
            Self::Text(column) => into.push(Arc::new(column.finish())),
            Self::Bytes(column) => into.push(Arc::new(column.finish())),
        }
    }
}

/// The display of a number: looked up and converted once.
#[inline]
fn known_display(
    known: &mut Vec<Option<Option<Box<str>>>>,
    number: u16,
    display: impl Fn(u16) -> Option<String>,
) -> Option<&str> {
    let place = usize::from(number);
    if known.len() <= place {
        known.resize(place + 1, None);
    }
    known[place].get_or_insert_with(|| display(number).map(String::into_boxed_str)).as_deref()
}

/// Not-a-number and the like are no numbers, and so null: engines order NaN above all.
fn number(value: &Primitive<'_>) -> Option<f64> {
    let number = match *value {
        Primitive::Real(v) => v.to_f64(),
        Primitive::Double(v) => v,
        Primitive::Float(v) => f64::from(v),
        _ => return None,
    };
    Some(number).filter(|number| !number.is_nan())
}

/// The value with fourteen places; `None` if it does not fit into 38 digits.
fn decimal(value: &Primitive<'_>) -> Option<i128> {
    let Primitive::Real(Real { mantissa, hint }) = *value else { return None };
    let one = 10i128.pow(14);
    let scaled = match (hint.exponent(), hint.divisor()) {
        (Some(exponent), _) => i128::from(mantissa).checked_mul(10i128.pow((exponent + 14) as u32))?,
        (None, Some(divisor)) => i128::from(mantissa).checked_mul(one)? / i128::from(divisor),
        (None, None) => return None,
    };
    (scaled.abs() < 10i128.pow(38)).then_some(scaled)
}

fn days(date: Date) -> Option<i32> {
    if date.year == 0 || !(1..=12).contains(&date.month) || !(1..=31).contains(&date.day) {
        return None;
    }
    // Days of the civil calendar, by years that begin in March.
    let (year, month) = (i32::from(date.year) - i32::from(date.month <= 2), i32::from(date.month));
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i32::from(date.day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn nanoseconds(time: Time) -> i64 {
    let or_zero = |part: u16| if part == 0xffff { 0 } else { i64::from(part) };
    let second = if time.second == 0xff { 0 } else { i64::from(time.second) };
    let minute = if time.minute == 0xff { 0 } else { i64::from(time.minute) };
    let seconds = i64::from(time.hour) * 3_600 + minute * 60 + second;
    let fraction = or_zero(time.millisecond) * 1_000_000 + or_zero(time.microsecond) * 1_000;
    // The members below a millisecond have eleven bits, of which more than 999 mean nothing.
    seconds * 1_000_000_000 + fraction + if time.nanosecond > 999 { 0 } else { i64::from(time.nanosecond) }
}

/// Kinds of rows, by place.
const KINDS: [&str; 7] = ["update", "refresh", "status", "generic", "ack", "other", "image"];
/// The place of the kind of an image that is held.
const IMAGE: i32 = 6;

fn kind_place(class: MsgClass) -> i32 {
    let kind = kind(class);
    KINDS.iter().zip(0..).find_map(|(known, place)| (*known == kind).then_some(place)).unwrap_or(IMAGE - 1)
}

/// Rows of messages.
pub(crate) struct Columns {
    names: Vec<String>,
    places: Places,
    columns: Vec<Column>,
    dictionary: Arc<Dictionary>,
    fids: Vec<i16>,
    seq: Int64Builder,
    time: TimestampNanosecondBuilder,
    item: NameColumn,
    kind: NameColumn,
    rows: usize,
    /// A bit for each column that the row at hand has a value for.
    found: Vec<u64>,
}

/// A column of few texts that are known before: its rows are their places.
struct NameColumn {
    keys: Vec<i32>,
    names: ArrayRef,
}

impl NameColumn {
    const fn new(names: ArrayRef) -> Self {
        Self { keys: Vec::new(), names }
    }

    fn finish(&mut self) -> Result<ArrayRef, arrow_schema::ArrowError> {
        let keys = arrow_array::Int32Array::from(std::mem::take(&mut self.keys));
        Ok(Arc::new(arrow_array::DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(&self.names))?))
    }
}

/// Names as an array, for [`Columns::new`].
pub(crate) fn name_array<'n>(names: impl IntoIterator<Item = &'n str>) -> ArrayRef {
    Arc::new(arrow_array::StringArray::from_iter_values(names))
}

impl Columns {
    pub(crate) fn new(
        items: &ArrayRef,
        names: Vec<String>,
        dictionary: Arc<Dictionary>,
        reals: Reals,
    ) -> PyResult<Self> {
        let unknown = |e: client::fields::UnknownField| QuotewayError::new_err(e.to_string());
        let places = Places::of(names.iter().map(String::as_str), &dictionary).map_err(unknown)?;
        let columns = (0..places.len()).map(|place| Column::of(places.data_type(place), reals)).collect();
        let fids = names.iter().filter_map(|name| dictionary.field_named(name)).map(|field| field.fid()).collect();
        Ok(Self {
            found: vec![0; places.len().div_ceil(64)],
            names,
            places,
            columns,
            dictionary,
            fids,
            seq: Int64Builder::new(),
            time: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            item: NameColumn::new(Arc::clone(items)),
            kind: NameColumn::new(name_array(KINDS)),
            rows: 0,
        })
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a message: a row.
    pub(crate) fn push(&mut self, seq: i64, time_ns: i64, message: &Message<'_>) -> Result<(), DecodeError> {
        let body = match message.class {
            MsgClass::REFRESH | MsgClass::UPDATE => rwf::peek::body(message.msg).unwrap_or_default(),
            _ => &[],
        };
        self.push_body(seq, time_ns, (message.item, kind_place(message.class)), body)
    }

    /// Appends a row of an image.
    pub(crate) fn push_image(&mut self, seq: i64, time_ns: i64, item: u32, body: &[u8]) -> Result<(), DecodeError> {
        self.push_body(seq, time_ns, (item, IMAGE), body)
    }

    /// Appends a row of a field list: its item, and the place of its kind.
    fn push_body(&mut self, seq: i64, time_ns: i64, (item, kind): (u32, i32), body: &[u8]) -> Result<(), DecodeError> {
        let Self { columns, dictionary, fids, rows, places, found, .. } = self;
        found.fill(0);
        let applied = if body.is_empty() {
            Ok(0)
        } else {
            places.each_entry(body, |place, entry| {
                let (word, bit) = (&mut found[place / 64], 1 << (place % 64));
                // A field that comes twice has its first value: a row has one.
                if *word & bit == 0 {
                    let display = |number| display(dictionary, fids[place], number);
                    columns[place].append(&entry, places.data_type(place), display)?;
                    *word |= bit;
                }
                Ok::<(), DecodeError>(())
            })
        };
        for (word, columns) in found.iter().zip(columns.chunks_mut(64)) {
            let mut missing = !*word & (u64::MAX >> (64 - columns.len()));
            while missing != 0 {
                columns[missing.trailing_zeros() as usize].push(None, |_| None);
                missing &= missing - 1;
            }
        }
        *rows += 1;
        self.seq.append_value(seq);
        self.time.append_value(time_ns);
        self.item.keys.push(item as i32);
        self.kind.keys.push(kind);
        applied.map(|_| ())
    }

    fn schema(&self) -> SchemaRef {
        let names = |key: ArrowType| ArrowType::Dictionary(Box::new(key), Box::new(ArrowType::Utf8));
        let mut fields = vec![
            Field::new("seq", ArrowType::Int64, false),
            Field::new("time", utc(), false),
            Field::new("item", names(ArrowType::Int32), false),
            Field::new("kind", names(ArrowType::Int32), false),
        ];
        for (name, column) in self.names.iter().zip(&self.columns) {
            fields.extend(column.fields(name));
        }
        Arc::new(Schema::new(fields))
    }

    /// The rows so far as a batch; the next ones begin anew.
    pub(crate) fn finish(&mut self) -> PyResult<Batch> {
        let wrong = |e: arrow_schema::ArrowError| QuotewayError::new_err(e.to_string());
        let schema = self.schema();
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.seq.finish()),
            Arc::new(self.time.finish()),
            self.item.finish().map_err(wrong)?,
            self.kind.finish().map_err(wrong)?,
        ];
        self.columns.iter_mut().for_each(|column| column.finish(&mut arrays));
        self.rows = 0;
        let batch = RecordBatch::try_new(schema, arrays).map_err(wrong)?;
        Ok(Batch { batches: vec![batch] })
    }
}

/// Rows in Arrow's form: give it to `pyarrow.table`, `polars.DataFrame`, `pandas.DataFrame.from_arrow`, or DuckDB.
#[pyclass(frozen, module = "quoteway")]
pub struct Batch {
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.batches[0].schema();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer give what it has; consumers cast.
        let _ = requested_schema;
        let schema = self.batches[0].schema();
        let reader = RecordBatchIterator::new(self.batches.clone().into_iter().map(Ok), schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        // Pointer to the structure of the C interface, whose release is the stream's own when the capsule goes unused.
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("<quoteway.Batch {} rows: {}>", self.__len__(), self.columns().join(", "))
    }
}
