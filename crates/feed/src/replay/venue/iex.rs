//! Captures of IEX: TOPS and DEEP over IEX-TP.

use std::io;
use std::path::Path;

use market::ReadBooks;
use venue::iex::tp::{Header, Protocol, TpReceiver};

use super::board::Board;
use super::datagrams::Datagrams;
use super::iex_messages::IexMessages;
use super::input::{Input, LIMITS};
use super::messages::Messages;
use super::queue::{Next, Queue};
use crate::new_york;
use crate::session::{DAY, Nanos};

/// A capture that is read.
pub(super) struct Iex {
    datagrams: Datagrams,
    receiver: TpReceiver,
    queue: Queue,
    messages: IexMessages,
    /// Packets of which the capture has a part.
    short: u64,
    has_ended: bool,
    now: u64,
}

/// Which feed a datagram is of, if it is one of IEX.
pub(super) fn protocol(payload: &[u8]) -> Option<Protocol> {
    Header::read(payload)
        .filter(|header| usize::from(header.length) + 40 >= payload.len())
        .map(|header| header.protocol)
}

impl Iex {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut new = Self {
            datagrams: Datagrams::open(path)?,
            receiver: TpReceiver::new(LIMITS),
            queue: Queue::default(),
            messages: IexMessages::default(),
            short: 0,
            has_ended: false,
            now: 0,
        };
        new.fill();
        Ok(new)
    }

    /// Reads until there is a message, or the end.
    fn fill(&mut self) {
        while self.queue.is_empty() && !self.has_ended {
            let Some(datagram) = self.datagrams.next() else {
                // Where the file is cut, nobody knows what followed; otherwise what is missing is lost.
                while let Some(at) = self.receiver.timer().filter(|_| !self.datagrams.is_cut()) {
                    self.receiver.on_timer(at, &mut self.queue);
                    let _unanswered = self.receiver.poll_request();
                }
                self.has_ended = true;
                break;
            };
            while let Some(at) = self.receiver.timer().filter(|at| *at <= datagram.at) {
                self.receiver.on_timer(at, &mut self.queue);
                let _unanswered = self.receiver.poll_request();
            }
            self.short += u64::from(datagram.missing > 0 && !self.datagrams.is_cut());
            self.receiver.receive(0, self.datagrams.payload(), datagram.at, &mut self.queue);
            // Until the first message tells its time.
            self.now = if self.now == 0 { datagram.at } else { self.now };
        }
        self.now = self.queue.first_message().and_then(|message| self.messages.time(message)).unwrap_or(self.now);
    }
}

impl Input for Iex {
    fn next_at(&self) -> Option<u64> {
        (!self.queue.is_empty()).then_some(self.now)
    }

    fn step(&mut self, board: &mut Board) {
        match self.queue.pop() {
            Some(Next::Message(range)) => self.messages.apply(self.queue.bytes(range), self.now, board),
            Some(Next::Change(change)) => self.messages.change(&change, board),
            None => {}
        }
        self.fill();
    }

    fn settles_itself(&self) -> bool {
        true
    }

    fn is_at_traffic(&self) -> bool {
        let Some(Next::Message(range)) = self.queue.front() else { return false };
        self.messages.is_traffic(self.queue.bytes(range.clone()))
    }

    fn books(&self) -> &dyn ReadBooks {
        self.messages.books()
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        // The date in New York, whatever its clock: no feed runs at midnight.
        let date = (self.now.saturating_sub(5 * 3_600 * crate::session::SECOND) / DAY) as u32;
        let at = new_york::utc(date, since_midnight);
        u64::from(at.day) * DAY + at.time
    }

    fn messages(&self) -> u64 {
        self.messages.count()
    }

    fn unread(&self) -> Option<String> {
        self.datagrams
            .trouble()
            .or_else(|| (self.short > 0).then(|| format!("{} packets were captured in part (snap length)", self.short)))
    }

    fn remarks(&self) -> Option<String> {
        let (counts, bad) = (self.receiver.counts(), self.receiver.bad());
        let mut texts = Vec::new();
        if counts.gaps > 0 {
            let (gaps, repairs, lost) = (counts.gaps, counts.repairs, counts.lost);
            texts.push(format!("gaps {gaps}, repaired {repairs}, messages that are not in the capture {lost}"));
        }
        let kinds = [
            ("beginnings within a session", self.receiver.restarts()),
            ("datagrams that are none of IEX-TP", bad.header),
            ("segments of another feed", bad.foreign),
            ("segments of a session that is over", bad.of_an_old_session),
        ];
        texts.extend(kinds.iter().filter(|kind| kind.1 > 0).map(|(what, count)| format!("{what}: {count}")));
        let bad = self.messages.bad().into_iter().filter(|(_, count)| *count > 0);
        texts.extend(bad.map(|(kind, count)| format!("{kind}: {count}")));
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
