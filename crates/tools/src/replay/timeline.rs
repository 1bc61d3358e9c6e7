//! A recording on its way: who watches which item, and what they get when its time has come.

use crate::source::publisher::Egress;
use feed::provider::{ImagePart, SessionId};
use feed::session::Nanos;
use feed::shift::{Distance, Shift};
use record::{Error, Event, Folder, Gap, Kind, Merge, MergedItem, Pace, ReplayState, Shown, Standing};
use rwf::msg::{Msg, RefreshFlags, RefreshMsg, StatusMsg, UpdateFlags, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataState, DataType, State, StateCode, StreamState, peek};

/// Things that happen in one turn at most: a recording that is behind must not keep requests waiting.
const TURN: usize = 2_048;
/// Room for a message, bytes.
const ROOM: usize = 128_000;

/// What of a recording is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    /// It begins with everything as it was at this time, nanoseconds since 1970.
    pub(super) from: u64,
    /// It ends with the last that came up to this time.
    pub(super) to: u64,
    /// And begins anew then.
    pub(super) repeats: bool,
}

/// Whether time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// For so many open items.
    Waiting(usize),
    /// `base` of the timeline was at this time.
    Running(Nanos),
    Paused,
    Over,
}

/// A stream of a session that watches an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watcher {
    session: SessionId,
    stream_id: i32,
    /// It has not got the image that the next messages are about.
    waits: bool,
}

/// Who watches an item. The first stands here: most items have one, whose place is then all that a message has to find.
#[derive(Clone, Debug, Default)]
struct Watchers {
    first: Option<Watcher>,
    others: Vec<Watcher>,
}

impl Watchers {
    fn push(&mut self, watcher: Watcher) {
        match self.first {
            None => self.first = Some(watcher),
            Some(_) => self.others.push(watcher),
        }
    }

    /// False if the stream does not watch.
    fn remove(&mut self, session: SessionId, stream_id: i32) -> bool {
        let is_it = |watcher: &Watcher| (watcher.session, watcher.stream_id) == (session, stream_id);
        if self.first.as_ref().is_some_and(is_it) {
            self.first = if self.others.is_empty() { None } else { Some(self.others.remove(0)) };
            return true;
        }
        let at = self.others.iter().position(is_it);
        at.is_some_and(|at| {
            self.others.remove(at);
            true
        })
    }

    const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn iter(&self) -> impl Iterator<Item = &Watcher> {
        self.first.iter().chain(&self.others)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Watcher> {
        self.first.iter_mut().chain(&mut self.others)
    }
}

/// A recording from a time on.
pub(super) struct Timeline<'a> {
    merge: Merge<'a, Folder>,
    span: Span,
    pace: Pace,
    clock: Clock,
    /// Where time was set to last.
    base: u64,
    /// By item.
    watchers: Vec<Watchers>,
    streams: usize,
    /// The image that is being shown, and the part.
    shown: Option<(MergedItem, usize, Vec<Vec<u8>>)>,
    told: u64,
    shift: Option<&'a Shift>,
    room: Room,
}

/// Memory for messages on their way, kept from turn to turn: it is cleared once, not in each.
#[derive(Debug)]
struct Room {
    message: Vec<u8>,
    /// A body whose times are moved.
    moved: Vec<u8>,
}

/// What a turn has brought besides messages for those who watch.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The directories' messages, with the places of their recordings.
    pub(super) directory: Vec<(usize, Vec<u8>)>,
    /// The recording is over.
    pub(super) is_over: bool,
    /// It has begun anew.
    pub(super) has_begun: bool,
}

impl<'a> Timeline<'a> {
    /// Recordings that begin when so many items are open; 0: now.
    pub(super) fn new(merge: Merge<'a, Folder>, span: Span, pace: Pace, begin_with: usize, now: Nanos) -> Self {
        let watchers = vec![Watchers::default(); merge.items().len()];
        let clock = if begin_with == 0 { Clock::Running(now) } else { Clock::Waiting(begin_with) };
        let base = merge.time();
        let room = Room { message: vec![0; ROOM], moved: Vec::new() };
        Self { merge, span, pace, clock, base, watchers, streams: 0, shown: None, told: 0, shift: None, room }
    }

    /// Times in messages are moved to now.
    pub(super) const fn shifted(mut self, shift: Option<&'a Shift>) -> Self {
        self.shift = shift;
        self
    }

    /// By how much times in messages are moved, if they are. As fast as possible: so that the beginning was at its time.
    fn moved_by(&self, now: Nanos) -> Option<(&'a Shift, Distance)> {
        let shift = self.shift?;
        let distance = match (self.clock, self.pace) {
            (Clock::Running(began), Pace::Scaled(speed)) => {
                let gone = now.saturating_sub(began) as f64 * speed;
                shift.distance(self.base.saturating_add(gone as u64), now)
            }
            (Clock::Running(began), Pace::Unpaced) => shift.distance(self.base, began),
            _ => shift.distance(self.merge.time(), now),
        };
        Some((shift, distance))
    }

    /// How it stands, but for the streams and messages of others.
    pub(super) fn standing(&self) -> Standing {
        let (state, since) = match (self.clock, self.pace) {
            (Clock::Waiting(count), _) => (ReplayState::Waiting(count), None),
            (Clock::Running(began), Pace::Scaled(_)) => (ReplayState::Running, Some(began)),
            (Clock::Running(_), Pace::Unpaced) => (ReplayState::Running, None),
            (Clock::Paused, _) => (ReplayState::Paused, None),
            (Clock::Over, _) => (ReplayState::Over, None),
        };
        let time = if since.is_some() { self.base } else { self.base.max(self.merge.time()) };
        let (streams, messages) = (self.streams, self.told);
        Standing { state, time, since, pace: self.pace, repeats: self.span.repeats, streams, messages }
    }

    /// Begins with time standing still.
    pub(super) const fn paused(mut self, is_paused: bool) -> Self {
        if is_paused {
            self.clock = Clock::Paused;
        }
        self
    }

    pub(super) const fn merge(&self) -> &Merge<'a, Folder> {
        &self.merge
    }

    /// Whether an item has an image.
    pub(super) fn has_image(&self, item: MergedItem) -> bool {
        self.merge.shown(item).is_some_and(|shown| shown.image().is_some())
    }

    /// Nobody watches, and it may be at another time than that of its beginning.
    pub(super) const fn is_left(&self) -> bool {
        self.streams == 0 && !matches!(self.clock, Clock::Waiting(_))
    }

    /// Streams that watch.
    pub(super) const fn streams(&self) -> usize {
        self.streams
    }

    /// Messages that were told.
    pub(super) const fn told(&self) -> u64 {
        self.told
    }

    /// Has an item watched from its image on, which is shown next if there is one.
    pub(super) fn watch(&mut self, item: MergedItem, session: SessionId, stream_id: i32, now: Nanos) {
        let waits = self.merge.shown(item).is_none_or(|shown| shown.image().is_none() || shown.is_refreshing());
        self.watchers[item.0 as usize].push(Watcher { session, stream_id, waits });
        self.streams += 1;
        if let Clock::Waiting(count) = self.clock
            && self.streams >= count
        {
            self.clock = Clock::Running(now);
        }
    }

    pub(super) fn leave(&mut self, item: MergedItem, session: SessionId, stream_id: i32) {
        if self.watchers[item.0 as usize].remove(session, stream_id) {
            self.streams -= 1;
        }
    }

    /// Appends a part of an item's image.
    pub(super) fn image(&mut self, item: MergedItem, part: usize, out: &mut Vec<u8>) -> ImagePart {
        let shift = self.moved_by(net::clock::now());
        let (_, at, parts) = match self.shown.take() {
            Some(shown) if part > 0 && shown.0 == item => self.shown.insert(shown),
            _ => {
                let parts = self.merge.shown(item).map_or_else(Vec::new, |shown| shown.parts());
                self.shown.insert((item, part, parts))
            }
        };
        *at = part;
        let refresh = part_of(parts, part);
        let is_moved = refresh
            .as_ref()
            .zip(shift)
            .is_some_and(|(refresh, (shift, distance))| shift.append(distance, refresh.container, refresh.body, out));
        if !is_moved {
            out.extend_from_slice(refresh.as_ref().map_or(&[], |refresh| refresh.body));
        }
        ImagePart {
            container: refresh.as_ref().map_or(DataType::NO_DATA, |refresh| refresh.container),
            sequence: refresh.as_ref().and_then(|refresh| refresh.seq_num),
            data: refresh.map_or(DataState::SUSPECT, |refresh| refresh.state.data),
            more: part + 1 < parts.len(),
        }
    }

    /// What a refresh of an item says of the recording's: state, quality of service, permission data.
    pub(super) fn dress<'m>(&'m self, item: MergedItem, refresh: RefreshMsg<'m>) -> RefreshMsg<'m> {
        let Some((_, part, parts)) = &self.shown else { return refresh };
        let part = *part;
        let Some(own) = part_of(parts, part) else { return refresh };
        let is_in_gap = self.merge.shown(item).is_some_and(|shown| shown.is_in_gap());
        let state = State { stream: refresh.state.stream, ..state_of(is_in_gap, own.state) };
        let part_num = (parts.len() > 1).then_some(part as u16);
        RefreshMsg { state, part_num, qos: own.qos, perm_data: own.perm_data, ..refresh }
    }

    /// When there is something to write.
    pub(super) fn next(&self, egress: &Egress<'_>) -> Option<Nanos> {
        let Clock::Running(began) = self.clock else { return None };
        match self.pace {
            Pace::Scaled(speed) => {
                let due = self.merge.due().map_or(self.merge.time(), |due| due.min(self.span.to));
                let distance = due.saturating_sub(self.base) as f64 / speed;
                Some(began.saturating_add(distance as u64))
            }
            // A replay that waits until the sockets take more is woken by that.
            Pace::Unpaced => (self.streams > 0 && egress.sessions().all(|it| egress.is_clear(it))).then_some(0),
        }
    }

    /// Tells what is due.
    pub(super) fn advance(&mut self, now: Nanos, egress: &mut Egress<'_>, turn: &mut Turn) -> Result<(), Error> {
        let Clock::Running(began) = self.clock else { return Ok(()) };
        let until = match self.pace {
            Pace::Scaled(speed) => {
                let gone = now.saturating_sub(began) as f64 * speed;
                self.base.saturating_add(gone as u64)
            }
            Pace::Unpaced if self.next(egress).is_none() => return Ok(()),
            Pace::Unpaced => u64::MAX,
        };
        let shift = self.moved_by(now);
        let Self { merge, watchers, streams, told, span, room, .. } = self;
        let mut teller = Teller { watchers, streams, told, egress, shift, room };
        merge.advance(until.min(span.to), TURN, &mut |event| teller.tell(&event, turn))?;
        let is_done = self.merge.due().is_none_or(|due| due > self.span.to);
        // Behind the last message, time goes on to the end of the span.
        let end = if self.merge.due().is_some() { self.span.to } else { self.merge.time() };
        if is_done && until >= end {
            if self.span.repeats {
                self.begin_anew(now, egress)?;
                turn.has_begun = true;
            } else {
                self.clock = Clock::Over;
                turn.is_over = true;
            }
        }
        Ok(())
    }

    fn begin_anew(&mut self, now: Nanos, egress: &mut Egress<'_>) -> Result<(), Error> {
        self.clock = Clock::Running(now);
        self.seek(self.span.from, now, egress)
    }

    /// Goes to a time: everybody gets the images of then. Time passes, or not, as before; one that was over goes on.
    pub(super) fn seek(&mut self, to: u64, now: Nanos, egress: &mut Egress<'_>) -> Result<(), Error> {
        self.merge.seek(to)?;
        self.shown = None;
        self.base = self.merge.time();
        if matches!(self.clock, Clock::Running(_) | Clock::Over) {
            self.clock = Clock::Running(now);
        }
        let shift = self.moved_by(now);
        let Self { merge, watchers, streams, told, room, .. } = self;
        let mut teller = Teller { watchers, streams, told, egress, shift, room };
        for at in 0..merge.items().len() {
            let item = MergedItem(at as u32);
            if let Some(shown) = merge.shown(item).filter(|shown| shown.image().is_some()) {
                teller.whole(item, shown, false);
            } else {
                teller.watchers[at].iter_mut().for_each(|watcher| watcher.waits = true);
                teller.state(at, NO_IMAGE);
            }
        }
        Ok(())
    }

    /// The time that it has come to, also between two messages.
    pub(super) fn position(&self, now: Nanos) -> u64 {
        self.standing().time_at(now, self.span.to)
    }

    /// Time stands still.
    pub(super) fn pause(&mut self, now: Nanos) {
        if !matches!(self.clock, Clock::Over) {
            self.base = self.position(now);
            self.clock = Clock::Paused;
        }
    }

    /// Time passes from where it is, whether or not somebody was waited for.
    pub(super) fn go(&mut self, now: Nanos) {
        if !matches!(self.clock, Clock::Over) {
            self.base = self.position(now);
            self.clock = Clock::Running(now);
        }
    }

    /// Another speed from here on.
    pub(super) fn set_pace(&mut self, pace: Pace, now: Nanos) {
        self.base = self.position(now);
        if matches!(self.clock, Clock::Running(_)) {
            self.clock = Clock::Running(now);
        }
        self.pace = pace;
    }

    /// Begins anew at the end, or not; one that is over begins anew at once.
    pub(super) fn set_repeats(&mut self, repeats: bool, now: Nanos, egress: &mut Egress<'_>) -> Result<bool, Error> {
        self.span.repeats = repeats;
        let begins = repeats && matches!(self.clock, Clock::Over);
        if begins {
            self.begin_anew(now, egress)?;
        }
        Ok(begins)
    }

    /// Time stands still, and the next messages come, so many.
    pub(super) fn step(
        &mut self,
        count: usize,
        now: Nanos,
        egress: &mut Egress<'_>,
        turn: &mut Turn,
    ) -> Result<(), Error> {
        self.pause(now);
        let shift = self.moved_by(now);
        let Self { merge, watchers, streams, told, span, base, room, .. } = self;
        let mut teller = Teller { watchers, streams, told, egress, shift, room };
        let mut events = 0;
        // Records of what is not served are passed over.
        while events < count {
            let mut tell = |event: Event<'_, '_, Folder>| {
                events += 1;
                teller.tell(&event, turn);
            };
            if merge.advance(span.to, 1, &mut tell)? == 0 {
                break;
            }
        }
        *base = merge.time();
        Ok(())
    }
}

/// State of items that have no image at the time.
pub(super) const NO_IMAGE: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"The recording has no image of this item yet",
};

fn part_of(parts: &[Vec<u8>], part: usize) -> Option<RefreshMsg<'_>> {
    match Msg::decode(parts.get(part)?) {
        Ok(Msg::Refresh(refresh)) => Some(refresh),
        _ => None,
    }
}

/// The state of an item: its own, or that of what is behind a gap.
fn state_of(is_in_gap: bool, own: State<'_>) -> State<'_> {
    if is_in_gap && own.data == DataState::OK {
        let text = b"The recording has a gap behind this image";
        return State { data: DataState::SUSPECT, code: StateCode::GAP_DETECTED, text, ..own };
    }
    own
}

/// Moves the times of a refresh, if it has any.
fn move_refresh(part: &mut Vec<u8>, shift: &Shift, distance: Distance, buf: &mut [u8]) {
    let Ok(Msg::Refresh(refresh)) = Msg::decode(part) else { return };
    let mut body = Vec::new();
    if shift.append(distance, refresh.container, refresh.body, &mut body) {
        let mut w = Writer::new(buf);
        if (RefreshMsg { body: &body, ..refresh }).encode(&mut w).is_ok() {
            let moved = w.written().to_vec();
            *part = moved;
        }
    }
}

/// Tells those who watch what happens.
struct Teller<'t, 'e> {
    watchers: &'t mut [Watchers],
    streams: &'t mut usize,
    told: &'t mut u64,
    egress: &'t mut Egress<'e>,
    shift: Option<(&'t Shift, Distance)>,
    room: &'t mut Room,
}

impl Teller<'_, '_> {
    /// Has `moved` a body with its times moved; false if it stays as it is.
    fn move_times(&mut self, container: DataType, body: &[u8]) -> bool {
        let moved = &mut self.room.moved;
        moved.clear();
        self.shift.is_some_and(|(shift, distance)| shift.append(distance, container, body, moved))
    }

    fn tell(&mut self, event: &Event<'_, '_, Folder>, turn: &mut Turn) {
        match *event {
            Event::Directory { recording, body } => turn.directory.push((recording, body.to_vec())),
            Event::Gap { item, gap } => self.gap(item.0 as usize, gap),
            Event::Image { item, shown } => self.whole(item, shown, false),
            Event::Message { item, shown, kind, body } => {
                if self.watchers[item.0 as usize].is_empty() {
                    return;
                }
                match kind {
                    Kind::Update | Kind::Generic => self.pass(item.0 as usize, kind, body),
                    Kind::Refresh => self.refresh(item, shown, body),
                    Kind::Status => self.status(item.0 as usize, body),
                    _ => {}
                }
            }
        }
    }

    /// A message that goes out as it came, but for a key and for times that are moved.
    fn pass(&mut self, at: usize, kind: Kind, body: &[u8]) {
        let has_key =
            kind == Kind::Update && peek::flags(body).is_some_and(|flags| flags & UpdateFlags::HAS_MSG_KEY.0 != 0);
        let is_moved = self.shift.is_some()
            && kind == Kind::Update
            && peek::container(body)
                .zip(peek::body(body))
                .is_some_and(|(container, payload)| self.move_times(container, payload));
        let mut message = body;
        if (has_key || is_moved)
            && let Ok(Msg::Update(update)) = Msg::decode(body)
        {
            let Room { message: room, moved } = &mut *self.room;
            let mut w = Writer::new(room);
            // The key has the id that the service had where it was recorded.
            let payload = if is_moved { &moved[..] } else { update.body };
            message = match (UpdateMsg { key: None, body: payload, ..update }).encode(&mut w) {
                Ok(()) => w.into_written(),
                Err(_) => &[],
            };
        }
        for watcher in self.watchers[at].iter().filter(|watcher| !watcher.waits) {
            self.egress.queue_as(watcher.session, message, watcher.stream_id);
            *self.told += 1;
        }
    }

    /// A part of an image. Who waits gets it whole when it is.
    fn refresh(&mut self, item: MergedItem, shown: Shown<'_, '_, Folder>, body: &[u8]) {
        let Ok(Msg::Refresh(refresh)) = Msg::decode(body) else { return };
        let at = item.0 as usize;
        if refresh.state.stream.is_final() {
            return self.end(at, refresh.state);
        }
        let is_moved = self.move_times(refresh.container, refresh.body);
        let payload = if is_moved { &self.room.moved[..] } else { refresh.body };
        for watcher in self.watchers[at].iter().filter(|watcher| !watcher.waits) {
            let stream_id = watcher.stream_id;
            self.egress.refresh(
                watcher.session,
                &RefreshMsg { stream_id, key: None, group_id: &[], body: payload, ..refresh.clone() },
            );
            *self.told += 1;
        }
        if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            self.whole(item, shown, true);
        }
    }

    /// The whole image, for all who watch or for those who wait for it.
    fn whole(&mut self, item: MergedItem, shown: Shown<'_, '_, Folder>, only_who_waits: bool) {
        let watchers = &mut self.watchers[item.0 as usize];
        let is_wanted = |watcher: &Watcher| watcher.waits || !only_who_waits;
        if !watchers.iter().any(is_wanted) {
            return;
        }
        let mut parts = shown.parts();
        if let Some((shift, distance)) = self.shift {
            for part in &mut parts {
                move_refresh(part, shift, distance, &mut self.room.message);
            }
        }
        for watcher in watchers.iter_mut().filter(|watcher| is_wanted(watcher)) {
            for (part, refresh) in parts.iter().enumerate().filter_map(|(n, _)| Some((n, part_of(&parts, n)?))) {
                let part_num = (parts.len() > 1).then_some(part as u16);
                let state = state_of(shown.is_in_gap(), refresh.state);
                let flags = refresh.flags.with(if part == 0 { RefreshFlags::CLEAR_CACHE } else { RefreshFlags::NONE });
                let refresh = RefreshMsg { stream_id: watcher.stream_id, key: None, flags, state, part_num, ..refresh };
                self.egress.refresh(watcher.session, &refresh);
                *self.told += 1;
            }
            watcher.waits &= parts.is_empty();
        }
    }

    fn status(&mut self, at: usize, body: &[u8]) {
        let Ok(Msg::Status(status)) = Msg::decode(body) else { return };
        match status.state {
            Some(state) if state.stream.is_final() => self.end(at, state),
            Some(state) if status.perm_data.is_none() => self.state(at, state),
            _ => {
                for watcher in self.watchers[at].iter() {
                    let mut w = Writer::new(&mut self.room.message);
                    let stream_id = watcher.stream_id;
                    let message = StatusMsg { stream_id, key: None, group_id: None, ..status.clone() };
                    if message.encode(&mut w).is_ok() {
                        self.egress.queue(watcher.session, w.written());
                        *self.told += 1;
                    }
                }
            }
        }
    }

    fn state(&mut self, at: usize, state: State<'_>) {
        for watcher in self.watchers[at].iter() {
            self.egress.status(watcher.session, watcher.stream_id, state);
            *self.told += 1;
        }
    }

    /// The item is over.
    fn end(&mut self, at: usize, state: State<'_>) {
        self.state(at, state);
        *self.streams -= std::mem::take(&mut self.watchers[at]).iter().count();
    }

    fn gap(&mut self, at: usize, gap: Gap) {
        if self.watchers[at].is_empty() {
            return;
        }
        let text = format!("The recording has a gap: {}", gap.reason.text());
        self.state(at, State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::GAP_DETECTED, &text));
    }
}
