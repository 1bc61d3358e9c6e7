//! A day of TotalView-ITCH by seed, with orders that live as orders live: half are gone within two thousand messages, a few stay all day; most
//! stand near the best price; a few stocks have most of the traffic. A pure function of its settings.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use market::{BookId, NasdaqItch, Order, OrderBooks, Side, Terms};
use venue::nasdaq::Text;
use venue::nasdaq::itch::{
    AddAttributed, AddOrder, BrokenTrade, Cancelled, CrossTrade, Deleted, Executed, ExecutedAt, HiddenTrade, Imbalance,
    Message, RegSho, Replaced, RetailInterest, StockDirectory, SystemEvent, TradingAction,
};

/// A stream of random numbers (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

/// Settings of a day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) stocks: u16,
    /// Longest life of an order in messages; lives are spread evenly over its logarithm.
    pub(crate) longest_life: f64,
}

/// Cents, in ITCH's four decimals.
const TICK: i64 = 100;

pub(crate) struct Day {
    settings: Settings,
    random: Random,
    books: OrderBooks<NasdaqItch>,
    /// When orders end, by number of message.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    middles: Vec<i64>,
    next_order: u64,
    next_match: u64,
    matches: Vec<u64>,
    time: u64,
    messages: u64,
    opening: u32,
}

impl Day {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let middles = (0..=settings.stocks).map(|_| (500 + random.below(50_000) as i64) * TICK).collect();
        let mut books = OrderBooks::default();
        books.open(BookId(u32::from(settings.stocks)));
        Self {
            settings,
            random,
            books,
            ends: BinaryHeap::new(),
            middles,
            next_order: 1,
            next_match: 1,
            matches: Vec::new(),
            time: 34_200_000_000_000,
            messages: 0,
            opening: 0,
        }
    }

    /// The books as the venue has them.
    pub(crate) fn books(&self) -> &OrderBooks<NasdaqItch> {
        &self.books
    }

    /// The highest number that an order has had.
    pub(crate) fn highest_order(&self) -> u64 {
        self.next_order - 1
    }

    pub(crate) fn symbol(locate: u16) -> Text<8> {
        Text::new(&format!("S{locate}"))
    }

    /// The next message. The day begins with what a day begins with, and has no end.
    pub(crate) fn next(&mut self) -> Message {
        self.messages += 1;
        self.time += self.random.below(2_000);
        let stocks = u32::from(self.settings.stocks);
        self.opening += 1;
        match self.opening - 1 {
            0 => self.system(b'O'),
            n if n <= stocks => self.directory(n as u16),
            n if n <= 2 * stocks => self.trading((n - stocks) as u16),
            n if n == 2 * stocks + 1 => self.system(b'S'),
            n if n == 2 * stocks + 2 => self.system(b'Q'),
            _ => {
                self.opening -= 1;
                self.flow()
            }
        }
    }

    pub(crate) fn system(&self, event: u8) -> Message {
        Message::SystemEvent(SystemEvent { locate: 0, tracking: 0, time: self.time, event })
    }

    fn directory(&self, locate: u16) -> Message {
        Message::StockDirectory(StockDirectory {
            locate,
            tracking: 0,
            time: self.time,
            stock: Self::symbol(locate),
            market_category: b'Q',
            financial_status: b'N',
            round_lot: 100,
            round_lots_only: b'N',
            issue_class: b'C',
            issue_sub_type: Text::new("Z"),
            authenticity: b'P',
            short_sale_threshold: b'N',
            ipo: b'N',
            luld_tier: b'1',
            etp: b'N',
            etp_leverage: 0,
            inverse: b'N',
        })
    }

    fn trading(&self, locate: u16) -> Message {
        let (stock, reason) = (Self::symbol(locate), Text::new(""));
        Message::TradingAction(TradingAction {
            locate,
            tracking: 0,
            time: self.time,
            stock,
            state: b'T',
            reserved: b' ',
            reason,
        })
    }

    fn flow(&mut self) -> Message {
        while let Some(Reverse((due, order))) = self.ends.peek().copied() {
            if due > self.messages {
                break;
            }
            self.ends.pop();
            if let Some((book, order)) = self.books.order(order) {
                return self.end_of_life(book, &order);
            }
        }
        let draw = self.random.unit();
        let locate = self.stock();
        if draw < 0.10
            && let Some(message) = self.execution(locate)
        {
            return message;
        }
        if draw < 0.115 { self.seldom(locate) } else { self.add(locate) }
    }

    /// A few stocks have most of the traffic.
    fn stock(&mut self) -> u16 {
        let stocks = f64::from(self.settings.stocks);
        stocks.powf(self.random.unit()).clamp(1.0, stocks) as u16
    }

    fn life(&mut self) -> u64 {
        (self.settings.longest_life.ln() * self.random.unit()).exp() as u64 + 1
    }

    /// A price near the best, which does not cross the book.
    fn price(&mut self, locate: u16, side: Side) -> i64 {
        let far = if self.random.chance(0.05) { 300.0 } else { 6.0 };
        let away = 1 + (-far * (1.0 - self.random.unit()).ln()) as i64;
        let middle = self.middles[usize::from(locate)];
        let other = self.books.best(BookId(u32::from(locate)), side.opposite()).map(|level| level.price);
        match side {
            Side::Bid => (middle - away * TICK).min(other.unwrap_or(i64::MAX) - TICK).max(TICK),
            Side::Ask => (middle + away * TICK).max(other.unwrap_or(0) + TICK),
        }
    }

    fn add(&mut self, locate: u16) -> Message {
        let side = if self.random.chance(0.5) { Side::Bid } else { Side::Ask };
        let price = self.price(locate, side);
        let shares = if self.random.chance(0.7) { 100 } else { 1 + self.random.below(1_000) as u32 };
        let reference = self.next_order;
        // Other markets of the operator draw from the same numbers.
        self.next_order += 1 + self.random.below(7);
        let order = Order { reference, side, price, size: u64::from(shares), priority: self.time, owner: 0 };
        self.books.add(BookId(u32::from(locate)), &order, &mut ()).expect("a new number");
        let end = self.messages + self.life();
        self.ends.push(Reverse((end, reference)));
        let (tracking, time, stock, price) = (0, self.time, Self::symbol(locate), price as u32);
        if self.random.chance(0.03) {
            let mpid = Text::new("MMKR");
            let order = reference;
            Message::AddAttributed(AddAttributed { locate, tracking, time, order, side, shares, stock, price, mpid })
        } else {
            let order = reference;
            Message::AddOrder(AddOrder { locate, tracking, time, order, side, shares, stock, price })
        }
    }

    fn end_of_life(&mut self, book: BookId, order: &Order) -> Message {
        let (locate, tracking, time) = (book.0 as u16, 0, self.time);
        let draw = self.random.unit();
        if draw < 0.17 {
            let price = self.price(locate, order.side);
            let new = self.next_order;
            self.next_order += 1 + self.random.below(7);
            let terms = Terms { price, size: order.size, priority: time };
            self.books.replace(order.reference, new, terms, &mut ()).expect("a live order");
            let end = self.messages + self.life();
            self.ends.push(Reverse((end, new)));
            let (old, shares, price) = (order.reference, order.size as u32, price as u32);
            return Message::Replaced(Replaced { locate, tracking, time, old, new, shares, price });
        }
        if draw < 0.21 && order.size > 1 {
            let shares = 1 + self.random.below(order.size - 1);
            self.books.cancel(order.reference, shares, &mut ()).expect("a live order");
            let end = self.messages + self.life();
            self.ends.push(Reverse((end, order.reference)));
            let (order, shares) = (order.reference, shares as u32);
            return Message::Cancelled(Cancelled { locate, tracking, time, order, shares });
        }
        self.books.delete(order.reference, &mut ()).expect("a live order");
        Message::Deleted(Deleted { locate, tracking, time, order: order.reference })
    }

    /// The first order of the best price is executed, in part or whole.
    fn execution(&mut self, locate: u16) -> Option<Message> {
        let side = if self.random.chance(0.5) { Side::Bid } else { Side::Ask };
        let order = self.books.orders(BookId(u32::from(locate)), side).next()?;
        let part = 1 + self.random.below(order.size);
        let size = if self.random.chance(0.6) { order.size } else { part };
        self.books.fill(order.reference, size, &mut ()).expect("a live order");
        if self.random.chance(0.1) {
            let middle = &mut self.middles[usize::from(locate)];
            *middle += if side == Side::Ask { TICK } else { -TICK };
            *middle = (*middle).max(100 * TICK);
        }
        let match_number = self.match_number();
        let (tracking, time, shares) = (0, self.time, size as u32);
        let (order, price) = (order.reference, order.price as u32);
        if self.random.chance(0.02) {
            let printable = if self.random.chance(0.5) { b'Y' } else { b'N' };
            let price = price + 50;
            if printable == b'Y' {
                self.matches.push(match_number);
            }
            let message = ExecutedAt { locate, tracking, time, order, shares, match_number, printable, price };
            return Some(Message::ExecutedAt(message));
        }
        self.matches.push(match_number);
        Some(Message::Executed(Executed { locate, tracking, time, order, shares, match_number }))
    }

    fn match_number(&mut self) -> u64 {
        self.next_match += 1 + self.random.below(3);
        self.next_match
    }

    fn seldom(&mut self, locate: u16) -> Message {
        let (tracking, time, stock) = (0, self.time, Self::symbol(locate));
        let price = self.middles[usize::from(locate)] as u32;
        match self.random.below(24) {
            0..=15 => {
                let (match_number, shares) = (self.match_number(), 100 + self.random.below(900) as u32);
                self.matches.push(match_number);
                let (order, side) = (0, b'B');
                let trade = HiddenTrade { locate, tracking, time, order, side, shares, stock, price, match_number };
                Message::HiddenTrade(trade)
            }
            16 => {
                let (match_number, shares, cross) = (self.match_number(), self.random.below(3) * 1_000, b'I');
                Message::CrossTrade(CrossTrade { locate, tracking, time, shares, stock, price, match_number, cross })
            }
            17 if !self.matches.is_empty() => {
                let at = self.random.below(self.matches.len() as u64) as usize;
                let match_number = self.matches.swap_remove(at);
                Message::BrokenTrade(BrokenTrade { locate, tracking, time, match_number })
            }
            18 => Message::RegSho(RegSho { locate, tracking, time, stock, action: b'1' }),
            19 => Message::RetailInterest(RetailInterest { locate, tracking, time, stock, interest: b'A' }),
            _ => {
                let (paired, imbalance, direction) = (5_000, 300, b'B');
                let (far, near, reference) = (price + 200, price + 100, price);
                let (cross, variation) = (b'C', b'L');
                Message::Imbalance(Imbalance {
                    locate,
                    tracking,
                    time,
                    paired,
                    imbalance,
                    direction,
                    stock,
                    far,
                    near,
                    reference,
                    cross,
                    variation,
                })
            }
        }
    }
}
