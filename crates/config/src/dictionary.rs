//! The field dictionary that the configuration names.

use std::io;

use rwf::dictionary::Dictionary;

use super::DictionaryFiles;

/// The dictionary of the configured files; `None` if there are none, which means the built-in one.
///
/// # Errors
/// A file cannot be read; the message names it and the line.
pub fn dictionary(files: &DictionaryFiles) -> io::Result<Option<Dictionary>> {
    if files.field_file.is_empty() && files.enum_file.is_empty() {
        return Ok(None);
    }
    let read = |name: &str| {
        super::read_named(name.as_ref())
            .map_err(|e| io::Error::new(e.kind(), format!("dictionary file {name} cannot be read: {e}")))
    };
    let wrong = |e: rwf::dictionary::DictionaryError| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
    let mut dictionary = Dictionary::new();
    if !files.field_file.is_empty() {
        dictionary.load_fields(&files.field_file, &read(&files.field_file)?).map_err(wrong)?;
    }
    if !files.enum_file.is_empty() {
        dictionary.load_enums(&files.enum_file, &read(&files.enum_file)?).map_err(wrong)?;
    }
    Ok(Some(dictionary))
}
