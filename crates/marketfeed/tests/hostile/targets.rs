// What the fuzz targets run, and the smoke test with it: any bytes may come, and nothing may panic, hang or take memory that
// the bytes do not justify.

use marketfeed::page::{Layout, RecordPage};
use marketfeed::{ConvertError, Converter, FieldCache, Options, Record, Scan, scan};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, UpdateMsg};
use rwf::page::{Page, PageSize};
use rwf::{DataType, EncodeError};
use std::sync::LazyLock;

/// Bytes as a stream of messages, and as edits of a field's value.
pub(crate) fn marketfeed(data: &[u8]) {
    let mut at = 0;
    while let Scan::Message { start, end } = scan(&data[at..]) {
        assert!(start < end, "a message has bytes");
        record(&data[at + start..at + end]);
        at += end;
    }
    record(data);
    opaque(data);
    let mut cache = FieldCache::new(200);
    for value in data.split(|byte| *byte == 0) {
        let before = cache.bytes().len();
        if cache.apply(value).is_err() {
            assert_eq!(cache.bytes().len(), before, "a value that fails makes the field no longer");
        }
        assert!(cache.bytes().len() <= 200);
    }
}

fn record(data: &[u8]) {
    let Ok(record) = Record::parse(data) else { return };
    let fields: Vec<_> = record.fields().collect();
    assert!(fields.len() <= data.len() / 3 + 1, "a field takes three bytes");
    let mut buffer = vec![0; 2 * data.len() + 64];
    let mut w = rwf::wire::Writer::new(&mut buffer);
    let mut encoder = marketfeed::RecordEncoder::begin(&mut w, &record).expect("what was read can be written");
    for field in fields.iter().flatten() {
        encoder.field(field.fid, field.value).expect("what was read can be written");
    }
    encoder.finish().expect("there is room");
    let again = Record::parse(w.written()).expect("what was written can be read");
    let read: Vec<_> = again.fields().map(|field| field.expect("what was written can be read")).collect();
    let expected: Vec<_> = fields.into_iter().flatten().collect();
    assert_eq!(read, expected);
}

/// Bytes as the payload of a provider's message, and as a whole message, both ways.
fn opaque(data: &[u8]) {
    static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(Dictionary::builtin);
    let update = UpdateMsg { container: DataType::OPAQUE, body: data, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
    let mut buffer = vec![0; data.len() + 64];
    let mut w = rwf::wire::Writer::new(&mut buffer);
    update.encode(&mut w).expect("there is room");
    let mut converter = Converter::new(Options::default());
    let mut out = Vec::new();
    for msg in [w.written(), data] {
        let read = converter.read_opaque(&DICTIONARY, msg, &mut out);
        assert!(!matches!(read, Err(ConvertError::Encode(EncodeError::BufferFull))), "too little room: {read:?}");
        let written = converter.write_opaque(&DICTIONARY, msg, b"ITEM", &mut 0, &mut out);
        assert!(!matches!(written, Err(ConvertError::Encode(EncodeError::BufferFull))), "too little room: {written:?}");
        // A record that became RWF can become Marketfeed again.
        if read == Ok(true) {
            let back = converter.write_opaque(&DICTIONARY, &out.clone(), b"ITEM", &mut 0, &mut out);
            assert!(back.is_ok(), "{back:?}");
        }
        out.clear();
    }
}

/// Bytes as updates of an ANSI page of any size, apart by zero bytes, and as rows of a page record.
pub(crate) fn page(data: &[u8]) {
    let [rows, columns, bytes @ ..] = data else { return };
    let mut page = Page::new(PageSize::new(u16::from(*rows), u16::from(*columns)));
    let mut record = RecordPage::new(Layout::Rows64);
    for (at, update) in bytes.split(|byte| *byte == 0).enumerate() {
        page.apply(update);
        let (row, column) = page.cursor();
        assert!(row <= page.rows() && column <= page.columns(), "the cursor is on the page");
        let _ = record.apply(215 + (at % 14) as i16, update);
    }
    let mut late = Page::new(page.size());
    late.refresh(&page.image());
    assert_eq!(late, page, "a late joiner gets the page");
}
