//! Containers and values as JSON.

use super::names::{Named, name_or_number};
use super::number;
use super::write::{JsonWriter, MAX_DEPTH, text};
use crate::container::{
    Array, ElementList, FieldList, FilterAction, FilterList, Map, MapAction, Series, SetScope, Vector, VectorAction,
};
use crate::dictionary::{EnumTable, FieldDef};
use crate::{DataType, DecodeError, Primitive};

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

    fn field_list(&mut self, list: &FieldList<'_>, scope: &SetScope<'_>) -> Result<(), DecodeError> {
        let dictionary = self.converter.dictionary;
        self.out.push('{');
        for entry in list.entries() {
            let entry = entry?;
            let def = dictionary.field(entry.fid);
            let data_type = entry.resolve(def.map_or(DataType::UNKNOWN, FieldDef::data_type));
            match def {
                Some(def) => self.named_member(def.acronym()),
                None => self.named_member(&entry.fid.to_string()),
            }
            if data_type == DataType::UNKNOWN {
                self.base64(entry.data);
            } else if data_type.is_container() {
                self.container(data_type, entry.data, scope)?;
            } else {
                let expand = self.converter.settings.expand_enums;
                let table = def.filter(|_| expand).and_then(|def| dictionary.enum_table(def));
                self.value(Primitive::decode(data_type, entry.data)?, table)?;
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn element_list(&mut self, list: &ElementList<'_>, scope: &SetScope<'_>) -> Result<(), DecodeError> {
        self.out.push('{');
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
            self.out.push('}');
        }
        self.out.push('}');
        Ok(())
    }

    fn filter_list(&mut self, list: &FilterList<'_>, scope: &SetScope<'_>) -> Result<(), DecodeError> {
        self.out.push('{');
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
        self.out.push('{');
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
        self.out.push('{');
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
        self.out.push('{');
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
            self.out.push('{');
            self.body(container, summary, scope)?;
            self.out.push('}');
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

fn quoted(out: &mut String, write: impl FnOnce(&mut String)) {
    out.push('"');
    write(out);
    out.push('"');
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
