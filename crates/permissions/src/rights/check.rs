//! Whether rights suffice, and which is the first that fails.

use std::fmt;

use super::{Grant, GrantId, Guard, Rights, Service};
use crate::lock::{Lock, LockError};

/// Whose rights are asked: each of the three has to have them, where it has a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// The user.
    User,
    /// The position where the user sits.
    Position,
    /// The application.
    Application,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "User",
            Self::Position => "Position",
            Self::Application => "Application",
        })
    }
}

/// The first requirement that is not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// No right to the service.
    Service {
        /// Whose right.
        who: Who,
        /// The service's name.
        service: Box<str>,
    },
    /// None of these PEs.
    Pes {
        /// Whose right.
        who: Who,
        /// The service that the lock names.
        service: Box<str>,
        /// One of them is needed.
        pes: Vec<u32>,
    },
    /// Not what the name of the item stands for.
    Subject {
        /// Whose right.
        who: Who,
        /// The service.
        service: Box<str>,
        /// The subservices needed, as an expression; empty when no pattern of the service matches the name.
        needs: String,
    },
    /// The lock names a service that no one here knows.
    UnknownLockService(u16),
    /// The lock cannot be read; that denies.
    UnreadableLock(LockError),
    /// There is no room for another lock.
    LocksFull,
    /// No user of this name.
    UnknownUser,
    /// The application may not be used, or not by this user.
    Application(u32),
    /// The user may not sit there.
    Position,
    /// The user is on at as many positions as allowed.
    Positions {
        /// How many are allowed.
        allowed: u32,
    },
    /// The user has as many connections as allowed.
    Mounts {
        /// How many are allowed.
        allowed: u32,
    },
    /// The user has as many items open as allowed.
    Items {
        /// How many are allowed.
        allowed: u32,
    },
    /// Nobody can say what the user may do.
    SourceDown,
    /// The administrator has ended the login, or the user is no more.
    Forced,
    /// No right to contribute to the item.
    Post,
    /// No right to change the permission data of the item.
    PostPermissions,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { who, service } => write!(f, "{who} has no right to service {service}"),
            Self::Pes { who, service, pes } => write!(f, "{who} has none of PE {pes:?} of service {service}"),
            Self::Subject { who, service, needs } if needs.is_empty() => {
                write!(f, "{who}: no pattern of service {service} matches the item")
            }
            Self::Subject { who, service, needs } => write!(f, "{who} lacks {needs} of service {service}"),
            Self::UnknownLockService(id) => write!(f, "the lock names service {id}, which is not known here"),
            Self::UnreadableLock(error) => write!(f, "the lock cannot be read: {error}"),
            Self::LocksFull => f.write_str("there are more different locks in use than there is room for"),
            Self::UnknownUser => f.write_str("the user is not known"),
            Self::Application(id) => write!(f, "application {id} may not be used"),
            Self::Position => f.write_str("the position may not be used"),
            Self::Positions { allowed } => write!(f, "the user is on at {allowed} positions, as many as allowed"),
            Self::Mounts { allowed } => write!(f, "the user has {allowed} logins, as many as allowed"),
            Self::Items { allowed } => write!(f, "the user has {allowed} items open, as many as allowed"),
            Self::SourceDown => f.write_str("the source of rights cannot be reached"),
            Self::Forced => f.write_str("forced to log out"),
            Self::Post => f.write_str("no right to contribute to the item"),
            Self::PostPermissions => f.write_str("no right to change the item's permission data"),
        }
    }
}

/// Whose grants are needed together: the user's, then those of position and application where they have a profile.
/// Users with the same grants at positions and in applications with the same have the same requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Requirements {
    /// `None`: not known; nothing is granted.
    pub(crate) user: Option<GrantId>,
    pub(crate) position: Option<GrantId>,
    pub(crate) application: Option<GrantId>,
    /// Accepted while nobody could say what the user may do: everything is granted until rights come.
    pub(crate) is_unchecked: bool,
}

/// What an item demands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Demand<'a> {
    /// The service alone: an item without lock, or an empty one.
    Service,
    /// What the name of the item stands for.
    Subject(&'a str),
    /// A lock, which may be unreadable.
    Lock(&'a Result<Lock, LockError>),
}

impl Rights {
    /// The requirements of a login. A user whom nobody knows gets those that nothing satisfies.
    pub(crate) fn requirements(&self, user: &str, position: &str, application: u32) -> Requirements {
        Requirements {
            user: self.user(user).map(|user| user.grants),
            position: self.position(position).and_then(|position| position.grants),
            application: self.application(application).and_then(|application| application.grants),
            is_unchecked: false,
        }
    }

    /// Checks a demand of an item of a service (`None`: one that is not listed) against all requirements.
    pub(crate) fn check(
        &self,
        requirements: Requirements,
        service: Option<u16>,
        name: &str,
        demand: Demand<'_>,
    ) -> Result<(), Failure> {
        if requirements.is_unchecked {
            return Ok(());
        }
        let Some(index) = service else {
            let denied = Failure::Service { who: Who::User, service: name.into() };
            return if self.policy.allow_unlisted_services { Ok(()) } else { Err(denied) };
        };
        let service = self.service(index);
        if service.guard == Guard::Off {
            return Ok(());
        }
        let Requirements { user, position, application, .. } = requirements;
        let Some(user) = user else {
            return Err(Failure::Service { who: Who::User, service: service.name.clone() });
        };
        let others = [(Who::Position, position), (Who::Application, application)];
        let needed = others.into_iter().filter_map(|(who, grants)| Some((who, grants?)));
        for (who, grants) in std::iter::once((Who::User, user)).chain(needed) {
            self.check_one(who, grants, index, demand)?;
        }
        Ok(())
    }

    fn check_one(&self, who: Who, grants: GrantId, index: u16, demand: Demand<'_>) -> Result<(), Failure> {
        let service = self.service(index);
        let grant = self.grant(who, grants, index)?;
        match demand {
            Demand::Subject(name) if service.guard == Guard::Subject => check_subject(who, service, grant, name),
            Demand::Lock(lock) if service.guard == Guard::Content => {
                let lock = lock.as_ref().map_err(|e| Failure::UnreadableLock(e.clone()))?;
                lock.services.iter().try_for_each(|list| {
                    let target = self.lock_service(service, list.service)?;
                    let grant = self.grant(who, grants, target)?;
                    let service = self.service(target);
                    match list.groups.iter().find(|group| !group.iter().any(|pe| grant.has_pe(service, *pe))) {
                        None => Ok(()),
                        Some(pes) => Err(Failure::Pes { who, service: service.name.clone(), pes: pes.clone() }),
                    }
                })
            }
            _ => Ok(()),
        }
    }

    fn grant(&self, who: Who, grants: GrantId, service: u16) -> Result<&Grant, Failure> {
        let denied = || Failure::Service { who, service: self.service(service).name.clone() };
        self.grants[grants as usize].get(&service).ok_or_else(denied)
    }

    /// The service that a number in the lock of an item of `service` means.
    pub(crate) fn lock_service(&self, service: &Service, id: u16) -> Result<u16, Failure> {
        let own = || self.service_ids.get(&service.id).copied();
        let id = service.translated_ids.get(&id).copied().unwrap_or(id);
        let found = if service.overrides_id || service.accepted_ids.contains(&id) {
            own()
        } else {
            self.service_ids.get(&id).copied()
        };
        found.ok_or(Failure::UnknownLockService(id))
    }
}

fn check_subject(who: Who, service: &Service, grant: &Grant, name: &str) -> Result<(), Failure> {
    if grant.all {
        return Ok(());
    }
    let denied = |needs| Err(Failure::Subject { who, service: service.name.clone(), needs });
    match service.subjects.iter().find(|(pattern, _)| pattern.matches(name)) {
        None => denied(String::new()),
        Some((_, expression)) if expression.holds(&|index| grant.has_subservice(index)) => Ok(()),
        Some((_, expression)) => denied(expression.text(&|index| &service.subservices[usize::from(index)].0)),
    }
}
