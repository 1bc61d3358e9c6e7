//! The writing half of a delayed service: messages are written down as they come.

use super::Key;
use record::{Clocks, Damage, Error, Item, Journal, JournalConfig, Kind, Store};
use rwf::image::Image;
use rwf::msg::MsgClass;
use rwf::peek;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records of one block: a player that is near the end reads few in vain.
const BLOCK_RECORDS: usize = 4_096;

/// The settings of a recorder.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecorderConfig {
    /// How long a segment is, nanoseconds.
    pub(super) segment: u64,
    /// The longest delay that has to be played, nanoseconds.
    pub(super) keep: u64,
    /// Most bytes of all segments together, but for the newest.
    pub(super) bytes_max: u64,
}

/// Writes a journal.
#[derive(Debug)]
pub(super) struct Recorder<S> {
    journal: Journal<S>,
    service: Arc<str>,
    items: BTreeMap<Key, u32>,
}

impl<S: Store> Recorder<S> {
    /// A recorder that goes on behind what another life has written. `alive_until` is when that was heard of last, if that is known: the hole between them begins
    /// no sooner. Tells what was found damaged.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub(super) fn new(
        store: S,
        service: &str,
        config: RecorderConfig,
        alive_until: Option<u64>,
    ) -> Result<(Self, Vec<Damage>), Error> {
        let config = JournalConfig {
            block_records: BLOCK_RECORDS,
            segment_age_ns: config.segment,
            keep_bytes: Some(config.bytes_max),
            // What begins a delay ago is in a segment that began before.
            keep_age_ns: Some(config.keep.saturating_add(config.segment)),
            ..JournalConfig::default()
        };
        let mut damage = Vec::new();
        let mut journal = Journal::open(store, config, &mut damage)?;
        if let Some(until) = alive_until {
            journal.was_alive_until(until);
        }
        // Until somebody says how far it was played, all of it may be to come.
        journal.keep_from(0);
        Ok((Self { journal, service: service.into(), items: BTreeMap::new() }, damage))
    }

    /// Writes down a message of an item: refresh, update or status; nothing else is. It is played after the next [`Recorder::sync`].
    pub(super) fn message(&mut self, now: Clocks, key: &Key, message: &[u8]) {
        let kind = match peek::class(message) {
            Some(MsgClass::REFRESH) => Kind::Refresh,
            Some(MsgClass::UPDATE) => Kind::Update,
            Some(MsgClass::STATUS) => Kind::Status,
            _ => return,
        };
        let item = self.number(key);
        self.journal.append(kind, Some(item), now, message);
    }

    /// What was written down survives the process, and can be played. To be called at least each second, so that a hole is known to begin no later.
    ///
    /// # Errors
    /// It cannot be written; the text says why. What is lost is a hole.
    pub(super) fn sync(&mut self, now: Clocks) -> Result<(), String> {
        self.journal.tell_gap(now);
        self.journal.sync(now);
        self.journal.trouble().map_or(Ok(()), |trouble| Err(trouble.to_owned()))
    }

    /// All players have come to this time: what is older may go.
    pub(super) const fn played(&mut self, until: u64) {
        self.journal.keep_from(until);
    }

    /// The source's states of an item are written down, whether the item has had an image or not.
    pub(super) fn know(&mut self, key: &Key) {
        self.number(key);
    }

    /// Messages that were written down.
    pub(super) const fn written(&self) -> u64 {
        self.journal.counters().written.messages
    }

    /// Bytes of the journal's files; 0 where the folder cannot be read, of which the next write tells.
    pub(super) fn bytes(&self) -> u64 {
        self.journal.store().files().map_or(0, |files| files.values().sum())
    }

    fn number(&mut self, key: &Key) -> u32 {
        let Self { journal, service, items } = self;
        *items.entry(key.clone()).or_insert_with_key(|key| {
            journal.item(Item { service: service.clone(), domain: key.domain, name: key.name.clone() })
        })
    }

    /// Whether something of an item was written down in this life of the process, or is to be.
    pub(super) fn knows(&self, key: &Key) -> bool {
        self.items.contains_key(key)
    }

    /// The image of an item as its source has it now, if that is open and whole.
    pub(super) fn image(&self, key: &Key) -> Option<&Image> {
        self.journal.image(*self.items.get(key)?)
    }

    /// The lock of an item as its source has it now.
    pub(super) fn lock(&self, key: &Key) -> Option<&[u8]> {
        self.image(key)?.perm_data()
    }
}
