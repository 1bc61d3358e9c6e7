//! `quoteway config import`: an `rmds.cnf` as a TOML file, with comments on where each value comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::Reading;
use super::apply::Origin;
use super::lookup::Place;
use crate::document::table_of;
use crate::{AnySection, ConfigError, Section as _, Selection, Service, Weight, open};

/// The TOML text for the file's part that `selection` says. What is wrong in the file becomes a comment if it is `lenient`.
///
/// # Errors
/// Every fault of the file, each with its line.
pub fn import(path: &Path, selection: &Selection, lenient: bool) -> Result<String, ConfigError> {
    let (name, text, _) = open(path)?;
    let place = selection.place();
    if lenient { Ok(convert_leniently(&name, text, &place)) } else { convert(&name, &text, &place) }
}

/// The TOML text for an `rmds.cnf`; `name` stands for the file.
pub(super) fn convert(name: &str, text: &str, place: &Place) -> Result<String, ConfigError> {
    let reading = super::read(name, text, place)?;
    let mut out = format!("# From {name}, for host {}, instance {}.\n", place.host, place.instance);
    write_hosts(&mut out, &reading, place);
    out.push_str("# `quoteway config` shows the parameters that are not here.\n");
    let config = &reading.loaded.config;
    for (i, section) in config.sections().into_iter().enumerate() {
        write_section(&mut out, &reading, section, 0, &format!("[{}]", section.name()));
        if i == 0 {
            for (at, route) in config.routes.iter().enumerate() {
                write_section(&mut out, &reading, route, at, &format!("[[{}]]", route.name()));
            }
            for (at, (name, service)) in config.services.iter().enumerate() {
                write_section(&mut out, &reading, service, at, &table_of(Service::NAME, name));
            }
        }
    }
    write_notes(&mut out, &reading);
    Ok(out)
}

/// As [`convert`], without the lines that have a fault: each is a comment with what is wrong about it.
fn convert_leniently(name: &str, mut text: String, place: &Place) -> String {
    let mut left_out: BTreeMap<usize, (String, Vec<String>)> = BTreeMap::new();
    loop {
        let error = match convert(name, &text, place) {
            Ok(mut out) => {
                if !left_out.is_empty() {
                    out.push_str("\n# Not understood, and left out:\n");
                }
                for (number, (line, whys)) in &left_out {
                    let _ = writeln!(out, "#   line {number}: {line}");
                    for why in whys {
                        let _ = writeln!(out, "#     {why}");
                    }
                }
                return out;
            }
            Err(error) => error,
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut moved = false;
        for fault in &error.faults {
            let rest = fault.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).unwrap_or(fault);
            let (number, why) = rest.split_once(": ").unwrap_or(("", rest));
            let number = number.parse::<usize>().unwrap_or(0);
            let entry = left_out.entry(number).or_default();
            entry.1.extend(why.lines().map(|line| line.trim().to_owned()));
            // The line goes, and with it those that continue its value.
            let mut at = number;
            while let Some(line) = at.checked_sub(1).and_then(|at| lines.get_mut(at)).filter(|line| !line.is_empty()) {
                let line = std::mem::take(line);
                let continues = line.trim_end().ends_with('\\');
                entry.0.push_str(line.trim());
                moved = true;
                at += 1;
                if !continues {
                    break;
                }
            }
        }
        // A fault of no line: nothing of the file can be had.
        text = if moved { lines.join("\n") } else { String::new() };
    }
}

/// Says for which hosts the file has lines, since a name that is not among them gets only what is for all.
fn write_hosts(out: &mut String, reading: &Reading, place: &Place) {
    let known = reading.lines.iter().filter_map(|line| line.key.host.as_deref());
    let known: BTreeSet<String> = known.map(str::to_lowercase).collect();
    if known.is_empty() {
        out.push_str("# The file has lines for all hosts alone.\n");
        return;
    }
    let names = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let host = place.host.to_lowercase();
    let has_own = known.iter().any(|name| *name == host || name.rsplit_once('.').is_some_and(|(name, _)| name == host));
    let not = if has_own { "" } else { "; this host is not among them (--host NAME)" };
    let _ = writeln!(out, "# The file has lines for these hosts: {names}{not}.");
}

fn write_section(out: &mut String, reading: &Reading, section: &dyn AnySection, route: usize, head: &str) {
    let of = |o: &&Origin| o.section == section.name() && o.route == route;
    let mut origins: Vec<&Origin> = reading.origins.iter().filter(of).collect();
    origins.sort_by_key(|o| (o.index, o.line));
    if origins.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{head}");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { host: "md1".into(), instance: "1".into() }
    }

    #[test]
    fn what_is_not_understood_becomes_a_comment() {
        let text = "*P2PS*maxMount : 7 \\\n and more\n*P2PS*rsslPort : 14012\n*P2PS*maxMounts : many\n";
        assert!(convert("r.cnf", text, &place()).is_err());
        let out = convert_leniently("r.cnf", text.to_owned(), &place());
        assert!(out.contains("\nrssl_port = 14012\n"), "{out}");
        assert!(out.contains("#   line 1: *P2PS*maxMount : 7") && out.contains("the nearest is maxMounts"), "{out}");
        assert!(out.contains("#   line 4: *P2PS*maxMounts : many"), "{out}");
        assert!(crate::Config::parse("q.toml", &out).is_ok(), "{out}");
    }

    #[test]
    fn it_is_said_which_hosts_the_file_knows() {
        let text = "md1*P2PS*rsslPort : 1\nMD2.2*P2PS*rsslPort : 2\n";
        let out = convert("r.cnf", text, &place()).expect("it is read");
        assert!(out.contains("# The file has lines for these hosts: md1, md2.2.\n"), "{out}");
        let other = Place { host: "md7".into(), instance: "1".into() };
        let out = convert("r.cnf", text, &other).expect("it is read");
        assert!(out.contains("this host is not among them (--host NAME)"), "{out}");
    }
}
