//! Locks against the golden vectors, and their combination against a truth table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use permissions::lock::{AnyLock, Lock, LockError, Operator, combine, combine_bytes, eq_bytes, eq_meaning};
use proptest::prelude::*;
use serde_json::Value;

fn cases(file: &str) -> Vec<Value> {
    let folder = std::env::var_os("QUOTEWAY_VECTORS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"), PathBuf::from);
    let path = folder.join("locks").join(file);
    let text =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}; set QUOTEWAY_VECTORS", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Of other vectors nobody knows how many there are.
fn is_default_folder() -> bool {
    std::env::var_os("QUOTEWAY_VECTORS").is_none()
}

/// Bytes of hexadecimal text; one case has an odd number of digits, whose last byte was zero below.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().map(|b| char::from(b).to_digit(16).expect("a hexadecimal digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)).collect()
}

fn inputs(case: &Value) -> Vec<Vec<u8>> {
    case["in"].as_array().unwrap().iter().map(|text| unhex(text.as_str().unwrap())).collect()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

/// The lock as the vector describes it.
fn parsed(value: &Value) -> Vec<(u16, Vec<Vec<u32>>)> {
    let group = |group: &Value| group.as_array().unwrap().iter().map(number).collect();
    let list =
        |list: &Value| (number(&list["service"]) as u16, list["and"].as_array().unwrap().iter().map(group).collect());
    value.as_array().unwrap().iter().map(list).collect()
}

fn flat(lock: &Lock) -> Vec<(u16, Vec<Vec<u32>>)> {
    lock.services.iter().map(|list| (list.service, list.groups.clone())).collect()
}

fn as_sets(services: &[(u16, Vec<Vec<u32>>)]) -> Vec<(u16, BTreeSet<BTreeSet<u32>>)> {
    let set = |group: &Vec<u32>| group.iter().copied().collect();
    services.iter().map(|(service, groups)| (*service, groups.iter().map(set).collect())).collect()
}

#[test]
fn single_locks_both_ways() {
    let cases = cases("single.jsonl");
    assert!(!is_default_folder() || cases.len() == 90, "{} cases", cases.len());
    for case in &cases {
        let name = &case["name"];
        let pes: Vec<u32> = case["pes"].as_array().unwrap().iter().map(number).collect();
        let operator = match case["op"].as_str().unwrap() {
            "AND" => Operator::And,
            "OR" => Operator::Or,
            // An operator that is none cannot be said.
            _ => {
                assert_eq!(case["error"], 3, "{name}");
                continue;
            }
        };
        let lock = Lock::of(number(&case["service"]) as u16, operator, &pes);
        if let Some(code) = case.get("error") {
            assert_eq!(u64::from(lock.unwrap_err().code()), code.as_u64().unwrap(), "{name}");
            continue;
        }
        let (lock, bytes) = (lock.unwrap(), unhex(case["hex"].as_str().unwrap()));
        assert_eq!(lock.encode().unwrap(), bytes, "{name}");
        let decoded = Lock::decode(&bytes).unwrap();
        assert_eq!(flat(&decoded), parsed(&case["parsed"]), "{name}");
        assert_eq!(decoded, lock, "{name}");
        assert_eq!(case["text"].as_str().unwrap().parse::<Lock>().unwrap(), lock, "{name}");
    }
}

#[test]
fn combinations_are_those_of_the_library() {
    let cases = cases("combine.jsonl");
    assert!(!is_default_folder() || cases.len() == 189, "{} cases", cases.len());
    for case in &cases {
        let name = &case["name"];
        let inputs = inputs(case);
        let combined = combine_bytes(inputs.iter().map(Vec::as_slice)).unwrap();
        let decoded = Lock::decode(&combined).unwrap();
        if case.get("order_free").is_some() {
            assert_eq!(as_sets(&flat(&decoded)), as_sets(&parsed(&case["parsed"])), "{name}");
        } else {
            assert_eq!(combined, unhex(case["hex"].as_str().unwrap()), "{name}");
            assert_eq!(flat(&decoded), parsed(&case["parsed"]), "{name}");
        }
        for (bytes, text) in inputs.iter().zip(case["in_text"].as_array().unwrap()) {
            let read: Lock = text.as_str().unwrap().parse().unwrap();
            assert_eq!(read, Lock::decode(bytes).unwrap(), "{name}");
            assert_eq!(&read.encode().unwrap(), bytes, "{name}");
        }
    }
}

#[test]
fn edges() {
    let cases = cases("edges.jsonl");
    assert!(!is_default_folder() || cases.len() == 23, "{} cases", cases.len());
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        match case["call"].as_str().unwrap() {
            "compare" => {
                let inputs = inputs(case);
                assert_eq!(eq_bytes(&inputs[0], &inputs[1]), case["result"] == "equal", "{name}");
            }
            "get_v4" => {
                let bytes = unhex(case["hex"].as_str().unwrap());
                let text = case["text"].as_str().unwrap().as_bytes().to_vec();
                let lock = AnyLock::Text { service: number(&case["service"]) as u16, text };
                assert_eq!(AnyLock::decode(&bytes).unwrap(), lock, "{name}");
                assert_eq!(lock.encode().unwrap(), bytes, "{name}");
            }
            "combine" => {
                let inputs = inputs(case);
                let combined = combine_bytes(inputs.iter().map(Vec::as_slice));
                match (name, case.get("error").and_then(Value::as_u64)) {
                    // Versions that nobody knows: the library skips or merges them, we refuse them.
                    ("reader/8" | "reader/9" | "reader/21", _) => {
                        assert!(matches!(combined, Err(LockError::UnknownVersion { .. })), "{name}");
                    }
                    // Services that do not ascend: the library does not merge them, we sort first.
                    ("reader/22", _) => assert_eq!(combined.unwrap(), unhex("03000163a64d000362c0"), "{name}"),
                    (_, Some(code)) => assert_eq!(u64::from(combined.unwrap_err().code()), code, "{name}"),
                    (_, None) => assert_eq!(combined.unwrap(), unhex(case["hex"].as_str().unwrap()), "{name}"),
                }
            }
            other => panic!("{name}: call {other}"),
        }
    }
}

#[test]
fn meaning_is_not_the_bytes() {
    let read = |text: &str| text.parse::<Lock>().unwrap();
    assert!(eq_meaning(&read("1: 1 & 2"), &read("1: 2 & 1")));
    assert!(eq_meaning(&read("1: (1 | 2) & 1"), &read("1: 1")));
    assert!(eq_meaning(&read("2: 1; 1: 1; 2: (none)"), &read("1: 1; 2: 1")));
    assert!(!eq_meaning(&read("1: (1 | 2)"), &read("1: 1 & 2")));
    assert!(!eq_meaning(&read("1: 1"), &read("2: 1")));
}

#[test]
fn text_says_where_it_is_wrong() {
    let error = |text: &str| text.parse::<Lock>().unwrap_err().to_string();
    assert_eq!(error("257: 1 & "), "column 10: expected a PE code, 0 to 4294967295, or `(`");
    assert_eq!(error("257: 1 | 2 & 3"), "column 12: put brackets around PEs that are joined by `|`");
    assert_eq!(error("257: (1 | 2"), "column 12: expected `|` or `)`");
    assert_eq!(error("70000: 1"), "column 1: expected a service id, 0 to 65535");
    assert_eq!(error("257: 1 x"), "column 8: expected `&`, `;` or the end");
}

#[test]
fn a_lock_bigger_than_permission_data_is_refused() {
    let pes: Vec<u32> = (1_000_000_000..1_000_010_000).collect();
    let lock = Lock::of(1, Operator::And, &pes).unwrap();
    assert!(matches!(lock.encode(), Err(LockError::TooLong { len }) if len > 50_000));
    let news: Vec<u32> = (70_000..70_256).collect();
    let lock = Lock::of(1, Operator::Or, &news).unwrap();
    assert_eq!(Lock::decode(&lock.encode().unwrap()).unwrap(), lock);
}

#[test]
fn readers_take_leading_zeros_and_refuse_what_nobody_writes() {
    assert_eq!(Lock::decode(&unhex("0301010062c0")).unwrap(), Lock::of(257, Operator::Or, &[62]).unwrap());
    for (hex, code) in
        [("03000162e0", 65), ("0300014294967296c0", 65), ("030001a62c", 3), ("03000162aac0", 3), ("03", 54), ("", 54)]
    {
        assert_eq!(Lock::decode(&unhex(hex)).unwrap_err().code(), code, "{hex}");
    }
}

/// A random expression over few services and PEs, so that they meet.
fn lock() -> impl Strategy<Value = Lock> {
    let group = prop::collection::vec(0u32..6, 1..4);
    let list = (1u16..4, prop::collection::vec(group, 0..4));
    prop::collection::vec(list, 1..4).prop_map(|services| Lock {
        services: services
            .into_iter()
            .map(|(service, groups)| permissions::lock::ServiceLock { service, groups })
            .collect(),
    })
}

/// Whether rights (a bit a service, a bit a service and PE) admit to the lock.
fn admits(lock: &Lock, services: u8, pes: u32) -> bool {
    lock.admits(|s| services >> s & 1 == 1, |s, pe| pes >> (u32::from(s) * 6 + pe) & 1 == 1)
}

proptest! {
    #[test]
    fn a_combination_admits_whom_all_of_its_parts_admit(
        locks in prop::collection::vec(lock(), 1..5),
        rights in prop::collection::vec((any::<u8>(), any::<u32>(), any::<u32>()), 64),
    ) {
        let combined = combine(&locks);
        for (services, some, more) in rights {
            for pes in [some, some | more, some & more] {
                let all = locks.iter().all(|lock| admits(lock, services, pes));
                prop_assert_eq!(admits(&combined, services, pes), all, "{}", combined);
                prop_assert_eq!(admits(&combined.normal(), services, pes), all, "{}", combined.normal());
            }
        }
    }

    #[test]
    fn every_right_decides_the_same_where_the_meaning_is_equal(a in lock(), b in lock()) {
        // All rights to one service of which the groups are taken, six PEs: the whole truth table.
        let (a, b) = (Lock { services: a.services[..1].to_vec() }, Lock { services: b.services[..1].to_vec() });
        let same_service = a.services[0].service == b.services[0].service;
        let table = |lock: &Lock| -> Vec<bool> {
            let shift = u32::from(lock.services[0].service) * 6;
            (0..64).map(|pes: u32| admits(lock, 0xFF, pes << shift)).collect()
        };
        prop_assert_eq!(eq_meaning(&a, &b), same_service && table(&a) == table(&b), "{} {}", a, b);
    }

    #[test]
    fn bytes_and_text_come_back(lock in lock()) {
        prop_assert_eq!(&Lock::decode(&lock.encode().unwrap()).unwrap(), &lock);
        prop_assert_eq!(&lock.to_string().parse::<Lock>().unwrap(), &lock);
    }
}
