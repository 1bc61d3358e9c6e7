//! Events of a publisher that wait for its owner.

use client::publication::Event;
use std::collections::VecDeque;

/// Events that are kept for an owner who does not take them.
const EVENTS_MAX: usize = 65_536;
/// Bytes of names and bodies in them: consumers choose how long a post is.
const BYTES_MAX: usize = 64 << 20;
/// Places that are kept when all are taken.
const KEPT: usize = 1_024;

/// Events in order, bounded: the oldest go.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: VecDeque<Event>,
    bytes: usize,
}

fn bytes_of(event: &Event) -> usize {
    match event {
        Event::Wanted(item) | Event::Unwanted(item) => item.name.len(),
        Event::Posted { item, body, .. } | Event::Generic { item, body, .. } => item.name.len() + body.len(),
        Event::Refused(why) => why.len(),
        _ => 0,
    }
}

impl EventQueue {
    /// Takes an event in. Gives how many are lost for it.
    pub(crate) fn push(&mut self, event: Event) -> u64 {
        let (bytes, mut lost) = (bytes_of(&event), 0);
        while self.events.len() >= EVENTS_MAX || (self.bytes + bytes > BYTES_MAX && !self.events.is_empty()) {
            self.pop();
            lost += 1;
        }
        self.bytes += bytes;
        self.events.push_back(event);
        lost
    }

    /// The next one. With the last goes the memory that very many took.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= bytes_of(&event);
        if self.events.is_empty() && self.events.capacity() > KEPT {
            self.events = VecDeque::new();
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::publication::ItemName;
    use rwf::DataType;
    use rwf::msg::Domain;

    fn posted(bytes: usize) -> Event {
        let item = ItemName { domain: Domain::MARKET_PRICE, name: "A".into() };
        Event::Posted { item, container: DataType::OPAQUE, body: vec![0; bytes] }
    }

    #[test]
    fn events_are_bounded_in_number_and_in_bytes() {
        let mut queue = EventQueue::default();
        assert_eq!((0..EVENTS_MAX + 3).map(|_| queue.push(Event::Ready)).sum::<u64>(), 3);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), EVENTS_MAX);
        assert!(queue.events.capacity() <= KEPT, "memory goes with the last");
        // An event that is too long alone is told.
        assert_eq!((queue.push(posted(BYTES_MAX)), queue.push(posted(1))), (0, 1));
        assert_eq!((queue.pop(), queue.bytes), (Some(posted(1)), 0));
    }
}
