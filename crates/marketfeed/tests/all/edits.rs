//! Partial edits against what the library of RWF makes of them.

use marketfeed::{FieldCache, has_edit};

use crate::{cases, is_default_folder, unhex};

#[test]
fn edits_leave_what_the_library_leaves() {
    let cases = cases("marketfeed/partials.jsonl");
    assert!(!is_default_folder() || cases.len() == 24, "{} cases", cases.len());
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let mut had_one_byte = false;
        let mut cache = FieldCache::with_zeros(usize::try_from(case["capacity"].as_u64().unwrap()).unwrap());
        for step in case["steps"].as_array().unwrap() {
            let value = unhex(&step["in"]);
            // The library takes the one-byte introducer for text; other readers of Marketfeed, and we, do not.
            let has_one_byte = value.contains(&0x9B);
            assert_eq!(has_edit(&value), step["has_partial"].as_bool().unwrap() || has_one_byte, "{name}");
            let applied = cache.apply(&value);
            had_one_byte |= has_one_byte;
            if had_one_byte {
                continue;
            }
            // No data (-22) is no fault; too long and cut off are.
            assert_eq!(applied.is_err(), !matches!(step["ret"].as_i64().unwrap(), 0 | -22), "{name}: {applied:?}");
            assert_eq!(cache.bytes(), unhex(&step["cache_hex"]), "{name}");
        }
    }
}

#[test]
fn the_one_byte_introducer_is_read_too() {
    let mut cache = FieldCache::new(64);
    cache.apply(b"ABCDEFGH").unwrap();
    cache.apply(b"\x9b5`x").unwrap();
    assert_eq!(cache.bytes(), b"ABCDExGH");
    cache.apply(b"a\x9b3b").unwrap();
    assert_eq!(cache.bytes(), b"aaaaExGH");
}

/// What ETA Java 3.9.1.0 answers (`RMTESApplyToCache`), measured: capacity, then the values in turn, each with whether it is taken and what
/// the cache holds behind it.
type Measured<'a> = (usize, &'a [(&'a [u8], bool, &'a [u8])]);

const MEASURED: &[Measured<'_>] = &[
    // Over capacity: what fits is written, the length stays.
    (8, &[(b"ABCDEFGH", true, b"ABCDEFGH"), (b"123456789", false, b"12345678")]),
    (8, &[(b"ABC", true, b"ABC"), (b"\x1b[1`123456789", false, b"A12")]),
    (8, &[(b"ABC", true, b"ABC"), (b"x\x1b[100b", false, b"xBC")]),
    (8, &[(b"ABC", true, b"ABC"), (b"x\x1b[9`", false, b"xBC"), (b"\x1b[8`", true, b"xBC\0\0\0\0\0")]),
    (8, &[(b"ABCDEFG", true, b"ABCDEFG"), (b"\x1b[7`\x1bn", false, b"ABCDEFG")]),
    // Cut off, or unknown.
    (8, &[(b"ABC", true, b"ABC"), (b"x\x1b", false, b"xBC")]),
    (8, &[(b"ABC", true, b"ABC"), (b"\x1b[1`x\x1b[", false, b"AxC")]),
    (8, &[(b"ABC", true, b"ABC"), (b"x\x1b[12", false, b"xBC")]),
    (8, &[(b"ABC", true, b"ABC"), (b"x\x1b%", false, b"xBC"), (b"y\x1b%G", false, b"yBC")]),
    (8, &[(b"ABC", true, b"ABC"), (b"x\x1b[2q", false, b"xBC")]),
    // A repetition before any character, also behind a movement and an escape.
    (8, &[(b"ABC", true, b"ABC"), (b"\x1b[2b", true, b"\0\0C")]),
    (8, &[(b"ABC", true, b"ABC"), (b"\x1b[1`\x1b[3b", true, b"A\0\0\0")]),
    (8, &[(b"\x1bn\x1b[2b", true, b"\x1bn\0\0")]),
    // An escape takes the byte behind it, another escape as well.
    (8, &[(b"ABC", true, b"ABC"), (b"\x1b\x1b[1`", true, b"\x1b\x1b[1`")]),
    (8, &[(b"x\x1b%0\x1b[2b", true, b"x\x1b%0xx")]),
    // A movement alone makes the field longer; a gap has what a longer value left there.
    (8, &[(b"ABCDEFGH", true, b"ABCDEFGH"), (b"xy", true, b"xy"), (b"\x1b[4`z", true, b"xyCDz")]),
];

#[test]
fn faults_leave_what_the_library_leaves() {
    for (capacity, steps) in MEASURED {
        let mut cache = FieldCache::with_zeros(*capacity);
        for (value, is_taken, holds) in *steps {
            assert_eq!(cache.apply(value).is_ok(), *is_taken, "{}", value.escape_ascii());
            assert_eq!(cache.bytes().escape_ascii().to_string(), holds.escape_ascii().to_string());
        }
    }
}

#[test]
fn gaps_are_blanks() {
    let mut cache = FieldCache::new(8);
    cache.apply(b"\x1b[3`x").unwrap();
    assert_eq!(cache.bytes(), b"   x");
    cache.apply(b"\x1b[6`").unwrap();
    assert_eq!(cache.bytes(), b"   x  ");
    cache.apply(b"\x1b[2b").unwrap();
    assert_eq!(cache.bytes(), b"   x  ", "a repetition of nothing");
    assert!(cache.apply(b"ABCDEFGHI").is_err());
    assert_eq!(cache.bytes(), b"ABCDEF");
    cache.apply(b"x").unwrap();
    cache.apply(b"\x1b[3`y").unwrap();
    assert_eq!(cache.bytes(), b"x  y", "nothing of an older value comes back");
}

#[test]
fn the_one_byte_introducer_is_text_within_utf8_and_without_an_edit() {
    let mut cache = FieldCache::new(20);
    cache.apply(b"a\x9b3q").unwrap();
    assert_eq!(cache.bytes(), b"a\x9b3q");
    cache.apply("\x1b%0Û3b".as_bytes()).unwrap();
    assert_eq!(cache.bytes(), "\x1b%0Û3b".as_bytes());
    cache.apply("\x1b[7`Û2b".as_bytes()).unwrap();
    assert_eq!(cache.bytes(), "\x1b%0Û3bÛ2b".as_bytes());
}
