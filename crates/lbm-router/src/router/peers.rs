//! Frames of peers.

use std::collections::HashMap;

use lbm::fault::named;

use super::onward::tell_dropped;
use super::portal::{INDEX, Link, Portal};
use super::stream::{Up, key};
use super::tables::{Router, link_read, place_of_link};
use crate::action::{Action, Forward, PeerFault, SourceFound};
use crate::ids::{Path, PortalId, RouterId};
use crate::interest::{Interest, Neighbour, Place};
use crate::wire::{Frame, Gone, is_frame, length};

/// Where a message of a topic has its number.
const SQN: core::ops::Range<usize> = 8..12;
/// Bytes of frames that may wait beyond those of messages before the peer counts as one that does not read.
const FRAMES_MAX: usize = 64 << 20;

impl Router {
    /// The connection of a peer portal stands. One that stood before is over.
    pub fn link_up(&mut self, now: u64, portal: PortalId, forward: &mut impl Forward) {
        self.link_down(now, portal, forward);
        let (router, silence_ns) = (self.id, self.limits.silence_ns);
        // Counted by its name.
        let Some(link) = place_of_link(&mut self.portals, portal, &mut self.stats) else { return };
        let mut out = Vec::new();
        let silence_ms = u32::try_from(silence_ns / 1_000_000).unwrap_or(u32::MAX).max(1);
        Frame::Hello { router, silence_ms }.encode(&mut out);
        *link = Some(Box::new(Link {
            neighbour: None,
            out,
            queued: 0,
            labels_in: HashMap::new(),
            labels_out: HashMap::new(),
            heard_at: now,
            said_at: now,
            patience_ns: silence_ns,
            has_dropped: false,
        }));
    }

    /// The connection of a peer portal is over: what was had by it is gone, and its sources linger.
    pub fn link_down(&mut self, now: u64, portal: PortalId, forward: &mut impl Forward) {
        // A connection that never stood, or was told as over, has left nothing; a portal without any is counted by its name.
        let Some(mut link) = place_of_link(&mut self.portals, portal, &mut self.stats).and_then(Option::take) else {
            return;
        };
        // In the order of labels, so that a run can be repeated.
        let mut labels: Vec<(u32, u32)> = link.labels_out.drain().collect();
        labels.sort_unstable();
        for (_, id) in labels {
            if let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) {
                stream.downs.retain(|down| down.portal != portal);
            }
        }
        let mut labels: Vec<(u32, u32)> = link.labels_in.drain().collect();
        labels.sort_unstable();
        for (label, id) in labels {
            self.remove_up(now, id, key(portal, label), Gone::Unreachable, forward);
        }
        for interest in self.interests.forget(portal) {
            self.interest_changed(now, &interest, forward);
        }
    }

    /// Bytes to be sent to the peer; they have been handed on. `queued`: bytes that wait beneath, those included.
    pub fn take_output(&mut self, now: u64, portal: PortalId, send: impl FnOnce(&[u8]) -> usize) {
        // A connection that is over has nothing to send.
        let Some(link) = self.link(portal) else { return };
        if !link.out.is_empty() {
            link.queued = send(&link.out);
            link.out.clear();
            link.said_at = now;
        }
    }

    /// So many bytes wait beneath now.
    pub fn set_queued(&mut self, portal: PortalId, queued: usize) {
        let max = self.limits.queue_bytes_max;
        // Anything that waits beneath a connection that is over waits for nobody.
        let Some(link) = self.link(portal) else { return };
        link.queued = queued;
        // All that was left out is told, or there is no room yet to tell it.
        if !link.has_dropped || link.waiting() > max / 2 {
            return;
        }
        link.has_dropped = false;
        for stream in self.streams.iter_mut().flatten() {
            for down in stream.downs.iter_mut().filter(|down| down.portal == portal) {
                if let Some(link) = self.portals[portal.0 as usize].link() {
                    tell_dropped(down, link);
                }
            }
        }
    }

    /// Whole frames and messages have come from the peer.
    ///
    /// # Errors
    /// What the peer says cannot be: the connection is to be closed, and told as down.
    pub fn receive(
        &mut self,
        now: u64,
        portal: PortalId,
        mut bytes: &[u8],
        forward: &mut impl Forward,
    ) -> Result<(), PeerFault> {
        // Bytes that had come when the connection ended is void with it.
        let Some(link) = self.link(portal) else { return Ok(()) };
        link.heard_at = now;
        while let Some(length) = length(bytes) {
            let Some((piece, rest)) = bytes.split_at_checked(length).filter(|_| length >= 4) else {
                return Err(PeerFault::Claim("a length that is none"));
            };
            bytes = rest;
            if is_frame(piece) {
                let frame = Frame::decode(piece).map_err(PeerFault::Frame)?;
                self.frame(now, portal, frame, forward)?;
            } else {
                self.labelled(now, portal, piece, forward)?;
            }
        }
        Ok(())
    }

    /// A message of a topic.
    #[inline]
    fn labelled(
        &mut self,
        now: u64,
        portal: PortalId,
        message: &[u8],
        forward: &mut impl Forward,
    ) -> Result<(), PeerFault> {
        let number = |range| message.get::<core::ops::Range<usize>>(range)?.try_into().ok().map(u32::from_be_bytes);
        let (Some(label), Some(sqn), Some(0)) = (number(INDEX), number(SQN), message.first()) else {
            return Err(PeerFault::Claim("a message that is none of a topic"));
        };
        // Counted by its name.
        let Some(link) = link_read(&mut self.portals, portal, &mut self.stats) else { return Ok(()) };
        let id = link.labels_in.get(&label).copied();
        self.portals[portal.0 as usize].stats.messages_in += 1;
        // A message was on its way when the source was given up.
        let Some(id) = id else { return Ok(()) };
        self.data(now, id, key(portal, label), sqn, message, forward);
        Ok(())
    }

    fn frame(
        &mut self,
        now: u64,
        portal: PortalId,
        frame: Frame<'_>,
        forward: &mut impl Forward,
    ) -> Result<(), PeerFault> {
        // Counted by its name.
        let Some(neighbour) = link_read(&mut self.portals, portal, &mut self.stats).map(|link| link.neighbour) else {
            return Ok(());
        };
        let router = match (neighbour, &frame) {
            (None, Frame::Hello { router, silence_ms }) => {
                return self.greeted(now, portal, *router, *silence_ms, forward);
            }
            (None, _) => return Err(PeerFault::Claim("frames before it has said who it is")),
            (Some(_), Frame::Hello { .. }) => return Err(PeerFault::Claim("who it is, twice")),
            (Some(router), _) => router,
        };
        match frame {
            Frame::Hello { .. } | Frame::KeepAlive => {}
            Frame::Wanted { interest, place, path } => {
                check_path(&path, router)?;
                if path.last() != Some(&place.router) {
                    return Err(PeerFault::Claim("interest whose path ends elsewhere"));
                }
                self.told_interest(now, portal, &interest, place, Some(path), forward);
            }
            Frame::NotWanted { interest, place } => self.told_interest(now, portal, &interest, place, None, forward),
            Frame::Source { label, origin, cost, persistent, path, topic } => {
                check_path(&path, router)?;
                let topic = core::str::from_utf8(topic).map_err(|_| PeerFault::Claim("a topic that is no text"))?;
                let found = SourceFound { origin, topic, persistent };
                self.told_source(now, portal, label, (found, cost, path), forward);
            }
            Frame::Stores { label, word } => {
                if let Some(id) = self.link(portal).and_then(|link| link.labels_in.get(&label).copied()) {
                    self.set_stores(id, word);
                }
            }
            // A source that was not taken, or was given up meanwhile, has no end and no losses here.
            Frame::SourceGone { label, why } => {
                if let Some(id) = self.link(portal).and_then(|link| link.labels_in.remove(&label)) {
                    self.remove_up(now, id, key(portal, label), why, forward);
                }
            }
            Frame::Subscribe { label } => self.subscribed(now, portal, label, true, forward),
            Frame::Unsubscribe { label } => self.subscribed(now, portal, label, false, forward),
            Frame::Lost { label, first, count } => {
                if let Some(id) = self.link(portal).and_then(|link| link.labels_in.get(&label).copied()) {
                    self.data_lost(now, id, key(portal, label), (first, count), forward);
                }
            }
            Frame::Response { label, to, number, payload } => {
                if let Some(id) = self.link(portal).and_then(|link| link.labels_out.get(&label).copied()) {
                    self.answer(id, to, number, payload);
                } else {
                    // The source has ended while the answer was on its way.
                    self.stats.responses_lost += 1;
                }
            }
        }
        Ok(())
    }

    /// The peer has said who it is: it is told all interest and all sources that it may have.
    fn greeted(
        &mut self,
        now: u64,
        portal: PortalId,
        router: RouterId,
        silence_ms: u32,
        forward: &mut impl Forward,
    ) -> Result<(), PeerFault> {
        if router == self.id {
            return Err(PeerFault::OurId);
        }
        // Counted by its name.
        let Some(link) = link_read(&mut self.portals, portal, &mut self.stats) else { return Ok(()) };
        link.neighbour = Some(router);
        link.patience_ns = u64::from(silence_ms.max(3)) * 1_000_000;
        let all: Vec<Interest> = self.interests.iter().cloned().collect();
        let neighbour = [Neighbour { portal, router }];
        let Self { interests, portals, .. } = self;
        for interest in &all {
            interests.tell(interest, &neighbour, |told| {
                let link = portals.get_mut(told.portal.0 as usize).and_then(Portal::link);
                if let (Some(link), Some(path)) = (link, told.path) {
                    Frame::Wanted { interest: interest.clone(), place: told.place, path }.encode(&mut link.out);
                }
            });
        }
        for id in 0..self.streams.len() as u32 {
            self.route(now, id, forward);
        }
        Ok(())
    }

    fn told_interest(
        &mut self,
        now: u64,
        portal: PortalId,
        interest: &Interest,
        place: Place,
        path: Option<Path>,
        forward: &mut impl Forward,
    ) {
        let passes = self.portal(portal).is_some_and(|portal| portal.passes_interest(interest));
        if path.is_some() && (!passes || self.interests.count_of(portal) >= self.limits.interests_max) {
            // Interest that the configuration lets not pass is not even refused.
            self.stats.interests_refused += u64::from(passes);
            return;
        }
        if self.interests.set_by(portal, interest, place, path) {
            self.interest_changed(now, interest, forward);
        }
    }

    fn told_source(
        &mut self,
        now: u64,
        portal: PortalId,
        label: u32,
        (found, cost, path): (SourceFound<'_>, u32, Path),
        forward: &mut impl Forward,
    ) {
        let (router, max) = (self.id, self.limits.sources_max);
        let of = self.portal(portal).map(|portal| (portal.passes(found.topic), cost.saturating_add(portal.cost())));
        // Counted by its name.
        let (Some(link), Some((passes, cost))) = (link_read(&mut self.portals, portal, &mut self.stats), of) else {
            return;
        };
        let known = link.labels_in.get(&label).copied();
        if path.contains(&router) || !passes {
            // A path that has passed this router is no way to the source.
            if let Some(id) = link.labels_in.remove(&label) {
                self.remove_up(now, id, key(portal, label), Gone::Unreachable, forward);
            }
            return;
        }
        if known.is_none() && link.labels_in.len() >= max {
            self.stats.sources_refused += 1;
            return;
        }
        let id = known.unwrap_or_else(|| self.stream_for(found));
        if let Some(link) = self.link(portal) {
            link.labels_in.insert(label, id);
        }
        self.set_up(now, id, Up { portal, number: label, cost, path, taken: false }, forward);
    }

    fn subscribed(&mut self, now: u64, portal: PortalId, label: u32, on: bool, forward: &mut impl Forward) {
        // The source was given up while the word was on its way.
        let Some(id) = self.link(portal).and_then(|link| link.labels_out.get(&label).copied()) else { return };
        // Counted by its name.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        for down in stream.downs.iter_mut().filter(|down| down.label == label) {
            (down.subscribed, down.dropped) = (on, None);
        }
        self.route(now, id, forward);
    }

    /// Keeps the connection alive, and gives up one that is not.
    pub(super) fn scan_link(&mut self, now: u64, portal: PortalId) {
        let (silence, max) = (self.limits.silence_ns, self.limits.queue_bytes_max.saturating_add(FRAMES_MAX));
        // A portal in a domain has no connection, nor has one whose peer is not there.
        let Some(link) = self.link(portal) else { return };
        let why = if now.saturating_sub(link.heard_at) > silence {
            PeerFault::Silent
        } else if link.waiting() > max {
            PeerFault::Slow
        } else {
            if now.saturating_sub(link.said_at) >= link.patience_ns / 4 && link.out.is_empty() {
                Frame::KeepAlive.encode(&mut link.out);
            }
            return;
        };
        self.actions.push(Action::HangUp { portal, why });
    }
}

/// A path begins with the neighbour, and is no circle.
fn check_path(path: &[RouterId], neighbour: RouterId) -> Result<(), PeerFault> {
    if path.first() != Some(&neighbour) {
        return Err(PeerFault::Claim("a path that does not begin with the peer"));
    }
    let mut sorted = path.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() == path.len() { Ok(()) } else { Err(PeerFault::Claim("a path that is a circle")) }
}
