//! Books of venues as maps: orders by number, levels by price and side.

use base64ct::{Base64Unpadded, Encoding as _};
use market::{BookId, Level, Order, ReadBooks, Side};
use rustc_hash::FxHashMap;
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, EncodeError, MapAction, MapEncoder, MapHead, Primitive};

use super::values::{Facts, number, price, size};
use crate::Model;
use crate::fields::{self as fid, append, write_fields};
use crate::session::Moment;

/// When each level of an instrument was last told, nanoseconds since 1970.
pub(super) type LevelTimes = FxHashMap<(Side, i64), u64>;

/// What happened to an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderChange {
    pub action: MapAction,
    pub order: Order,
}

/// What became of a level since the book was last told.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelTouch {
    pub side: Side,
    pub price: i64,
    /// It was there when the book was last told.
    pub was: bool,
}

/// Entries of one part of an image, and of one update.
pub(super) const ENTRIES: usize = 200;
const ENTRY_ROOM: usize = 192;

/// Enough for an update of so many entries.
pub(super) fn update_room(entries: usize) -> usize {
    ENTRY_ROOM * (entries + 1)
}

/// What all entries of a book have in common.
pub(super) struct Depth<'a> {
    pub facts: &'a Facts,
    pub books: &'a dyn ReadBooks,
    /// `None`: the venue has not told of the instrument's book yet.
    pub book: Option<BookId>,
    pub times: &'a LevelTimes,
    /// Nanoseconds from 1970 to where the venue's orders count their time from.
    pub midnight: u64,
}

impl Depth<'_> {
    /// Appends part `part` of the image; true when another follows. The summary comes with the first part.
    pub(super) fn append_image(&self, model: Model, at: u64, part: usize, out: &mut Vec<u8>) -> bool {
        let mut more = false;
        append(out, ENTRY_ROOM * (ENTRIES + 2), |w| {
            let mut map = MapEncoder::begin(w, head(model))?;
            if part == 0 {
                map.summary(LenForm::Shortest, |w| self.write_summary(at, w))?;
            }
            let (skip, most) = (part * ENTRIES, ENTRIES + 1);
            if model == Model::ByOrder {
                for (n, order) in self.orders().skip(skip).take(most).enumerate() {
                    more = n == ENTRIES;
                    if !more {
                        self.write_order(&mut map, MapAction::ADD, &order)?;
                    }
                }
            } else {
                for (n, (side, level)) in self.levels().skip(skip).take(most).enumerate() {
                    more = n == ENTRIES;
                    if !more {
                        self.write_level(&mut map, MapAction::ADD, side, &level)?;
                    }
                }
            }
            map.finish()
        });
        more
    }

    /// Writes an update of orders, at most [`ENTRIES`] of them.
    pub(super) fn write_orders(&self, changes: &[OrderChange], w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut map = MapEncoder::begin(w, head(Model::ByOrder))?;
        for change in changes {
            self.write_order(&mut map, change.action, &change.order)?;
        }
        map.finish()
    }

    /// Writes an update of levels, at most [`ENTRIES`] of them.
    pub(super) fn write_levels(
        &self,
        changes: &[(MapAction, Side, Level)],
        w: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        let mut map = MapEncoder::begin(w, head(Model::ByPrice))?;
        for (action, side, level) in changes {
            self.write_level(&mut map, *action, *side, level)?;
        }
        map.finish()
    }

    /// What levels that were touched are now, against what was told of them.
    pub(super) fn resolve(&self, touches: &[LevelTouch], out: &mut Vec<(MapAction, Side, Level)>) {
        out.clear();
        for LevelTouch { side, price, was } in touches {
            let now = self.book.and_then(|book| self.books.level(book, *side, *price));
            match now {
                Some(level) => out.push((if *was { MapAction::UPDATE } else { MapAction::ADD }, *side, level)),
                None if *was => out.push((MapAction::DELETE, *side, Level { price: *price, size: 0, orders: 0 })),
                None => {}
            }
        }
    }

    fn levels(&self) -> impl Iterator<Item = (Side, Level)> {
        let of = move |side| self.book.into_iter().flat_map(move |book| self.books.levels(book, side));
        Side::BOTH.into_iter().flat_map(move |side| of(side).map(move |level| (side, level)))
    }

    fn orders(&self) -> impl Iterator<Item = Order> {
        let of = move |side| self.book.into_iter().flat_map(move |book| self.books.orders(book, side));
        Side::BOTH.into_iter().flat_map(of)
    }

    fn write_summary(&self, at: u64, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        write_fields(w, |fields| {
            fields.uint(fid::PROD_PERM, 6_562);
            for (id, value) in [(fid::CURRENCY, self.facts.currency), (fid::RDN_EXCHD2, self.facts.exchange)] {
                fields.known(id, value);
            }
            fields.enumeration(fid::TRD_UNITS, u16::from(self.facts.decimals));
            fields.date(fid::ACTIV_DATE, Moment::from_epoch(at).date());
        })
    }

    /// Key: price in the venue's smallest unit, and B or A.
    fn write_level(
        &self,
        map: &mut MapEncoder<'_, '_>,
        action: MapAction,
        side: Side,
        level: &Level,
    ) -> Result<(), EncodeError> {
        let key = Digits::of(level.price.unsigned_abs(), level.price < 0, if side == Side::Bid { b"B" } else { b"A" });
        let key = Primitive::Buffer(key.bytes());
        if action == MapAction::DELETE {
            return map.delete(&key);
        }
        map.entry(action, &key, |w| {
            write_fields(w, |fields| {
                price(fields, fid::ORDER_PRC, Some(level.price), self.facts);
                fields.enumeration(fid::ORDER_SIDE, number(side));
                size(fields, fid::ACC_SIZE, level.size.into(), self.facts);
                if level.orders > 0 {
                    fields.uint(fid::NO_ORD, u64::from(level.orders));
                }
                if let Some(at) = self.times.get(&(side, level.price)).map(|at| Moment::from_epoch(*at)) {
                    fields.uint(fid::LV_TIM_MS, at.millis());
                    fields.time_exact(fid::LV_TIM_NS, at.time);
                    fields.date(fid::LV_DATE, at.date());
                }
            })
        })
    }

    /// Key: the venue's number of the order, in decimal; of a name of 16 bytes their base-64, which `ORDER_ID` has room for.
    fn write_order(&self, map: &mut MapEncoder<'_, '_>, action: MapAction, order: &Order) -> Result<(), EncodeError> {
        let name = self.books.order_name(order.reference);
        let digits = Digits::of(order.reference, false, b"");
        let name = name.map(|name| Base64Unpadded::encode_string(&name));
        let id = name.as_ref().map_or(digits.bytes(), String::as_bytes);
        let key = Primitive::Buffer(id);
        if action == MapAction::DELETE {
            return map.delete(&key);
        }
        map.entry(action, &key, |w| {
            write_fields(w, |fields| {
                fields.value(fid::ORDER_ID, &Primitive::Rmtes(id));
                price(fields, fid::ORDER_PRC, Some(order.price), self.facts);
                fields.enumeration(fid::ORDER_SIDE, number(order.side));
                size(fields, fid::ORDER_SIZE, order.size.into(), self.facts);
                if order.owner != 0 {
                    let owner = order.owner.to_be_bytes();
                    fields.text(fid::MMID, String::from_utf8_lossy(owner.trim_ascii_end()).as_ref());
                }
                // 0: the venue does not tell since when the order has its place.
                let at = self.midnight.saturating_add(order.priority);
                if at > 0 {
                    let at = Moment::from_epoch(at);
                    fields.uint(fid::PR_TIM_MS, at.millis());
                    fields.time_exact(fid::PR_TIM_NS, at.time);
                    fields.date(fid::PR_DATE, at.date());
                }
            })
        })
    }
}

/// A number in decimal, without memory of its own.
struct Digits {
    all: [u8; 24],
    begin: usize,
}

impl Digits {
    /// With a minus before it and something behind it.
    fn of(mut number: u64, is_negative: bool, behind: &[u8]) -> Self {
        let mut all = [0; 24];
        let mut begin = all.len() - behind.len();
        all[begin..].copy_from_slice(behind);
        loop {
            begin -= 1;
            all[begin] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        if is_negative {
            begin -= 1;
            all[begin] = b'-';
        }
        Self { all, begin }
    }

    fn bytes(&self) -> &[u8] {
        &self.all[self.begin..]
    }
}

fn head(model: Model) -> MapHead {
    let key_field_id = (model == Model::ByOrder).then_some(fid::ORDER_ID);
    MapHead { key_field_id, ..MapHead::new(DataType::BUFFER, DataType::FIELD_LIST) }
}

#[cfg(test)]
mod tests {
    use super::Digits;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        for number in [0, 7, 10, 1_001_500, i64::MAX, -1, -90, i64::MIN] {
            let digits = Digits::of(number.unsigned_abs(), number < 0, b"A");
            assert_eq!(digits.bytes(), format!("{number}A").as_bytes());
        }
        assert_eq!(Digits::of(u64::MAX, false, b"").bytes(), u64::MAX.to_string().as_bytes());
    }
}
