//! Nanoseconds of an update of a page: 40 bytes, as a quote page gets them (a position, a fade, a price).
//!
//! `cargo bench -p quoteway-rwf --bench page`. The floor copies the same bytes. Each figure is the median of rounds;
//! the fastest beside it.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::time::Instant;

use rwf::page::{Page, PageSize};

const ROUNDS: usize = 1001;
const UPDATES: usize = 1000;

/// 40 bytes.
const UPDATE: &[u8; 40] = b"\x1b[12;24H\x1b[>7;42m1.5521/31\x1b[>m LON  12:03";

fn measure(name: &str, per_call: usize, mut work: impl FnMut()) {
    for _ in 0..20 {
        work();
    }
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64 / per_call as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:32} {:9.1} ns {:9.1} ns best", rounds[ROUNDS / 2], rounds[0]);
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
