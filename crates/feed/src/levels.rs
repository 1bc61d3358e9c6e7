//! Order books as `MarketByPrice` and `MarketByOrder` payloads: a map of price levels or of orders.
//!
//! A level's key is its price and side (`1013525B`), an order's key its id; neither is meant to be taken apart.

use super::Model;
use super::book::{Action, BookChanges, Generated, number_of};
use super::fields::{self as fid, append, write_fields};
use super::session::Moment;
use market::{Level, OneBook, Order, Side};
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, EncodeError, MapAction, MapEncoder, MapHead, Primitive};

/// Facts of an instrument that the fields of its book need.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Digits after the decimal point of every price.
    pub decimals: u8,
    /// `CURRENCY`.
    pub currency: u16,
    /// `RDN_EXCHD2`.
    pub exchange: u16,
}

/// Entries in one part of an image.
pub const ENTRIES_PER_PART: usize = 25;

/// Room for a part of an image, and for each entry of an update.
const PART_ROOM: usize = 4_096;
const ENTRY_ROOM: usize = 96;

/// Appends part `part` of the whole book; true when another follows. The summary comes with the first part.
pub fn append_image(
    book: &OneBook<'_, Generated>,
    model: Model,
    shape: Shape,
    at: Moment,
    part: usize,
    out: &mut Vec<u8>,
) -> bool {
    let total = match model {
        Model::ByOrder => orders(book).count(),
        _ => levels(book).count(),
    };
    let skip = part * ENTRIES_PER_PART;
    append(out, PART_ROOM, |w| {
        let head = MapHead { count_hint: Some(total as u32), ..head(model) };
        let mut map = MapEncoder::begin(w, head)?;
        if part == 0 {
            map.summary(LenForm::Shortest, |w| write_summary(shape, at, w))?;
        }
        if model == Model::ByOrder {
            for order in orders(book).skip(skip).take(ENTRIES_PER_PART) {
                write_order(&mut map, MapAction::ADD, &order, shape, at)?;
            }
        } else {
            for (side, level) in levels(book).skip(skip).take(ENTRIES_PER_PART) {
                write_level(&mut map, MapAction::ADD, side, level.price, Some(level), shape, at)?;
            }
        }
        map.finish()
    });
    skip + ENTRIES_PER_PART < total
}

/// Appends what changed.
pub fn append_update(
    book: &OneBook<'_, Generated>,
    changes: &BookChanges,
    model: Model,
    shape: Shape,
    at: Moment,
    out: &mut Vec<u8>,
) {
    let entries = changes.orders.len().max(changes.levels.len());
    append(out, ENTRY_ROOM * (entries + 1), |w| {
        let mut map = MapEncoder::begin(w, head(model))?;
        if model == Model::ByOrder {
            for c in &changes.orders {
                write_order(&mut map, map_action(c.action), &c.order, shape, at)?;
            }
        } else {
            for c in &changes.levels {
                let level = book.level(c.side, c.price);
                write_level(&mut map, map_action(c.action), c.side, c.price, level, shape, at)?;
            }
        }
        map.finish()
    });
}

fn levels(book: &OneBook<'_, Generated>) -> impl Iterator<Item = (Side, Level)> {
    Side::BOTH.into_iter().flat_map(|side| book.levels(side).map(move |level| (side, level)))
}

fn orders(book: &OneBook<'_, Generated>) -> impl Iterator<Item = Order> {
    Side::BOTH.into_iter().flat_map(|side| book.orders(side))
}

fn head(model: Model) -> MapHead {
    let key_field_id = (model == Model::ByOrder).then_some(fid::ORDER_ID);
    MapHead { key_field_id, ..MapHead::new(DataType::BUFFER, DataType::FIELD_LIST) }
}

fn map_action(action: Action) -> MapAction {
    match action {
        Action::Add => MapAction::ADD,
        Action::Update => MapAction::UPDATE,
        Action::Delete => MapAction::DELETE,
    }
}

fn write_summary(shape: Shape, at: Moment, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    write_fields(w, |fields| {
        fields.uint(fid::PROD_PERM, 6_562);
        fields.enumeration(fid::CURRENCY, shape.currency);
        fields.enumeration(fid::TRD_UNITS, u16::from(shape.decimals));
        fields.enumeration(fid::MKT_ST_IND, 0);
        fields.enumeration(fid::RDN_EXCHD2, shape.exchange);
        fields.date(fid::QUOTE_DATE, at.date());
    })
}

/// A level: its size and how many orders make it. One that is gone can only be deleted.
fn write_level(
    map: &mut MapEncoder<'_, '_>,
    action: MapAction,
    side: Side,
    price: i64,
    level: Option<Level>,
    shape: Shape,
    at: Moment,
) -> Result<(), EncodeError> {
    let key = format!("{price}{}", if side == Side::Bid { 'B' } else { 'A' });
    let key = Primitive::Buffer(key.as_bytes());
    let Some(level) = level.filter(|_| action != MapAction::DELETE) else { return map.delete(&key) };
    map.entry(action, &key, |w| {
        write_fields(w, |fields| {
            fields.real(fid::ORDER_PRC, price, shape.decimals);
            fields.enumeration(fid::ORDER_SIDE, side as u16 + 1);
            fields.real(fid::ACC_SIZE, level.size as i64, 0);
            fields.uint(fid::NO_ORD, u64::from(level.orders));
            fields.uint(fid::LV_TIM_MS, at.millis());
            fields.date(fid::LV_DATE, at.date());
        })
    })
}

fn write_order(
    map: &mut MapEncoder<'_, '_>,
    action: MapAction,
    order: &Order,
    shape: Shape,
    at: Moment,
) -> Result<(), EncodeError> {
    let key = format!("{}{}", number_of(order), if order.side == Side::Bid { 'B' } else { 'S' });
    map.entry(action, &Primitive::Buffer(key.as_bytes()), |w| {
        write_fields(w, |fields| {
            fields.real(fid::ORDER_PRC, order.price, shape.decimals);
            fields.enumeration(fid::ORDER_SIDE, order.side as u16 + 1);
            fields.real(fid::ORDER_SIZE, order.size as i64, 0);
            fields.uint(fid::QUOTIM_MS, at.millis());
        })
    })
}
