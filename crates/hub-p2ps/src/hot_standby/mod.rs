//! Hot standby of Source Distributors: items that are open at two of them, of which one is used.
//!
//! Where Source Distributors stand by for each other ([`super::Config::source_pairs`]), each shared item that streams is opened at the
//! other one, too: that is its *mirror*. What comes of the mirror goes to nobody. When the source in use is lost, gives the item or its
//! service up, or says Suspect of it, the mirror's handle becomes the item's handle, and those who watch hear of no loss.
//!
//! What they get depends on the sequence numbers. Where both sources number alike ([`super::Config::sequence_numbers`]) and the mirror's
//! tail reaches back to the last number that was passed on, they get the updates behind that and nothing else: none is lost, none comes
//! twice ([`crate::sequence`] has the rule). Otherwise they get one new image, which the mirror's source is asked for, so many a turn.
//!
//! | file | what it knows |
//! |---|---|
//! | `mirrors` | which items are to have a mirror, opening it, and what its source says |
//! | `takeover` | a mirror becomes the stream in use |
//!
//! A mirror is there only while its item is open elsewhere. Handles and tokens of mirrors stand for the item's number with a mark
//! ([`ItemId::mirrored`]), so that updates of those find their way without a second table. A mirror's open counts for the open window of
//! its source, and is sent with what opens of a turn are left.

mod mirrors;
mod takeover;

pub(crate) use takeover::Former;

use super::ids::{Handle, HubGroup, ItemId, RemoteService, ServiceId, SourceId, Token};
use crate::roster::{ListKey, Roster};
use crate::sequence::{Sequence, TAILS_BYTES, Tail};
use crate::stream::Message;
use rustc_hash::FxHashMap;
use rwf::peek;
use std::collections::{BTreeMap, VecDeque};

/// Items that a turn finds to need no mirror, or none now.
const LOOKS_PER_TURN: u32 = 4_096;

/// An item that may have a mirror: it is open, and has had the first part of an image.
#[derive(Debug, Default)]
struct Pair {
    /// Sequence numbers of the source in use.
    sequence: Sequence,
    mirror: Option<Mirror>,
}

/// How far a mirror is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Asked for under this token.
    Opening(Token),
    /// Open under this handle.
    Open(Handle),
}

/// The numbers of the updates that a mirror has brought while its tail was not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    None,
    Last(u32),
    /// Not all of them had one.
    Unnumbered,
}

/// An item's stream at the source that stands by.
#[derive(Debug)]
struct Mirror {
    source: SourceId,
    stage: Stage,
    /// In the numbers of its source.
    group: HubGroup,
    /// A set has begun and has not ended.
    is_in_set: bool,
    /// The mirror's image has come to the end, and nothing was lost since.
    is_whole: bool,
    /// The mirror's source says that it is good.
    is_good: bool,
    /// An image is on its way, or is to be asked for by whoever looks next.
    image: ImageOf,
    /// No image from before this position of its source's stream is of use.
    not_before: u64,
    seen: Seen,
    tail: Tail,
}

/// How a mirror comes to its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageOf {
    /// The mirror needs none.
    Here,
    /// One is to be asked for.
    Wanted,
    /// One was asked for.
    Asked,
}

impl Mirror {
    /// One that is asked for.
    fn opening(source: SourceId, token: Token) -> Self {
        Self {
            source,
            stage: Stage::Opening(token),
            group: HubGroup::NONE,
            is_in_set: false,
            is_whole: false,
            is_good: false,
            image: ImageOf::Asked,
            not_before: 0,
            seen: Seen::None,
            tail: Tail::default(),
        }
    }

    /// The item goes on at another life of its provider, or messages are lost: nothing is known before the next image.
    fn lose(&mut self) {
        (self.is_in_set, self.is_whole, self.is_good) = (false, false, false);
        (self.tail, self.seen) = (Tail::default(), Seen::None);
    }

    /// The first part of an image has this number. One that came beside the stream (`is_late`) lies before updates that were seen.
    fn image_begins(&mut self, number: Option<u32>, is_late: bool) {
        let seen = std::mem::replace(&mut self.seen, Seen::None);
        self.tail = match (number, seen) {
            (_, _) if !is_late => Tail::behind(number),
            // Updates held since an image of before go on.
            _ if self.tail.is_complete() => return,
            (Some(number), Seen::Last(last)) if crate::sequence::is_after(last, number) => Tail::behind(Some(last)),
            (number, Seen::None | Seen::Last(_)) => Tail::behind(number),
            (_, Seen::Unnumbered) => Tail::default(),
        };
    }
}

/// Items of a service that are to have a mirror, or a new image of it.
#[derive(Debug, Default)]
struct Filling {
    queue: VecDeque<ItemId>,
    /// The open window of this one is full, which is to be asked next.
    blocked_at: Option<SourceId>,
}

/// Items that mirrors have taken over from a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Taken {
    /// How many.
    pub(crate) items: u64,
    /// Items among them that needed no new image.
    pub(crate) in_sequence: u64,
}

/// What a forsaken open was for.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Forsaken {
    source: SourceId,
    service: ServiceId,
    /// Canonical bytes.
    key: Box<[u8]>,
}

/// The mirrors, and what is to have one.
#[derive(Debug, Default)]
pub(crate) struct HotStandby {
    /// By item number.
    pairs: Vec<Option<Box<Pair>>>,
    /// Items by the source and service of their mirror.
    mirrors: Roster,
    filling: BTreeMap<ServiceId, Filling>,
    /// When services are looked through for items without a mirror, if they are to be.
    look_at: BTreeMap<ServiceId, u64>,
    /// Items of which an image was held back, and until when that is waited for, in order.
    held: VecDeque<(u64, ItemId)>,
    /// Opens of mirrors that nobody wants to know of any more, and that are not answered: an item is opened at a source once, so who
    /// wants one of these there takes its token over.
    forsaken: FxHashMap<Forsaken, Token>,
    /// Sources that have the mirrors of a service no more.
    leaving: VecDeque<(SourceId, ServiceId)>,
    /// Since the operator was told last, by source and service that the items have left.
    taken: BTreeMap<(SourceId, ServiceId), Taken>,
    /// Bytes in all tails.
    tail_bytes: usize,
}

fn list(source: SourceId, service: ServiceId) -> ListKey {
    ListKey::new(u32::from(service.0), u32::from(source.0))
}

impl HotStandby {
    fn pair(&self, id: ItemId) -> Option<&Pair> {
        self.pairs.get(id.index())?.as_deref()
    }

    fn pair_mut(&mut self, id: ItemId) -> Option<&mut Pair> {
        self.pairs.get_mut(id.index())?.as_deref_mut()
    }

    fn mirror(&self, id: ItemId) -> Option<&Mirror> {
        self.pair(id)?.mirror.as_ref()
    }

    /// The item may have a mirror from now on; false if that is known.
    fn add_pair(&mut self, id: ItemId) -> bool {
        if self.pairs.len() <= id.index() {
            self.pairs.resize_with(id.index() + 1, || None);
        }
        let pair = &mut self.pairs[id.index()];
        let is_new = pair.is_none();
        pair.get_or_insert_default();
        is_new
    }

    /// The item is open no more, and its mirror has gone.
    fn remove_pair(&mut self, id: ItemId) {
        if let Some(pair) = self.pairs.get_mut(id.index()) {
            debug_assert!(pair.as_ref().is_none_or(|pair| pair.mirror.is_none()), "a mirror without an item: {id:?}");
            *pair = None;
        }
    }

    fn set_mirror(&mut self, id: ItemId, service: ServiceId, mirror: Mirror) {
        let key = list(mirror.source, service);
        let pair = self.pair_mut(id).expect("an item that may have a mirror");
        assert!(pair.mirror.is_none(), "an item has one mirror");
        pair.mirror = Some(mirror);
        self.mirrors.refile(id.0, None, Some(key));
    }

    fn take_mirror(&mut self, id: ItemId, service: ServiceId) -> Option<Mirror> {
        let mirror = self.pair_mut(id)?.mirror.take()?;
        self.mirrors.refile(id.0, Some(list(mirror.source, service)), None);
        self.tail_bytes -= mirror.tail.bytes();
        Some(mirror)
    }

    /// Items of a service that have their mirror at a source, in no order.
    fn at(&self, source: SourceId, service: ServiceId) -> impl ExactSizeIterator<Item = ItemId> + '_ {
        self.mirrors.of(list(source, service)).iter().copied().map(ItemId)
    }

    /// Number of the items of a service that have their mirror at a source.
    pub(crate) fn count_at(&self, source: SourceId, service: ServiceId) -> usize {
        self.at(source, service).len()
    }

    /// Whether an update of the source in use goes on, and was not passed on before.
    pub(crate) fn passes(&mut self, id: ItemId, message: &Message<'_>) -> bool {
        let Some(pair) = self.pairs.get_mut(id.index()).and_then(Option::as_mut) else { return true };
        let goes_on = pair.sequence.pass(number_of(message.body));
        if let Some(mirror) = &mut pair.mirror {
            self.tail_bytes -= pair.sequence.trim(&mut mirror.tail);
        }
        goes_on
    }

    /// An image, or an update that was held for one, of the source in use has this number. With `anew` it is the beginning of what all
    /// watch from then on.
    fn note_passed(&mut self, id: ItemId, number: Option<u32>, anew: bool) {
        // Items that have no mirror are not numbered.
        let Some(pair) = self.pairs.get_mut(id.index()).and_then(Option::as_mut) else { return };
        if anew {
            pair.sequence.begin(number);
        } else {
            pair.sequence.image_passed(number);
        }
        if let Some(mirror) = &mut pair.mirror {
            self.tail_bytes -= pair.sequence.trim(&mut mirror.tail);
        }
    }

    /// An update of an item's mirror has come.
    pub(crate) fn keep_update(&mut self, id: ItemId, message: &Message<'_>) {
        let room = TAILS_BYTES.saturating_sub(self.tail_bytes);
        // A mirror that was given up may still send: nobody waits for that.
        let Some(pair) = self.pairs.get_mut(id.index()).and_then(Option::as_mut) else { return };
        // As above.
        let Pair { sequence, mirror: Some(mirror) } = &mut **pair else { return };
        let number = number_of(message.body);
        let grown = sequence.keep(&mut mirror.tail, number, message.flags, message.body, room);
        self.tail_bytes = self.tail_bytes.checked_add_signed(grown).expect("bytes in tails are counted");
        if !mirror.tail.is_complete() {
            mirror.seen = match (number, mirror.seen) {
                (Some(number), Seen::None | Seen::Last(_)) => Seen::Last(number),
                (None, _) | (_, Seen::Unnumbered) => Seen::Unnumbered,
            };
        }
    }

    /// Changes what is known of an item's mirror; keeps the bytes of tails counted.
    fn change<T>(&mut self, id: ItemId, change: impl FnOnce(&mut Mirror) -> T) -> Option<T> {
        let mirror = self.pairs.get_mut(id.index())?.as_mut()?.mirror.as_mut()?;
        let before = mirror.tail.bytes();
        let result = change(mirror);
        self.tail_bytes = self.tail_bytes - before + mirror.tail.bytes();
        Some(result)
    }

    fn queue(&mut self, service: ServiceId, id: ItemId) {
        self.filling.entry(service).or_default().queue.push_back(id);
    }

    /// A service is to be looked through at this time, or earlier if it is to be anyhow.
    fn look_at(&mut self, service: ServiceId, at: u64) {
        let known = self.look_at.entry(service).or_insert(at);
        *known = at.min(*known);
    }

    /// True if something may be asked for, or is to be given up, in the next turn.
    pub(crate) fn has_work(&self) -> bool {
        !self.leaving.is_empty() || self.filling.values().any(|filling| filling.blocked_at.is_none())
    }

    /// When something is to be looked at again.
    pub(crate) fn timeout(&self) -> Option<u64> {
        let look = self.look_at.values().copied().min();
        look.into_iter().chain(self.held.front().map(|(at, _)| *at)).min()
    }

    /// True if mirrors of any service are being asked for.
    #[inline]
    pub(crate) fn is_filling_any(&self) -> bool {
        !self.filling.is_empty()
    }

    /// True if mirrors of a service are being asked for.
    pub(crate) fn is_filling(&self, service: ServiceId) -> bool {
        self.filling.contains_key(&service)
    }

    /// Every item that may have a mirror.
    fn paired(&self) -> impl Iterator<Item = (ItemId, &Pair)> {
        (0..).map(ItemId).zip(&self.pairs).filter_map(|(id, pair)| Some((id, pair.as_deref()?)))
    }
}

/// The sequence number of an update.
fn number_of(rwf: &[u8]) -> Option<u32> {
    let header = peek::header(rwf).ok()?;
    peek::update_seq_num(&header, rwf)
}

/// Where a mirror is to be asked for: the source, and the service's id there.
type StandbyAt = (SourceId, RemoteService);
