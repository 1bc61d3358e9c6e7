//! How a source of a queue behaves.

use std::collections::BTreeMap;

/// Kinds of events of a source, as a set: `umq_ulb_events` and its like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u32);

/// Each kind with its names in options.
const NAMED: [(Events, &str, &str); 9] = [
    (Events::MESSAGE_CONSUMED, "MSG_CONSUME", "MsgConsume"),
    (Events::MESSAGE_TIMEOUT, "MSG_TIMEOUT", "MsgTimeout"),
    (Events::MESSAGE_ASSIGNED, "MSG_ASSIGNMENT", "MsgAssignment"),
    (Events::MESSAGE_REASSIGNED, "MSG_REASSIGNMENT", "MsgReassignment"),
    (Events::MESSAGE_COMPLETE, "MSG_COMPLETE", "MsgComplete"),
    (Events::RECEIVER_TIMEOUT, "RCV_TIMEOUT", "RcvTimeout"),
    (Events::RECEIVER_REGISTERED, "RCV_REGISTRATION", "RcvRegistration"),
    (Events::RECEIVER_LEFT, "RCV_DEREGISTRATION", "RcvDeregistration"),
    (Events::RECEIVER_READY, "RCV_READY", "RcvReady"),
];

impl Events {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// A receiver has consumed a message.
    pub const MESSAGE_CONSUMED: Self = Self(0x1);
    /// A message is given up.
    pub const MESSAGE_TIMEOUT: Self = Self(0x2);
    /// A message is assigned for the first time.
    pub const MESSAGE_ASSIGNED: Self = Self(0x4);
    /// A message is assigned anew.
    pub const MESSAGE_REASSIGNED: Self = Self(0x8);
    /// A message is consumed or given up in all application sets.
    pub const MESSAGE_COMPLETE: Self = Self(0x10);
    /// A receiver is silent.
    pub const RECEIVER_TIMEOUT: Self = Self(0x20);
    /// A receiver has registered.
    pub const RECEIVER_REGISTERED: Self = Self(0x40);
    /// A receiver has left.
    pub const RECEIVER_LEFT: Self = Self(0x80);
    /// A receiver hears the source: messages are assigned to it from now on.
    pub const RECEIVER_READY: Self = Self(0x100);
    /// All of them.
    pub const ALL: Self = Self(0x1FF);

    /// By a name of options, or a number after `0x`.
    pub fn of(text: &str) -> Option<Self> {
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return u32::from_str_radix(digits, 16).ok().filter(|bits| bits & !Self::ALL.0 == 0).map(Self);
        }
        let is_named = |name: &str| name.eq_ignore_ascii_case(text);
        let named = NAMED.iter().find(|(_, capitals, camel)| is_named(capitals) || is_named(camel));
        named.map(|(events, ..)| *events).or_else(|| (text == "0").then_some(Self::NONE))
    }

    /// The names, for messages.
    pub fn names() -> String {
        NAMED.map(|(_, name, _)| name).join(", ")
    }

    /// Whether one of `other` is among them.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl core::ops::BitOr for Events {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl core::iter::Sum for Events {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::NONE, |sum, one| sum | one)
    }
}

/// How a receiver is chosen, among those of the highest priority that are ready:
/// `umq_ulb_application_set_assignment_function`. The vendor's functions are not public; these are ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssignmentFunction {
    /// The receiver with the fewest messages for its portion; of several, the one that has waited longest.
    #[default]
    LeastLoaded,
    /// By chance, in proportion to portions.
    Random,
}

/// The part that counts of the load that receivers tell: `umq_ulb_application_set_load_factor_behavior`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadBehavior {
    /// Nothing: what this source has assigned to them counts.
    #[default]
    Ignored,
    /// From how many sources they receive: their portion is divided by that.
    Provisioned,
    /// How many messages they have of all sources together.
    Dynamic,
}

/// An application set.
#[derive(Clone, Debug)]
pub struct SetConfig {
    /// `umq_ulb_application_set_assignment_function`.
    pub function: AssignmentFunction,
    /// `umq_ulb_application_set_load_factor_behavior`.
    pub load: LoadBehavior,
    /// A message that is not consumed after so long is given up; 0: never: `umq_ulb_application_set_message_lifetime`.
    pub lifetime_ns: u64,
    /// A message is assigned so often, the first time included, and then given up; 0: as often as need be:
    /// `umq_ulb_application_set_message_max_reassignments`.
    pub assignments_max: u32,
    /// A message that its receiver has not consumed after so long is assigned anew:
    /// `umq_ulb_application_set_message_reassignment_timeout`.
    pub reassignment_timeout_ns: u64,
    /// A receiver that is silent for so long is taken for gone: `umq_ulb_application_set_receiver_activity_timeout`.
    pub activity_timeout_ns: u64,
    /// A receiver that has said nothing for so long is asked: `umq_ulb_application_set_receiver_keepalive_interval`.
    pub keepalive_interval_ns: u64,
    /// A receiver that has anything counts as having so many messages more: `umq_ulb_application_set_round_robin_bias`.
    pub bias: u32,
    /// Events of the set that are told: `umq_ulb_application_set_events`.
    pub events: Events,
}

impl Default for SetConfig {
    fn default() -> Self {
        Self {
            function: AssignmentFunction::LeastLoaded,
            load: LoadBehavior::Ignored,
            lifetime_ns: 0,
            assignments_max: 0,
            reassignment_timeout_ns: 10_000_000_000,
            activity_timeout_ns: 10_000_000_000,
            keepalive_interval_ns: 1_000_000_000,
            bias: 1,
            events: Events::NONE,
        }
    }
}

/// A receiver type.
#[derive(Clone, Copy, Debug)]
pub struct TypeConfig {
    /// Its application set.
    pub set: u16,
    /// Its share of the messages, beside those of other receivers: `umq_ulb_receiver_portion`.
    pub portion: u32,
    /// Receivers of a lower one get messages while none of a higher one is ready: `umq_ulb_receiver_priority`.
    pub priority: u32,
    /// Events of its receivers that are told: `umq_ulb_receiver_events`.
    pub events: Events,
}

impl TypeConfig {
    /// A type of an application set, with the defaults.
    pub const fn of_set(set: u16) -> Self {
        Self { set, portion: 1, priority: 0, events: Events::NONE }
    }
}

/// How a source of a queue behaves.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The application sets.
    pub sets: Vec<SetConfig>,
    /// Receiver types by their ids.
    pub types: BTreeMap<u32, TypeConfig>,
    /// Events of all sets and types that are told: `umq_ulb_events`.
    pub events: Events,
    /// Messages that may be neither consumed nor given up: `umq_ulb_flight_size`.
    pub flight_size: usize,
    /// Whether a message beyond that is refused (block), or sent and told (notify): `umq_ulb_flight_size_behavior`.
    pub blocks: bool,
    /// Bytes of messages that are kept at most, whatever the flight size says.
    pub bytes_max: usize,
    /// Between looks for messages and receivers that are overdue: `umq_ulb_check_interval`.
    pub check_interval_ns: u64,
    /// Indices that are remembered; beyond that one without a message under way is forgotten.
    pub indices_max: usize,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            sets: Vec::new(),
            types: BTreeMap::new(),
            events: Events::NONE,
            flight_size: 1_000,
            blocks: true,
            bytes_max: 64 << 20,
            check_interval_ns: 1_000_000_000,
            indices_max: 1_000_000,
        }
    }
}
