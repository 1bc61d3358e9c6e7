//! One item, and the states that it goes through.
//!
//! What an item is about is told by four things that change by named transitions only. [`Kind`] is what it is, for as long as it
//! lives. [`Stage`] is where it stands with providers. [`Reported`] is what its watchers know. [`ImagesDue`] is what its provider still
//! owes.
//!
//! | kind | who finds it | stages |
//! |---|---|---|
//! | Shared | whoever opens its key | Idle, Queued, Asked, Open, Ended |
//! | Private, `PrivateSnapshot`, Snapshot | nobody: an instance of one open | Idle, Queued, Asked, Open, Ended |
//! | Cached | whoever opens its key | Idle, Published, Ended |
//! | `CachedSnapshot` | nobody: an instance of one open | Idle, Ended |
//!
//! ```text
//!            queue          ask           first answer
//!   Idle ----------> Queued ----> Asked --------------> Open        Idle <----------> Published
//!    ^                              |                    |                 publish,
//!    +------------- leave ----------+--------------------+                 unpublish          any ---- end ----> Ended
//! ```
//!
//! | stage | what waits | images due | told |
//! |---|---|---|---|
//! | Idle, of an interactive service | its retry timer | another one, if it was answered and is shared | any |
//! | Queued | a place in its service's queue | as Idle | any |
//! | Asked | the request timer | exactly the one that was asked for | any |
//! | Open | nothing, or the request timer | any | any |
//! | Idle or Published, of a cached service | nothing | a set may be under way, nothing is asked for | any |
//! | Idle, a cached snapshot | the held image to be whole | none | nothing |
//! | Ended | that every P2PS gives the handle back | none | any but lost |
//!
//! An item that no P2PS has open is held for one of two reasons only: its image is cached, or it is Shared, Open, answered, and its
//! unwatched time is running. Lost items (told Suspect, to be recovered) are counted by their service. A private stream is never
//! lost: it ends.
//!
//! [`Item::check`] asserts all of this.

use super::p2ps_set::P2psSet;
use crate::SessionId;
use crate::ids::{Epoch, GroupId, Handle, ImageSlot, Slot, StreamId};
use crate::item::HashedKey;
use crate::roster::ListKey;
use rwf::DataState;
use std::num::NonZeroU32;

/// The kind of an item. See the module's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Opened once at a provider for all its watchers.
    Shared {
        /// Since when nobody watches it; there is a timer for the end of that time.
        unwatched: Option<Since>,
    },
    /// A private stream: never recovered.
    Private,
    /// Ends with its image.
    Snapshot,
    /// Both.
    PrivateSnapshot,
    /// Published by non-interactive providers, its image held here.
    Cached {
        /// Where.
        image: ImageSlot,
    },
    /// A snapshot of a cached item, that waits for the held image.
    CachedSnapshot,
}

impl Kind {
    pub(crate) const SHARED: Self = Self::Shared { unwatched: None };

    /// An instance of one open is not found by its key.
    pub(crate) const fn is_instance(self) -> bool {
        !matches!(self, Self::Shared { .. } | Self::Cached { .. })
    }

    const fn is_of_cached_service(self) -> bool {
        matches!(self, Self::Cached { .. } | Self::CachedSnapshot)
    }
}

/// A time, in tenths of a second since the epoch of `now`, and one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since(NonZeroU32);

impl Since {
    const TENTH: u64 = 100_000_000;

    fn at(now: u64) -> Self {
        Self(NonZeroU32::MIN.saturating_add((now / Self::TENTH) as u32))
    }

    fn nanoseconds(self) -> u64 {
        u64::from(self.0.get() - 1) * Self::TENTH
    }
}

/// The action when the timer of an unwatched item has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnwatchedTimer {
    /// Somebody watches it again.
    Watched,
    /// The item was watched in between: come back then.
    NotYet(u64),
    /// The item's time is over.
    Over,
}

/// Where an item stands with providers. A session is its slot here: there are fewer than 65,536.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Queued,
    Asked { session: u16, stream: StreamId },
    Open { session: u16, stream: StreamId },
    Published { session: u16, stream: StreamId },
    Ended,
}

/// A stream of a provider session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) session: SessionId,
    pub(crate) stream: StreamId,
}

/// What an item has left: a stream that has to be closed, and is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) place: Place,
    /// The provider has not answered the request for it.
    pub(crate) unanswered: bool,
    pub(crate) snapshot: bool,
}

/// The state of an item as its watchers have been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    /// No image, no status.
    Nothing,
    /// Why they wait for their first image, by a Suspect status.
    Waits,
    Good,
    Suspect,
    /// The item was good or Suspect, and its provider is gone, or is silent: the next image is a recovery.
    Lost,
    /// The item's provider is gone, and another has it already: nobody was told, and the next image is a recovery.
    TakenOver,
    /// Lost, and parts of the image that recovers it have come.
    Returning,
}

impl Reported {
    const fn is_answered(self) -> bool {
        !matches!(self, Self::Nothing | Self::Waits)
    }

    const fn is_suspect(self) -> bool {
        matches!(self, Self::Waits | Self::Suspect | Self::Lost)
    }

    const fn is_lost(self) -> bool {
        matches!(self, Self::Lost | Self::TakenOver | Self::Returning)
    }

    /// An image or a status that has this to say of the data.
    const fn data(self, suspect: bool) -> Self {
        match (self.is_lost(), suspect) {
            (true, true) => Self::Lost,
            (true, false) => Self::Returning,
            (false, true) => Self::Suspect,
            (false, false) => Self::Good,
        }
    }

    /// A Suspect status that is no answer of the provider.
    const fn explained(self) -> Self {
        match self {
            Self::Nothing => Self::Waits,
            Self::Good => Self::Suspect,
            Self::Returning | Self::TakenOver => Self::Lost,
            other => other,
        }
    }

    /// The image that recovers it is whole.
    const fn recovered(self) -> Self {
        match self {
            Self::Lost => Self::Suspect,
            Self::Returning | Self::TakenOver => Self::Good,
            other => other,
        }
    }
}

/// Between the first and the last part of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    None,
    /// The set answers a request.
    Solicited,
    Unsolicited,
}

/// Images that are to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ImagesDue {
    /// The provider owes a solicited image to somebody.
    expecting: bool,
    /// Requests for an image on this stream that may still be answered. Repeated requests make it more than what is expected.
    unanswered: u8,
    set: Set,
    /// Another image has to follow: somebody came in the middle of the set, or has lost the answer to a request.
    another: bool,
}

impl ImagesDue {
    const NONE: Self = Self { expecting: false, unanswered: 0, set: Set::None, another: false };
}

/// The part of an image that has just come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) first: bool,
    pub(crate) complete: bool,
    /// The part answers a request that somebody waits for.
    pub(crate) solicited: bool,
    /// The item was lost, and this brings it back.
    pub(crate) recovery: bool,
}

/// What a part of an image says to watchers that were told the contrary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    None,
    /// The item was good, and is Suspect.
    Suspect,
    /// The item was Suspect, and is good again.
    GoodAgain,
}

/// The lists that an item is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Filing {
    pub(super) service: Option<ListKey>,
    /// The item has a stream at this session.
    pub(super) offer: Option<ListKey>,
    /// The item's provider has named this group for it, or the one before did.
    pub(super) group: Option<ListKey>,
    /// The item's image is held, and no provider publishes it.
    pub(super) unpublished: Option<ListKey>,
    /// The item has a stream at this session, and nobody watches it: counted, and on no list.
    pub(super) unwatched: Option<(SessionId, u16)>,
}

/// The list of a service's items that have ended, or that have not.
#[inline]
pub(super) const fn of_service(service: u16, ended: bool) -> ListKey {
    ListKey::new(ended as u32, service as u32)
}

/// The list of a service's items that have a stream at a session.
#[inline]
pub(super) const fn offered(session: SessionId, service: u16) -> ListKey {
    ListKey::new(service as u32, session.0)
}

/// The list of a group's items.
#[inline]
pub(super) const fn in_group(group: GroupId) -> ListKey {
    ListKey::new(0, group.0)
}

/// The list of items whose images are held, and that no provider publishes.
pub(super) const UNPUBLISHED: ListKey = ListKey::new(0, 0);

/// One item. Kept small: there are millions.
#[derive(Debug)]
pub(crate) struct Item {
    /// Canonical bytes of the key.
    key: HashedKey,
    /// The P2PSs that were told the handle and have not given it back.
    interest: P2psSet,
    stage: Stage,
    kind: Kind,
    /// As of the last image or status.
    group: GroupId,
    epoch: Epoch,
    service: u16,
    reported: Reported,
    images: ImagesDue,
    /// Failures in a row.
    failures: u8,
}

/// What an item is.
impl Item {
    /// An item that nobody has open, in no queue.
    pub(super) fn new(service: u16, key: HashedKey, kind: Kind, epoch: Epoch) -> Self {
        Self {
            key,
            interest: P2psSet::EMPTY,
            stage: Stage::Idle,
            kind,
            group: GroupId::NONE,
            epoch,
            service,
            reported: Reported::Nothing,
            images: ImagesDue::NONE,
            failures: 0,
        }
    }

    /// The lists that it is on as it is.
    pub(super) fn filing(&self) -> Filing {
        let session = self.place().map(|place| place.session);
        Filing {
            service: Some(of_service(self.service, self.is_ended())),
            offer: session.map(|session| offered(session, self.service)),
            group: (self.group != GroupId::NONE).then_some(in_group(self.group)),
            unpublished: (self.is_cached() && self.stage == Stage::Idle).then_some(UNPUBLISHED),
            unwatched: session.filter(|_| !self.has_interest()).map(|session| (session, self.service)),
        }
    }

    /// Canonical bytes of its key.
    pub(crate) fn key(&self) -> &[u8] {
        self.key.canonical()
    }

    pub(super) fn hashed_key(&self) -> &HashedKey {
        &self.key
    }

    pub(crate) fn service(&self) -> u16 {
        self.service
    }

    pub(crate) fn domain(&self) -> u8 {
        self.key().get(1).copied().unwrap_or_default()
    }

    pub(crate) fn group(&self) -> GroupId {
        self.group
    }

    pub(super) fn set_group(&mut self, group: GroupId) {
        self.group = group;
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Makes the timers that are set for it void.
    pub(super) fn renew(&mut self, epoch: Epoch) {
        debug_assert_ne!(epoch, self.epoch);
        self.epoch = epoch;
    }

    /// An instance of one open.
    pub(crate) fn is_instance(&self) -> bool {
        self.kind.is_instance()
    }

    pub(crate) fn is_private(&self) -> bool {
        matches!(self.kind, Kind::Private | Kind::PrivateSnapshot)
    }

    /// A snapshot, of either kind of service.
    pub(crate) fn is_snapshot(&self) -> bool {
        matches!(self.kind, Kind::Snapshot | Kind::PrivateSnapshot | Kind::CachedSnapshot)
    }

    /// The item's image is held here: it is published, or may be again.
    pub(crate) fn is_cached(&self) -> bool {
        self.image().is_some()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn is_of(&self, kind: Kind) -> bool {
        self.kind == kind
    }

    pub(crate) fn is_cached_snapshot(&self) -> bool {
        self.kind == Kind::CachedSnapshot
    }

    /// Where its image is held.
    pub(crate) fn image(&self) -> Option<ImageSlot> {
        match self.kind {
            Kind::Cached { image } if self.stage != Stage::Ended => Some(image),
            _ => None,
        }
    }

    /// Found by its key.
    pub(super) fn is_listed(&self) -> bool {
        !self.is_instance() && !self.is_ended()
    }
}

/// Who watches it.
impl Item {
    /// The P2PSs that were told the handle and have not given it back.
    pub(crate) fn interest(&self) -> &P2psSet {
        &self.interest
    }

    pub(crate) fn has_interest(&self) -> bool {
        !self.interest.is_empty()
    }

    /// Somebody has it open, and it has not ended.
    pub(crate) fn is_watched(&self) -> bool {
        self.has_interest() && !self.is_ended()
    }

    pub(super) fn watch(&mut self, slot: Slot) {
        assert!(!self.is_ended(), "an item that has ended is not found, and so not opened");
        self.interest.insert(slot);
    }

    pub(super) fn unwatch(&mut self, slot: Slot) {
        self.interest.remove(slot);
    }

    /// Worth keeping open for somebody who comes back: it is shared, and has an image to give.
    pub(crate) fn may_age(&self) -> bool {
        matches!((self.kind, self.stage), (Kind::Shared { .. }, Stage::Open { .. })) && self.reported.is_answered()
    }

    /// The item's last watcher is gone. True if a timer for the end of its unwatched time has to be set: there is none.
    pub(crate) fn starts_aging(&mut self, now: u64) -> bool {
        assert!(self.may_age() && !self.has_interest());
        let Kind::Shared { unwatched } = &mut self.kind else {
            hub_items::fault!("an item ages that is not shared: {self:?}");
            return false;
        };
        unwatched.replace(Since::at(now)).is_none()
    }

    /// The timer of its unwatched time has come.
    pub(crate) fn unwatched_timer(&mut self, now: u64, age: u64) -> UnwatchedTimer {
        let (Kind::Shared { unwatched }, watched) = (&mut self.kind, !self.interest.is_empty()) else {
            return UnwatchedTimer::Watched;
        };
        // The timer may have been set for an item that had the handle before.
        let Some(since) = *unwatched else { return UnwatchedTimer::Watched };
        let due = since.nanoseconds().saturating_add(age);
        if watched || now >= due {
            *unwatched = None;
        }
        match (watched, now < due) {
            (true, _) => UnwatchedTimer::Watched,
            (false, true) => UnwatchedTimer::NotYet(due),
            (false, false) => UnwatchedTimer::Over,
        }
    }
}

/// Where it stands with providers.
impl Item {
    pub(crate) fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.stage == Stage::Queued
    }

    /// Open at no provider, asked for at none, and not over: it waits.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Queued)
    }

    /// Asked for and not answered.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(self.stage, Stage::Asked { .. })
    }

    /// Open at an interactive provider.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open { .. })
    }

    /// The stream that it has, at a provider of either kind.
    pub(crate) fn place(&self) -> Option<Place> {
        match self.stage {
            Stage::Asked { session, stream }
            | Stage::Open { session, stream }
            | Stage::Published { session, stream } => Some(Place { session: SessionId(u32::from(session)), stream }),
            Stage::Idle | Stage::Queued | Stage::Ended => None,
        }
    }

    /// The item waits for a provider, in the queue of its service. False if it is there already, or over.
    pub(crate) fn queue(&mut self) -> bool {
        assert!(!self.kind.is_of_cached_service(), "a cached item is asked of nobody");
        assert!(self.place().is_none(), "an item with a stream waits for none");
        let enters = self.stage == Stage::Idle;
        if enters {
            self.stage = Stage::Queued;
        }
        enters
    }

    /// A request for it goes to this session, on this stream.
    pub(super) fn ask(&mut self, session: SessionId, stream: StreamId) {
        assert!(self.stage == Stage::Queued, "{:?} is asked for", self.stage);
        debug_assert!(self.images.set == Set::None && self.images.unanswered == 0);
        self.stage = Stage::Asked { session: slot_of(session), stream };
        self.images = ImagesDue { expecting: true, unanswered: 1, ..self.images };
    }

    /// The provider has answered: true if that is its first answer.
    pub(crate) fn first_answer(&mut self) -> bool {
        let Stage::Asked { session, stream } = self.stage else { return false };
        self.stage = Stage::Open { session, stream };
        self.failures = 0;
        true
    }

    /// The stream of its mirror is its stream from now on. Unless it goes on with the next update, an image is asked for, which is a
    /// recovery to those who watch.
    pub(super) fn take_over(&mut self, session: SessionId, stream: StreamId, in_sequence: bool) {
        assert!(self.is_open() && self.is_answered(), "{:?} is taken over", self.stage);
        self.stage = Stage::Open { session: slot_of(session), stream };
        self.failures = 0;
        if in_sequence {
            assert!(self.is_undisturbed(), "a takeover in sequence leaves nothing open");
            return;
        }
        self.reported = if self.reported.is_suspect() { Reported::Lost } else { Reported::TakenOver };
        self.images = ImagesDue { expecting: true, unanswered: 1, ..ImagesDue::NONE };
    }

    /// The item is good, and no image is under way or asked for.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.is_open() && self.reported == Reported::Good && self.images == ImagesDue::NONE
    }

    /// A mirror has taken it over, and those who watch were told nothing: its image is to come.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.reported == Reported::TakenOver
    }

    /// Takes it off its stream at an interactive provider, if it has one. What was under way is forgotten, but for an image that
    /// somebody has asked for beside the first: that is asked for again when the item is back.
    pub(super) fn leave(&mut self) -> Option<Left> {
        let (Stage::Asked { session, stream } | Stage::Open { session, stream }) = self.stage else { return None };
        let unanswered = self.is_asked();
        let asked_again = self.images.expecting && !unanswered;
        let another = asked_again || self.images.another;
        self.images = ImagesDue { another: another && self.may_recover_image(), ..ImagesDue::NONE };
        self.stage = Stage::Idle;
        let place = Place { session: SessionId(u32::from(session)), stream };
        Some(Left { place, unanswered, snapshot: self.is_snapshot() })
    }

    /// A non-interactive provider has it on this stream.
    pub(super) fn publish_on(&mut self, session: SessionId, stream: StreamId) {
        assert!(self.is_cached() && matches!(self.stage, Stage::Idle | Stage::Published { .. }));
        self.stage = Stage::Published { session: slot_of(session), stream };
    }

    /// Takes it off its non-interactive provider's stream, if it has one.
    pub(super) fn unpublish(&mut self) -> Option<Place> {
        let place = self.place()?;
        assert!(self.is_cached());
        self.stage = Stage::Idle;
        Some(place)
    }

    /// The item is over; P2PSs give the handle back. It must have no stream any more. True if it was lost.
    pub(super) fn end(&mut self) -> bool {
        assert!(self.place().is_none(), "an item ends after it has left its stream");
        let was_lost = self.reported.is_lost();
        self.stage = Stage::Ended;
        self.reported = self.reported.recovered();
        self.images = ImagesDue::NONE;
        debug_assert!(!self.is_cached() && !self.is_lost());
        was_lost
    }

    /// Another failure: how many there were in a row before.
    pub(crate) fn fail(&mut self) -> u8 {
        let before = self.failures;
        self.failures = before.saturating_add(1);
        before
    }
}

/// What its watchers know.
impl Item {
    /// Watchers have had a first image or status of the provider.
    pub(crate) fn is_answered(&self) -> bool {
        self.reported.is_answered()
    }

    /// Watchers were told that it is Suspect.
    pub(crate) fn is_suspect(&self) -> bool {
        self.reported.is_suspect()
    }

    /// The item's provider has said Suspect of it, and has it open still.
    pub(crate) fn is_suspect_there(&self) -> bool {
        self.is_open() && self.reported == Reported::Suspect
    }

    /// The item was answered and lost: the next image is a recovery.
    pub(crate) fn is_lost(&self) -> bool {
        self.reported.is_lost()
    }

    /// Lost, and no part of the image that recovers it has come: whatever else says that it is good is of before the loss.
    pub(crate) fn awaits_recovery(&self) -> bool {
        self.is_lost() && !self.in_set()
    }

    /// Watchers are told, Suspect, why they wait.
    pub(crate) fn explain_wait(&mut self) {
        self.reported = self.reported.explained();
        debug_assert!(self.is_suspect());
    }

    /// A state for all watchers. It is an answer, if the item is not answered yet.
    pub(crate) fn tell_state(&mut self, data: DataState) {
        let suspect =
            if data == DataState::NO_CHANGE { self.reported.is_suspect() } else { data == DataState::SUSPECT };
        self.reported = self.reported.data(suspect);
        debug_assert!(self.is_answered());
    }

    /// The item's provider is there and sends no data: the next image is a recovery. False if it was not good, or an image of it is under way.
    pub(crate) fn fall_silent(&mut self) -> bool {
        let falls = self.is_open() && !self.is_private() && self.reported == Reported::Good && !self.in_set();
        if falls {
            self.reported = Reported::Lost;
        }
        falls
    }

    /// The item's provider is gone. True if it was not lost already; an item without an answer has nothing to lose.
    pub(crate) fn lose(&mut self) -> bool {
        assert!(!self.is_private() && !self.is_ended(), "a private stream ends with its provider");
        debug_assert!(!self.is_open() && !self.is_asked());
        let newly = self.reported.is_answered() && !self.reported.is_lost();
        if self.reported.is_answered() {
            self.reported = Reported::Lost;
        }
        newly
    }
}

/// Images that are to come.
impl Item {
    /// Between the first and the last part of an image.
    pub(crate) fn in_set(&self) -> bool {
        self.images.set != Set::None
    }

    /// The provider owes a solicited image.
    pub(crate) fn is_expecting(&self) -> bool {
        self.images.expecting
    }

    /// Requests for an image that may still be answered.
    pub(crate) fn unanswered(&self) -> u8 {
        self.images.unanswered
    }

    /// Another image has to follow the one that is under way, or the loss.
    pub(crate) fn want_another(&mut self) {
        assert!(!self.is_ended());
        self.images.another = true;
    }

    /// Somebody waits for an image beside those that the loss of the item is told to.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.images.another || !(self.is_answered() || self.is_suspect())
    }

    /// Whether an image that nobody will get now is to be asked for when the item is back.
    pub(crate) fn may_recover_image(&self) -> bool {
        self.is_answered() && !self.is_instance()
    }

    /// Another image is asked for on its stream.
    pub(crate) fn request_image(&mut self) {
        assert!(self.is_open() && !self.in_set());
        self.images.expecting = true;
        self.images.unanswered = self.images.unanswered.saturating_add(1);
    }

    /// Whether something is to come that its timer is set for: an answer, the rest of a set, a provider to ask.
    pub(crate) fn awaits_something(&self) -> bool {
        let waits_here = matches!(self.stage, Stage::Idle | Stage::Queued | Stage::Asked { .. });
        waits_here || self.images.expecting || self.in_set()
    }

    /// What was asked for on its stream has not come in time. True if somebody waits for it.
    pub(crate) fn give_up_image(&mut self) -> bool {
        let due = self.is_open() && self.images.expecting && !self.in_set();
        if due {
            self.images.expecting = false;
        }
        due
    }

    /// Whether the part that comes now is the first of a set.
    pub(crate) fn begins_set(&self, part_num: Option<u16>) -> bool {
        !self.in_set() || part_num == Some(0)
    }

    /// The first part of a set comes. True if it answers a request: [`Self::settle`] has to follow.
    pub(crate) fn begin_set(&mut self, solicited: bool) -> bool {
        assert!(self.is_open(), "images come on open streams: {:?}", self.stage);
        let answers = solicited && self.images.unanswered > 0;
        // Another answer to a request that was repeated is nobody's any more.
        self.images.set = if answers && self.images.expecting { Set::Solicited } else { Set::Unsolicited };
        self.images.unanswered -= u8::from(answers);
        answers
    }

    /// The set that begins answers a request, but not those of others, if there are any: they are served by the answers still to
    /// come, or by another request.
    pub(crate) fn settle(&mut self, others_owed: bool) {
        assert!(self.in_set());
        self.images.expecting = others_owed && self.images.unanswered > 0;
        self.images.another |= others_owed;
    }

    /// A part has come, of a set that has begun. What it says to watchers that were told the contrary: a good part in the middle is
    /// news to those that are in this set only, so the others are owed another image.
    pub(crate) fn take_part(&mut self, first: bool, complete: bool, data: DataState) -> (Part, News) {
        assert!(self.in_set() && self.is_open());
        let solicited = self.images.set == Set::Solicited;
        let part = Part { first, complete, solicited, recovery: self.is_lost() };
        let (was_good, was_suspect) = (self.is_answered() && !self.is_suspect(), self.is_suspect());
        let (good, suspect) = (data == DataState::OK, data == DataState::SUSPECT);
        let stays_suspect = suspect || (was_suspect && !first && !good);
        self.reported = self.reported.data(stays_suspect);
        let good_again = was_suspect && good;
        self.images.another |= good_again && !first;
        if complete {
            self.images.set = Set::None;
        }
        let news = match (was_good && suspect, good_again) {
            (true, _) => News::Suspect,
            (_, true) => News::GoodAgain,
            _ => News::None,
        };
        (part, news)
    }

    /// A part of a cached item's image has come.
    pub(crate) fn take_cached_part(&mut self, first: bool, complete: bool, data: DataState) -> Part {
        assert!(self.is_cached());
        let part = Part { first, complete, solicited: false, recovery: self.is_lost() };
        self.images.set = if complete { Set::None } else { Set::Unsolicited };
        self.reported = self.reported.data(data == DataState::SUSPECT);
        part
    }

    /// The last part has come: whether another image has to follow, and whether the item was lost.
    pub(crate) fn complete_set(&mut self) -> (bool, bool) {
        assert!(!self.in_set());
        let was_lost = self.is_lost();
        self.reported = self.reported.recovered();
        (std::mem::take(&mut self.images.another), was_lost)
    }

    /// The set of a cached item that is under way will not be completed. Whether somebody waits for it, if there is one.
    pub(crate) fn abandon_cached_set(&mut self) -> Option<bool> {
        assert!(self.is_cached());
        let abandoned = self.in_set();
        self.images.set = Set::None;
        let waits = std::mem::take(&mut self.images.another);
        abandoned.then_some(waits)
    }
}

impl Item {
    /// Asserts what the module's tables say.
    pub(crate) fn check(&self, handle: Handle) {
        let ImagesDue { expecting, unanswered, set, another } = self.images;
        let under_way = expecting || unanswered > 0 || set != Set::None;
        let recoverable = self.may_recover_image();
        assert!(!expecting || unanswered > 0, "an image is expected that nobody was asked for: {handle:?} {self:?}");
        let legal = match (self.kind, self.stage) {
            (_, Stage::Ended) => !under_way && !another && !self.is_lost() && self.has_interest(),
            (Kind::CachedSnapshot, Stage::Idle) => !under_way && !another && self.reported == Reported::Nothing,
            (Kind::Cached { .. }, Stage::Idle | Stage::Published { .. }) => {
                !expecting && unanswered == 0 && (!another || set != Set::None)
            }
            (Kind::Cached { .. } | Kind::CachedSnapshot, _) | (_, Stage::Published { .. }) => false,
            (_, Stage::Idle | Stage::Queued) => !under_way && (!another || recoverable),
            (_, Stage::Asked { .. }) => expecting && unanswered == 1 && set == Set::None,
            (_, Stage::Open { .. }) => true,
        };
        assert!(legal, "illegal state of {handle:?}: {self:?}");
        assert!(!(self.is_private() && self.is_lost()), "a private stream is lost: {handle:?} {self:?}");
        let ages = matches!(self.kind, Kind::Shared { unwatched: Some(_) }) && self.may_age();
        assert!(self.has_interest() || self.is_cached() || ages, "held for nobody: {handle:?} {self:?}");
    }
}

fn slot_of(session: SessionId) -> u16 {
    u16::try_from(session.0).expect("sessions beyond this slot are refused")
}

mod another_kind;
#[cfg(test)]
mod tests;
