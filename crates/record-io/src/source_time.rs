//! When a source has made a message, by what the message's fields say.

use rwf::dictionary::Dictionary;
use rwf::{DataType, FieldList, Primitive, SetScope, peek};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Fields that say when something happened, the best first: of milliseconds since midnight, then of a time of day.
const FIELDS: [&str; 8] = ["TIMACT_MS", "QUOTIM_MS", "SALTIM_MS", "TRDTIM_MS", "TIMACT", "QUOTIM", "SALTIM", "EXCHTIM"];

/// The fields of a dictionary that say when a source has made a message.
#[derive(Debug, Default)]
pub struct SourceTime {
    /// By rank.
    fields: Vec<(i16, DataType)>,
    /// A bit for each of them, by the last six bits of its number: of most other fields there is none, and nobody looks further.
    known: u64,
}

/// The bit of a field.
const fn bit(fid: i16) -> u64 {
    1 << (fid as u16 % 64)
}

impl SourceTime {
    /// Those that a dictionary has.
    pub fn of(dictionary: &Dictionary) -> Self {
        let known = FIELDS.iter().filter_map(|name| dictionary.field_named(name));
        let fields: Vec<_> = known.map(|field| (field.fid(), field.data_type())).collect();
        let known = fields.iter().fold(0, |known, (fid, _)| known | bit(*fid));
        Self { fields, known }
    }

    /// The time that a message's best field has; `None` if it has none, or the message no fields. Fields tell the time of a day: it is
    /// that which is nearest to `wall`, the wall clock of receipt. All in nanoseconds since 1970.
    pub fn read(&self, msg: &[u8], wall: u64) -> Option<u64> {
        if self.fields.is_empty() || peek::container(msg) != Some(DataType::FIELD_LIST) {
            return None;
        }
        let list = FieldList::decode(peek::body(msg)?, &SetScope::NONE).ok()?;
        let mut best: Option<(usize, u64)> = None;
        for entry in list.entries().flatten() {
            if self.known & bit(entry.fid) == 0 {
                continue;
            }
            let Some(rank) = self.fields.iter().position(|(fid, _)| *fid == entry.fid) else { continue };
            if best.is_none_or(|(known, _)| rank < known)
                && let Some(time) = time_of_day(entry.value(self.fields[rank].1).ok()?)
            {
                best = Some((rank, time));
            }
        }
        best.map(|(_, time)| nearest(time, wall))
    }
}

/// Nanoseconds since midnight.
fn time_of_day(value: Primitive<'_>) -> Option<u64> {
    let nanos = match value {
        Primitive::UInt(millis) => millis.checked_mul(1_000_000)?,
        Primitive::Time(time) if !time.is_blank() => {
            let seconds = u64::from(time.hour) * 3600 + u64::from(time.minute) * 60 + u64::from(time.second);
            let micros = u64::from(time.millisecond) * 1000 + u64::from(time.microsecond);
            seconds * SECOND + micros * 1000 + u64::from(time.nanosecond)
        }
        _ => return None,
    };
    Some(nanos).filter(|nanos| *nanos < DAY)
}

/// The moment with this time of day that is nearest to another one.
fn nearest(time: u64, wall: u64) -> u64 {
    let today = wall - wall % DAY + time;
    if today > wall + DAY / 2 {
        today.saturating_sub(DAY)
    } else if today + DAY / 2 < wall {
        today + DAY
    } else {
        today
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::FieldListEncoder;
    use rwf::msg::{Domain, UpdateMsg};
    use rwf::wire::Writer;

    fn update(fields: &[(&str, Primitive<'_>)], dictionary: &Dictionary) -> Vec<u8> {
        let mut buffer = [0; 300];
        let mut w = Writer::new(&mut buffer);
        let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        update.encode_header(&mut w).expect("room");
        let mut list = FieldListEncoder::begin(&mut w).expect("room");
        for (name, value) in fields {
            list.field(dictionary.field_named(name).expect("a field").fid(), value).expect("room");
        }
        list.finish().expect("room");
        w.written().to_vec()
    }

    #[test]
    fn the_best_field_counts_on_the_day_that_is_nearest() {
        let dictionary = Dictionary::builtin();
        let times = SourceTime::of(&dictionary);
        let midnight = 20_000 * DAY;
        let time = Primitive::Time(rwf::Time::new(23, 59, 59));
        let both = update(&[("TIMACT", time), ("QUOTIM_MS", Primitive::UInt(1))], &dictionary);
        assert_eq!(times.read(&both, midnight + 5), Some(midnight + 1_000_000));
        assert_eq!(times.read(&both, midnight - 5), Some(midnight + 1_000_000));
        let one = update(&[("TIMACT", time)], &dictionary);
        assert_eq!(times.read(&one, midnight + 5), Some(midnight - SECOND));
        assert_eq!(times.read(&one, midnight - SECOND), Some(midnight - SECOND));
        let none = update(&[("QUOTIM_MS", Primitive::UInt(86_400_000)), ("TIMACT", Primitive::Blank)], &dictionary);
        assert_eq!(times.read(&none, midnight), None);
        assert_eq!(times.read(&[], midnight), None);
    }
}
