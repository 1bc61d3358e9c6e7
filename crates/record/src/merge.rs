//! Several recordings that are played as one, in the order of their times.
//!
//! An item that several have is that of the first one which has a good image of it: whole, not behind a gap, and with the recording going on. So a gap
//! of one recording is filled by another that was written beside it, and one that is over by the next. Where none has a good one, an image counts
//! more than none, one of a recording that goes on more than one of a recording that is over, and of those the one that went on longest.

use crate::error::Error;
use crate::play::{By, Play, Player, PlayerItem};
use crate::reader::Recording;
use crate::record::{Gap, GapReason, Item, Kind};
use crate::store::Store;
use rwf::image::Image;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// An item of a merge: its place in [`Merge::items`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MergedItem(pub u32);

/// An item as the recording has it that counts.
#[derive(Debug)]
pub struct Shown<'p, 'a, S> {
    player: &'p Player<'a, S>,
    own: PlayerItem,
    /// Its recording is over, and others go on.
    is_left: bool,
}

impl<S> Clone for Shown<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Shown<'_, '_, S> {}

impl<'p, S: Store> Shown<'p, '_, S> {
    /// The image, if it is open and whole.
    pub fn image(&self) -> Option<&'p Image> {
        self.player.image(self.own)
    }

    /// Whether the image is behind a gap: it is Suspect.
    pub fn is_in_gap(&self) -> bool {
        self.is_left || self.player.is_in_gap(self.own)
    }

    /// Whether a refresh in several parts is under way.
    pub fn is_refreshing(&self) -> bool {
        self.player.is_refreshing(self.own)
    }

    /// The image as refreshes without a stream, complete or empty.
    pub fn parts(&self) -> Vec<Vec<u8>> {
        self.player.parts(self.own)
    }
}

/// Something that happens in recordings that are played as one.
#[derive(Debug)]
pub enum Event<'e, 'a, S> {
    /// A message of an item, as it was received. The item's image has it already.
    Message {
        /// The item.
        item: MergedItem,
        /// The item behind the message.
        shown: Shown<'e, 'a, S>,
        /// Kind of the message.
        kind: Kind,
        /// The message.
        body: &'e [u8],
    },
    /// An item's image is another one than the messages before have made it: it came out of a checkpoint, or another recording's counts from here on.
    Image {
        /// The item.
        item: MergedItem,
        /// The item with its image.
        shown: Shown<'e, 'a, S>,
    },
    /// From here on something of an item with an image is missing: it is Suspect.
    Gap {
        /// The item.
        item: MergedItem,
        /// The gap.
        gap: Gap,
    },
    /// A message of the directory.
    Directory {
        /// Place of the recording that has it.
        recording: usize,
        /// The message.
        body: &'e [u8],
    },
}

/// A recording on its way.
#[derive(Debug)]
struct Track<'a, S> {
    player: Player<'a, S>,
    due: Option<u64>,
    /// Time of its last record.
    end: u64,
    /// By the player's items.
    merged: Vec<MergedItem>,
}

/// Where an item is: which track, and which item of it.
type Place = (usize, PlayerItem);

/// Who has an item.
#[derive(Debug, Default)]
struct Holders {
    all: Vec<Place>,
    /// The one that counts.
    at: usize,
}

/// Recordings that are played as one. Time is an argument, so that the same recordings and calls give the same.
#[derive(Debug)]
pub struct Merge<'a, S> {
    tracks: Vec<Track<'a, S>>,
    items: Vec<Item>,
    places: HashMap<Item, MergedItem>,
    holders: Vec<Holders>,
    /// Each item is one of a single recording: that one counts always.
    is_single: bool,
    /// Everything up to here is in the images.
    time: u64,
}

/// What the players of all tracks say, while one of them may be lent: it stands beside the others.
struct Others<'v, 'a, S> {
    before: &'v [Track<'a, S>],
    this: (&'v Player<'a, S>, bool, u64),
    after: &'v [Track<'a, S>],
}

impl<'v, 'a, S: Store> Others<'v, 'a, S> {
    /// The player of a track, whether it is over, and its end.
    fn of(&self, track: usize) -> (&'v Player<'a, S>, bool, u64) {
        let other = |track: &'v Track<'a, S>| (&track.player, track.due.is_none(), track.end);
        match track.checked_sub(self.before.len()) {
            None => other(&self.before[track]),
            Some(0) => self.this,
            Some(behind) => other(&self.after[behind - 1]),
        }
    }

    fn last_end(&self) -> u64 {
        let others = self.before.iter().chain(self.after).map(|track| track.end);
        others.fold(self.this.2, u64::max)
    }

    /// An item of a track.
    fn shown(&self, (track, own): Place) -> Shown<'v, 'a, S> {
        let (player, is_over, end) = self.of(track);
        Shown { player, own, is_left: is_over && end < self.last_end() }
    }

    /// Who of the holders counts.
    fn best(&self, all: &[Place]) -> usize {
        let rank = |(at, (track, own)): &(usize, Place)| {
            let (player, is_over, end) = self.of(*track);
            let worth = match player.image(*own) {
                None => (0, 0),
                Some(_) if is_over => (1, end),
                Some(_) if player.is_in_gap(*own) => (2, 0),
                Some(_) => (3, 0),
            };
            (worth, Reverse(*at))
        };
        all.iter().copied().enumerate().max_by_key(rank).map_or(0, |(at, _)| at)
    }
}

/// Takes what happens.
type Each<'c, 'a, S> = &'c mut dyn FnMut(Event<'_, 'a, S>);

impl<'a, S: Store> Merge<'a, S> {
    /// The items of recordings as they were behind all records up to a time, nanoseconds since 1970. `serve` says under which item each is found, or
    /// that it is left out; what it gives the same one is one item. From there on they go by one of their clocks.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn at(
        recordings: &[&'a Recording<S>],
        time: u64,
        by: By,
        serve: &dyn Fn(&Item) -> Option<Item>,
    ) -> Result<Self, Error> {
        let mut found: BTreeMap<Item, Vec<Place>> = BTreeMap::new();
        let mut tracks = Vec::with_capacity(recordings.len());
        for (n, recording) in recordings.iter().enumerate() {
            let player = Player::at_by(recording, time, by, &|item| serve(item).is_some())?;
            for (own, item) in player.items().iter().enumerate() {
                if let Some(served) = serve(item) {
                    found.entry(served).or_default().push((n, PlayerItem(own as u32)));
                }
            }
            let merged = vec![MergedItem(0); player.items().len()];
            let end = recording.info().span.map_or(0, |(_, last)| last);
            tracks.push(Track { player, due: None, end, merged });
        }
        let (mut items, mut holders) = (Vec::new(), Vec::new());
        for (place, (item, all)) in found.into_iter().enumerate() {
            for (track, own) in &all {
                tracks[*track].merged[own.0 as usize] = MergedItem(place as u32);
            }
            items.push(item);
            holders.push(Holders { all, at: 0 });
        }
        let places = items.iter().cloned().zip((0..).map(MergedItem)).collect();
        let is_single = holders.iter().all(|holders: &Holders| holders.all.len() == 1);
        let mut merge = Self { tracks, items, places, holders, is_single, time };
        merge.begin()?;
        Ok(merge)
    }

    /// Goes to a time, forwards or back: the images are those of then.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn seek(&mut self, time: u64) -> Result<(), Error> {
        self.tracks.iter_mut().try_for_each(|track| track.player.seek(time))?;
        self.begin()
    }

    fn begin(&mut self) -> Result<(), Error> {
        // By the sources' clocks they are not at the same time: the first one has to wait for none.
        self.time = self.tracks.iter().map(|track| track.player.time()).min().unwrap_or(self.time);
        for track in &mut self.tracks {
            track.due = track.player.due()?;
        }
        if let Some((this, after)) = self.tracks.split_first() {
            let others = Others { before: &[], this: (&this.player, this.due.is_none(), this.end), after };
            self.holders.iter_mut().for_each(|holders| holders.at = others.best(&holders.all));
        }
        Ok(())
    }

    /// The items, in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The item under which something is served.
    pub fn find(&self, item: &Item) -> Option<MergedItem> {
        self.places.get(item).copied()
    }

    /// An item as the recording has it that counts; `None` for one that is none of this.
    pub fn shown(&self, item: MergedItem) -> Option<Shown<'_, 'a, S>> {
        let holders = self.holders.get(item.0 as usize)?;
        let (this, after) = self.tracks.split_first()?;
        let others = Others { before: &[], this: (&this.player, this.due.is_none(), this.end), after };
        holders.all.get(holders.at).map(|place| others.shown(*place))
    }

    /// The time that it has come to, by the clock that it goes by.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// When something comes; `None` at the end of all.
    pub fn due(&self) -> Option<u64> {
        self.tracks.iter().filter_map(|track| track.due).min()
    }

    /// Whether a recording, by its place, is over.
    pub fn is_over(&self, recording: usize) -> bool {
        self.tracks.get(recording).is_none_or(|track| track.due.is_none())
    }

    /// Gives what comes up to a time, but no more than about `limit` things; tells how many records there were.
    ///
    /// # Errors
    /// A segment cannot be read. What was given until then has happened.
    pub fn advance(&mut self, until: u64, limit: usize, each: Each<'_, 'a, S>) -> Result<usize, Error> {
        let mut count = 0;
        while count < limit {
            let next = self.tracks.iter().enumerate().filter_map(|(n, track)| Some((track.due?, n))).min();
            let Some((_, n)) = next.filter(|(due, _)| *due <= until) else { break };
            // As far as no other one has its turn: of two at a time the first is first.
            let bound = self.tracks.iter().enumerate().filter(|(other, _)| *other != n).filter_map(|(other, track)| {
                let due = track.due?;
                Some(if other < n { due.saturating_sub(1) } else { due })
            });
            let bound = bound.fold(until, u64::min);
            count += self.step(n, bound, limit - count, each)?;
        }
        if count < limit
            && let Some(due) = self.due()
        {
            self.time = self.time.max(until.min(due.saturating_sub(1)));
        }
        Ok(count)
    }

    /// Takes one recording on.
    fn step(&mut self, n: usize, until: u64, limit: usize, each: Each<'_, 'a, S>) -> Result<usize, Error> {
        let (before, rest) = self.tracks.split_at_mut(n);
        let Some((Track { player, due, end, merged }, after)) = rest.split_first_mut() else { return Ok(0) };
        let (holders, is_single, end) = (&mut self.holders, self.is_single, *end);
        let count = player.advance(until, limit, &mut |player, play| {
            let others = Others { before, this: (player, false, end), after };
            let mut turn = Turn { n, merged, holders, is_single, others, each };
            match play {
                Play::Message { item, kind, body } => turn.message(item, kind, body),
                Play::Image(own) => {
                    if turn.stays(own) {
                        turn.image(merged[own.0 as usize]);
                    }
                }
                Play::Gap(gap) => turn.gap(gap),
                Play::Directory(body) => (turn.each)(Event::Directory { recording: n, body }),
            }
        })?;
        *due = player.due()?;
        self.time = self.time.max(player.time());
        if due.is_none() && self.tracks.len() > 1 {
            self.leave(n, each);
        }
        Ok(count)
    }

    /// A recording is over, and others go on: what only it has is not told of any more.
    fn leave(&mut self, n: usize, each: Each<'_, 'a, S>) {
        let (before, rest) = self.tracks.split_at(n);
        let Some((Track { player, end, merged, .. }, after)) = rest.split_first() else { return };
        let others = Others { before, this: (player, true, *end), after };
        let is_last = *end >= others.last_end();
        let mut turn = Turn { n, merged, holders: &mut self.holders, is_single: self.is_single, others, each };
        if is_last {
            for own in 0..merged.len() {
                turn.stays(PlayerItem(own as u32));
            }
        } else {
            turn.gap(Gap { reason: GapReason::Restart, from: *end, to: *end, messages: None, bytes: 0 });
        }
    }
}

/// What a recording tells, on its way to who listens.
struct Turn<'t, 'c, 'a, S> {
    n: usize,
    merged: &'t [MergedItem],
    holders: &'t mut [Holders],
    is_single: bool,
    others: Others<'t, 'a, S>,
    each: Each<'c, 'a, S>,
}

impl<S: Store> Turn<'_, '_, '_, S> {
    /// Whether it is this recording's item that counts.
    fn counts(&self, own: PlayerItem) -> bool {
        if self.is_single {
            return true;
        }
        let holders = &self.holders[self.merged[own.0 as usize].0 as usize];
        holders.all.get(holders.at) == Some(&(self.n, own))
    }

    /// Has the one count that does now, and tells its image if it is another one than before. Whether it is this recording's item, as before.
    fn stays(&mut self, own: PlayerItem) -> bool {
        let item = self.merged[own.0 as usize];
        let holders = &mut self.holders[item.0 as usize];
        if let [_, _, ..] = holders.all[..] {
            let before = std::mem::replace(&mut holders.at, self.others.best(&holders.all));
            if holders.at != before {
                self.image(item);
                return false;
            }
        }
        self.counts(own)
    }

    fn image(&mut self, item: MergedItem) {
        let holders = &self.holders[item.0 as usize];
        let Some(place) = holders.all.get(holders.at) else { return };
        (self.each)(Event::Image { item, shown: self.others.shown(*place) });
    }

    fn message(&mut self, own: PlayerItem, kind: Kind, body: &[u8]) {
        // Only these can make an image good or bad.
        let is_state = matches!(kind, Kind::Refresh | Kind::Status);
        let is_told = if is_state { self.stays(own) } else { self.counts(own) };
        if is_told {
            let (item, shown) = (self.merged[own.0 as usize], self.others.shown((self.n, own)));
            (self.each)(Event::Message { item, shown, kind, body });
        }
    }

    /// All items of this recording are behind a gap.
    fn gap(&mut self, gap: Gap) {
        for own in (0..self.merged.len()).map(|own| PlayerItem(own as u32)) {
            if self.others.this.0.image(own).is_some() && self.stays(own) {
                (self.each)(Event::Gap { item: self.merged[own.0 as usize], gap });
            }
        }
    }
}
