//! Bounds on what clients contribute by posts, where operators set them: to which services, which fields, of which templates, how often.

use crate::SourceDistributor;
use crate::filter::rules::FieldSet;
use crate::hash_seed::{HashSeed, SeededMap};
use rustc_hash::FxHashMap;
use rwf::msg::{Msg, NakCode, PostMsg, PostUserInfo};
use rwf::{DataType, FieldList, SetScope};
use std::collections::{BTreeMap, BTreeSet};

const SECOND: u64 = 1_000_000_000;

/// Bounds on contributions; the default bounds nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContributionRules {
    /// The only services that take posts, by name; all if it is empty (`contribServiceList`).
    pub services: BTreeSet<String>,
    /// The only fields that a post may have, by the name of its service; that of the empty name is for all others. None for any.
    pub fields: BTreeMap<String, FieldSet>,
    /// Fields that a post may have beside these, likewise (`contribExchangeFieldList`). They bound nothing where `fields` has none.
    pub exchange_fields: BTreeMap<String, FieldSet>,
    /// Posts of a service in a second, likewise; none or 0 for any number.
    pub rates: BTreeMap<String, u32>,
    /// Posts of one contributor in a second that are taken whatever the others have posted, likewise; none or 0 for none (`contribMinUpdateRate`).
    pub least_rates: BTreeMap<String, u32>,
    /// The only templates that posts may be of, likewise: numbers of field lists (`contribPositiveTemplateIdList`). None for any.
    pub templates: BTreeMap<String, BTreeSet<u16>>,
    /// Templates that posts may not be of, likewise (`contribNegativeTemplateIdList`).
    pub not_templates: BTreeMap<String, BTreeSet<u16>>,
    /// Whether posts without a sequence number get one on their way to the provider, the record transaction level of their item, likewise
    /// (`contribInsertRTL`).
    pub levels: BTreeMap<String, bool>,
}

/// Contributors of a second that are told apart; further ones have no posts of their own. Their names are the posts' own words.
const CONTRIBUTORS_MAX: usize = 10_000;

impl ContributionRules {
    fn of<'a, T>(all: &'a BTreeMap<String, T>, service: &str) -> Option<&'a T> {
        all.get(service).or_else(|| all.get(""))
    }
}

/// Items of a service whose transactions are counted, each for itself: further ones are counted together, so that their numbers grow, too.
const ITEMS_COUNTED_MAX: usize = 10_000;

/// Record transaction levels: how many posts of an item have got a number. Posts choose the names of items.
#[derive(Debug)]
pub(crate) struct TransactionLevels {
    services: FxHashMap<u16, SeededMap<Box<[u8]>, u16>>,
    /// Of the items of a service beyond [`ITEMS_COUNTED_MAX`].
    of_others: FxHashMap<u16, u16>,
    seed: HashSeed,
}

impl TransactionLevels {
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { services: FxHashMap::default(), of_others: FxHashMap::default(), seed }
    }

    /// The sequence number that a post gets here, if its service has it so and its poster has given none. `item` is the name of the item on whose stream it
    /// came; without one its key has the name.
    pub(super) fn of_post(
        &mut self,
        rules: &ContributionRules,
        (service, name): (u16, &str),
        item: Option<&[u8]>,
        post: &PostMsg<'_>,
    ) -> Option<u32> {
        if post.seq_num.is_some() || !ContributionRules::of(&rules.levels, name).copied().unwrap_or(false) {
            return None;
        }
        Some(self.next(service, item.or_else(|| post.key.as_ref()?.name).unwrap_or_default()))
    }

    /// The next number of an item, from 1; behind 65,535 follows 1, since 0 is none.
    fn next(&mut self, service: u16, item: &[u8]) -> u32 {
        let counted = self.services.entry(service).or_insert_with(|| SeededMap::with_hasher(self.seed));
        let level = if let Some(level) = counted.get_mut(item) {
            level
        } else if counted.len() < ITEMS_COUNTED_MAX {
            counted.entry(item.into()).or_default()
        } else {
            self.of_others.entry(service).or_default()
        };
        *level = level.checked_add(1).unwrap_or(1);
        u32::from(*level)
    }
}

/// Posts of services in the second at hand.
#[derive(Debug, Default)]
pub(crate) struct Contributions {
    seconds: FxHashMap<u16, Second>,
}

/// The second at hand of a service.
#[derive(Debug, Default)]
struct Second {
    /// When it began.
    begun: u64,
    posts: u32,
    /// Posts of each contributor (address, id), where they are told apart.
    of_each: BTreeMap<(u32, u32), u32>,
}

/// Posts in a second: at most of all, and at least of each contributor.
#[derive(Debug, Clone, Copy)]
struct Rates {
    most: u32,
    least: u32,
}

impl Contributions {
    /// Counts a post; false if the second is full, and its contributor has had what is sure.
    fn count(&mut self, now: u64, service: u16, rates: Rates, contributor: PostUserInfo) -> bool {
        let second = self.seconds.entry(service).or_insert_with(|| Second { begun: now, ..Second::default() });
        if now.saturating_sub(second.begun) >= SECOND {
            (second.begun, second.posts) = (now, 0);
            second.of_each.clear();
        }
        second.posts = second.posts.saturating_add(1);
        let mut is_sure = false;
        let contributor = (contributor.addr, contributor.id);
        let is_known = second.of_each.contains_key(&contributor) || second.of_each.len() < CONTRIBUTORS_MAX;
        if rates.least > 0 && is_known {
            let own = second.of_each.entry(contributor).or_default();
            *own = own.saturating_add(1);
            is_sure = *own <= rates.least;
        }
        is_sure || second.posts <= rates.most
    }
}

impl SourceDistributor {
    /// Whether a post to a service may go on. One of several parts is as many posts.
    pub(super) fn check_contribution(
        &mut self,
        service: u16,
        post: &PostMsg<'_>,
    ) -> Result<(), (NakCode, &'static str)> {
        let rules = &self.config.contributions;
        if *rules == ContributionRules::default() {
            return Ok(());
        }
        let name = self.providers[service].name.as_str();
        if !rules.services.is_empty() && !rules.services.contains(name) {
            return Err((NakCode::DENIED_BY_SRC, "Service takes no contributions (contribServiceList)"));
        }
        if let Some(fields) = ContributionRules::of(&rules.fields, name)
            && let exchange = ContributionRules::of(&rules.exchange_fields, name)
            && !has_only(
                &|fid| fields.has(fid) || exchange.is_some_and(|also| also.has(fid)),
                post.container,
                post.body,
            )
        {
            return Err((
                NakCode::INVALID_CONTENT,
                "Post has a field that is not to be contributed (contribFieldList)",
            ));
        }
        let only = ContributionRules::of(&rules.templates, name);
        let not = ContributionRules::of(&rules.not_templates, name);
        if (only.is_some() || not.is_some()) && !is_of_template(only, not, post.container, post.body) {
            return Err((
                NakCode::INVALID_CONTENT,
                "Post is of a template that is not to be contributed (contribPositiveTemplateIdList, contribNegativeTemplateIdList)",
            ));
        }
        let rate = |rates| ContributionRules::of(rates, name).copied().unwrap_or(0);
        let rates = Rates { most: rate(&rules.rates), least: rate(&rules.least_rates) };
        if rates.most > 0 && !self.posts.contributions.count(self.now, service, rates, post.post_user_info) {
            return Err((
                NakCode::NO_RESOURCES,
                "More posts in a second than the service takes (contribMaxUpdateRate)",
            ));
        }
        Ok(())
    }
}

/// Whether a payload has no other fields than these: field lists alone have some, also in the message that a post may have in it. What
/// cannot be read has others.
fn has_only(may_have: &dyn Fn(i16) -> bool, container: DataType, body: &[u8]) -> bool {
    match container {
        DataType::FIELD_LIST => FieldList::decode(body, &SetScope::NONE)
            .is_ok_and(|list| list.entries().all(|entry| entry.is_ok_and(|entry| may_have(entry.fid)))),
        DataType::MSG => Msg::decode(body).is_ok_and(|inner| match inner.container() {
            // A post has one message in it.
            DataType::MSG => false,
            container => has_only(may_have, container, inner.body()),
        }),
        DataType::NO_DATA => true,
        _ => false,
    }
}

/// Whether a payload is of a template that may be contributed: the number of its field list, also in the message that a post may have in it. A payload
/// that says none is of none of those that are named.
fn is_of_template(only: Option<&BTreeSet<u16>>, not: Option<&BTreeSet<u16>>, container: DataType, body: &[u8]) -> bool {
    let number = match container {
        DataType::FIELD_LIST => {
            FieldList::decode(body, &SetScope::NONE).ok().and_then(|list| list.info).map(|info| info.num)
        }
        DataType::MSG => {
            return Msg::decode(body).is_ok_and(|inner| match inner.container() {
                // A post has one message in it.
                DataType::MSG => false,
                // A status says nothing of any template.
                DataType::NO_DATA => true,
                container => is_of_template(only, not, container, inner.body()),
            });
        }
        DataType::NO_DATA => return true,
        _ => None,
    };
    only.is_none_or(|only| number.is_some_and(|number| only.contains(&number)))
        && !not.is_some_and(|not| number.is_some_and(|number| not.contains(&number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_begin_anew_at_one_and_further_items_are_counted_together() {
        let mut levels = TransactionLevels::new(HashSeed::default());
        for expected in (1..=65_535).chain([1, 2]) {
            assert_eq!(levels.next(1, b"A"), expected);
        }
        assert_eq!(levels.next(2, b"A"), 1, "another service");
        for item in 1..ITEMS_COUNTED_MAX {
            assert_eq!(levels.next(1, format!("{item}").as_bytes()), 1);
        }
        assert_eq!((levels.next(1, b"X"), levels.next(1, b"Y"), levels.next(1, b"X")), (1, 2, 3));
        assert_eq!((levels.next(1, b"A"), levels.next(1, b"7")), (3, 2), "those that are counted go on");
    }
}
