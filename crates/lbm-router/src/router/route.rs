//! The ways of a source: which are taken, who is told of it, where it is served.

use lbm::fault::named;

use super::portal::{Portal, Side};
use super::stream::{Down, Proxy, Serving, Stream, Up};
use super::tables::{Router, forget_label, ids};
use crate::action::{Action, Forward, ProxyAdvert};
use crate::ids::{PATH_MAX, Path, PortalId, StreamId};
use crate::interest::Interest;
use crate::merge::MergeSink;
use crate::wire::{Frame, Gone};

impl Router {
    /// An interest has changed: tells peers, listens in domains, and finds the ways of sources anew.
    pub(super) fn interest_changed(&mut self, now: u64, interest: &Interest, forward: &mut impl Forward) {
        let touched = self.streams_of(interest);
        let neighbours = self.neighbours();
        let Self { interests, portals, actions, .. } = self;
        interests.tell(interest, &neighbours, |told| {
            // A neighbour whose connection is over is told all again by the next one.
            let Some(link) = portals.get_mut(told.portal.0 as usize).and_then(Portal::link) else { return };
            let interest = interest.clone();
            match told.path {
                Some(path) => Frame::Wanted { interest, place: told.place, path }.encode(&mut link.out),
                None => Frame::NotWanted { interest, place: told.place }.encode(&mut link.out),
            }
        });
        for (index, portal) in portals.iter_mut().enumerate() {
            let passes = portal.passes_interest(interest);
            let Some(endpoint) = portal.endpoint() else { continue };
            let wanted = passes && interests.is_wanted_outside(interest, endpoint.config.domain);
            let (portal, interest) = (PortalId(index as u32), interest.clone());
            if wanted && !endpoint.listening.contains(&interest) {
                endpoint.listening.insert(interest.clone());
                actions.push(Action::Listen { portal, interest });
            } else if !wanted && endpoint.listening.remove(&interest) {
                actions.push(Action::Unlisten { portal, interest });
            }
        }
        for stream in touched {
            self.route(now, stream, forward);
        }
    }

    /// The streams for which an interest is.
    fn streams_of(&self, interest: &Interest) -> Vec<u32> {
        if interest.pattern().is_none() {
            return self.by_topic.get(interest.name()).into_iter().flatten().copied().collect();
        }
        let matching = self.by_topic.iter().filter(|(topic, _)| self.interests.matches(interest, topic));
        matching.flat_map(|(_, streams)| streams.iter().copied()).collect()
    }

    /// A way to the source has come, or has another cost or path.
    pub(super) fn set_up(&mut self, now: u64, id: u32, up: Up, forward: &mut impl Forward) {
        // Counted by its name.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        if let Some(known) = stream.ups.iter_mut().find(|other| other.key() == up.key()) {
            (known.cost, known.path) = (up.cost, up.path);
        } else {
            if up.taken {
                stream.merge.join(up.key());
            }
            stream.ups.push(up);
        }
        stream.gone_at = None;
        self.lingering.remove(&id);
        self.route(now, id, forward);
    }

    /// A way to the source is no more.
    pub(super) fn remove_up(&mut self, now: u64, id: u32, key: u64, why: Gone, forward: &mut impl Forward) {
        self.with_merge(id, forward, |merge, onward| merge.leave(key, onward));
        let linger = self.limits.linger_ns;
        // Counted by its name, above as well.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        stream.ups.retain(|up| up.key() != key);
        if stream.ups.is_empty() {
            if why == Gone::Ended {
                return self.remove_stream(id);
            }
            stream.gone_at = Some(now.saturating_add(linger));
            self.lingering.insert(id);
        }
        self.route(now, id, forward);
    }

    /// Finds everything of a stream anew; tells, subscribes and serves what has changed.
    pub(super) fn route(&mut self, now: u64, id: u32, forward: &mut impl Forward) {
        // A new peer is told of all places, of which some are free.
        if self.stream(id).is_none() {
            return;
        }
        self.serve(now, id);
        self.announce(id);
        self.subscribe(id, forward);
        if named(&mut self.streams, id as usize, &mut self.stats)
            .is_some_and(|stream| stream.ups.is_empty() && !stream.is_wanted())
        {
            self.remove_stream(id);
        }
    }

    /// Proxy sources in the domains that want the topic.
    fn serve(&mut self, now: u64, id: u32) {
        for portal in ids(&self.portals) {
            // Counted by its name.
            let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
            let Side::Endpoint(endpoint) = &self.portals[portal.0 as usize].side else { continue };
            let (config, topic) = (&endpoint.config, &*stream.topic);
            let wanted = config.domain != stream.origin.domain()
                && config.filter.passes(topic)
                && self.interests.wants_here(topic, config.domain);
            let known = stream.proxies.iter().any(|proxy| proxy.portal == portal);
            if wanted && !known && !stream.ups.is_empty() {
                let waits = config.standby && !config.parallel.passes(topic);
                let takeover = self.limits.takeover_ns;
                let serving = Serving::Waiting(if waits { now.saturating_add(takeover) } else { now });
                stream.proxies.push(Proxy { portal, serving, cost: 0 });
                self.take_turn(now, id, portal);
            } else if !wanted && known {
                let served = stream.proxies.iter().any(|proxy| proxy.portal == portal && proxy.serving == Serving::Now);
                stream.proxies.retain(|proxy| proxy.portal != portal);
                if served {
                    self.actions.push(Action::Cease { portal, stream: StreamId(id) });
                }
            }
        }
    }

    /// Whether this router serves a stream in a domain, or leaves it to another one.
    pub(super) fn take_turn(&mut self, now: u64, id: u32, portal: PortalId) {
        let router = self.id;
        // Counted by its name.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        // Without a way to the source there is nothing to serve, and a peer portal serves nobody.
        let Some(best) = stream.best(|_| true).map(|up| (up.cost, up.path.len())) else { return };
        let Some(endpoint) = self.portals[portal.0 as usize].endpoint() else { return };
        let parallel = endpoint.config.parallel.passes(&stream.topic);
        let other = endpoint.others.get(&stream.origin).filter(|other| other.until > now && !parallel);
        let (origin, topic, persistent) = (stream.origin, stream.topic.clone(), stream.persistent);
        let has_word = !stream.stores.is_empty();
        // Nobody in the domain wants it: another router's proxy source there is no matter of ours.
        let Some(proxy) = stream.proxies.iter_mut().find(|proxy| proxy.portal == portal) else { return };
        let before = proxy.serving;
        proxy.serving = match (other, before) {
            // The router that serves goes on unless a better one does, too.
            (Some(other), Serving::Now) if (other.cost, other.router) < (proxy.cost, router) => Serving::Another,
            (_, Serving::Now) => Serving::Now,
            (Some(_), _) => Serving::Another,
            (None, Serving::Waiting(until)) if until > now => before,
            (None, _) => Serving::Now,
        };
        match (before, proxy.serving) {
            (Serving::Now, Serving::Now) => {}
            (Serving::Now, _) => self.actions.push(Action::Cease { portal, stream: StreamId(id) }),
            (_, Serving::Now) => {
                let (cost, hops) = (best.0, (best.1 + 1) as u8);
                proxy.cost = cost;
                let advert = ProxyAdvert { topic, origin, hops, cost, persistent };
                self.actions.push(Action::Serve { portal, stream: StreamId(id), advert });
                if has_word {
                    self.actions.push(Action::TellStores { portal, stream: StreamId(id) });
                }
            }
            _ => {}
        }
    }

    /// Tells peers that want the topic by which way they can have it from here.
    fn announce(&mut self, id: u32) {
        for neighbour in self.neighbours() {
            // Counted by its name.
            let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
            let (portal, topic) = (neighbour.portal, &*stream.topic);
            let wanted = self.portals[portal.0 as usize].passes(topic)
                && self.interests.wants_by(topic, portal, stream.origin.domain());
            let eligible =
                |up: &Up| up.portal != portal && !up.path.contains(&neighbour.router) && up.path.len() < PATH_MAX;
            let way = stream.best(eligible).filter(|_| wanted).map(|up| {
                let path: Path = core::iter::once(self.id).chain(up.path.iter().copied()).collect();
                (up.cost, path)
            });
            let at = stream.downs.iter().position(|down| down.portal == portal);
            match (at, way) {
                (None, None) => {}
                (Some(at), None) => {
                    let label = stream.downs.remove(at).label;
                    forget_label(&mut self.portals, portal, label, Gone::Unreachable);
                }
                (Some(at), Some(way)) if stream.downs[at].told == way => {}
                (at, Some(way)) => self.tell_source(id, portal, at, way),
            }
        }
    }

    fn tell_source(&mut self, id: u32, portal: PortalId, at: Option<usize>, (cost, path): (u32, Path)) {
        let fresh = self.next_label;
        // Counted by its name.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        let label = if let Some(at) = at {
            stream.downs[at].told = (cost, path.clone());
            stream.downs[at].label
        } else {
            // A label is used once: what is said of it is never meant for another source.
            self.next_label = fresh.wrapping_add(1);
            let told = (cost, path.clone());
            stream.downs.push(Down { portal, label: fresh, told, subscribed: false, dropped: None });
            fresh
        };
        // A peer whose connection is over is told of all sources by the next one.
        let Some(link) = self.portals[portal.0 as usize].link() else { return };
        link.labels_out.insert(label, id);
        let Stream { origin, persistent, ref topic, ref stores, .. } = **stream;
        Frame::Source { label, origin, cost, persistent, path, topic: topic.as_bytes() }.encode(&mut link.out);
        if at.is_none() && !stores.is_empty() {
            Frame::Stores { label, word: stores }.encode(&mut link.out);
        }
    }

    /// Takes the best ways, if messages go anywhere.
    fn subscribe(&mut self, id: u32, forward: &mut impl Forward) {
        let paths = self.limits.paths.max(1);
        // Counted by its name.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        stream.sort();
        let wanted = stream.is_wanted();
        let mut left = Vec::new();
        for (rank, up) in stream.ups.iter_mut().enumerate().filter(|(_, up)| !up.is_local()) {
            let take = wanted && rank < paths;
            if take == up.taken {
                continue;
            }
            up.taken = take;
            let (label, key) = (up.number, up.key());
            if let Some(link) = self.portals[up.portal.0 as usize].link() {
                let frame = if take { Frame::Subscribe { label } } else { Frame::Unsubscribe { label } };
                frame.encode(&mut link.out);
            }
            if take {
                stream.merge.join(key);
            } else {
                left.push(key);
            }
        }
        if !wanted {
            // Nobody hears what was waited for.
            for key in left.drain(..) {
                stream.merge.leave(key, &mut Nowhere);
            }
            if stream.merge.timeout().is_none() {
                self.holding.remove(&id);
            }
        }
        for key in left {
            self.with_merge(id, forward, |merge, onward| merge.leave(key, onward));
        }
    }
}

/// What goes on from a merge while no stream is at hand: nothing can.
struct Nowhere;

impl MergeSink for Nowhere {
    fn message(&mut self, _: u32, _: &[u8]) {}
    fn lost(&mut self, _: u32, _: u32) {}
}
