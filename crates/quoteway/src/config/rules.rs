//! Rules over more than one parameter, or tighter than a parameter's type.

use super::{Config, Hub, P2ps, Section};

/// A rule that a configuration breaks.
pub(super) struct Broken {
    /// The section's name.
    pub(super) section: &'static str,
    /// The key at fault.
    pub(super) key: &'static str,
    /// What it should be, as the end of a sentence that begins with section and key.
    pub(super) what: &'static str,
}

/// Every rule that `config` breaks.
pub(super) fn broken(config: &Config) -> Vec<Broken> {
    let mut found = Vec::new();
    let p = &config.p2ps;
    let mut rule = |holds: bool, key, what| {
        if !holds {
            found.push(Broken { section: P2ps::NAME, key, what });
        }
    };
    rule(
        p.guaranteed_output_buffers <= p.max_output_buffers,
        "guaranteed_output_buffers",
        "must not be over max_output_buffers",
    );
    rule(
        p.output_threshold_ok <= p.output_threshold_breach && p.output_threshold_breach <= 100,
        "output_threshold_breach",
        "needs output_threshold_ok <= output_threshold_breach <= 100",
    );
    rule(
        p.min_ping_timeout_s <= p.ping_timeout_s && p.ping_timeout_s <= 255,
        "ping_timeout_s",
        "needs min_ping_timeout_s <= ping_timeout_s <= 255",
    );
    rule((100..=65_000).contains(&p.max_fragment_size), "max_fragment_size", "must be from 100 to 65000");
    rule((1..=9).contains(&p.zlib_compression_level), "zlib_compression_level", "must be from 1 to 9");
    rule(!p.timed_writes || p.flush_interval_ms > 0, "flush_interval_ms", "must be over 0 when timed_writes is true");
    rule(
        p.server_cert_file.is_empty() == p.server_key_file.is_empty(),
        "server_cert_file",
        "and server_key_file go together",
    );
    rule(p.writer_thread_count <= 64, "writer_thread_count", "must be at most 64");
    let h = &config.hub;
    if h.heartbeat_interval_ms == 0 || h.peer_timeout_ms / 2 < h.heartbeat_interval_ms {
        let what = "must be at least twice heartbeat_interval_ms, which is over 0";
        found.push(Broken { section: Hub::NAME, key: "peer_timeout_ms", what });
    }
    found
}
