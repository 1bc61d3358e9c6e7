//! Items of a service that goes on with a provider of the other kind.

use super::{GroupId, ImageSlot, ImagesDue, Item, Kind, Stage};

impl Item {
    /// The item's images are published from now on, and held there. What it waited for at interactive providers is over.
    pub(in crate::items) fn become_cached(&mut self, image: ImageSlot) {
        assert!(
            matches!(self.kind, Kind::Shared { .. }) && self.is_waiting(),
            "{self:?} becomes one that is published"
        );
        self.kind = Kind::Cached { image };
        self.begin_anew();
    }

    /// The item is asked of providers from now on. Whoever holds its image lets go of that.
    pub(in crate::items) fn become_shared(&mut self) {
        assert!(self.stage == Stage::Idle, "{self:?} becomes one that is asked for");
        self.kind = Kind::SHARED;
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.stage = Stage::Idle;
        self.images = ImagesDue::NONE;
        self.group = GroupId::NONE;
        self.failures = 0;
    }
}
