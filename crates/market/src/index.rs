//! Finds an order by its number: a window of the newest numbers, four bytes a number, and for older ones an open-addressed table of eight bytes a cell.
//!
//! Numbers of most venues rise by little, and most orders are gone soon: what a message names is in the window mostly, whose lines come one after the
//! other. A number that falls behind the window is entered in the table if its order still stands. Where numbers are sparse there is no window.
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

/// Where an order was found not to be, and would be entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacant {
    /// The cell of the table; [`IN_WINDOW`]: in the window.
    at: usize,
    reference: u64,
}

const IN_WINDOW: usize = usize::MAX;

/// Numbers of the window, and so many at least that stand before there is one: two million numbers are 8 MB.
const WINDOW: usize = 1 << 21;
const FEWEST_FOR_WINDOW: usize = 1 << 14;
/// As many numbers leave the window together, and so many of them must have been entered, or numbers are too sparse for it.
const STEP: usize = 1 << 12;
const FEWEST_OF_STEP: usize = STEP / 32;
/// Numbers that are looked at together when they leave. The window's base is a multiple of it.
const LEAVING: usize = 1024;
/// No order of a number in the window.
const NO_PLACE: u32 = u32::MAX;

/// The newest numbers: places by number, in a ring.
#[derive(Debug, Default)]
struct Window {
    places: Option<Box<[u32; WINDOW]>>,
    /// Its lowest number.
    base: u64,
    /// Entered since it moved.
    entered: usize,
    /// Numbers were too sparse for it since the last clearing.
    is_useless: bool,
}

impl Window {
    /// The place that a number in the window has, which may be none.
    #[inline]
    fn place(&self, reference: u64) -> Option<u32> {
        let places = self.places.as_ref()?;
        (reference.wrapping_sub(self.base) < WINDOW as u64).then(|| places[reference as usize & (WINDOW - 1)])
    }

    #[inline]
    fn cell(&mut self, reference: u64) -> Option<&mut u32> {
        let places = self.places.as_mut()?;
        (reference.wrapping_sub(self.base) < WINDOW as u64).then(|| &mut places[reference as usize & (WINDOW - 1)])
    }
}

/// What the window says of an order.
#[derive(Clone, Copy, Debug)]
enum InWindow {
    At(u32),
    InNoBook,
    AskTable,
}

#[derive(Debug)]
pub(crate) struct OrderIndex {
    cells: Vec<u64>,
    /// Orders in the table, and in all.
    in_cells: usize,
    len: usize,
    window: Window,
    /// Orders that leave the window, for the memory.
    leaving: Vec<(u64, u32)>,
    /// Cells that wait for the end while the table grows, for the memory.
    moving: Vec<u64>,
    /// Highest number that was ever entered, and that was entered in the table though it is not below the window.
    highest: u64,
    highest_beyond: u64,
}

impl OrderIndex {
    /// A table that takes `orders` without growing.
    pub(crate) fn with_capacity(orders: usize) -> Self {
        let lines = (orders / LIMIT_OF_16 * 2 + 1).max(FEWEST_LINES);
        Self {
            cells: vec![EMPTY; lines.min(1 << LINE_BITS) * LINE],
            in_cells: 0,
            len: 0,
            window: Window::default(),
            leaving: Vec::new(),
            moving: Vec::new(),
            highest: 0,
            highest_beyond: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<u64>()
            + self.leaving.capacity() * size_of::<(u64, u32)>()
            + self.moving.capacity() * size_of::<u64>()
            + self.window.places.as_ref().map_or(0, |places| size_of_val(&**places))
    }

    #[inline]
    fn in_window(&self, reference: u64) -> InWindow {
        match self.window.place(reference) {
            None => InWindow::AskTable,
            Some(NO_PLACE) if reference <= self.highest_beyond => InWindow::AskTable,
            Some(NO_PLACE) => InWindow::InNoBook,
            Some(place) => InWindow::At(place),
        }
    }

    /// The place of the order with this number; `is_it` compares the number of the order at a place.
    #[inline]
    pub(crate) fn find(&self, reference: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        match self.in_window(reference) {
            InWindow::At(place) => Some(place),
            InWindow::InNoBook => None,
            InWindow::AskTable => self.find_in_table(reference, is_it),
        }
    }

    #[inline(never)]
    fn find_in_table(&self, reference: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(tag_of(reference), is_it).ok().map(|(_, slot)| slot)
    }

    /// The window's word of a number: the place of its order or none, and whether the number is in the window: if not, that is another's place, and the
    /// table is to be asked.
    #[inline]
    pub(crate) fn peek(&self, reference: u64) -> (u32, bool) {
        let Some(places) = &self.window.places else { return (NO_PLACE, false) };
        let is_inside = reference.wrapping_sub(self.window.base) < WINDOW as u64;
        // A number outside has a cell that is in no cache: another is read in its stead.
        let number = if is_inside { reference } else { 0 };
        (places[number as usize & (WINDOW - 1)], is_inside)
    }

    /// Where the cell lies that says first where an order is.
    #[inline]
    pub(crate) fn address(&self, reference: u64) -> *const u8 {
        if let Some(places) = &self.window.places
            && reference.wrapping_sub(self.window.base) < WINDOW as u64
        {
            return std::ptr::from_ref(&places[reference as usize & (WINDOW - 1)]).cast();
        }
        self.cell_address(reference)
    }

    /// The place of the order in the table that probably has this number: the order itself is not asked. [`NO_PLACE`]: there is none.
    #[inline]
    pub(crate) fn guess(&self, reference: u64) -> u32 {
        let cell = self.cells.get(home(tag_of(reference), self.cells.len())).copied().unwrap_or(EMPTY);
        if cell == EMPTY || (cell >> 32) as u32 == tag_of(reference) {
            return cell as u32;
        }
        self.find_in_table(reference, |_| true).unwrap_or(NO_PLACE)
    }

    /// Where an order with this number would be entered; `None`: there is one. Makes room first.
    #[inline]
    pub(crate) fn vacant(&mut self, reference: u64, is_it: impl Fn(u32) -> bool) -> Option<Vacant> {
        if reference > self.highest {
            self.advance(reference);
        }
        match self.in_window(reference) {
            InWindow::InNoBook => Some(Vacant { at: IN_WINDOW, reference }),
            InWindow::At(_) => None,
            InWindow::AskTable => self.vacant_in_table(reference, is_it),
        }
    }

    #[inline(never)]
    fn vacant_in_table(&mut self, reference: u64, is_it: impl Fn(u32) -> bool) -> Option<Vacant> {
        self.make_room();
        self.probe(tag_of(reference), is_it).err().map(|at| Vacant { at, reference })
    }

    /// Enters an order; nothing may have been entered or removed since `vacant` was found.
    #[inline]
    pub(crate) fn enter(&mut self, vacant: Vacant, slot: u32) {
        let Vacant { at, reference } = vacant;
        self.len += 1;
        if at == IN_WINDOW {
            if let Some(cell) = self.window.cell(reference) {
                *cell = slot;
            }
            self.window.entered += 1;
            return;
        }
        self.enter_in_table(at, reference, slot);
    }

    #[inline(never)]
    fn enter_in_table(&mut self, at: usize, reference: u64, slot: u32) {
        debug_assert_eq!(self.cells[at], EMPTY);
        self.cells[at] = cell_of(reference, slot);
        self.in_cells += 1;
        if self.window.places.is_some() && reference >= self.window.base {
            self.highest_beyond = self.highest_beyond.max(reference);
        }
    }

    /// A number higher than all before: the window begins behind it, or moves up to it.
    #[inline]
    fn advance(&mut self, reference: u64) {
        self.highest = reference;
        if self.window.places.is_some() {
            if reference.saturating_sub(self.window.base) >= WINDOW as u64 {
                self.move_to(reference);
            }
        } else if self.len >= FEWEST_FOR_WINDOW && !self.window.is_useless {
            self.begin_window(reference);
        }
    }

    /// Numbers from here on are in no cell.
    #[cold]
    fn begin_window(&mut self, reference: u64) {
        if let Some(base) = reference.checked_next_multiple_of(LEAVING as u64) {
            let places = vec![NO_PLACE; WINDOW].into_boxed_slice().try_into().ok();
            self.window = Window { places, base, ..Window::default() };
        }
    }

    /// Orders whose numbers fall behind the window go to the table.
    #[cold]
    fn move_to(&mut self, reference: u64) {
        let is_near = reference - self.window.base < (WINDOW + STEP) as u64;
        while is_near && reference - self.window.base >= WINDOW as u64 {
            if self.window.entered < FEWEST_OF_STEP {
                break;
            }
            self.window.entered = 0;
            self.leave_step();
            self.window.base += STEP as u64;
        }
        if reference - self.window.base >= WINDOW as u64 {
            // Too sparse, or a jump: all go to the table, and there is no window any more.
            for number in self.window.base..self.window.base + WINDOW as u64 {
                let place = self.window.place(number).unwrap_or(NO_PLACE);
                if place != NO_PLACE {
                    self.enter_cell(number, place);
                }
            }
            self.window = Window { is_useless: true, ..Window::default() };
        }
    }

    /// The lowest numbers of the window go to the table: first those that stand are picked out, without a branch on what is seldom and random, and
    /// their cells are asked for, all at once; then they are entered.
    fn leave_step(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        let mut some = [(0, NO_PLACE); LEAVING];
        for from in (self.window.base..self.window.base + STEP as u64).step_by(LEAVING) {
            let begin = from as usize & (WINDOW - 1);
            let mut count = 0;
            let places = self.window.places.as_mut().map_or(&mut [][..], |places| &mut places[begin..begin + LEAVING]);
            // Of four numbers mostly none has an order that stands.
            for (number, places) in (from..).step_by(4).zip(places.as_chunks_mut::<4>().0) {
                if places[0] & places[1] & places[2] & places[3] == NO_PLACE {
                    continue;
                }
                for (number, place) in (number..).zip(places) {
                    some[count] = (number, *place);
                    count += usize::from(*place != NO_PLACE);
                    *place = NO_PLACE;
                }
            }
            self.ask_for_cells(&some[..count]);
            leaving.extend_from_slice(&some[..count]);
        }
        for (number, place) in leaving.drain(..) {
            self.enter_cell(number, place);
        }
        self.leaving = leaving;
    }

    fn ask_for_cells(&self, numbers: &[(u64, u32)]) {
        let mut lines = [std::ptr::null(); LINE];
        for some in numbers.chunks(lines.len()) {
            for (line, (number, _)) in lines.iter_mut().zip(some) {
                *line = self.cell_address(*number);
            }
            lines::fetch(&lines[..some.len()]);
        }
    }

    /// Address of the cell that an order of this number would have in the table.
    #[inline]
    fn cell_address(&self, number: u64) -> *const u8 {
        self.cells.as_ptr().wrapping_add(home(tag_of(number), self.cells.len())).cast()
    }

    fn enter_cell(&mut self, number: u64, place: u32) {
        self.make_room();
        // No two orders have one number.
        let (Ok((at, _)) | Err(at)) = self.probe(tag_of(number), |_| false);
        self.cells[at] = cell_of(number, place);
        self.in_cells += 1;
    }

    #[inline]
    fn make_room(&mut self) {
        if self.in_cells >= self.cells.len() / 16 * LIMIT_OF_16 {
            self.grow();
        }
    }

    /// Removes the order with this number, which is at this place.
    #[inline]
    pub(crate) fn remove(&mut self, reference: u64, place: u32) {
        if let Some(cell) = self.window.cell(reference)
            && *cell == place
        {
            *cell = NO_PLACE;
            self.len -= 1;
        } else {
            self.remove_from_table(reference, place);
        }
    }

    #[inline(never)]
    fn remove_from_table(&mut self, reference: u64, place: u32) {
        // Each order is in the window or in the table.
        let Ok((mut hole, _)) = self.probe(tag_of(reference), |at| at == place) else { return };
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
        (self.in_cells, self.len) = (self.in_cells - 1, self.len - 1);
    }

    /// Forgets all orders; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.cells.fill(EMPTY);
        (self.in_cells, self.len, self.highest, self.highest_beyond) = (0, 0, 0, 0);
        // Numbers begin anew: the window comes again when there are enough.
        self.window = Window::default();
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

    /// In place: what is large is never there twice. A large table grows by a quarter, not to the double: at its emptiest it has 13 bytes an order, not 21.
    #[cold]
    fn grow(&mut self) {
        let had = self.cells.len();
        let lines = had / LINE;
        let lines = if lines < LARGE_LINES { lines * 2 } else { (lines + lines / 4).next_multiple_of(HUGE_PAGE_LINES) };
        let cells = lines.min(1 << LINE_BITS) * LINE;
        self.cells.reserve_exact(cells - had);
        self.cells.resize(cells, EMPTY);
        let cells = &mut self.cells[..];
        // Homes keep their order and move up, the highest furthest: from the last cell down each finds its new place among those that have moved. What lies so low,
        // or so far behind its home, that the new one is among those still to move, waits for the end.
        for at in (0..had).rev() {
            let cell = std::mem::replace(&mut cells[at], EMPTY);
            if cell == EMPTY {
                continue;
            }
            let home = home((cell >> 32) as u32, cells.len());
            let vacant = if home < at { None } else { cells[home..].iter_mut().find(|cell| **cell == EMPTY) };
            match vacant {
                Some(vacant) => *vacant = cell,
                None => self.moving.push(cell),
            }
        }
        for cell in self.moving.drain(..) {
            let mut at = home((cell >> 32) as u32, cells.len());
            while cells[at] != EMPTY {
                at = after(at, cells.len());
            }
            cells[at] = cell;
        }
    }
}

/// Lines of a table that is large enough for huge pages, and those of such a page.
const LARGE_LINES: usize = (4 << 20) / LINE / size_of::<u64>();
const HUGE_PAGE_LINES: usize = LARGE_LINES / 2;

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

#[inline]
fn cell_of(reference: u64, slot: u32) -> u64 {
    u64::from(tag_of(reference)) << 32 | u64::from(slot)
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
                let found = index.find(victim, |slot| numbers[slot as usize] == victim);
                assert_eq!(found, model.remove(&victim));
                found.inspect(|place| index.remove(victim, *place));
            }
        }
        assert_eq!(index.len(), model.len());
        for reference in &numbers {
            let found = index.find(*reference, |slot| numbers[slot as usize] == *reference);
            assert_eq!(found, model.get(reference).copied());
        }
    }

    /// Numbers that fall have no window: the table is all there is, and grows in place until it is large and then by quarters.
    #[test]
    fn a_table_that_grows_keeps_all_that_it_has() {
        let mut index = OrderIndex::with_capacity(0);
        let (mut numbers, mut cells, mut sizes) = (Vec::new(), index.cells.len(), 0);
        for turn in 0..700_000u64 {
            // Neighbours, strides, and numbers that share a home with many.
            let reference = match turn % 3 {
                0 => (1 << 50) - turn,
                1 => (1 << 49) - turn * 64,
                _ => ((1 << 20) - turn) << 20,
            };
            let vacant = index.vacant(reference, |slot| numbers[slot as usize] == reference).expect("a new number");
            index.enter(vacant, numbers.len() as u32);
            numbers.push(reference);
            if index.cells.len() != cells || turn == 699_999 {
                (cells, sizes) = (index.cells.len(), sizes + 1);
                for (place, reference) in numbers.iter().enumerate() {
                    let found = index.find(*reference, |slot| numbers[slot as usize] == *reference);
                    assert_eq!(found, Some(place as u32), "{reference} in {cells} cells");
                }
            }
        }
        assert!(
            index.window.places.is_none() && cells > LARGE_LINES * LINE && sizes > 12,
            "{cells} cells, {sizes} sizes"
        );
        assert_eq!(index.cells.iter().filter(|cell| **cell != EMPTY).count(), numbers.len());
    }

    /// Numbers that rise, with orders of all ages, long enough that the window begins, moves, and is left behind by a jump.
    #[test]
    fn numbers_that_rise_are_found_in_the_window_and_behind_it() {
        let mut index = OrderIndex::with_capacity(0);
        let (mut numbers, mut model, mut live): (Vec<u64>, HashMap<u64, u32>, Vec<u64>) = Default::default();
        let (mut state, mut reference, mut most_window) = (11u64, 0u64, 0);
        for turn in 0..1_300_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            reference += 1 + (state >> 62);
            if turn == 1_200_000 {
                reference += 1 << 40;
            }
            let is_known = |slot: u32| numbers[slot as usize] == reference;
            let vacant = index.vacant(reference, is_known).expect("a new number");
            index.enter(vacant, numbers.len() as u32);
            assert!(index.vacant(reference, |_| true).is_none(), "it is there");
            model.insert(reference, numbers.len() as u32);
            numbers.push(reference);
            live.push(reference);
            most_window = most_window.max(index.window.places.as_ref().map_or(0, |places| places.len()));
            if live.len() > 30_000 {
                // Mostly a young one.
                let age = (state >> 33) as usize % if turn % 5 == 0 { live.len() } else { 100 };
                let victim = live.swap_remove(live.len() - 1 - age);
                let place = model.remove(&victim).expect("it stands");
                assert_eq!(index.find(victim, |slot| numbers[slot as usize] == victim), Some(place));
                index.remove(victim, place);
                assert_eq!(index.find(victim, |slot| numbers[slot as usize] == victim), None);
            }
        }
        assert_eq!((index.len(), most_window), (model.len(), WINDOW));
        assert!(index.window.places.is_none() && index.window.is_useless, "the jump ended it");
        for reference in &live {
            let found = index.find(*reference, |slot| numbers[slot as usize] == *reference);
            assert_eq!(found, model.get(reference).copied());
        }
        // A late, lower number is entered beside them.
        let late = index.vacant(1 << 39, |_| true).expect("no such number");
        index.enter(late, 7);
        assert_eq!(index.find(1 << 39, |slot| slot == 7), Some(7));
    }

    #[test]
    fn sparse_numbers_end_the_window() {
        let mut index = OrderIndex::with_capacity(0);
        let numbers: Vec<u64> = (0..60_000u64).map(|n| n * 1_000).collect();
        for (slot, reference) in numbers.iter().enumerate() {
            let vacant = index.vacant(*reference, |slot| numbers[slot as usize] == *reference).expect("new");
            index.enter(vacant, slot as u32);
        }
        assert!(index.window.is_useless && index.len() == numbers.len());
        for (slot, reference) in numbers.iter().enumerate() {
            index.remove(*reference, slot as u32);
        }
        assert_eq!((index.len(), index.in_cells), (0, 0));
    }
}
