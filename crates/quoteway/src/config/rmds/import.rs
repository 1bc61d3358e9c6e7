//! `quoteway config import`: an `rmds.cnf` as a TOML file, with comments on where each value comes from.

use std::fmt::Write as _;
use std::path::Path;

use super::Reading;
use super::apply::Origin;
use super::lookup::Place;
use crate::config::{AnySection, ConfigError, Selection, Weight, open};

/// The TOML text for the file's part that `selection` says.
///
/// # Errors
/// Every fault of the file, each with its line.
pub fn import(path: &Path, selection: &Selection) -> Result<String, ConfigError> {
    let (name, text, _) = open(path)?;
    convert(&name, &text, &selection.place())
}

/// The TOML text for an `rmds.cnf`; `name` stands for the file.
pub(super) fn convert(name: &str, text: &str, place: &Place) -> Result<String, ConfigError> {
    let reading = super::read(name, text, place)?;
    let mut out = format!("# From {name}, for host {}, instance {}.\n", place.host, place.instance);
    out.push_str("# `quoteway config` shows the parameters that are not here.\n");
    let config = &reading.loaded.config;
    for (i, section) in config.sections().into_iter().enumerate() {
        write_section(&mut out, &reading, section, 0, false);
        if i == 0 {
            for (at, route) in config.routes.iter().enumerate() {
                write_section(&mut out, &reading, route, at, true);
            }
        }
    }
    write_notes(&mut out, &reading);
    Ok(out)
}

fn write_section(out: &mut String, reading: &Reading, section: &dyn AnySection, route: usize, is_route: bool) {
    let of = |o: &&Origin| o.section == section.name() && o.route == route;
    let mut origins: Vec<&Origin> = reading.origins.iter().filter(of).collect();
    origins.sort_by_key(|o| (o.index, o.line));
    if origins.is_empty() {
        return;
    }
    let (open, close) = if is_route { ("[[", "]]") } else { ("[", "]") };
    let _ = writeln!(out, "\n{open}{}{close}", section.name());
    let infos = section.infos();
    for same in origins.chunk_by(|a, b| a.index == b.index) {
        for origin in same {
            if let Some(line) = reading.lines.iter().find(|l| l.number == origin.line) {
                let _ = writeln!(out, "# line {}: {line}", line.number);
            }
        }
        let index = same[0].index;
        let _ = writeln!(out, "{} = {}", infos[index].key, section.show(index));
    }
}

fn write_notes(out: &mut String, reading: &Reading) {
    for (weight, title) in
        [(Weight::Warning, "Without effect:"), (Weight::Information, "As asked, or as it always is here:")]
    {
        let notes: Vec<_> = reading.loaded.notes.iter().filter(|n| n.weight == weight).collect();
        if !notes.is_empty() {
            let _ = writeln!(out, "\n# {title}");
        }
        for note in notes {
            let place = if note.line == 0 { String::new() } else { format!("line {}: ", note.line) };
            let _ = writeln!(out, "#   {place}{}", note.text.replace('\n', " "));
        }
    }
}
