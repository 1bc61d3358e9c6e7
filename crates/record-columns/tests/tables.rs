//! Tables of a recording, read back from their files.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampNanosecondType, UInt8Type, UInt16Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::statistics::Statistics;
use record::{Clocks, Gap, Item, Journal, JournalConfig, Kind, Memory, Recording};
use record_columns::{Assumed, FileForm, Learned, Surprise, Table, TableConfig, TableReader, TableWriter};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{
    DataState, DataType, Date, EncodeError, FieldListEncoder, Primitive, Real, RealHint, State, StateCode, StreamState,
    Time,
};
use std::fs::File;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_795_789_800 * SECOND;
const BID: i16 = 22;
const ASK: i16 = 25;
const CURRENCY: i16 = 15;
const NAME: i16 = 3;

fn encoded(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buffer = vec![0; 4_000];
    let mut w = Writer::new(&mut buffer);
    encode(&mut w).expect("room");
    w.written().to_vec()
}

fn update(fields: &[(i16, Primitive<'_>)]) -> Vec<u8> {
    let body = encoded(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for (fid, value) in fields {
            list.field(*fid, value)?;
        }
        list.finish()
    });
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type: UpdateType::QUOTE,
        seq_num: Some(77),
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
    };
    encoded(|w| update.encode(w))
}

fn refresh() -> Vec<u8> {
    let flags = RefreshFlags::REFRESH_COMPLETE;
    let state = State::OPEN_OK;
    encoded(|w| RefreshMsg { flags, state, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) }.encode(w))
}

fn status() -> Vec<u8> {
    let state = Some(State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "stale"));
    encoded(|w| StatusMsg { state, ..StatusMsg::new(Domain::MARKET_PRICE, 5) }.encode(w))
}

const fn cents(mantissa: i64) -> Primitive<'static> {
    Primitive::Real(Real::new(mantissa, RealHint::EXPONENT_2))
}

fn recording(messages: &[(Kind, &str, Vec<u8>)]) -> Recording<Memory> {
    let mut journal = Journal::open(Memory::default(), JournalConfig::default(), &mut Vec::new()).expect("memory");
    for (at, (kind, name, body)) in (0..).zip(messages) {
        let item = journal.item(Item { service: "FEED".into(), domain: 6, name: (*name).into() });
        let source = (at == 1).then_some(START + 7);
        journal.append(*kind, Some(item), Clocks { wall: START + at * SECOND + at, mono: at, source }, body);
    }
    journal.overflow(7, 700, Clocks { wall: START + 3600 * SECOND, mono: 0, source: None });
    journal.end();
    Recording::open(journal.store().clone()).expect("a recording")
}

fn table(recording: &Recording<Memory>, dictionary: &Dictionary, config: TableConfig) -> Table {
    let mut learned = Learned::new();
    let mut cursor = recording.from_time(0);
    while let Some(entry) = cursor.next().expect("memory") {
        learned.note(&entry, dictionary);
    }
    let mut table = Table::new(6, &learned, dictionary, config, true);
    let mut cursor = recording.from_time(0);
    while let Some(entry) = cursor.next().expect("memory") {
        table.push(&entry).expect("all was seen");
    }
    table
}

/// Writes a table as Parquet and reads it, the types as the file has them.
fn through_parquet(table: &mut Table) -> (tempfile::TempDir, RecordBatch) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let file = File::create(&path).expect("a file");
    let mut writer = TableWriter::new(FileForm::Parquet, file, table.schema()).expect("begun");
    writer.write(&table.take_batch().expect("a batch")).expect("written");
    writer.finish().expect("ended");
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("a file")).expect("Parquet");
    let batch = reader.build().expect("a reader").next().expect("a batch").expect("rows");
    (folder, batch)
}

fn column<'b>(batch: &'b RecordBatch, name: &str) -> &'b dyn Array {
    batch.column_by_name(name).unwrap_or_else(|| panic!("column {name}")).as_ref()
}

fn some_text(batch: &RecordBatch, name: &str, row: usize) -> Option<String> {
    let array = column(batch, name).as_dictionary::<Int32Type>();
    let key = array.key(row)?;
    Some(array.values().as_string::<i32>().value(key).to_owned())
}

#[test]
fn columns_have_prices_times_states_and_blanks() {
    let third = [
        (BID, Primitive::Real(Real::new(3, RealHint::FRACTION_256))),
        (ASK, Primitive::Blank),
        (CURRENCY, Primitive::Enum(840)),
        (NAME, Primitive::Rmtes(b"IBM")),
    ];
    let recording = recording(&[
        (Kind::Refresh, "IBM.N", refresh()),
        (Kind::Update, "IBM.N", update(&[(BID, cents(12_345)), (ASK, cents(-1))])),
        (Kind::Update, "TRI.N", update(&third)),
        (Kind::Status, "IBM.N", status()),
    ]);
    let mut table = table(&recording, &Dictionary::builtin(), TableConfig::default());
    let (_folder, batch) = through_parquet(&mut table);
    assert_eq!((batch.num_rows(), table.rows(), table.unfit()), (5, 0, 0));
    let (bid, ask) = (
        column(&batch, "BID").as_primitive::<Decimal128Type>(),
        column(&batch, "ASK").as_primitive::<Decimal128Type>(),
    );
    assert_eq!(*bid.data_type(), ArrowType::Decimal128(18, 8));
    assert_eq!((bid.value(1), bid.value(2)), (12_345_000_000, 3 * 390_625));
    assert_eq!((ask.data_type(), ask.value(1)), (&ArrowType::Decimal128(18, 2), -1));
    assert_eq!([0, 2, 3, 4].map(|row| ask.is_null(row)), [true; 4]);
    let blanks = column(&batch, "blanks").as_list::<i32>();
    assert_eq!([0, 1, 3, 4].map(|row| blanks.is_null(row)), [true; 4], "absent is not blank");
    assert_eq!(blanks.value(2).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("ASK")]);
    let time = column(&batch, "time").as_primitive::<TimestampNanosecondType>();
    assert_eq!(*time.data_type(), ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())));
    assert_eq!(time.value(3), (START + 3 * SECOND + 3) as i64);
    assert_eq!(column(&batch, "time_ns").as_primitive::<Int64Type>().value(3), (START + 3 * SECOND + 3) as i64);
    let source = column(&batch, "source_time").as_primitive::<TimestampNanosecondType>();
    assert_eq!((source.value(1), source.null_count()), ((START + 7) as i64, 4));
    assert_eq!(column(&batch, "date").as_primitive::<Date32Type>().value(0), (START / (86_400 * SECOND)) as i32);
    assert_eq!(column(&batch, "CURRENCY").as_primitive::<UInt16Type>().value(2), 840);
    assert_eq!(some_text(&batch, "CURRENCY_DISPLAY", 2).as_deref(), Some("USD"));
    assert_eq!(some_text(&batch, "CURRENCY_DISPLAY", 1), None);
    let items: Vec<Option<String>> = (0..5).map(|row| some_text(&batch, "item", row)).collect();
    assert_eq!(
        items,
        ["IBM.N", "IBM.N", "TRI.N", "IBM.N", ""].map(|name| Some(name.to_owned()).filter(|n| !n.is_empty()))
    );
    let kinds: Vec<Option<String>> = (0..5).map(|row| some_text(&batch, "kind", row)).collect();
    assert_eq!(kinds, ["refresh", "update", "update", "status", "gap"].map(|kind| Some(kind.to_owned())));
    assert_eq!(some_text(&batch, "data_state", 3).as_deref(), Some("SUSPECT"));
    assert_eq!(column(&batch, "update_type").as_primitive::<UInt8Type>().value(2), UpdateType::QUOTE.0);
    assert_eq!(column(&batch, "seq_num").as_primitive::<Int64Type>().value(2), 77);
    assert_eq!(column(&batch, "gap_messages").as_primitive::<Int64Type>().value(4), 7);
    let messages = column(&batch, "message").as_binary::<i32>();
    assert_eq!([1, 2, 4].map(|row| messages.is_null(row)), [true; 3], "columns tell all of it");
    assert!(matches!(Msg::decode(messages.value(3)), Ok(Msg::Status(_))));
}

#[test]
fn what_no_column_tells_is_in_the_message() {
    let partial: &[u8] = b"\x1b[3`X";
    let messages = [
        update(&[(BID, Primitive::Real(Real::INFINITY))]),
        update(&[(NAME, Primitive::Rmtes(partial))]),
        update(&[(BID, cents(1)), (BID, cents(2))]),
        update(&[(5, Primitive::Time(Time::new(24, 0, 0)))]),
        update(&[(16, Primitive::Date(Date::new(2026, 0, 0)))]),
    ];
    let recorded: Vec<(Kind, &str, Vec<u8>)> =
        messages.iter().map(|message| (Kind::Update, "IBM.N", message.clone())).collect();
    let mut table = table(&recording(&recorded), &Dictionary::builtin(), TableConfig::default());
    let (_folder, batch) = through_parquet(&mut table);
    let bytes = column(&batch, "message").as_binary::<i32>();
    for (row, message) in messages.iter().enumerate() {
        assert_eq!((row, bytes.value(row)), (row, message.as_slice()));
    }
    assert_eq!((table.unfit(), column(&batch, "BID").as_primitive::<Decimal128Type>().value(2)), (4, 1));
}

/// One file of many has a day's largest turnover, the next one has small values alone: readers take the types of one file for all.
#[test]
fn columns_of_a_dataset_have_one_type_whatever_the_values_are() {
    let config = TableConfig { scale: 8, fixed: true, ..TableConfig::default() };
    let turnover = Primitive::Real(Real::new(20_000_000_000_000, RealHint::EXPONENT0));
    let small = Primitive::Real(Real::new(1, RealHint::EXPONENT_10));
    let zeros = Primitive::Real(Real::new(1_050_000, RealHint::EXPONENT_10));
    let schemas = [vec![cents(1)], vec![cents(1), turnover], vec![small, zeros]].map(|values| {
        let recorded: Vec<(Kind, &str, Vec<u8>)> =
            values.into_iter().map(|value| (Kind::Update, "IBM.N", update(&[(BID, value)]))).collect();
        let recording = recording(&recorded);
        let mut table = table(&recording, &Dictionary::builtin(), config);
        let (_folder, batch) = through_parquet(&mut table);
        let messages = column(&batch, "message").as_binary::<i32>();
        let bids = column(&batch, "BID").as_primitive::<Decimal128Type>();
        let told: Vec<(bool, Option<i128>)> = (0..recorded.len())
            .map(|row| (messages.is_null(row), (!bids.is_null(row)).then(|| bids.value(row))))
            .collect();
        (batch.schema(), told, table.unfit())
    });
    assert_eq!(*schemas[0].0.field_with_name("BID").expect("a column").data_type(), ArrowType::Decimal128(38, 8));
    assert!(schemas.iter().all(|(schema, ..)| *schema == schemas[0].0));
    assert_eq!(schemas[1].1, [(true, Some(1_000_000)), (true, Some(20_000_000_000_000 * 100_000_000))]);
    // What no column of eight places tells is in the message, and counted.
    assert_eq!((&schemas[2].1[..], schemas[2].2), (&[(false, None), (true, Some(10_500))][..], 1));
}

#[test]
fn row_groups_have_statistics_and_are_sorted() {
    let recorded: Vec<(Kind, &str, Vec<u8>)> =
        (0..9).map(|at| (Kind::Update, "IBM.N", update(&[(BID, cents(at - 4))]))).collect();
    let mut table =
        table(&recording(&recorded), &Dictionary::builtin(), TableConfig { scale: 4, ..TableConfig::default() });
    let (folder, batch) = through_parquet(&mut table);
    let file = File::open(folder.path().join("t.parquet")).expect("a file");
    let group = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").metadata().row_group(0).clone();
    assert_eq!(group.sorting_columns().map(|columns| (columns[0].column_idx, columns[0].descending)), Some((0, false)));
    let of = |name: &str| {
        let column = group.columns().iter().find(|column| column.column_path().string() == name).expect("a column");
        match column.statistics() {
            Some(Statistics::Int64(values)) => {
                (values.min_opt().copied(), values.max_opt().copied(), values.null_count_opt())
            }
            other => panic!("statistics of {name}: {other:?}"),
        }
    };
    assert_eq!(of("time"), (Some(START as i64), Some((START + 3600 * SECOND) as i64), Some(0)));
    assert_eq!(of("BID"), (Some(-400), Some(400), Some(1)), "a scale that was asked for");
    assert_eq!(*column(&batch, "BID").data_type(), ArrowType::Decimal128(18, 4));
}

#[test]
fn a_record_that_nobody_has_seen_is_a_surprise() {
    let dictionary = Dictionary::builtin();
    let first = recording(&[(Kind::Update, "IBM.N", update(&[(BID, cents(1))]))]);
    let mut learned = Learned::new();
    let mut cursor = first.from_time(0);
    while let Some(entry) = cursor.next().expect("memory") {
        learned.note(&entry, &dictionary);
    }
    let wider = Primitive::Real(Real::new(1, RealHint::EXPONENT_4));
    for new in [("IBM.N", update(&[(ASK, cents(1))])), ("IBM.N", update(&[(BID, wider)])), ("X", update(&[]))] {
        let second = recording(&[(Kind::Update, new.0, new.1)]);
        let mut table = Table::new(6, &learned, &dictionary, TableConfig::default(), false);
        let mut cursor = second.from_time(0);
        let entry = cursor.next().expect("memory").expect("a record");
        assert_eq!(table.push(&entry), Err(Surprise));
    }
}

#[test]
fn arrow_files_have_the_same_dictionary_in_all_batches() {
    let recording = recording(&[
        (Kind::Update, "IBM.N", update(&[(CURRENCY, Primitive::Enum(840))])),
        (Kind::Update, "TRI.N", update(&[(CURRENCY, Primitive::Enum(124))])),
    ]);
    let dictionary = Dictionary::builtin();
    let mut table =
        table(&recording, &dictionary, TableConfig { by_date: true, by_service: true, ..TableConfig::default() });
    let mut writer = TableWriter::new(FileForm::Arrow, Vec::new(), table.schema()).expect("begun");
    writer.write(&table.take_batch().expect("a batch")).expect("written");
    let mut cursor = recording.from_time(0);
    while let Some(entry) = cursor.next().expect("memory") {
        table.push(&entry).expect("seen");
    }
    writer.write(&table.take_batch().expect("a batch")).expect("a dictionary that is replaced would be refused");
    let bytes = writer.finish().expect("ended");
    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None).expect("Arrow");
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("rows")).collect();
    assert_eq!(batches.len(), 2);
    for batch in &batches {
        assert_eq!(some_text(batch, "CURRENCY_DISPLAY", 1).as_deref(), Some("CAD"));
        assert_eq!(some_text(batch, "item", 0).as_deref(), Some("IBM.N"));
        assert!(batch.column_by_name("date").is_none() && batch.column_by_name("service").is_none());
    }
}

/// All values of all types of fields, absent and blank, through a file: the table that is made of its messages is the same.
#[test]
fn a_table_of_what_a_table_says_is_the_same() {
    let dictionary = Dictionary::builtin();
    let field = |name: &str| dictionary.field_named(name).map(rwf::dictionary::FieldDef::fid).expect(name);
    let messages = [
        update(&[(BID, cents(12_345)), (ASK, Primitive::Blank), (NAME, Primitive::Rmtes(b"IBM"))]),
        update(&[(BID, Primitive::Real(Real::new(3, RealHint::FRACTION_256))), (CURRENCY, Primitive::Enum(840))]),
        update(&[(BID, Primitive::Real(Real::NOT_A_NUMBER)), (CURRENCY, Primitive::Blank)]),
        update(&[(ASK, Primitive::Real(Real::new(i64::MIN, RealHint::EXPONENT7)))]),
        update(&[
            (field("QUOTIM_MS"), Primitive::UInt(u64::MAX)),
            (field("TRADE_DATE"), Primitive::Date(Date::new(2026, 2, 28))),
        ]),
        update(&[(field("QUOTIM"), Primitive::Time(Time::from_nanos(86_399_999_000_000)))]),
        update(&[(-4000, Primitive::Buffer(b"\x00\xff"))]),
        update(&[]),
    ];
    let mut recorded: Vec<(Kind, &str, Vec<u8>)> = vec![(Kind::Refresh, "IBM.N", refresh())];
    recorded.extend(messages.iter().map(|message| (Kind::Update, "IBM.N", message.clone())));
    recorded.push((Kind::Status, "IBM.N", status()));
    let first = recording(&recorded);
    for config in [TableConfig::default(), TableConfig { messages: true, ..TableConfig::default() }] {
        let mut before = table(&first, &dictionary, config);
        let (folder, batch) = through_parquet(&mut before);
        assert_eq!(before.unfit(), 1);
        let file = File::open(folder.path().join("t.parquet")).expect("a file");
        let assumed = Assumed { service: "X".to_owned(), domain: 7 };
        let mut reader = TableReader::parquet(file, &dictionary, assumed).expect("a table");
        let mut journal = Journal::open(Memory::default(), JournalConfig::default(), &mut Vec::new()).expect("memory");
        let mut exact = 0;
        while let Some(row) = reader.next_row().expect("rows") {
            match row.item {
                Some(item) => {
                    let sequence = row.sequence.expect("a sequence number") as usize;
                    exact += usize::from(recorded[sequence].2 == row.body);
                    let item = journal.item(item);
                    journal.append(row.kind, Some(item), row.clocks, &row.body);
                }
                None => journal.gap(Gap::decode(&row.body).expect("a gap"), row.clocks),
            }
        }
        assert!((reader.share() - 1.0).abs() < 1e-9);
        // Images, statuses and what no column tells are exact in any case.
        assert!(if config.messages { exact == recorded.len() } else { exact >= 3 }, "{exact}");
        journal.end();
        let second = Recording::open(journal.store().clone()).expect("a recording");
        let (_folder, again) = through_parquet(&mut table(&second, &dictionary, config));
        if !config.messages {
            assert_eq!(again, batch);
        }
        assert_eq!(again.num_rows(), recorded.len() + 1);
    }
}

#[test]
fn tables_that_are_none_of_a_recording_are_refused() {
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;
    let read = |columns: Vec<(&str, ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(columns).expect("columns");
        let file = tempfile::tempfile().expect("a file");
        let mut writer =
            TableWriter::new(FileForm::Parquet, file.try_clone().expect("a file"), batch.schema()).expect("begun");
        writer.write(&batch).expect("written");
        writer.finish().expect("ended");
        let assumed = Assumed { service: "FEED".to_owned(), domain: 6 };
        let mut reader = TableReader::parquet(file, &Dictionary::builtin(), assumed).map_err(|e| e.to_string())?;
        reader.next_row().map_err(|e| e.to_string())
    };
    let time = || -> ArrayRef { Arc::new(Int64Array::from(vec![5])) };
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let error = |columns| read(columns).expect_err("refused");
    assert!(error(vec![("item", text("IBM.N"))]).starts_with("column time: there is none"));
    assert!(error(vec![("time_ns", time()), ("NO_SUCH_FIELD", time())]).contains("no field of the dictionary"));
    assert!(error(vec![("time_ns", time())]).contains("column item: there is none"));
    let of_item = |column| vec![("time_ns", time()), ("item", text("IBM.N")), column];
    assert!(error(of_item(("kind", text("x")))).contains("there is no kind \"x\""));
    assert!(error(of_item(("BID", text("1.5")))).contains("says no value of this field"));
    assert!(error(of_item(("domain", Arc::new(Int64Array::from(vec![300]))))).contains("out of range"));
    let row =
        read(of_item(("BID", Arc::new(arrow_array::Float64Array::from(vec![1.25]))))).expect("a row").expect("one");
    assert_eq!(row.item.map(|item| (item.service, item.domain)), Some(("FEED".into(), 6)));
    let expected = update(&[]);
    assert_ne!(row.body, expected);
    let Ok(Msg::Update(read)) = Msg::decode(&row.body) else { panic!("an update") };
    let list = rwf::FieldList::decode(read.body, &rwf::SetScope::NONE).expect("fields");
    let fields: Vec<_> =
        list.entries().map(|field| field.expect("a field")).map(|field| field.value(DataType::REAL)).collect();
    assert_eq!(fields, [Ok(Primitive::Real(Real::new(125, RealHint::EXPONENT_2)))]);
}

/// pandas and `DuckDB` pack with Snappy unless they are told otherwise.
#[test]
fn tables_that_are_packed_with_snappy_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snappy.parquet");
    let times = arrow_array::TimestampNanosecondArray::from(vec![START as i64, START as i64 + 1]);
    let items = arrow_array::StringArray::from(vec!["IBM.N"; 2]);
    let bids = arrow_array::Float64Array::from(vec![Some(1.25), None]);
    let columns: [(&str, arrow_array::ArrayRef); 3] = [
        ("time", std::sync::Arc::new(times)),
        ("item", std::sync::Arc::new(items)),
        ("BID", std::sync::Arc::new(bids)),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let packing = parquet::basic::Compression::SNAPPY;
    let properties = parquet::file::properties::WriterProperties::builder().set_compression(packing).build();
    let file = File::create(&path).expect("a file");
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer of Parquet");
    writer.write(&batch).expect("written");
    writer.close().expect("an end");
    let assumed = Assumed { service: "FEED".to_owned(), domain: 6 };
    let file = File::open(&path).expect("the file");
    let mut reader = TableReader::parquet(file, &Dictionary::builtin(), assumed).expect("a table");
    let mut rows = Vec::new();
    while let Some(row) = reader.next_row().expect("a row") {
        rows.push((row.time, row.item.map(|item| item.name)));
    }
    assert_eq!(rows, [(START, Some("IBM.N".into())), (START + 1, Some("IBM.N".into()))]);
}
