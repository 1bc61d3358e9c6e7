//! Things by number, whose numbers are used again.

/// A table of things; a number is free for the next thing when its own is gone.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = Some(thing);
            return at;
        }
        self.slots.push(Some(thing));
        self.slots.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(thing)
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| Some((at as u32, slot.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
