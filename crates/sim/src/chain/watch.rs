//! The oracle of one item stream of a consumer: what may come on it, given what came before and what providers said.

use super::content::{Item, Rows, Truth, View, apply, is_trade, life_and_version, read_body, seen, seen_changes};
use super::filtering::Filtering;
use super::provider::MARK;
use rwf::msg::{RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::rdm::state::Recovery;
use rwf::{DataState, State, StreamState};

/// The kind of a stream when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Streaming,
    Snapshot,
    Private,
}

/// A multi-part image under way.
#[derive(Debug, Clone, Copy)]
struct Set {
    /// The provider's number of it; images from the cache have none.
    id: Option<u32>,
    next_part: u16,
    solicited: bool,
}

/// The view of a watcher before it took a narrower one; the whole item if that was no view.
#[derive(Debug, Clone)]
struct Narrowed {
    from: Option<View>,
}

/// One item stream.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) item: Item,
    pub(crate) kind: Kind,
    pub(crate) view: Option<View>,
    /// What comes of that: not all of it passes everywhere.
    pub(crate) shown: Option<View>,
    /// The view of before, in the turn in which a narrower view was taken without an image: an update of before may be on its way.
    shown_before: Option<Narrowed>,
    filtering: Filtering,
    /// The consumer has paused it.
    pub(crate) paused: bool,
    /// The server stands by for the consumer.
    pub(crate) stands_by: bool,
    /// Turn in which it was asked for: a reissue before the answer to a refused request would be a request.
    pub(crate) opened: u64,
    /// An image was asked for and has not come.
    pub(crate) asked: bool,
    /// The answer has begun.
    begun: bool,
    /// Another image was asked for since then.
    again: bool,
    /// An image will come that was not asked for: resumed or widened without refresh.
    pub(crate) unasked: bool,
    /// The stream had its first image, or a part of it.
    pub(crate) imaged: bool,
    /// The stream is over.
    pub(crate) ended: Option<StreamState>,
    /// Quoteway itself said Suspect, and no image came since: updates have no ground.
    lost: bool,
    /// The image shows less than the view: it answered an older request.
    partial: bool,
    /// Quoteway's answer then.
    said: Vec<u8>,
    pub(crate) data: DataState,
    pub(crate) life: u16,
    version: u16,
    set: Option<Set>,
    pub(crate) rows: Rows,
    pub(crate) group: Vec<u8>,
    /// The stream missed updates by its own wish: paused, or another view.
    gap: bool,
    /// Since when it waits for an image that it has to have before it can go on. None if it does not wait.
    waits_since: Option<u64>,
    /// The stream was told Suspect, and nothing better since: that explains the wait.
    explained: bool,
    /// The stream's updates may be merged.
    pub(crate) conflated: bool,
    /// The item's provider may be followed by a hot standby: without a word of a loss another image comes, which begins afresh.
    pub(crate) hot: bool,
    /// The stream has heard something since it was looked at last: its time begins again.
    heard: bool,
}

impl Watch {
    pub(crate) fn new(
        item: Item,
        kind: Kind,
        view: Option<View>,
        paused: bool,
        filtering: Filtering,
        (opened, now): (u64, u64),
    ) -> Self {
        Self {
            item,
            kind,
            shown: filtering.shown(item, view.as_ref()),
            shown_before: None,
            view,
            filtering,
            paused,
            stands_by: false,
            opened,
            asked: true,
            begun: false,
            again: false,
            unasked: false,
            imaged: false,
            ended: None,
            lost: false,
            partial: false,
            said: Vec::new(),
            data: DataState::NO_CHANGE,
            life: 0,
            version: 0,
            set: None,
            rows: Rows::new(),
            group: Vec::new(),
            gap: false,
            waits_since: Some(now),
            explained: false,
            conflated: false,
            hot: false,
            heard: false,
        }
    }

    /// Whether it has waited for longer than this without an image or a word on why.
    pub(crate) fn is_unanswered(&mut self, now: u64, limit: u64) -> bool {
        if std::mem::take(&mut self.heard) {
            self.waits_since = self.waits_since.map(|_| now);
        }
        self.ended.is_none() && !self.explained && self.waits_since.is_some_and(|since| now - since > limit)
    }

    /// The stream has asked for something else at this time: it waits from now on if it cannot go on with what it has.
    pub(crate) fn asked_at(&mut self, now: u64) {
        if self.is_silent() && !self.asked {
            self.waits_since = None;
        } else if self.gap || !self.imaged {
            self.waits_since.get_or_insert(now);
        }
    }

    /// No updates are to come.
    pub(crate) fn is_silent(&self) -> bool {
        self.paused || self.stands_by
    }

    /// The stream has had an image, and gets no updates before the next one.
    pub(crate) fn misses(&self) -> bool {
        self.imaged && (self.gap || self.is_silent())
    }

    /// Whether the stream is whole and current as far as it knows.
    pub(crate) fn is_good(&self) -> bool {
        self.imaged && self.set.is_none() && !(self.asked || self.unasked) && !self.lost && self.data == DataState::OK
    }

    /// The consumer asks for an image.
    pub(crate) fn ask(&mut self) {
        if self.begun && self.set.is_some() {
            self.again = true;
        } else {
            self.asked = true;
        }
    }

    /// The consumer misses updates by its own wish from now on.
    pub(crate) fn miss(&mut self) {
        self.gap = true;
        self.break_off();
    }

    /// A set that is under way will not be completed; what it was to answer is owed as before.
    fn break_off(&mut self) {
        if self.set.take().is_some() {
            (self.begun, self.again) = (false, false);
        }
    }

    /// The consumer asks for another view. With `at_once` nothing that it has is to be replaced; false if it has to wait
    /// for an image all the same.
    pub(crate) fn change_view(&mut self, view: Option<View>, at_once: bool) -> bool {
        self.view = view;
        let before = std::mem::replace(&mut self.shown, self.filtering.shown(self.item, self.view.as_ref()));
        self.rows = seen(&self.rows, self.shown.as_ref());
        let waits = !at_once || !self.imaged || self.gap || self.asked || self.set.is_some();
        if waits {
            self.miss();
        } else {
            self.shown_before = Some(Narrowed { from: before });
        }
        !waits
    }

    /// The turn in which the view was changed is over: all that comes is of the new one.
    pub(crate) fn view_has_arrived(&mut self) {
        self.shown_before = None;
    }

    /// A refresh has come.
    pub(crate) fn refresh(&mut self, msg: &RefreshMsg<'_>, policy: Recovery, truth: &Truth) {
        assert!(self.ended.is_none(), "a refresh after the end");
        let flag = |flag| msg.flags.contains(flag);
        self.check_state(&msg.state, policy);
        assert_eq!(flag(RefreshFlags::PRIVATE_STREAM), self.kind == Kind::Private, "PRIVATE_STREAM");
        let key = msg.key.expect("a refresh has a key");
        assert_eq!((key.name, msg.domain.0), (Some(self.item.name.as_bytes()), self.item.domain), "key of a refresh");
        let (life, version) = life_and_version(msg.seq_num.expect("a refresh has its provider's sequence number"));
        let versions = truth.known(life, self.item).expect("a life that has the item");
        let id = msg.ext_header.map(|header| u32::from_be_bytes(header.try_into().expect("a set's number")));
        let solicited = flag(RefreshFlags::SOLICITED);
        let complete = flag(RefreshFlags::REFRESH_COMPLETE);
        match self.set {
            None => self.begin(msg, (life, version), id, versions, truth),
            Some(_) if msg.part_num.is_none_or(|part| part == 0) => {
                // The set was broken off; another begins.
                self.begin(msg, (life, version), id, versions, truth);
            }
            Some(set) => {
                assert_eq!(msg.part_num, Some(set.next_part), "parts in order");
                assert_eq!(id, set.id, "all parts of one set");
                assert_eq!(solicited, set.solicited, "all parts solicited or none");
                assert!(!flag(RefreshFlags::CLEAR_CACHE), "CLEAR_CACHE after the first part");
                assert_eq!(life, self.life, "parts of one life");
                self.no_gap(version, versions);
                self.version = version;
            }
        }
        apply(&mut self.rows, &read_body(msg.container, msg.body));
        self.group = msg.group_id.to_vec();
        self.imaged = true;
        self.data = msg.state.data;
        (self.waits_since, self.explained) = (None, msg.state.data == DataState::SUSPECT);
        // A paused stream lacks the updates between the parts, and is told of no loss in the middle of a set.
        self.gap |= self.is_silent();
        let next_part = self.set.map_or(1, |set| set.next_part + 1);
        self.set = (!complete).then_some(Set { id, next_part, solicited });
        self.begun |= solicited;
        if complete {
            let expected = seen(&versions[usize::from(version)].rows, self.shown.as_ref());
            self.image_is_whole(msg.state.stream, id, &expected, truth);
        }
    }

    /// The last part of an image has come, whose content is to be as expected.
    fn image_is_whole(&mut self, stream: StreamState, id: Option<u32>, expected: &Rows, truth: &Truth) {
        // An answer that was broken off may come as a recovery.
        if std::mem::take(&mut self.begun) {
            self.asked = std::mem::take(&mut self.again);
        }
        self.unasked = false;
        // A held image that is Suspect may be of several lives.
        let held = id.is_none() && self.data == DataState::SUSPECT;
        // Any of several answers may be to an older, narrower request; the next one makes up for it.
        let late = id.is_some_and(|id| truth.set(id).late);
        self.partial = late && self.rows != *expected;
        if !self.is_silent() && !held && !self.partial {
            assert_eq!(&self.rows, expected, "content of the image of version {} in life {}", self.version, self.life);
        }
        if self.kind == Kind::Snapshot {
            assert_eq!(stream, StreamState::NON_STREAMING, "state of a snapshot");
        }
        if stream != StreamState::OPEN {
            self.ended = Some(stream);
        }
    }

    /// The first part of an image.
    fn begin(
        &mut self,
        msg: &RefreshMsg<'_>,
        (life, version): (u16, u16),
        id: Option<u32>,
        versions: &[super::content::Version],
        truth: &Truth,
    ) {
        let solicited = msg.flags.contains(RefreshFlags::SOLICITED);
        let clear = msg.flags.contains(RefreshFlags::CLEAR_CACHE);
        assert!(msg.part_num.is_none_or(|part| part == 0), "a set begins with part {:?}", msg.part_num);
        let suspect = self.data == DataState::SUSPECT;
        let taken_over = self.hot && clear;
        if !self.imaged {
            assert!(solicited || !self.asked, "the first image is solicited");
        } else if solicited {
            assert!(self.asked, "a solicited image that nobody asked for");
        } else {
            let by_provider = id.is_some_and(|id| truth.set(id).for_everyone);
            let broken_off = self.set.is_some();
            assert!(
                by_provider || suspect || self.unasked || broken_off || taken_over,
                "an image that is nothing to this watcher"
            );
        }
        if self.imaged && !self.gap && !self.lost && !suspect && !taken_over {
            assert_eq!(life, self.life, "another life without a Suspect between");
            self.no_gap(version, versions);
        }
        if self.imaged && self.lost && !solicited {
            assert!(clear, "a recovery image without CLEAR_CACHE");
        }
        if clear || !self.imaged || solicited {
            self.rows.clear();
        }
        self.break_off();
        (self.life, self.version) = (life, version);
        (self.lost, self.gap) = (false, false);
    }

    /// Nothing that the view shows happened after what this stream has had, up to `version`.
    fn no_gap(&self, version: u16, versions: &[super::content::Version]) {
        assert!(version >= self.version, "version {version} after {}", self.version);
        for missed in self.version + 1..=if self.is_silent() { 0 } else { version } {
            let changes = &versions[usize::from(missed)].changes;
            assert!(seen_changes(changes, self.shown.as_ref()).is_empty(), "update {missed} was lost");
        }
    }

    /// An update has come.
    pub(crate) fn update(&mut self, msg: &UpdateMsg<'_>, truth: &Truth) {
        assert!(self.ended.is_none(), "an update after the end");
        assert!(self.imaged, "an update before the image");
        assert!(!self.is_silent(), "an update while paused");
        assert!(!self.gap, "an update before the image that a change of view asked for");
        assert!(!self.lost, "an update between Suspect and the next image");
        assert!(self.kind != Kind::Snapshot || self.set.is_some(), "an update of a snapshot, not between parts");
        let (life, version) = life_and_version(msg.seq_num.expect("an update has its provider's sequence number"));
        assert_eq!(life, self.life, "an update of another life");
        assert!(version > self.version, "update {version} after {}: repeated or out of order", self.version);
        let versions = truth.known(life, self.item).expect("a life that has the item");
        let is_merged = msg.conflation.is_some_and(|conflation| conflation.count > 1);
        if is_merged {
            assert!(self.conflated, "a merged update for one who gets all");
            assert!(!self.item.is_page(), "updates of a page are merged");
            let trades = (self.version + 1..=version).filter(|&at| is_trade(at));
            let seen = |at: &u16| !seen_changes(&versions[usize::from(*at)].changes, self.shown.as_ref()).is_empty();
            assert_eq!(trades.filter(seen).count(), 0, "a trade is merged, between {} and {version}", self.version);
        } else if !self.partial {
            self.no_gap(version - 1, versions);
        }
        if let Some(key) = msg.key {
            assert_eq!(key.name, Some(self.item.name.as_bytes()), "key of an update");
        }
        let mut changes = read_body(msg.container, msg.body);
        let view = self.shown.as_ref();
        if let Some(Narrowed { from: before }) = &self.shown_before {
            let is_older =
                is_merged || changes == seen_changes(&versions[usize::from(version)].changes, before.as_ref());
            if is_older {
                changes = seen_changes(&changes, view);
            }
        }
        if self.item.is_map() {
            assert!(!changes.is_empty(), "an empty update");
        } else if !self.partial && !is_merged {
            assert_eq!(changes, seen_changes(&versions[usize::from(version)].changes, view), "changes of {version}");
        }
        apply(&mut self.rows, &changes);
        self.version = version;
        if self.set.is_none() && !self.partial {
            let expected = seen(&versions[usize::from(version)].rows, view);
            assert_eq!(self.rows, expected, "content after update {version} in life {life}");
        }
    }

    /// A status has come on the stream.
    pub(crate) fn status(&mut self, msg: &StatusMsg<'_>, policy: Recovery) {
        assert!(self.ended.is_none(), "a status after the end");
        if let Some(group) = msg.group_id {
            self.group = group.to_vec();
        }
        if let Some(state) = &msg.state {
            self.check_state(state, policy);
            self.take_state(state);
        }
    }

    /// A state for many streams has come by the directory.
    pub(crate) fn relayed(&mut self, state: &State<'_>) {
        if self.ended.is_none() && self.imaged {
            self.take_state(state);
        }
    }

    fn take_state(&mut self, state: &State<'_>) {
        // An image that is Suspect is told by a status to those that it is not for.
        let own = !state.text.starts_with(MARK.as_bytes()) && state.text != b"P: image";
        match state.data {
            DataState::SUSPECT => self.explained = true,
            DataState::OK => (self.explained, self.heard) = (false, true),
            _ => {}
        }
        if state.stream.is_final() || state.stream == StreamState::NON_STREAMING {
            self.ended = Some(state.stream);
            return;
        }
        if own && state.data == DataState::SUSPECT {
            // Another loss before it is recovered is news; what is said of a whole service is said to those who know it.
            let of_service = state.text.starts_with(b"The source of service") || state.text.ends_with(b"is gone.");
            let news = self.said != state.text || of_service;
            let waits = self.is_silent() || self.asked || self.unasked;
            assert!(!self.lost || news || waits, "Suspect again, without an image between");
            if self.imaged {
                self.lost = true;
                self.said = state.text.to_vec();
            }
        }
        assert!(!own || state.data == DataState::SUSPECT || state.data == DataState::NO_CHANGE, "who says {state}?");
        if state.data == DataState::OK {
            let waits = self.is_silent() || self.asked || self.unasked;
            assert!(!self.lost || waits, "good again without an image: {state}");
            self.said.clear();
        }
        if self.imaged && state.data != DataState::NO_CHANGE && !self.lost {
            self.data = state.data;
        } else if self.lost {
            self.data = DataState::SUSPECT;
        }
    }

    /// The guide's table of `SingleOpen` and `AllowSuspectData`.
    fn check_state(&self, state: &State<'_>, policy: Recovery) {
        let private = self.kind == Kind::Private;
        let suspect = state.stream == StreamState::OPEN && state.data == DataState::SUSPECT;
        assert!(!suspect || policy.single_open || policy.allow_suspect_data, "{state} to one who takes neither");
        // The item may be published again, and then is good again; who was told this would not hear of it.
        let unpublished = state.text.starts_with(b"Item is not published");
        assert!(!(unpublished && self.imaged && self.kind != Kind::Snapshot), "{state} to one who has had the item");
        let recover = state.stream == StreamState::CLOSED_RECOVER;
        assert!(!recover || !policy.single_open || private, "{state} to one who lets the server recover");
    }
}
