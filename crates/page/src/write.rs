//! A page as bytes again: whole for a late joiner, what has changed for a slow client.

use std::io::Write;

use super::{Cell, Page, Pen, Place, style};

impl Page {
    /// Bytes that make this page, state and all, on any page of the same size: for who comes late. They begin with RIS.
    pub fn image(&self) -> Vec<u8> {
        let mut out = b"\x1bc".to_vec();
        let fresh = Self::new(self.size);
        self.write_changes(&fresh, &mut out);
        out
    }

    /// Bytes that make this page of `shown`, an earlier state of the page: for who could not be sent every update. Empty
    /// when there is nothing to change.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn changes(&self, shown: &Self) -> Vec<u8> {
        assert_eq!(self.size, shown.size, "both are states of one page");
        let mut out = Vec::new();
        if self != shown {
            self.write_changes(shown, &mut out);
        }
        out
    }

    fn write_changes(&self, shown: &Self, out: &mut Vec<u8>) {
        // How the receiver stands while cells are written: no wrapping, G0 in use.
        let mut pen = Pen { is_shifted: false, ..shown.pen };
        if shown.pen.is_shifted {
            out.push(0x0F);
        }
        if shown.wraps {
            out.extend_from_slice(b"\x1b[?7l");
        }
        for row in 0..self.size.rows {
            let mut next = None;
            for (column, (cell, old)) in self.row(row).iter().zip(shown.row(row)).enumerate() {
                if cell == old {
                    continue;
                }
                let column = column as u16;
                if next != Some(column) {
                    write_position(out, Place { row, column });
                }
                write_cell(out, &mut pen, *cell);
                next = Some(column + 1);
            }
        }
        self.write_state(shown, pen, out);
    }

    /// The state beside the cells: later updates may build on it.
    fn write_state(&self, shown: &Self, mut pen: Pen, out: &mut Vec<u8>) {
        if self.region != shown.region {
            let _ = write!(out, "\x1b[{};{}r", self.region.0 + 1, self.region.1 + 1);
        }
        if let Some((place, saved)) = self.saved
            && self.saved != shown.saved
        {
            write_position(out, place);
            write_pen(out, &mut pen, saved);
            out.extend_from_slice(b"\x1b7");
        }
        write_position(out, self.cursor);
        if self.wraps {
            out.extend_from_slice(b"\x1b[?7h");
        }
        if self.is_past_end {
            // Only writing the last place once more leaves the cursor behind it.
            let last = self.row(self.cursor.row).last().copied().unwrap_or(Cell::BLANK);
            if pen.is_shifted {
                out.push(0x0F);
                pen.is_shifted = false;
            }
            write_cell(out, &mut pen, last);
        }
        write_pen(out, &mut pen, self.pen);
    }
}

fn write_position(out: &mut Vec<u8>, place: Place) {
    let _ = write!(out, "\x1b[{};{}H", place.row + 1, place.column + 1);
}

/// Writes a character with its attributes, G0 being in use.
fn write_cell(out: &mut Vec<u8>, pen: &mut Pen, cell: Cell) {
    let Cell { code, set, style, fade_style, colours, fade_colours } = cell;
    let target = Pen { style, fade_style, colours, fade_colours, sets: [set, pen.sets[1]], is_shifted: false };
    write_pen(out, pen, target);
    out.push(code);
}

/// Writes what turns one pen into another.
fn write_pen(out: &mut Vec<u8>, pen: &mut Pen, target: Pen) {
    if (pen.style, pen.colours) != (target.style, target.colours) {
        write_rendition(out, b"\x1b[", target.style, target.colours);
    }
    if (pen.fade_style, pen.fade_colours) != (target.fade_style, target.fade_colours) {
        write_rendition(out, b"\x1b[>", target.fade_style, target.fade_colours);
    }
    for (intermediate, (old, new)) in [b'(', b')'].into_iter().zip(pen.sets.into_iter().zip(target.sets)) {
        if old != new {
            out.extend_from_slice(&[0x1B, intermediate, new]);
        }
    }
    if pen.is_shifted != target.is_shifted {
        out.push(if target.is_shifted { 0x0E } else { 0x0F });
    }
    *pen = target;
}

fn write_rendition(out: &mut Vec<u8>, introducer: &[u8], bits: u8, colours: u8) {
    out.extend_from_slice(introducer);
    out.push(b'0');
    let styles =
        [(style::BRIGHT, "1"), (style::DIM, "2"), (style::UNDERLINE, "4"), (style::BLINK, "5"), (style::REVERSE, "7")];
    for (_, number) in styles.into_iter().filter(|(bit, _)| bits & bit != 0) {
        let _ = write!(out, ";{number}");
    }
    for (base, colour) in [(30, colours & 15), (40, colours >> 4)] {
        if colour < 8 {
            let _ = write!(out, ";{}", base + colour);
        }
    }
    out.push(b'm');
}
