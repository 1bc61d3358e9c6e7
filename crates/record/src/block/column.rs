//! A column: the values that one slot has in the messages of a block.

use super::join::{Joined, Piece};
use super::numbers::{
    BLANK, ExactDivisor, Foresight, Form, Numbers, Predictor, Rows, Worded, cost, divisor, residuals,
};
use super::shape::Slot;
use crate::bytes::{Input, put_counted, put_varint, unzigzag, zigzag};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Values of a listed column.
const LIST_MAX: usize = 255;
/// Bytes of a value that is listed.
const LISTED_LEN_MAX: usize = 64;
/// Columns before one's own that are tried as what it goes by.
const OTHERS_MAX: usize = 20;
/// Values by which products are tried: there are many pairs.
const PRODUCT_SAMPLE: usize = 400;
/// Bits a value from which on a product is looked for.
const PRODUCT_WORTH: f64 = 8.0;

/// Where a value stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The row of its message.
    row: u32,
    /// Its first byte among those of all messages, and its length.
    start: u32,
    len: u32,
}

/// Where the values of a column stand in the messages.
#[derive(Debug, Default)]
pub(super) struct Values {
    places: Vec<Place>,
}

impl Values {
    #[inline]
    pub(super) fn push(&mut self, row: u32, (start, len): (u32, u32)) {
        self.places.push(Place { row, start, len });
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
    }

    /// The values, with the messages that they stand in.
    pub(super) fn of<'a>(&'a self, bodies: &'a [u8]) -> Given<'a> {
        Given { places: &self.places, bodies }
    }
}

/// The values of a column as they stand in the messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    places: &'a [Place],
    bodies: &'a [u8],
}

impl<'a> Given<'a> {
    /// How many there are.
    pub(super) const fn len(self) -> usize {
        self.places.len()
    }

    fn all(self) -> impl Iterator<Item = (u32, &'a [u8])> {
        self.places.iter().map(move |place| (place.row, self.bytes(*place)))
    }

    #[inline]
    fn bytes(self, place: Place) -> &'a [u8] {
        &self.bodies[place.start as usize..][..place.len as usize]
    }

    /// A value with its first eight bytes as a number. They are read at once: most values have fewer, and what stands behind them is cut off.
    #[inline]
    fn worded(self, place: Place) -> Worded<'a> {
        let bytes = self.bytes(place);
        let len = bytes.len().min(8);
        let kept = u64::MAX.checked_shl(64 - 8 * len as u32).unwrap_or(0);
        let first = self.bodies[place.start as usize..].first_chunk::<8>().map_or_else(
            || {
                let mut first = [0; 8];
                first[..len].copy_from_slice(&bytes[..len]);
                u64::from_be_bytes(first)
            },
            |first| u64::from_be_bytes(*first),
        );
        Worded { bytes, first: first & kept }
    }

    /// Marks and numbers of all values, if this form can give all back.
    fn parse(self, form: Form) -> Option<(Vec<u8>, Numbers)> {
        // A loop for each form.
        match form {
            Form::Fixed(width) => self.parse_by(|value| Form::Fixed(width).parse(value)),
            Form::Real => self.parse_by(|value| Form::Real.parse(value)),
            Form::Time(width) => self.parse_by(|value| Form::Time(width).parse(value)),
            Form::Unsigned => self.parse_by(|value| Form::Unsigned.parse(value)),
            Form::Bytes | Form::Listed => None,
        }
    }

    #[inline]
    fn parse_by(self, parse: impl Fn(Worded<'_>) -> Option<(u8, i64)>) -> Option<(Vec<u8>, Numbers)> {
        let (mut marks, mut numbers) = (Vec::with_capacity(self.len()), Numbers::with_capacity(self.len()));
        for place in self.places {
            if place.len == 0 {
                marks.push(BLANK);
                continue;
            }
            let (mark, value) = parse(self.worded(*place))?;
            marks.push(mark);
            numbers.rows.push(place.row);
            numbers.values.push(value);
        }
        Some((marks, numbers))
    }

    /// The different values in the order in which they come first, and each value's place, if they are few.
    fn list(self) -> Option<Listed<'a>> {
        let (mut known, mut list) = (KnownValues::default(), Vec::new());
        let (mut marks, mut numbers) = (Vec::with_capacity(self.len()), Numbers::with_capacity(self.len()));
        for place in self.places {
            if place.len == 0 {
                marks.push(BLANK);
                continue;
            }
            let value = self.worded(*place);
            let at = known.place(value, list.len());
            if at == list.len() {
                list.push(value.bytes);
                if list.len() > LIST_MAX || value.bytes.len() > LISTED_LEN_MAX {
                    return None;
                }
            }
            marks.push(0);
            numbers.rows.push(place.row);
            numbers.values.push(at as i64);
        }
        Some((list, marks, numbers))
    }
}

/// Different values by their bytes. Short ones are compared as numbers: most listed values are of a few bytes, and the same few come again and again.
struct KnownValues<'a> {
    /// Of values of up to seven bytes: the bytes and their length as one number, which is never 0, and the value's place. A table of open addressing, of which at most the half is taken.
    short: [(u64, u16); SHORT_MAX],
    long: FxHashMap<&'a [u8], usize>,
}

/// A power of two of at least twice [`LIST_MAX`].
const SHORT_MAX: usize = 1 << 9;

impl Default for KnownValues<'_> {
    fn default() -> Self {
        Self { short: [(0, 0); SHORT_MAX], long: FxHashMap::default() }
    }
}

impl<'a> KnownValues<'a> {
    /// The place of a value; `next`, which is no more than [`LIST_MAX`], if it was not known, and then it is.
    #[inline]
    fn place(&mut self, value: Worded<'a>, next: usize) -> usize {
        if value.bytes.len() > 7 {
            return *self.long.entry(value.bytes).or_insert(next);
        }
        // The eighth byte is free.
        let key = value.first | value.bytes.len() as u64;
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SHORT_MAX.ilog2())) as usize;
        loop {
            let (known, place) = &mut self.short[at & (SHORT_MAX - 1)];
            if *known == key {
                return usize::from(*place);
            }
            if *known == 0 {
                (*known, *place) = (key, next as u16);
                return next;
            }
            at += 1;
        }
    }
}

/// Different values, the marks of all, and of each that is not blank its place among the different ones.
type Listed<'a> = (Vec<&'a [u8]>, Vec<u8>, Numbers);

/// How a column is written. What was found for one block is tried with the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    form: Form,
    predictor: Predictor,
}

impl Plan {
    /// The columns that it refers to.
    pub(super) const fn columns(self) -> (Option<usize>, Option<usize>) {
        self.predictor.columns()
    }

    /// The same with other columns; without them the item's last value foretells.
    pub(super) fn with_columns(self, columns: (Option<usize>, Option<usize>)) -> Self {
        Self { predictor: self.predictor.with_columns(columns), ..self }
    }
}

/// A column as it is written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) head: Vec<u8>,
    pub(super) tokens: Vec<u8>,
    pub(super) marks: Vec<u8>,
    /// Numbers of the column, for columns behind it.
    pub(super) numbers: Option<Numbers>,
}

/// Where the marks of a column are.
#[derive(Clone, Copy)]
enum Marks {
    /// One value for all rows.
    One = 0,
    /// In a section.
    Each = 1,
}

/// The way to write a column that takes least, by its first `sample` values. `done` are the columns before it.
pub(super) fn plan(values: Given<'_>, slot: Slot, rows: &Rows, done: &[Option<Numbers>], sample: usize) -> Plan {
    let forms: &[Form] = match slot {
        Slot::Fixed(width) => &[Form::Fixed(width)],
        Slot::Rest => &[],
        Slot::Prefixed => &[Form::Real, Form::Time(3), Form::Time(5), Form::Unsigned],
    };
    let bytes: usize = values.places.iter().map(|place| place.len as usize).sum();
    let bytes = bytes as f64 * 8.0 / values.len().max(1) as f64;
    let mut best = (bytes * values.len().min(sample) as f64, Plan { form: Form::Bytes, predictor: Predictor::Last });
    let mut consider = |form: Form, numbers: &Numbers, extra: f64| {
        let (cost, predictor) = foretell(numbers, form, rows, done, sample);
        if cost + extra < best.0 {
            best = (cost + extra, Plan { form, predictor });
        }
    };
    for form in forms {
        if let Some((_, numbers)) = values.parse(*form) {
            consider(*form, &numbers, 0.0);
        }
    }
    if slot == Slot::Prefixed
        && let Some((list, _, numbers)) = values.list()
    {
        // The list is written once for all values, the sample pays its part.
        let share = numbers.values.len().min(sample) as f64 / numbers.values.len().max(1) as f64;
        let bits = list.iter().map(|value| 8.0 * (value.len() + 1) as f64).sum::<f64>();
        consider(Form::Listed, &numbers, bits * share);
    }
    best.1
}

/// The predictor that leaves least.
fn foretell(numbers: &Numbers, form: Form, rows: &Rows, done: &[Option<Numbers>], sample: usize) -> (f64, Predictor) {
    let mut best = (f64::INFINITY, Predictor::Last);
    let mut consider = |predictor: Predictor, sample: usize, worth: f64| {
        if let Some(foresight) = Foresight::new(predictor, rows, done) {
            let taken = numbers.values.len().min(sample).max(1) as f64;
            let cost = cost(&residuals(numbers, foresight, sample)) / taken * worth;
            if cost < best.0 {
                best = (cost, predictor);
            }
        }
        best.0
    };
    consider(Predictor::Last, sample, 1.0);
    consider(Predictor::Zero, sample, 1.0);
    match form {
        Form::Time(3) => _ = consider(Predictor::Seconds, sample, 1.0),
        Form::Time(_) | Form::Unsigned => _ = consider(Predictor::Millis, sample, 1.0),
        _ => {}
    }
    let others: Vec<usize> = (0..done.len()).rev().filter(|at| done[*at].is_some()).take(OTHERS_MAX).collect();
    let mut least = f64::INFINITY;
    for other in &others {
        for predictor in [Predictor::Sum(*other), Predictor::Follow(*other), Predictor::Memo(*other)] {
            // A prediction by another column costs time in reading: it has to earn it.
            least = consider(predictor, sample, 1.02);
        }
    }
    if form == Form::Real && least > PRODUCT_WORTH {
        for (at, one) in others.iter().enumerate() {
            for two in &others[at + 1..] {
                consider(Predictor::Product(*one, *two), PRODUCT_SAMPLE.min(sample), 1.02);
            }
        }
    }
    (best.0 * numbers.values.len().min(sample) as f64, best.1)
}

/// Writes a column as bytes, which fits any values.
pub(super) fn write_plain(values: Given<'_>, rows: &Rows) -> Written {
    let mut written = Written::default();
    let ((form, width), (predictor, one, two)) = (Form::Bytes.numbers(), Predictor::Last.numbers());
    written.head.extend_from_slice(&[form, width, predictor, one as u8, two as u8]);
    write_bytes(values, rows, &mut written);
    written
}

/// Writes a column by a plan; `None` if the plan does not fit these values.
pub(super) fn write(values: Given<'_>, plan: Plan, rows: &Rows, done: &[Option<Numbers>]) -> Option<Written> {
    if plan.form == Form::Bytes {
        return Some(write_plain(values, rows));
    }
    let mut written = Written::default();
    let (form, width) = plan.form.numbers();
    let (predictor, one, two) = plan.predictor.numbers();
    written.head.extend_from_slice(&[form, width, predictor]);
    put_varint(&mut written.head, one as u64);
    put_varint(&mut written.head, two as u64);
    let (list, marks, numbers) = match plan.form {
        Form::Listed => values.list()?,
        form => values.parse(form).map(|(marks, numbers)| (Vec::new(), marks, numbers))?,
    };
    let residuals = residuals(&numbers, Foresight::new(plan.predictor, rows, done)?, usize::MAX);
    let divisor = divisor(&residuals);
    put_varint(&mut written.head, divisor as u64);
    match marks.first() {
        Some(first) if marks.iter().all(|mark| mark == first) => {
            written.head.extend_from_slice(&[Marks::One as u8, *first]);
        }
        _ => {
            written.head.push(Marks::Each as u8);
            written.marks = marks;
        }
    }
    if plan.form == Form::Listed {
        put_varint(&mut written.head, list.len() as u64);
        for value in list {
            put_counted(&mut written.head, value);
        }
    }
    put_tokens(&residuals, divisor, &mut written.tokens);
    written.numbers = Some(numbers);
    Some(written)
}

/// Appends what is left of each number, by a divisor of all of them.
pub(super) fn put_tokens(residuals: &[i64], divisor: i64, out: &mut Vec<u8>) {
    let exact = ExactDivisor::new(divisor.unsigned_abs());
    let token = |residual: &i64| zigzag(exact.quotient(*residual));
    out.reserve(residuals.len());
    // Often all are of one byte each, which are found out and written many at a time.
    if residuals.iter().fold(0, |all, residual| all | token(residual)) < 0x80 {
        out.extend(residuals.iter().map(|residual| token(residual) as u8));
        return;
    }
    for residual in residuals {
        put_varint(out, token(residual));
    }
}

/// 0 for the item's last value, else the length and one; the bytes in the section of marks.
fn write_bytes(values: Given<'_>, rows: &Rows, written: &mut Written) {
    let mut last: Vec<&[u8]> = vec![&[]; rows.item_count];
    for (row, value) in values.all() {
        let last = &mut last[rows.items[row as usize] as usize];
        if *last == value {
            written.tokens.push(0);
            continue;
        }
        put_varint(&mut written.tokens, value.len() as u64 + 1);
        written.marks.extend_from_slice(value);
        *last = value;
    }
}

/// Rows in which a column has values.
#[derive(Debug)]
pub(super) struct Own {
    /// The rows that are read.
    rows: Vec<u32>,
    /// Of each of them: how many values are before its own. None: all rows are read.
    places: Option<Vec<u32>>,
    /// Values of all rows.
    total: usize,
}

impl Own {
    /// Of no row yet, of which all or only some will be read.
    pub(super) fn new(is_chosen: bool) -> Self {
        Self { rows: Vec::new(), places: is_chosen.then(Vec::new), total: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, row: u32, is_read: bool) {
        if is_read {
            self.rows.push(row);
            if let Some(places) = &mut self.places {
                places.push(self.total as u32);
            }
        }
        self.total += 1;
    }

    /// There are values, and none of them is read.
    pub(super) fn is_unwanted(&self) -> bool {
        self.rows.is_empty() && self.places.is_some()
    }
}

/// A column that was read.
#[derive(Debug)]
pub(super) struct Column<'a> {
    form: Form,
    /// One scale for all values, or one each.
    mark: Option<u8>,
    /// Of the values that are read; of [`Form::Bytes`]: the bytes of all.
    marks: Cow<'a, [u8]>,
    list: Vec<Piece<'a>>,
    pub(super) numbers: Option<Numbers>,
    /// Of [`Form::Bytes`]: each value's place in the marks.
    pieces: Vec<(u32, u32)>,
    /// Values and numbers that were given out.
    next: usize,
    next_number: usize,
}

impl<'a> Column<'a> {
    /// Reads a column: its head from `head`, which goes on to the next.
    pub(super) fn read(
        head: &mut Input<'a>,
        tokens: &[u8],
        marks: &'a [u8],
        own: &Own,
        rows: &Rows,
        done: &[Option<Numbers>],
    ) -> Option<Self> {
        let form = Form::of(head.u8()?, head.u8()?)?;
        let predictor = Predictor::of(head.u8()?, head.count()?, head.count()?, done.len())?;
        let mut column = Column {
            form,
            mark: None,
            marks: marks.into(),
            list: Vec::new(),
            numbers: None,
            pieces: Vec::new(),
            next: 0,
            next_number: 0,
        };
        if form == Form::Bytes {
            column.pieces = if own.is_unwanted() { Vec::new() } else { read_pieces(tokens, marks, own, rows)? };
            return Some(column);
        }
        let divisor = i64::try_from(head.varint()?).ok()?;
        match head.u8()? {
            0 => column.mark = Some(head.u8()?),
            1 if own.is_unwanted() || marks.len() == own.total => {}
            _ => return None,
        }
        if form == Form::Listed {
            let count = head.count().filter(|count| *count <= LIST_MAX)?;
            column.list = (0..count).map(|_| head.counted().map(Piece::new)).collect::<Option<_>>()?;
        }
        let foresight = Foresight::new(predictor, rows, done)?;
        let mut tokens = Input::new(tokens);
        match &own.places {
            None => {
                column.numbers = Some(read_numbers(&mut tokens, column.mark, marks, own, divisor, foresight)?);
                tokens.is_empty().then_some(column)
            }
            Some(places) => {
                column.numbers = Some(choose_numbers(&mut tokens, column.mark, marks, own, divisor, foresight)?);
                if column.mark.is_none() && !places.is_empty() {
                    column.marks = places.iter().map(|place| marks[*place as usize]).collect();
                }
                Some(column)
            }
        }
    }

    /// Appends the next value; `None` if there is none. `numbers` are those of this column.
    #[inline]
    pub(super) fn give(&mut self, numbers: Option<&Numbers>, out: &mut Joined<'_>) -> Option<()> {
        let at = self.next;
        self.next += 1;
        let Some(numbers) = numbers else {
            let (start, end) = *self.pieces.get(at)?;
            out.put(self.marks.get(start as usize..end as usize)?);
            return Some(());
        };
        let mark = match self.mark {
            Some(mark) => mark,
            None => *self.marks.get(at)?,
        };
        if mark == BLANK {
            return Some(());
        }
        let value = *numbers.values.get(self.next_number)?;
        self.next_number += 1;
        if self.form == Form::Listed {
            self.list.get(usize::try_from(value).ok()?)?.put(out);
            return Some(());
        }
        let (bytes, len) = self.form.bytes(mark, value)?;
        out.put_register(&bytes, len);
        Some(())
    }
}

/// The numbers of all rows.
fn read_numbers(
    tokens: &mut Input<'_>,
    mark: Option<u8>,
    marks: &[u8],
    own: &Own,
    divisor: i64,
    mut foresight: Foresight<'_>,
) -> Option<Numbers> {
    let mut numbers = Numbers::with_capacity(own.rows.len());
    if mark == Some(BLANK) {
        return Some(numbers);
    }
    let is_blank = |at: usize| mark.is_none() && marks[at] == BLANK;
    let all = own.rows.iter().enumerate().filter(|(at, _)| !is_blank(*at));
    // Most columns go by the item's last value, which needs no more than a table of these.
    if let Some((rows, last)) = foresight.by_last() {
        for (_, row) in all {
            let last = &mut last[rows.items[*row as usize] as usize];
            *last = last.wrapping_add(unzigzag(tokens.varint()?).wrapping_mul(divisor));
            numbers.rows.push(*row);
            numbers.values.push(*last);
        }
        return Some(numbers);
    }
    for (_, row) in all {
        let residual = unzigzag(tokens.varint()?).wrapping_mul(divisor);
        let value = foresight.predict(*row).wrapping_add(residual);
        foresight.learn(*row, value);
        numbers.rows.push(*row);
        numbers.values.push(value);
    }
    Some(numbers)
}

/// The numbers of some rows, all of one item: what is foretold depends on no other item.
fn choose_numbers(
    tokens: &mut Input<'_>,
    mark: Option<u8>,
    marks: &[u8],
    own: &Own,
    divisor: i64,
    mut foresight: Foresight<'_>,
) -> Option<Numbers> {
    let mut numbers = Numbers::default();
    if mark == Some(BLANK) {
        return Some(numbers);
    }
    // The value behind the last one whose token was passed.
    let mut next = 0;
    for (place, row) in own.places.iter().flatten().zip(&own.rows) {
        let place = *place as usize;
        let blank = marks.get(next..place).filter(|_| mark.is_none()).unwrap_or_default();
        let blank: usize = blank.iter().map(|mark| usize::from(*mark == BLANK)).sum();
        tokens.skip_varints(place - next - blank)?;
        next = place + 1;
        if mark.is_none() && marks[place] == BLANK {
            continue;
        }
        let residual = unzigzag(tokens.varint()?).wrapping_mul(divisor);
        let value = foresight.predict(*row).wrapping_add(residual);
        foresight.learn(*row, value);
        numbers.rows.push(*row);
        numbers.values.push(value);
    }
    Some(numbers)
}

/// Where each value of a column of bytes is.
fn read_pieces(tokens: &[u8], bytes: &[u8], own: &Own, rows: &Rows) -> Option<Vec<(u32, u32)>> {
    let mut tokens = Input::new(tokens);
    let mut last = vec![(0, 0); rows.item_count];
    let (mut at, mut place) = (0u32, 0);
    let mut pieces = Vec::with_capacity(own.rows.len());
    for (nth, row) in own.rows.iter().enumerate() {
        if let Some(places) = &own.places {
            while place < places[nth] {
                at = at.checked_add(u32::try_from(tokens.varint()?).ok()?.saturating_sub(1))?;
                place += 1;
            }
            place += 1;
        }
        let last = &mut last[rows.items[*row as usize] as usize];
        let token = u32::try_from(tokens.varint()?).ok()?;
        if let Some(len) = token.checked_sub(1) {
            let end = at.checked_add(len).filter(|end| *end as usize <= bytes.len())?;
            *last = (at, end);
            at = end;
        }
        pieces.push(*last);
    }
    (own.places.is_some() || tokens.is_empty() && at as usize == bytes.len()).then_some(pieces)
}
