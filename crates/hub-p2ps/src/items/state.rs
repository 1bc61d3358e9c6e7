//! The state of an item: where the item stands towards its Source Distributor, and what is known of its image.
//!
//! # The states
//!
//! | State | Source | Number there | Image | Watchers | Next |
//! |---|---|---|---|---|---|
//! | `Free` | none | none | none | none | `Waiting`, `View` (the number is used again) |
//! | `Waiting(Parked)` | none | none | none | all held | `Queued`, `Retrying`, `Free` |
//! | `Waiting(Queued)` | none | none | none | all held | `Opening`, `Parked`, `Free` |
//! | `Waiting(Retrying)` | none | none | none | all held | `Parked` (then queued at once), `Free` |
//! | `Opening` | asked | token | asked by the open | all held, or none left | `Open`, `Waiting(Parked)` |
//! | `Open` | serves | handle | see below | open and held, or none for a while ([`super::Items::unwatched`]) | `Waiting(Parked)`, `Open` at another source (its mirror takes over), `Free` |
//! | `View` | that of its parent | that of its parent | that of its parent | open and held | `Free` |
//!
//! The image of an open item:
//!
//! | [`Progress`] | Asked for | A set is under way | Next |
//! |---|---|---|---|
//! | `Idle` | no | no | `Asked` (a watcher needs one), `Arriving` (the provider sends one by itself) |
//! | `Asked` | yes | no | `Arriving`, `ArrivingAsked` (what comes is no answer), `Idle` (whole in one part, lost, or too late) |
//! | `Arriving` | no | yes | `Idle` (whole, or lost), `ArrivingAsked` |
//! | `ArrivingAsked` | yes | yes | `Asked` (whole), `Arriving` (the answer begins), `Idle` (lost) |
//!
//! An item that was open once and is lost is *recovering* until an image begins to arrive, in whichever state. A transition that
//! is not in these tables is a fault of this program: debug builds stop there.

mod marks;

use crate::ids::{Handle, HubGroup, ItemId, ServiceId, SourceId, Token, ViewId};
use crate::item::{HashedKey, ItemKey};
use crate::roster::ListKey;
use marks::Marks;
use rwf::DataState;
use rwf::msg::Priority;

/// Where an item stands. See the table of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The number is in no use.
    Free,
    /// Not asked for at any Source Distributor.
    Waiting(Wait),
    /// Asked for, and not answered.
    Opening {
        source: SourceId,
        token: Token,
        /// A reissue that asks for more has to follow when the item is open and its image has come.
        reissue_due: bool,
    },
    /// Open.
    Open {
        source: SourceId,
        handle: Handle,
        image: Progress,
        /// A reissue that asks for more has to follow when the image that is on its way has come.
        reissue_due: bool,
    },
    /// A view of another item: that one's stream to a Source Distributor serves this one.
    View { parent: ItemId, view: ViewId },
}

/// The event that an item waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A change of its service, or a watcher that wants data.
    Parked,
    /// Room in the open window, or its turn.
    Queued,
    /// The time to try again.
    Retrying,
}

/// How far the image of an open item is. See the table of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Idle,
    Asked,
    Arriving,
    ArrivingAsked,
}

impl Progress {
    const fn of(arriving: bool, asked: bool) -> Self {
        match (arriving, asked) {
            (false, false) => Self::Idle,
            (false, true) => Self::Asked,
            (true, false) => Self::Arriving,
            (true, true) => Self::ArrivingAsked,
        }
    }

    const fn is_asked(self) -> bool {
        matches!(self, Self::Asked | Self::ArrivingAsked)
    }

    const fn is_arriving(self) -> bool {
        matches!(self, Self::Arriving | Self::ArrivingAsked)
    }
}

/// The sharing of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// All who ask for it.
    Shared,
    /// One watcher; never recovered, not in the index.
    Private,
    /// The same, asked for as a qualified stream.
    Qualified,
}

/// What kind of stream an item is to its Source Distributor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) sharing: Sharing,
    /// One image and no updates. Not in the index any more when that image begins to arrive.
    pub(crate) snapshot: bool,
}

impl Kind {
    /// A stream that all share.
    pub(crate) const SHARED: Self = Self { sharing: Sharing::Shared, snapshot: false };

    /// True for one that is not shared.
    pub(crate) const fn is_private(self) -> bool {
        !matches!(self.sharing, Sharing::Shared)
    }
}

/// Why an item has no image to give, as its source has said: who comes later is told the same at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The item's source has said nothing of the kind since the last image.
    None,
    /// The item's provider does not answer.
    Unanswered,
    /// The item is lost, or closed for recovery, and its source recovers it.
    Lost,
}

/// Where an item stands, for who looks for all that stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    Parked,
    Queued,
    Retrying,
    Opening(SourceId),
    Open(SourceId),
}

impl Standing {
    /// The list of a service's items that stand there.
    #[inline]
    pub(super) const fn list(self, service: ServiceId) -> ListKey {
        let (kind, source) = match self {
            Self::Parked => (0, 0),
            Self::Queued => (1, 0),
            Self::Retrying => (2, 0),
            Self::Opening(source) => (3, source.0),
            Self::Open(source) => (4, source.0),
        };
        ListKey::new(service.0 as u32, kind << 16 | source as u32)
    }
}

impl HubGroup {
    /// The list of a source's open items in this group.
    #[inline]
    pub(super) const fn list(self, source: SourceId) -> ListKey {
        ListKey::new(source.0 as u32, self.0)
    }
}

impl ServiceId {
    /// The list of this service's items.
    #[inline]
    pub(super) const fn list(self) -> ListKey {
        ListKey::new(0, self.0 as u32)
    }
}

/// The lists that an item is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Filing {
    /// Every item that is no view.
    pub(super) home: Option<ListKey>,
    /// Open items that are in a group.
    pub(super) group: Option<ListKey>,
    /// Items to which clients that apply a state to a whole service or group by themselves may apply the wrong one: those that are
    /// not back since a loss, and those that changed their group.
    pub(super) apart: Option<ListKey>,
    /// Items whose watchers were told that they are suspect, by service: they are counted.
    pub(super) suspect: Option<ServiceId>,
}

/// What an item has been through: whether an image of it has come, of its source of now or of one before, and whether it was lost since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    New,
    Imaged,
    /// Lost before its first image.
    Lost,
    LostImaged,
}

impl Past {
    const fn lost(self) -> Self {
        match self {
            Self::New | Self::Lost => Self::Lost,
            Self::Imaged | Self::LostImaged => Self::LostImaged,
        }
    }
}

/// The state of an item beside its watchers.
#[derive(Debug)]
pub(crate) struct Item {
    /// Canonical bytes of the key; none for a view.
    key: HashedKey,
    state: State,
    group: HubGroup,
    service: ServiceId,
    /// The kind of the item, its past, and what is noted of it.
    marks: Marks,
    /// The priority as asked for last: the highest class of all watchers, and the counts of those that are in it.
    priority_class: u8,
    priority_count: u16,
    /// Attempts to open it that failed in a row.
    failures: u8,
}

impl Item {
    pub(super) fn waiting(service: ServiceId, key: HashedKey, kind: Kind) -> Self {
        Self { key, service, marks: Marks::new(kind), ..Self::with(State::Waiting(Wait::Parked)) }
    }

    pub(super) fn view(parent: &Self, id: ItemId, view: ViewId) -> Self {
        debug_assert!(parent.is_live() && parent.parent().is_none(), "a view is of an item, not of a view");
        let marks = Marks::new(parent.kind());
        Self { service: parent.service, marks, ..Self::with(State::View { parent: id, view }) }
    }

    fn with(state: State) -> Self {
        Self {
            key: HashedKey::default(),
            state,
            group: HubGroup::NONE,
            service: ServiceId(0),
            marks: Marks::new(Kind::SHARED),
            priority_class: 1,
            priority_count: 1,
            failures: 0,
        }
    }

    /// The number is free from now on.
    pub(super) fn free(&mut self) {
        debug_assert!(self.is_live(), "an item is freed once");
        debug_assert!(!matches!(self.state, State::Opening { .. }), "an open that is not answered has an item");
        *self = Self::with(State::Free);
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    pub(crate) const fn is_live(&self) -> bool {
        !matches!(self.state, State::Free)
    }

    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    pub(crate) const fn is_queued(&self) -> bool {
        matches!(self.state, State::Waiting(Wait::Queued))
    }

    pub(crate) const fn is_view(&self) -> bool {
        matches!(self.state, State::View { .. })
    }

    /// The item that this is a view of.
    pub(crate) const fn parent(&self) -> Option<ItemId> {
        match self.state {
            State::View { parent, .. } => Some(parent),
            _ => None,
        }
    }

    /// The view that this is.
    pub(crate) const fn view_id(&self) -> Option<ViewId> {
        match self.state {
            State::View { view, .. } => Some(view),
            _ => None,
        }
    }

    /// The lists that it is on as it is.
    pub(super) fn filing(&self) -> Filing {
        let standing = match self.state {
            State::Free | State::View { .. } => return Filing::default(),
            State::Waiting(Wait::Parked) => Standing::Parked,
            State::Waiting(Wait::Queued) => Standing::Queued,
            State::Waiting(Wait::Retrying) => Standing::Retrying,
            State::Opening { source, .. } => Standing::Opening(source),
            State::Open { source, .. } => Standing::Open(source),
        };
        let grouped = !self.group.is_none();
        Filing {
            home: Some(standing.list(self.service)),
            group: self.open_at().filter(|_| grouped).map(|(source, _)| self.group.list(source)),
            apart: (self.is_recovering() || self.marks.has(Marks::REGROUPED)).then_some(self.service.list()),
            suspect: self.is_suspect().then_some(self.service),
        }
    }

    /// The Source Distributor that serves it or was asked for it.
    pub(crate) const fn source(&self) -> Option<SourceId> {
        match self.state {
            State::Opening { source, .. } | State::Open { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Where it is open.
    pub(crate) const fn open_at(&self) -> Option<(SourceId, Handle)> {
        match self.state {
            State::Open { source, handle, .. } => Some((source, handle)),
            _ => None,
        }
    }

    pub(crate) const fn service(&self) -> ServiceId {
        self.service
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.marks.kind()
    }

    pub(crate) const fn is_private(&self) -> bool {
        self.kind().is_private()
    }

    pub(crate) const fn is_snapshot(&self) -> bool {
        self.marks.has(Marks::SNAPSHOT)
    }

    /// The item's group, in the numbers of its source.
    pub(crate) const fn group(&self) -> HubGroup {
        self.group
    }

    pub(crate) const fn priority(&self) -> Priority {
        Priority { class: self.priority_class, count: self.priority_count }
    }

    pub(crate) const fn is_suspect(&self) -> bool {
        self.marks.has(Marks::SUSPECT)
    }

    /// True if an image of it has come, of its source of now or of one before.
    pub(crate) const fn was_imaged(&self) -> bool {
        matches!(self.marks.past(), Past::Imaged | Past::LostImaged)
    }

    pub(crate) const fn is_recovering(&self) -> bool {
        matches!(self.marks.past(), Past::Lost | Past::LostImaged)
    }

    #[cfg(test)]
    pub(crate) const fn is_regrouped(&self) -> bool {
        self.marks.has(Marks::REGROUPED)
    }

    pub(crate) const fn is_refresh_queued(&self) -> bool {
        self.marks.has(Marks::REFRESH_QUEUED)
    }

    pub(crate) const fn awaits_wider(&self) -> bool {
        self.marks.has(Marks::AWAITS_WIDER)
    }

    /// Canonical bytes of its key.
    pub(crate) fn key_bytes(&self) -> &[u8] {
        self.key.canonical()
    }

    pub(super) fn hashed_key(&self) -> &HashedKey {
        &self.key
    }

    /// Whether its key has this name; a view has no key of its own.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.key.is_of_name(name)
    }

    /// The item's key; that of a view is its parent's.
    pub(crate) fn key(&self) -> ItemKey<'_> {
        debug_assert!(!self.is_view(), "a view has the key of its parent");
        ItemKey::read(self.key.canonical()).unwrap_or_default()
    }

    /// True if an item of this kind is found by its key.
    pub(super) const fn is_indexed(&self) -> bool {
        !self.is_private() && !self.is_view()
    }

    /// An image was asked for, and none that answers has begun to arrive.
    pub(crate) const fn is_image_asked(&self) -> bool {
        match self.state {
            State::Opening { .. } => true,
            State::Open { image, .. } => image.is_asked(),
            _ => false,
        }
    }

    /// A set has begun and is not whole.
    pub(crate) const fn is_image_arriving(&self) -> bool {
        matches!(self.state, State::Open { image, .. } if image.is_arriving())
    }

    /// A reissue that asks for more has to follow the image that is on its way.
    pub(crate) const fn is_reissue_due(&self) -> bool {
        matches!(self.state, State::Opening { reissue_due: true, .. } | State::Open { reissue_due: true, .. })
    }

    /// The item is to be opened as soon as there is room; false if it is queued already, waits for its time, or does not wait.
    pub(super) fn queue(&mut self) -> bool {
        let queues = self.state == State::Waiting(Wait::Parked);
        if queues {
            self.state = State::Waiting(Wait::Queued);
        }
        debug_assert!(!queues || self.source().is_none(), "what waits has no source");
        queues
    }

    /// Nobody can serve it as things are.
    pub(super) fn park(&mut self) {
        debug_assert!(self.is_queued(), "parked from {:?}", self.state);
        self.state = State::Waiting(Wait::Parked);
    }

    /// The item is tried again later; tells how often it failed before, or `None` if it is to be opened anyhow.
    pub(super) fn retry_later(&mut self) -> Option<u8> {
        if self.state != State::Waiting(Wait::Parked) {
            return None;
        }
        self.state = State::Waiting(Wait::Retrying);
        let failures = self.failures;
        self.failures = failures.saturating_add(1);
        Some(failures)
    }

    /// The time to try again has come; false if it does not wait for that.
    pub(super) fn end_pause(&mut self) -> bool {
        let due = self.state == State::Waiting(Wait::Retrying);
        if due {
            self.state = State::Waiting(Wait::Parked);
        }
        due
    }

    /// An open was sent.
    pub(super) fn asked(&mut self, source: SourceId, token: Token) {
        debug_assert!(self.is_queued(), "opened from {:?}", self.state);
        debug_assert!(self.group.is_none(), "what is not open has no group");
        self.state = State::Opening { source, token, reissue_due: false };
    }

    /// The Source Distributor has opened it; the image that the open asked for follows.
    pub(super) fn opened(&mut self, handle: Handle) {
        let State::Opening { source, reissue_due, .. } = self.state else {
            hub_items::fault!("an answer to an open in {:?}", self.state);
            return;
        };
        self.state = State::Open { source, handle, image: Progress::Asked, reissue_due };
    }

    /// The item's bond with a Source Distributor has ended, whatever it was: it waits from now on.
    pub(super) fn detach(&mut self) {
        debug_assert!(self.is_live() && !self.is_view(), "only an item has a source, not {:?}", self.state);
        if self.source().is_some() {
            self.state = State::Waiting(Wait::Parked);
        }
        self.marks.set_trouble(Trouble::None);
        if std::mem::replace(&mut self.group, HubGroup::NONE) != HubGroup::NONE {
            self.marks.set(Marks::REGROUPED, true);
        }
        debug_assert!(self.is_waiting());
    }

    /// Another source has it open under this handle, and serves it from now on, with its next update or with its next image.
    pub(super) fn take_over(&mut self, source: SourceId, handle: Handle, in_sequence: bool) {
        debug_assert!(self.is_open() && self.source() != Some(source), "taken over from {:?}", self.state);
        self.state = State::Open { source, handle, image: Progress::Idle, reissue_due: false };
        self.marks.set_trouble(Trouble::None);
        if !in_sequence {
            self.marks.set_past(self.marks.past().lost());
        }
        if std::mem::replace(&mut self.group, HubGroup::NONE) != HubGroup::NONE {
            self.marks.set(Marks::REGROUPED, true);
        }
    }

    /// An image of the open item is asked for; false if one is asked for already.
    pub(crate) fn ask_image(&mut self) -> bool {
        let State::Open { image, .. } = &mut self.state else {
            hub_items::fault!("an image is asked for in {:?}", self.state);
            return false;
        };
        let news = !image.is_asked();
        *image = Progress::of(image.is_arriving(), true);
        news
    }

    /// The image that was asked for will not come, or is of no use; a set that is under way goes on.
    pub(crate) fn image_unusable(&mut self) {
        debug_assert!(self.is_live(), "an image of no item");
        if let State::Open { image, .. } = &mut self.state {
            *image = Progress::of(image.is_arriving(), false);
        }
    }

    /// Messages of it were lost, with whatever image was on its way.
    pub(super) fn image_lost(&mut self) {
        debug_assert!(self.is_open(), "messages of {:?} are lost", self.state);
        if let State::Open { image, .. } = &mut self.state {
            *image = Progress::Idle;
        }
        self.marks.set_past(self.marks.past().lost());
    }

    /// The first part of an image has come. It answers what was asked for, or it does not; `whole` if no part follows.
    pub(super) fn image_begins(&mut self, answers: bool, whole: bool) {
        debug_assert!(self.is_open(), "an image for {:?}", self.state);
        if let State::Open { image, .. } = &mut self.state {
            *image = Progress::of(!whole || image.is_arriving(), image.is_asked() && !answers);
        }
        self.marks.set_past(Past::Imaged);
        self.marks.set_trouble(Trouble::None);
        self.failures = 0;
    }

    /// The item's source has said why those who wait for an image have to.
    pub(crate) fn set_trouble(&mut self, trouble: Trouble) {
        debug_assert!(self.is_live() && !self.is_view());
        self.marks.set_trouble(trouble);
    }

    /// Why it has no image to give.
    pub(crate) const fn trouble(&self) -> Trouble {
        self.marks.trouble()
    }

    /// The last part of an image has come.
    pub(crate) fn image_whole(&mut self) {
        debug_assert!(self.is_open(), "the end of an image for {:?}", self.state);
        if let State::Open { image, .. } = &mut self.state {
            *image = Progress::of(false, image.is_asked());
        }
    }

    /// A reissue that asks for more has to follow the image that is on its way.
    pub(crate) fn reissue_later(&mut self) {
        match &mut self.state {
            State::Opening { reissue_due, .. } | State::Open { reissue_due, .. } => *reissue_due = true,
            other => hub_items::fault!("a reissue of {other:?}"),
        }
    }

    /// A request that asks for everything that is wanted has been sent.
    pub(crate) fn reissued(&mut self) {
        debug_assert!(self.is_open(), "a reissue of {:?}", self.state);
        if let State::Open { reissue_due, .. } = &mut self.state {
            *reissue_due = false;
        }
    }

    /// The item is lost, or ended for recovery: the next image is for all that watch.
    pub(super) fn recover(&mut self) {
        debug_assert!(self.is_waiting(), "recovered from {:?}", self.state);
        debug_assert!(!self.is_view());
        self.marks.set_past(self.marks.past().lost());
    }

    /// The item's watchers are told a state of its data.
    pub(super) fn told(&mut self, data: DataState) {
        debug_assert!(self.is_live(), "no item is told of");
        debug_assert!(!self.is_view(), "a view is as its parent");
        if matches!(data, DataState::SUSPECT | DataState::OK) {
            self.marks.set(Marks::SUSPECT, data == DataState::SUSPECT);
        }
    }

    /// A message says which group it is in; tells whether that is another than before.
    pub(super) fn set_group(&mut self, group: HubGroup) -> bool {
        debug_assert!(self.is_open(), "a group of {:?}", self.state);
        let old = std::mem::replace(&mut self.group, group);
        !old.is_none() && old != group
    }

    /// Clients may know it by another group than its present one, from now on or no more.
    pub(super) fn set_regrouped(&mut self, regrouped: bool) {
        debug_assert!(self.is_live() && !self.is_view());
        self.marks.set(Marks::REGROUPED, regrouped);
    }

    /// The item is put in the queue of images to ask for, or taken out of it; tells whether that is news.
    pub(crate) fn set_refresh_queued(&mut self, queued: bool) -> bool {
        self.marks.set(Marks::REFRESH_QUEUED, queued) != queued
    }

    /// What its watchers see is more than was asked for, or no more.
    pub(crate) fn set_awaits_wider(&mut self, awaits: bool) {
        debug_assert!(!awaits || self.is_live());
        self.marks.set(Marks::AWAITS_WIDER, awaits);
    }

    /// A request with this priority goes to its source.
    pub(crate) fn set_priority(&mut self, priority: Priority) {
        debug_assert!(self.is_live() && !self.is_view());
        (self.priority_class, self.priority_count) = (priority.class, priority.count);
    }

    /// Watchers may want another priority than was asked for, or it was looked at; tells whether that is news.
    pub(crate) fn set_demands_changed(&mut self, changed: bool) -> bool {
        self.marks.set(Marks::DEMANDS_CHANGED, changed) != changed
    }

    /// True if watchers may want another priority than was asked for.
    pub(crate) const fn has_demands_changed(&self) -> bool {
        self.marks.has(Marks::DEMANDS_CHANGED)
    }

    /// Panics if a combination of facts is not legal.
    pub(super) fn check(&self) {
        match self.state {
            State::Free => {
                assert!(
                    self.key.is_none() && !self.is_recovering() && !self.is_suspect(),
                    "left in a free item: {self:?}"
                );
            }
            State::View { .. } => {
                assert!(self.key.is_none() && self.group.is_none(), "a view has the key of its parent: {self:?}");
                assert!(
                    !self.is_recovering() && !self.is_suspect() && !self.is_refresh_queued(),
                    "a view is as its parent: {self:?}"
                );
            }
            State::Waiting(_) | State::Opening { .. } => {
                assert!(self.group.is_none(), "what is not open has no group: {self:?}");
                assert!(!self.key.is_none(), "without a key: {self:?}");
            }
            State::Open { .. } => assert!(!self.key.is_none(), "without a key: {self:?}"),
        }
        assert!(!self.is_private() || !self.is_recovering(), "a private stream is recovered by nobody: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::{HashedKey, Item, Kind, Progress, State, Wait};
    use crate::hash_seed::HashSeed;
    use crate::ids::{Handle, HubGroup, ServiceId, SourceId, Token};
    use crate::item::ItemHash;

    #[test]
    fn an_item_is_small() {
        // The hot half has 32 bytes, the index takes up to 11; names of more than 14 bytes are in a box beside.
        assert!(size_of::<Item>() <= 48, "{}", size_of::<Item>());
        assert!(size_of::<State>() <= 12, "{}", size_of::<State>());
    }

    fn progress(item: &Item) -> Progress {
        let State::Open { image, .. } = item.state() else { panic!("{item:?} is not open") };
        image
    }

    fn key() -> HashedKey {
        HashedKey::new(ItemHash::new(HashSeed::default(), 1, b"key"), b"key")
    }

    fn open() -> Item {
        let mut item = Item::waiting(ServiceId(1), key(), Kind::SHARED);
        assert!(item.queue() && !item.queue());
        item.asked(SourceId(2), Token(3));
        item.opened(Handle(4));
        item
    }

    #[test]
    fn an_item_is_opened_and_its_image_arrives() {
        let mut item = open();
        assert_eq!((item.open_at(), progress(&item)), (Some((SourceId(2), Handle(4))), Progress::Asked));
        item.image_begins(true, false);
        assert_eq!(progress(&item), Progress::Arriving);
        assert!(item.ask_image() && !item.ask_image());
        assert_eq!(progress(&item), Progress::ArrivingAsked);
        item.image_whole();
        assert_eq!(progress(&item), Progress::Asked);
        item.image_begins(false, true);
        item.image_whole();
        assert_eq!(progress(&item), Progress::Asked, "what comes unsolicited is no answer");
        item.check();
    }

    #[test]
    fn what_is_lost_recovers_with_its_next_image() {
        let mut item = open();
        item.set_group(HubGroup(7));
        item.detach();
        assert_eq!(item.state(), State::Waiting(Wait::Parked));
        assert!(item.is_regrouped() && item.group().is_none());
        item.recover();
        assert_eq!(item.retry_later(), Some(0));
        assert!(!item.queue() && item.retry_later().is_none(), "its time has not come");
        assert!(item.end_pause() && !item.end_pause() && item.queue());
        item.asked(SourceId(0), Token(9));
        item.opened(Handle(1));
        assert!(item.is_recovering());
        item.image_begins(true, true);
        assert!(!item.is_recovering());
        item.check();
    }

    #[test]
    fn a_loss_takes_the_image_under_way_with_it() {
        let mut item = open();
        item.image_begins(false, false);
        item.image_lost();
        assert_eq!(progress(&item), Progress::Idle);
        assert!(item.is_recovering());
    }

    #[test]
    #[should_panic(expected = "opened from")]
    #[cfg(debug_assertions)]
    fn what_is_open_is_not_opened_again() {
        open().asked(SourceId(2), Token(3));
    }
}
