//! Tables that become messages again.
//!
//! A row with `message` is that message. Others are built of their columns: the values are those of the table, and where the table was made of a
//! recording the same table comes of them again; the order of fields in a message, and how many decimal places each had, do not.

use crate::cells;
use crate::error::Error;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_schema::Schema;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use record::{Clocks, Gap, GapReason, Item, Kind, MESSAGE_MAX};
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{
    DataState, DataType, Date, DateTime, EncodeError, FieldListEncoder, Primitive, Real, RealHint, State, StateCode,
    StreamState, Time,
};
use std::fs::File;
use std::io::{Read, Seek};

/// Nanoseconds.
const DAY: i64 = 86_400_000_000_000;
/// Stream that built messages are of: a replay gives each client its own.
const STREAM: i32 = 1;

/// Names for a table's rows where no column says them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumed {
    /// Service of rows without `service`.
    pub service: String,
    /// Domain of rows without `domain`.
    pub domain: u8,
}

/// A record of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Sequence number, if the table has one.
    pub sequence: Option<u64>,
    /// When it counts, nanoseconds since 1970.
    pub time: u64,
    /// Its kind.
    pub kind: Kind,
    /// Item; none of gaps.
    pub item: Option<Item>,
    /// When it came.
    pub clocks: Clocks,
    /// The message, or the body of a gap.
    pub body: Vec<u8>,
}

enum Batches {
    Parquet(ParquetRecordBatchReader),
    Arrow(Box<FileReader<File>>),
}

/// Reads a table, row by row.
pub struct TableReader {
    batches: Batches,
    assumed: Assumed,
    columns: Columns,
    batch: Option<RecordBatch>,
    row: usize,
    /// Rows before this batch, and all of a Parquet file.
    before: u64,
    rows: u64,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// A column of a field.
#[derive(Debug)]
struct FieldColumn {
    at: usize,
    name: String,
    fid: i16,
    data_type: Option<DataType>,
}

/// Where columns of the record are, and those of fields.
#[derive(Debug, Default)]
struct Columns {
    own: Vec<(&'static str, usize)>,
    fields: Vec<FieldColumn>,
}

impl Columns {
    fn of(schema: &Schema, dictionary: &Dictionary) -> Result<Self, Error> {
        let mut columns = Self::default();
        for (at, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            if let Some(own) = crate::table::OWN.into_iter().find(|own| own == name) {
                columns.own.push((own, at));
                continue;
            }
            let about = field.metadata();
            let is_display = name
                .strip_suffix("_DISPLAY")
                .is_some_and(|of| dictionary.field_named(name).is_none() && schema.field_with_name(of).is_ok());
            if about.contains_key("display_of") || is_display {
                continue;
            }
            let known = about.get("fid").and_then(|fid| fid.parse().ok());
            let named = || dictionary.field_named(name).map(FieldDef::fid);
            let unknown = || name.strip_prefix("FID_").and_then(|fid| fid.parse().ok());
            let fid = known.or_else(named).or_else(unknown).ok_or_else(|| Error::Column {
                column: name.clone(),
                problem: "no field of the dictionary has this name".to_owned(),
            })?;
            let told = about.get("rwf_type").and_then(|name| DataType::from_name(name));
            let data_type = told.or_else(|| dictionary.field(fid).map(FieldDef::data_type));
            let is_of_bytes = about.contains_key("fid") && told.is_none();
            let data_type = data_type.filter(|_| !is_of_bytes);
            columns.fields.push(FieldColumn { at, name: name.clone(), fid, data_type });
        }
        if columns.at("time").or(columns.at("time_ns")).is_none() {
            return Err(Error::Column {
                column: "time".to_owned(),
                problem: "there is none, nor time_ns: one has to say when each row was".to_owned(),
            });
        }
        Ok(columns)
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.own.iter().find(|(own, _)| *own == name).map(|(_, at)| *at)
    }
}

impl TableReader {
    /// Reads a Parquet file. The dictionary names fields of tables that do not say their numbers.
    ///
    /// # Errors
    /// The file is no Parquet, or a column is nothing of a recording.
    pub fn parquet(file: File, dictionary: &Dictionary, assumed: Assumed) -> Result<Self, Error> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let columns = Columns::of(builder.schema(), dictionary)?;
        let rows = builder.metadata().file_metadata().num_rows() as u64;
        Ok(Self::new(Batches::Parquet(builder.build()?), columns, assumed, rows))
    }

    /// Reads an Arrow IPC file.
    ///
    /// # Errors
    /// The file is no Arrow, or a column is nothing of a recording.
    pub fn arrow(file: File, dictionary: &Dictionary, assumed: Assumed) -> Result<Self, Error> {
        let reader = FileReader::try_new(file, None)?;
        let columns = Columns::of(&reader.schema(), dictionary)?;
        Ok(Self::new(Batches::Arrow(Box::new(reader)), columns, assumed, 0))
    }

    fn new(batches: Batches, columns: Columns, assumed: Assumed, rows: u64) -> Self {
        Self { batches, assumed, columns, batch: None, row: 0, before: 0, rows, buffer: vec![0; MESSAGE_MAX] }
    }

    /// How much of the file is read, from 0 to 1; 0 where the file does not say how many rows it has.
    pub fn share(&self) -> f64 {
        (self.before + self.row as u64) as f64 / self.rows.max(1) as f64 * f64::from(u8::from(self.rows > 0))
    }

    /// The next row; none at the end.
    ///
    /// # Errors
    /// The file is damaged, or a row has what no message can have. The reader is behind it.
    pub fn next_row(&mut self) -> Result<Option<Row>, Error> {
        loop {
            if let Some(batch) = &self.batch {
                if self.row < batch.num_rows() {
                    let reading = Reading {
                        batch,
                        columns: &self.columns,
                        assumed: &self.assumed,
                        row: self.row,
                        number: self.before + self.row as u64,
                    };
                    self.row += 1;
                    return reading.row(&mut self.buffer).map(Some);
                }
                self.before += batch.num_rows() as u64;
            }
            let next = match &mut self.batches {
                Batches::Parquet(reader) => reader.next(),
                Batches::Arrow(reader) => reader.next(),
            };
            self.row = 0;
            self.batch = next.transpose()?;
            if self.batch.is_none() {
                return Ok(None);
            }
        }
    }
}

/// A row that is read.
struct Reading<'a> {
    batch: &'a RecordBatch,
    columns: &'a Columns,
    assumed: &'a Assumed,
    row: usize,
    number: u64,
}

impl Reading<'_> {
    fn array(&self, name: &str) -> Option<&ArrayRef> {
        self.columns.at(name).map(|at| self.batch.column(at))
    }

    fn text(&self, name: &str) -> Option<&str> {
        cells::text(self.array(name)?.as_ref(), self.row)
    }

    /// A number that is not negative.
    fn number<T: TryFrom<i128>>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(number) = self.array(name).and_then(|array| cells::integer(array.as_ref(), self.row)) else {
            return Ok(None);
        };
        T::try_from(number).map(Some).map_err(|_| self.wrong(name, &format!("{number} is out of range")))
    }

    fn instant(&self, name: &str) -> Result<Option<u64>, Error> {
        let Some(at) = self.array(name).and_then(|array| cells::instant(array.as_ref(), self.row)) else {
            return Ok(None);
        };
        u64::try_from(at).map(Some).map_err(|_| self.wrong(name, "it is before 1970"))
    }

    fn wrong(&self, column: &str, problem: &str) -> Error {
        Error::Value { row: self.number, column: column.to_owned(), problem: problem.to_owned() }
    }

    fn row(&self, buffer: &mut [u8]) -> Result<Row, Error> {
        let time = match self.number("time_ns")? {
            Some(time) => time,
            None => self.instant("time")?.ok_or_else(|| self.wrong("time", "there is none"))?,
        };
        let wall = self.number("wall_ns")?.unwrap_or(time);
        let mono = self.number("mono_ns")?.unwrap_or(wall);
        let clocks = Clocks { wall, mono, source: self.instant("source_time")? };
        let kind = match self.text("kind") {
            None => Kind::Update,
            Some(name) => Kind::ALL
                .into_iter()
                .find(|kind| kind.name() == name)
                .ok_or_else(|| self.wrong("kind", &format!("there is no kind {name:?}")))?,
        };
        let message = self.array("message").and_then(|array| cells::bytes(array.as_ref(), self.row));
        let (item, body) = match (kind, message) {
            (Kind::Gap, _) => (None, self.gap(time)?.encode().to_vec()),
            (_, Some(message)) => (Some(self.item(kind)?), message.to_vec()),
            (Kind::Refresh | Kind::Update | Kind::Status, None) => {
                let item = self.item(kind)?;
                let body = self.message(kind, &item, buffer)?;
                (Some(item), body)
            }
            (_, None) => return Err(self.wrong("message", &format!("a row of kind {} needs one", kind.name()))),
        };
        Ok(Row { sequence: self.number("sequence")?, time, kind, item, clocks, body })
    }

    fn item(&self, kind: Kind) -> Result<Item, Error> {
        let is_named = matches!(kind, Kind::Refresh | Kind::Update | Kind::Status);
        let name = self.text("item").or_else(|| (!is_named).then_some(""));
        let name = name.ok_or_else(|| self.wrong("item", "there is none: each row needs the name of its item"))?;
        let service = self.text("service").unwrap_or(&self.assumed.service);
        let domain = self.number("domain")?.unwrap_or(self.assumed.domain);
        Ok(Item { service: service.into(), domain, name: name.into() })
    }

    fn gap(&self, time: u64) -> Result<Gap, Error> {
        let number: u8 = self.number("gap_reason")?.unwrap_or(GapReason::Overflow as u8);
        let reason =
            GapReason::of(number).ok_or_else(|| self.wrong("gap_reason", &format!("there is no reason {number}")))?;
        Ok(Gap {
            reason,
            from: self.instant("gap_from")?.unwrap_or(time),
            to: self.instant("gap_to")?.unwrap_or(time),
            messages: self.number("gap_messages")?,
            bytes: self.number("gap_bytes")?.unwrap_or(0),
        })
    }

    /// The message that a row's columns say.
    fn message(&self, kind: Kind, item: &Item, buffer: &mut [u8]) -> Result<Vec<u8>, Error> {
        let mut w = Writer::new(buffer);
        let (domain, container) = (Domain(item.domain), DataType::FIELD_LIST);
        let seq_num = self.number("seq_num")?;
        let state = self.state();
        let too_long = |error: EncodeError| self.wrong("message", &format!("its fields make no message: {error}"));
        match kind {
            Kind::Status => {
                StatusMsg { state: Some(state), ..StatusMsg::new(domain, STREAM) }.encode(&mut w).map_err(too_long)?;
                return Ok(w.written().to_vec());
            }
            Kind::Refresh => {
                let flags = RefreshFlags::REFRESH_COMPLETE;
                let key = Some(MsgKey { name: Some(item.name.as_bytes()), ..MsgKey::default() });
                RefreshMsg { flags, container, seq_num, state, key, ..RefreshMsg::new(domain, STREAM) }
                    .encode_header(&mut w)
                    .map_err(too_long)?;
            }
            _ => {
                let update_type = UpdateType(self.number("update_type")?.unwrap_or(0));
                UpdateMsg { container, update_type, seq_num, ..UpdateMsg::new(domain, STREAM) }
                    .encode_header(&mut w)
                    .map_err(too_long)?;
            }
        }
        let mut list = FieldListEncoder::begin(&mut w).map_err(too_long)?;
        for column in &self.columns.fields {
            let array = self.batch.column(column.at);
            if array.is_valid(self.row) {
                self.field(column, array.as_ref(), &mut list)?;
            }
        }
        for fid in self.blanks()? {
            list.blank(fid).map_err(too_long)?;
        }
        list.finish().map_err(too_long)?;
        Ok(w.written().to_vec())
    }

    /// The state of a row that has no message: good where nothing is said.
    fn state(&self) -> State<'_> {
        let stream = self.text("stream_state").and_then(StreamState::from_name).unwrap_or(StreamState::OPEN);
        let data = self.text("data_state").and_then(DataState::from_name).unwrap_or(DataState::OK);
        State::new(stream, data, StateCode::NONE, "")
    }

    fn blanks(&self) -> Result<Vec<i16>, Error> {
        let Some(names) = self.array("blanks").and_then(|array| cells::list(array.as_ref(), self.row)) else {
            return Ok(Vec::new());
        };
        let fid = |at| {
            let name = cells::text(names.as_ref(), at).unwrap_or_default();
            let column = self.columns.fields.iter().find(|column| column.name == name);
            column.map(|column| column.fid).ok_or_else(|| self.wrong("blanks", &format!("there is no column {name:?}")))
        };
        (0..names.len()).map(fid).collect()
    }

    fn field(&self, column: &FieldColumn, array: &dyn Array, list: &mut FieldListEncoder<'_, '_>) -> Result<(), Error> {
        let text;
        let no_place =
            || self.wrong(&column.name, &format!("a column of type {} says no value of this field", array.data_type()));
        let integer = || cells::integer(array, self.row).ok_or_else(no_place);
        let out_of_range = || self.wrong(&column.name, "it is out of range");
        let bytes = || cells::bytes(array, self.row).ok_or_else(no_place);
        let value = match column.data_type {
            Some(DataType::INT) => Primitive::Int(integer()?.try_into().map_err(|_| out_of_range())?),
            Some(DataType::UINT) => Primitive::UInt(integer()?.try_into().map_err(|_| out_of_range())?),
            Some(DataType::ENUM) => Primitive::Enum(integer()?.try_into().map_err(|_| out_of_range())?),
            Some(DataType::REAL) => {
                let real = match cells::double(array, self.row) {
                    Some(number) => rwf::json::real_from_text(&number.to_string()),
                    None => cells::decimal(array, self.row).and_then(|(value, scale)| real(value, scale)),
                };
                Primitive::Real(real.ok_or_else(no_place)?)
            }
            Some(DataType::FLOAT) => Primitive::Float(cells::double(array, self.row).ok_or_else(no_place)? as f32),
            Some(DataType::DOUBLE) => Primitive::Double(cells::double(array, self.row).ok_or_else(no_place)?),
            Some(DataType::DATE) => Primitive::Date(date(integer()?).ok_or_else(out_of_range)?),
            Some(DataType::TIME) => {
                let nanos = u64::try_from(integer()?).ok().filter(|nanos| *nanos < DAY as u64);
                Primitive::Time(Time::from_nanos(nanos.ok_or_else(out_of_range)?))
            }
            Some(DataType::DATETIME) => {
                let at = cells::instant(array, self.row).ok_or_else(no_place)?;
                let date = date(i128::from(at.div_euclid(DAY))).ok_or_else(out_of_range)?;
                Primitive::DateTime(DateTime { date, time: Time::from_nanos(at.rem_euclid(DAY) as u64) })
            }
            Some(DataType::ASCII_STRING) => Primitive::Ascii(bytes()?),
            Some(DataType::UTF8_STRING) => Primitive::Utf8(bytes()?),
            Some(DataType::RMTES_STRING) => {
                let plain = bytes()?;
                text = utf8_in_rmtes(plain);
                Primitive::Rmtes(if text.is_empty() { plain } else { &text })
            }
            Some(DataType::BUFFER) | None => Primitive::Buffer(bytes()?),
            Some(data_type) => {
                let problem = format!("a field of type {data_type} is not told by its column: the row needs `message`");
                return Err(self.wrong(&column.name, &problem));
            }
        };
        list.field(column.fid, &value).map_err(|error| self.wrong(&column.name, &error.to_string()))
    }
}

/// The escape sequence that makes RMTES of UTF-8, and the text behind it; nothing where the text is the same without.
fn utf8_in_rmtes(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() { Vec::new() } else { [b"\x1b%0", text].concat() }
}

/// A real of so many decimal places; fewer where its mantissa has no room for them and they are zeros.
fn real(mut value: i128, scale: i8) -> Option<Real> {
    let mut exponent = -i32::from(scale);
    let none = i32::from(RealHint::EXPONENT0.0);
    while i64::try_from(value).is_err() || exponent < -none {
        if value % 10 != 0 || exponent >= 7 {
            return None;
        }
        (value, exponent) = (value / 10, exponent + 1);
    }
    Some(Real::new(value as i64, RealHint(u8::try_from(none + exponent).ok()?)))
}

/// The date so many days after 1970-01-01, also before (Howard Hinnant's civil-from-days). None where RWF has no such year.
fn date(days: i128) -> Option<Date> {
    let days = i64::try_from(days).ok()?.checked_add(719_468)?;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let year = u16::try_from(year).ok().filter(|year| *year > 0)?;
    Some(Date::new(year, month as u8, (of_year - (153 * shifted + 2) / 5 + 1) as u8))
}

/// Which table a file is, by its first bytes; none if it is none.
///
/// # Errors
/// The file cannot be read.
pub fn form_of(input: &mut (impl Read + Seek)) -> std::io::Result<Option<crate::FileForm>> {
    let mut magic = Vec::new();
    input.take(6).read_to_end(&mut magic)?;
    input.rewind()?;
    Ok(if magic.starts_with(b"PAR1") {
        Some(crate::FileForm::Parquet)
    } else if magic == b"ARROW1" {
        Some(crate::FileForm::Arrow)
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::days;

    #[test]
    fn dates_come_back() {
        for date in [Date::new(1, 1, 1), Date::new(1969, 12, 31), Date::new(2000, 2, 29), Date::new(65_535, 12, 31)] {
            assert_eq!(days(date).and_then(|days| super::date(i128::from(days))), Some(date));
        }
        assert_eq!(date(-800_000), None);
    }

    #[test]
    fn decimals_become_reals_with_their_places() {
        assert_eq!(real(12_345, 2), Some(Real::new(12_345, RealHint::EXPONENT_2)));
        assert_eq!(real(0, 0), Some(Real::new(0, RealHint::EXPONENT0)));
        assert_eq!(real(i128::from(i64::MAX) * 100, 2), Some(Real::new(i64::MAX, RealHint::EXPONENT0)));
        assert_eq!(real(i128::from(i64::MAX) * 10 + 1, 2), None);
        assert_eq!(real(10, 15), Some(Real::new(1, RealHint::EXPONENT_14)));
        assert_eq!(real(1, 15), None);
    }
}
