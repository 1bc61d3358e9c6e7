//! A service by its recording: its dictionary, and whether it was up.

use record::{Error, Item, Kind, Recording, Store};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, RefreshFlags};
use rwf::rdm::dictionary::{ENUMS, FIELDS};
use rwf::rdm::directory::{Action, Part, Refresh, Service, Update};

/// The dictionary of a service at a time, nanoseconds since 1970: the newest that was whole then, or the first; `None` if none is whole.
///
/// # Errors
/// A segment cannot be read.
pub fn dictionary_at<S: Store>(recording: &Recording<S>, service: &str, at: u64) -> Result<Option<Dictionary>, Error> {
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
fn parts_of<S: Store>(
    recording: &Recording<S>,
    service: &str,
    name: &str,
    at: u64,
) -> Result<Option<Vec<Vec<u8>>>, Error> {
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

/// Whether a service was up at a time, nanoseconds since 1970; it is unless the directory said otherwise.
///
/// # Errors
/// A segment cannot be read.
pub fn is_up_at<S: Store>(recording: &Recording<S>, service: &str, at: u64) -> Result<bool, Error> {
    let item = Item { service: service.into(), domain: Domain::SOURCE.0, name: "".into() };
    let mut cursor = recording.of_item(&item, 0);
    let mut watch = ServiceWatch::new(service);
    let mut is_up = true;
    while let Some(entry) = cursor.next()?.filter(|entry| entry.record.time <= at) {
        if entry.record.kind == Kind::Directory {
            is_up = watch.receive(entry.record.body).unwrap_or(is_up);
        }
    }
    Ok(is_up)
}

/// A service in the messages of a recording's directory.
#[derive(Debug)]
pub struct ServiceWatch {
    name: String,
    id: Option<u16>,
}

impl ServiceWatch {
    /// A service whose id is not known yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), id: None }
    }

    /// Name of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the service is up, if a message says so: an RWF refresh or update of the directory.
    pub fn receive(&mut self, msg: &[u8]) -> Option<bool> {
        let services = match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => Refresh::decode(&refresh).ok()?.services,
            Ok(Msg::Update(update)) => Update::decode(&update).ok()?.services,
            _ => return None,
        };
        services.iter().filter_map(|service| self.service(service)).last()
    }

    fn service(&mut self, service: &Service) -> Option<bool> {
        if service.name() == Some(&self.name) {
            self.id = Some(service.id);
        }
        if self.id != Some(service.id) {
            return None;
        }
        if service.action == Action::Delete {
            self.id = None;
            return Some(false);
        }
        service.state.as_ref().and_then(Part::value).map(|state| state.up)
    }
}
