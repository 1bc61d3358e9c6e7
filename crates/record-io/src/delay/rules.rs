//! How late an item is published: by a field of its image, by its name, or as all are.

use names::Pattern;
use rwf::DataType;
use rwf::container::{FieldList, SetScope};
use rwf::msg::RefreshMsg;
use std::path::Path;

/// The items that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selects {
    /// Items whose image has this number in this field.
    Field {
        /// The field, of enumerated or unsigned type: that of the exchange, as a rule.
        fid: i16,
        /// Its value.
        value: u64,
    },
    /// Items whose names match.
    Names(Pattern),
}

/// A rule: the items that it selects are so late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The items.
    pub selects: Selects,
    /// The delay, nanoseconds.
    pub delay: u64,
}

/// Why a text is no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rule is FID=VALUE:SECONDS, such as 4=145:1200, or name=PATTERN:SECONDS, such as name=*.XX:0")]
pub struct RuleError;

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        // A regular expression may have colons.
        let (what, delay) = text.rsplit_once(':').ok_or(RuleError)?;
        let (field, value) = what.split_once('=').ok_or(RuleError)?;
        let (field, value) = (field.trim(), value.trim());
        let seconds: u64 = delay.trim().parse().map_err(|_| RuleError)?;
        let selects = if field == "name" {
            Selects::Names(Pattern::parse(value).ok().filter(|_| !value.is_empty()).ok_or(RuleError)?)
        } else {
            let fid = field.parse().map_err(|_| RuleError)?;
            Selects::Field { fid, value: value.parse().map_err(|_| RuleError)? }
        };
        Ok(Self { selects, delay: seconds.checked_mul(1_000_000_000).ok_or(RuleError)? })
    }
}

/// The rules that are said, then those of a file.
///
/// # Errors
/// A text for the user: the file cannot be read, or has a line that is no rule.
pub fn all_rules(said: &[Rule], file: Option<&Path>) -> Result<Vec<Rule>, String> {
    let mut all = said.to_vec();
    if let Some(file) = file {
        let text = std::fs::read_to_string(file).map_err(|e| format!("rules {}: {e}", file.display()))?;
        let more = read_rules(&text).map_err(|(line, e)| format!("rules {}:{line}: {e}", file.display()))?;
        all.extend(more);
    }
    Ok(all)
}

/// The rules of a file: one a line, empty lines and what follows a `#` left out.
///
/// # Errors
/// A line is no rule: its number, counted from 1.
pub(super) fn read_rules(text: &str) -> Result<Vec<Rule>, (usize, RuleError)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default().trim()));
    lines.filter(|(_, line)| !line.is_empty()).map(|(at, line)| line.parse().map_err(|error| (at, error))).collect()
}

/// All rules of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The delay of items that no rule speaks of, nanoseconds.
    pub delay: u64,
    /// Rules; the first that fits holds.
    pub rules: Vec<Rule>,
}

impl Rules {
    /// All delays that there are, shortest first.
    pub fn delays(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.rules.iter().map(|rule| rule.delay).chain([self.delay]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The longest of them.
    pub(super) fn longest(&self) -> u64 {
        self.rules.iter().map(|rule| rule.delay).fold(self.delay, u64::max)
    }

    /// The delay of the item with this name and image.
    pub(super) fn delay_of(&self, name: &str, image: &RefreshMsg<'_>) -> u64 {
        if self.rules.is_empty() {
            return self.delay;
        }
        let fields = numbers(image);
        let rule = self.rules.iter().find(|rule| match &rule.selects {
            Selects::Field { fid, value } => fields.contains(&(*fid, *value)),
            Selects::Names(pattern) => pattern.matches(name.as_bytes()),
        });
        rule.map_or(self.delay, |rule| rule.delay)
    }
}

/// The fields of an image that may be numbers, as such; none of what is no field list.
fn numbers(image: &RefreshMsg<'_>) -> Vec<(i16, u64)> {
    if image.container != DataType::FIELD_LIST {
        return Vec::new();
    }
    let Ok(list) = FieldList::decode(image.body, &SetScope::NONE) else { return Vec::new() };
    let entries = list.entries().flatten().filter(|entry| !entry.data.is_empty() && entry.data.len() <= 8);
    entries.map(|entry| (entry.fid, entry.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))).collect()
}
