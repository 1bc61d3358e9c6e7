//! The states that those who watch items were told last.

use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// Changes of items' states that are remembered, over all items, and the bytes that they may have: providers write the texts, clients
/// the names.
const HISTORY: usize = 8_192;
const HISTORY_BYTES: usize = 4 << 20;

/// Bytes of a text that are remembered; RWF lets it have 32,767.
const TEXT_MAX: usize = 255;

/// A state that the watchers of an item were told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemChange {
    /// When, monotonic nanoseconds.
    pub at: u64,
    /// Of the stream.
    pub stream: StreamState,
    /// Of the data.
    pub data: DataState,
    /// The SDK's code.
    pub code: StateCode,
    /// Why, in the words that went to the watchers; the beginning of a long text.
    pub text: String,
}

/// The last changes of states over all items: old ones make room.
#[derive(Debug, Default)]
pub struct History {
    changes: VecDeque<(u16, Box<[u8]>, ItemChange)>,
    bytes: usize,
}

impl History {
    /// The watchers of an item are told a state.
    pub fn note(&mut self, at: u64, (service, name): (u16, &[u8]), state: &State<'_>) {
        // Cut before anything is made of it: what is not UTF-8 grows to three times its length.
        let text = String::from_utf8_lossy(&state.text[..state.text.len().min(TEXT_MAX)]);
        let text = text[..text.floor_char_boundary(TEXT_MAX)].to_owned();
        let change = ItemChange { at, stream: state.stream, data: state.data, code: state.code, text };
        self.bytes += Self::cost(name, &change.text);
        self.changes.push_back((service, name.into(), change));
        while self.changes.len() > HISTORY || self.bytes > HISTORY_BYTES {
            let Some((_, name, oldest)) = self.changes.pop_front() else { break };
            self.bytes -= Self::cost(&name, &oldest.text);
        }
    }

    const fn cost(name: &[u8], text: &str) -> usize {
        size_of::<(u16, Box<[u8]>, ItemChange)>() + name.len() + text.len()
    }

    /// The changes of one item, oldest first.
    pub fn of<'h>(&'h self, service: u16, name: &'h [u8]) -> impl Iterator<Item = &'h ItemChange> {
        let of = move |known: &&(u16, Box<[u8]>, ItemChange)| known.0 == service && *known.1 == *name;
        self.changes.iter().filter(of).map(|(_, _, change)| change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_remembered_in_bounded_memory_whatever_providers_write() {
        let mut history = History::default();
        let texts = [vec![b'x'; 32_767], vec![0xFF; 32_767], "\u{20AC}".repeat(10_000).into(), b"short".to_vec()];
        let mut name = vec![b'n'; 32_767];
        for round in 0..20_000_u32 {
            let text = &texts[round as usize % texts.len()];
            let state = State { text, ..State::OPEN_OK };
            name.truncate(if round < 1_000 { 32_767 } else { 20 });
            history.note(round.into(), (1, &name), &state);
            let kept: usize = history.changes.iter().map(|(_, name, change)| History::cost(name, &change.text)).sum();
            if round % 500 == 0 {
                assert!(kept == history.bytes && kept <= HISTORY_BYTES, "{kept} bytes, counted as {}", history.bytes);
                assert!(history.changes.iter().all(|(_, _, change)| change.text.len() <= TEXT_MAX));
            }
        }
        assert_eq!(history.changes.len(), HISTORY);
        assert_eq!(history.changes.back().map(|(.., change)| change.text.as_str()), Some("short"));
    }
}
