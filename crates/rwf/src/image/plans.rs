//! How updates of one make are applied to lists of one layout: planned once, carried out again and again.
//!
//! A *layout* is the field ids and the lengths of the values of a held list, in their order; many items have the same. The *make* of an
//! update is the same of an update. Where an update changes no length, a [`Plan`] says which bytes go where, what ripples included, and
//! nobody has to look for a field; where it does, or brings fields, the list is written anew ([`rebuilds`](super::rebuilds)). Whatever has no plan goes the way of [`Image::update`](super::Image::update), which does the same.
//!
//! What is planned is bounded, whatever a provider sends; and where layouts change with nearly every update, making plans costs little
//! more than none: it is tried as often as it was worth it.

mod kept;

use super::Schema;
use super::copies::{Copies, Copying, Entry, WORD, at};
use super::latest::{Gather, Pair, Updates};
use super::lists::{ENTRY, ESC, Fields, LONG, has_escape, head, may_be_text};
use super::rebuilds::Rebuild;
use crate::dictionary::Dictionary;
use crate::msg::{UpdateFlags, UpdateMsg};
use crate::{DataType, FieldList, peek};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::collections::BTreeSet;
use std::hash::Hasher;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Layouts that are known at a time.
const MAX_LAYOUTS: u32 = 1_024;
/// Layouts that found no room, after which all are forgotten: those that are known are not those that come.
const MAX_STRANGERS: u32 = 16 * MAX_LAYOUTS;
/// Fields of a layout.
const MAX_FIELDS: usize = 256;
/// Bytes of a list that updates are planned for: places have two bytes.
const MAX_HELD: usize = u16::MAX as usize;
/// Makes of updates that are planned for one layout.
const MAX_PLANS: usize = 8;
/// Of these, such as change the layout: where lengths change again and again, those that change none have room.
const MAX_REBUILDS: usize = 4;
/// Bytes of an update that is planned.
const MAX_UPDATE: usize = 1_024;

/// Most attempts that are saved up. Each update that was planned before it came gives one; each attempt to find or to make a plan takes one,
/// and gives it back if one was found.
const MAX_CREDIT: u32 = 1_024;
/// Updates without a plan after which there are some attempts again, and how many.
const RENEWED_AFTER: u32 = 1_024;
const RENEWED: u32 = 64;

/// What the images of a cache are read with, and how updates of known makes are applied to them. One for many images: what is learnt of
/// one item holds for all of the same layout. See [`Image::update_planned`](super::Image::update_planned).
#[derive(Debug)]
pub struct Plans {
    dictionary: Option<Arc<Dictionary>>,
    /// Number of the first layout; the others follow. 0: there are no numbers any more, and nothing is planned.
    first: u32,
    layouts: Vec<Layout>,
    /// The layouts by their heads.
    index: HashTable<u32>,
    /// Heads of the layout at hand.
    heads: Vec<u32>,
    /// A list that is written anew.
    room: Vec<u8>,
    /// Updates that were kept, and are applied again.
    updates: Updates,
    /// Attempts to plan that are left.
    credit: u32,
    /// Updates without a plan, and layouts that found no room.
    misses: u32,
    strangers: u32,
    /// Items whose last update is kept beside their image: what is planned for those is needed again.
    kept: usize,
}

/// What is planned for an update that is to come, found before it is applied: see `Plans::ahead`. It says nothing wrong of a list that has
/// changed meanwhile: that one is of another layout then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    /// The number of the layout that the list had; 0 if nothing is planned.
    layout: u32,
    /// The plan, among those of the layout.
    plan: u32,
}

/// One layout.
#[derive(Debug)]
struct Layout {
    /// Field id and length of each field.
    heads: Box<[u32]>,
    plans: Vec<Plan>,
    /// Pairs of makes whose values are kept together.
    pairs: Vec<Pair>,
    /// A bit for each two plans of which that has been tried.
    tried: u64,
}

/// Numbers for the layouts of another [`Plans`], or of one that begins anew: a number means one layout as long as the process lives, so that
/// what a list says of itself is never wrong.
fn numbers() -> u32 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let next = |given: u32| given.checked_add(1).filter(|given| *given < u32::MAX / MAX_LAYOUTS);
    let given = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    given.map_or(0, |given| given * MAX_LAYOUTS + 1)
}

fn hash(heads: &[u32]) -> u64 {
    let mut hasher = FxHasher::default();
    for head in heads {
        hasher.write_u32(*head);
    }
    hasher.finish()
}

impl Plans {
    /// Nothing is planned yet. Fields ripple as the dictionary says, and nothing ripples without one.
    pub fn new(dictionary: Option<Arc<Dictionary>>) -> Self {
        Self {
            dictionary,
            first: numbers(),
            layouts: Vec::new(),
            index: HashTable::new(),
            heads: Vec::new(),
            room: Vec::new(),
            updates: Updates::default(),
            credit: MAX_CREDIT,
            misses: 0,
            strangers: 0,
            kept: 0,
        }
    }

    /// What images are read with.
    pub fn schema(&self) -> Schema<'_> {
        let dictionary = self.dictionary.as_deref();
        Schema { dictionary, ripple: dictionary.is_some(), ..Schema::NONE }
    }

    /// Applies an update message to a held list, if that is planned or can be, and takes over its sequence number. False, and nothing is
    /// changed, if not.
    #[inline]
    pub(super) fn apply(&mut self, fields: &mut Fields, message: &[u8], seq_num: &mut Option<u32>) -> bool {
        let at = fields.layout().wrapping_sub(self.first) as usize;
        if let Some(layout) = self.layouts.get(at)
            && let Some(plan) = layout.plans.iter().find(|plan| plan.is_for(message))
        {
            self.credit = (self.credit + 1).min(MAX_CREDIT);
            plan.carry_out(fields, message, seq_num, &mut self.room);
            return true;
        }
        self.plan(fields, message, seq_num)
    }

    /// Looks for what is planned for an update of a list, of which only the head is read: the entries may be far.
    #[inline]
    pub(super) fn ahead(&self, fields: &Fields, message: &[u8]) -> Ahead {
        let layout = fields.layout();
        let found = self.layouts.get(layout.wrapping_sub(self.first) as usize);
        let plan = found.and_then(|found| found.plans.iter().position(|plan| plan.is_for(message)));
        plan.map_or(Ahead::default(), |plan| Ahead { layout, plan: plan as u32 })
    }

    /// Has those bytes of a list come near that an update reads or writes: those that its plan names, the first ones where there is none. The
    /// value means nothing.
    #[inline]
    pub(super) fn touch(&self, fields: &Fields, ahead: Ahead) -> u8 {
        match self.planned(fields, ahead) {
            Some(Plan { near, work: Work::InPlace { .. }, .. }) => {
                let held = fields.bytes();
                near.iter().fold(0, |seen, place| seen ^ held.get(usize::from(*place)).copied().unwrap_or(0))
            }
            _ => fields.touch(),
        }
    }

    /// The plan that was found, if the list is as it was then.
    #[inline]
    fn planned(&self, fields: &Fields, ahead: Ahead) -> Option<&Plan> {
        let found = self.layouts.get(ahead.layout.wrapping_sub(self.first) as usize)?;
        found.plans.get(ahead.plan as usize).filter(|_| fields.layout() == ahead.layout)
    }

    /// As [`Self::apply`], of a message for which [`Self::ahead`] has looked.
    #[inline]
    pub(super) fn apply_ahead(
        &mut self,
        fields: &mut Fields,
        message: &[u8],
        seq_num: &mut Option<u32>,
        ahead: Ahead,
    ) -> bool {
        let found = self.layouts.get(ahead.layout.wrapping_sub(self.first) as usize);
        match found.and_then(|found| found.plans.get(ahead.plan as usize)) {
            Some(plan) if fields.layout() == ahead.layout => {
                debug_assert!(plan.is_for(message), "what was found is of another message");
                self.credit = (self.credit + 1).min(MAX_CREDIT);
                plan.carry_out(fields, message, seq_num, &mut self.room);
                true
            }
            _ => self.apply(fields, message, seq_num),
        }
    }

    /// Plans an update that is of no known make, or of a list whose layout has changed, and applies it.
    #[inline(never)]
    fn plan(&mut self, fields: &mut Fields, message: &[u8], seq_num: &mut Option<u32>) -> bool {
        if self.credit == 0 {
            self.misses += 1;
            if self.misses >= RENEWED_AFTER {
                (self.misses, self.credit) = (0, RENEWED);
            }
            return false;
        }
        self.credit -= 1;
        let Some(at) = self.layout_of(fields) else { return false };
        let layout = &mut self.layouts[at];
        if let Some(plan) = layout.plans.iter().find(|plan| plan.is_for(message)) {
            // The first update of one of many items that are alike: a million of them are to cost what one does.
            self.credit += 1;
            plan.carry_out(fields, message, seq_num, &mut self.room);
            return true;
        }
        if layout.plans.len() >= MAX_PLANS {
            return false;
        }
        let Some(plan) = self.new_plan(at, fields, message) else { return false };
        let applies = plan.is_for(message);
        if applies {
            plan.carry_out(fields, message, seq_num, &mut self.room);
        }
        self.layouts[at].plans.push(plan);
        applies
    }

    /// Plans an update of a list of the layout at `at`, where that stays.
    fn new_plan(&mut self, at: usize, fields: &mut Fields, message: &[u8]) -> Option<Plan> {
        let update = Simple::read(message).filter(|_| fields.bytes().len() <= MAX_HELD)?;
        let dictionary = self.dictionary.as_deref();
        // A rippled field may change a length where the update itself does not.
        if fields.has_all(&message[update.entries.clone()], update.count)
            && let Some(plan) = Plan::in_place(fields, message, &update, dictionary)
        {
            return Some(plan);
        }
        let Layout { heads, plans, .. } = &self.layouts[at];
        if plans.iter().filter(|plan| matches!(plan.work, Work::Anew(_))).count() >= MAX_REBUILDS {
            return None;
        }
        let rippling = dictionary.filter(|_| update.ripples);
        let entries = (message, update.entries.clone(), update.count);
        let mut rebuild = Rebuild::new(heads, entries, rippling, &mut self.heads)?;
        let make = Make::of(message, &update, dictionary)?;
        let becomes = self.layout_of_heads()?;
        rebuild.set_layout(self.first + becomes);
        let gather = rebuild.again().and_then(|entries| Gather::again(message, entries, make.seq_num_at));
        Some(Plan { make, near: Box::default(), work: Work::Anew(rebuild), gather })
    }

    /// Has a list whose image has just come know its layout, if there is room for that one. Such lists are no sign that those that are known
    /// are not those that come: an image may never have an update.
    pub(super) fn note_layout(&mut self, fields: &mut Fields) {
        let strangers = self.strangers;
        if strangers + 1 < MAX_STRANGERS {
            self.layout_of(fields);
            self.strangers = strangers;
        }
    }

    /// The layout of a list, which the list knows from now on. `None` if there is no room for another one, or it is not one for plans.
    fn layout_of(&mut self, fields: &mut Fields) -> Option<usize> {
        let known = fields.layout().wrapping_sub(self.first) as usize;
        if known < self.layouts.len() {
            return Some(known);
        }
        if !fields.read_heads(&mut self.heads, MAX_FIELDS) || self.first == 0 {
            return None;
        }
        let at = self.layout_of_heads()?;
        fields.set_layout(self.first + at);
        Some(at as usize)
    }

    /// The layout of the heads at hand. `None` if there is no room for another one.
    fn layout_of_heads(&mut self) -> Option<u32> {
        if self.heads.len() > MAX_FIELDS {
            return None;
        }
        let (hash_of, layouts) = (hash(&self.heads), &self.layouts);
        let found = self.index.find(hash_of, |at| *layouts[*at as usize].heads == *self.heads);
        match found {
            Some(&at) => Some(at),
            None if self.layouts.len() < MAX_LAYOUTS as usize => {
                let at = self.layouts.len() as u32;
                let heads = self.heads.as_slice().into();
                self.layouts.push(Layout { heads, plans: Vec::new(), pairs: Vec::new(), tried: 0 });
                let layouts = &self.layouts;
                self.index.insert_unique(hash_of, at, |at| hash(&layouts[*at as usize].heads));
                Some(at)
            }
            None => {
                self.strangers = (self.strangers + 1).min(MAX_STRANGERS);
                if self.strangers >= MAX_STRANGERS && self.kept == 0 {
                    self.begin_anew();
                }
                None
            }
        }
    }

    /// Forgets all layouts.
    ///
    /// INVARIANT: nothing is kept beside an image.
    pub fn begin_anew(&mut self) {
        debug_assert_eq!(self.kept, 0, "updates are kept for which nothing is planned any more");
        (self.first, self.strangers) = (numbers(), 0);
        self.layouts.clear();
        self.index.clear();
    }
}

/// Bytes of a message that are the same in all of its make, and which these are.
#[derive(Debug, Default, Clone, Copy)]
struct Masked {
    bytes: u64,
    mask: u64,
}

impl Masked {
    #[inline]
    const fn differs(self, bytes: [u8; WORD]) -> u64 {
        (u64::from_le_bytes(bytes) ^ self.bytes) & self.mask
    }
}

/// How updates of one make are applied to lists of one layout.
#[derive(Debug)]
struct Plan {
    make: Make,
    /// Bytes of the list from each of the lines that the work reads or writes, where it leaves others alone.
    near: Box<[u16]>,
    work: Work,
    /// How its values may be kept beside the list, if they find room.
    gather: Option<Gather>,
}

/// What there is to be done.
#[derive(Debug)]
enum Work {
    /// The layout stays: what ripples within what is held, then what comes from the message.
    InPlace { moves: Copies, copies: Copies },
    /// The layout becomes another one.
    Anew(Rebuild),
}

/// What is the same in all updates of a make.
#[derive(Debug)]
struct Make {
    /// Bytes of the message.
    len: usize,
    /// What of it says how it is to be read, and the last word of it.
    words: Box<[Masked]>,
    last: Masked,
    /// Where its sequence number is.
    seq_num_at: Option<u16>,
    /// Values that may be texts: such as change a part of a text are for others.
    texts: Box<[Range<u16>]>,
}

/// Offsets in a message: of the class, and of the flags.
const CLASS_AT: usize = 2;
const FLAGS_AT: usize = 8;
/// Flags of updates that have more in their header, or are not applied.
const UNPLANNED: UpdateFlags = UpdateFlags(
    UpdateFlags::HAS_EXTENDED_HEADER.0
        | UpdateFlags::HAS_PERM_DATA.0
        | UpdateFlags::HAS_MSG_KEY.0
        | UpdateFlags::HAS_CONF_INFO.0
        | UpdateFlags::HAS_POST_USER_INFO.0
        | UpdateFlags::DO_NOT_CACHE.0,
);

/// An update that can be planned.
struct Simple {
    header: peek::Header,
    seq_num: Option<u32>,
    ripples: bool,
    /// Where its entries lie in its message, and how many they are.
    entries: Range<usize>,
    count: u16,
}

impl Simple {
    /// `None` for an update that is not so simple. Nothing is allocated: such come again and again.
    fn read(message: &[u8]) -> Option<Self> {
        let (header, update) = (peek::header(message).ok()?, UpdateMsg::decode(message).ok()?);
        let is_plain = header.container == DataType::FIELD_LIST && header.flags & UNPLANNED.0 == 0;
        let (entries, count) = FieldList::plain(update.body).filter(|_| is_plain && message.len() <= MAX_UPDATE)?;
        let ripples = !update.flags.contains(UpdateFlags::DO_NOT_RIPPLE);
        let entries = message.len() - entries.len()..message.len();
        Some(Self { header, seq_num: update.seq_num, ripples, entries, count })
    }

    /// The fields that it brings. `None` if its entries do not end within the message.
    fn fids(&self, message: &[u8]) -> Option<Vec<i16>> {
        let mut at = self.entries.start;
        let fid = |_| {
            let [hi, lo, len] = *message.get(at..)?.first_chunk()?;
            at += 3 + usize::from(len);
            Some(i16::from_be_bytes([hi, lo]))
        };
        (0..self.count).map(fid).collect()
    }
}

impl Make {
    /// `None` if an entry does not end within the message, or is long.
    fn of(message: &[u8], update: &Simple, dictionary: Option<&Dictionary>) -> Option<Self> {
        // Flags, container and type of update come before the sequence number.
        let flags_len = 1 + usize::from(message[FLAGS_AT] >> 7);
        let seq_num_at = update.seq_num.map(|_| (FLAGS_AT + flags_len + 2) as u16);
        debug_assert_eq!(seq_num_at.map(|place| u32::from_be_bytes(at(message, place))), update.seq_num);
        let mut fixed = vec![0_u8; message.len()];
        for place in
            [0..CLASS_AT + 1, FLAGS_AT..FLAGS_AT + flags_len + 1, update.header.body_offset..update.entries.start]
        {
            fixed[place].fill(0xFF);
        }
        let mut texts = Vec::new();
        let mut at_entry = update.entries.start;
        for _ in 0..update.count {
            let [hi, lo, len] = *message.get(at_entry..)?.first_chunk()?;
            let end = at_entry + 3 + usize::from(len);
            if u32::from(len) >= LONG || end > message.len() {
                return None;
            }
            fixed[at_entry..at_entry + 3].fill(0xFF);
            if may_be_text(i16::from_be_bytes([hi, lo]), dictionary) {
                texts.push((at_entry + 3) as u16..end as u16);
            }
            at_entry = end;
        }
        let masked = |place: usize| {
            let word = |bytes: &[u8]| u64::from_le_bytes(at(bytes, place as u16));
            Masked { bytes: word(message), mask: word(&fixed) }
        };
        Some(Self {
            len: message.len(),
            words: (0..message.len() / WORD).map(|number| masked(number * WORD)).collect(),
            last: masked(message.len() - WORD),
            seq_num_at,
            texts: texts.into(),
        })
    }

    /// An update of this make: the one of which it was made.
    fn example(&self) -> Vec<u8> {
        let mut message: Vec<u8> = self.words.iter().flat_map(|word| word.bytes.to_le_bytes()).collect();
        message.truncate(self.len - WORD);
        message.extend_from_slice(&self.last.bytes.to_le_bytes());
        message
    }

    /// Whether an update is of this make, and changes no part of a text.
    #[inline]
    fn is_for(&self, message: &[u8]) -> bool {
        if message.len() != self.len {
            return false;
        }
        let Some(last) = message.last_chunk() else { return false };
        let words = self.words.iter().zip(message.as_chunks().0);
        let differs = words.fold(self.last.differs(*last), |differs, (word, bytes)| differs | word.differs(*bytes));
        differs == 0 && (self.texts.is_empty() || !has_escape(message) || !self.has_partial(message))
    }

    #[inline(never)]
    fn has_partial(&self, message: &[u8]) -> bool {
        let text = |text: &Range<u16>| &message[usize::from(text.start)..usize::from(text.end)];
        self.texts.iter().any(|place| text(place).contains(&ESC))
    }
}

impl Plan {
    /// Plans an update that has fields of the list alone, with values of the lengths that are held. `None` if it is not so simple.
    fn in_place(fields: &mut Fields, message: &[u8], update: &Simple, dictionary: Option<&Dictionary>) -> Option<Self> {
        let mut moves = Copying::default();
        let rippled = match dictionary.filter(|_| update.ripples) {
            Some(dictionary) => fields.ripples_to(&message[update.entries.clone()], update.count, dictionary)?,
            None => Vec::new(),
        };
        for (from, to, len) in &rippled {
            // The lengths before the values are alike.
            moves.add(*from, *to, *len, 1);
        }
        let entries = entries(fields, message, update)?;
        let (moves, copies) = (moves.end(), copies(&entries));
        let make = Make::of(message, update, dictionary)?;
        let near: Box<[u16]> = near(moves.held(true).chain(copies.held(false)));
        let gather = Gather::new(&entries, &rippled, make.seq_num_at);
        Some(Self { make, near, work: Work::InPlace { moves, copies }, gather })
    }

    #[inline]
    fn is_for(&self, message: &[u8]) -> bool {
        self.make.is_for(message)
    }

    /// Applies an update of this make to a list of the layout. `room` is for a list that is written anew.
    #[inline]
    fn carry_out(&self, fields: &mut Fields, message: &[u8], seq_num: &mut Option<u32>, room: &mut Vec<u8>) {
        if let Some(place) = self.make.seq_num_at {
            *seq_num = Some(u32::from_be_bytes(at(message, place)));
        }
        match &self.work {
            Work::InPlace { moves, copies } => {
                moves.carry_out_within(fields.bytes_mut());
                copies.carry_out(message, fields.bytes_mut());
            }
            Work::Anew(rebuild) => rebuild.carry_out(fields, message, room),
        }
    }
}

/// Some bytes of these stretches, so many that each line of memory has one, wherever lines begin: lists begin where an allocator likes, on a border of
/// [`ALIGNED`].
fn near(stretches: impl Iterator<Item = Range<u16>>) -> Box<[u16]> {
    /// Bytes that surely lie in one line if they begin between two such pieces.
    const ALIGNED: u16 = 16;
    let pieces = |held: Range<u16>| held.start / ALIGNED..=(held.end - 1) / ALIGNED;
    let all: BTreeSet<u16> = stretches.flat_map(pieces).collect();
    all.into_iter().map(|piece| piece * ALIGNED).collect()
}

/// The fields of an update, which are all held with values of these lengths. `None` if not, or if one is there twice.
fn entries(fields: &Fields, message: &[u8], update: &Simple) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut from, mut cursor) = (update.entries.start, 0);
    for _ in 0..update.count {
        let wanted = head(message.get(from..))? & ENTRY;
        let len = Entry::HEAD + (wanted >> 16) as usize;
        if wanted >> 16 >= LONG || from + len > message.len() {
            return None;
        }
        let fid = i16::from_be_bytes([message[from], message[from + 1]]);
        let place = fields.find_from(fid, cursor)?;
        // A field that is there twice has its last value: no bytes are to be written twice.
        if place.len() != len || entries.iter().any(|entry| entry.to == place.start) {
            return None;
        }
        entries.push(Entry { from, to: place.start, len });
        (from, cursor) = (from + len, place.end);
    }
    Some(entries)
}

/// What is copied of an update with these fields.
fn copies(entries: &[Entry]) -> Copies {
    let mut copies = Copying::default();
    let beside = |one: &Entry, next: &Entry| one.from + one.len == next.from && one.to + one.len == next.to;
    for run in entries.chunk_by(beside) {
        let len = run.iter().map(|entry| entry.len).sum::<usize>();
        if len >= WORD && len.div_ceil(WORD) <= run.len() {
            copies.add(run[0].from, run[0].to, len, 0);
            continue;
        }
        for Entry { from, to, len } in run {
            // The head is the same in both.
            copies.add(from + Entry::HEAD, to + Entry::HEAD, len - Entry::HEAD, Entry::HEAD);
        }
    }
    copies.end()
}

#[cfg(test)]
mod tests {
    use super::{MAX_CREDIT, MAX_LAYOUTS, MAX_STRANGERS, Plans, Work};
    use crate::image::{Image, Schema};
    use crate::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
    use crate::wire::Writer;
    use crate::{DataType, FieldListEncoder};

    /// A field list of these values.
    pub(super) fn list(fields: &[(i16, &[u8])]) -> Vec<u8> {
        let mut buf = [0; 1_024];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        for (fid, value) in fields {
            list.raw(*fid, value).unwrap();
        }
        list.finish().unwrap();
        w.written().to_vec()
    }

    fn image(fields: &[(i16, &[u8])]) -> Image {
        let (mut image, body) = (Image::new(), list(fields));
        let (container, flags) = (DataType::FIELD_LIST, RefreshFlags::REFRESH_COMPLETE);
        let refresh = RefreshMsg { container, flags, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
        image.refresh(&refresh, &Schema::NONE).unwrap();
        image
    }

    fn update(image: &mut Image, plans: &mut Plans, fields: &[(i16, &[u8])]) {
        let body = list(fields);
        let container = DataType::FIELD_LIST;
        let update = UpdateMsg { container, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        let mut buf = [0; 1_100];
        let mut w = Writer::new(&mut buf);
        update.encode(&mut w).unwrap();
        image.update_planned(w.written(), plans).unwrap();
    }

    #[test]
    fn items_of_one_layout_share_what_is_planned() {
        let mut plans = Plans::new(None);
        let mut images: Vec<_> = (0..10).map(|_| image(&[(1, b"abc"), (2, b"12345"), (3, b"x")])).collect();
        for turn in 0..20_u8 {
            for image in &mut images {
                update(image, &mut plans, &[(2, &[turn; 5]), (1, b"def")]);
            }
        }
        assert_eq!((plans.layouts.len(), plans.layouts[0].plans.len()), (1, 1));
        assert_eq!(plans.credit, MAX_CREDIT, "all but the first of each image were planned");
    }

    #[test]
    fn first_updates_of_many_images_use_up_no_attempts() {
        let mut plans = Plans::new(None);
        let mut images: Vec<_> = (0..3 * MAX_CREDIT).map(|_| image(&[(1, b"abc"), (2, b"12345")])).collect();
        let (noted, others) = images.split_at_mut(MAX_CREDIT as usize);
        for image in &mut *noted {
            image.note_layout(&mut plans);
        }
        for image in noted.iter_mut().chain(others) {
            update(image, &mut plans, &[(2, b"54321")]);
            assert!(plans.credit + 1 >= MAX_CREDIT, "{} attempts are left", plans.credit);
        }
        assert_eq!((plans.layouts.len(), plans.layouts[0].plans.len(), plans.misses), (1, 1, 0));
    }

    #[test]
    fn updates_that_change_lengths_and_bring_fields_are_planned_for_items_that_are_alike() {
        let mut plans = Plans::new(None);
        let mut images: Vec<_> = (0..5).map(|_| image(&[(1, b""), (2, b"12345"), (3, b"x")])).collect();
        for image in &mut images {
            update(image, &mut plans, &[(1, b"abc"), (3, b""), (4, b"new")]);
            update(image, &mut plans, &[(1, b"def")]);
        }
        let work = |layout: usize| plans.layouts[layout].plans.iter().map(|plan| &plan.work).collect::<Vec<_>>();
        assert!(matches!(work(0)[..], [Work::Anew(_)]) && matches!(work(1)[..], [Work::InPlace { .. }]));
        assert_eq!((plans.layouts.len(), plans.misses), (2, 0));
        for image in &images {
            let mut buf = [0; 100];
            let mut w = Writer::new(&mut buf);
            image.payload().unwrap().write(&mut w).unwrap();
            assert_eq!(w.written(), list(&[(1, b"def"), (2, b"12345"), (3, b""), (4, b"new")]));
        }
    }

    /// Whatever comes, what is kept is bounded, and plans are made again when what comes is of few makes again.
    #[test]
    fn layouts_without_end_are_forgotten() {
        let mut plans = Plans::new(None);
        let mut one = image(&[(1, b"abcdefgh")]);
        let first = plans.first;
        for number in 0..4 * (MAX_LAYOUTS + MAX_STRANGERS) {
            let mut other = image(&[(number as i16, b"abcdefgh"), ((number >> 15) as i16 - 9, b"")]);
            update(&mut other, &mut plans, &[(number as i16, b"ABCDEFGH")]);
            assert!(plans.layouts.len() <= MAX_LAYOUTS as usize);
            update(&mut one, &mut plans, &[(1, b"ABCDEFGH")]);
        }
        assert_ne!(plans.first, first, "it has begun anew");
        let before = plans.layouts.iter().map(|layout| layout.plans.len()).sum::<usize>();
        plans.credit = plans.credit.max(10);
        let mut two = image(&[(1, b"abcdefgh"), (2, b"z")]);
        (0..3).for_each(|_| update(&mut two, &mut plans, &[(2, b"y"), (1, b"12345678")]));
        let after = plans.layouts.iter().map(|layout| layout.plans.len()).sum::<usize>();
        assert!(after > before || plans.layouts.len() == MAX_LAYOUTS as usize);
    }
}
