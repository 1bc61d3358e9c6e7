//! Answers as text: tables, members a line, times and durations as people read them.

use rwf::Date;
use serde_json::Value;

use crate::administration::offer_text;

/// Facts of a process, its times in words.
pub(super) fn process_text(process: &Value) -> String {
    let Value::Object(members) = process else { return String::new() };
    let in_words = |(name, value): (&String, &Value)| match (name.as_str(), value.as_u64()) {
        ("started", Some(_)) => (name.clone(), Value::String(time_text(value, 1))),
        ("uptime_s", Some(seconds)) => ("uptime".to_owned(), Value::String(duration_text(seconds))),
        _ => (name.clone(), value.clone()),
    };
    lines("", &Value::Object(members.iter().map(in_words).collect()))
}

/// A time since 1970, of which `parts` are a second, in UTC.
pub(super) fn time_text(time: &Value, parts: u64) -> String {
    let Some(time) = time.as_u64() else { return String::new() };
    let (seconds, part) = (time / parts, time % parts);
    let of_day = seconds % 86_400;
    let Date { year, month, day } = Date::from_days(u32::try_from(seconds / 86_400).unwrap_or(0));
    let fraction = if parts == 1_000 { format!(".{part:03}") } else { String::new() };
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Seconds as people say them.
fn duration_text(seconds: u64) -> String {
    let parts = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let shown: Vec<String> = parts
        .iter()
        .skip_while(|(count, unit)| *count == 0 && *unit != "s")
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    shown.join(" ")
}

/// An instance of a class of statistics: a line that names it, and one for each variable and child.
pub(super) fn instance_text(instance: &Value) -> String {
    let list = |name: &str| instance[name].as_array().into_iter().flatten();
    let head = ["Class", "Instance", "State"].map(|member| shown(&instance[member])).join(" ") + "\n";
    let variables = list("Variables").map(|one| format!("  {}: {}\n", shown(&one["Name"]), shown(&one["Value"])));
    let children = list("Children").map(|one| format!("  > {} {}\n", shown(&one["Class"]), shown(&one["Instance"])));
    [head].into_iter().chain(variables).chain(children).collect()
}

/// The image of an item, if its P2PS caches it: a field a line, other containers as JSON.
pub(super) fn image_text(image: &Value) -> String {
    let Value::Object(_) = image else { return String::new() };
    let of = if image["current"] == true { "" } else { " of before a loss" };
    let refresh = &image["refresh"];
    let content = match (&image["rows"], &refresh["Fields"]) {
        (Value::Array(rows), _) => rows.iter().map(|row| row.as_str().unwrap_or_default().to_owned() + "\n").collect(),
        (_, Value::Object(_)) => lines("", &refresh["Fields"]),
        _ => format!("{refresh:#}\n"),
    };
    format!("\nimage{of}:\n{content}")
}

/// An answer as JSON over lines, in which no text steers the terminal.
pub(super) fn json_text(value: &Value) -> String {
    let text = format!("{value:#}");
    text.split('\n').flat_map(|line| [net::plain::escaped_json(line), "\n".into()]).collect()
}

/// A value in a cell.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.replace(net::plain::is_unprintable, "?"),
        Value::Array(list) => {
            let one = |value: &Value| offer_text(value).unwrap_or_else(|| shown(value));
            list.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// Members as `name: value`, those within others behind their names.
pub(super) fn lines(before: &str, value: &Value) -> String {
    let Value::Object(members) = value else { return String::new() };
    let line = |(name, value): (&String, &Value)| match value {
        Value::Object(_) => lines(&format!("{before}{name}."), value),
        Value::Array(list) if list.iter().any(Value::is_object) => {
            let named = list.iter().enumerate().map(|(n, one)| {
                let own = one["name"].as_str().map_or_else(|| n.to_string(), str::to_owned);
                lines(&format!("{before}{name}.{own}."), one)
            });
            named.collect()
        }
        Value::Null => String::new(),
        _ => format!("{before}{name}: {}\n", shown(value)),
    };
    members.iter().map(line).collect()
}

/// A list as a table, as wide as its texts.
pub(super) fn table(list: &Value, columns: &[&str]) -> String {
    let mut table = Table::new(columns);
    table.add(list);
    table.text()
}

/// A table in the making. The texts of its cells stand one behind the other: a thousand rows are one piece of memory.
pub(super) struct Table<'a> {
    columns: &'a [&'a str],
    /// All cells, row by row.
    texts: String,
    /// Where each cell ends in `texts`, and its characters.
    cells: Vec<(usize, usize)>,
    /// Characters of the widest cell of each column.
    widths: Vec<usize>,
}

impl<'a> Table<'a> {
    /// With these members as columns: `a.b` is member `b` of member `a`.
    pub(super) fn new(columns: &'a [&'a str]) -> Self {
        let mut table = Self { columns, texts: String::new(), cells: Vec::new(), widths: vec![0; columns.len()] };
        for (column, name) in columns.iter().enumerate() {
            table.cell(column, &name.rsplit('.').next().unwrap_or_default().replace('_', " "));
        }
        table
    }

    pub(super) fn add(&mut self, list: &Value) {
        list.as_array().into_iter().flatten().for_each(|row| self.row(row));
    }

    pub(super) fn row(&mut self, row: &Value) {
        for (column, name) in self.columns.iter().enumerate() {
            let value = name.split('.').fold(row, |of, member| &of[member]);
            match value {
                Value::String(text) if !text.contains(net::plain::is_unprintable) => self.cell(column, text),
                other => self.cell(column, &shown(other)),
            }
        }
    }

    fn cell(&mut self, column: usize, text: &str) {
        let width = text.chars().count();
        self.texts.push_str(text);
        self.cells.push((self.texts.len(), width));
        self.widths[column] = self.widths[column].max(width);
    }

    pub(super) fn text(&self) -> String {
        let (mut text, mut begin) = (String::new(), 0);
        for row in self.cells.chunks(self.columns.len()) {
            for ((end, width), widest) in row.iter().zip(&self.widths) {
                text.push_str(&self.texts[begin..*end]);
                text.extend(std::iter::repeat_n(' ', widest - width + 2));
                begin = *end;
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}
