//! The directory as clients see it: one entry a service, whoever provides it.

use super::refusal::Refusal;
use super::streams::{Open, WatchState};
use super::{ADMINISTRATIVE_MAX, Clients, DirectoryStream};
use crate::cascade;
use crate::delivery::deliveries::BodyId;
use crate::ids::{ClientId, GroupId, RemoteService, ServiceId, SourceId, StreamId};
use crate::items::telling::told;
use crate::sources::services::{Condition, Offer, Provider, Service};
use crate::sources::{Retold, Taken};
use crate::{Notice, P2ps};
use rwf::State;
use rwf::msg::{Domain, RequestFlags, RequestMsg};
use rwf::rdm::directory::{self, Action, Group, Part, Refresh, ServiceState, Update, filter};
use rwf::rdm::state::Recovery;

/// A change of one service, before it is cut to what each directory stream asked for.
struct Change {
    entry: directory::Service,
    /// Bits of the parts in it.
    parts: u32,
}

/// What makes an update of one directory stream the same as that of another.
type Variant = (u32, Option<ServiceId>, Recovery);

impl Clients {
    /// True if a client may have a directory or a dictionary on a stream: it has one there, or not too many of them.
    pub(super) fn may_have_another(&self, client: ClientId, stream: StreamId) -> bool {
        self.get(client).is_some_and(|known| {
            let open = known.directories.len() + known.dictionaries.len();
            open < ADMINISTRATIVE_MAX || known.streams.get(stream).is_some()
        })
    }
}

impl P2ps {
    /// A request of the source domain. Answered at once, services or none.
    pub(crate) fn directory_request(&mut self, client: ClientId, msg: &RequestMsg<'_>) {
        let stream = StreamId(msg.stream_id);
        let mut request = directory::Request::decode(msg);
        if msg.key.filter.is_none() {
            request.filter = filter::ALL;
        }
        if !self.clients.may_have_another(client, stream) {
            return self.refuse(client, stream, Domain::SOURCE, &Refusal::AdministrativeStreams);
        }
        let serial = self.clients.next_directory();
        let service = request.service_id.map(ServiceId);
        let wanted = DirectoryStream { stream, filter: request.filter, service, serial };
        let Some(known) = self.clients.get_mut(client) else {
            hub_items::fault!("a request of a client that is gone: {client:?}");
            return;
        };
        match known.streams.get(stream) {
            Some(Open::Directory) => {
                known.directories.retain(|open| open.stream != stream);
                known.directories.push(wanted);
                request.streaming = true;
            }
            Some(_) => return self.refuse(client, stream, Domain::SOURCE, &Refusal::StreamInUse { stream: stream.0 }),
            None if stream.0 <= 0 => {
                return self.refuse(client, stream, Domain::SOURCE, &Refusal::BadStreamId { stream: stream.0 });
            }
            None if request.streaming => {
                known.streams.insert(stream, Open::Directory, WatchState::default());
                known.directories.push(wanted);
            }
            None => {}
        }
        if msg.flags.contains(RequestFlags::NO_REFRESH) {
            return;
        }
        let services = self
            .sources
            .services()
            .iter()
            .filter(|service| service.alive && wanted.service.is_none_or(|only| only == service.id))
            .filter(|service| self.shows(client, service.id))
            .map(|service| whole_entry(service).entry)
            .collect();
        let refresh = Refresh::answer(&request, services);
        let before = self.output.body_bytes();
        self.send(client, stream, |w| refresh.encode(w));
        self.clients.backlogs.charge_answer(self.output.body_bytes() - before);
    }

    /// A source says what it has of a service: a new one, or a change.
    pub(crate) fn offer_service(
        &mut self,
        source: SourceId,
        remote: RemoteService,
        name: &str,
        entry: &directory::Service,
    ) {
        if !self.config.serves(name) {
            return;
        }
        // Without an id left the service is counted as refused, and operators are told, where ids are given.
        let Some(id) = self.id_of_service(name) else { return };
        // The Source Distributor may have given the id of a service that is gone to another, and this P2PS has not heard of that.
        let is_at = |provider: &Provider| (provider.source, provider.service) == (source, remote);
        let before = self.sources.service_of(source, remote).filter(|&before| before != id);
        let moved = before.filter(|&before| {
            self.sources.services().get(before).is_some_and(|service| service.providers.iter().any(is_at))
        });
        if let Some(before) = moved {
            self.withdraw_service(before, source);
        }
        self.finish_outages_before(id, source);
        self.finish_leaving(source, Some(id));
        if let Some(source) = self.sources.up_mut(source) {
            source.services.insert(remote, id);
        }
        let taken = self.sources.take_offer(id, (source, remote), Offer::of(entry), self.config.conflation.of(name));
        let Some(Taken { is_new, grown, took_requests }) = taken else {
            hub_items::fault!("a service that has an id: {id:?}");
            return;
        };
        if is_new {
            let told = self.sources.note_told(id, self.load.factor(), &self.config);
            let change = told.map(|told| whole_entry(told.service));
            self.output.notice(Notice::ServiceUp { service: name.to_owned() });
            if let Some(change) = change {
                self.broadcast(id, &change, None);
            }
        } else {
            if grown && let Some(service) = self.sources.services().get(id) {
                let mut entry = directory::Service::new(id.0, Action::Update);
                entry.info = Some(Part::Set(service.info.clone()));
                self.broadcast(id, &Change { entry, parts: filter::INFO }, None);
            }
            self.service_changed(id, None);
        }
        self.leave_down_sources(id);
        self.note_first_source(id);
        self.unpark(id);
        if !took_requests {
            self.want_mirrors(id);
        }
    }

    /// Tells clients the state and load of a service if they have changed, and a transient status if there is one.
    pub(crate) fn service_changed(&mut self, id: ServiceId, status: Option<State<'_>>) {
        let told = self.sources.note_told(id, self.load.factor(), &self.config);
        // A service that is gone was told of as such, and what comes later of it concerns nobody.
        let Some(Retold { service, before, has_other_links }) = told else { return };
        let condition = service.told;
        if before.up != condition.up {
            self.output.notice(Notice::ServiceState { service: service.name.clone(), up: condition.up });
        }
        let mut entry = directory::Service::new(id.0, Action::Update);
        let mut parts = 0;
        if (before.up, before.accepting) != (condition.up, condition.accepting) || status.is_some() {
            entry.state = Some(Part::Update(state_of(&condition)));
            parts |= filter::STATE;
        }
        if before.load != condition.load {
            // A load factor that is not told any more is taken back by an entry with all that there is now.
            let is_taken_back = before.load.load_factor.is_some() && condition.load.load_factor.is_none();
            let part = if is_taken_back { Part::Set } else { Part::Update };
            entry.load = Some(part(condition.load));
            parts |= filter::LOAD;
        }
        if has_other_links {
            // The last one may be gone.
            entry.links = cascade::links(&service.told_path, &service.told_lines).or(Some(Part::Clear));
            parts |= filter::LINK;
        }
        if parts != 0 {
            self.broadcast(id, &Change { entry, parts }, status);
        }
    }

    /// A transient status for all items of a service.
    pub(crate) fn relay_service_status(&mut self, id: ServiceId, state: State<'_>) {
        self.service_changed(id, Some(state));
    }

    /// A transient status for a group, its merger into another, or both.
    pub(crate) fn relay_group_status(
        &mut self,
        id: ServiceId,
        group: GroupId,
        state: Option<State<'_>>,
        merged_to: Option<GroupId>,
    ) {
        let mut entry = directory::Service::new(id.0, Action::Update);
        entry.groups.push(Part::Update(Group {
            group: group.as_bytes().to_vec(),
            merged_to: merged_to.map(|to| to.as_bytes().to_vec()),
            status: None,
        }));
        self.broadcast(id, &Change { entry, parts: filter::GROUP }, state);
    }

    /// Clients know a service no more.
    pub(crate) fn delete_service(&mut self, id: ServiceId) {
        if self.sources.delete_service(id, self.now) {
            self.broadcast(id, &Change { entry: directory::Service::delete(id.0), parts: 0 }, None);
        }
    }

    /// Sends every directory stream that covers a service what has changed of it, as far as its filter goes. A status is
    /// turned to each client's recovery policy.
    fn broadcast(&mut self, id: ServiceId, change: &Change, status: Option<State<'_>>) {
        // A client may apply it to its items by itself: what they have to get before comes before.
        self.release_every();
        let mut bodies: Vec<(Variant, Option<BodyId>)> = Vec::new();
        for client in self.clients.ids() {
            let Some(known) = self.clients.get(client).filter(|known| !known.directories.is_empty()) else { continue };
            if (self.gate.is_on() || !known.hidden_groups.is_empty()) && !self.shows(client, id) {
                continue;
            }
            let policy = known.policy;
            for open in known.directories.clone() {
                let whole = change.entry.action != Action::Update;
                if open.service.is_some_and(|only| only != id) || !(whole || open.filter & change.parts != 0) {
                    continue;
                }
                // Bits that mean nothing make no difference.
                let variant = (open.filter & filter::ALL, open.service, policy);
                let known = bodies.iter().find(|(known, _)| *known == variant).map(|(_, body)| *body);
                let body = known.unwrap_or_else(|| {
                    let body = self.update_body(change, &open, policy, status);
                    bodies.push((variant, body));
                    body
                });
                if let Some(body) = body {
                    self.output.deliver(body, client, open.stream);
                }
            }
        }
    }

    /// Rights have changed: a client's directories show a service from now on, or no more.
    pub(crate) fn tell_service(&mut self, client: ClientId, id: ServiceId, shown: bool) {
        // A service that is gone is in no directory any more.
        let Some(service) = self.sources.services().alive(id) else { return };
        let gone = || Change { entry: directory::Service::delete(id.0), parts: 0 };
        let change = if shown { whole_entry(service) } else { gone() };
        let Some(known) = self.clients.get(client) else {
            hub_items::fault!("a directory of a client that is gone: {client:?}");
            return;
        };
        let policy = known.policy;
        for open in known.directories.clone() {
            if open.service.is_none_or(|only| only == id)
                && let Some(body) = self.update_body(&change, &open, policy, None)
            {
                self.output.deliver(body, client, open.stream);
            }
        }
    }

    fn update_body(
        &mut self,
        change: &Change,
        open: &DirectoryStream,
        policy: Recovery,
        status: Option<State<'_>>,
    ) -> Option<BodyId> {
        let mut entry = change.entry.clone();
        let status = status.map(|status| told(policy, false, status).into());
        if let Some(Part::Set(state) | Part::Update(state)) = &mut entry.state {
            state.status = status;
        } else if let Some(Part::Update(group)) = entry.groups.first_mut() {
            group.status = status;
        }
        let parts = if entry.action == Action::Update { change.parts & open.filter } else { open.filter };
        let update = Update {
            stream_id: open.stream.0,
            service_id: open.service.map(|service| service.0),
            filter: Some(parts),
            services: vec![entry],
            ..Update::default()
        };
        self.body(1024, |w| update.encode(w))
    }
}

fn state_of(condition: &Condition) -> ServiceState {
    ServiceState { up: condition.up, accepting_requests: Some(condition.accepting), status: None }
}

/// Everything there is to say of a service.
fn whole_entry(service: &Service) -> Change {
    let mut entry = directory::Service::new(service.id.0, Action::Add);
    entry.info = Some(Part::Set(service.info.clone()));
    entry.state = Some(Part::Set(state_of(&service.told)));
    let mut parts = filter::INFO | filter::STATE;
    if service.told.load != directory::Load::default() {
        entry.load = Some(Part::Set(service.told.load));
        parts |= filter::LOAD;
    }
    entry.links = cascade::links(&service.told_path, &service.told_lines);
    if entry.links.is_some() {
        parts |= filter::LINK;
    }
    Change { entry, parts }
}
