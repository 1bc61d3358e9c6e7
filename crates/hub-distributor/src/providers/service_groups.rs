//! Service groups: one name over several services, in an order (RMDS `serviceGroupList`).
//!
//! A group is a service as any other to P2PSs and their clients. At each session it is bound to one of its members that the provider
//! offers: the session's offer of the group is a copy of its offer of that member, and items of the group are asked for there by the
//! member's id. Providers of a group are sorted by the member first, and by the order of the routes next; so items are asked for at the first
//! member that takes requests, and go to the next one when that is down, lost or withdrawn, as they go from one provider of a service to another.
//!
//! A session that offers several members stays with one of them as long as that is up there. A better one that comes back is taken when
//! it has been there for the time of the fail-back, or at once if no item of the group is there.
//!
//! Members are services of interactive providers, and stay services of their own.

use super::Providers;
use super::outage::By;
use super::session::{Member, Offer};
use crate::Config;
use crate::timers::Timer;
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::Qos;
use rwf::rdm::directory::{Part, Service as Entry};

impl Providers {
    /// The member that a session's offer of a group is bound to.
    fn bound(&self, id: SessionId, service: u16) -> Option<Member> {
        self.sessions.offer(id, service).filter(|offer| offer.is_offered())?.member
    }

    /// The members of a group that a session offers, in the group's order.
    fn offered_members(&self, config: &Config, id: SessionId, group: usize) -> impl Iterator<Item = (Member, &Offer)> {
        let members = (0_u16..).zip(&config.service_groups[group].members);
        members.filter_map(move |(place, name)| {
            let service = self.services.by_name(name)?;
            let offer = self.sessions.offer(id, service).filter(|offer| offer.is_offered())?;
            (!self.services[service].cached).then_some((Member { place, service }, offer))
        })
    }

    /// The member that a session should serve a group from: the first that takes requests, else the first that is up, else the first.
    fn best_member(&self, config: &Config, id: SessionId, group: usize) -> Option<Member> {
        let member = |(member, _)| member;
        let takes = |(_, offer): &(Member, &Offer)| offer.takes_requests() == (true, true);
        self.offered_members(config, id, group)
            .find(takes)
            .or_else(|| self.offered_members(config, id, group).find(|(_, offer)| offer.up))
            .or_else(|| self.offered_members(config, id, group).next())
            .map(member)
    }

    /// A session serves a group from this member from now on.
    fn bind(&mut self, id: SessionId, service: u16, member: Member) {
        // A member that is not offered any more serves nobody: the next look finds another.
        let Some(provider_id) = self.sessions.offer(id, member.service).map(|offer| offer.provider_id) else {
            return;
        };
        self.sessions[id].offers.offer_member(provider_id, service, member);
        self.services[service].place_provider(id, |id| self.sessions.rank(id, service));
    }

    /// Whether the items of a group may leave a provider for another: it serves them from a later member.
    pub(super) fn serves_later_member(&self, service: u16, id: SessionId, first: SessionId) -> bool {
        let place = |id| self.bound(id, service).map(|bound| bound.place);
        place(id) > place(first)
    }
}

impl Config {
    /// Whether a group has this name.
    pub(super) fn is_group_name(&self, name: &str) -> bool {
        self.service_groups.iter().any(|group| group.name == name)
    }
}

impl SourceDistributor {
    /// A provider offers a service whose name is a group's: it is not taken.
    pub(super) fn refuse_group_name(&mut self, id: SessionId, name: &str, entry: &Entry) {
        self.counters.refused_services += 1;
        let session = &mut self.providers.sessions[id];
        if session.note_refused(entry) {
            let (service, provider) = (name.to_owned(), session.peer.address.clone());
            self.notices.push(Notice::ServiceIsGroup { service, provider });
        }
    }

    /// What a session offers of a service has changed, by this entry if it is not withdrawn: so has what it offers of the groups that the
    /// service is a member of. `delete`: the provider has it no more.
    pub(crate) fn update_groups_of(
        &mut self,
        (id, member): (SessionId, u16),
        entry: Option<&Entry>,
        delete: bool,
        out: &mut dyn ProviderSink,
    ) {
        let known = &self.providers.services[member];
        if self.config.service_groups.is_empty() || known.cached || known.is_group {
            return;
        }
        let has = |group: &crate::ServiceGroup| group.members.contains(&known.name);
        let groups = self.config.service_groups.iter().enumerate().filter(|(_, group)| has(group));
        let groups: Vec<usize> = groups.map(|(index, _)| index).collect();
        for group in groups {
            self.update_group(id, group, delete, out);
            let is_of = |service: &u16| self.providers.bound(id, *service).is_some_and(|bound| bound.service == member);
            let service = self.providers.services.by_name(&self.config.service_groups[group].name).filter(is_of);
            if let (Some(service), Some(entry)) = (service, entry) {
                self.relay_states(id, service, entry, out);
            }
        }
    }

    /// What the entry of a member says of many items at once is said of the group's, too.
    fn relay_states(&mut self, id: SessionId, service: u16, entry: &Entry, out: &mut dyn ProviderSink) {
        for group in entry.groups.iter().filter_map(Part::value) {
            self.group_entry(id, service, group, out);
        }
        if let Some(status) = entry.state.as_ref().and_then(Part::value).and_then(|state| state.status.as_ref()) {
            self.service_status(id, service, status.as_state(), out);
        }
    }

    /// Binds a session's offer of a group to the member that it should be bound to, and copies that one's.
    fn update_group(&mut self, id: SessionId, group: usize, delete: bool, out: &mut dyn ProviderSink) {
        let best = self.providers.best_member(&self.config, id, group);
        let name = &self.config.service_groups[group].name;
        let known = self.providers.services.by_name(name);
        let service = match (known, best) {
            (None, None) => return,
            (Some(service), _) => service,
            (None, Some(_)) => {
                let Some(service) = self.providers.services.find_or_add(name, false) else {
                    self.counters.refused_services += 1;
                    return;
                };
                self.providers.services[service].is_group = true;
                service
            }
        };
        let bound = self.providers.bound(id, service);
        if !self.providers.services[service].is_group {
            // Images of before, from when the name was a service's: it is free when they are gone.
            return;
        }
        let target = match (bound, best) {
            (Some(bound), Some(best)) if self.stays_bound(id, service, bound, best) => Some(bound),
            (_, best) => best,
        };
        let stays = bound.filter(|bound| target.is_some_and(|target| target.service == bound.service));
        let before = stays.and_then(|_| self.providers.sessions.offer(id, service)).map(Offer::takes_requests);
        if let Some(bound) = bound
            && target.is_none_or(|target| target.service != bound.service)
        {
            let is_gone = !self.providers.offered_members(&self.config, id, group).any(|(member, _)| member == bound);
            let by = if is_gone { By::Provider } else { By::Group };
            self.begin_withdrawal(id, service, delete && target.is_none(), by);
        }
        if let Some(target) = target {
            if bound.is_none_or(|bound| bound.service != target.service) {
                self.providers.bind(id, service, target);
            }
            self.copy_offer(id, service, target, before, out);
        }
        self.work_outages(out);
    }

    /// Whether a session goes on with the member that it serves a group from, though another one is the best.
    fn stays_bound(&mut self, id: SessionId, service: u16, bound: Member, best: Member) -> bool {
        let is_up =
            self.providers.sessions.offer(id, bound.service).is_some_and(|offer| offer.is_offered() && offer.up);
        let has_items = self.items.at(id, service).len() + self.hot_standby.at(id, service).len() > 0;
        let failback = self.providers.rules(&self.config, service).failback;
        let session = &mut self.providers.sessions[id];
        if !is_up || !has_items || best.place >= bound.place {
            session.better_members.remove(&service);
            // A member that is up and takes no requests now has items still.
            return best.service == bound.service || is_up && has_items;
        }
        let (better, since) = *session.better_members.entry(service).or_insert((best, self.now));
        if better == best && since < self.now && failback > 0 && self.now - since >= failback {
            session.better_members.remove(&service);
            return false;
        }
        if better != best || since == self.now {
            session.better_members.insert(service, (best, self.now));
            if failback > 0 {
                self.timers.set(self.now.saturating_add(failback), Timer::Member(id, session.serial, service));
            }
        }
        true
    }

    /// A better member of a group may have been there for long enough.
    pub(crate) fn member_timer(&mut self, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        let name = self.providers.services.get(service).map(|known| known.name.as_str());
        let group = self.config.service_groups.iter().position(|group| Some(group.name.as_str()) == name);
        if let Some(group) = group {
            self.update_group(id, group, false, out);
        }
    }

    /// The operator hears from which member, and whose, a group is served, if that is news.
    pub(super) fn tell_served_from(&mut self, service: u16, first: Option<SessionId>) {
        // Only groups are served from members.
        let Some(known) = self.providers.services.get(service).filter(|known| known.is_group) else { return };
        // The group is served from nowhere: the operator hears that its service is down.
        let Some((first, bound)) = first.and_then(|first| Some((first, self.providers.bound(first, service)?))) else {
            return;
        };
        if known.served_from != Some((first, bound.service)) {
            let (group, served_from) = (known.name.clone(), self.providers.services[bound.service].name.clone());
            let provider = self.providers.sessions[first].peer.address.clone();
            self.notices.push(Notice::GroupServedFrom { group, served_from, provider });
            self.providers.services[service].served_from = Some((first, bound.service));
        }
    }

    /// What a session says of the member that it serves a group from holds for the group there. `before`: whether the group took requests
    /// there.
    fn copy_offer(
        &mut self,
        id: SessionId,
        service: u16,
        member: Member,
        before: Option<(bool, bool)>,
        out: &mut dyn ProviderSink,
    ) {
        let session = &mut self.providers.sessions[id];
        // A member that is withdrawn has nothing to be copied; nor is a group there that is.
        let Some(of) = session.offer(member.service).map(Offer::to_copy) else { return };
        let Some(offer) = session.offer_mut(service) else { return };
        offer.take_copy(of);
        let (after, domains, qos) = (offer.takes_requests(), offer.domains, offer.qos.clone());
        let (vendor, item_list) = (
            self.providers.services[member.service].vendor.clone(),
            self.providers.services[member.service].item_list.clone(),
        );
        let known = &mut self.providers.services[service];
        for quality in if qos.is_empty() { vec![Qos::REALTIME_TICK] } else { qos } {
            if !known.qos.contains(&quality) {
                known.qos.push(quality);
                known.stale = true;
            }
        }
        for domain in domains.iter() {
            known.stale |= known.domains.insert(domain);
        }
        if known.vendor.is_none() && vendor.is_some() || known.item_list.is_none() && item_list.is_some() {
            known.stale = true;
            (known.vendor, known.item_list) = (known.vendor.take().or(vendor), known.item_list.take().or(item_list));
        }
        if before != Some(after) {
            self.note_first_provider(service, out);
            self.leave_down_providers(service, out);
            self.want_mirrors(service);
        }
        self.advertise(service);
        self.providers.services[service].look_at_set_aside();
        self.send_queued(service, out);
    }
}
