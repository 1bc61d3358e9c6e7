//! Taking in the bytes of an ANSI page.

use super::{Cell, NO_COLOURS, Page, Pen, Place, style};

const ESC: u8 = 0x1B;

/// Parameters beyond these are ignored.
const PARAMETERS_MAX: usize = 19;

/// A control sequence: what follows `ESC [`.
struct Sequence {
    /// `?`, `>` or another mark of private use, 0 without one.
    mark: u8,
    parameters: [u16; PARAMETERS_MAX],
    count: usize,
    last: u8,
}

impl Sequence {
    const NEW: Self = Self { mark: 0, parameters: [0; PARAMETERS_MAX], count: 1, last: 0 };

    /// Reads a sequence into a new one, and gives what is left after it; `None` when it is cut off. In place, since to move a sequence right
    /// after it was written takes longer than to read it.
    fn read<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (mut number, mut has_blank) = (0, false);
        for (at, byte) in bytes.iter().enumerate() {
            match byte & 0x7F {
                digit @ b'0'..=b'9' => number = (number * 10 + u32::from(digit - b'0')).min(u32::from(u16::MAX)),
                // Parameters are counted to one more than is kept, so that too many show.
                b';' => {
                    self.put(number);
                    number = 0;
                    self.count = (self.count + 1).min(PARAMETERS_MAX + 1);
                }
                mark @ 0x3C..=0x3F if at == 0 => self.mark = mark,
                // Intermediate bytes belong to sequences that mean nothing here.
                0x20..=0x2F => has_blank = true,
                last => {
                    self.put(number);
                    self.last = if has_blank { 0 } else { last };
                    return Some(&bytes[at + 1..]);
                }
            }
        }
        None
    }

    #[inline]
    fn put(&mut self, number: u32) {
        if let Some(parameter) = self.parameters.get_mut(self.count - 1) {
            *parameter = number as u16;
        }
    }

    fn parameters(&self) -> &[u16] {
        &self.parameters[..self.count.min(PARAMETERS_MAX)]
    }

    /// The first parameter; without one `default`.
    fn first_or(&self, default: u16, has_digits: bool) -> u16 {
        if has_digits { self.parameters[0] } else { default }
    }
}

impl Page {
    /// Takes in the bytes of an update. Nothing is kept between two updates but the page: a sequence that is cut off at the
    /// end is lost.
    pub fn apply(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let [byte, after @ ..] = rest {
            match byte & 0x7F {
                0x20..=0x7E => {
                    let (text, behind) = rest.split_at(text_len(rest));
                    self.print(text);
                    rest = behind;
                    continue;
                }
                ESC => match self.escape(after) {
                    Some(behind) => {
                        rest = behind;
                        continue;
                    }
                    None => return,
                },
                control => self.control(control),
            }
            rest = after;
        }
    }

    /// Writes characters.
    #[inline]
    fn print(&mut self, codes: &[u8]) {
        let (Place { row, column }, pen, is_past_end) = (self.cursor, self.pen, self.is_past_end);
        let places = self.row_mut(row).get_mut(usize::from(column)..).unwrap_or_default();
        // The characters end before the last column, as nearly all do.
        if !is_past_end && codes.len() < places.len() {
            pen.write(&mut places[..codes.len()], codes);
            self.cursor.column += codes.len() as u16;
            return;
        }
        self.print_to_the_end(codes);
    }

    #[inline(never)]
    fn print_to_the_end(&mut self, mut codes: &[u8]) {
        while !codes.is_empty() {
            if self.is_past_end {
                self.is_past_end = false;
                // In the last row there is nowhere to go: the last place is written again.
                if self.cursor.row + 1 < self.size.rows {
                    self.cursor.column = 0;
                    self.down();
                }
            }
            let (Place { row, column }, pen, wraps) = (self.cursor, self.pen, self.wraps);
            let places = self.row_mut(row).get_mut(usize::from(column)..).unwrap_or_default();
            let (fit, rest) = codes.split_at(codes.len().min(places.len()));
            debug_assert!(!fit.is_empty(), "the cursor is on the page");
            pen.write(places, fit);
            codes = rest;
            if fit.len() < places.len() {
                self.cursor.column += fit.len() as u16;
                return;
            }
            if !wraps && let (Some(place), Some(&last)) = (places.last_mut(), rest.last()) {
                // The last place takes all the rest, one over the other.
                *place = pen.cell(last);
                codes = &[];
            }
            self.cursor.column = self.size.columns - 1;
            self.is_past_end = wraps;
        }
    }

    fn control(&mut self, control: u8) {
        match control {
            0x08 => self.cursor.column = self.cursor.column.saturating_sub(1),
            0x09 => self.cursor.column = ((self.cursor.column / 8 + 1) * 8).min(self.size.columns - 1),
            0x0A => self.down(),
            0x0D => self.cursor.column = 0,
            0x0E => self.pen.is_shifted = true,
            0x0F => self.pen.is_shifted = false,
            _ => {}
        }
        if matches!(control, 0x08..=0x0A | 0x0D) {
            self.is_past_end = false;
        }
    }

    /// What follows ESC; gives what is left, `None` when the sequence is cut off.
    fn escape<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (first, rest) = bytes.split_first()?;
        match first & 0x7F {
            b'[' => {
                let mut sequence = Sequence::NEW;
                let after = sequence.read(rest)?;
                let has_digits = rest.first().is_some_and(u8::is_ascii_digit)
                    || sequence.mark != 0 && rest.get(1).is_some_and(u8::is_ascii_digit);
                self.sequence(&sequence, has_digits);
                return Some(after);
            }
            set @ (b'(' | b')') => {
                let (name, after) = rest.split_first()?;
                if (0x30..=0x7E).contains(name) {
                    self.pen.sets[usize::from(set == b')')] = *name;
                }
                return Some(after);
            }
            // Double sizes are not shown, and neither is their digit.
            b'#' => return rest.split_first().map(|(_, after)| after),
            // The second ESC begins anew.
            ESC => return Some(bytes),
            b'7' => self.saved = Some((self.cursor, self.pen)),
            b'8' => {
                if let Some((place, pen)) = self.saved {
                    self.move_to(place);
                    self.pen = pen;
                }
            }
            b'D' => self.down(),
            b'E' => {
                self.cursor.column = 0;
                self.down();
            }
            b'M' => self.up(),
            b'c' => self.clear(),
            _ => {}
        }
        Some(rest)
    }

    fn sequence(&mut self, sequence: &Sequence, has_digits: bool) {
        let number = sequence.first_or(1, has_digits);
        // Up, down and right take 0 as it is; to all others 0 is 1, too (so the libraries do).
        let at_least_one = number.max(1);
        match (sequence.mark, sequence.last) {
            (0, b'H' | b'f') => self.position(sequence),
            (0, b'A') => self.move_up(number),
            (0, b'B') => self.move_down(number),
            (0, b'C') => {
                let column = self.cursor.column.saturating_add(number).min(self.size.columns - 1);
                self.move_to(Place { column, ..self.cursor });
            }
            (0, b'D') => {
                let column = self.cursor.column.saturating_sub(at_least_one);
                self.move_to(Place { column, ..self.cursor });
            }
            (0, b'r') => self.set_region(sequence),
            (0, b'S') => self.scroll(self.cursor.row, at_least_one, true),
            (0, b'T') => self.scroll(self.cursor.row, at_least_one, false),
            (0, b'L') => self.edit_rows(at_least_one, false),
            (0, b'M') => self.edit_rows(at_least_one, true),
            (0, b'@') => self.edit_row(at_least_one, false),
            (0, b'P') => self.edit_row(at_least_one, true),
            (0, b'J') => self.erase_page(sequence.first_or(0, has_digits)),
            (0, b'K') => self.erase_row(sequence.first_or(0, has_digits)),
            (0, b'm') => {
                let Pen { style, colours, .. } = &mut self.pen;
                render(sequence.parameters(), style, colours);
            }
            (b'>', b'm') => {
                let Pen { fade_style, fade_colours, .. } = &mut self.pen;
                render(sequence.parameters(), fade_style, fade_colours);
            }
            (0, b'p') => self.clear(),
            (b'?', wrap @ (b'h' | b'l')) if sequence.parameters().contains(&7) => {
                self.wraps = wrap == b'h';
                self.is_past_end &= self.wraps;
            }
            _ => {}
        }
    }

    fn move_to(&mut self, place: Place) {
        self.cursor = place;
        self.is_past_end = false;
    }

    fn position(&mut self, sequence: &Sequence) {
        let [row, column, ..] = sequence.parameters;
        let (row, column) = (row.max(1), column.max(1));
        if sequence.count <= 2 && row <= self.size.rows && column <= self.size.columns {
            self.move_to(Place { row: row - 1, column: column - 1 });
        }
    }

    fn is_in_region(&self) -> bool {
        (self.region.0..=self.region.1).contains(&self.cursor.row)
    }

    fn move_up(&mut self, number: u16) {
        let edge = if self.is_in_region() { self.region.0 } else { 0 };
        let row = self.cursor.row.saturating_sub(number).max(edge);
        self.move_to(Place { row, ..self.cursor });
    }

    fn move_down(&mut self, number: u16) {
        let edge = if self.is_in_region() { self.region.1 } else { self.size.rows - 1 };
        let row = self.cursor.row.saturating_add(number).min(edge);
        self.move_to(Place { row, ..self.cursor });
    }

    /// One row down; the region scrolls at its bottom.
    fn down(&mut self) {
        self.is_past_end = false;
        if self.cursor.row == self.region.1 {
            self.scroll(self.region.0, 1, true);
        } else if self.cursor.row + 1 < self.size.rows {
            self.cursor.row += 1;
        }
    }

    /// One row up; the region scrolls at its top.
    fn up(&mut self) {
        self.is_past_end = false;
        if self.cursor.row == self.region.0 {
            self.scroll(self.region.0, 1, false);
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    fn set_region(&mut self, sequence: &Sequence) {
        let [top, bottom, ..] = sequence.parameters;
        let top = top.max(1);
        let bottom = if bottom == 0 { self.size.rows.saturating_sub(1) } else { bottom };
        if bottom > top && bottom <= self.size.rows {
            self.region = (top - 1, bottom - 1);
            self.move_to(Place::default());
        }
    }

    /// Moves the rows from `top` to the region's bottom.
    fn scroll(&mut self, top: u16, number: u16, is_up: bool) {
        let bottom = self.region.1;
        if top < self.region.0 || top > bottom {
            return;
        }
        let number = usize::from(number.min(bottom - top + 1));
        let Some(rows) = self.grid.get_mut(usize::from(top)..=usize::from(bottom)) else { return };
        if is_up {
            rows.rotate_left(number);
        } else {
            rows.rotate_right(number);
        }
        let vacant = if is_up { rows.len() - number..rows.len() } else { 0..number };
        rows[vacant].iter_mut().for_each(Vec::clear);
    }

    /// Inserts or deletes rows at the cursor: at most as many as there are below it in the region.
    fn edit_rows(&mut self, number: u16, deletes: bool) {
        if self.is_in_region() {
            let number = number.min(self.region.1 - self.cursor.row);
            self.scroll(self.cursor.row, number, deletes);
            self.move_to(Place { column: 0, ..self.cursor });
        }
    }

    /// Inserts or deletes characters at the cursor.
    fn edit_row(&mut self, number: u16, deletes: bool) {
        let Place { row, column } = self.cursor;
        let cells = &mut self.row_mut(row)[usize::from(column)..];
        let (len, number) = (cells.len(), usize::from(number).min(cells.len()));
        if deletes {
            cells.copy_within(number.., 0);
            cells[len - number..].fill(Cell::BLANK);
        } else {
            cells.copy_within(..len - number, number);
            cells[..number].fill(Cell::BLANK);
        }
    }

    fn erase_page(&mut self, what: u16) {
        let row = usize::from(self.cursor.row);
        let whole = match what {
            0 => row + 1..self.grid.len(),
            1 => 0..row,
            2 => 0..self.grid.len(),
            _ => return,
        };
        self.grid[whole].iter_mut().for_each(Vec::clear);
        self.erase_row(what);
    }

    fn erase_row(&mut self, what: u16) {
        let Place { row, column } = self.cursor;
        let Some(cells) = self.grid.get_mut(usize::from(row)).filter(|cells| !cells.is_empty()) else { return };
        match what {
            0 => cells[usize::from(column)..].fill(Cell::BLANK),
            1 => cells[..=usize::from(column)].fill(Cell::BLANK),
            2 => cells.clear(),
            _ => {}
        }
    }
}

/// How many characters there are before anything else.
#[inline]
fn text_len(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let mut len = 0;
    let (words, rest) = bytes.as_chunks();
    for word in words {
        let codes = u64::from_le_bytes(*word) & (ONES * 0x7F);
        // The highest bit of a byte: it is at least 0x20, and no 0x7F.
        let text = (codes + ONES * 0x60) & !(codes + ONES) & (ONES * 0x80);
        if text != ONES * 0x80 {
            return len + ((text ^ (ONES * 0x80)).trailing_zeros() / 8) as usize;
        }
        len += word.len();
    }
    let is_text = |byte: &u8| matches!(byte & 0x7F, 0x20..=0x7E);
    len + rest.iter().position(|byte| !is_text(byte)).unwrap_or(rest.len())
}

/// Applies the numbers of SGR (or SFR) to attributes.
fn render(parameters: &[u16], bits: &mut u8, colours: &mut u8) {
    for parameter in parameters {
        match parameter {
            0 => (*bits, *colours) = (0, NO_COLOURS),
            1 => *bits |= style::BRIGHT,
            2 => *bits |= style::DIM,
            4 => *bits |= style::UNDERLINE,
            5 => *bits |= style::BLINK,
            7 => *bits |= style::REVERSE,
            22 => *bits &= !(style::BRIGHT | style::DIM),
            24 => *bits &= !style::UNDERLINE,
            25 => *bits &= !style::BLINK,
            27 => *bits &= !style::REVERSE,
            30..=37 => *colours = *colours & 0xF0 | (parameter - 30) as u8,
            40..=47 => *colours = *colours & 0x0F | ((parameter - 40) as u8) << 4,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_ends_where_the_first_other_byte_is(
            bytes in proptest::collection::vec(prop_oneof![9 => 0x20_u8..0x7F, 2 => 0xA0_u8..0xFF, 1 => any::<u8>()], 0..40),
        ) {
            let is_text = |byte: &&u8| matches!(**byte & 0x7F, 0x20..=0x7E);
            prop_assert_eq!(text_len(&bytes), bytes.iter().take_while(is_text).count());
        }
    }
}
