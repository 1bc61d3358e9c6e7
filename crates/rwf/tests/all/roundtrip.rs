//! What is encoded decodes to the same, for values, lists and messages nobody wrote down.

use proptest::prelude::*;
use rwf::container::{ArrayEncoder, FieldSetDef};
use rwf::msg::*;
use rwf::wire::{LenForm, Writer};
use rwf::*;

/// A primitive that borrows nothing but constants.
fn primitive() -> impl Strategy<Value = Primitive<'static>> {
    prop_oneof![
        any::<i64>().prop_map(Primitive::Int),
        any::<i8>().prop_map(|v| Primitive::Int(v.into())),
        any::<u64>().prop_map(Primitive::UInt),
        any::<u8>().prop_map(|v| Primitive::UInt(v.into())),
        any::<u16>().prop_map(Primitive::Enum),
        (-1e30..1e30f32).prop_map(Primitive::Float),
        (-1e300..1e300f64).prop_map(Primitive::Double),
        (any::<i64>(), 0u8..=30).prop_map(|(m, h)| Primitive::Real(Real::new(m, RealHint(h)))),
        (any::<i16>(), 0u8..=30).prop_map(|(m, h)| Primitive::Real(Real::new(m.into(), RealHint(h)))),
        (33u8..=35).prop_map(|h| Primitive::Real(Real::new(0, RealHint(h)))),
        date().prop_map(Primitive::Date),
        time().prop_map(Primitive::Time),
        (date(), time()).prop_map(|(date, time)| Primitive::DateTime(DateTime { date, time })),
        qos().prop_map(Primitive::Qos),
        "[a-z]{1,9}".prop_map(|s| Primitive::Ascii(Box::leak(s.into_bytes().into_boxed_slice()))),
        Just(Primitive::Blank),
    ]
}

fn date() -> impl Strategy<Value = Date> {
    (1u16.., 0u8..=12, 0u8..=31).prop_map(|(y, m, d)| Date::new(y, m, d))
}

fn time() -> impl Strategy<Value = Time> {
    let sub = || prop_oneof![Just(0u16), 1u16..1000];
    (0u8..24, 0u8..60, 0u8..=60, sub(), sub(), sub()).prop_map(|(h, m, s, millisecond, microsecond, nanosecond)| Time {
        millisecond,
        microsecond,
        nanosecond,
        ..Time::new(h, m, s)
    })
}

fn qos() -> impl Strategy<Value = Qos> {
    (0u8..8, 0u8..16, any::<bool>(), any::<u16>(), any::<u16>()).prop_map(|(t, r, dynamic, time_info, rate_info)| Qos {
        timeliness: Timeliness(t),
        rate: Rate(r),
        dynamic,
        time_info: if t > 2 { time_info } else { 0 },
        rate_info: if r > 2 { rate_info } else { 0 },
    })
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..max)
}

fn written(len: usize, f: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; len];
    let mut w = Writer::new(&mut buf);
    f(&mut w).expect("enough room");
    w.written().to_vec()
}

proptest! {
    #[test]
    fn primitives(value in primitive()) {
        let data_type = value.data_type().unwrap_or(DataType::INT);
        let encoded = written(64, |w| value.encode(w));
        prop_assert_eq!(Primitive::decode(data_type, &encoded), Ok(value));
        if let Primitive::Int(v) = value {
            // Minimal: without its first byte it would be another number.
            prop_assert!(encoded.len() == 1 || primitive::int(&encoded[1..]) != Ok(v));
        }
    }

    #[test]
    fn set_forms(m in any::<i64>(), u in any::<u64>(), hint in 0u8..=30, date in date(), time in time()) {
        use DataType as T;
        let real = Primitive::Real(Real::new(m, RealHint(hint)));
        let cases = [
            (T::INT_1, Primitive::Int(m)), (T::INT_2, Primitive::Int(m)), (T::INT_4, Primitive::Int(m)),
            (T::INT_8, Primitive::Int(m)), (T::UINT_1, Primitive::UInt(u)), (T::UINT_2, Primitive::UInt(u)),
            (T::UINT_4, Primitive::UInt(u)), (T::UINT_8, Primitive::UInt(u)), (T::REAL_4RB, real), (T::REAL_8RB, real),
            (T::INT_1, Primitive::Int(m >> 57)), (T::INT_2, Primitive::Int(m >> 48)), (T::INT_4, Primitive::Int(m >> 33)),
            (T::REAL_4RB, Primitive::Real(Real::new(m >> 32, RealHint(hint)))),
            (T::REAL_8RB, Primitive::Real(Real::new(m >> 17, RealHint(hint)))),
            (T::DATE_4, Primitive::Date(date)), (T::TIME_3, Primitive::Time(time)), (T::TIME_5, Primitive::Time(time)),
            (T::TIME_7, Primitive::Time(time)), (T::TIME_8, Primitive::Time(time)),
            (T::DATETIME_7, Primitive::DateTime(DateTime { date, time })),
            (T::DATETIME_12, Primitive::DateTime(DateTime { date, time })),
            (T::DATE_4, Primitive::Blank), (T::TIME_5, Primitive::Blank), (T::DATETIME_9, Primitive::Blank),
            (T::REAL_4RB, Primitive::Blank), (T::INT_4, Primitive::Blank), (T::RMTES_STRING, Primitive::Blank),
        ];
        for (enc, value) in cases {
            // An entry between two that show where it ends.
            let entries = [(1, T::UINT_1), (2, enc), (3, T::UINT_2)];
            let mut def = Vec::new();
            let def = FieldSetDef::from_entries(&entries, &mut def);
            let mut sets = GlobalSets::new();
            sets.add_field_set(20, &entries);
            let mut buf = [0; 64];
            let mut w = Writer::new(&mut buf);
            let mut list = FieldListEncoder::begin(&mut w).unwrap();
            let done = list.set(Some(20), def, None, |set| {
                set.value(&Primitive::UInt(7))?;
                set.value(&value)?;
                set.value(&Primitive::UInt(0x0809))
            });
            if done.is_err() {
                prop_assert!(matches!(done, Err(EncodeError::Unrepresentable(_))), "{:?}", done);
                continue;
            }
            list.finish().unwrap();
            let list = FieldList::decode(w.written(), &SetScope::global(&sets)).unwrap();
            let values: Vec<_> = list.entries().map(|e| e.unwrap().value(T::UNKNOWN).unwrap()).collect();
            prop_assert_eq!(values, [Primitive::UInt(7), value, Primitive::UInt(0x0809)], "{}", enc);
        }
    }

    #[test]
    fn field_and_element_lists(values in prop::collection::vec((any::<i16>(), primitive()), 0..40)) {
        let encoded = written(4000, |w| {
            let mut list = FieldListEncoder::begin(w)?;
            values.iter().try_for_each(|(fid, value)| list.field(*fid, value))?;
            list.finish()
        });
        let list = FieldList::decode(&encoded, &SetScope::NONE).unwrap();
        prop_assert_eq!(list.len(), values.len());
        for (entry, (fid, value)) in list.entries().zip(&values) {
            let entry = entry.unwrap();
            prop_assert_eq!(entry.fid, *fid);
            prop_assert_eq!(entry.value(value.data_type().unwrap_or(DataType::REAL)), Ok(*value));
        }
        let encoded = written(4000, |w| {
            let mut list = ElementListEncoder::begin(w)?;
            values.iter().try_for_each(|(fid, value)| {
                let data_type = value.data_type().unwrap_or(DataType::UINT);
                list.element(fid.to_string().as_bytes(), data_type, value)
            })?;
            list.finish()
        });
        let list = ElementList::decode(&encoded, &SetScope::NONE).unwrap();
        for (entry, (fid, value)) in list.entries().zip(&values) {
            let entry = entry.unwrap();
            let name = fid.to_string();
            prop_assert_eq!(entry.name, name.as_bytes());
            prop_assert_eq!(entry.value(), Ok(*value));
        }
    }

    #[test]
    fn arrays(values in prop::collection::vec(any::<i32>(), 0..50), len in prop_oneof![Just(0u16), Just(4), Just(8)]) {
        let encoded = written(1000, |w| {
            let mut array = ArrayEncoder::begin(w, DataType::INT, len)?;
            values.iter().try_for_each(|v| array.item(&Primitive::Int((*v).into())))
        });
        let array = Array::decode(&encoded).unwrap();
        let decoded: Vec<_> = array.values().map(Result::unwrap).collect();
        let expected: Vec<_> = values.iter().map(|v| Primitive::Int((*v).into())).collect();
        prop_assert_eq!(decoded, expected);
    }

    /// A container in a buffer of any size is complete up to the last entry that fitted.
    #[test]
    fn a_full_buffer_holds_a_complete_map(room in 20usize..600, size in 0usize..300) {
        let mut buf = vec![0; room];
        let mut w = Writer::new(&mut buf);
        let head = MapHead { count_hint: Some(1000), ..MapHead::new(DataType::UINT, DataType::OPAQUE) };
        let mut map = MapEncoder::begin(&mut w, head).unwrap();
        map.summary(LenForm::Shortest, |w| w.bytes(b"sum")).unwrap();
        let mut fitted = 0;
        while map.entry(MapAction::ADD, &Primitive::UInt(fitted), |w| w.zeros(size)).is_ok() {
            fitted += 1;
        }
        prop_assert_eq!(map.len() as u64, fitted);
        map.finish().unwrap();
        let map = Map::decode(w.written(), &SetScope::NONE).unwrap();
        prop_assert_eq!(map.summary(), Some(&b"sum"[..]));
        let entries: Vec<_> = map.entries().map(Result::unwrap).collect();
        prop_assert_eq!(entries.len() as u64, fitted);
        for (i, entry) in entries.iter().enumerate() {
            prop_assert_eq!(entry.key_value(DataType::UINT), Ok(Primitive::UInt(i as u64)));
            prop_assert_eq!(entry.data.len(), size);
        }
    }

    #[test]
    fn messages(
        numbers in (any::<u8>(), any::<i32>(), any::<u32>(), any::<u16>(), 0u16..0x8000),
        qos in prop::option::of(qos()),
        texts in (prop::option::of(bytes(300)), prop::option::of(bytes(200)), bytes(256), bytes(400)),
        has in any::<[bool; 6]>(),
        flags in any::<u16>(),
    ) {
        let (domain, stream_id, number, service_id, part) = numbers;
        let (perm, ext, name, body) = &texts;
        let (perm_data, ext_header) = (perm.as_deref(), ext.as_deref());
        let if_has = |i: usize, v: u32| has[i].then_some(v);
        let key = MsgKey {
            service_id: has[0].then_some(service_id),
            name: Some(name),
            name_type: has[1].then_some(part as u8),
            filter: if_has(2, number),
            identifier: has[3].then_some(stream_id),
            attrib: has[4].then_some(Attrib::new(DataType::OPAQUE, body)),
            ..MsgKey::EMPTY
        };
        let state = State { text: name, ..State::OPEN_OK };
        let post_user_info = has[5].then_some(PostUserInfo { addr: number, id: 1 });
        let (domain, container) = (Domain(domain), DataType::OPAQUE);
        // All bits that do not follow from a member: they have to come back as they are.
        let kept = |derived: u16| flags & 0x7FFF & !derived;
        let all: [Msg<'_>; 8] = [
            RequestMsg {
                flags: RequestFlags(kept(0x0C3)), priority: has[0].then_some(Priority { class: 3, count: service_id }),
                qos, key, ext_header, container, body, ..RequestMsg::new(domain, stream_id)
            }.into(),
            RefreshMsg {
                flags: RefreshFlags(kept(0x189B)), seq_num: if_has(1, number), state, group_id: name, perm_data, qos,
                key: Some(key), ext_header, post_user_info, part_num: has[2].then_some(part), container, body,
                ..RefreshMsg::new(domain, stream_id)
            }.into(),
            StatusMsg {
                flags: StatusFlags(kept(0x13B)), state: has[0].then_some(state), group_id: has[1].then_some(name),
                perm_data, key: has[2].then_some(key), ext_header, post_user_info, container, body,
                ..StatusMsg::new(domain, stream_id)
            }.into(),
            UpdateMsg {
                flags: UpdateFlags(kept(0x23B)), update_type: UpdateType(part as u8), seq_num: if_has(0, number),
                conflation: has[1].then_some(Conflation { count: part, time: 1 }), perm_data, key: has[2].then_some(key),
                ext_header, post_user_info, container, body, ..UpdateMsg::new(domain, stream_id)
            }.into(),
            CloseMsg { flags: CloseFlags(kept(0x01)), ext_header, container, body, ..CloseMsg::new(domain, stream_id) }.into(),
            AckMsg {
                flags: AckFlags(kept(0x3B)), ack_id: number, nak_code: has[0].then_some(NakCode::NOT_OPEN),
                text: perm_data, seq_num: if_has(1, number), key: has[2].then_some(key), ext_header, container, body,
                ..AckMsg::new(domain, stream_id)
            }.into(),
            GenericMsg {
                flags: GenericFlags(kept(0x6F)), seq_num: if_has(0, number), secondary_seq_num: if_has(1, number),
                perm_data, key: has[2].then_some(key), ext_header, part_num: has[3].then_some(part), container, body,
                ..GenericMsg::new(domain, stream_id)
            }.into(),
            PostMsg {
                flags: PostFlags(kept(0x38F)), post_user_info: PostUserInfo { addr: number, id: 2 },
                seq_num: if_has(0, number), post_id: if_has(1, number), perm_data, key: has[2].then_some(key), ext_header,
                part_num: has[3].then_some(part), post_user_rights: has[4].then_some(part), container, body,
                ..PostMsg::new(domain, stream_id)
            }.into(),
        ];
        for mut msg in all {
            let encoded = written(4000, |w| msg.encode(w));
            prop_assert_eq!(Msg::decode(&encoded), Ok(msg.clone()));
            let mut moved = encoded.clone();
            prop_assert!(peek::set_stream_id(&mut moved, 77));
            msg.set_stream_id(77);
            prop_assert_eq!(Msg::decode(&moved), Ok(msg));
            // In a buffer that is too small by any number of bytes there is an error and no panic.
            let mut small = vec![0; encoded.len() - 1 - number as usize % encoded.len()];
            let mut w = Writer::new(&mut small);
            prop_assert_eq!(Msg::decode(&encoded).unwrap().encode(&mut w), Err(EncodeError::BufferFull));
        }
    }
}
