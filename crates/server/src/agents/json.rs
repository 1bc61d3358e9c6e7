//! JSON clients of a P2PS: their texts on their way between the P2PS, which knows nothing of JSON, and their connections.

use std::collections::VecDeque;

use hub::p2ps::{CloseReason, Deliveries, DeliveryList, P2ps};
use net::tcp::ConnId;
use rssl::ws::{FrameKind, JsonPeer, JsonTexts, Read, TextOptions, login_payload};
use rssl_io::RsslIo;

use super::answering::{Answering, Taken};

/// State that the JSON clients of a thread share.
pub(super) struct JsonClients {
    /// How many there are.
    count: usize,
    texts: JsonTexts,
    replies: Vec<Reply>,
    /// Clients with composed bytes, in the order in which they are to be sent to.
    unsent: VecDeque<ConnId>,
    /// Messages that no JSON stands for.
    unconvertible: u64,
    frames: SharedFrames,
    answering: Answering<ConnId>,
}

/// The frames of the client that was composed for last, for others that get the same in the same flush.
#[derive(Default)]
struct SharedFrames {
    list: DeliveryList,
    /// How they are framed, and whether updates in them have keys.
    kind: Option<(FrameKind, bool)>,
    /// The frames; none until a second client gets the same.
    bytes: Vec<u8>,
}

/// Messages from which on it is worth a look whether the next client gets the same.
const SHARED_MIN: usize = 8;
/// Frames of which no more is kept between flushes, bytes.
const FRAMES_KEPT: usize = 1 << 20;

/// Replies for which room is kept between turns.
const REPLIES_KEPT: usize = 1_024;

/// JSON clients that are sent to in one turn: some hundred microseconds.
const SENT_IN_A_TURN: usize = 64;

/// Messages to a client that do not come from the P2PS.
enum Reply {
    Text(ConnId, String),
    /// The client has asked for more answers in this turn than may wait for it.
    Overdrawn(ConnId, usize),
    Close(ConnId, CloseReason),
}

impl JsonClients {
    /// Messages so far that no JSON stands for.
    pub(super) fn unconvertible(&self) -> u64 {
        self.unconvertible
    }

    /// Fields so far that the dictionary does not have.
    pub(super) fn fields_left_out(&self) -> u64 {
        self.texts.fields_left_out()
    }

    pub(super) fn new(c: &config::P2ps) -> Self {
        let texts = JsonTexts::new(TextOptions {
            service_numbers: !c.json_service_names,
            expand_enums: c.json_expand_enums,
            catch_unknown_members: c.catch_unknown_json_keys,
            skip_unknown_fields: !c.catch_unknown_json_fids,
            default_service: c.default_service.clone(),
            login_payload: login_payload(c.websocket_ping_timeout_s, super::WEBSOCKET_MESSAGE_MAX),
        });
        let frames = SharedFrames::default();
        let answering = Answering::default();
        Self { count: 0, texts, replies: Vec::new(), unsent: VecDeque::new(), unconvertible: 0, frames, answering }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn joined(&mut self) {
        self.count += 1;
    }

    pub(super) fn left(&mut self) {
        debug_assert!(self.count > 0, "only who has joined leaves");
        self.count -= 1;
    }

    /// Takes over the dictionary and the services that the P2PS has now. To be called before texts are read or written.
    pub(super) fn follow(&mut self, p2ps: &P2ps) {
        if self.count == 0 {
            return;
        }
        self.texts.set_dictionary(p2ps.dictionary());
        self.texts.set_services(p2ps.services_renamed(), |place| p2ps.services_from(place), p2ps.first_service());
    }

    /// Reads a client's text: each message in it is handed on. What it gets for the rest (`Pong`, errors) follows with
    /// [`JsonClients::reply`]. False if it has made too many errors to go on. `each` tells whether a message is done, as
    /// [`P2ps::client_message`] does.
    pub(super) fn read(
        &mut self,
        conn: ConnId,
        peer: &mut JsonPeer,
        text: &str,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let Self { texts, replies, answering, .. } = self;
        let mut may_go_on = true;
        texts.read(peer, text, |read| {
            match read {
                Read::Message(message) => return each(message),
                Read::Reply(text) => match answering.take(conn, text.len()) {
                    Taken::Yes => replies.push(Reply::Text(conn, text)),
                    Taken::Last { bytes } => replies.push(Reply::Overdrawn(conn, bytes)),
                    Taken::No => {}
                },
                Read::Complaint(text) => tracing::warn!("a JSON client could not read what it was sent: {text}"),
                Read::TooManyErrors => may_go_on = false,
            }
            true
        });
        may_go_on
    }

    /// A message of a client that had to wait is done.
    pub(super) fn note_message(&mut self, peer: &mut JsonPeer, message: &[u8]) {
        self.texts.note_message(peer, message);
    }

    /// Has a client's connection closed after what it is still to get.
    pub(super) fn close(&mut self, conn: ConnId, reason: CloseReason) {
        self.replies.push(Reply::Close(conn, reason));
    }

    /// Composes what [`JsonClients::read`] has left to be sent; `each` gets the clients for whom that was.
    pub(super) fn reply(&mut self, now: u64, io: &mut RsslIo, mut each: impl FnMut(ConnId)) {
        self.answering.end_turn();
        for reply in self.replies.drain(..) {
            match reply {
                Reply::Text(conn, text) => {
                    io.answer_json(now, conn, |packer| packer.push(&text));
                    each(conn);
                }
                Reply::Overdrawn(conn, bytes) => io.end_overdrawn(conn, bytes),
                Reply::Close(conn, reason) => io.close_drained(conn, &reason.to_string()),
            }
        }
        self.replies.shrink_to(REPLIES_KEPT);
    }

    /// A client, not yet among them, is to be sent to.
    pub(super) fn await_sending(&mut self, conn: ConnId) {
        self.unsent.push_back(conn);
    }

    /// Whether some are to be sent to.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Clients that are to be sent to in this turn: not all if they are many, so that what comes meanwhile for others is not kept waiting.
    pub(super) fn next_unsent(&mut self) -> impl Iterator<Item = ConnId> {
        let count = self.unsent.len().min(SENT_IN_A_TURN);
        self.unsent.drain(..count)
    }

    /// Writes a client's deliveries into its session. Gives the bytes that wait there, as [`RsslIo::queue_json`]; so many or more are sent at
    /// once where that saves a copy.
    pub(super) fn deliver(
        &mut self,
        now: u64,
        (conn, peer): (ConnId, &mut JsonPeer),
        deliveries: Deliveries<'_>,
        at_once: usize,
        io: &mut RsslIo,
    ) -> Option<usize> {
        let kind = io.frame_kind(conn).zip(peer.uniform());
        if deliveries.len() < SHARED_MIN || kind.is_none() {
            return self.compose(now, (conn, peer), deliveries, io);
        }
        let is_same = self.frames.kind == kind && self.frames.list.is_same(&deliveries);
        if is_same && !self.frames.bytes.is_empty() {
            return io.queue_frames(now, conn, &self.frames.bytes, at_once);
        }
        if !is_same {
            self.frames.bytes.clear();
            self.frames.kind = kind;
            self.frames.list.set(&deliveries);
        }
        let before = io.composed(conn, 0).len();
        let queued = self.compose(now, (conn, &mut *peer), deliveries, io);
        if peer.wrote_its_own() {
            self.frames.list.clear();
        } else if is_same {
            self.frames.bytes.extend_from_slice(io.composed(conn, before));
        }
        queued
    }

    fn compose(
        &mut self,
        now: u64,
        (conn, peer): (ConnId, &mut JsonPeer),
        deliveries: Deliveries<'_>,
        io: &mut RsslIo,
    ) -> Option<usize> {
        let Self { texts, unconvertible, .. } = self;
        peer.begin();
        let mut answered = false;
        let queued = io.queue_json(now, conn, |packer| {
            for (body, stream) in deliveries {
                match texts.write(peer, body, stream, packer) {
                    Ok(is_login) => answered |= is_login,
                    Err(error) => {
                        *unconvertible += 1;
                        if unconvertible.is_power_of_two() {
                            tracing::error!(
                                "{unconvertible} messages could not be given to JSON clients, now: {error}"
                            );
                        }
                    }
                }
            }
        });
        if answered {
            // Nobody else's login was answered by that.
            self.frames.list.clear();
            io.logged_in(conn);
        }
        queued
    }

    /// The bodies of a flush are void: others will lie where they lay.
    pub(super) fn end_flush(&mut self) {
        self.texts.end_flush();
        self.frames.list.clear();
        self.frames.bytes.clear();
        self.frames.bytes.shrink_to(FRAMES_KEPT);
    }
}
