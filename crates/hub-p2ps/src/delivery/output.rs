//! Output to the clients, as one group of tables: the folder `delivery` writes them, everyone else goes through the methods here.

use super::deliveries::{BodyId, Deliveries};
use super::scratch::Scratch;
use super::turn::Turn;
use crate::conflation::{ItemRules, Rules, TimeConflation};
use crate::egress::{Egress, FlowControl, Limits};
use crate::ids::{ClientId, ItemId, ServiceId, StreamId};
use crate::items::watchers::Watcher;
use crate::{CloseReason, Config, Notice, encode};
use rwf::msg::Domain;
use rwf::wire::Writer;
use rwf::{DataState, EncodeError, State, StreamState};

const SECOND: u64 = 1_000_000_000;
/// Single items that operators are told of in a second: a log that takes a hundred lines of a kind has room for the other ones.
const ITEM_NOTICES: u32 = 50;
/// How often memory that idle clients hold is given back, in nanoseconds.
const TRIM_INTERVAL: u64 = 1_000_000_000;

/// Deliveries of a turn, messages that wait for clients from earlier ones, and news for the owner of the connections.
#[derive(Debug)]
pub(crate) struct Output {
    /// The deliveries of this turn: bodies once, and a list for each client. Empty after each flush.
    pub(super) turn: Turn,
    /// Messages that wait for clients that take too little, up to the limits of [`crate::egress::Limits`].
    pub(super) egress: Egress,
    /// Updates that wait for the end of the interval of a view that is conflated by time: one merge a view.
    pub(super) conflation: TimeConflation<ItemId>,
    /// Items that are conflated otherwise than the rest of their service.
    pub(super) item_rules: ItemRules<ItemId>,
    /// How updates are merged.
    pub(super) rules: Rules,
    /// Memory that is used again and again, empty between two calls.
    pub(super) scratch: Scratch,
    /// Clients to be closed since the owner asked last, and why: each once.
    pub(super) closing: Vec<(ClientId, CloseReason)>,
    /// Notices for operators since the owner asked last.
    pub(super) notices: Vec<Notice>,
    /// When the second at hand began in which single items were told of, and how many were.
    item_notices: (u64, u32),
    /// When memory of idle clients is given back next, in nanoseconds; of no meaning without clients.
    pub(super) trim_at: u64,
}

impl Output {
    /// Nothing is on its way.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            turn: Turn::default(),
            egress: Egress::new(config.egress),
            conflation: TimeConflation::default(),
            item_rules: ItemRules::default(),
            rules: Rules::new(config.conflation.ripple),
            scratch: Scratch::default(),
            closing: Vec::new(),
            notices: Vec::new(),
            item_notices: (0, 0),
            trim_at: 0,
        }
    }

    /// A client has connected; with `is_first` there was none.
    pub(crate) fn add_client(&mut self, now: u64, client: ClientId, is_first: bool) {
        if is_first {
            self.trim_at = now + TRIM_INTERVAL;
        }
        self.turn.ensure(client);
        self.egress.insert(client);
    }

    /// A client is gone: nothing more is for it.
    pub(crate) fn remove_client(&mut self, client: ClientId) {
        self.turn.forget(client);
        self.turn.serve_last(client, false);
        self.egress.remove(client, &mut self.turn);
    }

    /// A client is served behind those that are not, in each flush. Nothing may wait for it.
    pub(crate) fn serve_last(&mut self, client: ClientId) {
        self.turn.serve_last(client, true);
    }

    /// A client is to be closed after what it gets in this turn.
    pub(crate) fn close(&mut self, client: ClientId, reason: CloseReason) {
        self.closing.push((client, reason));
    }

    /// A state that those who watch an item have heard: operators hear of it where they want to know of all that are not good, or of an item that nobody has
    /// had and that is refused for good (`Some(true)`; `None` for one that somebody has had); of so many in a second. False if they are not told because of
    /// that.
    pub(crate) fn notice_of_item(
        &mut self,
        now: u64,
        (errors, refused): (bool, Option<bool>),
        (service, name): (&str, &[u8]),
        state: &State<'_>,
    ) -> bool {
        let is_good = state.stream == StreamState::OPEN && state.data != DataState::SUSPECT;
        let is_refused = refused.is_some() && state.stream == StreamState::CLOSED;
        if is_good || !(errors || is_refused && refused == Some(true)) {
            return true;
        }
        let (begun, told) = &mut self.item_notices;
        if now.saturating_sub(*begun) >= SECOND {
            (*begun, *told) = (now, 0);
        }
        *told += 1;
        if *told > ITEM_NOTICES {
            return false;
        }
        let (service, name) = (service.to_owned(), String::from_utf8_lossy(name).into_owned());
        self.notices.push(Notice::ItemState { service, name, state: state.to_string(), is_refused });
        true
    }

    /// Operators are to hear of something.
    pub(crate) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// A body of this turn, written by `write` into room for so many bytes, which grows.
    ///
    /// # Errors
    /// What `write` says; nothing is kept then.
    pub(crate) fn write_body(
        &mut self,
        room: usize,
        write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Result<BodyId, EncodeError> {
        self.turn.arena_body(|arena| encode::append(arena, room, write))
    }

    /// A copy of a message from the hub, with the public id of its service in its key if it has one. `None` if it cannot be read.
    pub(crate) fn message_body(&mut self, msg: &[u8], service: Option<ServiceId>) -> Option<BodyId> {
        self.turn.message_body(msg, service)
    }

    /// Bytes of all bodies of this turn that were written here.
    pub(crate) const fn body_bytes(&self) -> usize {
        self.turn.arena_len()
    }

    /// Bytes of one body of this turn that was written here.
    pub(crate) fn bytes_of(&self, body: BodyId) -> usize {
        self.turn.arena_bytes(body).len()
    }

    /// Delivers a body to one client.
    pub(crate) fn deliver(&mut self, body: BodyId, client: ClientId, stream: StreamId) {
        self.turn.deliver(body, client, stream);
    }

    /// Delivers a body to every watcher.
    #[inline]
    pub(crate) fn fan_out(&mut self, body: BodyId, watchers: &[Watcher]) {
        self.turn.fan_out(body, watchers);
    }

    /// A client gets what it has to get by now, and nothing more until it is [unmuted](Self::unmute).
    pub(crate) fn mute(&mut self, client: ClientId) {
        self.turn.mute(client);
    }

    /// A client gets what comes from now on.
    pub(crate) fn unmute(&mut self, client: ClientId) {
        self.turn.unmute(client);
    }

    /// Somebody gets the updates of an item, or of a view of it, from now on, and nobody did before: some may be missing to what waits.
    pub(crate) fn resumes(&mut self, view: ItemId) {
        self.turn.resumes(view);
    }

    /// Messages that wait for a watcher are not merged with those that come from now on.
    pub(crate) fn divide(&mut self, watcher: Watcher) {
        self.turn.slow.divide(watcher);
    }

    /// A watcher is gone: what waits for it is of no use.
    pub(crate) fn close_stream(&mut self, watcher: Watcher) {
        self.turn.slow.close_stream(watcher);
    }

    /// A view has no watcher left: what waits for the end of its interval is nobody's.
    pub(crate) fn drop_merge(&mut self, view: ItemId) {
        self.conflation.take(view);
    }

    /// An item is gone.
    pub(crate) fn forget_item(&mut self, item: ItemId) {
        self.item_rules.forget(item);
    }

    /// Whom the set of an image reaches is remembered from now on.
    pub(crate) fn note_reached(&mut self) {
        self.scratch.reached = Some(Vec::new());
    }

    /// Those whom the set of an image has reached since; they are to be [put back](Self::put_back_reached).
    pub(crate) fn take_reached(&mut self) -> Vec<(ItemId, Watcher)> {
        self.scratch.reached.take().unwrap_or_default()
    }

    /// See [`Self::take_reached`].
    pub(crate) fn put_back_reached(&mut self, reached: Vec<(ItemId, Watcher)>) {
        self.scratch.reached = Some(reached);
    }

    /// The set is at its end.
    pub(crate) fn forget_reached(&mut self) {
        self.scratch.reached = None;
    }

    /// Hands every client that has something to get its deliveries of this turn, and what was held for it before; tells how many messages
    /// of this turn went out. `block` is the hub block that bodies may lie in.
    // Not inlined: it is called once a turn, and the caller's loop over each client's deliveries is to have the registers for itself.
    #[inline(never)]
    pub(crate) fn flush(&mut self, now: u64, block: &[u8], mut f: impl FnMut(ClientId, Deliveries<'_>)) -> u64 {
        let Self { turn, egress, closing, .. } = self;
        for (id, _) in closing.iter() {
            egress.release_all(*id, now, turn, |deliveries| f(*id, deliveries));
        }
        if egress.has_work() {
            egress.release(now, turn, &mut f);
        }
        let delivered = turn.flush(block, |client, deliveries| {
            if egress.passes(client) {
                if !egress.is_too_much(client, &deliveries) {
                    f(client, deliveries);
                }
            } else {
                egress.hold(client, deliveries);
            }
        });
        egress.end_flush(turn);
        delivered
    }

    /// True if some client has something to get.
    #[inline]
    pub(crate) fn has_deliveries(&self) -> bool {
        !self.turn.is_empty() || self.egress.has_work()
    }

    /// True if there is something that a flush hands out, or what is taken behind it.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.has_deliveries()
            || self.egress.has_ended()
            || self.egress.has_controls()
            || !self.closing.is_empty()
            || !self.notices.is_empty()
    }

    /// True if deliveries point into the hub block that was read last.
    pub(crate) const fn borrows_block(&self) -> bool {
        self.turn.borrows_block()
    }

    /// So many bytes wait in a client's session.
    pub(crate) fn report(&mut self, client: ClientId, bytes: usize) {
        self.egress.report(client, bytes, &mut self.turn);
    }

    /// True if clients are to be cut off, or have caught up.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.egress.has_ended()
    }

    /// Clients that are to be cut off, and why: nothing more goes to them.
    pub(crate) fn take_cut_off(&mut self) -> Vec<(ClientId, CloseReason)> {
        self.egress.take_cut_off(&mut self.turn)
    }

    /// Nothing of this turn is for a client any more.
    pub(crate) fn forget_turn_of(&mut self, client: ClientId) {
        self.turn.forget(client);
    }

    /// Streams whose conflation has ended, since their clients have caught up.
    pub(crate) fn take_resumed(&mut self) -> Vec<(ClientId, StreamId, Domain)> {
        self.egress.take_resumed()
    }

    /// See [`crate::P2ps::flow_control`].
    pub(crate) fn controls(&mut self) -> std::vec::Drain<'_, (ClientId, FlowControl)> {
        self.egress.controls()
    }

    /// True if there is something in [`Self::controls`].
    #[inline]
    pub(crate) fn has_controls(&self) -> bool {
        self.egress.has_controls()
    }

    /// See [`crate::P2ps::closing`].
    pub(crate) fn take_closing(&mut self) -> std::vec::Drain<'_, (ClientId, CloseReason)> {
        self.closing.drain(..)
    }

    /// See [`crate::P2ps::notices`].
    pub(crate) fn take_notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.notices.drain(..)
    }

    /// Clients with more waiting for them than a socket takes.
    pub(crate) fn clients_behind(&self) -> usize {
        self.egress.behind()
    }

    /// Bytes that clients have taken while they were behind, ever.
    pub(crate) fn taken_behind(&self) -> u64 {
        self.egress.taken_behind()
    }

    /// Bytes that wait for a client: in its session, and held here.
    pub(crate) fn waiting_of(&self, client: ClientId) -> usize {
        self.egress.waiting_of(client, &self.turn)
    }

    /// Clients whose updates are merged because they take too little.
    pub(crate) fn clients_conflated(&self) -> usize {
        self.turn.slow.count()
    }

    /// Updates that were saved by merging for clients that take too little, since the start.
    pub(crate) fn saved(&self) -> u64 {
        self.egress.saved()
    }

    /// Other limits of what may wait.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.egress.set_limits(limits);
    }

    /// When the first interval of a view ends.
    pub(crate) fn conflation_deadline(&self) -> Option<u64> {
        self.conflation.timeout()
    }

    /// When memory of idle clients is to be given back, if there are clients.
    pub(crate) const fn trim_deadline(&self) -> u64 {
        self.trim_at
    }

    /// Gives memory of idle clients back, if that is due.
    pub(crate) fn trim(&mut self, now: u64) {
        if now >= self.trim_at {
            self.trim_at = now + TRIM_INTERVAL;
            if self.turn.dirty().is_empty() {
                self.turn.trim();
            }
        }
    }

    /// Panics if more waits for a client than may, if something waits for an item that is not live, or for a view without an interval.
    pub(crate) fn check(&self, is_live: impl Fn(ItemId) -> bool, has_interval: impl Fn(ItemId) -> bool) {
        self.egress.check(&self.turn, &is_live);
        self.conflation.check(has_interval);
        self.item_rules.check(is_live);
    }
}
