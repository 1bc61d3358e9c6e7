//! The directory as clients see it: one entry a service, whoever provides it.

use super::P2ps;
use super::client::DirectoryStream;
use super::items::ServiceId;
use super::notice::Notice;
use super::refusal::Refusal;
use super::services::{Condition, Offer, Provider, Service};
use super::statuses::{GroupId, told};
use super::streams::Open;
use super::turn::BodyId;
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
type Variant = (u32, Option<u16>, Recovery);

impl P2ps {
    /// A request of the source domain. Answered at once, services or none.
    pub(super) fn directory_request(&mut self, client: u32, msg: &RequestMsg<'_>) {
        let stream = msg.stream_id;
        let mut request = directory::Request::decode(msg);
        if msg.key.filter.is_none() {
            request.filter = filter::ALL;
        }
        let wanted = DirectoryStream { stream, filter: request.filter, service: request.service_id };
        let Some(known) = self.client_mut(client) else { return };
        match known.streams.get(stream) {
            Some(Open::Directory) => {
                known.directories.retain(|open| open.stream != stream);
                known.directories.push(wanted);
                request.streaming = true;
            }
            Some(_) => return self.refuse(client, stream, Domain::SOURCE, &Refusal::StreamInUse { stream }),
            None if stream <= 0 => {
                return self.refuse(client, stream, Domain::SOURCE, &Refusal::BadStreamId { stream });
            }
            None if request.streaming => {
                known.streams.insert(stream, Open::Directory, 0);
                known.directories.push(wanted);
            }
            None => {}
        }
        if msg.flags.contains(RequestFlags::NO_REFRESH) {
            return;
        }
        let services = self
            .services
            .iter()
            .filter(|service| service.alive && wanted.service.is_none_or(|only| only == service.id))
            .map(|service| whole_entry(service).entry)
            .collect();
        let refresh = Refresh::answer(&request, services);
        self.send(client, stream, |w| refresh.encode(w));
    }

    /// A source says what it has of a service: a new one, or a change.
    pub(super) fn offer_service(&mut self, source: u16, remote: u16, name: &str, entry: &directory::Service) {
        let Some(id) = self.services.id_of(name) else { return };
        if let Some(source) = self.source_mut(source) {
            source.services.insert(remote, id);
        }
        let offer = Offer::of(entry);
        let Some(service) = self.services.get_mut(id) else { return };
        let is_new = !service.alive;
        if is_new {
            service.info = directory::Info::default();
        }
        let grown = service.widen(&offer.info);
        match service.providers.iter_mut().find(|provider| provider.source == source) {
            Some(provider) => (provider.service, provider.offer) = (remote, offer),
            None => service.providers.push(Provider { source, service: remote, offer }),
        }
        service.providers.sort_by_key(|provider| provider.source);
        service.alive = true;
        let condition = service.condition(&self.sources);
        if is_new {
            service.told = condition;
            let change = whole_entry(service);
            self.notices.push(Notice::ServiceUp { service: name.to_owned() });
            self.broadcast(id, &change, None);
        } else {
            if grown {
                let mut entry = directory::Service::new(id, Action::Update);
                entry.info = Some(Part::Set(service.info.clone()));
                self.broadcast(id, &Change { entry, parts: filter::INFO }, None);
            }
            self.service_changed(id, None);
        }
        self.unpark(id);
    }

    /// Tells clients the state and load of a service if they have changed, and a transient status if there is one.
    pub(super) fn service_changed(&mut self, id: ServiceId, status: Option<State<'_>>) {
        let Some(service) = self.services.get_mut(id).filter(|service| service.alive) else { return };
        let condition = service.condition(&self.sources);
        let before = std::mem::replace(&mut service.told, condition);
        let mut entry = directory::Service::new(id, Action::Update);
        let mut parts = 0;
        if (before.up, before.accepting) != (condition.up, condition.accepting) || status.is_some() {
            entry.state = Some(Part::Update(state_of(&condition)));
            parts |= filter::STATE;
        }
        if before.load != condition.load {
            entry.load = Some(Part::Update(condition.load));
            parts |= filter::LOAD;
        }
        if parts != 0 {
            self.broadcast(id, &Change { entry, parts }, status);
        }
    }

    /// A transient status for all items of a service.
    pub(super) fn relay_service_status(&mut self, id: ServiceId, state: State<'_>) {
        self.service_changed(id, Some(state));
    }

    /// A transient status for a group, its merger into another, or both.
    pub(super) fn relay_group_status(
        &mut self,
        id: ServiceId,
        group: GroupId,
        state: Option<State<'_>>,
        merged_to: Option<GroupId>,
    ) {
        let mut entry = directory::Service::new(id, Action::Update);
        entry.groups.push(Part::Update(Group {
            group: group.as_bytes().to_vec(),
            merged_to: merged_to.map(|to| to.as_bytes().to_vec()),
            status: None,
        }));
        self.broadcast(id, &Change { entry, parts: filter::GROUP }, state);
    }

    /// Clients know a service no more.
    pub(super) fn delete_service(&mut self, id: ServiceId) {
        let Some(service) = self.services.get_mut(id).filter(|service| service.alive) else { return };
        service.alive = false;
        service.providers.clear();
        service.told = Condition::default();
        self.broadcast(id, &Change { entry: directory::Service::delete(id), parts: 0 }, None);
    }

    /// Sends every directory stream that covers a service what has changed of it, as far as its filter goes. A status is
    /// turned to each client's wishes.
    fn broadcast(&mut self, id: ServiceId, change: &Change, status: Option<State<'_>>) {
        let mut bodies: Vec<(Variant, Option<BodyId>)> = Vec::new();
        for slot in 0..self.clients.len() as u32 {
            let Some(client) = self.client(slot) else { continue };
            let policy = client.policy;
            for at in 0..self.client(slot).map_or(0, |client| client.directories.len()) {
                let Some(&open) = self.client(slot).and_then(|client| client.directories.get(at)) else { break };
                let whole = change.entry.action != Action::Update;
                if open.service.is_some_and(|only| only != id) || !(whole || open.filter & change.parts != 0) {
                    continue;
                }
                let variant = (open.filter, open.service, policy);
                let known = bodies.iter().find(|(known, _)| *known == variant).map(|(_, body)| *body);
                let body = known.unwrap_or_else(|| {
                    let body = self.update_body(change, &open, policy, status);
                    bodies.push((variant, body));
                    body
                });
                if let Some(body) = body {
                    self.turn.deliver(body, slot, open.stream);
                }
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
            stream_id: open.stream,
            service_id: open.service,
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
    let mut entry = directory::Service::new(service.id, Action::Add);
    entry.info = Some(Part::Set(service.info.clone()));
    entry.state = Some(Part::Set(state_of(&service.told)));
    let mut parts = filter::INFO | filter::STATE;
    if service.told.load != directory::Load::default() {
        entry.load = Some(Part::Set(service.told.load));
        parts |= filter::LOAD;
    }
    Change { entry, parts }
}
