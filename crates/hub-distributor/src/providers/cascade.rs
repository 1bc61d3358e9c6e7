//! Services that come through other sites, and those that would come back to this one.
//!
//! A Source Distributor may have a P2PS of another site as its provider. Each site names those that a service came through, itself first,
//! in the LINK filter of its directory (RDM usage guide, source directory: the links from which a service comes). A service that has come
//! through this site already is not taken: sites would hold each other's word for it when nobody has it any more, and its items would wait
//! in a circle.

use super::Providers;
use super::linked_services::Way;
use super::session::Offer;
use crate::Config;
use crate::config::Balance;
use crate::timers::Timer;
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::rdm::directory::{Action, Info, Part, Service as Entry, ServiceState};

/// How long a service has to come another way before it is taken again, nanoseconds; up to twice as long at some sites, so that two sites
/// that leave each other's service at once do not take it again at once.
const CLEAR_FOR: u64 = 5_000_000_000;

impl Providers {
    /// The provider's entry of a service, with what it has said of it before, as if the service was new.
    fn whole_entry(&self, id: SessionId, entry: &Entry) -> Entry {
        let mut whole = Entry::new(entry.id, Action::Add);
        if let Some(offer) = self.sessions[id].offer_by_id(entry.id) {
            whole.info = Some(Part::Set(Info {
                name: self.services[offer.service].name.clone(),
                capabilities: offer.domains.iter().map(rwf::msg::Domain).collect(),
                qos: offer.qos.clone(),
                ..Info::default()
            }));
            let (up, accepting_requests) = (offer.up, Some(offer.accepting));
            whole.state = Some(Part::Set(ServiceState { up, accepting_requests, status: None }));
        }
        let change = Entry { action: Action::Update, ..entry.clone() };
        whole.apply(&change);
        whole
    }

    /// Notes through which sites a service of a provider has come.
    pub(super) fn note_path(&mut self, id: SessionId, service: u16, provider_id: u16) {
        let session = &mut self.sessions[id];
        let path = session.linked.path(provider_id);
        if let Some(offer) = session.offer_mut(service) {
            offer.path = path;
        }
    }
}

impl Config {
    /// How long a service has to come another way at this site.
    fn clear_for(&self) -> u64 {
        let mixed = self.site.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        CLEAR_FOR + mixed % 1_000 * (CLEAR_FOR / 1_000)
    }

    /// The sites through which a service comes to whoever asks here: this one, and those of the providers that are asked.
    pub(super) fn path_of<'a>(&self, offers: impl Iterator<Item = &'a Offer>) -> Vec<String> {
        let mut path = vec![self.site.clone()];
        if self.site.is_empty() {
            return Vec::new();
        }
        let asked = match self.balance {
            Balance::First => 1,
            Balance::Hot => 2,
            Balance::Load => usize::MAX,
        };
        for site in
            offers.filter(|offer| offer.takes_requests() == (true, true)).take(asked).flat_map(|offer| &offer.path)
        {
            if !path.contains(site) {
                path.push(site.clone());
            }
        }
        path
    }
}

impl SourceDistributor {
    /// Whether what a provider says of a service may be taken. A service that has come through this site may not.
    pub(super) fn may_take(&mut self, id: SessionId, entry: &Entry, out: &mut dyn ProviderSink) -> bool {
        if self.config.site.is_empty() {
            return true;
        }
        let linked = &mut self.providers.sessions[id].linked;
        if entry.action == Action::Delete {
            return linked.remove(entry.id);
        }
        if !linked.apply(entry) {
            if entry.links.is_none()
                || entry.name().is_some_and(|name| !self.providers.is_wanted(&self.config, id, name))
            {
                return true;
            }
            let whole = self.providers.whole_entry(id, entry);
            self.providers.sessions[id].linked.insert(whole);
        }
        let session = &mut self.providers.sessions[id];
        match session.linked.judge(self.now, entry.id, &self.config.site) {
            Way::Taken => true,
            Way::NotTaken => false,
            Way::ComesBack { service, through } => {
                let provider = session.peer.address.clone();
                let offered = session.offer_by_id(entry.id).map(|offer| offer.service);
                self.notices.push(Notice::ServiceComesBack { service, provider, through });
                if let Some(service) = offered {
                    self.take_no_more(id, service, out);
                }
                false
            }
            Way::Clears => {
                let timer = Timer::Link(id, session.serial, entry.id);
                self.timers.set(self.now.saturating_add(self.config.clear_for()), timer);
                false
            }
        }
    }

    /// A service that came through this site may have come another way for long enough.
    pub(crate) fn link_timer(&mut self, id: SessionId, provider_id: u16, out: &mut dyn ProviderSink) {
        let clear_for = self.config.clear_for();
        let taken = self.providers.sessions[id].linked.take_when_clear(self.now, provider_id, clear_for);
        if let Some(entry) = taken.cloned() {
            self.service_entry(id, &entry, out);
        }
    }
}
