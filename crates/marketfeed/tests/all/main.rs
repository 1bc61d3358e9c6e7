//! Marketfeed records, edits and conversion.

mod conversion;
mod edits;
mod hostile;
mod memory;
mod opaque;
mod pages;
mod records;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rwf::dictionary::Dictionary;
use serde_json::Value;

/// A folder outside the project.
fn shared(variable: &str, folder: &str) -> PathBuf {
    std::env::var_os(variable)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder), PathBuf::from)
}

fn cases(file: &str) -> Vec<Value> {
    let path = shared("QUOTEWAY_VECTORS", "vectors").join(file);
    let text =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}; set QUOTEWAY_VECTORS", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Of other vectors nobody knows how many there are.
fn is_default_folder() -> bool {
    std::env::var_os("QUOTEWAY_VECTORS").is_none()
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("hexadecimal text");
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| {
    let folder = shared("QUOTEWAY_DICTIONARY", "dictionary");
    let read = |file: &str| {
        let path = folder.join(file);
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; set QUOTEWAY_DICTIONARY", path.display()))
    };
    let mut dictionary = Dictionary::new();
    dictionary.load_fields("RDMFieldDictionary", &read("RDMFieldDictionary")).unwrap();
    dictionary.load_enums("enumtype.def", &read("enumtype.def")).unwrap();
    dictionary
});
