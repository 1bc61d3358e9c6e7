//! News from domains: what they want, and the sources that they have.

use std::net::SocketAddrV4;

use super::portal::{Lease, Other};
use super::stream::{Serving, Up, key};
use super::tables::{Router, endpoint_told};
use crate::action::{Action, Forward, SourceFound};
use crate::ids::{Path, PortalId, RouterId, StreamId};
use crate::interest::Interest;
use crate::origin::Origin;
use crate::wire::{Gone, RESPONSE_MAX};

impl Router {
    /// Somebody in the domain asks for a topic or pattern, or says that it is used. Not what other routers ask for.
    pub fn heard(&mut self, now: u64, portal: PortalId, interest: &Interest, forward: &mut impl Forward) {
        let (timeout, max) = (self.limits.interest_timeout_ns, self.limits.interests_max);
        let passes = self.portal(portal).is_some_and(|portal| portal.passes_interest(interest));
        // Counted by its name.
        let Some(endpoint) = endpoint_told(&mut self.portals, portal, &mut self.stats) else { return };
        let (until, ask_at) = (now.saturating_add(timeout), now.saturating_add(timeout / 3));
        if let Some(heard) = endpoint.heard.get_mut(interest) {
            *heard = Lease { until, ask_at };
            return;
        }
        // Interest that the configuration lets not pass is not even refused.
        if !passes {
            return;
        }
        if endpoint.heard.len() >= max {
            self.stats.interests_refused += 1;
            return;
        }
        let domain = endpoint.config.domain;
        endpoint.heard.insert(interest.clone(), Lease { until, ask_at });
        if self.interests.set_here(interest, domain, true) {
            self.interest_changed(now, interest, forward);
        } else {
            // A pattern that cannot be used is not asked about again.
            self.stats.interests_refused += 1;
            if let Some(endpoint) = self.endpoint(portal) {
                endpoint.heard.remove(interest);
            }
        }
    }

    /// Nobody in the domain wants it any more.
    pub fn unheard(&mut self, now: u64, portal: PortalId, interest: &Interest, forward: &mut impl Forward) {
        // Counted by its name.
        let Some(endpoint) = endpoint_told(&mut self.portals, portal, &mut self.stats) else { return };
        let domain = endpoint.config.domain;
        if endpoint.heard.remove(interest).is_some() && self.interests.set_here(interest, domain, false) {
            self.interest_changed(now, interest, forward);
        }
    }

    /// A source of a topic that was listened for is heard from now on, under a number of the endpoint's context. A source, not a proxy.
    /// False: it is not taken.
    pub fn source_found(
        &mut self,
        now: u64,
        portal: PortalId,
        number: u32,
        found: SourceFound<'_>,
        forward: &mut impl Forward,
    ) -> bool {
        let max = self.limits.sources_max;
        let passes = self.portal(portal).is_some_and(|portal| portal.passes(found.topic));
        // Counted by its name.
        let Some(endpoint) = endpoint_told(&mut self.portals, portal, &mut self.stats) else { return false };
        if !passes || found.origin.domain() != endpoint.config.domain || endpoint.streams.contains_key(&number) {
            return false;
        }
        if endpoint.streams.len() >= max {
            self.stats.sources_refused += 1;
            return false;
        }
        let cost = endpoint.config.cost;
        let id = self.stream_for(found);
        if let Some(endpoint) = self.endpoint(portal) {
            endpoint.streams.insert(number, id);
        }
        self.set_up(now, id, Up { portal, number, cost, path: Path::new(), taken: true }, forward);
        true
    }

    /// The source of a number is over (or is not received any more).
    pub fn source_gone(&mut self, now: u64, portal: PortalId, number: u32, why: Gone, forward: &mut impl Forward) {
        // A source that was not taken has no end.
        let Some(id) = endpoint_told(&mut self.portals, portal, &mut self.stats)
            .and_then(|endpoint| endpoint.streams.remove(&number))
        else {
            return;
        };
        self.remove_up(now, id, key(portal, number), why, forward);
    }

    /// A message of a source: an encoded LBMC message, of which topic index and number are those of the source.
    #[inline]
    pub fn message(
        &mut self,
        now: u64,
        portal: PortalId,
        number: u32,
        sqn: u32,
        message: &[u8],
        forward: &mut impl Forward,
    ) {
        // Counted by its name.
        let Some(endpoint) = endpoint_told(&mut self.portals, portal, &mut self.stats) else { return };
        let id = endpoint.streams.get(&number).copied();
        self.portals[portal.0 as usize].stats.messages_in += 1;
        // A source that was not taken, or was given up while its message was on its way.
        let Some(id) = id else { return };
        self.data(now, id, key(portal, number), sqn, message, forward);
    }

    /// Numbers of a source are lost.
    pub fn message_lost(
        &mut self,
        now: u64,
        portal: PortalId,
        number: u32,
        lost: (u32, u32),
        forward: &mut impl Forward,
    ) {
        // A source that was not taken, or was given up, has no losses.
        let Some(id) = endpoint_told(&mut self.portals, portal, &mut self.stats)
            .and_then(|endpoint| endpoint.streams.get(&number).copied())
        else {
            return;
        };
        self.data_lost(now, id, key(portal, number), lost, forward);
    }

    /// Somebody has answered a request that a proxy source brought into the domain: `to` and `number` are those of the request as it came.
    pub fn response(&mut self, stream: StreamId, to: SocketAddrV4, number: u32, payload: &[u8]) {
        if payload.len() > RESPONSE_MAX {
            self.stats.responses_lost += 1;
        } else {
            self.answer(stream.0, to, number, payload);
        }
    }

    /// Another router's proxy source was advertised in the domain.
    pub fn proxy_heard(&mut self, now: u64, portal: PortalId, origin: Origin, (cost, router): (u32, RouterId)) {
        // Our own proxy source, heard in its domain.
        if router == self.id {
            return;
        }
        let (until, max) = (now.saturating_add(self.limits.takeover_ns), self.limits.sources_max);
        // Counted by its name.
        let Some(endpoint) = endpoint_told(&mut self.portals, portal, &mut self.stats) else { return };
        let has_room = endpoint.others.len() < max;
        match endpoint.others.get_mut(&origin) {
            // Of several the best one counts.
            Some(other) if other.until > now && (other.cost, other.router) < (cost, router) => return,
            Some(other) => *other = Other { cost, router, until },
            None if has_room => drop(endpoint.others.insert(origin, Other { cost, router, until })),
            None => {
                self.stats.sources_refused += 1;
                return;
            }
        }
        if let Some(id) = self.by_origin.get(&origin).copied() {
            self.take_turn(now, id, portal);
        }
    }

    pub(super) fn scan_endpoint(&mut self, now: u64, portal: PortalId, forward: &mut impl Forward) {
        let timeout = self.limits.interest_timeout_ns;
        // A portal to a peer has no domain.
        let Some(endpoint) = self.endpoint(portal) else { return };
        let (mut asked, mut over) = (Vec::new(), Vec::new());
        for (interest, heard) in &mut endpoint.heard {
            if heard.until <= now {
                over.push(interest.clone());
            } else if heard.ask_at <= now {
                heard.ask_at = now.saturating_add(timeout / 6);
                asked.push(interest.clone());
            }
        }
        endpoint.others.retain(|_, other| other.until > now);
        if !asked.is_empty() {
            self.actions.push(Action::AskForUse { portal, interests: asked });
        }
        for interest in over {
            self.unheard(now, portal, &interest, forward);
        }
        let waits = |id: &u32| {
            let stream = self.streams[*id as usize].as_ref();
            let mut proxies = stream.into_iter().flat_map(|stream| &stream.proxies);
            proxies.any(|proxy| proxy.portal == portal && proxy.serving != Serving::Now)
        };
        let waiting: Vec<u32> = (0..self.streams.len() as u32).filter(waits).collect();
        for id in waiting {
            self.take_turn(now, id, portal);
        }
    }
}
