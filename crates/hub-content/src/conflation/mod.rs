//! Conflation: fewer updates that lead to the same image.
//!
//! * [`Settings`]: which services conflate, and what they offer to those that ask;
//! * `merge`: updates of one stream merged into fewer;
//! * [`Exceptions`]: items and fields of a service that are conflated otherwise than the rest of it;
//! * [`TimeConflation`]: what waits for the end of an interval. A stream that is conflated by time is a view of its item: all who watch
//!   the item at the same interval share one merge and one body;
//! * [`SharedMerges`]: what waits for clients that take less than there is. All that wait for updates of an item, or of a view of it, share one
//!   merge, each since another update.
//!
//! What becomes of updates and when they go out, the owner decides (at a P2PS `delivery::conflated`, and `egress` just in time).

mod item_rules;
pub mod merge;
mod shared;

pub use crate::filter::rules::FieldValue;
pub use item_rules::{Exceptions, FieldIntervals, ItemRules};
use merge::{Merged, Ripples, may_merge};
use rustc_hash::FxHashMap;
use rwf::dictionary::Dictionary;
use rwf::msg::{MsgClass, UpdateMsg};
use rwf::{Qos, Rate, peek};
pub use shared::{MergeId, SharedMerges};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

const MILLISECOND: u64 = 1_000_000;

/// Which streams are conflated just in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JustInTime {
    /// None: a client that takes too little is cut off.
    #[default]
    Off,
    /// Streams whose request allows it: one that asks for the rate Just-in-time, or for a range in which that lies, or for no quality at all.
    Asked,
    /// All but private ones, whatever was asked for.
    All,
}

/// How the streams of one service are conflated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceConflation {
    /// Milliseconds over which every stream of the service is conflated (`aggregationInterval`); 0 for none.
    pub interval: u16,
    /// What of a service with such an interval has another one, or none.
    pub exceptions: Exceptions,
    /// Intervals, in milliseconds, that are offered beside the rate of the source to those that ask for them.
    pub offered: Vec<u16>,
    /// Conflation of slow clients.
    pub just_in_time: JustInTime,
}

/// How a stream is conflated: what its request and the offer of its service come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Quality of the item at its source.
    pub source: Qos,
    /// Interval in milliseconds, 0 for none.
    pub interval: u16,
    /// The stream's quality is Just-in-time.
    pub just_in_time: bool,
}

impl ServiceConflation {
    /// The qualities that clients are offered where sources have these.
    pub fn offer(&self, sources: &[Qos]) -> Vec<Qos> {
        let conflated = |qos: &Qos, interval| Qos { rate_info: interval, ..Qos { rate: Rate::TIME_CONFLATED, ..*qos } };
        let mut offer = Vec::new();
        let mut add = |qos: Qos| {
            if !offer.contains(&qos) {
                offer.push(qos);
            }
        };
        if self.interval > 0 {
            for qos in sources {
                add(conflated(qos, self.interval));
            }
            return offer;
        }
        sources.iter().copied().for_each(&mut add);
        for qos in sources.iter().filter(|qos| qos.rate == Rate::TICK_BY_TICK) {
            self.offered.iter().filter(|&&interval| interval > 0).for_each(|&interval| add(conflated(qos, interval)));
            if self.just_in_time != JustInTime::Off {
                add(Qos { rate: Rate::JIT_CONFLATED, rate_info: 0, ..*qos });
            }
        }
        offer
    }

    /// How a stream of an offered quality is served where sources have these.
    pub fn granted(&self, sources: &[Qos], qos: Qos) -> Granted {
        let plain = Granted { source: qos, interval: 0, just_in_time: false };
        if self.interval == 0 && sources.contains(&qos) {
            return plain;
        }
        let timely = |other: &&Qos| (other.timeliness, other.time_info) == (qos.timeliness, qos.time_info);
        let ticks = |other: &&Qos| timely(other) && other.rate == Rate::TICK_BY_TICK;
        let Some(&source) = sources.iter().find(ticks).or_else(|| sources.iter().find(timely)) else { return plain };
        let interval = if qos.rate == Rate::TIME_CONFLATED { qos.rate_info } else { 0 };
        Granted { source, interval, just_in_time: qos.rate == Rate::JIT_CONFLATED }
    }
}

/// How the services of a P2PS are conflated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// By name.
    pub services: BTreeMap<String, ServiceConflation>,
    /// All others.
    pub others: ServiceConflation,
    /// Fields are merged for receivers that ripple too, as the dictionary says. Without it only the last value of each field goes
    /// out.
    pub ripple: bool,
}

impl Settings {
    /// The settings of a service.
    pub fn of(&self, service: &str) -> &ServiceConflation {
        self.services.get(service).unwrap_or(&self.others)
    }
}

/// What is known of the fields, as long as the dictionary stays the same.
#[derive(Debug, Default)]
pub struct Rules {
    ripple: bool,
    ripples: Ripples,
    /// The dictionary that they are from.
    of: Option<Arc<Dictionary>>,
}

impl Rules {
    /// Nothing is known yet; fields ripple if `ripple` says so.
    pub fn new(ripple: bool) -> Self {
        Self { ripple, ..Self::default() }
    }

    /// The chains of fields that ripple.
    pub fn ripples(&mut self, dictionary: &Arc<Dictionary>) -> &Ripples {
        // A list that changes is another one, as long as it is shared.
        if self.ripple && !self.of.as_ref().is_some_and(|known| Arc::ptr_eq(known, dictionary)) {
            self.ripples = Ripples::of(dictionary);
            self.of = Some(dictionary.clone());
        }
        &self.ripples
    }
}

/// Updates that wait for a view.
#[derive(Debug)]
struct Pending {
    due: u64,
    merged: Merged,
}

/// Since which update all wait for what is conflated by time: the first one.
pub const FIRST: u32 = 1;

/// What becomes of an update of a view that is conflated by time.
#[derive(Debug)]
pub enum Added {
    /// The update waits.
    Waits,
    /// The update waits, and what waited before goes out: the two do not merge.
    Follows(Merged),
    /// The update goes out now, behind what waited.
    Passes(Option<Merged>),
}

/// Updates that wait for the end of their interval, by view. `V` is how the owner numbers its views.
#[derive(Debug)]
pub struct TimeConflation<V> {
    pending: FxHashMap<V, Pending>,
    /// When what is due, by interval: within one in the order in which it began. What has gone out before is left in it.
    due: BTreeMap<u16, VecDeque<(u64, V)>>,
}

impl<V> Default for TimeConflation<V> {
    fn default() -> Self {
        Self { pending: FxHashMap::default(), due: BTreeMap::new() }
    }
}

/// Times in an interval at which something goes out.
const TIMES: u64 = 16;

/// When what begins to wait now goes out: when the interval (milliseconds) ends, or up to a sixteenth of it before that, so that what waits
/// goes out in few turns. Each turn has a message of its own to each of its clients, which costs more than all that is in it.
fn due(now: u64, interval: u16) -> u64 {
    let interval = u64::from(interval) * MILLISECOND;
    let end = now + interval;
    end - end % (interval / TIMES).max(1)
}

impl<V: Copy + Eq + Hash + Debug> TimeConflation<V> {
    /// An update of a view with such an interval, in milliseconds.
    pub fn add(&mut self, view: V, interval: u16, msg: &[u8], now: u64, ripples: &Ripples) -> Added {
        debug_assert_eq!(peek::class(msg), Some(MsgClass::UPDATE), "only updates are conflated");
        let Some(update) = UpdateMsg::decode(msg).ok().filter(may_merge) else {
            return Added::Passes(self.take(view));
        };
        if self.pending.get_mut(&view).is_some_and(|pending| pending.merged.merge(msg, &update, ripples)) {
            return Added::Waits;
        }
        let due = due(now, interval);
        self.due.entry(interval).or_default().push_back((due, view));
        let mut merged = Merged::begin(msg, &update);
        merged.join(now);
        let pending = Pending { due, merged };
        self.pending.insert(view, pending).map_or(Added::Waits, |before| Added::Follows(before.merged))
    }

    /// What waits for a view; nothing does any more.
    pub fn take(&mut self, view: V) -> Option<Merged> {
        if self.pending.is_empty() { None } else { self.pending.remove(&view).map(|pending| pending.merged) }
    }

    /// Has the memory come near that an update of a view is merged in, if one waits: for many views one after the other. The value means nothing; it is to
    /// be kept ([`std::hint::black_box`]) so that nobody leaves the look out.
    #[inline]
    pub fn look_ahead(&self, view: V) -> u8 {
        self.get(view).map_or(0, Merged::touch)
    }

    /// What waits for a view, and goes on waiting.
    pub fn get(&self, view: V) -> Option<&Merged> {
        if self.pending.is_empty() { None } else { self.pending.get(&view).map(|pending| &pending.merged) }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Something whose interval has ended.
    pub fn take_due(&mut self, now: u64) -> Option<(V, Merged)> {
        let Self { pending, due } = self;
        for queue in due.values_mut() {
            while let Some((at, view)) = queue.pop_front_if(|(at, _)| *at <= now) {
                if pending.get(&view).is_some_and(|pending| pending.due == at) {
                    return pending.remove(&view).map(|pending| (view, pending.merged));
                }
            }
        }
        None
    }

    /// When the first interval ends. It may be one of something that has gone out before.
    pub fn timeout(&self) -> Option<u64> {
        self.due.values().filter_map(|queue| queue.front()).map(|(at, _)| *at).min()
    }

    /// Panics if something waits for a view that is not conflated, or for no time.
    pub fn check(&self, is_conflated: impl Fn(V) -> bool) {
        for (&view, pending) in &self.pending {
            assert!(is_conflated(view), "updates wait for {view:?}");
            let is_queued = self.due.values().flatten().any(|&queued| queued == (pending.due, view));
            assert!(is_queued, "what waits for {view:?} is due at no time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Granted, JustInTime, MILLISECOND, ServiceConflation, due};
    use rwf::{Qos, Rate, Timeliness};
    use std::collections::BTreeSet;

    const LIVE: Qos = Qos::REALTIME_TICK;
    const JIT: Qos = Qos::new(Timeliness::REALTIME, Rate::JIT_CONFLATED);
    const SECOND: Qos = Qos { rate_info: 1_000, ..Qos::new(Timeliness::REALTIME, Rate::TIME_CONFLATED) };

    #[test]
    fn what_waits_goes_out_in_few_turns_and_never_late() {
        for interval in [1, 7, 100, 2_000, u16::MAX] {
            let length = u64::from(interval) * MILLISECOND;
            let begun: Vec<u64> = (0..1_000).map(|n| 123_456_789 + n * length / 1_000).collect();
            let dues: BTreeSet<u64> = begun.iter().map(|&now| due(now, interval)).collect();
            assert!(dues.len() <= 18, "{interval} ms: {} turns", dues.len());
            for now in begun {
                let waits = due(now, interval) - now;
                assert!(waits <= length && waits >= length - length / 15, "{waits} ns of {interval} ms");
            }
        }
    }

    #[test]
    fn what_is_offered_is_granted() {
        let delayed = Qos { time_info: 900, ..Qos::new(Timeliness::DELAYED, Rate::TICK_BY_TICK) };
        let off = ServiceConflation::default();
        assert_eq!(off.offer(&[LIVE, delayed]), [LIVE, delayed]);
        let asked = ServiceConflation { offered: vec![1_000], just_in_time: JustInTime::Asked, ..off.clone() };
        let offer = asked.offer(&[LIVE, delayed]);
        assert_eq!(offer[..4], [LIVE, delayed, SECOND, JIT]);
        assert_eq!(offer.len(), 6, "{offer:?}");
        let plain = Granted { source: LIVE, interval: 0, just_in_time: false };
        assert_eq!(asked.granted(&[LIVE, delayed], LIVE), plain);
        assert_eq!(asked.granted(&[LIVE, delayed], SECOND), Granted { interval: 1_000, ..plain });
        assert_eq!(asked.granted(&[delayed, LIVE], JIT), Granted { just_in_time: true, ..plain });
        assert_eq!(asked.granted(&[delayed, LIVE], offer[5]).source, delayed);
    }

    #[test]
    fn a_service_that_is_conflated_has_nothing_else() {
        let all = ServiceConflation { interval: 1_000, ..ServiceConflation::default() };
        assert_eq!(all.offer(&[LIVE, JIT]), [SECOND]);
        let granted = Granted { source: LIVE, interval: 1_000, just_in_time: false };
        assert_eq!(all.granted(&[JIT, LIVE], SECOND), granted);
    }

    #[test]
    fn what_the_source_conflates_itself_is_left_to_it() {
        let asked = ServiceConflation { offered: vec![1_000], ..ServiceConflation::default() };
        assert_eq!(asked.offer(&[SECOND]), [SECOND]);
        let granted = Granted { source: SECOND, interval: 0, just_in_time: false };
        assert_eq!(asked.granted(&[SECOND, LIVE], SECOND), granted);
    }
}
