//! What the options mean for the state machines.

use super::{
    BitsPerSecond, Bytes, ContextOption, Flag, Millis, Opt, Options, ReceiverOption, SourceOption, WildcardOption,
};
use crate::resolver::ResolverConfig;
use crate::topic::{CatchUpConfig, DeliveryConfig, RetentionConfig, SourceConfig};
use crate::transport::ipc::Pacing;
use crate::transport::lbtru::ClientConfig;
use crate::transport::{ReceiverConfig, SenderConfig};
use crate::wire::lbmr_option::SenderKind;

/// The largest UDP payload over IPv4.
const UDP_MAX: usize = 65_507;

/// The options of a transport of numbered datagrams, sending.
struct SenderOptions {
    datagram_max: Opt<Bytes>,
    own_datagram_max: Opt<Bytes>,
    window_size: Opt<Bytes>,
    sm_minimum_interval: Opt<Millis>,
    sm_maximum_interval: Opt<Millis>,
    ignore_interval: Opt<Millis>,
    data_rate_limit: Opt<BitsPerSecond>,
    retransmit_rate_limit: Opt<BitsPerSecond>,
    rate_interval: Opt<Millis>,
}

const LBTRM_SENDER: SenderOptions = SenderOptions {
    datagram_max: ContextOption::TRANSPORT_LBTRM_DATAGRAM_MAX_SIZE,
    own_datagram_max: ContextOption::TRANSPORT_LBTRM_SOURCE_DATAGRAM_MAX_SIZE,
    window_size: SourceOption::TRANSPORT_LBTRM_TRANSMISSION_WINDOW_SIZE,
    sm_minimum_interval: SourceOption::TRANSPORT_LBTRM_SM_MINIMUM_INTERVAL,
    sm_maximum_interval: SourceOption::TRANSPORT_LBTRM_SM_MAXIMUM_INTERVAL,
    ignore_interval: SourceOption::TRANSPORT_LBTRM_IGNORE_INTERVAL,
    data_rate_limit: ContextOption::TRANSPORT_LBTRM_DATA_RATE_LIMIT,
    retransmit_rate_limit: ContextOption::TRANSPORT_LBTRM_RETRANSMIT_RATE_LIMIT,
    rate_interval: ContextOption::TRANSPORT_LBTRM_RATE_INTERVAL,
};

const LBTRU_SENDER: SenderOptions = SenderOptions {
    datagram_max: ContextOption::TRANSPORT_LBTRU_DATAGRAM_MAX_SIZE,
    own_datagram_max: ContextOption::TRANSPORT_LBTRU_SOURCE_DATAGRAM_MAX_SIZE,
    window_size: SourceOption::TRANSPORT_LBTRU_TRANSMISSION_WINDOW_SIZE,
    sm_minimum_interval: SourceOption::TRANSPORT_LBTRU_SM_MINIMUM_INTERVAL,
    sm_maximum_interval: SourceOption::TRANSPORT_LBTRU_SM_MAXIMUM_INTERVAL,
    ignore_interval: SourceOption::TRANSPORT_LBTRU_IGNORE_INTERVAL,
    data_rate_limit: ContextOption::TRANSPORT_LBTRU_DATA_RATE_LIMIT,
    retransmit_rate_limit: ContextOption::TRANSPORT_LBTRU_RETRANSMIT_RATE_LIMIT,
    rate_interval: ContextOption::TRANSPORT_LBTRU_RATE_INTERVAL,
};

/// The options of a transport of numbered datagrams, receiving.
struct ReceiverOptions {
    nak_initial_backoff_interval: Opt<Millis>,
    nak_backoff_interval: Opt<Millis>,
    nak_generation_interval: Opt<Millis>,
    nak_suppress_interval: Opt<Millis>,
    send_naks: Opt<Flag>,
    activity_timeout: Opt<Millis>,
}

const LBTRM_RECEIVER: ReceiverOptions = ReceiverOptions {
    nak_initial_backoff_interval: ReceiverOption::TRANSPORT_LBTRM_NAK_INITIAL_BACKOFF_INTERVAL,
    nak_backoff_interval: ReceiverOption::TRANSPORT_LBTRM_NAK_BACKOFF_INTERVAL,
    nak_generation_interval: ReceiverOption::TRANSPORT_LBTRM_NAK_GENERATION_INTERVAL,
    nak_suppress_interval: ReceiverOption::TRANSPORT_LBTRM_NAK_SUPPRESS_INTERVAL,
    send_naks: ReceiverOption::TRANSPORT_LBTRM_SEND_NAKS,
    activity_timeout: ReceiverOption::TRANSPORT_LBTRM_ACTIVITY_TIMEOUT,
};

const LBTRU_RECEIVER: ReceiverOptions = ReceiverOptions {
    nak_initial_backoff_interval: ReceiverOption::TRANSPORT_LBTRU_NAK_INITIAL_BACKOFF_INTERVAL,
    nak_backoff_interval: ReceiverOption::TRANSPORT_LBTRU_NAK_BACKOFF_INTERVAL,
    nak_generation_interval: ReceiverOption::TRANSPORT_LBTRU_NAK_GENERATION_INTERVAL,
    nak_suppress_interval: ReceiverOption::TRANSPORT_LBTRU_NAK_SUPPRESS_INTERVAL,
    send_naks: ReceiverOption::TRANSPORT_LBTRU_SEND_NAKS,
    activity_timeout: ReceiverOption::TRANSPORT_LBTRU_ACTIVITY_TIMEOUT,
};

impl Options {
    /// How LBT-RM sessions send.
    pub fn lbtrm_sender(&self) -> SenderConfig {
        self.sender(&LBTRM_SENDER)
    }

    /// How LBT-RU sessions send.
    pub fn lbtru_sender(&self) -> SenderConfig {
        self.sender(&LBTRU_SENDER)
    }

    /// How LBT-RM sessions receive.
    pub fn lbtrm_receiver(&self, seed: u64) -> ReceiverConfig {
        self.receiver(&LBTRM_RECEIVER, seed)
    }

    /// How LBT-RU sessions connect and receive.
    pub fn lbtru_client(&self, seed: u64) -> ClientConfig {
        ClientConfig {
            receiver: self.receiver(&LBTRU_RECEIVER, seed),
            connect_interval_ns: self.get(ReceiverOption::TRANSPORT_LBTRU_CONNECT_INTERVAL),
            connect_attempts_max: self.get(ReceiverOption::TRANSPORT_LBTRU_MAXIMUM_CONNECT_ATTEMPTS) as u32,
            acknowledgement_interval_ns: self.get(ReceiverOption::TRANSPORT_LBTRU_ACKNOWLEDGEMENT_INTERVAL),
        }
    }

    /// Who waits for whom on LBT-IPC.
    pub fn lbtipc_pacing(&self) -> Pacing {
        self.get(SourceOption::TRANSPORT_LBTIPC_BEHAVIOR)
    }

    /// The longest datagram of a transport: its own option for the side, then its own, then the one of old releases.
    fn datagram_max(&self, side: Opt<Bytes>, general: Opt<Bytes>) -> usize {
        let (own, old) = (self.get(side), self.get(ContextOption::TRANSPORT_DATAGRAM_MAX_SIZE));
        let value = if own != 0 {
            own
        } else if self.is_set(general) || old == 0 {
            self.get(general)
        } else {
            old
        };
        value.clamp(500, UDP_MAX)
    }

    fn sender(&self, transport: &SenderOptions) -> SenderConfig {
        SenderConfig {
            datagram_max: self.datagram_max(transport.own_datagram_max, transport.datagram_max),
            window_size: self.get(transport.window_size),
            first_sqn: 0,
            batching_minimum_length: self.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH),
            batching_interval_ns: self.get(SourceOption::IMPLICIT_BATCHING_INTERVAL),
            sm_minimum_interval_ns: self.get(transport.sm_minimum_interval),
            sm_maximum_interval_ns: self.get(transport.sm_maximum_interval),
            ignore_interval_ns: self.get(transport.ignore_interval),
            data_rate_limit_bps: self.get(transport.data_rate_limit),
            adaptive: self.get(ContextOption::TRANSPORT_LBTRM_DATA_RATE_ADAPTIVE),
            retransmit_rate_limit_bps: self.get(transport.retransmit_rate_limit),
            rate_interval_ns: self.get(transport.rate_interval),
            unsent_max: self.get(SourceOption::TRANSPORT_SESSION_MAXIMUM_BUFFER),
            ..SenderConfig::default()
        }
    }

    fn receiver(&self, transport: &ReceiverOptions, seed: u64) -> ReceiverConfig {
        ReceiverConfig {
            nak_initial_backoff_interval_ns: self.get(transport.nak_initial_backoff_interval),
            nak_backoff_interval_ns: self.get(transport.nak_backoff_interval),
            nak_generation_interval_ns: self.get(transport.nak_generation_interval),
            nak_suppress_interval_ns: self.get(transport.nak_suppress_interval),
            send_naks: self.get(transport.send_naks),
            activity_timeout_ns: self.get(transport.activity_timeout),
            seed,
            ..ReceiverConfig::default()
        }
    }

    /// How sources behave.
    pub fn source(&self) -> SourceConfig {
        let retention = || RetentionConfig {
            size_threshold: self.get(SourceOption::RETRANSMIT_RETENTION_SIZE_THRESHOLD),
            age_threshold_ns: self.get(SourceOption::RETRANSMIT_RETENTION_AGE_THRESHOLD),
            size_limit: self.get(SourceOption::RETRANSMIT_RETENTION_SIZE_LIMIT),
        };
        SourceConfig {
            tsni_interval_ns: self.get(SourceOption::TRANSPORT_TOPIC_SEQUENCE_NUMBER_INFO_INTERVAL),
            tsni_active_threshold_ns: self.get(SourceOption::TRANSPORT_TOPIC_SEQUENCE_NUMBER_INFO_ACTIVE_THRESHOLD),
            late_join: self.get(SourceOption::LATE_JOIN).then(retention),
            first_sqn: 0,
        }
    }

    /// How receivers deliver. Late join and recovery still need the source's offer: the transport index and whether it retains, and
    /// where answers go.
    pub fn delivery(&self) -> DeliveryConfig {
        use ReceiverOption as R;
        let (late_join, recovery) = (self.get(R::USE_LATE_JOIN), self.get(R::USE_OTR) != 0);
        // Questions of recovery alone have options of their own.
        let (interval, outstanding, timeout) = if recovery && !late_join {
            (R::OTR_REQUEST_MINIMUM_INTERVAL, R::OTR_REQUEST_OUTSTANDING_MAXIMUM, R::OTR_REQUEST_MESSAGE_TIMEOUT)
        } else {
            (
                R::RETRANSMIT_REQUEST_INTERVAL,
                R::RETRANSMIT_REQUEST_OUTSTANDING_MAXIMUM,
                R::RETRANSMIT_REQUEST_MESSAGE_TIMEOUT,
            )
        };
        DeliveryConfig {
            ordering: self.get(R::ORDERED_DELIVERY),
            burst_loss_max: self.get(R::DELIVERY_CONTROL_MAXIMUM_BURST_LOSS) as u32,
            catch_up: CatchUpConfig {
                late_join,
                recovery,
                info_interval_ns: self.get(R::LATE_JOIN_INFO_REQUEST_INTERVAL),
                info_maximum: self.get(R::LATE_JOIN_INFO_REQUEST_MAXIMUM) as u32,
                request_interval_ns: self.get(interval),
                outstanding_maximum: self.get(outstanding) as usize,
                maximum: self.get(R::RETRANSMIT_REQUEST_MAXIMUM) as u32,
                message_timeout_ns: self.get(timeout),
                entries_maximum: self.get(ContextOption::DELIVERY_CONTROL_MAXIMUM_TOTAL_MAP_ENTRIES) as usize,
                ..CatchUpConfig::default()
            },
            ..DeliveryConfig::default()
        }
    }

    /// How topics are resolved.
    pub fn resolver(&self, source_id: [u8; 8], seed: u64) -> ResolverConfig {
        use {ContextOption as C, ReceiverOption as R, SourceOption as S, WildcardOption as W};
        // 0 is no limit.
        let larger = |initial, sustain| match (self.get(initial), self.get(sustain)) {
            (0, _) | (_, 0) => 0,
            (initial, sustain) => initial.max(sustain),
        };
        ResolverConfig {
            datagram_max: self.get(C::RESOLVER_DATAGRAM_MAX_SIZE),
            advertisement_minimum_initial_interval_ns: self.get(S::RESOLVER_ADVERTISEMENT_MINIMUM_INITIAL_INTERVAL),
            advertisement_maximum_initial_interval_ns: self.get(S::RESOLVER_ADVERTISEMENT_MAXIMUM_INITIAL_INTERVAL),
            advertisement_initial_duration_ns: self.get(S::RESOLVER_ADVERTISEMENT_MINIMUM_INITIAL_DURATION),
            advertisement_sustain_interval_ns: self.get(S::RESOLVER_ADVERTISEMENT_SUSTAIN_INTERVAL),
            advertisement_sustain_duration_ns: self.get(S::RESOLVER_ADVERTISEMENT_MINIMUM_SUSTAIN_DURATION),
            send_immediate_response: self.get(S::RESOLVER_ADVERTISEMENT_SEND_IMMEDIATE_RESPONSE),
            query_minimum_initial_interval_ns: self.get(R::RESOLVER_QUERY_MINIMUM_INITIAL_INTERVAL),
            query_maximum_initial_interval_ns: self.get(R::RESOLVER_QUERY_MAXIMUM_INITIAL_INTERVAL),
            query_initial_duration_ns: self.get(R::RESOLVER_QUERY_MINIMUM_INITIAL_DURATION),
            query_sustain_interval_ns: self.get(R::RESOLVER_QUERY_SUSTAIN_INTERVAL),
            query_sustain_duration_ns: self.get(R::RESOLVER_QUERY_MINIMUM_SUSTAIN_DURATION),
            sources_threshold: self.get(R::RESOLUTION_NUMBER_OF_SOURCES_QUERY_THRESHOLD),
            wildcard_sources_max: self.get(W::RESOLUTION_NUMBER_OF_SOURCES_MAXIMUM),
            wildcard_minimum_interval_ns: self.get(W::RESOLVER_QUERY_MINIMUM_INTERVAL),
            wildcard_maximum_interval_ns: self.get(W::RESOLVER_QUERY_MAXIMUM_INTERVAL),
            wildcard_duration_ns: self.get(W::RESOLVER_QUERY_MINIMUM_DURATION),
            advertisement_bps: larger(C::RESOLVER_INITIAL_ADVERTISEMENT_BPS, C::RESOLVER_SUSTAIN_ADVERTISEMENT_BPS),
            advertisements_per_second: self.get(C::RESOLVER_INITIAL_ADVERTISEMENTS_PER_SECOND),
            query_bps: larger(C::RESOLVER_INITIAL_QUERY_BPS, C::RESOLVER_SUSTAIN_QUERY_BPS),
            queries_per_second: self.get(C::RESOLVER_INITIAL_QUERIES_PER_SECOND),
            source_id,
            sender: SenderKind::Application,
            domain: 0,
            seed,
        }
    }
}

impl Default for ResolverConfig {
    fn default() -> Self {
        Options::new().resolver([0; 8], 0)
    }
}
