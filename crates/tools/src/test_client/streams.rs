//! Streams of all mounts, looked at for each update: one dense table.
//!
//! Mounts open the same items under the same numbers, and an update of an item that many of them watch reaches them at one time. So the states of one
//! number lie beside each other, mount by mount: what the first of them loads is there for those that follow. By mount, each delivery would load a line of
//! its own, of a table (Producer 50/50: half a million streams) that no processor's cache holds.

use omm::consumer::ItemStream;

/// What is known of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Sequence number of the last message, if `numbered`.
    pub(super) sequence: u32,
    /// A message with a sequence number has come.
    pub(super) numbered: bool,
    /// The server has told a state of it while its image was awaited: the request has its answer.
    pub(super) told: bool,
    /// Its phase.
    pub(super) stream: ItemStream,
}

/// States from which on they are looked at ahead: fewer lie in the caches of the processor.
const MANY: usize = 64 << 10;

/// The states, by number of the item in its watchlist and by mount.
#[derive(Debug)]
pub struct Streams {
    states: Box<[State]>,
    mounts: usize,
}

/// Where one mount's states are.
///
/// INVARIANT: `mount` is below the table's count of mounts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column(usize);

impl Streams {
    /// For so many mounts, the longest of whose watchlists has so many items.
    pub fn new(mounts: usize, longest: usize) -> Self {
        Self { states: vec![State::default(); mounts * longest].into_boxed_slice(), mounts }
    }

    /// The column of a mount.
    ///
    /// # Panics
    /// There are not so many mounts.
    pub(super) fn column(&self, mount: usize) -> Column {
        assert!(mount < self.mounts, "mount {mount} of {}", self.mounts);
        Column(mount)
    }

    /// Whether the processor waits for the state of an item that comes in no order.
    #[inline]
    pub(super) const fn are_many(&self) -> bool {
        self.states.len() >= MANY
    }

    /// Asks for the memory of an item's state.
    #[inline]
    pub(super) fn ask(&self, column: Column, item: usize) {
        let place = item.wrapping_mul(self.mounts).wrapping_add(column.0);
        lines::fetch(&[self.states.as_ptr().wrapping_add(place).cast()]);
    }

    /// The state of the item of this number, which is below the length of the mount's watchlist.
    #[inline]
    pub(super) fn at(&mut self, column: Column, item: usize) -> &mut State {
        &mut self.states[item * self.mounts + column.0]
    }
}
