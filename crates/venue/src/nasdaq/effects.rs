//! Effects of the messages of orders, which are nearly all messages of a day, on its books.

use market::{Ahead, BookId, Order, Side, Terms};

use super::itch::{AddAttributed, AddOrder, Cancelled, Deleted, Executed, ExecutedAt, Message, Replaced};
use super::totalview::{Bad, TotalView};
use crate::market_events::{Market, Trade, TradeKind};

/// A message of an order.
pub(super) trait Effect {
    /// Stock locate and time.
    fn head(&self) -> (u16, u64);
    fn take_effect<M: Market<Message>, const QUEUED: bool>(&self, day: &mut TotalView<QUEUED>, market: &mut M);
}

macro_rules! effects {
    ($($message:ty: $effect:expr;)*) => {$(
        impl Effect for $message {
            #[inline]
            fn head(&self) -> (u16, u64) {
                (self.locate, self.time)
            }

            #[inline]
            fn take_effect<M: Market<Message>, const QUEUED: bool>(&self, day: &mut TotalView<QUEUED>, market: &mut M) {
                $effect(self, day, market);
            }
        }
    )*};
}

effects! {
    AddOrder: |m: &Self, day: &mut TotalView<QUEUED>, market: &mut M| {
        let new = NewOrder { reference: m.order, side: m.side, shares: m.shares, price: m.price, owner: 0 };
        add(day, m.head(), new, market);
    };
    AddAttributed: |m: &Self, day: &mut TotalView<QUEUED>, market: &mut M| {
        let owner = u32::from_be_bytes(m.mpid.0);
        let new = NewOrder { reference: m.order, side: m.side, shares: m.shares, price: m.price, owner };
        add(day, m.head(), new, market);
    };
    Executed: |m: &Self, day: &mut TotalView<QUEUED>, market: &mut M| {
        let print = Print { number: m.match_number, price: None, counts: true };
        execute(day, m.locate, (m.order, m.shares), print, market);
    };
    ExecutedAt: |m: &Self, day: &mut TotalView<QUEUED>, market: &mut M| {
        let print = Print { number: m.match_number, price: Some(m.price), counts: m.printable != b'N' };
        execute(day, m.locate, (m.order, m.shares), print, market);
    };
    Cancelled: |m: &Self, day: &mut TotalView<QUEUED>, market: &mut M| {
        let done = day.books.cancel(m.order, u64::from(m.shares), market);
        day.hold_stock(m.locate, done, market);
    };
    Deleted: |m: &Self, day: &mut TotalView<QUEUED>, market: &mut M| {
        let done = day.books.delete(m.order, market);
        day.hold_stock(m.locate, done, market);
    };
    Replaced: |m: &Self, day: &mut TotalView<QUEUED>, market: &mut M| {
        let terms = Terms { price: i64::from(m.price), size: u64::from(m.shares), priority: m.time };
        day.count_if(m.price == 0, Bad::PriceZero);
        let done = day.books.replace(m.old, m.new, terms, market);
        day.hold_stock(m.locate, done, market);
    };
}

/// An order as its message tells of it.
#[derive(Clone, Copy, Debug)]
struct NewOrder {
    reference: u64,
    side: Side,
    shares: u32,
    price: u32,
    owner: u32,
}

#[inline]
fn add<M: Market<Message>, const QUEUED: bool>(
    day: &mut TotalView<QUEUED>,
    (locate, time): (u16, u64),
    new: NewOrder,
    market: &mut M,
) {
    let NewOrder { reference, side, shares, price, owner } = new;
    let book = BookId(u32::from(locate));
    day.count_if(price == 0, Bad::PriceZero);
    if !day.listed.get(usize::from(locate)).copied().unwrap_or(false) {
        day.count(Bad::NoDirectory);
        day.books.open(book);
    }
    let order = Order { reference, side, price: i64::from(price), size: u64::from(shares), priority: time, owner };
    if let Err(why) = day.books.add(book, &order, market) {
        day.refused(locate, &why, market);
    }
}

#[inline]
fn execute<M: Market<Message>, const QUEUED: bool>(
    day: &mut TotalView<QUEUED>,
    locate: u16,
    (order, shares): (u64, u32),
    print: Print,
    market: &mut M,
) {
    let done = day.books.fill(order, u64::from(shares), market);
    if let Ok((book, left)) = done
        && print.counts
        && shares > 0
    {
        let kind = if print.price.is_some() { TradeKind::BookAtPrice } else { TradeKind::Book };
        let trade = Trade {
            number: print.number,
            price: print.price.map_or(left.price, i64::from),
            size: u64::from(shares),
            aggressor: Some(left.side.opposite()),
            order: Some(order),
            kind,
            is_eligible: true,
        };
        day.trades.keep(book.0 as u16, &trade);
        market.trade(book, &trade);
    }
    day.hold_stock(locate, done, market);
}

/// How an execution is printed.
#[derive(Clone, Copy, Debug)]
struct Print {
    number: u64,
    /// `None`: at the order's price.
    price: Option<u32>,
    /// Part of time and sales; otherwise a cross trade tells of it again, and it would be counted twice.
    counts: bool,
}

/// Says what a message will touch, if it is an order's.
#[inline]
pub(super) fn look_at(message: &[u8], ahead: &mut Ahead) {
    // Where all messages about an order have its number, and both about a new one its side and price.
    let Some(head) = message.first_chunk::<19>() else { return };
    match head[0] {
        Deleted::CODE | Executed::CODE | Cancelled::CODE | ExecutedAt::CODE | Replaced::CODE => {
            let [.., a, b, c, d, e, f, g, h] = *head;
            ahead.order(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        }
        AddOrder::CODE | AddAttributed::CODE => {
            let Some(m) = message.first_chunk::<36>() else { return };
            let side = if m[19] == b'B' { Side::Bid } else { Side::Ask };
            let price = i64::from(u32::from_be_bytes([m[32], m[33], m[34], m[35]]));
            ahead.add(BookId(u32::from(u16::from_be_bytes([m[1], m[2]]))), side, price);
        }
        _ => {}
    }
}
