//! Batches: many items or streams in one message.

use super::refusal::Refusal;
use super::wanted::Wanted;
use crate::p2ps::P2ps;
use crate::p2ps::ids::{ClientId, StreamId};
use rwf::msg::{CloseMsg, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::{DataState, State, StateCode, StreamState};
use std::fmt::Write as _;

/// Flag of a close whose payload lists streams. It has no name in ETA Java.
pub(crate) const CLOSE_BATCH: u16 = 0x04;

/// Bytes that the attributes in the key of a batch may make for all of its names together, each of which becomes an item with them.
const ATTRIBUTES_MAX: usize = 16 << 20;

impl P2ps {
    /// A request for many items, or a reissue of many streams. The batch's own stream gets one status and is free
    /// again; items open on the ids that follow it.
    pub(in crate::p2ps) fn batch_request(&mut self, client: ClientId, msg: &RequestMsg<'_>) {
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
        match (&payload.items, &payload.streams) {
            (Some(names), _) => self.batch_open(client, msg, names, &wanted),
            (None, Some(streams)) => self.batch_reissue(client, msg, streams, &wanted.or_keep()),
            (None, None) => self.refuse(client, stream, msg.domain, &Refusal::BadBatch),
        }
    }

    fn batch_open(&mut self, client: ClientId, msg: &RequestMsg<'_>, names: &[&[u8]], wanted: &Wanted) {
        // What is wrong with all of them is told once, on the batch's own stream.
        if let Err(refusal) = self.service_of(&msg.key) {
            let told = refusal.told();
            return self.refuse_told(client, StreamId(msg.stream_id), msg.domain, &told);
        }
        let bytes = msg.key.attrib.map_or(0, |attrib| attrib.data.len()) * names.len();
        if bytes > ATTRIBUTES_MAX {
            let refusal = Refusal::BatchAttributes { bytes, max: ATTRIBUTES_MAX };
            return self.refuse(client, StreamId(msg.stream_id), msg.domain, &refusal);
        }
        let free =
            |stream: Option<StreamId>| stream.is_some_and(|stream| self.clients.open_on(client, stream).is_none());
        let stream_of = |at: usize| {
            let at = i32::try_from(at + 1).ok()?;
            msg.stream_id.checked_add(at).map(StreamId)
        };
        let ok = names.iter().enumerate().filter(|(at, name)| !name.is_empty() && free(stream_of(*at))).count();
        self.batch_status(client, msg, "items", names.len(), ok);
        for (at, name) in names.iter().enumerate() {
            // Stream ids end here: the status of the batch counts what has none.
            let Some(stream) = stream_of(at) else { return };
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
    }

    fn batch_reissue(&mut self, client: ClientId, msg: &RequestMsg<'_>, streams: &[i32], wanted: &Wanted) {
        let streams: Vec<_> = streams.iter().map(|&stream| StreamId(stream)).collect();
        let item = |p2ps: &Self, stream| p2ps.clients.get(client).and_then(|known| known.streams.item(stream));
        let ok = streams.iter().filter(|&&stream| item(self, stream).is_some()).count();
        self.batch_status(client, msg, "streams", streams.len(), ok);
        for stream in streams {
            // One that an earlier of them has ended is not open any more.
            let Some(item) = item(self, stream) else { continue };
            let mut one = single(msg, stream);
            one.domain = rwf::msg::Domain(self.items.key(item).domain);
            one.key = MsgKey::EMPTY;
            self.item_request_with(client, &one, wanted);
        }
    }

    /// The end of many streams. One status on the close's own stream tells how many of them were open, as an ADS does.
    pub(in crate::p2ps) fn batch_close(&mut self, client: ClientId, msg: &CloseMsg<'_>) {
        let own = StreamId(msg.stream_id);
        let Ok(payload) = Payload::decode(msg.container, msg.body) else {
            return self.refuse(client, own, msg.domain, &Refusal::BadBatch);
        };
        let streams = payload.streams.unwrap_or_default();
        let total = streams.len();
        let mut ok = 0;
        for stream in streams.into_iter().map(StreamId) {
            if self.clients.get(client).is_some_and(|known| known.streams.item(stream).is_some()) {
                self.symbol_lists.forget(client, Some(stream));
                self.close_stream(client, stream);
                ok += 1;
            }
        }
        // A stream that is open for something else is not to be ended by what tells of others.
        if self.clients.open_on(client, own).is_none() {
            let mut text = format!("Processed {total} total stream ids from Batch Close Request. {ok} Ok.");
            if ok < total {
                let _ = write!(text, " {} not, since they were not open.", total - ok);
            }
            let state = State::new(StreamState::CLOSED, DataState::OK, StateCode::NONE, &text);
            self.send_status(client, own, msg.domain, state);
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

/// The request that a batch stands for, for one of its streams. Its payload is the batch's, which was read already.
fn single<'a>(msg: &RequestMsg<'a>, stream: StreamId) -> RequestMsg<'a> {
    let flags = msg.flags.without(RequestFlags::HAS_BATCH).without(RequestFlags::HAS_VIEW);
    RequestMsg { stream_id: stream.0, flags, ..msg.clone() }
}
