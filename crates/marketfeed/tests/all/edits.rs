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

#[test]
fn gaps_are_blanks_and_a_movement_alone_writes_nothing() {
    let mut cache = FieldCache::new(8);
    cache.apply(b"\x1b[3`x").unwrap();
    assert_eq!(cache.bytes(), b"   x");
    cache.apply(b"\x1b[200`").unwrap();
    assert_eq!(cache.bytes(), b"   x");
    assert!(
        cache.apply(b"\x1b[8`y").is_err() && cache.apply(b"ABCDEFGHI").is_err() && cache.apply(b"z\x1b[4").is_err()
    );
    assert_eq!(cache.bytes(), b"   x");
}
