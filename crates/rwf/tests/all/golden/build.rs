//! From the description of a case to its bytes, by the encoders.

use super::case::{bytes_of, element_defs, field_defs, number, text, type_of, unhex};
use rwf::container::{
    ArrayEncoder, ElementListInfo, ElementSetDef, FieldListInfo, FieldSetDef, SetDefsEncoder, SetEncoder,
};
use rwf::msg::{self, Attrib, Domain, Msg, MsgKey, PostUserInfo};
use rwf::wire::{LenForm, Writer};
use rwf::{
    DataType, Date, DateTime, ElementListEncoder, EncodeError, FieldListEncoder, FilterAction, FilterHead,
    FilterListEncoder, MapAction, MapEncoder, MapHead, Primitive, Qos, Rate, Real, RealHint, SeriesEncoder, State,
    Time, Timeliness, VectorAction, VectorEncoder, VectorHead,
};
use serde_json::Value;

type Encoded = Result<(), EncodeError>;

/// The set definitions that hold where a description is: outer ones first.
#[derive(Clone)]
pub(crate) struct Scope<'a> {
    defs: Vec<&'a Value>,
    global_fields: Option<&'a Value>,
    global_elements: Option<&'a Value>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(case: &'a serde_json::Map<String, Value>) -> Self {
        Self {
            defs: Vec::new(),
            global_fields: case.get("global_field_sets"),
            global_elements: case.get("global_element_sets"),
        }
    }

    fn enter(&self, node: &'a Value) -> Self {
        let mut inner = self.clone();
        inner.defs.extend(node.get("set_defs"));
        inner
    }

    /// The entries of set `id`: of the nearest block of the kind, or of the set dictionary.
    fn set(&self, kind: &str, id: u16) -> &'a Value {
        let global = if kind == "FIELD_LIST" { self.global_fields } else { self.global_elements };
        let nearest = self.defs.iter().rev().find(|d| d["kind"] == kind).map(|d| &d["defs"]);
        let defs = if id > 15 { global } else { nearest };
        let defs = defs.and_then(Value::as_array).expect("set definitions");
        &defs.iter().find(|d| d["id"] == id).expect("definition of the set")["entries"]
    }
}

fn form(node: &Value, member: &str) -> LenForm {
    match node.get(member).map(text) {
        None => LenForm::Shortest,
        Some("long") => LenForm::Long,
        Some(other) => panic!("unknown length form {other}"),
    }
}

fn entries<'v>(node: &'v Value, member: &str) -> &'v [Value] {
    node.get(member).and_then(Value::as_array).expect("entries")
}

/// Writes what a description says.
pub(crate) fn build(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    if node.get("empty").is_some() {
        return Ok(());
    }
    match type_of(&node["t"]) {
        DataType::NO_DATA => Ok(()),
        DataType::FIELD_LIST => field_list(node, scope, w),
        DataType::ELEMENT_LIST => element_list(node, scope, w),
        DataType::FILTER_LIST => filter_list(node, scope, w),
        DataType::VECTOR => vector(node, scope, w),
        DataType::MAP => map(node, scope, w),
        DataType::SERIES => series(node, scope, w),
        DataType::MSG => message(node, scope, w),
        DataType::ARRAY if node.get("blank").is_none() => array(node, w),
        other if other.is_container() => w.bytes(&unhex(text(&node["hex"]))),
        other => primitive(other, node, |value| value.encode(w)),
    }
}

/// Hands the primitive of a description to `f`.
fn primitive<T>(data_type: DataType, node: &Value, f: impl FnOnce(&Primitive<'_>) -> T) -> T {
    if node.get("blank").is_some() {
        return f(&Primitive::Blank);
    }
    let bits = |node: &Value| u64::from_str_radix(text(&node["bits"]), 16).expect("bits");
    let bytes = node.get("hex").map(|v| unhex(text(v))).unwrap_or_default();
    let state_text = bytes_of(node, "text").unwrap_or_default();
    f(&match data_type {
        DataType::INT => Primitive::Int(number(&node["v"])),
        DataType::UINT => Primitive::UInt(number(&node["v"])),
        DataType::ENUM => Primitive::Enum(number(&node["v"])),
        DataType::FLOAT => Primitive::Float(f32::from_bits(bits(node) as u32)),
        DataType::DOUBLE => Primitive::Double(f64::from_bits(bits(node))),
        DataType::REAL => {
            let mantissa = node.get("m").map_or(0, number);
            Primitive::Real(Real::new(mantissa, RealHint(number(&node["hint_code"]))))
        }
        DataType::DATE => Primitive::Date(date(node)),
        DataType::TIME => Primitive::Time(time(node)),
        DataType::DATETIME => Primitive::DateTime(DateTime { date: date(node), time: time(node) }),
        DataType::QOS => Primitive::Qos(qos(node)),
        DataType::STATE => Primitive::State(state(node, &state_text)),
        DataType::BUFFER => Primitive::Buffer(&bytes),
        DataType::ASCII_STRING => Primitive::Ascii(&bytes),
        DataType::UTF8_STRING => Primitive::Utf8(&bytes),
        DataType::RMTES_STRING => Primitive::Rmtes(&bytes),
        other => panic!("no primitive: {other}"),
    })
}

fn date(node: &Value) -> Date {
    Date::new(number(&node["y"]), number(&node["mo"]), number(&node["d"]))
}

fn time(node: &Value) -> Time {
    Time {
        millisecond: number(&node["ms"]),
        microsecond: number(&node["us"]),
        nanosecond: number(&node["ns"]),
        ..Time::new(number(&node["h"]), number(&node["mi"]), number(&node["s"]))
    }
}

fn qos(node: &Value) -> Qos {
    Qos {
        timeliness: Timeliness(number(&node["timeliness"])),
        rate: Rate(number(&node["rate"])),
        dynamic: node["dynamic"] == true,
        time_info: node.get("time_info").map_or(0, number),
        rate_info: node.get("rate_info").map_or(0, number),
    }
}

fn state<'t>(node: &Value, text: &'t [u8]) -> State<'t> {
    State {
        stream: rwf::StreamState(number(&node["stream"])),
        data: rwf::DataState(number(&node["data"])),
        code: rwf::StateCode(number(&node["code"])),
        text,
    }
}

fn array(node: &Value, w: &mut Writer<'_>) -> Encoded {
    let item_type = type_of(&node["item_type"]);
    let mut array = ArrayEncoder::begin(w, item_type, number(&node["item_len"]))?;
    for item in entries(node, "items") {
        primitive(item_type, item, |value| array.item(value))?;
    }
    array.finish();
    Ok(())
}

/// True if the value is written by a body of its own, not as a primitive.
fn in_place(data_type: DataType, value: &Value) -> bool {
    data_type.is_container() || (data_type == DataType::ARRAY && value.get("blank").is_none())
}

fn set_values(set: &mut SetEncoder<'_, '_, '_>, values: &[Value], scope: &Scope<'_>) -> Encoded {
    for entry in values {
        let (value, data_type) = (&entry["value"], type_of(&entry["value"]["t"]));
        if in_place(data_type, value) {
            set.container(form(entry, "len_form"), |w| build(value, scope, w))?;
        } else {
            primitive(data_type, value, |v| set.value(v))?;
        }
    }
    Ok(())
}

fn field_list(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    let mut list = FieldListEncoder::begin(w)?;
    if let Some(info) = node.get("info") {
        list.info(FieldListInfo { dict_id: number(&info["dict_id"]), num: number(&info["num"]) })?;
    }
    if let Some(values) = node.get("set").and_then(Value::as_array) {
        let id = node.get("set_id").map(number);
        let mut buf = Vec::new();
        let def = FieldSetDef::from_entries(&field_defs(scope.set("FIELD_LIST", id.unwrap_or(0))), &mut buf);
        let then = node.get("std").map(|_| form(node, "set_len_form"));
        list.set(id, def, then, |set| set_values(set, values, scope))?;
    }
    let Some(standard) = node.get("std").and_then(Value::as_array) else {
        list.finish_bare();
        return Ok(());
    };
    list.begin_standard()?;
    for entry in standard {
        let (fid, value) = (number(&entry["fid"]), &entry["value"]);
        let data_type = type_of(&value["t"]);
        if in_place(data_type, value) || entry.get("len_form").is_some() {
            list.container(fid, form(entry, "len_form"), |w| build(value, scope, w))?;
        } else {
            primitive(data_type, value, |v| list.field(fid, v))?;
        }
    }
    list.finish()
}

fn element_list(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    let mut list = ElementListEncoder::begin(w)?;
    if let Some(info) = node.get("info") {
        list.info(ElementListInfo { num: number(&info["num"]) })?;
    }
    if let Some(values) = node.get("set").and_then(Value::as_array) {
        let id = node.get("set_id").map(number);
        let defs = element_defs(scope.set("ELEMENT_LIST", id.unwrap_or(0)));
        let defs: Vec<_> = defs.iter().map(|(name, enc)| (name.as_slice(), *enc)).collect();
        let mut buf = Vec::new();
        let def = ElementSetDef::from_entries(&defs, &mut buf);
        let then = node.get("std").map(|_| form(node, "set_len_form"));
        list.set(id, def, then, |set| set_values(set, values, scope))?;
    }
    let Some(standard) = node.get("std").and_then(Value::as_array) else {
        list.finish_bare();
        return Ok(());
    };
    list.begin_standard()?;
    for entry in standard {
        let (name, value) = (bytes_of(entry, "name").expect("name"), &entry["value"]);
        let data_type = type_of(&value["t"]);
        if in_place(data_type, value) || entry.get("len_form").is_some() {
            list.container(&name, data_type, form(entry, "len_form"), |w| build(value, scope, w))?;
        } else {
            primitive(data_type, value, |v| list.element(&name, data_type, v))?;
        }
    }
    list.finish()
}

fn perm_of(entry: &Value) -> Option<Vec<u8>> {
    entry.get("perm").map(|v| unhex(text(v)))
}

/// Writes the data of an entry.
fn data<'v>(entry: &'v Value, scope: &'v Scope<'_>) -> impl FnOnce(&mut Writer<'_>) -> Encoded + 'v {
    |w| build(&entry["data"], scope, w)
}

fn filter_list(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    let head = FilterHead {
        container: type_of(&node["container"]),
        count_hint: node.get("count_hint").map(number),
        per_entry_perm: node.get("per_entry_perm").is_some(),
    };
    let mut list = FilterListEncoder::begin(w, head)?;
    for entry in entries(node, "entries") {
        let action = FilterAction::from_name(text(&entry["action"])).expect("action");
        let own = entry.get("container").map(type_of);
        let (perm, form) = (perm_of(entry), form(entry, "len_form"));
        list.entry_with(number(&entry["id"]), action, own, perm.as_deref(), form, data(entry, scope))?;
    }
    list.finish();
    Ok(())
}

fn set_defs(defs: &Value, w: &mut SetDefsEncoder<'_, '_>) -> Encoded {
    for def in entries(defs, "defs") {
        let id = number(&def["id"]);
        if defs["kind"] == "FIELD_LIST" {
            w.field_set(id, &field_defs(&def["entries"]))?;
        } else {
            let entries = element_defs(&def["entries"]);
            let entries: Vec<_> = entries.iter().map(|(name, enc)| (name.as_slice(), *enc)).collect();
            w.element_set(id, &entries)?;
        }
    }
    Ok(())
}

fn vector(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    let scope = &scope.enter(node);
    let head = VectorHead {
        container: type_of(&node["container"]),
        sortable: node.get("sortable").is_some(),
        count_hint: node.get("count_hint").map(number),
        per_entry_perm: node.get("per_entry_perm").is_some(),
    };
    let mut list = VectorEncoder::begin(w, head)?;
    if let Some(defs) = node.get("set_defs") {
        list.set_defs(form(defs, "len_form"), |w| set_defs(defs, w))?;
    }
    if let Some(summary) = node.get("summary") {
        list.summary(form(node, "summary_len_form"), |w| build(summary, scope, w))?;
    }
    for entry in entries(node, "entries") {
        let action = VectorAction::from_name(text(&entry["action"])).expect("action");
        let (perm, form) = (perm_of(entry), form(entry, "len_form"));
        list.entry_with(action, number(&entry["index"]), perm.as_deref(), form, data(entry, scope))?;
    }
    list.finish()
}

fn map(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    let scope = &scope.enter(node);
    let key_type = type_of(&node["key_type"]);
    let head = MapHead {
        key_type,
        container: type_of(&node["container"]),
        key_field_id: node.get("key_field_id").map(number),
        count_hint: node.get("count_hint").map(number),
        per_entry_perm: node.get("per_entry_perm").is_some(),
    };
    let mut list = MapEncoder::begin(w, head)?;
    if let Some(defs) = node.get("set_defs") {
        list.set_defs(form(defs, "len_form"), |w| set_defs(defs, w))?;
    }
    if let Some(summary) = node.get("summary") {
        list.summary(form(node, "summary_len_form"), |w| build(summary, scope, w))?;
    }
    for entry in entries(node, "entries") {
        let action = MapAction::from_name(text(&entry["action"])).expect("action");
        let (perm, form) = (perm_of(entry), form(entry, "len_form"));
        primitive(key_type, &entry["key"], |key| {
            list.entry_with(action, key, perm.as_deref(), form, data(entry, scope))
        })?;
    }
    list.finish()
}

fn series(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    let scope = &scope.enter(node);
    let mut list = SeriesEncoder::begin(w, type_of(&node["container"]), node.get("count_hint").map(number))?;
    if let Some(defs) = node.get("set_defs") {
        list.set_defs(form(defs, "len_form"), |w| set_defs(defs, w))?;
    }
    if let Some(summary) = node.get("summary") {
        list.summary(form(node, "summary_len_form"), |w| build(summary, scope, w))?;
    }
    for entry in entries(node, "entries") {
        list.entry_with(form(entry, "len_form"), data(entry, scope))?;
    }
    list.finish()
}

/// The bytes that belong to a message description, kept while the message borrows them.
struct Owned {
    body: Vec<u8>,
    attrib: Option<(DataType, Vec<u8>, LenForm)>,
    name: Option<Vec<u8>>,
    ext_header: Option<Vec<u8>>,
    perm: Option<Vec<u8>>,
    group_id: Option<Vec<u8>>,
    text: Option<Vec<u8>>,
    state_text: Vec<u8>,
}

/// The bytes of a description of any size.
pub(crate) fn built(node: &Value, scope: &Scope<'_>) -> Vec<u8> {
    let mut buf = vec![0; 200_000];
    let mut w = Writer::new(&mut buf);
    build(node, scope, &mut w).expect("description can be encoded");
    w.written().to_vec()
}

fn message(node: &Value, scope: &Scope<'_>, w: &mut Writer<'_>) -> Encoded {
    let bytes = |member: &str| node.get(member).map(|v| unhex(text(v)));
    let key = node.get("key");
    let attrib = |attrib: &Value| {
        let form = form(key.expect("key"), "attrib_len_form");
        (type_of(&attrib["t"]), built(attrib, scope), form)
    };
    let owned = Owned {
        body: node.get("body").map(|body| built(body, scope)).unwrap_or_default(),
        attrib: key.and_then(|key| key.get("attrib")).map(attrib),
        name: key.and_then(|key| bytes_of(key, "name")),
        ext_header: bytes("ext_hdr"),
        perm: bytes("perm"),
        group_id: bytes("group_id"),
        text: bytes_of(node, "text"),
        state_text: node.get("state").and_then(|s| bytes_of(s, "text")).unwrap_or_default(),
    };
    let key = key.map(|key| MsgKey {
        service_id: key.get("service_id").map(number),
        name: owned.name.as_deref(),
        name_type: key.get("name_type").map(number),
        filter: key.get("filter").map(number),
        identifier: key.get("identifier").map(number),
        attrib: owned.attrib.as_ref().map(|(container, data, len_form)| Attrib {
            container: *container,
            data,
            len_form: *len_form,
        }),
        ..MsgKey::EMPTY
    });
    let domain = Domain(number(&node["domain"]));
    let stream_id = number(&node["stream_id"]);
    let msg = members(node, &owned, key, domain, stream_id);
    assert_eq!(msg.wire_flags(), number::<u16>(&node["flags_code"]), "flags that follow from the members");
    msg.encode(w)
}

fn members<'o>(node: &Value, owned: &'o Owned, key: Option<MsgKey<'o>>, domain: Domain, stream_id: i32) -> Msg<'o> {
    let flags: u16 = number(&node["flags_code"]);
    let container = type_of(&node["container"]);
    let ext_header = owned.ext_header.as_deref();
    let perm_data = owned.perm.as_deref();
    let body = &owned.body[..];
    let seq_num = node.get("seq_num").map(number);
    let part_num = node.get("part_num").map(number);
    let state = node.get("state").map(|s| state(s, &owned.state_text));
    let post_user_info =
        node.get("post_user_info").map(|u| PostUserInfo { addr: number(&u["addr"]), id: number(&u["id"]) });
    match text(&node["class"]) {
        "REQUEST" => Msg::Request(msg::RequestMsg {
            domain,
            stream_id,
            container,
            flags: msg::RequestFlags(flags),
            priority: node
                .get("priority")
                .map(|p| msg::Priority { class: number(&p["class"]), count: number(&p["count"]) }),
            qos: node.get("qos").map(qos),
            worst_qos: node.get("worst_qos").map(qos),
            key: key.expect("a request has a key"),
            ext_header,
            body,
        }),
        "REFRESH" => Msg::Refresh(msg::RefreshMsg {
            domain,
            stream_id,
            container,
            flags: msg::RefreshFlags(flags),
            seq_num,
            state: state.expect("a refresh has a state"),
            group_id: owned.group_id.as_deref().unwrap_or_default(),
            perm_data,
            qos: node.get("qos").map(qos),
            key,
            ext_header,
            post_user_info,
            part_num,
            body,
        }),
        "STATUS" => Msg::Status(msg::StatusMsg {
            domain,
            stream_id,
            container,
            flags: msg::StatusFlags(flags),
            state,
            group_id: owned.group_id.as_deref(),
            perm_data,
            key,
            ext_header,
            post_user_info,
            body,
        }),
        "UPDATE" => Msg::Update(msg::UpdateMsg {
            domain,
            stream_id,
            container,
            flags: msg::UpdateFlags(flags),
            update_type: msg::UpdateType(number(&node["update_type"])),
            seq_num,
            conflation: node
                .get("conf")
                .map(|c| msg::Conflation { count: number(&c["count"]), time: number(&c["time"]) }),
            perm_data,
            key,
            ext_header,
            post_user_info,
            body,
        }),
        "CLOSE" => {
            Msg::Close(msg::CloseMsg { domain, stream_id, container, flags: msg::CloseFlags(flags), ext_header, body })
        }
        "ACK" => Msg::Ack(msg::AckMsg {
            domain,
            stream_id,
            container,
            flags: msg::AckFlags(flags),
            ack_id: number(&node["ack_id"]),
            nak_code: node.get("nak_code").map(|c| msg::NakCode(number(c))),
            text: owned.text.as_deref(),
            seq_num,
            key,
            ext_header,
            body,
        }),
        "GENERIC" => Msg::Generic(msg::GenericMsg {
            domain,
            stream_id,
            container,
            flags: msg::GenericFlags(flags),
            seq_num,
            secondary_seq_num: node.get("secondary_seq_num").map(number),
            perm_data,
            key,
            ext_header,
            part_num,
            body,
        }),
        "POST" => Msg::Post(msg::PostMsg {
            domain,
            stream_id,
            container,
            flags: msg::PostFlags(flags),
            post_user_info: post_user_info.expect("a post has a user"),
            seq_num,
            post_id: node.get("post_id").map(number),
            perm_data,
            key,
            ext_header,
            part_num,
            post_user_rights: node.get("post_user_rights").map(number),
            body,
        }),
        other => panic!("unknown class {other}"),
    }
}
