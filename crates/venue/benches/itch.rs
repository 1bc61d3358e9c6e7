//! Rates of TotalView-ITCH on one core: parse alone, levels only, full book with queues and notifications.
//!
//! `cargo bench -p venue --bench itch [-- MESSAGES]` (5,000,000) writes a day to a temporary file, prints its statistics, and reads it three times
//! for each figure. `-- write FILE MESSAGES`, `-- parse FILE`, `-- levels FILE [ORDERS]` and `-- books FILE [ORDERS]` do one of these: beside other programs that
//! read such files, as `peers/books/run.sh` does. With ORDERS there is memory for so many at one time before the clock starts, as programs have it that make tables for the
//! whole day. 50 M messages take 1.6 GB. Figures are of time on the processor, so that other programs on the
//! machine count less.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a measurement has a clock and prints")]

#[path = "../tests/support/day.rs"]
#[allow(dead_code, reason = "tests and measurements use different parts")]
mod day;

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read as _, Write};
use std::path::Path;
use std::time::Instant;

use day::{Day, Settings};
use market::{BookId, Event, Events};
use venue::Market;
use venue::nasdaq::itch::Message;
use venue::nasdaq::{DayFile, TotalView};

/// As a reader gets a file: few calls of the system, and a piece stays in a cache beside the books.
const PIECE: usize = 1 << 17;

/// Takes every event as a subscriber of queues would: nothing can be left out by the compiler.
#[derive(Default)]
struct Counts {
    events: u64,
    mix: u64,
    ends: u64,
}

impl Events for Counts {
    const WANTS_RANK: bool = false;
    #[inline]
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
    #[inline]
    fn end(&mut self, _book: Option<BookId>) {
        self.ends += 1;
    }
}

fn on_processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

/// Runs `act`, which gives how many messages it took and what came of them.
fn timed(what: &str, act: impl FnOnce() -> std::io::Result<(u64, String)>) -> std::io::Result<()> {
    let (start, used) = (Instant::now(), on_processor());
    let (messages, said) = act()?;
    let (wall, used) = (start.elapsed().as_nanos() as f64, (on_processor() - used) as f64);
    let count = messages as f64;
    let (rate, each, clock) = (count * 1e3 / used, used / count, wall / count);
    println!("{what:<30} {rate:>6.1} M/s  {each:>6.1} ns each  ({clock:.1} ns by the clock)  {said}");
    Ok(())
}

/// Stocks of a day.
const STOCKS: u16 = 8_000;

/// Writes a day of so many messages and says what is in it.
fn write_day(out: &mut impl Write, messages: u64) -> std::io::Result<()> {
    let settings = Settings { seed: 1, stocks: STOCKS, longest_life: messages as f64 };
    let (mut source, mut kinds, mut bytes) = (Day::new(settings), [0u64; 256], Vec::new());
    let (mut most, mut length) = (0, 0);
    for _ in 0..messages {
        let message = source.next();
        kinds[usize::from(message.code())] += 1;
        bytes.clear();
        bytes.extend([0; 2]);
        message.encode(&mut bytes);
        let body = (bytes.len() - 2) as u16;
        bytes[..2].copy_from_slice(&body.to_be_bytes());
        out.write_all(&bytes)?;
        length += bytes.len();
        most = most.max(source.books().len());
    }
    let share =
        |code: u8| format!("{} {:.1} %", char::from(code), kinds[usize::from(code)] as f64 * 100.0 / messages as f64);
    let mix: Vec<String> = b"AFECXDUPQI".iter().map(|code| share(*code)).collect();
    println!(
        "{messages} messages, {} MB, {STOCKS} stocks, at most {most} orders at a time, highest order number {}: {}",
        length >> 20,
        source.highest_order(),
        mix.join(", ")
    );
    Ok(())
}

/// Reads a file piece by piece: so many messages there were.
fn read_day(path: &Path, mut each: impl FnMut(&mut DayFile, &[u8])) -> std::io::Result<u64> {
    let (mut file, mut piece, mut reader) = (File::open(path)?, vec![0; PIECE], DayFile::new());
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok(reader.messages());
        }
        each(&mut reader, &piece[..length]);
    }
}

fn parse(path: &Path) -> std::io::Result<()> {
    timed("parse", || {
        let mut sum = 0u64;
        let messages = read_day(path, |reader, piece| {
            reader.read(piece, |message| {
                if let Ok(message) = black_box(Message::decode(message)) {
                    sum = sum.wrapping_add(message.head().1);
                }
            });
        })?;
        Ok((messages, format!("{sum}")))
    })
}

/// Memory for what else a day has: it is the heap's once it was given back.
fn have_memory(orders: usize) {
    let blocks: Vec<Vec<u8>> = (0..orders * HEAP_AN_ORDER / BLOCK).map(|_| vec![1; BLOCK]).collect();
    drop(black_box(blocks));
}

/// Bytes of the heap that trades, levels, far prices and the table of old orders have together for each order that stands at the most, and those of a block that the
/// heap has, not the kernel.
const HEAP_AN_ORDER: usize = 128;
const BLOCK: usize = 1 << 20;

fn levels(path: &Path, orders: usize) -> std::io::Result<()> {
    let mut day = TotalView::<false>::with_capacity(orders);
    have_memory(orders);
    timed("levels only", || {
        let messages = read_day(path, |reader, piece| {
            reader.read_all(piece, |messages| day.apply_all(messages, &mut ()));
        })?;
        Ok((messages, format!("{} orders left, {} bad", day.books().len(), day.bad_total())))
    })
}

fn books(path: &Path, orders: usize) -> std::io::Result<()> {
    let (mut day, mut told) = (TotalView::<true>::with_capacity(orders), Counts::default());
    have_memory(orders);
    timed("full book, notifications", || {
        let messages = read_day(path, |reader, piece| {
            reader.read_all(piece, |messages| day.apply_all(messages, &mut told));
        })?;
        let (events, mix) = (told.events, told.mix);
        Ok((messages, format!("{events} events, {mix:x}, {} orders left, {} bad", day.books().len(), day.bad_total())))
    })
}

/// Orders for which there is to be memory; 0 if nothing is said.
fn number(words: &[&str]) -> std::io::Result<usize> {
    words.first().map_or(Ok(0), |word| word.parse().map_err(std::io::Error::other))
}

#[global_allocator]
static ALLOCATOR: net::huge_pages::HugePages = net::huge_pages::HugePages;

fn main() -> std::io::Result<()> {
    // As the server does.
    net::huge_pages::use_for_heap();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", path, messages] => {
            let mut out = BufWriter::new(File::create(path)?);
            write_day(&mut out, messages.parse().map_err(std::io::Error::other)?)?;
            out.flush()
        }
        ["parse", path] => parse(path.as_ref()),
        ["levels", path, ref orders @ ..] => levels(path.as_ref(), number(orders)?),
        ["books", path, ref orders @ ..] => books(path.as_ref(), number(orders)?),
        _ => {
            let file = tempfile::NamedTempFile::new()?;
            let messages = words.first().and_then(|word| word.parse().ok()).unwrap_or(5_000_000);
            write_day(&mut BufWriter::new(file.as_file()), messages)?;
            for _ in 0..3 {
                parse(file.path())?;
                levels(file.path(), 0)?;
                books(file.path(), 0)?;
            }
            Ok(())
        }
    }
}
