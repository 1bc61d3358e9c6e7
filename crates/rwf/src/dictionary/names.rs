//! Fields by their name: a table of its own, since each field of a message in JSON is looked up in it.

use super::FieldDef;

/// Open addressing: the index of a field plus one, 0 for an empty place; at least half of all places are empty.
#[derive(Clone, Default)]
pub(super) struct FieldNames {
    places: Vec<u16>,
    known: usize,
}

impl FieldNames {
    /// The index of the field with this name.
    #[inline]
    pub(super) fn find(&self, name: &[u8], fields: &[FieldDef]) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut place = hash(name) as usize & mask;
        loop {
            let index = usize::from(self.places[place]).checked_sub(1)?;
            if fields.get(index)?.acronym.as_bytes() == name {
                return Some(index);
            }
            place = (place + 1) & mask;
        }
    }

    /// Takes up the field of an index; of several with the same name the first one counts.
    pub(super) fn insert(&mut self, index: usize, fields: &[FieldDef]) {
        const FIRST: usize = 64;
        let name = fields[index].acronym.as_bytes();
        if self.find(name, fields).is_some() {
            return;
        }
        if (self.known + 1) * 2 > self.places.len() {
            let grown = vec![0; (self.places.len() * 2).max(FIRST)];
            let before = std::mem::replace(&mut self.places, grown);
            before.into_iter().filter(|place| *place > 0).for_each(|place| self.put(place, fields));
        }
        self.known += 1;
        self.put(index as u16 + 1, fields);
    }

    fn put(&mut self, entry: u16, fields: &[FieldDef]) {
        let mask = self.places.len() - 1;
        let mut place = hash(fields[usize::from(entry) - 1].acronym.as_bytes()) as usize & mask;
        while self.places[place] > 0 {
            place = (place + 1) & mask;
        }
        self.places[place] = entry;
    }
}

/// Of the first and the last bytes of a name and its length: names of a dictionary differ in them, and the names are the operator's, not a
/// peer's.
#[inline]
fn hash(name: &[u8]) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
    } else {
        (name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
    };
    let mixed = (first ^ last.rotate_left(23) ^ name.len() as u64).wrapping_mul(ODD);
    (mixed ^ mixed >> 29).wrapping_mul(ODD) >> 32
}
