//! What waits for a client that is conflated just in time: its updates merged stream by stream, everything else as it came.
//!
//! The order within a stream is kept. Between streams it is that in which the messages came first: an update that merges goes out in
//! the place of the first one. What is said of services and logins stands still between what came before and after it.

use super::super::conflation::merge::{Merged, Ripples, may_merge};
use super::super::delivery::turn::KeptDeliveries;
use super::super::encode;
use rwf::msg::{Domain, MsgClass, StatusMsg, UpdateMsg};
use rwf::{DataState, State, StateCode, StreamState, peek};
use std::collections::{BTreeMap, VecDeque};

/// Told ahead of the first update of a stream that is merged.
pub(crate) const STARTED: &str =
    "Conflation has started: the connection takes less than there is. Trades are not conflated.";
/// Told when the client has caught up.
pub(crate) const RESUMED: &str = "Conflation has ended: updates come one by one again.";

#[derive(Debug)]
enum Entry {
    Kept(Box<[u8]>),
    Merged(Merged),
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Kept(body) => body.len(),
            Self::Merged(merged) => merged.bytes(),
        }
    }
}

/// What waits for a client that is conflated, behind what waited for it before.
#[derive(Debug, Default)]
pub(super) struct Conflating {
    /// With their streams.
    entries: VecDeque<(i32, Entry)>,
    /// Number of the first of them.
    first: u64,
    /// Number of the update of a stream that takes in further ones.
    open: BTreeMap<i32, u64>,
    /// Streams that were told, and their domains.
    told: BTreeMap<i32, Domain>,
    bytes: usize,
}

impl Conflating {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Streams that were told that they are conflated.
    pub(super) fn into_told(self) -> impl Iterator<Item = (i32, Domain)> {
        self.told.into_iter()
    }

    /// A message behind the others. `may_conflate` says whether the stream's updates may be merged.
    pub(super) fn push(
        &mut self,
        body: &[u8],
        stream: i32,
        may_conflate: impl FnOnce() -> bool,
        now: u64,
        ripples: &Ripples,
    ) {
        let is_update = peek::class(body) == Some(MsgClass::UPDATE);
        if is_update && let Some(update) = UpdateMsg::decode(body).ok().filter(may_merge) {
            let number = self.open.get(&stream).copied();
            let known = number.and_then(|number| self.entries.get_mut(usize::try_from(number - self.first).ok()?));
            if let Some((_, Entry::Merged(merged))) = known {
                let before = merged.bytes();
                if merged.merge(body, &update, ripples) {
                    self.bytes = self.bytes - before + merged.bytes();
                    return;
                }
            }
            if number.is_some() || may_conflate() {
                self.open.insert(stream, self.first + self.entries.len() as u64);
                return self.append(stream, Entry::Merged(Merged::begin(body, &update, now)));
            }
        }
        if matches!(peek::domain(body), Some(Domain::LOGIN | Domain::SOURCE)) {
            self.open.clear();
        } else {
            self.open.remove(&stream);
        }
        self.append(stream, Entry::Kept(body.into()));
    }

    fn append(&mut self, stream: i32, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.push_back((stream, entry));
    }

    /// A stream is closed: what comes under its number from now on is another's.
    pub(super) fn close_stream(&mut self, stream: i32) {
        self.open.remove(&stream);
        self.told.remove(&stream);
    }

    /// Moves the first one to where it is taken from; tells how many updates it saved. False there if none was left.
    pub(super) fn take_next(&mut self, now: u64, to: &mut KeptDeliveries) -> Option<u32> {
        let (stream, entry) = self.entries.pop_front()?;
        self.bytes -= entry.bytes();
        let number = self.first;
        self.first += 1;
        match entry {
            Entry::Kept(body) => {
                to.push(&body, stream);
                Some(0)
            }
            Entry::Merged(merged) => {
                if self.open.get(&stream) == Some(&number) {
                    self.open.remove(&stream);
                }
                if merged.is_merged() && !self.told.contains_key(&stream) {
                    let domain = merged.domain();
                    self.told.insert(stream, domain);
                    push_status(domain, stream, to);
                }
                let written = merged.write(now, |msg| to.push(msg, stream));
                debug_assert!(written.is_ok(), "a merge of updates that cannot be written: {written:?}");
                Some(merged.came().saturating_sub(u32::from(written.unwrap_or(0))))
            }
        }
    }

    /// Panics if what is counted is not there.
    pub(super) fn check(&self) {
        assert_eq!(self.entries.iter().map(|(_, entry)| entry.bytes()).sum::<usize>(), self.bytes, "bytes conflated");
        for (stream, number) in &self.open {
            let known = number.checked_sub(self.first).and_then(|at| self.entries.get(at as usize));
            assert!(
                matches!(known, Some((of, Entry::Merged(_))) if of == stream),
                "update {number} of stream {stream}"
            );
        }
    }
}

fn push_status(domain: Domain, stream: i32, to: &mut KeptDeliveries) {
    let state = State::new(StreamState::OPEN, DataState::NO_CHANGE, StateCode::JIT_CONFLATION_STARTED, STARTED);
    let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, stream) };
    let mut out = Vec::new();
    let written = encode::append(&mut out, 64 + STARTED.len(), |w| status.encode(w));
    debug_assert!(written.is_ok(), "a status of known size");
    if written.is_ok() {
        to.push(&out, stream);
    }
}
