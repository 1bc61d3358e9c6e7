//! Finds an order by its number: an open-addressed table of eight bytes a cell.
//!
//! A cell is 32 bits of the number's hash and the 32 bits of the order's place in its slab. The hash bits say where the cell is at home in
//! a table of any size, so that growing and removing need no look at the orders; only a cell whose hash bits agree is compared by the order's
//! number itself. Numbers that follow each other share a cache line: orders that came together are asked for together.

/// A cell without an order.
const EMPTY: u64 = u64::MAX;

/// As many low bits of a number stay as they are, so that eight neighbours have one line of 64 bytes.
const NEIGHBOURS: u32 = 3;

/// Cells of a line.
const LINE: usize = 1 << NEIGHBOURS;

/// Hash bits that choose the line.
const LINE_BITS: u32 = 32 - NEIGHBOURS;

const FEWEST_LINES: usize = 8;

/// A cell that was found vacant, and the hash bits that belong in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacant {
    at: usize,
    tag: u32,
}

#[derive(Debug)]
pub(crate) struct OrderIndex {
    cells: Vec<u64>,
    len: usize,
}

impl OrderIndex {
    /// A table that takes `orders` without growing.
    pub(crate) fn with_capacity(orders: usize) -> Self {
        let lines = (orders / LIMIT_OF_16 * 2 + 1).max(FEWEST_LINES);
        Self { cells: vec![EMPTY; lines.min(1 << LINE_BITS) * LINE], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<u64>()
    }

    /// The place of the order with this number; `is_it` compares the number of the order at a place.
    #[inline]
    pub(crate) fn find(&self, reference: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(tag_of(reference), is_it).ok().map(|(_, slot)| slot)
    }

    /// Number of the cell where an order with this number is looked for first.
    #[inline]
    pub(crate) fn home_of(&self, reference: u64) -> u32 {
        home(tag_of(reference), self.cells.len()) as u32
    }

    /// What stands in a cell.
    #[inline]
    pub(crate) fn cell(&self, at: u32) -> u64 {
        self.cells.get(at as usize).copied().unwrap_or(EMPTY)
    }

    /// The place of the order that probably has this number: the order itself is not asked.
    #[inline]
    pub(crate) fn guess(&self, reference: u64) -> Option<u32> {
        self.probe(tag_of(reference), |_| true).ok().map(|(_, slot)| slot)
    }

    /// Where an order with this number would be entered; `None`: there is one. Makes room first.
    #[inline]
    pub(crate) fn vacant(&mut self, reference: u64, is_it: impl Fn(u32) -> bool) -> Option<Vacant> {
        if self.len >= self.cells.len() / 16 * LIMIT_OF_16 {
            self.grow();
        }
        let tag = tag_of(reference);
        self.probe(tag, is_it).err().map(|at| Vacant { at, tag })
    }

    /// Enters an order; nothing may have been entered or removed since `vacant` was found.
    #[inline]
    pub(crate) fn enter(&mut self, vacant: Vacant, slot: u32) {
        debug_assert_eq!(self.cells[vacant.at], EMPTY);
        self.cells[vacant.at] = u64::from(vacant.tag) << 32 | u64::from(slot);
        self.len += 1;
    }

    /// Removes the order with this number and gives its place.
    #[inline]
    pub(crate) fn remove(&mut self, reference: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let (mut hole, slot) = self.probe(tag_of(reference), is_it).ok()?;
        let cells = self.cells.len();
        let mut next = hole;
        loop {
            next = after(next, cells);
            let cell = self.cells[next];
            if cell == EMPTY {
                break;
            }
            // A cell may move back into the hole unless that lies before its home.
            let home = home((cell >> 32) as u32, cells);
            if distance(home, next, cells) >= distance(hole, next, cells) {
                self.cells[hole] = cell;
                hole = next;
            }
        }
        self.cells[hole] = EMPTY;
        self.len -= 1;
        Some(slot)
    }

    /// Forgets all orders; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.cells.fill(EMPTY);
        self.len = 0;
    }

    /// The cell and place of the order, or the vacant cell where the search ended. There is one: the table is never full.
    #[inline]
    fn probe(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Result<(usize, u32), usize> {
        let cells = &self.cells[..];
        let mut at = home(tag, cells.len());
        loop {
            let cell = cells[at];
            if cell == EMPTY {
                return Err(at);
            }
            if (cell >> 32) as u32 == tag && is_it(cell as u32) {
                return Ok((at, cell as u32));
            }
            at = after(at, cells.len());
        }
    }

    /// By a quarter, not by two: at its emptiest the table has 13 bytes an order, not 21.
    #[cold]
    fn grow(&mut self) {
        let lines = self.cells.len() / LINE;
        let mut cells = vec![EMPTY; (lines + lines / 4 + 1).min(1 << LINE_BITS) * LINE];
        for cell in self.cells.iter().copied().filter(|cell| *cell != EMPTY) {
            let mut at = home((cell >> 32) as u32, cells.len());
            while cells[at] != EMPTY {
                at = after(at, cells.len());
            }
            cells[at] = cell;
        }
        self.cells = cells;
    }
}

/// Of 16 cells so many may be taken.
const LIMIT_OF_16: usize = 12;

#[inline]
fn after(at: usize, cells: usize) -> usize {
    let next = at + 1;
    if next == cells { 0 } else { next }
}

/// Steps from one cell forward to another.
#[inline]
fn distance(from: usize, to: usize, cells: usize) -> usize {
    if to >= from { to - from } else { to + cells - from }
}

/// 32 hash bits of a number: its low bits as they are, and above them those of the rest, multiplied.
#[inline]
fn tag_of(reference: u64) -> u32 {
    let mixed = (reference >> NEIGHBOURS).wrapping_add(0x5851_F42D_4C95_7F2D).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let low = (1u32 << NEIGHBOURS) - 1;
    (mixed >> 32) as u32 & !low | reference as u32 & low
}

/// The home of a cell in a table of so many cells: the hash bits as a fraction of the lines.
#[inline]
fn home(tag: u32, cells: usize) -> usize {
    let line = (u64::from(tag >> NEIGHBOURS) * (cells / LINE) as u64) >> LINE_BITS;
    line as usize * LINE + (tag as usize & (LINE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn finds_what_a_map_finds_through_growth_and_removal() {
        let mut index = OrderIndex::with_capacity(0);
        let (mut numbers, mut model) = (Vec::new(), HashMap::new());
        let mut state = 7u64;
        for turn in 0..60_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Dense, strided and wild numbers.
            let reference = [turn, turn * 8, state, turn << 40][(state >> 60) as usize % 4];
            if let Some(vacant) = index.vacant(reference, |slot| numbers[slot as usize] == reference) {
                index.enter(vacant, numbers.len() as u32);
                assert_eq!(model.insert(reference, numbers.len() as u32), None);
                numbers.push(reference);
            } else {
                assert!(model.contains_key(&reference));
            }
            let victim = numbers[(state >> 20) as usize % numbers.len()];
            if !state.is_multiple_of(3) {
                assert_eq!(index.remove(victim, |slot| numbers[slot as usize] == victim), model.remove(&victim));
            }
        }
        assert_eq!(index.len(), model.len());
        for reference in &numbers {
            let found = index.find(*reference, |slot| numbers[slot as usize] == *reference);
            assert_eq!(found, model.get(reference).copied());
        }
    }
}
