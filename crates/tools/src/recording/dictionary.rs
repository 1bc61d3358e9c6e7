//! The dictionary that a recording has of a service.

use record::{Error, Folder, Item, Kind, Recording};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, RefreshFlags};
use rwf::rdm::dictionary::{ENUMS, FIELDS};

/// The dictionary of a time: the newest that was whole then, or the first.
///
/// # Errors
/// A segment cannot be read.
pub(crate) fn dictionary(recording: &Recording<Folder>, service: &str, at: u64) -> Result<Option<Dictionary>, Error> {
    let mut dictionary = Dictionary::new();
    let origin = format!("the recording of {service}");
    for (name, is_fields) in [(FIELDS, true), (ENUMS, false)] {
        let Some(parts) = parts_of(recording, service, name, at)? else { return Ok(None) };
        for part in &parts {
            let Ok(Msg::Refresh(refresh)) = Msg::decode(part) else { return Ok(None) };
            let applied = if is_fields {
                dictionary.apply_fields(&origin, refresh.body)
            } else {
                dictionary.apply_enums(&origin, refresh.body)
            };
            if applied.is_err() {
                return Ok(None);
            }
        }
    }
    Ok(Some(dictionary))
}

/// The refreshes of a dictionary.
fn parts_of(recording: &Recording<Folder>, service: &str, name: &str, at: u64) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let item = Item { service: service.into(), domain: Domain::DICTIONARY.0, name: name.into() };
    let mut cursor = recording.of_item(&item, 0);
    let (mut whole, mut parts) = (None, Vec::new());
    while let Some(entry) = cursor.next()? {
        let record = entry.record;
        if record.kind != Kind::Dictionary {
            // A gap: what was begun is not whole.
            parts.clear();
            continue;
        }
        if whole.is_some() && record.time > at {
            break;
        }
        let Ok(Msg::Refresh(refresh)) = Msg::decode(record.body) else { continue };
        parts.push(record.body.to_vec());
        if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            whole = Some(std::mem::take(&mut parts));
        }
    }
    Ok(whole)
}
