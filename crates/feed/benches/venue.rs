//! How fast an exchange's file becomes payloads of items: `cargo bench -p feed --bench venue [MESSAGES]`.
//!
//! A generated day of Nasdaq TotalView-ITCH is played as fast as it goes, first with one item watched, then with all of them by price, by order
//! and by level. Every payload is made and handed over, and goes nowhere.

#[path = "../../venue/tests/support/day.rs"]
#[allow(dead_code, reason = "tests and measurements use different parts")]
mod day;

use std::io::Write as _;
use std::time::Instant;

use feed::replay::ReplaySpeed;
use feed::replay::venue::{VenueConfig, VenueReplay};
use feed::{MarketSource as _, Model};

use day::{Day, Settings};

const STOCKS: u16 = 2_000;

#[global_allocator]
static ALLOCATOR: net::huge_pages::HugePages = net::huge_pages::HugePages;

fn main() {
    // As the server does.
    net::huge_pages::use_for_heap();
    let messages = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(1_000_000u32);
    let mut day = Day::new(Settings { seed: 1, stocks: STOCKS, longest_life: 200_000.0 });
    let mut bytes = Vec::new();
    let mut message = Vec::new();
    for _ in 0..messages {
        message.clear();
        day.next().encode(&mut message);
        bytes.extend((message.len() as u16).to_be_bytes());
        bytes.extend(&message);
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&bytes).expect("room on the disk");
    println!("{messages} messages of {STOCKS} stocks, {} orders at the end", day.books().len());
    for watched in [1, STOCKS] {
        let config = VenueConfig {
            pace: ReplaySpeed::Unpaced,
            from: None,
            date: 18_260,
            suffix: None,
            beside: None,
            schema: None,
            symbology: None,
            repeat: false,
            pause: 0,
        };
        let mut replay = VenueReplay::open(file.path(), config, &mut |_| {}).expect("a file").expect("a day");
        for name in replay.symbols().iter().take(usize::from(watched)) {
            let id = replay.find(name).expect("a stock");
            for model in [Model::Price, Model::ByOrder, Model::ByPrice] {
                replay.watch(id, model, true);
            }
        }
        let (mut told, mut size) = (0u64, 0u64);
        let begin = Instant::now();
        while replay.due().is_some() {
            replay.advance(0, 2_048, &mut |event| {
                told += 1;
                size += event.body.len() as u64;
            });
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{watched} stocks watched: {:.2} M messages/s in, {told} payloads ({:.2} M/s, {} bytes each) out",
            f64::from(messages) / seconds / 1e6,
            told as f64 / seconds / 1e6,
            size / told.max(1)
        );
    }
}
