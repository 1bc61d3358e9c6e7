//! The connections that a client holds at a time, and which of them is for what.
//!
//! | [`Arrangement`] | an item is open at | and goes elsewhere when |
//! |---|---|---|
//! | `Routing` | one link that has its service: the one that has had it longest | that link or its service is lost, or the server closes the item for now |
//! | `StandbyByLogin` | all links; the active one serves, the others stand by | the connection of the active link is lost |
//! | `StandbyByService` | all links; each service has an active link of its own | the connection of that link is lost, or the service is down there |
//!
//! Whoever has taken over stays what it is when the other is back.

use omm::consumer::{Consumer, ConsumerConfig, StandbyMode};
use omm::{ConnectionList, Server};
use rwf::rdm::directory::Service;
use std::collections::BTreeMap;

/// Use of the connections of a client that has several at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrangement {
    /// Each item is open at one of them (EMA's request routing, `SessionChannelSet`). The default.
    #[default]
    Routing,
    /// A link serves and the others stand by (EMA's `WarmStandbyChannelSet` with `WarmStandbyMode` `LOGIN_BASED`).
    StandbyByLogin,
    /// For each service one serves and the others stand by (`SERVICE_BASED`).
    StandbyByService,
}

impl Arrangement {
    const fn standby(self) -> Option<StandbyMode> {
        match self {
            Self::Routing => None,
            Self::StandbyByLogin => Some(StandbyMode::Login),
            Self::StandbyByService => Some(StandbyMode::Service),
        }
    }
}

/// How far a service can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// No server has said which services it has: there is no connection, or no directory yet.
    Unknown,
    /// The servers that are logged in at have no such service.
    Absent,
    /// A server has it, and says that it is down.
    Down,
    /// The service can be used at a server.
    Up,
}

/// A connection among those that a client holds at a time: its place among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(u8);

impl LinkId {
    /// The first link, which is the only one of most clients.
    pub const FIRST: Self = Self(0);

    pub(crate) const fn new(index: usize) -> Self {
        Self(index as u8)
    }

    /// The place.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Most links of a client.
pub const LINKS_MAX: usize = 16;

/// How long the first link of a warm standby may take to log in before the others are dialled too, nanoseconds.
const FIRST_ALONE_NS: u64 = 3_000_000_000;

/// The relation of a link to the first one of a warm standby, which is to serve if it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// Nobody has asked for a server yet.
    Unasked,
    /// The first link is being made.
    Waiting {
        until: u64,
    },
    Over,
}

/// The consumers of a client.
#[derive(Debug)]
pub(crate) struct Links {
    all: Vec<Consumer>,
    pub(crate) arrangement: Arrangement,
    beginning: Beginning,
    /// Links that are logged in, in the order in which they were.
    logged_in: Vec<LinkId>,
    /// Links at which a service can be used, in the order in which it could.
    services: BTreeMap<String, Vec<LinkId>>,
    /// `StandbyByLogin`: the link that serves.
    active: Option<LinkId>,
    /// `StandbyByService`: the link that serves, by service.
    active_in: BTreeMap<String, LinkId>,
}

impl Links {
    pub(crate) fn new(consumer: ConsumerConfig, beside: Vec<ConnectionList>, arrangement: Arrangement) -> Self {
        let warm_standby = arrangement.standby().filter(|_| !beside.is_empty()).or(consumer.warm_standby);
        let first = ConsumerConfig { warm_standby, ..consumer };
        let others = beside.into_iter().take(LINKS_MAX - 1);
        let configs = others.map(|connections| ConsumerConfig { connections, ..first.clone() });
        let mut all: Vec<Consumer> = configs.map(Consumer::new).collect();
        all.insert(0, Consumer::new(first));
        let is_alone = arrangement == Arrangement::Routing || all.len() == 1;
        Self {
            all,
            arrangement,
            beginning: if is_alone { Beginning::Over } else { Beginning::Unasked },
            logged_in: Vec::new(),
            services: BTreeMap::new(),
            active: None,
            active_in: BTreeMap::new(),
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.all.len()).map(LinkId::new)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.all.iter()
    }

    #[inline]
    pub(crate) fn get(&self, link: LinkId) -> &Consumer {
        &self.all[link.index()]
    }

    pub(crate) fn of(&mut self, link: LinkId) -> &mut Consumer {
        &mut self.all[link.index()]
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Consumer> {
        self.all.iter_mut()
    }

    /// Whether the items of shared streams are open at all links.
    pub(crate) fn stand_by(&self) -> bool {
        self.arrangement != Arrangement::Routing && self.all.len() > 1
    }

    /// The server that a link is to connect to now.
    pub(crate) fn poll_connect(&mut self, now: u64, link: LinkId) -> Option<&Server> {
        if self.beginning == Beginning::Unasked {
            self.beginning = Beginning::Waiting { until: now.saturating_add(FIRST_ALONE_NS) };
        }
        if let Beginning::Waiting { until } = self.beginning
            && link != LinkId::FIRST
        {
            if now < until {
                return None;
            }
            self.beginning = Beginning::Over;
        }
        self.all.get_mut(link.index())?.poll_connect(now)
    }

    /// The first link has logged in, or could not.
    pub(crate) fn first_is_decided(&mut self, link: LinkId) {
        if link == LinkId::FIRST {
            self.beginning = Beginning::Over;
        }
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        if let Beginning::Waiting { until } = self.beginning {
            // The others are due before, and are not asked.
            return self.all[0].timeout().into_iter().chain([until]).min();
        }
        self.all.iter().filter_map(Consumer::timeout).min()
    }

    /// A link has logged in. Gives whether it serves now, in all services.
    pub(crate) fn logged_in(&mut self, link: LinkId) -> bool {
        self.first_is_decided(link);
        if !self.logged_in.contains(&link) {
            self.logged_in.push(link);
        }
        self.elect()
    }

    /// Notices that a link has lost its login. Gives whether it had one, and whether another link serves now, in all services.
    pub(crate) fn notice_loss(&mut self, link: LinkId) -> (bool, bool) {
        let at = self.logged_in.iter().position(|known| *known == link);
        // Nothing is lost of a link that has its login, or had none.
        let Some(at) = at.filter(|_| !self.get(link).is_logged_in()) else { return (false, false) };
        self.logged_in.remove(at);
        if self.active == Some(link) {
            self.active = None;
        }
        (true, self.elect())
    }

    fn elect(&mut self) -> bool {
        if self.arrangement != Arrangement::StandbyByLogin || self.active.is_some() {
            return false;
        }
        // Where nobody is logged in nobody can serve; who logs in first will.
        let Some(&link) = self.logged_in.first() else { return false };
        self.active = Some(link);
        // Links that will stand by are told so first: two that serve cost more than none for a moment.
        for other in self.ids().filter(|other| *other != link) {
            self.of(other).set_standby(true);
        }
        self.of(link).set_standby(false);
        true
    }

    /// A service can be used at a link. Gives whether that link serves it now.
    pub(crate) fn service_up(&mut self, link: LinkId, name: &str) -> bool {
        let order = self.services.entry(name.to_owned()).or_default();
        if !order.contains(&link) {
            order.push(link);
        }
        self.elect_in(name)
    }

    /// A service can not be used at a link any more. Gives whether another link serves it now.
    pub(crate) fn service_down(&mut self, link: LinkId, name: &str) -> bool {
        if let Some(order) = self.services.get_mut(name) {
            order.retain(|known| *known != link);
            if order.is_empty() {
                self.services.remove(name);
            }
        }
        if self.active_in.get(name) == Some(&link) {
            self.active_in.remove(name);
        }
        self.elect_in(name)
    }

    fn elect_in(&mut self, name: &str) -> bool {
        if self.arrangement != Arrangement::StandbyByService || self.active_in.contains_key(name) {
            return false;
        }
        // A service that nobody has is served by who has it first.
        let Some(&link) = self.services.get(name).and_then(|order| order.first()) else { return false };
        self.active_in.insert(name.to_owned(), link);
        for other in self.ids().filter(|other| *other != link) {
            self.of(other).set_standby_in(name, true);
        }
        self.of(link).set_standby_in(name, false);
        true
    }

    /// The link that serves a service, or would be asked for it.
    pub(crate) fn serving(&self, service: &str) -> LinkId {
        let first = || self.services.get(service).and_then(|order| order.first()).copied();
        let active = match self.arrangement {
            Arrangement::Routing => None,
            Arrangement::StandbyByLogin => self.active,
            Arrangement::StandbyByService => self.active_in.get(service).copied(),
        };
        active.or_else(first).unwrap_or(LinkId::FIRST)
    }

    /// The link that is asked for an item which is open at one only: the one that serves, if it has the service.
    pub(crate) fn asked_for(&self, service: &str) -> LinkId {
        let (serving, having) = (self.serving(service), self.having(service));
        if having.contains(&serving) { serving } else { having.first().copied().unwrap_or(serving) }
    }

    /// Links at which a service can be used, in the order in which it could.
    pub(crate) fn having(&self, service: &str) -> &[LinkId] {
        self.services.get(service).map_or(&[], Vec::as_slice)
    }

    /// How far a service can be used, at the link where it can be used best.
    pub(crate) fn availability(&self, service: &str) -> Availability {
        if !self.having(service).is_empty() {
            return Availability::Up;
        }
        let mut told = self.all.iter().filter(|consumer| consumer.has_directory()).peekable();
        if told.peek().is_none() {
            return Availability::Unknown;
        }
        let mut names = told.flat_map(Consumer::services).filter_map(Service::name);
        if names.any(|name| name == service) { Availability::Down } else { Availability::Absent }
    }

    /// The link that is asked after `link` for an item of a service; `None`: there is no other.
    pub(crate) fn next(&self, service: &str, link: LinkId) -> Option<LinkId> {
        let order = self.having(service);
        let next = order.iter().position(|known| *known == link).map_or(0, |at| at + 1);
        order.get(next).or_else(|| order.first()).copied().filter(|other| *other != link)
    }

    /// The link for what concerns no item.
    pub(crate) fn main(&self) -> LinkId {
        self.active.or_else(|| self.logged_in.first().copied()).unwrap_or(LinkId::FIRST)
    }

    /// Checks what must hold between calls; for tests.
    pub(crate) fn check_invariants(&self) {
        self.all.iter().for_each(Consumer::check_invariants);
        for link in self.ids() {
            assert_eq!(self.logged_in.contains(&link), self.get(link).is_logged_in(), "login of {link:?}");
        }
        assert!(self.active.is_none_or(|active| self.logged_in.contains(&active)), "who serves is logged in");
        let must = self.arrangement == Arrangement::StandbyByLogin && !self.logged_in.is_empty();
        assert!(!must || self.active.is_some(), "somebody who is logged in serves");
        for (name, link) in &self.active_in {
            assert!(self.having(name).contains(link), "{link:?} serves {name}, and does not have it");
        }
        if self.arrangement == Arrangement::StandbyByService {
            assert_eq!(self.active_in.len(), self.services.len(), "each service that can be used is served");
        }
    }
}
