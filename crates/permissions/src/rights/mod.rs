//! What the administrator grants: users, positions, applications, services, subservices, products.
//!
//! [`Rights`] come from one readable text ([`Rights::parse`]), which is taken as a whole or not at all. They never change:
//! new rights are a new value, which the state machine takes over ([`crate::Permissions::set_rights`]).

mod check;
mod expression;
mod file;
mod query;

pub(crate) use check::{Demand, Requirements};
pub use check::{Failure, Who};
pub use expression::Expression;
pub use file::{Fault, RightsError};
pub use names::Pattern;
pub use query::{Explanation, Finding};

use std::collections::{BTreeMap, HashMap};

/// The application id of a login that names none (the customary default of the SDK).
pub const DEFAULT_APPLICATION: u32 = 256;

/// How a service is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guard {
    /// Not at all: everybody has it.
    Off,
    /// By the item's name, before it is requested.
    Subject,
    /// By the lock that comes with the item's image.
    #[default]
    Content,
}

/// What kind of thing a subservice is; it decides how several of one PE are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// A product of the vendor.
    #[default]
    Product,
    /// The data of an exchange.
    Exchange,
    /// The data of a specialist.
    Specialist,
}

/// A service of the network.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) name: Box<str>,
    /// The service's number in locks.
    pub(crate) id: u16,
    pub(crate) guard: Guard,
    /// Other numbers in locks that mean this service, when they are in the locks of its items.
    pub(crate) accepted_ids: Vec<u16>,
    /// Numbers in the locks of its items that stand for other numbers.
    pub(crate) translated_ids: BTreeMap<u16, u16>,
    /// All numbers in the locks of its items mean this service.
    pub(crate) overrides_id: bool,
    pub(crate) subservices: Vec<(Box<str>, Kind)>,
    /// PE ranges, ascending, apart from each other.
    pub(crate) map: Vec<(u32, u32, Expression)>,
    /// Item names, in the order of the file: the first that matches decides.
    pub(crate) subjects: Vec<(Pattern, Expression)>,
}

/// What is granted of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    /// Everything.
    pub(crate) all: bool,
    /// PE ranges, ascending, joined where they touch.
    pub(crate) pes: Vec<(u32, u32)>,
    /// Indices of subservices, ascending.
    pub(crate) subservices: Vec<u16>,
}

/// By index of the service.
pub(crate) type Grants = BTreeMap<u16, Grant>;

/// Index of a set of grants that users, positions or applications share.
pub(crate) type GrantId = u32;

/// What one may contribute to.
#[derive(Debug, Clone)]
pub(crate) struct PostGrant {
    pub(crate) service: u16,
    pub(crate) names: Vec<Pattern>,
    pub(crate) rights: PostRights,
}

/// What a poster may do to an item beside changing its values; the numbers of the post message's user rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PostRights(pub u16);

impl PostRights {
    /// Only values.
    pub const NONE: Self = Self(0);
    /// Create items.
    pub const CREATE: Self = Self(1);
    /// Delete items.
    pub const DELETE: Self = Self(2);
    /// Change the permission data.
    pub const MODIFY_PERMISSIONS: Self = Self(4);

    /// Everything.
    pub const ALL: Self = Self::CREATE.with(Self::DELETE).with(Self::MODIFY_PERMISSIONS);

    /// Whether all of `other` are granted.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Bounds of one user; `None` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Different positions at the same time.
    pub positions: Option<u32>,
    /// Logins (connections) at the same time.
    pub mounts: Option<u32>,
    /// Items open at the same time.
    pub items: Option<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) groups: Vec<Box<str>>,
    pub(crate) grants: GrantId,
    pub(crate) limits: Limits,
    /// `None`: all that the file knows.
    pub(crate) applications: Option<Vec<u32>>,
    /// `None`: anywhere.
    pub(crate) positions: Option<Vec<Pattern>>,
    pub(crate) posts: Vec<PostGrant>,
}

/// Where users sit.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    pub(crate) pattern: Pattern,
    pub(crate) is_allowed: bool,
    /// A profile of its own, which is needed beside the user's.
    pub(crate) grants: Option<GrantId>,
}

#[derive(Debug, Clone)]
pub(crate) struct Application {
    pub(crate) grants: Option<GrantId>,
}

/// What simultaneous logins are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountBy {
    /// Different positions: several connections from one count once.
    #[default]
    Position,
    /// Connections.
    Connection,
}

/// Choices that hold for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Whether services that the file does not list are open to everybody.
    pub allow_unlisted_services: bool,
    /// Whether the directory shows services to which the user has no right.
    pub show_denied_services: bool,
    /// What `max_positions` counts.
    pub count_by: CountBy,
}

/// All rights, checked as a whole.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    version: Box<str>,
    policy: Policy,
    services: Vec<Service>,
    service_names: HashMap<Box<str>, u16>,
    service_ids: HashMap<u16, u16>,
    grants: Vec<Grants>,
    /// What the groups give, for users that come one by one.
    groups: HashMap<Box<str>, (Grants, Vec<PostGrant>)>,
    users: BTreeMap<Box<str>, User>,
    positions: Vec<Position>,
    /// Empty: any application may be used.
    applications: HashMap<u32, Application>,
}

impl Rights {
    /// The version that the administrator gave these rights; audit lines name it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Choices that hold for everybody.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// The names of all users, ascending.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(|name| &**name)
    }

    /// The names of all services, in the order of the file.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.services.iter().map(|service| &*service.name)
    }

    /// How a service is guarded; `None` for one that is not listed.
    pub fn guard(&self, service: &str) -> Option<Guard> {
        self.service_names.get(service).map(|index| self.services[usize::from(*index)].guard)
    }

    /// The bounds of a user; `None` for an unknown one.
    pub fn limits(&self, user: &str) -> Option<Limits> {
        self.users.get(user).map(|user| user.limits)
    }

    /// The groups that a user is in, in the order of the file.
    pub fn groups_of(&self, user: &str) -> impl Iterator<Item = &str> {
        self.users.get(user).into_iter().flat_map(|user| &user.groups).map(|name| &**name)
    }

    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    pub(crate) fn service_index(&self, name: &str) -> Option<u16> {
        self.service_names.get(name).copied()
    }

    pub(crate) fn service(&self, index: u16) -> &Service {
        &self.services[usize::from(index)]
    }

    /// The first entry of the file that the position matches.
    pub(crate) fn position(&self, position: &str) -> Option<&Position> {
        self.positions.iter().find(|entry| entry.pattern.matches_position(position))
    }

    pub(crate) fn application(&self, id: u32) -> Option<&Application> {
        self.applications.get(&id)
    }

    pub(crate) fn knows_applications(&self) -> bool {
        !self.applications.is_empty()
    }

    /// The subservices or PE that a PE code counts for in reports of usage.
    pub(crate) fn products(&self, service: u16, pe: u32) -> Vec<Box<str>> {
        let service = self.service(service);
        match service.mapped(pe) {
            Some(expression) => {
                let mut names = Vec::new();
                expression.each(&mut |index| names.push(service.subservices[usize::from(index)].0.clone()));
                names.sort_unstable();
                names.dedup();
                names
            }
            None => vec![format!("PE {pe}").into()],
        }
    }
}

impl Service {
    /// What the map says of a PE.
    pub(crate) fn mapped(&self, pe: u32) -> Option<&Expression> {
        let at = self.map.partition_point(|(low, ..)| *low <= pe).checked_sub(1)?;
        let (_, high, expression) = &self.map[at];
        (pe <= *high).then_some(expression)
    }

    pub(crate) fn subservice(&self, name: &str) -> Option<u16> {
        self.subservices.iter().position(|(known, _)| **known == *name).map(|index| index as u16)
    }
}

impl Grant {
    pub(crate) fn has_subservice(&self, index: u16) -> bool {
        self.all || self.subservices.binary_search(&index).is_ok()
    }

    pub(crate) fn names_pe(&self, pe: u32) -> bool {
        let at = self.pes.partition_point(|(low, _)| *low <= pe);
        self.all || at.checked_sub(1).is_some_and(|at| pe <= self.pes[at].1)
    }

    pub(crate) fn has_pe(&self, service: &Service, pe: u32) -> bool {
        self.names_pe(pe) || service.mapped(pe).is_some_and(|e| e.holds(&|index| self.has_subservice(index)))
    }

    /// Adds what another grant gives.
    pub(crate) fn join(&mut self, other: &Self) {
        self.all |= other.all;
        self.subservices.extend_from_slice(&other.subservices);
        self.subservices.sort_unstable();
        self.subservices.dedup();
        self.pes.extend_from_slice(&other.pes);
        self.pes.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(self.pes.len());
        for (low, high) in self.pes.drain(..) {
            match joined.last_mut() {
                Some((_, last)) if low <= last.saturating_add(1) => *last = high.max(*last),
                _ => joined.push((low, high)),
            }
        }
        self.pes = joined;
    }
}
