//! Field and enumeration dictionaries.
//!
//! Fields travel as bare ids: what an id means, its type above all, stands in a dictionary. A [`Dictionary`] comes from
//! files in the formats of `RDMFieldDictionary` and `enumtype.def` ([`Dictionary::load_fields`], [`Dictionary::load_enums`]),
//! from dictionary refreshes of a provider ([`Dictionary::apply_fields`], [`Dictionary::apply_enums`]), or is [`Dictionary::builtin`]; several become one with
//! [`Dictionary::merge`]. It goes out again as the parts of a dictionary refresh ([`Dictionary::field_parts`],
//! [`Dictionary::enum_parts`]), byte for byte as the SDK's providers send it.
//!
//! ```
//! use rwf::dictionary::Dictionary;
//!
//! let mut dictionary = Dictionary::new();
//! dictionary.load_fields("own.fields", br#"BID "BID" 22 BID_1 PRICE 17 REAL64 7"#)?;
//! assert_eq!(dictionary.field(22).unwrap().acronym(), "BID");
//! # Ok::<(), rwf::dictionary::DictionaryError>(())
//! ```

mod builtin;
mod decode;
mod encode;
mod error;
mod file;
mod names;

pub use encode::{EnumParts, FieldParts, Verbosity};
pub use error::{DictionaryError, Fault, Place};

use std::collections::HashMap;
use std::fmt;

use crate::DataType;
use names::FieldNames;
use rustc_hash::FxHashSet;

/// What a field id stands for.
#[derive(Debug, Clone)]
pub struct FieldDef {
    fid: i16,
    acronym: Box<str>,
    long_name: Box<str>,
    ripples_to: i16,
    marketfeed_type: MarketfeedType,
    length: u16,
    enum_length: u8,
    data_type: DataType,
    rwf_length: u16,
    /// Index into the dictionary's tables plus one; 0 for none.
    enum_table: u16,
    /// Index into the dictionary's origins.
    origin: u16,
}

impl FieldDef {
    /// The field id; negative ones are an application's own.
    #[inline]
    pub fn fid(&self) -> i16 {
        self.fid
    }

    /// The name by which applications and JSON know the field, such as `TRDPRC_1`.
    #[inline]
    pub fn acronym(&self) -> &str {
        &self.acronym
    }

    /// The name of the DDE interface, such as `LAST`; empty when the dictionary came at verbosity "minimal".
    pub fn long_name(&self) -> &str {
        &self.long_name
    }

    /// The field that takes this one's value before it changes; `None` for most.
    #[inline]
    pub fn ripples_to(&self) -> Option<i16> {
        (self.ripples_to != 0).then_some(self.ripples_to)
    }

    /// The type in Marketfeed, the text format that RWF replaced.
    pub fn marketfeed_type(&self) -> MarketfeedType {
        self.marketfeed_type
    }

    /// The longest value in Marketfeed, characters.
    pub fn length(&self) -> u16 {
        self.length
    }

    /// The longest display of an enumerated field, characters; 0 if the field is none.
    pub fn enum_length(&self) -> u8 {
        self.enum_length
    }

    /// The type of the field's data on the wire: a primitive or a container.
    #[inline]
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Bytes that a cache sets aside for the value; 0 says nothing. It is no bound on what is sent.
    pub fn rwf_length(&self) -> u16 {
        self.rwf_length
    }

    /// Whether both mean the same on the wire: name, type and ripple; lengths and long names only advise.
    fn agrees_with(&self, other: &Self) -> bool {
        self.data_type == other.data_type && self.acronym == other.acronym
    }
}

/// The type of a field in Marketfeed (ETA `MfFieldTypes`); a dictionary message may carry others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MarketfeedType(pub i8);

impl MarketfeedType {
    /// Not carried in Marketfeed.
    pub const NONE: Self = Self(-1);
    /// Time of day with seconds.
    pub const TIME_SECONDS: Self = Self(0);
    /// Whole number.
    pub const INTEGER: Self = Self(1);
    /// Number as text.
    pub const NUMERIC: Self = Self(2);
    /// Date.
    pub const DATE: Self = Self(3);
    /// Price.
    pub const PRICE: Self = Self(4);
    /// Text.
    pub const ALPHANUMERIC: Self = Self(5);
    /// Number that stands for a text.
    pub const ENUMERATED: Self = Self(6);
    /// Time of day in minutes.
    pub const TIME: Self = Self(7);
    /// Bits.
    pub const BINARY: Self = Self(8);
    /// Text over 255 characters.
    pub const LONG_ALPHANUMERIC: Self = Self(9);
    /// Bytes.
    pub const OPAQUE: Self = Self(10);

    const NAMES: [(Self, &'static str); 12] = [
        (Self::NONE, "NONE"),
        (Self::TIME_SECONDS, "TIME_SECONDS"),
        (Self::INTEGER, "INTEGER"),
        (Self::NUMERIC, "NUMERIC"),
        (Self::DATE, "DATE"),
        (Self::PRICE, "PRICE"),
        (Self::ALPHANUMERIC, "ALPHANUMERIC"),
        (Self::ENUMERATED, "ENUMERATED"),
        (Self::TIME, "TIME"),
        (Self::BINARY, "BINARY"),
        (Self::LONG_ALPHANUMERIC, "LONG_ALPHANUMERIC"),
        (Self::OPAQUE, "OPAQUE"),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
    }
}

impl fmt::Display for MarketfeedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(value, _)| value == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The values of an enumeration, shared by all fields that use it.
#[derive(Debug, Clone)]
pub struct EnumTable {
    fids: Vec<i16>,
    /// Ascending by value, no value twice.
    values: Vec<EnumValue>,
}

impl EnumTable {
    /// The ids of the fields that use this table, in the order of the file; not all need be defined.
    pub fn fids(&self) -> &[i16] {
        &self.fids
    }

    /// All values, ascending.
    pub fn values(&self) -> &[EnumValue] {
        &self.values
    }

    /// The entry of a value.
    pub fn value(&self, value: u16) -> Option<&EnumValue> {
        self.values.binary_search_by_key(&value, EnumValue::value).ok().map(|index| &self.values[index])
    }

    /// The value that has this display; the lowest if several do.
    pub fn value_of(&self, display: &[u8]) -> Option<u16> {
        self.values.iter().find(|entry| entry.display() == display).map(EnumValue::value)
    }
}

/// A value of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumValue {
    value: u16,
    display: Box<[u8]>,
    meaning: Box<str>,
}

impl EnumValue {
    /// The number on the wire.
    pub fn value(&self) -> u16 {
        self.value
    }

    /// What a screen shows, blanks included: ASCII as a rule, RMTES where a file gives bytes (arrows and the like).
    pub fn display(&self) -> &[u8] {
        &self.display
    }

    /// The explanation in the file; empty when the table came in a message.
    pub fn meaning(&self) -> &str {
        &self.meaning
    }
}

/// The properties of a dictionary: the `!tag` lines of its files, the summary data of its messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// `DictionaryId`, 0 for none: which dictionary the fields belong to.
    pub dictionary_id: i16,
    /// `Version` of the field definitions.
    pub field_version: String,
    /// `RT_Version` of the enumerations.
    pub enum_rt_version: String,
    /// `DT_Version` of the enumerations.
    pub enum_dt_version: String,
}

/// Two dictionaries that give one field id different meanings; the first one was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The field id.
    pub fid: i16,
    /// What it stays.
    pub kept: Claim,
    /// What the other dictionary says.
    pub dropped: Claim,
}

/// One side of a [`Conflict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The file, service or other place that the definition comes from.
    pub origin: String,
    /// The field's name there.
    pub acronym: String,
    /// The field's type there.
    pub data_type: DataType,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fid, kept, dropped } = self;
        write!(
            f,
            "field {fid} is {} {:?} in {} and {} {:?} in {}; the first is used",
            kept.acronym, kept.data_type, kept.origin, dropped.acronym, dropped.data_type, dropped.origin
        )
    }
}

/// Mark of a dictionary in which nothing ripples.
const NO_CHAINS: u32 = 2;

/// The mark of a dictionary to which a field is added that ripples (FNV-1a over the pairs, kept even and off 0).
fn chains_mark(mark: u32, fid: i16, next: i16) -> u32 {
    let bytes = fid.to_be_bytes().into_iter().chain(next.to_be_bytes());
    let mixed = bytes.fold(mark, |mark, byte| (mark ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (mixed & !1).max(NO_CHAINS)
}

/// A set of field definitions and enumeration tables.
#[derive(Clone)]
pub struct Dictionary {
    /// By field id as `u16`: index into `fields` plus one, 0 for undefined. 128 KB, so that a look-up is one load.
    slots: Box<[u16]>,
    fields: Vec<FieldDef>,
    /// For each of `fields` how its member begins in JSON.
    members: Vec<JsonMember>,
    names: FieldNames,
    /// See [`Dictionary::chains_mark`].
    chains_mark: u32,
    /// A bit for each field id: the field ripples to another one. 8 KB.
    rippling: Box<[u64]>,
    /// Fields that others ripple to.
    rippled_to: FxHashSet<i16>,
    tables: Vec<EnumTable>,
    /// Tables of fields that are not defined (yet): index into `tables`, and the acronym where the table gave one.
    awaiting: HashMap<i16, (u16, Box<str>)>,
    origins: Vec<String>,
    properties: Properties,
}

/// How the member of a field begins in JSON when it is not the first, ready to be copied: `,"BID":`.
#[derive(Clone)]
pub(crate) struct JsonMember {
    text: [u8; Self::MOST],
    /// 0: the name is too long for it.
    len: u8,
}

impl JsonMember {
    /// As many bytes as leave half a cache line to each; names have 15 characters at most, by custom.
    const MOST: usize = 31;
    /// Bytes that are copied whether they are used or not, since a number of bytes that is known to the compiler costs a fraction.
    const COPIED: usize = 24;

    fn new(acronym: &str) -> Self {
        let mut quoted = String::from(",");
        crate::json::out::text(acronym, &mut quoted);
        quoted.push(':');
        let mut text = [0; Self::MOST];
        let room = text.get_mut(..quoted.len());
        let len = room.as_ref().map_or(0, |_| quoted.len() as u8);
        if let Some(room) = room {
            room.copy_from_slice(quoted.as_bytes());
        }
        Self { text, len }
    }

    /// Appends it. False if there is none, because the name is too long.
    #[inline]
    pub(crate) fn append(&self, out: &mut Vec<u8>) -> bool {
        let (len, end) = (usize::from(self.len), out.len() + usize::from(self.len));
        match self.text.first_chunk::<{ Self::COPIED }>() {
            Some(copied) if len <= Self::COPIED => {
                out.extend_from_slice(copied);
                out.truncate(end);
            }
            _ => out.extend_from_slice(&self.text[..len]),
        }
        len > 0
    }
}

/// A table on its way in: where it stands, the fields it is for (with their acronyms where they are given), its values.
struct NewTable {
    place: Place,
    fields: Vec<(i16, Box<str>)>,
    values: Vec<EnumValue>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("fields", &self.fields.len())
            .field("tables", &self.tables.len())
            .field("properties", &self.properties)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

impl Dictionary {
    /// A dictionary without any fields.
    pub fn new() -> Self {
        Self {
            slots: vec![0; 1 << 16].into_boxed_slice(),
            fields: Vec::new(),
            members: Vec::new(),
            names: FieldNames::default(),
            chains_mark: NO_CHAINS,
            rippling: vec![0; (1 << 16) / 64].into_boxed_slice(),
            rippled_to: FxHashSet::default(),
            tables: Vec::new(),
            awaiting: HashMap::new(),
            origins: Vec::new(),
            properties: Properties::default(),
        }
    }

    /// The definition of a field id.
    #[inline]
    pub fn field(&self, fid: i16) -> Option<&FieldDef> {
        let slot = self.slots[usize::from(fid as u16)];
        self.fields.get(usize::from(slot).wrapping_sub(1))
    }

    /// What tells dictionaries apart whose fields ripple otherwise: an even number other than 0, made of all fields that ripple and
    /// where to.
    #[inline]
    pub(crate) const fn chains_mark(&self) -> u32 {
        self.chains_mark
    }

    /// Whether a field ripples to another one.
    #[inline]
    pub(crate) fn ripples(&self, fid: i16) -> bool {
        let at = usize::from(fid as u16);
        self.rippling[at / 64] >> (at % 64) & 1 == 1
    }

    /// Whether a field ripples to this one.
    pub(crate) fn is_rippled_to(&self, fid: i16) -> bool {
        self.rippled_to.contains(&fid)
    }

    /// The definition of a field id, and how its member begins in JSON.
    #[inline]
    pub(crate) fn field_with_member(&self, fid: i16) -> Option<(&FieldDef, &JsonMember)> {
        let index = usize::from(self.slots[usize::from(fid as u16)]).wrapping_sub(1);
        Some((self.fields.get(index)?, self.members.get(index)?))
    }

    /// The definition of the field with this acronym; the first one loaded if several fields share it.
    pub fn field_named(&self, acronym: &str) -> Option<&FieldDef> {
        self.field_with_name(acronym.as_bytes())
    }

    /// The same, by the bytes of its name.
    #[inline]
    pub(crate) fn field_with_name(&self, acronym: &[u8]) -> Option<&FieldDef> {
        self.names.find(acronym, &self.fields).and_then(|index| self.fields.get(index))
    }

    /// The enumeration of a field.
    pub fn enum_table(&self, field: &FieldDef) -> Option<&EnumTable> {
        self.tables.get(usize::from(field.enum_table).wrapping_sub(1))
    }

    /// What a screen shows for an enumerated field's value.
    pub fn enum_display(&self, fid: i16, value: u16) -> Option<&[u8]> {
        self.enum_table(self.field(fid)?)?.value(value).map(EnumValue::display)
    }

    /// All fields, ascending by id.
    pub fn fields(&self) -> impl Iterator<Item = &FieldDef> {
        (i16::MIN..=i16::MAX).filter_map(|fid| self.field(fid))
    }

    /// All enumeration tables, in the order in which they were loaded.
    pub fn enum_tables(&self) -> &[EnumTable] {
        &self.tables
    }

    /// The number of fields defined.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether no field is defined.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Versions and dictionary id.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The file, service or other place that a definition of this dictionary comes from.
    pub fn origin(&self, field: &FieldDef) -> &str {
        self.origins.get(usize::from(field.origin)).map_or("", String::as_str)
    }

    /// Adds the fields of a file in the format of `RDMFieldDictionary`. `origin` names the file in errors and conflicts.
    ///
    /// # Errors
    /// The first line that is wrong, with the reason; the dictionary is then as it was.
    pub fn load_fields(&mut self, origin: &str, text: &[u8]) -> Result<(), DictionaryError> {
        let (tags, lines) = file::fields(origin, text)?;
        let mut properties = self.properties.clone();
        for (line, name, value) in tags {
            field_tag(&mut properties, name, value)
                .map_err(|fault| DictionaryError::new(origin, Place::Line(line), fault))?;
        }
        let mut acronyms: HashMap<&str, i16> = HashMap::with_capacity(lines.len());
        for line in &lines {
            acronyms.entry(line.acronym).or_insert(line.fid);
        }
        let defs: Vec<(Place, FieldDef)> = lines
            .iter()
            .map(|line| {
                let ripples_to = line
                    .ripples_to
                    .and_then(|name| acronyms.get(name).copied().or_else(|| self.field_named(name).map(FieldDef::fid)));
                let def = FieldDef {
                    fid: line.fid,
                    acronym: line.acronym.into(),
                    long_name: line.long_name.into(),
                    ripples_to: ripples_to.unwrap_or(0),
                    marketfeed_type: line.marketfeed_type,
                    length: line.length,
                    enum_length: line.enum_length,
                    data_type: line.data_type,
                    rwf_length: line.rwf_length,
                    enum_table: 0,
                    origin: 0,
                };
                (Place::Line(line.line), def)
            })
            .collect();
        self.commit_fields(origin, defs)?;
        self.properties = properties;
        Ok(())
    }

    /// Adds the tables of a file in the format of `enumtype.def`; before or after the fields, as it comes.
    ///
    /// # Errors
    /// The first line that is wrong, with the reason; the dictionary is then as it was.
    pub fn load_enums(&mut self, origin: &str, text: &[u8]) -> Result<(), DictionaryError> {
        let (tags, tables) = file::enums(origin, text)?;
        let mut properties = self.properties.clone();
        for (line, name, value) in tags {
            enum_tag(&mut properties, name, value)
                .map_err(|fault| DictionaryError::new(origin, Place::Line(line), fault))?;
        }
        let tables = tables
            .into_iter()
            .map(|table| {
                let fields = table.fields.into_iter().map(|(fid, acronym)| (fid, acronym.into())).collect();
                NewTable { place: Place::Line(table.line), fields, values: table.values }
            })
            .collect();
        self.commit_tables(origin, tables)?;
        self.properties = properties;
        Ok(())
    }

    /// Checks all definitions against each other and the dictionary, then adds them.
    fn commit_fields(&mut self, origin: &str, defs: Vec<(Place, FieldDef)>) -> Result<(), DictionaryError> {
        let mut seen = vec![false; 1 << 16];
        for (place, def) in &defs {
            let at = usize::from(def.fid as u16);
            let fault = if self.slots[at] != 0 || std::mem::replace(&mut seen[at], true) {
                Some(Fault::DuplicateFid(def.fid))
            } else {
                self.awaiting.get(&def.fid).filter(|(_, acronym)| !acronym.is_empty() && *acronym != def.acronym).map(
                    |(_, acronym)| Fault::AcronymMismatch {
                        fid: def.fid,
                        fields: def.acronym.to_string(),
                        enums: acronym.to_string(),
                    },
                )
            };
            if let Some(fault) = fault {
                return Err(DictionaryError::new(origin, *place, fault));
            }
        }
        // The parts of one refresh share an origin.
        if self.origins.last().is_none_or(|last| last != origin) {
            self.origins.push(origin.to_owned());
        }
        let origin = self.origins.len() as u16 - 1;
        for (_, def) in defs {
            self.insert(FieldDef { origin, ..def });
        }
        Ok(())
    }

    /// Adds a definition whose id is free.
    fn insert(&mut self, mut def: FieldDef) {
        if let Some((table, _)) = self.awaiting.remove(&def.fid) {
            def.enum_table = table + 1;
        }
        let slot = &mut self.slots[usize::from(def.fid as u16)];
        debug_assert_eq!(*slot, 0);
        // 65,535 ids are possible (0 is not), so the index plus one fits.
        *slot = self.fields.len() as u16 + 1;
        if let Some(next) = def.ripples_to() {
            self.chains_mark = chains_mark(self.chains_mark, def.fid, next);
            let at = usize::from(def.fid as u16);
            self.rippling[at / 64] |= 1 << (at % 64);
            self.rippled_to.insert(next);
        }
        self.members.push(JsonMember::new(&def.acronym));
        self.fields.push(def);
        self.names.insert(self.fields.len() - 1, &self.fields);
    }

    /// Checks all tables against each other and the fields, then adds them.
    fn commit_tables(&mut self, origin: &str, tables: Vec<NewTable>) -> Result<(), DictionaryError> {
        let mut seen = vec![false; 1 << 16];
        let mut checked = Vec::with_capacity(tables.len());
        for NewTable { place, fields, mut values } in tables {
            for (fid, acronym) in &fields {
                self.check_table_field(*fid, acronym, &mut seen)
                    .map_err(|fault| DictionaryError::new(origin, place, fault))?;
            }
            values.sort_by_key(EnumValue::value);
            if let Some(pair) = values.windows(2).find(|pair| pair[0].value == pair[1].value) {
                return Err(DictionaryError::new(origin, place, Fault::DuplicateEnumValue(pair[0].value)));
            }
            checked.push((fields, values));
        }
        if self.tables.len() + checked.len() >= usize::from(u16::MAX) {
            return Err(DictionaryError::new(origin, Place::Entry(0), Fault::TooManyTables));
        }
        for (fields, values) in checked {
            let index = self.tables.len() as u16;
            self.tables.push(EnumTable { fids: fields.iter().map(|(fid, _)| *fid).collect(), values });
            for (fid, acronym) in fields {
                self.link(fid, acronym, index);
            }
        }
        Ok(())
    }

    fn check_table_field(&self, fid: i16, acronym: &str, seen: &mut [bool]) -> Result<(), Fault> {
        let at = usize::from(fid as u16);
        if std::mem::replace(&mut seen[at], true) || self.awaiting.contains_key(&fid) {
            return Err(Fault::DuplicateTable(fid));
        }
        match self.field(fid) {
            Some(def) if def.enum_table != 0 => Err(Fault::DuplicateTable(fid)),
            Some(def) if !acronym.is_empty() && *def.acronym != *acronym => {
                Err(Fault::AcronymMismatch { fid, fields: def.acronym.to_string(), enums: acronym.to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn link(&mut self, fid: i16, acronym: Box<str>, table: u16) {
        match self.slots[usize::from(fid as u16)] {
            0 => {
                self.awaiting.insert(fid, (table, acronym));
            }
            slot => self.fields[usize::from(slot) - 1].enum_table = table + 1,
        }
    }

    /// Takes over what the other dictionary has and this one has not: fields, enumerations of fields without one, and
    /// values that an enumeration here lacks. A field that both define stays as it is; where name or type differ, that is
    /// reported.
    pub fn merge(&mut self, other: &Self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let first_origin = self.origins.len() as u16;
        self.origins.extend(other.origins.iter().cloned());
        let mut taken_over = vec![false; 1 << 16];
        for theirs in other.fields() {
            let Some(ours) = self.field(theirs.fid) else {
                taken_over[usize::from(theirs.fid as u16)] = true;
                self.insert(FieldDef { enum_table: 0, origin: first_origin + theirs.origin, ..theirs.clone() });
                continue;
            };
            if !ours.agrees_with(theirs) {
                conflicts.push(Conflict { fid: theirs.fid, kept: self.claim(ours), dropped: other.claim(theirs) });
            } else if ours.enum_table == 0 {
                taken_over[usize::from(theirs.fid as u16)] = true;
            }
        }
        for table in &other.tables {
            self.extend_tables(table);
            let mut table = table.clone();
            table.fids.retain(|fid| {
                let unclaimed =
                    self.field(*fid).is_none_or(|def| def.enum_table == 0 && taken_over[usize::from(*fid as u16)]);
                unclaimed && !self.awaiting.contains_key(fid)
            });
            if table.fids.is_empty() || self.tables.len() + 1 >= usize::from(u16::MAX) {
                continue;
            }
            let index = self.tables.len() as u16;
            for fid in &table.fids {
                let acronym = other.awaiting.get(fid).map(|(_, acronym)| acronym.clone()).unwrap_or_default();
                self.link(*fid, acronym, index);
            }
            self.tables.push(table);
        }
        self.adopt_properties(&other.properties);
        conflicts
    }

    /// Adds the values that the tables here lack, where they serve a field that agrees on being an enumeration.
    fn extend_tables(&mut self, theirs: &EnumTable) {
        let mut indices: Vec<usize> = theirs
            .fids
            .iter()
            .filter_map(|fid| self.field(*fid))
            .filter(|def| def.data_type == DataType::ENUM)
            .filter_map(|def| usize::from(def.enum_table).checked_sub(1))
            .collect();
        indices.sort_unstable();
        indices.dedup();
        for index in indices {
            let values = &mut self.tables[index].values;
            let known = values.len();
            for value in &theirs.values {
                if values[..known].binary_search_by_key(&value.value, EnumValue::value).is_err() {
                    values.push(value.clone());
                }
            }
            values.sort_by_key(EnumValue::value);
        }
    }

    fn claim(&self, def: &FieldDef) -> Claim {
        Claim { origin: self.origin(def).to_owned(), acronym: def.acronym.to_string(), data_type: def.data_type }
    }

    /// Fills in what is not set.
    fn adopt_properties(&mut self, other: &Properties) {
        let own = &mut self.properties;
        if own.dictionary_id == 0 {
            own.dictionary_id = other.dictionary_id;
        }
        adopt(&mut own.field_version, &other.field_version);
        adopt(&mut own.enum_rt_version, &other.enum_rt_version);
        adopt(&mut own.enum_dt_version, &other.enum_dt_version);
    }
}

fn adopt(own: &mut String, other: &str) {
    if own.is_empty() {
        other.clone_into(own);
    }
}

/// `Type` of a field dictionary's tags and summary data.
const TYPE_FIELDS: i64 = 1;
/// `Type` of an enumeration dictionary's tags and summary data.
const TYPE_ENUMS: i64 = 2;

fn field_tag(properties: &mut Properties, name: &str, value: &str) -> Result<(), Fault> {
    match name {
        "Type" => expect_type(value, TYPE_FIELDS),
        "Version" => {
            adopt(&mut properties.field_version, value);
            Ok(())
        }
        "DictionaryId" => set_dictionary_id(properties, tag_number(value)?),
        _ => Ok(()),
    }
}

fn enum_tag(properties: &mut Properties, name: &str, value: &str) -> Result<(), Fault> {
    match name {
        "Type" => expect_type(value, TYPE_ENUMS),
        "RT_Version" => {
            adopt(&mut properties.enum_rt_version, value);
            Ok(())
        }
        "DT_Version" => {
            adopt(&mut properties.enum_dt_version, value);
            Ok(())
        }
        "DictionaryId" => set_dictionary_id(properties, tag_number(value)?),
        _ => Ok(()),
    }
}

fn tag_number(value: &str) -> Result<i64, Fault> {
    value.parse().map_err(|_| Fault::BadNumber { column: "tag value", text: value.to_owned() })
}

fn expect_type(value: &str, expected: i64) -> Result<(), Fault> {
    match tag_number(value)? {
        found if found == expected => Ok(()),
        found => Err(Fault::WrongType { expected, found }),
    }
}

fn set_dictionary_id(properties: &mut Properties, id: i64) -> Result<(), Fault> {
    let id = i16::try_from(id).map_err(|_| Fault::BadNumber { column: "DictionaryId", text: id.to_string() })?;
    if id != 0 && properties.dictionary_id != 0 && id != properties.dictionary_id {
        return Err(Fault::DictionaryIdMismatch { expected: properties.dictionary_id, found: id });
    }
    if id != 0 {
        properties.dictionary_id = id;
    }
    Ok(())
}
