#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| config::rmds::hostile(data));
