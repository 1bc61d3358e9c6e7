//! The update messages of the load generator: encoded once, sent millions of times with a few bytes patched.
//!
//! Each template has exactly the size asked for. What changes from send to send lies at fixed places: the item's sequence
//! number in the header, and in stamped ones the time as the last field (`TIM_TRK_1`, microseconds of the monotonic clock,
//! eight bytes), where the performance tools of the SDK look for it as well.

use feed::fields::{self as fid, real, write_fields};
use rwf::msg::{Domain, Msg, UpdateMsg, UpdateType};
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, EncodeError, FieldList, Map, MapAction, MapEncoder, MapHead, Primitive, SetScope, Time};

/// Sizes for which there is a template, in bytes of the whole message: header and payload.
pub const SIZE_MIN: usize = 60;
/// See [`SIZE_MIN`].
pub const SIZE_MAX: usize = 1_024;

/// Where the sequence number is in an update that has one and fewer than 128 in flags; one byte later otherwise.
const SEQUENCE_AT: usize = 11;
/// Where the flags are; the highest bit says that there is a second byte of them.
const FLAGS_AT: usize = 8;

/// One encoded update.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    stamped: bool,
    /// Where the sequence number is.
    sequence_at: usize,
}

impl Template {
    /// A quote of `size` bytes whose values depend on `variant`; with a time stamp if `stamped`.
    ///
    /// # Errors
    /// When `size` is not in [`SIZE_MIN`] `..=` [`SIZE_MAX`].
    pub fn new(size: usize, stamped: bool, variant: u32) -> Result<Self, SizeError> {
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            return Err(SizeError { size });
        }
        let failed = |_| SizeError { size };
        let header = encode(&[]).map_err(failed)?.len();
        let body = body(size - header, stamped, variant).map_err(failed)?;
        let bytes = encode(&body).map_err(failed)?;
        let sequence_at = SEQUENCE_AT;
        if bytes.len() == size { Ok(Self { bytes, stamped, sequence_at }) } else { Err(SizeError { size }) }
    }

    /// An update message as a template; with a time stamp if `stamped`. `None` for what is no update, and where there is no
    /// place for a stamp: it goes behind the last field of a field list, or of the last row of a map.
    pub fn of(message: &[u8], stamped: bool) -> Option<Self> {
        let Ok(Msg::Update(update)) = Msg::decode(message) else { return None };
        let body = if stamped { stamped_body(update.container, update.body)? } else { update.body.to_vec() };
        // The key would be another item's.
        let update = UpdateMsg { stream_id: 0, seq_num: Some(0), key: None, body: &body, ..update };
        let mut buffer = vec![0; message.len() + 128];
        let mut w = Writer::new(&mut buffer);
        update.encode(&mut w).ok()?;
        let bytes = w.written().to_vec();
        let sequence_at = SEQUENCE_AT + usize::from(bytes.get(FLAGS_AT)? >> 7);
        Some(Self { bytes, stamped, sequence_at })
    }

    /// The type of the payload.
    pub fn container(&self) -> DataType {
        rwf::peek::container(&self.bytes).unwrap_or(DataType::NO_DATA)
    }

    /// The payload.
    pub fn body(&self) -> &[u8] {
        rwf::peek::body(&self.bytes).unwrap_or_default()
    }

    /// The message, with the item's sequence number put in.
    #[inline]
    pub fn numbered(&mut self, sequence: u32) -> &mut Self {
        self.bytes[self.sequence_at..self.sequence_at + 4].copy_from_slice(&sequence.to_be_bytes());
        self
    }

    /// The message, with the time put in; `nanos` of the monotonic clock. No effect on one without a stamp.
    #[inline]
    pub fn stamped_at(&mut self, nanos: u64) -> &mut Self {
        if self.stamped {
            let at = self.bytes.len() - 8;
            self.bytes[at..].copy_from_slice(&(nanos / 1_000).to_be_bytes());
        }
        self
    }

    /// The message.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes of an update's header: what is in front of the data that some reports count alone.
pub fn header() -> usize {
    encode(&[]).map_or(0, |message| message.len())
}

/// A size for which there is no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError {
    size: usize,
}

impl std::fmt::Display for SizeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an update of {} bytes cannot be made; the size must be {SIZE_MIN} to {SIZE_MAX}", self.size)
    }
}

impl std::error::Error for SizeError {}

fn encode(body: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let mut msg = UpdateMsg::new(Domain::MARKET_PRICE, 0);
    msg.container = DataType::FIELD_LIST;
    msg.update_type = UpdateType::QUOTE;
    msg.seq_num = Some(0);
    msg.body = body;
    let mut buffer = vec![0; body.len() + 64];
    let mut w = Writer::new(&mut buffer);
    msg.encode(&mut w)?;
    Ok(w.written().to_vec())
}

/// A field list of exactly `size` bytes: as many quote fields as fit, a text that fills up, the stamp at the end.
fn body(size: usize, stamped: bool, variant: u32) -> Result<Vec<u8>, EncodeError> {
    let room = size - LIST_HEADER - if stamped { STAMP_LEN } else { 0 };
    let mut chosen: Vec<(i16, Vec<u8>)> = Vec::new();
    let mut used = 0;
    for (id, value) in quote(variant) {
        let mut bytes = [0; 32];
        let mut w = Writer::new(&mut bytes);
        value.encode(&mut w)?;
        let length = ENTRY_HEADER + w.position();
        // The filler needs four bytes at least, so a field goes in only if it leaves none or enough.
        if used + length == room || used + length + FILLER_MIN <= room {
            used += length;
            chosen.push((id, w.written().to_vec()));
        }
    }
    while used < room {
        let left = room - used;
        // Never leave fewer bytes than the next filler needs.
        let take = if left <= FILLER_MAX { left } else { FILLER_MAX.min(left - FILLER_MIN) };
        chosen.push((fid::GV1_TEXT, vec![b'-'; take - ENTRY_HEADER]));
        used += take;
    }
    if stamped {
        chosen.push((fid::TIM_TRK_1, vec![0; 8]));
    }
    let mut buffer = vec![0; size];
    let mut w = Writer::new(&mut buffer);
    write_fields(&mut w, |fields| chosen.iter().for_each(|(id, value)| fields.raw(*id, value)))?;
    Ok(w.written().to_vec())
}

/// The fields of a quote, most wanted first.
fn quote(variant: u32) -> [(i16, Primitive<'static>); 14] {
    let price = 10_000 + i64::from(variant % 4_096) * 3;
    let millis = 52_832_000 + u64::from(variant);
    [
        (fid::BID, real(price, 2)),
        (fid::ASK, real(price + 4, 2)),
        (fid::BIDSIZE, real(300 + i64::from(variant % 50) * 100, 0)),
        (fid::ASKSIZE, real(300 + i64::from(variant % 40) * 100, 0)),
        (fid::QUOTIM_MS, Primitive::UInt(millis)),
        (fid::BID_TICK_1, Primitive::Enum(1)),
        (fid::TRDPRC_1, real(price + 1, 2)),
        (fid::ACVOL_1, real(1_000_000 + i64::from(variant) * 100, 0)),
        (fid::BID_NET_CH, real(349, 2)),
        (fid::BID_MMID1, Primitive::Rmtes(b"NAS")),
        (fid::ASK_MMID1, Primitive::Rmtes(b"NAS")),
        (fid::BIDXID, Primitive::Enum(43)),
        (fid::ASKXID, Primitive::Enum(43)),
        (fid::QUOTIM, Primitive::Time(Time::from_nanos(millis / 1_000 * 1_000_000_000))),
    ]
}

/// A payload with room for a time stamp at its end.
fn stamped_body(container: DataType, body: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = vec![0; body.len() + 64];
    let mut w = Writer::new(&mut buffer);
    let written = match container {
        DataType::FIELD_LIST => stamped_fields(body, &mut w),
        DataType::MAP => stamped_map(body, &mut w),
        _ => None,
    };
    written.map(|()| w.written().to_vec())
}

fn stamped_fields(body: &[u8], w: &mut Writer<'_>) -> Option<()> {
    let list = FieldList::decode(body, &SetScope::default()).ok()?;
    let entries: Vec<_> = list.entries().collect::<Result<_, _>>().ok()?;
    if entries.iter().any(|entry| entry.enc != DataType::UNKNOWN) {
        return None;
    }
    write_fields(w, |fields| {
        for entry in entries.iter().filter(|entry| entry.fid != fid::TIM_TRK_1) {
            fields.raw(entry.fid, entry.data);
        }
        fields.raw(fid::TIM_TRK_1, &[0; 8]);
    })
    .ok()
}

fn stamped_map(body: &[u8], w: &mut Writer<'_>) -> Option<()> {
    let map = Map::decode(body, &SetScope::default()).ok()?;
    let entries: Vec<_> = map.entries().collect::<Result<_, _>>().ok()?;
    let last = entries.last().filter(|e| e.action != MapAction::DELETE)?;
    if map.set_defs().is_some() || map.container != DataType::FIELD_LIST {
        return None;
    }
    let mut row = vec![0; last.data.len() + 32];
    let mut row_writer = Writer::new(&mut row);
    stamped_fields(last.data, &mut row_writer)?;
    let head = MapHead {
        key_field_id: map.key_field_id,
        count_hint: map.count_hint(),
        per_entry_perm: map.per_entry_perm,
        ..MapHead::new(map.key_type, map.container)
    };
    let mut encoder = MapEncoder::begin(w, head).ok()?;
    if let Some(summary) = map.summary() {
        encoder.summary(LenForm::Shortest, |w| w.bytes(summary)).ok()?;
    }
    for (n, entry) in entries.iter().enumerate() {
        let key = entry.key_value(map.key_type).ok()?;
        let data = if n + 1 == entries.len() { row_writer.written() } else { entry.data };
        encoder.entry_with(entry.action, &key, entry.perm_data, LenForm::Shortest, |w| w.bytes(data)).ok()?;
    }
    encoder.finish().ok()
}

/// Flags and count.
const LIST_HEADER: usize = 3;
/// Field id and length byte.
const ENTRY_HEADER: usize = 3;
const FILLER_MIN: usize = ENTRY_HEADER + 1;
/// `GV1_TEXT` has six characters.
const FILLER_MAX: usize = ENTRY_HEADER + 6;
const STAMP_LEN: usize = ENTRY_HEADER + 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_met_exactly_and_decodes() {
        for size in SIZE_MIN..=300 {
            for stamped in [false, true] {
                let template = Template::new(size, stamped, size as u32).unwrap();
                assert_eq!(template.bytes().len(), size);
                let Ok(Msg::Update(update)) = Msg::decode(template.bytes()) else { panic!("no update") };
                assert_eq!(update.container, DataType::FIELD_LIST);
            }
        }
        assert!(Template::new(10, false, 0).is_err() && Template::new(5_000, false, 0).is_err());
    }

    #[test]
    fn number_and_stamp_are_where_readers_look() {
        let mut template = Template::new(85, true, 1).unwrap();
        template.numbered(77).stamped_at(5_000_123);
        let Ok(Msg::Update(update)) = Msg::decode(template.bytes()) else { panic!("no update") };
        assert_eq!(update.seq_num, Some(77));
        assert_eq!(measure::stamp::find(template.bytes()), Some(5_000_000));
    }
}
