//! The source of a queue: decides which receiver of each application set has a message, and keeps the message until all sets are done with
//! it.
//!
//! The owner of a source sends, by the topic's own source, what [`Source::to_send`] has, in that order; hands in what receivers say to the request
//! port; and sends the control messages of [`Source::announcements`] on the source's transport.
//!
//! A receiver gets messages once it has answered on the request port what it has heard on the transport. A message whose receiver has
//! gone, or has not consumed it in time, is sent again whole, for another one, and says that it is: of all copies in a set one at most comes
//! without that mark.

mod config;
mod flight;
mod members;

use std::collections::VecDeque;

use lbm::wire::WireError;
use lbm::wire::lbmc::Message as Wire;

pub use self::config::{AssignmentFunction, Events, LoadBehavior, SetConfig, SourceConfig, TypeConfig};
use self::flight::{Flight, Standing};
use self::members::Members;
use crate::wire::{
    Answer, Assignment, Joins, MessageHeaders, Refusal, Registration, RegistrationResponse, Ulb, control, stamps,
};
use crate::{Index, MessageId, SETS_MAX};

/// Receivers that one control message asks whether they are there.
const ASKED_AT_ONCE: usize = 40;
/// A receiver that has not answered yet is asked again after so long, ns.
const FIRST_ANSWER_NS: u64 = 100_000_000;

/// Events at a source. Those of [`Events`] come if options ask for them, the others always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "message, application set and the receiver's assignment id, in each")]
pub enum SourceEvent {
    /// A receiver has a message: for the first time in the set, or `again`.
    Assigned { message: MessageId, set: u16, receiver: u32, again: bool },
    /// A receiver has consumed a message.
    Consumed { message: MessageId, set: u16, receiver: u32 },
    /// A message is given up in a set: it is too old, or was assigned too often.
    GivenUp { message: MessageId, set: u16 },
    /// A message is consumed or given up in all sets.
    Complete { message: MessageId },
    /// A receiver has registered.
    Registered { set: u16, receiver: u32 },
    /// A receiver hears the source: it gets messages from now on.
    Ready { set: u16, receiver: u32 },
    /// A receiver has left by itself.
    Left { set: u16, receiver: u32 },
    /// A receiver was silent for too long.
    TimedOut { set: u16, receiver: u32 },
    /// After a refusal of [`Source::send`]: there is room again.
    Writable,
    /// More messages are under way than the flight size says, and sends go on all the same: from now on, or no more.
    FlightSize { is_over: bool },
}

/// A message cannot be sent now: [`SourceEvent::Writable`] tells when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// As many messages as may be are not consumed: `umq_ulb_flight_size`.
    FlightFull,
    /// As many bytes as may be are not consumed: [`SourceConfig::bytes_max`].
    BytesFull,
}

/// Counters of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Messages taken.
    pub messages: u64,
    /// Messages consumed, of each set.
    pub consumed: u64,
    /// Times that a message was assigned anew.
    pub reassigned: u64,
    /// Messages given up, of each set.
    pub given_up: u64,
    /// Messages refused for want of room.
    pub refused: u64,
    /// Reports of consumption that changed nothing: for messages that were done with, or of other sets.
    pub late_reports: u64,
    /// Words of receivers that were not registered, which were told so.
    pub unknown_receivers: u64,
    /// Registrations refused.
    pub refused_receivers: u64,
    /// Receivers that were silent for too long.
    pub timed_out: u64,
    /// Indices forgotten for want of room, none of whose messages was under way.
    pub forgotten_indices: u64,
}

/// A message to be sent.
#[derive(Debug)]
pub struct Transmission<'a> {
    /// The headers that say for whom it is.
    pub headers: &'a MessageHeaders,
    /// The data.
    pub payload: &'a [u8],
    /// The lines of all receivers that it is for, as told with [`Source::question`]; empty: one of them has none, or the message is for one whose
    /// line is not known.
    pub lines: &'a [u32],
}

/// See the module.
#[derive(Debug)]
pub struct Source {
    id: u32,
    topic: u32,
    /// Session and topic of the source: sources of several sessions of a program may have one id.
    origin: [u8; 32],
    config: SourceConfig,
    members: Members,
    flight: Flight,
    /// Messages that nobody can have now, of each set.
    waiting: Vec<usize>,
    /// The message that is to be sent, and for which sets.
    to_send: VecDeque<(u64, u16)>,
    headers: MessageHeaders,
    lines: Vec<u32>,
    announcements: Vec<Vec<u8>>,
    events: Vec<SourceEvent>,
    refused: bool,
    is_over: bool,
    check_due: u64,
    stats: SourceStats,
}

impl Source {
    /// A source without receivers. `id` is what it is advertised under; its topic's index in the session and
    /// [`Transport::originating_id`](lbm::wire::lbmr::Transport::originating_id) tell it from all others. Of more than [`SETS_MAX`] application
    /// sets those beyond are left out.
    pub fn new(now: u64, id: u32, (topic, origin): (u32, [u8; 32]), mut config: SourceConfig, random: u64) -> Self {
        config.sets.truncate(SETS_MAX);
        let sets = config.sets.len();
        Self {
            id,
            topic,
            origin,
            members: Members::new(sets, config.indices_max, random),
            flight: Flight::new(sets),
            waiting: vec![0; sets],
            to_send: VecDeque::new(),
            headers: MessageHeaders::default(),
            lines: Vec::new(),
            announcements: Vec::new(),
            events: Vec::new(),
            refused: false,
            is_over: false,
            check_due: now,
            stats: SourceStats::default(),
            config,
        }
    }

    /// The source's id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Counters.
    pub fn stats(&self) -> SourceStats {
        SourceStats { forgotten_indices: self.members.forgotten_indices(), ..self.stats }
    }

    /// Messages that are not consumed in all sets.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Receivers that are registered, and how many of them are ready.
    pub fn receivers(&self) -> (usize, usize) {
        (self.members.len(), self.members.iter().filter(|(_, member)| member.is_ready).count())
    }

    /// Events since the last call, into a list whose memory the source goes on with.
    pub fn swap_events(&mut self, into: &mut Vec<SourceEvent>) {
        into.clear();
        core::mem::swap(&mut self.events, into);
    }

    /// Control messages for all receivers of the topic, by the source's transport. One that it does not take now is made good by the next.
    pub fn announcements(&mut self) -> impl Iterator<Item = Vec<u8>> {
        self.announcements.drain(..)
    }

    /// When [`Source::on_timer`] has something to do.
    pub fn timeout(&self) -> u64 {
        self.check_due
    }

    /// Takes a message, and says who is to have it: what is to be sent then is [`Source::to_send`]. Messages of one index are for one receiver
    /// of each set.
    ///
    /// # Errors
    /// See [`NotAdmitted`].
    pub fn send(&mut self, now: u64, payload: &[u8], index: Option<Index>) -> Result<MessageId, NotAdmitted> {
        self.admit(payload.len())?;
        self.stats.messages += 1;
        let stamp = self.flight.push(now, payload, index);
        let mut mask = 0;
        for set in 0..self.waiting.len() as u16 {
            self.waiting[usize::from(set)] += 1;
            if self.assign(stamp, set, None) {
                mask |= 1 << set;
            }
        }
        if mask != 0 {
            self.to_send.push_back((stamp, mask));
        }
        self.note_flight();
        Ok(self.message(stamp))
    }

    fn message(&self, stamp: u64) -> MessageId {
        MessageId { source: self.id, stamp }
    }

    fn admit(&mut self, bytes: usize) -> Result<(), NotAdmitted> {
        let (count, held) = (self.flight.len(), self.flight.bytes());
        // A single message is never too much.
        let refusal = if self.config.blocks && count >= self.config.flight_size {
            NotAdmitted::FlightFull
        } else if held > 0 && held.saturating_add(bytes) > self.config.bytes_max {
            NotAdmitted::BytesFull
        } else {
            return Ok(());
        };
        self.refused = true;
        self.stats.refused += 1;
        Err(refusal)
    }

    /// Tells a source that goes on over its flight size when it has come to that, and when it is over.
    fn note_flight(&mut self) {
        let is_over = !self.config.blocks && self.flight.len() > self.config.flight_size;
        if core::mem::replace(&mut self.is_over, is_over) != is_over {
            self.events.push(SourceEvent::FlightSize { is_over });
        }
    }

    /// Tells an event of a set if somebody wants it.
    #[inline]
    fn tell(&mut self, kind: Events, set: u16, place: Option<u16>, event: SourceEvent) {
        let of_set = self.config.sets.get(usize::from(set)).map_or(Events::NONE, |config| config.events);
        if (self.config.events | of_set).has(kind) || place.is_some_and(|place| self.members.tells(place, kind)) {
            self.events.push(event);
        }
    }

    /// Assigns a message that waits. Whether somebody could have it: it is to be sent then.
    fn assign(&mut self, stamp: u64, set: u16, not: Option<u16>) -> bool {
        let at = usize::from(set);
        let (Some(config), Some(message)) = (self.config.sets.get(at), self.flight.get(stamp)) else { return false };
        let Some(place) = self.members.choose(set, config, message.index.as_ref(), not) else { return false };
        let Some(state) = self.flight.state_mut(stamp, set) else { return false };
        state.standing = Standing::Assigned { place, sent_at: None };
        state.times = state.times.saturating_add(1);
        let again = state.times > 1;
        self.waiting[at] -= 1;
        self.stats.reassigned += u64::from(again);
        let kind = if again { Events::MESSAGE_REASSIGNED } else { Events::MESSAGE_ASSIGNED };
        let receiver = self.members.get(place).map_or(0, |member| member.id);
        let message = self.message(stamp);
        self.tell(kind, set, Some(place), SourceEvent::Assigned { message, set, receiver, again });
        true
    }

    /// Assigns what waits in a set, oldest first.
    fn assign_waiting(&mut self, set: u16) {
        for stamp in self.flight.stamps() {
            if self.waiting[usize::from(set)] == 0 {
                return;
            }
            let waits = self.flight.state(stamp, set).is_some_and(|state| state.standing == Standing::Waiting);
            if waits && self.assign(stamp, set, None) {
                self.to_send.push_back((stamp, 1 << set));
            }
        }
    }

    /// The receiver of a place has the message no more, which waits.
    fn take_back(&mut self, stamp: u64, set: u16, place: u16) {
        let index = self.flight.get(stamp).and_then(|message| message.index.as_ref());
        self.members.release(set, place, index);
        if let Some(state) = self.flight.state_mut(stamp, set) {
            state.standing = Standing::Waiting;
            self.waiting[usize::from(set)] += 1;
        }
    }

    /// Whether [`Source::to_send`] may have something.
    pub fn has_to_send(&self) -> bool {
        !self.to_send.is_empty()
    }

    /// The message that is to be sent next. [`Source::transmitted`] tells that it was.
    pub fn to_send(&mut self) -> Option<Transmission<'_>> {
        loop {
            let (stamp, mask) = *self.to_send.front()?;
            if self.encode(stamp, mask) {
                break;
            }
            // Since it was put there it was consumed, given up, or sent for another receiver.
            self.to_send.pop_front();
        }
        let (stamp, _) = *self.to_send.front()?;
        let payload = &self.flight.get(stamp)?.payload;
        Some(Transmission { headers: &self.headers, payload, lines: &self.lines })
    }

    /// Writes the headers of a message for those of the sets for which it has not been sent. False: there is none.
    fn encode(&mut self, stamp: u64, mask: u16) -> bool {
        let Some(message) = self.flight.get(stamp) else { return false };
        self.headers.clear();
        self.headers.push(&Ulb::MessageId(MessageId { source: self.id, stamp }));
        self.lines.clear();
        let (mut any, mut known) = (false, true);
        for set in (0..self.waiting.len() as u16).filter(|set| mask & 1 << set != 0) {
            let Some(state) = self.flight.state(stamp, set) else { continue };
            let Standing::Assigned { place, sent_at: None } = state.standing else { continue };
            let Some(member) = self.members.get(place) else { continue };
            let again = if state.was_sent { state.times.saturating_sub(1).max(1) } else { 0 };
            self.headers.push(&Ulb::Assignment(Assignment { source: self.id, receiver: member.id, set, again }));
            any = true;
            match member.line {
                Some(line) if !self.lines.contains(&line) => self.lines.push(line),
                line => known &= line.is_some(),
            }
        }
        if !known {
            self.lines.clear();
        }
        if let Some(index) = &message.index {
            self.headers.push(&Ulb::Index(index.borrowed()));
        }
        any
    }

    /// The transport has taken what [`Source::to_send`] gave last.
    pub fn transmitted(&mut self, now: u64) {
        let Some((stamp, mask)) = self.to_send.pop_front() else { return };
        for set in (0..self.waiting.len() as u16).filter(|set| mask & 1 << set != 0) {
            if let Some(state) = self.flight.state_mut(stamp, set)
                && let Standing::Assigned { sent_at: sent_at @ None, .. } = &mut state.standing
            {
                *sent_at = Some(now);
                state.was_sent = true;
            }
        }
    }

    /// A message will never be sent: it does not fit the transport. It is given up in all sets.
    pub fn give_up_next(&mut self) {
        let Some((stamp, _)) = self.to_send.pop_front() else { return };
        (0..self.waiting.len() as u16).for_each(|set| self.give_up(stamp, set));
    }

    fn give_up(&mut self, stamp: u64, set: u16) {
        let Some(state) = self.flight.state(stamp, set).copied() else { return };
        if state.standing == Standing::Done {
            return;
        }
        self.stats.given_up += 1;
        let event = SourceEvent::GivenUp { message: self.message(stamp), set };
        self.tell(Events::MESSAGE_TIMEOUT, set, None, event);
        self.finish(stamp, set);
    }

    /// The message is done with in a set.
    fn finish(&mut self, stamp: u64, set: u16) {
        match self.flight.state(stamp, set).map(|state| state.standing) {
            Some(Standing::Assigned { place, .. }) => {
                let index = self.flight.get(stamp).and_then(|message| message.index.as_ref());
                self.members.release(set, place, index);
            }
            Some(Standing::Waiting) => self.waiting[usize::from(set)] -= 1,
            Some(Standing::Done) | None => return,
        }
        if self.flight.done(stamp, set) {
            let event = SourceEvent::Complete { message: self.message(stamp) };
            self.tell(Events::MESSAGE_COMPLETE, set, None, event);
            self.note_flight();
            let is_full = self.config.blocks && self.flight.len() >= self.config.flight_size;
            if self.refused && !is_full {
                self.refused = false;
                self.events.push(SourceEvent::Writable);
            }
        }
    }

    /// A control message that has come to the request port, by `line`, if its receiver can be sent to by itself; what is put into `answers` goes
    /// back. Whether any of it was for this source.
    ///
    /// # Errors
    /// A header of queuing is cut short: what was read before it counts.
    pub fn question(
        &mut self,
        now: u64,
        line: Option<u32>,
        message: &Wire<'_>,
        answers: &mut Vec<u8>,
    ) -> Result<bool, WireError> {
        let to = message.headers().flatten().find_map(|header| match Ulb::of(&header) {
            Ok(Some(Ulb::Origin(origin))) => Some(origin),
            _ => None,
        });
        // A receiver of another make does not say to which source of this id it speaks.
        if to.is_some_and(|to| to != self.origin) {
            return Ok(false);
        }
        // Of whom the load is that a message tells.
        let (mut speaker, mut is_ours) = (None, false);
        for header in message.headers() {
            match Ulb::of(&header?)? {
                Some(Ulb::Registration(registration)) if registration.source == self.id => {
                    is_ours = true;
                    speaker = self.register(now, &registration, answers);
                }
                Some(Ulb::Consumed { source, receiver, set, ids }) if source == self.id => {
                    is_ours = true;
                    speaker = self.heard(now, receiver, answers);
                    stamps(ids).for_each(|stamp| self.consumed(stamp, set, receiver));
                }
                Some(Ulb::Keepalive { answer: Some(_), source, receiver, .. }) if source == self.id => {
                    is_ours = true;
                    speaker = self.heard(now, receiver, answers);
                    if let Some(place) = speaker {
                        self.ready(place);
                    }
                }
                Some(Ulb::Load(load)) => speaker.into_iter().for_each(|place| self.members.note_load(place, load)),
                _ => {}
            }
        }
        if let Some(member) = speaker.and_then(|place| self.members.get_mut(place)) {
            member.line = line;
        }
        Ok(is_ours)
    }

    /// A receiver has said something. `None`: it is not registered, and is told so.
    fn heard(&mut self, now: u64, receiver: u32, answers: &mut Vec<u8>) -> Option<u16> {
        let place = self.members.place_of(receiver);
        if let Some(member) = place.and_then(|place| self.members.get_mut(place)) {
            member.heard_at = now;
        } else {
            self.stats.unknown_receivers += 1;
            let answer = Answer::Refused(Refusal::Unknown);
            self.answer(answers, RegistrationResponse { reg_id: receiver.into(), command: 0, answer });
        }
        place
    }

    fn answer(&self, answers: &mut Vec<u8>, response: RegistrationResponse) {
        // Two short headers always fit.
        control(answers, &[Ulb::TopicIndex(self.topic), Ulb::Response(response)]);
    }

    fn register(&mut self, now: u64, registration: &Registration, answers: &mut Vec<u8>) -> Option<u16> {
        let (source, receiver) = (self.id, registration.receiver);
        let (answer, place) = match registration.joins {
            None => {
                if let Some(place) = self.members.place_of(receiver) {
                    self.leave(place, Events::RECEIVER_LEFT);
                }
                (Answer::Left { source, receiver }, None)
            }
            Some(joins) => match self.join(now, registration, &joins) {
                Ok((place, set)) => (Answer::Registered { source, receiver, set }, Some(place)),
                Err(refusal) => {
                    self.stats.refused_receivers += 1;
                    (Answer::Refused(refusal), None)
                }
            },
        };
        let Registration { reg_id, command, .. } = *registration;
        self.answer(answers, RegistrationResponse { reg_id, command, answer });
        place
    }

    /// Registers a receiver, or again one whose answer was lost, or that takes indices now and did not before.
    fn join(&mut self, now: u64, registration: &Registration, joins: &Joins) -> Result<(u16, u16), Refusal> {
        let of_type = *self.config.types.get(&joins.kind).ok_or(Refusal::ReceiverType)?;
        let set = of_type.set;
        if usize::from(set) >= self.waiting.len() {
            return Err(Refusal::ReceiverType);
        }
        let receiver = registration.receiver;
        if let Some(place) = self.members.place_of(receiver)
            && let Some(member) = self.members.get_mut(place)
        {
            if member.reg_id != registration.reg_id {
                return Err(Refusal::AssignmentIdInUse);
            }
            member.heard_at = now;
            if core::mem::replace(&mut member.takes_indices, joins.takes_indices) != joins.takes_indices {
                self.assign_waiting(set);
            }
            return Ok((place, set));
        }
        let place = self.members.add(now, receiver, registration.reg_id, of_type, joins.takes_indices);
        let place = place.ok_or(Refusal::Full)?;
        self.tell(Events::RECEIVER_REGISTERED, set, Some(place), SourceEvent::Registered { set, receiver });
        self.check_due = self.check_due.min(now);
        Ok((place, set))
    }

    /// A receiver hears the source.
    fn ready(&mut self, place: u16) {
        let Some(member) = self.members.get_mut(place) else { return };
        let (set, receiver) = (member.of_type.set, member.id);
        if !core::mem::replace(&mut member.is_ready, true) {
            self.tell(Events::RECEIVER_READY, set, Some(place), SourceEvent::Ready { set, receiver });
            self.assign_waiting(set);
        }
    }

    /// A receiver is gone; what it has not consumed is for others.
    fn leave(&mut self, place: u16, why: Events) {
        let Some(member) = self.members.get(place) else { return };
        let (set, receiver) = (member.of_type.set, member.id);
        let event = if why == Events::RECEIVER_LEFT {
            SourceEvent::Left { set, receiver }
        } else {
            SourceEvent::TimedOut { set, receiver }
        };
        self.tell(why, set, Some(place), event);
        self.members.remove(place);
        for stamp in self.flight.stamps() {
            let standing = self.flight.state(stamp, set).map(|state| state.standing);
            if matches!(standing, Some(Standing::Assigned { place: of, .. }) if of == place) {
                self.take_back(stamp, set, place);
                self.give_up_if_worn(stamp, set);
            }
        }
        self.assign_waiting(set);
    }

    /// Gives up a message that was assigned as often as it may be.
    fn give_up_if_worn(&mut self, stamp: u64, set: u16) {
        let most = self.config.sets.get(usize::from(set)).map_or(0, |config| config.assignments_max);
        let times = self.flight.state(stamp, set).map_or(0, |state| state.times);
        if most > 0 && u32::from(times) >= most {
            self.give_up(stamp, set);
        }
    }

    fn consumed(&mut self, stamp: u64, set: u16, receiver: u32) {
        // The message is consumed, whoever has done so: a receiver that was taken for gone may have had it.
        match self.flight.state(stamp, set).map(|state| state.standing) {
            Some(Standing::Assigned { .. } | Standing::Waiting) => {}
            Some(Standing::Done) | None => {
                self.stats.late_reports += 1;
                return;
            }
        }
        self.stats.consumed += 1;
        let place = self.members.place_of(receiver);
        let event = SourceEvent::Consumed { message: self.message(stamp), set, receiver };
        self.tell(Events::MESSAGE_CONSUMED, set, place, event);
        self.finish(stamp, set);
    }

    /// Looks for receivers that are silent, and messages that are overdue.
    pub fn on_timer(&mut self, now: u64) {
        if now < self.check_due {
            return;
        }
        self.drop_silent(now);
        self.ask(now);
        self.press(now);
        let is_awaited = self.members.iter().any(|(_, member)| !member.is_ready);
        let interval = self.config.check_interval_ns;
        self.check_due = now.saturating_add(if is_awaited { interval.min(FIRST_ANSWER_NS) } else { interval });
    }

    fn drop_silent(&mut self, now: u64) {
        let is_silent = |member: &members::Member| {
            let limit = self.config.sets.get(usize::from(member.of_type.set)).map_or(0, |set| set.activity_timeout_ns);
            now.saturating_sub(member.heard_at) > limit
        };
        let silent: Vec<u16> =
            self.members.iter().filter(|(_, member)| is_silent(member)).map(|(place, _)| place).collect();
        for place in silent {
            self.stats.timed_out += 1;
            self.leave(place, Events::RECEIVER_TIMEOUT);
        }
    }

    /// Asks those that have said nothing for a while whether they are there.
    fn ask(&mut self, now: u64) {
        let mut asked = vec![Ulb::TopicIndex(self.topic)];
        let Self { members, config, announcements, .. } = self;
        for member in members.iter_mut() {
            let interval = match config.sets.get(usize::from(member.of_type.set)) {
                Some(set) if member.is_ready => set.keepalive_interval_ns,
                _ => FIRST_ANSWER_NS,
            };
            let last = if member.is_ready { member.heard_at.max(member.asked_at) } else { member.asked_at };
            if now.saturating_sub(last) < interval {
                continue;
            }
            member.asked_at = now;
            let (reg_id, receiver) = (member.reg_id, member.id);
            asked.push(Ulb::Keepalive { answer: None, reg_id, source: self.id, receiver });
            if asked.len() > ASKED_AT_ONCE {
                announcements.push(announcement(&asked));
                asked.truncate(1);
            }
        }
        if asked.len() > 1 {
            announcements.push(announcement(&asked));
        }
    }

    /// Gives up messages that are too old, and assigns anew those whose receiver has not consumed them.
    fn press(&mut self, now: u64) {
        for stamp in self.flight.stamps() {
            for set in 0..self.waiting.len() as u16 {
                let Some(message) = self.flight.get(stamp) else { break };
                let Some(state) = self.flight.state(stamp, set) else { break };
                let config = &self.config.sets[usize::from(set)];
                if state.standing == Standing::Done {
                    continue;
                }
                if config.lifetime_ns > 0 && now.saturating_sub(message.sent_at) >= config.lifetime_ns {
                    self.give_up(stamp, set);
                    continue;
                }
                let Standing::Assigned { place, sent_at: Some(at) } = state.standing else { continue };
                if now.saturating_sub(at) < config.reassignment_timeout_ns {
                    continue;
                }
                self.take_back(stamp, set, place);
                self.give_up_if_worn(stamp, set);
                if self.flight.state(stamp, set).is_some_and(|state| state.standing == Standing::Waiting)
                    && self.assign(stamp, set, Some(place))
                {
                    self.to_send.push_back((stamp, 1 << set));
                }
            }
        }
    }
}

fn announcement(headers: &[Ulb<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // So many short headers always fit.
    control(&mut bytes, headers);
    bytes
}
