//! An item as it was at a time.

use crate::{at, bodies, close, item, small};
use record::{GapReason, Journal, JournalConfig, Kind, Memory, Recording, Store};
use rwf::DataType;
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{FieldList, SetScope, State, StateCode, StreamState};
use std::collections::BTreeMap;

/// A field list of reals without decimals.
fn fields(values: &[(i16, i64)]) -> Vec<u8> {
    let mut body = vec![8];
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for (fid, value) in values {
        let bytes = value.to_be_bytes();
        let spare = |at: &usize| bytes[*at] == 0 && bytes[*at + 1] < 0x80;
        let least = &bytes[(0..7).take_while(spare).count()..];
        body.extend_from_slice(&fid.to_be_bytes());
        body.extend_from_slice(&[least.len() as u8 + 1, 14]);
        body.extend_from_slice(least);
    }
    body
}

fn message(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4000];
    let mut writer = Writer::new(&mut buf);
    encode(&mut writer).expect("there is room");
    writer.written().to_vec()
}

pub(crate) fn update(values: &[(i16, i64)]) -> Vec<u8> {
    let body = fields(values);
    message(|w| UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain(6), 3) }.encode(w))
}

pub(crate) fn refresh(values: &[(i16, i64)]) -> Vec<u8> {
    let body = fields(values);
    let (flags, container) = (RefreshFlags::REFRESH_COMPLETE, DataType::FIELD_LIST);
    message(|w| {
        RefreshMsg { flags, container, state: State::OPEN_OK, body: &body, ..RefreshMsg::new(Domain(6), 3) }.encode(w)
    })
}

pub(crate) fn closed() -> Vec<u8> {
    let state = State::new(StreamState::CLOSED, rwf::DataState::SUSPECT, StateCode::NOT_FOUND, "gone");
    message(|w| StatusMsg { state: Some(state), ..StatusMsg::new(Domain(6), 3) }.encode(w))
}

/// The fields of the image at a time; `None` without an image.
pub(crate) fn image_at(recording: &Recording<Memory>, name: &str, nanos: u64) -> Option<(BTreeMap<i16, u64>, bool)> {
    let found = recording.image_at(&item(name), at(nanos).wall).expect("memory can be read")?;
    let mut buf = vec![0; 4000];
    let mut writer = Writer::new(&mut buf);
    found.image.parts(RefreshMsg::new(Domain(6), 0), 3000).write(&mut writer).expect("a small image");
    Some((fields_of(writer.written()), found.is_in_gap))
}

/// The fields of a refresh.
pub(crate) fn fields_of(msg: &[u8]) -> BTreeMap<i16, u64> {
    let Ok(Msg::Refresh(refresh)) = Msg::decode(msg) else { panic!("no refresh") };
    let list = FieldList::decode(refresh.body, &SetScope::NONE).expect("a field list");
    let number = |data: &[u8]| data[1..].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    list.entries().flatten().map(|entry| (entry.fid, number(entry.data))).collect()
}

/// Item, time and what came, with what the model has of it.
#[test]
fn an_image_at_any_time_is_that_of_a_model() {
    for config in [small(), JournalConfig { block_records: 3, segment_bytes: 1 << 20, ..small() }] {
        let mut journal = Journal::open(Memory::default(), config, &mut Vec::new()).expect("memory");
        let names = ["IBM.N", "AIG.N", "BAC.N"];
        let items = names.map(|name| journal.item(item(name)));
        let mut model: [Option<BTreeMap<i16, u64>>; 3] = Default::default();
        let mut history = Vec::new();
        for n in 0..400u64 {
            let which = (n * 7 % 11 % 3) as usize;
            let fid = 20 + (n % 5) as i16;
            let (kind, body) = match n % 97 {
                50 => (Kind::Status, closed()),
                1..=6 | 53..=59 => (Kind::Refresh, refresh(&[(fid, n as i64), (40, 1)])),
                _ => (Kind::Update, update(&[(fid, n as i64)])),
            };
            match (kind, &mut model[which]) {
                (Kind::Status, held) => *held = None,
                (Kind::Refresh, held) => *held = Some(BTreeMap::from([(fid, n), (40, 1)])),
                (_, Some(held)) => _ = held.insert(fid, n),
                _ => {}
            }
            journal.append(kind, Some(items[which]), at(n * 10), &body);
            history.push(model.clone());
        }
        let recording = Recording::open(close(journal)).expect("a recording");
        assert_eq!(recording.damage(), []);
        for (n, model) in history.iter().enumerate() {
            for (name, model) in names.iter().zip(model) {
                // A field that an update has and the image has not is not added to it by every container: see `rwf::image`.
                let known = image_at(&recording, name, n as u64 * 10 + 5).map(|(fields, is_in_gap)| {
                    assert!(!is_in_gap);
                    fields
                });
                assert_eq!(known, *model, "{name} at {n}");
            }
        }
        assert_eq!(image_at(&recording, "NONE.N", 1000), None);
        assert!(recording.image_at(&item("IBM.N"), 0).expect("memory").is_none());
    }
}

#[test]
fn behind_a_gap_an_item_is_suspect_until_its_next_refresh() {
    let mut journal = Journal::open(Memory::default(), small(), &mut Vec::new()).expect("memory");
    let ibm = journal.item(item("IBM.N"));
    journal.append(Kind::Refresh, Some(ibm), at(0), &refresh(&[(22, 1)]));
    journal.append(Kind::Update, Some(ibm), at(10), &update(&[(22, 2)]));
    journal.overflow(3, 300, at(20));
    journal.append(Kind::Update, Some(ibm), at(30), &update(&[(22, 3)]));
    journal.append(Kind::Refresh, Some(ibm), at(40), &refresh(&[(22, 4)]));
    let store = close(journal);
    let recording = Recording::open(store.clone()).expect("a recording");
    let seen: Vec<_> = [5, 15, 25, 35, 45].map(|time| image_at(&recording, "IBM.N", time).expect("open")).into();
    let expected = [(1, false), (2, false), (2, true), (3, true), (4, false)]
        .map(|(value, gap)| (BTreeMap::from([(22, value)]), gap));
    assert_eq!(seen, expected);
    let gaps = recording.info().gaps;
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].1.reason, gaps[0].1.messages, gaps[0].1.bytes), (GapReason::Overflow, Some(3), 300));

    // Another life goes on with the folder: what was between them nobody knows.
    let mut journal = Journal::open(store, small(), &mut Vec::new()).expect("memory");
    let ibm = journal.item(item("IBM.N"));
    journal.append(Kind::Update, Some(ibm), at(1000), &update(&[(22, 9)]));
    let recording = Recording::open(close(journal)).expect("a recording");
    assert_eq!(image_at(&recording, "IBM.N", 1100), Some((BTreeMap::from([(22, 9)]), true)));
    assert_eq!(recording.info().gaps[1].1.reason, GapReason::Restart);
}

/// A segment begins with the images of before its first record: cut behind its head, the recording has no image of a record that is lost.
#[test]
fn no_image_knows_of_a_record_that_is_cut_off() {
    let mut journal = Journal::open(Memory::default(), small(), &mut Vec::new()).expect("memory");
    let ibm = journal.item(item("IBM.N"));
    journal.append(Kind::Refresh, Some(ibm), at(0), &refresh(&[(22, 0)]));
    for n in 1..200 {
        journal.append(Kind::Update, Some(ibm), at(n * 10), &update(&[(22, n as i64)]));
    }
    let whole = close(journal);
    let is_segment = |name: &String| std::path::Path::new(name).extension().is_some_and(|ending| ending == "qwr");
    let segments: Vec<String> = whole.files.keys().filter(|name| is_segment(name)).cloned().collect();
    assert!(segments.len() > 2, "{segments:?}");
    for (number, last) in segments.iter().enumerate().skip(1) {
        let mut store = whole.clone();
        segments[number + 1..].iter().for_each(|later| drop(store.files.remove(later)));
        store.files.retain(|name, _| is_segment(name));
        for len in 64..store.files[last].len() {
            let mut cut = store.clone();
            cut.truncate(last, len as u64).expect("memory");
            let journal = Journal::open(cut, small(), &mut Vec::new()).expect("it is repaired");
            let recording = Recording::open(close(journal)).expect("it was repaired");
            let updates = bodies(&recording).into_iter().filter(|body| matches!(Msg::decode(body), Ok(Msg::Update(_))));
            let Some((image, _)) = image_at(&recording, "IBM.N", 1_000_000) else {
                panic!("no image, {last} cut at {len}")
            };
            assert_eq!(image[&22] as usize, updates.count(), "{last} cut at {len}");
        }
    }
}
