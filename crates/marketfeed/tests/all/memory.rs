//! Reading and converting an update allocates nothing.

use marketfeed::{Converter, Options, Record, RwfHeader};
use rwf::msg::Msg;
use rwf::wire::Writer;

use crate::DICTIONARY;

#[test]
fn an_update_is_read_and_converted_without_allocation() {
    let bytes =
        b"\x1c316\x1f\x1dGBP=\x1f4711\x1e22\x1f1.5520\x1e25\x1f1.5530\x1e3\x1fSTERLING\x1e16\x1f16 SEP 2013\x1c";
    let dictionary = &*DICTIONARY;
    let header = RwfHeader { stream_id: 5, service_id: Some(1), dictionary_id: 1, is_solicited: false };
    let mut converter = Converter::new(Options::default());
    let mut rtl = 4710;
    let (mut rwf, mut back) = ([0; 500], [0; 500]);
    let info = allocation_counter::measure(|| {
        let record = Record::parse(bytes).unwrap();
        let mut w = Writer::new(&mut rwf);
        converter.to_rwf(dictionary, &record, &header, &mut w).unwrap();
        let msg = Msg::decode(w.written()).unwrap();
        let mut w = Writer::new(&mut back);
        converter.to_marketfeed(dictionary, &msg, b"GBP=", &mut rtl, &mut w).unwrap();
        assert_eq!(w.written(), bytes);
    });
    assert_eq!(info.count_total, 0);
}
