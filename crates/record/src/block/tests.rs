//! Blocks give back what was put in, or say that they are damaged.

use super::decode::{Block, decode, decode_item};
use super::encode::{Effort, Encoder};
use super::slices::{self, Sliced};
use crate::frame::{FRAME_HEAD_LEN, FrameHead, FrameKind};
use crate::packing::{BlockMaker, Rows};
use crate::record::{Clocks, ItemNumber, Kind};
use crate::row::put_row;
use proptest::prelude::*;
use rwf::DataType;
use rwf::msg::{Domain, UpdateMsg, UpdateType};
use rwf::wire::Writer;

/// A record to be: kind, item, clocks, body.
type Given = (Kind, u32, Clocks, Vec<u8>);

/// An update with these fields, as they stand on the wire.
fn update(sequence: Option<u32>, fields: &[(i16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![8];
    body.extend_from_slice(&(fields.len() as u16).to_be_bytes());
    for (fid, value) in fields {
        body.extend_from_slice(&fid.to_be_bytes());
        if value.len() <= 0xFD {
            body.push(value.len() as u8);
        } else {
            body.push(0xFE);
            body.extend_from_slice(&(value.len() as u16).to_be_bytes());
        }
        body.extend_from_slice(value);
    }
    let msg = UpdateMsg {
        seq_num: sequence,
        update_type: UpdateType(1),
        container: DataType::FIELD_LIST,
        body: &body,
        ..UpdateMsg::new(Domain(6), 3)
    };
    let mut buf = vec![0; body.len() + 64];
    let mut writer = Writer::new(&mut buf);
    msg.encode(&mut writer).expect("there is room");
    writer.written().to_vec()
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        (0u8..4, any::<i16>()).prop_map(|(hint, value)| {
            let mut bytes = vec![hint];
            match i8::try_from(value) {
                Ok(value) => bytes.push(value as u8),
                Err(_) => bytes.extend_from_slice(&value.to_be_bytes()),
            }
            bytes
        }),
        (0u8..25, 0u8..61, 0u8..61).prop_map(|(h, m, s)| vec![h, m, s]),
        (0u8..25, 0u8..61, 0u8..61, 0u16..1001).prop_map(|(h, m, s, ms)| {
            let mut bytes = vec![h, m, s];
            bytes.extend_from_slice(&ms.to_be_bytes());
            bytes
        }),
        (1u8..=255).prop_map(|value| vec![value]),
        Just(b"NYS".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..12),
        proptest::collection::vec(any::<u8>(), 250..258),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let field = (prop_oneof![Just(22i16), Just(25), Just(-3), 30i16..34], value());
    prop_oneof![
        6 => (proptest::option::of(any::<u32>()), proptest::collection::vec(field, 0..8))
            .prop_map(|(sequence, fields)| update(sequence, &fields)),
        1 => proptest::collection::vec(any::<u8>(), 0..80),
    ]
}

fn given_record() -> impl Strategy<Value = Given> {
    let kind = prop_oneof![5 => Just(Kind::Update), 1 => proptest::sample::select(Kind::ALL.to_vec())];
    let wall = prop_oneof![0u64..1 << 40, any::<u64>()];
    let clocks = (wall, any::<u64>(), proptest::option::of(any::<u64>()));
    let clocks = clocks.prop_map(|(wall, mono, source)| Clocks { wall, mono, source });
    (kind, prop_oneof![0u32..4, any::<u32>()], clocks, body())
}

fn block_of(given: &[Given], effort: Effort) -> Vec<u8> {
    let mut encoder = Encoder::new(effort).expect("memory");
    let mut out = Vec::new();
    for (kind, item, clocks, body) in given {
        encoder.push(*kind, *item, *clocks, body);
    }
    encoder.finish(17, None, &mut out).expect("it is not empty");
    out
}

/// A block as its writer makes it: whether it is sliced, and its payload.
fn made(given: &[Given], slice_records: usize, effort: Effort) -> (FrameKind, Vec<u8>) {
    let mut rows = Rows { first: 17, ..Rows::default() };
    for (kind, item, clocks, body) in given {
        put_row(*kind, *item, *clocks, body, &mut rows.bytes);
    }
    let mut out = Vec::new();
    let place = BlockMaker::new(effort, slice_records).expect("memory").make(&rows, None, &mut out).expect("rows");
    let mut items: Vec<ItemNumber> = given.iter().map(|(_, item, ..)| *item).collect();
    items.sort_unstable();
    items.dedup();
    assert!(place.items.iter().eq(items.iter().copied()));
    let head = FrameHead::decode(&out).expect("a frame");
    let payload = head.payload(&out[FRAME_HEAD_LEN..]).expect("a whole one").into_owned();
    let read = if head.kind == FrameKind::Sliced { slices::items(&payload) } else { super::decode::items(&payload) };
    assert_eq!(read, Some(items));
    (head.kind, payload)
}

/// The records of an item, without those of others being unpacked.
fn of_item(kind: FrameKind, payload: &[u8], item: ItemNumber) -> Option<Block> {
    if kind == FrameKind::Block {
        return decode_item(payload, item);
    }
    let sliced = Sliced::read(payload)?;
    let times = if sliced.ascends { Vec::new() } else { slices::times(payload)? };
    let place = sliced.of_item(item)?;
    sliced.read_item(place, payload.get(place.offset..place.offset + place.len)?, item, &times)
}

proptest! {
    /// Sliced or not: all records come back in order, and an item's alone are the same.
    #[test]
    fn slices_give_back_what_was_put_in(
        mut given in proptest::collection::vec(given_record(), 1..60),
        slice_records in 1usize..30,
        hard in any::<bool>(),
        ascends in any::<bool>(),
    ) {
        if ascends {
            given.sort_by_key(|(_, _, clocks, _)| clocks.wall);
        }
        let (kind, payload) = made(&given, slice_records, if hard { Effort::COMPACT } else { Effort::LIVE });
        let all = if kind == FrameKind::Sliced { slices::decode(&payload) } else { decode(&payload) };
        let all = all.expect("it was just made");
        prop_assert_eq!(all.len(), given.len());
        let mut latest = 0;
        for (at, (record, (kind, item, clocks, body))) in all.records().zip(&given).enumerate() {
            latest = latest.max(clocks.wall);
            prop_assert_eq!((record.kind, record.item, record.clocks), (*kind, *item, *clocks));
            prop_assert_eq!((record.body, record.sequence, record.time), (&body[..], 17 + at as u64, latest));
        }
        for (_, item, ..) in &given {
            let some = of_item(kind, &payload, *item).expect("it has the item");
            let meant: Vec<_> = all.records().filter(|record| record.item == *item).collect();
            prop_assert_eq!(some.records().collect::<Vec<_>>(), meant);
        }
    }

    /// Whatever stands in a slice, and whatever directory is before it: it is read or refused.
    #[test]
    fn a_changed_slice_is_read_or_refused(
        given in proptest::collection::vec(given_record(), 2..30),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (kind, mut payload) = made(&given, 1, Effort::LIVE);
        prop_assume!(kind == FrameKind::Sliced);
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        slices::mend(&mut payload);
        if let Some(block) = slices::decode(&payload) {
            prop_assert_eq!(block.records().count(), block.len());
        }
        for (_, item, ..) in &given {
            if let Some(block) = of_item(kind, &payload, *item) {
                prop_assert!(block.records().all(|record| record.item == *item));
            }
        }
    }

    #[test]
    fn a_block_gives_back_what_was_put_in(
        given in proptest::collection::vec(given_record(), 1..60),
        hard in any::<bool>(),
    ) {
        let bytes = block_of(&given, if hard { Effort::COMPACT } else { Effort::LIVE });
        let block = decode(&bytes).expect("it was just made");
        prop_assert_eq!(block.len(), given.len());
        let mut latest = 0;
        for (at, (record, (kind, item, clocks, body))) in block.records().zip(&given).enumerate() {
            latest = latest.max(clocks.wall);
            prop_assert_eq!((record.kind, record.item, record.clocks), (*kind, *item, *clocks));
            prop_assert_eq!((record.body, record.sequence, record.time), (&body[..], 17 + at as u64, latest));
        }
    }

    /// Without the checksum around it: nothing that stands in a block makes its reader panic.
    #[test]
    fn a_changed_block_is_read_or_refused(
        given in proptest::collection::vec(given_record(), 1..20),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = block_of(&given, Effort::LIVE);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(block) = decode(&bytes) {
            prop_assert_eq!(block.records().count(), block.len());
        }
    }
}

#[test]
fn a_plan_that_fits_no_more_is_made_anew() {
    let mut encoder = Encoder::new(Effort::LIVE).expect("memory");
    let clocks = Clocks::default();
    for value in [&[0x0C, 1][..], &[7; 20], &[1, 2, 3], &[], &[0x0C, 0, 0]] {
        let body = update(None, &[(22, value.to_vec())]);
        for _ in 0..3 {
            encoder.push(Kind::Update, 1, clocks, &body);
        }
        let mut out = Vec::new();
        encoder.finish(0, None, &mut out).expect("it is not empty");
        let block = decode(&out).expect("it was just made");
        assert!(block.records().all(|record| record.body == body));
    }
}
