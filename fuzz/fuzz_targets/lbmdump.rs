#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tools::lbmdump::hostile(data));
