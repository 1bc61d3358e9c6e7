//! A table of one domain: records become rows, rows become batches of columns.

use crate::error::Error;
use crate::form::{Form, Seen, instant};
use crate::learned::{Learned, fields_of};
use crate::values::{Column, Displays, Numbers, Texts, dictionary, dictionary_type, instants};
use arrow_array::{ArrayRef, Date32Array, Int64Array, ListArray, RecordBatch, StringArray, UInt8Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use record::{Entry, Gap, Kind, Record};
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::msg::{Msg, UpdateFlags, UpdateMsg};
use rwf::{FieldList, Primitive, State};
use std::collections::HashMap;
use std::sync::Arc;

/// Nanoseconds.
const DAY: u64 = 86_400_000_000_000;
/// Bytes of texts and messages of a batch.
pub(crate) const BATCH_BYTES: usize = 256 << 20;
/// Columns of the record itself, in order.
pub(crate) const OWN: [&str; 23] = [
    "sequence",
    "time",
    "time_ns",
    "wall_ns",
    "mono_ns",
    "source_time",
    "date",
    "domain",
    "service",
    "item",
    "kind",
    "update_type",
    "seq_num",
    "stream_state",
    "data_state",
    "text",
    "gap_reason",
    "gap_from",
    "gap_to",
    "gap_messages",
    "gap_bytes",
    "blanks",
    "message",
];

/// How tables are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableConfig {
    /// Decimal places of prices, at least.
    pub scale: u8,
    /// Columns have the types that the dictionary and `scale` say, whatever the values are, so that the files of a dataset have columns of one type. A value
    /// for which its column has no room is null there, is counted ([`Table::unfit`]), and its row has the message.
    pub fixed: bool,
    /// The bytes of all messages are there, not only of those that columns do not tell.
    pub messages: bool,
    /// A file is of one day (UTC), which its path tells: there is no column `date`.
    pub by_date: bool,
    /// A file is of one service, which its path tells: there is no column `service`.
    pub by_service: bool,
}

impl TableConfig {
    /// Decimal places of prices in a dataset, unless others are asked for: a 256th takes eight.
    pub const PLACES: u8 = 8;

    fn form(self, seen: &Seen) -> Form {
        if self.fixed { seen.fixed_form(self.scale) } else { seen.form(self.scale) }
    }

    /// Whether the table has this column of the record.
    fn has(self, column: &str) -> bool {
        !(self.by_date && column == "date" || self.by_service && column == "service")
    }
}

/// A record does not fit a table: nobody has seen its field, its item or so large a value before. [`Learned::note`] sees it, and the table is to
/// be begun anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surprise;

/// What a table has of items: where each is in the dictionaries of services and names.
#[derive(Debug)]
struct Items {
    services: Arc<StringArray>,
    names: Arc<StringArray>,
    places: HashMap<(Arc<str>, Arc<str>), (i32, i32)>,
    /// By the number in the segment: the place that the last record with it had, and where the names of its item stand in memory. What is in `kept` keeps them there, so that
    /// no other name can stand there: the same address is the same name, and no text is compared for each row.
    last: Vec<Last>,
    kept: Vec<record::Item>,
}

/// Addresses of the names of an item, 0 where there is none, and its place. Small: all items are looked for in turn.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    service: usize,
    name: usize,
    place: (i32, i32),
}

/// Where a text stands.
fn address(text: &Arc<str>) -> usize {
    Arc::as_ptr(text).cast::<u8>().addr()
}

impl Items {
    fn new(pairs: &[(Arc<str>, Arc<str>)]) -> Self {
        let (mut services, mut names) = (Interned::default(), Interned::default());
        let places = pairs
            .iter()
            .map(|(service, name)| ((service.clone(), name.clone()), (services.place(service), names.place(name))))
            .collect();
        Self { services: services.finish(), names: names.finish(), places, last: Vec::new(), kept: Vec::new() }
    }

    fn place(&mut self, entry: &Entry<'_>) -> Result<(i32, i32), Surprise> {
        let Some(item) = entry.item else { return Ok((-1, -1)) };
        let number = entry.record.item as usize;
        let (service, name) = (address(&item.service), address(&item.name));
        if let Some(last) = self.last.get(number)
            && (last.name, last.service) == (name, service)
        {
            return Ok(last.place);
        }
        let place = *self.places.get(&(item.service.clone(), item.name.clone())).ok_or(Surprise)?;
        if self.last.len() <= number {
            self.last.resize(number + 1, Last::default());
        }
        self.last[number] = Last { service, name, place };
        self.kept.push(item.clone());
        Ok(place)
    }
}

/// Texts of a dictionary column.
#[derive(Default)]
struct Interned<'a> {
    texts: Vec<&'a str>,
    places: HashMap<&'a str, i32>,
}

impl<'a> Interned<'a> {
    fn place(&mut self, text: &'a str) -> i32 {
        *self.places.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() as i32 - 1
        })
    }

    fn finish(self) -> Arc<StringArray> {
        Arc::new(self.texts.into_iter().map(Some).collect())
    }
}

/// Columns of the record itself.
#[derive(Debug, Default)]
struct Own {
    sequence: Vec<i64>,
    time: Vec<i64>,
    wall: Vec<i64>,
    mono: Vec<i64>,
    source: Numbers<i64>,
    services: Vec<i32>,
    items: Vec<i32>,
    kinds: Vec<i32>,
    update_types: Numbers<u8>,
    seq_nums: Numbers<i64>,
    stream_states: Numbers<u8>,
    data_states: Numbers<u8>,
    texts: Texts,
    gap_reasons: Numbers<u8>,
    gap_from: Numbers<i64>,
    gap_to: Numbers<i64>,
    gap_messages: Numbers<i64>,
    gap_bytes: Numbers<i64>,
    /// Names of blank fields, one behind the other, and behind which each row's end.
    blanks: Vec<i32>,
    blank_ends: Vec<i32>,
    messages: Texts,
}

/// Column of a field.
#[derive(Debug)]
struct OfField {
    fid: i16,
    name: String,
    data_type: Option<rwf::DataType>,
    column: Column,
    displays: Option<Displays>,
}

/// Rows of one domain.
#[derive(Debug)]
pub struct Table {
    domain: u8,
    config: TableConfig,
    schema: SchemaRef,
    kinds: Arc<StringArray>,
    stream_states: Arc<StringArray>,
    data_states: Arc<StringArray>,
    names: Arc<StringArray>,
    items: Items,
    own: Own,
    columns: Vec<OfField>,
    /// Number of a column plus one, by the field's number.
    by_fid: Vec<u16>,
    /// Values that no column holds are in `message`, since all records were seen before.
    is_final: bool,
    /// Values that stand in `message` alone.
    unfit: u64,
}

impl Table {
    /// A table of a domain with the columns of what was seen. `is_final`: all records were, and a value that no column can hold stands in
    /// `message` alone.
    pub fn new(domain: u8, learned: &Learned, dictionary: &Dictionary, config: TableConfig, is_final: bool) -> Self {
        let empty = crate::learned::Domain::default();
        let seen = learned.domains.get(&domain).unwrap_or(&empty);
        let mut taken: Vec<String> = OWN.iter().map(|name| (*name).to_owned()).collect();
        let mut columns = Vec::new();
        for (fid, seen) in &seen.fields {
            let field = dictionary.field(*fid);
            let acronym = field.map_or_else(|| format!("FID_{fid}"), |field| field.acronym().to_owned());
            // Two fields of one acronym, or one that is called as a column of the record, are told apart by number.
            let display = format!("{acronym}_DISPLAY");
            let is_taken = taken.contains(&acronym) || taken.contains(&display);
            let name = if is_taken { format!("{acronym}_{fid}") } else { acronym };
            taken.push(name.clone());
            let form = config.form(seen);
            let displays = (form == Form::Enumeration).then(|| displays_of(field, dictionary));
            if displays.is_some() {
                taken.push(format!("{name}_DISPLAY"));
            }
            columns.push(OfField { fid: *fid, name, data_type: seen.data_type(), column: Column::new(form), displays });
        }
        let mut by_fid = vec![0; 1 << 16];
        for (at, column) in (1..).zip(&columns) {
            by_fid[usize::from(column.fid as u16)] = at;
        }
        let forms: Vec<Form> = seen.fields.values().map(|seen| config.form(seen)).collect();
        let schema = Arc::new(schema(&columns, &forms, config));
        let names = columns.iter().map(|column| Some(column.name.as_str())).collect();
        Self {
            domain,
            config,
            schema,
            kinds: Arc::new(Kind::ALL.iter().map(|kind| Some(kind.name())).collect()),
            stream_states: words(|number| rwf::StreamState(number).to_string()),
            data_states: words(|number| rwf::DataState(number).to_string()),
            names: Arc::new(names),
            items: Items::new(&seen.items),
            own: Own::default(),
            columns,
            by_fid,
            is_final,
            unfit: 0,
        }
    }

    /// Columns of the table.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Rows that wait for a batch.
    pub fn rows(&self) -> usize {
        self.own.sequence.len()
    }

    /// Whether so many rows wait that they are to become a batch: `rows` of them, as [`crate::FileForm::batch_rows`] has it, or many bytes.
    pub fn is_full(&self, rows: usize) -> bool {
        let texts = || self.columns.iter().map(|column| column.column.text_len()).sum::<usize>();
        self.rows() >= rows || self.rows().is_multiple_of(1 << 10) && self.own.messages.len() + texts() >= BATCH_BYTES
    }

    /// Rows whose columns do not tell all values, which their `message` does.
    pub const fn unfit(&self) -> u64 {
        self.unfit
    }

    /// Takes a record of the table's domain, or a gap.
    ///
    /// # Errors
    /// The record does not fit what was seen before; the rows of the table cannot be used then.
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<(), Surprise> {
        let row = self.rows();
        let Record { sequence, time, kind, clocks, body, .. } = entry.record;
        let (service, item) = self.items.place(entry)?;
        let own = &mut self.own;
        own.sequence.push(sequence as i64);
        own.time.push(time as i64);
        own.wall.push(clocks.wall as i64);
        own.mono.push(clocks.mono as i64);
        if let Some(source) = clocks.source {
            own.source.set(row, source as i64);
        }
        own.services.push(service);
        own.items.push(item);
        own.kinds.push(kind as i32 - 1);
        if let Some(gap) = Gap::decode(body).filter(|_| kind == Kind::Gap) {
            own.gap(row, &gap);
            own.blank_ends.push(own.blanks.len() as i32);
            return Ok(());
        }
        let has_plain_header = own.header(row, kind, body);
        let list = fields_of(&entry.record);
        let has_all = self.fields(row, list.as_ref())?;
        let told = has_plain_header && has_all && list.is_some_and(|list| !list.is_set_skipped());
        let own = &mut self.own;
        own.blank_ends.push(own.blanks.len() as i32);
        if !told || self.config.messages {
            own.messages.set(row, body);
        }
        Ok(())
    }

    /// Sets the fields of a row; true if its columns tell all of them.
    fn fields(&mut self, row: usize, list: Option<&FieldList<'_>>) -> Result<bool, Surprise> {
        let Some(list) = list else { return Ok(true) };
        let (mut told, mut entries) = (true, list.entries());
        for field in &mut entries {
            let Ok(field) = field else {
                told = false;
                break;
            };
            let at = usize::from(self.by_fid[usize::from(field.fid as u16)]);
            let of_field = self.columns.get_mut(at.wrapping_sub(1)).ok_or(Surprise)?;
            let value = match of_field.data_type {
                None => Primitive::Buffer(field.data),
                Some(data_type) => {
                    let Ok(value) = field.value(data_type) else {
                        told = false;
                        continue;
                    };
                    value
                }
            };
            if value.is_blank() || field.data.is_empty() {
                self.own.blanks.push(at as i32 - 1);
            } else if of_field.column.set(row, &value).is_err() {
                // More looks at the values do not change a column that does not depend on them.
                if !(self.is_final || self.config.fixed) {
                    return Err(Surprise);
                }
                told = false;
                self.unfit += 1;
            } else {
                told &= is_told(&value);
            }
        }
        Ok(told)
    }

    /// The rows as a batch; the table is empty then.
    ///
    /// # Errors
    /// A text is not UTF-8, which is a fault of this library.
    pub fn take_batch(&mut self) -> Result<RecordBatch, Error> {
        let rows = self.rows();
        let own = OWN.into_iter().zip(self.own_arrays(rows)?);
        let mut arrays: Vec<ArrayRef> =
            own.filter(|(column, _)| self.config.has(column)).map(|(_, array)| array).collect();
        for of_field in &mut self.columns {
            of_field.column.finish(rows, of_field.displays.as_ref(), &mut arrays)?;
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)
    }

    fn own_arrays(&mut self, rows: usize) -> Result<Vec<ArrayRef>, Error> {
        let own = &mut self.own;
        let (time, date) = (taken(&mut own.time), |time: &i64| (*time as u64 / DAY) as i32);
        let dates: Date32Array = time.iter().map(date).collect::<Vec<i32>>().into();
        let blanks = taken(&mut own.blanks);
        let blank_ends = taken(&mut own.blank_ends);
        let bytes = |(values, nulls): (Vec<u8>, Option<NullBuffer>)| -> ArrayRef {
            Arc::new(UInt8Array::new(values.into(), nulls))
        };
        Ok(vec![
            Arc::new(Int64Array::from(taken(&mut own.sequence))),
            instants(time.clone()),
            Arc::new(Int64Array::from(time)),
            Arc::new(Int64Array::from(taken(&mut own.wall))),
            Arc::new(Int64Array::from(taken(&mut own.mono))),
            own.source.finish_instants(rows),
            Arc::new(dates),
            Arc::new(UInt8Array::from(vec![self.domain; rows])),
            dictionary(taken(&mut own.services), &self.items.services)?,
            dictionary(taken(&mut own.items), &self.items.names)?,
            dictionary(taken(&mut own.kinds), &self.kinds)?,
            bytes(own.update_types.finish(rows)),
            own.seq_nums.finish_integers(rows),
            named(own.stream_states.finish(rows), &self.stream_states)?,
            named(own.data_states.finish(rows), &self.data_states)?,
            own.texts.finish_text(rows)?,
            bytes(own.gap_reasons.finish(rows)),
            own.gap_from.finish_instants(rows),
            own.gap_to.finish_instants(rows),
            own.gap_messages.finish_integers(rows),
            own.gap_bytes.finish_integers(rows),
            lists(&blanks, &blank_ends, &self.names)?,
            own.messages.finish_bytes(rows),
        ])
    }
}

impl Own {
    fn gap(&mut self, row: usize, gap: &Gap) {
        self.texts.set(row, gap.reason.text().as_bytes());
        self.gap_reasons.set(row, gap.reason as u8);
        self.gap_from.set(row, gap.from as i64);
        self.gap_to.set(row, gap.to as i64);
        if let Some(messages) = gap.messages {
            self.gap_messages.set(row, messages as i64);
        }
        self.gap_bytes.set(row, gap.bytes as i64);
    }

    fn state(&mut self, row: usize, state: &State<'_>) {
        self.stream_states.set(row, state.stream.0);
        self.data_states.set(row, state.data.0);
        self.texts.set(row, state.to_string().as_bytes());
    }

    /// Sets what a message's header says; true if columns tell all of it. Of images, states and what has no columns they do not.
    fn header(&mut self, row: usize, kind: Kind, body: &[u8]) -> bool {
        match (kind, Msg::decode(body)) {
            (Kind::Update, Ok(Msg::Update(update))) => {
                self.update_types.set(row, update.update_type.0);
                if let Some(number) = update.seq_num {
                    self.seq_nums.set(row, i64::from(number));
                }
                is_plain(&update)
            }
            (_, Ok(Msg::Refresh(refresh))) => {
                if let Some(number) = refresh.seq_num {
                    self.seq_nums.set(row, i64::from(number));
                }
                self.state(row, &refresh.state);
                false
            }
            (_, Ok(Msg::Status(status))) => {
                if let Some(state) = &status.state {
                    self.state(row, state);
                }
                false
            }
            _ => false,
        }
    }
}

/// The values of a batch, with room in their place for as many of the next.
fn taken<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}

/// Whether an update has nothing in its header but its type and its sequence number.
fn is_plain(update: &UpdateMsg<'_>) -> bool {
    update.flags == UpdateFlags::NONE
        && update.conflation.is_none()
        && update.perm_data.is_none()
        && update.key.is_none()
        && update.ext_header.is_none()
        && update.post_user_info.is_none()
}

/// Whether the column of a value tells all of it: not how a text was encoded that is more than characters, nor what is no number, text or time.
fn is_told(value: &Primitive<'_>) -> bool {
    match value {
        Primitive::Rmtes(bytes) => bytes.iter().all(|byte| (0x20..0x7F).contains(byte)),
        Primitive::Ascii(bytes) | Primitive::Utf8(bytes) => std::str::from_utf8(bytes).is_ok(),
        Primitive::Qos(_) | Primitive::State(_) | Primitive::Array(_) => false,
        _ => true,
    }
}

fn displays_of(field: Option<&FieldDef>, dictionary: &Dictionary) -> Displays {
    let values = field.and_then(|field| dictionary.enum_table(field)).map_or(&[][..], |table| table.values());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Displays::new(values.iter().map(|value| (value.value(), text(value.display()))))
}

/// The names of all numbers that there may be, so that the dictionary of all batches is the same.
fn words(name: impl Fn(u8) -> String) -> Arc<StringArray> {
    Arc::new((0..=31).map(|number| Some(name(number))).collect())
}

/// A dictionary column of names of numbers.
fn named(
    (numbers, nulls): (Vec<u8>, Option<NullBuffer>),
    texts: &Arc<StringArray>,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let is_set = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let key = |(row, number): (usize, u8)| if is_set(row) { i32::from(number.min(31)) } else { -1 };
    dictionary(numbers.into_iter().enumerate().map(key).collect(), texts)
}

/// Lists of names: `names` by the numbers in `entries`, of each row up to its end; null where there are none.
fn lists(entries: &[i32], ends: &[i32], names: &StringArray) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let values: StringArray = entries.iter().map(|at| Some(names.value(*at as usize))).collect();
    let offsets: Vec<i32> = std::iter::once(0).chain(ends.iter().copied()).collect();
    let nulls: NullBuffer = offsets.windows(2).map(|pair| pair[0] < pair[1]).collect::<Vec<bool>>().into();
    Ok(Arc::new(ListArray::try_new(item_of_list(), OffsetBuffer::new(offsets.into()), Arc::new(values), Some(nulls))?))
}

fn item_of_list() -> Arc<Field> {
    Arc::new(Field::new("item", ArrowType::Utf8, true))
}

/// The columns of a table: those of the record itself, and of each field.
fn schema(columns: &[OfField], forms: &[Form], config: TableConfig) -> Schema {
    let mut fields: Vec<Field> = OWN.into_iter().filter(|column| config.has(column)).map(own_field).collect();
    for (of_field, form) in columns.iter().zip(forms) {
        let mut about = HashMap::from([("fid".to_owned(), of_field.fid.to_string())]);
        if let Some(data_type) = of_field.data_type {
            about.insert("rwf_type".to_owned(), data_type.to_string());
        }
        if *form == Form::TimeOfDay {
            about.insert("unit".to_owned(), "nanoseconds since midnight".to_owned());
        }
        fields.push(Field::new(&of_field.name, form.arrow(), true).with_metadata(about));
        if of_field.displays.is_some() {
            let about = HashMap::from([("display_of".to_owned(), of_field.name.clone())]);
            fields.push(Field::new(format!("{}_DISPLAY", of_field.name), dictionary_type(), true).with_metadata(about));
        }
    }
    Schema::new(fields)
}

fn own_field(name: &'static str) -> Field {
    let (of, is_nullable) = match name {
        "sequence" | "time_ns" | "wall_ns" | "mono_ns" => (ArrowType::Int64, false),
        "time" => (instant(), false),
        "date" => (ArrowType::Date32, false),
        "domain" => (ArrowType::UInt8, false),
        "kind" => (dictionary_type(), false),
        "service" | "item" | "stream_state" | "data_state" => (dictionary_type(), true),
        "source_time" | "gap_from" | "gap_to" => (instant(), true),
        "update_type" | "gap_reason" => (ArrowType::UInt8, true),
        "seq_num" | "gap_messages" | "gap_bytes" => (ArrowType::Int64, true),
        "blanks" => (ArrowType::List(item_of_list()), true),
        "message" => (ArrowType::Binary, true),
        _ => (ArrowType::Utf8, true),
    };
    Field::new(name, of, is_nullable)
}
