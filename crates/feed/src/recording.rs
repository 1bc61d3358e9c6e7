//! A recording as a market source: the messages of a data file with times, played again as they came.

use super::datafile::DataFile;
use super::image::Image;
use super::replay::ReplaySpeed;
use super::replay::market::ReplayConfig;
use super::session::Nanos;
use super::{Event, InstrumentId, MarketSource, Model, Payload};
use rwf::msg::{Domain, Msg, RefreshFlags};
use rwf::{DataState, DataType};
use std::collections::{BTreeMap, HashMap};

/// A recording, and how far it is played.
pub struct Recording {
    config: ReplayConfig,
    names: Vec<String>,
    by_name: HashMap<String, u32>,
    items: BTreeMap<(u32, u8), Item>,
    events: Vec<Recorded>,
    next: usize,
    /// Caller's time at which the recording began.
    started_at: Nanos,
    /// Messages of the file that cannot be played.
    skipped: usize,
    watched: usize,
    payload: Vec<u8>,
}

struct Item {
    /// The image at the beginning, and now.
    first: Image,
    now: Image,
    /// Its refresh comes in parts, and this is not the last.
    is_partial: bool,
    /// The item shows its first image, which was not played yet: when it is, nobody needs it again.
    untouched: bool,
    /// The recorded state.
    data: DataState,
    watched: bool,
}

struct Recorded {
    at: Nanos,
    item: (u32, u8),
    message: Vec<u8>,
}

/// The length of a recording of one moment.
const SHORTEST: Nanos = 1_000_000_000;

const MODELS: [Model; 3] = [Model::Price, Model::ByOrder, Model::ByPrice];

fn model_of(domain: Domain) -> Option<Model> {
    match domain {
        Domain::MARKET_PRICE => Some(Model::Price),
        Domain::MARKET_BY_ORDER => Some(Model::ByOrder),
        Domain::MARKET_BY_PRICE => Some(Model::ByPrice),
        _ => None,
    }
}

fn container_of(model: Model) -> DataType {
    if model == Model::Price { DataType::FIELD_LIST } else { DataType::MAP }
}

impl Recording {
    /// A recording that begins at 0. Items of other domains than market price and the two books, and items without a name,
    /// are left out; [`Self::skipped`] counts their messages.
    pub fn new(file: DataFile, config: ReplayConfig) -> Self {
        let mut recording = Self {
            config,
            names: Vec::new(),
            by_name: HashMap::new(),
            items: BTreeMap::new(),
            events: Vec::new(),
            next: 0,
            started_at: 0,
            skipped: file.skipped,
            watched: 0,
            payload: Vec::new(),
        };
        let DataFile { items, events, .. } = file;
        for event in events {
            let item = &items[event.item];
            let (Some(name), Some(model)) = (&item.name, model_of(item.domain)) else {
                recording.skipped += 1;
                continue;
            };
            let id = recording.id_of(name);
            let key = (id, model as u8);
            recording.items.entry(key).or_insert_with(|| Item::new(model));
            recording.events.push(Recorded { at: event.at.unwrap_or(0), item: key, message: event.message });
        }
        // Sessions that were recorded side by side may not be in order.
        recording.events.sort_by_key(|event| event.at);
        recording.find_first_images();
        recording
    }

    /// Messages of the file that cannot be played.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Names that it plays.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn id_of(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// An item that is opened before its first image was played shows that image.
    fn find_first_images(&mut self) {
        let mut complete = std::collections::HashSet::new();
        for event in &self.events {
            let (Some(item), Ok(Msg::Refresh(refresh))) =
                (self.items.get_mut(&event.item), Msg::decode(&event.message))
            else {
                continue;
            };
            if complete.contains(&event.item) {
                continue;
            }
            item.take_refresh(refresh.container, refresh.flags, refresh.body);
            if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
                complete.insert(event.item);
            }
        }
        for item in self.items.values_mut() {
            item.begin_at(item.now.clone());
        }
    }

    fn due_at(&self, at: Nanos) -> Nanos {
        match self.config.pace {
            ReplaySpeed::Unpaced => 0,
            ReplaySpeed::Scaled(scale) => self.started_at + (at as f64 / scale) as Nanos,
        }
    }

    /// Plays the next event; whether it was told.
    fn step(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> bool {
        let event = &self.events[self.next];
        self.next += 1;
        let Some(item) = self.items.get_mut(&event.item) else { return false };
        let model = MODELS[usize::from(event.item.1).min(MODELS.len() - 1)];
        let mut tell = |payload, body: &[u8]| {
            if item.watched {
                sink(Event { instrument: InstrumentId(event.item.0), model, payload, body });
            }
            item.watched
        };
        match Msg::decode(&event.message) {
            Ok(Msg::Update(update)) if update.container == container_of(model) => {
                item.untouched = false;
                item.now.apply(update.container, update.body);
                tell(Payload::Typed(update.update_type.0), update.body)
            }
            Ok(Msg::Refresh(refresh)) if refresh.container == container_of(model) => {
                item.take_refresh(refresh.container, refresh.flags, refresh.body);
                if item.is_partial {
                    return false;
                }
                item.data = refresh.state.data;
                let is_known = std::mem::take(&mut item.untouched) && item.now == item.first;
                if is_known || !item.watched {
                    return false;
                }
                self.payload.clear();
                item.now.append(&mut self.payload);
                sink(Event {
                    instrument: InstrumentId(event.item.0),
                    model,
                    payload: Payload::NewImage,
                    body: &self.payload,
                });
                true
            }
            // The end of a recorded stream is not the end of the streams here.
            Ok(Msg::Status(status)) => match status.state.filter(|state| !state.stream.is_final()) {
                Some(state) => {
                    item.data = state.data;
                    tell(Payload::Status, &event.message)
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Begins again: every watched item gets its first image.
    fn restart(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        self.next = 0;
        self.started_at = now;
        let mut told = 0;
        for (&(id, model), item) in &mut self.items {
            item.begin_at(item.first.clone());
            if item.watched {
                self.payload.clear();
                item.now.append(&mut self.payload);
                let model = MODELS[usize::from(model).min(MODELS.len() - 1)];
                let payload = Payload::NewImage;
                sink(Event { instrument: InstrumentId(id), model, payload, body: &self.payload });
                told += 1;
            }
        }
        told
    }
}

impl Item {
    fn new(model: Model) -> Self {
        let empty = Image::of(container_of(model), &[]);
        let data = DataState::OK;
        Self { first: empty.clone(), now: empty, is_partial: false, untouched: true, data, watched: false }
    }

    fn begin_at(&mut self, first: Image) {
        self.now = first.clone();
        self.first = first;
        (self.is_partial, self.untouched, self.data) = (false, true, DataState::OK);
    }

    fn take_refresh(&mut self, container: DataType, flags: RefreshFlags, body: &[u8]) {
        if flags.contains(RefreshFlags::CLEAR_CACHE) && !self.is_partial {
            self.now = Image::of(container, body);
        } else {
            self.now.apply(container, body);
        }
        self.is_partial = !flags.contains(RefreshFlags::REFRESH_COMPLETE);
    }
}

impl MarketSource for Recording {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        self.by_name.get(name).copied().map(InstrumentId)
    }

    fn offers(&self, id: InstrumentId, model: Model) -> bool {
        self.items.contains_key(&(id.0, model as u8))
    }

    fn image(&mut self, id: InstrumentId, model: Model, _: usize, out: &mut Vec<u8>) -> bool {
        if let Some(item) = self.items.get(&(id.0, model as u8)) {
            item.now.append(out);
        }
        false
    }

    fn data_state(&self, id: InstrumentId, model: Model) -> DataState {
        self.items.get(&(id.0, model as u8)).map_or(DataState::OK, |item| item.data)
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        if let Some(item) = self.items.get_mut(&(id.0, model as u8)) {
            let before = std::mem::replace(&mut item.watched, on);
            self.watched = self.watched + usize::from(on) - usize::from(before);
        }
    }

    fn due(&self) -> Option<Nanos> {
        if self.watched == 0 && self.config.pace == ReplaySpeed::Unpaced {
            return None;
        }
        match self.events.get(self.next) {
            Some(event) => Some(self.due_at(event.at)),
            None if self.config.repeat => {
                let end = self.events.last().map_or(0, |event| event.at);
                let pause = if self.config.pace == ReplaySpeed::Unpaced { 0 } else { self.config.pause };
                // A recording without a length would be played without end in no time.
                let pause = if end == 0 { pause.max(SHORTEST) } else { pause };
                Some(self.due_at(end) + pause)
            }
            None => None,
        }
    }

    fn symbols(&self) -> Vec<String> {
        self.names.clone()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let (mut told, mut silent) = (0, 0);
        while told + silent / 16 < limit && self.due().is_some_and(|at| at <= now) {
            let count =
                if self.next < self.events.len() { usize::from(self.step(sink)) } else { self.restart(now, sink) };
            told += count;
            silent += usize::from(count == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SECOND;
    use rwf::dictionary::Dictionary;

    const FILE: &str = r#"
{"at":0,"message":{"ID":5,"Type":"Refresh","Key":{"Name":"IBM.N"},"Fields":{"BID":1,"ASK":2}}}
{"at":1,"message":{"ID":5,"Type":"Update","UpdateType":"Trade","Fields":{"BID":3}}}
{"at":1,"item":"TRI.N","message":{"ID":6,"Type":"Update","Fields":{"BID":9}}}
{"at":2,"message":{"ID":5,"Type":"Status","State":{"Stream":"Open","Data":"Suspect","Text":"gone"}}}
{"at":2,"message":{"ID":5,"Type":"Status","State":{"Stream":"Closed","Data":"Suspect"}}}
{"at":3,"message":{"ID":5,"Type":"Refresh","Solicited":false,"Key":{"Name":"IBM.N"},"Fields":{"BID":4}}}"#;

    fn recording(pace: ReplaySpeed, repeat: bool) -> Recording {
        let file = DataFile::parse(FILE, &Dictionary::builtin()).unwrap();
        Recording::new(file, ReplayConfig { pace, repeat, ..ReplayConfig::default() })
    }

    fn played(recording: &mut Recording, now: Nanos, limit: usize) -> Vec<(u32, Payload)> {
        let mut told = Vec::new();
        recording.advance(now, limit, &mut |event| told.push((event.instrument.0, event.payload)));
        told
    }

    fn bid(recording: &mut Recording, id: InstrumentId) -> Vec<u8> {
        let mut out = Vec::new();
        recording.image(id, Model::Price, 0, &mut out);
        let list = rwf::FieldList::decode(&out, &rwf::SetScope::default()).unwrap();
        list.entries().flatten().find(|e| e.fid == 22).map(|e| e.data.to_vec()).unwrap_or_default()
    }

    #[test]
    fn events_come_in_recorded_time_and_images_follow_them() {
        let mut played_back = recording(ReplaySpeed::Scaled(2.0), true);
        let ibm = played_back.find("IBM.N").unwrap();
        assert!(played_back.offers(ibm, Model::Price) && !played_back.offers(ibm, Model::ByOrder));
        let first = bid(&mut played_back, ibm);
        played_back.watch(ibm, Model::Price, true);
        // Whoever opened it has the first image.
        assert_eq!(played(&mut played_back, SECOND / 2 - 1, 99), []);
        assert_eq!(played(&mut played_back, SECOND / 2, 99), [(0, Payload::Typed(2))]);
        assert_ne!(bid(&mut played_back, ibm), first);
        assert_eq!(played(&mut played_back, SECOND, 99), [(0, Payload::Status)]);
        assert_eq!(played_back.data_state(ibm, Model::Price), DataState::SUSPECT, "also for those who come now");
        assert_eq!(played(&mut played_back, SECOND * 3 / 2, 99), [(0, Payload::NewImage)]);
        assert_eq!(played_back.data_state(ibm, Model::Price), DataState::OK);
        // The pause is two seconds; then the first image comes again.
        assert_eq!(played_back.due(), Some(SECOND * 7 / 2));
        assert_eq!(played(&mut played_back, SECOND * 7 / 2, 9), [(0, Payload::NewImage)], "once");
        assert_eq!(bid(&mut played_back, ibm), first);
    }

    #[test]
    fn without_repetition_it_ends_and_unpaced_it_waits_for_watchers() {
        let mut played_back = recording(ReplaySpeed::Unpaced, false);
        assert_eq!(played_back.due(), None);
        let tri = played_back.find("TRI.N").unwrap();
        played_back.watch(tri, Model::Price, true);
        assert_eq!(played(&mut played_back, 0, 99), [(1, Payload::Typed(0))]);
        assert_eq!((played_back.due(), played_back.find("X")), (None, None));
    }
}
