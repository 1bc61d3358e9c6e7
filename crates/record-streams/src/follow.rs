//! A recording that is read while it is written.

use crate::message::{Form, Message};
use names::Pattern;
use record::{Folder, Kind, Recording};
use record_io::dictionary_at;
use rwf::dictionary::Dictionary;
use std::path::Path;
use std::sync::Arc;

/// Makes messages of what a recording has behind a sequence number, as it comes.
pub struct Follower {
    recording: Recording<Folder>,
    form: Form,
    items: Vec<Pattern>,
    dictionary: Dictionary,
    /// A dictionary has come since the one that is used.
    has_new_dictionary: bool,
    next: u64,
    /// The place that messages were made up to.
    read: u64,
    /// Records that were removed (retention) before messages were made of them.
    removed: u64,
}

impl Follower {
    /// A recording of a folder, from its first record on. Without patterns all items are sent.
    ///
    /// # Errors
    /// There is no recording that can be read.
    pub fn open(folder: &Path, form: Form, items: Vec<Pattern>) -> Result<Self, record::Error> {
        let recording = Recording::open(Folder::to_read(folder))?;
        let mut follower = Self {
            recording,
            form,
            items,
            dictionary: Dictionary::builtin(),
            has_new_dictionary: true,
            next: 0,
            read: 0,
            removed: 0,
        };
        follower.find_dictionary(0)?;
        Ok(follower)
    }

    /// Number of the recording.
    pub fn recording(&self) -> u64 {
        self.recording.id()
    }

    /// The sequence number behind the last record that is there.
    pub fn end(&self) -> u64 {
        self.recording.next_sequence()
    }

    /// All before this was taken; messages are made from here on.
    pub fn go_on_at(&mut self, next: u64) {
        (self.next, self.read) = (next, next);
    }

    /// All before this was taken.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Says that all messages that were made were taken.
    pub fn taken(&mut self) {
        self.next = self.read;
    }

    /// Records that the recording let go of before they were taken.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    /// Whether the recording has been ended, and nothing is left of it.
    pub fn is_over(&self) -> bool {
        !self.recording.info().is_open && self.next >= self.end()
    }

    /// The messages that come next: about so many bytes of them, and no more than so many. None: there is nothing new.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn messages(&mut self, bytes_max: usize, count_max: usize) -> Result<Vec<Message>, record::Error> {
        self.recording.look_again(self.next)?;
        let id = self.recording.id();
        let (mut messages, mut bytes, mut read, mut time) = (Vec::new(), 0, self.next, 0);
        let mut cursor = self.recording.from_sequence(self.next);
        while bytes < bytes_max && messages.len() < count_max {
            let Some(entry) = cursor.next()? else { break };
            let record = &entry.record;
            // What a recording begins with later than its first record was removed before anybody was to send it.
            if read == self.next && read > 0 && record.sequence > read {
                self.removed += record.sequence - read;
            }
            if record.kind == Kind::Dictionary {
                (self.has_new_dictionary, time) = (true, record.time);
            } else if self.has_new_dictionary
                && let Some(item) = entry.item
            {
                self.has_new_dictionary = false;
                if let Some(dictionary) = dictionary_at(&self.recording, &item.service, time.max(record.time))? {
                    self.dictionary = dictionary;
                }
            }
            let is_wanted = match entry.item {
                Some(item) if !item.name.is_empty() => {
                    self.items.is_empty() || self.items.iter().any(|pattern| pattern.matches(&*item.name))
                }
                _ => true,
            };
            read = record.sequence + missing(&entry).max(1);
            if is_wanted && let Some(message) = Message::of(&entry, id, self.form, &self.dictionary) {
                bytes += message.size();
                messages.push(message);
            }
        }
        self.read = read;
        if messages.is_empty() {
            self.next = read;
        }
        Ok(messages)
    }

    fn find_dictionary(&mut self, at: u64) -> Result<(), record::Error> {
        let services: std::collections::BTreeSet<Arc<str>> =
            self.recording.items().into_iter().map(|item| item.service.clone()).collect();
        for service in services {
            if let Some(dictionary) = dictionary_at(&self.recording, &service, at)? {
                self.dictionary = dictionary;
                self.has_new_dictionary = false;
                break;
            }
        }
        Ok(())
    }
}

/// Records that a gap in the place of what cannot be read stands for.
fn missing(entry: &record::Entry<'_>) -> u64 {
    let gap = record::Gap::decode(entry.record.body).filter(|_| entry.record.kind == Kind::Gap);
    gap.filter(|gap| gap.reason == record::GapReason::Damaged).and_then(|gap| gap.messages).unwrap_or(1)
}
