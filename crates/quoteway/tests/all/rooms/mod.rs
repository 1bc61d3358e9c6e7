//! The size of the rooms in figures, and the limits that hold them: what `docs/decisions/0006-rooms.md` shows of before and after.
//!
//! `cargo test -p quoteway --test all rooms -- --nocapture` prints them; with `QUOTEWAY_CIRCLES=hub-p2ps` the files of a crate's circles too.

mod arrows;
mod circles;
mod figures;
mod limits;
mod source;
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use figures::{Figures, count};
use limits::Limits;

/// The sources of all crates by the names of their folders.
fn crates() -> Vec<(String, PathBuf)> {
    let all = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates");
    let named = all.flatten().map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().join("src")));
    let mut crates: Vec<_> = named.filter(|(_, src)| src.is_dir()).collect();
    crates.sort();
    crates
}

/// All crates' figures: parsing is what takes the time, so that each thread takes the next crate.
fn all_figures() -> Vec<(String, Figures)> {
    let (open, done) = (Mutex::new(crates()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().min(4));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some((name, src)) = open.lock().expect("no panic").pop() else { break };
                    let figures = count(&source::read(&src));
                    done.lock().expect("no panic").push((name, figures));
                }
            });
        }
    });
    let mut all = done.into_inner().expect("no panic");
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

fn list(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_rooms_in_figures() {
    println!(
        "| crate | lines of source (all) | circles by names (files) | with methods | widest struct | widest with private fields | methods of one struct | functions over 60 lines (longest) | `else {{ return` | assertions | errors that are text | public items |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let shown = std::env::var("QUOTEWAY_CIRCLES").unwrap_or_default();
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for (name, f) in &all_figures() {
        println!(
            "| {name} | {} ({}) | {} | {} | `{}` {} | `{}` {} | `{}` {} | {} ({}) | {} | {} | {} | {} |",
            f.source,
            f.all_lines,
            list(&f.circles),
            list(&f.circles_with_methods),
            f.widest.1,
            f.widest.0,
            f.widest_closed.1,
            f.widest_closed.0,
            f.most_methods.1,
            f.most_methods.0,
            f.long_functions,
            f.longest_function.0,
            f.else_returns,
            f.assertions,
            f.text_errors,
            f.public_items,
        );
        if shown == *name {
            show(f);
        }
        let (limits, today) = (Limits::of(name), Limits::fitting(f));
        if !limits.hold(&today) {
            above.push(format!("{}\nis above its limits,\n{}", today.line(name), limits.line(name)));
        } else if limits != today {
            below.push(today.line(name));
        }
        let (lines, function) = &f.longest_function;
        if *lines > limits::FUNCTION {
            above.push(format!("crates/{name}: the function `{function}` has {lines} lines"));
        }
    }
    if !below.is_empty() {
        println!("\nthese limits of tests/all/rooms/limits.rs can be lowered:\n{}", below.join("\n"));
    }
    assert!(
        above.is_empty(),
        "crates that have grown (QUOTEWAY_CIRCLES=name shows the circles):\n{}",
        above.join("\n")
    );
}

/// The files of a crate's circles, and the arrows between them.
fn show(f: &Figures) {
    let all: Vec<(String, String)> = f.arrows.iter().flatten().cloned().collect();
    println!("{} arrows by names, {} by methods", f.arrows[0].len(), f.arrows[1].len());
    for (kind, groups, arrows) in [("names", &f.groups[0], &f.arrows[0]), ("names and methods", &f.groups[1], &all)] {
        for group in groups {
            println!("a circle of {} by {kind}:", group.len());
            for file in group {
                let uses = arrows.iter().filter(|(from, to)| from == file && group.contains(to));
                let uses: std::collections::BTreeSet<&str> = uses.map(|(_, to)| to.as_str()).collect();
                println!("  {file} -> {}", uses.into_iter().collect::<Vec<_>>().join(" "));
            }
        }
    }
}
