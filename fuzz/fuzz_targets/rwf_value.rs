//! Any bytes as a container or primitive, whose type the first byte says.
#![no_main]

#[path = "../../crates/rwf/tests/all/hostile/checks.rs"]
#[allow(dead_code, reason = "each target calls one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::value(data));
