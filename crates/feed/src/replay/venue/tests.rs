//! Files of venues against the books that the handlers make of the same messages.

#[path = "../../../../venue/tests/support/day.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests and measurements use different parts")]
mod day;
#[path = "../../../tests/support/held.rs"]
#[allow(dead_code, reason = "tests use different parts")]
mod held;
#[path = "../../../../venue/tests/support/mdp.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests use different parts")]
mod mdp;

mod cme;
mod dbn;
mod dbn_prices;
mod iex;
mod lines;
mod live;
mod live_cme;
mod live_web;
mod names;
mod nasdaq;
#[allow(dead_code, unreachable_pub, reason = "a reader by itself")]
mod plain_iex;
mod web;

use std::collections::HashMap;
use std::path::Path;

use market::{BookId, OrderBooks, Rules, Side};
use rwf::msg::Msg;

use self::held::{Held, States, real_of};
use super::*;
use crate::fields as fid;
use crate::{Payload, UpdateKind};

/// A file in a folder that goes when it is let go of.
struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn file(name: &str, bytes: &[u8]) -> File {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    File { _folder: folder, path }
}

fn config() -> VenueConfig {
    VenueConfig {
        pace: ReplaySpeed::Unpaced,
        from: None,
        date: 18_260,
        suffix: None,
        beside: None,
        schema: None,
        symbology: None,
        repeat: false,
        pause: 0,
    }
}

fn open(path: &Path, config: VenueConfig) -> VenueReplay {
    VenueReplay::open(path, config, &mut |_| {}).expect("a file that can be read").expect("a venue's file")
}

/// What a consumer of one instrument holds and has seen.
#[derive(Default)]
struct Seen {
    orders: Held,
    levels: Held,
    order_states: States,
    level_states: States,
    /// Best bid and ask: price and size; those that are alike in a row once.
    quote: [Option<i64>; 4],
    quotes: Vec<[Option<i64>; 4]>,
    /// Prices and sizes of trades.
    trades: Vec<(i64, i64)>,
    volume: i64,
    /// Good or not, each change once, with the text.
    states: Vec<(DataState, String)>,
    images: usize,
    corrections: usize,
}

impl Seen {
    fn quote(&mut self, body: &[u8], decimals: u8) {
        for (at, (id, decimals)) in
            [(fid::BID, decimals), (fid::BIDSIZE, 0), (fid::ASK, decimals), (fid::ASKSIZE, 0)].into_iter().enumerate()
        {
            if let Some(value) = real_of(body, id, decimals) {
                self.quote[at] = value;
            }
        }
        if self.quotes.last() != Some(&self.quote) {
            self.quotes.push(self.quote);
        }
        if let Some(Some(volume)) = real_of(body, fid::ACVOL_1, 0) {
            self.volume = volume;
        }
    }

    fn take(&mut self, event: &Event<'_>, decimals: u8) {
        let data = match event.payload {
            Payload::ImagePart { data, .. } => Some((data, String::new())),
            Payload::Status => {
                let Ok(Msg::Status(status)) = Msg::decode(event.body) else { panic!("no status") };
                let state = status.state.expect("a state");
                Some((state.data, String::from_utf8(state.text.to_vec()).expect("text")))
            }
            _ => None,
        };
        if let Some(data) =
            data.filter(|data| event.model == Model::Price && self.states.last().map(|last| last.0) != Some(data.0))
        {
            self.states.push(data);
        }
        let starts = matches!(event.payload, Payload::ImagePart { part: 0, .. });
        let is_whole = !matches!(event.payload, Payload::ImagePart { more: true, .. });
        self.images += usize::from(starts);
        if event.payload == Payload::Status {
            return;
        }
        match event.model {
            Model::Price => {
                self.corrections += usize::from(event.payload == Payload::Update(UpdateKind::Correction));
                if event.payload == Payload::Update(UpdateKind::Trade) {
                    let real = |id, decimals| real_of(event.body, id, decimals).flatten().unwrap_or_default();
                    self.trades.push((real(fid::TRDPRC_1, decimals), real(fid::TRDVOL_1, 0)));
                }
                self.quote(event.body, decimals);
            }
            model => {
                let (held, states) = if model == Model::ByOrder {
                    (&mut self.orders, &mut self.order_states)
                } else {
                    (&mut self.levels, &mut self.level_states)
                };
                if starts {
                    held.clear();
                }
                held.apply(event.body, decimals);
                if is_whole {
                    states.push(held);
                }
            }
        }
    }
}

/// Watches instruments from the beginning, plays the file to its end, and gives what was seen of each.
fn play(replay: &mut VenueReplay, names: &[&str], decimals: u8) -> HashMap<String, Seen> {
    let mut seen: HashMap<u32, (String, Seen)> = HashMap::new();
    for name in names {
        let id = replay.find(name).unwrap_or_else(|| panic!("{name} is in the file"));
        let mut new = Seen::default();
        for model in replay.board.models().iter().copied() {
            replay.watch(id, model, true);
            let (mut part, mut more) = (0, true);
            while more {
                let mut body = Vec::new();
                more = replay.image(id, model, part, &mut body);
                let payload = Payload::ImagePart { part: part as u16, more, data: replay.data_state(id, model) };
                new.take(&Event { instrument: id, model, payload, body: &body }, decimals);
                part += 1;
            }
        }
        seen.insert(id.0, ((*name).to_owned(), new));
    }
    while replay.due().is_some() {
        replay.advance(0, 1_000, &mut |event| {
            let (_, seen) = seen.get_mut(&event.instrument.0).expect("what nobody watches is not told");
            seen.take(&event, decimals);
        });
    }
    seen.into_values().collect()
}

/// Tables of a mapping file, to be played.
pub(super) fn open_tables(path: &Path) -> VenueReplay {
    open(path, config())
}

/// Best bids and asks, and prices of trades, as they are told.
pub(super) fn prices(replay: &mut VenueReplay, name: &str, decimals: u8) -> (Vec<[Option<i64>; 2]>, Vec<i64>) {
    let seen = play(replay, &[name], decimals).remove(name).expect("an item");
    let quotes = seen.quotes.iter().map(|quote| [quote[0], quote[2]]).collect();
    (quotes, seen.trades.iter().map(|trade| trade.0).filter(|price| *price != 0).collect())
}

/// The states of a book by its handler.
#[derive(Default)]
struct Expected {
    order_states: States,
    level_states: States,
    quotes: Vec<[Option<i64>; 4]>,
    orders: Held,
    levels: Held,
}

impl Expected {
    /// The book is fit to be published.
    fn settle<R: Rules>(&mut self, books: &OrderBooks<R>, book: BookId) {
        let number = |side| if side == Side::Bid { 1 } else { 2 };
        self.orders.clear();
        self.levels.clear();
        for side in Side::BOTH {
            for order in books.orders(book, side) {
                let entry = (number(side), order.price, order.size as i64, 0);
                self.orders.set(&order.reference.to_string(), entry);
            }
            for level in books.levels(book, side) {
                let key = format!("{}{}", level.price, if side == Side::Bid { 'B' } else { 'A' });
                self.levels.set(&key, (number(side), level.price, level.size as i64, u64::from(level.orders)));
            }
        }
        let best = |side| books.best(book, side).map(|level| (level.price, level.size as i64));
        self.push(best(Side::Bid), best(Side::Ask));
    }

    /// The states as they are now, with the best prices and sizes.
    fn push(&mut self, bid: Option<(i64, i64)>, ask: Option<(i64, i64)>) {
        self.order_states.push(&self.orders);
        self.level_states.push(&self.levels);
        let quote = [bid.map(|b| b.0), bid.map(|b| b.1), ask.map(|a| a.0), ask.map(|a| a.1)];
        if self.quotes.last() != Some(&quote) {
            self.quotes.push(quote);
        }
    }

    fn hold(&self, seen: &Seen, name: &str) {
        assert_eq!(self.order_states.0.len(), seen.order_states.0.len(), "{name}: states of its orders");
        assert_eq!(self.order_states, seen.order_states, "{name}");
        assert_eq!(self.level_states, seen.level_states, "{name}");
        assert_eq!((&self.orders, &self.levels), (&seen.orders, &seen.levels), "{name} at the end");
        assert_eq!(self.quotes, seen.quotes, "{name}");
    }
}
