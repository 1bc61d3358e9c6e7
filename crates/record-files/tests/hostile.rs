//! Hostile files: an error or what of them makes sense, never a panic.

#[path = "hostile/targets.rs"]
mod targets;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn smoke_files(kind in 0..5_u8, noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        targets::file(&[&[kind], &noise[..]].concat());
    }
}

/// Texts that are nearly a trace.
#[test]
fn torn_traces_are_read_as_far_as_they_go() {
    let message = "<UPDATE domainType=\"MARKET_PRICE\" streamId=\"3\" containerType=\"FIELD_LIST\" flags=\"0x00\">\n<dataBody>\n\
                   <fieldList flags=\"0x08\">\n<fieldEntry fieldId=\"22\" data=\"0C12\"/>\n</fieldList>\n</dataBody>\n</UPDATE>\n";
    for at in 0..message.len() {
        targets::file(&[&[2], &message.as_bytes()[..at], &message.as_bytes()[at / 2..]].concat());
    }
}
