//! Updates that are kept beside their images.

use super::super::latest::{Gather, Held, Latest, Pair, Updates};
use super::super::lists::{Fields, MAX_RIPPLE};
use super::super::rebuilds::Rebuild;
use super::{MAX_CREDIT, MAX_PLANS, MAX_STRANGERS, Plans, Simple};
use crate::dictionary::{Dictionary, FieldDef};

/// Pairs of makes whose values are kept together, of one layout.
const MAX_PAIRS: usize = 8;
/// A plan's number, and a pair's behind those of all plans, is a byte; and so many bits say which pairs have been tried.
const _: () = assert!(MAX_PLANS + MAX_PAIRS <= 256 && MAX_PLANS * MAX_PLANS <= u64::BITS as usize);

impl Plans {
    /// Whether all layouts are to be forgotten, which cannot be as long as updates are kept beside their images.
    pub const fn is_to_begin_anew(&self) -> bool {
        self.strangers >= MAX_STRANGERS
    }

    /// Items whose last update is kept beside their image.
    pub const fn kept(&self) -> usize {
        self.kept
    }

    /// Keeps an update beside its image, in place of the one that is kept there if it brings the same fields, together with it if both find room. False, and nothing has
    /// changed, if it cannot be.
    #[inline]
    pub fn keep(&mut self, latest: &mut Latest, message: &[u8]) -> bool {
        if !latest.is_open() {
            return false;
        }
        let at = latest.layout.wrapping_sub(self.first) as usize;
        let Some(layout) = self.layouts.get(at) else { return false };
        if latest.state == Held::Values {
            if let Some(plan) = layout.plans.get(usize::from(latest.plan)) {
                let Some(gather) = plan.gather.as_ref().filter(|_| plan.is_for(message)) else {
                    return self.keep_with(at, latest, message);
                };
                gather.keep(message, latest);
            } else {
                let Some(pair) = layout.pairs.get(usize::from(latest.plan).wrapping_sub(MAX_PLANS)) else {
                    return false;
                };
                let of = pair.plans().iter().position(|plan| layout.plans[usize::from(*plan)].is_for(message));
                let Some(of) = of else { return false };
                pair.keep(of, message, latest);
            }
        } else {
            let Some(found) = layout.plans.iter().position(|plan| plan.is_for(message)) else { return false };
            let Some(gather) = &layout.plans[found].gather else { return false };
            gather.keep(message, latest);
            (latest.plan, latest.state) = (found as u8, Held::Values);
            self.kept += 1;
        }
        self.credit = (self.credit + 1).min(MAX_CREDIT);
        true
    }

    /// Keeps an update of another make than the one that is kept, together with it.
    #[inline(never)]
    fn keep_with(&mut self, at: usize, latest: &mut Latest, message: &[u8]) -> bool {
        let layout = &self.layouts[at];
        let Some(other) = layout.plans.iter().position(|plan| plan.is_for(message)) else { return false };
        let plans = [latest.plan, other as u8];
        let known = layout.pairs.iter().position(|pair| pair.plans() == plans);
        let Some(found) = known.or_else(|| self.new_pair(at, plans)) else { return false };
        let pair = &self.layouts[at].pairs[found];
        pair.join(latest);
        pair.keep(1, message, latest);
        latest.plan = (MAX_PLANS + found) as u8;
        self.credit = (self.credit + 1).min(MAX_CREDIT);
        true
    }

    /// Plans how values of two makes are kept together: of the one that is kept, and of the other. `None` if they cannot be.
    fn new_pair(&mut self, at: usize, plans: [u8; 2]) -> Option<usize> {
        let layout = &mut self.layouts[at];
        let bit = 1 << (usize::from(plans[0]) * MAX_PLANS + usize::from(plans[1]));
        if layout.tried & bit != 0 || layout.pairs.len() >= MAX_PAIRS {
            return None;
        }
        layout.tried |= bit;
        let [first, second] = plans.map(|plan| &layout.plans[usize::from(plan)]);
        let messages = [first.make.example(), second.make.example()];
        let [one, other] = messages.each_ref().map(|message| Simple::read(message));
        let (one, other) = (one?, other?);
        let dictionary = self.dictionary.as_deref();
        let rippling = |update: &Simple| dictionary.filter(|_| update.ripples);
        let fids = [one.fids(&messages[0])?, other.fids(&messages[1])?];
        // Fields that one make ripples to are none that the other brings: it would matter which came when.
        let meets = |from: usize, to: usize, update: &Simple| {
            rippling(update).is_some_and(|dictionary| ripples_into(&fids[from], &fids[to], dictionary))
        };
        if meets(0, 1, &one) || meets(1, 0, &other) {
            return None;
        }
        let (mut heads, mut becomes) = (Vec::new(), Vec::new());
        let entries = |number: usize, update: &Simple| (update.entries.clone(), update.count, number);
        let rebuild =
            |layout: &[u32], (entries, count, number): (_, _, usize), update: &Simple, heads: &mut Vec<u32>| {
                Rebuild::new(layout, (&messages[number], entries, count), rippling(update), heads)
            };
        rebuild(&layout.heads, entries(0, &one), &one, &mut heads)?;
        let second_on = rebuild(&heads, entries(1, &other), &other, &mut becomes)?;
        let gather = first.gather.as_ref()?;
        let pair =
            Pair::new(plans, (gather, &messages[0]), (&messages[1], second_on.again()?, second.make.seq_num_at))?;
        layout.pairs.push(pair);
        Some(layout.pairs.len() - 1)
    }

    /// Updates of a list may be kept from now on.
    #[inline]
    pub(in super::super) fn open(&self, latest: &mut Latest, fields: &Fields) {
        debug_assert!(!latest.is_due(), "values that the list does not have");
        let layout = fields.layout();
        let is_known = (layout.wrapping_sub(self.first) as usize) < self.layouts.len();
        (latest.layout, latest.state) = if is_known { (layout, Held::Open) } else { (0, Held::Closed) };
    }

    /// Puts values that are kept into their list. False, and nothing has changed, if they go there by updates: see [`Self::begin_updates`].
    pub(in super::super) fn give(
        &mut self,
        latest: &mut Latest,
        fields: &mut Fields,
        seq_num: &mut Option<u32>,
    ) -> bool {
        debug_assert_eq!(fields.layout(), latest.layout, "the list has changed since values were kept");
        let is_given = self.gather(latest).is_some_and(|gather| gather.give(latest, fields, seq_num));
        if is_given {
            self.forget(latest);
        }
        is_given
    }

    /// Updates that do to a list what those did that are kept beside it. They are to be applied, and then [`Self::end_updates`] is due.
    pub(in super::super) fn begin_updates(&mut self, latest: &Latest) -> Updates {
        let mut updates = std::mem::take(&mut self.updates);
        updates.clear();
        if let Some(gather) = self.gather(latest) {
            gather.write_updates(latest, &mut updates);
        } else if let Some(pair) = self.pair(latest) {
            pair.write_updates(latest, &mut updates);
        }
        debug_assert_ne!(updates.messages().count(), 0, "values were kept for which nothing is planned");
        updates
    }

    /// The updates of [`Self::begin_updates`] are in the list.
    pub(in super::super) fn end_updates(&mut self, latest: &mut Latest, fields: &Fields, updates: Updates) {
        self.updates = updates;
        self.forget(latest);
        if latest.is_open() {
            self.open(latest, fields);
        }
    }

    /// How the values came to be kept, if they are of one make.
    fn gather(&self, latest: &Latest) -> Option<&Gather> {
        let layout = self.layouts.get(latest.layout.wrapping_sub(self.first) as usize)?;
        layout.plans.get(usize::from(latest.plan))?.gather.as_ref()
    }

    /// How the values came to be kept, if they are of two makes.
    fn pair(&self, latest: &Latest) -> Option<&Pair> {
        let layout = self.layouts.get(latest.layout.wrapping_sub(self.first) as usize)?;
        layout.pairs.get(usize::from(latest.plan).checked_sub(MAX_PLANS)?)
    }

    /// Values that are kept are of no use any more.
    pub fn forget(&mut self, latest: &mut Latest) {
        self.kept -= usize::from(latest.is_due());
        latest.state = if latest.is_open() { Held::Open } else { Held::Closed };
    }
}

/// Whether a value of one of these fields ripples to one of those.
fn ripples_into(fids: &[i16], those: &[i16], dictionary: &Dictionary) -> bool {
    let next_of = |fid: &i16| dictionary.field(*fid).and_then(FieldDef::ripples_to);
    let chain = |fid: &i16| std::iter::successors(next_of(fid), next_of).take(MAX_RIPPLE);
    fids.iter().flat_map(chain).any(|fid| those.contains(&fid))
}

#[cfg(test)]
mod tests {
    use super::super::tests::list;
    use super::*;
    use crate::DataType;
    use crate::image::Image;
    use crate::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
    use crate::wire::Writer;

    fn update(fields: &[(i16, &[u8])], seq_num: u32) -> Vec<u8> {
        let (body, container) = (list(fields), DataType::FIELD_LIST);
        let msg =
            UpdateMsg { container, body: &body, seq_num: Some(seq_num), ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        let mut buf = [0; 1_100];
        let mut w = Writer::new(&mut buf);
        msg.encode(&mut w).unwrap();
        w.written().to_vec()
    }

    fn item(plans: &mut Plans) -> (Image, Latest) {
        let (mut image, mut latest) = (Image::new(), Latest::default());
        let body = list(&[(1, b"bid."), (2, b"ask."), (3, b"last")]);
        let (container, flags) = (DataType::FIELD_LIST, RefreshFlags::REFRESH_COMPLETE);
        let refresh = RefreshMsg { container, flags, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
        image.refresh(&refresh, &plans.schema()).unwrap();
        image.note_layout(plans);
        image.open(&mut latest, plans);
        (image, latest)
    }

    /// As caches do: what cannot be kept is applied.
    fn apply(plans: &mut Plans, (image, latest): &mut (Image, Latest), message: &[u8]) -> bool {
        let is_kept = plans.keep(latest, message);
        if !is_kept {
            image.take_in(latest, plans).unwrap();
            image.update_planned(message, plans).unwrap();
            image.open(latest, plans);
        }
        is_kept
    }

    /// Quotes and trades, and a make that brings a field: all but the first one of each are kept, in whatever order they come.
    #[test]
    fn makes_that_take_turns_are_kept_together() {
        for last_brings in [[(3_i16, b"trad")].as_slice(), &[(1, b"BID."), (4, b"time")]] {
            let second: Vec<(i16, &[u8])> = last_brings.iter().map(|(fid, value)| (*fid, value.as_slice())).collect();
            let mut plans = Plans::new(None);
            let mut kept = Vec::new();
            for number in 0..4 {
                let mut item = item(&mut plans);
                for turn in 0..10_u32 {
                    let message = if (turn + number) % 2 == 0 {
                        update(&[(1, &turn.to_be_bytes()), (2, b"ASK.")], turn)
                    } else {
                        update(&second, turn)
                    };
                    kept.push(apply(&mut plans, &mut item, &message));
                }
                let (mut image, mut latest) = item;
                image.take_in(&mut latest, &mut plans).unwrap();
                assert_eq!((image.seq_num(), plans.kept()), (Some(9), 0));
            }
            assert!(kept[20..].iter().all(|kept| *kept), "{last_brings:?}: {kept:?}");
        }
    }

    /// A quote of 50 bytes of values, as feeds send them, and one in seventeen that has a time stamp in place of another field. The first items teach what is planned.
    #[test]
    fn a_time_stamp_finds_room_beside_a_quote_that_fills_a_line_of_memory() {
        let mut plans = Plans::new(None);
        let mut kept = Vec::new();
        for number in 0..6 {
            let mut item = item(&mut plans);
            for turn in 0..51_u32 {
                // None has the byte that partial texts begin with.
                let (bid, ask) = ((turn + 32).to_be_bytes(), [b'a' + turn as u8; 38]);
                let quote: [(i16, &[u8]); 3] = [(1, &bid), (2, &ask), (3, b"LAST")];
                let stamped: [(i16, &[u8]); 4] = [(1, &bid), (2, &ask), (4, b"TIMESTAM"), (5, b"XX")];
                let is_stamped = (turn + 5 * number) % 17 == 0;
                kept.push(apply(&mut plans, &mut item, &update(if is_stamped { &stamped } else { &quote }, turn)));
            }
            let (mut image, mut latest) = item;
            image.take_in(&mut latest, &mut plans).unwrap();
            let mut buf = [0; 200];
            let mut w = Writer::new(&mut buf);
            image.payload().unwrap().write(&mut w).unwrap();
            let last: [(i16, &[u8]); 5] =
                [(1, &[0, 0, 0, 82]), (2, &[b'a' + 50; 38]), (3, b"LAST"), (4, b"TIMESTAM"), (5, b"XX")];
            assert_eq!(w.written(), list(&last));
        }
        assert!(kept[204..].iter().all(|kept| *kept), "{kept:?}");
    }

    #[test]
    fn values_of_another_length_are_not_kept_together() {
        let mut plans = Plans::new(None);
        for _ in 0..3 {
            let mut item = item(&mut plans);
            for turn in 0..6 {
                let long: &[(i16, &[u8])] = if turn % 2 == 0 { &[(1, b"long value")] } else { &[(1, b"bid.")] };
                apply(&mut plans, &mut item, &update(long, turn));
            }
        }
        assert!(plans.layouts.iter().all(|layout| layout.pairs.is_empty()));
    }
}
