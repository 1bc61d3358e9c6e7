//! What is conflated otherwise than the rest of its service: items of an exchange (`aggregationIntervalField`), items by name
//! (`disableAggregationItemList`), and updates with fields that are not to wait (`aggregationFields`).

use crate::cache::rules::NamePattern;
use crate::filter::rules::{FieldSet, FieldValue, field_of};
use rustc_hash::FxHashMap;
use rwf::msg::UpdateMsg;
use rwf::{DataType, FieldList, SetScope};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// Exceptions of a service that is conflated as a whole. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions {
    /// Items with an interval of their own.
    pub by_field: Option<FieldIntervals>,
    /// Items whose updates pass one by one.
    pub not_items: Vec<NamePattern>,
    /// The only fields that wait: an update with another one passes at once.
    pub only_fields: Option<Arc<FieldSet>>,
}

impl Exceptions {
    fn is_none(&self) -> bool {
        self.by_field.is_none() && self.not_items.is_empty() && self.only_fields.is_none()
    }
}

/// Intervals by the value of a field of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldIntervals {
    /// The field, such as 4, the exchange.
    pub fid: i16,
    /// Values and their milliseconds; 0 lets updates pass one by one.
    pub values: Vec<(FieldValue, u16)>,
}

impl FieldIntervals {
    /// The interval of an item with this image; none if the image has not the field, or a value that is not named.
    fn of(&self, container: DataType, body: &[u8]) -> Option<u16> {
        let data = field_of(container, body, self.fid)?;
        self.values.iter().find(|(value, _)| value.is(data)).map(|&(_, interval)| interval)
    }
}

/// The rules of one item.
#[derive(Debug, Clone)]
struct ItemRule {
    interval: u16,
    only_fields: Option<Arc<FieldSet>>,
}

/// Items that are conflated otherwise than the rest of their service. `I` is how the owner numbers its items.
#[derive(Debug)]
pub struct ItemRules<I>(FxHashMap<I, ItemRule>);

impl<I> Default for ItemRules<I> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<I: Copy + Eq + Hash + Debug> ItemRules<I> {
    /// Notes what holds for an item of a service that is conflated by `interval`, from its name and its image.
    pub fn note(
        &mut self,
        item: I,
        interval: u16,
        exceptions: &Exceptions,
        name: &[u8],
        (container, body): (DataType, &[u8]),
    ) {
        if exceptions.is_none() {
            return;
        }
        let passes = exceptions.not_items.iter().any(|pattern| pattern.matches(name));
        let by_field = || exceptions.by_field.as_ref().and_then(|fields| fields.of(container, body));
        let own = if passes { 0 } else { by_field().unwrap_or(interval) };
        if own == interval && exceptions.only_fields.is_none() {
            self.0.remove(&item);
        } else {
            self.0.insert(item, ItemRule { interval: own, only_fields: exceptions.only_fields.clone() });
        }
    }

    /// The milliseconds that an update of an item waits at most, where its view says `interval`; 0 if it passes at once.
    pub fn interval(&self, item: I, interval: u16, update: &[u8]) -> u16 {
        let Some(rule) = (!self.0.is_empty()).then(|| self.0.get(&item)).flatten() else { return interval };
        match &rule.only_fields {
            Some(fields) if rule.interval > 0 && !has_only(update, fields) => 0,
            _ => rule.interval,
        }
    }

    /// The item is there no more.
    pub fn forget(&mut self, item: I) {
        if !self.0.is_empty() {
            self.0.remove(&item);
        }
    }

    /// Panics if a rule is kept for an item that is not there.
    pub fn check(&self, is_live: impl Fn(I) -> bool) {
        for &item in self.0.keys() {
            assert!(is_live(item), "an interval is kept for {item:?}");
        }
    }
}

/// True if an update has a field list with no field but these.
fn has_only(update: &[u8], fields: &FieldSet) -> bool {
    let Ok(update) = UpdateMsg::decode(update) else { return false };
    update.container == DataType::FIELD_LIST
        && FieldList::decode(update.body, &SetScope::NONE)
            .is_ok_and(|list| list.entries().all(|entry| entry.is_ok_and(|entry| fields.has(entry.fid))))
}
