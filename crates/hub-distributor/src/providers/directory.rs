//! The source directory: what providers announce, and what the P2PSs are told of it.

use super::Providers;
use super::downloads::DICTIONARIES;
use super::{Offer, Phase};
use crate::Config;
use crate::cascade::{self, Lines};
use crate::ids::Origin;
use crate::stream::{ALL, Event};
use crate::timers::Timer;
use crate::{CloseReason, Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::Qos;
use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::{Action, Info, Load, Part, Refresh, Request, Service as Entry, ServiceState, Update, filter};
use std::collections::BTreeSet;

/// Stream of our directory request at a provider.
pub(crate) const STREAM: i32 = 2;

impl Providers {
    /// Whether the route of a session takes services of this name.
    pub(super) fn is_wanted(&self, config: &Config, id: SessionId, name: &str) -> bool {
        let route = config.route(self.sessions[id].origin);
        let is_in = |list: &[String]| list.iter().any(|known| known == name);
        route.is_none_or(|route| {
            (route.services.is_empty() || is_in(&route.services)) && !is_in(&route.blocked_services)
        })
    }

    /// Who stands by for the name of a service that a provider of the other kind has, and what it says of it.
    pub(super) fn stands_by(&self, service: u16) -> Option<(SessionId, Entry)> {
        let name = &self.services[service].name;
        self.sessions.iter().find_map(|(id, session)| Some((id, session.refused(name)?.clone())))
    }

    /// The session's offer of a service that it has just announced.
    fn offer_of(&mut self, id: SessionId, service: u16) -> &mut Offer {
        self.sessions[id].offer_mut(service).expect("the entry of the directory has made the offer")
    }

    fn apply_info(&mut self, config: &Config, id: SessionId, service: u16, info: &Info) {
        let stated = &info.qos;
        // A provider that states none is asked for none.
        let own = if stated.is_empty() { config.qos_of(&self.services[service].name) } else { None };
        let beyond = config.snapshots_out_of_band(&self.services[service].name);
        let offer = self.offer_of(id, service);
        offer.states_no_qos = own.is_some();
        for domain in &info.capabilities {
            offer.domains.insert(domain.0);
        }
        let own: Vec<Qos> = own.into_iter().collect();
        let stated = if own.is_empty() { stated } else { &own };
        if !stated.is_empty() {
            offer.qos.clone_from(stated);
        }
        offer.snapshots_beyond_limit = beyond.or(info.supports_out_of_band_snapshots).unwrap_or(true);
        offer.takes_consumer_status = info.accepting_consumer_status.unwrap_or(true);
        let default = [Qos::REALTIME_TICK];
        let qualities: &[Qos] = if stated.is_empty() { &default } else { stated };
        let service = &mut self.services[service];
        for quality in qualities {
            if !service.qos.contains(quality) {
                service.qos.push(*quality);
                service.stale = true;
            }
        }
        for domain in &info.capabilities {
            service.stale |= service.domains.insert(domain.0);
        }
        if service.vendor.is_none() {
            service.stale |= info.vendor.is_some();
            service.vendor.clone_from(&info.vendor);
        }
        if service.item_list.is_none() {
            service.stale |= info.item_list.is_some();
            service.item_list.clone_from(&info.item_list);
        }
    }

    fn apply_state(&mut self, id: SessionId, service: u16, state: Option<&ServiceState>) {
        let offer = self.offer_of(id, service);
        if let Some(state) = state {
            offer.up = state.up;
            offer.accepting = state.accepting_requests.unwrap_or(true);
        }
    }

    fn apply_load(&mut self, id: SessionId, service: u16, load: &Load) {
        let offer = self.offer_of(id, service);
        offer.open_limit = load.open_limit.or(offer.open_limit);
        offer.open_window = load.open_window.or(offer.open_window);
        offer.load_factor = load.load_factor.unwrap_or(offer.load_factor);
    }

    /// The communication lines of a service, those of providers that are gone included: whether a provider of it is reached by each.
    fn lines_of(&self, config: &Config, id: u16) -> Lines {
        let service = &self.services[id];
        let mut lines: Lines = service.lines.keys().map(|name| (name.clone(), false)).collect();
        for session in service.providers().iter().filter_map(|&provider| self.sessions.get(provider)) {
            let named = config.route(session.origin).map_or(&[][..], |route| &route.comm_links);
            let up = session.phase == Phase::Ready && session.offer(id).is_some_and(|offer| offer.up);
            for name in named {
                *lines.entry(name.clone()).or_default() |= up;
            }
        }
        lines
    }
}

impl SourceDistributor {
    /// Asks an interactive provider for its directory.
    pub(crate) fn request_directory(&mut self, id: SessionId, out: &mut dyn ProviderSink) {
        let request = Request { stream_id: STREAM, streaming: true, service_id: None, filter: filter::ALL };
        self.send(id, out, |w| request.encode(w));
    }

    /// Takes a message of a provider of either kind on the directory stream.
    pub(crate) fn directory_message(
        &mut self,
        id: SessionId,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        match Msg::decode(msg)? {
            Msg::Refresh(refresh) if refresh.domain == Domain::SOURCE => {
                let mut refresh = Refresh::decode(&refresh)?;
                self.config.rename(self.providers.sessions[id].origin, &mut refresh.services);
                self.bring_forward(id, out);
                if refresh.state.stream.is_final() {
                    self.directory_closed(id, out);
                } else {
                    self.directory_refresh(id, &refresh, out);
                }
            }
            Msg::Update(update) if update.domain == Domain::SOURCE => {
                let mut services = Update::decode(&update)?.services;
                self.config.rename(self.providers.sessions[id].origin, &mut services);
                for entry in &services {
                    if !self.merges_state(id, entry, out) {
                        self.service_entry(id, entry, out);
                    }
                }
            }
            Msg::Status(status) if status.domain == Domain::SOURCE => {
                let cleared = rwf::rdm::directory::Status::decode(&status).clear_cache;
                if cleared || status.state.is_some_and(|state| state.stream.is_final()) {
                    self.directory_closed(id, out);
                }
            }
            Msg::Ack(_) => return self.provider_ack(id, msg),
            Msg::Refresh(_) | Msg::Update(_) | Msg::Status(_) => {
                return Err(CloseReason::WrongOnDirectoryStream);
            }
            _ => self.counters.dropped_unexpected += 1,
        }
        Ok(())
    }

    fn directory_refresh(&mut self, id: SessionId, refresh: &Refresh, out: &mut dyn ProviderSink) {
        self.providers.sessions[id].phase = Phase::Ready;
        if refresh.clear_cache && refresh.complete {
            let named: BTreeSet<u16> = refresh.services.iter().map(|entry| entry.id).collect();
            self.providers.sessions[id].linked.retain(|service| named.contains(&service));
            let gone: Vec<u16> = self.providers.sessions[id]
                .offers
                .iter()
                .filter(|offer| offer.member.is_none() && !named.contains(&offer.provider_id))
                .map(|offer| offer.service)
                .collect();
            for service in gone {
                self.withdraw(id, service, true, out);
            }
        }
        for entry in &refresh.services {
            self.service_entry(id, entry, out);
        }
    }

    /// The directory stream is closed: everything it said is void. It is asked for again after a pause.
    fn directory_closed(&mut self, id: SessionId, out: &mut dyn ProviderSink) {
        self.providers.sessions[id].linked.retain(|_| false);
        let session = &self.providers.sessions[id];
        let (serial, route) = (session.serial, matches!(session.origin, Origin::Route(_)));
        let own = session.offers.iter().filter(|offer| offer.member.is_none());
        let services: Vec<u16> = own.map(|offer| offer.service).collect();
        for service in services {
            self.withdraw(id, service, false, out);
        }
        if route {
            self.timers.set(self.now.saturating_add(self.config.retry_interval), Timer::Directory(id, serial));
        }
    }

    /// One service of a directory message.
    pub(crate) fn service_entry(&mut self, id: SessionId, entry: &Entry, out: &mut dyn ProviderSink) {
        if !self.may_take(id, entry, out) {
            return;
        }
        if entry.action == Action::Delete && self.providers.sessions[id].is_refused(entry.id) {
            return self.providers.sessions[id].forget_refused(entry.id);
        }
        if entry.action == Action::Delete {
            let known = self.providers.sessions[id].offer_by_id(entry.id).map(|offer| offer.service);
            match known {
                Some(service) => self.withdraw(id, service, true, out),
                None => self.counters.dropped_unknown_service += 1,
            }
            return;
        }
        let before = self.providers.sessions[id].offer_by_id(entry.id).map(Offer::takes_requests);
        // A service that the route leaves out is none of ours; one that is refused is counted.
        let Some(service) = self.offered_service(id, entry, out) else { return };
        if let Some(info) = entry.info.as_ref().and_then(Part::value) {
            self.providers.apply_info(&self.config, id, service, info);
        }
        if let Some(Part::Set(load) | Part::Update(load)) = &entry.load {
            self.providers.apply_load(id, service, load);
        }
        self.providers.note_path(id, service, entry.id);
        let state = entry.state.as_ref().and_then(Part::value);
        self.providers.apply_state(id, service, state);
        let time = self.providers.rules(&self.config, service).recognition;
        let session = &mut self.providers.sessions[id];
        // Services that are published here are not asked for.
        if session.origin != Origin::NonInteractive
            && let Some(offer) = session.offer_mut(service)
            && let Some(until) = offer.rest(self.now, before.is_some_and(|(up, _)| up), time)
        {
            self.timers.set(until, Timer::Recognised(id, session.serial, service));
        }
        self.request_dictionaries(id, service, entry, out);
        if before != self.providers.sessions.offer(id, service).map(Offer::takes_requests) {
            self.note_first_provider(service, out);
            self.leave_down_providers(service, out);
            self.want_mirrors(service);
        }
        self.advertise(service);
        // Transient states come after the service is known to be there, groups before the service: they are narrower.
        for group in entry.groups.iter().filter_map(Part::value) {
            self.group_entry(id, service, group, out);
        }
        if let Some(status) = state.and_then(|state| state.status.as_ref()) {
            self.service_status(id, service, status.as_state(), out);
        }
        self.providers.services[service].look_at_set_aside();
        self.send_queued(service, out);
        self.update_groups_of((id, service), Some(entry), false, out);
    }

    /// Our id for the service of an entry; makes the session offer it if it is new there.
    fn offered_service(&mut self, id: SessionId, entry: &Entry, out: &mut dyn ProviderSink) -> Option<u16> {
        let session = &self.providers.sessions[id];
        let cached = session.origin == Origin::NonInteractive;
        let known = session.offer_by_id(entry.id).map(|offer| offer.service);
        let Some(name) = entry.name() else {
            if self.providers.sessions[id].is_refused(entry.id) {
                self.providers.sessions[id].note_refused(entry);
            } else if known.is_none() {
                self.counters.dropped_unknown_service += 1;
            }
            return known;
        };
        if !self.providers.is_wanted(&self.config, id, name) {
            return None;
        }
        if self.config.is_group_name(name) {
            self.refuse_group_name(id, name, entry);
            return None;
        }
        let found = self.providers.services.find_or_add(name, cached);
        let Some(service) = found.or_else(|| self.change_kind_of(name, cached, out)) else {
            self.counters.refused_services += 1;
            self.refuse_service(id, name, entry);
            return None;
        };
        self.providers.sessions[id].forget_refused(entry.id);
        if let Some(old) = known.filter(|&old| old != service) {
            self.withdraw(id, old, true, out);
        }
        if cached {
            // Items that are published from now on are not those that were there before.
            self.finish_outages_in(id, service, out);
        }
        let session = &mut self.providers.sessions[id];
        session.offers.offer(entry.id, service);
        let known = &mut self.providers.services[service];
        if !known.providers().contains(&id) {
            known.times.offered_at = Some(self.now);
        }
        known.add_provider(id, |id| self.providers.sessions.rank(id, service));
        Some(service)
    }

    /// The name of a service is taken by a provider of the other kind, or there is no id left for it: this one stands by.
    fn refuse_service(&mut self, id: SessionId, name: &str, entry: &Entry) {
        let session = &mut self.providers.sessions[id];
        if !name.is_empty() && session.note_refused(entry) {
            let (service, provider) = (name.to_owned(), session.peer.address.clone());
            let interactive = session.origin != Origin::NonInteractive;
            self.notices.push(if self.providers.services.has(name) {
                Notice::ServiceTaken { service, provider, interactive }
            } else {
                Notice::NoServiceIds { service, provider }
            });
        }
    }

    /// Nobody offers a service any more: if a provider of the other kind stands by for its name, that one takes over. The items stay, and are
    /// that one's.
    pub(super) fn take_over(&mut self, service: u16, out: &mut dyn ProviderSink) {
        let known = &self.providers.services[service];
        if !known.providers().is_empty() || known.is_settling {
            return;
        }
        // Nobody stands by for the name: it stays that of its items.
        let Some((id, entry)) = self.providers.stands_by(service) else { return };
        let session = &self.providers.sessions[id];
        if known.cached != (session.origin == Origin::NonInteractive) {
            // When it is done, this is called again.
            return self.begin_change(service);
        }
        let (provider, interactive) = (session.peer.address.clone(), session.origin != Origin::NonInteractive);
        self.notices.push(Notice::ServiceTakenOver { service: known.name.clone(), provider });
        if interactive {
            self.service_entry(id, &entry, out);
        } else {
            // Items that it has published while the name was taken are not held: it publishes all of it when it comes back.
            self.close_session(id, &CloseReason::ServiceIsFree, out);
        }
    }

    /// Tells the P2PSs of a service if what they know of it is out of date.
    pub(crate) fn advertise(&mut self, id: u16) {
        let service = &self.providers.services[id];
        let offers = service.providers().iter().filter_map(|&provider| {
            self.providers.sessions.get(provider).filter(|session| session.phase == Phase::Ready)?.offer(id)
        });
        let path = self.config.path_of(offers.clone());
        let lines = self.providers.lines_of(&self.config, id);
        let (mut up, mut accepting) = (service.is_restored, service.is_restored);
        for offer in offers.filter(|offer| offer.up) {
            up = true;
            accepting |= offer.accepting && offer.open_window != Some(0);
        }
        // Requests for a service that is down wait here, and images that are held can be had at any time.
        let state = (up, accepting || !up || service.cached);
        // A new service waits for the dictionaries of the first provider that has them all.
        let ready =
            |&id: &SessionId| self.providers.sessions.get(id).is_some_and(|session| !session.downloads.is_awaited());
        let known = service.is_restored || service.providers().iter().any(ready);
        let wanted = service.advertised || !service.is_settling && known;
        let news = !service.advertised
            || service.stale
            || service.state != state
            || service.path != path
            || service.lines != lines;
        if !wanted || !news {
            return;
        }
        let service = &mut self.providers.services[id];
        if service.advertised && service.state.0 != state.0 {
            self.notices.push(Notice::ServiceState { service: service.name.clone(), up: state.0 });
        }
        service.state = state;
        service.path = path;
        service.lines = lines;
        service.stale = false;
        service.advertised = true;
        self.publish_service(id, ALL);
    }

    /// Sends what there is to know of a service: never what a provider said of itself, but what holds for all of them.
    pub(crate) fn publish_service(&mut self, id: u16, target: u16) {
        let service = &self.providers.services[id];
        let mut capabilities = vec![Domain::DICTIONARY];
        capabilities.extend(service.domains.iter().map(Domain).filter(|&domain| domain != Domain::DICTIONARY));
        let dictionaries: Vec<String> = DICTIONARIES.iter().map(ToString::to_string).collect();
        let info = Info {
            name: service.name.clone(),
            vendor: service.vendor.clone(),
            is_source: Some(false),
            capabilities,
            dictionaries_provided: dictionaries.clone(),
            dictionaries_used: dictionaries,
            qos: service.offered(),
            supports_qos_range: None,
            item_list: service.item_list.clone(),
            supports_out_of_band_snapshots: Some(self.config.snapshots_out_of_band(&service.name).unwrap_or(true)),
            accepting_consumer_status: Some(false),
        };
        let (up, accepting) = service.state;
        let state = ServiceState { up, accepting_requests: Some(accepting), status: None };
        let (info, state, links) =
            (Some(Part::Set(info)), Some(Part::Set(state)), cascade::links(&service.path, &service.lines));
        let entry = Entry { info, state, links, ..Entry::new(id, Action::Add) };
        // An entry that cannot be written is counted, and its service stays as P2PSs know it.
        let Some(filters) = self.composer.write(&mut self.counters, |w| entry.encode_filters(filter::ALL, w)) else {
            return;
        };
        let (cached, name) = (service.cached, service.name.as_str());
        self.hub.event(&Event::Service { target, service: id, cached, name, filters });
    }
}
