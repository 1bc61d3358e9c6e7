//! What books cost: bytes an order, and no allocation when nothing grows.

use market::{BookId, NasdaqItch, Order, OrderBooks, Side, Terms};

/// Spreads as hash numbers do, the same every time.
fn scatter(n: u64) -> u64 {
    let mixed = n.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

fn order(reference: u64) -> (BookId, Order) {
    let draw = scatter(reference);
    let side = if draw & 1 == 0 { Side::Bid } else { Side::Ask };
    // Two thousand books of forty prices a side.
    let book = BookId((draw >> 8) as u32 % 2_000);
    let price = 1_000_000 + ((draw >> 32) % 40) as i64 * 100;
    (book, Order { reference, side, price, size: 100, priority: reference, owner: 0 })
}

#[test]
fn an_order_takes_at_most_64_bytes_when_the_index_is_emptiest() {
    let orders = 4_000_000u64;
    let (mut held, mut most) = (None, 0.0f64);
    let info = allocation_counter::measure(|| {
        let books = held.insert(OrderBooks::<NasdaqItch>::default());
        books.open(BookId(1_999));
        let mut before = books.memory();
        for reference in 1..=orders {
            let (book, order) = order(reference);
            books.add(book, &order, &mut ()).expect("added");
            if reference % 4_096 == 0 {
                // The dearest moment is just after something has grown.
                let memory = books.memory();
                if reference > 1_000_000 && memory > before {
                    most = most.max(memory as f64 / reference as f64);
                }
                before = memory;
            }
        }
    });
    let books = held.expect("made");
    assert_eq!(books.len() as u64, orders);
    assert!(most > 40.0 && most <= 64.0, "{most} bytes an order");
    // The books' own account is what the allocator says.
    assert_eq!(info.bytes_current, books.memory() as i64);
}

#[test]
fn a_day_of_changes_allocates_nothing_once_there_were_as_many_orders() {
    let mut books = OrderBooks::<NasdaqItch>::default();
    books.open(BookId(1_999));
    let mut turn = |from: u64| {
        for reference in from..from + 50_000 {
            let (book, order) = order(reference);
            books.add(book, &order, &mut ()).expect("added");
        }
        for reference in from..from + 50_000 {
            let (_, order) = books.fill(reference, 40, &mut ()).expect("filled");
            books.cancel(reference, 10, &mut ()).expect("cancelled");
            let terms = Terms { price: order.price + 100, size: 5, priority: 1 };
            books.replace(reference, reference + (1 << 40), terms, &mut ()).expect("replaced");
        }
        for reference in from..from + 50_000 {
            books.delete(reference + (1 << 40), &mut ()).expect("deleted");
        }
    };
    // The second finds the spans around the best prices where the first has left them, and other levels beyond them.
    turn(1);
    turn(1);
    let info = allocation_counter::measure(|| turn(1));
    assert_eq!(info.count_total, 0, "allocations");
}
