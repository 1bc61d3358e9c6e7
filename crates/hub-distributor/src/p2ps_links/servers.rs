//! Where consumers reach the P2PSs that say so, and how these are: told to those that say it of themselves, for their consumers.
//!
//! What is told is always all of them, by the connection of each: nothing has to be told again after a loss, and a P2PS that says nothing of
//! itself hears nothing.

use super::Links;
use crate::SourceDistributor;
use crate::ids::Slot;
use crate::stream::{Event, Kind, Server};
use crate::timers::Timer;

/// The least time between two tellings, nanoseconds: however often P2PSs change, come and go.
const TELL_INTERVAL: u64 = 1_000_000_000;

/// When P2PSs are told of each other.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// A timer is set.
    is_due: bool,
    /// The least time of the next one.
    not_before: u64,
}

impl Links {
    /// The best of the servers of the P2PSs that are there, as they are written.
    fn servers(&self) -> Vec<u8> {
        let here = self.slots.iter().flatten().filter(|link| link.id.is_some());
        // An entry that cannot be read was not taken.
        let read = |bytes| Some(Server::read(Kind::Serve, bytes).ok()?.0);
        let servers: Vec<Server<'_>> = here.filter_map(|link| read(link.server.as_deref()?)).collect();
        let mut bytes = Vec::new();
        for server in Server::best(servers, Server::MOST) {
            server.write(&mut bytes);
        }
        bytes
    }
}

impl SourceDistributor {
    /// A P2PS says where consumers reach it, and how it is; or, with nothing, that it is no server any more.
    pub(super) fn serves(&mut self, slot: Slot, server: &[u8]) {
        let link = self.links.link_mut(slot);
        let said = (!server.is_empty()).then(|| Box::from(server));
        if link.server != said {
            link.server = said;
            self.servers_changed();
        }
    }

    /// A P2PS leaves, and is no server any more. The serial of its lease.
    pub(super) fn leave_links(&mut self, slot: Slot) -> u32 {
        if self.links.link_mut(slot).server.take().is_some() {
            self.servers_changed();
        }
        self.links.leave(slot, self.now)
    }

    /// P2PSs that are servers are to hear that others have changed, come or gone.
    fn servers_changed(&mut self) {
        let telling = &mut self.links.telling;
        if !std::mem::replace(&mut telling.is_due, true) {
            self.timers.set(telling.not_before.max(self.now), Timer::Servers);
        }
    }

    /// Tells the P2PSs that are servers of all of them.
    pub(crate) fn tell_servers(&mut self) {
        self.links.telling = Telling { is_due: false, not_before: self.now.saturating_add(TELL_INTERVAL) };
        let servers = self.links.servers();
        for link in self.links.slots.iter_mut().flatten() {
            if let (Some(target), Some(_)) = (link.id, &link.server) {
                link.point_to_point.event(&Event::Servers { target, servers: &servers });
                self.counters.servers_told += 1;
            }
        }
    }
}
