//! Every vector decodes to its description and encodes to its exact bytes.

mod build;
pub(crate) mod case;
mod describe;
mod transcode;

use case::{Case, hex, normal};
use rwf::msg::Msg;
use rwf::wire::Writer;
use std::path::Path;

/// Runs `check` on each codec case of a file; gives how many there were.
fn each_case(file: &Path, check: impl Fn(&serde_json::Map<String, serde_json::Value>, &Case)) -> usize {
    let cases = case::cases(file);
    for raw in &cases {
        check(raw, &Case::new(raw));
    }
    cases.len()
}

/// A line for whoever runs the tests with their output shown.
#[allow(clippy::disallowed_macros)]
fn report(line: &str) {
    println!("{line}");
}

fn is_rmtes(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem == "rmtes")
}

fn check_all(check: impl Fn(&serde_json::Map<String, serde_json::Value>, &Case)) {
    let mut total = 0;
    for folder in ["rwf", "rdm"] {
        for file in case::files(folder) {
            if is_rmtes(&file) {
                continue;
            }
            let count = each_case(&file, &check);
            report(&format!("{count:5} {}", file.display()));
            total += count;
        }
    }
    // Other vectors may be given, and fewer.
    assert!(total > 1000 || std::env::var_os("QUOTEWAY_VECTORS").is_some(), "only {total} cases");
}

#[test]
fn vectors_decode_to_their_description() {
    check_all(|_, case| {
        let decoded = describe::describe(case.root, &case.bytes, &case.scope(), &case.fid_types);
        let decoded = decoded.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(decoded, normal(&case.content), "{}: {}", case.name, hex(&case.bytes));
    });
}

#[test]
fn descriptions_encode_to_their_vector() {
    check_all(|raw, case| {
        if !case.decode_only {
            let built = build::built(&case.content, &build::Scope::new(raw));
            assert_eq!(hex(&built), hex(&case.bytes), "{}", case.name);
        }
    });
}

/// True if a length inside is written in a longer form than needed. That of key attributes is known after decoding, the
/// others are not.
fn has_long_forms(node: &serde_json::Value) -> bool {
    let long = |(member, value): (&String, &serde_json::Value)| {
        (member.ends_with("len_form") && member != "attrib_len_form") || has_long_forms(value)
    };
    match node {
        serde_json::Value::Array(items) => items.iter().any(has_long_forms),
        serde_json::Value::Object(members) => members.iter().any(long),
        _ => false,
    }
}

#[test]
fn decoded_structs_encode_to_their_vector() {
    check_all(|_, case| {
        if case.decode_only {
            return;
        }
        let again = transcode::transcoded(case.root, &case.bytes, &case.scope(), &case.fid_types);
        if has_long_forms(&case.content) {
            // Shorter, but the same content.
            let decoded = describe::describe(case.root, &again, &case.scope(), &case.fid_types);
            assert_eq!(decoded, Ok(normal(&case.content)), "{}", case.name);
            assert!(again.len() < case.bytes.len(), "{}", case.name);
        } else {
            assert_eq!(hex(&again), hex(&case.bytes), "{}", case.name);
        }
    });
}

#[test]
fn decoded_messages_encode_to_their_vector() {
    check_all(|_, case| {
        if case.root != rwf::DataType::MSG || case.decode_only {
            return;
        }
        let msg = Msg::decode(&case.bytes).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let mut buf = vec![0; case.bytes.len()];
        let mut w = Writer::new(&mut buf);
        msg.encode(&mut w).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(hex(w.written()), hex(&case.bytes), "{}", case.name);
    });
}

#[test]
fn rmtes_vectors_convert_to_their_text() {
    use case::{hex, text, unhex};
    let mut files = case::files("rwf");
    files.retain(|file| is_rmtes(file));
    assert_eq!(files.len(), 1, "the RMTES cases");
    for case in case::cases(&files[0]) {
        let name = text(&case["name"]);
        match text(&case["category"]) {
            "rmtes.decode" => {
                let data = unhex(text(&case["hex"]));
                assert_eq!(rwf::rmtes::is_partial(&data), case["has_partial"] == true, "{name}");
                let decoded = rwf::rmtes::decode(&data).map(|t| hex(t.as_bytes()));
                // 16 is ETA's "no data", its answer to an empty value.
                match case["ret"].as_i64() {
                    Some(0 | 16) => assert_eq!(decoded.as_deref(), Ok(text(&case["utf8_hex"])), "{name}"),
                    _ => assert!(decoded.is_err(), "{name}: {decoded:?}"),
                }
            }
            "rmtes.cache" => {
                let mut cache = rwf::rmtes::RmtesCache::new();
                for step in case["steps"].as_array().expect("steps") {
                    let applied = cache.apply(&unhex(text(&step["apply_hex"])));
                    assert_eq!(applied.is_ok(), step["ret"] == 0, "{name}");
                    assert_eq!(hex(cache.bytes()), text(&step["cache_hex"]), "{name}");
                    assert_eq!(hex(cache.text().as_bytes()), text(&step["cache_utf8_hex"]), "{name}");
                }
            }
            other => panic!("{name}: unknown category {other}"),
        }
    }
}
