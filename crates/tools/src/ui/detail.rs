//! One item in full: every field of its image with name and type, and its order book.

use feed::fields as fid;
use rwf::dictionary::Dictionary;
use rwf::image::Payload;
use rwf::wire::encode_growing;
use rwf::{DataType, FieldList, Map, Primitive, Real, SetScope};

/// Longest image that is shown.
const IMAGE_MAX: usize = 16 << 20;

/// A field of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Its number.
    pub fid: i16,
    /// Its acronym; its number where the dictionary does not know it.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Its value, for people.
    pub value: String,
}

/// A price of the order book: all orders at it together.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The price.
    pub price: Real,
    /// What may be had at it.
    pub size: Option<Real>,
    /// Orders that make it, where that is told.
    pub orders: Option<u64>,
}

/// One item as the screen shows it.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    /// All its fields, in the order of the image.
    pub fields: Vec<Field>,
    /// Bids, best first.
    pub bids: Vec<Level>,
    /// Asks, best first.
    pub asks: Vec<Level>,
}

/// The bytes of an image.
fn bytes(image: &Payload) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = encode_growing(&mut bytes, 0, 16 << 10, IMAGE_MAX, |w| image.write(w)).unwrap_or(0);
    bytes.truncate(length);
    bytes
}

/// The fields of an image, if it is a field list.
pub fn fields(image: &Payload, dictionary: &Dictionary) -> Vec<Field> {
    let bytes = bytes(image);
    if image.container() != DataType::FIELD_LIST {
        return Vec::new();
    }
    let Ok(list) = FieldList::decode(&bytes, &SetScope::NONE) else { return Vec::new() };
    list.entries().map_while(Result::ok).map(|entry| field(&entry, dictionary)).collect()
}

/// Bids and asks of an image, best first, if it is an order book by price or by order.
pub fn book(image: &Payload, depth: usize) -> (Vec<Level>, Vec<Level>) {
    let bytes = bytes(image);
    if image.container() != DataType::MAP {
        return Default::default();
    }
    let Ok(map) = Map::decode(&bytes, &SetScope::NONE) else { return Default::default() };
    let (mut bids, mut asks) = (Vec::new(), Vec::new());
    for entry in map.entries().map_while(Result::ok) {
        match level(entry.data, map.scope()) {
            Some((true, level)) => bids.push(level),
            Some((false, level)) => asks.push(level),
            None => {}
        }
    }
    let by_price = |a: &Level, b: &Level| a.price.to_f64().total_cmp(&b.price.to_f64());
    bids.sort_by(|a, b| by_price(b, a));
    asks.sort_by(by_price);
    bids.truncate(depth);
    asks.truncate(depth);
    (bids, asks)
}

fn field(entry: &rwf::FieldEntry<'_>, dictionary: &Dictionary) -> Field {
    let known = dictionary.field(entry.fid);
    let data_type = entry.resolve(known.map_or(DataType::UNKNOWN, rwf::dictionary::FieldDef::data_type));
    let value = match entry.value(data_type) {
        Ok(Primitive::Enum(value)) => {
            let display = dictionary.enum_display(entry.fid, value).map(|text| rwf::rmtes::to_utf8(text).into_owned());
            display.map_or_else(|| value.to_string(), |text| format!("{} ({value})", text.trim()))
        }
        Ok(Primitive::Rmtes(text)) => rwf::rmtes::image_text(text).into_owned(),
        Ok(value) => value.to_string(),
        Err(_) => Primitive::Buffer(entry.data).to_string(),
    };
    Field {
        fid: entry.fid,
        name: known.map_or_else(|| entry.fid.to_string(), |known| known.acronym().to_owned()),
        kind: data_type.to_string(),
        value: value.chars().map(|c| if net::plain::is_unprintable(c) { ' ' } else { c }).collect(),
    }
}

/// A row of a book: whether it is a bid, and the level.
fn level(data: &[u8], scope: SetScope<'_>) -> Option<(bool, Level)> {
    let list = FieldList::decode(data, &scope).ok()?;
    let (mut price, mut size, mut orders, mut is_bid) = (None, None, None, None);
    for entry in list.entries().map_while(Result::ok) {
        let value = |data_type| entry.value(data_type).ok();
        match entry.fid {
            fid::ORDER_PRC => price = value(DataType::REAL),
            fid::ACC_SIZE | fid::ORDER_SIZE => size = value(DataType::REAL),
            fid::NO_ORD => orders = value(DataType::UINT),
            fid::ORDER_SIDE => is_bid = value(DataType::ENUM).map(|side| side == Primitive::Enum(1)),
            _ => {}
        }
    }
    let real = |value| if let Some(Primitive::Real(real)) = value { Some(real) } else { None };
    let orders = if let Some(Primitive::UInt(orders)) = orders { Some(orders) } else { None };
    Some((is_bid?, Level { price: real(price)?, size: real(size), orders }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use feed::fields::append_fields;
    use rwf::image::Schema;
    use rwf::wire::Writer;
    use rwf::{MapAction, MapEncoder, MapHead};

    #[test]
    fn fields_have_names_types_and_values() {
        let dictionary = Dictionary::builtin();
        let mut body = Vec::new();
        append_fields(&mut body, |f| {
            f.real(fid::BID, 10_001, 2);
            f.text(fid::DSPLY_NAME, "AN ITEM");
            f.enumeration(fid::CURRENCY, 840);
        });
        let schema = Schema { dictionary: Some(&dictionary), ..Schema::NONE };
        let mut held = Payload::new(DataType::FIELD_LIST);
        held.refresh(DataType::FIELD_LIST, &body, &schema).unwrap();
        let mut change = Vec::new();
        append_fields(&mut change, |f| f.real(fid::BID, 10_002, 2));
        held.update(DataType::FIELD_LIST, &change, &schema).unwrap();
        let fields = fields(&held, &dictionary);
        let told: Vec<(&str, &str)> = fields.iter().map(|f| (f.name.as_str(), f.value.as_str())).collect();
        assert_eq!(told, [("BID", "100.02"), ("DSPLY_NAME", "AN ITEM"), ("CURRENCY", "USD (840)")]);
        assert_eq!(fields[0].kind, "REAL");
    }

    #[test]
    fn a_book_is_sorted_by_side_and_price() {
        let mut buffer = vec![0; 4_096];
        let mut w = Writer::new(&mut buffer);
        let mut map = MapEncoder::begin(&mut w, MapHead::new(DataType::BUFFER, DataType::FIELD_LIST)).unwrap();
        for (key, price, side) in [("1B", 9_998, 1), ("2A", 10_003, 2), ("3B", 10_000, 1), ("4A", 10_002, 2)] {
            let mut row = Vec::new();
            append_fields(&mut row, |f| {
                f.real(fid::ORDER_PRC, price, 2);
                f.enumeration(fid::ORDER_SIDE, side);
                f.real(fid::ACC_SIZE, 300, 0);
            });
            map.entry(MapAction::ADD, &Primitive::Buffer(key.as_bytes()), |w| w.bytes(&row)).unwrap();
        }
        map.finish().unwrap();
        let body = w.written().to_vec();
        let mut held = Payload::new(DataType::MAP);
        held.refresh(DataType::MAP, &body, &Schema::NONE).unwrap();
        let (bids, asks) = book(&held, 10);
        let prices = |levels: &[Level]| levels.iter().map(|level| level.price.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (prices(&bids), prices(&asks)),
            (vec!["100.00".to_owned(), "99.98".to_owned()], vec!["100.02".to_owned(), "100.03".to_owned()])
        );
        assert_eq!(bids[0].size.map(|size| size.to_string()), Some("300".to_owned()));
        assert_eq!(book(&held, 1).0.len(), 1);
    }
}
