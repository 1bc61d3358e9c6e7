//! How late an item is published: by a field of its image, or as all are.

use rwf::DataType;
use rwf::container::{FieldList, SetScope};
use rwf::msg::RefreshMsg;

/// A rule: items whose image has this number in this field are so late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The field, of enumerated or unsigned type: that of the exchange, as a rule.
    pub fid: i16,
    /// Its value.
    pub value: u64,
    /// The delay, nanoseconds.
    pub delay: u64,
}

/// Why a text is no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rule is FID=VALUE:SECONDS, such as 4=145:1200")]
pub struct RuleError;

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (field, delay) = text.split_once(':').ok_or(RuleError)?;
        let (fid, value) = field.split_once('=').ok_or(RuleError)?;
        let seconds: u64 = delay.trim().parse().map_err(|_| RuleError)?;
        let fid = fid.trim().parse().map_err(|_| RuleError)?;
        let value = value.trim().parse().map_err(|_| RuleError)?;
        Ok(Self { fid, value, delay: seconds.checked_mul(1_000_000_000).ok_or(RuleError)? })
    }
}

/// All rules of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    /// The delay of items that no rule speaks of, nanoseconds.
    pub(super) delay: u64,
    /// Rules; the first that fits holds.
    pub(super) rules: Vec<Rule>,
}

impl Rules {
    /// All delays that there are, shortest first.
    pub(super) fn delays(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.rules.iter().map(|rule| rule.delay).chain([self.delay]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The delay of the item with this image.
    pub(super) fn delay_of(&self, image: &RefreshMsg<'_>) -> u64 {
        if self.rules.is_empty() || image.container != DataType::FIELD_LIST {
            return self.delay;
        }
        let Ok(list) = FieldList::decode(image.body, &SetScope::NONE) else { return self.delay };
        let fields: Vec<(i16, u64)> = list
            .entries()
            .flatten()
            .filter(|entry| !entry.data.is_empty() && entry.data.len() <= 8)
            .map(|entry| (entry.fid, entry.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))))
            .collect();
        let rule = self.rules.iter().find(|rule| fields.contains(&(rule.fid, rule.value)));
        rule.map_or(self.delay, |rule| rule.delay)
    }
}
