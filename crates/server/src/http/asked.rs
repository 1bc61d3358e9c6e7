//! A request's parameters, read strictly: a query or a body that cannot be read, or says what nobody knows, is refused, and never taken for
//! one that says nothing.

use std::fmt;

use hub::p2ps::ITEM_STATES;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, ORIGIN};
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::{Map, Value};

use super::answer::Fault;
use super::facts::{Filter, PAGE};

/// A parameter of the query, or a member of the body.
pub(super) type Parameter = (&'static str, &'static str);

/// A request, as far as an endpoint sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    /// The parts of the path that stand for `{...}`, in order.
    pub(super) places: Vec<String>,
    /// The query, decoded.
    pub(super) query: Vec<(String, String)>,
    /// The type that the caller would like to read, as `Accept` has it.
    pub(super) accept: String,
    /// The body of an action.
    pub(super) body: Value,
    /// The asking user, for the audit.
    pub(super) caller: String,
}

impl Asked {
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A text of the body.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// THREAD.NUMBER in the path.
    pub(super) fn id(&self) -> Result<(usize, u32), Fault> {
        let text = self.places.first().map_or("", String::as_str);
        parse_id(text)
            .ok_or_else(|| Fault::new(404, format!("{text:?} is no id: those of the lists are THREAD.NUMBER")))
    }

    /// What a list is to have, and from where on.
    pub(super) fn filter(&self) -> Result<Filter, Fault> {
        let limit = self.query("limit").map_or(Ok(100), str::parse::<usize>);
        let limit = limit.ok().filter(|limit| (1..=PAGE).contains(limit));
        let limit = limit.ok_or_else(|| Fault::new(400, format!("limit is a number from 1 to {PAGE}")))?;
        let after = match self.query("after") {
            None => None,
            Some(text) => Some(parse_id(text).ok_or_else(|| Fault::new(400, "after is what the last answer said"))?),
        };
        let own = |name: &str| self.query(name).unwrap_or_default().to_owned();
        let state = own("state");
        if !state.is_empty() && !ITEM_STATES.contains(&state.as_str()) {
            return Err(Fault::new(400, format!("state is one of {}", ITEM_STATES.join(", "))));
        }
        Ok(Filter { contains: own("contains"), service: own("service"), state, limit, after })
    }
}

fn parse_id(text: &str) -> Option<(usize, u32)> {
    let (thread, number) = text.split_once('.')?;
    Some((thread.parse().ok()?, number.parse().ok()?))
}

/// A part of a path, or of a query (where a plus is a blank), its percent signs resolved; `None` for what is no text.
pub(super) fn decoded(part: &str, plus_is_blank: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match byte {
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                let digit = |digit: u8| char::from(digit).to_digit(16);
                u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()?
            }
            b'+' if plus_is_blank => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The query of a request.
///
/// # Errors
/// A parameter that is none of `known`, stands there twice, or is no text.
pub(super) fn query(text: &str, known: &[Parameter]) -> Result<Vec<(String, String)>, Fault> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decoded(name, true), decoded(value, true)) else {
            return Err(Fault::new(400, format!("the query cannot be read: {pair}")));
        };
        if !known.iter().any(|(own, _)| own.trim_end_matches('?') == name) {
            return Err(Fault::new(
                400,
                format!("the query says {name:?}, which means nothing here: {}", names(known)),
            ));
        }
        if found.iter().any(|(own, _)| *own == name) {
            return Err(Fault::new(400, format!("the query says {name} twice")));
        }
        found.push((name, value));
    }
    Ok(found)
}

fn names(known: &[Parameter]) -> String {
    if known.is_empty() {
        return "nothing is to be said".to_owned();
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| name.trim_end_matches('?')).collect();
    format!("there are {}", names.join(", "))
}

/// The body of an action: a JSON object of texts, or nothing.
///
/// # Errors
/// It is something else, or has a member that is none of `known`, is no text, or stands there twice.
pub(super) fn body(headers: &HeaderMap, bytes: &[u8], known: &[Parameter]) -> Result<Value, Fault> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    if !is_json(headers) {
        return Err(Fault::new(415, "the body is to be JSON: Content-Type: application/json"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let members = reader.deserialize_map(Members).and_then(|members| reader.end().map(|()| members));
    let members = members.map_err(|e| Fault::new(400, format!("the body is no JSON object: {e}")))?;
    for (name, value) in &members {
        let Some((own, _)) = known.iter().find(|(own, _)| own.trim_end_matches('?') == name) else {
            return Err(Fault::new(400, format!("the body says {name:?}, which means nothing here: {}", names(known))));
        };
        let may_be_left_out = own.ends_with('?') && value.is_null();
        if !value.is_string() && !may_be_left_out {
            return Err(Fault::new(400, format!("{name} is to be a text")));
        }
    }
    Ok(Value::Object(members))
}

/// Whether the body is said to be JSON, or nothing is said that would be of use. `curl -d` calls all that it sends a form; a page that has a
/// browser send one is no caller of this interface.
fn is_json(headers: &HeaderMap) -> bool {
    let mut said = headers.get_all(CONTENT_TYPE).iter();
    let (kind, None) = (said.next(), said.next()) else { return false };
    let Some(kind) = kind else { return true };
    let Ok(kind) = kind.to_str() else { return false };
    let mut parts = kind.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let is_plain = parts.all(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        key.eq_ignore_ascii_case("charset") && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    let is_of_curl = name.eq_ignore_ascii_case("application/x-www-form-urlencoded") && !headers.contains_key(ORIGIN);
    is_plain && (name.eq_ignore_ascii_case("application/json") || is_of_curl)
}

/// The members of an object, each of which may stand there once.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = object.next_entry::<String, Value>()? {
            if members.contains_key(&name) {
                return Err(serde::de::Error::custom(format_args!("{name:?} stands there twice")));
            }
            members.insert(name, value);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_limits_are_checked() {
        let asked = |query: &[(&str, &str)]| Asked {
            query: query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Asked::default()
        };
        assert_eq!(asked(&[("limit", "0")]).filter().unwrap_err().status, 400);
        assert_eq!(asked(&[("limit", "1001")]).filter().unwrap_err().status, 400);
        assert_eq!(asked(&[("after", "x")]).filter().unwrap_err().status, 400);
        let filter = asked(&[("after", "1.20"), ("contains", "IBM")]).filter().unwrap();
        assert_eq!((filter.after, filter.limit, filter.contains.as_str()), (Some((1, 20)), 100, "IBM"));
        assert_eq!(Asked { places: vec!["1.x".into()], ..Asked::default() }.id().unwrap_err().status, 404);
    }
    #[test]
    fn percent_signs_stand_for_bytes_of_a_text() {
        assert_eq!(decoded("A%2FB%20%2B+c", false).as_deref(), Some("A/B ++c"));
        assert_eq!(decoded("A+%c3%bc", true).as_deref(), Some("A \u{fc}"));
        for bad in ["%", "%4", "%zz", "%ff", "a%+1", "%-1"] {
            assert_eq!(decoded(bad, true), None, "{bad}");
        }
    }

    #[test]
    fn a_query_says_what_is_known_and_once() {
        let known: &[Parameter] = &[("limit", ""), ("contains", "")];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(query("limit=5&contains=a%26b+c", known), Ok(vec![pair("limit", "5"), pair("contains", "a&b c")]));
        assert_eq!(query("", known), Ok(Vec::new()));
        assert_eq!(query("limit", known), Ok(vec![pair("limit", "")]));
        for bad in ["limit=5&limit=6", "Limit=5", "state=open", "contains=%", "contains=%ff", "=5", "limit%00=5"] {
            assert_eq!(query(bad, known).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn a_body_is_an_object_of_texts_that_are_known() {
        let known: &[Parameter] = &[("why", ""), ("clients?", "")];
        let read = |kind: &[&str], origin: bool, text: &str| {
            let mut headers = HeaderMap::new();
            for kind in kind {
                headers.append(CONTENT_TYPE, kind.parse().unwrap());
            }
            if origin {
                headers.insert(ORIGIN, "http://localhost".parse().unwrap());
            }
            body(&headers, text.as_bytes(), known).map(|body| body.to_string()).map_err(|fault| fault.status)
        };
        let json = ["application/json"];
        let good = r#"{"clients":"close","why":"x"}"#;
        assert_eq!(read(&json, true, good), Ok(good.to_owned()));
        assert_eq!(read(&[], false, r#"{"clients":null}"#), Ok(r#"{"clients":null}"#.to_owned()));
        assert_eq!(read(&json, false, ""), Ok("{}".to_owned()));
        for bad in [
            "x",
            "[]",
            "null",
            "\"why\"",
            "{",
            "{} {}",
            r#"{"why":"a","why":"b"}"#,
            r#"{"why":1}"#,
            r#"{"why":null}"#,
            r#"{"why":["a"]}"#,
            r#"{"clients":true}"#,
            r#"{"clients":1}"#,
            r#"{"Why":"a"}"#,
            r#"{"why":"a","what":"b"}"#,
        ] {
            assert_eq!(read(&json, false, bad), Err(400), "{bad}");
        }
        let form = "application/x-www-form-urlencoded";
        for (kind, origin, taken) in [
            (&["application/json; charset=UTF-8"][..], true, true),
            (&["application/json;charset=\"utf-8\""], true, true),
            (&[form], false, true),
            (&[form], true, false),
            (&["text/plain"], false, false),
            (&["application/json; charset=latin1"], false, false),
            (&["application/json, text/plain"], false, false),
            (&["application/json", "text/plain"], false, false),
            (&["application/jsonp"], false, false),
            (&[""], false, false),
        ] {
            assert_eq!(read(kind, origin, good).is_ok(), taken, "{kind:?}");
        }
    }
}
