//! The vectors as files: where they are, how a case reads, and which form descriptions are compared in.

use rwf::container::sets::GlobalSets;
use rwf::{DataType, SetScope};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of the vectors.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("QUOTEWAY_VECTORS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"), PathBuf::from)
}

/// The case files of a folder of the vectors, by name.
///
/// Vectors are not part of the project; without them there is nothing to prove, and that must not pass unnoticed.
pub(crate) fn files(name: &str) -> Vec<PathBuf> {
    let dir = folder().join(name);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("no vectors in {}: {e}", dir.display()));
    let mut files: Vec<_> = entries.map(|e| e.expect("folder of vectors").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "jsonl"));
    files.sort();
    assert!(!files.is_empty(), "no case files in {}", dir.display());
    files
}

/// The cases of a file, one JSON object a line.
pub(crate) fn cases(file: &Path) -> Vec<Map<String, Value>> {
    let text = std::fs::read_to_string(file).expect("readable case file");
    let parse = |line| match serde_json::from_str(line) {
        Ok(Value::Object(case)) => case,
        other => panic!("{}: not a case: {other:?}", file.display()),
    };
    text.lines().map(parse).collect()
}

/// A codec case: bytes and their description.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) root: DataType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) content: Value,
    pub(crate) decode_only: bool,
    pub(crate) fid_types: FidTypes,
    pub(crate) sets: GlobalSets,
}

impl Case {
    /// # Panics
    /// If the case has members that this reader does not know: then it would not be tested.
    pub(crate) fn new(case: &Map<String, Value>) -> Self {
        const KNOWN: &[&str] = &[
            "name",
            "category",
            "major",
            "minor",
            "root",
            "source",
            "decode_only",
            "note",
            "fid_types",
            "global_field_sets",
            "global_element_sets",
            "len",
            "hex",
            "content",
            "xml",
            "fragment_buffer_size",
            "more_parts",
        ];
        let name = text(&case["name"]).to_owned();
        for member in case.keys() {
            assert!(KNOWN.contains(&member.as_str()), "{name}: unknown member {member}");
        }
        let bytes = unhex(text(&case["hex"]));
        assert_eq!(bytes.len() as u64, case["len"].as_u64().expect("len"), "{name}: len");
        Self {
            root: type_of(&case["root"]),
            bytes,
            content: case["content"].clone(),
            decode_only: case.get("decode_only").is_some_and(|v| v == true),
            fid_types: FidTypes::new(case.get("fid_types")),
            sets: global_sets(case),
            name,
        }
    }

    pub(crate) fn scope(&self) -> SetScope<'_> {
        SetScope::global(&self.sets)
    }
}

/// Types of the field ids of a case.
#[derive(Default)]
pub(crate) struct FidTypes(BTreeMap<i16, DataType>);

impl FidTypes {
    fn new(types: Option<&Value>) -> Self {
        let types = types.and_then(Value::as_object).into_iter().flatten();
        Self(types.map(|(fid, t)| (fid.parse().expect("field id"), type_of(t))).collect())
    }

    pub(crate) fn of(&self, fid: i16) -> DataType {
        *self.0.get(&fid).unwrap_or(&DataType::UNKNOWN)
    }
}

fn global_sets(case: &Map<String, Value>) -> GlobalSets {
    let mut sets = GlobalSets::new();
    let defs = |name: &str| case.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    for def in defs("global_field_sets") {
        sets.add_field_set(number(&def["id"]), &field_defs(&def["entries"]));
    }
    for def in defs("global_element_sets") {
        let entries = element_defs(&def["entries"]);
        let entries: Vec<_> = entries.iter().map(|(name, enc)| (name.as_slice(), *enc)).collect();
        sets.add_element_set(number(&def["id"]), &entries);
    }
    sets
}

/// Entries of a field set definition.
pub(crate) fn field_defs(entries: &Value) -> Vec<(i16, DataType)> {
    let entry = |e: &Value| (number(&e["fid"]), type_of(&e["enc"]));
    entries.as_array().expect("set entries").iter().map(entry).collect()
}

/// Entries of an element set definition.
pub(crate) fn element_defs(entries: &Value) -> Vec<(Vec<u8>, DataType)> {
    let entry = |e: &Value| (bytes_of(e, "name").expect("name"), type_of(&e["enc"]));
    entries.as_array().expect("set entries").iter().map(entry).collect()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// A number, written as such or as text.
pub(crate) fn number<T: TryFrom<i128>>(value: &Value) -> T {
    let wide: i128 = match value {
        Value::String(s) => s.parse().unwrap_or_else(|_| panic!("not a number: {s}")),
        Value::Number(n) => n.as_i128().unwrap_or_else(|| panic!("not an integer: {n}")),
        other => panic!("not a number: {other}"),
    };
    T::try_from(wide).unwrap_or_else(|_| panic!("out of range: {value}"))
}

pub(crate) fn type_of(value: &Value) -> DataType {
    DataType::from_name(text(value)).unwrap_or_else(|| panic!("unknown type {value}"))
}

/// The bytes of `member`, given as text or as `member_hex`.
pub(crate) fn bytes_of(node: &Value, member: &str) -> Option<Vec<u8>> {
    match (node.get(member), node.get(format!("{member}_hex"))) {
        (Some(v), _) => Some(text(v).as_bytes().to_vec()),
        (None, Some(v)) => Some(unhex(text(v))),
        (None, None) => None,
    }
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd number of hexadecimal digits");
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal")).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

/// A description without what is there for people or for encoders, and with texts as hexadecimal: what a decoder has to
/// give, no more and no less.
pub(crate) fn normal(node: &Value) -> Value {
    match node {
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(members) => {
            let mut out = Map::new();
            for (member, value) in members {
                match member.as_str() {
                    "str" | "addr_str" => {}
                    name if name.ends_with("len_form") => {}
                    "text" if members.contains_key("hex") => {}
                    "v" if members.contains_key("bits") => {}
                    "name" | "text" => {
                        out.insert(format!("{member}_hex"), hex(text(value).as_bytes()).into());
                    }
                    _ => {
                        out.insert(member.clone(), normal(value));
                    }
                }
            }
            out.into()
        }
        other => other.clone(),
    }
}
