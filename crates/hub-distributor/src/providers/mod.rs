//! The providers: their sessions, what each of them offers, and the administrative domains in both directions.
//!
//! | file | what it knows |
//! |---|---|
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
mod streams;

pub(crate) use dictionaries::Dictionaries;
pub(crate) use directory::STREAM as DIRECTORY_STREAM;
pub(crate) use downloads::{FIRST_STREAM as FIRST_DICTIONARY_STREAM, LAST_STREAM as LAST_DICTIONARY_STREAM};
pub use failover::SwitchError;
pub(crate) use login::STREAM as LOGIN_STREAM;
pub(crate) use merged_states::MergedStates;
pub(crate) use outage::Outages;
pub(crate) use services::{Service, Services};
pub use session::PeerInfo;
pub(crate) use session::{Offer, Phase, Session};
pub(crate) use streams::Stream;

use super::ids::{GroupId, Origin, SessionId};
use crate::config::Interruption;
use crate::hash_seed::HashSeed;
use data_flow::DataFlow;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

/// Sessions beyond this slot are refused: an item keeps its session in two bytes.
pub(crate) const MAX_SESSIONS: u32 = 1 << 16;

/// Sessions by slot, and the groups that they have named.
///
/// A session that an agent or a timer names may be gone: [`Providers::get`]. One that an item or a service names is there, or is lost and
/// still has items, or there is a fault of ours: indexing asserts it.
#[derive(Debug)]
pub(crate) struct Providers {
    sessions: Vec<Option<Session>>,
    /// Slots of these that another session may have.
    free: BTreeSet<u32>,
    /// Sessions that are lost, whose items have yet to leave them. Their slots are free for none meanwhile.
    leaving: Vec<(SessionId, Session)>,
    last_serial: u32,
    last_group: u32,
    /// Of tables whose keys a provider chooses.
    seed: HashSeed,
}

impl Providers {
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { sessions: Vec::new(), free: BTreeSet::new(), leaving: Vec::new(), last_serial: 0, last_group: 0, seed }
    }

    /// A session is established in a slot that is free. Its serial.
    pub(crate) fn up(&mut self, id: SessionId, origin: Origin, peer: PeerInfo) -> u32 {
        assert!(id.0 < MAX_SESSIONS, "the caller refuses more");
        let slot = id.0 as usize;
        if slot >= self.sessions.len() {
            self.free.extend(self.sessions.len() as u32..=id.0);
            self.sessions.resize_with(slot + 1, || None);
        }
        assert!(self.free.remove(&id.0), "a session is lost to its end before another has its slot");
        self.last_serial = self.last_serial.wrapping_add(1);
        self.sessions[slot] = Some(Session::new(origin, peer, self.last_serial, self.seed));
        self.last_serial
    }

    /// Slots that no session has, and none that is lost but still has items.
    pub(crate) fn free(&self) -> impl Iterator<Item = SessionId> {
        self.free.iter().copied().chain(self.sessions.len() as u32..).map(SessionId)
    }

    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id.0 as usize)?.as_ref()
    }

    /// A session is lost: from now on only its items know it. `None` if there is no such session.
    fn leave(&mut self, id: SessionId) -> Option<&Session> {
        let session = self.sessions.get_mut(id.0 as usize).and_then(Option::take)?;
        self.leaving.push((id, session));
        self.leaving.last().map(|(_, session)| session)
    }

    /// A session that is lost has no items any more.
    fn forget(&mut self, id: SessionId) {
        let left = self.leaving.extract_if(.., |&mut (leaving, _)| leaving == id).count();
        debug_assert_eq!(left, 1, "a session is lost once");
        self.free.insert(id.0);
    }

    /// Every session, and those that are lost and may still have items.
    pub(crate) fn with_leaving(&self) -> impl Iterator<Item = (SessionId, &Session)> + '_ {
        self.iter().chain(self.leaving.iter().map(|(id, session)| (*id, session)))
    }

    /// Every session.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> + '_ {
        let place = |(slot, session)| Some((SessionId(slot as u32), Option::as_ref(session)?));
        self.sessions.iter().enumerate().filter_map(place)
    }

    /// The place of a session among the providers of a service: of a group the member that it is served from, then the number of its route,
    /// those without one last.
    pub(crate) fn rank(&self, id: SessionId, service: u16) -> (u16, u16, u32) {
        let member = self.offer(id, service).and_then(|offer| offer.member).map_or(0, |member| member.place);
        match self.get(id).map(|session| session.origin) {
            Some(Origin::Route(route)) => (member, route, id.0),
            _ => (member, u16::MAX, id.0),
        }
    }

    /// What a session offers of a service.
    pub(crate) fn offer(&self, id: SessionId, service: u16) -> Option<&Offer> {
        self.get(id)?.offer(service)
    }

    /// Whether a session is there that offers a service, and has no item of it from before it was withdrawn: what is sent there reaches
    /// the item that it is for.
    pub(crate) fn is_reached(&self, id: SessionId, service: u16) -> bool {
        self.offer(id, service).is_some_and(Offer::is_settled)
    }

    /// The provider's id of a service; 0 if it does not offer that now.
    pub(crate) fn service_id(&self, id: SessionId, service: u16) -> u16 {
        self.offer(id, service).map_or(0, |offer| offer.provider_id)
    }

    /// The data of a service of a provider; `None` where they are not watched, or the provider offers the service no more.
    fn watched(&mut self, id: SessionId, service: u16) -> Option<(&mut DataFlow, Interruption)> {
        let session = &mut self[id];
        let settings = session.interruption?;
        Some((&mut session.offer_mut(service)?.flow, settings))
    }

    /// Our number for a group that a session names.
    pub(crate) fn group(&mut self, id: SessionId, service: u16, group: &[u8]) -> GroupId {
        let session = self.sessions[id.0 as usize].as_mut().expect("a session that speaks is there");
        session.group(service, group, &mut self.last_group)
    }
}

impl Index<SessionId> for Providers {
    type Output = Session;

    fn index(&self, id: SessionId) -> &Session {
        let leaving = || self.leaving.iter().find(|&&(leaving, _)| leaving == id).map(|(_, session)| session);
        self.get(id).or_else(leaving).expect("a session of ours is there")
    }
}

impl IndexMut<SessionId> for Providers {
    fn index_mut(&mut self, id: SessionId) -> &mut Session {
        let Self { sessions, leaving, .. } = self;
        let session = match sessions.get_mut(id.0 as usize) {
            Some(Some(session)) => Some(session),
            _ => leaving.iter_mut().find(|(leaving, _)| *leaving == id).map(|(_, session)| session),
        };
        session.expect("a session of ours is there")
    }
}
