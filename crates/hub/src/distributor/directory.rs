//! The source directory: what providers announce, and what the P2PSs are told of it.

use super::items::Bits;
use super::sessions::{Offer, Origin, Phase};
use super::timers::Timer;
use super::{Fault, ProviderSink, SourceDistributor};
use crate::stream::{ALL, Event};
use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::{
    Action, Group, Info, Load, Part, Refresh, Request, Service as Entry, ServiceState, Update, filter,
};
use rwf::{Qos, State, StreamState};

/// Stream of our directory request at a provider.
pub(super) const STREAM: i32 = 2;
/// The names under which every service offers its dictionaries, whatever the provider calls them.
pub(super) const DICTIONARIES: [&str; 2] = ["RWFFld", "RWFEnum"];

impl SourceDistributor {
    /// Asks an interactive provider for its directory.
    pub(super) fn request_directory(&mut self, id: u32, out: &mut dyn ProviderSink) {
        let request = Request { stream_id: STREAM, streaming: true, service_id: None, filter: filter::ALL };
        self.send(id, out, |w| request.encode(w));
    }

    /// What a provider of either kind sends on the directory stream.
    pub(super) fn directory_message(
        &mut self,
        now: u64,
        id: u32,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), Fault> {
        match Msg::decode(msg)? {
            Msg::Refresh(refresh) if refresh.domain == Domain::SOURCE => {
                let refresh = Refresh::decode(&refresh)?;
                if refresh.state.stream.is_final() {
                    self.directory_closed(now, id, out);
                } else {
                    self.directory_refresh(now, id, &refresh, out);
                }
            }
            Msg::Update(update) if update.domain == Domain::SOURCE => {
                for entry in &Update::decode(&update)?.services {
                    self.service_entry(now, id, entry, out);
                }
            }
            Msg::Status(status) if status.domain == Domain::SOURCE => {
                let cleared = rwf::rdm::directory::Status::decode(&status).clear_cache;
                if cleared || status.state.is_some_and(|state| state.stream.is_final()) {
                    self.directory_closed(now, id, out);
                }
            }
            Msg::Ack(_) => return self.provider_ack(id, msg),
            Msg::Refresh(_) | Msg::Update(_) | Msg::Status(_) => {
                return Err(Fault::Rule("provider sent another domain on the directory stream"));
            }
            _ => self.counters.dropped_unexpected += 1,
        }
        Ok(())
    }

    fn directory_refresh(&mut self, now: u64, id: u32, refresh: &Refresh, out: &mut dyn ProviderSink) {
        if let Some(session) = self.session_mut(id) {
            session.phase = Phase::Ready;
        }
        if refresh.clear_cache && refresh.complete {
            let gone: Vec<u16> = self
                .session(id)
                .into_iter()
                .flat_map(|session| &session.offers)
                .filter(|offer| !refresh.services.iter().any(|entry| entry.id == offer.provider_id))
                .map(|offer| offer.service)
                .collect();
            for service in gone {
                self.withdraw(now, id, service, true, out);
            }
        }
        for entry in &refresh.services {
            self.service_entry(now, id, entry, out);
        }
    }

    /// The directory stream is closed: everything it said is void. It is asked for again after a pause.
    fn directory_closed(&mut self, now: u64, id: u32, out: &mut dyn ProviderSink) {
        let Some(session) = self.session(id) else { return };
        let (serial, route) = (session.serial, matches!(session.origin, Origin::Route(_)));
        let services: Vec<u16> = session.offers.iter().map(|offer| offer.service).collect();
        for service in services {
            self.withdraw(now, id, service, false, out);
        }
        if route {
            self.timers.set(now.saturating_add(self.config.retry_interval), Timer::Directory(id, serial));
        }
    }

    /// One service of a directory message.
    fn service_entry(&mut self, now: u64, id: u32, entry: &Entry, out: &mut dyn ProviderSink) {
        if entry.action == Action::Delete {
            let known = self.session(id).and_then(|session| session.offer_by_id(entry.id)).map(|offer| offer.service);
            match known {
                Some(service) => self.withdraw(now, id, service, true, out),
                None => self.counters.dropped_unknown_service += 1,
            }
            return;
        }
        let Some(service) = self.offered_service(now, id, entry, out) else { return };
        if let Some(info) = entry.info.as_ref().and_then(Part::value) {
            self.apply_info(id, service, info);
        }
        if let Some(Part::Set(load) | Part::Update(load)) = &entry.load {
            self.apply_load(id, service, load);
        }
        let state = entry.state.as_ref().and_then(Part::value);
        self.apply_state(id, service, state);
        self.request_dictionaries(now, id, service, entry, out);
        self.advertise(service);
        // Transient states come after the service is known to be there, groups before the service: they are narrower.
        for group in entry.groups.iter().filter_map(Part::value) {
            self.group_entry(now, id, service, group);
        }
        if let Some(status) = state.and_then(|state| state.status.as_ref()) {
            self.service_status(now, id, service, status.as_state());
        }
        self.pump(now, service, out);
    }

    /// Our id for the service of an entry; makes the session offer it if it is new there.
    fn offered_service(&mut self, now: u64, id: u32, entry: &Entry, out: &mut dyn ProviderSink) -> Option<u16> {
        let cached = self.session(id)?.origin == Origin::NonInteractive;
        let known = self.session(id)?.offer_by_id(entry.id).map(|offer| offer.service);
        let Some(name) = entry.name() else {
            if known.is_none() {
                self.counters.dropped_unknown_service += 1;
            }
            return known;
        };
        let route = self.config.route(self.session(id)?.origin);
        if route.is_some_and(|r| !r.services.is_empty() && !r.services.iter().any(|s| s.as_str() == name)) {
            return None;
        }
        let Some(service) = self.services.find_or_add(name, cached) else {
            self.counters.refused_services += 1;
            return None;
        };
        if let Some(old) = known.filter(|&old| old != service) {
            self.withdraw(now, id, old, true, out);
        }
        let session = self.session_mut(id)?;
        match session.offer_mut(service) {
            Some(offer) => offer.provider_id = entry.id,
            None => session.offers.push(Offer { up: true, ..Offer::new(entry.id, service) }),
        }
        let rank = |id: u32| match self.session(id).map(|session| session.origin) {
            Some(Origin::Route(route)) => (route, id),
            _ => (u16::MAX, id),
        };
        let mut providers = self.services.get(service)?.providers.clone();
        if !providers.contains(&id) {
            providers.push(id);
            providers.sort_by_key(|&id| rank(id));
            self.services.get_mut(service)?.providers = providers;
        }
        Some(service)
    }

    fn apply_info(&mut self, id: u32, service: u16, info: &Info) {
        let Some(offer) = self.session_mut(id).and_then(|session| session.offer_mut(service)) else { return };
        for domain in &info.capabilities {
            offer.domains.insert(domain.0);
        }
        if !info.qos.is_empty() {
            offer.qos.clone_from(&info.qos);
        }
        offer.snapshots_beyond_limit = info.supports_out_of_band_snapshots.unwrap_or(true);
        let default = [Qos::REALTIME_TICK];
        let qualities: &[Qos] = if info.qos.is_empty() { &default } else { &info.qos };
        let Some(service) = self.services.get_mut(service) else { return };
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
            service.vendor.clone_from(&info.vendor);
        }
        if service.item_list.is_none() {
            service.item_list.clone_from(&info.item_list);
        }
    }

    fn apply_state(&mut self, id: u32, service: u16, state: Option<&ServiceState>) {
        let Some(offer) = self.session_mut(id).and_then(|session| session.offer_mut(service)) else { return };
        if let Some(state) = state {
            offer.up = state.up;
            offer.accepting = state.accepting_requests.unwrap_or(true);
        }
    }

    fn apply_load(&mut self, id: u32, service: u16, load: &Load) {
        let Some(offer) = self.session_mut(id).and_then(|session| session.offer_mut(service)) else { return };
        offer.open_limit = load.open_limit.or(offer.open_limit);
        offer.open_window = load.open_window.or(offer.open_window);
        offer.load_factor = load.load_factor.unwrap_or(offer.load_factor);
    }

    /// A transient state for all items that a session has open for a service.
    fn service_status(&mut self, now: u64, id: u32, service: u16, state: State<'_>) {
        if state.stream.is_final() {
            self.recover_group(now, id, service, None, state);
            return;
        }
        let state = open(state);
        let members = self.note_state(id, service, None, state);
        // Items that are open elsewhere, or lost and not back, have nothing to do with what this provider says.
        let all = self
            .services
            .get(service)
            .is_some_and(|known| known.lost_items == 0 && known.providers.iter().all(|&other| other == id));
        if all {
            self.hub.event(&Event::ServiceStatus { service, state });
        } else {
            self.tell_members(&members, state);
        }
    }

    /// Publishes a transient state for each of these.
    fn tell_members(&mut self, members: &[u32], state: State<'_>) {
        for &handle in members {
            if self.items.get(handle).is_some_and(|item| item.interest != 0) {
                self.publish_status(handle, ALL, 0, state);
            }
        }
    }

    /// Status and merger of a group, in this order.
    fn group_entry(&mut self, now: u64, id: u32, service: u16, entry: &Group) {
        let Some(session) = self.session_mut(id) else { return };
        let Some(group) = session.known_group(service, &entry.group) else { return };
        let merged_to = entry.merged_to.as_deref().filter(|to| *to != entry.group);
        let group = self.current_group(group);
        let state = entry.status.as_ref().map(|status| status.as_state());
        if let Some(state) = state.filter(|state| state.stream.is_final()) {
            self.recover_group(now, id, service, Some(group), state);
        }
        let state = state.filter(|state| !state.stream.is_final()).map(open);
        let members = state.map(|state| self.note_state(id, service, Some(group), state)).unwrap_or_default();
        let merged_to = merged_to.and_then(|to| {
            let session = self.sessions.get_mut(id as usize)?.as_mut()?;
            let into = session.group(service, to, &mut self.next_group);
            session.forget_group(service, &entry.group);
            Some(into)
        });
        let merged_to = merged_to.map(|to| self.current_group(to)).filter(|&to| to != group);
        if let Some(to) = merged_to {
            self.merged_groups.insert(group, to);
        }
        // Members that are lost are still members to a P2PS, but the state is not theirs.
        let apart = state.filter(|_| self.services.get(service).is_some_and(|known| known.lost_items > 0));
        if let Some(state) = apart {
            self.tell_members(&members, state);
        }
        let state = state.filter(|_| apart.is_none());
        if state.is_some() || merged_to.is_some() {
            self.hub.event(&Event::GroupStatus { service, group, state, merged_to });
        }
    }

    /// The members of a service or group that a session has open; remembers of each whether it was told to be Suspect.
    fn note_state(&mut self, id: u32, service: u16, group: Option<u32>, state: State<'_>) -> Vec<u32> {
        let Some(session) = self.session(id) else { return Vec::new() };
        let mut members: Vec<u32> = session.streams.iter().map(|(_, handle)| handle).collect();
        members.retain(|&handle| {
            self.items.get(handle).is_some_and(|item| {
                let in_group = group.is_none_or(|group| self.current_group(item.group) == group);
                item.service == service && in_group && item.has(Bits::ANSWERED) && !item.has(Bits::LOST)
            })
        });
        if state.data != rwf::DataState::NO_CHANGE {
            for &handle in &members {
                if let Some(item) = self.items.get_mut(handle) {
                    item.bits.set(Bits::SUSPECT, state.data == rwf::DataState::SUSPECT);
                }
            }
        }
        members
    }

    /// The provider has closed all items of a service, or of a group of it, and they are to be recovered.
    fn recover_group(&mut self, now: u64, id: u32, service: u16, group: Option<u32>, state: State<'_>) {
        let Some(session) = self.session(id) else { return };
        let published = session.origin == Origin::NonInteractive;
        let mut handles: Vec<u32> =
            if published { self.published_at(id, service) } else { session.streams.iter().map(|(_, h)| h).collect() };
        handles.retain(|&handle| {
            self.items.get(handle).is_some_and(|item| {
                let member = group.is_none_or(|group| self.current_group(item.group) == group);
                item.service == service && member && item.has(Bits::ANSWERED)
            })
        });
        let state = State { data: rwf::DataState::SUSPECT, ..state };
        if published {
            for handle in handles {
                self.publish_status(handle, ALL, 0, State { stream: StreamState::OPEN, ..state });
            }
            return;
        }
        for &handle in &handles {
            self.detach(now, handle);
        }
        for handle in handles {
            self.lose_item(handle, state.code, state.text);
            self.retry_later(now, handle);
        }
    }

    /// Tells the P2PSs of a service if what they know of it is out of date.
    pub(super) fn advertise(&mut self, id: u16) {
        let Some(service) = self.services.get(id) else { return };
        let offers = service
            .providers
            .iter()
            .filter_map(|&provider| self.session(provider).filter(|session| session.phase == Phase::Ready)?.offer(id));
        let (mut up, mut accepting) = (false, false);
        for offer in offers.filter(|offer| offer.up) {
            up = true;
            accepting |= offer.accepting && offer.open_window != Some(0);
        }
        // What is down waits here, and images that are held can be had at any time.
        let state = (up, accepting || !up || service.cached);
        // One that is new waits for the dictionaries of the first provider that has them all.
        let ready = |&id: &u32| self.session(id).is_some_and(|session| !session.downloads.is_awaited());
        let wanted = service.advertised || service.providers.iter().any(ready);
        let news = !service.advertised || service.stale || service.state != state;
        if !wanted || !news {
            return;
        }
        if let Some(service) = self.services.get_mut(id) {
            service.state = state;
            service.stale = false;
            service.advertised = true;
        }
        self.publish_service(id, ALL);
    }

    /// Sends what there is to know of a service: never what a provider said of itself, but what holds for all of them.
    pub(super) fn publish_service(&mut self, id: u16, target: u16) {
        let Some(service) = self.services.get(id) else { return };
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
            qos: if service.qos.is_empty() { vec![Qos::REALTIME_TICK] } else { service.qos.clone() },
            supports_qos_range: None,
            item_list: service.item_list.clone(),
            supports_out_of_band_snapshots: Some(true),
            accepting_consumer_status: Some(false),
        };
        let (up, accepting) = service.state;
        let state = ServiceState { up, accepting_requests: Some(accepting), status: None };
        let entry = Entry { info: Some(Part::Set(info)), state: Some(Part::Set(state)), ..Entry::new(id, Action::Add) };
        let Ok(filters) = self.scratch.write(|w| entry.encode_filters(filter::ALL, w)) else { return };
        let (cached, name) = (service.cached, service.name.as_str());
        self.hub.event(&Event::Service { target, service: id, cached, name, filters });
    }
}

/// A transient state that leaves streams open; a provider may have sent no more than a data state.
fn open(state: State<'_>) -> State<'_> {
    let stream = if state.stream == StreamState::NON_STREAMING { state.stream } else { StreamState::OPEN };
    let data = rwf::DataState(state.data.0.min(rwf::DataState::SUSPECT.0));
    State { stream, data, ..state }
}
