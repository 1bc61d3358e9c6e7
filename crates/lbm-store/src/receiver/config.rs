//! How a persistent receiver behaves.

pub use lbm::options::Consensus;

/// See the module. Times are nanoseconds; defaults are those of the options named.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Session of the program; 0: none: `ume_session_id`.
    pub session: u64,
    /// Registration id at every store; 0: by session, or stores give one: `ume_registration_function`.
    pub reg_id: u32,
    /// Whether a receiver that is new gets what stores hold already: `ume_use_late_join`.
    pub late_join: bool,
    /// What is believed where stores differ.
    pub consensus: Consensus,
    /// Between attempts to register: `ume_registration_interval`.
    pub registration_interval_ns: u64,
    /// Once a store has answered, the others are waited for so long.
    pub registration_grace_ns: u64,
    /// Between questions for a source's stores: `ume_sri_request_interval`.
    pub info_interval_ns: u64,
    /// How many such questions before a source is taken for one without stores: `ume_sri_request_maximum`.
    pub info_maximum: u32,
    /// Acknowledgements are gathered for so long: `ume_ack_batching_interval`; 0: `ume_use_ack_batching 0`.
    pub ack_interval_ns: u64,
    /// Only the application acknowledges: `ume_explicit_ack_only`.
    pub explicit_ack_only: bool,
    /// Messages that are asked for at a time: `retransmit_request_outstanding_maximum`.
    pub outstanding_maximum: usize,
    /// Messages that are asked for at the beginning, at most; 0: all: `retransmit_request_maximum`.
    pub maximum: u32,
    /// Between questions for one message: `retransmit_request_interval`.
    pub request_interval_ns: u64,
    /// What no store has for so long is lost: `retransmit_request_message_timeout`.
    pub message_timeout_ns: u64,
    /// A gap is left to the transport for so long: `otr_request_initial_delay`.
    pub gap_delay_ns: u64,
    /// Bytes of messages that wait for others; what is more is fetched again later.
    pub hold_bytes_max: usize,
    /// The longest message that is put together.
    pub message_max: usize,
    /// Between signs of life: `ume_proactive_keepalive_interval`.
    pub keepalive_interval_ns: u64,
    /// A store that is silent for so long is left: `ume_store_activity_timeout`.
    pub store_activity_timeout_ns: u64,
    /// Whether stores hold messages for this receiver until it has consumed them: `ume_receiver_paced_persistence`.
    pub paced: bool,
    /// How long stores wait for a silent receiver, ms; 0: their own: `ume_activity_timeout`.
    pub activity_timeout_ms: u32,
    /// How long they remember it after that, ms; 0: their own: `ume_state_lifetime`.
    pub state_lifetime_ms: u32,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            session: 0,
            reg_id: 0,
            late_join: true,
            consensus: Consensus::Majority,
            registration_interval_ns: 3_000_000_000,
            registration_grace_ns: 500_000_000,
            info_interval_ns: 1_000_000_000,
            info_maximum: 60,
            ack_interval_ns: 100_000_000,
            explicit_ack_only: false,
            outstanding_maximum: 10,
            maximum: 0,
            request_interval_ns: 500_000_000,
            message_timeout_ns: 10_000_000_000,
            gap_delay_ns: 2_000_000_000,
            hold_bytes_max: 64 << 20,
            message_max: 64 << 20,
            keepalive_interval_ns: 3_000_000_000,
            store_activity_timeout_ns: 10_000_000_000,
            paced: false,
            activity_timeout_ms: 0,
            state_lifetime_ms: 0,
        }
    }
}
