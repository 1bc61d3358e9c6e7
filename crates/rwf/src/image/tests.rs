//! Images against plain models: after any refreshes and updates, what is written is what the model holds.

use super::*;
use crate::dictionary::FieldDef;
use crate::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, UpdateMsg};
use crate::wire::Writer;
use crate::{
    DataType, ElementList, ElementListEncoder, EncodeError, FieldList, FieldListEncoder, FilterAction, FilterHead,
    FilterList, FilterListEncoder, Map, MapAction, MapEncoder, MapHead, Primitive, Real, RealHint, Series,
    SeriesEncoder, SetScope, Vector, VectorAction, VectorEncoder, VectorHead,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

mod plans;

fn encode(mut write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 20];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

type Fields = BTreeMap<i16, Vec<u8>>;
type FieldVec = Vec<(i16, Vec<u8>)>;

fn field_list(fields: &[(i16, Vec<u8>)]) -> Vec<u8> {
    encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for (fid, value) in fields {
            list.raw(*fid, value)?;
        }
        list.finish()
    })
}

fn read_fields(bytes: &[u8]) -> Fields {
    let list = FieldList::decode(bytes, &SetScope::NONE).unwrap();
    let fields: Vec<_> = list.entries().map(Result::unwrap).map(|entry| (entry.fid, entry.data.to_vec())).collect();
    let count = fields.len();
    let map: Fields = fields.into_iter().collect();
    assert_eq!(map.len(), count, "a field twice");
    map
}

fn refresh(image: &mut Image, container: DataType, body: &[u8]) -> Result<(), ApplyError> {
    let flags = RefreshFlags::REFRESH_COMPLETE;
    let refresh = RefreshMsg { container, flags, body, ..RefreshMsg::new(Domain::MARKET_PRICE, 0) };
    image.refresh(&refresh, &Schema::NONE)
}

fn update(image: &mut Image, container: DataType, body: &[u8]) -> Result<(), ApplyError> {
    image.update(&UpdateMsg { container, body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) }, &Schema::NONE)
}

fn refreshed(container: DataType, body: &[u8]) -> Image {
    let mut image = Image::new();
    refresh(&mut image, container, body).unwrap();
    image
}

/// Every part that the image is written in.
fn parts(image: &Image, limit: usize) -> Vec<Vec<u8>> {
    let flags = RefreshFlags::SOLICITED;
    let key = Some(MsgKey::item(1, b"A"));
    let mut left = image.parts(RefreshMsg { flags, key, ..RefreshMsg::new(Domain::MARKET_PRICE, -1) }, limit);
    let mut parts = Vec::new();
    while !left.is_done() {
        assert_eq!(left.write(&mut Writer::new(&mut [0; 10])), Err(EncodeError::BufferFull));
        let mut part = None;
        let bytes = encode(|w| {
            part = Some(left.write(w)?);
            Ok(())
        });
        let (part, refresh) = (part.unwrap(), RefreshMsg::decode(&bytes).unwrap());
        assert_eq!(refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE), part.is_last());
        assert_eq!(refresh.flags.contains(RefreshFlags::CLEAR_CACHE), part.is_first());
        assert!(refresh.flags.contains(RefreshFlags::SOLICITED));
        assert_eq!(refresh.part_num, (part != Part::Only).then_some(parts.len() as u16));
        parts.push(refresh.body.to_vec());
    }
    assert!(left.write(&mut Writer::new(&mut [0; 100])).is_err(), "a part after the last");
    parts
}

fn whole(image: &Image) -> Vec<u8> {
    let mut parts = parts(image, 1 << 24);
    assert_eq!(parts.len(), 1);
    parts.remove(0)
}

fn any_fields() -> impl Strategy<Value = FieldVec> {
    let value = prop_oneof![
        // Often of the length of what is held, with and without what partial texts begin with.
        6 => prop::collection::vec(b'a'..=b'z', 3..=3),
        2 => prop::collection::vec(0x1A..=0x1C_u8, 3..=3),
        4 => prop::collection::vec(b'a'..=b'z', 0..12),
        1 => prop::collection::vec(b'a'..=b'z', 250..258),
    ];
    prop::collection::btree_map(-3i16..12, value, 0..10).prop_map(|fields| {
        // Not always in the same order.
        let mut fields: Vec<_> = fields.into_iter().collect();
        if fields.first().is_some_and(|first| first.1.len() % 2 == 1) {
            fields.reverse();
        }
        fields
    })
}

proptest! {
    #[test]
    fn a_field_list_holds_the_last_value_of_each_field(
        first in any_fields(),
        updates in prop::collection::vec(any_fields(), 0..12),
    ) {
        let mut image = refreshed(DataType::FIELD_LIST, &field_list(&first));
        let mut model: Fields = first.into_iter().collect();
        for change in updates {
            update(&mut image, DataType::FIELD_LIST, &field_list(&change)).unwrap();
            model.extend(change);
        }
        prop_assert_eq!(read_fields(&whole(&image)), model);
    }

    #[test]
    fn a_map_holds_its_entries_by_key(
        ops in prop::collection::vec((0u8..3, 0u64..12, any_fields()), 0..60),
        limit in 1usize..400,
    ) {
        let mut image = refreshed(DataType::MAP, &map_of(&[]));
        let mut model: BTreeMap<u64, Fields> = BTreeMap::new();
        for op in ops.chunks(5) {
            update(&mut image, DataType::MAP, &map_of(op)).unwrap();
            for (action, key, fields) in op {
                match action {
                    0 => drop(model.insert(*key, fields.iter().cloned().collect())),
                    1 => if let Some(entry) = model.get_mut(key) { entry.extend(fields.iter().cloned()) },
                    _ => drop(model.remove(key)),
                }
            }
        }
        let mut read: BTreeMap<u64, Fields> = BTreeMap::new();
        for part in parts(&image, limit) {
            let map = Map::decode(&part, &SetScope::NONE).unwrap();
            for entry in map.entries() {
                let entry = entry.unwrap();
                prop_assert_eq!(entry.action, MapAction::ADD);
                let Primitive::UInt(key) = entry.key_value(DataType::UINT).unwrap() else { panic!() };
                prop_assert!(read.insert(key, read_fields(entry.data)).is_none());
            }
        }
        prop_assert_eq!(read, model);
    }

    #[test]
    fn a_vector_holds_its_entries_by_index(
        ops in prop::collection::vec((0u8..5, 0u32..8, any_fields()), 0..60),
        limit in 1usize..400,
    ) {
        let mut image = refreshed(DataType::VECTOR, &vector_of(&[]));
        let mut model: BTreeMap<u32, Fields> = BTreeMap::new();
        for op in ops.chunks(4) {
            update(&mut image, DataType::VECTOR, &vector_of(op)).unwrap();
            for op in op {
                vector_model(&mut model, op);
            }
        }
        let mut read: BTreeMap<u32, Fields> = BTreeMap::new();
        for part in parts(&image, limit) {
            for entry in Vector::decode(&part, &SetScope::NONE).unwrap().entries() {
                let entry = entry.unwrap();
                let fields = if entry.action == VectorAction::CLEAR { Fields::new() } else { read_fields(entry.data) };
                prop_assert!(read.insert(entry.index, fields).is_none());
            }
        }
        prop_assert_eq!(read, model);
    }

    #[test]
    fn any_bytes_are_taken_or_refused_without_panic(
        container in 128u8..143,
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..6),
    ) {
        let mut image = Image::new();
        for (n, body) in payloads.iter().enumerate() {
            let container = DataType(container);
            let _ = if n == 0 { refresh(&mut image, container, body) } else { update(&mut image, container, body) };
        }
        prop_assert!(!parts(&image, 50).is_empty());
    }
}

fn map_of(ops: &[(u8, u64, FieldVec)]) -> Vec<u8> {
    encode(|w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::FIELD_LIST))?;
        for (action, key, fields) in ops {
            let action = [MapAction::ADD, MapAction::UPDATE, MapAction::DELETE][usize::from(*action)];
            map.entry(action, &Primitive::UInt(*key), |w| w.bytes(&field_list(fields)))?;
        }
        map.finish()
    })
}

/// Rows of a small map are found by looking at all, those of a large one by a hash. Which of both it is, nobody sees.
#[test]
fn rows_are_found_while_a_map_grows_and_shrinks() {
    let mut image = refreshed(DataType::MAP, &map_of(&[]));
    let mut model: BTreeMap<u64, Fields> = BTreeMap::new();
    let list = |value: u64| vec![(1_i16, value.to_be_bytes().to_vec())];
    let mut seed = 1_u64;
    for turn in 0..4_000_u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Many adds at first, then as many deletes; keys of one byte and of eight.
        let key = [(seed >> 40) % 90, u64::MAX - (seed >> 40) % 90][usize::from(seed >> 60 & 1 == 1)];
        let action = if (seed >> 33) % 10 < 3 { 1 } else { [0, 2][usize::from(turn % 1_000 > 500)] };
        update(&mut image, DataType::MAP, &map_of(&[(action, key, list(turn))])).unwrap();
        match action {
            0 => drop(model.insert(key, list(turn).into_iter().collect())),
            1 => drop(model.get_mut(&key).map(|entry| entry.extend(list(turn)))),
            _ => drop(model.remove(&key)),
        }
        if turn % 97 == 0 || turn > 3_990 {
            let bytes = whole(&image);
            let map = Map::decode(&bytes, &SetScope::NONE).unwrap();
            let read = map.entries().map(Result::unwrap).map(|entry| {
                let Primitive::UInt(key) = entry.key_value(DataType::UINT).unwrap() else { panic!() };
                (key, read_fields(entry.data))
            });
            assert_eq!(read.collect::<BTreeMap<_, _>>(), model, "turn {turn}");
        }
    }
}

/// ETA C's example providers of order books (`NIProvider`, `VANIProvider`) send images whose entries say Update. Who has the item open takes
/// them as they are; who gets the held image later has to find the same orders there.
#[test]
fn entries_of_a_refresh_that_say_update_are_added() {
    let list = |fid: i16, value: u8| vec![(fid, vec![value])];
    let book = [(1, 5, list(1, 1)), (1, 6, list(1, 2)), (2, 7, Vec::new()), (1, 5, list(2, 3))];
    let image = refreshed(DataType::MAP, &map_of(&book));
    let added = [(0, 5, [list(1, 1), list(2, 3)].concat()), (0, 6, list(1, 2))];
    assert_eq!(whole(&image), whole(&refreshed(DataType::MAP, &map_of(&added))));
    // The next part of a refresh goes on with the one before; the next refresh begins with nothing.
    let part = |number, body: &[u8], flags| {
        let body = body.to_vec();
        move |image: &mut Image| {
            let (container, part_num) = (DataType::MAP, Some(number));
            let refresh =
                RefreshMsg { container, part_num, flags, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 0) };
            image.refresh(&refresh, &Schema::NONE).unwrap();
        }
    };
    let mut image = image;
    part(0, &map_of(&[(1, 8, list(1, 1))]), RefreshFlags::NONE)(&mut image);
    part(1, &map_of(&[(1, 8, list(2, 2)), (1, 9, list(1, 3))]), RefreshFlags::REFRESH_COMPLETE)(&mut image);
    let added = [(0, 8, [list(1, 1), list(2, 2)].concat()), (0, 9, list(1, 3))];
    assert_eq!(whole(&image), whole(&refreshed(DataType::MAP, &map_of(&added))));
    // In an update it changes nothing.
    update(&mut image, DataType::MAP, &map_of(&[(1, 10, list(1, 1))])).unwrap();
    assert_eq!(whole(&image), whole(&refreshed(DataType::MAP, &map_of(&added))));
    let vector = refreshed(DataType::VECTOR, &vector_of(&[(1, 0, list(1, 1)), (1, 1, list(1, 2)), (1, 0, list(2, 3))]));
    let set = [(0, 0, [list(1, 1), list(2, 3)].concat()), (0, 1, list(1, 2))];
    assert_eq!(whole(&vector), whole(&refreshed(DataType::VECTOR, &vector_of(&set))));
}

/// Converters of JSON read the type of the entries off their data: an update that only deletes says that there is none.
#[test]
fn an_update_that_only_deletes_may_name_no_type() {
    let list = |value: u8| vec![(1_i16, vec![value])];
    let mut image = refreshed(DataType::MAP, &map_of(&[(0, 5, list(1)), (0, 6, list(2))]));
    let delete = encode(|w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::NO_DATA))?;
        map.delete(&Primitive::UInt(5))?;
        map.finish()
    });
    update(&mut image, DataType::MAP, &delete).unwrap();
    assert_eq!(whole(&image), whole(&refreshed(DataType::MAP, &map_of(&[(0, 6, list(2))]))));
    // An image that begins so takes the type of the first data.
    let mut image = refreshed(DataType::MAP, &delete);
    update(&mut image, DataType::MAP, &map_of(&[(0, 6, list(2))])).unwrap();
    assert_eq!(whole(&image), whole(&refreshed(DataType::MAP, &map_of(&[(0, 6, list(2))]))));
}

fn vector_of(ops: &[(u8, u32, FieldVec)]) -> Vec<u8> {
    const ACTIONS: [VectorAction; 5] =
        [VectorAction::SET, VectorAction::UPDATE, VectorAction::CLEAR, VectorAction::INSERT, VectorAction::DELETE];
    encode(|w| {
        let head = VectorHead { sortable: true, ..VectorHead::new(DataType::FIELD_LIST) };
        let mut vector = VectorEncoder::begin(w, head)?;
        for (action, index, fields) in ops {
            vector.entry(ACTIONS[usize::from(*action)], *index, |w| w.bytes(&field_list(fields)))?;
        }
        vector.finish()
    })
}

fn vector_model(model: &mut BTreeMap<u32, Fields>, (action, index, fields): &(u8, u32, FieldVec)) {
    let fields: Fields = fields.iter().cloned().collect();
    match action {
        0 => drop(model.insert(*index, fields)),
        1 => {
            if let Some(entry) = model.get_mut(index) {
                entry.extend(fields);
            }
        }
        2 => {
            if let Some(entry) = model.get_mut(index) {
                entry.clear();
            }
        }
        3 => {
            let moved = model.split_off(index);
            model.extend(moved.into_iter().map(|(index, fields)| (index + 1, fields)));
            model.insert(*index, fields);
        }
        _ => {
            let mut moved = model.split_off(index);
            moved.remove(index);
            model.extend(moved.into_iter().map(|(index, fields)| (index - 1, fields)));
        }
    }
}

#[test]
fn set_values_are_kept_as_plain_ones() {
    let body = encode(|w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::FIELD_LIST))?;
        let set =
            [(22, DataType::REAL_4RB), (25, DataType::UINT_2), (30, DataType::TIME_3), (31, DataType::RMTES_STRING)];
        map.set_defs(crate::wire::LenForm::Long, |defs| defs.field_set(0, &set))?;
        let price = Primitive::Real(Real::new(12345, RealHint::EXPONENT_2));
        let block = encode(|w| {
            let mut defs = crate::container::SetDefsEncoder::begin(w)?;
            defs.field_set(0, &set)
        });
        let def = crate::container::sets::field_sets(&block).unwrap()[0].1;
        map.entry(MapAction::ADD, &Primitive::UInt(1), |w| {
            let mut list = FieldListEncoder::begin(w)?;
            list.set(None, def, None, |set| {
                set.value(&price)?;
                set.value(&Primitive::UInt(7))?;
                set.value(&Primitive::Time(crate::Time::BLANK))?;
                set.value(&Primitive::Rmtes(b"text"))
            })?;
            list.finish()
        })?;
        map.finish()
    });
    let image = refreshed(DataType::MAP, &body);
    let bytes = whole(&image);
    let map = Map::decode(&bytes, &SetScope::NONE).unwrap();
    assert!(map.set_defs().is_none());
    let entry = map.entries().next().unwrap().unwrap();
    let fields = read_fields(entry.data);
    let value = |fid: i16, data_type| Primitive::decode(data_type, &fields[&fid]).unwrap().to_string();
    let expected = Real::new(12345, RealHint::EXPONENT_2).to_string();
    assert_eq!((value(22, DataType::REAL), value(25, DataType::UINT)), (expected, "7".into()));
    assert_eq!((fields[&30].len(), &fields[&31][..]), (0, &b"text"[..]), "a blank time has no bytes on its own");
}

#[test]
fn a_partial_update_changes_its_part_of_the_text() {
    let mut image =
        refreshed(DataType::FIELD_LIST, &field_list(&[(3, b"IBM CORPORATION".to_vec()), (4, b"x".to_vec())]));
    update(&mut image, DataType::FIELD_LIST, &field_list(&[(3, b"\x1B[4`LIMITED".to_vec())])).unwrap();
    let fields = read_fields(&whole(&image));
    assert_eq!((&fields[&3][..], &fields[&4][..]), (&b"IBM LIMITEDTION"[..], &b"x"[..]));
}

#[test]
fn a_number_that_looks_like_a_partial_update_is_a_number() {
    // 0x1B5B60 has the bytes of `ESC [ \``.
    let mut image = refreshed(DataType::FIELD_LIST, &field_list(&[(3, vec![0x18, 0x75, 0x9F])]));
    update(&mut image, DataType::FIELD_LIST, &field_list(&[(3, vec![0x1B, 0x5B, 0x60])])).unwrap();
    assert_eq!(read_fields(&whole(&image))[&3], [0x1B, 0x5B, 0x60]);
}

#[test]
fn an_element_list_holds_the_last_value_of_each_name() {
    let list = |entries: &[(&str, Primitive<'_>)]| {
        encode(|w| {
            let mut list = ElementListEncoder::begin(w)?;
            for (name, value) in entries {
                list.element(name.as_bytes(), value.data_type().unwrap(), value)?;
            }
            list.finish()
        })
    };
    let mut image =
        refreshed(DataType::ELEMENT_LIST, &list(&[("A", Primitive::UInt(1)), ("B", Primitive::Ascii(b"text"))]));
    let change = list(&[("B", Primitive::UInt(70_000)), ("C", Primitive::Int(-1))]);
    update(&mut image, DataType::ELEMENT_LIST, &change).unwrap();
    let bytes = whole(&image);
    let read = ElementList::decode(&bytes, &SetScope::NONE).unwrap();
    let read: Vec<_> = read.entries().map(Result::unwrap).map(|e| (e.name, e.value().unwrap().to_string())).collect();
    assert_eq!(read, [(&b"A"[..], "1".to_owned()), (b"B", "70000".to_owned()), (b"C", "-1".to_owned())]);
}

#[test]
fn a_filter_list_holds_its_entries_by_id() {
    let list = |entries: &[(u8, FilterAction, FieldVec)]| {
        encode(|w| {
            let mut list = FilterListEncoder::begin(w, FilterHead::new(DataType::FIELD_LIST))?;
            for (id, action, fields) in entries {
                list.entry(*id, *action, |w| w.bytes(&field_list(fields)))?;
            }
            list.finish();
            Ok(())
        })
    };
    let (one, two) = (vec![(1, b"1".to_vec())], vec![(2, b"2".to_vec())]);
    let mut image = refreshed(DataType::FILTER_LIST, &list(&[1, 2, 3].map(|id| (id, FilterAction::SET, one.clone()))));
    let change = list(&[
        (1, FilterAction::UPDATE, two.clone()),
        (2, FilterAction::CLEAR, vec![]),
        (3, FilterAction::SET, two.clone()),
    ]);
    update(&mut image, DataType::FILTER_LIST, &change).unwrap();
    let bytes = whole(&image);
    let read = FilterList::decode(&bytes).unwrap();
    let read: Vec<_> = read.entries().map(Result::unwrap).map(|e| (e.id, read_fields(e.data))).collect();
    let both: Fields = one.iter().chain(&two).cloned().collect();
    assert_eq!(read, [(1, both), (3, two.iter().cloned().collect())]);
}

#[test]
fn a_series_grows_and_keeps_its_summary() {
    let series = |range: std::ops::Range<u8>| {
        encode(|w| {
            let mut series = SeriesEncoder::begin(w, DataType::FIELD_LIST, None)?;
            if range.start == 0 {
                series.summary(crate::wire::LenForm::Long, |w| w.bytes(&field_list(&[(9, b"s".to_vec())])))?;
            }
            for n in range.clone() {
                series.entry(|w| w.bytes(&field_list(&[(1, vec![n])])))?;
            }
            series.finish()
        })
    };
    let mut image = refreshed(DataType::SERIES, &series(0..3));
    let more = series(3..5);
    update(&mut image, DataType::SERIES, &more).unwrap();
    let all = parts(&image, 10);
    assert!(all.len() > 1);
    let first = Series::decode(&all[0], &SetScope::NONE).unwrap();
    assert_eq!(read_fields(first.summary().unwrap())[&9], b"s");
    let mut values = Vec::new();
    for part in &all {
        let series = Series::decode(part, &SetScope::NONE).unwrap();
        values.extend(series.entries().map(|entry| read_fields(entry.unwrap())[&1][0]));
    }
    assert_eq!(values, [0, 1, 2, 3, 4]);
}

#[test]
fn other_payloads_are_kept_as_they_are_and_not_updated() {
    let mut image = refreshed(DataType::XML, b"<a/>");
    assert_eq!(whole(&image), b"<a/>");
    assert!(!image.is_suspect());
    assert_eq!(
        update(&mut image, DataType::XML, b"<b/>"),
        Err(ApplyError::NotUpdatable { held: DataType::XML, update: DataType::XML })
    );
    assert!(image.is_suspect());
    // An update without data changes nothing.
    let mut image = refreshed(DataType::XML, b"<a/>");
    update(&mut image, DataType::NO_DATA, b"").unwrap();
    assert!(!image.is_suspect());
}

#[test]
fn the_old_image_stands_until_the_next_is_whole() {
    let mut image = refreshed(DataType::FIELD_LIST, &field_list(&[(1, b"old".to_vec()), (2, b"old".to_vec())]));
    let part = |image: &mut Image, fid: i16, first: bool, complete| {
        let body = field_list(&[(fid, b"new".to_vec())]);
        let flags = if complete { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
        let part_num = Some(u16::from(!first));
        let container = DataType::FIELD_LIST;
        let refresh =
            RefreshMsg { container, flags, part_num, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 0) };
        image.refresh(&refresh, &Schema::NONE).unwrap();
    };
    part(&mut image, 1, true, false);
    update(&mut image, DataType::FIELD_LIST, &field_list(&[(2, b"upd".to_vec())])).unwrap();
    let values = |image: &Image| read_fields(&whole(image)).into_values().collect::<Vec<_>>();
    assert_eq!(values(&image), [b"old", b"upd"]);
    image.abandon_refresh();
    assert_eq!(values(&image), [b"old", b"upd"]);
    part(&mut image, 1, true, false);
    update(&mut image, DataType::FIELD_LIST, &field_list(&[(1, b"upd".to_vec())])).unwrap();
    part(&mut image, 3, false, true);
    let fields = read_fields(&whole(&image));
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), [(1, b"upd".to_vec()), (3, b"new".to_vec())]);
    let mut never = Image::new();
    part(&mut never, 1, true, false);
    assert!(!never.is_whole());
}

#[test]
fn nesting_beyond_reason_is_refused() {
    let mut body = field_list(&[]);
    let mut container = DataType::FIELD_LIST;
    for _ in 0..12 {
        let inner = std::mem::take(&mut body);
        body = encode(|w| {
            let mut series = SeriesEncoder::begin(w, container, None)?;
            series.entry(|w| w.bytes(&inner))?;
            series.finish()
        });
        container = DataType::SERIES;
    }
    let mut image = Image::new();
    assert_eq!(refresh(&mut image, container, &body), Err(ApplyError::TooLarge("deeper nesting")));
    assert!(image.is_suspect());
}

#[test]
fn an_image_costs_little_beside_its_bytes() {
    assert!(size_of::<Image>() <= 104, "{}", size_of::<Image>());
    assert!(size_of::<Payload>() <= 56, "{}", size_of::<Payload>());
}

/// As plain as can be: what ripples does so one field at a time, from the end of the chain.
fn ripple_model(model: &mut BTreeMap<i16, u64>, update: &BTreeMap<i16, u64>, chain: &[i16]) {
    let mut head = 0;
    while head < chain.len() {
        let held = chain[head..].iter().take_while(|fid| model.contains_key(fid)).count();
        if !update.contains_key(&chain[head]) || held == 0 {
            head += 1;
            continue;
        }
        for at in (head + 1..head + held).rev() {
            model.insert(chain[at], model[&chain[at - 1]]);
        }
        head += held;
    }
}

/// Values of some fields, mostly of one length.
fn values(count: std::ops::Range<usize>) -> impl Strategy<Value = BTreeMap<usize, u64>> {
    prop::collection::btree_map(0usize..10, prop_oneof![8 => 1u64..200, 1 => any::<u64>()], count)
}

proptest! {
    #[test]
    fn fields_ripple_along_their_chain(
        first in values(0..10),
        updates in prop::collection::vec((values(0..5), any::<bool>()), 0..12),
    ) {
        // TRDPRC_1 to TRDPRC_5, BID to BID_2, then two fields of which none ripples to one that is here.
        const FIDS: [i16; 10] = [6, 7, 8, 9, 10, 22, 23, 24, 25, 30];
        static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(Dictionary::builtin);
        let dictionary = &*DICTIONARY;
        let next = |fid: &i16| dictionary.field(*fid).and_then(FieldDef::ripples_to);
        let chains = [6, 22].map(|head| std::iter::successors(Some(head), next).collect::<Vec<i16>>());
        prop_assert_eq!(chains.concat(), &FIDS[..8]);
        let schema = Schema { dictionary: Some(dictionary), ripple: true, ..Schema::NONE };
        let by_fid = |fields: BTreeMap<usize, u64>| -> BTreeMap<i16, u64> {
            fields.into_iter().map(|(at, value)| (FIDS[at], value)).collect()
        };
        let list = |fields: &BTreeMap<i16, u64>| encode(|w| {
            let mut list = FieldListEncoder::begin(w)?;
            fields.iter().try_for_each(|(fid, value)| list.uint(*fid, *value))?;
            list.finish()
        });
        let mut model = by_fid(first);
        let mut image = refreshed(DataType::FIELD_LIST, &list(&model));
        for (update, ripples) in updates {
            let update = by_fid(update);
            let mut msg = UpdateMsg::new(Domain::MARKET_PRICE, 0);
            msg.flags.set(crate::msg::UpdateFlags::DO_NOT_RIPPLE, !ripples);
            let body = list(&update);
            image.update(&UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..msg }, &schema).unwrap();
            chains.iter().filter(|_| ripples).for_each(|chain| ripple_model(&mut model, &update, chain));
            model.extend(&update);
        }
        let read: BTreeMap<i16, u64> = read_fields(&whole(&image))
            .into_iter()
            .map(|(fid, value)| (fid, crate::primitive::uint(&value).unwrap()))
            .collect();
        prop_assert_eq!(read, model);
    }
}

#[test]
fn updates_of_a_page_are_written_onto_it() {
    let container = DataType::ANSI_PAGE;
    let small = Schema { page_size: crate::page::PageSize::new(2, 6), ..Schema::NONE };
    // A refresh without RIS begins with an empty page all the same.
    let refresh = |image: &mut Image, body: &[u8]| {
        let flags = RefreshFlags::REFRESH_COMPLETE;
        image.refresh(&RefreshMsg { container, flags, body, ..RefreshMsg::new(Domain::MARKET_PRICE, 0) }, &small)
    };
    let mut image = Image::new();
    refresh(&mut image, b"old text").unwrap();
    refresh(&mut image, b"GBP 1.\x1b[2;1H\x1b[31mred").unwrap();
    update(&mut image, container, b" too\x1b[1;5H9").unwrap();
    assert!(!image.is_suspect());
    let mut late = crate::page::Page::new(small.page_size);
    late.apply(&whole(&image));
    assert_eq!(late.texts(), ["GBP 9.", "red to"]);
    // The colour is a state of the page: it holds for what comes next, for a late joiner as for the others.
    update(&mut image, container, b"\x1b[1;1HX").unwrap();
    late.apply(b"\x1b[1;1HX");
    assert_eq!(late.row(0)[0].colours, 0xF1);
    let mut again = crate::page::Page::new(small.page_size);
    again.apply(&whole(&image));
    assert_eq!(again, late);
}

#[test]
fn the_dictionary_says_what_is_text() {
    let dictionary = Dictionary::builtin();
    let schema = Schema { dictionary: Some(&dictionary), ..Schema::NONE };
    // BID is a real, DSPLY_NAME text; both hold what could be text.
    let mut image = refreshed(DataType::FIELD_LIST, &field_list(&[(22, b"ABCDEF".to_vec()), (3, b"ABCDEF".to_vec())]));
    let body = field_list(&[(22, b"\x1B[2`xy".to_vec()), (3, b"\x1B[2`xy".to_vec())]);
    let update = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
    image.update(&update, &schema).unwrap();
    let fields = read_fields(&whole(&image));
    assert_eq!((&fields[&22][..], &fields[&3][..]), (&b"\x1B[2`xy"[..], &b"ABxyEF"[..]));
}

#[test]
fn what_the_source_does_not_want_cached_is_not() {
    let mut image = refreshed(DataType::FIELD_LIST, &field_list(&[(1, b"old".to_vec())]));
    let body = field_list(&[(1, b"new".to_vec())]);
    let container = DataType::FIELD_LIST;
    let flags = crate::msg::UpdateFlags::DO_NOT_CACHE;
    let update = UpdateMsg { container, flags, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
    image.update(&update, &Schema::NONE).unwrap();
    assert_eq!(read_fields(&whole(&image))[&1], b"old");
    let flags = RefreshFlags::REFRESH_COMPLETE | RefreshFlags::DO_NOT_CACHE;
    let refresh = RefreshMsg { container, flags, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 0) };
    image.refresh(&refresh, &Schema::NONE).unwrap();
    assert!(!image.is_whole());
}

#[test]
fn the_steady_state_allocates_nothing() {
    let book = |ops: &[(u8, u64, FieldVec)]| map_of(ops);
    let level = |text: &str| vec![(4, text.as_bytes().to_vec()), (5, b"100".to_vec())];
    let mut price = refreshed(DataType::FIELD_LIST, &field_list(&[(1, b"100".to_vec()), (2, b"2000".to_vec())]));
    let (short, long) = (field_list(&[(1, b"9".to_vec())]), field_list(&[(1, b"101".to_vec())]));
    let levels: Vec<_> = (0..20).map(|n| (0, n, level("401.50"))).collect();
    let mut orders = refreshed(DataType::MAP, &book(&levels));
    let change = book(&[(1, 3, level("401.49")), (2, 7, Vec::new()), (0, 27, level("401.50")), (0, 4, level("7"))]);
    let back = book(&[(2, 27, Vec::new()), (0, 7, level("401.50")), (0, 4, level("401.50"))]);
    let mut page = refreshed(DataType::ANSI_PAGE, b"\x1bc\x1b[5;1HGBP  1.5520/30\x1b[24;1Hnews");
    let mut turn = || {
        update(&mut page, DataType::ANSI_PAGE, b"\x1b[5;6H\x1b[>7m1.5521\x1b[>m\x1b[24;1H\nnext line").unwrap();
        update(&mut price, DataType::FIELD_LIST, &short).unwrap();
        update(&mut price, DataType::FIELD_LIST, &long).unwrap();
        update(&mut orders, DataType::MAP, &change).unwrap();
        update(&mut orders, DataType::MAP, &back).unwrap();
    };
    // A page that scrolls has each of its rows in use some day.
    (0..25).for_each(|_| turn());
    let counted = allocation_counter::measure(|| (0..50).for_each(|_| turn()));
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
