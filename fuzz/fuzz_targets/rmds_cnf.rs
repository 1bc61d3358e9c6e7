#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quoteway::config::rmds::hostile(data));
