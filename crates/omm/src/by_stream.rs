//! Values by stream id, found by their place.

use std::collections::HashMap;

/// Ids of a page.
const PAGE: usize = 512;

/// Values by stream id. Ids from zero on are those that a consumer gives out, one after the other, so that an update's value lies beside that of the stream
/// before it, and nobody has to look for it. A page goes with its last value; what stays of it are eight bytes.
#[derive(Debug, Clone)]
pub struct ByStream<T> {
    /// By the id's page.
    pages: Vec<Option<Box<Page<T>>>>,
    /// Of ids below zero: servers choose those, so that they are hashed with a key.
    others: HashMap<i32, T>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Page<T> {
    values: [Option<T>; PAGE],
    /// Values that are there: at least one.
    used: usize,
}

impl<T> Default for ByStream<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), others: HashMap::new(), len: 0 }
    }
}

impl<T: PartialEq> PartialEq for ByStream<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().all(|(id, value)| other.get(id) == Some(value))
    }
}

impl<T: Eq> Eq for ByStream<T> {}

impl<T> ByStream<T> {
    /// Values that are there.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a stream.
    #[inline]
    pub fn get(&self, id: i32) -> Option<&T> {
        // Numbers below zero lie behind all pages.
        let at = id as u32 as usize;
        match self.pages.get(at / PAGE) {
            Some(page) => page.as_ref()?.values[at % PAGE].as_ref(),
            None => self.others.get(&id),
        }
    }

    /// The value of a stream, to be changed.
    pub fn get_mut(&mut self, id: i32) -> Option<&mut T> {
        let at = id as u32 as usize;
        match self.pages.get_mut(at / PAGE) {
            Some(page) => page.as_mut()?.values[at % PAGE].as_mut(),
            None => self.others.get_mut(&id),
        }
    }

    /// Gives a stream a value. Gives that of before.
    pub fn insert(&mut self, id: i32, value: T) -> Option<T> {
        let before = match usize::try_from(id) {
            Err(_) => self.others.insert(id, value),
            Ok(at) => {
                if self.pages.len() <= at / PAGE {
                    self.pages.resize_with(at / PAGE + 1, || None);
                }
                let empty = || Box::new(Page { values: [const { None }; PAGE], used: 0 });
                let page = self.pages[at / PAGE].get_or_insert_with(empty);
                let before = page.values[at % PAGE].replace(value);
                page.used += usize::from(before.is_none());
                before
            }
        };
        self.len += usize::from(before.is_none());
        before
    }

    /// Forgets the value of a stream. Gives it.
    pub fn remove(&mut self, id: i32) -> Option<T> {
        let value = match usize::try_from(id) {
            Err(_) => self.others.remove(&id)?,
            Ok(at) => {
                let place = self.pages.get_mut(at / PAGE)?;
                let page = place.as_mut()?;
                let value = page.values[at % PAGE].take()?;
                page.used -= 1;
                if page.used == 0 {
                    *place = None;
                }
                value
            }
        };
        self.len -= 1;
        Some(value)
    }

    /// All streams with their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &T)> {
        let pages = self.pages.iter().zip((0_usize..).step_by(PAGE));
        let pages = pages.filter_map(|(page, first)| Some((page.as_deref()?, first))).flat_map(|(page, first)| {
            page.values.iter().zip(first..).filter_map(|(value, id)| Some((id as i32, value.as_ref()?)))
        });
        pages.chain(self.others.iter().map(|(id, value)| (*id, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_were_put_whatever_the_ids() {
        let mut all = ByStream::default();
        let ids = [5, 0, -1, i32::MIN, 511, 512, 100_000];
        for id in ids {
            assert_eq!(all.insert(id, i64::from(id)), None);
        }
        assert_eq!((all.len(), all.iter().count()), (ids.len(), ids.len()));
        assert!(ids.iter().all(|id| all.get(*id) == Some(&i64::from(*id))));
        assert_eq!([6, 513, 100_001, i32::MAX, -2].map(|id| all.get(id)), [None; 5]);
        assert_eq!(all.insert(5, 7), Some(5));
        *all.get_mut(-1).expect("it is there") = 8;
        assert_eq!(
            (all.remove(5), all.remove(5), all.remove(-1), all.remove(i32::MAX)),
            (Some(7), None, Some(8), None)
        );
        assert_eq!(all.len(), ids.len() - 2);
    }

    #[test]
    fn a_page_goes_with_its_last_value() {
        let mut all = ByStream::default();
        for id in 0..100 * PAGE as i32 {
            all.insert(id, ());
            all.remove(id - 3);
        }
        assert_eq!(all.pages.iter().flatten().count(), 1);
        let mut few = ByStream::default();
        for id in 100 * PAGE as i32 - 3..100 * PAGE as i32 {
            few.insert(id, ());
        }
        assert_eq!(few, all);
        few.remove(100 * PAGE as i32 - 1);
        assert_ne!(few, all);
    }
}
