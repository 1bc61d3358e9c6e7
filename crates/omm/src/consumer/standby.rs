//! Warm standby, as a consumer says it to its server: whether that one serves it or stands by (RDM usage guide, warm standby). Who holds several
//! consumers decides which is which.

use crate::directory::Directory;
use crate::session::Session;
use rwf::rdm::directory::{Action, ConsumerStatus, Service, ServiceStatus};
use rwf::rdm::login::{ConnectionStatus, WarmStandby};
use std::collections::{BTreeMap, BTreeSet};

/// What the part of a server is said of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandbyMode {
    /// All of its services at once: `ConsumerConnectionStatus` on the stream of the login.
    Login,
    /// Each service: `ConsumerStatus` on the stream of the directory.
    Service,
}

impl StandbyMode {
    /// The bit of `SupportStandbyMode` (ETA `Login.SupportStandbyModes`).
    const fn bit(self) -> u64 {
        match self {
            Self::Login => 1,
            Self::Service => 2,
        }
    }
}

/// The parts of a server, and what it was told of them.
#[derive(Debug, Default)]
pub(super) struct Roles {
    mode: Option<StandbyMode>,
    stands_by: bool,
    /// By name. A service of which nothing was said is served.
    services: BTreeMap<String, bool>,
    is_told: bool,
    /// Ids of the services of which the server was told on this connection.
    told: BTreeSet<u16>,
}

impl Roles {
    pub(super) fn new(mode: Option<StandbyMode>) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Whether the server of this connection can be told. One that says nothing of modes knows that of the login, which was there first.
    pub(super) fn is_understood(&self, session: &Session) -> bool {
        let features = session.features();
        let modes = features.standby_mode.unwrap_or(StandbyMode::Login.bit());
        session.is_up() && features.standby == Some(true) && self.mode.is_some_and(|mode| modes & mode.bit() != 0)
    }

    /// The login is accepted: nothing has been said on this connection yet.
    pub(super) fn logged_in(&mut self, session: &mut Session) {
        self.is_told = false;
        self.told.clear();
        if self.mode == Some(StandbyMode::Login) {
            self.tell(session);
        }
    }

    /// The part of the server, for all services.
    pub(super) fn set(&mut self, stands_by: bool, session: &mut Session) {
        let is_new = std::mem::replace(&mut self.stands_by, stands_by) != stands_by;
        if is_new && self.mode == Some(StandbyMode::Login) {
            self.tell(session);
        }
    }

    fn tell(&mut self, session: &mut Session) {
        if !self.is_understood(session) {
            return;
        }
        let added = !std::mem::replace(&mut self.is_told, true);
        let warm_standby = Some(WarmStandby { added, mode: self.stands_by.into() });
        let status = ConnectionStatus { stream_id: session.stream(), warm_standby };
        session.out.push(|w| status.encode(w));
    }

    /// The part of the server in a service.
    pub(super) fn set_in(&mut self, service: &str, stands_by: bool, directory: &Directory, session: &mut Session) {
        let before = self.services.get(service).copied();
        if before != Some(stands_by) {
            self.services.insert(service.to_owned(), stands_by);
        }
        if before.unwrap_or(false) != stands_by
            && let Some(service) = directory.named(service)
        {
            self.tell_of(&[service.id], directory, session);
        }
    }

    /// Says the part in services, those that have come before their items are asked for.
    pub(super) fn tell_of(&mut self, up: &[u16], directory: &Directory, session: &mut Session) {
        if self.mode != Some(StandbyMode::Service) || up.is_empty() || !self.is_understood(session) {
            return;
        }
        let status = |&id: &u16| {
            let name = directory.get(id).and_then(Service::name)?;
            let stands_by = self.services.get(name).copied().unwrap_or(false);
            let action = if self.told.contains(&id) { Action::Update } else { Action::Add };
            Some(ServiceStatus { service_id: id, action, mirroring: None, warm_standby: Some(stands_by.into()) })
        };
        let services: Vec<ServiceStatus> = up.iter().filter_map(status).collect();
        self.told.extend(services.iter().map(|service| service.service_id));
        let status = ConsumerStatus { stream_id: super::DIRECTORY, services };
        session.out.push(|w| status.encode(w));
    }

    /// A service has left the directory: its id may come to mean another one.
    pub(super) fn gone(&mut self, id: u16) {
        self.told.remove(&id);
    }
}
