//! The providers: their sessions, what each of them offers, and the administrative domains in both directions.
//!
//! | file | what it knows |
//! |---|---|
//! | `sessions` | who is connected |
//! | `session`, `streams` | one session: how far it has come, its offers, its streams |
//! | `downloads`, `linked_services`, `data_flow` | parts of a session, which end with it: what `dictionaries`, `cascade` and `interruption` know of each |
//! | `services` | the services as P2PSs know them, and what waits for a provider |
//! | `login`, `directory`, `dictionaries` | the administrative domains |
//! | `cascade` | services that come through other sites, or would come back to this one |
//! | `groups` | states and mergers of services and item groups |
//! | `merged_states` | states that a provider tells over and over: in a turn the last one counts |
//! | `outage` | sessions and services that go away: what becomes of their items, in turns |
//! | `recovery` | items that have lost their provider, and how they come back |
//! | `failover` | services that are down at one provider and up at another |
//! | `interruption` | services that send no data at one provider |

mod another_kind;
mod cascade;
mod data_flow;
mod dictionaries;
mod directory;
mod downloads;
mod failover;
mod groups;
mod interruption;
mod linked_services;
mod login;
mod merged_states;
mod outage;
mod recovery;
mod service_groups;
mod services;
mod session;
mod sessions;
mod streams;

pub(crate) use directory::STREAM as DIRECTORY_STREAM;
pub(crate) use downloads::{FIRST_STREAM as FIRST_DICTIONARY_STREAM, LAST_STREAM as LAST_DICTIONARY_STREAM};
pub use failover::SwitchError;
pub(crate) use login::STREAM as LOGIN_STREAM;
pub(crate) use services::Service;
pub use session::PeerInfo;
pub(crate) use session::{Offer, Phase, Session};
pub(crate) use streams::Stream;

use super::ids::{GroupId, Origin, SessionId};
use crate::Config;
use crate::conflation::ServiceConflation;
use crate::items::Item;
use dictionaries::Dictionaries;
use merged_states::MergedStates;
use outage::Outages;
use services::Services;
use sessions::Sessions;
use std::ops::{Index, IndexMut};

/// Sessions beyond this slot are refused: an item keeps its session in two bytes.
pub(crate) const MAX_SESSIONS: u32 = 1 << 16;

/// The half's side of providers: who is connected, which services they offer, and what of both goes on in turns. Rooms outside know a session by its
/// number, a service by its id, and none of the tables.
///
/// A session that an agent or a timer names may be gone: [`Providers::get`]. One that an item or a service names is there, or is lost and
/// still has items, and a service that an item names is there: indexing asserts it.
#[derive(Debug)]
pub(crate) struct Providers {
    sessions: Sessions,
    services: Services,
    outages: Outages,
    merged_states: MergedStates,
    dictionaries: Dictionaries,
}

impl Providers {
    /// No provider, and no service.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            sessions: Sessions::new(config.hash_seed),
            services: Services::new(config),
            outages: Outages::new(config.work_per_turn),
            merged_states: MergedStates::default(),
            dictionaries: Dictionaries::default(),
        }
    }

    /// A session is established in a slot that is free. Its serial.
    pub(crate) fn up(&mut self, id: SessionId, origin: Origin, peer: PeerInfo) -> u32 {
        self.sessions.up(id, origin, peer)
    }

    /// Slots that no session has, and none that is lost but still has items.
    pub(crate) fn free(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.free()
    }

    /// The session of a slot, if there is one that is not lost.
    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// Whether a session is that which it was when it had this serial.
    pub(crate) fn is_session(&self, id: SessionId, serial: u32) -> bool {
        self.sessions.get(id).is_some_and(|session| session.serial == serial)
    }

    /// Every session.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> + '_ {
        self.sessions.iter()
    }

    /// Every session, and those that are lost and may still have items.
    pub(crate) fn with_leaving(&self) -> impl Iterator<Item = (SessionId, &Session)> + '_ {
        self.sessions.with_leaving()
    }

    /// How the updates of an item are conflated before they go to the P2PSs; not if `None`, as those of private streams.
    pub(crate) fn conflation_of(&self, item: &Item) -> Option<&ServiceConflation> {
        self[item.service()].treatment.conflation.as_deref().filter(|_| !item.is_private())
    }

    /// The session's offer of a service.
    pub(crate) fn offer(&self, id: SessionId, service: u16) -> Option<&Offer> {
        self.sessions.offer(id, service)
    }

    /// Whether a session is there that offers a service, and has no item of it from before it was withdrawn: what is sent there reaches
    /// the item that it is for.
    pub(crate) fn is_reached(&self, id: SessionId, service: u16) -> bool {
        self.sessions.offer(id, service).is_some_and(Offer::is_settled)
    }

    /// The provider's id of a service; 0 if it does not offer that now.
    pub(crate) fn service_id(&self, id: SessionId, service: u16) -> u16 {
        self.sessions.offer(id, service).map_or(0, |offer| offer.provider_id)
    }

    /// Our number for a group that a session names.
    pub(crate) fn group(&mut self, id: SessionId, service: u16, group: &[u8]) -> GroupId {
        self.sessions.group(id, service, group)
    }

    /// The name of a service that has been without a provider for as long as it is kept; see [`Service::is_given_up`].
    pub(crate) fn given_up(&mut self, now: u64, service: u16) -> Option<String> {
        self.services.get_mut(service)?.is_given_up(now)
    }

    /// A service by an id that a peer has sent, which may be nobody's.
    pub(crate) fn service(&self, id: u16) -> Option<&Service> {
        self.services.get(id)
    }

    /// Ids of services, some of them of services that are forgotten.
    pub(crate) fn service_ids(&self) -> std::ops::RangeInclusive<u16> {
        self.services.ids()
    }

    /// The service of this name; a new one if there is none. `None` if it is of the other kind or as many are known as there can be.
    pub(crate) fn find_or_add(&mut self, name: &str, cached: bool) -> Option<u16> {
        self.services.find_or_add(name, cached)
    }

    /// Whether a service of this name is known.
    pub(crate) fn has_service(&self, name: &str) -> bool {
        self.services.has(name)
    }

    /// Whether a service that is new finds an id.
    pub(crate) fn has_room_for_services(&self) -> bool {
        self.services.has_room()
    }

    /// A service that nobody offers, that has no item and that no P2PS knows, is forgotten. Its id rests.
    pub(crate) fn forget_service(&mut self, id: u16) {
        self.services.forget(id);
    }

    /// The ids of services that were forgotten before the last look may be used again.
    pub(crate) fn rest_is_over(&mut self) {
        self.services.rest_is_over();
    }

    /// A turn begins, in which so many items may be worked off whose provider is gone.
    pub(crate) fn begin_turn(&mut self, work: u32) {
        self.outages.begin_turn(work);
        self.merged_states.end_turn();
    }

    /// The turn is over: states that come from now on are of the next.
    pub(crate) fn end_turn(&mut self) {
        self.merged_states.end_turn();
    }

    /// Takes one item from what this turn may work off; false if nothing is left of that.
    pub(crate) fn spend_one(&mut self) -> bool {
        self.outages.spend_one()
    }

    /// True if something is left for the next turn to go on with.
    pub(crate) fn has_work(&self) -> bool {
        self.outages.has_work() || self.merged_states.has_work()
    }
}

impl Index<SessionId> for Providers {
    type Output = Session;

    fn index(&self, id: SessionId) -> &Session {
        &self.sessions[id]
    }
}

impl IndexMut<SessionId> for Providers {
    fn index_mut(&mut self, id: SessionId) -> &mut Session {
        &mut self.sessions[id]
    }
}

impl Index<u16> for Providers {
    type Output = Service;

    fn index(&self, service: u16) -> &Service {
        &self.services[service]
    }
}

impl IndexMut<u16> for Providers {
    fn index_mut(&mut self, service: u16) -> &mut Service {
        &mut self.services[service]
    }
}
