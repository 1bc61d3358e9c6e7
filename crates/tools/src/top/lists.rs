//! The lists that `top` shows: where each comes from, its columns, what in it is sick.

use serde_json::Value;

use crate::administration::offer_text;
use crate::ui::plain::thousands;

/// The lists that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum List {
    #[default]
    Clients,
    Items,
    Services,
    Providers,
    Events,
}

/// A column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Where it stands in a row: a JSON pointer without its first slash.
    pub(super) member: &'static str,
    /// 0: what is left.
    pub(super) width: u16,
}

/// Least width of a column that takes what is left.
const LEAST: u16 = 12;

impl Column {
    const fn new(title: &'static str, member: &'static str, width: u16) -> Self {
        Self { title, member, width }
    }

    pub(super) fn of<'a>(&self, row: &'a Value) -> &'a Value {
        self.member.split('/').fold(row, |value, name| &value[name])
    }
}

const CLIENTS: [Column; 10] = [
    Column::new("id", "id", 7),
    Column::new("address", "address", 21),
    Column::new("user", "user", 0),
    Column::new("items", "items", 9),
    Column::new("waiting", "queued_bytes", 11),
    Column::new("bytes/s", "bytes_per_s", 11),
    Column::new("rtt us", "traffic/round_trip_us", 9),
    Column::new("protocol", "protocol", 9),
    Column::new("seconds", "connected_s", 9),
    Column::new("application", "application", 0),
];
const ITEMS: [Column; 5] = [
    Column::new("item", "name", 0),
    Column::new("state", "state", 13),
    Column::new("watchers", "watchers", 9),
    Column::new("service", "service", 0),
    Column::new("domain", "domain", 7),
];
const SERVICES: [Column; 6] = [
    Column::new("service", "name", 0),
    Column::new("up", "up", 4),
    Column::new("waiting", "waiting", 9),
    Column::new("suspect", "suspect", 9),
    Column::new("accepting", "accepting", 9),
    Column::new("served by", "providers", 0),
];
const PROVIDERS: [Column; 7] = [
    Column::new("id", "id", 7),
    Column::new("address", "address", 0),
    Column::new("state", "state", 14),
    Column::new("bytes/s", "bytes_per_s", 11),
    Column::new("services", "services", 0),
    Column::new("rtt us", "traffic/round_trip_us", 9),
    Column::new("kind", "kind", 15),
];
const EVENTS: [Column; 3] =
    [Column::new("number", "number", 7), Column::new("level", "level", 6), Column::new("what", "text", 0)];

impl List {
    pub(super) const ALL: [Self; 5] = [Self::Clients, Self::Items, Self::Services, Self::Providers, Self::Events];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Items => "items",
            Self::Services => "services",
            Self::Providers => "providers",
            Self::Events => "events",
        }
    }

    /// The columns, those first that are wanted most. Numbers are right-aligned.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Clients => &CLIENTS,
            Self::Items => &ITEMS,
            Self::Services => &SERVICES,
            Self::Providers => &PROVIDERS,
            Self::Events => &EVENTS,
        }
    }

    /// The list that comes `steps` behind this one.
    pub(super) fn next(self, steps: usize) -> Self {
        let at = Self::ALL.iter().position(|list| *list == self).unwrap_or(0);
        Self::ALL[(at + steps) % Self::ALL.len()]
    }

    /// Where the rows come from. What is searched for is found by the process where it may have more than it tells at once.
    pub(super) fn path(self, search: &str) -> String {
        let title = self.title();
        match self {
            Self::Clients | Self::Items if search.is_empty() => format!("/api/v1/{title}?limit=1000"),
            Self::Clients | Self::Items => format!("/api/v1/{title}?limit=1000&contains={}", escaped(search)),
            _ => format!("/api/v1/{title}"),
        }
    }

    pub(super) fn is_sick(self, row: &Value) -> bool {
        match self {
            Self::Clients => row["held_back"] == true || row["load"].as_str().is_some_and(|load| load != "normal"),
            Self::Items => row["state"].as_str().is_some_and(|state| state != "open"),
            Self::Services => row["up"] == false,
            Self::Providers => row["state"] != "ready",
            Self::Events => row["level"] == "error" || row["level"] == "warn",
        }
    }
}

/// Text as part of a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The columns that fit: numbers are shown whole or not at all, so that the last ones give way.
pub(super) fn fitting(list: List, room: u16) -> Vec<Column> {
    let mut columns = list.columns().to_vec();
    let total = |columns: &[Column]| {
        columns.iter().map(|column| if column.width == 0 { LEAST } else { column.width } + 1).sum::<u16>()
    };
    while columns.len() > 1 && total(&columns) > room + 1 {
        columns.pop();
    }
    columns
}

/// A value as a cell.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Object(_) => String::new(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.as_f64().map_or_else(String::new, thousands),
        Value::String(text) => text.replace(net::plain::is_unprintable, "?"),
        Value::Array(list) => {
            list.iter().map(|one| offer_text(one).unwrap_or_else(|| shown(one))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A row, or what is told of it, as lines: each member with its name.
pub(super) fn lines(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    put(&mut lines, 0, value);
    lines
}

fn put(lines: &mut Vec<String>, depth: usize, value: &Value) {
    let room = " ".repeat(2 * depth);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace(net::plain::is_unprintable, "?");
                let is_flat = match member {
                    Value::Object(_) => false,
                    Value::Array(list) => !list.iter().any(Value::is_object),
                    _ => true,
                };
                if is_flat {
                    lines.push(format!("{room}{name:<20} {}", shown(member)).trim_end().to_owned());
                } else {
                    lines.push(format!("{room}{name}"));
                    put(lines, depth + 1, member);
                }
            }
        }
        Value::Array(list) => {
            for (n, one) in list.iter().enumerate() {
                if n > 0 {
                    lines.push(String::new());
                }
                put(lines, depth, one);
            }
        }
        other => lines.push(room + &shown(other)),
    }
}
