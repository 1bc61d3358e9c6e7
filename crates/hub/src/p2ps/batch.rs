//! Batches: many items or streams in one message.

use super::P2ps;
use super::refusal::{Refusal, Told};
use super::streams::Open;
use super::views::{self, Wish};
use rwf::msg::{CloseMsg, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::{DataState, State, StateCode, StreamState};
use std::fmt::Write as _;

/// Flag of a close whose payload lists streams. It has no name in ETA Java.
pub(crate) const CLOSE_BATCH: u16 = 0x04;

impl P2ps {
    /// A request for many items, or a reissue of many streams. The batch's own stream gets one status and is free
    /// again; items open on the ids that follow it.
    pub(super) fn batch_request(&mut self, client: u32, msg: &RequestMsg<'_>) {
        let stream = msg.stream_id;
        if self.client(client).is_some_and(|known| known.streams.get(stream).is_some()) {
            return self.refuse(client, stream, msg.domain, &Refusal::StreamInUse { stream });
        }
        let Ok(payload) = Payload::of_request(msg) else {
            return self.refuse(client, stream, msg.domain, &Refusal::BadBatch);
        };
        let wish = match views::wish(msg.flags.contains(RequestFlags::HAS_VIEW), payload.view.as_ref()) {
            Ok(wish) => wish,
            Err(refusal) => return self.refuse(client, stream, msg.domain, &refusal),
        };
        match (&payload.items, &payload.streams) {
            (Some(names), _) => self.batch_open(client, msg, names, &wish),
            (None, Some(streams)) => self.batch_reissue(client, msg, streams, &wish),
            (None, None) => self.refuse(client, stream, msg.domain, &Refusal::BadBatch),
        }
    }

    fn batch_open(&mut self, client: u32, msg: &RequestMsg<'_>, names: &[&[u8]], wish: &Wish) {
        // What is wrong with all of them is told once, on the batch's own stream.
        if let Err(refusal) = self.service_of(&msg.key) {
            let told = refusal.told();
            return self.refuse_told(client, msg.stream_id, msg.domain, &told);
        }
        let free = |stream: Option<i32>| {
            stream.is_some_and(|stream| self.client(client).is_some_and(|known| known.streams.get(stream).is_none()))
        };
        let stream_of = |at: usize| i32::try_from(at + 1).ok().and_then(|at| msg.stream_id.checked_add(at));
        let ok = names.iter().enumerate().filter(|(at, name)| !name.is_empty() && free(stream_of(*at))).count();
        self.batch_status(client, msg, "items", names.len(), ok);
        for (at, name) in names.iter().enumerate() {
            let Some(stream) = stream_of(at) else { return };
            let mut one = single(msg, stream);
            one.key.name = Some(name);
            if self.client(client).is_some_and(|known| known.streams.get(stream).is_some()) {
                self.refuse(client, stream, msg.domain, &Refusal::StreamInUse { stream });
            } else if name.is_empty() {
                self.refuse(client, stream, msg.domain, &Refusal::NoName);
            } else {
                self.item_request_with(client, &one, wish);
            }
        }
    }

    fn batch_reissue(&mut self, client: u32, msg: &RequestMsg<'_>, streams: &[i32], wish: &Wish) {
        let open = |stream: &&i32| {
            let known = self.client(client);
            known.is_some_and(|known| matches!(known.streams.get(**stream), Some(Open::Item(_))))
        };
        let ok: Vec<i32> = streams.iter().filter(open).copied().collect();
        self.batch_status(client, msg, "streams", streams.len(), ok.len());
        // A batch that says nothing of views means the streams as they are.
        let wish = if *wish == Wish::Whole { &Wish::Keep } else { wish };
        for stream in ok {
            let Some(Open::Item(item)) = self.client(client).and_then(|known| known.streams.get(stream)) else {
                continue;
            };
            let mut one = single(msg, stream);
            one.domain = rwf::msg::Domain(self.items.key(item).domain);
            one.key = MsgKey::EMPTY;
            self.item_request_with(client, &one, wish);
        }
    }

    /// The end of many streams. Those that are not open are nothing to tell of.
    pub(super) fn batch_close(&mut self, client: u32, msg: &CloseMsg<'_>) {
        let Ok(payload) = Payload::decode(msg.container, msg.body) else {
            return self.refuse(client, msg.stream_id, msg.domain, &Refusal::BadBatch);
        };
        for stream in payload.streams.unwrap_or_default() {
            let item = self.client(client).and_then(|known| known.streams.get(stream));
            if matches!(item, Some(Open::Item(_))) {
                self.close_stream(client, stream);
            }
        }
    }

    fn batch_status(&mut self, client: u32, msg: &RequestMsg<'_>, what: &str, total: usize, ok: usize) {
        let mut text = format!("Processed {total} total {what} from Batch Request. {ok} Ok.");
        if ok < total {
            let _ = write!(text, " {} not, for reasons told on their streams.", total - ok);
        }
        let state = State::new(StreamState::CLOSED, DataState::OK, StateCode::NONE, &text);
        self.send_status(client, msg.stream_id, msg.domain, state);
    }

    /// Tells a client why it does not get what it asked for.
    pub(super) fn refuse_told(&mut self, client: u32, stream: i32, domain: rwf::msg::Domain, told: &Told) {
        self.counters.requests_refused += 1;
        self.send_status(client, stream, domain, told.state());
    }
}

/// The request that a batch stands for, for one of its streams. Its payload is the batch's, which was read already.
fn single<'a>(msg: &RequestMsg<'a>, stream: i32) -> RequestMsg<'a> {
    let flags = msg.flags.without(RequestFlags::HAS_BATCH).without(RequestFlags::HAS_VIEW);
    RequestMsg { stream_id: stream, flags, ..msg.clone() }
}
