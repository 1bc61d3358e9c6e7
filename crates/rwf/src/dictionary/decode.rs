//! Dictionaries out of the payload of dictionary refreshes.

use super::{
    Dictionary, DictionaryError, EnumValue, Fault, FieldDef, MarketfeedType, NewTable, Place, Properties, TYPE_ENUMS,
    TYPE_FIELDS, adopt, set_dictionary_id,
};
use crate::container::{Array, ElementEntry, ElementList, Series, SetScope};
use crate::{DataType, DecodeError, Primitive};

impl Dictionary {
    /// Adds the fields of one part of a dictionary refresh, a series; the parts may come at any verbosity. `origin` names
    /// the service or connection. Gives the number of fields.
    ///
    /// # Errors
    /// What is wrong in which entry; the dictionary is then as it was.
    pub fn apply_fields(&mut self, origin: &str, payload: &[u8]) -> Result<usize, DictionaryError> {
        let fail = |place, fault| DictionaryError::new(origin, place, fault);
        let mut properties = self.properties.clone();
        let series = head(payload, TYPE_FIELDS, &mut properties).map_err(|fault| fail(Place::Entry(0), fault))?;
        let mut defs = Vec::new();
        for (index, entry) in series.entries().enumerate() {
            let place = Place::Entry(index as u32 + 1);
            let def = entry.map_err(Fault::from).and_then(|entry| field(entry, &series.scope()));
            defs.push((place, def.map_err(|fault| fail(place, fault))?));
        }
        let count = defs.len();
        self.commit_fields(origin, defs)?;
        self.properties = properties;
        Ok(count)
    }

    /// Adds the enumerations of one part of a dictionary refresh, a series. Gives the number of tables.
    ///
    /// # Errors
    /// What is wrong in which entry; the dictionary is then as it was.
    pub fn apply_enums(&mut self, origin: &str, payload: &[u8]) -> Result<usize, DictionaryError> {
        let fail = |place, fault| DictionaryError::new(origin, place, fault);
        let mut properties = self.properties.clone();
        let series = head(payload, TYPE_ENUMS, &mut properties).map_err(|fault| fail(Place::Entry(0), fault))?;
        let mut tables = Vec::new();
        for (index, entry) in series.entries().enumerate() {
            let place = Place::Entry(index as u32 + 1);
            let table = entry.map_err(Fault::from).and_then(|entry| table(place, entry, &series.scope()));
            tables.push(table.map_err(|fault| fail(place, fault))?);
        }
        let count = tables.len();
        self.commit_tables(origin, tables)?;
        self.properties = properties;
        Ok(count)
    }
}

/// The series of a part, its summary data (if it has any) taken into `properties`.
fn head<'a>(payload: &'a [u8], expected: i64, properties: &mut Properties) -> Result<Series<'a>, Fault> {
    let series = Series::decode(payload, &SetScope::NONE)?;
    if series.container != DataType::ELEMENT_LIST && !series.is_empty() {
        return Err(Fault::WrongElement("entry of the series"));
    }
    for element in ElementList::decode(series.summary().unwrap_or_default(), &series.scope())?.entries() {
        let element = element?;
        match element.name {
            b"Type" => match number(&element, "Type")? {
                found if found == expected => {}
                found => return Err(Fault::WrongType { expected, found }),
            },
            b"DictionaryId" => set_dictionary_id(properties, number(&element, "DictionaryId")?)?,
            b"Version" if expected == TYPE_FIELDS => adopt(&mut properties.field_version, &text(&element, "Version")?),
            b"RT_Version" => adopt(&mut properties.enum_rt_version, &text(&element, "RT_Version")?),
            b"DT_Version" => adopt(&mut properties.enum_dt_version, &text(&element, "DT_Version")?),
            _ => {}
        }
    }
    Ok(series)
}

fn field<'a>(entry: &'a [u8], scope: &SetScope<'a>) -> Result<FieldDef, Fault> {
    let mut acronym = None;
    let mut fid = None;
    let mut data_type = None;
    let mut def = FieldDef {
        fid: 0,
        acronym: Box::default(),
        long_name: Box::default(),
        ripples_to: 0,
        marketfeed_type: MarketfeedType::NONE,
        length: 0,
        enum_length: 0,
        data_type: DataType::UNKNOWN,
        rwf_length: 0,
        enum_table: 0,
        origin: 0,
    };
    for element in ElementList::decode(entry, scope)?.entries() {
        let element = element?;
        match element.name {
            b"NAME" => acronym = Some(text(&element, "NAME")?),
            b"FID" => fid = Some(narrow(&element, "FID")?),
            b"RIPPLETO" => def.ripples_to = narrow(&element, "RIPPLETO")?,
            b"TYPE" => def.marketfeed_type = MarketfeedType(narrow(&element, "TYPE")?),
            b"LENGTH" => def.length = narrow(&element, "LENGTH")?,
            // Old dictionaries give the width as well, in the way of set definitions.
            b"RWFTYPE" => data_type = Some(DataType(narrow(&element, "RWFTYPE")?).base()),
            b"RWFLEN" => def.rwf_length = narrow(&element, "RWFLEN")?,
            b"ENUMLENGTH" => def.enum_length = narrow(&element, "ENUMLENGTH")?,
            b"LONGNAME" => def.long_name = text(&element, "LONGNAME")?.into(),
            _ => {}
        }
    }
    def.acronym = acronym.filter(|acronym| !acronym.is_empty()).ok_or(Fault::Missing("NAME"))?.into();
    def.fid = fid.ok_or(Fault::Missing("FID"))?;
    def.data_type = data_type.ok_or(Fault::Missing("RWFTYPE"))?;
    match (def.fid, def.data_type) {
        (0, _) => Err(Fault::ReservedFid),
        (_, DataType::UNKNOWN) => Err(Fault::UnknownType("UNKNOWN".to_owned())),
        _ => Ok(def),
    }
}

/// Also understands the element names of the older feed handlers: FID, VALUES, DISPLAYS.
fn table<'a>(place: Place, entry: &'a [u8], scope: &SetScope<'a>) -> Result<NewTable, Fault> {
    let mut fields = Vec::new();
    let mut values = Vec::new();
    let mut displays = Vec::new();
    let mut meanings = Vec::new();
    for element in ElementList::decode(entry, scope)?.entries() {
        let element = element?;
        match element.name {
            b"FIDS" | b"FID" => fields = items(&element, "FIDS", fid)?,
            b"VALUE" | b"VALUES" => values = items(&element, "VALUE", |item| u16::try_from(item.as_u64()?).ok())?,
            b"DISPLAY" | b"DISPLAYS" => displays = items(&element, "DISPLAY", bytes)?,
            b"MEANING" | b"MEANINGS" => meanings = items(&element, "MEANING", bytes)?,
            _ => {}
        }
    }
    if fields.is_empty() {
        return Err(Fault::TableWithoutField);
    }
    if values.is_empty() {
        return Err(Fault::Missing("VALUE"));
    }
    if values.len() != displays.len() {
        return Err(Fault::UnevenTable { values: values.len(), displays: displays.len() });
    }
    let meaning =
        |index: usize| meanings.get(index).map(|text| String::from_utf8_lossy(text).into()).unwrap_or_default();
    let values = values
        .into_iter()
        .zip(displays)
        .enumerate()
        .map(|(index, (value, display))| EnumValue { value, display: display.into(), meaning: meaning(index) })
        .collect();
    // Acronyms do not travel with the tables.
    Ok(NewTable { place, fields: fields.into_iter().map(|fid| (fid, Box::default())).collect(), values })
}

/// The items of an array, each by `convert`.
fn items<'a, T>(
    element: &ElementEntry<'a>,
    name: &'static str,
    convert: impl Fn(Primitive<'a>) -> Option<T>,
) -> Result<Vec<T>, Fault> {
    if element.data_type != DataType::ARRAY {
        return Err(Fault::WrongElement(name));
    }
    if element.data.is_empty() {
        return Ok(Vec::new());
    }
    Array::decode(element.data)?.values().map(|item| convert(item?).ok_or(Fault::WrongElement(name))).collect()
}

fn fid(item: Primitive<'_>) -> Option<i16> {
    match item {
        Primitive::Int(fid) => i16::try_from(fid).ok().filter(|fid| *fid != 0),
        _ => None,
    }
}

fn bytes(item: Primitive<'_>) -> Option<Vec<u8>> {
    if item.is_blank() { Some(Vec::new()) } else { item.as_bytes().map(<[u8]>::to_vec) }
}

fn number(element: &ElementEntry<'_>, name: &'static str) -> Result<i64, Fault> {
    match element.value()? {
        Primitive::Int(number) => Some(number),
        Primitive::UInt(number) => i64::try_from(number).ok(),
        Primitive::Blank => Some(0),
        _ => None,
    }
    .ok_or(Fault::WrongElement(name))
}

fn narrow<T: TryFrom<i64>>(element: &ElementEntry<'_>, name: &'static str) -> Result<T, Fault> {
    let number = number(element, name)?;
    T::try_from(number).map_err(|_| Fault::BadNumber { column: name, text: number.to_string() })
}

fn text(element: &ElementEntry<'_>, name: &'static str) -> Result<String, Fault> {
    match element.value()? {
        Primitive::Blank => Ok(String::new()),
        value => {
            value.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned()).ok_or(Fault::WrongElement(name))
        }
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(error)
    }
}
