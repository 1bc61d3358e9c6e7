//! Files of raw Marketfeed: records from FS to FS, in the order in which they came.

use super::Builder;
use marketfeed::{ConvertError, Converter, FS, Options, Record, RwfHeader, Scan, scan};
use rwf::dictionary::Dictionary;
use rwf::wire::Writer;

/// Whether a file holds records: nothing but blanks and line ends stands before the first.
pub(super) fn are_there(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&FS)
}

/// Adds every record.
pub(super) fn read(bytes: &[u8], dictionary: &Dictionary, builder: &mut Builder) {
    let mut converter = Converter::new(Options::default());
    let mut at = 0;
    loop {
        match scan(&bytes[at..]) {
            Scan::Message { start, end } => {
                let mut message = Vec::new();
                match convert(&mut converter, dictionary, &bytes[at + start..at + end], &mut message) {
                    Ok(item) => builder.add(None, Some(item), String::new(), message),
                    Err(_) => builder.file.skipped += 1,
                }
                at += end;
            }
            Scan::Partial { .. } => {
                builder.file.skipped += 1;
                break;
            }
            Scan::Nothing => break,
        }
    }
    builder.file.losses = converter.losses().clone();
}

/// Room for the header of a message, bytes.
const HEADROOM: usize = 512;
/// Fields as RWF take at most so many times the bytes that they take in a record.
const GROWTH: usize = 3;

/// Writes the RWF message of a record in place of what `out` holds; gives the item's name.
///
/// # Errors
/// The record cannot be read, or has no form in RWF.
pub(crate) fn convert(
    converter: &mut Converter,
    dictionary: &Dictionary,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<String, ConvertError> {
    let record = Record::parse(bytes)?;
    let header = RwfHeader { stream_id: 0, service_id: None, dictionary_id: 1, is_solicited: false };
    out.clear();
    out.resize(bytes.len() * GROWTH + HEADROOM, 0);
    let mut w = Writer::new(out);
    converter.to_rwf(dictionary, &record, &header, &mut w)?;
    let written = w.position();
    out.truncate(written);
    Ok(String::from_utf8_lossy(record.item).into_owned())
}
