//! One mount: a session with its watchlist. It says what to send next and takes what comes, cheaply.
//!
//! What an answer means for the stream of an item is `omm`'s ([`omm::consumer::ItemStream`]); recovery and repetition are not, so that what is measured is
//! the server.
//!
//! INVARIANT: `answered + outstanding + told == requested <= names`.

use super::args::Depth;
use super::field_types::FieldTypes;
use super::streams::{Column, Streams};
use measure::latency::Latency;
use measure::observer::{Observer, id_of, item_key};
use measure::stamp;
use omm::consumer::{Answer, Change, ItemStream};
use rwf::msg::{Domain, MsgClass, MsgKey, Priority, RequestFlags, RequestMsg, UpdateFlags};
use rwf::wire::Writer;
use rwf::{DataType, FieldList, Qos, SetScope, StreamState, msg::Msg, peek};
use std::hint::black_box;

/// Stream id of the first item; what is below belongs to login, directory and dictionaries.
pub const FIRST_STREAM: i32 = 16;

/// The clock is read for one of so many stamped updates of a turn.
const STAMPS_PER_READ: u32 = 16;

/// Counts of one mount, or of all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Updates received.
    pub updates: u64,
    /// Images completed.
    pub images: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Statuses of open items.
    pub statuses: u64,
    /// Updates that the sequence numbers say were lost.
    pub lost: u64,
    /// Updates that came twice or late.
    pub reordered: u64,
    /// Updates for items that had no image yet.
    pub early: u64,
    /// Messages for no item of ours, or that could not be decoded.
    pub strange: u64,
    /// Field values decoded.
    pub values: u64,
}

impl Counts {
    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            updates: self.updates - earlier.updates,
            images: self.images - earlier.images,
            refused: self.refused - earlier.refused,
            statuses: self.statuses - earlier.statuses,
            lost: self.lost - earlier.lost,
            reordered: self.reordered - earlier.reordered,
            early: self.early - earlier.early,
            strange: self.strange - earlier.strange,
            values: self.values - earlier.values,
        }
    }
}

/// What all mounts of a process share while they take messages.
#[derive(Debug)]
pub struct Meter {
    /// What came.
    pub counts: Counts,
    /// Latencies since the last line of the table.
    pub latency: Latency,
    /// How much of an update is decoded.
    pub depth: Depth,
    /// Types of the fields, for values.
    pub types: FieldTypes,
    observed: Option<(Observer, Vec<u32>)>,
    clock: fn() -> u64,
    stamps: u32,
    last_read: u64,
}

impl Meter {
    /// Nothing yet; `clock` is the monotonic clock that the stamps are of.
    pub fn new(depth: Depth, types: FieldTypes, clock: fn() -> u64) -> Self {
        Self {
            counts: Counts::default(),
            latency: Latency::new(),
            depth,
            types,
            observed: None,
            clock,
            stamps: STAMPS_PER_READ,
            last_read: 0,
        }
    }

    /// Every update from now on is told to an observer; `names` are those that watchlists refer to.
    pub fn observe(&mut self, observer: Observer, names: &[String]) {
        self.observed = Some((observer, names.iter().map(|name| item_key(name)).collect()));
    }

    /// What was observed.
    pub fn observer(&self) -> Option<&Observer> {
        self.observed.as_ref().map(|(observer, _)| observer)
    }

    /// Takes the time stamp of an update. The clock is read for each where stamps are rare, for every 16th where all
    /// updates have one: a read costs more than the rest of the work.
    #[inline]
    fn stamp(&mut self, turn: u64, sent: u64) {
        if self.last_read < turn || self.stamps >= STAMPS_PER_READ {
            self.last_read = (self.clock)();
            self.stamps = 1;
        } else {
            self.stamps += 1;
        }
        self.latency.record(self.last_read.saturating_sub(sent));
    }
}

/// A watchlist behind one session. What is known of its streams is in the table of all mounts, which its methods are handed.
#[derive(Debug)]
pub struct Watchlist {
    /// Of each item, the index into the list of names.
    names: Box<[u32]>,
    column: Column,
    requested: usize,
    outstanding: usize,
    /// Items of which a state was told and no image yet: they take no place in the window, or who waits for all items to be open before it sends an image
    /// would wait for ever.
    told: usize,
    answered: usize,
    domain: Domain,
    request_flags: RequestFlags,
    qos: Option<Qos>,
}

/// What a message meant that is worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A stream was refused, closed, or changed its state.
    State {
        /// Index into the list of names.
        name: u32,
        /// What the provider says.
        text: String,
        /// The stream is over.
        closed: bool,
    },
}

impl Watchlist {
    /// A mount's watchlist of names (by index), not yet requested. The table has room for its mount and its items.
    ///
    /// # Panics
    /// The table has no such mount.
    pub fn new(names: &[u32], streams: &Streams, mount: usize, domain: Domain, request_flags: u16) -> Self {
        let (names, column) = (names.into(), streams.column(mount));
        let request_flags = RequestFlags(request_flags);
        Self { names, column, requested: 0, outstanding: 0, told: 0, answered: 0, domain, request_flags, qos: None }
    }

    /// The same, of this quality of service.
    #[must_use]
    pub fn at(self, qos: Option<Qos>) -> Self {
        Self { qos, ..self }
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Items that were answered: imaged or refused.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Requests that take a place in the window.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Every item was answered.
    pub fn is_complete(&self) -> bool {
        self.answered == self.names.len()
    }

    /// Everything is to be requested again: the session was lost.
    pub fn reset(&mut self, streams: &mut Streams) {
        for item in 0..self.names.len() {
            let state = streams.at(self.column, item);
            (state.numbered, state.told) = (false, false);
            state.stream.reset();
        }
        (self.requested, self.outstanding, self.told, self.answered) = (0, 0, 0, 0);
    }

    /// Writes the requests that the window has room for.
    pub fn request(
        &mut self,
        service: u16,
        window: usize,
        names: &[String],
        streams: &mut Streams,
        mut push: impl FnMut(&[u8]),
    ) {
        let mut buffer = [0u8; 512];
        while self.outstanding < window && self.requested < self.names.len() {
            let mut w = Writer::new(&mut buffer);
            let name = &names[self.names[self.requested] as usize];
            let mut msg = RequestMsg::new(self.domain, FIRST_STREAM + self.requested as i32);
            msg.flags = self.request_flags;
            msg.qos = self.qos;
            msg.priority = Some(Priority::default());
            msg.key = MsgKey { name_type: Some(1), ..MsgKey::item(service, name.as_bytes()) };
            if msg.encode(&mut w).is_ok() {
                push(w.written());
                streams.at(self.column, self.requested).stream.ask();
                self.outstanding += 1;
            } else {
                // A name that no message can carry: as good as refused.
                streams.at(self.column, self.requested).stream.refuse_unasked();
                self.answered += 1;
            }
            self.requested += 1;
        }
    }

    /// Whether [`Self::request`] would write something.
    pub fn wants_request(&self, window: usize) -> bool {
        self.outstanding < window && self.requested < self.names.len()
    }

    /// Index into the list of names of the item that a message is about.
    pub fn name_of(&self, msg: &[u8]) -> Option<u32> {
        let index = usize::try_from(peek::stream_id(msg)? - FIRST_STREAM).ok()?;
        self.names.get(index).copied()
    }

    /// Messages that come soon. What is known of their streams is asked for, where there are so many streams that each is waited for.
    #[inline]
    pub fn look_ahead<'m>(&self, messages: impl Iterator<Item = &'m [u8]>, streams: &Streams) {
        if !streams.are_many() {
            return;
        }
        let item = |msg| usize::try_from(peek::stream_id(msg)?.checked_sub(FIRST_STREAM)?).ok();
        messages.filter_map(item).for_each(|item| streams.ask(self.column, item));
    }

    /// Takes an item message. `turn` is when it was received.
    #[inline]
    pub fn take(&mut self, turn: u64, msg: &[u8], streams: &mut Streams, meter: &mut Meter) -> Option<Note> {
        let index = peek::stream_id(msg).map_or(usize::MAX, |id| (id as usize).wrapping_sub(FIRST_STREAM as usize));
        if index >= self.names.len() {
            meter.counts.strange += 1;
            return None;
        }
        if peek::class(msg) != Some(MsgClass::UPDATE) {
            return self.take_other(index, msg, streams, meter);
        }
        let item = streams.at(self.column, index);
        meter.counts.updates += 1;
        meter.counts.early += u64::from(!item.stream.was_imaged());
        if let Some(sequence) = sequence_of(msg) {
            if let Some((observer, keys)) = &mut meter.observed {
                observer.received(id_of(keys[self.names[index] as usize], sequence));
            }
            if item.numbered {
                let step = sequence.wrapping_sub(item.sequence);
                if step != 1 {
                    meter.count_gap(step);
                }
            }
            item.numbered = true;
            item.sequence = sequence;
        }
        if let Some(sent) = stamp::find(msg) {
            meter.stamp(turn, sent);
        }
        if meter.depth != Depth::Header {
            decode_fields(msg, meter);
        }
        None
    }

    fn take_other(&mut self, index: usize, msg: &[u8], streams: &mut Streams, meter: &mut Meter) -> Option<Note> {
        let Ok(decoded) = Msg::decode(msg) else {
            meter.counts.strange += 1;
            return None;
        };
        let item = streams.at(self.column, index);
        let answer = match &decoded {
            Msg::Refresh(refresh) => {
                if let Some(sequence) = refresh.seq_num {
                    (item.sequence, item.numbered) = (sequence, true);
                }
                Answer::of_refresh(refresh)
            }
            Msg::Status(status) => Answer::of_status(status),
            _ => return None,
        };
        let (name, change, was_told) = (self.names[index], item.stream.answer(answer), item.told);
        match change {
            Change::Imaged => {
                (meter.counts.images, item.told) = (meter.counts.images + 1, false);
                self.answer(was_told);
            }
            Change::Refused => {
                (meter.counts.refused, item.told) = (meter.counts.refused + 1, false);
                self.answer(was_told);
            }
            Change::Unexpected => meter.counts.strange += 1,
            Change::None if item.stream == ItemStream::Asked && !was_told && matches!(answer, Answer::State(_)) => {
                item.told = true;
                self.outstanding -= 1;
                self.told += 1;
            }
            Change::None | Change::Lost => {}
        }
        let (Answer::State(Some(state)) | Answer::Over(state)) = answer else { return None };
        meter.counts.statuses += u64::from(matches!(change, Change::None | Change::Lost));
        Some(Note::State { name, text: state.to_string(), closed: state.stream != StreamState::OPEN })
    }

    /// An item is imaged or refused, of which a state was told before or not.
    const fn answer(&mut self, was_told: bool) {
        if was_told {
            self.told -= 1;
        } else {
            self.outstanding -= 1;
        }
        self.answered += 1;
    }
}

impl Meter {
    /// Counts what a jump of a sequence number means: forward means lost, anything else twice or late.
    #[cold]
    fn count_gap(&mut self, step: u32) {
        if (2..=u32::MAX / 2).contains(&step) {
            self.counts.lost += u64::from(step) - 1;
        } else {
            self.counts.reordered += 1;
        }
    }
}

/// Decodes the field list of an update as deep as the meter wants, for its own sake: a client that looks at every field costs what a real one does.
fn decode_fields(msg: &[u8], meter: &mut Meter) {
    if peek::container(msg) != Some(DataType::FIELD_LIST) {
        return;
    }
    let Some(list) = peek::body(msg).and_then(|body| FieldList::decode(body, &SetScope::default()).ok()) else {
        meter.counts.strange += 1;
        return;
    };
    for entry in list.entries() {
        let Ok(entry) = entry else {
            meter.counts.strange += 1;
            return;
        };
        meter.counts.values += 1;
        if meter.depth == Depth::Values {
            let data_type = entry.resolve(meter.types.get(entry.fid));
            let known = data_type.is_primitive() && data_type != DataType::UNKNOWN;
            if known && black_box(entry.value(data_type)).is_err() {
                meter.counts.strange += 1;
            }
        }
    }
}

/// The sequence number of an update, when it has one.
#[inline]
fn sequence_of(msg: &[u8]) -> Option<u32> {
    // Short flags, then container and update type: the number is at a fixed place in nearly every update.
    let head: &[u8; 15] = msg.first_chunk()?;
    if head[8] & 0x80 == 0 {
        let has = u16::from(head[8]) & UpdateFlags::HAS_SEQ_NUM.0 != 0;
        return has.then(|| u32::from_be_bytes([head[11], head[12], head[13], head[14]]));
    }
    match Msg::decode(msg) {
        Ok(Msg::Update(update)) => update.seq_num,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink_driven_src::template::Template;
    use rwf::msg::{RefreshFlags, RefreshMsg, StatusMsg};
    use rwf::{DataState, State, StateCode};

    fn names() -> Vec<String> {
        (0..5).map(|n| format!("RDT{n}")).collect()
    }

    fn meter(now: u64) -> Meter {
        let clock = if now == 0 { || 0 } else { || 9_000 };
        Meter::new(Depth::Values, FieldTypes::of(&rwf::dictionary::Dictionary::builtin()), clock)
    }

    /// The second of three mounts, and the table of all.
    fn watchlist() -> (Watchlist, Streams) {
        let streams = Streams::new(3, 5);
        (Watchlist::new(&[0, 1, 2, 3, 4], &streams, 1, Domain::MARKET_PRICE, 4), streams)
    }

    fn encoded(msg: &Msg<'_>) -> Vec<u8> {
        let mut buffer = vec![0; 4_096];
        let mut w = Writer::new(&mut buffer);
        msg.encode(&mut w).unwrap();
        w.written().to_vec()
    }

    fn image(index: i32, sequence: u32) -> Vec<u8> {
        let mut refresh = RefreshMsg::new(Domain::MARKET_PRICE, FIRST_STREAM + index);
        refresh.flags = RefreshFlags::SOLICITED.with(RefreshFlags::REFRESH_COMPLETE);
        refresh.seq_num = Some(sequence);
        encoded(&Msg::Refresh(refresh))
    }

    fn update(index: i32, sequence: u32) -> Vec<u8> {
        let mut bytes = Template::new(85, true, 0).unwrap().numbered(sequence).stamped_at(4_000).bytes().to_vec();
        peek::set_stream_id(&mut bytes, FIRST_STREAM + index);
        bytes
    }

    #[test]
    fn requests_keep_to_the_window_and_end() {
        let ((mut list, mut streams), names, mut meter) = (watchlist(), names(), meter(9_000));
        let mut sent = Vec::new();
        list.request(7, 2, &names, &mut streams, |m| sent.push(m.to_vec()));
        assert_eq!((sent.len(), list.wants_request(2)), (2, false));
        let Ok(Msg::Request(request)) = Msg::decode(&sent[1]) else { panic!("no request") };
        assert_eq!((request.key.service_id, request.key.name), (Some(7), Some(&b"RDT1"[..])));
        assert!(request.flags.contains(RequestFlags::STREAMING));
        list.take(0, &image(0, 1), &mut streams, &mut meter);
        list.take(0, &image(0, 2), &mut streams, &mut meter);
        list.request(7, 2, &names, &mut streams, |m| sent.push(m.to_vec()));
        assert_eq!(sent.len(), 3, "a second image of an item frees no room");
        for index in 1..5 {
            list.take(0, &image(index, 1), &mut streams, &mut meter);
            list.request(7, 2, &names, &mut streams, |m| sent.push(m.to_vec()));
        }
        assert_eq!((sent.len(), list.is_complete(), meter.counts.images), (5, true, 5));
        list.reset(&mut streams);
        assert!(!list.is_complete() && list.wants_request(1));
    }

    /// A replay that begins when all items are open has images of none of them before.
    #[test]
    fn an_item_that_is_open_without_an_image_leaves_its_place_in_the_window() {
        let ((mut list, mut streams), names, mut meter) = (watchlist(), names(), meter(9_000));
        let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "no image yet");
        let status = |index: i32| {
            let status = StatusMsg::new(Domain::MARKET_PRICE, FIRST_STREAM + index);
            encoded(&Msg::Status(StatusMsg { state: Some(suspect), ..status }))
        };
        let mut sent = 0;
        for index in 0..5 {
            list.request(7, 1, &names, &mut streams, |_| sent += 1);
            assert_eq!((sent, list.wants_request(1)), (index + 1, false));
            for _ in 0..2 {
                list.take(0, &status(index), &mut streams, &mut meter);
            }
        }
        assert_eq!((list.answered(), meter.counts.statuses), (0, 10), "no image is there yet");
        for index in 0..5 {
            list.take(0, &image(index, 1), &mut streams, &mut meter);
            list.take(0, &status(index), &mut streams, &mut meter);
        }
        assert_eq!((list.is_complete(), meter.counts.images, list.outstanding, list.told), (true, 5, 0, 0));
        // Another session asks for all of them again.
        list.reset(&mut streams);
        list.request(7, 2, &names, &mut streams, |_| sent += 1);
        assert_eq!((sent, list.wants_request(2)), (7, false));
    }

    #[test]
    fn losses_and_repetitions_are_seen_in_the_sequence() {
        let ((mut list, mut streams), mut meter) = (watchlist(), meter(9_000));
        list.request(1, 9, &names(), &mut streams, |_| {});
        list.take(0, &image(0, 10), &mut streams, &mut meter);
        for sequence in [11, 12, 15, 15, 14, 15, 16] {
            list.take(0, &update(0, sequence), &mut streams, &mut meter);
        }
        let counts = meter.counts;
        assert_eq!((counts.updates, counts.lost, counts.reordered, counts.early), (7, 2, 2, 0));
        assert!(counts.values > 7 * 5 && counts.strange == 0, "{counts:?}");
        assert_eq!(meter.latency.summary().samples, 7);
        assert!((meter.latency.summary().max_us - 5.0).abs() < 0.1);
        list.take(0, &update(3, 1), &mut streams, &mut meter);
        assert_eq!(meter.counts.early, 1, "an update before the image");
        list.take(0, &update(77, 1), &mut streams, &mut meter);
        list.take(0, &[1, 2, 3], &mut streams, &mut meter);
        assert_eq!(meter.counts.strange, 2);
    }

    #[test]
    fn a_refused_item_is_an_answer() {
        let ((mut list, mut streams), mut meter) = (watchlist(), meter(0));
        list.request(1, 9, &names(), &mut streams, |_| {});
        let mut status = StatusMsg::new(Domain::MARKET_PRICE, FIRST_STREAM + 2);
        status.state = Some(State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, "no such item"));
        let note = list.take(0, &encoded(&Msg::Status(status)), &mut streams, &mut meter).unwrap();
        let Note::State { name, text, closed } = note;
        assert!(closed && name == 2 && text.contains("no such item"), "{text}");
        assert_eq!((meter.counts.refused, list.answered()), (1, 1));
    }

    #[test]
    fn mounts_with_the_same_items_are_told_apart() {
        let (mut streams, mut meter) = (Streams::new(2, 3), meter(9_000));
        let lists: [&[u32]; 2] = [&[0, 1, 2], &[0, 1]];
        let mut mounts = [0, 1].map(|mount| Watchlist::new(lists[mount], &streams, mount, Domain::MARKET_PRICE, 4));
        for (list, first) in mounts.iter_mut().zip([10, 20]) {
            list.request(1, 9, &names(), &mut streams, |_| {});
            list.take(0, &image(1, first), &mut streams, &mut meter);
        }
        for step in 1..=3 {
            mounts[0].take(0, &update(1, 10 + step), &mut streams, &mut meter);
            mounts[1].take(0, &update(1, 20 + step), &mut streams, &mut meter);
        }
        assert_eq!((meter.counts.updates, meter.counts.lost, meter.counts.reordered), (6, 0, 0));
        mounts[1].take(0, &update(1, 26), &mut streams, &mut meter);
        assert_eq!(meter.counts.lost, 2, "only one of them has lost something");
        // The table has room for a third item of the second mount, which it did not ask for.
        mounts[1].take(0, &update(2, 1), &mut streams, &mut meter);
        assert_eq!((meter.counts.strange, meter.counts.early), (1, 0));
        mounts[1].reset(&mut streams);
        mounts[0].take(0, &update(1, 14), &mut streams, &mut meter);
        mounts[1].take(0, &update(1, 27), &mut streams, &mut meter);
        assert_eq!((meter.counts.early, meter.counts.lost), (1, 2), "the other mount's streams go on");
    }
}
