//! Profiles and locks are few, watchers are many: one bit for each profile and lock.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use crate::lock::{Lock, LockError};
use crate::rights::{Demand, Failure, Requirements, Rights};

/// A profile of a login: whose grants are needed together. Logins with the same grants share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProfileId(pub(crate) u32);

/// A lock of a service's items that is interned, or the absence of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockId(pub(crate) u32);

/// A service by name, for as long as the state machine lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServiceRef(pub(crate) u16);

#[derive(Debug)]
struct Profile {
    requirements: Requirements,
    /// Two bits by lock, the lower one of the first lock lowest: granted, and decided.
    verdicts: Vec<u64>,
}

const GRANTED: u64 = 1;
const DECIDED: u64 = 2;

impl LockId {
    /// Where a profile's verdict on the lock is: the word, and how far from its lowest bit.
    #[inline]
    const fn place(self) -> (usize, u32) {
        (self.0 as usize / 32, self.0 % 32 * 2)
    }
}

#[derive(Debug)]
struct Interned {
    service: ServiceRef,
    /// Empty: no lock.
    bytes: Arc<[u8]>,
    /// `None` without a lock.
    lock: Option<Result<Lock, LockError>>,
    /// Items that have it.
    holders: u32,
}

impl Interned {
    fn is(&self, service: ServiceRef, bytes: &[u8]) -> bool {
        self.service == service && *self.bytes == *bytes
    }
}

/// The name of a service and where the rights of now have it.
#[derive(Debug)]
struct Service {
    name: Arc<str>,
    index: Option<u16>,
}

/// Interned services, locks and profiles, and what was decided about them.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    services: Vec<Service>,
    service_names: HashMap<Arc<str>, ServiceRef>,
    profiles: Vec<Profile>,
    profile_ids: FxHashMap<Requirements, ProfileId>,
    locks: Vec<Interned>,
    /// Indices of `locks`, by service and bytes. The standard hasher: the bytes come from the network.
    lock_ids: HashTable<u32>,
    hasher: RandomState,
    /// Where to look for a lock that nobody holds, when there is no room.
    hand: usize,
}

impl Decisions {
    /// The handle of a service's name; there are at most 65,535, of which none is ever forgotten.
    pub(crate) fn service(&mut self, rights: &Rights, name: &str) -> Option<ServiceRef> {
        if let Some(known) = self.service_names.get(name) {
            return Some(*known);
        }
        let id = ServiceRef(u16::try_from(self.services.len()).ok()?);
        let name: Arc<str> = name.into();
        self.services.push(Service { name: name.clone(), index: rights.service_index(&name) });
        self.service_names.insert(name, id);
        Some(id)
    }

    pub(crate) fn service_name(&self, service: ServiceRef) -> &Arc<str> {
        &self.services[usize::from(service.0)].name
    }

    pub(crate) fn service_index(&self, service: ServiceRef) -> Option<u16> {
        self.services[usize::from(service.0)].index
    }

    /// The profile of these requirements.
    pub(crate) fn profile(&mut self, requirements: Requirements) -> ProfileId {
        let next = ProfileId(self.profiles.len() as u32);
        let id = *self.profile_ids.entry(requirements).or_insert(next);
        if id == next {
            self.profiles.push(Profile { requirements, verdicts: Vec::new() });
        }
        id
    }

    pub(crate) fn requirements(&self, profile: ProfileId) -> Requirements {
        self.profiles[profile.0 as usize].requirements
    }

    /// Forgets all profiles and decisions: new rights.
    pub(crate) fn renew(&mut self, rights: &Rights) {
        self.profiles.clear();
        self.profile_ids.clear();
        for service in &mut self.services {
            service.index = rights.service_index(&service.name);
        }
    }

    /// Interns a lock of an item of `service`. At most `max` locks are held; then one that nobody holds makes room.
    /// `None` if there is no such.
    pub(crate) fn lock(&mut self, service: ServiceRef, bytes: &[u8], max: usize) -> Option<LockId> {
        let hash = self.hasher.hash_one((service.0, bytes));
        let is_same = |at: &u32| self.locks[*at as usize].is(service, bytes);
        if let Some(known) = self.lock_ids.find(hash, is_same) {
            return Some(LockId(*known));
        }
        let lock = (!bytes.is_empty()).then(|| Lock::decode(bytes));
        let interned = Interned { service, bytes: bytes.into(), lock, holders: 0 };
        let id = if self.locks.len() < max {
            self.locks.push(interned);
            LockId(self.locks.len() as u32 - 1)
        } else {
            let len = self.locks.len();
            let at = (0..len).map(|step| (self.hand + step) % len).find(|at| self.locks[*at].holders == 0)?;
            self.hand = at + 1;
            let old = std::mem::replace(&mut self.locks[at], interned);
            let entry =
                self.lock_ids.find_entry(self.hasher.hash_one((old.service.0, &*old.bytes)), |id| *id == at as u32);
            if let Ok(entry) = entry {
                entry.remove();
            }
            let id = LockId(at as u32);
            let (word, shift) = id.place();
            for profile in &mut self.profiles {
                if let Some(verdicts) = profile.verdicts.get_mut(word) {
                    *verdicts &= !(DECIDED << shift);
                }
            }
            id
        };
        let (locks, hasher) = (&self.locks, &self.hasher);
        let rehash = |at: &u32| hasher.hash_one((locks[*at as usize].service.0, &*locks[*at as usize].bytes));
        self.lock_ids.insert_unique(hash, id.0, rehash);
        Some(id)
    }

    pub(crate) fn hold(&mut self, lock: LockId) {
        self.locks[lock.0 as usize].holders += 1;
    }

    pub(crate) fn release(&mut self, lock: LockId) {
        let holders = &mut self.locks[lock.0 as usize].holders;
        debug_assert!(*holders > 0, "a lock is released once for each hold");
        *holders -= 1;
    }

    /// The bytes of a lock; `None` for the absence of one.
    pub(crate) fn lock_bytes(&self, lock: LockId) -> Option<Arc<[u8]>> {
        let bytes = &self.locks[lock.0 as usize].bytes;
        (!bytes.is_empty()).then(|| bytes.clone())
    }

    pub(crate) fn lock_count(&self) -> usize {
        self.locks.len()
    }

    /// Whether the profile satisfies the lock: a bit test, but for the first time.
    #[inline]
    pub(crate) fn permits(&mut self, rights: &Rights, profile: ProfileId, lock: LockId) -> bool {
        let (word, shift) = lock.place();
        let verdicts = self.profiles[profile.0 as usize].verdicts.get(word).copied().unwrap_or(0) >> shift;
        if verdicts & DECIDED == 0 {
            return self.decide(rights, profile, lock);
        }
        verdicts & GRANTED != 0
    }

    #[cold]
    #[inline(never)]
    fn decide(&mut self, rights: &Rights, profile: ProfileId, lock: LockId) -> bool {
        let is_granted = self.verdict(rights, profile, lock).is_ok();
        let words = self.locks.len().div_ceil(32);
        let (word, shift) = lock.place();
        let verdicts = &mut self.profiles[profile.0 as usize].verdicts;
        verdicts.resize(words.max(verdicts.len()), 0);
        let verdict = DECIDED | if is_granted { GRANTED } else { 0 };
        verdicts[word] = verdicts[word] & !((DECIDED | GRANTED) << shift) | verdict << shift;
        is_granted
    }

    /// The decision with its reason, not remembered.
    pub(crate) fn verdict(&self, rights: &Rights, profile: ProfileId, lock: LockId) -> Result<(), Failure> {
        let interned = &self.locks[lock.0 as usize];
        let service = &self.services[usize::from(interned.service.0)];
        let demand = interned.lock.as_ref().map_or(Demand::Service, Demand::Lock);
        rights.check(self.requirements(profile), service.index, &service.name, demand)
    }

    /// What opening an item counts for in reports of usage: each subservice or PE of its lock once; empty without a lock.
    pub(crate) fn products(&self, rights: &Rights, lock: LockId) -> Vec<Box<str>> {
        let interned = &self.locks[lock.0 as usize];
        let service = self.services[usize::from(interned.service.0)].index;
        let (Some(service), Some(Ok(lock))) = (service, &interned.lock) else { return Vec::new() };
        let mut products: Vec<Box<str>> = Vec::new();
        for list in &lock.services {
            let Ok(target) = rights.lock_service(rights.service(service), list.service) else { continue };
            products.extend(list.groups.iter().flatten().flat_map(|pe| rights.products(target, *pe)));
        }
        products.sort_unstable();
        products.dedup();
        products
    }
}
