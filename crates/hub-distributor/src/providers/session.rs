//! Provider sessions and what each of them offers.

use super::data_flow::DataFlow;
use super::downloads::Downloads;
use super::linked_services::LinkedServices;
use super::streams::{StreamIds, Streams};
use crate::config::Interruption;
use crate::hash_seed::{HashSeed, SeededMap};
use crate::ids::{GroupId, Origin};
use omm::login::{LoginPort, LoginStream};
use rwf::Qos;
use rwf::rdm::directory::Service as Entry;
use rwf::rdm::login::Features;
use std::collections::BTreeMap;

/// The other end, for texts that people read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerInfo {
    /// Address and port.
    pub address: String,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Login is not answered (route) or has not come (non-interactive).
    LoggingIn,
    /// Logged in; the directory has not come.
    LoggedIn,
    /// The directory is there.
    Ready,
}

/// The domains a service relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Domains([u64; 4]);

impl Domains {
    pub(crate) fn insert(&mut self, domain: u8) -> bool {
        let word = &mut self.0[usize::from(domain >> 6)];
        let old = *word;
        *word |= 1 << (domain & 63);
        old != *word
    }

    pub(crate) fn contains(&self, domain: u8) -> bool {
        self.0[usize::from(domain >> 6)] & 1 << (domain & 63) != 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&domain| self.contains(domain))
    }
}

/// The member that a session serves a service group from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// The member's place in the group, from 0.
    pub(crate) place: u16,
    /// Our id of it.
    pub(crate) service: u16,
}

/// A service as one provider offers it.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    /// The provider's id for it.
    pub(crate) provider_id: u16,
    /// Ours.
    pub(crate) service: u16,
    /// `ServiceState`.
    pub(crate) up: bool,
    /// `AcceptingRequests`.
    pub(crate) accepting: bool,
    /// When it will have been up for long enough to be asked, nanoseconds; `None` once it has been.
    pub(crate) rests_until: Option<u64>,
    pub(crate) load_factor: u64,
    pub(crate) open_limit: Option<u64>,
    pub(crate) open_window: Option<u64>,
    /// `SupportsOutOfBandSnapshots`.
    pub(crate) snapshots_beyond_limit: bool,
    /// `AcceptingConsumerStatus`.
    pub(crate) takes_consumer_status: bool,
    /// The role among those that have the service that the provider was told last.
    pub(crate) told_role: Option<Role>,
    /// Requests not answered.
    pub(crate) outstanding: u32,
    /// Items open.
    pub(crate) open: u32,
    /// Snapshots among both.
    pub(crate) snapshots: u32,
    /// `Capabilities`.
    pub(crate) domains: Domains,
    /// `QoS`; empty means real time, tick by tick.
    pub(crate) qos: Vec<Qos>,
    /// The provider states none: what `qos` has is ours.
    pub(crate) states_no_qos: bool,
    /// The sites that it has come through.
    pub(crate) path: Vec<String>,
    /// The offer is a service group's, served from this member.
    pub(crate) member: Option<Member>,
    /// What it sends, where that is watched for interruptions.
    pub(crate) flow: DataFlow,
    phase: OfferPhase,
}

/// The part of one of several providers of a service (`SourceMirroringMode` of RDM's `ConsumerStatus`; ETA
/// `Directory.SourceMirroringMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The provider is asked, and nobody stands by.
    ActiveNoStandby = 0,
    /// The provider is asked, or has items; others stand by.
    ActiveWithStandby = 1,
    /// The provider is not asked.
    Standby = 2,
}

/// Whether an offer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum OfferPhase {
    #[default]
    Offered,
    /// The offer is withdrawn, and has items that have yet to leave.
    Withdrawn,
    /// The offer is made again, and those items have yet to leave.
    Renewed,
}

impl Offer {
    pub(crate) fn new(provider_id: u16, service: u16) -> Self {
        Self {
            provider_id,
            service,
            accepting: true,
            snapshots_beyond_limit: true,
            takes_consumer_status: true,
            ..Self::default()
        }
    }

    /// Whether it holds, and no item is there from before it was withdrawn.
    pub(crate) fn is_settled(&self) -> bool {
        self.phase == OfferPhase::Offered
    }

    /// Whether it holds, settled or not.
    pub(crate) fn is_offered(&self) -> bool {
        self.phase != OfferPhase::Withdrawn
    }

    /// The provider's words of the service, for another offer.
    pub(super) fn to_copy(&self) -> Self {
        Self {
            provider_id: self.provider_id,
            up: self.up,
            accepting: self.accepting,
            rests_until: self.rests_until,
            load_factor: self.load_factor,
            open_limit: self.open_limit,
            open_window: self.open_window,
            snapshots_beyond_limit: self.snapshots_beyond_limit,
            domains: self.domains,
            qos: self.qos.clone(),
            states_no_qos: self.states_no_qos,
            path: self.path.clone(),
            ..Self::default()
        }
    }

    /// The provider says this of it. It is told its part by the offer that this is a copy of.
    pub(super) fn take_copy(&mut self, of: Self) {
        let own = std::mem::take(self);
        *self = Self {
            service: own.service,
            outstanding: own.outstanding,
            open: own.open,
            snapshots: own.snapshots,
            member: own.member,
            flow: own.flow,
            phase: own.phase,
            ..of
        };
    }

    /// Whether the service is up there, and whether it accepts requests.
    pub(crate) fn takes_requests(&self) -> (bool, bool) {
        (self.up, self.accepting && self.open_window != Some(0))
    }

    /// The provider has said something of the service, which was up there or not before: one that has come up is not asked for a time. When that
    /// is over, if it begins now.
    pub(super) fn rest(&mut self, now: u64, was_up: bool, time: u64) -> Option<u64> {
        if !self.up || time == 0 {
            self.rests_until = None;
            return None;
        }
        if was_up {
            return None;
        }
        self.rests_until = Some(now.saturating_add(time));
        self.rests_until
    }

    /// Whether a rest is over now, which may have begun again since.
    pub(crate) fn has_rested(&mut self, now: u64) -> bool {
        self.rests_until.take_if(|until| *until <= now).is_some()
    }

    /// An item was asked for.
    pub(crate) fn asked(&mut self, snapshot: bool) {
        self.outstanding += 1;
        self.snapshots += u32::from(snapshot);
    }

    /// An item that was asked for is open.
    pub(crate) fn answered(&mut self) {
        assert!(self.outstanding > 0, "an answer to nothing that was asked");
        self.outstanding -= 1;
        self.open += 1;
    }

    /// An item has left its stream, before or after it was answered.
    pub(crate) fn left(&mut self, unanswered: bool, snapshot: bool) {
        let count = if unanswered { &mut self.outstanding } else { &mut self.open };
        assert!(*count > 0 && self.snapshots >= u32::from(snapshot), "more items leave than were asked for");
        *count -= 1;
        self.snapshots -= u32::from(snapshot);
    }
}

/// Offers of a session, by our ids of services and by its own.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    by_service: BTreeMap<u16, Offer>,
    /// Ours, by the provider's.
    services: BTreeMap<u16, u16>,
    /// Service groups, each with the member that it is served from: (member, group), both by our ids.
    members: Vec<(u16, u16)>,
}

impl Offers {
    /// All, by our ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.by_service.values().filter(|offer| offer.phase != OfferPhase::Withdrawn)
    }

    /// All, and those that are withdrawn and still have items.
    pub(crate) fn with_withdrawn(&self) -> impl Iterator<Item = &Offer> {
        self.by_service.values()
    }

    /// The only one, if there is one and no other.
    pub(crate) fn only(&self) -> Option<&Offer> {
        let mut offers = self.iter();
        offers.next().filter(|_| offers.next().is_none())
    }

    /// The provider offers a service under this id of its own, new or not.
    pub(crate) fn offer(&mut self, provider_id: u16, service: u16) {
        let new = Offer { up: true, ..Offer::new(provider_id, service) };
        let offer = self.by_service.entry(service).or_insert_with(|| new);
        if offer.phase == OfferPhase::Withdrawn {
            let Offer { outstanding, open, snapshots, .. } = *offer;
            let new = Offer { up: true, ..Offer::new(provider_id, service) };
            *offer = Offer { outstanding, open, snapshots, phase: OfferPhase::Renewed, ..new };
        }
        let before = std::mem::replace(&mut offer.provider_id, provider_id);
        if self.services.get(&before) == Some(&service) {
            self.services.remove(&before);
        }
        self.services.insert(provider_id, service);
    }

    /// The provider offers a member of a service group, which is served from that. What the provider says by its id is of the member.
    pub(super) fn offer_member(&mut self, provider_id: u16, service: u16, member: Member) {
        let before = self.by_service.remove(&service);
        let mut offer = Offer { up: true, member: Some(member), ..Offer::new(provider_id, service) };
        if let Some(Offer { outstanding, open, snapshots, phase: OfferPhase::Withdrawn, .. }) = before {
            offer = Offer { outstanding, open, snapshots, phase: OfferPhase::Renewed, ..offer };
        }
        self.by_service.insert(service, offer);
        self.members.retain(|&(_, group)| group != service);
        self.members.push((member.service, service));
    }

    /// Requests that are not answered, items open and snapshots of a service of the provider's: its own, and those of groups that are served
    /// from it.
    fn used(&self, offer: &Offer) -> (u32, u32, u32) {
        if self.members.is_empty() {
            return (offer.outstanding, offer.open, offer.snapshots);
        }
        let member = offer.member.map_or(offer.service, |member| member.service);
        let groups = self.members.iter().filter(|&&(of, _)| of == member).map(|&(_, group)| group);
        let all = std::iter::once(member).chain(groups).filter_map(|service| self.by_service.get(&service));
        all.fold((0, 0, 0), |(outstanding, open, snapshots), offer| {
            (outstanding + offer.outstanding, open + offer.open, snapshots + offer.snapshots)
        })
    }

    /// The provider offers a service no more. Its items leave, and then [`Self::settle`] is called.
    pub(crate) fn withdraw(&mut self, service: u16) {
        self.members.retain(|&(_, group)| group != service);
        // The offer was withdrawn before.
        let Some(offer) = self.by_service.get_mut(&service) else { return };
        offer.phase = OfferPhase::Withdrawn;
        if self.services.get(&offer.provider_id) == Some(&service) {
            self.services.remove(&offer.provider_id);
        }
    }

    /// The items have left that were there when the service was withdrawn.
    pub(crate) fn settle(&mut self, service: u16) {
        // The offer has settled with its last item.
        let Some(offer) = self.by_service.get_mut(&service) else { return };
        match offer.phase {
            OfferPhase::Withdrawn => drop(self.by_service.remove(&service)),
            OfferPhase::Renewed | OfferPhase::Offered => offer.phase = OfferPhase::Offered,
        }
    }
}

/// Groups a session may name; more are treated as none.
const MAX_GROUPS: usize = 100_000;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) origin: Origin,
    pub(crate) peer: PeerInfo,
    /// Tells this use of the slot from others.
    pub(crate) serial: u32,
    pub(crate) phase: Phase,
    pub(crate) streams: Streams,
    pub(crate) ids: StreamIds,
    pub(crate) offers: Offers,
    /// Our login at an interactive provider; boxed, as the data path has no use for it.
    pub(crate) login: Option<Box<LoginStream>>,
    /// The login of a non-interactive provider here.
    pub(crate) port: LoginPort,
    pub(crate) downloads: Downloads,
    /// When its data count as interrupted, as of the beginning of the session.
    pub(crate) interruption: Option<Interruption>,
    /// Entries of services whose names are taken by a provider of the other kind, or that found no id, for when they are free.
    refused: Vec<Entry>,
    /// Services that come through other sites.
    pub(super) linked: LinkedServices,
    /// Members of service groups that come before those that the groups are served from, by the group's service; and since when they are there.
    pub(super) better_members: BTreeMap<u16, (Member, u64)>,
    /// Ours for the provider's groups, by our service id and its group id.
    groups: SeededMap<Box<[u8]>, GroupId>,
    /// The last that was named, with its key as in `groups`: images name the same group again and again.
    recent_group: (Vec<u8>, GroupId),
}

/// Services of a session that are remembered though they are not taken; more are dropped.
const MAX_REFUSED: usize = 1_000;

impl Session {
    pub(crate) fn new(origin: Origin, peer: PeerInfo, serial: u32, seed: HashSeed) -> Self {
        Self {
            origin,
            peer,
            serial,
            phase: Phase::LoggingIn,
            streams: Streams::new(seed),
            ids: StreamIds::default(),
            offers: Offers::default(),
            login: None,
            port: LoginPort::default(),
            downloads: Downloads::default(),
            interruption: None,
            refused: Vec::new(),
            linked: LinkedServices::default(),
            better_members: BTreeMap::new(),
            groups: SeededMap::with_hasher(seed),
            recent_group: (Vec::new(), GroupId::NONE),
        }
    }

    /// Whether the provider takes views and pauses (`SupportViewRequests`, `SupportOptimizedPauseResume` of its login).
    pub(crate) fn views_and_pauses(&self) -> (bool, bool) {
        let features = self.login.as_deref().map(LoginStream::features);
        let says = |feature: fn(&Features) -> Option<bool>| features.and_then(feature).unwrap_or(false);
        (says(|features| features.view), says(|features| features.optimized_pause_resume))
    }

    /// Whether the provider says that it takes no posts (`SupportOMMPost` 0). One that says nothing of it may take them.
    pub(crate) fn refuses_posts(&self) -> bool {
        self.login.as_deref().is_some_and(|login| login.features().post == Some(false))
    }

    /// The provider offers a service whose name is taken, or says something else of it. True if that is news.
    pub(super) fn note_refused(&mut self, entry: &Entry) -> bool {
        if let Some(known) = self.refused.iter_mut().find(|known| known.id == entry.id) {
            known.info = entry.info.clone().or(known.info.take());
            known.state = entry.state.clone().or(known.state.take());
            known.load = entry.load.clone().or(known.load.take());
            return false;
        }
        let has_room = self.refused.len() < MAX_REFUSED;
        if has_room {
            self.refused.push(entry.clone());
        }
        has_room
    }

    /// Whether it has said something of a service by this id whose name is taken.
    pub(super) fn is_refused(&self, provider_id: u16) -> bool {
        self.refused.iter().any(|known| known.id == provider_id)
    }

    /// The provider offers the service no more, or the service is ours from now on.
    pub(super) fn forget_refused(&mut self, provider_id: u16) {
        self.refused.retain(|known| known.id != provider_id);
    }

    /// The entries of services that the session may not offer.
    pub(crate) fn all_refused(&self) -> impl Iterator<Item = &Entry> {
        self.refused.iter()
    }

    /// The entry of a service of this name that the session may not offer.
    pub(super) fn refused(&self, name: &str) -> Option<&Entry> {
        self.refused.iter().find(|known| known.name() == Some(name))
    }

    pub(crate) fn offer(&self, service: u16) -> Option<&Offer> {
        self.offers.by_service.get(&service)
    }

    /// Requests not answered, items open and snapshots that count for the window and the limit of an offer: those of service groups that are
    /// served from it, too.
    pub(crate) fn used(&self, offer: &Offer) -> (u32, u32, u32) {
        self.offers.used(offer)
    }

    pub(crate) fn offer_mut(&mut self, service: u16) -> Option<&mut Offer> {
        self.offers.by_service.get_mut(&service)
    }

    /// The service that the provider means by its id.
    pub(crate) fn offer_by_id(&self, provider_id: u16) -> Option<&Offer> {
        self.offer(*self.offers.services.get(&provider_id)?)
    }

    /// Our number for a group of the provider's; `next` is the last one given out.
    pub(super) fn group(&mut self, service: u16, id: &[u8], next: &mut u32) -> GroupId {
        if let Some((of_service, recent)) = self.recent_group.0.split_first_chunk()
            && (*of_service, recent) == (service.to_le_bytes(), id)
        {
            return self.recent_group.1;
        }
        let (key, length) = group_key(service, id);
        let key = &key[..length];
        let group = match self.groups.get(key) {
            Some(&group) => group,
            None if self.groups.len() >= MAX_GROUPS => return GroupId::NONE,
            None => {
                *next += 1;
                self.groups.insert(key.into(), GroupId(*next));
                GroupId(*next)
            }
        };
        self.recent_group.0.clear();
        self.recent_group.0.extend_from_slice(key);
        self.recent_group.1 = group;
        group
    }

    /// Our number for a group of the provider's, if it has named it before.
    pub(crate) fn known_group(&self, service: u16, id: &[u8]) -> Option<GroupId> {
        let (key, length) = group_key(service, id);
        self.groups.get(&key[..length]).copied()
    }

    /// The group's members have gone to another: who comes under this id later starts a new one.
    pub(crate) fn forget_group(&mut self, service: u16, id: &[u8]) {
        let (key, length) = group_key(service, id);
        self.groups.remove(&key[..length]);
        self.recent_group.0.clear();
    }
}

/// The key of a group, and how much of the array it is.
fn group_key(service: u16, id: &[u8]) -> ([u8; 257], usize) {
    let mut key = [0; 257];
    let id = &id[..id.len().min(255)];
    key[..2].copy_from_slice(&service.to_le_bytes());
    key[2..2 + id.len()].copy_from_slice(id);
    (key, 2 + id.len())
}
