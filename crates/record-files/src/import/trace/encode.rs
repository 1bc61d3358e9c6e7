//! RWF messages of elements.

use super::tree::Element;
use record::MESSAGE_MAX;
use rwf::container::{ArrayEncoder, ElementListEncoder, FilterAction, FilterHead, FilterListEncoder};
use rwf::msg::{
    CloseMsg, Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusMsg, UpdateFlags, UpdateMsg,
    UpdateType,
};
use rwf::wire::{LenForm, Writer};
use rwf::{
    DataState, DataType, EncodeError, FieldListEncoder, MapAction, MapEncoder, MapHead, Primitive, State, StateCode,
    StreamState,
};

/// Bit of a list that has data of a set, whose values stand in another form than that of their type.
const HAS_SET_DATA: u32 = 0x02;

/// A message as it was; `None` of a class that is not read. `elements` counts those of lists that are left out.
///
/// # Errors
/// Why it cannot be made.
pub(super) fn message(root: &Element, elements: &mut u64) -> Result<Option<Vec<u8>>, String> {
    if !matches!(root.name.as_str(), "REQUEST" | "REFRESH" | "UPDATE" | "STATUS" | "CLOSE") {
        return Ok(None);
    }
    let domain = root.get("domainType").and_then(named(Domain::from_name)).map(|domain| domain.0);
    let domain = domain.or_else(|| root.number("domainType")).map(Domain).ok_or("it has no domain")?;
    let stream = root.number("streamId").ok_or("it has no stream")?;
    let (container, body) = body(root, elements)?;
    let key = root.child("key");
    let name = key.and_then(|key| key.get("name"));
    let key = key.map(|key| MsgKey {
        service_id: key.number("serviceId"),
        name: name.map(str::as_bytes),
        name_type: key.number("nameType"),
        filter: key.number("filter"),
        identifier: key.number("identifier"),
        ..MsgKey::EMPTY
    });
    let (state, text) = root.get("state").map_or(Ok((State::OPEN_OK, String::new())), |said| state(root, said))?;
    let state = State { text: text.as_bytes(), ..state };
    let (flags, seq_num) = (root.flags() as u16, root.number("seqNum"));
    let group = root.get("groupId").map(group).transpose()?.unwrap_or_default();
    let lock = root.get("permData").map(hex).transpose()?;
    let perm_data = lock.as_deref();
    let mut buffer = vec![0; MESSAGE_MAX];
    let mut w = Writer::new(&mut buffer);
    let written = match root.name.as_str() {
        "REQUEST" => {
            let kept = RequestFlags::STREAMING.with(RequestFlags::HAS_BATCH).with(RequestFlags::NO_REFRESH);
            let flags = RequestFlags(flags & kept.0);
            let key = key.unwrap_or(MsgKey::EMPTY);
            RequestMsg { flags, container, key, body: &body, ..RequestMsg::new(domain, stream) }.encode(&mut w)
        }
        "REFRESH" => {
            let kept = [
                RefreshFlags::SOLICITED,
                RefreshFlags::REFRESH_COMPLETE,
                RefreshFlags::CLEAR_CACHE,
                RefreshFlags::DO_NOT_CACHE,
            ];
            let flags = RefreshFlags(flags & kept.into_iter().fold(0, |all, flag| all | flag.0));
            let part_num = root.number("partNum");
            RefreshMsg {
                flags,
                container,
                seq_num,
                state,
                group_id: &group,
                perm_data,
                key,
                part_num,
                body: &body,
                ..RefreshMsg::new(domain, stream)
            }
            .encode(&mut w)
        }
        "UPDATE" => {
            let kept = [
                UpdateFlags::DO_NOT_CACHE,
                UpdateFlags::DO_NOT_CONFLATE,
                UpdateFlags::DO_NOT_RIPPLE,
                UpdateFlags::DISCARDABLE,
            ];
            let flags = UpdateFlags(flags & kept.into_iter().fold(0, |all, flag| all | flag.0));
            let update_type = UpdateType(root.number("updateType").unwrap_or(0));
            UpdateMsg {
                flags,
                container,
                update_type,
                seq_num,
                perm_data,
                key,
                body: &body,
                ..UpdateMsg::new(domain, stream)
            }
            .encode(&mut w)
        }
        "STATUS" => {
            let state = root.get("state").map(|_| state);
            let group_id = Some(group.as_slice()).filter(|_| root.get("groupId").is_some());
            StatusMsg { container, state, group_id, perm_data, key, body: &body, ..StatusMsg::new(domain, stream) }
                .encode(&mut w)
        }
        _ => CloseMsg { container, body: &body, ..CloseMsg::new(domain, stream) }.encode(&mut w),
    };
    written.map_err(|error| error.to_string())?;
    Ok(Some(w.written().to_vec()))
}

fn named<T>(from_name: impl Fn(&str) -> Option<T>) -> impl Fn(&str) -> Option<T> {
    from_name
}

/// A state of words: `Open/Ok/None`. A code whose words have no number here stands before the text.
fn state(root: &Element, said: &str) -> Result<(State<'static>, String), String> {
    let unknown = || format!("{said:?} is no state");
    let mut words = said.splitn(3, '/');
    let (stream, data, code) = (words.next(), words.next(), words.next().unwrap_or_default());
    let stream = match stream.ok_or_else(unknown)? {
        "Open" => StreamState::OPEN,
        "Non-streaming" => StreamState::NON_STREAMING,
        "Closed, Recoverable" => StreamState::CLOSED_RECOVER,
        "Closed" => StreamState::CLOSED,
        "Redirected" => StreamState::REDIRECTED,
        _ => return Err(unknown()),
    };
    let data = match data.ok_or_else(unknown)? {
        "Ok" => DataState::OK,
        "Suspect" => DataState::SUSPECT,
        "No Change" => DataState::NO_CHANGE,
        _ => return Err(unknown()),
    };
    let text = root.get("text").unwrap_or_default();
    let name = code.to_ascii_uppercase().replace([' ', '-'], "_");
    let (code, text) = match StateCode::from_name(&name) {
        Some(code) => (code, text.to_owned()),
        None if code.is_empty() => (StateCode::NONE, text.to_owned()),
        None => (StateCode::NONE, format!("{code}: {text}")),
    };
    Ok((State::new(stream, data, code, ""), text))
}

/// A group, as numbers of two bytes between dots.
fn group(text: &str) -> Result<Vec<u8>, String> {
    let numbers = text.split('.').filter(|number| !number.is_empty()).map(str::parse::<i16>);
    let numbers: Vec<i16> = numbers.collect::<Result<_, _>>().map_err(|_| format!("{text:?} is no group"))?;
    Ok(numbers.iter().flat_map(|number| number.to_be_bytes()).collect())
}

/// Bytes as they stand in a trace, `0C12 F9`, over several lines.
fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).map(|digit| digit as u8));
    let digits: Vec<u8> = digits.collect::<Option<_>>().ok_or("a value is no hexadecimal number")?;
    if !digits.len().is_multiple_of(2) {
        return Err("a value has half a byte".to_owned());
    }
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Type and bytes of what a message carries.
fn body(root: &Element, elements: &mut u64) -> Result<(DataType, Vec<u8>), String> {
    let said = root.get("containerType").unwrap_or("NO_DATA");
    let container = DataType::from_name(said).ok_or_else(|| format!("{said} is no container that is read"))?;
    if container == DataType::NO_DATA {
        return Ok((container, Vec::new()));
    }
    let inner = root.child("dataBody").and_then(|data| data.children.first());
    let inner = inner.ok_or("its content is not in the trace")?;
    Ok((container, bytes_of(inner, container, elements)?))
}

/// Bytes that an element takes at most: no value is longer than its text, but for what stands before it.
fn room(element: &Element) -> usize {
    let own: usize = element.attributes.iter().map(|(_, value)| value.len() + 16).sum();
    element.children.iter().fold(own + 32, |sum, child| sum + room(child))
}

/// The bytes of a container.
fn bytes_of(element: &Element, container: DataType, elements: &mut u64) -> Result<Vec<u8>, String> {
    let mut buffer = vec![0; room(element).min(MESSAGE_MAX)];
    let mut w = Writer::new(&mut buffer);
    match (container, element.name.as_str()) {
        (DataType::FIELD_LIST, "fieldList") => field_list(element, &mut w)?,
        (DataType::ELEMENT_LIST, "elementList") => element_list(element, &mut w, elements)?,
        (DataType::MAP, "map") => map(element, &mut w, elements)?,
        (DataType::FILTER_LIST, "filterList") => filter_list(element, &mut w, elements)?,
        (_, name) => return Err(format!("a {container} ({name}) is not read")),
    }
    Ok(w.written().to_vec())
}

fn unwritten(error: EncodeError) -> String {
    error.to_string()
}

fn field_list(element: &Element, w: &mut Writer<'_>) -> Result<(), String> {
    if element.flags() & HAS_SET_DATA != 0 {
        return Err("its fields are data of a set".to_owned());
    }
    let mut list = FieldListEncoder::begin(w).map_err(unwritten)?;
    for field in &element.children {
        let fid = field.number("fieldId").ok_or("a field has no number")?;
        // With a dictionary a trace has values, which do not tell all of what came.
        let data = field.get("data").filter(|_| field.get("dataType").is_none());
        list.raw(fid, &hex(data.ok_or("its fields are not told by their bytes")?)?).map_err(unwritten)?;
    }
    list.finish().map_err(unwritten)
}

/// A value of a type whose texts tell it whole.
fn primitive(text: &str, data_type: DataType) -> Option<Primitive<'_>> {
    Some(match data_type {
        DataType::INT => Primitive::Int(text.parse().ok()?),
        DataType::UINT => Primitive::UInt(text.parse().ok()?),
        DataType::ENUM => Primitive::Enum(text.parse().ok()?),
        DataType::ASCII_STRING => Primitive::Ascii(text.as_bytes()),
        DataType::UTF8_STRING => Primitive::Utf8(text.as_bytes()),
        DataType::RMTES_STRING if text.is_ascii() => Primitive::Rmtes(text.as_bytes()),
        _ => return None,
    })
}

fn element_list(element: &Element, w: &mut Writer<'_>, elements: &mut u64) -> Result<(), String> {
    let mut list = ElementListEncoder::begin(w).map_err(unwritten)?;
    for entry in &element.children {
        let name = entry.get("name").unwrap_or_default().as_bytes();
        let data_type = entry.get("dataType").and_then(DataType::from_name);
        let array = entry.child("array");
        let value = entry.get("data").zip(data_type).and_then(|(text, of)| primitive(text, of));
        match (data_type, value, array.and_then(items)) {
            (Some(data_type), Some(value), _) => list.element(name, data_type, &value).map_err(unwritten)?,
            (Some(DataType::ARRAY), _, Some((of, values))) => list
                .container(name, DataType::ARRAY, LenForm::Shortest, |w| {
                    let mut array = ArrayEncoder::begin(w, of, 0)?;
                    values.iter().try_for_each(|value| array.item(value))?;
                    array.finish();
                    Ok(())
                })
                .map_err(unwritten)?,
            _ => *elements += 1,
        }
    }
    list.finish().map_err(unwritten)
}

/// The values of an array, if their texts tell them.
fn items(array: &Element) -> Option<(DataType, Vec<Primitive<'_>>)> {
    let of = array.get("primitiveType").and_then(DataType::from_name)?;
    let values = array.children.iter().map(|item| primitive(item.get("data")?, of));
    Some((of, values.collect::<Option<_>>()?))
}

fn map(element: &Element, w: &mut Writer<'_>, elements: &mut u64) -> Result<(), String> {
    let of = |name: &str| element.get(name).and_then(DataType::from_name);
    let (key_type, container) =
        of("keyPrimitiveType").zip(of("containerType")).ok_or("a map does not tell its types")?;
    let head = MapHead {
        key_field_id: element.number("keyFieldId"),
        count_hint: element.number("countHint").filter(|hint| *hint > 0),
        ..MapHead::new(key_type, container)
    };
    let mut map = MapEncoder::begin(w, head).map_err(unwritten)?;
    for child in &element.children {
        match child.name.as_str() {
            "summaryData" => {
                let inner = child.children.first().ok_or("a map's summary is empty")?;
                let bytes = bytes_of(inner, container, elements)?;
                map.summary(LenForm::Shortest, |w| w.bytes(&bytes)).map_err(unwritten)?;
            }
            "mapEntry" => {
                let action = child.get("action").and_then(MapAction::from_name).ok_or("a map's entry has no action")?;
                let text = child.get("key").unwrap_or_default();
                let buffer = if key_type == DataType::BUFFER { hex(text)? } else { Vec::new() };
                let key = match key_type {
                    DataType::BUFFER => Some(Primitive::Buffer(&buffer)),
                    _ => primitive(text, key_type),
                };
                let key = key.ok_or_else(|| format!("keys of the type {key_type} are not read"))?;
                let bytes = match child.children.first() {
                    Some(inner) if action != MapAction::DELETE => bytes_of(inner, container, elements)?,
                    _ => Vec::new(),
                };
                map.entry(action, &key, |w| w.bytes(&bytes)).map_err(unwritten)?;
            }
            name => return Err(format!("{name} of a map is not read")),
        }
    }
    map.finish().map_err(unwritten)
}

fn filter_list(element: &Element, w: &mut Writer<'_>, elements: &mut u64) -> Result<(), String> {
    let container = element.get("containerType").and_then(DataType::from_name).ok_or("a filter list has no type")?;
    let head =
        FilterHead { count_hint: element.number("countHint").filter(|hint| *hint > 0), ..FilterHead::new(container) };
    let mut list = FilterListEncoder::begin(w, head).map_err(unwritten)?;
    for entry in &element.children {
        let id = entry.number("id").ok_or("a filter has no number")?;
        let action = entry.get("action").and_then(FilterAction::from_name).ok_or("a filter has no action")?;
        let own = entry.get("containerType").and_then(DataType::from_name);
        let bytes = match entry.children.first() {
            Some(inner) if action != FilterAction::CLEAR => bytes_of(inner, own.unwrap_or(container), elements)?,
            _ => Vec::new(),
        };
        let own = own.filter(|own| *own != container);
        list.entry_with(id, action, own, None, LenForm::Shortest, |w| w.bytes(&bytes)).map_err(unwritten)?;
    }
    list.finish();
    Ok(())
}
