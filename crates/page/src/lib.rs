//! Pages: what traders looked at before there were fields, as a grid of cells.
//!
//! A [`Page`] takes in the bytes of ANSI pages (container 134): text and control sequences that move a cursor and overwrite. Held images
//! (`rwf::image`) are such grids, so that a late joiner gets a page made from the grid ([`Page::image`]); a slow client can be given
//! only what has changed ([`Page::changes`]). Page records, whose rows are fields, are built on this grid elsewhere
//! ([`Page::set_row`]). Format and sources: `docs/wire/pages.md`.
//!
//! ```
//! use page::{Page, PageSize};
//!
//! let mut page = Page::new(PageSize::default());
//! page.apply(b"\x1bc\x1b[3;10HGBP 1.5520/30");
//! page.apply(b"\x1b[3;19H1");
//! assert_eq!(page.row_text(2), "         GBP 1.5521/30");
//!
//! let mut late = Page::new(PageSize::default());
//! late.apply(&page.image());
//! assert_eq!(late, page);
//! ```
#![forbid(unsafe_code)]

mod apply;
mod glyph;
mod write;

use std::fmt;
use std::str::FromStr;

/// Style bits.
pub mod style {
    /// Blinking.
    pub const BLINK: u8 = 1;
    /// Foreground and background exchanged.
    pub const REVERSE: u8 = 2;
    /// Dim.
    pub const DIM: u8 = 4;
    /// Underlined.
    pub const UNDERLINE: u8 = 8;
    /// Bright.
    pub const BRIGHT: u8 = 16;
}

/// Colours of both halves: none, which a terminal shows in its own.
pub const NO_COLOURS: u8 = 0xFF;

/// Most rows and columns of a page; more are cut, since nothing needs them and a size can come from outside.
pub const SIDE_MAX: u16 = 255;

/// Rows and columns of a page, each 1 to [`SIDE_MAX`]. Nothing on the wire says them: they are configured, 25 x 80 where nobody says
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize {
    rows: u16,
    columns: u16,
}

impl PageSize {
    /// 25 rows of 80 columns.
    pub const DEFAULT: Self = Self { rows: 25, columns: 80 };

    /// So many rows and columns; what lies beyond the bounds is cut.
    pub const fn new(rows: u16, columns: u16) -> Self {
        const fn side(n: u16) -> u16 {
            if n == 0 {
                1
            } else if n > SIDE_MAX {
                SIDE_MAX
            } else {
                n
            }
        }
        Self { rows: side(rows), columns: side(columns) }
    }

    /// Number of rows.
    pub const fn rows(self) -> u16 {
        self.rows
    }

    /// Number of columns.
    pub const fn columns(self) -> u16 {
        self.columns
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

/// A text that is no [`PageSize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSizeError;

impl fmt::Display for PageSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows and columns, each 1 to {SIDE_MAX}, as 25x80")
    }
}

impl std::error::Error for PageSizeError {}

impl FromStr for PageSize {
    type Err = PageSizeError;

    /// Rows, `x`, columns: `25x80`.
    fn from_str(text: &str) -> Result<Self, PageSizeError> {
        let side = |text: &str| text.parse().ok().filter(|side| (1..=SIDE_MAX).contains(side));
        let (rows, columns) = text.split_once('x').ok_or(PageSizeError)?;
        let (rows, columns) = side(rows).zip(side(columns)).ok_or(PageSizeError)?;
        Ok(Self { rows, columns })
    }
}

/// One place of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The character: 0x20 to 0x7E, perhaps with the high bit, which is Latin-1.
    pub code: u8,
    /// The graphic set in which the character was written: `B` US ASCII, `A` UK ASCII, `0` line drawing, or one of others that
    /// have no public glyphs.
    pub set: u8,
    /// Style bits, see [`style`].
    pub style: u8,
    /// Style bits that are added for a while after the cell was written.
    pub fade_style: u8,
    /// Background in the high four bits, foreground in the low: 0 black, 1 red, 2 green, 3 yellow, 4 blue, 5 magenta,
    /// 6 cyan, 7 white, 15 none.
    pub colours: u8,
    /// Colours for a while after the cell was written; 15 leaves the half as it is.
    pub fade_colours: u8,
}

impl Cell {
    /// An empty place.
    pub const BLANK: Self =
        Self { code: b' ', set: b'B', style: 0, fade_style: 0, colours: NO_COLOURS, fade_colours: NO_COLOURS };

    /// The character to show: Latin-1, the line-drawing characters of set `0`, the pound of set `A`, else the plain one.
    pub fn glyph(self) -> char {
        glyph::of(self.code, self.set)
    }

    /// Foreground and background while the cell fades (or not); `None` is the terminal's own.
    pub const fn shown_colours(self, fades: bool) -> (Option<u8>, Option<u8>) {
        const fn half(normal: u8, fade: u8, fades: bool) -> Option<u8> {
            let colour = if fades && fade != 15 { fade } else { normal };
            if colour < 8 { Some(colour) } else { None }
        }
        let foreground = half(self.colours & 15, self.fade_colours & 15, fades);
        (foreground, half(self.colours >> 4, self.fade_colours >> 4, fades))
    }

    /// Style bits while the cell fades (or not).
    pub const fn shown_style(self, fades: bool) -> u8 {
        if fades { self.style | self.fade_style } else { self.style }
    }
}

/// How the next character is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pen {
    style: u8,
    fade_style: u8,
    colours: u8,
    fade_colours: u8,
    /// Graphic sets G0 and G1.
    sets: [u8; 2],
    /// Whether G1 is in use.
    is_shifted: bool,
}

impl Pen {
    const PLAIN: Self = Self {
        style: 0,
        fade_style: 0,
        colours: NO_COLOURS,
        fade_colours: NO_COLOURS,
        sets: [b'B'; 2],
        is_shifted: false,
    };

    fn cell(self, code: u8) -> Cell {
        let Self { style, fade_style, colours, fade_colours, sets, is_shifted } = self;
        Cell { code, set: sets[usize::from(is_shifted)], style, fade_style, colours, fade_colours }
    }

    /// Writes characters, as many as there are places.
    #[inline]
    fn write(self, places: &mut [Cell], codes: &[u8]) {
        let Cell { set, style, fade_style, colours, fade_colours, .. } = self.cell(0);
        // Taken from two numbers, what all cells have alike is stored by two instructions instead of one for each byte.
        let (head, colours) =
            (u32::from_le_bytes([0, set, style, fade_style]), u16::from_le_bytes([colours, fade_colours]));
        for (place, code) in places.iter_mut().zip(codes) {
            let [code, set, style, fade_style] = (head | u32::from(*code)).to_le_bytes();
            let [colours, fade_colours] = colours.to_le_bytes();
            *place = Cell { code, set, style, fade_style, colours, fade_colours };
        }
    }
}

/// A place, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    row: u16,
    column: u16,
}

/// A row that nothing was written to.
static BLANK_ROW: [Cell; SIDE_MAX as usize] = [Cell::BLANK; SIDE_MAX as usize];

/// A page: cells, and the state that the next update builds upon. Rows take memory (6 bytes a cell) from the first time that something is
/// written to them.
#[derive(Debug, Clone)]
pub struct Page {
    size: PageSize,
    /// Row by row: its cells, or none while it is blank.
    grid: Vec<Vec<Cell>>,
    cursor: Place,
    /// The last column was written, and the next character wraps.
    is_past_end: bool,
    pen: Pen,
    wraps: bool,
    /// First and last row that scroll.
    region: (u16, u16),
    saved: Option<(Place, Pen)>,
}

impl PartialEq for Page {
    /// The same cells, and the same state beside them.
    fn eq(&self, other: &Self) -> bool {
        let state = |page: &Self| (page.cursor, page.is_past_end, page.pen, page.wraps, page.region, page.saved);
        self.size == other.size
            && state(self) == state(other)
            && (0..self.size.rows).all(|row| self.row(row) == other.row(row))
    }
}

impl Eq for Page {}

impl Page {
    /// An empty page.
    pub fn new(size: PageSize) -> Self {
        Self {
            size,
            grid: vec![Vec::new(); usize::from(size.rows)],
            cursor: Place::default(),
            is_past_end: false,
            pen: Pen::PLAIN,
            wraps: false,
            region: Self::default_region(size),
            saved: None,
        }
    }

    /// All rows but the last, which is a status line.
    const fn default_region(size: PageSize) -> (u16, u16) {
        (0, size.rows.saturating_sub(2))
    }

    /// Back to an empty page (RIS).
    pub fn clear(&mut self) {
        self.grid.iter_mut().for_each(Vec::clear);
        self.cursor = Place::default();
        self.is_past_end = false;
        self.pen = Pen::PLAIN;
        self.wraps = false;
        self.region = Self::default_region(self.size);
        self.saved = None;
    }

    /// Takes in a refresh: the page is cleared first, whether or not the bytes say so.
    pub fn refresh(&mut self, bytes: &[u8]) {
        self.clear();
        self.apply(bytes);
    }

    /// Rows and columns.
    pub const fn size(&self) -> PageSize {
        self.size
    }

    /// Number of rows.
    pub const fn rows(&self) -> u16 {
        self.size.rows
    }

    /// Number of columns.
    pub const fn columns(&self) -> u16 {
        self.size.columns
    }

    /// The cells of a row, from 0; empty beyond the last row.
    pub fn row(&self, row: u16) -> &[Cell] {
        match self.grid.get(usize::from(row)).map(Vec::as_slice) {
            Some([]) => &BLANK_ROW[..usize::from(self.size.columns)],
            Some(cells) => cells,
            None => &[],
        }
    }

    /// The cells of a row that is to be written to.
    fn row_mut(&mut self, row: u16) -> &mut [Cell] {
        let Some(cells) = self.grid.get_mut(usize::from(row)) else { return &mut [] };
        if cells.is_empty() {
            cells.resize(usize::from(self.size.columns), Cell::BLANK);
        }
        cells
    }

    /// Writes a plain text over a whole row, from 0, as the rows of page records are: what is beyond the last column is left out, the
    /// rest of the row is blank. Controls have no place on a page and are blanks.
    pub fn set_row(&mut self, row: u16, text: &[u8]) {
        let text = text.iter().copied().chain(std::iter::repeat(b' '));
        for (cell, byte) in self.row_mut(row).iter_mut().zip(text) {
            let code = if byte & 0x7F < 0x20 || byte & 0x7F == 0x7F { b' ' } else { byte };
            *cell = Cell { code, ..Cell::BLANK };
        }
    }

    /// Row and column of the cursor, from 1.
    pub const fn cursor(&self) -> (u16, u16) {
        (self.cursor.row + 1, self.cursor.column + 1)
    }

    /// The text of a row, from 0, as it is shown; without blanks at its end.
    pub fn row_text(&self, row: u16) -> String {
        let text: String = self.row(row).iter().map(|cell| cell.glyph()).collect();
        text.trim_end_matches(' ').to_owned()
    }

    /// The texts of all rows, without empty ones at the end of the page.
    pub fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = (0..self.size.rows).map(|row| self.row_text(row)).collect();
        while texts.last().is_some_and(String::is_empty) {
            texts.pop();
        }
        texts
    }
}
