#![no_main]

#[path = "../../crates/record/tests/hostile/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::changed(data));
