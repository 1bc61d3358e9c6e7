//! What a compliance officer reads: an event for each login, watch and denial. Whoever owns the state machine takes the
//! events, adds the time of day, and writes them.

use std::collections::HashMap;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::rights::Failure;

/// Refused logins of an address that have a line each, in a second; further ones are counted.
pub(super) const REFUSALS: u32 = 10;
/// And of all addresses together: who has many must not fill the audit either.
const REFUSALS_ALL: u32 = 200;
/// Addresses whose refusals are counted apart; beyond it all others count as one. IPv6 counts by its /64, which is one site's.
const ADDRESSES_MAX: usize = 256;
/// Time over which refusals of an address are counted, in the caller's nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// What happened; the numbers are those of DACS's logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// An item is seen from now on.
    StartWatch = 1,
    /// An item is no longer seen.
    StopWatch = 2,
    /// An item is refused, or taken away.
    Denied = 3,
    /// A user has logged in.
    Login = 4,
    /// A login is refused, or ended by force.
    LoginDenied = 5,
    /// A user has logged out.
    Logout = 6,
    /// An item is still seen when a new day begins.
    ContinueWatch = 9,
    /// A contribution.
    Post = 10,
    /// A contribution is refused.
    PostDenied = 11,
    /// An item was seen once.
    Snapshot = 12,
}

/// The end of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Granted.
    Granted,
    /// Denied for this reason.
    Denied(Failure),
    /// In test mode: granted, but would be denied.
    WouldDeny(Failure),
}

/// The acting user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The user's name.
    pub user: Arc<str>,
    /// Where the user sits.
    pub position: Arc<str>,
    /// With which application.
    pub application: u32,
    /// The connection, as the caller numbers it.
    pub connection: u64,
}

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// When, in the caller's nanoseconds.
    pub at: u64,
    /// Counts all events from 1, so that a missing line shows.
    pub number: u64,
    /// The event.
    pub kind: EventKind,
    /// How often: more than 1 for refused logins of one address that are told together; the rest is that of the last of them.
    pub count: u64,
    /// The actor.
    pub actor: Actor,
    /// The item's service, if the event is about one.
    pub service: Option<Arc<str>>,
    /// The item.
    pub item: Option<Arc<str>>,
    /// The bytes of the item's lock, if there is one.
    pub lock: Option<Arc<[u8]>>,
    /// The decision.
    pub verdict: Verdict,
    /// The version of the rights that decided.
    pub rights: Arc<str>,
}

impl AuditEvent {
    /// Bytes that it takes while it waits. Locks and versions are shared.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        size_of::<Self>() + self.actor.user.len() + self.actor.position.len() + text(&self.service) + text(&self.item)
    }
}

/// Refused logins, by the address that they come from: strangers must not fill the audit.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    addresses: HashMap<IpAddr, Refused>,
    /// When the second of all began, and how many lines all had in it.
    since: u64,
    lines: u32,
}

/// The refused logins of one address.
#[derive(Debug)]
struct Refused {
    /// When its second began, and how many lines it had in it.
    since: u64,
    lines: u32,
    /// Refusals without a line of their own, and the last of them.
    summed: u64,
    last: Option<(Actor, Failure)>,
}

/// Part of an address that is one site's: all of it, or the first half of IPv6.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Refused logins that are told together: how many, and the last of them.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) actor: Actor,
    pub(super) failure: Failure,
}

impl Refusals {
    /// Counts a refusal; true if it is to have a line of its own.
    pub(super) fn takes(
        &mut self,
        now: u64,
        address: IpAddr,
        may_log: bool,
        (actor, failure): (&Actor, &Failure),
    ) -> bool {
        let address = site(address);
        let room = self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&address);
        let address = if room { address } else { Ipv4Addr::UNSPECIFIED.into() };
        if now >= self.since.saturating_add(PERIOD) {
            (self.since, self.lines) = (now, 0);
        }
        let fresh = || Refused { since: now, lines: 0, summed: 0, last: None };
        let of = self.addresses.entry(address).or_insert_with(fresh);
        if may_log && of.summed == 0 && now >= of.since.saturating_add(PERIOD) {
            (of.since, of.lines) = (now, 0);
        }
        if may_log && of.summed == 0 && of.lines < REFUSALS && self.lines < REFUSALS_ALL {
            of.lines += 1;
            self.lines += 1;
            return true;
        }
        of.summed += 1;
        of.last = Some((actor.clone(), failure.clone()));
        false
    }

    /// The sums whose second is over, one an address.
    pub(super) fn due(&mut self, now: u64) -> Vec<Sum> {
        let mut due = Vec::new();
        self.addresses.retain(|_, of| {
            if now < of.since.saturating_add(PERIOD) {
                return true;
            }
            let Some((actor, failure)) = of.last.take() else { return false };
            due.push(Sum { count: std::mem::take(&mut of.summed), actor, failure });
            (of.since, of.lines) = (now, 0);
            true
        });
        due
    }

    /// When the next one is.
    pub(super) fn next(&self) -> Option<u64> {
        self.addresses.values().map(|of| of.since.saturating_add(PERIOD)).min()
    }
}
