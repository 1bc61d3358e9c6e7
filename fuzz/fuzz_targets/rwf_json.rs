//! Any bytes as JSON, and as a message that is shown as JSON.
#![no_main]

#[path = "../../crates/rwf/tests/all/hostile/checks.rs"]
#[allow(dead_code, reason = "each target calls one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checks::json(data);
    checks::json_of(data);
});
