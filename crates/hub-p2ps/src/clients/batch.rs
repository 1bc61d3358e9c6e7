//! Batches: many items or streams in one message. What a turn does not come to waits (`backlog`).

use super::Clients;
use super::refusal::Refusal;
use super::streams::Cursor;
use super::wanted::Wanted;
use crate::ids::{ClientId, ItemId, StreamId};
use crate::items::watchers::Watcher;
use crate::{P2ps, encode};
use rwf::msg::{CloseMsg, Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::{DataState, DataType, State, StateCode, StreamState};
use std::fmt::Write as _;

/// Flag of a close whose payload lists streams. It has no name in ETA Java.
pub const CLOSE_BATCH: u16 = 0x04;

/// Bytes that the attributes in the key of a batch may make for all of its names together, each of which becomes an item with them.
const ATTRIBUTES_MAX: usize = 16 << 20;

/// The rest of a batch.
#[derive(Debug)]
pub(super) enum Batch {
    /// Names that are to be opened, on the stream ids that follow `stream`.
    Open { header: Header, names: Names, stream: i32 },
    /// Streams that are to be asked for again.
    Reissue { header: Header, streams: Vec<StreamId>, done: usize },
    /// Streams that are to be closed, and the message that says so.
    Close { closing: Closing, streams: Vec<i32>, done: usize, message: Box<[u8]> },
    /// Something concerns all streams with items.
    All { what: Sweep, at: Cursor },
    /// The streams of a login that is over end.
    Leave { at: Cursor },
}

/// What concerns all streams of a client that have items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sweep {
    /// The streams are paused, or go on.
    Pause(bool),
    /// This server stands by for their client, or serves it.
    StandBy,
}

/// The request of a batch without its payload, which was read.
#[derive(Debug)]
pub(super) struct Header {
    request: Vec<u8>,
    wanted: Wanted,
}

/// Names one behind the other, and where each ends.
#[derive(Debug)]
pub(super) struct Names {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    done: usize,
}

/// What is told of a close of many streams when it is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    own: StreamId,
    domain: Domain,
    /// Of these so many were open.
    ok: usize,
}

impl Names {
    fn of(names: &[&[u8]]) -> Self {
        let bytes = names.concat();
        let ends = names.iter().scan(0, |end, name| {
            *end += name.len();
            Some(*end as u32)
        });
        Self { ends: ends.collect(), bytes, done: 0 }
    }

    /// The names that are left.
    fn left(&self) -> impl Iterator<Item = &[u8]> {
        (self.done..self.ends.len()).map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start as usize..self.ends[at] as usize]
        })
    }

    fn is_done(&self) -> bool {
        self.done == self.ends.len()
    }
}

impl Header {
    /// Of a request whose payload was read; `None` if it cannot be written without that.
    fn of(msg: &RequestMsg<'_>, wanted: &Wanted) -> Option<Self> {
        // The part for the provider is read out of the payload by now.
        wanted.relayed(msg);
        let bare = RequestMsg {
            container: DataType::NO_DATA,
            body: &[],
            ext_header: None,
            ..single(msg, StreamId(msg.stream_id))
        };
        let mut request = Vec::new();
        let room = 96 + bare.key.name.map_or(0, <[u8]>::len) + bare.key.attrib.map_or(0, |attrib| attrib.data.len());
        encode::append(&mut request, room, |w| bare.encode(w)).ok()?;
        Some(Self { request, wanted: wanted.clone() })
    }

    fn msg(&self) -> Option<RequestMsg<'_>> {
        let msg = Msg::decode(&self.request).ok();
        debug_assert!(msg.is_some(), "what was written here can be read");
        if let Some(Msg::Request(msg)) = msg { Some(msg) } else { None }
    }
}

impl Batch {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let own = size_of::<Self>();
        own + match self {
            Self::Open { header, names, .. } => header.request.len() + names.bytes.len() + 4 * names.ends.len(),
            Self::Reissue { header, streams, .. } => header.request.len() + 4 * streams.len(),
            Self::Close { streams, .. } => 4 * streams.len(),
            Self::All { .. } | Self::Leave { .. } => 0,
        }
    }

    /// If this is a close, this is its message.
    pub(super) fn note_close(&mut self, msg: &[u8]) -> bool {
        let Self::Close { message, .. } = self else { return false };
        *message = msg.into();
        true
    }
}

impl Clients {
    /// The item that is open on a stream of a client.
    fn item_on(&self, client: ClientId, stream: StreamId) -> Option<ItemId> {
        self.get(client)?.streams.item(stream)
    }
}

impl P2ps {
    /// A request for many items, or a reissue of many streams. The batch's own stream gets one status and is free
    /// again; items open on the ids that follow it.
    pub(crate) fn batch_request(&mut self, client: ClientId, msg: &RequestMsg<'_>) {
        let stream = StreamId(msg.stream_id);
        if self.clients.open_on(client, stream).is_some() {
            return self.refuse(client, stream, msg.domain, &Refusal::StreamInUse { stream: stream.0 });
        }
        let Ok(mut payload) = Payload::of_request(msg) else {
            return self.refuse(client, stream, msg.domain, &Refusal::BadBatch);
        };
        let wanted = match Wanted::of(msg, &mut payload) {
            Ok(wanted) => wanted,
            Err(refusal) => return self.refuse(client, stream, msg.domain, &refusal),
        };
        match (&payload.items, payload.streams) {
            (Some(names), _) => self.batch_open(client, msg, names, &wanted),
            (None, Some(streams)) => self.batch_reissue(client, msg, streams, &wanted.or_keep()),
            (None, None) => self.refuse(client, stream, msg.domain, &Refusal::BadBatch),
        }
    }

    fn batch_open(&mut self, client: ClientId, msg: &RequestMsg<'_>, names: &[&[u8]], wanted: &Wanted) {
        // An error of all of them is told once, on the batch's own stream.
        if let Err(refusal) = self.service_of(&msg.key) {
            let told = refusal.to_state();
            return self.refuse_with_state(client, StreamId(msg.stream_id), msg.domain, &told);
        }
        let bytes = msg.key.attrib.map_or(0, |attrib| attrib.data.len()) * names.len();
        if bytes > ATTRIBUTES_MAX {
            let refusal = Refusal::BatchAttributes { bytes, max: ATTRIBUTES_MAX };
            return self.refuse(client, StreamId(msg.stream_id), msg.domain, &refusal);
        }
        let free =
            |stream: Option<StreamId>| stream.is_some_and(|stream| self.clients.open_on(client, stream).is_none());
        let ok = names
            .iter()
            .enumerate()
            .filter(|(at, name)| !name.is_empty() && free(stream_of(msg.stream_id, *at)))
            .count();
        self.batch_status(client, msg, "items", names.len(), ok);
        let done = self.open_names(client, msg, msg.stream_id, names.iter().copied(), wanted);
        if done < names.len() {
            let Some(header) = Header::of(msg, wanted) else {
                self.counters.messages_unwritable += 1;
                return;
            };
            let rest = Batch::Open {
                header,
                names: Names::of(&names[done..]),
                stream: msg.stream_id.saturating_add(done as i32),
            };
            self.counters.batches_in_turns += 1;
            self.clients.keep_for_later(client, rest);
        }
    }

    /// Opens names on the stream ids behind one, as far as this turn lets it; tells how many are done with.
    fn open_names<'n>(
        &mut self,
        client: ClientId,
        msg: &RequestMsg<'_>,
        behind: i32,
        names: impl Iterator<Item = &'n [u8]>,
        wanted: &Wanted,
    ) -> usize {
        let (mut done, pieces) = (0, wanted.pieces());
        for name in names {
            // Stream ids end here: the status of the batch counts what has none.
            let Some(stream) = stream_of(behind, done).filter(|_| self.clients.is_on(client)) else {
                return usize::MAX;
            };
            if !self.may_ask_for_more(pieces) {
                break;
            }
            done += 1;
            let mut one = single(msg, stream);
            one.key.name = Some(name);
            if self.clients.open_on(client, stream).is_some() {
                self.refuse(client, stream, msg.domain, &Refusal::StreamInUse { stream: stream.0 });
            } else if name.is_empty() {
                self.refuse(client, stream, msg.domain, &Refusal::NoName);
            } else {
                self.item_request_with(client, &one, wanted);
            }
        }
        done
    }

    fn batch_reissue(&mut self, client: ClientId, msg: &RequestMsg<'_>, streams: Vec<i32>, wanted: &Wanted) {
        let mut streams: Vec<_> = streams.into_iter().map(StreamId).collect();
        let is_open = |stream: &&StreamId| self.clients.item_on(client, **stream).is_some();
        let ok = streams.iter().filter(is_open).count();
        self.batch_status(client, msg, "streams", streams.len(), ok);
        let done = self.reissue_streams(client, msg, &streams, wanted);
        if done < streams.len() {
            let Some(header) = Header::of(msg, wanted) else {
                self.counters.messages_unwritable += 1;
                return;
            };
            streams.drain(..done);
            self.counters.batches_in_turns += 1;
            self.clients.keep_for_later(client, Batch::Reissue { header, streams, done: 0 });
        }
    }

    fn reissue_streams(
        &mut self,
        client: ClientId,
        msg: &RequestMsg<'_>,
        streams: &[StreamId],
        wanted: &Wanted,
    ) -> usize {
        let pieces = wanted.pieces();
        for (done, &stream) in streams.iter().enumerate() {
            if !self.clients.is_on(client) {
                break;
            }
            if !self.may_ask_for_more(pieces) {
                return done;
            }
            // A stream that an earlier of them has ended is not open any more.
            let Some(item) = self.clients.item_on(client, stream) else { continue };
            let mut one = single(msg, stream);
            one.domain = Domain(self.items.key(item).domain);
            one.key = MsgKey::EMPTY;
            self.item_request_with(client, &one, wanted);
        }
        streams.len()
    }

    /// The end of many streams. One status on the close's own stream tells how many of them were open, as an ADS does.
    pub(crate) fn batch_close(&mut self, client: ClientId, msg: &CloseMsg<'_>) {
        let own = StreamId(msg.stream_id);
        let Ok(payload) = Payload::decode(msg.container, msg.body) else {
            return self.refuse(client, own, msg.domain, &Refusal::BadBatch);
        };
        let streams = payload.streams.unwrap_or_default();
        let mut closing = Closing { own, domain: msg.domain, ok: 0 };
        let done = self.close_streams(client, &streams, &mut closing);
        if done < streams.len() {
            self.counters.batches_in_turns += 1;
            self.clients.keep_for_later(client, Batch::Close { closing, streams, done, message: Box::default() });
        } else {
            self.end_batch_close(client, closing, streams.len());
        }
    }

    fn close_streams(&mut self, client: ClientId, streams: &[i32], closing: &mut Closing) -> usize {
        for (done, &stream) in streams.iter().enumerate() {
            if !self.clients.backlogs.take_one() {
                return done;
            }
            let stream = StreamId(stream);
            if self.clients.item_on(client, stream).is_some() {
                self.leave_list(client, stream);
                self.close_stream(client, stream);
                closing.ok += 1;
            }
        }
        streams.len()
    }

    fn end_batch_close(&mut self, client: ClientId, Closing { own, domain, ok }: Closing, total: usize) {
        // A stream that is open for something else is not to be ended by what tells of others.
        if self.clients.open_on(client, own).is_none() {
            let mut text = format!("Processed {total} total stream ids from Batch Close Request. {ok} Ok.");
            if ok < total {
                let _ = write!(text, " {} not, since they were not open.", total - ok);
            }
            let state = State::new(StreamState::CLOSED, DataState::OK, StateCode::NONE, &text);
            self.send_status(client, own, domain, state);
        }
    }

    /// Goes on with a batch, `share` items of it at most. Gives the message of a close that is done.
    pub(super) fn work_batch(&mut self, client: ClientId, mut batch: Batch, share: usize) -> Option<Box<[u8]>> {
        let is_done = match &mut batch {
            Batch::Open { header, names, stream } => {
                let done = header.msg().map_or(usize::MAX, |msg| {
                    self.open_names(client, &msg, *stream, names.left().take(share), &header.wanted)
                });
                names.done = names.done.saturating_add(done).min(names.ends.len());
                *stream = stream.saturating_add_unsigned(done as u32);
                names.is_done()
            }
            Batch::Reissue { header, streams, done } => {
                let part = &streams[*done..streams.len().min(*done + share)];
                *done +=
                    header.msg().map_or(part.len(), |msg| self.reissue_streams(client, &msg, part, &header.wanted));
                *done == streams.len()
            }
            Batch::Close { closing, streams, done, message } => {
                let part = &streams[*done..streams.len().min(*done + share)];
                *done += self.close_streams(client, part, closing);
                if *done == streams.len() {
                    self.end_batch_close(client, *closing, streams.len());
                    return Some(std::mem::take(message));
                }
                false
            }
            Batch::All { what, at } => self.sweep_streams(client, *what, at, share),
            Batch::Leave { at } => self.leave_in_turn(client, at, share),
        };
        if !is_done {
            self.clients.keep_for_later(client, batch);
        }
        None
    }

    /// Does something to all streams of a client that have items: to as many of them as this turn lets it, and to the others later.
    pub(super) fn sweep(&mut self, client: ClientId, what: Sweep) {
        let mut at = Cursor::default();
        if !self.sweep_streams(client, what, &mut at, usize::MAX) {
            self.counters.batches_in_turns += 1;
            self.clients.keep_for_later(client, Batch::All { what, at });
        }
    }

    /// True when all are done.
    fn sweep_streams(&mut self, client: ClientId, what: Sweep, at: &mut Cursor, share: usize) -> bool {
        for _ in 0..share {
            // The end of a login ends its sweep.
            let Some(known) = self.clients.get(client).filter(|known| known.login.is_some()) else { return true };
            let before = *at;
            // All streams are looked at.
            let Some((stream, item)) = known.streams.next_item(at) else { return true };
            if !self.clients.backlogs.take_one() {
                *at = before;
                return false;
            }
            let watcher = Watcher { client, stream };
            match what {
                Sweep::Pause(pause) => self.pause_one(watcher, item, pause),
                Sweep::StandBy => self.stand_by(watcher, item),
            }
        }
        false
    }

    fn pause_one(&mut self, watcher: Watcher, item: ItemId, pause: bool) {
        if self.clients.watch(watcher).is_some_and(|(_, watch)| watch.rests() != pause) {
            self.change_watch(watcher, item, pause, true);
        }
    }

    fn batch_status(&mut self, client: ClientId, msg: &RequestMsg<'_>, what: &str, total: usize, ok: usize) {
        let mut text = format!("Processed {total} total {what} from Batch Request. {ok} Ok.");
        if ok < total {
            let _ = write!(text, " {} not, for reasons told on their streams.", total - ok);
        }
        let state = State::new(StreamState::CLOSED, DataState::OK, StateCode::NONE, &text);
        self.send_status(client, StreamId(msg.stream_id), msg.domain, state);
    }
}

/// The stream of the name at a place in a batch; `None` past the last stream id.
fn stream_of(behind: i32, at: usize) -> Option<StreamId> {
    let at = i32::try_from(at + 1).ok()?;
    behind.checked_add(at).map(StreamId)
}

/// The request that a batch stands for, for one of its streams. Its payload is the batch's, which was read already.
fn single<'a>(msg: &RequestMsg<'a>, stream: StreamId) -> RequestMsg<'a> {
    let flags = msg.flags.without(RequestFlags::HAS_BATCH).without(RequestFlags::HAS_VIEW);
    RequestMsg { stream_id: stream.0, flags, ..msg.clone() }
}
