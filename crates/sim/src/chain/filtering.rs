//! Services that are filtered in some worlds: which fields pass where.

use super::content::{Item, PUBLISHED, SERVICES, View};
use hub::filter::rules::{FieldRule, FieldSet, Filters, ServiceFilter};
use std::sync::Arc;

/// Where the world's services are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Filtering {
    /// Every Source Distributor takes field 2 out of the first service and out of the published one.
    pub(crate) at_distributors: bool,
    /// Every P2PS lets fields 1, 3 and 5 of the second service pass, and takes field 4 out of all others; and it has small limits of items.
    pub(crate) at_p2pss: bool,
}

fn without(fid: i16) -> FieldRule {
    FieldRule::AllBut(FieldSet::new([(fid, fid)]))
}

fn filter(fields: FieldRule) -> Arc<ServiceFilter> {
    Arc::new(ServiceFilter { fields, ..ServiceFilter::default() })
}

impl Filtering {
    /// Settings of the distributors.
    pub(crate) fn of_distributors(self) -> Filters {
        let named = [0, PUBLISHED].map(|service| (SERVICES[usize::from(service)].to_owned(), filter(without(2))));
        if self.at_distributors { Filters { services: named.into(), others: None } } else { Filters::default() }
    }

    /// Settings of the P2PSs.
    pub(crate) fn of_p2pss(self) -> Filters {
        let only = FieldRule::Only(FieldSet::new([(1, 1), (3, 3), (5, 5)]));
        let services = [(SERVICES[1].to_owned(), filter(only))].into();
        if self.at_p2pss { Filters { services, others: Some(filter(without(4))) } } else { Filters::default() }
    }

    /// The content for a watcher that asks for this view of an item. Pages have no fields.
    pub(crate) fn shown(self, item: Item, view: Option<&View>) -> Option<View> {
        if item.is_page() || self == Self::default() {
            return view.cloned();
        }
        let (rules, beyond) = (self.of_distributors(), self.of_p2pss());
        let service = SERVICES[usize::from(item.service)];
        let passes = |rules: &Filters, fid| rules.of(service).is_none_or(|filter| filter.fields.passes(fid));
        let fields = (1..6).filter(|&fid| passes(&rules, fid) && passes(&beyond, fid));
        Some(fields.filter(|fid| view.is_none_or(|view| view.contains(fid))).collect())
    }
}
