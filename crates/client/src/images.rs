//! Held images of a subscription's items, on the application's side: each is as of the last message that was applied.

use crate::queue::Message;
use rwf::StreamState;
use rwf::dictionary::Dictionary;
use rwf::image::{Image, Plans};
use rwf::msg::{Msg, MsgClass, RefreshFlags, RefreshMsg};
use rwf::wire::encode_growing;
use std::sync::Arc;

/// State of an item, as an application sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// No image has come.
    #[default]
    Waiting,
    /// The image is current.
    Ok,
    /// The image may be old; it is recovered.
    Suspect,
    /// The item has ended, or was refused.
    Closed,
    /// A snapshot that is whole.
    Snapshot,
}

/// Images by the items' places in a subscription.
#[derive(Debug)]
pub struct Images {
    images: Vec<(Image, Condition)>,
    plans: Plans,
}

impl Images {
    /// Images of so many items; none has come.
    pub fn new(items: usize, dictionary: Option<Arc<Dictionary>>) -> Self {
        let images = (0..items).map(|_| (Image::new(), Condition::Waiting)).collect();
        Self { images, plans: Plans::new(dictionary) }
    }

    /// Items.
    pub const fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Further items, of which no image has come.
    pub fn grow(&mut self, items: usize) {
        self.images.extend((0..items).map(|_| (Image::new(), Condition::Waiting)));
    }

    /// The place of an item is another item's from now on, of which no image has come.
    pub fn begin_anew(&mut self, item: u32) {
        if let Some(place) = self.images.get_mut(item as usize) {
            *place = (Image::new(), Condition::Waiting);
        }
    }

    /// The dictionary has come.
    pub fn set_dictionary(&mut self, dictionary: Arc<Dictionary>) {
        self.plans = Plans::new(Some(dictionary));
    }

    /// Takes a message in.
    pub fn apply(&mut self, message: &Message<'_>) {
        // Of items behind those that the owner has images for ([`Images::grow`]) none is held.
        let Some((image, condition)) = self.images.get_mut(message.item as usize) else { return };
        if message.class == MsgClass::UPDATE {
            // A message that cannot be applied makes the image Suspect.
            let _ = image.update_planned(message.msg, &mut self.plans);
        } else {
            match Msg::decode(message.msg) {
                Ok(Msg::Refresh(refresh)) => {
                    // A refresh that begins anew voids the parts of one that was broken off.
                    if refresh.flags.contains(RefreshFlags::CLEAR_CACHE) {
                        image.abandon_refresh();
                    }
                    let _ = image.refresh(&refresh, &self.plans.schema());
                    image.note_layout(&mut self.plans);
                }
                Ok(Msg::Status(status)) => {
                    // A status without a state says nothing of the image.
                    let Some(state) = status.state else { return };
                    image.set_state(&state);
                    if state.stream != StreamState::OPEN {
                        *condition = Condition::Closed;
                        return;
                    }
                }
                _ => return,
            }
        }
        *condition = match (message.is_final, image.is_whole(), image.is_suspect()) {
            (true, true, _) => Condition::Snapshot,
            (_, false, false) => Condition::Waiting,
            (_, _, true) => Condition::Suspect,
            (false, true, false) => Condition::Ok,
        };
    }

    /// An item's state.
    pub fn condition(&self, item: u32) -> Condition {
        self.images.get(item as usize).map_or(Condition::Closed, |(_, condition)| *condition)
    }

    /// An item's image.
    pub fn image(&self, item: u32) -> Option<&Image> {
        self.images.get(item as usize).map(|(image, _)| image)
    }

    /// Writes the payload of an item's image; `None` if there is no whole one.
    pub fn payload<'r>(&self, item: u32, room: &'r mut Vec<u8>) -> Option<&'r [u8]> {
        let payload = self.image(item)?.payload()?;
        let end = encode_growing(room, 0, 1_024, 1 << 28, |w| payload.write(w)).ok()?;
        Some(&room[..end])
    }

    /// Writes an item's image as a refresh.
    pub fn refresh<'r>(&self, item: u32, header: &RefreshMsg<'_>, room: &'r mut Vec<u8>) -> Option<&'r [u8]> {
        let image = self.image(item)?;
        let end =
            encode_growing(room, 0, 1_024, 1 << 28, |w| image.write(header.clone(), 0, usize::MAX, w).map(|_| ()))
                .ok()?;
        Some(&room[..end])
    }
}
