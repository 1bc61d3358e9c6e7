//! `umq_` options as the configurations of sources and receivers.

use core::fmt;
use std::collections::BTreeMap;

use lbm::options::{
    ContextOption as C, FlightBehavior, IndexEligibility, Options, ReceiverOption as R, SourceOption as S,
};

use crate::SETS_MAX;
use crate::receiver::ReceiverConfig;
use crate::source::{AssignmentFunction, Events, LoadBehavior, SetConfig, SourceConfig, TypeConfig};

/// An option of a queue is not as it has to be: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptionError {
    /// The option.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The fault, and what the option wants.
    pub why: String,
}

impl fmt::Display for QueueOptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {} \"{}\": {}", self.name, self.value, self.why)
    }
}

impl core::error::Error for QueueOptionError {}

/// The value of an option, with its name for what is wrong with it.
struct Setting<'a> {
    name: &'static str,
    text: &'a str,
}

impl<'a> Setting<'a> {
    fn wrong(&self, why: impl Into<String>) -> QueueOptionError {
        QueueOptionError { name: self.name, value: self.text.to_owned(), why: why.into() }
    }

    /// The entries of `Number:Value;Number:Value`.
    fn entries(&self) -> impl Iterator<Item = Result<(u32, &'a str), QueueOptionError>> {
        self.text.split(';').map(str::trim).filter(|entry| !entry.is_empty()).map(|entry| {
            let parts = entry.split_once(':').and_then(|(number, value)| Some((number.trim().parse().ok()?, value)));
            let (number, value): (u32, &str) =
                parts.ok_or_else(|| self.wrong("wants NUMBER:VALUE;NUMBER:VALUE;..."))?;
            Ok((number, value.trim()))
        })
    }

    fn number(&self, text: &str) -> Result<u32, QueueOptionError> {
        text.parse().map_err(|_| self.wrong(format!("\"{text}\" is no number of 32 bits")))
    }

    fn milliseconds(&self, text: &str) -> Result<u64, QueueOptionError> {
        Ok(u64::from(self.number(text)?) * 1_000_000)
    }

    /// Names or numbers of events, with `|` or `,` between them.
    fn events(&self, text: &str) -> Result<Events, QueueOptionError> {
        let parts = text.split(['|', ',']).map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| {
                Events::of(part)
                    .ok_or_else(|| self.wrong(format!("\"{part}\" is no event; there are {}", Events::names())))
            })
            .sum()
    }
}

/// `umq_ulb_application_set`: the receiver types of each set.
fn sets(setting: &Setting<'_>) -> Result<Vec<Vec<u32>>, QueueOptionError> {
    let mut found = BTreeMap::new();
    let mut known = Vec::new();
    for entry in setting.entries() {
        let (set, types) = entry?;
        let types: Vec<u32> = types.split(',').map(|text| setting.number(text.trim())).collect::<Result<_, _>>()?;
        for kind in &types {
            if known.contains(kind) {
                return Err(
                    setting.wrong(format!("the receiver type {kind} is in two application sets, or twice in one"))
                );
            }
            known.push(*kind);
        }
        if found.insert(set, types).is_some() {
            return Err(setting.wrong(format!("the application set {set} is there twice")));
        }
    }
    if found.is_empty() {
        return Err(setting.wrong("names no application set: 0:TYPE,TYPE;1:TYPE"));
    }
    if found.len() > SETS_MAX {
        return Err(setting.wrong(format!("names {} application sets; there are {SETS_MAX} at most", found.len())));
    }
    if found.keys().copied().ne(0..found.len() as u32) {
        return Err(setting.wrong("application sets are numbered from 0 on, without a gap"));
    }
    Ok(found.into_values().collect())
}

/// Does for each `Set:Value` of an option what `put` does with the set's configuration.
fn each_set(
    setting: &Setting<'_>,
    sets: &mut [SetConfig],
    mut put: impl FnMut(&Setting<'_>, &mut SetConfig, &str) -> Result<(), QueueOptionError>,
) -> Result<(), QueueOptionError> {
    for entry in setting.entries() {
        let (set, value) = entry?;
        let config = sets.get_mut(set as usize);
        put(setting, config.ok_or_else(|| setting.wrong(format!("there is no application set {set}")))?, value)?;
    }
    Ok(())
}

/// Does for each `Type:Value` of an option what `put` does with the type's configuration.
fn each_type(
    setting: &Setting<'_>,
    types: &mut BTreeMap<u32, TypeConfig>,
    mut put: impl FnMut(&Setting<'_>, &mut TypeConfig, &str) -> Result<(), QueueOptionError>,
) -> Result<(), QueueOptionError> {
    for entry in setting.entries() {
        let (kind, value) = entry?;
        let config = types.get_mut(&kind);
        let missing = || setting.wrong(format!("no application set has the receiver type {kind}"));
        put(setting, config.ok_or_else(missing)?, value)?;
    }
    Ok(())
}

impl SourceConfig {
    /// As the options say. `None`: the source names no application set, and is an ordinary one.
    ///
    /// # Errors
    /// An option is not as it has to be.
    pub fn of(options: &Options) -> Result<Option<Self>, QueueOptionError> {
        macro_rules! setting {
            ($option:ident) => {
                Setting { name: S::$option.name(), text: options.get(S::$option) }
            };
        }
        if options.get(S::UMQ_ULB_APPLICATION_SET).trim().is_empty() {
            return Ok(None);
        }
        let of_types = sets(&setting!(UMQ_ULB_APPLICATION_SET))?;
        let mut types = BTreeMap::new();
        for (set, kinds) in of_types.iter().enumerate() {
            types.extend(kinds.iter().map(|kind| (*kind, TypeConfig::of_set(set as u16))));
        }
        let mut sets = vec![SetConfig::default(); of_types.len()];
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_ASSIGNMENT_FUNCTION), &mut sets, |s, set, value| {
            set.function = match value.to_ascii_lowercase().as_str() {
                "default" => AssignmentFunction::LeastLoaded,
                "random" => AssignmentFunction::Random,
                _ => return Err(s.wrong("wants SET:default or SET:random")),
            };
            Ok(())
        })?;
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_LOAD_FACTOR_BEHAVIOR), &mut sets, |s, set, value| {
            set.load = match value.to_ascii_lowercase().as_str() {
                "ignored" => LoadBehavior::Ignored,
                "provisioned" => LoadBehavior::Provisioned,
                "dynamic" => LoadBehavior::Dynamic,
                _ => return Err(s.wrong("wants SET:ignored, SET:provisioned or SET:dynamic")),
            };
            Ok(())
        })?;
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_MESSAGE_LIFETIME), &mut sets, |s, set, value| {
            set.lifetime_ns = s.milliseconds(value)?;
            Ok(())
        })?;
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_MESSAGE_MAX_REASSIGNMENTS), &mut sets, |s, set, value| {
            set.assignments_max = s.number(value)?;
            Ok(())
        })?;
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_MESSAGE_REASSIGNMENT_TIMEOUT), &mut sets, |s, set, value| {
            set.reassignment_timeout_ns = s.milliseconds(value)?;
            Ok(())
        })?;
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_RECEIVER_ACTIVITY_TIMEOUT), &mut sets, |s, set, value| {
            set.activity_timeout_ns = s.milliseconds(value)?;
            Ok(())
        })?;
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_RECEIVER_KEEPALIVE_INTERVAL), &mut sets, |s, set, value| {
            set.keepalive_interval_ns = s.milliseconds(value)?;
            Ok(())
        })?;
        each_set(&setting!(UMQ_ULB_APPLICATION_SET_EVENTS), &mut sets, |s, set, value| {
            set.events = s.events(value)?;
            Ok(())
        })?;
        let bias = setting!(UMQ_ULB_APPLICATION_SET_ROUND_ROBIN_BIAS);
        if let Ok(of_all) = bias.text.trim().parse() {
            for set in &mut sets {
                set.bias = of_all;
            }
        } else {
            each_set(&bias, &mut sets, |s, set, value| {
                set.bias = s.number(value)?;
                Ok(())
            })?;
        }
        each_type(&setting!(UMQ_ULB_RECEIVER_PORTION), &mut types, |s, of_type, value| {
            of_type.portion = s.number(value)?;
            if of_type.portion == 0 { Err(s.wrong("a portion is at least 1")) } else { Ok(()) }
        })?;
        each_type(&setting!(UMQ_ULB_RECEIVER_PRIORITY), &mut types, |s, of_type, value| {
            of_type.priority = s.number(value)?;
            Ok(())
        })?;
        each_type(&setting!(UMQ_ULB_RECEIVER_EVENTS), &mut types, |s, of_type, value| {
            of_type.events = s.events(value)?;
            Ok(())
        })?;
        let events = setting!(UMQ_ULB_EVENTS);
        Ok(Some(Self {
            sets,
            types,
            events: events.events(events.text)?,
            flight_size: options.get(S::UMQ_ULB_FLIGHT_SIZE).max(1) as usize,
            blocks: options.get(S::UMQ_ULB_FLIGHT_SIZE_BEHAVIOR) == FlightBehavior::Block,
            check_interval_ns: options.get(S::UMQ_ULB_CHECK_INTERVAL).max(1_000_000),
            ..Self::default()
        }))
    }
}

impl ReceiverConfig {
    /// As the options say. `None`: the receiver takes no part in queuing, and gets what it can hear (`umq_queue_participation 0`).
    pub fn of(options: &Options) -> Option<Self> {
        options.get(R::UMQ_QUEUE_PARTICIPATION).then(|| Self {
            kind: options.get(R::UMQ_RECEIVER_TYPE_ID) as u32,
            takes_indices: options.get(R::UMQ_INDEX_ASSIGNMENT_ELIGIBILITY_DEFAULT) == IndexEligibility::Eligible,
            report_delay_ns: options.get(R::UMQ_DELAYED_CONSUMPTION_REPORT_INTERVAL),
            command_interval_ns: options.get(C::UMQ_COMMAND_INTERVAL).max(1_000_000),
            source_timeout_ns: options.get(R::UMQ_ULB_SOURCE_ACTIVITY_TIMEOUT),
            check_interval_ns: options.get(R::UMQ_ULB_SOURCE_CHECK_INTERVAL).max(1_000_000),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Options {
        let mut options = Options::new();
        options.parse("t", text).expect("good");
        options
    }

    #[test]
    fn options_are_what_sources_and_receivers_do() {
        let text = "
            source umq_ulb_application_set 0:10,11;1:20
            source umq_ulb_application_set_assignment_function 1:random
            source umq_ulb_application_set_load_factor_behavior 0:Dynamic;1:provisioned
            source umq_ulb_application_set_message_lifetime 1:5000
            source umq_ulb_application_set_message_max_reassignments 0:3
            source umq_ulb_application_set_message_reassignment_timeout 0:250
            source umq_ulb_application_set_receiver_activity_timeout 0:3000
            source umq_ulb_application_set_receiver_keepalive_interval 0:100
            source umq_ulb_application_set_round_robin_bias 0:4
            source umq_ulb_application_set_events 1:MsgConsume
            source umq_ulb_receiver_portion 11:3
            source umq_ulb_receiver_priority 10:7
            source umq_ulb_receiver_events 20:0x20|RCV_READY
            source umq_ulb_events MSG_COMPLETE,MsgTimeout
            source umq_ulb_flight_size 50
            source umq_ulb_flight_size_behavior Notify
            receiver umq_receiver_type_id 11
            receiver umq_index_assignment_eligibility_default Ineligible
            receiver umq_delayed_consumption_report_interval 5";
        let options = options(text);
        let source = SourceConfig::of(&options).expect("good").expect("a queue");
        let [first, second] = &source.sets[..] else { panic!("two sets") };
        assert_eq!((first.function, second.function), (AssignmentFunction::LeastLoaded, AssignmentFunction::Random));
        assert_eq!((first.load, second.load), (LoadBehavior::Dynamic, LoadBehavior::Provisioned));
        assert_eq!((first.lifetime_ns, second.lifetime_ns), (0, 5_000_000_000));
        assert_eq!((first.assignments_max, second.assignments_max), (3, 0));
        assert_eq!((first.reassignment_timeout_ns, second.reassignment_timeout_ns), (250_000_000, 10_000_000_000));
        assert_eq!((first.activity_timeout_ns, second.activity_timeout_ns), (3_000_000_000, 10_000_000_000));
        assert_eq!((first.keepalive_interval_ns, second.keepalive_interval_ns), (100_000_000, 1_000_000_000));
        assert_eq!((first.bias, second.bias), (4, 1));
        assert_eq!((first.events, second.events), (Events::NONE, Events::MESSAGE_CONSUMED));
        let of = |kind: u32| &source.types[&kind];
        assert_eq!((of(10).set, of(11).set, of(20).set), (0, 0, 1));
        assert_eq!((of(10).portion, of(11).portion, of(10).priority, of(20).priority), (1, 3, 7, 0));
        assert_eq!(of(20).events, Events::RECEIVER_TIMEOUT | Events::RECEIVER_READY);
        assert_eq!(source.events, Events::MESSAGE_COMPLETE | Events::MESSAGE_TIMEOUT);
        assert_eq!((source.flight_size, source.blocks), (50, false));
        let receiver = ReceiverConfig::of(&options).expect("takes part");
        assert_eq!((receiver.kind, receiver.takes_indices, receiver.report_delay_ns), (11, false, 5_000_000));
    }

    #[test]
    fn who_names_no_set_is_an_ordinary_source_and_defaults_are_those_of_the_configuration() {
        assert_eq!(SourceConfig::of(&Options::new()).expect("good").map(|config| config.sets.len()), None);
        let source = SourceConfig::of(&options("source umq_ulb_application_set 0:0")).expect("good").expect("a queue");
        let wanted = SourceConfig {
            sets: vec![SetConfig::default()],
            types: BTreeMap::from([(0, TypeConfig::of_set(0))]),
            ..SourceConfig::default()
        };
        assert_eq!(format!("{source:?}"), format!("{wanted:?}"));
        let receiver = ReceiverConfig::of(&Options::new()).expect("takes part");
        assert_eq!(format!("{receiver:?}"), format!("{:?}", ReceiverConfig::default()));
        assert!(ReceiverConfig::of(&options("receiver umq_queue_participation 0")).is_none());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let refused = |lines: &str| SourceConfig::of(&options(lines)).expect_err("not as it has to be").to_string();
        for (value, why) in [
            ("0", "wants NUMBER:VALUE"),
            ("1:10", "numbered from 0 on"),
            ("0:10;2:20", "numbered from 0 on"),
            ("0:10;1:10", "in two application sets"),
            ("0:10;0:20", "there twice"),
            ("0:x", "no number"),
        ] {
            let text = refused(&format!("source umq_ulb_application_set {value}"));
            assert!(text.contains(why), "{value}: {text}");
        }
        let with = |line: &str| refused(&format!("source umq_ulb_application_set 0:10\nsource {line}"));
        assert!(with("umq_ulb_receiver_portion 11:2").contains("no application set has the receiver type 11"));
        assert!(with("umq_ulb_receiver_portion 10:0").contains("at least 1"));
        assert!(with("umq_ulb_application_set_message_lifetime 1:2").contains("no application set 1"));
        assert!(with("umq_ulb_events MSG_LOST").contains("is no event"));
        assert!(with("umq_ulb_application_set_assignment_function 0:best").contains("SET:random"));
    }
}
