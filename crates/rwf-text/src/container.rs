use std::fmt;

use crate::hex::Hex;
use crate::value::{Quoted, Value};
use crate::{Printer, count};
use rwf::container::sets::{element_sets, field_sets};
use rwf::container::{ElementList, FieldList, FilterList, Map, Series, SetScope, Vector};
use rwf::dictionary::FieldDef;
use rwf::msg::Domain;
use rwf::{DataType, DecodeError, Primitive};

/// Longer names push their own line out of the column, not the whole list.
const MAX_NAME_WIDTH: usize = 36;

impl Printer<'_, '_, '_> {
    /// A container other than a message; ends the line.
    pub(super) fn container(&mut self, data_type: DataType, bytes: &[u8], scope: &SetScope<'_>) -> fmt::Result {
        if bytes.is_empty() {
            return writeln!(self.out, "{data_type}, empty");
        }
        let result = match data_type {
            DataType::FIELD_LIST => FieldList::decode(bytes, scope).map(|list| self.field_list(&list, scope)),
            DataType::ELEMENT_LIST => ElementList::decode(bytes, scope).map(|list| self.element_list(&list, scope)),
            DataType::FILTER_LIST => FilterList::decode(bytes).map(|list| self.filter_list(&list, scope)),
            DataType::MAP => Map::decode(bytes, scope).map(|map| self.map(&map)),
            DataType::VECTOR => Vector::decode(bytes, scope).map(|vector| self.vector(&vector)),
            DataType::SERIES => Series::decode(bytes, scope).map(|series| self.series(&series)),
            DataType::XML | DataType::JSON => Ok(self.text_lines(data_type, bytes)),
            _ => {
                write!(self.out, "{data_type} ")?;
                return self.bytes(bytes);
            }
        };
        result.unwrap_or_else(|error| {
            write!(self.out, "{data_type} ")?;
            self.undecodable(error, bytes)
        })
    }

    fn text_lines(&mut self, data_type: DataType, bytes: &[u8]) -> fmt::Result {
        writeln!(self.out, "{data_type}, {}", count(bytes.len(), "byte"))?;
        self.nested(|p| {
            for line in String::from_utf8_lossy(bytes).lines() {
                p.indent()?;
                writeln!(p.out, "{}", line.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'"))?;
            }
            Ok(())
        })
    }

    fn field_list(&mut self, list: &FieldList<'_>, scope: &SetScope<'_>) -> fmt::Result {
        write!(self.out, "FIELD_LIST")?;
        if let Some(info) = list.info {
            write!(self.out, ", dictionary {}, template {}", info.dict_id, info.num)?;
        }
        if let Some(id) = list.set_id {
            write!(self.out, ", set {id}")?;
        }
        writeln!(self.out)?;
        self.nested(|p| {
            p.skipped_set(list.is_set_skipped(), list.set_data())?;
            for entry in list.entries() {
                match entry {
                    Ok(entry) => p.field(entry.fid, entry.enc, entry.data, scope)?,
                    Err(error) => p.fault(error)?,
                }
            }
            Ok(())
        })
    }

    fn field(&mut self, fid: i16, enc: DataType, data: &[u8], scope: &SetScope<'_>) -> fmt::Result {
        let dictionary = self.dictionary;
        let def = dictionary.and_then(|dictionary| dictionary.field(fid));
        let data_type = if enc == DataType::UNKNOWN { def.map_or(DataType::UNKNOWN, FieldDef::data_type) } else { enc };
        self.indent()?;
        write!(self.out, "{fid:>6} {:<11} ", def.map_or("?", FieldDef::acronym))?;
        if data_type == DataType::UNKNOWN {
            return if data.is_empty() { writeln!(self.out, "blank") } else { self.bytes(data) };
        }
        if data_type.is_container() {
            return self.data(data_type, data, scope);
        }
        let table = def.and_then(|def| dictionary?.enum_table(def));
        write!(self.out, "{data_type:<12} ")?;
        self.primitive(data_type, data, table)
    }

    fn element_list(&mut self, list: &ElementList<'_>, scope: &SetScope<'_>) -> fmt::Result {
        write!(self.out, "ELEMENT_LIST")?;
        if let Some(info) = list.info {
            write!(self.out, ", template {}", info.num)?;
        }
        if let Some(id) = list.set_id {
            write!(self.out, ", set {id}")?;
        }
        writeln!(self.out)?;
        self.nested(|p| {
            p.skipped_set(list.is_set_skipped(), list.set_data())?;
            let width = list.entries().map_while(Result::ok).map(|entry| name(entry.name).chars().count()).max();
            let width = width.unwrap_or(0).min(MAX_NAME_WIDTH);
            for entry in list.entries() {
                match entry {
                    Ok(entry) => {
                        p.indent()?;
                        write!(p.out, "{:<width$} ", name(entry.name))?;
                        if entry.data_type.is_container() {
                            p.data(entry.data_type, entry.data, scope)?;
                        } else {
                            write!(p.out, "{:<12} ", entry.data_type)?;
                            p.primitive(entry.data_type, entry.data, None)?;
                        }
                    }
                    Err(error) => p.fault(error)?,
                }
            }
            Ok(())
        })
    }

    /// Set data without a definition.
    fn skipped_set(&mut self, skipped: bool, set_data: Option<&[u8]>) -> fmt::Result {
        if !skipped {
            return Ok(());
        }
        self.indent()?;
        write!(self.out, "!! set data without a definition: ")?;
        self.bytes(set_data.unwrap_or_default())
    }

    fn filter_list(&mut self, list: &FilterList<'_>, scope: &SetScope<'_>) -> fmt::Result {
        write!(self.out, "FILTER_LIST, {}", count(list.len(), "entry"))?;
        self.hint(list.count_hint.map(u32::from))?;
        self.nested(|p| {
            for entry in list.entries() {
                match entry {
                    Ok(entry) => {
                        p.indent()?;
                        write!(p.out, "{} {}", entry.action, entry.id)?;
                        if let (Some(Domain::SOURCE), Some(name)) = (p.domain, service_part(entry.id)) {
                            write!(p.out, " {name}")?;
                        }
                        p.permission(entry.perm_data)?;
                        p.entry_data(
                            entry.action != rwf::container::FilterAction::CLEAR,
                            entry.container,
                            entry.data,
                            scope,
                        )?;
                    }
                    Err(error) => p.fault(error)?,
                }
            }
            Ok(())
        })
    }

    fn map(&mut self, map: &Map<'_>) -> fmt::Result {
        write!(self.out, "MAP of {} by {}", map.container, map.key_type)?;
        if let Some(fid) = map.key_field_id {
            write!(self.out, ", key field {fid}")?;
        }
        write!(self.out, ", {}", count(map.len(), "entry"))?;
        self.hint(map.count_hint())?;
        self.nested(|p| {
            p.preamble(map.set_defs(), map.summary(), map.container, &map.scope())?;
            for entry in map.entries() {
                match entry {
                    Ok(entry) => {
                        p.indent()?;
                        write!(p.out, "{} ", entry.action)?;
                        match entry.key_value(map.key_type) {
                            Ok(Primitive::Buffer(key)) if !key.iter().all(u8::is_ascii_graphic) => {
                                write!(p.out, "{}", Hex(key))?;
                            }
                            Ok(value) => write!(p.out, "{}", Value { value, table: None })?,
                            Err(error) => write!(p.out, "!! {error}: {}", Hex(entry.key))?,
                        }
                        p.permission(entry.perm_data)?;
                        let has_data = entry.action != rwf::container::MapAction::DELETE;
                        p.entry_data(has_data, map.container, entry.data, &map.scope())?;
                    }
                    Err(error) => p.fault(error)?,
                }
            }
            Ok(())
        })
    }

    fn vector(&mut self, vector: &Vector<'_>) -> fmt::Result {
        use rwf::container::VectorAction;
        write!(self.out, "VECTOR of {}{}", vector.container, if vector.sortable { ", sortable" } else { "" })?;
        write!(self.out, ", {}", count(vector.len(), "entry"))?;
        self.hint(vector.count_hint())?;
        self.nested(|p| {
            p.preamble(vector.set_defs(), vector.summary(), vector.container, &vector.scope())?;
            for entry in vector.entries() {
                match entry {
                    Ok(entry) => {
                        p.indent()?;
                        write!(p.out, "{} {}", entry.action, entry.index)?;
                        p.permission(entry.perm_data)?;
                        let has_data = !matches!(entry.action, VectorAction::CLEAR | VectorAction::DELETE);
                        p.entry_data(has_data, vector.container, entry.data, &vector.scope())?;
                    }
                    Err(error) => p.fault(error)?,
                }
            }
            Ok(())
        })
    }

    fn series(&mut self, series: &Series<'_>) -> fmt::Result {
        write!(self.out, "SERIES of {}, {}", series.container, count(series.len(), "entry"))?;
        self.hint(series.count_hint())?;
        self.nested(|p| {
            p.preamble(series.set_defs(), series.summary(), series.container, &series.scope())?;
            for (index, entry) in series.entries().enumerate() {
                match entry {
                    Ok(data) => {
                        p.indent()?;
                        write!(p.out, "{index}")?;
                        p.entry_data(true, series.container, data, &series.scope())?;
                    }
                    Err(error) => p.fault(error)?,
                }
            }
            Ok(())
        })
    }

    /// The end of a heading.
    fn hint(&mut self, hint: Option<u32>) -> fmt::Result {
        match hint {
            Some(hint) => writeln!(self.out, " of about {hint}"),
            None => writeln!(self.out),
        }
    }

    fn permission(&mut self, perm_data: Option<&[u8]>) -> fmt::Result {
        match perm_data {
            Some(perm) if !perm.is_empty() => write!(self.out, ", permission {}", Hex(perm)),
            _ => Ok(()),
        }
    }

    /// What an entry holds; ends the line.
    fn entry_data(&mut self, has_data: bool, container: DataType, data: &[u8], scope: &SetScope<'_>) -> fmt::Result {
        if !has_data || container == DataType::NO_DATA && data.is_empty() {
            return writeln!(self.out);
        }
        write!(self.out, ": ")?;
        self.data(container, data, scope)
    }

    /// Set definitions and summary data.
    fn preamble(
        &mut self,
        set_defs: Option<&[u8]>,
        summary: Option<&[u8]>,
        container: DataType,
        scope: &SetScope<'_>,
    ) -> fmt::Result {
        if let Some(block) = set_defs {
            let shown =
                if container == DataType::ELEMENT_LIST { self.element_defs(block) } else { self.field_defs(block) };
            match shown {
                Ok(result) => result?,
                Err(error) => self.fault(error)?,
            }
        }
        if let Some(summary) = summary {
            self.indent()?;
            write!(self.out, "summary: ")?;
            self.data(container, summary, scope)?;
        }
        Ok(())
    }

    fn field_defs(&mut self, block: &[u8]) -> Result<fmt::Result, DecodeError> {
        let dictionary = self.dictionary;
        let name = |fid| dictionary.and_then(|dictionary| dictionary.field(fid)).map_or("?", FieldDef::acronym);
        let sets = field_sets(block)?;
        Ok(sets.into_iter().try_for_each(|(id, set)| {
            let entries = set.entries().map(|(fid, enc)| format!("{fid} {} {enc}", name(fid)));
            self.set_def(id, &entries.collect::<Vec<_>>())
        }))
    }

    fn element_defs(&mut self, block: &[u8]) -> Result<fmt::Result, DecodeError> {
        let sets = element_sets(block)?;
        Ok(sets.into_iter().try_for_each(|(id, set)| {
            let entries = set.entries().map(|(name, enc)| format!("{} {enc}", Quoted(&String::from_utf8_lossy(name))));
            self.set_def(id, &entries.collect::<Vec<_>>())
        }))
    }

    fn set_def(&mut self, id: u16, entries: &[String]) -> fmt::Result {
        self.indent()?;
        writeln!(self.out, "set {id}: {}", entries.join(", "))
    }
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

/// Names of the parts of a service in a directory.
fn service_part(id: u8) -> Option<&'static str> {
    Some(match id {
        1 => "INFO",
        2 => "STATE",
        3 => "GROUP",
        4 => "LOAD",
        5 => "DATA",
        6 => "LINK",
        7 => "SEQUENCED_MULTICAST",
        _ => return None,
    })
}
