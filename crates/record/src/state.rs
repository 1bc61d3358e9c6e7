//! All items as they were at a time.

use crate::block::decode::Block;
use crate::checkpoint::read_images;
use crate::error::Error;
use crate::images::{Held, Keeping};
use crate::index::BlockPlace;
use crate::reader::Recording;
use crate::record::{Gap, Item, ItemNumber, Kind};
use crate::segment::Segment;
use crate::store::Store;
use std::collections::HashMap;

/// A checkpoint of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Checkpoint {
    /// The images are those before the record of this number.
    pub(crate) sequence: u64,
    segment: usize,
    number: usize,
}

/// All checkpoints, in order.
pub(crate) fn checkpoints<S>(recording: &Recording<S>) -> Vec<Checkpoint> {
    let all = recording.segments.iter().enumerate();
    let mut all: Vec<Checkpoint> = all
        .flat_map(|(segment, it)| {
            let images = it.index.images.iter().enumerate();
            images.map(move |(number, images)| Checkpoint { sequence: images.sequence, segment, number })
        })
        .collect();
    all.sort_unstable();
    all
}

/// Numbers of items in a segment as places in a list of items; none for those that are not in the list.
pub(crate) fn numbers(items: &[Item], places: &HashMap<Item, usize>) -> Vec<u32> {
    items.iter().map(|item| places.get(item).map_or(NOWHERE, |place| *place as u32)).collect()
}

/// No place. Of many items the list is looked at for each record, so that it is kept small.
const NOWHERE: u32 = u32::MAX;

/// The place of an item by its number.
#[inline]
pub(crate) fn place_of(numbers: &[u32], number: ItemNumber) -> Option<usize> {
    let place = *numbers.get((number as usize).checked_sub(1)?)?;
    (place != NOWHERE).then_some(place as usize)
}

impl<S: Store> Recording<S> {
    /// The images of a checkpoint, by the places of their items; those that cannot be read, or are of other items, are left out.
    ///
    /// # Errors
    /// The segment cannot be read.
    pub(crate) fn images_of(
        &self,
        checkpoint: Checkpoint,
        places: &HashMap<Item, usize>,
        mut each: impl FnMut(usize, &[&[u8]]),
    ) -> Result<(), Error> {
        let segment = &self.segments[checkpoint.segment];
        let Some(images) = segment.index.images.get(checkpoint.number) else { return Ok(()) };
        let Some(payload) = segment.images(&self.store, images)? else { return Ok(()) };
        let numbers = numbers(&segment.index.items, places);
        for (number, parts) in read_images(&payload).map(|(_, images)| images).unwrap_or_default() {
            if let Some(place) = place_of(&numbers, number) {
                each(place, &parts);
            }
        }
        Ok(())
    }

    /// All items of a list as they were behind all records up to a time: what [`Recording::image_at`] says of each.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(crate) fn state_at(&self, places: &HashMap<Item, usize>, at: u64) -> Result<Vec<Held>, Error> {
        let mut state = State {
            held: (0..places.len()).map(|_| Held::default()).collect(),
            next: vec![None; places.len()],
            keeping: Keeping::new(),
            at,
        };
        let Some(last) = self.segment_at(at) else { return Ok(state.held) };
        self.begin_with_checkpoints(places, last, &mut state)?;
        let mut next = None;
        for segment in &self.segments[..=last] {
            let numbers = numbers(&segment.index.items, places);
            for place in segment.index.blocks.iter().filter(|place| place.begin <= at) {
                if next.is_some_and(|next| next < place.first) {
                    // A hole before it is as bad as a gap that was recorded.
                    state.gap(next.unwrap_or_default());
                }
                next = Some(place.next());
                if !state.needs(segment, place, &numbers) {
                    continue;
                }
                match self.block(segment, place)? {
                    None => state.lose(place, &numbers),
                    Some(block) => state.apply(&block, &numbers),
                }
            }
        }
        Ok(state.held)
    }

    /// Takes the newest checkpoint of each item up to the time.
    fn begin_with_checkpoints(
        &self,
        places: &HashMap<Item, usize>,
        last: usize,
        state: &mut State,
    ) -> Result<(), Error> {
        for checkpoint in checkpoints(self).into_iter().rev().filter(|checkpoint| checkpoint.segment <= last) {
            let segment = &self.segments[checkpoint.segment];
            let images = &segment.index.images[checkpoint.number];
            if segment.index.ended_before(images) > state.at {
                continue;
            }
            let numbers = numbers(&segment.index.items, places);
            let is_new =
                |number: ItemNumber| place_of(&numbers, number).is_some_and(|place| state.next[place].is_none());
            if !images.items.iter().any(is_new) {
                continue;
            }
            let State { held, next, keeping, .. } = state;
            self.images_of(checkpoint, places, |place, parts| {
                if next[place].is_none() {
                    for part in parts {
                        keeping.apply(&mut held[place], Kind::Refresh, part);
                    }
                    next[place] = Some(checkpoint.sequence);
                }
            })?;
        }
        Ok(())
    }
}

/// Items on their way to a time.
struct State {
    held: Vec<Held>,
    /// The record of each item that comes next; none: its first one.
    next: Vec<Option<u64>>,
    keeping: Keeping,
    at: u64,
}

impl State {
    fn is_behind(&self, place: usize, sequence: u64) -> bool {
        self.next[place].is_none_or(|next| next <= sequence)
    }

    /// Whether a block has a record that is not in an item's checkpoint already, or a gap.
    fn needs(&self, segment: &Segment, block: &BlockPlace, numbers: &[u32]) -> bool {
        let last = block.next().saturating_sub(1);
        let is_wanted = |number: ItemNumber| place_of(numbers, number).is_some_and(|place| self.is_behind(place, last));
        block.items.iter().any(is_wanted) || segment.has_gap(block)
    }

    /// Something is missing at a place: of all items that have no later checkpoint.
    fn gap(&mut self, sequence: u64) {
        for place in 0..self.held.len() {
            if self.is_behind(place, sequence) {
                self.held[place].is_in_gap = true;
            }
        }
    }

    /// A block cannot be read.
    fn lose(&mut self, block: &BlockPlace, numbers: &[u32]) {
        for place in block.items.iter().filter_map(|number| place_of(numbers, number)) {
            if self.is_behind(place, block.next().saturating_sub(1)) {
                self.held[place].is_in_gap = true;
            }
        }
    }

    fn apply(&mut self, block: &Block, numbers: &[u32]) {
        for (row, record) in block.records().enumerate() {
            let Some((number, time)) = block.place(row) else { return };
            if time > self.at {
                return;
            }
            match place_of(numbers, number) {
                Some(place) if self.is_behind(place, record.sequence) => {
                    self.keeping.apply(&mut self.held[place], record.kind, record.body);
                }
                None if record.kind == Kind::Gap
                    && Gap::decode(record.body).is_some_and(|gap| gap.reason.hides_messages()) =>
                {
                    self.gap(record.sequence);
                }
                _ => {}
            }
        }
    }
}
