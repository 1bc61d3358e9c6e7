#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quoteway::tools::lbmdump::hostile(data));
