//! A source and receivers, each in a context of its own, that take turns.

use std::time::Duration;

use lbm_io::options::Options;
use lbm_io::{Context, Delivery, Events, Loss, ReceiverId, SendFlags, SourceId, Sources, Stream};
use lbm_queue_io::{Assigned, Consumption, Index, QueueEvents, Queues, ReceiverEvent, SourceEvent};

pub(crate) fn options(lines: &str) -> Options {
    let mut options = Options::new();
    options.parse("test", lines).expect("options");
    options
}

/// Events that a program has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Number, whether it had been assigned before, and its index.
    pub(crate) had: Vec<(u64, bool, Option<Index>)>,
    /// Messages without a queue.
    pub(crate) plain: usize,
    /// Numbers that the transport has lost.
    pub(crate) lost: u32,
    pub(crate) later: bool,
    pub(crate) source: Vec<SourceEvent>,
    pub(crate) receiver: Vec<ReceiverEvent>,
}

impl Events for Seen {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {
        self.plain += 1;
    }

    fn lost(&mut self, _: &mut Sources, _: &Stream<'_>, loss: Loss) {
        self.lost += loss.count;
    }
}

impl QueueEvents for Seen {
    fn assigned(&mut self, _: &mut Sources, delivery: &Delivery<'_>, assigned: &Assigned<'_>) -> Consumption {
        let number = u64::from_be_bytes(*delivery.payload.first_chunk().expect("a number"));
        assert!(delivery.payload[8..].iter().all(|byte| *byte == number as u8), "message {number} has its bytes");
        self.had.push((number, assigned.again, assigned.index.map(lbm_queue::wire::IndexRef::to_index)));
        if self.later { Consumption::Later } else { Consumption::Done }
    }

    fn source(&mut self, _: &mut Sources, _: SourceId, event: &SourceEvent) {
        self.source.push(*event);
    }

    fn receiver(&mut self, _: &mut Sources, _: ReceiverId, event: &ReceiverEvent) {
        self.receiver.push(*event);
    }
}

/// A context with its queues.
pub(crate) struct Program {
    pub(crate) context: Context,
    pub(crate) queues: Queues,
    pub(crate) seen: Seen,
    pub(crate) receiver: Option<ReceiverId>,
}

impl Program {
    pub(crate) fn new(lines: &str) -> Self {
        let context = Context::new(&options(lines)).expect("a context");
        Self { context, queues: Queues::new(), seen: Seen::default(), receiver: None }
    }

    pub(crate) fn receiving(lines: &str) -> Self {
        let mut program = Self::new(lines);
        let receiver = program.queues.receiver(&mut program.context, "orders", &options(lines));
        program.receiver = Some(receiver.expect("a receiver"));
        program
    }

    pub(crate) fn turn(&mut self) {
        let Self { context, queues, seen, .. } = self;
        queues.poll(context, Some(Duration::from_millis(1)), seen).expect("a turn");
    }
}

/// The sending program and its source.
pub(crate) struct Sender {
    pub(crate) program: Program,
    pub(crate) source: SourceId,
    pub(crate) sent: u64,
}

impl Sender {
    pub(crate) fn new(lines: &str) -> Self {
        let mut program = Program::new(lines);
        let source = program.queues.source(&mut program.context, "orders", &options(lines)).expect("a source");
        Self { program, source, sent: 0 }
    }

    /// Sends a message of so many bytes, if there is room.
    pub(crate) fn send(&mut self, bytes: usize, index: Option<Index>) -> bool {
        let mut payload = self.sent.to_be_bytes().to_vec();
        payload.resize(bytes.max(8), self.sent as u8);
        let Program { context, queues, .. } = &mut self.program;
        let sent = queues.send(context.sources(), self.source, &payload, index, SendFlags::FLUSH);
        match sent {
            Ok(_) => self.sent += 1,
            Err(refused) => assert!(refused.is_passing(), "{refused}"),
        }
        sent.is_ok()
    }

    /// Bytes that the session has handed to the system, to all receivers.
    pub(crate) fn bytes(&mut self) -> u64 {
        self.program.context.stats().sending.iter().map(|session| session.sent.bytes).sum()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.program.queues.in_flight(self.source)
    }
}

/// Takes turns until it is so.
pub(crate) fn until(
    sender: &mut Sender,
    receivers: &mut [Program],
    what: &str,
    is_so: impl Fn(&Sender, &[Program]) -> bool,
) {
    let until = net::clock::now() + 60_000_000_000;
    while !is_so(sender, receivers) {
        assert!(net::clock::now() < until, "{what}: not within a minute");
        sender.program.turn();
        receivers.iter_mut().for_each(Program::turn);
    }
}

/// So many receivers are ready.
pub(crate) fn ready(sender: &mut Sender, receivers: &mut [Program], count: usize) {
    until(sender, receivers, "receivers are ready", |sender, _| {
        sender.program.queues.source_receivers(sender.source).1 == count
    });
}
