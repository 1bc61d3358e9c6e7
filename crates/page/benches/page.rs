//! Nanoseconds of an update of a page: 40 bytes, as a quote page gets them (a position, a fade, a price).
//!
//! `cargo bench -p quoteway-page`. The floor copies the same bytes. Each figure is the median of rounds;
//! the fastest beside it. For instructions: the built bench under `valgrind --tool=callgrind --toggle-collect='*page::work*'` with `update` as its
//! argument, which makes 21,000 of them.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::time::Instant;

use page::{Page, PageSize};

const ROUNDS: usize = 1001;
const UPDATES: usize = 1000;

/// 40 bytes.
const UPDATE: &[u8; 40] = b"\x1b[12;24H\x1b[>7;42m1.5521/31\x1b[>m LON  12:03";

/// Not inlined, so that a profiler can tell it from the preparations.
#[inline(never)]
fn work(turn: &mut impl FnMut()) {
    turn();
}

fn measure(name: &str, per_call: usize, mut turn: impl FnMut()) {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if only.as_deref().is_some_and(|only| !name.starts_with(only)) {
        return;
    }
    let rounds = if only.is_some() { 1 } else { ROUNDS };
    for _ in 0..20 {
        work(&mut turn);
    }
    let mut rounds: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work(&mut turn);
            start.elapsed().as_nanos() as f64 / per_call as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:32} {:9.1} ns {:9.1} ns best", rounds[rounds.len() / 2], rounds[0]);
}

fn main() {
    let mut page = Page::new(PageSize::default());
    for row in 1..=25 {
        page.apply(format!("\x1b[{row};1H{}", "GBP  1.5520/30   LON  12:01  ".repeat(2)).as_bytes());
    }
    let before = page.clone();
    let mut copy = [0u8; 40];
    measure("floor: copy of 40 bytes", UPDATES, || {
        for _ in 0..UPDATES {
            copy.copy_from_slice(black_box(UPDATE));
            black_box(&copy);
        }
    });
    measure("update of 40 bytes", UPDATES, || {
        for _ in 0..UPDATES {
            page.apply(black_box(UPDATE));
        }
        black_box(&page);
    });
    measure("image of a full page", 1, || {
        black_box(page.image());
    });
    measure("changes of one update", 1, || {
        black_box(page.changes(&before));
    });
}
