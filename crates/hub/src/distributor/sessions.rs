//! Provider sessions and what each of them offers.

use super::dictionaries::Downloads;
use super::streams::{StreamIds, Streams};
use crate::hash_seed::{HashSeed, SeededMap};
use rwf::Qos;

/// A session with a provider, by the dense slot that the agent chose for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub u32);

/// How a session came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// We dialled out to an interactive provider; the number is the route's.
    Route(u16),
    /// A non-interactive provider dialled in.
    NonInteractive,
}

/// Who is at the other end, for texts that people read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerInfo {
    /// Address and port.
    pub address: String,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Login is not answered (route) or has not come (non-interactive).
    LoggingIn,
    /// Logged in; the directory has not come.
    LoggedIn,
    /// The directory is there.
    Ready,
}

/// The domains a service relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Domains([u64; 4]);

impl Domains {
    pub(super) fn insert(&mut self, domain: u8) -> bool {
        let word = &mut self.0[usize::from(domain >> 6)];
        let old = *word;
        *word |= 1 << (domain & 63);
        old != *word
    }

    pub(super) fn contains(&self, domain: u8) -> bool {
        self.0[usize::from(domain >> 6)] & 1 << (domain & 63) != 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&domain| self.contains(domain))
    }
}

/// A service as one provider offers it.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// The provider's id for it.
    pub(super) provider_id: u16,
    /// Ours.
    pub(super) service: u16,
    /// `ServiceState`.
    pub(super) up: bool,
    /// `AcceptingRequests`.
    pub(super) accepting: bool,
    pub(super) load_factor: u64,
    pub(super) open_limit: Option<u64>,
    pub(super) open_window: Option<u64>,
    /// `SupportsOutOfBandSnapshots`.
    pub(super) snapshots_beyond_limit: bool,
    /// Requests not answered.
    pub(super) outstanding: u32,
    /// Items open.
    pub(super) open: u32,
    /// Snapshots among both.
    pub(super) snapshots: u32,
    /// `Capabilities`.
    pub(super) domains: Domains,
    /// `QoS`; empty means real time, tick by tick.
    pub(super) qos: Vec<Qos>,
}

impl Offer {
    pub(super) fn new(provider_id: u16, service: u16) -> Self {
        Self { provider_id, service, accepting: true, snapshots_beyond_limit: true, ..Self::default() }
    }
}

/// Groups a session may name; more are treated as none.
const MAX_GROUPS: usize = 100_000;

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) origin: Origin,
    pub(super) peer: PeerInfo,
    /// Tells this use of the slot from others.
    pub(super) serial: u32,
    pub(super) phase: Phase,
    pub(super) streams: Streams,
    pub(super) ids: StreamIds,
    pub(super) offers: Vec<Offer>,
    /// The provider's login has `SupportViewRequests`.
    pub(super) views: bool,
    /// The provider's login has `SupportOptimizedPauseResume`.
    pub(super) pause: bool,
    pub(super) downloads: Downloads,
    /// Stream of the login (non-interactive).
    pub(super) login_stream: i32,
    /// Ours for the provider's groups, by our service id and its group id.
    groups: SeededMap<Box<[u8]>, u32>,
}

impl Session {
    pub(super) fn new(origin: Origin, peer: PeerInfo, serial: u32, seed: HashSeed) -> Self {
        Self {
            origin,
            peer,
            serial,
            phase: Phase::LoggingIn,
            streams: Streams::new(seed),
            ids: StreamIds::default(),
            offers: Vec::new(),
            views: false,
            pause: false,
            downloads: Downloads::default(),
            login_stream: 1,
            groups: SeededMap::with_hasher(seed),
        }
    }

    pub(super) fn offer(&self, service: u16) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.service == service)
    }

    pub(super) fn offer_mut(&mut self, service: u16) -> Option<&mut Offer> {
        self.offers.iter_mut().find(|offer| offer.service == service)
    }

    /// The service that the provider means by its id.
    pub(super) fn offer_by_id(&self, provider_id: u16) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.provider_id == provider_id)
    }

    /// Our number for a group of the provider's; `next` is the last one given out.
    pub(super) fn group(&mut self, service: u16, id: &[u8], next: &mut u32) -> u32 {
        let key = group_key(service, id);
        let key = &key[..id.len().min(255) + 2];
        if let Some(&group) = self.groups.get(key) {
            return group;
        }
        if self.groups.len() >= MAX_GROUPS {
            return crate::stream::NO_GROUP;
        }
        *next += 1;
        self.groups.insert(key.into(), *next);
        *next
    }

    /// Our number for a group of the provider's, if it has named it before.
    pub(super) fn known_group(&self, service: u16, id: &[u8]) -> Option<u32> {
        let key = group_key(service, id);
        self.groups.get(&key[..id.len().min(255) + 2]).copied()
    }

    /// The group's members have gone to another: who comes under this id later starts a new one.
    pub(super) fn forget_group(&mut self, service: u16, id: &[u8]) {
        let key = group_key(service, id);
        self.groups.remove(&key[..id.len().min(255) + 2]);
    }
}

fn group_key(service: u16, id: &[u8]) -> [u8; 257] {
    let mut key = [0; 257];
    let id = &id[..id.len().min(255)];
    key[..2].copy_from_slice(&service.to_le_bytes());
    key[2..2 + id.len()].copy_from_slice(id);
    key
}
