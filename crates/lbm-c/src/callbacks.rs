//! From the context's events to C functions.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use lbm_io::failover::{FailoverNews, FailoverTopic, Mark, Number, Way};
use lbm_io::{Delivery, EndReason, Events, Loss, Offer, ReceiverId, Request, RequestId, SourceId, Sources, Stream};

use lbm::wire::lbmc::Message as Wire;
use lbm_queue_io::{Assigned, Consumption, QueueEvents, Queues, SourceEvent as QueueSourceEvent};
use lbm_store::receiver::{Delivered, Recovery, TopicEvent};
use lbm_store::source::SourceEvent;
use lbm_store_io::{ClientEvents, PersistentReceiver, PersistentSource};

use crate::engine::Engine;
use crate::error::{Code, Failure};
use crate::receivers::Receiver;
use crate::requests::PendingRequest;
use crate::sources::Source;

/// `qw_lbm_msg_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Message {
    kind: c_int,
    flags: c_int,
    data: *const c_void,
    length: usize,
    sqn: u32,
    count: u32,
    topic: *const c_char,
    source: *const c_char,
    reply_to: ReplyTo,
    hf_sequence_number: u64,
}

/// `qw_lbm_reply_to_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyTo {
    pub(crate) address: u32,
    pub(crate) number: u32,
    pub(crate) port: u16,
    pub(crate) reserved: u16,
}

impl From<Request> for ReplyTo {
    fn from(request: Request) -> Self {
        let (address, port) = ((*request.from.ip()).into(), request.from.port());
        Self { address, number: request.number, port, reserved: 0 }
    }
}

// `qw_lbm_msg_type_t` and the flags of messages; `tests/c.rs` compares them with the header.
const DATA: c_int = 0;
const BEGIN: c_int = 1;
const END: c_int = 2;
const LOSS: c_int = 3;
const LOSS_BURST: c_int = 4;
const REQUEST: c_int = 5;
const RESPONSE: c_int = 6;
const HF_RESET: c_int = 7;
const HF_DIFFERENCE: c_int = 8;
const RETRANSMITTED: c_int = 1;
const HF_32: c_int = 2;
const HF_64: c_int = 4;
const HF_DUPLICATE: c_int = 8;
const HF_OPTIONAL: c_int = 16;
const HF_PASS_THROUGH: c_int = 32;

/// `qw_lbm_rcv_cb_proc`.
pub type ReceiverProc = unsafe extern "C" fn(*mut Receiver, *const Message, *mut c_void) -> c_int;
/// `qw_lbm_src_cb_proc`.
pub type SourceProc = unsafe extern "C" fn(*mut Source, c_int, *mut c_void) -> c_int;
/// `qw_lbm_request_cb_proc`.
pub type RequestProc = unsafe extern "C" fn(*mut PendingRequest, *const Message, *mut c_void) -> c_int;

/// A C function with what it is called with.
pub(crate) struct Callback<P, H> {
    pub(crate) proc: P,
    pub(crate) clientd: *mut c_void,
    pub(crate) handle: *mut H,
}

impl<P: Copy, H> Clone for Callback<P, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Copy, H> Copy for Callback<P, H> {}

// SAFETY: the pointers are only given back to the application, which hands them to a library that it told to call from the
// context's thread; this library does not look behind them there.
unsafe impl<P: Send, H> Send for Callback<P, H> {}

// `QW_LBM_SRC_EVENT_...`.
const WAKEUP: c_int = 1;
const REGISTRATION_SUCCESS: c_int = 2;
const REGISTRATION_COMPLETE: c_int = 3;
const REGISTRATION_ERROR: c_int = 4;
const STORE_UNRESPONSIVE: c_int = 5;
const MESSAGE_STABLE: c_int = 6;
const MESSAGE_NOT_STABLE: c_int = 7;
const DELIVERY_CONFIRMATION: c_int = 8;
const FLIGHT_SIZE: c_int = 9;
const SUPERSEDED: c_int = 10;
/// `QW_LBM_MSG_FLAG_UME_RETRANSMIT`.
const UME_RETRANSMIT: c_int = 64;
/// `QW_LBM_MSG_FLAG_UMQ_REASSIGNED`.
const UMQ_REASSIGNED: c_int = 128;

/// `qw_lbm_src_ume_event_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UmeEvent {
    first: u32,
    last: u32,
    store: u32,
    registration_id: u32,
}

/// An event of a source with stores as C gets it; `None` for what the library does itself.
fn ume_event_of(event: &SourceEvent) -> Option<(c_int, UmeEvent)> {
    let of_store = |store: usize| UmeEvent { store: store as u32, ..UmeEvent::default() };
    Some(match *event {
        SourceEvent::Dial { .. } | SourceEvent::HangUp { .. } => return None,
        SourceEvent::Registered { store, reg_id } => {
            (REGISTRATION_SUCCESS, UmeEvent { registration_id: reg_id, ..of_store(store) })
        }
        SourceEvent::Ready { first } => (REGISTRATION_COMPLETE, UmeEvent { first, last: first, ..UmeEvent::default() }),
        SourceEvent::Refused { store, .. } => (REGISTRATION_ERROR, of_store(store)),
        SourceEvent::Unresponsive { store } => (STORE_UNRESPONSIVE, of_store(store)),
        SourceEvent::Stable { first, last } => (MESSAGE_STABLE, UmeEvent { first, last, ..UmeEvent::default() }),
        SourceEvent::NotStable { sqn } => {
            (MESSAGE_NOT_STABLE, UmeEvent { first: sqn, last: sqn, ..UmeEvent::default() })
        }
        SourceEvent::Confirmed { store, receiver, sqn } => {
            (DELIVERY_CONFIRMATION, UmeEvent { first: sqn, last: sqn, store: store as u32, registration_id: receiver })
        }
        SourceEvent::FlightSize { is_over } => {
            (FLIGHT_SIZE, UmeEvent { first: u32::from(is_over), ..UmeEvent::default() })
        }
        SourceEvent::Writable => (WAKEUP, UmeEvent::default()),
        SourceEvent::Superseded => (SUPERSEDED, UmeEvent::default()),
    })
}

// `QW_LBM_SRC_EVENT_UMQ_ULB_...`; `tests/c.rs` compares them with the header.
const MESSAGE_ASSIGNED: c_int = 11;
const MESSAGE_REASSIGNED: c_int = 12;
const MESSAGE_CONSUMED: c_int = 13;
const MESSAGE_TIMEOUT: c_int = 14;
const MESSAGE_COMPLETE: c_int = 15;
const RECEIVER_REGISTRATION: c_int = 16;
const RECEIVER_READY: c_int = 17;
const RECEIVER_DEREGISTRATION: c_int = 18;
const RECEIVER_TIMEOUT: c_int = 19;

/// `qw_lbm_src_ulb_event_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UlbEvent {
    message: u64,
    receiver: u32,
    application_set: u16,
    is_over: u16,
}

/// What this thread is inside of: a function of the application that the library has called.
#[derive(Clone, Copy)]
pub(crate) enum Running {
    /// A callback of this context; its sending half.
    Context { engine: *const Engine, sources: NonNull<Sources> },
    /// The function that takes warnings.
    Log,
}

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
    /// Details for the callback of a source with stores, while it runs.
    static UME_EVENT: Cell<Option<UmeEvent>> = const { Cell::new(None) };
    /// Details for the callback of a source with a queue, while it runs.
    static ULB_EVENT: Cell<Option<UlbEvent>> = const { Cell::new(None) };
}

/// Details for the callback of a source with stores that runs on this thread.
pub(crate) fn ume_event() -> Option<UmeEvent> {
    UME_EVENT.with(Cell::get)
}

/// Details for the callback of a source with a queue that runs on this thread.
pub(crate) fn ulb_event() -> Option<UlbEvent> {
    ULB_EVENT.with(Cell::get)
}

/// The context whose callback runs on this thread.
pub(crate) fn running() -> Option<*const Engine> {
    match RUNNING.with(Cell::get)? {
        Running::Context { engine, .. } => Some(engine),
        Running::Log => None,
    }
}

/// Whether the function that takes warnings runs on this thread.
pub(crate) fn is_in_log() -> bool {
    matches!(RUNNING.with(Cell::get), Some(Running::Log))
}

/// Whether a function of the application that the library has called runs on this thread. What creates, ends or drives contexts waits
/// for other threads, which may wait for this one: it is refused there.
pub(crate) fn refuse_in_callback(what: &str) -> Result<(), Failure> {
    match RUNNING.with(Cell::get) {
        None => Ok(()),
        Some(_) => Err(Failure::new(Code::InCallback, format!("{what} from a callback of any context"))),
    }
}

/// Calls a function of the application while this thread is marked as inside of it.
pub(crate) fn inside(running: Running, function: impl FnOnce()) {
    let before = RUNNING.with(|cell| cell.replace(Some(running)));
    function();
    RUNNING.with(|cell| cell.set(before));
}

/// Works with the sending half that the running callback of this context was given; `None` outside of one.
pub(crate) fn with_running<R>(engine: &Engine, work: impl FnOnce(&mut Sources) -> R) -> Option<R> {
    let running = RUNNING.with(Cell::get)?;
    let Running::Context { engine: own, mut sources } = running else { return None };
    if !ptr::eq(own, engine) {
        return None;
    }
    // Nothing that `work` does calls back, but were it so, a second reference must not come into being.
    RUNNING.with(|cell| cell.set(None));
    // SAFETY: the pointer was made from the exclusive reference that the event was handed, whose holder waits in `call` for the C
    // function that we are called from, on this thread; and it is ours alone, since the cell is empty meanwhile.
    let result = work(unsafe { sources.as_mut() });
    RUNNING.with(|cell| cell.set(Some(running)));
    Some(result)
}

/// Names of a stream as C wants them.
#[derive(Debug)]
struct Names {
    topic: CString,
    source: CString,
}

/// Knows which C function is told what.
#[derive(Default)]
pub(crate) struct Dispatch {
    /// By the receiver's number.
    pub(crate) receivers: Vec<Option<Callback<ReceiverProc, Receiver>>>,
    /// By the source's number.
    pub(crate) sources: Vec<Option<Callback<SourceProc, Source>>>,
    /// By the stream's number.
    names: Vec<Option<Names>>,
    /// By the persistent receiver's place: its function, and its topic as C wants it.
    persistent_receivers: Vec<Option<(Callback<ReceiverProc, Receiver>, CString)>>,
    /// By the persistent source's place.
    persistent_sources: Vec<Option<Callback<SourceProc, Source>>>,
}

impl Dispatch {
    pub(crate) fn set_receiver(&mut self, id: ReceiverId, callback: Option<Callback<ReceiverProc, Receiver>>) {
        set(&mut self.receivers, id.index(), callback);
    }

    pub(crate) fn set_source(&mut self, id: SourceId, callback: Option<Callback<SourceProc, Source>>) {
        set(&mut self.sources, id.index(), callback);
    }

    pub(crate) fn set_persistent_receiver(
        &mut self,
        id: PersistentReceiver,
        topic: &str,
        callback: Option<Callback<ReceiverProc, Receiver>>,
    ) {
        let topic = CString::new(topic.replace('\0', "?")).unwrap_or_default();
        set(&mut self.persistent_receivers, id.index(), callback.map(|callback| (callback, topic)));
    }

    pub(crate) fn set_persistent_source(
        &mut self,
        id: PersistentSource,
        callback: Option<Callback<SourceProc, Source>>,
    ) {
        set(&mut self.persistent_sources, id.index(), callback);
    }

    /// The names of a stream as C wants them, made when it is told of first.
    fn names_of(&mut self, stream: &Stream<'_>) -> &Names {
        let text = |s: &str| CString::new(s.replace('\0', "?")).unwrap_or_default();
        place(&mut self.names, stream.number as usize).get_or_insert_with(|| Names {
            topic: text(stream.topic),
            source: text(&format!("{}[{}]", stream.transport, stream.index)),
        })
    }
}

fn set<T>(table: &mut Vec<Option<T>>, at: usize, value: Option<T>) {
    *place(table, at) = value;
}

fn place<T>(table: &mut Vec<Option<T>>, at: usize) -> &mut Option<T> {
    if table.len() <= at {
        table.resize_with(at + 1, || None);
    }
    &mut table[at]
}

/// Takes the events of one turn of a context.
pub(crate) struct Turn<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) dispatch: &'a mut Dispatch,
}

impl Turn<'_> {
    /// Calls a C function while this thread is marked as inside a callback of the context.
    fn call(&self, sources: &mut Sources, function: impl FnOnce() -> c_int) {
        let running = Running::Context { engine: Arc::as_ptr(self.engine), sources: NonNull::from(sources) };
        inside(running, || {
            // What the application returns says nothing, as with LBM.
            let _ = function();
        });
    }

    fn tell(&mut self, sources: &mut Sources, stream: &Stream<'_>, mut message: Message) {
        // A receiver that was deleted is told nothing.
        let Some(Some(callback)) = self.dispatch.receivers.get(stream.receiver.index()).copied() else { return };
        let names = self.dispatch.names_of(stream);
        message.topic = names.topic.as_ptr();
        message.source = names.source.as_ptr();
        self.call(sources, || {
            // SAFETY: the application gave this function for these arguments; message and texts live through the call.
            unsafe { (callback.proc)(callback.handle, &raw const message, callback.clientd) }
        });
    }
}

impl Message {
    /// A message that was assigned to the receiver.
    fn of_queue(sqn: u32, data: &[u8], again: bool) -> Self {
        let flags = if again { UMQ_REASSIGNED } else { 0 };
        Self { flags, ..Self::new(DATA, sqn, data) }
    }

    fn new(kind: c_int, sqn: u32, data: &[u8]) -> Self {
        Self {
            kind,
            flags: 0,
            data: data.as_ptr().cast(),
            length: data.len(),
            sqn,
            count: 0,
            topic: ptr::null(),
            source: ptr::null(),
            reply_to: ReplyTo::default(),
            hf_sequence_number: 0,
        }
    }

    fn number(mut self, number: Number) -> Self {
        self.hf_sequence_number = number.value();
        self.flags |= if number.bits() == 32 { HF_32 } else { HF_64 };
        self
    }

    fn mark(mut self, mark: Mark, flags: c_int) -> Self {
        self.flags |= flags | if mark.optional { HF_OPTIONAL } else { 0 };
        self.number(mark.number)
    }
}

impl Events for Turn<'_> {
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        let kind = if delivery.request.is_some() { REQUEST } else { DATA };
        let mut message = Message::new(kind, delivery.sqn, delivery.data());
        if delivery.kind == lbm::wire::lbmc::Kind::Retransmission {
            message.flags = RETRANSMITTED;
        }
        if let Some(request) = delivery.request {
            message.reply_to = request.into();
        }
        match delivery.failover {
            None => {}
            Some(Way::First(mark)) => message = message.mark(mark, 0),
            Some(Way::Duplicate(mark)) => message = message.mark(mark, HF_DUPLICATE),
            Some(Way::PassThrough) => message.flags |= HF_PASS_THROUGH,
            Some(Way::ByContent(number)) => message.hf_sequence_number = number,
        }
        self.tell(sources, &delivery.stream, message);
    }

    fn begin(&mut self, sources: &mut Sources, stream: &Stream<'_>) {
        // The number may have been another stream's.
        set(&mut self.dispatch.names, stream.number as usize, None);
        self.tell(sources, stream, Message::new(BEGIN, 0, &[]));
    }

    fn end(&mut self, sources: &mut Sources, stream: &Stream<'_>, _: EndReason) {
        self.tell(sources, stream, Message::new(END, 0, &[]));
        set(&mut self.dispatch.names, stream.number as usize, None);
    }

    fn lost(&mut self, sources: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        let kind = if loss.is_burst() { LOSS_BURST } else { LOSS };
        let message = Message { count: loss.count, ..Message::new(kind, loss.first, &[]) };
        self.tell(sources, stream, message);
    }

    fn failover(&mut self, sources: &mut Sources, topic: &FailoverTopic<'_>, news: &FailoverNews<'_>) {
        let message = match news {
            FailoverNews::Lost(lost) => {
                let kind = if lost.count > 1 { LOSS_BURST } else { LOSS };
                let count = u32::try_from(lost.count).unwrap_or(u32::MAX);
                Message { count, ..Message::new(kind, 0, &[]) }.number(lost.first)
            }
            FailoverNews::Differs { number, other, .. } => {
                // Told with the names of the stream that differs, not with those of the topic.
                return self.tell(sources, other, Message::new(HF_DIFFERENCE, 0, &[]).number(*number));
            }
            FailoverNews::Reset(next) => Message::new(HF_RESET, 0, &[]).number(*next),
        };
        // A receiver that was deleted is told nothing.
        let Some(Some(callback)) = self.dispatch.receivers.get(topic.receiver.index()).copied() else { return };
        let name = CString::new(topic.topic.replace('\0', "?")).unwrap_or_default();
        let message = Message { topic: name.as_ptr(), source: c"".as_ptr(), ..message };
        self.call(sources, || {
            // SAFETY: the application gave this function for these arguments; message and text live through the call.
            unsafe { (callback.proc)(callback.handle, &raw const message, callback.clientd) }
        });
    }

    fn writable(&mut self, sources: &mut Sources, source: SourceId) {
        self.tell_source(sources, source, WAKEUP);
    }

    fn response(&mut self, sources: &mut Sources, request: RequestId, payload: &[u8]) {
        // A request that was deleted has no callback.
        let Some(callback) = self.engine.request_callback(request) else { return };
        let message = Message { topic: c"".as_ptr(), source: c"".as_ptr(), ..Message::new(RESPONSE, 0, payload) };
        self.call(sources, || {
            // SAFETY: the application gave this function for these arguments; the message lives through the call.
            unsafe { (callback.proc)(callback.handle, &raw const message, callback.clientd) }
        });
    }
}

impl Turn<'_> {
    /// Tells the function of a source without stores.
    fn tell_source(&mut self, sources: &mut Sources, source: SourceId, event: c_int) {
        // A source that was deleted, or wants no events, is told nothing.
        let Some(Some(callback)) = self.dispatch.sources.get(source.index()).copied() else { return };
        self.call(sources, || {
            // SAFETY: the application gave this function for these arguments.
            unsafe { (callback.proc)(callback.handle, event, callback.clientd) }
        });
    }

    /// Tells a persistent receiver's function.
    fn tell_persistent(&mut self, sources: &mut Sources, id: PersistentReceiver, mut message: Message) {
        // A receiver that was deleted is told nothing.
        let Some(Some((callback, topic))) = self.dispatch.persistent_receivers.get(id.index()) else { return };
        (message.topic, message.source) = (topic.as_ptr(), c"".as_ptr());
        let callback = *callback;
        self.call(sources, || {
            // SAFETY: the application gave this function for these arguments; message and text live through the call.
            unsafe { (callback.proc)(callback.handle, &raw const message, callback.clientd) }
        });
    }
}

impl ClientEvents for Turn<'_> {
    fn delivered(&mut self, sources: &mut Sources, id: PersistentReceiver, source: u32, message: &Delivered<'_>) {
        let end = message.payload.len().saturating_sub(message.properties as usize);
        let flags = if message.repeated { UME_RETRANSMIT } else { 0 };
        let told = Message { flags, count: source, ..Message::new(DATA, message.sqn, &message.payload[..end]) };
        self.tell_persistent(sources, id, told);
    }

    fn gone(&mut self, sources: &mut Sources, id: PersistentReceiver, _: u32, first: u32, count: u32) {
        let kind = if count > 1 { LOSS_BURST } else { LOSS };
        self.tell_persistent(sources, id, Message { count, ..Message::new(kind, first, &[]) });
    }

    fn source(&mut self, sources: &mut Sources, id: PersistentSource, event: &SourceEvent) {
        // A source that was deleted, or wants no events, is told nothing.
        let Some(Some(callback)) = self.dispatch.persistent_sources.get(id.index()).copied() else { return };
        // Events that are the library's own business are none of the application's.
        let Some((event, details)) = ume_event_of(event) else { return };
        UME_EVENT.with(|cell| cell.set(Some(details)));
        self.call(sources, || {
            // SAFETY: the application gave this function for these arguments.
            unsafe { (callback.proc)(callback.handle, event, callback.clientd) }
        });
        UME_EVENT.with(|cell| cell.set(None));
    }
}

/// An event of a source with a queue as C gets it.
fn ulb_event_of(event: &QueueSourceEvent) -> (c_int, UlbEvent) {
    let of =
        |message: u64, application_set: u16, receiver: u32| UlbEvent { message, receiver, application_set, is_over: 0 };
    match *event {
        QueueSourceEvent::Assigned { message, set, receiver, again } => {
            (if again { MESSAGE_REASSIGNED } else { MESSAGE_ASSIGNED }, of(message.stamp, set, receiver))
        }
        QueueSourceEvent::Consumed { message, set, receiver } => (MESSAGE_CONSUMED, of(message.stamp, set, receiver)),
        QueueSourceEvent::GivenUp { message, set } => (MESSAGE_TIMEOUT, of(message.stamp, set, 0)),
        QueueSourceEvent::Complete { message } => (MESSAGE_COMPLETE, of(message.stamp, 0, 0)),
        QueueSourceEvent::Registered { set, receiver } => (RECEIVER_REGISTRATION, of(0, set, receiver)),
        QueueSourceEvent::Ready { set, receiver } => (RECEIVER_READY, of(0, set, receiver)),
        QueueSourceEvent::Left { set, receiver } => (RECEIVER_DEREGISTRATION, of(0, set, receiver)),
        QueueSourceEvent::TimedOut { set, receiver } => (RECEIVER_TIMEOUT, of(0, set, receiver)),
        QueueSourceEvent::FlightSize { is_over } => {
            (FLIGHT_SIZE, UlbEvent { is_over: is_over.into(), ..UlbEvent::default() })
        }
        QueueSourceEvent::Writable => (WAKEUP, UlbEvent::default()),
    }
}

impl QueueEvents for Turn<'_> {
    fn assigned(&mut self, sources: &mut Sources, delivery: &Delivery<'_>, assigned: &Assigned<'_>) -> Consumption {
        self.tell(sources, &delivery.stream, Message::of_queue(delivery.sqn, delivery.data(), assigned.again));
        Consumption::Done
    }

    fn source(&mut self, sources: &mut Sources, source: SourceId, event: &QueueSourceEvent) {
        let (event, details) = ulb_event_of(event);
        ULB_EVENT.with(|cell| cell.set(Some(details)));
        self.tell_source(sources, source, event);
        ULB_EVENT.with(|cell| cell.set(None));
    }
}

/// The events of a turn, of which queues get what is theirs, and the rest those that a client has.
pub(crate) struct BesideQueues<'a, 'b> {
    pub(crate) queues: &'a mut Queues,
    pub(crate) turn: &'a mut Turn<'b>,
}

impl Events for BesideQueues<'_, '_> {
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        self.queues.events(self.turn).message(sources, delivery);
    }

    fn found(&mut self, sources: &mut Sources, stream: &Stream<'_>, offer: &Offer) {
        self.queues.events(self.turn).found(sources, stream, offer);
    }

    fn control(&mut self, sources: &mut Sources, stream: &Stream<'_>, message: &Wire<'_>) {
        self.queues.events(self.turn).control(sources, stream, message);
    }

    fn question(&mut self, sources: &mut Sources, message: &Wire<'_>, answers: &mut Vec<u8>) {
        self.queues.events(self.turn).question(sources, message, answers);
    }

    fn begin(&mut self, sources: &mut Sources, stream: &Stream<'_>) {
        self.turn.begin(sources, stream);
    }

    fn end(&mut self, sources: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        self.queues.events(self.turn).end(sources, stream, reason);
    }

    fn lost(&mut self, sources: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        self.turn.lost(sources, stream, loss);
    }

    fn failover(&mut self, sources: &mut Sources, topic: &FailoverTopic<'_>, news: &FailoverNews<'_>) {
        self.turn.failover(sources, topic, news);
    }

    fn writable(&mut self, sources: &mut Sources, source: SourceId) {
        self.queues.events(self.turn).writable(sources, source);
    }

    fn response(&mut self, sources: &mut Sources, request: RequestId, payload: &[u8]) {
        self.turn.response(sources, request, payload);
    }
}

impl ClientEvents for BesideQueues<'_, '_> {
    fn delivered(&mut self, sources: &mut Sources, receiver: PersistentReceiver, source: u32, message: &Delivered<'_>) {
        self.turn.delivered(sources, receiver, source, message);
    }

    fn gone(&mut self, sources: &mut Sources, receiver: PersistentReceiver, source: u32, first: u32, count: u32) {
        self.turn.gone(sources, receiver, source, first, count);
    }

    fn recovery(&mut self, receiver: PersistentReceiver, source: u32, recovery: Recovery) -> u32 {
        self.turn.recovery(receiver, source, recovery)
    }

    fn source(&mut self, sources: &mut Sources, source: PersistentSource, event: &SourceEvent) {
        ClientEvents::source(self.turn, sources, source, event);
    }

    fn receiver(&mut self, sources: &mut Sources, receiver: PersistentReceiver, event: &TopicEvent) {
        ClientEvents::receiver(self.turn, sources, receiver, event);
    }
}

/// Callbacks of requests that are open.
pub(crate) type RequestCallbacks = HashMap<RequestId, Callback<RequestProc, PendingRequest>>;
