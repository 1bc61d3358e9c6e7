//! The writing half of a delayed service: messages are written down as they come.

use super::record::{Kind, Record};
use super::{Key, Segment, Store};
use rwf::image::{Image, Schema};
use rwf::msg::{Domain, Msg, RefreshMsg, UpdateFlags};
use rwf::wire::Writer;
use std::collections::BTreeMap;
use std::io;

/// Payload in a part of an image, bytes.
const IMAGE_PART: usize = 30_000;
/// Room for a message, bytes.
const MESSAGE_ROOM: usize = 128_000;

/// The settings of a recorder.
#[derive(Debug, Clone, Copy)]
pub struct RecorderConfig {
    /// How long a segment is, nanoseconds.
    pub segment: u64,
    /// The longest delay that has to be played, nanoseconds.
    pub keep: u64,
    /// Most bytes of all segments together.
    pub bytes_max: u64,
}

/// Writes a journal.
#[derive(Debug)]
pub struct Recorder {
    config: RecorderConfig,
    items: BTreeMap<Key, Image>,
    segment: Option<Segment>,
    last_at: u64,
    /// Records that were made and not yet written.
    out: Vec<u8>,
}

impl Recorder {
    /// A recorder that begins with a new segment: what was before it is another life.
    pub const fn new(config: RecorderConfig) -> Self {
        Self { config, items: BTreeMap::new(), segment: None, last_at: 0, out: Vec::new() }
    }

    /// Writes down a message of an item: refresh, update or status. Tells at which time it counts: the clock may have been set back.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn message(&mut self, now: u64, key: &Key, message: &[u8], store: &mut dyn Store) -> io::Result<u64> {
        let at = self.begin(now, store);
        self.add(at, Kind::Message, key, message);
        self.flush(store)?;
        self.apply(key, message);
        Ok(at)
    }

    /// Nothing has come for a while, and the source is there. Called each second, so that a hole is known to begin no later.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn alive(&mut self, now: u64, store: &mut dyn Store) -> io::Result<u64> {
        let at = self.begin(now, store);
        self.add(at, Kind::Alive, &Key { domain: 0, name: "".into() }, &[]);
        self.flush(store)?;
        Ok(at)
    }

    /// The lock of an item as its source has it now.
    pub fn lock(&self, key: &Key) -> Option<&[u8]> {
        self.items.get(key)?.perm_data()
    }

    /// Removes what nobody has to play any more, and the oldest segments while there are too many bytes. Tells how many segments
    /// went too early.
    ///
    /// # Errors
    /// A segment cannot be removed.
    pub fn tidy(&mut self, now: u64, store: &mut dyn Store) -> io::Result<usize> {
        let mut segments = store.segments();
        let wanted = now.saturating_sub(self.config.keep + self.config.segment);
        // The last one that begins before what is wanted has its images.
        while segments.len() > 1 && segments[1].start <= wanted {
            store.remove(segments.remove(0))?;
        }
        let mut bytes: u64 = segments.iter().map(|segment| store.size(*segment)).sum();
        let mut early = 0;
        while segments.len() > 1 && bytes > self.config.bytes_max {
            let oldest = segments.remove(0);
            bytes -= store.size(oldest);
            store.remove(oldest)?;
            early += 1;
        }
        Ok(early)
    }

    /// The segment of this time is there.
    fn begin(&mut self, now: u64, store: &dyn Store) -> u64 {
        let newest = store.segments().last().map_or(0, |segment| segment.start);
        let mut at = now.max(self.last_at);
        let current = self.segment.filter(|segment| at - segment.start < self.config.segment);
        if current.is_none() {
            at = at.max(newest + 1);
            let fresh = self.segment.is_none();
            self.segment = Some(Segment { start: at, fresh });
            self.begin_with_images(at);
        }
        self.last_at = at;
        at
    }

    fn begin_with_images(&mut self, at: u64) {
        let mut buf = vec![0; MESSAGE_ROOM];
        let items = std::mem::take(&mut self.items);
        for (key, image) in items.iter().filter(|(_, image)| image.is_whole()) {
            let mut parts = image.parts(RefreshMsg::new(Domain(key.domain), 0), IMAGE_PART);
            while !parts.is_done() {
                let mut w = Writer::new(&mut buf);
                if parts.write(&mut w).is_err() {
                    // A row that no message can carry: the next image of the source brings the item back.
                    break;
                }
                self.add(at, Kind::Image, key, w.written());
            }
        }
        self.items = items;
    }

    fn add(&mut self, at: u64, kind: Kind, key: &Key, message: &[u8]) {
        Record { at, kind, domain: key.domain, name: &key.name, message }.write(&mut self.out);
    }

    fn flush(&mut self, store: &mut dyn Store) -> io::Result<()> {
        let segment = self.segment.expect("a segment was begun");
        let written = store.append(segment, &self.out);
        self.out.clear();
        if written.is_err() {
            // Lost records are a hole: the next record begins a segment that does not go on.
            self.segment = None;
        }
        written
    }

    fn apply(&mut self, key: &Key, message: &[u8]) {
        let Ok(msg) = Msg::decode(message) else { return };
        if msg.state().is_some_and(|state| state.stream.is_final()) {
            self.items.remove(key);
            return;
        }
        if !self.items.contains_key(key) && !matches!(msg, Msg::Refresh(_)) {
            return;
        }
        let image = self.items.entry(key.clone()).or_default();
        // An image that cannot be kept up says so itself.
        let _ = match msg {
            Msg::Refresh(refresh) => image.refresh(&refresh, &Schema::NONE),
            Msg::Update(update) => {
                if let Some(lock) = update.perm_data.filter(|_| !update.flags.contains(UpdateFlags::DO_NOT_CACHE)) {
                    image.add_perm_data(lock, both_locks);
                }
                image.update(&update, &Schema::NONE)
            }
            Msg::Status(status) => {
                if let Some(state) = &status.state {
                    image.set_state(state);
                }
                if let Some(perm_data) = status.perm_data {
                    image.set_perm_data(perm_data);
                }
                Ok(())
            }
            _ => Ok(()),
        };
    }
}

/// The lock of an image in which two that differ are. The journal does not know what locks mean: where it would have to combine them,
/// nobody gets the image, until the next.
fn both_locks(one: &[u8], other: &[u8]) -> Vec<u8> {
    /// A lock of no version, which denies.
    const NOBODY: [u8; 1] = [0];
    match (one, other) {
        (only, []) | ([], only) => only.to_vec(),
        (one, other) if one == other => one.to_vec(),
        _ => NOBODY.to_vec(),
    }
}
