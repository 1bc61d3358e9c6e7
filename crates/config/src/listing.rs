//! Parameters looked up by name, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::effect::TABLE;
use super::rmds::names_in_rmds;
use super::{AnySection, Config, Delay, Feed, Info, Replay, Route, Service, applies, nearest};

/// Every parameter whose key, RMDS name or meaning contains `word`, with default, unit and meaning; also what is accepted and
/// has no effect.
///
/// # Errors
/// There is none; the message names the nearest.
pub fn search(word: &str) -> Result<String, String> {
    let wanted = plain(word);
    let mut out = String::new();
    let mut names: Vec<&str> = Vec::new();
    for_each(|section, info| {
        names.extend(info.rmds.split('|').chain([info.key]));
        let path = plain(&format!("{}{}", section.name(), info.key));
        let rmds = plain(info.rmds);
        if path.contains(&wanted) || (!rmds.is_empty() && rmds.contains(&wanted)) || words_of(info).contains(&wanted) {
            let _ = writeln!(out, "{}.{} = {}", section.name(), info.key, (info.default)());
            let _ = writeln!(out, "    {}", info.meaning);
            let unit = unit(info).map_or(String::new(), |u| format!(" ({u})"));
            let _ = writeln!(out, "    {}{unit}{}", capital(info.kind), rmds_sentence(section, info));
            let _ = writeln!(out, "    Another value counts after a {}.", applies(section.name(), info.key).text());
        }
    });
    for entry in TABLE {
        for (name, _) in entry.names() {
            names.push(name);
            if plain(name).contains(&wanted) {
                let _ = writeln!(out, "{}{name}\n    accepted, no effect here: {}", entry.kind.prefix(), entry.why());
            }
        }
    }
    if !out.is_empty() {
        return Ok(out);
    }
    let near = nearest(word, names.into_iter()).map_or(String::new(), |n| format!(": the nearest is {n}"));
    Err(format!("no parameter has to do with {word}{near}"))
}

/// Every parameter as JSON: `parameters` (section, key, rmds, type, unit, default, meaning) and `without_effect` (rmds, why).
pub fn json() -> String {
    let mut parameters: Vec<Value> = Vec::new();
    for_each(|section, info| {
        parameters.push(json!({
            "section": section.name(),
            "key": info.key,
            "rmds": names_in_rmds(section.name(), info.key),
            "type": info.kind,
            "unit": unit(info),
            "default": (info.default)(),
            "meaning": info.meaning,
            "applies": applies(section.name(), info.key).text(),
        }));
    });
    let mut without_effect: Vec<Value> = Vec::new();
    for entry in TABLE {
        for (name, always) in entry.names() {
            let rmds = format!("{}{name}", entry.kind.prefix());
            without_effect.push(json!({ "rmds": rmds, "why": entry.why(), "always": always }));
        }
    }
    let all = json!({ "parameters": parameters, "without_effect": without_effect });
    serde_json::to_string_pretty(&all).unwrap_or_default()
}

fn for_each(mut each: impl FnMut(&dyn AnySection, &'static Info)) {
    let (config, route, feed) = (Config::default(), Route::default(), Feed::default());
    let (replay, delay, service) = (Replay::default(), Delay::default(), Service::default());
    let tables = [&route as &dyn AnySection, &feed, &replay, &delay, &service];
    for section in config.sections().into_iter().chain(tables) {
        for info in section.infos() {
            each(section, info);
        }
    }
}

fn rmds_sentence(section: &dyn AnySection, info: &Info) -> String {
    let names = names_in_rmds(section.name(), info.key);
    if names.is_empty() { ".".to_owned() } else { format!(". RMDS: {}.", names.join(", ")) }
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace(['_', '*', '.'], "")
}

fn words_of(info: &Info) -> String {
    info.meaning.to_lowercase()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// The unit of a number; `None` for what has none.
pub(super) fn unit(info: &Info) -> Option<&'static str> {
    let meaning = info.meaning.to_lowercase();
    let says = |word: &str| meaning.contains(word);
    match info.key {
        key if key.ends_with("_us") => Some("microseconds"),
        key if key.ends_with("_ms") => Some("milliseconds"),
        key if key.ends_with("_s") => Some("seconds"),
        key if key.ends_with("_buffers") || key == "pool_size" => Some("buffers of max_fragment_size bytes"),
        _ if !info.kind.contains("number") => None,
        _ if says("percent") => Some("percent"),
        _ if says("bytes") => Some("bytes"),
        _ => None,
    }
}
