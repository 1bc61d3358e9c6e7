//! A market behind a provider: which streams watch which instrument, and the updates that they get.

use super::{ImagePart, ItemId, Items, Open, Post, Posted, Refusal, SessionId};
use crate::fields::{self, append, write_fields};
use crate::image::Overlay;
use crate::session::Nanos;
use crate::{Event, InstrumentId, MarketSource, Model, Payload};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{
    DataState, DataType, EncodeError, FieldList, MapAction, MapEncoder, MapHead, Primitive, Qos, SetScope, State,
    StateCode, peek,
};

/// A market source and its watchers.
pub struct Market<S> {
    source: S,
    service_id: u16,
    /// By instrument and model: see [`slot`].
    items: Vec<Item>,
    scratch: Vec<u8>,
    /// The names in the symbol list.
    symbols: Vec<String>,
    /// Events told to nobody, because the last watcher had just gone.
    pub unwatched: u64,
    /// Events told to watchers.
    pub told: u64,
    /// So many of the events to come are numbered, and not told.
    pub to_lose: u64,
}

#[derive(Debug, Default)]
struct Item {
    name: String,
    sequence: u32,
    watchers: Vec<Watcher>,
    /// Fields posted to it.
    posted: Option<Box<Overlay>>,
}

/// A stream of a session that watches an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watcher {
    session: SessionId,
    stream_id: i32,
}

/// Models of an instrument, side by side.
const MODELS: [Model; 4] = [Model::Price, Model::ByOrder, Model::ByPrice, Model::SymbolList];

/// The place of an item in the table.
fn slot(id: InstrumentId, model: Model) -> u32 {
    id.0 * MODELS.len() as u32 + model as u32
}

fn model_of(domain: Domain) -> Option<Model> {
    match domain {
        Domain::MARKET_PRICE => Some(Model::Price),
        Domain::MARKET_BY_ORDER => Some(Model::ByOrder),
        Domain::MARKET_BY_PRICE => Some(Model::ByPrice),
        Domain::SYMBOL_LIST => Some(Model::SymbolList),
        _ => None,
    }
}

fn domain_of(model: Model) -> Domain {
    match model {
        Model::Price => Domain::MARKET_PRICE,
        Model::ByOrder => Domain::MARKET_BY_ORDER,
        Model::ByPrice => Domain::MARKET_BY_PRICE,
        Model::SymbolList => Domain::SYMBOL_LIST,
    }
}

fn container_of(model: Model) -> DataType {
    if model == Model::Price { DataType::FIELD_LIST } else { DataType::MAP }
}

impl<S: MarketSource> Market<S> {
    /// A market without watchers, as the service of this id.
    pub fn new(source: S, service_id: u16) -> Self {
        Self {
            source,
            service_id,
            items: Vec::new(),
            scratch: vec![0; 64 * 1024],
            symbols: Vec::new(),
            unwatched: 0,
            told: 0,
            to_lose: 0,
        }
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Streams that are updated.
    pub fn streams(&self) -> usize {
        self.items.iter().map(|i| i.watchers.len()).sum()
    }

    /// When something will happen; nanoseconds since the market's start.
    pub fn due(&self) -> Option<Nanos> {
        self.source.due()
    }

    /// Lets the market go on; hands every update to every watcher: session and whole message. With a `stamp` (nanoseconds of
    /// the monotonic clock) market price updates end in a time stamp, from which latency can be told.
    pub fn advance(
        &mut self,
        now: Nanos,
        limit: usize,
        stamp: Option<Nanos>,
        deliver: &mut dyn FnMut(SessionId, &[u8]),
    ) {
        let Self { source, items, scratch, service_id, unwatched, told, to_lose, .. } = self;
        source.advance(now, limit, &mut |event| {
            let Some(item) = items.get_mut(slot(event.instrument, event.model) as usize) else { return };
            if item.watchers.is_empty() {
                *unwatched += 1;
                return;
            }
            item.sequence = item.sequence.wrapping_add(1);
            *told += 1;
            if let Some(posted) = &mut item.posted {
                posted.published(container_of(event.model), event.body);
            }
            if *to_lose > 0 {
                *to_lose -= 1;
                return;
            }
            let mut w = Writer::new(scratch);
            if write_event(&event, item, *service_id, stamp, &mut w).is_err() {
                return;
            }
            let message = w.into_written();
            for watcher in &item.watchers {
                peek::set_stream_id(message, watcher.stream_id);
                deliver(watcher.session, message);
            }
        });
    }

    /// Publishes what was posted: to every watcher, and in the images to come. False when there is no such item.
    pub fn post(&mut self, post: &Post, deliver: &mut dyn FnMut(SessionId, &[u8])) -> bool {
        let Some(model) = model_of(post.domain).filter(|m| *m != Model::SymbolList) else { return false };
        let Some(id) = self.source.find(&post.name).filter(|id| self.source.offers(*id, model)) else { return false };
        let item = self.item(id, model);
        if item.name.is_empty() {
            item.name.push_str(&post.name);
        }
        item.sequence = item.sequence.wrapping_add(1);
        if !matches!(post.what, Posted::Status(_)) {
            item.posted.get_or_insert_default().post(post.container, &post.body);
        }
        let mut message = Vec::new();
        append(&mut message, post.room(), |w| post.write(item.sequence, w));
        for watcher in &item.watchers {
            peek::set_stream_id(&mut message, watcher.stream_id);
            deliver(watcher.session, &message);
        }
        true
    }

    fn item(&mut self, id: InstrumentId, model: Model) -> &mut Item {
        let slot = slot(id, model) as usize;
        if self.items.len() <= slot {
            self.items.resize_with(slot + 1, Item::default);
        }
        &mut self.items[slot]
    }
}

fn write_event(
    event: &Event<'_>,
    item: &Item,
    service_id: u16,
    stamp: Option<Nanos>,
    w: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    let (domain, container) = (domain_of(event.model), container_of(event.model));
    match event.payload {
        Payload::Update(kind) => {
            let update = UpdateMsg {
                container,
                update_type: UpdateType(kind as u8),
                seq_num: Some(item.sequence),
                body: event.body,
                ..UpdateMsg::new(domain, 0)
            };
            match stamp {
                Some(nanos) if container == DataType::FIELD_LIST => {
                    update.encode_header(w)?;
                    write_stamped(event.body, nanos, w)
                }
                _ => update.encode(w),
            }
        }
        Payload::Typed(kind) => UpdateMsg {
            container,
            update_type: UpdateType(kind),
            seq_num: Some(item.sequence),
            body: event.body,
            ..UpdateMsg::new(domain, 0)
        }
        .encode(w),
        Payload::Status => match Msg::decode(event.body) {
            Ok(Msg::Status(status)) => {
                StatusMsg { domain, stream_id: 0, key: None, group_id: None, ..status }.encode(w)
            }
            _ => Err(EncodeError::Unrepresentable("a state that is none")),
        },
        Payload::NewImage => image(item, service_id, event, None).encode(w),
        Payload::ImagePart { part, more, data } => {
            let mut flags = RefreshFlags::NONE;
            flags.set(RefreshFlags::CLEAR_CACHE, part == 0);
            flags.set(RefreshFlags::REFRESH_COMPLETE, !more);
            let part_num = Some(part).filter(|_| event.model != Model::Price);
            let state = State { data, ..State::OPEN_OK };
            RefreshMsg { flags, state, ..image(item, service_id, event, part_num) }.encode(w)
        }
    }
}

/// An image that nobody asked for.
fn image<'a>(item: &'a Item, service_id: u16, event: &Event<'a>, part_num: Option<u16>) -> RefreshMsg<'a> {
    RefreshMsg {
        container: container_of(event.model),
        flags: RefreshFlags::REFRESH_COMPLETE.with(RefreshFlags::CLEAR_CACHE),
        seq_num: Some(item.sequence),
        state: State::OPEN_OK,
        qos: Some(Qos::REALTIME_TICK),
        key: Some(MsgKey { name_type: Some(1), ..MsgKey::item(service_id, item.name.as_bytes()) }),
        part_num,
        body: event.body,
        ..RefreshMsg::new(domain_of(event.model), 0)
    }
}

/// The item that all symbol lists are. Its names do not change while it is open.
const SYMBOLS: ItemId = ItemId(u32::MAX);
const SYMBOLS_PER_PART: usize = 200;

fn write_symbols<'n>(names: impl Iterator<Item = &'n String>, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let mut map = MapEncoder::begin(w, MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA))?;
    for name in names {
        map.entry(MapAction::ADD, &Primitive::Ascii(name.as_bytes()), |_| Ok(()))?;
    }
    map.finish()
}

/// Copies a field list and puts the time stamp behind it.
fn write_stamped(body: &[u8], nanos: Nanos, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let Ok(list) = FieldList::decode(body, &SetScope::default()) else { return w.bytes(body) };
    write_fields(w, |fields| {
        list.entries().flatten().for_each(|entry| fields.raw(entry.fid, entry.data));
        fields.raw(fields::TIM_TRK_1, &(nanos / 1_000).to_be_bytes());
    })
}

impl<S: MarketSource> Items for Market<S> {
    fn open(&mut self, open: Open<'_>) -> Result<ItemId, Refusal> {
        let not_found = |text: String| Refusal { code: StateCode::NOT_FOUND, text };
        if open.domain == Domain::SYMBOL_LIST {
            // Every list has all names; chains and directories of real markets begin like this.
            let known = open.name.starts_with("0#") || open.name.starts_with('_');
            return if known {
                self.symbols = self.source.symbols();
                Ok(SYMBOLS)
            } else {
                Err(not_found(format!("{:?} is no symbol list; 0#ALL is", open.name)))
            };
        }
        let model = model_of(open.domain).ok_or_else(|| not_found(format!("no items of domain {}", open.domain.0)))?;
        let Some(id) = self.source.find(open.name) else {
            if self.source.may_come(open.name) {
                let text = format!("the source has not told of {:?} so far", open.name);
                return Err(Refusal { code: StateCode::NOT_OPEN, text });
            }
            return Err(not_found(format!("{:?} is no instrument name of this source", open.name)));
        };
        if !self.source.offers(id, model) {
            return Err(not_found(format!("{} has no data of domain {}", open.name, open.domain.0)));
        }
        let item = self.item(id, model);
        if item.name.is_empty() {
            item.name.push_str(open.name);
        }
        if open.streaming {
            let first = item.watchers.is_empty();
            item.watchers.push(Watcher { session: open.session, stream_id: open.stream_id });
            if first {
                self.source.watch(id, model, true);
            }
        }
        Ok(ItemId(slot(id, model)))
    }

    fn image(&mut self, item: ItemId, _: Domain, part: usize, out: &mut Vec<u8>) -> ImagePart {
        if item == SYMBOLS {
            let skip = part * SYMBOLS_PER_PART;
            let names = self.symbols.iter().skip(skip).take(SYMBOLS_PER_PART);
            append(out, SYMBOLS_PER_PART * 48, |w| write_symbols(names, w));
            let more = skip + SYMBOLS_PER_PART < self.symbols.len();
            return ImagePart { container: DataType::MAP, sequence: None, data: DataState::OK, more };
        }
        let model = MODELS[item.0 as usize % MODELS.len()];
        let (start, id) = (out.len(), InstrumentId(item.0 / MODELS.len() as u32));
        let more = self.source.image(id, model, part, out);
        // Of an image in parts the last one is the place where what was posted goes.
        if let Some(posted) = self.items[item.0 as usize].posted.as_ref().filter(|_| !more) {
            posted.apply(container_of(model), start, out);
        }
        let sequence = Some(self.items[item.0 as usize].sequence);
        ImagePart { container: container_of(model), sequence, data: self.source.data_state(id, model), more }
    }

    fn close(&mut self, item: ItemId, session: SessionId, stream_id: i32) {
        if item == SYMBOLS {
            return;
        }
        let watchers = &mut self.items[item.0 as usize].watchers;
        let Some(at) = watchers.iter().position(|w| *w == Watcher { session, stream_id }) else { return };
        watchers.swap_remove(at);
        if watchers.is_empty() {
            let model = MODELS[item.0 as usize % MODELS.len()];
            self.source.watch(InstrumentId(item.0 / MODELS.len() as u32), model, false);
        }
    }

    fn name(&self, item: ItemId) -> Option<String> {
        self.items.get(item.0 as usize).map(|item| item.name.clone()).filter(|name| !name.is_empty())
    }
}
