//! Blocks that are not packed: their records stand one behind the other, as in a tail.

use super::decode::{Block, Entry};
use super::{Head, RAW_MAX, RECORDS_MAX};
use crate::bytes::Input;
use crate::record::{Clocks, ItemNumber};
use crate::row::read_row;

/// Bytes before the records: the sequence number of the first, and the latest wall clock before it.
pub(crate) const RAW_HEAD: usize = 16;

/// Reads all records of a block, or those of an item; `None` if it is damaged.
pub(crate) fn decode(payload: Vec<u8>, only: Option<ItemNumber>) -> Option<Block> {
    let mut input = Input::new(&payload);
    let (first, before) = (input.u64()?, input.u64()?);
    let mut head = Head { first, count: 0, raw: 0, before, end: before, wall: 0, mono: 0, sections: 0 };
    let (mut entries, mut clocks) = (Vec::new(), Clocks::default());
    while !input.is_empty() {
        let row = read_row(&mut input, &mut clocks)?;
        if head.count == 0 {
            (head.wall, head.mono) = (row.clocks.wall, row.clocks.mono);
        }
        head.end = head.end.max(row.clocks.wall);
        if only.is_none_or(|only| only == row.item) {
            // The message is the end of its record.
            let end = (payload.len() - input.len()) as u32;
            let start = end - row.body.len() as u32;
            entries.push(Entry {
                time: head.end,
                kind: row.kind,
                item: row.item,
                clocks: row.clocks,
                row: head.count,
                start,
                end,
            });
        }
        head.count += 1;
        head.raw += row.body.len() as u32;
        if head.count as usize > RECORDS_MAX || head.raw as usize > RAW_MAX {
            return None;
        }
    }
    let is_possible = head.count > 0 && first.checked_add(u64::from(head.count)).is_some();
    is_possible.then_some(Block { head, entries, bytes: payload })
}
