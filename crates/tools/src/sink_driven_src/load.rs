//! The load generator: which items are open on a connection, and the updates for them.
//!
//! What an item publishes is its [`Series`]: an image and a few update messages, of which only the sequence number and the
//! time stamp change. Updates go round over all open items, so each gets its share and a client can tell a loss by the
//! sequence numbers.

use super::catalogue::Catalogue;
use super::item_index::{ItemIndex, KeyHash};
use super::order::{Order, Places};
use super::series::Series;
use feed::fields::append;
use feed::image::Overlay;
use feed::pace::{Pacer, Rate, Shape};
use feed::provider::{ImagePart, ItemId, Items, Open, Post, Posted, Refusal, SessionId};
use feed::random::Random;
use measure::latency::Latency;
use measure::observer::{Observer, id_of, item_key};
use rwf::msg::Domain;
use rwf::{DataState, StateCode};
use std::collections::HashMap;
use std::sync::Arc;

/// The items open on one connection, and the traffic for them.
pub struct Load {
    config: LoadConfig,
    catalogue: Arc<Catalogue>,
    /// This connection's own copies: numbers and stamps are written into them.
    series: Vec<Series>,
    names: ItemIndex,
    items: Vec<Item>,
    /// The names of the items.
    item_names: Vec<Box<str>>,
    /// Streams to update, in the order in which they were opened.
    streams: Vec<Stream>,
    places: Places,
    /// Decides where a stream goes when they are in a random order.
    order: Random,
    pacer: Pacer,
    stamps: Stamps,
    /// What was posted, by item.
    posted: HashMap<u32, Overlay>,
    /// So many of the updates to come are numbered, and not sent.
    to_lose: u64,
    /// Bytes of the longest update.
    longest: usize,
    sent: u64,
    skipped: u64,
    lateness: Latency,
    /// Nothing was open at the last turn.
    idle: bool,
}

/// What traffic to make.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// In bursts, or evenly.
    pub shape: Shape,
    /// From the start.
    pub rate: Rate,
    /// Updates a second with a time stamp.
    pub stamps_per_second: f64,
    /// The item that carries them, when it is open.
    pub stamp_item: Option<String>,
    /// Every update carries a time stamp.
    pub stamp_all: bool,
    /// Every so manieth update carries one, if not 0. In contrast to so many a second, a late burst has its full weight.
    pub stamp_every: u32,
    /// Which item is next.
    pub order: Order,
}

/// Kept small: a round over many items is as fast as memory gives them.
#[derive(Debug)]
struct Item {
    sequence: u32,
    series: u32,
    /// Updates of its series so far; not the sequence number, because posts have numbers too.
    updates: u32,
    /// What stands for it in the ids of an observer.
    key: u32,
    /// Its place in `streams`; the last one opened, when there are several.
    at: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    id: i32,
    item: u32,
}

/// When the next stamped update is due, and where in its burst it goes.
#[derive(Debug)]
struct Stamps {
    every: Option<u64>,
    next_at: u64,
    random: Random,
    /// Updates until the next stamp, where every so manieth has one.
    left: u32,
    /// Item that carries them.
    item: Option<u32>,
    /// The update that was to carry one had no place for it: the next one that has carries it.
    overdue: bool,
}

/// Items that are looked at ahead.
const AHEAD: usize = 16;
/// Items from which on that pays: fewer lie in the caches of the processor.
const MANY: usize = 32 << 10;

/// Seed of the random order.
const ORDER: u64 = 1;

/// An update that could not be sent for so long (a second) is not sent at all.
const BEHIND_MAX: u64 = 1_000_000_000;

impl Load {
    /// A connection without open items; they are those of the catalogue.
    pub fn new(config: LoadConfig, catalogue: Arc<Catalogue>, now: u64) -> Self {
        let per_second = if config.stamp_all { 0.0 } else { config.stamps_per_second };
        let series = catalogue.series().to_vec();
        Self {
            catalogue,
            longest: series.iter().map(Series::longest).max().unwrap_or(0).max(1),
            series,
            names: ItemIndex::default(),
            items: Vec::new(),
            item_names: Vec::new(),
            streams: Vec::new(),
            places: Places::new(config.order.clone()),
            order: Random::new(ORDER),
            pacer: Pacer::new(config.shape, config.rate, now),
            stamps: Stamps {
                every: (per_second > 0.0).then(|| (1e9 / per_second) as u64),
                next_at: now,
                random: Random::new(now),
                left: 0,
                item: None,
                overdue: false,
            },
            posted: HashMap::new(),
            to_lose: 0,
            sent: 0,
            skipped: 0,
            lateness: Latency::new(),
            idle: true,
            config,
        }
    }

    /// So many of the updates to come are numbered, and not sent.
    pub fn lose(&mut self, count: u64) {
        self.to_lose += count;
    }

    /// Updates sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Updates that were given up, because the connection did not take them for a second.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Streams that are updated.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The rate in force.
    pub fn rate(&self) -> Rate {
        self.pacer.rate()
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, rate: Rate, now: u64) {
        self.pacer.set_rate(rate, now);
    }

    /// How late updates went out after their intended time; taking it starts anew.
    pub fn take_lateness(&mut self) -> Latency {
        std::mem::take(&mut self.lateness)
    }

    /// When an update is due; `None` while there is nothing to send.
    pub fn due_at(&self, now: u64) -> Option<u64> {
        if self.streams.is_empty() { None } else { self.pacer.next(now) }
    }

    /// Pushes the updates that are due, at most `bytes` of them: message and stream id.
    #[inline]
    pub fn push_due(&mut self, now: u64, bytes: usize, push: impl FnMut(&[u8], i32)) -> u64 {
        self.push_observed(now, bytes, None, push)
    }

    /// As [`Self::push_due`]; the observer is told of each update immediately before it is pushed.
    #[inline]
    pub fn push_observed(
        &mut self,
        now: u64,
        bytes: usize,
        mut observer: Option<&mut Observer>,
        mut push: impl FnMut(&[u8], i32),
    ) -> u64 {
        let count = self.due_now(now, bytes);
        if count == 0 {
            return 0;
        }
        let stamp_at = self.stamp_place(now, count);
        let smooth = self.config.shape == Shape::Smooth;
        self.lateness.record(now.saturating_sub(self.pacer.next(now).unwrap_or(now)));
        let mut sent = 0;
        self.places.prepare(self.streams.len());
        let looks_ahead = self.items.len() >= MANY;
        for n in 0..count {
            if looks_ahead && n.is_multiple_of(AHEAD as u64) && !self.streams.is_empty() {
                self.look_ahead(if n == 0 { 0 } else { AHEAD });
            }
            let wanted = stamp_at == Some(n) || self.stamps.counts_out(self.config.stamp_every) || self.stamps.overdue;
            let Some(at) = self.next_stream(wanted) else { break };
            let stream = self.streams[at];
            let item = &mut self.items[stream.item as usize];
            let series = &mut self.series[item.series as usize];
            let step = series.step(item.updates);
            item.updates = item.updates.wrapping_add(1);
            let is_over = !self.catalogue.cycle && item.updates as usize == series.len();
            item.sequence = item.sequence.wrapping_add(1);
            let with_stamp = if wanted { series.stamped[step].as_mut() } else { None };
            self.stamps.overdue = wanted && with_stamp.is_none();
            let carries_stamp = with_stamp.is_some() || self.config.stamp_all;
            let template = with_stamp.unwrap_or(&mut series.plain[step]);
            let intended = if observer.is_some() || (carries_stamp && smooth) {
                self.pacer.take(now)
            } else {
                self.pacer.skip(1);
                now
            };
            if carries_stamp {
                // In bursts the stamp is the time of posting, as in the original; evenly paced, the intended time.
                template.stamped_at(if smooth { intended } else { now });
            }
            if !self.posted.is_empty()
                && let Some(overlay) = self.posted.get_mut(&stream.item)
            {
                overlay.published(template.container(), template.body());
            }
            sent += 1;
            if self.to_lose > 0 {
                self.to_lose -= 1;
            } else {
                if let Some(observer) = &mut observer {
                    observer.sent(id_of(item.key, item.sequence), intended);
                }
                push(template.numbered(item.sequence).bytes(), stream.id);
            }
            if is_over {
                self.take_out(at);
            }
        }
        self.sent += sent;
        sent
    }

    /// Asks for the items of the streams that come after the next `from`, up to those of two groups.
    #[inline]
    fn look_ahead(&self, from: usize) {
        for ahead in from..2 * AHEAD {
            let stream = self.streams[self.places.peek(ahead, self.streams.len())];
            lines::fetch(&[self.items.as_ptr().wrapping_add(stream.item as usize).cast()]);
        }
    }

    /// Updates that are due and fit; what could not be sent for too long is given up.
    #[inline]
    fn due_now(&mut self, now: u64, bytes: usize) -> u64 {
        if self.streams.is_empty() {
            return 0;
        }
        if std::mem::take(&mut self.idle) {
            // Nobody listened until now: what was due meanwhile is not sent all at once.
            self.pacer.set_rate(self.pacer.rate(), now);
        }
        if self.pacer.next(now).is_some_and(|at| now.saturating_sub(at) > BEHIND_MAX) {
            // A rate must stay a rate: what could not be sent for so long is given up, and told.
            self.skipped += self.pacer.due(now);
            self.pacer.set_rate(self.pacer.rate(), now);
        }
        self.pacer.due(now).min((bytes / self.longest) as u64)
    }

    /// Changes places of the last stream with any of them: after all opens, each order is as likely as any other.
    fn put_anywhere(&mut self) {
        let last = self.streams.len() - 1;
        let at = self.order.below(self.streams.len() as u32) as usize;
        self.streams.swap(at, last);
        for (at, before) in [(last, at), (at, last)] {
            let place = &mut self.items[self.streams[at].item as usize].at;
            // An item that is open several times knows the last of its places.
            if *place == Some(before as u32) {
                *place = Some(at as u32);
            }
        }
    }

    /// Which of the next `count` updates carries the time stamp: a random one when a stamp is due.
    fn stamp_place(&mut self, now: u64, count: u64) -> Option<u64> {
        let every = self.stamps.every?;
        if now < self.stamps.next_at {
            return None;
        }
        // The schedule of the stamps is kept, but a pause is not made up for.
        self.stamps.next_at = (self.stamps.next_at + every).max(now.saturating_sub(every));
        Some(u64::from(self.stamps.random.below(count.min(u64::from(u32::MAX)) as u32)))
    }

    /// The place of the stream whose turn it is; `None` when none is left.
    #[inline]
    fn next_stream(&mut self, stamped: bool) -> Option<usize> {
        if stamped
            && let Some(item) = self.stamps.item
            && let Some(at) = self.items[item as usize].at
        {
            return Some(at as usize);
        }
        (!self.streams.is_empty()).then(|| self.places.take(self.streams.len()))
    }

    /// Takes a stream out of the round.
    fn take_out(&mut self, at: usize) {
        let stream = self.streams.swap_remove(at);
        self.idle |= self.streams.is_empty();
        let item = &mut self.items[stream.item as usize];
        if item.at == Some(at as u32) {
            item.at = None;
        }
        if let Some(moved) = self.streams.get(at) {
            self.items[moved.item as usize].at = Some(at as u32);
        }
    }

    /// Publishes what was posted, to those who watch the item here; keeps it for images. False when there is no such item.
    pub fn post(&mut self, post: &Post, push: &mut dyn FnMut(&[u8])) -> bool {
        let Ok(item) = self.item(post.domain, &post.name) else { return false };
        if !matches!(post.what, Posted::Status(_)) {
            self.posted.entry(item).or_default().post(post.container, &post.body);
        }
        let sequence = self.items[item as usize].sequence.wrapping_add(1);
        self.items[item as usize].sequence = sequence;
        let mut message = Vec::new();
        append(&mut message, post.room(), |w| post.write(sequence, w));
        for stream in self.streams.iter().filter(|stream| stream.item == item) {
            rwf::peek::set_stream_id(&mut message, stream.id);
            push(&message);
        }
        true
    }

    /// The item of a name; made when it is new.
    fn item(&mut self, domain: Domain, name: &str) -> anyhow::Result<u32> {
        let hash = KeyHash::new(domain, name);
        let domain_of = |item: u32| self.series[self.items[item as usize].series as usize].domain;
        let is_same = |item: u32| *self.item_names[item as usize] == *name && domain_of(item) == domain;
        if let Some(known) = self.names.find(hash, is_same) {
            return Ok(known);
        }
        let series = self.catalogue.find(domain, name)?;
        let item = self.items.len() as u32;
        self.items.push(Item { sequence: 0, series, updates: 0, key: item_key(name), at: None });
        self.item_names.push(name.into());
        if self.config.stamp_item.as_deref() == Some(name) {
            self.stamps.item = Some(item);
        }
        self.names.insert(hash, item);
        Ok(item)
    }
}

impl Stamps {
    /// Counts an update; whether it is one of every so many.
    #[inline]
    fn counts_out(&mut self, every: u32) -> bool {
        if every == 0 {
            return false;
        }
        let due = self.left == 0;
        self.left = if due { every - 1 } else { self.left - 1 };
        due
    }
}

impl Items for Load {
    fn open(&mut self, open: Open<'_>) -> Result<ItemId, Refusal> {
        let item = self
            .item(open.domain, open.name)
            .map_err(|e| Refusal { code: StateCode::NOT_FOUND, text: e.to_string() })?;
        let entry = &mut self.items[item as usize];
        let series = &self.series[entry.series as usize];
        let is_over = !self.catalogue.cycle && entry.updates as usize >= series.len();
        if open.streaming && !series.is_empty() && !is_over {
            entry.at = Some(self.streams.len() as u32);
            self.streams.push(Stream { id: open.stream_id, item });
            if self.config.order.is_mixed() {
                self.put_anywhere();
            }
        }
        Ok(ItemId(item))
    }

    fn image(&mut self, item: ItemId, _: Domain, part: usize, out: &mut Vec<u8>) -> ImagePart {
        let entry = &self.items[item.0 as usize];
        let series = &mut self.series[entry.series as usize];
        let start = out.len();
        let more = series.append_image(entry.updates, part, out);
        let container = series.container();
        // Of an image in parts the last one is the place where what was posted goes.
        if let Some(overlay) = self.posted.get(&item.0).filter(|_| !more) {
            overlay.apply(container, start, out);
        }
        ImagePart { container, sequence: Some(entry.sequence), data: DataState::OK, more }
    }

    fn close(&mut self, item: ItemId, _: SessionId, stream_id: i32) {
        let known = self.items[item.0 as usize].at.map(|at| at as usize);
        let at = known
            .filter(|&at| self.streams[at].id == stream_id)
            .or_else(|| self.streams.iter().position(|s| s.id == stream_id && s.item == item.0));
        if let Some(at) = at {
            self.take_out(at);
        }
    }

    fn name(&self, item: ItemId) -> Option<String> {
        self.item_names.get(item.0 as usize).map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::stamp;
    use rwf::msg::Msg;

    const SECOND: u64 = 1_000_000_000;

    fn load(rate: f64, stamps: f64, item: Option<&str>) -> Load {
        let config = LoadConfig {
            shape: Shape::Bursts { per_second: 1_000 },
            rate: Rate::PerSecond(rate),
            stamps_per_second: stamps,
            stamp_item: item.map(str::to_owned),
            stamp_all: false,
            stamp_every: 0,
            order: Order::Opened,
        };
        Load::new(config, Arc::new(Catalogue::reference(85, false).unwrap()), 0)
    }

    fn open(load: &mut Load, name: &str, stream_id: i32) -> ItemId {
        let domain = Domain::MARKET_PRICE;
        load.open(Open { session: SessionId(0), stream_id, service: 1, domain, name, streaming: true }).unwrap()
    }

    #[test]
    fn a_shuffled_round_has_every_stream_once_and_mixes_them() {
        let plain = load(1_000.0, 0.0, None);
        let config = LoadConfig { order: Order::Random, ..plain.config };
        let mut load = Load::new(config, plain.catalogue, 0);
        let items: Vec<ItemId> = (0..1_000).map(|n| open(&mut load, &format!("RDT{n}"), n)).collect();
        let round: Vec<i32> = load.streams.iter().map(|s| s.id).collect();
        let mut sorted = round.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1_000).collect::<Vec<_>>());
        // Of each hundred in a row, about half come from the first half of the opens.
        for part in round.chunks(100) {
            let early = part.iter().filter(|id| **id < 500).count();
            assert!((25..=75).contains(&early), "{early} of a hundred");
        }
        for (n, item) in items.iter().enumerate() {
            assert_eq!(load.items[item.0 as usize].at.map(|at| load.streams[at as usize].id), Some(n as i32));
        }
        load.close(items[7], SessionId(0), 7);
        assert!(load.open_streams() == 999 && load.streams.iter().all(|s| s.id != 7));
    }

    fn run(load: &mut Load, until: u64) -> Vec<(Vec<u8>, i32)> {
        let mut sent = Vec::new();
        let mut now = 0;
        load.push_due(now, 0, |_, _| {});
        while now < until {
            now += SECOND / 1_000;
            load.push_due(now, 1 << 20, |m, stream| sent.push((m.to_vec(), stream)));
        }
        sent
    }

    #[test]
    fn updates_go_round_and_are_numbered_for_each_item() {
        let mut load = load(10_000.0, 0.0, None);
        for n in 0..7 {
            open(&mut load, &format!("RDT{n}"), 100 + n);
        }
        let sent = run(&mut load, SECOND);
        assert_eq!((sent.len(), load.sent()), (10_000, 10_000));
        let mut expected = [0u32; 7];
        for (n, (message, stream)) in sent.iter().enumerate() {
            assert_eq!(*stream, 100 + (n % 7) as i32);
            let Ok(Msg::Update(update)) = Msg::decode(message) else { panic!("no update") };
            expected[n % 7] += 1;
            assert_eq!(update.seq_num, Some(expected[n % 7]));
        }
    }

    #[test]
    fn ten_stamps_a_second_go_to_the_chosen_item() {
        let mut load = load(5_000.0, 10.0, Some("RTRSY.O"));
        for (n, name) in ["A", "B", "RTRSY.O", "C"].into_iter().enumerate() {
            open(&mut load, name, n as i32);
        }
        let sent = run(&mut load, 10 * SECOND);
        let stamped: Vec<i32> = sent.iter().filter(|(m, _)| stamp::find(m).is_some()).map(|(_, s)| *s).collect();
        assert!((99..=101).contains(&stamped.len()), "{}", stamped.len());
        assert!(stamped.iter().all(|&s| s == 2));
        assert_eq!(sent.len(), 50_000, "stamped updates count as updates");
    }

    #[test]
    fn every_seventeenth_update_is_stamped_however_late_it_is() {
        let mut load = load(10_000.0, 0.0, None);
        load.config.stamp_every = 17;
        open(&mut load, "A", 1);
        open(&mut load, "B", 2);
        let sent = run(&mut load, SECOND / 2);
        for (n, (message, _)) in sent.iter().enumerate() {
            assert_eq!(stamp::find(message).is_some(), n % 17 == 0, "update {n}");
        }
        assert_eq!(sent.len(), 5_000);
    }

    #[test]
    fn a_closed_stream_gets_nothing_and_the_others_all() {
        let mut load = load(1_000.0, 0.0, None);
        let items: Vec<ItemId> = (0..4).map(|n| open(&mut load, &format!("RDT{n}"), n)).collect();
        load.close(items[1], SessionId(0), 1);
        load.close(items[3], SessionId(0), 3);
        let sent = run(&mut load, SECOND);
        assert_eq!(sent.len(), 1_000);
        assert!(sent.iter().all(|(_, s)| [0, 2].contains(s)));
        load.close(items[0], SessionId(0), 0);
        load.close(items[2], SessionId(0), 2);
        assert_eq!((run(&mut load, SECOND).len(), load.open_streams(), load.due_at(5)), (0, 0, None));
    }

    #[test]
    fn what_was_due_long_ago_is_given_up_and_counted() {
        let mut load = load(1_000.0, 0.0, None);
        load.push_due(0, 0, |_, _| {});
        open(&mut load, "A", 1);
        assert_eq!(load.push_due(SECOND / 100, 1 << 20, |_, _| {}), 0, "nobody listened before");
        assert_eq!(load.push_due(SECOND / 2, 1 << 20, |_, _| {}), 490, "half a second late is sent");
        // Three seconds in which the connection took nothing.
        assert_eq!(load.push_due(SECOND / 2 + 3 * SECOND, 1 << 20, |_, _| {}), 0);
        assert_eq!((load.skipped(), load.sent()), (3_000, 490));
        assert_eq!(
            load.push_due(SECOND / 2 + 3 * SECOND + SECOND / 10, 1 << 20, |_, _| {}),
            100,
            "the rate is the rate"
        );
    }

    #[test]
    fn lost_updates_are_numbered_and_not_sent() {
        let mut load = load(1_000.0, 0.0, None);
        open(&mut load, "A", 1);
        run(&mut load, SECOND / 100);
        load.lose(5);
        let sent = run(&mut load, SECOND / 50);
        let Ok(Msg::Update(first)) = Msg::decode(&sent[0].0) else { panic!("no update") };
        assert_eq!((sent.len(), first.seq_num), (5, Some(16)));
    }

    #[test]
    fn updates_that_do_not_begin_again_end_and_the_image_keeps_them() {
        let text = "{\"Type\":\"Refresh\",\"ID\":5,\"Key\":{\"Name\":\"A\"},\"Fields\":{\"BID\":1}}\n\
            {\"Type\":\"Update\",\"ID\":5,\"Fields\":{\"BID\":2}}\n{\"Type\":\"Update\",\"ID\":5,\"Fields\":{\"ASK\":3}}";
        let file = feed::datafile::DataFile::parse(text, &rwf::dictionary::Dictionary::builtin()).unwrap();
        let catalogue = Catalogue::of_file(&file, "f", None, false, 74, false).unwrap();
        let config = LoadConfig { rate: Rate::PerSecond(100.0), ..load(1.0, 0.0, None).config };
        let mut load = Load::new(config, Arc::new(catalogue), 0);
        let item = open(&mut load, "A", 1);
        let image = |load: &mut Load| {
            let mut out = Vec::new();
            let part = load.image(item, Domain::MARKET_PRICE, 0, &mut out);
            (part.sequence, out)
        };
        let before = image(&mut load);
        assert_eq!(run(&mut load, SECOND).len(), 2);
        assert_eq!((load.open_streams(), load.due_at(0)), (0, None));
        let after = image(&mut load);
        assert_eq!((before.0, after.0), (Some(0), Some(2)));
        assert!(after.1.len() > before.1.len(), "the second field is there");
        load.close(item, SessionId(0), 1);
    }

    #[test]
    fn what_is_posted_reaches_the_watchers_and_the_image() {
        let mut load = load(1_000.0, 0.0, None);
        let item = open(&mut load, "A", 7);
        open(&mut load, "B", 8);
        let mut body = Vec::new();
        feed::fields::append_fields(&mut body, |w| w.uint(-77, 5));
        let user = rwf::msg::PostUserInfo { addr: 1, id: 2 };
        let what = Posted::Update(rwf::msg::UpdateType::TRADE);
        let container = rwf::DataType::FIELD_LIST;
        let post = Post { domain: Domain::MARKET_PRICE, name: "A".to_owned(), what, container, body, user };
        let mut got = Vec::new();
        assert!(load.post(&post, &mut |m| got.push(m.to_vec())));
        let [message] = &got[..] else { panic!("one message") };
        let Ok(Msg::Update(update)) = Msg::decode(message) else { panic!("no update") };
        assert_eq!((update.stream_id, update.seq_num, update.post_user_info), (7, Some(1), Some(user)));
        let mut image = Vec::new();
        load.image(item, Domain::MARKET_PRICE, 0, &mut image);
        let list = rwf::FieldList::decode(&image, &rwf::SetScope::default()).unwrap();
        assert!(list.entries().flatten().any(|e| e.fid == -77));
        let refused = Post { domain: Domain(200), ..post };
        assert!(!load.post(&refused, &mut |_| panic!("nobody watches")));
    }

    #[test]
    fn a_bounded_turn_leaves_the_rest_due() {
        let mut load = load(1_000_000.0, 0.0, None);
        open(&mut load, "A", 1);
        let (mut turns, mut total) = (0, load.push_due(0, 0, |_, _| {}));
        while total < 1_000 {
            total += load.push_due(SECOND / 1_000, 85 * 100, |_, _| {});
            turns += 1;
        }
        assert_eq!((total, turns), (1_000, 10));
    }
}
