//! Times in messages that are moved from when they were recorded to now: which fields, and by how much.

use rwf::dictionary::Dictionary;
use rwf::wire::{LenForm, Writer};
use rwf::{
    DataType, Date, DecodeError, EncodeError, FieldList, FieldListEncoder, Map, MapEncoder, MapHead, Primitive,
    SetScope, Time,
};
use std::collections::HashMap;

const DAY: i128 = 86_400_000_000_000;
const MILLI: i128 = 1_000_000;
/// Days when something has happened. Others say when something will, as the end of a contract: they stay.
const DATES: [&str; 3] = ["ACTIV_DATE", "TRADE_DATE", "QUOTE_DATE"];
/// Milliseconds since midnight.
const MILLIS: [&str; 4] = ["TIMACT_MS", "QUOTIM_MS", "SALTIM_MS", "TRDTIM_MS"];
/// Deepest nesting of maps that is followed.
const DEPTH: usize = 4;

/// How a field tells the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    TimeOfDay,
    Millis,
    Day,
}

/// The fields that are moved.
#[derive(Debug)]
pub struct Shift {
    fields: HashMap<i16, Tells>,
    /// Wall clock less monotonic clock, nanoseconds.
    wall: u64,
}

/// Why a body stays as it is.
struct Unmoved;

impl From<DecodeError> for Unmoved {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

impl From<EncodeError> for Unmoved {
    fn from(_: EncodeError) -> Self {
        Self
    }
}

impl Shift {
    /// All fields that are times of day, those of milliseconds, and the days of what has happened. `wall` is by how much the wall clock is
    /// more than the monotonic one.
    pub fn of(dictionary: &Dictionary, wall: u64) -> Self {
        let tells = |name: &str, data_type| match data_type {
            DataType::TIME => Some(Tells::TimeOfDay),
            DataType::DATE if DATES.contains(&name) => Some(Tells::Day),
            DataType::UINT if MILLIS.contains(&name) => Some(Tells::Millis),
            _ => None,
        };
        let fields = dictionary.fields();
        let fields = fields.filter_map(|field| Some((field.fid(), tells(field.acronym(), field.data_type())?)));
        Self { fields: fields.collect(), wall }
    }

    /// By how much times are moved so that a time of the recording is now, by the monotonic clock.
    pub fn distance(&self, recorded: u64, now: u64) -> Distance {
        Distance::new(recorded, now.wrapping_add(self.wall))
    }

    /// Appends the body of a message with its times moved; false, and nothing is appended, if it has none or cannot be read.
    pub fn append(&self, distance: Distance, container: DataType, body: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        // A number of milliseconds may take two bytes more.
        out.resize(start + 2 * body.len() + 64, 0);
        let mut w = Writer::new(&mut out[start..]);
        let is_moved = matches!(self.write(distance, container, body, 0, &mut w), Ok(true));
        let len = if is_moved { w.written().len() } else { 0 };
        out.truncate(start + len);
        is_moved
    }

    /// Writes a container; false if nothing in it is moved, and what was written is void.
    fn write(
        &self,
        distance: Distance,
        container: DataType,
        body: &[u8],
        depth: usize,
        w: &mut Writer<'_>,
    ) -> Result<bool, Unmoved> {
        match container {
            DataType::FIELD_LIST => self.fields(distance, body, w),
            DataType::MAP if depth < DEPTH => self.map(distance, body, depth, w),
            _ => Ok(false),
        }
    }

    fn fields(&self, distance: Distance, body: &[u8], w: &mut Writer<'_>) -> Result<bool, Unmoved> {
        let list = FieldList::decode(body, &SetScope::NONE)?;
        if list.is_set_skipped() {
            return Err(Unmoved);
        }
        let mut out = FieldListEncoder::begin(w)?;
        if let Some(info) = list.info {
            out.info(info)?;
        }
        let mut is_moved = false;
        for entry in list.entries() {
            let entry = entry?;
            match self.fields.get(&entry.fid).and_then(|tells| distance.moved(*tells, entry.data)) {
                Some((value, len)) => {
                    out.short(entry.fid, value, len)?;
                    is_moved = true;
                }
                None => out.raw(entry.fid, entry.data)?,
            }
        }
        out.finish()?;
        Ok(is_moved)
    }

    fn map(&self, distance: Distance, body: &[u8], depth: usize, w: &mut Writer<'_>) -> Result<bool, Unmoved> {
        let map = Map::decode(body, &SetScope::NONE)?;
        if map.set_defs().is_some() {
            return Err(Unmoved);
        }
        let Map { key_type, container, key_field_id, per_entry_perm, .. } = map;
        let head = MapHead { key_type, container, key_field_id, count_hint: map.count_hint(), per_entry_perm };
        let mut out = MapEncoder::begin(w, head)?;
        let mut any = false;
        let mut part = |data: &[u8], w: &mut Writer<'_>| {
            let start = w.position();
            if let Ok(true) = self.write(distance, container, data, depth + 1, w) {
                any = true;
                return Ok(());
            }
            w.rollback(start);
            w.bytes(data)
        };
        if let Some(summary) = map.summary() {
            out.summary(LenForm::Shortest, |w| part(summary, w))?;
        }
        for entry in map.entries() {
            let entry = entry?;
            let key = entry.key_value(key_type)?;
            out.entry_with(entry.action, &key, entry.perm_data, LenForm::Shortest, |w| part(entry.data, w))?;
        }
        out.finish()?;
        Ok(any)
    }
}

/// By how much times are moved.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    nanos: i128,
    /// Midnights of UTC between the two times.
    days: i128,
}

impl Distance {
    fn new(from: u64, to: u64) -> Self {
        let (from, to) = (i128::from(from), i128::from(to));
        Self { nanos: to - from, days: to / DAY - from / DAY }
    }

    /// The bytes of a value that is moved, as exact as it was, and how many they are; `None` for a blank, or what is no time.
    fn moved(self, tells: Tells, data: &[u8]) -> Option<([u8; 8], usize)> {
        match tells {
            Tells::TimeOfDay => {
                let time = Time::from_bytes(data).filter(|time| !time.is_blank() && time.hour < 24)?;
                let seconds = i128::from(time.hour) * 3600 + i128::from(time.minute) * 60 + i128::from(time.second);
                let micros = i128::from(time.millisecond) * 1000 + i128::from(time.microsecond);
                let nanos = seconds * 1_000_000_000 + micros * 1000 + i128::from(time.nanosecond);
                let moved = Time::from_nanos((nanos + self.nanos).rem_euclid(DAY) as u64);
                // At a full minute it was written without its seconds.
                written(|w| moved.write(data.len().max(3), w))
            }
            Tells::Millis => {
                let Ok(Primitive::UInt(millis)) = Primitive::decode(DataType::UINT, data) else { return None };
                let nanos = i128::from(millis) * MILLI;
                if data.is_empty() || nanos >= DAY {
                    return None;
                }
                let moved = (nanos + self.nanos).rem_euclid(DAY) / MILLI;
                written(|w| Primitive::UInt(moved as u64).encode(w))
            }
            Tells::Day => {
                let date = Date::from_bytes(data.try_into().ok()?);
                let day = u64::from(date.days()?);
                let moved = u32::try_from(i128::from(day) + self.days).ok()?;
                Some((widened(&Date::from_days(moved).to_bytes()), 4))
            }
        }
    }
}

fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Option<([u8; 8], usize)> {
    let mut buf = [0; 8];
    let mut w = Writer::new(&mut buf);
    write(&mut w).ok()?;
    let len = w.written().len();
    Some((buf, len))
}

fn widened(bytes: &[u8]) -> [u8; 8] {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::MapAction;

    const SECOND: u64 = 1_000_000_000;

    fn dictionary() -> Dictionary {
        Dictionary::builtin()
    }

    fn fid(name: &str) -> i16 {
        dictionary().field_named(name).unwrap_or_else(|| panic!("{name} is no field")).fid()
    }

    fn list(fields: &[(&str, Primitive<'_>)]) -> Vec<u8> {
        let mut buf = [0; 400];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).expect("room");
        for (name, value) in fields {
            list.field(fid(name), value).expect("room");
        }
        list.finish().expect("room");
        w.written().to_vec()
    }

    fn map(entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
        let mut buf = [0; 900];
        let mut w = Writer::new(&mut buf);
        let head = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);
        let mut map = MapEncoder::begin(&mut w, head).expect("room");
        for (key, body) in entries {
            let key = Primitive::Buffer(key);
            let put = |w: &mut Writer<'_>| w.bytes(body);
            map.entry(MapAction::ADD, &key, put).expect("room");
        }
        map.finish().expect("room");
        w.written().to_vec()
    }

    /// A body of 2026-11-27 23:59:00, moved to a time so many seconds later.
    fn moved(container: DataType, body: &[u8], later: u64) -> Option<Vec<u8>> {
        let at = 20_784 * 86_400 * SECOND + 86_340 * SECOND;
        let shift = Shift::of(&dictionary(), 1_000);
        let distance = shift.distance(at, at + later * SECOND - 1_000);
        let mut out = b"before".to_vec();
        let is_moved = shift.append(distance, container, body, &mut out);
        assert_eq!((&out[..6], is_moved), (&b"before"[..], out.len() > 6));
        is_moved.then(|| out.split_off(6))
    }

    #[test]
    fn times_of_what_has_happened_are_moved_and_nothing_else() {
        let time = |hour, minute, second| Primitive::Time(Time::new(hour, minute, second));
        let date = |month, day| Primitive::Date(Date::new(2026, month, day));
        let before = [
            ("TIMACT", time(23, 58, 59)),
            ("TRDPRC_1", Primitive::Int(7)),
            ("ACTIV_DATE", date(11, 27)),
            ("QUOTIM_MS", Primitive::UInt(86_339_999)),
            ("EXPIR_DATE", date(12, 19)),
            ("SALTIM_MS", Primitive::UInt(1)),
        ];
        // Two minutes later is another day.
        let after = [
            ("TIMACT", time(0, 0, 59)),
            before[1],
            ("ACTIV_DATE", date(11, 28)),
            ("QUOTIM_MS", Primitive::UInt(59_999)),
            before[4],
            ("SALTIM_MS", Primitive::UInt(120_001)),
        ];
        assert_eq!(moved(DataType::FIELD_LIST, &list(&before), 120), Some(list(&after)));
        let books = |fields: &[_]| map(&[(b"1", list(fields)), (b"2", list(&before[1..2]))]);
        assert_eq!(moved(DataType::MAP, &books(&before), 120), Some(books(&after)));
        // A time at a full minute has seconds when it is moved.
        let full = moved(DataType::FIELD_LIST, &list(&[("SALTIM", time(23, 58, 0))]), 121);
        assert_eq!(full, Some(list(&[("SALTIM", time(0, 0, 1))])));
        // Nothing to move: the message goes out as it came.
        assert_eq!(moved(DataType::FIELD_LIST, &list(&before[1..2]), 120), None);
        let odd = [
            ("TIMACT", Primitive::Blank),
            ("SALTIM_MS", Primitive::UInt(86_400_000)),
            ("ACTIV_DATE", Primitive::Blank),
        ];
        assert_eq!(moved(DataType::FIELD_LIST, &list(&odd), 120), None);
        assert_eq!(moved(DataType::FIELD_LIST, &list(&before)[..20], 120), None);
        assert_eq!(moved(DataType::OPAQUE, &list(&before), 120), None);
    }
}
