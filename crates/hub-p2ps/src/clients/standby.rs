//! Warm standby: a client holds connections to several servers, and says to each whether that one serves it or stands by, for all
//! services (`ConsumerConnectionStatus` on the login stream) or for some (`ConsumerStatus` on a directory stream; RDM usage guide, warm
//! standby).
//!
//! From a standby a client gets first images and states, as one that has paused everything does; but its items do not rest at their
//! providers. Who makes its standby the active one gets an image of each item, which answers no request, and updates from there on: what
//! it has missed since its other server fell silent is in that image.

use super::Clients;
use super::batch::Sweep;
use crate::P2ps;
use crate::ids::{ClientId, ItemId, ServiceId, StreamId};
use crate::items::watchers::Watcher;
use rustc_hash::FxHashMap;
use rwf::msg::{Domain, GenericMsg};
use rwf::rdm::directory::{Action, ConsumerStatus};
use rwf::rdm::login::ConnectionStatus;
use std::collections::BTreeMap;

/// `SupportStandbyMode`: for all services, and by service (ETA `Login.SupportStandbyModes`).
pub(super) const SUPPORTED: u64 = 1 | 2;
/// `WarmStandbyMode` of a server that stands by.
const STANDBY: u64 = 1;

/// The role of a server for a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Standby {
    /// The server stands by in the services of which nothing else was said.
    everywhere: bool,
    /// Whether it stands by, for the services of which the client has said something.
    services: BTreeMap<ServiceId, bool>,
}

impl Standby {
    /// True if a server stands by in a service.
    pub(crate) fn is_for(&self, service: ServiceId) -> bool {
        self.services.get(&service).copied().unwrap_or(self.everywhere)
    }

    /// What an operator is shown.
    pub(crate) fn shown(&self) -> &'static str {
        let standing_by = self.services.values().filter(|&&stands_by| stands_by).count();
        match (self.services.len(), standing_by) {
            (0, _) if self.everywhere => "standby",
            (_, 0) => "active",
            (all, count) if all == count => "standby",
            _ => "active and standby, by service",
        }
    }
}

/// The role of this server for the clients that have said so; to the others it is the only one.
pub(crate) type Standbys = FxHashMap<ClientId, Standby>;

impl Clients {
    /// True if this server stands by for a client in a service.
    pub(super) fn stands_by(&self, client: ClientId, service: ServiceId) -> bool {
        !self.standbys.is_empty() && self.standbys.get(&client).is_some_and(|standby| standby.is_for(service))
    }
}

impl P2ps {
    /// A generic message of a client that says what this server is to it; false if it says something else.
    pub(super) fn standby_changes(&mut self, client: ClientId, generic: &GenericMsg<'_>) -> bool {
        if !self.config.support_warm_standby {
            return false;
        }
        let stream = StreamId(generic.stream_id);
        // A client that is gone says nothing.
        let Some(known) = self.clients.get(client) else { return false };
        let on_login = known.login.as_ref().is_some_and(|login| login.stream == stream);
        let mut standby = self.clients.standbys.get(&client).cloned().unwrap_or_default();
        // A message that cannot be read says nothing: the client is not to be closed for it.
        if on_login && generic.domain == Domain::LOGIN {
            let Ok(Some(ConnectionStatus { warm_standby: Some(info), .. })) = ConnectionStatus::decode(generic) else {
                return false;
            };
            standby = Standby { everywhere: info.mode == STANDBY, services: BTreeMap::new() };
        } else if known.directories.iter().any(|directory| directory.stream == stream) {
            let Ok(Some(status)) = ConsumerStatus::decode(generic) else { return false };
            for service in status.services {
                let id = ServiceId(service.service_id);
                match service.warm_standby {
                    _ if self.sources.services().get(id).is_none() => {}
                    _ if service.action == Action::Delete => drop(standby.services.remove(&id)),
                    Some(mode) => drop(standby.services.insert(id, mode == STANDBY)),
                    None => {}
                }
            }
        } else {
            return false;
        }
        self.assume(client, &standby);
        true
    }

    /// This server is to a client what it has just been told.
    fn assume(&mut self, client: ClientId, standby: &Standby) {
        if self.clients.standbys.insert(client, standby.clone()).is_some_and(|before| before == *standby) {
            return;
        }
        self.counters.standby_changes += 1;
        self.sweep(client, Sweep::StandBy);
    }

    /// A watcher is served, or stood by for, as its client has said last.
    pub(super) fn stand_by(&mut self, watcher: Watcher, item: ItemId) {
        let stands_by = self.clients.stands_by(watcher.client, self.items.get(item).service());
        let Some((_, watch)) = self.clients.watch(watcher) else {
            hub_items::fault!("a stream that its client does not know: {watcher:?}");
            return;
        };
        if watch.is_snapshot() || watch.stands_by() == stands_by {
            return;
        }
        self.change_state(watcher, item, |watch| watch.stand_by(stands_by));
        if stands_by {
            self.make_held(watcher, item);
        } else {
            self.items.watchers_mut(item).mark_asked(true);
        }
        // An answer of which only parts have come is broken off by either, and owed as before.
        if self.clients.wants_image(&self.items, watcher, item) {
            self.need_image_for(watcher, item);
        }
    }
}
