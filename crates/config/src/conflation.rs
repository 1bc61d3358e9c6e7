//! Conflation: its parameters, and what they say of each service.

use std::collections::BTreeMap;

use hub::p2ps;
use hub::p2ps::conflation::{ServiceConflation, Settings};

use std::sync::Arc;

use super::filters::{fields, parts, words};
use super::patterns::{PATTERNS, are_patterns, patterns};
use super::section::section;
use super::value::{Entries, JustInTime};
use hub::filter::rules::FieldSet;
use hub::p2ps::conflation::{Exceptions, FieldIntervals, FieldValue};

section! {
    /// Fewer updates that lead to the same image (docs/operating/conflation.md).
    Conflation = "conflation", "P2PS";
    update_aggregation: Vec<String> = Vec::new(), "updateAggregation" in "SERVICES", "Services whose every stream is conflated by aggregation_interval_ms; \"*\" means all. In rmds.cnf True or False at the service.";
    aggregation_interval_ms: Vec<String> = vec![String::from("2000")], "aggregationInterval" in "SERVICES", "Time over which they are conflated, milliseconds: a number for all, SERVICE:NUMBER for one. The longest is 65535.";
    aggregation_interval_field: Entries = Entries::NONE, "aggregationIntervalField" in "SERVICES", "Field whose value in the image decides about the interval of an item, such as 4, its exchange: FIELD for all services, SERVICE:FIELD for one.";
    aggregation_interval_values: Vec<String> = Vec::new(), "", "Intervals by the value of that field: VALUE=MILLISECONDS for all services, SERVICE:VALUE=MILLISECONDS for one; a value is the number of an enumeration, or a text. 0 lets every update pass.";
    aggregation_fields: Entries = Entries::NONE, "aggregationFields" in "SERVICES", "The only fields that are conflated: an update with another one goes out at once. FIELDS for all services, SERVICE:FIELDS for one, such as \"SLOW:22,25,30..35\". Empty: all.";
    disable_aggregation_item_list: Entries = Entries::NONE, "disableAggregationItemList" in "SERVICES", "Items of conflated services whose updates all pass: NAMES for all services, SERVICE:NAMES for one; * stands for any text, ? for one character.";
    offered_interval_ms: Vec<String> = Vec::new(), "", "Times, milliseconds, that are offered beside the rate of the source to clients that ask for the quality TimeConflated: a number for all services, SERVICE:NUMBER for one.";
    just_in_time: JustInTime = JustInTime::default(), "", "What becomes of the updates of slow clients: \"off\" cuts such clients off; \"asked\" conflates the streams whose request allows JitConflated, by asking for it, for a range with it, or for no quality; \"all\" conflates all but private ones.";
    just_in_time_services: Vec<String> = Vec::new(), "", "Services for which just_in_time counts; empty means all.";
    start_percent: u32 = 15, "", "Percent of p2ps.max_output_buffers that wait for a client when it begins to be conflated just in time; it is not before it has more than guaranteed_output_buffers.";
    end_percent: u32 = 2, "", "Percent of p2ps.max_output_buffers at which it gets its updates one by one again.";
    ripple: bool = true, "", "Merge so that fields which ripple end as they would without: as many of their last values go out as they ripple through. False: the last value alone, for clients that ripple nothing.";
}

section! {
    /// The same at the Source Distributor, before the backbone: for services that no client needs tick by tick (docs/operating/conflation.md).
    SourceConflation = "source_conflation", "Src_Dist";
    update_aggregation: Vec<String> = Vec::new(), "updateAggregation" in "SERVICES", "Services whose every stream is conflated by aggregation_interval_ms before it goes to the P2PSs, which are told so and offer no other quality; \"*\" means all. The same at all Source Distributors of a service. In rmds.cnf True or False at the service.";
    aggregation_interval_ms: Vec<String> = vec![String::from("2000")], "aggregationInterval" in "SERVICES", "Time over which they are conflated, milliseconds: a number for all, SERVICE:NUMBER for one. The longest is 65535.";
    aggregation_interval_field: Entries = Entries::NONE, "aggregationIntervalField" in "SERVICES", "Field whose value in the image decides about the interval of an item, such as 4, its exchange: FIELD for all services, SERVICE:FIELD for one.";
    aggregation_interval_values: Vec<String> = Vec::new(), "", "Intervals by the value of that field: VALUE=MILLISECONDS for all services, SERVICE:VALUE=MILLISECONDS for one; a value is the number of an enumeration, or a text. 0 lets every update pass.";
    aggregation_fields: Entries = Entries::NONE, "aggregationFields" in "SERVICES", "The only fields that are conflated: an update with another one goes out at once. FIELDS for all services, SERVICE:FIELDS for one, such as \"SLOW:22,25,30..35\". Empty: all.";
    disable_aggregation_item_list: Entries = Entries::NONE, "disableAggregationItemList" in "SERVICES", "Items of conflated services whose updates all pass: NAMES for all services, SERVICE:NAMES for one; * stands for any text, ? for one character.";
    ripple: bool = true, "", "Merge so that fields which ripple, by the dictionary of this configuration, end as they would without.";
}

/// Settings of both sections for services that are conflated as a whole.
#[derive(Clone, Copy)]
struct Whole<'a> {
    services: &'a [String],
    intervals: &'a [String],
    field: &'a Entries,
    values: &'a [String],
    only_fields: &'a Entries,
    not_items: &'a Entries,
}

impl Conflation {
    fn whole(&self) -> Whole<'_> {
        Whole {
            services: &self.update_aggregation,
            intervals: &self.aggregation_interval_ms,
            field: &self.aggregation_interval_field,
            values: &self.aggregation_interval_values,
            only_fields: &self.aggregation_fields,
            not_items: &self.disable_aggregation_item_list,
        }
    }
}

impl SourceConflation {
    fn whole(&self) -> Whole<'_> {
        Whole {
            services: &self.update_aggregation,
            intervals: &self.aggregation_interval_ms,
            field: &self.aggregation_interval_field,
            values: &self.aggregation_interval_values,
            only_fields: &self.aggregation_fields,
            not_items: &self.disable_aggregation_item_list,
        }
    }
}

/// The name that stands for all services in the lists.
const ALL: &str = "*";

/// The longest interval that a quality of service can say.
const LONGEST: u32 = u16::MAX as u32;

/// `NUMBER` or `SERVICE:NUMBER`: the service, if one is named, and the milliseconds.
fn interval(text: &str) -> Option<(Option<&str>, u16)> {
    let (service, number) = match text.rsplit_once(':') {
        Some((service, number)) => (Some(service.trim()), number),
        None => (None, text),
    };
    let number = number.trim().parse::<u32>().ok().filter(|&number| number > 0)?;
    (service != Some("")).then_some((service, number.min(LONGEST) as u16))
}

/// `VALUE=NUMBER` or `SERVICE:VALUE=NUMBER`: the service, if one is named, the value, and the milliseconds.
fn value_interval(text: &str) -> Option<(Option<&str>, FieldValue, u16)> {
    let (of, number) = text.rsplit_once('=')?;
    let (service, value) = parts(of);
    let value = value.trim();
    let value = match value.parse() {
        Ok(number) => FieldValue::Number(number),
        Err(_) if value.is_empty() => return None,
        Err(_) => FieldValue::Text(value.as_bytes().into()),
    };
    let number = number.trim().parse::<u32>().ok()?;
    (service != Some("")).then_some((service, value, number.min(LONGEST) as u16))
}

/// Faults of the lists: the key and the end of a sentence that begins with it.
pub(super) fn fault(c: &Conflation) -> Option<(&'static str, &'static str)> {
    if !c.offered_interval_ms.iter().all(|text| interval(text).is_some()) {
        return Some(("offered_interval_ms", "must be numbers over 0, or SERVICE:NUMBER"));
    }
    if c.end_percent >= c.start_percent || c.start_percent >= 100 {
        return Some(("start_percent", "needs end_percent < start_percent < 100"));
    }
    fault_of_whole(c.whole())
}

/// As [`fault`], of the Source Distributor's section.
pub(super) fn fault_at_source(c: &SourceConflation) -> Option<(&'static str, &'static str)> {
    fault_of_whole(c.whole())
}

fn fault_of_whole(c: Whole<'_>) -> Option<(&'static str, &'static str)> {
    if !c.intervals.iter().all(|text| interval(text).is_some()) {
        return Some(("aggregation_interval_ms", "must be numbers over 0, or SERVICE:NUMBER"));
    }
    if !c.not_items.0.iter().all(|entry| are_patterns(words(parts(entry).1))) {
        return Some(("disable_aggregation_item_list", PATTERNS));
    }
    if !c.field.0.iter().all(|entry| parts(entry).1.trim().parse::<i16>().is_ok()) {
        return Some(("aggregation_interval_field", "must be one field by number, or SERVICE:FIELD, such as SLOW:4"));
    }
    if !c.values.iter().all(|text| value_interval(text).is_some()) {
        return Some((
            "aggregation_interval_values",
            "must be VALUE=MILLISECONDS, or SERVICE:VALUE=MILLISECONDS, such as SLOW:2=500",
        ));
    }
    if !c.only_fields.0.iter().all(|entry| fields(parts(entry).1).is_some()) {
        return Some(("aggregation_fields", "must be fields, or SERVICE:FIELDS, such as SLOW:22,25,30..35"));
    }
    None
}

/// The services that a list of intervals names.
fn named(list: &[String]) -> impl Iterator<Item = String> {
    list.iter().filter_map(|text| interval(text)?.0.map(str::to_owned))
}

/// The settings for the P2PS.
pub(super) fn settings(c: &Conflation) -> Settings {
    let plain = c.just_in_time_services.iter().filter(|name| *name != ALL).cloned();
    let names = names_of_whole(c.whole()).chain(plain).chain(named(&c.offered_interval_ms));
    let services: BTreeMap<String, ServiceConflation> =
        names.map(|name| (name.clone(), of_service(c, Some(&name)))).collect();
    Settings { services, others: of_service(c, None), ripple: c.ripple }
}

/// The settings for the Source Distributor.
pub(super) fn settings_at_source(c: &SourceConflation) -> Settings {
    let of = |name: Option<&str>| whole_of_service(c.whole(), name);
    let services = names_of_whole(c.whole()).map(|name| (name.clone(), of(Some(&name)))).collect();
    Settings { services, others: of(None), ripple: c.ripple }
}

/// The services that are named.
fn names_of_whole(c: Whole<'_>) -> impl Iterator<Item = String> {
    let lists = [c.field, c.only_fields, c.not_items];
    let entries = lists.into_iter().flat_map(|list| &list.0).chain(c.values);
    let excepted = entries.filter_map(|entry| parts(entry).0).map(str::to_owned);
    let all = c.services.iter().cloned().chain(named(c.intervals)).chain(excepted);
    all.filter(|name| name != ALL)
}

/// The intervals that a list says for a service, or else for all.
fn own_or_all(list: &[String], name: Option<&str>) -> Vec<u16> {
    let of = |service: Option<&str>| -> Vec<u16> {
        list.iter().filter_map(|text| interval(text)).filter(|(of, _)| *of == service).map(|(_, ms)| ms).collect()
    };
    let own = name.map_or_else(Vec::new, |_| of(name));
    if own.is_empty() { of(None) } else { own }
}

/// The entries of a service, or of all that nothing names.
fn of_service(c: &Conflation, name: Option<&str>) -> ServiceConflation {
    let is = |text: &String| text == ALL || Some(text.as_str()) == name;
    let counts = c.just_in_time_services.is_empty() || c.just_in_time_services.iter().any(is);
    ServiceConflation {
        offered: own_or_all(&c.offered_interval_ms, name),
        just_in_time: if counts { c.just_in_time.0 } else { p2ps::conflation::JustInTime::Off },
        ..whole_of_service(c.whole(), name)
    }
}

/// As [`of_service`], of what is conflated as a whole.
fn whole_of_service(c: Whole<'_>, name: Option<&str>) -> ServiceConflation {
    let is_aggregated = c.services.iter().any(|text| text == ALL || Some(text.as_str()) == name);
    let interval = own_or_all(c.intervals, name).last().copied().unwrap_or(2_000);
    ServiceConflation {
        interval: if is_aggregated { interval } else { 0 },
        exceptions: exceptions(c, name),
        ..ServiceConflation::default()
    }
}

/// Items of a service that are conflated otherwise than the rest of it.
fn exceptions(c: Whole<'_>, name: Option<&str>) -> Exceptions {
    // "*:" says the same as no service, where an item's name has a colon.
    let of = |list: &Entries| super::filters::of_or_all(list, name, ALL).join(",");
    let of_this = |service: Option<&str>, name: Option<&str>| service.filter(|service| *service != ALL) == name;
    let values = |name: Option<&str>| -> Vec<(FieldValue, u16)> {
        let all = c.values.iter().filter_map(|text| value_interval(text));
        all.filter(|(service, ..)| of_this(*service, name)).map(|(_, value, interval)| (value, interval)).collect()
    };
    let own = name.map_or_else(Vec::new, |_| values(name));
    let values = if own.is_empty() { values(None) } else { own };
    let fid = of(c.field).trim().parse().ok();
    let only = fields(&of(c.only_fields)).map(|ranges| Arc::new(FieldSet::new(ranges)));
    Exceptions {
        by_field: fid.filter(|_| !values.is_empty()).map(|fid| FieldIntervals { fid, values }),
        not_items: patterns(words(&of(c.not_items))),
        only_fields: only,
    }
}

/// The bounds at which slow clients are conflated, with the others.
pub(super) fn limits(c: &Conflation, limits: p2ps::egress::Limits) -> p2ps::egress::Limits {
    if c.just_in_time.0 == p2ps::conflation::JustInTime::Off {
        return limits;
    }
    let percent = |percent: u32| limits.max / 100 * percent as usize;
    p2ps::egress::Limits { conflate: percent(c.start_percent), tick_by_tick: percent(c.end_percent), ..limits }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Selection};
    use super::{Conflation, fault, limits, settings, settings_at_source};
    use hub::p2ps::conflation::{JustInTime, ServiceConflation, Settings};
    use hub::p2ps::egress::Limits;

    fn parsed(text: &str) -> Conflation {
        Config::parse("q.toml", &format!("[conflation]\n{text}")).unwrap().conflation
    }

    #[test]
    fn nothing_is_conflated_unless_said() {
        let settings = settings(&Conflation::default());
        assert_eq!((settings.services.len(), settings.others), (0, ServiceConflation::default()));
        assert_eq!(limits(&Conflation::default(), Limits::default()).conflate, usize::MAX);
    }

    #[test]
    fn each_service_has_its_own() {
        let c = parsed(
            "update_aggregation = [\"SLOW\", \"SLOWER\"]\naggregation_interval_ms = [\"500\", \"SLOWER:120000\"]\n\
             offered_interval_ms = [\"1000\", \"FEED:100\", \"FEED:250\"]\njust_in_time = \"asked\"\njust_in_time_services = [\"FEED\"]\n",
        );
        let settings = settings(&c);
        assert_eq!((settings.of("SLOW").interval, settings.of("SLOWER").interval), (500, 65_535));
        assert_eq!((settings.of("FEED").interval, &settings.of("FEED").offered[..]), (0, &[100, 250][..]));
        assert_eq!(settings.of("FEED").just_in_time, JustInTime::Asked);
        let other = ServiceConflation { offered: vec![1_000], ..ServiceConflation::default() };
        assert_eq!(*settings.of("ANY"), other);
        let limits = limits(&c, Limits { max: 1_000, ..Limits::default() });
        assert_eq!((limits.conflate, limits.tick_by_tick), (150, 20));
    }

    #[test]
    fn what_cannot_be_is_said() {
        assert!(fault(&Conflation::default()).is_none());
        for (text, key) in [
            ("aggregation_interval_ms = [\"fast\"]", "aggregation_interval_ms"),
            ("offered_interval_ms = [\":5\"]", "offered_interval_ms"),
            ("offered_interval_ms = [\"FEED:0\"]", "offered_interval_ms"),
            ("aggregation_interval_field = [\"exchange\"]", "aggregation_interval_field"),
            ("aggregation_interval_values = [\"2\"]", "aggregation_interval_values"),
            ("aggregation_fields = [\"BID\"]", "aggregation_fields"),
            ("end_percent = 15", "start_percent"),
        ] {
            let faults = Config::parse("q.toml", &format!("[conflation]\n{text}\n")).unwrap_err().faults;
            assert!(
                faults[0].starts_with(&format!("q.toml:2: conflation.{key} ")) || faults[0].contains(key),
                "{faults:?}"
            );
        }
    }

    #[test]
    fn exchanges_items_and_fields_have_their_own() {
        let c = parsed(
            "update_aggregation = [\"SLOW\"]\naggregation_interval_field = [\"SLOW:4\"]\n\
             aggregation_interval_values = [\"SLOW:2=500\", \"SLOW:NYS=0\", \"7=9\"]\n\
             aggregation_fields = [\"22,25\"]\ndisable_aggregation_item_list = [\"SLOW:FX*\", \"*:0#CL:\"]\n",
        );
        let settings = settings(&c);
        let slow = &settings.of("SLOW").exceptions;
        let by_field = slow.by_field.as_ref().unwrap();
        assert_eq!((by_field.fid, by_field.values.len(), by_field.values[1].1), (4, 2, 0));
        assert_eq!((slow.not_items.len(), slow.only_fields.is_some()), (1, true));
        let others = &settings.others.exceptions;
        assert!(others.by_field.is_none() && others.not_items[0].matches(b"0#CL:"));
    }

    #[test]
    fn an_rmds_cnf_says_it_at_the_service() {
        let text = "*P2PS*updateAggregation : False\n*P2PS*CONF*updateAggregation : True\n\
                    *P2PS*aggregationInterval : 5000\n*ads*CONF*aggregationInterval : 1000\n\
                    other*P2PS*CONF*aggregationInterval : 7\nmd1*P2PS*THIRD*aggregationInterval : 9\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rmds.cnf");
        std::fs::write(&path, text).unwrap();
        let selection = Selection { host: Some("md1".into()), ..Selection::default() };
        let loaded = super::super::load(&path, &selection).unwrap();
        let c = &loaded.config.conflation;
        assert_eq!(c.update_aggregation, ["CONF"]);
        assert_eq!(c.aggregation_interval_ms, ["5000", "CONF:1000", "THIRD:9"]);
        let settings = settings(c);
        assert_eq!(
            (settings.of("CONF").interval, settings.of("THIRD").interval, settings.others.interval),
            (1_000, 0, 0)
        );
        std::fs::write(&path, "*P2PS*CONF*aggregationInterval : soon\n*P2PS*CONF*updateAggregation : perhaps\n")
            .unwrap();
        let faults = super::super::load(&path, &selection).unwrap_err().faults;
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
    #[test]
    fn a_source_distributor_and_a_p2ps_have_lists_of_their_own() {
        let text = "*ADH*CONF*updateAggregation : True\n*ADH*CONF*aggregationInterval : 5000\n\
                    *ADH*CONF*aggregationIntervalField : 4\n*ADH*CONF*aggregationFields : 22,25\n\
                    *ADH*CONF*disableAggregationItemList : FX*, JPY=\n\
                    *ADS*SLOW*updateAggregation : True\n*ADS*SLOW*disableAggregationItemList : N2*\n\
                    *BOTH*updateAggregation : True\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rmds.cnf");
        std::fs::write(&path, text).unwrap();
        let loaded = super::super::load(&path, &Selection::default()).unwrap();
        let config = &loaded.config;
        assert_eq!(config.conflation.update_aggregation, ["SLOW", "BOTH"]);
        assert_eq!(config.source_conflation.update_aggregation, ["CONF", "BOTH"]);
        let at_source = settings_at_source(&config.source_conflation);
        let intervals = |of: &Settings| ["CONF", "SLOW", "BOTH", "ANY"].map(|name| of.of(name).interval);
        assert_eq!(intervals(&at_source), [5_000, 0, 2_000, 0]);
        assert_eq!(intervals(&settings(&config.conflation)), [0, 2_000, 2_000, 0]);
        let conf = &at_source.of("CONF").exceptions;
        let passes = |name: &[u8]| conf.not_items.iter().any(|pattern| pattern.matches(name));
        assert!(conf.only_fields.is_some() && passes(b"FXY") && passes(b"JPY=") && !passes(b"IBM"));
        assert!(loaded.notes.iter().all(|note| !note.text.contains("no effect")), "{:?}", loaded.notes);
        // An interval of nothing is a fault at either.
        let wrong = "[source_conflation]\naggregation_interval_ms = [\"CONF:0\"]\n";
        let fault = Config::parse("q.toml", wrong).unwrap_err().to_string();
        assert!(fault.contains("source_conflation.aggregation_interval_ms must be numbers over 0"), "{fault}");
    }
}
