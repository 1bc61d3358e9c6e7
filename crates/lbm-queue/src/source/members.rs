//! Receivers that are registered at a source, by application set, and who of them is next.

use std::collections::HashMap;

use super::config::{AssignmentFunction, Events, LoadBehavior, SetConfig, TypeConfig};
use crate::wire::Load;
use crate::{Index, RECEIVERS_MAX};

/// A receiver.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: u32,
    pub(super) reg_id: u64,
    pub(super) of_type: TypeConfig,
    /// Messages that are assigned to it and not consumed.
    pub(super) outstanding: u32,
    /// The receiver has answered by the source's own transport: what is sent to it comes there.
    pub(super) is_ready: bool,
    pub(super) takes_indices: bool,
    /// The load that the receiver tells: sources that it has, and messages of all of them that it has not consumed.
    sources: u16,
    pending: u16,
    pub(super) heard_at: u64,
    pub(super) asked_at: u64,
    /// By which its owner reaches it alone, if there is such a way.
    pub(super) line: Option<u32>,
    /// The round of its last message.
    round: u64,
}

impl Member {
    /// Messages that it counts as having, and the portion that they are for.
    fn load(&self, set: &SetConfig) -> (u64, u64) {
        let of_all = if set.load == LoadBehavior::Dynamic { u32::from(self.pending) } else { 0 };
        let has = self.outstanding.max(of_all);
        let counted = u64::from(has) + if has > 0 { u64::from(set.bias) } else { 0 };
        let sources = if set.load == LoadBehavior::Provisioned { self.sources.max(1) } else { 1 };
        // Dividing the portion is multiplying the load.
        (counted.saturating_mul(sources.into()), self.of_type.portion.max(1).into())
    }
}

/// Whom an index is assigned to, in one application set.
#[derive(Debug, Default)]
struct Indices {
    of: HashMap<Index, Bound>,
    /// Forgotten for want of room.
    forgotten: u64,
}

#[derive(Debug)]
struct Bound {
    place: u16,
    /// Its messages that are not consumed.
    under_way: u32,
}

/// See the module. Places are used again.
#[derive(Debug)]
pub(super) struct Members {
    places: Vec<Option<Member>>,
    by_id: HashMap<u32, u16>,
    indices: Vec<Indices>,
    indices_max: usize,
    round: u64,
    random: u64,
}

impl Members {
    pub(super) fn new(sets: usize, indices_max: usize, random: u64) -> Self {
        Self {
            places: Vec::new(),
            by_id: HashMap::new(),
            indices: (0..sets).map(|_| Indices::default()).collect(),
            indices_max: indices_max.max(1),
            round: 0,
            random: random | 1,
        }
    }

    pub(super) fn place_of(&self, id: u32) -> Option<u16> {
        self.by_id.get(&id).copied()
    }

    #[inline]
    pub(super) fn get(&self, place: u16) -> Option<&Member> {
        self.places.get(usize::from(place))?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: u16) -> Option<&mut Member> {
        self.places.get_mut(usize::from(place))?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Member)> {
        self.places.iter().enumerate().filter_map(|(place, member)| Some((place as u16, member.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.places.iter_mut().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn forgotten_indices(&self) -> u64 {
        self.indices.iter().map(|indices| indices.forgotten).sum()
    }

    /// Adds a receiver. `None`: there is no room.
    pub(super) fn add(
        &mut self,
        now: u64,
        id: u32,
        reg_id: u64,
        of_type: TypeConfig,
        takes_indices: bool,
    ) -> Option<u16> {
        if self.by_id.len() >= RECEIVERS_MAX {
            return None;
        }
        let member = Member {
            id,
            reg_id,
            of_type,
            outstanding: 0,
            is_ready: false,
            takes_indices,
            sources: 1,
            pending: 0,
            heard_at: now,
            asked_at: 0,
            line: None,
            round: 0,
        };
        let place = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        if place == self.places.len() {
            self.places.push(None);
        }
        self.places[place] = Some(member);
        self.by_id.insert(id, place as u16);
        Some(place as u16)
    }

    /// Takes a receiver out, and its indices with it.
    pub(super) fn remove(&mut self, place: u16) -> Option<Member> {
        let member = self.places.get_mut(usize::from(place))?.take()?;
        self.by_id.remove(&member.id);
        if let Some(indices) = self.indices.get_mut(usize::from(member.of_type.set)) {
            indices.of.retain(|_, bound| bound.place != place);
        }
        Some(member)
    }

    pub(super) fn note_load(&mut self, place: u16, load: Load) {
        if let Some(member) = self.get_mut(place) {
            (member.sources, member.pending) = (load.sources, load.messages);
        }
    }

    /// The receiver that is to have a message, and has it from now on. `None`: nobody can. `not`: who has it now, and is to have it no more if there is
    /// another one; an index stays where it is.
    #[inline]
    pub(super) fn choose(
        &mut self,
        set: u16,
        config: &SetConfig,
        index: Option<&Index>,
        not: Option<u16>,
    ) -> Option<u16> {
        let place = match index {
            None => self.best(set, config, false, not).or_else(|| not.filter(|place| self.is_ready(*place)))?,
            Some(index) => self.holder(set, config, index)?,
        };
        self.round += 1;
        let round = self.round;
        let member = self.get_mut(place)?;
        member.outstanding += 1;
        member.round = round;
        Some(place)
    }

    fn is_ready(&self, place: u16) -> bool {
        self.get(place).is_some_and(|member| member.is_ready)
    }

    /// Whom an index is assigned to, or from now on.
    fn holder(&mut self, set: u16, config: &SetConfig, index: &Index) -> Option<u16> {
        let indices = self.indices.get_mut(usize::from(set))?;
        if let Some(bound) = indices.of.get_mut(index) {
            bound.under_way += 1;
            return Some(bound.place);
        }
        if indices.of.len() >= self.indices_max {
            // Nothing of it is under way: whoever gets it next has it in order.
            let idle = indices.of.iter().find(|(_, bound)| bound.under_way == 0).map(|(index, _)| index.clone());
            indices.of.remove(&idle?);
            indices.forgotten += 1;
        }
        let place = self.best(set, config, true, None)?;
        let bound = Bound { place, under_way: 1 };
        self.indices.get_mut(usize::from(set))?.of.insert(index.clone(), bound);
        Some(place)
    }

    /// A message is not the receiver's any more: it is consumed, given up, or assigned anew.
    #[inline]
    pub(super) fn release(&mut self, set: u16, place: u16, index: Option<&Index>) {
        if let Some(member) = self.get_mut(place) {
            member.outstanding = member.outstanding.saturating_sub(1);
        }
        if let Some(index) = index
            && let Some(bound) = self.indices.get_mut(usize::from(set)).and_then(|indices| indices.of.get_mut(index))
            && bound.place == place
        {
            bound.under_way = bound.under_way.saturating_sub(1);
        }
    }

    /// The ready receiver of the set that is to have the next message.
    #[inline]
    fn best(&mut self, set: u16, config: &SetConfig, with_index: bool, not: Option<u16>) -> Option<u16> {
        let can = |place: u16, member: &Member| {
            member.of_type.set == set && member.is_ready && (!with_index || member.takes_indices) && not != Some(place)
        };
        let mut best: Option<(u16, &Member)> = None;
        let mut portions = 0;
        for (place, member) in self.iter().filter(|(place, member)| can(*place, member)) {
            let Some((_, other)) = best else {
                (best, portions) = (Some((place, member)), u64::from(member.of_type.portion));
                continue;
            };
            if member.of_type.priority != other.of_type.priority {
                if member.of_type.priority > other.of_type.priority {
                    (best, portions) = (Some((place, member)), u64::from(member.of_type.portion));
                }
                continue;
            }
            portions += u64::from(member.of_type.portion);
            let ((load, portion), (other_load, other_portion)) = (member.load(config), other.load(config));
            // As fractions: load / portion < other load / other portion.
            let (this, that) = (load.saturating_mul(other_portion), other_load.saturating_mul(portion));
            if (this, member.round) < (that, other.round) {
                best = Some((place, member));
            }
        }
        let (place, member) = best?;
        if config.function == AssignmentFunction::LeastLoaded {
            return Some(place);
        }
        let priority = member.of_type.priority;
        let mut left = self.draw() % portions.max(1);
        let mut of_priority = self.iter().filter(|(place, m)| can(*place, m) && m.of_type.priority == priority);
        of_priority.find_map(|(place, member)| match left.checked_sub(member.of_type.portion.into()) {
            Some(rest) => {
                left = rest;
                None
            }
            None => Some(place),
        })
    }

    /// Xorshift.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }

    /// Whether an event of the receiver is told because of its type.
    pub(super) fn tells(&self, place: u16, kind: Events) -> bool {
        self.get(place).is_some_and(|member| member.of_type.events.has(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(portions: &[(u32, u32)], config: &SetConfig) -> (Members, SetConfig) {
        let mut members = Members::new(1, 4, 7);
        for (i, (portion, priority)) in portions.iter().enumerate() {
            let of_type = TypeConfig { portion: *portion, priority: *priority, ..TypeConfig::of_set(0) };
            let place = members.add(0, i as u32 + 1, 1, of_type, true).expect("room");
            members.get_mut(place).expect("there").is_ready = true;
        }
        (members, config.clone())
    }

    /// Of so many messages, how many each receiver gets.
    fn shares(portions: &[(u32, u32)], config: &SetConfig, count: usize) -> Vec<usize> {
        let (mut members, config) = members(portions, config);
        let mut got = vec![0; portions.len()];
        (0..count).for_each(|_| got[usize::from(members.choose(0, &config, None, None).expect("ready"))] += 1);
        got
    }

    #[test]
    fn portions_are_shares_and_the_highest_priority_gets_all() {
        let config = SetConfig::default();
        assert_eq!(shares(&[(1, 0), (1, 0), (1, 0)], &config, 300), [100, 100, 100]);
        let [one, three] = shares(&[(1, 0), (3, 0)], &config, 400)[..] else { panic!("two") };
        assert!((98..=102).contains(&one) && one + three == 400, "{one} and {three}");
        assert_eq!(shares(&[(1, 0), (1, 5), (1, 5)], &config, 100), [0, 50, 50]);
    }

    #[test]
    fn chance_has_the_same_shares() {
        let config = SetConfig { function: AssignmentFunction::Random, ..SetConfig::default() };
        let got = shares(&[(1, 1), (3, 1), (9, 0)], &config, 4_000);
        assert!((800..1_200).contains(&got[0]) && got[0] + got[1] == 4_000, "{got:?}");
    }

    #[test]
    fn what_receivers_say_of_their_load_counts_if_it_is_to() {
        for (behavior, load, wanted) in [
            (LoadBehavior::Ignored, Load { sources: 1, messages: 50 }, 10..=10),
            (LoadBehavior::Dynamic, Load { sources: 1, messages: 50 }, 0..=0),
            (LoadBehavior::Provisioned, Load { sources: 4, messages: 0 }, 3..=5),
        ] {
            let (mut members, config) =
                members(&[(1, 0), (1, 0)], &SetConfig { load: behavior, ..SetConfig::default() });
            members.note_load(0, load);
            let got = (0..20).filter(|_| members.choose(0, &config, None, None) == Some(0)).count();
            assert!(wanted.contains(&got), "{behavior:?}: {got}");
        }
    }

    #[test]
    fn an_index_stays_with_its_receiver_and_the_idle_one_is_forgotten_for_want_of_room() {
        let (mut members, config) = members(&[(1, 0), (1, 0)], &SetConfig::default());
        let of = |number| Index::Number(number);
        let first = members.choose(0, &config, Some(&of(1)), None);
        (0..9).for_each(|_| assert_eq!(members.choose(0, &config, Some(&of(1)), first), first));
        (2..5).for_each(|number| assert!(members.choose(0, &config, Some(&of(number)), None).is_some()));
        assert_eq!(members.choose(0, &config, Some(&of(5)), None), None, "four have messages under way");
        (0..10).for_each(|_| members.release(0, first.expect("chosen"), Some(&of(1))));
        assert!(members.choose(0, &config, Some(&of(5)), None).is_some());
        assert_eq!(members.forgotten_indices(), 1);
    }

    #[test]
    fn who_takes_no_indices_gets_none_and_another_receiver_gets_what_one_has_not_consumed() {
        let (mut members, config) = members(&[(1, 0), (1, 0)], &SetConfig::default());
        members.get_mut(0).expect("there").takes_indices = false;
        (0..9).for_each(|number| {
            assert_eq!(members.choose(0, &config, Some(&Index::Number(number % 4)), None), Some(1));
        });
        (0..9).for_each(|_| assert_eq!(members.choose(0, &config, None, Some(0)), Some(1)));
        members.remove(1);
        assert_eq!(members.choose(0, &config, None, Some(0)), Some(0), "there is no other");
        assert_eq!(members.choose(0, &config, Some(&Index::Number(0)), None), None);
    }
}
