//! Every parameter that the reports and the survey name is known. Their texts are outside of the project.

use std::path::PathBuf;

use super::{faults, place};
use crate::rmds::read;

/// The folder of `features.md` and the reports; `None`, with a line that says so, if it is not there.
fn folder() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/reference");
    let dir = std::env::var_os("QUOTEWAY_REFERENCE").map_or_else(|| PathBuf::from(default), PathBuf::from);
    if dir.join("features.md").exists() {
        return Some(dir);
    }
    eprintln!("not tested: there is no {} (QUOTEWAY_REFERENCE)", dir.join("features.md").display());
    None
}

fn text(name: &str) -> Option<String> {
    folder().map(|dir| std::fs::read_to_string(dir.join(name)).expect(name))
}

/// Accepts each line by itself; a route also needs a host.
fn assert_accepted(lines: &[String]) {
    let mut refused = Vec::new();
    for line in lines {
        let line = &line.replace("sendMultAddress : 3", "sendMultAddress : 239.1.1.1");
        // Parameters that go with it: a route has a host, and a guaranteed number is not over the allowed one.
        let whole = format!("*Src_Dist*any.route*hostList : h\n{line}\n*P2PS*guaranteedOutputBuffers : 1\n");
        let whole =
            if line.contains("guaranteed") { whole.replace("*P2PS*guaranteedOutputBuffers : 1\n", "") } else { whole };
        match read("f", &whole, &place("box", "1")) {
            Err(e) => refused.push(format!("{line}\n    {e}")),
            Ok(reading) => {
                // Either it sets something, or the operator is told.
                let set = reading.origins.iter().any(|o| o.line == 2);
                let told = reading.loaded.notes.iter().any(|n| n.line == 2);
                let listed = line.contains("routeList");
                if !set && !told && !listed {
                    refused.push(format!("{line}\n    does nothing and nobody is told"));
                }
            }
        }
    }
    assert!(refused.is_empty(), "{} of {}:\n{}", refused.len(), lines.len(), refused.join("\n"));
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from}"));
    let rest = &text[start + from.len()..];
    &rest[..rest.find(to).unwrap_or(rest.len())]
}

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = table.lines().filter(|l| l.starts_with("| ") && !l.starts_with("|---"));
    rows.map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
}

#[test]
fn every_parameter_that_the_reports_name_is_accepted() {
    let Some(features) = text("features.md") else { return };
    let table = between(&features, "## 2a.", "## 2b.");
    let mut lines = Vec::new();
    let mut last = String::new();
    for row in rows(table).skip(1) {
        let value = row[3].split([' ', ',', '(', ';']).next().unwrap_or("");
        for name in quoted(row[0]) {
            // `…route*port` goes on where the name before it had `route`; `…OK` is the end of another name.
            let name = match name.strip_prefix('…') {
                Some("OK") => "*P2PS*outputThresholdOK".to_owned(),
                Some(rest) => {
                    let first = rest.split('*').next().unwrap_or("");
                    format!("{}{rest}", &last[..last.find(first).unwrap_or_else(|| panic!("{rest} after {last}"))])
                }
                None if name.contains('*') => name.to_owned(),
                None if last.starts_with("*RRCP*") => format!("*RRCP*{name}"),
                // A word in the text of the cell.
                None => continue,
            };
            last.clone_from(&name);
            lines.push(format!("{name} : {value}"));
        }
    }
    assert!(lines.len() > 50, "{lines:?}");
    assert_accepted(&lines);
}

#[test]
fn every_tuning_parameter_of_the_backbone_is_accepted() {
    let Some(features) = text("features.md") else { return };
    let mut lines = Vec::new();
    for row in rows(between(&features, "## 2b.", "## 2c.")).skip(1) {
        let cell = row[0]
            .replace("(CNF only)", "")
            .replace("send/recv", "sendMultAddress, recv")
            .replace("(name → group)", "");
        for part in cell.split([',', '/']) {
            let name = part.trim().split(' ').next().unwrap_or("");
            let name =
                if ["MultAddress", "Port", "Interval"].contains(&name) { format!("Hsm{name}") } else { name.into() };
            lines.push(format!("*RRCP*{name} : 3"));
        }
    }
    assert!(lines.len() > 20, "{lines:?}");
    assert_accepted(&lines);
}

#[test]
fn every_other_parameter_worth_accepting_is_accepted() {
    let Some(features) = text("features.md") else { return };
    let mut found = 0;
    for row in rows(between(&features, "## 2c.", "# 3.")).skip(1) {
        for name in quoted(row[1]) {
            let (name, value) = name.split_once(' ').unwrap_or((name, ""));
            let name = name.replace(".N", ".1").replace("*…", "*userName");
            let prefixes = ["*P2PS*", "*Src_Dist*", "*Src_Dist*any.route*", "*FEED*", "*RRCP*"];
            let line = |p: &&str| format!("{p}{name} : {value}\n*Src_Dist*any.route*hostList : h\n");
            let accepted = prefixes.iter().any(|p| read("f", &line(p), &place("box", "1")).is_ok());
            assert!(accepted, "{name}: {:?}", faults(&line(&"*P2PS*")));
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn every_parameter_of_the_sites_files_is_accepted() {
    let Some(features) = text("features.md") else { return };
    let mut lines = Vec::new();
    for (kind, prefix) in [
        ("**ads**", "*ADS*"),
        ("**adh**", "*ADH*"),
        ("**adh route**", "*ADH*any.route*"),
        ("**service**", "*FEED*"),
        ("**RRCP**", "*RRCP*"),
    ] {
        let list = features.lines().find(|l| l.starts_with(kind)).unwrap_or_else(|| panic!("no {kind}"));
        let list = list.split_once("): ").expect("a list").1;
        for entry in list.split(", ") {
            let (name, values) = entry.split_once('=').unwrap_or((entry, ""));
            let values = if values.contains(char::is_alphabetic) && !values.contains('/') {
                values
            } else {
                values.split('/').next().unwrap_or("")
            };
            // An empty value leaves the default, so one is made up where the list has none.
            let values = match name {
                "routeList" => "any",
                "sendMultAddress" => "239.1.1.1",
                _ => values,
            };
            let value = if values.is_empty() { "7" } else { values };
            lines.push(format!("{prefix}{name} : {value}"));
        }
    }
    assert!(lines.len() > 400, "{}", lines.len());
    assert_accepted(&lines);
}

#[test]
fn every_line_that_a_report_prints_is_accepted() {
    let Some(dir) = folder() else { return };
    let mut lines = Vec::new();
    for report in ["red-hat-rmds-2008.txt", "stac-intel-rmds63-dunnington-2008.txt", "stac-novell-rmds63-2009.txt"] {
        let text = std::fs::read_to_string(dir.join(report)).expect(report);
        // The scans run lines together, so keys are found as words; one scan reads I for l.
        let text = text.replace("<pre>", " ").replace("</pre>", " ").replace("rssIMsgPacking", "rsslMsgPacking");
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let (key, glued) = word.split_once(':').unwrap_or((word, ""));
            let is_key = (key.starts_with('*') && key[1..].contains(char::is_alphabetic) && !key.ends_with('*'))
                || key.starts_with("{node}*");
            if !is_key || key.starts_with("**") || key.contains('\\') {
                continue;
            }
            let separated = words.next_if(|w| *w == ":" || *w == "=").is_some();
            let value = if glued.is_empty() { words.peek().copied().unwrap_or("") } else { glued };
            if !separated && glued.is_empty() || value.starts_with(['[', '<']) {
                continue;
            }
            lines.push(format!("{key} : {value}"));
        }
    }
    lines.sort();
    lines.dedup();
    assert!(lines.len() > 60, "{lines:#?}");
    assert_accepted(&lines);
}
