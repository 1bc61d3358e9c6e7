//! How a persistent source behaves.

use std::net::SocketAddrV4;

pub use lbm::options::{FlightBehavior, Intergroup, Intragroup};

use crate::repository::Repository;

/// A store of a source: `ume_store`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreAddress {
    /// The store's group: `ume_store_group`.
    pub group: u8,
    /// Its address and port.
    pub at: SocketAddrV4,
    /// The source's registration id there; 0: by session, or the store gives one.
    pub reg_id: u32,
}

/// See the module. Times are nanoseconds; defaults are those of the options named.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The stores, 64 at most.
    pub stores: Vec<StoreAddress>,
    /// Session of the program; 0: none: `ume_session_id`.
    pub session: u64,
    /// Messages and fragments that are not stable, at most: `ume_flight_size`.
    pub flight_size: usize,
    /// And their bytes; 0: no such rule: `ume_flight_size_bytes`.
    pub flight_size_bytes: usize,
    /// Whether a source goes on when as many are not stable, and tells so: `ume_flight_size_behavior`.
    pub flight_behavior: FlightBehavior,
    /// When a message is stable within a group: `ume_retention_intragroup_stability_behavior`.
    pub intragroup: Intragroup,
    /// When a message is stable, by groups: `ume_retention_intergroup_stability_behavior`.
    pub intergroup: Intergroup,
    /// Receivers that must have consumed a message before it is released: `ume_retention_unique_confirmations`.
    pub unique_confirmations: usize,
    /// Bytes retained at most: `ume_retention_size_limit`.
    pub retention_size_limit: usize,
    /// A message that is not stable after so long is sent again to the stores that lack it: `ume_message_stability_timeout`.
    pub stability_timeout_ns: u64,
    /// After so long it is given up: `ume_message_stability_lifetime`.
    pub stability_lifetime_ns: u64,
    /// Between attempts to register: `ume_registration_interval`.
    pub registration_interval_ns: u64,
    /// Once a quorum has answered, others that are connected are waited for so long.
    pub registration_grace_ns: u64,
    /// A store that is silent for so long is left: `ume_store_activity_timeout`.
    pub store_activity_timeout_ns: u64,
    /// Between signs of life: `ume_proactive_keepalive_interval`.
    pub keepalive_interval_ns: u64,
    /// Between announcements of the stores: `ume_sri_inter_sri_interval`.
    pub info_interval_ns: u64,
    /// How many such announcements after each change: `ume_sri_max_number_of_sri_per_update`.
    pub info_maximum: u32,
    /// Whether receivers pace the stores: `ume_receiver_paced_persistence`.
    pub paced: bool,
    /// Whether stores stand in for the source when it is gone: `ume_proxy_source`.
    pub proxy: bool,
    /// How long stores wait for a silent source, ms; 0: their own: `ume_activity_timeout`.
    pub activity_timeout_ms: u32,
    /// How long they keep what it leaves behind, ms; 0: their own: `ume_state_lifetime`.
    pub state_lifetime_ms: u32,
    /// Whether stores tell of consumption by receivers: `ume_confirmed_delivery_notification`.
    pub confirmations: bool,
    /// Whether it is told which messages are stable: `ume_message_stability_notification`.
    pub stability: bool,
    /// Limits that the stores are asked for its messages.
    pub repository: Repository,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            stores: Vec::new(),
            session: 0,
            flight_size: 1_000,
            flight_size_bytes: 0,
            flight_behavior: FlightBehavior::Block,
            intragroup: Intragroup::Quorum,
            intergroup: Intergroup::Any,
            unique_confirmations: 0,
            retention_size_limit: 25_165_824,
            stability_timeout_ns: 5_000_000_000,
            stability_lifetime_ns: 1_200_000_000_000,
            registration_interval_ns: 3_000_000_000,
            registration_grace_ns: 500_000_000,
            store_activity_timeout_ns: 10_000_000_000,
            keepalive_interval_ns: 3_000_000_000,
            info_interval_ns: 500_000_000,
            info_maximum: 20,
            paced: false,
            proxy: false,
            activity_timeout_ms: 0,
            state_lifetime_ms: 0,
            confirmations: false,
            stability: true,
            repository: Repository::default(),
        }
    }
}

/// Which stores make a message stable: bit *i* is store *i*.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Of each group: its stores, and how many of them it takes.
    groups: Vec<(u64, u32)>,
    intergroup: Intergroup,
}

impl Rule {
    pub(super) fn new(config: &SourceConfig) -> Self {
        let mut names: Vec<u8> = config.stores.iter().map(|s| s.group).collect();
        names.sort_unstable();
        names.dedup();
        let group = |name: &u8| {
            let of = config.stores.iter().take(64).enumerate().filter(|(_, s)| s.group == *name);
            let mask = of.fold(0u64, |mask, (i, _)| mask | 1 << i);
            let size = mask.count_ones();
            (mask, if config.intragroup == Intragroup::All { size } else { size / 2 + 1 })
        };
        Self { groups: names.iter().map(group).collect(), intergroup: config.intergroup }
    }

    /// Whether `have` is enough, while the stores of `active` are there.
    pub(super) fn holds(&self, have: u64, active: u64) -> bool {
        let is_met = |(mask, need): &&(u64, u32)| (have & mask).count_ones() >= *need;
        let met = self.groups.iter().filter(is_met).count();
        match self.intergroup {
            Intergroup::Any => met > 0,
            Intergroup::Majority => met > self.groups.len() / 2,
            Intergroup::All => met == self.groups.len() && met > 0,
            Intergroup::AllActive => {
                let is_active = |(mask, need): &&(u64, u32)| (active & mask).count_ones() >= *need;
                met > 0 && self.groups.iter().filter(is_active).all(|group| is_met(&group))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[u8], intragroup: Intragroup, intergroup: Intergroup) -> Rule {
        let at = SocketAddrV4::new([127, 0, 0, 1].into(), 14567);
        let stores = groups.iter().map(|group| StoreAddress { group: *group, at, reg_id: 0 }).collect();
        Rule::new(&SourceConfig { stores, intragroup, intergroup, ..SourceConfig::default() })
    }

    #[test]
    fn a_quorum_is_more_than_half_of_a_group() {
        let quorum = rule(&[0, 0, 0], Intragroup::Quorum, Intergroup::Any);
        assert!(!quorum.holds(0b001, 0b111) && quorum.holds(0b101, 0b111));
        let all = rule(&[0, 0, 0], Intragroup::All, Intergroup::Any);
        assert!(!all.holds(0b101, 0b111) && all.holds(0b111, 0b111));
        assert!(
            !rule(&[0, 0], Intragroup::Quorum, Intergroup::Any).holds(0b01, 0b11),
            "one of two is not more than half"
        );
    }

    #[test]
    fn groups_are_counted_by_the_rule_between_them() {
        let groups = [0, 1, 2];
        let holds = |intergroup, have, active| rule(&groups, Intragroup::Quorum, intergroup).holds(have, active);
        assert!(holds(Intergroup::Any, 0b001, 0b111));
        assert!(!holds(Intergroup::Majority, 0b001, 0b111) && holds(Intergroup::Majority, 0b011, 0b111));
        assert!(!holds(Intergroup::All, 0b011, 0b011) && holds(Intergroup::All, 0b111, 0b111));
        assert!(!holds(Intergroup::AllActive, 0b001, 0b011) && holds(Intergroup::AllActive, 0b011, 0b011));
        assert!(!holds(Intergroup::AllActive, 0, 0), "nothing is not enough though nobody is there");
    }
}
