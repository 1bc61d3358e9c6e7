//! A recording that is played: all items as they were at a time, and what came from there on, in its time.

use crate::error::Error;
use crate::images::{Held, Keeping, parts};
use crate::reader::{Cursor, Recording, Step};
use crate::record::{Gap, Item, Kind};
use crate::state::{Checkpoint, checkpoints, numbers, place_of};
use crate::store::Store;
use rwf::image::Image;
use std::collections::HashMap;

/// Records among which one with the source's clock is looked for.
const LAG_SEARCH: usize = 100_000;
/// How many records before its own an image is asked for.
const COMING: usize = 12;

/// An item of a player: its place in [`Player::items`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlayerItem(pub u32);

/// By which clock time passes in a recording that is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The wall clock of receipt.
    #[default]
    Receipt,
    /// The source's own, where a record has it; others come as late behind their receipt as the last one that had it. The order is that in which they were
    /// recorded: what the source's clock puts before its predecessor comes with it. Where to go to is told by the time of receipt.
    Source,
}

impl std::str::FromStr for By {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "receipt" => Ok(Self::Receipt),
            "source-time" => Ok(Self::Source),
            _ => Err("write receipt or source-time"),
        }
    }
}

/// Something that happens in a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Play<'a> {
    /// A message of an item: a refresh, update, status, generic message or ack, as it was received. The item's image has it already.
    Message {
        /// The item.
        item: PlayerItem,
        /// Kind of the message.
        kind: Kind,
        /// The message.
        body: &'a [u8],
    },
    /// An item's image came out of a checkpoint, behind a gap: it is another one than the messages before have made it.
    Image(PlayerItem),
    /// From here on, something is missing: every open item is Suspect, until a refresh or [`Play::Image`].
    Gap(Gap),
    /// A message of the directory.
    Directory(&'a [u8]),
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Ahead {
    Row,
    Gap(Gap),
    Other,
    End,
}

/// Plays a recording: keeps the images of its items as they are at its time, and gives what comes. Time is an argument, so that the same
/// recording and calls give the same.
#[derive(Debug)]
pub struct Player<'a, S> {
    recording: &'a Recording<S>,
    items: Vec<Item>,
    places: HashMap<Item, usize>,
    held: Vec<Held>,
    keeping: Keeping,
    cursor: Cursor<'a, S>,
    by: By,
    /// By how much the time of receipt was more than the source's clock, nanoseconds; it wraps around.
    lag: u64,
    /// Everything up to here is in the images.
    time: u64,
    ahead: Option<(Ahead, u64)>,
    /// Places by number, of the segment that is read.
    numbers: Option<(usize, Vec<u32>)>,
    checkpoints: Vec<Checkpoint>,
    /// Where the last gap was, when it ended, and whether items are still in it.
    gap: Option<(u64, u64)>,
    last: u64,
}

impl<'a, S: Store> Player<'a, S> {
    /// The items of a recording that `wanted` names, as they were behind all records up to a time, nanoseconds since 1970.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn at(recording: &'a Recording<S>, time: u64, wanted: &dyn Fn(&Item) -> bool) -> Result<Self, Error> {
        Self::at_by(recording, time, By::Receipt, wanted)
    }

    /// The same, to go on from there by one of the clocks.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn at_by(
        recording: &'a Recording<S>,
        time: u64,
        by: By,
        wanted: &dyn Fn(&Item) -> bool,
    ) -> Result<Self, Error> {
        let items: Vec<Item> = recording.items().into_iter().filter(|item| wanted(item)).cloned().collect();
        let places = items.iter().cloned().enumerate().map(|(place, item)| (item, place)).collect();
        let mut player = Self {
            recording,
            items,
            places,
            held: Vec::new(),
            keeping: Keeping::new(),
            cursor: recording.from_time(0),
            by,
            lag: 0,
            time,
            ahead: None,
            numbers: None,
            checkpoints: checkpoints(recording),
            gap: None,
            last: 0,
        };
        player.seek(time)?;
        Ok(player)
    }

    /// Goes to a time, forwards or back: the images are those of then.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn seek(&mut self, time: u64) -> Result<(), Error> {
        self.held = self.recording.state_at(&self.places, time)?;
        self.cursor = self.recording.from_time(time.saturating_add(1));
        self.lag = if self.by == By::Source { self.lag_from(time)? } else { 0 };
        (self.time, self.ahead, self.numbers) = (time.wrapping_sub(self.lag), None, None);
        (self.gap, self.last) = (None, 0);
        let (ahead, _) = self.look()?;
        // Items in a gap wait for the next checkpoint that has them: those up to here are in the images already.
        let next = if matches!(ahead, Ahead::End) { u64::MAX } else { self.last };
        self.gap = self.held.iter().any(|held| held.is_in_gap).then_some((next, self.time));
        // A gap is recorded where it ends: this may be within it.
        while let (Ahead::Gap(gap), _) = self.look()?
            && gap.from <= time
        {
            self.ahead = None;
            self.begin_gap(gap, &mut |_, _| {});
        }
        Ok(())
    }

    /// The items, in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The item of a service, domain and name.
    pub fn find(&self, item: &Item) -> Option<PlayerItem> {
        self.places.get(item).map(|place| PlayerItem(*place as u32))
    }

    /// An item's image, if it is open and whole.
    pub fn image(&self, item: PlayerItem) -> Option<&Image> {
        let held = self.held.get(item.0 as usize)?;
        (held.is_open && held.image.is_whole()).then_some(&held.image)
    }

    /// Whether an item's image is behind a gap: it is Suspect.
    pub fn is_in_gap(&self, item: PlayerItem) -> bool {
        self.held.get(item.0 as usize).is_some_and(|held| held.is_in_gap)
    }

    /// Whether a refresh in several parts is under way.
    pub fn is_refreshing(&self, item: PlayerItem) -> bool {
        self.held.get(item.0 as usize).is_some_and(|held| held.image.is_refreshing())
    }

    /// An item's image as refreshes without a stream, complete or empty.
    pub fn parts(&self, item: PlayerItem) -> Vec<Vec<u8>> {
        let domain = self.items.get(item.0 as usize).map_or(0, |item| item.domain);
        self.image(item).map_or_else(Vec::new, |image| parts(image, domain, &mut Vec::new()))
    }

    /// The time that it has come to, by the clock that it goes by.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// When something comes; `None` at the end.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn due(&mut self) -> Result<Option<u64>, Error> {
        let (ahead, due) = self.look()?;
        if let Some((_, until)) = self.restore(ahead) {
            return Ok(Some(until.max(self.time)));
        }
        Ok((!matches!(ahead, Ahead::End)).then_some(due))
    }

    /// What comes next, and when. A gap comes when it begins.
    fn look(&mut self) -> Result<(Ahead, u64), Error> {
        if let Some(ahead) = self.ahead {
            return Ok(ahead);
        }
        let step = self.cursor.step()?;
        let ahead = match self.cursor.record(step) {
            None => (Ahead::End, u64::MAX),
            Some(record) => {
                let (last, time, source) = (record.sequence, record.time, record.clocks.source);
                let gap = if record.kind == Kind::Gap { Gap::decode(record.body) } else { None };
                let ahead = match gap {
                    Some(gap) => (Ahead::Gap(gap), self.clock(gap.from.min(time), None).max(self.time)),
                    None if step == Step::Row => {
                        let due = self.clock(time, source);
                        self.lag = time.wrapping_sub(due);
                        (Ahead::Row, due.max(self.time))
                    }
                    None => (Ahead::Other, self.clock(time, None).max(self.time)),
                };
                self.last = last;
                ahead
            }
        };
        self.ahead = Some(ahead);
        Ok(ahead)
    }

    /// By how much the source's clock is behind from a time on: what the first of the next records says that has it.
    fn lag_from(&self, time: u64) -> Result<u64, Error> {
        let mut cursor = self.recording.from_time(time.saturating_add(1));
        for _ in 0..LAG_SEARCH {
            let Some(entry) = cursor.next()? else { break };
            if let Some(source) = entry.record.clocks.source {
                return Ok(entry.record.time.wrapping_sub(source));
            }
        }
        Ok(0)
    }

    /// When something is due that was received at a time.
    fn clock(&self, receipt: u64, source: Option<u64>) -> u64 {
        match self.by {
            By::Receipt => receipt,
            By::Source => source.unwrap_or(receipt.wrapping_sub(self.lag)),
        }
    }

    /// The checkpoint that comes before what is ahead, if there are items that wait for one, and from when on it counts.
    fn restore(&self, ahead: Ahead) -> Option<(Checkpoint, u64)> {
        let (from, until) = self.gap?;
        let at = self.checkpoints.partition_point(|checkpoint| checkpoint.sequence <= from);
        let next = if matches!(ahead, Ahead::End) { u64::MAX } else { self.last };
        let checkpoint = self.checkpoints.get(at).filter(|checkpoint| checkpoint.sequence <= next)?;
        Some((*checkpoint, until))
    }

    /// Gives what comes up to a time, but no more than `limit` things; tells how many there were.
    ///
    /// # Errors
    /// A segment cannot be read. What was given until then has happened.
    pub fn advance(&mut self, until: u64, limit: usize, each: &mut dyn FnMut(&Self, Play<'_>)) -> Result<usize, Error> {
        let mut count = 0;
        while count < limit {
            let (ahead, due) = self.look()?;
            if let Some((checkpoint, from)) = self.restore(ahead) {
                if from.max(self.time) > until {
                    break;
                }
                self.time = self.time.max(from);
                count += self.take_images(checkpoint, each)?;
                continue;
            }
            if due > until || matches!(ahead, Ahead::End) {
                break;
            }
            self.time = self.time.max(due);
            self.ahead = None;
            count += 1;
            match ahead {
                Ahead::Gap(gap) => self.begin_gap(gap, each),
                Ahead::Row => self.row(each),
                Ahead::Other | Ahead::End => {}
            }
        }
        if count < limit
            && let Some(due) = self.due()?
        {
            self.time = self.time.max(until.min(due.saturating_sub(1)));
        }
        Ok(count)
    }

    /// Items in a gap get what a checkpoint behind it has of them.
    fn take_images(&mut self, checkpoint: Checkpoint, each: &mut dyn FnMut(&Self, Play<'_>)) -> Result<usize, Error> {
        let Self { recording, places, held, keeping, .. } = self;
        let mut restored = Vec::new();
        recording.images_of(checkpoint, places, |place, parts| {
            // An item that is not open here has been opened in the gap.
            if held[place].is_in_gap || !held[place].is_open {
                held[place] = Held::default();
                for part in parts {
                    keeping.apply(&mut held[place], Kind::Refresh, part);
                }
                restored.push(PlayerItem(place as u32));
            }
        })?;
        let until = self.gap.map_or(0, |(_, until)| until);
        self.gap = self.held.iter().any(|held| held.is_in_gap).then_some((checkpoint.sequence, until));
        for item in &restored {
            each(self, Play::Image(*item));
        }
        Ok(restored.len())
    }

    fn begin_gap(&mut self, gap: Gap, each: &mut dyn FnMut(&Self, Play<'_>)) {
        // Nothing is missing.
        if !gap.reason.hides_messages() {
            return;
        }
        self.held.iter_mut().filter(|held| held.is_open).for_each(|held| held.is_in_gap = true);
        self.gap = Some((self.last, self.clock(gap.to, None)));
        each(self, Play::Gap(gap));
    }

    fn row(&mut self, each: &mut dyn FnMut(&Self, Play<'_>)) {
        let Some((segment, items)) = self.cursor.place() else { return };
        if self.numbers.as_ref().is_none_or(|(known, _)| *known != segment) {
            self.numbers = Some((segment, numbers(items, &self.places)));
        }
        let Some(record) = self.cursor.record(Step::Row) else { return };
        let (kind, body) = (record.kind, record.body);
        if kind == Kind::Directory {
            return each(self, Play::Directory(body));
        }
        let known = self.numbers.as_ref().map_or(&[][..], |(_, numbers)| numbers);
        let Some(place) = place_of(known, record.item) else { return };
        if let Some(coming) = self.cursor.coming(COMING).and_then(|item| place_of(known, item)) {
            ask_for(&self.held[coming]);
        }
        self.keeping.apply(&mut self.held[place], kind, body);
        if kind != Kind::PermissionData && kind != Kind::Dictionary {
            each(self, Play::Message { item: PlayerItem(place as u32), kind, body });
        }
    }
}

/// Asks for the memory of an image's head: images of many items are in no cache when their turn comes.
#[inline]
fn ask_for(held: &Held) {
    const LINE: usize = 64;
    let first = std::ptr::from_ref(held).cast::<u8>();
    let lines: [*const u8; size_of::<Held>().div_ceil(LINE)] = std::array::from_fn(|at| first.wrapping_add(at * LINE));
    lines::fetch(&lines);
}
