// What the fuzz targets run, and the smoke test with it: any bytes may come, and nothing may panic, hang or take memory that
// the bytes do not justify.

use marketfeed::page::{Layout, RecordPage};
use marketfeed::{FieldCache, Record, Scan, scan};
use rwf::page::{Page, PageSize};

/// Bytes as a stream of messages, and as edits of a field's value.
pub(crate) fn marketfeed(data: &[u8]) {
    let mut at = 0;
    while let Scan::Message { start, end } = scan(&data[at..]) {
        assert!(start < end, "a message has bytes");
        record(&data[at + start..at + end]);
        at += end;
    }
    record(data);
    let mut cache = FieldCache::new(200);
    for value in data.split(|byte| *byte == 0) {
        let before = cache.bytes().to_vec();
        if cache.apply(value).is_err() {
            assert_eq!(cache.bytes(), before, "a value that fails changes nothing");
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
