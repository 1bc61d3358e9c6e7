//! Effects of the messages of a TotalView-ITCH day on its books.

use std::collections::HashMap;
use std::fmt;

use market::{Ahead, BookId, Cause, Hint, NasdaqItch, Order, OrderBooks, Refused, Side, Terms};

use super::itch::{
    AddAttributed, AddOrder, Cancelled, Deleted, Executed, ExecutedAt, Message, Replaced, StockDirectory, Unreadable,
};
use super::layout::Text;
use super::trades::Trades;
use crate::market_events::{Market, Trade, TradeKind};

/// Kinds of input that cannot be what the venue meant. All are counted, none stops anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// No byte.
    Empty,
    /// Fewer bytes than the type has.
    Short,
    /// Unknown type.
    Type,
    /// A field has a value that it cannot have.
    Value,
    /// Names an order that is not there: a message was lost.
    UnknownOrder,
    /// A new order has the number of one that stands.
    DuplicateOrder,
    /// An order of no shares.
    NoShares,
    /// More was executed or cancelled than the order had.
    Exceeds,
    /// A sum that cannot be counted.
    Uncountable,
    /// An order is of another stock than the message about it says.
    WrongStock,
    /// A new order of a stock that no directory message has named.
    NoDirectory,
    /// A price of 0, which is booked as told.
    PriceZero,
    /// A trade was broken that is not known, or was broken before.
    UnknownTrade,
}

impl Bad {
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; 13] = [
        Self::Empty,
        Self::Short,
        Self::Type,
        Self::Value,
        Self::UnknownOrder,
        Self::DuplicateOrder,
        Self::NoShares,
        Self::Exceeds,
        Self::Uncountable,
        Self::WrongStock,
        Self::NoDirectory,
        Self::PriceZero,
        Self::UnknownTrade,
    ];
}

impl fmt::Display for Bad {
    /// The counts, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "messages without a byte",
            Self::Short => "messages that are too short",
            Self::Type => "messages of an unknown type",
            Self::Value => "messages with an impossible value",
            Self::UnknownOrder => "messages about orders that are not there",
            Self::DuplicateOrder => "new orders whose number is in use",
            Self::NoShares => "orders of no shares",
            Self::Exceeds => "more executed or cancelled than the order had",
            Self::Uncountable => "sums that cannot be counted",
            Self::WrongStock => "messages of another stock than their order's",
            Self::NoDirectory => "orders of stocks that no directory has named",
            Self::PriceZero => "prices of 0",
            Self::UnknownTrade => "breaks of trades that are not known",
        })
    }
}

impl From<Unreadable> for Bad {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Empty => Self::Empty,
            Unreadable::Short { .. } => Self::Short,
            Unreadable::Type(_) => Self::Type,
            Unreadable::Value { .. } => Self::Value,
        }
    }
}

/// A stock of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Facts of the directory about the stock.
    pub directory: StockDirectory,
    /// H halted, P paused, Q quoting only, T trading. A stock that no trading action names counts as halted.
    pub state: u8,
}

/// The stocks, books and trades of one day. `QUEUED` false keeps levels only.
#[derive(Debug)]
pub struct TotalView<const QUEUED: bool = true> {
    books: OrderBooks<NasdaqItch, QUEUED>,
    stocks: Vec<Option<Stock>>,
    /// By locate: the directory has named it. Each order asks, and what is small stays in the caches.
    listed: Vec<bool>,
    locates: HashMap<Text<8>, u16>,
    doubted: Vec<bool>,
    trades: Trades,
    /// The batch that is being applied, for its memory.
    ahead: Ahead,
    messages: u64,
    bad: [u64; Bad::ALL.len()],
    /// Something has come since the day was begun.
    is_begun: bool,
}

impl<const QUEUED: bool> Default for TotalView<QUEUED> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<const QUEUED: bool> TotalView<QUEUED> {
    /// A day with memory for so many orders at one time.
    pub fn with_capacity(orders: usize) -> Self {
        Self {
            books: OrderBooks::with_capacity(orders),
            stocks: Vec::new(),
            listed: Vec::new(),
            locates: HashMap::new(),
            doubted: Vec::new(),
            trades: Trades::default(),
            ahead: Ahead::default(),
            messages: 0,
            bad: [0; Bad::ALL.len()],
            is_begun: false,
        }
    }

    /// The books, by stock locate.
    pub fn books(&self) -> &OrderBooks<NasdaqItch, QUEUED> {
        &self.books
    }

    /// The stock of a locate.
    pub fn stock(&self, locate: u16) -> Option<&Stock> {
        self.stocks.get(usize::from(locate))?.as_ref()
    }

    /// The locate of a symbol today.
    pub fn locate(&self, symbol: &str) -> Option<u16> {
        self.locates.get(&Text::new(symbol)).copied()
    }

    /// Messages that could be read.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// How much was wrong of a kind.
    pub fn bad(&self, kind: Bad) -> u64 {
        self.bad[kind as usize]
    }

    /// Everything that was wrong, of all kinds.
    pub fn bad_total(&self) -> u64 {
        self.bad.iter().sum()
    }

    /// A book has named what is not there since the day began.
    pub fn is_in_doubt(&self, book: BookId) -> bool {
        self.doubted.get(book.0 as usize).copied().unwrap_or(false)
    }

    /// A new day: no stock, no order, no trade. The counters stay.
    pub fn begin<M: Market<Message>>(&mut self, market: &mut M) {
        self.clear_books(market);
        self.stocks.clear();
        self.listed.clear();
        self.locates.clear();
        self.trades.clear();
        self.is_begun = false;
    }

    /// Empties the books, as before a snapshot: the day's stocks and trades stay.
    pub fn clear_books<M: Market<Message>>(&mut self, market: &mut M) {
        self.books.clear_all(market);
        self.doubted.fill(false);
    }

    /// Applies a message; `Err` tells what is wrong with it, which has been counted.
    ///
    /// # Errors
    /// The bytes are no message. What is wrong with the meaning of a readable message is counted and told to the market.
    #[inline]
    pub fn apply<M: Market<Message>>(&mut self, bytes: &[u8], market: &mut M) -> Result<(), Unreadable> {
        // Nearly all messages are of orders: what one means is read where it lies, and is never a value of all messages' type.
        match bytes.first() {
            Some(&AddOrder::CODE) => self.take(AddOrder::decode(bytes), false, market),
            Some(&Deleted::CODE) => self.take(Deleted::decode(bytes), true, market),
            Some(&Replaced::CODE) => self.take(Replaced::decode(bytes), true, market),
            Some(&Executed::CODE) => self.take(Executed::decode(bytes), true, market),
            Some(&Cancelled::CODE) => self.take(Cancelled::decode(bytes), true, market),
            Some(&AddAttributed::CODE) => self.take(AddAttributed::decode(bytes), false, market),
            Some(&ExecutedAt::CODE) => self.take(ExecutedAt::decode(bytes), true, market),
            _ => self.take_rare(bytes, market),
        }
    }

    #[inline]
    fn take<E: Effect, M: Market<Message>>(
        &mut self,
        read: Result<E, Unreadable>,
        names_order: bool,
        market: &mut M,
    ) -> Result<(), Unreadable> {
        let hint = if names_order { self.ahead.next_hint() } else { Hint::NONE };
        match read {
            Ok(message) => {
                self.effect(&message, hint, market);
                Ok(())
            }
            Err(why) => self.unreadable(why),
        }
    }

    #[inline(never)]
    fn take_rare<M: Market<Message>>(&mut self, bytes: &[u8], market: &mut M) -> Result<(), Unreadable> {
        match Message::decode(bytes) {
            Ok(message) => {
                self.apply_message(&message, market);
                Ok(())
            }
            Err(why) => self.unreadable(why),
        }
    }

    #[cold]
    fn unreadable(&mut self, why: Unreadable) -> Result<(), Unreadable> {
        self.count(why.into());
        Err(why)
    }

    /// Applies messages one after the other, as [`TotalView::apply`] does, and looks ahead at what they touch: a day's orders and levels are in
    /// no cache, and a message alone waits for each of them. Messages that cannot be read are counted.
    #[inline]
    pub fn apply_all<M: Market<Message>>(&mut self, messages: &[&[u8]], market: &mut M) {
        self.ahead.clear();
        let mut looked_at = messages.chunks(TOGETHER);
        // Memory answers while the messages before are applied.
        for _ in 1..STEPS_AHEAD {
            self.step_ahead(looked_at.next());
        }
        for now in messages.chunks(TOGETHER) {
            self.step_ahead(looked_at.next());
            for message in now {
                let _counted = self.apply(message, market);
            }
        }
    }

    /// Some messages more are looked ahead at, and those before them take the next step.
    #[inline]
    fn step_ahead(&mut self, more: Option<&[&[u8]]>) {
        for message in more.unwrap_or_default() {
            look_at(message, &mut self.ahead);
        }
        self.books.look_ahead(&mut self.ahead);
    }

    /// Looks ahead at what the next messages touch, at most [`Ahead::MOST`] of them: for who applies them one by one.
    #[inline]
    pub fn look_ahead<'m>(&mut self, messages: impl IntoIterator<Item = &'m [u8]>) {
        self.ahead.clear();
        for message in messages.into_iter().take(Ahead::MOST) {
            look_at(message, &mut self.ahead);
        }
        while self.books.look_ahead(&mut self.ahead) {}
    }

    /// Applies a message that has been read.
    pub fn apply_message<M: Market<Message>>(&mut self, message: &Message, market: &mut M) {
        match message {
            Message::AddOrder(m) => self.effect(m, Hint::NONE, market),
            Message::AddAttributed(m) => self.effect(m, Hint::NONE, market),
            Message::Executed(m) => self.effect(m, Hint::NONE, market),
            Message::ExecutedAt(m) => self.effect(m, Hint::NONE, market),
            Message::Cancelled(m) => self.effect(m, Hint::NONE, market),
            Message::Deleted(m) => self.effect(m, Hint::NONE, market),
            Message::Replaced(m) => self.effect(m, Hint::NONE, market),
            other => self.within(other.head(), market, |day, book, market| day.rare(other, book, market)),
        }
    }

    #[inline]
    fn effect<E: Effect, M: Market<Message>>(&mut self, message: &E, hint: Hint, market: &mut M) {
        self.within(message.head(), market, |day, _, market| message.take_effect(day, hint, market));
    }

    /// Everything that a message of this locate and time does.
    #[inline]
    fn within<M: Market<Message>>(
        &mut self,
        (locate, time): (u16, u64),
        market: &mut M,
        act: impl FnOnce(&mut Self, Option<BookId>, &mut M),
    ) {
        self.messages += 1;
        let book = (locate > 0).then_some(BookId(u32::from(locate)));
        market.begin(book, time);
        act(self, book, market);
        self.is_begun = true;
        market.end(book);
    }

    /// Notices that come less often than once in a hundred messages.
    fn rare<M: Market<Message>>(&mut self, message: &Message, book: Option<BookId>, market: &mut M) {
        match message {
            Message::HiddenTrade(m) => {
                self.print(m.locate, m.match_number, m.price, u64::from(m.shares), TradeKind::Hidden, market);
            }
            Message::CrossTrade(m) => {
                self.print(m.locate, m.match_number, m.price, m.shares, TradeKind::Cross(m.cross), market);
            }
            Message::BrokenTrade(m) => match self.trades.take(m.match_number) {
                Some((locate, trade)) => market.broken(BookId(u32::from(locate)), &trade),
                None => self.count(Bad::UnknownTrade),
            },
            Message::SystemEvent(m) => {
                if m.event == b'O' && self.is_begun {
                    self.begin(market);
                }
                market.notice(None, message);
            }
            Message::StockDirectory(m) => {
                self.enter_stock(m);
                market.notice(book, message);
            }
            Message::TradingAction(m) => {
                if let Some(Some(stock)) = self.stocks.get_mut(usize::from(m.locate)) {
                    stock.state = m.state;
                }
                market.notice(book, message);
            }
            _ => market.notice(book, message),
        }
    }

    fn enter_stock(&mut self, directory: &StockDirectory) {
        let at = usize::from(directory.locate);
        if at == 0 {
            return self.count(Bad::Value);
        }
        if self.stocks.len() <= at {
            self.stocks.resize(at + 1, None);
            self.listed.resize(at + 1, false);
        }
        let state = self.stocks[at].map_or(b'H', |stock| stock.state);
        self.stocks[at] = Some(Stock { directory: *directory, state });
        self.listed[at] = true;
        self.locates.insert(directory.stock, directory.locate);
        self.books.open(BookId(u32::from(directory.locate)));
    }

    /// A trade that no order of the book made.
    fn print<M: Market<Message>>(
        &mut self,
        locate: u16,
        number: u64,
        price: u32,
        size: u64,
        kind: TradeKind,
        market: &mut M,
    ) {
        if size > 0 {
            let price = i64::from(price);
            let trade = Trade { number, price, size, aggressor: None, order: None, kind, is_eligible: true };
            self.trades.keep(locate, &trade);
            market.trade(BookId(u32::from(locate)), &trade);
        }
    }

    #[inline]
    fn hold_stock<M: Market<Message>>(&mut self, locate: u16, done: Result<(BookId, Order), Refused>, market: &mut M) {
        match done {
            Ok((book, _)) => self.count_if(book.0 != u32::from(locate), Bad::WrongStock),
            Err(why) => self.refused(locate, &why, market),
        }
    }

    #[cold]
    fn refused<M: Market<Message>>(&mut self, locate: u16, why: &Refused, market: &mut M) {
        self.count(match why {
            Refused::UnknownOrder(_) => Bad::UnknownOrder,
            Refused::DuplicateOrder(_) => Bad::DuplicateOrder,
            Refused::NoSize(_) => Bad::NoShares,
            Refused::NoPrice(_) => Bad::Value,
            Refused::Exceeds { .. } => Bad::Exceeds,
            Refused::Uncountable(_) | Refused::UnknownBook(_) => Bad::Uncountable,
        });
        let at = usize::from(locate);
        if self.doubted.len() <= at {
            self.doubted.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.doubted[at], true) {
            market.doubt(BookId(u32::from(locate)), why);
        }
    }

    #[inline]
    fn count_if(&mut self, is_bad: bool, kind: Bad) {
        self.bad[kind as usize] += u64::from(is_bad);
    }

    fn count(&mut self, kind: Bad) {
        self.bad[kind as usize] += 1;
    }
}

/// A message of an order.
trait Effect {
    /// Stock locate and time.
    fn head(&self) -> (u16, u64);
    fn take_effect<M: Market<Message>, const QUEUED: bool>(
        &self,
        day: &mut TotalView<QUEUED>,
        hint: Hint,
        market: &mut M,
    );
}

macro_rules! effects {
    ($($message:ty: $effect:expr;)*) => {$(
        impl Effect for $message {
            #[inline]
            fn head(&self) -> (u16, u64) {
                (self.locate, self.time)
            }

            #[inline]
            fn take_effect<M: Market<Message>, const QUEUED: bool>(
                &self,
                day: &mut TotalView<QUEUED>,
                hint: Hint,
                market: &mut M,
            ) {
                $effect(self, day, hint, market);
            }
        }
    )*};
}

effects! {
    AddOrder: |m: &Self, day: &mut TotalView<QUEUED>, _: Hint, market: &mut M| {
        let new = NewOrder { reference: m.order, side: m.side, shares: m.shares, price: m.price, owner: 0 };
        add(day, m.head(), new, market);
    };
    AddAttributed: |m: &Self, day: &mut TotalView<QUEUED>, _: Hint, market: &mut M| {
        let owner = u32::from_be_bytes(m.mpid.0);
        let new = NewOrder { reference: m.order, side: m.side, shares: m.shares, price: m.price, owner };
        add(day, m.head(), new, market);
    };
    Executed: |m: &Self, day: &mut TotalView<QUEUED>, hint: Hint, market: &mut M| {
        let print = Print { number: m.match_number, price: None, counts: true };
        execute(day, m.locate, (m.order, m.shares, hint), print, market);
    };
    ExecutedAt: |m: &Self, day: &mut TotalView<QUEUED>, hint: Hint, market: &mut M| {
        let print = Print { number: m.match_number, price: Some(m.price), counts: m.printable != b'N' };
        execute(day, m.locate, (m.order, m.shares, hint), print, market);
    };
    Cancelled: |m: &Self, day: &mut TotalView<QUEUED>, hint: Hint, market: &mut M| {
        let done = day.books.reduce_near(m.order, u64::from(m.shares), Cause::Cancel, hint, market);
        day.hold_stock(m.locate, done, market);
    };
    Deleted: |m: &Self, day: &mut TotalView<QUEUED>, hint: Hint, market: &mut M| {
        let done = day.books.delete_near(m.order, hint, market);
        day.hold_stock(m.locate, done, market);
    };
    Replaced: |m: &Self, day: &mut TotalView<QUEUED>, hint: Hint, market: &mut M| {
        let terms = Terms { price: i64::from(m.price), size: u64::from(m.shares), priority: m.time };
        day.count_if(m.price == 0, Bad::PriceZero);
        let done = day.books.replace_near(m.old, m.new, terms, hint, market);
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
    (order, shares, hint): (u64, u32, Hint),
    print: Print,
    market: &mut M,
) {
    let done = day.books.reduce_near(order, u64::from(shares), Cause::Fill, hint, market);
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

/// Messages between two steps of looking ahead, and as many steps before they are applied.
const TOGETHER: usize = 16;
const STEPS_AHEAD: usize = 5;

/// The knowledge of looking ahead of a type: where its price is, and in the two highest bits whether it names an order that stands and whether it brings one.
const TOUCHES: [u8; 256] = {
    let mut of_type = [0; 256];
    let (mut at, standing) = (0, [Deleted::CODE, Executed::CODE, Cancelled::CODE, ExecutedAt::CODE]);
    while at < standing.len() {
        of_type[standing[at] as usize] = NAMES;
        at += 1;
    }
    of_type[AddOrder::CODE as usize] = BRINGS | 32;
    of_type[AddAttributed::CODE as usize] = BRINGS | 32;
    of_type[Replaced::CODE as usize] = NAMES | BRINGS | 31;
    of_type
};
const NAMES: u8 = 0x80;
const BRINGS: u8 = 0x40;

/// Says what a message will touch, if it is an order's. Types come in no order that a processor could guess: nothing here depends on one by a branch.
#[inline]
fn look_at(message: &[u8], ahead: &mut Ahead) {
    // Where all messages about an order have its number, and both about a new one its side. Those of other types have other bytes there, or none.
    let Some(head) = message.first_chunk::<19>() else {
        // Messages without an order's number have a place in the batch all the same.
        return ahead.push((false, 0), (false, BookId(0), Side::Bid, 0));
    };
    let [code, high, low, .., a, b, c, d, e, f, g, h] = *head;
    let touches = TOUCHES[usize::from(code)];
    let at = usize::from(touches & !(NAMES | BRINGS));
    let price =
        message.get(at..at + 4).and_then(|price| price.first_chunk()).map_or(0, |price| u32::from_be_bytes(*price));
    let side = if message[19.min(message.len() - 1)] == b'B' { Side::Bid } else { Side::Ask };
    let book = BookId(u32::from(u16::from_be_bytes([high, low])));
    let reference = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let brings = touches & BRINGS != 0;
    ahead.push((touches & NAMES != 0, reference), (brings, book, side, i64::from(price)));
}
