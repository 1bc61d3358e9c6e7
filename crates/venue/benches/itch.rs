//! Rates of TotalView-ITCH on one core: parse alone, levels only, full book with queues and notifications.
//!
//! `cargo bench -p venue --bench itch [-- MESSAGES]` (5,000,000). The day is made in memory by the tests' generator, whose statistics are
//! printed; 50 M messages take 1.8 GB. Figures are of time on the processor, so that other programs on the machine count less.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a measurement has a clock and prints")]

#[path = "../tests/support/day.rs"]
#[allow(dead_code, reason = "tests and measurements use different parts")]
mod day;

use std::hint::black_box;
use std::time::Instant;

use day::{Day, Settings};
use market::{BookId, Event, Events};
use venue::Market;
use venue::nasdaq::itch::Message;
use venue::nasdaq::{DayFile, TotalView};

/// As a reader gets a file.
const PIECE: usize = 1 << 20;

/// Takes every event as a subscriber of queues would: nothing can be left out by the compiler.
#[derive(Default)]
struct Counts {
    events: u64,
    mix: u64,
    ends: u64,
}

impl Events for Counts {
    const WANTS_RANK: bool = false;
    fn event(&mut self, book: BookId, event: &Event) {
        self.events += 1;
        self.mix ^= match event {
            Event::Level { level, .. } => level.size.wrapping_mul(level.price as u64),
            Event::Added(order) | Event::Removed { order, .. } | Event::Reduced { order, .. } => order.reference,
            Event::Replaced { old, new, .. } => old.reference ^ new.reference,
            _ => u64::from(book.0),
        };
    }
}

impl Market<Message> for Counts {
    fn end(&mut self, _book: Option<BookId>) {
        self.ends += 1;
    }
}

fn on_processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn timed(what: &str, messages: usize, act: impl FnOnce() -> String) {
    let (start, used) = (Instant::now(), on_processor());
    let said = act();
    let (wall, used) = (start.elapsed().as_nanos() as f64, (on_processor() - used) as f64);
    let count = messages as f64;
    let (rate, each, clock) = (count * 1e3 / used, used / count, count * 1e3 / wall);
    println!("{what:<30} {rate:>6.1} M/s  {each:>6.1} ns each  ({clock:.1} M/s by the clock)  {said}");
}

fn main() {
    let given = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let messages: usize = given.unwrap_or(5_000_000);
    let settings = Settings { seed: 1, stocks: 8_000, longest_life: messages as f64 };
    let (mut source, mut file, mut kinds) = (Day::new(settings), Vec::with_capacity(messages * 36), [0u64; 256]);
    let (mut most, mut bytes) = (0, Vec::new());
    for _ in 0..messages {
        let message = source.next();
        kinds[usize::from(message.code())] += 1;
        bytes.clear();
        message.encode(&mut bytes);
        file.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        file.extend_from_slice(&bytes);
        most = most.max(source.books().len());
    }
    let share =
        |code: u8| format!("{} {:.1} %", char::from(code), kinds[usize::from(code)] as f64 * 100.0 / messages as f64);
    let mix: Vec<String> = b"AFECXDUPQI".iter().map(|code| share(*code)).collect();
    println!(
        "{messages} messages, {} MB, {} stocks, at most {most} orders at a time: {}",
        file.len() >> 20,
        8_000,
        mix.join(", ")
    );
    drop(source);
    for _ in 0..3 {
        timed("parse", messages, || {
            let (mut reader, mut sum) = (DayFile::new(), 0u64);
            for piece in file.chunks(PIECE) {
                reader.read(piece, |message| {
                    if let Ok(message) = black_box(Message::decode(message)) {
                        sum = sum.wrapping_add(message.head().1);
                    }
                });
            }
            format!("{sum}")
        });
        timed("levels only", messages, || {
            let (mut reader, mut day) = (DayFile::new(), TotalView::<false>::default());
            for piece in file.chunks(PIECE) {
                reader.read(piece, |message| {
                    let _counted = day.apply(message, &mut ());
                });
            }
            format!("{} orders left, {} bad", day.books().len(), day.bad_total())
        });
        timed("full book, notifications", messages, || {
            let (mut reader, mut day, mut told) = (DayFile::new(), TotalView::<true>::default(), Counts::default());
            for piece in file.chunks(PIECE) {
                reader.read(piece, |message| {
                    let _counted = day.apply(message, &mut told);
                });
            }
            format!("{} events, {:x}", told.events, told.mix)
        });
    }
}
