#![no_main]

#[path = "../../crates/venue/tests/hostile/targets.rs"]
#[allow(dead_code, reason = "a target uses one of them")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::venue_web(data));
