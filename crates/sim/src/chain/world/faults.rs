//! Clients that come and go, and faults between them.

use super::super::consumer::Consumer;
use super::super::content::SERVICES;
use super::super::hub::{LOGIN_TIMEOUT, distributor_name};
use super::super::json::{Dialled, JsonProviderWire, JsonWire};
use super::super::network::Fault;
use super::super::socket::Socket;
use super::super::wire::Wire;
use super::{OFFERS, PUBLISHER_SESSION, World};
use hub::distributor::{Origin, PeerInfo, SessionId};
use hub::p2ps::{ClientId, ClientInfo};
use std::net::IpAddr;

impl World {
    pub(super) fn provider_changes(&mut self) {
        let at = self.random.below(self.providers.len());
        if self.hub.is_distributor_still(self.providers[at].distributor, self.now) {
            return;
        }
        if self.providers[at].up && self.random.chance(40) {
            self.provider_down(at);
        } else if self.providers[at].up {
            self.operator_switches(at);
        } else if !self.providers[at].up {
            self.provider_up(at);
        }
    }

    /// An operator has what a provider serves asked for there, or lets the order of the routes count again; what is refused changes nothing.
    fn operator_switches(&mut self, at: usize) {
        let number = self.providers[at].distributor;
        let provider = (at + self.now as usize / 1_000).is_multiple_of(3).then(|| format!("provider{at}:14002"));
        for &service in OFFERS[at] {
            let (name, distributor) = (SERVICES[usize::from(service)], &mut self.hub.distributors[number]);
            let switched =
                distributor.machine.switch_provider(self.now, name, provider.as_deref(), &mut distributor.sink);
            self.note(|| format!("operator switches {name} to {provider:?}: {switched:?}"));
        }
        self.operator_switches_distributors(at);
    }

    /// The same at a P2PS, between distributors.
    fn operator_switches_distributors(&mut self, at: usize) {
        let (shard, turn) = (at % self.hub.shards.len(), at + self.now as usize / 10_000);
        if self.hub.is_p2ps_still(shard, self.now) {
            return;
        }
        for &service in OFFERS[at] {
            let name = SERVICES[usize::from(service)];
            let machine = &mut self.hub.shards[shard].machine;
            // The last one that has it: seldom the one that has its items.
            let last = machine
                .service_overview()
                .find(|known| known.name == name)
                .and_then(|known| known.sources.last().copied());
            let last = last.filter(|_| !turn.is_multiple_of(4)).map(|source| source.name.to_owned());
            let distributor = if turn % 4 == 1 { Some(distributor_name(0)) } else { last };
            let switched = machine.switch_source(self.now, name, distributor.as_deref());
            self.note(|| format!("operator switches {name} at P2PS {shard} to {distributor:?}: {switched:?}"));
        }
        // Statuses about it are with the clients before they say anything else: what crosses is another request.
        self.hub.flush(self.now);
        self.read_clients();
    }

    pub(super) fn providers_up(&mut self) {
        for at in 0..self.providers.len() {
            if !self.providers[at].up {
                self.provider_up(at);
            }
        }
    }

    pub(super) fn provider_up(&mut self, at: usize) {
        self.note(|| format!("provider {at} up"));
        self.asked.retain(|(of, _), _| *of != at);
        let Self { providers, provider_wires, json_providers, truth, random, hub, now, json, .. } = self;
        let provider = &mut providers[at];
        provider.now = *now;
        provider.start(OFFERS[at], truth, random);
        // The provider's session before may not have lost all of its items, or is replaced by this one.
        provider.session = at as u32 + super::OTHER_SLOT * u32::from(provider.life % 3 % 2);
        if *json && random.chance(50) {
            provider.speak_json();
            let names = provider.service_names();
            json_providers.insert(at, JsonProviderWire::new(*now, Dialled::ByDistributor, names, random));
        } else if random.chance(30) {
            provider_wires.insert(at, Wire::new(*now, random));
        }
        let distributor = &mut hub.distributors[provider.distributor];
        let peer = PeerInfo { address: format!("provider{at}:14002") };
        let origin = Origin::Route(at as u16);
        distributor.machine.session_up(*now, SessionId(provider.session), origin, peer, &mut distributor.sink);
        if self.json_providers.contains_key(&at) {
            self.note(|| format!("provider {at} is dialled and speaks JSON"));
        }
    }

    pub(super) fn provider_down(&mut self, at: usize) {
        self.note(|| format!("provider {at} down"));
        self.provider_wires.remove(&at);
        self.json_providers.remove(&at);
        let provider = &mut self.providers[at];
        provider.stop();
        let (number, session) = (provider.distributor, SessionId(provider.session));
        self.drop_sent(number, session);
        let distributor = &mut self.hub.distributors[number];
        distributor.machine.session_down(self.now, session, "connection reset", &mut distributor.sink);
    }

    /// Messages not on their way to a session yet go nowhere: not to its next life either.
    fn drop_sent(&mut self, number: usize, session: SessionId) {
        self.count_requests(number);
        let sent = &mut self.hub.distributors[number].sink.sent;
        sent.retain(|(to, _)| *to != session.0);
        self.counted[number] = sent.len();
    }

    pub(super) fn publisher_changes(&mut self) {
        let Some(publisher) = self.publishers.first() else { return };
        if self.hub.is_distributor_still(publisher.distributor, self.now) {
            return;
        }
        if publisher.up {
            if self.random.chance(50) {
                self.publisher_down();
            }
        } else {
            self.publisher_up();
        }
    }

    pub(super) fn publisher_up(&mut self) {
        self.note(|| "publisher up".to_owned());
        let Self { publishers, truth, random, hub, now, json, publisher_wire, .. } = self;
        let publisher = &mut publishers[0];
        let session = PUBLISHER_SESSION + random.below(2) as u32;
        publisher.start(session, truth, random);
        *publisher_wire = (*json && random.chance(50))
            .then(|| JsonProviderWire::new(*now, Dialled::ByProvider, publisher.service_names(), random));
        let distributor = &mut hub.distributors[publisher.distributor];
        let peer = PeerInfo { address: "publisher".into() };
        distributor.machine.session_up(*now, SessionId(session), Origin::NonInteractive, peer, &mut distributor.sink);
        if self.publisher_wire.is_some() {
            self.note(|| "publisher speaks JSON".to_owned());
        }
    }

    pub(super) fn publisher_down(&mut self) {
        self.note(|| "publisher down".to_owned());
        let publisher = &mut self.publishers[0];
        publisher.stop();
        let (number, session) = (publisher.distributor, SessionId(publisher.session));
        self.drop_sent(number, session);
        let distributor = &mut self.hub.distributors[number];
        distributor.machine.session_down(self.now, session, "connection reset", &mut distributor.sink);
    }

    /// Something between the hub's sides breaks. A distributor that starts again has lost its sessions.
    pub(super) fn network_fault(&mut self) {
        if self.hub.network.is_some() {
            match self.hub.network_fault(self.now, &mut self.random) {
                Some(Fault::Distributor(number)) => self.distributor_restarted(number),
                Some(Fault::P2ps(at)) => self.p2ps_restarted(at),
                None => {}
            }
            return;
        }
        if self.random.chance(50) {
            return self.hub.link(self.now, false, &mut self.random);
        }
        let restarted = self.hub.fault(self.now, &mut self.random);
        self.hub.flush(self.now);
        self.read_clients();
        if let Some(number) = restarted {
            self.distributor_restarted(number);
        }
    }

    /// The clients of a P2PS that starts again have to connect again.
    fn p2ps_restarted(&mut self, at: usize) {
        self.note(|| format!("p2ps {at} starts again"));
        self.names[at].clear();
        self.strangers.retain(|_, (shard, _)| *shard != at);
        self.strangers_closed[at] = 0;
        for client in 0..self.consumers.len() {
            if self.consumers[client].as_ref().is_some_and(|consumer| consumer.shard == at) {
                self.consumers[client] = None;
                self.consumer_wires.remove(&client);
            }
        }
    }

    /// A distributor that starts again has lost its sessions.
    fn distributor_restarted(&mut self, number: usize) {
        self.note(|| format!("distributor {number} starts again"));
        self.counted[number] = 0;
        for at in 0..self.providers.len() {
            if self.providers[at].distributor == number {
                self.providers[at].stop();
                self.provider_wires.remove(&at);
                self.json_providers.remove(&at);
            }
        }
        for publisher in self.publishers.iter_mut().filter(|publisher| publisher.distributor == number) {
            publisher.stop();
        }
    }

    pub(super) fn consumer_changes(&mut self) {
        let at = self.random.below(self.consumers.len());
        if self.consumers[at].is_none() {
            self.connect(at);
        } else if self.random.chance(25) {
            self.disconnect(at);
        }
    }

    fn connect(&mut self, at: usize) {
        let shard = self.random.below(self.hub.shards.len());
        if self.hub.is_p2ps_still(shard, self.now) {
            return;
        }
        let mut consumer = Consumer::new(shard, at as u32, self.now, &mut self.random);
        consumer.crowded = self.crowded;
        consumer.warm = self.warm;
        consumer.filtering = self.hub.filtering;
        consumer.hot = self.hub.hot.is_some() || self.hub.paired;
        consumer.by_time = self.hub.conflated && self.random.chance(40);
        if self.json && self.random.chance(60) {
            let wire = JsonWire::new(self.now, &mut self.random);
            consumer.wired = !wire.at_once;
            consumer.speaks_json = true;
            self.hub.shards[shard].speakers.insert(at as u32, wire);
        } else if self.random.chance(20) {
            self.consumer_wires.insert(at, Wire::new(self.now, &mut self.random));
            consumer.wired = true;
        }
        if self.hub.slow && !consumer.wired && self.random.chance(50) {
            let socket = Socket::new(self.now, self.hub.conflated, &mut self.random);
            self.note(|| format!("consumer {at} is a slow one: {socket:?}"));
            self.hub.shards[shard].sockets.insert(at as u32, socket);
            consumer.wired = true;
            consumer.when_slow = self.hub.conflated;
        }
        self.note(|| format!("consumer {at} connects to shard {shard}: {:?}", consumer.policy));
        let address = IpAddr::from([10, 0, 0, at as u8 + 1]);
        self.hub.shards[shard].machine.client_up(self.now, ClientId(at as u32), ClientInfo { address });
        if consumer.speaks_json {
            self.note(|| format!("consumer {at} speaks JSON"));
            self.hub.shards[shard].machine.mark_json(ClientId(at as u32));
        }
        self.consumers[at] = Some(consumer);
        self.deliver_up(at);
        self.stranger_connects(shard);
    }

    /// Whenever a consumer comes, somebody comes with it who never logs in.
    fn stranger_connects(&mut self, shard: usize) {
        let id = self.next_stranger;
        self.next_stranger += 1;
        self.note(|| format!("stranger {id} connects to shard {shard}"));
        self.strangers.insert(id, (shard, self.now));
        let address = IpAddr::from([10, 0, 1, 1]);
        self.hub.shards[shard].machine.client_up(self.now, ClientId(id), ClientInfo { address });
    }

    /// A stranger is sent away when its time is over, for that reason, and not before.
    pub(super) fn stranger_closed(&mut self, shard: usize, id: u32, reason: &str) {
        let (home, since) = self.strangers.remove(&id).expect("a stranger that is there");
        assert_eq!(home, shard, "stranger {id} is at another P2PS");
        assert!(reason.contains("login_timeout_s"), "stranger {id} is closed: {reason}");
        let waited = self.now - since;
        assert!(waited >= LOGIN_TIMEOUT, "stranger {id} is closed after {waited} ns");
        self.note(|| format!("stranger {id} is sent away: {reason}"));
        self.hub.shards[shard].machine.client_down(self.now, ClientId(id));
        self.strangers_closed[shard] += 1;
    }

    pub(super) fn disconnect(&mut self, at: usize) {
        if self.consumers[at].as_ref().is_some_and(|consumer| self.hub.is_p2ps_still(consumer.shard, self.now)) {
            return;
        }
        let Some(consumer) = self.consumers[at].take() else { return };
        self.note(|| format!("consumer {at} disconnects"));
        self.consumer_wires.remove(&at);
        self.hub.shards[consumer.shard].hang_up(at as u32);
        self.hub.shards[consumer.shard].machine.client_down(self.now, ClientId(at as u32));
    }
}
