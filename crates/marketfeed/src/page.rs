//! Page records: rows as fields of a Market Price item. The grid is that of ANSI pages ([`rwf::page`]).

use rwf::page::{Page, PageSize};

use crate::EditError;
use crate::edit::FieldCache;

/// Which fields are rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `ROW64_1` to `ROW64_14`, fields 215 to 228.
    Rows64,
    /// `ROW80_1` to `ROW80_25`, fields 315 to 339.
    Rows80,
}

impl Layout {
    /// The layout to which a field belongs, and its row from 0.
    pub const fn of(fid: i16) -> Option<(Self, u16)> {
        match fid {
            215..=228 => Some((Self::Rows64, fid as u16 - 215)),
            315..=339 => Some((Self::Rows80, fid as u16 - 315)),
            _ => None,
        }
    }

    /// Rows and columns.
    pub const fn size(self) -> PageSize {
        match self {
            Self::Rows64 => PageSize::new(14, 64),
            Self::Rows80 => PageSize::new(25, 80),
        }
    }
}

/// A page that comes in the fields of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPage {
    layout: Layout,
    rows: Vec<FieldCache>,
    page: Page,
}

impl RecordPage {
    /// An empty page of a layout.
    pub fn new(layout: Layout) -> Self {
        let size = layout.size();
        let row = FieldCache::new(usize::from(size.columns()));
        Self { layout, rows: vec![row; usize::from(size.rows())], page: Page::new(size) }
    }

    /// Takes in a field: text replaces its row, edits change a part of it. Gives whether the field is a row of this layout.
    ///
    /// # Errors
    /// [`EditError`], which says what the row is then.
    pub fn apply(&mut self, fid: i16, value: &[u8]) -> Result<bool, EditError> {
        let Some((layout, row)) = Layout::of(fid) else { return Ok(false) };
        if layout != self.layout {
            return Ok(false);
        }
        let cache = &mut self.rows[usize::from(row)];
        let applied = cache.apply(value);
        self.page.set_row(row, cache.bytes());
        applied.map(|_| true)
    }

    /// The page as it is shown.
    pub const fn page(&self) -> &Page {
        &self.page
    }
}
