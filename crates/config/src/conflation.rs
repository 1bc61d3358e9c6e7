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
    let is_good = |list: &[String]| list.iter().all(|text| interval(text).is_some());
    if !is_good(&c.aggregation_interval_ms) {
        return Some(("aggregation_interval_ms", "must be numbers over 0, or SERVICE:NUMBER"));
    }
    if !is_good(&c.offered_interval_ms) {
        return Some(("offered_interval_ms", "must be numbers over 0, or SERVICE:NUMBER"));
    }
    if !c.disable_aggregation_item_list.0.iter().all(|entry| are_patterns(words(parts(entry).1))) {
        return Some(("disable_aggregation_item_list", PATTERNS));
    }
    if !c.aggregation_interval_field.0.iter().all(|entry| parts(entry).1.trim().parse::<i16>().is_ok()) {
        return Some(("aggregation_interval_field", "must be one field by number, or SERVICE:FIELD, such as SLOW:4"));
    }
    if !c.aggregation_interval_values.iter().all(|text| value_interval(text).is_some()) {
        return Some((
            "aggregation_interval_values",
            "must be VALUE=MILLISECONDS, or SERVICE:VALUE=MILLISECONDS, such as SLOW:2=500",
        ));
    }
    if !c.aggregation_fields.0.iter().all(|entry| fields(parts(entry).1).is_some()) {
        return Some(("aggregation_fields", "must be fields, or SERVICE:FIELDS, such as SLOW:22,25,30..35"));
    }
    if c.end_percent >= c.start_percent || c.start_percent >= 100 {
        return Some(("start_percent", "needs end_percent < start_percent < 100"));
    }
    None
}

/// The settings for the hub.
pub(super) fn settings(c: &Conflation) -> Settings {
    let named =
        |list: &[String]| list.iter().filter_map(|text| interval(text)?.0.map(str::to_owned)).collect::<Vec<_>>();
    let plain = c.update_aggregation.iter().chain(&c.just_in_time_services).filter(|name| *name != ALL).cloned();
    let lists = [&c.aggregation_interval_field, &c.aggregation_fields, &c.disable_aggregation_item_list];
    let entries = lists.into_iter().flat_map(|list| &list.0).chain(&c.aggregation_interval_values);
    let excepted = entries.filter_map(|entry| parts(entry).0).filter(|name| *name != ALL).map(str::to_owned);
    let names = plain.chain(named(&c.aggregation_interval_ms)).chain(named(&c.offered_interval_ms)).chain(excepted);
    let services: BTreeMap<String, ServiceConflation> =
        names.map(|name| (name.clone(), of_service(c, Some(&name)))).collect();
    Settings { services, others: of_service(c, None), ripple: c.ripple }
}

/// The entries of a service, or of all that nothing names.
fn of_service(c: &Conflation, name: Option<&str>) -> ServiceConflation {
    let is = |text: &String| text == ALL || Some(text.as_str()) == name;
    let of = |list: &[String], service: Option<&str>| -> Vec<u16> {
        list.iter().filter_map(|text| interval(text)).filter(|(of, _)| *of == service).map(|(_, ms)| ms).collect()
    };
    let own_or_all = |list: &[String]| {
        let own = name.map_or_else(Vec::new, |_| of(list, name));
        if own.is_empty() { of(list, None) } else { own }
    };
    let is_aggregated = c.update_aggregation.iter().any(is);
    let intervals = own_or_all(&c.aggregation_interval_ms);
    let counts = c.just_in_time_services.is_empty() || c.just_in_time_services.iter().any(is);
    ServiceConflation {
        interval: if is_aggregated { intervals.last().copied().unwrap_or(2_000) } else { 0 },
        exceptions: exceptions(c, name),
        offered: own_or_all(&c.offered_interval_ms),
        just_in_time: if counts { c.just_in_time.0 } else { p2ps::conflation::JustInTime::Off },
    }
}

/// Items of a service that are conflated otherwise than the rest of it.
fn exceptions(c: &Conflation, name: Option<&str>) -> Exceptions {
    // "*:" says the same as no service, where an item's name has a colon.
    let of = |list: &Entries| super::filters::of_or_all(list, name, ALL).join(",");
    let of_this = |service: Option<&str>, name: Option<&str>| service.filter(|service| *service != ALL) == name;
    let values = |name: Option<&str>| -> Vec<(FieldValue, u16)> {
        let all = c.aggregation_interval_values.iter().filter_map(|text| value_interval(text));
        all.filter(|(service, ..)| of_this(*service, name)).map(|(_, value, interval)| (value, interval)).collect()
    };
    let own = name.map_or_else(Vec::new, |_| values(name));
    let values = if own.is_empty() { values(None) } else { own };
    let fid = of(&c.aggregation_interval_field).trim().parse().ok();
    let only = fields(&of(&c.aggregation_fields)).map(|ranges| Arc::new(FieldSet::new(ranges)));
    Exceptions {
        by_field: fid.filter(|_| !values.is_empty()).map(|fid| FieldIntervals { fid, values }),
        not_items: patterns(words(&of(&c.disable_aggregation_item_list))),
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
    use super::{Conflation, fault, limits, settings};
    use hub::p2ps::conflation::{JustInTime, ServiceConflation};
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
}
