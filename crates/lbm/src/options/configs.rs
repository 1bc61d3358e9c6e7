//! What the options mean for the state machines.

use super::{Options, Scope};
use crate::resolver::ResolverConfig;
use crate::topic::{CatchUpConfig, DeliveryConfig, Ordering, RetentionConfig, SourceConfig};
use crate::transport::ipc::Pacing;
use crate::transport::lbtru::ClientConfig;
use crate::transport::{ReceiverConfig, SenderConfig};

/// The largest UDP payload over IPv4.
const UDP_MAX: u64 = 65_507;

impl Options {
    /// How LBT-RM sessions send.
    pub fn lbtrm_sender(&self) -> SenderConfig {
        self.sender("transport_lbtrm")
    }

    /// How LBT-RU sessions send.
    pub fn lbtru_sender(&self) -> SenderConfig {
        self.sender("transport_lbtru")
    }

    /// How LBT-RM sessions receive.
    pub fn lbtrm_receiver(&self, seed: u64) -> ReceiverConfig {
        self.receiver("transport_lbtrm", seed)
    }

    /// How LBT-RU sessions connect and receive.
    pub fn lbtru_client(&self, seed: u64) -> ClientConfig {
        use Scope::Receiver;
        ClientConfig {
            receiver: self.receiver("transport_lbtru", seed),
            connect_interval_ns: self.nanoseconds(Receiver, "transport_lbtru_connect_interval"),
            connect_attempts_max: self.number(Receiver, "transport_lbtru_maximum_connect_attempts") as u32,
            acknowledgement_interval_ns: self.nanoseconds(Receiver, "transport_lbtru_acknowledgement_interval"),
        }
    }

    /// Who waits for whom on LBT-IPC.
    pub fn lbtipc_pacing(&self) -> Pacing {
        match self.text(Scope::Source, "transport_lbtipc_behavior") {
            "receiver_paced" => Pacing::Receiver,
            _ => Pacing::Source,
        }
    }

    /// The longest datagram of a transport: its own option for the side, then its own, then the one of old releases.
    fn datagram_max(&self, transport: &str, side: &str) -> usize {
        let general = format!("{transport}_datagram_max_size");
        let own = self.number(Scope::Context, &format!("{transport}_{side}_datagram_max_size"));
        let old = self.number(Scope::Context, "transport_datagram_max_size");
        let value = if own != 0 {
            own
        } else if self.is_set(Scope::Context, &general) || old == 0 {
            self.number(Scope::Context, &general)
        } else {
            old
        };
        value.clamp(500, UDP_MAX) as usize
    }

    fn sender(&self, transport: &str) -> SenderConfig {
        use Scope::{Context, Source};
        let source = |name: &str| format!("{transport}_{name}");
        SenderConfig {
            datagram_max: self.datagram_max(transport, "source"),
            window_size: self.number(Source, &source("transmission_window_size")) as usize,
            first_sqn: 0,
            batching_minimum_length: self.number(Source, "implicit_batching_minimum_length") as usize,
            batching_interval_ns: self.nanoseconds(Source, "implicit_batching_interval"),
            sm_minimum_interval_ns: self.nanoseconds(Source, &source("sm_minimum_interval")),
            sm_maximum_interval_ns: self.nanoseconds(Source, &source("sm_maximum_interval")),
            ignore_interval_ns: self.nanoseconds(Source, &source("ignore_interval")),
            data_rate_limit_bps: self.number(Context, &source("data_rate_limit")),
            adaptive: self.number(Context, "transport_lbtrm_data_rate_adaptive") != 0,
            retransmit_rate_limit_bps: self.number(Context, &source("retransmit_rate_limit")),
            rate_interval_ns: self.nanoseconds(Context, &source("rate_interval")),
            unsent_max: self.number(Source, "transport_session_maximum_buffer") as usize,
            ..SenderConfig::default()
        }
    }

    fn receiver(&self, transport: &str, seed: u64) -> ReceiverConfig {
        use Scope::Receiver;
        let duration = |name: &str| self.nanoseconds(Receiver, &format!("{transport}_{name}"));
        ReceiverConfig {
            nak_initial_backoff_interval_ns: duration("nak_initial_backoff_interval"),
            nak_backoff_interval_ns: duration("nak_backoff_interval"),
            nak_generation_interval_ns: duration("nak_generation_interval"),
            nak_suppress_interval_ns: duration("nak_suppress_interval"),
            send_naks: self.number(Receiver, &format!("{transport}_send_naks")) != 0,
            activity_timeout_ns: duration("activity_timeout"),
            seed,
            ..ReceiverConfig::default()
        }
    }

    /// How sources behave.
    pub fn source(&self) -> SourceConfig {
        use Scope::Source;
        let retention = || RetentionConfig {
            size_threshold: self.number(Source, "retransmit_retention_size_threshold") as usize,
            age_threshold_ns: self.nanoseconds(Source, "retransmit_retention_age_threshold"),
            size_limit: self.number(Source, "retransmit_retention_size_limit") as usize,
        };
        SourceConfig {
            tsni_interval_ns: self.nanoseconds(Source, "transport_topic_sequence_number_info_interval"),
            tsni_active_threshold_ns: self.nanoseconds(Source, "transport_topic_sequence_number_info_active_threshold"),
            late_join: (self.number(Source, "late_join") != 0).then(retention),
            first_sqn: 0,
        }
    }

    /// How receivers deliver. Late join and recovery still need the source's offer: the transport index and whether it retains, and
    /// where answers go.
    pub fn delivery(&self) -> DeliveryConfig {
        use Scope::{Context, Receiver};
        // Questions of recovery alone have options of their own.
        let (late_join, recovery) =
            (self.number(Receiver, "use_late_join") != 0, self.number(Receiver, "use_otr") != 0);
        let own = recovery && !late_join;
        let either = |otr: &'static str, late: &'static str| if own { otr } else { late };
        let interval = either("otr_request_minimum_interval", "retransmit_request_interval");
        let outstanding = either("otr_request_outstanding_maximum", "retransmit_request_outstanding_maximum");
        let timeout = either("otr_request_message_timeout", "retransmit_request_message_timeout");
        DeliveryConfig {
            ordering: match self.text(Receiver, "ordered_delivery") {
                "-1" => Ordering::Arrival,
                "0" => Ordering::ArrivalFragments,
                _ => Ordering::Ordered,
            },
            burst_loss_max: self.number(Receiver, "delivery_control_maximum_burst_loss") as u32,
            catch_up: CatchUpConfig {
                late_join,
                recovery,
                info_interval_ns: self.nanoseconds(Receiver, "late_join_info_request_interval"),
                info_maximum: self.number(Receiver, "late_join_info_request_maximum") as u32,
                request_interval_ns: self.nanoseconds(Receiver, interval),
                outstanding_maximum: self.number(Receiver, outstanding) as usize,
                maximum: self.number(Receiver, "retransmit_request_maximum") as u32,
                message_timeout_ns: self.nanoseconds(Receiver, timeout),
                entries_maximum: self.number(Context, "delivery_control_maximum_total_map_entries") as usize,
                ..CatchUpConfig::default()
            },
            ..DeliveryConfig::default()
        }
    }

    /// How topics are resolved.
    pub fn resolver(&self, source_id: [u8; 8], seed: u64) -> ResolverConfig {
        use Scope::{Context, Receiver, Source, Wildcard};
        let bps = |phase: &str, what: &str| self.number(Context, &format!("resolver_{phase}_{what}_bps"));
        // 0 is no limit.
        let larger = |what: &str| match (bps("initial", what), bps("sustain", what)) {
            (0, _) | (_, 0) => 0,
            (initial, sustain) => initial.max(sustain),
        };
        ResolverConfig {
            datagram_max: self.number(Context, "resolver_datagram_max_size") as usize,
            advertisement_minimum_initial_interval_ns: self
                .nanoseconds(Source, "resolver_advertisement_minimum_initial_interval"),
            advertisement_maximum_initial_interval_ns: self
                .nanoseconds(Source, "resolver_advertisement_maximum_initial_interval"),
            advertisement_initial_duration_ns: self
                .nanoseconds(Source, "resolver_advertisement_minimum_initial_duration"),
            advertisement_sustain_interval_ns: self.nanoseconds(Source, "resolver_advertisement_sustain_interval"),
            advertisement_sustain_duration_ns: self
                .nanoseconds(Source, "resolver_advertisement_minimum_sustain_duration"),
            send_immediate_response: self.number(Source, "resolver_advertisement_send_immediate_response") != 0,
            query_minimum_initial_interval_ns: self.nanoseconds(Receiver, "resolver_query_minimum_initial_interval"),
            query_maximum_initial_interval_ns: self.nanoseconds(Receiver, "resolver_query_maximum_initial_interval"),
            query_initial_duration_ns: self.nanoseconds(Receiver, "resolver_query_minimum_initial_duration"),
            query_sustain_interval_ns: self.nanoseconds(Receiver, "resolver_query_sustain_interval"),
            query_sustain_duration_ns: self.nanoseconds(Receiver, "resolver_query_minimum_sustain_duration"),
            sources_threshold: self.number(Receiver, "resolution_number_of_sources_query_threshold"),
            wildcard_sources_max: self.number(Wildcard, "resolution_number_of_sources_maximum"),
            wildcard_minimum_interval_ns: self.nanoseconds(Wildcard, "resolver_query_minimum_interval"),
            wildcard_maximum_interval_ns: self.nanoseconds(Wildcard, "resolver_query_maximum_interval"),
            wildcard_duration_ns: self.nanoseconds(Wildcard, "resolver_query_minimum_duration"),
            advertisement_bps: larger("advertisement"),
            advertisements_per_second: self.number(Context, "resolver_initial_advertisements_per_second"),
            query_bps: larger("query"),
            queries_per_second: self.number(Context, "resolver_initial_queries_per_second"),
            source_id,
            seed,
        }
    }
}
