//! Rows of a file as texts of the columns that are wanted: CSV, plain or packed, and Parquet.

use std::fs::File;
use std::io;
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use super::super::bytes::Bytes;
use super::map::{Column, ROLES, Role, Table, TimeUnit};

/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// A longer row is none.
const LONGEST: usize = 1 << 20;

/// Texts of a row by what they are for; empty: there is no such column, or the row has nothing there.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    texts: [String; ROLES],
    /// The unit of its time, where the file says so itself.
    pub unit: Option<TimeUnit>,
}

impl Row {
    pub(super) fn text(&self, role: Role) -> &str {
        &self.texts[role as usize]
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A file that is read row by row.
pub(super) enum Rows {
    Csv(Box<Csv>),
    Parquet(Box<Parquet>),
}

impl Rows {
    pub(super) fn open(path: &Path, table: &Table) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let mut head = [0; 4];
        let is_parquet = {
            let mut file = File::open(path).map_err(named)?;
            io::Read::read_exact(&mut file, &mut head).is_ok() && head == PARQUET
        };
        if is_parquet {
            return Ok(Self::Parquet(Box::new(Parquet::open(path, table).map_err(named)?)));
        }
        Ok(Self::Csv(Box::new(Csv::open(path, table).map_err(named)?)))
    }

    /// The next row; false at the end.
    pub(super) fn next(&mut self, row: &mut Row) -> bool {
        match self {
            Self::Csv(csv) => csv.next(row),
            Self::Parquet(parquet) => parquet.next(row),
        }
    }

    /// Why the file could not be read to its end.
    pub(super) fn trouble(&self) -> Option<&str> {
        match self {
            Self::Csv(csv) => csv.bytes.trouble().or(csv.is_torn.then_some("the last row is torn")),
            Self::Parquet(parquet) => parquet.trouble.as_deref(),
        }
    }
}

/// Rows of CSV (RFC 4180): fields may stand in quotes, with the delimiter, quotes twice and ends of lines in them.
pub(super) struct Csv {
    bytes: Bytes,
    piece: Vec<u8>,
    taken: usize,
    delimiter: u8,
    /// What each field of a row is for.
    places: Vec<(Role, usize)>,
    fields: Vec<Vec<u8>>,
    count: usize,
    is_torn: bool,
}

impl Csv {
    fn open(path: &Path, table: &Table) -> io::Result<Self> {
        let mut new = Self {
            bytes: Bytes::open(path)?,
            piece: Vec::new(),
            taken: 0,
            delimiter: table.delimiter,
            places: Vec::new(),
            fields: Vec::new(),
            count: 0,
            is_torn: false,
        };
        let names: Vec<String> = if table.has_header {
            if !new.read() {
                return Err(invalid("there is no heading in it".to_owned()));
            }
            let names = new.fields[..new.count].iter();
            names.map(|field| String::from_utf8_lossy(field).trim_start_matches('\u{FEFF}').trim().to_owned()).collect()
        } else {
            Vec::new()
        };
        new.places = places(table, &names)?;
        Ok(new)
    }

    fn byte(&mut self) -> Option<u8> {
        if self.taken == self.piece.len() {
            self.taken = 0;
            if !self.bytes.next(&mut self.piece) {
                self.piece.clear();
                return None;
            }
        }
        self.taken += 1;
        self.piece.get(self.taken - 1).copied()
    }

    /// Reads a row's fields; false at the end. What is too long for a row is cut.
    fn read(&mut self) -> bool {
        let (mut length, mut is_quoted, mut had_quote, mut is_empty) = (0, false, false, true);
        self.count = 0;
        self.begin_field();
        loop {
            let Some(byte) = self.byte() else {
                // A last row without an end is whole, unless the file is cut.
                self.is_torn = !is_empty && (is_quoted || self.bytes.trouble().is_some());
                return !is_empty && !self.is_torn;
            };
            length += 1;
            match byte {
                b'"' if is_quoted => (is_quoted, had_quote) = (false, true),
                b'"' if had_quote => {
                    (is_quoted, had_quote) = (true, false);
                    self.push(b'"', length);
                }
                b'"' if self.fields[self.count - 1].is_empty() => is_quoted = true,
                b'\n' if !is_quoted => {
                    if is_empty {
                        continue;
                    }
                    let last = &mut self.fields[self.count - 1];
                    if last.last() == Some(&b'\r') {
                        last.pop();
                    }
                    return true;
                }
                _ if byte == self.delimiter && !is_quoted => {
                    (had_quote, is_empty) = (false, false);
                    self.begin_field();
                }
                _ => {
                    is_empty &= byte == b'\r';
                    self.push(byte, length);
                }
            }
            is_empty &= !is_quoted;
        }
    }

    fn begin_field(&mut self) {
        if self.count == self.fields.len() {
            self.fields.push(Vec::new());
        }
        self.fields[self.count].clear();
        self.count += 1;
    }

    fn push(&mut self, byte: u8, length: usize) {
        if length <= LONGEST {
            self.fields[self.count - 1].push(byte);
        }
    }

    fn next(&mut self, row: &mut Row) -> bool {
        if !self.read() {
            return false;
        }
        for (role, place) in &self.places {
            let text = &mut row.texts[*role as usize];
            text.clear();
            if let Some(field) = self.fields[..self.count].get(*place) {
                text.push_str(String::from_utf8_lossy(field).trim());
            }
        }
        true
    }
}

/// Where the columns are that are wanted.
fn places(table: &Table, names: &[String]) -> io::Result<Vec<(Role, usize)>> {
    let place = |column: &Column| match column {
        Column::Place(place) => Ok(place - 1),
        Column::Name(name) => names
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| invalid(format!("there is no column {name}, but {}", names.join(", ")))),
    };
    table.columns.iter().map(|(role, column)| Ok((*role, place(column)?))).collect()
}

/// Rows of Parquet.
pub(super) struct Parquet {
    rows: RowIter<'static>,
    places: Vec<(Role, usize)>,
    trouble: Option<String>,
}

impl Parquet {
    fn open(path: &Path, table: &Table) -> io::Result<Self> {
        let reader = SerializedFileReader::new(File::open(path)?).map_err(|error| invalid(error.to_string()))?;
        let schema = reader.metadata().file_metadata().schema();
        let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
        let places = places(table, &names)?;
        if let Some((_, place)) = places.iter().find(|(_, place)| *place >= names.len()) {
            return Err(invalid(format!("there is no column {}: it has {}", place + 1, names.len())));
        }
        Ok(Self { rows: RowIter::from_file_into(Box::new(reader)), places, trouble: None })
    }

    fn next(&mut self, row: &mut Row) -> bool {
        let found = match self.rows.next() {
            Some(Ok(found)) => found,
            Some(Err(error)) => {
                self.trouble = Some(error.to_string());
                return false;
            }
            None => return false,
        };
        let fields: Vec<&Field> = found.get_column_iter().map(|(_, field)| field).collect();
        row.unit = None;
        for (role, place) in &self.places {
            let text = &mut row.texts[*role as usize];
            text.clear();
            let unit = match fields.get(*place) {
                None | Some(Field::Null) => continue,
                Some(Field::Str(value)) => {
                    text.push_str(value);
                    None
                }
                Some(Field::TimestampMillis(value)) => {
                    text.push_str(&value.to_string());
                    Some(TimeUnit::Ms)
                }
                Some(Field::TimestampMicros(value) | Field::TimeMicros(value)) => {
                    text.push_str(&value.to_string());
                    Some(TimeUnit::Us)
                }
                Some(Field::TimeMillis(value)) => {
                    text.push_str(&value.to_string());
                    Some(TimeUnit::Ms)
                }
                Some(other) => {
                    // Numbers as they are written: a double is the shortest text that is read back as the same.
                    text.push_str(&plain(other));
                    None
                }
            };
            if *role == Role::Time {
                row.unit = unit;
            }
        }
        true
    }
}

fn plain(field: &Field) -> String {
    match field {
        Field::Double(value) => format!("{value}"),
        Field::Float(value) => format!("{value}"),
        other => other.to_string().trim_matches('"').to_owned(),
    }
}
