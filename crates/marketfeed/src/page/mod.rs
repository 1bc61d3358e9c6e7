//! Pages: what traders looked at before there were fields, as a grid of cells.
//!
//! A [`Page`] takes in the bytes of ANSI pages (OMM container 134): text and control sequences that move a cursor and
//! overwrite. A [`RecordPage`] takes in the row fields of page records. Both are kept by caches, so that a late joiner gets a
//! page made from the grid ([`Page::image`]), and a slow client only what has changed ([`Page::changes`]). Format and
//! sources: `docs/wire/pages.md`.
//!
//! ```
//! use marketfeed::page::Page;
//!
//! let mut page = Page::new(25, 80);
//! page.apply(b"\x1bc\x1b[3;10HGBP 1.5520/30");
//! page.apply(b"\x1b[3;19H1");
//! assert_eq!(page.row_text(2), "         GBP 1.5521/30");
//!
//! let mut late = Page::new(25, 80);
//! late.apply(&page.image());
//! assert_eq!(late, page);
//! ```

mod apply;
mod glyph;
mod image;
mod record;

pub use record::{Layout, RecordPage};

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
}

/// A place, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    row: u16,
    column: u16,
}

/// A page: cells, and the state that the next update builds upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    rows: u16,
    columns: u16,
    /// Row by row.
    cells: Vec<Cell>,
    cursor: Place,
    /// The last column was written, and the next character wraps.
    is_past_end: bool,
    pen: Pen,
    wraps: bool,
    /// First and last row that scroll.
    region: (u16, u16),
    saved: Option<(Place, Pen)>,
}

impl Page {
    /// An empty page. Nothing on the wire says the size of a page: it is configured, 25 x 80 where nobody says otherwise.
    /// A side is 1 to [`SIDE_MAX`].
    pub fn new(rows: u16, columns: u16) -> Self {
        let (rows, columns) = (rows.clamp(1, SIDE_MAX), columns.clamp(1, SIDE_MAX));
        Self {
            rows,
            columns,
            cells: vec![Cell::BLANK; usize::from(rows) * usize::from(columns)],
            cursor: Place::default(),
            is_past_end: false,
            pen: Pen::PLAIN,
            wraps: false,
            region: Self::default_region(rows),
            saved: None,
        }
    }

    /// All rows but the last, which is a status line.
    const fn default_region(rows: u16) -> (u16, u16) {
        (0, rows.saturating_sub(2))
    }

    /// Back to an empty page (RIS).
    pub fn clear(&mut self) {
        self.cells.fill(Cell::BLANK);
        self.cursor = Place::default();
        self.is_past_end = false;
        self.pen = Pen::PLAIN;
        self.wraps = false;
        self.region = Self::default_region(self.rows);
        self.saved = None;
    }

    /// Takes in a refresh: the page is cleared first, whether or not the bytes say so.
    pub fn refresh(&mut self, bytes: &[u8]) {
        self.clear();
        self.apply(bytes);
    }

    /// Number of rows.
    pub const fn rows(&self) -> u16 {
        self.rows
    }

    /// Number of columns.
    pub const fn columns(&self) -> u16 {
        self.columns
    }

    /// The cells of a row, from 0; empty beyond the last row.
    pub fn row(&self, row: u16) -> &[Cell] {
        let start = usize::from(row) * usize::from(self.columns);
        self.cells.get(start..start + usize::from(self.columns)).unwrap_or_default()
    }

    fn row_mut(&mut self, row: u16) -> &mut [Cell] {
        let start = usize::from(row) * usize::from(self.columns);
        self.cells.get_mut(start..start + usize::from(self.columns)).unwrap_or_default()
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
        let mut texts: Vec<String> = (0..self.rows).map(|row| self.row_text(row)).collect();
        while texts.last().is_some_and(String::is_empty) {
            texts.pop();
        }
        texts
    }
}
