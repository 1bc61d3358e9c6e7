//! Values as numbers, and what they are foretold from: the smaller what is left, the less there is to write.

use crate::bytes::zigzag;
use rustc_hash::FxHashMap;

/// The mark of a value without bytes.
pub(super) const BLANK: u8 = 0xFF;

/// Items are told apart by a table of their numbers if it is no more than so many times as long as the records.
const DENSE: usize = 8;

/// How the bytes of a column's values are a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The column is not of numbers: bytes, or the same as the item's last.
    Bytes,
    /// So many bytes, big-endian.
    Fixed(u8),
    /// A hint, which is the value's mark, and a two's complement of as few bytes as it can have, big-endian.
    Real,
    /// Hour, minute, and with 3 bytes second, with 5 bytes a millisecond of two bytes: the number is in the smallest of these.
    Time(u8),
    /// As few bytes as it can have, at least one, big-endian.
    Unsigned,
    /// A value of a few: the number is its place in a list.
    Listed,
}

impl Form {
    /// Number and width, as they are written.
    pub(super) const fn numbers(self) -> (u8, u8) {
        match self {
            Self::Bytes => (0, 0),
            Self::Fixed(width) => (1, width),
            Self::Real => (2, 0),
            Self::Time(width) => (3, width),
            Self::Unsigned => (4, 0),
            Self::Listed => (5, 0),
        }
    }

    pub(super) const fn of(number: u8, width: u8) -> Option<Self> {
        match (number, width) {
            (0, _) => Some(Self::Bytes),
            (1, 1..=8) => Some(Self::Fixed(width)),
            (2, _) => Some(Self::Real),
            (3, 3 | 5) => Some(Self::Time(width)),
            (4, _) => Some(Self::Unsigned),
            (5, _) => Some(Self::Listed),
            _ => None,
        }
    }

    /// Mark and number of a value that is not blank; `None` if this form cannot give exactly these bytes back.
    #[inline]
    pub(super) fn parse(self, value: Worded<'_>) -> Option<(u8, i64)> {
        let (len, first) = (value.bytes.len() as u32, value.first);
        match self {
            Self::Fixed(width) => (len == u32::from(width)).then(|| (0, value.unsigned(0))),
            Self::Unsigned => {
                let is_least = len <= 8 && (len == 1 || first >> 56 != 0);
                is_least.then(|| (0, value.unsigned(0)))
            }
            Self::Real => {
                let mark = (first >> 56) as u8;
                // The first nine bits of a number of more than one byte are not alike, or it could be shorter.
                let is_least = (2..=9).contains(&len) && (len == 2 || !matches!((first << 8) as i64 >> 55, 0 | -1));
                (is_least && mark != BLANK).then(|| (mark, value.signed(1)))
            }
            Self::Time(width) => {
                if len != u32::from(width) {
                    return None;
                }
                let [hour, minute, second, ..] = first.to_be_bytes();
                let milli = value.unsigned(3);
                let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
                let is_time = hour < 24 && minute < 60 && second < 60 && milli < 1000;
                is_time.then_some((0, if width == 5 { seconds * 1000 + milli } else { seconds }))
            }
            Self::Bytes | Self::Listed => None,
        }
    }

    /// The bytes of a number, and how many they are; `None` if there are none.
    #[inline]
    pub(super) fn bytes(self, mark: u8, value: i64) -> Option<([u8; 16], usize)> {
        let mut out = [0; 16];
        // The lowest so many bytes of the value, which is at least one.
        let lowest = |len: u32| ((value as u64) << (64 - 8 * len)).to_be_bytes();
        let len = match self {
            Self::Fixed(width) => {
                out[..8].copy_from_slice(&lowest(u32::from(width)));
                usize::from(width)
            }
            Self::Unsigned => {
                let len = (64 - (value as u64 | 1).leading_zeros()).div_ceil(8);
                out[..8].copy_from_slice(&lowest(len));
                len as usize
            }
            Self::Real => {
                // With a bit for the sign.
                let len = (65 - (value ^ (value >> 63)).leading_zeros()).div_ceil(8);
                out[0] = mark;
                out[1..9].copy_from_slice(&lowest(len));
                1 + len as usize
            }
            Self::Time(width) => {
                let (seconds, milli) = if width == 5 { (value / 1000, value % 1000) } else { (value, 0) };
                if !(0..86_400).contains(&seconds) || milli < 0 {
                    return None;
                }
                out[..3].copy_from_slice(&[(seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8]);
                out[3..5].copy_from_slice(&(milli as u16).to_be_bytes());
                if width == 5 { 5 } else { 3 }
            }
            Self::Bytes | Self::Listed => return None,
        };
        Some((out, len))
    }
}

/// A value, with its first eight bytes as a number, the first one the highest; those that it does not have are 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worded<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) first: u64,
}

impl Worded<'_> {
    /// The bytes behind `skip` others, up to eight, as a number; none: 0.
    #[inline]
    fn unsigned(self, skip: u32) -> i64 {
        self.shifted(skip).map_or(0, |(first, spare)| (first >> spare) as i64)
    }

    /// As [`Worded::unsigned`], in two's complement.
    #[inline]
    fn signed(self, skip: u32) -> i64 {
        self.shifted(skip).map_or(0, |(first, spare)| first as i64 >> spare)
    }

    /// The bytes behind `skip` others, the first one the highest, and how many of the lowest bits are none of theirs.
    #[inline]
    fn shifted(self, skip: u32) -> Option<(u64, u32)> {
        let len = (self.bytes.len() as u32).checked_sub(skip).filter(|len| (1..=8).contains(len))?;
        let mut first = self.first << (8 * skip);
        // The last one of them may not be among the first eight.
        if skip + len > 8 {
            first |= self.bytes[8..].iter().fold(0, |value, byte| value << 8 | u64::from(*byte)) << (64 - 8 * len);
        }
        Some((first, 64 - 8 * len))
    }
}

/// Source of a prediction. Columns are told by their numbers, which are smaller than the own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Predictor {
    /// Nothing.
    Zero,
    /// The item's last value: what all others fall back to.
    Last,
    /// The number grows by the other column's value: a volume by the trade's size.
    Sum(usize),
    /// The number keeps its distance from the other column: an ask from the bid.
    Follow(usize),
    /// The number is what it was when the other column had this value: a number of an exchange beside its name.
    Memo(usize),
    /// The number grows by the product of two: a turnover by price times size.
    Product(usize, usize),
    /// The number keeps its distance from the wall clock, in milliseconds.
    Millis,
    /// The number keeps its distance from the wall clock, in seconds.
    Seconds,
}

impl Predictor {
    /// Number and columns, as they are written.
    pub(super) const fn numbers(self) -> (u8, usize, usize) {
        match self {
            Self::Zero => (0, 0, 0),
            Self::Last => (1, 0, 0),
            Self::Sum(one) => (2, one, 0),
            Self::Follow(one) => (3, one, 0),
            Self::Memo(one) => (4, one, 0),
            Self::Product(one, two) => (5, one, two),
            Self::Millis => (6, 0, 0),
            Self::Seconds => (7, 0, 0),
        }
    }

    /// The one with this number, for a column behind `limit` others.
    pub(super) fn of(number: u8, one: usize, two: usize, limit: usize) -> Option<Self> {
        let refers = match number {
            2..=4 => one < limit,
            5 => one < limit && two < limit,
            _ => true,
        };
        Some(match number {
            _ if !refers => return None,
            0 => Self::Zero,
            1 => Self::Last,
            2 => Self::Sum(one),
            3 => Self::Follow(one),
            4 => Self::Memo(one),
            5 => Self::Product(one, two),
            6 => Self::Millis,
            7 => Self::Seconds,
            _ => return None,
        })
    }

    /// The columns that it refers to.
    pub(super) const fn columns(self) -> (Option<usize>, Option<usize>) {
        match self {
            Self::Sum(one) | Self::Follow(one) | Self::Memo(one) => (Some(one), None),
            Self::Product(one, two) => (Some(one), Some(two)),
            _ => (None, None),
        }
    }

    /// The same by other columns; the item's last value where they are not there.
    pub(super) const fn with_columns(self, columns: (Option<usize>, Option<usize>)) -> Self {
        match (self, columns) {
            (Self::Sum(_), (Some(one), _)) => Self::Sum(one),
            (Self::Follow(_), (Some(one), _)) => Self::Follow(one),
            (Self::Memo(_), (Some(one), _)) => Self::Memo(one),
            (Self::Product(..), (Some(one), Some(two))) => Self::Product(one, two),
            (Self::Sum(_) | Self::Follow(_) | Self::Memo(_) | Self::Product(..), _) => Self::Last,
            (other, _) => other,
        }
    }
}

/// The numbers of a column: of those rows that have one that is not blank, in order.
#[derive(Debug, Default, Clone)]
pub(super) struct Numbers {
    pub(super) rows: Vec<u32>,
    pub(super) values: Vec<i64>,
}

impl Numbers {
    /// None yet, with room for so many.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { rows: Vec::with_capacity(count), values: Vec::with_capacity(count) }
    }
}

/// Rows that all columns of a block share: of each row the item, counted from 0 within the block, and the wall clock.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) items: Vec<u32>,
    pub(super) item_count: usize,
    pub(super) walls: Vec<u64>,
}

impl Rows {
    /// Rows of these items, by their numbers in the segment.
    pub(super) fn new(items: &[u32], walls: Vec<u64>) -> Self {
        let bounds = (u32::MAX, 0);
        let (least, most) = items.iter().fold(bounds, |(least, most), item| (least.min(*item), most.max(*item)));
        let least = least.min(most);
        if (most - least) as usize <= DENSE * items.len() {
            // In a slice numbers are near each other.
            let mut known = vec![u32::MAX; (most - least) as usize + 1];
            let mut next = 0;
            let number = |item: &u32| {
                let known = &mut known[(item - least) as usize];
                if *known == u32::MAX {
                    *known = next;
                    next += 1;
                }
                *known
            };
            let items = items.iter().map(number).collect();
            return Self { items, item_count: next as usize, walls };
        }
        let mut known = FxHashMap::default();
        let items = items.iter().map(|item| {
            let next = known.len() as u32;
            *known.entry(*item).or_insert(next)
        });
        let items = items.collect();
        Self { items, item_count: known.len(), walls }
    }

    /// Rows of which only those of one item are looked at.
    pub(super) fn of_one(walls: Vec<u64>) -> Self {
        Self { items: vec![0; walls.len()], item_count: 1, walls }
    }
}

/// Goes through another column along with one's own rows.
#[derive(Debug)]
struct Beside<'a> {
    numbers: &'a Numbers,
    at: usize,
}

impl Beside<'_> {
    /// Value of the column in this row: the last one, if it has several.
    #[inline]
    fn value(&mut self, row: u32) -> Option<i64> {
        while self.numbers.rows.get(self.at).is_some_and(|at| *at <= row) {
            self.at += 1;
        }
        let last = self.at.checked_sub(1)?;
        (self.numbers.rows[last] == row).then(|| self.numbers.values[last])
    }
}

/// Foretells the numbers of a column, one after the other.
#[derive(Debug)]
pub(super) struct Foresight<'a> {
    predictor: Predictor,
    rows: &'a Rows,
    one: Option<Beside<'a>>,
    two: Option<Beside<'a>>,
    /// Of each item: the last value.
    last: Vec<i64>,
    /// Of each item: the last distance.
    distance: Vec<i64>,
    memo: FxHashMap<(u32, i64), i64>,
    /// Value that the other column has in the row that was foretold.
    beside: Option<i64>,
}

impl<'a> Foresight<'a> {
    /// `done` are the columns before; `None` if one that is referred to is not a number.
    pub(super) fn new(predictor: Predictor, rows: &'a Rows, done: &'a [Option<Numbers>]) -> Option<Self> {
        let beside = |column: Option<usize>| match column {
            None => Some(None),
            Some(column) => Some(Some(Beside { numbers: done.get(column)?.as_ref()?, at: 0 })),
        };
        let (one, two) = predictor.columns();
        let keeps_distance = matches!(predictor, Predictor::Follow(_) | Predictor::Millis | Predictor::Seconds);
        Some(Self {
            predictor,
            rows,
            one: beside(one)?,
            two: beside(two)?,
            last: vec![0; rows.item_count],
            distance: vec![0; if keeps_distance { rows.item_count } else { 0 }],
            memo: FxHashMap::default(),
            beside: None,
        })
    }

    /// The rows, and of each item the last value, where nothing else foretells.
    pub(super) fn by_last(&mut self) -> Option<(&'a Rows, &mut [i64])> {
        (self.predictor == Predictor::Last).then_some((self.rows, &mut self.last[..]))
    }

    /// Prediction of the number in this row.
    #[inline]
    pub(super) fn predict(&mut self, row: u32) -> i64 {
        let item = self.rows.items[row as usize];
        let last = self.last[item as usize];
        self.beside = match self.predictor {
            Predictor::Zero => return 0,
            Predictor::Last => return last,
            Predictor::Millis => Some((self.rows.walls[row as usize] / 1_000_000) as i64),
            Predictor::Seconds => Some((self.rows.walls[row as usize] / 1_000_000_000) as i64),
            _ => self.one.as_mut().and_then(|one| one.value(row)),
        };
        let Some(beside) = self.beside else { return last };
        match self.predictor {
            Predictor::Sum(_) => last.wrapping_add(beside),
            Predictor::Product(..) => match self.two.as_mut().and_then(|two| two.value(row)) {
                Some(two) => last.wrapping_add(beside.wrapping_mul(two)),
                None => last,
            },
            Predictor::Memo(_) => self.memo.get(&(item, beside)).copied().unwrap_or(last),
            _ => beside.wrapping_add(self.distance[item as usize]),
        }
    }

    /// The number as it is: told after each [`Foresight::predict`].
    #[inline]
    pub(super) fn learn(&mut self, row: u32, value: i64) {
        let item = self.rows.items[row as usize];
        self.last[item as usize] = value;
        let Some(beside) = self.beside else { return };
        match self.predictor {
            Predictor::Follow(_) | Predictor::Millis | Predictor::Seconds => {
                self.distance[item as usize] = value.wrapping_sub(beside);
            }
            Predictor::Memo(_) => {
                self.memo.insert((item, beside), value);
            }
            _ => {}
        }
    }
}

/// How far from what was foretold the first `limit` numbers are.
pub(super) fn residuals(numbers: &Numbers, mut foresight: Foresight<'_>, limit: usize) -> Vec<i64> {
    let limit = limit.min(numbers.values.len());
    let (rows, values) = (&numbers.rows[..limit], &numbers.values[..limit]);
    match foresight.predictor {
        Predictor::Zero => return values.to_vec(),
        Predictor::Last => {
            let Foresight { rows: all, last, .. } = &mut foresight;
            let residuals = rows.iter().zip(values).map(|(row, value)| {
                let last = &mut last[all.items[*row as usize] as usize];
                value.wrapping_sub(std::mem::replace(last, *value))
            });
            return residuals.collect();
        }
        _ => {}
    }
    let residuals = rows.iter().zip(values).map(|(row, value)| {
        let residual = value.wrapping_sub(foresight.predict(*row));
        foresight.learn(*row, *value);
        residual
    });
    residuals.collect()
}

/// Divisor of all numbers; 1 if nothing does or all are 0.
pub(super) fn divisor(residuals: &[i64]) -> i64 {
    let mut common = 0u64;
    let mut known = ExactDivisor::new(1);
    for residual in residuals {
        let mut other = residual.unsigned_abs();
        // Most often what divides those before divides this one.
        if common != 0 && known.divides(other) {
            continue;
        }
        while other != 0 {
            (common, other) = (other, common % other);
        }
        if common == 1 {
            break;
        }
        if common != 0 {
            known = ExactDivisor::new(common);
        }
    }
    i64::try_from(common).unwrap_or(1).max(1)
}

/// A divisor by which only what it divides is divided: by multiplying with the inverse of its odd part modulo 2^64, a tenth of what a division takes
/// (Warren, Hacker's Delight, 10-17 and 10-18).
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactDivisor {
    inverse: u64,
    /// How often it can be halved.
    twos: u32,
    /// The largest quotient.
    most: u64,
}

impl ExactDivisor {
    /// Of a number that is not 0.
    pub(super) const fn new(divisor: u64) -> Self {
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // Right in its lowest three bits, and in twice as many behind each step.
        let mut inverse = odd;
        let mut bits = 3;
        while bits < 64 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
            bits *= 2;
        }
        Self { inverse, twos, most: u64::MAX / divisor }
    }

    /// Whether it divides a number.
    #[inline]
    const fn divides(self, number: u64) -> bool {
        number.wrapping_mul(self.inverse).rotate_right(self.twos) <= self.most
    }

    /// How often a number has it, which it divides.
    #[inline]
    pub(super) const fn quotient(self, number: i64) -> i64 {
        (number >> self.twos).wrapping_mul(self.inverse as i64)
    }
}

/// About how many bits they will take: the entropy of their first bytes, and the further bytes as they are.
pub(super) fn cost(residuals: &[i64]) -> f64 {
    let divisor = divisor(residuals);
    let mut counts = [0u32; 256];
    let mut further = 0;
    for residual in residuals {
        let token = zigzag(residual / divisor);
        let bits = 64 - token.leading_zeros();
        if token < 128 {
            counts[token as usize] += 1;
        } else {
            counts[128 + bits as usize] += 1;
            further += bits;
        }
    }
    let all = residuals.len() as f64;
    let entropy = |count: &u32| f64::from(*count) * (all / f64::from(*count)).log2();
    counts.iter().filter(|count| **count > 0).map(entropy).sum::<f64>() + f64::from(further)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_gives_back_the_bytes_that_it_takes() {
        let forms = [Form::Fixed(4), Form::Fixed(8), Form::Real, Form::Time(3), Form::Time(5), Form::Unsigned];
        let mut taken = 0;
        let pieces: [&[u8]; 9] =
            [&[0], &[1], &[0x7F], &[0x80], &[0xFF], &[0, 0x80], &[0xFF, 0x7F], &[23, 59, 59], &[3, 231]];
        for (one, two, three) in (0..729).map(|n: usize| (pieces[n % 9], pieces[n / 9 % 9], pieces[n / 81])) {
            let bytes = [one, two, three].concat();
            for len in 1..=bytes.len() {
                let mut first = [0; 8];
                first[..len.min(8)].copy_from_slice(&bytes[..len.min(8)]);
                let worded = Worded { bytes: &bytes[..len], first: u64::from_be_bytes(first) };
                for form in forms {
                    let Some((mark, value)) = form.parse(worded) else { continue };
                    let (out, given) = form.bytes(mark, value).expect("a number that was read");
                    assert_eq!(out[..given], bytes[..len], "{form:?}");
                    taken += 1;
                }
            }
        }
        assert!(taken > 2000, "{taken}");
    }

    #[test]
    fn what_divides_all_is_found() {
        assert_eq!([divisor(&[]), divisor(&[0, 0]), divisor(&[100, -300, 0]), divisor(&[i64::MIN])], [1, 1, 100, 1]);
        assert_eq!(divisor(&[7, 100]), 1);
        assert_eq!(divisor(&[0, 48, 36, 0, -60, 1 << 40 | 12 << 41]), 4);
    }

    #[test]
    fn what_divides_is_divided_without_dividing() {
        let divisors = (1..300).chain([1 << 20, 1 << 62, (1 << 61) - 1, 3 << 40, 1_000_000_007, i64::MAX]);
        for divisor in divisors {
            let exact = ExactDivisor::new(divisor as u64);
            for times in [0, 1, 2, 3, 7, 100, 12_345, i64::MAX / divisor] {
                let Some(number) = divisor.checked_mul(times) else { continue };
                for number in [number, -number] {
                    assert_eq!(exact.quotient(number), number / divisor, "{number} / {divisor}");
                    assert!(exact.divides(number.unsigned_abs()));
                    for other in [number.wrapping_sub(1), number.wrapping_add(1), number.wrapping_add(divisor / 2)] {
                        let other = other.unsigned_abs();
                        assert_eq!(exact.divides(other), other % divisor as u64 == 0, "{other} / {divisor}");
                    }
                }
            }
        }
    }
}
