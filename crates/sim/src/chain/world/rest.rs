//! The state of rest in which all has to fit, and what may be left behind when everyone has gone.

use super::super::content::{Item, PUBLISHED, seen};
use super::super::json::JsonWire;
use super::super::provider::Provider;
use super::super::publisher::Publisher;
use super::super::watch::Kind;
use super::{SECOND, World};
use std::collections::BTreeMap;

/// Longest that a request may be without an image or a word on why there is none: a request timeout, and turns in which nothing moves.
const ANSWERED: u64 = 20 * SECOND;
/// The same where both sides may stand still, and silence has to be noticed.
const ANSWERED_LATE: u64 = 40 * SECOND;

impl World {
    /// No request without an answer within its time: an image, or a state that says why there is none.
    pub(super) fn check_answers(&mut self) {
        let now = self.now;
        let limit = if self.hub.network.is_some() { ANSWERED_LATE } else { ANSWERED };
        for (at, consumer) in self.consumers.iter_mut().enumerate() {
            let Some(consumer) = consumer else { continue };
            if self.hub.shards[consumer.shard].sockets.contains_key(&(at as u32)) {
                continue;
            }
            consumer.now = now;
            if let Some(what) = consumer.unanswered(limit) {
                panic!("consumer {at}: no answer in time: {what}");
            }
        }
    }

    /// Everything that is on its way arrives, and everyone answers.
    pub(super) fn drain(&mut self) {
        for _ in 0..2_000 {
            let mut busy = false;
            self.hub.link(self.now, true, &mut self.random);
            for at in 0..self.providers.len() {
                let Self { providers, truth, random, now, .. } = self;
                let provider = &mut providers[at];
                provider.now = *now;
                while provider.receive(random) {
                    busy = true;
                }
                if provider.ready {
                    while provider.answer(truth, random) {
                        busy = true;
                    }
                }
                busy |= !provider.outbox.is_empty();
                self.deliver_provider(at, usize::MAX);
            }
            if let Some(publisher) = self.publishers.first_mut() {
                while publisher.receive() {
                    busy = true;
                }
                busy |= !publisher.outbox.is_empty();
                self.deliver_publisher(usize::MAX);
            }
            for at in 0..self.consumers.len() {
                let turn = self.turn;
                if let Some(consumer) = &mut self.consumers[at] {
                    consumer.turn = turn;
                    busy |= !consumer.out.is_empty();
                }
                self.deliver_up(at);
            }
            if self.hub.is_anyone_held() {
                // A P2PS has yet to say that it has read all, or is left behind in a moment.
                self.pass(SECOND / 4);
            }
            let wires = self.provider_wires.values().chain(self.consumer_wires.values());
            busy |= wires.fold(false, |busy, wire| busy | !wire.is_idle());
            let speakers = self.hub.shards.iter().flat_map(|shard| shard.speakers.values());
            busy |= speakers.fold(false, |busy, wire| busy | !wire.is_idle());
            busy |= self.hub.is_anyone_slow();
            busy |= self.consumers.iter().flatten().any(|consumer| consumer.behind);
            self.turn();
            if !busy {
                return;
            }
        }
        panic!("the world never comes to rest");
    }

    /// Updates conflated by time go out.
    fn end_intervals(&mut self) {
        if self.hub.conflated {
            self.pass(SECOND);
            self.drain();
        }
    }

    /// All faults heal and time passes: then every stream has to be current.
    pub(super) fn settle(&mut self) {
        self.note(|| "settle".to_owned());
        self.eager = true;
        self.hub.link(self.now, true, &mut self.random);
        self.providers_up();
        if self.publishers.first().is_some_and(|publisher| !publisher.up) {
            self.publisher_up();
        }
        for round in 0..30 {
            self.drain();
            // A client that was too late with its login was sent away.
            self.providers_up();
            let Self { providers, publishers, truth, random, consumers, .. } = self;
            for provider in providers.iter_mut() {
                provider.heal(random);
                provider.catch_up(truth);
                if self.hub.watched {
                    provider.tick(truth, random);
                }
            }
            for publisher in publishers.iter_mut() {
                publisher.heal(truth, random);
            }
            for consumer in consumers.iter_mut().flatten() {
                if round == 5 {
                    consumer.resume();
                }
                if round < 20 {
                    consumer.reopen();
                }
            }
            self.drain();
            // Items that were given up, were it for providers that went at the wrong moment, are asked for again after five minutes.
            let is_given_up = self.trapped && round == 10;
            self.pass(if is_given_up { 301 * SECOND } else { SECOND });
        }
        self.drain();
        self.end_intervals();
        self.check_rest();
        // The market still flows.
        for at in 0..self.providers.len() {
            let Self { providers, truth, random, .. } = self;
            for _ in 0..5 {
                if providers[at].ready {
                    providers[at].update(truth, random);
                }
            }
        }
        let Self { providers, truth, .. } = self;
        for provider in providers {
            provider.catch_up(truth);
        }
        self.drain();
        self.end_intervals();
        self.check_rest();
    }

    /// Where the distributors have an order, and time enough has passed, everything is asked of the first one.
    fn check_order(&self) {
        let (names, failback) = &self.hub.order;
        if names.is_empty() || *failback == 0 {
            return;
        }
        for (at, shard) in self.hub.shards.iter().enumerate() {
            let services: Vec<_> = shard.machine.service_overview().filter(|service| service.present).collect();
            let wanted = |_: u16, _: &[u8], state: &str, _: bool| state == "open";
            let (items, _) = shard.machine.item_overview(0, (usize::MAX, usize::MAX), wanted);
            for item in items.into_iter().filter(|item| !item.is_private) {
                let service = services.iter().find(|service| service.id == item.service).expect("a service");
                let first = service.sources.iter().find(|source| source.accepting).map(|source| u32::from(source.id.0));
                assert_eq!(item.source, first, "P2PS {at}: {item:?} of {service:?} is not where the order has it");
            }
        }
    }

    /// P2PSs of a network know each other, but in the worlds of pairs, where they say nothing of themselves.
    fn check_servers(&self) {
        let is_told = self.hub.network.is_some() && !self.hub.paired;
        for (at, shard) in self.hub.shards.iter().enumerate().filter(|_| is_told) {
            let known = shard.machine.counters().servers;
            assert_eq!(known, self.hub.shards.len() as u64, "P2PS {at}: servers that its clients are told of");
        }
    }

    fn check_rest(&self) {
        self.check_order();
        self.check_servers();
        assert_eq!(self.strangers, BTreeMap::new(), "clients that never logged in, and are still there");
        for (at, consumer) in self.consumers.iter().enumerate() {
            let Some(consumer) = consumer else { continue };
            assert!(consumer.logged_in, "consumer {at} never got its login refresh");
            let wire = self.hub.shards[consumer.shard].speakers.get(&(at as u32));
            assert!(wire.is_none_or(JsonWire::is_answered), "consumer {at}: errors or pongs that never came: {wire:?}");
            assert!(consumer.posts.is_empty(), "consumer {at}: posts without answer: {:?}", consumer.posts);
            if consumer.sees_state() {
                for (id, listed) in &consumer.listed {
                    assert!(listed.up && listed.accepting, "consumer {at}: service {id} is not up: {listed:?}");
                }
            }
            for (stream, watch) in &consumer.watches {
                if watch.ended.is_some() {
                    continue;
                }
                let item = watch.item;
                let whom = || format!("consumer {at}, stream {stream}, {item}, {:?}", watch.kind);
                assert!(watch.is_good(), "{}: not current at rest: {watch:?}", whom());
                let life = self.life_of(item, watch.kind, watch.life);
                assert!(life, "{}: served by life {}, which is over: {watch:?}", whom(), watch.life);
                let versions = self.truth.known(watch.life, item).expect("a life");
                let rows = seen(&versions.last().expect("a version").rows, watch.shown.as_ref());
                assert_eq!(watch.rows, rows, "{}: stale content marked Ok", whom());
            }
        }
    }

    /// Whether a provider in this life has the item open, or publishes it.
    fn life_of(&self, item: Item, kind: Kind, life: u16) -> bool {
        if item.service == PUBLISHED {
            return self.publishers.iter().any(|publisher| publisher.life == life && publisher.has(item));
        }
        let private = kind == Kind::Private;
        let serves = |provider: &Provider| {
            provider.life == life && provider.streams.values().any(|s| s.item == item && s.private == private)
        };
        self.providers.iter().any(serves)
    }

    /// Everyone leaves: nothing may be left behind.
    pub(super) fn leave(&mut self) {
        self.note(|| "everyone leaves".to_owned());
        for at in 0..self.consumers.len() {
            self.disconnect(at);
        }
        for _ in 0..10 {
            self.drain();
            self.pass(SECOND);
        }
        self.drain();
        for number in 0..self.hub.shards.len() {
            let counters = self.hub.shards[number].machine.counters();
            if counters.updates_conflated > 0 {
                self.note(|| format!("P2PS {number} has merged {} updates into others", counters.updates_conflated));
            }
            let left = (counters.clients, counters.mounts, counters.items, counters.watchers, counters.items_waiting);
            assert_eq!(left, (0, 0, 0, 0, 0), "P2PS {number}: clients, mounts, items, watchers, items waiting");
            let away = self.strangers_closed[number];
            let closed = (counters.hub_messages_bad, counters.clients_closed - counters.clients_cut_off - away);
            assert_eq!(closed, (0, 0), "messages bad, clients closed for what they sent");
            assert!(counters.clients_cut_off == 0 || self.hub.slow, "clients cut off");
            assert!(counters.hub_gaps == 0 || self.hub.lossy, "gaps");
        }
        for (number, distributor) in self.hub.distributors.iter().enumerate() {
            let published: usize =
                self.publishers.iter().filter(|p| p.distributor == number).map(Publisher::count).sum();
            assert_eq!(distributor.machine.items(), published, "items left in distributor {number}");
        }
        for (at, provider) in self.providers.iter().enumerate() {
            assert!(provider.streams.is_empty(), "provider {at}: left open: {:?}", provider.streams);
        }
        self.publisher_leaves();
    }

    /// The publisher is gone for good, and nobody watches: its images are held for ever, or are all forgotten in their time, and its
    /// service with them.
    fn publisher_leaves(&mut self) {
        let Some(number) = self.publishers.first().map(|publisher| publisher.distributor) else { return };
        let held = self.hub.distributors[number].machine.items();
        self.publisher_down();
        for _ in 0..8 {
            self.drain();
            self.pass(10 * SECOND);
        }
        let machine = &self.hub.distributors[number].machine;
        let (images, services) = (machine.counters().images_aged, machine.counters().services_aged);
        let (left, services_left) = (machine.items(), machine.service_overview().filter(|s| s.is_cached).count());
        if images + services > 0 {
            self.note(|| format!("distributor {number} has forgotten {images} images and {services} services"));
            assert_eq!((left, services_left), (0, 0), "items and services that nobody publishes, and are held");
        } else {
            assert_eq!(left, held, "images that are held for ever");
        }
    }
}
