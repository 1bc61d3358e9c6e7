//! Pages beside an emulator that was written from `docs/wire/pages.md` alone: byte by byte, nothing shared with the crate but the cell.

use proptest::prelude::*;
use rwf::page::{Cell, Page, PageSize};

/// How characters are written: a blank cell with the attributes of now, the two sets, and which is in use.
#[derive(Clone, Copy)]
struct Pen {
    like: Cell,
    sets: [u8; 2],
    shifted: usize,
}

const PLAIN: Pen = Pen { like: Cell::BLANK, sets: [b'B'; 2], shifted: 0 };

struct Emulator {
    cells: Vec<Vec<Cell>>,
    /// Row and column from 0.
    at: (usize, usize),
    /// The last column is written, and the next character wraps.
    pending: bool,
    wraps: bool,
    pen: Pen,
    /// First and last row of the region.
    region: (usize, usize),
    saved: Option<((usize, usize), Pen)>,
}

impl Emulator {
    fn new(rows: usize, columns: usize) -> Self {
        let region = (0, rows.saturating_sub(2));
        let cells = vec![vec![Cell::BLANK; columns]; rows];
        Self { cells, at: (0, 0), pending: false, wraps: false, pen: PLAIN, region, saved: None }
    }

    fn rows(&self) -> usize {
        self.cells.len()
    }

    fn columns(&self) -> usize {
        self.cells[0].len()
    }

    fn apply(&mut self, bytes: &[u8]) {
        let mut left = bytes.iter().copied().peekable();
        while let Some(byte) = left.next() {
            match byte & 0x7F {
                0x20..=0x7E => self.print(byte),
                0x1B => loop {
                    let Some(code) = left.next() else { return };
                    match code & 0x7F {
                        0x1B => continue,
                        b'[' => {
                            let mut body = Vec::new();
                            loop {
                                let Some(byte) = left.next() else { return };
                                let code = byte & 0x7F;
                                let is_mark = (0x3C..=0x3F).contains(&code) && body.is_empty();
                                body.push(code);
                                if !(code.is_ascii_digit() || code == b';' || is_mark || (0x20..=0x2F).contains(&code))
                                {
                                    break;
                                }
                            }
                            self.sequence(&body);
                        }
                        set @ (b'(' | b')') => {
                            let Some(name) = left.next() else { return };
                            if (0x30..=0x7E).contains(&name) {
                                self.pen.sets[usize::from(set == b')')] = name;
                            }
                        }
                        b'#' => {
                            if left.next().is_none() {
                                return;
                            }
                        }
                        code => self.escape(code),
                    }
                    break;
                },
                control => self.control(control),
            }
        }
    }

    fn print(&mut self, code: u8) {
        if std::mem::take(&mut self.pending) && self.at.0 + 1 < self.rows() {
            self.at.1 = 0;
            self.down();
        }
        let (row, column) = self.at;
        self.cells[row][column] = Cell { code, set: self.pen.sets[self.pen.shifted], ..self.pen.like };
        if column + 1 < self.columns() {
            self.at.1 += 1;
        } else {
            self.pending = self.wraps;
        }
    }

    fn go(&mut self, row: usize, column: usize) {
        self.at = (row, column);
        self.pending = false;
    }

    fn control(&mut self, code: u8) {
        let (row, column) = self.at;
        match code {
            0x08 => self.go(row, column.saturating_sub(1)),
            0x09 => self.go(row, (column - column % 8 + 8).min(self.columns() - 1)),
            0x0A => self.down(),
            0x0D => self.go(row, 0),
            0x0E => self.pen.shifted = 1,
            0x0F => self.pen.shifted = 0,
            _ => {}
        }
    }

    fn escape(&mut self, code: u8) {
        match code {
            b'7' => self.saved = Some((self.at, self.pen)),
            b'8' => {
                if let Some(((row, column), pen)) = self.saved {
                    self.go(row, column);
                    self.pen = pen;
                }
            }
            b'D' => self.down(),
            b'E' => {
                self.at.1 = 0;
                self.down();
            }
            b'M' => {
                self.pending = false;
                if self.at.0 == self.region.0 {
                    self.shift(self.region.0, 1, false);
                } else {
                    self.at.0 = self.at.0.saturating_sub(1);
                }
            }
            b'c' => *self = Self::new(self.rows(), self.columns()),
            _ => {}
        }
    }

    fn down(&mut self) {
        self.pending = false;
        if self.at.0 == self.region.1 {
            self.shift(self.region.0, 1, true);
        } else if self.at.0 + 1 < self.rows() {
            self.at.0 += 1;
        }
    }

    /// Moves the rows from `top` to the region's bottom by `number`, row by row.
    fn shift(&mut self, top: usize, number: usize, is_up: bool) {
        let (first, bottom) = self.region;
        if !(first..=bottom).contains(&top) {
            return;
        }
        for _ in 0..number.min(bottom - top + 1) {
            let blank = vec![Cell::BLANK; self.columns()];
            if is_up {
                self.cells.remove(top);
                self.cells.insert(bottom, blank);
            } else {
                self.cells.remove(bottom);
                self.cells.insert(top, blank);
            }
        }
    }

    fn sequence(&mut self, body: &[u8]) {
        let (last, body) = body.split_last().expect("a final byte");
        if body.iter().any(|byte| (0x20..=0x2F).contains(byte)) {
            return;
        }
        let (mark, body) = match body {
            [mark @ 0x3C..=0x3F, body @ ..] => (*mark, body),
            body => (0, body),
        };
        let numbers: Vec<Option<usize>> = body
            .split(|byte| *byte == b';')
            .map(|digits| {
                let number = |n: usize, digit: &u8| (n * 10 + usize::from(digit - b'0')).min(65_535);
                (!digits.is_empty()).then(|| digits.iter().fold(0, number))
            })
            .collect();
        let renditions: Vec<usize> = numbers.iter().take(19).map(|number| number.unwrap_or(0)).collect();
        match (mark, *last) {
            (0, b'm') => render(&renditions, &mut self.pen.like.style, &mut self.pen.like.colours),
            (b'>', b'm') => render(&renditions, &mut self.pen.like.fade_style, &mut self.pen.like.fade_colours),
            (b'?', b'h') if renditions.contains(&7) => self.wraps = true,
            (b'?', b'l') if renditions.contains(&7) => (self.wraps, self.pending) = (false, false),
            (0, b'H' | b'f') if numbers.len() <= 2 => {
                let at = |n: usize| numbers.get(n).copied().flatten().unwrap_or(1).max(1);
                if at(0) <= self.rows() && at(1) <= self.columns() {
                    self.go(at(0) - 1, at(1) - 1);
                }
            }
            (0, b'r') => {
                let number = |n: usize| numbers.get(n).copied().flatten().filter(|number| *number > 0);
                let (top, bottom) = (number(0).unwrap_or(1), number(1).unwrap_or(self.rows() - 1));
                if bottom > top && bottom <= self.rows() {
                    self.region = (top - 1, bottom - 1);
                    self.go(0, 0);
                }
            }
            (0, last) => self.with_number(last, numbers[0]),
            _ => {}
        }
    }

    fn with_number(&mut self, last: u8, number: Option<usize>) {
        let ((row, column), (top, bottom)) = (self.at, self.region);
        let is_inside = (top..=bottom).contains(&row);
        let (moves, edits, what) = (number.unwrap_or(1), number.unwrap_or(1).max(1), number.unwrap_or(0));
        match last {
            b'A' => self.go(row.saturating_sub(moves).max(if is_inside { top } else { 0 }), column),
            b'B' => self.go((row + moves).min(if is_inside { bottom } else { self.rows() - 1 }), column),
            b'C' => self.go(row, (column + moves).min(self.columns() - 1)),
            b'D' => self.go(row, column.saturating_sub(edits)),
            b'S' => self.shift(row, edits, true),
            b'T' => self.shift(row, edits, false),
            b'L' | b'M' if is_inside => {
                self.shift(row, edits.min(bottom - row), last == b'M');
                self.go(row, 0);
            }
            b'@' | b'P' => {
                for _ in 0..edits.min(self.columns() - column) {
                    let cells = &mut self.cells[row];
                    if last == b'P' {
                        cells.remove(column);
                        cells.push(Cell::BLANK);
                    } else {
                        cells.pop();
                        cells.insert(column, Cell::BLANK);
                    }
                }
            }
            b'J' | b'K' => {
                let is_page = last == b'J';
                for (at, cells) in self.cells.iter_mut().enumerate() {
                    for (place, cell) in cells.iter_mut().enumerate() {
                        let is_erased = match what {
                            0 => at == row && place >= column || is_page && at > row,
                            1 => at == row && place <= column || is_page && at < row,
                            2 => at == row || is_page,
                            _ => false,
                        };
                        if is_erased {
                            *cell = Cell::BLANK;
                        }
                    }
                }
            }
            b'p' => *self = Self::new(self.rows(), self.columns()),
            _ => {}
        }
    }
}

fn render(numbers: &[usize], style: &mut u8, colours: &mut u8) {
    for number in numbers {
        match *number {
            0 => (*style, *colours) = (0, 0xFF),
            1 => *style |= 16,
            2 => *style |= 4,
            4 => *style |= 8,
            5 => *style |= 1,
            7 => *style |= 2,
            22 => *style &= !0x14,
            24 => *style &= !0x08,
            25 => *style &= !0x01,
            27 => *style &= !0x02,
            30..=37 => *colours = *colours & 0xF0 | (*number - 30) as u8,
            40..=47 => *colours = *colours & 0x0F | ((*number - 40) as u8) << 4,
            _ => {}
        }
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::collection::vec(prop_oneof![8 => 0x20_u8..0x7F, 1 => 0xA0_u8..=0xFE], 1..30);
    let numbered = (
        prop::sample::select(b"HfABCDrSTLM@PJKmphl".to_vec()),
        prop::sample::select(vec!["", "", "", "?", ">", "<", " "]),
        prop::collection::vec(
            prop_oneof![3 => (0_u32..12).prop_map(|n| n.to_string()), 1 => Just(String::new()),
            1 => (0_u32..50).prop_map(|n| n.to_string()), 1 => Just("70000".to_owned())],
            0..4,
        ),
    )
        .prop_map(|(last, mark, numbers)| format!("\x1b[{mark}{}{}", numbers.join(";"), char::from(last)).into_bytes());
    let many =
        (prop::collection::vec(0_u32..50, 17..24), prop::sample::select(vec!["", ">"])).prop_map(|(all, mark)| {
            let all: Vec<String> = all.iter().map(u32::to_string).collect();
            format!("\x1b[{mark}{}m", all.join(";")).into_bytes()
        });
    let fixed = prop::sample::select(vec![
        &b"\x1b7"[..],
        b"\x1b8",
        b"\x1bD",
        b"\x1bE",
        b"\x1bM",
        b"\x1bc",
        b"\x1b(0",
        b"\x1b)A",
        b"\x1b#5",
        b"\x1b\x1b[2C",
        b"\x1b[?7h",
        b"\x1b[?7h",
        b"\x1b[?7l",
        b"\r",
        b"\n",
        b"\t",
        b"\x08",
        b"\x0e",
        b"\x0f",
        b"\0",
        b"\x7f",
        b"\x9b1C",
    ])
    .prop_map(<[u8]>::to_vec);
    prop_oneof![4 => text, 6 => numbered, 1 => many, 4 => fixed, 1 => prop::collection::vec(any::<u8>(), 0..6)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_those_of_the_emulator(
        rows in 2_u16..9,
        columns in 2_u16..24,
        updates in prop::collection::vec(prop::collection::vec(piece(), 1..8), 1..6),
    ) {
        let mut page = Page::new(PageSize::new(rows, columns));
        let mut emulator = Emulator::new(rows.into(), columns.into());
        for pieces in &updates {
            let bytes = pieces.concat();
            page.apply(&bytes);
            emulator.apply(&bytes);
            for (row, cells) in emulator.cells.iter().enumerate() {
                prop_assert_eq!(page.row(row as u16), &cells[..], "row {} after {:?}", row, bytes);
            }
            let (row, column) = emulator.at;
            prop_assert_eq!(page.cursor(), (row as u16 + 1, column as u16 + 1), "after {:?}", bytes);
        }
    }
}
