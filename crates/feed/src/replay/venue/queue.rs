//! Messages that were read and are applied one by one.

use std::collections::VecDeque;

use venue::sequence::{Change, Receiver};

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A message: where it lies in [`Queue::bytes`].
    Message(std::ops::Range<usize>),
    /// Something became of the stream.
    Change(Change),
}

/// Messages and changes of a stream, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    bytes: Vec<u8>,
    entries: VecDeque<Next>,
}

impl Queue {
    pub(super) fn push(&mut self, message: &[u8]) {
        if self.entries.is_empty() {
            self.bytes.clear();
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.entries.push_back(Next::Message(start..self.bytes.len()));
    }

    pub(super) fn front(&self) -> Option<&Next> {
        self.entries.front()
    }

    /// The first message that waits.
    pub(super) fn first_message(&self) -> Option<&[u8]> {
        self.messages().next()
    }

    /// The messages that wait.
    pub(super) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().filter_map(|entry| match entry {
            Next::Message(range) => Some(self.bytes(range.clone())),
            Next::Change(_) => None,
        })
    }

    pub(super) fn pop(&mut self) -> Option<Next> {
        self.entries.pop_front()
    }

    pub(super) fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Messages and changes that wait.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Receiver for Queue {
    fn message(&mut self, _number: u64, message: &[u8]) {
        self.push(message);
    }

    fn change(&mut self, change: &Change) {
        self.entries.push_back(Next::Change(change.clone()));
    }
}
