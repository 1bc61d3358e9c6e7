//! Items over several sources: of each the best bid and ask of its members, which are items of the sources.
//!
//! # Rules
//! * A member counts while its item is good. What is Suspect counts for nothing, and neither does a side that has not changed for longer than the item
//!   allows ([`CompositeItem::longest_ns`]): a side that never leaves is worth nothing after that.
//! * The best price is the highest bid and the lowest ask. The size is the sum of all members that stand at it, the name that of the first of them.
//! * A composite is good while so many of its members count as it needs ([`CompositeItem::needed`]).
//! * It may be locked or crossed, and is told as such: venues disagree. Nothing is repaired.
//! * Trades are not told: members' own items have them.
//!
//! A member that is itself a best over venues (a file of national best quotes) makes no composite: its sides are not a venue's.

use std::collections::{BTreeMap, HashMap, HashSet};

use market::{BestQuote, BookState, Side, best_quote};
use rwf::msg::Msg;
use rwf::{DataState, DataType, FieldList, Primitive, RealHint, SetScope};

use crate::fields::{self as fid, append_fields};
use crate::session::{Moment, Nanos};
use crate::{Event, InstrumentId, MarketSource, Model, Payload, UpdateKind};

/// An item of one of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which source, in the order in which they were given.
    pub source: usize,
    /// The name of its item.
    pub item: String,
    /// Its name in the composite, as `BID_MMID1` and `ASK_MMID1` have it.
    pub name: String,
}

/// An item over several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeItem {
    /// Its name.
    pub name: String,
    /// The items that it is made of; at least one.
    pub members: Vec<Member>,
    /// So many of them are to count for it to be good.
    pub needed: usize,
    /// A side counts for so long after it changed last, in nanoseconds; `None`: as long as it stands.
    pub longest_ns: Option<u64>,
}

/// A price or a size of ten to the power of minus 14, so that those of all venues can be compared and added.
type Exact = i128;

const DECIMALS: u8 = 14;

/// A side of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemberSide {
    price: Option<Exact>,
    size: Exact,
    changed_at: Nanos,
}

#[derive(Debug, Default)]
struct MemberState {
    id: Option<InstrumentId>,
    is_good: bool,
    /// Bid, ask.
    sides: [MemberSide; 2],
}

/// The best of a side, and which member has it.
type Best = Option<BestQuote>;

struct Item {
    of: CompositeItem,
    members: Vec<MemberState>,
    is_watched: bool,
    told: [Best; 2],
    is_good: bool,
    quoted_at: Nanos,
}

/// Sources with their items, and composites over them.
pub struct CompositeSource {
    sources: Vec<Box<dyn MarketSource>>,
    items: Vec<Item>,
    /// Who of the consumers and the composites watches an item of a source.
    watched: HashMap<(usize, InstrumentId, Model), (bool, u32)>,
    /// Composites by the item of a member.
    by_member: HashMap<(usize, InstrumentId), Vec<(usize, usize)>>,
    now: Nanos,
    /// Nanoseconds from 1970 to the beginning of the caller's clock.
    epoch: u64,
    body: Vec<u8>,
}

impl CompositeSource {
    /// Composites over sources; members of sources that are not there are left out. `epoch`: what the time since 1970 is when the caller's clock is 0.
    pub fn new(sources: Vec<Box<dyn MarketSource>>, items: Vec<CompositeItem>, epoch: u64) -> Self {
        let known = sources.len();
        let item = |of: CompositeItem| {
            let of = CompositeItem { members: of.members.into_iter().filter(|m| m.source < known).collect(), ..of };
            let members = of.members.iter().map(|_| MemberState::default()).collect();
            Item { of, members, is_watched: false, told: [None; 2], is_good: false, quoted_at: 0 }
        };
        Self {
            items: items.into_iter().map(item).collect(),
            sources,
            watched: HashMap::new(),
            by_member: HashMap::new(),
            now: 0,
            epoch,
            body: Vec::new(),
        }
    }

    fn parts(&self) -> u32 {
        self.sources.len() as u32 + 1
    }

    fn outer(&self, source: usize, id: InstrumentId) -> InstrumentId {
        InstrumentId(id.0 * self.parts() + source as u32)
    }

    /// The source of an item, and its number there; of composites the source is behind all others.
    fn inner(&self, id: InstrumentId) -> (usize, InstrumentId) {
        ((id.0 % self.parts()) as usize, InstrumentId(id.0 / self.parts()))
    }

    /// Finds members that have come up since, and begins with what they have.
    fn find_members(&mut self, at: usize) {
        for n in 0..self.items[at].members.len() {
            if self.items[at].members[n].id.is_some() {
                continue;
            }
            let Member { source, item, .. } = &self.items[at].of.members[n];
            let source = *source;
            let Some(id) = self.sources[source].find(item) else { continue };
            self.by_member.entry((source, id)).or_default().push((at, n));
            self.items[at].members[n].id = Some(id);
            if self.items[at].is_watched {
                self.watch_member(at, n, true);
            }
        }
    }

    fn watch_member(&mut self, at: usize, n: usize, on: bool) {
        let (Some(id), source) = (self.items[at].members[n].id, self.items[at].of.members[n].source) else { return };
        let kept = self.watched.entry((source, id, Model::Price)).or_default();
        let was = kept.0 || kept.1 > 0;
        kept.1 = if on { kept.1 + 1 } else { kept.1.saturating_sub(1) };
        let is = kept.0 || kept.1 > 0;
        if was != is {
            self.sources[source].watch(id, Model::Price, is);
        }
        if on {
            self.begin_member(at, n, id);
        }
    }

    /// Takes a member's image.
    fn begin_member(&mut self, at: usize, n: usize, id: InstrumentId) {
        let source = self.items[at].of.members[n].source;
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        self.sources[source].image(id, Model::Price, 0, &mut body);
        let is_good = self.sources[source].data_state(id, Model::Price) == DataState::OK;
        let member = &mut self.items[at].members[n];
        (member.is_good, member.sides) = (is_good, [MemberSide::default(); 2]);
        member.apply(&body, self.now);
        self.body = body;
    }

    /// Takes an event of an item that is a member.
    fn take(&mut self, source: usize, event: &Event<'_>, touched: &mut HashSet<usize>) {
        let Some(members) = self.by_member.get(&(source, event.instrument)) else { return };
        for (at, n) in members {
            let member = &mut self.items[*at].members[*n];
            match event.payload {
                Payload::Status => {
                    if let Ok(Msg::Status(status)) = Msg::decode(event.body)
                        && let Some(state) = status.state
                        && state.data != DataState::NO_CHANGE
                    {
                        member.is_good = state.data == DataState::OK;
                    }
                }
                Payload::ImagePart { data, .. } => {
                    (member.is_good, member.sides) = (data == DataState::OK, [MemberSide::default(); 2]);
                    member.apply(event.body, self.now);
                }
                Payload::NewImage => {
                    member.sides = [MemberSide::default(); 2];
                    member.apply(event.body, self.now);
                }
                Payload::Update(_) | Payload::Typed(_) => member.apply(event.body, self.now),
            }
            touched.insert(*at);
        }
    }

    /// When a side of a composite that is watched stops counting by its age.
    fn next_age(&self) -> Option<Nanos> {
        let watched = self.items.iter().filter(|item| item.is_watched);
        let ages = watched.filter_map(|item| Some((item, item.of.longest_ns?))).flat_map(|(item, longest)| {
            let sides = item.members.iter().filter(|member| member.is_good).flat_map(|member| member.sides);
            sides.filter(|side| side.price.is_some()).map(move |side| side.changed_at.saturating_add(longest))
        });
        ages.filter(|at| *at > self.now).min()
    }

    fn settle(&mut self, at: usize, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let (best, is_good) = (self.items[at].best(self.now), self.items[at].is_good(self.now));
        let id = self.outer(self.sources.len(), InstrumentId(at as u32));
        let item = &mut self.items[at];
        let was_good = std::mem::replace(&mut item.is_good, is_good);
        let before = std::mem::replace(&mut item.told, best);
        if !item.is_watched {
            return 0;
        }
        let mut told = 0;
        let mut body = std::mem::take(&mut self.body);
        if before != best {
            item.quoted_at = self.epoch + self.now;
            body.clear();
            item.write(&mut body, before);
            let payload = Payload::Update(UpdateKind::Quote);
            sink(Event { instrument: id, model: Model::Price, payload, body: &body });
            told += 1;
        }
        if was_good != is_good {
            body.clear();
            let (data, text): (_, &[u8]) = if is_good {
                (DataState::OK, b"enough of its members are good")
            } else {
                (DataState::SUSPECT, b"too few of its members are good")
            };
            let state = rwf::State { stream: rwf::StreamState::OPEN, data, code: rwf::StateCode::NONE, text };
            let status = rwf::msg::StatusMsg {
                state: Some(state),
                ..rwf::msg::StatusMsg::new(rwf::msg::Domain::MARKET_PRICE, 0)
            };
            crate::fields::append(&mut body, text.len() + 64, |w| status.encode(w));
            sink(Event { instrument: id, model: Model::Price, payload: Payload::Status, body: &body });
            told += 1;
        }
        self.body = body;
        told
    }
}

impl MemberState {
    /// Takes the sides that a field list tells of.
    fn apply(&mut self, body: &[u8], now: Nanos) {
        let Ok(list) = FieldList::decode(body, &SetScope::default()) else { return };
        let mut sides = self.sides;
        for field in list.entries().flatten() {
            let side = match field.fid {
                fid::BID | fid::BIDSIZE => &mut sides[0],
                fid::ASK | fid::ASKSIZE => &mut sides[1],
                _ => continue,
            };
            let value = match field.value(DataType::REAL) {
                Ok(Primitive::Real(real)) => exact(real.mantissa, real.hint),
                _ => None,
            };
            if field.fid == fid::BID || field.fid == fid::ASK {
                side.price = value;
            } else {
                side.size = value.unwrap_or(0);
            }
        }
        for (kept, new) in self.sides.iter_mut().zip(sides) {
            if (kept.price, kept.size) != (new.price, new.size) {
                *kept = MemberSide { changed_at: now, ..new };
            }
        }
    }
}

/// A real with fourteen decimals; `None`: it is blank, or has more, or is a fraction.
fn exact(mantissa: i64, hint: RealHint) -> Option<Exact> {
    let decimals = RealHint::EXPONENT0.0.checked_sub(hint.0);
    if let Some(decimals) = decimals {
        return Some(i128::from(mantissa) * 10i128.pow(u32::from(DECIMALS.checked_sub(decimals)?)));
    }
    // Zeros behind the number, at most seven of them.
    let zeros = hint.0.checked_sub(RealHint::EXPONENT0.0).filter(|zeros| *zeros <= 7)?;
    i128::from(mantissa).checked_mul(10i128.pow(u32::from(DECIMALS + zeros)))
}

impl Item {
    fn counts(&self, member: &MemberState, side: usize, now: Nanos) -> bool {
        let quote = member.sides[side];
        let is_fresh = self.of.longest_ns.is_none_or(|longest| now.saturating_sub(quote.changed_at) < longest);
        member.is_good && quote.price.is_some() && is_fresh
    }

    fn best(&self, now: Nanos) -> [Best; 2] {
        Side::BOTH.map(|side| {
            let counting = self.members.iter().enumerate().filter(|(_, m)| self.counts(m, side as usize, now));
            let quotes = counting.filter_map(|(n, member)| {
                let MemberSide { price, size, .. } = member.sides[side as usize];
                Some((n, market::Quote { price: price?, size }))
            });
            best_quote(side, quotes)
        })
    }

    fn is_good(&self, now: Nanos) -> bool {
        let is_there = |member: &&MemberState| {
            let is_fresh = |side: &MemberSide| match self.of.longest_ns {
                Some(longest) => side.price.is_none() || now.saturating_sub(side.changed_at) < longest,
                None => true,
            };
            member.is_good && member.sides.iter().any(is_fresh)
        };
        self.members.iter().filter(is_there).count() >= self.of.needed
    }

    /// The fields of the sides that are others than before.
    fn write(&self, out: &mut Vec<u8>, before: [Best; 2]) {
        let ids = [[fid::BID, fid::BIDSIZE, fid::BID_MMID1], [fid::ASK, fid::ASKSIZE, fid::ASK_MMID1]];
        append_fields(out, |fields| {
            self.write_times(fields);
            for ((best, before), [price, size, name]) in self.told.iter().zip(before).zip(ids) {
                if *best != before {
                    self.write_side(*best, [price, size, name], fields);
                }
            }
            fields.enumeration(fid::BOOK_STATE, self.state());
        });
    }

    fn write_image(&self, out: &mut Vec<u8>) {
        let ids = [[fid::BID, fid::BIDSIZE, fid::BID_MMID1], [fid::ASK, fid::ASKSIZE, fid::ASK_MMID1]];
        append_fields(out, |fields| {
            fields.uint(fid::PROD_PERM, 6_560);
            let end = self.of.name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= 16).last();
            fields.text(fid::DSPLY_NAME, &self.of.name[..end.unwrap_or(0)]);
            self.write_times(fields);
            for (best, ids) in self.told.iter().zip(ids) {
                self.write_side(*best, ids, fields);
            }
            fields.enumeration(fid::BOOK_STATE, self.state());
        });
    }

    fn write_times(&self, fields: &mut crate::fields::FieldWriter<'_, '_>) {
        if self.quoted_at == 0 {
            return [fid::QUOTIM, fid::QUOTIM_MS, fid::QUOTIM_NS, fid::QUOTE_DATE]
                .into_iter()
                .for_each(|id| fields.blank(id));
        }
        let at = Moment::from_epoch(self.quoted_at);
        fields.time_of_second(fid::QUOTIM, at.time);
        fields.uint(fid::QUOTIM_MS, at.millis());
        fields.time_exact(fid::QUOTIM_NS, at.time);
        fields.date(fid::QUOTE_DATE, at.date());
    }

    fn write_side(
        &self,
        best: Best,
        [price, size, name]: [fid::Fid; 3],
        fields: &mut crate::fields::FieldWriter<'_, '_>,
    ) {
        let Some(BestQuote { quote, first }) = best else {
            return [price, size, name].into_iter().for_each(|id| fields.blank(id));
        };
        real(fields, price, quote.price);
        real(fields, size, quote.size);
        fields.text(name, &self.of.members[first].name);
    }

    /// `BOOK_STATE`: 0 there is no order, 1 normal, 2 locked, 3 crossed, 4 one-sided.
    fn state(&self) -> u16 {
        let [bid, ask] = self.told.map(|best| best.map(|best| best.quote.price));
        match (bid, ask) {
            (None, None) => 0,
            (Some(_), Some(_)) => match BookState::of(bid, ask) {
                BookState::Normal => 1,
                BookState::Locked => 2,
                BookState::Crossed => 3,
            },
            _ => 4,
        }
    }
}

/// A number with as few decimals as it takes.
fn real(fields: &mut crate::fields::FieldWriter<'_, '_>, id: fid::Fid, mut value: Exact) {
    let mut decimals = DECIMALS;
    while decimals > 0 && (value % 10 == 0 || i64::try_from(value).is_err()) {
        (value, decimals) = (value / 10, decimals - 1);
    }
    fields.real(id, i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX }), decimals);
}

impl MarketSource for CompositeSource {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        if let Some(at) = self.items.iter().position(|item| item.of.name == name) {
            self.find_members(at);
            return Some(self.outer(self.sources.len(), InstrumentId(at as u32)));
        }
        let (source, id) = self.sources.iter_mut().enumerate().find_map(|(n, source)| Some((n, source.find(name)?)))?;
        Some(self.outer(source, id))
    }

    fn offers(&self, id: InstrumentId, model: Model) -> bool {
        let (source, id) = self.inner(id);
        self.sources.get(source).map_or(model == Model::Price, |source| source.offers(id, model))
    }

    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        let (source, inner) = self.inner(id);
        if let Some(source) = self.sources.get_mut(source) {
            return source.image(inner, model, part, out);
        }
        let at = inner.0 as usize;
        if !self.items[at].is_watched {
            // Nobody follows its members: what they have now.
            self.find_members(at);
            for n in 0..self.items[at].members.len() {
                if let Some(id) = self.items[at].members[n].id {
                    self.begin_member(at, n, id);
                }
            }
            let now = self.now;
            let item = &mut self.items[at];
            (item.told, item.is_good) = (item.best(now), item.is_good(now));
        }
        self.items[at].write_image(out);
        false
    }

    fn data_state(&self, id: InstrumentId, model: Model) -> DataState {
        let (source, inner) = self.inner(id);
        match self.sources.get(source) {
            Some(source) => source.data_state(inner, model),
            None if self.items[inner.0 as usize].is_good => DataState::OK,
            None => DataState::SUSPECT,
        }
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        let (source, inner) = self.inner(id);
        if source < self.sources.len() {
            let kept = self.watched.entry((source, inner, model)).or_default();
            let was = kept.0 || kept.1 > 0;
            kept.0 = on;
            if was != (kept.0 || kept.1 > 0) {
                self.sources[source].watch(inner, model, on);
            }
            return;
        }
        let at = inner.0 as usize;
        if std::mem::replace(&mut self.items[at].is_watched, on) == on {
            return;
        }
        self.find_members(at);
        (0..self.items[at].members.len()).for_each(|n| self.watch_member(at, n, on));
        let now = self.now;
        let item = &mut self.items[at];
        (item.told, item.is_good) = (item.best(now), item.is_good(now));
    }

    fn due(&self) -> Option<Nanos> {
        self.sources.iter().filter_map(|source| source.due()).chain(self.next_age()).min()
    }

    fn symbols(&self) -> Vec<String> {
        let own = self.items.iter().map(|item| item.of.name.clone());
        let all: BTreeMap<String, ()> =
            own.chain(self.sources.iter().flat_map(|s| s.symbols())).map(|name| (name, ())).collect();
        all.into_keys().collect()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        self.now = now;
        for at in 0..self.items.len() {
            if self.items[at].is_watched {
                self.find_members(at);
            }
        }
        let mut touched = HashSet::new();
        for source in 0..self.sources.len() {
            // Taken out, so that what it tells can be given to the composites.
            let mut taken: Box<dyn MarketSource> = std::mem::replace(&mut self.sources[source], Box::new(Nothing));
            taken.advance(now, limit, &mut |event| {
                self.take(source, &event, &mut touched);
                let key = (source, event.instrument, event.model);
                if self.watched.get(&key).is_some_and(|(by_consumer, _)| *by_consumer) {
                    sink(Event { instrument: self.outer(source, event.instrument), ..event });
                }
            });
            self.sources[source] = taken;
        }
        // Ages end without an event.
        touched.extend(
            (0..self.items.len()).filter(|at| self.items[*at].is_watched && self.items[*at].of.longest_ns.is_some()),
        );
        let mut touched: Vec<usize> = touched.into_iter().collect();
        touched.sort_unstable();
        for at in touched {
            self.settle(at, sink);
        }
    }

    fn is_live(&self) -> bool {
        self.sources.iter().any(|source| source.is_live())
    }

    fn is_ready(&self) -> bool {
        self.sources.iter().all(|source| source.is_ready())
    }

    fn may_come(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source.may_come(name))
    }

    fn remarks(&self) -> Option<String> {
        let texts: Vec<String> = self.sources.iter().filter_map(|source| source.remarks()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    fn unread(&self) -> Option<String> {
        self.sources.iter().find_map(|source| source.unread())
    }
}

/// Stands where a source is while it tells.
struct Nothing;

impl MarketSource for Nothing {
    fn find(&mut self, _: &str) -> Option<InstrumentId> {
        None
    }

    fn offers(&self, _: InstrumentId, _: Model) -> bool {
        false
    }

    fn image(&mut self, _: InstrumentId, _: Model, _: usize, _: &mut Vec<u8>) -> bool {
        false
    }

    fn watch(&mut self, _: InstrumentId, _: Model, _: bool) {}

    fn due(&self) -> Option<Nanos> {
        None
    }

    fn symbols(&self) -> Vec<String> {
        Vec::new()
    }

    fn advance(&mut self, _: Nanos, _: usize, _: &mut dyn FnMut(Event<'_>)) {}
}

#[cfg(test)]
mod tests;
