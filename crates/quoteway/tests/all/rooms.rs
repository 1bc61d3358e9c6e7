//! The size of the rooms in figures: what `docs/decisions/0006-rooms.md` shows of before and after.
//!
//! `cargo test -p quoteway --test all rooms -- --nocapture` prints them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What is counted of a crate's `src`, without test modules and without what stands below `#[cfg(test)]`.
#[derive(Debug, Default)]
struct Figures {
    lines: usize,
    /// Groups of files that use each other in a circle, by their sizes.
    circles: Vec<usize>,
    /// The struct with most fields.
    widest: (usize, String),
    /// Functions of more than 60 lines.
    long_functions: usize,
    longest_function: usize,
    /// `else { return` in one line.
    else_returns: usize,
    /// `assert!`, `debug_assert!` and their kin.
    assertions: usize,
    /// Results whose error is a text.
    text_errors: usize,
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of a crate by their module path; tests are left out.
fn modules(src: &Path) -> BTreeMap<Vec<String>, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![(src.to_owned(), Vec::new())];
    while let Some((folder, path)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_rust = entry.path().extension().is_some_and(|ending| ending == "rs");
            let stem = name.strip_suffix(".rs").unwrap_or(&name).to_owned();
            if ["test", "tests"].contains(&stem.as_str()) {
                continue;
            }
            let mut module = path.clone();
            if entry.path().is_dir() {
                module.push(name);
                folders.push((entry.path(), module));
            } else if is_rust {
                if !["mod", "lib", "main"].contains(&stem.as_str()) {
                    module.push(stem);
                }
                let text = fs::read_to_string(entry.path()).expect("text");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                all.entry(module).or_insert_with(String::new).push_str(code);
            }
        }
    }
    all
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_function(line: &str) -> bool {
    let words: Vec<&str> =
        line.split_whitespace().take_while(|word| !word.contains('(') || word.starts_with("pub(")).collect();
    let before = words.iter().position(|word| *word == "fn").unwrap_or(usize::MAX);
    let is_plain = |word: &&str| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "\"C\"", "in"].contains(word)
            || word.ends_with(')')
    };
    before != usize::MAX && words[..before].iter().all(is_plain) || line.trim_start().starts_with("fn ")
}

/// Lengths of the functions, by the brace that closes each at its own indentation.
fn functions(code: &str) -> Vec<usize> {
    let lines: Vec<&str> = code.lines().collect();
    let mut lengths = Vec::new();
    for (n, line) in lines.iter().enumerate().filter(|(_, line)| is_function(line) && !line.ends_with("{}")) {
        let close = format!("{}}}", " ".repeat(indent(line)));
        let end =
            lines[n..].iter().position(|l| *l == close || l.trim_end().ends_with(';') && indent(l) == indent(line));
        lengths.extend(end.map(|end| end + 1));
    }
    lengths
}

/// Structs with named fields at the top of a file: how many fields each has.
fn structs(code: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut all = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let name = line.split("struct ").nth(1).filter(|_| line.trim_end().ends_with('{') && indent(line) == 0);
        let Some(name) = name else { continue };
        let body = lines[n + 1..].iter().take_while(|l| **l != "}");
        let is_field = |l: &&&str| indent(l) == 4 && !l.trim_start().starts_with(['/', '#']) && l.contains(": ");
        let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
        all.push((body.filter(is_field).count(), name));
    }
    all
}

/// Groups of modules that use each other in a circle. A module and those it is made of are one house: what a file uses of the
/// folder it lies in makes no circle.
fn circles(modules: &BTreeMap<Vec<String>, String>) -> Vec<usize> {
    let used = |module: &[String], code: &str| -> BTreeSet<Vec<String>> {
        let mut all = BTreeSet::new();
        for statement in code.split(";\n").filter_map(|s| s.lines().last().map(|l| (l, s))) {
            let text = statement.1.rsplit_once("use ").map_or("", |(_, text)| text);
            let Some(first) = text.split("::").next() else { continue };
            let mut base = match first.trim() {
                "crate" => Vec::new(),
                "super" => module[..module.len().saturating_sub(1)].to_vec(),
                "self" => module.to_vec(),
                _ => continue,
            };
            let mut rest = text.split_once("::").map_or("", |(_, rest)| rest);
            while let Some(further) = rest.strip_prefix("super::") {
                base.pop();
                rest = further;
            }
            let (prefix, list) = rest.split_once('{').unwrap_or(("", rest));
            for item in list.split([',', '}']) {
                let words = prefix.split("::").chain(item.split("::")).map(str::trim).filter(|w| !w.is_empty());
                let path: Vec<String> = base.iter().cloned().chain(words.map(str::to_owned)).collect();
                let target = (1..=path.len()).rev().map(|n| &path[..n]).find(|p| modules.contains_key(*p));
                all.extend(target.filter(|t| *t != module && !module.starts_with(t)).map(<[String]>::to_vec));
            }
        }
        all
    };
    let edges: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = modules.iter().map(|(m, c)| (m, used(m, c))).collect();
    let reach = |from: &Vec<String>| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = open.pop() {
            for next in edges.get(&at).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = modules.keys().map(|m| (m, reach(m))).collect();
    let mut groups = BTreeSet::new();
    for (module, seen) in &reached {
        let group: BTreeSet<&Vec<String>> = seen.iter().filter(|other| reached[other].contains(*module)).collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.iter().map(BTreeSet::len).collect()
}

fn count(src: &Path) -> Figures {
    let modules = modules(src);
    let mut all = Figures { circles: circles(&modules), ..Figures::default() };
    for code in modules.values() {
        all.lines += code.lines().count();
        let lengths = functions(code);
        all.long_functions += lengths.iter().filter(|length| **length > 60).count();
        all.longest_function = all.longest_function.max(lengths.into_iter().max().unwrap_or(0));
        all.widest = structs(code).into_iter().chain([std::mem::take(&mut all.widest)]).max().unwrap_or_default();
        all.else_returns += code.matches("else { return").count();
        all.assertions +=
            ["assert!(", "assert_eq!(", "assert_ne!("].map(|word| code.matches(word).count()).iter().sum::<usize>();
        all.text_errors += code.lines().filter(|l| l.contains("Result<") && l.contains(", String>")).count();
    }
    all
}

#[test]
fn the_rooms_in_figures() {
    println!(
        "| crate | lines | circles (files) | widest struct | functions over 60 lines (longest) | `else {{ return` | assertions | errors that are text |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut folders: Vec<PathBuf> = fs::read_dir(crates()).unwrap().flatten().map(|e| e.path().join("src")).collect();
    folders.sort();
    for src in folders.into_iter().filter(|src| src.is_dir()) {
        let name = src.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let f = count(&src);
        let circles = f.circles.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        println!(
            "| {name} | {} | {circles} | `{}` {} | {} ({}) | {} | {} | {} |",
            f.lines,
            f.widest.1,
            f.widest.0,
            f.long_functions,
            f.longest_function,
            f.else_returns,
            f.assertions,
            f.text_errors
        );
        assert!(f.lines < 30_000, "crates/{name} has {} lines: more than one house", f.lines);
        assert!(
            f.circles.iter().all(|files| *files <= 8),
            "crates/{name}: {:?} files use each other in a circle",
            f.circles
        );
        assert!(f.longest_function <= 120, "crates/{name} has a function of {} lines", f.longest_function);
    }
}

#[test]
fn what_is_counted_is_there() {
    let code = "pub(crate) struct A {\n    /// x: y\n    pub b: u32,\n    c: u8,\n}\n\nfn f() {\n    let Some(x) = y else { return };\n}\n";
    assert_eq!((structs(code), functions(code)), (vec![(2, "A".to_owned())], vec![3]));
    let module = |name: &str, code: &str| (name.split("::").map(str::to_owned).collect::<Vec<_>>(), code.to_owned());
    let ring = BTreeMap::from([
        module("a", "use crate::b::{X, Y};\n"),
        module("b", "use super::c::Z;\n"),
        module("c", "use crate::a;\n"),
        module("d", "use crate::a;\n"),
    ]);
    assert_eq!(circles(&ring), [3]);
}
