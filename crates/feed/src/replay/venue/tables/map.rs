//! The mapping file of tables of ticks: which files, and what their columns are.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use serde::Deserialize;

use super::super::{date_in_name, date_of};

/// Why a mapping file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum MapError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is no TOML, or has keys that are none.
    #[error("{0}")]
    Toml(String),
    /// A key says what cannot be.
    #[error("table {table}: {key}: {what}")]
    Key {
        /// Which of its tables, from 1.
        table: usize,
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    table: Vec<RawTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    files: Vec<String>,
    symbol: Option<String>,
    #[serde(default = "yes")]
    header: bool,
    #[serde(default = "comma")]
    delimiter: char,
    #[serde(default = "utc")]
    time_zone: String,
    #[serde(default)]
    time_unit: TimeUnit,
    #[serde(default)]
    time_of_day: bool,
    date: Option<String>,
    price_decimals: Option<u8>,
    size_decimals: Option<u8>,
    #[serde(default)]
    zero: Zero,
    #[serde(default)]
    buyers: Vec<String>,
    #[serde(default)]
    sellers: Vec<String>,
    #[serde(default)]
    condition_bits: bool,
    #[serde(default)]
    volume_alone: Vec<String>,
    #[serde(default)]
    nothing: Vec<String>,
    columns: RawColumns,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColumns {
    time: Column,
    date: Option<Column>,
    symbol: Option<Column>,
    bid: Option<Column>,
    bid_size: Option<Column>,
    ask: Option<Column>,
    ask_size: Option<Column>,
    price: Option<Column>,
    size: Option<Column>,
    number: Option<Column>,
    aggressor: Option<Column>,
    condition: Option<Column>,
}

fn yes() -> bool {
    true
}

fn comma() -> char {
    ','
}

fn utc() -> String {
    "UTC".to_owned()
}

/// A column: by the name in the heading, or by its place from 1.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Column {
    Place(usize),
    Name(String),
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Place(place) => write!(f, "{place}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Units of times that are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TimeUnit {
    /// Texts, as 2013-10-07 09:30:00.5.
    #[default]
    Text,
    S,
    Ms,
    Us,
    Ns,
}

impl TimeUnit {
    pub(super) fn nanos(self) -> u64 {
        match self {
            Self::Text | Self::S => 1_000_000_000,
            Self::Ms => 1_000_000,
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }
}

/// What a price of 0 means. A blank one always means that the row does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Zero {
    /// There is none on that side.
    #[default]
    None,
    /// The row does not tell: the side stays as it is.
    Untold,
    /// It is a price.
    Price,
}

/// What a column is for; the numbers are places in a row that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Time,
    Date,
    Symbol,
    Bid,
    BidSize,
    Ask,
    AskSize,
    Price,
    Size,
    Number,
    Aggressor,
    Condition,
}

pub(super) const ROLES: usize = 12;

/// For which a trade counts, by its condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    /// Conditions are hexadecimal numbers, a bit each; else words.
    pub is_bits: bool,
    pub volume_alone: (u64, Vec<String>),
    pub nothing: (u64, Vec<String>),
}

impl Conditions {
    fn has(&self, (bits, words): &(u64, Vec<String>), condition: &str) -> bool {
        if self.is_bits {
            u64::from_str_radix(condition.trim_start_matches("0x"), 16).is_ok_and(|found| found & bits != 0)
        } else {
            words.iter().any(|word| word == condition)
        }
    }

    /// It is none of the day's trades.
    pub(super) fn is_nothing(&self, condition: &str) -> bool {
        self.has(&self.nothing, condition)
    }

    /// It counts for the last, highest, lowest and first price.
    pub(super) fn is_eligible(&self, condition: &str) -> bool {
        !self.has(&self.volume_alone, condition)
    }
}

/// A table: files that are read one after the other, and what their columns are.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub files: Vec<PathBuf>,
    /// Of all rows, where no column has it.
    pub symbol: Option<String>,
    pub has_header: bool,
    pub delimiter: u8,
    pub zone: TimeZone,
    pub unit: TimeUnit,
    /// Times are of the day: since midnight, or texts without a date.
    pub is_of_day: bool,
    /// Days since 1970 of rows without a date.
    pub date: Option<u32>,
    /// Prices and sizes are whole numbers in units of the last of so many decimals; `None`: they have a point.
    pub price_decimals: Option<u8>,
    pub size_decimals: Option<u8>,
    pub zero: Zero,
    pub buyers: Vec<String>,
    pub sellers: Vec<String>,
    pub conditions: Conditions,
    pub columns: Vec<(Role, Column)>,
}

impl Table {
    pub(super) fn has(&self, role: Role) -> bool {
        self.columns.iter().any(|(known, _)| *known == role)
    }
}

/// Reads a mapping file; its files are beside it.
pub(super) fn read(path: &Path) -> Result<Vec<Table>, MapError> {
    let text = std::fs::read_to_string(path)?;
    let file: File = toml::from_str(&text).map_err(|error| MapError::Toml(error.to_string()))?;
    if file.table.is_empty() {
        return Err(MapError::Toml("it has no [[table]]".to_owned()));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    file.table.into_iter().enumerate().map(|(n, raw)| table(raw, n + 1, folder)).collect()
}

fn bits(words: &[String]) -> Option<u64> {
    words.iter().try_fold(0, |all, word| Some(all | u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()?))
}

fn table(raw: RawTable, number: usize, folder: &Path) -> Result<Table, MapError> {
    let wrong = |key, what: &str| MapError::Key { table: number, key, what: what.to_owned() };
    let RawColumns { time, date, symbol, bid, bid_size, ask, ask_size, price, size, .. } = &raw.columns;
    let RawColumns { number: of_trade, aggressor, condition, .. } = &raw.columns;
    let all = [
        (Role::Time, &Some(time.clone())),
        (Role::Date, date),
        (Role::Symbol, symbol),
        (Role::Bid, bid),
        (Role::BidSize, bid_size),
        (Role::Ask, ask),
        (Role::AskSize, ask_size),
        (Role::Price, price),
        (Role::Size, size),
        (Role::Number, of_trade),
        (Role::Aggressor, aggressor),
        (Role::Condition, condition),
    ];
    let columns = all.into_iter().filter_map(|(role, column)| Some((role, column.clone()?)));
    let columns: Vec<(Role, Column)> = columns.collect();
    if raw.files.is_empty() {
        return Err(wrong("files", "a table has at least one"));
    }
    if raw.symbol.is_some() == symbol.is_some() {
        return Err(wrong("symbol", "either the symbol of all rows, or columns.symbol"));
    }
    if bid.is_none() && ask.is_none() && price.is_none() {
        return Err(wrong("columns", "none of bid, ask and price: the table tells nothing"));
    }
    if columns.iter().any(|(_, column)| *column == Column::Place(0)) {
        return Err(wrong("columns", "places count from 1"));
    }
    if !raw.header && columns.iter().any(|(_, column)| matches!(column, Column::Name(_))) {
        return Err(wrong("columns", "without a heading columns are named by their place"));
    }
    if !raw.delimiter.is_ascii() {
        return Err(wrong("delimiter", "it is one character of ASCII"));
    }
    for (key, decimals, most) in [
        ("price_decimals", raw.price_decimals, super::PRICE_DECIMALS),
        ("size_decimals", raw.size_decimals, super::SIZE_DECIMALS),
    ] {
        if decimals.is_some_and(|decimals| decimals > most) {
            return Err(wrong(key, &format!("at most {most}")));
        }
    }
    let zone = TimeZone::get(&raw.time_zone).map_err(|_| {
        wrong("time_zone", &format!("{:?} is no zone of the tz database, as America/New_York or UTC", raw.time_zone))
    })?;
    let files: Vec<PathBuf> = raw.files.iter().map(|file| folder.join(file)).collect();
    let date = match &raw.date {
        Some(text) => Some(date_of(text).ok_or_else(|| wrong("date", "it is written 2013-10-07"))?),
        None => files.first().and_then(|file| date_in_name(file)),
    };
    if raw.time_of_day && date.is_none() && columns.iter().all(|(role, _)| *role != Role::Date) {
        return Err(wrong("time_of_day", "the day is wanted: date, columns.date, or in the file's name"));
    }
    let conditions = if raw.condition_bits {
        let (Some(volume), Some(nothing)) = (bits(&raw.volume_alone), bits(&raw.nothing)) else {
            return Err(wrong("condition_bits", "volume_alone and nothing are hexadecimal numbers then"));
        };
        Conditions { is_bits: true, volume_alone: (volume, Vec::new()), nothing: (nothing, Vec::new()) }
    } else {
        Conditions { is_bits: false, volume_alone: (0, raw.volume_alone), nothing: (0, raw.nothing) }
    };
    Ok(Table {
        files,
        symbol: raw.symbol,
        has_header: raw.header,
        delimiter: raw.delimiter as u8,
        zone,
        unit: raw.time_unit,
        is_of_day: raw.time_of_day,
        date,
        price_decimals: raw.price_decimals,
        size_decimals: raw.size_decimals,
        zero: raw.zero,
        buyers: raw.buyers,
        sellers: raw.sellers,
        conditions,
        columns,
    })
}
