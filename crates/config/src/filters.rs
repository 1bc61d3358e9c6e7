//! Filters: their parameters, and what they say of each service.

use std::collections::BTreeSet;
use std::sync::Arc;

use hub::filter::rules::{
    Decimal, FieldRule, FieldSelector, FieldSet, FieldValue, Filters as Rules, ServiceFilter, UpdateTypes,
};
use rwf::DataType;
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::msg::UpdateType;

use super::Config;
use super::section::section;
use super::value::Entries;

section! {
    /// What of services is kept from all who watch (docs/operating/filters.md).
    Filters = "filters", "Filters";
    remove_fields: Entries = Entries::NONE, "", "Fields that the Source Distributor takes out of images and updates: SERVICE:FIELDS for one service, FIELDS for all others. Fields are numbers and ranges, such as \"FEED:22,25,-8000..-4001\".";
    pass_fields: Entries = Entries::NONE, "", "The only fields that the Source Distributor lets pass, written as remove_fields; a service has either.";
    withhold_updates: Entries = Entries::NONE, "", "Types of updates that the Source Distributor does not send on: SERVICE:TYPES for one service, TYPES for all others. Types are names (quote, trade, correction, ...) or numbers, such as \"FEED:quote,200\". Images that it holds say what they said.";
    filter_field: Entries = Entries::NONE, "", "Field of the image that says which items the Source Distributor's filters are for, with filter_field_values: SERVICE:FIELD for one service, FIELD for all others, such as \"FEED:259\". Without it they are for all items of a service.";
    filter_field_values: Entries = Entries::NONE, "", "Values of that field whose items are filtered, written as filter_field: numbers (of an enumeration too, and of a REAL by value: 1.50 is 1.5) and texts, such as \"FEED:1,2\".";
    p2ps_remove_fields: Entries = Entries::NONE, "", "As remove_fields, for the clients of this P2PS alone; its cache has all fields.";
    p2ps_pass_fields: Entries = Entries::NONE, "", "As pass_fields, for the clients of this P2PS alone.";
    p2ps_withhold_updates: Entries = Entries::NONE, "", "As withhold_updates, for the clients of this P2PS alone.";
}

/// The type of a field, if it is known.
type TypeOf<'a> = &'a dyn Fn(i16) -> Option<DataType>;

/// The three lists of one side.
struct Lists<'a> {
    remove: &'a Entries,
    pass: &'a Entries,
    withhold: &'a Entries,
    /// Field and values that select items.
    select: Option<(&'a Entries, &'a Entries)>,
}

impl Filters {
    fn at_distributor(&self) -> Lists<'_> {
        Lists {
            remove: &self.remove_fields,
            pass: &self.pass_fields,
            withhold: &self.withhold_updates,
            select: Some((&self.filter_field, &self.filter_field_values)),
        }
    }

    fn at_p2ps(&self) -> Lists<'_> {
        Lists {
            remove: &self.p2ps_remove_fields,
            pass: &self.p2ps_pass_fields,
            withhold: &self.p2ps_withhold_updates,
            select: None,
        }
    }
}

/// Settings for the Source Distributor. Fields have the types of the dictionary of the configuration.
pub(super) fn of_distributor(config: &Config) -> Rules {
    let c = &config.filters;
    let lists = c.at_distributor();
    if c.filter_field.0.is_empty() {
        return lists.rules(|_| None);
    }
    // One that cannot be read ends the start elsewhere.
    let dictionary = super::dictionary(config).ok().flatten().unwrap_or_else(Dictionary::builtin);
    lists.rules(|fid| dictionary.field(fid).map(FieldDef::data_type))
}

/// Settings for the P2PS.
pub(super) fn of_p2ps(c: &Filters) -> Rules {
    c.at_p2ps().rules(|_| None)
}

/// A value of a field of this type, as it is written.
fn value(word: &str, field: Option<DataType>) -> FieldValue {
    let text = || FieldValue::Text(word.as_bytes().into());
    let decimal = || Decimal::parse(word).map_or_else(text, FieldValue::Decimal);
    match (field, word.parse()) {
        (Some(DataType::REAL), _) => decimal(),
        (_, Ok(number)) => FieldValue::Number(number),
        (None, Err(_)) if word.contains('.') => decimal(),
        (_, Err(_)) => text(),
    }
}

/// Faults of the lists: the key and the end of a sentence that begins with it.
pub(super) fn fault(c: &Filters) -> Option<(&'static str, &'static str)> {
    const FIELDS: &str = "must be fields, or SERVICE:FIELDS, such as FEED:22,25,-8000..-4001";
    const TYPES: &str = "must be types of updates, or SERVICE:TYPES, such as FEED:quote,trade";
    const FIELD: &str = "must be a field, or SERVICE:FIELD, such as FEED:259";
    const VALUES: &str = "must be values, or SERVICE:VALUES, such as FEED:1,2";
    let is_good = |list: &Entries, good: fn(&str) -> bool| list.0.iter().all(|entry| good(parts(entry).1));
    let fields = |list| is_good(list, |text| fields(text).is_some());
    let types = |list| is_good(list, |text| types(text).is_some());
    [
        ("remove_fields", fields(&c.remove_fields), FIELDS),
        ("pass_fields", fields(&c.pass_fields), FIELDS),
        ("withhold_updates", types(&c.withhold_updates), TYPES),
        ("filter_field", is_good(&c.filter_field, |text| text.trim().parse::<i16>().is_ok()), FIELD),
        ("filter_field_values", is_good(&c.filter_field_values, |text| words(text).next().is_some()), VALUES),
        ("filter_field", c.at_distributor().is_complete(), "and filter_field_values go together: a service has both"),
        ("p2ps_remove_fields", fields(&c.p2ps_remove_fields), FIELDS),
        ("p2ps_pass_fields", fields(&c.p2ps_pass_fields), FIELDS),
        ("p2ps_withhold_updates", types(&c.p2ps_withhold_updates), TYPES),
        ("pass_fields", c.at_distributor().is_either(), "and remove_fields are two ways for one service: use one"),
        ("p2ps_pass_fields", c.at_p2ps().is_either(), "and p2ps_remove_fields are two ways for one service: use one"),
    ]
    .into_iter()
    .find_map(|(key, good, what)| (!good).then_some((key, what)))
}

/// The service that an entry names, if it names one, and what it says.
pub(super) fn parts(entry: &str) -> (Option<&str>, &str) {
    entry.split_once(':').map_or((None, entry), |(service, rest)| (Some(service.trim()), rest))
}

/// Words between commas and spaces.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\t']).filter(|word| !word.is_empty())
}

/// Fields by number, and ranges of them.
pub(super) fn fields(text: &str) -> Option<Vec<(i16, i16)>> {
    let range = |word: &str| {
        let (first, last) = word.split_once("..").unwrap_or((word, word));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some((first, last))
    };
    words(text).map(range).collect::<Option<Vec<_>>>().filter(|ranges| !ranges.is_empty())
}

/// Types of updates by name or number.
fn types(text: &str) -> Option<UpdateTypes> {
    let kind = |word: &str| {
        let number = || word.parse().ok().map(UpdateType);
        UpdateType::from_name(&word.to_ascii_uppercase()).or_else(number)
    };
    let add = |types: UpdateTypes, word: &str| Some(types.with(kind(word)?));
    words(text).try_fold(UpdateTypes::NONE, add).filter(|types| *types != UpdateTypes::NONE)
}

impl Lists<'_> {
    fn services(&self) -> BTreeSet<&str> {
        let selecting = self.select.into_iter().flat_map(|(field, values)| [field, values]);
        let all = [self.remove, self.pass, self.withhold].into_iter().chain(selecting).flat_map(|list| &list.0);
        all.filter_map(|entry| parts(entry).0).collect()
    }

    /// No service has both ways to say which fields pass.
    fn is_either(&self) -> bool {
        let has_both = |name| !of(self.remove, name).is_empty() && !of(self.pass, name).is_empty();
        !has_both(None) && !self.services().into_iter().any(|name| has_both(Some(name)))
    }

    /// Each service, and all others, has a field that selects items and values of it, or neither.
    fn is_complete(&self) -> bool {
        let Some((field, values)) = self.select else { return true };
        let has_both = |name| of(field, name).is_empty() == of(values, name).is_empty();
        has_both(None) && self.services().into_iter().all(|name| has_both(Some(name)))
    }

    /// The items of a service that its filter is for.
    fn selector(&self, name: Option<&str>, type_of: TypeOf<'_>) -> Option<FieldSelector> {
        let (field, values) = self.select?;
        let fid = of(field, name).last()?.trim().parse().ok()?;
        let field = type_of(fid);
        let values = of(values, name).into_iter().flat_map(words).map(|word| value(word, field)).collect();
        Some(FieldSelector { fid, values })
    }

    fn rules(&self, type_of: impl Fn(i16) -> Option<DataType>) -> Rules {
        let others = self.filter(None, &type_of);
        let filter = |name| Arc::new(self.filter(Some(name), &type_of));
        let services = self.services().into_iter().map(|name| (name.to_owned(), filter(name)));
        let others = (others != ServiceFilter::default()).then(|| Arc::new(others));
        Rules { services: services.collect(), others }
    }

    /// The entries of a service, or of all that nothing names.
    fn filter(&self, name: Option<&str>, type_of: TypeOf<'_>) -> ServiceFilter {
        let set = |texts: Vec<&str>| FieldSet::new(texts.into_iter().filter_map(fields).flatten());
        let (remove, pass) = (set(of(self.remove, name)), set(of(self.pass, name)));
        let rule = match (pass.is_empty(), remove.is_empty()) {
            (false, _) => FieldRule::Only(pass),
            (true, false) => FieldRule::AllBut(remove),
            (true, true) => FieldRule::All,
        };
        let words = of(self.withhold, name).join(",");
        ServiceFilter {
            fields: rule,
            withheld: types(&words).unwrap_or_default(),
            selector: self.selector(name, type_of),
        }
    }
}

/// A list's entries for a service: its own, else those for all others.
fn of<'a>(list: &'a Entries, name: Option<&str>) -> Vec<&'a str> {
    let own = if name.is_some() { of_named(list, name) } else { Vec::new() };
    if own.is_empty() { of_named(list, None) } else { own }
}

/// The entries that name this service, or none.
fn of_named<'a>(list: &'a Entries, name: Option<&str>) -> Vec<&'a str> {
    list.0.iter().map(|entry| parts(entry)).filter(|(of, _)| *of == name).map(|(_, what)| what).collect()
}

/// As [`of`], where entries of the service `all` are such for all others, too.
pub(super) fn of_or_all<'a>(list: &'a Entries, name: Option<&str>, all: &str) -> Vec<&'a str> {
    let own = if name.is_some() { of_named(list, name) } else { Vec::new() };
    if own.is_empty() { [of_named(list, None), of_named(list, Some(all))].concat() } else { own }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::{Filters, fault, of_p2ps};
    use hub::filter::rules::{Decimal, FieldRule, FieldValue, Filters as Rules};
    use rwf::msg::UpdateType;

    fn parsed(text: &str) -> Filters {
        Config::parse("q.toml", &format!("[filters]\n{text}")).unwrap().filters
    }

    fn of_distributor(c: &Filters) -> Rules {
        super::of_distributor(&Config { filters: c.clone(), ..Config::default() })
    }

    #[test]
    fn values_are_of_the_type_of_their_field() {
        let decimal = |text: &str| FieldValue::Decimal(Decimal::parse(text).unwrap());
        let values = |field: i16, values: &str| {
            let text = format!("filter_field = \"{field}\"\nfilter_field_values = \"{values}\"\n");
            let rules = of_distributor(&parsed(&text));
            rules.of("ANY").and_then(|filter| filter.selector.clone()).expect("a selector").values
        };
        // BID is a REAL; RECORDTYPE a number; 32000 in no dictionary.
        assert_eq!(values(22, "1.50,7,-0.25"), [decimal("1.5"), decimal("7"), decimal("-0.25")]);
        assert_eq!(values(259, "7,1.5"), [FieldValue::Number(7), FieldValue::Text(b"1.5"[..].into())]);
        assert_eq!(values(32_000, "7,1.5"), [FieldValue::Number(7), decimal("1.5")]);
    }

    #[test]
    fn everything_passes_unless_said() {
        let c = Filters::default();
        assert!(!of_distributor(&c).is_on() && !of_p2ps(&c).is_on() && fault(&c).is_none());
    }

    #[test]
    fn each_service_has_its_own() {
        let c = parsed(
            "remove_fields = [\"25, 30..31\", \"FEED:22\", \"FEED:-8000..-4001\"]\np2ps_pass_fields = \"FEED:3,4\"\n\
             p2ps_withhold_updates = [\"quote 200\", \"FEED:Trade\"]\n",
        );
        let rules = of_distributor(&c);
        let (feed, other) = (rules.of("FEED").unwrap(), rules.of("ANY").unwrap());
        let passing = |rule: &FieldRule| [22, 25, 31, -4001, -4000].map(|fid| rule.passes(fid));
        assert_eq!(passing(&feed.fields), [false, true, true, false, true]);
        assert_eq!(passing(&other.fields), [true, false, false, true, true]);
        let rules = of_p2ps(&c);
        let (feed, other) = (rules.of("FEED").unwrap(), rules.of("ANY").unwrap());
        assert!(feed.fields.passes(4) && !feed.fields.passes(5) && other.fields == FieldRule::All);
        let withheld = |kind| (feed.withheld.has(kind), other.withheld.has(kind));
        assert_eq!(withheld(UpdateType::QUOTE), (false, true));
        assert_eq!(withheld(UpdateType::TRADE), (true, false));
        assert_eq!(withheld(UpdateType(200)), (false, true));
    }

    #[test]
    fn a_field_selects_the_items_that_are_filtered() {
        let c = parsed(
            "remove_fields = [\"22\"]\nfilter_field = [\"FEED:259\", \"53\"]\nfilter_field_values = [\"FEED:1,2\", \"FEED:X\", \"USD\"]\n",
        );
        let rules = of_distributor(&c);
        let selector = |name| rules.of(name).and_then(|filter| filter.selector.clone()).map(|s| (s.fid, s.values));
        let (number, text) = (FieldValue::Number, |text: &str| FieldValue::Text(text.as_bytes().into()));
        assert_eq!(selector("FEED"), Some((259, vec![number(1), number(2), text("X")])));
        assert_eq!(selector("ANY"), Some((53, vec![text("USD")])));
        assert!(!rules.of("FEED").unwrap().fields.passes(22), "what is taken out is said for all");
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (text, key) in [
            ("remove_fields = [\"BID\"]", "remove_fields"),
            ("remove_fields = [\"FEED:\"]", "remove_fields"),
            ("remove_fields = [\"FEED:40000\"]", "remove_fields"),
            ("p2ps_remove_fields = [\"9..3\"]", "p2ps_remove_fields"),
            ("withhold_updates = [\"FEED:quotes\"]", "withhold_updates"),
            ("filter_field = [\"FEED:RECORDTYPE\"]\nfilter_field_values = [\"FEED:1\"]", "filter_field"),
            ("filter_field = [\"FEED:259\"]", "filter_field"),
            ("filter_field_values = [\"FEED:1\"]", "filter_field"),
            ("remove_fields = [\"22\"]\npass_fields = [\"FEED:25\"]", "pass_fields"),
        ] {
            let faults = Config::parse("q.toml", &format!("[filters]\n{text}\n")).unwrap_err().faults;
            assert!(faults[0].contains(&format!("filters.{key} ")), "{faults:?}");
        }
        let apart = "remove_fields = [\"A:22\"]\npass_fields = [\"B:25\"]\np2ps_pass_fields = [\"A:22\"]\n";
        assert!(fault(&parsed(apart)).is_none());
    }
}
