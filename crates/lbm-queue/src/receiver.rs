//! The receiver of a queue: registers at each source of its topic, takes from what it hears what is assigned to it, and tells the source what
//! it has consumed.
//!
//! The owner of a receiver hands in what comes by the streams of the topic, and sends what [`Receiver::output`] has to the request ports of their
//! sources.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use lbm::wire::WireError;
use lbm::wire::lbmc::{Headers, Message as Wire};

use crate::MessageId;
use crate::wire::{
    Answer, IndexRef, Joins, Load, REPORT_MAX, Refusal, Registration, RegistrationResponse, Ulb, control,
};

/// Messages of a source that are remembered, so that one that comes again is known: more than the flight size of most.
const REMEMBERED: usize = 8_192;
/// Reports that wait for one source at most. Beyond that they are left out, and the source asks by sending again.
const REPORTS_MAX: usize = 1 << 16;

/// How a receiver behaves.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Its type, by which sources know its application set: `umq_receiver_type_id`.
    pub kind: u32,
    /// Whether indices may be assigned to it: `umq_index_assignment_eligibility_default`.
    pub takes_indices: bool,
    /// So long a report waits for others, ns: `umq_delayed_consumption_report_interval`.
    pub report_delay_ns: u64,
    /// Between attempts to register: `umq_command_interval`.
    pub command_interval_ns: u64,
    /// A source that is silent for so long is registered at anew: `umq_ulb_source_activity_timeout`.
    pub source_timeout_ns: u64,
    /// Between looks for such sources: `umq_ulb_source_check_interval`.
    pub check_interval_ns: u64,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            kind: 0,
            takes_indices: true,
            report_delay_ns: 0,
            command_interval_ns: 500_000_000,
            source_timeout_ns: 10_000_000_000,
            check_interval_ns: 1_000_000_000,
        }
    }
}

/// Events at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A source has taken the receiver into an application set.
    Registered {
        /// The stream of the source.
        stream: u32,
        /// The set.
        set: u16,
    },
    /// A source does not take it.
    Refused {
        /// The stream of the source.
        stream: u32,
        /// Why not.
        refusal: Refusal,
    },
    /// The source has been silent: it is registered at anew.
    SourceTimedOut {
        /// The stream of the source.
        stream: u32,
    },
}

/// A receiver's decision what is to be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The message is for this receiver, which tells by [`Receiver::consumed`] when it is done with it.
    Own {
        /// The message.
        id: MessageId,
        /// The message was assigned before, in this set: somebody may have consumed it.
        again: bool,
        /// The source's index for it.
        index: Option<IndexRef<'a>>,
    },
    /// The message is for other receivers, or has come before.
    Other,
    /// The message is of no queue, but for everybody.
    Plain,
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Messages that were for this receiver.
    pub own: u64,
    /// Of them those that had been assigned before.
    pub again: u64,
    /// Messages for others.
    pub others: u64,
    /// Messages of its own that came a second time, and were left out.
    pub repeated: u64,
    /// Messages whose headers could not be read: they are nobody's.
    pub malformed: u64,
    /// Reports left out for want of room.
    pub reports_dropped: u64,
    /// Reports of messages of sources that have gone.
    pub reports_without_source: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Asks for its registration, next at this time.
    Registering(u64),
    /// The source has it registered.
    Registered,
    /// The source does not take it.
    Refused,
}

/// A source of the topic.
#[derive(Debug)]
struct SourceEntry {
    source: u32,
    topic: u32,
    origin: [u8; 32],
    /// The number by which the source knows the receiver: another one after each end of a registration.
    receiver: u32,
    phase: Phase,
    command: u16,
    /// When the source has last said something to this receiver: what it sends to others does not tell that it knows this one.
    addressed_at: u64,
    /// Stamps of messages that have come, each at its place; the lowest bit tells whether it was consumed.
    seen: Vec<u64>,
    pending: u32,
    reports: Vec<u64>,
    reports_due: u64,
    /// The application set that the source has put the receiver into: by its type, always the same.
    set: u16,
    out: Vec<u8>,
}

/// The entry in `seen` of a place of which nothing is known.
const NOTHING: u64 = u64::MAX;

impl SourceEntry {
    fn place(&self, stamp: u64) -> usize {
        (stamp % self.seen.len().max(1) as u64) as usize
    }

    /// Whether the message has come before, and was consumed since.
    fn had(&self, stamp: u64) -> Option<bool> {
        let seen = *self.seen.get(self.place(stamp))?;
        (seen != NOTHING && seen >> 1 == stamp & (u64::MAX >> 1)).then_some(seen & 1 == 1)
    }

    fn note(&mut self, stamp: u64, consumed: bool) {
        if self.seen.is_empty() {
            self.seen = vec![NOTHING; REMEMBERED];
        }
        let place = self.place(stamp);
        self.seen[place] = stamp << 1 | u64::from(consumed);
    }

    fn register_anew(&mut self, now: u64, receiver: u32) {
        self.receiver = receiver;
        self.phase = Phase::Registering(now);
    }
}

/// See the module: one for each receiver of a topic, with all its sources.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// Of the program: the upper half of registration ids.
    program: u32,
    /// By the number of the stream.
    sources: BTreeMap<u32, SourceEntry>,
    random: u64,
    events: Vec<ReceiverEvent>,
    stats: ReceiverStats,
    check_due: u64,
}

impl Receiver {
    /// A receiver that knows no source. `seed` makes its ids: they must differ from those of all other receivers.
    pub fn new(config: ReceiverConfig, seed: u64) -> Self {
        let mut receiver = Self {
            config,
            program: 0,
            sources: BTreeMap::new(),
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            events: Vec::new(),
            stats: ReceiverStats::default(),
            check_due: u64::MAX,
        };
        receiver.program = receiver.draw();
        receiver
    }

    /// A new id: never 0.
    fn draw(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 16) as u32).max(1)
    }

    /// Counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Messages that are its own and not consumed.
    pub fn pending(&self) -> u64 {
        self.sources.values().map(|source| u64::from(source.pending)).sum()
    }

    /// At how many sources it is registered.
    pub fn registrations(&self) -> usize {
        self.sources.values().filter(|source| source.phase == Phase::Registered).count()
    }

    /// Events since the last call.
    pub fn events(&mut self) -> impl Iterator<Item = ReceiverEvent> {
        self.events.drain(..)
    }

    /// A source with a queue is there: its id, and its topic index in the session with what tells both from all others
    /// ([`Transport::originating_id`](lbm::wire::lbmr::Transport::originating_id)).
    pub fn found(&mut self, now: u64, stream: u32, source: u32, (topic, origin): (u32, [u8; 32])) {
        let receiver = self.draw();
        let entry = SourceEntry {
            source,
            topic,
            origin,
            receiver,
            phase: Phase::Registering(now),
            command: 0,
            addressed_at: now,
            seen: Vec::new(),
            pending: 0,
            reports: Vec::new(),
            reports_due: u64::MAX,
            set: 0,
            out: Vec::new(),
        };
        self.sources.insert(stream, entry);
        self.check_due = now;
    }

    /// The stream has ended: what has not been consumed of it the source assigns anew, if it is there. Whether its source had a queue.
    pub fn ended(&mut self, stream: u32) -> bool {
        self.sources.remove(&stream).is_some()
    }

    /// A message of a stream.
    pub fn message<'a>(&mut self, now: u64, stream: u32, headers: &Headers<'a>) -> Verdict<'a> {
        let Some(entry) = self.sources.get_mut(&stream) else { return Verdict::Plain };
        let (mut id, mut own, mut index) = (None, None, None);
        for header in headers.clone() {
            match header.and_then(|header| Ulb::of(&header)) {
                Ok(Some(Ulb::MessageId(of_message))) => id = Some(of_message),
                Ok(Some(Ulb::Assignment(a))) if a.source == entry.source && a.receiver == entry.receiver => {
                    own = Some(a);
                }
                Ok(Some(Ulb::Index(of_message))) => index = Some(of_message),
                Ok(_) => {}
                Err(_) => {
                    self.stats.malformed += 1;
                    return Verdict::Other;
                }
            }
        }
        let Some(id) = id else { return Verdict::Plain };
        let Some(assignment) = own.filter(|_| id.source == entry.source) else {
            self.stats.others += 1;
            return Verdict::Other;
        };
        let again = assignment.again > 0;
        // A message that comes for the first time cannot have come before.
        entry.set = assignment.set;
        entry.addressed_at = now;
        if let Some(consumed) = again.then(|| entry.had(id.stamp)).flatten() {
            self.stats.repeated += 1;
            if consumed {
                entry.report(now, id.stamp, self.config.report_delay_ns, &mut self.stats);
            }
            return Verdict::Other;
        }
        entry.note(id.stamp, false);
        entry.pending += 1;
        self.stats.own += 1;
        self.stats.again += u64::from(again);
        Verdict::Own { id, again, index }
    }

    /// The application is done with a message. Its source may have gone meanwhile.
    pub fn consumed(&mut self, now: u64, id: MessageId) {
        // Of several sources with one id it is the one whose message is not consumed yet.
        let stands = |entry: &SourceEntry| entry.source == id.source && entry.had(id.stamp) == Some(false);
        let at = self.sources.iter().find(|(_, entry)| stands(entry));
        let at = at.or_else(|| self.sources.iter().find(|(_, entry)| entry.source == id.source)).map(|(at, _)| *at);
        let Some(entry) = at.and_then(|at| self.sources.get_mut(&at)) else {
            self.stats.reports_without_source += 1;
            return;
        };
        if entry.had(id.stamp) == Some(true) {
            return;
        }
        entry.note(id.stamp, true);
        entry.pending = entry.pending.saturating_sub(1);
        entry.report(now, id.stamp, self.config.report_delay_ns, &mut self.stats);
    }

    /// Whether indices may be assigned to the receiver from now on.
    pub fn take_indices(&mut self, now: u64, takes: bool) {
        self.config.takes_indices = takes;
        for entry in self.sources.values_mut().filter(|entry| entry.phase == Phase::Registered) {
            // A registration under the same id changes this alone.
            entry.phase = Phase::Registering(now);
        }
        self.check_due = now;
    }

    /// A control message of a stream, by its transport or as the answer of its source.
    ///
    /// # Errors
    /// A header of queuing is cut short: what was read before it counts.
    pub fn control(&mut self, now: u64, stream: u32, message: &Wire<'_>) -> Result<(), WireError> {
        for header in message.headers() {
            match Ulb::of(&header?)? {
                Some(Ulb::Response(response)) => self.response(now, stream, response),
                Some(Ulb::Keepalive { answer: None, source, receiver, reg_id }) => {
                    let count = self.sources.len().min(usize::from(u16::MAX)) as u16;
                    let pending = self.pending().min(u64::from(u16::MAX)) as u16;
                    let Some(entry) = self.sources.get_mut(&stream).filter(|entry| entry.source == source) else {
                        continue;
                    };
                    if entry.receiver == receiver {
                        entry.addressed_at = now;
                        let answer = Ulb::Keepalive { answer: Some(entry.set), reg_id, source, receiver };
                        let load = Ulb::Load(Load { sources: count, messages: pending });
                        control(&mut entry.out, &[Ulb::Origin(entry.origin), answer, load]);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn response(&mut self, now: u64, stream: u32, response: RegistrationResponse) {
        let fresh = self.draw();
        let Some(entry) = self.sources.get_mut(&stream) else { return };
        // Answers go to all receivers of the stream in this context.
        if response.reg_id as u32 != entry.receiver {
            return;
        }
        entry.addressed_at = now;
        match response.answer {
            Answer::Registered { receiver, set, .. } if receiver == entry.receiver => {
                let was = core::mem::replace(&mut entry.phase, Phase::Registered);
                entry.set = set;
                if !entry.reports.is_empty() {
                    entry.reports_due = entry.reports_due.min(now);
                }
                if was != Phase::Registered {
                    self.events.push(ReceiverEvent::Registered { stream, set });
                }
            }
            Answer::Refused(refusal @ (Refusal::Unknown | Refusal::AssignmentIdInUse)) => {
                entry.register_anew(now, fresh);
                self.check_due = now;
                self.events.push(ReceiverEvent::Refused { stream, refusal });
            }
            Answer::Refused(refusal) => {
                entry.phase = Phase::Refused;
                self.events.push(ReceiverEvent::Refused { stream, refusal });
            }
            Answer::Registered { .. } | Answer::Left { .. } => {}
        }
    }

    /// When [`Receiver::on_timer`] has something to do.
    pub fn timeout(&self) -> Option<u64> {
        let reports = self.sources.values().map(|entry| entry.reports_due).min().unwrap_or(u64::MAX);
        Some(reports.min(self.check_due)).filter(|due| *due != u64::MAX)
    }

    /// Registers where that is due, and sends reports that have waited.
    pub fn on_timer(&mut self, now: u64) {
        if now >= self.check_due {
            self.check(now);
        }
        for entry in self.sources.values_mut().filter(|entry| now >= entry.reports_due) {
            entry.write_reports();
        }
    }

    fn check(&mut self, now: u64) {
        let mut next = u64::MAX;
        let streams: Vec<u32> = self.sources.keys().copied().collect();
        for stream in streams {
            let fresh = self.draw();
            let Self { sources, config, events, program, .. } = self;
            let Some(entry) = sources.get_mut(&stream) else { continue };
            let is_silent = now.saturating_sub(entry.addressed_at) > config.source_timeout_ns;
            if entry.phase == Phase::Registered && config.source_timeout_ns > 0 && is_silent {
                // If the source is there after all, it has nothing for the old id from now on.
                entry.write_reports();
                entry.say(*program, None);
                entry.register_anew(now, fresh);
                events.push(ReceiverEvent::SourceTimedOut { stream });
            }
            if let Phase::Registering(due) = &mut entry.phase
                && now >= *due
            {
                *due = now.saturating_add(config.command_interval_ns);
                entry.command = entry.command.wrapping_add(1);
                let joins = Joins {
                    kind: config.kind,
                    takes_indices: config.takes_indices,
                    port: 0,
                    address: Ipv4Addr::UNSPECIFIED,
                };
                entry.say(*program, Some(joins));
            }
            next = next.min(match entry.phase {
                Phase::Registering(due) => due,
                Phase::Registered => now.saturating_add(config.check_interval_ns),
                Phase::Refused => u64::MAX,
            });
        }
        self.check_due = next;
    }

    /// Leaves all sources: what was not consumed they assign to others at once.
    pub fn leave(&mut self) {
        let program = self.program;
        for entry in self.sources.values_mut() {
            entry.write_reports();
            if !matches!(entry.phase, Phase::Refused) {
                entry.command = entry.command.wrapping_add(1);
                entry.say(program, None);
            }
        }
    }

    /// Takes what is to be sent to the request port of each stream's source. What does not get there is made good: registrations are
    /// repeated until they are answered, and a message whose report is lost is sent again, and reported again.
    pub fn output(&mut self, mut send: impl FnMut(u32, &[u8])) {
        for (stream, entry) in &mut self.sources {
            if entry.reports_due == 0 {
                entry.write_reports();
            }
            if !entry.out.is_empty() {
                send(*stream, &entry.out);
                entry.out.clear();
            }
        }
    }
}

impl SourceEntry {
    /// A registration, or with `None` a deregistration.
    fn say(&mut self, program: u32, joins: Option<Joins>) {
        let reg_id = u64::from(program) << 32 | u64::from(self.receiver);
        let Self { command, source, receiver, .. } = *self;
        let registration = Registration { reg_id, command, source, receiver, joins };
        control(
            &mut self.out,
            &[Ulb::TopicIndex(self.topic), Ulb::Origin(self.origin), Ulb::Registration(registration)],
        );
    }

    fn report(&mut self, now: u64, stamp: u64, delay_ns: u64, stats: &mut ReceiverStats) {
        if self.reports.len() >= REPORTS_MAX {
            stats.reports_dropped += 1;
            return;
        }
        self.reports.push(stamp);
        // 0: with the next output.
        let due = if delay_ns == 0 { 0 } else { now.saturating_add(delay_ns) };
        self.reports_due = self.reports_due.min(due);
    }

    /// Writes what was consumed, once the source knows under which id.
    fn write_reports(&mut self) {
        self.reports_due = u64::MAX;
        if self.phase != Phase::Registered {
            return;
        }
        let Self { source, receiver, set, origin, .. } = *self;
        for stamps in self.reports.chunks(REPORT_MAX) {
            let mut ids = [0; 16 * REPORT_MAX];
            for (id, stamp) in ids.chunks_exact_mut(16).zip(stamps) {
                id[..8].copy_from_slice(&u64::from(source).to_be_bytes());
                id[8..].copy_from_slice(&stamp.to_be_bytes());
            }
            let ids = &ids[..16 * stamps.len()];
            control(&mut self.out, &[Ulb::Origin(origin), Ulb::Consumed { source, receiver, set, ids }]);
        }
        self.reports.clear();
    }
}
