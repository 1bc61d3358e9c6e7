//! The service as it was recorded: whether it was up.

use record::{Error, Folder, Item, Kind, Recording};
use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::{Action, Part, Refresh, Service, Update};

/// Whether a service was up at a time; it is unless the directory said otherwise.
///
/// # Errors
/// A segment cannot be read.
pub(super) fn is_up_at(recording: &Recording<Folder>, service: &str, at: u64) -> Result<bool, Error> {
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

/// A service in the messages of a directory.
#[derive(Debug)]
pub(super) struct ServiceWatch {
    name: String,
    id: Option<u16>,
}

impl ServiceWatch {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), id: None }
    }

    /// Whether the service is up, if a message says so.
    pub(super) fn receive(&mut self, msg: &[u8]) -> Option<bool> {
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
