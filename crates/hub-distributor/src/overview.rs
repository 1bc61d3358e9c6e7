//! The operator's view of a Source Distributor: its provider sessions and their services. Nothing here changes anything.

use super::ids::{Origin, SessionId};
use super::providers::Phase;
use super::{CloseReason, SourceDistributor};

/// A session with a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOverview<'a> {
    /// Which.
    pub id: SessionId,
    /// How it came about.
    pub origin: Origin,
    /// Address and port of the provider.
    pub address: &'a str,
    /// The operators' name of the provider beside its address; empty for nothing.
    pub server_id: &'a str,
    /// How far it has come: `logging in`, `logged in`, `ready`.
    pub phase: &'static str,
    /// The services that the session offers.
    pub services: Vec<OfferOverview<'a>>,
}

/// A service as one provider offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferOverview<'a> {
    /// The service's name.
    pub service: &'a str,
    /// `ServiceState`.
    pub up: bool,
    /// `AcceptingRequests`.
    pub accepting: bool,
    /// Items open there.
    pub open: u32,
    /// Requests that it has not answered.
    pub outstanding: u32,
    /// The service of the provider that a service group is served from there.
    pub member: Option<&'a str>,
    /// How loaded the provider says that it is (`LoadFactor`), up to 65,535; 0 if it says nothing.
    pub load_factor: u64,
    /// The provider should send data, and is silent.
    pub interrupted: bool,
}

/// A service over all providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOverview<'a> {
    /// The service's name.
    pub name: &'a str,
    /// Published by non-interactive providers: its images are held here.
    pub is_cached: bool,
    /// `ServiceState`, as P2PSs were told last.
    pub up: bool,
    /// `AcceptingRequests`, as P2PSs were told last.
    pub accepting: bool,
    /// The sessions that offer it; the first one that can serve is asked.
    pub providers: Vec<SessionId>,
    /// Items that wait for a provider.
    pub waiting: usize,
    /// Items that were told Suspect and are not back.
    pub lost: u32,
    /// The sites that it comes through, as P2PSs were told last: this one first.
    pub path: &'a [String],
}

impl SourceDistributor {
    /// Every session with a provider.
    pub fn session_overview(&self) -> impl Iterator<Item = SessionOverview<'_>> {
        self.providers.iter().map(|(id, session)| SessionOverview {
            id,
            origin: session.origin,
            address: &session.peer.address,
            server_id: self.config.server_id(session.origin),
            phase: match session.phase {
                Phase::LoggingIn => "logging in",
                Phase::LoggedIn => "logged in",
                Phase::Ready => "ready",
            },
            services: session
                .offers
                .iter()
                .map(|offer| OfferOverview {
                    service: self.providers.service(offer.service).map_or("", |service| service.name.as_str()),
                    up: offer.up,
                    accepting: offer.accepting,
                    open: offer.open,
                    outstanding: offer.outstanding,
                    load_factor: offer.load_factor,
                    member: offer.member.map(|member| self.providers[member.service].name.as_str()),
                    interrupted: offer.flow.is_interrupted(),
                })
                .collect(),
        })
    }

    /// Whether a provider has logged in here, or has taken our login.
    pub fn is_logged_in(&self, id: SessionId) -> bool {
        self.providers.get(id).is_some_and(|session| session.phase != Phase::LoggingIn)
    }

    /// Address and port of the provider of a session, while there is that session.
    pub fn session_address(&self, id: SessionId) -> Option<&str> {
        self.providers.get(id).map(|session| session.peer.address.as_str())
    }

    /// Every service that P2PSs know.
    pub fn service_overview(&self) -> impl Iterator<Item = ServiceOverview<'_>> {
        let known = self.providers.service_ids().filter_map(|id| Some((id, self.providers.service(id)?)));
        known.filter(|(_, service)| service.advertised).map(|(id, service)| ServiceOverview {
            name: &service.name,
            is_cached: service.cached,
            up: service.state.0,
            accepting: service.state.1,
            providers: service.providers().to_vec(),
            waiting: service.queued().count() + self.upstream.waiting_in_doubt(id, &self.items),
            lost: service.lost_items(),
            path: &service.path,
        })
    }

    /// Ends a session with a provider, for a reason that an operator gives; its items go to other providers.
    pub fn end_by_operator(&mut self, now: u64, id: SessionId, why: &str, out: &mut impl super::ProviderSink) {
        self.begin(now);
        if self.providers.get(id).is_some() {
            let reason = CloseReason::ByOperator { why: why.to_owned() };
            out.close(id, &reason);
            self.session_down(now, id, &reason.to_string(), out);
        }
    }
}
