//! From bytes to the description that a case has of them.

use super::case::{FidTypes, hex};
use rwf::container::sets;
use rwf::msg::{Msg, MsgKey};
use rwf::{
    Array, DataType, DecodeError, ElementList, FieldList, FilterList, Map, Primitive, Qos, Rate, Series, SetScope,
    State, Timeliness, Vector,
};
use serde_json::{Value, json};

/// Describes a value of any type; containers with all that is inside.
pub(crate) fn describe(
    data_type: DataType,
    data: &[u8],
    scope: &SetScope<'_>,
    fids: &FidTypes,
) -> Result<Value, DecodeError> {
    if data_type.is_container() {
        return container(data_type, data, scope, fids);
    }
    let mut node = primitive(&Primitive::decode(data_type, data)?)?;
    node["t"] = data_type.base().to_string().into();
    Ok(node)
}

fn container(data_type: DataType, data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    let mut node = match data_type {
        DataType::NO_DATA => json!({}),
        _ if data.is_empty() => json!({ "empty": true }),
        DataType::FIELD_LIST => field_list(data, scope, fids)?,
        DataType::ELEMENT_LIST => element_list(data, scope, fids)?,
        DataType::FILTER_LIST => filter_list(data, scope, fids)?,
        DataType::VECTOR => vector(data, scope, fids)?,
        DataType::MAP => map(data, scope, fids)?,
        DataType::SERIES => series(data, scope, fids)?,
        DataType::MSG => message(data, scope, fids)?,
        DataType::OPAQUE | DataType::XML | DataType::ANSI_PAGE | DataType::JSON => json!({ "hex": hex(data) }),
        other => panic!("no decoder for {other}"),
    };
    node["t"] = data_type.to_string().into();
    Ok(node)
}

/// A primitive without its type.
fn primitive(value: &Primitive<'_>) -> Result<Value, DecodeError> {
    Ok(match value {
        Primitive::Blank => json!({ "blank": true }),
        Primitive::Int(v) => json!({ "v": v.to_string() }),
        Primitive::UInt(v) => json!({ "v": v.to_string() }),
        Primitive::Enum(v) => json!({ "v": v.to_string() }),
        Primitive::Float(v) => json!({ "bits": format!("{:08x}", v.to_bits()) }),
        Primitive::Double(v) => json!({ "bits": format!("{:016x}", v.to_bits()) }),
        Primitive::Real(v) => {
            let mut node = json!({ "hint": v.hint.to_string(), "hint_code": v.hint.0 });
            if !v.hint.is_special() {
                node["m"] = v.mantissa.to_string().into();
            }
            node
        }
        Primitive::Date(d) => json!({ "y": d.year, "mo": d.month, "d": d.day }),
        Primitive::Time(t) => time(*t),
        Primitive::DateTime(both) => {
            let mut node = time(both.time);
            node["y"] = both.date.year.into();
            node["mo"] = both.date.month.into();
            node["d"] = both.date.day.into();
            node
        }
        Primitive::Qos(v) => qos(*v),
        Primitive::State(v) => state(v),
        Primitive::Array(v) => array(v)?,
        Primitive::Buffer(b) | Primitive::Ascii(b) | Primitive::Utf8(b) | Primitive::Rmtes(b) => {
            json!({ "hex": hex(b) })
        }
    })
}

fn time(t: rwf::Time) -> Value {
    json!({
        "h": t.hour, "mi": t.minute, "s": t.second,
        "ms": t.millisecond, "us": t.microsecond, "ns": t.nanosecond,
    })
}

fn qos(qos: Qos) -> Value {
    let mut node = json!({ "timeliness": qos.timeliness.0, "rate": qos.rate.0, "dynamic": qos.dynamic });
    if qos.timeliness == Timeliness::DELAYED {
        node["time_info"] = qos.time_info.into();
    }
    if qos.rate == Rate::TIME_CONFLATED {
        node["rate_info"] = qos.rate_info.into();
    }
    node
}

fn state(state: &State<'_>) -> Value {
    let mut node = json!({ "stream": state.stream.0, "data": state.data.0, "code": state.code.0 });
    if !state.text.is_empty() {
        node["text_hex"] = hex(state.text).into();
    }
    node
}

fn array(array: &Array<'_>) -> Result<Value, DecodeError> {
    let items: Result<Vec<_>, _> = array.values().map(|item| primitive(&item?)).collect();
    let items = items?;
    assert_eq!(items.len(), array.len());
    Ok(json!({ "item_type": array.item_type.to_string(), "item_len": array.item_len, "items": items }))
}

fn field_list(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    let list = FieldList::decode(data, scope)?;
    assert!(!list.is_set_skipped(), "set {:?} is not defined", list.set_id);
    let (mut set, mut standard) = (Vec::new(), Vec::new());
    let mut entries = list.entries();
    loop {
        let part = if entries.in_set() { &mut set } else { &mut standard };
        let Some(entry) = entries.next() else { break };
        let entry = entry?;
        let data_type = entry.resolve(fids.of(entry.fid));
        part.push(json!({ "fid": entry.fid, "value": describe(data_type, entry.data, scope, fids)? }));
    }
    assert_eq!(set.len() + standard.len(), list.len());
    let mut node = json!({});
    if let Some(info) = list.info {
        node["info"] = json!({ "dict_id": info.dict_id, "num": info.num });
    }
    parts(&mut node, list.set_id, list.set_data().map(|_| set), list.has_standard_data().then_some(standard));
    Ok(node)
}

fn element_list(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    let list = ElementList::decode(data, scope)?;
    assert!(!list.is_set_skipped(), "set {:?} is not defined", list.set_id);
    let (mut set, mut standard) = (Vec::new(), Vec::new());
    let mut entries = list.entries();
    loop {
        let part = if entries.in_set() { &mut set } else { &mut standard };
        let Some(entry) = entries.next() else { break };
        let entry = entry?;
        let value = describe(entry.data_type, entry.data, scope, fids)?;
        part.push(json!({ "name_hex": hex(entry.name), "value": value }));
    }
    assert_eq!(standard.len(), list.standard_len());
    let mut node = json!({});
    if let Some(info) = list.info {
        node["info"] = json!({ "num": info.num });
    }
    parts(&mut node, list.set_id, list.set_data().map(|_| set), list.has_standard_data().then_some(standard));
    Ok(node)
}

fn parts(node: &mut Value, set_id: Option<u16>, set: Option<Vec<Value>>, standard: Option<Vec<Value>>) {
    if let Some(id) = set_id {
        node["set_id"] = id.into();
    }
    if let Some(set) = set {
        node["set"] = set.into();
    }
    if let Some(standard) = standard {
        node["std"] = standard.into();
    }
}

fn filter_list(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    let list = FilterList::decode(data)?;
    let mut entries = Vec::new();
    for entry in list.entries() {
        let entry = entry?;
        let mut node = json!({ "id": entry.id, "action": entry.action.to_string() });
        if let Some(own) = entry.own_container {
            node["container"] = own.to_string().into();
        }
        perm(&mut node, entry.perm_data);
        if entry.action != rwf::FilterAction::CLEAR && entry.container != DataType::NO_DATA {
            node["data"] = container(entry.container, entry.data, scope, fids)?;
        }
        entries.push(node);
    }
    assert_eq!(entries.len(), list.len());
    let mut node = json!({ "container": list.container.to_string(), "entries": entries });
    if let Some(hint) = list.count_hint {
        node["count_hint"] = hint.into();
    }
    if list.per_entry_perm {
        node["per_entry_perm"] = true.into();
    }
    Ok(node)
}

fn perm(node: &mut Value, perm: Option<&[u8]>) {
    if let Some(perm) = perm {
        node["perm"] = hex(perm).into();
    }
}

/// What vectors, maps and series have in common.
struct Shared<'a> {
    container: DataType,
    count_hint: Option<u32>,
    set_defs: Option<&'a [u8]>,
    summary: Option<&'a [u8]>,
    scope: SetScope<'a>,
}

impl Shared<'_> {
    fn describe(self, entries: &[Value], fids: &FidTypes) -> Result<Value, DecodeError> {
        let mut node = json!({ "container": self.container.to_string(), "entries": entries });
        if let Some(hint) = self.count_hint {
            node["count_hint"] = hint.into();
        }
        if let Some(block) = self.set_defs {
            node["set_defs"] = set_defs(block, self.container)?;
        }
        if let Some(summary) = self.summary {
            node["summary"] = container(self.container, summary, &self.scope, fids)?;
        }
        Ok(node)
    }
}

fn set_defs(block: &[u8], container: DataType) -> Result<Value, DecodeError> {
    if container != DataType::ELEMENT_LIST
        && let Ok(defs) = sets::field_sets(block)
    {
        let entry = |(fid, enc): (i16, DataType)| json!({ "fid": fid, "enc": enc.to_string() });
        let def = |(id, def): (u16, sets::FieldSetDef<'_>)| json!({ "id": id, "entries": def.entries().map(entry).collect::<Vec<_>>() });
        return Ok(json!({ "kind": "FIELD_LIST", "defs": defs.into_iter().map(def).collect::<Vec<_>>() }));
    }
    let entry = |(name, enc): (&[u8], DataType)| json!({ "name_hex": hex(name), "enc": enc.to_string() });
    let def = |(id, def): (u16, sets::ElementSetDef<'_>)| json!({ "id": id, "entries": def.entries().map(entry).collect::<Vec<_>>() });
    let defs: Vec<_> = sets::element_sets(block)?.into_iter().map(def).collect();
    Ok(json!({ "kind": "ELEMENT_LIST", "defs": defs }))
}

fn vector(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    use rwf::VectorAction as Action;
    let list = Vector::decode(data, scope)?;
    let mut entries = Vec::new();
    for entry in list.entries() {
        let entry = entry?;
        let mut node = json!({ "index": entry.index.to_string(), "action": entry.action.to_string() });
        perm(&mut node, entry.perm_data);
        if !matches!(entry.action, Action::CLEAR | Action::DELETE) && list.container != DataType::NO_DATA {
            node["data"] = container(list.container, entry.data, &list.scope(), fids)?;
        }
        entries.push(node);
    }
    assert_eq!(entries.len(), list.len());
    let shared = Shared {
        container: list.container,
        count_hint: list.count_hint(),
        set_defs: list.set_defs(),
        summary: list.summary(),
        scope: list.scope(),
    };
    let mut node = shared.describe(&entries, fids)?;
    if list.sortable {
        node["sortable"] = true.into();
    }
    if list.per_entry_perm {
        node["per_entry_perm"] = true.into();
    }
    Ok(node)
}

fn map(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    let list = Map::decode(data, scope)?;
    let mut entries = Vec::new();
    for entry in list.entries() {
        let entry = entry?;
        let key = primitive(&entry.key_value(list.key_type)?)?;
        let mut node = json!({ "action": entry.action.to_string(), "key": key });
        perm(&mut node, entry.perm_data);
        if entry.action != rwf::MapAction::DELETE && list.container != DataType::NO_DATA {
            node["data"] = container(list.container, entry.data, &list.scope(), fids)?;
        }
        entries.push(node);
    }
    assert_eq!(entries.len(), list.len());
    let shared = Shared {
        container: list.container,
        count_hint: list.count_hint(),
        set_defs: list.set_defs(),
        summary: list.summary(),
        scope: list.scope(),
    };
    let mut node = shared.describe(&entries, fids)?;
    node["key_type"] = list.key_type.to_string().into();
    if let Some(fid) = list.key_field_id {
        node["key_field_id"] = fid.into();
    }
    if list.per_entry_perm {
        node["per_entry_perm"] = true.into();
    }
    Ok(node)
}

fn series(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    let list = Series::decode(data, scope)?;
    let mut entries = Vec::new();
    for entry in list.entries() {
        let entry = entry?;
        entries.push(match list.container {
            DataType::NO_DATA => json!({}),
            other => json!({ "data": container(other, entry, &list.scope(), fids)? }),
        });
    }
    assert_eq!(entries.len(), list.len());
    let shared = Shared {
        container: list.container,
        count_hint: list.count_hint(),
        set_defs: list.set_defs(),
        summary: list.summary(),
        scope: list.scope(),
    };
    shared.describe(&entries, fids)
}

fn flag_names<F: Copy>(flags: u16, names: &[(F, &'static str)], bits: impl Fn(F) -> u16) -> Vec<String> {
    let mut left = flags;
    let mut out = Vec::new();
    for &(flag, name) in names {
        if flags & bits(flag) != 0 {
            out.push(name.to_owned());
            left &= !bits(flag);
        }
    }
    let unnamed = (0..16).map(|bit| 1 << bit).filter(|bit| left & bit != 0);
    out.extend(unnamed.map(|bit: u16| format!("0x{bit:x}")));
    out
}

fn message(data: &[u8], scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    use rwf::msg;
    let msg = Msg::decode(data)?;
    let flags = msg.wire_flags();
    let names = match msg {
        Msg::Request(_) => flag_names(flags, msg::RequestFlags::NAMES, |f| f.0),
        Msg::Refresh(_) => flag_names(flags, msg::RefreshFlags::NAMES, |f| f.0),
        Msg::Status(_) => flag_names(flags, msg::StatusFlags::NAMES, |f| f.0),
        Msg::Update(_) => flag_names(flags, msg::UpdateFlags::NAMES, |f| f.0),
        Msg::Close(_) => flag_names(flags, msg::CloseFlags::NAMES, |f| f.0),
        Msg::Ack(_) => flag_names(flags, msg::AckFlags::NAMES, |f| f.0),
        Msg::Generic(_) => flag_names(flags, msg::GenericFlags::NAMES, |f| f.0),
        Msg::Post(_) => flag_names(flags, msg::PostFlags::NAMES, |f| f.0),
    };
    let mut node = json!({
        "class": msg.class().to_string(),
        "domain": msg.domain().0,
        "stream_id": msg.stream_id(),
        "container": msg.container().to_string(),
        "flags": names,
        "flags_code": flags,
    });
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            node[name] = value;
        }
    };
    put("key", msg.key().map(|k| key(k, scope, fids)).transpose()?);
    put("ext_hdr", msg.ext_header().map(|b| hex(b).into()));
    put("state", msg.state().map(state));
    put("perm", msg.perm_data().map(|b| hex(b).into()));
    put("seq_num", msg.seq_num().map(Into::into));
    let user = |u: &msg::PostUserInfo| json!({ "addr": u.addr.to_string(), "id": u.id.to_string() });
    match &msg {
        Msg::Request(m) => {
            put("priority", m.priority.map(|p| json!({ "class": p.class, "count": p.count })));
            put("qos", m.qos.map(qos));
            put("worst_qos", m.worst_qos.map(qos));
        }
        Msg::Refresh(m) => {
            put("group_id", Some(hex(m.group_id).into()));
            put("qos", m.qos.map(qos));
            put("post_user_info", m.post_user_info.as_ref().map(user));
            put("part_num", m.part_num.map(Into::into));
        }
        Msg::Status(m) => {
            put("group_id", m.group_id.map(|b| hex(b).into()));
            put("post_user_info", m.post_user_info.as_ref().map(user));
        }
        Msg::Update(m) => {
            put("update_type", Some(m.update_type.0.into()));
            put("conf", m.conflation.map(|c| json!({ "count": c.count, "time": c.time })));
            put("post_user_info", m.post_user_info.as_ref().map(user));
        }
        Msg::Close(_) => {}
        Msg::Ack(m) => {
            put("ack_id", Some(m.ack_id.into()));
            put("nak_code", m.nak_code.map(|c| c.0.into()));
            put("text_hex", m.text.map(|b| hex(b).into()));
        }
        Msg::Generic(m) => {
            put("secondary_seq_num", m.secondary_seq_num.map(Into::into));
            put("part_num", m.part_num.map(Into::into));
        }
        Msg::Post(m) => {
            put("post_user_info", Some(user(&m.post_user_info)));
            put("post_id", m.post_id.map(Into::into));
            put("part_num", m.part_num.map(Into::into));
            put("post_user_rights", m.post_user_rights.map(Into::into));
        }
    }
    if !msg.body().is_empty() {
        node["body"] = container(msg.container(), msg.body(), scope, fids)?;
    }
    Ok(node)
}

fn key(key: &MsgKey<'_>, scope: &SetScope<'_>, fids: &FidTypes) -> Result<Value, DecodeError> {
    let mut node = json!({});
    if let Some(id) = key.service_id {
        node["service_id"] = id.into();
    }
    if let Some(name) = key.name {
        node["name_hex"] = hex(name).into();
    }
    if let Some(name_type) = key.name_type {
        node["name_type"] = name_type.into();
    }
    if let Some(filter) = key.filter {
        node["filter"] = filter.to_string().into();
    }
    if let Some(identifier) = key.identifier {
        node["identifier"] = identifier.into();
    }
    if let Some(attrib) = &key.attrib {
        node["attrib"] = container(attrib.container, attrib.data, scope, fids)?;
    }
    Ok(node)
}
