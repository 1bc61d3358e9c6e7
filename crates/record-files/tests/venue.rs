//! Databento's files as recordings.

use record::{Folder, Item, Recording};
use record_files::{Assumed, InputForm, import};
use rwf::dictionary::Dictionary;
use rwf::{FieldList, Primitive, Real, RealHint, SetScope};

/// Flag of the last record of an event.
const LAST: u8 = 0x80;
const START: u64 = 1_704_110_400_000_000_000;

/// A file by order of one instrument, `ONE`, as two zstd frames: the metadata alone, and the records (action, side, order, price, size).
fn made(records: &[(u8, u8, u64, i64, u32)]) -> Vec<u8> {
    let mut body = vec![0_u8; 116];
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(22, 0);
        bytes
    };
    body.extend(1_u32.to_le_bytes());
    body.extend(text("ONE"));
    body.extend(1_u32.to_le_bytes());
    body.extend(20_240_101_u32.to_le_bytes());
    body.extend(20_240_102_u32.to_le_bytes());
    body.extend(text("11"));
    let mut head = b"DBN\x01".to_vec();
    head.extend((body.len() as u32).to_le_bytes());
    head.extend(body);
    let mut all = Vec::new();
    for (n, (action, side, order, price, size)) in (0..).zip(records) {
        let at = START + n * 1_000;
        all.extend([14, 0xA0, 1, 0]);
        all.extend(11_u32.to_le_bytes());
        all.extend(at.to_le_bytes());
        all.extend(order.to_le_bytes());
        all.extend(price.to_le_bytes());
        all.extend(size.to_le_bytes());
        all.extend([LAST, 0, *action, *side]);
        all.extend(at.to_le_bytes());
        all.extend([0; 8]);
    }
    [zstd::encode_all(&head[..], 1).expect("packed"), zstd::encode_all(&all[..], 1).expect("packed")].concat()
}

/// A field of a message.
fn real(message: &[u8], dictionary: &Dictionary, name: &str) -> Option<Real> {
    let field = dictionary.field_named(name).expect("a field");
    let list = FieldList::decode(rwf::peek::body(message)?, &SetScope::NONE).ok()?;
    let entry = list.entries().flatten().find(|entry| entry.fid == field.fid())?;
    match entry.value(field.data_type()) {
        Ok(Primitive::Real(value)) => Some(value),
        _ => None,
    }
}

#[test]
fn a_file_of_two_frames_is_its_items_with_the_files_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.mbo.dbn.zst");
    let records =
        [(b'A', b'B', 1, 10_000_000_000, 5), (b'A', b'A', 2, 12_000_000_000, 6), (b'T', b'B', 2, 12_000_000_000, 1)];
    std::fs::write(&path, made(&records)).unwrap();
    let form = InputForm::of(&path).unwrap();
    assert_eq!(form, InputForm::Venue);
    let dictionary = Dictionary::builtin();
    let assumed = Assumed { service: "CME".to_owned(), domain: 6 };
    let done = import(&folder.path().join("made"), &[(&path, form)], &dictionary, &assumed).unwrap();
    let recording = Recording::open(Folder::to_read(&folder.path().join("made"))).unwrap();
    let domains: Vec<u8> =
        recording.items().into_iter().filter(|item| &*item.name == "ONE").map(|item| item.domain).collect();
    assert_eq!(domains, [6, 7, 8], "prices, orders, levels");
    let prices = Item { service: "CME".into(), domain: 6, name: "ONE".into() };
    let hundredths = |cents: i64| Some(Real::new(cents, RealHint::EXPONENT_2));
    let mut cursor = recording.of_item(&prices, 0);
    let (mut bid, mut ask, mut seen) = (None, None, Vec::new());
    while let Some(entry) = cursor.next().unwrap() {
        let record = entry.record;
        assert_eq!(record.clocks.source, Some(record.clocks.wall));
        bid = real(record.body, &dictionary, "BID").or(bid);
        ask = real(record.body, &dictionary, "ASK").or(ask);
        seen.push((record.clocks.wall, bid, ask));
    }
    let at = |time: u64| seen.iter().rfind(|(wall, ..)| *wall <= time).map(|(_, bid, ask)| (*bid, *ask));
    assert_eq!(at(START), Some((hundredths(1_000), None)));
    assert_eq!(at(START + 1_000), Some((hundredths(1_000), hundredths(1_200))));
    assert_eq!(seen.last().map(|last| last.0), Some(START + 2_000), "the trade");
    assert!(done.records > 3 && done.left_out.is_empty(), "{done:?}");
}
