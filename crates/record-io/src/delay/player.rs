//! The playing half of a delayed service: messages that were written down are sent again when they are due.

use super::Key;
use super::rules::Rules;
use record::{Entry, Error, Gap, Kind, Recording, Store};
use rwf::image::{Image, Schema};
use rwf::msg::Msg;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::{BTreeMap, VecDeque};

/// Records, and bytes of them, that are read ahead.
const AHEAD: usize = 20_000;
const AHEAD_BYTES: usize = 4 << 20;

/// Text of the state of items in a hole.
const HOLE: &str = "The delayed service has no record of this time";

/// Something to publish.
#[derive(Debug)]
pub(super) enum Play<'a> {
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

/// A record that was read and is not due, or a hole.
#[derive(Debug)]
struct Ahead {
    at: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Message(Key, Vec<u8>),
    /// Nobody knows what came from here on.
    Hole,
    /// What was before is gone from the journal: from here on it has images again.
    Again,
}

/// Plays a journal so much later, the items of one delay.
#[derive(Debug)]
pub(super) struct Player<S> {
    delay: u64,
    rules: Rules,
    items: BTreeMap<Key, Item>,
    recording: Option<Recording<S>>,
    /// Sequence number of the record that is read next.
    next: u64,
    ahead: VecDeque<Ahead>,
    /// The images of the beginning are known.
    has_begun: bool,
    /// What came up to this time is in the images.
    played: u64,
    /// Records that the journal let go of before they were played.
    removed: u64,
}

impl<S: Store> Player<S> {
    /// A player that begins as late as `delay` says with its first [`Player::advance`]. It plays items that the rules give this delay.
    pub(super) const fn new(delay: u64, rules: Rules) -> Self {
        Self {
            delay,
            rules,
            items: BTreeMap::new(),
            recording: None,
            next: 0,
            ahead: VecDeque::new(),
            has_begun: false,
            played: 0,
            removed: 0,
        }
    }

    /// The time at which the next message came that is to be played, of those that were read: `None` where nothing was found.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.ahead.front().map(|ahead| ahead.at)
    }

    /// Says what is due, in order; about `limit` records. Tells when more is due, `Some(now)` at once, `None` if nothing is there yet. `open` gives the files of the
    /// journal, of which a player has its own view.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) fn advance(
        &mut self,
        now: u64,
        limit: usize,
        open: &dyn Fn() -> S,
        play: &mut dyn FnMut(&Key, Play<'_>),
    ) -> Result<Option<u64>, Error> {
        let until = now.saturating_sub(self.delay);
        if self.recording.is_none() {
            match Recording::open(open()) {
                Ok(recording) => self.recording = Some(recording),
                // Its first record is to come.
                Err(Error::Empty { .. } | Error::Foreign { .. } | Error::Head { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        if !self.has_begun {
            self.begin(until)?;
            self.say_all(play);
        }
        for _ in 0..limit {
            if self.ahead.is_empty() {
                self.read()?;
            }
            match self.ahead.front() {
                None => {
                    self.played = self.played.max(until);
                    return Ok(None);
                }
                Some(ahead) if ahead.at > until => {
                    self.played = self.played.max(until);
                    return Ok(Some(ahead.at.saturating_add(self.delay)));
                }
                Some(ahead) => self.played = self.played.max(ahead.at),
            }
            let Some(Ahead { at, what }) = self.ahead.pop_front() else { return Ok(None) };
            match what {
                What::Message(key, message) => self.apply(&key, &message, play),
                What::Hole => self.enter_hole(play),
                What::Again => {
                    self.begin(at)?;
                    self.say_all(play);
                }
            }
        }
        Ok(Some(now))
    }

    /// Items whose image is known, to be published when the other end has nothing yet.
    pub(super) fn items(&self) -> impl Iterator<Item = (&Key, &Image)> {
        let shown = self.items.iter().filter(|(_, item)| item.mine && item.image.is_whole());
        shown.map(|(key, item)| (key, &item.image))
    }

    /// The image of an item that is played here.
    pub(super) fn image(&self, key: &Key) -> Option<&Image> {
        self.items.get(key).filter(|item| item.mine).map(|item| &item.image)
    }

    /// Wall clock up to which all was played, nanoseconds.
    pub(super) const fn played(&self) -> u64 {
        self.played
    }

    /// Records that went before they were played, since there were too many bytes.
    pub(super) const fn removed(&self) -> u64 {
        self.removed
    }

    /// All items as they were behind all records up to a time.
    fn begin(&mut self, at: u64) -> Result<(), Error> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        recording.look_again(0)?;
        let player = record::Player::at(recording, at, &|_| true)?;
        for item in player.items() {
            let Some(place) = player.find(item) else { continue };
            let key = Key { domain: item.domain, name: item.name.clone() };
            let mut known = Item { in_hole: true, ..Item::default() };
            for part in player.parts(place) {
                if let Ok(Msg::Refresh(refresh)) = Msg::decode(&part) {
                    take_image(&key, &mut known, &refresh, &self.rules, self.delay);
                }
            }
            if !known.image.is_whole() {
                self.items.remove(&key);
                continue;
            }
            if player.is_in_gap(place) {
                known.in_hole = true;
                known.image.set_state(&hole());
            }
            self.items.insert(key, known);
        }
        let mut cursor = recording.from_time(at.saturating_add(1));
        let first = cursor.next()?.map(|entry| entry.record.sequence);
        self.next = first.unwrap_or_else(|| recording.next_sequence());
        self.ahead.clear();
        self.has_begun = true;
        Ok(())
    }

    fn say_all(&self, play: &mut dyn FnMut(&Key, Play<'_>)) {
        for (key, item) in self.items.iter().filter(|(_, item)| item.mine && item.image.is_whole()) {
            play(key, Play::Image(&item.image));
        }
    }

    /// Reads what comes next.
    fn read(&mut self) -> Result<(), Error> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        recording.look_again(self.next)?;
        let (start, mut bytes) = (self.next, 0);
        let mut cursor = recording.from_sequence(self.next);
        while self.ahead.len() < AHEAD && bytes < AHEAD_BYTES {
            let Some(entry) = cursor.next()? else { break };
            let (sequence, at) = (entry.record.sequence, entry.record.time);
            if self.next == start && sequence > start {
                // Bytes were too many: what was to come first is gone.
                self.removed += sequence - start;
                self.next = sequence;
                self.ahead.push_back(Ahead { at: 0, what: What::Hole });
                self.ahead.push_back(Ahead { at, what: What::Again });
                return Ok(());
            }
            let (what, records) = what(&entry);
            self.next = sequence + records;
            if let Some((at, what)) = what {
                if let What::Message(_, message) = &what {
                    bytes += message.len();
                }
                self.ahead.push_back(Ahead { at, what });
            }
        }
        Ok(())
    }

    /// Nobody knows what came from here on.
    fn enter_hole(&mut self, play: &mut dyn FnMut(&Key, Play<'_>)) {
        let state = hole();
        for (key, item) in &mut self.items {
            item.image.abandon_refresh();
            item.image.set_state(&state);
            if !std::mem::replace(&mut item.in_hole, true) && item.mine {
                play(key, Play::State(state));
            }
        }
    }

    fn apply(&mut self, key: &Key, message: &[u8], play: &mut dyn FnMut(&Key, Play<'_>)) {
        let Ok(msg) = Msg::decode(message) else { return };
        let is_image = matches!(msg, Msg::Refresh(_));
        if is_image && !self.items.contains_key(key) {
            self.items.insert(key.clone(), Item { in_hole: true, ..Item::default() });
        }
        let Some(item) = self.items.get_mut(key).filter(|item| !item.in_hole || is_image) else { return };
        // An image that cannot be kept up is Suspect of itself.
        let is_news = match &msg {
            Msg::Refresh(refresh) => take_image(key, item, refresh, &self.rules, self.delay),
            Msg::Update(update) => item.image.update(update, &Schema::NONE).is_ok(),
            Msg::Status(status) => {
                if let Some(state) = &status.state {
                    item.image.set_state(state);
                }
                true
            }
            _ => false,
        };
        match &msg {
            Msg::Refresh(_) if is_news && item.mine => play(key, Play::Image(&item.image)),
            Msg::Update(update) if is_news && item.mine => play(key, Play::Update(update)),
            Msg::Update(_) if item.mine => play(key, Play::State(item.image.state())),
            Msg::Status(status) if item.mine => {
                if let Some(state) = status.state {
                    play(key, Play::State(state));
                }
            }
            _ => {}
        }
        if msg.state().is_some_and(|state| state.stream.is_final()) {
            self.items.remove(key);
        }
    }
}

/// Takes a refresh in; whether there is a new whole image.
fn take_image(key: &Key, item: &mut Item, refresh: &rwf::msg::RefreshMsg<'_>, rules: &Rules, delay: u64) -> bool {
    let _ = item.image.refresh(refresh, &Schema::NONE);
    if item.image.is_refreshing() || refresh.state.stream.is_final() {
        return false;
    }
    item.mine = rules.delay_of(&key.name, refresh) == delay;
    item.in_hole = false;
    item.image.is_whole()
}

const fn hole() -> State<'static> {
    State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::GAP_DETECTED, HOLE)
}

/// A record as a player has it, when it counts, and for how many records it stands.
fn what(entry: &Entry<'_>) -> (Option<(u64, What)>, u64) {
    let record = &entry.record;
    match record.kind {
        Kind::Gap => {
            let Some(gap) = Gap::decode(record.body) else { return (None, 1) };
            let is_damage = gap.reason == record::GapReason::Damaged;
            let stands_for = gap.messages.filter(|_| is_damage).unwrap_or(1).max(1);
            // A gap is recorded where it ends, and counts from where it begins.
            let hole = gap.reason.hides_messages().then_some((gap.from.min(record.time), What::Hole));
            (hole, stands_for)
        }
        Kind::Refresh | Kind::Update | Kind::Status => {
            let message = entry.item.map(|item| {
                let key = Key { domain: item.domain, name: item.name.clone() };
                (record.time, What::Message(key, record.body.to_vec()))
            });
            (message, 1)
        }
        _ => (None, 1),
    }
}
