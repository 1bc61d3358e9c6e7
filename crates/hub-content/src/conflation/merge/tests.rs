//! What goes out of a merge leads to the image that the single updates lead to.

use super::{Merged, Ripples, Room, may_merge};
use crate::conflation::FIRST;
use rwf::dictionary::Dictionary;
use rwf::image::{Payload, Schema};
use rwf::msg::{Conflation, Domain, UpdateFlags, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, FieldListEncoder, SetScope};

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 14];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

fn fields(list: &[(i16, u64)]) -> Vec<u8> {
    encode(|w| {
        let mut out = FieldListEncoder::begin(w)?;
        for &(fid, value) in list {
            out.uint(fid, value)?;
        }
        out.finish()
    })
}

fn update(update_type: UpdateType, flags: UpdateFlags, body: &[u8]) -> UpdateMsg<'_> {
    let container = DataType::FIELD_LIST;
    UpdateMsg { container, flags, update_type, body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) }
}

/// A stream whose updates are conflated without regard to time.
#[derive(Default)]
struct Stream {
    pending: Option<Merged>,
    out: Vec<Vec<u8>>,
}

impl Stream {
    fn add(&mut self, msg: &[u8], ripples: &Ripples, now: u64) {
        let update = UpdateMsg::decode(msg).unwrap();
        let merges = may_merge(&update);
        if merges && self.pending.as_mut().is_some_and(|pending| pending.merge(msg, &update, ripples)) {
            return;
        }
        self.flush(now);
        if merges {
            self.pending = Some(begun(msg, &update, now));
        } else {
            self.out.push(msg.to_vec());
        }
    }

    fn flush(&mut self, now: u64) {
        if let Some(pending) = self.pending.take() {
            pending.write(FIRST, now, &mut Room::default(), |msg| self.out.push(msg.to_vec())).unwrap();
        }
    }
}

/// A merge of which one waits for everything.
fn begun(msg: &[u8], update: &UpdateMsg<'_>, now: u64) -> Merged {
    let mut merged = Merged::begin(msg, update);
    assert_eq!(merged.join(now), FIRST);
    merged
}

fn written(payload: &Payload) -> Vec<u8> {
    encode(|w| payload.write(w))
}

fn apply(payload: &mut Payload, msg: &[u8], schema: &Schema<'_>) {
    let update = UpdateMsg::decode(msg).unwrap();
    let ripple = schema.ripple && !update.flags.contains(UpdateFlags::DO_NOT_RIPPLE);
    payload.update(update.container, update.body, &Schema { ripple, ..*schema }).unwrap();
}

/// Fields of the built-in dictionary: three that ripple with those that they ripple to, and some that do not.
const FIDS: [i16; 12] = [22, 23, 24, 25, 26, 6, 7, 8, 30, 31, 32, 3];

#[test]
fn a_merge_leads_to_the_image_of_the_single_updates() {
    let dictionary = Dictionary::builtin();
    let ripples = Ripples::of(&dictionary);
    assert!(ripples.role(22).is_some() && ripples.role(23) == Some(super::Role::Member), "BID ripples");
    let mut merged_away = 0;
    for seed in 1..400_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let initial: Vec<(i16, u64)> = FIDS.iter().map(|&fid| (fid, 1_000 + fid as u64)).collect();
        for ripple in [false, true] {
            let schema = Schema { dictionary: Some(&dictionary), ripple, ..Schema::NONE };
            let image = || {
                let mut payload = Payload::new(DataType::FIELD_LIST);
                payload.refresh(DataType::FIELD_LIST, &fields(&initial), &schema).unwrap();
                payload
            };
            let (mut whole, mut conflated, mut stream) = (image(), image(), Stream::default());
            let (mut kept, mut count, mut told) = (Vec::new(), 0_u32, 0_u32);
            for now in 0..60_u64 {
                let mut chosen: Vec<(i16, u64)> = (0..=draw(5))
                    .map(|_| {
                        (
                            FIDS[if draw(30) > 0 { [0, 3, 8, 9, 10][draw(5) as usize] } else { draw(12) as usize }],
                            draw(1 << 20),
                        )
                    })
                    .collect();
                if draw(20) > 0 {
                    chosen.sort_unstable();
                    chosen.dedup_by_key(|(fid, _)| *fid);
                }
                let body = fields(&chosen);
                let update_type = if draw(12) == 0 { UpdateType::TRADE } else { UpdateType(draw(2) as u8) };
                let flags = match draw(30) {
                    0 => UpdateFlags::DO_NOT_RIPPLE,
                    1 => UpdateFlags::DO_NOT_CONFLATE,
                    _ => UpdateFlags::NONE,
                };
                let msg = encode(|w| update(update_type, flags, &body).encode(w));
                if update_type == UpdateType::TRADE || flags == UpdateFlags::DO_NOT_CONFLATE {
                    kept.push(msg.clone());
                }
                apply(&mut whole, &msg, &schema);
                stream.add(&msg, &ripples, now * 1_000_000);
                count += 1;
                if draw(20) == 0 || now == 59 {
                    stream.flush(now * 1_000_000);
                    for msg in stream.out.drain(..) {
                        let update = UpdateMsg::decode(&msg).unwrap();
                        told += update.conflation.map_or(1, |conflation| u32::from(conflation.count));
                        merged_away += update.conflation.map_or(0, |conflation| u32::from(conflation.count) - 1);
                        if kept.first() == Some(&msg) {
                            kept.remove(0);
                        }
                        apply(&mut conflated, &msg, &schema);
                    }
                    assert_eq!(written(&whole), written(&conflated), "seed {seed}, rippling {ripple}, after {now}");
                    assert!(kept.is_empty(), "trades are all there, as they came and in order");
                    assert_eq!(count, told, "every update is counted");
                }
            }
        }
    }
    assert!(merged_away > 5_000, "only {merged_away} updates were merged");
}

#[test]
fn what_is_merged_says_so() {
    let ripples = Ripples::default();
    let mut stream = Stream::default();
    let key = rwf::msg::MsgKey::item(3, b"IBM");
    for at in 0..4_u32 {
        let body = fields(&[(30, u64::from(at)), (40 + at as i16, 7)]);
        let quote = UpdateMsg {
            seq_num: Some(10 + at),
            key: Some(key),
            conflation: (at == 2).then_some(Conflation { count: 5, time: 900 }),
            ..update(UpdateType::QUOTE, UpdateFlags::DISCARDABLE, &body)
        };
        stream.add(&encode(|w| quote.encode(w)), &ripples, u64::from(at) * 100_000_000);
    }
    stream.flush(450_000_000);
    let [msg] = &stream.out[..] else { panic!("{} messages", stream.out.len()) };
    let update = UpdateMsg::decode(msg).unwrap();
    assert_eq!(update.conflation, Some(Conflation { count: 8, time: 900 }));
    assert_eq!((update.seq_num, update.update_type), (Some(13), UpdateType::QUOTE));
    assert_eq!((update.key, update.flags.contains(UpdateFlags::DISCARDABLE)), (Some(key), true));
    assert_eq!(update.body, fields(&[(30, 3), (40, 7), (41, 7), (42, 7), (43, 7)]));
}

#[test]
fn one_alone_goes_out_as_it_came() {
    let body = fields(&[(22, 1)]);
    let msg = encode(|w| update(UpdateType::QUOTE, UpdateFlags::NONE, &body).encode(w));
    let mut stream = Stream::default();
    stream.add(&msg, &Ripples::default(), 0);
    stream.flush(5);
    assert_eq!(stream.out, [msg]);
}

#[test]
fn what_is_kept_is_kept() {
    let body = fields(&[(22, 1)]);
    let quote = update(UpdateType::QUOTE, UpdateFlags::NONE, &body);
    assert!(may_merge(&quote));
    for kept in [
        UpdateMsg { update_type: UpdateType::TRADE, ..quote.clone() },
        UpdateMsg { update_type: UpdateType::CORRECTION, ..quote.clone() },
        UpdateMsg { update_type: UpdateType::CLOSING_RUN, ..quote.clone() },
        UpdateMsg { flags: UpdateFlags::DO_NOT_CONFLATE, ..quote.clone() },
        UpdateMsg { flags: UpdateFlags::DO_NOT_CACHE, ..quote.clone() },
        UpdateMsg { perm_data: Some(&[3, 1, 1, 0x65, 0x62, 0xc0]), ..quote.clone() },
        UpdateMsg { ext_header: Some(b"x"), ..quote.clone() },
        UpdateMsg { container: DataType::OPAQUE, ..quote.clone() },
        UpdateMsg { domain: Domain::SOURCE, ..quote.clone() },
    ] {
        assert!(!may_merge(&kept), "{kept:?}");
    }
}

#[test]
fn partial_text_and_unknown_sets_follow_by_themselves() {
    let whole = fields(&[(3, 1)]);
    let first = encode(|w| update(UpdateType::QUOTE, UpdateFlags::NONE, &whole).encode(w));
    let partial = encode(|w| {
        let mut out = FieldListEncoder::begin(w)?;
        out.raw(3, b"\x1b[2`AB")?;
        out.finish()
    });
    // Set data of set 0, whose definition nobody knows, and no standard data.
    for body in [&partial[..], &[0x02, 1, 2, 3]] {
        let update = update(UpdateType::QUOTE, UpdateFlags::NONE, body);
        let msg = encode(|w| update.encode(w));
        let mut merged = begun(&first, &UpdateMsg::decode(&first).unwrap(), 0);
        assert!(!merged.merge(&msg, &update, &Ripples::default()));
        let mut out = Vec::new();
        merged.write(FIRST, 0, &mut Room::default(), |msg| out.push(msg.to_vec())).unwrap();
        assert_eq!(out, std::slice::from_ref(&first));
    }
}

type Rows = std::collections::BTreeMap<Vec<u8>, std::collections::BTreeMap<i16, Vec<u8>>>;

/// The rows of a map, and its summary under the empty key.
fn rows(body: &[u8]) -> Rows {
    let fields = |data: &[u8]| {
        let list = rwf::FieldList::decode(data, &SetScope::NONE).unwrap();
        list.entries().map(|entry| entry.unwrap()).map(|entry| (entry.fid, entry.data.to_vec())).collect()
    };
    let map = rwf::Map::decode(body, &SetScope::NONE).unwrap();
    let mut rows: Rows =
        map.entries().map(|entry| entry.unwrap()).map(|entry| (entry.key.to_vec(), fields(entry.data))).collect();
    rows.extend(map.summary().map(|summary| (Vec::new(), fields(summary))));
    rows
}

#[test]
fn books_merge_by_key() {
    use rwf::container::{MapAction, MapEncoder, MapHead};
    use rwf::wire::LenForm;
    let mut saved = 0;
    for seed in 1..300_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let head = MapHead::new(DataType::UINT, DataType::FIELD_LIST);
        let image = || {
            let mut payload = Payload::new(DataType::MAP);
            let first = encode(|w| {
                let mut map = MapEncoder::begin(w, head)?;
                map.summary(LenForm::Shortest, |w| w.bytes(&fields(&[(1, 7)])))?;
                for key in 0..4 {
                    map.entry(MapAction::ADD, &rwf::Primitive::UInt(key), |w| w.bytes(&fields(&[(1, key), (2, 9)])))?;
                }
                map.finish()
            });
            payload.refresh(DataType::MAP, &first, &Schema::NONE).unwrap();
            payload
        };
        let (mut whole, mut conflated, mut stream) = (image(), image(), Stream::default());
        for now in 0..40 {
            let body = encode(|w| {
                let mut map = MapEncoder::begin(w, head)?;
                if draw(5) == 0 {
                    map.summary(LenForm::Shortest, |w| w.bytes(&fields(&[(draw(3) as i16, draw(100))])))?;
                }
                for _ in 0..=draw(4) {
                    let (key, action) = (rwf::Primitive::UInt(draw(7)), MapAction(1 + draw(3) as u8));
                    map.entry(action, &key, |w| w.bytes(&fields(&[(1 + draw(4) as i16, draw(1 << 20))])))?;
                }
                map.finish()
            });
            let update_type = if draw(12) == 0 { UpdateType::TRADE } else { UpdateType::UNSPECIFIED };
            let update = UpdateMsg { container: DataType::MAP, ..update(update_type, UpdateFlags::NONE, &body) };
            let msg = encode(|w| update.encode(w));
            apply(&mut whole, &msg, &Schema::NONE);
            stream.add(&msg, &Ripples::default(), now);
            if draw(12) == 0 || now == 39 {
                stream.flush(now);
                for msg in stream.out.drain(..) {
                    let update = UpdateMsg::decode(&msg).unwrap();
                    saved += update.conflation.map_or(0, |conflation| u32::from(conflation.count) - 1);
                    apply(&mut conflated, &msg, &Schema::NONE);
                }
                assert_eq!(rows(&written(&whole)), rows(&written(&conflated)), "seed {seed}, after {now}");
            }
        }
    }
    assert!(saved > 5_000, "only {saved} updates were merged");
}

#[test]
fn a_map_of_another_kind_follows_by_itself() {
    use rwf::container::{MapAction, MapEncoder, MapHead};
    let map = |head: MapHead, perm: Option<&[u8]>| {
        encode(|w| {
            let mut map = MapEncoder::begin(w, head)?;
            let key =
                if head.key_type == DataType::UINT { rwf::Primitive::UInt(1) } else { rwf::Primitive::Buffer(b"a") };
            map.entry_with(MapAction::ADD, &key, perm, rwf::wire::LenForm::Shortest, |w| w.bytes(&fields(&[(1, 2)])))?;
            map.finish()
        })
    };
    let head = MapHead::new(DataType::UINT, DataType::FIELD_LIST);
    let first = map(head, None);
    fn of(body: &[u8]) -> UpdateMsg<'_> {
        UpdateMsg { container: DataType::MAP, ..update(UpdateType::UNSPECIFIED, UpdateFlags::NONE, body) }
    }
    let message = encode(|w| of(&first).encode(w));
    for other in [
        map(MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), None),
        map(MapHead { key_field_id: Some(3), ..head }, None),
        map(MapHead { per_entry_perm: true, ..head }, Some(&[3, 1, 1, 0x65, 0x62, 0xc0])),
    ] {
        let mut merged = begun(&message, &of(&first), 0);
        let msg = encode(|w| of(&other).encode(w));
        assert!(!merged.merge(&msg, &of(&other), &Ripples::default()));
    }
    let mut merged = begun(&message, &of(&first), 0);
    let list = fields(&[(1, 2)]);
    let msg = encode(|w| update(UpdateType::UNSPECIFIED, UpdateFlags::NONE, &list).encode(w));
    let of_list = UpdateMsg::decode(&msg).unwrap();
    assert!(!merged.merge(&msg, &of_list, &Ripples::default()), "another container");
}
