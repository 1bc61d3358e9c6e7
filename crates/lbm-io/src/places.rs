//! Things that come and go, by place.

/// Where a thing is. A place is used again once its thing is gone, under another name: an old one means nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    place: u32,
    /// How many things the place has had before.
    generation: u32,
}

impl Name {
    pub(crate) const fn place(self) -> usize {
        self.place as usize
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    thing: Option<T>,
}

/// See the module. There are as many places as there were things at a time.
#[derive(Debug)]
pub(crate) struct Places<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    /// The name that the next thing has.
    pub(crate) fn next_name(&self) -> Name {
        let place = self.free.last().copied().unwrap_or(self.slots.len() as u32);
        Name { place, generation: self.slots.get(place as usize).map_or(0, |slot| slot.generation) }
    }

    pub(crate) fn insert(&mut self, thing: T) -> Name {
        let name = self.next_name();
        match self.free.pop().and_then(|place| self.slots.get_mut(place as usize)) {
            Some(slot) => slot.thing = Some(thing),
            None => self.slots.push(Slot { generation: 0, thing: Some(thing) }),
        }
        name
    }

    #[inline]
    pub(crate) fn get(&self, name: Name) -> Option<&T> {
        let slot = self.slots.get(name.place())?;
        if slot.generation == name.generation { slot.thing.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        let slot = self.slots.get_mut(name.place())?;
        if slot.generation == name.generation { slot.thing.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, name: Name) -> Option<T> {
        let slot = self.slots.get_mut(name.place()).filter(|slot| slot.generation == name.generation)?;
        let thing = slot.thing.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(name.place);
        Some(thing)
    }

    /// The name of the thing at a place.
    pub(crate) fn name_at(&self, place: u32) -> Option<Name> {
        let slot = self.slots.get(place as usize).filter(|slot| slot.thing.is_some())?;
        Some(Name { place, generation: slot.generation })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Name, &T)> {
        self.slots.iter().enumerate().filter_map(|(place, slot)| {
            Some((Name { place: place as u32, generation: slot.generation }, slot.thing.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_old_names_mean_nothing() {
        let mut places = Places::default();
        let names: Vec<Name> = (0..4).map(|thing| places.insert(thing)).collect();
        for round in 0..1_000 {
            assert_eq!(places.remove(names[1]), (round == 0).then_some(1));
            let next = places.next_name();
            let name = places.insert(10 + round);
            assert_eq!((name, places.get(name)), (next, Some(&(10 + round))));
            assert!(places.get(names[1]).is_none() && places.get_mut(names[1]).is_none());
            assert_eq!(places.name_at(name.place() as u32), Some(name));
            places.remove(name).expect("there");
            assert_eq!(places.remove(name), None, "once");
        }
        assert_eq!(places.iter().map(|(_, thing)| *thing).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(places.slots.len(), 4, "there were four at a time");
    }
}
