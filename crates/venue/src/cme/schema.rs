//! The layout of SBE messages, read from the exchange's own schema (XML): which fields a template has, where, and what stands for none.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The text is no XML.
    #[error("not XML: {0}")]
    Xml(String),
    /// An attribute is missing or no number.
    #[error("<{element}> needs {attribute}")]
    Attribute {
        /// The element.
        element: String,
        /// What it lacks.
        attribute: &'static str,
    },
    /// A type that no element of the schema defines.
    #[error("field {field}: there is no type {name}")]
    Type {
        /// The field.
        field: String,
        /// Its type.
        name: String,
    },
    /// No message in it.
    #[error("no message in it")]
    Empty,
    /// A field lies beyond what a block can have.
    #[error("{0} is too long")]
    Long(String),
}

/// Value of a field as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Whole numbers, enumerations and sets of bits.
    Number { bytes: u8, is_signed: bool },
    /// A number times ten to the exponent.
    Decimal { bytes: u8, exponent: i8 },
    /// Bytes of text, blank or zero behind.
    Text { bytes: u16 },
    /// Takes no place.
    Constant(i64),
    /// Of no use here; takes so many bytes.
    Other { bytes: u16 },
}

impl Shape {
    fn bytes(self) -> u16 {
        match self {
            Self::Number { bytes, .. } | Self::Decimal { bytes, .. } => u16::from(bytes),
            Self::Text { bytes } | Self::Other { bytes } => bytes,
            Self::Constant(_) => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Type {
    shape: Shape,
    /// What stands for no value.
    null: Option<i64>,
}

/// A field of a block.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    offset: u16,
    kind: Type,
}

impl Field {
    /// The number that it has in a block; of a decimal the mantissa. `None`: no value, or the block ends before it.
    #[inline]
    pub fn number(&self, block: &[u8]) -> Option<i64> {
        let (bytes, is_signed) = match self.kind.shape {
            Shape::Number { bytes, is_signed } => (bytes, is_signed),
            Shape::Decimal { bytes, .. } => (bytes, true),
            Shape::Constant(value) => return Some(value),
            Shape::Text { .. } | Shape::Other { .. } => return None,
        };
        let at = usize::from(self.offset);
        let raw = block.get(at..at + usize::from(bytes))?;
        let value = raw.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let unused = 64 - 8 * u32::from(bytes);
        let value = if is_signed { (value << unused) as i64 >> unused } else { value as i64 };
        Some(value).filter(|value| self.kind.null != Some(*value))
    }

    /// A price in billionths; `None`: no value, or one that cannot be counted so.
    #[inline]
    pub fn price(&self, block: &[u8]) -> Option<i64> {
        let mantissa = self.number(block)?;
        let Shape::Decimal { exponent, .. } = self.kind.shape else { return Some(mantissa) };
        match u32::try_from(i32::from(exponent) + 9) {
            Ok(0) => Some(mantissa),
            Ok(more) => mantissa.checked_mul(10i64.checked_pow(more)?),
            Err(_) => None,
        }
    }

    /// A text without what is blank or zero around it.
    pub fn text<'b>(&self, block: &'b [u8]) -> Option<&'b [u8]> {
        let Shape::Text { bytes } = self.kind.shape else { return None };
        let at = usize::from(self.offset);
        let text = block.get(at..at + usize::from(bytes))?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Some(text[..end].trim_ascii())
    }
}

/// Fields of the root or of a group, by name.
#[derive(Clone, Debug, Default)]
pub struct Block {
    fields: HashMap<String, Field>,
    end: u16,
}

impl Block {
    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }
}

/// A group that repeats.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub block: Block,
    /// Of the head in front of its entries: bytes of it, where the number of entries is and how wide.
    head: (u16, u16, u8),
}

/// A message's layout.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its name, without the number that versions put behind it.
    pub name: String,
    /// The fields in front of the groups.
    pub root: Block,
    /// The groups, in the order in which they come.
    pub groups: Vec<Group>,
}

/// The layouts of a schema, by number of template.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    templates: HashMap<u16, Template>,
}

/// Bytes of a primitive type, and whether it is signed.
fn primitive(name: &str) -> Option<(u8, bool)> {
    Some(match name {
        "char" | "uint8" => (1, false),
        "int8" => (1, true),
        "int16" => (2, true),
        "uint16" => (2, false),
        "int32" => (4, true),
        "uint32" => (4, false),
        "int64" => (8, true),
        "uint64" => (8, false),
        _ => return None,
    })
}

/// What stands for no value where the schema does not say it, as SBE has it.
fn usual_null(name: &str) -> Option<i64> {
    Some(match name {
        "char" => 0,
        "uint8" => 255,
        "int8" => i64::from(i8::MIN),
        "int16" => i64::from(i16::MIN),
        "uint16" => i64::from(u16::MAX),
        "int32" => i64::from(i32::MIN),
        "uint32" => i64::from(u32::MAX),
        "int64" => i64::MIN,
        "uint64" => -1,
        _ => return None,
    })
}

/// A composite's parts: name, type, where it says that it lies.
type Parts = Vec<(String, Type, Option<u16>)>;

#[derive(Default)]
struct Reading {
    schema: Schema,
    types: HashMap<String, Type>,
    composites: HashMap<String, Parts>,
    composite: Option<(String, Parts)>,
    /// The type whose constant is in the text that follows.
    constant: Option<String>,
    message: Option<(u16, Template)>,
    is_in_group: bool,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// It is no schema of SBE, or names what it does not define.
    pub fn read(text: &str) -> Result<Self, SchemaError> {
        let mut reader = Reader::from_str(text);
        let mut reading = Reading::default();
        loop {
            match reader.read_event().map_err(|e| SchemaError::Xml(e.to_string()))? {
                Event::Start(element) => reading.open(&element)?,
                Event::Empty(element) => {
                    reading.open(&element)?;
                    reading.close(local(element.name().as_ref()));
                }
                Event::End(element) => reading.close(local(element.name().as_ref())),
                Event::Text(text) => reading.text(&text),
                Event::Eof => break,
                _ => {}
            }
        }
        if reading.schema.templates.is_empty() { Err(SchemaError::Empty) } else { Ok(reading.schema) }
    }

    /// The layout of a template.
    pub fn template(&self, number: u16) -> Option<&Template> {
        self.templates.get(&number)
    }

    /// All layouts with their numbers.
    pub fn templates(&self) -> impl Iterator<Item = (u16, &Template)> {
        self.templates.iter().map(|(number, template)| (*number, template))
    }
}

fn local(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b':').map_or(name, |at| &name[at + 1..])
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.attributes().flatten().find(|a| a.key.as_ref() == name.as_bytes())?;
    String::from_utf8(found.value.into_owned()).ok()
}

fn needed(element: &BytesStart<'_>, name: &'static str) -> Result<String, SchemaError> {
    let missing = || SchemaError::Attribute {
        element: String::from_utf8_lossy(element.name().as_ref()).into_owned(),
        attribute: name,
    };
    attribute(element, name).ok_or_else(missing)
}

fn number_of<T: std::str::FromStr>(element: &BytesStart<'_>, name: &'static str) -> Result<Option<T>, SchemaError> {
    let bad = |_| SchemaError::Attribute {
        element: String::from_utf8_lossy(element.name().as_ref()).into_owned(),
        attribute: name,
    };
    attribute(element, name).map(|text| text.parse().map_err(bad)).transpose()
}

impl Reading {
    fn open(&mut self, element: &BytesStart<'_>) -> Result<(), SchemaError> {
        match local(element.name().as_ref()) {
            b"composite" => self.composite = Some((needed(element, "name")?, Vec::new())),
            b"type" => {
                let (name, kind) = (needed(element, "name")?, simple(element)?);
                if attribute(element, "presence").as_deref() == Some("constant") {
                    self.constant = Some(name.clone());
                }
                self.define(element, name, kind)?;
            }
            b"enum" | b"set" => {
                let encoding = needed(element, "encodingType")?;
                let known = self.types.get(&encoding).copied();
                let plain = primitive(&encoding)
                    .map(|(bytes, is_signed)| Type { shape: Shape::Number { bytes, is_signed }, null: None });
                let name = needed(element, "name")?;
                let kind = known.or(plain).ok_or_else(|| SchemaError::Type { field: name.clone(), name: encoding })?;
                self.define(element, name, kind)?;
            }
            b"message" => {
                let name = needed(element, "name")?;
                let id = number_of(element, "id")?
                    .ok_or(SchemaError::Attribute { element: "message".to_owned(), attribute: "id" })?;
                let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
                self.message = Some((id, Template { name, root: Block::default(), groups: Vec::new() }));
            }
            b"group" => {
                let name = needed(element, "name")?;
                let dimension = attribute(element, "dimensionType").unwrap_or_else(|| "groupSizeEncoding".to_owned());
                let head = self.head(&name, &dimension)?;
                if let Some((_, template)) = &mut self.message {
                    template.groups.push(Group { name, block: Block::default(), head });
                    self.is_in_group = true;
                }
            }
            b"field" => self.field(element)?,
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, element: &[u8]) {
        match element {
            b"composite" => {
                if let Some((name, parts)) = self.composite.take() {
                    self.types.insert(name.clone(), composite(&parts));
                    self.composites.insert(name, parts);
                }
            }
            b"type" => self.constant = None,
            b"group" => self.is_in_group = false,
            b"message" => {
                if let Some((id, template)) = self.message.take() {
                    self.schema.templates.insert(id, template);
                }
            }
            _ => {}
        }
    }

    /// The value of a constant.
    fn text(&mut self, text: &[u8]) {
        let Some(name) = &self.constant else { return };
        let text = text.trim_ascii();
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let Some(value) = number.or_else(|| text.first().map(|byte| i64::from(*byte))) else { return };
        let part = self.composite.as_mut().and_then(|(_, parts)| parts.iter_mut().rev().find(|part| part.0 == *name));
        let kind = match part {
            Some(part) => Some(&mut part.1),
            None => self.types.get_mut(name),
        };
        if let Some(kind) = kind {
            kind.shape = Shape::Constant(value);
        }
    }

    fn define(&mut self, element: &BytesStart<'_>, name: String, kind: Type) -> Result<(), SchemaError> {
        let offset = number_of(element, "offset")?;
        match &mut self.composite {
            Some((_, parts)) => parts.push((name, kind, offset)),
            None => {
                self.types.insert(name, kind);
            }
        }
        Ok(())
    }

    /// The head of a group: its length, where the count is, and how wide.
    fn head(&self, group: &str, dimension: &str) -> Result<(u16, u16, u8), SchemaError> {
        let unknown = || SchemaError::Type { field: group.to_owned(), name: dimension.to_owned() };
        let parts = self.composites.get(dimension).ok_or_else(unknown)?;
        let (mut at, mut count) = (0u16, None);
        for (name, kind, offset) in parts {
            at = offset.unwrap_or(at);
            if name == "numInGroup" {
                count = Some((at, kind.shape.bytes() as u8));
            }
            at = at.saturating_add(kind.shape.bytes());
        }
        let (offset, bytes) = count.filter(|(_, bytes)| (1..=8).contains(bytes)).ok_or_else(unknown)?;
        Ok((at, offset, bytes))
    }

    fn field(&mut self, element: &BytesStart<'_>) -> Result<(), SchemaError> {
        let (name, kind) = (needed(element, "name")?, needed(element, "type")?);
        let plain = primitive(&kind).map(|(bytes, is_signed)| Type {
            shape: Shape::Number { bytes, is_signed },
            null: usual_null(&kind).filter(|_| attribute(element, "presence").as_deref() == Some("optional")),
        });
        let kind = self.types.get(&kind).copied().or(plain);
        let kind = kind.ok_or_else(|| SchemaError::Type {
            field: name.clone(),
            name: attribute(element, "type").unwrap_or_default(),
        })?;
        let offset = number_of::<u16>(element, "offset")?;
        let Some((_, template)) = &mut self.message else { return Ok(()) };
        let block = match template.groups.last_mut() {
            Some(group) if self.is_in_group => &mut group.block,
            _ => &mut template.root,
        };
        let offset = offset.unwrap_or(block.end);
        block.end = offset.checked_add(kind.shape.bytes()).ok_or_else(|| SchemaError::Long(name.clone()))?;
        block.fields.insert(name, Field { offset, kind });
        Ok(())
    }
}

/// A simple type of the schema.
fn simple(element: &BytesStart<'_>) -> Result<Type, SchemaError> {
    let name = needed(element, "primitiveType")?;
    let length: u16 = number_of(element, "length")?.unwrap_or(1);
    let shape = match primitive(&name) {
        Some((1, false)) if name == "char" && length > 1 => Shape::Text { bytes: length },
        Some((bytes, is_signed)) if length == 1 => Shape::Number { bytes, is_signed },
        known => {
            let bytes = known.map_or(if name == "float" { 4 } else { 8 }, |(bytes, _)| u16::from(bytes));
            let bytes = bytes.checked_mul(length).ok_or_else(|| SchemaError::Long(name.clone()))?;
            Shape::Other { bytes }
        }
    };
    // The highest of u64 is read as -1, as the field itself is.
    let said = attribute(element, "nullValue")
        .and_then(|text| text.parse::<i64>().ok().or_else(|| text.parse::<u64>().ok().map(|value| value as i64)));
    let is_optional = attribute(element, "presence").as_deref() == Some("optional");
    Ok(Type { shape, null: said.or_else(|| usual_null(&name).filter(|_| is_optional)) })
}

/// A composite as one value: a decimal, the only number in it, or so many bytes.
fn composite(parts: &Parts) -> Type {
    let mantissa = parts.iter().find(|part| part.0 == "mantissa").map(|part| part.1);
    let exponent = parts.iter().find(|part| part.0 == "exponent").map(|part| part.1.shape);
    if let (Some(Type { shape: Shape::Number { bytes, .. }, null }), Some(Shape::Constant(exponent))) =
        (mantissa, exponent)
    {
        return Type { shape: Shape::Decimal { bytes, exponent: exponent as i8 }, null };
    }
    let end = parts.iter().fold(0u16, |at, part| part.2.unwrap_or(at).saturating_add(part.1.shape.bytes()));
    Type { shape: Shape::Other { bytes: end }, null: None }
}

/// A message of a packet, taken apart by its own lengths: newer versions are longer.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Number of its template.
    pub number: u16,
    /// Its layout.
    pub template: &'a Template,
    /// The root, as long as the message says.
    pub root: &'a [u8],
    rest: &'a [u8],
}

/// Bytes in front of a message: its size, and the header of SBE.
const HEADER: usize = 10;

/// What a message of a packet is.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A message of the schema.
    Message(Message<'a>),
    /// A template that the schema does not have: passed over by its length.
    Unknown(u16),
}

impl Schema {
    /// The first message of `bytes`, and what is behind it. `None`: it ends before the message that it begins.
    #[inline]
    pub fn split<'a>(&'a self, bytes: &'a [u8]) -> Option<(Found<'a>, &'a [u8])> {
        let u16_at = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let size = usize::from(u16_at(0)?);
        let (block, number) = (usize::from(u16_at(2)?), u16_at(4)?);
        if size < HEADER {
            return None;
        }
        let (message, behind) = bytes.split_at_checked(size)?;
        let Some(template) = self.template(number) else { return Some((Found::Unknown(number), behind)) };
        let (root, rest) = message[HEADER..].split_at_checked(block)?;
        Some((Found::Message(Message { number, template, root, rest }), behind))
    }
}

impl<'a> Message<'a> {
    /// The entries of the groups, one after the other, with the number of their group; it ends where an entry would not be whole.
    pub fn entries(&self) -> Entries<'a> {
        Entries { groups: &self.template.groups, group: 0, left: 0, length: 0, rest: self.rest, is_cut: false }
    }
}

/// See [`Message::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    groups: &'a [Group],
    /// One more than the group that is being read.
    group: usize,
    left: u64,
    length: usize,
    rest: &'a [u8],
    is_cut: bool,
}

impl Entries<'_> {
    /// The message ended before all that it counts.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.left == 0 {
            let (length, offset, bytes) = self.groups.get(self.group)?.head;
            let Some((head, rest)) = self.rest.split_at_checked(usize::from(length).max(2)) else {
                // A version of before may have had fewer groups.
                self.is_cut |= !self.rest.is_empty();
                self.group = self.groups.len();
                return None;
            };
            let count = head.get(usize::from(offset)..usize::from(offset) + usize::from(bytes))?;
            self.left = count.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            self.length = usize::from(u16::from_le_bytes([head[0], head[1]]));
            (self.rest, self.group) = (rest, self.group + 1);
            // Entries of no bytes would never end.
            if self.length == 0 {
                self.left = 0;
            }
        }
        let Some((entry, rest)) = self.rest.split_at_checked(self.length) else {
            self.is_cut = true;
            (self.left, self.group) = (0, self.groups.len());
            return None;
        };
        (self.rest, self.left) = (rest, self.left - 1);
        Some((self.group - 1, entry))
    }
}
