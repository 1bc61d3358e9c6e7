//! Memory and rates of the order books: `cargo bench -p market --bench books [-- ORDERS]` (10,000,000 live orders).
//!
//! Adds so many orders to 8,000 books, executes parts of the last million, then cancels and adds in turns over all of them at random, which is
//! the worst an index and a slab can be asked: every access misses the caches.

use std::time::Instant;

use market::{BookId, NasdaqItch, Order, OrderBooks, Side};

const BOOKS: u64 = 8_000;

/// The output function of `SplitMix64`.
fn scatter(n: u64) -> u64 {
    let mixed = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn order(reference: u64) -> (BookId, Order) {
    let draw = scatter(reference);
    let side = if draw & 1 == 0 { Side::Bid } else { Side::Ask };
    let price = 1_000_000 + ((draw >> 32) % 40) as i64 * 100;
    let book = BookId(((draw >> 8) % BOOKS) as u32);
    (book, Order { reference, side, price, size: 100, priority: reference, owner: 0 })
}

/// Nanoseconds that this thread has been on a processor: other programs on the machine do not count. 0 where Linux does not tell.
fn on_processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

#[allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a measurement has a clock and prints")]
fn timed(what: &str, count: u64, act: impl FnOnce()) {
    let (start, used) = (Instant::now(), on_processor());
    act();
    let (wall, used) = (start.elapsed().as_nanos() as f64, (on_processor() - used) as f64);
    let count = count as f64;
    println!(
        "{what:<28} {:>7.1} ns each on the processor, {:>6.2} M/s; {:>7.1} ns by the clock",
        used / count,
        count * 1e3 / used,
        wall / count
    );
}

#[allow(clippy::disallowed_macros, reason = "a measurement prints")]
fn main() {
    let given = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let orders: u64 = given.unwrap_or(10_000_000);
    let mut books = OrderBooks::<NasdaqItch>::default();
    books.open(BookId(BOOKS as u32 - 1));
    timed("add", orders, || {
        for reference in 1..=orders {
            let (book, order) = order(reference);
            let _told = books.add(book, &order, &mut ());
        }
    });
    println!(
        "{:<36} {:>8.1} bytes at {} orders",
        "memory an order",
        books.memory() as f64 / orders as f64,
        books.len()
    );
    let recent = orders.min(1_000_000);
    timed("execute a part, recent", recent, || {
        for reference in orders - recent + 1..=orders {
            let _told = books.fill(reference, 10, &mut ());
        }
    });
    let turns = orders.min(2_000_000);
    timed("delete at random, add", turns * 2, || {
        for turn in 0..turns {
            let _told = books.delete(scatter(turn) % orders + 1, &mut ());
            let (book, order) = order(orders + 1 + turn);
            let _told = books.add(book, &order, &mut ());
        }
    });
}
