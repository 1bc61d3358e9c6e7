//! Bounds on what clients contribute by posts, where operators set them: to which services, which fields, how often.

use crate::SourceDistributor;
use crate::filter::rules::FieldSet;
use rustc_hash::FxHashMap;
use rwf::msg::{Msg, NakCode, PostMsg};
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
    /// Posts of a service in a second, likewise; none or 0 for any number.
    pub rates: BTreeMap<String, u32>,
}

impl ContributionRules {
    fn of<'a, T>(all: &'a BTreeMap<String, T>, service: &str) -> Option<&'a T> {
        all.get(service).or_else(|| all.get(""))
    }
}

/// Posts of services in the second at hand.
#[derive(Debug, Default)]
pub(crate) struct Contributions {
    /// By service: when the second began, and posts since.
    seconds: FxHashMap<u16, (u64, u32)>,
}

impl Contributions {
    /// Counts a post; false if the second is full.
    fn count(&mut self, now: u64, service: u16, most: u32) -> bool {
        let (begun, posts) = self.seconds.entry(service).or_insert((now, 0));
        if now.saturating_sub(*begun) >= SECOND {
            (*begun, *posts) = (now, 0);
        }
        *posts = posts.saturating_add(1);
        *posts <= most
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
            && !has_only(fields, post.container, post.body)
        {
            return Err((
                NakCode::INVALID_CONTENT,
                "Post has a field that is not to be contributed (contribFieldList)",
            ));
        }
        let most = ContributionRules::of(&rules.rates, name).copied().unwrap_or(0);
        if most > 0 && !self.posts.contributions.count(self.now, service, most) {
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
fn has_only(fields: &FieldSet, container: DataType, body: &[u8]) -> bool {
    match container {
        DataType::FIELD_LIST => FieldList::decode(body, &SetScope::NONE)
            .is_ok_and(|list| list.entries().all(|entry| entry.is_ok_and(|entry| fields.has(entry.fid)))),
        DataType::MSG => Msg::decode(body).is_ok_and(|inner| match inner.container() {
            // A post has one message in it.
            DataType::MSG => false,
            container => has_only(fields, container, inner.body()),
        }),
        DataType::NO_DATA => true,
        _ => false,
    }
}
