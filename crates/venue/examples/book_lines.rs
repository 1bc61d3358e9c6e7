//! The whole book after every message, as lines of text: what other programs' books are held against (`interop/books`).
//!
//! `cargo run -p venue --example book_lines -- write-itch FILE MESSAGES STOCKS` writes a generated day of TotalView-ITCH. `-- itch FILE` and
//! `-- deep FILE` read messages behind their lengths (two bytes, big endian) and print a line for each that is of a book: its stock's locate or
//! symbol, then bids and asks from the best on. A level of ITCH is `price:order*shares,order*shares;`, in the order of its queue, one of IEX DEEP
//! `price:size;`. `-- itch-fields FILE` and `-- iex-fields FILE` print each message itself, as Rust shows it.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a program that prints")]

#[path = "../tests/support/day.rs"]
#[allow(dead_code, reason = "tests and this program use different parts")]
mod day;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};

use day::{Day, Settings};
use market::{BookId, Side};
use venue::iex::{self, IexDay};
use venue::nasdaq::itch::Message;
use venue::nasdaq::{DayFile, Text, TotalView};

fn write_itch(path: &str, messages: u64, stocks: u16) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    let mut day = Day::new(Settings { seed: 7, stocks, longest_life: messages as f64 });
    let mut bytes = Vec::new();
    for _ in 0..messages {
        bytes.clear();
        day.next().encode(&mut bytes);
        out.write_all(&(bytes.len() as u16).to_be_bytes())?;
        out.write_all(&bytes)?;
    }
    out.flush()
}

/// A book of ITCH with its queues.
fn write_queues(day: &TotalView, book: BookId, line: &mut String) -> std::fmt::Result {
    write!(line, "{}", book.0)?;
    for side in Side::BOTH {
        line.push('|');
        let mut at = None;
        for order in day.books().orders(book, side) {
            if at == Some(order.price) {
                line.push(',');
            } else {
                line.push_str(if at.is_some() { ";" } else { "" });
                write!(line, "{}:", order.price)?;
            }
            at = Some(order.price);
            write!(line, "{}*{}", order.reference, order.size)?;
        }
        line.push_str(if at.is_some() { ";" } else { "" });
    }
    Ok(())
}

/// A book of IEX.
fn write_levels(day: &IexDay, symbol: Text<8>, line: &mut String) -> std::fmt::Result {
    line.push_str(&symbol.trimmed());
    for side in Side::BOTH {
        line.push('|');
        for level in day.number(symbol).into_iter().flat_map(|book| day.books().levels(book, side)) {
            write!(line, "{}:{};", level.price, level.size)?;
        }
    }
    Ok(())
}

/// Reads a file message by message; prints what `line_of` writes for each.
fn print_each(
    path: &str,
    mut line_of: impl FnMut(&[u8], &mut String) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (mut out, mut line) = (BufWriter::new(std::io::stdout().lock()), String::new());
    let (mut reader, mut result) = (DayFile::new(), Ok(()));
    reader.read(&std::fs::read(path)?, |message| {
        line.clear();
        if result.is_ok() {
            result = line_of(message, &mut line);
        }
        if result.is_ok() && !line.is_empty() {
            result = writeln!(out, "{line}").map_err(Into::into);
        }
    });
    result?;
    Ok(out.flush()?)
}

fn itch(path: &str) -> Result<(), Box<dyn Error>> {
    let mut day = TotalView::<true>::default();
    print_each(path, |bytes, line| {
        let message = Message::decode(bytes)?;
        day.apply_message(&message, &mut ());
        if b"AFECXDU".contains(&message.code()) {
            write_queues(&day, BookId(u32::from(message.head().0)), line)?;
        }
        if day.bad_total() > 0 { Err(format!("{message:?} does not fit the book").into()) } else { Ok(()) }
    })
}

fn deep(path: &str) -> Result<(), Box<dyn Error>> {
    let mut day = IexDay::new();
    print_each(path, |bytes, line| {
        day.apply(bytes, &mut ())?;
        if let (b'8' | b'5', Some(symbol)) = (bytes[0], bytes.get(10..18).and_then(|symbol| symbol.try_into().ok())) {
            write_levels(&day, Text(symbol), line)?;
        }
        Ok(())
    })
}

fn itch_fields(path: &str) -> Result<(), Box<dyn Error>> {
    print_each(path, |bytes, line| Ok(write!(line, "{:?}", Message::decode(bytes)?)?))
}

fn iex_fields(path: &str) -> Result<(), Box<dyn Error>> {
    print_each(path, |bytes, line| Ok(write!(line, "{:?}", iex::messages::Message::decode(bytes)?)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write-itch", path, messages, stocks] => Ok(write_itch(path, messages.parse()?, stocks.parse()?)?),
        ["itch", path] => itch(path),
        ["deep", path] => deep(path),
        ["itch-fields", path] => itch_fields(path),
        ["iex-fields", path] => iex_fields(path),
        _ => Err(
            "book_lines write-itch FILE MESSAGES STOCKS | itch FILE | deep FILE | itch-fields FILE | iex-fields FILE"
                .into(),
        ),
    }
}
