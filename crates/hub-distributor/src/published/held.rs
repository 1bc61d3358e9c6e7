//! The images held for non-interactive providers, and the snapshots that wait for one.

use crate::ids::{Handle, ImageSlot};
use rustc_hash::FxHashMap;
use rwf::image::Image;

/// All images, by slot. A slot is one item's from its first refresh to its end.
#[derive(Debug, Default)]
pub(crate) struct HeldImages {
    images: Vec<Option<Box<Image>>>,
    /// By slot: looks in a row that have found the image held, not published and not watched.
    idle_looks: Vec<u16>,
    free: Vec<ImageSlot>,
}

impl HeldImages {
    /// A place for an image without content.
    pub(crate) fn add(&mut self) -> ImageSlot {
        let image = Some(Box::new(Image::new()));
        if let Some(slot) = self.free.pop() {
            debug_assert!(self.images[slot.0 as usize].is_none(), "a place is free that is in use");
            self.images[slot.0 as usize] = image;
            self.idle_looks[slot.0 as usize] = 0;
            return slot;
        }
        self.images.push(image);
        self.idle_looks.push(0);
        ImageSlot((self.images.len() - 1) as u32)
    }

    /// Images held.
    pub(crate) fn len(&self) -> usize {
        self.images.len() - self.free.len()
    }

    /// Whether an image is held here.
    pub(crate) fn has(&self, slot: ImageSlot) -> bool {
        self.images.get(slot.0 as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn get(&self, slot: ImageSlot) -> &Image {
        self.images[slot.0 as usize].as_deref().expect("the image of an item is held until its end")
    }

    pub(crate) fn get_mut(&mut self, slot: ImageSlot) -> &mut Image {
        self.images[slot.0 as usize].as_deref_mut().expect("the image of an item is held until its end")
    }

    /// Somebody has to do with the image: its time begins anew.
    pub(super) fn touch(&mut self, slot: ImageSlot) {
        self.idle_looks[slot.0 as usize] = 0;
    }

    /// Another look has found that nobody has to do with the image: how many did in a row.
    pub(super) fn look(&mut self, slot: ImageSlot) -> u16 {
        let looks = &mut self.idle_looks[slot.0 as usize];
        *looks = looks.saturating_add(1);
        *looks
    }

    pub(crate) fn remove(&mut self, slot: ImageSlot) {
        let image = self.images[slot.0 as usize].take();
        assert!(image.is_some(), "an image is removed once");
        self.free.push(slot);
    }
}

/// By published item, the snapshots that wait for its image to be whole.
#[derive(Debug, Default)]
pub(crate) struct WaitingSnapshots {
    waiting: FxHashMap<Handle, Vec<Handle>>,
}

impl WaitingSnapshots {
    pub(crate) fn add(&mut self, shared: Handle, instance: Handle) {
        let waiting = self.waiting.entry(shared).or_default();
        debug_assert!(!waiting.contains(&instance), "a snapshot waits once");
        waiting.push(instance);
    }

    /// Snapshots that wait for an item, in the order in which they came. They wait no more.
    pub(crate) fn take(&mut self, shared: Handle) -> Vec<Handle> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.waiting.remove(&shared).unwrap_or_default()
    }

    /// A snapshot is gone.
    pub(crate) fn forget(&mut self, shared: Handle, instance: Handle) {
        if let Some(waiting) = self.waiting.get_mut(&shared) {
            waiting.retain(|&other| other != instance);
            if waiting.is_empty() {
                self.waiting.remove(&shared);
            }
        }
    }

    /// Whether somebody waits for an item's image.
    pub(super) fn any(&self, shared: Handle) -> bool {
        self.waiting.contains_key(&shared)
    }

    pub(crate) fn waits(&self, shared: Handle, instance: Handle) -> bool {
        self.waiting.get(&shared).is_some_and(|waiting| waiting.contains(&instance))
    }

    /// Item and snapshot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, Handle)> + '_ {
        self.waiting.iter().flat_map(|(&shared, waiting)| waiting.iter().map(move |&instance| (shared, instance)))
    }
}
