//! The playing half of a delayed service: messages that were written down are sent again when they are due.

use super::record::{Kind, Next, Record};
use super::{Key, Rules, Segment, Store};
use rwf::image::{Image, Schema};
use rwf::msg::Msg;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::BTreeMap;
use std::io;

/// Bytes read at a time.
const READ: usize = 256 * 1024;

/// Text of the state of items in a hole.
const HOLE: &str = "The delayed service has no record of this time";

/// Something to publish.
#[derive(Debug)]
pub enum Play<'a> {
    /// The whole image.
    Image(&'a Image),
    /// An update of it.
    Update(&'a rwf::msg::UpdateMsg<'a>),
    /// Its state.
    State(State<'a>),
}

#[derive(Debug, Default)]
struct Item {
    image: Image,
    /// The item is of this delay.
    mine: bool,
    /// The last state of its source is not known.
    in_hole: bool,
}

/// Plays a journal so much later, the items of one delay.
#[derive(Debug)]
pub struct Player {
    delay: u64,
    rules: Rules,
    items: BTreeMap<Key, Item>,
    at: Option<Cursor>,
    /// Records from before this are no news any more, nanoseconds.
    caught_up: u64,
    is_caught_up: bool,
}

/// Where in the journal is read.
#[derive(Debug)]
struct Cursor {
    segment: Segment,
    /// Offset of the bytes in `buf`.
    offset: u64,
    buf: Vec<u8>,
    /// Bytes of `buf` that were read.
    read: usize,
    /// The rest of the segment is no record.
    broken: bool,
}

impl Cursor {
    const fn at(segment: Segment) -> Self {
        Self { segment, offset: 0, buf: Vec::new(), read: 0, broken: false }
    }
}

impl Player {
    /// A player that begins as late as `delay` says with its first [`Player::advance`]. It plays items that the rules give this delay.
    pub const fn new(delay: u64, rules: Rules) -> Self {
        Self { delay, rules, items: BTreeMap::new(), at: None, caught_up: 0, is_caught_up: false }
    }

    /// Says what is due, in order; about `limit` records. Tells when more is due, `Some(now)` at once, `None` if nothing is there yet.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn advance(
        &mut self,
        now: u64,
        limit: usize,
        store: &mut dyn Store,
        play: &mut dyn FnMut(&Key, Play<'_>),
    ) -> io::Result<Option<u64>> {
        let until = now.saturating_sub(self.delay);
        if self.at.is_none() {
            let segments = store.segments();
            let first = segments.iter().rev().find(|segment| segment.start <= until).or(segments.first());
            let Some(&first) = first else { return Ok(None) };
            self.at = Some(Cursor::at(first));
            self.caught_up = until;
        }
        for _ in 0..limit {
            match self.step(until, store, play)? {
                Step::Done => {}
                Step::Due(at) => {
                    self.catch_up(play);
                    return Ok(Some(at.saturating_add(self.delay)));
                }
                Step::Nothing => {
                    self.catch_up(play);
                    return Ok(None);
                }
            }
        }
        Ok(Some(now))
    }

    /// Items whose image is known, to be published when the other end has nothing yet.
    pub fn items(&self) -> impl Iterator<Item = (&Key, &Image)> {
        let shown = self.items.iter().filter(|(_, item)| self.is_caught_up && item.mine && item.image.is_whole());
        shown.map(|(key, item)| (key, &item.image))
    }

    /// The image of an item that is played here.
    pub fn image(&self, key: &Key) -> Option<&Image> {
        self.items.get(key).filter(|item| item.mine && self.is_caught_up).map(|item| &item.image)
    }

    /// The first images go out when everything is read that is older.
    fn catch_up(&mut self, play: &mut dyn FnMut(&Key, Play<'_>)) {
        if !std::mem::replace(&mut self.is_caught_up, true) {
            for (key, item) in self.items.iter().filter(|(_, item)| item.mine && item.image.is_whole()) {
                play(key, Play::Image(&item.image));
            }
        }
    }

    fn step(&mut self, until: u64, store: &mut dyn Store, play: &mut dyn FnMut(&Key, Play<'_>)) -> io::Result<Step> {
        let Some(mut cursor) = self.at.take() else { return Ok(Step::Nothing) };
        let step = self.step_at(&mut cursor, until, store, play);
        self.at.get_or_insert(cursor);
        step
    }

    fn step_at(
        &mut self,
        cursor: &mut Cursor,
        until: u64,
        store: &mut dyn Store,
        play: &mut dyn FnMut(&Key, Play<'_>),
    ) -> io::Result<Step> {
        if !cursor.broken {
            match Record::read(&cursor.buf[cursor.read..]) {
                Next::Record(record, _) if record.at > until => return Ok(Step::Due(record.at)),
                Next::Record(record, length) => {
                    self.apply(&record, play);
                    cursor.read += length;
                    return Ok(Step::Done);
                }
                Next::Broken => cursor.broken = true,
                Next::Cut => {
                    cursor.offset += cursor.read as u64;
                    cursor.buf.drain(..cursor.read);
                    cursor.read = 0;
                    let more = store.read(cursor.segment, cursor.offset + cursor.buf.len() as u64, READ)?;
                    if !more.is_empty() {
                        cursor.buf.extend_from_slice(&more);
                        return Ok(Step::Done);
                    }
                }
            }
        }
        // The end of the segment, as far as it is written.
        let segments = store.segments();
        let Some(&next) = segments.iter().find(|segment| segment.start > cursor.segment.start) else {
            return Ok(Step::Nothing);
        };
        let is_gone = !segments.contains(&cursor.segment);
        if next.fresh || cursor.broken || is_gone || cursor.read < cursor.buf.len() {
            self.enter_hole(play);
        }
        self.at = Some(Cursor::at(next));
        Ok(Step::Done)
    }

    /// Nobody knows what came from here on.
    fn enter_hole(&mut self, play: &mut dyn FnMut(&Key, Play<'_>)) {
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::GAP_DETECTED, HOLE);
        for (key, item) in &mut self.items {
            item.image.abandon_refresh();
            item.image.set_state(&state);
            if !std::mem::replace(&mut item.in_hole, true) && item.mine && self.is_caught_up {
                play(key, Play::State(state));
            }
        }
    }

    fn apply(&mut self, record: &Record<'_>, play: &mut dyn FnMut(&Key, Play<'_>)) {
        if record.kind == Kind::Alive {
            return;
        }
        let Ok(msg) = Msg::decode(record.message) else { return };
        let key = Key { domain: record.domain, name: record.name.into() };
        let is_image = matches!(msg, Msg::Refresh(_));
        let Some(item) = self.items.get_mut(&key).filter(|item| !item.in_hole || is_image) else {
            if is_image && !self.items.contains_key(&key) {
                self.items.insert(key.clone(), Item { in_hole: true, ..Item::default() });
                self.apply(record, play);
            }
            return;
        };
        if record.kind == Kind::Image && !item.in_hole {
            // Of an item that is known: the segment begins with it for those that begin with the segment.
            return;
        }
        // An image that cannot be kept up is Suspect of itself.
        let is_news = match &msg {
            Msg::Refresh(refresh) => {
                let _ = item.image.refresh(refresh, &Schema::NONE);
                if item.image.is_refreshing() || refresh.state.stream.is_final() {
                    false
                } else {
                    item.mine = self.rules.delay_of(refresh) == self.delay;
                    item.in_hole = false;
                    item.image.is_whole()
                }
            }
            Msg::Update(update) => item.image.update(update, &Schema::NONE).is_ok(),
            Msg::Status(status) => {
                if let Some(state) = &status.state {
                    item.image.set_state(state);
                }
                true
            }
            _ => false,
        };
        let speaks = self.is_caught_up && item.mine;
        match &msg {
            Msg::Refresh(_) if is_news && speaks => play(&key, Play::Image(&item.image)),
            Msg::Update(update) if is_news && speaks => play(&key, Play::Update(update)),
            Msg::Update(_) if speaks => play(&key, Play::State(item.image.state())),
            Msg::Status(status) if speaks => {
                if let Some(state) = status.state {
                    play(&key, Play::State(state));
                }
            }
            _ => {}
        }
        if msg.state().is_some_and(|state| state.stream.is_final()) {
            self.items.remove(&key);
        }
    }
}

enum Step {
    Done,
    Due(u64),
    Nothing,
}
