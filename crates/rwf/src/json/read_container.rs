//! JSON as containers and values.

use super::names::{Named, member_container};
use super::parse::Node;
use super::read_members::{Encoded, JsonReader};
use super::{ErrorKind, number};
use crate::container::{
    Array, ArrayEncoder, ElementListEncoder, FieldListEncoder, FilterAction, FilterHead, FilterListEncoder, MapAction,
    MapEncoder, MapHead, SeriesEncoder, VectorAction, VectorEncoder, VectorHead,
};
use crate::dictionary::{EnumTable, FieldDef};
use crate::wire::{LenForm, Writer};
use crate::{DataType, Primitive, Real, RealHint};

const FORM: LenForm = LenForm::Shortest;

/// The RMTES sequence that says that the rest is UTF-8.
const RMTES_UTF8: &[u8] = b"\x1B%0";

/// What the members of a map, vector, series or filter list say besides their own.
#[derive(Default)]
struct Head<'n> {
    summary: Option<(DataType, &'n Node<'n>)>,
    count_hint: Option<u32>,
    entries: &'n [Node<'n>],
}

impl Head<'_> {
    /// The type of the summary and of all entries: nothing says it but their members.
    fn container(&self) -> DataType {
        let of_entry = |entry: &Node<'_>| match entry {
            Node::Object(members) => members.iter().find_map(|(name, _)| member_container(name)),
            _ => None,
        };
        let summary = self.summary.map(|(container, _)| container);
        summary.or_else(|| self.entries.iter().find_map(of_entry)).unwrap_or(DataType::NO_DATA)
    }

    fn has_perm_data(&self) -> bool {
        self.entries.iter().any(|entry| entry.get("PermData").is_some_and(|data| !matches!(data, Node::Null)))
    }
}

impl JsonReader<'_> {
    /// Writes a container.
    pub(super) fn container(&self, container: DataType, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        if matches!(node, Node::Null) {
            return Ok(());
        }
        match container {
            DataType::FIELD_LIST => self.field_list(node, w),
            DataType::ELEMENT_LIST => self.element_list(node, w),
            DataType::FILTER_LIST => self.filter_list(node, w),
            DataType::MAP => self.map(node, w),
            DataType::VECTOR => self.vector(node, w),
            DataType::SERIES => self.series(node, w),
            DataType::MSG => self.message_within(node, w),
            DataType::OPAQUE => w.bytes(&self.base64("Opaque", node)?),
            DataType::JSON => {
                let mut text = String::new();
                node.write(&mut text);
                w.bytes(text.as_bytes())
            }
            DataType::XML => w.bytes(self.text("Xml", node)?.as_bytes()),
            DataType::ANSI_PAGE => w.bytes(self.text("AnsiPage", node)?.as_bytes()),
            _ => Err(self.wrong_kind("container", "of a known type", node)),
        }
    }

    fn field_list(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut list = FieldListEncoder::begin(w)?;
        self.object("Fields", node, |name, node| {
            let dictionary = self.converter.dictionary;
            let by_number = name.parse::<i16>().ok();
            match by_number.map_or_else(|| dictionary.field_named(name), |fid| dictionary.field(fid)) {
                Some(def) => self.field(def, node, &mut list),
                None if self.converter.settings.unknown_fields => {
                    Err(self.fail(ErrorKind::UnknownField, format!("{name:?} is not a known field")))
                }
                None => match (by_number, node) {
                    // The bytes of a field without a definition, as this converter writes them.
                    (Some(fid), Node::Text(_)) => list.raw(fid, &self.base64(name, node)?),
                    _ => Ok(()),
                },
            }
        })?;
        list.finish()
    }

    pub(super) fn field(&self, def: &FieldDef, node: &Node<'_>, list: &mut FieldListEncoder<'_, '_>) -> Encoded {
        let data_type = def.data_type();
        if data_type.is_container() {
            return list.container(def.fid(), FORM, |w| self.container(data_type, node, w));
        }
        let displays = self.converter.settings.enum_displays;
        let table = if displays { self.converter.dictionary.enum_table(def) } else { None };
        let mut buf = Vec::new();
        let value = self.value(def.acronym(), data_type, node, table, &mut buf)?;
        list.field(def.fid(), &value)
    }

    fn element_list(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut list = ElementListEncoder::begin(w)?;
        self.object("Elements", node, |name, node| match node {
            Node::Text(text) => list.ascii(name.as_bytes(), text.as_bytes()),
            Node::Number(_) => list.uint(name.as_bytes(), self.number(name, node)?),
            Node::Object(_) => self.typed_element(name, node, &mut list),
            _ => Err(self.wrong_kind(name, "text, a number or an object with Type and Data", node)),
        })?;
        list.finish()
    }

    fn typed_element(&self, name: &str, node: &Node<'_>, list: &mut ElementListEncoder<'_, '_>) -> Encoded {
        let data_type = self.data_type(node.get("Type").ok_or_else(|| self.missing("Type"))?)?;
        let data = node.get("Data").ok_or_else(|| self.missing("Data"))?;
        if data_type.is_container() {
            return list.container(name.as_bytes(), data_type, FORM, |w| self.container(data_type, data, w));
        }
        let mut buf = Vec::new();
        let value = self.value(name, data_type, data, None, &mut buf)?;
        list.element(name.as_bytes(), data_type, &value)
    }

    /// A type by its name; those of set definitions count as their base.
    fn data_type(&self, node: &Node<'_>) -> Encoded<DataType> {
        let name = self.text("Type", node)?;
        DataType::from_json_name(name).map(DataType::base).ok_or_else(|| self.unexpected("Type", name))
    }

    fn head<'n>(
        &self,
        name: &str,
        node: &'n Node<'n>,
        mut own: impl FnMut(&str, &'n Node<'n>) -> Encoded<bool>,
    ) -> Encoded<Head<'n>> {
        let mut head = Head::default();
        self.header(name, node, |name, node| {
            match (name, node) {
                ("Summary", Node::Object(members)) => {
                    let container = members.iter().find_map(|(name, node)| Some((member_container(name)?, node)));
                    head.summary = container;
                }
                ("Summary", _) => return Err(self.wrong_kind(name, "an object", node)),
                ("CountHint", _) => head.count_hint = Some(self.number(name, node)?),
                ("Entries", Node::Array(entries)) => head.entries = entries,
                ("Entries", _) => return Err(self.wrong_kind(name, "an array", node)),
                _ if own(name, node)? => {}
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        Ok(head)
    }

    fn map(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut key_type = None;
        let mut key_field_id = None;
        let head = self.head("Map", node, |name, node| {
            match name {
                "KeyType" => key_type = Some(self.data_type(node)?),
                "KeyFieldID" => key_field_id = Some(self.number(name, node)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let container = head.container();
        let key_type = key_type.ok_or_else(|| self.missing("KeyType"))?;
        if !key_type.is_primitive() {
            return Err(self.unexpected("KeyType", &key_type.to_string()));
        }
        let map_head = MapHead {
            key_field_id,
            count_hint: head.count_hint,
            per_entry_perm: head.has_perm_data(),
            ..MapHead::new(key_type, container)
        };
        let mut map = MapEncoder::begin(w, map_head)?;
        if let Some((_, summary)) = head.summary {
            map.summary(FORM, |w| self.container(container, summary, w))?;
        }
        for entry in head.entries {
            let mut action = None;
            let mut key = None;
            let parts = self.entry(entry, container, |name, node| {
                match name {
                    "Action" => action = Some(self.named(name, node, MapAction)?),
                    "Key" => key = Some(node),
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            let action = action.ok_or_else(|| self.missing("Action"))?;
            let mut buf = Vec::new();
            let key = self.value("Key", key_type, key.ok_or_else(|| self.missing("Key"))?, None, &mut buf)?;
            map.entry_with(action, &key, parts.perm_data.as_deref(), FORM, |w| parts.write(self, container, w))?;
        }
        map.finish()
    }

    fn vector(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut sortable = false;
        let head = self.head("Vector", node, |name, node| {
            if name == "SupportSorting" {
                sortable = self.bool(name, node)?;
            }
            Ok(name == "SupportSorting")
        })?;
        let container = head.container();
        let vector_head = VectorHead {
            sortable,
            count_hint: head.count_hint,
            per_entry_perm: head.has_perm_data(),
            ..VectorHead::new(container)
        };
        let mut vector = VectorEncoder::begin(w, vector_head)?;
        if let Some((_, summary)) = head.summary {
            vector.summary(FORM, |w| self.container(container, summary, w))?;
        }
        for entry in head.entries {
            let mut action = None;
            let mut index = None;
            let parts = self.entry(entry, container, |name, node| {
                match name {
                    "Action" => action = Some(self.named(name, node, VectorAction)?),
                    "Index" => index = Some(self.number(name, node)?),
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            let action = action.ok_or_else(|| self.missing("Action"))?;
            let index = index.ok_or_else(|| self.missing("Index"))?;
            vector.entry_with(action, index, parts.perm_data.as_deref(), FORM, |w| parts.write(self, container, w))?;
        }
        vector.finish()
    }

    fn series(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let head = self.head("Series", node, |_, _| Ok(false))?;
        let container = head.container();
        let mut series = SeriesEncoder::begin(w, container, head.count_hint)?;
        if let Some((_, summary)) = head.summary {
            series.summary(FORM, |w| self.container(container, summary, w))?;
        }
        for entry in head.entries {
            let parts = self.entry(entry, container, |_, _| Ok(false))?;
            series.entry(|w| parts.write(self, container, w))?;
        }
        series.finish()
    }

    fn filter_list(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let head = self.head("FilterList", node, |_, _| Ok(false))?;
        let common = match head.container() {
            DataType::NO_DATA => DataType::ELEMENT_LIST,
            container => container,
        };
        let count_hint = head.count_hint.map(u8::try_from).transpose();
        let count_hint = count_hint.map_err(|_| self.unexpected("CountHint", "over 255"))?;
        let filter_head = FilterHead { count_hint, per_entry_perm: head.has_perm_data(), ..FilterHead::new(common) };
        let mut list = FilterListEncoder::begin(w, filter_head)?;
        for entry in head.entries {
            let mut action = None;
            let mut id = None;
            let parts = self.entry(entry, DataType::UNKNOWN, |name, node| {
                match name {
                    "Action" => action = Some(self.named(name, node, FilterAction)?),
                    "ID" => id = Some(self.number(name, node)?),
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            let action = action.ok_or_else(|| self.missing("Action"))?;
            let id = id.ok_or_else(|| self.missing("ID"))?;
            let container = parts.data.map_or(common, |(container, _)| container);
            let own = (container != common).then_some(container);
            list.entry_with(id, action, own, parts.perm_data.as_deref(), FORM, |w| parts.write(self, container, w))?;
        }
        list.finish();
        Ok(())
    }

    /// An entry's members but for those that `own` takes. `container` is what it may hold, unknown for anything.
    fn entry<'n>(
        &self,
        node: &'n Node<'n>,
        container: DataType,
        mut own: impl FnMut(&str, &'n Node<'n>) -> Encoded<bool>,
    ) -> Encoded<EntryParts<'n>> {
        let mut parts = EntryParts { perm_data: None, data: None };
        self.object("entry", node, |name, node| {
            if own(name, node)? {
                return Ok(());
            }
            match member_container(name) {
                _ if name == "PermData" && matches!(node, Node::Null) => {}
                _ if name == "PermData" => parts.perm_data = Some(self.base64(name, node)?),
                None => self.unknown(name)?,
                Some(found) if found == container || container == DataType::UNKNOWN => parts.data = Some((found, node)),
                Some(_) => {
                    let text = format!("an entry holds {name}, but others or the summary do not");
                    return Err(self.fail(ErrorKind::UnexpectedValue, text));
                }
            }
            Ok(())
        })?;
        Ok(parts)
    }

    /// A value of a primitive type; `null` is a blank. `buf` holds what has to be converted.
    fn value<'n>(
        &self,
        name: &str,
        data_type: DataType,
        node: &'n Node<'n>,
        table: Option<&EnumTable>,
        buf: &'n mut Vec<u8>,
    ) -> Encoded<Primitive<'n>> {
        if matches!(node, Node::Null) {
            return Ok(Primitive::Blank);
        }
        let in_text = |node: &'n Node<'n>| self.text(name, node);
        Ok(match data_type {
            DataType::INT => Primitive::Int(self.number(name, node)?),
            DataType::UINT => Primitive::UInt(self.number(name, node)?),
            DataType::FLOAT => Primitive::Float(self.float(name, node)? as f32),
            DataType::DOUBLE => Primitive::Double(self.float(name, node)?),
            DataType::REAL => Primitive::Real(self.real(name, node)?),
            DataType::DATE => number::parse_date(in_text(node)?)
                .map(|date| if date.is_blank() { Primitive::Blank } else { Primitive::Date(date) })
                .ok_or_else(|| self.invalid(name, node))?,
            DataType::TIME => number::parse_time(in_text(node)?)
                .map(|time| if time.is_blank() { Primitive::Blank } else { Primitive::Time(time) })
                .ok_or_else(|| self.invalid(name, node))?,
            DataType::DATETIME => number::parse_date_time(in_text(node)?)
                .map(|both| if both.is_blank() { Primitive::Blank } else { Primitive::DateTime(both) })
                .ok_or_else(|| self.invalid(name, node))?,
            DataType::QOS => Primitive::Qos(self.qos(name, node)?),
            DataType::STATE => {
                let state = self.state(name, node)?;
                buf.extend_from_slice(&state.text);
                Primitive::State(crate::State { text: buf, ..state.as_state() })
            }
            DataType::ENUM => self.enumeration(name, node, table)?,
            DataType::ARRAY => {
                *buf = self.array(name, node)?;
                if buf.is_empty() {
                    Primitive::Blank
                } else {
                    Primitive::Array(Array::decode(buf).map_err(|_| self.invalid(name, node))?)
                }
            }
            DataType::BUFFER => {
                *buf = self.base64(name, node)?;
                Primitive::Buffer(buf)
            }
            DataType::ASCII_STRING => Primitive::Ascii(in_text(node)?.as_bytes()),
            DataType::UTF8_STRING => Primitive::Utf8(in_text(node)?.as_bytes()),
            DataType::RMTES_STRING => {
                let text = in_text(node)?.as_bytes();
                // In front of an edit the mark would be written over the beginning of what the receiver holds.
                if text.is_ascii() || crate::rmtes::is_partial(text) {
                    return Ok(Primitive::Rmtes(text));
                }
                buf.extend_from_slice(RMTES_UTF8);
                buf.extend_from_slice(text);
                Primitive::Rmtes(buf)
            }
            _ => return Err(self.unexpected(name, &format!("of type {data_type}"))),
        })
    }

    fn invalid(&self, name: &str, node: &Node<'_>) -> crate::EncodeError {
        let mut text = String::new();
        node.write(&mut text);
        self.fail(ErrorKind::UnexpectedValue, format!("{name} cannot be {text}"))
    }

    /// A number, or one of the three texts that stand for what JSON has no number for.
    fn float(&self, name: &str, node: &Node<'_>) -> Encoded<f64> {
        match node {
            Node::Text(text) => special(text).map(|(value, _)| value).ok_or_else(|| self.unexpected(name, text)),
            _ => self.number(name, node),
        }
    }

    fn real(&self, name: &str, node: &Node<'_>) -> Encoded<Real> {
        match node {
            Node::Text(text) => special(text).map(|(_, real)| real).ok_or_else(|| self.unexpected(name, text)),
            Node::Number(text) => number::parse_real(text).ok_or_else(|| self.unexpected(name, text)),
            _ => Err(self.wrong_kind(name, "a number", node)),
        }
    }

    /// A number, or the display of one. A display that is not known, or not allowed, is a blank.
    fn enumeration(&self, name: &str, node: &Node<'_>, table: Option<&EnumTable>) -> Encoded<Primitive<'static>> {
        match node {
            Node::Text(text) => {
                let known = table.and_then(|table| {
                    let shown =
                        |entry: &&crate::dictionary::EnumValue| crate::rmtes::to_utf8(entry.display()) == text.as_ref();
                    table.values().iter().find(shown)
                });
                Ok(known.map_or(Primitive::Blank, |entry| Primitive::Enum(entry.value())))
            }
            _ => self.number(name, node).map(Primitive::Enum),
        }
    }

    /// The bytes of an array; none if it is blank.
    fn array(&self, name: &str, node: &Node<'_>) -> Encoded<Vec<u8>> {
        let mut item_type = None;
        let mut item_len = 0;
        let mut items: &[Node<'_>] = &[];
        self.object(name, node, |member, node| {
            match (member, node) {
                ("Type", _) => item_type = Some(self.data_type(node)?),
                ("Length", _) => item_len = self.number(member, node)?,
                ("Data", Node::Array(nodes)) => items = nodes,
                ("Data", Node::Null) => {}
                ("Data", _) => return Err(self.wrong_kind(name, "an array", node)),
                _ => self.unknown(member)?,
            }
            Ok(())
        })?;
        let item_type = item_type.ok_or_else(|| self.missing("Type"))?;
        self.part(node, |w| {
            let mut array = ArrayEncoder::begin(w, item_type, item_len)?;
            for item in items {
                let mut buf = Vec::new();
                array.item(&self.value(name, item_type, item, None, &mut buf)?)?;
            }
            Ok(())
        })
    }
}

/// The texts that stand for what is no number.
fn special(text: &str) -> Option<(f64, Real)> {
    Some(match text {
        "Inf" => (f64::INFINITY, Real::new(0, RealHint::INFINITY)),
        "-Inf" => (f64::NEG_INFINITY, Real::new(0, RealHint::NEG_INFINITY)),
        "NaN" => (f64::NAN, Real::new(0, RealHint::NOT_A_NUMBER)),
        _ => return None,
    })
}

/// What an entry of any container can hold.
struct EntryParts<'n> {
    perm_data: Option<Vec<u8>>,
    data: Option<(DataType, &'n Node<'n>)>,
}

impl EntryParts<'_> {
    fn write(&self, reader: &JsonReader<'_>, container: DataType, w: &mut Writer<'_>) -> Encoded {
        self.data.map_or(Ok(()), |(_, node)| reader.container(container, node, w))
    }
}
