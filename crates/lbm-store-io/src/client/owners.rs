//! Which connection is of which source or receiver, and to which of its stores.

use std::collections::HashMap;
use std::net::SocketAddrV4;

use lbm_io::Sources;
use lbm_store::receiver::Sink;

use super::events::{ClientEvents, PersistentReceiver};
use super::parts::{Parts, SourceEntry, ToApplication};
use crate::lines::{LineEvent, Lines};

/// The owner of a connection.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// A source, and the store's place.
    Source(usize, usize),
    /// A receiver, and the connection's number in its topic.
    Receiver(usize, u64),
}

/// See the module. A place is gone when its connection is: one that dials anew gets another number.
#[derive(Default)]
pub(super) struct Owners {
    next: u64,
    of: HashMap<u64, Owner>,
    sources: HashMap<(usize, usize), u64>,
    receivers: HashMap<(usize, u64), u64>,
}

impl Owners {
    /// Connects a source to one of its stores.
    pub(super) fn dial_source(
        &mut self,
        now: u64,
        place: (usize, usize),
        to: SocketAddrV4,
        lines: &mut Lines,
        parts: &mut Parts,
    ) {
        match self.dial(Owner::Source(place.0, place.1), to, lines) {
            Some(number) => drop(self.sources.insert(place, number)),
            None => parts.source_mut(place.0).into_iter().for_each(|source| source.machine.closed(now, place.1)),
        }
    }

    /// Connects a receiver to one of its source's stores.
    pub(super) fn dial_receiver(
        &mut self,
        now: u64,
        place: (usize, u64),
        to: SocketAddrV4,
        lines: &mut Lines,
        parts: &mut Parts,
    ) {
        match self.dial(Owner::Receiver(place.0, place.1), to, lines) {
            Some(number) => drop(self.receivers.insert(place, number)),
            None => parts.topic_mut(place.0).into_iter().for_each(|topic| topic.closed(now, place.1)),
        }
    }

    fn dial(&mut self, owner: Owner, to: SocketAddrV4, lines: &mut Lines) -> Option<u64> {
        self.next += 1;
        lines.connect(self.next, to).ok()?;
        self.of.insert(self.next, owner);
        Some(self.next)
    }

    pub(super) fn hang_up_source(&mut self, place: (usize, usize), lines: &mut Lines) {
        let number = self.sources.remove(&place);
        self.hang_up(number, lines);
    }

    pub(super) fn hang_up_receiver(&mut self, place: (usize, u64), lines: &mut Lines) {
        let number = self.receivers.remove(&place);
        self.hang_up(number, lines);
    }

    /// The source is no more.
    pub(super) fn leave_source(&mut self, at: usize, lines: &mut Lines) {
        let places: Vec<(usize, usize)> = self.sources.keys().copied().filter(|(of, _)| *of == at).collect();
        for place in places {
            self.hang_up_source(place, lines);
        }
    }

    /// The receiver is no more.
    pub(super) fn leave_receiver(&mut self, at: usize, lines: &mut Lines) {
        let places: Vec<(usize, u64)> = self.receivers.keys().copied().filter(|(of, _)| *of == at).collect();
        for place in places {
            self.hang_up_receiver(place, lines);
        }
    }

    fn hang_up(&mut self, number: Option<u64>, lines: &mut Lines) {
        // A connection that has ended meanwhile has none.
        if let Some(number) = number {
            self.of.remove(&number);
            lines.close(number);
        }
    }

    /// What is for a store that has gone is dropped: its registration begins anew.
    pub(super) fn send_source(&self, place: (usize, usize), bytes: &[u8], lines: &mut Lines) {
        if let Some(number) = self.sources.get(&place) {
            lines.send(*number, bytes);
        }
    }

    pub(super) fn send_receiver(&self, place: (usize, u64), bytes: &[u8], lines: &mut Lines) {
        if let Some(number) = self.receivers.get(&place) {
            lines.send(*number, bytes);
        }
    }

    /// Something has happened to a connection. False: what came cannot be read.
    pub(super) fn on_line(
        &mut self,
        now: u64,
        number: u64,
        event: &LineEvent<'_>,
        parts: &mut Parts,
        (sources, events): (&mut Sources, &mut impl ClientEvents),
    ) -> bool {
        // A connection that was hung up is nobody's.
        let Some(owner) = self.of.get(&number).copied() else { return true };
        match owner {
            Owner::Source(at, store) => self.on_source_line(now, number, (at, store), event, parts),
            Owner::Receiver(at, conn) => {
                let receiver = PersistentReceiver(at);
                let mut sink = ToApplication { receiver, sources, events };
                self.on_receiver_line(now, number, (at, conn), event, parts, &mut sink)
            }
        }
    }

    fn on_source_line(
        &mut self,
        now: u64,
        number: u64,
        (at, store): (usize, usize),
        event: &LineEvent<'_>,
        parts: &mut Parts,
    ) -> bool {
        // A source or receiver that was removed has no connections.
        let Some(SourceEntry { machine, .. }) = parts.source_mut(at) else { return true };
        match event {
            LineEvent::Connected => machine.connected(now, store),
            LineEvent::Messages(messages) => return machine.receive(now, store, messages).is_ok(),
            LineEvent::Closed => {
                self.of.remove(&number);
                self.sources.remove(&(at, store));
                machine.closed(now, store);
            }
            LineEvent::Accepted => {}
        }
        true
    }

    fn on_receiver_line(
        &mut self,
        now: u64,
        number: u64,
        (at, conn): (usize, u64),
        event: &LineEvent<'_>,
        parts: &mut Parts,
        sink: &mut impl Sink,
    ) -> bool {
        // A source or receiver that was removed has no connections.
        let Some(topic) = parts.topic_mut(at) else { return true };
        match event {
            LineEvent::Connected => topic.connected(now, conn),
            LineEvent::Messages(messages) => return topic.receive(now, conn, messages, sink).is_ok(),
            LineEvent::Closed => {
                self.of.remove(&number);
                self.receivers.remove(&(at, conn));
                topic.closed(now, conn);
            }
            LineEvent::Accepted => {}
        }
        true
    }
}
