#![no_main]

#[path = "../../crates/lbm/tests/all/hostile/targets.rs"]
#[allow(dead_code, reason = "a target uses one of them")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::srs(data));
