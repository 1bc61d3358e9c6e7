//! The services of a connection, as its directory tells them.

use rwf::msg::Msg;
use rwf::rdm::directory::{self, Action, Group, Part, Service};
use rwf::rdm::state::StateBuf;
use std::collections::BTreeMap;

/// The services that a server offers.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    services: BTreeMap<u16, Service>,
}

/// What a message of the directory changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Services that can be used now and could not before.
    pub(crate) up: Vec<u16>,
    /// Services that can not be used any more, or are gone, with their names.
    pub(crate) down: Vec<(u16, String)>,
    /// Services that are gone.
    pub(crate) gone: Vec<u16>,
    /// What happens to all items of a service.
    pub(crate) statuses: Vec<(u16, StateBuf)>,
    /// What happens to groups of items.
    pub(crate) groups: Vec<(u16, Group)>,
}

impl Directory {
    pub(crate) fn get(&self, id: u16) -> Option<&Service> {
        self.services.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.services.values()
    }

    /// The service of a name.
    pub(crate) fn named(&self, name: &str) -> Option<&Service> {
        self.services.values().find(|service| service.name() == Some(name))
    }

    /// Forgets everything: the connection is gone.
    pub(crate) fn clear(&mut self) {
        self.services.clear();
    }

    /// Takes a message of the directory; `None` if it is no directory, or cannot be read.
    pub(crate) fn message(&mut self, msg: &[u8]) -> Option<Changes> {
        let mut changes = Changes::default();
        let (clear, entries) = match Msg::decode(msg).ok()? {
            Msg::Refresh(refresh) => {
                let refresh = directory::Refresh::decode(&refresh).ok()?;
                (refresh.clear_cache && refresh.service_id.is_none(), refresh.services)
            }
            Msg::Update(update) => (false, directory::Update::decode(&update).ok()?.services),
            _ => return None,
        };
        if clear {
            let stay: Vec<u16> = entries.iter().map(|entry| entry.id).collect();
            let leave: Vec<u16> = self.services.keys().copied().filter(|id| !stay.contains(id)).collect();
            for id in leave {
                self.remove(id, &mut changes);
            }
        }
        for entry in &entries {
            self.apply(entry, &mut changes);
        }
        Some(changes)
    }

    fn remove(&mut self, id: u16, changes: &mut Changes) {
        let Some(service) = self.services.remove(&id) else { return };
        changes.gone.push(id);
        changes.down.push((id, service.name().unwrap_or_default().to_owned()));
    }

    fn apply(&mut self, entry: &Service, changes: &mut Changes) {
        if entry.action == Action::Delete {
            return self.remove(entry.id, changes);
        }
        let known = self.services.entry(entry.id).or_insert_with(|| Service::new(entry.id, Action::Add));
        let before = known.is_usable() && known.name().is_some();
        known.apply(entry);
        let after = known.is_usable() && known.name().is_some();
        if let Some(status) = entry.state.as_ref().and_then(Part::value).and_then(|state| state.status.clone()) {
            changes.statuses.push((entry.id, status));
        }
        changes.groups.extend(entry.groups.iter().filter_map(Part::value).map(|group| (entry.id, group.clone())));
        match (before, after) {
            (false, true) => changes.up.push(entry.id),
            (true, false) => changes.down.push((entry.id, known.name().unwrap_or_default().to_owned())),
            _ => {}
        }
    }
}
