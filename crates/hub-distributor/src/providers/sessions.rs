//! The sessions with providers, by slot.

use super::MAX_SESSIONS;
use super::data_flow::DataFlow;
use super::session::{Offer, PeerInfo, Session};
use crate::config::Interruption;
use crate::hash_seed::HashSeed;
use crate::ids::{GroupId, Origin, SessionId};
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

/// Sessions by slot, and the groups that they have named.
///
/// A session that an agent or a timer names may be gone: [`Sessions::get`]. One that an item or a service names is there, or is lost and
/// still has items, or there is a fault of ours: indexing asserts it.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Vec<Option<Session>>,
    /// Slots of these that another session may have.
    free: BTreeSet<u32>,
    /// Sessions that are lost, whose items have yet to leave them. Their slots are free for none meanwhile.
    leaving: Vec<(SessionId, Session)>,
    last_serial: u32,
    last_group: u32,
    /// Of tables whose keys a provider chooses.
    seed: HashSeed,
}

impl Sessions {
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { slots: Vec::new(), free: BTreeSet::new(), leaving: Vec::new(), last_serial: 0, last_group: 0, seed }
    }

    /// A session is established in a slot that is free. Its serial.
    pub(crate) fn up(&mut self, id: SessionId, origin: Origin, peer: PeerInfo) -> u32 {
        assert!(id.0 < MAX_SESSIONS, "the caller refuses more");
        let slot = id.0 as usize;
        if slot >= self.slots.len() {
            self.free.extend(self.slots.len() as u32..=id.0);
            self.slots.resize_with(slot + 1, || None);
        }
        assert!(self.free.remove(&id.0), "a session is lost to its end before another has its slot");
        self.last_serial = self.last_serial.wrapping_add(1);
        self.slots[slot] = Some(Session::new(origin, peer, self.last_serial, self.seed));
        self.last_serial
    }

    /// Slots that no session has, and none that is lost but still has items.
    pub(crate) fn free(&self) -> impl Iterator<Item = SessionId> {
        self.free.iter().copied().chain(self.slots.len() as u32..).map(SessionId)
    }

    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// A session is lost: from now on only its items know it. `None` if there is no such session.
    pub(super) fn leave(&mut self, id: SessionId) -> Option<&Session> {
        let session = self.slots.get_mut(id.0 as usize).and_then(Option::take)?;
        self.leaving.push((id, session));
        self.leaving.last().map(|(_, session)| session)
    }

    /// A session that is lost has no items any more.
    pub(super) fn forget(&mut self, id: SessionId) {
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
        self.slots.iter().enumerate().filter_map(place)
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

    /// The session's offer of a service.
    pub(crate) fn offer(&self, id: SessionId, service: u16) -> Option<&Offer> {
        self.get(id)?.offer(service)
    }

    /// The data of a service of a provider; `None` where they are not watched, or the provider offers the service no more.
    pub(super) fn watched(&mut self, id: SessionId, service: u16) -> Option<(&mut DataFlow, Interruption)> {
        let session = &mut self[id];
        let settings = session.interruption?;
        Some((&mut session.offer_mut(service)?.flow, settings))
    }

    /// Our number for a group that a session names.
    pub(crate) fn group(&mut self, id: SessionId, service: u16, group: &[u8]) -> GroupId {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            hub_items::fault!("{id:?} names a group, and is not there");
            return GroupId::NONE;
        };
        session.group(service, group, &mut self.last_group)
    }
}

impl Index<SessionId> for Sessions {
    type Output = Session;

    fn index(&self, id: SessionId) -> &Session {
        let leaving = || self.leaving.iter().find(|&&(leaving, _)| leaving == id).map(|(_, session)| session);
        self.get(id).or_else(leaving).expect("a session of ours is there")
    }
}

impl IndexMut<SessionId> for Sessions {
    fn index_mut(&mut self, id: SessionId) -> &mut Session {
        let Self { slots, leaving, .. } = self;
        let session = match slots.get_mut(id.0 as usize) {
            Some(Some(session)) => Some(session),
            _ => leaving.iter_mut().find(|(leaving, _)| *leaving == id).map(|(_, session)| session),
        };
        session.expect("a session of ours is there")
    }
}
