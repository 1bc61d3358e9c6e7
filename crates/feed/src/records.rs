//! Raw Marketfeed as a market source: records from FS to FS that are told as they come.
//!
//! Whoever reads them (from a socket, a pipe) hands the bytes over through a channel with a bound; nothing here waits.

use super::datafile::convert_record;
use super::image::Image;
use super::session::Nanos;
use super::{Event, InstrumentId, MarketSource, Model, Payload};
use marketfeed::{Converter, Options, Scan, scan};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, StatusMsg};
use rwf::{DataState, DataType, State, StateCode, StreamState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// A reader's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes of records, cut anywhere.
    Bytes(Vec<u8>),
    /// The records have come to an end, or to a gap: why. What is known of the items is not good any more.
    Lost(String),
}

/// A record longer than this is none, bytes.
const RECORD_MAX: usize = 1 << 20;

/// Items whose records come from outside.
pub struct RecordStream {
    dictionary: Arc<Dictionary>,
    converter: Converter,
    arrivals: Receiver<Arrival>,
    /// Bytes that have come and were not told of; `at` is how far that is done.
    bytes: Vec<u8>,
    at: usize,
    /// Whether there may be more to tell at once.
    is_behind: bool,
    /// Whether names are taken of which no record has come.
    takes_any: bool,
    by_name: HashMap<String, u32>,
    names: Vec<String>,
    items: Vec<Item>,
    message: Vec<u8>,
    image: Vec<u8>,
    /// Records that could not be read, or that RWF knows nothing of.
    skipped: u64,
}

struct Item {
    now: Image,
    data: DataState,
    is_watched: bool,
}

impl RecordStream {
    /// A stream without items. With `takes_any`, items may be opened before their first record: they have no fields until it comes.
    pub fn new(dictionary: Arc<Dictionary>, arrivals: Receiver<Arrival>, takes_any: bool) -> Self {
        Self {
            dictionary,
            converter: Converter::new(Options::default()),
            arrivals,
            bytes: Vec::new(),
            at: 0,
            is_behind: false,
            takes_any,
            by_name: HashMap::new(),
            names: Vec::new(),
            items: Vec::new(),
            message: Vec::new(),
            image: Vec::new(),
            skipped: 0,
        }
    }

    fn id_of(&mut self, name: &str) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.items.len() as u32;
        self.items.push(Item {
            now: Image::of(DataType::FIELD_LIST, &[]),
            // Nothing is known of the item yet.
            data: DataState::SUSPECT,
            is_watched: false,
        });
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Tells the record that lies at `start..end` of the bytes.
    fn tell(&mut self, start: usize, end: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let mut message = std::mem::take(&mut self.message);
        let name = convert_record(&mut self.converter, &self.dictionary, &self.bytes[start..end], &mut message);
        match (name, Msg::decode(&message)) {
            (Ok(name), Ok(msg)) => self.take(&name, &msg, sink),
            _ => self.skipped += 1,
        }
        self.message = message;
    }

    fn take(&mut self, name: &str, msg: &Msg<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        let id = self.id_of(name);
        let item = &mut self.items[id as usize];
        let (instrument, model) = (InstrumentId(id), Model::Price);
        match msg {
            Msg::Refresh(refresh) => {
                item.now = Image::of(refresh.container, refresh.body);
                item.data = DataState::OK;
                if item.is_watched {
                    self.image.clear();
                    item.now.append(&mut self.image);
                    sink(Event { instrument, model, payload: Payload::NewImage, body: &self.image });
                }
            }
            Msg::Update(update) => {
                item.now.apply(update.container, update.body);
                if item.is_watched {
                    let payload = Payload::Typed(update.update_type.0);
                    sink(Event { instrument, model, payload, body: update.body });
                }
            }
            Msg::Status(status) => {
                let text = status.state.map(|state| state.text).filter(|text| !text.is_empty());
                item.suspect(instrument, text.unwrap_or(b"dropped by the source of records"), sink);
            }
            _ => self.skipped += 1,
        }
    }

    /// Nobody knows any more how the items are.
    fn lost(&mut self, why: &str, sink: &mut dyn FnMut(Event<'_>)) {
        self.skipped += u64::from(self.at < self.bytes.len());
        self.bytes.clear();
        self.at = 0;
        for (id, item) in self.items.iter_mut().enumerate() {
            item.suspect(InstrumentId(id as u32), why.as_bytes(), sink);
        }
    }

    /// Takes over what has come; false when there is nothing.
    fn receive(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> bool {
        self.bytes.drain(..self.at);
        self.at = 0;
        if self.bytes.len() > RECORD_MAX {
            self.bytes.clear();
            self.skipped += 1;
        }
        match self.arrivals.try_recv() {
            Ok(Arrival::Bytes(bytes)) => self.bytes.extend_from_slice(&bytes),
            Ok(Arrival::Lost(why)) => self.lost(&why, sink),
            Err(_) => return false,
        }
        true
    }
}

impl Item {
    /// The item stays open: its records may come again. A drop ends what is known of it, not the streams of those who watch.
    fn suspect(&mut self, instrument: InstrumentId, text: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        self.data = DataState::SUSPECT;
        if !self.is_watched {
            return;
        }
        let state = State { stream: StreamState::OPEN, data: DataState::SUSPECT, code: StateCode::NONE, text };
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0) };
        let mut body = Vec::new();
        super::fields::append(&mut body, text.len() + 64, |w| status.encode(w));
        sink(Event { instrument, model: Model::Price, payload: Payload::Status, body: &body });
    }
}

impl MarketSource for RecordStream {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        if self.takes_any {
            return Some(InstrumentId(self.id_of(name)));
        }
        self.by_name.get(name).copied().map(InstrumentId)
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        model == Model::Price
    }

    fn image(&mut self, id: InstrumentId, _: Model, _: usize, out: &mut Vec<u8>) -> bool {
        self.items[id.0 as usize].now.append(out);
        false
    }

    fn data_state(&self, id: InstrumentId, _: Model) -> DataState {
        self.items[id.0 as usize].data
    }

    fn watch(&mut self, id: InstrumentId, _: Model, on: bool) {
        self.items[id.0 as usize].is_watched = on;
    }

    fn due(&self) -> Option<Nanos> {
        self.is_behind.then_some(0)
    }

    fn symbols(&self) -> Vec<String> {
        self.names.clone()
    }

    fn advance(&mut self, _: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let mut told = 0;
        while told < limit {
            match scan(&self.bytes[self.at..]) {
                Scan::Message { start, end } => {
                    self.tell(self.at + start, self.at + end, sink);
                    self.at += end;
                    told += 1;
                    continue;
                }
                Scan::Partial { start } => self.at += start,
                Scan::Nothing => self.at = self.bytes.len(),
            }
            if !self.receive(sink) {
                self.is_behind = false;
                return;
            }
        }
        self.is_behind = true;
    }

    fn remarks(&self) -> Option<String> {
        let losses = self.converter.losses();
        let is_whole = self.skipped == 0 && losses.kinds() == 0;
        (!is_whole).then(|| format!("{} records were left out; fields lost on the way to RWF:\n{losses}", self.skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::append_fields;
    use std::sync::mpsc::{SyncSender, sync_channel};

    const IMAGE: &[u8] = b"\x1c340\x1fXX\x1dGBP=\x1f77\x1f1\x1e315\x1fGBP 1.5520\x1c";
    const UPDATE: &[u8] = b"\x1c316\x1fXX\x1dGBP=\x1f2\x1e315\x1f\x1b[8`73\x1c";
    const STATUS: &[u8] = b"\x1c407\x1fXX\x1dGBP=\x1f3\x1d9\x1eline down\x1c";

    fn stream(takes_any: bool) -> (SyncSender<Arrival>, RecordStream) {
        let (sender, arrivals) = sync_channel(16);
        (sender, RecordStream::new(Arc::new(Dictionary::builtin()), arrivals, takes_any))
    }

    /// Payloads told, and the texts of statuses.
    fn told(stream: &mut RecordStream, limit: usize) -> Vec<(Payload, String)> {
        let mut told = Vec::new();
        stream.advance(0, limit, &mut |event| {
            let text = match Msg::decode(event.body) {
                Ok(Msg::Status(status)) if event.payload == Payload::Status => status.state.unwrap().text.to_vec(),
                _ => Vec::new(),
            };
            told.push((event.payload, String::from_utf8(text).unwrap()));
        });
        told
    }

    fn image(stream: &mut RecordStream, id: InstrumentId) -> Vec<u8> {
        let mut out = Vec::new();
        stream.image(id, Model::Price, 0, &mut out);
        out
    }

    fn row(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append_fields(&mut out, |w| w.raw(315, text));
        out
    }

    #[test]
    fn records_are_told_as_they_come_however_they_are_cut() {
        let all = [IMAGE, b"\r\n", UPDATE, STATUS].concat();
        for cut in 1..all.len() {
            let (sender, mut stream) = stream(true);
            let item = stream.find("GBP=").unwrap();
            assert_eq!(stream.data_state(item, Model::Price), DataState::SUSPECT, "nothing has come");
            stream.watch(item, Model::Price, true);
            sender.send(Arrival::Bytes(all[..cut].to_vec())).unwrap();
            let mut events = told(&mut stream, 99);
            sender.send(Arrival::Bytes(all[cut..].to_vec())).unwrap();
            events.extend(told(&mut stream, 99));
            let plain = |payload| (payload, String::new());
            let status = (Payload::Status, "line down".to_owned());
            assert_eq!(events, [plain(Payload::NewImage), plain(Payload::Typed(0)), status], "cut at {cut}");
            assert_eq!(image(&mut stream, item), row(b"GBP 1.5573"), "edited");
            assert_eq!((stream.data_state(item, Model::Price), stream.remarks()), (DataState::SUSPECT, None));
        }
    }

    #[test]
    fn a_turn_tells_as_much_as_it_may_and_the_rest_is_due_at_once() {
        let (sender, mut stream) = stream(false);
        sender.send(Arrival::Bytes([IMAGE, UPDATE, UPDATE].concat())).unwrap();
        assert_eq!((stream.find("GBP="), stream.due()), (None, None), "no record has come");
        told(&mut stream, 1);
        let item = stream.find("GBP=").unwrap();
        assert_eq!((stream.data_state(item, Model::Price), stream.due()), (DataState::OK, Some(0)));
        stream.watch(item, Model::Price, true);
        assert_eq!((told(&mut stream, 9).len(), stream.due()), (2, None));
        assert_eq!(stream.symbols(), ["GBP="]);
    }

    #[test]
    fn a_gap_makes_items_suspect_until_their_next_image_and_what_is_no_record_is_counted() {
        let (sender, mut stream) = stream(true);
        let item = stream.find("GBP=").unwrap();
        stream.watch(item, Model::Price, true);
        let half = &UPDATE[..9];
        sender.send(Arrival::Bytes([IMAGE, b"\x1c316\x1c", half].concat())).unwrap();
        sender.send(Arrival::Lost("the line is down".to_owned())).unwrap();
        sender.send(Arrival::Bytes(UPDATE.to_vec())).unwrap();
        let events = told(&mut stream, 99);
        assert_eq!(events.last().unwrap().0, Payload::Typed(0), "the half of before is not read with what came after");
        assert!(events.contains(&(Payload::Status, "the line is down".to_owned())), "{events:?}");
        assert_eq!(stream.data_state(item, Model::Price), DataState::SUSPECT);
        sender.send(Arrival::Bytes(IMAGE.to_vec())).unwrap();
        assert_eq!((told(&mut stream, 99).len(), stream.data_state(item, Model::Price)), (1, DataState::OK));
        // A line that is no record, and one that was cut off.
        assert!(stream.remarks().unwrap().starts_with("2 records"));
        // Bytes that never end in a record are not kept.
        sender.send(Arrival::Bytes([b"\x1c316", &vec![b'x'; RECORD_MAX][..]].concat())).unwrap();
        assert!(told(&mut stream, 99).is_empty() && stream.bytes.is_empty());
        sender.send(Arrival::Bytes(IMAGE.to_vec())).unwrap();
        assert_eq!(told(&mut stream, 99).len(), 1);
    }
}
