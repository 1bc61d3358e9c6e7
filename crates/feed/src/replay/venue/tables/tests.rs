//! Tables by mapping files: times by the calendar of their zone, quotes, trades and their conditions, and what is said of a mapping that cannot be meant.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

/// A folder with a mapping file and what it maps.
fn folder(map: &str, files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("a file");
    }
    let path = folder.path().join("ticks.toml");
    std::fs::write(&path, map).expect("a file");
    (folder, path)
}

/// All that the tables tell, in order, and what was wrong.
fn read(path: &Path) -> (Vec<Tick>, Option<String>, Option<String>) {
    let mut tables = Tables::open(path).expect("tables");
    let mut ticks = Vec::new();
    while let Some(at) = tables.first() {
        ticks.extend(tables.lanes[at].next.take());
        tables.lanes[at].fill();
    }
    (ticks, tables.remarks(), tables.unread())
}

fn level(price: i64, size: u64) -> Level {
    Level { price: price * 1_000_000_000 / 10_000, size: size * 100_000_000, orders: 0 }
}

fn map(rest: &str) -> String {
    format!("[[table]]\nfiles = [\"ticks.csv\"]\n{rest}")
}

#[test]
fn times_of_a_zone_are_those_of_its_calendar_in_the_year_in_question() {
    let text = "symbol,at,last\n\
        A,2006-04-01 09:30:00,1\nA,2006-04-03 09:30:00,1\nA,2013-03-08 09:30:00,1\nA,2013-03-11 09:30:00.25,1\n\
        A,2013-11-03 00:59:59,1\nA,2013-11-03 01:30:00,1\nA,2013-11-03 01:59:00,1\nA,2013-11-03 01:00:10,1\n\
        A,2013-11-03 01:59:50,1\nA,2013-11-03 01:05:00,1\nA,2013-11-03 01:04:59,1\nA,2013-11-03 01:55:00,1\nA,2013-11-03 02:10:00,1\nA,2013-11-04 09:30:00,1\n";
    let rest = "time_zone = \"America/New_York\"\ncolumns = { symbol = \"symbol\", time = \"at\", price = \"last\" }";
    let (_folder, path) = folder(&map(rest), &[("ticks.csv", text.as_bytes())]);
    let (ticks, remarks, unread) = read(&path);
    let of = |text: &str| {
        let zoned: jiff::Timestamp = text.parse().expect("a time");
        u64::try_from(zoned.as_nanosecond()).expect("since 1970")
    };
    let expected = [
        // Summer time began on 2 April in 2006, on 10 March in 2013.
        "2006-04-01T14:30:00Z",
        "2006-04-03T13:30:00Z",
        "2013-03-08T14:30:00Z",
        "2013-03-11T13:30:00.25Z",
        "2013-11-03T04:59:59Z",
        "2013-11-03T05:30:00Z",
        "2013-11-03T05:59:00Z",
        // The hour comes twice, and rows do not go back.
        "2013-11-03T06:00:10Z",
        // A late row of the first hour.
        "2013-11-03T05:59:50Z",
        "2013-11-03T06:05:00Z",
        // A late row, and one that would go back by less than half an hour if it were of the first hour.
        "2013-11-03T06:04:59Z",
        "2013-11-03T06:55:00Z",
        "2013-11-03T07:10:00Z",
        "2013-11-04T14:30:00Z",
    ];
    assert_eq!(ticks.iter().map(|tick| tick.at).collect::<Vec<_>>(), expected.map(of));
    assert_eq!((remarks, unread), (Some("rows that are earlier than the one before: 2".to_string()), None));
}

#[test]
fn numbers_and_texts_of_times_are_read_as_they_are_written() {
    let tables = |rest: &str, text: &str| {
        let (_folder, path) = folder(&map(rest), &[("ticks.csv", text.as_bytes())]);
        read(&path).0.iter().map(|tick| tick.at).collect::<Vec<_>>()
    };
    let plain = "header = false\ncolumns = { symbol = 1, time = 2, price = 3 }";
    let of_unit = |unit: &str, time: &str| tables(&format!("time_unit = \"{unit}\"\n{plain}"), &format!("A,{time},1"));
    let second = 1_700_000_000_000_000_000;
    assert_eq!(of_unit("ns", "1700000000123456789"), [second + 123_456_789]);
    assert_eq!(of_unit("us", "1700000000123456"), [second + 123_456_000]);
    assert_eq!(of_unit("ms", "1700000000123.5"), [second + 123_500_000]);
    assert_eq!(of_unit("s", "1700000000.123456789"), [second + 123_456_789]);
    assert_eq!(of_unit("s", "-1"), [0; 0]);
    for (text, nanos) in [
        ("2023-11-14T22:13:20Z", 0),
        ("2023-11-14 22:13:20", 0),
        ("2023-11-15T00:13:20.5+02:00", 500_000_000),
        ("2023/11/14 17:13:20-0500", 0),
    ] {
        assert_eq!(tables(plain, &format!("A,{text},1")), [second + nanos], "{text}");
    }
    for wrong in [
        "",
        "x",
        "2023-11-14",
        "2023-13-14 22:13:20",
        "2023-11-14 25:13:20",
        "2023-11-14T22:13:20+x",
        "2023-11-14 1:2:3",
    ] {
        assert_eq!(tables(plain, &format!("A,{wrong},1")), [0; 0], "{wrong}");
    }
}

/// As the ticks of American shares that are about: without a heading, one side a row, ten-thousandths, milliseconds of the day in New York.
const SHARES: &str = "[[table]]\nfiles = [\"ibm_20131007_quote.csv\"]\nsymbol = \"IBM\"\nheader = false\ntime_zone = \"America/New_York\"\n\
    time_unit = \"ms\"\ntime_of_day = true\nprice_decimals = 4\nsize_decimals = 0\nzero = \"untold\"\n\
    columns = { time = 1, bid = 2, bid_size = 3, ask = 4, ask_size = 5 }\n\
    [[table]]\nfiles = [\"ibm_20131007_trade.csv\"]\nsymbol = \"IBM\"\nheader = false\ntime_zone = \"America/New_York\"\n\
    time_unit = \"ms\"\ntime_of_day = true\nprice_decimals = 4\nsize_decimals = 0\ncondition_bits = true\n\
    volume_alone = [\"0x200\", \"0x400\", \"0x800\", \"0x2000\", \"0x4000\", \"0x100000\", \"0x2000000\", \"0x80000000\"]\n\
    nothing = [\"0x1000000\", \"0x4000000\"]\n\
    columns = { time = 1, price = 2, size = 3, condition = 5 }\n";

#[test]
fn quotes_and_trades_of_two_files_are_merged_by_their_times() {
    let quotes = "34200000,0,0,1818000,2,P,1,0\n34200000,1817000,5,0,0,P,1,0\n34200007,0,0,1817500,3,N,1,0";
    let trades = "34200000,1817500,100,P,20000001,0\n34200005,1815000,50,P,2000,0\n34200006,1817500,100,P,1000000,0\n";
    let files: [(&str, &[u8]); 2] =
        [("ibm_20131007_quote.csv", quotes.as_bytes()), ("ibm_20131007_trade.csv", trades.as_bytes())];
    let (_folder, path) = folder(SHARES, &files);
    let (ticks, remarks, unread) = read(&path);
    // Half past nine in New York in October.
    let begin = 1_381_152_600_000_000_000;
    let told: Vec<_> = ticks
        .iter()
        .map(|tick| ((tick.at - begin) / 1_000_000, tick.sides, tick.trade.map(|t| (t.price, t.is_eligible))))
        .collect();
    let price = |price: i64| price * 1_000_000_000 / 10_000;
    let expected = [
        (0, [None, Some(Some(level(1_818_000, 2)))], None),
        (0, [Some(Some(level(1_817_000, 5))), None], None),
        (0, [None, None], Some((price(1_817_500), true))),
        (5, [None, None], Some((price(1_815_000), false))),
        (7, [None, Some(Some(level(1_817_500, 3)))], None),
    ];
    assert_eq!((&told[..], remarks, unread), (&expected[..], None, None));
    // As items: the two rows of one time are one quote, and the official price is no trade.
    let mut replay = super::super::tests::open_tables(&path);
    assert_eq!(replay.names().collect::<Vec<_>>(), ["IBM"]);
    let (quotes, trades) = super::super::tests::prices(&mut replay, "IBM", PRICE_DECIMALS);
    let [bid, ask, better] = [1_817_000, 1_818_000, 1_817_500].map(price);
    assert_eq!(quotes.last(), Some(&[Some(bid), Some(better)]));
    assert!(quotes.contains(&[Some(bid), Some(ask)]) && !quotes.contains(&[None, Some(ask)]));
    assert_eq!(trades, [price(1_817_500)], "a trade that counts for the volume alone is no last price");
}

#[test]
fn parquet_is_read_with_its_own_units_of_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let schema = "message ticks { optional binary sym (UTF8); required int64 at (TIMESTAMP(MICROS,true)); required double bid; required double ask; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = std::fs::File::create(folder.path().join("ticks.parquet")).expect("a file");
    let properties = Arc::new(
        WriterProperties::builder().set_compression(Compression::ZSTD(parquet::basic::ZstdLevel::default())).build(),
    );
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    let mut column = group.next_column().expect("a column").expect("a column");
    column.typed::<ByteArrayType>().write_batch(&["A".into(), "A".into()], Some(&[1, 0, 1]), None).expect("written");
    column.close().expect("written");
    let mut column = group.next_column().expect("a column").expect("a column");
    column
        .typed::<Int64Type>()
        .write_batch(&[1_700_000_000_000_001, 1_700_000_000_000_007, 1_700_000_001_000_000], None, None)
        .expect("written");
    column.close().expect("written");
    for values in [[1.1, 2.0, 1.2], [1.3, 2.0, 0.0]] {
        let mut column = group.next_column().expect("a column").expect("a column");
        column.typed::<DoubleType>().write_batch(&values, None, None).expect("written");
        column.close().expect("written");
    }
    group.close().expect("written");
    writer.close().expect("written");
    let path = folder.path().join("map.toml");
    let text = "[[table]]\nfiles = [\"ticks.parquet\"]\ncolumns = { symbol = \"sym\", time = \"at\", bid = \"bid\", ask = \"ask\" }\n";
    std::fs::write(&path, text).expect("a file");
    let (ticks, remarks, unread) = read(&path);
    let some = |price: i64| Some(Level { price, size: 0, orders: 0 });
    let told: Vec<_> = ticks.iter().map(|tick| (tick.at, tick.sides)).collect();
    assert_eq!(
        told,
        [
            (1_700_000_000_000_001_000, [Some(some(1_100_000_000)), Some(some(1_300_000_000))]),
            (1_700_000_001_000_000_000, [Some(some(1_200_000_000)), Some(None)]),
        ]
    );
    assert_eq!((remarks.as_deref(), unread), (Some("rows without a symbol: 1"), None));
}

#[test]
fn fields_in_quotes_and_rows_that_cannot_be_read_are_told() {
    let text = "\u{FEFF}time;\"the \"\"symbol\"\"\";bid\r\n\
        2023-11-14 22:13:20;\"A;B\";1.5\r\n\r\n\
        2023-11-14 22:13:21;\"C\nD\";-2.25\r\nx;A;1\r\n2023-11-14 22:13:19;A;\r\n2023-11-14 22:13:19;A;3\r\n2023-11-14 22:13:22;A;1.12345678901\r\n";
    let rest = "delimiter = \";\"\ncolumns = { time = \"time\", symbol = 'the \"symbol\"', bid = \"bid\" }";
    let (_folder, path) = folder(&map(rest), &[("ticks.csv", text.as_bytes())]);
    let (ticks, remarks, _) = read(&path);
    let told: Vec<_> =
        ticks.iter().map(|tick| (tick.symbol.as_str(), tick.sides[0].flatten().map(|level| level.price))).collect();
    assert_eq!(told, [("A;B", Some(1_500_000_000)), ("C\nD", Some(-2_250_000_000)), ("A", Some(3_000_000_000))]);
    let remarks = remarks.expect("remarks");
    for kind in ["time cannot be read: 1", "price or size that is none: 1", "earlier than the one before: 2"] {
        assert!(remarks.contains(kind), "{remarks}");
    }
}

#[test]
fn a_mapping_that_cannot_be_meant_is_refused_with_its_place() {
    let columns = "columns = { symbol = \"symbol\", time = \"at\", price = \"last\" }";
    for (text, why) in [
        (String::new(), "no [[table]]"),
        ("[[table]]\nfile = 1".to_owned(), "file"),
        (map("symbol = \"A\"\ncolumns = { time = 1 }"), "the table tells nothing"),
        (map(&format!("symbol = \"A\"\n{columns}")), "either the symbol"),
        (map(&format!("time_zone = \"Mars/Olympus\"\n{columns}")), "no zone of the tz database"),
        (map(&format!("header = false\n{columns}")), "by their place"),
        (map("columns = { symbol = 0, time = 1, price = 2 }"), "count from 1"),
        (map(&format!("price_decimals = 12\n{columns}")), "at most 9"),
        (map(&format!("time_of_day = true\n{columns}")), "the day is wanted"),
        (map(&format!("date = \"yesterday\"\n{columns}")), "2013-10-07"),
        (map(&format!("condition_bits = true\nnothing = [\"late\"]\n{columns}")), "hexadecimal"),
        (
            map("columns = { symbol = \"symbol\", time = \"when\", price = \"last\" }"),
            "there is no column when, but symbol, at, last",
        ),
        ("[[table]]\nfiles = [\"other.csv\"]\ncolumns = { symbol = 1, time = 2, price = 3 }".to_owned(), "other.csv"),
    ] {
        let (_folder, path) = folder(&text, &[("ticks.csv", b"symbol,at,last\n")]);
        let told = Tables::open(&path).map(drop).expect_err("a mapping that cannot be meant").to_string();
        assert!(told.contains(why), "{told} / {why}");
    }
}

/// The recorded trades and quotes of a share, held against the replay that reads them by itself.
#[test]
fn recorded_ticks_of_a_share_make_the_day_that_their_own_replay_makes() {
    let data = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let data = data.join("us-equity-ticks");
    let Ok(data) = data.canonicalize() else {
        println!("no recording {}: set QUOTEWAY_DATA to test with it", data.display());
        return;
    };
    let text = SHARES.replace("ibm_20131007_quote.csv", &data.join("ibm_20131007_quote.zip").to_string_lossy());
    let text = text.replace("ibm_20131007_trade.csv", &data.join("ibm_20131007_trade.zip").to_string_lossy());
    let (_folder, path) = folder(&text, &[]);
    let (ticks, remarks, unread) = read(&path);
    assert_eq!((remarks, unread), (None, None));
    let file = |table| crate::replay::ticks::TickFile {
        path: data.join(if table == crate::replay::ticks::Table::Quotes {
            "ibm_20131007_quote.zip"
        } else {
            "ibm_20131007_trade.zip"
        }),
        symbol: "IBM".to_owned(),
        date: "20131007".to_owned(),
        table,
    };
    use crate::replay::ticks::{Counts, Table as Kind, What};
    let (mut volume, mut eligible, mut quotes) = (0, 0, 0);
    for kind in [Kind::Quotes, Kind::Trades] {
        let mut rows = file(kind).rows().expect("rows");
        while let Some(tick) = rows.next_row().expect("a row") {
            match tick.what {
                What::Bid { .. } | What::Ask { .. } => quotes += 1,
                What::Trade { size, counts, .. } if matches!(counts, Counts::All | Counts::Volume) => {
                    volume += u64::from(size);
                    eligible += usize::from(counts == Counts::All);
                }
                What::Trade { .. } => {}
            }
        }
    }
    let trades = || ticks.iter().filter_map(|tick| tick.trade);
    assert_eq!(trades().map(|trade| trade.size / 100_000_000).sum::<u64>(), volume);
    assert_eq!(trades().filter(|trade| trade.is_eligible).count(), eligible);
    // One row that its recorder marks as suspicious is told here.
    let told = ticks.iter().filter(|tick| tick.trade.is_none()).count();
    assert!(told == quotes || told == quotes + 1, "{told} and {quotes}");
    assert!(ticks.windows(2).all(|pair| pair[0].at <= pair[1].at));
}
