use std::fmt;

use crate::DecodeError;

/// Why a dictionary could not be loaded: which file or message, where in it, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DictionaryError {
    /// The file or service, as the caller named it.
    pub origin: String,
    /// Where in it.
    pub place: Place,
    /// The fault.
    pub fault: Fault,
}

/// Where in a dictionary a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Line of a file, from 1.
    Line(u32),
    /// Entry of a dictionary message, from 1; 0 for what stands before the entries.
    Entry(u32),
}

/// What is wrong with a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A column or element is not there.
    Missing(&'static str),
    /// A column is not UTF-8.
    NotText(&'static str),
    /// A column is no number, or one out of range.
    BadNumber {
        /// The column.
        column: &'static str,
        /// What stands there.
        text: String,
    },
    /// Field id 0, which may not be defined.
    ReservedFid,
    /// A type name that is not known.
    UnknownType(String),
    /// The field id is defined already.
    DuplicateFid(i16),
    /// The display's hexadecimal digits are odd in number, or none.
    BadHex,
    /// Enumeration values before any field.
    TableWithoutField,
    /// A value twice in a table.
    DuplicateEnumValue(u16),
    /// The field has an enumeration already.
    DuplicateTable(i16),
    /// Over 65,534 tables.
    TooManyTables,
    /// Field and enumeration dictionary disagree on a field's name.
    AcronymMismatch {
        /// The field id.
        fid: i16,
        /// The field's name among the fields.
        fields: String,
        /// The field's name among the enumerations.
        enums: String,
    },
    /// The other kind of dictionary: `Type` is 1 for fields, 2 for enumerations.
    WrongType {
        /// The request.
        expected: i64,
        /// Its kind.
        found: i64,
    },
    /// Belongs to another dictionary than what was loaded before.
    DictionaryIdMismatch {
        /// The id that was loaded before.
        expected: i16,
        /// The id here.
        found: i16,
    },
    /// The lists of values and of displays differ in length.
    UnevenTable {
        /// Number of values.
        values: usize,
        /// Number of displays.
        displays: usize,
    },
    /// An element has a type that it cannot have.
    WrongElement(&'static str),
    /// The message is not well formed.
    Undecodable(DecodeError),
}

impl DictionaryError {
    pub(super) fn new(origin: &str, place: Place, fault: Fault) -> Self {
        Self { origin: origin.to_owned(), place, fault }
    }
}

impl fmt::Display for DictionaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Line(line) => write!(f, "{}:{line}: {}", self.origin, self.fault),
            Place::Entry(0) => write!(f, "{}: {}", self.origin, self.fault),
            Place::Entry(entry) => write!(f, "{}, entry {entry}: {}", self.origin, self.fault),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "{what} is missing"),
            Self::NotText(column) => write!(f, "{column} is not UTF-8 text"),
            Self::BadNumber { column, text } => write!(f, "{column} {text:?} is not a number in range"),
            Self::ReservedFid => f.write_str("field id 0 is reserved"),
            Self::UnknownType(name) => write!(f, "type {name:?} is not known"),
            Self::DuplicateFid(fid) => write!(f, "field {fid} is already defined"),
            Self::BadHex => f.write_str("a display between # needs an even number of hexadecimal digits"),
            Self::TableWithoutField => f.write_str("enumeration values must follow the fields that use them"),
            Self::DuplicateEnumValue(value) => write!(f, "value {value} stands twice in the table"),
            Self::DuplicateTable(fid) => write!(f, "field {fid} already has an enumeration"),
            Self::TooManyTables => f.write_str("more than 65,534 enumeration tables"),
            Self::AcronymMismatch { fid, fields, enums } => {
                write!(f, "field {fid} is {fields} in the field dictionary but {enums} in the enumerations")
            }
            Self::WrongType { expected, found } => {
                write!(f, "dictionary type {found} where {expected} was expected (1 fields, 2 enumerations)")
            }
            Self::DictionaryIdMismatch { expected, found } => {
                write!(f, "dictionary id {found} does not match {expected}, loaded before")
            }
            Self::UnevenTable { values, displays } => write!(f, "{values} values but {displays} displays"),
            Self::WrongElement(name) => write!(f, "element {name} has the wrong type"),
            Self::Undecodable(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for DictionaryError {}
