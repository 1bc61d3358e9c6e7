//! The receiver of events: keeps what the tests ask for.

use market::{BookId, Event, Events, Refused};
use venue::nasdaq::itch::Message;
use venue::sequence::{Change, Receiver};
use venue::{Market, Trade};

/// Events, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Change(Change),
    Trade(BookId, Trade),
    Broken(BookId, Trade),
    Doubt(BookId, Refused),
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) seen: Vec<Seen>,
    pub(crate) events: u64,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
}

impl Watch {
    pub(crate) fn changes(&self) -> Vec<Change> {
        let change = |seen: &Seen| if let Seen::Change(change) = seen { Some(change.clone()) } else { None };
        self.seen.iter().filter_map(change).collect()
    }

    pub(crate) fn trades(&self) -> Vec<Seen> {
        self.seen.iter().filter(|seen| matches!(seen, Seen::Trade(..) | Seen::Broken(..))).cloned().collect()
    }
}

impl Events for Watch {
    fn event(&mut self, _book: BookId, event: &Event) {
        let is_within = self.begun == self.ended + 1;
        assert!(is_within || matches!(event, Event::Cleared { .. }), "an event is within its message");
        self.events += 1;
    }
}

impl Market<Message> for Watch {
    fn begin(&mut self, _book: Option<BookId>, _time: u64) {
        self.begun += 1;
    }
    fn end(&mut self, _book: Option<BookId>) {
        self.ended += 1;
        assert_eq!(self.begun, self.ended, "each message ends before the next");
    }
    fn trade(&mut self, book: BookId, trade: &Trade) {
        self.seen.push(Seen::Trade(book, *trade));
    }
    fn broken(&mut self, book: BookId, trade: &Trade) {
        self.seen.push(Seen::Broken(book, *trade));
    }
    fn doubt(&mut self, book: BookId, why: &Refused) {
        self.seen.push(Seen::Doubt(book, *why));
    }
    fn change(&mut self, change: &Change) {
        self.seen.push(Seen::Change(change.clone()));
    }
}

/// Messages and changes of a stream, with what must hold of any: numbers rise by one, but where messages were given up or a snapshot came.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) messages: Vec<(u64, Vec<u8>)>,
    pub(crate) changes: Vec<Change>,
    pub(crate) next: Option<u64>,
    /// A gap is open.
    pub(crate) is_gap: bool,
}

impl Receiver for Stream {
    fn message(&mut self, number: u64, message: &[u8]) {
        assert!(self.next.is_none_or(|next| next == number), "message {number} where {:?} is next", self.next);
        self.next = Some(number + 1);
        self.messages.push((number, message.to_vec()));
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Session { next, .. } | Change::Resumed { next } => {
                (self.next, self.is_gap) = (Some(*next), false);
            }
            Change::Gap { .. } => {
                assert!(!self.is_gap, "a gap is told once");
                self.is_gap = true;
            }
            Change::Repaired => {
                assert!(self.is_gap, "what was no gap is not repaired");
                self.is_gap = false;
            }
            Change::Lost { missing } => self.next = Some(missing.end),
            Change::Ended => {}
        }
        self.changes.push(change.clone());
    }
}
