//! Lists that may be long, page by page.

use anyhow::anyhow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::Command;
use super::texts::{Table, json_text};
use crate::administration::Client;

/// A list that may be long: the process gives a page at a time.
pub(super) struct List<'a> {
    name: &'static str,
    filter: Vec<(&'static str, Option<&'a str>)>,
    columns: &'static [&'static str],
}

/// Rows of a page: as many as an answer has at most. Each further page is another round through the process, behind its serving threads.
const PAGE: &str = "1000";

impl<'a> List<'a> {
    pub(super) fn of(command: &'a Command) -> Option<Self> {
        match command {
            Command::Clients { contains } => Some(Self {
                name: "clients",
                filter: vec![("contains", contains.as_deref())],
                columns: &[
                    "id",
                    "address",
                    "user",
                    "application",
                    "protocol",
                    "items",
                    "queued_bytes",
                    "connected_s",
                    "traffic.sent_bytes",
                    "traffic.round_trip_us",
                ],
            }),
            Command::Items { contains, service, state } => Some(Self {
                name: "items",
                filter: vec![
                    ("contains", contains.as_deref()),
                    ("service", service.as_deref()),
                    ("state", state.as_deref()),
                ],
                columns: &["id", "service", "name", "domain", "state", "watchers", "held_watchers"],
            }),
            _ => None,
        }
    }

    /// Each row of it, in order.
    pub(super) fn rows(&self, client: &Client, mut take: impl FnMut(Value)) -> anyhow::Result<()> {
        let mut after: Option<String> = None;
        loop {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", PAGE);
            for (name, value) in &self.filter {
                value.map(|value| query.append_pair(name, value));
            }
            after.as_ref().map(|after| query.append_pair("after", after));
            let page = client.get_text(&format!("/api/v1/{}?{}", self.name, query.finish()))?;
            let read = PageOf(&mut take).deserialize(&mut serde_json::Deserializer::from_slice(&page));
            after = read.map_err(|e| anyhow!("the list of {} cannot be read: {e}", self.name))?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    pub(super) fn json(&self, client: &Client) -> anyhow::Result<String> {
        let mut all = Vec::new();
        self.rows(client, |row| all.push(row))?;
        Ok(json_text(&Value::Array(all)))
    }

    pub(super) fn text(&self, client: &Client) -> anyhow::Result<String> {
        let mut table = Table::new(self.columns);
        self.rows(client, |row| table.row(&row))?;
        Ok(table.text())
    }
}

/// A page of a list, each of whose rows is given away as soon as it is read: a thousand rows take no more memory than one. Gives where the
/// list goes on.
struct PageOf<'t, F>(&'t mut F);

impl<'de, F: FnMut(Value)> DeserializeSeed<'de> for PageOf<'_, F> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Value)> Visitor<'de> for PageOf<'_, F> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page of a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut page: A) -> Result<Self::Value, A::Error> {
        let mut next = None;
        while let Some(member) = page.next_key::<String>()? {
            match member.as_str() {
                "found" => page.next_value_seed(Rows(&mut *self.0))?,
                "next" => next = page.next_value()?,
                _ => drop(page.next_value::<IgnoredAny>()?),
            }
        }
        Ok(next)
    }
}

struct Rows<'t, F>(&'t mut F);

impl<'de, F: FnMut(Value)> DeserializeSeed<'de> for Rows<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(Value)> Visitor<'de> for Rows<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element()? {
            (self.0)(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_is_read_row_by_row() {
        let read = |text: &str| {
            let mut rows = Vec::new();
            let next = PageOf(&mut |row| rows.push(row)).deserialize(&mut serde_json::Deserializer::from_str(text));
            (rows, next.map_err(drop))
        };
        let page = r#"{"found":[{"id":"0.1"},{"id":"0.2"}],"more":{"a":[1]},"next":"0.3"}"#;
        assert_eq!(read(page), (vec![json!({ "id": "0.1" }), json!({ "id": "0.2" })], Ok(Some("0.3".to_owned()))));
        assert_eq!(read(r#"{"found":[],"next":null}"#), (vec![], Ok(None)));
        assert_eq!(read("[]").1, Err(()));
    }
}
