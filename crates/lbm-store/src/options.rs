//! `ume_` options as the configurations of sources and receivers.

use lbm::options::{ContextOption as C, Options, ReceiverOption as R, SourceOption as S};

use crate::receiver::ReceiverConfig;
use crate::repository::Repository;
use crate::source::{SourceConfig, StoreAddress};

/// Stores that a source has at most.
pub const STORES_MAX: usize = 64;

/// The stores of a source are not named as they have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreListError {
    /// So many stores: there are 1 to [`STORES_MAX`].
    Count(usize),
    /// A group has not so many stores as is said of it.
    Group {
        /// The group.
        group: u8,
        /// Its stores by `ume_store`.
        stores: usize,
        /// Its size by `ume_store_group`.
        size: u8,
    },
    /// Two stores have one address.
    Twice(std::net::SocketAddrV4),
}

impl std::fmt::Display for StoreListError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(0) => f.write_str("no store is named: source ume_store ADDRESS:PORT"),
            Self::Count(count) => write!(f, "{count} stores are named by ume_store; there are {STORES_MAX} at most"),
            Self::Group { group, stores, size } => {
                write!(f, "ume_store_group {group}:{size}, but ume_store names {stores} stores of group {group}")
            }
            Self::Twice(at) => write!(f, "the store {at} is named twice by ume_store"),
        }
    }
}

impl std::error::Error for StoreListError {}

impl SourceConfig {
    /// As the options say.
    ///
    /// # Errors
    /// No store is named, or groups are not what is said of them.
    pub fn of(options: &Options) -> Result<Self, StoreListError> {
        let own = options.get(S::UME_SESSION_ID);
        let defaults = Self::default();
        Ok(Self {
            stores: stores(options)?,
            session: if own == 0 { options.get(C::UME_SESSION_ID) } else { own },
            flight_size: options.get(S::UME_FLIGHT_SIZE) as usize,
            flight_size_bytes: options.get(S::UME_FLIGHT_SIZE_BYTES),
            flight_behavior: options.get(S::UME_FLIGHT_SIZE_BEHAVIOR),
            intragroup: options.get(S::UME_RETENTION_INTRAGROUP_STABILITY_BEHAVIOR),
            intergroup: options.get(S::UME_RETENTION_INTERGROUP_STABILITY_BEHAVIOR),
            unique_confirmations: options.get(S::UME_RETENTION_UNIQUE_CONFIRMATIONS) as usize,
            retention_size_limit: options.get(S::UME_RETENTION_SIZE_LIMIT),
            stability_timeout_ns: options.get(S::UME_MESSAGE_STABILITY_TIMEOUT),
            stability_lifetime_ns: options.get(S::UME_MESSAGE_STABILITY_LIFETIME),
            registration_interval_ns: options.get(S::UME_REGISTRATION_INTERVAL),
            registration_grace_ns: defaults.registration_grace_ns,
            store_activity_timeout_ns: options.get(S::UME_STORE_ACTIVITY_TIMEOUT),
            keepalive_interval_ns: options.get(C::UME_PROACTIVE_KEEPALIVE_INTERVAL),
            info_interval_ns: options.get(S::UME_SRI_INTER_SRI_INTERVAL),
            info_maximum: options.get(S::UME_SRI_MAX_NUMBER_OF_SRI_PER_UPDATE) as u32,
            paced: options.get(S::UME_RECEIVER_PACED_PERSISTENCE) != 0,
            proxy: options.get(S::UME_PROXY_SOURCE),
            activity_timeout_ms: milliseconds(options.get(S::UME_ACTIVITY_TIMEOUT)),
            state_lifetime_ms: milliseconds(options.get(S::UME_STATE_LIFETIME)),
            confirmations: options.get(S::UME_CONFIRMED_DELIVERY_NOTIFICATION) != 0,
            stability: options.get(S::UME_MESSAGE_STABILITY_NOTIFICATION) != 0,
            repository: Repository {
                size_limit: options.get(S::UME_REPOSITORY_SIZE_LIMIT) as u64,
                size_threshold: options.get(S::UME_REPOSITORY_SIZE_THRESHOLD) as u64,
                disk_size_limit: options.get(S::UME_REPOSITORY_DISK_FILE_SIZE_LIMIT) as u64,
                write_delay_ms: milliseconds(options.get(S::UME_WRITE_DELAY)),
                ack_on_reception: options.get(S::UME_REPOSITORY_ACK_ON_RECEPTION),
            },
        })
    }
}

impl ReceiverConfig {
    /// As the options say.
    pub fn of(options: &Options) -> Self {
        let own = options.get(R::UME_SESSION_ID);
        let batches = options.get(R::UME_USE_ACK_BATCHING);
        let defaults = Self::default();
        Self {
            session: if own == 0 { options.get(C::UME_SESSION_ID) } else { own },
            reg_id: options.get(C::UME_USER_RECEIVER_REGISTRATION_ID) as u32,
            late_join: options.get(R::UME_USE_LATE_JOIN),
            consensus: options.get(R::UME_CONSENSUS_SEQUENCE_NUMBER_BEHAVIOR),
            registration_interval_ns: options.get(R::UME_REGISTRATION_INTERVAL),
            registration_grace_ns: defaults.registration_grace_ns,
            info_interval_ns: options.get(R::UME_SRI_REQUEST_INTERVAL),
            info_maximum: options.get(R::UME_SRI_REQUEST_MAXIMUM) as u32,
            ack_interval_ns: if batches { options.get(C::UME_ACK_BATCHING_INTERVAL) } else { 0 },
            explicit_ack_only: options.get(R::UME_EXPLICIT_ACK_ONLY),
            outstanding_maximum: options.get(R::RETRANSMIT_REQUEST_OUTSTANDING_MAXIMUM) as usize,
            maximum: options.get(R::RETRANSMIT_REQUEST_MAXIMUM) as u32,
            request_interval_ns: options.get(R::RETRANSMIT_REQUEST_INTERVAL),
            message_timeout_ns: options.get(R::RETRANSMIT_REQUEST_MESSAGE_TIMEOUT),
            gap_delay_ns: options.get(R::OTR_REQUEST_INITIAL_DELAY),
            hold_bytes_max: defaults.hold_bytes_max,
            message_max: defaults.message_max,
            keepalive_interval_ns: options.get(C::UME_PROACTIVE_KEEPALIVE_INTERVAL),
            store_activity_timeout_ns: defaults.store_activity_timeout_ns,
            paced: options.get(R::UME_RECEIVER_PACED_PERSISTENCE) != 0,
            activity_timeout_ms: milliseconds(options.get(R::UME_ACTIVITY_TIMEOUT)),
            state_lifetime_ms: milliseconds(options.get(R::UME_STATE_LIFETIME)),
        }
    }
}

fn milliseconds(ns: u64) -> u32 {
    u32::try_from(ns / 1_000_000).unwrap_or(u32::MAX)
}

fn stores(options: &Options) -> Result<Vec<StoreAddress>, StoreListError> {
    let named = options.stores().map(|spec| StoreAddress { group: spec.group, at: spec.at, reg_id: spec.reg_id });
    let stores: Vec<StoreAddress> = named.collect();
    if stores.is_empty() || stores.len() > STORES_MAX {
        return Err(StoreListError::Count(stores.len()));
    }
    for (i, store) in stores.iter().enumerate() {
        if stores[..i].iter().any(|other| other.at == store.at) {
            return Err(StoreListError::Twice(store.at));
        }
    }
    for (group, size) in options.store_groups() {
        let count = stores.iter().filter(|store| store.group == group).count();
        if count != usize::from(size) {
            return Err(StoreListError::Group { group, stores: count, size });
        }
    }
    Ok(stores)
}

#[cfg(test)]
mod tests {
    use lbm::options::FlightBehavior;

    use super::*;
    use crate::receiver::Consensus;
    use crate::source::Intergroup;

    #[test]
    fn options_are_what_sources_and_receivers_do() {
        let text = "
            source ume_store 10.0.0.1:14567
            source ume_store 7:10.0.0.2:14568:33:1
            source ume_store_group 0:1
            source ume_retention_intergroup_stability_behavior ALL
            source ume_flight_size_behavior notify
            source ume_receiver_paced_persistence 1
            context ume_session_id 0x1f
            receiver ume_session_id 9
            receiver ume_use_ack_batching 0
            receiver ume_consensus_sequence_number_behavior lowest";
        let mut options = Options::new();
        options.parse("t", text).expect("good");
        let source = SourceConfig::of(&options).expect("stores");
        let places: Vec<(u8, String, u32)> =
            source.stores.iter().map(|s| (s.group, s.at.to_string(), s.reg_id)).collect();
        assert_eq!(places, [(0, "10.0.0.1:14567".to_owned(), 0), (1, "10.0.0.2:14568".to_owned(), 33)]);
        assert_eq!((source.session, source.paced, source.intergroup), (0x1f, true, Intergroup::All));
        assert_eq!((source.flight_size, source.flight_behavior), (1_000, FlightBehavior::Notify));
        let receiver = ReceiverConfig::of(&options);
        assert_eq!((receiver.session, receiver.ack_interval_ns, receiver.consensus), (9, 0, Consensus::Lowest));
    }

    #[test]
    fn what_is_said_of_no_option_is_the_default_of_the_configuration() {
        let (mut options, store) = (Options::new(), "10.0.0.1:14567");
        options.put(S::UME_STORE, store).expect("a store");
        let stores = SourceConfig::of(&options).expect("a store").stores;
        let defaults = SourceConfig { stores, ..SourceConfig::default() };
        assert_eq!(format!("{:?}", SourceConfig::of(&options)), format!("{:?}", Ok::<_, StoreListError>(defaults)));
        assert_eq!(format!("{:?}", ReceiverConfig::of(&options)), format!("{:?}", ReceiverConfig::default()));
    }

    #[test]
    fn stores_that_cannot_be_are_refused_with_the_reason() {
        let refused = |text: &str| {
            let mut options = Options::new();
            options.parse("t", text).expect("good");
            SourceConfig::of(&options).expect_err("not as it has to be").to_string()
        };
        assert!(refused("").contains("no store is named"));
        assert!(refused("source ume_store 1.1.1.1:1\nsource ume_store 1.1.1.1:1").contains("named twice"));
        assert!(refused("source ume_store 1.1.1.1:1\nsource ume_store_group 0:2").contains("names 1 stores"));
        for bad in
            ["1.1.1.1", "1.1.1.1:0", "x:1.1.1.1:1", "1.1.1.1:1:2:3:4", "1.1.1.1:70000", ":1.1.1.1:1", "1.1.1.1:1:"]
        {
            assert!(Options::new().put(S::UME_STORE, bad).is_err(), "{bad}");
        }
    }
}
