//! The series that an item publishes: its image, and the updates that follow it, again and again.
//!
//! The reference series are built in: a share with updates of an exact size, an order book, and a book of price levels.
//! Others come out of data files. A [`Catalogue`](super::catalogue::Catalogue) says which series belongs to which item.

use super::template::{SizeError, Template};
use feed::fields::{self as fid, append, append_fields, write_fields};
use feed::image::Image;
use feed::instrument::Profile;
use feed::record::Record;
use feed::session::Moment;
use rwf::msg::Domain;
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, EncodeError, MapAction, MapEncoder, MapHead, Primitive};

/// An image and the updates after it.
#[derive(Clone, Debug)]
pub struct Series {
    /// Domain of its items.
    pub domain: Domain,
    container: DataType,
    /// The image before the first update, part by part.
    parts: Vec<Vec<u8>>,
    /// The updates without a time stamp (or with one in all of them).
    pub plain: Vec<Template>,
    /// The same updates with a time stamp; `None` where there is no place for one.
    pub stamped: Vec<Option<Template>>,
    /// The updates' payloads: what is applied to the image.
    bodies: Vec<(DataType, Vec<u8>)>,
    /// The image after so many updates of the first round, then of any later one.
    images: Vec<Option<Box<[u8]>>>,
}

/// How many different reference updates there are.
const VARIANTS: u32 = 16;

impl Series {
    /// An image in parts, and whole update messages.
    pub fn new(domain: Domain, container: DataType, parts: Vec<Vec<u8>>, updates: &[Vec<u8>], stamp_all: bool) -> Self {
        let mut series = Self {
            domain,
            container,
            parts,
            plain: Vec::new(),
            stamped: Vec::new(),
            bodies: Vec::new(),
            images: Vec::new(),
        };
        for message in updates {
            let Some(plain) = Template::of(message, false) else { continue };
            let stamped = Template::of(message, true);
            series.bodies.push((plain.container(), plain.body().to_vec()));
            series.plain.push(stamped.clone().filter(|_| stamp_all).unwrap_or(plain));
            series.stamped.push(stamped);
        }
        series.images = vec![None; series.plain.len() * 2];
        series
    }

    /// Market price: a share's image, and quotes of exactly `size` bytes, header included.
    ///
    /// # Errors
    /// There is no update of that size.
    pub fn reference(size: usize, stamp_all: bool) -> Result<Self, SizeError> {
        let plain: Vec<Template> =
            (0..VARIANTS).map(|n| Template::new(size, stamp_all, n)).collect::<Result<_, _>>()?;
        let stamped = (0..VARIANTS).map(|n| Template::new(size, true, n).map(Some)).collect::<Result<_, _>>()?;
        let mut image = Vec::new();
        if let Some(profile) = Profile::of("REFERENCE.N", 1) {
            let record = Record::new("REFERENCE.N", &profile, Moment { day: 20_000, time: 52_832_000_000_000 });
            append_fields(&mut image, |fields| record.write_image(fields));
        }
        Ok(Self {
            domain: Domain::MARKET_PRICE,
            container: DataType::FIELD_LIST,
            parts: vec![image],
            bodies: plain.iter().map(|t| (t.container(), t.body().to_vec())).collect(),
            images: vec![None; plain.len() * 2],
            plain,
            stamped,
        })
    }

    /// A reference book: twenty orders or price levels, of which one changes, goes or comes back in each update.
    pub fn reference_book(domain: Domain, stamp_all: bool) -> Self {
        let parts = (0..2).map(|part| book_image(domain, part)).collect();
        let updates: Vec<Vec<u8>> = (0..VARIANTS).map(|step| book_update(domain, step)).collect();
        Self::new(domain, DataType::MAP, parts, &updates, stamp_all)
    }

    /// Updates of a round.
    pub fn len(&self) -> usize {
        self.plain.len()
    }

    /// Whether its items are never updated.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// Bytes of the longest update.
    pub fn longest(&self) -> usize {
        self.plain.iter().map(|t| t.bytes().len()).max().unwrap_or(0)
    }

    /// What its payloads are.
    pub fn container(&self) -> DataType {
        self.container
    }

    /// Which update comes after so many.
    #[inline]
    pub fn step(&self, updates: u32) -> usize {
        let len = self.plain.len();
        // The reference series' lengths are powers of two, and a division would show.
        if len.is_power_of_two() { updates as usize & (len - 1) } else { updates as usize % len }
    }

    /// Appends part `part` of the image of an item that had `updates` updates; true when another part follows.
    pub fn append_image(&mut self, updates: u32, part: usize, out: &mut Vec<u8>) -> bool {
        if updates == 0 || self.plain.is_empty() {
            if let Some(bytes) = self.parts.get(part) {
                out.extend_from_slice(bytes);
            }
            return part + 1 < self.parts.len();
        }
        let step = self.step(updates);
        let is_later = updates as usize >= self.plain.len();
        let place = if is_later { self.plain.len() + step } else { step };
        if self.images[place].is_none() {
            self.images[place] = Some(self.image_after(is_later, step));
        }
        if let Some(image) = &self.images[place] {
            out.extend_from_slice(image);
        }
        false
    }

    fn image_after(&self, whole_round: bool, step: usize) -> Box<[u8]> {
        let mut image = Image::of(self.container, self.parts.first().map_or(&[], Vec::as_slice));
        let more = self.parts.iter().skip(1).map(|part| (self.container, part.as_slice()));
        let round = if whole_round { &self.bodies[..] } else { &[] };
        let bodies = round.iter().chain(&self.bodies[..step]).map(|(container, body)| (*container, body.as_slice()));
        for (container, body) in more.chain(bodies) {
            image.apply(container, body);
        }
        let mut out = Vec::new();
        image.append(&mut out);
        out.into()
    }
}

/// Rows of a reference book: ten bids and ten asks.
const ROWS: u32 = 20;

fn book_image(domain: Domain, part: u32) -> Vec<u8> {
    let half = ROWS / 2;
    book(domain, |map| {
        if part == 0 {
            map.summary(LenForm::Shortest, |w| {
                write_fields(w, |fields| {
                    fields.uint(fid::PROD_PERM, 6_562);
                    fields.enumeration(fid::CURRENCY, 840);
                    fields.enumeration(fid::RDN_EXCHD2, 43);
                })
            })?;
        }
        (part * half..(part + 1) * half).try_for_each(|row| write_row(map, domain, MapAction::ADD, row, 0))
    })
}

/// Step 7 of a round deletes a row and step 8 brings it back; the others change one row each.
fn book_update(domain: Domain, step: u32) -> Vec<u8> {
    let body = book(domain, |map| match step {
        7 => {
            write_row(map, domain, MapAction::DELETE, 3, 0)?;
            write_row(map, domain, MapAction::UPDATE, 13, step)
        }
        8 => write_row(map, domain, MapAction::ADD, 3, step),
        _ => write_row(map, domain, MapAction::UPDATE, step * 7 % ROWS, step),
    });
    let update = rwf::msg::UpdateMsg {
        container: DataType::MAP,
        update_type: rwf::msg::UpdateType::QUOTE,
        body: &body,
        ..rwf::msg::UpdateMsg::new(domain, 0)
    };
    let mut out = Vec::new();
    append(&mut out, body.len() + 64, |w| update.encode(w));
    out
}

fn book(domain: Domain, rows: impl FnOnce(&mut MapEncoder<'_, '_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, 2_048, |w| {
        let key_field_id = (domain == Domain::MARKET_BY_ORDER).then_some(fid::ORDER_ID);
        let head =
            MapHead { key_field_id, count_hint: Some(ROWS), ..MapHead::new(DataType::BUFFER, DataType::FIELD_LIST) };
        let mut map = MapEncoder::begin(w, head)?;
        rows(&mut map)?;
        map.finish()
    });
    out
}

fn write_row(
    map: &mut MapEncoder<'_, '_>,
    domain: Domain,
    action: MapAction,
    row: u32,
    step: u32,
) -> Result<(), EncodeError> {
    let is_bid = row < ROWS / 2;
    let depth = i64::from(row % (ROWS / 2));
    let price = if is_bid { 10_000 - depth } else { 10_004 + depth };
    let by_order = domain == Domain::MARKET_BY_ORDER;
    let key = if by_order { format!("{}", 100 + row) } else { format!("{price}{}", if is_bid { 'B' } else { 'A' }) };
    map.entry(action, &Primitive::Buffer(key.as_bytes()), |w: &mut Writer<'_>| {
        let size = 100 * (1 + i64::from((row * 31 + step * 17) % 50));
        write_fields(w, |fields| {
            fields.real(fid::ORDER_PRC, price, 2);
            fields.enumeration(fid::ORDER_SIDE, if is_bid { 1 } else { 2 });
            if by_order {
                fields.real(fid::ORDER_SIZE, size, 0);
                fields.uint(fid::QUOTIM_MS, 52_832_000 + u64::from(step));
            } else {
                fields.real(fid::ACC_SIZE, size, 0);
                fields.uint(fid::NO_ORD, 1 + u64::from(step % 5));
                fields.uint(fid::LV_TIM_MS, 52_832_000 + u64::from(step));
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_a_book_is_what_its_updates_make_of_it() {
        for domain in [Domain::MARKET_BY_ORDER, Domain::MARKET_BY_PRICE] {
            let mut series = Series::reference_book(domain, false);
            let mut expected = Image::of(DataType::MAP, &[]);
            let mut first = Vec::new();
            assert!(series.append_image(0, 0, &mut first));
            expected.apply(DataType::MAP, &first);
            first.clear();
            assert!(!series.append_image(0, 1, &mut first));
            expected.apply(DataType::MAP, &first);
            for update in 1..40u32 {
                let body = series.plain[(update - 1) as usize % series.len()].body().to_vec();
                expected.apply(DataType::MAP, &body);
                let mut found = Vec::new();
                assert!(!series.append_image(update, 0, &mut found));
                assert_eq!(Image::of(DataType::MAP, &found), expected, "after {update} updates");
            }
        }
    }
}
