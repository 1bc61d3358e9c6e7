#![no_main]

#[path = "../../crates/permissions/tests/hostile/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::lock(data));
