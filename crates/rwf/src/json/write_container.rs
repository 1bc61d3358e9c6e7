//! Containers and values as JSON.

use super::names::{Named, name_or_number};
use super::number;
use super::out::{Out, is_plain, text};
use super::write::{JsonWriter, MAX_DEPTH};
use crate::container::{
    Array, ElementList, FieldList, FilterAction, FilterList, Map, MapAction, Series, SetScope, Vector, VectorAction,
};
use crate::dictionary::{EnumTable, FieldDef};
use crate::{DataType, DecodeError, Primitive, primitive};

impl JsonWriter<'_, '_> {
    /// The value of a container member.
    pub(super) fn container(
        &mut self,
        container: DataType,
        data: &[u8],
        scope: &SetScope<'_>,
    ) -> Result<(), DecodeError> {
        if self.depth == MAX_DEPTH {
            return Err(DecodeError::invalid("container nested too deep for JSON", 0));
        }
        self.depth += 1;
        match container {
            DataType::FIELD_LIST => self.field_list(&FieldList::decode(data, scope)?, scope)?,
            DataType::ELEMENT_LIST => self.element_list(&ElementList::decode(data, scope)?, scope)?,
            DataType::FILTER_LIST => self.filter_list(&FilterList::decode(data)?, scope)?,
            DataType::MAP => self.map(&Map::decode(data, scope)?)?,
            DataType::VECTOR => self.vector(&Vector::decode(data, scope)?)?,
            DataType::SERIES => self.series(&Series::decode(data, scope)?)?,
            DataType::MSG => self.message(data)?,
            DataType::OPAQUE => self.base64(data),
            DataType::JSON => self.raw_json(data),
            DataType::XML | DataType::ANSI_PAGE => text(&String::from_utf8_lossy(data), self.out),
            _ => self.out.push_str("null"),
        }
        self.depth -= 1;
        Ok(())
    }

    /// JSON within JSON, as it is; text that is no JSON goes in quotes.
    fn raw_json(&mut self, data: &[u8]) {
        match str::from_utf8(data) {
            Ok(json) if super::parse::Node::parse(json).is_ok() => self.out.push_str(json),
            _ if data.is_empty() => self.out.push_str("null"),
            _ => text(&String::from_utf8_lossy(data), self.out),
        }
    }

    #[inline(never)]
    fn field_list(&mut self, list: &FieldList<'_>, scope: &SetScope<'_>) -> Result<(), DecodeError> {
        let dictionary = self.converter.dictionary;
        let start = self.out.len();
        for entry in list.entries() {
            let entry = entry?;
            let Some((def, member)) = dictionary.field_with_member(entry.fid) else {
                self.converter.leave_out();
                continue;
            };
            if !member.append(self.out) {
                self.named_member(def.acronym());
            }
            let data_type = entry.resolve(def.data_type());
            if !self.common_value(data_type, entry.data)? {
                self.any_value(def, data_type, entry.data, scope)?;
            }
        }
        // Each member began with a comma: the first one's is where the list begins.
        match self.out.get_mut(start) {
            Some(comma) => *comma = b'{',
            None => self.out.push(b'{'),
        }
        self.out.push(b'}');
        Ok(())
    }

    /// A field's value of any type.
    #[inline(never)]
    fn any_value(
        &mut self,
        def: &FieldDef,
        data_type: DataType,
        data: &[u8],
        scope: &SetScope<'_>,
    ) -> Result<(), DecodeError> {
        if data_type == DataType::UNKNOWN {
            self.base64(data);
            Ok(())
        } else if data_type.is_container() {
            self.container(data_type, data, scope)
        } else {
            let def = self.converter.settings.expand_enums.then_some(def);
            let table = def.and_then(|def| self.converter.dictionary.enum_table(def));
            self.value(Primitive::decode(data_type, data)?, table)
        }
    }

    /// A value of the types that nearly all fields have, from its bytes to its text at once; what it writes is what [`Self::value`] would.
    /// False if nothing is written: another type, a blank, or text with something to convert.
    #[inline]
    fn common_value(&mut self, data_type: DataType, data: &[u8]) -> Result<bool, DecodeError> {
        if data.is_empty() {
            return Ok(false);
        }
        match data_type {
            DataType::REAL => match primitive::real(data)? {
                Some(value) => number::real(value, self.out),
                None => return Ok(false),
            },
            DataType::UINT => number::unsigned(primitive::uint(data)?, self.out),
            DataType::ENUM if !self.converter.settings.expand_enums => {
                number::unsigned(primitive::enumeration(data)?.into(), self.out);
            }
            DataType::RMTES_STRING | DataType::ASCII_STRING if is_plain(data, true) => {
                self.out.push(b'"');
                self.out.extend_from_slice(data);
                self.out.push(b'"');
            }
            DataType::TIME => match primitive::time(data)? {
                time if time.is_blank() => return Ok(false),
                time => quoted(self.out, |out| number::time(time, out)),
            },
            DataType::DATE => match primitive::date(data)? {
                date if date.is_blank() => return Ok(false),
                date => quoted(self.out, |out| number::date(date, out)),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn element_list(&mut self, list: &ElementList<'_>, scope: &SetScope<'_>) -> Result<(), DecodeError> {
        self.out.push(b'{');
        for entry in list.entries() {
            let entry = entry?;
            let data_type = entry.data_type.base();
            self.named_member(&String::from_utf8_lossy(entry.name));
            let bare = matches!(data_type, DataType::ASCII_STRING | DataType::UINT) && !entry.data.is_empty();
            if bare {
                self.value(entry.value()?, None)?;
                continue;
            }
            self.out.push_str("{\"Type\":");
            name_or_number(data_type, data_type.0, self.out);
            self.out.push_str(",\"Data\":");
            if data_type.is_container() {
                self.container(data_type, entry.data, scope)?;
            } else {
                self.value(entry.value()?, None)?;
            }
            self.out.push(b'}');
        }
        self.out.push(b'}');
        Ok(())
    }

    fn filter_list(&mut self, list: &FilterList<'_>, scope: &SetScope<'_>) -> Result<(), DecodeError> {
        self.out.push(b'{');
        if let Some(hint) = list.count_hint {
            self.number("CountHint", hint);
        }
        let mut entries = Entries::default();
        for entry in list.entries() {
            let entry = entry?;
            entries.next(self);
            self.number("ID", entry.id);
            self.action(entry.action, entry.action.0);
            self.bytes("PermData", entry.perm_data);
            if entry.action != FilterAction::CLEAR {
                self.entry_body(entry.container, entry.data, scope)?;
            }
        }
        entries.end(self);
        Ok(())
    }

    fn map(&mut self, map: &Map<'_>) -> Result<(), DecodeError> {
        self.out.push(b'{');
        self.member("KeyType");
        name_or_number(map.key_type, map.key_type.0, self.out);
        self.summary(map.container, map.summary(), &map.scope())?;
        if let Some(hint) = map.count_hint() {
            self.number("CountHint", hint);
        }
        if let Some(fid) = map.key_field_id {
            self.number("KeyFieldID", fid);
        }
        let mut entries = Entries::default();
        for entry in map.entries() {
            let entry = entry?;
            entries.next(self);
            self.action(entry.action, entry.action.0);
            self.member("Key");
            self.value(entry.key_value(map.key_type)?, None)?;
            self.bytes("PermData", entry.perm_data);
            if entry.action != MapAction::DELETE {
                self.entry_body(map.container, entry.data, &map.scope())?;
            }
        }
        entries.end(self);
        Ok(())
    }

    fn vector(&mut self, vector: &Vector<'_>) -> Result<(), DecodeError> {
        self.out.push(b'{');
        self.summary(vector.container, vector.summary(), &vector.scope())?;
        if let Some(hint) = vector.count_hint() {
            self.number("CountHint", hint);
        }
        if vector.sortable {
            self.number("SupportSorting", "true");
        }
        let mut entries = Entries::default();
        for entry in vector.entries() {
            let entry = entry?;
            entries.next(self);
            self.number("Index", entry.index);
            self.action(entry.action, entry.action.0);
            self.bytes("PermData", entry.perm_data);
            if !matches!(entry.action, VectorAction::CLEAR | VectorAction::DELETE) {
                self.entry_body(vector.container, entry.data, &vector.scope())?;
            }
        }
        entries.end(self);
        Ok(())
    }

    fn series(&mut self, series: &Series<'_>) -> Result<(), DecodeError> {
        self.out.push(b'{');
        self.summary(series.container, series.summary(), &series.scope())?;
        if let Some(hint) = series.count_hint() {
            self.number("CountHint", hint);
        }
        let mut entries = Entries::default();
        for entry in series.entries() {
            let data = entry?;
            entries.next(self);
            self.entry_body(series.container, data, &series.scope())?;
        }
        entries.end(self);
        Ok(())
    }

    fn summary(
        &mut self,
        container: DataType,
        summary: Option<&[u8]>,
        scope: &SetScope<'_>,
    ) -> Result<(), DecodeError> {
        if let Some(summary) = summary.filter(|_| container != DataType::NO_DATA) {
            self.member("Summary");
            self.out.push(b'{');
            self.body(container, summary, scope)?;
            self.out.push(b'}');
        }
        Ok(())
    }

    fn action<T: Named>(&mut self, action: T, number: u8) {
        self.member("Action");
        name_or_number(action, number, self.out);
    }

    /// What an entry holds, unless it is empty.
    fn entry_body(&mut self, container: DataType, data: &[u8], scope: &SetScope<'_>) -> Result<(), DecodeError> {
        if data.is_empty() { Ok(()) } else { self.body(container, data, scope) }
    }

    /// A value; `null` for a blank.
    fn value(&mut self, value: Primitive<'_>, table: Option<&EnumTable>) -> Result<(), DecodeError> {
        let out = &mut *self.out;
        match value {
            Primitive::Blank => out.push_str("null"),
            Primitive::Int(value) => number::signed(value, out),
            Primitive::UInt(value) => number::unsigned(value, out),
            Primitive::Float(value) => number::float(value.into(), &format!("{value:e}"), out),
            Primitive::Double(value) => number::float(value, &format!("{value:e}"), out),
            Primitive::Real(value) => number::real(value, out),
            Primitive::Date(value) => quoted(out, |out| number::date(value, out)),
            Primitive::Time(value) => quoted(out, |out| number::time(value, out)),
            Primitive::DateTime(value) => quoted(out, |out| number::date_time(value, out)),
            Primitive::Qos(value) => self.qos_object(value),
            Primitive::State(value) => self.state_object(&value),
            Primitive::Enum(value) => match table.and_then(|table| table.value(value)) {
                Some(entry) => text(&crate::rmtes::to_utf8(entry.display()), out),
                None => number::unsigned(value.into(), out),
            },
            Primitive::Array(array) => self.array(&array)?,
            Primitive::Buffer(bytes) => self.base64(bytes),
            Primitive::Rmtes(bytes) if self.clears => text(&crate::rmtes::image_text(bytes), out),
            Primitive::Ascii(_) | Primitive::Utf8(_) | Primitive::Rmtes(_) => {
                text(&value.as_text().unwrap_or_default(), out);
            }
        }
        Ok(())
    }

    fn array(&mut self, array: &Array<'_>) -> Result<(), DecodeError> {
        self.out.push_str("{\"Type\":");
        name_or_number(array.item_type, array.item_type.0, self.out);
        self.out.push_str(",\"Data\":[");
        for (index, item) in array.values().enumerate() {
            self.out.push_str(if index == 0 { "" } else { "," });
            match item? {
                Primitive::Array(_) => return Err(DecodeError::invalid("array in an array", 0)),
                value => self.value(value, None)?,
            }
        }
        self.out.push_str("]}");
        Ok(())
    }
}

#[inline]
fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// The member `Entries`, which begins with the first entry; without any there is none.
#[derive(Default)]
struct Entries {
    any: bool,
}

impl Entries {
    /// Begins the next entry.
    fn next(&mut self, w: &mut JsonWriter<'_, '_>) {
        if self.any {
            w.out.push_str("},{");
        } else {
            w.member("Entries");
            w.out.push_str("[{");
            self.any = true;
        }
    }

    /// Ends the list and the object around it.
    fn end(self, w: &mut JsonWriter<'_, '_>) {
        w.out.push_str(if self.any { "}]}" } else { "}" });
    }
}
