//! Pages against what the ANSI page libraries make of the same bytes, and against themselves.

use std::collections::BTreeMap;

use marketfeed::page::{Cell, Layout, Page, RecordPage, style};
use proptest::prelude::*;
use serde_json::Value;

use crate::{cases, is_default_folder, unhex};

/// Faults of the libraries that are not copied, each with a note in the vectors.
const NOT_COPIED: [&str; 5] = ["odd/size", "random/84", "random/122", "odd/decdwl", "odd/space_in_csi"];

fn number(value: &Value) -> u16 {
    u16::try_from(value.as_u64().unwrap()).unwrap()
}

/// The plain characters of a row, without blanks at the end.
fn codes(page: &Page, row: u16) -> String {
    let text: String = page.row(row).iter().map(|cell| char::from(cell.code)).collect();
    text.trim_end_matches(' ').to_owned()
}

/// Cells that are not blank but for their character, as the vectors list them: row, column, attributes.
type Attributes = BTreeMap<(u16, u16), (u8, u8, u8, u8, u8)>;

fn attributes(page: &Page) -> Attributes {
    let mut all = Attributes::new();
    for row in 0..page.rows() {
        for (column, cell) in page.row(row).iter().enumerate() {
            if (Cell { code: b' ', ..*cell }) != Cell::BLANK {
                let key = (row + 1, column as u16 + 1);
                all.insert(key, (cell.set, cell.style, cell.fade_style, cell.colours, cell.fade_colours));
            }
        }
    }
    all
}

fn expected_attributes(runs: &Value) -> Attributes {
    let mut all = Attributes::new();
    for run in runs.as_array().unwrap() {
        let (row, column, len) = (number(&run[0]), number(&run[1]), number(&run[2]));
        let set = run[3].as_str().unwrap().as_bytes()[0];
        let byte = |at: usize| number(&run[at]) as u8;
        for column in column..column + len {
            all.insert((row, column), (set, byte(4), byte(5), byte(6), byte(7)));
        }
    }
    all
}

fn check(case: &Value) {
    let name = case["name"].as_str().unwrap();
    let mut page = Page::new(number(&case["rows"]), number(&case["cols"]));
    let mut texts: BTreeMap<u16, String> = BTreeMap::new();
    for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        page.apply(&unhex(&step["in"]));
        let changed = step.get("text").or_else(|| step.get("text_changes")).unwrap().as_object().unwrap();
        for (row, text) in changed {
            texts.insert(row.parse().unwrap(), text.as_str().unwrap().to_owned());
        }
        for row in 0..page.rows() {
            let expected = texts.get(&(row + 1)).map_or("", String::as_str);
            assert_eq!(codes(&page, row), expected, "{name} step {at} row {}", row + 1);
        }
        assert_eq!(attributes(&page), expected_attributes(&step["cells"]), "{name} step {at}");
        assert_eq!(page.cursor(), (number(&step["cursor"][0]), number(&step["cursor"][1])), "{name} step {at}");
    }
}

#[test]
fn pages_are_those_of_the_libraries() {
    let (by_hand, random) = (cases("pages/pages.jsonl"), cases("pages/random.jsonl"));
    assert!(!is_default_folder() || (by_hand.len(), random.len()) == (116, 120));
    for case in by_hand.iter().chain(&random) {
        if !NOT_COPIED.contains(&case["name"].as_str().unwrap()) {
            check(case);
        }
    }
}

#[test]
fn a_late_joiner_gets_the_page_and_its_state() {
    for case in cases("pages/pages.jsonl").iter().chain(&cases("pages/random.jsonl")) {
        let mut page = Page::new(number(&case["rows"]), number(&case["cols"]));
        for step in case["steps"].as_array().unwrap() {
            page.apply(&unhex(&step["in"]));
            let mut late = Page::new(page.rows(), page.columns());
            late.refresh(&page.image());
            assert_eq!(late, page, "{}", case["name"]);
        }
    }
}

/// Bytes that are sequences more often than random ones would be.
fn updates() -> impl Strategy<Value = Vec<u8>> {
    let fixed = prop::sample::select(vec![
        &b"\x1b7"[..],
        b"\x1b8",
        b"\x1bD",
        b"\x1bE",
        b"\x1bM",
        b"\x1bc",
        b"\x1b(0",
        b"\x1b)A",
        b"\x0e",
        b"\x0f",
        b"\n",
        b"\r",
        b"\t",
        b"\x08",
        b"text",
        b"a longer text",
        b"\x1b[?7h",
        b"\x1b[?7l",
        b"\x1b[",
        b"\xc8\xe9",
    ]);
    let last = prop::sample::select(b"HfABCDrSTLM@PJKmmmp".to_vec());
    let sequence =
        (prop::option::of(Just(b'>')), prop::collection::vec(0u8..50, 0..4), last).prop_map(|(mark, numbers, last)| {
            let numbers = numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(";");
            let mark = mark.map_or(String::new(), |mark| char::from(mark).to_string());
            format!("\x1b[{mark}{numbers}{}", char::from(last)).into_bytes()
        });
    let piece = prop_oneof![fixed.prop_map(<[u8]>::to_vec), sequence];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn images_and_changes_make_the_page(
        size in (1u16..12, 1u16..20), first in updates(), second in updates(), third in updates(),
    ) {
        let mut page = Page::new(size.0, size.1);
        page.apply(&first);
        let shown = page.clone();
        page.apply(&second);
        let mut other = Page::new(size.0, size.1);
        other.refresh(&page.image());
        prop_assert_eq!(&other, &page);
        // A saved cursor can be set anew, but not unset: only RIS does that.
        let mut slow = shown.clone();
        slow.apply(&page.changes(&shown));
        // What comes next has the same effect on all.
        page.apply(&third);
        other.apply(&third);
        prop_assert_eq!(&other, &page);
        let unsets = second.windows(2).any(|pair| pair == b"\x1bc") || second.ends_with(b"p") || second.contains(&b'p');
        if !unsets {
            slow.apply(&third);
            prop_assert_eq!(&slow, &page);
        }
    }
}

#[test]
fn fades_add_style_and_replace_colours_for_a_while() {
    let mut page = Page::new(25, 80);
    page.apply(b"\x1b[4;31m\x1b[>7;44mX");
    let cell = page.row(0)[0];
    assert_eq!(cell.shown_style(true), style::UNDERLINE | style::REVERSE);
    assert_eq!(cell.shown_style(false), style::UNDERLINE);
    assert_eq!(cell.shown_colours(true), (Some(1), Some(4)));
    assert_eq!(cell.shown_colours(false), (Some(1), None));
    page.apply(b"\x1b[2;1H\x1b(0lqk\x1b(A#");
    assert_eq!(page.row_text(1), "┌─┐£");
    assert_eq!(page.texts(), ["X", "┌─┐£"]);
}

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
