//! Page records: rows as fields of a Market Price item.

use crate::EditError;
use crate::edit::FieldCache;

use super::{Cell, Page};

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
    pub const fn size(self) -> (u16, u16) {
        match self {
            Self::Rows64 => (14, 64),
            Self::Rows80 => (25, 80),
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
        let (rows, columns) = layout.size();
        let row = FieldCache::new(usize::from(columns));
        Self { layout, rows: vec![row; usize::from(rows)], page: Page::new(rows, columns) }
    }

    /// Takes in a field: text replaces its row, edits change a part of it. Gives whether the field is a row of this layout.
    ///
    /// # Errors
    /// [`EditError`]; the row is as before then.
    pub fn apply(&mut self, fid: i16, value: &[u8]) -> Result<bool, EditError> {
        let Some((layout, row)) = Layout::of(fid) else { return Ok(false) };
        if layout != self.layout {
            return Ok(false);
        }
        let cache = &mut self.rows[usize::from(row)];
        cache.apply(value)?;
        let text = cache.bytes().iter().copied().chain(std::iter::repeat(b' '));
        for (cell, byte) in self.page.row_mut(row).iter_mut().zip(text) {
            // Controls and deletes have no place on a page.
            let code = if byte & 0x7F < 0x20 || byte & 0x7F == 0x7F { b' ' } else { byte };
            *cell = Cell { code, ..Cell::BLANK };
        }
        Ok(true)
    }

    /// The page as it is shown.
    pub const fn page(&self) -> &Page {
        &self.page
    }
}
