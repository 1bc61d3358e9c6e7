//! From decoded structs straight to the encoders: what comes out is the canonical form of what went in.

use super::case::FidTypes;
use rwf::container::sets::{element_sets, field_sets};
use rwf::container::{ArrayEncoder, SetDefsEncoder, SetEncoder};
use rwf::msg::{Msg, MsgKey};
use rwf::wire::{LenForm, Writer};
use rwf::{
    Array, DataType, ElementList, ElementListEncoder, EncodeError, FieldList, FieldListEncoder, FilterHead, FilterList,
    FilterListEncoder, Map, MapEncoder, MapHead, Primitive, Series, SeriesEncoder, SetScope, Vector, VectorEncoder,
    VectorHead,
};

type Encoded = Result<(), EncodeError>;

const SHORT: LenForm = LenForm::Shortest;

/// Decodes `data` and writes it again, entry by entry.
pub(crate) fn transcode(
    data_type: DataType,
    data: &[u8],
    scope: &SetScope<'_>,
    fids: &FidTypes,
    w: &mut Writer<'_>,
) -> Encoded {
    match data_type {
        DataType::ARRAY if !data.is_empty() => array(&Array::decode(data).expect("array"), w),
        _ if !data_type.is_container() => Primitive::decode(data_type, data).expect("primitive").encode(w),
        _ if data.is_empty() => Ok(()),
        DataType::FIELD_LIST => field_list(data, scope, fids, w),
        DataType::ELEMENT_LIST => element_list(data, scope, fids, w),
        DataType::FILTER_LIST => filter_list(data, scope, fids, w),
        DataType::VECTOR => vector(data, scope, fids, w),
        DataType::MAP => map(data, scope, fids, w),
        DataType::SERIES => series(data, scope, fids, w),
        DataType::MSG => message(data, scope, fids, w),
        _ => w.bytes(data),
    }
}

/// As [`transcode`], to bytes of their own.
pub(crate) fn transcoded(data_type: DataType, data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Vec<u8> {
    let mut buf = vec![0; 2 * data.len() + 64];
    let mut w = Writer::new(&mut buf);
    transcode(data_type, data, scope, fids, &mut w).expect("decoded structs can be encoded");
    w.written().to_vec()
}

fn array(array: &Array<'_>, w: &mut Writer<'_>) -> Encoded {
    let mut out = ArrayEncoder::begin(w, array.item_type, array.item_len)?;
    array.values().try_for_each(|value| out.item(&value.expect("item")))
}

fn is_in_place(data_type: DataType, data: &[u8]) -> bool {
    data_type.is_container() || (data_type == DataType::ARRAY && !data.is_empty())
}

/// The next value of a set.
fn set_value(
    set: &mut SetEncoder<'_, '_, '_>,
    enc: DataType,
    data: &[u8],
    scope: &SetScope<'_>,
    fids: &FidTypes,
) -> Encoded {
    if is_in_place(enc, data) {
        set.container(SHORT, |w| transcode(enc, data, scope, fids, w))
    } else {
        set.value(&Primitive::decode(enc, data).expect("set data"))
    }
}

fn field_list(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes, w: &mut Writer<'_>) -> Encoded {
    let list = FieldList::decode(data, scope).expect("field list");
    let mut out = FieldListEncoder::begin(w)?;
    list.info.map_or(Ok(()), |info| out.info(info))?;
    let mut entries = list.entries();
    if list.set_data().is_some() {
        let then = list.has_standard_data().then_some(SHORT);
        out.set(list.set_id, list.set_def().expect("definition"), then, |set| {
            while entries.in_set() {
                let entry = entries.next().expect("entry").expect("entry of the set");
                set_value(set, entry.enc, entry.data, scope, fids)?;
            }
            Ok(())
        })?;
    }
    if list.has_standard_data() {
        out.begin_standard()?;
    }
    for entry in entries {
        let entry = entry.expect("field");
        let data_type = fids.of(entry.fid);
        if is_in_place(data_type, entry.data) {
            out.container(entry.fid, SHORT, |w| transcode(data_type, entry.data, scope, fids, w))?;
        } else {
            out.field(entry.fid, &entry.value(data_type).expect("value"))?;
        }
    }
    out.finish_bare();
    Ok(())
}

fn element_list(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes, w: &mut Writer<'_>) -> Encoded {
    let list = ElementList::decode(data, scope).expect("element list");
    let mut out = ElementListEncoder::begin(w)?;
    list.info.map_or(Ok(()), |info| out.info(info))?;
    let mut entries = list.entries();
    if list.set_data().is_some() {
        let then = list.has_standard_data().then_some(SHORT);
        out.set(list.set_id, list.set_def().expect("definition"), then, |set| {
            while entries.in_set() {
                let entry = entries.next().expect("entry").expect("entry of the set");
                set_value(set, entry.data_type, entry.data, scope, fids)?;
            }
            Ok(())
        })?;
    }
    if list.has_standard_data() {
        out.begin_standard()?;
    }
    for entry in entries {
        let entry = entry.expect("element");
        if is_in_place(entry.data_type, entry.data) {
            let body = |w: &mut Writer<'_>| transcode(entry.data_type, entry.data, scope, fids, w);
            out.container(entry.name, entry.data_type, SHORT, body)?;
        } else {
            out.element(entry.name, entry.data_type, &entry.value().expect("value"))?;
        }
    }
    out.finish_bare();
    Ok(())
}

fn filter_list(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes, w: &mut Writer<'_>) -> Encoded {
    let list = FilterList::decode(data).expect("filter list");
    let FilterList { container, per_entry_perm, count_hint, .. } = list;
    let mut out = FilterListEncoder::begin(w, FilterHead { container, count_hint, per_entry_perm })?;
    for entry in list.entries() {
        let entry = entry.expect("filter entry");
        let body = |w: &mut Writer<'_>| transcode(entry.container, entry.data, scope, fids, w);
        out.entry_with(entry.id, entry.action, entry.own_container, entry.perm_data, SHORT, body)?;
    }
    out.finish();
    Ok(())
}

fn set_defs(container: DataType, block: &[u8], w: &mut SetDefsEncoder<'_, '_>) -> Encoded {
    if container != DataType::ELEMENT_LIST
        && let Ok(defs) = field_sets(block)
    {
        return defs.iter().try_for_each(|(id, def)| w.field_set(*id, &def.entries().collect::<Vec<_>>()));
    }
    let defs = element_sets(block).expect("set definitions");
    defs.iter().try_for_each(|(id, def)| w.element_set(*id, &def.entries().collect::<Vec<_>>()))
}

fn vector(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes, w: &mut Writer<'_>) -> Encoded {
    let list = Vector::decode(data, scope).expect("vector");
    let Vector { container, sortable, per_entry_perm, .. } = list;
    let head = VectorHead { container, sortable, count_hint: list.count_hint(), per_entry_perm };
    let (inner, mut out) = (list.scope(), VectorEncoder::begin(w, head)?);
    list.set_defs().map_or(Ok(()), |block| out.set_defs(SHORT, |w| set_defs(container, block, w)))?;
    let summary = |summary| out.summary(SHORT, |w| transcode(container, summary, &inner, fids, w));
    list.summary().map_or(Ok(()), summary)?;
    for entry in list.entries() {
        let entry = entry.expect("vector entry");
        let body = |w: &mut Writer<'_>| transcode(container, entry.data, &inner, fids, w);
        out.entry_with(entry.action, entry.index, entry.perm_data, SHORT, body)?;
    }
    out.finish()
}

fn map(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes, w: &mut Writer<'_>) -> Encoded {
    let list = Map::decode(data, scope).expect("map");
    let Map { key_type, container, key_field_id, per_entry_perm, .. } = list;
    let head = MapHead { key_type, container, key_field_id, count_hint: list.count_hint(), per_entry_perm };
    let (inner, mut out) = (list.scope(), MapEncoder::begin(w, head)?);
    list.set_defs().map_or(Ok(()), |block| out.set_defs(SHORT, |w| set_defs(container, block, w)))?;
    let summary = |summary| out.summary(SHORT, |w| transcode(container, summary, &inner, fids, w));
    list.summary().map_or(Ok(()), summary)?;
    for entry in list.entries() {
        let entry = entry.expect("map entry");
        let key = entry.key_value(key_type).expect("key");
        let body = |w: &mut Writer<'_>| transcode(container, entry.data, &inner, fids, w);
        out.entry_with(entry.action, &key, entry.perm_data, SHORT, body)?;
    }
    out.finish()
}

fn series(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes, w: &mut Writer<'_>) -> Encoded {
    let list = Series::decode(data, scope).expect("series");
    let container = list.container;
    let (inner, mut out) = (list.scope(), SeriesEncoder::begin(w, container, list.count_hint())?);
    list.set_defs().map_or(Ok(()), |block| out.set_defs(SHORT, |w| set_defs(container, block, w)))?;
    let summary = |summary| out.summary(SHORT, |w| transcode(container, summary, &inner, fids, w));
    list.summary().map_or(Ok(()), summary)?;
    for entry in list.entries() {
        let entry = entry.expect("series entry");
        out.entry(|w| transcode(container, entry, &inner, fids, w))?;
    }
    out.finish()
}

fn message(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes, w: &mut Writer<'_>) -> Encoded {
    let mut msg = Msg::decode(data).expect("message");
    let attrib = msg.key().and_then(|key| key.attrib);
    let bytes = attrib.map(|a| transcoded(a.container, a.data, scope, fids)).unwrap_or_default();
    fn with_attrib<'b>(key: &mut MsgKey<'b>, data: &'b [u8]) {
        if let Some(attrib) = &mut key.attrib {
            attrib.data = data;
        }
    }
    match &mut msg {
        Msg::Request(m) => with_attrib(&mut m.key, &bytes),
        Msg::Refresh(m) => m.key.iter_mut().for_each(|key| with_attrib(key, &bytes)),
        Msg::Status(m) => m.key.iter_mut().for_each(|key| with_attrib(key, &bytes)),
        Msg::Update(m) => m.key.iter_mut().for_each(|key| with_attrib(key, &bytes)),
        Msg::Close(_) => {}
        Msg::Ack(m) => m.key.iter_mut().for_each(|key| with_attrib(key, &bytes)),
        Msg::Generic(m) => m.key.iter_mut().for_each(|key| with_attrib(key, &bytes)),
        Msg::Post(m) => m.key.iter_mut().for_each(|key| with_attrib(key, &bytes)),
    }
    msg.encode_header(w)?;
    transcode(msg.container(), msg.body(), scope, fids, w)
}
