//! Pages against what the ANSI page libraries make of the same bytes, and against themselves.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rwf::page::{Cell, Page, PageSize, style};
use serde_json::Value;

use crate::golden::case;

/// The cases of a file of pages.
fn cases(file: &str) -> Vec<Value> {
    case::cases(&case::folder().join("pages").join(file)).into_iter().map(Value::Object).collect()
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("hexadecimal text");
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// The empty page of a case.
fn empty(case: &Value) -> Page {
    Page::new(PageSize::new(number(&case["rows"]), number(&case["cols"])))
}

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

/// The final bytes of the control sequences in an update, each with its first number, and whether `>` or a byte between numbers and
/// final byte stands in it; `ESC M` is as `M` without number.
struct Sequence {
    last: u8,
    number: u16,
    is_private: bool,
    has_intermediate: bool,
}

fn sequences(update: &[u8]) -> Vec<Sequence> {
    let mut found = Vec::new();
    let mut rest = update;
    while let Some(at) = rest.iter().position(|byte| *byte == 0x1B) {
        rest = &rest[at + 1..];
        let Some(body) = rest.strip_prefix(b"[") else {
            let scrolls = rest.first() == Some(&b'M');
            found.extend(scrolls.then_some(Sequence {
                last: b'T',
                number: 1,
                is_private: false,
                has_intermediate: false,
            }));
            continue;
        };
        let end = body.iter().position(|byte| (0x40..0x7F).contains(byte)).unwrap_or(body.len());
        let digits = body.iter().skip_while(|byte| !byte.is_ascii_digit()).take_while(|byte| byte.is_ascii_digit());
        found.push(Sequence {
            last: body.get(end).copied().unwrap_or(0),
            number: digits
                .fold(0u16, |number, digit| number.saturating_mul(10).saturating_add(u16::from(digit - b'0'))),
            is_private: body.first() == Some(&b'>'),
            has_intermediate: body[..end].iter().any(|byte| (0x20..0x30).contains(byte)),
        });
    }
    found
}

/// Where a page is not what the libraries made of it: row and column, and what they show there.
struct Difference {
    row: u16,
    column: usize,
    theirs: char,
}

/// The fault of the libraries that explains the differences after an update; those faults are not copied.
fn fault(update: &[u8], text: &[Difference], cells: bool) -> Option<&'static str> {
    let all = sequences(update);
    let any = |is: &dyn Fn(&Sequence) -> bool| all.iter().any(is);
    let one_row = text.first().is_some_and(|first| text.iter().all(|other| other.row == first.row));
    if any(&|s| s.has_intermediate) {
        return Some("a sequence is ended at a byte that is not its last");
    }
    if any(&|s| s.is_private && s.last == b'Z') && text.is_empty() && cells {
        return Some("the size of characters gets into their style");
    }
    if any(&|s| matches!(s.last, b'T' | b'L')) && one_row && text.iter().all(|other| other.column == 0) {
        return Some("scrolling down writes below the region");
    }
    if any(&|s| s.last == b'P' && s.number > 1) && one_row && text.iter().all(|other| other.theirs == ' ') {
        return Some("deleting more than there is clears what stands before");
    }
    None
}

/// Checks a case; gives the fault of the libraries where they and we part, behind which it says nothing more.
fn check(case: &Value) -> Option<&'static str> {
    let name = case["name"].as_str().unwrap();
    let mut page = empty(case);
    let mut texts: BTreeMap<u16, String> = BTreeMap::new();
    for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let update = unhex(&step["in"]);
        page.apply(&update);
        let changed = step.get("text").or_else(|| step.get("text_changes")).unwrap().as_object().unwrap();
        for (row, text) in changed {
            texts.insert(row.parse().unwrap(), text.as_str().unwrap().to_owned());
        }
        let mut different = Vec::new();
        for row in 0..page.rows() {
            let (ours, theirs) = (codes(&page, row), texts.get(&(row + 1)).map_or("", String::as_str));
            let padded = |text: &str| text.chars().chain(std::iter::repeat(' ')).take(512).collect::<Vec<_>>();
            let pairs = padded(&ours).into_iter().zip(padded(theirs)).enumerate();
            different.extend(
                pairs.filter(|(_, (ours, theirs))| ours != theirs).map(|(column, (_, theirs))| Difference {
                    row,
                    column,
                    theirs,
                }),
            );
        }
        let (ours, theirs) = (attributes(&page), expected_attributes(&step["cells"]));
        if !different.is_empty() || ours != theirs {
            let known = fault(&update, &different, ours != theirs);
            let place = different.first().map(|first| (first.row + 1, first.column + 1, first.theirs));
            assert!(known.is_some(), "{name} step {at}: {place:?} of the text, {ours:?} instead of {theirs:?}");
            return known;
        }
        assert_eq!(page.cursor(), (number(&step["cursor"][0]), number(&step["cursor"][1])), "{name} step {at}");
    }
    None
}

#[test]
fn pages_are_those_of_the_libraries() {
    let (by_hand, random) = (cases("pages.jsonl"), cases("random.jsonl"));
    let faults: Vec<&str> = by_hand.iter().chain(&random).filter_map(check).collect();
    if std::env::var_os("QUOTEWAY_VECTORS").is_none() {
        assert_eq!((by_hand.len(), random.len()), (116, 120));
        assert_eq!(faults.len(), 4, "{faults:?}");
    }
}

/// What explains a difference does not explain any other.
#[test]
fn a_difference_without_a_fault_of_theirs_is_ours() {
    let at = |row, column, theirs| Difference { row, column, theirs };
    assert!(
        fault(b"\x1b[5Ttext", &[at(3, 1, 'x')], false).is_none() && fault(b"text", &[at(3, 0, 'x')], false).is_none()
    );
    assert!(
        fault(b"\x1b[9P", &[at(3, 1, ' '), at(4, 1, ' ')], false).is_none() && fault(b"\x1b[9P", &[], true).is_none()
    );
    assert!(fault(b"\x1b[>3Z", &[at(0, 0, 'x')], true).is_none() && fault(b"\x1b[3Z", &[], true).is_none());
    assert!(fault(b"\x1b[5 q", &[at(0, 0, 'q')], false).is_some());
}

#[test]
fn a_late_joiner_gets_the_page_and_its_state() {
    for case in cases("pages.jsonl").iter().chain(&cases("random.jsonl")) {
        let mut page = empty(case);
        for step in case["steps"].as_array().unwrap() {
            page.apply(&unhex(&step["in"]));
            let mut late = Page::new(page.size());
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
        let size = PageSize::new(size.0, size.1);
        let mut page = Page::new(size);
        page.apply(&first);
        let shown = page.clone();
        page.apply(&second);
        let mut other = Page::new(size);
        other.refresh(&page.image());
        prop_assert_eq!(&other, &page);
        // A saved cursor can be set anew, but not unset: only RIS does that.
        let mut slow = shown.clone();
        slow.apply(&page.changes(&shown));
        // Further bytes have the same effect on all.
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
fn a_size_is_rows_and_columns() {
    assert_eq!("14x64".parse(), Ok(PageSize::new(14, 64)));
    assert_eq!(PageSize::default().to_string(), "25x80");
    for wrong in ["", "25", "0x80", "25x256", "25x80x2", "25 x 80"] {
        assert!(wrong.parse::<PageSize>().is_err(), "{wrong}");
    }
    assert_eq!(PageSize::new(0, 1000), PageSize::new(1, 255));
}

#[test]
fn fades_add_style_and_replace_colours_for_a_while() {
    let mut page = Page::new(PageSize::default());
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
