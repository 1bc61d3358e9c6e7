//! Options by which contexts on one host keep apart: on loopback, with multicast groups and ports that no other test has.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Lines of a configuration file, each with its end: a group for resolution and one for data, and for all else ports that the system gives.
/// Each call has others. Contexts that are to find each other have the same.
pub fn lines(transport: &str) -> String {
    let n = std::process::id().wrapping_mul(16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let group = format!("239.{}.{}.{}", 192 + (n >> 16) % 60, n >> 8 & 255, 1 + n % 250);
    // With one for data behind it.
    let port = 20_000 + n % 10_000 * 2;
    let mut lines = String::new();
    let mut add = |line: std::fmt::Arguments<'_>| {
        lines.write_fmt(line).expect("a text");
        lines.push('\n');
    };
    add(format_args!("context default_interface 127.0.0.1"));
    add(format_args!("context resolver_multicast_address {group}"));
    add(format_args!("context resolver_multicast_port {port}"));
    add(format_args!("source transport {transport}"));
    add(format_args!("source transport_lbtrm_multicast_address {group}"));
    add(format_args!("source transport_lbtrm_destination_port {}", port + 1));
    add(format_args!("source implicit_batching_minimum_length 1"));
    for name in ["transport_lbtrm_source_port", "transport_tcp_port", "request_tcp_port", "transport_lbtru_port"] {
        for end in ["low", "high"] {
            add(format_args!("context {name}_{end} 0"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_group_of_its_own() {
        let (one, two) = (lines("tcp"), lines("tcp"));
        let of = |lines: &str, name: &str| {
            let line = lines.lines().find(|line| line.contains(name)).expect("there").to_owned();
            line.rsplit(' ').next().expect("a value").to_owned()
        };
        assert_ne!(of(&one, "resolver_multicast_address"), of(&two, "resolver_multicast_address"));
        assert_ne!(of(&one, "resolver_multicast_port"), of(&two, "resolver_multicast_port"));
        assert!(one.contains("source transport tcp\n") && one.ends_with(" 0\n"));
    }
}
