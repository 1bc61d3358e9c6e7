//! The images held for non-interactive providers: what an item would send if it were asked.

use super::items::NO_IMAGE;
pub(super) use rwf::image::Image;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg};

/// The header of the refreshes that an image is sent in.
pub(super) fn header(domain: Domain, stream_id: i32, key: MsgKey<'_>, part_num: Option<u16>) -> RefreshMsg<'_> {
    RefreshMsg { flags: RefreshFlags::SOLICITED, key: Some(key), part_num, ..RefreshMsg::new(domain, stream_id) }
}

/// All images, by index.
#[derive(Debug, Default)]
pub(super) struct Cache {
    images: Vec<Option<Box<Image>>>,
    free: Vec<u32>,
}

impl Cache {
    /// A place for an image without content.
    pub(super) fn add(&mut self) -> u32 {
        let image = Some(Box::new(Image::new()));
        if let Some(index) = self.free.pop() {
            self.images[index as usize] = image;
            return index;
        }
        self.images.push(image);
        (self.images.len() - 1) as u32
    }

    pub(super) fn get(&self, index: u32) -> Option<&Image> {
        self.images.get(index as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Image> {
        self.images.get_mut(index as usize)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, index: u32) {
        if index != NO_IMAGE && self.images.get_mut(index as usize).is_some_and(|image| image.take().is_some()) {
            self.free.push(index);
        }
    }
}
