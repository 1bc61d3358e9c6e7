//! Page records.

use marketfeed::page::{Layout, RecordPage};

#[test]
fn page_records_are_rows_with_edits() {
    let mut record = RecordPage::new(Layout::Rows64);
    assert!(record.apply(215, b"GBP  1.5520/30   LON  12:01").unwrap());
    assert!(record.apply(215, b"\x1b[5`1.5521/31\x1b[22`12:02").unwrap());
    assert!(!record.apply(22, b"1").unwrap() && !record.apply(315, b"x").unwrap());
    assert!(record.apply(228, b"\x1b[60`12345").is_err(), "beyond the row");
    assert!(record.apply(228, b"\x1b[3`*\x1b[2b").unwrap());
    let page = record.page();
    assert_eq!((page.row_text(0).as_str(), page.row_text(13).as_str()), ("GBP  1.5521/31   LON  12:02", "   ***"));
}
