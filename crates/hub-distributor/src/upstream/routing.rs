//! Which provider is asked for an item.

use crate::Config;
use crate::ids::Handle;
use crate::item::{ItemKey, KeyQos};
use crate::items::{Item, Items};
use crate::providers::{Offer, Phase, Providers, Session};
use crate::status_texts::StatusTexts;
use crate::{SessionId, SourceDistributor};
use rwf::{Qos, StateCode};

/// Why an item cannot be asked for at a provider now. In order: what the best provider lacks counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// The provider's open window is full; it will not take long.
    Window,
    OpenLimit,
    /// Its load is above what is allowed.
    Load,
    NotAccepting,
    Down,
    /// None offers it.
    NoProvider,
}

impl Wait {
    /// The status text for consumers. The window is a matter of moments, nobody is told.
    pub(super) fn text(self, texts: StatusTexts) -> Option<(StateCode, &'static str)> {
        match self {
            Self::Window => None,
            Self::OpenLimit => {
                Some((StateCode::TOO_MANY_ITEMS, "Provider's open limit is reached: waiting for an item to be closed"))
            }
            Self::Load => Some((StateCode::NONE, "Provider's load is at its limit (maxLoadLevel): waiting for it")),
            Self::NotAccepting => Some((StateCode::NONE, "Provider accepts no requests now: waiting for it")),
            Self::Down => Some((
                StateCode::NONE,
                match texts {
                    StatusTexts::Own => "Service is down: waiting for it",
                    StatusTexts::Rtds => "F10: Service down: waiting for it",
                },
            )),
            Self::NoProvider => Some((StateCode::NONE, "No provider offers this item now: waiting for one")),
        }
    }
}

impl Providers {
    /// Whether the items of a service fare alike: it has one provider, that is not at its limit for streams only.
    pub(super) fn is_simple(&self, config: &Config, service: u16) -> bool {
        let &[only] = self[service].providers() else { return false };
        self.offer(only, service).is_some_and(|offer| {
            let place = self[only].place(config, offer, true);
            matches!(place, Err(Wait::Window | Wait::NotAccepting | Wait::Down)) || self.is_overloaded(config, offer)
        })
    }

    /// Whether a provider says more load of a service than is allowed.
    fn is_overloaded(&self, config: &Config, offer: &Offer) -> bool {
        let most = self.rules(config, offer.service).max_load;
        most > 0 && offer.load_factor > u64::from(most)
    }

    /// The provider to ask for an item, of those that may be asked; one that is silent only if there is no other.
    fn route_among(
        &self,
        (config, items): (&Config, &Items),
        item: &Item,
        may: &dyn Fn(SessionId) -> bool,
    ) -> Result<SessionId, Wait> {
        match self.route_of((config, items), item, may, false) {
            Err(wait) if wait != Wait::Window => self.route_of((config, items), item, may, true),
            route => route,
        }
    }

    /// The provider to ask for an item, of those that may be asked and, unless `even_silent`, are not silent.
    fn route_of(
        &self,
        (config, items): (&Config, &Items),
        item: &Item,
        may: &dyn Fn(SessionId) -> bool,
        even_silent: bool,
    ) -> Result<SessionId, Wait> {
        let qos = ItemKey::qos_of(item.key());
        let mut best: Option<((u16, u32, u64, u32), SessionId)> = None;
        // The member of a group that items wait a moment for: later ones are not there for that.
        let mut full: Option<u16> = None;
        let mut wait = Wait::NoProvider;
        let known = &self[item.service()];
        let counts_unwatched = self.rules(config, item.service()).counts_unwatched;
        for &id in known.providers().iter().filter(|&&id| may(id)) {
            let Some(session) = self.get(id).filter(|session| session.phase == Phase::Ready) else {
                continue;
            };
            let route = config.route(session.origin);
            let Some(offer) = Some(session)
                .filter(|_| route.is_none_or(|route| route.has_item_of(item.key())))
                .and_then(|session| session.offer(item.service()))
                .filter(|offer| offer.serves(item.domain(), qos))
                .filter(|offer| even_silent || !offer.flow.is_interrupted())
            else {
                continue;
            };
            let member = offer.member.map_or(0, |member| member.place);
            if full.is_some_and(|full| member > full) && best.is_none() {
                break;
            }
            let is_preferred = config.balance.is_ordered() || known.switched_to() == Some(id);
            let place = session.place(config, offer, item.is_snapshot());
            let is_overloaded = place.is_ok() && self.is_overloaded(config, offer);
            let place = if is_overloaded { Err(Wait::Load) } else { place };
            if let Err(reason) = place {
                wait = wait.min(reason);
                full = full.or((reason == Wait::Window).then_some(member));
                // Providers behind this one stand by, and are not there for what has to wait a moment.
                if is_preferred && reason == Wait::Window && best.is_none() {
                    break;
                }
                continue;
            }
            let cost = route.map_or(0, |route| route.server_cost);
            let idle = if counts_unwatched { 0 } else { items.unwatched_at(id, item.service()) };
            let load = (member, cost, offer.load_factor, (offer.open + offer.outstanding).saturating_sub(idle));
            if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, id));
            }
            if is_preferred {
                break;
            }
        }
        best.map(|(_, id)| id).ok_or(wait)
    }
}

impl SourceDistributor {
    /// The provider to ask for an item: another than the one that has failed it last, and than those that are silent, if there is one.
    pub(super) fn route(&self, handle: Handle) -> Result<SessionId, Wait> {
        let (item, failed) = (&self.items[handle], self.upstream.failed_at.get(&handle).copied());
        let known = (&self.config, &self.items);
        match self.providers.route_among(known, item, &|id| Some(id) != failed) {
            Err(_) if failed.is_some() => self.providers.route_among(known, item, &|_| true),
            route => route,
        }
    }

    /// Whether another provider than one would be asked for an item, now or in a moment: one that is silent, if `even_silent`.
    pub(crate) fn is_served_beside(&self, handle: Handle, without: SessionId, even_silent: bool) -> bool {
        let item = &self.items[handle];
        let may = |id| id != without;
        let route = if even_silent {
            self.providers.route_among((&self.config, &self.items), item, &may)
        } else {
            self.providers.route_of((&self.config, &self.items), item, &may, false)
        };
        matches!(route, Ok(_) | Err(Wait::Window))
    }

    /// The providers of an item that are at their limit.
    pub(super) fn full_providers(&self, handle: Handle) -> Vec<SessionId> {
        let item = &self.items[handle];
        let qos = ItemKey::qos_of(item.key());
        let is_full = |id: &SessionId| {
            let session = self.providers.get(*id).filter(|session| session.phase == Phase::Ready)?;
            let has_item = self.config.route(session.origin).is_none_or(|route| route.has_item_of(item.key()));
            let offer = session.offer(item.service()).filter(|offer| has_item && offer.serves(item.domain(), qos))?;
            let place = session.place(&self.config, offer, item.is_snapshot());
            Some(place == Err(Wait::OpenLimit))
        };
        let providers = self.providers[item.service()].providers().iter().copied();
        providers.filter(|id| is_full(id) == Some(true)).collect()
    }

    /// The provider that stands by for an item which is open at another.
    pub(crate) fn standby_for(&self, handle: Handle, used: SessionId) -> Result<SessionId, Wait> {
        let origin = |id| self.providers.get(id).map(|session| session.origin);
        let of_used = origin(used);
        let is_pair = |id| of_used.zip(origin(id)).is_some_and(|(used, other)| self.config.are_a_pair(used, other));
        let may = |id| id != used && is_pair(id);
        self.providers.route_among((&self.config, &self.items), &self.items[handle], &may)
    }
}

impl Session {
    /// Whether the provider has a place for another item of a service.
    fn place(&self, config: &Config, offer: &Offer, snapshot: bool) -> Result<(), Wait> {
        let most = config.route(self.origin).map_or(0, |route| route.max_items);
        offer.place(self.used(offer), snapshot, (config.open_window, most))
    }
}

impl Offer {
    /// Whether the provider has this domain in this quality.
    fn serves(&self, domain: u8, qos: KeyQos) -> bool {
        let quality = qos == KeyQos::default()
            || self.qos.iter().any(|&offered| KeyQos::from(offered) == qos)
            || (self.qos.is_empty() && KeyQos::from(Qos::REALTIME_TICK) == qos);
        quality && self.domains.contains(domain)
    }

    /// Whether another request fits beside those that are used: not answered, open, snapshots among both. Of its route: the window where the
    /// provider states none, and the most items (0 for any number).
    fn place(&self, used: (u32, u32, u32), snapshot: bool, (default_window, most): (u32, u32)) -> Result<(), Wait> {
        let (outstanding, open, snapshots) = used;
        let window = self.open_window.unwrap_or(u64::from(default_window));
        let most = if most == 0 { u64::MAX } else { u64::from(most) };
        let is_beyond = snapshot && self.snapshots_beyond_limit;
        let limit = if is_beyond { u64::MAX } else { self.open_limit.unwrap_or(u64::MAX).min(most) };
        let free = if self.snapshots_beyond_limit { snapshots } else { 0 };
        let counted = (open + outstanding).saturating_sub(free);
        if !self.up {
            Err(Wait::Down)
        } else if !self.accepting || window == 0 || self.rests_until.is_some() {
            Err(Wait::NotAccepting)
        } else if u64::from(counted) >= limit {
            Err(Wait::OpenLimit)
        } else if u64::from(outstanding) >= window || !self.is_settled() {
            Err(Wait::Window)
        } else {
            Ok(())
        }
    }
}
