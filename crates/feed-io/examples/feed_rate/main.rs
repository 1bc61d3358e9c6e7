//! How fast `quoteway feed` takes an exchange's line, and how long it takes from the datagram to a consumer's program.
//!
//! `cargo run --release -p feed-io --example feed_rate -- PROGRAM --rate 100000 --seconds 10` starts `PROGRAM feed mold:... --serve` (feed, Source
//! Distributor and P2PS in one process), sends it a generated day of Nasdaq TotalView-ITCH over UDP on loopback, and watches books by price over
//! RSSL. Each message bears the time at which its datagram was handed to the kernel, in the venue's own field; the consumer takes it out of the update
//! (`LV_TIM_NS`) and compares it with the same clock when the update has been decoded. Nothing is told apart by guessing: levels that went have
//! no time and are not in the figures.
//!
//! Nothing is lost if the feed has applied each message, the numbers of the updates of each item follow each other, and the last order of each stock
//! has come. Nothing grows if memory stays, and the medians of the seconds do: what is queued anywhere is latency.
#![allow(clippy::disallowed_macros, reason = "a program that prints")]

#[path = "../../../venue/tests/support/day.rs"]
#[allow(dead_code, reason = "tests and this program use different parts")]
mod day;
mod exchange;
mod run;
mod watcher;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use run::{Plan, medians, run};

/// Sends a day of ITCH to `quoteway feed --serve` and measures what a consumer gets.
#[derive(Parser)]
struct Args {
    /// The program `quoteway`
    program: PathBuf,
    /// Messages a second
    #[arg(long, default_value_t = 100_000)]
    rate: u64,
    /// Seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Stocks of the day
    #[arg(long, default_value_t = 1_000)]
    stocks: u16,
    /// Stocks whose books are watched, those with the most traffic first
    #[arg(long, default_value_t = 1_000)]
    watched: u16,
    /// Lines that bring each packet
    #[arg(long, default_value_t = 1)]
    lines: usize,
    /// Megabytes by which memory may grow in the second half
    #[arg(long, default_value_t = 32)]
    growth: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let Args { rate, seconds, stocks, watched, lines, .. } = args;
    let plan = Plan { rate, seconds, stocks, watched: watched.min(stocks), lines, patience_s: 60 };
    let outcome = match run(&args.program, &plan) {
        Ok(outcome) => outcome,
        Err(fault) => {
            eprintln!("{fault}");
            return ExitCode::FAILURE;
        }
    };
    let (seen, all) = (&outcome.seen, outcome.seen.latency().summary());
    println!(
        "{} messages, {:.0} a second over {:.2} s by {lines} line(s); {} updates of {} books, {:.0} a second",
        outcome.sent,
        (rate * seconds) as f64 / outcome.took_s,
        outcome.took_s,
        outcome.updates,
        plan.watched,
        seen.measured as f64 / outcome.took_s
    );
    println!(
        "datagram to consumer, us: median {:.1}, mean {:.1}, 90 % {:.1}, 99 % {:.1}, 99.9 % {:.1}, most {:.0}, least {:.1} ({} samples, {} without a \
         time, {} early)",
        all.p50_us,
        all.mean_us,
        all.p90_us,
        all.p99_us,
        all.p999_us,
        all.max_us,
        all.min_us,
        all.samples,
        seen.untimed,
        seen.early
    );
    println!("medians by second, us: {:.0?}", medians(&seen.seconds));
    println!("the consumer has the last order {:.1} ms behind the last datagram", outcome.behind_s * 1e3);
    println!(
        "memory, MB: {:?}; {:.2} s of processor",
        outcome.resident.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>(),
        outcome.cpu_s
    );
    println!("the feed: {}", outcome.feed);
    let faults = outcome.faults(args.growth << 20);
    for fault in &faults {
        println!("FAULT: {fault}");
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
